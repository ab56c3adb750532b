//! A request comes back, and the timer.

use super::Bfq;
use super::budget::TurnEnd;
use super::clock::NEVER;
use super::state::{Held, Marks};
use crate::interface::Wake;
use crate::request::Requests;
use crate::structures::NIL;
use block::RequestId;

/// A device that holds more at a time reorders them itself.
const QUEUEING_ABOVE: u32 = 3;
/// Completions that are looked at before it is decided.
const SAMPLES: u32 = 32;

/// What a completion makes of the turn in service.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Then {
    GoesOn,
    /// The device is kept for its queue.
    IsKept,
    Ends(TurnEnd),
}

impl Bfq {
    /// What follows when a request has left the device.
    #[inline]
    pub(super) fn come_back(&mut self, then: Then) -> Wake {
        match then {
            Then::IsKept => return Wake::No,
            Then::GoesOn => {}
            Then::Ends(end) => self.end_turn(self.in_service, end, self.clock.ns),
        }
        if self.in_driver == 0 { self.schedule_dispatch() } else { Wake::No }
    }

    /// The device gave a request back, or never had it: for the queue that is as if it had finished it.
    #[inline(never)]
    pub(super) fn leave_device(&mut self, slot: u32) -> Then {
        self.count_out(slot)
    }

    /// The device finished a request.
    #[inline(always)]
    pub(super) fn leave_device_served(&mut self, requests: &Requests, id: RequestId) -> Then {
        let request = requests.at(id);
        let served_ns = self.clock.ns.saturating_sub(request.issued_ns);
        let waited_ns = request.issued_ns.saturating_sub(request.start_ns);
        let entry = self.slots.at(id.slot());
        let account = &mut self.groups.at_mut(entry.group).account;
        account.complete(entry.counts_as, entry.is_sync, served_ns, waited_ns);
        self.count_out(id.slot())
    }

    /// In the frame of its callers.
    #[inline(always)]
    fn count_out(&mut self, slot: u32) -> Then {
        let entry = self.slots.at_mut(slot);
        entry.held = Held::Nowhere;
        let (queue, id) = (entry.queue, entry.id);
        self.arms.count_in_driver(entry.context, 1_u32.wrapping_neg());
        // Older forms have none.
        if self.sampled == Some(id) {
            self.learn_injection(queue);
        }
        self.learn_depth();
        self.in_driver = self.in_driver.saturating_sub(1);
        self.sample_completion();
        let state = self.queues.at_mut(queue);
        self.last_completed = if state.has(Marks::COOP) { NIL } else { queue };
        state.dispatched = state.dispatched.saturating_sub(1);
        state.think.last_end_ns = self.clock.ns;
        if state.dispatched == 0 {
            self.has_none_in_device(queue);
        }
        if queue == self.in_service { self.look_at_service(queue) } else { Then::GoesOn }
    }

    /// The queue has no more requests in the device.
    #[inline(always)]
    fn has_none_in_device(&mut self, queue: u32) {
        let state = self.queues.at_mut(queue);
        let is_out = !state.has(Marks::BUSY);
        let ends_soft_batch = state.has(Marks::SOFTRT_UPDATE) && state.is_empty();
        if is_out {
            state.budget_timeout_ticks = self.clock.ticks;
            self.stop_pending(queue);
            self.uncount_weight(queue);
        }
        if ends_soft_batch && !self.is_interactive(queue) {
            let next = self.soft_real_time_start(queue);
            self.queues.at_mut(queue).soft_next_start_ticks = next;
        }
    }

    /// The queue in service has a request less in the device: its turn may be over, or it is waited for.
    #[inline(always)]
    fn look_at_service(&mut self, queue: u32) -> Then {
        // What comes with nearly every request: the turn goes on, or its queue has all that it sent still in the device.
        let state = self.queues.at(queue);
        if !(state.is_empty() | self.clock.is_past_or_now(state.budget_timeout_ticks) | self.messages.is_on()) {
            return Then::GoesOn;
        }
        if state.is_empty() && state.dispatched != 0 && self.is_plainly_better_to_idle(queue) {
            return Then::IsKept;
        }
        self.look_closely_at_service(queue)
    }

    #[inline(never)]
    fn look_closely_at_service(&mut self, queue: u32) -> Then {
        if self.must_idle(queue) {
            if self.queues.at(queue).dispatched == 0 {
                self.begin_wait();
            }
            return Then::IsKept;
        }
        let state = self.queues.at(queue);
        let (is_empty, has_none_in_device) = (state.is_empty(), state.dispatched == 0);
        if self.may_end_for_time(queue) {
            Then::Ends(TurnEnd::BudgetTimeout)
        } else if is_empty && (has_none_in_device || !self.better_to_idle(queue)) {
            Then::Ends(TurnEnd::NoMoreRequests)
        } else {
            Then::GoesOn
        }
    }

    /// Whether the device works on several commands, from how many it was seen to hold.
    fn learn_depth(&mut self) {
        self.deepest = self.deepest.max(self.in_driver);
        if self.hw_tag == Some(true) || self.in_driver.saturating_add(self.requests_queued) <= QUEUEING_ABOVE {
            return;
        }
        let state = self.queues.at(self.in_service);
        let has_few = state.dispatched.saturating_add(state.queued_total()) < QUEUEING_ABOVE;
        let is_one = self.in_service != NIL && state.has(Marks::SHORT_THINK_TIME);
        if is_one && has_few && self.in_driver < QUEUEING_ABOVE {
            // It could not have had more.
            return;
        }
        let seen = self.depth_samples;
        self.depth_samples = seen.wrapping_add(1);
        if seen < SAMPLES {
            return;
        }
        let queues = self.deepest > QUEUEING_ABOVE;
        self.hw_tag = Some(queues);
        (self.deepest, self.depth_samples) = (0, 0);
        self.flash_queues = !self.is_rotational && queues;
    }

    /// The device may be asked for again, although nothing was said of it by an arrival.
    pub(super) fn schedule_dispatch(&mut self) -> Wake {
        if self.requests_queued == 0 && self.direct.is_empty() {
            return Wake::No;
        }
        self.say("schedule dispatch", &[]);
        (self.is_holding, self.repoll_at) = (false, NEVER);
        Wake::All
    }

    /// Nobody came in time.
    #[inline]
    pub(super) fn wait_is_over(&mut self) -> Wake {
        self.timer_at = NEVER;
        let queue = self.in_service;
        if queue == NIL {
            return self.schedule_dispatch();
        }
        self.stop_wait(queue);
        let began_ns = self.wait_began_ns;
        if self.is_timed_out(queue) {
            self.end_turn(queue, TurnEnd::BudgetTimeout, began_ns);
        } else if self.queues.at(queue).is_empty() {
            self.end_turn(queue, TurnEnd::TooIdle, began_ns);
        }
        self.schedule_dispatch()
    }
}
