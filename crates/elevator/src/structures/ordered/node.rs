//! A node with sixteen entries of a B+ tree, and the pool of nodes that the sets of one
//! [`super::OrderedLinks`] share.

use alloc::vec::Vec;

use crate::structures::{NIL, NoMemory};

/// Entries per node: as many as one word can order.
pub(super) const WIDTH: u32 = 16;
pub(super) const HALF: u32 = WIDTH / 2;
/// Up to this many children of an inner node are compared one by one.
const FEW: u32 = 4;
/// A place is the number of an entry in its node: four bits. A `home` is a node and a place:
/// `node << PLACE_BITS | place`.
pub(super) const PLACE_BITS: u32 = 4;
/// A one in each of the sixteen places of a word.
const EVERY: u64 = 0x1111_1111_1111_1111;

/// On level 0 the items are slots, above that they are nodes of the level below. The key of an
/// inner item separates the entries below it from those below the item before it; the first item
/// has key 0, because there is nothing before it.
#[derive(Clone, Debug)]
#[repr(C)]
pub(super) struct Node {
    /// The places by rank, the lowest rank in the lowest four bits; free places come after the
    /// occupied ones.
    pub(super) order: u64,
    /// Node and place of this node's entry in the level above; NIL for a root.
    pub(super) home: u32,
    /// The neighbours on the same level.
    pub(super) prev: u32,
    pub(super) next: u32,
    pub(super) len: u16,
    pub(super) level: u16,
    /// The largest key where there is no entry, so that a search need not know how many there are.
    pub(super) keys: [u64; WIDTH as usize],
    pub(super) items: [u32; WIDTH as usize],
}

const _: () =
    assert!(size_of::<Node>() == 216, "no padding: there is a node for ten slots, and each byte counts as a tenth");

impl Node {
    pub(super) const EMPTY: Node = Node {
        order: 0xfedc_ba98_7654_3210,
        home: NIL,
        prev: NIL,
        next: NIL,
        len: 0,
        level: 0,
        keys: [u64::MAX; WIDTH as usize],
        items: [NIL; WIDTH as usize],
    };

    /// The number of entries.
    #[inline]
    pub(super) const fn len(&self) -> u32 {
        self.len as u32
    }

    /// The number of entries whose key is at most `key`.
    #[inline]
    pub(super) fn rank_behind(&self, key: u64) -> u32 {
        self.count(|other| other <= key).min(self.len())
    }

    /// The number of entries whose key is below `key`.
    #[inline]
    pub(super) fn rank_before(&self, key: u64) -> u32 {
        self.count(|other| other < key)
    }

    /// Alternating additions and subtractions keep this at two instructions per key: a plain sum
    /// would be vectorised, which costs twice as much on processors without a vector instruction
    /// that compares 64-bit numbers.
    #[inline]
    pub(super) fn count(&self, is_counted: impl Fn(u64) -> bool) -> u32 {
        let mut count = HALF;
        for pair in self.keys.chunks_exact(2) {
            if let &[first, second] = pair {
                count = count.wrapping_add(u32::from(is_counted(first)));
                count = count.wrapping_sub(u32::from(!is_counted(second)));
            }
        }
        count
    }

    /// Like [`Self::rank_behind`], for an inner node, whose first key is not above any key. In a
    /// small set the inner nodes have few children, and comparing only these takes a third of the
    /// time. Places without a child have the largest key.
    #[inline]
    pub(super) fn child_behind(&self, key: u64) -> u32 {
        if self.len() > FEW {
            return self.rank_behind(key);
        }
        let mut rank = 1;
        for other in 1..FEW {
            rank += u32::from(self.entry(self.place_at(other)).0 <= key);
        }
        rank.min(self.len())
    }

    #[inline]
    pub(super) fn place_at(&self, rank: u32) -> u32 {
        (self.order.wrapping_shr(rank * PLACE_BITS) & 15) as u32
    }

    #[inline]
    pub(super) fn rank_of(&self, place: u32) -> u32 {
        // The lowest of the places without a differing bit is found exactly, and there is only one.
        let differs = self.order ^ (u64::from(place & 15) * EVERY);
        (differs.wrapping_sub(EVERY) & !differs & (EVERY << 3)).trailing_zeros() / PLACE_BITS
    }

    #[inline]
    pub(super) fn entry(&self, place: u32) -> (u64, u32) {
        let place = (place & 15) as usize;
        (self.keys.get(place).copied().unwrap_or(u64::MAX), self.items.get(place).copied().unwrap_or(NIL))
    }

    #[inline]
    pub(super) fn item_at(&self, rank: u32) -> u32 {
        self.entry(self.place_at(rank)).1
    }

    #[inline]
    pub(super) fn set_entry(&mut self, place: u32, (key, item): (u64, u32)) {
        let place = (place & 15) as usize;
        if let (Some(old_key), Some(old_item)) = (self.keys.get_mut(place), self.items.get_mut(place)) {
            (*old_key, *old_item) = (key, item);
        }
    }

    /// Adds an entry at this rank to the node, which has room. Returns its place.
    #[inline]
    pub(super) fn put(&mut self, rank: u32, entry: (u64, u32)) -> u32 {
        let place = self.order >> 60;
        let shift = rank * PLACE_BITS;
        let below = self.order & mask(shift);
        self.order = below | place.wrapping_shl(shift) | ((self.order ^ below) << PLACE_BITS);
        self.len = self.len.wrapping_add(1);
        let place = (place & 15) as u32;
        self.set_entry(place, entry);
        place
    }

    /// Removes the entry of this rank and place.
    #[inline(always)]
    pub(super) fn take(&mut self, rank: u32, place: u32) -> (u64, u32) {
        let kept = mask(rank * PLACE_BITS);
        self.order = (self.order & kept) | ((self.order >> PLACE_BITS) & !kept) | (u64::from(place) << 60);
        self.len = self.len.wrapping_sub(1);
        let entry = self.entry(place);
        self.set_entry(place, (u64::MAX, NIL));
        entry
    }
}

/// The pool. An [`Array`](crate::structures::Array) would allocate two more nodes for indices out
/// of range, where [`Nodes::at`] returns a constant.
#[derive(Debug)]
pub(super) struct Nodes(pub(super) Vec<Node>);

impl Nodes {
    pub(super) fn try_new(count: u32) -> Result<Self, NoMemory> {
        let mut nodes = Vec::new();
        nodes.try_reserve_exact(count as usize).map_err(|_| NoMemory)?;
        nodes.resize_with(count as usize, || Node::EMPTY);
        for (next, node) in (1..count).zip(&mut nodes) {
            node.next = next;
        }
        Ok(Self(nodes))
    }

    pub(super) fn count(&self) -> u32 {
        // As many as were passed to `try_new`.
        u32::try_from(self.0.len()).unwrap_or(u32::MAX)
    }

    #[inline]
    pub(super) fn get(&self, index: u32) -> Option<&Node> {
        self.0.get(index as usize)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, index: u32) -> Option<&mut Node> {
        self.0.get_mut(index as usize)
    }

    /// The node; an empty one for an index out of range.
    #[inline]
    pub(super) fn at(&self, index: u32) -> &Node {
        self.get(index).unwrap_or(&Node::EMPTY)
    }
}

#[inline]
const fn mask(bits: u32) -> u64 {
    1u64.wrapping_shl(bits).wrapping_sub(1)
}
