//! B-WF2Q+: among the eligible entities, those whose start virtual time has reached, the one with
//! the earliest finish is served; recursively in each group.
//!
//! Bennett and Zhang 1996; Valente and Checconi 2010; Linux 6.12 block/bfq-wf2q.c. Virtual time
//! counts sectors shifted left by [`SHIFT`] and divided by weight; it advances with every
//! dispatched request.

use super::Bfq;
use super::schedule::{Schedule, tree_of};
use super::state::{Marks, Set};
use crate::structures::NIL;
use hoistway_block::{Class, GroupId};

/// Range of the weights of groups and queues, before raising.
pub const WEIGHT_MIN: u32 = 1;
pub const WEIGHT_MAX: u32 = 1_000;

impl Bfq {
    /// The entity of a group; the root has none.
    #[inline]
    pub(super) fn group_entity(&self, group: u32) -> u32 {
        if group == GroupId::ROOT.0 { NIL } else { self.queues.len().wrapping_add(group) }
    }

    #[inline]
    pub(super) fn is_queue(&self, entity: u32) -> bool {
        entity < self.queues.len()
    }

    /// The entity of the group in which this one competes, or NIL at the top.
    #[inline]
    pub(super) fn parent_entity(&self, entity: u32) -> u32 {
        self.group_entity(self.schedule.entity(entity).parent)
    }

    // ---- choice ----

    /// Updates the choice of a scheduler (see [`Bfq::update_next`]), then removes idle entities
    /// whose finish a jump of virtual time has passed. The removal does not affect the choice; it
    /// is a separate step after it, so that it needs little stack.
    #[inline(always)]
    fn renew_choice(&mut self, group: u32, new: u32, on_expiration: bool) -> bool {
        let is_changed = self.update_next(group, new, on_expiration);
        let tree = self.schedule.take_jumped();
        if tree != NIL {
            self.forget_idle(tree);
        }
        is_changed
    }

    /// Called after every change of virtual time: removes one idle entity whose finish it has
    /// passed.
    #[inline(never)]
    fn forget_idle(&mut self, tree: u32) {
        let passed = self.schedule.pass_idle(tree);
        if passed != NIL {
            self.forget(passed, false);
        }
    }

    /// The tree that a scheduler serves next, or NIL. Its virtual time jumps if no child is in
    /// service and no entity is eligible. A separate step, so that forgetting idle entities uses
    /// little stack.
    #[inline(never)]
    fn tree_to_serve(&mut self, group: u32, on_expiration: bool, begins_turn: bool) -> u32 {
        let scheduler = self.groups.at_mut(group);
        let mut class = 0;
        let waits_since = scheduler.idle_class_served_ticks;
        // Where the search is repeated when a turn begins, an earlier search must not use up the turn
        // of the idle class.
        let may_be_idle = begins_turn | !self.profile.turns.looks_up_each;
        if may_be_idle && self.clock.is_past(waits_since.wrapping_add(self.clock.spans.idle_class)) {
            scheduler.idle_class_served_ticks = self.clock.ticks;
            if !self.schedule.tree(tree_of(group, Class::Idle)).active.is_empty() {
                class = super::state::class_index(Class::Idle);
            }
        }
        let may_jump = scheduler.in_service == NIL || on_expiration;
        for index in class..super::state::CLASSES {
            let tree = group.wrapping_mul(super::state::CLASSES).wrapping_add(index);
            if self.schedule.tree(tree).active.is_empty() {
                continue;
            }
            if may_jump {
                self.schedule.jump(tree);
            }
            return tree;
        }
        NIL
    }

