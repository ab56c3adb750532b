//! Simulated requests per second on one core: issuer, queue, policy, device, recorder and events
//! together. Preparation (for example ageing a flash translation layer) is not counted.
//!
//! `cargo bench -p hoistway-simulator --bench requests_per_second`. Targets: 5 M/s for null and SSD
//! under noop and mq-deadline, 0.5 M/s for a disk with 32 queued commands;
//! docs/specifications/devices.md, section 13, case 4, wants 8 M/s for null under noop and 5 M/s
//! for nvme at depth 128, both with host costs of zero.

#[path = "../tests/experiments/mod.rs"]
mod experiments;

use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use experiments::{experiment, random_reads};
use hoistway_device::{Device, MODELS, Model};
use hoistway_experiment::{Experiment, Host, LiveFigures, Progress};
use hoistway_simulator::{HostCosts, Simulator};
use hoistway_workload::Job;
use hoistway_workload::job::Mix;

/// Virtual time after which a run would end; none takes that long.
const ENDLESS_NS: u64 = 24 * 3_600_000_000_000;

struct Case {
    name: String,
    target: String,
    scheduler: &'static str,
    costs: HostCosts,
    job: Job,
    /// Groups of one such job each.
    groups: u64,
}

impl Case {
    fn new(target: &str, scheduler: &'static str, depth: u32, costs: HostCosts) -> Self {
        let free = if costs == HostCosts::NONE { " free host" } else { "" };
        let job = random_reads(depth);
        Self {
            name: format!("{target} {scheduler} depth {depth}{free}"),
            target: target.to_owned(),
            scheduler,
            costs,
            job,
            groups: 1,
        }
    }

    fn writing(self) -> Self {
        let job = self.job.with(|job| job.shape.mix = Mix::Write);
        Self { name: format!("{} writes", self.name), job, ..self }
    }

    /// The same requests, divided among N groups.
    fn of_groups(self, groups: u64) -> Self {
        Self { name: format!("{} {groups} groups", self.name), groups, ..self }
    }

    fn question(&self, requests: u64) -> Experiment {
        let number_ios = Some(requests / self.groups);
        let job = self.job.clone().with(|job| {
            job.area.number_ios = number_ios;
            job.times.time_based = false;
            job.times.runtime_ns = None;
        });
        let names: Vec<String> = (0..self.groups).map(|number| format!("g{number}")).collect();
        let groups = names.iter().map(|name| (name.as_str(), 100, job.clone())).collect();
        let question = experiment(&self.target, self.scheduler, groups);
        Experiment { ramp_ns: 0, runtime_ns: ENDLESS_NS, ..question }
    }
}

/// Records the time at which a run begins, after its preparation.
struct Begin(Instant);

#[allow(clippy::disallowed_methods, reason = "a bench measures real time")]
fn now() -> Instant {
    Instant::now()
}

impl Progress for Begin {
    fn started(&mut self, _experiment: &Experiment) {
        self.0 = now();
    }

    fn advanced(&mut self, _figures: &LiveFigures<'_>) {}

    fn cancelled(&self) -> bool {
        false
    }
}

fn run(case: &Case, question: &Experiment, requests: u64) -> Duration {
    let mut begin = Begin(now());
    let measurement = Simulator::with_costs(case.costs).run(question, &mut begin).unwrap();
    let took = begin.0.elapsed();
    let ios: u64 = measurement.groups.iter().map(|group| group.ios()).sum();
    assert_eq!(ios, requests / case.groups * case.groups);
    took
}

fn cases() -> Vec<Case> {
    let (free, usual) = (HostCosts::NONE, HostCosts::default());
    let mut cases = vec![
        Case::new("null", "noop", 64, free),
        Case::new("null", "mq-deadline", 64, free),
        Case::new("ssd", "noop", 32, free),
        Case::new("ssd", "mq-deadline", 32, free),
        Case::new("nvme", "noop", 128, free),
        Case::new("nvme", "mq-deadline", 128, free),
        Case::new("sata", "noop", 32, free),
        Case::new("sata", "mq-deadline", 32, free),
        Case::new("null", "noop", 64, usual),
        Case::new("ssd", "mq-deadline", 32, usual),
        Case::new("nvme", "mq-deadline", 128, usual),
        Case::new("null,slow_sectors=8,slow_ms=1,error_ppm=1,hiccup_every_ms=100,hiccup_ms=1", "noop", 64, free),
    ];
    // The same work for more groups: every request meets the state of another group.
    for scheduler in ["none", "wfq", "paternoster"] {
        for groups in [1_024, 10_000, 100_000] {
            cases.push(Case::new("null,queue_depth=1024", scheduler, 1, free).of_groups(groups));
        }
    }
    // A drive in steady state, with mapping and garbage collection.
    for aged in
        ["ssd-plextor,precondition=random,sim_mib=1024,pages_per_block=16", "nvme,precondition=random,sim_mib=1024"]
    {
        if Model::parse(aged).is_ok() {
            cases.push(Case::new(aged, "noop", 32, free).writing());
            cases.push(Case::new(aged, "noop", 32, free));
        }
    }
    for row in MODELS {
        if !cases.iter().any(|case| case.target == row.name) {
            let depth = Model::parse(row.name).map_or(1, |model| model.build(1, "dev0").info().depth.min(128));
            cases.push(Case::new(row.name, "noop", depth, free));
        }
    }
    cases
}

fn requests_per_second(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("simulator");
    group.sample_size(10).warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(2));
    for case in cases() {
        let is_slow = Model::parse(&case.target).is_ok_and(|model| model.build(1, "dev0").info().rotational);
        let requests = if is_slow { 20_000 } else { 400_000 };
        let question = case.question(requests);
        group.throughput(Throughput::Elements(requests));
        group.bench_function(&case.name, |bencher| {
            bencher.iter_custom(|iterations| (0..iterations).map(|_| run(&case, &question, requests)).sum());
        });
    }
    group.finish();
}

criterion_group!(benches, requests_per_second);
criterion_main!(benches);
