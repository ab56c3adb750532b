//! Whether a host can run every combination of a test, before anything is changed.

use hoistway_elevator::registry::ENTRIES;
use hoistway_experiment::{Experiment, Host, Matrix, SchedulerSpec};

use crate::error::Error;

/// Asks the host about every combination of the plan.
///
/// # Errors
/// The first that it refuses, with what of it is to blame.
pub fn with_host(host: &dyn Host, matrix: &Matrix) -> Result<(), Error> {
    for experiment in matrix.interleaved_set(1) {
        host.check(&experiment).map_err(|refusal| Error::from(refusal).at(place_of(host, &experiment)))?;
    }
    Ok(())
}

/// The subject of a refusal: the run's scheduler if another one would be accepted, else the run.
fn place_of(host: &dyn Host, experiment: &Experiment) -> String {
    let mut other = experiment.clone();
    let usual = if host.name() == "native" { "current" } else { ENTRIES[0].name };
    other.scheduler = SchedulerSpec::named(usual);
    if host.check(&other).is_ok() {
        return format!("--sched {}", experiment.scheduler);
    }
    other = Experiment { limiters: Vec::new(), ..experiment.clone() };
    match host.check(&other) {
        Ok(()) => format!("--limiter of {}", name_of(experiment)),
        Err(_) => name_of(experiment),
    }
}

/// A run's name in messages: workload, scheduler, number of threads, number of the set.
pub fn name_of(experiment: &Experiment) -> String {
    let Experiment { workload, scheduler, threads, set, .. } = experiment;
    format!("{workload} {scheduler} nr={threads} set={set}")
}
