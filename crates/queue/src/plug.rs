//! A submitter's plug: requests that wait for more merge candidates before they enter the policy
//! together.

use hoistway_block::RequestId;

/// Largest number of requests in a plug (32 since Linux 5.16).
pub const CAPACITY: usize = 32;

/// One submitter's plug. Pass it to [`crate::RequestQueue::submit_plugged`], then flush it with
/// [`crate::RequestQueue::unplug`]: requests in a plug that is never flushed are never served.
#[derive(Debug)]
pub struct Plug {
    requests: [Option<RequestId>; CAPACITY],
    len: usize,
}

impl Default for Plug {
    fn default() -> Self {
        Self { requests: [None; CAPACITY], len: 0 }
    }
}

impl Plug {
    /// Number of requests held.
    #[inline]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether it holds nothing.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The request plugged last: the only one that a bio may merge into.
    #[inline]
    pub(crate) fn newest(&self) -> Option<RequestId> {
        *self.requests.get(self.len.wrapping_sub(1))?
    }

    /// Adds a request; false if full.
    #[inline]
    pub(crate) fn push(&mut self, id: RequestId) -> bool {
        let Some(place) = self.requests.get_mut(self.len) else { return false };
        *place = Some(id);
        self.len += 1;
        true
    }

    /// The `index`-th request, in order of submission.
    #[inline]
    pub(crate) fn get(&self, index: usize) -> Option<RequestId> {
        *self.requests.get(index)?
    }

    /// Removes all requests: they have entered the policy.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }
}
