//! What is written down of a job's I/Os: fio's log files and its iolog (harness 7.6 and 9). Plain data; `experiment` keeps the
//! entries, the command writes the files.

use block::Nanos;
use serde::{Deserialize, Serialize};

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The files of a job. The default writes none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Output {
    /// First part of the names of bandwidth logs, `PREFIX_bw.N.log`; None = none is written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bandwidth_log: Option<String>,
    /// The same of latency: `PREFIX_lat.N.log`, `_clat`, `_slat`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_log: Option<String>,
    /// The same of I/Os per second: `PREFIX_iops.N.log`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ios_log: Option<String>,
    /// The same of histograms: `PREFIX_clat_hist.N.log`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub histogram_log: Option<String>,
    /// One entry per so much time instead of one per I/O; 0 = per I/O. In nanoseconds.
    #[serde(skip_serializing_if = "is_default")]
    pub average_over_ns: Nanos,
    /// The largest value of that time instead of the mean.
    #[serde(skip_serializing_if = "is_default")]
    pub largest: bool,
    /// One histogram per so much time, in nanoseconds.
    #[serde(skip_serializing_if = "is_default")]
    pub histogram_every_ns: Nanos,
    /// How often the number of buckets is halved, 0 to 6.
    #[serde(skip_serializing_if = "is_default")]
    pub histogram_coarseness: u8,
    /// A column with offsets.
    #[serde(skip_serializing_if = "is_default")]
    pub with_offsets: bool,
    /// The column of priorities has the priority itself instead of whether it is a high one.
    #[serde(skip_serializing_if = "is_default")]
    pub with_priorities: bool,
    /// All threads in one file, without a number in its name.
    #[serde(skip_serializing_if = "is_default")]
    pub in_one_file: bool,
    /// An iolog of everything the job does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iolog: Option<String>,
}

impl Output {
    /// Whether entries have to be kept.
    pub fn is_wanted(&self) -> bool {
        let logs = [&self.bandwidth_log, &self.latency_log, &self.ios_log, &self.histogram_log, &self.iolog];
        logs.iter().any(|log| log.is_some())
    }
}
