//! Counters, weights and limits of control groups on a block device. Nothing here writes.
//!
//! Sources: Linux Documentation/admin-guide/cgroup-v2.rst (`io.stat`, `io.max`),
//! cgroup-v1/blkio-controller.rst; docs/specifications/harness.md, section 10.2.

use std::fs;
use std::io;
use std::path::Path;

use super::{COST_WEIGHT, Hierarchy, Version};

/// Groups deeper than this are not read.
const DEPTH: usize = 8;
/// The weight of groups without one of their own.
const DEFAULT_WEIGHT: u32 = 100;

/// Counters of one direction: reads or writes.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Requests completed.
    pub ios: u64,
    /// Bytes completed.
    pub bytes: u64,
}

/// A group's counters on one device.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct GroupStatistics {
    /// Its path below the mount, without a leading slash; empty for the root.
    pub path: String,
    /// Its weight for the active scheduler; 100 where it has none.
    pub weight: u32,
    /// Reads and writes.
    pub counts: [Counts; 2],
    /// Its hard limits as the kernel prints them, `rbps=1048576`; empty if it has none.
    pub limit: String,
}

/// Every group that did I/O on the device `major:minor` and every group whose weight is not the
/// default. A group's counts exclude those of the groups below it.
///
/// # Errors
/// The mount cannot be read.
pub fn groups(hierarchy: &Hierarchy, device: &str, scheduler: &str) -> io::Result<Vec<GroupStatistics>> {
    let has_cost_control = hierarchy.has_cost_control(device);
    let mut walk = Walk { hierarchy, device, scheduler, has_cost_control, found: Vec::new() };
    walk.enter(&hierarchy.mount, DEPTH)?;
    walk.found.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(walk.found)
}

struct Walk<'a> {
    hierarchy: &'a Hierarchy,
    device: &'a str,
    scheduler: &'a str,
    has_cost_control: bool,
    found: Vec<GroupStatistics>,
}

impl Walk<'_> {
    /// Collects the groups in a directory and below; returns the sum of their counts.
    fn enter(&mut self, directory: &Path, depth: usize) -> io::Result<[Counts; 2]> {
        let mut group = match self.hierarchy.version {
            Version::V1 => version_1(directory, self.device, self.scheduler),
            Version::V2 => version_2(directory, self.device),
        };
        let mut below = [Counts::default(); 2];
        for entry in fs::read_dir(directory)?.filter_map(Result::ok) {
            if depth > 0 && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                // A group may be removed while it is read.
                let counts = self.enter(&entry.path(), depth - 1).unwrap_or_default();
                below.iter_mut().zip(counts).for_each(|(sum, more)| sum.add(more));
            }
        }
        if self.hierarchy.version == Version::V2 {
            // Version 2 counts a group's I/O in all its ancestors too, and the root counts the
            // whole device.
            group.counts.iter_mut().zip(below).for_each(|(own, below)| own.subtract(below));
        }
        let own = group.counts;
        let weight = self.weight(directory);
        let has_done_something = own.iter().any(|counts| counts.ios > 0);
        if has_done_something || weight.is_some_and(|weight| weight != DEFAULT_WEIGHT) {
            let path = directory.strip_prefix(&self.hierarchy.mount).unwrap_or(directory).display().to_string();
            self.found.push(GroupStatistics { path, weight: weight.unwrap_or(DEFAULT_WEIGHT), ..group });
        }
        let mut all = below;
        all.iter_mut().zip(own).for_each(|(sum, own)| sum.add(own));
        Ok(all)
    }
}

impl Walk<'_> {
    /// The group's weight in force: that of the scheduler, else that of io.cost.
    fn weight(&self, directory: &Path) -> Option<u32> {
        let of_cost = self.has_cost_control.then_some(COST_WEIGHT);
        let file = self.hierarchy.weight_file(self.scheduler).or(of_cost)?;
        weight(&read(directory, file), self.device)
    }
}

impl Counts {
    fn add(&mut self, more: Counts) {
        self.ios = self.ios.saturating_add(more.ios);
        self.bytes = self.bytes.saturating_add(more.bytes);
    }

    fn subtract(&mut self, part: Counts) {
        self.ios = self.ios.saturating_sub(part.ios);
        self.bytes = self.bytes.saturating_sub(part.bytes);
    }
}

fn read(directory: &Path, file: &str) -> String {
    fs::read_to_string(directory.join(file)).unwrap_or_default()
}

/// The weight in a file: version 1 writes `100`, version 2 `default 100`; the device may have a line of its own.
fn weight(text: &str, device: &str) -> Option<u32> {
    let own = text.lines().find_map(|line| line.strip_prefix(device)?.strip_prefix(' '));
    own.or_else(|| text.lines().next()).map(|word| word.trim().trim_start_matches("default "))?.parse().ok()
}

