//! The binary files of blktrace (`BASE.blktrace.0`, `.1`, ...), as blkparse, btt and iowatcher read them.
//!
//! ```text
//! record  magic 4 | sequence 4 | time_ns 8 | sector 8 | bytes 4 | action 4 | pid 4 | device 4 | cpu 4 | error 2 | n 2 | payload n
//! ```
//! One file per processor, numbers without a hole, each in strict order of time (equal times are put 1 ns apart); in the
//! writer's byte order. Source: Linux include/uapi/linux/blktrace_api.h; what readers insist on is that of blktrace 1.2.0.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use block::{Flags, Nanos, Operation};

use super::{Action, Event, Tracer};

const MAGIC_AND_VERSION: u32 = 0x6561_7407;
/// Name of a process in its record.
const NAME_BYTES: usize = 16;
/// Longest message a reader takes.
const MESSAGE_BYTES: usize = 127;

mod category {
    pub(super) const READ: u32 = 0x0001;
    pub(super) const WRITE: u32 = 0x0002;
    pub(super) const FLUSH: u32 = 0x0004;
    pub(super) const SYNC: u32 = 0x0008;
    pub(super) const QUEUE: u32 = 0x0010;
    pub(super) const REQUEUE: u32 = 0x0020;
    pub(super) const ISSUE: u32 = 0x0040;
    pub(super) const COMPLETE: u32 = 0x0080;
    pub(super) const FS: u32 = 0x0100;
    pub(super) const PASSTHROUGH: u32 = 0x0200;
    pub(super) const NOTIFY: u32 = 0x0400;
    pub(super) const AHEAD: u32 = 0x0800;
    pub(super) const META: u32 = 0x1000;
    pub(super) const DISCARD: u32 = 0x2000;
    pub(super) const FUA: u32 = 0x8000;
}

/// Codes of records that are no I/O.
#[derive(Copy, Clone)]
enum Notice {
    Process = 0,
    Timestamp = 1,
    Message = 2,
}

/// The device a trace is of.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct DeviceNumber {
    /// Major number, below 4,096.
    pub major: u32,
    /// Minor number, below 2^20.
    pub minor: u32,
}

struct Stream {
    out: BufWriter<File>,
    sequence: u32,
    /// Time of its last record.
    last_ns: Option<Nanos>,
}

/// Writes a set of files. The first error is kept and given by [`Writer::finish`]; nothing is written after it.
pub struct Writer {
    base: PathBuf,
    device: DeviceNumber,
    streams: Vec<Stream>,
    failed: Option<io::Error>,
    records: u64,
}

impl Writer {
    /// Begins `BASE.blktrace.0`. `unix_time_ns` is the wall clock's at time 0 of the trace.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn create(base: &Path, device: DeviceNumber, unix_time_ns: u64) -> io::Result<Self> {
        let mut writer = Self { base: base.to_owned(), device, streams: Vec::new(), failed: None, records: 0 };
        writer.open_up_to(0)?;
        let part = |value: u64| u32::try_from(value).unwrap_or(u32::MAX).to_ne_bytes();
        let payload = [part(unix_time_ns / 1_000_000_000), part(unix_time_ns % 1_000_000_000)].concat();
        writer.notice(0, Notice::Timestamp, 0, &payload);
        Ok(writer)
    }

    /// Name of the file of a processor.
    pub fn path_of(base: &Path, cpu: u16) -> PathBuf {
        let mut name = base.as_os_str().to_owned();
        name.push(format!(".blktrace.{cpu}"));
        PathBuf::from(name)
    }

    /// Readers stop at the first number that is missing: all up to this one are made.
    fn open_up_to(&mut self, cpu: u16) -> io::Result<()> {
        while self.streams.len() <= usize::from(cpu) {
            let number = u16::try_from(self.streams.len()).unwrap_or(u16::MAX);
            let out = BufWriter::new(File::create(Self::path_of(&self.base, number))?);
            self.streams.push(Stream { out, sequence: 0, last_ns: None });
        }
        Ok(())
    }

    /// Writes everything out. Answers how many records there are.
    ///
    /// # Errors
    /// The first that occurred.
    pub fn finish(mut self) -> io::Result<u64> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        self.streams.iter_mut().try_for_each(|stream| stream.out.flush())?;
        Ok(self.records)
    }

    fn notice(&mut self, at_ns: Nanos, notice: Notice, pid: u32, payload: &[u8]) {
        let header =
            Header { at_ns, sector: 0, bytes: 0, action: category::NOTIFY << 16 | notice as u32, pid, error: 0 };
        self.put(0, &header, payload);
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
        let device = self.device.major << 20 | self.device.minor;
        let stream = &mut self.streams[usize::from(cpu)];
        stream.sequence += 1;
        // A simulated instant holds many events; blkrawverify takes two of the same time for a clock that went back.
        let at_ns = stream.last_ns.map_or(header.at_ns, |last_ns| header.at_ns.max(last_ns + 1));
        stream.last_ns = Some(at_ns);
        let length = u16::try_from(payload.len()).unwrap_or(u16::MAX);
        let mut record = Vec::with_capacity(48 + payload.len());
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
        stream.out.write_all(&record)
    }
}

