//! The calibrated array (specification of the devices, 13: cases 28 to 33).

mod array_readers;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use array_readers::{Rates, read_all};
use block::random::Stream;
use block::{Extent, Flags, HardwareQueue, Nanos, Operation};
use hoistway_device::{Array, ArrayParameters, Command, Device, DiskParameters, Submit};

/// From a completion to the next command.
const HOST_NS: Nanos = 20_000;

/// The member of the preset `raid5x12`.
fn disk() -> DiskParameters {
    DiskParameters { segments: 2, readahead_kib: 256, ..DiskParameters::default() }
}

/// The preset `raid5x12-stream`.
fn stream() -> ArrayParameters {
    ArrayParameters { ctl_latency_ns: 600_000, prefetch_kib: 4_096, read_cache_mib: 512, ..Default::default() }
}

fn write_through() -> ArrayParameters {
    ArrayParameters { write_back: 0, ..Default::default() }
}

fn array(parameters: &ArrayParameters, seed: u64) -> Array {
    Array::new("raid5x12", parameters, &disk(), seed, "dev0")
}

/// What a closed loop saw.
struct Outcome {
    per_second: f64,
    mean_ms: f64,
    longest_ms: f64,
}

/// Keeps `depth` commands in flight until `count` have completed.
fn run(array: &mut Array, depth: u32, count: u64, mut next: impl FnMut() -> (Operation, Extent)) -> Outcome {
    let mut ready: BinaryHeap<_> = (0..depth).map(|tag| Reverse((0, tag))).collect();
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
    let per_second = done as f64 * 1e9 / last_ns as f64;
    Outcome { per_second, mean_ms: latency_ns as f64 / done as f64 / 1e6, longest_ms: longest_ns as f64 / 1e6 }
}

/// Commands of 4 KiB over the whole array.
fn random(array: &Array, operation: Operation) -> impl FnMut() -> (Operation, Extent) + use<> {
    let mut stream = Stream::new(1);
    let blocks = array.info().capacity_sectors / 8;
    move || (operation, Extent::new(stream.below(blocks) * 8, 8))
}

/// Member reads and writes so far.
fn member_commands(array: &Array) -> (u64, u64) {
    let counters = array.members().map(|member| member.counters());
    counters.fold((0, 0), |(reads, writes), counters| (reads + counters.reads, writes + counters.writes))
}

/// The recipe "dd readers" for arrays: readers 300 GB apart plus up to 500 MB, `windows` windows of 128 KiB each.
fn dd_readers(parameters: &ArrayParameters, disk: &DiskParameters, readers: u64, windows: u64, seed: u64) -> Rates {
    let mut array = Array::new("raid5x12", parameters, disk, seed, "dev0");
    let mut offsets = Stream::of(seed, "readers");
    // Pages of 8 sectors.
    let first = |reader| (reader * 300_000_000_000 + offsets.below(500_000_000)) / 4_096 * 8;
    let first_sectors: Vec<_> = (0..readers).map(first).collect();
    read_all(&mut array, &first_sectors, windows, |array| array.busy_members() as f64)
}

#[track_caller]
fn assert_within(what: &str, measured: f64, expected: f64, tolerance: f64) {
    let error = measured / expected - 1.0;
    assert!(error.abs() <= tolerance, "{what}: {measured:.2}, not {expected} ({:+.1} %)", error * 100.0);
}

#[test]
#[ignore = "the figures of the report; minutes"]
fn figures() {
    for (name, parameters) in [("raid5x12", ArrayParameters::default()), ("raid5x12-stream", stream())] {
        for readers in [1, 2, 4, 8] {
            let runs: Vec<_> = (1..=10).map(|seed| dd_readers(&parameters, &disk(), readers, 1_280, seed)).collect();
            let mean = |figure: fn(&Rates) -> f64| runs.iter().map(figure).sum::<f64>() / 10.0;
            let all: Vec<_> = runs.iter().map(|run| format!("{:.1}", run.sum)).collect();
            println!(
                "{name} {readers}: sum {:.1} aggregate {:.1} busy {:.2} {}",
                mean(|r| r.sum),
                mean(|r| r.aggregate),
                mean(|r| r.mean_probe),
                all.join(" ")
            );
        }
    }
    for depth in [1, 4, 8, 16, 32] {
        let mut a = array(&ArrayParameters::default(), 1);
        let next = random(&a, Operation::Read);
        let outcome = run(&mut a, depth, 5_000, next);
        println!("reads QD {depth}: {:.1}", outcome.per_second);
    }
    for (parallel, depth) in [(16, 1), (16, 32), (32, 32), (8, 32)] {
        let mut a = array(&ArrayParameters { destage_parallel: parallel, ..write_through() }, 1);
        let next = random(&a, Operation::Write);
        let outcome = run(&mut a, depth, 5_000, next);
        println!(
            "write-through QD {depth} parallel {parallel}: {:.1} mean {:.2} ms longest {:.1} {:?}",
            outcome.per_second,
            outcome.mean_ms,
            outcome.longest_ms,
            member_commands(&a)
        );
    }
}
