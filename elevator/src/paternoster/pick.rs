//! Whose request boards: the member of the smallest virtual time, level by level; leaders are held back down to the floor.

use super::arrival::LEAST_BYTES;
use super::ladder::Way;
use super::lines::{ByAge, ByPlace, Links};
use super::state::{Group, Held, Place, ROOT, mark};
use super::wheel::is_later;
use super::{Paternoster, Why};
use crate::interface::Dispatch;
use crate::request::Requests;
use crate::structures::NIL;
use block::time::{MILLISECOND, SECOND};
use block::{Class, RequestId};

/// A lead of a few requests is let pass.
const MOST_LEAD_BYTES: u64 = 262_144;
/// Beside exact shares, so many times the lead that is let pass may be owed.
const MOST_OWED: u64 = 4;
/// With exact shares, what was given to leaders is repaid if it is not longer ago.
const REPAID_NS: u64 = 20 * MILLISECOND;
/// Real-time requests in a row before one of the others.
const REAL_TIME_RUN: u32 = 16;
/// One of the idle class goes at the latest after this.
const IDLE_WAITS_NS: u64 = 5 * SECOND;
/// Once a sync or an async request has waited for so long, leaders are not held back any more, one at a time.
const SYNC_WAITS_NS: u64 = 500 * MILLISECOND;
const ASYNC_WAITS_NS: u64 = 5 * SECOND;
/// And after this it goes out of order. Much later: where many wait for a slow device, who waits for a second has his share all the same.
const ORDER_WAITS_NS: u64 = 30 * SECOND;
/// Completions from one of these to the next.
const OVERDUE_EVERY: u8 = 16;

/// With room for fewer requests all of them are in the nearest cache.
const MANY: u32 = 1024;
/// And for fewer than so many, in the second one.
const VERY_MANY: u32 = 16_384;

/// Whom to send, or what to answer instead.
pub enum Decision {
    Send { slot: u32, why: Why },
    Answer(Dispatch),
}

/// What a level says.
enum Chosen {
    Member { member: u32, is_let_in: bool, forgiven_for: u64 },
    Held,
    Nobody,
}

/// What a walk down the tree brought.
#[derive(Copy, Clone)]
pub enum Found {
    Request {
        slot: u32,
        why: Why,
    },
    /// The member of the root below which leaders are held back.
    HeldBelow(u32),
    Held,
    Nobody,
}

const fn in_order(member: u32) -> Chosen {
    Chosen::Member { member, is_let_in: false, forgiven_for: 0 }
}

/// By how much who has requests of this size may be ahead.
#[inline]
fn lead_bytes(charge: u64) -> u64 {
    charge.saturating_mul(8).min(MOST_LEAD_BYTES).max(charge.saturating_mul(2))
}

impl Paternoster {
    /// What a request is charged.
    #[inline]
    pub(super) fn charge(&self, slot: u32) -> u64 {
        self.charge_of(self.slots.at(slot).bytes)
    }

    #[inline]
    pub(super) fn charge_of(&self, bytes: u32) -> u64 {
        if self.settings.fair == 1 { LEAST_BYTES } else { u64::from(bytes).max(LEAST_BYTES) }
    }

    /// The short way from the question to the device: who is first on each level goes, where nobody is ahead by too much. `None`, and
    /// nothing has happened that [`Self::whose_turn`] would not do, if there is anything else to look at.
    #[inline(never)]
    pub(super) fn choose_in_order(&mut self, requests: &Requests) -> Option<RequestId> {
        let unusual = self.direct.first & self.real_time.first & self.disordered;
        let is_usual = self.is_plain && unusual == NIL;
        let has_time = self.now < self.look_ns && self.now < self.overdue_from_ns;
        if !is_usual || !has_time || u64::from(self.inside) << 4 >= self.cap_q4 {
            return None;
        }
        self.roll_generation();
        let is_alone = self.groups.get(ROOT)?.has_one();
        let (leaf, slot) = self.first_leaf_in_order()?;
        let now = self.now;
        let entry = self.slots.get_mut(slot)?;
        if entry.held != Held::Queued || (is_alone && self.sole.is_due()) {
            return None;
        }
        self.sole.count(is_alone);
        entry.held = Held::Dispatched;
        let came_ns = core::mem::replace(&mut entry.since_ns, now);
        let (id, bytes, tally) = (entry.id, entry.bytes, entry.tally);
        let Links { place, age } = *self.links.at(slot);
        (self.is_holding, self.hold_until, self.lead) = (false, None, 0);
        self.queued_total = self.queued_total.wrapping_sub(1);
        self.members.at_mut(leaf).line.unlink_first(place);
        self.oldest.unlink::<ByAge>(&mut self.links, slot, age);
        self.expect_behind(leaf, requests);
        self.board::<true>(leaf, self.charge_of(bytes));
        self.expect_next();
        self.enter_device(tally, bytes, came_ns);
        Some(id)
    }

