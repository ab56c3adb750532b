//! The trait that every host implements, and what a host reports during a run.

use std::fmt;

use hoistway_block::Nanos;
use hoistway_workload::trace::Tracer;

use crate::{Diagnostic, Exit, Experiment, Measurement};

/// Runs experiments: simulator, engine or native.
pub trait Host {
    /// The host's name on the command line: `simulator`, `engine`, `native`.
    fn name(&self) -> &'static str;

    /// Whether this host can run the experiment; does not touch the target.
    ///
    /// The caller guarantees nothing. The host reports the first thing that it does not support: an
    /// unknown scheduler, version, tunable or value, an unusable target, an unsupported job option.
    /// A run of a checked experiment may still fail, but not for these reasons.
    fn check(&self, experiment: &Experiment) -> Result<(), Refusal>;

    /// Runs the experiment.
    ///
    /// The caller guarantees that [`Host::check`] accepted it. The host calls `progress` from this
    /// thread only and asks [`Progress::cancelled`] at least twice a second of wall time. When this
    /// returns, for whatever reason, the host has ended its threads, removed its cgroups and
    /// temporary files, and restored the settings that it changed.
    fn run(&mut self, experiment: &Experiment, progress: &mut dyn Progress) -> Result<Measurement, RunError>;
}

/// Why an experiment cannot be run here; nothing was touched.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// What is wrong, with the value and what is allowed.
    pub message: String,
    /// How to fix it.
    pub help: String,
    /// [`Exit::Usage`] for an experiment that is impossible, [`Exit::Refused`] for one that is
    /// dangerous.
    pub exit: Exit,
}

impl Refusal {
    /// An experiment that is impossible (exit 2).
    pub fn usage(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { message: message.into(), help: help.into(), exit: Exit::Usage }
    }

    /// An experiment that is dangerous (exit 3).
    pub fn unsafe_target(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { message: message.into(), help: help.into(), exit: Exit::Refused }
    }
}

impl From<Diagnostic> for Refusal {
    fn from(diagnostic: Diagnostic) -> Self {
        Self::usage(diagnostic.message, diagnostic.help)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n  help: {}", self.message, self.help)
    }
}

impl std::error::Error for Refusal {}

/// Why a run yielded no measurement.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The experiment turned out to be impossible during the run.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// [`Progress::cancelled`] returned true; the previous state is restored.
    #[error("cancelled")]
    Cancelled,
    /// The target, the system or a worker failed.
    #[error("{message}")]
    Failed {
        /// What failed, with device or file and the system's reason.
        message: String,
        /// The system's error, if there is one.
        #[source]
        source: Option<std::io::Error>,
    },
    /// The run is over, but a setting could not be restored.
    #[error("{0}")]
    NotRestored(String),
}

impl RunError {
    /// The corresponding exit code; a cancelled run counts as interrupted.
    pub fn exit(&self) -> Exit {
        match self {
            RunError::Refused(refusal) => refusal.exit,
            RunError::Cancelled => Exit::Interrupted,
            RunError::Failed { .. } => Exit::Failed,
            RunError::NotRestored(_) => Exit::NotRestored,
        }
    }
}

/// Receives the progress of a run, and may cancel it.
pub trait Progress {
    /// A run starts.
    fn started(&mut self, experiment: &Experiment);

    /// The run has made progress. Called about twice a second of wall time.
    fn advanced(&mut self, figures: &LiveFigures<'_>);

    /// Whether the run is to end at once, without a measurement.
    fn cancelled(&self) -> bool {
        false
    }

    /// Number of requests that [`Measurement::dispatches`](crate::Measurement) should contain, from
    /// the start of the window; 0 for none. Hosts that cannot observe the scheduler leave it empty.
    fn wanted_dispatches(&self) -> usize {
        0
    }

    /// The tracer of the run, if there is one. Hosts ask throughout the run; the answer must not
    /// change.
    fn tracer(&mut self) -> Option<&mut dyn Tracer> {
        None
    }
}

/// Progress of a run.
#[derive(Copy, Clone, Debug)]
pub struct LiveFigures<'a> {
    /// Time since the run's start on its own clock (virtual on the simulator), ramp included, in
    /// nanoseconds.
    pub elapsed_ns: Nanos,
    /// Value of `elapsed_ns` at the end of the run.
    pub total_ns: Nanos,
    /// Wall-clock time since the run's start, in nanoseconds.
    pub wall_ns: Nanos,
    /// The groups in the experiment's order.
    pub groups: &'a [LiveGroup],
}

/// Figures of a group since the window started.
#[derive(Copy, Clone, PartialEq, Debug, Default)]
pub struct LiveGroup {
    /// Bytes completed.
    pub bytes: u64,
    /// Requests completed.
    pub ios: u64,
    /// 99th percentile of latency so far, in nanoseconds; 0 before the first completion.
    pub latency_ns_p99: Nanos,
}

/// Progress without display and cancellation.
#[derive(Copy, Clone, Debug, Default)]
pub struct Unattended;

impl Progress for Unattended {
    fn started(&mut self, _experiment: &Experiment) {}
    fn advanced(&mut self, _figures: &LiveFigures<'_>) {}
}
