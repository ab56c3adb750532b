//! Programs with their own logic behind the same [`crate::Issuer`] as jobs that follow a pattern.
//!
//! ```text
//! dbench    a client of a file server: creates, appends, syncs, reads back, renames and removes small files
//! startup   the replayed start of an application: several processes that take turns
//! video     a player that needs a frame every period
//! copy      dd piped into dd: block by block from one file to another
//! ```
//! A program consists of settings ([`Program`], plain data) and a script, which is a state machine
//! in a file of its own. `Run` contains what scripts share: tokens, start delay, runtime, loops,
//! failures. Nothing allocates after construction. Sources: docs/specifications/devices.md, section
//! 9.2; docs/specifications/bfq.md, section 21.

mod copy;
mod dbench;
mod run;
mod settings;
mod start_up;
mod video;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use copy::Copy;
pub use dbench::Dbench;
pub(crate) use run::Run;
pub use settings::Key;
use settings::Settings;
pub use start_up::{App, StartUp};
pub use video::Video;

use crate::job::Job;

/// A program with its settings. As text: `video` or `video:frame=65536,period=40000us`.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Program {
    /// A client of a file server.
    Dbench(Dbench),
    /// A replayed start-up.
    StartUp(StartUp),
    /// A video player.
    Video(Video),
    /// A copied file.
    Copy(Copy),
}

/// The programs with their default settings, in the order of listings.
pub const ALL: [Program; 4] = [
    Program::Dbench(Dbench::USUAL),
    Program::StartUp(StartUp::USUAL),
    Program::Video(Video::USUAL),
    Program::Copy(Copy::USUAL),
];

impl Program {
    fn settings(&self) -> &dyn Settings {
        match self {
            Program::Dbench(settings) => settings,
            Program::StartUp(settings) => settings,
            Program::Video(settings) => settings,
            Program::Copy(settings) => settings,
        }
    }

    fn settings_mut(&mut self) -> &mut dyn Settings {
        match self {
            Program::Dbench(settings) => settings,
            Program::StartUp(settings) => settings,
            Program::Video(settings) => settings,
            Program::Copy(settings) => settings,
        }
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.settings().name()
    }

    /// What it does, in one line.
    pub fn doc(&self) -> &'static str {
        self.settings().doc()
    }

    /// Its settings.
    pub fn keys(&self) -> &'static [Key] {
        self.settings().keys()
    }

    /// The value of one of its settings as text; empty for an unknown key.
    pub fn value(&self, key: &str) -> String {
        self.settings().value(key)
    }

    /// Changes one of its settings.
    ///
    /// # Errors
    /// One sentence: what is wrong with the value, or the list of keys.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        self.settings_mut().set(key, value)
    }

    /// Long-term maximum of its bytes per second; `None` if it is unlimited.
    pub fn bytes_per_s(&self) -> Option<f64> {
        match self {
            Program::Video(Video { frame_bytes, period_ns, .. }) => {
                Some(f64::from(*frame_bytes) * hoistway_block::time::SECOND as f64 / (*period_ns).max(1) as f64)
            }
            Program::Dbench(_) | Program::StartUp(_) | Program::Copy(_) => None,
        }
    }

    /// Area that each thread uses if the job gives no size; `None` means all of it.
    pub fn area_bytes(&self) -> Option<u64> {
        match self {
            Program::Dbench(settings) => Some(settings.area_bytes()),
            Program::StartUp(settings) => Some(settings.area_bytes()),
            Program::Video(_) | Program::Copy(_) => None,
        }
    }

    /// Whether it needs file system operations besides data transfer: create, rename, remove.
    pub fn needs_file_system(&self) -> bool {
        matches!(self, Program::Dbench(_))
    }

    /// Parses a program `name[:key=value[,key=value]...]`.
    ///
    /// # Errors
    /// One sentence with the permitted values and the nearest to the given one.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (name, settings) = text.split_once(':').map_or((text, None), |(name, rest)| (name, Some(rest)));
        let known = ALL.iter().find(|program| program.name() == name.trim());
        let mut program = *known.ok_or_else(|| settings::not_one_of(name, ALL.iter().map(Program::name)))?;
        for setting in settings.into_iter().flat_map(|settings| settings.split(',')) {
            let (key, value) = setting.split_once('=').ok_or_else(|| format!("'{setting}' is not a key=value"))?;
            program.set(key.trim(), value.trim())?;
        }
        Ok(program)
    }

    /// Sets the fields of the job that describe the program's I/O.
    pub(crate) fn describe(&self, job: &mut Job) {
        self.settings().describe(job);
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        let usual = ALL.iter().find(|usual| usual.name() == self.name());
        let mut separator = ':';
        for key in self.keys() {
            let value = self.value(key.name);
            if usual.is_none_or(|usual| usual.value(key.name) != value) {
                write!(f, "{separator}{}={value}", key.name)?;
                separator = ',';
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_shown_as_the_text_that_it_is_read_from() {
        for usual in ALL {
            assert_eq!(Program::parse(&usual.to_string()), Ok(usual), "{usual}");
            for key in usual.keys() {
                let all = usual.keys().iter().map(|key| format!("{}={}", key.name, usual.value(key.name)));
                let text = format!("{}:{}", usual.name(), all.collect::<Vec<_>>().join(","));
                assert_eq!(Program::parse(&text), Ok(usual), "{text}");
                assert!(!key.doc.is_empty() && !key.allowed.is_empty(), "{}", key.name);
            }
        }
        let text = "video:frame=4096,period=1000us";
        assert_eq!(Program::parse(text).expect("right settings").to_string(), text);
    }

    #[test]
    fn wrong_names_keys_and_values_are_answered_with_what_is_allowed() {
        for (text, needed) in [
            ("vidoe", "did you mean 'video'?"),
            ("video:fram=4k", "did you mean 'frame'?"),
            ("video:frame=0", "512 to 16777216"),
            ("startup:app=xtrem", "did you mean 'xterm'?"),
            ("dbench:files", "is not a key=value"),
        ] {
            let message = Program::parse(text).expect_err(text);
            assert!(message.contains(needed), "{text}: {message}");
        }
    }
}
