//! Children of a group that count in a strict order and have nothing queued: the one with the smallest tag is asked for.
//!
//! Most of them are back before anybody asks. So they are put in a list first, and sorted only when the smallest tag of the list may
//! matter: a request of a queue of its own then costs two changes of a tree and not four.

use crate::structures::sorted::{SortedLinks, Tree};
use crate::structures::{Links, List, NoMemory};

/// The links of all nodes, for all groups.
#[derive(Debug)]
pub(super) struct BusyLinks {
    sorted: SortedLinks,
    unsorted: Links,
}

impl BusyLinks {
    pub fn try_new(nodes: u32) -> Result<Self, NoMemory> {
        Ok(Self { sorted: SortedLinks::try_new(nodes)?, unsorted: Links::try_new(nodes)? })
    }

    pub fn is_linked(&self, node: u32) -> bool {
        self.unsorted.is_linked(node) || self.sorted.is_linked(node)
    }
}

/// Those of one group.
#[derive(Clone, Debug)]
pub(super) struct Busy {
    sorted: Tree,
    unsorted: List,
    /// No tag in the list is smaller.
    least_unsorted: u64,
}

impl Busy {
    pub const EMPTY: Busy = Busy { sorted: Tree::EMPTY, unsorted: List::EMPTY, least_unsorted: u64::MAX };

    pub const fn len(&self) -> u32 {
        self.sorted.len().wrapping_add(self.unsorted.len())
    }

    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline]
    pub fn insert(&mut self, links: &mut BusyLinks, node: u32, tag: u64) {
        let least = if self.unsorted.is_empty() { u64::MAX } else { self.least_unsorted };
        self.least_unsorted = least.min(tag);
        self.unsorted.push_back(&mut links.unsorted, node);
    }

    /// False if it was not there.
    #[inline]
    pub fn remove(&mut self, links: &mut BusyLinks, node: u32) -> bool {
        if links.unsorted.is_linked(node) {
            self.unsorted.remove(&mut links.unsorted, node)
        } else {
            links.sorted.is_linked(node) && self.sorted.remove(&mut links.sorted, node)
        }
    }

    /// Whether no tag is smaller than this one, as far as is known without sorting.
    #[inline]
    pub fn is_none_below(&self, links: &BusyLinks, tag: u64) -> bool {
        (self.unsorted.is_empty() || self.least_unsorted >= tag)
            && self.sorted.first().and_then(|first| links.sorted.key(first)).is_none_or(|least| least >= tag)
    }

    /// The one with the smallest tag.
    pub fn first(&mut self, links: &mut BusyLinks, tag_of: impl Fn(u32) -> u64) -> Option<u32> {
        while let Some(node) = self.unsorted.pop_front(&mut links.unsorted) {
            self.sorted.insert(&mut links.sorted, node, tag_of(node));
        }
        self.sorted.first()
    }

    /// Any of them.
    pub fn any(&self) -> Option<u32> {
        self.unsorted.first().or(self.sorted.first())
    }
}
