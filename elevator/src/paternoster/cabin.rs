//! One issuer at a time: a leaf is aboard for a slice, is waited for while it is empty, and pays for bytes, or for time if it is slow.
//!
//! Specification paternoster.md, 7, charges time, on a disk that is equally fast everywhere. On one with zones that gives a
//! stream on the outer edge a third more than one of the same weight inside. So who moves at least half as much as the
//! best of late pays for its bytes, as with BFQ; who seeks pays for its time at the best rate.

use super::ladder::{Ladder, Way};
use super::pick::Found;
use super::state::{Place, ROOT, mark};
use super::wheel::is_later;
use super::{Paternoster, Why};
use crate::structures::NIL;
use block::Nanos;
use block::time::MILLISECOND;

/// An async leaf's slice is shorter.
const ASYNC_SLICE_NS: Nanos = 40 * MILLISECOND;
/// Who is still behind after its slice goes on for a part of one at a time: with another whole one, all others wait twice as long.
/// A reader beside writes and the writer behind it have as much.
const PARTS: Nanos = 4;
/// Only turns of at least this length tell a rate: shorter ones may have filled a cache.
const TELLING_NS: Nanos = 50 * MILLISECOND;

/// What a turn is charged.
#[derive(Debug)]
pub struct Fare {
    /// What the leaf aboard sent, as charged.
    pub bytes: u64,
    /// A part of a slice: it was aboard just before, and is still behind, or it writes and one that seeks will wait for it.
    is_part: bool,
    /// Others had requests inside when it boarded.
    is_crowded: bool,
    /// Whether the turn before was paid for by time.
    was_slow: bool,
    /// Of a turn of late, in bytes per 2^20 ns.
    best_rate: u64,
}

impl Fare {
    /// Until more is known a disk's best are 62.5 MB/s.
    pub const FIRST: Fare =
        Fare { bytes: 0, is_part: false, is_crowded: false, was_slow: false, best_rate: (1 << 20) / 16 };

    /// In so much time.
    fn rate(&self, used_ns: Nanos) -> u64 {
        (self.bytes.min(1 << 40) << 20).checked_div(used_ns).unwrap_or(0)
    }

    /// Less than half of what the best did of late.
    const fn is_slow(&self, rate: u64) -> bool {
        rate.saturating_mul(2) < self.best_rate
    }

    /// Of a turn that is over, and of the part of it that was its own.
    fn take(&mut self, used_ns: Nanos, own_ns: Nanos) -> u64 {
        let rate = self.rate(used_ns);
        let bytes = core::mem::take(&mut self.bytes);
        if used_ns >= TELLING_NS {
            self.best_rate = rate.max(self.best_rate.saturating_sub(self.best_rate.div_ceil(64)));
        }
        self.was_slow = self.is_slow(rate);
        if self.was_slow { own_ns.saturating_mul(self.best_rate) >> 20 } else { bytes }
    }
}

impl Paternoster {
    pub(super) fn ladder_for(is_rotational: bool, cabins: i64) -> Ladder {
        match (is_rotational, cabins) {
            (true, 0) => Ladder::new(Way::Cabin, true),
            (_, 1) => Ladder::new(Way::Cabin, false),
            _ => Ladder::new(Way::Flow, false),
        }
    }

    /// The request of the leaf aboard, or of the one that boards now.
    #[inline(never)]
    pub(super) fn serve_cabin(&mut self) -> Found {
        let mut before = NIL;
        if self.aboard != NIL && self.has_to_leave() {
            if self.would_starve_inside() {
                return Found::Held;
            }
            before = self.aboard;
            self.alight();
        }
        if self.aboard == NIL {
            let first = self.first_leaf();
            if first == NIL {
                return Found::Nobody;
            }
            let is_renewed = first == before || self.is_owed(before, first);
            let leaf = if is_renewed { before } else { first };
            self.fare.is_part = is_renewed || self.is_brief(before, leaf);
            self.fare.is_crowded = self.inside > self.members.at(leaf).in_flight;
            (self.aboard, self.boarded_ns, self.slice_from_ns, self.fare.bytes) = (leaf, self.now, 0, 0);
            self.tell_of(leaf, "board q={0}", [u64::from(leaf)]);
        }
        match self.members.at(self.aboard).line.first() {
            Some(oldest) => {
                let slot = if self.is_rotational { self.sweeps.next(self.aboard, oldest) } else { oldest };
                Found::Request { slot, why: Why::Aboard }
            }
            None => Found::Held,
        }
    }

