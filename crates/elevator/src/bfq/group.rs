//! Groups: creation, change, removal, and queues that move between them.

use super::Bfq;
use super::budget::TurnEnd;
use super::contexts::{ASYNC_QUEUES, SPARE_QUEUE};
use super::state::{Entity, Held, Marks, NEW_ENTITY, Set, UNKNOWN_GROUP};
use super::wf2q::{WEIGHT_MAX, WEIGHT_MIN};
use crate::group::GroupSettings;
use crate::structures::NIL;
use hoistway_block::GroupId;

/// The weight in BFQ's range: 1 to 1000 as in `blkio.bfq.weight`; larger ones are capped.
#[inline]
fn own_weight(settings: &GroupSettings) -> u32 {
    settings.clamped_weight().clamp(WEIGHT_MIN, WEIGHT_MAX)
}

impl Bfq {
    pub(super) fn add_group(&mut self, group: u32, settings: &GroupSettings) {
        if group == GroupId::ROOT.0 || self.groups.get(group).is_none() {
            return;
        }
        let (weight, parent) = (own_weight(settings), settings.parent.0);
        let mut state = UNKNOWN_GROUP;
        (state.is_online, state.parent) = (true, parent);
        *self.groups.at_mut(group) = state;
        let entity = self.group_entity(group);
        *self.schedule.entity_mut(entity) =
            Entity { weight, original_weight: weight, new_weight: weight, parent, ..NEW_ENTITY };
        self.schedule.clear_trees(group);
    }

    /// Changes a group's weight; this takes effect when the group is next placed in its parent's
    /// order.
    pub(super) fn change_group_weight(&mut self, group: u32, settings: &GroupSettings) {
        let entity = self.group_entity(group);
        if let Some(state) = self.schedule.get_mut(entity) {
            (state.new_weight, state.is_prio_changed) = (own_weight(settings), true);
        }
    }

    /// The group itself, or its nearest online ancestor.
    pub(super) fn nearest_online(&self, group: u32) -> u32 {
        let mut at = group;
        for _ in 0..self.groups.len() {
            let state = self.groups.at(at);
            if state.is_online || at == GroupId::ROOT.0 {
                return at;
            }
            at = state.parent;
        }
        GroupId::ROOT.0
    }

    /// An issuer is in another group than when it was last seen.
    #[inline]
    pub(super) fn change_group(&mut self, index: u32, group: u32) {
        self.leave_async_queue(index);
        let queue = self.contexts.at(index).queue(true);
        if queue == NIL {
            return;
        }
        if !self.queues.at(queue).has(Marks::COOP) && !self.queues.at(queue).users.is_to_merge() {
            if queue == self.in_service && self.schedule.entity(queue).parent != group {
                self.end_turn(queue, TurnEnd::Preempted, self.clock.ns);
            }
            self.move_queue(queue, group);
        } else if self.chain_leaves_group(queue, group) {
            self.leave_sync_queue(index);
        }
    }

    /// Whether a shared queue, or one that it is merged into, belongs to another group.
    fn chain_leaves_group(&self, queue: u32, group: u32) -> bool {
        let mut at = queue;
        for _ in 0..self.queues.len() {
            if at == NIL {
                return false;
            }
            if self.schedule.entity(at).parent != group {
                return true;
            }
            at = self.queues.at(at).users.merges_into();
        }
        false
    }

    /// Moves a queue with all its requests to another group. It must not be in service.
    #[inline(never)]
    pub(super) fn move_queue(&mut self, queue: u32, group: u32) {
        if self.schedule.entity(queue).parent == group || queue == SPARE_QUEUE {
            return;
        }
        // An extra reference, so that the queue is not freed during the move.
        self.queues.at_mut(queue).users.hold();
        let is_busy = self.queues.at(queue).has(Marks::BUSY);
        if is_busy {
            self.deactivate(queue, false, false);
        }
        self.leave_idle_set(queue);
        self.change_parent(queue, group);
        if is_busy {
            self.activate_by_mark(queue);
        }
        let state = self.queues.at_mut(queue);
        state.users.release();
        self.release_if_unused(queue);
    }

    #[inline(never)]
    fn leave_idle_set(&mut self, queue: u32) {
        if self.schedule.entity(queue).set == Set::Idle {
            self.schedule.remove_idle(queue);
            self.forget(queue, false);
        }
    }

