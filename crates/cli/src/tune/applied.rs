//! `--apply`, `--persist`, `--undo`: changes settings of a device, with a record of the previous
//! ones that outlives this process.
//!
//! During the change the ordinary journal is in effect (`hoistway_linux::setting`): if the process is killed
//! half-way, `hoistway restore` reverts it. When all is set the journal's content moves to
//! `/var/lib/hoistway-root/applied/ID.json`, from where `--undo` reverts it.

use hoistway_linux::input::Ceiling;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use hoistway_block::random::fnv1a64;
use hoistway_experiment::Exit;
use hoistway_linux::cgroup::Hierarchy;
use hoistway_linux::own_files;
use hoistway_linux::setting::{Content, Journal};
use hoistway_native::io_cost;
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use super::boot::Assignment;
use super::facts::Disk;
use crate::exit::{Error, Outcome, Reporter, print};

/// Settings that the kernel resets when the scheduler changes.
const RESET_BY_SWITCH: [&str; 2] = ["nr_requests", "wbt_lat_usec"];

/// An installed file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Installed {
    path: PathBuf,
    /// Checksum of what we wrote, so that later changes by others are not discarded.
    checksum: u64,
}

/// The changes to one device.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Record {
    version: u32,
    device: String,
    /// The boot in which it was written: settings of another boot no longer exist.
    boot: String,
    settings: Content,
    #[serde(default)]
    files: Vec<Installed>,
}

/// The directory of root's state below `/var/lib`. `/var/lib/hoistway` will not do: that belongs to the user of the service, whose records root must not obey.
const STATE: &str = "hoistway-root";

fn directory(root: &Path) -> PathBuf {
    root.join("var/lib").join(STATE).join("applied")
}

/// Applies all settings, in order. `id` names the record.
pub fn apply(disk: &Disk, id: &str, list: &[Assignment], root: &Path, reporter: Reporter) -> Result<(), Error> {
    let name = disk.queue.name();
    let _lock = lock(disk)?;
    let failed = |what: &str| {
        let what = format!("{what} ({name})");
        move |error: std::io::Error| Error::failed(format!("{what}: {error}"), "run as root")
    };
    let mut journal = Journal::begin(".apply").map_err(failed("the journal in /run/hoistway-root"))?;
    let outcome = set_all(&mut journal, disk, list, reporter);
    if let Err(error) = outcome {
        let restored = journal.restore();
        if !restored.is_complete() {
            let what = format!("{error}; and not restored: {}", restored.failed.join("; "));
            return Err(Error::new(Exit::NotRestored, what, "try: hoistway restore"));
        }
        return Err(error);
    }
    let earlier = read(&path_of(root, id)).ok();
    let files = earlier.as_ref().map_or_else(Vec::new, |record| record.files.clone());
    let settings = merged(earlier, journal.content().clone());
    let boot = hoistway_linux::run_directory::boot_id();
    let record = Record { version: 1, device: name.clone(), boot, settings, files };
    // The record is on disk before the journal is removed, so that one of the two exists at any
    // time.
    save(&record, root, id)?;
    journal.settle().map_err(failed("the journal in /run/hoistway-root"))
}

fn set_all(journal: &mut Journal, disk: &Disk, list: &[Assignment], reporter: Reporter) -> Result<(), Error> {
    let queue = &disk.queue;
    let failed = |path: &Path| {
        let path = path.display().to_string();
        move |error: std::io::Error| {
            Error::failed(format!("{path}: {error}"), "run as root; see hoistway tune without --apply")
        }
    };
    let active = queue.schedulers().map_or_else(String::new, |found| found.active);
    for (tunable, _) in queue.tunables() {
        let path = queue.tunable_path(&tunable);
        journal.keep(&path, Some(&active)).map_err(failed(&path))?;
    }
    for attribute in RESET_BY_SWITCH.iter().filter(|name| queue.attribute(name).is_some()) {
        let path = queue.attribute_path(attribute);
        journal.keep(&path, None).map_err(failed(&path))?;
    }
    for assignment in list {
        let (file, value) = match assignment {
            Assignment::Queue { file, value } => (file, value),
            Assignment::Cost { file, words } => {
                set_cost(journal, disk, file, words)?;
                continue;
            }
        };
        let path = queue.attribute_path(file);
        if file == "scheduler" && *value == active {
            // Writing the name of the active scheduler changes nothing. Settings that are not at
            // their defaults are reset by a switch to `none` and back, so that they are as during
            // the measurement.
            if value != "none" && !disk.current().settings.is_empty() {
                journal.set(&path, "none").map_err(failed(&path))?;
            } else {
                continue;
            }
        }
        let now = journal.set(&path, value).map_err(failed(&path))?;
        if now != *value && file == "scheduler" {
            return Err(Error::failed(format!("{} holds {now} after {value} was written", path.display()), ""));
        }
        if now != *value {
            reporter.warn(format!("{}: the kernel stored {now} instead of {value}", path.display()), "");
        }
    }
    let place = queue.attribute_path("");
    journal.refresh().map_err(failed(&place))
}

