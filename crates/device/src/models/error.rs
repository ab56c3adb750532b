//! Errors of models that cannot be built: where, what is wrong, and what is allowed.

use std::fmt;

use crate::parameter::Parameter;
use hoistway_block::names::edits;

/// Why a model's text or file was refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ModelError {
    place: String,
    message: String,
}

impl ModelError {
    /// `place` is `model:TEXT`, or `FILE:LINE:COLUMN`.
    pub(crate) fn new(place: impl Into<String>, message: impl Into<String>) -> Self {
        Self { place: place.into(), message: message.into() }
    }
}

impl fmt::Display for ModelError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.place, self.message)
    }
}

impl std::error::Error for ModelError {}

/// The message for an unknown key; `known` are the keys that the model has.
pub(crate) fn unknown_key<'a>(key: &str, known: impl Iterator<Item = (String, &'a Parameter)>) -> String {
    let known: Vec<(String, &Parameter)> = known.collect();
    let shown = |(name, parameter): &(String, &Parameter)| format!("{name} ({})", parameter.allowed());
    // `t_read` for `t_read_us`: right except for its unit.
    let lacks_unit = |(name, _): &&(String, &Parameter)| {
        name.strip_prefix(key).is_some_and(|rest| UNITS.contains(&rest)) && !key.is_empty()
    };
    if let Some(meant) = known.iter().find(lacks_unit) {
        return format!("the model has no parameter '{key}': it lacks its unit; nearest: {}", shown(meant));
    }
    let distance = |(name, parameter): &&(String, &Parameter)| {
        let by_alias =
            if parameter.alias.is_empty() { usize::MAX } else { edits(key.chars(), parameter.alias.chars()) };
        edits(key.chars(), name.chars()).min(by_alias)
    };
    let nearest = known.iter().min_by_key(distance).map_or_else(String::new, shown);
    format!("the model has no parameter '{key}'; nearest: {nearest}. All of them: hoistway list devices")
}

/// Suffixes of keys that name the unit.
const UNITS: [&str; 6] = ["_us", "_ms", "_kib", "_mib", "_MBps", "_sectors"];

/// A value that the parameter does not allow.
pub(crate) fn bad_value(key: &str, parameter: &Parameter, value: &str) -> String {
    format!("{key} cannot be '{value}'; allowed: {}", parameter.allowed())
}

/// The most similar of these names, however different it is; empty if there are no names.
pub(crate) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> &'a str {
    known.min_by_key(|known| edits(name.chars(), known.chars())).unwrap_or("")
}
