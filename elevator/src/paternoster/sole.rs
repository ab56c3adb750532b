//! One issuer alone: while nobody else has requests or is expected to have any, there is no order to keep.
//!
//! What a request changes outside its leaf is left out then (the lines of all, wheels, groups above), and made up for as soon
//! as anything else than its next request comes. Every answer is what it would be without this.

use super::lines::{Line, Links};
use super::state::{Held, Member, Place, ROOT, Slot, mark};
use super::tally::Tallies;
use super::{Paternoster, Why};
use crate::interface::{Dispatch, Wake};
use crate::request::{Bio, Requests};
use crate::structures::NIL;
use block::{Class, ContextId, Direction, GroupId, Nanos, Priority, RequestId};

/// Choices in a row at which an issuer was alone before this begins: so many pay for its begin and its end.
const ALONE_FOR: u32 = 16;

/// Who is alone, if anybody is.
#[derive(Debug)]
pub struct Sole {
    /// Its leaf, or NIL.
    pub leaf: u32,
    /// Whose requests go there.
    context: ContextId,
    group: GroupId,
    priority: Priority,
    /// Where its reads are counted; its writes are one further.
    tally: u32,
    /// Choices in a row at which one was alone.
    choices: u32,
}

impl Sole {
    pub const NOBODY: Sole =
        Sole { leaf: NIL, context: ContextId(0), group: GroupId::ROOT, priority: Priority::NONE, tally: 0, choices: 0 };

    /// Whether somebody who is alone at this choice has been so for long enough.
    #[inline(always)]
    pub fn is_due(&self) -> bool {
        self.choices.wrapping_add(1) >= ALONE_FOR
    }

    /// A choice at which one was alone, or not.
    #[inline(always)]
    pub fn count(&mut self, is_alone: bool) {
        self.choices = if is_alone { self.choices.wrapping_add(1) } else { 0 };
    }

    /// Whether a newcomer is the next request of who is alone.
    #[inline(always)]
    pub fn takes(&self, request: &Bio) -> bool {
        self.leaf != NIL
            && request.context == self.context
            && request.group == self.group
            && request.priority == self.priority
            && request.is_sync()
    }
}

impl Paternoster {
    #[inline(never)]
    pub(super) fn insert_of_sole(&mut self, id: RequestId, request: &Bio, now: Nanos) -> Wake {
        if !self.begin_insertion(id, now) {
            return Wake::No;
        }
        let (slot, leaf) = (id.slot(), self.sole.leaf);
        let is_read = request.direction() == Direction::Read;
        let bytes = request.extent.sectors.saturating_mul(512);
        let tally = self.sole.tally.wrapping_add(u32::from(!is_read));
        let generation = self.generation;
        let state = self.members.at_mut(leaf);
        state.held = state.held.wrapping_add(1);
        state.queued = state.queued.wrapping_add(1);
        state.note_newest(bytes, true);
        state.ghosts.take(generation);
        state.note_return(now);
        // One line serves as both: they are the same.
        let place = state.line.push_back_twice(&mut self.links, slot);
        *self.links.at_mut(slot) = Links { place, age: place };
        let (held, class) = (Held::Queued, Class::BestEffort);
        *self.slots.at_mut(slot) = Slot { id, leaf, bytes, tally, since_ns: now, held, class, is_sync: true, is_read };
        self.queued_total = self.queued_total.wrapping_add(1);
        let queued = &mut self.tallies.at_mut(tally).queued;
        *queued = queued.wrapping_add(1);
        // Nothing is held back while one is alone.
        Wake::All
    }

    /// It is time to look at more than the leaf, or the device has as many as it may.
    #[inline(always)]
    pub(super) fn has_more_to_look_at(&self) -> bool {
        self.now >= self.look_ns || self.now >= self.overdue_from_ns || u64::from(self.inside) << 4 >= self.cap_q4
    }

    /// The next request of who is alone.
    #[inline(never)]
    pub(super) fn choose_of_sole(&mut self) -> Dispatch {
        self.roll_generation();
        let (now, leaf) = (self.now, self.sole.leaf);
        let Some(slot) = self.members.at(leaf).line.first() else { return Dispatch::Empty };
        let entry = self.slots.at_mut(slot);
        entry.held = Held::Dispatched;
        let came_ns = core::mem::replace(&mut entry.since_ns, now);
        let (id, bytes, tally) = (entry.id, entry.bytes, entry.tally);
        self.queued_total = self.queued_total.wrapping_sub(1);
        let charge = self.charge_of(bytes);
        let state = self.members.at_mut(leaf);
        state.queued = state.queued.wrapping_sub(1);
        state.in_flight = state.in_flight.wrapping_add(1);
        state.line.unlink_first(self.links.at(slot).place);
        let increment = state.go_on(charge);
        let parent = state.parent;
        let increment = if parent == ROOT { increment } else { self.groups_go_on(parent, charge) };
        self.longest_stride = self.longest_stride.max(increment);
        self.charged = self.charged.wrapping_add(charge);
        self.enter_device(tally, bytes, came_ns);
        Dispatch::Request { id, reason: Why::FirstInOrder.into() }
    }

