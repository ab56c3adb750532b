//! Control groups: finds the hierarchy that has the I/O controller and creates groups in it.
//!
//! Versions 1 and 2 differ in file names and grammar only, and [`Version`] selects between them.
//! Every directory is recorded in the [`Journal`] before it is created. Outside of these
//! directories only `cgroup.subtree_control` (v2) is changed, which is journalled as well. Source:
//! docs/specifications/harness.md, section 3.

pub mod statistics;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::setting::Journal;

/// The version of a cgroup hierarchy.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Version {
    /// A `cgroup` mount with the controller `blkio`.
    V1,
    /// A `cgroup2` mount whose root has the controller `io`.
    V2,
}

/// A mounted hierarchy with the I/O controller.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hierarchy {
    /// Its version.
    pub version: Version,
    /// Where it is mounted.
    pub mount: PathBuf,
}

/// Rate limits of a group; `None` is unlimited.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Rates {
    /// Bytes read per second.
    pub read_bytes_per_s: Option<u64>,
    /// Bytes written per second.
    pub write_bytes_per_s: Option<u64>,
    /// Reads per second.
    pub read_ios_per_s: Option<u64>,
    /// Writes per second.
    pub write_ios_per_s: Option<u64>,
}

/// The file that holds BFQ's weights.
const BFQ_WEIGHT: [&str; 2] = ["blkio.bfq.weight", "io.bfq.weight"];
/// The file that holds io.cost's weights.
pub const COST_WEIGHT: &str = "io.weight";
/// The largest weight that io.cost accepts.
pub const COST_WEIGHT_MAX: u32 = 10_000;
/// The file that holds the weights of our kernel module's elevators (docs/kernel.md); all of them
/// share it.
const OUR_WEIGHT: [&str; 2] = ["blkio.hoist.weight", "io.hoist.weight"];
/// The schedulers under which weights have an effect.
const WEIGHTED: [&str; 8] = ["bfq", "hw-bfq", "hw-cfq", "hw-wfq", "hw-paternoster", "hw-sfq", "hw-sfq-d2", "hw-mqfq"];

/// Whether group weights have an effect under a scheduler of the kernel or of our kernel module.
pub fn has_weights(scheduler: &str) -> bool {
    WEIGHTED.contains(&scheduler)
}
/// The largest weight that BFQ accepts.
pub const BFQ_WEIGHT_MAX: u32 = 1_000;
/// The largest weight of our kernel module (`io.hoist.weight`).
pub const HOIST_WEIGHT_MAX: u32 = 10_000;

impl Hierarchy {
    /// The hierarchy that owns the I/O controller, if there is one. Version 2 is tried first; on
    /// hybrid systems only one of the two has the controller.
    pub fn find() -> Option<Self> {
        let text = fs::read_to_string("/proc/self/mountinfo").ok()?;
        find(&text, &|mount| fs::read_to_string(mount.join("cgroup.controllers")).unwrap_or_default())
    }

    /// The file that holds a group's weight under a scheduler; `None` where weights have no effect.
    pub fn weight_file(&self, scheduler: &str) -> Option<&'static str> {
        let [old, new] = if scheduler == "bfq" { BFQ_WEIGHT } else { OUR_WEIGHT };
        has_weights(scheduler).then_some(match self.version {
            Version::V1 => old,
            Version::V2 => new,
        })
    }

    /// Whether io.cost is enabled for the device `MAJOR:MINOR`; only version 2 has it.
    pub fn has_cost_control(&self, device: &str) -> bool {
        let text = fs::read_to_string(self.mount.join("io.cost.qos")).unwrap_or_default();
        self.version == Version::V2 && text.lines().any(|line| is_enabled(line, device))
    }

    /// The name used in messages: `cgroup v1`.
    pub const fn text(&self) -> &'static str {
        match self.version {
            Version::V1 => "cgroup v1",
            Version::V2 => "cgroup v2",
        }
    }
}

/// Whether a line of `io.cost.qos` enables the controller for a device: `8:0 enable=1 ctrl=user
/// ...`.
fn is_enabled(line: &str, device: &str) -> bool {
    let mut words = line.split_ascii_whitespace();
    words.next() == Some(device) && words.any(|word| word == "enable=1")
}