    /// The leaf that is first on each level, and its first request, if all of these are where they belong and none is ahead by too much.
    #[inline(always)]
    fn first_leaf_in_order(&mut self) -> Option<(u32, u32)> {
        let mut group = ROOT;
        loop {
            let Self { groups, members, .. } = self;
            let state = groups.get_mut(group)?;
            let (first, is_far) = state.ready.look(members);
            let member = members.get(first)?;
            if is_far || state.ready.is_disordered() || is_later(state.floor_vt, member.vt) {
                return None;
            }
            let slot = member.line.first;
            if !state.wait.is_empty() {
                let (waiting, is_far) = state.wait.look(members);
                let (vt, behind) = (member.vt, members.get(waiting)?);
                if is_far || state.wait.is_disordered() || is_later(state.floor_vt, behind.vt) {
                    return None;
                }
                let (is_idle, is_ahead) = (behind.queued | behind.in_flight == 0, is_later(vt, behind.vt));
                if (is_idle && self.is_over(waiting)) || (is_ahead && !self.may_lead(first, waiting)) {
                    return None;
                }
            }
            if self.is_leaf(first) {
                return Some((first, slot));
            }
            group = first.wrapping_sub(self.first_group);
        }
    }

    /// Whether who is first of those that are ready, and ahead of one that waits, is so by no more than it may be.
    #[inline(never)]
    fn may_lead(&self, first: u32, waiting: u32) -> bool {
        let (state, behind) = (self.members.at(first), self.members.at(waiting));
        state.vt.wrapping_sub(behind.vt) <= state.span(lead_bytes(self.next_charge(first)))
    }

    /// Who is sent, or what is answered instead.
    #[inline(always)]
    pub(super) fn whose_turn(&mut self) -> Decision {
        if (!self.real_time.is_empty() || self.now >= self.overdue_from_ns)
            && let Some((slot, why)) = self.urgent()
        {
            return Decision::Send { slot, why };
        }
        if self.ladder.is_due() && self.ladder.step() {
            self.change_way();
        }
        let mut found = loop {
            let found = if self.ladder.way() == Way::Cabin { self.serve_cabin() } else { self.descend() };
            // Leaders below a group are held back: the next ones are looked at instead.
            match found {
                Found::HeldBelow(member) if self.set_aside(member) => {}
                Found::HeldBelow(_) => break Found::Held,
                _ => break found,
            }
        };
        if self.is_anybody_aside() {
            self.put_back();
            if let Found::Nobody = found {
                found = Found::Held;
            }
        }
        match found {
            Found::Request { slot, why } => Decision::Send { slot, why },
            _ => self.instead(&found),
        }
    }

    /// What does not ask whose turn it is.
    #[inline(never)]
    fn urgent(&mut self) -> Option<(u32, Why)> {
        if let Some(slot) = self.next_real_time() {
            return Some((slot, Why::RealTime));
        }
        self.overdue().map(|slot| (slot, Why::Overdue))
    }

    /// The answer when nobody's turn it is.
    #[inline(never)]
    fn instead(&mut self, found: &Found) -> Decision {
        if let Some(slot) = self.real_time.first() {
            // Its turn was the others', who have nothing that may go.
            return Decision::Send { slot, why: Why::RealTime };
        }
        if matches!(found, Found::Nobody) { self.idle_class() } else { Decision::Answer(self.hold()) }
    }

