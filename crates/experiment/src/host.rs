//! Who answers: the trait every host implements, and what it reports while it runs.

use std::fmt;

use block::Nanos;
use workload::trace::Tracer;

use crate::{Diagnostic, Exit, Experiment, Measurement};

/// Carries out experiments: simulator, engine or native.
pub trait Host {
    /// The host's name as on the command line: `simulator`, `engine`, `native`.
    fn name(&self) -> &'static str;

    /// Whether this host can carry the experiment out, without touching the target.
    ///
    /// The caller guarantees nothing. The host names the first thing it cannot do: an unknown scheduler, version, tunable
    /// or value, an unusable target, a job option it lacks. A run of a checked experiment may still fail, but not for
    /// these reasons.
    fn check(&self, experiment: &Experiment) -> Result<(), Refusal>;

    /// Carries the experiment out and answers.
    ///
    /// The caller guarantees that [`Host::check`] accepted it. The host calls `progress` from this thread only, asks
    /// [`Progress::cancelled`] at least twice a second of wall time, and leaves nothing behind: threads, cgroups,
    /// settings and temporary files are gone when it returns, however it ends.
    fn run(&mut self, experiment: &Experiment, progress: &mut dyn Progress) -> Result<Measurement, RunError>;
}

/// Why an experiment cannot be carried out here; nothing was touched.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// What is wrong, with the value and what is allowed.
    pub message: String,
    /// What to do about it.
    pub help: String,
    /// [`Exit::Usage`] for what cannot be asked, [`Exit::Refused`] for what is too dangerous.
    pub exit: Exit,
}

impl Refusal {
    /// An impossible request (exit 2).
    pub fn usage(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { message: message.into(), help: help.into(), exit: Exit::Usage }
    }

    /// A dangerous request (exit 3).
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

/// Why a run gave no measurement.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// It turned out that the experiment cannot be carried out after all.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// [`Progress::cancelled`] said so; everything was put back.
    #[error("cancelled")]
    Cancelled,
    /// The target, the system or a worker failed.
    #[error("{message}")]
    Failed {
        /// What failed, with device or file and the system's reason.
        message: String,
        /// The system's error, where there is one.
        #[source]
        source: Option<std::io::Error>,
    },
    /// The run is over but a setting could not be put back.
    #[error("{0}")]
    NotRestored(String),
}

impl RunError {
    /// The exit code that belongs to it; a cancelled run counts as interrupted.
    pub fn exit(&self) -> Exit {
        match self {
            RunError::Refused(refusal) => refusal.exit,
            RunError::Cancelled => Exit::Interrupted,
            RunError::Failed { .. } => Exit::Failed,
            RunError::NotRestored(_) => Exit::NotRestored,
        }
    }
}

/// Hears how a run goes on, and may end it.
pub trait Progress {
    /// A run begins.
    fn started(&mut self, experiment: &Experiment);

    /// It has come so far. Called about twice a second of wall time.
    fn advanced(&mut self, figures: &LiveFigures<'_>);

    /// Whether the run is to end at once, without a measurement.
    fn cancelled(&self) -> bool {
        false
    }

    /// How many requests [`Measurement::dispatches`](crate::Measurement) is to hold, from the window's begin; 0 for none.
    /// Hosts that cannot see what a scheduler does leave it empty.
    fn wanted_dispatches(&self) -> usize {
        0
    }

    /// Who takes the run's trace, if anybody does. Asked for all through the run; the answer is always the same one.
    fn tracer(&mut self) -> Option<&mut dyn Tracer> {
        None
    }
}

/// How far a run has come.
#[derive(Copy, Clone, Debug)]
pub struct LiveFigures<'a> {
    /// Since the run's start in its own time (virtual on the simulator), ramp included, in nanoseconds.
    pub elapsed_ns: Nanos,
    /// Where that will end, in nanoseconds.
    pub total_ns: Nanos,
    /// Since the run's start by the clock on the wall, in nanoseconds.
    pub wall_ns: Nanos,
    /// The groups in the experiment's order.
    pub groups: &'a [LiveGroup],
}

/// A group's figures since the window began.
#[derive(Copy, Clone, PartialEq, Debug, Default)]
pub struct LiveGroup {
    /// Bytes completed.
    pub bytes: u64,
    /// Requests completed.
    pub ios: u64,
    /// 99th percentile of latency so far, in nanoseconds; 0 before the first completion.
    pub latency_ns_p99: Nanos,
}

/// Nobody looks and nobody interrupts.
#[derive(Copy, Clone, Debug, Default)]
pub struct Unattended;

impl Progress for Unattended {
    fn started(&mut self, _experiment: &Experiment) {}
    fn advanced(&mut self, _figures: &LiveFigures<'_>) {}
}
