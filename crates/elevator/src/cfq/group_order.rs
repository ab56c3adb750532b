//! The order of groups by `vdisktime`, their virtual time.

use super::groups::Groups;
use crate::structures::{NoMemory, SortedLinks, Tree};

/// If a `vdisktime` exceeds this, those of all groups are reduced, so that unsigned keys never
/// wrap.
const RENUMBERED_ABOVE: u64 = 1 << 62;

/// The groups with busy queues.
///
/// Invariant: `total_weight` is the sum of the weights under which the groups in the tree have entered it.
#[derive(Debug)]
pub struct GroupOrder {
    links: SortedLinks,
    tree: Tree,
    min_vdisktime: u64,
    total_weight: u64,
    /// The unit of service: requests instead of time.
    counts_requests: bool,
}

impl GroupOrder {
    #[inline(always)]
    pub fn try_new(groups: u32, counts_requests: bool) -> Result<Self, NoMemory> {
        let links = SortedLinks::try_new(groups)?;
        Ok(Self { links, tree: Tree::EMPTY, min_vdisktime: 0, total_weight: 0, counts_requests })
    }

    #[inline]
    pub fn holds(&self, group: u32) -> bool {
        self.links.is_linked(group)
    }

    /// The `vdisktime` under which a group is in the order.
    pub fn key(&self, group: u32) -> Option<u64> {
        self.links.key(group)
    }

    #[inline]
    pub fn total_weight(&self) -> u64 {
        self.total_weight
    }

    /// The least `vdisktime` of a group that was chosen so far.
    pub fn min_vdisktime(&self) -> u64 {
        self.min_vdisktime
    }

    /// The first group.
    #[inline]
    pub fn first(&self) -> Option<u32> {
        self.tree.first()
    }

    /// The first group is chosen.
    #[inline]
    pub fn choose_first(&mut self) -> Option<u32> {
        let group = self.tree.first()?;
        let vdisktime = self.links.key(group).unwrap_or(0);
        self.min_vdisktime = self.min_vdisktime.max(vdisktime);
        Some(group)
    }

    /// The `vdisktime` of a group that enters behind all others, by `delay`.
    #[inline]
    pub fn behind_all(&self, delay: impl FnOnce() -> u64) -> u64 {
        match self.tree.last().and_then(|last| self.links.key(last)) {
            Some(last) => last.saturating_add(delay()),
            None => self.min_vdisktime,
        }
    }

    /// A group enters. False if it was in the order.
    #[inline]
    pub fn enter(&mut self, group: u32, vdisktime: u64, weight: u32) -> bool {
        self.total_weight = self.total_weight.wrapping_add(u64::from(weight));
        self.tree.insert(&mut self.links, group, vdisktime)
    }

    /// Whether this `vdisktime` is so large that all are to be renumbered from 0.
    #[inline]
    pub fn begins_anew(&mut self, vdisktime: u64) -> bool {
        let begins = vdisktime > RENUMBERED_ABOVE;
        if begins {
            self.min_vdisktime = 0;
        }
        begins
    }

    /// A group leaves. False if it was not in the order.
    #[inline]
    pub fn leave(&mut self, group: u32) -> bool {
        self.tree.remove(&mut self.links, group)
    }

    /// The weight of a group that has left does not count any more.
    #[inline]
    pub fn forget_weight(&mut self, weight: u32) {
        self.total_weight = self.total_weight.wrapping_sub(u64::from(weight));
    }

    /// Service is counted in requests, or in time, from now on. Returns whether that has changed: the groups are then
    /// to be renumbered.
    #[inline]
    pub fn change_unit(&mut self, counts_requests: bool) -> bool {
        core::mem::replace(&mut self.counts_requests, counts_requests) != counts_requests
    }

    /// Gives the groups new values of `vdisktime`, one unit apart, in their order, because their
    /// service so far was counted in another unit, or the values have become too large
    /// (docs/specifications/cfq.md, section 11.6). Rare, and the only event that iterates over
    /// every busy group.
    #[cold]
    #[inline(never)]
    pub fn renumber(&mut self, groups: &mut Groups) {
        let mut vdisktime = self.min_vdisktime;
        let mut renumbered = Tree::EMPTY;
        while let Some(group) = self.tree.first() {
            self.tree.remove(&mut self.links, group);
            groups.at_mut(group).vdisktime = vdisktime;
            renumbered.insert(&mut self.links, group, vdisktime);
            vdisktime = vdisktime.saturating_add(1);
        }
        self.tree = renumbered;
    }
}

#[cfg(test)]
mod tests {
    use super::super::profile::FORMS;
    use super::*;

    #[test]
    fn groups_keep_their_order_when_they_are_renumbered() {
        let mut order = GroupOrder::try_new(4, false).unwrap();
        assert_eq!(order.behind_all(|| 7), 0);
        assert!(order.enter(1, 500, 100) && order.enter(2, 300, 200) && order.enter(3, 400, 50));
        assert_eq!((order.behind_all(|| 7), order.choose_first(), order.min_vdisktime()), (507, Some(2), 300));
        let mut groups = Groups::try_new(4, FORMS[0].profile).unwrap();
        order.renumber(&mut groups);
        assert_eq!([2, 3, 1].map(|group| groups.at(group).vdisktime), [300, 301, 302]);
        assert_eq!([2, 3, 1].map(|group| order.key(group)), [Some(300), Some(301), Some(302)]);
        assert!(order.leave(2) && !order.leave(2));
        order.forget_weight(200);
        assert_eq!((order.total_weight(), order.first(), order.begins_anew(u64::MAX)), (150, Some(3), true));
        assert_eq!(order.min_vdisktime(), 0);
    }
}
