//! The groups that compete for the device.

use crate::structures::{Links, List, NoMemory};
use hoistway_block::GroupId;

/// The list of active groups, in the order in which they became active.
#[derive(Debug)]
pub struct ActiveGroups {
    list: List,
    links: Links,
}

impl ActiveGroups {
    pub fn try_new(groups: u32) -> Result<Self, NoMemory> {
        Ok(Self { list: List::EMPTY, links: Links::try_new(groups)? })
    }

    #[inline]
    pub const fn len(&self) -> u32 {
        self.list.len()
    }

    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    #[inline]
    pub fn holds(&self, group: GroupId) -> bool {
        self.links.is_linked(group.0)
    }

    #[inline]
    pub fn add(&mut self, group: GroupId) {
        self.list.push_back(&mut self.links, group.0);
    }

    #[inline]
    pub fn remove(&mut self, group: GroupId) {
        self.list.remove(&mut self.links, group.0);
    }

    #[inline]
    pub fn first(&self) -> Option<GroupId> {
        self.list.first().map(GroupId)
    }

    /// The group that became active next after this one.
    #[inline]
    pub fn after(&self, group: GroupId) -> Option<GroupId> {
        self.links.next(group.0).map(GroupId)
    }
}
