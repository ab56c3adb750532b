//! Lines for people on stderr, from processes that must go on without a reader.

use std::fmt::Display;
use std::io::{self, Write};

/// Prints a line on stderr, in one call so that lines of several threads do not mix. A full or closed stderr is
/// ignored: there is no other place to report it, and a server must not end because its messages have no reader.
pub fn error_line(line: impl Display) {
    let _ = io::stderr().write_all(format!("{line}\n").as_bytes());
}
