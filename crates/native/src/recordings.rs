//! Passes the steps of replays to the workers in memory files without a name, so that nothing is
//! left behind however the run ends.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hoistway_experiment::{Experiment, RunError};
use hoistway_workload::replay::Recording;
use rustix::fs::MemfdFlags;

use crate::message::Order;

/// The files of a run; closed on drop.
pub struct Recordings {
    files: Vec<(u64, File)>,
}

impl Recordings {
    /// Stores every recording in a file and its path in the orders that need it.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn store(orders: &mut [Order]) -> Result<Self, RunError> {
        let failed = |error| RunError::Failed {
            message: "cannot pass the trace to the workers".to_owned(),
            source: Some(error),
        };
        let mut recordings = Self { files: Vec::new() };
        for order in orders {
            let place = order.experiment.issuers().nth(order.issuer);
            let Some(replay) = place.and_then(|place| place.job.source.replay.as_ref()) else { continue };
            let path = recordings.path_of(replay.checksum, &replay.recording).map_err(failed)?;
            order.recording = Some(path);
        }
        Ok(recordings)
    }

    fn path_of(&mut self, checksum: u64, recording: &Recording) -> io::Result<PathBuf> {
        let known = self.files.iter().position(|(known, _)| *known == checksum);
        let index = match known {
            Some(index) => index,
            None => {
                let mut file = File::from(rustix::fs::memfd_create("hoistway-trace", MemfdFlags::CLOEXEC)?);
                file.write_all(&recording.to_bytes())?;
                self.files.push((checksum, file));
                self.files.len() - 1
            }
        };
        // Workers run as the same user, so they may open this process's descriptors.
        Ok(PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), self.files[index].1.as_raw_fd())))
    }
}

/// Loads the steps at `path` into a worker's job.
///
/// # Errors
/// The file cannot be read.
pub fn fetch(path: &Path, experiment: &mut Experiment, issuer: usize) -> Result<(), String> {
    let bytes = std::fs::read(path).map_err(|error| format!("the trace at {}: {error}", path.display()))?;
    let recording = Recording::from_bytes(&bytes).map_err(|error| error.to_string())?;
    let place = experiment.issuers().nth(issuer).ok_or("there is no such thread")?;
    let (group, job) = (place.group, place.job_index);
    if let Some(replay) = &mut experiment.groups[group].jobs[job].source.replay {
        replay.recording = Arc::new(recording);
    }
    Ok(())
}
