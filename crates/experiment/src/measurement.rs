//! The result of one run, with everything that was in force during it.

use std::collections::BTreeMap;

use hoistway_block::Nanos;
use serde::{Deserialize, Serialize};

use crate::job_results::JobMeasurement;
use crate::log::ThreadLog;
use crate::{Dispatches, Experiment, Histogram, ShareUnit, blkio};

/// The result of one run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Measurement {
    /// The experiment.
    pub experiment: Experiment,
    /// The host that ran it ([`Host::name`](crate::Host::name)).
    pub host: String,
    /// The scheduler in force.
    pub scheduler: SchedulerInForce,
    /// The actual target.
    pub target: TargetFacts,
    /// Length of the measured window in nanoseconds; shorter than requested if a worker had nothing
    /// left to do.
    pub window_ns: Nanos,
    /// The groups in the experiment's order, including groups without jobs.
    pub groups: Vec<GroupMeasurement>,
    /// Counters of the device during the window.
    pub device: DeviceCounters,
    /// How often requests were chosen for each reason during the window. Empty if the host cannot
    /// tell.
    #[serde(default)]
    pub dispatch_reasons: BTreeMap<String, u64>,
    /// The first dispatched requests, if requested and the host can record them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispatches: Option<Dispatches>,
    /// The scheduler's statistics of each group from the start of the run to its end, by path, `/`
    /// for the root: the content of the `blkio.*` files. Empty if it keeps none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub blkio: BTreeMap<String, blkio::Statistics>,
    /// The rates of each group when it ran alone, and of the device kept full with its kind of
    /// request; empty if they were not measured (`--no-solo`).
    #[serde(default, rename = "alone", skip_serializing_if = "Vec::is_empty")]
    pub solo_rates: Vec<SoloRates>,
    /// What the machine's processors did, where they are simulated (`contention=1`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processors: Option<ProcessorTime>,
    /// Warnings that apply to the figures.
    #[serde(default)]
    pub flags: Vec<Flag>,
}

/// What all simulated processors together did during the window.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ProcessorTime {
    /// Time for which they had something to do, waiting for locks included.
    pub busy_ns: Nanos,
    /// Time for which they waited for a lock of the scheduler.
    pub lock_wait_ns: Nanos,
    /// How often a lock of the scheduler was taken.
    pub lock_takes: u64,
}

impl ProcessorTime {
    /// The difference to an earlier reading.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            busy_ns: self.busy_ns - earlier.busy_ns,
            lock_wait_ns: self.lock_wait_ns - earlier.lock_wait_ns,
            lock_takes: self.lock_takes - earlier.lock_takes,
        }
    }
}

/// Rates of a group that runs alone, without a scheduler.
#[derive(Copy, Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct SoloRates {
    /// Bytes per second.
    pub bytes_per_s: f64,
    /// I/Os per second.
    pub ios_per_s: f64,
    /// Device time in nanoseconds per second.
    pub device_ns_per_s: f64,
    /// Bytes per second of the device kept full with requests of this kind; 0 if not known, as in
    /// results of older versions.
    #[serde(default)]
    pub full_bytes_per_s: f64,
    /// I/Os per second of that device.
    #[serde(default)]
    pub full_ios_per_s: f64,
}

impl SoloRates {
    /// The rates of a group's two solo runs: alone, and the device full of its kind.
    pub fn of(alone: &Measurement, full: &Measurement) -> Self {
        Self {
            device_ns_per_s: alone.per_s(alone.groups.iter().map(GroupMeasurement::device_ns).sum()),
            bytes_per_s: alone.bytes_per_s(),
            ios_per_s: alone.ios_per_s(),
            full_bytes_per_s: full.bytes_per_s(),
            full_ios_per_s: full.ios_per_s(),
        }
    }

    /// The rate in the unit of shares.
    pub const fn per_s(&self, unit: ShareUnit) -> f64 {
        match unit {
            ShareUnit::Bytes => self.bytes_per_s,
            ShareUnit::Ios => self.ios_per_s,
            ShareUnit::Time => self.device_ns_per_s,
        }
    }

    /// Whether the rate of the full device was measured as well.
    pub fn is_full_known(&self) -> bool {
        self.full_bytes_per_s > 0.0 || self.full_ios_per_s > 0.0
    }

