//! The answer: what one run gave, with everything that was in force while it ran.

use std::collections::BTreeMap;

use block::Nanos;
use serde::{Deserialize, Serialize};

use crate::job_results::JobMeasurement;
use crate::log::ThreadLog;
use crate::{Dispatches, Experiment, Histogram, ShareUnit, blkio};

/// The result of one run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Measurement {
    /// The question.
    pub experiment: Experiment,
    /// The host that answered ([`Host::name`](crate::Host::name)).
    pub host: String,
    /// The scheduler as it really was.
    pub scheduler: SchedulerInForce,
    /// The target as it really was.
    pub target: TargetFacts,
    /// Length of the measured window in nanoseconds; shorter than asked for when a worker had nothing left to do.
    pub window_ns: Nanos,
    /// The groups, in the experiment's order; groups without jobs as well.
    pub groups: Vec<GroupMeasurement>,
    /// What the device saw during the window.
    pub device: DeviceCounters,
    /// Why requests were chosen, by reason: how often, during the window. Empty where the host cannot know.
    #[serde(default)]
    pub dispatch_reasons: BTreeMap<String, u64>,
    /// What went to the device first, where somebody asked for it and the host can tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispatches: Option<Dispatches>,
    /// What the scheduler kept of each group's service from the run's begin to its end, by path, `/` for the root:
    /// the numbers behind the `blkio.*` files. Empty where it keeps nothing.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub blkio: BTreeMap<String, blkio::Statistics>,
    /// What each group did when it was alone, where somebody asked for it (`--calibrate`); empty otherwise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alone: Vec<Alone>,
    /// What is to be known before the figures are believed.
    #[serde(default)]
    pub flags: Vec<Flag>,
}

/// What a group did per second when no other did anything.
#[derive(Copy, Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Alone {
    /// Bytes.
    pub bytes_per_s: f64,
    /// I/Os.
    pub ios_per_s: f64,
    /// Nanoseconds of the device's time.
    pub device_ns_per_s: f64,
}

impl Alone {
    /// In the unit of shares.
    pub const fn per_s(&self, unit: ShareUnit) -> f64 {
        match unit {
            ShareUnit::Bytes => self.bytes_per_s,
            ShareUnit::Ios => self.ios_per_s,
            ShareUnit::Time => self.device_ns_per_s,
        }
    }
}

/// The scheduler that ran, with all its tunables.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct SchedulerInForce {
    /// The policy's name.
    pub name: String,
    /// The kernel version whose behaviour it shows, where the host distinguishes them.
    #[serde(default)]
    pub version: Option<String>,
    /// Whether weights have any effect under it.
    pub has_shares: bool,
    /// Every tunable in force, read back from the policy, in its own order.
    pub tunables: Vec<TunableInForce>,
}

/// One tunable as it was during the run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TunableInForce {
    /// Its name.
    pub name: String,
    /// Its value as people write it, in its unit.
    pub value: String,
    /// The unit: `ms`, `us`, `KiB`; empty for plain numbers.
    pub unit: String,
    /// Whether nobody changed it.
    pub is_default: bool,
}

impl TunableInForce {
    /// A tunable with the value read back from the policy. It is a default if it equals the default of its row, or, where
    /// the default follows from the device (None), if nobody set it.
    pub fn read_back(name: &str, unit: &str, value: i64, default: Option<i64>, was_set: bool) -> Self {
        let is_default = default.map_or(!was_set, |default| default == value);
        Self { name: name.to_owned(), value: value.to_string(), unit: unit.to_owned(), is_default }
    }
}

impl SchedulerInForce {
    /// Name, version and what differs from the defaults: `bfq low_latency=0`.
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

/// What is known of the target.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TargetFacts {
    /// The target as given: `model:sata`, a path.
    pub path: String,
    /// Model name as the device or the simulator tells it.
    pub model: String,
    /// Usable size in bytes.
    pub size_bytes: u64,
    /// Whether it is a turning disk.
    pub rotational: bool,
    /// Number of hardware queues.
    pub hw_queues: u32,
    /// Commands it holds at a time, in all.
    pub queue_depth: u32,
    /// Anything else worth knowing: file system, alignment, cache.
    pub notes: BTreeMap<String, String>,
}

/// What one group got.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct GroupMeasurement {
    /// Its path, as in the experiment.
    pub path: String,
    /// The weight asked for.
    pub weight: u32,
    /// The weight the mechanism had, in its own range.
    pub effective_weight: u32,
    /// Reads.
    pub read: Tally,
    /// Writes.
    pub write: Tally,
    /// Discards.
    pub trim: Tally,
    /// Flushes (fsync, fdatasync); they carry no bytes and count in no share.
    #[serde(default)]
    pub sync: Tally,
    /// Requests that completed inside the window, but after the time at which they were of use.
    #[serde(default)]
    pub late: u64,
    /// How much later than recorded the I/Os of a replay were submitted; empty for everything without times of its own.
    #[serde(default, skip_serializing_if = "Histogram::is_empty")]
    pub slip: Histogram,
    /// How much of each second a limit kept some of its requests waiting, in nanoseconds; empty where nobody counts it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub throttled_ns: Vec<Nanos>,
    /// Its threads in the order of jobs and thread numbers.
    #[serde(default)]
    pub threads: Vec<ThreadTally>,
    /// Results of its jobs, where they come from a job file; empty otherwise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<JobMeasurement>,
}