/// Parses mountinfo: six fields, optional ones up to a lone `-`, then type, source and options of
/// the super block.
fn find(mountinfo: &str, controllers: &dyn Fn(&Path) -> String) -> Option<Hierarchy> {
    let mounts = mountinfo.lines().filter_map(|line| {
        let (before, behind) = line.split_once(" - ")?;
        let mut behind = behind.split(' ');
        let (kind, options) = (behind.next()?, behind.nth(1)?);
        Some((kind, PathBuf::from(unescaped(before.split(' ').nth(4)?)), options))
    });
    let mut old = None;
    for (kind, mount, options) in mounts {
        match kind {
            "cgroup2" if controllers(&mount).split_ascii_whitespace().any(|name| name == "io") => {
                return Some(Hierarchy { version: Version::V2, mount });
            }
            "cgroup" if old.is_none() && options.split(',').any(|name| name == "blkio") => {
                old = Some(Hierarchy { version: Version::V1, mount });
            }
            _ => {}
        }
    }
    old
}

/// Decodes the escapes `\040`, `\011` and `\134`, which stand for a blank, a tab and a backslash in
/// a path.
fn unescaped(path: &str) -> String {
    path.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")
}

/// The groups of this process: a parent named after the process, and its children.
#[derive(Debug)]
pub struct Tree {
    hierarchy: Hierarchy,
    parent: PathBuf,
}

impl Tree {
    /// Creates the parent.
    ///
    /// # Errors
    /// Any error from the system; what was created is in the journal.
    pub fn make(hierarchy: Hierarchy, journal: &mut Journal) -> io::Result<Self> {
        let parent = hierarchy.mount.join(format!("hoistway.{}", std::process::id()));
        if hierarchy.version == Version::V2 {
            enable_io(&hierarchy.mount, journal)?;
        }
        make_directory(&parent, journal)?;
        if hierarchy.version == Version::V2 {
            enable_io(&parent, journal)?;
        }
        Ok(Self { hierarchy, parent })
    }

    /// Creates a group by its path below the parent, with any missing groups above it. Returns its
    /// directory.
    ///
    /// # Errors
    /// Any error from the system.
    pub fn group(&self, path: &str, journal: &mut Journal) -> io::Result<PathBuf> {
        let mut directory = self.parent.clone();
        for (index, part) in path.split('/').enumerate() {
            if index > 0 && self.hierarchy.version == Version::V2 && !is_on(&directory) {
                enable_io(&directory, journal)?;
            }
            directory.push(part);
            if !directory.exists() {
                make_directory(&directory, journal)?;
            }
        }
        Ok(directory)
    }

    /// Sets a group's weight under a scheduler that has weights; returns the weight that the file
    /// holds afterwards.
    ///
    /// # Errors
    /// Any error from the system; `Unsupported` for a scheduler without weights.
    pub fn set_weight(&self, group: &Path, scheduler: &str, weight: u32) -> io::Result<u32> {
        let file = self.hierarchy.weight_file(scheduler).ok_or(io::ErrorKind::Unsupported)?;
        write_weight(&group.join(file), weight)
    }

    /// Sets a group's weight under io.cost, 1 to 10,000; returns the weight that the file holds
    /// afterwards.
    ///
    /// # Errors
    /// Any error from the system.
    pub fn set_cost_weight(&self, group: &Path, weight: u32) -> io::Result<u32> {
        write_weight(&group.join(COST_WEIGHT), weight)
    }

    /// Limits a group on the device `MAJOR:MINOR`.
    ///
    /// # Errors
    /// Any error from the system, and `InvalidData` if the file does not hold afterwards what was
    /// written: the kernel's parser takes `1M` for 1.
    pub fn set_rates(&self, group: &Path, device: &str, rates: &Rates) -> io::Result<()> {
        for (file, text) in self.rate_lines(device, rates) {
            let path = group.join(file);
            fs::write(&path, &text)?;
            let holds = fs::read_to_string(&path)?;
            let wanted: Vec<&str> = text.split_ascii_whitespace().collect();
            let is_there =
                holds.lines().any(|line| wanted.iter().all(|word| line.split_ascii_whitespace().any(|w| w == *word)));
            if !is_there {
                let what = format!("{} holds '{}' instead of '{text}'", path.display(), holds.trim());
                return Err(io::Error::new(io::ErrorKind::InvalidData, what));
            }
        }
        Ok(())
    }

