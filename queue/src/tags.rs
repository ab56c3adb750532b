//! Scheduler tags: how many requests may exist, and how many of them may be limited ones.

/// Counts tags. Which number a tag has does not matter here; the request's slot serves as its name.
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

    /// Takes a tag if one is free and, for a limited request, fewer than `shallow` limited ones hold one.
    #[inline]
    pub fn take(&mut self, shallow: Option<u32>) -> bool {
        if self.in_use >= self.depth || shallow.is_some_and(|depth| self.limited >= depth.max(1)) {
            return false;
        }
        self.in_use += 1;
        self.limited += u32::from(shallow.is_some());
        true
    }

    /// Takes a tag beyond the depth: an allocation that must not wait.
    #[inline]
    pub fn take_beyond(&mut self) {
        self.in_use += 1;
    }

    /// Gives a tag back.
    #[inline]
    pub fn give_back(&mut self, was_limited: bool) {
        self.in_use = self.in_use.saturating_sub(1);
        self.limited = self.limited.saturating_sub(u32::from(was_limited));
    }

    /// Changes the number of tags; those above a smaller depth run out as they come back.
    pub fn set_depth(&mut self, depth: u32) {
        self.depth = depth;
    }

    /// Tags taken.
    #[inline]
    pub const fn in_use(&self) -> u32 {
        self.in_use
    }

    /// Tags taken by limited requests.
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
