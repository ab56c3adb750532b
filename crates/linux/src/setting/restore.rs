//! Undoes the changes in a journal: every entry is tried even if others fail, and restoring twice
//! is harmless.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::file::{self, Group};
use super::journal::{Content, Entry, value};
use crate::process::Process;

/// How often removal is tried, because a cgroup is busy for a moment after its last process has
/// ended.
const REMOVAL_TRIES: u32 = 40;
const REMOVAL_STEP: Duration = Duration::from_millis(50);

/// The result of restoring.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Restored {
    /// Files that were restored.
    pub files: usize,
    /// Settings that another program changed meanwhile, with their current values; left alone.
    pub foreign: Vec<String>,
    /// Changes that could not be undone, with the reason.
    pub failed: Vec<String>,
}

impl Restored {
    /// Whether every setting is as it was or as another program set it.
    pub fn is_complete(&self) -> bool {
        self.failed.is_empty()
    }
}

/// Undoes everything.
pub fn restore(content: &Content) -> Restored {
    let mut restored = Restored::default();
    remove_cgroups(&content.cgroups, &mut restored);
    for path in content.subtree_controls.iter().rev() {
        match file::write(path, "-io") {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                restored.failed.push(format!("{}: {error}", path.display()));
            }
            _ => {}
        }
    }
    let queues: BTreeSet<&Path> = content.entries.iter().filter_map(|entry| queue_of(&entry.path)).collect();
    for queue in queues {
        let entries: Vec<&Entry> =
            content.entries.iter().filter(|entry| queue_of(&entry.path) == Some(queue)).collect();
        restore_queue(&entries, &mut restored);
    }
    for entry in content.entries.iter().filter(|entry| queue_of(&entry.path).is_none()) {
        restore_setting(&CurrentSetting::of(entry), &mut restored);
    }
    restored
}

/// The directory `queue` that a file belongs to: switching its scheduler resets other files below
/// it.
fn queue_of(path: &Path) -> Option<&Path> {
    path.ancestors().skip(1).find(|above| above.ends_with("queue"))
}

/// Restores a queue: first the scheduler, because it resets the others, then the number of
/// requests, the scheduler's tunables and the rest.
fn restore_queue(entries: &[&Entry], restored: &mut Restored) {
    // All values are read before anything is written, because writing one changes others.
    let mut setting: Vec<CurrentSetting<'_>> = entries.iter().map(|entry| CurrentSetting::of(entry)).collect();
    let rank = |entry: &Entry| match entry.path.file_name().and_then(|name| name.to_str()) {
        Some("scheduler") => 0,
        Some("nr_requests") => 1,
        _ if entry.requires_scheduler.is_some() => 2,
        _ => 3,
    };
    setting.sort_by_key(|setting| rank(setting.entry));
    let mut active = None;
    for setting in setting {
        match &setting.entry.requires_scheduler {
            Some(wanted) if active.as_ref() != Some(wanted) => {}
            _ => restore_setting(&setting, restored),
        }
        if rank(setting.entry) == 0 {
            active = value(&setting.entry.path).ok();
        }
    }
}

/// A setting with its value before anything was restored.
struct CurrentSetting<'a> {
    entry: &'a Entry,
    /// None for a file that does not exist now: it reappears with its scheduler, with default
    /// values.
    value: Option<String>,
}

impl<'a> CurrentSetting<'a> {
    fn of(entry: &'a Entry) -> Self {
        Self { entry, value: entry.value().ok() }
    }

    /// The value that another program has set, if it is not the value that we left there.
    fn foreign(&self) -> Option<&str> {
        let (now, new) = (self.value.as_deref()?, self.entry.new.as_deref()?);
        (now != new && !self.entry.is_restored(now)).then_some(now)
    }
}

fn restore_setting(setting: &CurrentSetting<'_>, restored: &mut Restored) {
    let entry = setting.entry;
    let place = entry.path.display();
    let now = match entry.value() {
        Ok(now) => now,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            restored.failed.push(format!("{place}: {error} (it was {})", entry.old));
            return;
        }
        // The device is gone, and its settings with it.
        Err(_) => return,
    };
    if let Some(foreign) = setting.foreign() {
        let new = entry.new.as_deref().unwrap_or("");
        restored.foreign.push(format!("{place} was changed by another program: now {foreign}, we had set {new}"));
        if now != foreign {
            // Restoring the scheduler has reset this setting, so the other program's value is
            // written again. A failure is ignored, because the value may be invalid under the
            // restored scheduler.
            let _ = entry.write(foreign);
        }
        return;
    }
    if entry.is_restored(&now) {
        return;
    }
    let written = entry.write(&entry.old);
    match (written, entry.value()) {
        (Ok(()), Ok(now)) if entry.is_restored(&now) => restored.files += 1,
        (Ok(()), Ok(now)) => restored.failed.push(format!("{place}: the kernel stored {now} instead of {}", entry.old)),
        (Err(error), _) | (_, Err(error)) => restored.failed.push(format!("{place}: {error} (it was {})", entry.old)),
    }
}

/// Ends the processes in the groups and removes the groups, children first.
fn remove_cgroups(cgroups: &[PathBuf], restored: &mut Restored) {
    let own = Process::this().map_or(0, |process| process.pid);
    for path in cgroups.iter().rev() {
        match Group::at(path).and_then(|group| remove_cgroup(&group, own)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                restored.failed.push(format!("{}: {error}", path.display()));
            }
            _ => {}
        }
    }
}

