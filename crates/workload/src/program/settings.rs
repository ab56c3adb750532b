//! What the settings of programs share: names, rows, limits.

use crate::fio::units::{self, Base};
use crate::job::Job;

/// One setting of a program.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// The permitted values.
    pub allowed: &'static str,
    /// Description in one sentence.
    pub doc: &'static str,
}

/// Settings that can be listed, read and written as text.
pub(super) trait Settings {
    /// Name of the program.
    fn name(&self) -> &'static str;
    /// What it does, in one line.
    fn doc(&self) -> &'static str;
    /// The list of settings.
    fn keys(&self) -> &'static [Key];
    /// A value as text that [`Settings::set`] accepts; empty for an unknown key.
    fn value(&self, key: &str) -> String;
    /// Stores a value, or returns what is wrong with it.
    fn set(&mut self, key: &str, value: &str) -> Result<(), String>;
    /// Sets the job's fields that describe the program's I/O.
    fn describe(&self, job: &mut Job);
}

/// "unknown setting", with the list of settings and the nearest one.
pub(super) fn unknown(key: &str, keys: &[Key]) -> String {
    format!("setting {}", not_one_of(key, keys.iter().map(|key| key.name)))
}

/// "'x' is not one of a, b, c", with the nearest one suggested.
pub(super) fn not_one_of(given: &str, allowed: impl Iterator<Item = &'static str>) -> String {
    crate::fio::values::not_one_of(given.trim(), &allowed.collect::<Vec<_>>())
}

/// Parses an integer within limits, with a suffix as in job files.
pub(super) fn number(key: &str, text: &str, min: u32, max: u32) -> Result<u32, String> {
    let value = units::number(text, Base::Binary)?.value;
    let small = u32::try_from(value).ok().filter(|value| (min..=max).contains(value));
    small.ok_or_else(|| format!("{key}={text} is outside the allowed {min} to {max}"))
}
