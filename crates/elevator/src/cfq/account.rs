//! The counters (account) of each group: resetting them, and adding those of a removed group to its
//! parent's.

use super::Cfq;
use crate::account::GroupAccount;

impl Cfq {
    /// Clears a group's account except for the number of its queued requests; waiting and idle
    /// periods in progress are counted from now on. Returns false if the group does not exist.
    pub(super) fn reset_account(&mut self, group: u32) -> bool {
        let now_ns = self.now_ns;
        if let Some(removed) = self.removed.get_mut(group) {
            *removed = GroupAccount::ZERO;
        }
        let Some(state) = self.groups.get_mut(group) else { return false };
        state.account.reset();
        for since in [&mut state.waits_since_ns, &mut state.empty_since_ns] {
            *since = since.map(|_| now_ns);
        }
        // The device is idled for the active queue's group.
        if self.queues.at(self.active).group == group {
            self.idle_since_ns = self.idle_since_ns.map(|_| now_ns);
        }
        true
    }

    /// A group is removed: its account, and what it had inherited from its descendants, passes to
    /// its parent. Done in two steps, so that each needs little stack.
    pub(super) fn fold_account_into_parent(&mut self, group: u32) {
        let parent = self.groups.at(group).parent;
        self.fold_own_account(group, parent);
        self.fold_inherited_account(group, parent);
    }

    #[inline(never)]
    fn fold_own_account(&mut self, group: u32, parent: u32) {
        if let Some(parent_account) = self.removed.get_mut(parent) {
            parent_account.absorb(&self.groups.at(group).account);
        }
    }

    #[inline(never)]
    fn fold_inherited_account(&mut self, group: u32, parent: u32) {
        let Some(removed) = self.removed.get_mut(group) else { return };
        let inherited = core::mem::replace(removed, GroupAccount::ZERO);
        if let Some(parent_account) = self.removed.get_mut(parent) {
            parent_account.absorb(&inherited);
        }
    }
}
