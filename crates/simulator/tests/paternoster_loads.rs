//! paternoster on calibrated devices under loads other than random readers of one size: writes,
//! think time, mixed sizes, flushes; its latency bound; and the cost of its probes, in which it
//! tries another way to serve the tenants for a while and compares the throughput. Source of the
//! case numbers: docs/specifications/paternoster.md, section 14.
//!
//! On a device without seeks paternoster holds back tenants that lead. From time to time it holds
//! back none for an interval, the reference epoch, and compares the throughput. So it learns the
//! floor: while fewer requests than this are in flight, tenants that lead are served as well.

mod experiments;

use experiments::{KIB, MS, buffered_stream, experiment, random_reads, run};
use hoistway_experiment::{Experiment, Measurement};
use hoistway_workload::Job;
use hoistway_workload::job::{Amount, BlockSize, Mix, Pattern, PerDirection, Think};

fn question(model: &str, scheduler: &str, groups: Vec<(&str, u32, Job)>) -> Experiment {
    let mut question = experiment(model, scheduler, groups);
    (question.ramp_ns, question.runtime_ns) = (4_000 * MS, 2_000 * MS);
    question
}

fn of_size(bytes: u32, depth: u32) -> Job {
    random_reads(depth).with(|job| job.shape.block_sizes = PerDirection::all(BlockSize::Fixed(bytes)))
}

/// Sequential writes of `kib` KiB.
fn writes(kib: u32, depth: u32) -> Job {
    of_size(kib * KIB, depth).with(|job| {
        job.shape.mix = Mix::Write;
        job.shape.pattern = Pattern::Sequential { skip_bytes: 0 };
    })
}

fn megabytes(measurement: &Measurement) -> Vec<f64> {
    measurement.groups.iter().map(|group| measurement.per_s(group.bytes()) / 1e6).collect()
}

fn total(measurement: &Measurement) -> f64 {
    megabytes(measurement).iter().sum()
}

/// A percentile of the latency of the first group's reads, in microseconds.
fn latency_us(measurement: &Measurement, percent: f64) -> u64 {
    measurement.groups[0].read.latency.percentile_unclamped_ns(percent) / 1_000
}

/// A device limited by its link, and one limited by its dies.
const LINK: &str = "ssd-lsi,link_MBps=260";
const DIES: &str = "ssd";

struct Pair {
    none: Measurement,
    ours: Measurement,
}