    /// Virtual time of the groups above runs on; answers by how much that of the topmost one did.
    #[inline(never)]
    fn groups_go_on(&mut self, group: u32, charge: u64) -> u64 {
        let mut group = group;
        loop {
            let state = self.members.at_mut(self.group_member(group));
            let increment = state.go_on(charge);
            group = state.parent;
            if group == ROOT {
                return increment;
            }
        }
    }

    /// One of its requests is done: its leaf, which is answered, is all that changes.
    #[inline(always)]
    pub(super) fn one_done_of_sole(&mut self) -> &mut Member {
        let (now, generation, half_ns) = (self.now, self.generation, self.residence_ns / 2);
        let state = self.members.at_mut(self.sole.leaf);
        state.in_flight = state.in_flight.wrapping_sub(1);
        state.last_done_ns = now;
        state.marks |= mark::WAITS;
        if u64::from(state.think_ns) <= half_ns {
            state.ghosts.add(generation);
        }
        state
    }

    /// A request is the first in order: whether it has been so for long enough, with nobody else below the root.
    #[inline(always)]
    pub(super) fn is_alone_for_long(&mut self) -> bool {
        let is_alone = self.is_alone_in(ROOT);
        self.sole.count(is_alone);
        self.sole.choices >= ALONE_FOR
    }

    /// The issuer of the first in order counts as alone from now on, if it is.
    #[inline(never)]
    pub(super) fn begin_sole(&mut self, slot: u32, requests: &Requests) {
        self.sole.choices = 0;
        let entry = self.slots.at(slot);
        let (leaf, request) = (entry.leaf, *requests.attributes(entry.id));
        if !self.is_sole(leaf, &request) {
            return;
        }
        // Its line and that of all are the same, and so are the links in them.
        self.sole = Sole {
            leaf,
            context: request.context,
            group: request.group,
            priority: request.priority,
            tally: Tallies::number(request.group.0, true, true),
            choices: 0,
        };
    }

    /// Nobody else has anything anywhere, and the groups above count what the leaf does.
    fn is_sole(&mut self, leaf: u32, request: &Bio) -> bool {
        // On a disk requests are kept by place as well.
        let is_flash = !self.is_rotational && self.ladder.is_flow_for_good();
        let is_plain = self.direct.is_empty() && self.queued_of_classes == 0 && !self.messages.is_on();
        let is_its =
            self.known_leaf(request.context.0) == leaf && request.is_sync() && request.class() == Class::BestEffort;
        if !is_plain || !is_its || !is_flash || self.disordered != NIL {
            return false;
        }
        let generation = self.generation;
        self.ghosts.roll(generation);
        self.members.at_mut(leaf).ghosts.roll(generation);
        let own = *self.members.at(leaf);
        let is_owned = own.marks & (mark::OWNED | mark::ASYNC) == mark::OWNED;
        let is_known = own.parent == request.group.0 && own.is_of(request.priority);
        if !is_owned || !is_known || own.ghosts != self.ghosts {
            return false;
        }
        let mut group = own.parent;
        let mut is_alone = self.is_alone_in(group);
        while group != ROOT {
            let member = self.members.at_mut(self.group_member(group));
            member.ghosts.roll(generation);
            is_alone &= member.is(mark::ONLINE) && member.counts_as(&own);
            group = member.parent;
            is_alone &= self.is_alone_in(group);
        }
        is_alone
    }

    #[inline(always)]
    fn is_alone_in(&self, group: u32) -> bool {
        self.groups.at(group).has_one()
    }

    /// Somebody else may come, or look: everything is where it belongs again.
    #[inline(always)]
    pub(super) fn end_sole(&mut self) {
        if self.sole.leaf != NIL {
            self.make_up();
        }
    }

