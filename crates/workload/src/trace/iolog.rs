//! fio's I/O logs: versions 1 to 3 are read, version 3 is written.
//!
//! ```text
//! 3   fio version 3 iolog        10374 f read 56582144 4096       microseconds since the start
//! 2   fio version 2 iolog        f read 56582144 4096 | f wait 500000 0
//! 1   0,56582144,4096            rw,offset,length
//! ```
//! For `wait` in version 2, fio's documentation and its behaviour differ; [`Wait`] selects one.
//! Source: docs/specifications/harness.md, section 9.4.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;

use hoistway_block::time::MILLISECOND;
use hoistway_block::{DeviceNumber, Flags, Nanos, Operation};

use super::formats::Format;
use super::lines::{LineError, LineFormat, Lines, Named, fields, fits, number};
use super::read::{Options, Wait};
use super::record::{Item, Record};

/// Versions 2 and 3.
pub const FORMAT: Format = Format {
    name: "iolog",
    doc: "fio's iolog, versions 2 and 3",
    has_stages: false,
    fits: |begin| fits(IoLog::new(Options::default()), begin),
    open: |sources, options| {
        let help = "a line is 10374 FILE read 56582144 4096 (version 3) or FILE read 56582144 4096 (version 2)";
        Box::new(Lines::new(IoLog::new(options), sources, help))
    },
};

/// Version 1.
pub const FIRST_VERSION: Format = Format {
    name: "iolog1",
    doc: "fio's iolog, version 1: rw,offset,length",
    has_stages: false,
    fits: |begin| fits(First, begin),
    open: |sources, _| Box::new(Lines::new(First, sources, "a line is 0,56582144,4096")),
};

struct First;

impl LineFormat for First {
    fn line(&mut self, line: &str, to: &mut VecDeque<Item>) -> Result<(), LineError> {
        let [kind, offset, length] = fields(line)[..] else {
            return Err(LineError::Wrong("not 3 fields".to_owned()));
        };
        let operation = match kind {
            "0" => Operation::Read,
            "1" => Operation::Write,
            "2" => Operation::Discard,
            _ => return Err(LineError::Wrong("the kind is neither 0 nor 1".to_owned())),
        };
        let record = Record::io(0, operation, number(offset, "the offset")?, number(length, "the length")?);
        to.push_back(Item::Record(direct(record)));
        Ok(())
    }
}

/// Gives writes the flags of direct writes, because fio replays a log past the page cache. IDLE is
/// one of them: Linux expects further requests after a direct write.
fn direct(record: Record) -> Record {
    let flags = if record.operation == Operation::Write { Flags::SYNC.with(Flags::IDLE) } else { record.flags };
    Record { flags, ..record }
}

#[derive(Copy, Clone, PartialEq, Eq)]
enum Version {
    Unknown,
    Second,
    Third,
}

struct IoLog {
    version: Version,
    wait: Wait,
    has_waits: bool,
    at_ns: Nanos,
    files: Named,
    /// Whether each known file is open.
    is_open: BTreeMap<u32, bool>,
}

impl IoLog {
    fn new(options: Options) -> Self {
        let (files, is_open) = (Named::default(), BTreeMap::new());
        Self { version: Version::Unknown, wait: options.wait, has_waits: false, at_ns: 0, files, is_open }
    }

    fn begin(&mut self, line: &str) -> Result<(), LineError> {
        self.version = match line.trim() {
            "fio version 3 iolog" => Version::Third,
            "fio version 2 iolog" => Version::Second,
            _ => return Err(LineError::Wrong("the first line is not a 'fio version 3 iolog'".to_owned())),
        };
        Err(LineError::Nothing)
    }

    fn wait(&mut self, amount: &str) -> Result<(), LineError> {
        if self.version == Version::Third {
            return Err(LineError::Wrong("version 3 has no wait".to_owned()));
        }
        let amount: u64 = number(amount, "the wait")?;
        let at_ns = match self.wait {
            Wait::Documented => amount.checked_mul(1_000).and_then(|ns| ns.checked_add(self.at_ns)),
            Wait::AsFio => amount.checked_mul(MILLISECOND),
        };
        self.at_ns = at_ns.ok_or_else(|| LineError::Wrong("the wait is beyond 2^64 ns".to_owned()))?;
        self.has_waits = true;
        Ok(())
    }

