//! Where the head is, and the index of queues by the sector of their next request.

use crate::structures::{NIL, NoMemory, SortedLinks, Tree};
use hoistway_block::Extent;

/// Positions within this distance may belong to one stream.
pub const CLOSE_SECTORS: u64 = 8_192;

/// Positions.
///
/// Invariant: a queue is in at most one group's index; the groups have the trees, which the caller passes.
#[derive(Debug)]
pub struct Positions {
    links: SortedLinks,
    /// The end of the last request.
    last_sector: u64,
    /// The end of the last request of the turn in service; 0 = none yet.
    last_in_turn: u64,
}

impl Positions {
    #[inline(always)]
    pub fn try_new(queues: u32) -> Result<Self, NoMemory> {
        Ok(Self { links: SortedLinks::try_new(queues)?, last_sector: 0, last_in_turn: 0 })
    }

    // ---- the head ----

    /// A request is dispatched, of the turn in service or injected.
    #[inline(always)]
    pub fn dispatched(&mut self, extent: Extent, is_in_turn: bool) {
        self.last_sector = extent.end();
        if is_in_turn {
            self.last_in_turn = extent.end();
        }
    }

    /// A turn begins.
    #[inline]
    pub fn begin_turn(&mut self) {
        self.last_in_turn = 0;
    }

    #[inline]
    pub fn last_sector(&self) -> u64 {
        self.last_sector
    }

    #[inline]
    pub fn last_in_turn(&self) -> u64 {
        self.last_in_turn
    }

    // ---- the index ----

    #[inline]
    pub fn holds(&self, queue: u32) -> bool {
        self.links.is_linked(queue)
    }

    /// The queue of a group whose position is nearest, if it is close; else NIL.
    pub fn nearest(&self, of_group: &Tree, first_sector: u64) -> u32 {
        let behind = of_group.lower_bound(&self.links, first_sector);
        let before = match behind {
            Some(behind) => self.links.prev(behind),
            None => of_group.last(),
        };
        let distance = |other: u32| self.links.key(other).unwrap_or(0).abs_diff(first_sector);
        let near = [behind, before].into_iter().flatten().min_by_key(|other| distance(*other));
        near.filter(|other| distance(*other) <= CLOSE_SECTORS).unwrap_or(NIL)
    }

    /// Changes the position of a queue that is the only one in its group's index. False if it is not.
    #[inline]
    pub fn move_lone(&mut self, of_group: &mut Tree, queue: u32, first_sector: u64) -> bool {
        of_group.change_key_of_only(&mut self.links, queue, first_sector)
    }

    /// Adds a queue unless another has this very position. False if it was in an index already.
    #[inline]
    pub fn add(&mut self, of_group: &mut Tree, queue: u32, first_sector: u64) -> bool {
        of_group.find_exact(&self.links, first_sector).is_some()
            || of_group.insert(&mut self.links, queue, first_sector)
    }

    #[inline]
    pub fn remove(&mut self, of_group: &mut Tree, queue: u32) {
        of_group.remove(&mut self.links, queue);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_queue_is_found_if_it_is_close() {
        let (mut positions, mut group) = (Positions::try_new(4).unwrap(), Tree::EMPTY);
        assert!(positions.add(&mut group, 1, 10_000) && positions.move_lone(&mut group, 1, 20_000));
        assert!(positions.add(&mut group, 2, 40_000) && positions.add(&mut group, 3, 40_000));
        assert!(positions.holds(2) && !positions.holds(3), "one queue for each position");
        let nearest = [20_000, 31_000, 32_000, 48_192, 48_193].map(|sector| positions.nearest(&group, sector));
        assert_eq!(nearest, [1, NIL, 2, 2, NIL]);
        positions.remove(&mut group, 2);
        assert_eq!(positions.nearest(&group, 40_000), NIL);
    }
}
