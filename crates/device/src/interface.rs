//! What every device model offers: the calls of one command's life.

use block::{Extent, Flags, HardwareQueue, Nanos, Operation, Sector, SectorRange, Status};

/// "No event ahead", as [`Device::next_event`] says it.
pub const NEVER: Nanos = Nanos::MAX;

/// A command as the driver hands it over.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Command {
    /// The caller's name for it, opaque to the device and returned in the [`Completion`]. Unique among those in flight.
    pub tag: u32,
    /// What to do. A flush stands alone: the host has split PREFLUSH off before.
    pub operation: Operation,
    /// Only [`Flags::FUA`] matters to a device.
    pub flags: Flags,
    /// Where; empty for a flush.
    pub extent: Extent,
    /// The submission queue it comes through.
    pub hardware_queue: HardwareQueue,
}

/// Whether the device took a command.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Submit {
    /// It will be answered by exactly one [`Completion`].
    Accepted,
    /// All of the device's tags are in use; nothing happened. A host that counts tags never sees this.
    Busy,
}

/// The end of a command.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Completion {
    /// When it ended, in nanoseconds of the clock that `submit` and `advance` were given.
    pub at_ns: Nanos,
    /// The tag of its [`Command`].
    pub tag: u32,
    /// How it ended.
    pub status: Status,
}

/// What a host must know of a device before it sends anything.
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
    /// Whether [`Flags::FUA`] is honoured.
    pub fua: bool,
    /// Preferred length of a transfer in bytes; 0 = none.
    pub optimal_io_bytes: u32,
    /// The sectors of each actuator, which work at the same time; empty = there is one, or none.
    pub ranges: Vec<SectorRange>,
}

impl DeviceInfo {
    /// Commands the device holds at most, over all its queues.
    pub fn total_depth(&self) -> usize {
        self.depth as usize * usize::from(self.hardware_queues)
    }

    /// How a command fails before it reaches the medium, if it does: outside the capacity, or of a kind nobody serves.
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

/// What a device has done since it was made.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Reads accepted.
    pub reads: u64,
    /// Writes, discards and zeroing writes accepted.
    pub writes: u64,
    /// Flushes accepted.
    pub flushes: u64,
    /// Sectors of these reads.
    pub read_sectors: u64,
    /// Sectors of these writes.
    pub write_sectors: u64,
    /// Commands that ended with an error.
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
    /// Sizes and abilities; constant for the device's life.
    fn info(&self) -> &DeviceInfo;

    /// Takes a command at `now`. The caller keeps at most `depth` in flight per queue and does not reuse a tag in
    /// flight; the device answers each accepted command once, at a time not before `now`.
    fn submit(&mut self, now: Nanos, command: &Command) -> Submit;

    /// When [`Device::advance`] has something to do next; [`NEVER`] when idle. It may change with every call of
    /// `submit`, in both directions, so the caller asks again after each.
    fn next_event(&self) -> Nanos;

    /// Handles everything up to and including `now`, and appends what completed in order of time. Never looks past
    /// `now`; a late call (a real clock overslept) reports times that lie in the past.
    fn advance(&mut self, now: Nanos, out: &mut Vec<Completion>);

    /// Handles what happens before `before`, up to and including the first time at which a command completes, and answers
    /// that time; if none does, when the next event is. A host that has nothing to do in between saves itself the way
    /// to each event that only the device knows of. It may stop before the last completion of the time when `out` is
    /// full: [`Device::next_event`] then is that time still.
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

    /// Whether no work is left, not even work nobody waits for (destaging, prefetching, garbage collection).
    fn is_idle(&self) -> bool;

    /// What it has done so far.
    fn counters(&self) -> Counters;

    /// Forgets every command in flight without answering, as a bus reset does. The caller answers for them.
    fn reset(&mut self, now: Nanos);
}
