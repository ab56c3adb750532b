//! Functions that all text formats share: lines of bounded length, tolerance for a few wrong lines,
//! and parsing of numbers.

use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead, Read};

use hoistway_block::{DeviceNumber, Nanos, Operation};

use super::read::{MAX_READ_ERRORS, Place, Raw, ReadError, Source, Tally, TraceError};
use super::record::{Item, Record};

/// Maximum length of a line.
const LINE_BYTES: u64 = 64 << 10;
/// What some programs of Windows put before a text.
const BYTE_ORDER_MARK: &str = "\u{feff}";
/// Characters of a wrong line that are quoted in messages.
const QUOTED_CHARS: usize = 80;
/// Lines of a sample that are examined.
const SAMPLE_LINES: usize = 24;
/// Maximum number of different names of one kind.
const MAX_NAMES: usize = 65_536;

/// How a format parses one line.
pub(super) trait LineFormat {
    /// Parses a line that is not empty and appends the resulting items to `to`.
    fn line(&mut self, line: &str, to: &mut VecDeque<Item>) -> Result<(), LineError>;

    /// Called at the end of the file; appends items that were held back to `to`.
    fn end(&mut self, _to: &mut VecDeque<Item>) {}

    /// A note about the whole file.
    fn note(&self) -> Option<String> {
        None
    }
}

/// Why a line produced no item.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum LineError {
    /// A header or a comment.
    Nothing,
    /// Valid, but not an I/O that is kept.
    Skip(String),
    /// The trace ends before this line.
    Over,
    /// The line is wrong.
    Wrong(String),
}

/// Reads a text file.
pub(super) struct Lines<F> {
    format: F,
    source: Source,
    line: u64,
    buffer: Vec<u8>,
    ready: VecDeque<Item>,
    is_over: bool,
    help: &'static str,
}

impl<F: LineFormat> Lines<F> {
    pub(super) fn new(format: F, sources: Vec<Source>, help: &'static str) -> Self {
        let empty = || Source { name: String::new(), content: Box::new(std::io::empty()) };
        let source = sources.into_iter().next().unwrap_or_else(empty);
        let (buffer, ready) = (Vec::new(), VecDeque::new());
        Self { format, source, line: 0, buffer, ready, is_over: false, help }
    }

    /// Reads the next line into the buffer; returns whether there was one.
    fn fetch(&mut self, tally: &mut Tally) -> Result<bool, TraceError> {
        loop {
            let place = Place::Line(self.line + 1);
            let is_whole = self.fetch_part(place)?;
            self.line += u64::from(!self.buffer.is_empty());
            if self.line == 1 && self.buffer.starts_with(BYTE_ORDER_MARK.as_bytes()) {
                self.buffer.drain(..BYTE_ORDER_MARK.len());
            }
            if is_whole {
                return Ok(!self.buffer.is_empty());
            }
            let message = format!("a line of more than {LINE_BYTES} bytes");
            let help = "this is not text; is it a trace?";
            tally.skip_damaged(TraceError::at(&self.source.name, place, message, help))?;
            while !self.fetch_part(place)? {}
        }
    }

    /// Reads up to the end of a line, but at most the maximum length; returns whether the end was
    /// reached.
    fn fetch_part(&mut self, place: Place) -> Result<bool, TraceError> {
        self.buffer.clear();
        let failed = |error| TraceError::system(&self.source.name, place, &error);
        let read = self.source.content.by_ref().take(LINE_BYTES).read_until(b'\n', &mut self.buffer).map_err(failed)?;
        Ok((read as u64) < LINE_BYTES || self.buffer.last() == Some(&b'\n'))
    }

