//! Issuers and their queues. A queue is looked up when a request arrives; it is reference-counted
//! and freed with the last reference.

use super::Cfq;
use super::expire::Rest;
use super::references::References;
use super::state::{Context, FREE_QUEUE, Held, Marks, Queue, ThinkTime, UNKNOWN_CONTEXT};
use crate::interface::Wake;
use crate::request::Bio;
use crate::structures::{Array, NIL, NoMemory};
use hoistway_block::{Class, ContextId, GroupId, Priority};

/// The queue for requests for which no other record is free. It is never freed.
pub const SPARE_QUEUE: u32 = 0;
/// Async queues: real-time and best-effort by level, and one of the idle class.
pub const ASYNC_QUEUES: u32 = 17;
const IDLE_ASYNC: u32 = 16;
/// The level of all queues in the idle class.
const IDLE_LEVEL: u8 = 7;

/// The class and level of an I/O priority; a bio without one is treated as that of a process of
/// nice 0.
#[inline]
pub const fn class_and_level(priority: Priority) -> (Class, u8) {
    match priority.class() {
        Class::Idle => (Class::Idle, IDLE_LEVEL),
        class if priority.0 >> 13 == 0 => (class, super::state::DEFAULT_LEVEL),
        class => (class, priority.level()),
    }
}

/// The records of issuers, and the async queues that they share.
///
/// Invariant: every queue in either table holds a reference for it.
#[derive(Debug)]
pub struct Contexts {
    /// By issuer; one more, for contexts out of range.
    records: Array<Context>,
    /// By group, class and level; NIL = none.
    async_queues: Array<u32>,
}

impl Contexts {
    #[inline(always)]
    pub fn try_new(records: u32, async_queues: u32) -> Result<Self, NoMemory> {
        let records = Array::try_new(records, UNKNOWN_CONTEXT)?;
        Ok(Self { records, async_queues: Array::try_new(async_queues, NIL)? })
    }

    #[inline]
    pub fn len(&self) -> u32 {
        self.records.len()
    }

    #[inline]
    pub fn at(&self, record: u32) -> &Context {
        self.records.at(record)
    }

    #[inline]
    pub fn at_mut(&mut self, record: u32) -> &mut Context {
        self.records.at_mut(record)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Context> {
        self.records.iter()
    }

    /// Issuers seen in this group are seen in a new one when they come again.
    pub fn forget_group(&mut self, group: u32) {
        for context in self.records.iter_mut().filter(|context| context.group == group) {
            context.group = NIL;
        }
    }

    /// The async queue at a place, or NIL.
    #[inline]
    fn async_queue(&self, place: u32) -> u32 {
        *self.async_queues.at(place)
    }

    fn set_async_queue(&mut self, place: u32, queue: u32) {
        *self.async_queues.at_mut(place) = queue;
    }

    fn take_async_queue(&mut self, place: u32) -> u32 {
        core::mem::replace(self.async_queues.at_mut(place), NIL)
    }

    /// All async queues, NIL where there is none.
    pub fn all_async_queues(&self) -> impl Iterator<Item = u32> {
        self.async_queues.iter().copied()
    }
}

impl Cfq {
    /// The record of a context: contexts out of range share the last one.
    #[inline]
    pub(super) fn context_index(&self, context: ContextId) -> u32 {
        context.0.min(self.contexts.len().wrapping_sub(1))
    }

    /// The queue for a new request if nothing has changed about its issuer. If it is NIL, the
    /// caller must call [`Cfq::queue_for`].
    #[inline]
    pub(super) fn known_queue(&self, bio: &Bio) -> u32 {
        let context = self.contexts.at(self.context_index(bio.context));
        let is_as_before =
            context.is_alive & (context.priority == bio.priority) & (context.group == self.sync_group(bio).0);
        if !(is_as_before & bio.is_sync()) {
            return NIL;
        }
        match self.queues.get(context.queue) {
            Some(queue) if !queue.references.is_to_merge() && !queue.has(Marks::SPLIT_COOP) => context.queue,
            _ => NIL,
        }
    }

    /// The queue for a new request. An issuer's queue changes only here: when it is first seen,
    /// when its group has changed, when queues were merged and when they are split.
    #[inline(never)]
    pub(super) fn queue_for(&mut self, bio: &Bio) -> u32 {
        let index = self.context_index(bio.context);
        self.refresh_context(index, bio);
        if !bio.is_sync() {
            return self.async_queue(bio);
        }
        let mut queue = self.contexts.at(index).queue;
        if queue != NIL {
            let marks = self.queues.at(queue).marks;
            if marks.has(Marks::COOP) && marks.has(Marks::SPLIT_COOP) {
                queue = self.split(index, queue);
            }
        }
        if queue == NIL {
            return self.new_sync_queue(index, bio);
        }
        if !self.queues.at(queue).references.is_to_merge() {
            return queue;
        }
        self.merge_over(index, queue)
    }

