//! The promise of wfq: start-time fair queueing on each level of the groups, and order of arrival
//! within a queue. mqfq promises the same for the root's children, and also while all requests of a
//! child are in flight.
//!
//! Let f and e be two members (issuers' queues or groups) of one group. Let f become backlogged at
//! some time, and let v be the start tag served last by then. f starts at v, or at the end of its
//! last earlier service, which started at v at the latest: at most `lead` = that service over its
//! weight later. Its sibling e starts at v or later, and is served before f only while its own
//! start tag is not after f's. (A member that joins the group starts where the members that left it
//! end: its lead is then theirs, at most one request of the costliest.) So whenever e is chosen
//!
//! service of e since then, this one excluded, over its weight <= service of f since then over its
//! weight + lead
//!
//! which is the theorem of Goyal, Vin and Cheng (start-time fair queueing) with the two requests
//! made explicit: one of f's in the lead, one of e's as the excluded one. Weights may change
//! meanwhile: each service counts at the weight of its time, as tags do. The policy truncates tags
//! to whole units of 2^-20 sectors at weight 1; the service that this may have saved e is allowed
//! in addition.
//!
//! mqfq (Hedayati et al. 2019, threshold T = `lead`) keeps the tag of a child of the root while it
//! has requests in flight, and dispatches no child whose tag is more than T after that of such a
//! child. While f is backlogged or in flight, e is therefore chosen only up to T after f's tag. And
//! if e was already active when f became so, e's tag may lie up to T before v. The bound grows by
//! 2 T; it holds from the time at which f has its first request until f has none. Below the root,
//! where tags are kept as well but no child is held back, a child that comes back while it has
//! requests in flight may be behind its siblings by whatever they received meanwhile, so nothing is
//! promised there but the order within a queue. The time for which tags of idle children are kept
//! is a tunable; once it changes, old tags may come back, and the root is no longer checked.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use hoistway_block::{ContextId, GroupId, Operation, RequestId};
use hoistway_elevator::{Attributes, GroupTree};

use super::Terms;
use crate::invariants::Broken;

/// Service is counted in 2^-32 sectors at weight 1, so that division by a weight loses next to
/// nothing.
const UNIT_BITS: u32 = 32;
/// The policy's own unit, in these units.
const POLICY_UNIT: u128 = 1 << 12;
/// Weight of an issuer, and of a group without a configured weight.
const WEIGHT_DEFAULT: u32 = 100;
/// Cost of a request without data, in sectors.
const NO_DATA_COST: u64 = 8;

/// A queue or group that shares its parent group's service.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Member {
    /// An issuer's own queue.
    Context(ContextId),
    /// The queue of issuers whose own queue is busy in another group.
    Strays(GroupId),
    Group(GroupId),
}

/// The service that a member has received from its group so far.
#[derive(Copy, Clone, Debug, Default)]
struct Service {
    /// Cost over weight.
    normalized: u128,
    /// How much less the policy may have charged, because it truncates.
    cut: u128,
}

/// A backlogged member.
#[derive(Debug)]
struct Wait {
    /// Its own service when it became backlogged, less its lead.
    own_from: i128,
    /// The service of its siblings then.
    siblings_from: BTreeMap<Member, Service>,
}

/// The members of one group.
#[derive(Debug, Default)]
struct Siblings {
    had: BTreeMap<Member, Service>,
    /// The cost over weight of each member's last service; for members that joined since, that of
    /// the members that left.
    last: BTreeMap<Member, u128>,
    /// The largest last service of a member that left.
    left: u128,
    /// Members with a queued request.
    backlogged: BTreeSet<Member>,
    /// Members whose service is compared with that of their siblings: the backlogged ones, and
    /// those that count while in flight.
    waits: BTreeMap<Member, Wait>,
}

impl Siblings {
    fn begins_to_wait(&mut self, member: Member) {
        let had = self.had.get(&member).copied().unwrap_or_default().normalized;
        let lead = self.last.get(&member).copied().unwrap_or_default();
        let wait = Wait { own_from: signed(had) - signed(lead), siblings_from: self.had.clone() };
        self.waits.insert(member, wait);
    }

