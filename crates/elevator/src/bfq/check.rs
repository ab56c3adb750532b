//! Checks every invariant of BFQ: those of docs/specifications/bfq.md, section 6.1, and those of
//! the lists, trees and counts that the state is stored in.

use super::Bfq;
use super::clock::NEVER;
use super::contexts::SPARE_QUEUE;
use super::schedule::tree_of;
use super::state::{CLASSES, Held, Marks, Set, Slot};
use crate::interface::Violation;
use crate::request::Requests;
use crate::structures::NIL;
use alloc::vec;
use alloc::vec::Vec;
use hoistway_block::Class;

/// Reports a rule that does not hold.
fn must(holds: bool, what: &'static str, at: u32) -> Result<(), Violation> {
    if holds { Ok(()) } else { Err(Violation { what, at }) }
}

fn count(items: impl Iterator) -> u32 {
    u32::try_from(items.count()).unwrap_or(u32::MAX)
}

/// The sums over a group's entities and requests.
#[derive(Clone, Default)]
struct GroupSums {
    active: u32,
    allocated: u32,
    queued: u64,
    classes: [ClassSums; CLASSES as usize],
}

#[derive(Clone, Default)]
struct ClassSums {
    weight: u64,
    linked: u32,
}

/// How often each kind of reference points to a queue.
#[derive(Clone, Default, PartialEq, Eq)]
struct Counted {
    requests: u32,
    in_device: u32,
    users: u32,
    candidates: u32,
    pins: u32,
}

impl Bfq {
    pub(super) fn check_all(&self, requests: &Requests) -> Result<(), Violation> {
        let counts = self.count_all();
        for (queue, counted) in (0..self.queues.len()).zip(&counts) {
            if self.is_unused(queue, counted) {
                continue;
            }
            self.check_queue(requests, queue)?;
            self.check_users(queue, counted)?;
            self.check_links(queue)?;
        }
        for entity in 0..self.schedule.entities() {
            self.check_entity(entity)?;
        }
        self.check_groups()?;
        self.check_sums()?;
        self.check_service()
    }

    /// Whether a record is unused, empty and on no list, which is all that the rules require of it.
    /// Most records are in this state.
    fn is_unused(&self, index: u32, counted: &Counted) -> bool {
        let (queue, entity) = (self.queues.at(index), self.schedule.entity(index));
        let is_empty = queue.is_empty() && queue.pending.adds_up();
        let (users, waking) = (&queue.users, &queue.waking);
        let refers_to_nothing = (users.merges_into() & users.owner() & waking.waker()) == NIL;
        let counts_nothing = (queue.dispatched | users.count() | users.candidates() | queue.counted_weight) == 0;
        let is_out = (entity.set == Set::None) & !entity.is_on_tree & (entity.allocated == 0);
        is_empty
            && refers_to_nothing
            && counts_nothing
            && is_out
            && *counted == Counted::default()
            && index != self.in_service
            && ![Marks::USED, Marks::BUSY, Marks::PENDING, Marks::PINNED].into_iter().any(|mark| queue.has(mark))
            && waking.woken().is_empty()
            && !self.actuators.is_listed(index)
            && !self.burst.lists(index)
            && !self.positions.holds(index)
            && !self.queues.is_woken(index)
    }

    fn check_queue(&self, requests: &Requests, index: u32) -> Result<(), Violation> {
        let (queue, entity) = (self.queues.at(index), self.schedule.entity(index));
        let is_busy = queue.has(Marks::BUSY);
        must(queue.pending.adds_up(), "both orders have the counted requests, and one of them is next", index)?;
        must(is_busy || queue.is_empty(), "a queue with requests is busy", index)?;
        let is_served = index == self.in_service;
        must(!is_busy || entity.set == Set::Active || is_served, "a busy queue is active or in service", index)?;
        must(is_busy || entity.set != Set::Active, "only busy queues are active", index)?;
        must(!is_served || is_busy, "the queue in service is busy", index)?;
        must(queue.has(Marks::USED) || (!is_busy && !entity.is_on_tree), "a free record is on no tree", index)?;
        let is_pending = is_busy || queue.dispatched > 0;
        must(queue.has(Marks::PENDING) || !is_busy, "a busy queue counts in its group", index)?;
        must(is_pending || !queue.has(Marks::PENDING), "a queue without requests does not count in its group", index)?;
        for slot in self.order.slots(queue).take(self.slots.len() as usize) {
            let entry = self.slots.at(slot);
            must(entry.held == Held::Queued && entry.queue == index, "a sorted request knows its queue", slot)?;
            let extent = requests.attributes(entry.id).extent;
            must(self.first_sector(slot) == extent.first_sector, "a request is sorted by its first sector", slot)?;
            must(entry.sectors == extent.sectors, "a request's length is known", slot)?;
        }
        must(
            queue.pending.next() == NIL || self.slots.at(queue.pending.next()).queue == index,
            "the next request belongs to the queue",
            index,
        )
    }

