//! Trace messages of a policy, as fixed-size values that the host formats.

use crate::structures::NoMemory;
use alloc::vec::Vec;
use core::fmt;
use hoistway_block::{ContextId, GroupId, Nanos};

/// How many numbers a message can carry.
pub const NUMBERS: usize = 8;

/// One message: its subject, and a text in which `{0}` to `{7}` stand for its numbers (`{0i}`:
/// signed).
///
/// The policy writes it under the queue's lock, and the host formats it outside the lock.
/// [`fmt::Display`] gives the text without the prefix that names group and context, because only
/// the host knows their names.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Message {
    /// When it was written.
    pub at_ns: Nanos,
    /// The text.
    pub text: &'static str,
    /// The group it is about; `None` = the whole device.
    pub group: Option<GroupId>,
    /// The issuer's queue it is about, and whether that is the sync one; `None` = no particular
    /// queue.
    pub queue: Option<(ContextId, bool)>,
    /// Whether the policy does not idle for that queue; `None` if its messages have no column for
    /// this. Only those of CFQ of 4.20 have one.
    pub is_no_idle: Option<bool>,
    /// The numbers that the text refers to; the rest is 0.
    pub numbers: [u64; NUMBERS],
}

impl Message {
    /// A message about the whole device. Surplus numbers are dropped.
    #[inline]
    pub fn new<const N: usize>(at_ns: Nanos, text: &'static str, given: [u64; N]) -> Self {
        let mut numbers = [0; NUMBERS];
        for (place, number) in numbers.iter_mut().zip(given) {
            *place = number;
        }
        Self { at_ns, text, group: None, queue: None, is_no_idle: None, numbers }
    }

    /// The same message, about a group.
    #[inline]
    #[must_use]
    pub const fn of_group(self, group: GroupId) -> Self {
        Self { group: Some(group), ..self }
    }

    /// The same message, about an issuer's queue.
    #[inline]
    #[must_use]
    pub const fn of_queue(self, context: ContextId, is_sync: bool) -> Self {
        Self { queue: Some((context, is_sync)), ..self }
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.text;
        while let Some((before, behind)) = rest.split_once('{') {
            f.write_str(before)?;
            let (place, after) = behind.split_once('}').unwrap_or((behind, ""));
            let (index, is_signed) = place.strip_suffix('i').map_or((place, false), |index| (index, true));
            let number = index.parse().ok().and_then(|index: usize| self.numbers.get(index));
            match number {
                Some(number) if is_signed => write!(f, "{}", number.cast_signed())?,
                Some(number) => write!(f, "{number}")?,
                None => write!(f, "{{{place}}}")?,
            }
            rest = after;
        }
        f.write_str(rest)
    }
}

/// How many messages a policy keeps until they are taken.
pub const KEPT: u32 = 256;

const UNWRITTEN: Message =
    Message { at_ns: 0, text: "", group: None, queue: None, is_no_idle: None, numbers: [0; NUMBERS] };

/// A ring of the last [`KEPT`] messages; nothing is written while it is off.
#[derive(Debug)]
pub struct Messages {
    ring: Vec<Message>,
    next: u32,
    untaken: u32,
    on: bool,
}

impl Messages {
    /// An empty ring, switched off. It lies on the heap, because it would not fit on a kernel
    /// stack.
    ///
    /// # Errors
    /// When memory is short.
    pub fn try_new() -> Result<Self, NoMemory> {
        let mut ring = Vec::new();
        ring.try_reserve_exact(KEPT as usize).map_err(|_| NoMemory)?;
        ring.resize(KEPT as usize, UNWRITTEN);
        Ok(Self { ring, next: 0, untaken: 0, on: false })
    }

    /// Switches writing on or off.
    pub fn switch(&mut self, on: bool) {
        self.on = on;
    }

    /// Whether messages are recorded. Checking this first saves building a message that would be
    /// dropped.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.on
    }

    /// Writes a message if switched on; the oldest one is lost when the ring is full.
    #[inline]
    pub fn write(&mut self, message: Message) {
        if let Some(place) = self.begin(message.at_ns, message.text) {
            *place = message;
        }
    }

    /// Begins a message in its place in the ring, which avoids a copy. It has no group, no queue
    /// and zero numbers until the caller sets them. `None` while switched off.
    #[inline]
    pub fn begin(&mut self, at_ns: Nanos, text: &'static str) -> Option<&mut Message> {
        if !self.on {
            return None;
        }
        let message = self.ring.get_mut(self.next as usize)?;
        self.next = (self.next + 1) % KEPT;
        self.untaken = (self.untaken + 1).min(KEPT);
        (message.at_ns, message.text, message.group, message.queue) = (at_ns, text, None, None);
        (message.is_no_idle, message.numbers) = (None, [0; NUMBERS]);
        Some(message)
    }

    /// Takes the oldest message.
    pub fn take(&mut self) -> Option<Message> {
        if self.untaken == 0 {
            return None;
        }
        let oldest = (self.next + KEPT - self.untaken) % KEPT;
        self.untaken -= 1;
        self.ring.get(oldest as usize).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use alloc::string::ToString;

    fn numbered(number: u64) -> Message {
        Message::new(0, "test", [number])
    }

    #[test]
    fn a_text_names_its_numbers_by_place_and_sign() {
        let message = Message::new(0, "bdisp={1} io={0i} {2}", [u64::MAX, 7, 3]);
        assert_eq!(message.to_string(), "bdisp=7 io=-1 3");
        assert_eq!(Message::new(0, "{9} {x", [1]).to_string(), "{9} {x}");
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
        let taken: [u64; 3] = core::array::from_fn(|_| messages.take().map_or(u64::MAX, |message| message.numbers[0]));
        assert_eq!(taken, [44, 45, 46], "300 were written and 256 are kept");
    }
}
