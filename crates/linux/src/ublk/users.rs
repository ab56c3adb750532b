//! Who uses a block device: mounts, devices stacked on it, and processes that have it open.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use super::node;

/// The users of a device, in words; empty if there are none. Processes of other users can be seen
/// only with the rights to see them.
pub fn users(number: u32) -> Vec<String> {
    let node = node(number);
    let Ok(metadata) = fs::metadata(&node) else { return Vec::new() };
    let device = metadata.rdev();
    let mut found = Vec::new();
    let id = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    for line in mounts.lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        if fields.get(2) == Some(&id.as_str()) {
            found.push(format!("mounted on {}", fields.get(4).copied().unwrap_or("?")));
        }
    }
    for holder in fs::read_dir(format!("/sys/dev/block/{id}/holders")).into_iter().flatten().flatten() {
        found.push(format!("used by {}", holder.file_name().to_string_lossy()));
    }
    for (process, name) in openers(device) {
        found.push(format!("open in {name} (process {process})"));
    }
    // A mount in another mount namespace is in no file that this process can read.
    if found.is_empty()
        && rustix::fs::open(&node, OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC, Mode::empty())
            .is_err_and(|error| error == rustix::io::Errno::BUSY)
    {
        found.push("mounted in another namespace, or used by the kernel".to_owned());
    }
    found
}

fn openers(device: u64) -> BTreeSet<(u32, String)> {
    let mut found = BTreeSet::new();
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(number) = process.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let files = fs::read_dir(process.path().join("fd")).into_iter().flatten().flatten();
        if files.map(|file| file.path()).any(|file| is_device(&file, device)) {
            let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
            found.insert((number, name.trim().to_owned()));
        }
    }
    found
}

fn is_device(file: &Path, device: u64) -> bool {
    use std::os::unix::fs::FileTypeExt;
    // The link's text is cheap to read and rules out nearly all files.
    let is_node = fs::read_link(file).is_ok_and(|target| target.starts_with("/dev"));
    is_node && fs::metadata(file).is_ok_and(|it| it.file_type().is_block_device() && it.rdev() == device)
}