    /// Updates the choice of a scheduler after `new` changed (NIL: no particular entity). True if
    /// the scheduler above may have to choose again.
    #[inline(never)]
    fn update_next(&mut self, group: u32, new: u32, on_expiration: bool) -> bool {
        let before = self.groups.at(group).next_in_service;
        let may_take = new != NIL && new != before && !self.profile.turns.looks_up_each;
        let is_taken = may_take && (before == NIL || self.schedule.overtakes(new, before));
        let next = if is_taken {
            new
        } else {
            let tree = self.tree_to_serve(group, on_expiration, false);
            self.schedule.first_of_tree(tree)
        };
        let mut is_changed = false;
        if next != NIL {
            is_changed = before == NIL;
            let above = self.group_entity(group);
            if above != NIL {
                let budget = self.schedule.entity(next).budget;
                let above = self.schedule.entity_mut(above);
                is_changed |= above.budget > budget;
                above.budget = budget;
            }
        }
        self.groups.at_mut(group).next_in_service = next;
        is_changed
    }

    /// Takes the next queue into service; NIL if none is busy.
    #[inline(never)]
    pub(super) fn take_next_queue(&mut self) -> u32 {
        if self.busy.total() == 0 {
            return NIL;
        }
        let mut group = GroupId::ROOT.0;
        // The tree of groups is at most as deep as there are groups.
        let looks_up = self.profile.turns.looks_up_each;
        for _ in 0..self.groups.len() {
            if looks_up {
                self.look_up(group);
            }
            let scheduler = self.groups.at_mut(group);
            let entity = scheduler.next_in_service;
            scheduler.in_service = entity;
            if entity == NIL {
                self.count_violation();
                return NIL;
            }
            let below = entity.wrapping_sub(self.queues.len());
            if looks_up || self.is_queue(entity) || self.groups.at(below).active_entities == 1 {
                self.active_remove(entity);
            }
            if self.is_queue(entity) {
                self.update_next_above(entity);
                return entity;
            }
            group = below;
        }
        self.count_violation();
        NIL
    }

    /// Chooses the next entity of a scheduler for the turn that begins.
    #[inline(never)]
    fn look_up(&mut self, group: u32) {
        let tree = self.tree_to_serve(group, true, true);
        let next = self.schedule.first_of_tree(tree);
        self.groups.at_mut(group).next_in_service = next;
        let jumped = self.schedule.take_jumped();
        if jumped != NIL {
            self.forget_idle(jumped);
        }
    }

    /// Whether a change below a group does not go up beyond this scheduler, because the entity in
    /// service gets its new place when the turn ends.
    #[inline]
    fn waits_for_end(&self, group: u32, is_expiring: bool) -> bool {
        self.profile.turns.looks_up_each && !is_expiring && self.groups.at(group).in_service != NIL
    }

    fn update_next_above(&mut self, queue: u32) {
        let mut entity = queue;
        while entity != NIL {
            let group = self.schedule.entity(entity).parent;
            if !self.renew_choice(group, NIL, false) {
                break;
            }
            entity = self.parent_entity(entity);
        }
    }

    // ---- the two sets ----

    #[inline(never)]
    fn active_insert(&mut self, entity: u32) {
        let was_in = self.schedule.is_linked(entity);
        let (tree, parent) = self.schedule.begin_change(entity, Set::Active);
        let group = self.groups.at_mut(parent);
        group.active_entities = group.active_entities.wrapping_add(1);
        let is_listed = !self.is_queue(entity) || self.actuators.list_active(self.queues.at(entity).actuator, entity);
        if !self.is_queue(entity) {
            self.count_group_weight(entity, true);
        }
        if was_in || !is_listed {
            self.count_violation();
        }
        // Last, as in `active_remove`.
        self.schedule.insert_active(tree, entity);
    }

    #[inline(never)]
    fn active_remove(&mut self, entity: u32) {
        let was_in = self.schedule.is_linked(entity);
        let (tree, parent) = self.schedule.begin_change(entity, Set::None);
        let group = self.groups.at_mut(parent);
        group.active_entities = group.active_entities.wrapping_sub(1);
        let is_unlisted =
            !self.is_queue(entity) || self.actuators.unlist_active(self.queues.at(entity).actuator, entity);
        if !self.is_queue(entity) {
            self.count_group_weight(entity, false);
        }
        if !was_in || !is_unlisted {
            self.count_violation();
        }
        // Last, so that the stack of this function is free by then.
        self.schedule.remove_active(tree, entity);
    }

