//! The question: fields of the Python dataclass `Experiment`, and the library's builder made of them.

use std::time::Duration;

use hoistway::{Error, Experiment, ShareUnit};
use pyo3::prelude::*;

/// A group as the dataclass has it.
#[derive(FromPyObject)]
enum Group {
    /// Path and weight.
    Weighted(String, u32),
    /// In the notation of `--group`.
    Spec(String),
}

/// A time: seconds, or a text in the notation of `--runtime`.
#[derive(FromPyObject)]
enum Time {
    Seconds(f64),
    Text(String),
}

/// The dataclass `hoistway.Experiment`, field by field.
#[derive(FromPyObject)]
pub struct Question {
    target: String,
    groups: Vec<Group>,
    workloads: Vec<String>,
    schedulers: Vec<String>,
    limiters: Vec<String>,
    threads: Vec<u32>,
    sets: u32,
    seed: u64,
    runtime_s: Option<Time>,
    ramp_s: Option<Time>,
    device_depth: Option<u32>,
    queue_requests: Option<u32>,
    machine: Option<String>,
    share_unit: String,
    workers: Option<usize>,
    may_overwrite: bool,
}

impl Question {
    /// The names of its schedulers, without version and tunables.
    pub fn scheduler_names(&self) -> impl Iterator<Item = &str> {
        self.schedulers.iter().map(|spec| spec.split(['@', ':']).next().unwrap_or(spec))
    }

    /// The builder with every field given.
    pub fn build(&self) -> Result<Experiment, Error> {
        let mut experiment = Experiment::on(&self.target).sets(self.sets).seed(self.seed);
        for group in &self.groups {
            experiment = match group {
                Group::Weighted(path, weight) => experiment.group(path, *weight),
                Group::Spec(spec) => experiment.group_spec(spec),
            };
        }
        experiment = self.workloads.iter().fold(experiment, |experiment, name| experiment.workload(name));
        experiment = self.schedulers.iter().fold(experiment, |experiment, spec| experiment.scheduler(spec));
        experiment = self.limiters.iter().fold(experiment, |experiment, spec| experiment.limiter(spec));
        experiment = experiment.threads(self.threads.iter().copied()).share_unit(unit(&self.share_unit)?);
        if let Some(runtime_s) = &self.runtime_s {
            experiment = experiment.runtime(duration("runtime_s", runtime_s)?);
        }
        if let Some(ramp_s) = &self.ramp_s {
            experiment = experiment.ramp(duration("ramp_s", ramp_s)?);
        }
        if let Some(commands) = self.device_depth {
            experiment = experiment.device_depth(commands);
        }
        if let Some(requests) = self.queue_requests {
            experiment = experiment.queue_requests(requests);
        }
        if let Some(parameters) = &self.machine {
            experiment = experiment.machine(parameters);
        }
        if let Some(workers) = self.workers {
            experiment = experiment.workers(workers);
        }
        Ok(if self.may_overwrite { experiment.may_overwrite() } else { experiment })
    }
}

fn duration(field: &str, time: &Time) -> Result<Duration, Error> {
    match time {
        Time::Seconds(seconds) => Duration::try_from_secs_f64(*seconds)
            .map_err(|wrong| Error::usage(format!("{field} {seconds}: {wrong}"), "give seconds: 0.2 is 200 ms")),
        Time::Text(text) => hoistway::duration(text),
    }
}

fn unit(name: &str) -> Result<ShareUnit, Error> {
    match name {
        "bytes" => Ok(ShareUnit::Bytes),
        "ios" => Ok(ShareUnit::Ios),
        "time" => Ok(ShareUnit::Time),
        other => Err(Error::usage(format!("share_unit '{other}' is unknown"), "known are bytes, ios, time")),
    }
}
