//! Sorted sets of slots: intrusive rank-balanced trees over a shared array of nodes.
//!
//! One [`SortedLinks`] per role (a purpose for which slots are sorted, for example order by
//! sector); many [`Tree`]s may share it, since a slot is in at most one tree of a role. Equal keys
//! keep their order of insertion. There is no recursion. A key behind the last or before the first
//! is attached without a descent. First, last, neighbours and removal by slot need no search,
//! because each node links to its neighbours in order.
//!
//! The trees are relaxed AVL trees (Sen, Tarjan, Kim: "Deletion without rebalancing in binary
//! search trees", 2016): insertion balances as in an AVL tree, removal does not at all, and the
//! height stays below 1.44 x log2 of the number of insertions since the tree was last empty. Queued
//! requests leave soon, so balancing on removal gains nothing, and its unpredictable branches cost
//! as much as the descent.

use core::hint::select_unpredictable;

use super::{Array, NIL, NoMemory};

/// 32 bytes, so that a thousand nodes fit into the first-level cache and none straddles two cache
/// lines.
#[derive(Copy, Clone, Debug)]
#[repr(align(32))]
struct Node {
    key: u64,
    children: [u32; 2],
    /// The slots before and behind this one in order: climbing the tree to find them would cost a
    /// mispredicted branch per level.
    beside: [u32; 2],
    parent: u32,
    /// Greater than the children's ranks: the height resulting from insertions, which removals do
    /// not reduce. [`MISSING`] for a slot in no tree.
    rank: i32,
}

/// The rank of a missing child.
const MISSING: i32 = -1;

const FREE: Node = Node { key: 0, children: [NIL; 2], beside: [NIL; 2], parent: NIL, rank: MISSING };
const _: () = assert!(size_of::<Node>() == 32, "half a cache line per node");

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Side {
    Left = 0,
    Right = 1,
}

impl Side {
    #[inline]
    const fn opposite(self) -> Side {
        match self {
            Side::Left => Side::Right,
            Side::Right => Side::Left,
        }
    }
}

impl Node {
    #[inline]
    fn child(&self, side: Side) -> u32 {
        let [left, right] = self.children;
        match side {
            Side::Left => left,
            Side::Right => right,
        }
    }

    #[inline]
    fn set_child(&mut self, side: Side, child: u32) {
        // Indexing instead of a `match`, which would become a branch; the compiler sees that the
        // index is in range.
        if let Some(place) = self.children.get_mut(side as usize) {
            *place = child;
        }
    }

    #[inline]
    fn set_beside(&mut self, side: Side, slot: u32) {
        if let Some(place) = self.beside.get_mut(side as usize) {
            *place = slot;
        }
    }

    #[inline]
    fn side_of(&self, child: u32) -> Side {
        if self.child(Side::Left) == child { Side::Left } else { Side::Right }
    }
}

/// The nodes of all slots in one role.
#[derive(Debug)]
pub struct SortedLinks(Array<Node>);

impl SortedLinks {
    /// Nodes for `slots` slots, none of them in a tree.
    ///
    /// # Errors
    /// [`NoMemory`] when the allocator refuses.
    pub fn try_new(slots: u32) -> Result<Self, NoMemory> {
        Ok(Self(Array::try_new(slots, FREE)?))
    }

    /// Whether the slot is in a tree of this role.
    #[inline]
    pub fn is_linked(&self, slot: u32) -> bool {
        self.0.at(slot).rank != MISSING
    }

    /// The key that the slot was inserted with; `None` if it is in no tree.
    #[inline]
    pub fn key(&self, slot: u32) -> Option<u64> {
        let node = self.0.at(slot);
        (node.rank != MISSING).then_some(node.key)
    }

    /// The slot behind this one in its tree.
    #[inline]
    pub fn next(&self, slot: u32) -> Option<u32> {
        let [_, next] = self.0.at(slot).beside;
        (next != NIL).then_some(next)
    }

    /// The slots before and behind this one in its tree; [`NIL`] where there is none.
    #[inline]
    pub fn beside(&self, slot: u32) -> [u32; 2] {
        self.0.at(slot).beside
    }

    /// The slot before this one in its tree.
    #[inline]
    pub fn prev(&self, slot: u32) -> Option<u32> {
        let [prev, _] = self.0.at(slot).beside;
        (prev != NIL).then_some(prev)
    }

