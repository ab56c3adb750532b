//! Completion of requests: the device's depth is learned, slices begin and end, idling begins.

use super::Cfq;
use super::device::QUEUEING_FROM;
use super::expire::Rest;
use super::state::{Marks, Slot};
use crate::request::Requests;
use crate::structures::NIL;
use hoistway_block::Nanos;

impl Cfq {
    /// The driver took the request.
    #[inline]
    pub(super) fn activate(&mut self, requests: &Requests, slot: u32) {
        let entry = self.slots.at_mut(slot);
        if entry.is_in_driver {
            return;
        }
        entry.is_in_driver = true;
        let (id, queue) = (entry.id, entry.queue);
        self.device.enter(requests.attributes(id).extent.end());
        if self.profile.has_one_level {
            self.device.judge_by_driver();
        }
        self.log_queue(queue, "activate rq, drv={0}", &[u64::from(self.device.in_driver())]);
    }

    /// The driver gave the request back, or completed it.
    #[inline]
    pub(super) fn deactivate(&mut self, slot: u32) {
        let entry = self.slots.at_mut(slot);
        if core::mem::replace(&mut entry.is_in_driver, false) {
            self.device.leave();
        }
    }

    /// The device completed a request. Done in two steps, so that ending a turn, which happens in
    /// the second, needs little stack.
    #[inline]
    pub(super) fn complete(&mut self, requests: &Requests, slot: u32) {
        let (queue, is_sync, is_last) = self.take_back(requests, slot);
        if self.engine.active == queue {
            self.active_completed(queue, is_sync, is_last);
        }
        if self.device.in_driver() == 0 && self.engine.busy_queues > 0 {
            self.log("schedule dispatch", &[]);
        }
    }

    /// Learns from a completion. Returns the request's queue, and whether it was sync and announced
    /// no other.
    #[inline(never)]
    fn take_back(&mut self, requests: &Requests, slot: u32) -> (u32, bool, bool) {
        let Slot { id, queue, kind, is_sync, is_last, context, .. } = *self.slots.at(slot);
        self.log_queue(queue, "complete rqnoidle {0}", &[u64::from(is_last)]);
        if !self.profile.has_one_level {
            self.learn_depth();
        }
        let request = requests.at(id);
        let served_ns = self.clock.now_ns().saturating_sub(request.issued_ns);
        let waited_ns = request.issued_ns.saturating_sub(request.start_ns);
        let group = self.count_out(slot);
        let group = self.groups.at_mut(group);
        group.account.complete(kind, is_sync, served_ns, waited_ns);
        if self.profile.has_wide_think_times {
            group.think.last_end_ticks = self.clock.now();
        }
        if is_sync {
            self.sync_completed(request.start_ns, queue, context);
        }
        (queue, is_sync, is_last)
    }

    /// A request ended without a completion: it is no longer in flight.
    #[inline(never)]
    pub(super) fn leave_device(&mut self, slot: u32) {
        self.count_out(slot);
    }

    /// Removes a request from the in-flight counts, however it ended. Returns its queue's group.
    #[inline(always)]
    fn count_out(&mut self, slot: u32) -> u32 {
        self.deactivate(slot);
        let entry = self.slots.at_mut(slot);
        entry.held = super::state::Held::Nowhere;
        let (queue, group) = (entry.queue, entry.group);
        let state = self.queues.at_mut(queue);
        state.dispatched = state.dispatched.saturating_sub(1);
        let [asynchronous, sync] = &mut self.engine.in_flight;
        let in_flight = if state.is_sync() { sync } else { asynchronous };
        *in_flight = in_flight.wrapping_sub(1);
        let group_now = state.group;
        let group = self.groups.at_mut(group);
        group.dispatched = group.dispatched.saturating_sub(1);
        group_now
    }

