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
mod journal;
mod restore;
mod watch;

pub use device_line::DeviceLine;
pub use journal::{Content, Entry, Journal};
pub use restore::{Restored, restore};
pub use watch::{Watcher, watch};

use std::fs;
use std::path::PathBuf;

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

/// The journals of this boot whose processes have ended.
pub fn stale() -> Vec<Stale> {
    let entries = fs::read_dir(journal::directory()).into_iter().flatten().flatten();
    let mut found: Vec<Stale> = entries
        .filter_map(|entry| {
            let path = entry.path();
            let content = Content::read(&path).ok()?;
            let is_stale = !content.process.is_alive() && !content.watcher.is_some_and(Process::is_alive);
            is_stale.then_some(Stale { path, content })
        })
        .collect();
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

/// Removes the journals of earlier boots, whose settings no longer exist.
pub fn forget_earlier_boots() {
    let boot = run_directory::boot_id();
    let entries = fs::read_dir(run_directory::path()).into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name();
        // Boot identities look like 8-4-4-4-12; other directories here have names.
        let looks_like_one = name.len() == 36 && name.to_str().is_some_and(|name| name.matches('-').count() == 4);
        if looks_like_one && name != boot.as_str() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
