//! Inside a queue: the best next request, and the two orders (by sector and by deadline) that hold
//! its requests.

use super::Cfq;
use super::state::{Held, Marks, Slot};
use crate::structures::NIL;

/// What the choice needs to know about a request.
#[derive(Copy, Clone, Debug)]
pub struct Candidate {
    pub first_sector: u64,
    pub is_sync: bool,
    pub is_favoured: bool,
}

/// The cost of backward seeks.
#[derive(Copy, Clone, Debug)]
pub struct BackSeeks {
    pub most_sectors: u64,
    pub penalty: u64,
}

/// Whether `one` is preferred to `other`, with the head at `last`: sync before async, favoured
/// before plain, then the nearer; a request too far behind the head is reached by wrapping around,
/// and comes after all that are not.
pub fn is_preferred(one: Candidate, other: Candidate, last: u64, back: BackSeeks) -> bool {
    if one.is_sync != other.is_sync {
        return one.is_sync;
    }
    if one.is_favoured != other.is_favoured {
        return one.is_favoured;
    }
    let (a, b) = (one.first_sector, other.first_sector);
    match (distance(a, last, back), distance(b, last, back)) {
        (Some(x), Some(y)) if x == y => a >= b,
        (Some(x), Some(y)) => x < y,
        (Some(_), None) => true,
        (None, Some(_)) => false,
        (None, None) => a <= b,
    }
}

/// The seek distance; `None` for a request that is reached by wrapping around.
fn distance(first_sector: u64, last: u64, back: BackSeeks) -> Option<u64> {
    if first_sector >= last {
        return Some(first_sector.wrapping_sub(last));
    }
    let behind = last.wrapping_sub(first_sector);
    (behind <= back.most_sectors).then_some(behind.saturating_mul(back.penalty))
}

impl Cfq {
    /// The better of two queued requests, either of which may be NIL.
    pub(super) fn better(&self, one: u32, other: u32, last: u64) -> u32 {
        if one == NIL || one == other {
            return other;
        }
        if other == NIL {
            return one;
        }
        let back =
            BackSeeks { most_sectors: self.settings.back_seek_max_sectors, penalty: self.settings.back_seek_penalty };
        if is_preferred(self.candidate(one), self.candidate(other), last, back) { one } else { other }
    }

    fn candidate(&self, slot: u32) -> Candidate {
        let entry = self.slots.at(slot);
        let first_sector = self.order.key(slot).unwrap_or(0);
        Candidate { first_sector, is_sync: entry.is_sync, is_favoured: entry.is_favoured }
    }

    /// The best next request after `slot` has left its queue. Distances are measured from the start
    /// of `slot` and not from its end (quirk Q9 of docs/specifications/cfq.md).
    fn successor(&self, queue: u32, slot: u32) -> u32 {
        let first = self.queues.at(queue).pending.lowest().filter(|first| *first != slot);
        let next = self.order.next(slot).or(first).unwrap_or(NIL);
        let previous = self.order.prev(slot).unwrap_or(NIL);
        let from =
            if self.profile.has_one_level { self.device.last_sector() } else { self.order.key(slot).unwrap_or(0) };
        self.better(next, previous, from)
    }

    /// Adds a request to its queue's order, which makes the queue busy.
    #[inline(always)]
    pub(super) fn insert_by_sector(&mut self, queue: u32, slot: u32, first_sector: u64, is_sync: bool) {
        let state = self.queues.at_mut(queue);
        if !self.order.add_by_sector(state, slot, first_sector) {
            self.count_violation();
            return;
        }
        state.pending.count_in(is_sync);
        let (is_busy, before) = (state.has(Marks::ON_RR), state.pending.next());
        if !is_busy {
            self.become_busy(queue);
        }
        let next = self.better(before, slot, self.device.last_sector());
        if next != before {
            self.queues.at_mut(queue).pending.set_next(next);
            self.note_next(queue);
        }
    }

    /// Determines the next request from a dispatched one, even if that was not the expected next
    /// request.
    #[inline]
    pub(super) fn update_next_from(&mut self, queue: u32, slot: u32) {
        let next = self.successor(queue, slot);
        self.queues.at_mut(queue).pending.set_next(next);
    }

