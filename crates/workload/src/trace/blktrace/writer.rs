//! Writes the files of blktrace so that blkparse 1.2.0 accepts them.
//!
//! Numbers of files have no gap, times grow strictly within a file (equal ones are put 1 ns apart),
//! and the cgroup bit is never set. Source: docs/specifications/harness.md, section 9.2.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use hoistway_block::{DeviceNumber, Nanos, Operation};

use super::super::record::{Detail, Record};
use super::super::{Action, Event, Tracer};
use super::{CODES, HEADER_BYTES, MAGIC_AND_VERSION, Notice, categories_of, category};

/// Length of a process name in its record.
const NAME_BYTES: usize = 16;
/// Longest message that readers accept.
const MESSAGE_BYTES: usize = 127;

/// State of one CPU's records.
#[derive(Default)]
struct Stream {
    sequence: u32,
    /// Time of its last record.
    last_ns: Option<Nanos>,
}

/// Writes a set of files. The first error is kept and returned by [`Writer::finish`]; nothing is
/// written after it.
pub struct Writer {
    /// Base name of the files; `None` if all records go into one file.
    base: Option<PathBuf>,
    device: DeviceNumber,
    streams: Vec<Stream>,
    outs: Vec<BufWriter<File>>,
    failed: Option<io::Error>,
    records: u64,
}

impl Writer {
    /// Creates `BASE.blktrace.0`. `unix_time_ns` is the wall-clock time at time 0 of the trace.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn create(base: &Path, device: DeviceNumber, unix_time_ns: u64) -> io::Result<Self> {
        let mut writer = Self::over(Some(base.to_owned()), device, Vec::new());
        writer.open_up_to(0)?;
        writer.begin(unix_time_ns);
        Ok(writer)
    }

    /// Writes the records of all CPUs into one file, as `blktrace -o -` does.
    pub fn into_one(out: File, device: DeviceNumber, unix_time_ns: u64) -> Self {
        let mut writer = Self::over(None, device, vec![BufWriter::new(out)]);
        writer.begin(unix_time_ns);
        writer
    }

    fn over(base: Option<PathBuf>, device: DeviceNumber, outs: Vec<BufWriter<File>>) -> Self {
        Self { base, device, streams: Vec::new(), outs, failed: None, records: 0 }
    }

    fn begin(&mut self, unix_time_ns: u64) {
        let part = |value: u64| u32::try_from(value).unwrap_or(u32::MAX).to_ne_bytes();
        let payload = [part(unix_time_ns / 1_000_000_000), part(unix_time_ns % 1_000_000_000)].concat();
        self.notice((0, 0), Notice::Timestamp, 0, &payload);
    }

    /// Whether a write has failed; [`Writer::finish`] returns the error.
    pub fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// Path of the file of a CPU.
    pub fn path_of(base: &Path, cpu: u16) -> PathBuf {
        let mut name = base.as_os_str().to_owned();
        name.push(format!(".blktrace.{cpu}"));
        PathBuf::from(name)
    }

    /// Creates all files up to this number, because readers stop at the first missing one.
    fn open_up_to(&mut self, cpu: u16) -> io::Result<()> {
        while self.streams.len() <= usize::from(cpu) {
            if let Some(base) = &self.base {
                let number = u16::try_from(self.streams.len()).unwrap_or(u16::MAX);
                self.outs.push(BufWriter::new(File::create(Self::path_of(base, number))?));
            }
            self.streams.push(Stream::default());
        }
        Ok(())
    }

    /// Flushes all files and returns the number of records.
    ///
    /// # Errors
    /// The first error that occurred.
    pub fn finish(mut self) -> io::Result<u64> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        self.outs.iter_mut().try_for_each(Write::flush)?;
        Ok(self.records)
    }

    fn notice(&mut self, (cpu, at_ns): (u16, Nanos), notice: Notice, pid: u32, payload: &[u8]) {
        let action = u32::from(category::NOTIFY) << 16 | notice as u32;
        let header = Header { at_ns, sector: 0, bytes: 0, action, pid, device: self.device, error: 0 };
        self.put(cpu, &header, payload);
    }

    /// Writes a record of any trace; it gets the next sequence number of its file.
    pub fn record(&mut self, record: &Record) {
        let has_place = !matches!(record.action, Action::Plugged | Action::Unplugged | Action::UnpluggedByTimer);
        let header = Header {
            at_ns: record.at_ns,
            sector: if has_place { record.sector() } else { 0 },
            bytes: if has_place { u32::try_from(record.length_bytes).unwrap_or(u32::MAX) } else { 0 },
            action: action_word(record),
            pid: record.pid,
            device: record.device,
            error: record.error,
        };
        self.put(record.cpu, &header, &payload_of(record));
    }

    /// Writes a message of a CPU about a device; [`Tracer::message`] is for messages of a run.
    pub fn message_on(&mut self, at_ns: Nanos, (device, cpu): (DeviceNumber, u16), text: &str) {
        let longest = text.len().min(MESSAGE_BYTES);
        let end = (0..=longest).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
        let action = u32::from(category::NOTIFY) << 16 | Notice::Message as u32;
        self.put(
            cpu,
            &Header { at_ns, sector: 0, bytes: 0, action, pid: 0, device, error: 0 },
            &text.as_bytes()[..end],
        );
    }

    fn put(&mut self, cpu: u16, header: &Header, payload: &[u8]) {
        if self.failed.is_none()
            && let Err(error) = self.try_put(cpu, header, payload)
        {
            self.failed = Some(error);
        }
    }

    fn try_put(&mut self, cpu: u16, header: &Header, payload: &[u8]) -> io::Result<()> {
        self.open_up_to(cpu)?;
        let device = header.device.major << 20 | header.device.minor;
        let stream = &mut self.streams[usize::from(cpu)];
        stream.sequence += 1;
        // Many events of a simulation share one instant, but blkrawverify takes equal times for a
        // clock that went back.
        let at_ns = stream.last_ns.map_or(header.at_ns, |last_ns| header.at_ns.max(last_ns + 1));
        stream.last_ns = Some(at_ns);
        let length = u16::try_from(payload.len()).unwrap_or(u16::MAX);
        let mut record = Vec::with_capacity(HEADER_BYTES + payload.len());
        record.extend(MAGIC_AND_VERSION.to_ne_bytes());
        record.extend(stream.sequence.to_ne_bytes());
        record.extend(at_ns.to_ne_bytes());
        record.extend(header.sector.to_ne_bytes());
        for word in [header.bytes, header.action, header.pid, device, u32::from(cpu)] {
            record.extend(word.to_ne_bytes());
        }
        record.extend(header.error.to_ne_bytes());
        record.extend(length.to_ne_bytes());
        record.extend(payload);
        self.records += 1;
        let file = if self.base.is_some() { usize::from(cpu) } else { 0 };
        self.outs[file].write_all(&record)
    }
}

