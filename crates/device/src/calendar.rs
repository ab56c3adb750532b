//! Pending events whose times arrive in any order: the event set of a device with many parts.
//!
//! * Guarantee: events come out by time, equal times in order of insertion; the time of the first
//!   is always known.
//! * Cost: 20 to 30 ns for an insertion with its removal at 16 to 16,384 pending events within 4 ms
//!   (measured with a prototype: docs/specifications/devices.md, section 2.3); an event farther
//!   ahead waits in a heap first. Memory is kept, so nothing is allocated once the peak is reached.
//! * Source: Brown 1988 (calendar queue), with one bit per bucket instead of resizing.
//!
//! [`Pending`](crate::pending::Pending) is cheaper where times are almost always ascending.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use hoistway_block::Nanos;

use crate::interface::NEVER;

const BUCKETS: usize = 8_192;
/// A bucket is 512 ns wide, so the window reaches 4.19 ms ahead.
const WIDTH_BITS: u32 = 9;
const WORDS: usize = BUCKETS / 64;
const NIL: u32 = u32::MAX;

#[derive(Copy, Clone, Debug)]
struct Node<T> {
    at: Nanos,
    /// The next node in the bucket's list, which is sorted, or in the list of free nodes.
    next: u32,
    value: T,
}

/// The set of pending events.
#[derive(Clone, Debug)]
pub(crate) struct Calendar<T> {
    /// Time of the first event.
    next: Nanos,
    /// Bucket of the first event, counted from time 0, if it is in the window.
    next_bucket: u64,
    /// First bucket of the window. Events of earlier buckets are put into it.
    cursor: u64,
    in_window: usize,
    heads: Box<[u32; BUCKETS]>,
    occupied: Box<[u64; WORDS]>,
    nodes: Vec<Node<T>>,
    free: u32,
    /// Events beyond the window: (time, number of insertion, node). They enter the buckets whenever
    /// the window moves, before any event is inserted there directly. So, of two events with the
    /// same time, the one that was inserted first is always in the bucket first.
    beyond: BinaryHeap<Reverse<(Nanos, u64, u32)>>,
    insertions_beyond: u64,
}

impl<T: Copy> Calendar<T> {
    /// An empty set with memory for `capacity` events; the heap of those beyond the window begins
    /// without memory.
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        Self {
            next: NEVER,
            next_bucket: 0,
            cursor: 0,
            in_window: 0,
            heads: Box::new([NIL; BUCKETS]),
            occupied: Box::new([0; WORDS]),
            nodes: Vec::with_capacity(capacity),
            free: NIL,
            beyond: BinaryHeap::new(),
            insertions_beyond: 0,
        }
    }

    /// Time of the first event, [`NEVER`] if there is none.
    #[inline]
    pub(crate) fn next(&self) -> Nanos {
        self.next
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.next == NEVER
    }

    /// The first event.
    pub(crate) fn front(&self) -> Option<&T> {
        let node = match self.beyond.peek() {
            _ if self.in_window > 0 => self.heads[place_of(self.next_bucket)],
            first => first.map_or(NIL, |&Reverse((.., node))| node),
        };
        self.nodes.get(node as usize).map(|node| &node.value)
    }

    /// Adds an event at `at`, which is not before `now`.
    #[inline]
    pub(crate) fn insert(&mut self, now: Nanos, at: Nanos, value: T) {
        if self.next == NEVER {
            self.cursor = self.cursor.max(now >> WIDTH_BITS);
        }
        let node = self.allocate(Node { at, next: NIL, value });
        let bucket = (at >> WIDTH_BITS).max(self.cursor);
        if bucket - self.cursor < BUCKETS as u64 {
            self.link(bucket, node, at);
        } else {
            self.beyond.push(Reverse((at, self.insertions_beyond, node)));
            self.insertions_beyond += 1;
            self.next = self.next.min(at);
        }
    }

    /// Removes the first event.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<(Nanos, T)> {
        if self.next == NEVER {
            return None;
        }
        if self.in_window == 0 {
            self.enter_from_beyond(self.next >> WIDTH_BITS);
        }
        let bucket = self.next_bucket;
        let place = place_of(bucket);
        let first = self.heads[place];
        let node = &mut self.nodes[first as usize];
        let (at, value, following) = (node.at, node.value, node.next);
        node.next = self.free;
        self.free = first;
        self.heads[place] = following;
        self.in_window -= 1;
        if following == NIL {
            self.occupied[place / 64] &= !(1 << (place % 64));
        }
        self.cursor = bucket;
        if !self.beyond.is_empty() {
            self.enter_from_beyond(bucket);
        }
        self.find_next();
        Some((at, value))
    }

    /// Drops the events for which `keep` is false. Rebuilds the set, which is acceptable because it
    /// is rare.
    pub(crate) fn retain(&mut self, now: Nanos, keep: impl Fn(&T) -> bool) {
        let kept: Vec<(Nanos, T)> = std::iter::from_fn(|| self.pop()).filter(|(_, value)| keep(value)).collect();
        // Removing all events has moved the window to the last of them.
        self.cursor = now >> WIDTH_BITS;
        for (at, value) in kept {
            self.insert(now, at, value);
        }
    }

    #[inline]
    fn allocate(&mut self, node: Node<T>) -> u32 {
        let free = self.free;
        if let Some(place) = self.nodes.get_mut(free as usize) {
            self.free = place.next;
            *place = node;
            return free;
        }
        self.nodes.push(node);
        u32::try_from(self.nodes.len() - 1).expect("fewer than 2^32 events are ahead")
    }

    /// Inserts a node into its bucket's list, after those of the same time.
    #[inline]
    fn link(&mut self, bucket: u64, node: u32, at: Nanos) {
        let place = place_of(bucket);
        self.in_window += 1;
        let first = self.heads[place];
        if first == NIL {
            self.occupied[place / 64] |= 1 << (place % 64);
            self.heads[place] = node;
        } else if self.nodes[first as usize].at > at {
            self.nodes[node as usize].next = first;
            self.heads[place] = node;
        } else {
            let mut before = first as usize;
            loop {
                let after = self.nodes[before].next;
                if after == NIL || self.nodes[after as usize].at > at {
                    self.nodes[node as usize].next = after;
                    self.nodes[before].next = node;
                    break;
                }
                before = after as usize;
            }
        }
        if at < self.next || self.in_window == 1 {
            self.next = self.next.min(at);
            self.next_bucket = bucket;
        }
    }

    /// Moves the window to `cursor` and inserts the events that are now within it.
    fn enter_from_beyond(&mut self, cursor: u64) {
        self.cursor = cursor;
        while let Some(&Reverse((at, _, node))) = self.beyond.peek() {
            let bucket = at >> WIDTH_BITS;
            if bucket >= cursor + BUCKETS as u64 {
                return;
            }
            self.beyond.pop();
            self.link(bucket, node, at);
        }
    }

    /// Finds the first event, starting at the cursor.
    #[inline]
    fn find_next(&mut self) {
        if self.in_window == 0 {
            self.next = self.beyond.peek().map_or(NEVER, |&Reverse((at, ..))| at);
            return;
        }
        let start = place_of(self.cursor);
        let mut word_index = start / 64;
        let mut word = self.occupied[word_index] & (u64::MAX << (start % 64));
        while word == 0 {
            word_index = (word_index + 1) % WORDS;
            word = self.occupied[word_index];
        }
        let place = word_index * 64 + word.trailing_zeros() as usize;
        self.next_bucket = self.cursor + (place.wrapping_sub(start) % BUCKETS) as u64;
        self.next = self.nodes[self.heads[place] as usize].at;
    }
}

