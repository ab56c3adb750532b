//! The user's own load, for which the recommendation is then made.
//!
//! This is the one place that knows what a load may be: a job file. A trace would be recognised here, and become the groups
//! (or whatever replaces them) that [`tune::Probe::Load`] runs.

use std::path::Path;

use experiment::Group;

use crate::exit::{Error, Voice};
use crate::workloads;

/// Reads it.
pub fn read(path: &Path, is_made: bool, voice: Voice) -> Result<Vec<Group>, Error> {
    if path.extension().is_none_or(|ending| ending != "fio") {
        let what = format!("{} is no job file: only .fio files can be a load", path.display());
        return Err(Error::usage(what, "describe the load as a job file of fio").at("--load"));
    }
    let mut groups = workloads::groups_of(path, workloads::jobs_of(path, false, voice)?)?;
    for job in groups.iter_mut().flat_map(|group| &mut group.jobs) {
        // A load goes on for as long as it is measured, whatever the file says.
        job.time_based = true;
        job.runtime_ns = Some(ENDLESS_NS);
        job.ramp_ns = 0;
    }
    if is_made {
        workloads::give_sizes(&mut groups);
    }
    experiment::group::check(&groups)?;
    Ok(groups)
}

/// Longer than any run, and far from overflow.
const ENDLESS_NS: u64 = 1 << 50;
