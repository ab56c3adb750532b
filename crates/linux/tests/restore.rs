//! What a journal may say: only settings of the kernel are read, written or removed by its word.
//!
//! The library is compiled here as programs use it, so ordinary files are no settings.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use hoistway_linux::process::Process;
use hoistway_linux::setting::{Content, DeviceLine, Entry, restore};

fn content(entries: Vec<Entry>, cgroups: Vec<PathBuf>, subtree_controls: Vec<PathBuf>) -> Content {
    let process = Process { pid: 1, start_time_ticks: 0 };
    Content { version: 1, process, watcher: None, cmdline: Vec::new(), entries, cgroups, subtree_controls }
}

fn entry(path: &Path) -> Entry {
    Entry { path: path.to_owned(), old: "evil".into(), new: None, requires_scheduler: None, line: None }
}

#[test]
fn ordinary_files_are_neither_read_nor_written_whatever_the_path_looks_like() {
    let base = tempfile::tempdir().unwrap();
    let path = |name: &str| base.path().join(name);
    fs::create_dir_all(path("sys/block/sda/queue")).unwrap();
    for name in ["victim", "sys/block/sda/queue/scheduler"] {
        fs::write(path(name), "kept").unwrap();
    }
    symlink("/proc/self/comm", path("link")).unwrap();
    let around = format!("/sys/../{}", path("victim").display());
    let line = Some(DeviceLine { device: "8:0".into(), absent: "evil".into() });
    let entries = vec![
        entry(&path("victim")),
        entry(&path("sys/block/sda/queue/scheduler")),
        entry(Path::new(&around)),
        entry(&path("link")),
        entry(Path::new("/proc/self/oom_score_adj")),
        entry(Path::new("/dev/null")),
        entry(Path::new("/proc/sys/kernel/core_pattern")),
        Entry { line, ..entry(&path("victim")) },
    ];
    let before = fs::read_to_string("/proc/sys/kernel/core_pattern").ok();
    let restored = restore(&content(entries, Vec::new(), vec![path("victim")]));
    assert_eq!((restored.files, restored.failed.len()), (0, 9), "{restored:?}");
    assert!(restored.failed.iter().all(|what| what.contains("no setting of the kernel")), "{restored:?}");
    for name in ["victim", "sys/block/sda/queue/scheduler"] {
        assert_eq!(fs::read_to_string(path(name)).unwrap(), "kept");
    }
    assert_eq!(fs::read_to_string("/proc/sys/kernel/core_pattern").ok(), before);
}

#[test]
fn no_directory_is_removed_and_no_process_ended_by_a_file_that_looks_like_a_group_s() {
    let base = tempfile::tempdir().unwrap();
    let group = base.path().join("hoistway.1/group");
    fs::create_dir_all(&group).unwrap();
    let mut sleeper = std::process::Command::new("sleep").arg("100").spawn().unwrap();
    fs::write(group.join("cgroup.procs"), format!("{}\n", sleeper.id())).unwrap();
    let empty = base.path().join("empty");
    fs::create_dir(&empty).unwrap();
    let restored = restore(&content(Vec::new(), vec![empty.clone(), group], Vec::new()));
    assert_eq!(restored.failed.len(), 2, "{restored:?}");
    assert!(restored.failed.iter().all(|what| what.contains("no control group of the kernel")), "{restored:?}");
    assert!(empty.exists() && sleeper.try_wait().unwrap().is_none());
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
}

#[test]
fn a_setting_that_a_link_of_sysfs_leads_to_is_restored() {
    let is_root = rustix::process::geteuid().is_root();
    let queues = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let mut paths = queues.map(|block| block.path().join("queue/read_ahead_kb")).filter(|path| path.exists());
    let Some(path) = paths.next().filter(|_| is_root) else {
        eprintln!("skipped: a_setting_that_a_link_of_sysfs_leads_to_is_restored: it needs root and a block device");
        return;
    };
    let old = fs::read_to_string(&path).unwrap().trim().to_owned();
    let other = if old == "256" { "512" } else { "256" };
    fs::write(&path, other).unwrap();
    let entry = Entry { old: old.clone(), new: Some(other.into()), ..entry(&path) };
    let restored = restore(&content(vec![entry], Vec::new(), Vec::new()));
    let now = fs::read_to_string(&path).unwrap().trim().to_owned();
    fs::write(&path, &old).unwrap();
    assert_eq!((restored.files, now), (1, old), "{restored:?}");
}
