//! Reading a trace of any format: which it is, one item after the other, in order of time, and what was wrong with it.
//!
//! ```text
//! sources -> a format's own reader (`Raw`) -> check (sizes, alignment) -> window (order of time) -> items
//! ```
//! Memory is bounded whatever the file says: lines up to 64 KiB, a window of 65,536 items, 65,536 names of a kind.
//! Rules: harness 9.6.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::fmt;
use std::io::BufRead;

use block::{Nanos, Operation, SECTOR_BYTES};

use super::formats::{FORMATS, Format};
use super::record::{Item, Record};

/// Items that may wait for an earlier one.
const WINDOW_ITEMS: usize = 65_536;
/// Times may go back by this much.
const BACK_NS: Nanos = 1_000_000_000;
/// Lines that may be wrong.
pub const MAX_COMPLAINTS: usize = 10;
/// Different reasons for leaving out.
const MAX_REASONS: usize = 64;
/// Why records are left out that make no sense.
const DAMAGED: &str = "damaged";
/// As much of the begin of a file tells its format.
pub const SAMPLE_BYTES: usize = 64 << 10;

/// One file of a trace.
pub struct Source {
    /// What messages call it.
    pub name: String,
    /// Its content.
    pub content: Box<dyn BufRead>,
}

/// What a reader cannot know from the file.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Picoseconds to a unit of MQSim's times: 1,000 = nanoseconds, its usual one.
    pub ps_per_tick: u64,
    /// What `wait` means in fio's iolog version 2.
    pub wait: Wait,
    /// Records that make no sense are left out and counted, however many they are; otherwise a few end the reading.
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
    /// Microseconds behind the previous wait.
    Documented,
    /// As fio 3.33 does it: milliseconds since the begin.
    AsFio,
}

/// Where in a file.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A line, from 1.
    Line(u64),
    /// A byte, from 0.
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

/// Something wrong at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    /// The file.
    pub file: String,
    /// Where.
    pub place: Place,
    /// What.
    pub message: String,
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.place, self.message)
    }
}

/// Why a trace cannot be read any further.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceError {
    /// What is wrong, where; the last one is what ended it.
    pub complaints: Vec<Complaint>,
    /// What to do about it.
    pub help: String,
    /// Whether the system failed, not the file's content.
    pub is_system: bool,
}

impl TraceError {
    pub(super) fn at(file: &str, place: Place, message: impl Into<String>, help: impl Into<String>) -> Self {
        let complaint = Complaint { file: file.to_owned(), place, message: message.into() };
        Self { complaints: vec![complaint], help: help.into(), is_system: false }
    }

    pub(super) fn system(file: &str, place: Place, error: &std::io::Error) -> Self {
        Self { is_system: true, ..Self::at(file, place, format!("cannot read: {error}"), "") }
    }
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.complaints.iter().map(ToString::to_string).collect();
        f.write_str(&lines.join("\n"))?;
        if self.help.is_empty() { Ok(()) } else { write!(f, "\n  help: {}", self.help) }
    }
}

impl std::error::Error for TraceError {}

/// What was read, and what was not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Events.
    pub records: u64,
    /// Records that were left out, by reason.
    pub skipped: BTreeMap<String, u64>,
    /// Lines that make no sense; at most [`MAX_COMPLAINTS`].
    pub complaints: Vec<Complaint>,
    /// Records whose offset or length was no multiple of 512 and was rounded outward.
    pub rounded: u64,
    /// Worth knowing, each once.
    pub notes: Vec<String>,
    /// As [`Options::skip_damaged`].
    pub(super) skips_damaged: bool,
}

impl Tally {
    pub(super) fn skip(&mut self, reason: &str) {
        // Reasons may quote the file: it decides how many differ, but not how many are kept.
        let is_kept = self.skipped.contains_key(reason) || self.skipped.len() < MAX_REASONS;
        let reason = if is_kept { reason } else { "other reasons" };
        *self.skipped.entry(reason.to_owned()).or_default() += 1;
    }

    /// Leaves a record out that makes no sense, where that is wanted; the first few are told.
    pub(super) fn skip_damaged(&mut self, error: TraceError) -> Result<(), TraceError> {
        if !self.skips_damaged || error.is_system {
            return Err(error);
        }
        let room = MAX_COMPLAINTS - self.complaints.len().min(MAX_COMPLAINTS);
        self.complaints.extend(error.complaints.into_iter().take(room));
        self.skip(DAMAGED);
        Ok(())
    }

    pub(super) fn note(&mut self, note: impl Into<String>) {
        let note = note.into();
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// How many were left out.
    pub fn skipped_records(&self) -> u64 {
        self.skipped.values().sum()
    }
}

/// A format's own reader: items as the file has them.
pub(super) trait Raw {
    /// The next item, or nothing at the end.
    fn next(&mut self, tally: &mut Tally) -> Result<Option<Item>, TraceError>;
    /// The file and the place of the item that was answered last.
    fn place(&self) -> (&str, Place);
}

/// A trace being read.
pub struct Reading {
    raw: Box<dyn Raw>,
    format: &'static Format,
    tally: Tally,
    /// What came in order of time waits here,
    in_order: VecDeque<Waiting>,
    /// and what came late here.
    late: BinaryHeap<Reverse<Waiting>>,
    arrived: u64,
    latest_ns: Nanos,
    given_ns: Nanos,
    is_over: bool,
}

/// An item in the window, ordered by time and arrival.
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

/// The format of a file that begins like this, if it is known. Files that fit several are of the one that explains more of
/// their lines, then of the first in the list.
pub fn detect(begin: &[u8]) -> Option<&'static Format> {
    let scored = FORMATS.iter().map(|format| ((format.fits)(begin), format)).filter(|(score, _)| *score > 0);
    scored.reduce(|best, next| if next.0 > best.0 { next } else { best }).map(|(_, format)| format)
}

/// The format of a name.
pub fn format_of_name(name: &str) -> Option<&'static Format> {
    FORMATS.iter().find(|format| format.name == name)
}

impl Reading {
    /// Begins to read `sources`: one file, or one per processor of a blktrace.
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
            is_over: false,
        }
    }

    /// The format.
    pub fn format(&self) -> &'static Format {
        self.format
    }

    /// What was read so far.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// The next item in order of time. Names come before what they are names of.
    ///
    /// # Errors
    /// The file cannot be read any further; nothing follows.
    pub fn next_item(&mut self) -> Result<Option<Item>, TraceError> {
        while !self.is_over && self.in_order.len() + self.late.len() < WINDOW_ITEMS {
            let Some(item) = self.raw.next(&mut self.tally).inspect_err(|_| self.is_over = true)? else {
                self.is_over = true;
                break;
            };
            let Some(item) = self.checked(item) else { continue };
            let Some(at_ns) = item.at_ns() else { return Ok(Some(item)) };
            if at_ns.saturating_add(BACK_NS) < self.latest_ns || at_ns < self.given_ns {
                let error = self.went_back(at_ns);
                self.tally.skip_damaged(error).inspect_err(|_| self.is_over = true)?;
                continue;
            }
            self.arrived += 1;
            let waiting = Waiting { at_ns, arrived: self.arrived, item };
            // Most files are in order: a heap of all would move each of its items a dozen times.
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
        Ok(Some(item))
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

    /// Rules for sizes of formats without stages: what stages say is the kernel's own.
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
