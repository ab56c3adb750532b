//! The chain of cabins: children of a node by virtual time, in 64 slots that go round; expected O(1) for everything.
//!
//! A slot spans 2^shift of virtual time; children inside a slot are in the order of their coming, so that order errs by one
//! slot at most. What lies beyond the last slot waits in it and is put in its place when the chain has come there.

use crate::structures::{Array, NIL, NoMemory};

const MASK: u64 = 63;
/// Slots of a wheel.
const SLOTS: usize = 64;

/// The children of a slot, in the order of their coming. Who is first is known here: in its link `prev` means nothing, so that nobody
/// has to write to the next one when the first leaves.
#[derive(Copy, Clone, Debug)]
struct Slot {
    first: u32,
    last: u32,
}

/// The slots of a wheel.
type Row = [Slot; SLOTS];

#[derive(Copy, Clone, Debug)]
struct Link {
    prev: u32,
    next: u32,
}

/// In `next` of a child that is in no wheel; like [`NIL`] never an index.
const OFF: u32 = NIL - 1;

/// The slots of all wheels, and the links of all children.
#[derive(Debug)]
pub struct Chains {
    rows: Array<Row>,
    links: Array<Link>,
    /// Children that are being seated anew.
    waiting: Slot,
}

const EMPTY: Slot = Slot { first: NIL, last: NIL };

impl Chains {
    /// # Errors
    /// When memory is short.
    pub fn try_new(wheels: u32, children: u32) -> Result<Self, NoMemory> {
        if children > OFF {
            return Err(NoMemory);
        }
        let rows = Array::try_new(wheels, [EMPTY; SLOTS])?;
        Ok(Self { rows, links: Array::try_new(children, Link { prev: NIL, next: OFF })?, waiting: EMPTY })
    }

    /// Who is behind a child in its slot, or no index.
    #[inline]
    pub fn behind(&self, child: u32) -> u32 {
        self.links.at(child).next
    }

    /// A child is likely to be moved soon: its links come nearer.
    #[inline]
    pub fn prefetch(&self, child: u32) {
        self.links.prefetch(child);
    }

    pub fn is_linked(&self, child: u32) -> bool {
        self.links.at(child).next != OFF
    }
}

impl Slot {
    #[inline]
    fn push_back(&mut self, links: &mut Array<Link>, child: u32) -> bool {
        let last = self.last;
        match links.get_mut(child) {
            Some(link) if link.next == OFF => *link = Link { prev: last, next: NIL },
            _ => return false,
        }
        self.last = child;
        match links.get_mut(last) {
            Some(link) => link.next = child,
            None => self.first = child,
        }
        true
    }

    /// As [`Self::push_back`], one that is just leaving another slot.
    #[inline(always)]
    fn receive(&mut self, links: &mut Array<Link>, child: u32) {
        let last = core::mem::replace(&mut self.last, child);
        match links.get_mut(last) {
            Some(link) => link.next = child,
            None => self.first = child,
        }
        if let Some(link) = links.get_mut(child) {
            *link = Link { prev: last, next: NIL };
        }
    }

    #[inline]
    fn push_front(&mut self, links: &mut Array<Link>, child: u32) -> bool {
        let first = self.first;
        match links.get_mut(child) {
            Some(link) if link.next == OFF => *link = Link { prev: NIL, next: first },
            _ => return false,
        }
        self.first = child;
        match links.get_mut(first) {
            Some(link) => link.prev = child,
            None => self.last = child,
        }
        true
    }

    #[inline]
    fn remove(&mut self, links: &mut Array<Link>, child: u32) -> bool {
        let Some(link) = links.get_mut(child) else { return false };
        let Link { prev, next } = *link;
        if next == OFF {
            return false;
        }
        if self.first == child {
            link.next = OFF;
            self.pop(next);
            return true;
        }
        match links.get_mut(prev) {
            Some(link) if link.next == child => link.next = next,
            _ => return false,
        }
        match links.get_mut(next) {
            Some(link) => link.prev = prev,
            None => self.last = prev,
        }
        if let Some(link) = links.get_mut(child) {
            link.next = OFF;
        }
        true
    }

    /// The first leaves, and this one was behind it.
    #[inline]
    const fn pop(&mut self, next: u32) {
        if next == NIL {
            *self = EMPTY;
        } else {
            self.first = next;
        }
    }

