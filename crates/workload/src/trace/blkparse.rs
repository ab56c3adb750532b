//! Reads and writes the default output of blkparse.
//!
//! ```text
//!   8,32   5        1     0.000000000 20111  A   R 4096034 + 256 <- (8,33) 4096000
//! maj,min cpu sequence      time          pid  what rwbs place [comm]
//! ```
//! The output equals that of blkparse 1.2.0 for the same records, except for the commands of
//! passthrough requests, which are not kept. Source: docs/specifications/harness.md, section 9.3.

use std::collections::{BTreeMap, VecDeque};

use hoistway_block::time::SECOND;
use hoistway_block::{DeviceNumber, Flags, Nanos, Operation, SECTOR_BYTES};

use super::Action;
use super::blktrace::{categories_of, category, kind_of};
use super::formats::Format;
use super::lines::{LineError, LineFormat, Lines, decimal_ns, fits, number, sectors};
use super::record::{Detail, EARLIEST_NS, Item, Record};

/// The format.
pub const FORMAT: Format = Format {
    name: "blkparse",
    doc: "blkparse, its default lines",
    has_stages: true,
    fits: |begin| fits(Parser::default(), begin),
    open: |sources, _| {
        let help = "a line is 8,32 1 4 0.000126108 22 C R 2097224 + 8 [0]; other forms of blkparse (-f) are not read";
        Box::new(Lines::new(Parser::default(), sources, help))
    },
};

/// Maximum number of process names that are remembered.
const MAX_PROCESSES: usize = 65_536;
/// First words of the lines of the summary that follows the events; the first is that of `-s`, below
/// the name of each program.
const SUMMARY: [&str; 6] = [" Reads Queued:", "CPU", "Total (", "Throughput (R/W)", "Events (", "Skips: "];
/// Start of a line that older versions print for each file.
const INPUT: &str = "Input file ";
/// What blkparse prints for the time 0 - 1 ns, plus 1 ns: it takes the difference of two times modulo
/// 2^64 ns, and prints its seconds modulo 2^34.
const WRAPPED_ZERO_NS: Nanos = 1_266_874_889_709_551_616;

#[derive(Default)]
struct Parser {
    names: BTreeMap<u32, String>,
    /// Number of lines with a time before the first event.
    early: u64,
}

/// Takes the next word from `rest`.
fn word<'a>(rest: &mut &'a str, what: &str) -> Result<&'a str, LineError> {
    let text = rest.trim_start();
    let end = text.find([' ', '\t']).unwrap_or(text.len());
    let (word, behind) = text.split_at(end);
    *rest = behind;
    if word.is_empty() { Err(LineError::Wrong(format!("{what} is missing"))) } else { Ok(word) }
}

impl LineFormat for Parser {
    fn line(&mut self, line: &str, to: &mut VecDeque<Item>) -> Result<(), LineError> {
        if SUMMARY.iter().any(|begin| line.starts_with(begin)) {
            return Err(LineError::Over);
        }
        if line.starts_with(INPUT) {
            return Err(LineError::Nothing);
        }
        if is_program(line) {
            // The summary of a program; the events are over, and its next line says so.
            return Err(LineError::Nothing);
        }
        let mut rest = line;
        let device = device_of(word(&mut rest, "the device")?)?;
        let cpu: u16 = number(word(&mut rest, "the processor")?, "the processor")?;
        let sequence: u32 = number(word(&mut rest, "the sequence")?, "the sequence")?;
        let mut at_ns = decimal_ns(word(&mut rest, "the time")?, SECOND, "the time")?;
        if (WRAPPED_ZERO_NS - EARLIEST_NS..WRAPPED_ZERO_NS).contains(&at_ns) {
            self.early += 1;
            at_ns = at_ns.wrapping_sub(WRAPPED_ZERO_NS);
        }
        let pid: u32 = number(word(&mut rest, "the pid")?, "the pid")?;
        let what = word(&mut rest, "the action")?;
        let marks = word(&mut rest, "the kind of I/O")?;
        if what == "m" {
            // One blank belongs to the format, further ones to the text.
            let text = rest.strip_prefix(' ').unwrap_or(rest).to_owned();
            to.push_back(Item::Message { at_ns, device, cpu, sequence, group: 0, text });
            return Ok(());
        }
        let action = match Action::of_text(if what == "T" { "UT" } else { what }) {
            Some(action) => action,
            None if what.len() <= 2 => return Err(LineError::Skip(format!("unknown action {what}"))),
            None => return Err(LineError::Wrong("the action is unknown".to_owned())),
        };
        let Some(categories) = categories_of_text(marks) else {
            return Err(LineError::Skip(format!("unknown kind of I/O {}", marks.chars().take(8).collect::<String>())));
        };
        let tail = LineTail::parse(action, rest.trim())?;
        if let Some(name) = tail.name {
            self.name(pid, name, to);
        }
        let (operation, flags) = kind_of(categories, tail.length_bytes);
        to.push_back(Item::Record(Record {
            action,
            flags,
            device,
            pid,
            cpu,
            sequence,
            error: tail.error,
            detail: tail.detail,
            categories,
            ..Record::io(at_ns, operation, tail.offset_bytes, tail.length_bytes)
        }));
        Ok(())
    }

