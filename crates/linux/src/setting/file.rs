//! Files that are settings of the kernel. A journal is a text that may say anything, so nothing but such files is read,
//! written or removed by its word.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags};

/// Magic numbers of `statfs` (linux/magic.h).
const SYSFS: u64 = 0x6265_6572;
const TRACEFS: u64 = 0x7472_6163;
const CGROUP: u64 = 0x0027_e0eb;
const CGROUP2: u64 = 0x6367_7270;

/// Queues, tracing and control groups.
const SETTINGS: [u64; 4] = [SYSFS, TRACEFS, CGROUP, CGROUP2];
const GROUPS: [u64; 2] = [CGROUP, CGROUP2];

/// Whether an open file lies in one of these file systems. The path does not count: it may lead there through links,
/// as `/sys/block` does, or from there to elsewhere.
fn is_in(file: impl AsFd, systems: &[u64]) -> bool {
    // The unit tests of this crate take ordinary files for settings; tests/restore.rs has the real ones.
    cfg!(test)
        || rustix::fs::fstatfs(file).is_ok_and(|it| u64::try_from(it.f_type).is_ok_and(|it| systems.contains(&it)))
}

fn foreign(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, format!("it is no {what} of the kernel, so it is left alone"))
}

/// Opens a setting. It is looked at before it is opened for use, because opening alone may act (devices, pipes).
fn open(path: &Path, flags: OFlags) -> io::Result<File> {
    let seen = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let is_file = FileType::from_raw_mode(rustix::fs::fstat(&seen)?.st_mode) == FileType::RegularFile;
    if !path.is_absolute() || !is_file || !is_in(&seen, &SETTINGS) {
        return Err(foreign("setting"));
    }
    // The file that was looked at, whatever the path leads to by now.
    let again = format!("/proc/self/fd/{}", seen.as_raw_fd());
    Ok(File::from(rustix::fs::open(again, flags | OFlags::CLOEXEC, Mode::empty())?))
}

/// The text of a setting.
pub(super) fn read(path: &Path) -> io::Result<String> {
    io::read_to_string(open(path, OFlags::RDONLY)?)
}

/// Writes a setting as the kernel takes it: in one call, into a file that exists.
pub(super) fn write(path: &Path, text: &str) -> io::Result<()> {
    let flags = if cfg!(test) { OFlags::WRONLY | OFlags::TRUNC } else { OFlags::WRONLY };
    io::Write::write_all(&mut open(path, flags)?, text.as_bytes())
}

/// A control group, by its parent: neither can be exchanged for something else while it is used.
pub(super) struct Group<'a> {
    parent: OwnedFd,
    name: &'a OsStr,
}

impl<'a> Group<'a> {
    /// The group at a path, which need not exist.
    pub fn at(path: &'a Path) -> io::Result<Self> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(foreign("control group"));
        };
        let parent = rustix::fs::open(parent, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        if !path.is_absolute() || !is_in(&parent, &GROUPS) {
            return Err(foreign("control group"));
        }
        Ok(Self { parent, name })
    }

    /// Removes the group.
    pub fn remove(&self) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.parent, self.name, AtFlags::REMOVEDIR)?)
    }

    /// Numbers of the processes in it; none if it does not exist.
    pub fn members(&self) -> Vec<i32> {
        let procs = Path::new(self.name).join("cgroup.procs");
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let Ok(file) = rustix::fs::openat(&self.parent, procs, flags, Mode::empty()) else { return Vec::new() };
        if !is_in(&file, &GROUPS) {
            return Vec::new();
        }
        let text = io::read_to_string(File::from(file)).unwrap_or_default();
        text.lines().filter_map(|line| line.trim().parse().ok()).collect()
    }
}
