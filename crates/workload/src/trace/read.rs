//! Reads a trace of any format: detects the format and returns items in order of time.
//!
//! ```text
//! sources -> a format's own reader (`Raw`) -> check (sizes, alignment) -> window (order of time) -> items
//! ```
//! Memory is bounded for any input: lines of up to 64 KiB, a window of 65,536 items, 65,536 names
//! of each kind. Source: docs/specifications/harness.md, section 9.6.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::fmt;
use std::io::BufRead;

use hoistway_block::{Nanos, Operation, SECTOR_BYTES};

use super::formats::{FORMATS, Format};
use super::record::{EARLIEST_NS, Item, Record};

/// Items that are held back in case an earlier one follows.
const WINDOW_ITEMS: usize = 65_536;
/// Largest step back in time that is tolerated.
const BACK_NS: Nanos = 1_000_000_000;
/// Number of wrong lines after which reading ends.
pub const MAX_READ_ERRORS: usize = 10;
/// Maximum number of different reasons for skipping records.
const MAX_REASONS: usize = 64;
/// Reason for skipping wrong records.
const DAMAGED: &str = "damaged";
/// Size of the sample from which the format of a file is detected.
pub const SAMPLE_BYTES: usize = 64 << 10;

/// One file of a trace.
pub struct Source {
    /// Name for messages.
    pub name: String,
    /// Its content.
    pub content: Box<dyn BufRead>,
}

/// What a reader cannot know from the file.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Picoseconds per unit of MQSim's times; 1,000 is the default, nanoseconds.
    pub ps_per_tick: u64,
    /// Meaning of `wait` in fio's iolog version 2.
    pub wait: Wait,
    /// Whether all wrong records are skipped and counted; otherwise a few of them end the reading.
    pub skip_damaged: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { ps_per_tick: 1_000, wait: Wait::Documented, skip_damaged: false }
    }
}

/// Meaning of `FILE wait N` in an iolog of version 2.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Microseconds after the previous wait.
    Documented,
    /// Milliseconds since the start, as fio 3.33 implements it.
    AsFio,
}

/// A position in a file.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Line number, from 1.
    Line(u64),
    /// Byte offset, from 0.
    Byte(u64),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Line(line) => write!(f, "{line}"),
            Place::Byte(byte) => write!(f, "byte {byte}"),
        }
    }
}

/// An error at a position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadError {
    /// Name of the file.
    pub file: String,
    /// Position in it.
    pub place: Place,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.place, self.message)
    }
}

impl std::error::Error for ReadError {}

/// Why a trace cannot be read any further.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceError {
    /// The errors; the last one ended the reading.
    pub errors: Vec<ReadError>,
    /// How to fix it.
    pub help: String,
    /// Whether a system call failed, as opposed to wrong content.
    pub is_system: bool,
}

impl TraceError {
    pub(super) fn at(file: &str, place: Place, message: impl Into<String>, help: impl Into<String>) -> Self {
        let error = ReadError { file: file.to_owned(), place, message: message.into() };
        Self { errors: vec![error], help: help.into(), is_system: false }
    }

    pub(super) fn system(file: &str, place: Place, error: &std::io::Error) -> Self {
        Self { is_system: true, ..Self::at(file, place, format!("cannot read: {error}"), "") }
    }
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.errors.iter().map(ToString::to_string).collect();
        f.write_str(&lines.join("\n"))?;
        if self.help.is_empty() { Ok(()) } else { write!(f, "\n  help: {}", self.help) }
    }
}

impl std::error::Error for TraceError {}

/// Counts of what was read and skipped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of events.
    pub records: u64,
    /// Skipped records by reason.
    pub skipped: BTreeMap<String, u64>,
    /// Wrong lines, at most [`MAX_READ_ERRORS`].
    pub errors: Vec<ReadError>,
    /// Records whose offset or length was not a multiple of 512 and was rounded outward.
    pub rounded: u64,
    /// Notes about the trace, without duplicates.
    pub notes: Vec<String>,
    /// See [`Options::skip_damaged`].
    pub(super) skips_damaged: bool,
}

