//! Weight raising (`low_latency`): of queues that look interactive, and of those that look soft
//! real-time.

use super::Bfq;
use super::activation::Arrival;
use super::state::{Marks, Raising};
use super::timestamps::is_later;

/// The factor for the weight of an interactive queue.
const INTERACTIVE: u32 = 30;
/// The factor for a soft real-time queue.
const SOFT_REAL_TIME: u32 = INTERACTIVE * 100;

impl Bfq {
    #[inline]
    pub(super) fn is_interactive(&self, queue: u32) -> bool {
        self.queues.at(queue).raising.factor == INTERACTIVE
    }

    /// Decides, when a queue becomes busy, whether the raising of its weight begins, restarts or
    /// ends.
    pub(super) fn raise_on_arrival(&mut self, queue: u32, arrival: Arrival) {
        let (now, long_ago) = (self.clock.ticks, self.clock.long_ago());
        let (interactive_ticks, soft_ticks) = (self.raising_ticks(), self.clock.spans.soft_real_time_ticks);
        let least = self.budgets.present_least();
        let raising = &mut self.queues.at_mut(queue).raising;
        if raising.factor == 1 {
            if !arrival.deserves {
                return;
            }
            if arrival.is_interactive {
                raising.service_sectors = 0;
                (raising.factor, raising.longest_ticks) = (INTERACTIVE, interactive_ticks);
            } else {
                raising.before_soft_real_time_ticks = long_ago;
                (raising.factor, raising.longest_ticks) = (SOFT_REAL_TIME, soft_ticks);
            }
            let entity = self.schedule.entity_mut(queue);
            entity.budget = entity.budget.min(least.saturating_mul(2));
            return;
        }
        if arrival.is_interactive {
            (raising.factor, raising.longest_ticks) = (INTERACTIVE, interactive_ticks);
        } else if arrival.in_large_burst {
            raising.factor = 1;
        } else if arrival.is_soft_real_time && !self.profile.raising.returns_to_interactive {
            // What is left of the present period is not cut.
            let until = raising.since_ticks.wrapping_add(raising.longest_ticks);
            if is_later(now.wrapping_add(soft_ticks), until) {
                (raising.factor, raising.longest_ticks, raising.since_ticks) = (SOFT_REAL_TIME, soft_ticks, now);
            }
        } else if arrival.is_soft_real_time {
            if raising.longest_ticks != soft_ticks {
                raising.before_soft_real_time_ticks = raising.since_ticks;
                (raising.factor, raising.longest_ticks) = (SOFT_REAL_TIME, soft_ticks);
            }
            raising.since_ticks = now;
        }
    }

    /// An async queue that was silent for a while is raised as if it were sync.
    #[inline(never)]
    pub(super) fn raise_async(&mut self, queue: u32) {
        let silent_until = self.queues.at(queue).raising.since_ticks.wrapping_add(self.clock.spans.async_arrivals);
        if !self.settings.low_latency || !self.clock.is_past(silent_until) {
            return;
        }
        let longest = self.raising_ticks();
        let raising = &mut self.queues.at_mut(queue).raising;
        (raising.factor, raising.longest_ticks) = (INTERACTIVE, longest);
        self.busy.change_raised(true);
        self.schedule.entity_mut(queue).is_prio_changed = true;
    }

    /// A request of the queue in service was dispatched: checks whether its raising ends, and
    /// updates its weight.
    #[inline(always)]
    pub(super) fn update_raising(&mut self, queue: u32) {
        let (entity, state) = (self.schedule.entity(queue), self.queues.at(queue));
        let is_in_force = entity.weight > entity.original_weight;
        if !state.is_raised() {
            if is_in_force {
                self.reconsider_raising(queue);
            }
            return;
        }
        // For nearly every request the raising goes on unchanged.
        let raising = &state.raising;
        let is_over = self.clock.is_past(raising.since_ticks.wrapping_add(raising.longest_ticks));
        let had_enough = raising.service_sectors > self.profile.raising.service_max_sectors;
        if !is_in_force | is_over | had_enough | state.has(Marks::IN_LARGE_BURST) | self.report.is_on() {
            self.reconsider_raising(queue);
        }
    }

    #[inline(never)]
    fn reconsider_raising(&mut self, queue: u32) {
        if self.queues.at(queue).is_raised() {
            self.end_raising_in_time(queue);
        }
        let entity = self.schedule.entity(queue);
        if (entity.weight > entity.original_weight) != self.queues.at(queue).is_raised() {
            self.schedule.entity_mut(queue).is_prio_changed = true;
            self.apply_weight(queue, false);
        }
    }

