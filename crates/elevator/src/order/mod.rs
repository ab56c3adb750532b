//! Start-time fair queueing over a tree of groups: which request is next, and whether its queue or
//! group leads a sibling whose requests are all in flight.
//!
//! On each level the backlogged child with the smallest start tag is served, and its tag advances
//! by cost / weight (Goyal, Vin, Cheng 1996). A child that becomes backlogged after idleness starts
//! at its group's virtual time. A strict order also keeps the tags of children that have nothing
//! queued, while they have requests in flight and for a while after the last one has ended. Thus it
//! can tell whether others lead them (Hedayati et al. 2019, MQFQ).
//!
//! Inlining is forced or forbidden only where the kernel's stack or instructions need it (lib.rs).

mod sole;
mod standing;

use crate::group::WEIGHT_DEFAULT;
use crate::interface::{Configuration, Violation};
use crate::request::{Bio, Requests};
use crate::structures::sorted::{SortedLinks, Tree};
use crate::structures::{Array, Links, List, NIL, NoMemory};
use hoistway_block::{GroupId, Nanos, Operation};
use sole::SoleIssuer;
pub use standing::{Lead, Standing};

/// Virtual time per sector at weight 1 is 2^20.
const UNIT_BITS: u32 = 20;
const ROOT: u32 = GroupId::ROOT.0;

/// Which siblings must not be led by more than the allowed lead.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Strict {
    /// None: only backlogged siblings are compared.
    Never,
    /// The children of the root.
    AtRoot,
    /// Groups on all levels. Issuers within one group go in the order of their tags and do not wait
    /// for one another. The root's own issuers are together one group among the root's children, of the
    /// default weight.
    Groups,
}

/// A queue of an issuer, the shared queue of a group, or a group.
#[derive(Copy, Clone, Debug)]
struct Node {
    tag: u64,
    inverse_weight: u64,
    parent: u32,
    /// Under a strict order: requests in flight; `done_ns` is when the last one ended, 0 if none did.
    in_flight: u32,
    /// It sent no request in time after its last one had ended, so it is not waited for until it
    /// sends one.
    is_late: bool,
    /// Others were served before it because it was not waited for.
    was_passed: bool,
    done_ns: Nanos,
    /// The charge for its last request, in sectors.
    last_cost: u32,
    /// When it was last found to lead a sibling by too much, 0 if never, and that sibling's last cost.
    led_ns: Nanos,
    led_cost: u32,
}

#[derive(Clone, Debug)]
struct Group {
    ready: Tree,
    /// Children that count in a strict order and have nothing queued.
    busy: Tree,
    virtual_time: u64,
    /// Lower bound of the children's tags, raised by [`Order::bound_lag`].
    floor: u64,
    /// The latest tag of an issuer that left the group. Newcomers start there, so that leaving and
    /// coming back gains nothing.
    left_tag: u64,
}

impl Group {
    const EMPTY: Group = Group { ready: Tree::EMPTY, busy: Tree::EMPTY, virtual_time: 0, floor: 0, left_tag: 0 };
}

/// The queue that a request belongs to.
#[derive(Copy, Clone, Debug)]
pub struct Place {
    /// The group's shared queue instead of the issuer's own.
    pub is_shared: bool,
    /// Weight of the queue among its siblings.
    pub weight: u32,
}

/// The order of all requests.
#[derive(Debug)]
pub struct Order {
    strict: Strict,
    /// How long a child without requests is waited for after its last one.
    wait_ns: Nanos,
    /// How long the tag of a child without requests is kept.
    keep_ns: Nanos,
    /// Issuers' queues, then the groups' shared queues, then the groups.
    nodes: Array<Node>,
    ready: SortedLinks,
    busy: SortedLinks,
    groups: Array<Group>,
    queues: Array<List>,
    links: Links,
    queue_of: Array<u32>,
    contexts: u32,
    /// The group of the root's own issuers: the last one under [`Strict::Groups`], otherwise the root.
    own: u32,
    sole: SoleIssuer,
    /// The lead, in virtual time, of the last queue that was found to lead by too much.
    lead: u64,
    /// The node that was last found to lead a sibling by too much.
    leader: u32,
    violations: u32,
}

