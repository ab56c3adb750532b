//! Virtual start and finish times of B-WF2Q+, and the trees that order entities by them. Nothing
//! is allocated after construction. Times wrap, so they are compared by their difference.

use crate::structures::{Array, NIL, NoMemory};

/// Whether virtual time `one` lies after `other`.
#[inline]
pub const fn is_later(one: u64, other: u64) -> bool {
    one.wrapping_sub(other).cast_signed() > 0
}

/// Virtual start and finish of an entity, and its links in a set.
#[derive(Copy, Clone, Debug)]
pub struct Timestamps {
    pub starts: u64,
    pub finish: u64,
    /// Smallest start of the entity and its subtree.
    least_start: u64,
    children: [u32; 2],
    parent: u32,
    is_linked: bool,
    is_red: bool,
}

const NOWHERE: Timestamps = Timestamps {
    starts: 0,
    finish: 0,
    least_start: 0,
    children: [NIL; 2],
    parent: NIL,
    is_linked: false,
    is_red: false,
};

/// Index of the child with the earlier finish times.
const EARLIER: u32 = 0;
const LATER: u32 = 1;

#[inline]
const fn opposite(side: u32) -> u32 {
    side ^ 1
}

impl Timestamps {
    #[inline]
    const fn child(&self, side: u32) -> u32 {
        let [earlier, later] = self.children;
        if side == EARLIER { earlier } else { later }
    }

    #[inline]
    const fn set_child(&mut self, side: u32, entity: u32) {
        let [earlier, later] = &mut self.children;
        if side == EARLIER {
            *earlier = entity;
        } else {
            *later = entity;
        }
    }
}

/// The timestamps of all entities; each is in one set at most.
#[derive(Debug)]
pub struct Stamps(Array<Timestamps>);

impl Stamps {
    pub fn try_new(entities: u32) -> Result<Self, NoMemory> {
        Ok(Self(Array::try_new(entities, NOWHERE)?))
    }

    #[inline]
    pub fn at(&self, entity: u32) -> &Timestamps {
        self.0.at(entity)
    }

    /// Sets start and finish; only for an entity that is in no set.
    #[inline]
    pub fn set(&mut self, entity: u32, start: u64, finish: u64) {
        let stamps = self.0.at_mut(entity);
        (stamps.starts, stamps.finish) = (start, finish);
    }

    #[inline]
    pub fn is_linked(&self, entity: u32) -> bool {
        self.0.at(entity).is_linked
    }

    /// False for NIL.
    #[inline]
    fn is_red(&self, entity: u32) -> bool {
        self.0.get(entity).is_some_and(|node| node.is_red)
    }

    #[inline]
    fn paint(&mut self, entity: u32, is_red: bool) {
        if let Some(node) = self.0.get_mut(entity) {
            node.is_red = is_red;
        }
    }

    /// The side of its parent that an entity is on; `EARLIER` for the root.
    #[inline]
    fn side_of(&self, entity: u32) -> u32 {
        let parent = self.0.at(entity).parent;
        if parent != NIL && self.0.at(parent).child(LATER) == entity { LATER } else { EARLIER }
    }

    fn least_of(&self, entity: u32) -> u64 {
        let node = self.0.at(entity);
        let mut least = node.starts;
        for child in node.children {
            if child != NIL && is_later(least, self.0.at(child).least_start) {
                least = self.0.at(child).least_start;
            }
        }
        least
    }

    /// Recomputes the smallest start of an entity's subtree. Returns its parent.
    #[inline]
    fn renew_least(&mut self, entity: u32) -> u32 {
        let least = self.least_of(entity);
        let Some(node) = self.0.get_mut(entity) else { return NIL };
        node.least_start = least;
        node.parent
    }

    /// Recomputes the smallest starts from `lowest` upwards: all of them up to the former position
    /// of `gone`, and beyond that as long as they change.
    #[inline(never)]
    fn update_starts_upwards(&mut self, lowest: u32, gone: u32) {
        let above = self.at(gone).parent;
        let (mut at, mut is_above) = (lowest, false);
        while at != NIL {
            is_above |= at == above;
            let before = self.at(at).least_start;
            let next = self.renew_least(at);
            if is_above && self.at(at).least_start == before {
                break;
            }
            at = next;
        }
    }

    /// The first or last node of a subtree.
    fn end(&self, top: u32, side: u32) -> u32 {
        let mut at = top;
        loop {
            let next = self.0.at(at).child(side);
            if next == NIL {
                return at;
            }
            at = next;
        }
    }