    fn note(&self) -> Option<String> {
        let what = "before the first event, which blkparse prints as 1266874889.7...; the trace begins with them";
        (self.early > 0).then(|| format!("{} lines have times {what}", self.early))
    }
}

/// Whether the line names a program and its process, as in `fio (6775)` and `fio (6775, ...)`.
fn is_program(line: &str) -> bool {
    let inner = line.strip_suffix(')').and_then(|line| line.rsplit_once(" (")).map(|(_, inner)| inner);
    let pid = inner.and_then(|inner| inner.split([',', ' ']).next());
    pid.is_some_and(|pid| pid == "..." || !pid.is_empty() && pid.bytes().all(|byte| byte.is_ascii_digit()))
}

impl Parser {
    fn name(&mut self, pid: u32, name: &str, to: &mut VecDeque<Item>) {
        if name == "(null)" || self.names.get(&pid).is_some_and(|known| known == name) {
            return;
        }
        if self.names.len() == MAX_PROCESSES {
            self.names.clear();
        }
        self.names.insert(pid, name.to_owned());
        to.push_back(Item::Process { pid, name: name.to_owned() });
    }
}

/// Parses a device such as `8,32`.
fn device_of(text: &str) -> Result<DeviceNumber, LineError> {
    let parts = text.split_once(',').and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    match parts {
        Some((major, minor)) if major < 1 << 12 && minor < 1 << 20 => Ok(DeviceNumber { major, minor }),
        _ => Err(LineError::Wrong("no device, as 8,32".to_owned())),
    }
}

/// The text after the first seven columns.
#[derive(Default)]
struct LineTail<'a> {
    offset_bytes: u64,
    length_bytes: u64,
    name: Option<&'a str>,
    error: u16,
    detail: Detail,
}