    /// Whether the group is judged by I/Os because it transfers no bytes.
    pub fn counts_ios(&self) -> bool {
        self.bytes_per_s <= 0.0 && self.full_bytes_per_s <= 0.0
    }

    /// The rate alone and that of the full device: bytes per second, or I/Os if there are none.
    pub fn claimed(&self) -> (f64, f64) {
        if self.counts_ios() {
            (self.ios_per_s, self.full_ios_per_s)
        } else {
            (self.bytes_per_s, self.full_bytes_per_s)
        }
    }
}

/// The scheduler in force, with all its tunables.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct SchedulerInForce {
    /// The policy's name.
    pub name: String,
    /// The kernel version whose behaviour it reproduces, if the host distinguishes them.
    #[serde(default)]
    pub version: Option<String>,
    /// Whether weights have any effect under it.
    pub has_shares: bool,
    /// Every tunable in force, read back from the policy, in its own order.
    pub tunables: Vec<TunableInForce>,
}

/// The value of one tunable during the run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TunableInForce {
    /// Its name.
    pub name: String,
    /// Its value as users write it, in its unit.
    pub value: String,
    /// The unit: `ms`, `us`, `KiB`; empty for plain numbers.
    pub unit: String,
    /// Whether it has its default value.
    pub is_default: bool,
}

impl TunableInForce {
    /// A tunable with the value read back from the policy. It counts as default if it was not set,
    /// because a policy may choose by the device (`give` of paternoster is 100 on disks) or by the
    /// kernel version, or if it equals `default`.
    pub fn read_back(name: &str, unit: &str, value: i64, default: Option<i64>, was_set: bool) -> Self {
        let is_default = !was_set || default == Some(value);
        Self { name: name.to_owned(), value: value.to_string(), unit: unit.to_owned(), is_default }
    }
}

impl SchedulerInForce {
    /// Name, version and the settings that differ from the defaults: `bfq low_latency=0`.
    pub fn label(&self) -> String {
        let mut label = self.name.clone();
        if let Some(version) = &self.version {
            label = format!("{label}@{version}");
        }
        for tunable in self.tunables.iter().filter(|tunable| !tunable.is_default) {
            label = format!("{label} {}={}", tunable.name, tunable.value);
        }
        label
    }
}

/// Properties of the target.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TargetFacts {
    /// The target as given: `model:sata`, a path.
    pub path: String,
    /// Model name that the device or the simulator reports.
    pub model: String,
    /// Usable size in bytes.
    pub size_bytes: u64,
    /// Whether it is a rotating disk.
    pub rotational: bool,
    /// Number of hardware queues.
    pub hw_queues: u32,
    /// Commands that it accepts at a time, over all queues.
    pub queue_depth: u32,
    /// Further properties: file system, alignment, cache.
    pub notes: BTreeMap<String, String>,
}

/// Results of one group.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct GroupMeasurement {
    /// Its path, as in the experiment.
    pub path: String,
    /// The requested weight.
    pub weight: u32,
    /// The weight in force, in the range of the scheduler or of the kernel's cgroup file.
    pub effective_weight: u32,
    /// Reads.
    pub read: Tally,
    /// Writes.
    pub write: Tally,
    /// Discards.
    pub trim: Tally,
    /// Flushes (fsync, fdatasync); they have no bytes and do not count for shares.
    #[serde(default)]
    pub sync: Tally,
    /// Requests that completed inside the window, but after their deadline.
    #[serde(default)]
    pub late: u64,
    /// Delay of a replay's I/Os relative to their recorded times; empty for jobs without recorded
    /// times.
    #[serde(default, rename = "slip", skip_serializing_if = "Histogram::is_empty")]
    pub issue_delay: Histogram,
    /// Time of each second during which a limit throttled the group, in nanoseconds; empty if it is
    /// not measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub throttled_ns: Vec<Nanos>,
    /// Its threads in the order of jobs and thread numbers.
    #[serde(default)]
    pub threads: Vec<ThreadTally>,
    /// Results of its jobs, if they come from a job file; empty otherwise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<JobMeasurement>,
}

