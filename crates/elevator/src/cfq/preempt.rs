//! Preemption: whether a queue with a new request takes the device from the active queue.

use super::Cfq;
use super::cooperate::CLOSE_SECTORS;
use super::expire::Rest;
use super::service_tree::Place;
use super::state::{Marks, WorkloadType};
use crate::structures::NIL;

impl Cfq {
    /// The first rule that applies decides; rule numbers as in
    /// docs/specifications/cfq.md, section 7.3.
    #[inline(never)]
    pub(super) fn should_preempt(&self, queue: u32, slot: u32) -> bool {
        if self.engine.active == NIL {
            return false;
        }
        if self.profile.has_one_level {
            return self.should_preempt_at_first(queue, slot);
        }
        let (other, active) = (self.queues.at(queue), self.queues.at(self.engine.active));
        let entry = self.slots.at(slot);
        if other.is_idle_class() {
            return false;
        }
        if active.is_idle_class() {
            return true;
        }
        if active.is_real_time() && !other.is_real_time() {
            return false;
        }
        let is_late = self.profile.has_late_rules;
        // Rule 5 applies across groups: sync before async.
        if entry.is_sync && !active.is_sync() && !(is_late && active.has(Marks::MUST_DISPATCH)) {
            return true;
        }
        let is_kin = if self.profile.has_hierarchy {
            self.is_at_or_above(other.group, active.group)
        } else {
            other.group == active.group
        };
        if !is_kin {
            return false;
        }
        if self.is_slice_used(self.engine.active) {
            return true;
        }
        let is_higher = other.is_real_time() && !active.is_real_time();
        if is_late && is_higher {
            return true;
        }
        let is_second = is_late || self.trees.len(other.tree) == 2;
        let is_tree_mate = self.serving.kind == WorkloadType::SyncNoIdle
            && other.workload_type() == WorkloadType::SyncNoIdle
            && is_second
            && active.is_empty();
        if is_tree_mate || is_higher || (entry.is_favoured && active.favoured == 0) {
            return true;
        }
        if is_late && active.is_empty() && !self.is_worth_waiting(self.engine.active) {
            return true;
        }
        // Rule 12: the device is not idled for a distant request while a close one is there.
        self.engine.active_context != NIL && active.has(Marks::WAIT_REQUEST) && self.is_close(slot, CLOSE_SECTORS)
    }

    /// CFQ of 2.6.26 compares the slice before any class, and has no rule for real time.
    fn should_preempt_at_first(&self, queue: u32, slot: u32) -> bool {
        let (other, active) = (self.queues.at(queue), self.queues.at(self.engine.active));
        let entry = self.slots.at(slot);
        if other.group != active.group {
            // The layer above decides between groups: the other queue would not be served, only the
            // active queue's turn would end.
            return false;
        }
        if self.is_slice_used(self.engine.active) {
            return true;
        }
        if other.is_idle_class() {
            return false;
        }
        if active.is_idle_class() || (entry.is_sync && !active.is_sync()) {
            return true;
        }
        if entry.is_favoured && active.favoured == 0 {
            return true;
        }
        let seek = self.contexts.at(self.engine.active_context).seek;
        self.engine.active_context != NIL
            && active.has(Marks::WAIT_REQUEST)
            && seek.is_valid()
            && self.is_close(slot, seek.mean_sectors)
    }

    fn is_close(&self, slot: u32, within_sectors: u64) -> bool {
        let sector = self.order.key(slot).unwrap_or(0);
        sector.abs_diff(self.device.last_sector()) <= within_sectors
    }

    /// Puts the preempting queue at the front of its tree; the tree is still chosen by the usual rules.
    pub(super) fn preempt(&mut self, queue: u32) {
        self.log_queue(queue, "preempt", &[]);
        let kind_before = self.queues.at(self.engine.active).workload_type();
        self.expire(self.engine.active, Rest::Kept);
        let state = self.queues.at(queue);
        // Quirk Q3 of docs/specifications/cfq.md: otherwise the rest of the other type's workload would be
        // served first, so that nothing would be preempted.
        if state.workload_type() != kind_before {
            let group = state.group;
            self.groups.at_mut(group).saved_slice_ticks = 0;
        }
        self.link(queue, Place::Front);
        let state = self.queues.at_mut(queue);
        state.slice.end_at(0);
        state.marks.set(Marks::SLICE_NEW);
    }
}
