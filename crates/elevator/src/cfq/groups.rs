//! The records of groups, with the accounts of removed descendants.

use super::profile::Profile;
use super::state::{Group, UNKNOWN_GROUP};
use crate::account::GroupAccount;
use crate::group::{GroupSettings, WEIGHT_DEFAULT};
use crate::structures::{Array, NoMemory};
use hoistway_block::GroupId;

/// The table of groups.
///
/// Invariant: no counted request of a group is lost: it is in the group's account, or, once the group is removed, in
/// its parent's inheritance.
#[derive(Debug)]
pub struct Groups {
    records: Array<Group>,
    /// For each group, the sum of the accounts of its removed descendants, in forms where groups
    /// form a tree; otherwise empty.
    removed: Array<GroupAccount>,
}

impl Groups {
    #[inline(always)]
    pub fn try_new(count: u32, profile: &Profile) -> Result<Self, NoMemory> {
        let records = with_root(count, profile)?;
        Ok(Self { records, removed: no_accounts(if profile.has_hierarchy { count } else { 0 })? })
    }

    #[inline]
    pub fn len(&self) -> u32 {
        self.records.len()
    }

    #[inline]
    pub fn at(&self, group: u32) -> &Group {
        self.records.at(group)
    }

    #[inline]
    pub fn at_mut(&mut self, group: u32) -> &mut Group {
        self.records.at_mut(group)
    }

    #[inline]
    pub fn get(&self, group: u32) -> Option<&Group> {
        self.records.get(group)
    }

    #[inline]
    pub fn get_mut(&mut self, group: u32) -> Option<&mut Group> {
        self.records.get_mut(group)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Group> {
        self.records.iter()
    }

    /// What a group has inherited.
    pub fn inheritance(&self, group: u32) -> Option<&GroupAccount> {
        self.removed.get(group)
    }

    /// A group begins, or is reset: what it has inherited is forgotten.
    pub fn forget_inheritance(&mut self, group: u32) {
        if let Some(removed) = self.removed.get_mut(group) {
            *removed = GroupAccount::ZERO;
        }
    }

    /// A group is removed: its account passes to its parent. [`Groups::pass_inheritance`] follows; two steps, so that
    /// each needs little stack.
    #[inline(never)]
    pub fn pass_account(&mut self, group: u32) {
        let state = self.records.at(group);
        if let Some(inheritance) = self.removed.get_mut(state.parent) {
            inheritance.absorb(&state.account);
        }
    }

    /// A group is removed: what it had inherited passes to its parent.
    #[inline(never)]
    pub fn pass_inheritance(&mut self, group: u32) {
        let parent = self.records.at(group).parent;
        let Some(removed) = self.removed.get_mut(group) else { return };
        let inherited = core::mem::replace(removed, GroupAccount::ZERO);
        if let Some(inheritance) = self.removed.get_mut(parent) {
            inheritance.absorb(&inherited);
        }
    }
}

/// Accounts are large: they must not be on the caller's stack.
#[inline(never)]
fn no_accounts(count: u32) -> Result<Array<GroupAccount>, NoMemory> {
    Array::try_new(count, GroupAccount::ZERO)
}

#[inline(never)]
fn with_root(count: u32, profile: &Profile) -> Result<Array<Group>, NoMemory> {
    let mut groups = Array::try_new(count, UNKNOWN_GROUP)?;
    groups.at_mut(GroupId::ROOT.0).begin(profile, GroupId::ROOT, &GroupSettings::with_weight(WEIGHT_DEFAULT));
    Ok(groups)
}
