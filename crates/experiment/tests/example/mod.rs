//! Literal measurements: what a run of given throughputs would have returned.

use hoistway_experiment::measurement::{DeviceCounters, GroupMeasurement, Tally};
use hoistway_experiment::{
    Experiment, Group, Histogram, Measurement, SchedulerInForce, SchedulerSpec, TargetFacts, Weight,
};
use hoistway_workload::Job;

/// One second of `drr` with groups of weight 100, 200, ... that read `kib_per_s`, each request
/// taking `latency_ns`.
pub fn measured(scheduler: &str, threads: u32, set: u32, kib_per_s: &[u64], latency_ns: u64) -> Measurement {
    let spec: SchedulerSpec = scheduler.parse().unwrap();
    let group = |index: usize| {
        let weight = Weight::new(100 * (u32::try_from(index).unwrap() + 1)).unwrap();
        Group::new(format!("cgrp{}", index + 1), weight, vec![Job::default().with(|job| job.name = "drr".into())])
    };
    let groups: Vec<Group> = (0..kib_per_s.len()).map(group).collect();
    let answer = |(group, &kib): (&Group, &u64)| {
        let read = Tally {
            bytes: kib << 10,
            ios: kib / 4,
            latency: Histogram::from_bins([(latency_ns, kib / 4)]),
            ..Tally::default()
        };
        let weight = group.weight.get();
        let (write, trim, sync) = (Tally::default(), Tally::default(), Tally::default());
        let path = group.path.clone();
        GroupMeasurement {
            path,
            weight,
            effective_weight: weight,
            read,
            write,
            trim,
            sync,
            late: 0,
            issue_delay: Histogram::default(),
            throttled_ns: Vec::new(),
            threads: Vec::new(),
            jobs: Vec::new(),
        }
    };
    Measurement {
        host: "simulator".into(),
        scheduler: SchedulerInForce { name: spec.name.clone(), has_shares: true, ..SchedulerInForce::default() },
        target: TargetFacts { path: "model:null".into(), ..TargetFacts::default() },
        window_ns: 1_000_000_000,
        groups: groups.iter().zip(kib_per_s).map(answer).collect(),
        device: DeviceCounters::default(),
        dispatch_reasons: [("fifo".to_owned(), 7)].into(),
        dispatches: None,
        blkio: std::collections::BTreeMap::new(),
        solo_rates: Vec::new(),
        processors: None,
        flags: Vec::new(),
        experiment: Experiment {
            threads,
            set,
            runtime_ns: 1_000_000_000,
            ..Experiment::new("model:null", "drr", spec, groups)
        },
    }
}
