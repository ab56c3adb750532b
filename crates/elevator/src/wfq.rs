//! wfq: every group and issuer gets the device in proportion to its weight. The baseline for the
//! other fair policies.
//!
//! Promise  over any interval in which two siblings both have requests waiting, their service
//!          divided by their weights differs by at most one request of each (plus what the device
//!          holds at the edges of the interval).
//! Cost     O(log n) per level of groups and request; 12 bytes a slot, about 50 bytes a context or
//!          group.
//! Fits     fast devices under several tenants with deep queues. It does not sort, does not idle
//!          for an issuer that thinks between requests, and has no priority classes: a disk, or an
//!          issuer with few requests outstanding, needs more than this.
//! Source   start-time fair queueing: Goyal, Vin, Cheng 1996; over a tree of groups as in section 3
//!          of the same paper.
//!
//! Each child of a group has a start tag. The child with the smallest tag is served, and its tag
//! grows by cost / weight. A child that becomes backlogged after idleness starts at the group's
//! virtual time, so that idleness saves up no service.
//!
//! Read [`Wfq::charge`] first: it is the whole policy. The rest is bookkeeping.

use crate::group::{GroupSettings, WEIGHT_DEFAULT};
use crate::interface::{
    Admission, Configuration, Depth, Dispatch, Elevator, Form, Policy, Position, Version, Violation, Wake,
};
use crate::message::{Message, Messages};
use crate::request::{Bio, Requests};
use crate::structures::sorted::{SortedLinks, Tree};
use crate::structures::{Array, Links, List, NoMemory};
use crate::tag_shares::TagShares;
use crate::traits::{Passing, Traits};
use crate::tunable::{OutOfRange, SettingError, Tunable, Unit};
use hoistway_block::{ContextId, GroupId, HardwareQueue, Nanos, Operation, RequestId};

crate::reasons! {
    /// Why a request was chosen.
    pub enum Why {
        SmallestTag = "smallest start tag",
        Alone = "no other group waits",
    }
}

crate::tunables! {
    /// The tunables' values.
    pub struct Settings {
        /// Charge for every request in addition to its sectors.
        request_cost_sectors: "request_cost", Unit::Sectors, 0..=1_048_576, 0, OutOfRange::Refuse,
            "Sectors charged for every request beside its own; 0 shares bytes, a large number shares requests.";
    }
}

/// Cost of a discard or a write of zeroes, in sectors: it moves no data, whatever its length.
const NO_DATA_COST_SECTORS: u64 = 8;

/// Virtual time per sector at weight 1 is 2^20; tags would wrap after 8 EiB of service at weight 1.
const UNIT_BITS: u32 = 20;

/// An entity with a share: a context's queue, a group's shared queue, or a group.
#[derive(Copy, Clone, Debug)]
struct Entity {
    /// While backlogged, the start tag; while idle, the earliest value of the next one.
    tag: u64,
    /// 2^32 / weight: a multiplication is cheaper than a division, and cannot divide by zero.
    inverse_weight: u64,
    /// The group in which it competes.
    parent: GroupId,
}

#[derive(Clone, Debug)]
struct Group {
    waiting: Tree,
    vtime: u64,
    /// The latest tag of an issuer that left the group. Newcomers start there: otherwise an issuer
    /// that leaves and comes back, or is replaced by a new one, would never pay, and those that
    /// wait would be overtaken without end.
    left_tag: u64,
}

/// The policy's state.
#[derive(Debug)]
pub struct Wfq {
    settings: Settings,
    /// Contexts' queues, then one shared queue per group for issuers that are busy in another
    /// group, then the groups.
    entities: Array<Entity>,
    /// Links of the trees of backlogged entities: each entity is in its parent's tree at most.
    sorted: SortedLinks,
    groups: Array<Group>,
    shares: TagShares,
    queues: Array<List>,
    links: Links,
    /// The queue that holds a queued request.
    queue_of: Array<u32>,
    contexts: u32,
    depth: Depth,
    messages: Messages,
    violations: u32,
}

const fn inverse(weight: u32) -> u64 {
    match (1_u64 << 32).checked_div(weight as u64) {
        Some(inverse) => inverse,
        None => 1 << 32,
    }
}

impl Policy for Wfq {
    type Profile = ();
    const FORMS: &'static [Form<()>] = &[Form { since: Version(0, 0, 0), profile: () }];