    /// Counts the references to each queue, in one pass over all referrers.
    fn count_all(&self) -> Vec<Counted> {
        let mut counts = vec![Counted::default(); self.queues.len() as usize];
        let mut count = |queue: u32, change: &dyn Fn(&mut Counted)| {
            if let Some(counted) = counts.get_mut(queue as usize) {
                change(counted);
            }
        };
        for slot in self.slots.iter() {
            count(slot.queue, &|counted| {
                counted.requests += 1;
                counted.in_device += u32::from(slot.held == Held::Dispatched);
            });
        }
        for context in self.contexts.iter() {
            for queue in context.queues {
                // An issuer of a queue that is scheduled for a merge is counted in the target
                // already.
                let mut at = queue;
                for _ in 0..self.queues.len() {
                    count(at, &|counted| counted.users += 1);
                    at = self.queues.at(at).users.merges_into();
                    if at == NIL {
                        break;
                    }
                }
            }
            count(context.stable_candidate, &|counted| counted.candidates += 1);
        }
        for queue in self.contexts.all_async_queues() {
            count(queue, &|counted| counted.pins += 1);
        }
        counts
    }

    fn check_users(&self, index: u32, counted: &Counted) -> Result<(), Violation> {
        let queue = self.queues.at(index);
        must(counted.requests == self.schedule.entity(index).allocated, "a queue counts its requests", index)?;
        must(counted.in_device == queue.dispatched, "a queue counts its requests in the device", index)?;
        must(counted.users == queue.users.count(), "a queue counts its users", index)?;
        must(
            counted.candidates == queue.users.candidates(),
            "a queue counts the queues that are to be merged into it",
            index,
        )?;
        let is_pinned = queue.has(Marks::PINNED) && index != SPARE_QUEUE;
        must(counted.pins == u32::from(is_pinned), "an async queue is its group's", index)?;
        let is_known =
            queue.users.owner() == NIL || self.contexts.at(queue.users.owner()).queue(queue.is_sync()) == index;
        must(is_known || queue.users.count() > 0, "an owner uses its queue", index)?;
        let is_in_use = |other: u32| other == NIL || self.queues.at(other).has(Marks::USED);
        must(
            is_in_use(queue.users.merges_into()) && is_in_use(queue.waking.waker()),
            "a free record has no merge target and no \
            waker in use",
            index,
        )
    }

    fn check_links(&self, index: u32) -> Result<(), Violation> {
        let queue = self.queues.at(index);
        let is_used = queue.has(Marks::USED);
        let is_listed = self.actuators.is_listed(index);
        must(is_listed == (self.schedule.entity(index).set == Set::Active), "active queues are listed", index)?;
        must(is_used || !self.burst.lists(index), "a free record is in no burst", index)?;
        must(is_used || !self.positions.holds(index), "a free record has no position", index)?;
        must(
            self.queues.is_woken(index) == (queue.waking.has_waker()),
            "a queue with a waker is on the waker's list",
            index,
        )?;
        for woken in self.queues.woken_by(index).take(self.queues.len() as usize) {
            must(self.queues.at(woken).waking.waker() == index, "a woken queue knows its waker", woken)?;
        }
        let weight = queue.counted_weight;
        must(
            weight == 0 || !queue.is_raised() || self.schedule.entity(index).is_prio_changed,
            "no raised queue is counted",
            index,
        )
    }

    fn check_entity(&self, index: u32) -> Result<(), Violation> {
        let entity = self.schedule.entity(index);
        let is_linked = self.schedule.is_linked(index);
        if entity.set == Set::None && !entity.is_on_tree && !is_linked {
            return Ok(());
        }
        must(is_linked == (entity.set != Set::None), "an entity is linked while it is in a set", index)?;
        must(entity.set == Set::None || entity.is_on_tree, "an entity in a set is on the tree", index)?;
        let group = self.groups.at(entity.parent);
        let is_served = group.in_service == index;
        must(!entity.is_on_tree || is_linked || is_served, "an entity on the tree is in a set or in service", index)?;
        must(!entity.is_on_tree || group.is_online, "no entity is scheduled in an offline group", index)
    }

    fn check_groups(&self) -> Result<(), Violation> {
        let mut sums = vec![GroupSums::default(); self.groups.len() as usize];
        for entity in (0..self.schedule.entities()).filter(|entity| *entity != self.queues.len()) {
            let state = self.schedule.entity(entity);
            let Some(group) = sums.get_mut(state.parent as usize) else { continue };
            group.active += u32::from(state.set == Set::Active);
            group.allocated += state.allocated;
            let Some(class) = group.classes.get_mut(super::state::class_index(state.class) as usize) else { continue };
            class.weight += if state.is_on_tree { u64::from(state.weight) } else { 0 };
            class.linked += u32::from(self.schedule.is_linked(entity));
        }
        for slot in self.slots.iter().filter(|slot| matches!(slot.held, Held::Queued | Held::Direct)) {
            if let Some(group) = sums.get_mut(slot.group as usize) {
                group.queued += 1;
            }
        }
        for (group, sums) in (0..self.groups.len()).zip(&sums) {
            self.check_group(group, sums)?;
        }
        Ok(())
    }

