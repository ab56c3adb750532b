//! Messages between host and workers: one line of JSON each, over the worker's standard input and
//! output.

use std::io::{self, Write};
use std::path::PathBuf;

use hoistway_block::Nanos;
use hoistway_experiment::measurement::GroupMeasurement;
use hoistway_experiment::{Experiment, LiveGroup};
use serde::{Deserialize, Serialize};

/// The first message: the worker's job.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Order {
    /// The whole experiment; the worker uses its own part.
    pub experiment: Experiment,
    /// The worker's thread, in the order of [`Experiment::issuers`].
    pub issuer: usize,
    /// The path to open.
    pub path: String,
    /// The first byte of its area, from the start of the file or device.
    pub first_byte: u64,
    /// Length of the area in bytes.
    pub area_bytes: u64,
    /// The cgroup to enter; none = no change.
    pub cgroup: Option<PathBuf>,
    /// For a replay, the path of its job's steps: the experiment only has their checksum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recording: Option<PathBuf>,
}

/// Messages from the host to a worker, after the order. The end of the pipe method: end at once.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromHost {
    /// Issue from `at_ns` on; the run began at `run_begin_ns` (the clock that all processes share).
    Begin {
        /// The time to begin, in nanoseconds.
        at_ns: Nanos,
        /// The run's start, from which the window's start follows.
        run_begin_ns: Nanos,
    },
    /// Issue nothing more.
    Stop,
    /// All workers have ended: send the figures, for a window that ends here if not before.
    Report {
        /// Latest end of the window, in nanoseconds.
        end_ns: Nanos,
    },
}

/// Messages from a worker to the host.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromWorker {
    /// Everything is open.
    Ready,
    /// Progress.
    Live(Figures),
    /// Nothing is in flight and nothing more will be issued.
    Ended,
    /// The figures of its own thread, in the form of its group's.
    Figures(Box<GroupMeasurement>),
    /// It cannot continue, with the reason.
    Failed(String),
}

/// [`LiveGroup`] in serialised form.
#[derive(Copy, Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Figures {
    bytes: u64,
    ios: u64,
    latency_ns_p99: Nanos,
}

impl From<LiveGroup> for Figures {
    fn from(live: LiveGroup) -> Self {
        Self { bytes: live.bytes, ios: live.ios, latency_ns_p99: live.latency_ns_p99 }
    }
}

impl Figures {
    /// Adds a worker's figures to its group's; for latencies the largest counts.
    pub fn add_to(self, group: &mut LiveGroup) {
        group.bytes += self.bytes;
        group.ios += self.ios;
        group.latency_ns_p99 = group.latency_ns_p99.max(self.latency_ns_p99);
    }
}

/// Sends a message as one line and flushes it.
///
/// # Errors
/// The other end of the pipe is closed.
pub fn send(to: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    to.write_all(&line)?;
    to.flush()
}
