//! Who is first where: the two wheels of each group, and when a member that has nothing is forgotten.

use super::Paternoster;
use super::state::{Group, Member, Place, mark};
use super::wheel::{Seats, is_later};
use crate::structures::{Array, NIL};
use block::Nanos;
use block::time::MILLISECOND;

/// A member that has nothing is expected back for so many residences.
const LINGER_RESIDENCES: u64 = 16;
const LINGER_NS: core::ops::RangeInclusive<Nanos> = 2 * MILLISECOND..=50 * MILLISECOND;

impl Seats for Array<Member> {
    #[inline]
    fn vt(&self, child: u32) -> u64 {
        self.at(child).vt
    }

    #[inline]
    fn slot(&self, child: u32) -> u8 {
        self.at(child).slot()
    }

    #[inline]
    fn set_slot(&mut self, child: u32, slot: u8) {
        self.at_mut(child).set_slot(slot);
    }
}

impl Paternoster {
    /// To where its virtual time belongs in one of its parent's wheels, from wherever it was. What lies further back than the
    /// floor is forgotten.
    #[inline(never)]
    pub(super) fn seat(&mut self, member: u32, place: Place) {
        let Self { members, groups, chains, .. } = self;
        let state = members.at_mut(member);
        let group = groups.at_mut(state.parent);
        if is_later(group.floor_vt, state.vt) {
            state.vt = group.floor_vt;
        }
        let is_out = match state.place() {
            Place::Inactive => {
                group.weight_sum = group.weight_sum.wrapping_add(u64::from(state.weight()));
                true
            }
            Place::Ready => group.ready.remove(chains, state.slot(), member),
            Place::Wait => group.wait.remove(chains, state.slot(), member),
        };
        let wheel = if place == Place::Ready { &mut group.ready } else { &mut group.wait };
        let slot = wheel.insert(chains, state.vt, member);
        state.settle(place, slot.unwrap_or(state.slot()));
        self.must(is_out && slot.is_some());
    }

    /// As [`Self::seat`], for one that waits and has something again.
    #[inline(always)]
    pub(super) fn ready_from_wait(&mut self, member: u32) {
        let Self { members, groups, chains, .. } = self;
        let state = members.at_mut(member);
        let group = groups.at_mut(state.parent);
        if is_later(group.floor_vt, state.vt) {
            state.vt = group.floor_vt;
        }
        let Group { ready, wait, .. } = group;
        let slot = wait.hand_over(ready, chains, state.slot(), state.vt, member);
        state.settle(Place::Ready, slot.unwrap_or(0));
        self.must(slot.is_some());
    }

    #[inline(never)]
    pub(super) fn leave_wheel(&mut self, member: u32) {
        let Self { members, groups, chains, .. } = self;
        let state = members.at_mut(member);
        let group = groups.at_mut(state.parent);
        let wheel = match state.place() {
            Place::Inactive => return,
            Place::Ready => &mut group.ready,
            Place::Wait => &mut group.wait,
        };
        let is_out = wheel.remove(chains, state.slot(), member);
        state.settle(Place::Inactive, 0);
        group.weight_sum = group.weight_sum.saturating_sub(u64::from(state.weight()));
        self.must(is_out);
    }

    /// The member of the smallest virtual time in a wheel of a group, or NIL.
    #[inline(always)]
    pub(super) fn first_of(&mut self, group: u32, place: Place) -> u32 {
        let state = self.groups.at_mut(group);
        let floor = state.floor_vt;
        let wheel = if place == Place::Ready { &mut state.ready } else { &mut state.wait };
        let (first, is_far) = wheel.look(&self.members);
        if first == NIL || (!is_far && !wheel.is_disordered() && self.may_stay(first, place, floor)) {
            return first;
        }
        self.first_after_amending(group, place)
    }

    #[inline(never)]
    fn first_after_amending(&mut self, group: u32, place: Place) -> u32 {
        let mut moves = 0;
        // Those that are found below the floor, or forgotten, are looked at once each, and others moved on in between.
        for _ in 0..self.members.len().saturating_mul(64) {
            let Self { members, groups, chains, .. } = self;
            let state = groups.at_mut(group);
            let floor = state.floor_vt;
            let wheel = if place == Place::Ready { &mut state.ready } else { &mut state.wait };
            let (first, is_far) = wheel.look(members);
            if first == NIL {
                return NIL;
            }
            if is_far && moves < wheel.len() {
                moves = moves.wrapping_add(1);
                wheel.move_on(chains, members, first);
                continue;
            }
            if is_far {
                wheel.give_up();
            }
            if wheel.is_disordered() {
                self.disordered = group;
            }
            if self.may_stay(first, place, floor) {
                return first;
            }
            self.amend(first, place);
            moves = 0;
        }
        NIL
    }

    /// Neither too far back nor to be forgotten.
    #[inline]
    pub(super) fn may_stay(&self, member: u32, place: Place, floor: u64) -> bool {
        let is_over = place == Place::Wait && self.is_over(member);
        !is_over && !is_later(floor, self.members.at(member).vt)
    }