/// Cost of a request that moves no data, in sectors.
const NO_DATA_COST_SECTORS: u64 = 8;

/// The charge for a request, in sectors: at least one, so that no request is free.
pub fn cost(bio: &Bio, request_cost: u64) -> u64 {
    let sectors = match bio.operation {
        Operation::Read | Operation::Write | Operation::ZoneAppend => u64::from(bio.extent.sectors),
        _ => NO_DATA_COST_SECTORS,
    };
    sectors.saturating_add(request_cost).max(1)
}

fn inverse(weight: u32) -> u64 {
    (1_u64 << 32).checked_div(u64::from(weight)).unwrap_or(1 << 32)
}

const fn span(cost: u64, inverse_weight: u64) -> u64 {
    cost.saturating_mul(inverse_weight) >> (32 - UNIT_BITS)
}

impl Order {
    /// An empty order.
    ///
    /// # Errors
    /// When memory is short.
    pub fn try_new(configuration: &Configuration, strict: Strict) -> Result<Self, NoMemory> {
        let groups = configuration.groups.max(1);
        let queues = configuration.contexts.saturating_add(groups);
        let own = if strict == Strict::Groups { groups } else { ROOT };
        let groups = groups.max(own.saturating_add(1));
        let nodes = queues.saturating_add(groups);
        let idle = Node {
            tag: 0,
            inverse_weight: inverse(WEIGHT_DEFAULT),
            parent: own,
            in_flight: 0,
            is_late: false,
            was_passed: false,
            done_ns: 0,
            last_cost: 0,
            led_ns: 0,
            led_cost: 0,
        };
        let mut order = Self {
            strict,
            wait_ns: 0,
            keep_ns: 0,
            nodes: Array::try_new(nodes, idle)?,
            ready: SortedLinks::try_new(nodes)?,
            busy: SortedLinks::try_new(if strict == Strict::Never { 0 } else { nodes })?,
            groups: Array::try_new(groups, Group::EMPTY)?,
            queues: Array::try_new(queues, List::EMPTY)?,
            links: Links::try_new(configuration.slots)?,
            queue_of: Array::try_new(configuration.slots, NIL)?,
            contexts: configuration.contexts,
            own,
            sole: SoleIssuer::NONE,
            lead: 0,
            leader: 0,
            violations: 0,
        };
        (queues..nodes).for_each(|node| order.nodes.at_mut(node).parent = ROOT);
        Ok(order)
    }

    /// Sets how long a child is waited for after its last request, and how long its tag is kept.
    pub fn set_patience(&mut self, wait_ns: Nanos, keep_ns: Nanos) {
        (self.wait_ns, self.keep_ns) = (wait_ns, keep_ns.max(wait_ns));
    }

    pub const fn violations(&self) -> u32 {
        self.violations
    }

    pub fn is_empty(&self) -> bool {
        if self.is_sole() { self.queues.at(self.sole.queue).is_empty() } else { self.groups.at(ROOT).ready.is_empty() }
    }

    fn must(&mut self, holds: bool) {
        if !holds {
            self.violations = self.violations.saturating_add(1);
        }
    }

    const fn shared_queue(&self, group: u32) -> u32 {
        self.contexts.wrapping_add(group)
    }

    fn node_of(&self, group: u32) -> u32 {
        self.queues.len().wrapping_add(group)
    }

    fn group_of(&self, node: u32) -> Option<u32> {
        node.checked_sub(self.queues.len())
    }

    /// The node of a node's group; `None` for a child of the root.
    fn parent_node(&self, node: u32) -> Option<u32> {
        let parent = self.nodes.at(node).parent;
        (parent != ROOT).then(|| self.node_of(parent))
    }

