//! Forced dispatch of all requests: group after group, queue after queue, without limits and
//! without idling.

use super::Cfq;
use super::expire::Rest;
use super::state::TREES_PER_GROUP;
use crate::request::Requests;
use crate::structures::NIL;

/// A forced dispatch.
#[derive(Debug)]
pub struct Drain {
    /// The queue that is emptied, or NIL.
    queue: u32,
    /// Requests drained since the queues were last empty.
    requests: u64,
}

impl Drain {
    pub const NONE: Drain = Drain { queue: NIL, requests: 0 };
}

impl Cfq {
    /// The next request of a forced drain, as a slot.
    pub(super) fn drain_next(&mut self, requests: &Requests) -> Option<u32> {
        if self.engine.active != NIL
            && (self.engine.active != self.drain.queue || self.queues.at(self.engine.active).is_empty())
        {
            self.expire(self.engine.active, Rest::Forgotten);
        }
        if self.engine.active == NIL {
            let queue = self.first_busy()?;
            self.set_active(queue);
            self.drain.queue = queue;
        }
        let queue = self.engine.active;
        let slot = self.queues.at(queue).pending.next();
        if slot == NIL {
            self.count_violation();
            return None;
        }
        self.log_queue(queue, "dispatch_insert", &[]);
        self.move_to_device(requests, slot);
        self.drain.requests = self.drain.requests.wrapping_add(1);
        if self.queues.at(queue).is_empty() {
            self.drain.queue = NIL;
            self.expire(queue, Rest::Forgotten);
        }
        if self.load.requests() == 0 {
            let drained = core::mem::replace(&mut self.drain.requests, 0);
            self.log("forced_dispatch={0}", &[drained]);
        }
        Some(slot)
    }

    /// The first queue of the first group, best effort before real time, in the order of the
    /// kernel's trees.
    fn first_busy(&self) -> Option<u32> {
        let is_told = self.profile.is_below_a_layer();
        let group = if is_told { self.serving.group } else { self.group_order.first()? };
        let first = group.wrapping_mul(TREES_PER_GROUP);
        (0..TREES_PER_GROUP).find_map(|kind| self.trees.first(first.wrapping_add(kind)))
    }
}