    #[inline(always)]
    fn sync_completed(&mut self, start_ns: Nanos, queue: u32, context: u32) {
        let now = self.clock.now();
        self.contexts.at_mut(context).think.last_end_ticks = now;
        let state = self.queues.at(queue);
        if self.profile.has_wide_think_times {
            let own = self.tree_index(state.group, state.class, state.workload_type());
            let tree = if state.tree == NIL { own } else { state.tree };
            if let Some(think) = self.trees.think_mut(tree) {
                think.last_end_ticks = now;
            }
        }
        // Compares with the start of the tick, which avoids a division.
        let late_before = (now + 1).saturating_sub(self.settings.expire(true));
        if start_ns < self.clock.ticks().ns(late_before) {
            self.load.sync_was_late(now);
        }
    }

    fn active_completed(&mut self, queue: u32, is_sync: bool, is_last: bool) {
        let is_empty = self.queues.at(queue).is_empty();
        if self.queues.at(queue).has(Marks::SLICE_NEW) {
            self.begin_slice(queue);
        }
        if !self.profile.has_one_level && self.should_wait_busy(queue) {
            self.wait_busy(queue);
        }
        if self.is_slice_used(queue) || self.queues.at(queue).is_idle_class() {
            self.expire(queue, Rest::Kept);
        } else if is_sync && is_empty && self.close_cooperator(queue).is_none() && self.wants_idling(is_last) {
            self.arm_timer();
        }
    }

    fn wait_busy(&mut self, queue: u32) {
        let idle = self.settings.slice_idle_ticks;
        let extension = if idle == 0 { self.settings.group_idle_ticks } else { idle };
        let end = self.clock.now().saturating_add(extension);
        let state = self.queues.at_mut(queue);
        state.slice.end_at(end);
        state.marks.set(Marks::WAIT_BUSY);
        self.log_queue(queue, "will busy wait", &[]);
    }

    /// Detects whether the device queues commands (`hw_tag`). This is only possible while enough
    /// requests are queued or in flight. Once found to queue commands, the device counts as such
    /// for good.
    fn learn_depth(&mut self) {
        if !self.device.sees(self.load.requests()) {
            return;
        }
        if self.engine.active != NIL {
            let active = self.queues.at(self.engine.active);
            let has = active.dispatched.wrapping_add(active.pending.total());
            if active.has(Marks::IDLE_WINDOW) && has < QUEUEING_FROM && self.device.in_driver() < QUEUEING_FROM {
                // The device is idled for this queue, which has too few requests to show the
                // device's depth.
                return;
            }
        }
        self.device.sample();
    }
}

#[cfg(test)]
mod tests {
    use super::super::profile::FORMS;
    use super::*;
    use crate::interface::{Configuration, Policy, Version};

    fn merged() -> Cfq {
        let form = FORMS.iter().find(|form| form.since == Version(2, 6, 36)).expect("2.6.36");
        Cfq::build(&Configuration::default(), form.profile).expect("memory")
    }

    fn complete_with(policy: &mut Cfq, queued: u32, in_driver: u32, times: u32) -> Option<bool> {
        policy.load.hold(queued);
        policy.device.hold(in_driver);
        for _ in 0..times {
            policy.learn_depth();
        }
        policy.device.decided()
    }

    #[test]
    fn t09_the_fifty_first_completion_decides() {
        let mut policy = merged();
        assert_eq!(complete_with(&mut policy, 0, 6, 50), None);
        assert_eq!(complete_with(&mut policy, 0, 6, 1), Some(true));
        assert_eq!(complete_with(&mut policy, 100, 1, 1_000), Some(true), "for good");
    }

    #[test]
    fn t09_with_few_requests_nothing_is_learned() {
        let mut policy = merged();
        assert_eq!(complete_with(&mut policy, 5, 5, 10_000), None);
        assert_eq!(complete_with(&mut policy, 6, 5, 51), Some(true), "five at a time were seen before");
    }

    #[test]
    fn t09_a_shallow_device_may_turn_out_deep_later() {
        let mut policy = merged();
        assert_eq!(complete_with(&mut policy, 6, 4, 51), Some(false));
        assert_eq!(complete_with(&mut policy, 5, 5, 1), Some(false), "not looked at, but remembered");
        assert_eq!(complete_with(&mut policy, 6, 1, 1), Some(true));
    }
}
