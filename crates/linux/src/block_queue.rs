//! Reads a block device's queue from sysfs: scheduler, tunables, tags, counters. Nothing here
//! writes.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A whole disk in sysfs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BlockQueue {
    directory: PathBuf,
    major: u32,
    minor: u32,
}

/// The schedulers that a queue offers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Schedulers {
    /// All loaded schedulers, in the kernel's order.
    pub names: Vec<String>,
    /// The active scheduler.
    pub active: String,
}

/// The counters of `/sys/block/X/stat`; times in milliseconds, as in the kernel's file.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Stat {
    /// The fields in file order: 17 since Linux 5.5, zeroes where the kernel has fewer.
    pub fields: [u64; 17],
}

impl BlockQueue {
    /// The queue behind a block device; that of the whole disk for a partition.
    ///
    /// # Errors
    /// `InvalidInput` if the path is not a block device.
    pub fn of(device: &Path) -> io::Result<Self> {
        let metadata = fs::metadata(device)?;
        if !metadata.file_type().is_block_device() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a block device"));
        }
        Self::of_number(metadata.rdev())
    }

    /// The queue below the file system that holds a file or directory; for a block device, its own
    /// queue.
    ///
    /// # Errors
    /// `Unsupported` where no single block device lies below: a file system in memory, over a
    /// network, or on several devices.
    pub fn below(path: &Path) -> io::Result<Self> {
        let metadata = fs::metadata(path)?;
        if metadata.file_type().is_block_device() {
            return Self::of_number(metadata.rdev());
        }
        Self::of_number(metadata.dev()).map_err(|_| {
            let what = "no single block device is below its file system";
            io::Error::new(io::ErrorKind::Unsupported, what)
        })
    }

    pub(crate) fn of_number(number: u64) -> io::Result<Self> {
        let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
        let own = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}"))?;
        let directory = match own.join("partition").exists() {
            true => own.parent().map_or(own.clone(), Path::to_path_buf),
            false => own,
        };
        let whole = fs::read_to_string(directory.join("dev"))?;
        let (major, minor) = numbers(&whole).unwrap_or((major, minor));
        Ok(Self { directory, major, minor })
    }

    /// `MAJOR:MINOR` of the whole disk, as cgroup files name it.
    pub fn number(&self) -> String {
        format!("{}:{}", self.major, self.minor)
    }

    /// The disk's name, for example `sda`.
    pub fn name(&self) -> String {
        self.directory.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    }

    /// Path of a file in `queue/`.
    pub fn attribute_path(&self, name: &str) -> PathBuf {
        self.directory.join("queue").join(name)
    }

    /// Content of a file in `queue/`; `None` where the kernel has no such file.
    pub fn attribute(&self, name: &str) -> Option<String> {
        Some(fs::read_to_string(self.attribute_path(name)).ok()?.trim().to_owned())
    }

    /// The schedulers that the queue offers; `None` for devices without a request queue (zram,
    /// bio-based dm).
    pub fn schedulers(&self) -> Option<Schedulers> {
        schedulers(&self.attribute("scheduler")?)
    }

    /// Path of a tunable of the active scheduler.
    pub fn tunable_path(&self, name: &str) -> PathBuf {
        self.attribute_path("iosched").join(name)
    }

    /// All tunables of the active scheduler with their values, by name, without read-only files
    /// (the counters of hoistway's module).
    pub fn tunables(&self) -> Vec<(String, String)> {
        let entries = fs::read_dir(self.attribute_path("iosched")).into_iter().flatten().flatten();
        let mut tunables: Vec<(String, String)> = entries
            .filter_map(|entry| {
                if entry.metadata().ok()?.permissions().readonly() {
                    return None;
                }
                let value = fs::read_to_string(entry.path()).ok()?;
                Some((entry.file_name().into_string().ok()?, value.trim().to_owned()))
            })
            .collect();
        tunables.sort();
        tunables
    }

    /// The number of hardware queues, and the commands that the driver takes in all of them
    /// together.
    pub fn depth(&self) -> (u32, u32) {
        let entries = fs::read_dir(self.directory.join("mq")).into_iter().flatten().flatten();
        let tags = |entry: fs::DirEntry| fs::read_to_string(entry.path().join("nr_tags")).ok()?.trim().parse().ok();
        let tags: Vec<u32> = entries.filter_map(tags).collect();
        (u32::try_from(tags.len()).unwrap_or(u32::MAX), tags.iter().sum())
    }

    /// The model name that the device reports, or the file behind a loop device; empty if there is
    /// neither.
    pub fn model(&self) -> String {
        let read = |name: &str| fs::read_to_string(self.directory.join(name)).ok();
        let text = read("device/model").or_else(|| read("loop/backing_file")).unwrap_or_default();
        text.trim().to_owned()
    }

    /// The current counters.
    ///
    /// # Errors
    /// Any error from the system.
    pub fn stat(&self) -> io::Result<Stat> {
        let text = fs::read_to_string(self.directory.join("stat"))?;
        let mut fields = [0; 17];
        for (to, word) in fields.iter_mut().zip(text.split_ascii_whitespace()) {
            *to = word.parse().map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "a counter is not a number"))?;
        }
        Ok(Stat { fields })
    }
}

fn numbers(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.trim().split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Parses `none [mq-deadline] kyber bfq`; a queue that cannot have a scheduler says `none`.
fn schedulers(text: &str) -> Option<Schedulers> {
    let words = text.split_ascii_whitespace();
    let bare = |word: &str| word.trim_matches(['[', ']']).to_owned();
    let names: Vec<String> = words.clone().map(bare).collect();
    let active = words.clone().find(|word| word.starts_with('[')).or_else(|| words.clone().next()).map(bare)?;
    Some(Schedulers { names, active })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_active_scheduler_is_in_brackets() {
        let found = schedulers("none [mq-deadline] kyber bfq").unwrap();
        assert_eq!((found.active.as_str(), found.names.len()), ("mq-deadline", 4));
        assert_eq!(schedulers("none").unwrap(), Schedulers { names: vec!["none".into()], active: "none".into() });
        assert_eq!(schedulers(""), None);
    }

    #[test]
    fn a_character_device_has_no_queue() {
        assert_eq!(BlockQueue::of(Path::new("/dev/null")).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
