//! The calibrated array. Source: docs/specifications/devices.md, section 13, cases 28 to 33.

mod array_readers;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use array_readers::{Rates, read_all};
use hoistway_block::random::Stream;
use hoistway_block::{Extent, Flags, HardwareQueue, Nanos, Operation};
use hoistway_device::{AnyDevice, Array, ArrayParameters, Command, Device, DiskParameters, Submit};

/// From a completion to the next command.
const HOST_NS: Nanos = 20_000;

/// The member of the preset `raid5x12`.
fn disk() -> DiskParameters {
    DiskParameters::default().with(|disk| {
        disk.reading.segments = 2;
        disk.reading.readahead_kib = 256;
    })
}

/// The preset `raid5x12-stream`.
fn stream() -> ArrayParameters {
    ArrayParameters {
        chunk_kib: 256,
        ctl_latency_ns: 600_000,
        prefetch_kib: 2_816,
        read_cache_mib: 512,
        ..Default::default()
    }
}

fn write_through() -> ArrayParameters {
    ArrayParameters { write_back: 0, ..Default::default() }
}

fn array(parameters: &ArrayParameters, seed: u64) -> Array {
    Array::new("raid5x12", parameters, &disk(), seed, "dev0")
}

/// The results of a closed loop.
struct Outcome {
    end_ns: Nanos,
    per_second: f64,
    mean_ms: f64,
    longest_ms: f64,
}

/// Keeps `depth` commands in flight until `count` have completed.
fn run(array: &mut Array, depth: u32, count: u64, next: impl FnMut() -> (Operation, Extent)) -> Outcome {
    run_from(array, 0, depth, count, next)
}

/// Like [`run`], from `start_ns` on.
fn run_from(
    array: &mut Array,
    start_ns: Nanos,
    depth: u32,
    count: u64,
    mut next: impl FnMut() -> (Operation, Extent),
) -> Outcome {
    let mut ready: BinaryHeap<_> = (0..depth).map(|tag| Reverse((start_ns, tag))).collect();
    let mut submitted_ns = vec![0; depth as usize];
    let (mut done, mut latency_ns, mut longest_ns, mut last_ns, mut completions) = (0, 0, 0, 0, Vec::new());
    while done < count {
        let ready_ns = ready.peek().map_or(Nanos::MAX, |Reverse((at_ns, _))| *at_ns);
        let now = ready_ns.min(array.next_event());
        array.advance(now, &mut completions);
        for completion in completions.drain(..) {
            let latency = completion.at_ns - submitted_ns[completion.tag as usize];
            (done, latency_ns, last_ns) = (done + 1, latency_ns + latency, completion.at_ns);
            longest_ns = longest_ns.max(latency);
            ready.push(Reverse((completion.at_ns + HOST_NS, completion.tag)));
        }
        while let Some(&Reverse((at_ns, tag))) = ready.peek().filter(|Reverse((at_ns, _))| *at_ns <= now) {
            ready.pop();
            let (operation, extent) = next();
            let command = Command { tag, operation, flags: Flags::NONE, extent, hardware_queue: HardwareQueue(0) };
            assert_eq!(array.submit(at_ns, &command), Submit::Accepted);
            submitted_ns[tag as usize] = at_ns;
        }
    }
    let per_second = done as f64 * 1e9 / (last_ns - start_ns) as f64;
    Outcome {
        end_ns: last_ns,
        per_second,
        mean_ms: latency_ns as f64 / done as f64 / 1e6,
        longest_ms: longest_ns as f64 / 1e6,
    }
}

/// Commands of 4 KiB over the whole array.
fn random(array: &Array, operation: Operation) -> impl FnMut() -> (Operation, Extent) + use<> {
    let mut stream = Stream::new(1);
    let blocks = array.info().capacity_sectors / 8;
    move || (operation, Extent::new(stream.below(blocks) * 8, 8))
}

/// Reads and writes that the member disks have got so far.
fn member_commands(array: &Array) -> (u64, u64) {
    let counters = array.members().map(|member| member.counters());
    counters.fold((0, 0), |(reads, writes), counters| (reads + counters.reads, writes + counters.writes))
}

/// The recipe "dd readers" for arrays (docs/specifications/devices.md, section 9.2): readers 300 GB
/// apart plus up to 500 MB, 160 MiB each.
///
/// They begin at whole MiB, because dd skips blocks of its bs. This matters: if the 128 KiB windows
/// of read-ahead straddle two chunks, four readers get 140 MB/s together instead of about 100. The
/// published value is 98.7 MB/s (docs/specifications/devices.md, section 11.1).
fn dd_readers(parameters: &ArrayParameters, disk: &DiskParameters, readers: u64, seed: u64) -> Rates {
    let mut array = Array::new("raid5x12", parameters, disk, seed, "dev0");
    let mut offsets = Stream::of(seed, "readers");
    let first = |reader| (reader * 300_000_000_000 + offsets.below(500_000_000)) / 1_048_576 * 2_048;
    let first_sectors: Vec<_> = (0..readers).map(first).collect();
    read_all(&mut array, &first_sectors, 1_280, |array| array.busy_members() as f64)
}

