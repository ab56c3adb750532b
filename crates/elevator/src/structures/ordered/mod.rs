//! Ordered sets of slots for thousands of entries: B+ trees over one pool of nodes.
//!
//! One [`OrderedLinks`] per role (a purpose for which slots are sorted, for example order by
//! sector); a handful of [`OrderedSet`]s may share it, since a slot is in at most one set of a
//! role. Equal keys keep their order of insertion. Compared with [`super::Tree`], a descent visits
//! three nodes instead of ten, and has no branch that random keys could cause to be mispredicted;
//! for small or many sets the tree is better.
//!
//! A node keeps its entries unsorted, and their order as sixteen four-bit places in one word.
//! Insertion and removal therefore move no entries, and an entry's place is valid until its node is
//! split or dissolved: removal by slot needs no search. The rank of a key is the number of keys not
//! above it, in whatever order they are stored (Mao, Kohler, Morris: "Cache craftiness for fast
//! multicore key-value storage", 2012, section 4.6.2, uses such a word for readers without locks).

mod links;
mod node;

pub use links::OrderedLinks;

use super::NIL;
use node::{HALF, PLACE_BITS, WIDTH};

/// An ordered set of slots. Every operation must get the same [`OrderedLinks`] that the set was
/// filled with.
#[derive(Clone, Debug)]
pub struct OrderedSet {
    root: u32,
    /// The first leaf. It is the first node that the set had, since splits add nodes behind others
    /// and the front leaf is never dissolved; or, after that became empty, the leaf behind it.
    front: u32,
    len: u32,
}

impl Default for OrderedSet {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl OrderedSet {
    /// An empty set.
    pub const EMPTY: OrderedSet = OrderedSet { root: NIL, front: NIL, len: 0 };

    /// The number of slots in the set.
    #[inline]
    pub const fn len(&self) -> u32 {
        self.len
    }

    /// Whether no slot is in the set.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The slot with the smallest key; of equal keys, the one inserted earliest.
    #[inline]
    pub fn first(&self, links: &OrderedLinks) -> Option<u32> {
        if self.len == 0 { None } else { Some(links.nodes.at(self.front).item_at(0)) }
    }

    /// Inserts the slot behind all whose key is not greater. False, without effect, if it is in a
    /// set already or does not exist, or if there is no node for it, which can happen with more
    /// sets than the links were made for.
    #[inline(never)]
    pub fn insert(&mut self, links: &mut OrderedLinks, slot: u32, key: u64) -> bool {
        self.insert_inline(links, slot, key)
    }

    /// [`OrderedSet::insert`], inlined; for the one place that most insertions come from.
    #[inline(always)]
    pub fn insert_inline(&mut self, links: &mut OrderedLinks, slot: u32, key: u64) -> bool {
        let Some(home @ &mut NIL) = links.homes.get_mut(slot) else { return false };
        // One request at a time is common, and in an empty set there is nothing to search and
        // nothing to order.
        if self.len == 0
            && let Some(leaf) = links.nodes.get_mut(self.root)
        {
            let place = leaf.place_at(0);
            leaf.set_entry(place, (key, slot));
            (leaf.len, self.len) = (1, 1);
            *home = self.root << PLACE_BITS | place;
            return true;
        }
        let (mut index, mut rank) = if self.len == 0 { (self.root, 0) } else { self.place_for(links, key) };
        if links.nodes.get(index).is_none_or(|leaf| leaf.len() == WIDTH) {
            let Some(room) = self.make_room(links, key, (index, rank)) else { return false };
            (index, rank) = room;
        }
        if let (Some(leaf), Some(home)) = (links.nodes.get_mut(index), links.homes.get_mut(slot)) {
            *home = index << PLACE_BITS | leaf.put(rank, (key, slot));
            self.len = self.len.wrapping_add(1);
        }
        true
    }