    fn record_error(&mut self, message: String, tally: &mut Tally) -> Result<(), TraceError> {
        let shown: String = String::from_utf8_lossy(&self.buffer).trim().chars().take(QUOTED_CHARS).collect();
        let message = format!("{message}: '{}'", shown.escape_debug());
        let error = ReadError { file: self.source.name.clone(), place: Place::Line(self.line), message };
        if tally.skips_damaged {
            return tally.skip_damaged(TraceError { errors: vec![error], help: String::new(), is_system: false });
        }
        if tally.errors.len() < MAX_READ_ERRORS {
            tally.errors.push(error);
            return Ok(());
        }
        let mut errors = std::mem::take(&mut tally.errors);
        errors.push(error);
        let help = format!("{}; --skip-damaged leaves such lines out", self.help);
        Err(TraceError { errors, help, is_system: false })
    }

    fn finish(&mut self, tally: &mut Tally) {
        self.is_over = true;
        self.format.end(&mut self.ready);
        if let Some(note) = self.format.note() {
            tally.note(note);
        }
    }
}

impl<F: LineFormat> Raw for Lines<F> {
    fn next(&mut self, tally: &mut Tally) -> Result<Option<Item>, TraceError> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Ok(Some(item));
            }
            if self.is_over {
                return Ok(None);
            }
            if !self.fetch(tally)? {
                self.finish(tally);
                continue;
            }
            let text = String::from_utf8_lossy(&self.buffer);
            let text = text.trim_end_matches(['\n', '\r']);
            if text.trim().is_empty() {
                continue;
            }
            match self.format.line(text, &mut self.ready) {
                Ok(()) | Err(LineError::Nothing) => {}
                Err(LineError::Skip(reason)) => tally.skip(&reason),
                Err(LineError::Over) => self.finish(tally),
                Err(LineError::Wrong(message)) => self.record_error(message, tally)?,
            }
        }
    }

    fn place(&self) -> (&str, Place) {
        (&self.source.name, Place::Line(self.line))
    }
}

/// The lines of a sample without an incomplete last one; empty if the sample is not text.
pub(super) fn sample_lines(begin: &[u8]) -> Vec<&str> {
    let whole = if begin.len() < super::read::SAMPLE_BYTES {
        begin
    } else {
        &begin[..begin.iter().rposition(|byte| *byte == b'\n').unwrap_or(0)]
    };
    let text = match std::str::from_utf8(whole) {
        Ok(text) => text,
        // Names need not be UTF-8; the text before them suffices.
        Err(error) => std::str::from_utf8(&whole[..error.valid_up_to()]).unwrap_or(""),
    };
    if text.contains('\0') {
        return Vec::new();
    }
    text.trim_start_matches(BYTE_ORDER_MARK).lines().filter(|line| !line.trim().is_empty()).collect()
}

/// Number of lines of a sample that a format can parse; 0 if fewer than half of them.
pub(super) fn fits(mut format: impl LineFormat, begin: &[u8]) -> usize {
    let (mut explained, mut looked_at) = (0, 0);
    let mut items = VecDeque::new();
    for line in sample_lines(begin) {
        if looked_at == SAMPLE_LINES {
            break;
        }
        looked_at += 1;
        match format.line(line, &mut items) {
            Ok(()) | Err(LineError::Skip(_)) => explained += 1,
            Err(LineError::Nothing) => looked_at -= 1,
            Err(LineError::Over) => break,
            Err(LineError::Wrong(_)) => {}
        }
    }
    if 2 * explained >= looked_at { explained } else { 0 }
}

/// Fields of a line of comma-separated values without surrounding blanks.
pub(super) fn fields(line: &str) -> Vec<&str> {
    line.split(',').map(str::trim).collect()
}

/// Parses an integer.
pub(super) fn number<T: std::str::FromStr>(text: &str, what: &str) -> Result<T, LineError> {
    text.parse().map_err(|_| LineError::Wrong(format!("{what} is not a number")))
}

/// Parses a number of sectors; returns bytes.
pub(super) fn sectors(text: &str, what: &str) -> Result<u64, LineError> {
    let sectors: u64 = number(text, what)?;
    sectors
        .checked_mul(hoistway_block::SECTOR_BYTES)
        .ok_or_else(|| LineError::Wrong(format!("{what} is beyond 2^64 bytes")))
}

