//! A waiting bio is taken back: it leaves its queue, and the timers follow the bio that is first
//! then.
//!
//! It was charged on the levels that it has passed, and stays charged there: the slices of then may
//! be gone. On the level at which it waits nothing was charged.

use super::Throttle;
use super::group::{Node, Pair};
use super::slice::Ticks;
use hoistway_block::GroupId;

impl Throttle {
    /// Takes a waiting bio out of its queue. False if it does not wait.
    pub(super) fn take_out(&mut self, bio: u32, now: Ticks) -> bool {
        if self.nodes.is_free(bio) {
            return false;
        }
        let waits_in = match self.nodes.at(bio).node {
            Node::Own(group) => Some(group),
            Node::ToParent(group) => self.above(group),
        };
        // Nothing waits at the top between two calls.
        let Some(group) = waits_in else { return false };
        if !self.nodes.remove(&mut self.groups.at_mut(group.0).service, bio) {
            return false;
        }
        self.nodes.at_mut(bio).is_held = false;
        self.held = self.held.wrapping_sub(1);
        self.look_again(group, now);
        true
    }

    fn look_again(&mut self, group: GroupId, now: Ticks) {
        let above = self.queue_above(group);
        if self.groups.at(group.0).service.queued == Pair::default() {
            self.groups.at_mut(group.0).was_empty = false;
            self.no_longer_pending(group);
            if self.pending.at(above).first().is_none() {
                self.disarm(above);
                return;
            }
        } else {
            self.update_dispatch_time(group, now);
        }
        self.arm_for_first(above, true, now);
    }
}
