//! Goals of a job, and what ends or slows it down depending on them (fio's rate_min, max_latency,
//! latency_target, steadystate, flow, ignore_error).
//!
//! Plain data; `issuer::goal_monitor` and `issuer::flow` act on it.

use hoistway_block::Nanos;
use hoistway_block::time::SECOND;
use serde::{Deserialize, Serialize};

use crate::job::PerDirection;

/// All goals of a job. The default has none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Goals {
    /// Minimum bytes/s of each direction, averaged over a cycle; 0 means none. A lower rate ends
    /// the thread with an error.
    pub least_bytes_per_s: PerDirection<u64>,
    /// The same in I/Os per second.
    pub least_ios_per_s: PerDirection<u32>,
    /// Length of a cycle in nanoseconds.
    pub cycle_ns: Nanos,
    /// Maximum latency; a longer I/O ends the thread with an error. 0 means none.
    pub longest_io_ns: Nanos,
    /// Search for the depth at which a latency target holds.
    pub search: Option<Search>,
    /// The figure whose steady state ends the thread.
    pub steady: Option<Steady>,
    /// The flow whose I/Os the thread shares with others.
    pub flow: Option<Flow>,
    /// Errnos that do not end the thread; they are counted as errors nevertheless.
    pub ignored_errnos: PerDirection<Vec<u16>>,
}

impl Default for Goals {
    fn default() -> Self {
        Self {
            least_bytes_per_s: PerDirection::all(0),
            least_ios_per_s: PerDirection::all(0),
            cycle_ns: SECOND,
            longest_io_ns: 0,
            search: None,
            steady: None,
            flow: None,
            ignored_errnos: PerDirection::default(),
        }
    }
}

impl Goals {
    /// Whether completions must be checked.
    pub(crate) fn watch_completions(&self) -> bool {
        let has_least = self.least_bytes_per_s != PerDirection::all(0) || self.least_ios_per_s != PerDirection::all(0);
        has_least || self.longest_io_ns > 0 || self.search.is_some() || self.steady.is_some()
    }
}

/// Search for the largest depth at which most I/Os meet a latency target.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Search {
    /// The target in nanoseconds, above 0.
    pub target_ns: Nanos,
    /// Time for which a depth is tried, in nanoseconds.
    pub window_ns: Nanos,
    /// Share of the I/Os that must meet the target, in millionths: 1,000,000 = all.
    pub share_millionths: u32,
    /// Whether to continue at the depth that was found instead of ending.
    #[serde(rename = "goes_on")]
    pub continues: bool,
}

/// The observed figure.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// I/Os per second.
    Ios,
    /// Bytes per second.
    Bytes,
    /// Mean latency.
    Latency,
}

/// When a figure counts as steady.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Steady {
    /// The figure.
    pub figure: Figure,
    /// Whether the slope of a line through its values decides, rather than their largest deviation
    /// from the mean.
    pub by_slope: bool,
    /// The limit in millionths: of a percent of the mean if `in_percent`, otherwise of the figure's
    /// own unit.
    pub limit_millionths: u64,
    /// Whether the limit is relative to the mean.
    pub in_percent: bool,
    /// Time over which it must hold, in nanoseconds.
    pub duration_ns: Nanos,
    /// Time at the start that is not observed, in nanoseconds.
    pub ramp_ns: Nanos,
    /// Interval between values, in nanoseconds.
    pub interval_ns: Nanos,
}

impl Steady {
    /// Number of values in the duration, at least 2.
    pub(crate) fn values(&self) -> usize {
        let values = (self.duration_ns / self.interval_ns.max(1)).clamp(2, 1 << 20);
        usize::try_from(values).unwrap_or(2)
    }
}

/// A part of a flow.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flow {
    /// Threads with equal numbers share the flow.
    pub id: u32,
    /// The thread's part of the flow's I/Os is this divided by the sum of the weights of its
    /// threads; 1 to 1000.
    pub weight: u32,
    /// Time that a thread that is ahead sleeps before it checks again; 0 means 20 microseconds,
    /// without waiting for what is in flight.
    pub sleep_ns: Nanos,
}
