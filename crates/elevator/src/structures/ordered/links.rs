//! The nodes of all sets that share one [`OrderedLinks`]: splitting, refilling from neighbours, and
//! reclaiming.
//!
//! A leaf stays until it is empty, because refilling costs more than a sweep through the set
//! (Johnson, Shasha: "B-trees with inserts and deletes: why free-at-empty is better than
//! merge-at-half", 1989). That alone would not bound the number of nodes. Therefore, when nodes
//! become scarce, leaves are dissolved if their two neighbours have room for their entries. If no
//! leaf can be dissolved, any three neighbours have at least 33 entries, and one node for ten slots
//! is more than such leaves need. So a tenth of the leaves can be dissolved whenever one has to be;
//! the search for one is short, and the next search continues where it ended.

use core::ops::ControlFlow;

use super::node::{HALF, Node, Nodes, PLACE_BITS, WIDTH};
use crate::structures::{Array, NIL, NoMemory};

/// Every inner node except a root has at least this many children.
pub(super) const FEWEST: u32 = 6;
/// Two inner neighbours are merged if the result has at most this many children: far from a split,
/// so that sets of constant size do not alternate between the two.
const MERGED: u32 = 14;
/// Slots per leaf in the pool.
const SLOTS_PER_LEAF: u32 = 10;
/// Nodes that one insertion can need: 2^28 slots in inner nodes of six children make ten levels,
/// plus a new root.
pub(super) const SPARE: u32 = 12;

const _: () = assert!(MERGED.div_ceil(2) >= FEWEST && MERGED + 1 >= 2 * FEWEST, "what is not merged can be shared out");
const _: () = assert!(SLOTS_PER_LEAF * 3 < 2 * WIDTH + 1, "the pool outlasts leaves that cannot be dissolved");

/// The entries of all slots for one role, that is, one purpose for which slots are sorted.
#[derive(Debug)]
pub struct OrderedLinks {
    /// Node and place of each slot; NIL for a slot in no set.
    pub(super) homes: Array<u32>,
    pub(super) nodes: Nodes,
    /// The unused nodes, linked by `next`.
    pub(super) free: u32,
    /// Number of unused nodes.
    pub(super) unused: u32,
    /// Where the search for a leaf to dissolve continues.
    swept: u32,
}

impl OrderedLinks {
    /// Entries for `slots` slots (at most 2^28), none of them in a set, and nodes for them in up to
    /// `sets` sets.
    ///
    /// # Errors
    /// [`NoMemory`] when the allocator refuses, or for more slots than places.
    pub fn try_new(slots: u32, sets: u32) -> Result<Self, NoMemory> {
        if slots > 1 << 28 {
            return Err(NoMemory);
        }
        // The first and the last leaf of a set have one neighbour only and are counted separately.
        // Each level above has at most a sixth of the nodes of the level below, or one node:
        // together less than a fifth of the leaves, and a root.
        let leaves = (slots / SLOTS_PER_LEAF).saturating_add(sets.saturating_mul(2));
        let inner = leaves / (FEWEST - 1) + sets;
        let spare = if sets == 0 { 0 } else { SPARE };
        let count = leaves.saturating_add(inner).saturating_add(spare);
        let (homes, nodes) = (Array::try_new(slots, NIL)?, Nodes::try_new(count)?);
        Ok(Self { homes, nodes, free: if count == 0 { NIL } else { 0 }, unused: count, swept: 0 })
    }

    /// Whether the slot is in a set of this role.
    #[inline]
    pub fn is_linked(&self, slot: u32) -> bool {
        *self.homes.at(slot) != NIL
    }

    /// The key that the slot was inserted with; `None` if it is in no set.
    #[inline]
    pub fn key(&self, slot: u32) -> Option<u64> {
        let home = *self.homes.at(slot);
        Some(self.nodes.get(home >> PLACE_BITS)?.entry(home).0)
    }

    /// The slot behind this one in its set.
    #[inline]
    pub fn next(&self, slot: u32) -> Option<u32> {
        let home = *self.homes.at(slot);
        let node = self.nodes.get(home >> PLACE_BITS)?;
        self.at_rank(node, node.rank_of(home) + 1)
    }

