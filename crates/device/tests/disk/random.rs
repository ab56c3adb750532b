//! Random reads: positioning, the gain of NCQ, ageing.

use hoistway_block::{Extent, Flags, Nanos, Operation};
use hoistway_device::DiskParameters;

use crate::assert_near;
use crate::driver::{HOST_NS, Outcome, closed_loop, disk, host_queue, random, sata};

fn reads(depth: u32, sectors: u32, share: f64, count: usize) -> Outcome {
    let mut disk = disk(&sata(), 1);
    let next = random(&disk, Operation::Read, sectors, share, 5);
    closed_loop(&mut disk, depth, count, next)
}

#[test]
fn t01_a_seed_decides_the_completion_log() {
    let log = |seed| {
        let mut disk = disk(&sata(), seed);
        let next = random(&disk, Operation::Read, 8, 1.0, 5);
        closed_loop(&mut disk, 16, 3_000, next).done_at
    };
    assert_eq!(log(1), log(1));
    assert_ne!(log(1), log(2));
}

#[test]
fn t05_littles_law() {
    for depth in [1, 8, 32] {
        let outcome = reads(depth, 8, 1.0, 20_000);
        let in_loop_s = outcome.mean_ms() / 1e3 + HOST_NS as f64 / 1e9;
        assert_near("commands in the loop", outcome.per_second() * in_loop_s, f64::from(depth), 0.005);
    }
}

#[test]
fn t10_one_random_read_at_a_time() {
    let outcome = reads(1, 8, 1.0, 20_000);
    assert_near("IOPS", outcome.per_second(), 74.6, 0.02);
    assert_near("mean", outcome.mean_ms(), 13.4, 0.02);
    assert_near("p1", outcome.percentile_ms(0.01), 4.5, 0.03);
    assert_near("p50", outcome.percentile_ms(0.50), 13.3, 0.02);
    assert_near("p99", outcome.percentile_ms(0.99), 22.9, 0.02);
    assert!(outcome.max_ms() < 26.5, "{}", outcome.max_ms());
}

/// Cylinder of a sector on the default disk, computed independently.
fn cylinder(sector: u64) -> u64 {
    let mut first = 0;
    for zone in 0..16 {
        let track_sectors = (1_157.0 - 357.0 * zone as f64 / 15.0).round() as u64;
        let end = first + 6 * 5_199 * track_sectors;
        if sector < end {
            return zone * 5_199 + (sector - first) / (6 * track_sectors);
        }
        first = end;
    }
    unreachable!("beyond the disk")
}

#[test]
fn t10_latency_less_seek_is_the_uniform_rotation() {
    let mut disk = disk(&sata().with(|disk| disk.seeks.seek_jitter_ns = 0), 1);
    let mut next = random(&disk, Operation::Read, 8, 1.0, 5);
    let mut seeks_ms = Vec::new();
    let mut head = 0;
    let outcome = closed_loop(&mut disk, 1, 20_000, |tag| {
        let issue = next(tag);
        let target = cylinder(issue.1.first_sector);
        let beyond_track = target.abs_diff(head).saturating_sub(1) as f64;
        seeks_ms.push(if target == head {
            0.0
        } else {
            2.0 + 0.032_359 * beyond_track.sqrt() + 7.293e-5 * beyond_track
        });
        head = cylinder(issue.1.end() - 1);
        issue
    });
    let mut rest: Vec<_> =
        outcome.latencies_ns.iter().zip(seeks_ms).map(|(ns, seek)| *ns as f64 / 1e6 - seek).collect();
    rest.sort_unstable_by(f64::total_cmp);
    let count = rest.len() as f64;
    let distance = rest.iter().enumerate().map(|(index, rest)| {
        let uniform = ((rest - 0.28) / 8.333).clamp(0.0, 1.0);
        (uniform - index as f64 / count).abs()
    });
    let distance = distance.fold(0.0, f64::max);
    assert!(distance < 0.02, "Kolmogorov-Smirnov distance {distance}");
}

#[test]
fn t11_a_part_of_the_disk_saves_seeks() {
    let tenth = reads(1, 8, 0.1, 10_000);
    assert_near("IOPS within 10 %", tenth.per_second(), 124.0, 0.03);
    assert_near("mean within 10 %", tenth.mean_ms(), 8.05, 0.03);
    let hundredth = reads(1, 8, 0.01, 10_000);
    assert_near("IOPS within 1 %", hundredth.per_second(), 145.0, 0.03);
    assert_near("mean within 1 %", hundredth.mean_ms(), 6.9, 0.03);
}

#[test]
fn t12_the_gain_by_queueing() {
    let one = reads(1, 8, 1.0, 10_000).per_second();
    for (depth, iops) in [(2, 75.7), (4, 96.9), (8, 115.6), (16, 135.0)] {
        assert_near(&format!("IOPS at {depth}"), reads(depth, 8, 1.0, 10_000).per_second(), iops, 0.04);
    }
    let full = reads(32, 8, 1.0, 20_000);
    assert_near("IOPS at 32", full.per_second(), 157.0, 0.04);
    assert!((1.9..2.6).contains(&(full.per_second() / one)));
    assert_near("p99 at 32", full.percentile_ms(0.99), 900.0, 0.1);
    assert_near("max at 32", full.max_ms(), 2_000.0, 0.1);
}

#[test]
fn t13_a_queue_in_the_host_instead() {
    let unqueued = sata().with(|disk| disk.firmware.depth = 1);
    assert_near("in order", host_queue(&unqueued, 32, 5_000, false), 74.6, 0.04);
    assert_near("deadline", host_queue(&unqueued, 32, 10_000, true), 120.0, 0.04);
    assert_near("in order, NCQ", host_queue(&sata(), 64, 10_000, false), 157.0, 0.04);
    assert_near("deadline, NCQ", host_queue(&sata(), 64, 10_000, true), 163.0, 0.04);
}

#[test]
fn t15_long_and_middling_random_reads() {
    let long = reads(1, 2_048, 1.0, 4_000).per_second();
    assert_near("1 MiB per second", long, 30.4, 0.03);
    assert_near("MB/s", long * 1.048_576, 31.9, 0.03);
    assert_near("32 KiB per second", reads(1, 64, 1.0, 6_000).per_second(), 71.5, 0.03);
}

/// Thirty-one random readers of the outermost hundredth and one of the far end.
fn with_a_far_reader(parameters: &DiskParameters) -> (Outcome, Vec<Nanos>) {
    let mut disk = disk(parameters, 1);
    let mut near = random(&disk, Operation::Read, 8, 0.01, 5);
    let outcome = closed_loop(&mut disk, 32, 8_000, |tag| match tag {
        31 => (Operation::Read, Extent::new(488_000_000, 8), Flags::NONE),
        _ => near(tag),
    });
    let far = outcome.tags.iter().zip(&outcome.latencies_ns).filter(|(tag, _)| **tag == 31);
    let far = far.map(|(_, latency)| *latency).collect();
    (outcome, far)
}

#[test]
fn t26_no_read_waits_much_longer_than_max_age() {
    let (outcome, far) = with_a_far_reader(&sata());
    assert!(outcome.max_ms() < 2_000.0 + 32.0 * 26.0, "{}", outcome.max_ms());
    assert!(far.len() >= 2, "{far:?}");
    assert!(far[0] > 1_500_000_000, "only its age brings it to the far end: {far:?}");
    let (_, far) = with_a_far_reader(&sata().with(|disk| disk.order.max_age_ns = 200_000_000));
    assert!(far.len() > 20 && far.iter().all(|latency| *latency < 1_032_000_000), "{far:?}");
}
