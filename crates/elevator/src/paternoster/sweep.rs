//! C-LOOK order of the requests of one leaf (the queue of an issuer, or the shared queue of a
//! group) on a disk: upwards from its last request, then again from the lowest.
//!
//! Each leaf keeps its position while others are in service, so that its next slice continues where
//! its last one ended. Without slices, and where positioning costs nothing, requests are dispatched
//! in order of arrival.

use crate::structures::{Array, NoMemory, SortedLinks, Tree};
use hoistway_block::Sector;

/// With *n* random requests queued, a sweep takes 2 *n*: those that were there, and those that
/// arrived ahead of it. A sweep of twice that length is following arrivals just ahead of it, and
/// the next request is then the oldest one.
const LONGEST: u32 = 4;

/// One leaf's requests by sector, and the position of its sweep.
#[derive(Clone, Debug)]
struct Sweep {
    tree: Tree,
    place: Sector,
    /// Requests sent since the sweep last began from the lowest sector, or at the oldest request.
    sent: u32,
}

impl Sweep {
    const NONE: Sweep = Sweep { tree: Tree::EMPTY, place: 0, sent: 0 };

    const fn is_too_long(&self) -> bool {
        self.sent >= self.tree.len().saturating_add(1).saturating_mul(LONGEST)
    }
}

/// The sweeps of all leaves.
#[derive(Debug)]
pub struct Sweeps {
    links: SortedLinks,
    leaves: Array<Sweep>,
}

impl Sweeps {
    /// Without room for any request where positioning costs nothing.
    pub fn try_new(is_rotational: bool, slots: u32, leaves: u32) -> Result<Self, NoMemory> {
        let (slots, leaves) = if is_rotational { (slots, leaves) } else { (0, 0) };
        Ok(Self { links: SortedLinks::try_new(slots)?, leaves: Array::try_new(leaves, Sweep::NONE)? })
    }

    /// Adds a queued request. False if it was there already.
    #[inline(never)]
    pub fn insert(&mut self, leaf: u32, slot: u32, sector: Sector) -> bool {
        self.leaves.at_mut(leaf).tree.insert(&mut self.links, slot, sector)
    }

    /// A queued request has a new first sector, because an earlier one was merged into its front.
    pub fn move_to(&mut self, leaf: u32, slot: u32, sector: Sector) {
        if self.links.key(slot).is_some_and(|key| key != sector) {
            self.remove(leaf, slot);
            self.insert(leaf, slot, sector);
        }
    }

    /// Removes a queued request.
    #[inline(never)]
    pub fn remove(&mut self, leaf: u32, slot: u32) -> bool {
        self.leaves.at_mut(leaf).tree.remove(&mut self.links, slot)
    }

    /// A request was dispatched: the sweep continues from it.
    #[inline(never)]
    pub fn sent(&mut self, leaf: u32, slot: u32) -> bool {
        let Some(sector) = self.links.key(slot) else { return false };
        let sweep = self.leaves.at_mut(leaf);
        let is_new = sector < sweep.place || sweep.is_too_long();
        sweep.sent = if is_new { 0 } else { sweep.sent.wrapping_add(1) };
        sweep.place = sector;
        sweep.tree.remove(&mut self.links, slot)
    }

    /// The next request of a leaf; `oldest` is the one that has waited longest.
    pub fn next(&self, leaf: u32, oldest: u32) -> u32 {
        let sweep = self.leaves.at(leaf);
        if sweep.tree.len() <= 1 || sweep.is_too_long() {
            return oldest;
        }
        sweep.tree.lower_bound(&self.links, sweep.place).or(sweep.tree.first()).unwrap_or(oldest)
    }

    /// Number of queued requests of a leaf.
    #[cfg(test)]
    pub fn len(&self, leaf: u32) -> u32 {
        self.leaves.at(leaf).tree.len()
    }