    fn build(configuration: &Configuration, (): ()) -> Result<Self, NoMemory> {
        let groups = configuration.groups.max(1);
        let queues = configuration.contexts.saturating_add(groups);
        let entities = queues.saturating_add(groups);
        let idle = Entity { tag: 0, inverse_weight: inverse(WEIGHT_DEFAULT), parent: GroupId::ROOT };
        let empty = Group { waiting: Tree::EMPTY, vtime: 0, left_tag: 0 };
        Ok(Self {
            settings: Settings::DEFAULT,
            entities: Array::try_new(entities, idle)?,
            sorted: SortedLinks::try_new(entities)?,
            groups: Array::try_new(groups, empty)?,
            shares: TagShares::try_new(groups)?,
            queues: Array::try_new(queues, List::EMPTY)?,
            links: Links::try_new(configuration.slots)?,
            queue_of: Array::try_new(configuration.slots, hoistway_block::NIL)?,
            contexts: configuration.contexts,
            depth: configuration.depth,
            messages: Messages::try_new()?,
            violations: 0,
        })
    }
}

impl Elevator for Wfq {
    const TRAITS: Traits = Traits { passing: Passing::WeightedService, ..Traits::TAG_SHARES };

    /// A group that holds its share of the tags waits for one of its own, so that the others' requests
    /// can enter the scheduler.
    fn admit(&self, bio: &Bio, _now: Nanos) -> Admission {
        self.shares.admission(bio.group, self.depth.requests, 0, 0)
    }

    fn allocated(&mut self, requests: &Requests, id: RequestId, _now: Nanos) {
        self.shares.count(requests.attributes(id).group, true);
    }

    fn freed(&mut self, requests: &Requests, id: RequestId, _now: Nanos) {
        self.shares.count(requests.attributes(id).group, false);
    }

    /// A request holds transfers of one issuer only: otherwise one would pay for another.
    fn may_merge(&self, requests: &Requests, id: RequestId, bio: &Bio) -> bool {
        requests.attributes(id).context == bio.context
    }

    fn requests_merged(&mut self, _requests: &Requests, _keep: RequestId, gone: RequestId, now: Nanos) {
        if self.links.is_linked(gone.slot()) {
            self.take(gone.slot(), now);
        }
    }

    fn former(&self, requests: &Requests, id: RequestId) -> Option<RequestId> {
        requests.id_of(self.links.prev(id.slot())?)
    }

    fn latter(&self, requests: &Requests, id: RequestId) -> Option<RequestId> {
        requests.id_of(self.links.next(id.slot())?)
    }

    fn insert(&mut self, requests: &Requests, id: RequestId, at: Position, now: Nanos) -> Wake {
        let queue = self.queue_for(requests.attributes(id));
        let list = self.queues.at_mut(queue);
        let was_idle = list.is_empty();
        let done = match at {
            Position::Sorted(_) => list.push_back(&mut self.links, id.slot()),
            Position::Head | Position::Requeue => list.push_front(&mut self.links, id.slot()),
        };
        if !done {
            self.violations += 1;
            return Wake::No;
        }
        *self.queue_of.at_mut(id.slot()) = queue;
        if was_idle {
            self.activate(queue, now);
        }
        Wake::All
    }

    fn choose(&mut self, requests: &Requests, _queue: HardwareQueue, now: Nanos) -> Dispatch {
        let is_alone = self.groups.at(GroupId::ROOT.0).waiting.len() == 1;
        match self.drain(requests, now) {
            Some(id) => {
                let why = if is_alone { Why::Alone } else { Why::SmallestTag };
                Dispatch::Request { id, reason: why.into() }
            }
            None => Dispatch::Empty,
        }
    }

    fn drain(&mut self, requests: &Requests, _now: Nanos) -> Option<RequestId> {
        let queue = self.first_queue()?;
        let list = self.queues.at_mut(queue);
        let slot = list.pop_front(&mut self.links)?;
        let is_waiting = !list.is_empty();
        *self.queue_of.at_mut(slot) = hoistway_block::NIL;
        let id = requests.id_of(slot);
        let cost = id.map_or(0, |id| self.cost(requests.attributes(id)));
        self.charge(queue, cost, is_waiting);
        id
    }

    fn withdrawn(&mut self, _requests: &Requests, id: RequestId, now: Nanos) {
        self.take(id.slot(), now);
    }

