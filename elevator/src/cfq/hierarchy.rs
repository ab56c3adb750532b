//! Weights in a tree of groups (4.20): the order of groups stays flat, and each group's queues have a fraction of the device
//! that follows from the active groups on every level.
//!
//! A fraction is worked out when the group enters the order, so that others keep theirs until they are charged next.

use super::Cfq;
use block::GroupId;

/// The whole device.
pub const WHOLE: u64 = 1 << 12;

impl Cfq {
    /// Queues of the group become busy, or were just charged: it joins its ancestors' active children.
    pub(super) fn activate_in_hierarchy(&mut self, group: u32) {
        let state = self.groups.at_mut(group);
        state.leaf_weight = state.new_leaf_weight;
        state.active = state.active.wrapping_add(1);
        state.children_weight = state.children_weight.saturating_add(u64::from(state.leaf_weight));
        let leaf = u64::from(state.leaf_weight);
        let mut fraction = WHOLE.saturating_mul(leaf).checked_div(state.children_weight).unwrap_or(WHOLE);
        let mut goes_on = state.active == 1;
        let mut at = group;
        // A path to the root meets every group at most once.
        for _ in 0..self.groups.len() {
            if at == GroupId::ROOT.0 {
                break;
            }
            let state = self.groups.at_mut(at);
            if goes_on {
                state.weight = state.new_weight;
            }
            let (parent, weight) = (state.parent, u64::from(state.weight));
            let above = self.groups.at_mut(parent);
            if goes_on {
                above.active = above.active.wrapping_add(1);
                goes_on = above.active == 1;
                above.children_weight = above.children_weight.saturating_add(weight);
            }
            fraction = fraction.saturating_mul(weight).checked_div(above.children_weight).unwrap_or(fraction);
            at = parent;
        }
        self.groups.at_mut(group).fraction = fraction.max(1);
    }

    /// The reverse.
    pub(super) fn deactivate_in_hierarchy(&mut self, group: u32) {
        let state = self.groups.at_mut(group);
        let mut lost = u64::from(state.leaf_weight);
        let mut at = group;
        for _ in 0..=self.groups.len() {
            let state = self.groups.at_mut(at);
            state.active = state.active.saturating_sub(1);
            state.children_weight = state.children_weight.saturating_sub(lost);
            if state.active > 0 || at == GroupId::ROOT.0 {
                return;
            }
            lost = u64::from(state.weight);
            at = state.parent;
        }
    }

    /// Whether `group` is `other` or one of its ancestors.
    pub(super) fn is_at_or_above(&self, group: u32, other: u32) -> bool {
        let mut at = other;
        for _ in 0..=self.groups.len() {
            if at == group {
                return true;
            }
            if at == GroupId::ROOT.0 {
                return false;
            }
            at = self.groups.at(at).parent;
        }
        false
    }
}
