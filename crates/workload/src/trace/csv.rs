//! Hoistway's own CSV format: one I/O per line with everything that replay can use, including
//! groups.
//!
//! ```text
//! time_ns,device,op,offset_bytes,length_bytes,flags,pid,comm,cpu,group,latency_ns
//! 1000,8:0,write,4096,8192,FS,1042,fio,0,tenants/db,73511
//! ```
//! Flags are letters, mostly blkparse's: P preflush (blkparse's leading F), F FUA, A read-ahead, S
//! sync, M metadata, I idle (blkparse has no letter for it). An empty latency means unknown.

use std::collections::{BTreeMap, VecDeque};

use hoistway_block::{DeviceNumber, Flags, Operation};

use super::formats::Format;
use super::lines::{LineError, LineFormat, Lines, Named, fits, number};
use super::record::{Item, Record};

/// The format.
pub const FORMAT: Format = Format {
    name: "csv",
    doc: "our own table: time_ns,device,op,offset_bytes,length_bytes,flags,pid,comm,cpu,group,latency_ns",
    has_stages: false,
    fits: |begin| fits(Parser::default(), begin),
    open: |sources, _| {
        Box::new(Lines::new(Parser::default(), sources, "a line is 1000,8:0,write,4096,8192,S,1042,fio,0,db,73511"))
    },
};

/// The header line.
pub const HEADER: &str = "time_ns,device,op,offset_bytes,length_bytes,flags,pid,comm,cpu,group,latency_ns";

const OPERATIONS: [(&str, Operation); 5] = [
    ("read", Operation::Read),
    ("write", Operation::Write),
    ("discard", Operation::Discard),
    ("flush", Operation::Flush),
    ("write-zeroes", Operation::WriteZeroes),
];

const LETTERS: [(char, Flags); 6] = [
    ('P', Flags::PREFLUSH),
    ('F', Flags::FUA),
    ('A', Flags::READAHEAD),
    ('S', Flags::SYNC),
    ('M', Flags::META),
    ('I', Flags::IDLE),
];

#[derive(Default)]
struct Parser {
    has_header: bool,
    devices: Named,
    groups: Named,
    names: BTreeMap<u32, String>,
}

/// Splits a line into fields, which may be quoted.
fn split(line: &str) -> Result<Vec<String>, LineError> {
    let mut fields = vec![String::new()];
    let mut is_quoted = false;
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        let field = fields.last_mut().ok_or(LineError::Nothing)?;
        match letter {
            '"' if is_quoted && letters.next_if_eq(&'"').is_some() => field.push('"'),
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => fields.push(String::new()),
            other => field.push(other),
        }
    }
    if is_quoted { Err(LineError::Wrong("a quote is not closed".to_owned())) } else { Ok(fields) }
}

impl LineFormat for Parser {
    fn line(&mut self, line: &str, to: &mut VecDeque<Item>) -> Result<(), LineError> {
        if !self.has_header {
            self.has_header = line.trim() == HEADER;
            return if self.has_header {
                Err(LineError::Nothing)
            } else {
                Err(LineError::Wrong("no header".to_owned()))
            };
        }
        let fields = split(line)?;
        let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
        let [time, device, operation, offset, length, flags, pid, comm, cpu, group, latency] = fields[..] else {
            return Err(LineError::Wrong("not 11 fields".to_owned()));
        };
        let known = OPERATIONS.iter().find(|(name, _)| *name == operation);
        let (_, operation) = known.ok_or_else(|| LineError::Wrong("the op is unknown".to_owned()))?;
        let mut set = Flags::NONE;
        for letter in flags.chars() {
            let known = LETTERS.iter().find(|(known, _)| *known == letter);
            set = set.with(known.ok_or_else(|| LineError::Wrong("a flag is unknown".to_owned()))?.1);
        }
        let latency_ns = if latency.is_empty() { None } else { Some(number(latency, "the latency")?) };
        let pid: u32 = number(pid, "the pid")?;
        let io = Record::io(
            number(time, "the time")?,
            *operation,
            number(offset, "the offset")?,
            number(length, "the length")?,
        );
        let cpu = number(cpu, "the processor")?;
        let device = self.device(device, to)?;
        let group = self.group(group, to)?;
        self.name(pid, comm, to);
        to.push_back(Item::Record(Record { flags: set, pid, cpu, latency_ns, device, group, ..io }));
        Ok(())
    }
}

impl Parser {
    /// Parses a device: `8:0` is a device number, anything else a name.
    fn device(&mut self, text: &str, to: &mut VecDeque<Item>) -> Result<DeviceNumber, LineError> {
        let parts = text.split_once(':').and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
        match parts {
            Some((major, minor)) if major > 0 && major < 1 << 12 && minor < 1 << 20 => {
                Ok(DeviceNumber { major, minor })
            }
            _ => self.devices.device(text, to),
        }
    }

    fn group(&mut self, name: &str, to: &mut VecDeque<Item>) -> Result<u64, LineError> {
        if name.is_empty() {
            return Ok(0);
        }
        let (number, is_new) = self.groups.number(name)?;
        let group = u64::from(number) + 1;
        if is_new {
            to.push_back(Item::Group { group, name: name.to_owned() });
        }
        Ok(group)
    }

    fn name(&mut self, pid: u32, name: &str, to: &mut VecDeque<Item>) {
        if name.is_empty() || self.names.get(&pid).is_some_and(|known| known == name) {
            return;
        }
        if self.names.len() == 65_536 {
            self.names.clear();
        }
        self.names.insert(pid, name.to_owned());
        to.push_back(Item::Process { pid, name: name.to_owned() });
    }
}

/// The names that a line contains.
#[derive(Copy, Clone, Debug, Default)]
pub struct LineNames<'a> {
    /// Name of the device.
    pub device: &'a str,
    /// Name of the process; empty if unknown.
    pub process: &'a str,
    /// Name of the group; empty if there is none.
    pub group: &'a str,
}

/// The line of an I/O, including the line end; `None` for a passthrough request.
pub fn line(record: &Record, names: LineNames<'_>) -> Option<String> {
    let operation = match record.operation {
        Operation::ZoneAppend => Operation::Write,
        Operation::SecureErase => Operation::Discard,
        other => other,
    };
    let (operation, _) = OPERATIONS.iter().find(|(_, known)| *known == operation)?;
    let flags: String =
        LETTERS.iter().filter(|(_, flag)| record.flags.contains(*flag)).map(|(letter, _)| letter).collect();
    let latency = record.latency_ns.map_or_else(String::new, |latency_ns| latency_ns.to_string());
    let Record { at_ns, offset_bytes, length_bytes, pid, cpu, .. } = record;
    let [device, process, group] = [names.device, names.process, names.group].map(quoted);
    Some(format!(
        "{at_ns},{device},{operation},{offset_bytes},{length_bytes},{flags},{pid},{process},{cpu},{group},{latency}\n"
    ))
}

/// Quotes a field if necessary; line ends become blanks.
fn quoted(text: &str) -> String {
    let text = text.replace(['\n', '\r'], " ");
    if text.contains([',', '"']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}
