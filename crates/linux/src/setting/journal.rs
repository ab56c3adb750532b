//! The journal of changed settings: a file that is replaced as a whole and made durable before
//! every change that it describes.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::device_line::DeviceLine;
use super::file;
use super::restore::{Restored, restore};
use crate::process::Process;
use crate::{own_files, run_directory};

/// One file that was or will be changed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// The file.
    pub path: PathBuf,
    /// What it held before.
    pub old: String,
    /// Its value after our last change; none if we have not written to it ourselves, but a change
    /// of another setting (the scheduler) may reset it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new: Option<String>,
    /// The scheduler under which the file exists, if it does not exist under all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requires_scheduler: Option<String>,
    /// The device whose line of the file was changed; none if the file is a single value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<DeviceLine>,
}

impl Entry {
    /// The current value of the setting.
    pub(super) fn value(&self) -> io::Result<String> {
        match &self.line {
            Some(line) => line.read(&self.path),
            None => value(&self.path),
        }
    }

    /// Writes a value that the setting had before.
    pub(super) fn write(&self, text: &str) -> io::Result<()> {
        match &self.line {
            Some(line) => line.write(&self.path, text),
            None => file::write(&self.path, text),
        }
    }

    /// Whether the setting is, or has the same effect as, what it was before.
    pub(super) fn is_restored(&self, now: &str) -> bool {
        self.line.as_ref().map_or(now == self.old, |line| line.is_restored(now, &self.old))
    }
}

/// The version of the journal's format.
const VERSION: u32 = 1;

/// Everything to be undone.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Content {
    /// Version of this format: 1.
    pub version: u32,
    /// The process that made the changes.
    #[serde(flatten)]
    pub process: Process,
    /// The process that restores the settings if `process` ended without doing so.
    #[serde(default)]
    pub watcher: Option<Process>,
    /// Command line of `process`, for messages.
    pub cmdline: Vec<String>,
    /// Files in the order in which they were first changed.
    pub entries: Vec<Entry>,
    /// Directories of cgroups, parents first.
    pub cgroups: Vec<PathBuf>,
    /// The `cgroup.subtree_control` files (v2) in which the io controller was enabled.
    #[serde(default)]
    pub subtree_controls: Vec<PathBuf>,
}

impl Content {
    /// Reads a journal whose directory has been checked.
    pub(super) fn read(path: &Path) -> io::Result<Self> {
        Self::parse(&own_files::read(path)?)
    }

    /// The content of a journal's file.
    ///
    /// # Errors
    /// It is no journal of this version.
    pub fn parse(text: &[u8]) -> io::Result<Self> {
        let content: Self = serde_json::from_slice(text)?;
        if content.version != VERSION {
            let what = format!("version {} of the journal is not known: it needs another hoistway", content.version);
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        Ok(content)
    }

    /// Whether there is anything to undo.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.cgroups.is_empty() && self.subtree_controls.is_empty()
    }
}

/// The open journal of this process.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    content: Content,
    /// Something could not be undone; the rest is left to `hoistway restore`.
    is_abandoned: bool,
}

