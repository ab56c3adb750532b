//! Reads the counters of a block device under the kernel's own scheduler, and those of the control
//! groups.

use std::path::Path;
use std::time::Instant;

use hoistway_linux::block_queue::BlockQueue;
use hoistway_linux::cgroup::Hierarchy;
use hoistway_linux::cgroup::statistics::{self, Counts, GroupStatistics};

use super::sample::{DeviceSample, Flow, GroupSample, Sample};
use crate::exit::Error;

const SECTOR_BYTES: u64 = 512;
const NS_PER_MS: u64 = 1_000_000;
/// The root's own processes; the table needs a name for them.
pub const ROOT: &str = "(root)";

/// A block device.
#[derive(Debug)]
pub struct Kernel {
    queue: BlockQueue,
    hierarchy: Option<Hierarchy>,
    begun: Instant,
}

impl Kernel {
    /// The device of a path; for a partition the whole disk.
    pub fn new(device: &Path) -> Result<Self, Error> {
        let queue = BlockQueue::of(device).map_err(|error| {
            Error::usage(format!("{}: {error}", device.display()), "name a block device, as /dev/sda; lsblk lists them")
        })?;
        Ok(Self { queue, hierarchy: Hierarchy::find(), begun: Instant::now() })
    }

    /// `MAJOR:MINOR` of the whole disk.
    pub fn number(&self) -> String {
        self.queue.number()
    }

    /// Its name in sysfs.
    pub fn name(&self) -> String {
        self.queue.name()
    }

    /// The hierarchy of its groups.
    pub fn hierarchy(&self) -> Option<&Hierarchy> {
        self.hierarchy.as_ref()
    }

    /// Why there are no groups, if there are none.
    pub fn note(&self) -> Option<&'static str> {
        self.hierarchy
            .is_none()
            .then_some("no cgroup hierarchy with the I/O controller is mounted: only the device is shown")
    }

    /// Reads all counters.
    pub fn sample(&self) -> Result<Sample, Error> {
        let failed =
            |error: std::io::Error| Error::failed(format!("{}: {error}", self.queue.name()), "is it still there?");
        let stat = self.queue.stat().map_err(failed)?;
        let at_ns = u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let scheduler = self.queue.schedulers().map_or_else(|| "none".to_owned(), |all| all.active);
        let groups = match &self.hierarchy {
            Some(hierarchy) => statistics::groups(hierarchy, &self.queue.number(), &scheduler).map_err(failed)?,
            None => Vec::new(),
        };
        let flow = |at: usize| Flow {
            ios: stat.fields[at],
            bytes: stat.fields[at + 2] * SECTOR_BYTES,
            service_ns: Some(stat.fields[at + 3] * NS_PER_MS),
            ..Flow::default()
        };
        let device = DeviceSample {
            name: self.queue.name(),
            depth: u64::from(self.queue.depth().1),
            in_flight: stat.fields[8],
            busy_ns: Some(stat.fields[9] * NS_PER_MS),
            flows: Some([flow(0), flow(4)]),
            diskstats: Some(stat.fields),
            notes: self.queue.tunables().into_iter().collect(),
            saturation: serde_json::Value::Null,
            nodes: std::collections::BTreeMap::new(),
            groups: groups.into_iter().map(group).collect(),
            scheduler,
        };
        Ok(Sample { at_ns, devices: vec![device] })
    }
}

fn group(group: GroupStatistics) -> GroupSample {
    let flow = |Counts { ios, bytes }: Counts| Flow { ios, bytes, ..Flow::default() };
    let [reads, writes] = group.counts;
    GroupSample {
        path: if group.path.is_empty() { ROOT.to_owned() } else { group.path },
        weight: group.weight,
        flows: [flow(reads), flow(writes)],
        outstanding: None,
        // Neither version of control groups counts it.
        throttled_ns: None,
        limit: group.limit,
        ..GroupSample::default()
    }
}