    /// Leaders below a group are held back: it is set aside while the next ones are looked at. False after too many.
    #[inline(never)]
    fn set_aside(&mut self, member: u32) -> bool {
        let is_first = !self.is_anybody_aside();
        let Some(place) = self.aside.iter_mut().find(|place| **place == NIL) else { return false };
        *place = member;
        if is_first {
            self.aside_vt = self.members.at(member).vt;
        }
        self.leave_wheel(member);
        true
    }

    #[inline]
    fn is_anybody_aside(&self) -> bool {
        self.aside.first().is_some_and(|first| *first != NIL)
    }

    #[inline(never)]
    fn put_back(&mut self) {
        for index in 0..self.aside.len() {
            let member = self.aside.get_mut(index).map_or(NIL, |place| core::mem::replace(place, NIL));
            if member != NIL {
                self.seat(member, Place::Ready);
            }
        }
    }

    #[inline(always)]
    fn descend(&mut self) -> Found {
        let mut group = ROOT;
        let mut top = NIL;
        let mut was_injected = false;
        for _ in 0..self.members.len() {
            match self.choose_in(group) {
                Chosen::Nobody if group == ROOT => return Found::Nobody,
                Chosen::Nobody => break,
                Chosen::Held if group == ROOT => return Found::Held,
                Chosen::Held => return Found::HeldBelow(top),
                Chosen::Member { member, is_let_in, forgiven_for } => {
                    was_injected |= is_let_in;
                    if forgiven_for > 0 {
                        self.forgive_after(group, member, forgiven_for);
                    }
                    if group == ROOT {
                        top = member;
                    }
                    if self.is_leaf(member) {
                        let slot = self.members.at(member).line.first;
                        return Found::Request { slot, why: if was_injected { Why::LetIn } else { Why::FirstInOrder } };
                    }
                    group = member.wrapping_sub(self.first_group);
                }
            }
        }
        self.complain();
        Found::Held
    }

    /// The first of a group's children, if it may go.
    #[inline(always)]
    fn choose_in(&mut self, group: u32) -> Chosen {
        let first = self.first_of(group, Place::Ready);
        if first == NIL {
            return Chosen::Nobody;
        }
        let is_full = group == ROOT && u64::from(self.inside) << 4 >= self.cap_q4;
        if is_full && self.is_capped(first) {
            return Chosen::Held;
        }
        let vt = self.members.at(first).vt;
        let waiting = self.first_of(group, Place::Wait);
        let least = if group == ROOT && self.is_anybody_aside() {
            self.aside_vt
        } else if waiting == NIL {
            vt
        } else {
            self.members.at(waiting).vt
        };
        let lead = if is_later(vt, least) { vt.wrapping_sub(least) } else { 0 };
        if group == ROOT {
            self.lead = lead;
        }
        if lead == 0 {
            return in_order(first);
        }
        let charge = self.next_charge(first);
        if lead <= self.members.at(first).span(lead_bytes(charge)) {
            return in_order(first);
        }
        self.hold_back(group, first, lead, charge)
    }

    /// A leader: held back, unless there are fewer inside than the floor.
    #[inline(never)]
    fn hold_back(&mut self, group: u32, first: u32, lead: u64, charge: u64) -> Chosen {
        // A probe is too short for what is ahead to be repaid in it: it tells what exact shares deliver.
        if self.is_rotational && !self.ladder.is_probing() {
            if self.is_within_a_slice(group, lead) {
                return in_order(first);
            }
            if self.is_no_better_off(group, first) {
                // That one asks for no more, so that what it leaves is not owed to it for ever.
                return Chosen::Member { member: first, is_let_in: true, forgiven_for: charge };
            }
        }
        self.walker.contended(self.now, self.inside == 0);
        let of_others = self.ghosts_of_others(group, first);
        let inside = u64::from(self.inside).wrapping_add(u64::from(of_others));
        let is_below = inside < self.walker.floor_now(self.now, self.residence_ns) || inside == 0;
        if is_below || self.is_below_exact(first, inside, lead, charge) || self.is_held_for_long() {
            self.tell_of(first, "inject lead={0} n={1}", [lead, inside]);
            // Who goes because it was held for long, or beside exact shares, owes what it got.
            return Chosen::Member { member: first, is_let_in: true, forgiven_for: if is_below { charge } else { 0 } };
        }
        if of_others > 0 {
            self.hold_until = Some(self.generation_ns.saturating_add(self.ghost_ns().saturating_mul(2)));
        }
        self.tell_of(first, "hold lead={0} n={1} gh={2}", [lead, u64::from(self.inside), u64::from(of_others)]);
        Chosen::Held
    }

