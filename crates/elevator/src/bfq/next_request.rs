//! Inside a queue: the best next request, and the two orders (by sector and by deadline) that hold
//! its requests.

use super::Bfq;
use super::state::{Held, Marks};
use super::tunables::Settings;
use crate::structures::NIL;
use core::hint::select_unpredictable;
use hoistway_block::Extent;

/// A request that begins more sectors than this from the end of the last one is far; on flash only
/// if it is also shorter than the next constant.
const FAR_SECTORS: u64 = 800;
pub const LONG_ON_FLASH_SECTORS: u32 = 64;

/// What the choice of the next request needs to know about a request.
#[derive(Copy, Clone, Debug)]
struct Candidate {
    slot: u32,
    first_sector: u64,
    /// A request of a lower kind is dispatched first, whatever the distance.
    kind: u8,
}

/// The state of a queue after a request left it.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Left {
    /// The queue has the same next request as before; or it is empty, and the caller need not
    /// handle that.
    Something,
    /// The queue has another next request.
    AnotherNext,
    /// The queue is empty; it is still counted as busy, and is not in service.
    Nothing,
}

/// Whether a request is far from the end of the one before. A request of `near_sectors` or more never is;
/// `last_end` 0 means that there was none before.
#[inline]
pub const fn is_far_from(last_end: u64, extent: Extent, near_sectors: u32) -> bool {
    last_end != 0 && extent.first_sector.abs_diff(last_end) > FAR_SECTORS && extent.sectors < near_sectors
}

impl Settings {
    /// The seek cost; lower is better. A single number, because a branch on which request is nearer
    /// would be mispredicted half of the time: bit 63 says whether the head wraps around, and the
    /// rest is the distance, which is less than 2^63 sectors.
    #[inline(always)]
    fn way(&self, first_sector: u64, last: u64) -> u64 {
        let is_ahead = first_sector >= last;
        let behind = last.wrapping_sub(first_sector);
        let goes_round = !is_ahead & (behind > self.back_seek_max_sectors);
        // The product cannot overflow: a permitted backward seek is shorter than 2^32 sectors, and
        // the penalty is at most 2^31.
        let back = behind.wrapping_mul(self.back_seek_penalty);
        // Requests after a wrap are ordered by their distance from the device's first sector.
        let far = select_unpredictable(goes_round, first_sector, back);
        let distance = select_unpredictable(is_ahead, first_sector.wrapping_sub(last), far);
        u64::from(goes_round) << 63 | distance
    }
}

impl Bfq {
    #[inline]
    pub(super) fn first_sector(&self, slot: u32) -> u64 {
        self.order.first_sector(slot)
    }

    /// The candidate for a queued request.
    #[inline(always)]
    fn candidate(&self, slot: u32) -> Candidate {
        Candidate { slot, first_sector: self.first_sector(slot), kind: self.slots.at(slot).kind }
    }

    /// The better of two queued requests: sync before async, metadata before data, then the nearer
    /// to `last`; a request too far behind `last` is reached by wrapping around.
    #[inline(always)]
    fn better(&self, one: Candidate, other: Candidate, last: u64) -> u32 {
        if one.kind != other.kind {
            return if one.kind < other.kind { one.slot } else { other.slot };
        }
        let (a, b) = (self.settings.way(one.first_sector, last), self.settings.way(other.first_sector, last));
        // At equal cost, the request ahead wins over the one behind; at the same sector, the first.
        let is_first_better = (a < b) | ((a == b) & (one.first_sector >= other.first_sector));
        select_unpredictable(is_first_better, one.slot, other.slot)
    }

    /// Adds a request to its queue's two orders. True if the queue's next request has changed.
    #[inline(always)]
    pub(super) fn insert_by_sector(&mut self, queue: u32, slot: u32, first_sector: u64, kind: u8) -> bool {
        let state = self.queues.at_mut(queue);
        let is_in = self.order.add(state, slot, first_sector);
        let before = state.pending.next();
        if !is_in {
            self.count_violation();
            return false;
        }
        let candidate = Candidate { slot, first_sector, kind };
        let is_first = before == NIL;
        let next =
            if is_first { slot } else { self.better(self.candidate(before), candidate, self.positions.last_sector()) };
        self.queues.at_mut(queue).pending.set_next(next);
        next != before
    }

    /// The oldest request if its deadline has passed; checked once per turn.
    #[inline(never)]
    fn overdue(&mut self, queue: u32, slot: u32) -> u32 {
        let state = self.queues.at_mut(queue);
        state.marks.set(Marks::FIFO_EXPIRE);
        let oldest = state.pending.oldest().unwrap_or(NIL);
        let is_overdue = oldest != slot && self.clock.ns >= self.slots.at(oldest).due_ns;
        if oldest == NIL || !is_overdue {
            return NIL;
        }
        self.log_queue(queue, "check_fifo: returned {0}", &[u64::from(oldest)]);
        oldest
    }

