//! Issuers and their queues. A queue is looked up when a request arrives, and freed in one place,
//! when nothing refers to it any more.

use super::Bfq;
use super::io_bound::Boundness;
use super::pace::Pace;
use super::state::{Context, DEFAULT_LEVEL, Entity, Marks, NEW_ENTITY, ThinkTime, UNKNOWN_CONTEXT, class_index};
use super::users::Users;
use super::wf2q::weight_of;
use crate::interface::Wake;
use crate::request::Bio;
use crate::structures::{Array, NIL, NoMemory};
use hoistway_block::{Class, ContextId, Priority};

/// The queue for requests for which no other record is free. It is never freed, merged or moved.
pub const SPARE_QUEUE: u32 = 0;
/// Async queues of a group: real-time and best-effort by level, and one of the idle class.
pub const ASYNC_QUEUES: u32 = 17;
/// The level of all queues in the idle class.
const IDLE_LEVEL: u8 = 7;

/// The class and level of an I/O priority; a bio without one is treated as that of a process of
/// nice 0.
#[inline]
const fn class_and_level(priority: Priority) -> (Class, u8) {
    match priority.class() {
        Class::Idle => (Class::Idle, IDLE_LEVEL),
        class if priority.0 >> 13 == 0 => (class, DEFAULT_LEVEL),
        class => (class, priority.level()),
    }
}

impl Context {
    #[inline]
    pub const fn queue(&self, is_sync: bool) -> u32 {
        let [asynchronous, sync] = self.queues;
        if is_sync { sync } else { asynchronous }
    }

    #[inline]
    const fn set_queue(&mut self, is_sync: bool, queue: u32) {
        let [asynchronous, sync] = &mut self.queues;
        if is_sync {
            *sync = queue;
        } else {
            *asynchronous = queue;
        }
    }
}

/// The records of issuers, and the async queues that issuers of a group share.
///
/// Invariants: a record refers to queues that count it among their processes; an async queue in the table has the mark
/// `PINNED`.
#[derive(Debug)]
pub struct Contexts {
    /// One per issuer and actuator: see [`ActuatorTable`](super::actuator::ActuatorTable).
    records: Array<Context>,
    /// By actuator, group, class and level; NIL = none.
    async_queues: Array<u32>,
}

impl Contexts {
    #[inline(always)]
    pub fn try_new(records: u32, groups: u32, actuators: u32) -> Result<Self, NoMemory> {
        let records = Array::try_new(records, UNKNOWN_CONTEXT)?;
        let async_queues = Array::try_new(Self::async_queues(groups, actuators), NIL)?;
        Ok(Self { records, async_queues })
    }

    /// Number of async queues that there may be.
    pub const fn async_queues(groups: u32, actuators: u32) -> u32 {
        groups.saturating_mul(ASYNC_QUEUES).saturating_mul(actuators)
    }

    #[inline]
    pub fn at(&self, record: u32) -> &Context {
        self.records.at(record)
    }

    #[inline]
    pub fn at_mut(&mut self, record: u32) -> &mut Context {
        self.records.at_mut(record)
    }

    #[inline]
    pub fn get_mut(&mut self, record: u32) -> Option<&mut Context> {
        self.records.get_mut(record)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Context> {
        self.records.iter()
    }

    /// The place of a group's async queue of a class and level, for an actuator; `groups` as at construction.
    fn async_place(groups: u32, actuator: u32, group: u32, class: Class, level: u8) -> u32 {
        let kind = match class {
            Class::Idle => ASYNC_QUEUES - 1,
            class => class_index(class).wrapping_mul(8).wrapping_add(u32::from(level.min(7))),
        };
        Self::first_place(groups, actuator, group).wrapping_add(kind)
    }

    #[inline]
    const fn first_place(groups: u32, actuator: u32, group: u32) -> u32 {
        actuator.wrapping_mul(groups).wrapping_add(group).wrapping_mul(ASYNC_QUEUES)
    }

    /// The async queue at a place, or NIL.
    fn async_queue(&self, place: u32) -> u32 {
        *self.async_queues.at(place)
    }

    fn set_async_queue(&mut self, place: u32, queue: u32) {
        *self.async_queues.at_mut(place) = queue;
    }

    /// Takes a group's async queue of this number, below [`ASYNC_QUEUES`], for an actuator; or NIL.
    #[inline]
    pub fn take_async_queue(&mut self, groups: u32, actuator: u32, group: u32, number: u32) -> u32 {
        let place = Self::first_place(groups, actuator, group).wrapping_add(number);
        core::mem::replace(self.async_queues.at_mut(place), NIL)
    }

    /// All async queues, NIL where there is none.
    pub fn all_async_queues(&self) -> impl Iterator<Item = u32> {
        self.async_queues.iter().copied()
    }

    /// Issuers seen in this group are seen in a new one when they come again.
    pub fn forget_group(&mut self, group: u32) {
        for context in self.records.iter_mut().filter(|context| context.group == group) {
            context.group = NIL;
        }
    }
}

impl Bfq {
    /// The queue for a new request. An issuer's queues change here: when it is first seen, when its
    /// group or level has changed, or when a shared queue is split.
    #[inline(always)]
    pub(super) fn queue_for(&mut self, bio: &Bio, index: u32) -> u32 {
        let is_sync = bio.is_sync();
        let context = self.contexts.at(index);
        let is_known = context.is_alive & (context.group == bio.group.0) & (context.priority == bio.priority);
        let queue = context.queue(is_sync);
        // The issuer was seen in this group before, so the group is online.
        let splits = self.queues.at(queue).has(Marks::SPLIT_COOP) && !context.is_stably_merged;
        if is_known && queue != NIL && !splits {
            return queue;
        }
        self.queue_after_changes(index, bio)
    }

