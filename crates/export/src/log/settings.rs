//! The settings of the log: its form, and which events it has.

use std::env;
use std::io;
use std::os::fd::AsFd;
use std::str::FromStr;

use tracing::Metadata;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;

use super::format::Style;
use crate::configuration::problem::nearest;

/// The targets of events: what they are about.
pub const TARGETS: [&str; 7] = ["server", "listener", "client", "backing", "device", "share", "control"];
/// The levels, from the fewest events to the most.
const LEVELS: [(&str, LevelFilter); 5] = [
    ("off", LevelFilter::OFF),
    ("error", LevelFilter::ERROR),
    ("warn", LevelFilter::WARN),
    ("info", LevelFilter::INFO),
    ("debug", LevelFilter::DEBUG),
];
const DEFAULT_LEVEL: LevelFilter = LevelFilter::INFO;

/// The form of lines.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// That of the journal if it reads standard error, else that for people.
    #[default]
    Auto,
    /// `hoistway: note: ...`.
    Human,
    /// One JSON object per line.
    Json,
    /// `<6>...`, with the priority that journald reads.
    Journald,
}

impl Format {
    /// All of them, by name.
    pub const ALL: [(&'static str, Format); 4] =
        [("auto", Format::Auto), ("human", Format::Human), ("json", Format::Json), ("journald", Format::Journald)];

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, format)| *format == self).map_or("auto", |(name, _)| name)
    }

    fn style(self) -> Style {
        match self {
            Format::Human => Style::Human,
            Format::Json => Style::Json,
            Format::Journald => Style::Journald,
            Format::Auto if is_journal(env::var("JOURNAL_STREAM").ok().as_deref(), io::stderr()) => Style::Journald,
            Format::Auto => Style::Human,
        }
    }
}

/// Whether standard error is the journal's stream, as systemd describes it: `DEVICE:INODE`.
fn is_journal(stream: Option<&str>, stderr: impl AsFd) -> bool {
    let Ok(own) = rustix::fs::fstat(stderr) else { return false };
    stream.is_some_and(|stream| stream == format!("{}:{}", own.st_dev, own.st_ino))
}

/// Which events the log has: a level, or levels by target: `warn,client=info`.
#[derive(Clone, Debug, PartialEq)]
pub struct Filter {
    text: String,
    targets: Targets,
}

impl Default for Filter {
    fn default() -> Self {
        Self { text: "info".to_owned(), targets: Targets::new().with_default(DEFAULT_LEVEL) }
    }
}

impl Filter {
    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    fn is_enabled(&self, metadata: &Metadata<'_>) -> bool {
        self.targets.would_enable(metadata.target(), metadata.level())
    }
}

impl FromStr for Filter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut targets = Targets::new().with_default(DEFAULT_LEVEL);
        for word in text.split(',').map(str::trim) {
            let (target, level) = word.split_once('=').map_or((None, word), |(target, level)| (Some(target), level));
            let Some((_, level)) = LEVELS.iter().find(|(name, _)| *name == level) else {
                let levels = LEVELS.map(|(name, _)| name);
                let meant = nearest(level, &levels).map_or(String::new(), |word| format!("; did you mean {word}?"));
                return Err(format!("{level:?} is no level of the log ({}){meant}", levels.join(", ")));
            };
            targets = match target {
                None => targets.with_default(*level),
                Some(target) if TARGETS.contains(&target) => targets.with_target(target, *level),
                Some(target) => {
                    let meant =
                        nearest(target, &TARGETS).map_or(String::new(), |word| format!("; did you mean {word}?"));
                    return Err(format!("{target:?} is no target of the log ({}){meant}", TARGETS.join(", ")));
                }
            };
        }
        Ok(Self { text: text.to_owned(), targets })
    }
}

/// The settings of a configuration.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LogSettings {
    /// The form of lines.
    pub format: Format,
    /// Which events it has.
    pub filter: Filter,
}

/// The settings of the command line, which go before those of a configuration.
#[derive(Clone, Debug, Default)]
pub struct LogOverrides {
    /// The form of lines.
    pub format: Option<Format>,
    /// Which events it has.
    pub filter: Option<Filter>,
}

/// The settings in force.
#[derive(Debug)]
pub(super) struct InForce {
    pub style: Style,
    filter: Filter,
}

impl InForce {
    /// `given` goes before `configured`.
    pub fn new(given: &LogOverrides, configured: &LogSettings) -> Self {
        let filter = given.filter.as_ref().unwrap_or(&configured.filter).clone();
        Self { style: given.format.unwrap_or(configured.format).style(), filter }
    }

    pub fn is_enabled(&self, metadata: &Metadata<'_>) -> bool {
        self.filter.is_enabled(metadata)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing::Level;

    fn enabled(filter: &str, target: &str, level: Level) -> bool {
        filter.parse::<Filter>().unwrap().targets.would_enable(target, &level)
    }

    #[test]
    fn a_filter_has_a_level_and_levels_by_target() {
        assert!(enabled("info", "client", Level::INFO) && !enabled("info", "client", Level::DEBUG));
        assert!(
            enabled("warn,client=debug", "client", Level::DEBUG) && !enabled("warn,client=debug", "share", Level::INFO)
        );
        assert!(enabled("client=off", "share", Level::INFO) && !enabled("client=off", "client", Level::ERROR));
    }

    #[test]
    fn a_wrong_filter_gets_the_nearest_word() {
        let wrong = |text: &str| text.parse::<Filter>().unwrap_err();
        assert_eq!(
            wrong("inof"),
            r#""inof" is no level of the log (off, error, warn, info, debug); did you mean info?"#
        );
        assert!(wrong("warn,cleint=info").contains("did you mean client?"));
        assert!(wrong("").contains(r#""" is no level"#));
    }

    #[test]
    fn the_journal_is_known_by_its_stream() {
        let file = tempfile::tempfile().unwrap();
        let own = rustix::fs::fstat(&file).unwrap();
        assert!(is_journal(Some(&format!("{}:{}", own.st_dev, own.st_ino)), &file));
        assert!(!is_journal(Some("1:2"), &file) && !is_journal(None, &file));
    }

    #[test]
    fn the_command_line_goes_before_the_file() {
        let given = LogOverrides { format: Some(Format::Json), filter: None };
        let configured = LogSettings { format: Format::Human, filter: "error".parse().unwrap() };
        let in_force = InForce::new(&given, &configured);
        assert_eq!((in_force.style, in_force.filter.text()), (Style::Json, "error"));
    }
}
