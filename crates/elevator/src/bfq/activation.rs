//! An empty queue gets a request: its budget, whether its weight is raised, and whether it preempts
//! the queue in service.

use super::Bfq;
use super::profile::Preempts;
use super::state::{DEFAULT_WEIGHT, Marks, class_index};
use crate::structures::NIL;
use hoistway_block::GroupId;

/// A queue whose next request arrives within this many times `slice_idle` after its last completion
/// ("in time") keeps the budget that it had left.
const IN_TIME_IDLES: u64 = 3;

/// What decides, when a request arrives, whether the weight of its queue is raised.
#[derive(Copy, Clone, Debug)]
pub struct Arrival {
    pub is_interactive: bool,
    pub is_soft_real_time: bool,
    pub deserves: bool,
    pub in_large_burst: bool,
}

/// How a queue becomes busy.
#[derive(Copy, Clone, Debug)]
pub struct BusyTransition {
    pub is_interactive: bool,
    pub wants_preempt: bool,
}

impl Bfq {
    /// Prepares a queue that just got its first request while not busy: its budget, and whether its
    /// weight is raised. The caller then puts it on the trees (`enter_busy`) and asks whether it
    /// preempts the queue in service (`ends_turn_in_service`).
    #[inline(never)]
    pub(super) fn prepare_busy(&mut self, queue: u32, slot: u32) -> BusyTransition {
        let arrival = self.judge_arrival(queue, slot);
        let is_in_time = self.is_in_time(queue);
        let wants_preempt = self.take_up_budget(queue, slot, is_in_time);
        self.leave_old_burst(queue);
        self.count_arrival_in_time(queue, is_in_time);
        let factor_before = self.queues.at(queue).raising.factor;
        let split_over = self.queues.at(queue).split_ticks.wrapping_add(self.clock.spans.least_idle);
        if self.settings.low_latency && self.clock.is_past(split_over) {
            self.raise_on_arrival(queue, arrival);
            if self.queues.at(queue).raising.factor != factor_before {
                self.schedule.entity_mut(queue).is_prio_changed = true;
            }
        }
        let now = self.clock.ticks;
        let state = self.queues.at_mut(queue);
        state.pace.begin(now);
        state.marks.clear(Marks::SOFTRT_UPDATE);
        BusyTransition { is_interactive: arrival.is_interactive, wants_preempt }
    }

    fn is_in_time(&self, queue: u32) -> bool {
        let within_ns = self.settings.slice_idle_ns().saturating_mul(IN_TIME_IDLES);
        self.clock.ns <= self.queues.at(queue).think.last_end_ns.saturating_add(within_ns)
    }

    fn was_idle_for_long(&self, queue: u32) -> bool {
        let state = self.queues.at(queue);
        state.dispatched == 0
            && self.clock.is_past(state.budget_timeout_ticks.wrapping_add(self.clock.spans.least_idle))
    }

    fn judge_arrival(&self, queue: u32, slot: u32) -> Arrival {
        let state = self.queues.at(queue);
        let in_large_burst = state.has(Marks::IN_LARGE_BURST);
        // In newer forms, a queue whose weight the user has changed is never raised.
        let is_plain =
            !self.profile.raising.default_weight_only || self.schedule.entity(queue).new_weight == DEFAULT_WEIGHT;
        let is_too_seeky = self.profile.behaviour.has_totally_seeky && state.seeks.were_all_far();
        let is_soft_real_time =
            is_plain && !is_too_seeky && !in_large_burst && state.dispatched == 0 && state.pace.is_kept(&self.clock);
        let is_interactive = !in_large_burst && is_plain && self.was_idle_for_long(queue);
        let is_stably_merged = self.contexts.at(self.slots.at(slot).context).is_stably_merged;
        let is_someones = state.users.has_owner() || is_stably_merged;
        let may = state.is_sync() && is_someones && (is_interactive || is_soft_real_time);
        let deserves = self.settings.low_latency && (state.is_raised() || may);
        Arrival { is_interactive, is_soft_real_time, deserves, in_large_burst }
    }

    /// Sets the budget for the next turn. True if the queue keeps the budget that was left from its
    /// last turn.
    fn take_up_budget(&mut self, queue: u32, slot: u32, is_in_time: bool) -> bool {
        let left = self.budget_left(queue);
        let charge = self.charge(slot, queue);
        let state = self.queues.at_mut(queue);
        let may_go_on = left > 0 || self.profile.budgets.keeps_spent;
        let goes_on = state.has(Marks::WAITS_UNBLOCKED) && is_in_time && may_go_on;
        if !goes_on {
            state.marks.clear(Marks::WAITS_UNBLOCKED);
        }
        let most = state.max_budget;
        let entity = self.schedule.entity_mut(queue);
        entity.service = 0;
        entity.budget = if goes_on { left.min(most) } else { most.max(charge) };
        goes_on
    }

