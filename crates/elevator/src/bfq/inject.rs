//! Injection: requests of other queues dispatched while the device is idled for the queue in
//! service, and the learned limit for them.

use super::Bfq;
use super::next_request::LONG_ON_FLASH_SECTORS;
use super::profile::Injection;
use super::state::{InjectState, Marks};
use crate::structures::NIL;

/// BFQ of 4.20: the injected sectors may reach this many times those of the queue in service.
const INJECTED_TIMES: u64 = 10;

impl Bfq {
    /// The queue to inject from while the device is idled for the queue in service; NIL = none.
    #[inline(never)]
    pub(super) fn choose_for_injection(&mut self) -> u32 {
        let served = self.in_service;
        match self.profile.injection {
            Injection::None => return NIL,
            Injection::Service => return self.choose_by_service(served),
            Injection::ServiceTime => {}
        }
        let related = self.choose_related(served);
        if related != NIL {
            return related;
        }
        let state = self.queues.at(served);
        let can_bear = !state.is_raised() || self.raised_busy > 1 || !state.has(Marks::SHORT_THINK_TIME);
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
        let [own_async, _] = self.contexts.at(state.owner).queues;
        let next = self.queues.at(own_async).next;
        let is_own = state.owner != NIL && next != NIL && self.slots.at(next).context == state.owner;
        if self.profile.injects_own_async && is_own && self.may_inject(own_async) {
            return own_async;
        }
        if self.may_inject(state.waker) {
            return state.waker;
        }
        let woken = state.woken.first().unwrap_or(NIL);
        if self.profile.injects_woken && self.may_inject(woken) { woken } else { NIL }
    }

    /// Whether the queue is busy, and its next request fits its budget.
    pub(super) fn may_inject(&self, queue: u32) -> bool {
        let Some(state) = self.queues.get(queue) else { return false };
        queue != self.in_service
            && state.has(Marks::BUSY)
            && state.next != NIL
            && self.charge(state.next, queue) <= self.budget_left(queue)
            && self.is_eligible_for_injection(queue)
    }

    /// With `eligible_injection`, allows injection only from queues that are eligible by virtual
    /// time, and not from those of a class lower than that of the queue in service (fixes quirk Q10
    /// of docs/specifications/bfq.md).
    fn is_eligible_for_injection(&self, queue: u32) -> bool {
        if !self.settings.eligible_injection {
            return true;
        }
        let (class, served) = (self.entities.at(queue).class, self.entities.at(self.in_service).class);
        let vtime = self.trees.at(self.tree_index(queue)).vtime;
        class <= served && !super::timestamps::is_later(self.stamps.at(queue).starts, vtime)
    }

    fn choose_any(&mut self, served: u32) -> u32 {
        let state = self.queues.at(served);
        // Quirk Q4 of docs/specifications/bfq.md: while nothing is known the limit stays 0, because the
        // kernel compares ticks with nanoseconds.
        if self.in_driver >= state.inject.limit {
            return NIL;
        }
        let bears_all = !state.is_raised() || !state.has(Marks::SHORT_THINK_TIME);
        let found = self.active_queues().find(|queue| {
            let other = self.queues.at(*queue);
            let is_long = self.slots.at(other.next).sectors >= LONG_ON_FLASH_SECTORS;
            let disturbs = !self.is_rotational && is_long && self.in_driver > 0;
            (bears_all || other.is_raised()) && self.may_inject(*queue) && !disturbs
        });
        if found.is_some() {
            self.is_injected = true;
        }
        found.unwrap_or(NIL)
    }

    /// The queue to inject from by the rules of 4.20, which inject only while a seeky queue is in
    /// service, on flash that queues commands.
    fn choose_by_service(&self, served: u32) -> u32 {
        let state = self.queues.at(served);
        let bears = state.is_seeky(self.profile.seeky_above)
            && !state.is_raised()
            && !self.is_rotational
            && self.device_queues();
        let most = u64::from(self.entities.at(served).service).saturating_mul(INJECTED_TIMES);
        if !bears || u64::from(state.injected_sectors) >= most {
            return NIL;
        }
        self.active_queues().find(|queue| self.may_inject(*queue)).unwrap_or(NIL)
    }

    // ---- learning the injection limit ----

    pub(super) fn reset_injection(&mut self, queue: u32) {
        let now = self.clock.ticks;
        self.sampled = None;
        let state = self.queues.at_mut(queue);
        let limit = u32::from(!state.has(Marks::SHORT_THINK_TIME));
        state.inject = InjectState { limit, last_service_ns: 0, decreased_ticks: now };
    }

    /// Called when a request arrives whose issuer has no other: decides whether to measure its
    /// total service time.
    pub(super) fn sample_for_injection(&mut self, queue: u32) {
        if self.profile.injection != Injection::ServiceTime {
            return;
        }
        let since = self.queues.at(queue).inject.decreased_ticks;
        if self.clock.is_past_or_now(since.wrapping_add(self.spans.inject_reset)) {
            self.reset_injection(queue);
        }
        let state = self.queues.at(queue);
        let has_baseline = state.inject.last_service_ns > 0;
        let tells = self.in_driver == 0 || (has_baseline && self.is_injected);
        let settled = state.inject.decreased_ticks.wrapping_add(self.spans.inject_sample);
        if queue == self.in_service && tells && self.clock.is_past_or_now(settled) {
            self.sample_began_ns = self.clock.ns;
            self.waits_for_dispatch = true;
            if self.in_driver == 0 {
                self.is_injected = false;
            }
        }
    }

    /// The measured request completed.
    #[inline(never)]
    pub(super) fn learn_injection(&mut self, queue: u32) {
        let took_ns = self.clock.ns.saturating_sub(self.sample_began_ns);
        let (now, in_driver, deepest, is_injected) = (self.clock.ticks, self.in_driver, self.deepest, self.is_injected);
        let inject = &mut self.queues.at_mut(queue).inject;
        let before = inject.limit;
        let baseline = inject.last_service_ns;
        if baseline > 0 && is_injected {
            // A service time of 1.5 times the one without injection, or more, is too long.
            let bearable = baseline.saturating_mul(3) / 2;
            if took_ns >= bearable && before > 0 {
                inject.limit = before.wrapping_sub(1);
                inject.decreased_ticks = now;
            } else if took_ns < bearable && before <= deepest {
                inject.limit = before.wrapping_add(1);
            }
        }
        if (baseline == 0 && in_driver == 1) || took_ns < baseline {
            if baseline == 0 {
                inject.limit = before.max(1);
            }
            inject.last_service_ns = took_ns;
        } else if !is_injected && in_driver == 1 {
            inject.last_service_ns = took_ns;
        }
        self.sampled = None;
        self.is_injected = false;
    }
}
