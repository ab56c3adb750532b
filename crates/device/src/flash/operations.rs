//! The operations of dies and channels in progress, by the time at which they end.
//!
//! * Guarantee: events come out by time, equal times in order of insertion.
//! * Cost: reads end nearly in the order in which they begin, so most are inserted close to the end
//!   of a sorted ring. The others (reads behind others or behind programs, programs, garbage
//!   collection) go on the calendar, whose cost depends neither on their number nor on their order.

use hoistway_block::Nanos;

use super::read::SensedPage;
use crate::calendar::Calendar;
use crate::interface::NEVER;
use crate::pending::Pending;

/// Capacity of the ring, and the largest number of entries that a new one may pass in it.
const NEAR: usize = 128;
const PASSED: usize = 6;

/// The end of an operation, which may come before that of others that began earlier: a page sensed,
/// a victim's page transferred, a program completed.
///
/// Two words instead of an enum: they are built in registers and stored in one piece, whereas an
/// enum's fields would be stored one by one and loaded together, which stalls on store forwarding.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Event {
    /// [`Event::COLLECTED`], [`Event::PROGRAMMED`], or a sensed page as a word, which is always
    /// larger than these codes.
    pub(super) what: u64,
    /// Number of the collector's page, or of the program.
    pub(super) number: u32,
    /// Its number in the order of insertion.
    order: u32,
}

impl Event {
    pub(super) const COLLECTED: u64 = 1;
    pub(super) const PROGRAMMED: u64 = 2;

    #[inline]
    pub(super) fn sensed(page: SensedPage) -> Self {
        Self { what: page.word(), number: page.number(), order: 0 }
    }

    #[inline]
    pub(super) fn collected(page: u32) -> Self {
        Self { what: Self::COLLECTED, number: page, order: 0 }
    }

    #[inline]
    pub(super) fn programmed(program: u32) -> Self {
        Self { what: Self::PROGRAMMED, number: program, order: 0 }
    }

    /// The command that waits for it, if there is one.
    pub(super) fn command(self) -> Option<u32> {
        self.is_host_page().then(|| SensedPage::from_word(self.what, self.number).owner())
    }

    /// Whether a command waits for it.
    #[inline]
    pub(super) fn is_host_page(self) -> bool {
        self.what > Self::PROGRAMMED && SensedPage::from_word(self.what, self.number).is_host()
    }
}

/// The operations in progress.
#[derive(Clone, Debug)]
pub(super) struct Operations {
    near: Pending<Event>,
    far: Calendar<Event>,
    inserted: u32,
}

impl Operations {
    pub(super) fn new() -> Self {
        Self { near: Pending::with_capacity(NEAR), far: Calendar::with_capacity(1_024), inserted: 0 }
    }

    /// Time of the first end, [`NEVER`] if there is none.
    #[inline]
    pub(super) fn next(&mut self) -> Nanos {
        self.near.next().min(self.far.next_time())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.near.next() == NEVER && self.far.is_empty()
    }

    /// Adds an operation that ends at `at`.
    #[inline]
    pub(super) fn insert(&mut self, at: Nanos, event: Event) {
        let event = Event { order: self.inserted, ..event };
        self.inserted = self.inserted.wrapping_add(1);
        if event.is_host_page() && self.near.len() < NEAR && self.near.is_near_end(at, PASSED) {
            self.near.insert(at, event);
        } else {
            self.far.insert(at, event);
        }
    }

    /// Removes the first end.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<Event> {
        let (near, far) = (self.near.next(), self.far.next_time());
        if near < far || (near == far && self.is_near_older()) {
            self.near.pop().map(|(_, event)| event)
        } else {
            self.far.pop().map(|(_, event)| event)
        }
    }

    /// Whether the ring's first was inserted before the calendar's first, for equal times.
    #[cold]
    fn is_near_older(&mut self) -> bool {
        match (self.near.front(), self.far.first()) {
            // The difference keeps its sign although numbers wrap after 4 G insertions.
            (Some((_, near)), Some(far)) => near.order.wrapping_sub(far.order).cast_signed() < 0,
            (near, _) => near.is_some(),
        }
    }

    /// Drops the operations for which `keep` is false.
    pub(super) fn retain(&mut self, now: Nanos, keep: impl Fn(&Event) -> bool) {
        let near: Vec<_> = std::iter::from_fn(|| self.near.pop()).filter(|(_, event)| keep(event)).collect();
        for (at, event) in near {
            self.near.insert(at, event);
        }
        self.far.retain(now, keep);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoistway_block::random::Stream;

    /// Reads and programs of all lengths, more than the ring's capacity, many ties: the order
    /// equals that of a sorted list.
    #[test]
    fn ends_come_out_by_time_and_then_in_the_order_of_their_insertion() {
        let mut operations = Operations::new();
        let mut reference = std::collections::BinaryHeap::new();
        let mut stream = Stream::new(7);
        let (mut now, mut number) = (0, 0);
        operations.inserted = u32::MAX - 1_000;
        for _ in 0..200_000 {
            if reference.len() < 150 && (reference.is_empty() || stream.chance(1, 2)) {
                let is_program = stream.chance(1, 4);
                let at = now + if is_program { 8 * stream.below(100) } else { stream.below(40) };
                let event = match is_program {
                    true => Event::programmed(number),
                    false => Event { what: 1 << 56, number, order: 0 },
                };
                operations.insert(at, event);
                reference.push(std::cmp::Reverse((at, number)));
                number += 1;
            } else {
                let std::cmp::Reverse((at, number)) = reference.pop().unwrap();
                assert_eq!(operations.next(), at);
                assert_eq!(operations.pop().map(|event| event.number), Some(number));
                now = at;
            }
        }
        while operations.pop().is_some() {}
        assert!(operations.is_empty());
    }

    #[test]
    fn what_is_retained_keeps_its_order() {
        let mut operations = Operations::new();
        for (at, event) in [
            (50, Event::programmed(1)),
            (50, Event::collected(2)),
            (40, Event::collected(3)),
            (50, Event::programmed(4)),
        ] {
            operations.insert(at, event);
        }
        operations.retain(10, |event| event.number != 3);
        let order: Vec<_> = std::iter::from_fn(|| operations.pop()).map(|event| event.number).collect();
        assert_eq!(order, [1, 2, 4]);
    }
}
