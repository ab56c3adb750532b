//! The chain of cabins: children of a node by virtual time, in 64 slots that go round; expected O(1) for everything.
//!
//! A slot spans 2^shift of virtual time; children inside a slot are in the order of their coming, so that order errs by one
//! slot at most. What lies beyond the last slot waits in it and is put in its place when the chain has come there.

use super::chains::{Chains, Link, OFF, Rings, SLOTS};
use crate::structures::NIL;

const MASK: u64 = 63;

/// Children with anything in common, by their virtual time. Laid out by hand: processors wait when they read a word of which a byte has just been
/// written, and compilers read a byte as a word where that is aligned.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Wheel {
    occupied: u64,
    /// Number of the first slot, counted from virtual time 0.
    base: u64,
    /// Where the heads of its slots begin.
    heads: u32,
    len: u32,
    /// Who is first of all, or NIL. Known ahead: the next look need not wait for the slot's head.
    first: u32,
    /// Somebody was so far behind the chain's begin that the order in its first slot may be wrong.
    is_disordered: bool,
    /// The slot of whoever is first.
    first_at: u8,
    shift: u8,
    /// It has one child, of which its slot's head knows nothing: who comes to a wheel of its own touches nothing else.
    is_lone: bool,
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

/// The bit of a slot, if it is wanted.
#[inline]
const fn bit_if(is_wanted: bool, index: u8) -> u64 {
    (is_wanted as u64) << (index & 63)
}

