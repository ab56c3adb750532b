//! An I/O between its issue and its completion, as its process stores it.

use hoistway_block::{Flags, Nanos, Operation, Priority, Status};
use hoistway_workload::Io;

/// An I/O in flight of an issuer; its index is the process's first index plus the token.
#[derive(Copy, Clone, Debug)]
pub(super) struct IoInFlight {
    pub(super) process: u32,
    pub(super) submitted_ns: Nanos,
    pub(super) bytes: u32,
    pub(super) device_ns: Nanos,
    pub(super) operation: Operation,
    pub(super) flags: Flags,
    pub(super) priority: Priority,
    pub(super) actor: u16,
    pub(super) status: Status,
}

impl IoInFlight {
    /// An I/O that process `index` issues now, of which `bytes` count as throughput.
    #[inline]
    pub(super) fn new(index: usize, io: &Io, bytes: u32, now: Nanos) -> Self {
        Self {
            process: super::number(index),
            submitted_ns: now,
            bytes,
            device_ns: 0,
            operation: io.operation,
            flags: io.flags,
            priority: io.priority,
            actor: io.actor,
            status: Status::Ok,
        }
    }
}

const _: () = assert!(size_of::<IoInFlight>() == 32, "one for each I/O that may be in flight");

/// The part of an I/O that is still to be submitted or completed; stored separately, because an I/O
/// of a single bio needs none.
#[derive(Copy, Clone, Debug)]
pub(super) struct IoRemainder {
    /// The first byte that has not been submitted yet, in bytes of the file.
    pub(super) next_byte: u64,
    pub(super) left_bytes: u32,
    /// Bios in flight.
    pub(super) bios_left: u32,
}

impl IoRemainder {
    /// The value for an I/O that is one bio, or none.
    pub(super) const ONE_BIO: Self = Self { next_byte: 0, left_bytes: 0, bios_left: 1 };

    /// The end of the part that has not been submitted yet.
    #[inline]
    pub(super) const fn end_byte(&self) -> u64 {
        self.next_byte + self.left_bytes as u64
    }
}

/// Whether results include an I/O: creating, renaming and removing files are neither transfers nor
/// syncs.
#[inline]
pub(super) const fn is_counted(bytes: u32, operation: Operation) -> bool {
    bytes > 0 || matches!(operation, Operation::Flush)
}

impl IoInFlight {
    pub(super) const fn idle(process: u32) -> Self {
        Self {
            process,
            submitted_ns: 0,
            bytes: 0,
            device_ns: 0,
            operation: Operation::Read,
            flags: Flags::NONE,
            priority: Priority::NONE,
            actor: 0,
            status: Status::Ok,
        }
    }
}

/// Whether an I/O transfers the bytes of its range.
#[inline]
pub(super) fn moves_data(io: &Io) -> bool {
    matches!(io.call, hoistway_workload::Call::Data | hoistway_workload::Call::Append)
        && io.operation != Operation::Flush
}
