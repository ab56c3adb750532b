//! Trace messages: what a policy tells about itself, as fixed-size values that the host formats.

use crate::structures::{Array, NoMemory};
use block::Nanos;

/// One message. The text belongs to `code` and is made by the host, outside any lock.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Message {
    /// When.
    pub at_ns: Nanos,
    /// What happened, as text with `{a}`, `{b}`, `{c}` where the numbers go.
    pub text: &'static str,
    /// First number: mostly a group, context or slot.
    pub a: u32,
    /// Second number.
    pub b: u64,
    /// Third number.
    pub c: u64,
}

/// How many messages a policy keeps until they are taken.
pub const KEPT: u32 = 256;

/// A ring of the last [`KEPT`] messages; nothing is written while it is off.
#[derive(Debug)]
pub struct Messages {
    ring: Array<Option<Message>>,
    next: u32,
    untaken: u32,
    on: bool,
}

impl Messages {
    /// An empty ring, switched off. It lies on the heap: on the stack of a kernel it would not fit.
    ///
    /// # Errors
    /// When memory is short.
    pub fn try_new() -> Result<Self, NoMemory> {
        Ok(Self { ring: Array::try_new(KEPT, None)?, next: 0, untaken: 0, on: false })
    }

    /// Switches writing on or off.
    pub fn switch(&mut self, on: bool) {
        self.on = on;
    }

    /// Writes a message if switched on; the oldest untaken one is lost when the ring is full.
    #[inline]
    pub fn write(&mut self, message: Message) {
        if !self.on {
            return;
        }
        *self.ring.at_mut(self.next) = Some(message);
        self.next = (self.next + 1) % KEPT;
        self.untaken = (self.untaken + 1).min(KEPT);
    }

    /// The oldest message not taken yet.
    pub fn take(&mut self) -> Option<Message> {
        if self.untaken == 0 {
            return None;
        }
        let oldest = (self.next + KEPT - self.untaken) % KEPT;
        self.untaken -= 1;
        self.ring.at_mut(oldest).take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(a: u32) -> Message {
        Message { at_ns: 0, text: "test", a, b: 0, c: 0 }
    }

    #[test]
    fn the_newest_messages_survive_and_come_in_order() {
        let mut messages = Messages::try_new().unwrap();
        messages.write(numbered(0));
        assert_eq!(messages.take(), None, "off at the start");
        messages.switch(true);
        for a in 0..300 {
            messages.write(numbered(a));
        }
        let taken: [u32; 3] = core::array::from_fn(|_| messages.take().map_or(u32::MAX, |message| message.a));
        assert_eq!(taken, [44, 45, 46], "300 were written and 256 are kept");
    }
}