/// What a record says beside number and place.
struct Header {
    at_ns: Nanos,
    sector: u64,
    bytes: u32,
    action: u32,
    pid: u32,
    error: u16,
}

impl Tracer for Writer {
    fn process(&mut self, at_ns: Nanos, pid: u32, name: &str) {
        let mut payload = [0; NAME_BYTES];
        // One byte stays 0: it ends the name.
        for (place, byte) in payload[..NAME_BYTES - 1].iter_mut().zip(name.bytes()) {
            *place = byte;
        }
        self.notice(at_ns, Notice::Process, pid, &payload);
    }

    fn event(&mut self, event: &Event) {
        let has_place = !matches!(event.action, Action::Plugged | Action::Unplugged);
        let bytes = u64::from(event.extent.sectors) * block::SECTOR_BYTES;
        let header = Header {
            at_ns: event.at_ns,
            sector: if has_place { event.extent.first_sector } else { 0 },
            bytes: if has_place { u32::try_from(bytes).unwrap_or(u32::MAX) } else { 0 },
            action: action_word(event),
            pid: event.pid,
            error: event.error,
        };
        // How many requests an unplug lets go: big-endian, whatever the rest is.
        let payload = if event.action == Action::Unplugged { 0_u64.to_be_bytes().to_vec() } else { Vec::new() };
        self.put(event.cpu, &header, &payload);
    }

    fn message(&mut self, at_ns: Nanos, text: &str) {
        let longest = text.len().min(MESSAGE_BYTES);
        let end = (0..=longest).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
        self.notice(at_ns, Notice::Message, 0, &text.as_bytes()[..end]);
    }
}

fn action_word(event: &Event) -> u32 {
    use category as c;
    let (code, kind) = match event.action {
        Action::Queued => (1, c::QUEUE),
        Action::BackMerged => (2, c::QUEUE),
        Action::FrontMerged => (3, c::QUEUE),
        Action::Allocated => (4, c::QUEUE),
        Action::Slept => (5, c::QUEUE),
        Action::Requeued => (6, c::REQUEUE | c::FS),
        Action::Issued => (7, c::ISSUE | c::FS),
        Action::Completed => (8, c::COMPLETE | c::FS),
        // These two are about no I/O: no direction.
        Action::Plugged => return 9 | c::QUEUE << 16,
        Action::Unplugged => return 10 | c::QUEUE << 16,
        Action::Inserted => (12, c::QUEUE | c::FS),
    };
    let direction = match event.operation {
        Operation::Read => c::READ,
        Operation::Write | Operation::WriteZeroes | Operation::ZoneAppend => c::WRITE,
        Operation::Flush => c::FLUSH | c::WRITE,
        Operation::Discard | Operation::SecureErase => c::DISCARD | c::WRITE,
        Operation::Passthrough => c::PASSTHROUGH | c::READ,
    };
    let marks = [
        (Flags::SYNC, c::SYNC),
        (Flags::PREFLUSH, c::FLUSH),
        (Flags::FUA, c::FUA),
        (Flags::READAHEAD, c::AHEAD),
        (Flags::META, c::META),
    ];
    let marks = marks.into_iter().filter(|(flag, _)| event.flags.contains(*flag)).fold(0, |all, (_, bit)| all | bit);
    // Of a passthrough command the filter for file system I/O has to know that it is none.
    let kind = if event.operation == Operation::Passthrough { kind & !c::FS } else { kind };
    code | (kind | direction | marks) << 16
}

#[cfg(test)]
mod tests {
    use super::*;
    use block::Extent;

    const DEVICE: DeviceNumber = DeviceNumber { major: 253, minor: 0 };

    fn event(action: Action, operation: Operation, flags: Flags) -> Event {
        Event { at_ns: 7, cpu: 0, pid: 1, action, operation, flags, extent: Extent::new(8, 16), error: 0 }
    }

    /// The words of a trace of Linux 6.18.
    #[test]
    fn action_words_are_those_of_the_kernel() {
        let word = |action, operation, flags| action_word(&event(action, operation, flags));
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
