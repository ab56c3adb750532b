//! Hierarchical weights: a group's share of the device is the product, over its levels, of its
//! weight divided by the sum of its active siblings'.
//!
//! Each group has two shares: by the weights that the groups have (`active`) and by those that they
//! use (`inuse`), the rest being lent to others. An inner group uses what its children use: its
//! `inuse` follows from theirs. A change costs O(depth); shares are recalculated when read.

use super::clock::{Vtime, ahead};
use super::group::Group;
use crate::structures::NoMemory;
use alloc::vec::Vec;
use hoistway_block::GroupId;

/// The whole device; also the unit of weights.
pub const ONE: u32 = 1 << 16;

/// A configured weight in internal units.
pub const fn weight_of(weight: u32) -> u32 {
    weight.saturating_mul(ONE)
}

/// The charge for device time `absolute` to a group with this share, rounded up.
#[inline]
pub const fn charged(absolute: Vtime, hweight: u32) -> Vtime {
    let hweight = hweight as u64;
    let Some(share) = core::num::NonZeroU64::new(hweight) else { return MOST_CHARGED };
    let charged = match absolute.checked_mul(ONE as u64) {
        Some(product) => (product / share.get()).saturating_add((product % share.get() != 0) as u64),
        None => (absolute / share.get()).saturating_mul(ONE as u64),
    };
    if charged > MOST_CHARGED { MOST_CHARGED } else { charged }
}

/// A charge is capped here, far below half of the range of the clock. If a group's virtual time
/// were ahead of the clock by more than half of the range, it would appear to be behind.
const MOST_CHARGED: Vtime = 1 << 60;

/// `ceil(a * part / whole)`, at most `a`, for a weight `a` and parts of any size.
#[inline]
fn portion(a: u32, part: u64, whole: u64) -> u32 {
    // 30 bits of weight leave 34 bits for a sum; low bits of a larger sum do not matter.
    let excess = 30u32.saturating_sub(whole.leading_zeros());
    let (part, whole) = (part >> excess, (whole >> excess).max(1));
    let product = u64::from(a).saturating_mul(part);
    u32::try_from(product.div_ceil(whole)).unwrap_or(a).min(a)
}

/// The weights of a group in the tree of active groups.
///
/// Invariants: `inuse` is from 1 to `active` while the group or a descendant is active, and 0 with it otherwise; of an inner
/// group both follow from its children's.
#[derive(Copy, Clone, Debug)]
pub struct Weights {
    /// In units of [`ONE`].
    configured: u32,
    /// The configured weight while the group or a descendant is active, otherwise 0.
    active: u32,
    /// The part of `active` that it uses; the rest is lent to others.
    inuse: u32,
    /// `inuse` before the last change, restored when the group is activated again or has paid its
    /// debt.
    last_inuse: u32,
    children_active: u64,
    children_inuse: u64,
    /// The cached shares by `active` and by `inuse`.
    shares: (u32, u32),
    /// They are valid if this equals the tree's generation, which changes with every weight.
    generation: u32,
}

impl Weights {
    pub const fn of(configured: u32) -> Self {
        Self {
            configured,
            active: 0,
            inuse: 0,
            last_inuse: 0,
            children_active: 0,
            children_inuse: 0,
            shares: (ONE, ONE),
            generation: 0,
        }
    }

    #[inline]
    pub const fn configured(&self) -> u32 {
        self.configured
    }

    /// Sets the configured weight, which the weight in force does not follow by itself. False if it is the same.
    pub const fn configure(&mut self, weight: u32) -> bool {
        core::mem::replace(&mut self.configured, weight) != weight
    }

    #[inline]
    pub const fn active(&self) -> u32 {
        self.active
    }

    #[inline]
    pub const fn inuse(&self) -> u32 {
        self.inuse
    }

    /// Whether it lends some of its weight.
    #[inline]
    pub const fn lends(&self) -> bool {
        self.inuse != self.active
    }

    #[inline]
    pub const fn last_inuse(&self) -> u32 {
        self.last_inuse
    }

    /// The weight that it will use again.
    #[inline]
    pub const fn return_to(&mut self, inuse: u32) {
        self.last_inuse = inuse;
    }

    /// Whether a descendant is active.
    #[inline]
    pub const fn is_inner(&self) -> bool {
        self.children_active != 0
    }

    /// The share by `active` as it was last read.
    #[inline]
    pub const fn last_share(&self) -> u32 {
        self.shares.0
    }

    /// Both weights of an inner group, computed from its children.
    fn by_children(&self) -> (u32, u32) {
        match self.children_active {
            0 => (0, 0),
            whole => (self.configured, portion(self.configured, self.children_inuse, whole).max(1)),
        }
    }