fn both(model: &str, settings: &str, groups: impl Fn() -> Vec<(&'static str, u32, Job)>) -> Pair {
    Pair {
        none: run(&question(model, "none", groups())),
        ours: run(&question(model, &format!("paternoster:{settings}"), groups())),
    }
}

impl Pair {
    fn percent(&self) -> f64 {
        total(&self.ours) / total(&self.none) * 100.0
    }

    fn print(&self, what: &str) {
        println!(
            "{what}: none {:.1?} p50/p99 {}/{} us; ours {:.1?} {}/{} us, {:.1} %",
            megabytes(&self.none),
            latency_us(&self.none, 50.0),
            latency_us(&self.none, 99.0),
            megabytes(&self.ours),
            latency_us(&self.ours, 50.0),
            latency_us(&self.ours, 99.0),
            self.percent()
        );
    }
}

/// 60:20 with 16 outstanding each, where exact shares cost more than a tenth of the throughput.
fn sixteen_each(settings: &str) -> Pair {
    let of = |scheduler: &str, seed| {
        let mut question = question(DIES, scheduler, vec![("a", 60, random_reads(16)), ("b", 20, random_reads(16))]);
        (question.seed, question.runtime_ns) = (seed, 6_000 * MS);
        run(&question)
    };
    let pair = |seed| Pair { none: of("none", seed), ours: of(&format!("paternoster:{settings}"), seed) };
    let mut pairs = [1, 2, 3].map(pair);
    pairs.iter().for_each(|pair| pair.print(settings));
    // The learned floor, and with it the throughput, differs by one per cent between runs.
    pairs.sort_by(|one, other| one.percent().total_cmp(&other.percent()));
    let [_, median, _] = pairs;
    median
}

#[test]
fn t06_three_per_cent_are_not_overspent_and_ten_buy_more() {
    let (small, large) = (sixteen_each("give=3"), sixteen_each("give=10"));
    assert!(small.percent() >= 96.5, "{:.1} %", small.percent());
    let heavy = |pair: &Pair| megabytes(&pair.ours)[0] / total(&pair.ours);
    assert!(heavy(&large) / 0.75 - 1.0 <= 0.03 && heavy(&large) > heavy(&small), "more to give buys more");
}

/// Exact shares cost 10 to 12 % of the throughput here. paternoster cannot distinguish this from
/// the 10 % of `give`, so it keeps the shares exact. Its probes cost another 2 %.
#[test]
fn t06_ten_per_cent_are_hardly_overspent() {
    let large = sixteen_each("give=10");
    assert!(large.percent() >= 87.0, "{:.1} %", large.percent());
}

#[test]
fn t07_many_outstanding_are_exact_on_nvme_and_few_are_equal() {
    let deep = both("nvme", "give=3", || vec![("a", 60, random_reads(192)), ("b", 20, random_reads(192))]);
    deep.print("192 each");
    let [a, b] = megabytes(&deep.ours)[..] else { panic!("two groups") };
    assert!(deep.percent() >= 97.0 && (a / b / 3.0 - 1.0).abs() <= 0.02, "{a} {b}");
}

/// A database of weight 800 beside a backup whose requests are 64 times as large. The backup's
/// requests are cut while it leads, and fewer of them are in flight: the database asks for less than
/// its share, so it goes before `give` up to three fifths of what it gets alone.
#[test]
fn small_requests_beside_much_larger_ones() {
    for (model, depth, least, left) in [("ssd", 4, 0.5, 0.6), ("ssd-lsi", 4, 0.58, 0.4)] {
        let pair = both(model, "give=3", || vec![("a", 800, random_reads(depth)), ("b", 100, of_size(256 * KIB, 32))]);
        pair.print(model);
        let ([a, b], [_, alone]) = (&megabytes(&pair.ours)[..], &megabytes(&pair.none)[..]) else {
            panic!("two groups")
        };
        let lone = total(&run(&question(model, "none", vec![("a", 800, random_reads(depth))])));
        assert!(*a >= least * lone && *b >= left * alone, "{a} of {lone}, {b} of {alone}");
    }
}

#[test]
fn t19_mixed_sizes_share_a_link_equally() {
    for settings in ["give=3", "give=100"] {
        let pair = both(LINK, settings, || vec![("a", 100, of_size(4 * KIB, 32)), ("b", 100, of_size(64 * KIB, 32))]);
        pair.print(settings);
        let [a, b] = megabytes(&pair.ours)[..] else { panic!("two groups") };
        assert!((a / b - 1.0).abs() <= 0.02 && pair.percent() >= 97.0, "{a} {b}, {:.1} %", pair.percent());
    }
}

/// Adjacent queued writes merge into requests of up to 1.3 MB, the device's longest command; such a
/// request takes this link 5 ms. Epochs with many writes last at least 250 ms, so paternoster
/// learns the floor only after some seconds; therefore the ramp is long.
#[test]
fn t23_a_reader_beside_a_write_bomb() {
    let groups = || vec![("a", 100, random_reads(1)), ("b", 100, writes(128, 64))];
    let none = run(&question(LINK, "none", groups()));
    let mut later = question(LINK, "paternoster:give=3", groups());
    later.ramp_ns = 20_000 * MS;
    let later = run(&later);
    println!("later {:.1?} {}/{} us", megabytes(&later), latency_us(&later, 50.0), latency_us(&later, 99.0));
    assert!(latency_us(&later, 50.0) * 10 <= latency_us(&none, 50.0), "a tenth of none's median");
    // The reader asks for much less than its half, so it goes before `give` up to three fifths of its lone
    // rate. Epochs with writes are long, so the floor is corrected every 3 s only and is still on its way.
    let lone = total(&run(&question(LINK, "none", vec![("a", 100, random_reads(1))])));
    assert!(megabytes(&later)[0] >= 0.4 * lone, "{:?} of {lone}", megabytes(&later));
    assert!(total(&later) >= 0.45 * total(&none), "{} of {}", total(&later), total(&none));
}

/// The device does not idle while the reader thinks, so it is full when the reader returns; but the
/// reader's request is the next.
#[test]
fn t24_a_reader_that_thinks() {
    let thinking =
        || random_reads(1).with(|job| job.pacing.think = Think { time_ns: 2 * MS, blocks: 1, ..Think::default() });
    let pair = both(LINK, "give=3", || vec![("a", 100, thinking()), ("b", 100, random_reads(32))]);
    pair.print("thinks 2 ms");
    assert!(latency_us(&pair.ours, 50.0) <= latency_us(&pair.none, 50.0), "none's median");
    assert!(pair.percent() >= 96.5, "{:.1} %", pair.percent());
}

#[test]
fn t25_the_bound_of_latency_holds() {
    let groups = || vec![("a", 100, random_reads(1)), ("b", 100, random_reads(255))];
    let mut before = f64::MAX;
    // Without other load a read of this model takes 276 us, so it cannot meet the 250 us of
    // docs/specifications/paternoster.md, section 14, which are for a faster model.
    for bound_us in [1_000, 500] {
        let pair = both(DIES, &format!("give=3,lat_us={bound_us}"), groups);
        pair.print(&format!("lat_us={bound_us}"));
        // `lat_us` bounds the time in the device for 95 % of the sync reads. The measured latency
        // also contains the wait in the queue: while the number in flight is at its bound, nothing
        // is dispatched until a request completes. A quarter of the bound is added for this wait.
        assert!(
            latency_us(&pair.ours, 95.0) <= bound_us + bound_us / 4,
            "{bound_us}: {}",
            latency_us(&pair.ours, 95.0)
        );
        assert!(pair.percent() <= before + 1.0, "a tighter bound costs more");
        before = pair.percent();
    }
}

/// A tenant that flushes after every write, beside a reader of the same weight: the reader gets its
/// half, or all that it had without a scheduler.
#[test]
fn flushes_gain_nothing() {
    let flushing = || writes(4, 1).with(|job| job.submission.fsync_every = 1);
    let pair = both(DIES, "give=3", || vec![("a", 100, random_reads(16)), ("b", 100, flushing())]);
    pair.print("flushes");
    let [reader, flusher] = megabytes(&pair.ours)[..] else { panic!("two groups") };
    assert!(reader >= flusher && reader >= 0.95 * megabytes(&pair.none)[0], "{reader} {flusher}");
}

/// Only 1 MiB writes, beside a reader of 4 KiB with as many outstanding.
#[test]
fn large_writes_gain_nothing() {
    let groups = vec![("a", 100, random_reads(64)), ("b", 100, writes(1024, 64))];
    let mut question = question(LINK, "paternoster:give=3", groups);
    // Long enough for several cycles. In a cycle, the lead that the writer gains in a reference
    // epoch is repaid in the epochs after it.
    question.runtime_ns = 16_000 * MS;
    let [reader, writer] = megabytes(&run(&question))[..] else { panic!("two groups") };
    assert!(writer <= 1.05 * (reader + writer) / 2.0, "{reader} {writer}");
}

/// A reader of single requests beside one that keeps a disk busy (means of two seeds): MB/s of both
/// and of the reader, the reader's median and 99th percentile in us.
fn reader_beside(model: &str, scheduler: &str, other: fn() -> Job, queue_requests: Option<u32>) -> [f64; 4] {
    let runs = [1, 2].map(|seed| {
        let groups = vec![("a", 100, random_reads(1)), ("b", 100, other())];
        let mut question = question(model, scheduler, groups);
        (question.ramp_ns, question.runtime_ns, question.seed) = (30_000 * MS, 30_000 * MS, seed);
        question.queue_requests = queue_requests.or(question.queue_requests);
        run(&question)
    });
    let mean = |of: &dyn Fn(&Measurement) -> f64| runs.iter().map(of).sum::<f64>() / 2.0;
    let got = [
        mean(&total),
        mean(&|run| megabytes(run)[0]),
        mean(&|run| latency_us(run, 50.0) as f64),
        mean(&|run| latency_us(run, 99.0) as f64),
    ];
    println!("{model}, {scheduler}: total, reader in MB/s, median, p99 in us: {got:.3?}");
    got
}

/// A reader beside 255 random reads in a queue of one issuer, on an array of twelve disks and on
/// one disk (means of two seeds). Both schedulers dispatch the requests of one issuer in sector
/// order. Earlier variants of paternoster were worse here: in order of arrival the throughput was a
/// fifth lower, and with a second whole slice for a group that lags the 99th percentile was a sixth
/// higher.
#[test]
fn a_reader_beside_a_flood_on_disks() {
    for model in ["raid5x12", "sata"] {
        let of = |scheduler| reader_beside(model, scheduler, || random_reads(255), Some(512));
        let (ours, bfq) = (of("paternoster"), of("bfq"));
        // On the single disk the reader has half of the time, ten times what bfq gives it, which
        // lowers the total.
        let least = if model == "sata" { 0.7 } else { 0.97 };
        assert!(ours[0] >= least * bfq[0] && ours[1] >= 0.97 * bfq[1], "{model}: {ours:?} against {bfq:?}");
        assert!(ours[2] <= 1.05 * bfq[2], "{model}: median of {ours:?} against {bfq:?}");
        // Not on the single disk, where bfq serves the reader so rarely that its 99th percentile is no
        // standard. For the array the bound is 1.25 times the 183.5 ms that bfq had before its polls
        // followed Linux 5.18. It has 179 ms now.
        assert!(model == "sata" || ours[3] <= 1.25 * 183_500.0, "{model}: p99 of {ours:?} against {bfq:?}");
    }
}

/// A reader beside sequential writes of 128 KiB, 64 outstanding, on a disk with a write cache
/// (means of two seeds). The reader has half of the disk's time: several times what bfq gives it,
/// at a fraction of the median, at the writer's expense. Its slowest reads are those in flight when
/// its slice ends, behind writes that need room in the cache: worse than with bfq, which keeps
/// fewer in flight.
#[test]
fn a_reader_beside_a_write_bomb_on_a_disk() {
    let of = |scheduler| reader_beside("sata", scheduler, || writes(128, 64), None);
    let (ours, bfq) = (of("paternoster"), of("bfq"));
    assert!(ours[0] >= 0.75 * bfq[0] && ours[1] >= 3.0 * bfq[1], "{ours:?} against {bfq:?}");
    assert!(ours[2] <= 0.5 * bfq[2] && ours[3] <= 4.0 * bfq[3], "{ours:?} against {bfq:?}");
}

/// Two tenants that keep an array's queue of 32 full, all of their requests in flight when a slice
/// ends: shares are by weight, at no cost.
#[test]
fn two_deep_queues_share_an_array_by_weight() {
    let of = |scheduler: &str| {
        let groups = vec![("a", 100, random_reads(32)), ("b", 200, random_reads(32))];
        let mut question = question("raid5x12", scheduler, groups);
        (question.ramp_ns, question.runtime_ns) = (20_000 * MS, 30_000 * MS);
        question.queue_requests = Some(256);
        megabytes(&run(&question))
    };
    let (none, ours) = (of("none"), of("paternoster"));
    println!("none {none:.3?}, ours {ours:.3?} MB/s");
    assert!((ours[1] / ours[0] / 2.0 - 1.0).abs() <= 0.05, "{ours:?}");
    assert!(ours.iter().sum::<f64>() >= 0.97 * none.iter().sum::<f64>(), "{ours:?} of {none:?}");
}

/// Readers of depth 1 do not fill the device, so that one gains nothing if the other is held.
#[test]
fn no_tenant_is_held_where_that_helps_none() {
    for (model, depths) in [("ssd", [1, 1]), ("ssd", [2, 2]), ("nvme", [1, 1])] {
        let groups = || vec![("a", 800, random_reads(depths[0])), ("b", 100, random_reads(depths[1]))];
        let pair = both(model, "give=3", groups);
        pair.print(model);
        assert!(pair.percent() >= 98.0, "{:.1} %", pair.percent());
    }
}

/// The throughput of windows of 1 s scatters hardly more than that of `none`.
#[test]
fn the_floor_does_not_swing() {
    let variation = |scheduler: &str, seed, groups: Vec<(&str, u32, Job)>| {
        let mut question = question(DIES, scheduler, groups);
        (question.seed, question.ramp_ns, question.runtime_ns) = (seed, 6_000 * MS, 8_000 * MS);
        let measurement = run(&question);
        let seconds: Vec<f64> = (0..8)
            .map(|second| measurement.groups.iter().map(|group| group.read.samples[second].bytes as f64).sum())
            .collect();
        let mean = seconds.iter().sum::<f64>() / 8.0;
        (seconds.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / 8.0).sqrt() / mean
    };
    // One run's scatter differs from another's by half, so several are averaged.
    let loads = [8, 16].map(|depth| [1, 2, 3].map(|seed| (depth, seed))).concat();
    let mean = |scheduler: &str| {
        let groups = |depth| vec![("a", 60, random_reads(depth)), ("b", 20, random_reads(depth))];
        let all: Vec<f64> = loads.iter().map(|(depth, seed)| variation(scheduler, *seed, groups(*depth))).collect();
        println!("{scheduler}: {all:.5?}");
        all.iter().sum::<f64>() / 6.0
    };
    let (none, ours) = (mean("none"), mean("paternoster:give=3"));
    // Scatter below half a per cent is negligible.
    assert!(ours <= (1.2 * none).max(0.005), "{ours} against {none}");
}

/// Two streams use a disk in turns. From time to time paternoster probes whether serving both at
/// once is faster than slices; this costs little.
#[test]
fn t40_probes_cost_a_disk_little() {
    let of = |scheduler: &str, ramp_ms: u64, runtime_ms: u64| {
        let groups = vec![("a", 100, buffered_stream(Mix::Read)), ("b", 100, buffered_stream(Mix::Read))];
        let mut question = experiment("sata", scheduler, groups);
        (question.ramp_ns, question.runtime_ns) = (ramp_ms * MS, runtime_ms * MS);
        total(&run(&question))
    };
    // A period without probes, and the whole three minutes.
    let (quiet, all) = (of("paternoster", 15_000, 10_000), of("paternoster", 10_000, 180_000));
    println!("quiet {quiet:.2}, all {all:.2} MB/s: {:.2} %", all / quiet * 100.0);
    assert!(all >= 0.96 * quiet, "{all} of {quiet}");
}

/// Streams whose readers think for 300 us keep their slices: the disk is not given away before 8 ms
/// of idling. Their joint throughput is compared with that of each alone in its half of the disk:
/// the inner half is a fifth slower.
#[test]
fn t41_an_issuer_with_short_think_times_keeps_the_disk() {
    let thinking = |first_byte: u64| {
        random_reads(1).with(|job| {
            job.pacing.think = Think { time_ns: 300_000, blocks: 1, ..Think::default() };
            job.shape.pattern = Pattern::Sequential { skip_bytes: 0 };
            job.shape.block_sizes = PerDirection::all(BlockSize::Fixed(64 * KIB));
            job.area.offset = Amount::Bytes(first_byte);
        })
    };
    let of = |groups: Vec<(&str, u32, Job)>| {
        let mut question = experiment("sata", "paternoster", groups);
        (question.ramp_ns, question.runtime_ns) = (5_000 * MS, 20_000 * MS);
        total(&run(&question))
    };
    let together = of(vec![("a", 100, thinking(0)), ("b", 100, thinking(0))]);
    // Two areas share the disk's 250 GB equally.
    let alone = [0, 125_000_000_000].map(|first_byte| of(vec![("a", 100, thinking(first_byte))]));
    let mean = alone.iter().sum::<f64>() / 2.0;
    println!("{together:.1} of {mean:.1} MB/s ({alone:.1?})");
    assert!(together >= 0.85 * mean, "{together} of {alone:?}");
}