    /// The files and lines that set these rates.
    fn rate_lines(&self, device: &str, rates: &Rates) -> Vec<(&'static str, String)> {
        let given = [
            ("blkio.throttle.read_bps_device", "rbps", rates.read_bytes_per_s),
            ("blkio.throttle.write_bps_device", "wbps", rates.write_bytes_per_s),
            ("blkio.throttle.read_iops_device", "riops", rates.read_ios_per_s),
            ("blkio.throttle.write_iops_device", "wiops", rates.write_ios_per_s),
        ];
        let given = given.into_iter().filter_map(|(file, key, rate)| Some((file, key, rate?)));
        match self.hierarchy.version {
            Version::V1 => given.map(|(file, _, rate)| (file, format!("{device} {rate}"))).collect(),
            Version::V2 => {
                let pairs: Vec<String> = given.map(|(_, key, rate)| format!("{key}={rate}")).collect();
                if pairs.is_empty() { Vec::new() } else { vec![("io.max", format!("{device} {}", pairs.join(" ")))] }
            }
        }
    }
}

/// Moves this process, with all its threads, into a group.
///
/// # Errors
/// Any error from the system, and `InvalidData` if the process is in another group afterwards.
pub fn enter(group: &Path) -> io::Result<()> {
    fs::write(group.join("cgroup.procs"), std::process::id().to_string())?;
    let name = group.file_name().unwrap_or_default().to_string_lossy();
    let places = fs::read_to_string("/proc/self/cgroup")?;
    match places.lines().any(|line| line.ends_with(&format!("/{name}"))) {
        true => Ok(()),
        false => Err(io::Error::new(io::ErrorKind::InvalidData, format!("this process is not in {}", group.display()))),
    }
}

/// Writes a weight and reads it back; since 5.4 the first line may be "default 800" instead of
/// "800".
fn write_weight(path: &Path, weight: u32) -> io::Result<u32> {
    fs::write(path, weight.to_string())?;
    let text = fs::read_to_string(path)?;
    let word = text.lines().next().unwrap_or("").split_ascii_whitespace().last().unwrap_or("");
    word.parse().map_err(|_| io::Error::new(io::ErrorKind::InvalidData, format!("{}: '{text}'", path.display())))
}

fn make_directory(path: &Path, journal: &mut Journal) -> io::Result<()> {
    journal.record_cgroup(path)?;
    fs::create_dir(path)
}

fn is_on(group: &Path) -> bool {
    let text = fs::read_to_string(group.join("cgroup.subtree_control")).unwrap_or_default();
    text.split_ascii_whitespace().any(|name| name == "io")
}

