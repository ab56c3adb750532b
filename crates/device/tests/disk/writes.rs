//! The write cache, FUA, flushes.

use hoistway_block::{Extent, Flags, Nanos, Operation};
use hoistway_device::{Completion, Device, Disk, DiskParameters, NEVER};

use crate::assert_near;
use crate::driver::{HOST_NS, Outcome, closed_loop, disk, random, sata, sequential, submit};

/// Firmware and link.
const ACKNOWLEDGED_NS: Nanos = 60_000 + 16_384;

fn random_writes(parameters: &DiskParameters, count: usize, flags: Flags) -> Outcome {
    let mut disk = disk(parameters, 1);
    let mut next = random(&disk, Operation::Write, 8, 1.0, 5);
    closed_loop(&mut disk, 1, count, |tag| {
        let (operation, extent, _) = next(tag);
        (operation, extent, flags)
    })
}

#[test]
fn t18_cached_random_writes() {
    for (wc_entries, iops) in [(1, 73.0), (4, 93.0), (10, 115.0), (32, 144.0), (64, 164.0)] {
        let outcome = random_writes(&sata().with(|disk| disk.writing.wc_entries = wc_entries), 6_000, Flags::NONE);
        let free = wc_entries as usize;
        assert!(outcome.latencies_ns[..free].iter().all(|latency| *latency == ACKNOWLEDGED_NS), "{wc_entries}");
        assert!(outcome.latencies_ns[free] > ACKNOWLEDGED_NS, "{wc_entries}");
        let seconds = (outcome.done_at[5_999] - outcome.done_at[free]) as f64 / 1e9;
        assert_near(&format!("{wc_entries} entries"), (5_999 - free) as f64 / seconds, iops, 0.05);
    }
}

#[test]
fn t18_uncached_random_writes() {
    let without = random_writes(&sata().with(|disk| disk.writing.write_cache = 0), 6_000, Flags::NONE);
    assert_near("IOPS without cache", without.per_second(), 72.6, 0.02);
    let fua = random_writes(&sata(), 6_000, Flags::FUA);
    assert_near("IOPS with FUA", fua.per_second(), 72.6, 0.02);
    assert_near("mean", fua.mean_ms(), 13.8, 0.02);
}

#[test]
fn t19_sequential_writes() {
    let mut uncached = disk(&sata().with(|disk| disk.writing.write_cache = 0), 1);
    let iops = closed_loop(&mut uncached, 1, 2_000, sequential(Operation::Write, 0, 8)).per_second();
    assert!((119.0..120.0).contains(&iops), "one revolution each: {iops}");
    let mut cached = disk(&sata(), 1);
    let outcome = closed_loop(&mut cached, 1, 5_000, sequential(Operation::Write, 0, 256));
    assert_near("MB/s", outcome.per_second() * 0.131_072, 64.0, 0.02);
}

/// Writes ten random blocks to an idle disk, flushes, and optionally writes another one after the
/// flush; returns when the flush completed and how long it took.
fn flush_after_writes(seed: u64, write_behind: bool) -> (Nanos, Nanos) {
    let mut disk = disk(&sata(), seed);
    let mut next = random(&disk, Operation::Write, 8, 1.0, seed);
    let writes = closed_loop(&mut disk, 1, 10, &mut next);
    let start = writes.done_at[9] + HOST_NS;
    submit(&mut disk, start, 10, Operation::Flush, Extent::default(), Flags::NONE);
    if write_behind {
        submit(&mut disk, start + 1, 11, Operation::Write, next(0).1, Flags::NONE);
    }
    let mut completions: Vec<Completion> = Vec::new();
    while !completions.iter().any(|completion| completion.tag == 10) {
        disk.advance(disk.next_event(), &mut completions);
    }
    let done_at = completions.last().unwrap().at_ns;
    (done_at, done_at - start)
}

#[test]
fn t20_a_flush_takes_what_is_dirty() {
    let mut sum_ms = 0.0;
    for seed in 1..=20 {
        let (done_at, latency) = flush_after_writes(seed, false);
        assert!((50_000_000..130_000_000).contains(&latency), "{latency}");
        sum_ms += latency as f64 / 1e6;
        assert_eq!(flush_after_writes(seed, true).0, done_at, "a later write does not delay it");
    }
    assert!((50.0..110.0).contains(&(sum_ms / 20.0)), "{sum_ms}");
}

#[test]
fn t20_a_flush_of_a_clean_disk_takes_the_firmware_time() {
    let mut disk = disk(&sata(), 1);
    let flush = (Operation::Flush, Extent::default(), Flags::NONE);
    assert!(closed_loop(&mut disk, 1, 3, |_| flush).latencies_ns.iter().all(|latency| *latency == 60_000));
}

