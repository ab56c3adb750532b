//! How a command ends: its messages and its exit code. Source: docs/specifications/harness.md,
//! sections 1.4 and 1.5.
//!
//! Every error of every crate becomes an [`Error`], printed in one place. Results go to stdout, everything that is printed here to stderr.

use std::io::{self, IsTerminal, Write};

use hoistway_experiment::{Exit, printable_lines};

use crate::arguments::{Color, General};
pub use hoistway::{Error, Message, Severity};

/// The result of a command.
pub type Outcome = Result<Exit, Error>;

/// Why a target is not opened, with the remedy.
pub fn of_target(refusal: &hoistway_linux::device::Refusal) -> Error {
    use hoistway_linux::device::Refusal as R;
    let help = match refusal {
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
    let exit = match refusal {
        R::System { .. } => Exit::Failed,
        R::Missing { .. } | R::Empty { .. } => Exit::Usage,
        _ => Exit::Refused,
    };
    Error::new(exit, refusal.to_string(), help)
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
        let text = message.to_string();
        let mut text = printable_lines(&hoistway_experiment::diagnostic::shortened(&text)).into_owned();
        if self.colored {
            text = text.replacen(word, &format!("\x1b[{code}m{word}\x1b[0m"), 1);
        }
        // A closed stderr cannot be reported.
        let _ = writeln!(io::stderr(), "{text}");
    }

    /// Prints a line.
    pub fn line(self, line: &str) {
        if !self.quiet {
            // A closed stderr cannot be reported.
            let _ = writeln!(io::stderr(), "{}", printable_lines(line));
        }
    }
}

/// Prints the error and returns the exit code of the process.
pub fn finish(reporter: Reporter, outcome: Outcome) -> u8 {
    match outcome {
        Ok(exit) => exit.code(),
        Err(error) => {
            error.messages.iter().for_each(|message| reporter.print(message));
            error.exit.code()
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
    // Names in it may come from other programs and users: traces, control groups, a server.
    match stdout.write_all(printable_lines(text).as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Error::failed(format!("cannot write to stdout: {error}"), "")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_gets_no_advice_to_become_root() {
        assert!(permission(false).contains("or root") && !permission(true).contains("or root"));
    }

    #[test]
    fn a_mistyped_name_is_a_usage_error() {
        let missing = |path: &str| of_target(&hoistway_linux::device::Refusal::Missing { path: path.into() }).exit;
        assert_eq!(missing("/dev/doesnotexist0"), Exit::Usage);
        assert_eq!(missing("/tmp/doesnotexist0"), Exit::Usage);
    }
}
