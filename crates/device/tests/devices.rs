//! The properties of each model, measured with a closed loop.

mod closed_loop;

use closed_loop::{device, random, random_reads, run, sequential, submit};
use hoistway_block::{Extent, Operation, Status};
use hoistway_device::{Command, Device, NEVER, Submit};

#[test]
fn core_1_the_same_seed_gives_the_same_completion_log_and_another_seed_another() {
    let checksum = |text: &str| {
        let mut device = device(text);
        let next = random_reads(&device, 5);
        run(&mut device, 16, 20_000, next).checksum
    };
    for model in ["ssd", "nvme", "sata", "ssd,error_ppm=1000,stall_ppm=50,stall_ms=20,reset_ppm=20,reset_ms=100"] {
        assert_eq!(checksum(model), checksum(model), "{model}");
        assert_ne!(checksum(model), checksum(&format!("{model},seed=2")), "{model}");
    }
}

#[test]
fn core_5_littles_law_holds_in_every_model() {
    for (model, depth, count) in [("null", 8, 50_000), ("ssd", 8, 50_000), ("nvme", 64, 50_000), ("sata", 32, 40_000)] {
        let mut device = device(model);
        let next = random_reads(&device, 1);
        let outcome = run(&mut device, depth, count, next);
        let product = outcome.per_second() * outcome.mean_latency_us() / 1e6;
        let error = (product / f64::from(depth) - 1.0).abs();
        assert!(error < 0.005, "{model}: IOPS x latency = {product}, depth {depth}");
    }
}

#[test]
fn null_without_servers_answers_each_command_after_its_latency() {
    let mut device = device("null,latency_us=10");
    let next = random_reads(&device, 1);
    let outcome = run(&mut device, 64, 64_000, next);
    // 64 per 10 us.
    assert_eq!(outcome.elapsed_ns, 10_000 * 1_000);
}

#[test]
fn null_with_servers_queues_inside() {
    let mut device = device("null,latency_us=10,servers=4");
    let next = random_reads(&device, 1);
    let outcome = run(&mut device, 64, 64_000, next);
    assert_eq!(outcome.elapsed_ns, 10_000 * 16_000, "4 per 10 us");
}

#[test]
fn null_caps_are_exact_in_the_long_run() {
    // 3,000,000 requests/s: 333.333.. ns each, so 64,000 of them begin within 21,333,333 - 333 ns,
    // and take 10 us more.
    let mut capped = device("null,latency_us=10,iops=3000000");
    let next = random_reads(&capped, 1);
    let elapsed = run(&mut capped, 64, 64_000, next).elapsed_ns;
    assert!(elapsed.abs_diff(21_343_000) < 50, "{elapsed}");
    // 100 MB/s: 40,960 ns per 4 KiB.
    let mut capped = device("null,latency_us=10,mbps=100");
    let next = random_reads(&capped, 1);
    let elapsed = run(&mut capped, 64, 1_000, next).elapsed_ns;
    assert_eq!(elapsed, 40_960 * 999 + 10_000);
}

#[test]
fn null_inline_answers_at_the_time_of_submission() {
    let mut device = device("null,inline=1");
    submit(&mut device, 123, 0, Operation::Write, Extent::new(0, 8));
    assert_eq!(device.next_event(), 123);
}

#[test]
fn the_ssd_saturates_at_its_link() {
    let rate = |depth| {
        let mut device = device("ssd-lsi");
        let next = random_reads(&device, 1);
        run(&mut device, depth, 50_000, next).per_second()
    };
    let (one, four, thirty_two) = (rate(1), rate(4), rate(32));
    assert!((3.7..4.0).contains(&(four / one)), "below saturation depth nearly multiplies: {one} {four}");
    // 520 MB/s / 4096 B.
    assert!((thirty_two / 126_950.0 - 1.0).abs() < 0.01, "{thirty_two}");
}

#[test]
fn large_reads_are_bound_by_the_link() {
    let mut device = device("ssd-lsi");
    let outcome = run(&mut device, 8, 2_000, sequential(Operation::Read, 256));
    let mbps = outcome.per_second() * 256.0 * 512.0 / 1e6;
    assert!((mbps / 520.0 - 1.0).abs() < 0.01, "{mbps}");
}