    // These two drop writes to a slot out of range, as `Array::at_mut` would, without a call.

    #[inline]
    fn put(&mut self, slot: u32, node: Node) {
        if let Some(place) = self.0.get_mut(slot) {
            *place = node;
        }
    }

    #[inline]
    fn set_rank(&mut self, slot: u32, rank: i32) {
        if let Some(node) = self.0.get_mut(slot) {
            node.rank = rank;
        }
    }
}

/// A sorted set of slots. Every operation must get the same [`SortedLinks`] that the tree was
/// filled with.
#[derive(Clone, Debug)]
pub struct Tree {
    root: u32,
    first: u32,
    last: u32,
    len: u32,
}

impl Default for Tree {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl Tree {
    /// An empty tree.
    pub const EMPTY: Tree = Tree { root: NIL, first: NIL, last: NIL, len: 0 };

    /// The number of slots in the tree.
    #[inline]
    pub const fn len(&self) -> u32 {
        self.len
    }

    /// Whether no slot is in the tree.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The slot with the smallest key; of equal keys, the one inserted earliest.
    #[inline]
    pub const fn first(&self) -> Option<u32> {
        if self.first == NIL { None } else { Some(self.first) }
    }

    /// The slot with the largest key; of equal keys, the one inserted latest.
    #[inline]
    pub const fn last(&self) -> Option<u32> {
        if self.last == NIL { None } else { Some(self.last) }
    }

    /// Inserts the slot behind all whose key is not greater. False, without effect, if it is in a
    /// tree already or does not exist.
    #[inline(never)]
    pub fn insert(&mut self, links: &mut SortedLinks, slot: u32, key: u64) -> bool {
        self.insert_with::<false>(links, slot, key)
    }

    /// [`Tree::insert`], inlined; for the one place that most insertions come from.
    #[inline(always)]
    pub fn insert_inline(&mut self, links: &mut SortedLinks, slot: u32, key: u64) -> bool {
        self.insert_with::<true>(links, slot, key)
    }

    /// With `APART`, rotations are a separate function, because fewer than half of the insertions
    /// need any, and they use more registers than everything else. Without it they are inlined, to
    /// save stack.
    #[inline(always)]
    fn insert_with<const APART: bool>(&mut self, links: &mut SortedLinks, slot: u32, key: u64) -> bool {
        if links.0.get(slot).is_none_or(|node| node.rank != MISSING) {
            return false;
        }
        let (parent, side) = self.place_for(links, key);
        self.len = self.len.wrapping_add(1);
        let Some(node) = links.0.get_mut(parent) else {
            (self.root, self.first, self.last) = (slot, slot, slot);
            links.put(slot, Node { key, rank: 0, ..FREE });
            return true;
        };
        // The new node's neighbours are its parent on one side, and the parent's former neighbour
        // on the other.
        node.set_child(side, slot);
        let [before, behind] = node.beside;
        let is_left = side == Side::Left;
        node.beside = [select_unpredictable(is_left, slot, before), select_unpredictable(is_left, behind, slot)];
        let outer = select_unpredictable(is_left, before, behind);
        let beside = [select_unpredictable(is_left, before, parent), select_unpredictable(is_left, parent, behind)];
        links.put(slot, Node { key, beside, parent, rank: 0, ..FREE });
        match links.0.get_mut(outer) {
            // The field of the outer neighbour that faces the new node.
            Some(node) => node.set_beside(side.opposite(), slot),
            None if is_left => self.first = slot,
            None => self.last = slot,
        }
        self.restore::<APART>(links, slot, parent);
        true
    }

    /// Removes the slot from this tree. False, without effect, if it is in no tree.
    ///
    /// The caller ensures that the slot is in *this* tree. A slot of another tree with the same
    /// links is recognised only if it is the root there; otherwise both trees would be wrong
    /// afterwards.
    #[inline(never)]
    pub fn remove(&mut self, links: &mut SortedLinks, slot: u32) -> bool {
        self.remove_with::<false>(links, slot)
    }

    /// [`Tree::remove`], inlined; for the one place that most removals come from.
    #[inline(always)]
    pub fn remove_inline(&mut self, links: &mut SortedLinks, slot: u32) -> bool {
        self.remove_with::<true>(links, slot)
    }

