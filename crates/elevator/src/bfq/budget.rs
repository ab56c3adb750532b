//! Budgets: how many sectors a turn may have, learned from how turns end, and the charge for slow
//! turns.

use super::Bfq;
use super::peak_rate::PeakRate;
use super::state::Marks;
use super::tunables::SLICE_IDLE_NS;
use crate::structures::NIL;
use hoistway_block::Nanos;
use hoistway_block::time::MILLISECOND;

/// Initial value of the largest budget, in sectors; also used until enough budgets have been
/// assigned.
pub const DEFAULT_MAX_BUDGET: u32 = 16_384;
const ENOUGH_TURNS: u32 = 194;
/// Shorter turns tell nothing about a queue's rate.
const SHORT_TURN_US: u64 = 1_000;
/// Longer turns are judged by the amount they transferred.
const LONG_TURN_US: u64 = 20_000;
/// Least time charged for a short turn of a seeky queue where positioning costs nothing; on disks
/// it is the default of `slice_idle`.
const LEAST_CHARGE_NS: Nanos = 2 * MILLISECOND;

/// Why a turn ended; the numbers appear in messages.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum TurnEnd {
    /// The idle timer expired.
    TooIdle = 0,
    BudgetTimeout = 1,
    BudgetExhausted = 2,
    NoMoreRequests = 3,
    Preempted = 4,
}

/// How much a turn may have, the rate from which that follows, and the turn in service.
///
/// Invariant: `most` is the tunable, or, where that is 0, what the device transfers within the timeout.
#[derive(Debug)]
pub struct Budgets {
    most: u32,
    /// Turns that have begun, as a moving average in which 256 stands for "many".
    assigned: u32,
    turn_began_ns: Nanos,
    /// The measurement of the device's rate.
    pub(super) peak: PeakRate,
}

impl Budgets {
    #[inline(always)]
    pub const fn new(peak: PeakRate) -> Self {
        Self { most: DEFAULT_MAX_BUDGET, assigned: 0, turn_began_ns: 0, peak }
    }

    /// The largest budget, in sectors.
    #[inline]
    pub fn most(&self) -> u32 {
        self.most
    }

    pub fn set_most(&mut self, sectors: u32) {
        self.most = sectors;
    }

    /// Whether enough turns have begun for the largest budget to be used.
    #[inline]
    fn is_settled(&self) -> bool {
        self.assigned >= ENOUGH_TURNS
    }

    /// The largest budget at present.
    #[inline]
    pub fn present_most(&self) -> u32 {
        if self.is_settled() { self.most } else { DEFAULT_MAX_BUDGET }
    }

    /// The smallest budget at present.
    #[inline]
    pub fn present_least(&self) -> u32 {
        self.present_most() / 32
    }

    /// A turn begins.
    #[inline]
    fn begin_turn(&mut self, now: Nanos) {
        self.assigned = (self.assigned.wrapping_mul(7).wrapping_add(256)) / 8;
        self.turn_began_ns = now;
    }
}

impl Bfq {
    #[inline]
    pub(super) fn budget_left(&self, queue: u32) -> u32 {
        let entity = self.schedule.entity(queue);
        entity.budget.saturating_sub(entity.service)
    }

    /// Adapts the budget of a queue that waits for its turn to the cost of its new next request.
    #[inline(always)]
    pub(super) fn next_request_changed(&mut self, queue: u32) {
        if queue != self.in_service && self.renews_budget(queue) {
            self.activate_or_requeue(queue, false, false);
        }
    }

    #[inline(never)]
    fn renews_budget(&mut self, queue: u32) -> bool {
        let state = self.queues.at(queue);
        if state.pending.next() == NIL || !state.has(Marks::BUSY) {
            return false;
        }
        let charge = self.charge(state.pending.next(), queue);
        let budget = state.max_budget.max(charge).max(self.schedule.entity(queue).service);
        if self.schedule.entity(queue).budget == budget {
            return false;
        }
        self.schedule.entity_mut(queue).budget = budget;
        self.log_queue(queue, "updated next rq: new budget {0}", &[u64::from(budget)]);
        true
    }

