//! When a job issues.

use hoistway_block::Nanos;
use serde::{Deserialize, Serialize};

use super::{PerDirection, is_zero};

/// When it issues: rates and pauses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pacing {
    /// Maximum rate of a thread in bytes/s per direction; 0 means unlimited.
    pub rate_bytes_per_s: PerDirection<u64>,
    /// Maximum rate of a thread in I/Os per second per direction; 0 means unlimited.
    pub rate_ios_per_s: PerDirection<u32>,
    /// Distribution of issue times under a rate.
    pub rate_process: RateProcess,
    /// Whether pauses shift the rate's schedule instead of being caught up afterwards (fio
    /// `rate_ignore_thinktime`).
    pub rate_ignores_think: bool,
    /// Pauses.
    pub think: Think,
}

/// Distribution of the gaps between scheduled issue times if a rate is set.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RateProcess {
    /// Equal gaps.
    #[default]
    Linear,
    /// Exponentially distributed gaps of the same mean.
    Poisson,
}

/// Pauses between I/Os.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Think {
    /// Pause in nanoseconds from the completion of everything issued; 0 means none.
    pub time_ns: Nanos,
    /// Number of I/Os between two pauses; 0 counts as 1.
    pub blocks: u32,
    /// Whether I/Os are counted at issue instead of completion (fio `thinktime_blocks_type=issue`).
    pub counts_issued: bool,
    /// Time without a pause after which one follows in any case, in nanoseconds; 0 means never.
    #[serde(skip_serializing_if = "is_zero")]
    pub io_time_ns: Nanos,
}
