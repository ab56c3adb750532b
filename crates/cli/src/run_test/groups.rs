//! The groups that share the device: `--nrgrp`, `--weights`, `--group SPEC`.

use hoistway_experiment::group::parse_weights;
use hoistway_experiment::{Group, Weight};
use hoistway_workload::Job;

use crate::exit::Error;
use crate::run_test::arguments::GroupArguments;
use crate::run_test::arguments::TestArguments;
use crate::workloads;
use hoistway::plan::groups::{Described, describe, place_of};

/// Groups of a test that are not described by a job file.
#[derive(Debug)]
pub enum Groups {
    /// One unnamed tenant.
    Single,
    /// Groups with the same workload, by their weights.
    Alike(Vec<Weight>),
    /// Groups that are each described in full.
    Described(Vec<Described>),
}

/// The value of `--weights`, which only a judged scenario may have more than once.
pub fn only_weights(given: &GroupArguments) -> Result<Option<&str>, Error> {
    if given.weights.len() > 1 {
        let what = format!("--weights is given {} times", given.weights.len());
        return Err(Error::usage(
            what,
            "a test takes one; several are for a scenario with verdicts (--scenario everyday)",
        ));
    }
    Ok(given.weights.first().map(String::as_str))
}

/// Whether no option says what to measure: such a test is a demonstration.
pub fn is_first_run(arguments: &TestArguments) -> bool {
    arguments.target.is_none()
        && arguments.place.file.is_none()
        && arguments.workload.workload.is_empty()
        && arguments.workload.job.is_empty()
        && arguments.groups.group.is_empty()
}

impl Groups {
    /// Parses the arguments.
    pub fn read(arguments: &TestArguments) -> Result<Self, Error> {
        let given = &arguments.groups;
        if !given.group.is_empty() {
            let described = given.group.iter().map(|spec| describe(spec).map_err(|error| error.at(place_of(spec))));
            return Ok(Groups::Described(described.collect::<Result<_, _>>()?));
        }
        let count = given.nrgrp.map(|count| count as usize);
        if let Some(text) = only_weights(given)? {
            let count = count.or((given.groups && text.contains("..")).then_some(4));
            let weights =
                parse_weights(text, count).map_err(|wrong| Error::from(wrong).at(format!("--weights {text}")))?;
            return Ok(Groups::Alike(weights));
        }
        let count = match count {
            Some(count) => count,
            None if given.groups || is_first_run(arguments) => 4,
            None => return Ok(Groups::Single),
        };
        let steps = (1..=count).map(|step| Weight::new(u32::try_from(step * 100).unwrap_or(u32::MAX)));
        let weights = steps.collect::<Result<Vec<_>, _>>().map_err(|_| {
            let what = format!("{count} groups of weights 100, 200, ... need weights above {}", Weight::MAX);
            Error::usage(what, "give the weights: --weights 1..1000").at("--nrgrp")
        })?;
        Ok(Groups::Alike(weights))
    }

    /// Whether a job file may define the groups.
    pub fn is_single(&self) -> bool {
        matches!(self, Groups::Single)
    }

    /// The groups, each with its jobs; `jobs` are those of groups without a workload of their own.
    pub fn with_jobs(&self, jobs: &[Job], arguments: &TestArguments) -> Result<Vec<Group>, Error> {
        let name = |index: usize| format!("cgrp{}", index + 1);
        match self {
            Groups::Single => Ok(vec![Group::new(name(0), Weight::DEFAULT, jobs.to_vec())]),
            Groups::Alike(weights) => {
                let groups = weights.iter().enumerate();
                Ok(groups.map(|(index, weight)| Group::new(name(index), *weight, jobs.to_vec())).collect())
            }
            Groups::Described(described) => {
                let options = workloads::options(&arguments.workload);
                described.iter().map(|one| one.with_jobs(jobs, &options)).collect()
            }
        }
    }
}