    /// Whether shares are exact, and a request that is not far ahead may go although it is: no larger than others, because a large one
    /// would keep small ones of a laggard inside for long.
    fn is_below_exact(&self, first: u32, inside: u64, lead: u64, charge: u64) -> bool {
        inside < self.walker.exact_floor()
            && charge <= self.rate.saturating_mul(self.request_ns) >> 20
            && lead <= self.members.at(first).span(lead_bytes(charge).saturating_mul(MOST_OWED))
    }

    /// Whether a lead is no larger than what a member has of a slice in which the device serves it and its siblings by weight. One issuer
    /// at a time, each is ahead by a slice behind its turn, so that shares on disks are no more exact than this anyway; and who is behind
    /// because its disk of an array is busy does not stop those whose disks are idle. Not beside writes: they are done when a cache has
    /// them, and what is ahead by then keeps the disk from a reader.
    fn is_within_a_slice(&self, group: u32, lead: u64) -> bool {
        let bytes = self.rate.saturating_mul(self.settings.slice_ns.unsigned_abs()) >> 20;
        let most = (bytes << 16).checked_div(self.groups.at(group).weight_sum.max(1)).unwrap_or(0);
        lead <= most && !self.a_write_waits()
    }

    /// Whether an issuer will have no more inside for its weight than the one of its group that is furthest behind, which has nothing here.
    /// That one has all the places that it asks for, and would not be faster if its equal was held back; but the array would have a stream
    /// fewer, and all streams of a group would go at the pace of the one whose disk is busiest.
    fn is_no_better_off(&mut self, group: u32, first: u32) -> bool {
        // It was found a moment ago (`choose_in`), unless it is a group that has been set aside.
        let (behind, _) = self.groups.at_mut(group).wait.look(&self.members);
        let is_aside = group == ROOT && self.is_anybody_aside();
        if behind == NIL || is_aside || !self.is_leaf(first) || !self.is_leaf(behind) {
            return false;
        }
        let (own, other) = (self.members.at(first), self.members.at(behind));
        let inside = u64::from(own.in_flight).wrapping_add(1);
        !own.is(mark::ASYNC)
            && !other.is(mark::ASYNC)
            && inside.saturating_mul(other.weight().into())
                <= u64::from(other.in_flight).saturating_mul(own.weight().into())
    }

    fn ghosts_of_others(&self, group: u32, member: u32) -> u32 {
        let all = if group == ROOT { self.ghosts } else { self.members.at(self.group_member(group)).ghosts };
        let own = self.members.at(member).ghosts.live(self.generation);
        all.live(self.generation).saturating_sub(own)
    }

    /// With `lat_us`: beyond the cap only sync requests of members that have not their share inside.
    #[inline(never)]
    fn is_capped(&self, member: u32) -> bool {
        let state = self.members.at(member);
        let sum = self.groups.at(ROOT).weight_sum.max(1);
        let share = (self.cap_q4 / 16).saturating_mul(u64::from(state.weight())).checked_div(sum).unwrap_or(0).max(1);
        !(state.is(mark::NEWEST_IS_SYNC) && u64::from(state.in_flight) < share)
    }

    /// What the next request below a member is charged: a leaf's is known, a group's is taken to be as its newest.
    #[inline]
    fn next_charge(&self, member: u32) -> u64 {
        let state = self.members.at(member);
        match state.line.first() {
            Some(slot) if self.is_leaf(member) => self.charge(slot),
            _ => self.charge_of(state.newest_bytes),
        }
    }

    fn hold(&mut self) -> Dispatch {
        self.is_holding = true;
        match self.hold_until {
            Some(until) => Dispatch::Hold { until, reason: Why::WaitsForLaggard.into() },
            None => Dispatch::Throttled,
        }
    }

