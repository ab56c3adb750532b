//! VMware's vscsiStats traces, both versions: binary, little-endian, records of 32 or 40 bytes.
//!
//! ```text
//! version 1   sn 4 | length 4 | segments 4 | command 2 | version 2 | block 8 | time_us 8
//! version 2   command 2 | version 2 | sn 4 | length 4 | segments 4 | block 8 | time_us 8 | response_us 8
//! ```
//! Source: docs/specifications/harness.md, section 9.5.

use std::io::{self, Read};

use hoistway_block::SECTOR_BYTES;

use super::formats::Format;
use super::read::{Place, Raw, Source, Tally, TraceError};
use super::record::{Item, Record};
use super::scsi;

/// The format.
pub const FORMAT: Format = Format {
    name: "vscsi",
    doc: "VMware vscsiStats, binary, versions 1 and 2",
    has_stages: false,
    fits,
    open: |sources, _| Box::new(Reader::new(sources)),
};

const HELP: &str = "the file is damaged (--skip-damaged), or no vscsi trace";

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Layout {
    First,
    Second,
}

const LAYOUTS: [Layout; 2] = [Layout::First, Layout::Second];

impl Layout {
    const fn bytes(self) -> usize {
        match self {
            Layout::First => 32,
            Layout::Second => 40,
        }
    }

    const fn number(self) -> u16 {
        match self {
            Layout::First => 1,
            Layout::Second => 2,
        }
    }

    fn version(self, record: &[u8]) -> [u8; 2] {
        let at = match self {
            Layout::First => 14,
            Layout::Second => 2,
        };
        [record[at], record[at + 1]]
    }

    /// Whether the version field of a record matches this layout.
    fn is_of(self, record: &[u8]) -> bool {
        u16::from_le_bytes(self.version(record)) >> 8 == self.number()
    }

    fn parse(self, record: &[u8]) -> Fields {
        let word = |at: usize| u32::from_le_bytes([record[at], record[at + 1], record[at + 2], record[at + 3]]);
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        let command = |at: usize| u16::from_le_bytes([record[at], record[at + 1]]);
        match self {
            Layout::First => {
                Fields { length: word(4), command: command(12), block: long(16), time_us: long(24), response_us: None }
            }
            Layout::Second => Fields {
                length: word(8),
                command: command(0),
                block: long(16),
                time_us: long(24),
                response_us: Some(long(32)),
            },
        }
    }
}

struct Fields {
    length: u32,
    command: u16,
    block: u64,
    time_us: u64,
    response_us: Option<u64>,
}

fn fits(begin: &[u8]) -> usize {
    layout_of(begin).map_or(0, |layout| begin.len() / layout.bytes())
}

/// The layout that matches the first two records, or the only record.
fn layout_of(begin: &[u8]) -> Option<Layout> {
    LAYOUTS.into_iter().find(|layout| {
        let mut records = begin.chunks_exact(layout.bytes()).take(2);
        let is_alone = begin.len() < 2 * layout.bytes();
        let has_known = |record: &[u8]| layout.parse(record).command <= 0xff;
        let first = records.next().is_some_and(|record| layout.is_of(record) && has_known(record));
        first && (records.next().is_some_and(|record| layout.is_of(record)) || is_alone)
    })
}

struct Reader {
    source: Source,
    layout: Option<Layout>,
    at_byte: u64,
    /// Offset of the last record.
    last_byte: u64,
    /// Bytes that were read to detect the layout.
    begin: io::Cursor<Vec<u8>>,
}

impl Reader {
    fn new(sources: Vec<Source>) -> Self {
        let empty = || Source { name: String::new(), content: Box::new(io::empty()) };
        let source = sources.into_iter().next().unwrap_or_else(empty);
        Self { source, layout: None, at_byte: 0, last_byte: 0, begin: io::Cursor::new(Vec::new()) }
    }

    fn find_layout(&mut self) -> Result<Layout, TraceError> {
        let mut begin = Vec::new();
        let read = self.source.content.by_ref().take(80).read_to_end(&mut begin);
        read.map_err(|error| TraceError::system(&self.source.name, Place::Byte(0), &error))?;
        let layout = layout_of(&begin).ok_or_else(|| {
            let hint = if looks_swapped(&begin) { "; it looks byte-swapped" } else { "" };
            let message = format!("neither a record of version 1 (32 bytes) nor of version 2 (40 bytes){hint}");
            TraceError::at(&self.source.name, Place::Byte(0), message, "vscsi traces are little-endian")
        })?;
        self.begin = io::Cursor::new(begin);
        self.layout = Some(layout);
        Ok(layout)
    }
}

fn looks_swapped(begin: &[u8]) -> bool {
    LAYOUTS.into_iter().any(|layout| {
        let first = begin.chunks_exact(layout.bytes()).next();
        first.is_some_and(|record| u16::from_be_bytes(layout.version(record)) >> 8 == layout.number())
    })
}

impl Raw for Reader {
    fn next(&mut self, tally: &mut Tally) -> Result<Option<Item>, TraceError> {
        let layout = match self.layout {
            Some(layout) => layout,
            None => self.find_layout()?,
        };
        loop {
            let mut record = Vec::with_capacity(layout.bytes());
            let mut rest = self.begin.by_ref().chain(self.source.content.by_ref());
            let read = rest.by_ref().take(layout.bytes() as u64).read_to_end(&mut record);
            read.map_err(|error| TraceError::system(&self.source.name, Place::Byte(self.at_byte), &error))?;
            if record.is_empty() {
                return Ok(None);
            }
            let at = Place::Byte(self.at_byte);
            if record.len() < layout.bytes() {
                tally.note(format!("{}:{at}: the last record is cut off and left out", self.source.name));
                return Ok(None);
            }
            if !layout.is_of(&record) {
                let message = format!("not a record of version {}, as those before are", layout.number());
                let error = TraceError::at(&self.source.name, at, message, HELP);
                tally.skip_damaged(error)?;
                self.at_byte += layout.bytes() as u64;
                continue;
            }
            self.last_byte = self.at_byte;
            self.at_byte += layout.bytes() as u64;
            let Fields { length, command, block, time_us, response_us } = layout.parse(&record);
            let Some(operation) = scsi::operation_of(command) else {
                tally.skip(&format!("SCSI command {command:#04x}"));
                continue;
            };
            let (Some(at_ns), Some(offset_bytes)) = (time_us.checked_mul(1_000), block.checked_mul(SECTOR_BYTES))
            else {
                let message = "time or position beyond 2^64";
                tally.skip_damaged(TraceError::at(&self.source.name, at, message, HELP))?;
                continue;
            };
            let latency_ns = response_us.and_then(|response_us| response_us.checked_mul(1_000));
            let record = Record::io(at_ns, operation, offset_bytes, u64::from(length));
            return Ok(Some(Item::Record(Record { latency_ns, ..record })));
        }
    }

    fn place(&self) -> (&str, Place) {
        (&self.source.name, Place::Byte(self.last_byte))
    }
}
