//! The table of bios: what was submitted, the submitter's cookie, and the request that each bio
//! belongs to.
//!
//! A bio that became a request and is the only one in it has no record: the request's attributes
//! describe it, and the request's slot keeps its cookie. A bio needs a record only if it waits,
//! shares a request, passes a limiter or needs the flush machine.

use hoistway_block::{NIL, Nanos};
use hoistway_elevator::Bio;
use hoistway_elevator::structures::{Array, NoMemory};

/// A bio that is being submitted.
#[derive(Copy, Clone, Debug)]
pub(crate) enum Arrival {
    /// It has no record yet; the value is its cookie.
    Fresh(u64),
    /// It has the record with this index.
    Recorded(u32),
}

/// The bios of a request.
#[derive(Copy, Clone, Debug)]
pub(crate) enum Members {
    /// A single bio without a record, described by the request; the value is its cookie.
    Alone(u64),
    /// Bios with records.
    Chain(Chain),
}

#[derive(Copy, Clone, Debug)]
pub(crate) struct Node {
    pub bio: Bio,
    pub cookie: u64,
    pub submitted_ns: Nanos,
}

const _: () = assert!(size_of::<Node>() == 56, "no padding");

/// A chain of bios: those of one request in sector order, or those that wait for a tag in order of
/// arrival.
///
/// It is a circular list that stores only its last element (four bytes), because the first one
/// follows the last.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Chain {
    last: u32,
}

impl Chain {
    pub(crate) const EMPTY: Chain = Chain { last: NIL };

    /// Rebuilds a chain from the value of [`Chain::raw`].
    #[inline]
    pub(crate) const fn from_raw(last: u32) -> Self {
        Self { last }
    }

    #[inline]
    pub(crate) const fn raw(self) -> u32 {
        self.last
    }

    #[inline]
    pub(crate) const fn is_empty(self) -> bool {
        self.last == NIL
    }
}

const EMPTY: Node = Node {
    bio: Bio::new(hoistway_block::Operation::Read, hoistway_block::Extent::new(0, 0)),
    cookie: 0,
    submitted_ns: 0,
};
/// The smallest number of records that a growing table allocates.
const LEAST: u32 = 64;

/// Records for the bios in flight, allocated at construction or, where the host allows it, on
/// demand.
#[derive(Debug)]
pub(crate) struct Bios {
    nodes: Array<Node>,
    /// For each bio the next one in its chain; for each unused record the next unused one. A
    /// separate array, because the field would pad a node to 64 bytes.
    next: Array<u32>,
    first_free: u32,
    recorded: u32,
    capacity: u32,
    in_flight: u32,
}

impl Bios {
    /// Room for `capacity` bios, with records for `reserved` of them.
    pub(crate) fn try_new(capacity: u32, reserved: u32) -> Result<Self, NoMemory> {
        let count = reserved.min(capacity);
        let nodes = Array::try_new(count, EMPTY)?;
        let mut next = Array::try_new(count, NIL)?;
        for index in 1..count {
            *next.at_mut(index - 1) = index;
        }
        let first_free = if count == 0 { NIL } else { 0 };
        Ok(Self { nodes, next, first_free, recorded: 0, capacity, in_flight: 0 })
    }

