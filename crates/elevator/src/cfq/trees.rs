//! The service trees of all groups: queues by their signed keys, and the think times of trees.

use super::state::{TREES_PER_GROUP, ThinkTime};
use crate::structures::{Array, NoMemory, SortedLinks, Tree};

/// Keys are signed, but trees compare unsigned numbers.
#[inline]
const fn encoded(key: i64) -> u64 {
    key.cast_unsigned() ^ (1 << 63)
}

#[inline]
const fn decoded(key: u64) -> i64 {
    (key ^ (1 << 63)).cast_signed()
}

/// The trees.
///
/// Invariant: a queue is in at most one tree, which its record remembers.
#[derive(Debug)]
pub struct Trees {
    trees: Array<Tree>,
    links: SortedLinks,
    /// Think times of service trees, in forms that use them; otherwise empty.
    thinks: Array<ThinkTime>,
}

impl Trees {
    #[inline(always)]
    pub fn try_new(groups: u32, queues: u32, has_thinks: bool) -> Result<Self, NoMemory> {
        let trees = groups.saturating_mul(TREES_PER_GROUP);
        let links = SortedLinks::try_new(queues)?;
        let thinks = Array::try_new(if has_thinks { trees } else { 0 }, ThinkTime::since(0))?;
        Ok(Self { trees: Array::try_new(trees, Tree::EMPTY)?, links, thinks })
    }

    /// Number of queues in a tree.
    #[inline]
    pub fn len(&self, tree: u32) -> u32 {
        self.trees.at(tree).len()
    }

    #[inline]
    pub fn first(&self, tree: u32) -> Option<u32> {
        self.trees.at(tree).first()
    }

    #[inline]
    pub fn last(&self, tree: u32) -> Option<u32> {
        self.trees.at(tree).last()
    }

    /// The key of a tree's first queue.
    #[inline]
    pub fn first_key(&self, tree: u32) -> Option<i64> {
        self.first(tree).and_then(|first| self.key(first))
    }

    #[inline]
    pub fn key(&self, queue: u32) -> Option<i64> {
        self.links.key(queue).map(decoded)
    }

    /// Whether a queue is in a tree.
    pub fn holds(&self, queue: u32) -> bool {
        self.links.is_linked(queue)
    }

    #[inline]
    pub fn insert(&mut self, tree: u32, queue: u32, key: i64) -> bool {
        self.trees.at_mut(tree).insert(&mut self.links, queue, encoded(key))
    }

    #[inline]
    pub fn remove(&mut self, tree: u32, queue: u32) -> bool {
        self.trees.at_mut(tree).remove(&mut self.links, queue)
    }

    /// The think time of a tree, in forms that use it.
    #[inline]
    pub fn think(&self, tree: u32) -> Option<&ThinkTime> {
        self.thinks.get(tree)
    }

    #[inline]
    pub fn think_mut(&mut self, tree: u32) -> Option<&mut ThinkTime> {
        self.thinks.get_mut(tree)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_before_the_start_of_time_come_first() {
        let mut trees = Trees::try_new(1, 4, false).unwrap();
        assert!(trees.insert(2, 1, 5) && trees.insert(2, 3, -5) && !trees.insert(2, 3, 0));
        assert_eq!((trees.first(2), trees.first_key(2), trees.len(2)), (Some(3), Some(-5), 2));
        assert!(trees.remove(2, 3) && trees.holds(1) && !trees.holds(3) && trees.think(2).is_none());
    }
}