    /// Checks a service against all waiting siblings, which it may exceed by `lead`. Returns the
    /// number of siblings.
    fn passes(&self, member: Member, lead: u128) -> Result<u64, Broken> {
        let had = self.had.get(&member).copied().unwrap_or_default();
        let mut passed = 0;
        for (other, wait) in self.waits.iter().filter(|(other, _)| **other != member) {
            let from = wait.siblings_from.get(&member).copied().unwrap_or_default();
            let sibling = signed(had.normalized - from.normalized);
            let own = signed(self.had.get(other).copied().unwrap_or_default().normalized) - wait.own_from;
            if sibling > own + signed(had.cut - from.cut + lead) {
                let [sibling, own] = [sibling, own].map(|service| (service * 1_000) >> UNIT_BITS);
                return Err(format!(
                    "P7: {other:?} waits and has had {own} thousandths of a sector over its weight, lead included; \
                     {member:?} goes before it with {sibling} already"
                ));
            }
            passed += 1;
        }
        Ok(passed)
    }

    fn serve(&mut self, member: Member, cost: u64, weight: u32) {
        let had = self.had.get(&member).copied().unwrap_or_default();
        let normalized = (u128::from(cost) << UNIT_BITS) / u128::from(weight.max(1));
        // First 2^32 / weight is truncated to a whole number, then the product to a whole unit.
        let cut = had.cut + POLICY_UNIT + u128::from(cost);
        self.had.insert(member, Service { normalized: had.normalized + normalized, cut });
        self.last.insert(member, normalized);
    }
}

fn signed(value: u128) -> i128 {
    i128::try_from(value).unwrap_or(i128::MAX)
}

/// The observed queues and groups.
#[derive(Debug, Default)]
pub(super) struct Shares {
    /// By group: its parent and its weight.
    tree: Vec<(GroupId, u32)>,
    siblings: BTreeMap<GroupId, Siblings>,
    /// The group that a context's own queue is in.
    home: BTreeMap<ContextId, GroupId>,
    queues: BTreeMap<Member, VecDeque<RequestId>>,
    /// The queue of each waiting request, and its group.
    place_of: BTreeMap<RequestId, (Member, GroupId)>,
    strict: Option<Strict>,
}

/// What mqfq counts in addition.
#[derive(Debug, Default)]
struct Strict {
    /// The queue of each request in flight, and its group.
    inside: BTreeMap<RequestId, (Member, GroupId)>,
    /// Requests in flight of each queue and group.
    in_flight: BTreeMap<Member, u32>,
    /// The largest threshold so far, in the units of service; unknown before the first tunables.
    lead: u128,
    /// How long tags of idle children are kept; None before the first tunables.
    wait: Option<i64>,
    /// Tags may be further apart than the bound says.
    is_unknown: bool,
}

impl Strict {
    fn tuned(&mut self, terms: &Terms) {
        let lead = (u128::from(terms.count("lead")) << UNIT_BITS) / u128::from(WEIGHT_DEFAULT);
        self.lead = self.lead.max(lead);
        let wait = terms.value("wait_us");
        self.is_unknown |= self.wait.is_some_and(|before| before != wait);
        self.wait = Some(wait);
    }

    fn is_in_flight(&self, member: Member) -> bool {
        self.in_flight.get(&member).is_some_and(|count| *count > 0)
    }
}

impl Shares {
    /// With requests in flight: the promise of mqfq.
    pub(super) fn in_flight(terms: &Terms) -> Self {
        let mut strict = Strict::default();
        if !terms.tunables.is_empty() {
            strict.tuned(terms);
        }
        Self { strict: Some(strict), ..Self::default() }
    }

    /// Tunables may have changed.
    pub(super) fn tuned(&mut self, terms: &Terms) {
        if let Some(strict) = &mut self.strict {
            strict.tuned(terms);
        }
    }

    /// A choice that the policy was forced to make may pass over requests in flight.
    pub(super) fn was_forced(&mut self) {
        if let Some(strict) = &mut self.strict {
            strict.is_unknown = true;
        }
    }

    /// Reads the present groups.
    pub(super) fn learn(&mut self, groups: &GroupTree) {
        let settings = (0..groups.capacity()).map(|group| groups.settings(GroupId(group)));
        self.tree.clear();
        self.tree.extend(settings.map(|settings| (settings.parent, settings.clamped_weight())));
    }

