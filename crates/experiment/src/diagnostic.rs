//! What is told to the user when an input cannot be used: one sentence and one remedy.

use std::fmt;

/// "Did you mean": the nearest of the names there are, if it is near enough to be a slip.
pub use workload::nearest;

/// What is wrong with a piece of input, and what to do. The caller adds the place (the flag, or file:line:column).
///
/// Printed as the message, then on a line of its own `  help: ` and the remedy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Diagnostic {
    /// What is wrong; names the value and, where there is a range, what is allowed.
    pub message: String,
    /// What to do about it.
    pub help: String,
}

impl Diagnostic {
    /// A message with its remedy.
    pub fn new(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { message: message.into(), help: help.into() }
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n  help: {}", self.message, self.help)
    }
}

impl std::error::Error for Diagnostic {}
