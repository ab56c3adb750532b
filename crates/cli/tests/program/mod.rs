//! Runs the real program in a fresh directory.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// The program with its arguments, in `directory`.
pub fn command(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hoistway"));
    command.args(arguments).current_dir(directory).stdin(Stdio::null()).env("TMPDIR", directory);
    // Results that no test asks for stay out of the user's home.
    command.env("XDG_STATE_HOME", directory.join("state")).env_remove("HOISTWAY_CONTROL");
    command
}

/// The output of a finished run.
pub struct Said {
    /// Exit code; -1 after a signal.
    pub code: i32,
    /// Results.
    pub stdout: String,
    /// Everything else.
    pub stderr: String,
}

impl From<Output> for Said {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).expect("UTF-8 on stdout"),
            stderr: String::from_utf8(output.stderr).expect("UTF-8 on stderr"),
        }
    }
}

/// Runs the program in `directory`.
pub fn hoistway(directory: &Path, arguments: &[&str]) -> Said {
    command(directory, arguments).output().expect("the program starts").into()
}

/// The sorted names in a directory.
pub fn entries(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).expect("a directory").flatten();
    let mut names: Vec<String> = entries.map(|entry| OsStr::to_string_lossy(&entry.file_name()).into_owned()).collect();
    names.sort();
    names
}