    /// The queue for a new request of an issuer that may have changed.
    #[inline(always)]
    fn queue_after_changes(&mut self, index: u32, bio: &Bio) -> u32 {
        let is_sync = bio.is_sync();
        self.refresh_context(index, bio);
        let queue = self.contexts.at(index).queue(is_sync);
        if queue == NIL {
            let queue = self.get_queue(index, is_sync);
            let may_merge = is_sync && self.profile.merging.has_stable && queue != SPARE_QUEUE;
            let merges = may_merge && self.plan_stable_merge(index, queue);
            return if merges { self.complete_merge(index, queue) } else { queue };
        }
        let marks = self.queues.at(queue).marks;
        let splits = marks.has(Marks::COOP) && marks.has(Marks::SPLIT_COOP);
        if is_sync && splits && !self.contexts.at(index).is_stably_merged {
            return self.split(index, queue);
        }
        queue
    }

    /// The queue that a bio would go to at present, without creating one.
    pub(super) fn present_queue(&self, bio: &Bio) -> u32 {
        self.contexts.at(self.actuators.record_of(bio)).queue(bio.is_sync())
    }

    /// Detects changes of an issuer since it was last seen.
    #[inline(always)]
    fn refresh_context(&mut self, index: u32, bio: &Bio) {
        let context = self.contexts.at(index);
        let (is_unknown, group_before) = (!context.is_alive && context.requests == 0, context.group);
        let group = self.nearest_online(bio.group.0);
        if is_unknown {
            // Not seen before, or the id belonged to an issuer that has exited.
            self.leave_queues(index);
            self.learn_issuer(index, bio.priority, group);
            return;
        }
        if group_before != group {
            self.move_issuer(index, group);
        }
        if self.contexts.at(index).priority != bio.priority {
            self.contexts.at_mut(index).priority = bio.priority;
            self.change_priority(index);
        }
    }

    /// Moves an issuer with all its queues, whichever request revealed the change.
    #[inline(always)]
    fn move_issuer(&mut self, index: u32, group: u32) {
        for record in self.actuators.records(self.actuators.issuer_of(index)) {
            let context = self.contexts.at_mut(record);
            if record == index || (context.is_alive && context.group != group) {
                context.group = group;
                self.change_group(record, group);
            }
        }
    }

    #[inline(never)]
    fn learn_issuer(&mut self, index: u32, priority: Priority, group: u32) {
        *self.contexts.at_mut(index) = Context { is_alive: true, priority, group, ..UNKNOWN_CONTEXT };
    }

    /// Replaces the async queue, and changes the weight of the sync queue.
    #[inline]
    fn change_priority(&mut self, index: u32) {
        let old = self.contexts.at(index).queue(false);
        if old != NIL {
            self.get_queue(index, false);
            self.drop_process(old);
        }
        let sync = self.contexts.at(index).queue(true);
        if sync != NIL && sync != SPARE_QUEUE {
            self.take_over_priority(index, sync);
        }
    }

    #[inline(never)]
    fn take_over_priority(&mut self, index: u32, queue: u32) {
        let (class, level) = class_and_level(self.contexts.at(index).priority);
        let entity = self.schedule.entity_mut(queue);
        (entity.new_class, entity.new_weight, entity.is_prio_changed) = (class, weight_of(level), true);
        let numbers = [u64::from(level), u64::from(weight_of(level))];
        self.log_queue(queue, "new_ioprio {0} new_weight {1}", &numbers);
    }

