//! Reads which sectors each actuator of a drive serves, as the kernel reports since 5.16
//! (`independent_access_ranges`).

use std::fs;
use std::os::fd::BorrowedFd;
use std::path::Path;

use rustix::fs::FileType;

/// Upper bound on the ranges read; no known drive has as many.
const MOST: usize = 64;

/// First sector and length of the range that each actuator serves, relative to the start of the
/// block device that the file is or lies on. Empty for a drive with one actuator, or where the
/// kernel reports no ranges.
pub fn actuator_ranges(file: BorrowedFd<'_>) -> Vec<(u64, u64)> {
    let Ok(status) = rustix::fs::fstat(file) else { return Vec::new() };
    let is_device = FileType::from_raw_mode(status.st_mode) == FileType::BlockDevice;
    let number = if is_device { status.st_rdev } else { status.st_dev };
    let node = format!("/sys/dev/block/{}:{}", rustix::fs::major(number), rustix::fs::minor(number));
    fs::canonicalize(node).map(|node| ranges_of(&node)).unwrap_or_default()
}

fn ranges_of(node: &Path) -> Vec<(u64, u64)> {
    let number = |path: &Path| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    // A partition has no queue of its own; its disk has.
    let (disk, begin) = match number(&node.join("partition")) {
        Some(_) => (node.parent().unwrap_or(node), number(&node.join("start")).unwrap_or(0)),
        None => (node, 0),
    };
    let end = begin.saturating_add(number(&node.join("size")).unwrap_or(0));
    let of_number = |at: usize| {
        let directory = disk.join("queue/independent_access_ranges").join(at.to_string());
        Some((number(&directory.join("sector"))?, number(&directory.join("nr_sectors"))?))
    };
    let inside = |(first, sectors): (u64, u64)| {
        let (from, to) = (first.max(begin), first.saturating_add(sectors).min(end));
        (from < to).then(|| (from - begin, to - from))
    };
    (0..MOST).map_while(of_number).filter_map(inside).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk of 2,000 sectors and two arms, with a partition.
    fn disk(root: &Path, start: u64, size: u64) {
        for (arm, first) in [("0", "0"), ("1", "1000")] {
            let directory = root.join("queue/independent_access_ranges").join(arm);
            fs::create_dir_all(&directory).unwrap();
            fs::write(directory.join("sector"), format!("{first}\n")).unwrap();
            fs::write(directory.join("nr_sectors"), "1000\n").unwrap();
        }
        fs::write(root.join("size"), "2000\n").unwrap();
        let part = root.join("part");
        fs::create_dir_all(&part).unwrap();
        for (name, value) in [("partition", 1), ("start", start), ("size", size)] {
            fs::write(part.join(name), format!("{value}\n")).unwrap();
        }
    }

    #[test]
    fn a_disk_has_them_and_a_partition_has_its_share() {
        let root = tempfile::tempdir().unwrap();
        disk(root.path(), 600, 1_000);
        assert_eq!(ranges_of(root.path()), [(0, 1_000), (1_000, 1_000)]);
        assert_eq!(ranges_of(&root.path().join("part")), [(0, 400), (400, 600)]);
        disk(root.path(), 100, 500);
        assert_eq!(ranges_of(&root.path().join("part")), [(0, 500)]);
    }

    #[test]
    fn most_devices_have_none() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(ranges_of(root.path()), []);
    }
}
