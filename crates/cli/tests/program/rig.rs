//! Creates block devices that behave like a model, and finds what they, or runs on them, have left
//! behind.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::hoistway;

/// Held by a test that uses a real device, so that such tests run one after the other.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Why such a device is not possible on this machine.
pub fn missing() -> Option<String> {
    let is_root = Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n");
    if !is_root {
        return Some("it needs root".to_owned());
    }
    let needed = ["/dev/fuse", "/dev/loop-control"];
    needed.into_iter().find(|path| !Path::new(path).exists()).map(|path| format!("there is no {path}"))
}

/// Whether a test that creates devices can run; prints why not.
pub fn possible(test: &str) -> Option<MutexGuard<'static, ()>> {
    if let Some(reason) = missing() {
        eprintln!("skipped: {test}: {reason}");
        return None;
    }
    // A test that failed while holding the lock has reported it itself.
    Some(ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner))
}

/// A device; deleted when dropped.
pub struct Rig {
    pub node: String,
}

impl Rig {
    /// Creates a device from a model and further arguments of `hoistway device create`.
    pub fn create(arguments: &[&str]) -> Rig {
        let said = hoistway(Path::new("/"), &[&["device", "create", "--model"], arguments].concat());
        assert_eq!(said.code, 0, "{}", said.stderr);
        Rig { node: said.stdout.trim().to_owned() }
    }

    /// The path of a file of the device's queue in sysfs.
    pub fn queue(&self, name: &str) -> PathBuf {
        Path::new("/sys/block").join(self.node.trim_start_matches("/dev/")).join("queue").join(name)
    }

    /// The content of such a file; the word in brackets where it lists the possible ones.
    pub fn get(&self, name: &str) -> String {
        let text = fs::read_to_string(self.queue(name)).unwrap_or_default();
        let chosen = text.split_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
        chosen.unwrap_or(text.trim()).to_owned()
    }

    pub fn set(&self, name: &str, value: &str) {
        fs::write(self.queue(name), value).unwrap_or_else(|error| panic!("{name}={value}: {error}"));
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        hoistway(Path::new("/"), &["device", "delete", "--force", &self.node]);
    }
}

/// Everything that a run could leave behind on this machine, sorted.
pub fn left_behind() -> Vec<String> {
    let mut left = Vec::new();
    let names = |directory: &str| {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        entries.map(|entry| entry.path().display().to_string()).collect::<Vec<_>>()
    };
    let is_ours = |path: &String| path.rsplit('/').next().is_some_and(|name| name.starts_with("hoistway."));
    for hierarchy in ["/sys/fs/cgroup", "/sys/fs/cgroup/blkio", "/sys/fs/cgroup/unified"] {
        left.extend(names(hierarchy).into_iter().filter(is_ours));
    }
    let number = |path: &String| path.rsplit("loop").next().and_then(|digits| digits.parse::<u32>().ok());
    left.extend(names("/sys/block").into_iter().filter(|path| number(path).is_some_and(|number| number >= 64)));
    left.extend(names("/run/hoistway-root/devices"));
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    left.extend(names(&format!("/run/hoistway-root/{}", boot.trim())));
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    left.extend(mounts.lines().filter(|line| line.starts_with("hoistway")).map(str::to_owned));
    left.sort();
    left
}

/// Waits until nothing is left that was not there before, at most [`PATIENCE`]; returns what is left.
pub fn left_since(before: &[String]) -> Vec<String> {
    let left = || -> Vec<String> { left_behind().into_iter().filter(|thing| !before.contains(thing)).collect() };
    if becomes(|| left().is_empty()) { Vec::new() } else { left() }
}

/// For what happens soon or, if it is broken, never. Not less, because the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// Whether this becomes true.
pub fn becomes(mut is_so: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        if Instant::now() > end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    true
}
