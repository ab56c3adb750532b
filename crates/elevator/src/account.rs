//! A group's account of service: the numbers behind the kernel's `blkio.*` files.
//!
//! Periods (waiting, idling, empty) are added when they end; a running period is not included yet.

use hoistway_block::{Direction, Nanos, Operation};

/// Kinds that are counted separately. Linux has a column for discards since 4.19; before, they
/// counted as writes.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Data from the device.
    Read,
    /// Everything that is neither a read nor a discard.
    Write,
    /// Discards.
    Discard,
}

impl Kind {
    /// The kind under which an operation is counted.
    #[inline]
    pub const fn of(operation: Operation) -> Self {
        match operation {
            Operation::Read => Kind::Read,
            Operation::Discard => Kind::Discard,
            _ => Kind::Write,
        }
    }
}

/// A counter, broken down by kind and by sync or async.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct ByKind {
    /// Reads.
    pub reads: u64,
    /// Everything except reads and discards.
    pub writes: u64,
    /// Discards, where the policy separates them from writes.
    pub discards: u64,
    /// Sync requests, of either direction.
    pub sync: u64,
    /// Async requests, of either direction.
    pub asynchronous: u64,
}

impl ByKind {
    /// All counters zero.
    pub const ZERO: ByKind = ByKind { reads: 0, writes: 0, discards: 0, sync: 0, asynchronous: 0 };

    /// Reads, writes and discards together, which equals sync and async together.
    #[inline]
    pub const fn total(&self) -> u64 {
        self.sync.wrapping_add(self.asynchronous)
    }

    /// Adds to the direction and to sync or async; discards count as writes.
    #[inline]
    pub const fn add(&mut self, direction: Direction, is_sync: bool, amount: u64) {
        let kind = match direction {
            Direction::Read => Kind::Read,
            Direction::Write => Kind::Write,
        };
        self.count(kind, is_sync, amount);
    }

    /// Adds to the kind and to sync or async.
    #[inline]
    pub const fn count(&mut self, kind: Kind, is_sync: bool, amount: u64) {
        let by_kind = match kind {
            Kind::Read => &mut self.reads,
            Kind::Write => &mut self.writes,
            Kind::Discard => &mut self.discards,
        };
        *by_kind = by_kind.wrapping_add(amount);
        let by_waiting = if is_sync { &mut self.sync } else { &mut self.asynchronous };
        *by_waiting = by_waiting.wrapping_add(amount);
    }

    /// Same as [`ByKind::count`], with a fast path for sync reads.
    #[inline]
    const fn count_first(&mut self, kind: Kind, is_sync: bool, amount: u64) {
        if is_sync && matches!(kind, Kind::Read) {
            self.add_sync_reads(amount);
        } else {
            self.count(kind, is_sync, amount);
        }
    }

    #[inline]
    const fn add_sync_reads(&mut self, amount: u64) {
        self.reads = self.reads.wrapping_add(amount);
        self.sync = self.sync.wrapping_add(amount);
    }

    /// The reverse of [`ByKind::count`].
    #[inline]
    pub const fn uncount(&mut self, kind: Kind, is_sync: bool, amount: u64) {
        self.count(kind, is_sync, amount.wrapping_neg());
    }

    /// Adds all counters of another.
    pub const fn absorb(&mut self, other: &ByKind) {
        self.reads = self.reads.wrapping_add(other.reads);
        self.writes = self.writes.wrapping_add(other.writes);
        self.discards = self.discards.wrapping_add(other.discards);
        self.sync = self.sync.wrapping_add(other.sync);
        self.asynchronous = self.asynchronous.wrapping_add(other.asynchronous);
    }

    /// The reverse of [`ByKind::add`].
    #[inline]
    pub const fn take(&mut self, direction: Direction, is_sync: bool, amount: u64) {
        self.add(direction, is_sync, amount.wrapping_neg());
    }
}