    /// Whether one that has paid for its slice is behind the first of the others although it has nothing here: several of its requests
    /// are inside. Without this two that keep the device's queue full have a turn each, whatever their weights. Who has a single one
    /// inside gives the disk to the next while it is served: otherwise writes beside a reader of depth 1 fall from 91 to 30 % of what
    /// the disk `sata` delivers.
    #[inline(never)]
    fn is_owed(&self, before: u32, first: u32) -> bool {
        if before == NIL || self.members.at(before).queued > 0 || self.members.at(before).in_flight < 2 {
            return false;
        }
        let mut own = before;
        while own != NIL {
            let state = self.members.at(own);
            // Where their ways to the root meet, if it is here.
            let mut other = first;
            while other != NIL {
                let competitor = self.members.at(other);
                if competitor.parent == state.parent {
                    return is_later(competitor.vt, state.vt);
                }
                other = self.parent_member(other);
            }
            own = self.parent_member(own);
        }
        false
    }

    /// Whether what has waited for longest is a write.
    pub(super) fn a_write_waits(&self) -> bool {
        self.oldest.first().is_some_and(|slot| !self.slots.at(slot).is_read)
    }

    /// Whether who has to leave has one request inside, which writes would overtake as long as they come: those that wait for room in
    /// a disk's cache go before a read until it is 2 s old. So it is done first.
    fn would_starve_inside(&self) -> bool {
        let state = self.members.at(self.aboard);
        state.in_flight == 1 && state.queued == 0 && !state.is(mark::ASYNC) && self.a_write_waits()
    }

    /// Whether the turn of one that writes follows one who seeks and will be back at once: what it leaves inside keeps the disk
    /// for long after it.
    fn is_brief(&self, before: u32, leaf: u32) -> bool {
        let is_read = |slot| self.slots.at(slot).is_read;
        before != NIL
            && self.fare.was_slow
            && self.members.at(before).queued == 0
            && !self.members.at(leaf).line.first().is_none_or(is_read)
    }

    /// How long who leaves now, and had a single request inside at a time, need not pay for: it waited for requests of others that were
    /// there before, and the disk was theirs. Beside reads half of it: with less the flood has too little of its time.
    fn way_of_others_ns(&self, leaf: u32) -> Nanos {
        if !self.fare.is_crowded || !self.is_single(leaf) {
            return 0;
        }
        let way_ns = self.slice_from_ns.saturating_sub(self.boarded_ns);
        if self.a_write_waits() { way_ns } else { way_ns / 2 }
    }

    /// Whether a leaf has one request here or inside at most, and none that waits.
    fn is_single(&self, leaf: u32) -> bool {
        let state = self.members.at(leaf);
        state.queued == 0 && state.in_flight <= 1
    }

    /// How long the turn of the leaf aboard lasts from its first completion, since which so much time has passed.
    fn slice_ns(&self, since_ns: Nanos) -> Nanos {
        let member = self.members.at(self.aboard);
        let full_ns = if member.is(mark::ASYNC) { ASYNC_SLICE_NS } else { self.settings.slice_ns.unsigned_abs() };
        if self.fare.is_part {
            full_ns / PARTS
        } else if self.is_single(self.aboard) && self.fare.is_slow(self.fare.rate(since_ns)) && self.a_write_waits() {
            // The disk goes to and fro between its reads and what is in its cache.
            full_ns / PARTS
        } else {
            full_ns
        }
    }

