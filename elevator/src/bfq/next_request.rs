//! Inside a queue: which request is the best next one, and the two orders it is found in.

use super::Bfq;
use super::state::{Held, Marks};
use crate::structures::NIL;
use core::hint::select_unpredictable;

/// Requests that begin farther from where the last one ended are far off; on flash only short ones are.
const FAR_SECTORS: u64 = 800;
pub const LONG_ON_FLASH_SECTORS: u32 = 64;

/// What a queue has when a request has left it.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Left {
    /// As before, or nothing, which is looked at elsewhere.
    Something,
    /// Another request comes next.
    AnotherNext,
    /// Nothing, and it is busy out of turn.
    Nothing,
}

impl Bfq {
    /// Whether a request at `first_sector` is far from where another ended; `last_end` 0 = there was none.
    pub(super) fn is_seeky_after(&self, last_end: u64, first_sector: u64, sectors: u32) -> bool {
        last_end != 0
            && first_sector.abs_diff(last_end) > FAR_SECTORS
            && (self.is_rotational || sectors < LONG_ON_FLASH_SECTORS)
    }

    #[inline]
    pub(super) fn first_sector(&self, slot: u32) -> u64 {
        self.sort_links.key(slot).unwrap_or(0)
    }

    /// The better of two queued requests, either of which may be NIL: sync before async, metadata before data, then the
    /// nearer to `last`; what lies too far back counts as behind everything.
    fn better(&self, one: u32, other: u32, last: u64) -> u32 {
        if one == NIL || one == other {
            return other;
        }
        if other == NIL {
            return one;
        }
        let (a, b) = (self.rank(one, last), self.rank(other, last));
        // As far ahead as the other lies back: ahead. At the same place: the first.
        let is_first_better = a < b || (a == b && self.first_sector(one) >= self.first_sector(other));
        select_unpredictable(is_first_better, one, other)
    }

    /// Less is better. One number, since which of two requests is nearer is a coin toss and a branch on it is mispredicted
    /// every other time: kind above whether the head goes round for it above how far it has to go.
    #[inline]
    fn rank(&self, slot: u32, last: u64) -> u128 {
        let (entry, first_sector) = (self.slots.at(slot), self.first_sector(slot));
        let is_ahead = first_sector >= last;
        let behind = last.wrapping_sub(first_sector);
        let goes_round = !is_ahead & (behind > self.settings.back_seek_max_sectors);
        let back = behind.saturating_mul(self.settings.back_seek_penalty);
        // All that the head goes round for is counted from the device's first sector.
        let far = select_unpredictable(goes_round, first_sector, back);
        let distance = select_unpredictable(is_ahead, first_sector.wrapping_sub(last), far);
        let kind = u128::from(!entry.is_sync) << 66 | u128::from(!entry.is_meta) << 65;
        kind | u128::from(goes_round) << 64 | u128::from(distance)
    }

    /// Puts a request into its queue's order; whether another comes next now.
    pub(super) fn sort_in(&mut self, queue: u32, slot: u32, first_sector: u64) -> bool {
        let last = self.last_position_sectors;
        let state = self.queues.at_mut(queue);
        if !state.sorted.insert(&mut self.sort_links, slot, first_sector) {
            self.complain();
            return false;
        }
        let before = state.next;
        let next = self.better(before, slot, last);
        self.queues.at_mut(queue).next = next;
        next != before
    }

    /// What goes next when `slot` leaves: the oldest if its time has passed (looked at once a turn), else a neighbour.
    fn successor(&mut self, queue: u32, slot: u32) -> u32 {
        let now = self.clock.ns;
        let state = self.queues.at_mut(queue);
        if !state.has(Marks::FIFO_EXPIRE) {
            state.marks.set(Marks::FIFO_EXPIRE);
            let oldest = state.fifo.first().unwrap_or(NIL);
            let is_overdue = oldest != slot && now >= self.slots.at(oldest).due_ns;
            if oldest != NIL && is_overdue {
                self.say_queue(queue, "check_fifo: returned {0}", &[u64::from(oldest)]);
                return oldest;
            }
        }
        let first = self.queues.at(queue).sorted.first().filter(|first| *first != slot);
        let next = self.sort_links.next(slot).or(first).unwrap_or(NIL);
        let previous = self.sort_links.prev(slot).unwrap_or(NIL);
        self.better(next, previous, self.first_sector(slot))
    }

