//! Messages about a job file: severity, place, quoted line, help.

use std::fmt;
use std::sync::Arc;

/// Severity of a message.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The file cannot be run.
    Error,
    /// The file can be run, but probably not as intended.
    Warning,
    /// Information.
    Note,
}

/// A position in a file, with its line for quoting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Name of the file as the user gave it.
    pub file: Arc<str>,
    /// Line, from 1.
    pub line: u32,
    /// Column in bytes, from 1.
    pub column: u32,
    /// The whole line.
    pub text: Arc<str>,
}

/// One message about a file. `Display` formats the full text of several lines, without the
/// program's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Its severity.
    pub severity: Severity,
    /// Where the problem is.
    pub place: Place,
    /// What is wrong.
    pub message: String,
    /// How to fix it; empty if the message says so already.
    pub help: String,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        };
        let Place { file, line, column, text } = &self.place;
        write!(f, "{severity}: {file}:{line}:{column}: {}", self.message)?;
        // A very long line is cut off, so that the message stays readable.
        let shown: String =
            text.chars().take(160).map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
        write!(f, "\n   {line} | {shown}")?;
        if !self.help.is_empty() {
            write!(f, "\n  help: {}", self.help)?;
        }
        Ok(())
    }
}

/// Maximum number of errors that are shown; further ones are counted.
pub const MAX_ERRORS: usize = 20;
/// Number of errors beyond those shown at which reading stops.
const MAX_COUNTED: usize = 1000;
/// Maximum number of notes and warnings.
const MAX_NOTES: usize = 200;

/// Collects the messages while a file is read.
#[derive(Debug, Default)]
pub struct Findings {
    errors: Vec<Diagnostic>,
    notes: Vec<Diagnostic>,
    errors_left_out: usize,
}

impl Findings {
    /// Adds an error.
    pub fn error(&mut self, place: &Place, message: impl Into<String>, help: impl Into<String>) {
        if self.errors.len() >= MAX_ERRORS {
            self.errors_left_out += 1;
            return;
        }
        self.errors.push(Diagnostic {
            severity: Severity::Error,
            place: place.clone(),
            message: message.into(),
            help: help.into(),
        });
    }

    /// Adds an error unless one with the same text exists.
    pub fn error_once(&mut self, place: &Place, message: String, help: String) {
        if !self.errors.iter().any(|error| error.message == message) {
            self.error(place, message, help);
        }
    }

    /// Adds a warning or note unless one with the same text exists.
    pub fn remark(&mut self, severity: Severity, place: &Place, message: impl Into<String>) {
        let message = message.into();
        if self.notes.len() < MAX_NOTES && !self.notes.iter().any(|note| note.message == message) {
            self.notes.push(Diagnostic { severity, place: place.clone(), message, help: String::new() });
        }
    }

    /// Whether the limit of errors is reached, which ends reading.
    pub fn is_over_limit(&self) -> bool {
        self.errors_left_out >= MAX_COUNTED
    }

    /// Adds a note unless one that starts with `kind` exists.
    pub fn note_first(&mut self, place: &Place, kind: &str, rest: impl fmt::Display) {
        if !self.notes.iter().any(|note| note.message.starts_with(kind)) {
            self.remark(Severity::Note, place, format!("{kind}{rest}"));
        }
    }

    /// Whether the file can be run.
    pub fn has_no_error(&self) -> bool {
        self.errors.is_empty()
    }

    /// All errors followed by the notes, or the notes alone if there is no error.
    pub fn finish(mut self) -> Result<Vec<Diagnostic>, Vec<Diagnostic>> {
        let Some(last) = self.errors.last_mut() else { return Ok(self.notes) };
        if self.errors_left_out > 0 {
            last.help = format!("{}{} more errors are not shown", separated(&last.help), self.errors_left_out);
        }
        self.errors.append(&mut self.notes);
        Err(self.errors)
    }
}

fn separated(help: &str) -> String {
    if help.is_empty() { String::new() } else { format!("{help}; ") }
}
