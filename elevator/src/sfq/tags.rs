//! Start tags over a tree of groups: who is next, and who is furthest behind of those that have requests in the device.
//!
//! On each level the waiting child with the smallest tag goes first, and its tag moves on by cost / weight; one that comes back from
//! idleness begins at the group's virtual time. For a strict rule the root's children are remembered while all they have is in the
//! device, and for a while after: their tags stay, and others are seen to be ahead of them.

use crate::group::WEIGHT_DEFAULT;
use crate::interface::{Admission, Configuration, Violation};
use crate::request::{Bio, Requests};
use crate::structures::sorted::{SortedLinks, Tree};
use crate::structures::{Array, Links, List, NIL, NoMemory};
use block::{GroupId, Nanos, Operation};

/// What a request that moves no data costs, in sectors.
const NO_DATA_COST_SECTORS: u64 = 8;
/// Levels of groups at which tags of the scheduler are shared out.
const LEVELS_CHECKED: usize = 8;
/// Virtual time per sector at weight 1 is 2^20.
const UNIT_BITS: u32 = 20;
const ROOT: u32 = GroupId::ROOT.0;

/// Whether the first in order may go.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Behind {
    /// Nobody is so far behind it.
    Nobody,
    /// Somebody who has requests in the device.
    Inside,
    /// Somebody who is expected until then.
    Expected(Nanos),
}

/// A queue of an issuer, of a group for issuers that are busy elsewhere, or a group.
#[derive(Copy, Clone, Debug)]
struct Entity {
    tag: u64,
    inverse_weight: u64,
    parent: u32,
    /// Of a child of the root under a strict rule: requests in the device, and when the last one ended.
    inside: u32,
    done_ns: Nanos,
}

#[derive(Clone, Debug)]
struct Group {
    waiting: Tree,
    vtime: u64,
    /// The latest tag of an issuer that has gone: who comes begins there, so that leaving and coming back gains nothing.
    left_tag: u64,
    weight: u32,
    /// Scheduler tags that it and those below hold, and the weights of its children that hold any.
    held: u32,
    holding_weight: u64,
}

/// Everybody's tags.
#[derive(Debug)]
pub struct Tags {
    is_strict: bool,
    /// Issuers' queues, the groups' queues for strays, the groups.
    entities: Array<Entity>,
    waiting: SortedLinks,
    /// Children of the root that are active, and have nothing waiting.
    busy: Tree,
    busy_links: SortedLinks,
    groups: Array<Group>,
    queues: Array<List>,
    links: Links,
    queue_of: Array<u32>,
    contexts: u32,
    violations: u32,
}

fn inverse(weight: u32) -> u64 {
    (1_u64 << 32).checked_div(u64::from(weight)).unwrap_or(1 << 32)
}

impl Tags {
    pub fn try_new(configuration: &Configuration, is_strict: bool) -> Result<Self, NoMemory> {
        let groups = configuration.groups.max(1);
        let queues = configuration.contexts.saturating_add(groups);
        let entities = queues.saturating_add(groups);
        let idle = Entity { tag: 0, inverse_weight: inverse(WEIGHT_DEFAULT), parent: ROOT, inside: 0, done_ns: 0 };
        let empty =
            Group { waiting: Tree::EMPTY, vtime: 0, left_tag: 0, weight: WEIGHT_DEFAULT, held: 0, holding_weight: 0 };
        Ok(Self {
            is_strict,
            entities: Array::try_new(entities, idle)?,
            waiting: SortedLinks::try_new(entities)?,
            busy: Tree::EMPTY,
            busy_links: SortedLinks::try_new(if is_strict { entities } else { 0 })?,
            groups: Array::try_new(groups, empty)?,
            queues: Array::try_new(queues, List::EMPTY)?,
            links: Links::try_new(configuration.slots)?,
            queue_of: Array::try_new(configuration.slots, NIL)?,
            contexts: configuration.contexts,
            violations: 0,
        })
    }

    pub const fn violations(&self) -> u32 {
        self.violations
    }

    pub fn is_empty(&self) -> bool {
        self.groups.at(ROOT).waiting.is_empty()
    }

    fn must(&mut self, holds: bool) {
        if !holds {
            self.violations = self.violations.saturating_add(1);
        }
    }

    const fn strays_of(&self, group: u32) -> u32 {
        self.contexts.wrapping_add(group)
    }

    fn entity_of(&self, group: u32) -> u32 {
        self.queues.len().wrapping_add(group)
    }