/// The device's line in a file of io.cost.
fn set_cost(journal: &mut Journal, disk: &Disk, file: &str, words: &str) -> Result<(), Error> {
    let Some(hierarchy) = Hierarchy::find() else {
        return Err(Error::failed("io.cost needs cgroup v2", "mount -t cgroup2 none /sys/fs/cgroup"));
    };
    let (number, path) = (disk.queue.number(), hierarchy.mount.join(file));
    let set = journal.set_line(&path, &io_cost::line_of(&number, file), words);
    set.map(|_| ())
        .map_err(|error| Error::failed(format!("{}: {number} {words}: {error}", path.display()), "run as root"))
}

/// Combines the records of several applications: the values before the first one are kept.
fn merged(earlier: Option<Record>, mut now: Content) -> Content {
    let boot = hoistway_linux::run_directory::boot_id();
    let Some(earlier) = earlier.filter(|record| record.boot == boot) else { return now };
    for old in earlier.settings.entries {
        match now.entries.iter_mut().find(|entry| entry.path == old.path) {
            Some(entry) => {
                entry.old.clone_from(&old.old);
                entry.requires_scheduler = old.requires_scheduler;
            }
            None => now.entries.push(old),
        }
    }
    now
}

/// The same lock that a run on this device takes.
fn lock(disk: &Disk) -> Result<File, Error> {
    let directory = hoistway_linux::run_directory::path().join("lock");
    hoistway_linux::run_directory::make(&directory).map_err(|error| Error::file(&directory, "create", &error))?;
    let path = directory.join(disk.queue.number());
    let file = File::options().read(true).write(true).create(true).truncate(false).open(&path);
    let file = file.map_err(|error| Error::file(&path, "open", &error))?;
    if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        let owner = fs::read_to_string(&path).unwrap_or_default();
        let what = format!("{} is being measured by process {}", disk.queue.name(), owner.trim());
        return Err(Error::failed(what, "wait for its end"));
    }
    Ok(file)
}

/// Installs a file for boot and records it.
pub fn install(id: &str, device: &str, place: &str, text: &str, root: &Path) -> Result<PathBuf, Error> {
    let path = root.join(place.trim_start_matches('/'));
    let parent = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(parent).map_err(|error| Error::file(parent, "create", &error))?;
    let mut record = read(&path_of(root, id)).unwrap_or_else(|_| empty(device));
    record.files.retain(|file| file.path != path);
    record.files.push(Installed { path: path.clone(), checksum: fnv1a64(text.as_bytes()) });
    save(&record, root, id)?;
    own_files::replace_public(&path, text.as_bytes()).map_err(|error| Error::file(&path, "write", &error))?;
    Ok(path)
}

fn empty(device: &str) -> Record {
    let process = hoistway_linux::process::Process { pid: 0, start_time_ticks: 0 };
    let settings = Content {
        version: 1,
        process,
        watcher: None,
        cmdline: std::env::args().collect(),
        entries: Vec::new(),
        cgroups: Vec::new(),
        subtree_controls: Vec::new(),
    };
    Record {
        version: 1,
        device: device.to_owned(),
        boot: hoistway_linux::run_directory::boot_id(),
        settings,
        files: Vec::new(),
    }
}

