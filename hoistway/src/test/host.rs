//! The hosts that `test` can use, opened for a target.

use std::path::PathBuf;
use std::time::Instant;

use block::Nanos;
use experiment::{Experiment, Host, Measurement, Progress, Refusal, RunError};
use native::NativeHost;
use simulator::Simulator;

use crate::processes;
use crate::target::{HostName, in_users_words};

/// A host without target: for checks. `may_write` is for hosts that ask before they write to a device.
pub fn open(name: HostName, may_write: bool) -> Box<dyn Host> {
    match name {
        HostName::Simulator => Box::new(Simulator::default().with_wall_clock(wall_ns)),
        HostName::Engine => Box::new(engine::EngineHost),
        HostName::Native => {
            let host = NativeHost::new(processes::PROGRAMS);
            Box::new(if may_write { host.with_writes() } else { host })
        }
    }
}

/// The time on the wall since the first call, in nanoseconds.
fn wall_ns() -> Nanos {
    static BEGIN: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    u64::try_from(BEGIN.get_or_init(Instant::now).elapsed().as_nanos()).unwrap_or(Nanos::MAX)
}

/// A host that is told another name of the target than the user's, and answers in the user's words.
pub struct OnTarget {
    host: Box<dyn Host>,
    host_text: String,
    text: String,
    directory: Option<PathBuf>,
}

impl OnTarget {
    /// `host_text` is what the host is told for `text`; `directory` is where a temporary file lies.
    pub fn new(host: Box<dyn Host>, host_text: &str, text: &str, directory: Option<PathBuf>) -> Self {
        Self { host, host_text: host_text.to_owned(), text: text.to_owned(), directory }
    }

    fn told(&self, experiment: &Experiment) -> Experiment {
        Experiment { target: self.host_text.clone(), ..experiment.clone() }
    }

    fn in_users_words(&self, error: RunError) -> RunError {
        match error {
            RunError::Refused(refusal) => RunError::Refused(in_users_words(&refusal, &self.host_text, &self.text)),
            RunError::Failed { message, source } => {
                RunError::Failed { message: message.replace(&self.host_text, &self.text), source }
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
        let checked = self.host.check(&self.told(experiment));
        checked.map_err(|refusal| in_users_words(&refusal, &self.host_text, &self.text))
    }

    fn run(&mut self, experiment: &Experiment, progress: &mut dyn Progress) -> Result<Measurement, RunError> {
        let told = self.told(experiment);
        let mut measurement = self.host.run(&told, progress).map_err(|error| self.in_users_words(error))?;
        measurement.experiment = experiment.clone();
        measurement.target.path.clone_from(&self.text);
        if self.name() == "native"
            && let Some(rig) = rig::find(&self.host_text)
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
