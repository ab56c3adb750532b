//! The user's own load, for which the recommendation is then made: a job file, or a trace of the
//! device's work.

use std::path::Path;

use hoistway_block::Nanos;
use hoistway_experiment::Group;
use hoistway_linux::input::Ceiling;

use crate::exit::{Error, Reporter};
use crate::replay::arguments::ReplayOptions;
use crate::replay::{job_file, workload::Wanted};
use crate::tune::arguments::ProbingArguments;
use crate::workloads;

/// Longer than any run, and far from overflow.
const ENDLESS_NS: Nanos = 1 << 50;

/// The groups of a load.
#[derive(Clone, Debug, Default)]
pub struct Load {
    /// All groups with their jobs.
    pub groups: Vec<Group>,
    /// Its own duration: a trace at its recorded times.
    pub length_ns: Option<Nanos>,
}

/// Reads it. `writes` says whether the writes of a trace may be replayed, `is_made` whether a file
/// is created for it.
pub fn read(
    path: &Path,
    probing: &ProbingArguments,
    writes: bool,
    is_made: bool,
    reporter: Reporter,
) -> Result<Load, Error> {
    let mut load = match is_job_file(path) {
        true => Load { groups: of_jobs(path, reporter)?, length_ns: None },
        false => of_trace(path, probing, writes, is_made, reporter)?,
    };
    for job in load.groups.iter_mut().flat_map(|group| &mut group.jobs) {
        // A load continues as long as it is measured, whatever the file specifies.
        job.times.time_based = true;
        job.times.runtime_ns = Some(ENDLESS_NS);
        job.times.ramp_ns = 0;
        if let Some(replay) = &mut job.source.replay {
            replay.repeats = u32::MAX;
        }
    }
    if is_made {
        workloads::give_sizes(&mut load.groups);
    }
    hoistway_experiment::group::check(&load.groups)?;
    Ok(load)
}

/// Whether the file is a job file: by its ending, or because its first line with content names a
/// section. No trace begins so.
fn is_job_file(path: &Path) -> bool {
    let begins_with_section = |text: String| {
        let mut lines = text.trim_start_matches('\u{feff}').lines().map(str::trim);
        lines.find(|line| !line.is_empty() && !line.starts_with([';', '#'])).is_some_and(|line| line.starts_with('['))
    };
    path.extension().is_some_and(|ending| ending == "fio")
        || hoistway_linux::input::text(path, Ceiling::JOB_FILE).is_ok_and(begins_with_section)
}

fn of_jobs(path: &Path, reporter: Reporter) -> Result<Vec<Group>, Error> {
    let jobs = workloads::jobs_of(path, false, reporter)?.into_iter().map(|job| job_file::with_trace(job, reporter));
    workloads::groups_of(path, jobs.collect::<Result<_, _>>()?)
}

fn of_trace(
    path: &Path,
    probing: &ProbingArguments,
    writes: bool,
    is_made: bool,
    reporter: Reporter,
) -> Result<Load, Error> {
    let wanted = Wanted {
        path,
        options: &ReplayOptions { strict: probing.strict, ..probing.replay.clone() },
        weights: None,
        iodepth: None,
        size_bytes: None,
        writes,
        is_made,
    };
    let (plan, length_ns) = wanted.plan(reporter)?;
    if length_ns.is_some() && probing.goal == hoistway_tune::Goal::Throughput {
        reporter.note(
            "at recorded times every scheduler that keeps up has the same throughput; --pace closed measures the largest",
        );
    }
    if probing.goal == hoistway_tune::Goal::Fairness {
        reporter.note(
            "a recording does not tell what its groups can claim, so that isolation is not known; a job file (trace convert) does",
        );
    }
    Ok(Load { groups: plan.groups.to_vec(), length_ns })
}
