//! Literal results: three tenants on one disk under several schedulers, as a test would have
//! measured them.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::collections::BTreeMap;

use hoistway_block::random::Stream;
use hoistway_experiment::assertion::{Assertion, Verdict};
use hoistway_experiment::cell::cells;
use hoistway_experiment::dispatches::{DispatchedRequest, Hold};
use hoistway_experiment::job::{BlockSize, Engine, Job, Pattern, PerDirection};
use hoistway_experiment::measurement::{
    DeviceCounters, DirectionCounters, Flag, GroupMeasurement, Sample, Tally, TunableInForce,
};
use hoistway_experiment::{
    Dispatches, Group, Histogram, Matrix, Measurement, Order, SchedulerInForce, ShareUnit, TargetFacts, Weight,
    WorkloadPlan,
};
use hoistway_report::Results;

const MIB: f64 = 1_048_576.0;
const SECOND_NS: u64 = 1_000_000_000;

/// A scheduler's behaviour: its specification, total MiB/s per thread count, shares of the groups,
/// latency.
struct Behaviour {
    spec: &'static str,
    has_shares: bool,
    totals_mib: [f64; 4],
    parts: [f64; 3],
    median_ns: f64,
    tail: f64,
}

const BEHAVIOURS: [Behaviour; 5] = [
    Behaviour {
        spec: "none",
        has_shares: false,
        totals_mib: [58.0, 101.0, 148.0, 171.0],
        parts: [0.34, 0.33, 0.33],
        median_ns: 640_000.0,
        tail: 0.9,
    },
    Behaviour {
        spec: "mq-deadline",
        has_shares: false,
        totals_mib: [57.0, 98.0, 144.0, 167.0],
        parts: [0.35, 0.33, 0.32],
        median_ns: 700_000.0,
        tail: 0.7,
    },
    Behaviour {
        spec: "cfq@2.6.36:slice_idle=8",
        has_shares: true,
        totals_mib: [44.0, 61.0, 78.0, 92.0],
        parts: [0.17, 0.29, 0.54],
        median_ns: 410_000.0,
        tail: 2.4,
    },
    Behaviour {
        spec: "bfq:low_latency=0",
        has_shares: true,
        totals_mib: [51.0, 79.0, 108.0, 126.0],
        parts: [0.148, 0.287, 0.565],
        median_ns: 820_000.0,
        tail: 1.6,
    },
    Behaviour {
        spec: "wfq",
        has_shares: true,
        totals_mib: [57.0, 99.0, 145.0, 168.0],
        parts: [0.1436, 0.2859, 0.5705],
        median_ns: 690_000.0,
        tail: 1.1,
    },
];

/// A test of the first `schedulers` of five with these thread counts and sets.
pub struct Example {
    matrix: Matrix,
    measurements: Vec<Measurement>,
    environment: BTreeMap<String, String>,
    verdicts: Vec<Verdict>,
}

impl Example {
    pub fn new(schedulers: usize, threads: &[u32], sets: u32) -> Self {
        let matrix = matrix(schedulers, threads, sets);
        let measurements: Vec<Measurement> = matrix
            .experiments()
            .into_iter()
            .map(|experiment| {
                let index = matrix.schedulers.iter().position(|spec| *spec == experiment.scheduler).unwrap();
                measurement(experiment, &BEHAVIOURS[index])
            })
            .collect();
        let environment = [
            ("hostname", "rack7"),
            ("kernel", "6.18.44"),
            ("cpus", "8"),
            ("command", "hoistway test model:ssd --group gold,weight=400 <&> \"quoted\" http://example.org/x"),
        ];
        let environment = environment.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        let assertions = ["share_error_max <= 5% @ sched=wfq", "total_bw >= 0.97*total_bw@sched=none @ sched=wfq"];
        let verdicts = {
            let cells = cells(&measurements, &matrix.schedulers);
            let judged = assertions.into_iter().filter(|_| schedulers == BEHAVIOURS.len());
            judged.map(|text| Assertion::parse(text).unwrap().evaluate(&cells, &[]).unwrap()).collect()
        };
        Self { matrix, measurements, environment, verdicts }
    }

    /// Makes the first `schedulers` schedulers dispatch the same requests.
    pub fn repeat_dispatches(&mut self, schedulers: usize) {
        let specs = &self.matrix.schedulers[..schedulers];
        let of_first = |run: &&Measurement| run.experiment.scheduler == specs[0];
        let first = self.measurements.iter().find(of_first).and_then(|run| run.dispatches.clone());
        let same = self.measurements.iter_mut().filter(|run| specs.contains(&run.experiment.scheduler));
        same.for_each(|run| run.dispatches.clone_from(&first));
    }