    /// Whether they match these sums of the children's; for checks.
    pub fn agree_with_children(&self, sums: (u64, u64)) -> bool {
        sums == (self.children_active, self.children_inuse)
            && (!self.is_inner() || (self.active, self.inuse) == self.by_children())
    }
}

/// The group that is read for an invalid id.
const ABSENT_GROUP: &Group = &Group::ABSENT;

/// A separate function, because the kernel's stack is too small to hold a copy of a group in the
/// caller as well.
#[cold]
fn reset_scratch(scratch: &mut Group) -> &mut Group {
    *scratch = Group::ABSENT;
    scratch
}

/// The tree of groups.
#[derive(Debug)]
pub struct Groups {
    // Not an `Array`, which embeds two more groups: they would not fit on the stack of `build`.
    entries: Vec<Group>,
    /// The group that is written to for an invalid id.
    scratch: Group,
    generation: u32,
}

impl Groups {
    pub fn try_new(groups: u32) -> Result<Self, NoMemory> {
        let mut entries = Vec::new();
        entries.try_reserve_exact(groups as usize).map_err(|_| NoMemory)?;
        entries.resize(groups as usize, Group::ABSENT);
        Ok(Self { entries, scratch: Group::ABSENT, generation: 1 })
    }

    #[inline]
    pub fn at(&self, group: GroupId) -> &Group {
        self.entries.get(group.0 as usize).unwrap_or(ABSENT_GROUP)
    }

    #[inline]
    pub fn at_mut(&mut self, group: GroupId) -> &mut Group {
        match self.entries.get_mut(group.0 as usize) {
            Some(entry) => entry,
            None => reset_scratch(&mut self.scratch),
        }
    }

    #[inline]
    pub fn len(&self) -> u32 {
        u32::try_from(self.entries.len()).unwrap_or(u32::MAX)
    }

    /// All ids with their groups.
    pub fn iter(&self) -> impl Iterator<Item = (GroupId, &Group)> {
        (0..).map(GroupId).zip(self.entries.iter())
    }

    /// Whether an ancestor of this group is active itself.
    pub fn is_below_active(&self, group: GroupId) -> bool {
        let mut at = self.at(group).parent;
        for _ in 0..self.entries.len() {
            let Some(above) = at else { return false };
            if self.at(above).is_active {
                return true;
            }
            at = self.at(above).parent;
        }
        false
    }

    /// Sets both weights of a group, and updates its ancestors. `inuse` is clamped to `1..=active`.
    pub fn set_weights(&mut self, group: GroupId, active: u32, inuse: u32) {
        let weights = &mut self.at_mut(group).weights;
        weights.last_inuse = weights.inuse;
        let mut at = group;
        let mut now = (active, inuse.clamp(active.min(1), active));
        for _ in 0..self.entries.len() {
            let entry = self.at_mut(at);
            let weights = &mut entry.weights;
            let before = (weights.active, weights.inuse);
            if before == now {
                break;
            }
            (weights.active, weights.inuse) = now;
            let Some(parent) = entry.parent else { break };
            let above = &mut self.at_mut(parent).weights;
            above.children_active = above.children_active.wrapping_add(now.0.into()).wrapping_sub(before.0.into());
            above.children_inuse = above.children_inuse.wrapping_add(now.1.into()).wrapping_sub(before.1.into());
            now = above.by_children();
            at = parent;
        }
        self.generation = self.generation.wrapping_add(1);
    }

    /// Same as [`Groups::set_weights`]; also records how far the group is behind the device's
    /// clock.
    pub fn set_weights_at(&mut self, group: GroupId, active: u32, inuse: u32, vnow: Vtime) {
        self.set_weights(group, active, inuse);
        let entry = self.at_mut(group);
        entry.saved_margin = ahead(vnow, entry.vtime);
    }

    /// The configured weight of an inner group has changed.
    pub fn refresh_inner(&mut self, group: GroupId) {
        let weights = &self.at(group).weights;
        if weights.is_inner() {
            let (active, inuse) = weights.by_children();
            self.set_weights(group, active, inuse);
        }
    }

    /// A group's share of the device by its weights, and by the weights in use.
    #[inline]
    pub fn shares(&mut self, group: GroupId) -> (u32, u32) {
        let weights = &self.at(group).weights;
        if weights.generation == self.generation {
            return weights.shares;
        }
        self.recalculate(group)
    }