    fn counts(&self, node: u32) -> bool {
        match self.strict {
            Strict::Never => false,
            Strict::AtRoot => self.nodes.at(node).parent == ROOT,
            Strict::Groups => node >= self.queues.len(),
        }
    }

    /// The parent of the queues of this group's issuers.
    const fn home(&self, group: GroupId) -> u32 {
        if group.0 == ROOT { self.own } else { group.0 }
    }

    // ---- requests ----

    /// Inserts a request into its queue and returns the queue. `None` if the slot is queued
    /// already.
    pub fn insert(&mut self, bio: &Bio, slot: u32, place: Place, is_in_front: bool, now: Nanos) -> Option<u32> {
        let is_of_sole = self.is_sole() && self.is_of_sole(bio, place);
        let queue = if is_of_sole {
            self.sole.queue
        } else {
            self.end_sole();
            self.queue_for(bio, place)
        };
        let list = self.queues.at_mut(queue);
        let was_empty = list.is_empty();
        let is_in =
            if is_in_front { list.push_front(&mut self.links, slot) } else { list.push_back(&mut self.links, slot) };
        if !is_in {
            return None;
        }
        *self.queue_of.at_mut(slot) = queue;
        if was_empty && !is_of_sole {
            self.activate(queue, now);
            self.begin_sole(queue, place.weight);
        }
        Some(queue)
    }

    /// The queue of a queued request; [`NIL`] if it is not queued.
    pub fn queue_of(&self, slot: u32) -> u32 {
        *self.queue_of.at(slot)
    }

    /// The oldest request of a queue.
    pub fn head(&self, queue: u32) -> Option<u32> {
        self.queues.at(queue).first()
    }

    /// How many requests a queue holds.
    pub fn queued(&self, queue: u32) -> u32 {
        self.queues.at(queue).len()
    }

    /// How many of a queue's requests are in flight, under a strict order.
    pub fn in_flight(&self, queue: u32) -> u32 {
        let more = if queue == self.sole.queue { self.sole.more_in_flight } else { 0 };
        self.nodes.at(queue).in_flight.wrapping_add(more)
    }

    /// The queue with the smallest tag, in the group with the smallest tag, from the root down.
    pub fn first(&self) -> Option<u32> {
        if self.is_sole() {
            return (!self.queues.at(self.sole.queue).is_empty()).then_some(self.sole.queue);
        }
        let mut group = ROOT;
        for _ in 0..=self.groups.len() {
            let node = self.groups.at(group).ready.first()?;
            match self.group_of(node) {
                None => return Some(node),
                Some(child) => group = child,
            }
        }
        None
    }

    /// How many children of the root are backlogged, in flight or expected back.
    pub fn tenants(&self) -> u32 {
        if self.is_sole() {
            return 1;
        }
        let root = self.groups.at(ROOT);
        root.ready.len().saturating_add(root.busy.len())
    }

    /// Until when a queue without requests is worth waiting for; `None` if it is not.
    pub fn expected_until(&self, queue: u32, now: Nanos) -> Option<Nanos> {
        let node = self.nodes.at(queue);
        let done_ns = if queue == self.sole.queue { self.sole.done_ns } else { node.done_ns };
        let until = done_ns.saturating_add(self.wait_ns);
        (now < until && !node.is_late).then_some(until)
    }

    /// A queue sent no request in the time for which it was waited for.
    pub fn was_late(&mut self, queue: u32) {
        self.end_sole();
        self.nodes.at_mut(queue).is_late = true;
    }

    /// Dispatches a request to the device and charges this many sectors on each level. Returns the
    /// queue it was in.
    #[inline(always)]
    pub fn serve(&mut self, slot: u32, cost: u64) -> u32 {
        let queue = core::mem::replace(self.queue_of.at_mut(slot), NIL);
        let list = self.queues.at_mut(queue);
        let is_out = list.remove_early(&mut self.links, slot);
        let is_waiting = !list.is_empty();
        self.must(is_out);
        if queue == self.sole.queue {
            self.charge_sole(cost);
        } else {
            self.end_sole();
            self.charge_path(queue, cost, Some(is_waiting));
        }
        queue
    }