    #[cfg(test)]
    fn with_tree(tree: &[(GroupId, u32)]) -> Self {
        Self { tree: tree.to_vec(), ..Self::default() }
    }

    fn above(&self, group: GroupId) -> GroupId {
        self.tree.get(group.0 as usize).map_or(GroupId::ROOT, |(above, _)| *above)
    }

    fn weight_of(&self, member: Member) -> u32 {
        match member {
            Member::Group(group) => self.tree.get(group.0 as usize).map_or(WEIGHT_DEFAULT, |(_, weight)| *weight),
            _ => WEIGHT_DEFAULT,
        }
    }

    /// The context's own queue moves to another group when it is empty.
    fn member_for(&mut self, attributes: &Attributes) -> Member {
        let (context, group) = (attributes.context, attributes.group);
        let own = Member::Context(context);
        let home = self.home.get(&context).copied();
        if home == Some(group) {
            return own;
        }
        if self.queues.get(&own).is_some_and(|queue| !queue.is_empty()) || self.is_in_flight(own) {
            return Member::Strays(group);
        }
        if let Some(home) = home {
            self.leaves(own, home);
        }
        self.home.insert(context, group);
        let siblings = self.siblings.entry(group).or_default();
        siblings.last.insert(own, siblings.left);
        own
    }

    fn is_in_flight(&self, member: Member) -> bool {
        self.strict.as_ref().is_some_and(|strict| strict.is_in_flight(member))
    }

    fn leaves(&mut self, member: Member, group: GroupId) {
        let siblings = self.siblings.entry(group).or_default();
        siblings.left = siblings.left.max(siblings.last.get(&member).copied().unwrap_or_default());
    }

    /// A new group starts at its parent's virtual time, whatever group had its id before.
    pub(super) fn group_added(&mut self, group: GroupId, parent: GroupId) {
        let member = Member::Group(group);
        let siblings = self.siblings.entry(parent).or_default();
        siblings.last.remove(&member);
        let had = siblings.had.get(&member).copied().unwrap_or_default();
        for wait in siblings.waits.values_mut() {
            wait.siblings_from.insert(member, had);
        }
    }

    /// The context's id may be used by another issuer.
    pub(super) fn exited(&mut self, context: ContextId) {
        let own = Member::Context(context);
        if let Some(&home) = self.home.get(&context)
            && self.queues.get(&own).is_none_or(VecDeque::is_empty)
            && !self.is_in_flight(own)
        {
            self.leaves(own, home);
            let siblings = self.siblings.entry(home).or_default();
            siblings.last.insert(own, siblings.left);
        }
    }

    pub(super) fn entered(&mut self, id: RequestId, attributes: &Attributes, is_in_front: bool) {
        let (member, group) = (self.member_for(attributes), attributes.group);
        let queue = self.queues.entry(member).or_default();
        let was_idle = queue.is_empty();
        if is_in_front {
            queue.push_front(id);
        } else {
            queue.push_back(id);
        }
        self.place_of.insert(id, (member, group));
        let (mut member, mut group, mut begins) = (member, group, was_idle);
        while begins {
            let siblings = self.siblings.entry(group).or_default();
            let group_was_idle = siblings.backlogged.is_empty();
            siblings.backlogged.insert(member);
            if !siblings.waits.contains_key(&member) {
                siblings.begins_to_wait(member);
            }
            begins = group != GroupId::ROOT && group_was_idle;
            (member, group) = (Member::Group(group), self.above(group));
        }
    }

    /// It was absorbed by another request.
    pub(super) fn absorbed(&mut self, id: RequestId) {
        let Some((member, group)) = self.place_of.remove(&id) else { return };
        let queue = self.queues.entry(member).or_default();
        queue.retain(|other| *other != id);
        let is_idle = queue.is_empty();
        let (mut member, mut group, mut ends) = (member, group, is_idle);
        while ends {
            self.is_no_longer_backlogged(member, group);
            ends = group != GroupId::ROOT && self.siblings.entry(group).or_default().backlogged.is_empty();
            (member, group) = (Member::Group(group), self.above(group));
        }
    }

    fn is_no_longer_backlogged(&mut self, member: Member, group: GroupId) {
        let still_counts = group == GroupId::ROOT && self.is_in_flight(member);
        let siblings = self.siblings.entry(group).or_default();
        siblings.backlogged.remove(&member);
        if !still_counts {
            siblings.waits.remove(&member);
        }
    }

