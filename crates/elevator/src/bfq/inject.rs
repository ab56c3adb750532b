//! Injection: requests of other queues dispatched while the device is idled for the queue in
//! service, and the learned limit for them.

use super::Bfq;
use super::next_request::LONG_ON_FLASH_SECTORS;
use super::profile::Injection;
use super::state::{InjectState, Marks};
use crate::structures::NIL;
use hoistway_block::{Nanos, RequestId};

/// BFQ of 4.20: the injected sectors may reach this many times those of the queue in service.
const INJECTED_TIMES: u64 = 10;

/// The measurement of a request's total service time, from which the limit of injection is learned.
///
/// Invariant: a request is measured only after the measurement was asked for.
#[derive(Debug, Default)]
pub struct Measurement {
    /// Whether requests were injected since the measurement began.
    is_injected: bool,
    waits_for_dispatch: bool,
    measured: Option<RequestId>,
    began_ns: Nanos,
}

impl Measurement {
    /// The next request of the turn is to be measured. On an empty device (`is_alone`) nothing is injected yet.
    #[inline]
    fn begin(&mut self, now: Nanos, is_alone: bool) {
        (self.began_ns, self.waits_for_dispatch) = (now, true);
        self.is_injected &= !is_alone;
    }

    /// A request of the turn in service is dispatched.
    #[inline(always)]
    pub fn dispatched(&mut self, id: RequestId) {
        if self.waits_for_dispatch {
            (self.waits_for_dispatch, self.measured) = (false, Some(id));
        }
    }

    /// A request is injected.
    #[inline]
    fn injected(&mut self) {
        self.is_injected = true;
    }

    /// Whether this is the request measured.
    #[inline]
    pub fn is_of(&self, id: RequestId) -> bool {
        self.measured == Some(id)
    }

    /// What is measured does not count.
    #[inline]
    fn drop_request(&mut self) {
        self.measured = None;
    }

    /// The measured request has completed. Returns how long it took, and whether requests were injected.
    #[inline]
    fn end(&mut self, now: Nanos) -> (Nanos, bool) {
        self.measured = None;
        (now.saturating_sub(self.began_ns), core::mem::take(&mut self.is_injected))
    }

    /// For tests.
    #[cfg(test)]
    pub fn measure(&mut self, id: RequestId, now: Nanos, is_injected: bool) {
        (self.measured, self.began_ns, self.is_injected) = (Some(id), now, is_injected);
    }

    /// For tests.
    #[cfg(test)]
    pub fn is_over(&self) -> bool {
        self.measured.is_none() && !self.is_injected
    }

    /// The turn has ended.
    #[inline]
    pub fn forget(&mut self) {
        (self.is_injected, self.waits_for_dispatch, self.measured) = (false, false, None);
    }
}

impl InjectState {
    /// Learns from a request that took so long in all, when `in_driver` requests were in flight at its end and up to
    /// `deepest` before.
    #[inline]
    fn learn(&mut self, took_ns: Nanos, is_injected: bool, in_driver: u32, deepest: u32, now_ticks: u64) {
        let (before, baseline) = (self.limit, self.last_service_ns);
        if baseline > 0 && is_injected {
            // A service time of 1.5 times the one without injection, or more, is too long.
            let bearable = baseline.saturating_mul(3) / 2;
            if took_ns >= bearable && before > 0 {
                self.limit = before.wrapping_sub(1);
                self.decreased_ticks = now_ticks;
            } else if took_ns < bearable && before <= deepest {
                self.limit = before.wrapping_add(1);
            }
        }
        if (baseline == 0 && in_driver == 1) || took_ns < baseline {
            if baseline == 0 {
                self.limit = before.max(1);
            }
            self.last_service_ns = took_ns;
        } else if !is_injected && in_driver == 1 {
            self.last_service_ns = took_ns;
        }
    }
}

impl Bfq {
    /// The queue to inject from while the device is idled for the queue in service; NIL = none.
    #[inline(never)]
    pub(super) fn choose_for_injection(&mut self) -> u32 {
        let served = self.in_service;
        match self.profile.injection.method {
            Injection::None => return NIL,
            Injection::Service => return self.choose_by_service(served),
            Injection::ServiceTime => {}
        }
        let related = self.choose_related(served);
        if related != NIL {
            return related;
        }
        let state = self.queues.at(served);
        let can_bear = !state.is_raised() || self.busy.raised() > 1 || !state.has(Marks::SHORT_THINK_TIME);
        if self.idling_boosts_throughput(served) || !can_bear {
            return NIL;
        }
        self.choose_any(served)
    }

    /// The issuer's own async queue, the waker of the queue in service, or the first queue that it
    /// wakes: the issuer may be waiting for requests of these. In the forms without wakers no queue
    /// has one.
    fn choose_related(&self, served: u32) -> u32 {
        let state = self.queues.at(served);
        let [own_async, _] = self.contexts.at(state.users.owner()).queues;
        let next = self.queues.at(own_async).pending.next();
        let is_own = state.users.has_owner() && next != NIL && self.slots.at(next).context == state.users.owner();
        if self.profile.injection.includes_own_async && is_own && self.may_inject(own_async) {
            return own_async;
        }
        if self.may_inject(state.waking.waker()) {
            return state.waking.waker();
        }
        let woken = state.waking.woken().first().unwrap_or(NIL);
        if self.profile.injection.includes_woken && self.may_inject(woken) { woken } else { NIL }
    }

