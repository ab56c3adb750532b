//! A request comes in: its leaf, and the groups above that become active with it.

use super::Paternoster;
use super::state::{FREE_LEAF, Held, Leaf, Member, Place, ROOT, Slot, Taken};
use crate::request::Requests;
use crate::structures::NIL;
use block::time::MILLISECOND;
use block::{Class, Priority, RequestId};

/// The leaf that takes what no other has room for.
pub const SPARE_LEAF: u32 = 0;
/// Longer pauses count as this.
const LONGEST_THINK_NS: u64 = 16 * MILLISECOND;
/// Every request is charged at least so many bytes.
pub const LEAST_BYTES: u64 = 4096;

/// The weight of a best-effort level: 80, 70, ... 10; without one that of level 4.
fn leaf_weight(priority: Priority) -> u32 {
    let level = match priority.class() {
        Class::Idle => 7,
        _ if priority.0 >> 13 == 0 => 4,
        _ => u32::from(priority.level().min(7)),
    };
    (8 - level) * 10
}

impl Paternoster {
    #[inline]
    pub(super) const fn group_member(&self, group: u32) -> u32 {
        self.first_group.wrapping_add(group)
    }

    #[inline]
    pub(super) const fn is_leaf(&self, member: u32) -> bool {
        member < self.first_group
    }

    /// The member that stands for the group this one is in; NIL for a child of the root.
    #[inline]
    pub(super) fn parent_member(&self, member: u32) -> u32 {
        match self.members.at(member).parent {
            ROOT => NIL,
            group => self.group_member(group),
        }
    }

    #[inline(never)]
    pub(super) fn add(&mut self, requests: &Requests, id: RequestId) {
        let request = requests.attributes(id);
        let slot = id.slot();
        let (leaf, group) = self.leaf_for(request);
        let entry = Slot {
            id,
            held: Held::Queued,
            class: request.class(),
            direction: request.direction(),
            is_sync: request.is_sync(),
            leaf,
            group,
            bytes: request.extent.sectors.saturating_mul(512),
            since_ns: self.now,
        };
        *self.slots.at_mut(slot) = entry;
        self.queued_total = self.queued_total.wrapping_add(1);
        let queued = &mut self.tallies.at_mut(group).of(entry.direction, entry.is_sync).queued;
        *queued = queued.wrapping_add(1);
        let state = self.leaves.at_mut(leaf);
        state.held = state.held.wrapping_add(1);
        match entry.class {
            Class::RealTime => self.push(slot, true),
            Class::Idle => self.push(slot, false),
            Class::BestEffort => {
                self.learn_think_time(leaf);
                let is_in = self.leaves.at_mut(leaf).fifo.push_back(&mut self.fifo_links, slot);
                let is_aged = self.oldest.push_back(&mut self.age_links, slot);
                self.must(is_in && is_aged);
                self.queue_up(leaf, entry.bytes, entry.is_sync);
            }
        }
    }

    fn push(&mut self, slot: u32, is_real_time: bool) {
        let list = if is_real_time { &mut self.real_time } else { &mut self.idle };
        let is_in = list.push_back(&mut self.fifo_links, slot);
        self.must(is_in);
    }

    /// A request more below this leaf: it and the groups above are ready, and take up the claims they have.
    #[inline]
    fn queue_up(&mut self, leaf: u32, bytes: u32, is_sync: bool) {
        let mut member = leaf;
        loop {
            if self.members.at(member).place != Place::Ready {
                self.wake(member);
                self.seat(member, Place::Ready);
            }
            let state = self.members.at_mut(member);
            state.queued = state.queued.wrapping_add(1);
            (state.newest_bytes, state.newest_is_sync) = (bytes, is_sync);
            let parent = state.parent;
            if parent == ROOT {
                break;
            }
            member = self.group_member(parent);
        }
        self.came_back(leaf);
    }

    /// A leaf's issuer has sent something: one fewer is expected of it.
    #[inline]
    pub(super) fn came_back(&mut self, leaf: u32) {
        let (generation, state) = (self.generation, self.members.at_mut(leaf));
        let taken = state.ghosts.take(generation);
        if taken == Taken::None {
            return;
        }
        let mut parent = state.parent;
        while parent != ROOT {
            let state = self.members.at_mut(self.group_member(parent));
            state.ghosts.take_same(taken, generation);
            parent = state.parent;
        }
        self.ghosts.take_same(taken, generation);
    }

    /// How long its issuer thought before it sent this.
    #[inline]
    pub(super) fn learn_think_time(&mut self, leaf: u32) {
        let state = self.leaves.at_mut(leaf);
        if core::mem::replace(&mut state.waits, false) {
            let thought = self.now.saturating_sub(self.members.at(leaf).last_done_ns).min(LONGEST_THINK_NS);
            let change = thought.cast_signed().wrapping_sub(state.think_ns.cast_signed()) / 8;
            state.think_ns = state.think_ns.saturating_add_signed(change);
        }
    }