impl GroupMeasurement {
    /// Reads, writes and discards: the requests that count as I/Os.
    pub fn directions(&self) -> [(&'static str, &Tally); 3] {
        [("read", &self.read), ("write", &self.write), ("trim", &self.trim)]
    }

    /// Bytes transferred inside the window: reads and writes. A discard transfers nothing, whatever
    /// its length.
    pub fn bytes(&self) -> u64 {
        self.read.bytes + self.write.bytes
    }

    /// Bytes discarded inside the window.
    pub fn discarded_bytes(&self) -> u64 {
        self.trim.bytes
    }

    /// Requests completed inside the window, in all directions.
    pub fn ios(&self) -> u64 {
        self.directions().iter().map(|(_, tally)| tally.ios).sum()
    }

    /// Requests that failed inside the window, including flushes.
    pub fn errors(&self) -> u64 {
        self.directions().iter().map(|(_, tally)| tally.error_count()).sum::<u64>() + self.sync.error_count()
    }

    /// Device time of the reads, writes and discards that completed inside the window, in
    /// nanoseconds.
    pub fn device_ns(&self) -> Nanos {
        self.directions().iter().map(|(_, tally)| tally.device_ns).sum()
    }

    /// The latencies of all directions as one histogram.
    pub fn latency(&self) -> Histogram {
        Histogram::merged(self.directions().map(|(_, tally)| &tally.latency))
    }
}

/// Results of one group in one direction.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Tally {
    /// Bytes of the requests completed inside the window.
    pub bytes: u64,
    /// Requests completed without error inside the window.
    pub ios: u64,
    /// Requests that failed inside the window by the name of the error (`EIO`), or `short` for
    /// short transfers.
    pub errors: BTreeMap<String, u64>,
    /// Device time of the requests that completed inside the window, failed ones included, in
    /// nanoseconds; 0 if the host does not know it.
    pub device_ns: Nanos,
    /// Latencies of the requests *submitted* inside the window, from the submitting call until the
    /// completion is seen.
    pub latency: Histogram,
    /// One sample per second of the window.
    pub samples: Vec<Sample>,
}

impl Tally {
    /// Number of all errors.
    pub fn error_count(&self) -> u64 {
        self.errors.values().sum()
    }
}

/// One second of a group in one direction, by time of completion.
#[derive(Copy, Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Sample {
    /// Start of the second after the start of the window, in nanoseconds.
    pub at_ns: Nanos,
    /// The part of the second that belongs to the window, in nanoseconds; the last one may be
    /// shorter.
    pub length_ns: Nanos,
    /// Bytes completed.
    pub bytes: u64,
    /// Requests completed.
    pub ios: u64,
    /// Median latency in nanoseconds.
    pub latency_ns_p50: Nanos,
    /// 99th percentile of latency in nanoseconds.
    pub latency_ns_p99: Nanos,
    /// Largest latency in nanoseconds.
    pub latency_ns_max: Nanos,
    /// Mean number of requests in flight during the second.
    pub inflight: f64,
}

/// Results of one thread inside the window.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ThreadTally {
    /// Job and thread number: `drr.0`.
    pub name: String,
    /// Bytes read and written.
    pub bytes: u64,
    /// Requests completed.
    pub ios: u64,
    /// Time from the submission of its first counted request to the completion of its last,
    /// including syncs, in ns. The rate that the workload `dd` reports is its bytes divided by this
    /// time.
    #[serde(default)]
    pub elapsed_ns: Nanos,
    /// Why it ended before its work or time was done, or the depth that it found for
    /// `latency_target`; usually empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub ending: String,
    /// Whether the end of the run prevented it from completing its work or its requested time;
    /// always false for threads without an end of their own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_cut_off: bool,
    /// The logs that its job requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<Box<ThreadLog>>,
}

/// Counters of the device during the window, defined as in `/proc/diskstats`; times in nanoseconds.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceCounters {
    /// Reads.
    pub read: DirectionCounters,
    /// Writes.
    pub write: DirectionCounters,
    /// Discards.
    pub discard: DirectionCounters,
    /// Flushes completed.
    pub flushes: u64,
    /// Time spent on flushes, in nanoseconds.
    pub flush_ns: Nanos,
    /// Time with at least one request in flight, in nanoseconds.
    pub busy_ns: Nanos,
    /// Sum of the times in flight of all requests, in nanoseconds.
    pub weighted_ns: Nanos,
}