    /// Removes an entity's weight from the sum of its tree. The record of a queue is released as
    /// well, unless it is in service; then this is done when its turn ends.
    #[inline(always)]
    pub(super) fn forget(&mut self, entity: u32, is_in_service: bool) {
        self.schedule.leave_tree(entity);
        if self.is_queue(entity) && !is_in_service {
            self.release_if_unused(entity);
        }
    }

    fn set_finish(&mut self, entity: u32, sectors: u32) {
        self.schedule.set_finish(entity, sectors);
        if self.report.is_on() && self.is_queue(entity) {
            self.log_finish(entity, sectors);
        }
    }

    #[cold]
    #[inline(never)]
    fn log_finish(&mut self, queue: u32, sectors: u32) {
        let weight = u64::from(self.schedule.entity(queue).weight);
        self.log_queue(queue, "calc_finish: serv {0}, w {1}", &[u64::from(sectors), weight]);
        let stamps = self.schedule.stamps(queue);
        let numbers = [stamps.starts, stamps.finish, stamps.finish.wrapping_sub(stamps.starts)];
        self.log_queue(queue, "calc_finish: start {0}, finish {1}, delta {2}", &numbers);
    }

    // ---- activation and deactivation ----

    // Each of the two functions below is inlined as a sequence of steps, so that each step uses
    // little stack.

    /// Activates an entity that was on no set, or on the idle one. With `back_shift` it may start
    /// at its last finish, as if it had never become idle.
    #[inline(always)]
    fn activate(&mut self, entity: u32, back_shift: bool) {
        let was_idle = self.schedule.entity(entity).set == Set::Idle;
        if was_idle {
            self.leave_set(entity);
        }
        let is_shifted = self.schedule.start_again(entity, was_idle, back_shift);
        self.apply_weight(entity, true);
        self.enter(entity, is_shifted);
    }

    /// Requeues an entity that is in service or active: its service so far is charged, and it gets
    /// a new place.
    #[inline(always)]
    fn requeue(&mut self, entity: u32) {
        if self.schedule.entity(entity).set == Set::Active {
            self.leave_set(entity);
        }
        self.start_behind_service(entity);
        self.apply_weight(entity, true);
        self.enter(entity, false);
    }

    #[inline(never)]
    fn start_behind_service(&mut self, entity: u32) {
        let state = self.schedule.entity(entity);
        let (service, parent) = (state.service, state.parent);
        if self.groups.at(parent).in_service == entity {
            self.set_finish(entity, service);
            self.schedule.start_at_finish(entity);
        }
    }

    /// Computes the finish of an entity from its start and weight, and inserts it.
    #[inline(never)]
    fn enter(&mut self, entity: u32, is_shifted: bool) {
        self.set_finish(entity, self.schedule.entity(entity).budget);
        if is_shifted {
            let factor = if self.is_queue(entity) { self.queues.at(entity).raising.factor } else { 1 };
            self.schedule.limit_back_shift(entity, factor);
        }
        self.active_insert(entity);
    }

    /// Activates or requeues a queue that has requests, and its groups.
    #[inline(never)]
    pub(super) fn activate_or_requeue(&mut self, queue: u32, back_shift: bool, is_expiring: bool) {
        let is_in_service = is_expiring || queue == self.in_service;
        let mut entity = queue;
        while entity != NIL {
            let state = self.schedule.entity(entity);
            let (group, is_active) = (state.parent, state.set == Set::Active);
            if is_active || self.groups.at(group).in_service == entity {
                self.requeue(entity);
            } else {
                self.activate(entity, back_shift);
            }
            let goes_up = self.renew_choice(group, entity, is_expiring) || is_in_service;
            if !goes_up || self.waits_for_end(group, is_expiring) {
                break;
            }
            entity = self.parent_entity(entity);
        }
    }

