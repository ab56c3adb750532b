//! The watcher: a process that does nothing while all is well, and restores when its parent is gone.

use std::fs;
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::journal::Content;
use super::restore::{Restored, restore};
use crate::process::Process;

/// What the parent says when there is nothing left to do.
const ALL_IS_WELL: u8 = b'K';

/// The parent's end.
#[derive(Debug)]
pub struct Watcher {
    child: Child,
}

impl Watcher {
    /// Starts the watcher. `command` is the program that calls [`watch`].
    ///
    /// # Errors
    /// What the system says.
    pub fn start(mut command: Command) -> io::Result<Self> {
        let child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;
        Ok(Self { child })
    }

    /// The process.
    ///
    /// # Errors
    /// That it is gone already.
    pub fn process(&self) -> io::Result<Process> {
        Process::of(i32::try_from(self.child.id()).map_err(|_| io::ErrorKind::InvalidData)?)
    }

    /// Sends it home: everything is restored.
    pub fn dismiss(mut self) {
        if let Some(mut pipe) = self.child.stdin.take() {
            // If it is gone, nothing is lost.
            let _ = pipe.write_all(&[ALL_IS_WELL]);
        }
        let _ = self.child.wait();
    }
}

/// The watcher's life: waits for the end of its standard input and restores, unless the parent said that all is well.
///
/// # Errors
/// What the system says.
pub fn watch(journal: &Path) -> io::Result<Restored> {
    // What ends the parent from a terminal must not end the watcher.
    let _ = rustix::process::setsid();
    let mut said = Vec::new();
    io::stdin().read_to_end(&mut said)?;
    if said.contains(&ALL_IS_WELL) {
        return Ok(Restored::default());
    }
    // What the parent was writing when it was killed; the journal itself is whole.
    let _ = fs::remove_file(journal.with_extension("new"));
    let content = match Content::read(journal) {
        Ok(content) => content,
        // The parent had tidied up already.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Restored::default()),
        Err(error) => return Err(error),
    };
    let restored = restore(&content);
    if restored.is_complete() {
        fs::remove_file(journal)?;
    }
    Ok(restored)
}