    /// One that was found too far back, or is to be forgotten.
    #[inline(always)]
    fn amend(&mut self, member: u32, place: Place) {
        if place == Place::Wait && self.is_over(member) {
            self.leave_wheel(member);
        } else {
            self.seat(member, place);
        }
    }

    /// Wheels in which somebody was found far from his place.
    #[inline(never)]
    pub(super) fn put_in_order(&mut self) {
        let group = self.groups.at_mut(core::mem::replace(&mut self.disordered, NIL));
        for wheel in [&mut group.ready, &mut group.wait] {
            if wheel.is_disordered() {
                wheel.gather(&mut self.chains, &mut self.members);
            }
        }
    }

    fn linger_ns(&self) -> Nanos {
        if self.give() >= 100 {
            return 0;
        }
        self.residence_ns.saturating_mul(LINGER_RESIDENCES).clamp(*LINGER_NS.start(), *LINGER_NS.end())
    }

    /// Has nothing, and is expected back no more.
    #[inline]
    pub(super) fn is_over(&self, member: u32) -> bool {
        let state = self.members.at(member);
        state.queued == 0 && state.in_flight == 0 && self.is_forgotten(state)
    }

    #[inline(never)]
    fn is_forgotten(&self, state: &Member) -> bool {
        state.ghosts.live(self.generation) == 0 && self.now > state.last_done_ns.saturating_add(self.linger_ns())
    }

    pub(super) fn nearest_online(&self, group: u32) -> u32 {
        let mut at = group;
        for _ in 0..self.groups.len() {
            let state = self.members.at(self.group_member(at));
            if state.is(mark::ONLINE) || at == super::state::ROOT {
                return at;
            }
            at = state.parent;
        }
        super::state::ROOT
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::GroupSettings;
    use crate::interface::{Configuration, Dispatch, Elevator, Hint, Policy, Position};
    use crate::request::{Attributes, Place as At, Requests};
    use alloc::vec::Vec;
    use block::{ContextId, Extent, GroupId, HardwareQueue, Operation};

    /// Who is sent, with all virtual times begun at `begin`: weights 1 and 3, everybody always waiting, four inside.
    fn order(begin: u64) -> Vec<u32> {
        let mut policy = Paternoster::build(&Configuration::default(), ()).unwrap();
        for (group, weight) in [(1, 1), (2, 3)] {
            policy.group_added(GroupId(group), &GroupSettings::with_weight(weight), 0);
        }
        for member in 0..policy.members.len() {
            policy.members.at_mut(member).vt = begin;
        }
        for group in 0..policy.groups.len() {
            policy.groups.at_mut(group).floor_vt = begin;
        }
        let mut requests = Requests::try_new(256).unwrap();
        let mut now = 1_000_000;
        let ask = |policy: &mut Paternoster, requests: &mut Requests, group: u32, now: u64| {
            let mut bio = Attributes::new(Operation::Read, Extent::new(now, 8));
            (bio.group, bio.context) = (GroupId(group), ContextId(group));
            let id = requests.allocate(bio, now).unwrap();
            policy.allocated(requests, id, now);
            requests.move_to(id, At::Queued);
            let _ = policy.insert(requests, id, Position::Sorted(Hint::None), now);
        };
        for _ in 0..8 {
            ask(&mut policy, &mut requests, 1, now);
            ask(&mut policy, &mut requests, 2, now);
        }
        let (mut inside, mut sent) = (Vec::new(), Vec::new());
        for _ in 0..4_000 {
            now += 10_000;
            while inside.len() < 4 {
                let Dispatch::Request { id, .. } = policy.choose(&requests, HardwareQueue(0), now) else { break };
                requests.move_to(id, At::Dispatched);
                requests.move_to(id, At::Started);
                sent.push(requests.attributes(id).group.0);
                inside.push(id);
            }
            let id = inside.remove(0);
            requests.move_to(id, At::Complete);
            let group = requests.attributes(id).group.0;
            let _ = policy.completed(&requests, id, now);
            let _ = policy.released(&requests, id, now);
            policy.freed(&requests, id, now);
            requests.free(id);
            ask(&mut policy, &mut requests, group, now);
        }
        policy.check(&requests).unwrap();
        assert_eq!(policy.violations(), 0);
        sent
    }

    /// t31: a request of weight 1 moves virtual time on by 2^28, so it wraps early in these.
    #[test]
    fn virtual_time_may_wrap() {
        let plain = order(0);
        let of = |sent: &[u32]| sent.iter().filter(|group| **group == 1).count();
        assert!((980..=1_020).contains(&of(&plain)), "{}", of(&plain));
        for begin in [u64::MAX - (1 << 20) + 1, u64::MAX - (1 << 34), (1 << 63) - (1 << 34)] {
            let sent = order(begin);
            assert!(of(&sent).abs_diff(of(&plain)) <= 2, "{begin:x}: {}", of(&sent));
            // In every part of the way, not only in the sum.
            for window in sent.chunks_exact(400) {
                assert!((97..=103).contains(&of(window)), "{begin:x}: {}", of(window));
            }
        }
    }
}