impl GroupMeasurement {
    /// Reads, writes and discards: what counts as I/Os.
    pub fn directions(&self) -> [(&'static str, &Tally); 3] {
        [("read", &self.read), ("write", &self.write), ("trim", &self.trim)]
    }

    /// Bytes moved inside the window: reads and writes. A discard moves nothing, however many bytes it names.
    pub fn bytes(&self) -> u64 {
        self.read.bytes + self.write.bytes
    }

    /// Bytes discarded inside the window.
    pub fn discarded_bytes(&self) -> u64 {
        self.trim.bytes
    }

    /// Requests completed inside the window, all directions.
    pub fn ios(&self) -> u64 {
        self.directions().iter().map(|(_, tally)| tally.ios).sum()
    }

    /// Requests that failed inside the window, flushes included.
    pub fn errors(&self) -> u64 {
        self.directions().iter().map(|(_, tally)| tally.error_count()).sum::<u64>() + self.sync.error_count()
    }

    /// Time the device spent on them in nanoseconds, all directions.
    pub fn device_ns(&self) -> Nanos {
        self.directions().iter().map(|(_, tally)| tally.device_ns).sum()
    }

    /// The latencies of all directions as one histogram.
    pub fn latency(&self) -> Histogram {
        Histogram::merged(self.directions().map(|(_, tally)| &tally.latency))
    }
}

/// What one group did in one direction.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Tally {
    /// Bytes of the requests completed inside the window.
    pub bytes: u64,
    /// Requests completed without error inside the window.
    pub ios: u64,
    /// Requests that failed inside the window, by the name of the error (`EIO`); short transfers as `short`.
    pub errors: BTreeMap<String, u64>,
    /// Time the device spent on these requests, in nanoseconds; 0 where the host cannot know.
    pub device_ns: Nanos,
    /// Latencies of the requests *submitted* inside the window, from the submitting call until completion was seen.
    pub latency: Histogram,
    /// One sample per second of the window.
    pub samples: Vec<Sample>,
}

impl Tally {
    /// All errors together.
    pub fn error_count(&self) -> u64 {
        self.errors.values().sum()
    }
}

/// One second of a group in one direction; by completion.
#[derive(Copy, Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Sample {
    /// Beginning of the second after the beginning of the window, in nanoseconds.
    pub at_ns: Nanos,
    /// How much of the second belongs to the window, in nanoseconds; shorter for the last one.
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
    /// Requests in flight, averaged over the second.
    pub inflight: f64,
}

/// What one thread did inside the window.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ThreadTally {
    /// Job and thread number: `drr.0`.
    pub name: String,
    /// Bytes read and written.
    pub bytes: u64,
    /// Requests completed.
    pub ios: u64,
    /// From the submission of its first request counted here to the completion of the last, syncs included, in ns: what `dd`
    /// divides by.
    #[serde(default)]
    pub elapsed_ns: Nanos,
    /// Why it ended before its work or its time was done, or what it found; empty for most.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub ending: String,
    /// Whether the end of the run kept it from its work, or from the time that its job wants; those that go on for as long as
    /// they are let are never cut off.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_cut_off: bool,
    /// What its job wants to be written down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<Box<ThreadLog>>,
}

/// The device's side of the window, in the terms of `/proc/diskstats`; times in nanoseconds.
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
    /// Sum over requests of their time in flight, in nanoseconds.
    pub weighted_ns: Nanos,
}

/// The device's side of one direction.
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
    /// What was counted after `before`, an earlier state of the same counters.
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

/// How often each reason was given after `before`, an earlier state of the same counts; reasons never given are left out.
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

/// A mark on a measurement that a reader must not overlook.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Flag {
    /// Others used the device: more than 2 % of its traffic was not ours (`D`).
    Disturbed,
    /// The processor was short: pressure above 20 % or steal above 2 % (`C`).
    CpuShort,
    /// Weights have no effect under this scheduler.
    NoShares,
    /// A worker had nothing left to do before the window's end.
    ShortWindow,
    /// Some requests failed.
    Errors,
}

impl Flag {
    /// The marks that follow from what every host knows: errors, an early end, weights without effect.
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
        // A replay ends with its trace.
        let ends_by_itself = experiment.runtime_ns == Experiment::UNTIL_DONE_NS
            || experiment.issuers().all(|place| place.job.replay.is_some());
        if window_ns < experiment.runtime_ns && !ends_by_itself {
            flags.push(Flag::ShortWindow);
        }
        if !scheduler.has_shares && experiment.groups.iter().any(|group| group.weight != experiment.groups[0].weight) {
            flags.push(Flag::NoShares);
        }
        flags
    }

    /// As tables show it.
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
    /// Bytes per second that all groups read and wrote over the window.
    pub fn bytes_per_s(&self) -> f64 {
        self.per_s(self.groups.iter().map(GroupMeasurement::bytes).sum())
    }

    /// Bytes per second that all groups discarded over the window.
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
