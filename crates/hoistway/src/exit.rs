//! How a command ends: its messages and its exit code. Source: docs/specifications/harness.md,
//! sections 1.4 and 1.5.
//!
//! Every error of every crate becomes an [`Error`]: one form of message, printed in one place.
//! Results go to stdout, everything that is printed here to stderr.

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;

use experiment::journal::JournalError;
use experiment::{Diagnostic, Exit, Refusal, RunError};

use crate::arguments::{Color, General};

/// The result of a command.
pub type Outcome = Result<Exit, Error>;

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
    const fn word(self) -> &'static str {
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
    fn write(&self, f: &mut impl fmt::Write, severity: &str) -> fmt::Result {
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

impl From<linux::device::Refusal> for Error {
    fn from(refusal: linux::device::Refusal) -> Self {
        use linux::device::Refusal as R;
        let help = match &refusal {
            R::Missing { path } if path.starts_with("/dev") => "lsblk lists the block devices of this machine",
            R::Missing { .. } => "name an existing file, directory or device, or a model: hoistway list devices",
            R::FileInDev { .. } => "it is in memory, so the figures would be those of memory; name the device itself",
            R::WrongKind { .. } => "targets are model:NAME, a directory, a regular file or a block device",
            R::InUse { .. } => "unmount it or end its user; reading alone is possible without --exclusive",
            R::Locked { .. } | R::Overlap { .. } => {
                "end the other process first; two writers would destroy each other's data"
            }
            R::ReadOnly { .. } => "choose a workload that only reads, or another target",
            R::Empty { .. } => "give it a size, for example: truncate -s 1G FILE",
            R::Escapes { .. } => "name a path inside",
            R::System { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                permission(rustix::process::geteuid().is_root())
            }
            R::System { .. } => "",
        };
        let exit = match &refusal {
            R::System { .. } => Exit::Failed,
            R::Missing { path } if !path.starts_with("/dev") => Exit::Usage,
            R::Empty { .. } => Exit::Usage,
            _ => Exit::Refused,
        };
        Self::new(exit, refusal.to_string(), help)
    }
}

/// The remedy for a missing permission. File permissions do not stop root, so root gets another
/// one.
const fn permission(is_root: bool) -> &'static str {
    if is_root {
        "even root may not: a container needs access to the device (docker run --device), and the file system or a \
         security module may forbid it"
    } else {
        "get read permission (group disk, or root)"
    }
}

impl From<Vec<workload::fio::Diagnostic>> for Error {
    fn from(diagnostics: Vec<workload::fio::Diagnostic>) -> Self {
        Self { messages: diagnostics.into_iter().map(Message::from).collect(), exit: Exit::Usage }
    }
}

impl From<workload::fio::Diagnostic> for Message {
    fn from(diagnostic: workload::fio::Diagnostic) -> Self {
        let severity = match diagnostic.severity {
            workload::fio::Severity::Error => Severity::Error,
            workload::fio::Severity::Warning => Severity::Warning,
            workload::fio::Severity::Note => Severity::Note,
        };
        // Its own text is `error: file:line:column: what`, the quoted line, the help: only the
        // program's name is missing.
        let text = diagnostic.to_string();
        let text = text.split_once(": ").map_or(text.as_str(), |(_, rest)| rest);
        let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
        Message { severity, what: first.to_owned(), place: String::new(), quoted: rest.to_owned(), help: String::new() }
    }
}

/// Output on stderr besides errors, and whether it is enabled.
#[derive(Copy, Clone, Debug)]
pub struct Reporter {
    /// Suppresses warnings, notes, plan and progress.
    pub quiet: bool,
    colored: bool,
}

impl Default for Reporter {
    fn default() -> Self {
        Self { quiet: false, colored: wants_color() }
    }
}

/// Whether stderr is a terminal and colours are not disabled.
fn wants_color() -> bool {
    io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

impl Reporter {
    /// As the command line specifies.
    pub fn new(general: &General) -> Self {
        let colored = match general.color {
            Color::Auto => wants_color(),
            Color::Always => true,
            Color::Never => false,
        };
        Self { quiet: general.quiet, colored }
    }

    /// The same output without notes.
    #[must_use]
    pub fn without_notes(self) -> Self {
        Self { quiet: true, ..self }
    }

    /// Prints a warning or note.
    pub fn report(self, message: &Message) {
        if !self.quiet {
            self.print(message);
        }
    }

    /// Prints a warning.
    pub fn warn(self, what: impl Into<String>, help: impl Into<String>) {
        self.report(&Message { severity: Severity::Warning, ..Message::error(what, help) });
    }

    /// Prints a note.
    pub fn note(self, what: impl Into<String>) {
        self.report(&Message { severity: Severity::Note, ..Message::error(what, "") });
    }

    fn print(self, message: &Message) {
        let code = match message.severity {
            Severity::Error => "31;1",
            Severity::Warning => "33;1",
            Severity::Note => "36",
        };
        let word = message.severity.word();
        let word = if self.colored { format!("\x1b[{code}m{word}\x1b[0m") } else { word.to_owned() };
        let mut text = String::new();
        // Writing to a string cannot fail, and a closed stderr cannot be reported.
        let _ = message.write(&mut text, &word);
        let text = experiment::diagnostic::shortened(&text);
        let _ = writeln!(io::stderr(), "{text}");
    }

    /// Prints a line unchanged.
    pub fn line(self, line: &str) {
        if !self.quiet {
            // A closed stderr cannot be reported.
            let _ = writeln!(io::stderr(), "{line}");
        }
    }
}

/// Prints the error and returns the exit code of the process.
pub fn finish(reporter: Reporter, outcome: Outcome) -> ExitCode {
    match outcome {
        Ok(exit) => ExitCode::from(exit.code()),
        Err(error) => {
            error.messages.iter().for_each(|message| reporter.print(message));
            ExitCode::from(error.exit.code())
        }
    }
}

/// Writes results to stdout. A reader that has closed the pipe (`| head`) is no error.
pub fn print(text: &str) -> Result<(), Error> {
    print_to_reader(text).map(|_| ())
}

/// Writes a part of endless results to stdout; returns whether there is still a reader.
pub fn print_to_reader(text: &str) -> Result<bool, Error> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Error::failed(format!("cannot write to stdout: {error}"), "")),
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
    fn root_gets_no_advice_to_become_root() {
        assert!(permission(false).contains("or root") && !permission(true).contains("or root"));
    }

    #[test]
    fn the_innermost_place_stays() {
        assert_eq!(Error::usage("x", "").at("first").at("second").to_string(), "hoistway: error: x (first)");
    }

    #[test]
    fn a_mistyped_device_is_refused_and_a_mistyped_file_is_a_usage_error() {
        let missing = |path: &str| Error::from(linux::device::Refusal::Missing { path: path.into() }).exit;
        assert_eq!(missing("/dev/doesnotexist0"), Exit::Refused);
        assert_eq!(missing("/tmp/doesnotexist0"), Exit::Usage);
    }
}
