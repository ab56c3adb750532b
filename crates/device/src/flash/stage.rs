//! A stage that commands pass in order: serial resources and fixed delays, whose times only rise.
//!
//! * Guarantee: first in, first out, each with its time; the time of the first is always known.
//! * Cost: a store or a load and a few additions; memory grows to the peak number of commands and
//!   is kept.
//!
//! Where times may fall, [`Calendar`](crate::calendar::Calendar) and
//! [`Pending`](crate::pending::Pending) sort them.

use hoistway_block::Nanos;

use crate::interface::NEVER;

/// The commands in a stage.
#[derive(Clone, Debug)]
pub(super) struct Stage {
    /// A power of two of places, more than are used; the place after the last used one contains
    /// NEVER.
    ring: Vec<(Nanos, u32)>,
    /// Number of the first command, counted from the start; [`Stage::place`] maps it into the ring.
    first: usize,
    end: usize,
}

impl Stage {
    pub(super) fn with_capacity(capacity: usize) -> Self {
        Self { ring: vec![(NEVER, 0); (capacity + 1).next_power_of_two()], first: 0, end: 0 }
    }

    #[inline]
    fn place(&self, number: usize) -> usize {
        number & (self.ring.len() - 1)
    }

    /// Appends a command, at a time not before those of the others.
    #[inline]
    pub(super) fn push(&mut self, at: Nanos, command: u32) {
        debug_assert!(self.is_empty() || self.ring[self.place(self.end.wrapping_sub(1))].0 <= at, "times only rise");
        let (place, behind) = (self.place(self.end), self.place(self.end.wrapping_add(1)));
        self.ring[place] = (at, command);
        self.ring[behind].0 = NEVER;
        self.end = self.end.wrapping_add(1);
        if self.len() + 1 == self.ring.len() {
            self.grow();
        }
    }

    #[cold]
    fn grow(&mut self) {
        let (first, len) = (self.place(self.first), self.len());
        self.ring.rotate_left(first);
        (self.first, self.end) = (0, len);
        self.ring.resize(2 * self.ring.len(), (NEVER, 0));
    }

    /// Time of the first command, [`NEVER`] if there is none.
    #[inline]
    pub(super) fn next(&self) -> Nanos {
        self.ring[self.place(self.first)].0
    }

    /// Removes the first command.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<u32> {
        if self.is_empty() {
            return None;
        }
        let (_, command) = self.ring[self.place(self.first)];
        self.first = self.first.wrapping_add(1);
        Some(command)
    }

    /// The commands in order.
    #[inline]
    pub(super) fn commands(&self) -> impl Iterator<Item = u32> {
        (0..self.len()).map(|number| self.ring[self.place(self.first.wrapping_add(number))].1)
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.end.wrapping_sub(self.first)
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.first == self.end
    }

    pub(super) fn clear(&mut self) {
        self.first = self.end;
        let place = self.place(self.first);
        self.ring[place].0 = NEVER;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_come_out_in_order_while_the_ring_wraps_and_grows() {
        let mut stage = Stage::with_capacity(2);
        let (mut pushed, mut popped) = (0_u32, 0_u32);
        assert_eq!((stage.next(), stage.pop()), (NEVER, None));
        for round in 0..40_u32 {
            for _ in 0..(round * 7 % 11) {
                stage.push(u64::from(pushed) * 10, pushed);
                pushed += 1;
            }
            assert!(stage.commands().eq(popped..pushed));
            for _ in 0..(round * 5 % 9).min(pushed - popped) {
                assert_eq!(stage.next(), u64::from(popped) * 10);
                assert_eq!(stage.pop(), Some(popped));
                popped += 1;
            }
            assert_eq!(stage.len(), (pushed - popped) as usize);
        }
        stage.clear();
        assert_eq!((stage.next(), stage.len(), stage.pop()), (NEVER, 0, None));
        stage.push(5, 1);
        assert_eq!((stage.next(), stage.pop(), stage.next()), (5, Some(1), NEVER));
    }
}
