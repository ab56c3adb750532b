//! Scheduler tags: how many requests may exist, and how many of them may be limited ones, for which
//! the policy allows only a part of the tags. The kernels before blk-mq use the same two numbers
//! for their two kinds of request (`request_lists.rs`).

/// Counts tags. A tag's number is not stored; the request's slot identifies it.
#[derive(Copy, Clone, Debug)]
pub struct Tags {
    depth: u32,
    in_use: u32,
    limited: u32,
}

impl Tags {
    /// `depth` tags, none taken.
    pub const fn new(depth: u32) -> Self {
        Self { depth, in_use: 0, limited: 0 }
    }

    /// Takes a tag if one is free and, for a limited request, fewer than `shallow` limited ones
    /// hold one.
    #[inline]
    pub fn take(&mut self, shallow: Option<u32>) -> bool {
        if self.in_use >= self.depth || shallow.is_some_and(|depth| self.limited >= depth.max(1)) {
            return false;
        }
        self.in_use += 1;
        self.limited += u32::from(shallow.is_some());
        true
    }

    /// Takes one of a kind, after the caller has checked the rules.
    #[inline]
    pub(crate) fn take_of_kind(&mut self, is_second: bool) {
        self.in_use += 1;
        self.limited += u32::from(is_second);
    }

    /// Number of requests of a kind.
    #[inline]
    pub(crate) const fn of_kind(&self, is_second: bool) -> u32 {
        if is_second { self.limited } else { self.in_use.saturating_sub(self.limited) }
    }

    /// Takes a tag beyond the depth, for an allocation that must not wait.
    #[inline]
    pub fn take_beyond(&mut self) {
        self.in_use += 1;
    }

    /// Returns a tag.
    #[inline]
    pub fn give_back(&mut self, was_limited: bool) {
        // Each was taken before.
        self.in_use = self.in_use.wrapping_sub(1);
        self.limited = self.limited.wrapping_sub(u32::from(was_limited));
    }

    /// Changes the number of tags; tags above a smaller depth disappear as they are returned.
    pub fn set_depth(&mut self, depth: u32) {
        self.depth = depth;
    }

    /// Tags in use.
    #[inline]
    pub const fn in_use(&self) -> u32 {
        self.in_use
    }

    /// Tags in use by limited requests; before blk-mq those of the second kind (writes or async).
    #[inline]
    pub const fn limited(&self) -> u32 {
        self.limited
    }

    /// Number of tags.
    #[inline]
    pub const fn depth(&self) -> u32 {
        self.depth
    }
}
