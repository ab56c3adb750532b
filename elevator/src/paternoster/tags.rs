//! Scheduler tags: while they are scarce, a group holds no more than its share, so that the others' requests can be seen.

use super::Paternoster;
use super::state::ROOT;
use crate::interface::Admission;
use block::GroupId;

/// Levels at which a bio's groups are looked at before it gets a tag.
const LEVELS_CHECKED: usize = 8;

impl Paternoster {
    /// Whether a group above its share has to wait for one of its own tags. A quarter of the tags is kept for the others.
    pub(super) fn admission(&self, group: GroupId) -> Admission {
        if u64::from(self.tags_taken).saturating_mul(4) < u64::from(self.tags).saturating_mul(3) {
            return Admission::Full;
        }
        let mut path = [ROOT; LEVELS_CHECKED];
        let mut at = group.0;
        for place in &mut path {
            *place = at;
            at = self.parent_group(at);
        }
        let mut limit = u64::from(self.tags);
        for group in path.into_iter().rev().filter(|group| *group != ROOT) {
            let state = self.groups.at(group);
            let weight = u64::from(self.members.at(self.group_member(group)).weight());
            let siblings = self.groups.at(self.parent_group(group)).tags_weight;
            let of_all = if state.tags == 0 { siblings.saturating_add(weight) } else { siblings };
            limit = limit.saturating_mul(weight).checked_div(of_all).unwrap_or(limit).max(1);
            if u64::from(state.tags) >= limit {
                return Admission::Shallow(1);
            }
        }
        Admission::Full
    }

    #[inline]
    fn parent_group(&self, group: u32) -> u32 {
        self.groups.at(group).parent
    }

    /// Of a group, and of those above it.
    #[inline]
    pub(super) fn count_tag<const IS_TAKEN: bool>(&mut self, group: GroupId) {
        self.tags_taken = if IS_TAKEN { self.tags_taken.wrapping_add(1) } else { self.tags_taken.saturating_sub(1) };
        if group.0 != ROOT {
            self.count_tag_of::<IS_TAKEN>(group.0);
        }
    }

    #[inline]
    fn count_tag_of<const IS_TAKEN: bool>(&mut self, group: u32) {
        let mut at = group;
        loop {
            let state = self.groups.at_mut(at);
            let before = state.tags;
            let parent = state.parent;
            state.tags = if IS_TAKEN { before.wrapping_add(1) } else { before.saturating_sub(1) };
            if before == u32::from(!IS_TAKEN) {
                self.count_holder::<IS_TAKEN>(at, parent);
            }
            if parent == ROOT {
                return;
            }
            at = parent;
        }
    }

    /// A group holds its first tag, or its last one no more.
    #[inline(never)]
    fn count_holder<const IS_TAKEN: bool>(&mut self, group: u32, parent: u32) {
        let weight = u64::from(self.members.at(self.group_member(group)).weight());
        let of_parent = &mut self.groups.at_mut(parent).tags_weight;
        *of_parent = if IS_TAKEN { of_parent.saturating_add(weight) } else { of_parent.saturating_sub(weight) };
    }
}
