//! The service trees of B-WF2Q+ and what they order: entities with weight, budget and virtual times. `wf2q.rs` decides
//! which of them are active, from queues and groups.

use super::contexts::SPARE_QUEUE;
use super::divisor::Divisor;
use super::state::{CLASSES, DEFAULT_WEIGHT, Entity, NEW_ENTITY, Set, class_index};
use super::timestamps::{ByFinish, Stamps, Timestamps, is_later};
use crate::structures::{Array, NIL, NoMemory};
use hoistway_block::Class;

/// Fractional bits of virtual time.
const SHIFT: u32 = 22;

/// The entities of one class in one scheduler.
#[derive(Copy, Clone, Debug)]
pub struct ServiceTree {
    pub active: ByFinish,
    /// Entities without requests whose finish lies ahead of virtual time.
    pub idle: ByFinish,
    pub vtime: u64,
    /// Sum of the weights of all active, idle and in-service entities.
    pub weight_sum: Divisor,
}

impl ServiceTree {
    const EMPTY: ServiceTree =
        ServiceTree { active: ByFinish::EMPTY, idle: ByFinish::EMPTY, vtime: 0, weight_sum: Divisor::ZERO };
}

/// The advance of virtual time when `sectors` are served at this weight.
#[inline]
fn span(sectors: u32, weight: u32) -> u64 {
    (u64::from(sectors) << SHIFT).checked_div(u64::from(weight)).unwrap_or(0)
}

/// The tree of a class in a group's scheduler.
#[inline]
pub const fn tree_of(group: u32, class: Class) -> u32 {
    group.wrapping_mul(CLASSES).wrapping_add(class_index(class))
}

/// Entities and trees.
///
/// Invariants: an entity is in the set that it names, of the tree of its group and class; the weights of the entities
/// that are on a tree add up to its `weight_sum`.
#[derive(Debug)]
pub struct Schedule {
    /// The entities of all queues, then those of all groups.
    entities: Array<Entity>,
    stamps: Stamps,
    trees: Array<ServiceTree>,
    /// The service tree whose virtual time has just been moved forward to the earliest start, or
    /// NIL; used within one event.
    jumped: u32,
    violations: u32,
}

impl Schedule {
    #[inline(always)]
    pub fn try_new(entities: u32, groups: u32) -> Result<Self, NoMemory> {
        let records = entities_with_spare(entities)?;
        let trees = Array::try_new(groups.saturating_mul(CLASSES), ServiceTree::EMPTY)?;
        Ok(Self { entities: records, stamps: Stamps::try_new(entities)?, trees, jumped: NIL, violations: 0 })
    }

    #[inline]
    pub fn entities(&self) -> u32 {
        self.entities.len()
    }

    #[inline]
    pub fn entity(&self, entity: u32) -> &Entity {
        self.entities.at(entity)
    }

    #[inline]
    pub fn entity_mut(&mut self, entity: u32) -> &mut Entity {
        self.entities.at_mut(entity)
    }