    /// Computes the next budget from how a turn ended.
    pub(super) fn learn_budget(&mut self, queue: u32, end: TurnEnd) {
        let (least, most) = (self.budgets.present_least(), self.budgets.most());
        let state = self.queues.at(queue);
        let (left, next) = (self.budget_left(queue), state.pending.next());
        let is_plain = state.is_sync() && !state.is_raised();
        let mut budget = if state.is_raised() { least.saturating_mul(2) } else { state.max_budget };
        if self.report.is_on() {
            let (last, queue_most) = (self.schedule.entity(queue).budget, u64::from(state.max_budget));
            let (is_sync, seeky) =
                (u64::from(state.is_sync()), u64::from(state.is_seeky(self.profile.behaviour.seeky_above)));
            self.log_queue(queue, "recalc_budg: last budg {0}, budg left {1}", &[u64::from(last), u64::from(left)]);
            self.log_queue(queue, "recalc_budg: last max_budg {0}, min budg {1}", &[queue_most, u64::from(least)]);
            self.log_queue(queue, "recalc_budg: sync {0}, seeky {1}", &[is_sync, seeky]);
        }
        let state = self.queues.at(queue);
        if is_plain {
            let twice = budget.saturating_mul(2).min(most);
            budget = match end {
                TurnEnd::TooIdle if state.dispatched > 0 => twice,
                TurnEnd::TooIdle if budget > least.saturating_mul(5) => budget.wrapping_sub(least.wrapping_mul(4)),
                TurnEnd::TooIdle => least,
                TurnEnd::BudgetTimeout => twice,
                TurnEnd::BudgetExhausted => budget.saturating_mul(4).min(most),
                TurnEnd::NoMoreRequests => self.schedule.entity(queue).service.max(least),
                TurnEnd::Preempted => return,
            };
        } else if !state.is_sync() {
            budget = most;
        }
        if self.budgets.is_settled() && self.settings.max_budget == 0 {
            budget = budget.min(most);
        }
        self.queues.at_mut(queue).max_budget = budget;
        if next != NIL {
            let charge = self.charge(next, queue);
            let entity = self.schedule.entity_mut(queue);
            entity.budget = budget.max(charge);
            let budget = u64::from(entity.budget);
            let sectors = u64::from(self.slots.at(next).sectors);
            self.log_queue(queue, "head sect: {0}, new budget {1}", &[sectors, budget]);
        }
    }

    /// Starts a turn.
    #[inline(never)]
    pub(super) fn begin_turn(&mut self, queue: u32) {
        self.budgets.begin_turn(self.clock.ns);
        self.resume_soft_real_time(queue);
        let entity = self.schedule.entity(queue);
        let state = self.queues.at(queue);
        let is_soft_real_time = state.raising.longest_ticks == self.clock.spans.soft_real_time_ticks;
        let times = if is_soft_real_time { 1 } else { entity.weight.checked_div(entity.original_weight).unwrap_or(1) };
        let budget = u64::from(entity.budget);
        let timeout = self.settings.timeout_ticks.saturating_mul(u64::from(times));
        let state = self.queues.at_mut(queue);
        state.marks.clear(Marks::FIFO_EXPIRE);
        state.budget_timeout_ticks = self.clock.ticks.wrapping_add(timeout);
        self.log_queue(queue, "set_in_service_queue, cur-budget = {0}", &[budget]);
    }

    #[inline]
    pub(super) fn is_timed_out(&self, queue: u32) -> bool {
        self.clock.is_past_or_now(self.queues.at(queue).budget_timeout_ticks)
    }