    fn check_group(&self, index: u32, sums: &GroupSums) -> Result<(), Violation> {
        let group = self.groups.at(index);
        must(sums.active == group.active_entities, "a group counts its active entities", index)?;
        for (class, of_class) in [Class::RealTime, Class::BestEffort, Class::Idle].into_iter().zip(&sums.classes) {
            let tree = self.schedule.tree(tree_of(index, class));
            must(of_class.weight == tree.weight_sum.value(), "weights of a tree add up", index)?;
            let linked = tree.active.len().wrapping_add(tree.idle.len());
            must(of_class.linked == linked, "a tree has its entities", index)?;
        }
        let has_active = group.active_entities > 0;
        must(
            !has_active || group.next_in_service != NIL || !group.is_online,
            "a group with active entities has a \
            next entity",
            index,
        )?;
        let own = |entity: u32| self.schedule.entity(entity).parent == index && self.schedule.entity(entity).is_on_tree;
        must(
            group.next_in_service == NIL || own(group.next_in_service),
            "the next entity belongs to the group",
            index,
        )?;
        let last = group.last_created;
        must(last == NIL || self.queues.at(last).has(Marks::USED), "the last created queue is in use", index)?;
        let entity = self.group_entity(index);
        let is_counted = entity == NIL || sums.allocated == self.schedule.entity(entity).allocated;
        must(is_counted, "a group counts its requests", index)?;
        must(sums.queued == group.account.queued.total(), "queued requests are accounted", index)
    }

    fn check_sums(&self) -> Result<(), Violation> {
        let (mut queued, mut dispatched, mut raised, mut busy) = (0_u32, 0_u32, 0, [0; CLASSES as usize]);
        for (queue, entity) in self.queues.iter().zip(self.schedule.iter()) {
            queued += queue.pending.total();
            dispatched += queue.dispatched;
            if queue.has(Marks::BUSY) {
                raised += u32::from(queue.is_raised());
                if let Some(busy) = busy.get_mut(super::state::class_index(entity.class) as usize) {
                    *busy += 1;
                }
            }
        }
        must(queued == self.busy.requests(), "queued requests add up", queued)?;
        must(dispatched == self.device.in_driver(), "requests in the device add up", dispatched)?;
        self.check_actuators()?;
        must(busy == self.busy.by_class(), "busy queues are counted", busy.iter().sum())?;
        must(raised == self.busy.raised(), "raised busy queues are counted", self.busy.raised())?;
        let pending = self.groups.iter().filter(|group| group.pending_queues > 0);
        must(
            count(pending) == self.weights.pending_groups(),
            "groups with requests are counted",
            self.weights.pending_groups(),
        )?;
        self.check_weights()
    }

    fn check_actuators(&self) -> Result<(), Violation> {
        for actuator in (0..self.actuators.count).filter(|_| !self.actuators.is_one()) {
            let is_its_own =
                |slot: &&Slot| slot.held == Held::Dispatched && self.actuators.of_record(slot.context) == actuator;
            let in_driver = count(self.slots.iter().filter(is_its_own));
            must(in_driver == self.actuators.in_driver(actuator), "requests of an actuator add up", actuator)?;
        }
        for queue in self.queues.iter().filter(|queue| queue.users.has_owner()) {
            let actuator = self.actuators.of_record(queue.users.owner());
            must(
                u32::from(queue.actuator) == actuator,
                "a queue of an issuer belongs to the actuator of its record",
                queue.users.owner(),
            )?;
        }
        Ok(())
    }

    fn check_weights(&self) -> Result<(), Violation> {
        let counted = self.queues.iter().map(|queue| queue.counted_weight).filter(|weight| *weight != 0);
        let mut of_queues: Vec<u32> = counted.collect();
        of_queues.sort_unstable();
        let groups = self.schedule.iter().skip(self.queues.len() as usize);
        let active = groups.filter(|group| group.set == Set::Active);
        let mut of_groups: Vec<u32> = active.map(|group| group.weight).collect();
        of_groups.sort_unstable();
        let counts = self.weights.count_exactly(&of_queues, &of_groups);
        counts.map_err(|(what, at)| Violation { what, at })
    }

    fn check_service(&self) -> Result<(), Violation> {
        for queue in 0..self.queues.len() {
            let waits = self.queues.at(queue).has(Marks::WAIT_REQUEST);
            must(!waits || queue == self.in_service, "only the queue in service is waited for", queue)?;
        }
        let waits = self.queues.at(self.in_service).has(Marks::WAIT_REQUEST);
        must((self.idling.until() != NEVER) == waits, "the timer runs while a queue is waited for", self.in_service)?;
        let mut entity = self.in_service;
        while entity != NIL {
            let group = self.groups.at(self.schedule.entity(entity).parent);
            must(group.in_service == entity, "an entity in service is the one in service of its group", entity)?;
            entity = self.parent_entity(entity);
        }
        let is_idle = self.in_service == NIL;
        let is_any = self.groups.iter().any(|group| group.in_service != NIL);
        must(!is_idle || !is_any, "without a queue in service no group has one in service", 0)
    }
}
