//! Expiration: the end of a turn.

use super::Bfq;
use super::budget::TurnEnd;
use super::state::Marks;
use crate::structures::NIL;
use hoistway_block::Nanos;

impl Bfq {
    /// Ends the turn of the queue in service. `ended_at_ns` lies in the past if the idle timer
    /// ended it.
    ///
    /// Its steps are called one after another instead of by one another, and the policy's entry
    /// points call this function directly, because the kernel's stack is small and the functions
    /// that change the trees need much of it.
    #[inline(never)]
    pub(super) fn end_turn(&mut self, queue: u32, end: TurnEnd, ended_at_ns: Nanos) {
        self.charge_turn(queue, end, ended_at_ns);
        self.learn_from_turn(queue, end);
        self.leave_service(queue, end);
        self.settle_service(queue, end);
    }

    #[inline(never)]
    fn learn_from_turn(&mut self, queue: u32, end: TurnEnd) {
        self.prepare_soft_real_time(queue);
        self.queues.at_mut(queue).injected_sectors = 0;
        self.injection.forget();
        self.judge_io_bound_at_end(queue, end);
        self.learn_budget(queue, end);
        if self.report.is_on() {
            let state = self.queues.at(queue);
            let (dispatched, is_short) = (u64::from(state.dispatched), u64::from(state.has(Marks::SHORT_THINK_TIME)));
            let numbers = [end as u64, u64::from(self.report.was_slow()), dispatched, is_short];
            self.log_queue(queue, "expire ({0}, slow {1}, num_disp {2}, short_ttime {3})", &numbers);
        }
    }

    #[inline(never)]
    fn settle_service(&mut self, queue: u32, end: TurnEnd) {
        if !self.queues.at(queue).has(Marks::USED) {
            return;
        }
        let keeps_rest = !matches!(end, TurnEnd::BudgetTimeout | TurnEnd::BudgetExhausted);
        if keeps_rest && !self.queues.at(queue).has(Marks::BUSY) {
            // The queue keeps the rest of its budget if its next request arrives in time.
            self.queues.at_mut(queue).marks.set(Marks::WAITS_UNBLOCKED);
        } else {
            self.schedule.entity_mut(queue).service = 0;
        }
        let mut entity = self.parent_entity(queue);
        while entity != NIL {
            self.schedule.entity_mut(entity).service = 0;
            entity = self.parent_entity(entity);
        }
    }

    /// Takes the queue out of service: back onto the trees, or off them.
    #[inline(always)]
    pub(super) fn leave_service(&mut self, queue: u32, end: TurnEnd) {
        if self.leaves(queue, end) {
            self.leave_busy(queue, true);
        } else {
            self.activate_or_requeue(queue, false, true);
            self.note_position(queue);
        }
        self.reset_in_service();
    }

    /// Whether a queue whose turn ended is no longer busy.
    #[inline(never)]
    fn leaves(&mut self, queue: u32, end: TurnEnd) -> bool {
        let state = self.queues.at_mut(queue);
        if state.has(Marks::COOP) && state.is_seeky(self.profile.behaviour.seeky_above) {
            state.marks.set(Marks::SPLIT_COOP);
        }
        let (is_empty, count_out_last) = (state.is_empty(), state.dispatched == 0);
        // A preempted queue that the device must be idled for, because it would otherwise lose its
        // share, stays busy although it is empty. So it is served again before queues of lower
        // precedence.
        let may_stay = self.profile.turns.keeps_preempted_busy && end == TurnEnd::Preempted;
        let stays = may_stay && self.needed_for_guarantees(queue);
        let leaves = is_empty && !stays;
        if leaves && count_out_last {
            self.queues.at_mut(queue).budget_timeout_ticks = self.clock.ticks;
        }
        leaves
    }

    /// Older forms: a queue that lets the idle timer expire with most of its budget left is not I/O
    /// bound.
    fn judge_io_bound_at_end(&mut self, queue: u32, end: TurnEnd) {
        let is_older = self.profile.behaviour.io_bound == super::profile::IoBound::ArrivalsInTime;
        let entity = self.schedule.entity(queue);
        if is_older && end == TurnEnd::TooIdle && entity.service <= entity.budget / 5 {
            self.queues.at_mut(queue).marks.clear(Marks::IO_BOUND);
        }
    }
}
