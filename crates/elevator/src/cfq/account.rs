//! The counters (account) of each group: resetting them, and adding those of a removed group to its
//! parent's.

use super::Cfq;

impl Cfq {
    /// Clears a group's account except for the number of its queued requests; waiting and idle
    /// periods in progress are counted from now on. Returns false if the group does not exist.
    pub(super) fn reset_account(&mut self, group: u32) -> bool {
        let now_ns = self.clock.now_ns();
        self.groups.forget_inheritance(group);
        let Some(state) = self.groups.get_mut(group) else { return false };
        state.account.reset();
        for since in [&mut state.waits_since_ns, &mut state.empty_since_ns] {
            *since = since.map(|_| now_ns);
        }
        // The device is idled for the active queue's group.
        if self.queues.at(self.engine.active).group == group {
            self.engine.idle_since_ns = self.engine.idle_since_ns.map(|_| now_ns);
        }
        true
    }

    /// A group is removed: its account, and what it had inherited from its descendants, passes to
    /// its parent. Done in two steps, so that each needs little stack.
    pub(super) fn fold_account_into_parent(&mut self, group: u32) {
        self.groups.pass_account(group);
        self.groups.pass_inheritance(group);
    }
}