    /// Removes the slot from this set; `None`, without effect, if it is in no set.
    ///
    /// The caller ensures that the slot is in *this* set. A slot of another set with the same links
    /// is recognised only if that set has a single node; otherwise both lengths would be wrong
    /// afterwards.
    // Always inlined: a separate function would be one more frame below a choice, and slower.
    #[inline(always)]
    pub fn remove(&mut self, links: &mut OrderedLinks, slot: u32) -> Option<Removed> {
        let place = links.homes.get_mut(slot)?;
        let home = *place;
        let index = home >> PLACE_BITS;
        let leaf = links.nodes.get_mut(index)?;
        if leaf.home == NIL && self.root != index {
            return None;
        }
        *place = NIL;
        if self.len == 1 {
            let (key, _) = leaf.entry(home);
            leaf.set_entry(home, (u64::MAX, NIL));
            (leaf.len, self.len) = (0, 0);
            return Some(Removed { key, next: None, next_key: u64::MAX });
        }
        self.len = self.len.wrapping_sub(1);
        let rank = leaf.rank_of(home);
        let (key, _) = leaf.take(rank, home & 15);
        let is_done_with = leaf.len == 0;
        let behind = leaf.next;
        let next = if rank < leaf.len() {
            Some(leaf.entry(leaf.place_at(rank)))
        } else {
            links.nodes.get(behind).map(|leaf| leaf.entry(leaf.place_at(0)))
        };
        if is_done_with {
            self.give_up(links, index);
        }
        let (next, next_key) = next.map_or((None, u64::MAX), |(key, slot)| (Some(slot), key));
        Some(Removed { key, next, next_key })
    }

    /// The first slot whose key is not below `key`.
    #[inline]
    pub fn lower_bound(&self, links: &OrderedLinks, key: u64) -> Option<u32> {
        // As in insertion: one request at a time is common.
        if self.len == 0 {
            return None;
        }
        let mut index = self.root;
        while let Some(node) = links.nodes.get(index) {
            let rank = node.rank_before(key);
            if node.level == 0 {
                return links.at_rank(node, rank);
            }
            index = node.item_at(rank.saturating_sub(1));
        }
        None
    }

    /// The slot with exactly this key; of equal keys, the one inserted earliest.
    #[inline]
    pub fn find_exact(&self, links: &OrderedLinks, key: u64) -> Option<u32> {
        self.lower_bound(links, key).filter(|&slot| links.key(slot) == Some(key))
    }

    /// The slots from smallest to largest key.
    #[inline]
    pub fn iter<'a>(&self, links: &'a OrderedLinks) -> Iter<'a> {
        Iter { links, at: self.first(links) }
    }

    /// The leaf for a new entry with `key`, and its rank there. Bounded by the height.
    #[inline]
    fn place_for(&self, links: &OrderedLinks, key: u64) -> (u32, u32) {
        let (mut index, mut rank) = (self.root, 0);
        while let Some(node) = links.nodes.get(index) {
            if node.level == 0 {
                rank = node.rank_behind(key);
                break;
            }
            index = node.item_at(node.child_behind(key).wrapping_sub(1));
        }
        (index, rank)
    }

    /// Makes room if a leaf is full or missing. Returns the new place of an entry that was to have
    /// this place.
    #[cold]
    #[inline(never)]
    fn make_room(&mut self, links: &mut OrderedLinks, key: u64, (leaf, rank): (u32, u32)) -> Option<(u32, u32)> {
        if !links.reserve(links.nodes.at(self.root).level)? {
            return self.split_leaf(links, leaf, rank);
        }
        // A neighbour may have been dissolved.
        let (leaf, rank) = self.place_for(links, key);
        self.split_leaf(links, leaf, rank)
    }

    /// Splits a leaf if it is full, or creates the first one.
    #[inline(never)]
    fn split_leaf(&mut self, links: &mut OrderedLinks, leaf: u32, rank: u32) -> Option<(u32, u32)> {
        if leaf == NIL {
            self.root = links.take_free()?;
            self.front = self.root;
            links.link(NIL, self.root);
            links.link(self.root, NIL);
            return Some((self.root, 0));
        }
        if links.nodes.at(leaf).len() < WIDTH {
            return Some((leaf, rank));
        }
        // A split needs room in the parent: the topmost full node is split first, and the leaf
        // last. Bounded by the height.
        loop {
            let (mut top, mut home) = (leaf, links.nodes.at(leaf).home);
            while let Some(above) = links.nodes.get(home >> PLACE_BITS)
                && above.len() == WIDTH
            {
                (top, home) = (home >> PLACE_BITS, above.home);
            }
            if home == NIL {
                self.grow(links)?;
            }
            let right = links.split(top)?;
            if top == leaf {
                return Some(if rank > HALF { (right, rank - HALF) } else { (leaf, rank) });
            }
        }
    }

    /// Puts a new root above the old one.
    fn grow(&mut self, links: &mut OrderedLinks) -> Option<()> {
        let (below, root) = (self.root, links.take_free()?);
        let level = links.nodes.at(below).level.wrapping_add(1);
        if let Some(node) = links.nodes.get_mut(root) {
            (node.level, node.next) = (level, NIL);
        }
        links.put(root, 0, (0, below));
        self.root = root;
        Some(())
    }

    /// Removes an empty leaf that is not the root.
    #[inline(never)]
    fn give_up(&mut self, links: &mut OrderedLinks, leaf: u32) {
        let empty = links.nodes.at(leaf);
        if empty.prev == NIL {
            self.front = empty.next;
        }
        let parent = links.vacate(leaf);
        links.settle(parent);
        let root = links.nodes.at(self.root);
        if root.len == 1 && root.level != 0 {
            // One leaf is left.
            let last = root.item_at(0);
            if let Some(root) = links.nodes.get_mut(self.root) {
                root.take(0, root.place_at(0));
            }
            links.give_back(self.root);
            if let Some(last) = links.nodes.get_mut(last) {
                last.home = NIL;
            }
            self.root = last;
        }
    }
}