#[test]
fn an_ssd_flush_comes_behind_the_programs_of_all_completed_writes() {
    let mut device = device("ssd");
    for tag in 0..8 {
        submit(&mut device, 0, tag, Operation::Write, Extent::new(u64::from(tag) * 800, 8));
    }
    let mut completions = Vec::new();
    device.advance(400_000, &mut completions);
    assert_eq!(completions.len(), 8, "writes complete in the buffer");
    submit(&mut device, 400_000, 8, Operation::Flush, Extent::new(0, 0));
    device.advance(1_000_000_000, &mut completions);
    // The last of them is being programmed, which takes 900 us after its transfer over the channel.
    assert_eq!((completions.len(), completions[8].tag), (9, 8));
    assert!((900_000..2_000_000).contains(&completions[8].at_ns), "{completions:?}");
}

#[test]
fn a_full_device_says_busy_and_forgets_the_command() {
    for model in [
        "null,qd=2",
        "ssd,qd=2",
        "sata,qd=2",
        "ssd,qd=2,read_delay_us=5",
        "ssd,qd=2,cap_iops=900,cap_burst_iops=9000,cap_burst_ios=9",
        "ssd,qd=2,slc_mib=1,slc_fold_MBps=9",
        "ssd,qd=2,error_ppm=1",
    ] {
        let mut device = device(model);
        submit(&mut device, 0, 0, Operation::Read, Extent::new(0, 8));
        submit(&mut device, 0, 1, Operation::Read, Extent::new(8, 8));
        let flags = hoistway_block::Flags::NONE;
        let (extent, hardware_queue) = (Extent::new(16, 8), hoistway_block::HardwareQueue(0));
        let third = Command { tag: 2, operation: Operation::Read, flags, extent, hardware_queue };
        assert_eq!(device.submit(0, &third), Submit::Busy, "{model}");
        let mut completions = Vec::new();
        device.advance(1_000_000_000, &mut completions);
        assert_eq!(completions.len(), 2, "{model}");
        assert!(device.is_idle() && device.next_event() == NEVER, "{model}");
    }
}

#[test]
fn a_command_beyond_the_end_fails_in_every_model() {
    for model in ["null", "ssd", "sata"] {
        let mut device = device(model);
        let end = device.info().capacity_sectors;
        submit(&mut device, 0, 0, Operation::Read, Extent::new(end - 4, 8));
        submit(&mut device, 0, 1, Operation::Passthrough, Extent::new(0, 8));
        let mut completions = Vec::new();
        device.advance(1_000_000_000, &mut completions);
        completions.sort_by_key(|completion| completion.tag);
        assert_eq!((completions[0].status, completions[1].status), (Status::IoError, Status::NotSupported), "{model}");
    }
}

#[test]
fn a_sequential_reader_gets_the_media_rate_of_the_disk() {
    // 1,157 sectors a track, six heads, switches of 0.9 and 1.5 ms.
    let mut disk = device("sata");
    let outcome = run(&mut disk, 2, 2_000, sequential(Operation::Read, 256));
    let mbps = outcome.per_second() * 256.0 * 512.0 / 1e6;
    assert!((mbps / 63.3 - 1.0).abs() < 0.01, "{mbps}");
}

#[test]
fn a_random_read_costs_overhead_and_a_seek_and_half_a_turn() {
    // 0.2 + 9.0 + 8.33 / 2 + 0.07 ms.
    let mut disk = device("sata");
    let next = random_reads(&disk, 3);
    let latency = run(&mut disk, 1, 5_000, next).mean_latency_us();
    assert!((latency / 13_430.0 - 1.0).abs() < 0.02, "{latency}");
}

#[test]
fn ncq_raises_random_throughput_and_arrival_order_does_not() {
    let rate = |text: &str, depth| {
        let mut disk = device(text);
        let next = random_reads(&disk, 3);
        run(&mut disk, depth, 3_000, next).per_second()
    };
    let (one, ncq, fifo) = (rate("sata", 1), rate("sata", 32), rate("sata,ncq=0", 32));
    assert!(ncq > 2.0 * one, "{one} -> {ncq}");
    assert!(fifo < 1.1 * one, "{one} -> {fifo}");
}