    /// First sector of a queued request; for checks.
    pub fn sector(&self, slot: u32) -> Option<Sector> {
        self.links.key(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::VecDeque;
    use alloc::vec::Vec;
    use hoistway_block::random::Stream;

    /// One leaf's requests in order of arrival, beside its sweep.
    struct Leaf {
        sweeps: Sweeps,
        came: VecDeque<(u32, Sector)>,
    }

    impl Leaf {
        fn new() -> Self {
            Self { sweeps: Sweeps::try_new(true, 64, 1).unwrap(), came: VecDeque::new() }
        }

        fn ask(&mut self, slot: u32, sector: Sector) {
            assert!(self.sweeps.insert(0, slot, sector));
            self.came.push_back((slot, sector));
        }

        fn send(&mut self) -> (u32, Sector) {
            let slot = self.sweeps.next(0, self.came[0].0);
            assert!(self.sweeps.sent(0, slot));
            let at = self.came.iter().position(|(other, _)| *other == slot).unwrap();
            self.came.remove(at).unwrap()
        }
    }

    /// 32 random requests queued: the next is always the nearest above, or the lowest when there is
    /// none.
    #[test]
    fn random_requests_go_upwards() {
        let (mut leaf, mut random) = (Leaf::new(), Stream::of(3, "paternoster/sweep"));
        for slot in 0..32 {
            leaf.ask(slot, random.below(1 << 30));
        }
        let (mut place, mut turns) = (0, 0);
        for _ in 0..20_000 {
            let mut sectors: Vec<Sector> = leaf.came.iter().map(|(_, sector)| *sector).collect();
            sectors.sort_unstable();
            let expected = sectors.iter().find(|sector| **sector >= place).copied().unwrap_or(sectors[0]);
            let (slot, sector) = leaf.send();
            assert_eq!(sector, expected);
            turns += u32::from(sector < place);
            place = sector;
            leaf.ask(slot, random.below(1 << 30));
        }
        // About 64 requests per sweep, the basis of LONGEST.
        assert!((250..=380).contains(&turns), "{turns} sweeps");
    }

    /// A stream with arrivals always just ahead, and two requests far behind it: each of the two is
    /// sent soon, and the stream goes on.
    #[test]
    fn a_stream_does_not_starve_other_requests() {
        let mut leaf = Leaf::new();
        for slot in 0..8 {
            leaf.ask(slot, 1_000_000 + u64::from(slot));
        }
        let mut ahead = 1_000_008;
        leaf.send();
        leaf.ask(40, 5);
        leaf.ask(41, 3);
        let (mut sent, mut left) = (0, Vec::new());
        while left.len() < 2 {
            let (slot, sector) = leaf.send();
            sent += 1;
            if sector < 10 {
                left.push((sent, sector));
            } else {
                leaf.ask(slot, ahead);
                ahead += 1;
            }
            assert!(sent < 200, "left behind");
        }
        // Not before the others had their sweep, and after at most LONGEST times as many as are
        // queued.
        assert!(left[0].0 > 16 && left[0].0 <= 4 * 10 + 7, "{left:?}");
        assert_eq!(left[0].1, 5, "who came first");
    }

    #[test]
    fn a_request_that_grew_at_its_front_is_where_it_begins() {
        let mut leaf = Leaf::new();
        for (slot, sector) in [(0, 100), (1, 200), (2, 300)] {
            leaf.ask(slot, sector);
        }
        assert_eq!(leaf.send().0, 0);
        leaf.sweeps.move_to(0, 2, 150);
        leaf.sweeps.move_to(0, 63, 1);
        assert_eq!((leaf.sweeps.sector(2), leaf.sweeps.sector(63), leaf.sweeps.len(0)), (Some(150), None, 2));
        assert_eq!([leaf.send().0, leaf.send().0], [2, 1]);
        assert!(!leaf.sweeps.sent(0, 1) && !leaf.sweeps.remove(0, 1), "it is not there any more");
    }
}
