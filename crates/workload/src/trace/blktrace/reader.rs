//! Merges the files of all CPUs in the order in which blkparse prints them.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::io::Read;

use hoistway_block::{DeviceNumber, Nanos, SECTOR_BYTES};

use super::super::formats::Format;
use super::super::read::{Place, Raw, Source, Tally, TraceError};
use super::super::record::{Detail, Item, Record};
use super::{CODES, GROUP_MARK, HEADER_BYTES, MAGIC_AND_VERSION, Notice, category, kind_of};
use crate::trace::Action;

/// The format.
pub const FORMAT: Format = Format {
    name: "blktrace",
    doc: "blktrace, binary: BASE.blktrace.0, .1, ...; either byte order",
    has_stages: true,
    fits,
    open: |sources, _| Box::new(Reader { streams: sources.into_iter().map(Stream::new).collect(), last: 0, turns: 0 }),
};

/// Maximum number of CPUs; more than Linux supports.
const MAX_CPU: u32 = 8_192;
const HELP: &str = "--skip-damaged goes on behind it; is it a file of blktrace? text of blkparse is read as well, but not mixed with this";
/// Longer payloads indicate damage: a message has at most 128 bytes, a command 260.
const LONGEST_PAYLOAD_BYTES: u16 = 4_096;

fn fits(begin: &[u8]) -> usize {
    let word = begin.first_chunk::<4>();
    // A file of another version is recognised too, so that the reader can report it.
    let is_ours = |word: u32| word >> 8 == MAGIC_AND_VERSION >> 8;
    let is_ours = word.is_some_and(|word| is_ours(u32::from_le_bytes(*word)) || is_ours(u32::from_be_bytes(*word)));
    if is_ours { usize::MAX } else { 0 }
}

/// Reads all files of a trace.
struct Reader {
    streams: Vec<Stream>,
    /// Index of the file of the last item.
    last: usize,
    /// Number of events that have been requested from the files so far.
    turns: u64,
}

impl Raw for Reader {
    fn next(&mut self, tally: &mut Tally) -> Result<Option<Item>, TraceError> {
        for index in 0..self.streams.len() {
            let stream = &mut self.streams[index];
            while stream.head.is_none() && !stream.is_over {
                // The turn is the number of the event that is requested. Notify records do not take
                // part in the order of events, so the file keeps its turn while it returns them.
                let turn = *stream.turn.get_or_insert_with(|| {
                    self.turns += 1;
                    self.turns
                });
                if let Some(notice) = stream.fill(turn, tally)? {
                    self.last = index;
                    return Ok(Some(notice));
                }
            }
        }
        let heads = self.streams.iter().enumerate();
        let first = heads.filter_map(|(index, stream)| Some((stream.head.as_ref()?.0, index))).min();
        let Some((_, index)) = first else { return Ok(None) };
        self.last = index;
        Ok(self.streams[index].head.take().map(|(_, item)| item))
    }

    fn place(&self) -> (&str, Place) {
        self.streams.get(self.last).map_or(("", Place::Byte(0)), |stream| (&stream.source.name, stream.record))
    }
}

/// Order of events: by time; among equal times, the event of the file that was read last comes
/// first, as in blkparse.
type Key = (Nanos, Reverse<u64>);

/// One file.
struct Stream {
    source: Source,
    /// Whether its words are in the other byte order than this machine's; unknown before the first
    /// record.
    is_swapped: Option<bool>,
    /// Start of the next record.
    at_byte: u64,
    /// Start of the last record, and the length of its payload.
    record: Place,
    payload_bytes: u16,
    /// Buffer for payloads, kept to be reused.
    payload: Vec<u8>,
    /// Bytes that are read again, because the payload that contained them was none.
    again: VecDeque<u8>,
    /// Whether a record has been read.
    has_record: bool,
    head: Option<(Key, Item)>,
    /// Number of the event that was requested from this file, over all files; it decides between
    /// equal times.
    turn: Option<u64>,
    is_over: bool,
}

/// The words of a record in the byte order of this machine.
struct Header {
    sequence: u32,
    at_ns: Nanos,
    sector: u64,
    bytes: u32,
    action: u32,
    pid: u32,
    device: u32,
    cpu: u32,
    error: u16,
}

