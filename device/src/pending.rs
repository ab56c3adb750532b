//! Events ahead, in order of time: the small event set inside a device.

use std::collections::VecDeque;

use block::Nanos;

use crate::interface::NEVER;

/// A queue of values sorted by time, equal times in order of insertion.
///
/// An array kept sorted from its back: a device's new events lie close to the latest (a serial resource hands out
/// rising times), so an insertion moves a handful of entries, where a heap would walk its whole height twice.
#[derive(Clone, Debug)]
pub(crate) struct Pending<T> {
    entries: VecDeque<(Nanos, T)>,
}

impl<T> Pending<T> {
    /// An empty queue that does not allocate up to `capacity` entries.
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        Self { entries: VecDeque::with_capacity(capacity) }
    }

    #[inline]
    pub(crate) fn insert(&mut self, at: Nanos, value: T) {
        let mut place = self.entries.len();
        while place > 0 && self.entries[place - 1].0 > at {
            place -= 1;
        }
        if place == self.entries.len() {
            self.entries.push_back((at, value));
        } else {
            self.entries.insert(place, (at, value));
        }
    }

    #[inline]
    pub(crate) fn front(&self) -> Option<&(Nanos, T)> {
        self.entries.front()
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<(Nanos, T)> {
        self.entries.pop_front()
    }

    /// The first entry, if its time has come.
    #[inline]
    pub(crate) fn pop_due(&mut self, now: Nanos) -> Option<(Nanos, T)> {
        if self.next() <= now { self.entries.pop_front() } else { None }
    }

    /// Time of the first entry, [`NEVER`] if there is none.
    #[inline]
    pub(crate) fn next(&self) -> Nanos {
        self.entries.front().map_or(NEVER, |entry| entry.0)
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.entries.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_out_by_time_and_equal_times_in_order_of_insertion() {
        let mut pending = Pending::with_capacity(8);
        for (at, value) in [(5, 'a'), (3, 'b'), (5, 'c'), (9, 'd'), (3, 'e')] {
            pending.insert(at, value);
        }
        let order: Vec<_> = std::iter::from_fn(|| pending.pop()).collect();
        assert_eq!(order, [(3, 'b'), (3, 'e'), (5, 'a'), (5, 'c'), (9, 'd')]);
    }

    #[test]
    fn what_is_not_due_stays() {
        let mut pending = Pending::with_capacity(1);
        pending.insert(7, ());
        assert_eq!(pending.pop_due(6), None);
        assert_eq!(pending.pop_due(7), Some((7, ())));
        assert_eq!(pending.next(), NEVER);
    }
}