/// Parses a decimal number, with or without a fraction, in units of `unit_ns` nanoseconds.
/// Fractions of a nanosecond are truncated.
pub(super) fn decimal_ns(text: &str, unit_ns: u64, what: &str) -> Result<Nanos, LineError> {
    let wrong = || LineError::Wrong(format!("{what} is not a time"));
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if !is_digits(whole) || !is_digits(fraction) || (whole.is_empty() && fraction.is_empty()) {
        return Err(wrong());
    }
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| wrong())? };
    let mut ns = whole.checked_mul(unit_ns).ok_or_else(wrong)?;
    let mut unit = unit_ns;
    // Exact, because units are powers of ten.
    for digit in fraction.bytes() {
        unit /= 10;
        ns = ns.checked_add(u64::from(digit - b'0') * unit).ok_or_else(wrong)?;
    }
    Ok(ns)
}

/// Parses `R`, `W`, `Read`, `write` in any case. Any other word is an operation to be skipped.
pub(super) fn direction(text: &str) -> Result<Operation, LineError> {
    match text {
        _ if text.eq_ignore_ascii_case("r") || text.eq_ignore_ascii_case("read") => Ok(Operation::Read),
        _ if text.eq_ignore_ascii_case("w") || text.eq_ignore_ascii_case("write") => Ok(Operation::Write),
        _ if text.len() <= 16 && text.bytes().all(|byte| byte.is_ascii_alphabetic()) && !text.is_empty() => {
            Err(LineError::Skip(format!("unknown operation {text}")))
        }
        _ => Err(LineError::Wrong("no operation".to_owned())),
    }
}

/// Assigns numbers to names in order of appearance.
#[derive(Clone, Debug, Default)]
pub(super) struct Named {
    known: BTreeMap<String, u32>,
}

impl Named {
    /// The number of a name, and whether the name is new.
    pub(super) fn number(&mut self, name: &str) -> Result<(u32, bool), LineError> {
        if let Some(known) = self.known.get(name) {
            return Ok((*known, false));
        }
        if self.known.len() == MAX_NAMES {
            return Err(LineError::Wrong(format!("more than {MAX_NAMES} different names")));
        }
        let number = u32::try_from(self.known.len()).unwrap_or(u32::MAX);
        self.known.insert(name.to_owned(), number);
        Ok((number, true))
    }

    /// The device of a name; emits [`Item::Device`] if it is new.
    pub(super) fn device(&mut self, name: &str, to: &mut VecDeque<Item>) -> Result<DeviceNumber, LineError> {
        let (minor, is_new) = self.number(name)?;
        let device = DeviceNumber { major: 0, minor };
        if is_new {
            to.push_back(Item::Device { device, name: name.to_owned() });
        }
        Ok(device)
    }
}

/// Emits an I/O, preceded by the name of its device if that is new.
pub(super) fn put(record: Record, device: &str, named: &mut Named, to: &mut VecDeque<Item>) -> Result<(), LineError> {
    let device = named.device(device, to)?;
    to.push_back(Item::Record(Record { device, ..record }));
    Ok(())
}

/// Whether a line is a header: its first field is not a number although one is expected.
pub(super) fn is_header(field: &str) -> bool {
    field.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'#' || byte == b'"')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimal_times_are_exact() {
        let ns = |text: &str, unit: u64| decimal_ns(text, unit, "t").ok();
        assert_eq!(ns("0.000774", 1_000_000_000), Some(774_000));
        assert_eq!(ns("4.851300", 1_000_000), Some(4_851_300));
        assert_eq!(ns(".015820", 1_000_000_000), Some(15_820_000));
        assert_eq!(ns("7", 1_000), Some(7_000));
        assert_eq!(ns("1.0000000019", 1_000_000_000), Some(1_000_000_001));
        for wrong in ["", ".", "-1", "1e3", "1.2.3", "99999999999999999999"] {
            assert_eq!(ns(wrong, 1_000_000_000), None, "{wrong}");
        }
    }
}
