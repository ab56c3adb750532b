//! Message to the user about an unusable input: one sentence and one remedy.

use std::borrow::Cow;
use std::fmt;

/// "Did you mean": the nearest of the existing names, if it is near enough to be a typing error.
pub use hoistway_workload::{did_you_mean, nearest};

/// Longest line of a message that is shown whole, in bytes.
const SHOWN_BYTES: usize = 2_000;
/// How much of the beginning and of the end of a longer line is shown, in bytes.
const HEAD_BYTES: usize = 600;
const TAIL_BYTES: usize = 300;

/// The text of a message without the middle of lines that are too long to be read: a name may be 100 kB long, a list
/// have thousands of entries.
pub fn shortened(text: &str) -> Cow<'_, str> {
    if text.lines().all(|line| line.len() <= SHOWN_BYTES) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.lines().map(shortened_line).collect::<Vec<_>>().join("\n"))
}

/// The last place at or before `at` that is not inside a character.
pub fn boundary_before(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

fn shortened_line(line: &str) -> Cow<'_, str> {
    if line.len() <= SHOWN_BYTES {
        return Cow::Borrowed(line);
    }
    let end = boundary_before(line, HEAD_BYTES);
    let rest = boundary_before(line, line.len() - TAIL_BYTES);
    Cow::Owned(format!("{}[... {} bytes are not shown ...]{}", &line[..end], rest - end, &line[rest..]))
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_keeps_its_ends() {
        let long = format!("the name {} is too long\nsecond", "\u{e4}".repeat(50_000));
        let said = shortened(&long);
        assert!(said.len() < 1_100 && said.starts_with("the name \u{e4}"), "{said}");
        assert!(said.ends_with("\u{e4} is too long\nsecond") && said.contains("[... 99"), "{said}");
        assert_eq!(shortened("short"), "short");
    }
}
