//! Best-effort requests by age: a request that has waited too long is dispatched out of order.

use crate::structures::{Links, List};

/// Completions between two overdue requests, so that a backlog of overdue ones does not replace the
/// order.
pub const OVERDUE_EVERY: u32 = 16;

#[derive(Debug)]
pub struct ByAge {
    links: Links,
    list: List,
    /// Completions until an overdue request may go.
    until_overdue: u32,
}

impl ByAge {
    /// An empty list over these links.
    pub const fn new(links: Links) -> Self {
        Self { links, list: List::EMPTY, until_overdue: 0 }
    }

    pub const fn len(&self) -> u32 {
        self.list.len()
    }

    pub const fn oldest(&self) -> Option<u32> {
        self.list.first()
    }

    /// False if the request is there already.
    #[inline(always)]
    pub fn push(&mut self, slot: u32) -> bool {
        self.list.push_back(&mut self.links, slot)
    }

    /// False if the request is not there.
    #[inline(always)]
    pub fn remove(&mut self, slot: u32) -> bool {
        self.list.remove_early(&mut self.links, slot)
    }

    #[inline]
    pub const fn completed(&mut self) {
        self.until_overdue = self.until_overdue.saturating_sub(1);
    }

    /// The oldest request, if it is overdue and the last overdue dispatch was long enough ago.
    pub fn overdue(&mut self, is_overdue: impl FnOnce(u32) -> bool) -> Option<u32> {
        let first = self.list.first()?;
        if self.until_overdue > 0 || !is_overdue(first) {
            return None;
        }
        self.until_overdue = OVERDUE_EVERY;
        Some(first)
    }
}
