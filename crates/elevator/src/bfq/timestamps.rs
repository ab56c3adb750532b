//! The sets of B-WF2Q+: entities in the order of their finish times, with the smallest start time
//! of each subtree.
//!
//! A treap whose links are indices: expected O(log n) for every operation, nothing allocated after
//! construction. The priorities are a hash of the index, so that the same calls build the same
//! tree. Times wrap, so they are compared by their difference.

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
}

const NOWHERE: Timestamps =
    Timestamps { starts: 0, finish: 0, least_start: 0, children: [NIL; 2], parent: NIL, is_linked: false };

/// Index of the child with the earlier finish times.
const EARLIER: usize = 0;
const LATER: usize = 1;

impl Timestamps {
    #[inline]
    const fn child(&self, side: usize) -> u32 {
        let [earlier, later] = self.children;
        if side == EARLIER { earlier } else { later }
    }

    #[inline]
    const fn set_child(&mut self, side: usize, entity: u32) {
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
        let node = self.0.at_mut(entity);
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
    fn end(&self, top: u32, side: usize) -> u32 {
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

/// Higher priorities are nearer to the root.
#[inline]
const fn priority(entity: u32) -> u32 {
    // Two rounds of multiply and shift, so that neighbouring indices get unrelated priorities.
    let mixed = entity.wrapping_add(1).wrapping_mul(0x9e37_79b1);
    let mixed = (mixed ^ (mixed >> 15)).wrapping_mul(0x85eb_ca77);
    mixed ^ (mixed >> 13)
}

/// Entities by finish time; those of equal time in the order of insertion.
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

    /// Of the entities that have started by `vtime`, the one that finishes first, or NIL.
    pub fn first_eligible(&self, stamps: &Stamps, vtime: u64) -> u32 {
        let has_eligible = |top: u32| top != NIL && !is_later(stamps.at(top).least_start, vtime);
        let (mut at, mut best) = (self.root, NIL);
        while at != NIL {
            let node = stamps.at(at);
            if !is_later(node.starts, vtime) {
                best = at;
            }
            let (earlier, later) = (node.child(EARLIER), node.child(LATER));
            at = if has_eligible(earlier) {
                // The subtree holds an eligible entity with an earlier finish: drop the one found
                // so far.
                best = NIL;
                earlier
            } else if best == NIL && has_eligible(later) {
                later
            } else {
                NIL
            };
        }
        best
    }

    /// False, without effect, if it is in a set already or does not exist.
    pub fn insert(&mut self, stamps: &mut Stamps, entity: u32) -> bool {
        let Some(node) = stamps.0.get_mut(entity) else { return false };
        if node.is_linked {
            return false;
        }
        let (start, finish) = (node.starts, node.finish);
        (node.least_start, node.children, node.parent, node.is_linked) = (start, [NIL; 2], NIL, true);
        let (mut parent, mut at, mut side) = (NIL, self.root, EARLIER);
        let mut is_first = true;
        // Descends to the position that the entity's priority gives it. It becomes part of the
        // subtree of every node on the way.
        while at != NIL && priority(at) > priority(entity) {
            let other = stamps.0.at_mut(at);
            if is_later(other.least_start, start) {
                other.least_start = start;
            }
            side = if is_later(other.finish, finish) { EARLIER } else { LATER };
            is_first &= side == EARLIER;
            (parent, at) = (at, other.child(side));
        }
        self.attach_child(stamps, parent, side, entity);
        // The subtree at this position is split by finish time into the two subtrees of the entity:
        // each gets further nodes at its inner edge.
        let (mut earlier, mut later) = (entity, entity);
        while at != NIL {
            let node = stamps.at(at);
            if is_later(node.finish, finish) {
                let next = node.child(EARLIER);
                self.attach_child(stamps, later, if later == entity { LATER } else { EARLIER }, at);
                (later, at) = (at, next);
            } else {
                is_first = false;
                let next = node.child(LATER);
                self.attach_child(stamps, earlier, if earlier == entity { EARLIER } else { LATER }, at);
                (earlier, at) = (at, next);
            }
        }
        if earlier != entity {
            stamps.0.at_mut(earlier).set_child(LATER, NIL);
        }
        if later != entity {
            stamps.0.at_mut(later).set_child(EARLIER, NIL);
        }
        for edge in [earlier, later] {
            let mut at = edge;
            while at != entity {
                at = stamps.renew_least(at);
            }
        }
        stamps.renew_least(entity);
        if is_first {
            self.first = entity;
        }
        self.len = self.len.wrapping_add(1);
        true
    }

    /// False, without effect, if it is in no set. The caller ensures that it is in this one.
    #[inline(always)]
    pub fn remove(&mut self, stamps: &mut Stamps, entity: u32) -> bool {
        if !stamps.is_linked(entity) {
            return false;
        }
        if self.first == entity {
            self.first = stamps.next(entity);
        }
        let lowest = self.merge_subtrees(stamps, entity);
        stamps.update_starts_upwards(lowest, entity);
        self.len = self.len.wrapping_sub(1);
        stamps.0.at_mut(entity).is_linked = false;
        true
    }

    /// Merges the two subtrees of an entity into its place, by priority. Returns the lowest node
    /// whose children changed, or NIL.
    #[inline(never)]
    fn merge_subtrees(&mut self, stamps: &mut Stamps, entity: u32) -> u32 {
        let mut parent = stamps.at(entity).parent;
        let [mut earlier, mut later] = stamps.at(entity).children;
        let mut side = if parent != NIL && stamps.at(parent).child(LATER) == entity { LATER } else { EARLIER };
        while earlier != NIL && later != NIL {
            let is_earlier_up = priority(earlier) > priority(later);
            let (up, inner) = if is_earlier_up { (earlier, LATER) } else { (later, EARLIER) };
            self.attach_child(stamps, parent, side, up);
            let next = stamps.at(up).child(inner);
            if is_earlier_up {
                earlier = next;
            } else {
                later = next;
            }
            (parent, side) = (up, inner);
        }
        self.attach_child(stamps, parent, side, if earlier == NIL { later } else { earlier });
        parent
    }

    /// Makes `child`, which may be NIL, a child of `parent`; NIL as parent means the root.
    #[inline]
    fn attach_child(&mut self, stamps: &mut Stamps, parent: u32, side: usize, child: u32) {
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
    use block::random::Stream;

    /// The expected answer, by linear search.
    fn first_eligible_of(model: &[(u64, u64, u32)], vtime: u64) -> u32 {
        let mut best: Option<&(u64, u64, u32)> = None;
        for entry in model.iter().filter(|entry| !is_later(entry.0, vtime)) {
            if best.is_none_or(|best| is_later(best.1, entry.1)) {
                best = Some(entry);
            }
        }
        best.map_or(NIL, |entry| entry.2)
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
                    assert!(set.remove(&mut stamps, entity));
                    assert!(!set.remove(&mut stamps, entity));
                } else {
                    let start = base.wrapping_add(stream.below(1_000));
                    let finish = start.wrapping_add(1 + stream.below(40));
                    stamps.set(entity, start, finish);
                    assert!(set.insert(&mut stamps, entity));
                    assert!(!set.insert(&mut stamps, entity));
                    model.push((start, finish, entity));
                }
                let vtime = base.wrapping_add(stream.below(1_000));
                assert_eq!(set.first_eligible(&stamps, vtime), first_eligible_of(&model, vtime), "seed {seed}");
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
}
