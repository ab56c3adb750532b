//! The table of bios: what was submitted, by whom it wants to hear again, and in which request it sits.

use block::{NIL, Nanos};
use elevator::Bio;
use elevator::structures::{Array, NoMemory};

#[derive(Copy, Clone, Debug)]
pub(crate) struct Node {
    pub bio: Bio,
    pub cookie: u64,
    pub submitted_ns: Nanos,
    pub next: u32,
}

/// A chain of bios: those of one request in sector order, or those that wait for a tag in order of arrival.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Chain {
    pub first: u32,
    pub last: u32,
}

impl Chain {
    pub(crate) const EMPTY: Chain = Chain { first: NIL, last: NIL };

    #[inline]
    pub(crate) const fn is_empty(self) -> bool {
        self.first == NIL
    }
}

/// Sized once; nothing is allocated after.
#[derive(Debug)]
pub(crate) struct Bios {
    nodes: Array<Node>,
    first_free: u32,
    in_use: u32,
}

impl Bios {
    pub(crate) fn try_new(count: u32) -> Result<Self, NoMemory> {
        let bio = Bio::new(block::Operation::Read, block::Extent::new(0, 0));
        let mut nodes = Array::try_new(count, Node { bio, cookie: 0, submitted_ns: 0, next: NIL })?;
        for index in 0..count {
            nodes.at_mut(index).next = if index + 1 < count { index + 1 } else { NIL };
        }
        Ok(Self { nodes, first_free: if count == 0 { NIL } else { 0 }, in_use: 0 })
    }

    #[inline]
    pub(crate) fn take(&mut self, bio: &Bio, cookie: u64, now: Nanos) -> Option<u32> {
        let index = self.first_free;
        if index == NIL {
            return None;
        }
        let node = self.nodes.at_mut(index);
        self.first_free = node.next;
        *node = Node { bio: *bio, cookie, submitted_ns: now, next: NIL };
        self.in_use += 1;
        Some(index)
    }

    #[inline]
    pub(crate) fn give_back(&mut self, index: u32) {
        self.nodes.at_mut(index).next = self.first_free;
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

    #[inline]
    pub(crate) fn append(&mut self, chain: &mut Chain, index: u32) {
        self.nodes.at_mut(index).next = NIL;
        if chain.is_empty() {
            chain.first = index;
        } else {
            self.nodes.at_mut(chain.last).next = index;
        }
        chain.last = index;
    }

    #[inline]
    pub(crate) fn prepend(&mut self, chain: &mut Chain, index: u32) {
        self.nodes.at_mut(index).next = chain.first;
        if chain.is_empty() {
            chain.last = index;
        }
        chain.first = index;
    }

    /// Hangs the bios of `tail` behind those of `chain`.
    #[inline]
    pub(crate) fn join(&mut self, chain: &mut Chain, tail: Chain) {
        if tail.is_empty() {
            return;
        }
        if chain.is_empty() {
            *chain = tail;
            return;
        }
        self.nodes.at_mut(chain.last).next = tail.first;
        chain.last = tail.last;
    }

    #[inline]
    pub(crate) fn pop(&mut self, chain: &mut Chain) -> Option<u32> {
        let index = chain.first;
        if index == NIL {
            return None;
        }
        let node = self.nodes.at_mut(index);
        chain.first = node.next;
        node.next = NIL;
        if chain.first == NIL {
            chain.last = NIL;
        }
        Some(index)
    }
}