    /// It completed, or the driver gave it back.
    pub(super) fn left_device(&mut self, id: RequestId) {
        let Some(strict) = &mut self.strict else { return };
        let Some((mut member, mut group)) = strict.inside.remove(&id) else { return };
        loop {
            if let Some(count) = strict.in_flight.get_mut(&member) {
                *count -= 1;
            }
            if group == GroupId::ROOT {
                break;
            }
            (member, group) =
                (Member::Group(group), self.tree.get(group.0 as usize).map_or(GroupId::ROOT, |(above, _)| *above));
        }
        let root = self.siblings.entry(GroupId::ROOT).or_default();
        if !strict.is_in_flight(member) && !root.backlogged.contains(&member) {
            root.waits.remove(&member);
        }
    }

    /// By how much a sibling's service may exceed that of a member of this group besides one
    /// request of each; None if that is not promised.
    fn lead_in(&self, group: GroupId) -> Option<u128> {
        match &self.strict {
            None => Some(0),
            Some(strict) => (group == GroupId::ROOT && !strict.is_unknown).then_some(2 * strict.lead),
        }
    }

    pub(super) fn chosen(&mut self, id: RequestId, attributes: &Attributes, terms: &Terms) -> Result<u64, Broken> {
        let Some((member, group)) = self.place_of.remove(&id) else { return Ok(0) };
        let queue = self.queues.entry(member).or_default();
        let first = queue.pop_front();
        if first != Some(id) {
            return Err(format!("P7: #{} was chosen, {first:?} is the oldest of {member:?}", id.slot()));
        }
        let cost = cost(attributes, terms);
        let (mut member, mut group, mut is_idle, mut passed) = (member, group, queue.is_empty(), 0);
        if let Some(strict) = &mut self.strict {
            strict.inside.insert(id, (member, group));
        }
        loop {
            let (weight, lead) = (self.weight_of(member), self.lead_in(group));
            let siblings = self.siblings.entry(group).or_default();
            if let Some(lead) = lead {
                passed += siblings.passes(member, lead)?;
            }
            siblings.serve(member, cost, weight);
            if let Some(strict) = &mut self.strict {
                *strict.in_flight.entry(member).or_default() += 1;
            }
            if is_idle {
                self.is_no_longer_backlogged(member, group);
            }
            is_idle = self.siblings.entry(group).or_default().backlogged.is_empty();
            if group == GroupId::ROOT {
                return Ok(passed);
            }
            (member, group) = (Member::Group(group), self.above(group));
        }
    }
}

