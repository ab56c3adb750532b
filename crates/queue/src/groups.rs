//! Groups and issuers that appear, change and disappear. The policy is told first, then the
//! limiters in order.

use crate::RequestQueue;
use hoistway_block::{ContextId, GroupId, Nanos};
use hoistway_elevator::{Elevator, GroupSettings, GroupTree, Limiter};

impl<E: Elevator> RequestQueue<E> {
    /// Adds a group. False if the id is taken or out of range, or its parent is not online.
    pub fn add_group(&mut self, group: GroupId, settings: &GroupSettings, now: Nanos) -> bool {
        let added = self.groups.add(group, settings);
        if added {
            let settings = *self.groups.settings(group);
            self.elevator.group_added(group, &settings, now);
            self.limiters.forget_group(group);
            for limiter in self.limiters.iter_mut() {
                limiter.group_added(group, &settings, now);
            }
        }
        added
    }

    /// Changes a group's weights, latency target and priority; its parent stays. False unless it is
    /// online.
    pub fn change_group(&mut self, group: GroupId, settings: &GroupSettings, now: Nanos) -> bool {
        let changed = self.groups.change(group, settings);
        if changed {
            let settings = *self.groups.settings(group);
            let wake = self.elevator.group_changed(group, &settings, now);
            self.note(wake);
            for limiter in self.limiters.iter_mut() {
                limiter.group_changed(group, &settings, now);
            }
            self.release_held(now);
        }
        changed
    }

    /// Takes a group offline: its queued requests drain, its later bios are accounted to its
    /// nearest online ancestor, and its id becomes [`hoistway_elevator::GroupState::Absent`] when its last
    /// request is freed. False for the root, for parents, and for a group that is not online.
    pub fn remove_group(&mut self, group: GroupId, now: Nanos) -> bool {
        if !self.groups.set_offline(group) {
            return false;
        }
        self.elevator.group_offline(group, now);
        for limiter in self.limiters.iter_mut() {
            limiter.group_offline(group, now);
        }
        self.release_held(now);
        self.forget_group_if_unused(group, now);
        true
    }

    /// The tree of groups.
    pub fn groups(&self) -> &GroupTree {
        &self.groups
    }

    /// An issuer has exited. Its id may be reused when none of its bios is in flight.
    pub fn context_exited(&mut self, context: ContextId, now: Nanos) {
        let wake = self.elevator.context_exited(context, now);
        self.note(wake);
    }

    pub(crate) fn forget_group_if_unused(&mut self, group: GroupId, now: Nanos) {
        if self.groups.remove_if_unused(group) {
            self.elevator.group_removed(group, now);
            for limiter in self.limiters.iter_mut() {
                limiter.group_removed(group, now);
            }
        }
    }
}