    /// Makes the second group of the first run discard `bytes_per_s` in addition.
    pub fn discard(&mut self, bytes_per_s: u64) {
        let run = &mut self.measurements[0];
        run.groups[1].trim.bytes = bytes_per_s * run.window_ns / SECOND_NS;
    }

    /// Removes all bytes read and written.
    pub fn move_nothing(&mut self) {
        let groups = self.measurements.iter_mut().flat_map(|run| &mut run.groups);
        groups.for_each(|group| (group.read.bytes, group.write.bytes) = (0, 0));
    }

    /// Multiplies the bytes read by the first group.
    pub fn favour_the_first(&mut self, factor: u64) {
        self.measurements.iter_mut().for_each(|run| run.groups[0].read.bytes *= factor);
    }

    /// Removes the dispatches, as for a host that cannot record them.
    pub fn forget_dispatches(&mut self) {
        self.measurements.iter_mut().for_each(|run| run.dispatches = None);
    }

    pub fn results(&self) -> Results<'_> {
        Results {
            version: "0.1.0",
            started_unix_ms: 1_795_168_212_345,
            complete: true,
            host: "simulator",
            matrix: &self.matrix,
            measurements: &self.measurements,
            environment: &self.environment,
            verdicts: &self.verdicts,
        }
    }
}

fn matrix(schedulers: usize, threads: &[u32], sets: u32) -> Matrix {
    let job = Job::default().with(|job| {
        job.name = "drr".into();
        job.submission.direct = true;
        job.shape.pattern = Pattern::Random { run: 1, repeat_offset: false };
        job.shape.block_sizes = PerDirection::all(BlockSize::Fixed(4096));
        job.submission.engine = Engine::Async;
        job.submission.iodepth = 16;
    });
    let group = |(path, weight)| Group::new(path, Weight::new(weight).unwrap(), vec![job.clone()]);
    Matrix {
        target: "model:ssd".into(),
        workloads: vec![WorkloadPlan {
            name: "drr".into(),
            groups: [("bronze", 100), ("silver", 200), ("gold", 400)].map(group).into(),
        }],
        schedulers: BEHAVIOURS[..schedulers].iter().map(|behaviour| behaviour.spec.parse().unwrap()).collect(),
        threads: threads.to_vec(),
        sets,
        order: Order::Interleaved,
        seed: 7,
        runtime_ns: 20 * SECOND_NS,
        ramp_ns: SECOND_NS,
        device_depth: Some(8),
        queue_requests: None,
        share_unit: ShareUnit::Bytes,
        limiters: Vec::new(),
        machine: hoistway_experiment::Machine::default(),
    }
}

fn measurement(experiment: hoistway_experiment::Experiment, behaviour: &Behaviour) -> Measurement {
    let mut stream = Stream::of(u64::from(experiment.set), &format!("{}{}", behaviour.spec, experiment.threads));
    let threads = experiment.threads.ilog2().min(3) as usize;
    let total = behaviour.totals_mib[threads] * MIB * wobble(&mut stream, 0.015);
    let groups = experiment.groups.iter().zip(behaviour.parts).map(|(group, part)| {
        let depth = 1.0 + threads as f64 * 0.8;
        let slower = if behaviour.has_shares { (1.0 / part / 3.0).sqrt() } else { 1.0 };
        let read = tally(&mut stream, total * part, behaviour.median_ns * depth * slower, behaviour.tail);
        let weight = group.weight.get();
        let (write, trim, sync, threads) = (Tally::default(), Tally::default(), Tally::default(), Vec::new());
        GroupMeasurement {
            path: group.path.clone(),
            weight,
            effective_weight: weight,
            read,
            write,
            trim,
            sync,
            late: 0,
            issue_delay: Histogram::default(),
            throttled_ns: Vec::new(),
            threads,
            jobs: Vec::new(),
        }
    });
    let groups: Vec<GroupMeasurement> = groups.collect();
    let ios: u64 = groups.iter().map(GroupMeasurement::ios).sum();
    Measurement {
        host: "simulator".into(),
        scheduler: SchedulerInForce {
            name: experiment.scheduler.name.clone(),
            version: experiment.scheduler.version.clone(),
            has_shares: behaviour.has_shares,
            tunables: tunables(&experiment.scheduler.name),
        },
        target: TargetFacts {
            path: "model:ssd".into(),
            model: "simple SSD, 8 channels".into(),
            size_bytes: 256_000_000_000,
            rotational: false,
            hw_queues: 1,
            queue_depth: 8,
            notes: BTreeMap::new(),
        },
        solo_rates: Vec::new(),
        processors: None,
        window_ns: experiment.runtime_ns,
        groups,
        device: DeviceCounters {
            read: DirectionCounters { ios, merges: 12, sectors: ios * 8, time_ns: ios * 80_000 },
            busy_ns: 19_900_000_000,
            weighted_ns: ios * 80_000,
            ..DeviceCounters::default()
        },
        dispatch_reasons: [("next in order".to_owned(), ios / 3 * 2), ("share".to_owned(), ios / 3)].into(),
        dispatches: (experiment.set == 1).then(|| dispatches(&mut stream)),
        blkio: std::collections::BTreeMap::new(),
        flags: if behaviour.has_shares { vec![] } else { vec![Flag::NoShares] },
        experiment,
    }
}

