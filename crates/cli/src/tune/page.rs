//! The measurements as the page of `hoistway test`.

use std::path::Path;

use hoistway_experiment::{Matrix, Measurement, Order, SchedulerSpec, ShareUnit, WorkloadPlan};
use hoistway_report::Results;

use crate::exit::Error;
use crate::run_test::store::write;
use hoistway::plan::machine;

/// Writes it.
pub fn write_to(path: &Path, host: &str, started_unix_ms: u64, measurements: &[Measurement]) -> Result<(), Error> {
    let matrix = matrix_of(measurements);
    let environment = machine::environment();
    let results = Results {
        version: env!("CARGO_PKG_VERSION"),
        started_unix_ms,
        complete: true,
        host,
        matrix: &matrix,
        measurements,
        environment: &environment,
        verdicts: &[],
    };
    write(path, &hoistway_report::page::html(&results))
}

/// A plan that would have produced these runs, because the page is made for a plan and its runs.
fn matrix_of(measurements: &[Measurement]) -> Matrix {
    let mut workloads: Vec<WorkloadPlan> = Vec::new();
    let mut schedulers: Vec<SchedulerSpec> = Vec::new();
    for run in measurements {
        let experiment = &run.experiment;
        if !workloads.iter().any(|plan| plan.name == experiment.workload) {
            workloads.push(WorkloadPlan { name: experiment.workload.clone(), groups: experiment.groups.clone() });
        }
        if !schedulers.contains(&experiment.scheduler) {
            schedulers.push(experiment.scheduler.clone());
        }
    }
    let first = measurements.first().map(|run| &run.experiment);
    Matrix {
        target: first.map_or_else(String::new, |first| first.target.clone()),
        workloads,
        schedulers,
        threads: vec![1],
        sets: measurements.iter().map(|run| run.experiment.set).max().unwrap_or(1),
        order: Order::Interleaved,
        seed: first.map_or(1, |first| first.seed),
        runtime_ns: first.map_or(0, |first| first.runtime_ns),
        ramp_ns: first.map_or(0, |first| first.ramp_ns),
        device_depth: None,
        queue_requests: None,
        limiters: Vec::new(),
        share_unit: ShareUnit::Bytes,
        machine: hoistway_experiment::Machine::default(),
    }
}
