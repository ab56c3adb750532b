//! The interface of every device model.

use hoistway_block::{Extent, Flags, HardwareQueue, Nanos, Operation, Sector, SectorRange, Status};

/// The value of [`Device::next_event`] if no event is pending.
pub const NEVER: Nanos = Nanos::MAX;

/// A command as the driver submits it.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Command {
    /// The caller's identifier, opaque to the device and returned in the [`Completion`]. Unique
    /// among those in flight.
    pub tag: u32,
    /// The operation. A flush has no data: the host has split PREFLUSH off before.
    pub operation: Operation,
    /// A device uses only [`Flags::FUA`].
    pub flags: Flags,
    /// The range; empty for a flush.
    pub extent: Extent,
    /// The submission queue.
    pub hardware_queue: HardwareQueue,
}

/// Whether the device accepted a command.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Submit {
    /// It completes with exactly one [`Completion`], unless [`Device::reset`] drops it.
    Accepted,
    /// All of the device's tags are in use; nothing happened. A host that counts tags never sees
    /// this.
    Busy,
}

/// The completion of a command.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Completion {
    /// Time of completion, in nanoseconds of the clock of `submit` and `advance`.
    pub at_ns: Nanos,
    /// The tag of its [`Command`].
    pub tag: u32,
    /// Its status.
    pub status: Status,
}

/// The properties of a device that a host needs before it submits anything.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceInfo {
    /// The model's name, with its settings as written.
    pub name: String,
    /// Capacity in sectors of 512 bytes.
    pub capacity_sectors: Sector,
    /// Smallest addressable unit, in bytes.
    pub logical_block_bytes: u32,
    /// Whether positioning costs time.
    pub rotational: bool,
    /// Submission queues.
    pub hardware_queues: u16,
    /// Commands in flight per submission queue.
    pub depth: u32,
    /// Longest command, in sectors.
    pub max_sectors: u32,
    /// Most segments in a command.
    pub max_segments: u16,
    /// Whether a completed write may still be lost without a flush.
    pub volatile_cache: bool,
    /// Whether [`Flags::FUA`] is supported.
    pub fua: bool,
    /// Preferred length of a transfer in bytes; 0 = none.
    pub optimal_io_bytes: u32,
    /// The sectors of each actuator; actuators work at the same time. Empty if there is one, or
    /// none.
    pub ranges: Vec<SectorRange>,
}

impl DeviceInfo {
    /// The largest number of commands in flight, over all queues.
    pub fn total_depth(&self) -> usize {
        self.depth as usize * usize::from(self.hardware_queues)
    }

    /// The error with which a command fails before it reaches the medium, if it does: outside the
    /// capacity, or of an unsupported kind.
    #[inline]
    pub fn rejects(&self, command: &Command) -> Option<Status> {
        match command.operation {
            Operation::Flush => None,
            Operation::Read | Operation::Write | Operation::Discard | Operation::WriteZeroes => {
                let end = command.extent.first_sector.checked_add(u64::from(command.extent.sectors));
                (end.is_none_or(|end| end > self.capacity_sectors)).then_some(Status::IoError)
            }
            Operation::SecureErase | Operation::ZoneAppend | Operation::Passthrough => Some(Status::NotSupported),
        }
    }
}

/// Counts since construction.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Reads accepted.
    pub reads: u64,
    /// Writes, discards and zeroing writes accepted.
    pub writes: u64,
    /// Flushes accepted.
    pub flushes: u64,
    /// Sectors of the accepted reads.
    pub read_sectors: u64,
    /// Sectors of the accepted writes.
    pub write_sectors: u64,
    /// Commands that completed with an error.
    pub errors: u64,
}

impl Counters {
    #[inline]
    pub(crate) fn count(&mut self, operation: Operation, sectors: u32) {
        match operation {
            Operation::Read => {
                self.reads += 1;
                self.read_sectors += u64::from(sectors);
            }
            Operation::Flush => self.flushes += 1,
            _ => {
                self.writes += 1;
                self.write_sectors += u64::from(sectors);
            }
        }
    }
}

/// A device model. Times are nanoseconds of one clock that never runs backwards, virtual or real.
pub trait Device {
    /// Sizes and capabilities; constant for the device's life.
    fn info(&self) -> &DeviceInfo;

    /// Submits a command at `now`. The caller keeps at most `depth` in flight per queue and does
    /// not reuse a tag in flight; the device completes each accepted command once, at a time not
    /// before `now`.
    fn submit(&mut self, now: Nanos, command: &Command) -> Submit;

    /// When [`Device::advance`] must be called next; [`NEVER`] when idle. It may change in both
    /// directions with every call of `submit`, so the caller asks again after each.
    fn next_event(&self) -> Nanos;

    /// Processes everything up to and including `now`, and appends the completions in order of
    /// time. Never looks past `now`; a late call (a real clock that overslept) reports times in the
    /// past.
    fn advance(&mut self, now: Nanos, out: &mut Vec<Completion>);

    /// Processes everything before `before`, up to and including the first time at which a command
    /// completes, and returns that time; if none completes, the time of the next event. `out` is
    /// empty when it is called. It spares a host without other work a call for each internal event
    /// of the device. An implementation may stop before the last completion of that time when `out`
    /// has reached its capacity, so that it does not grow; [`Device::next_event`] then still
    /// returns that time.
    #[inline]
    fn advance_to_completion(&mut self, now: Nanos, before: Nanos, out: &mut Vec<Completion>) -> Nanos {
        loop {
            let at = self.next_event().max(now);
            if at >= before {
                return at;
            }
            self.advance(at, out);
            if !out.is_empty() {
                return at;
            }
        }
    }

    /// Whether no work is left, including background work (destaging, prefetching, garbage
    /// collection).
    fn is_idle(&self) -> bool;

    /// The counts so far.
    fn counters(&self) -> Counters;

    /// Drops every command in flight without completing it, as a bus reset does. The caller
    /// completes them.
    fn reset(&mut self, now: Nanos);
}
