//! paternoster on calibrated devices: shares against the attainable ones, throughput against that
//! of the scheduler `none`. Source of the case numbers: docs/specifications/paternoster.md, section
//! 14. Whole tables: `cargo run --release -p hoistway-simulator --example share_cells`.

mod experiments;

use experiments::{MS, buffered_stream, experiment, random_reads, run, run_with};
use hoistway_experiment::attainable::{Attainable, Curve, Tenant};
use hoistway_experiment::{Experiment, Measurement};
use hoistway_simulator::HostCosts;
use hoistway_workload::Job;
use hoistway_workload::job::{Amount, BlockSize, Mix, Pattern, PerDirection};

/// Long enough for paternoster to find its floor on these devices by bisection and to move it by
/// some steps; the example measures longer.
const RAMP_MS: u64 = 1_500;
const RUNTIME_MS: u64 = 500;

/// A tenant: weight, depth, jobs.
type Side = (u32, u32, u32);

fn question(model: &str, scheduler: &str, sides: &[Side]) -> Experiment {
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let job = |(_, depth, jobs): Side| random_reads(depth).with(|job| job.threads = jobs);
    let groups = names.iter().zip(sides).map(|(name, side)| (*name, side.0, job(*side))).collect();
    let mut question = experiment(model, scheduler, groups);
    (question.ramp_ns, question.runtime_ns) = (RAMP_MS * MS, RUNTIME_MS * MS);
    question
}

/// I/Os per second of each tenant.
fn rates(measurement: &Measurement) -> Vec<f64> {
    measurement.groups.iter().map(|group| measurement.per_s(group.bytes()) / 4096.0).collect()
}

struct Got {
    rates: Vec<f64>,
    /// Throughput in per cent of that of `none`.
    percent: f64,
    /// Largest distance from the exact share, in per cent.
    error: f64,
}

fn measure(model: &str, scheduler: &str, sides: &[Side]) -> Got {
    let none: f64 = rates(&run(&question(model, "none", sides))).iter().sum();
    let rates = rates(&run(&question(model, scheduler, sides)));
    let total: f64 = rates.iter().sum();
    let weights: u32 = sides.iter().map(|side| side.0).sum();
    let error = |(rate, side): (&f64, &Side)| (rate / (total * f64::from(side.0) / f64::from(weights)) - 1.0).abs();
    let error = rates.iter().zip(sides).map(error).fold(0.0, f64::max) * 100.0;
    Got { percent: total / none * 100.0, error, rates }
}

/// The device's throughput at these numbers of requests in flight.
fn curve(model: &str, populations: &[u32]) -> Curve {
    let point = |population: &u32| {
        let mut question = question(model, "none", &[(100, 1, *population)]);
        (question.ramp_ns, question.runtime_ns) = (100 * MS, 300 * MS);
        (f64::from(*population), rates(&run_with(&question, HostCosts::NONE)).iter().sum())
    };
    Curve::new(populations.iter().map(point).collect())
}

fn tenants(sides: &[Side]) -> Vec<Tenant> {
    // A completion and a submission at the default host costs lie between two requests.
    let tenant =
        |side: &Side| Tenant { weight: f64::from(side.0), outstanding: f64::from(side.1 * side.2), think_ns: 4_500.0 };
    sides.iter().map(tenant).collect()
}

fn eight(readers: u32) -> Vec<Side> {
    (1..=8).map(|number| (number * 100, 1, readers)).collect()
}

#[track_caller]
fn assert_exact(got: &Got, percent: f64, error: f64) {
    assert!(
        got.percent >= percent && got.error <= error,
        "{:.1} %, error {:.2} %: {:?}",
        got.percent,
        got.error,
        got.rates
    );
}

#[test]
fn t01_equal_weights_cost_nothing() {
    assert_exact(&measure("ssd-lsi", "paternoster:give=3", &[(60, 8, 1), (60, 8, 1)]), 99.0, 1.0);
}

#[test]
fn t02_three_to_one_is_exact_and_full_when_saturated() {
    assert_exact(&measure("ssd-lsi", "paternoster:give=3", &[(60, 24, 1), (20, 24, 1)]), 99.0, 2.0);
}

#[test]
fn t03_a_device_limited_by_its_link_is_full_with_less_inside() {
    assert_exact(&measure("ssd-lsi,link_MBps=200", "paternoster:give=3", &[(60, 8, 1), (20, 8, 1)]), 99.0, 3.0);
}

