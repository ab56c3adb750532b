//! Operations, directions and flags of bios and requests.

/// The operation of a bio or request.
#[repr(u8)]
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Default)]
pub enum Operation {
    /// Data from the device.
    #[default]
    Read,
    /// Data to the device.
    Write,
    /// Declares the range's content as no longer needed (TRIM, UNMAP).
    Discard,
    /// A discard that must not leave the old data readable.
    SecureErase,
    /// Makes the range read back as zeros.
    WriteZeroes,
    /// A write to the position of the zone's write pointer.
    ZoneAppend,
    /// Makes all writes completed before it durable; has no range.
    Flush,
    /// A driver's own command. Never merged and never sorted.
    Passthrough,
}

impl Operation {
    /// The split into two directions for fifos and limits: every operation that sends or destroys
    /// data is a write.
    #[inline]
    pub const fn direction(self) -> Direction {
        match self {
            Operation::Read => Direction::Read,
            _ => Direction::Write,
        }
    }

    /// Whether bios of this operation may share a request.
    #[inline]
    pub const fn is_mergeable(self) -> bool {
        matches!(self, Operation::Read | Operation::Write | Operation::Discard | Operation::WriteZeroes)
    }
}

/// The direction of an operation: reads, and everything else.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Direction {
    /// Data from the device.
    Read = 0,
    /// Data to the device, or data destroyed on it.
    Write = 1,
}

impl Direction {
    /// The other direction.
    #[inline]
    pub const fn opposite(self) -> Self {
        match self {
            Direction::Read => Direction::Write,
            Direction::Write => Direction::Read,
        }
    }
}

/// Properties of a bio in addition to its operation, as a set of bits.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Default)]
#[repr(transparent)]
pub struct Flags(pub u16);

impl Flags {
    /// No property.
    pub const NONE: Flags = Flags(0);
    /// A task waits for it (O_SYNC, O_DIRECT, fsync).
    pub const SYNC: Flags = Flags(1 << 0);
    /// Must be on stable storage when it completes.
    pub const FUA: Flags = Flags(1 << 1);
    /// The device's cache is flushed first.
    pub const PREFLUSH: Flags = Flags(1 << 2);
    /// File system metadata.
    pub const META: Flags = Flags(1 << 3);
    /// High priority within its class (REQ_PRIO).
    pub const PRIO: Flags = Flags(1 << 4);
    /// Read-ahead: may fail without consequences.
    pub const READAHEAD: Flags = Flags(1 << 5);
    /// Must not be merged.
    pub const NOMERGE: Flags = Flags(1 << 6);
    /// A barrier of the 2.4 and early 2.6 kernels: no request passes it.
    pub const BARRIER: Flags = Flags(1 << 7);
    /// A task sleeps on this special request (2.4); never merged.
    pub const WAITING: Flags = Flags(1 << 8);
    /// Background write-back (REQ_BACKGROUND).
    pub const BACKGROUND: Flags = Flags(1 << 9);
    /// Swap traffic: charged to its owner, but never delayed.
    pub const SWAP: Flags = Flags(1 << 10);
    /// WriteZeroes that must keep the range allocated.
    pub const NO_UNMAP: Flags = Flags(1 << 11);
    /// A throttle above has already charged its bytes; set on the pieces of a split bio.
    pub const BYTES_CHARGED: Flags = Flags(1 << 12);
    /// A limiter has already counted it as an I/O; set on the further parts of a request that was cut.
    pub const IO_CHARGED: Flags = Flags(1 << 14);
    /// More I/O of this submitter is likely to follow at once (Linux REQ_IDLE: direct writes).
    pub const IDLE: Flags = Flags(1 << 13);

    /// Whether every bit of `other` is set here.
    #[inline]
    pub const fn contains(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether any bit of `other` is set here.
    #[inline]
    pub const fn intersects(self, other: Flags) -> bool {
        self.0 & other.0 != 0
    }

    /// The union of both sets.
    #[inline]
    #[must_use]
    pub const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// This set without the flags of `other`.
    #[inline]
    #[must_use]
    pub const fn without(self, other: Flags) -> Flags {
        Flags(self.0 & !other.0)
    }
}

/// Whether a task waits for the I/O: always for reads, otherwise if a flag says so (Linux
/// `op_is_sync`).
#[inline]
pub const fn is_sync(operation: Operation, flags: Flags) -> bool {
    matches!(operation, Operation::Read) || flags.intersects(Flags(Flags::SYNC.0 | Flags::FUA.0 | Flags::PREFLUSH.0))
}
