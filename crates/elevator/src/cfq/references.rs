//! The references to a queue's record.

use crate::structures::NIL;

/// What keeps a queue's record in use, and the queue that its issuers move to.
///
/// Invariants: `total` is at least `requests`, except in the spare queue's record; a queue without references of issuers
/// has no merge target.
#[derive(Copy, Clone, Debug)]
pub struct References {
    /// Inserted requests, each of which holds a reference.
    requests: u32,
    /// References by inserted requests, by issuers, by scheduled merges, and the permanent one of
    /// an async queue.
    total: u32,
    /// The queue that its issuers move to with their next request, or NIL.
    merges_into: u32,
}

impl References {
    pub const NONE: Self = Self { requests: 0, total: 0, merges_into: NIL };
    /// Of one issuer, or the permanent one.
    pub const ONE: Self = Self { total: 1, ..Self::NONE };

    #[inline(always)]
    pub const fn requests(&self) -> u32 {
        self.requests
    }

    #[inline(always)]
    pub const fn total(&self) -> u32 {
        self.total
    }

    /// Those of issuers, including those of scheduled merges.
    #[inline(always)]
    pub const fn of_processes(&self) -> u32 {
        self.total.saturating_sub(self.requests)
    }

    /// The queue that its issuers move to with their next request, or NIL.
    #[inline(always)]
    pub const fn merges_into(&self) -> u32 {
        self.merges_into
    }

    #[inline(always)]
    pub const fn is_to_merge(&self) -> bool {
        self.merges_into != NIL
    }

    /// A request is inserted.
    #[inline(always)]
    pub const fn add_request(&mut self) {
        (self.requests, self.total) = (self.requests.wrapping_add(1), self.total.wrapping_add(1));
    }

    /// A request is no longer inserted; its reference is still to be dropped.
    #[inline(always)]
    pub const fn end_request(&mut self) {
        self.requests = self.requests.saturating_sub(1);
    }

    /// Drops a reference; the merge target is forgotten with the last one of an issuer.
    #[inline(always)]
    pub const fn drop_one(&mut self) {
        self.total = self.total.saturating_sub(1);
        if self.of_processes() == 0 {
            self.merges_into = NIL;
        }
    }

    /// Drops the reference of a request while an issuer holds another one.
    #[inline(always)]
    pub const fn drop_plain(&mut self) {
        self.total = self.total.saturating_sub(1);
    }

    /// Issuers of another queue will move here.
    #[inline(always)]
    pub const fn expect(&mut self, processes: u32) {
        self.total = self.total.saturating_add(processes);
    }

    /// Its issuers move to another queue with their next requests.
    #[inline(always)]
    pub const fn schedule_merge(&mut self, target: u32) {
        self.merges_into = target;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_merge_target_is_forgotten_with_the_last_issuer() {
        let mut references = References::ONE;
        references.add_request();
        references.expect(1);
        references.schedule_merge(4);
        assert_eq!((references.total(), references.of_processes()), (3, 2));
        references.drop_one();
        assert!(references.is_to_merge() && references.of_processes() == 1);
        references.drop_one();
        assert!(!references.is_to_merge(), "a request alone moves nowhere");
        references.end_request();
        references.drop_one();
        assert_eq!((references.requests(), references.total()), (0, 0));
    }
}
