//! What is told to the user when an input cannot be used: one sentence and one remedy.

use std::fmt;

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

/// The candidate that `word` was probably meant to be: edit distance at most 2, or a third of the word's length.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (word.chars().count() / 3).max(2);
    candidates
        .into_iter()
        .map(|candidate| (edit_distance(word, candidate), candidate))
        .filter(|&(distance, candidate)| distance <= limit && distance < candidate.chars().count())
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, candidate)| candidate)
}

/// Insertions, deletions and replacements of one character each, case ignored (Levenshtein).
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().flat_map(char::to_lowercase).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().flat_map(char::to_lowercase).enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &cb) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(ca != cb);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transposed_name_is_recognised() {
        assert_eq!(nearest("slice_idel", ["quantum", "slice_idle", "group_idle"]), Some("slice_idle"));
    }

    #[test]
    fn an_unrelated_name_is_not_suggested() {
        assert_eq!(nearest("zz", ["bfq", "cfq", "no"]), None);
    }
}