/// Counters of the device in one direction.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DirectionCounters {
    /// Requests completed.
    pub ios: u64,
    /// Bios merged into another request.
    pub merges: u64,
    /// Sectors transferred, of 512 bytes.
    pub sectors: u64,
    /// Sum of the requests' times, in nanoseconds.
    pub time_ns: Nanos,
}

impl DeviceCounters {
    /// The difference to `before`, an earlier state of the same counters.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            read: self.read.since(&before.read),
            write: self.write.since(&before.write),
            discard: self.discard.since(&before.discard),
            flushes: self.flushes - before.flushes,
            flush_ns: self.flush_ns - before.flush_ns,
            busy_ns: self.busy_ns - before.busy_ns,
            weighted_ns: self.weighted_ns - before.weighted_ns,
        }
    }
}

impl DirectionCounters {
    fn since(&self, before: &Self) -> Self {
        Self {
            ios: self.ios - before.ios,
            merges: self.merges - before.merges,
            sectors: self.sectors - before.sectors,
            time_ns: self.time_ns - before.time_ns,
        }
    }
}

/// How often each reason was given since `before`, an earlier state of the same counts; unused
/// reasons are omitted.
pub fn reasons_since(
    before: &BTreeMap<&'static str, u64>,
    after: &BTreeMap<&'static str, u64>,
) -> BTreeMap<String, u64> {
    let counts = after.iter().map(|(name, count)| {
        let earlier = before.get(name).copied().unwrap_or(0);
        ((*name).to_owned(), count.saturating_sub(earlier))
    });
    counts.filter(|(_, count)| *count > 0).collect()
}

/// A warning about a measurement that readers must see.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Flag {
    /// Other programs used the device: more than 2 % of its traffic was not from this run (`D`).
    Disturbed,
    /// CPU time was short: pressure above 20 % or steal above 2 % (`C`).
    CpuShort,
    /// Weights have no effect under this scheduler.
    NoShares,
    /// A worker had nothing left to do before the end of the window.
    ShortWindow,
    /// Some requests failed.
    Errors,
}

impl Flag {
    /// The flags that every host can derive: errors, an early end, weights without effect.
    pub fn of_run(
        experiment: &Experiment,
        window_ns: Nanos,
        groups: &[GroupMeasurement],
        scheduler: &SchedulerInForce,
    ) -> Vec<Flag> {
        let mut flags = Vec::new();
        if groups.iter().any(|group| group.errors() > 0) {
            flags.push(Flag::Errors);
        }
        // A replay ends with its trace, so a shorter window is no fault.
        let ends_by_itself = experiment.runtime_ns == Experiment::UNTIL_DONE_NS
            || experiment.issuers().all(|place| place.job.source.replay.is_some());
        if window_ns < experiment.runtime_ns && !ends_by_itself {
            flags.push(Flag::ShortWindow);
        }
        if !scheduler.has_shares && experiment.groups.iter().any(|group| group.weight != experiment.groups[0].weight) {
            flags.push(Flag::NoShares);
        }
        flags
    }

    /// Its text in tables.
    pub const fn label(self) -> &'static str {
        match self {
            Flag::Disturbed => "D",
            Flag::CpuShort => "C",
            Flag::NoShares => "no shares",
            Flag::ShortWindow => "short window",
            Flag::Errors => "errors",
        }
    }
}

impl Measurement {
    /// Bytes per second read and written by all groups over the window.
    pub fn bytes_per_s(&self) -> f64 {
        self.per_s(self.groups.iter().map(GroupMeasurement::bytes).sum())
    }

    /// Bytes per second discarded by all groups over the window.
    pub fn discarded_bytes_per_s(&self) -> f64 {
        self.per_s(self.groups.iter().map(GroupMeasurement::discarded_bytes).sum())
    }

    /// Requests per second of all groups over the window.
    pub fn ios_per_s(&self) -> f64 {
        self.per_s(self.groups.iter().map(GroupMeasurement::ios).sum())
    }

    /// An amount of the window per second; 0 for an empty window.
    pub fn per_s(&self, amount: u64) -> f64 {
        if self.window_ns == 0 { 0.0 } else { amount as f64 * 1e9 / self.window_ns as f64 }
    }

    /// The latencies of all groups and directions as one histogram.
    pub fn latency(&self) -> Histogram {
        let all = self.groups.iter().flat_map(GroupMeasurement::directions);
        Histogram::merged(all.map(|(_, tally)| &tally.latency))
    }
}
