//! Waiting for backings that a killed server still holds.
//!
//! After `kill -9` the kernel finishes the requests in flight before it destroys the ring, and until then the ring
//! holds the files and their locks, although no process has them open any more. Measured with 1.7 GB of dirty pages:
//! 1 s and more. A backing that a process has open belongs to a server that lives, and is refused.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tracing::info;

/// How long a backing may be in use by any process: a server that is ending has it open for a moment.
const ANYONE: Duration = Duration::from_secs(1);
/// How long the requests of a killed server may take.
const KILLED_SERVER: Duration = Duration::from_secs(60);
/// How often to try again.
const POLL: Duration = Duration::from_millis(10);

/// The wait for one device's backings.
pub struct Release<'a> {
    device: &'a str,
    paths: Vec<PathBuf>,
    start: Instant,
    is_announced: bool,
}

impl<'a> Release<'a> {
    /// A wait that begins now, for backings at these paths.
    pub fn new(device: &'a str, paths: Vec<PathBuf>) -> Self {
        Self { device, paths, start: Instant::now(), is_announced: false }
    }

    /// Waits a moment before the next try; returns whether another try makes sense.
    pub fn is_worth_waiting(&mut self) -> bool {
        let waited = self.start.elapsed();
        if waited >= KILLED_SERVER {
            return false;
        }
        if waited >= ANYONE {
            if !self.is_announced && !self.paths.iter().any(|path| is_locked(path) && !is_open_somewhere(path)) {
                return false;
            }
            if !self.is_announced {
                let (device, most_s) = (self.device, KILLED_SERVER.as_secs());
                info!(
                    name: "device_note",
                    target: "device",
                    device,
                    "device '{device}' waits up to {most_s} s, because the kernel still finishes the requests of a server \
                     that was killed"
                );
                self.is_announced = true;
            }
        }
        std::thread::sleep(POLL);
        true
    }
}

/// Whether an open file description has a lock on the file.
fn is_locked(path: &Path) -> bool {
    let (Ok(fact), Ok(locks)) = (fs::metadata(path), fs::read_to_string("/proc/locks")) else { return false };
    let (major, minor) = (rustix::fs::major(fact.dev()), rustix::fs::minor(fact.dev()));
    let file = format!("{major:02x}:{minor:02x}:{}", fact.ino());
    locks.lines().any(|line| line.contains("OFDLCK") && line.split_whitespace().any(|word| word == file))
}

/// Whether a process has the file open; true as well if not all processes can be looked at.
fn is_open_somewhere(path: &Path) -> bool {
    let Ok(wanted) = fs::metadata(path) else { return true };
    let Ok(processes) = fs::read_dir("/proc") else { return true };
    let processes = processes.flatten().filter(|entry| entry.file_name().as_encoded_bytes()[0].is_ascii_digit());
    for process in processes {
        match fs::read_dir(process.path().join("fd")) {
            Ok(descriptors) => {
                let is_it = |fact: fs::Metadata| (fact.dev(), fact.ino()) == (wanted.dev(), wanted.ino());
                if descriptors.flatten().any(|it| fs::metadata(it.path()).is_ok_and(is_it)) {
                    return true;
                }
            }
            // It ended meanwhile.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(_) => return true,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_open_as_long_as_a_process_has_it() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(is_open_somewhere(file.path()));
        let path = file.into_temp_path();
        // As root, all processes can be looked at; otherwise the answer is always yes.
        assert!(!is_open_somewhere(&path) || !rustix::process::geteuid().is_root());
        assert!(is_open_somewhere(Path::new("/does/not/exist")));
    }

    #[test]
    fn a_lock_is_seen_and_a_file_without_one_is_not_waited_for() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(!is_locked(file.path()));
        hoistway_linux::ioctl::lock_for_writing(std::os::fd::AsFd::as_fd(file.as_file()), (0, 0)).unwrap();
        assert!(is_locked(file.path()));
    }

    #[test]
    fn a_living_holder_is_waited_for_a_second_only() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut release = Release::new("d", vec![file.path().to_owned()]);
        let start = Instant::now();
        while release.is_worth_waiting() {}
        assert!(start.elapsed() >= ANYONE && start.elapsed() < KILLED_SERVER / 2, "{:?}", start.elapsed());
        assert!(!release.is_announced);
    }
}