/// Whether the text behind a parenthesis is the time since the stage before, in nanoseconds, that
/// `blkparse -t` prints in at least eight columns. The bytes of a command have two digits each.
fn is_elapsed(behind: &str) -> bool {
    let Some((inside, "")) = behind.trim_end().split_once(')') else { return false };
    let digits = inside.trim_start();
    inside.len() != 2 && !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

impl<'a> LineTail<'a> {
    fn parse(action: Action, rest: &'a str) -> Result<Self, LineError> {
        if action == Action::Remapped {
            return Self::remapped(rest);
        }
        let place_end = rest.find('[').unwrap_or(rest.len());
        let mut columns = &rest[..place_end];
        if let Some((before, parenthesis)) = columns.split_once('(') {
            if !is_elapsed(parenthesis) {
                // A passthrough request has its bytes and command here instead of a position.
                return Err(LineError::Skip("passthrough".to_owned()));
            }
            columns = before;
        }
        let mut tail = LineTail::default();
        let bracketed = match (rest.find('['), rest.rfind(']')) {
            (Some(begin), Some(end)) if begin < end => &rest[begin + 1..end],
            _ => return Err(LineError::Wrong("no [...] at the end".to_owned())),
        };
        let behind = rest[place_end + bracketed.len() + 2..].trim();
        match action {
            // Linux prints the error as 16 bits without a sign.
            Action::Completed | Action::Requeued => {
                let error: i32 = number(bracketed, "the error")?;
                tail.error = u16::try_from(error.rem_euclid(1 << 16)).unwrap_or(0);
            }
            _ => tail.name = Some(bracketed),
        }
        let place: Vec<&str> = columns.split_ascii_whitespace().collect();
        match (action, &place[..]) {
            (Action::Unplugged | Action::UnpluggedByTimer, []) => {
                tail.detail = Detail::Requests(number(behind, "the number of requests")?);
            }
            (Action::Split, [sector, "/", next]) => {
                tail.offset_bytes = sectors(sector, "the sector")?;
                tail.detail = Detail::NextSector(number(next, "the sector of the second half")?);
            }
            (_, [sector, "+", count]) => {
                tail.offset_bytes = sectors(sector, "the sector")?;
                tail.length_bytes = sectors(count, "the length")?;
            }
            (_, [sector]) => tail.offset_bytes = sectors(sector, "the sector")?,
            (_, []) => {}
            _ => return Err(LineError::Wrong("the place is not a 'sector + sectors'".to_owned())),
        }
        Ok(tail)
    }

    /// Parses a remap such as `4096034 + 256 <- (8,33) 4096000`.
    fn remapped(rest: &str) -> Result<Self, LineError> {
        let words: Vec<&str> = rest.split_ascii_whitespace().collect();
        let [sector, "+", count, "<-", from, from_sector] = words[..] else {
            return Err(LineError::Wrong("no 'sector + sectors <- (device) sector'".to_owned()));
        };
        let from = from.strip_prefix('(').and_then(|from| from.strip_suffix(')'));
        let device = device_of(from.unwrap_or(""))?;
        let detail = Detail::From { device, sector: number(from_sector, "the sector before")? };
        let (offset_bytes, length_bytes) = (sectors(sector, "the sector")?, sectors(count, "the length")?);
        Ok(LineTail { offset_bytes, length_bytes, detail, ..LineTail::default() })
    }
}

/// The kind of I/O that an rwbs field stands for: `R`, `WS`, `FWFSM`, `FN`, `DE`.
pub(super) fn rwbs(text: &str) -> Option<(Operation, Flags)> {
    categories_of_text(text).map(|categories| kind_of(categories, 1))
}

/// Accepts all letters that blkparse and the kernel's own tracer have printed since 2.6.16, in any
/// order after the first.
fn categories_of_text(text: &str) -> Option<u16> {
    use category as c;
    let mut letters = text.chars().peekable();
    let mut all = 0;
    if text.len() > 1 && letters.next_if_eq(&'F').is_some() {
        all |= c::FLUSH;
    }
    all |= match letters.next()? {
        'R' => c::READ,
        'W' => c::WRITE,
        'D' => c::DISCARD | c::WRITE,
        // A zone append (6.18) is a write; other zone operations move no data.
        'Z' if letters.next() == Some('A') => c::WRITE,
        'N' => 0,
        _ => return None,
    };
    for letter in letters {
        all |= match letter {
            'F' => c::FUA,
            'A' => c::AHEAD,
            'S' => c::SYNC,
            'M' => c::META,
            // A barrier (until 2.6.36): a flush before the write, and the write itself is flushed.
            'B' => c::FLUSH | c::FUA,
            // Secure erase is treated as a discard. Kernels 2.6.36 to 4.9 put the letter after all
            // others.
            'E' => c::DISCARD | c::WRITE,
            // An atomic write (6.11); no write is ever torn here, so nothing has to be recorded.
            'U' => 0,
            _ => return None,
        };
    }
    Some(all)
}

/// Formats items as blkparse prints them.
#[derive(Clone, Debug, Default)]
pub struct Printer {
    names: BTreeMap<u32, String>,
    /// Time of the first line, which is printed as 0.
    begin_ns: Option<Nanos>,
}

impl Printer {
    /// Appends the line of an item to `to`, including the line end. Names produce no line; they are
    /// remembered.
    pub fn put_line(&mut self, item: &Item, to: &mut Vec<u8>) {
        match item {
            Item::Record(record) => self.record(record, to),
            Item::Message { at_ns, device, cpu, text, .. } => {
                head(*device, *cpu, 0, self.since_begin(*at_ns), 0, to);
                to.extend(b"  m   N ");
                to.extend(text.as_bytes());
            }
            Item::Process { pid, name } => {
                // Like blkparse, keeps the first name of a process.
                self.names.entry(*pid).or_insert_with(|| name.clone());
                return;
            }
            Item::Device { .. } | Item::Group { .. } | Item::Clock { .. } => return,
        }
        to.push(b'\n');
    }

    fn since_begin(&mut self, at_ns: Nanos) -> Nanos {
        at_ns - *self.begin_ns.get_or_insert(at_ns)
    }

    fn record(&mut self, record: &Record, to: &mut Vec<u8>) {
        let since_begin_ns = self.since_begin(record.at_ns);
        head(record.device, record.cpu, record.sequence, since_begin_ns, record.pid, to);
        let action = record.action.text();
        to.push(b' ');
        padded(action, 2, to);
        to.push(b' ');
        letters(record, to);
        to.push(b' ');
        let sectors = record.length_bytes / SECTOR_BYTES;
        let place = |to: &mut Vec<u8>| {
            if sectors > 0 {
                decimal(record.sector(), 0, to);
                to.extend(b" + ");
                decimal(sectors, 0, to);
                to.push(b' ');
            }
        };
        match (record.action, record.detail) {
            (Action::Plugged, _) => self.name(record.pid, to),
            (Action::Unplugged | Action::UnpluggedByTimer, detail) => {
                self.name(record.pid, to);
                to.push(b' ');
                decimal(if let Detail::Requests(requests) = detail { requests } else { 0 }, 0, to);
            }
            (Action::Split, detail) => {
                decimal(record.sector(), 0, to);
                to.extend(b" / ");
                decimal(if let Detail::NextSector(next) = detail { next } else { 0 }, 0, to);
                to.push(b' ');
                self.name(record.pid, to);
            }
            (Action::Remapped, Detail::From { device, sector: from }) => {
                decimal(record.sector(), 0, to);
                to.extend(b" + ");
                decimal(sectors, 0, to);
                to.extend(b" <- (");
                decimal(device.major.into(), 0, to);
                to.push(b',');
                decimal(device.minor.into(), 0, to);
                to.extend(b") ");
                decimal(from, 0, to);
            }
            (Action::Completed | Action::Requeued, _) => {
                if sectors > 0 {
                    place(to);
                } else {
                    decimal(record.sector(), 0, to);
                    to.push(b' ');
                }
                to.push(b'[');
                decimal(record.error.into(), 0, to);
                to.push(b']');
            }
            _ => {
                place(to);
                self.name(record.pid, to);
            }
        }
    }

    fn name(&self, pid: u32, to: &mut Vec<u8>) {
        to.push(b'[');
        to.extend(self.names.get(&pid).map_or("(null)", String::as_str).as_bytes());
        to.push(b']');
    }
}

/// Formats the columns `  8,32   5        1     0.000000000 20111`. Written by hand, because
/// `format!` took most of the time of `trace cat`.
fn head(device: DeviceNumber, cpu: u16, sequence: u32, at_ns: Nanos, pid: u32, to: &mut Vec<u8>) {
    decimal(device.major.into(), 3, to);
    to.push(b',');
    let begin = to.len();
    decimal(device.minor.into(), 0, to);
    to.resize(to.len().max(begin + 3), b' ');
    to.push(b' ');
    decimal(cpu.into(), 2, to);
    to.push(b' ');
    decimal(sequence.into(), 8, to);
    to.push(b' ');
    decimal(at_ns / SECOND, 5, to);
    to.push(b'.');
    let begin = to.len();
    to.resize(begin + 9, b'0');
    let mut ns = at_ns % SECOND;
    for place in to[begin..].iter_mut().rev() {
        *place = digit(ns);
        ns /= 10;
    }
    to.push(b' ');
    decimal(pid.into(), 5, to);
}

/// Appends a number, right-aligned in at least `width` columns.
fn decimal(mut value: u64, width: usize, to: &mut Vec<u8>) {
    // 2^64 has 20 digits.
    let mut digits = [b' '; 20];
    let mut begin = digits.len();
    loop {
        begin -= 1;
        digits[begin] = digit(value);
        value /= 10;
        if value == 0 {
            break;
        }
    }
    to.extend(&digits[begin.min(digits.len() - width)..]);
}

fn digit(value: u64) -> u8 {
    b"0123456789"[(value % 10) as usize]
}

fn padded(text: &str, width: usize, to: &mut Vec<u8>) {
    to.resize(to.len() + width.saturating_sub(text.len()), b' ');
    to.extend(text.as_bytes());
}

fn letters(record: &Record, to: &mut Vec<u8>) {
    use category as c;
    // Plug and unplug events describe no I/O.
    let categories = match (record.action, record.categories) {
        (Action::Plugged | Action::Unplugged | Action::UnpluggedByTimer, categories) => categories,
        (_, 0) => categories_of(record.operation, record.flags),
        (_, known) => known,
    };
    let has = |bit: u16| categories & bit != 0;
    let direction = match () {
        () if has(c::DISCARD) => 'D',
        () if has(c::WRITE) => 'W',
        () if record.length_bytes > 0 => 'R',
        () => 'N',
    };
    let mut letters = String::with_capacity(8);
    if has(c::FLUSH) {
        letters.push('F');
    }
    letters.push(direction);
    for (bit, letter) in [(c::FUA, 'F'), (c::AHEAD, 'A'), (c::SYNC, 'S'), (c::META, 'M')] {
        if has(bit) {
            letters.push(letter);
        }
    }
    padded(&letters, 3, to);
}
