//! Message to the user about an unusable input: one sentence and one remedy.

use std::fmt;

/// "Did you mean": the nearest of the existing names, if it is near enough to be a typing error.
pub use workload::nearest;

/// What is wrong with a piece of input, and how to fix it. The caller adds the place (the flag, or
/// file:line:column).
///
/// Formatted as the message, followed by the remedy on a line of its own after `  help: `.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Diagnostic {
    /// What is wrong; contains the value and, if there is a range, what is allowed.
    pub message: String,
    /// How to fix it.
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
