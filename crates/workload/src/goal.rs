//! What a job must achieve, and what ends or slows it down when it does or does not (fio's rate_min, max_latency,
//! latency_target, steadystate, flow, ignore_error). Plain data; `issuer::governor` and `issuer::flow` act on it.

use block::Nanos;
use block::time::SECOND;
use serde::{Deserialize, Serialize};

use crate::job::PerDirection;

/// All goals of a job. The default asks for nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Goals {
    /// Bytes/s that each direction must reach, averaged over a cycle; 0 = none. Less ends the thread with an error.
    pub least_bytes_per_s: PerDirection<u64>,
    /// The same in I/Os per second.
    pub least_ios_per_s: PerDirection<u32>,
    /// Over how long they are averaged, in nanoseconds.
    pub cycle_ns: Nanos,
    /// An I/O that takes longer ends the thread with an error; 0 = none.
    pub longest_io_ns: Nanos,
    /// The depth is searched at which a latency holds.
    pub search: Option<Search>,
    /// The thread ends when a figure of it is steady.
    pub steady: Option<Steady>,
    /// The thread keeps its part of the I/Os of all that share a flow.
    pub flow: Option<Flow>,
    /// Errnos that do not end the thread; they are counted as errors all the same.
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
    /// Whether completions have to be looked at.
    pub(crate) fn watch_completions(&self) -> bool {
        let has_least = self.least_bytes_per_s != PerDirection::all(0) || self.least_ios_per_s != PerDirection::all(0);
        has_least || self.longest_io_ns > 0 || self.search.is_some() || self.steady.is_some()
    }
}

/// The largest depth is searched at which most I/Os take no longer than a target.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Search {
    /// The target in nanoseconds, above 0.
    pub target_ns: Nanos,
    /// How long a depth is tried, in nanoseconds.
    pub window_ns: Nanos,
    /// Share of the I/Os that must hold it, in millionths: 1,000,000 = all.
    pub share_millionths: u32,
    /// Goes on searching at the depth that was found instead of ending.
    pub goes_on: bool,
}

/// Which figure is looked at.
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
    /// By the slope of a line through its values; else by the largest distance of one from their mean.
    pub by_slope: bool,
    /// The bound, in millionths; of per cent of the mean where `in_percent`, else of the figure's own unit.
    pub limit_millionths: u64,
    /// The bound is relative to the mean.
    pub in_percent: bool,
    /// Over how long it must hold, in nanoseconds.
    pub duration_ns: Nanos,
    /// Not looked at in the beginning.
    pub ramp_ns: Nanos,
    /// One value per this time.
    pub interval_ns: Nanos,
}

impl Steady {
    /// Values in the time over which it must hold, at least 2.
    pub(crate) fn values(&self) -> usize {
        let values = (self.duration_ns / self.interval_ns.max(1)).clamp(2, 1 << 20);
        usize::try_from(values).unwrap_or(2)
    }
}

/// A part of a flow.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flow {
    /// Threads with an equal number share it.
    pub id: u32,
    /// Its part is this by the sum of all, 1 to 1000.
    pub weight: u32,
    /// How long a thread that is ahead waits before it looks again; 0 = as short as hosts can.
    pub sleep_ns: Nanos,
}