/// 300 requests in turns of 20 for each group, with a pause before each turn; the fourth group is
/// the system.
fn dispatches(stream: &mut Stream) -> Dispatches {
    let request = |index: u64| {
        let turn = index / 20;
        let group = u16::try_from(turn % 4).ok().filter(|group| *group < 3);
        let first_sector = turn % 4 * 100_000_000 + stream.below(10_000_000);
        DispatchedRequest {
            at_ns: index * 500_000 + turn * 2_000_000,
            service_ns: 400_000 + stream.below(3_000_000),
            extent: hoistway_block::Extent { first_sector, sectors: 64 },
            kind: if turn.is_multiple_of(5) { 'W' } else { 'R' },
            group,
            reason: (index != 77).then_some(u8::from(index.is_multiple_of(20))),
        }
    };
    let requests: Vec<DispatchedRequest> = (0..300).map(request).collect();
    let hold = |turn: u64| Hold { at_ns: turn * 12_000_000 - 1_500_000, length_ns: 1_400_000, reason: 2 };
    Dispatches {
        length_ns: 180_000_000,
        reasons: ["turn goes on", "turn <begins>", "waits for the next"].map(str::to_owned).into(),
        requests,
        holds: (1..15).map(hold).collect(),
    }
}

fn tunables(scheduler: &str) -> Vec<TunableInForce> {
    let tunable = |name: &str, value: &str, unit: &str, is_default| TunableInForce {
        name: name.into(),
        value: value.into(),
        unit: unit.into(),
        is_default,
    };
    match scheduler {
        "none" => vec![],
        "mq-deadline" => vec![
            tunable("read_expire", "500", "ms", true),
            tunable("write_expire", "5000", "ms", true),
            tunable("fifo_batch", "16", "", true),
            tunable("writes_starved", "2", "", true),
            tunable("front_merges", "1", "", true),
            tunable("prio_aging_expire", "10000", "ms", true),
        ],
        "wfq" => vec![tunable("quantum", "256", "KiB", true)],
        _ => vec![
            tunable("slice_idle", "8", "ms", true),
            tunable("low_latency", "0", "", false),
            tunable("back_seek_max", "16384", "KiB", true),
            tunable("back_seek_penalty", "2", "", true),
            tunable("fifo_expire_sync", "125", "ms", true),
            tunable("fifo_expire_async", "250", "ms", true),
        ],
    }
}

/// A factor around 1.
fn wobble(stream: &mut Stream, by: f64) -> f64 {
    1.0 + by * (stream.below(2001) as f64 / 1000.0 - 1.0)
}

#[expect(clippy::cast_possible_truncation, reason = "made-up figures of moderate size")]
fn tally(stream: &mut Stream, bytes_per_s: f64, median_ns: f64, tail: f64) -> Tally {
    let mut latency = Histogram::new();
    for _ in 0..40_000 {
        let uniform = (stream.below(1_000_000) as f64 + 1.0) / 1_000_001.0;
        // From 0.4 medians up, with a tail whose length depends on the scheduler.
        let stretched = median_ns * (0.4 + 0.6 * (-uniform.ln() / 0.7).powf(0.4 + tail * 0.45));
        latency.add(stretched as u64);
    }
    // A larger histogram of the same shape, with as many requests as the bytes imply.
    let ios = (bytes_per_s * 20.0 / 4096.0) as u64;
    let bins: Vec<(u64, u64)> = latency
        .bins()
        .map(|(bucket, count)| (hoistway_experiment::histogram::bucket_ns(bucket), count * ios / 40_000))
        .collect();
    let sample = |second: u64, stream: &mut Stream| {
        let bytes = bytes_per_s * wobble(stream, 0.06);
        Sample {
            at_ns: second * SECOND_NS,
            length_ns: SECOND_NS,
            bytes: bytes as u64,
            ios: (bytes / 4096.0) as u64,
            latency_ns_p50: median_ns as u64,
            latency_ns_p99: (median_ns * 4.0) as u64,
            latency_ns_max: (median_ns * 9.0) as u64,
            inflight: 5.0,
        }
    };
    let samples: Vec<Sample> = (0..20).map(|second| sample(second, stream)).collect();
    Tally {
        bytes: samples.iter().map(|sample| sample.bytes).sum(),
        ios: samples.iter().map(|sample| sample.ios).sum(),
        latency: Histogram::from_bins(bins),
        samples,
        ..Tally::default()
    }
}