    /// Whether the queue is busy, and its next request fits its budget.
    pub(super) fn may_inject(&self, queue: u32) -> bool {
        let Some(state) = self.queues.get(queue) else { return false };
        queue != self.in_service
            && state.has(Marks::BUSY)
            && state.pending.next() != NIL
            && self.charge(state.pending.next(), queue) <= self.budget_left(queue)
            && self.is_eligible_for_injection(queue)
    }

    /// With `eligible_injection`, allows injection only from queues that are eligible by virtual
    /// time, and not from those of a class lower than that of the queue in service (fixes quirk Q10
    /// of docs/specifications/bfq.md).
    fn is_eligible_for_injection(&self, queue: u32) -> bool {
        if !self.settings.eligible_injection {
            return true;
        }
        let (class, served) = (self.schedule.entity(queue).class, self.schedule.entity(self.in_service).class);
        class <= served && self.schedule.is_eligible(queue)
    }

    fn choose_any(&mut self, served: u32) -> u32 {
        let state = self.queues.at(served);
        // Quirk Q4 of docs/specifications/bfq.md: while nothing is known the limit stays 0, because the
        // kernel compares ticks with nanoseconds.
        if self.device.in_driver() >= state.inject.limit {
            return NIL;
        }
        let bears_all = !state.is_raised() || !state.has(Marks::SHORT_THINK_TIME);
        let found = self.actuators.active_queues().find(|queue| {
            let other = self.queues.at(*queue);
            let is_long = self.slots.at(other.pending.next()).sectors >= LONG_ON_FLASH_SECTORS;
            let disturbs = !self.device.is_rotational() && is_long && self.device.in_driver() > 0;
            (bears_all || other.is_raised()) && self.may_inject(*queue) && !disturbs
        });
        if found.is_some() {
            self.injection.injected();
        }
        found.unwrap_or(NIL)
    }

    /// The queue to inject from by the rules of 4.20, which inject only while a seeky queue is in
    /// service, on flash that queues commands.
    fn choose_by_service(&self, served: u32) -> u32 {
        let state = self.queues.at(served);
        let bears = state.is_seeky(self.profile.behaviour.seeky_above)
            && !state.is_raised()
            && !self.device.is_rotational()
            && self.device.queues();
        let most = u64::from(self.schedule.entity(served).service).saturating_mul(INJECTED_TIMES);
        if !bears || u64::from(state.injected_sectors) >= most {
            return NIL;
        }
        self.actuators.active_queues().find(|queue| self.may_inject(*queue)).unwrap_or(NIL)
    }

    // ---- learning the injection limit ----

    pub(super) fn reset_injection(&mut self, queue: u32) {
        let now = self.clock.ticks;
        self.injection.drop_request();
        let state = self.queues.at_mut(queue);
        let limit = u32::from(!state.has(Marks::SHORT_THINK_TIME));
        state.inject = InjectState { limit, last_service_ns: 0, decreased_ticks: now };
    }

    /// Called when a request arrives whose issuer has no other: decides whether to measure its
    /// total service time.
    pub(super) fn sample_for_injection(&mut self, queue: u32) {
        if self.profile.injection.method != Injection::ServiceTime {
            return;
        }
        let since = self.queues.at(queue).inject.decreased_ticks;
        if self.clock.is_past_or_now(since.wrapping_add(self.clock.spans.inject_reset)) {
            self.reset_injection(queue);
        }
        let state = self.queues.at(queue);
        let has_baseline = state.inject.last_service_ns > 0;
        let tells = self.device.in_driver() == 0 || (has_baseline && self.injection.is_injected);
        let settled = state.inject.decreased_ticks.wrapping_add(self.clock.spans.inject_sample);
        if queue == self.in_service && tells && self.clock.is_past_or_now(settled) {
            self.injection.begin(self.clock.ns, self.device.in_driver() == 0);
        }
    }

    /// The measured request completed.
    #[inline(never)]
    pub(super) fn learn_injection(&mut self, queue: u32) {
        let (took_ns, is_injected) = self.injection.end(self.clock.ns);
        let (in_driver, deepest) = (self.device.in_driver(), self.device.deepest());
        let inject = &mut self.queues.at_mut(queue).inject;
        inject.learn(took_ns, is_injected, in_driver, deepest, self.clock.ticks);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_falls_when_injection_slows_the_queue_down() {
        let mut state = InjectState { limit: 1, last_service_ns: 0, decreased_ticks: 0 };
        state.learn(1_000, false, 1, 1, 5);
        assert_eq!((state.limit, state.last_service_ns), (1, 1_000));
        state.learn(1_499, true, 2, 4, 6);
        assert_eq!((state.limit, state.decreased_ticks), (2, 0));
        state.learn(1_500, true, 2, 4, 7);
        assert_eq!((state.limit, state.last_service_ns, state.decreased_ticks), (1, 1_000, 7));
    }

    #[test]
    fn the_first_request_of_the_turn_is_measured() {
        let (mut measurement, [first, second]) = (Measurement::default(), [1, 2].map(RequestId::from_raw));
        measurement.dispatched(first);
        assert!(!measurement.is_of(first), "it was not asked for");
        measurement.injected();
        measurement.begin(100, false);
        measurement.dispatched(first);
        measurement.dispatched(second);
        assert!(measurement.is_of(first) && !measurement.is_of(second));
        assert_eq!((measurement.end(150), measurement.end(150)), ((50, true), (50, false)));
        measurement.injected();
        measurement.begin(200, true);
        assert_eq!(measurement.end(201), (1, false));
    }
}