#[test]
fn t04_eight_groups() {
    assert_exact(&measure("ssd-lsi,link_MBps=260", "paternoster:give=3", &eight(4)), 99.0, 5.0);
    assert_exact(&measure("ssd-lsi", "paternoster:give=3", &eight(8)), 99.0, 1.0);
}

#[test]
fn t05_unreachable_shares_are_approached_at_three_per_cent_of_throughput() {
    let sides = [(60, 8, 1), (20, 8, 1)];
    let curve = curve("ssd-lsi", &[4, 8, 10, 12, 14, 15, 16]);
    let got = measure("ssd-lsi", "paternoster:give=3", &sides);
    assert!(got.percent >= 96.5, "{:.1} %", got.percent);
    let can = Attainable::new(&tenants(&sides), &curve, 32.0, 0.03);
    assert!(can.n_star < can.n_eps, "not to be had: {can:?}");
    for (got, can) in got.rates.iter().zip(&can.rates) {
        assert!((got / can - 1.0).abs() <= 0.05, "{got} against {can}");
    }
}

/// Cases 5 and 12: exact shares cost as much as the theory says.
#[test]
fn t12_exact_shares_deliver_what_the_device_does_at_n_star() {
    for sides in [vec![(60, 8, 1), (20, 8, 1)], eight(4)] {
        let curve = curve("ssd-lsi", &[4, 8, 10, 12, 14, 16, 18, 20, 24, 32]);
        let can = Attainable::new(&tenants(&sides), &curve, 32.0, 0.03);
        let got = measure("ssd-lsi", "paternoster:give=100", &sides);
        let total: f64 = got.rates.iter().sum();
        assert!(got.error <= 0.5, "{:.2} %", got.error);
        assert!((total / can.exact_rate - 1.0).abs() <= 0.05, "{total} against {}", can.exact_rate);
    }
}

#[test]
fn t08_give_0_costs_nothing() {
    for sides in [vec![(60, 8, 1), (20, 8, 1)], vec![(60, 24, 1), (20, 24, 1)], eight(2)] {
        let got = measure("ssd-lsi", "paternoster:give=0", &sides);
        assert!((got.percent - 100.0).abs() <= 0.5, "{:.2} %", got.percent);
    }
}

#[test]
fn t10_more_to_give_buys_more() {
    let got: Vec<_> = [0, 3, 10, 30, 100]
        .map(|give| measure("ssd-lsi", &format!("paternoster:give={give}"), &[(60, 8, 1), (20, 8, 1)]))
        .into();
    for pair in got.windows(2) {
        let share = |got: &Got| got.rates[0] / got.rates.iter().sum::<f64>();
        assert!(share(&pair[1]) >= share(&pair[0]) - 0.005, "{:?} after {:?}", pair[1].rates, pair[0].rates);
        assert!(pair[1].percent <= pair[0].percent + 1.0, "{} after {}", pair[1].percent, pair[0].percent);
    }
}

#[test]
fn t11_exact_at_depth_1_is_three_to_one() {
    let got = measure("ssd-lsi", "paternoster:give=100", &[(60, 1, 1), (20, 1, 1)]);
    assert!(got.error <= 3.0 && (60.0..70.0).contains(&got.percent), "{:.1} %, error {:.1} %", got.percent, got.error);
}

/// Case 22: equal weights, one reader of depth 1 against a flood of reads.
#[test]
fn t22_a_reader_beside_a_flood() {
    let p50 = |scheduler: &str| {
        let measurement = run(&question("ssd-lsi,link_MBps=260", scheduler, &[(100, 1, 1), (100, 128, 1)]));
        measurement.groups[0].read.latency.percentile_unclamped_ns(50.0)
    };
    let (none_ns, ours_ns) = (p50("none"), p50("paternoster:give=3"));
    let got = measure("ssd-lsi,link_MBps=260", "paternoster:give=3", &[(100, 1, 1), (100, 128, 1)]);
    assert!(got.percent >= 97.0, "{:.1} %", got.percent);
    assert!(ours_ns * 8 < none_ns, "{ours_ns} against {none_ns}");
}

// ---- disks ----

/// Buffered sequential readers of files, or random readers of the raw device, in groups.
fn on_disk(model: &str, scheduler: &str, groups: Vec<(&str, u32, Job)>) -> Measurement {
    let mut question = experiment(model, scheduler, groups);
    (question.ramp_ns, question.runtime_ns) = (20_000 * MS, 20_000 * MS);
    run(&question)
}