    /// Removes a request from its queue's orders because it was merged into another or taken back.
    #[inline(never)]
    pub(super) fn take_out(&mut self, slot: u32) {
        let Slot { queue, held, group, kind, is_sync, .. } = *self.slots.at(slot);
        if held != Held::Queued {
            self.count_violation();
            return;
        }
        let is_next = self.queues.at(queue).pending.next() == slot;
        if is_next {
            self.update_next_from(queue, slot);
        }
        self.slots.at_mut(slot).held = Held::Nowhere;
        self.unlink_request(queue, slot);
        // For the active queue this change is not recorded: neighbours are not searched while it
        // has requests, and its next request is recorded when it becomes empty or its turn ends.
        if is_next && self.engine.active != queue {
            self.note_next(queue);
        }
        self.groups.at_mut(group).account.unqueue(kind, is_sync);
    }

    /// Removes a request from both orders of its queue, and marks the queue if it is empty. Inlined
    /// into its callers.
    #[inline(always)]
    pub(super) fn unlink_request(&mut self, queue: u32, slot: u32) {
        let Slot { is_sync, is_favoured, .. } = *self.slots.at(slot);
        let state = self.queues.at_mut(queue);
        let is_unsorted = self.order.remove_by_sector(state, slot);
        if is_unsorted {
            state.pending.count_out(is_sync);
        }
        let is_out = is_unsorted & self.order.remove_from_fifo(state, slot);
        state.favoured = state.favoured.wrapping_sub(u32::from(is_favoured));
        let is_spent = is_unsorted && state.is_empty();
        self.load.remove_request();
        if !is_out {
            self.count_violation();
        }
        if is_spent {
            self.note_next(queue);
        }
    }

    /// Moves a request in its queue's order, because a front merge changed its first sector.
    pub(super) fn moved_forward(&mut self, slot: u32, first_sector: u64) {
        let queue = self.slots.at(slot).queue;
        let state = self.queues.at_mut(queue);
        let is_moved = self.order.change_sector(state, slot, first_sector);
        if !is_moved {
            self.count_violation();
            return;
        }
        let next = self.better(self.queues.at(queue).pending.next(), slot, self.device.last_sector());
        self.queues.at_mut(queue).pending.set_next(next);
        self.note_next(queue);
    }

    /// The queue's oldest request if it is overdue; checked once per activation, so that a slice
    /// breaks its order only once.
    pub(super) fn overdue(&mut self, queue: u32) -> Option<u32> {
        let state = self.queues.at_mut(queue);
        if state.has(Marks::FIFO_EXPIRE) {
            return None;
        }
        state.marks.set(Marks::FIFO_EXPIRE);
        let oldest = state.pending.oldest().filter(|slot| self.clock.now() >= self.slots.at(*slot).due_ticks);
        match oldest {
            Some(slot) => self.log_queue(queue, "fifo={0}", &[u64::from(slot)]),
            None if self.profile.has_late_rules => {}
            None => self.log_queue(queue, "fifo=(null)", &[]),
        }
        oldest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACK: BackSeeks = BackSeeks { most_sectors: 32_768, penalty: 2 };

    fn plain(first_sector: u64) -> Candidate {
        Candidate { first_sector, is_sync: true, is_favoured: false }
    }

    fn chosen(a: u64, b: u64, last: u64) -> u64 {
        let first = is_preferred(plain(a), plain(b), last, BACK);
        assert_eq!(first, !is_preferred(plain(b), plain(a), last, BACK), "the order of asking makes no difference");
        if first { a } else { b }
    }

    #[test]
    fn t10_the_nearer_goes_first_and_back_counts_double() {
        assert_eq!((chosen(1100, 960, 1000), chosen(1100, 950, 1000), chosen(1100, 940, 1000)), (960, 1100, 1100));
        assert_eq!(chosen(10, 20, 100_000), 10, "both too far back");
        // 32768 sectors back are within reach, one more is not.
        assert_eq!((chosen(67_232, 165_536, 100_000), chosen(67_231, 900_000, 100_000)), (165_536, 900_000));
        assert_eq!(chosen(67_232, 165_537, 100_000), 67_232);
    }

    #[test]
    fn t10_sync_then_favoured_before_any_distance() {
        let asynchronous = Candidate { is_sync: false, ..plain(1000) };
        let meta = Candidate { is_favoured: true, ..plain(1) };
        assert!(is_preferred(plain(1), asynchronous, 1000, BACK));
        assert!(is_preferred(meta, plain(1000), 1000, BACK));
        assert!(is_preferred(plain(1), Candidate { is_favoured: true, ..asynchronous }, 1000, BACK));
    }
}