/// Tells udev about a new or removed rule. Without udev there is nothing to do.
pub fn reload_udev(device: &str, root: &Path, reporter: Reporter) {
    if root != Path::new("/") {
        return;
    }
    let update_display = |arguments: &[&str]| Command::new("udevadm").args(arguments).status();
    match update_display(&["control", "--reload"]) {
        Ok(status) if status.success() => {
            let match_name = format!("--sysname-match={device}");
            if !update_display(&["trigger", "--action=change", "--subsystem-match=block", &match_name])
                .is_ok_and(|it| it.success())
            {
                reporter.warn("udevadm trigger failed", "the rule takes effect at the next boot");
            }
        }
        _ => reporter
            .note("udev was not notified (udevadm is missing or failed): the rule takes effect at the next boot"),
    }
}

/// `--undo`: of one device, or of all.
pub fn undo(only: Option<&str>, root: &Path, reporter: Reporter) -> Outcome {
    let directory = directory(root);
    let above = directory.parent().filter(|above| above.exists());
    let listed = above.map_or(Ok(()), own_files::check_directory).and_then(|()| own_files::list(&directory, "json"));
    let paths = listed.map_err(|error| Error::file(&directory, "read", &error))?;
    let (mut found, mut exit) = (false, Exit::Done);
    for path in paths {
        let record = read(&path)?;
        if only.is_none_or(|name| name == record.device) {
            found = true;
            exit = exit.worse(undo_one(&path, record, root, reporter)?);
        }
    }
    if !found {
        print("nothing to undo\n")?;
    }
    Ok(exit)
}

fn undo_one(path: &Path, mut record: Record, root: &Path, reporter: Reporter) -> Outcome {
    let mut is_complete = true;
    let had_files = !record.files.is_empty();
    record.files.retain(|file| match hoistway_linux::input::bytes(&file.path, Ceiling::RESULTS) {
        Err(_) => false,
        Ok(content) if fnv1a64(&content) == file.checksum => match fs::remove_file(&file.path) {
            Ok(()) => false,
            Err(error) => {
                reporter.warn(format!("cannot remove {}: {error}", file.path.display()), "");
                true
            }
        },
        Ok(_) => {
            reporter.warn(
                format!("{} was changed by another program", file.path.display()),
                "it is kept; remove it by hand",
            );
            true
        }
    });
    is_complete &= record.files.is_empty();
    if had_files {
        reload_udev(&record.device, root, reporter);
    }
    let mut files = 0;
    if record.boot == hoistway_linux::run_directory::boot_id() {
        let restored = hoistway_linux::setting::restore(&record.settings);
        restored.foreign.iter().for_each(|what| reporter.warn(what, "it is not restored"));
        restored.failed.iter().for_each(|what| reporter.warn(format!("not restored: {what}"), ""));
        is_complete &= restored.is_complete();
        files = restored.files;
    }
    if is_complete {
        fs::remove_file(path).map_err(|error| Error::file(path, "remove", &error))?;
        print(&format!("{}: restored ({files} settings)\n", record.device))?;
        return Ok(Exit::Done);
    }
    replace_record(path, &record)?;
    Ok(Exit::NotRestored)
}

fn path_of(root: &Path, id: &str) -> PathBuf {
    directory(root).join(format!("{id}.json"))
}

fn read(path: &Path) -> Result<Record, Error> {
    let failed = |error: std::io::Error| Error::file(path, "read", &error);
    let text = own_files::read(path).map_err(failed)?;
    serde_json::from_slice(&text).map_err(|error| Error::failed(format!("{}: {error}", path.display()), ""))
}

fn save(record: &Record, root: &Path, id: &str) -> Result<(), Error> {
    let directory = directory(root);
    let base = root.join("var/lib");
    let made = fs::create_dir_all(&base).and_then(|()| own_files::make_directory(&base.join(STATE), &directory));
    made.map_err(|error| Error::file(&directory, "create", &error))?;
    replace_record(&path_of(root, id), record)
}

fn replace_record(path: &Path, record: &Record) -> Result<(), Error> {
    // Plain data with string keys: serialising it as JSON cannot fail.
    let text = serde_json::to_vec_pretty(record).unwrap_or_default();
    own_files::replace(path, &text).map_err(|error| Error::file(path, "write", &error))
}