    /// A leader was let in: claims that reach further back than can be repaid soon are forgotten.
    #[inline(never)]
    fn forgive_after(&mut self, group: u32, member: u32, charge: u64) {
        let state = self.members.at(member);
        if self.walker.is_in_reference() {
            // What a reference gives away is repaid, if not to those behind, then to the others who are ahead.
            return;
        }
        // Who was let in is still ahead behind it: otherwise it would have as many as may be ahead for nothing (the prototype's
        // smallest group had up to 69 % too much by that).
        let (increment, vt) = (state.span(charge), state.vt);
        let ahead = state.span(lead_bytes(charge)).wrapping_add(increment);
        let least_ns = self.residence_ns.saturating_mul(4);
        // Exact shares: what reference epochs gave away is repaid.
        let lasts_ns = if self.walker.floor_q4() < 16 {
            self.walker.epoch_ns().clamp(least_ns, least_ns.max(REPAID_NS))
        } else {
            least_ns
        };
        let soon = (self.rate.saturating_mul(lasts_ns)) >> 20;
        let bytes = soon.max(charge.saturating_mul(4));
        let state = self.groups.at_mut(group);
        let most = (bytes << 16).checked_div(state.weight_sum.max(1)).unwrap_or(0).max(ahead).wrapping_add(1);
        let floor = vt.wrapping_add(increment).wrapping_sub(most);
        if is_later(floor, state.floor_vt) {
            state.floor_vt = floor;
        }
    }

    // ---- classes ----

    fn next_real_time(&mut self) -> Option<u32> {
        let first = self.real_time.first()?;
        let others_wait = !self.groups.at(ROOT).ready.is_empty();
        if others_wait && self.real_time_run >= REAL_TIME_RUN {
            self.real_time_run = 0;
            return None;
        }
        self.real_time_run = self.real_time_run.wrapping_add(1);
        Some(first)
    }

    /// One of the idle class: if nobody else has anything, here or in the device, or the oldest has waited for long.
    fn idle_class(&mut self) -> Decision {
        let Some(first) = self.idle.first() else { return Decision::Answer(self.nothing()) };
        let is_alone = self.first_of(ROOT, Place::Wait) == NIL;
        let is_overdue = self.now.saturating_sub(self.slots.at(first).since_ns) >= IDLE_WAITS_NS;
        if is_alone || is_overdue {
            return Decision::Send { slot: first, why: Why::Idle };
        }
        self.is_holding = true;
        self.hold_until = Some(self.now.saturating_add(2 * MILLISECOND));
        Decision::Answer(Dispatch::Throttled)
    }

    fn nothing(&mut self) -> Dispatch {
        if self.queued_total == 0 { Dispatch::Empty } else { Dispatch::Throttled }
    }

    /// Somebody has waited for so long that leaders are not held back for once.
    fn is_held_for_long(&mut self) -> bool {
        let Some(slot) = self.oldest.first() else { return false };
        let entry = self.slots.at(slot);
        let limit = if entry.is_sync { SYNC_WAITS_NS } else { ASYNC_WAITS_NS };
        let is_long = self.until_overdue == 0 && self.now.saturating_sub(entry.since_ns) >= limit;
        if is_long {
            self.until_overdue = OVERDUE_EVERY;
        }
        is_long
    }

    /// The oldest request, if it has waited so long that order does not matter any more; at most one in so many completions.
    fn overdue(&mut self) -> Option<u32> {
        // Slices bound how long anybody waits for the cabin.
        if self.until_overdue > 0 || self.ladder.way() == Way::Cabin {
            return None;
        }
        let Some(slot) = self.oldest.first() else {
            // Who comes from now on has time.
            self.overdue_from_ns = self.now.saturating_add(ORDER_WAITS_NS);
            return None;
        };
        let due_ns = self.slots.at(slot).since_ns.saturating_add(ORDER_WAITS_NS);
        if self.now < due_ns {
            // The others came later.
            self.overdue_from_ns = due_ns;
            return None;
        }
        self.until_overdue = OVERDUE_EVERY;
        Some(slot)
    }