    /// Deactivates a queue without requests, and its groups that become empty.
    #[inline(never)]
    pub(super) fn deactivate(&mut self, queue: u32, into_idle: bool, on_expiration: bool) {
        let above = self.deactivate_from(queue, into_idle, on_expiration);
        let mut entity = above;
        while entity != NIL {
            self.requeue(entity);
            let group = self.schedule.entity(entity).parent;
            let goes_up = self.renew_choice(group, entity, on_expiration) || on_expiration;
            if !goes_up || self.waits_for_end(group, on_expiration) {
                break;
            }
            entity = self.parent_entity(entity);
        }
    }

    /// Takes an entity and the groups that become empty off their trees. Returns the first ancestor
    /// that stays, or NIL.
    fn deactivate_from(&mut self, entity: u32, into_idle: bool, on_expiration: bool) -> u32 {
        let (mut entity, mut into_idle) = (entity, into_idle);
        while entity != NIL {
            if !self.schedule.entity(entity).is_on_tree {
                return NIL;
            }
            self.leave_set(entity);
            self.settle(entity, into_idle);
            let group = self.schedule.entity(entity).parent;
            let looks_up = self.profile.turns.looks_up_each && on_expiration;
            if looks_up || self.groups.at(group).next_in_service == entity {
                self.renew_choice(group, NIL, on_expiration);
            }
            if self.waits_for_end(group, on_expiration) {
                return NIL;
            }
            let parent = self.parent_entity(entity);
            let scheduler = self.groups.at(group);
            if scheduler.next_in_service != NIL || scheduler.in_service != NIL {
                return parent;
            }
            (entity, into_idle) = (parent, true);
        }
        NIL
    }

    #[inline(never)]
    fn leave_set(&mut self, entity: u32) {
        match self.schedule.entity(entity).set {
            Set::Active => self.active_remove(entity),
            Set::Idle => self.schedule.remove_idle(entity),
            Set::None => {}
        }
    }

    /// An entity has left its set: its service is charged, and it enters the idle set if its finish
    /// is later than the virtual time; otherwise its weight is removed from the sum.
    #[inline(never)]
    fn settle(&mut self, entity: u32, into_idle: bool) {
        let (service, parent) = (self.schedule.entity(entity).service, self.schedule.entity(entity).parent);
        let tree = self.schedule.tree_index(entity);
        self.set_finish(entity, service);
        let scheduler = self.groups.at_mut(parent);
        let is_in_service = scheduler.in_service == entity;
        if is_in_service {
            scheduler.in_service = NIL;
        } else {
            self.schedule.entity_mut(entity).service = 0;
        }
        if into_idle && self.schedule.finishes_later(entity, tree) {
            self.schedule.insert_idle(entity);
        } else {
            self.forget(entity, is_in_service);
        }
    }

    /// A group is removed: its entity leaves the trees for good.
    pub(super) fn deactivate_group(&mut self, group: u32) {
        let entity = self.group_entity(group);
        if entity != NIL {
            self.deactivate(entity, false, false);
        }
    }

    // ---- service ----

    /// Charges sectors: virtual time advances in the queue's scheduler and all groups above.
    #[inline(never)]
    pub(super) fn served(&mut self, queue: u32, sectors: u32) {
        self.serve(queue, sectors);
    }

    /// Charges sectors that were dispatched to the device, as [`Bfq::served`] does. Inlined into
    /// its callers.
    #[inline(always)]
    pub(super) fn serve(&mut self, queue: u32, sectors: u32) {
        self.queues.at_mut(queue).count_service(sectors, self.clock.ticks);
        self.run_vtime(queue, sectors);
        self.log_queue(queue, "bfqq_served {0} secs", &[u64::from(sectors)]);
    }

