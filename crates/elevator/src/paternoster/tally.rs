//! Counters of each group's service, laid out so that a request touches one cache line of them;
//! [`GroupAccount`] is the host's view.

use crate::account::{ByKind, GroupAccount};
use crate::structures::{Array, NoMemory};
use hoistway_block::Nanos;

/// Counters of one direction's requests, either sync or async.
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

/// The counters of all groups; per group: async reads and writes, sync reads and writes.
#[derive(Debug)]
pub struct Tallies(Array<Tally>);

/// Kinds of requests that are counted separately per group.
const KINDS: u32 = 4;

impl Tallies {
    /// # Errors
    /// When memory is short.
    pub fn try_new(groups: u32) -> Result<Self, NoMemory> {
        Ok(Self(Array::try_new(groups.checked_mul(KINDS).ok_or(NoMemory)?, Tally::ZERO)?))
    }

    /// Index of the counters for requests of a group and a kind.
    #[inline]
    pub fn number(group: u32, is_read: bool, is_sync: bool) -> u32 {
        // Cannot overflow: [`Self::try_new`] bounds the number of groups.
        group.wrapping_mul(KINDS) | (u32::from(is_sync) << 1) | u32::from(!is_read)
    }

    #[inline]
    pub fn at_mut(&mut self, number: u32) -> &mut Tally {
        self.0.at_mut(number)
    }

    /// Clears all counters of a group, including what is queued.
    pub fn clear(&mut self, group: u32) {
        for kind in 0..KINDS {
            *self.0.at_mut(group.saturating_mul(KINDS).saturating_add(kind)) = Tally::ZERO;
        }
    }

    /// `reset_stats`: clears everything except what is queued. False without such a group.
    pub fn reset(&mut self, group: u32) -> bool {
        for kind in 0..KINDS {
            let Some(tally) = self.0.get_mut(group.saturating_mul(KINDS).saturating_add(kind)) else { return false };
            *tally = Tally { queued: tally.queued, ..Tally::ZERO };
        }
        true
    }

    fn by_kind(&self, group: u32, of: impl Fn(&Tally) -> u64) -> ByKind {
        let count = |is_read, is_sync| of(self.0.at(Self::number(group, is_read, is_sync)));
        let [async_reads, async_writes] = [count(true, false), count(false, false)];
        let [sync_reads, sync_writes] = [count(true, true), count(false, true)];
        ByKind {
            reads: async_reads.wrapping_add(sync_reads),
            writes: async_writes.wrapping_add(sync_writes),
            discards: 0,
            sync: sync_reads.wrapping_add(sync_writes),
            asynchronous: async_reads.wrapping_add(async_writes),
        }
    }

    /// `None` without such a group.
    pub fn account(&self, group: u32) -> Option<GroupAccount> {
        self.0.get(group.checked_mul(KINDS)?)?;
        let mut account = GroupAccount::ZERO;
        account.service_bytes = self.by_kind(group, |tally| tally.bytes);
        account.sectors = account.service_bytes.total() / 512;
        account.serviced = self.by_kind(group, |tally| tally.serviced);
        account.service_time_ns = self.by_kind(group, |tally| tally.service_ns);
        account.wait_time_ns = self.by_kind(group, |tally| tally.wait_ns);
        account.merged = self.by_kind(group, |tally| tally.merged);
        account.queued = self.by_kind(group, |tally| u64::from(tally.queued));
        Some(account)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_add_up_and_a_reset_leaves_what_is_queued() {
        let mut tallies = Tallies::try_new(2).unwrap();
        for (is_read, is_sync, bytes) in [(true, true, 512), (false, false, 4096)] {
            let tally = tallies.at_mut(Tallies::number(1, is_read, is_sync));
            (tally.bytes, tally.queued) = (bytes, 3);
        }
        let account = tallies.account(1).unwrap();
        assert_eq!((account.sectors, account.service_bytes.reads, account.service_bytes.asynchronous), (9, 512, 4096));
        assert!(tallies.reset(1) && !tallies.reset(2));
        let account = tallies.account(1).unwrap();
        assert_eq!((account.sectors, account.queued.total()), (0, 6));
        assert_eq!((tallies.account(0).unwrap().queued.total(), tallies.account(2)), (0, None));
        tallies.clear(1);
        assert_eq!(tallies.account(1).unwrap().queued.total(), 0);
    }
}
