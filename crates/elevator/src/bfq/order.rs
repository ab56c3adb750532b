//! The orders of requests: each queue's by sector and by arrival, and the requests in front of all queues.

use super::state::Queue;
use crate::structures::{Links, List, NoMemory, SortedLinks};

/// The links of the orders.
///
/// Invariant: a slot is in its queue's two orders, or in the list `direct`, or in none; one set of links serves both
/// lists.
#[derive(Debug)]
pub struct Order {
    by_sector: SortedLinks,
    fifo: Links,
    direct: List,
}

impl Order {
    #[inline(always)]
    pub fn try_new(slots: u32) -> Result<Self, NoMemory> {
        Ok(Self { by_sector: SortedLinks::try_new(slots)?, fifo: Links::try_new(slots)?, direct: List::EMPTY })
    }

    // ---- the two orders of a queue ----

    #[inline(always)]
    pub fn add(&mut self, queue: &mut Queue, slot: u32, first_sector: u64) -> bool {
        queue.pending.sort_inline(&mut self.by_sector, slot, first_sector) && queue.pending.age(&mut self.fifo, slot)
    }

    /// Removes a slot from both orders. `INLINE` saves a call where the stack allows it.
    #[inline(always)]
    pub fn remove<const INLINE: bool>(&mut self, queue: &mut Queue, slot: u32) -> bool {
        queue.pending.unage(&mut self.fifo, slot)
            && if INLINE {
                queue.pending.unsort_inline(&mut self.by_sector, slot)
            } else {
                queue.pending.unsort(&mut self.by_sector, slot)
            }
    }

    /// Changes a slot's first sector.
    #[inline]
    pub fn change_sector(&mut self, queue: &mut Queue, slot: u32, first_sector: u64) -> bool {
        queue.pending.unsort(&mut self.by_sector, slot) && queue.pending.sort(&mut self.by_sector, slot, first_sector)
    }

    /// `slot` takes the place before `other` in the fifo.
    #[inline]
    pub fn move_before(&mut self, queue: &mut Queue, other: u32, slot: u32) -> bool {
        queue.pending.move_before(&mut self.fifo, other, slot)
    }

    /// The first sector of a queued slot; 0 for any other.
    #[inline]
    pub fn first_sector(&self, slot: u32) -> u64 {
        self.by_sector.key(slot).unwrap_or(0)
    }

    /// The first sector of a queued slot.
    #[inline]
    pub fn sector_of(&self, slot: u32) -> Option<u64> {
        self.by_sector.key(slot)
    }

    /// The neighbours of a slot by sector, or NIL.
    #[inline]
    pub fn beside(&self, slot: u32) -> [u32; 2] {
        self.by_sector.beside(slot)
    }

    #[inline]
    pub fn prev(&self, slot: u32) -> Option<u32> {
        self.by_sector.prev(slot)
    }

    #[inline]
    pub fn next(&self, slot: u32) -> Option<u32> {
        self.by_sector.next(slot)
    }

    /// The slot of a queue that begins at this sector.
    #[inline]
    pub fn at_sector(&self, queue: &Queue, first_sector: u64) -> Option<u32> {
        queue.pending.at_sector(&self.by_sector, first_sector)
    }

    /// The slots of a queue by sector.
    pub fn slots<'a>(&'a self, queue: &Queue) -> impl Iterator<Item = u32> + use<'a> {
        queue.pending.iter(&self.by_sector)
    }

    // ---- in front of all queues ----

    #[inline]
    pub fn has_direct(&self) -> bool {
        !self.direct.is_empty()
    }

    pub fn add_direct(&mut self, slot: u32) -> bool {
        self.direct.push_front(&mut self.fifo, slot)
    }

    #[inline]
    pub fn take_direct(&mut self) -> Option<u32> {
        self.direct.pop_front(&mut self.fifo)
    }

    pub fn remove_direct(&mut self, slot: u32) {
        self.direct.remove(&mut self.fifo, slot);
    }
}

#[cfg(test)]
mod tests {
    use super::super::state::FREE_QUEUE;
    use super::*;
    use crate::structures::NIL;

    #[test]
    fn a_slot_is_in_both_orders_or_in_front() {
        let (mut order, mut queue) = (Order::try_new(4).unwrap(), FREE_QUEUE);
        assert!(order.add(&mut queue, 0, 800) && order.add(&mut queue, 1, 100) && !order.add(&mut queue, 1, 100));
        assert!(order.add_direct(2) && order.has_direct());
        assert!(order.slots(&queue).eq([1, 0]) && queue.pending.oldest() == Some(0));
        assert!(order.change_sector(&mut queue, 1, 900) && order.move_before(&mut queue, 0, 1));
        assert_eq!((order.beside(1), order.first_sector(1), queue.pending.oldest()), ([0, NIL], 900, Some(1)));
        assert_eq!((order.at_sector(&queue, 800), order.sector_of(2)), (Some(0), None));
        assert!(order.remove::<true>(&mut queue, 1) && order.remove::<false>(&mut queue, 0) && queue.is_empty());
        assert_eq!((order.take_direct(), order.take_direct()), (Some(2), None));
    }
}