/// The latency of one command of another kind beside eight readers that never pause.
fn beside_readers(parameters: &DiskParameters, operation: Operation, extent: Extent, flags: Flags) -> Nanos {
    let mut disk = disk(parameters, 1);
    let mut reads = random(&disk, Operation::Read, 8, 0.01, 5);
    let mut writes = random(&disk, Operation::Write, 8, 1.0, 7);
    let mut before: Vec<_> = (0..8).map(&mut writes).collect();
    let outcome = closed_loop(&mut disk, 9, 1_500, |tag| match tag {
        8 => before.pop().unwrap_or((operation, extent, flags)),
        _ => reads(tag),
    });
    let others = outcome.tags.iter().zip(&outcome.latencies_ns).filter(|(tag, _)| **tag == 8);
    others.map(|(_, latency)| *latency).nth(8).expect("it was served")
}

#[test]
fn steady_readers_starve_no_command() {
    for reorder in [0, 1] {
        let parameters = sata().with(|disk| {
            disk.order.reorder = reorder;
            disk.order.max_age_ns = 500_000_000;
        });
        let far = Extent::new(480_000_000, 8);
        let fua = beside_readers(&parameters, Operation::Write, far, Flags::FUA);
        assert!(fua < 800_000_000, "FUA, reorder {reorder}: {fua}");
        let flush = beside_readers(&parameters, Operation::Flush, Extent::default(), Flags::NONE);
        assert!(flush < 800_000_000, "flush, reorder {reorder}: {flush}");
        let uncached = parameters.with(|disk| disk.writing.write_cache = 0);
        let write = beside_readers(&uncached, Operation::Write, far, Flags::NONE);
        assert!(write < 800_000_000, "uncached, reorder {reorder}: {write}");
    }
}

#[test]
fn dirty_extents_give_way_to_reads_until_the_cache_fills() {
    let mut disk = disk(&sata(), 1);
    let mut reads = random(&disk, Operation::Read, 8, 0.01, 5);
    let mut writes = random(&disk, Operation::Write, 8, 1.0, 7);
    let outcome = closed_loop(&mut disk, 9, 2_000, |tag| if tag == 8 { writes(tag) } else { reads(tag) });
    let written: Vec<_> = outcome.tags.iter().zip(&outcome.latencies_ns).filter(|(tag, _)| **tag == 8).collect();
    let fast = written.iter().take_while(|(_, latency)| **latency == ACKNOWLEDGED_NS).count();
    assert!(fast >= 32, "the cache takes its entries first: {fast}");
    assert!(written.len() > 60, "then reads and writing back share the head: {}", written.len());
}

#[test]
fn what_was_written_is_read_from_the_cache() {
    let mut disk = disk(&sata(), 1);
    let extent = Extent::new(1_000_000, 8);
    let mut issues = vec![(Operation::Read, extent, Flags::NONE), (Operation::Write, extent, Flags::NONE)];
    let outcome = closed_loop(&mut disk, 1, 2, |_| issues.pop().unwrap());
    assert_eq!(outcome.latencies_ns, [ACKNOWLEDGED_NS, ACKNOWLEDGED_NS]);
    // Once it is on the media, it is in neither cache.
    while disk.next_event() != NEVER {
        disk.advance(disk.next_event(), &mut Vec::new());
    }
    assert!(disk.is_idle());
    submit(&mut disk, 1 << 30, 0, Operation::Read, extent, Flags::NONE);
    assert!(latency(&mut disk, 1 << 30) > ACKNOWLEDGED_NS);
}

fn latency(disk: &mut Disk, submitted_at: Nanos) -> Nanos {
    let mut completions = Vec::new();
    while completions.is_empty() {
        disk.advance(disk.next_event(), &mut completions);
    }
    completions[0].at_ns - submitted_at
}

/// Twenty random writes, then a reader of random blocks nearby, one at a time: its mean latency
/// without the first read, and the disk.
fn reader_after_writes(writes: usize) -> (f64, Disk) {
    let mut disk = disk(&sata(), 1);
    let mut write = random(&disk, Operation::Write, 8, 1.0, 7);
    let mut read = random(&disk, Operation::Read, 8, 0.01, 5);
    let mut issued = 0;
    let outcome = closed_loop(&mut disk, 1, writes + 400, |tag| {
        issued += 1;
        if issued <= writes { write(tag) } else { read(tag) }
    });
    let reads = &outcome.latencies_ns[writes + 1..];
    (reads.iter().sum::<Nanos>() as f64 / reads.len() as f64 / 1e6, disk)
}

#[test]
fn a_reader_does_not_pay_for_the_writes_before_it() {
    let (clean_ms, _) = reader_after_writes(0);
    let (dirty_ms, mut disk) = reader_after_writes(20);
    assert_near("mean of the reads, ms", dirty_ms, clean_ms, 0.03);
    // The drive writes back when the reader has stopped and what it reads ahead has been read.
    let (mut now, mut completions) = (0, Vec::new());
    while disk.next_event() != NEVER {
        now = disk.next_event();
        disk.advance(now, &mut completions);
    }
    let written = Extent::new(random(&disk, Operation::Write, 8, 1.0, 7)(0).1.first_sector, 8);
    submit(&mut disk, now, 0, Operation::Read, written, Flags::NONE);
    assert!(latency(&mut disk, now) > ACKNOWLEDGED_NS, "it is not in the write cache any more");
}
