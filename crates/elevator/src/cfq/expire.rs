//! Expiration, the end of a turn: the group is charged, and the queue gets its next place or leaves
//! the order.

use super::Cfq;
use super::state::Marks;
use crate::structures::NIL;

/// Whether a queue keeps the unused rest of its slice (or owes the excess).
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Rest {
    /// Kept: the slice was cut short, or ended with a completion.
    Kept,
    Forgotten,
}

impl Cfq {
    /// Ends the active queue's turn.
    #[inline(never)]
    pub(super) fn expire(&mut self, queue: u32, rest: Rest) {
        self.log_queue(queue, "slice expired t={0}", &[u64::from(rest == Rest::Kept)]);
        if self.queues.at(queue).has(Marks::WAIT_REQUEST) {
            self.cancel_timer();
        }
        let state = self.queues.at_mut(queue);
        state.marks.clear(Marks::WAIT_REQUEST);
        state.marks.clear(Marks::WAIT_BUSY);
        if state.has(Marks::COOP) && state.is_seeky() {
            state.marks.set(Marks::SPLIT_COOP);
        }
        if rest == Rest::Kept {
            self.keep_rest(queue);
        }
        if !self.profile.has_one_level {
            self.notice_mode();
            let turn_charge = self.turn_charge(queue);
            self.pay(turn_charge.group, turn_charge.charge);
            self.account_turn(&turn_charge);
            if self.messages.is_on() {
                self.log_vdisktime(turn_charge.group);
                self.log_charge(queue, &turn_charge);
            }
        }
        let state = self.queues.at(queue);
        if state.has(Marks::ON_RR) && state.is_empty() {
            self.become_idle(queue);
        }
        // No longer active, so that the queue is placed in its tree like any other.
        if self.engine.active == queue {
            self.engine.active = NIL;
        }
        self.resort(queue);
        self.engine.active_context = NIL;
    }

    /// Frees queues whose last reference was dropped while they were active (at most one, or one
    /// for each group in policies that have an engine per group). A separate step, so that dropping
    /// a reference needs little stack.
    #[inline]
    pub(super) fn free_deferred(&mut self) {
        let mut queue = self.queues.take_deferred();
        while queue != NIL {
            let state = self.queues.at(queue);
            let (group, next) = (state.group, state.next_free);
            let loaded = self.load_instance(group);
            self.expire(queue, Rest::Forgotten);
            self.load_instance(loaded);
            self.free_queue(queue);
            queue = next;
        }
    }

    #[inline(never)]
    fn keep_rest(&mut self, queue: u32) {
        let is_new = self.queues.at(queue).has(Marks::SLICE_NEW);
        let rest = if is_new {
            if !self.profile.has_late_rules {
                return;
            }
            // The slice has not begun, so all of it is unused.
            self.current_slice(queue).cast_signed()
        } else {
            self.queues.at(queue).slice.signed_left(self.clock.now())
        };
        if self.profile.forgets_rest_in_iops_mode && self.is_iops_mode() {
            return;
        }
        self.queues.at_mut(queue).slice.keep_rest(rest);
        self.log_queue(queue, "resid={0i}", &[rest.cast_unsigned()]);
    }
}