impl Tally {
    pub(super) fn skip(&mut self, reason: &str) {
        // Reasons may quote the file, so the number of different ones that are kept is limited.
        let is_kept = self.skipped.contains_key(reason) || self.skipped.len() < MAX_REASONS;
        let reason = if is_kept { reason } else { "other reasons" };
        *self.skipped.entry(reason.to_owned()).or_default() += 1;
    }

    /// Skips a wrong record if that is requested and keeps the first few errors.
    pub(super) fn skip_damaged(&mut self, error: TraceError) -> Result<(), TraceError> {
        if !self.skips_damaged || error.is_system {
            return Err(error);
        }
        let room = MAX_READ_ERRORS - self.errors.len().min(MAX_READ_ERRORS);
        self.errors.extend(error.errors.into_iter().take(room));
        self.skip(DAMAGED);
        Ok(())
    }

    pub(super) fn note(&mut self, note: impl Into<String>) {
        let note = note.into();
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Number of skipped records.
    pub fn skipped_records(&self) -> u64 {
        self.skipped.values().sum()
    }
}

/// A format's own reader; returns items in the order of the file.
pub(super) trait Raw {
    /// The next item, or `None` at the end.
    fn next(&mut self, tally: &mut Tally) -> Result<Option<Item>, TraceError>;
    /// File and position of the item that was returned last.
    fn place(&self) -> (&str, Place);
}

/// A trace that is being read.
pub struct Reading {
    raw: Box<dyn Raw>,
    format: &'static Format,
    tally: Tally,
    /// Items that arrived in order of time.
    in_order: VecDeque<Waiting>,
    /// Items that arrived late.
    late: BinaryHeap<Reverse<Waiting>>,
    arrived: u64,
    latest_ns: Nanos,
    given_ns: Nanos,
    /// Added to all times, so that the first one is not before 0; known from the first item on.
    shift_ns: Option<Nanos>,
    is_over: bool,
}

/// An item in the window, ordered by time, then by arrival.
struct Waiting {
    at_ns: Nanos,
    arrived: u64,
    item: Item,
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        (self.at_ns, self.arrived) == (other.at_ns, other.arrived)
    }
}

impl Eq for Waiting {}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at_ns, self.arrived).cmp(&(other.at_ns, other.arrived))
    }
}

/// A record that includes its latency may stand where it completed.
fn latency_of(item: &Item) -> Nanos {
    match item {
        Item::Record(record) => record.latency_ns.unwrap_or(0),
        _ => 0,
    }
}

/// Detects the format from the start of a file. If several formats fit, the one that parses most
/// lines is taken, then the first in the list.
pub fn detect(begin: &[u8]) -> Option<&'static Format> {
    let scored = FORMATS.iter().map(|format| ((format.fits)(begin), format)).filter(|(score, _)| *score > 0);
    scored.reduce(|best, next| if next.0 > best.0 { next } else { best }).map(|(_, format)| format)
}

/// The format of a name.
pub fn format_of_name(name: &str) -> Option<&'static Format> {
    FORMATS.iter().find(|format| format.name == name)
}

impl Reading {
    /// Starts reading `sources`: one file, or one per CPU of a blktrace.
    pub fn new(format: &'static Format, sources: Vec<Source>, options: Options) -> Self {
        Self {
            raw: (format.open)(sources, options),
            format,
            tally: Tally { skips_damaged: options.skip_damaged, ..Tally::default() },
            in_order: VecDeque::new(),
            late: BinaryHeap::new(),
            arrived: 0,
            latest_ns: 0,
            given_ns: 0,
            shift_ns: None,
            is_over: false,
        }
    }