/// The result of a removal.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Removed {
    /// The key that the slot was inserted with.
    pub key: u64,
    /// The slot that was behind it.
    pub next: Option<u32>,
    /// The key of that slot; the largest possible key if there was none.
    pub next_key: u64,
}

/// The slots of a set from smallest to largest key.
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    links: &'a OrderedLinks,
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

    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::links::{FEWEST, SPARE};
    use super::*;
    use crate::structures::NoMemory;
    use alloc::vec::Vec;

    impl OrderedSet {
        /// Checks every node: its fill, its order, its parent, and that its keys lie between the
        /// separators around it. Returns the number of nodes.
        fn check(&self, links: &OrderedLinks) -> usize {
            let mut level = Vec::from_iter(links.nodes.get(self.root).map(|_| (self.root, NIL, 0, u64::MAX)));
            let (mut nodes, mut entries) = (0, 0);
            while !level.is_empty() {
                let mut below = Vec::new();
                for (at, &(index, home, least, most)) in level.iter().enumerate() {
                    let node = links.nodes.at(index);
                    assert_eq!((node.home, node.level), (home, links.nodes.at(level[0].0).level));
                    assert_eq!(node.prev, if at == 0 { NIL } else { level[at - 1].0 });
                    assert_eq!(node.next, level.get(at + 1).map_or(NIL, |next| next.0));
                    let fewest = if node.level == 0 { 1 } else { FEWEST };
                    assert!(node.len() <= WIDTH && (index == self.root || node.len() >= fewest));
                    let mut places = Vec::from_iter((0..WIDTH).map(|rank| node.place_at(rank)));
                    for rank in 0..WIDTH {
                        let place = node.place_at(rank);
                        assert_eq!(node.rank_of(place), rank);
                        let (key, item) = node.entry(place);
                        if rank >= node.len() {
                            assert_eq!((key, item), (u64::MAX, NIL));
                            continue;
                        }
                        let next = if rank + 1 < node.len() { node.entry(node.place_at(rank + 1)).0 } else { most };
                        if node.level == 0 {
                            assert!(least <= key && key <= next);
                            assert_eq!(*links.homes.at(item), index << PLACE_BITS | place);
                            entries += 1;
                        } else {
                            assert!(if rank == 0 { key == 0 } else { least <= key && key <= next });
                            below.push((item, index << PLACE_BITS | place, if rank == 0 { least } else { key }, next));
                        }
                    }
                    places.sort_unstable();
                    assert!(places.into_iter().eq(0..WIDTH));
                    nodes += 1;
                }
                if links.nodes.at(level[0].0).level == 0 {
                    assert_eq!(level[0].0, self.front);
                } else {
                    assert!(level.len() > 1 || below.len() > 1, "a root of one child");
                }
                level = below;
            }
            assert_eq!(entries, self.len());
            nodes
        }
    }

    /// Three sets over one pool, and their expected contents: (key, time of insertion) -> slot.
    struct Forest {
        links: OrderedLinks,
        sets: [OrderedSet; 3],
        models: [BTreeMap<(u64, usize), u32>; 3],
        homes: BTreeMap<u32, (usize, (u64, usize))>,
        time: usize,
        /// Nodes withheld from all sets.
        hidden: usize,
    }

    impl Forest {
        fn new(slots: u32) -> Self {
            let links = OrderedLinks::try_new(slots, 3).unwrap();
            let sets = [OrderedSet::EMPTY, OrderedSet::EMPTY, OrderedSet::EMPTY];
            Self { links, sets, models: Default::default(), homes: BTreeMap::new(), time: 0, hidden: 0 }
        }

        /// With so few nodes that there is always a leaf to dissolve, but perhaps only one: 33
        /// entries for three leaves, and the extra nodes per set.
        fn of_fewest_nodes(slots: u32) -> Self {
            let mut forest = Self::new(slots);
            let leaves = slots / 11 + 3 * 2;
            let needed = leaves + leaves / (FEWEST - 1) + 3 + SPARE;
            while forest.links.unused > needed {
                forest.links.take_free().unwrap();
                forest.hidden += 1;
            }
            forest
        }

        fn insert(&mut self, set: usize, slot: u32, key: u64) {
            self.time += 1;
            let expected = slot < self.links.homes.len() && !self.homes.contains_key(&slot);
            assert_eq!(self.sets[set].insert(&mut self.links, slot, key), expected);
            if expected {
                self.models[set].insert((key, self.time), slot);
                self.homes.insert(slot, (set, (key, self.time)));
            }
        }

        fn remove(&mut self, slot: u32) {
            let home = self.homes.remove(&slot);
            let (set, at) = home.unwrap_or_default();
            let removed = self.sets[set].remove(&mut self.links, slot);
            let (next, next_key) =
                self.models[set].range(at..).nth(1).map_or((None, u64::MAX), |(at, &slot)| (Some(slot), at.0));
            assert_eq!(removed, home.map(|_| Removed { key: at.0, next, next_key }));
            if home.is_some() {
                self.models[set].remove(&at);
            }
        }

        fn check_near(&self, probe: u64) {
            for (set, model) in self.sets.iter().zip(&self.models) {
                let bound = model.range((probe, 0)..).next();
                assert_eq!(set.lower_bound(&self.links, probe), bound.map(|(_, &slot)| slot));
                let exact = bound.filter(|((key, _), _)| *key == probe);
                assert_eq!(set.find_exact(&self.links, probe), exact.map(|(_, &slot)| slot));
                assert_eq!(set.first(&self.links), model.values().next().copied());
                if let Some((at, &slot)) = bound {
                    let (after, before) = (model.range(*at..).nth(1), model.range(..*at).next_back());
                    assert_eq!(self.links.next(slot), after.map(|(_, &slot)| slot));
                    assert_eq!(self.links.prev(slot), before.map(|(_, &slot)| slot));
                }
            }
        }

        fn check(&self) {
            let mut nodes = 0;
            for (set, model) in self.sets.iter().zip(&self.models) {
                nodes += set.check(&self.links);
                assert!(set.iter(&self.links).eq(model.values().copied()));
                assert_eq!(set.len() as usize, model.len());
            }
            let unused = core::iter::successors(Some(self.links.free), |&index| Some(self.links.nodes.at(index).next));
            let unused = unused.take_while(|&index| index != NIL).count();
            assert_eq!(unused, self.links.unused as usize);
            assert_eq!(nodes + unused + self.hidden, self.links.nodes.0.len(), "a node was lost");
            for slot in 0..=self.links.homes.len() {
                let key = self.homes.get(&slot).map(|(_, (key, _))| *key);
                assert_eq!((self.links.is_linked(slot), self.links.key(slot)), (key.is_some(), key));
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 50, failure_persistence: None, ..ProptestConfig::default() })]

        /// 50 cases of 2,000 operations: insert, remove, and change of key by removal and
        /// insertion; equal keys are frequent, and the smallest and largest keys occur.
        #[test]
        fn three_sets_over_shared_nodes_behave_as_three_maps(
            slots in 1u32..400,
            is_tight: bool,
            operations in prop::collection::vec(
                (0u8..4, 0usize..4, 0..402u32, prop_oneof![Just(0), Just(u64::MAX), 0..60u64, any::<u64>()]), 2000),
        ) {
            let mut forest = if is_tight { Forest::of_fewest_nodes(slots) } else { Forest::new(slots) };
            for (time, &(what, set, slot, key)) in operations.iter().enumerate() {
                let (set, slot) = (set.min(2), slot % (slots + 2));
                match what {
                    0 => forest.remove(slot),
                    1 => {
                        forest.remove(slot);
                        forest.insert(set, slot, key);
                    }
                    _ => forest.insert(set, slot, key),
                }
                forest.check_near(key);
                if time % 16 == 0 {
                    forest.check();
                }
            }
        }
    }

    const MANY: u32 = 20_000;

    /// Fills and empties three sets; `key` and `victim` map a running number to the keys and the
    /// order of removal.
    fn fill_and_empty(key: impl Fn(u32) -> u64, victim: impl Fn(u32) -> u32) {
        let mut forest = Forest::of_fewest_nodes(MANY);
        for slot in 0..MANY {
            forest.insert((slot / (MANY / 2)) as usize, slot, key(slot));
            if slot % 1000 == 0 {
                forest.check();
            }
        }
        assert!(!forest.sets[2].insert(&mut forest.links, MANY, 1));
        for count in 0..MANY {
            forest.remove(victim(count));
            forest.check_near(key(count));
            if count % 1000 == 0 {
                forest.check();
            }
        }
        forest.check();
        assert!(forest.sets.iter().all(OrderedSet::is_empty));
    }

    /// A permutation of the slots: 7,919 is prime.
    const fn shuffled(slot: u32) -> u32 {
        slot * 7919 % MANY
    }

    #[test]
    fn keys_in_order() {
        fill_and_empty(u64::from, |count| count);
    }

    #[test]
    fn keys_in_reverse() {
        fill_and_empty(|slot| u64::from(MANY - slot), |count| count);
        fill_and_empty(|slot| u64::from(MANY - slot), |count| MANY - 1 - count);
    }

    #[test]
    fn keys_at_random() {
        fill_and_empty(|slot| u64::from(shuffled(slot)), |count| MANY - 1 - count);
        fill_and_empty(u64::from, shuffled);
    }

    #[test]
    fn equal_keys() {
        fill_and_empty(|_| u64::MAX, shuffled);
        fill_and_empty(|_| 0, |count| count);
        fill_and_empty(|slot| u64::from(slot / 100), shuffled);
    }

    /// One set is thinned out until most of its leaves have one entry or two, and another set needs
    /// their nodes.
    #[test]
    fn nodes_of_a_sparse_set_come_to_those_that_need_them() {
        for stride in [7, 12, 17, 40] {
            let mut forest = Forest::of_fewest_nodes(MANY);
            (0..MANY).for_each(|slot| forest.insert(0, slot, u64::from(shuffled(slot))));
            let moved = Vec::from_iter((0..MANY).filter(|&slot| !shuffled(slot).is_multiple_of(stride)));
            moved.iter().for_each(|&slot| forest.remove(slot));
            let nodes_before = forest.sets[0].check(&forest.links);
            for (count, &slot) in moved.iter().enumerate() {
                forest.insert(1 + count % 2, slot, u64::from(slot));
                if count % 1000 == 0 {
                    forest.check();
                }
            }
            forest.check();
            assert!(forest.sets[0].check(&forest.links) < nodes_before, "nothing was dissolved");
            (0..MANY).for_each(|count| forest.remove(shuffled(count)));
            forest.check();
        }
    }

    /// Arrivals are clustered, departures are elsewhere: full leaves beside leaves with one entry,
    /// which cannot be dissolved.
    #[test]
    fn crowds_find_room() {
        let mut forest = Forest::of_fewest_nodes(MANY);
        let key = |slot: u32, offset: u32| u64::from(slot / 33 * 33) << 8 | u64::from(offset);
        (0..MANY).for_each(|slot| forest.insert(0, slot, key(slot, 64 * (slot % 33))));
        for round in 0..5 {
            for count in 0..MANY {
                let slot = shuffled(count);
                forest.remove(slot);
                let offset = if (slot / 33 + round).is_multiple_of(3) { 2000 + slot % 3 } else { slot % 7 };
                forest.insert(0, slot, key(slot, offset));
            }
            forest.check();
        }
    }

    #[test]
    fn a_sweep_over_random_arrivals_a_hundred_thousand_times() {
        let (mut forest, mut random, mut position) = (Forest::of_fewest_nodes(1000), 1u64, 0);
        let mut key = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            random >> 44
        };
        for slot in 0..1000 {
            forest.insert(0, slot, key());
        }
        for count in 0..100_000 {
            let set = &forest.sets[0];
            let slot = set.lower_bound(&forest.links, position).or_else(|| set.first(&forest.links)).unwrap();
            position = forest.links.key(slot).unwrap();
            forest.remove(slot);
            forest.insert(0, slot, key());
            forest.check_near(position);
            if count % 500 == 0 {
                forest.check();
            }
        }
    }

    #[test]
    fn impossible_values_are_refused() {
        let mut links = OrderedLinks::try_new(3, 1).unwrap();
        let [mut ours, mut theirs] = [OrderedSet::EMPTY, OrderedSet::EMPTY];
        assert!(theirs.insert(&mut links, 1, 5));
        assert_eq!([1, 2, NIL].map(|slot| ours.remove(&mut links, slot)), [None; 3]);
        assert_eq!(theirs.remove(&mut links, 2), None);
        assert!(!theirs.insert(&mut links, 1, 5) && !theirs.insert(&mut links, 3, 5));
        assert!(theirs.iter(&links).eq([1]) && ours.is_empty());
        let mut links = OrderedLinks::try_new(3, 0).unwrap();
        assert!(!ours.insert(&mut links, 0, 5) && ours.is_empty(), "the links were made for no set");
        assert_eq!(OrderedLinks::try_new(u32::MAX, 1).err(), Some(NoMemory));
    }
}