    /// The queue that a bio would go to at present, without creating one.
    pub(super) fn present_queue(&self, bio: &Bio) -> u32 {
        if bio.is_sync() {
            return self.contexts.at(self.context_index(bio.context)).queue;
        }
        let (class, level) = class_and_level(bio.priority);
        self.contexts.async_queue(self.async_index(self.async_group(bio), class, level))
    }

    /// The group of the issuer's sync queue.
    #[inline]
    fn sync_group(&self, bio: &Bio) -> GroupId {
        if self.separate.splits().sync { bio.group } else { GroupId::ROOT }
    }

    #[inline]
    fn async_group(&self, bio: &Bio) -> GroupId {
        if self.separate.splits().asynchronous { bio.group } else { GroupId::ROOT }
    }

    /// The group of the present or future queue of a bio.
    #[inline]
    pub(super) fn group_of(&self, bio: &Bio) -> GroupId {
        if bio.is_sync() { self.sync_group(bio) } else { self.async_group(bio) }
    }

    /// Detects changes of an issuer since it was last seen.
    fn refresh_context(&mut self, index: u32, bio: &Bio) {
        let here = self.sync_group(bio).0;
        let Context { is_alive, inserted, queue, priority, group, .. } = *self.contexts.at(index);
        if !is_alive && inserted == 0 {
            // Not seen before, or the id belonged to an issuer that has exited.
            self.drop_queue(index);
            let think = ThinkTime::since(self.clock.now());
            let fresh = Context { is_alive: true, priority: bio.priority, group: here, think, ..UNKNOWN_CONTEXT };
            *self.contexts.at_mut(index) = fresh;
            return;
        }
        let context = self.contexts.at_mut(index);
        context.priority = bio.priority;
        context.group = here;
        if queue == NIL {
            return;
        }
        if priority != bio.priority {
            self.queues.at_mut(queue).marks.set(Marks::PRIO_CHANGED);
        }
        if group != here && self.profile.has_groups() {
            self.log_queue(queue, "changed cgroup", &[]);
            self.drop_queue(index);
        }
    }

    /// The issuer leaves its sync queue.
    pub(super) fn drop_queue(&mut self, index: u32) {
        let queue = core::mem::replace(&mut self.contexts.at_mut(index).queue, NIL);
        if queue != NIL {
            self.drop_mergers(queue);
            self.drop_reference(queue);
        }
    }

    fn new_sync_queue(&mut self, index: u32, bio: &Bio) -> u32 {
        let queue = self.new_queue(index, self.sync_group(bio), Marks::SYNC);
        if queue != SPARE_QUEUE {
            self.contexts.at_mut(index).queue = queue;
        }
        queue
    }

    fn async_index(&self, group: GroupId, class: Class, level: u8) -> u32 {
        let kind = match class {
            Class::RealTime => u32::from(level),
            Class::BestEffort => 8 + u32::from(level),
            Class::Idle => IDLE_ASYNC,
        };
        group.0.wrapping_mul(ASYNC_QUEUES).wrapping_add(kind)
    }

    /// The shared async queue of a class and level, created on first use and then kept.
    fn async_queue(&mut self, bio: &Bio) -> u32 {
        let (class, level) = class_and_level(bio.priority);
        let group = self.async_group(bio);
        let place = self.async_index(group, class, level);
        let known = self.contexts.async_queue(place);
        if known != NIL {
            return known;
        }
        let queue = self.new_queue(self.context_index(bio.context), group, Marks::NONE);
        if queue != SPARE_QUEUE {
            self.contexts.set_async_queue(place, queue);
        }
        queue
    }

    /// A queue with one reference, for the caller; the spare one if all records are in use.
    fn new_queue(&mut self, index: u32, group: GroupId, marks: Marks) -> u32 {
        let Some((queue, state)) = self.queues.take() else { return SPARE_QUEUE };
        let marks = marks.with(Marks::USED).with(Marks::PRIO_CHANGED);
        *state = Queue { marks, group: group.0, issuer: index, references: References::ONE, ..FREE_QUEUE };
        self.refresh_priority(queue, self.contexts.at(index).priority);
        let state = self.queues.at_mut(queue);
        if state.is_sync() && !state.is_idle_class() {
            state.marks.set(Marks::IDLE_WINDOW);
        }
        self.log_queue(queue, "alloced", &[]);
        queue
    }

    /// Recomputes class and level if they may have changed.
    #[inline]
    pub(super) fn refresh_priority(&mut self, queue: u32, priority: Priority) {
        let state = self.queues.at_mut(queue);
        if !state.has(Marks::PRIO_CHANGED) || queue == SPARE_QUEUE {
            return;
        }
        let (class, level) = class_and_level(priority);
        (state.class, state.level, state.original_level) = (class, level, level);
        state.marks.clear(Marks::PRIO_CHANGED);
        if class == Class::Idle {
            state.marks.clear(Marks::IDLE_WINDOW);
        }
    }