    fn recalculate(&mut self, group: GroupId) -> (u32, u32) {
        // 32 fractional bits in between, 16 in the result.
        let (mut by_active, mut by_inuse) = (1u64 << 32, 1u64 << 32);
        let mut at = group;
        for _ in 0..self.entries.len() {
            let entry = self.at(at);
            let Some(parent) = entry.parent else { break };
            let above = &self.at(parent).weights;
            if above.children_active != 0 {
                by_active = fraction(by_active, entry.weights.active, above.children_active);
                by_inuse = fraction(by_inuse, entry.weights.inuse, above.children_inuse);
            }
            at = parent;
        }
        let share = |fine: u64| u32::try_from(fine >> 16).unwrap_or(ONE).clamp(1, ONE);
        let generation = self.generation;
        let weights = &mut self.at_mut(group).weights;
        (weights.shares, weights.generation) = ((share(by_active), share(by_inuse)), generation);
        weights.shares
    }

    /// The share that a group would have if it used all of its weight while the others use what
    /// they use now.
    pub fn max_share(&self, group: GroupId) -> u32 {
        let mut share = 1u64 << 32;
        let mut inuse = self.at(group).weights.active;
        let mut at = group;
        for _ in 0..self.entries.len() {
            let entry = self.at(at);
            let Some(parent) = entry.parent else { break };
            let above = &self.at(parent).weights;
            let children = above.children_inuse.saturating_add(inuse.into()).saturating_sub(entry.weights.inuse.into());
            share = fraction(share, inuse, children);
            inuse = portion(above.active, children, above.children_active);
            at = parent;
        }
        u32::try_from(share >> 16).unwrap_or(ONE).clamp(1, ONE)
    }
}

/// `share * weight / sum`, at most `share`.
#[inline]
fn fraction(share: u64, weight: u32, sum: u64) -> u64 {
    let weight = u64::from(weight);
    share.saturating_mul(weight).checked_div(sum.max(weight)).unwrap_or(share)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Group 1 of weight 100 with children 3 and 4, group 2 of weight 300; all below the root.
    fn tree() -> Groups {
        let mut groups = Groups::try_new(5).unwrap();
        for (group, parent, weight) in
            [(0, None, 100), (1, Some(0), 100), (2, Some(0), 300), (3, Some(1), 50), (4, Some(1), 50)]
        {
            let entry = groups.at_mut(GroupId(group));
            (entry.exists, entry.parent, entry.weights) = (true, parent.map(GroupId), Weights::of(weight_of(weight)));
        }
        groups
    }

    fn activate(groups: &mut Groups, group: u32) {
        let weight = groups.at(GroupId(group)).weights.configured;
        groups.set_weights(GroupId(group), weight, weight);
    }

    #[test]
    fn shares_are_products_over_the_competing() {
        let mut groups = tree();
        activate(&mut groups, 3);
        assert_eq!(groups.shares(GroupId(3)), (ONE, ONE));
        activate(&mut groups, 2);
        assert_eq!(groups.shares(GroupId(3)).0, ONE / 4);
        activate(&mut groups, 4);
        assert_eq!([2, 3, 4].map(|group| groups.shares(GroupId(group)).0), [ONE * 3 / 4, ONE / 8, ONE / 8]);
        groups.set_weights(GroupId(2), 0, 0);
        assert_eq!(groups.shares(GroupId(3)), (ONE / 2, ONE / 2));
    }

    #[test]
    fn lent_weight_is_shared_by_all_others_in_proportion() {
        let mut groups = tree();
        for group in [2, 3, 4] {
            activate(&mut groups, group);
        }
        let weight = groups.at(GroupId(3)).weights.active;
        groups.set_weights(GroupId(3), weight, weight / 5);
        let [two, three, four] = [2, 3, 4].map(|group| groups.shares(GroupId(group)).1);
        assert!(two.abs_diff(six_times(four)) < 12, "still 6 : 1, {two} : {four}");
        assert!((two + three + four).abs_diff(ONE) < 4);
        assert_eq!(groups.max_share(GroupId(3)), ONE / 8, "all of its weight brings all of its share");
    }

    const fn six_times(share: u32) -> u32 {
        share * 6
    }

    #[test]
    fn thousands_of_the_heaviest_do_not_overflow() {
        let mut groups = Groups::try_new(5_001).unwrap();
        for group in (1..=5_000).map(GroupId) {
            let entry = groups.at_mut(group);
            (entry.parent, entry.weights) = (Some(GroupId::ROOT), Weights::of(weight_of(10_000)));
            groups.set_weights(group, weight_of(10_000), weight_of(5_000));
        }
        assert_eq!(groups.shares(GroupId(77)), (13, 13));
        assert_eq!(groups.at(GroupId::ROOT).weights.inuse, groups.at(GroupId::ROOT).weights.active / 2);
    }

    #[test]
    fn costs_are_charged_by_share_and_rounded_up() {
        assert_eq!((charged(1_000, ONE), charged(1_000, ONE / 2), charged(1, 3)), (1_000, 2_000, 21_846));
        assert_eq!(charged(u64::MAX, 1), MOST_CHARGED);
    }
}
