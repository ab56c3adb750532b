//! The orders of requests: each queue's by sector and by arrival, and the requests outside of queues.

use super::state::Queue;
use crate::structures::{Links, List, NoMemory, SortedLinks};

/// The links of the orders.
///
/// Invariant: a slot is in the fifo of its queue, or in one of the lists `head` and `round`, or in none; one set of
/// links serves all three.
#[derive(Debug)]
pub struct Order {
    by_sector: SortedLinks,
    fifo: Links,
    /// Put in front of everything by the host.
    head: List,
    /// Rounds of CFQ of 2.6.26: requests moved out of their queues, to be dispatched next.
    round: List,
}

impl Order {
    #[inline]
    pub fn try_new(slots: u32) -> Result<Self, NoMemory> {
        let (by_sector, fifo) = (SortedLinks::try_new(slots)?, Links::try_new(slots)?);
        Ok(Self { by_sector, fifo, head: List::EMPTY, round: List::EMPTY })
    }

    // ---- the orders of a queue ----

    #[inline]
    pub fn add_by_sector(&mut self, queue: &mut Queue, slot: u32, first_sector: u64) -> bool {
        queue.pending.sort(&mut self.by_sector, slot, first_sector)
    }

    #[inline]
    pub fn remove_by_sector(&mut self, queue: &mut Queue, slot: u32) -> bool {
        queue.pending.unsort(&mut self.by_sector, slot)
    }

    /// Changes a slot's first sector.
    #[inline]
    pub fn change_sector(&mut self, queue: &mut Queue, slot: u32, first_sector: u64) -> bool {
        self.remove_by_sector(queue, slot) && self.add_by_sector(queue, slot, first_sector)
    }

    #[inline]
    pub fn add_to_fifo(&mut self, queue: &mut Queue, slot: u32) -> bool {
        queue.pending.age(&mut self.fifo, slot)
    }

    #[inline]
    pub fn remove_from_fifo(&mut self, queue: &mut Queue, slot: u32) -> bool {
        queue.pending.unage(&mut self.fifo, slot)
    }

    /// `slot` takes the place before `other` in the fifo.
    #[inline]
    pub fn move_before(&mut self, queue: &mut Queue, other: u32, slot: u32) {
        queue.pending.move_before(&mut self.fifo, other, slot);
    }

    /// The first sector of a queued slot.
    #[inline]
    pub fn key(&self, slot: u32) -> Option<u64> {
        self.by_sector.key(slot)
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

    // ---- outside of queues ----

    /// Whether a request is outside of queues.
    #[inline]
    pub fn has_outside(&self) -> bool {
        !self.head.is_empty() || !self.round.is_empty()
    }

    #[inline]
    pub fn add_head(&mut self, slot: u32) -> bool {
        self.head.push_front(&mut self.fifo, slot)
    }

    #[inline]
    pub fn take_head(&mut self) -> Option<u32> {
        self.head.pop_front(&mut self.fifo)
    }

    pub fn remove_head(&mut self, slot: u32) {
        self.head.remove(&mut self.fifo, slot);
    }

    #[inline]
    pub fn add_to_round(&mut self, slot: u32) -> bool {
        self.round.push_back(&mut self.fifo, slot)
    }

    #[inline]
    pub fn take_from_round(&mut self) -> Option<u32> {
        self.round.pop_front(&mut self.fifo)
    }

    pub fn remove_from_round(&mut self, slot: u32) {
        self.round.remove(&mut self.fifo, slot);
    }
}