    /// Charges a queue for service beyond that of its requests.
    pub fn charge(&mut self, queue: u32, cost: u64) {
        self.end_sole();
        self.charge_path(queue, cost, None);
    }

    /// Charges an issuer among those of its group, and not its group.
    pub fn charge_issuer(&mut self, queue: u32, cost: u64) {
        self.end_sole();
        let node = self.nodes.at_mut(queue);
        let group = self.groups.at_mut(node.parent);
        node.tag = node.tag.max(group.floor).saturating_add(span(cost, node.inverse_weight));
        if group.ready.remove(&mut self.ready, queue) {
            group.ready.insert(&mut self.ready, queue, node.tag);
        }
    }

    /// On each level, virtual time moves to the served child's tag, and that tag advances.
    /// `is_waiting`: whether the queue still holds requests after one of them was dispatched;
    /// `None` if none was.
    fn charge_path(&mut self, queue: u32, cost: u64, is_waiting: Option<bool>) {
        let mut at = queue;
        let mut still_waits = is_waiting.unwrap_or(self.ready.is_linked(queue));
        for _ in 0..=self.groups.len() {
            let counts = self.counts(at);
            let node = self.nodes.at_mut(at);
            let group = self.groups.at_mut(node.parent);
            let start = node.tag.max(group.floor);
            group.virtual_time = group.virtual_time.max(start);
            node.tag = start.saturating_add(span(cost, node.inverse_weight));
            node.last_cost = u32::try_from(cost).unwrap_or(u32::MAX);
            if is_waiting.is_some() && self.strict != Strict::Never {
                node.in_flight = node.in_flight.wrapping_add(1);
            }
            let (tag, parent) = (node.tag, node.parent);
            if still_waits {
                self.move_ready(at, parent, tag);
            } else if (group.ready.remove(&mut self.ready, at) || group.busy.remove(&mut self.busy, at)) && counts {
                group.busy.insert(&mut self.busy, at, tag);
            }
            if parent == ROOT {
                return;
            }
            still_waits = !self.groups.at(parent).ready.is_empty();
            at = self.node_of(parent);
        }
    }

    /// Gives a backlogged child of a group its new tag. Apart, for the bound on the stack.
    #[inline(never)]
    fn move_ready(&mut self, child: u32, parent: u32, tag: u64) {
        let ready = &mut self.groups.at_mut(parent).ready;
        if !ready.change_key_of_only(&mut self.ready, child, tag) {
            ready.remove(&mut self.ready, child);
            ready.insert(&mut self.ready, child, tag);
        }
    }

    /// Removes a request from its queue without service.
    pub fn take(&mut self, slot: u32) {
        let queue = core::mem::replace(self.queue_of.at_mut(slot), NIL);
        if queue == NIL {
            return;
        }
        self.end_sole();
        let list = self.queues.at_mut(queue);
        let is_out = list.remove(&mut self.links, slot);
        let mut is_gone = list.is_empty();
        self.must(is_out);
        let mut at = queue;
        for _ in 0..=self.groups.len() {
            if !is_gone {
                return;
            }
            let parent = self.nodes.at(at).parent;
            let group = self.groups.at_mut(parent);
            group.ready.remove(&mut self.ready, at);
            is_gone = group.ready.is_empty();
            self.remember(at);
            if parent == ROOT {
                return;
            }
            at = self.node_of(parent);
        }
    }