/// Parses `MAJ:MIN Read N`, in one file for I/Os and one for bytes. BFQ has counters of its own;
/// since Linux 6.10 the throttling layer counts only on devices on which a limit has been set.
fn version_1(directory: &Path, device: &str, scheduler: &str) -> GroupStatistics {
    let counter = if scheduler == "bfq" { "bfq" } else { "throttle" };
    let number = |file: &str, what: &str| {
        let text = read(directory, file);
        let mut lines = text.lines().map(|line| line.split_ascii_whitespace());
        lines
            .find_map(|mut words| {
                (words.next() == Some(device) && words.next() == Some(what)).then(|| words.next()?.parse().ok())?
            })
            .unwrap_or(0)
    };
    let counts = |what: &str| Counts {
        ios: number(&format!("blkio.{counter}.io_serviced"), what),
        bytes: number(&format!("blkio.{counter}.io_service_bytes"), what),
    };
    let limits = [("rbps", "read_bps"), ("wbps", "write_bps"), ("riops", "read_iops"), ("wiops", "write_iops")];
    let limit = limits.into_iter().filter_map(|(key, file)| {
        let text = read(directory, &format!("blkio.throttle.{file}_device"));
        let value = text.lines().find_map(|line| line.strip_prefix(device)?.strip_prefix(' ').map(str::to_owned))?;
        Some(format!("{key}={}", value.trim()))
    });
    GroupStatistics {
        counts: [counts("Read"), counts("Write")],
        limit: limit.collect::<Vec<_>>().join(" "),
        ..GroupStatistics::default()
    }
}

/// Parses `MAJ:MIN rbytes=N wbytes=N rios=N wios=N ...`, and the same form in `io.max`.
fn version_2(directory: &Path, device: &str) -> GroupStatistics {
    let line_of = |file: &str| {
        let text = read(directory, file);
        text.lines()
            .find_map(|line| line.strip_prefix(device)?.strip_prefix(' ').map(str::to_owned))
            .unwrap_or_default()
    };
    let line = line_of("io.stat");
    let number = |key: &str| {
        let mut fields = line.split_ascii_whitespace().filter_map(|field| field.split_once('='));
        fields.find_map(|(name, value)| (name == key).then(|| value.parse().ok())?).unwrap_or(0)
    };
    let counts = |ios, bytes| Counts { ios: number(ios), bytes: number(bytes) };
    let maximum = line_of("io.max");
    let limits = maximum.split_ascii_whitespace().filter(|field| !field.ends_with("=max"));
    GroupStatistics {
        counts: [counts("rios", "rbytes"), counts("wios", "wbytes")],
        limit: limits.collect::<Vec<_>>().join(" "),
        ..GroupStatistics::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (file, text) in files {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn version_2_groups_are_found_with_weight_and_limit() {
        let root = tree(&[
            ("a/io.stat", "7:0 \n8:0 rbytes=4096 wbytes=8192 rios=1 wios=2 dbytes=0 dios=0\n"),
            ("a/io.bfq.weight", "default 300\n8:0 500\n"),
            ("a/io.max", "8:0 rbps=max wbps=1000 riops=max wiops=max\n"),
            ("b/io.stat", "7:0 \n8:0 rbytes=8192 wbytes=0 rios=2 wios=0 dbytes=0 dios=0\n"),
            ("b/d/io.stat", "8:0 rbytes=8192 wbytes=0 rios=2 wios=0\n"),
            ("b/c/io.bfq.weight", "default 50\n"),
        ]);
        let hierarchy = Hierarchy { version: Version::V2, mount: root.path().to_owned() };
        let found = groups(&hierarchy, "8:0", "bfq").unwrap();
        let counts = |ios, bytes| Counts { ios, bytes };
        let a = GroupStatistics {
            path: "a".into(),
            weight: 500,
            counts: [counts(1, 4096), counts(2, 8192)],
            limit: "wbps=1000".into(),
        };
        let c = GroupStatistics {
            path: "b/c".into(),
            weight: 50,
            counts: [counts(0, 0), counts(0, 0)],
            limit: String::new(),
        };
        // Group b did no I/O itself.
        let d = GroupStatistics {
            path: "b/d".into(),
            weight: 100,
            counts: [counts(2, 8192), counts(0, 0)],
            limit: String::new(),
        };
        assert_eq!(found, [a, c, d]);
    }

    #[test]
    fn version_1_groups_are_read_by_device() {
        let root = tree(&[
            ("x/blkio.bfq.io_serviced", "8:0 Read 5\n8:0 Write 6\n8:16 Read 9\n8:0 Total 11\nTotal 20\n"),
            ("x/blkio.bfq.io_service_bytes", "8:0 Read 20480\n8:0 Write 24576\nTotal 9\n"),
            ("x/blkio.throttle.read_bps_device", "8:0 10485760\n"),
            ("x/blkio.throttle.io_serviced", "8:0 Read 1\n8:0 Write 2\nTotal 3\n"),
            ("x/blkio.bfq.weight", "800\n"),
        ]);
        let hierarchy = Hierarchy { version: Version::V1, mount: root.path().to_owned() };
        let found = groups(&hierarchy, "8:0", "bfq").unwrap();
        let counts = |ios, bytes| Counts { ios, bytes };
        assert_eq!(
            found,
            [GroupStatistics {
                path: "x".into(),
                weight: 800,
                counts: [counts(5, 20480), counts(6, 24576)],
                limit: "rbps=10485760".into()
            }]
        );
        let under_another = groups(&hierarchy, "8:0", "kyber").unwrap();
        assert_eq!((under_another[0].weight, under_another[0].counts[0].ios), (100, 1));
    }
}
