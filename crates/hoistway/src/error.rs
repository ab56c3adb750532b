//! Why an experiment or a command was not carried out: one form of message for every error of every
//! crate. The command prints exactly [`Error`]'s text. Source: docs/specifications/harness.md,
//! sections 1.4 and 1.5.

use std::fmt;
use std::io;
use std::path::Path;

use hoistway_experiment::journal::JournalError;
use hoistway_experiment::{Diagnostic, Exit, Refusal, RunError};

/// The severity of a message.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Severity {
    /// The command ends.
    Error,
    /// The command continues, but probably not as the user intended.
    Warning,
    /// Information.
    Note,
}

impl Severity {
    /// The word before a message: `error`, `warning`, `note`.
    pub const fn word(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        }
    }
}

/// One message: `hoistway: error: WHAT (WHERE)`, the quoted line if there is one, `  help: WHAT TO
/// DO`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    /// The severity.
    pub severity: Severity,
    /// The problem, with the value and what is allowed.
    pub what: String,
    /// The source: `--weights 0,1`, the target. Empty if the text names it.
    pub place: String,
    /// The line of the file that it refers to, with the position marked; empty for none.
    pub quoted: String,
    /// What to do; empty if there is nothing.
    pub help: String,
}

impl Message {
    /// An error with its remedy.
    pub fn error(what: impl Into<String>, help: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            what: what.into(),
            place: String::new(),
            quoted: String::new(),
            help: help.into(),
        }
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, self.severity.word())
    }
}

impl Message {
    /// The text with another word for the severity, which may be coloured.
    pub fn write(&self, f: &mut impl fmt::Write, severity: &str) -> fmt::Result {
        // Lines after the first are quotations and keep their layout.
        let (first, more) = self.what.split_once('\n').unwrap_or((&self.what, ""));
        write!(f, "hoistway: {severity}: {first}")?;
        if !self.place.is_empty() {
            write!(f, " ({})", self.place)?;
        }
        if !more.is_empty() {
            write!(f, "\n{more}")?;
        }
        if !self.quoted.is_empty() {
            write!(f, "\n{}", self.quoted)?;
        }
        if !self.help.is_empty() {
            write!(f, "\n  help: {}", self.help)?;
        }
        Ok(())
    }
}

/// Why a command did not do what was asked: messages (none after a signal), and the exit code.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error {
    /// The messages, in the order of printing.
    pub messages: Vec<Message>,
    /// The exit code.
    pub exit: Exit,
}

impl Error {
    /// One message with its exit code.
    pub fn new(exit: Exit, what: impl Into<String>, help: impl Into<String>) -> Self {
        Self { messages: vec![Message::error(what, help)], exit }
    }

    /// The request is invalid (exit 2).
    pub fn usage(what: impl Into<String>, help: impl Into<String>) -> Self {
        Self::new(Exit::Usage, what, help)
    }

    /// The command failed during its work (exit 1).
    pub fn failed(what: impl Into<String>, help: impl Into<String>) -> Self {
        Self::new(Exit::Failed, what, help)
    }

    /// The request would be dangerous (exit 3).
    pub fn refused(what: impl Into<String>, help: impl Into<String>) -> Self {
        Self::new(Exit::Refused, what, help)
    }

    /// A file that cannot be read or written.
    pub fn file(path: &Path, what: &str, source: &io::Error) -> Self {
        Self::failed(format!("cannot {what} {}: {source}", path.display()), "")
    }

    /// A file that the user named as input and that cannot be read: the request is invalid if there is
    /// none.
    pub fn input(path: &Path, source: &io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::NotFound => {
                Self::usage(format!("cannot read {}: {source}", path.display()), "name an existing file")
            }
            _ => Self::file(path, "read", source),
        }
    }

    /// Adds the source of the request, unless a message already names one.
    #[must_use]
    pub fn at(mut self, place: impl Into<String>) -> Self {
        let place = place.into();
        for message in self.messages.iter_mut().filter(|message| message.place.is_empty()) {
            message.place.clone_from(&place);
        }
        self
    }

    /// Adds what contains the source: a part of a file around the option in it.
    #[must_use]
    pub fn inside(mut self, what: &str) -> Self {
        for place in self.messages.iter_mut().map(|message| &mut message.place) {
            *place = if place.is_empty() { what.to_owned() } else { format!("{what}: {place}") };
        }
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<String> = self.messages.iter().map(Message::to_string).collect();
        f.write_str(&texts.join("\n"))
    }
}

impl std::error::Error for Error {}

impl From<Diagnostic> for Error {
    fn from(diagnostic: Diagnostic) -> Self {
        Self::usage(diagnostic.message, diagnostic.help)
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        Self::new(refusal.exit, refusal.message, refusal.help)
    }
}

impl From<RunError> for Error {
    fn from(error: RunError) -> Self {
        let exit = error.exit();
        match error {
            RunError::Refused(refusal) => refusal.into(),
            RunError::Failed { message, source: Some(source) } => Self::new(exit, format!("{message}: {source}"), ""),
            other => Self::new(exit, other.to_string(), ""),
        }
    }
}

impl From<JournalError> for Error {
    fn from(error: JournalError) -> Self {
        let exit = if matches!(error, JournalError::Io { .. }) { Exit::Failed } else { Exit::Usage };
        let text = error.to_string();
        let (what, help) = text.split_once("\n  help: ").unwrap_or((&text, ""));
        Self::new(exit, what, help)
    }
}

impl From<Vec<hoistway_workload::fio::Diagnostic>> for Error {
    fn from(diagnostics: Vec<hoistway_workload::fio::Diagnostic>) -> Self {
        Self { messages: diagnostics.into_iter().map(Message::from).collect(), exit: Exit::Usage }
    }
}

impl From<hoistway_workload::fio::Diagnostic> for Message {
    fn from(diagnostic: hoistway_workload::fio::Diagnostic) -> Self {
        let severity = match diagnostic.severity {
            hoistway_workload::fio::Severity::Error => Severity::Error,
            hoistway_workload::fio::Severity::Warning => Severity::Warning,
            hoistway_workload::fio::Severity::Note => Severity::Note,
        };
        // Its own text is `error: file:line:column: what`, the quoted line, the help: only the
        // program's name is missing.
        let text = diagnostic.to_string();
        let text = text.split_once(": ").map_or(text.as_str(), |(_, rest)| rest);
        let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
        Message { severity, what: first.to_owned(), place: String::new(), quoted: rest.to_owned(), help: String::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_names_what_where_and_the_remedy() {
        let error = Error::usage("weight 0 is outside 1 to 10000", "only ratios matter").at("--weights 0,1");
        assert_eq!(
            error.to_string(),
            "hoistway: error: weight 0 is outside 1 to 10000 (--weights 0,1)\n  help: only ratios matter"
        );
    }

    #[test]
    fn the_innermost_place_stays() {
        assert_eq!(Error::usage("x", "").at("first").at("second").to_string(), "hoistway: error: x (first)");
    }
}
