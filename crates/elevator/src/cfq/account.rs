//! The accounts of groups as a whole: begun anew, and left behind by those that go.

use super::Cfq;
use crate::account::GroupAccount;

impl Cfq {
    /// Everything but what is queued is zero, and the periods under way begin now. False without such a group.
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
        // The device is kept idle for the active queue's group.
        if self.queues.at(self.active).group == group {
            self.idle_since_ns = self.idle_since_ns.map(|_| now_ns);
        }
        true
    }

    /// A group goes: what it had, and what groups below it had had, is its parent's to show. In two steps, each with little
    /// on the stack.
    pub(super) fn bequeath_account(&mut self, group: u32) {
        let parent = self.groups.at(group).parent;
        self.bequeath_own(group, parent);
        self.bequeath_inherited(group, parent);
    }

    #[inline(never)]
    fn bequeath_own(&mut self, group: u32, parent: u32) {
        if let Some(heir) = self.removed.get_mut(parent) {
            heir.absorb(&self.groups.at(group).account);
        }
    }

    #[inline(never)]
    fn bequeath_inherited(&mut self, group: u32, parent: u32) {
        let Some(removed) = self.removed.get_mut(group) else { return };
        let inherited = core::mem::replace(removed, GroupAccount::ZERO);
        if let Some(heir) = self.removed.get_mut(parent) {
            heir.absorb(&inherited);
        }
    }
}
