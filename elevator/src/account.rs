//! What a policy keeps of each group's service: the numbers behind the kernel's `blkio.*` files.
//!
//! The periods (waiting, idling, empty) are added when they end; one that is running does not show yet.

use block::{Direction, Nanos};

/// A number, by what was asked for. Everything that is not a read counts as a write.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct ByKind {
    /// Of reads.
    pub reads: u64,
    /// Of everything else.
    pub writes: u64,
    /// Of those that somebody waits for, of either direction.
    pub sync: u64,
    /// Of the others.
    pub asynchronous: u64,
}

impl ByKind {
    /// Nothing of any kind.
    pub const ZERO: ByKind = ByKind { reads: 0, writes: 0, sync: 0, asynchronous: 0 };

    /// Reads and writes together, which is also sync and async together.
    #[inline]
    pub const fn total(&self) -> u64 {
        self.reads.wrapping_add(self.writes)
    }

    /// Adds to the two kinds that a request belongs to.
    #[inline]
    pub const fn add(&mut self, direction: Direction, is_sync: bool, amount: u64) {
        let by_direction = match direction {
            Direction::Read => &mut self.reads,
            Direction::Write => &mut self.writes,
        };
        *by_direction = by_direction.wrapping_add(amount);
        let by_waiting = if is_sync { &mut self.sync } else { &mut self.asynchronous };
        *by_waiting = by_waiting.wrapping_add(amount);
    }

    /// The reverse of [`ByKind::add`].
    #[inline]
    pub const fn take(&mut self, direction: Direction, is_sync: bool, amount: u64) {
        self.add(direction, is_sync, amount.wrapping_neg());
    }
}

/// One group on one device.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct GroupAccount {
    /// Time for which its queues had the device (`time`).
    pub time_ns: Nanos,
    /// Time beyond the slices and before their start (`unaccounted_time`).
    pub unaccounted_ns: Nanos,
    /// Sectors dispatched (`sectors`).
    pub sectors: u64,
    /// Bytes dispatched (`io_service_bytes`).
    pub service_bytes: ByKind,
    /// Requests dispatched (`io_serviced`).
    pub serviced: ByKind,
    /// From the device's taking a request to its completion, in ns (`io_service_time`).
    pub service_time_ns: ByKind,
    /// From a request's allocation to the device's taking it, in ns (`io_wait_time`).
    pub wait_time_ns: ByKind,
    /// Bios and requests that joined others (`io_merged`).
    pub merged: ByKind,
    /// Requests queued now (`io_queued`).
    pub queued: ByKind,
    /// How often the number of queued requests was looked at, and what was seen together (`avg_queue_size`).
    pub queue_samples: u64,
    /// See above.
    pub queue_sampled_requests: u64,
    /// Time with something queued and another group in service (`group_wait_time`).
    pub group_wait_ns: Nanos,
    /// Time for which the device was kept idle for it (`idle_time`).
    pub idle_ns: Nanos,
    /// Time with nothing queued (`empty_time`).
    pub empty_ns: Nanos,
    /// How often it left the order of groups (`dequeue`).
    pub dequeues: u64,
}

impl GroupAccount {
    /// Of a group that has done nothing.
    pub const ZERO: GroupAccount = GroupAccount {
        time_ns: 0,
        unaccounted_ns: 0,
        sectors: 0,
        service_bytes: ByKind::ZERO,
        serviced: ByKind::ZERO,
        service_time_ns: ByKind::ZERO,
        wait_time_ns: ByKind::ZERO,
        merged: ByKind::ZERO,
        queued: ByKind::ZERO,
        queue_samples: 0,
        queue_sampled_requests: 0,
        group_wait_ns: 0,
        idle_ns: 0,
        empty_ns: 0,
        dequeues: 0,
    };

    /// `reset_stats`: everything is zero, but for what is queued.
    pub const fn reset(&mut self) {
        let queued = self.queued;
        *self = GroupAccount::ZERO;
        self.queued = queued;
    }
}
