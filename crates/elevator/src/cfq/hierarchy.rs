//! Weights in a tree of groups (4.20). The order of groups stays flat, and each group's queues have
//! a fraction of the device that follows from the active groups on every level.
//!
//! A group's fraction is computed when it enters the order. Other groups keep their old fractions
//! until they are charged next, because a charge makes a group leave and enter again.

use super::Cfq;
use hoistway_block::GroupId;

/// The whole device.
pub const WHOLE: u64 = 1 << 12;

impl Cfq {
    /// Queues of the group become busy, or were just charged: the group joins the active children
    /// of its ancestors.
    #[inline(never)]
    pub(super) fn activate_in_hierarchy(&mut self, group: u32) {
        let Some(state) = self.groups.get_mut(group) else { return };
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
            let Some(state) = self.groups.get_mut(at) else { break };
            if goes_on {
                state.weight = state.new_weight;
            }
            let (parent, weight) = (state.parent, u64::from(state.weight));
            let Some(above) = self.groups.get_mut(parent) else { break };
            if goes_on {
                above.active = above.active.wrapping_add(1);
                goes_on = above.active == 1;
                above.children_weight = above.children_weight.saturating_add(weight);
            }
            fraction = fraction.saturating_mul(weight).checked_div(above.children_weight).unwrap_or(fraction);
            at = parent;
        }
        if let Some(state) = self.groups.get_mut(group) {
            state.fraction = fraction.max(1);
        }
    }

    /// The reverse of [`Cfq::activate_in_hierarchy`].
    #[inline(never)]
    pub(super) fn deactivate_in_hierarchy(&mut self, group: u32) {
        let mut lost = u64::from(self.groups.at(group).leaf_weight);
        let mut at = group;
        for _ in 0..=self.groups.len() {
            let Some(state) = self.groups.get_mut(at) else { return };
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

#[cfg(test)]
mod tests {
    use super::super::profile::FORMS;
    use super::*;
    use crate::group::GroupSettings;
    use crate::interface::{Configuration, Elevator, Policy};

    const A: u32 = 1;
    const B: u32 = 2;
    const AA: u32 = 3;
    const AB: u32 = 4;

    /// The kernel documentation's example: weight and leaf weight of the root 125, A 500 and 750, B
    /// 250 and 500, below A: AA 500 and 500, AB 1000 and 500.
    fn documented() -> Cfq {
        let form = FORMS.last().expect("the last form has the hierarchy");
        let mut policy = Cfq::build(&Configuration::default(), form.profile).expect("memory");
        for (group, parent, weight, leaf) in
            [(0, 0, 125, 125), (A, 0, 500, 750), (B, 0, 250, 500), (AA, A, 500, 500), (AB, A, 1000, 500)]
        {
            if group != 0 {
                let settings = GroupSettings { parent: GroupId(parent), ..GroupSettings::with_weight(weight) };
                policy.group_added(GroupId(group), &settings, 0);
            }
            let state = policy.groups.at_mut(group);
            (state.new_weight, state.new_leaf_weight) = (weight, leaf);
        }
        policy
    }

    #[test]
    fn t12_fractions_of_the_documented_example() {
        let mut policy = documented();
        let all = [0, B, A, AA, AB];
        for group in all {
            policy.activate_in_hierarchy(group);
        }
        assert_eq!(policy.groups.at(0).fraction, 4096, "as long as it was the only one; others do not change it");
        // A charge takes a group out of the order and in again.
        for group in all {
            policy.deactivate_in_hierarchy(group);
            policy.activate_in_hierarchy(group);
        }
        assert_eq!(all.map(|group| policy.groups.at(group).fraction), [585, 1170, 780, 520, 1040]);
    }

    #[test]
    fn a_removed_weight_is_subtracted_up_to_the_first_ancestor_that_stays() {
        let mut policy = documented();
        for group in [0, AA, AB] {
            policy.activate_in_hierarchy(group);
        }
        assert_eq!((policy.groups.at(0).children_weight, policy.groups.at(A).children_weight), (625, 1500));
        policy.deactivate_in_hierarchy(AA);
        assert_eq!((policy.groups.at(0).children_weight, policy.groups.at(A).children_weight), (625, 1000));
        policy.deactivate_in_hierarchy(AB);
        assert_eq!((policy.groups.at(0).children_weight, policy.groups.at(A).active), (125, 0));
        policy.deactivate_in_hierarchy(0);
        assert!(all_idle(&policy));
    }

    fn all_idle(policy: &Cfq) -> bool {
        policy.groups.iter().all(|group| group.active == 0 && group.children_weight == 0)
    }

    #[test]
    fn a_group_is_below_its_ancestors_only() {
        let policy = documented();
        assert!(policy.is_at_or_above(A, AA) && policy.is_at_or_above(0, AB) && policy.is_at_or_above(B, B));
        assert!(!policy.is_at_or_above(AA, A) && !policy.is_at_or_above(B, AB));
    }
}