fn cost(attributes: &Attributes, terms: &Terms) -> u64 {
    let sectors = match attributes.operation {
        Operation::Read | Operation::Write | Operation::ZoneAppend => u64::from(attributes.extent.sectors),
        _ => NO_DATA_COST,
    };
    (sectors + terms.count("request_cost")).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoistway_block::Extent;

    const LIGHT: GroupId = GroupId(1);
    const HEAVY: GroupId = GroupId(2);

    /// Two groups of weights 100 and 300, each with a context that always has two reads of 8
    /// sectors waiting.
    fn play(mut choose: impl FnMut([u64; 2]) -> GroupId) -> Result<u64, Broken> {
        let root = GroupId::ROOT;
        let mut shares = Shares::with_tree(&[(root, 100), (root, 100), (root, 300)]);
        let (mut waiting, mut number) = ([VecDeque::new(), VecDeque::new()], 0);
        let (mut served, mut passed) = ([0; 2], 0);
        for _ in 0..200 {
            for (queue, group) in waiting.iter_mut().zip([LIGHT, HEAVY]) {
                while queue.len() < 2 {
                    number += 1;
                    let mut attributes = Attributes::new(Operation::Read, Extent::new(0, 8));
                    (attributes.group, attributes.context) = (group, ContextId(group.0));
                    let id = RequestId::new(number, 0);
                    shares.entered(id, &attributes, false);
                    queue.push_back((id, attributes));
                }
            }
            let index = (choose(served).0 - LIGHT.0) as usize;
            served[index] += 1;
            let (id, attributes) = waiting[index].pop_front().unwrap();
            passed += shares.chosen(id, &attributes, &Terms::of("wfq"))?;
        }
        Ok(passed)
    }

    #[test]
    fn service_in_proportion_to_weights_keeps_the_promise() {
        let fair = |[light, heavy]: [u64; 2]| if 3 * light <= heavy { LIGHT } else { HEAVY };
        // Whichever is chosen, the other waits; a group's only queue passes no sibling.
        assert_eq!(play(fair), Ok(200));
    }

    #[test]
    fn equal_turns_break_the_promise_to_the_heavy_one() {
        let what = play(|[light, heavy]| if light <= heavy { LIGHT } else { HEAVY }).unwrap_err();
        assert!(what.contains("Group(GroupId(2)) waits") && what.contains("Group(GroupId(1)) goes before"), "{what}");
    }

    #[test]
    fn a_second_turn_beside_one_that_never_had_any_breaks_it() {
        // Both start at the same tag. One request may go first, whatever the weight of its group.
        let mut turns = 0;
        let what = play(|_| {
            turns += 1;
            HEAVY
        });
        assert!(what.is_err(), "{what:?}");
        assert_eq!(turns, 2);
    }

    /// Two contexts of the root: one has a single request, which is chosen first and stays in the
    /// device; the other is then served `turns` times.
    fn beside_one_in_flight(name: &str, lead: i64, turns: u32) -> Result<u64, Broken> {
        let terms = Terms { tunables: [("lead", lead), ("wait_us", 100)].into(), ..Terms::of(name) };
        let mut shares = if name == "mqfq" { Shares::in_flight(&terms) } else { Shares::default() };
        let of = |context: u32| Attributes {
            context: ContextId(context),
            ..Attributes::new(Operation::Read, Extent::new(0, 8))
        };
        shares.entered(RequestId::new(0, 0), &of(1), false);
        for turn in 1..=turns {
            shares.entered(RequestId::new(turn, 0), &of(2), false);
        }
        let mut passed = shares.chosen(RequestId::new(0, 0), &of(1), &terms)?;
        for turn in 1..=turns {
            passed += shares.chosen(RequestId::new(turn, 0), &of(2), &terms)?;
        }
        shares.left_device(RequestId::new(0, 0));
        shares.entered(RequestId::new(turns + 1, 0), &of(2), false);
        // With the other one gone, no request is passed.
        assert_eq!(shares.chosen(RequestId::new(turns + 1, 0), &of(2), &terms)?, 0);
        Ok(passed)
    }

    #[test]
    fn mqfq_counts_requests_in_flight_and_its_threshold() {
        assert_eq!(beside_one_in_flight("wfq", 0, 10), Ok(1), "no other queue is backlogged beside the second");
        assert_eq!(beside_one_in_flight("mqfq", 0, 2), Ok(3));
        let what = beside_one_in_flight("mqfq", 0, 3).unwrap_err();
        assert!(what.contains("Context(ContextId(1)) waits"), "{what}");
        // A threshold of 8 sectors on either side is two requests more.
        assert!(beside_one_in_flight("mqfq", 8, 4).is_ok());
        assert!(beside_one_in_flight("mqfq", 8, 5).is_err());
    }

    #[test]
    fn mqfq_is_not_checked_after_a_change_of_its_patience() {
        let terms = |wait| Terms { tunables: [("lead", 0), ("wait_us", wait)].into(), ..Terms::of("mqfq") };
        let mut shares = Shares::in_flight(&terms(100));
        shares.tuned(&terms(100));
        assert_eq!(shares.lead_in(GroupId::ROOT), Some(0));
        shares.tuned(&terms(101));
        assert_eq!(shares.lead_in(GroupId::ROOT), None);
    }

    #[test]
    fn a_queue_goes_in_order() {
        let mut shares = Shares::default();
        let read = Attributes::new(Operation::Read, Extent::new(0, 8));
        let [older, newer, front] = [0, 1, 2].map(|slot| RequestId::new(slot, 0));
        shares.entered(older, &read, false);
        shares.entered(newer, &read, false);
        shares.entered(front, &read, true);
        assert_eq!(shares.chosen(front, &read, &Terms::of("wfq")), Ok(0));
        let what = shares.chosen(newer, &read, &Terms::of("wfq")).unwrap_err();
        assert!(what.contains("is the oldest of Context"), "{what}");
    }
}