    #[inline(never)]
    fn change_parent(&mut self, queue: u32, group: u32) {
        let is_pending = self.queues.at(queue).has(Marks::PENDING);
        if is_pending {
            self.stop_pending(queue);
        }
        self.forget_last_created(queue);
        self.forget_position(queue);
        self.move_allocated(queue, group);
        if is_pending {
            self.become_pending(queue);
        }
        if self.queues.at(queue).has(Marks::BUSY) {
            self.note_position(queue);
        }
    }

    /// Moves the queue's allocated requests to the counts of the new groups.
    fn move_allocated(&mut self, queue: u32, group: u32) {
        let allocated = self.schedule.entity(queue).allocated;
        let mut above = self.parent_entity(queue);
        while above != NIL {
            let state = self.schedule.entity_mut(above);
            state.allocated = state.allocated.saturating_sub(allocated);
            above = self.parent_entity(above);
        }
        self.schedule.entity_mut(queue).parent = group;
        above = self.parent_entity(queue);
        while above != NIL {
            let state = self.schedule.entity_mut(above);
            state.allocated = state.allocated.wrapping_add(allocated);
            above = self.parent_entity(above);
        }
    }

    /// Takes a group offline: its queues move to the root, and all references to it are cleared.
    pub(super) fn take_offline(&mut self, group: u32) {
        if group == GroupId::ROOT.0 || !self.groups.at(group).is_online {
            return;
        }
        self.groups.at_mut(group).is_online = false;
        for actuator in 0..self.actuators.count {
            for number in 0..ASYNC_QUEUES {
                let queue = self.contexts.take_async_queue(self.groups.len(), actuator, group, number);
                if queue != NIL {
                    self.queues.at_mut(queue).marks.clear(Marks::PINNED);
                    self.release_if_unused(queue);
                }
            }
        }
        for queue in 0..self.queues.len() {
            if self.queues.at(queue).has(Marks::USED) && self.schedule.entity(queue).parent == group {
                if queue == self.in_service {
                    self.end_turn(queue, TurnEnd::Preempted, self.clock.ns);
                }
                if self.queues.at(queue).has(Marks::USED) {
                    self.move_queue(queue, GroupId::ROOT.0);
                }
            }
        }
        self.deactivate_group(group);
        self.burst.forget_group(group);
        self.contexts.forget_group(group);
        for slot in 0..self.slots.len() {
            if self.slots.at(slot).held != Held::Nowhere && self.slots.at(slot).group == group {
                self.move_request_to_root(slot);
            }
        }
    }

    fn move_request_to_root(&mut self, slot: u32) {
        let entry = self.slots.at_mut(slot);
        let group = core::mem::replace(&mut entry.group, GroupId::ROOT.0);
        let entry = *entry;
        let queued = u64::from(matches!(entry.held, Held::Queued | Held::Direct));
        self.groups.at_mut(group).account.queued.uncount(entry.counts_as, entry.is_sync, queued);
        self.groups.at_mut(GroupId::ROOT.0).account.queued.count(entry.counts_as, entry.is_sync, queued);
    }

    // ---- groups with requests ----

    /// Records that the queue has requests, queued or in flight.
    pub(super) fn become_pending(&mut self, queue: u32) {
        let state = self.queues.at_mut(queue);
        if !state.has(Marks::PENDING) {
            state.marks.set(Marks::PENDING);
            self.change_pending(queue, true);
        }
    }

    /// Records that the queue has no requests any more.
    pub(super) fn stop_pending(&mut self, queue: u32) {
        let state = self.queues.at_mut(queue);
        if state.has(Marks::PENDING) {
            state.marks.clear(Marks::PENDING);
            self.change_pending(queue, false);
        }
    }

    fn change_pending(&mut self, queue: u32, is_more: bool) {
        let own_only = self.profile.idling.counts_own_queues;
        let mut group = self.schedule.entity(queue).parent;
        for _ in 0..self.groups.len() {
            if !own_only && group == GroupId::ROOT.0 {
                return;
            }
            let state = self.groups.at_mut(group);
            let before = state.pending_queues;
            state.pending_queues = if is_more { before.wrapping_add(1) } else { before.saturating_sub(1) };
            let (after, parent) = (state.pending_queues, state.parent);
            if before == 0 && after == 1 {
                self.weights.count_pending_group(true);
            } else if before == 1 && after == 0 {
                self.weights.count_pending_group(false);
            }
            if own_only || group == GroupId::ROOT.0 {
                return;
            }
            group = parent;
        }
    }
}