    /// One that had been idle begins where the others are: what it did not ask for is not owed to it.
    #[inline(never)]
    fn wake(&mut self, member: u32) {
        let (place, parent) = (self.members.at(member).place, self.members.at(member).parent);
        let is_idle = match place {
            Place::Inactive => true,
            Place::Ready => false,
            Place::Wait => self.is_over(member),
        };
        if !is_idle {
            return;
        }
        self.leave_wheel(member);
        let ready = self.first_of(parent, Place::Ready);
        let first = if ready == NIL { self.first_of(parent, Place::Wait) } else { ready };
        if first != NIL {
            let vt = self.members.at(first).seat.vt;
            let seat = &mut self.members.at_mut(member).seat;
            if super::wheel::is_later(vt, seat.vt) {
                seat.vt = vt;
            }
        }
    }

    /// The leaf of a request, found or made, and its group.
    #[inline]
    fn leaf_for(&mut self, request: &crate::request::Bio) -> (u32, u32) {
        let group = request.group.0;
        let known = *self.contexts.at(request.context.0.min(self.contexts.len().wrapping_sub(1)));
        let member = self.members.at(known);
        let is_usual = known != NIL && request.is_sync() && member.parent == group && self.groups.at(group).is_online;
        if is_usual && member.weight == leaf_weight(request.priority) {
            return (known, group);
        }
        let leaf = self.other_leaf_for(request);
        (leaf, self.members.at(leaf).parent)
    }

    #[inline(never)]
    fn other_leaf_for(&mut self, request: &crate::request::Bio) -> u32 {
        let group = self.nearest_online(request.group.0);
        let index = request.context.0.min(self.contexts.len().wrapping_sub(1));
        if !request.is_sync() {
            let known = self.groups.at(group).async_leaf;
            if known != NIL {
                return known;
            }
            let leaf = self.new_leaf(group, NIL, leaf_weight(Priority::NONE), true);
            if leaf != SPARE_LEAF {
                self.groups.at_mut(group).async_leaf = leaf;
            }
            return leaf;
        }
        let weight = leaf_weight(request.priority);
        let known = *self.contexts.at(index);
        if known != NIL && self.members.at(known).parent == group {
            if self.members.at(known).weight != weight {
                self.change_weight(known, weight);
            }
            return known;
        }
        if known != NIL {
            self.abandon_leaf(known);
        }
        let leaf = self.new_leaf(group, index, weight, false);
        *self.contexts.at_mut(index) = if leaf == SPARE_LEAF { NIL } else { leaf };
        leaf
    }

    fn new_leaf(&mut self, group: u32, context: u32, weight: u32, is_async: bool) -> u32 {
        let leaf = self.first_free_leaf;
        let Some(state) = self.leaves.get_mut(leaf) else { return SPARE_LEAF };
        self.first_free_leaf = state.next_free;
        *state = Leaf { context, is_async, is_used: true, ..FREE_LEAF };
        *self.members.at_mut(leaf) = Member::new(group, weight);
        *self.other_vts.at_mut(leaf) = 0;
        // Of equal rank with those that are there (see `wake`).
        leaf
    }

    /// Nobody will send requests to it any more; it goes with its last one.
    pub(super) fn abandon_leaf(&mut self, leaf: u32) {
        self.leaves.at_mut(leaf).context = NIL;
        self.recycle_if_unused(leaf);
    }

    pub(super) fn recycle_if_unused(&mut self, leaf: u32) {
        let state = self.leaves.at(leaf);
        let is_wanted = state.context != NIL || state.is_async || state.held > 0 || leaf == SPARE_LEAF;
        if is_wanted || !state.is_used {
            return;
        }
        if self.aboard == leaf {
            self.alight();
        }
        self.leave_wheel(leaf);
        let next_free = self.first_free_leaf;
        let state = self.leaves.at_mut(leaf);
        (state.is_used, state.next_free) = (false, next_free);
        self.first_free_leaf = leaf;
    }

    /// New weight at once; virtual time stays.
    pub(super) fn change_weight(&mut self, member: u32, weight: u32) {
        let state = self.members.at_mut(member);
        let before = u64::from(state.weight);
        state.set_weight(weight);
        let (after, parent, is_active) = (u64::from(state.weight), state.parent, state.place != Place::Inactive);
        let holds_tags = !self.is_leaf(member) && self.groups.at(member.wrapping_sub(self.first_group)).tags > 0;
        let group = self.groups.at_mut(parent);
        if holds_tags {
            group.tags_weight = group.tags_weight.saturating_sub(before).wrapping_add(after);
        }
        if is_active {
            group.weight_sum = group.weight_sum.saturating_sub(before).wrapping_add(after);
        }
    }
}