    fn pop_front(&mut self, links: &mut Array<Link>) -> Option<u32> {
        let first = self.first;
        (first != NIL && self.remove(links, first)).then_some(first)
    }
}

/// Children with anything in common, by their virtual time.
#[derive(Clone, Debug)]
pub struct Wheel {
    occupied: u64,
    /// Number of the first slot, counted from virtual time 0.
    base: u64,
    /// Which row of slots is its.
    number: u32,
    len: u32,
    /// Who is first of all, or NIL, and in which slot. Known ahead: the next look need not wait for the row.
    first: u32,
    first_at: u8,
    shift: u8,
    /// Somebody was so far behind the chain's begin that the order in its first slot may be wrong.
    is_disordered: bool,
}

/// Whether one virtual time lies behind another; both wrap.
#[inline]
pub const fn is_later(one: u64, other: u64) -> bool {
    one.wrapping_sub(other).cast_signed() > 0
}

/// The power of two for slots of about this width.
#[allow(clippy::cast_possible_truncation, reason = "below 64")]
fn shift_of(span: u64) -> u8 {
    (u64::BITS - 1).wrapping_sub(span.max(1).leading_zeros()).clamp(8, 48) as u8
}

/// A slot's number round the wheel, which always is one.
#[inline]
#[allow(clippy::cast_possible_truncation, reason = "below 64")]
const fn round(number: u64) -> u8 {
    (number & MASK) as u8
}

/// The slot of this number, which the mask shows to be one.
#[inline]
const fn slot_of(row: &mut Row, index: u8) -> &mut Slot {
    &mut row[index as usize & (SLOTS - 1)]
}