    /// Finds or creates the issuer's queue of a kind and assigns it to the issuer.
    #[inline(never)]
    pub(super) fn get_queue(&mut self, index: u32, is_sync: bool) -> u32 {
        let Context { priority, group, .. } = *self.contexts.at(index);
        let (class, level) = class_and_level(priority);
        let place = Contexts::async_place(self.groups.len(), self.actuators.of_record(index), group, class, level);
        if !is_sync {
            let known = self.contexts.async_queue(place);
            if known != NIL {
                self.use_queue(index, false, known);
                return known;
            }
        }
        let queue = self.new_queue(index, is_sync);
        if queue == SPARE_QUEUE {
            self.use_queue(index, is_sync, queue);
            return queue;
        }
        self.use_queue(index, is_sync, queue);
        if !is_sync {
            self.contexts.set_async_queue(place, queue);
            self.queues.at_mut(queue).marks.set(Marks::PINNED);
        }
        queue
    }

    fn use_queue(&mut self, index: u32, is_sync: bool, queue: u32) {
        self.contexts.at_mut(index).set_queue(is_sync, queue);
        let state = self.queues.at_mut(queue);
        state.users.join(1);
    }

    /// Creates a queue that no issuer uses yet; the result is the spare queue if all records are in
    /// use.
    fn new_queue(&mut self, index: u32, is_sync: bool) -> u32 {
        let Some(queue) = self.queues.take() else {
            self.log("using oom bfqq", &[]);
            return SPARE_QUEUE;
        };
        let Context { priority, group, .. } = *self.contexts.at(index);
        let (class, level) = class_and_level(priority);
        let (now, long_ago) = (self.clock.ticks, self.clock.long_ago());
        let mut marks = Marks::USED.with(Marks::IO_BOUND);
        if is_sync {
            marks = marks.with(Marks::SYNC).with(Marks::JUST_CREATED);
            marks.put(Marks::SHORT_THINK_TIME, !matches!(class, Class::Idle));
        }
        let max_budget = (u64::from(self.budgets.present_most()) * 2 / 3).min(u64::from(u32::MAX));
        let actuator = u8::try_from(self.actuators.of_record(index)).unwrap_or(0);
        let fresh = self.queues.at_mut(queue);
        fresh.marks = marks;
        fresh.actuator = actuator;
        (fresh.level, fresh.users) = (level, Users::none(index));
        fresh.max_budget = u32::try_from(max_budget).unwrap_or(u32::MAX);
        // One ns in the future, so that the first think time wraps to the maximum (quirk Q8 of the
        // specification).
        fresh.think = ThinkTime::since(self.clock.ns.wrapping_add(1));
        fresh.bound = Boundness::since(self.clock.ns);
        (fresh.created_ticks, fresh.pace) = (now, Pace::since(now));
        (fresh.raising.since_ticks, fresh.inject.decreased_ticks) = (now, now);
        (fresh.budget_timeout_ticks, fresh.split_ticks) = (long_ago, long_ago);
        fresh.raising.before_soft_real_time_ticks = long_ago;
        let weight = weight_of(level);
        *self.schedule.entity_mut(queue) = Entity {
            weight,
            original_weight: weight,
            new_weight: weight,
            parent: group,
            class,
            new_class: class,
            ..NEW_ENTITY
        };
        self.log_queue(queue, "allocated", &[]);
        queue
    }

    // ---- release ----

    /// An issuer stops using a queue, and its claims on merge targets end with it.
    #[inline]
    pub(super) fn drop_process(&mut self, queue: u32) {
        let mut target = self.queues.at(queue).users.merges_into();
        self.drop_one_process(queue);
        for _ in 0..self.queues.len() {
            if target == NIL {
                return;
            }
            let next = self.queues.at(target).users.merges_into();
            self.drop_one_process(target);
            target = next;
        }
    }

    #[inline(never)]
    pub(super) fn drop_one_process(&mut self, queue: u32) {
        let state = self.queues.at_mut(queue);
        if !state.users.leave() {
            self.count_violation();
            return;
        }
        let is_busy_and_empty = state.has(Marks::BUSY) && state.is_empty();
        if is_busy_and_empty && queue != self.in_service {
            self.leave_busy(queue, false);
        }
        self.forget_last_created(queue);
        self.release_if_unused(queue);
    }

