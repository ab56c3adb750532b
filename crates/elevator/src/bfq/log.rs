//! BFQ's blktrace messages, in the kernel's wording. The host adds the names of process and group
//! in front.

use super::Bfq;
use hoistway_block::{ContextId, GroupId};

impl Bfq {
    /// A message about the device.
    #[inline]
    pub(super) fn log<const N: usize>(&mut self, text: &'static str, numbers: &[u64; N]) {
        if self.messages.is_on() {
            self.write_message(text, numbers);
        }
    }

    /// A message about a queue and its group.
    #[inline]
    pub(super) fn log_queue<const N: usize>(&mut self, queue: u32, text: &'static str, numbers: &[u64; N]) {
        if self.messages.is_on() {
            self.write_queue_message(queue, text, numbers);
        }
    }

    // The functions above are compiled for each number of arguments, because copies of known size
    // need no call, and they are used where much of the stack is in use already.

    #[cold]
    #[inline(never)]
    fn write_queue_message<const N: usize>(&mut self, queue: u32, text: &'static str, numbers: &[u64; N]) {
        let (state, group) = (self.queues.at(queue), GroupId(self.entities.at(queue).parent));
        let named = (ContextId(self.actuators.issuer_of(state.issuer)), state.is_sync());
        let Some(message) = self.messages.begin(self.clock.ns, text) else { return };
        (message.group, message.queue) = (Some(group), Some(named));
        for (place, number) in message.numbers.iter_mut().zip(numbers) {
            *place = *number;
        }
    }

    #[cold]
    #[inline(never)]
    fn write_message<const N: usize>(&mut self, text: &'static str, numbers: &[u64; N]) {
        let Some(message) = self.messages.begin(self.clock.ns, text) else { return };
        for (place, number) in message.numbers.iter_mut().zip(numbers) {
            *place = *number;
        }
    }
}