const NAMES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

fn streams(count: usize) -> Vec<(&'static str, u32, Job)> {
    NAMES[..count].iter().map(|name| (*name, 100, buffered_stream(Mix::Read))).collect()
}

fn eight_on_disk(job: &Job, readers: u32) -> Vec<(&'static str, u32, Job)> {
    let group =
        |(name, weight): (&&'static str, u32)| (*name, weight * 100, job.clone().with(|job| job.threads = readers));
    NAMES.iter().zip(1..).map(group).collect()
}

fn megabytes(measurement: &Measurement) -> Vec<f64> {
    measurement.groups.iter().map(|group| measurement.per_s(group.bytes()) / 1e6).collect()
}

/// The largest distance of a share from that of its weight, in per cent.
fn farthest(measurement: &Measurement) -> f64 {
    let (rates, all) = (megabytes(measurement), megabytes(measurement).iter().sum::<f64>());
    let weights: u32 = measurement.groups.iter().map(|group| group.weight).sum();
    let of = |(rate, weight): (&f64, u32)| (rate / (all * f64::from(weight) / f64::from(weights)) - 1.0).abs() * 100.0;
    rates.iter().zip(measurement.groups.iter().map(|group| group.weight)).map(of).fold(0.0, f64::max)
}

#[test]
fn t35_streams_have_a_disk_one_at_a_time() {
    for count in [2, 4, 8] {
        let total = |scheduler: &str| megabytes(&on_disk("sata", scheduler, streams(count))).iter().sum::<f64>();
        let (none, ours, cfq) = (total("none"), total("paternoster"), total("cfq"));
        println!("{count} streams: none {none:.1}, ours {ours:.1}, cfq {cfq:.1}");
        assert!(ours >= 0.95 * cfq, "{count}: {ours} against {cfq}");
        assert!(none < 0.6 * ours, "{count}: {ours} against {none}");
    }
}

/// Half a second of flow is fast, because streams may lead by what they have in flight. After that they
/// would be held to the bytes of the random reader.
#[test]
fn streams_of_one_group_beside_a_random_reader() {
    let stream = |kib: u32, depth: u32, threads: u32| {
        random_reads(depth).with(|job| {
            job.shape.pattern = Pattern::Sequential { skip_bytes: 0 };
            job.shape.block_sizes = PerDirection::all(BlockSize::Fixed(kib * 1024));
            job.area.offset_increment = Amount::Bytes(8 << 30);
            job.threads = threads;
        })
    };
    for (kib, depth, threads) in [(1024, 8, 4), (1024, 8, 1), (256, 4, 2), (128, 32, 1)] {
        let groups = || vec![("a", 100, random_reads(1)), ("b", 100, stream(kib, depth, threads))];
        let (ours, cfq) = (on_disk("sata", "paternoster", groups()), on_disk("sata", "cfq", groups()));
        let (ours, cfq) = (megabytes(&ours), megabytes(&cfq));
        println!("{kib} KiB, depth {depth}, {threads} streams: ours {ours:.2?}, cfq {cfq:.2?}");
        assert!(ours[1] >= 0.7 * cfq[1] && ours[0] >= 0.3 * cfq[0], "{ours:?} against {cfq:?}");
    }
}

/// On an array the streams are not held to the bytes of a random reader that gains nothing by it.
#[test]
fn streams_on_an_array_beside_a_random_reader() {
    let stream = |kib: u32| {
        random_reads(4).with(|job| {
            job.shape.pattern = Pattern::Sequential { skip_bytes: 0 };
            job.shape.block_sizes = PerDirection::all(BlockSize::Fixed(kib * 1024));
        })
    };
    for (model, kib) in [("raid5x12-stream", 64), ("raid5x12", 256)] {
        let groups = || {
            let streams = NAMES[..4].iter().map(|name| (*name, 100, stream(kib)));
            streams.chain([("reader", 100, random_reads(1))]).collect()
        };
        // Between the first comparison of the ways to use a disk and the second.
        let rates = |scheduler: &str| {
            let mut question = experiment(model, scheduler, groups());
            (question.ramp_ns, question.runtime_ns) = (6_000 * MS, 20_000 * MS);
            megabytes(&run(&question))
        };
        let (none, ours) = (rates("none"), rates("paternoster"));
        println!("{model}, {kib} KiB: none {none:.2?}, ours {ours:.2?}");
        assert!(ours.iter().sum::<f64>() >= 0.95 * none.iter().sum::<f64>(), "{ours:?} against {none:?}");
        assert!(ours[4] >= 0.7 * none[4], "{ours:?} against {none:?}");
    }
}

/// Case 36 on a disk whose outer zone delivers half as much again as its inner one: shares in
/// bytes, as in docs/specifications/paternoster.md, section 14.
#[test]
fn t36_groups_of_buffered_readers() {
    // Readers of one group read different parts of its file, because a page read by one is in the
    // page cache for the others.
    let apart = buffered_stream(Mix::Read).with(|job| job.area.offset_increment = Amount::Bytes(4 << 30));
    let of = |model: &str, scheduler: &str, runtime_s: u64| {
        let mut question = experiment(model, scheduler, eight_on_disk(&apart, 4));
        (question.ramp_ns, question.runtime_ns) = (20_000 * MS, runtime_s * 1_000 * MS);
        run(&question)
    };
    let total = |measurement: &Measurement| megabytes(measurement).iter().sum::<f64>();
    let print = |what: &str, got: &Measurement| {
        println!("{what}: {:.1} MB/s, error {:.1} %: {:.2?}", total(got), farthest(got), megabytes(got));
    };
    // The lightest group has a slice every 3.6 s: one more or less in a minute is 6 %.
    let (got, cfq) = (of("sata", "paternoster", 240), of("sata", "cfq", 60));
    print("sata", &got);
    print("sata, cfq", &cfq);
    assert!(total(&got) >= 0.97 * total(&cfq) && farthest(&got) <= 5.0, "{:?}", megabytes(&got));
    // The disk of docs/specifications/paternoster.md, section 14, has the same rate everywhere.
    let even = of("sata,spt_inner=1157", "paternoster", 120);
    print("without zones", &even);
    assert!(total(&even) >= 50.0 && farthest(&even) <= 5.0, "{:?}", megabytes(&even));
}

#[test]
fn t37_random_readers_use_the_whole_queue_of_a_disk() {
    let job = random_reads(1);
    let none: f64 = megabytes(&on_disk("sata", "none", eight_on_disk(&job, 4))).iter().sum();
    // The run is long, because the lightest group has only four requests per second, and because
    // paternoster tries slices on the disk from time to time.
    let mut question = experiment("sata", "paternoster", eight_on_disk(&job, 4));
    (question.ramp_ns, question.runtime_ns) = (20_000 * MS, 80_000 * MS);
    let got = run(&question);
    let total: f64 = megabytes(&got).iter().sum();
    println!("none {none:.3}, ours {total:.3} MB/s, error {:.1} %", farthest(&got));
    // By default shares on a disk are exact: 4 readers of the heaviest group (8 of 36) permit 18 in
    // flight.
    let at_18: f64 =
        megabytes(&on_disk("sata", "none", vec![("a", 100, random_reads(1).with(|job| job.threads = 18))]))
            .iter()
            .sum();
    println!("18 inside: {at_18:.3} MB/s");
    assert!(total >= 0.97 * at_18 && farthest(&got) <= 5.0, "{total} of {at_18} MB/s, {:?}", megabytes(&got));
}

#[test]
fn t38_a_stream_beside_random_readers() {
    let groups = || {
        vec![("stream", 100, buffered_stream(Mix::Read)), ("random", 100, random_reads(1).with(|job| job.threads = 4))]
    };
    let (none, got) = (on_disk("sata", "none", groups()), on_disk("sata", "paternoster", groups()));
    println!("none {:?}, automatic {:?}", megabytes(&none), megabytes(&got));
    assert!(megabytes(&got)[0] >= 22.0 && megabytes(&none)[0] < 15.0);
}

#[test]
fn t39_an_array_with_random_readers_is_used_in_flow() {
    let job = random_reads(1);
    for (readers, least) in [(4, 0.7), (8, 0.8)] {
        let none: f64 = megabytes(&on_disk("raid5x12", "none", eight_on_disk(&job, readers))).iter().sum();
        let got = on_disk("raid5x12", "paternoster", eight_on_disk(&job, readers));
        let total: f64 = megabytes(&got).iter().sum();
        println!("{readers} readers: {total:.2} of {none:.2} MB/s, error {:.2} %", farthest(&got));
        assert!(total >= least * none && farthest(&got) <= 5.0, "{:?}", megabytes(&got));
    }
}