    #[inline]
    pub fn get_mut(&mut self, entity: u32) -> Option<&mut Entity> {
        self.entities.get_mut(entity)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Entity> {
        self.entities.iter()
    }

    #[inline]
    pub fn stamps(&self, entity: u32) -> &Timestamps {
        self.stamps.at(entity)
    }

    #[inline]
    pub fn is_linked(&self, entity: u32) -> bool {
        self.stamps.is_linked(entity)
    }

    #[inline]
    pub fn tree(&self, tree: u32) -> &ServiceTree {
        self.trees.at(tree)
    }

    /// The tree of an entity.
    #[inline]
    pub fn tree_index(&self, entity: u32) -> u32 {
        let entity = self.entities.at(entity);
        tree_of(entity.parent, entity.class)
    }

    /// A new group begins with empty trees.
    pub fn clear_trees(&mut self, group: u32) {
        for class in 0..CLASSES {
            *self.trees.at_mut(group.wrapping_mul(CLASSES).wrapping_add(class)) = ServiceTree::EMPTY;
        }
    }

    pub fn violations(&self) -> u32 {
        self.violations
    }

    #[inline]
    fn expect(&mut self, holds: bool) {
        self.violations = self.violations.wrapping_add(u32::from(!holds));
    }

    // ---- virtual time ----

    /// Moves the virtual time of a tree to where it has an eligible entity.
    #[inline]
    pub fn jump(&mut self, tree: u32) {
        let to = self.reachable_vtime(tree);
        let state = self.trees.at_mut(tree);
        if to > state.vtime {
            state.vtime = to;
            self.jumped = tree;
        }
    }

    /// The tree that has jumped since the last call, or NIL.
    #[inline]
    pub fn take_jumped(&mut self) -> u32 {
        core::mem::replace(&mut self.jumped, NIL)
    }

    /// The virtual time at which a tree has an eligible entity: the present one, or the earliest
    /// start if that is later.
    #[inline]
    fn reachable_vtime(&self, tree: u32) -> u64 {
        let state = self.trees.at(tree);
        let least = state.active.least_start(&self.stamps);
        if is_later(least, state.vtime) { least } else { state.vtime }
    }

    /// The entity that a tree serves next, or NIL.
    #[inline(never)]
    pub fn first_of_tree(&self, tree: u32) -> u32 {
        if tree == NIL {
            return NIL;
        }
        self.trees.at(tree).active.first_eligible(&self.stamps, self.reachable_vtime(tree))
    }

    /// The entity that an entity's tree would serve at the present virtual time, or NIL, and that time.
    pub fn first_eligible_beside(&self, entity: u32) -> (u32, u64) {
        let tree = self.trees.at(self.tree_index(entity));
        (tree.active.first_eligible(&self.stamps, tree.vtime), tree.vtime)
    }

    /// Whether an entity has started by virtual time.
    #[inline]
    pub fn is_eligible(&self, entity: u32) -> bool {
        !is_later(self.stamps.at(entity).starts, self.trees.at(self.tree_index(entity)).vtime)
    }

    /// Whether an entity's finish would lie behind virtual time with the service that it has had so far.
    pub fn is_ahead(&self, entity: u32, vtime: u64) -> bool {
        let state = self.entities.at(entity);
        is_later(self.stamps.at(entity).starts.wrapping_add(span(state.service, state.weight)), vtime)
    }

    /// Whether the new entity takes precedence over the present choice, without a search.
    pub fn overtakes(&self, new: u32, before: u32) -> bool {
        let tree = self.tree_index(new);
        tree == self.tree_index(before)
            && !is_later(self.stamps.at(new).starts, self.trees.at(tree).vtime)
            && is_later(self.stamps.at(before).finish, self.stamps.at(new).finish)
    }

    /// Charges sectors, shifted for virtual time by [`Schedule::shift`]. Returns the entity's group and tree.
    #[inline(always)]
    pub fn charge(&mut self, entity: u32, sectors: u32, shifted: u64) -> (u32, u32, bool) {
        let of_entity = self.entities.at_mut(entity);
        of_entity.service = of_entity.service.saturating_add(sectors);
        let (group, tree) = (of_entity.parent, tree_of(of_entity.parent, of_entity.class));
        let state = self.trees.at_mut(tree);
        state.vtime = state.vtime.wrapping_add(state.weight_sum.quotient(shifted));
        (group, tree, !state.idle.is_empty())
    }

    /// Sectors as virtual time for the weight 1.
    #[inline(always)]
    pub const fn shift(sectors: u32) -> u64 {
        (sectors as u64) << SHIFT
    }

    // ---- the two sets ----

    /// The first part of [`Schedule::insert_active`]: the entity's tree and group.
    #[inline(always)]
    pub fn begin_change(&mut self, entity: u32, set: Set) -> (u32, u32) {
        let tree = self.tree_index(entity);
        let state = self.entities.at_mut(entity);
        state.set = set;
        (tree, state.parent)
    }

    /// The last step, so that the stack of the caller is free by then.
    #[inline(always)]
    pub fn insert_active(&mut self, tree: u32, entity: u32) {
        self.trees.at_mut(tree).active.insert(&mut self.stamps, entity);
    }

    /// As [`Schedule::insert_active`].
    #[inline(always)]
    pub fn remove_active(&mut self, tree: u32, entity: u32) {
        self.trees.at_mut(tree).active.remove(&mut self.stamps, entity);
    }

    #[inline(never)]
    pub fn insert_idle(&mut self, entity: u32) {
        let tree = self.tree_index(entity);
        let is_linked = self.stamps.is_linked(entity);
        self.expect(!is_linked);
        self.entities.at_mut(entity).set = Set::Idle;
        self.trees.at_mut(tree).idle.insert(&mut self.stamps, entity);
    }

    #[inline(never)]
    pub fn remove_idle(&mut self, entity: u32) {
        let tree = self.tree_index(entity);
        let is_linked = self.stamps.is_linked(entity);
        self.expect(is_linked);
        self.entities.at_mut(entity).set = Set::None;
        self.trees.at_mut(tree).idle.remove(&mut self.stamps, entity);
    }

    /// After a change of virtual time: removes the first idle entity if virtual time has passed its finish, and
    /// returns it; else NIL.
    #[inline(always)]
    pub fn pass_idle(&mut self, tree: u32) -> u32 {
        let state = self.trees.at_mut(tree);
        if state.idle.is_empty() {
            return NIL;
        }
        let first = state.idle.first();
        if state.active.is_empty() {
            let last = state.idle.last(&self.stamps);
            let finish = self.stamps.at(last).finish;
            if !is_later(finish, state.vtime) {
                // Virtual time moves backward instead of forward, as in the kernel (quirk Q2 of the
                // specification).
                state.vtime = finish;
            }
        }
        if is_later(self.stamps.at(first).finish, state.vtime) {
            return NIL;
        }
        self.remove_idle(first);
        first
    }

    // ---- weights and times of an entity ----

    #[inline]
    pub fn change_weight_sum(&mut self, entity: u32, is_added: bool) {
        let weight = u64::from(self.entities.at(entity).weight);
        let sum = &mut self.trees.at_mut(self.tree_index(entity)).weight_sum;
        let before = sum.value();
        sum.set(if is_added { before.wrapping_add(weight) } else { before.saturating_sub(weight) });
    }

    /// Removes an entity's weight from the sum of its tree.
    #[inline(always)]
    pub fn leave_tree(&mut self, entity: u32) {
        self.change_weight_sum(entity, false);
        self.entities.at_mut(entity).is_on_tree = false;
    }

    #[inline]
    pub fn set_finish(&mut self, entity: u32, sectors: u32) {
        let start = self.stamps.at(entity).starts;
        let finish = start.wrapping_add(span(sectors, self.entities.at(entity).weight));
        self.stamps.set(entity, start, finish);
    }

    /// Whether an entity's finish lies ahead of virtual time.
    #[inline]
    pub fn finishes_later(&self, entity: u32, tree: u32) -> bool {
        is_later(self.stamps.at(entity).finish, self.trees.at(tree).vtime)
    }

    /// Sets the start of an entity that is activated, not before its last finish if it was on the
    /// idle set. True if it was back-shifted.
    #[inline(never)]
    pub fn start_again(&mut self, entity: u32, was_idle: bool, back_shift: bool) -> bool {
        let tree = self.tree_index(entity);
        let vtime = self.trees.at(tree).vtime;
        let finish = self.stamps.at(entity).finish;
        let is_shifted = back_shift && is_later(vtime, finish);
        let earliest = if is_shifted { finish } else { vtime };
        let start = if was_idle {
            if is_later(earliest, finish) { earliest } else { finish }
        } else {
            if self.entities.at(entity).is_on_tree {
                self.expect(false);
            } else {
                self.entities.at_mut(entity).is_on_tree = true;
                self.change_weight_sum(entity, true);
            }
            earliest
        };
        self.stamps.set(entity, start, finish);
        is_shifted
    }

    /// The entity starts where it finishes.
    #[inline]
    pub fn start_at_finish(&mut self, entity: u32) {
        let finish = self.stamps.at(entity).finish;
        self.stamps.set(entity, finish, finish);
    }

    /// The entity starts at the present virtual time of its tree.
    #[inline]
    pub fn start_now(&mut self, entity: u32, tree: u32) {
        let vtime = self.trees.at(tree).vtime;
        let finish = self.stamps.at(entity).finish;
        self.stamps.set(entity, vtime, finish);
    }

    /// Back-shifted times are too far in the past if the finish is: they are moved forward until the finish is the
    /// virtual time, or less by the factor at which a queue is raised; the entity still finishes first.
    #[inline]
    pub fn limit_back_shift(&mut self, entity: u32, factor: u32) {
        let vtime = self.trees.at(self.tree_index(entity)).vtime;
        let stamps = *self.stamps.at(entity);
        if is_later(vtime, stamps.finish) {
            let ahead = vtime.wrapping_sub(stamps.finish);
            let ahead = ahead.checked_div(u64::from(factor)).unwrap_or(ahead);
            self.stamps.set(entity, stamps.starts.wrapping_add(ahead), stamps.finish.wrapping_add(ahead));
        }
    }
}

#[inline(never)]
fn entities_with_spare(count: u32) -> Result<Array<Entity>, NoMemory> {
    let mut entities = Array::try_new(count, NEW_ENTITY)?;
    let spare = entities.at_mut(SPARE_QUEUE);
    (spare.weight, spare.original_weight, spare.new_weight) = (DEFAULT_WEIGHT, DEFAULT_WEIGHT, DEFAULT_WEIGHT);
    Ok(entities)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn activate(schedule: &mut Schedule, entity: u32, weight: u32, sectors: u32) {
        schedule.entity_mut(entity).weight = weight;
        schedule.start_again(entity, false, false);
        schedule.set_finish(entity, sectors);
        let (tree, _) = schedule.begin_change(entity, Set::Active);
        schedule.insert_active(tree, entity);
    }

    #[test]
    fn service_is_divided_by_weight() {
        let mut schedule = Schedule::try_new(3, 1).unwrap();
        activate(&mut schedule, 1, 30, 100);
        activate(&mut schedule, 2, 10, 100);
        let (tree, mut served) = (schedule.tree_index(1), [0; 3]);
        for _ in 0..400 {
            schedule.jump(tree);
            let entity = schedule.first_of_tree(tree);
            served[entity as usize] += 1;
            schedule.remove_active(tree, entity);
            schedule.charge(entity, 100, Schedule::shift(100));
            schedule.start_at_finish(entity);
            schedule.set_finish(entity, 100);
            schedule.insert_active(tree, entity);
        }
        assert_eq!((served, schedule.violations()), ([0, 300, 100], 0));
    }

    #[test]
    fn an_idle_entity_is_forgotten_when_virtual_time_has_passed_its_finish() {
        let mut schedule = Schedule::try_new(3, 1).unwrap();
        activate(&mut schedule, 1, 10, 100);
        activate(&mut schedule, 2, 10, 100);
        let tree = schedule.tree_index(1);
        schedule.begin_change(1, Set::None);
        schedule.remove_active(tree, 1);
        schedule.insert_idle(1);
        assert_eq!((schedule.pass_idle(tree), schedule.entity(1).set), (NIL, Set::Idle));
        schedule.charge(2, 200, Schedule::shift(200));
        assert_eq!((schedule.pass_idle(tree), schedule.entity(1).set), (1, Set::None));
        schedule.leave_tree(1);
        assert_eq!((schedule.tree(tree).weight_sum.value(), schedule.pass_idle(tree)), (10, NIL));
    }
}
