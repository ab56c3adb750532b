//! Faults in front of every model: each command completes once, in order of time, and runs replay.

mod closed_loop;

use closed_loop::{device, submit};
use hoistway_block::random::{Stream, fnv1a64, fnv1a64_continued};
use hoistway_block::{Extent, Nanos, Operation, Status};
use hoistway_device::{Device, MODELS, NEVER};

/// The results of a run: commands by status, the last completion, and a checksum of time, tag and
/// status of each.
#[derive(PartialEq, Eq, Debug, Default)]
struct Ends {
    ok: u64,
    errors: u64,
    timeouts: u64,
    last_ns: Nanos,
    checksum: u64,
}

/// Keeps reads, writes and flushes in flight until `commands` have completed, then lets the device
/// become idle.
fn drive(text: &str, commands: u64) -> Ends {
    let mut device = device(text);
    let depth = u32::try_from(device.info().total_depth().min(16)).unwrap();
    let blocks = device.info().capacity_sectors / 8;
    let mut stream = Stream::new(11);
    let mut ends = Ends { checksum: fnv1a64(b""), ..Ends::default() };
    let (mut now, mut started) = (0, 0);
    let mut in_flight = vec![false; depth as usize];
    let mut out = Vec::new();
    loop {
        for tag in 0..depth {
            if started < commands && !in_flight[tag as usize] {
                let operation = match stream.below(20) {
                    0 => Operation::Flush,
                    1..=6 => Operation::Write,
                    _ => Operation::Read,
                };
                let sectors = if operation == Operation::Flush { 0 } else { 8 };
                // Half of them within the ranges that are bad or slow.
                let range = if stream.chance(1, 2) { 2_048 } else { blocks };
                submit(&mut device, now, tag, operation, Extent::new(stream.below(range) * 8, sectors));
                in_flight[tag as usize] = true;
                started += 1;
            }
        }
        now = device.next_event().max(now);
        if now == NEVER {
            break;
        }
        device.advance(now, &mut out);
        for completion in out.drain(..) {
            assert!(std::mem::take(&mut in_flight[completion.tag as usize]), "{text}: answered twice");
            assert!((ends.last_ns..=now).contains(&completion.at_ns), "{text}: {completion:?} out of order");
            ends.last_ns = completion.at_ns;
            match completion.status {
                Status::Ok => ends.ok += 1,
                Status::IoError => ends.errors += 1,
                Status::Timeout => ends.timeouts += 1,
                other => panic!("{text}: {other:?}"),
            }
            for bytes in [completion.at_ns, u64::from(completion.tag), completion.status as u64] {
                ends.checksum = fnv1a64_continued(ends.checksum, &bytes.to_le_bytes());
            }
        }
        if started == commands && !in_flight.contains(&true) {
            break;
        }
    }
    assert_eq!(in_flight.iter().position(|&is_open| is_open), None, "{text}: never answered");
    assert_eq!(ends.ok + ends.errors + ends.timeouts, commands, "{text}");
    assert_eq!(device.counters().errors, ends.errors + ends.timeouts, "{text}");
    ends
}

#[test]
fn every_model_answers_every_command_once_whatever_happens() {
    let faults = "error_ppm=5000,bad_first_sector=0,bad_sectors=512,slow_first_sector=8192,slow_sectors=4096,slow_ms=3,\
                  stall_ppm=1000,stall_ms=20,hiccup_every_ms=15,hiccup_ms=4,reset_ppm=2000,reset_ms=30";
    for row in MODELS {
        let text = format!("{},{faults}", row.name);
        let ends = drive(&text, 3_000);
        // A reset drops what is in flight, which is one command on a device of depth 1.
        let least = if device(row.name).info().depth == 1 { 2 } else { 20 };
        assert!(ends.ok > 2_000 && ends.errors > 50 && ends.timeouts > least, "{text}: {ends:?}");
        assert_eq!(ends, drive(&text, 3_000), "{text}");
        assert_ne!(ends.checksum, drive(&format!("{text},seed=2"), 3_000).checksum, "{text}");
    }
}

/// A fault that takes time reduces every model's throughput. Stalls and resets last 400 ms, because
/// a disk has 100 ms of queued work, which a stall does not interrupt and which a reset cancels.
#[test]
fn every_model_is_slower_with_each_fault_that_takes_time() {
    for row in MODELS {
        let sound = drive(row.name, 2_000).last_ns;
        for fault in [
            "slow_first_sector=0,slow_sectors=16384,slow_ms=30",
            "stall_ppm=5000,stall_ms=400",
            "hiccup_every_ms=1,hiccup_ms=3",
            "reset_ppm=5000,reset_ms=400",
        ] {
            let text = format!("{},{fault}", row.name);
            let faulty = drive(&text, 2_000).last_ns;
            assert!(faulty > sound + sound / 50, "{text}: {faulty} against {sound}");
        }
    }
}