impl Wheel {
    /// The empty wheel of this number.
    pub const fn numbered(number: u32) -> Self {
        Self { occupied: 0, base: 0, number, len: 0, first: NIL, first_at: 0, shift: 18, is_disordered: false }
    }

    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.occupied == 0
    }

    #[inline]
    pub const fn len(&self) -> u32 {
        self.len
    }

    /// Slot numbers wrap where virtual times do.
    #[inline]
    fn distance(&self, vt: u64) -> i64 {
        let shift = u32::from(self.shift);
        let from = self.base.wrapping_shl(shift);
        vt.wrapping_sub(from).cast_signed().wrapping_shr(shift)
    }

    /// How far a slot lies from where the chain begins.
    #[inline]
    const fn ahead_of_base(&self, index: u8) -> u64 {
        (index as u64).wrapping_sub(self.base) & MASK
    }

    /// Whoever was first is not any more.
    #[inline]
    fn find_first(&mut self, row: &mut Row) {
        if self.occupied == 0 {
            self.first = NIL;
            return;
        }
        let ahead = self.occupied.rotate_right(u32::from(round(self.base))).trailing_zeros();
        self.first_at = round(self.base.wrapping_add(u64::from(ahead)));
        self.first = slot_of(row, self.first_at).first;
    }

    /// Somebody has come to a slot; the first of all now, if it lies before that of who was.
    #[inline]
    fn note_newcomer(&mut self, child: u32, index: u8) {
        if self.first == NIL || self.ahead_of_base(index) < self.ahead_of_base(self.first_at) {
            (self.first, self.first_at) = (child, index);
        }
    }

    /// The chain begins earlier by so many slots, if all that is on it still has room.
    #[inline(never)]
    fn go_back(&mut self, slots: u64) {
        let ahead = self.occupied.rotate_right(u32::try_from(self.base & MASK).unwrap_or(0));
        let last = u64::from(63_u32.saturating_sub(ahead.leading_zeros()));
        if last.saturating_add(slots) <= MASK {
            self.base = self.base.wrapping_sub(slots);
        } else {
            self.is_disordered = true;
        }
    }

    /// The slot that the child is in now, which its keeper notes. `None`, and nothing happens, if it is in a wheel already.
    #[inline]
    pub fn insert(&mut self, chains: &mut Chains, vt: u64, child: u32) -> Option<u8> {
        if self.occupied == 0 {
            self.base = vt.wrapping_shr(u32::from(self.shift));
        }
        let distance = self.distance(vt);
        let Chains { rows, links, .. } = chains;
        let row = rows.get_mut(self.number)?;
        let index;
        let is_in = if distance < 0 {
            // Who is behind all others goes before those in the first slot.
            self.go_back(distance.unsigned_abs());
            index = round(self.base);
            let is_in = slot_of(row, index).push_front(links, child);
            if is_in {
                (self.first, self.first_at) = (child, index);
            }
            is_in
        } else {
            index = round(self.base.wrapping_add(distance.unsigned_abs().min(MASK)));
            slot_of(row, index).push_back(links, child)
        };
        if !is_in {
            return None;
        }
        self.note_newcomer(child, index);
        self.occupied |= 1 << (index & 63);
        self.len = self.len.wrapping_add(1);
        Some(index)
    }

    /// As [`Self::insert`], for one that is not behind the chain's begin, as most are not.
    #[inline(always)]
    pub fn append(&mut self, chains: &mut Chains, vt: u64, child: u32) -> Option<u8> {
        if self.occupied == 0 {
            self.base = vt.wrapping_shr(u32::from(self.shift));
        }
        let distance = self.distance(vt);
        if distance < 0 {
            return self.insert(chains, vt, child);
        }
        let index = round(self.base.wrapping_add(distance.unsigned_abs().min(MASK)));
        let Chains { rows, links, .. } = chains;
        if !slot_of(rows.get_mut(self.number)?, index).push_back(links, child) {
            return None;
        }
        self.note_newcomer(child, index);
        self.occupied |= 1 << (index & 63);
        self.len = self.len.wrapping_add(1);
        Some(index)
    }

    /// Whether this child is first of all.
    #[inline]
    pub const fn is_first(&self, child: u32) -> bool {
        self.first == child
    }

    /// The first of all leaves. False if there is none.
    #[inline(always)]
    pub fn take_first(&mut self, chains: &mut Chains) -> bool {
        let Chains { rows, links, .. } = chains;
        let (Some(row), Some(link)) = (rows.get_mut(self.number), links.get_mut(self.first)) else { return false };
        let next = core::mem::replace(&mut link.next, OFF);
        slot_of(row, self.first_at).pop(next);
        self.len = self.len.wrapping_sub(1);
        if next == NIL {
            self.occupied &= !(1 << (self.first_at & 63));
            self.find_first(row);
        } else {
            self.first = next;
        }
        true
    }

    /// From the slot that it is in. False, and nothing happens, if the child is in no wheel. That it is in this one is the caller's duty.
    #[inline]
    pub fn remove(&mut self, chains: &mut Chains, index: u8, child: u32) -> bool {
        let Chains { rows, links, .. } = chains;
        let Some(row) = rows.get_mut(self.number) else { return false };
        let slot = slot_of(row, index);
        let is_out = slot.remove(links, child);
        if is_out {
            self.len = self.len.wrapping_sub(1);
            if slot.first == NIL {
                self.occupied &= !(1 << (index & 63));
            }
            if self.first == child {
                self.find_first(row);
            }
        }
        is_out
    }

    /// Takes a child of this wheel from the slot that it is in to where its virtual time belongs, exactly as [`Self::remove`]
    /// and [`Self::insert`] would: answers like the latter.
    #[inline(never)]
    pub fn advance(&mut self, chains: &mut Chains, vt: u64, from: u8, child: u32) -> Option<u8> {
        if self.len <= 1 {
            // Alone, it is where the chain begins.
            self.base = vt.wrapping_shr(u32::from(self.shift));
            let to = round(self.base);
            if to != from {
                let row = chains.rows.get_mut(self.number)?;
                *slot_of(row, from) = EMPTY;
                *slot_of(row, to) = Slot { first: child, last: child };
                self.occupied = 1 << (to & 63);
                self.first_at = to;
            }
            return Some(to);
        }
        let distance = self.distance(vt);
        if distance < 0 {
            return self.fall_back(chains, vt, from, child);
        }
        let to = round(self.base.wrapping_add(distance.unsigned_abs().min(MASK)));
        let Chains { rows, links, .. } = chains;
        let Link { prev, next } = *links.get(child)?;
        if to == from && next == NIL {
            // The last of its slot stays what it is.
            return Some(to);
        }
        if next == OFF {
            return None;
        }
        let row = rows.get_mut(self.number)?;
        let slot = slot_of(row, from);
        if slot.first == child {
            slot.pop(next);
            if next == NIL {
                self.occupied &= !(1 << (from & 63));
            }
        } else {
            links.get_mut(prev)?.next = next;
            match links.get_mut(next) {
                Some(link) => link.prev = prev,
                None => slot.last = prev,
            }
        }
        slot_of(row, to).receive(links, child);
        self.occupied |= 1 << (to & 63);
        if self.first == child {
            self.find_first(row);
        } else {
            self.note_newcomer(child, to);
        }
        Some(to)
    }

    /// The same for the first of all, which has nobody before it in its slot.
    #[inline(always)]
    pub fn advance_first(&mut self, chains: &mut Chains, vt: u64) -> Option<u8> {
        let (child, from) = (self.first, self.first_at);
        let distance = self.distance(vt);
        if self.len <= 1 || distance < 0 {
            return self.advance(chains, vt, from, child);
        }
        let to = round(self.base.wrapping_add(distance.unsigned_abs().min(MASK)));
        let Chains { rows, links, .. } = chains;
        let next = links.get(child)?.next;
        if to == from && next == NIL {
            return Some(to);
        }
        let row = rows.get_mut(self.number)?;
        slot_of(row, from).pop(next);
        slot_of(row, to).receive(links, child);
        self.occupied |= 1 << (to & 63);
        if next == NIL {
            self.occupied &= !(1 << (from & 63));
            self.find_first(row);
        } else {
            self.first = next;
        }
        Some(to)
    }

    #[inline(never)]
    fn fall_back(&mut self, chains: &mut Chains, vt: u64, from: u8, child: u32) -> Option<u8> {
        if !self.remove(chains, from, child) {
            return None;
        }
        self.insert(chains, vt, child)
    }

    /// The child of the smallest virtual time, to within a slot, if the chain is in order; NIL if there is none. Far, if it waits in the
    /// last slot for the chain to come to its place: then it has to be moved on, and another one is looked for.
    #[inline(always)]
    pub fn look(&mut self, seats: &impl Seats) -> (u32, bool) {
        if self.first == NIL {
            return (NIL, false);
        }
        self.base = self.base.wrapping_add(self.ahead_of_base(self.first_at));
        (self.first, self.distance(seats.vt(self.first)) > 0)
    }

    /// All that are first are far, for a whole round: the order is wrong until [`Self::gather`] is called.
    pub const fn give_up(&mut self) {
        self.is_disordered = true;
    }

    /// Whether [`Self::gather`] has to be called before the order is right again.
    #[inline]
    pub const fn is_disordered(&self) -> bool {
        self.is_disordered
    }

    /// Puts one that was found far in its place.
    #[inline(always)]
    pub fn move_on(&mut self, chains: &mut Chains, seats: &mut impl Seats, child: u32) {
        self.remove_first(chains, seats.slot(child), child);
        self.put(chains, seats, child);
    }

    /// Apart from the way in, so that their stacks are not added.
    #[inline(never)]
    fn remove_first(&mut self, chains: &mut Chains, index: u8, child: u32) {
        self.remove(chains, index, child);
    }

    /// Apart from the way out, likewise.
    #[inline(never)]
    fn put(&mut self, chains: &mut Chains, seats: &mut impl Seats, child: u32) {
        if let Some(slot) = self.insert(chains, seats.vt(child), child) {
            seats.set_slot(child, slot);
        }
    }

    /// Seats everybody anew, from the one of the smallest virtual time on, in slots as wide as the children lie apart.
    pub fn gather(&mut self, chains: &mut Chains, seats: &mut impl Seats) {
        let (least, spread) = self.take_all(chains, seats);
        self.put_back(chains, seats, least, shift_of(spread / 32));
    }

    #[inline(never)]
    fn put_back(&mut self, chains: &mut Chains, seats: &mut impl Seats, least: u32, shift: u8) {
        (self.occupied, self.len, self.first, self.shift, self.is_disordered) = (0, 0, NIL, shift, false);
        let mut waiting = core::mem::replace(&mut chains.waiting, EMPTY);
        if waiting.remove(&mut chains.links, least) {
            self.put(chains, seats, least);
        }
        while let Some(child) = waiting.pop_front(&mut chains.links) {
            self.put(chains, seats, child);
        }
    }

    /// The child of the smallest virtual time, and how far behind it the last one is.
    #[inline(never)]
    fn take_all(&self, chains: &mut Chains, seats: &impl Seats) -> (u32, u64) {
        let (mut least, mut most) = (NIL, NIL);
        let Chains { rows, links, waiting } = chains;
        for slot in rows.get_mut(self.number).into_iter().flatten() {
            while let Some(child) = slot.pop_front(links) {
                let vt = seats.vt(child);
                if least == NIL || is_later(seats.vt(least), vt) {
                    least = child;
                }
                if most == NIL || is_later(vt, seats.vt(most)) {
                    most = child;
                }
                waiting.push_back(links, child);
            }
        }
        (least, seats.vt(most).wrapping_sub(seats.vt(least)))
    }

    /// The width of a slot in virtual time.
    #[cfg(test)]
    pub const fn slot_span(&self) -> u64 {
        1 << self.shift
    }

    /// Slots become as wide as asked for, if they are far from it: everybody is seated anew.
    pub fn resize(&mut self, chains: &mut Chains, seats: &mut impl Seats, wanted_span: u64) {
        let wanted = shift_of(wanted_span);
        if wanted.abs_diff(self.shift) < 2 {
            return;
        }
        let (least, _) = self.take_all(chains, seats);
        self.put_back(chains, seats, least, wanted);
    }
}

