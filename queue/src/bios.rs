//! The table of bios: what was submitted, by whom it wants to hear again, and in which request it sits.

use block::{NIL, Nanos};
use elevator::Bio;
use elevator::structures::{Array, NoMemory};

#[derive(Copy, Clone, Debug)]
pub(crate) struct Node {
    pub bio: Bio,
    pub cookie: u64,
    pub submitted_ns: Nanos,
}

const _: () = assert!(size_of::<Node>() == 56, "no padding");

/// A chain of bios: those of one request in sector order, or those that wait for a tag in order of arrival.
///
/// It is a ring of which the last is known, since the first is behind it: four bytes.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Chain {
    last: u32,
}

impl Chain {
    pub(crate) const EMPTY: Chain = Chain { last: NIL };

    #[inline]
    pub(crate) const fn is_empty(self) -> bool {
        self.last == NIL
    }
}

/// Sized once; nothing is allocated after.
#[derive(Debug)]
pub(crate) struct Bios {
    nodes: Array<Node>,
    /// Behind a bio in its chain; behind an unused one the next unused. Apart, because it would pad a node to 64 bytes.
    next: Array<u32>,
    first_free: u32,
    in_use: u32,
}

impl Bios {
    pub(crate) fn try_new(count: u32) -> Result<Self, NoMemory> {
        let bio = Bio::new(block::Operation::Read, block::Extent::new(0, 0));
        let nodes = Array::try_new(count, Node { bio, cookie: 0, submitted_ns: 0 })?;
        let mut next = Array::try_new(count, NIL)?;
        for index in 1..count {
            *next.at_mut(index - 1) = index;
        }
        Ok(Self { nodes, next, first_free: if count == 0 { NIL } else { 0 }, in_use: 0 })
    }

    #[inline]
    pub(crate) fn take(&mut self, bio: &Bio, cookie: u64, now: Nanos) -> Option<u32> {
        let index = self.first_free;
        let node = self.nodes.get_mut(index)?;
        *node = Node { bio: *bio, cookie, submitted_ns: now };
        self.first_free = *self.next.at(index);
        self.in_use += 1;
        Some(index)
    }

    #[inline]
    pub(crate) fn give_back(&mut self, index: u32) {
        *self.next.at_mut(index) = self.first_free;
        self.first_free = index;
        self.in_use = self.in_use.saturating_sub(1);
    }

    #[inline]
    pub(crate) fn at(&self, index: u32) -> &Node {
        self.nodes.at(index)
    }

    #[inline]
    pub(crate) fn at_mut(&mut self, index: u32) -> &mut Node {
        self.nodes.at_mut(index)
    }

    #[inline]
    pub(crate) fn in_use(&self) -> u32 {
        self.in_use
    }

    #[inline]
    pub(crate) fn capacity(&self) -> u32 {
        self.nodes.len()
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

    /// The bio behind one of a chain.
    #[inline]
    pub(crate) fn behind(&self, chain: Chain, index: u32) -> Option<u32> {
        if index == chain.last { None } else { Some(*self.next.at(index)) }
    }

    /// A chain of one bio, which is in none yet.
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

    /// Hangs the bios of `tail` behind those of `chain`.
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
    use block::{Extent, Operation};

    #[test]
    fn chains_keep_their_order_whichever_way_they_grow() {
        let mut bios = Bios::try_new(6).unwrap();
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
        assert_eq!((bios.take(&bio, 0, 0), bios.in_use(), bios.capacity()), (Some(c), 4, 6));
    }
}
