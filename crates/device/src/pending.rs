//! Pending events in order of time: the small event set of a device.

use hoistway_block::Nanos;

use crate::interface::NEVER;

/// A queue of values sorted by time, equal times in order of insertion.
///
/// A ring that is kept sorted by insertion from its back: a device's new events are close to the
/// latest one (a resource that serves one use at a time has rising times), so an insertion moves a
/// few entries. A heap would walk its height for each insertion and for each removal.
#[derive(Clone, Debug)]
pub(crate) struct Pending<T> {
    /// Its length is the capacity; never empty.
    ring: Vec<(Nanos, T)>,
    first: usize,
    len: usize,
}

impl<T: Copy + Default> Pending<T> {
    /// An empty queue that does not allocate up to `capacity` entries.
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        Self { ring: vec![(NEVER, T::default()); capacity.max(1)], first: 0, len: 0 }
    }

    #[inline]
    pub(crate) fn insert(&mut self, at: Nanos, value: T) {
        if self.len == self.ring.len() {
            self.grow();
        }
        let mut place = self.place_of(self.len);
        let ring = self.ring.as_mut_slice();
        for _ in 0..self.len {
            let before = if place == 0 { ring.len() - 1 } else { place - 1 };
            if ring[before].0 <= at {
                break;
            }
            ring[place] = ring[before];
            place = before;
        }
        ring[place] = (at, value);
        self.len += 1;
    }

    /// Whether an entry for this time would be among the last `most`.
    #[inline]
    pub(crate) fn is_near_end(&self, at: Nanos, most: usize) -> bool {
        self.len <= most || self.ring[self.place_of(self.len - most)].0 <= at
    }

    /// The ring index of entry `number`, counted from the first; at most the length of the ring.
    #[inline]
    fn place_of(&self, number: usize) -> usize {
        let place = self.first + number;
        if place >= self.ring.len() { place - self.ring.len() } else { place }
    }

    #[cold]
    fn grow(&mut self) {
        self.ring.rotate_left(self.first);
        self.first = 0;
        self.ring.resize(2 * self.ring.len(), (NEVER, T::default()));
    }

    #[inline]
    pub(crate) fn front(&self) -> Option<&(Nanos, T)> {
        if self.len == 0 { None } else { self.ring.get(self.first) }
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<(Nanos, T)> {
        let entry = *self.front()?;
        self.first = self.place_of(1);
        self.len -= 1;
        Some(entry)
    }

    /// Removes the first entry, if its time has come.
    #[inline]
    pub(crate) fn pop_due(&mut self, now: Nanos) -> Option<(Nanos, T)> {
        if self.next() <= now { self.pop() } else { None }
    }

    /// Time of the first entry, [`NEVER`] if there is none.
    #[inline]
    pub(crate) fn next(&self) -> Nanos {
        self.front().map_or(NEVER, |entry| entry.0)
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    /// Changes the entries with times after `now`. Their times must stay in order.
    pub(crate) fn change_after(&mut self, now: Nanos, mut change: impl FnMut(&mut Nanos, &mut T)) {
        for number in (0..self.len).rev() {
            let place = self.place_of(number);
            let (at, value) = &mut self.ring[place];
            if *at <= now {
                break;
            }
            change(at, value);
        }
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
    fn a_full_ring_grows_in_order() {
        let mut pending = Pending::with_capacity(2);
        for at in [1, 2] {
            pending.insert(at, at);
        }
        pending.pop();
        for at in [9, 4, 3] {
            pending.insert(at, at);
        }
        let order: Vec<_> = std::iter::from_fn(|| pending.pop()).map(|(at, _)| at).collect();
        assert_eq!(order, [2, 3, 4, 9]);
    }

    #[test]
    fn what_lies_ahead_can_be_put_off() {
        let mut pending = Pending::with_capacity(4);
        for at in [1, 2, 3, 9] {
            pending.insert(at, 'a');
        }
        pending.pop();
        pending.insert(4, 'b');
        pending.change_after(2, |at, _| *at += 10);
        let order: Vec<_> = std::iter::from_fn(|| pending.pop()).collect();
        assert_eq!(order, [(2, 'a'), (13, 'a'), (14, 'b'), (19, 'a')]);
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
