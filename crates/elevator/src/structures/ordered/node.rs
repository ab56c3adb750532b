//! A node of a B+ tree of sixteen entries, and the pool that all nodes of a role come from.

use alloc::vec::Vec;

use crate::structures::{NIL, NoMemory};

/// Entries of a node: what one word can order.
pub(super) const WIDTH: u32 = 16;
pub(super) const HALF: u32 = WIDTH / 2;
/// So few children of an inner node are looked at one by one.
const FEW: u32 = 4;
/// A place is a node and one of its sixteen entries.
pub(super) const PLACE_BITS: u32 = 4;
/// One in each of the sixteen places of a word.
const EVERY: u64 = 0x1111_1111_1111_1111;

/// On level 0 the items are slots, above they are nodes of the level below. The key of an inner item separates what is
/// under it from what is under the item before it; the first has 0, since there is nothing to separate it from.
#[derive(Clone, Debug)]
#[repr(C)]
pub(super) struct Node {
    /// The places by rank, the lowest in the lowest four bits; behind the occupied ones those that are free.
    pub(super) order: u64,
    /// Where the level above has this node; NIL for a root.
    pub(super) home: u32,
    /// The neighbours on the same level.
    pub(super) prev: u32,
    pub(super) next: u32,
    pub(super) len: u16,
    pub(super) level: u16,
    /// The largest key where there is no entry, so that a search need not ask how many there are.
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

    /// The entries whose key is at most `key`.
    #[inline]
    pub(super) fn rank_behind(&self, key: u64) -> u32 {
        self.count(|other| other <= key).min(self.len())
    }

    /// The entries whose key is below `key`.
    #[inline]
    pub(super) fn rank_before(&self, key: u64) -> u32 {
        self.count(|other| other < key)
    }

    /// Adding and subtracting by turns keeps this two instructions a key: a plain sum becomes one of the compiler's
    /// vector reductions, which costs twice as much without an instruction that compares 64-bit numbers.
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

    /// The same of an inner node, whose first key is below all. A node of few children is common above few entries, and a
    /// third as long to read; the keys where there is no child are the largest.
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
        // The lowest of the places that differ in no bit is found exactly, and there is only one.
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

    /// Gives the node, which has room, an entry of this rank; answers its place.
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

    /// Takes the entry of this rank and place out.
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

/// The pool. An [`Array`](crate::structures::Array) would keep two nodes by value for indices out of range, in the policy and so on the stack of
/// whoever builds it.
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
        // As many as `try_new` was told.
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

    /// The node, or an empty one where there is none.
    #[inline]
    pub(super) fn at(&self, index: u32) -> &Node {
        self.get(index).unwrap_or(&Node::EMPTY)
    }
}

#[inline]
const fn mask(bits: u32) -> u64 {
    1u64.wrapping_shl(bits).wrapping_sub(1)
}
