//! A request comes in: its leaf, and the groups above that become active with it.

use super::Paternoster;
use super::lines::{ByAge, ByPlace, Line, Links};
use super::state::{Held, Member, Place, ROOT, Slot, Taken, mark};
use super::tally::Tallies;
use crate::request::Bio;
use crate::structures::NIL;
use block::time::MILLISECOND;
use block::{Class, Direction, Nanos, Priority, RequestId};

/// The leaf that takes what no other has room for.
pub const SPARE_LEAF: u32 = 0;
/// Longer pauses count as this.
const LONGEST_THINK_NS: u32 = 16_000_000;
const _: () = assert!(LONGEST_THINK_NS as u64 == 16 * MILLISECOND);
/// Every request is charged at least so many bytes.
pub const LEAST_BYTES: u64 = 4096;

/// The weight of requests that bear no priority.
const WITHOUT_LEVEL: u32 = 40;

/// The weight of a best-effort level: 80, 70, ... 10; without one that of level 4.
fn leaf_weight(priority: Priority) -> u32 {
    let level = match priority.class() {
        Class::Idle => 7,
        _ if priority.0 >> 13 == 0 => return WITHOUT_LEVEL,
        _ => u32::from(priority.level().min(7)),
    };
    (8 - level) * 10
}

impl Member {
    /// The issuer of a leaf is back, if it was waited for: how long it thought is learned.
    #[inline(always)]
    pub(super) fn note_return(&mut self, now: Nanos) {
        if self.is(mark::WAITS) {
            self.marks &= !mark::WAITS;
            let thought = now.saturating_sub(self.last_done_ns).min(u64::from(LONGEST_THINK_NS));
            let thought = u32::try_from(thought).unwrap_or(LONGEST_THINK_NS);
            // Between the two, which are no more than the longest.
            let change = thought.cast_signed().wrapping_sub(self.think_ns.cast_signed()) / 8;
            self.think_ns = self.think_ns.wrapping_add_signed(change);
        }
    }

    /// Whether a leaf is for requests of this priority, which is one of the best-effort class.
    #[inline(always)]
    fn is_for(&self, priority: Priority) -> bool {
        if priority == Priority::NONE {
            return self.weight() == WITHOUT_LEVEL;
        }
        priority.class() == Class::BestEffort && self.is_of(priority)
    }

    /// Whether a leaf is for requests of this priority.
    pub(super) fn is_of(&self, priority: Priority) -> bool {
        self.weight() == leaf_weight(priority)
    }
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

    /// The short way in: a sync request of the best-effort class, to the leaf that its issuer had before. False, and nothing has happened,
    /// if it is anything else.
    #[inline(never)]
    pub(super) fn insert_usual(&mut self, id: RequestId, request: &Bio, now: Nanos) -> bool {
        let (slot, group, leaf) = (id.slot(), request.group.0, self.known_leaf(request.context.0));
        let Some(state) = self.members.get(leaf) else { return false };
        let is_its = state.parent == group && state.is_for(request.priority) && request.is_sync();
        if !self.is_plain || !is_its || !self.is_online(group) || !self.is_free(slot) {
            return false;
        }
        self.now = now;
        self.begin_to_insert();
        let generation = self.generation;
        let is_read = request.direction() == Direction::Read;
        let bytes = request.extent.sectors.saturating_mul(512);
        let tally = Tallies::number(group, is_read, true);
        let mut state = self.members.at_mut(leaf);
        if state.place() != Place::Ready {
            self.become_ready(leaf);
            state = self.members.at_mut(leaf);
        }
        state.held = state.held.wrapping_add(1);
        state.queued = state.queued.wrapping_add(1);
        state.note_return(now);
        state.note_newest(bytes, true);
        let taken = state.ghosts.take(generation);
        let place = state.line.push_back::<ByPlace>(&mut self.links, slot);
        let age = self.oldest.push_back::<ByAge>(&mut self.links, slot);
        *self.links.at_mut(slot) = Links { place, age };
        let (held, class) = (Held::Queued, Class::BestEffort);
        *self.slots.at_mut(slot) = Slot { id, leaf, bytes, tally, since_ns: now, held, class, is_sync: true, is_read };
        self.queued_total = self.queued_total.wrapping_add(1);
        let queued = &mut self.tallies.at_mut(tally).queued;
        *queued = queued.wrapping_add(1);
        let mut parent = group;
        while parent != ROOT {
            let member = self.group_member(parent);
            let mut state = self.members.at_mut(member);
            if state.place() != Place::Ready {
                self.become_ready(member);
                state = self.members.at_mut(member);
            }
            state.queued = state.queued.wrapping_add(1);
            state.note_newest(bytes, true);
            state.ghosts.take_same(taken, generation);
            parent = state.parent;
        }
        self.ghosts.take_same(taken, generation);
        true
    }

