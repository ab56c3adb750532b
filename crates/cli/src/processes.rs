//! The processes that the native host starts: this program again, as a worker or as a watcher.

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use hoistway_experiment::Exit;
use hoistway_native::Programs;

use crate::exit::{Error, Outcome};

/// The hidden `hoistway watch`.
#[derive(Args, Debug)]
pub struct WatchArguments {
    /// Journal file that lists the settings to restore
    pub journal: PathBuf,
}

/// How the worker and the watcher are started.
pub const PROGRAMS: Programs = Programs { worker: || again("worker"), watcher };

fn again(subcommand: &str) -> Command {
    // The program is not started by its path, because the file may have been replaced meanwhile.
    let mut command = Command::new("/proc/self/exe");
    command.arg(subcommand);
    command
}

fn watcher(journal: &Path) -> Command {
    let mut command = again("watch");
    command.arg(journal);
    command
}

/// Runs the hidden `hoistway worker`.
pub fn worker() -> Outcome {
    // The process that could receive an error is gone.
    Ok(hoistway_native::worker::work().map_or(Exit::Failed, |()| Exit::Done))
}

/// Runs the hidden `hoistway watch`.
pub fn watch(arguments: &WatchArguments) -> Outcome {
    let journal = &arguments.journal;
    let restored =
        hoistway_linux::setting::watch(journal).map_err(|error| Error::file(journal, "restore from", &error))?;
    Ok(if restored.is_complete() { Exit::Done } else { Exit::NotRestored })
}
