//! Small experiments, built from literals.
#![allow(dead_code, reason = "each test file uses a part of it")]

use hoistway_block::Nanos;
use hoistway_experiment::{Experiment, Group, Host, Measurement, Unattended, Weight};
use hoistway_simulator::{HostCosts, Simulator};
use hoistway_workload::job::{BlockSize, Mix, Pattern, PerDirection};
use hoistway_workload::{Engine, Job};

pub const MS: Nanos = 1_000_000;
pub const KIB: u32 = 1_024;

/// Direct random reads of 4 KiB at a depth.
pub fn random_reads(depth: u32) -> Job {
    endless().with(|job| {
        job.name = "randread".to_owned();
        job.shape.pattern = Pattern::Random { run: 1, repeat_offset: false };
        job.shape.random_map = false;
        job.shape.block_sizes = PerDirection::all(BlockSize::Fixed(4 * KIB));
        job.submission.engine = Engine::Async;
        job.submission.iodepth = depth;
        job.submission.direct = true;
    })
}

/// Sequential reads through the page cache.
pub fn buffered_stream(mix: Mix) -> Job {
    endless().with(|job| {
        job.name = "stream".to_owned();
        job.shape.mix = mix;
        job.shape.block_sizes = PerDirection::all(BlockSize::Fixed(4 * KIB));
    })
}

/// A job that runs until the end of the run.
fn endless() -> Job {
    Job::default().with(|job| {
        job.times.time_based = true;
        job.times.runtime_ns = Some(1 << 50);
    })
}

/// A run of 10 ms ramp and 100 ms window.
pub fn experiment(target: &str, scheduler: &str, groups: Vec<(&str, u32, Job)>) -> Experiment {
    let group = |(path, weight, job): (&str, u32, Job)| Group::new(path, Weight::new(weight).unwrap(), vec![job]);
    let groups: Vec<Group> = groups.into_iter().map(group).collect();
    Experiment {
        runtime_ns: 100 * MS,
        ramp_ns: 10 * MS,
        ..Experiment::new(format!("model:{target}"), "test", scheduler.parse().unwrap(), groups)
    }
}

/// Runs it with the default host costs and a checksum of the completion log.
pub fn run(experiment: &Experiment) -> Measurement {
    run_on(Simulator::default().logging(), experiment)
}

/// Runs it with these host costs and a checksum of the completion log.
pub fn run_with(experiment: &Experiment, costs: HostCosts) -> Measurement {
    run_on(Simulator::with_costs(costs).logging(), experiment)
}

fn run_on(mut simulator: Simulator, experiment: &Experiment) -> Measurement {
    simulator.check(experiment).unwrap();
    simulator.run(experiment, &mut Unattended).unwrap()
}

/// The checksum of a run's completion log.
pub fn log_of(measurement: &Measurement) -> &str {
    &measurement.target.notes["completion_log"]
}
