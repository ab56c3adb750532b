//! Shares of the scheduler tags. A group that holds its share waits for one of its own tags, so
//! that other groups' requests can enter the scheduler.

use crate::group::WEIGHT_DEFAULT;
use crate::interface::{Admission, Violation};
use crate::structures::{Array, NoMemory};
use hoistway_block::GroupId;

/// Levels of groups on which a share is checked: the group itself and its nearest ancestors.
const LEVELS_CHECKED: usize = 8;
const ROOT: u32 = GroupId::ROOT.0;

#[derive(Copy, Clone, Debug)]
struct Holder {
    parent: u32,
    weight: u32,
    /// Tags held by the group and its descendants.
    held: u32,
    /// Sum of the weights of its children that hold tags.
    holding_weight: u64,
}

/// How many scheduler tags each group holds.
#[derive(Debug)]
pub struct TagShares {
    holders: Array<Holder>,
    taken: u32,
}

impl TagShares {
    /// No tags held.
    ///
    /// # Errors
    /// When memory is short.
    pub fn try_new(groups: u32) -> Result<Self, NoMemory> {
        let none = Holder { parent: ROOT, weight: WEIGHT_DEFAULT, held: 0, holding_weight: 0 };
        Ok(Self { holders: Array::try_new(groups.max(1), none)?, taken: 0 })
    }

    pub fn group_added(&mut self, group: GroupId, parent: GroupId, weight: u32) {
        *self.holders.at_mut(group.0) = Holder { parent: parent.0, weight, held: 0, holding_weight: 0 };
    }

    pub fn group_changed(&mut self, group: GroupId, weight: u32) {
        let state = self.holders.at_mut(group.0);
        let (before, held, parent) = (state.weight, state.held, state.parent);
        state.weight = weight;
        if held > 0 && group != GroupId::ROOT {
            let above = &mut self.holders.at_mut(parent).holding_weight;
            *above = above.saturating_add(u64::from(weight)).saturating_sub(u64::from(before));
        }
    }

    /// Whether a request of the group may take one of `tags` tags. While fewer than `free_until`
    /// tags are taken, any group may; after that, a group is limited to its share of `tags - kept`
    /// on each of the lowest [`LEVELS_CHECKED`] levels, so that `kept` tags are free for groups
    /// that hold none yet.
    pub fn admission(&self, group: GroupId, tags: u32, free_until: u32, kept: u32) -> Admission {
        if self.taken < free_until {
            return Admission::Full;
        }
        let mut path = [ROOT; LEVELS_CHECKED];
        let mut at = group.0;
        for place in &mut path {
            *place = at;
            at = self.holders.at(at).parent;
        }
        let mut limit = u64::from(tags.saturating_sub(kept));
        for group in path.into_iter().rev().filter(|group| *group != ROOT) {
            let state = self.holders.at(group);
            let weight = u64::from(state.weight);
            let siblings = self.holders.at(state.parent).holding_weight;
            let of_all = if state.held == 0 { siblings.saturating_add(weight) } else { siblings };
            limit = limit.saturating_mul(weight).checked_div(of_all).unwrap_or(limit).max(1);
            if u64::from(state.held) >= limit {
                return Admission::Shallow(1);
            }
        }
        Admission::Full
    }

    /// A request of the group took a tag, or gave it back.
    pub fn count(&mut self, group: GroupId, is_taken: bool) {
        self.taken = if is_taken { self.taken.wrapping_add(1) } else { self.taken.saturating_sub(1) };
        let mut at = group.0;
        for _ in 0..self.holders.len() {
            if at == ROOT {
                return;
            }
            let state = self.holders.at_mut(at);
            let (before, parent, weight) = (state.held, state.parent, u64::from(state.weight));
            state.held = if is_taken { before.wrapping_add(1) } else { before.saturating_sub(1) };
            if before == u32::from(!is_taken) {
                let above = &mut self.holders.at_mut(parent).holding_weight;
                *above = if is_taken { above.saturating_add(weight) } else { above.saturating_sub(weight) };
            }
            at = parent;
        }
    }

    /// Checks that each sum of weights is that of the children that hold tags.
    pub fn check(&self) -> Result<(), Violation> {
        for parent in 0..self.holders.len() {
            let children = (1..self.holders.len()).map(|child| self.holders.at(child));
            let holding = children.filter(|child| child.parent == parent && child.held > 0);
            if holding.map(|child| u64::from(child.weight)).sum::<u64>() != self.holders.at(parent).holding_weight {
                return Err(Violation { what: "the weights of groups that hold tags add up", at: parent });
            }
        }
        Ok(())
    }
}
