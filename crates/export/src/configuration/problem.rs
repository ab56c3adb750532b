//! Problems of a configuration, with place and remedy, in one form for files and flags.

use std::fmt;
use std::sync::Arc;

use super::MAXIMUM_PROBLEMS;

/// Where a value was set: a position in a file, or a command-line flag.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Place {
    /// `serve.toml:12:10` or `--export`.
    pub at: Arc<str>,
    /// The line or argument as written; may be empty.
    pub quoted: Arc<str>,
}

impl Place {
    /// A flag with its value.
    pub fn flag(flag: &str, value: &str) -> Self {
        Self { at: flag.into(), quoted: value.into() }
    }
}

/// A value with the place where it was set; compared by value alone.
#[derive(Clone, Debug, Default)]
pub struct Sourced<T> {
    /// The value.
    pub value: T,
    /// Where it was set.
    pub place: Place,
}

impl<T> Sourced<T> {
    /// `value` as set at `place`.
    pub fn new(value: T, place: &Place) -> Self {
        Self { value, place: place.clone() }
    }
}

impl<T: PartialEq> PartialEq for Sourced<T> {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl<T: fmt::Display> fmt::Display for Sourced<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(formatter)
    }
}

/// One problem. Its text is shown to the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Its place.
    pub place: Place,
    /// What is wrong, with the value and what is allowed.
    pub what: String,
    /// The remedy.
    pub help: String,
}

impl Problem {
    /// A problem at a place.
    pub fn new(place: &Place, what: impl Into<String>, help: impl Into<String>) -> Self {
        Self { place: place.clone(), what: what.into(), help: help.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shortened = hoistway_experiment::diagnostic::shortened;
        write!(formatter, "hoistway: error: ")?;
        if !self.place.at.is_empty() {
            write!(formatter, "{}: ", self.place.at)?;
        }
        write!(formatter, "{}", shortened(&self.what))?;
        if !self.place.quoted.is_empty() {
            write!(formatter, "\n  {}", shortened(&self.place.quoted))?;
        }
        if !self.help.is_empty() {
            write!(formatter, "\n  help: {}", shortened(&self.help))?;
        }
        Ok(())
    }
}

/// The problems as lines to print; of very many the first only, and how many more there are.
pub fn shown(problems: &[Problem]) -> Vec<String> {
    let more = problems.len().saturating_sub(MAXIMUM_PROBLEMS);
    let mut lines: Vec<String> = problems.iter().take(MAXIMUM_PROBLEMS).map(Problem::to_string).collect();
    if more > 0 {
        lines.push(format!("hoistway: error: {more} more problems are not shown"));
    }
    lines
}

/// The known word that is nearest to `word`, if one is near enough.
pub fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    hoistway_experiment::diagnostic::nearest(word, known.iter().copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_reads_place_value_and_help() {
        let place = Place { at: "serve.toml:3:5".into(), quoted: "weight = 0".into() };
        let text = Problem::new(&place, "weight is 0", "give 1 to 10000").to_string();
        assert_eq!(text, "hoistway: error: serve.toml:3:5: weight is 0\n  weight = 0\n  help: give 1 to 10000");
    }
}