#[inline]
fn place_of(bucket: u64) -> usize {
    // The remainder is below 8192.
    usize::try_from(bucket % BUCKETS as u64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoistway_block::random::Stream;

    /// Spans from zero to ten windows, many ties, pauses: the order equals that of a sorted list.
    #[test]
    fn t02_a_million_operations_agree_with_a_heap() {
        let mut calendar = Calendar::with_capacity(16);
        let mut reference = BinaryHeap::new();
        let mut stream = Stream::new(2);
        let (mut now, mut number) = (0, 0_u64);
        for _ in 0..1_000_000 {
            if reference.len() < 500 && (reference.is_empty() || stream.chance(1, 2)) {
                let spans = [0, 7, 600, 40_000, 4_000_000, 42_000_000];
                let span = spans[usize::try_from(stream.below(6)).unwrap()];
                let at = now + stream.below(span + 1);
                calendar.insert(now, at, number);
                reference.push(Reverse((at, number)));
                number += 1;
            } else {
                let Reverse(expected) = reference.pop().unwrap();
                assert_eq!(calendar.next(), expected.0);
                assert_eq!(calendar.pop(), Some(expected));
                now = expected.0;
            }
            if reference.is_empty() {
                assert!(calendar.is_empty() && calendar.pop().is_none());
                now += stream.below(100_000_000);
            }
        }
    }

    #[test]
    fn t02_events_come_by_time_and_then_in_the_order_of_their_insertion() {
        let mut calendar = Calendar::with_capacity(1);
        for (order, at) in [5, 3, 5, 3 + 4_200_000, 3].into_iter().enumerate() {
            calendar.insert(0, at, order);
        }
        let popped: Vec<_> = std::iter::from_fn(|| calendar.pop()).collect();
        assert_eq!(popped, [(3, 1), (3, 4), (5, 0), (5, 2), (3 + 4_200_000, 3)]);
    }

    #[test]
    fn an_event_before_a_distant_one_comes_first() {
        let mut calendar = Calendar::with_capacity(1);
        calendar.insert(0, 9_000_000_000, 'z');
        calendar.insert(1_000_000_000, 1_000_000_001, 'a');
        assert_eq!(calendar.next(), 1_000_000_001);
        assert_eq!(calendar.pop(), Some((1_000_000_001, 'a')));
        assert_eq!(calendar.pop(), Some((9_000_000_000, 'z')));
        assert_eq!(calendar.next(), NEVER);
    }

    #[test]
    fn what_is_retained_keeps_its_order() {
        let mut calendar = Calendar::with_capacity(1);
        for (at, value) in [(5_000_000, 1), (70, 2), (70, 3), (90_000_000, 4), (60, 5)] {
            calendar.insert(50, at, value);
        }
        calendar.retain(50, |value| *value != 3);
        calendar.insert(50, 55, 6);
        let order: Vec<_> = std::iter::from_fn(|| calendar.pop()).map(|(_, value)| value).collect();
        assert_eq!(order, [6, 5, 2, 1, 4]);
    }
}
