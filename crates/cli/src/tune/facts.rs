//! The properties of a target before any measurement, for `tune`. Source:
//! docs/specifications/harness.md, section 8.3.

use std::fs;
use std::path::{Path, PathBuf};

use hoistway_elevator::registry;
use hoistway_experiment::{Experiment, Host, SchedulerSpec, TargetFacts, Unattended};
use hoistway_linux::block_queue::BlockQueue;
use hoistway_linux::cgroup::Hierarchy;
use hoistway_tune::{Attachment, Device, HostKind, Probe, Timing};

use crate::exit::Error;
use crate::target::HostName;

/// The schedulers of Linux, some of which may be modules that are not loaded yet.
const KERNELS: [(&str, &str); 3] =
    [("mq-deadline", "mq-deadline.ko"), ("kyber", "kyber-iosched.ko"), ("bfq", "bfq.ko")];
/// The shortest possible run, for a target that only its host can inspect.
const SHORTEST_RUN: Timing = Timing { ramp_ns: 0, step_ns: 1_000_000, repeats: 1, first_set: 1 };

/// A whole disk of this machine.
#[derive(Clone, Debug)]
pub struct Disk {
    /// Its queue.
    pub queue: BlockQueue,
    /// Its directory in sysfs.
    pub sysfs: PathBuf,
}

impl Disk {
    /// The disk of a device node; for a partition the whole disk.
    pub fn of(node: &Path) -> Result<Self, Error> {
        let queue = BlockQueue::of(node).map_err(|error| Error::file(node, "look at", &error))?;
        let sysfs = Path::new("/sys/block").join(queue.name());
        Ok(Self { queue, sysfs })
    }

    /// The trimmed content of a file in its sysfs directory; none if it does not exist or is empty.
    pub fn read(&self, name: &str) -> Option<String> {
        let text = fs::read_to_string(self.sysfs.join(name)).ok()?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    }