    /// The slot before this one in its set.
    #[inline]
    pub fn prev(&self, slot: u32) -> Option<u32> {
        let home = *self.homes.at(slot);
        let node = self.nodes.get(home >> PLACE_BITS)?;
        match node.rank_of(home).checked_sub(1) {
            Some(rank) => Some(node.item_at(rank)),
            None => self.nodes.get(node.prev).map(|before| before.item_at(before.len().wrapping_sub(1))),
        }
    }

    /// The slot of this rank in a leaf; behind the last one, the first slot of the next leaf.
    #[inline]
    pub(super) fn at_rank(&self, leaf: &Node, rank: u32) -> Option<u32> {
        if rank < leaf.len() {
            return Some(leaf.item_at(rank));
        }
        self.nodes.get(leaf.next).map(|next| next.item_at(0))
    }

    pub(super) fn take_free(&mut self) -> Option<u32> {
        let index = self.free;
        self.free = self.nodes.get(index)?.next;
        self.unused = self.unused.wrapping_sub(1);
        Some(index)
    }

    /// Returns an empty node to the pool.
    pub(super) fn give_back(&mut self, index: u32) {
        if let Some(node) = self.nodes.get_mut(index) {
            (node.level, node.home, node.prev, node.next) = (0, NIL, NIL, self.free);
            self.free = index;
            self.unused = self.unused.wrapping_add(1);
        }
    }

    /// Adds an entry to a node that has room, and records the item's place.
    #[inline]
    pub(super) fn put(&mut self, index: u32, rank: u32, entry: (u64, u32)) {
        let Some(node) = self.nodes.get_mut(index) else { return };
        let (level, place) = (node.level, node.put(rank, entry));
        self.set_home(level, entry.1, index << PLACE_BITS | place);
    }

    #[inline]
    fn set_home(&mut self, level: u16, item: u32, home: u32) {
        if level == 0 {
            if let Some(place) = self.homes.get_mut(item) {
                *place = home;
            }
        } else if let Some(child) = self.nodes.get_mut(item) {
            child.home = home;
        }
    }

    /// Makes two nodes neighbours; either may be NIL.
    pub(super) fn link(&mut self, left: u32, right: u32) {
        if let Some(node) = self.nodes.get_mut(left) {
            node.next = right;
        }
        if let Some(node) = self.nodes.get_mut(right) {
            node.prev = left;
        }
    }
}

// ---- moving entries between nodes ----
impl OrderedLinks {
    /// Moves the last `count` entries of a node to the front of another that has room for them.
    fn move_right(&mut self, left: u32, right: u32, count: u32) {
        let (Some(from), Some(to)) = (self.nodes.get(left), self.nodes.get(right)) else { return };
        let sources = from.order.wrapping_shr(from.len().wrapping_sub(count) * PLACE_BITS);
        // The free places at the end of the order come to the front.
        let places = to.order.rotate_left(count * PLACE_BITS);
        self.move_entries((left, sources), (right, places), count);
        if let Some(to) = self.nodes.get_mut(right) {
            to.order = places;
        }
    }

    /// Moves the first `count` entries of a node to the end of another that has room for them.
    fn move_left(&mut self, left: u32, right: u32, count: u32) {
        let (Some(to), Some(from)) = (self.nodes.get(left), self.nodes.get(right)) else { return };
        let (places, sources) = (to.order.wrapping_shr(to.len() * PLACE_BITS), from.order);
        self.move_entries((right, sources), (left, places), count);
        if let Some(from) = self.nodes.get_mut(right) {
            // The places at the front are free now, and so move to the end.
            from.order = sources.rotate_right(count * PLACE_BITS);
        }
    }