impl Stream {
    fn new(source: Source) -> Self {
        let record = Place::Byte(0);
        Self {
            source,
            is_swapped: None,
            at_byte: 0,
            record,
            payload_bytes: 0,
            payload: Vec::new(),
            again: VecDeque::new(),
            has_record: false,
            head: None,
            turn: None,
            is_over: false,
        }
    }

    /// Reads the next record. An event becomes the head; a name, a message or a clock notice is
    /// returned.
    fn fill(&mut self, turn: u64, tally: &mut Tally) -> Result<Option<Item>, TraceError> {
        let mut header = [0; HEADER_BYTES];
        let read = self.read(&mut header)?;
        if read < HEADER_BYTES {
            // The remaining bytes may be something other than a record.
            if read >= 4
                && let Err(error) = self.check_magic(&header)
            {
                tally.skip_damaged(error)?;
            }
            self.ends(read > 0, tally);
            return Ok(None);
        }
        if let Err(error) = self.check(&header, tally.skips_damaged) {
            tally.skip_damaged(error)?;
            if !self.find_record(&mut header)? {
                self.ends(false, tally);
                return Ok(None);
            }
        }
        let mut payload = std::mem::take(&mut self.payload);
        let (header, payload_bytes) = loop {
            self.has_record = true;
            self.record = Place::Byte(self.at_byte);
            let (parsed, payload_bytes) = self.parse(&header);
            self.payload_bytes = payload_bytes;
            payload.resize(usize::from(payload_bytes), 0);
            let read = self.read(&mut payload)?;
            if read == payload.len() {
                break (parsed, payload_bytes);
            }
            payload.truncate(read);
            if !self.holds_record(&payload) {
                self.ends(true, tally);
                return Ok(None);
            }
            let message = format!("a payload of {payload_bytes} bytes, but {read} follow, and records are among them");
            tally.skip_damaged(TraceError::at(&self.source.name, self.record, message, HELP))?;
            self.again.extend(&payload);
            if !self.find_record(&mut header)? {
                self.ends(false, tally);
                return Ok(None);
            }
        };
        self.at_byte += HEADER_BYTES as u64 + u64::from(payload_bytes);
        let item = self.item(&header, &payload, tally);
        self.payload = payload;
        match item {
            Ok(Some(event)) if event.at_ns().is_some() => {
                self.turn = None;
                self.head = Some(((header.at_ns, Reverse(turn)), event));
                Ok(None)
            }
            Ok(notice) => Ok(notice),
            Err(error) => tally.skip_damaged(error).map(|()| None),
        }
    }

    /// Whether the bytes contain the begin of a record.
    fn holds_record(&self, bytes: &[u8]) -> bool {
        let word = if self.is_swapped == Some(true) { MAGIC_AND_VERSION.swap_bytes() } else { MAGIC_AND_VERSION };
        bytes.windows(4).any(|window| *window == word.to_ne_bytes())
    }

    /// Checks the magic number. If damaged records are skipped, the length of the payload must be
    /// plausible as well.
    fn check(&mut self, header: &[u8; HEADER_BYTES], is_strict: bool) -> Result<(), TraceError> {
        self.check_magic(header)?;
        let (_, payload_bytes) = self.parse(header);
        if is_strict && payload_bytes > LONGEST_PAYLOAD_BYTES {
            let message = format!("a payload of {payload_bytes} bytes");
            return Err(TraceError::at(&self.source.name, Place::Byte(self.at_byte), message, HELP));
        }
        Ok(())
    }

