//! Stored measurements (`--save`, `--from`): the decision can be made again, for another goal or to
//! be applied, without using the device.

use hoistway_linux::input::Ceiling;
use std::path::Path;

use hoistway_experiment::{Exit, SchedulerSpec};
use hoistway_tune::{Device, Findings};
use serde::{Deserialize, Serialize};

use crate::exit::Error;
use crate::run_test::store::write;

/// The stored data.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Saved {
    /// Version of this format: 1.
    pub version: u32,
    /// Version of the program.
    pub hoistway: String,
    /// The device.
    pub device: Device,
    /// Its findings.
    #[serde(default)]
    pub findings: Findings,
    /// The user's own list of candidates.
    #[serde(default)]
    pub only: Vec<SchedulerSpec>,
    /// The user's load, if the figures of the candidates are for it.
    #[serde(default)]
    pub load: Option<String>,
}

impl Saved {
    /// Version of the format.
    pub const VERSION: u32 = 1;

    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = hoistway_linux::input::text(path, Ceiling::RESULTS).map_err(|error| {
            Error::new(Exit::Usage, format!("cannot read {}: {error}", path.display()), "name a file of --save")
                .at("--from")
        })?;
        let wrong =
            |what: String| Error::usage(format!("{}: {what}", path.display()), "name a file of --save").at("--from");
        let saved: Self = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        match saved.version {
            Self::VERSION => Ok(saved),
            other => Err(wrong(format!("its format is {other}, this program reads {}", Self::VERSION))),
        }
    }

    /// Writes a file.
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        // Plain data with string keys: serialising it as JSON cannot fail.
        let text = serde_json::to_string_pretty(self).unwrap_or_default();
        write(path, &format!("{text}\n"))
    }
}