    /// Moves the entries at the first `count` places of one order to those of the other. The orders
    /// are not changed.
    #[inline]
    fn move_entries(&mut self, from: (u32, u64), to: (u32, u64), count: u32) {
        let level = self.nodes.at(from.0).level;
        for rank in 0..count.min(WIDTH) {
            let [source, target] = [from.1, to.1].map(|order| (order.wrapping_shr(rank * PLACE_BITS) & 15) as u32);
            let Some(node) = self.nodes.get_mut(from.0) else { return };
            let entry = node.entry(source);
            node.set_entry(source, (u64::MAX, NIL));
            node.len = node.len.wrapping_sub(1);
            let Some(node) = self.nodes.get_mut(to.0) else { return };
            node.set_entry(target, entry);
            node.len = node.len.wrapping_add(1);
            self.set_home(level, entry.1, to.0 << PLACE_BITS | target);
        }
    }

    /// Moves the upper half of a full node, whose parent has room, into a new node behind it.
    pub(super) fn split(&mut self, left: u32) -> Option<u32> {
        let right = self.take_free()?;
        let Node { level, home, next, .. } = *self.nodes.at(left);
        if let Some(node) = self.nodes.get_mut(right) {
            (node.level, node.prev, node.next) = (level, left, next);
        }
        self.move_right(left, right, HALF);
        self.link(left, right);
        self.link(right, next);
        // The first key becomes the separator in the parent. In a leaf it stays as well; in an
        // inner node it is replaced by 0.
        let key = if level == 0 { self.first_key(right) } else { self.replace_first_key(right, 0) };
        let parent = home >> PLACE_BITS;
        let rank = self.nodes.at(parent).rank_of(home) + 1;
        self.put(parent, rank, (key, right));
        Some(right)
    }
}

// ---- separator keys ----
impl OrderedLinks {
    fn first_key(&self, index: u32) -> u64 {
        let node = self.nodes.at(index);
        node.entry(node.place_at(0)).0
    }

    /// Sets the key of the first entry. Returns the old one.
    fn replace_first_key(&mut self, index: u32, key: u64) -> u64 {
        self.replace_key(index << PLACE_BITS | self.nodes.at(index).place_at(0), key)
    }

    fn replace_key(&mut self, home: u32, key: u64) -> u64 {
        let Some(node) = self.nodes.get_mut(home >> PLACE_BITS) else { return 0 };
        let (old_key, item) = node.entry(home);
        node.set_entry(home, (key, item));
        old_key
    }

    /// Sets the separator between a node and the one before it: the key of the lowest node above
    /// that is no first child, or the node's own. Bounded by the height.
    fn separate(&mut self, index: u32, key: u64) {
        let mut home = self.nodes.at(index).home;
        while let Some(parent) = self.nodes.get(home >> PLACE_BITS) {
            if parent.rank_of(home) != 0 {
                self.replace_key(home, key);
                return;
            }
            home = parent.home;
        }
    }
}

// ---- removing nodes ----
impl OrderedLinks {
    /// Removes an empty leaf that is not the root from its parent. Returns the parent, which has
    /// lost a child.
    pub(super) fn vacate(&mut self, leaf: u32) -> u32 {
        let Node { home, prev, next, .. } = *self.nodes.at(leaf);
        self.link(prev, next);
        if let Some(parent) = self.nodes.get_mut(home >> PLACE_BITS) {
            let rank = parent.rank_of(home);
            parent.take(rank, home & 15);
            if rank == 0 {
                // Nothing separates the new first child from anything in this node.
                let first = parent.place_at(0);
                parent.set_entry(first, (0, parent.entry(first).1));
            }
        }
        self.give_back(leaf);
        home >> PLACE_BITS
    }

    /// Restores the invariants after an inner node has lost a child, there and above. Bounded by
    /// the height, as each iteration goes one level up.
    // Always inlined: the two calls run one after the other, without nested stack frames.
    #[inline(always)]
    pub(super) fn settle(&mut self, node: u32) {
        let highest = self.refill_all(node);
        self.collapse_root(highest);
    }

    /// Returns the highest node that has lost a child.
    #[inline(never)]
    fn refill_all(&mut self, mut index: u32) -> u32 {
        while self.nodes.at(index).len() < FEWEST
            && let ControlFlow::Continue(parent) = self.refill(index)
        {
            index = parent;
        }
        index
    }