    /// Advances virtual time on all levels. Inlined into its callers.
    #[inline(always)]
    pub(super) fn run_vtime(&mut self, queue: u32, sectors: u32) {
        let shifted = Schedule::shift(sectors);
        let mut entity = queue;
        while entity != NIL {
            let (group, tree, has_idle) = self.schedule.charge(entity, sectors, shifted);
            if has_idle {
                self.forget_idle(tree);
            }
            entity = self.group_entity(group);
        }
    }

    // ---- weights ----

    /// Applies a changed weight, raising or class. Without `with_class` a changed class is left for
    /// later, because the entity is in service.
    #[inline]
    pub(super) fn apply_weight(&mut self, entity: u32, with_class: bool) {
        if self.schedule.entity(entity).is_prio_changed {
            self.put_in_force(entity, with_class);
        }
    }

    #[inline(never)]
    fn put_in_force(&mut self, entity: u32, with_class: bool) {
        let state = *self.schedule.entity(entity);
        let (tree_before, is_queue) = (self.schedule.tree_index(entity), self.is_queue(entity));
        if state.is_on_tree {
            self.schedule.change_weight_sum(entity, false);
        }
        let original = state.new_weight.clamp(WEIGHT_MIN, WEIGHT_MAX);
        let mut weight = original;
        if is_queue {
            let queue = self.queues.at_mut(entity);
            queue.level = level_of(original);
            weight = original.saturating_mul(queue.raising.factor);
        }
        if with_class && is_queue && state.class != state.new_class {
            self.change_class(entity);
        }
        let changed = self.schedule.entity_mut(entity);
        changed.original_weight = original;
        changed.is_prio_changed = changed.class != changed.new_class;
        changed.weight = weight;
        if state.is_on_tree {
            self.schedule.change_weight_sum(entity, true);
        }
        let tree = self.schedule.tree_index(entity);
        if tree != tree_before {
            self.schedule.start_now(entity, tree);
        }
        if is_queue && weight != state.weight {
            self.uncount_weight(entity);
            if !self.queues.at(entity).is_raised() {
                self.count_weight(entity);
            }
        }
    }

    /// A busy queue counts in its new class at once (Linux leaves it counted in the old one).
    fn change_class(&mut self, queue: u32) {
        let is_busy = self.queues.at(queue).has(Marks::BUSY);
        let entity = self.schedule.entity_mut(queue);
        let before = core::mem::replace(&mut entity.class, entity.new_class);
        if is_busy {
            self.busy.change(before, false);
            self.busy.change(entity.class, true);
        }
    }

    /// Ends the service of the queue, and of its groups.
    #[inline(never)]
    pub(super) fn reset_in_service(&mut self) {
        let queue = core::mem::replace(&mut self.in_service, NIL);
        self.stop_wait(queue);
        let mut entity = queue;
        while entity != NIL {
            let group = self.schedule.entity(entity).parent;
            self.groups.at_mut(group).in_service = NIL;
            entity = self.parent_entity(entity);
        }
        if !self.schedule.entity(queue).is_on_tree {
            self.release_if_unused(queue);
        }
    }
}

/// The weight of a level.
#[inline]
pub const fn weight_of(level: u8) -> u32 {
    let level = if level > 7 { 7 } else { level as u32 };
    (8 - level) * 10
}

#[inline]
#[allow(clippy::cast_possible_truncation, reason = "at most 8")]
const fn level_of(weight: u32) -> u8 {
    let level = 8_u32.saturating_sub(weight / 10);
    if level > 7 { 7 } else { level as u8 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_have_weights() {
        assert_eq!((weight_of(0), weight_of(4), weight_of(7)), (80, 40, 10));
        assert_eq!((level_of(80), level_of(40), level_of(10), level_of(1), level_of(1_000)), (0, 4, 7, 7, 0));
    }
}