    /// Searches byte by byte for the next header after a damaged record; returns whether there is
    /// one.
    fn find_record(&mut self, header: &mut [u8; HEADER_BYTES]) -> Result<bool, TraceError> {
        loop {
            header.copy_within(1.., 0);
            if self.read(&mut header[HEADER_BYTES - 1..])? == 0 {
                return Ok(false);
            }
            self.at_byte += 1;
            // If the very first word was damaged, the byte order is unknown and both are accepted.
            let word = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]);
            let (is_own, is_other) = (word == MAGIC_AND_VERSION, word.swap_bytes() == MAGIC_AND_VERSION);
            let is_ours = match (self.is_swapped, self.has_record) {
                (Some(is_swapped), true) => {
                    if is_swapped {
                        is_other
                    } else {
                        is_own
                    }
                }
                _ => is_own || is_other,
            };
            if is_ours {
                if !self.has_record {
                    self.is_swapped = Some(is_other);
                }
                if self.check(header, true).is_ok() {
                    return Ok(true);
                }
            }
        }
    }

    fn ends(&mut self, is_cut: bool, tally: &mut Tally) {
        self.is_over = true;
        if is_cut {
            let (name, at) = (&self.source.name, Place::Byte(self.at_byte));
            tally.note(format!("{name}:{at}: the last record is cut off and left out"));
        }
    }

    /// Reads until `to` is full or the file ends; returns the number of bytes.
    fn read(&mut self, to: &mut [u8]) -> Result<usize, TraceError> {
        let mut done = 0;
        while let Some(slot) = to.get_mut(done)
            && let Some(byte) = self.again.pop_front()
        {
            *slot = byte;
            done += 1;
        }
        while done < to.len() {
            match self.source.content.read(&mut to[done..]) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(TraceError::system(&self.source.name, Place::Byte(self.at_byte), &error)),
            }
        }
        Ok(done)
    }

    fn check_magic(&mut self, header: &[u8; HEADER_BYTES]) -> Result<(), TraceError> {
        let raw = [header[0], header[1], header[2], header[3]];
        let (own, other) = (u32::from_ne_bytes(raw), u32::from_ne_bytes(raw).swap_bytes());
        let is_swapped = *self.is_swapped.get_or_insert(other >> 8 == MAGIC_AND_VERSION >> 8);
        let (word, turned) = if is_swapped { (other, own) } else { (own, other) };
        if word == MAGIC_AND_VERSION {
            return Ok(());
        }
        let at = Place::Byte(self.at_byte);
        let fail = |message: String, help: &str| Err(TraceError::at(&self.source.name, at, message, help));
        if word >> 8 == MAGIC_AND_VERSION >> 8 {
            let message = format!("a record of version {}; known is {}", word & 0xff, MAGIC_AND_VERSION & 0xff);
            return fail(message, "");
        }
        let hint = match () {
            () if turned == MAGIC_AND_VERSION => "; it looks byte-swapped, unlike those before".to_owned(),
            () if raw.iter().all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace()) => {
                "; it looks like text".to_owned()
            }
            () if self.payload_bytes > 0 => {
                let before = self.record;
                format!("; the record before, at {before}, claims a payload of {} bytes", self.payload_bytes)
            }
            () => String::new(),
        };
        fail(format!("bad magic {word:#010x}, not {MAGIC_AND_VERSION:#010x}{hint}"), HELP)
    }

    fn parse(&self, header: &[u8; HEADER_BYTES]) -> (Header, u16) {
        let is_swapped = self.is_swapped == Some(true);
        let bytes = |at: usize| -> [u8; 8] { std::array::from_fn(|index| header[(at + index).min(HEADER_BYTES - 1)]) };
        let long = |at: usize| u64::from_ne_bytes(bytes(at));
        let long = |at: usize| if is_swapped { long(at).swap_bytes() } else { long(at) };
        let word = |at: usize| u32::from_ne_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let word = |at: usize| if is_swapped { word(at).swap_bytes() } else { word(at) };
        let half = |at: usize| u16::from_ne_bytes([header[at], header[at + 1]]);
        let half = |at: usize| if is_swapped { half(at).swap_bytes() } else { half(at) };
        let parsed = Header {
            sequence: word(4),
            at_ns: long(8),
            sector: long(16),
            bytes: word(24),
            action: word(28),
            pid: word(32),
            device: word(36),
            cpu: word(40),
            error: half(44),
        };
        (parsed, half(46))
    }

    fn item(&self, header: &Header, payload: &[u8], tally: &mut Tally) -> Result<Option<Item>, TraceError> {
        let device = DeviceNumber { major: header.device >> 20, minor: header.device & 0xf_ffff };
        let (group, payload) = match payload.split_first_chunk::<8>() {
            Some((group, rest)) if header.action & GROUP_MARK != 0 => (self.own_u64(*group), rest),
            _ => (0, payload),
        };
        let categories = u16::try_from(header.action >> 16).unwrap_or(u16::MAX);
        let is_notice = categories & category::NOTIFY != 0;
        let cpu = u16::try_from(header.cpu).ok().filter(|_| header.cpu < MAX_CPU);
        // The tracing file system leaves the processor of notify records uninitialised.
        let Some(cpu) = cpu.or(is_notice.then_some(0)) else {
            let message = format!("a record of processor {}", header.cpu);
            return Err(TraceError::at(&self.source.name, self.record, message, HELP));
        };
        let code = header.action.to_le_bytes()[0];
        if is_notice {
            let notice = self.notice(code, header, payload).or_else(|| {
                let is_message = code == Notice::Message as u8;
                is_message.then(|| Item::Message {
                    at_ns: header.at_ns,
                    device,
                    cpu,
                    sequence: header.sequence,
                    group,
                    text: String::from_utf8_lossy(payload).trim_end_matches('\0').to_owned(),
                })
            });
            if notice.is_none() {
                tally.skip(&format!("notice {code}"));
            }
            return Ok(notice);
        }
        let Some((_, action, _)) = CODES.iter().find(|(known, ..)| *known == code) else {
            let what = match code {
                16 => "aborted",
                17 => "driver data",
                _ => "unknown action",
            };
            tally.skip(what);
            return Ok(None);
        };
        let Some(offset_bytes) = header.sector.checked_mul(SECTOR_BYTES) else {
            tally.skip("sector beyond 2^64 bytes");
            return Ok(None);
        };
        let length_bytes = u64::from(header.bytes);
        let (operation, flags) = kind_of(categories, length_bytes);
        let record = Record {
            action: *action,
            flags,
            device,
            pid: header.pid,
            cpu,
            group,
            error: header.error,
            sequence: header.sequence,
            detail: detail_of(*action, payload),
            categories: categories & category::KIND,
            ..Record::io(header.at_ns, operation, offset_bytes, length_bytes)
        };
        Ok(Some(Item::Record(record)))
    }

    /// Parses the name of a process or a clock notice; `None` for other notices.
    fn notice(&self, code: u8, header: &Header, payload: &[u8]) -> Option<Item> {
        if code == Notice::Process as u8 {
            let end = payload.iter().position(|byte| *byte == 0).unwrap_or(payload.len());
            let name = String::from_utf8_lossy(&payload[..end]).into_owned();
            return Some(Item::Process { pid: header.pid, name });
        }
        if code != Notice::Timestamp as u8 {
            return None;
        }
        let (seconds, rest) = payload.split_first_chunk::<4>()?;
        let ns = rest.first_chunk::<4>()?;
        let unix_ns = u64::from(self.own_u32(*seconds)) * 1_000_000_000 + u64::from(self.own_u32(*ns));
        Some(Item::Clock { at_ns: header.at_ns, unix_ns })
    }

    fn own_u32(&self, bytes: [u8; 4]) -> u32 {
        let word = u32::from_ne_bytes(bytes);
        if self.is_swapped == Some(true) { word.swap_bytes() } else { word }
    }

    fn own_u64(&self, bytes: [u8; 8]) -> u64 {
        let word = u64::from_ne_bytes(bytes);
        if self.is_swapped == Some(true) { word.swap_bytes() } else { word }
    }
}

/// Parses the details in a payload, all of which are big-endian.
fn detail_of(action: Action, payload: &[u8]) -> Detail {
    let long = |at: usize| payload.get(at..).and_then(|rest| rest.first_chunk::<8>()).map(|it| u64::from_be_bytes(*it));
    let word = |at: usize| payload.get(at..).and_then(|rest| rest.first_chunk::<4>()).map(|it| u32::from_be_bytes(*it));
    match action {
        Action::Unplugged | Action::UnpluggedByTimer => long(0).map_or(Detail::None, Detail::Requests),
        Action::Split => long(0).map_or(Detail::None, Detail::NextSector),
        Action::Remapped => match (word(0), long(8)) {
            (Some(device), Some(sector)) => {
                Detail::From { device: DeviceNumber { major: device >> 20, minor: device & 0xf_ffff }, sector }
            }
            _ => Detail::None,
        },
        _ => Detail::None,
    }
}