    /// Replaces a root with a single inner child by that child. The root keeps its index, because
    /// the set that owns it is not known here.
    #[inline(never)]
    fn collapse_root(&mut self, root: u32) {
        let Node { len: 1, level: 2.., .. } = *self.nodes.at(root) else { return };
        let below = self.nodes.at(root).item_at(0);
        if let Some(root) = self.nodes.get_mut(root) {
            root.take(0, root.place_at(0));
            root.level = root.level.wrapping_sub(1);
        }
        self.move_left(root, below, self.nodes.at(below).len());
        self.give_back(below);
    }

    /// A non-root inner node has too few children: merges it with a neighbour, or takes over
    /// children of one. Returns the parent if that has lost a child.
    fn refill(&mut self, index: u32) -> ControlFlow<(), u32> {
        let home = self.nodes.at(index).home;
        let Some(parent) = self.nodes.get(home >> PLACE_BITS) else { return ControlFlow::Break(()) };
        let rank = parent.rank_of(home).max(1);
        let (left, right) = (parent.item_at(rank - 1), parent.item_at(rank));
        let key = self.replace_key(self.nodes.at(right).home, 0);
        self.replace_first_key(right, key);
        let (left_len, right_len) = (self.nodes.at(left).len(), self.nodes.at(right).len());
        if left_len + right_len <= MERGED {
            self.move_left(left, right, right_len);
            let Node { home, next, .. } = *self.nodes.at(right);
            self.link(left, next);
            if let Some(parent) = self.nodes.get_mut(home >> PLACE_BITS) {
                parent.take(parent.rank_of(home), home & 15);
            }
            self.give_back(right);
            return ControlFlow::Continue(home >> PLACE_BITS);
        }
        let kept = (left_len + right_len) / 2;
        if left_len < kept {
            self.move_left(left, right, kept - left_len);
        } else {
            self.move_right(left, right, left_len - kept);
        }
        let key = self.replace_first_key(right, 0);
        self.replace_key(self.nodes.at(right).home, key);
        ControlFlow::Break(())
    }

    /// Ensures that an insertion into a tree with `levels` levels above its leaves finds the nodes
    /// it needs. Returns whether leaves were dissolved for that; `None` if there are not enough
    /// nodes, which can happen with more sets than the links were made for.
    #[inline]
    pub(super) fn reserve(&mut self, levels: u16) -> Option<bool> {
        let mut is_changed = false;
        while self.unused < u32::from(levels) + 2 {
            let (leaf, next) = self.find_dissolvable()?;
            self.share_out(leaf);
            let parent = self.vacate(leaf);
            self.settle(parent);
            self.separate(next, self.first_key(next));
            is_changed = true;
        }
        Some(is_changed)
    }

    /// A leaf whose two neighbours have room for its entries, and the leaf behind it.
    #[cold]
    #[inline(never)]
    fn find_dissolvable(&mut self) -> Option<(u32, u32)> {
        let count = self.nodes.count();
        for _ in 0..count {
            self.swept = if self.swept + 1 < count { self.swept + 1 } else { 0 };
            let leaf = self.nodes.at(self.swept);
            // The first and the last leaf of a set have one neighbour, an unused node has none.
            if leaf.level == 0
                && let (Some(before), Some(behind)) = (self.nodes.get(leaf.prev), self.nodes.get(leaf.next))
                && before.len() + leaf.len() + behind.len() <= 2 * WIDTH
            {
                return Some((self.swept, leaf.next));
            }
        }
        None
    }

    /// Moves the entries of a leaf to its neighbours, as evenly as possible.
    #[cold]
    #[inline(never)]
    fn share_out(&mut self, leaf: u32) {
        let Node { prev, next, .. } = *self.nodes.at(leaf);
        let [before, len, behind] = [prev, leaf, next].map(|index| self.nodes.at(index).len());
        let to_left = ((len + behind).saturating_sub(before) / 2).min(len);
        self.move_left(prev, leaf, to_left);
        self.move_right(leaf, next, len - to_left);
    }
}