    fn has_work(&self, _queue: HardwareQueue) -> bool {
        !self.groups.at(GroupId::ROOT.0).waiting.is_empty()
    }

    fn group_added(&mut self, group: GroupId, settings: &GroupSettings, _now: Nanos) {
        let parent_vtime = self.groups.at(settings.parent.0).vtime;
        let shared_queue = self.shared_queue_of(group);
        // Virtual time continues from where an earlier group of this id left it: tags of contexts
        // that were in that group are then at most one request ahead.
        let Group { vtime, left_tag, .. } = *self.groups.at(group.0);
        self.shares.group_added(group, settings.parent, settings.clamped_weight());
        *self.groups.at_mut(group.0) = Group { waiting: Tree::EMPTY, vtime, left_tag };
        *self.entities.at_mut(shared_queue) = Entity { tag: 0, inverse_weight: inverse(WEIGHT_DEFAULT), parent: group };
        let entity = self.entity_of(group);
        *self.entities.at_mut(entity) =
            Entity { tag: parent_vtime, inverse_weight: inverse(settings.clamped_weight()), parent: settings.parent };
    }

    fn group_changed(&mut self, group: GroupId, settings: &GroupSettings, _now: Nanos) -> Wake {
        let weight = settings.clamped_weight();
        self.shares.group_changed(group, weight);
        let entity = self.entity_of(group);
        self.entities.at_mut(entity).inverse_weight = inverse(weight);
        Wake::No
    }

    fn depth_changed(&mut self, depth: Depth) {
        self.depth = depth;
    }

    fn context_exited(&mut self, context: ContextId, _now: Nanos) -> Wake {
        if context.0 < self.contexts && self.queues.at(context.0).is_empty() {
            self.leave_group(context.0);
            self.join_group(context.0, self.entities.at(context.0).parent);
        }
        Wake::No
    }

    fn reasons(&self) -> &'static [&'static str] {
        Why::NAMES
    }

    fn tunables(&self) -> &'static [Tunable] {
        Settings::ROWS
    }

    fn setting(&self, index: usize) -> Option<i64> {
        self.settings.get(index)
    }

    fn set(&mut self, index: usize, value: i64) -> Result<(), SettingError> {
        self.settings.set(index, value)
    }

    fn take_message(&mut self) -> Option<Message> {
        self.messages.take()
    }

    fn trace(&mut self, on: bool) {
        self.messages.switch(on);
    }

    fn violations(&self) -> u32 {
        self.violations
    }

    fn check(&self, requests: &Requests) -> Result<(), Violation> {
        for queue in 0..self.queues.len() {
            self.check_queue(requests, queue)?;
        }
        for group in (0..self.groups.len()).map(GroupId) {
            let is_linked = self.sorted.is_linked(self.entity_of(group));
            if group != GroupId::ROOT && is_linked == self.groups.at(group.0).waiting.is_empty() {
                return Err(Violation {
                    what: "a group is backlogged exactly while one of its children is",
                    at: group.0,
                });
            }
        }
        self.shares.check()
    }
}

impl Wfq {
    fn check_queue(&self, requests: &Requests, queue: u32) -> Result<(), Violation> {
        let list = self.queues.at(queue);
        if self.sorted.is_linked(queue) == list.is_empty() {
            return Err(Violation { what: "a queue is backlogged exactly while it holds a request", at: queue });
        }
        let parent = self.entities.at(queue).parent;
        let mut slot = list.first();
        while let Some(at) = slot {
            if requests.id_of(at).is_none_or(|id| requests.attributes(id).group != parent) {
                return Err(Violation { what: "a queue holds live requests of its group", at });
            }
            if *self.queue_of.at(at) != queue {
                return Err(Violation { what: "a queued request knows its queue", at });
            }
            slot = self.links.next(at);
        }
        Ok(())
    }

    fn shared_queue_of(&self, group: GroupId) -> u32 {
        self.contexts + group.0
    }

    fn entity_of(&self, group: GroupId) -> u32 {
        self.queues.len() + group.0
    }

    /// The group of an entity, if it is one.
    fn as_group(&self, entity: u32) -> Option<GroupId> {
        entity.checked_sub(self.queues.len()).map(GroupId)
    }

