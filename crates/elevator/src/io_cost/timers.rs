//! The timers of groups with waiting bios or with debt.

use crate::structures::{NoMemory, SortedLinks, Tree};
use hoistway_block::{GroupId, Nanos};

/// At most one timer for each group, sorted by time.
#[derive(Debug)]
pub struct Timers {
    order: Tree,
    links: SortedLinks,
}

impl Timers {
    pub fn try_new(groups: u32) -> Result<Self, NoMemory> {
        Ok(Self { order: Tree::EMPTY, links: SortedLinks::try_new(groups)? })
    }

    /// When the first timer is due.
    #[inline]
    pub fn next(&self) -> Option<Nanos> {
        self.order.first().and_then(|group| self.links.key(group))
    }

    /// A group whose timer is due.
    #[inline]
    pub fn due(&self, now: Nanos) -> Option<GroupId> {
        let group = self.order.first()?;
        self.links.key(group).is_some_and(|at| at <= now).then_some(GroupId(group))
    }

    /// When the group's timer is due, if it runs.
    #[inline]
    pub fn at(&self, group: GroupId) -> Option<Nanos> {
        self.links.key(group.0).filter(|_| self.links.is_linked(group.0))
    }

    /// Sets the group's timer.
    #[inline]
    pub fn set(&mut self, group: GroupId, at: Nanos) {
        self.clear(group);
        self.order.insert(&mut self.links, group.0, at);
    }

    /// The group has no timer any more.
    #[inline]
    pub fn clear(&mut self, group: GroupId) {
        if self.links.is_linked(group.0) {
            self.order.remove(&mut self.links, group.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_has_one_timer() {
        let mut timers = Timers::try_new(4).unwrap();
        timers.set(GroupId(1), 50);
        timers.set(GroupId(2), 30);
        timers.set(GroupId(1), 20);
        assert_eq!((timers.next(), timers.at(GroupId(1)), timers.at(GroupId(3))), (Some(20), Some(20), None));
        assert_eq!((timers.due(19), timers.due(20)), (None, Some(GroupId(1))));
        timers.clear(GroupId(1));
        timers.clear(GroupId(1));
        assert_eq!((timers.next(), timers.due(30)), (Some(30), Some(GroupId(2))));
    }
}