/// The mean over ten seeds.
fn mean_sum(parameters: &ArrayParameters, readers: u64) -> f64 {
    (1..=10).map(|seed| dd_readers(parameters, &disk(), readers, seed).sum).sum::<f64>() / 10.0
}

#[track_caller]
fn assert_within(what: &str, measured: f64, expected: f64, tolerance: f64) {
    let error = measured / expected - 1.0;
    assert!(error.abs() <= tolerance, "{what}: {measured:.2}, not {expected} ({:+.1} %)", error * 100.0);
}

#[test]
fn t01_the_same_seed_gives_the_same_completion_log_and_another_seed_another() {
    let log = |seed| {
        let mut device = AnyDevice::Array(Box::new(array(&stream(), seed)));
        let (mut stream, mut completions) = (Stream::new(5), Vec::new());
        let mut now = 0;
        for tag in 0..3_000 {
            while tag as usize - completions.len() >= 16 {
                now = device.next_event();
                device.advance(now, &mut completions);
            }
            let operation = if stream.chance(1, 3) { Operation::Write } else { Operation::Read };
            let extent = Extent::new(stream.below(1_000_000) * 8, 64);
            let command = Command { tag, operation, flags: Flags::NONE, extent, hardware_queue: HardwareQueue(0) };
            assert_eq!(device.submit(now, &command), Submit::Accepted);
        }
        completions
    };
    assert_eq!(log(1), log(1));
    assert_ne!(log(1), log(2));
}

#[test]
fn t28_small_writes_through_the_cache() {
    let mut one = array(&write_through(), 1);
    let next = random(&one, Operation::Write);
    let outcome = run(&mut one, 1, 5_000, next);
    assert_eq!(member_commands(&one), (10_000, 10_000));
    assert_within("mean of QD 1, ms", outcome.mean_ms, 25.0, 0.05);
    assert_within("IOPS of QD 1", outcome.per_second, 40.0, 0.05);
    let mut many = array(&write_through(), 1);
    let next = random(&many, Operation::Write);
    assert_within("IOPS of QD 32", run(&mut many, 32, 5_000, next).per_second, 197.0, 0.08);
}

#[test]
fn t29_writes_are_acknowledged_from_the_cache_until_it_is_full() {
    let small_cache = ArrayParameters { write_cache_mib: 8, ..Default::default() };
    let mut array = array(&small_cache, 1);
    let mut next = random(&array, Operation::Write);
    // 8 MiB hold 2,048 blocks.
    let filling = run(&mut array, 1, 2_000, &mut next);
    assert_within("acknowledge, ms", filling.mean_ms, 1.54, 0.01);
    assert!(filling.longest_ms < 1.6, "{}", filling.longest_ms);
    // The rest of the cache is also filled with one command in flight, so that none is left in
    // flight between the runs.
    let end_ns = run_from(&mut array, filling.end_ns + HOST_NS, 1, 2_000, &mut next).end_ns + HOST_NS;
    let before = member_commands(&array).1;
    let full = run_from(&mut array, end_ns, 32, 5_000, &mut next);
    assert!(full.mean_ms > 50.0, "{}", full.mean_ms);
    let written_back = (member_commands(&array).1 - before) as f64 / 2.0;
    assert_within("two member writes for every write taken", written_back, 5_000.0, 0.02);
}

#[test]
fn t29_complete_rows_are_written_without_reading() {
    let mut array = array(&ArrayParameters::default(), 1);
    let mut first_sector = 0;
    // 1 MiB (one chunk) after 1 MiB, ten rows of 11.
    run(&mut array, 1, 110, || {
        first_sector += 2_048;
        (Operation::Write, Extent::new(first_sector - 2_048, 2_048))
    });
    let mut completions = Vec::new();
    while !array.is_idle() {
        array.advance(array.next_event(), &mut completions);
    }
    assert_eq!(member_commands(&array), (0, 120));
}

#[test]
fn t30_random_reads_scale_with_the_disks_they_hit() {
    for (depth, expected) in [(1, 67.0), (4, 240.0), (8, 417.0), (16, 659.0), (32, 934.0)] {
        let mut array = array(&ArrayParameters::default(), 1);
        let next = random(&array, Operation::Read);
        let outcome = run(&mut array, depth, 5_000, next);
        assert_within(&format!("IOPS of QD {depth}"), outcome.per_second, expected, 0.05);
    }
}

#[test]
fn t31_dd_readers_of_2010() {
    for (readers, expected) in [(1, 58.3), (2, 83.5), (4, 99.7), (8, 114.7)] {
        let sum = mean_sum(&ArrayParameters::default(), readers);
        assert_within(&format!("{readers} readers, MB/s"), sum, expected, 0.08);
    }
}

#[test]
fn t32_dd_readers_with_controller_read_ahead() {
    for (readers, expected) in [(1, 239.0), (2, 221.0), (4, 238.0), (8, 244.0)] {
        assert_within(&format!("{readers} readers, MB/s"), mean_sum(&stream(), readers), expected, 0.08);
    }
}