    /// The context's own queue. The group's shared queue while that is busy in another group, and
    /// for a context out of range.
    fn queue_for(&mut self, bio: &Bio) -> u32 {
        let context = bio.context.0;
        if context >= self.contexts {
            return self.shared_queue_of(bio.group);
        }
        if self.entities.at(context).parent == bio.group {
            return context;
        }
        if !self.queues.at(context).is_empty() {
            return self.shared_queue_of(bio.group);
        }
        self.leave_group(context);
        self.join_group(context, bio.group);
        context
    }

    /// An idle issuer leaves a group; its unpaid tag stays as the start for newcomers.
    fn leave_group(&mut self, context: u32) {
        let Entity { tag, parent, .. } = *self.entities.at(context);
        let group = self.groups.at_mut(parent.0);
        group.left_tag = group.left_tag.max(tag);
    }

    /// An issuer joins a group like any newcomer: its tag is at most one request ahead of the
    /// group's virtual time.
    fn join_group(&mut self, context: u32, group: GroupId) {
        let tag = self.groups.at(group.0).left_tag;
        let entity = self.entities.at_mut(context);
        (entity.parent, entity.tag) = (group, tag);
    }

    fn cost(&self, bio: &Bio) -> u64 {
        let sectors = match bio.operation {
            Operation::Read | Operation::Write | Operation::ZoneAppend => u64::from(bio.extent.sectors),
            _ => NO_DATA_COST_SECTORS,
        };
        // A cost of zero would let an issuer of empty requests starve its siblings.
        sectors.saturating_add(self.settings.request_cost_sectors.unsigned_abs()).max(1)
    }

    /// Makes an entity and its idle ancestors backlogged.
    fn activate(&mut self, entity: u32, now: Nanos) {
        let mut at = entity;
        // A path to the root meets every group at most once.
        for _ in 0..=self.groups.len() {
            let parent = self.entities.at(at).parent;
            let group = self.groups.at_mut(parent.0);
            let state = self.entities.at_mut(at);
            state.tag = state.tag.max(group.vtime);
            let parent_was_idle = group.waiting.is_empty();
            if !group.waiting.insert(&mut self.sorted, at, state.tag) {
                self.violations += 1;
            }
            if parent == GroupId::ROOT || !parent_was_idle {
                return;
            }
            let message = Message::new(now, "waits from tag {0}", [state.tag]).of_group(parent);
            self.messages.write(message);
            at = self.entity_of(parent);
        }
    }

    /// The queue with the smallest tag in the group with the smallest tag, from the root down.
    fn first_queue(&self) -> Option<u32> {
        let mut group = GroupId::ROOT;
        for _ in 0..=self.groups.len() {
            let entity = self.groups.at(group.0).waiting.first()?;
            match self.as_group(entity) {
                None => return Some(entity),
                Some(child) => group = child,
            }
        }
        None
    }

    /// The policy: on each level, virtual time moves to the served child's tag, and that tag
    /// advances by cost / weight.
    fn charge(&mut self, queue: u32, cost: u64, is_waiting: bool) {
        let mut at = queue;
        let mut still_waits = is_waiting;
        for _ in 0..=self.groups.len() {
            let entity = self.entities.at_mut(at);
            let group = self.groups.at_mut(entity.parent.0);
            group.vtime = entity.tag;
            entity.tag = entity.tag.saturating_add((cost * entity.inverse_weight) >> (32 - UNIT_BITS));
            group.waiting.remove(&mut self.sorted, at);
            if still_waits {
                group.waiting.insert(&mut self.sorted, at, entity.tag);
            }
            if entity.parent == GroupId::ROOT {
                return;
            }
            still_waits = !group.waiting.is_empty();
            at = self.queues.len() + entity.parent.0;
        }
    }

    /// Removes a request from its queue without service.
    fn take(&mut self, slot: u32, _now: Nanos) {
        let queue = core::mem::replace(self.queue_of.at_mut(slot), hoistway_block::NIL);
        let list = self.queues.at_mut(queue);
        if !list.remove(&mut self.links, slot) {
            self.violations += 1;
            return;
        }
        if !list.is_empty() {
            return;
        }
        let mut at = queue;
        for _ in 0..=self.groups.len() {
            let parent = self.entities.at(at).parent;
            let group = self.groups.at_mut(parent.0);
            group.waiting.remove(&mut self.sorted, at);
            if parent == GroupId::ROOT || !group.waiting.is_empty() {
                return;
            }
            at = self.queues.len() + parent.0;
        }
    }
}
