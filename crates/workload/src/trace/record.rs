//! The content of a trace independent of its format, with one unit per field.

use hoistway_block::{DeviceNumber, Flags, Nanos, Operation};

use super::Action;

/// Times of at most this much before 0, as [`Record::at_ns`] and messages hold them modulo 2^64: the
/// last day before 2^64 ns. No clock counts so far. [`super::Reading`] returns none of them.
pub(super) const EARLIEST_NS: Nanos = 86_400_000_000_000;

/// One event of a trace. Formats that record only I/Os yield each as [`Action::Queued`].
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// Time in nanoseconds of the trace's own clock.
    pub at_ns: Nanos,
    /// What happened.
    pub action: Action,
    /// The kind of I/O.
    pub operation: Operation,
    /// Flags of the I/O.
    pub flags: Flags,
    /// First byte on the device; for flushes, as recorded.
    pub offset_bytes: u64,
    /// Length in bytes; 0 for a flush.
    pub length_bytes: u64,
    /// The device. Formats that name devices otherwise number them as minors of major 0 and emit
    /// [`Item::Device`].
    pub device: DeviceNumber,
    /// The process id; 0 if there is no particular process.
    pub pid: u32,
    /// The CPU.
    pub cpu: u16,
    /// The group: the inode of a cgroup or a number that [`Item::Group`] named; 0 for none.
    pub group: u64,
    /// Latency, if the format records it in the same line.
    pub latency_ns: Option<Nanos>,
    /// Result: 0, or an errno as a positive number.
    pub error: u16,
    /// Sequence number on its CPU; 0 if there is none.
    pub sequence: u32,
    /// Details of some actions.
    pub detail: Detail,
    /// The kind of I/O in blktrace's bits, where the format has them. They are more exact than
    /// operation and flags and allow a record to be printed as it was.
    pub categories: u16,
}

/// Details that some actions carry besides position and size.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub enum Detail {
    /// No details.
    #[default]
    None,
    /// Unplug: number of released requests.
    Requests(u64),
    /// Split: first sector of the second half.
    NextSector(u64),
    /// Remap: where the I/O was addressed before.
    From {
        /// The previous device.
        device: DeviceNumber,
        /// The sector on it.
        sector: u64,
    },
}

impl Record {
    /// An I/O of a format without flags. A write is taken as synchronous: if the trace says nothing
    /// of a page cache, it was recorded below one or the application bypassed it.
    pub(super) fn io(at_ns: Nanos, operation: Operation, offset_bytes: u64, length_bytes: u64) -> Self {
        let flags = if operation == Operation::Read { Flags::NONE } else { Flags::SYNC };
        Self {
            at_ns,
            action: Action::Queued,
            operation,
            flags,
            offset_bytes,
            length_bytes,
            device: DeviceNumber { major: 0, minor: 0 },
            pid: 0,
            cpu: 0,
            group: 0,
            latency_ns: None,
            error: 0,
            sequence: 0,
            detail: Detail::None,
            categories: 0,
        }
    }

    /// First sector.
    pub const fn sector(&self) -> u64 {
        self.offset_bytes / hoistway_block::SECTOR_BYTES
    }

    /// Length in whole sectors.
    pub const fn sectors(&self) -> u64 {
        self.length_bytes / hoistway_block::SECTOR_BYTES
    }

    /// The byte after the last one.
    pub const fn end_bytes(&self) -> u64 {
        self.offset_bytes.saturating_add(self.length_bytes)
    }
}

/// One item of a trace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Item {
    /// An event.
    Record(Record),
    /// From here on a process has this name.
    Process {
        /// Process id.
        pid: u32,
        /// Name of the process.
        name: String,
    },
    /// A device has this name.
    Device {
        /// Device number.
        device: DeviceNumber,
        /// Its name in the trace.
        name: String,
    },
    /// A group has this name.
    Group {
        /// Number of the group.
        group: u64,
        /// Its name in the trace.
        name: String,
    },
    /// A message in the trace.
    Message {
        /// Time of the message.
        at_ns: Nanos,
        /// The device that it is about.
        device: DeviceNumber,
        /// The CPU.
        cpu: u16,
        /// Sequence number on that CPU.
        sequence: u32,
        /// The group that it is about; 0 for none.
        group: u64,
        /// Text of the message.
        text: String,
    },
    /// Relates a time of the trace to the wall clock.
    Clock {
        /// Time of the trace.
        at_ns: Nanos,
        /// Nanoseconds since 1970.
        unix_ns: Nanos,
    },
}

impl Item {
    /// Time of the item, if it has one.
    pub const fn at_ns(&self) -> Option<Nanos> {
        match self {
            Item::Record(record) => Some(record.at_ns),
            Item::Message { at_ns, .. } => Some(*at_ns),
            _ => None,
        }
    }

    /// The item with another time, if it has one.
    pub(super) fn at(mut self, new_ns: Nanos) -> Self {
        match &mut self {
            Item::Record(Record { at_ns, .. }) | Item::Message { at_ns, .. } => *at_ns = new_ns,
            _ => {}
        }
        self
    }
}