    /// The names in one of its directories.
    fn names(&self, directory: &str) -> Vec<String> {
        let entries = fs::read_dir(self.sysfs.join(directory)).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    fn attachment(&self) -> Attachment {
        let name = self.queue.name();
        let is_ours = hoistway_rig::find(&format!("/dev/{name}")).is_some();
        let is_component = self.names("holders").iter().any(|holder| {
            let uuid = fs::read_to_string(format!("/sys/block/{holder}/dm/uuid")).unwrap_or_default();
            uuid.starts_with("mpath-")
        });
        match name.trim_end_matches(|c: char| c.is_ascii_digit()) {
            _ if is_component => Attachment::Component,
            // A loop device that `hoistway device create` made from a model counts as a disk.
            "loop" if is_ours => Attachment::Direct,
            "loop" => Attachment::Loop,
            "dm-" | "md" | "zram" | "ram" | "pmem" => Attachment::Stacked,
            "nbd" => Attachment::Virtual,
            letters if letters.starts_with("vd") || letters.starts_with("xvd") => Attachment::Virtual,
            _ => Attachment::Direct,
        }
    }

    /// The available schedulers: loaded, or present as modules; and io.cost where the kernel has
    /// it.
    fn schedulers(&self) -> Vec<String> {
        let Some(loaded) = self.queue.schedulers().filter(|found| found.names.len() > 1) else { return Vec::new() };
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let modules = PathBuf::from("/lib/modules").join(release.trim());
        let lists = ["modules.dep", "modules.builtin"].map(|name| fs::read_to_string(modules.join(name)));
        let lists = lists.map(Result::unwrap_or_default);
        let is_there = |file: &str| lists.iter().any(|list| list.contains(file));
        let mut names = loaded.names;
        for (name, file) in KERNELS {
            if !names.iter().any(|known| known == name) && is_there(file) {
                names.push(name.to_owned());
            }
        }
        if hoistway_native::io_cost::is_there() {
            names.push(hoistway_native::io_cost::NAME.to_owned());
        }
        names
    }

    /// The present settings, without the kernel's defaults.
    pub fn current(&self) -> SchedulerSpec {
        let active = self.queue.schedulers().map_or_else(|| "none".to_owned(), |found| found.active);
        let mut spec = SchedulerSpec::named(active);
        for (key, value) in self.queue.tunables() {
            if is_changed(&spec.name, &key, &value) {
                spec = spec.with(&key, &value);
            }
        }
        spec
    }

    /// All known properties of the disk.
    pub fn device(&self, text: &str, may_write: bool) -> Device {
        let (hw_queues, queue_depth) = self.queue.depth();
        let of_model = hoistway_rig::find(text);
        let own_depth = self.read("device/queue_depth").and_then(|text| text.parse().ok());
        let own_depth = of_model.as_ref().map(|rig| rig.depth).or(own_depth);
        let number = |name: &str| self.queue.attribute(name).and_then(|text| text.parse::<u64>().ok());
        let sectors = self.read("size").and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
        let is_root = rustix::process::geteuid().is_root();
        Device {
            name: text.to_owned(),
            model: of_model.map_or_else(|| self.queue.model(), |rig| format!("model:{}", rig.model)),
            host: HostKind::Native,
            attachment: self.attachment(),
            size_bytes: sectors * hoistway_block::SECTOR_BYTES,
            is_rotational: number("rotational") == Some(1),
            is_zoned: self.queue.attribute("zoned").is_some_and(|kind| kind != "none"),
            hw_queues,
            queue_depth: own_depth.unwrap_or(queue_depth),
            nr_requests: number("nr_requests").and_then(|requests| u32::try_from(requests).ok()),
            schedulers: self.schedulers(),
            current: self.current(),
            current_is_real: true,
            wbt_lat_us: number("wbt_lat_usec"),
            has_groups: is_root && Hierarchy::find().is_some(),
            may_write,
            below: self.names("slaves"),
        }
    }
}

/// Whether a tunable differs from the kernel's default. Tunables that are not listed here are
/// ignored, among them those whose default depends on the machine (async_depth, max_budget).
fn is_changed(scheduler: &str, key: &str, value: &str) -> bool {
    let usual: &[&str] = match (scheduler, key) {
        ("bfq", "slice_idle") => &["8"],
        ("bfq", "low_latency") => &["1"],
        ("bfq", "strict_guarantees") => &["0"],
        // BFQ's default of 125 ms, as shown after rounding to ticks of 250, 100, 300 or 1000 per
        // second.
        ("bfq", "timeout_sync") => &["124", "125", "120", "123", "126"],
        ("mq-deadline", "fifo_batch") => &["16"],
        ("mq-deadline", "writes_starved") => &["2"],
        ("mq-deadline", "read_expire") => &["500"],
        ("mq-deadline", "write_expire") => &["5000"],
        ("mq-deadline", "front_merges") => &["1"],
        ("kyber", "read_lat_nsec") => &["2000000"],
        ("kyber", "write_lat_nsec") => &["10000000"],
        _ => return false,
    };
    !usual.contains(&value)
}

/// All disks of this machine, by name.
pub fn disks() -> Vec<Disk> {
    let entries = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    let disk = |name: String| Disk::of(Path::new(&format!("/dev/{}", name.replace('!', "/")))).ok();
    names.into_iter().filter_map(disk).filter(|disk| disk.read("size").is_some_and(|size| size != "0")).collect()
}

/// The properties that a host other than the kernel sees of its target: from the shortest possible
/// run.
pub fn of_host(host: &mut dyn Host, name: HostName, text: &str, file_bytes: Option<u64>) -> Result<Device, Error> {
    let kind = if name == HostName::Simulator { HostKind::Simulator } else { HostKind::Engine };
    let mut device = Device {
        name: text.to_owned(),
        model: String::new(),
        host: kind,
        attachment: Attachment::Direct,
        size_bytes: file_bytes.unwrap_or(0),
        is_rotational: false,
        is_zoned: false,
        hw_queues: 1,
        queue_depth: 1,
        nr_requests: None,
        schedulers: registry::entries().map(|entry| entry.name.to_owned()).collect(),
        current: SchedulerSpec::named("none"),
        current_is_real: false,
        wbt_lat_us: None,
        has_groups: true,
        may_write: true,
        below: Vec::new(),
    };
    let shortest_run: Experiment =
        Probe::Depth(1).experiment(&device, &SchedulerSpec::named("none"), &[], SHORTEST_RUN, 0);
    host.check(&shortest_run).map_err(Error::from)?;
    let TargetFacts { model, size_bytes, rotational, hw_queues, queue_depth, .. } =
        host.run(&shortest_run, &mut Unattended)?.target;
    let hw_queues = hw_queues.max(1);
    device = Device { model, size_bytes, is_rotational: rotational, hw_queues, queue_depth, ..device };
    device.current = Device::kernel_default(hw_queues);
    Ok(device)
}