    #[inline(always)]
    fn is_online(&self, group: u32) -> bool {
        self.members.get(self.group_member(group)).is_some_and(|member| member.is(mark::ONLINE))
    }

    /// A newcomer, whose slot is free.
    #[inline(always)]
    pub(super) fn add(&mut self, request: &Bio, id: RequestId) {
        let slot = id.slot();
        let (class, is_sync) = (request.class(), request.is_sync());
        let (leaf, group) = self.leaf_for(request, is_sync);
        let is_read = request.direction() == Direction::Read;
        let bytes = request.extent.sectors.saturating_mul(512);
        let tally = Tallies::number(group, is_read, is_sync);
        let state = self.members.at_mut(leaf);
        state.held = state.held.wrapping_add(1);
        if class == Class::BestEffort {
            state.note_return(self.now);
            let place = state.line.push_back::<ByPlace>(&mut self.links, slot);
            let age = self.oldest.push_back::<ByAge>(&mut self.links, slot);
            *self.links.at_mut(slot) = Links { place, age };
        }
        let now = self.now;
        *self.slots.at_mut(slot) =
            Slot { id, leaf, bytes, tally, since_ns: now, held: Held::Queued, class, is_sync, is_read };
        self.queued_total = self.queued_total.wrapping_add(1);
        let queued = &mut self.tallies.at_mut(tally).queued;
        *queued = queued.wrapping_add(1);
        if class == Class::BestEffort {
            if self.is_rotational {
                self.sweeps.insert(leaf, slot, request.extent.first_sector);
            }
            self.queue_up(leaf, bytes, is_sync);
        } else {
            self.push(slot, class);
        }
    }

    #[inline(never)]
    fn push(&mut self, slot: u32, class: Class) {
        let line = if class == Class::RealTime { &mut self.real_time } else { &mut self.idle };
        let place = line.push_back::<ByPlace>(&mut self.links, slot);
        self.links.at_mut(slot).place = place;
        self.queued_of_classes = self.queued_of_classes.wrapping_add(1);
    }

    /// A request more below this leaf: it and the groups above are ready, and take up the claims they have. One fewer is
    /// expected of its issuer.
    #[inline(always)]
    fn queue_up(&mut self, leaf: u32, bytes: u32, is_sync: bool) {
        let generation = self.generation;
        let state = self.make_ready(leaf, bytes, is_sync);
        let taken = state.ghosts.take(generation);
        let mut parent = state.parent;
        while parent != ROOT {
            let state = self.make_ready(self.group_member(parent), bytes, is_sync);
            state.ghosts.take_same(taken, generation);
            parent = state.parent;
        }
        self.ghosts.take_same(taken, generation);
    }

    #[inline(always)]
    fn make_ready(&mut self, member: u32, bytes: u32, is_sync: bool) -> &mut Member {
        if self.members.at(member).place() != Place::Ready {
            self.become_ready(member);
        }
        let state = self.members.at_mut(member);
        state.queued = state.queued.wrapping_add(1);
        state.note_newest(bytes, is_sync);
        state
    }

