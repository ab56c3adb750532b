//! The text of bcc's biosnoop and of perf-tools' iosnoop: one line per I/O, printed when it completes.
//!
//! ```text
//! TIME(s)     COMM           PID    DISK    T SECTOR     BYTES  LAT(ms)
//! 0.000004    supervise      1950   xvda1   W 13092560   4096      0.74
//! STARTs          ENDs            COMM         PID    TYPE DEV      BLOCK        BYTES     LATms
//! 5982800.302061  5982800.302679  supervise    1809   W    202,1    17039600     4096       0.62
//! ```
//! `biosnoop -Q` has the time in the queue before the latency. The order of the columns is that of
//! the header; without one it is that of biosnoop. Source: the examples that both programs ship.

use std::collections::VecDeque;

use hoistway_block::time::{MILLISECOND, SECOND};
use hoistway_block::{Nanos, Operation};

use super::blkparse::rwbs;
use super::formats::Format;
use super::lines::{LineError, LineFormat, Lines, Named, decimal_ns, fits, number, put, sectors};
use super::record::{Item, Record};

/// The format.
pub const FORMAT: Format = Format {
    name: "biosnoop",
    doc: "biosnoop (bcc) and iosnoop (perf-tools), their lines",
    has_stages: false,
    fits: |begin| fits(Parser::default(), begin),
    open: |sources, _| {
        let help = "a line is TIME COMM PID DISK T SECTOR BYTES [QUE] LAT; of iosnoop, -s adds the time";
        Box::new(Lines::new(Parser::default(), sources, help))
    },
};

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Column {
    /// Seconds at completion.
    End,
    /// Seconds at issue.
    Start,
    Process,
    Pid,
    Disk,
    Kind,
    Sector,
    Bytes,
    /// Milliseconds in the queue, before the latency.
    Queue,
    /// Milliseconds from issue to completion.
    Latency,
    Other,
}

/// The columns of biosnoop, without and with `-Q`.
const USUAL: [Column; 8] = [
    Column::End,
    Column::Process,
    Column::Pid,
    Column::Disk,
    Column::Kind,
    Column::Sector,
    Column::Bytes,
    Column::Latency,
];

impl Column {
    fn of_heading(heading: &str) -> Column {
        match heading {
            "TIME(s)" | "TIME" | "ENDs" => Column::End,
            "STARTs" => Column::Start,
            "COMM" => Column::Process,
            "PID" => Column::Pid,
            "DISK" | "DEV" => Column::Disk,
            "T" | "TYPE" => Column::Kind,
            "SECTOR" | "BLOCK" => Column::Sector,
            "BYTES" => Column::Bytes,
            "QUE(ms)" => Column::Queue,
            "LAT(ms)" | "LATms" => Column::Latency,
            _ => Column::Other,
        }
    }
}

#[derive(Default)]
struct Parser {
    /// The columns of the header.
    columns: Vec<Column>,
    disks: Named,
    names: std::collections::BTreeMap<u32, String>,
}

/// The words of a line by column.
struct Words<'a> {
    columns: &'a [Column],
    words: Vec<&'a str>,
    /// Words of the process's name, which may contain blanks.
    name_words: usize,
}

impl<'a> Words<'a> {
    fn of(columns: &'a [Column], line: &'a str) -> Result<Self, LineError> {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let name_words = (words.len() + 1).checked_sub(columns.len()).filter(|count| *count > 0);
        let name_words = name_words.ok_or_else(|| LineError::Wrong("columns are missing".to_owned()))?;
        Ok(Self { columns, words, name_words })
    }

    fn get(&self, column: Column) -> Option<&'a str> {
        let at = self.columns.iter().position(|it| *it == column)?;
        let name_at = self.columns.iter().position(|it| *it == Column::Process);
        let behind_name = name_at.is_some_and(|name_at| at > name_at);
        self.words.get(if behind_name { at + self.name_words - 1 } else { at }).copied()
    }

    fn process(&self) -> Option<String> {
        let at = self.columns.iter().position(|it| *it == Column::Process)?;
        Some(self.words[at..at + self.name_words].join(" "))
    }

    fn need(&self, column: Column, what: &str) -> Result<&'a str, LineError> {
        self.get(column).ok_or_else(|| LineError::Wrong(format!("{what} is missing")))
    }

    /// Time of issue, modulo 2^64 ns: the first I/Os of biosnoop were issued before its time 0.
    fn issued_ns(&self, latency_ns: Nanos) -> Result<Nanos, LineError> {
        match (self.get(Column::Start), self.get(Column::End)) {
            (Some(start), _) => decimal_ns(start, SECOND, "the time"),
            (None, Some(end)) => Ok(decimal_ns(end, SECOND, "the time")?.wrapping_sub(latency_ns)),
            (None, None) => Err(LineError::Wrong("there is no time; iosnoop -s prints it".to_owned())),
        }
    }
}

