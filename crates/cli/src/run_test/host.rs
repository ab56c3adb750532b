//! The hosts of `test`, opened for a target.

use std::path::PathBuf;
use std::time::Instant;

use hoistway_block::Nanos;
use hoistway_experiment::{Experiment, Host, Measurement, Progress, Refusal, RunError, TargetFacts};
use hoistway_native::{FioHost, NativeHost};
use hoistway_simulator::Simulator;

use super::foreign;
use crate::processes;
use crate::target::{HostName, refusal_for_user, with_user_target_name};

/// The permissions and settings of a host.
#[derive(Clone, Debug, Default)]
pub struct Terms {
    /// Whether a host may write to a device.
    pub may_write: bool,
    /// Whether weights that a mechanism cannot represent are refused.
    pub is_strict: bool,
    /// The fio binary that generates the load instead of our own generator.
    pub generator: Option<PathBuf>,
}

/// A host without target, for checks.
pub fn open(name: HostName, terms: &Terms) -> Box<dyn Host> {
    let native = || {
        let host = NativeHost::new(processes::PROGRAMS);
        let host = if terms.may_write { host.with_writes() } else { host };
        if terms.is_strict { host.strict() } else { host }
    };
    match (name, &terms.generator) {
        (HostName::Engine | HostName::Native, Some(program)) => {
            Box::new(FioHost::new(native(), program.clone(), foreign::generated))
        }
        (HostName::Simulator, _) => Box::new(Simulator::default().with_wall_clock(wall_ns)),
        (HostName::Engine, None) => Box::new(hoistway_engine::EngineHost),
        (HostName::Native, None) => Box::new(native()),
    }
}

/// Wall-clock time since the first call, in nanoseconds.
fn wall_ns() -> Nanos {
    static BEGIN: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    u64::try_from(BEGIN.get_or_init(Instant::now).elapsed().as_nanos()).unwrap_or(Nanos::MAX)
}

/// A host that gets a different name for the target than the user gave, and whose messages contain
/// the user's name.
pub struct OnTarget {
    host: Box<dyn Host>,
    host_text: String,
    text: String,
    directory: Option<PathBuf>,
}

impl OnTarget {
    /// `host_text` is the host's name for `text`; `directory` is the directory of a temporary file.
    pub fn new(host: Box<dyn Host>, host_text: &str, text: &str, directory: Option<PathBuf>) -> Self {
        Self { host, host_text: host_text.to_owned(), text: text.to_owned(), directory }
    }

    fn renamed(&self, experiment: &Experiment) -> Experiment {
        Experiment { target: self.host_text.clone(), ..experiment.clone() }
    }

    fn refusal_for_user(&self, error: RunError) -> RunError {
        match error {
            RunError::Refused(refusal) => RunError::Refused(refusal_for_user(&refusal, &self.host_text, &self.text)),
            RunError::Failed { message, source } => {
                RunError::Failed { message: with_user_target_name(&message, &self.host_text, &self.text), source }
            }
            other => other,
        }
    }
}

impl Host for OnTarget {
    fn name(&self) -> &'static str {
        self.host.name()
    }

    fn check(&self, experiment: &Experiment) -> Result<(), Refusal> {
        let checked = self.host.check(&self.renamed(experiment));
        checked.map_err(|refusal| refusal_for_user(&refusal, &self.host_text, &self.text))
    }

    fn run(&mut self, experiment: &Experiment, progress: &mut dyn Progress) -> Result<Measurement, RunError> {
        let renamed = self.renamed(experiment);
        let mut measurement = self.host.run(&renamed, progress).map_err(|error| self.refusal_for_user(error))?;
        measurement.experiment = experiment.clone();
        measurement.target.path.clone_from(&self.text);
        let TargetFacts { model, notes, .. } = &mut measurement.target;
        for words in std::iter::once(model).chain(notes.values_mut()) {
            *words = with_user_target_name(words, &self.host_text, &self.text);
        }
        if self.name() == "native"
            && let Some(rig) = hoistway_rig::find(&self.host_text)
        {
            measurement.target.model = format!("model:{}", rig.model);
            measurement.target.queue_depth = rig.depth;
        }
        if let Some(directory) = &self.directory {
            measurement.target.notes.insert("directory".to_owned(), directory.display().to_string());
        }
        Ok(measurement)
    }
}
