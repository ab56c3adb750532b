//! Errors outside the data path: each has a message, a remedy and a kind.

use std::fmt;
use std::io;

use hoistway_elevator::limiters::{LIMITERS, LimiterError};
use hoistway_elevator::registry::{self, BuildError};
use hoistway_elevator::tunable::{SettingError, Tunable};
use hoistway_experiment::diagnostic::nearest;
use hoistway_linux::device::Refusal;

/// The cause of an error, which decides the exit status of a command.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum ErrorKind {
    /// The request is invalid: a name, a value, a combination.
    Usage,
    /// The request would be dangerous: the target is in use, not a disk, or out of its directory.
    Unsafe,
    /// The system or the machine failed.
    System,
}

/// An error with its remedy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EngineError {
    /// What is wrong, with its place and value and what is allowed.
    pub message: String,
    /// How to correct it.
    pub help: String,
    /// Its cause.
    pub kind: ErrorKind,
}

impl EngineError {
    /// An error in what the user asked for.
    pub fn usage(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { message: message.into(), help: help.into(), kind: ErrorKind::Usage }
    }

    /// A failure of the system.
    pub fn system(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { message: message.into(), help: help.into(), kind: ErrorKind::System }
    }

    /// The shard's thread has ended and answers no more.
    pub(crate) fn stopped() -> Self {
        Self::system("the engine has stopped", "see the message with which it ended")
    }
}

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n  help: {}", self.message, self.help)
    }
}

impl std::error::Error for EngineError {}

impl From<Refusal> for EngineError {
    fn from(refusal: Refusal) -> Self {
        let message = refusal.to_string();
        let (help, kind) = match refusal {
            // Opening the path for writing would create a file in memory; /dev/shm is meant for
            // such files.
            Refusal::Missing { path } if path.starts_with("/dev") && !path.starts_with("/dev/shm") => {
                ("plug the device in, or correct the path", ErrorKind::Unsafe)
            }
            Refusal::Missing { .. } => ("give the path of an existing file or block device", ErrorKind::Usage),
            Refusal::Empty { .. } => ("make it larger first, for example with truncate -s 1G", ErrorKind::Usage),
            Refusal::WrongKind { .. } => ("give a regular file or a block device", ErrorKind::Unsafe),
            Refusal::FileInDev { .. } => ("check the device's name; remove the stray file", ErrorKind::Unsafe),
            Refusal::InUse { .. } => ("unmount it or stop its user first", ErrorKind::Unsafe),
            Refusal::Locked { .. } => ("stop the other server, or export this file read-only", ErrorKind::Unsafe),
            Refusal::Overlap { .. } => ("choose slices that do not overlap, or make one read-only", ErrorKind::Usage),
            Refusal::ReadOnly { .. } => ("export it read-only, or make it writable", ErrorKind::Usage),
            Refusal::Escapes { .. } => ("keep backings below the configured root, without links", ErrorKind::Unsafe),
            Refusal::System { source, .. } => match source.kind() {
                io::ErrorKind::PermissionDenied => ("check owner and mode, or run with more rights", ErrorKind::Usage),
                _ => ("see the system's message", ErrorKind::System),
            },
        };
        Self { message, help: help.to_owned(), kind }
    }
}

/// Describes in a sentence why a scheduler could not be built.
pub(crate) fn describe_build(name: &str, error: BuildError) -> String {
    match error {
        BuildError::UnknownName => {
            let names = registry::entries().map(|entry| entry.name);
            let meant =
                nearest(name, names.clone()).map(|near| format!("; did you mean '{near}'?")).unwrap_or_default();
            let all = names.collect::<Vec<_>>().join(", ");
            format!("there is no scheduler '{name}'{meant} (available: {all})")
        }
        BuildError::TooOld { first } => {
            format!("scheduler '{name}' appeared in Linux {}.{}.{}, not before", first.0, first.1, first.2)
        }
        BuildError::NoMemory => format!("not enough memory for the tables of scheduler '{name}'"),
    }
}

/// Describes in a sentence why a limiter could not be installed.
pub(crate) fn describe_limiter(name: &str, error: LimiterError) -> String {
    match error {
        LimiterError::UnknownName => {
            let names = LIMITERS.iter().map(|entry| entry.name);
            let meant =
                nearest(name, names.clone()).map(|near| format!("; did you mean '{near}'?")).unwrap_or_default();
            let all = names.collect::<Vec<_>>().join(", ");
            format!("there is no limiter '{name}'{meant} (available: {all})")
        }
        LimiterError::InPlace => format!("limiter '{name}' is in place already"),
        LimiterError::NoMemory => format!("not enough memory for the tables of limiter '{name}'"),
    }
}

/// Describes in a sentence why a tunable could not be set.
pub(crate) fn describe_setting(
    scheduler: &str,
    key: &str,
    value: &str,
    rows: &[Tunable],
    error: SettingError,
) -> String {
    let names = rows.iter().map(|row| row.name);
    match (error, rows.iter().find(|row| row.name == key)) {
        (SettingError::Unknown, _) | (_, None) => {
            let meant = nearest(key, names.clone()).map(|near| format!("; did you mean '{near}'?")).unwrap_or_default();
            let all = names.collect::<Vec<_>>().join(", ");
            format!("{scheduler} has no tunable '{key}'{meant} (available: {all})")
        }
        (error, Some(row)) => {
            format!("{scheduler}: {key}={value} is {error}; allowed: {}", row.allowed())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_scheduler_is_answered_with_the_available_names() {
        let text = describe_build("nop", BuildError::UnknownName);
        assert!(text.contains("did you mean 'noop'?") && text.contains("available:"), "{text}");
    }

    #[test]
    fn a_refused_path_names_the_path_and_the_remedy() {
        let refusal = Refusal::Locked { path: "/srv/a.img".into() };
        let error = EngineError::from(refusal);
        assert!(error.to_string().contains("/srv/a.img") && error.to_string().contains("read-only"), "{error}");
        assert_eq!(error.kind, ErrorKind::Unsafe);
    }
}
