//! Completion of requests, and the idle timer.

use super::Bfq;
use super::budget::TurnEnd;
use super::device::TOO_FEW;
use super::profile::Polls;
use super::state::{Held, Marks};
use crate::interface::Wake;
use crate::request::Requests;
use crate::structures::NIL;
use hoistway_block::RequestId;

/// The effect of a completion on the turn in service.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum TurnEffect {
    Continues,
    /// The device is idled for the queue in service.
    Idles,
    Ends(TurnEnd),
}

impl Bfq {
    /// Applies the effect of a completion.
    #[inline]
    pub(super) fn apply_turn_effect(&mut self, effect: TurnEffect) -> Wake {
        match effect {
            TurnEffect::Idles => return Wake::No,
            TurnEffect::Continues => {}
            TurnEffect::Ends(end) => self.end_turn(self.in_service, end, self.clock.ns),
        }
        if self.device.in_driver() == 0 { self.schedule_dispatch() } else { Wake::No }
    }

    /// Whether the device is asked for a request after every completion.
    #[inline]
    pub(super) fn polls_on_completion(&self) -> bool {
        self.settings.repoll_on_completion | (self.profile.turns.polls == Polls::OnCompletion)
    }

    /// Ends the service of a request that the driver gave back or that never reached the device:
    /// for its queue this is the same as a completion.
    #[inline(never)]
    pub(super) fn leave_device(&mut self, slot: u32) -> TurnEffect {
        self.leave_device_here(slot)
    }

    /// Inlined into its callers.
    #[inline(always)]
    fn leave_device_here(&mut self, slot: u32) -> TurnEffect {
        let entry = self.slots.at_mut(slot);
        entry.held = Held::Nowhere;
        let (queue, context, id) = (entry.queue, entry.context, entry.id);
        self.count_out(queue, context, id)
    }

    /// The device completed a request.
    #[inline(never)]
    pub(super) fn leave_device_served(&mut self, requests: &Requests, id: RequestId) -> TurnEffect {
        let (request, entry) = (requests.at(id), self.slots.at(id.slot()));
        let (served_ns, waited_ns) = request.times(self.clock.ns);
        let account = &mut self.groups.at_mut(entry.group).account;
        account.complete(entry.counts_as, entry.is_sync, served_ns, waited_ns);
        self.leave_device_here(id.slot())
    }

    /// Handles the completion and the end of a request together; `None`, without effect, if it was
    /// not in flight.
    #[inline(always)]
    pub(super) fn end_served(&mut self, requests: &Requests, id: RequestId) -> Option<Wake> {
        let entry = self.slots.get_mut(id.slot())?;
        if entry.id != id || entry.held != Held::Dispatched {
            return None;
        }
        let (group, counts_as, is_sync) = (entry.group, entry.counts_as, entry.is_sync);
        let (queue, context) = entry.clear_insertion();
        let (served_ns, waited_ns) = requests.at(id).times(self.clock.ns);
        self.groups.at_mut(group).account.complete(counts_as, is_sync, served_ns, waited_ns);
        let effect = self.count_out(queue, context, id);
        let mut wake = self.apply_turn_effect(effect);
        if self.polls_on_completion() {
            wake = self.schedule_dispatch();
        }
        self.count_allocated(queue, 1_u32.wrapping_neg());
        if self.queues.at(queue).users.count() == 0 {
            self.release_if_unused(queue);
        }
        self.count_request_end(context);
        Some(wake)
    }

    /// Inlined into its callers.
    #[inline(always)]
    fn count_out(&mut self, queue: u32, context: u32, id: RequestId) -> TurnEffect {
        self.actuators.count_in_driver(context, 1_u32.wrapping_neg());
        // In older forms no request is sampled.
        if self.injection.is_of(id) {
            self.learn_injection(queue);
        }
        self.learn_depth();
        self.device.leave();
        self.sample_completion();
        self.queues.completed(queue);
        let state = self.queues.at_mut(queue);
        state.dispatched = state.dispatched.saturating_sub(1);
        state.think.last_end_ns = self.clock.ns;
        let (has_more, is_empty) = (state.dispatched != 0, state.is_empty());
        let is_timed_out = self.clock.is_past_or_now(state.budget_timeout_ticks);
        let is_waited_for = state.is_sync() & (state.process_references() != 0);
        if !has_more {
            self.count_out_last(queue);
        }
        // The frequent cases: it is not the queue's turn; the turn goes on; or the queue is the
        // only busy one, has no queued requests but some in flight, and the device is idled for it.
        let goes_on = !(is_empty | is_timed_out | self.report.is_on());
        if queue != self.in_service || goes_on {
            return TurnEffect::Continues;
        }
        if is_empty & has_more & is_waited_for && self.settings.slice_idle_ns() != 0 && self.is_lone_protected() {
            return TurnEffect::Idles;
        }
        self.judge_service(queue)
    }

    /// The queue has no more requests in flight.
    #[inline(always)]
    fn count_out_last(&mut self, queue: u32) {
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
            self.queues.at_mut(queue).pace.set_next_start(next);
        }
    }

    /// A request of the queue in service completed: its turn may end, or the device is idled for
    /// it.
    #[inline(never)]
    fn judge_service(&mut self, queue: u32) -> TurnEffect {
        if self.must_idle(queue) {
            if self.queues.at(queue).dispatched == 0 {
                self.begin_wait();
            }
            return TurnEffect::Idles;
        }
        let state = self.queues.at(queue);
        let (is_empty, has_none_in_flight) = (state.is_empty(), state.dispatched == 0);
        if self.may_end_for_time(queue) {
            TurnEffect::Ends(TurnEnd::BudgetTimeout)
        } else if is_empty && (has_none_in_flight || !self.better_to_idle(queue)) {
            TurnEffect::Ends(TurnEnd::NoMoreRequests)
        } else {
            TurnEffect::Continues
        }
    }

    /// Detects from the number in flight whether the device queues commands (`hw_tag`).
    #[inline(always)]
    fn learn_depth(&mut self) {
        if !self.device.sees(self.busy.requests()) {
            return;
        }
        // Too few requests were queued or in flight to tell.
        if self.profile.behaviour.skips_few_requests && self.device.in_driver() < TOO_FEW && self.serves_few() {
            return;
        }
        self.device.sample(self.profile.behaviour.queueing_above);
    }

    /// Whether the queue in service thinks shortly and has few requests, queued or in flight.
    #[inline(always)]
    fn serves_few(&self) -> bool {
        self.queues.get(self.in_service).is_some_and(|state| {
            state.has(Marks::SHORT_THINK_TIME) && state.dispatched.wrapping_add(state.pending.total()) < TOO_FEW
        })
    }

    /// Asks the host for a dispatch, because a request can be dispatched although none has just
    /// arrived.
    pub(super) fn schedule_dispatch(&mut self) -> Wake {
        if self.busy.requests() == 0 && !self.order.has_direct() {
            return Wake::No;
        }
        self.log("schedule dispatch", &[]);
        self.idling.resume_unpolled();
        Wake::All
    }

    /// The idle timer expired.
    #[inline]
    pub(super) fn wait_is_over(&mut self) -> Wake {
        let began_ns = self.idling.expire();
        let queue = self.in_service;
        if queue == NIL {
            return self.schedule_dispatch();
        }
        self.stop_wait(queue);
        if self.is_timed_out(queue) {
            self.end_turn(queue, TurnEnd::BudgetTimeout, began_ns);
        } else if self.queues.at(queue).is_empty() {
            self.end_turn(queue, TurnEnd::TooIdle, began_ns);
        }
        self.schedule_dispatch()
    }
}