fn remove_cgroup(group: &Group<'_>, own: i32) -> io::Result<()> {
    let mut outcome = Ok(());
    for attempt in 0..REMOVAL_TRIES {
        outcome = group.remove();
        match &outcome {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {}
            _ => break,
        }
        // Our processes were asked to end before; those that remain after a moment are killed.
        if attempt >= 2 {
            end_members(group, own);
        }
        std::thread::sleep(REMOVAL_STEP);
    }
    outcome
}

fn end_members(group: &Group<'_>, own: i32) {
    for member in group.members().into_iter().filter(|pid| *pid != own) {
        if let Ok(process) = Process::of(member) {
            process.kill();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::setting::DeviceLine;

    /// A directory with the structure of a queue's.
    fn queue(files: &[(&str, &str)]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir_all(directory.path().join("queue/iosched")).unwrap();
        for (name, text) in files {
            fs::write(directory.path().join("queue").join(name), text).unwrap();
        }
        directory
    }

    fn entry(directory: &tempfile::TempDir, name: &str, old: &str, new: Option<&str>) -> Entry {
        Entry {
            path: directory.path().join("queue").join(name),
            old: old.to_owned(),
            new: new.map(str::to_owned),
            requires_scheduler: name.starts_with("iosched").then(|| "bfq".to_owned()),
            line: None,
        }
    }

    fn content(entries: Vec<Entry>, cgroups: Vec<PathBuf>) -> Content {
        let process = Process { pid: 1, start_time_ticks: 0 };
        let (cmdline, subtree_controls) = (Vec::new(), Vec::new());
        Content { version: 1, process, watcher: None, cmdline, entries, cgroups, subtree_controls }
    }

    fn text(directory: &tempfile::TempDir, name: &str) -> String {
        fs::read_to_string(directory.path().join("queue").join(name)).unwrap()
    }

    #[test]
    fn our_changes_are_undone_and_restoring_twice_is_harmless() {
        let directory = queue(&[("scheduler", "none"), ("nr_requests", "128"), ("iosched/slice_idle", "8")]);
        let content = content(
            vec![
                entry(&directory, "iosched/slice_idle", "4", None),
                entry(&directory, "nr_requests", "64", Some("128")),
                entry(&directory, "scheduler", "bfq", Some("none")),
            ],
            Vec::new(),
        );
        let restored = restore(&content);
        assert_eq!(restored, Restored { files: 3, ..Restored::default() });
        let now = ["scheduler", "nr_requests", "iosched/slice_idle"].map(|name| text(&directory, name));
        assert_eq!(now, ["bfq", "64", "4"]);
        assert_eq!(restore(&content), Restored::default());
    }

    #[test]
    fn a_device_s_line_that_was_not_there_is_switched_off_and_stays_off() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("io.cost.qos");
        fs::write(&path, "8:0 enable=1 ctrl=auto rpct=0.00\n").unwrap();
        let line = DeviceLine { device: "8:0".to_owned(), absent: "enable=0 ctrl=auto".to_owned() };
        let new = Some("enable=1 ctrl=auto rpct=0.00".to_owned());
        let entry = Entry { path: path.clone(), old: String::new(), new, requires_scheduler: None, line: Some(line) };
        let content = content(vec![entry], Vec::new());
        assert_eq!(restore(&content), Restored { files: 1, ..Restored::default() });
        assert_eq!(fs::read_to_string(&path).unwrap(), "8:0 enable=0 ctrl=auto\n");
        assert_eq!(restore(&content), Restored::default(), "twice does no harm");
        // Another program enables it again, with its own parameters, so it is foreign.
        fs::write(&path, "8:0 enable=1 ctrl=user rpct=95.00\n").unwrap();
        assert!(restore(&content).foreign[0].contains("rpct=95.00"));
    }

    #[test]
    fn t29_changes_by_another_program_are_kept_and_reported() {
        let directory = queue(&[("nr_requests", "77"), ("rotational", "0")]);
        let content = content(
            vec![entry(&directory, "nr_requests", "64", Some("128")), entry(&directory, "rotational", "1", Some("0"))],
            Vec::new(),
        );
        let restored = restore(&content);
        assert!(restored.is_complete() && restored.files == 1);
        assert!(restored.foreign[0].ends_with("now 77, we had set 128"), "{restored:?}");
        assert_eq!((text(&directory, "nr_requests"), text(&directory, "rotational")), ("77".into(), "1".into()));
    }

    #[test]
    fn a_scheduler_chosen_by_another_program_keeps_its_tunables() {
        let directory = queue(&[("scheduler", "kyber"), ("iosched/slice_idle", "8")]);
        let entries = vec![
            entry(&directory, "scheduler", "bfq", Some("none")),
            entry(&directory, "iosched/slice_idle", "4", None),
        ];
        let restored = restore(&content(entries, Vec::new()));
        assert_eq!((restored.files, restored.foreign.len()), (0, 1));
        assert_eq!(text(&directory, "iosched/slice_idle"), "8");
    }

    #[test]
    fn one_failure_stops_nothing_and_is_listed() {
        let directory = tempfile::tempdir().unwrap();
        let (outer, inner) = (directory.path().join("a"), directory.path().join("a/b"));
        fs::create_dir_all(&inner).unwrap();
        // A directory that is no cgroup and cannot be removed, because it holds a file.
        let full = directory.path().join("full");
        fs::create_dir(&full).unwrap();
        fs::write(full.join("file"), "").unwrap();
        let missing = directory.path().join("missing");
        let restored = restore(&content(Vec::new(), vec![outer.clone(), inner, missing, full]));
        assert_eq!(restored.failed.len(), 1, "{restored:?}");
        assert!(!outer.exists());
    }
}
