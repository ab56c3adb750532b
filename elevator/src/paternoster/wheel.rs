//! The chain of cabins: children of a node by virtual time, in 64 slots that go round; expected O(1) for everything.
//!
//! A slot spans 2^shift of virtual time; children inside a slot are in the order of their coming, so that order errs by one
//! slot at most. What lies beyond the last slot waits in it and is put in its place when the chain has come there.

use crate::structures::{Array, NIL, NoMemory};

const MASK: u64 = 63;
/// Slots of a wheel.
const SLOTS: u32 = 64;

/// The children of a slot, in the order of their coming.
#[derive(Copy, Clone, Debug)]
struct Slot {
    first: u32,
    last: u32,
}

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
    slots: Array<Slot>,
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
        let slots = Array::try_new(wheels.checked_mul(SLOTS).ok_or(NoMemory)?, EMPTY)?;
        Ok(Self { slots, links: Array::try_new(children, Link { prev: NIL, next: OFF })?, waiting: EMPTY })
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
        let link = links.at_mut(child);
        let Link { prev, next } = *link;
        if next == OFF || (prev == NIL && self.first != child) {
            return false;
        }
        link.next = OFF;
        match links.get_mut(next) {
            Some(link) => link.prev = prev,
            None => self.last = prev,
        }
        match links.get_mut(prev) {
            Some(link) => link.next = next,
            None => self.first = next,
        }
        true
    }

    fn pop_front(&mut self, links: &mut Array<Link>) -> Option<u32> {
        let first = self.first;
        (first != NIL && self.remove(links, first)).then_some(first)
    }
}

/// Where a child is in a wheel, kept with the child.
#[derive(Copy, Clone, Debug)]
pub struct Seat {
    /// Virtual time: bytes times 2^16 through the weight.
    pub vt: u64,
    slot: u8,
}

impl Seat {
    pub const fn at(vt: u64) -> Self {
        Self { vt, slot: 0 }
    }
}

/// Children with anything in common, by their virtual time.
#[derive(Clone, Debug)]
pub struct Wheel {
    occupied: u64,
    /// Number of the first slot, counted from virtual time 0.
    base: u64,
    /// The first of its slots among those of all wheels.
    first_slot: u32,
    shift: u32,
    len: u32,
    /// Somebody was so far behind the chain's begin that the order in its first slot may be wrong.
    is_disordered: bool,
}

/// Whether one virtual time lies behind another; both wrap.
#[inline]
pub const fn is_later(one: u64, other: u64) -> bool {
    one.wrapping_sub(other).cast_signed() > 0
}

/// The power of two for slots of about this width.
fn shift_of(span: u64) -> u32 {
    (u64::BITS - 1).wrapping_sub(span.max(1).leading_zeros()).clamp(8, 48)
}

/// A slot's number round the wheel, which always is one.
#[inline]
#[allow(clippy::cast_possible_truncation, reason = "below 64")]
const fn round(number: u64) -> u32 {
    (number & MASK) as u32
}