/// Fields of a record other than its sequence number and CPU.
struct Header {
    at_ns: Nanos,
    sector: u64,
    bytes: u32,
    action: u32,
    pid: u32,
    device: DeviceNumber,
    error: u16,
}

impl Tracer for Writer {
    fn process(&mut self, at_ns: Nanos, pid: u32, name: &str) {
        let mut payload = [0; NAME_BYTES];
        // The last byte stays 0 and terminates the name.
        for (place, byte) in payload[..NAME_BYTES - 1].iter_mut().zip(name.bytes()) {
            *place = byte;
        }
        self.notice((0, at_ns), Notice::Process, pid, &payload);
    }

    fn event(&mut self, event: &Event) {
        let Event { at_ns, cpu, pid, action, operation, flags, extent, error } = *event;
        // An event does not carry the number of requests that an unplug releases.
        let detail = if action == Action::Unplugged { Detail::Requests(0) } else { Detail::None };
        let io = Record::io(
            at_ns,
            operation,
            extent.first_sector.wrapping_mul(hoistway_block::SECTOR_BYTES),
            extent.bytes(),
        );
        self.record(&Record { cpu, pid, action, flags, error, detail, device: self.device, ..io });
    }

    fn message(&mut self, at_ns: Nanos, text: &str) {
        self.message_on(at_ns, (self.device, 0), text);
    }
}

fn action_word(record: &Record) -> u32 {
    let known = CODES.iter().find(|(_, action, _)| *action == record.action);
    let (code, stage) = known.map_or((0, 0), |(code, _, stage)| (*code, *stage));
    // Plug and unplug events describe no I/O, so they have no direction.
    if matches!(record.action, Action::Plugged | Action::Unplugged | Action::UnpluggedByTimer) {
        return u32::from(code) | u32::from(stage) << 16;
    }
    let kind = match record.categories {
        0 => categories_of(record.operation, record.flags),
        known => known,
    };
    // A passthrough command must not match a filter for file system I/O.
    let stage = if record.operation == Operation::Passthrough { stage & !category::FS } else { stage };
    u32::from(code) | u32::from(stage | kind) << 16
}

