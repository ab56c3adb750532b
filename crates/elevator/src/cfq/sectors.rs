//! The index of queues by the sector of their next request (the kernel's `prio_trees`).

use super::LEVELS;
use crate::structures::{Array, Links, List, NoMemory, SortedLinks, Tree};

/// The index, by level.
///
/// Next requests change with almost every event, but neighbours are needed only when a non-seeky
/// issuer has run out of requests. So changes are recorded in O(1), and applied when the order is
/// read, the oldest change first.
///
/// Invariant: a queue is in at most one level's tree; a queue that is not on the list `stale` is there at its next
/// request.
#[derive(Debug)]
pub struct Sectors {
    links: SortedLinks,
    trees: Array<Tree>,
    /// Queues whose position is out of date.
    stale: List,
    stale_links: Links,
}

impl Sectors {
    #[inline(always)]
    pub fn try_new(queues: u32) -> Result<Self, NoMemory> {
        let (links, stale_links) = (SortedLinks::try_new(queues)?, Links::try_new(queues)?);
        Ok(Self { links, trees: Array::try_new(LEVELS, Tree::EMPTY)?, stale: List::EMPTY, stale_links })
    }

    /// A queue's position is out of date.
    #[inline]
    pub fn outdate(&mut self, queue: u32) {
        self.forget_change(queue);
        self.stale.push_back(&mut self.stale_links, queue);
    }

    /// A recorded change does not matter any more.
    #[inline]
    pub fn forget_change(&mut self, queue: u32) {
        if self.stale_links.is_linked(queue) {
            self.stale.remove(&mut self.stale_links, queue);
        }
    }

    /// Takes the queue whose position has been out of date for longest.
    #[inline]
    pub fn take_stale(&mut self) -> Option<u32> {
        self.stale.pop_front(&mut self.stale_links)
    }

    pub fn is_stale(&self, queue: u32) -> bool {
        self.stale_links.is_linked(queue)
    }

    pub fn holds(&self, queue: u32) -> bool {
        self.links.is_linked(queue)
    }

    /// Adds a queue, unless another has this very position.
    #[inline]
    pub fn add(&mut self, queue: u32, level: u8, sector: u64) -> bool {
        let Some(tree) = self.trees.get_mut(u32::from(level)) else { return false };
        tree.find_exact(&self.links, sector).is_none() && tree.insert(&mut self.links, queue, sector)
    }

    /// Removes a queue from the tree of a level, if it is in one. False if it is in another.
    #[inline]
    pub fn remove(&mut self, queue: u32, level: u8) -> bool {
        !self.links.is_linked(queue)
            || self.trees.get_mut(u32::from(level)).is_none_or(|tree| tree.remove(&mut self.links, queue))
    }

    /// The queue of a level that is nearest to a sector, and its distance.
    #[inline]
    pub fn nearest(&self, level: u8, head: u64) -> Option<(u32, u64)> {
        let tree = self.trees.get(u32::from(level))?;
        let above = tree.lower_bound(&self.links, head);
        let below = match above {
            Some(above) => self.links.prev(above),
            None => tree.last(),
        };
        let distance = |queue: u32| self.links.key(queue).map_or(u64::MAX, |sector| sector.abs_diff(head));
        match (above, below) {
            (Some(above), Some(below)) if distance(below) < distance(above) => Some((below, distance(below))),
            (Some(above), _) => Some((above, distance(above))),
            (None, Some(below)) => Some((below, distance(below))),
            (None, None) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_of_a_level_is_found_and_the_oldest_change_is_applied_first() {
        let mut sectors = Sectors::try_new(6).unwrap();
        for queue in [1, 2, 1] {
            sectors.outdate(queue);
        }
        assert_eq!((sectors.take_stale(), sectors.take_stale(), sectors.take_stale()), (Some(2), Some(1), None));
        assert!(sectors.add(1, 4, 100) && sectors.add(2, 4, 180) && !sectors.add(3, 4, 180) && sectors.add(4, 5, 120));
        assert_eq!((sectors.nearest(4, 130), sectors.nearest(4, 140)), (Some((1, 30)), Some((2, 40))));
        assert_eq!((sectors.nearest(5, 0), sectors.nearest(6, 0)), (Some((4, 120)), None));
        assert!(sectors.remove(1, 4) && sectors.remove(3, 4) && !sectors.holds(1));
    }
}
