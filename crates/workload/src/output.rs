//! What is logged about a job's I/Os: fio's log files and its iolog.
//!
//! Plain data; `experiment` keeps the entries, the command writes the files. Source:
//! docs/specifications/harness.md, sections 7.6 and 9.4.

use hoistway_block::Nanos;
use serde::{Deserialize, Serialize};

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The files of a job. The default writes none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Output {
    /// Prefix of the names of bandwidth logs, `PREFIX_bw.N.log`; `None` means no log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bandwidth_log: Option<String>,
    /// The same for latency: `PREFIX_lat.N.log`, `_clat`, `_slat`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_log: Option<String>,
    /// The same for I/Os per second: `PREFIX_iops.N.log`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ios_log: Option<String>,
    /// The same for histograms: `PREFIX_clat_hist.N.log`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub histogram_log: Option<String>,
    /// Interval of entries in nanoseconds; 0 means one entry per I/O.
    #[serde(skip_serializing_if = "is_default")]
    pub average_over_ns: Nanos,
    /// Whether entries contain the maximum of the interval instead of the mean.
    #[serde(skip_serializing_if = "is_default")]
    pub largest: bool,
    /// Interval of histograms in nanoseconds.
    #[serde(skip_serializing_if = "is_default")]
    pub histogram_every_ns: Nanos,
    /// How often the number of buckets is halved, 0 to 6.
    #[serde(skip_serializing_if = "is_default")]
    pub histogram_coarseness: u8,
    /// Whether there is a column of offsets.
    #[serde(skip_serializing_if = "is_default")]
    pub with_offsets: bool,
    /// Whether the column of priorities contains the priority itself instead of whether it is high.
    #[serde(skip_serializing_if = "is_default")]
    pub with_priorities: bool,
    /// Whether all threads share one file, whose name has no number.
    #[serde(skip_serializing_if = "is_default")]
    pub in_one_file: bool,
    /// Name of an iolog of all the job's I/Os.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iolog: Option<String>,
}

impl Output {
    /// Whether entries must be kept.
    pub fn is_wanted(&self) -> bool {
        let logs = [&self.bandwidth_log, &self.latency_log, &self.ios_log, &self.histogram_log, &self.iolog];
        logs.iter().any(|log| log.is_some())
    }
}