    fn end_raising_in_time(&mut self, queue: u32) {
        if self.report.is_on() {
            let (entity, raising) = (self.schedule.entity(queue), self.queues.at(queue).raising);
            let lasted = self.clock.ms_of(self.clock.ticks.wrapping_sub(raising.since_ticks));
            let longest = self.clock.ms_of(raising.longest_ticks);
            let weights = [u64::from(raising.factor), u64::from(entity.weight), u64::from(entity.original_weight)];
            let [factor, weight, original] = weights;
            let text = "raising period dur {0}/{1} msec, old coeff {2}, w {3}({4})";
            self.log_queue(queue, text, &[lasted, longest, factor, weight, original]);
        }
        let state = self.queues.at(queue);
        let raising = state.raising;
        if state.has(Marks::IN_LARGE_BURST) {
            self.end_raising(queue);
        } else if self.clock.is_past(raising.since_ticks.wrapping_add(raising.longest_ticks)) {
            self.end_soft_real_time(queue);
        }
        let state = self.queues.at(queue);
        let is_soft = state.raising.longest_ticks == self.clock.spans.soft_real_time_ticks;
        let had_enough = state.raising.service_sectors > self.profile.raising.service_max_sectors;
        if state.is_raised() && !is_soft && had_enough {
            self.end_raising(queue);
        }
    }

    /// Ends the raising of a soft real-time queue. If the queue was interactive before, it is
    /// raised as such again for the rest of that period.
    #[inline(never)]
    pub(super) fn end_soft_real_time(&mut self, queue: u32) {
        let raising = self.queues.at(queue).raising;
        let interactive_until = raising.before_soft_real_time_ticks.wrapping_add(self.raising_ticks());
        if !self.profile.raising.returns_to_interactive
            || raising.longest_ticks != self.clock.spans.soft_real_time_ticks
            || self.clock.is_past(interactive_until)
        {
            self.end_raising(queue);
        } else {
            self.be_interactive_again(queue);
        }
    }

    pub(super) fn be_interactive_again(&mut self, queue: u32) {
        let longest = self.raising_ticks();
        let raising = &mut self.queues.at_mut(queue).raising;
        (raising.factor, raising.longest_ticks) = (INTERACTIVE, longest);
        raising.since_ticks = raising.before_soft_real_time_ticks;
        self.schedule.entity_mut(queue).is_prio_changed = true;
    }

    /// The raising state of a queue that becomes interactive now.
    pub(super) fn interactive_from_now(&self) -> Raising {
        Raising {
            factor: INTERACTIVE,
            service_sectors: 0,
            longest_ticks: self.raising_ticks(),
            since_ticks: self.clock.ticks,
            before_soft_real_time_ticks: self.clock.long_ago(),
        }
    }

    pub(super) fn end_raising(&mut self, queue: u32) {
        let (now, was_interactive) = (self.clock.ticks, self.is_interactive(queue));
        let state = self.queues.at_mut(queue);
        if state.has(Marks::BUSY) {
            self.busy.change_raised(false);
        }
        if was_interactive && self.profile.raising.returns_to_interactive {
            state.pace.set_next_start(now);
        }
        state.raising.factor = 1;
        state.raising.longest_ticks = 0;
        state.raising.since_ticks = now;
        self.schedule.entity_mut(queue).is_prio_changed = true;
    }

    /// Ends all weight raising, because `low_latency` was switched off.
    pub(super) fn end_all_raising(&mut self) {
        for queue in 0..self.queues.len() {
            if self.queues.at(queue).is_raised() && self.queues.at(queue).has(Marks::USED) {
                self.end_raising(queue);
            }
        }
    }

    // ---- soft real-time ----

    /// The earliest time at which the next request counts as soft real-time.
    pub(super) fn soft_real_time_start(&self, queue: u32) -> u64 {
        let idle_ticks = self.clock.round_up(self.settings.slice_idle_ns());
        let returns = self.profile.raising.returns_to_interactive;
        self.queues.at(queue).pace.next_start(idle_ticks, returns, &self.clock)
    }

    /// Called when a turn ends: determines when the queue may next count as soft real-time.
    pub(super) fn prepare_soft_real_time(&mut self, queue: u32) {
        if !self.settings.low_latency {
            return;
        }
        let now = self.clock.ticks;
        let state = self.queues.at_mut(queue);
        if !state.is_raised() {
            state.raising.since_ticks = now;
        }
        if !state.is_empty() {
            return;
        }
        if state.dispatched == 0 {
            let next = self.soft_real_time_start(queue);
            self.queues.at_mut(queue).pace.set_next_start(next);
        } else {
            // Requests are still in flight, so this is done when the last of them completes.
            state.marks.set(Marks::SOFTRT_UPDATE);
        }
    }

    /// Called when a turn begins: the time that a soft real-time queue has waited for its turn does
    /// not count towards the duration of its raising.
    pub(super) fn resume_soft_real_time(&mut self, queue: u32) {
        let (now, soft_ticks) = (self.clock.ticks, self.clock.spans.soft_real_time_ticks);
        let state = self.queues.at(queue);
        let (raising, timeout) = (state.raising, state.budget_timeout_ticks);
        let is_soft = raising.factor > 1 && raising.longest_ticks == soft_ticks;
        if is_soft && self.clock.is_past(raising.since_ticks) && self.clock.is_past(timeout) {
            let is_out_since = is_later(timeout, raising.since_ticks);
            let waited = now.wrapping_sub(timeout);
            let since = if is_out_since { raising.since_ticks.wrapping_add(waited) } else { now };
            self.queues.at_mut(queue).raising.since_ticks = since;
        }
    }
}