    #[inline(always)]
    fn remove_with<const APART: bool>(&mut self, links: &mut SortedLinks, slot: u32) -> bool {
        let Some(place) = links.0.get_mut(slot) else { return false };
        if place.rank == MISSING || (place.parent == NIL && self.root != slot) {
            return false;
        }
        let node = core::mem::replace(place, FREE);
        let [before, behind] = node.beside;
        self.join(links, before, behind);
        let side = links.0.at(node.parent).side_of(slot);
        match node.children {
            [NIL, child] | [child, NIL] => self.attach_child(links, child, node.parent, side),
            _ if APART => self.replace_apart(links, slot, &node, side),
            _ => self.replace_by_successor(links, slot, &node, side),
        }
        self.len = self.len.wrapping_sub(1);
        true
    }

    /// Changes the key of the tree's only slot. False, without effect, if it is not the only one,
    /// or not of this tree.
    #[inline]
    pub fn change_key_of_only(&mut self, links: &mut SortedLinks, slot: u32, key: u64) -> bool {
        let is_only = self.len == 1 && self.root == slot;
        match links.0.get_mut(slot) {
            Some(node) if is_only => node.key = key,
            _ => return false,
        }
        true
    }

    /// The first slot whose key is not below `key`.
    #[inline]
    pub fn lower_bound(&self, links: &SortedLinks, key: u64) -> Option<u32> {
        let (mut slot, mut found) = (self.root, NIL);
        while let Some(node) = links.0.get(slot) {
            let [left, right] = node.children;
            let is_below = node.key < key;
            found = select_unpredictable(is_below, found, slot);
            slot = select_unpredictable(is_below, right, left);
        }
        (found != NIL).then_some(found)
    }

    /// The slot with exactly this key; of equal keys, the one inserted earliest.
    #[inline]
    pub fn find_exact(&self, links: &SortedLinks, key: u64) -> Option<u32> {
        self.lower_bound(links, key).filter(|&slot| links.0.at(slot).key == key)
    }