impl Wheel {
    /// The empty wheel of this number.
    pub const fn numbered(number: u32) -> Self {
        Self { occupied: 0, base: 0, first_slot: number.saturating_mul(SLOTS), shift: 18, len: 0, is_disordered: false }
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
        let from = self.base.wrapping_shl(self.shift);
        vt.wrapping_sub(from).cast_signed().wrapping_shr(self.shift)
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

    /// False, and nothing happens, if the child is in a wheel already.
    #[inline]
    pub fn insert(&mut self, chains: &mut Chains, seat: &mut Seat, child: u32) -> bool {
        if self.occupied == 0 {
            self.base = seat.vt.wrapping_shr(self.shift);
        }
        let distance = self.distance(seat.vt);
        let Chains { slots, links, .. } = chains;
        let index;
        let is_in = if distance < 0 {
            // Who is behind all others goes before those in the first slot.
            self.go_back(distance.unsigned_abs());
            index = round(self.base);
            slots.at_mut(self.first_slot.wrapping_add(index)).push_front(links, child)
        } else {
            index = round(self.base.wrapping_add(distance.unsigned_abs().min(MASK)));
            slots.at_mut(self.first_slot.wrapping_add(index)).push_back(links, child)
        };
        if is_in {
            self.occupied |= 1 << index;
            self.len = self.len.wrapping_add(1);
            seat.slot = u8::try_from(index).unwrap_or(0);
        }
        is_in
    }

    /// False, and nothing happens, if the child is in no wheel. That it is in this one is the caller's duty.
    #[inline]
    pub fn remove(&mut self, chains: &mut Chains, seat: &Seat, child: u32) -> bool {
        let index = round(u64::from(seat.slot));
        let Chains { slots, links, .. } = chains;
        let slot = slots.at_mut(self.first_slot.wrapping_add(index));
        let is_out = slot.remove(links, child);
        if is_out {
            self.len = self.len.wrapping_sub(1);
            if slot.first == NIL {
                self.occupied &= !(1 << index);
            }
        }
        is_out
    }

    /// The child of the smallest virtual time, to within a slot, if the chain is in order; NIL if there is none. Far, if it waits in the
    /// last slot for the chain to come to its place: then it has to be moved on, and another one is looked for.
    #[inline(always)]
    pub fn look(&mut self, chains: &Chains, seats: &impl Seats) -> (u32, bool) {
        if self.occupied == 0 {
            return (NIL, false);
        }
        let head = self.head(chains);
        (head, self.distance(seats.seat(head).vt) > 0)
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

    #[inline]
    fn head(&mut self, chains: &Chains) -> u32 {
        let ahead = self.occupied.rotate_right(u32::try_from(self.base & MASK).unwrap_or(0)).trailing_zeros();
        self.base = self.base.wrapping_add(u64::from(ahead & 63));
        chains.slots.at(self.first_slot.wrapping_add(round(self.base))).first
    }

    /// Puts one that was found far in its place.
    #[inline(never)]
    pub fn move_on(&mut self, chains: &mut Chains, seats: &mut impl Seats, child: u32) {
        let seat = seats.seat_mut(child);
        self.remove_first(chains, seat, child);
        self.insert(chains, seat, child);
    }

    /// Apart from the way in, so that their stacks are not added.
    #[inline(never)]
    fn remove_first(&mut self, chains: &mut Chains, seat: &Seat, child: u32) {
        self.remove(chains, seat, child);
    }

    /// Seats everybody anew, from the one of the smallest virtual time on, in slots as wide as the children lie apart.
    pub fn gather(&mut self, chains: &mut Chains, seats: &mut impl Seats) {
        let (least, spread) = self.take_all(chains, seats);
        self.put_back(chains, seats, least, shift_of(spread / 32));
    }

    #[inline(never)]
    fn put_back(&mut self, chains: &mut Chains, seats: &mut impl Seats, least: u32, shift: u32) {
        (self.occupied, self.len, self.shift, self.is_disordered) = (0, 0, shift, false);
        let mut waiting = core::mem::replace(&mut chains.waiting, EMPTY);
        if waiting.remove(&mut chains.links, least) {
            self.insert(chains, seats.seat_mut(least), least);
        }
        while let Some(child) = waiting.pop_front(&mut chains.links) {
            self.insert(chains, seats.seat_mut(child), child);
        }
    }

    /// The child of the smallest virtual time, and how far behind it the last one is.
    #[inline(never)]
    fn take_all(&self, chains: &mut Chains, seats: &impl Seats) -> (u32, u64) {
        let (mut least, mut most) = (NIL, NIL);
        let Chains { slots, links, waiting } = chains;
        for index in 0..SLOTS {
            let slot = slots.at_mut(self.first_slot.wrapping_add(index));
            while let Some(child) = slot.pop_front(links) {
                let vt = seats.seat(child).vt;
                if least == NIL || is_later(seats.seat(least).vt, vt) {
                    least = child;
                }
                if most == NIL || is_later(vt, seats.seat(most).vt) {
                    most = child;
                }
                waiting.push_back(links, child);
            }
        }
        (least, seats.seat(most).vt.wrapping_sub(seats.seat(least).vt))
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

/// Who keeps the seats.
pub trait Seats {
    fn seat(&self, child: u32) -> &Seat;
    fn seat_mut(&mut self, child: u32) -> &mut Seat;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::structures::Array;
    use alloc::vec::Vec;
    use block::random::Stream;

    impl Seats for Array<Seat> {
        fn seat(&self, child: u32) -> &Seat {
            self.at(child)
        }
        fn seat_mut(&mut self, child: u32) -> &mut Seat {
            self.at_mut(child)
        }
    }

    /// As the policy does it.
    fn first(wheel: &mut Wheel, links: &mut Chains, seats: &mut Array<Seat>) -> u32 {
        for _ in 0..wheel.len() {
            match wheel.look(links, seats) {
                (child, true) => wheel.move_on(links, seats, child),
                (child, false) => return child,
            }
        }
        wheel.give_up();
        wheel.look(links, seats).0
    }

    /// A closed population: the first goes on by its charge, over and over; sometimes one leaves or comes back.
    #[test]
    fn order_errs_by_a_slot_at_most() {
        for seed in 0..30 {
            let mut stream = Stream::of(seed, "paternoster/wheel");
            let begin = if seed % 2 == 0 { 1 << 40 } else { u64::MAX - (1 << 22) };
            let mut links = Chains::try_new(1, 100).unwrap();
            let mut seats = Array::try_new(100, Seat::at(begin)).unwrap();
            let mut wheel = Wheel::numbered(0);
            let mut members: Vec<u32> = Vec::new();
            for child in 0..100 {
                seats.at_mut(child).vt = begin.wrapping_add(stream.below(1 << 26));
                assert!(wheel.insert(&mut links, seats.at_mut(child), child));
                assert!(!wheel.insert(&mut links, seats.at_mut(child), child));
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
                assert!(wheel.remove(&mut links, seats.at(first), first));
                seats.at_mut(first).vt = seats.at(first).vt.wrapping_add(1 + stream.below(1 << 22));
                if stream.below(10) == 0 {
                    // Away for a while, and then behind everybody else.
                    seats.at_mut(first).vt = least.wrapping_sub(stream.below(1 << 20));
                }
                assert!(wheel.insert(&mut links, seats.at_mut(first), first));
                if stream.below(500) == 0 {
                    wheel.resize(&mut links, &mut seats, 1 << (12 + stream.below(14)));
                }
                assert_eq!(wheel.len() as usize, members.len());
            }
        }
    }
}