/// The payload of a record; big-endian, unlike the header.
fn payload_of(record: &Record) -> Vec<u8> {
    match record.detail {
        Detail::None => Vec::new(),
        Detail::Requests(number) | Detail::NextSector(number) => number.to_be_bytes().to_vec(),
        Detail::From { device, sector } => {
            let from = (device.major << 20 | device.minor).to_be_bytes();
            let to = (record.device.major << 20 | record.device.minor).to_be_bytes();
            [&from[..], &to, &sector.to_be_bytes()].concat()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoistway_block::{Extent, Flags};

    const DEVICE: DeviceNumber = DeviceNumber { major: 253, minor: 0 };

    fn event(action: Action, operation: Operation, flags: Flags) -> Event {
        Event { at_ns: 7, cpu: 0, pid: 1, action, operation, flags, extent: Extent::new(8, 16), error: 0 }
    }

    /// Action words from a trace of Linux 6.18.
    #[test]
    fn action_words_are_those_of_the_kernel() {
        let word = |action, operation, flags| {
            let Event { at_ns, .. } = event(action, operation, flags);
            action_word(&Record { action, flags, ..Record::io(at_ns, operation, 4096, 8192) })
        };
        assert_eq!(word(Action::Queued, Operation::Read, Flags::NONE), 0x0011_0001);
        assert_eq!(word(Action::Allocated, Operation::Read, Flags::NONE), 0x0011_0004);
        assert_eq!(word(Action::Inserted, Operation::Read, Flags::NONE), 0x0111_000c);
        assert_eq!(word(Action::Issued, Operation::Read, Flags::NONE), 0x0141_0007);
        assert_eq!(word(Action::Completed, Operation::Read, Flags::NONE), 0x0181_0008);
        assert_eq!(word(Action::Queued, Operation::Write, Flags::SYNC), 0x001a_0001);
        assert_eq!(word(Action::Plugged, Operation::Write, Flags::SYNC), 0x0010_0009);
        assert_eq!(word(Action::Unplugged, Operation::Read, Flags::NONE), 0x0010_000a);
    }

    #[test]
    fn trace_32_files_are_contiguous_from_0() {
        let directory = tempfile::tempdir().unwrap();
        let base = directory.path().join("t");
        let mut writer = Writer::create(&base, DEVICE, 0).unwrap();
        writer.event(&Event { cpu: 2, ..event(Action::Queued, Operation::Read, Flags::NONE) });
        assert_eq!(writer.finish().unwrap(), 2);
        let bytes = [0, 1, 2].map(|cpu| std::fs::metadata(Writer::path_of(&base, cpu)).unwrap().len());
        assert_eq!(bytes, [48 + 8, 0, 48]);
    }

    #[test]
    fn times_of_a_file_grow() {
        let directory = tempfile::tempdir().unwrap();
        let base = directory.path().join("t");
        let mut writer = Writer::create(&base, DEVICE, 0).unwrap();
        for at_ns in [7, 7, 7, 20] {
            writer.event(&Event { at_ns, ..event(Action::Queued, Operation::Read, Flags::NONE) });
        }
        writer.finish().unwrap();
        let bytes = std::fs::read(Writer::path_of(&base, 0)).unwrap();
        let time_of = |record: &[u8]| u64::from_ne_bytes(record[8..16].try_into().unwrap());
        assert_eq!(bytes[56..].chunks(48).map(time_of).collect::<Vec<_>>(), [7, 8, 9, 20]);
    }

    #[test]
    fn trace_33_a_message_has_no_cgroup_bit() {
        let directory = tempfile::tempdir().unwrap();
        let base = directory.path().join("t");
        let mut writer = Writer::create(&base, DEVICE, 0).unwrap();
        let text = "cfq19226S /cgrp7 sl_used=3 disp=1 charge=1 iops=1 sect=8";
        writer.message(14_157_613, text);
        writer.finish().unwrap();
        let bytes = std::fs::read(Writer::path_of(&base, 0)).unwrap();
        let record = &bytes[56..];
        assert_eq!(&record[28..32], (0x0400_0002_u32).to_ne_bytes());
        assert_eq!((&record[36..40], &record[48..]), (&(253_u32 << 20).to_ne_bytes()[..], text.as_bytes()));
    }
}