/// The account of one group on one device.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct GroupAccount {
    /// Time for which its queues had the device (`time`).
    pub time_ns: Nanos,
    /// Time used beyond the slices and before their start (`unaccounted_time`).
    pub unaccounted_ns: Nanos,
    /// Sectors dispatched (`sectors`).
    pub sectors: u64,
    /// Bytes dispatched (`io_service_bytes`).
    pub service_bytes: ByKind,
    /// Requests dispatched (`io_serviced`).
    pub serviced: ByKind,
    /// Service time: from the device's acceptance of a request to its completion, in ns
    /// (`io_service_time`).
    pub service_time_ns: ByKind,
    /// Waiting time: from a request's allocation to its acceptance by the device, in ns
    /// (`io_wait_time`).
    pub wait_time_ns: ByKind,
    /// Bios and requests that were merged into others (`io_merged`).
    pub merged: ByKind,
    /// Requests queued now (`io_queued`).
    pub queued: ByKind,
    /// Number of samples of the queue length (denominator of `avg_queue_size`).
    pub queue_samples: u64,
    /// Sum of the sampled queue lengths (numerator of `avg_queue_size`).
    pub queue_sampled_requests: u64,
    /// Time with something queued and another group in service (`group_wait_time`).
    pub group_wait_ns: Nanos,
    /// Time for which the device was idled for the group (`idle_time`).
    pub idle_ns: Nanos,
    /// Time with nothing queued (`empty_time`).
    pub empty_ns: Nanos,
    /// How often the group left the order of groups (`dequeue`).
    pub dequeues: u64,
}

impl GroupAccount {
    /// The account of a group that has done nothing.
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

    /// Adds another group's account, except its queued requests.
    pub fn absorb(&mut self, other: &GroupAccount) {
        for (sum, more) in [
            (&mut self.time_ns, other.time_ns),
            (&mut self.unaccounted_ns, other.unaccounted_ns),
            (&mut self.sectors, other.sectors),
            (&mut self.queue_samples, other.queue_samples),
            (&mut self.queue_sampled_requests, other.queue_sampled_requests),
            (&mut self.group_wait_ns, other.group_wait_ns),
            (&mut self.idle_ns, other.idle_ns),
            (&mut self.empty_ns, other.empty_ns),
            (&mut self.dequeues, other.dequeues),
        ] {
            *sum = sum.wrapping_add(more);
        }
        self.service_bytes.absorb(&other.service_bytes);
        self.serviced.absorb(&other.serviced);
        self.service_time_ns.absorb(&other.service_time_ns);
        self.wait_time_ns.absorb(&other.wait_time_ns);
        self.merged.absorb(&other.merged);
    }

    // The following functions run for every request. Sync reads are tested first: for them one
    // branch is enough.

    /// A request was queued.
    #[inline]
    pub const fn queue(&mut self, kind: Kind, is_sync: bool) {
        self.queued.count_first(kind, is_sync, 1);
    }

    /// A request is no longer queued.
    #[inline]
    pub const fn unqueue(&mut self, kind: Kind, is_sync: bool) {
        self.queued.count_first(kind, is_sync, 1_u64.wrapping_neg());
    }

    /// A request of `sectors` sectors was dispatched to the device.
    #[inline]
    pub const fn serve(&mut self, kind: Kind, is_sync: bool, sectors: u32) {
        let (sectors, bytes) = (sectors as u64, sectors as u64 * 512);
        self.sectors = self.sectors.wrapping_add(sectors);
        if is_sync && matches!(kind, Kind::Read) {
            self.serviced.add_sync_reads(1);
            self.service_bytes.add_sync_reads(bytes);
        } else {
            self.serviced.count(kind, is_sync, 1);
            self.service_bytes.count(kind, is_sync, bytes);
        }
    }

