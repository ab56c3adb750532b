//! BFQ's blktrace messages, in the kernel's wording. The host adds the names of process and group
//! in front.

use super::Bfq;
use crate::message::{Message, Messages};
use crate::structures::NoMemory;
use hoistway_block::{ContextId, GroupId};

/// What BFQ tells about itself: messages while they are on, and violations of its rules.
#[derive(Debug)]
pub struct Report {
    messages: Messages,
    violations: u32,
    /// Whether the last turn was slow, for the message about its end.
    was_slow: bool,
}

impl Report {
    #[inline(always)]
    pub fn try_new() -> Result<Self, NoMemory> {
        Ok(Self { messages: Messages::try_new()?, violations: 0, was_slow: false })
    }

    /// Whether messages are on.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.messages.is_on()
    }

    /// Switches messages on or off.
    pub fn switch(&mut self, on: bool) {
        self.messages.switch(on);
    }

    /// Takes the oldest message.
    pub fn take(&mut self) -> Option<Message> {
        self.messages.take()
    }

    /// A turn ends, which was slow or not.
    #[inline]
    pub fn note_turn(&mut self, was_slow: bool) {
        self.was_slow = was_slow;
    }

    #[inline]
    pub fn was_slow(&self) -> bool {
        self.was_slow
    }

    #[cold]
    #[inline(never)]
    pub fn count_violation(&mut self) {
        self.violations = self.violations.saturating_add(1);
    }

    pub fn violations(&self) -> u32 {
        self.violations
    }
}

impl Bfq {
    /// Counts a violation unless what must be true is.
    #[inline(always)]
    pub(super) fn expect(&mut self, holds: bool) {
        if !holds {
            self.report.count_violation();
        }
    }

    /// A message about the device.
    #[inline]
    pub(super) fn log<const N: usize>(&mut self, text: &'static str, numbers: &[u64; N]) {
        if self.report.is_on() {
            self.write_message(text, numbers);
        }
    }

    /// A message about a queue and its group.
    #[inline]
    pub(super) fn log_queue<const N: usize>(&mut self, queue: u32, text: &'static str, numbers: &[u64; N]) {
        if self.report.is_on() {
            self.write_queue_message(queue, text, numbers);
        }
    }

    // The functions above are compiled for each number of arguments, because copies of known size
    // need no call, and they are used where much of the stack is in use already.

    #[cold]
    #[inline(never)]
    fn write_queue_message<const N: usize>(&mut self, queue: u32, text: &'static str, numbers: &[u64; N]) {
        let (state, group) = (self.queues.at(queue), GroupId(self.schedule.entity(queue).parent));
        let named = (ContextId(self.actuators.issuer_of(state.users.issuer())), state.is_sync());
        let Some(message) = self.report.messages.begin(self.clock.ns, text) else { return };
        (message.group, message.queue) = (Some(group), Some(named));
        for (place, number) in message.numbers.iter_mut().zip(numbers) {
            *place = *number;
        }
    }

    #[cold]
    #[inline(never)]
    fn write_message<const N: usize>(&mut self, text: &'static str, numbers: &[u64; N]) {
        let Some(message) = self.report.messages.begin(self.clock.ns, text) else { return };
        for (place, number) in message.numbers.iter_mut().zip(numbers) {
            *place = *number;
        }
    }
}