    /// A request of this queue left the device.
    pub fn left_device(&mut self, queue: u32, now: Nanos) {
        if self.strict == Strict::Never {
            return;
        }
        if queue == self.sole.queue {
            self.left_device_of_sole(now);
            return;
        }
        self.end_sole();
        let mut at = queue;
        for _ in 0..=self.groups.len() {
            let node = self.nodes.at_mut(at);
            (node.in_flight, node.done_ns) = (node.in_flight.saturating_sub(1), now);
            self.remember(at);
            let Some(parent) = self.parent_node(at) else { return };
            at = parent;
        }
    }

    /// Keeps a node in a strict order although it has nothing queued.
    fn remember(&mut self, node: u32) {
        if self.counts(node) && !self.ready.is_linked(node) && !self.busy.is_linked(node) {
            let Node { tag, parent, .. } = *self.nodes.at(node);
            self.groups.at_mut(parent).busy.insert(&mut self.busy, node, tag);
        }
    }

    /// Makes a queue and its idle groups backlogged.
    fn activate(&mut self, queue: u32, now: Nanos) {
        let mut at = queue;
        for _ in 0..=self.groups.len() {
            let node = self.nodes.at_mut(at);
            let group = self.groups.at_mut(node.parent);
            group.busy.remove(&mut self.busy, at);
            let is_remembered = node.done_ns > 0 && now < node.done_ns.saturating_add(self.keep_ns);
            // In mqfq (`AtRoot`) a child that others were allowed to pass begins anew, because mqfq
            // bounds how far a child may be behind. Other policies keep a child's tag for longer
            // than they wait for the child.
            let begins_anew = self.strict == Strict::AtRoot && node.was_passed;
            let is_kept = node.in_flight > 0 || (is_remembered && !begins_anew);
            node.was_passed = false;
            node.tag = node.tag.max(if is_kept { group.floor } else { group.virtual_time });
            node.is_late &= now >= node.done_ns.saturating_add(self.wait_ns);
            let (tag, parent, was_waiting) = (node.tag, node.parent, !group.ready.is_empty());
            let is_in = group.ready.insert(&mut self.ready, at, tag);
            self.must(is_in);
            if parent == ROOT || was_waiting {
                return;
            }
            at = self.node_of(parent);
        }
    }

    // ---- issuers and groups ----

    fn queue_for(&mut self, bio: &Bio, place: Place) -> u32 {
        let (context, group) = (bio.context.0, self.home(bio.group));
        let shared = self.shared_queue(bio.group.0);
        let queue = if place.is_shared || context >= self.contexts {
            shared
        } else if self.nodes.at(context).parent == group {
            context
        } else if self.is_idle(context) {
            self.move_to(context, group);
            context
        } else {
            // The context's own queue has requests in another group and is charged there.
            shared
        };
        self.nodes.at_mut(queue).inverse_weight = inverse(place.weight);
        queue
    }

    fn is_idle(&self, context: u32) -> bool {
        self.queues.at(context).is_empty() && self.nodes.at(context).in_flight == 0
    }

    /// Moves an idle issuer to another group. The old group keeps the issuer's tag as the start for
    /// newcomers, so that leaving does not shed a tag. In the new group it is a newcomer: a tag kept
    /// from its last request would lie behind the virtual time there.
    fn move_to(&mut self, context: u32, group: u32) {
        let Node { tag, parent, .. } = *self.nodes.at(context);
        let from = self.groups.at_mut(parent);
        from.busy.remove(&mut self.busy, context);
        from.left_tag = from.left_tag.max(tag);
        let tag = self.groups.at(group).left_tag;
        let node = self.nodes.at_mut(context);
        (node.parent, node.tag, node.done_ns, node.is_late) = (group, tag, 0, false);
    }

    pub fn context_exited(&mut self, context: u32) {
        self.end_sole();
        if context < self.contexts && self.is_idle(context) {
            self.move_to(context, self.nodes.at(context).parent);
        }
    }

