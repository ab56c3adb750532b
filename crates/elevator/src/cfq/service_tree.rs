//! Service trees: the busy queues of a group, class and type, in the order of their turns.

use super::Cfq;
use super::profile::Isolation;
use super::slices::{key_offset, priority_slice};
use super::state::{Marks, TREES_PER_GROUP, WorkloadType, class_number};
use crate::structures::NIL;
use hoistway_block::{Class, GroupId};

impl Cfq {
    /// Index of a service tree.
    #[inline]
    pub(super) fn tree_index(&self, group: u32, class: Class, kind: WorkloadType) -> u32 {
        let first = group.wrapping_mul(TREES_PER_GROUP);
        match class {
            Class::Idle => first.wrapping_add(TREES_PER_GROUP - 1),
            _ => {
                // CFQ of 2.6.26 has one tree per class.
                let kind = if self.profile.has_one_level { WorkloadType::Sync } else { kind };
                first.wrapping_add(class_number(class) * 3).wrapping_add(kind as u32)
            }
        }
    }

    /// An empty queue got a request.
    pub(super) fn become_busy(&mut self, queue: u32) {
        self.log_queue(queue, "add_to_rr", &[]);
        let state = self.queues.at_mut(queue);
        state.marks.set(Marks::ON_RR);
        let is_sync = state.is_sync();
        self.engine.busy_queues = self.engine.busy_queues.wrapping_add(1);
        self.load.add_queue(is_sync);
        self.link(queue, Place::Behind);
    }

    /// Removes a queue from all orders.
    pub(super) fn become_idle(&mut self, queue: u32) {
        self.log_queue(queue, "del_from_rr", &[]);
        let state = self.queues.at_mut(queue);
        if !state.has(Marks::ON_RR) {
            self.count_violation();
            return;
        }
        state.marks.clear(Marks::ON_RR);
        let (is_sync, group) = (state.is_sync(), state.group);
        self.unlink(queue);
        self.note_next(queue);
        self.group_queue_removed(group);
        self.engine.busy_queues = self.engine.busy_queues.wrapping_sub(1);
        self.load.remove_queue(is_sync);
    }

    /// Moves a busy queue to its new position after its slice.
    pub(super) fn resort(&mut self, queue: u32) {
        if self.queues.at(queue).has(Marks::ON_RR) {
            self.link(queue, Place::Behind);
            self.note_next(queue);
        }
    }

    /// Links a queue in the service tree of its group, class and type, or moves it there.
    #[inline]
    pub(super) fn link(&mut self, queue: u32, place: Place) {
        let has_moved = self.profile.isolation == Isolation::Tunable && self.settle_group(queue);
        let is_new = self.place_in_tree(queue, place);
        if has_moved || (is_new && place == Place::Behind) {
            self.group_queue_added(self.queues.at(queue).group);
        }
    }

    /// Places a queue in its tree. Returns whether it was in no tree before.
    #[inline(never)]
    fn place_in_tree(&mut self, queue: u32, place: Place) -> bool {
        let state = self.queues.at(queue);
        let (group, class, kind, old_tree) = (state.group, state.class, state.workload_type(), state.tree);
        let index = self.tree_index(group, class, kind);
        let key = self.key_of(queue, index, place);
        if old_tree == index && self.trees.key(queue) == Some(key) {
            return false;
        }
        let was_linked = old_tree != NIL;
        self.unlink(queue);
        let inserted = self.trees.insert(index, queue, key);
        if !inserted {
            self.count_violation();
            return false;
        }
        self.queues.at_mut(queue).tree = index;
        !was_linked
    }

    fn unlink(&mut self, queue: u32) {
        let tree = core::mem::replace(&mut self.queues.at_mut(queue).tree, NIL);
        if tree != NIL && !self.trees.remove(tree, queue) {
            self.count_violation();
        }
    }

    fn key_of(&mut self, queue: u32, index: u32, place: Place) -> i64 {
        let now = self.clock.now().cast_signed();
        let state = self.queues.at(queue);
        if state.is_idle_class() {
            // Queues of the idle class are served in turn: a queue is placed behind the last one.
            let last = self.trees.last(index).filter(|last| *last != queue);
            let from = last.and_then(|last| self.trees.key(last)).unwrap_or(now);
            return from.saturating_add((self.clock.ticks().second_ticks / 5).cast_signed());
        }
        if place == Place::Front {
            if self.profile.has_one_level {
                return 0;
            }
            return self
                .trees
                .first_key(index)
                .unwrap_or(now)
                .saturating_sub(self.clock.ticks().second_ticks.cast_signed());
        }
        let busy =
            if self.profile.has_one_level { self.engine.busy_queues } else { self.groups.at(state.group).busy_queues };
        let longest = priority_slice(self.settings.slice(true), 0);
        let offset = key_offset(i64::from(busy) - 1, longest, self.priority_slice_of(queue));
        let rest = self.queues.at_mut(queue).slice.take_rest();
        // Quirk Q13 of docs/specifications/cfq.md: in CFQ of 2.6.26 the sign is inverted, so that unused
        // time delays a queue.
        let rest = if self.profile.has_one_level { rest.saturating_neg() } else { rest };
        offset.saturating_add(now).saturating_sub(rest)
    }

    /// Without isolation, queues that are not idled for compete in the root, and return to their
    /// group once they are. They also return when isolation is turned on; the kernel leaves them in
    /// the root for good.
    #[inline(never)]
    fn settle_group(&mut self, queue: u32) -> bool {
        let isolates = self.settings.isolates();
        let state = self.queues.at(queue);
        let (group, origin, was_linked) = (state.group, state.origin, state.tree != NIL);
        let target = match state.workload_type() {
            WorkloadType::SyncNoIdle if !isolates && group != GroupId::ROOT.0 => {
                self.log_queue(queue, "moving to root group", &[]);
                GroupId::ROOT.0
            }
            kind if origin != NIL && (isolates || kind == WorkloadType::Sync) => {
                self.log_queue(queue, "moved to origin group", &[]);
                origin
            }
            _ => return false,
        };
        if was_linked {
            // Unlinked before its group leaves the order, which would remove the tree as well.
            self.unlink(queue);
            self.group_queue_removed(group);
        }
        let state = self.queues.at_mut(queue);
        state.origin = if target == GroupId::ROOT.0 { group } else { NIL };
        state.group = target;
        true
    }

    /// Moves a busy queue to the root group permanently, because its own is about to be removed.
    pub(super) fn take_to_root(&mut self, queue: u32) {
        let group = self.queues.at(queue).group;
        self.unlink(queue);
        self.group_queue_removed(group);
        self.queues.at_mut(queue).group = GroupId::ROOT.0;
        self.link(queue, Place::Behind);
    }
}

/// Where a queue is linked in its tree.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Place {
    /// At the position that its priority and the number of busy queues give it.
    Behind,
    /// In front of all others.
    Front,
}