/// Other files and profiles that set the scheduler of disks, each with whether it takes precedence.
pub fn competing_configuration(root: &Path) -> Vec<(PathBuf, bool)> {
    const PLACES: [&str; 4] =
        ["etc/udev/rules.d", "run/udev/rules.d", "usr/local/lib/udev/rules.d", "usr/lib/udev/rules.d"];
    let mut found = Vec::new();
    for place in PLACES {
        let entries = fs::read_dir(root.join(place)).into_iter().flatten().flatten();
        for path in entries.map(|entry| entry.path()) {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("").to_owned();
            let text = fs::read_to_string(&path).unwrap_or_default();
            let sets = text.lines().any(|line| {
                let line = line.trim_start();
                !line.starts_with('#') && (line.contains("queue/scheduler") || line.contains("queue/iosched"))
            });
            if sets && !name.starts_with("99-hoistway-") {
                // A distribution's rule is processed before ours, so ours takes precedence. An
                // administrator's rule counts as taking precedence, because it was intended.
                let is_last = !place.starts_with("usr/lib") || name.as_str() > "99-hoistway";
                found.push((path, is_last));
            }
        }
    }
    let profile = fs::read_to_string(root.join("etc/tuned/active_profile")).unwrap_or_default();
    for name in profile.split_whitespace() {
        for place in ["etc/tuned/profiles", "etc/tuned", "usr/lib/tuned/profiles", "usr/lib/tuned"] {
            let path = root.join(place).join(name).join("tuned.conf");
            let sets = fs::read_to_string(&path)
                .is_ok_and(|text| text.lines().any(|line| line.trim_start().starts_with("elevator")));
            if sets {
                found.push((path, true));
                break;
            }
        }
    }
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(root: &Path, place: &str, text: &str) {
        let path = root.join(place);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn rivals_are_those_that_set_schedulers() {
        let root = tempfile::tempdir().unwrap();
        put(root.path(), "usr/lib/udev/rules.d/60-io.rules", "ATTR{queue/scheduler}=\"bfq\"\n");
        put(root.path(), "etc/udev/rules.d/61-mine.rules", "# ATTR{queue/scheduler}=\"none\"\n");
        put(root.path(), "etc/udev/rules.d/70-ours.rules", "  ATTR{queue/iosched/low_latency}=\"0\"\n");
        put(root.path(), "etc/udev/rules.d/99-hoistway-x.rules", "ATTR{queue/scheduler}=\"bfq\"\n");
        put(root.path(), "etc/tuned/active_profile", "spectrum\n");
        put(root.path(), "usr/lib/tuned/spectrum/tuned.conf", "[disk]\nelevator=none\n");
        let found = competing_configuration(root.path());
        let names: Vec<(String, bool)> = found
            .iter()
            .map(|(path, last)| (path.strip_prefix(root.path()).unwrap().display().to_string(), *last))
            .collect();
        assert_eq!(
            names,
            [
                ("etc/udev/rules.d/70-ours.rules".to_owned(), true),
                ("usr/lib/tuned/spectrum/tuned.conf".to_owned(), true),
                ("usr/lib/udev/rules.d/60-io.rules".to_owned(), false)
            ]
        );
    }

    #[test]
    fn t43_a_file_changed_by_another_program_is_kept_with_exit_6() {
        let root = tempfile::tempdir().unwrap();
        let kept = install("wwn", "sdx", "/etc/udev/rules.d/99-hoistway-wwn.rules", "ours\n", root.path()).unwrap();
        let gone = install("wwn", "sdx", "/etc/udev/rules.d/99-hoistway-two.rules", "two\n", root.path()).unwrap();
        fs::write(&kept, "ours, changed\n").unwrap();
        let reporter = Reporter::default().without_notes();
        assert_eq!(undo(Some("sdy"), root.path(), reporter), Ok(Exit::Done));
        assert!(gone.exists());
        assert_eq!(undo(Some("sdx"), root.path(), reporter), Ok(Exit::NotRestored));
        assert!(kept.exists() && !gone.exists());
        // If the installed file was removed by hand, nothing is left to do, and the record is
        // removed.
        fs::remove_file(&kept).unwrap();
        assert_eq!(undo(None, root.path(), reporter), Ok(Exit::Done));
        assert_eq!(fs::read_dir(directory(root.path())).unwrap().count(), 0);
    }
}