    fn parent_of(&self, group: u32) -> u32 {
        self.entities.at(self.entity_of(group)).parent
    }

    // ---- requests ----

    /// False if the slot is queued already.
    pub fn insert(&mut self, bio: &Bio, slot: u32, is_in_front: bool) -> bool {
        let queue = self.queue_for(bio);
        let list = self.queues.at_mut(queue);
        let was_empty = list.is_empty();
        let is_in =
            if is_in_front { list.push_front(&mut self.links, slot) } else { list.push_back(&mut self.links, slot) };
        if is_in {
            *self.queue_of.at_mut(slot) = queue;
            if was_empty {
                self.activate(queue);
            }
        }
        is_in
    }

    /// The next request, and the child of the root that it counts for.
    pub fn serve(&mut self, requests: &Requests, request_cost: u64) -> Option<(u32, u32)> {
        let queue = self.first_queue()?;
        let list = self.queues.at_mut(queue);
        let slot = list.pop_front(&mut self.links)?;
        let is_waiting = !list.is_empty();
        *self.queue_of.at_mut(slot) = NIL;
        let cost = requests.id_of(slot).map_or(0, |id| cost(requests.attributes(id), request_cost));
        let child = self.charge(queue, cost, is_waiting);
        if self.is_strict {
            let entity = self.entities.at_mut(child);
            entity.inside = entity.inside.wrapping_add(1);
            self.remember(child);
        }
        Some((slot, child))
    }

    /// A request leaves its queue without having been served.
    pub fn take(&mut self, slot: u32) {
        let queue = core::mem::replace(self.queue_of.at_mut(slot), NIL);
        if queue == NIL {
            return;
        }
        let list = self.queues.at_mut(queue);
        let is_out = list.remove(&mut self.links, slot);
        let is_empty = list.is_empty();
        self.must(is_out);
        let mut at = queue;
        let mut is_gone = is_empty;
        for _ in 0..=self.groups.len() {
            if !is_gone {
                return;
            }
            let parent = self.entities.at(at).parent;
            let group = self.groups.at_mut(parent);
            group.waiting.remove(&mut self.waiting, at);
            if parent == ROOT {
                self.remember(at);
                return;
            }
            is_gone = group.waiting.is_empty();
            at = self.entity_of(parent);
        }
    }

    /// A request of this child of the root left the device.
    pub fn left(&mut self, child: u32, now: Nanos) {
        let entity = self.entities.at_mut(child);
        (entity.inside, entity.done_ns) = (entity.inside.saturating_sub(1), now);
        self.remember(child);
    }

    /// Under a strict rule: it stays in the order although nothing of it waits.
    fn remember(&mut self, child: u32) {
        if self.is_strict && !self.waiting.is_linked(child) && !self.busy_links.is_linked(child) {
            let tag = self.entities.at(child).tag;
            self.busy.insert(&mut self.busy_links, child, tag);
        }
    }

    /// Whether the first that waits is more than so much ahead of anybody active, at most `wait_ns` after its last request.
    pub fn behind(&mut self, lead_sectors: u64, wait_ns: Nanos, now: Nanos) -> Behind {
        let Some(first) = self.groups.at(ROOT).waiting.first() else { return Behind::Nobody };
        let allowed = lead_sectors.saturating_mul(inverse(WEIGHT_DEFAULT)) >> (32 - UNIT_BITS);
        let tag = self.entities.at(first).tag;
        for _ in 0..self.entities.len() {
            let Some(child) = self.busy.first() else { return Behind::Nobody };
            let entity = self.entities.at(child);
            if tag <= entity.tag.saturating_add(allowed) {
                return Behind::Nobody;
            }
            if entity.inside > 0 {
                return Behind::Inside;
            }
            let until = entity.done_ns.saturating_add(wait_ns);
            if now < until {
                return Behind::Expected(until);
            }
            self.busy.remove(&mut self.busy_links, child);
        }
        Behind::Nobody
    }

    fn first_queue(&self) -> Option<u32> {
        let mut group = ROOT;
        for _ in 0..=self.groups.len() {
            let entity = self.groups.at(group).waiting.first()?;
            match entity.checked_sub(self.queues.len()) {
                None => return Some(entity),
                Some(child) => group = child,
            }
        }
        None
    }

