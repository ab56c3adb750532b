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

    /// A group goes: what it had, and what groups below it had had, is its parent's to show.
    pub(super) fn bequeath_account(&mut self, group: u32) {
        let Some(inherited) = self.removed.get(group).copied() else { return };
        let (parent, own) = (self.groups.at(group).parent, self.groups.at(group).account);
        *self.removed.at_mut(group) = GroupAccount::ZERO;
        if let Some(heir) = self.removed.get_mut(parent) {
            heir.absorb(&own);
            heir.absorb(&inherited);
        }
    }
}
