//! The lines of blktrace: what CFQ tells about itself, in the kernel's words. A host puts names before them.

use super::Cfq;
use crate::message::Message;
use block::{ContextId, GroupId};

impl Cfq {
    /// About the device.
    #[inline]
    pub(super) fn say(&mut self, text: &'static str, numbers: &[u64]) {
        if self.messages.is_on() {
            self.write_message(text, numbers, None, None);
        }
    }

    /// About a group.
    #[inline]
    pub(super) fn say_group(&mut self, group: u32, text: &'static str, numbers: &[u64]) {
        if self.messages.is_on() {
            self.write_message(text, numbers, Some(GroupId(group)), None);
        }
    }

    /// About a queue and its group.
    #[inline]
    pub(super) fn say_queue(&mut self, queue: u32, text: &'static str, numbers: &[u64]) {
        if self.messages.is_on() {
            let state = self.queues.at(queue);
            let group = self.profile.has_groups().then_some(GroupId(state.group));
            let named = (ContextId(state.issuer), state.is_sync());
            self.write_message(text, numbers, group, Some(named));
        }
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
        let mut message = Message::new(self.now_ns, text, []);
        for (place, number) in message.numbers.iter_mut().zip(numbers) {
            *place = *number;
        }
        message.group = group;
        message.queue = queue;
        self.messages.write(message);
    }
}
