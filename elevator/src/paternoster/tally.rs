//! What is counted of each group's service, so that a request touches one cache line of it; [`GroupAccount`] is what hosts see.

use crate::account::{ByKind, GroupAccount};
use block::{Direction, Nanos};

/// Of the requests of one direction that somebody waits for, or that nobody does.
#[derive(Copy, Clone, Debug)]
#[repr(align(64))]
pub struct Tally {
    pub serviced: u64,
    pub bytes: u64,
    pub service_ns: Nanos,
    pub wait_ns: Nanos,
    pub merged: u64,
    pub queued: u32,
}

const _: () = assert!(size_of::<Tally>() == 64, "one cache line");

impl Tally {
    pub const ZERO: Tally = Tally { serviced: 0, bytes: 0, service_ns: 0, wait_ns: 0, merged: 0, queued: 0 };
}

/// All requests of a group.
#[derive(Copy, Clone, Debug)]
pub struct Tallies([Tally; 4]);

impl Tallies {
    pub const ZERO: Tallies = Tallies([Tally::ZERO; 4]);

    #[inline]
    pub const fn of(&mut self, direction: Direction, is_sync: bool) -> &mut Tally {
        let [async_reads, async_writes, sync_reads, sync_writes] = &mut self.0;
        match (direction, is_sync) {
            (Direction::Read, true) => sync_reads,
            (Direction::Read, false) => async_reads,
            (Direction::Write, true) => sync_writes,
            (Direction::Write, false) => async_writes,
        }
    }

    /// `reset_stats`: everything is zero, but for what is queued.
    pub fn reset(&mut self) {
        for tally in &mut self.0 {
            *tally = Tally { queued: tally.queued, ..Tally::ZERO };
        }
    }

    fn by_kind(&self, of: impl Fn(&Tally) -> u64) -> ByKind {
        // By reference: a copy of all four would be half of the stack that a kernel has for a call.
        let [async_reads, async_writes, sync_reads, sync_writes] = &self.0;
        let [async_reads, async_writes] = [of(async_reads), of(async_writes)];
        let [sync_reads, sync_writes] = [of(sync_reads), of(sync_writes)];
        ByKind {
            reads: async_reads.wrapping_add(sync_reads),
            writes: async_writes.wrapping_add(sync_writes),
            discards: 0,
            sync: sync_reads.wrapping_add(sync_writes),
            asynchronous: async_reads.wrapping_add(async_writes),
        }
    }

    pub fn account(&self) -> GroupAccount {
        let mut account = GroupAccount::ZERO;
        account.service_bytes = self.by_kind(|tally| tally.bytes);
        account.sectors = account.service_bytes.total() / 512;
        account.serviced = self.by_kind(|tally| tally.serviced);
        account.service_time_ns = self.by_kind(|tally| tally.service_ns);
        account.wait_time_ns = self.by_kind(|tally| tally.wait_ns);
        account.merged = self.by_kind(|tally| tally.merged);
        account.queued = self.by_kind(|tally| u64::from(tally.queued));
        account
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_add_up_and_a_reset_leaves_what_is_queued() {
        let mut tallies = Tallies::ZERO;
        for (direction, is_sync, bytes) in [(Direction::Read, true, 512), (Direction::Write, false, 4096)] {
            let tally = tallies.of(direction, is_sync);
            (tally.bytes, tally.queued) = (bytes, 3);
        }
        let account = tallies.account();
        assert_eq!((account.sectors, account.service_bytes.reads, account.service_bytes.asynchronous), (9, 512, 4096));
        tallies.reset();
        assert_eq!((tallies.account().sectors, tallies.account().queued.total()), (0, 6));
    }
}