    pub(super) fn forget_last_created(&mut self, queue: u32) {
        let group = self.groups.at_mut(self.schedule.entity(queue).parent);
        if group.last_created == queue {
            group.last_created = NIL;
        }
    }

    /// Frees a queue's record if no issuer uses it, it has no requests queued or in flight, and it
    /// is on no tree and in no count. References to it from other records are cleared. Records are
    /// freed nowhere else.
    #[inline(never)]
    pub(super) fn release_if_unused(&mut self, queue: u32) {
        let (state, entity) = (self.queues.at(queue), self.schedule.entity(queue));
        let is_held = state.users.count() > 0
            || state.users.candidates() > 0
            || state.has(Marks::PINNED)
            || state.has(Marks::BUSY)
            || state.has(Marks::PENDING)
            || state.counted_weight != 0
            || entity.allocated > 0
            || entity.is_on_tree
            || queue == self.in_service;
        if is_held || !state.has(Marks::USED) || queue == SPARE_QUEUE {
            return;
        }
        let had_owner = state.users.has_owner();
        self.burst.forget(queue, had_owner);
        let is_forgotten = self.queues.forget_wakers(queue);
        self.expect(is_forgotten);
        self.forget_last_created(queue);
        self.forget_position(queue);
        self.log_queue(queue, "put_queue: {0}", &[u64::from(queue)]);
        self.queues.give_back(queue);
    }

    /// The request is no longer inserted, so its queue may be freed as well.
    #[inline(never)]
    pub(super) fn unbind(&mut self, slot: u32) {
        let (queue, context) = self.slots.at_mut(slot).clear_insertion();
        if queue == NIL {
            return;
        }
        self.count_allocated(queue, 1_u32.wrapping_neg());
        if self.queues.at(queue).users.count() == 0 {
            self.release_if_unused(queue);
        }
        self.count_request_end(context);
    }

    /// Counts the end of one of an issuer's requests.
    #[inline(always)]
    pub(super) fn count_request_end(&mut self, context: u32) {
        let issuer = self.contexts.at_mut(context);
        issuer.requests = issuer.requests.saturating_sub(1);
        if issuer.requests == 0 && !issuer.is_alive {
            // The issuer sent requests after its exit.
            self.leave_queues(context);
        }
    }

    #[inline(never)]
    fn leave_queues(&mut self, index: u32) {
        self.drop_stable_candidate(index);
        for is_sync in [false, true] {
            let context = self.contexts.at_mut(index);
            let queue = context.queue(is_sync);
            context.set_queue(is_sync, NIL);
            if queue != NIL {
                self.drop_process(queue);
            }
        }
        self.contexts.at_mut(index).saved = None;
    }

    /// Drops the issuer's sync queue only.
    #[inline(never)]
    pub(super) fn leave_sync_queue(&mut self, index: u32) {
        self.leave_sync_queue_here(index);
    }

    /// Inlined into its callers.
    #[inline(always)]
    pub(super) fn leave_sync_queue_here(&mut self, index: u32) {
        let context = self.contexts.at_mut(index);
        let queue = context.queue(true);
        context.set_queue(true, NIL);
        if queue != NIL {
            self.drop_process(queue);
        }
    }

    #[inline(never)]
    pub(super) fn leave_async_queue(&mut self, index: u32) {
        let context = self.contexts.at_mut(index);
        let queue = context.queue(false);
        context.set_queue(false, NIL);
        if queue != NIL {
            self.drop_process(queue);
        }
    }

    pub(super) fn set_sync_queue(&mut self, index: u32, queue: u32) {
        self.contexts.at_mut(index).set_queue(true, queue);
    }

    /// An issuer exited: its turn ends, and the device is no longer idled for it.
    #[inline]
    pub(super) fn context_gone(&mut self, context: ContextId) -> Wake {
        let issuer = self.actuators.issuer(context);
        if context.0 != issuer {
            return Wake::No;
        }
        let mut wake = Wake::No;
        for record in self.actuators.records(issuer) {
            wake = wake.and(self.record_gone(record));
        }
        wake
    }

    #[inline(always)]
    fn record_gone(&mut self, index: u32) -> Wake {
        self.contexts.at_mut(index).is_alive = false;
        let mut wake = Wake::No;
        for is_sync in [false, true] {
            let queue = self.contexts.at(index).queue(is_sync);
            if queue != NIL && queue == self.in_service {
                self.leave_service(queue, super::budget::TurnEnd::BudgetTimeout);
                wake = self.schedule_dispatch();
            }
        }
        self.leave_queues(index);
        self.contexts.at_mut(index).is_stably_merged = false;
        wake
    }
}