impl Journal {
    /// Writes an empty journal to disk; `name` distinguishes it from others of the same process.
    ///
    /// # Errors
    /// Any error from the system.
    pub fn begin(name: &str) -> io::Result<Self> {
        let process = Process::this()?;
        let directory = run_directory::path().join(run_directory::boot_id());
        run_directory::make(&directory)?;
        let content = Content {
            version: VERSION,
            process,
            watcher: None,
            cmdline: std::env::args().collect(),
            entries: Vec::new(),
            cgroups: Vec::new(),
            subtree_controls: Vec::new(),
        };
        let journal =
            Self { path: directory.join(format!("{}{name}.json", process.pid)), content, is_abandoned: false };
        journal.save()?;
        Ok(journal)
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its content.
    pub fn content(&self) -> &Content {
        &self.content
    }

    /// Records the process that restores if this one cannot.
    ///
    /// # Errors
    /// Any error from the system.
    pub fn watched_by(&mut self, watcher: Process) -> io::Result<()> {
        self.content.watcher = Some(watcher);
        self.save()
    }

    /// Records a file's value before it is changed by other means than [`Journal::set`].
    ///
    /// # Errors
    /// Any error from the system.
    pub fn keep(&mut self, path: &Path, requires_scheduler: Option<&str>) -> io::Result<()> {
        self.keep_as(path, requires_scheduler.map(str::to_owned), None)
    }

    fn keep_as(&mut self, path: &Path, requires_scheduler: Option<String>, line: Option<DeviceLine>) -> io::Result<()> {
        if self.entry(path).is_some() {
            return Ok(());
        }
        let mut entry = Entry { path: path.to_owned(), old: String::new(), new: None, requires_scheduler, line };
        entry.old = entry.value()?;
        self.content.entries.push(entry);
        self.save()
    }

    /// Writes a value and returns the value that the file holds afterwards: the kernel may have
    /// rounded it.
    ///
    /// # Errors
    /// Any error from the system; the attempt is in the journal.
    pub fn set(&mut self, path: &Path, text: &str) -> io::Result<String> {
        self.keep(path, None)?;
        self.write(path, text)
    }

    /// Writes one device's line of a file and returns the resulting line; one device per file and
    /// journal.
    ///
    /// # Errors
    /// Any error from the system; the attempt is in the journal.
    pub fn set_line(&mut self, path: &Path, line: &DeviceLine, text: &str) -> io::Result<String> {
        self.keep_as(path, None, Some(line.clone()))?;
        self.write(path, text)
    }

    fn write(&mut self, path: &Path, text: &str) -> io::Result<String> {
        let Some(entry) = self.entry(path) else { return Err(io::ErrorKind::NotFound.into()) };
        // The value counts as written before it is, because the process may end between the two
        // writes.
        entry.new = Some(text.to_owned());
        let entry = entry.clone();
        self.save()?;
        let written = entry.write(text);
        let now = entry.value()?;
        self.note_new(path, &now)?;
        written.map(|()| now)
    }

    /// Records the current value of each file after a change of ours that had side effects on it.
    /// Files that exist under another scheduler only are left out.
    ///
    /// # Errors
    /// Any error from the system.
    pub fn refresh(&mut self) -> io::Result<()> {
        for entry in &mut self.content.entries {
            if let Ok(now) = entry.value() {
                entry.new = Some(now);
            }
        }
        self.save()
    }

    /// Records a cgroup that is about to be created.
    ///
    /// # Errors
    /// Any error from the system.
    pub fn record_cgroup(&mut self, path: &Path) -> io::Result<()> {
        self.content.cgroups.push(path.to_owned());
        self.save()
    }

    /// Records that the io controller is about to be enabled in this `cgroup.subtree_control`.
    ///
    /// # Errors
    /// Any error from the system.
    pub fn record_enabled(&mut self, path: &Path) -> io::Result<()> {
        self.content.subtree_controls.push(path.to_owned());
        self.save()
    }

    /// Undoes everything. Changes that could not be undone stay in the journal, for `hoistway
    /// restore`.
    pub fn restore(&mut self) -> Restored {
        let restored = restore(&self.content);
        self.is_abandoned = !restored.is_complete();
        if restored.is_complete() {
            let _ = fs::remove_file(&self.path);
            self.content.entries.clear();
            self.content.cgroups.clear();
            self.content.subtree_controls.clear();
        }
        restored
    }

    /// Ends the journal without undoing anything: the changes stay, and the caller has recorded the
    /// old values elsewhere.
    ///
    /// # Errors
    /// Any error from the system.
    pub fn settle(mut self) -> io::Result<()> {
        // Nothing is left to undo: dropping the journal now only removes its file.
        self.content.entries.clear();
        self.content.cgroups.clear();
        self.content.subtree_controls.clear();
        fs::remove_file(&self.path)
    }

    fn entry(&mut self, path: &Path) -> Option<&mut Entry> {
        self.content.entries.iter_mut().find(|entry| entry.path == path)
    }

    fn note_new(&mut self, path: &Path, text: &str) -> io::Result<()> {
        if let Some(entry) = self.entry(path) {
            entry.new = Some(text.to_owned());
        }
        self.save()
    }

    fn save(&self) -> io::Result<()> {
        own_files::replace(&self.path, &serde_json::to_vec_pretty(&self.content)?)
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        if self.is_abandoned {
            return;
        }
        if !self.content.is_empty() {
            self.restore();
        }
        if !self.is_abandoned {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The value of a setting: the file's text, or the word in brackets where the file lists the
/// choices.
pub(super) fn value(path: &Path) -> io::Result<String> {
    let text = file::read(path)?;
    let chosen = text.split_ascii_whitespace().find(|word| word.starts_with('[') && word.ends_with(']'));
    Ok(chosen.map_or(text.trim(), |word| word.trim_matches(['[', ']'])).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_is_the_word_in_brackets() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("scheduler");
        for (text, expected) in [("none [bfq] kyber\n", "bfq"), ("128\n", "128"), ("write back\n", "write back")] {
            fs::write(&path, text).unwrap();
            assert_eq!(value(&path).unwrap(), expected);
        }
    }

    #[test]
    fn the_first_old_value_is_what_counts() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("nr_requests");
        fs::write(&path, "64\n").unwrap();
        let mut journal = Journal::begin(".test-first").unwrap();
        assert_eq!(journal.set(&path, "128").unwrap(), "128");
        assert_eq!(journal.set(&path, "256").unwrap(), "256");
        let on_disk = Content::read(journal.path()).unwrap();
        assert_eq!(&on_disk, journal.content());
        assert_eq!((on_disk.entries.len(), on_disk.entries[0].old.as_str()), (1, "64"));
        assert!(journal.restore().is_complete());
        assert_eq!(fs::read_to_string(&path).unwrap(), "64");
        assert!(!journal.path().exists());
    }

    #[test]
    fn a_settled_journal_leaves_everything_as_it_was_set() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("rotational");
        fs::write(&path, "1").unwrap();
        let mut journal = Journal::begin(".test-settle").unwrap();
        journal.set(&path, "0").unwrap();
        let own = journal.path().to_owned();
        journal.settle().unwrap();
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), own.exists()), ("0", false));
    }

    #[test]
    fn a_dropped_journal_restores_and_leaves_no_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("rotational");
        fs::write(&path, "1").unwrap();
        let mut journal = Journal::begin(".test-drop").unwrap();
        journal.set(&path, "0").unwrap();
        let own = journal.path().to_owned();
        drop(journal);
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), own.exists()), ("1", false));
    }
}