    #[inline(never)]
    fn become_ready(&mut self, member: u32) {
        let state = self.members.at(member);
        // Who has a request inside, or one that came back a moment ago, is not over.
        let is_expected =
            state.place() == Place::Wait && (state.in_flight > 0 || state.ghosts.live(self.generation) > 0);
        if is_expected {
            self.ready_from_wait(member);
            return;
        }
        self.become_ready_anew(member);
    }

    #[inline(never)]
    fn become_ready_anew(&mut self, member: u32) {
        if self.members.at(member).place() == Place::Inactive || self.is_over(member) {
            self.wake(member);
        }
        self.seat(member, Place::Ready);
    }

    /// A leaf's issuer has sent something that joined a request: one fewer is expected of it.
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

    /// One that had been idle begins where the others are: what it did not ask for is not owed to it.
    #[inline(never)]
    fn wake(&mut self, member: u32) {
        let parent = self.members.at(member).parent;
        self.leave_wheel(member);
        let ready = self.first_of(parent, Place::Ready);
        let first = if ready == NIL { self.first_of(parent, Place::Wait) } else { ready };
        if first != NIL {
            let vt = self.members.at(first).vt;
            let state = self.members.at_mut(member);
            if super::wheel::is_later(vt, state.vt) {
                state.vt = vt;
            }
        }
    }

    /// The leaf of a request, found or made, and its group.
    #[inline(always)]
    fn leaf_for(&mut self, request: &Bio, is_sync: bool) -> (u32, u32) {
        let group = request.group.0;
        let known = self.known_leaf(request.context.0);
        let member = self.members.at(known);
        let is_usual = is_sync && member.parent == group && member.is_of(request.priority);
        if is_usual && known != NIL && self.members.at(self.group_member(group)).is(mark::ONLINE) {
            return (known, group);
        }
        let leaf = self.other_leaf_for(request);
        (leaf, self.members.at(leaf).parent)
    }

    /// The leaf of an issuer; the last one is that of all beyond the table.
    #[inline]
    pub(super) fn known_leaf(&self, context: u32) -> u32 {
        match self.contexts.get(context) {
            Some(leaf) => *leaf,
            None => *self.contexts.at(self.contexts.len().wrapping_sub(1)),
        }
    }

    #[inline(never)]
    fn other_leaf_for(&mut self, request: &Bio) -> u32 {
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
            if self.members.at(known).weight() != weight {
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
        if leaf >= self.first_group {
            return SPARE_LEAF;
        }
        let state = self.members.at_mut(leaf);
        self.first_free_leaf = state.line.first;
        *state = Member::new(group, weight);
        state.marks =
            mark::USED | if is_async { mark::ASYNC } else { 0 } | if context == NIL { 0 } else { mark::OWNED };
        *self.other_vts.at_mut(leaf) = 0;
        // Of equal rank with those that are there (see `wake`).
        leaf
    }

    /// Nobody will send requests to it any more; it goes with its last one.
    pub(super) fn abandon_leaf(&mut self, leaf: u32) {
        self.members.at_mut(leaf).marks &= !mark::OWNED;
        self.recycle_if_unused(leaf);
    }

    pub(super) fn recycle_if_unused(&mut self, leaf: u32) {
        let state = self.members.at(leaf);
        let is_wanted = state.is(mark::OWNED | mark::ASYNC) || state.held > 0 || leaf == SPARE_LEAF;
        if is_wanted || !state.is(mark::USED) {
            return;
        }
        if self.aboard == leaf {
            self.alight();
        }
        self.leave_wheel(leaf);
        let next_free = self.first_free_leaf;
        let state = self.members.at_mut(leaf);
        state.marks &= !mark::USED;
        state.line = Line::next_free(next_free);
        self.first_free_leaf = leaf;
    }

    /// New weight at once; virtual time stays.
    pub(super) fn change_weight(&mut self, member: u32, weight: u32) {
        let state = self.members.at_mut(member);
        let before = u64::from(state.weight());
        state.set_weight(weight);
        let (after, parent, is_active) = (u64::from(state.weight()), state.parent, state.place() != Place::Inactive);
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