    /// An entity and its idle ancestors join those that wait.
    fn activate(&mut self, queue: u32) {
        let mut at = queue;
        for _ in 0..=self.groups.len() {
            let was_busy = self.is_strict && self.busy.remove(&mut self.busy_links, at);
            let entity = self.entities.at_mut(at);
            let group = self.groups.at_mut(entity.parent);
            if !was_busy {
                entity.tag = entity.tag.max(group.vtime);
            }
            let (tag, parent, was_waiting) = (entity.tag, entity.parent, !group.waiting.is_empty());
            let is_in = group.waiting.insert(&mut self.waiting, at, tag);
            self.must(is_in);
            if parent == ROOT || was_waiting {
                return;
            }
            at = self.entity_of(parent);
        }
    }

    /// Time moves to the served child's tag on each level, and the tag moves on. The child of the root.
    fn charge(&mut self, queue: u32, cost: u64, is_waiting: bool) -> u32 {
        let mut at = queue;
        let mut still_waits = is_waiting;
        for _ in 0..=self.groups.len() {
            let entity = self.entities.at_mut(at);
            let group = self.groups.at_mut(entity.parent);
            group.vtime = entity.tag;
            entity.tag = entity.tag.saturating_add(cost.saturating_mul(entity.inverse_weight) >> (32 - UNIT_BITS));
            group.waiting.remove(&mut self.waiting, at);
            if still_waits {
                group.waiting.insert(&mut self.waiting, at, entity.tag);
            }
            if entity.parent == ROOT {
                break;
            }
            still_waits = !group.waiting.is_empty();
            at = self.queues.len().wrapping_add(entity.parent);
        }
        at
    }

    // ---- issuers and groups ----

    fn queue_for(&mut self, bio: &Bio) -> u32 {
        let (context, group) = (bio.context.0, bio.group.0);
        if context >= self.contexts {
            return self.strays_of(group);
        }
        if self.entities.at(context).parent == group {
            return context;
        }
        // Where it has requests, waiting or inside, it is charged for them.
        if !self.queues.at(context).is_empty() || self.entities.at(context).inside > 0 {
            return self.strays_of(group);
        }
        self.move_to(context, group);
        context
    }

    /// An idle issuer leaves what it has yet to pay to its group, and begins elsewhere as everybody who comes.
    fn move_to(&mut self, context: u32, group: u32) {
        self.busy.remove(&mut self.busy_links, context);
        let Entity { tag, parent, .. } = *self.entities.at(context);
        let from = self.groups.at_mut(parent);
        from.left_tag = from.left_tag.max(tag);
        let tag = self.groups.at(group).left_tag;
        let entity = self.entities.at_mut(context);
        (entity.parent, entity.tag) = (group, tag);
    }

    pub fn context_exited(&mut self, context: u32) {
        let is_idle =
            context < self.contexts && self.queues.at(context).is_empty() && self.entities.at(context).inside == 0;
        if is_idle {
            self.move_to(context, self.entities.at(context).parent);
        }
    }

    pub fn group_added(&mut self, group: GroupId, parent: GroupId, weight: u32) {
        let above = self.groups.at(parent.0).vtime;
        // Time goes on from where an earlier group of this id left it.
        let Group { vtime, left_tag, .. } = *self.groups.at(group.0);
        let (strays, own) = (self.strays_of(group.0), self.entity_of(group.0));
        self.busy.remove(&mut self.busy_links, own);
        *self.groups.at_mut(group.0) =
            Group { waiting: Tree::EMPTY, vtime, left_tag, weight, held: 0, holding_weight: 0 };
        let fresh =
            |tag, weight, parent| Entity { tag, inverse_weight: inverse(weight), parent, inside: 0, done_ns: 0 };
        *self.entities.at_mut(strays) = fresh(0, WEIGHT_DEFAULT, group.0);
        *self.entities.at_mut(own) = fresh(above, weight, parent.0);
    }

    pub fn group_changed(&mut self, group: GroupId, weight: u32) {
        let (parent, own) = (self.parent_of(group.0), self.entity_of(group.0));
        let state = self.groups.at_mut(group.0);
        let before = core::mem::replace(&mut state.weight, weight);
        if state.held > 0 && group.0 != ROOT {
            let above = self.groups.at_mut(parent);
            above.holding_weight =
                above.holding_weight.saturating_add(u64::from(weight)).saturating_sub(u64::from(before));
        }
        self.entities.at_mut(own).inverse_weight = inverse(weight);
    }

    // ---- tags of the scheduler ----

