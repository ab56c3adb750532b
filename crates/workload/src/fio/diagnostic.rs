//! What is said about a job file: severity, place, quoted line, help.

use std::fmt;
use std::sync::Arc;

/// How bad it is.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The file cannot be run.
    Error,
    /// It runs, but likely not as meant.
    Warning,
    /// Worth knowing.
    Note,
}

/// A position in a file, with its line for quoting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file as it was named.
    pub file: Arc<str>,
    /// Line, from 1.
    pub line: u32,
    /// Column in bytes, from 1.
    pub column: u32,
    /// The whole line.
    pub text: Arc<str>,
}

/// One message about a file; `Display` gives the full text of several lines, without the program's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// Where.
    pub place: Place,
    /// What is wrong.
    pub message: String,
    /// What to do; empty where the message says it.
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
        // A line without end would drown the message.
        let shown: String =
            text.chars().take(160).map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
        write!(f, "\n   {line} | {shown}")?;
        if !self.help.is_empty() {
            write!(f, "\n  help: {}", self.help)?;
        }
        Ok(())
    }
}

/// Errors shown at most; the rest is counted.
pub const MAX_ERRORS: usize = 20;
/// Errors counted beyond those shown; then reading stops.
const MAX_COUNTED: usize = 1000;
/// Notes and warnings kept at most.
const MAX_NOTES: usize = 200;

/// Collects what is said while a file is read.
#[derive(Debug, Default)]
pub struct Findings {
    errors: Vec<Diagnostic>,
    notes: Vec<Diagnostic>,
    errors_left_out: usize,
}

impl Findings {
    /// An error.
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

    /// An error, said once for each text.
    pub fn error_once(&mut self, place: &Place, message: String, help: String) {
        if !self.errors.iter().any(|error| error.message == message) {
            self.error(place, message, help);
        }
    }

    /// A warning or note, said once for each text.
    pub fn remark(&mut self, severity: Severity, place: &Place, message: impl Into<String>) {
        let message = message.into();
        if self.notes.len() < MAX_NOTES && !self.notes.iter().any(|note| note.message == message) {
            self.notes.push(Diagnostic { severity, place: place.clone(), message, help: String::new() });
        }
    }

    /// Whether so much is wrong that reading on would only cost time.
    pub fn is_hopeless(&self) -> bool {
        self.errors_left_out >= MAX_COUNTED
    }

    /// A note of which one per file is enough, whatever else the text says: `kind` is how such notes begin.
    pub fn note_first(&mut self, place: &Place, kind: &str, rest: impl fmt::Display) {
        if !self.notes.iter().any(|note| note.message.starts_with(kind)) {
            self.remark(Severity::Note, place, format!("{kind}{rest}"));
        }
    }

    /// Whether nothing stands against running the file.
    pub fn has_no_error(&self) -> bool {
        self.errors.is_empty()
    }

    /// All errors (with the notes behind them), or the notes alone when there is no error.
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