    /// Its slice is over and others wait, or it has nothing and is not worth waiting for. Sets the timer if it is.
    fn has_to_leave(&mut self) -> bool {
        let member = self.members.at(self.aboard);
        let others_wait = self.queued_best_effort() > member.queued;
        if others_wait {
            self.ladder.contended();
        }
        // The way there is not part of the slice.
        let begin_ns = if self.slice_from_ns == 0 { self.now } else { self.slice_from_ns };
        let end_ns = begin_ns.saturating_add(self.slice_ns(self.now.saturating_sub(begin_ns)));
        if others_wait && self.now >= end_ns {
            return true;
        }
        if member.queued > 0 {
            return false;
        }
        let idle_ns = self.settings.idle_ns.unsigned_abs();
        let is_expected = member.is(mark::OWNED) && !member.is(mark::ASYNC) && u64::from(member.think_ns) < idle_ns;
        let until_ns = member.last_done_ns.max(self.boarded_ns).saturating_add(idle_ns);
        if member.in_flight == 0 && !(is_expected && self.now < until_ns) {
            return true;
        }
        let empty_until_ns = if member.in_flight == 0 { until_ns } else { Nanos::MAX };
        let until_ns = if others_wait { empty_until_ns.min(end_ns) } else { empty_until_ns };
        self.hold_until = (until_ns < Nanos::MAX).then_some(until_ns);
        false
    }

    fn queued_best_effort(&self) -> u32 {
        self.queued_total.saturating_sub(self.queued_of_classes)
    }

    /// The leaf whose turn it is.
    fn first_leaf(&mut self) -> u32 {
        let mut group = ROOT;
        for _ in 0..=self.groups.len() {
            let mut first = self.first_of(group, Place::Ready);
            if self.disordered != NIL {
                // Slices are far apart in virtual time.
                self.put_in_order();
                first = self.first_of(group, Place::Ready);
            }
            if first == NIL || self.is_leaf(first) {
                return first;
            }
            group = first.wrapping_sub(self.first_group);
        }
        NIL
    }

    /// Pays for its turn. Back in the order of all, it may be the next again.
    #[inline(never)]
    pub(super) fn alight(&mut self) {
        let leaf = core::mem::replace(&mut self.aboard, NIL);
        let used_ns = self.now.saturating_sub(self.boarded_ns);
        self.tell_of(leaf, "leave q={0} used={1}", [u64::from(leaf), used_ns]);
        let charge = self.fare.take(used_ns, used_ns.saturating_sub(self.way_of_others_ns(leaf)));
        let mut member = leaf;
        while member != NIL {
            let state = self.members.at_mut(member);
            state.vt = state.vt.wrapping_add(state.span(charge));
            let place = state.place();
            if place != Place::Inactive {
                self.seat(member, place);
            }
            member = self.parent_member(member);
        }
    }

    /// The disk is used the other way from now on. Each way has its own virtual times, so that a short probe ends no claims.
    #[inline(never)]
    pub(super) fn change_way(&mut self) {
        if self.aboard != NIL {
            self.alight();
        }
        for group in 0..self.groups.len() {
            let first = self.first_of(group, Place::Ready);
            let least = if first == NIL { 0 } else { self.members.at(first).vt };
            let state = self.groups.at_mut(group);
            // Who comes meanwhile begins where the least of those that are here is now.
            let kept = if is_later(least, state.floor_vt) { least } else { state.floor_vt };
            state.floor_vt = core::mem::replace(&mut state.other_floor_vt, kept);
        }
        for member in 0..self.members.len() {
            let place = self.members.at(member).place();
            if place != Place::Inactive {
                self.leave_wheel(member);
            }
            core::mem::swap(&mut self.members.at_mut(member).vt, self.other_vts.at_mut(member));
            if place != Place::Inactive {
                self.seat(member, place);
            }
        }
        let percent = self.ladder.last_percent();
        self.tell("probe way={0} last={1}%", [u64::from(self.ladder.way() == Way::Flow), percent]);
    }
}
