//! A hash of requests by the sector after their last one, which finds the request that a bio can be
//! appended to.
//!
//! Only the buckets are stored here. The chains use the links of the dispatch list, because a
//! request is never on that list while it can be merged, and the key, the request's end, is in the
//! table of requests. So the hash takes only two to four bytes per request.

use hoistway_block::{RequestId, Sector};
use hoistway_elevator::Requests;
use hoistway_elevator::structures::{Array, Links, NoMemory, Stack};

/// Chained hash of slots. The number of buckets is a power of two: 64 for up to 128 slots, and at
/// least one for every two slots beyond.
#[derive(Debug)]
pub(crate) struct EndHash {
    buckets: Array<Stack>,
    mask: u64,
}

impl EndHash {
    pub(crate) fn try_new(slots: u32) -> Result<Self, NoMemory> {
        let buckets = (slots / 2).max(64).next_power_of_two();
        Ok(Self { buckets: Array::try_new(buckets, Stack::EMPTY)?, mask: u64::from(buckets - 1) })
    }

    #[inline]
    fn bucket(&self, end: Sector) -> u32 {
        // Multiplying by 2^64 divided by the golden ratio spreads ends that differ only in high or
        // only in low bits.
        let spread = (end >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        u32::try_from(spread & self.mask).unwrap_or(0)
    }

    /// Adds a slot that is on no list. Returns false and does nothing if it is on one.
    #[inline]
    pub(crate) fn add(&mut self, links: &mut Links, slot: u32, end: Sector) -> bool {
        let bucket = self.bucket(end);
        self.buckets.at_mut(bucket).push(links, slot)
    }

    /// Removes a slot that was added under this end.
    #[inline]
    pub(crate) fn remove(&mut self, links: &mut Links, slot: u32, end: Sector) -> bool {
        let bucket = self.bucket(end);
        self.buckets.at_mut(bucket).remove(links, slot)
    }

    /// The request added last among those that end at this sector.
    #[inline]
    pub(crate) fn find(&self, links: &Links, requests: &Requests, end: Sector) -> Option<RequestId> {
        let mut next = self.buckets.at(self.bucket(end)).first();
        while let Some(slot) = next {
            if let Some((id, request)) = requests.in_slot(slot)
                && request.attributes.extent.end() == end
            {
                return Some(id);
            }
            next = links.next(slot);
        }
        None
    }

    /// Whether the slot can be found under this end.
    pub(crate) fn holds(&self, links: &Links, slot: u32, end: Sector) -> bool {
        let first = self.buckets.at(self.bucket(end)).first();
        core::iter::successors(first, |at| links.next(*at)).any(|at| at == slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoistway_block::{Extent, Operation};
    use hoistway_elevator::Attributes;

    #[test]
    fn the_request_added_last_is_found_and_removal_uncovers_the_older() {
        let mut requests = Requests::try_new(8).unwrap();
        let mut links = Links::try_new(8).unwrap();
        let mut hash = EndHash::try_new(8).unwrap();
        let [older, newer] = [990, 980].map(|first| {
            let sectors = u32::try_from(1000 - first).unwrap();
            requests.allocate(Attributes::new(Operation::Read, Extent::new(first, sectors)), 0).unwrap()
        });
        assert!(hash.add(&mut links, older.slot(), 1000) && hash.add(&mut links, newer.slot(), 1000));
        assert!(!hash.add(&mut links, newer.slot(), 1000));
        assert_eq!(hash.find(&links, &requests, 1000), Some(newer));
        assert!(hash.holds(&links, older.slot(), 1000) && hash.remove(&mut links, newer.slot(), 1000));
        assert_eq!((hash.find(&links, &requests, 1000), hash.find(&links, &requests, 2000)), (Some(older), None));
        assert!(hash.remove(&mut links, older.slot(), 1000) && !hash.remove(&mut links, older.slot(), 1000));
        assert_eq!(hash.find(&links, &requests, 1000), None);
    }
}