impl LineFormat for Parser {
    fn line(&mut self, line: &str, to: &mut VecDeque<Item>) -> Result<(), LineError> {
        // `^C` is the terminal's echo of the key that ended the program.
        if line.starts_with("Tracing ") || line.starts_with("Ending tracing") || line.starts_with("^C") {
            return Err(LineError::Nothing);
        }
        let headings: Vec<Column> = line.split_ascii_whitespace().map(Column::of_heading).collect();
        if [Column::Pid, Column::Bytes].iter().all(|column| headings.contains(column)) {
            self.columns = headings;
            return Err(LineError::Nothing);
        }
        let columns = if self.columns.is_empty() { usual(line) } else { self.columns.clone() };
        let words = Words::of(&columns, line)?;
        let kind = words.need(Column::Kind, "the kind of I/O")?;
        let bytes: u64 = number(words.need(Column::Bytes, "the length")?, "the length")?;
        let latency_ns = match words.get(Column::Latency) {
            Some(text) => Some(decimal_ns(text, MILLISECOND, "the latency")?),
            None => None,
        };
        let disk = words.need(Column::Disk, "the disk")?;
        let sector = words.need(Column::Sector, "the sector")?;
        let pid: u32 = number(words.need(Column::Pid, "the pid")?, "the pid")?;
        let at_ns = words.issued_ns(latency_ns.unwrap_or(0))?;
        let Some((operation, flags)) = kind_of(kind, bytes) else {
            return Err(LineError::Skip(format!("unknown kind of I/O {}", kind.chars().take(8).collect::<String>())));
        };
        if sector == NO_SECTOR || sector == "-1" {
            return Err(LineError::Skip("passthrough".to_owned()));
        }
        let offset_bytes = if operation == Operation::Flush { 0 } else { sectors(sector, "the sector")? };
        if let Some(name) = words.process().filter(|name| self.names.get(&pid) != Some(name)) {
            if self.names.len() == MAX_PROCESSES {
                self.names.clear();
            }
            self.names.insert(pid, name.clone());
            to.push_back(Item::Process { pid, name });
        }
        let record = Record { pid, flags, latency_ns, ..Record::io(at_ns, operation, offset_bytes, bytes) };
        put(record, disk, &mut self.disks, to)
    }
}

/// The sector of a request without one, a command that is passed through: -1, which older versions print unsigned.
const NO_SECTOR: &str = "18446744073709551615";

/// Maximum number of process names that are remembered.
const MAX_PROCESSES: usize = 65_536;

/// The columns of a line without a header: the kind is five columns from the end if the time in the
/// queue is printed, else four.
fn usual(line: &str) -> Vec<Column> {
    let from_end = |count: usize| line.split_ascii_whitespace().rev().nth(count - 1);
    let mut columns = USUAL.to_vec();
    if from_end(4).is_none_or(|word| kind_of(word, 1).is_none())
        && from_end(5).is_some_and(|it| kind_of(it, 1).is_some())
    {
        columns.insert(USUAL.len() - 1, Column::Queue);
    }
    columns
}

fn kind_of(kind: &str, bytes: u64) -> Option<(Operation, hoistway_block::Flags)> {
    match kind {
        // The letter of a flush alone.
        "F" | "N" if bytes == 0 => Some((Operation::Flush, hoistway_block::Flags::SYNC)),
        "R" | "W" | "D" => {
            let operation = [("R", Operation::Read), ("W", Operation::Write), ("D", Operation::Discard)];
            let found = operation.into_iter().find(|(letter, _)| *letter == kind);
            found.map(|(_, operation)| (operation, Record::io(0, operation, 0, 0).flags))
        }
        _ => rwbs(kind).map(|(operation, flags)| (if bytes == 0 { Operation::Flush } else { operation }, flags)),
    }
}
