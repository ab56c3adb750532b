//! Who is first where: the two wheels of each group, and when a member that has nothing is forgotten.

use super::Paternoster;
use super::state::{Member, Place};
use super::wheel::{Seat, Seats, is_later};
use crate::structures::{Array, NIL};
use block::Nanos;
use block::time::MILLISECOND;

/// A member that has nothing is expected back for so many residences.
const LINGER_RESIDENCES: u64 = 16;
const LINGER_NS: core::ops::RangeInclusive<Nanos> = 2 * MILLISECOND..=50 * MILLISECOND;

impl Seats for Array<Member> {
    #[inline]
    fn seat(&self, child: u32) -> &Seat {
        &self.at(child).seat
    }

    #[inline]
    fn seat_mut(&mut self, child: u32) -> &mut Seat {
        &mut self.at_mut(child).seat
    }
}

impl Paternoster {
    #[inline(never)]
    pub(super) fn enter_wheel(&mut self, member: u32, place: Place) {
        let parent = self.members.at(member).parent;
        let weight = u64::from(self.members.at(member).weight);
        self.raise_to_floor(member);
        let group = self.groups.at_mut(parent);
        group.weight_sum = group.weight_sum.wrapping_add(weight);
        let wheel = if place == Place::Ready { &mut group.ready } else { &mut group.wait };
        let is_in = wheel.insert(&mut self.chains, &mut self.members, member);
        self.members.at_mut(member).place = place;
        self.must(is_in);
    }

    #[inline(never)]
    pub(super) fn leave_wheel(&mut self, member: u32) {
        let Member { place, parent, weight, .. } = *self.members.at(member);
        let group = self.groups.at_mut(parent);
        let wheel = match place {
            Place::Inactive => return,
            Place::Ready => &mut group.ready,
            Place::Wait => &mut group.wait,
        };
        let is_out = wheel.remove(&mut self.chains, &self.members, member);
        group.weight_sum = group.weight_sum.saturating_sub(u64::from(weight));
        self.members.at_mut(member).place = Place::Inactive;
        self.must(is_out);
    }

    /// What lies further back than the floor is forgotten.
    fn raise_to_floor(&mut self, member: u32) {
        let floor = self.groups.at(self.members.at(member).parent).floor_vt;
        let seat = &mut self.members.at_mut(member).seat;
        if is_later(floor, seat.vt) {
            seat.vt = floor;
        }
    }

    /// The member of the smallest virtual time in a wheel of a group, or NIL.
    #[inline(never)]
    pub(super) fn first_of(&mut self, group: u32, place: Place) -> u32 {
        // Those that are found below the floor, or forgotten, are looked at once each.
        for _ in 0..self.members.len() {
            let state = self.groups.at_mut(group);
            let floor = state.floor_vt;
            let wheel = if place == Place::Ready { &mut state.ready } else { &mut state.wait };
            let first = wheel.first(&mut self.chains, &mut self.members);
            if wheel.is_disordered() {
                self.disordered = group;
            }
            if first == NIL {
                return NIL;
            }
            if self.may_stay(first, place, floor) {
                return first;
            }
            self.amend(first, place);
        }
        NIL
    }

    /// Neither too far back nor to be forgotten.
    #[inline]
    fn may_stay(&self, member: u32, place: Place, floor: u64) -> bool {
        let is_over = place == Place::Wait && self.is_over(member);
        !is_over && !is_later(floor, self.members.at(member).seat.vt)
    }

    /// One that was found too far back, or is to be forgotten.
    #[inline(never)]
    fn amend(&mut self, member: u32, place: Place) {
        if place == Place::Wait && self.is_over(member) {
            self.leave_wheel(member);
        } else {
            self.leave_wheel(member);
            self.enter_wheel(member, place);
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
    pub(super) fn is_over(&self, member: u32) -> bool {
        let state = self.members.at(member);
        state.queued == 0
            && state.in_flight == 0
            && state.ghosts.live(self.generation) == 0
            && self.now > state.last_done_ns.saturating_add(self.linger_ns())
    }

    pub(super) fn nearest_online(&self, group: u32) -> u32 {
        let mut at = group;
        for _ in 0..self.groups.len() {
            if self.groups.at(at).is_online || at == super::state::ROOT {
                return at;
            }
            at = self.members.at(self.group_member(at)).parent;
        }
        super::state::ROOT
    }
}