    /// The next request after `slot` leaves: the oldest if its deadline has passed (checked once a
    /// turn), otherwise a neighbour.
    #[inline(always)]
    fn successor(&mut self, queue: u32, slot: u32) -> u32 {
        if !self.queues.at(queue).has(Marks::FIFO_EXPIRE) {
            let overdue = self.overdue(queue, slot);
            if overdue != NIL {
                return overdue;
            }
        }
        let [previous, behind] = self.order.beside(slot);
        if previous == NIL {
            return behind;
        }
        let next = if behind == NIL { self.queues.at(queue).pending.lowest().unwrap_or(NIL) } else { behind };
        self.better(self.candidate(next), self.candidate(previous), self.first_sector(slot))
    }

    /// Removes a request from its queue's orders because it was dispatched or merged into another.
    #[inline]
    pub(super) fn take_out(&mut self, slot: u32) {
        let queue = self.slots.at(slot).queue;
        let left = self.unlink_alone(slot);
        self.after_leaving(queue, left);
    }

    #[inline(never)]
    fn unlink_alone(&mut self, slot: u32) -> Left {
        self.unlink(slot)
    }

    /// Handles the consequences after a request left its queue's orders.
    #[inline(always)]
    pub(super) fn after_leaving(&mut self, queue: u32, left: Left) {
        match left {
            Left::Something => {}
            Left::AnotherNext => self.next_request_changed(queue),
            Left::Nothing => {
                // The queue became empty by injection or a merge, outside of its turn: the service
                // of its turn so far is forgotten (quirk Q11 of docs/specifications/bfq.md).
                self.leave_busy(queue, false);
                let entity = self.schedule.entity_mut(queue);
                (entity.budget, entity.service) = (0, 0);
            }
        }
    }

    /// Removes a request from both orders. Inlined into its callers.
    #[inline(always)]
    pub(super) fn unlink(&mut self, slot: u32) -> Left {
        let entry = self.slots.at_mut(slot);
        if entry.held != Held::Queued {
            self.count_violation();
            return Left::Something;
        }
        entry.held = Held::Nowhere;
        let (queue, is_sync) = (entry.queue, entry.is_sync);
        self.groups.at_mut(entry.group).account.unqueue(entry.counts_as, is_sync);
        let state = self.queues.at(queue);
        let (is_next, is_out_of_turn) =
            (state.pending.next() == slot, state.has(Marks::BUSY) && queue != self.in_service);
        let next = if is_next { self.successor(queue, slot) } else { state.pending.next() };
        let is_empty = self.leave_orders::<false>(queue, slot, is_sync, next);
        match () {
            () if is_empty && is_out_of_turn => Left::Nothing,
            () if is_empty || !is_next => Left::Something,
            () => Left::AnotherNext,
        }
    }

    /// Removes the queue's next request, already accounted for, from both orders.
    #[inline(always)]
    pub(super) fn next_leaves(&mut self, queue: u32, slot: u32, is_sync: bool) {
        let next = self.successor(queue, slot);
        self.leave_orders::<true>(queue, slot, is_sync, next);
    }

    /// Removes a request from both orders and makes `next` the next one. True if the queue is empty
    /// now. `INLINE` saves a call where the stack allows it.
    #[inline(always)]
    fn leave_orders<const INLINE: bool>(&mut self, queue: u32, slot: u32, is_sync: bool, next: u32) -> bool {
        let state = self.queues.at_mut(queue);
        let is_out = self.order.remove::<INLINE>(state, slot);
        state.pending.count_out(is_sync);
        let is_empty = state.is_empty();
        state.pending.set_next(if is_empty { NIL } else { next });
        self.busy.remove_request();
        if !is_out {
            self.count_violation();
        }
        if is_empty {
            self.forget_position(queue);
        } else {
            self.note_position(queue);
        }
        is_empty
    }

    /// Moves a queued request in its queue's order, because a front merge changed its first sector.
    /// True if the queue's next request has changed.
    #[inline(never)]
    pub(super) fn moved_forward(&mut self, slot: u32, first_sector: u64) -> bool {
        let queue = self.slots.at(slot).queue;
        let last = self.positions.last_sector();
        let state = self.queues.at_mut(queue);
        let before = state.pending.next();
        let is_moved = self.order.change_sector(state, slot, first_sector);
        if !is_moved {
            self.count_violation();
            return false;
        }
        let is_it = before == slot || before == NIL;
        let next = if is_it { slot } else { self.better(self.candidate(before), self.candidate(slot), last) };
        self.queues.at_mut(queue).pending.set_next(next);
        self.note_position(queue);
        next != before
    }

    /// `gone` was merged into `keep` of the same queue, which takes the older one's place in the
    /// fifo.
    pub(super) fn inherit(&mut self, keep: u32, gone: u32) {
        let queue = self.slots.at(keep).queue;
        if self.slots.at(gone).due_ns < self.slots.at(keep).due_ns {
            let state = self.queues.at_mut(queue);
            let is_moved = self.order.move_before(state, gone, keep);
            if !is_moved {
                self.count_violation();
            }
            self.slots.at_mut(keep).due_ns = self.slots.at(gone).due_ns;
        }
        if self.queues.at(queue).pending.next() == gone {
            self.queues.at_mut(queue).pending.set_next(keep);
        }
    }
}
