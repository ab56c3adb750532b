//! Checks every invariant of CFQ: those of docs/specifications/cfq.md, section 17.4, and those of
//! the lists and trees that the state is stored in.

use super::Cfq;
use super::state::{Held, Marks, TREES_PER_GROUP};
use crate::interface::Violation;
use crate::request::Requests;
use crate::structures::NIL;
use alloc::vec;
use alloc::vec::Vec;

/// References to the record of a queue.
#[derive(Clone, Default)]
struct References {
    requests: u32,
    issuers: u32,
    pins: u32,
    /// Whether another queue is scheduled to be merged into it.
    is_merge_target: bool,
}

/// The sums over the requests of a group.
#[derive(Clone, Default)]
struct GroupSums {
    dispatched: u32,
    queued: u64,
}

/// Reports a rule that does not hold.
fn must(holds: bool, what: &'static str, at: u32) -> Result<(), Violation> {
    if holds { Ok(()) } else { Err(Violation { what, at }) }
}

impl Cfq {
    pub(super) fn check_all(&self, requests: &Requests) -> Result<(), Violation> {
        self.check_instances()?;
        for queue in 0..self.queues.len() {
            if !self.is_unused(queue) {
                self.check_queue(requests, queue)?;
            }
        }
        for (group, sums) in (0..self.groups.len()).zip(self.group_sums()) {
            self.check_group(group, &sums)?;
        }
        self.check_sums()?;
        self.check_references()?;
        self.check_active()
    }

    /// Whether a record is unused, empty and on no list, which is all that the rules require of it.
    /// Most records are in this state.
    fn is_unused(&self, index: u32) -> bool {
        let queue = self.queues.at(index);
        let is_empty = queue.is_empty() && queue.pending.adds_up();
        let refers_to_nothing = (queue.tree == NIL) & (queue.references.total() == 0) & (queue.favoured == 0);
        is_empty
            && refers_to_nothing
            && !queue.has(Marks::USED)
            && !queue.has(Marks::ON_RR)
            && !self.trees.holds(index)
            && !self.sectors.holds(index)
            && !self.sectors.is_stale(index)
    }

    fn check_queue(&self, requests: &Requests, index: u32) -> Result<(), Violation> {
        let queue = self.queues.at(index);
        let is_busy = queue.has(Marks::ON_RR);
        must(is_busy == (queue.tree != NIL), "a queue is in a service tree exactly while it is busy", index)?;
        must(self.trees.holds(index) == is_busy, "a busy queue is linked", index)?;
        must(queue.pending.adds_up(), "both orders have the counted requests, and one of them is next", index)?;
        must(is_busy || queue.is_empty(), "a queue with requests is busy", index)?;
        must(
            !is_busy || !queue.is_empty() || index == self.engine.active,
            "only the active queue is busy and empty",
            index,
        )?;
        must(
            queue.has(Marks::USED) || (!is_busy && queue.references.total() == 0),
            "a free record is neither busy nor \
            referenced",
            index,
        )?;
        let is_by_sector = self.sectors.holds(index);
        let is_known = !self.sectors.is_stale(index);
        must(!is_by_sector || !is_known || !queue.is_empty(), "a queue by sector has a request", index)?;
        must(queue.has(Marks::USED) || (!is_by_sector && is_known), "a free record is not by sector", index)?;
        let mut favoured = 0_u32;
        for slot in self.order.slots(queue).take(self.slots.len() as usize) {
            let entry = self.slots.at(slot);
            must(entry.held == Held::Queued && entry.queue == index, "a sorted request knows its queue", slot)?;
            let key = self.order.key(slot).unwrap_or(0);
            must(key == requests.at(entry.id).first_sector(), "a request is sorted by its first sector", slot)?;
            favoured = favoured.wrapping_add(u32::from(entry.is_favoured));
        }
        must(favoured == queue.favoured, "favoured requests are counted", index)?;
        let next = self.slots.at(queue.pending.next());
        must(queue.pending.next() == NIL || next.queue == index, "the next request belongs to the queue", index)?;
        must(!is_busy || self.tree_group(queue.tree) == queue.group, "a queue is in a tree of its group", index)
    }

    fn tree_group(&self, tree: u32) -> u32 {
        tree / TREES_PER_GROUP
    }

    /// One pass over the requests, for all groups.
    fn group_sums(&self) -> Vec<GroupSums> {
        let mut sums = vec![GroupSums::default(); self.groups.len() as usize];
        for slot in self.slots.iter() {
            if let Some(sums) = sums.get_mut(slot.group as usize) {
                sums.dispatched += u32::from(is_in_device(slot.held, slot.queue));
                sums.queued += u64::from(slot.held == Held::Queued);
            }
        }
        sums
    }

    fn check_group(&self, index: u32, sums: &GroupSums) -> Result<(), Violation> {
        let group = self.groups.at(index);
        let first = index.wrapping_mul(TREES_PER_GROUP);
        let linked: u32 = (0..TREES_PER_GROUP).map(|kind| self.trees.len(first.wrapping_add(kind))).sum();
        must(linked == group.busy_queues, "a group counts its busy queues", index)?;
        let is_in_order = self.group_order.holds(index);
        must(is_in_order == (linked > 0), "a group is in the order exactly while it has busy queues", index)?;
        let key = self.group_order.key(index);
        must(key.is_none_or(|key| key == group.vdisktime), "the key of a group in the order is its vdisktime", index)?;
        must(sums.dispatched == group.dispatched, "a group counts its requests in the device", index)?;
        must(sums.queued == group.account.queued.total(), "a group counts its queued requests", index)
    }

