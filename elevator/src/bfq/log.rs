//! The lines of blktrace: what BFQ tells about itself, in the kernel's words. A host puts names before them.

use super::Bfq;
use block::{ContextId, GroupId};

impl Bfq {
    /// About the device.
    #[inline]
    pub(super) fn say(&mut self, text: &'static str, numbers: &[u64]) {
        if self.messages.is_on() {
            self.write_message(text, numbers, None, None);
        }
    }

    /// About a queue and its group.
    #[inline]
    pub(super) fn say_queue(&mut self, queue: u32, text: &'static str, numbers: &[u64]) {
        if self.messages.is_on() {
            self.write_queue_message(queue, text, numbers);
        }
    }

    #[cold]
    #[inline(never)]
    fn write_queue_message(&mut self, queue: u32, text: &'static str, numbers: &[u64]) {
        let (state, group) = (self.queues.at(queue), GroupId(self.entities.at(queue).parent));
        let named = (ContextId(state.issuer), state.is_sync());
        self.write_message(text, numbers, Some(group), Some(named));
    }

    #[cold]
    #[inline(never)]
    fn write_message(
        &mut self,
        text: &'static str,
        numbers: &[u64],
        group: Option<GroupId>,
        queue: Option<(ContextId, bool)>,
    ) {
        let Some(message) = self.messages.begin(self.clock.ns, text) else { return };
        (message.group, message.queue) = (group, queue);
        for (place, number) in message.numbers.iter_mut().zip(numbers) {
            *place = *number;
        }
    }
}