    /// The request leaves for the device. Apart from the choice, so that their stacks are not added.
    #[inline(never)]
    pub(super) fn send(&mut self, slot: u32, why: Why) -> Dispatch {
        let now = self.now;
        let entry = self.slots.at_mut(slot);
        if entry.held != Held::Queued {
            self.complain();
            return Dispatch::Throttled;
        }
        entry.held = Held::Dispatched;
        let came_ns = core::mem::replace(&mut entry.since_ns, now);
        let (id, leaf, bytes, tally) = (entry.id, entry.leaf, entry.bytes, entry.tally);
        let class = entry.class;
        self.queued_total = self.queued_total.saturating_sub(1);
        if self.messages.is_on() {
            self.tell_pick(leaf);
        }
        if class == Class::BestEffort {
            let Links { place, age } = *self.links.at(slot);
            self.members.at_mut(leaf).line.unlink::<ByPlace>(&mut self.links, slot, place);
            if self.is_rotational {
                self.sweeps.sent(leaf, slot);
            }
            self.oldest.unlink::<ByAge>(&mut self.links, slot, age);
            let mut charge = self.charge_of(bytes);
            if self.aboard == leaf {
                // It pays when it leaves.
                self.fare.bytes = self.fare.bytes.saturating_add(charge);
                charge = 0;
            }
            self.board::<false>(leaf, charge);
        } else {
            self.unlink_of_class(class, slot);
        }
        self.enter_device(tally, bytes, came_ns);
        Dispatch::Request { id, reason: why.into() }
    }

    #[inline(never)]
    fn tell_pick(&mut self, leaf: u32) {
        let vt = self.members.at(leaf).vt;
        let floor = self.walker.floor_q4();
        let numbers =
            [u64::from(leaf), vt, self.lead, u64::from(self.inside), floor / 16, (floor % 16).saturating_mul(100) / 16];
        self.tell_of(leaf, "pick q={0} vt={1} lead={2} n={3} f={4}.{5}", numbers);
    }

    /// Whoever is behind a leaf in its slot is likely to be the next of their group, and who is behind that one the next but one. What is
    /// kept of them is brought nearer meanwhile, where there are so many that it comes from far away.
    #[inline(always)]
    fn expect_behind(&self, leaf: u32, requests: &Requests) {
        if self.slots.len() < VERY_MANY {
            return;
        }
        let next = self.chains.behind(leaf);
        let Some(member) = self.members.get(next) else { return };
        let first = member.line.first;
        self.slots.prefetch(first);
        self.links.prefetch(first);
        requests.prefetch(first);
        let next_but_one = self.chains.behind(next);
        self.members.prefetch(next_but_one);
        self.chains.prefetch(next_but_one);
    }

    /// The first leaf of the group that is first now: the next one, if nobody comes before it.
    #[inline(always)]
    fn expect_next(&self) {
        if self.slots.len() < MANY {
            return;
        }
        let next = self.groups.at(ROOT).ready.first();
        if let Some(group) = self.groups.get(next.wrapping_sub(self.first_group)) {
            self.members.prefetch(group.ready.first());
        }
    }

    /// A request fewer waits and one more is inside; virtual time of the leaf and the groups above runs on. Who was chosen in order was
    /// not behind the floor.
    #[inline(always)]
    fn board<const IS_IN_ORDER: bool>(&mut self, leaf: u32, charge: u64) {
        let mut member = leaf;
        let increment = loop {
            let state = self.members.at_mut(member);
            let increment = state.go_on(charge);
            state.in_flight = state.in_flight.wrapping_add(1);
            // Its request is counted here.
            state.queued = state.queued.wrapping_sub(1);
            let parent = state.parent;
            let group = self.groups.at_mut(parent);
            let is_astray = !IS_IN_ORDER && (is_later(group.floor_vt, state.vt) || state.place() != Place::Ready);
            if IS_IN_ORDER && state.queued == 0 {
                let Group { ready, wait, .. } = group;
                match ready.hand_over_first(wait, &mut self.chains, state.vt) {
                    Some(slot) => state.settle(Place::Wait, slot),
                    None => self.complain(),
                }
            } else if state.queued == 0 || is_astray {
                self.move_seat(member);
            } else {
                let slot = if IS_IN_ORDER {
                    group.ready.advance_first(&mut self.chains, state.vt)
                } else {
                    group.ready.advance(&mut self.chains, state.vt, state.slot(), member)
                };
                match slot {
                    Some(slot) => state.settle(Place::Ready, slot),
                    None => self.complain(),
                }
            }
            if parent == ROOT {
                break increment;
            }
            member = self.group_member(parent);
        };
        self.longest_stride = self.longest_stride.max(increment);
        // A window is over long before it wraps.
        self.charged = self.charged.wrapping_add(charge);
    }

