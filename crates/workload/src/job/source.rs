//! What issues the I/Os of a job, if no pattern does.

use serde::{Deserialize, Serialize};

use super::Replay;
use crate::program::Program;

/// What issues its I/Os, if no pattern does. At most one of these is set, and
/// the rest of the job describes its I/Os.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Source {
    /// A program with its own logic instead of a pattern. The program decides on its I/Os; the other
    /// fields, which [`crate::Job::of`] sets, describe them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<Program>,
    /// A recording instead of a pattern; the other fields describe its I/Os as well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replay: Option<Box<Replay>>,
    /// Text of a job file that only fio can run, instead of everything else (`--generator fio`).
    #[serde(rename = "foreign", skip_serializing_if = "Option::is_none")]
    pub fio_only: Option<String>,
    /// The trace that it replays instead of a pattern. Once the trace has been read, a [`Replay`]
    /// takes its place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Box<Input>>,
}

/// A trace that a job file names (fio's read_iolog).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Input {
    /// The file.
    pub file: String,
    /// Whether to replay as fast as the depth permits instead of at recorded times.
    pub as_fast_as_possible: bool,
    /// Factor of recorded times, in percent.
    pub time_percent: u32,
    /// Divisor of offsets; 0 counts as 1.
    pub divide_offsets_by: u32,
    /// Offsets are rounded down to multiples of this; 0 means no rounding.
    pub align_bytes: u32,
    /// Which operations are left out: reads, writes, trims, flushes.
    pub skips: [bool; 4],
}