    /// Handles an action on the file itself.
    fn manage(&mut self, file: &str, action: &str, to: &mut VecDeque<Item>) -> Result<(), LineError> {
        let (number, is_new) = self.files.number(file)?;
        if is_new {
            let device = DeviceNumber { major: 0, minor: number };
            to.push_back(Item::Device { device, name: file.to_owned() });
        }
        let known = self.is_open.get(&number).copied();
        match (action, known) {
            ("add", None) => self.is_open.insert(number, false),
            // fio itself adds some files twice.
            ("add", Some(_)) => None,
            ("open", Some(_)) => self.is_open.insert(number, true),
            ("close", Some(true)) => self.is_open.insert(number, false),
            ("close", Some(false)) => return Err(LineError::Wrong("the file is closed already".to_owned())),
            _ => return Err(LineError::Wrong(format!("{action} of a file that was not added"))),
        };
        Ok(())
    }

    fn transfer(&mut self, file: &str, action: &str, range: (&str, &str)) -> Result<Record, LineError> {
        let known = self.files.number(file).ok().map(|(number, _)| number);
        let minor = known.filter(|number| self.is_open.get(number) == Some(&true));
        let minor = minor.ok_or_else(|| LineError::Wrong(format!("{action} of a file that is not open")))?;
        let operation = match action {
            "read" => Operation::Read,
            "write" => Operation::Write,
            "trim" => Operation::Discard,
            "sync" | "datasync" | "sync_file_range" => Operation::Flush,
            _ => {
                return Err(LineError::Skip(format!("unknown action {}", action.chars().take(16).collect::<String>())));
            }
        };
        let record = Record::io(self.at_ns, operation, number(range.0, "the offset")?, number(range.1, "the length")?);
        Ok(direct(Record { device: DeviceNumber { major: 0, minor }, ..record }))
    }
}

impl LineFormat for IoLog {
    fn line(&mut self, line: &str, to: &mut VecDeque<Item>) -> Result<(), LineError> {
        if self.version == Version::Unknown {
            return self.begin(line);
        }
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let mut words = &words[..];
        if self.version == Version::Third {
            let [time, rest @ ..] = words else { return Err(LineError::Nothing) };
            let time_us: u64 = number(time, "the timestamp")?;
            let at_ns = time_us.checked_mul(1_000);
            self.at_ns = at_ns.ok_or_else(|| LineError::Wrong("the timestamp is beyond 2^64 ns".to_owned()))?;
            words = rest;
        }
        match words {
            [file, action @ ("add" | "open" | "close"), ..] => self.manage(file, action, to),
            [_, "wait", amount, ..] => self.wait(amount),
            [file, action, offset, length] => {
                to.push_back(Item::Record(self.transfer(file, action, (offset, length))?));
                Ok(())
            }
            _ => Err(LineError::Wrong("neither FILE ACTION nor FILE ACTION OFFSET LENGTH".to_owned())),
        }
    }

    fn note(&self) -> Option<String> {
        let meaning = match self.wait {
            Wait::Documented => "microseconds, as documented; --iolog-wait fio takes them as fio 3.33 does",
            Wait::AsFio => "milliseconds since the begin, as fio 3.33 does",
        };
        self.has_waits.then(|| format!("the log has waits: taken as {meaning}"))
    }
}

/// Writes version 3, with one file name per device.
#[derive(Clone, Debug, Default)]
pub struct Writer {
    begin_ns: Option<Nanos>,
    last_us: u64,
    /// Files that were added.
    open: BTreeSet<String>,
}

impl Writer {
    /// A log whose times count from `begin_ns`, or from its first I/O if that is `None`.
    pub fn since(begin_ns: Option<Nanos>) -> Self {
        Self { begin_ns, ..Self::default() }
    }

    /// The first line of a log.
    pub const BEGIN: &'static str = "fio version 3 iolog\n";

    /// The line of an I/O to `file`, including the line end, preceded by the lines that open the
    /// file on first use. `None` if fio has no word for the operation. `file` must not contain
    /// blanks.
    pub fn line(&mut self, record: &Record, file: &str) -> Option<String> {
        let action = match record.operation {
            Operation::Read => "read",
            Operation::Write | Operation::WriteZeroes | Operation::ZoneAppend => "write",
            Operation::Discard | Operation::SecureErase => "trim",
            Operation::Flush => "sync",
            Operation::Passthrough => return None,
        };
        self.last_us = record.at_ns.saturating_sub(*self.begin_ns.get_or_insert(record.at_ns)) / 1_000;
        let (offset, length) =
            if record.operation == Operation::Flush { (0, 0) } else { (record.offset_bytes, record.length_bytes) };
        let at_us = self.last_us;
        let mut line = String::new();
        if !self.open.contains(file) {
            self.open.insert(file.to_owned());
            line = format!("{at_us} {file} add\n{at_us} {file} open\n");
        }
        let _ = writeln!(line, "{at_us} {file} {action} {offset} {length}");
        Some(line)
    }

    /// The last lines of a log.
    pub fn end(&self) -> String {
        self.open.iter().map(|file| format!("{} {file} close\n", self.last_us)).collect()
    }
}