    #[inline(never)]
    fn make_up(&mut self) {
        let leaf = core::mem::replace(&mut self.sole.leaf, NIL);
        let own = *self.members.at(leaf);
        self.oldest = own.line;
        self.ghosts = own.ghosts;
        let mut member = leaf;
        loop {
            let state = self.members.at_mut(member);
            state.follow(&own);
            let (parent, place) = (state.parent, if own.queued > 0 { Place::Ready } else { Place::Wait });
            self.seat(member, place);
            if parent == ROOT {
                return;
            }
            member = self.group_member(parent);
        }
    }

    /// The line of all by age.
    pub(super) fn line_of_all(&self) -> Line {
        if self.sole.leaf == NIL { self.oldest } else { self.members.at(self.sole.leaf).line }
    }

    /// Whether what is noted of a member waits for the end of somebody's being alone.
    pub(super) fn is_above_sole(&self, member: u32) -> bool {
        let mut at = self.sole.leaf;
        while at != NIL {
            if at == member {
                return true;
            }
            at = self.parent_member(at);
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::GroupSettings;
    use crate::interface::{Configuration, Depth, Elevator, Hint, Policy, Position, Side};
    use crate::request::{Attributes, Place as At};
    use alloc::format;
    use alloc::vec::Vec;
    use block::random::Stream;
    use block::{Extent, Flags, HardwareQueue, Operation};

    const GROUPS: u32 = 5;
    const CONTEXTS: u32 = 6;

    /// The same calls to two policies, one of which is traced, so that nobody ever counts as alone there: every answer is compared.
    struct Pair {
        policies: [Paternoster; 2],
        requests: Requests,
        random: Stream,
        now: Nanos,
        queued: Vec<RequestId>,
        inside: Vec<RequestId>,
        parents: [u32; GROUPS as usize],
        sectors: u64,
        chosen_of_sole: u32,
        begun: u32,
        label: u64,
    }

    impl Pair {
        fn new(seed: u64) -> Self {
            let depth = Depth { requests: 64, device: 1 + u32::try_from(seed % 16).unwrap() };
            let configuration =
                Configuration { slots: 64, groups: GROUPS, contexts: CONTEXTS, depth, ..Configuration::default() };
            let mut policies = [(); 2].map(|()| Paternoster::build(&configuration, ()).unwrap());
            policies[1].trace(true);
            let mut pair = Self {
                policies,
                requests: Requests::try_new(64).unwrap(),
                random: Stream::of(seed, "paternoster/sole"),
                now: 1_000_000_000,
                queued: Vec::new(),
                inside: Vec::new(),
                parents: [0; GROUPS as usize],
                sectors: 0,
                chosen_of_sole: 0,
                begun: 0,
                label: seed,
            };
            for group in 1..GROUPS {
                pair.add_group(group);
            }
            let give = [3, 100, 0, 30][(seed / 16 % 4) as usize];
            pair.same(|policy, _, _| policy.set(0, give).is_ok());
            pair
        }

        fn below(&mut self, bound: u64) -> u32 {
            u32::try_from(self.random.below(bound)).unwrap()
        }

        /// The answer of both.
        fn same<A: PartialEq + core::fmt::Debug>(
            &mut self,
            call: impl Fn(&mut Paternoster, &Requests, Nanos) -> A,
        ) -> A {
            let was_alone = self.policies[0].sole.leaf != NIL;
            let [one, other] = &mut self.policies;
            let answer = call(one, &self.requests, self.now);
            assert_eq!(answer, call(other, &self.requests, self.now), "seed {} at {}", self.label, self.now);
            self.begun += u32::from(!was_alone && one.sole.leaf != NIL);
            assert_eq!(one.next_timer(), other.next_timer(), "seed {} at {}", self.label, self.now);
            assert_eq!(one.has_work(HardwareQueue(0)), other.has_work(HardwareQueue(0)), "seed {}", self.label);
            while other.take_message().is_some() {}
            answer
        }

        fn add_group(&mut self, group: u32) {
            let mut settings = GroupSettings::with_weight(1 + self.below(1000));
            let parent = if group > 2 { self.below(u64::from(group - 1)) } else { 0 };
            self.parents[group as usize] = parent;
            settings.parent = GroupId(parent);
            self.same(|policy, _, now| policy.group_added(GroupId(group), &settings, now));
        }

        fn ask(&mut self, context: u32, group: u32, is_odd: bool) {
            if self.queued.len() + self.inside.len() >= 40 {
                return;
            }
            let sectors = if self.below(3) == 0 { 8 << self.below(6) } else { 8 };
            self.sectors += 4096;
            let mut bio = Attributes::new(Operation::Read, Extent::new(self.sectors, sectors));
            (bio.context, bio.group) = (ContextId(context), GroupId(group));
            if self.below(4) == 0 {
                (bio.operation, bio.flags) = (Operation::Write, Flags::SYNC);
            }
            if is_odd {
                match self.below(5) {
                    0 => (bio.operation, bio.flags) = (Operation::Write, Flags::NONE),
                    1 => bio.priority = Priority::new(Class::RealTime, 4),
                    2 => bio.priority = Priority::new(Class::Idle, 7),
                    3 => bio.priority = Priority::new(Class::BestEffort, 2),
                    _ => {}
                }
            }
            let id = self.requests.allocate_queued(bio, self.now).unwrap();
            self.same(|policy, requests, now| policy.allocated(requests, id, now));
            let _ = self.same(|policy, requests, now| policy.insert_newcomer(requests, id, &bio, now));
            self.queued.push(id);
        }

        fn choose(&mut self) {
            let was_alone = self.policies[0].sole.leaf != NIL;
            let answer = self.same(|policy, requests, now| policy.choose(requests, HardwareQueue(0), now));
            if let Dispatch::Request { id, .. } = answer {
                self.chosen_of_sole += u32::from(was_alone && self.policies[0].sole.leaf != NIL);
                self.queued.retain(|other| *other != id);
                self.requests.move_to(id, At::Dispatched);
                self.requests.move_to(id, At::Started);
                self.inside.push(id);
            } else if let Dispatch::Hold { until, .. } = answer {
                self.now = self.now.max(until);
                let _ = self.same(|policy, requests, now| policy.timer(requests, now));
            }
        }

        fn forget(&mut self, id: RequestId) {
            self.same(|policy, requests, now| policy.freed(requests, id, now));
            self.requests.free(id);
        }

        fn complete(&mut self) {
            if self.inside.is_empty() {
                return;
            }
            let at = self.below(self.inside.len() as u64) as usize;
            let id = self.inside.remove(at);
            self.requests.move_to(id, At::Complete);
            if self.below(2) == 0 {
                let _ = self.same(|policy, requests, now| policy.completed_and_released(requests, id, now));
            } else {
                let _ = self.same(|policy, requests, now| policy.completed(requests, id, now));
                let _ = self.same(|policy, requests, now| policy.released(requests, id, now));
            }
            self.forget(id);
        }

        fn merge(&mut self) {
            let Some(id) = self.queued.last().copied() else { return };
            let mut bio = *self.requests.attributes(id);
            bio.extent.sectors = 8;
            if self.same(|policy, requests, _| policy.may_merge(requests, id, &bio)) {
                self.requests.live_mut(id).unwrap().attributes.extent.sectors += 8;
                self.same(|policy, requests, now| policy.bio_merged(requests, id, Side::Back, now));
            }
        }

        fn absorb(&mut self) {
            let Some((gone, rest)) = self.queued.split_last() else { return };
            let (gone, Some(keep)) = (*gone, rest.last().copied()) else { return };
            let sectors = self.requests.attributes(gone).extent.sectors;
            self.requests.live_mut(keep).unwrap().attributes.extent.sectors += sectors;
            self.same(|policy, requests, now| policy.requests_merged(requests, keep, gone, now));
            let _ = self.same(|policy, requests, now| policy.released(requests, gone, now));
            self.queued.pop();
            self.requests.move_to(gone, At::Complete);
            self.forget(gone);
        }

        fn give_back(&mut self) {
            let Some(id) = self.inside.pop() else { return };
            self.requests.move_to(id, At::Plugged);
            let _ = self.same(|policy, requests, now| policy.requeued(requests, id, now));
            self.requests.move_to(id, At::Queued);
            let _ = self.same(|policy, requests, now| policy.insert(requests, id, Position::Requeue, now));
            self.queued.push(id);
        }

        fn drain(&mut self) {
            while let Some(id) = self.same(|policy, requests, now| policy.drain(requests, now)) {
                self.queued.retain(|other| *other != id);
                self.requests.move_to(id, At::Plugged);
                let _ = self.same(|policy, requests, now| policy.released(requests, id, now));
                self.requests.move_to(id, At::Queued);
                let _ =
                    self.same(|policy, requests, now| policy.insert(requests, id, Position::Sorted(Hint::None), now));
                self.queued.push(id);
                if self.below(3) > 0 {
                    break;
                }
            }
        }

        /// What is seldom.
        fn disturb(&mut self) {
            let group = 1 + self.below(u64::from(GROUPS) - 1);
            match self.below(14) {
                0 => self.drain(),
                1 => self.give_back(),
                2 => {
                    let settings = GroupSettings::with_weight(1 + self.below(1000));
                    let _ = self.same(|policy, _, now| policy.group_changed(GroupId(group), &settings, now));
                }
                3 => {
                    let context = ContextId(self.below(u64::from(CONTEXTS)));
                    let _ = self.same(|policy, _, now| policy.context_exited(context, now));
                }
                4 => {
                    let depth = Depth { requests: 64, device: 1 + self.below(32) };
                    self.same(|policy, _, _| policy.depth_changed(depth));
                }
                5 => {
                    let give = i64::from([0, 3, 30, 100][self.below(4) as usize]);
                    self.same(|policy, _, _| policy.set(0, give).is_ok());
                }
                6 => self.same(|policy, _, now| policy.group_offline(GroupId(group), now)),
                7 => {
                    let is_latency = self.below(2) == 0;
                    let row = Paternoster::tunables(&self.policies[0]).iter().position(|row| row.name == "lat_us");
                    let value = if is_latency { 100 } else { 0 };
                    self.same(|policy, _, _| policy.set(row.unwrap(), value).is_ok());
                }
                8 => {
                    let settled = self.policies.each_ref().map(|policy| policy.group_account(GroupId(group)));
                    assert_eq!(settled[0], settled[1]);
                }
                9 if self.queued.is_empty() && self.inside.is_empty() => {
                    // Children first.
                    for group in (1..GROUPS).rev() {
                        self.same(|policy, _, now| policy.group_offline(GroupId(group), now));
                        self.same(|policy, _, now| policy.group_removed(GroupId(group), now));
                    }
                    for group in 1..GROUPS {
                        self.add_group(group);
                    }
                }
                10 => self.merge(),
                11 => self.absorb(),
                12 => self.now += 1 << self.below(36),
                _ => {
                    let (context, group) = (self.below(u64::from(CONTEXTS) + 2), self.below(u64::from(GROUPS)));
                    self.ask(context, group, true);
                }
            }
        }

        fn step(&mut self, lone: Option<(u32, u32)>) {
            self.now += u64::from(self.below(60_000));
            match self.below(9) {
                0..3 => {
                    let (context, group) =
                        lone.unwrap_or((self.below(u64::from(CONTEXTS)), self.below(u64::from(GROUPS))));
                    self.ask(context, group, false);
                }
                3..6 => self.choose(),
                _ => self.complete(),
            }
        }

        /// All that is kept of leaves and groups is what it would be.
        fn compare(&mut self) {
            for policy in &self.policies {
                policy.check(&self.requests).unwrap();
                assert_eq!(policy.violations(), 0, "seed {}", self.label);
            }
            for policy in &mut self.policies {
                policy.end_sole();
                policy.check(&self.requests).unwrap();
                // What has expired is the same whether it was looked at or not.
                let generation = policy.generation;
                policy.ghosts.roll(generation);
                policy.members.iter_mut().for_each(|member| member.ghosts.roll(generation));
            }
            let [one, other] = &self.policies;
            for (member, twin) in one.members.iter().zip(other.members.iter()) {
                assert_eq!(format!("{member:?}"), format!("{twin:?}"), "seed {}", self.label);
            }
            assert_eq!((one.ghosts, one.oldest), (other.ghosts, other.oldest), "seed {}", self.label);
            assert_eq!(format!("{:?}", one.walker), format!("{:?}", other.walker), "seed {}", self.label);
        }
    }

    #[test]
    fn answers_are_those_without_a_short_cut() {
        let (mut chosen, mut begun) = (0, 0);
        for seed in 0..if cfg!(miri) { 2 } else { 192 } {
            let mut pair = Pair::new(seed);
            for _ in 0..40 {
                let lone =
                    (pair.below(8) > 0).then(|| (pair.below(u64::from(CONTEXTS)), pair.below(u64::from(GROUPS))));
                let most = 1 << (3 + pair.below(9));
                let calm = [30, 300, 3000][pair.below(3) as usize];
                if pair.below(2) == 0 {
                    // Long enough for everybody else to be forgotten.
                    pair.now += 200_000_000;
                }
                for _ in 0..most {
                    pair.step(lone);
                    if pair.below(calm) == 0 {
                        pair.disturb();
                    }
                }
                pair.compare();
            }
            (chosen, begun) = (chosen + pair.chosen_of_sole, begun + pair.begun);
        }
        // Otherwise nothing was compared.
        assert!(chosen > 10_000 && begun > 500, "{chosen} chosen, {begun} begun");
    }
}