    /// Whether another bio may be submitted.
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        self.in_flight < self.capacity
    }

    #[inline]
    pub(crate) fn count_submitted(&mut self) {
        self.in_flight += 1;
    }

    #[inline]
    pub(crate) fn count_ended(&mut self) {
        // Each bio was counted when it was submitted, so this does not wrap.
        self.in_flight = self.in_flight.wrapping_sub(1);
    }

    /// Ensures that `count` records can be taken. Always possible if all records were allocated at
    /// construction, since there is one for each bio in flight; otherwise the allocation may fail.
    pub(crate) fn reserve(&mut self, count: u32) -> bool {
        while self.recorded + count > self.nodes.len() {
            if self.nodes.len() >= self.capacity || self.grow().is_err() {
                return false;
            }
        }
        true
    }

    /// Doubles the number of records.
    #[cold]
    fn grow(&mut self) -> Result<(), NoMemory> {
        let (before, after) = (self.nodes.len(), (2 * self.nodes.len()).max(LEAST).min(self.capacity));
        let (mut nodes, mut next) = (Array::try_new(after, EMPTY)?, Array::try_new(after, NIL)?);
        for (new, old) in nodes.iter_mut().zip(self.nodes.iter()) {
            *new = *old;
        }
        for (new, old) in next.iter_mut().zip(self.next.iter()) {
            *new = *old;
        }
        for index in before..after {
            *next.at_mut(index) = if index + 1 < after { index + 1 } else { self.first_free };
        }
        (self.nodes, self.next, self.first_free) = (nodes, next, before);
        Ok(())
    }

    /// Takes a record for a bio that arrived at `now`.
    #[inline]
    pub(crate) fn take(&mut self, bio: &Bio, cookie: u64, now: Nanos) -> Option<u32> {
        if !self.reserve(1) {
            return None;
        }
        let index = self.first_free;
        let node = self.nodes.get_mut(index)?;
        *node = Node { bio: *bio, cookie, submitted_ns: now };
        self.first_free = *self.next.at(index);
        self.recorded += 1;
        Some(index)
    }

    #[inline]
    pub(crate) fn give_back(&mut self, index: u32) {
        *self.next.at_mut(index) = self.first_free;
        self.first_free = index;
        self.recorded = self.recorded.saturating_sub(1);
    }

    #[inline]
    pub(crate) fn at(&self, index: u32) -> &Node {
        self.nodes.at(index)
    }

    #[inline]
    pub(crate) fn at_mut(&mut self, index: u32) -> &mut Node {
        self.nodes.at_mut(index)
    }

    /// Bios in flight, with a record or without.
    #[inline]
    pub(crate) fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Bios with a record.
    #[inline]
    pub(crate) fn recorded(&self) -> u32 {
        self.recorded
    }

    #[inline]
    pub(crate) fn capacity(&self) -> u32 {
        self.capacity
    }

    /// The bios of a chain from first to last.
    pub(crate) fn iter(&self, chain: Chain) -> impl Iterator<Item = u32> + '_ {
        let first = (!chain.is_empty()).then(|| *self.next.at(chain.last));
        core::iter::successors(first, move |index| (*index != chain.last).then(|| *self.next.at(*index)))
    }

    /// The first bio of a chain.
    #[inline]
    pub(crate) fn first(&self, chain: Chain) -> Option<u32> {
        if chain.is_empty() { None } else { Some(*self.next.at(chain.last)) }
    }

    /// The bio after `index` in a chain.
    #[inline]
    pub(crate) fn behind(&self, chain: Chain, index: u32) -> Option<u32> {
        if index == chain.last { None } else { Some(*self.next.at(index)) }
    }

    /// A chain of one bio that is in no chain yet.
    #[inline]
    pub(crate) fn chain_of(&mut self, index: u32) -> Chain {
        *self.next.at_mut(index) = index;
        Chain { last: index }
    }

    #[inline]
    pub(crate) fn append(&mut self, chain: &mut Chain, index: u32) {
        let tail = self.chain_of(index);
        self.join(chain, tail);
    }

    #[inline]
    pub(crate) fn prepend(&mut self, chain: &mut Chain, index: u32) {
        let rest = core::mem::replace(chain, self.chain_of(index));
        self.join(chain, rest);
    }

    /// Appends the bios of `tail` to `chain`.
    #[inline]
    pub(crate) fn join(&mut self, chain: &mut Chain, tail: Chain) {
        if tail.is_empty() {
            return;
        }
        if !chain.is_empty() {
            let (first, first_of_tail) = (*self.next.at(chain.last), *self.next.at(tail.last));
            *self.next.at_mut(chain.last) = first_of_tail;
            *self.next.at_mut(tail.last) = first;
        }
        *chain = tail;
    }

    #[inline]
    pub(crate) fn pop(&mut self, chain: &mut Chain) -> Option<u32> {
        if chain.is_empty() {
            return None;
        }
        let first = *self.next.at(chain.last);
        if first == chain.last {
            *chain = Chain::EMPTY;
        } else {
            *self.next.at_mut(chain.last) = *self.next.at(first);
        }
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoistway_block::{Extent, Operation};

    #[test]
    fn chains_keep_their_order_whichever_way_they_grow() {
        let mut bios = Bios::try_new(6, 6).unwrap();
        let bio = Bio::new(Operation::Read, Extent::new(0, 8));
        let [a, b, c, d] = [0; 4].map(|cookie| bios.take(&bio, cookie, 0).unwrap());
        let (mut chain, mut tail) = (bios.chain_of(b), Chain::EMPTY);
        bios.prepend(&mut chain, a);
        bios.append(&mut tail, c);
        bios.append(&mut tail, d);
        bios.join(&mut chain, tail);
        bios.join(&mut chain, Chain::EMPTY);
        assert!(bios.iter(chain).eq([a, b, c, d]) && bios.iter(Chain::EMPTY).next().is_none());
        assert_eq!([(); 5].map(|()| bios.pop(&mut chain)), [Some(a), Some(b), Some(c), Some(d), None]);
        assert!(chain.is_empty());
        bios.give_back(c);
        assert_eq!((bios.take(&bio, 0, 0), bios.recorded(), bios.capacity()), (Some(c), 4, 6));
    }

    #[test]
    fn records_are_made_when_they_are_needed_and_keep_what_they_say() {
        let mut bios = Bios::try_new(100, 1).unwrap();
        let bio = Bio::new(Operation::Read, Extent::new(0, 8));
        let mut chain = Chain::EMPTY;
        for cookie in 0..100 {
            let index = bios.take(&bio, cookie, 0).unwrap();
            bios.append(&mut chain, index);
        }
        assert!(bios.iter(chain).map(|index| bios.at(index).cookie).eq(0..100));
        assert_eq!((bios.take(&bio, 0, 0), bios.reserve(1), bios.recorded()), (None, false, 100));
        bios.give_back(7);
        assert!(bios.reserve(1) && !bios.reserve(2));
    }
}
