//! What a trace says, whatever its format: one value per line or record, in one unit each.

use block::{DeviceNumber, Flags, Nanos, Operation};

use super::Action;

/// One event of a trace. Formats that know only I/Os, not their stages, give each as [`Action::Queued`].
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// When, in nanoseconds of the trace's own clock.
    pub at_ns: Nanos,
    /// What happened.
    pub action: Action,
    /// The kind of I/O.
    pub operation: Operation,
    /// Its properties.
    pub flags: Flags,
    /// First byte on the device; kept for flushes as the trace has it.
    pub offset_bytes: u64,
    /// Length in bytes; 0 for a flush.
    pub length_bytes: u64,
    /// The device; formats that name theirs otherwise number them as minors of major 0 and say so by [`Item::Device`].
    pub device: DeviceNumber,
    /// Who; 0 for nobody in particular.
    pub pid: u32,
    /// On which processor.
    pub cpu: u16,
    /// The group's number, 0 for none: a cgroup's inode, or what [`Item::Group`] named.
    pub group: u64,
    /// How long it took, where the format says so in the same line.
    pub latency_ns: Option<Nanos>,
    /// How it ended: 0, or an errno as a positive number.
    pub error: u16,
    /// Its number on its processor, 0 where there is none.
    pub sequence: u32,
    /// What some actions say beside.
    pub detail: Detail,
    /// The kind of I/O in blktrace's bits, where the format has them: more exact than operation and flags, so that what is
    /// read can be shown as it was.
    pub categories: u16,
}

/// What some actions say beside place and size.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub enum Detail {
    /// Nothing.
    #[default]
    None,
    /// Unplugs: how many requests are let go.
    Requests(u64),
    /// Splits: the first sector of the second half.
    NextSector(u64),
    /// Remaps: where it was before, in sectors.
    From {
        /// The device it was sent to.
        device: DeviceNumber,
        /// The sector there.
        sector: u64,
    },
}

impl Record {
    /// An I/O of a format that knows no more than this. Its submitter waits for it: where nothing is said of a page cache, the
    /// trace was taken below one, or of somebody who went past it.
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
        self.offset_bytes / block::SECTOR_BYTES
    }

    /// Length in whole sectors.
    pub const fn sectors(&self) -> u64 {
        self.length_bytes / block::SECTOR_BYTES
    }

    /// The byte behind the last one.
    pub const fn end_bytes(&self) -> u64 {
        self.offset_bytes.saturating_add(self.length_bytes)
    }
}

/// One thing that a reader answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Item {
    /// An event.
    Record(Record),
    /// From here on a process has this name.
    Process {
        /// Its number.
        pid: u32,
        /// Its name.
        name: String,
    },
    /// A device has this name.
    Device {
        /// Its number.
        device: DeviceNumber,
        /// Its name in the trace.
        name: String,
    },
    /// A group has this name.
    Group {
        /// Its number.
        group: u64,
        /// Its name in the trace.
        name: String,
    },
    /// Somebody said something.
    Message {
        /// When.
        at_ns: Nanos,
        /// About which device.
        device: DeviceNumber,
        /// On which processor.
        cpu: u16,
        /// Its number there.
        sequence: u32,
        /// The group it is about, 0 for none.
        group: u64,
        /// What.
        text: String,
    },
    /// At this time of the trace the clock on the wall showed that.
    Clock {
        /// Of the trace.
        at_ns: Nanos,
        /// Since 1970.
        unix_ns: Nanos,
    },
}

impl Item {
    /// When it happened, for what happens at a time.
    pub const fn at_ns(&self) -> Option<Nanos> {
        match self {
            Item::Record(record) => Some(record.at_ns),
            Item::Message { at_ns, .. } => Some(*at_ns),
            _ => None,
        }
    }
}
