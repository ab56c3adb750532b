//! CFQ's blktrace messages, in the kernel's wording. The host adds the names of process and group
//! in front.

use super::Cfq;
use super::state::WorkloadType;
use crate::message::Message;
use hoistway_block::{ContextId, GroupId};

impl Cfq {
    /// A message about the device.
    #[inline]
    pub(super) fn log(&mut self, text: &'static str, numbers: &[u64]) {
        if self.messages.is_on() {
            self.write_plain_message(text, numbers, None);
        }
    }

    /// A message about a group.
    #[inline]
    pub(super) fn log_group(&mut self, group: u32, text: &'static str, numbers: &[u64]) {
        if self.messages.is_on() {
            self.write_plain_message(text, numbers, Some(GroupId(group)));
        }
    }

    /// A message about a queue and its group.
    #[inline]
    pub(super) fn log_queue(&mut self, queue: u32, text: &'static str, numbers: &[u64]) {
        if self.messages.is_on() {
            self.write_queue_message(queue, text, numbers);
        }
    }

    #[cold]
    #[inline(never)]
    fn write_plain_message(&mut self, text: &'static str, numbers: &[u64], group: Option<GroupId>) {
        let _ = self.write_message(text, numbers, group, None);
    }

    #[cold]
    #[inline(never)]
    fn write_queue_message(&mut self, queue: u32, text: &'static str, numbers: &[u64]) {
        let state = self.queues.at(queue);
        let group = self.profile.has_groups().then_some(GroupId(state.group));
        let named = (ContextId(state.issuer), state.is_sync());
        let is_no_idle = state.workload_type() == WorkloadType::SyncNoIdle;
        let has_mark = self.profile.has_late_rules;
        if let Some(message) = self.write_message(text, numbers, group, Some(named)) {
            message.is_no_idle = has_mark.then_some(is_no_idle);
        }
    }

    /// Inlined into its callers, because the deepest call paths end here.
    #[inline(always)]
    fn write_message(
        &mut self,
        text: &'static str,
        numbers: &[u64],
        group: Option<GroupId>,
        queue: Option<(ContextId, bool)>,
    ) -> Option<&mut Message> {
        let message = self.messages.begin(self.clock.now_ns(), text)?;
        (message.group, message.queue) = (group, queue);
        for (place, number) in message.numbers.iter_mut().zip(numbers) {
            *place = *number;
        }
        Some(message)
    }
}