    fn check_sums(&self) -> Result<(), Violation> {
        let busy: u32 = self.groups.iter().map(|group| group.busy_queues).sum();
        let parked = || self.parked();
        let busy_in_all: u32 = parked().fold(self.engine.busy_queues, |sum, instance| sum + instance.busy_queues);
        must(busy == busy_in_all, "busy queues of groups add up", busy)?;
        let is_busy_sync = |queue: &&super::state::Queue| queue.has(Marks::ON_RR) && queue.is_sync();
        let sync = self.queues.iter().filter(is_busy_sync).count();
        must(
            u32::try_from(sync) == Ok(self.load.sync_queues()),
            "busy sync queues are counted",
            self.load.sync_queues(),
        )?;
        let queued: u32 = self.queues.iter().map(|queue| queue.pending.total()).sum();
        must(queued == self.load.requests(), "queued requests add up", queued)?;
        let dispatched: u32 = self.queues.iter().map(|queue| queue.dispatched).sum();
        let in_flight = parked().fold(self.engine.in_flight, |sum, instance| sum_of(sum, instance.in_flight));
        must(dispatched == in_flight.iter().sum::<u32>(), "requests in the device add up", dispatched)?;
        let in_driver = self.slots.iter().filter(|slot| slot.is_in_driver).count();
        must(
            u32::try_from(in_driver) == Ok(self.device.in_driver()),
            "requests of the driver are counted",
            self.device.in_driver(),
        )?;
        let in_order = (0..self.groups.len()).filter(|group| self.group_order.holds(*group));
        let weight: u64 = in_order.map(|group| u64::from(self.groups.at(group).weight)).sum();
        must(weight == self.group_order.total_weight(), "weights of groups in the order add up", 0)
    }

    /// Counts the references to each queue, in one pass over all referrers.
    fn count_references(&self) -> Vec<References> {
        let mut references = vec![References::default(); self.queues.len() as usize];
        for slot in self.slots.iter() {
            if let Some(references) = references.get_mut(slot.queue as usize) {
                references.requests += 1;
            }
        }
        for context in self.contexts.iter() {
            if let Some(references) = references.get_mut(context.queue as usize) {
                references.issuers += 1;
            }
        }
        for queue in self.contexts.all_async_queues() {
            if let Some(references) = references.get_mut(queue as usize) {
                references.pins += 1;
            }
        }
        for queue in self.queues.iter() {
            if let Some(references) = references.get_mut(queue.references.merges_into() as usize) {
                references.is_merge_target = true;
            }
        }
        references
    }

    /// Each record's reference count equals the number of its references; the count of a queue that
    /// others are scheduled to be merged into may be higher.
    fn check_references(&self) -> Result<(), Violation> {
        for (index, references) in (0..).zip(self.count_references()).skip(1) {
            let queue = self.queues.at(index);
            if !queue.has(Marks::USED) {
                continue;
            }
            must(references.requests == queue.references.requests(), "a queue counts its requests", index)?;
            let known = references.requests.saturating_add(references.issuers).saturating_add(references.pins);
            must(queue.references.total() >= known, "every referrer of a queue holds a reference", index)?;
            must(
                queue.references.total() == known || references.is_merge_target,
                "every reference to a queue has a referrer",
                index,
            )?;
            let target = queue.references.merges_into();
            must(target == NIL || self.queues.at(target).has(Marks::USED), "the target of a merge is in use", index)?;
        }
        Ok(())
    }

    fn check_active(&self) -> Result<(), Violation> {
        must(self.queues.deferred() == NIL, "no queue waits to be freed after a call", self.queues.deferred())?;
        let waiting = (0..self.queues.len()).filter(|queue| self.queues.at(*queue).has(Marks::WAIT_REQUEST));
        for queue in waiting {
            let active = self.active_of(self.queues.at(queue).group);
            must(queue == active, "only the active queue is waited for", queue)?;
        }
        let is_waited_for = self.engine.active != NIL && self.queues.at(self.engine.active).has(Marks::WAIT_REQUEST);
        must(
            self.engine.timer_at.is_none() || is_waited_for,
            "the timer runs for a queue that is waited for",
            self.engine.active,
        )?;
        let is_busy = self.engine.active == NIL || self.queues.at(self.engine.active).has(Marks::ON_RR);
        must(is_busy || self.profile.has_one_level, "the active queue is busy", self.engine.active)
    }
}

fn sum_of(one: [u32; 2], other: [u32; 2]) -> [u32; 2] {
    let ([a, b], [c, d]) = (one, other);
    [a.wrapping_add(c), b.wrapping_add(d)]
}

/// Dispatched and not completed, or given back by the driver and about to be dispatched again.
fn is_in_device(held: Held, queue: u32) -> bool {
    matches!(held, Held::Round | Held::Dispatched) || (held == Held::Head && queue != NIL)
}