    /// A group that holds its share of the scheduler's tags waits for one of its own, so that the others' requests are seen.
    pub fn admission(&self, group: GroupId, tags: u64) -> Admission {
        let mut path = [ROOT; LEVELS_CHECKED];
        let mut at = group.0;
        for place in &mut path {
            *place = at;
            at = self.parent_of(at);
        }
        let mut limit = tags;
        for group in path.into_iter().rev().filter(|group| *group != ROOT) {
            let state = self.groups.at(group);
            let weight = u64::from(state.weight);
            let siblings = self.groups.at(self.parent_of(group)).holding_weight;
            let of_all = if state.held == 0 { siblings.saturating_add(weight) } else { siblings };
            limit = limit.saturating_mul(weight).checked_div(of_all).unwrap_or(limit).max(1);
            if u64::from(state.held) >= limit {
                return Admission::Shallow(1);
            }
        }
        Admission::Full
    }

    pub fn count_held(&mut self, group: GroupId, is_taken: bool) {
        let mut at = group.0;
        for _ in 0..self.groups.len() {
            if at == ROOT {
                return;
            }
            let parent = self.parent_of(at);
            let state = self.groups.at_mut(at);
            let before = state.held;
            state.held = if is_taken { before.wrapping_add(1) } else { before.saturating_sub(1) };
            let weight = u64::from(state.weight);
            if before == u32::from(!is_taken) {
                let of_parent = &mut self.groups.at_mut(parent).holding_weight;
                *of_parent = if is_taken { of_parent.saturating_add(weight) } else { of_parent.saturating_sub(weight) };
            }
            at = parent;
        }
    }

    // ---- invariants ----

    /// `child_of` is the child of the root that a request in the device counts for.
    pub fn check(&self, requests: &Requests, child_of: impl Fn(u32) -> Option<u32> + Copy) -> Result<(), Violation> {
        for queue in 0..self.queues.len() {
            self.check_queue(requests, queue)?;
        }
        for group in 1..self.groups.len() {
            if self.waiting.is_linked(self.entity_of(group)) == self.groups.at(group).waiting.is_empty() {
                return Err(Violation { what: "a group waits exactly while a child of it does", at: group });
            }
        }
        for parent in 0..self.groups.len() {
            let children = (1..self.groups.len()).filter(|child| self.parent_of(*child) == parent);
            let holding = children.map(|child| self.groups.at(child)).filter(|child| child.held > 0);
            if holding.map(|child| u64::from(child.weight)).sum::<u64>() != self.groups.at(parent).holding_weight {
                return Err(Violation { what: "the weights of groups that hold tags add up", at: parent });
            }
        }
        if self.is_strict { self.check_busy(child_of) } else { Ok(()) }
    }

    fn check_queue(&self, requests: &Requests, queue: u32) -> Result<(), Violation> {
        let list = self.queues.at(queue);
        if self.waiting.is_linked(queue) == list.is_empty() {
            return Err(Violation { what: "a queue waits exactly while it holds a request", at: queue });
        }
        let parent = self.entities.at(queue).parent;
        for slot in list.iter(&self.links) {
            let is_of_group = requests.id_of(slot).is_some_and(|id| requests.attributes(id).group.0 == parent);
            if !is_of_group || *self.queue_of.at(slot) != queue {
                return Err(Violation { what: "a queue holds live requests of its group, which know it", at: slot });
            }
        }
        Ok(())
    }

    fn check_busy(&self, child_of: impl Fn(u32) -> Option<u32> + Copy) -> Result<(), Violation> {
        for child in 0..self.entities.len() {
            let inside = (0..self.queue_of.len()).filter(|slot| child_of(*slot) == Some(child)).count();
            if u32::try_from(inside) != Ok(self.entities.at(child).inside) {
                return Err(Violation { what: "a child of the root counts what it has in the device", at: child });
            }
            let is_known = self.waiting.is_linked(child) != self.busy_links.is_linked(child);
            if inside > 0 && !is_known {
                return Err(Violation { what: "who has requests in the device is in the order, once", at: child });
            }
        }
        Ok(())
    }
}

/// What a request is charged, in sectors: at least one, so that nobody has service for nothing.
fn cost(bio: &Bio, request_cost: u64) -> u64 {
    let sectors = match bio.operation {
        Operation::Read | Operation::Write | Operation::ZoneAppend => u64::from(bio.extent.sectors),
        _ => NO_DATA_COST_SECTORS,
    };
    sectors.saturating_add(request_cost).max(1)
}
