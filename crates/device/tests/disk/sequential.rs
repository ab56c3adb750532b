//! Streams: the media rate, the read cache, attaching to a prefetch.

use hoistway_block::{Extent, Flags, Nanos, Operation};
use hoistway_device::{Completion, Device, Disk, NEVER};

use crate::driver::{HOST_NS, closed_loop, disk, sata, sequential, submit};
use crate::{assert_near, dd};

#[test]
fn t14_a_stream_runs_at_media_rate() {
    for (share, rate) in [(0.0, 63.3), (0.5, 54.1), (0.98, 43.7)] {
        let first = (488_282_256.0 * share) as u64 / 8 * 8;
        for depth in [32, 1] {
            let parameters = sata().with(|disk| disk.firmware.depth = depth);
            let sum = dd::run(&parameters, 1, &[first], 1_024).sum();
            assert_near(&format!("MB/s at {share}, depth {depth}"), sum, rate, 0.01);
        }
    }
}

fn small_reads_mb_per_s(readahead_kib: u64, count: usize) -> f64 {
    let mut disk = disk(&sata().with(|disk| disk.reading.readahead_kib = readahead_kib), 1);
    closed_loop(&mut disk, 1, count, sequential(Operation::Read, 0, 8)).per_second() * 4_096e-6
}

#[test]
fn t16_small_sequential_reads_live_from_the_prefetch() {
    let with = small_reads_mb_per_s(512, 10_000);
    assert!((40.0..50.0).contains(&with), "{with} MB/s");
    let without = small_reads_mb_per_s(0, 2_000);
    assert!((0.480..0.500).contains(&without), "one revolution each: {without} MB/s");
}

#[test]
fn t17_a_block_read_again_costs_overhead_and_link() {
    let mut disk = disk(&sata(), 1);
    let block = (Operation::Read, Extent::new(1_000_000, 8), Flags::NONE);
    let outcome = closed_loop(&mut disk, 1, 50, |_| block);
    assert!(outcome.latencies_ns[1..].iter().all(|latency| *latency == 60_000 + 16_384), "{:?}", outcome.latencies_ns);
}

/// Runs the disk until the one command in flight completes.
fn completion(disk: &mut Disk) -> Completion {
    let mut completions = Vec::new();
    while completions.is_empty() {
        let event = disk.next_event();
        assert_ne!(event, NEVER);
        disk.advance(event, &mut completions);
    }
    completions[0]
}

#[test]
fn t25_a_read_attaches_to_the_running_prefetch() {
    const TRACK_SECTORS: Nanos = 1_157;
    const TURN_NS: Nanos = 8_333_333;
    let mut disk = disk(&sata(), 1);
    submit(&mut disk, 0, 0, Operation::Read, Extent::new(0, 8), Flags::NONE);
    let first_at = completion(&mut disk).at_ns;
    // Ready 300 us later: the head is at about sector 41, in the middle of the range.
    submit(&mut disk, first_at + 100_000, 1, Operation::Read, Extent::new(16, 512), Flags::NONE);
    let attached = completion(&mut disk);
    let expected = first_at + 520 * TURN_NS / TRACK_SECTORS;
    assert_eq!(attached.tag, 1);
    assert!(attached.at_ns.abs_diff(expected) <= 2, "{} instead of {expected}", attached.at_ns);
    // A read whose sectors the head has not reached yet does not continue the prefetch: it waits
    // until the platter has turned to them.
    submit(&mut disk, attached.at_ns, 2, Operation::Read, Extent::new(1_000, 8), Flags::NONE);
    let ahead = completion(&mut disk);
    assert!(ahead.at_ns.abs_diff(first_at + 1_000 * TURN_NS / TRACK_SECTORS) <= 2, "{ahead:?}");
}

#[test]
fn a_prefetch_stops_at_its_limit_and_goes_on_with_the_next_hit() {
    let mut disk = disk(&sata(), 1);
    let mut now = 0;
    let mut read = |disk: &mut Disk, first, pause: Nanos| {
        submit(disk, now + pause, 0, Operation::Read, Extent::new(first, 8), Flags::NONE);
        let completion = completion(disk);
        let latency = completion.at_ns - now - pause;
        now = completion.at_ns;
        latency
    };
    let hit = 60_000 + 16_384;
    assert!(read(&mut disk, 0, 0) > hit);
    // 512 KiB after the read are cached after 20 ms, and no more than that.
    assert_eq!(read(&mut disk, 8 + 1_024 - 8, 20_000_000), hit);
    // That hit left less than half of the look-ahead, so the next 512 KiB are read.
    assert_eq!(read(&mut disk, 2 * 1_024, 40_000_000), hit);
    assert!(read(&mut disk, 10_000, 40_000_000) > hit);
}

#[test]
fn a_drive_with_nothing_to_read_becomes_idle() {
    let mut disk = disk(&sata(), 1);
    submit(&mut disk, HOST_NS, 0, Operation::Read, Extent::new(488_282_248, 8), Flags::NONE);
    completion(&mut disk);
    assert_eq!((disk.next_event(), disk.is_idle()), (NEVER, true), "nothing lies behind the last sector");
    submit(&mut disk, 1 << 30, 0, Operation::Read, Extent::new(0, 8), Flags::NONE);
    completion(&mut disk);
    assert!(!disk.is_idle(), "it reads on");
    disk.advance(disk.next_event(), &mut Vec::new());
    assert_eq!((disk.next_event(), disk.is_idle()), (NEVER, true));
}