    /// Puts the queue on the trees and into all counts of busy queues.
    #[inline]
    pub(super) fn enter_busy(&mut self, queue: u32) {
        self.log_queue(queue, "add to busy", &[]);
        self.activate_by_mark(queue);
        self.count_busy(queue);
    }

    #[inline(never)]
    fn count_busy(&mut self, queue: u32) {
        let state = self.queues.at_mut(queue);
        state.marks.set(Marks::BUSY);
        let is_raised = state.is_raised();
        self.busy.change(self.schedule.entity(queue).class, true);
        // The queue may have a request in flight that was never inserted into it; only from here on
        // is it counted as having requests.
        self.become_pending(queue);
        if !is_raised {
            self.count_weight(queue);
        }
        if is_raised {
            self.busy.change_raised(true);
        }
        let is_moved = self.queues.move_to_front_of_woken(queue);
        self.expect(is_moved);
    }

    /// Activates the queue; with the mark `WAITS_UNBLOCKED` its virtual start time may lie in the
    /// past (back-shifted).
    #[inline]
    pub(super) fn activate_by_mark(&mut self, queue: u32) {
        let may_go_back = self.queues.at(queue).has(Marks::WAITS_UNBLOCKED);
        self.queues.at_mut(queue).marks.clear(Marks::WAITS_UNBLOCKED);
        self.activate_or_requeue(queue, may_go_back, false);
    }

    /// The queue has nothing queued any more; it may have requests in flight.
    #[inline(always)]
    pub(super) fn leave_busy(&mut self, queue: u32, on_expiration: bool) {
        self.count_idle(queue);
        self.deactivate(queue, true, on_expiration);
        self.release_idle(queue);
    }

    #[inline(never)]
    fn count_idle(&mut self, queue: u32) {
        self.log_queue(queue, "del from busy", &[]);
        self.busy.change(self.schedule.entity(queue).class, false);
        let state = self.queues.at_mut(queue);
        state.marks.clear(Marks::BUSY);
        if state.is_raised() {
            self.busy.change_raised(false);
        }
        let group = self.schedule.entity(queue).parent;
        let account = &mut self.groups.at_mut(group).account;
        account.dequeues = account.dequeues.wrapping_add(1);
    }

    #[inline(never)]
    fn release_idle(&mut self, queue: u32) {
        if self.queues.at(queue).dispatched == 0 {
            self.stop_pending(queue);
            self.uncount_weight(queue);
            self.release_if_unused(queue);
        }
    }

    /// Whether the queue that became busy preempts the queue in service. The trees then determine
    /// the next queue.
    #[inline(never)]
    pub(super) fn ends_turn_in_service(&self, queue: u32, wants_preempt: bool) -> bool {
        let served = self.in_service;
        if served == NIL || served == queue {
            return false;
        }
        let (factor, served_factor) = (self.queues.at(queue).raising.factor, self.queues.at(served).raising.factor);
        let wants = match self.profile.turns.preempts {
            Preempts::MoreRaised => served_factor < factor,
            Preempts::HigherToo => (wants_preempt && factor >= served_factor) || self.is_higher(queue, served),
            Preempts::AlsoIfNotIdledFor => {
                (wants_preempt && factor >= served_factor)
                    || self.is_higher(queue, served)
                    || !self.better_to_idle(served)
            }
        };
        let root = self.groups.at(GroupId::ROOT.0);
        (wants && root.next_in_service != root.in_service)
            || (self.settings.bounded_hold && self.is_owed_before(served))
    }

    /// Whether `one` has a higher class than `other`, or a larger weight. Weights are those of the
    /// two queues if these are in one group, otherwise those of their groups.
    fn is_higher(&self, one: u32, other: u32) -> bool {
        let (class, other_class) = (self.schedule.entity(one).class, self.schedule.entity(other).class);
        if class != other_class {
            return class_index(class) < class_index(other_class);
        }
        let (mut first, mut second) = (one, other);
        if self.schedule.entity(one).parent != self.schedule.entity(other).parent {
            for entity in [&mut first, &mut second] {
                let parent = self.parent_entity(*entity);
                if parent != NIL {
                    *entity = parent;
                }
            }
        }
        self.schedule.entity(first).weight > self.schedule.entity(second).weight
    }
}