/// Case 33 derives its number from commands that all wait for the media, so the drives' own
/// read-ahead is off here. With read-ahead, the drives read three of four windows before the reader
/// requests them, and on average half a disk is busy.
#[test]
fn t33_small_chunks_keep_two_disks_busy() {
    let parameters = ArrayParameters { chunk_kib: 128, ..Default::default() };
    let busy = |disk: &DiskParameters| {
        (1..=10).map(|seed| dd_readers(&parameters, disk, 1, seed).mean_probe).sum::<f64>() / 10.0
    };
    let without = busy(&disk().with(|disk| disk.reading.readahead_kib = 0));
    assert!((1.5..=2.0).contains(&without), "{without}");
    let with = busy(&disk());
    assert!((0.3..0.7).contains(&with), "{with}");
}

/// The results of streams of 128 KiB reads.
struct StreamsOutcome {
    /// Of each read of the first stream, in ms.
    latencies_ms: Vec<f64>,
    megabytes_per_second: f64,
}

/// Reads streams that lie 20 GB apart for 20 s; each stream asks for its next 128 KiB when its pause
/// after the completion of the last ones is over.
fn read_streams(parameters: &ArrayParameters, pauses_ns: &[Nanos]) -> StreamsOutcome {
    let mut array = array(parameters, 1);
    let mut ready: BinaryHeap<_> = (0..pauses_ns.len()).map(|stream| Reverse((stream as u64, stream))).collect();
    let mut next_sector: Vec<u64> =
        (0..pauses_ns.len() as u64).map(|stream| stream * 39_062_500 / 2_048 * 2_048).collect();
    let mut submitted_ns = vec![0; pauses_ns.len()];
    let (mut latencies_ms, mut reads, mut completions) = (Vec::new(), 0_u64, Vec::new());
    loop {
        let ready_ns = ready.peek().map_or(Nanos::MAX, |Reverse((at_ns, _))| *at_ns);
        let now = ready_ns.min(array.next_event());
        if now > 20_000_000_000 {
            return StreamsOutcome { latencies_ms, megabytes_per_second: reads as f64 * 0.131_072 / 20.0 };
        }
        array.advance(now, &mut completions);
        for completion in completions.drain(..) {
            let stream = completion.tag as usize;
            reads += 1;
            if stream == 0 {
                latencies_ms.push((completion.at_ns - submitted_ns[0]) as f64 / 1e6);
            }
            ready.push(Reverse((completion.at_ns + pauses_ns[stream], stream)));
        }
        while let Some(&Reverse((at_ns, stream))) = ready.peek().filter(|Reverse((at_ns, _))| *at_ns <= now) {
            ready.pop();
            let extent = Extent::new(next_sector[stream], 256);
            let tag = u32::try_from(stream).unwrap();
            let command = Command {
                tag,
                operation: Operation::Read,
                flags: Flags::NONE,
                extent,
                hardware_queue: HardwareQueue(0),
            };
            assert_eq!(array.submit(at_ns, &command), Submit::Accepted);
            (next_sector[stream], submitted_ns[stream]) = (extent.end(), at_ns);
        }
    }
}

#[test]
fn a_light_stream_finds_its_read_ahead_beside_63_heavy_ones() {
    // The heavy ones together ask for half of what the link carries; the light one asks for a tenth of one of them. The
    // cache holds the whole read-ahead of each, or two lines of each.
    for read_cache_mib in [512, 32] {
        let parameters = ArrayParameters { lun_depth: 64, read_cache_mib, ..stream() };
        let mut pauses_ns = [40_000_000; 64];
        pauses_ns[0] = 400_000_000;
        let light = read_streams(&parameters, &pauses_ns).latencies_ms;
        assert!(light.len() > 40, "{}", light.len());
        let hits = light[4..].iter().filter(|latency_ms| **latency_ms < 3.0).count();
        assert!(hits * 10 >= light[4..].len() * 9, "{read_cache_mib} MiB: {hits} of {light:?}");
    }
}

#[test]
fn streams_that_share_a_small_cache_pay_with_seeks() {
    let total = |streams: usize, read_cache_mib| {
        // The link does not limit, and a line is a quarter of a stripe, so that reading ahead saves seeks.
        let parameters = ArrayParameters {
            chunk_kib: 1_024,
            prefetch_kib: 4_096,
            lun_depth: 64,
            read_cache_mib,
            link_kb_per_s: 4_000_000,
            ctl_latency_ns: 0,
            ..stream()
        };
        read_streams(&parameters, &[HOST_NS; 64][..streams]).megabytes_per_second
    };
    let (eight, many) = (total(8, 32), total(64, 32));
    assert!(many < eight * 0.75, "{eight} with 8 streams, {many} with 64");
    let whole = total(64, 512);
    assert!(many < whole * 0.9, "{whole} if the cache holds the whole read-ahead of each, {many}");
}
