//! Forced dispatch of all requests: group after group, queue after queue, without limits and
//! without idling.

use super::Cfq;
use super::expire::Rest;
use super::state::TREES_PER_GROUP;
use crate::request::Requests;
use crate::structures::NIL;

impl Cfq {
    /// The next request of a forced drain, as a slot.
    pub(super) fn drain_next(&mut self, requests: &Requests) -> Option<u32> {
        if self.active != NIL && (self.active != self.draining || self.queues.at(self.active).is_empty()) {
            self.expire(self.active, Rest::Forgotten);
        }
        if self.active == NIL {
            let queue = self.first_busy()?;
            self.set_active(queue);
            self.draining = queue;
        }
        let queue = self.active;
        let slot = self.queues.at(queue).next;
        if slot == NIL {
            self.count_violation();
            return None;
        }
        self.log_queue(queue, "dispatch_insert", &[]);
        self.move_to_device(requests, slot);
        self.drained = self.drained.wrapping_add(1);
        if self.queues.at(queue).is_empty() {
            self.draining = NIL;
            self.expire(queue, Rest::Forgotten);
        }
        if self.requests_queued == 0 {
            let drained = core::mem::replace(&mut self.drained, 0);
            self.log("forced_dispatch={0}", &[drained]);
        }
        Some(slot)
    }

    /// The first queue of the first group, best effort before real time, in the order of the
    /// kernel's trees.
    fn first_busy(&self) -> Option<u32> {
        let is_told = self.profile.is_below_a_layer();
        let group = if is_told { self.serving.group } else { self.group_tree.first()? };
        let first = group.wrapping_mul(TREES_PER_GROUP);
        (0..TREES_PER_GROUP).find_map(|kind| self.trees.at(first.wrapping_add(kind)).first())
    }
}
