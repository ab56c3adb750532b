//! What host and workers say to each other: one line of JSON per message, over the worker's standard input and output.

use std::io::{self, Write};
use std::path::PathBuf;

use block::Nanos;
use experiment::measurement::GroupMeasurement;
use experiment::{Experiment, LiveGroup};
use serde::{Deserialize, Serialize};

/// The first message: what a worker is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Order {
    /// The whole question; the worker takes its own part.
    pub experiment: Experiment,
    /// Which thread it is, in the order of [`Experiment::issuers`].
    pub issuer: usize,
    /// What it opens.
    pub path: String,
    /// Where its area begins there, in bytes.
    pub first_byte: u64,
    /// Length of the area in bytes.
    pub area_bytes: u64,
    /// The cgroup to enter; none = stay.
    pub cgroup: Option<PathBuf>,
    /// Where the steps of its job lie if that is a replay: the experiment only has their checksum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recording: Option<PathBuf>,
}

/// Host to worker, after the order. The end of the pipe means: end at once.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromHost {
    /// Issue from `at_ns` on; the run began at `run_begin_ns` (the clock that all processes share).
    Begin {
        /// When.
        at_ns: Nanos,
        /// The begin of the window follows from it.
        run_begin_ns: Nanos,
    },
    /// Issue nothing more.
    Stop,
    /// Everybody has ended: send the figures, of a window that ended here if not before.
    Report {
        /// End of the window at the latest.
        end_ns: Nanos,
    },
}

/// Worker to host.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromWorker {
    /// Everything is open.
    Ready,
    /// So far.
    Live(Figures),
    /// Nothing in flight and nothing more to come.
    Ended,
    /// The figures of its own thread, as those of its group.
    Figures(Box<GroupMeasurement>),
    /// It cannot go on.
    Failed(String),
}

/// [`LiveGroup`] on its way.
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
    /// Adds a worker's figures to its group's; of latencies the worst counts.
    pub fn add_to(self, group: &mut LiveGroup) {
        group.bytes += self.bytes;
        group.ios += self.ios;
        group.latency_ns_p99 = group.latency_ns_p99.max(self.latency_ns_p99);
    }
}

/// Sends a message as one line, at once.
///
/// # Errors
/// That nobody listens.
pub fn send(to: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    to.write_all(&line)?;
    to.flush()
}