    /// The next node in order.
    fn next(&self, entity: u32) -> u32 {
        let behind = self.0.at(entity).child(LATER);
        if behind != NIL {
            return self.end(behind, EARLIER);
        }
        let mut at = entity;
        loop {
            let parent = self.0.at(at).parent;
            if parent == NIL || self.0.at(parent).child(EARLIER) == at {
                return parent;
            }
            at = parent;
        }
    }
}

/// Entities by finish time; those of equal time in the order of insertion.
///
/// A red-black tree that is balanced as Linux's (`lib/rbtree.c`; Cormen et al., Introduction to
/// Algorithms, chapter 13), because `first_eligible` depends on the shape of the tree. The sorted
/// sets of `structures` have other shapes, and do not keep the smallest start of a subtree.
#[derive(Copy, Clone, Debug)]
pub struct ByFinish {
    root: u32,
    first: u32,
    len: u32,
}

impl ByFinish {
    pub const EMPTY: ByFinish = ByFinish { root: NIL, first: NIL, len: 0 };

    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.root == NIL
    }

    /// For tests and checks.
    #[inline]
    pub const fn len(&self) -> u32 {
        self.len
    }

    /// The entity that finishes first, or NIL.
    #[inline]
    pub const fn first(&self) -> u32 {
        self.first
    }

    /// The entity that finishes last, or NIL.
    pub fn last(&self, stamps: &Stamps) -> u32 {
        if self.root == NIL { NIL } else { stamps.end(self.root, LATER) }
    }

    /// The smallest start in a non-empty set.
    #[inline]
    pub fn least_start(&self, stamps: &Stamps) -> u64 {
        stamps.at(self.root).least_start
    }

    /// An entity that has started by `vtime`, or NIL if there is none: the search of Linux
    /// (`bfq_first_active_entity` in `block/bfq-wf2q.c`), which prefers early finish times.
    ///
    /// Quirk Q19 of docs/specifications/bfq.md: it is not always the one that finishes first. The
    /// search goes to the earlier side whenever an entity there has started, and does not turn to
    /// the later side again once it has passed one that has started.
    pub fn first_eligible(&self, stamps: &Stamps, vtime: u64) -> u32 {
        let (mut at, mut found) = (self.root, NIL);
        while at != NIL {
            let node = stamps.at(at);
            if !is_later(node.starts, vtime) {
                found = at;
            }
            let earlier = node.child(EARLIER);
            at = if earlier != NIL && !is_later(stamps.at(earlier).least_start, vtime) {
                earlier
            } else if found == NIL {
                node.child(LATER)
            } else {
                NIL
            };
        }
        found
    }

    /// Without effect if it is in a set already or does not exist.
    ///
    /// The balance comes last, here and in the steps of `remove`, so that a step's stack is free when
    /// the next one begins.
    pub fn insert(&mut self, stamps: &mut Stamps, entity: u32) {
        let Some(node) = stamps.0.get_mut(entity) else { return };
        if node.is_linked {
            return;
        }
        let (start, finish) = (node.starts, node.finish);
        (node.least_start, node.children, node.is_linked, node.is_red) = (start, [NIL; 2], true, true);
        let (mut parent, mut at, mut side) = (NIL, self.root, EARLIER);
        let mut is_first = true;
        while at != NIL {
            let other = stamps.0.at_mut(at);
            if is_later(other.least_start, start) {
                other.least_start = start;
            }
            side = if is_later(other.finish, finish) { EARLIER } else { LATER };
            is_first &= side == EARLIER;
            (parent, at) = (at, other.child(side));
        }
        self.attach(stamps, parent, side, entity);
        if is_first {
            self.first = entity;
        }
        self.len = self.len.wrapping_add(1);
        self.balance_after_insertion(stamps, entity);
    }

    /// Restores the rule that a red node has no red child, which only `added` can break, because it
    /// is inserted as a red node.
    #[inline(never)]
    fn balance_after_insertion(&mut self, stamps: &mut Stamps, added: u32) {
        let mut at = added;
        loop {
            let parent = stamps.at(at).parent;
            if !stamps.is_red(parent) {
                break;
            }
            // The root is black, so a red parent has a parent.
            let above = stamps.at(parent).parent;
            let side = stamps.side_of(parent);
            let uncle = stamps.at(above).child(opposite(side));
            if !stamps.is_red(uncle) {
                if stamps.side_of(at) != side {
                    self.rotate(stamps, parent, side);
                }
                self.rotate(stamps, above, opposite(side));
                break;
            }
            stamps.paint(parent, false);
            stamps.paint(uncle, false);
            stamps.paint(above, true);
            at = above;
        }
        stamps.paint(self.root, false);
    }

    /// Without effect if it is in no set. The caller ensures that it is in this one.
    pub fn remove(&mut self, stamps: &mut Stamps, entity: u32) {
        if !stamps.is_linked(entity) {
            return;
        }
        if self.first == entity {
            self.first = stamps.next(entity);
        }
        self.len = self.len.wrapping_sub(1);
        stamps.0.at_mut(entity).is_linked = false;
        self.unlink(stamps, entity);
    }

    /// Replaces an entity by its only child, or by the next one in order.
    #[inline(never)]
    fn unlink(&mut self, stamps: &mut Stamps, entity: u32) {
        let node = *stamps.at(entity);
        let (parent, place, [earlier, later]) = (node.parent, stamps.side_of(entity), node.children);
        if earlier == NIL || later == NIL {
            let child = if earlier == NIL { later } else { earlier };
            self.attach(stamps, parent, place, child);
            stamps.paint(child, false);
            return self.update_above(stamps, entity, parent, (child == NIL && !node.is_red).then_some(place));
        }
        let next = stamps.end(later, EARLIER);
        let (above, below) = (stamps.at(next).parent, stamps.at(next).child(LATER));
        let is_short = below == NIL && !stamps.is_red(next);
        stamps.paint(below, false);
        let (lowest, side) = if above == entity {
            (next, LATER)
        } else {
            self.attach(stamps, above, EARLIER, below);
            self.attach(stamps, next, LATER, later);
            (above, EARLIER)
        };
        self.attach(stamps, next, EARLIER, earlier);
        self.attach(stamps, parent, place, next);
        stamps.paint(next, node.is_red);
        self.update_above(stamps, entity, lowest, is_short.then_some(side));
    }

    /// Repairs the tree above a removed entity: smallest starts and balance. `lowest` is the lowest
    /// node that got another child. If the removal took a black node from the paths through one of
    /// its sides, `short_side` is that side.
    #[inline(never)]
    fn update_above(&mut self, stamps: &mut Stamps, gone: u32, lowest: u32, short_side: Option<u32>) {
        stamps.update_starts_upwards(lowest, gone);
        if let Some(side) = short_side {
            self.balance_after_removal(stamps, lowest, side);
        }
    }

    /// Restores the rule that all paths from a node to the leaves have equally many black nodes: the
    /// paths through `short_side` of `lowest` have one less than those through the other side.
    #[inline(never)]
    fn balance_after_removal(&mut self, stamps: &mut Stamps, lowest: u32, short_side: u32) {
        let (mut parent, mut side) = (lowest, short_side);
        while parent != NIL {
            if stamps.is_red(stamps.at(parent).child(opposite(side))) {
                self.rotate(stamps, parent, side);
            }
            let sibling = stamps.at(parent).child(opposite(side));
            if stamps.is_red(stamps.at(sibling).child(side)) || stamps.is_red(stamps.at(sibling).child(opposite(side)))
            {
                return self.rotate_to_short_side(stamps, parent, side);
            }
            stamps.paint(sibling, true);
            if stamps.is_red(parent) {
                return stamps.paint(parent, false);
            }
            // Both sides of the parent are short now.
            (side, parent) = (stamps.side_of(parent), stamps.at(parent).parent);
        }
    }

    /// Adds a black node to the paths through the short side of `parent`, by rotation. The other
    /// child has a red child, which becomes black, so that its own paths lose none.
    #[inline(never)]
    fn rotate_to_short_side(&mut self, stamps: &mut Stamps, parent: u32, side: u32) {
        let sibling = stamps.at(parent).child(opposite(side));
        if !stamps.is_red(stamps.at(sibling).child(opposite(side))) {
            self.rotate(stamps, sibling, opposite(side));
        }
        self.rotate(stamps, parent, side);
        stamps.paint(parent, false);
        let up = stamps.at(parent).parent;
        stamps.paint(stamps.at(up).child(opposite(side)), false);
    }

    /// Lets the child of `top` on the opposite side take its place and colour; `top` becomes its
    /// child on `side`, and red.
    #[inline(never)]
    fn rotate(&mut self, stamps: &mut Stamps, top: u32, side: u32) {
        let up = stamps.at(top).child(opposite(side));
        self.attach(stamps, stamps.at(top).parent, stamps.side_of(top), up);
        self.attach(stamps, top, opposite(side), stamps.at(up).child(side));
        self.attach(stamps, up, side, top);
        stamps.paint(up, stamps.is_red(top));
        stamps.paint(top, true);
        stamps.renew_least(top);
        stamps.renew_least(up);
    }

    /// Makes `child`, which may be NIL, a child of `parent`; NIL as parent means the root.
    #[inline]
    fn attach(&mut self, stamps: &mut Stamps, parent: u32, side: u32, child: u32) {
        // NIL is no valid index.
        match stamps.0.get_mut(parent) {
            Some(above) => above.set_child(side, child),
            None => self.root = child,
        }
        if let Some(below) = stamps.0.get_mut(child) {
            below.parent = parent;
        }
    }

    /// All members, from first to last.
    #[cfg(test)]
    pub fn members<'a>(&self, stamps: &'a Stamps) -> impl Iterator<Item = u32> + 'a {
        let mut at = self.first;
        core::iter::from_fn(move || {
            let current = at;
            if current == NIL {
                return None;
            }
            at = stamps.next(current);
            Some(current)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use hoistway_block::random::Stream;

    /// Checks order, colours, smallest starts and links below `top`. Returns the number of black
    /// nodes on each path.
    fn check_subtree(stamps: &Stamps, top: u32, parent: u32) -> u32 {
        if top == NIL {
            return 0;
        }
        let node = stamps.at(top);
        assert_eq!(node.parent, parent);
        assert!(!node.is_red || !node.children.into_iter().any(|child| stamps.is_red(child)), "two red nodes in a row");
        assert_eq!(node.least_start, stamps.least_of(top));
        let black = node.children.map(|child| check_subtree(stamps, child, top));
        assert_eq!(black[0], black[1], "paths of unequal length");
        black[0] + u32::from(!node.is_red)
    }

    #[test]
    fn a_set_answers_as_a_list_that_is_searched() {
        for seed in 0..40 {
            let mut stream = Stream::of(seed, "bfq/timestamps");
            let base = if seed % 2 == 0 { 0 } else { u64::MAX - 500 };
            let mut stamps = Stamps::try_new(64).unwrap();
            let mut set = ByFinish::EMPTY;
            // In the order of insertion.
            let mut model: Vec<(u64, u64, u32)> = Vec::new();
            for _ in 0..1_500 {
                let entity = u32::try_from(stream.below(64)).unwrap();
                if let Some(at) = model.iter().position(|entry| entry.2 == entity) {
                    model.remove(at);
                    set.remove(&mut stamps, entity);
                    set.remove(&mut stamps, entity);
                    assert!(!stamps.is_linked(entity));
                } else {
                    let start = base.wrapping_add(stream.below(1_000));
                    let finish = start.wrapping_add(1 + stream.below(40));
                    stamps.set(entity, start, finish);
                    set.insert(&mut stamps, entity);
                    set.insert(&mut stamps, entity);
                    model.push((start, finish, entity));
                }
                let vtime = base.wrapping_add(stream.below(1_000));
                assert!(!stamps.is_red(set.root));
                check_subtree(&stamps, set.root, NIL);
                let has_eligible = model.iter().any(|entry| !is_later(entry.0, vtime));
                let found = set.first_eligible(&stamps, vtime);
                assert_eq!(found != NIL, has_eligible, "seed {seed}");
                assert!(found == NIL || !is_later(stamps.at(found).starts, vtime), "seed {seed}");
                let mut sorted = model.clone();
                sorted.sort_by_key(|entry| entry.1.wrapping_sub(base));
                let members: Vec<u32> = set.members(&stamps).collect();
                assert_eq!(members, sorted.iter().map(|entry| entry.2).collect::<Vec<_>>(), "seed {seed}");
                assert_eq!(set.last(&stamps), members.last().copied().unwrap_or(NIL));
                assert_eq!(set.len() as usize, members.len());
                let least = model.iter().map(|entry| entry.0.wrapping_sub(base)).min();
                assert_eq!(least, (!set.is_empty()).then(|| set.least_start(&stamps).wrapping_sub(base)));
            }
        }
    }

    /// Quirk Q19: entity 3 at the root has started; of the earlier side, 1 has not and 2 has. The
    /// search goes to 1 because of 2, and ends there.
    #[test]
    fn the_search_may_pass_an_entity_that_finishes_earlier() {
        let mut stamps = Stamps::try_new(5).unwrap();
        let mut set = ByFinish::EMPTY;
        for (entity, start, finish) in [(3, 0, 30), (1, 9, 10), (4, 0, 40), (2, 0, 20)] {
            stamps.set(entity, start, finish);
            set.insert(&mut stamps, entity);
        }
        assert_eq!(set.members(&stamps).collect::<Vec<_>>(), [1, 2, 3, 4]);
        assert_eq!(set.first_eligible(&stamps, 5), 3);
        assert_eq!(set.first_eligible(&stamps, 9), 1);
        set.remove(&mut stamps, 1);
        assert_eq!(set.first_eligible(&stamps, 5), 2);
    }
}