    /// Whether a turn must end because of the time that it has taken. While the device is idled for
    /// the queue, that is so only if at least a third of its budget is left.
    pub(super) fn may_end_for_time(&mut self, queue: u32) -> bool {
        let is_timed_out = self.is_timed_out(queue);
        if self.report.is_on() {
            let (waits, has_most) = (self.queues.at(queue).has(Marks::WAIT_REQUEST), self.has_third_left(queue));
            let text = "may_budget_timeout: wait_request {0} left {1} timeout {2}";
            let numbers = [u64::from(waits), u64::from(has_most), u64::from(is_timed_out)];
            self.log_queue(queue, text, &numbers);
        }
        is_timed_out && (!self.queues.at(queue).has(Marks::WAIT_REQUEST) || self.has_third_left(queue))
    }

    fn has_third_left(&self, queue: u32) -> bool {
        self.budget_left(queue) >= self.schedule.entity(queue).budget / 3
    }

    /// Whether a turn was slow, and the time to charge for it in ns.
    fn judge(&mut self, queue: u32, end: TurnEnd, ended_at_ns: Nanos) -> (bool, Nanos) {
        let state = self.queues.at(queue);
        if !state.is_sync() {
            return (false, 0);
        }
        // The kernel counts the length in microseconds, in 32 bits.
        let lasted_ns = self.clock.span(self.budgets.turn_began_ns, ended_at_ns);
        let lasted_us = (lasted_ns.cast_signed() / 1_000).cast_unsigned() & u64::from(u32::MAX);
        let is_long = lasted_us > LONG_TURN_US;
        let is_slow = match () {
            () if !is_long => state.is_seeky(self.profile.behaviour.seeky_above),
            () if self.profile.budgets.rates_turns => self.rate_turn(queue, end, lasted_us),
            () => self.schedule.entity(queue).service < self.budgets.most() / 2,
        };
        let charged_ns = match () {
            () if self.settings.real_time_charge => ended_at_ns.saturating_sub(self.budgets.turn_began_ns),
            () if lasted_us >= SHORT_TURN_US => (lasted_us / 1_000).saturating_mul(MILLISECOND),
            () if self.device.is_rotational() => SLICE_IDLE_NS,
            () => LEAST_CHARGE_NS,
        };
        (is_slow, charged_ns)
    }

    /// Charges a slow turn for its time: with the part of the largest budget that corresponds to
    /// the turn's part of the timeout.
    #[inline(never)]
    pub(super) fn charge_turn(&mut self, queue: u32, end: TurnEnd, ended_at_ns: Nanos) {
        let (is_slow, charged_ns) = self.judge(queue, end, ended_at_ns);
        self.log_queue(queue, "bfq_bfqq_is_slow: slow {0}", &[u64::from(is_slow)]);
        let is_slow_turn = is_slow || (end == TurnEnd::BudgetTimeout && self.has_third_left(queue));
        self.report.note_turn(is_slow);
        if self.queues.at(queue).is_raised() || !is_slow_turn {
            return;
        }
        let timeout_ns = self.clock.ns_of(self.clock.spans.default_timeout_ticks());
        let charged_ns = match () {
            () if charged_ns < timeout_ns => charged_ns,
            () if self.profile.budgets.charges_whole_timeouts => timeout_ns,
            () => 0,
        };
        let share = u64::from(self.budgets.most()).saturating_mul(charged_ns);
        let due = share.checked_div(timeout_ns).unwrap_or(0);
        let entity = self.schedule.entity_mut(queue);
        let total = u32::try_from(due).unwrap_or(u32::MAX).max(entity.service);
        entity.budget = entity.budget.max(total);
        let more = total.wrapping_sub(entity.service);
        self.served(queue, more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_holds_until_enough_turns_have_begun() {
        let profile = &super::super::profile::FORMS[0].profile;
        let mut budgets = Budgets::new(PeakRate::new(true, profile));
        budgets.set_most(640);
        assert_eq!((budgets.present_most(), budgets.present_least()), (DEFAULT_MAX_BUDGET, 512));
        (0..20).for_each(|at| budgets.begin_turn(at));
        assert_eq!((budgets.present_most(), budgets.present_least()), (640, 20));
    }
}