    /// To the wheel that it belongs in.
    #[inline(never)]
    fn move_seat(&mut self, member: u32) {
        let place = if self.members.at(member).queued > 0 { Place::Ready } else { Place::Wait };
        self.seat(member, place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::GroupSettings;
    use crate::interface::{Configuration, Elevator, Hint, Policy, Position};
    use crate::request::{Attributes, Place as At, Requests};
    use alloc::vec::Vec;
    use block::random::Stream;
    use block::{ContextId, Extent, GroupId, HardwareQueue, Operation, RequestId};

    const ISSUERS: u32 = 60;

    /// Who is sent in which order, if there is room for so many requests: 60 issuers, in two groups, one below these, and in none. With
    /// the short ways or without; how many took the one out is the second answer.
    fn order(room: u32, has_short_ways: bool) -> (Vec<RequestId>, u32) {
        let configuration = Configuration { slots: room, contexts: ISSUERS, groups: 4, ..Configuration::default() };
        let mut policy = Paternoster::build(&configuration, ()).unwrap();
        for (group, parent) in [(1, 0), (2, 0), (3, 2)] {
            let settings = GroupSettings { parent: GroupId(parent), ..GroupSettings::with_weight(100 * group) };
            policy.group_added(GroupId(group), &settings, 0);
        }
        policy.is_plain = has_short_ways;
        let mut shortly = 0;
        let mut requests = Requests::try_new(MANY).unwrap();
        let mut random = Stream::of(5, "paternoster/pick");
        let (mut inside, mut sent, mut now) = (Vec::new(), Vec::new(), 1_000_000);
        for step in 0..40_000_u64 {
            now += 1 + random.below(5_000);
            if requests.in_use() < 400 && random.below(5) < 3 {
                let issuer = u32::try_from(random.below(u64::from(ISSUERS))).unwrap();
                let mut bio = Attributes::new(Operation::Read, Extent::new(step * 64, 8 << random.below(4)));
                (bio.context, bio.group) = (ContextId(issuer), GroupId(issuer % 4));
                let id = requests.allocate(bio, now).unwrap();
                policy.allocated(&requests, id, now);
                requests.move_to(id, At::Queued);
                let _ = policy.insert(&requests, id, Position::Sorted(Hint::None), now);
            }
            policy.now = now;
            let short = if policy.sole.leaf == NIL { policy.choose_in_order(&requests) } else { None };
            shortly += u32::from(short.is_some());
            let choice = match short {
                Some(id) => Some(id),
                None => match policy.choose(&requests, HardwareQueue(0), now) {
                    Dispatch::Request { id, .. } => Some(id),
                    _ => None,
                },
            };
            if let Some(id) = choice {
                requests.move_to(id, At::Dispatched);
                requests.move_to(id, At::Started);
                sent.push(id);
                inside.push(id);
            }
            if inside.len() > 16 || (!inside.is_empty() && random.below(2) == 0) {
                let id = inside.swap_remove(usize::try_from(random.below(inside.len() as u64)).unwrap());
                requests.move_to(id, At::Complete);
                let _ = policy.completed(&requests, id, now);
                let _ = policy.released(&requests, id, now);
                policy.freed(&requests, id, now);
                requests.free(id);
            }
            if step % 64 == 0 {
                policy.check(&requests).unwrap();
            }
        }
        assert_eq!(policy.violations(), 0);
        (sent, shortly)
    }

    /// What is brought nearer is not changed by it.
    #[test]
    fn the_order_does_not_depend_on_room() {
        let (sent, _) = order(MANY - 1, true);
        assert!(sent.len() > 15_000, "{}", sent.len());
        assert!(sent == order(MANY, true).0, "another order");
    }

    /// Who goes by the short ways would have gone all the same.
    #[test]
    fn the_order_does_not_depend_on_the_way() {
        let (sent, shortly) = order(MANY, true);
        assert!(shortly > 5_000, "{shortly} of {}", sent.len());
        let (others, none) = order(MANY, false);
        assert_eq!(none, 0);
        assert!(sent == others, "another order");
    }
}