#[test]
fn a_disk_flush_waits_for_what_came_before_and_holds_nothing_up() {
    let mut disk = device("sata");
    submit(&mut disk, 0, 0, Operation::Write, Extent::new(400_000_000, 8));
    submit(&mut disk, 0, 1, Operation::Write, Extent::new(100_000_000, 8));
    submit(&mut disk, 0, 2, Operation::Flush, Extent::new(0, 0));
    submit(&mut disk, 0, 3, Operation::Write, Extent::new(0, 8));
    let mut completions = Vec::new();
    disk.advance(10_000_000_000, &mut completions);
    let order: Vec<_> = completions.iter().map(|completion| completion.tag).collect();
    assert_eq!((order.len(), order[3]), (4, 2), "{order:?}");
    // Two positionings, at most four revolutions and two long seeks; the writes themselves are
    // cached.
    assert!((5_000_000..70_000_000).contains(&completions[3].at_ns), "{completions:?}");
    assert!(completions[2].at_ns < 1_000_000, "{completions:?}");
}

#[test]
fn errors_come_at_their_rate_and_in_their_range() {
    let mut faulty = device("ssd,error_ppm=100000");
    let next = random(&faulty, Operation::Write, 1);
    let outcome = run(&mut faulty, 8, 50_000, next);
    let rate = outcome.errors as f64 / outcome.completed as f64;
    // Four standard deviations of 50,000 draws at 0.1.
    assert!((rate - 0.1).abs() < 0.0054, "{rate}");

    let mut bad = device("ssd,bad_first_sector=1000,bad_sectors=8");
    for (tag, first_sector) in [(0, 992), (1, 993), (2, 1007), (3, 1008)] {
        submit(&mut bad, 0, tag, Operation::Read, Extent::new(first_sector, 8));
    }
    let mut completions = Vec::new();
    bad.advance(1_000_000_000, &mut completions);
    let mut failed: Vec<_> = completions.iter().filter(|c| !c.status.is_ok()).map(|c| c.tag).collect();
    failed.sort_unstable();
    assert_eq!(failed, [1, 2]);
}

#[test]
fn a_reset_times_out_everything_in_flight_once() {
    let mut device = device("ssd,reset_ppm=1000000,reset_ms=100");
    for tag in 0..8 {
        submit(&mut device, 0, tag, Operation::Read, Extent::new(u64::from(tag) * 8, 8));
    }
    let mut completions = Vec::new();
    device.advance(99_999_999, &mut completions);
    assert_eq!(completions, []);
    device.advance(10_000_000_000, &mut completions);
    assert_eq!(completions.len(), 8);
    assert!(completions.iter().all(|c| c.at_ns == 100_000_000 && c.status == Status::Timeout));
    assert!(device.is_idle());
}

#[test]
fn nothing_completes_during_a_stall() {
    let mut device = device("ssd,stall_ppm=1000000,stall_ms=50");
    submit(&mut device, 0, 0, Operation::Read, Extent::new(0, 8));
    assert_eq!(device.next_event(), 50_000_000);
    let mut completions = Vec::new();
    device.advance(50_000_000, &mut completions);
    assert_eq!((completions.len(), completions[0].status), (1, Status::Ok));
}

/// The engine's real clock oversleeps: late reports have the original times, and nothing else
/// changes.
#[test]
fn late_calls_change_no_completion_time() {
    let times = |step_ns: u64| {
        let mut device = device("sata");
        for tag in 0..16 {
            submit(&mut device, 0, tag, Operation::Read, Extent::new(u64::from(tag) * 7_654_321, 8));
        }
        let mut completions = Vec::new();
        for call in 1..=1_000_000_000 / step_ns {
            device.advance(call * step_ns, &mut completions);
        }
        completions
    };
    assert_eq!(times(10_000), times(100_000_000));
}
