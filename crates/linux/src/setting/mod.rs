//! Temporary changes of system settings: the old value is recorded before a change, the new one is
//! read back afterwards, and the old one is restored at the end, however the process ends.
//!
//! ```text
//! Journal::begin -> keep(path) / set(path, value) / record_cgroup(path)  on disk before each change
//!                -> restore()     at the normal end, or when the journal is dropped
//! watch()        in its own process: restores if the parent ended without doing so (SIGKILL)
//! stale()        journals whose processes and watchers have ended, for `hoistway restore`
//! ```
//! Only a setting that still has the value written here is restored; a change made by another
//! program meanwhile is kept.

mod device_line;
mod file;
mod journal;
mod restore;
mod watch;

pub use device_line::DeviceLine;
pub use journal::{Content, Entry, Journal};
pub use restore::{Restored, restore};
pub use watch::{Watcher, watch};

use std::fs;
use std::io;
use std::path::PathBuf;

use crate::own_files;
use crate::process::Process;
use crate::run_directory;

/// A journal whose process and watcher have ended.
#[derive(Clone, Debug)]
pub struct Stale {
    /// Its path.
    pub path: PathBuf,
    /// Its content.
    pub content: Content,
}

/// The journals of this boot whose processes have ended, and what looks like one and is not obeyed, with the reason.
pub fn stale() -> (Vec<Stale>, Vec<String>) {
    let (mut found, mut refused) = (Vec::new(), Vec::new());
    for base in run_directory::all() {
        let paths = run_directory::list_in(&base, &run_directory::boot_id(), "json");
        let paths = paths.unwrap_or_else(|error| {
            refused.push(error.to_string());
            Vec::new()
        });
        for path in paths {
            match Content::read(&path) {
                Ok(content) => {
                    let is_stale = !content.process.is_alive() && !content.watcher.is_some_and(Process::is_alive);
                    found.extend(is_stale.then_some(Stale { path, content }));
                }
                // Its process has ended meanwhile, and restored everything.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => refused.push(format!("{} is not obeyed: {error}", path.display())),
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    (found, refused)
}

/// Removes the journals of earlier boots, whose settings no longer exist.
pub fn forget_earlier_boots() {
    let boot = run_directory::boot_id();
    let own = run_directory::all().into_iter().filter(|base| own_files::check_directory(base).is_ok());
    let entries = own.flat_map(|base| fs::read_dir(base).into_iter().flatten().flatten());
    for entry in entries {
        let name = entry.file_name();
        // Boot identities look like 8-4-4-4-12; other directories here have names.
        let looks_like_one = name.len() == 36 && name.to_str().is_some_and(|name| name.matches('-').count() == 4);
        if looks_like_one && name != boot.as_str() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
