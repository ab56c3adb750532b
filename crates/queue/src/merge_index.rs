//! How merge candidates are found: the request merged into last, and the hash of ends.

use crate::end_hash::EndHash;
use crate::slot::{Marks, Slot};
use hoistway_block::{RequestId, Sector};
use hoistway_elevator::Requests;
use hoistway_elevator::structures::{Links, NoMemory};

/// The queued requests that a bio may be appended to.
///
/// Invariants: a request has [`Marks::HASHED`] if and only if it is in `hash` or is `newest`; `findable` counts those;
/// each is queued in the policy and indexed by its present end. The hash uses the links that the caller passes.
#[derive(Debug)]
pub(crate) struct MergeIndex {
    hash: EndHash,
    /// The request inserted last, with its end, if it may be merged into but is not in the hash
    /// yet.
    newest: Option<(RequestId, Sector)>,
    /// Number of requests that can be found by their end. It is mostly zero, and the lookup is
    /// skipped then.
    findable: u32,
    last: Option<RequestId>,
    violations: u32,
}

impl MergeIndex {
    pub(crate) fn try_new(slots: u32) -> Result<Self, NoMemory> {
        Ok(Self { hash: EndHash::try_new(slots)?, newest: None, findable: 0, last: None, violations: 0 })
    }

    /// The request merged into last, or the first one inserted since there is none.
    #[inline]
    pub(crate) fn last(&self) -> Option<RequestId> {
        self.last
    }

    /// A bio or request merged into this one.
    #[inline]
    pub(crate) fn merged_into(&mut self, id: RequestId) {
        self.last = Some(id);
    }

    /// A new policy starts without a last request.
    pub(crate) fn forget_last(&mut self) {
        self.last = None;
    }

    /// Requests that can be found by their end.
    #[inline]
    pub(crate) fn findable(&self) -> u32 {
        self.findable
    }

    /// A request that others may merge into was inserted.
    #[inline(always)]
    pub(crate) fn inserted(&mut self, links: &mut Links, slot: &mut Slot, id: RequestId, end: Sector) {
        if self.last.is_none() {
            self.last = Some(id);
        }
        self.add(links, slot, id, end);
    }

    /// Makes a queued request findable by its end. It enters the hash only when another request
    /// follows or a search happens, because most requests of a queue that is not full are chosen
    /// before that.
    #[inline]
    pub(crate) fn add(&mut self, links: &mut Links, slot: &mut Slot, id: RequestId, end: Sector) {
        self.findable += u32::from(!slot.marks.has(Marks::HASHED));
        slot.marks.set(Marks::HASHED);
        if let Some((before, its_end)) = self.newest.replace((id, end)) {
            self.hash(links, before.slot(), its_end);
        }
    }

    #[inline]
    fn hash(&mut self, links: &mut Links, slot: u32, end: Sector) {
        self.violations += u32::from(!self.hash.add(links, slot, end));
    }

    /// The queued request that ends here and became findable last.
    #[inline]
    pub(crate) fn ending_at(&mut self, links: &mut Links, requests: &Requests, end: Sector) -> Option<RequestId> {
        if let Some((newest, its_end)) = self.newest.take() {
            self.hash(links, newest.slot(), its_end);
        }
        self.hash.find(links, requests, end)
    }

    /// Removes a request before its end moves or its links are needed elsewhere. Returns whether it was findable.
    #[inline(always)]
    pub(crate) fn remove(&mut self, links: &mut Links, slot: &mut Slot, requests: &Requests, id: RequestId) -> bool {
        if !slot.marks.has(Marks::HASHED) {
            return false;
        }
        slot.marks.clear(Marks::HASHED);
        self.findable = self.findable.wrapping_sub(1);
        if self.newest.is_some_and(|(newest, _)| newest == id) {
            self.newest = None;
        } else {
            self.unhash(links, requests, id);
        }
        true
    }

    #[inline]
    fn unhash(&mut self, links: &mut Links, requests: &Requests, id: RequestId) {
        let end = requests.attributes(id).extent.end();
        self.violations += u32::from(!self.hash.remove(links, id.slot(), end));
    }

    /// The request leaves the policy, by whatever path: nothing may merge into it any more.
    #[inline(always)]
    pub(crate) fn forget(&mut self, links: &mut Links, slot: &mut Slot, requests: &Requests, id: RequestId) {
        self.remove(links, slot, requests, id);
        if self.last == Some(id) {
            self.last = None;
        }
    }

    /// Whether a request with [`Marks::HASHED`] can really be found by its end.
    pub(crate) fn holds(&self, links: &Links, id: RequestId, end: Sector) -> bool {
        self.newest == Some((id, end)) || self.hash.holds(links, id.slot(), end)
    }

    pub(crate) fn violations(&self) -> u32 {
        self.violations
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoistway_block::{Extent, Operation};
    use hoistway_elevator::Attributes;

    #[test]
    fn requests_are_found_from_insertion_to_departure_and_counted() {
        let (mut links, mut requests) = (Links::try_new(4).unwrap(), Requests::try_new(4).unwrap());
        let (mut index, mut slots) = (MergeIndex::try_new(4).unwrap(), [Slot::EMPTY; 2]);
        let ids = [0, 8].map(|first| requests.allocate(Attributes::new(Operation::Read, Extent::new(first, 8)), 0));
        let [older, newer] = ids.map(|id| id.expect("a slot is free"));
        index.inserted(&mut links, &mut slots[0], older, 8);
        assert!(index.holds(&links, older, 8) && index.last() == Some(older));
        index.inserted(&mut links, &mut slots[1], newer, 16);
        assert_eq!((index.ending_at(&mut links, &requests, 16), index.findable()), (Some(newer), 2));
        index.merged_into(newer);
        index.forget(&mut links, &mut slots[1], &requests, newer);
        assert_eq!((index.ending_at(&mut links, &requests, 16), index.last()), (None, None));
        assert!(index.remove(&mut links, &mut slots[0], &requests, older));
        assert!(!index.remove(&mut links, &mut slots[0], &requests, older));
        assert_eq!((index.findable(), index.violations(), slots[0].marks.has(Marks::HASHED)), (0, 0, false));
    }
}