impl Wheel {
    /// The empty wheel of this number, in chains of so many children.
    pub const fn numbered(number: u32, children: u32) -> Self {
        let heads = children.wrapping_add(number.wrapping_mul(SLOTS));
        Self {
            occupied: 0,
            base: 0,
            heads,
            len: 0,
            first: NIL,
            first_at: 0,
            shift: 18,
            is_lone: false,
            is_disordered: false,
        }
    }

    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.occupied == 0
    }

    /// Who is first of all as far as is known without a look, or nobody's index.
    #[inline]
    pub const fn first(&self) -> u32 {
        self.first
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

    #[inline]
    const fn head(&self, index: u8) -> u32 {
        self.heads.wrapping_add(index as u32)
    }

    /// Whoever was first is not any more, and somebody is there.
    #[inline(always)]
    fn find_first(&mut self, rings: &Rings<'_>) {
        let ahead = self.occupied.rotate_right(u32::from(round(self.base))).trailing_zeros();
        self.first_at = round(self.base.wrapping_add(u64::from(ahead)));
        self.first = rings.first_behind(self.head(self.first_at));
    }

    /// Somebody has come to a slot; the first of all now, if it lies before that of who was.
    #[inline]
    fn note_newcomer(&mut self, child: u32, index: u8) {
        if self.ahead_of_base(index) < self.ahead_of_base(self.first_at) {
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

    /// The slot of this virtual time, no further back than the chain's end; `None` if it lies before the chain's begin.
    #[inline(always)]
    fn slot_beside(&self, vt: u64) -> Option<u8> {
        let distance = self.distance(vt);
        let index = round(self.base.wrapping_add(distance.cast_unsigned().min(MASK)));
        (distance >= 0).then_some(index)
    }

    /// The slot that the child is in now, which its keeper notes. `None`, and nothing happens, if it is in a wheel already.
    #[inline]
    pub fn insert(&mut self, chains: &mut Chains, vt: u64, child: u32) -> Option<u8> {
        if chains.is_linked(child) {
            return None;
        }
        self.receive(chains, vt, child)
    }

    /// One that is in no wheel, or has just left another one.
    #[inline(always)]
    fn receive(&mut self, chains: &mut Chains, vt: u64, child: u32) -> Option<u8> {
        if self.len == 0 {
            return self.begin_with(chains, vt, child);
        }
        let mut rings = chains.rings();
        if self.is_lone {
            self.tell_head(&mut rings);
        }
        let Some(index) = self.slot_beside(vt) else {
            rings.set_off(child);
            return self.insert_before(chains, vt, child);
        };
        rings.receive(self.head(index), child);
        self.note_newcomer(child, index);
        self.count_in(index);
        Some(index)
    }

    /// The chain begins where its only child is.
    #[inline(always)]
    fn begin_with(&mut self, chains: &mut Chains, vt: u64, child: u32) -> Option<u8> {
        chains.rings().set_lone(child);
        self.base = vt.wrapping_shr(u32::from(self.shift));
        let index = round(self.base);
        (self.first, self.first_at, self.is_lone) = (child, index, true);
        (self.occupied, self.len) = (bit_if(true, index), 1);
        Some(index)
    }

    /// Somebody comes to the only child.
    #[inline(always)]
    fn tell_head(&mut self, rings: &mut Rings<'_>) {
        self.is_lone = false;
        rings.receive(self.head(self.first_at), self.first);
    }

    /// Who is behind all others goes before those in the first slot.
    #[inline(never)]
    fn insert_before(&mut self, chains: &mut Chains, vt: u64, child: u32) -> Option<u8> {
        self.go_back(self.distance(vt).unsigned_abs());
        let index = round(self.base);
        if !chains.rings().push_front(self.head(index), child) {
            return None;
        }
        (self.first, self.first_at) = (child, index);
        self.count_in(index);
        Some(index)
    }

    #[inline(always)]
    const fn count_in(&mut self, index: u8) {
        self.occupied |= bit_if(true, index);
        self.len = self.len.wrapping_add(1);
    }

    /// The first of all is out of its slot, and this one was behind it there.
    #[inline(always)]
    fn first_is_out(&mut self, rings: &mut Rings<'_>, next: u32) {
        self.len = self.len.wrapping_sub(1);
        if core::mem::replace(&mut self.is_lone, false) {
            (self.occupied, self.first) = (0, NIL);
            return;
        }
        let is_left = rings.pop(self.head(self.first_at), next);
        self.occupied &= !bit_if(is_left, self.first_at);
        if self.occupied == 0 {
            self.first = NIL;
        } else {
            self.find_first(rings);
        }
    }

    /// One that is not the first of all is out of its slot.
    #[inline(always)]
    fn is_out(&mut self, rings: &mut Rings<'_>, index: u8, child: u32, link: Link) {
        let is_left = rings.unlink(self.head(index), child, link);
        self.occupied &= !bit_if(is_left, index);
        self.len = self.len.wrapping_sub(1);
    }

    /// From the slot that it is in. False, and nothing happens, if the child is in no wheel. That it is in this one is the caller's duty.
    #[inline]
    pub fn remove(&mut self, chains: &mut Chains, index: u8, child: u32) -> bool {
        let mut rings = chains.rings();
        let Some(link) = rings.get(child).filter(|link| link.next != OFF) else { return false };
        rings.set_off(child);
        if self.first == child {
            self.first_is_out(&mut rings, link.next);
        } else {
            self.is_out(&mut rings, index, child, link);
        }
        true
    }

    /// The first of all leaves for another wheel, to where its virtual time belongs there; answers as [`Self::insert`].
    #[inline(always)]
    pub fn hand_over_first(&mut self, other: &mut Wheel, chains: &mut Chains, vt: u64) -> Option<u8> {
        let child = self.first;
        let mut rings = chains.rings();
        let next = rings.get(child)?.next;
        self.first_is_out(&mut rings, next);
        other.receive(chains, vt, child)
    }

    /// The same for any of its children, from the slot that it is in.
    #[inline(always)]
    pub fn hand_over(&mut self, other: &mut Wheel, chains: &mut Chains, from: u8, vt: u64, child: u32) -> Option<u8> {
        if self.first == child {
            return self.hand_over_first(other, chains, vt);
        }
        let mut rings = chains.rings();
        let link = rings.get(child).filter(|link| link.next != OFF)?;
        self.is_out(&mut rings, from, child, link);
        other.receive(chains, vt, child)
    }

    /// Takes a child of this wheel from the slot that it is in to where its virtual time belongs, exactly as [`Self::remove`]
    /// and [`Self::insert`] would: answers like the latter.
    #[inline(never)]
    pub fn advance(&mut self, chains: &mut Chains, vt: u64, from: u8, child: u32) -> Option<u8> {
        if self.len <= 1 {
            return self.move_alone(chains, vt, from, child);
        }
        let Some(to) = self.slot_beside(vt) else { return self.fall_back(chains, vt, from, child) };
        let mut rings = chains.rings();
        let link = rings.get(child).filter(|link| link.next != OFF)?;
        let is_left = rings.unlink(self.head(from), child, link);
        rings.receive(self.head(to), child);
        self.occupied = (self.occupied & !bit_if(is_left, from)) | bit_if(true, to);
        if self.first == child {
            self.find_first(&rings);
        } else {
            self.note_newcomer(child, to);
        }
        Some(to)
    }

    /// The same for the first of all, which has nobody before it in its slot.
    #[inline(always)]
    pub fn advance_first(&mut self, chains: &mut Chains, vt: u64) -> Option<u8> {
        let (child, from) = (self.first, self.first_at);
        let to = match self.slot_beside(vt) {
            Some(to) if self.len > 1 => to,
            _ => return self.advance(chains, vt, from, child),
        };
        let mut rings = chains.rings();
        let next = rings.get(child)?.next;
        let is_left = rings.pop(self.head(from), next);
        rings.receive(self.head(to), child);
        self.occupied = (self.occupied & !bit_if(is_left, from)) | bit_if(true, to);
        self.find_first(&rings);
        Some(to)
    }

    /// Alone, it is where the chain begins.
    #[inline(always)]
    fn move_alone(&mut self, chains: &mut Chains, vt: u64, from: u8, child: u32) -> Option<u8> {
        if !self.is_lone {
            let mut rings = chains.rings();
            let next = rings.get(child).filter(|link| link.next != OFF)?.next;
            rings.pop(self.head(from), next);
        }
        self.begin_with(chains, vt, child)
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
        (self.occupied, self.len, self.first, self.shift) = (0, 0, NIL, shift);
        (self.is_lone, self.is_disordered) = (false, false);
        if chains.take_waiting(least) {
            self.put(chains, seats, least);
        }
        while let Some(child) = chains.next_waiting() {
            self.put(chains, seats, child);
        }
    }

    /// The child of the smallest virtual time, and how far behind it the last one is.
    #[inline(never)]
    fn take_all(&mut self, chains: &mut Chains, seats: &impl Seats) -> (u32, u64) {
        let (mut least, mut most) = (NIL, NIL);
        let waiting = chains.waiting();
        let mut rings = chains.rings();
        if self.is_lone {
            self.tell_head(&mut rings);
        }
        for index in 0..=round(MASK) {
            while let Some(child) = rings.pop_front(self.head(index)) {
                let vt = seats.vt(child);
                if least == NIL || is_later(seats.vt(least), vt) {
                    least = child;
                }
                if most == NIL || is_later(vt, seats.vt(most)) {
                    most = child;
                }
                rings.receive(waiting, child);
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
            let mut wheel = Wheel::numbered(0, 100);
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

    /// What a wheel is, and that what it knows of itself is true.
    fn contents(wheel: &Wheel, links: &Chains) -> (u64, u64, u32, bool, Vec<Vec<u32>>) {
        let of_slot = |index: u8| {
            let (head, is_here) = (wheel.head(index), wheel.first_at == index);
            let mut children = Vec::new();
            let mut at = links.behind(head);
            while at != head {
                children.push(at);
                at = links.behind(at);
            }
            assert!(links.is_ring(head, &children));
            if wheel.is_lone && is_here {
                assert!(children.is_empty(), "a lone child's head knows nothing of it");
                children.push(wheel.first);
            }
            assert_eq!(wheel.occupied >> index & 1 == 1, !children.is_empty());
            children
        };
        let slots: Vec<Vec<u32>> = (0..64).map(of_slot).collect();
        assert_eq!(slots.iter().map(Vec::len).sum::<usize>(), wheel.len as usize);
        assert!(!wheel.is_lone || wheel.len == 1);
        let round_from_base = (0..=63).map(|ahead| &slots[usize::from(round(wheel.base.wrapping_add(ahead)))]);
        assert_eq!(wheel.first, round_from_base.flatten().next().copied().unwrap_or(NIL));
        (wheel.occupied, wheel.base, wheel.len, wheel.is_disordered, slots)
    }

    /// Children go from a wheel to another one and back, the first or any.
    #[test]
    fn to_hand_over_is_to_leave_and_to_come() {
        for seed in 0..60 {
            let mut stream = Stream::of(seed, "paternoster/wheel/hand_over");
            let count = [1, 2, 3, 10, 64, 200][(seed % 6) as usize];
            let mut chains = [Chains::try_new(2, count).unwrap(), Chains::try_new(2, count).unwrap()];
            let mut pairs = [
                [0, 1].map(|number| Wheel::numbered(number, count)),
                [0, 1].map(|number| Wheel::numbered(number, count)),
            ];
            let mut seats = Array::try_new(count, Seat { vt: 1 << 40, slot: 0 }).unwrap();
            let mut is_in = alloc::vec![0; count as usize];
            for child in 0..count {
                let vt = seats.vt(child) + stream.below(1 << 22);
                seats.at_mut(child).vt = vt;
                let slots = [0, 1].map(|way| pairs[way][0].insert(&mut chains[way], vt, child).unwrap());
                assert_eq!(slots[0], slots[1]);
                seats.set_slot(child, slots[0]);
            }
            for _ in 0..4_000 {
                let any = u32::try_from(stream.below(u64::from(count))).unwrap();
                let (from, child) = if stream.below(3) == 0 {
                    (is_in[any as usize], any)
                } else {
                    let from = usize::from(stream.below(2) == 0);
                    // A look moves the chain's begin.
                    let first = pairs[0][from].look(&seats).0;
                    assert_eq!(pairs[1][from].look(&seats).0, first);
                    if first == NIL {
                        continue;
                    }
                    (from, first)
                };
                let stride = stream.below(1 << 21);
                let is_back = stream.below(20) == 0;
                let vt = seats.vt(child);
                let vt = if is_back { vt.wrapping_sub(stride) } else { vt.wrapping_add(stride) };
                let slot = seats.slot(child);
                let [left, right] = &mut pairs[0];
                let (out, into) = if from == 0 { (left, right) } else { (right, left) };
                let is_first = out.first() == child;
                let handed = if is_first && stream.below(2) == 0 {
                    out.hand_over_first(into, &mut chains[0], vt)
                } else {
                    out.hand_over(into, &mut chains[0], slot, vt, child)
                };
                assert!(pairs[1][from].remove(&mut chains[1], slot, child));
                assert_eq!(pairs[1][1 - from].insert(&mut chains[1], vt, child), handed);
                *seats.at_mut(child) = Seat { vt, slot: handed.unwrap() };
                is_in[child as usize] = 1 - from;
                let [one, other] = [0, 1].map(|way| pairs[way].each_ref().map(|wheel| contents(wheel, &chains[way])));
                assert_eq!(one, other, "seed {seed}");
            }
        }
    }

    /// Populations from one child up, by strides within a slot, over many and over the chain's end, forwards and back.
    #[test]
    fn to_advance_is_to_leave_and_to_come_by_any_way() {
        for seed in 0..60 {
            let mut stream = Stream::of(seed, "paternoster/wheel/advance");
            let count = [1, 2, 3, 10, 64, 200][(seed % 6) as usize];
            let mut seats = Array::try_new(count, Seat { vt: 0, slot: 0 }).unwrap();
            let mut links = [Chains::try_new(1, count).unwrap(), Chains::try_new(1, count).unwrap()];
            let mut wheels = [Wheel::numbered(0, count), Wheel::numbered(0, count)];
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
                assert!(wheels[1].remove(&mut links[1], others.slot(child), child));
                assert!(insert(&mut wheels[1], &mut links[1], &mut others, child));
                assert_eq!(contents(&wheels[0], &links[0]), contents(&wheels[1], &links[1]), "seed {seed}");
                assert!(seats.iter().eq(others.iter()));
            }
        }
    }
}