/// Who keeps virtual times, and the slot that each child was put in.
pub trait Seats {
    fn vt(&self, child: u32) -> u64;
    fn slot(&self, child: u32) -> u8;
    fn set_slot(&mut self, child: u32, slot: u8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::structures::Array;
    use alloc::vec::Vec;
    use block::random::Stream;

    #[derive(Copy, Clone, PartialEq, Debug)]
    struct Seat {
        vt: u64,
        slot: u8,
    }

    impl Seats for Array<Seat> {
        fn vt(&self, child: u32) -> u64 {
            self.at(child).vt
        }
        fn slot(&self, child: u32) -> u8 {
            self.at(child).slot
        }
        fn set_slot(&mut self, child: u32, slot: u8) {
            self.at_mut(child).slot = slot;
        }
    }

    /// False if it is in a wheel already.
    fn insert(wheel: &mut Wheel, links: &mut Chains, seats: &mut Array<Seat>, child: u32) -> bool {
        let slot = wheel.insert(links, seats.vt(child), child);
        if let Some(slot) = slot {
            seats.set_slot(child, slot);
        }
        slot.is_some()
    }

    /// As the policy does it.
    fn first(wheel: &mut Wheel, links: &mut Chains, seats: &mut Array<Seat>) -> u32 {
        for _ in 0..wheel.len() {
            match wheel.look(seats) {
                (child, true) => wheel.move_on(links, seats, child),
                (child, false) => return child,
            }
        }
        wheel.give_up();
        wheel.look(seats).0
    }

    /// A closed population: the first goes on by its charge, over and over; sometimes one leaves or comes back.
    #[test]
    fn order_errs_by_a_slot_at_most() {
        for seed in 0..30 {
            let mut stream = Stream::of(seed, "paternoster/wheel");
            let begin = if seed % 2 == 0 { 1 << 40 } else { u64::MAX - (1 << 22) };
            let mut links = Chains::try_new(1, 100).unwrap();
            let mut seats = Array::try_new(100, Seat { vt: begin, slot: 0 }).unwrap();
            let mut wheel = Wheel::numbered(0);
            let mut members: Vec<u32> = Vec::new();
            for child in 0..100 {
                seats.at_mut(child).vt = begin.wrapping_add(stream.below(1 << 26));
                assert!(insert(&mut wheel, &mut links, &mut seats, child));
                assert!(!insert(&mut wheel, &mut links, &mut seats, child));
                members.push(child);
            }
            for _ in 0..20_000 {
                if wheel.is_disordered() {
                    wheel.gather(&mut links, &mut seats);
                }
                let mut first = first(&mut wheel, &mut links, &mut seats);
                if wheel.is_disordered() {
                    wheel.gather(&mut links, &mut seats);
                    first = self::first(&mut wheel, &mut links, &mut seats);
                }
                let least = members
                    .iter()
                    .map(|child| seats.at(*child).vt)
                    .min_by(|a, b| a.wrapping_sub(*b).cast_signed().cmp(&0))
                    .unwrap();
                let error = seats.at(first).vt.wrapping_sub(least);
                assert!(error <= wheel.slot_span(), "seed {seed}: {error} of {}", wheel.slot_span());
                assert!(wheel.remove(&mut links, seats.slot(first), first));
                seats.at_mut(first).vt = seats.at(first).vt.wrapping_add(1 + stream.below(1 << 22));
                if stream.below(10) == 0 {
                    // Away for a while, and then behind everybody else.
                    seats.at_mut(first).vt = least.wrapping_sub(stream.below(1 << 20));
                }
                assert!(insert(&mut wheel, &mut links, &mut seats, first));
                if stream.below(500) == 0 {
                    wheel.resize(&mut links, &mut seats, 1 << (12 + stream.below(14)));
                }
                assert_eq!(wheel.len() as usize, members.len());
            }
        }
    }

    /// What a wheel is, whatever its children are called by.
    fn contents(wheel: &Wheel, links: &Chains) -> (u64, u64, u32, bool, Vec<Vec<u32>>) {
        let of_slot = |slot: &Slot| {
            let mut children = Vec::new();
            let mut at = slot.first;
            while at != NIL {
                children.push(at);
                at = links.links.at(at).next;
            }
            assert_eq!(slot.last, children.last().copied().unwrap_or(NIL));
            children
        };
        let slots: Vec<Vec<u32>> = links.rows.at(wheel.number).iter().map(of_slot).collect();
        let round_from_base = (0..=63).map(|ahead| &slots[usize::from(round(wheel.base + ahead))]);
        assert_eq!(wheel.first, round_from_base.flatten().next().copied().unwrap_or(NIL));
        (wheel.occupied, wheel.base, wheel.len, wheel.is_disordered, slots)
    }

    /// Populations from one child up, by strides within a slot, over many and over the chain's end, forwards and back.
    #[test]
    fn to_advance_is_to_leave_and_to_come_by_any_way() {
        for seed in 0..60 {
            let mut stream = Stream::of(seed, "paternoster/wheel/advance");
            let count = [1, 2, 3, 10, 64, 200][(seed % 6) as usize];
            let mut seats = Array::try_new(count, Seat { vt: 0, slot: 0 }).unwrap();
            let mut links = [Chains::try_new(1, count).unwrap(), Chains::try_new(1, count).unwrap()];
            let mut wheels = [Wheel::numbered(0), Wheel::numbered(0)];
            let mut others = Array::try_new(count, Seat { vt: 0, slot: 0 }).unwrap();
            for child in 0..count {
                let vt = (1_u64 << 40).wrapping_add(stream.below(1 << 24));
                (seats.at_mut(child).vt, others.at_mut(child).vt) = (vt, vt);
                assert!(insert(&mut wheels[0], &mut links[0], &mut seats, child));
                assert!(insert(&mut wheels[1], &mut links[1], &mut others, child));
            }
            for _ in 0..4_000 {
                let any = u32::try_from(stream.below(u64::from(count))).unwrap();
                // A look moves the chain's begin.
                let first = wheels[0].look(&seats).0;
                assert_eq!(wheels[1].look(&others).0, first);
                let child = if stream.below(3) == 0 { any } else { first };
                let most = 1 << (12 + 4 * stream.below(4));
                let stride = stream.below(most);
                let vt = seats.vt(child);
                let vt = if stream.below(20) == 0 { vt.wrapping_sub(stride) } else { vt.wrapping_add(stride) };
                (seats.at_mut(child).vt, others.at_mut(child).vt) = (vt, vt);
                let is_first = child == first;
                let slot = if is_first && stream.below(2) == 0 {
                    wheels[0].advance_first(&mut links[0], vt).unwrap()
                } else {
                    wheels[0].advance(&mut links[0], vt, seats.slot(child), child).unwrap()
                };
                seats.set_slot(child, slot);
                if is_first && stream.below(2) == 0 {
                    assert!(wheels[1].is_first(child) && wheels[1].take_first(&mut links[1]));
                } else {
                    assert!(wheels[1].remove(&mut links[1], others.slot(child), child));
                }
                if stream.below(2) == 0 {
                    others.set_slot(child, wheels[1].append(&mut links[1], vt, child).unwrap());
                } else {
                    assert!(insert(&mut wheels[1], &mut links[1], &mut others, child));
                }
                assert_eq!(contents(&wheels[0], &links[0]), contents(&wheels[1], &links[1]), "seed {seed}");
                assert!(seats.iter().eq(others.iter()));
            }
        }
    }
}