    /// A request leaves its queue's orders: chosen, or absorbed by another.
    #[inline]
    pub(super) fn take_out(&mut self, slot: u32) {
        let queue = self.slots.at(slot).queue;
        match self.unlink(slot) {
            Left::Something => {}
            Left::AnotherNext => self.next_request_changed(queue),
            Left::Nothing => {
                // Injected or merged away: what it had of its turn is lost (Q11).
                self.leave_busy(queue, false);
                let entity = self.entities.at_mut(queue);
                (entity.budget, entity.service) = (0, 0);
            }
        }
    }

    #[inline(never)]
    fn unlink(&mut self, slot: u32) -> Left {
        let entry = *self.slots.at(slot);
        let queue = entry.queue;
        if entry.held != Held::Queued {
            self.complain();
            return Left::Something;
        }
        let mut left = Left::Something;
        if self.queues.at(queue).next == slot {
            let next = self.successor(queue, slot);
            self.queues.at_mut(queue).next = next;
            left = Left::AnotherNext;
        }
        let state = self.queues.at_mut(queue);
        let is_out = state.fifo.remove(&mut self.fifo_links, slot) && state.sorted.remove(&mut self.sort_links, slot);
        if !is_out {
            self.complain();
        }
        let state = self.queues.at_mut(queue);
        let [asynchronous, sync] = &mut state.queued;
        let queued = if entry.is_sync { sync } else { asynchronous };
        *queued = queued.saturating_sub(1);
        self.requests_queued = self.requests_queued.saturating_sub(1);
        self.slots.at_mut(slot).held = Held::Nowhere;
        self.groups.at_mut(entry.group).account.queued.take(entry.direction, entry.is_sync, 1);
        if !self.queues.at(queue).is_empty() {
            self.note_position(queue);
            return left;
        }
        self.queues.at_mut(queue).next = NIL;
        self.forget_position(queue);
        let leaves = self.queues.at(queue).has(Marks::BUSY) && queue != self.in_service;
        if leaves { Left::Nothing } else { Left::Something }
    }

    /// A front merge moved a queued request's first sector; whether another request of its queue comes next now.
    #[inline(never)]
    pub(super) fn moved_forward(&mut self, slot: u32, first_sector: u64) -> bool {
        let queue = self.slots.at(slot).queue;
        let last = self.last_position_sectors;
        let state = self.queues.at_mut(queue);
        let before = state.next;
        let is_moved = state.sorted.remove(&mut self.sort_links, slot)
            && state.sorted.insert(&mut self.sort_links, slot, first_sector);
        if !is_moved {
            self.complain();
            return false;
        }
        let next = self.better(before, slot, last);
        self.queues.at_mut(queue).next = next;
        self.note_position(queue);
        next != before
    }

    /// `keep` absorbed `gone` of the same queue: it takes the older one's place in the fifo.
    pub(super) fn inherit(&mut self, keep: u32, gone: u32) {
        let queue = self.slots.at(keep).queue;
        if self.slots.at(gone).due_ns < self.slots.at(keep).due_ns {
            let state = self.queues.at_mut(queue);
            let is_moved = state.fifo.remove(&mut self.fifo_links, keep)
                && state.fifo.insert_before(&mut self.fifo_links, gone, keep);
            if !is_moved {
                self.complain();
            }
            self.slots.at_mut(keep).due_ns = self.slots.at(gone).due_ns;
        }
        if self.queues.at(queue).next == gone {
            self.queues.at_mut(queue).next = keep;
        }
    }
}