    /// A queued request of `sectors` sectors was dispatched: [`GroupAccount::unqueue`] and
    /// [`GroupAccount::serve`].
    #[inline]
    pub const fn dispatch(&mut self, kind: Kind, is_sync: bool, sectors: u32) {
        if is_sync && matches!(kind, Kind::Read) {
            self.queued.add_sync_reads(1_u64.wrapping_neg());
            self.sectors = self.sectors.wrapping_add(sectors as u64);
            self.serviced.add_sync_reads(1);
            self.service_bytes.add_sync_reads(sectors as u64 * 512);
        } else {
            self.unqueue(kind, is_sync);
            self.serve(kind, is_sync, sectors);
        }
    }

    /// The device completed a request: its service time, and how long it had waited before.
    #[inline]
    pub const fn complete(&mut self, kind: Kind, is_sync: bool, service_ns: Nanos, wait_ns: Nanos) {
        if is_sync && matches!(kind, Kind::Read) {
            self.service_time_ns.add_sync_reads(service_ns);
            self.wait_time_ns.add_sync_reads(wait_ns);
        } else {
            self.service_time_ns.count(kind, is_sync, service_ns);
            self.wait_time_ns.count(kind, is_sync, wait_ns);
        }
    }

    /// `reset_stats`: clears everything except the number of queued requests.
    pub const fn reset(&mut self) {
        let queued = self.queued;
        *self = GroupAccount::ZERO;
        self.queued = queued;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn discards_are_neither_reads_nor_writes_but_part_of_the_total() {
        let mut counted = ByKind::ZERO;
        for (operation, amount) in
            [(Operation::Read, 1), (Operation::Write, 10), (Operation::Discard, 100), (Operation::SecureErase, 1000)]
        {
            counted.count(Kind::of(operation), operation == Operation::Read, amount);
        }
        let expected = ByKind { reads: 1, writes: 1010, discards: 100, sync: 1, asynchronous: 1110 };
        assert_eq!((counted, counted.total()), (expected, 1111));
        counted.uncount(Kind::Discard, false, 100);
        assert_eq!((counted.discards, counted.total()), (0, 1011));
    }

    #[test]
    fn a_request_is_counted_as_its_kind_asks() {
        let (mut one_by_one, mut at_once) = (GroupAccount::ZERO, GroupAccount::ZERO);
        for (kind, is_sync, sectors) in [
            (Kind::Read, true, 1),
            (Kind::Read, false, 2),
            (Kind::Write, true, 4),
            (Kind::Write, false, 8),
            (Kind::Discard, true, 16),
            (Kind::Discard, false, 32),
        ] {
            let (service_ns, wait_ns) = (u64::from(sectors) * 3, u64::from(sectors) * 5);
            for _ in 0..2 {
                at_once.queue(kind, is_sync);
            }
            at_once.unqueue(kind, is_sync);
            at_once.serve(kind, is_sync, sectors);
            at_once.complete(kind, is_sync, service_ns, wait_ns);
            one_by_one.queued.count(kind, is_sync, 1);
            one_by_one.sectors += u64::from(sectors);
            one_by_one.serviced.count(kind, is_sync, 1);
            one_by_one.service_bytes.count(kind, is_sync, u64::from(sectors) * 512);
            one_by_one.service_time_ns.count(kind, is_sync, service_ns);
            one_by_one.wait_time_ns.count(kind, is_sync, wait_ns);
        }
        assert_eq!((at_once, at_once.sectors), (one_by_one, 63));
    }

    #[test]
    fn what_is_queued_is_not_absorbed() {
        let one = ByKind { reads: 3, sync: 3, ..ByKind::ZERO };
        let gone = GroupAccount { time_ns: 7, serviced: one, queued: one, ..GroupAccount::ZERO };
        let mut sum = gone;
        sum.absorb(&gone);
        let twice = ByKind { reads: 6, sync: 6, ..ByKind::ZERO };
        assert_eq!(sum, GroupAccount { time_ns: 14, serviced: twice, queued: one, ..GroupAccount::ZERO });
    }
}