    pub fn group_added(&mut self, group: GroupId, parent: GroupId, weight: u32) {
        self.end_sole();
        let above = self.groups.at(parent.0).virtual_time;
        let (shared, own) = (self.shared_queue(group.0), self.node_of(group.0));
        let before = self.nodes.at(own).parent;
        self.groups.at_mut(before).busy.remove(&mut self.busy, own);
        let state = self.groups.at_mut(group.0);
        // Children of an earlier group of this id may still be waited for.
        while let Some(child) = state.busy.first() {
            state.busy.remove(&mut self.busy, child);
        }
        // Virtual time continues from where that group left it.
        let Group { virtual_time, floor, left_tag, .. } = *state;
        *state = Group { virtual_time, floor, left_tag, ..Group::EMPTY };
        let fresh = |tag, weight, parent| Node {
            tag,
            inverse_weight: inverse(weight),
            parent,
            in_flight: 0,
            is_late: false,
            was_passed: false,
            done_ns: 0,
            last_cost: 0,
            led_ns: 0,
            led_cost: 0,
        };
        *self.nodes.at_mut(shared) = fresh(0, WEIGHT_DEFAULT, group.0);
        *self.nodes.at_mut(own) = fresh(above, weight, parent.0);
    }

    pub fn group_changed(&mut self, group: GroupId, weight: u32) {
        self.end_sole();
        let own = self.node_of(group.0);
        self.nodes.at_mut(own).inverse_weight = inverse(weight);
    }

    // ---- invariants ----

    /// Checks the invariants. `queue_in_flight` gives the queue of a request in the device.
    pub fn check(
        &self,
        requests: &Requests,
        queue_in_flight: impl Fn(u32) -> Option<u32> + Copy,
    ) -> Result<(), Violation> {
        for queue in 0..self.queues.len() {
            self.check_queue(requests, queue)?;
        }
        for group in 1..self.groups.len() {
            let is_known = !self.is_above_sole(self.node_of(group));
            if is_known && self.ready.is_linked(self.node_of(group)) == self.groups.at(group).ready.is_empty() {
                return Err(Violation {
                    what: "a group is backlogged exactly while one of its children is",
                    at: group,
                });
            }
        }
        if self.strict == Strict::Never { Ok(()) } else { self.check_busy(queue_in_flight) }
    }

    fn check_queue(&self, requests: &Requests, queue: u32) -> Result<(), Violation> {
        let list = self.queues.at(queue);
        if queue != self.sole.queue && self.ready.is_linked(queue) == list.is_empty() {
            return Err(Violation { what: "a queue is backlogged exactly while it holds a request", at: queue });
        }
        let parent = self.nodes.at(queue).parent;
        for slot in list.iter(&self.links) {
            let is_of_group = requests.id_of(slot).is_some_and(|id| self.home(requests.attributes(id).group) == parent);
            if !is_of_group || *self.queue_of.at(slot) != queue {
                return Err(Violation { what: "a queue holds live requests of its group that refer to it", at: slot });
            }
        }
        Ok(())
    }

    fn check_busy(&self, queue_in_flight: impl Fn(u32) -> Option<u32> + Copy) -> Result<(), Violation> {
        for node in (0..self.nodes.len()).filter(|node| !self.is_above_sole(*node)) {
            let is_below = |slot: u32| {
                let mut at = queue_in_flight(slot);
                for _ in 0..=self.groups.len() {
                    match at {
                        Some(queue) if queue == node => return true,
                        Some(queue) => at = self.parent_node(queue),
                        None => return false,
                    }
                }
                false
            };
            let in_flight = (0..self.queue_of.len()).filter(|slot| is_below(*slot)).count();
            if u32::try_from(in_flight) != Ok(self.nodes.at(node).in_flight) {
                return Err(Violation { what: "requests in flight are counted on each level", at: node });
            }
            if in_flight > 0 && self.counts(node) && self.ready.is_linked(node) == self.busy.is_linked(node) {
                return Err(Violation {
                    what: "every node with requests in flight is in the order exactly once",
                    at: node,
                });
            }
        }
        Ok(())
    }
}
