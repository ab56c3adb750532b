//! The watcher: a process that waits, and restores the settings when its parent has ended without
//! doing so.

use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::journal::Content;
use super::restore::{Restored, restore};
use crate::own_files;
use crate::process::Process;

/// The byte that the parent sends when there is nothing left to do.
const DONE_MESSAGE: u8 = b'K';

/// The parent's end of the watcher.
#[derive(Debug)]
pub struct Watcher {
    child: Child,
}

impl Watcher {
    /// Starts the watcher. `command` is the program that calls [`watch`].
    ///
    /// # Errors
    /// Any error from the system.
    pub fn start(mut command: Command) -> io::Result<Self> {
        let child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;
        Ok(Self { child })
    }

    /// The process.
    ///
    /// # Errors
    /// The watcher has ended already.
    pub fn process(&self) -> io::Result<Process> {
        Process::of(i32::try_from(self.child.id()).map_err(|_| io::ErrorKind::InvalidData)?)
    }

    /// Ends the watcher; it does not restore, because everything is restored already.
    pub fn dismiss(mut self) {
        if let Some(mut pipe) = self.child.stdin.take() {
            // If the watcher is gone, nothing is lost.
            let _ = pipe.write_all(&[DONE_MESSAGE]);
        }
        let _ = self.child.wait();
    }
}

/// The watcher's main function: waits for the end of its standard input and restores, unless the
/// parent reported success.
///
/// # Errors
/// Any error from the system.
pub fn watch(journal: &Path) -> io::Result<Restored> {
    // A terminal's signal that ends the parent must not end the watcher.
    let _ = rustix::process::setsid();
    let mut said = Vec::new();
    io::stdin().read_to_end(&mut said)?;
    if said.contains(&DONE_MESSAGE) {
        return Ok(Restored::default());
    }
    let content = match Content::read(journal) {
        Ok(content) => content,
        // The parent had restored and removed the journal already.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Restored::default()),
        Err(error) => return Err(error),
    };
    let restored = restore(&content);
    if restored.is_complete() {
        // With what the parent wrote when it was killed.
        own_files::remove(journal)?;
    }
    Ok(restored)
}