    /// The format of the trace.
    pub fn format(&self) -> &'static Format {
        self.format
    }

    /// Counts so far.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// The next item in order of time. A name comes before the items that refer to it.
    ///
    /// # Errors
    /// The file cannot be read any further; do not call this again.
    pub fn next_item(&mut self) -> Result<Option<Item>, TraceError> {
        while !self.is_over && self.in_order.len() + self.late.len() < WINDOW_ITEMS {
            let Some(item) = self.raw.next(&mut self.tally).inspect_err(|_| self.is_over = true)? else {
                self.is_over = true;
                break;
            };
            let Some(item) = self.checked(item) else { continue };
            let Some(at_ns) = item.at_ns() else { return Ok(Some(item)) };
            // Times before 0 are before all others.
            let at_ns = at_ns.wrapping_add(EARLIEST_NS);
            if at_ns.saturating_add(BACK_NS).saturating_add(latency_of(&item)) < self.latest_ns || at_ns < self.given_ns
            {
                let error = self.went_back(at_ns);
                self.tally.skip_damaged(error).inspect_err(|_| self.is_over = true)?;
                continue;
            }
            self.arrived += 1;
            let waiting = Waiting { at_ns, arrived: self.arrived, item };
            // Most files are in order; pushing every item through the heap would move each about a
            // dozen times.
            if at_ns >= self.latest_ns {
                self.latest_ns = at_ns;
                self.in_order.push_back(waiting);
            } else {
                self.late.push(Reverse(waiting));
            }
        }
        let Some(Waiting { at_ns, item, .. }) = self.first_waiting() else { return Ok(None) };
        self.given_ns = at_ns;
        self.tally.records += u64::from(matches!(item, Item::Record(_)));
        let shift_ns = *self.shift_ns.get_or_insert(EARLIEST_NS.saturating_sub(at_ns));
        Ok(Some(item.at(at_ns.wrapping_sub(EARLIEST_NS).wrapping_add(shift_ns))))
    }

    fn first_waiting(&mut self) -> Option<Waiting> {
        let is_late = match (self.late.peek(), self.in_order.front()) {
            (Some(Reverse(late)), Some(in_order)) => late < in_order,
            (late, _) => late.is_some(),
        };
        if is_late { self.late.pop().map(|Reverse(waiting)| waiting) } else { self.in_order.pop_front() }
    }

    fn went_back(&self, at_ns: Nanos) -> TraceError {
        let (file, place) = self.raw.place();
        let back_ms = self.latest_ns.saturating_sub(at_ns) / 1_000_000;
        let message = format!("time goes back by {back_ms} ms (more than 1 s, or across {WINDOW_ITEMS} records)");
        let help =
            format!("is it really {}? another format: --format NAME; or sort the file by time", self.format.name);
        TraceError::at(file, place, message, help)
    }

    /// Checks sizes in formats without stages; sizes in formats with stages come from the kernel
    /// itself.
    fn checked(&mut self, item: Item) -> Option<Item> {
        match item {
            Item::Record(record) if !self.format.has_stages => self.checked_record(record).map(Item::Record),
            other => Some(other),
        }
    }

    fn checked_record(&mut self, mut record: Record) -> Option<Record> {
        if record.operation == Operation::Flush {
            record.length_bytes = 0;
            return Some(record);
        }
        if record.length_bytes == 0 {
            self.tally.skip("length 0");
            return None;
        }
        let Some(end_bytes) = record.offset_bytes.checked_add(record.length_bytes) else {
            self.tally.skip("end beyond 2^64 bytes");
            return None;
        };
        if !record.offset_bytes.is_multiple_of(SECTOR_BYTES) || !end_bytes.is_multiple_of(SECTOR_BYTES) {
            record.offset_bytes -= record.offset_bytes % SECTOR_BYTES;
            let Some(end_bytes) = end_bytes.checked_next_multiple_of(SECTOR_BYTES) else {
                self.tally.skip("end beyond 2^64 bytes");
                return None;
            };
            record.length_bytes = end_bytes - record.offset_bytes;
            self.tally.rounded += 1;
        }
        Some(record)
    }
}