    /// The slots from smallest to largest key.
    #[inline]
    pub fn iter<'a>(&self, links: &'a SortedLinks) -> Iter<'a> {
        Iter { links, at: self.first() }
    }

    /// The parent of a new node with `key`, and the side. NIL in an empty tree.
    #[inline(always)]
    fn place_for(&self, links: &SortedLinks, key: u64) -> (u32, Side) {
        // Sequential I/O and virtual times arrive in order: the ends are tried before the descent.
        if links.0.at(self.last).key <= key {
            return (self.last, Side::Right);
        }
        if key < links.0.at(self.first).key {
            return (self.first, Side::Left);
        }
        let (mut parent, mut slot, mut goes_left) = (NIL, self.root, false);
        while let Some(node) = links.0.get(slot) {
            parent = slot;
            let [left, right] = node.children;
            goes_left = key < node.key;
            slot = select_unpredictable(goes_left, left, right);
        }
        (parent, if goes_left { Side::Left } else { Side::Right })
    }

    /// `child` has reached the rank of its parent: raises the parent while its other child permits
    /// it, otherwise rotates.
    #[inline(always)]
    fn restore<const APART: bool>(&mut self, links: &mut SortedLinks, child: u32, parent: u32) {
        let (mut child, mut parent, mut rank) = (child, parent, links.0.at(child).rank);
        while let Some(node) = links.0.get(parent).copied()
            && node.rank == rank
        {
            let side = node.side_of(child);
            if links.0.at(node.child(side.opposite())).rank != rank - 1 {
                if APART {
                    self.rebalance_apart(links, parent, child, side);
                } else {
                    self.rebalance(links, parent, child, side);
                }
                return;
            }
            rank += 1;
            links.set_rank(parent, rank);
            (child, parent) = (parent, node.parent);
        }
    }

    #[inline(never)]
    fn rebalance_apart(&mut self, links: &mut SortedLinks, top: u32, child: u32, side: Side) {
        self.rebalance(links, top, child, side);
    }

    /// `child` on `side` of `top` is as high as `top` itself, the other child at least two lower:
    /// one rotation, or two.
    #[inline(always)]
    fn rebalance(&mut self, links: &mut SortedLinks, top: u32, child: u32, side: Side) {
        let Node { rank, .. } = *links.0.at(child);
        let inner = links.0.at(child).child(side.opposite());
        if links.0.at(inner).rank == rank - 1 {
            self.rotate(links, child, side.opposite());
            links.set_rank(inner, rank);
            links.set_rank(child, rank - 1);
        }
        self.rotate(links, top, side);
        links.set_rank(top, rank - 1);
    }

    /// Rotates: the child of `top` on `side` comes up, `top` goes down on the other side. The
    /// caller sets the ranks.
    #[inline(always)]
    fn rotate(&mut self, links: &mut SortedLinks, top: u32, side: Side) {
        let Node { parent, .. } = *links.0.at(top);
        let pivot = links.0.at(top).child(side);
        let inner = links.0.at(pivot).child(side.opposite());
        let side_of_top = links.0.at(parent).side_of(top);
        self.attach_child(links, inner, top, side);
        self.attach_child(links, pivot, parent, side_of_top);
        self.attach_child(links, top, pivot, side.opposite());
    }

    /// Makes two slots neighbours; if one is NIL, the other is an end of the tree.
    #[inline(always)]
    fn join(&mut self, links: &mut SortedLinks, before: u32, behind: u32) {
        match links.0.get_mut(before) {
            Some(Node { beside: [_, next], .. }) => *next = behind,
            None => self.first = behind,
        }
        match links.0.get_mut(behind) {
            Some(Node { beside: [prev, _], .. }) => *prev = before,
            None => self.last = before,
        }
    }

    /// Makes `child` (or NIL) the child of `parent`, or the root if there is no parent.
    #[inline(always)]
    fn attach_child(&mut self, links: &mut SortedLinks, child: u32, parent: u32, side: Side) {
        match links.0.get_mut(parent) {
            Some(node) => node.set_child(side, child),
            None => self.root = child,
        }
        if let Some(node) = links.0.get_mut(child) {
            node.parent = parent;
        }
    }

    #[inline(never)]
    fn replace_apart(&mut self, links: &mut SortedLinks, slot: u32, node: &Node, side: Side) {
        self.replace_by_successor(links, slot, node, side);
    }

    /// Puts the successor of a node with two children into its place, on `side` of its parent.
    #[inline(always)]
    fn replace_by_successor(&mut self, links: &mut SortedLinks, slot: u32, node: &Node, side: Side) {
        let [left, right] = node.children;
        let [_, successor] = node.beside;
        let Node { parent, children: [_, orphan], .. } = *links.0.at(successor);
        if parent != slot {
            self.attach_child(links, orphan, parent, Side::Left);
            self.attach_child(links, right, successor, Side::Right);
        }
        self.attach_child(links, left, successor, Side::Left);
        self.attach_child(links, successor, node.parent, side);
        links.set_rank(successor, node.rank);
    }
}

/// The slots of a tree from smallest to largest key.
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    links: &'a SortedLinks,
    at: Option<u32>,
}

