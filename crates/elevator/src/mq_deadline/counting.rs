//! Counters of requests for each class: inserted, merged, dispatched and completed.

use super::MqDeadline;
use super::state::{Held, Slot};
use crate::request::Attributes;
use hoistway_block::{Class, RequestId};

impl MqDeadline {
    /// Counts a request once, however often it is inserted. Returns the state to keep of it.
    #[inline]
    pub(super) fn count(&mut self, id: RequestId, attributes: &Attributes) -> Slot {
        if self.slots.at(id.slot()).held() != Held::Free {
            return self.count_again(id, attributes);
        }
        self.count_first(id, attributes)
    }

    #[inline]
    fn count_first(&mut self, id: RequestId, attributes: &Attributes) -> Slot {
        let queue = (attributes.class(), attributes.direction());
        let level = self.level_mut(queue.0);
        level.inserted = level.inserted.wrapping_add(1);
        Slot::new(0, id, queue, Held::Sent)
    }

    #[cold]
    fn count_again(&mut self, id: RequestId, attributes: &Attributes) -> Slot {
        let before = *self.slots.at(id.slot());
        let level = self.level_mut(before.class());
        if before.is_of(id) {
            // Given back by the driver: it will be dispatched a second time, but is still one
            // request.
            level.dispatched = level.dispatched.wrapping_sub(1);
            return before;
        }
        // The host dropped a request without reporting it.
        level.completed = level.completed.wrapping_add(1);
        self.count_violation();
        self.count_first(id, attributes)
    }

    #[inline]
    pub(super) fn count_dispatched(&mut self, class: Class) {
        let level = self.level_mut(class);
        level.dispatched = level.dispatched.wrapping_add(1);
    }
}
