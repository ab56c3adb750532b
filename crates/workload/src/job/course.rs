//! When a job runs among the others, and with which priority.

use hoistway_block::Nanos;
use serde::{Deserialize, Serialize};

use super::{PerDirection, is_default};
use crate::verify::Verify;

/// When it starts and ends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Times {
    /// End of issuing, in nanoseconds after start and ramp; `None` means when all bytes are
    /// transferred.
    pub runtime_ns: Option<Nanos>,
    /// Whether to start again when all bytes are transferred, until `runtime_ns`.
    pub time_based: bool,
    /// Unmeasured time before the runtime starts.
    pub ramp_ns: Nanos,
    /// Earliest and latest start after the start of the phase; each thread draws a time between
    /// them.
    pub start_delay_ns: (Nanos, Nanos),
}

/// The I/O priorities of its requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Priorities {
    /// I/O priority of every request, in Linux's encoding; 0 means none.
    pub priority_bits: u16,
    /// Another priority for a share of the requests.
    pub priority_share: PriorityShare,
    /// Other priorities by size, for the reads and writes to which `priority_share` gives none.
    #[serde(skip_serializing_if = "is_default")]
    pub priority_splits: PerDirection<Vec<PrioritySplit>>,
}

/// Its place among the jobs of a file: which run before it, and which end with it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Course {
    /// Jobs of one phase run together; a phase starts when the previous one has ended (fio
    /// `stonewall`).
    pub phase: u32,
    /// Name of the jobs that must end before it starts; empty means none.
    pub wait_for: String,
    /// Whether the jobs that `ends` selects are ended when this job ends.
    pub ends_phase: bool,
    /// The jobs that are ended.
    #[serde(skip_serializing_if = "is_default")]
    pub ends: Ends,
}

/// How results show it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Reporting {
    /// Jobs with equal numbers form one reporting group.
    pub report_group: u32,
    /// Whether all threads of the reporting group are shown as one entry.
    pub group_reporting: bool,
    /// Whether it has results of its own besides those of its group, by thread or reporting group;
    /// true for jobs of job files.
    #[serde(skip_serializing_if = "is_default")]
    pub has_own_results: bool,
}

/// The CPUs that its threads may run on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Affinity {
    /// CPUs that its threads may run on; empty means all. Only hosts with a process per thread can
    /// apply it to each thread.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<u32>,
    /// Whether each thread gets one of these CPUs for itself, in turn (fio
    /// `cpus_allowed_policy=split`).
    #[serde(skip_serializing_if = "is_default")]
    pub splits_cpus: bool,
}

/// What it verifies, and whether an error ends it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Checks {
    /// How the data that it writes and reads is verified.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verify: Option<Box<Verify>>,
    /// Whether failed I/Os leave the thread running. By default the first failure ends it; a failed
    /// sync always does.
    pub continue_on_error: PerDirection<bool>,
}

/// The jobs that are ended together with a job.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ends {
    /// The jobs of its reporting group.
    #[default]
    Group,
    /// The jobs that run at the same time between two stonewalls.
    Phase,
    /// All jobs of the file, including those that have not started.
    All,
}

/// Another priority for a share of the I/Os.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PriorityShare {
    /// Percent of the reads, 0 to 100.
    pub read_percent: u8,
    /// Percent of the writes, 0 to 100.
    pub write_percent: u8,
    /// The priority of these I/Os, in Linux's encoding.
    pub priority_bits: u16,
}

/// Another priority for a share of the I/Os of one size.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrioritySplit {
    /// The size in bytes.
    pub bytes: u32,
    /// Percent of the I/Os of that size, 0 to 100.
    pub percent: u8,
    /// The priority of these I/Os, in Linux's encoding.
    pub priority_bits: u16,
}
