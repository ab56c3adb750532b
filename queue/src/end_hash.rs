//! Requests by the sector behind their last one: who can take a bio at its back.

use block::{NIL, Sector};
use elevator::structures::{Array, NoMemory};

#[derive(Copy, Clone, Debug)]
struct Node {
    end: Sector,
    prev: u32,
    next: u32,
    linked: bool,
}

/// Chained hash over slots; a power of two of buckets, 64 for up to 256 slots and a quarter of the slots beyond.
#[derive(Debug)]
pub(crate) struct EndHash {
    buckets: Array<u32>,
    nodes: Array<Node>,
    mask: u64,
}

impl EndHash {
    pub(crate) fn try_new(slots: u32) -> Result<Self, NoMemory> {
        let buckets = (slots / 4).max(64).next_power_of_two();
        Ok(Self {
            buckets: Array::try_new(buckets, NIL)?,
            nodes: Array::try_new(slots, Node { end: 0, prev: NIL, next: NIL, linked: false })?,
            mask: u64::from(buckets - 1),
        })
    }

    #[inline]
    fn bucket(&self, end: Sector) -> u32 {
        // Multiplying by 2^64/phi spreads ends that differ only in high or only in low bits.
        let spread = (end >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        u32::try_from(spread & self.mask).unwrap_or(0)
    }

    /// Adds a slot, or moves it to its new end.
    #[inline]
    pub(crate) fn add(&mut self, slot: u32, end: Sector) {
        self.remove(slot);
        let bucket = self.bucket(end);
        let first = *self.buckets.at(bucket);
        *self.nodes.at_mut(slot) = Node { end, prev: NIL, next: first, linked: true };
        if first != NIL {
            self.nodes.at_mut(first).prev = slot;
        }
        *self.buckets.at_mut(bucket) = slot;
    }

    /// Removes a slot; nothing happens if it is not there.
    #[inline]
    pub(crate) fn remove(&mut self, slot: u32) {
        let node = *self.nodes.at(slot);
        if !node.linked {
            return;
        }
        if node.prev == NIL {
            let bucket = self.bucket(node.end);
            *self.buckets.at_mut(bucket) = node.next;
        } else {
            self.nodes.at_mut(node.prev).next = node.next;
        }
        if node.next != NIL {
            self.nodes.at_mut(node.next).prev = node.prev;
        }
        self.nodes.at_mut(slot).linked = false;
    }

    /// The slot added last among those that end here.
    #[inline]
    pub(crate) fn find(&self, end: Sector) -> Option<u32> {
        let mut slot = *self.buckets.at(self.bucket(end));
        while slot != NIL {
            let node = self.nodes.at(slot);
            if node.end == end {
                return Some(slot);
            }
            slot = node.next;
        }
        None
    }

    /// Whether the slot is in, and under which end.
    pub(crate) fn end_of(&self, slot: u32) -> Option<Sector> {
        let node = self.nodes.at(slot);
        node.linked.then_some(node.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_added_last_is_found_and_removal_uncovers_the_older() {
        let mut hash = EndHash::try_new(8).unwrap();
        hash.add(1, 1000);
        hash.add(2, 1000);
        assert_eq!(hash.find(1000), Some(2));
        hash.add(2, 2000);
        assert_eq!((hash.find(1000), hash.find(2000)), (Some(1), Some(2)));
        hash.remove(1);
        hash.remove(1);
        assert_eq!(hash.find(1000), None);
    }
}