/// Enables the I/O controller for the children of a group.
fn enable_io(group: &Path, journal: &mut Journal) -> io::Result<()> {
    if is_on(group) {
        return Ok(());
    }
    let path = group.join("cgroup.subtree_control");
    journal.record_enabled(&path)?;
    fs::write(path, "+io")
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
24 30 0:22 / /sys/fs/cgroup/unified rw,relatime shared:5 - cgroup2 cgroup2 rw
25 30 0:23 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
26 30 0:24 / /sys/fs/cgroup/blk\\040io rw,relatime shared:9 master:1 - cgroup cgroup rw,blkio,cpuset
27 30 0:25 / /mnt rw - ext4 /dev/vda1 rw,blkio
";

    #[test]
    fn the_hierarchy_that_owns_the_controller_counts() {
        let found = |controllers: &'static str| find(MOUNTS, &|_| controllers.to_owned()).unwrap();
        assert_eq!(found("cpu io memory").version, Version::V2);
        let hybrid = found("hugetlb iox");
        assert_eq!((hybrid.version, hybrid.mount), (Version::V1, PathBuf::from("/sys/fs/cgroup/blk io")));
        assert_eq!(find("27 30 0:25 / /mnt rw - ext4 /dev/vda1 rw,blkio\n", &|_| String::new()), None);
    }

    #[test]
    fn rates_are_plain_digits_in_the_grammar_of_each_version() {
        let tree = |version| Tree { hierarchy: Hierarchy { version, mount: PathBuf::new() }, parent: PathBuf::new() };
        let rates = Rates { read_bytes_per_s: Some(10 << 20), write_ios_per_s: Some(5), ..Rates::default() };
        let old = tree(Version::V1).rate_lines("7:64", &rates);
        let expected =
            [("blkio.throttle.read_bps_device", "7:64 10485760"), ("blkio.throttle.write_iops_device", "7:64 5")];
        assert_eq!(old, expected.map(|(file, line)| (file, line.to_owned())));
        let new = tree(Version::V2).rate_lines("7:64", &rates);
        assert_eq!(new, [("io.max", "7:64 rbps=10485760 wiops=5".to_owned())]);
        assert!(tree(Version::V2).rate_lines("7:64", &Rates::default()).is_empty());
    }

    #[test]
    fn io_cost_is_on_where_its_line_says_so() {
        let line = "8:16 enable=1 ctrl=user rpct=95.00 rlat=5000 wpct=95.00 wlat=5000 min=50.00 max=150.00";
        assert!(is_enabled(line, "8:16") && !is_enabled(line, "8:1"));
        assert!(!is_enabled("8:16 enable=0 ctrl=auto", "8:16") && !is_enabled("", "8:16"));
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("io.cost.qos"), format!("7:0 enable=0\n{line}\n")).unwrap();
        let of = |version| Hierarchy { version, mount: directory.path().to_owned() };
        assert!(of(Version::V2).has_cost_control("8:16") && !of(Version::V2).has_cost_control("7:0"));
        assert!(!of(Version::V1).has_cost_control("8:16"));
        let weight = directory.path().join(COST_WEIGHT);
        assert_eq!(write_weight(&weight, 800).unwrap(), 800);
    }

    #[test]
    fn weights_belong_to_the_scheduler_that_has_them() {
        let hierarchy = |version| Hierarchy { version, mount: PathBuf::new() };
        assert_eq!(hierarchy(Version::V1).weight_file("bfq"), Some("blkio.bfq.weight"));
        assert_eq!(hierarchy(Version::V2).weight_file("bfq"), Some("io.bfq.weight"));
        assert_eq!(hierarchy(Version::V2).weight_file("hw-paternoster"), Some("io.hoist.weight"));
        assert_eq!(hierarchy(Version::V1).weight_file("hw-mq-deadline"), None);
        assert_eq!(hierarchy(Version::V2).weight_file("mq-deadline"), None);
    }

    /// Runs the same calls on a plain directory, because not every machine has a version 2
    /// hierarchy.
    #[test]
    fn a_tree_of_version_2_switches_the_controller_on_from_the_root_down() {
        let directory = tempfile::tempdir().unwrap();
        let mount = directory.path().to_owned();
        fs::write(mount.join("cgroup.subtree_control"), "cpu\n").unwrap();
        let mut journal = Journal::begin(".test-tree").unwrap();
        let tree = Tree::make(Hierarchy { version: Version::V2, mount: mount.clone() }, &mut journal).unwrap();
        assert_eq!(fs::read_to_string(mount.join("cgroup.subtree_control")).unwrap(), "+io");
        let group = tree.group("a/b", &mut journal).unwrap();
        assert!(group.ends_with("a/b") && group.is_dir());
        assert_eq!(journal.content().cgroups.len(), 3);
        let on: Vec<&PathBuf> = journal.content().subtree_controls.iter().collect();
        assert_eq!((on.len(), on[0]), (3, &mount.join("cgroup.subtree_control")));
        // Files prevent the removal of a plain directory, but not of a cgroup.
        for path in ["hoistway", "hoistway/a"] {
            let path = path.replace("hoistway", &format!("hoistway.{}", std::process::id()));
            fs::remove_file(mount.join(path).join("cgroup.subtree_control")).unwrap();
        }
        assert!(journal.restore().is_complete());
        assert_eq!(fs::read_to_string(mount.join("cgroup.subtree_control")).unwrap(), "-io");
    }
}
