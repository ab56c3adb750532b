//! The queued requests of one queue of bfq or cfq.

use crate::structures::{Links, List, NIL, SortedLinks, Tree};

/// The queued requests of a queue by sector and by age, their number, and the one that is next. The links are its
/// policy's, one set for all queues.
///
/// Invariants, which the policies' `check` holds: both orders have the same slots; `queued` adds up to their number;
/// `next` is one of them, or NIL if there is none.
#[derive(Clone, Debug)]
pub struct Pending {
    next: u32,
    by_sector: Tree,
    by_age: List,
    /// Async, sync.
    queued: [u32; 2],
}

impl Pending {
    pub const NONE: Self = Self { next: NIL, by_sector: Tree::EMPTY, by_age: List::EMPTY, queued: [0; 2] };

    /// Nothing is queued.
    #[inline(always)]
    pub const fn is_empty(&self) -> bool {
        self.by_sector.is_empty()
    }

    /// The request that is sent next, or NIL.
    #[inline(always)]
    pub const fn next(&self) -> u32 {
        self.next
    }

    #[inline(always)]
    pub const fn set_next(&mut self, slot: u32) {
        self.next = slot;
    }

    // ---- counts ----

    #[inline(always)]
    pub const fn count(&self, is_sync: bool) -> u32 {
        let [asynchronous, sync] = self.queued;
        if is_sync { sync } else { asynchronous }
    }

    #[inline(always)]
    pub const fn total(&self) -> u32 {
        let [asynchronous, sync] = self.queued;
        asynchronous.wrapping_add(sync)
    }

    /// A request is about to be queued.
    #[inline(always)]
    pub const fn count_in(&mut self, is_sync: bool) {
        let [asynchronous, sync] = &mut self.queued;
        let queued = if is_sync { sync } else { asynchronous };
        *queued = queued.wrapping_add(1);
    }

    /// A queued request has left.
    #[inline(always)]
    pub const fn count_out(&mut self, is_sync: bool) {
        let [asynchronous, sync] = &mut self.queued;
        let queued = if is_sync { sync } else { asynchronous };
        *queued = queued.saturating_sub(1);
    }

    // ---- by sector; false if the links say otherwise ----

    #[inline(always)]
    pub fn sort(&mut self, links: &mut SortedLinks, slot: u32, first_sector: u64) -> bool {
        self.by_sector.insert(links, slot, first_sector)
    }

    /// [`Self::sort`], inlined: for the one place that most requests come through.
    #[inline(always)]
    pub fn sort_inline(&mut self, links: &mut SortedLinks, slot: u32, first_sector: u64) -> bool {
        self.by_sector.insert_inline(links, slot, first_sector)
    }

    #[inline(always)]
    pub fn unsort(&mut self, links: &mut SortedLinks, slot: u32) -> bool {
        self.by_sector.remove(links, slot)
    }

    /// [`Self::unsort`], inlined.
    #[inline(always)]
    pub fn unsort_inline(&mut self, links: &mut SortedLinks, slot: u32) -> bool {
        self.by_sector.remove_inline(links, slot)
    }

    /// The request with the lowest sector.
    #[inline(always)]
    pub const fn lowest(&self) -> Option<u32> {
        self.by_sector.first()
    }

    /// The request that begins at this sector.
    #[inline(always)]
    pub fn at_sector(&self, links: &SortedLinks, first_sector: u64) -> Option<u32> {
        self.by_sector.find_exact(links, first_sector)
    }

    /// All requests by sector.
    pub fn iter<'a>(&self, links: &'a SortedLinks) -> impl Iterator<Item = u32> + use<'a> {
        self.by_sector.iter(links)
    }

    // ---- by age; false if the links say otherwise ----

    #[inline(always)]
    pub fn age(&mut self, links: &mut Links, slot: u32) -> bool {
        self.by_age.push_back(links, slot)
    }

    #[inline(always)]
    pub fn unage(&mut self, links: &mut Links, slot: u32) -> bool {
        self.by_age.remove(links, slot)
    }

    /// `slot` takes the place before `other`.
    #[inline]
    pub fn move_before(&mut self, links: &mut Links, other: u32, slot: u32) -> bool {
        self.by_age.remove(links, slot) && self.by_age.insert_before(links, other, slot)
    }

    #[inline(always)]
    pub const fn oldest(&self) -> Option<u32> {
        self.by_age.first()
    }

    /// Whether both orders have as many requests as are counted, and there is a next one exactly while there is any.
    pub const fn adds_up(&self) -> bool {
        let len = self.by_sector.len();
        len == self.by_age.len() && self.total() == len && (self.next == NIL) == (len == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_orders_hold_the_counted_requests() {
        let (mut links, mut ages) = (SortedLinks::try_new(3).unwrap(), Links::try_new(3).unwrap());
        let mut pending = Pending::NONE;
        assert!(pending.adds_up() && pending.is_empty());
        for (slot, sector) in [(0, 800), (1, 100)] {
            pending.count_in(slot == 1);
            assert!(pending.sort(&mut links, slot, sector) && pending.age(&mut ages, slot) && !pending.adds_up());
        }
        pending.set_next(1);
        assert!(pending.adds_up() && !pending.sort(&mut links, 1, 900) && pending.iter(&links).eq([1, 0]));
        assert_eq!((pending.lowest(), pending.oldest(), pending.at_sector(&links, 800)), (Some(1), Some(0), Some(0)));
        assert!(pending.move_before(&mut ages, 0, 1) && pending.oldest() == Some(1));
        assert_eq!((pending.count(true), pending.count(false), pending.total()), (1, 1, 2));
        pending.count_out(true);
        assert!(pending.unsort(&mut links, 1) && !pending.adds_up() && pending.unage(&mut ages, 1));
        pending.set_next(0);
        assert!(pending.adds_up());
    }
}
