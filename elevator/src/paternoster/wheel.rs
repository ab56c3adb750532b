//! The chain of cabins: children of a node by virtual time, in 64 slots that go round; expected O(1) for everything.
//!
//! A slot spans 2^shift of virtual time; children inside a slot are in the order of their coming, so that order errs by one
//! slot at most. What lies beyond the last slot waits in it and is put in its place when the chain has come there.

use crate::structures::{Array, Links, List, NIL, NoMemory};

const MASK: u64 = 63;
/// Lists that a wheel needs: one for each of its slots.
pub const LISTS: u32 = 64;

/// The lists of all wheels, and the links of all children.
#[derive(Debug)]
pub struct Chains {
    lists: Array<List>,
    links: Links,
    /// Children that are being seated anew.
    waiting: List,
}

impl Chains {
    /// # Errors
    /// When memory is short.
    pub fn try_new(wheels: u32, children: u32) -> Result<Self, NoMemory> {
        let lists = wheels.checked_mul(LISTS).ok_or(NoMemory)?;
        Ok(Self { lists: Array::try_new(lists, List::EMPTY)?, links: Links::try_new(children)?, waiting: List::EMPTY })
    }

    pub fn is_linked(&self, child: u32) -> bool {
        self.links.is_linked(child)
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
    /// Its first list among those of all wheels.
    lists: u32,
    occupied: u64,
    /// Number of the first slot, counted from virtual time 0.
    base: u64,
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

impl Wheel {
    /// The empty wheel of this number.
    pub const fn numbered(number: u32) -> Self {
        Self { lists: number.saturating_mul(LISTS), occupied: 0, base: 0, shift: 18, len: 0, is_disordered: false }
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
        let from = self.base << self.shift;
        vt.wrapping_sub(from).cast_signed() >> self.shift
    }

    #[inline]
    fn list(&self, index: u64) -> u32 {
        self.lists.wrapping_add(u32::try_from(index & MASK).unwrap_or(0))
    }

    /// The chain begins earlier by so many slots, if all that is on it still has room.
    #[inline(always)]
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
    #[inline(always)]
    pub fn insert(&mut self, chains: &mut Chains, seats: &mut impl Seats, child: u32) -> bool {
        let vt = seats.seat(child).vt;
        if self.is_empty() {
            self.base = vt >> self.shift;
        }
        let distance = self.distance(vt);
        if distance < 0 {
            self.go_back(distance.unsigned_abs());
        }
        let offset = u64::try_from(distance).unwrap_or(0).min(MASK);
        let index = self.base.wrapping_add(offset) & MASK;
        let Chains { lists, links, .. } = chains;
        let list = lists.at_mut(self.list(index));
        // Who is behind all others goes before those in the first slot.
        let is_in = if distance < 0 { list.push_front(links, child) } else { list.push_back(links, child) };
        if is_in {
            self.occupied |= 1 << index;
            self.len = self.len.wrapping_add(1);
            seats.seat_mut(child).slot = u8::try_from(index).unwrap_or(0);
        }
        is_in
    }

    /// False, and nothing happens, if the child is in no wheel. That it is in this one is the caller's duty.
    #[inline(always)]
    pub fn remove(&mut self, chains: &mut Chains, seats: &impl Seats, child: u32) -> bool {
        let index = u64::from(seats.seat(child).slot);
        let Chains { lists, links, .. } = chains;
        let list = lists.at_mut(self.list(index));
        let is_out = list.remove(links, child);
        let is_empty = list.is_empty();
        if is_out {
            self.len = self.len.wrapping_sub(1);
            if is_empty {
                self.occupied &= !(1 << index);
            }
        }
        is_out
    }

    /// The child of the smallest virtual time, to within a slot, if the chain is in order; NIL if there is none.
    #[inline]
    pub fn first(&mut self, chains: &mut Chains, seats: &mut impl Seats) -> u32 {
        if self.occupied == 0 {
            return NIL;
        }
        // Children that waited in the last slot are put in their places as the chain comes to them.
        for _ in 0..self.len {
            let head = self.head(chains);
            if self.distance(seats.seat(head).vt) <= 0 {
                return head;
            }
            self.move_on(chains, seats, head);
        }
        // Nobody for a whole round: one of them, this time.
        self.is_disordered = true;
        self.head(chains)
    }

    /// Whether [`Self::gather`] has to be called before the order is right again.
    #[inline]
    pub const fn is_disordered(&self) -> bool {
        self.is_disordered
    }

    #[inline]
    fn head(&mut self, chains: &Chains) -> u32 {
        let ahead = self.occupied.rotate_right(u32::try_from(self.base & MASK).unwrap_or(0)).trailing_zeros();
        self.base = self.base.wrapping_add(u64::from(ahead % 64));
        chains.lists.at(self.list(self.base)).first().unwrap_or(NIL)
    }

    #[inline(never)]
    fn move_on(&mut self, chains: &mut Chains, seats: &mut impl Seats, child: u32) {
        self.remove(chains, seats, child);
        self.insert_anew(chains, seats, child);
    }

    /// Apart from the way out, so that their stacks are not added.
    #[inline(never)]
    fn insert_anew(&mut self, chains: &mut Chains, seats: &mut impl Seats, child: u32) {
        self.insert(chains, seats, child);
    }

    /// Seats everybody anew, from the one of the smallest virtual time on, in slots as wide as the children lie apart.
    pub fn gather(&mut self, chains: &mut Chains, seats: &mut impl Seats) {
        let (least, spread) = self.take_all(chains, seats);
        self.put_back(chains, seats, least, shift_of(spread / 32));
    }

    fn put_back(&mut self, chains: &mut Chains, seats: &mut impl Seats, least: u32, shift: u32) {
        (self.occupied, self.len, self.shift, self.is_disordered) = (0, 0, shift, false);
        self.seat_all(chains, seats, least);
    }

    /// The child of the smallest virtual time, and how far behind it the last one is.
    #[inline(never)]
    fn take_all(&self, chains: &mut Chains, seats: &impl Seats) -> (u32, u64) {
        let (mut least, mut most) = (NIL, NIL);
        let Chains { lists, links, waiting } = chains;
        for slot in 0..LISTS {
            let list = lists.at_mut(self.lists.wrapping_add(slot));
            while let Some(child) = list.pop_front(links) {
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

    #[inline(never)]
    fn seat_all(&mut self, chains: &mut Chains, seats: &mut impl Seats, least: u32) {
        if chains.waiting.remove(&mut chains.links, least) {
            self.insert(chains, seats, least);
        }
        while let Some(child) = chains.waiting.pop_front(&mut chains.links) {
            self.insert(chains, seats, child);
        }
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
                assert!(wheel.insert(&mut links, &mut seats, child));
                assert!(!wheel.insert(&mut links, &mut seats, child));
                members.push(child);
            }
            for _ in 0..20_000 {
                if wheel.is_disordered() {
                    wheel.gather(&mut links, &mut seats);
                }
                let mut first = wheel.first(&mut links, &mut seats);
                if wheel.is_disordered() {
                    wheel.gather(&mut links, &mut seats);
                    first = wheel.first(&mut links, &mut seats);
                }
                let least = members
                    .iter()
                    .map(|child| seats.at(*child).vt)
                    .min_by(|a, b| a.wrapping_sub(*b).cast_signed().cmp(&0))
                    .unwrap();
                let error = seats.at(first).vt.wrapping_sub(least);
                assert!(error <= wheel.slot_span(), "seed {seed}: {error} of {}", wheel.slot_span());
                assert!(wheel.remove(&mut links, &seats, first));
                seats.at_mut(first).vt = seats.at(first).vt.wrapping_add(1 + stream.below(1 << 22));
                if stream.below(10) == 0 {
                    // Away for a while, and then behind everybody else.
                    seats.at_mut(first).vt = least.wrapping_sub(stream.below(1 << 20));
                }
                assert!(wheel.insert(&mut links, &mut seats, first));
                if stream.below(500) == 0 {
                    wheel.resize(&mut links, &mut seats, 1 << (12 + stream.below(14)));
                }
                assert_eq!(wheel.len() as usize, members.len());
            }
        }
    }
}
