//! Idling: whether the device is idled for the queue in service that has become empty, for
//! throughput or to preserve its share.

use super::Bfq;
use super::state::Marks;
use crate::structures::NIL;
use hoistway_block::time::MILLISECOND;
use hoistway_block::{Class, Nanos};

/// Longest idle period for seeky queues that are not raised.
const SEEKY_IDLE_NS: Nanos = 2 * MILLISECOND;
/// Shortest idle period for raised queues.
const RAISED_IDLE_NS: Nanos = 20 * MILLISECOND;
/// If other queues have at least this many more requests in flight, the device is idled for a
/// raised queue.
const OTHERS_IN_DEVICE: u32 = 4;

impl Bfq {
    #[inline]
    pub(super) fn is_idle_class(&self, queue: u32) -> bool {
        matches!(self.schedule.entity(queue).class, Class::Idle)
    }

    /// Whether idling increases throughput, because the next request will be near.
    pub(super) fn idling_boosts_throughput(&self, queue: u32) -> bool {
        let state = self.queues.at(queue);
        if state.process_references() == 0 || self.busy.raised() > 0 {
            return false;
        }
        let queues = self.device.queues();
        let is_sequential = !state.is_seeky(self.profile.behaviour.seeky_above)
            && state.has(Marks::IO_BOUND)
            && state.has(Marks::SHORT_THINK_TIME);
        let is_plain = !queues && (self.device.is_rotational() || self.profile.idling.includes_devices_without_queue);
        is_plain || ((self.device.is_rotational() || !queues) && is_sequential)
    }

    /// Whether queues would lose their shares without idling, because weights, classes or groups
    /// differ (an asymmetric scenario).
    pub(super) fn is_asymmetric(&self, queue: u32) -> bool {
        if self.profile.idling.compares_group_weights {
            return self.weights.differ() || self.weights.of_groups_differ();
        }
        if self.busy.classes_differ() || self.weights.pending_groups() > u32::from(self.profile.idling.symmetric_groups)
        {
            return true;
        }
        self.weights.differ() && !self.is_of_lowest_weight(queue)
    }

    /// Whether the queue's weight is the lowest in use, so that its share is kept without idling.
    fn is_of_lowest_weight(&self, queue: u32) -> bool {
        let counted = self.queues.at(queue).counted_weight;
        self.profile.idling.skips_lowest_weight && counted != 0 && self.weights.lowest() == Some(counted)
    }

    /// Whether there is only one busy queue, in a form that idles for a lone queue, and its class
    /// permits idling.
    #[inline]
    pub(super) fn is_lone_protected(&self) -> bool {
        self.profile.idling.protects_lone_queue && self.busy.is_one_above_idle()
    }

    pub(super) fn needed_for_guarantees(&self, queue: u32) -> bool {
        let state = self.queues.at(queue);
        if state.process_references() == 0 {
            return false;
        }
        // The order of these tests is that of their cost; none has a side effect.
        if self.profile.idling.protects_lone_queue && self.busy.total() == 1 {
            return true;
        }
        let is_crowded = self.device.in_driver() >= state.dispatched.saturating_add(OTHERS_IN_DEVICE);
        let profile = &self.profile;
        let counts_raising = !profile.idling.spares_if_all_raised
            || self.busy.raised() < self.busy.total()
            || (profile.idling.includes_crowds && is_crowded);
        let is_spared = profile.idling.spares_large_bursts && state.has(Marks::IN_LARGE_BURST);
        ((state.is_raised() && counts_raising) || self.is_asymmetric(queue)) && !is_spared
    }

    pub(super) fn better_to_idle(&self, queue: u32) -> bool {
        let state = self.queues.at(queue);
        if state.process_references() == 0 {
            return false;
        }
        if self.settings.strict_guarantees {
            return true;
        }
        if self.settings.slice_idle_ns() == 0 || !state.is_sync() || self.is_idle_class(queue) {
            return false;
        }
        self.is_lone_protected() || self.idling_boosts_throughput(queue) || self.needed_for_guarantees(queue)
    }

    pub(super) fn must_idle(&self, queue: u32) -> bool {
        self.queues.at(queue).is_empty() && self.better_to_idle(queue)
    }

    /// Idles the device for the queue in service, whose last request has completed.
    pub(super) fn begin_wait(&mut self) {
        let queue = self.in_service;
        if queue == NIL {
            return;
        }
        let mut wait_ns = self.settings.slice_idle_ns();
        let state = self.queues.at(queue);
        if state.is_seeky(self.profile.behaviour.seeky_above) && !state.is_raised() && !self.is_asymmetric(queue) {
            wait_ns = wait_ns.min(SEEKY_IDLE_NS);
        } else if state.is_raised() && self.profile.idling.longer_for_raised {
            wait_ns = wait_ns.max(RAISED_IDLE_NS);
        }
        self.queues.at_mut(queue).marks.set(Marks::WAIT_REQUEST);
        self.idling.begin(self.clock.ns, wait_ns);
    }

    /// Ends the idling.
    pub(super) fn stop_wait(&mut self, queue: u32) {
        let state = self.queues.at_mut(queue);
        if !state.has(Marks::WAIT_REQUEST) {
            return;
        }
        state.marks.clear(Marks::WAIT_REQUEST);
        let waited_ns = self.idling.end(self.clock.ns);
        let account = &mut self.groups.at_mut(self.schedule.entity(queue).parent).account;
        account.idle_ns = account.idle_ns.saturating_add(waited_ns);
    }
}