    /// Drops a reference to a queue. With the last one the record is freed; if the queue is active
    /// it is deferred instead, and the caller must call [`Cfq::free_deferred`] before
    /// the event ends.
    pub(super) fn drop_reference(&mut self, queue: u32) {
        let state = self.queues.at_mut(queue);
        if state.references.total() == 0 || queue == SPARE_QUEUE {
            self.count_violation();
            return;
        }
        state.references.drop_one();
        if state.references.total() > 0 {
            return;
        }
        let group = state.group;
        if self.active_of(group) == queue {
            self.queues.defer(queue);
        } else {
            self.free_queue(queue);
        }
    }

    pub(super) fn free_queue(&mut self, queue: u32) {
        if self.queues.at(queue).has(Marks::ON_RR) {
            self.count_violation();
            return;
        }
        self.forget_by_sector(queue);
        self.log_queue(queue, "put_queue", &[]);
        self.queues.give_back(queue);
    }

    /// The request is no longer inserted, so its queue may be freed as well.
    #[inline]
    pub(super) fn unbind(&mut self, slot: u32) {
        let entry = self.slots.at_mut(slot);
        entry.held = Held::Nowhere;
        let queue = core::mem::replace(&mut entry.queue, NIL);
        let context = core::mem::replace(&mut entry.context, NIL);
        if queue == NIL {
            return;
        }
        let state = self.queues.at_mut(queue);
        state.references.end_request();
        if queue == SPARE_QUEUE {
            state.references.drop_plain();
        } else if state.process_references() > 1 {
            // Same as [`Cfq::drop_reference`] while an issuer still references the queue, the case
            // of nearly every request.
            state.references.drop_plain();
        } else {
            self.drop_reference(queue);
        }
        let context_state = self.contexts.at_mut(context);
        context_state.inserted = context_state.inserted.saturating_sub(1);
        if !context_state.is_alive && context_state.inserted == 0 {
            // The issuer sent requests after its exit.
            self.drop_queue(context);
        }
    }

    /// An issuer exited: the device is no longer idled for it.
    pub(super) fn context_gone(&mut self, context: ContextId) -> Wake {
        let index = self.context_index(context);
        if context.0 != index {
            return Wake::No;
        }
        self.contexts.at_mut(index).is_alive = false;
        let queue = self.contexts.at(index).queue;
        if queue != NIL && self.engine.active == queue {
            self.expire(queue, Rest::Forgotten);
            self.log("schedule dispatch", &[]);
        }
        self.drop_queue(index);
        self.free_deferred();
        Wake::All
    }

    /// A group's id is about to be free for reuse: all queues and requests that still refer to it
    /// are moved to the root.
    pub(super) fn forget_group(&mut self, group: u32) {
        if self.engine.active != NIL && self.queues.at(self.engine.active).group == group {
            self.expire(self.engine.active, Rest::Forgotten);
        }
        if self.profile.has_async_per_group() {
            for kind in 0..ASYNC_QUEUES {
                let place = group.wrapping_mul(ASYNC_QUEUES).wrapping_add(kind);
                let queue = self.contexts.take_async_queue(place);
                if queue != NIL {
                    self.drop_reference(queue);
                }
            }
            self.free_deferred();
        }
        for queue in 0..self.queues.len() {
            self.move_queue_to_root(queue, group);
        }
        self.contexts.forget_group(group);
        for slot in 0..self.slots.len() {
            let entry = self.slots.at_mut(slot);
            if entry.held != Held::Nowhere && entry.group == group {
                self.move_request_to_root(slot);
            }
        }
        if self.serving.group == group {
            self.serving.group = NIL;
        }
    }

    /// Moves a queue to the root because its group is removed. A group is removed only after its
    /// last request has ended, but the queue can still hold requests of another group's issuer.
    /// With `group_isolation` 0, queues of two groups can both be in the root and be merged there;
    /// the merged queue then returns to the group of one of them.
    fn move_queue_to_root(&mut self, queue: u32, group: u32) {
        let state = self.queues.at_mut(queue);
        if state.origin == group {
            state.origin = NIL;
        }
        if state.group != group || !state.has(Marks::USED) {
            return;
        }
        if state.has(Marks::ON_RR) {
            self.take_to_root(queue);
        } else {
            state.group = GroupId::ROOT.0;
        }
    }

    fn move_request_to_root(&mut self, slot: u32) {
        let entry = self.slots.at_mut(slot);
        let group = core::mem::replace(&mut entry.group, GroupId::ROOT.0);
        let entry = *entry;
        let is_queued = entry.held == Held::Queued;
        let (dispatched, queued) = (u32::from(!is_queued && entry.queue != NIL), u64::from(is_queued));
        let from = self.groups.at_mut(group);
        from.dispatched = from.dispatched.saturating_sub(dispatched);
        from.account.queued.uncount(entry.kind, entry.is_sync, queued);
        let root = self.groups.at_mut(GroupId::ROOT.0);
        root.dispatched = root.dispatched.wrapping_add(dispatched);
        root.account.queued.count(entry.kind, entry.is_sync, queued);
    }
}
