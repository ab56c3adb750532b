//! The target of the I/O: a block device, a file, or a part of a file that Hoistway created for the
//! test; and the disk below it.

use std::path::{Path, PathBuf};

use hoistway_experiment::Refusal;
use hoistway_linux::block_queue::BlockQueue;
use hoistway_linux::device::{Facts, Kind, Opening};

/// A target, in a form that other processes can open.
#[derive(Clone, Debug)]
pub struct Target {
    /// Its path.
    pub path: String,
    /// The first byte of the measured part.
    pub first_byte: u64,
    /// The length of the measured part, in bytes.
    pub size_bytes: u64,
    /// Whether it is a file that was created for the test.
    pub is_ours: bool,
}

const NO_DEVICE: &str = "lsblk lists the block devices of this machine";

impl Target {
    /// Parses a target: a path, or `PATH@FIRST+SIZE` for a part of a file that was created for the
    /// test. Nothing is opened for writing.
    ///
    /// # Errors
    /// The target cannot be opened, or is neither device nor file.
    pub fn of(target: &str) -> Result<Self, Refusal> {
        // A path to a descriptor of this process would mean another descriptor in a child.
        let path = |text: &str| text.replace("/dev/fd/", &format!("/proc/{}/fd/", std::process::id()));
        if let Some((file, part)) = target.rsplit_once('@')
            && let Some((first, size)) = part.split_once('+')
            && let (Ok(first_byte), Ok(size_bytes)) = (first.parse(), size.parse())
        {
            return Ok(Self { path: path(file), first_byte, size_bytes, is_ours: true });
        }
        let size_bytes = facts(Path::new(target))?.size_bytes;
        Ok(Self { path: path(target), first_byte: 0, size_bytes, is_ours: false })
    }

    /// The queue of the disk that the target lies on.
    ///
    /// # Errors
    /// There is no such disk, or there are several.
    pub fn queue(&self) -> Result<BlockQueue, Refusal> {
        BlockQueue::below(Path::new(&self.path)).map_err(|error| {
            let message = format!("{}: {error}: the kernel schedules no I/O there", self.path);
            Refusal::usage(message, "name a block device, or a file or directory on a disk's file system")
        })
    }

    /// The target's properties. None for a directory, which stands for a file that does not exist
    /// yet.
    pub fn facts(&self) -> Option<Facts> {
        facts(Path::new(&self.path)).ok()
    }

    /// Whether the target is a block device and not a file on one.
    pub fn is_block_device(&self) -> bool {
        self.facts().is_some_and(|facts| facts.kind == Kind::BlockDevice)
    }
}

fn facts(path: &Path) -> Result<Facts, Refusal> {
    let opening = Opening { writable: false, direct: false, exclusive: false, claimed_bytes: (0, 0) };
    let opened = hoistway_linux::device::open(path, None, opening);
    let refused = |refusal: hoistway_linux::device::Refusal| match refusal {
        hoistway_linux::device::Refusal::Missing { .. } => Refusal::usage(refusal.to_string(), NO_DEVICE),
        _ => Refusal::unsafe_target(refusal.to_string(), NO_DEVICE),
    };
    Ok(opened.map_err(refused)?.facts)
}

/// The target text for a file of `bytes` that does not exist yet, in a directory.
pub fn placeholder(directory: &Path, bytes: u64) -> String {
    let directory: PathBuf = if directory.as_os_str().is_empty() { ".".into() } else { directory.to_owned() };
    format!("{}@0+{bytes}", directory.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_file_of_ours_is_opened_through_this_process() {
        let target = Target::of("/dev/fd/7@4096+1048576").unwrap();
        assert_eq!(target.path, format!("/proc/{}/fd/7", std::process::id()));
        assert_eq!((target.first_byte, target.size_bytes, target.is_ours), (4096, 1 << 20, true));
        let directory = Target::of(&placeholder(Path::new("/tmp"), 9)).unwrap();
        assert_eq!((directory.path.as_str(), directory.size_bytes), ("/tmp", 9));
    }

    #[test]
    fn a_file_system_in_memory_has_no_disk() {
        let target = Target::of(&placeholder(Path::new("/proc"), 4096)).unwrap();
        assert!(target.queue().unwrap_err().message.contains("no single block device"), "proc");
        Target::of("/no/such/thing").unwrap_err();
    }
}