impl Iterator for Iter<'_> {
    type Item = u32;

    #[inline]
    fn next(&mut self) -> Option<u32> {
        let slot = self.at?;
        self.at = self.links.next(slot);
        Some(slot)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;
    use std::{collections::BTreeMap, vec};

    use proptest::prelude::*;

    use super::*;

    impl Tree {
        /// Checks parents, ranks, that no node is reached twice, and the bound on the height.
        fn check(&self, links: &SortedLinks, insertions: usize) {
            let (mut stack, mut found) = (vec![self.root], 0);
            while let Some(slot) = stack.pop() {
                let Some(node) = links.0.get(slot) else { continue };
                found += 1;
                assert!(found <= self.len());
                for child in node.children.into_iter().filter(|&child| child != NIL) {
                    let below = links.0.at(child);
                    assert!(below.parent == slot && (0..node.rank).contains(&below.rank));
                }
                stack.extend(node.children);
            }
            let root = links.0.at(self.root);
            assert_eq!((found, root.parent), (self.len(), NIL));
            // As in an AVL tree, a rank takes at least golden ratio ^ rank insertions.
            let bound = (insertions.max(1) as f64).log(1.618);
            assert!(f64::from(root.rank) <= bound, "rank {} after {insertions} insertions", root.rank);
        }
    }

    const SLOTS: u32 = 80;

    /// Three trees over one array of nodes, and their expected contents: (key, time of insertion)
    /// -> slot.
    struct Forest {
        links: SortedLinks,
        trees: [Tree; 3],
        models: [BTreeMap<(u64, usize), u32>; 3],
        homes: BTreeMap<u32, (usize, (u64, usize))>,
    }

    impl Forest {
        fn new() -> Self {
            let links = SortedLinks::try_new(SLOTS).unwrap();
            let trees = [Tree::EMPTY, Tree::EMPTY, Tree::EMPTY];
            Self { links, trees, models: Default::default(), homes: BTreeMap::new() }
        }

        fn insert(&mut self, tree: usize, slot: u32, key: u64, time: usize) {
            let expected = slot < SLOTS && !self.homes.contains_key(&slot);
            assert_eq!(self.trees[tree].insert(&mut self.links, slot, key), expected);
            if expected {
                self.models[tree].insert((key, time), slot);
                self.homes.insert(slot, (tree, (key, time)));
            }
        }

        fn remove(&mut self, slot: u32) {
            let home = self.homes.remove(&slot);
            let (tree, key) = home.unwrap_or_default();
            assert_eq!(self.trees[tree].remove(&mut self.links, slot), home.is_some());
            if home.is_some() {
                self.models[tree].remove(&key);
            }
        }

        fn check(&self, probe: u64, time: usize) {
            for (tree, model) in self.trees.iter().zip(&self.models) {
                tree.check(&self.links, time + 1);
                assert!(tree.iter(&self.links).eq(model.values().copied()));
                let backwards: Vec<u32> = core::iter::successors(tree.last(), |&s| self.links.prev(s)).collect();
                assert!(backwards.iter().rev().eq(model.values()));
                assert_eq!(tree.len() as usize, model.len());
                let bound = model.range((probe, 0)..).next();
                assert_eq!(tree.lower_bound(&self.links, probe), bound.map(|(_, &slot)| slot));
                let exact = bound.filter(|((key, _), _)| *key == probe);
                assert_eq!(tree.find_exact(&self.links, probe), exact.map(|(_, &slot)| slot));
            }
            for slot in 0..SLOTS + 1 {
                let key = self.homes.get(&slot).map(|(_, (key, _))| *key);
                assert_eq!((self.links.is_linked(slot), self.links.key(slot)), (key.is_some(), key));
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

        /// 100 cases of 1,000 operations: insert, remove, and change of key by removal and
        /// insertion; equal keys are frequent.
        #[test]
        fn three_trees_over_shared_nodes_behave_as_three_maps(
            operations in prop::collection::vec((0u8..3, 0usize..3, 0..SLOTS + 2, 0..60u64), 1000),
        ) {
            let mut forest = Forest::new();
            for (time, &(what, tree, slot, key)) in operations.iter().enumerate() {
                match what {
                    0 => forest.insert(tree, slot, key, time),
                    1 => forest.remove(slot),
                    _ => {
                        forest.remove(slot);
                        forest.insert(tree, slot, key, time);
                    }
                }
                forest.check(key, time);
            }
        }
    }

    #[test]
    fn keys_in_order_and_in_reverse_keep_the_tree_balanced() {
        for is_reversed in [false, true] {
            let mut links = SortedLinks::try_new(1000).unwrap();
            let mut tree = Tree::EMPTY;
            for slot in 0..1000u32 {
                let key = if is_reversed { 1000 - slot } else { slot };
                assert!(tree.insert(&mut links, slot, u64::from(key)));
            }
            tree.check(&links, 1000);
            while let Some(slot) = tree.first() {
                assert!(tree.remove(&mut links, slot));
                if tree.len().is_multiple_of(50) {
                    tree.check(&links, 1000);
                }
            }
        }
    }

    #[test]
    fn the_root_of_another_tree_is_recognised_as_foreign() {
        let mut links = SortedLinks::try_new(2).unwrap();
        let [mut ours, mut theirs] = [Tree::EMPTY, Tree::EMPTY];
        assert!(theirs.insert(&mut links, 1, 5));
        assert!(!ours.remove(&mut links, 1) && !ours.insert(&mut links, 1, 5) && !ours.insert(&mut links, 2, 5));
        assert!(theirs.iter(&links).eq([1]) && ours.is_empty());
    }
}
