//! Pending events of a simulated host, or of a device with many parts; their times arrive in any
//! order. A calendar wheel with a bitmap, a heap for events beyond the wheel's
//! horizon, and a sorted list of the events of the earliest bucket.
//!
//! * Guarantee: events come out by (time, order of insertion); nothing else breaks a tie.
//! * Cost: at most 30 ns for an insertion with its removal at 16,384 pending
//!   (`crates/simulator/benches/event_set.rs`). Up to the capacity given at construction only the heap allocates,
//!   with the first event beyond the horizon. Above the capacity, memory grows with the largest
//!   number ever pending: its record and its place in the sorted list, plus a
//!   quarter.
//! * Source: Brown 1988 (calendar queue), with one bit per bucket instead of resizing; Tang, Goh &
//!   Thng 2005 (ladder queue) for sorting a bucket only when it is the next.
//!
//! There is no removal: an owner stores the time it waits for, recognises a stale event by it, and
//! ignores that event. [`Calendar::retain`] rebuilds the set, for the rare case that many events
//! are dropped.
//!
//! [`Pending`](crate::pending::Pending) is cheaper where times are almost always ascending.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use hoistway_block::{NIL, Nanos};

use crate::interface::NEVER;

/// Buckets of the wheel.
const BUCKETS: usize = 65_536;
/// Width of a bucket: 64 ns. The wheel then reaches 4.19 ms ahead, and thousands of events within a
/// fraction of that are still only a few per bucket.
const WIDTH_BITS: u32 = 6;
const WORDS: usize = BUCKETS / 64;

/// An event. One record instead of parallel arrays, because all fields of an event are read
/// together, and four records of a small value share a cache line. The order of two events at the same time is their
/// order in the bucket's list; there is no sequence number.
#[derive(Copy, Clone, Debug)]
struct Node<T> {
    time: Nanos,
    value: T,
    /// The event inserted before it in its bucket, or the next unused record; in `front` its rank
    /// before sorting.
    next: u32,
}

const _: () = assert!(size_of::<Node<u32>>() == 16, "one for each I/O that may be in flight");

/// An event beyond the horizon.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
struct Far {
    time: Nanos,
    sequence: u32,
    node: u32,
}

impl Ord for Far {
    fn cmp(&self, other: &Self) -> Ordering {
        // The difference keeps its sign although the numbers wrap after 4 G such events.
        let later = self.sequence.wrapping_sub(other.sequence).cast_signed();
        self.time.cmp(&other.time).then(later.cmp(&0))
    }
}

impl PartialOrd for Far {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The set of pending events.
#[derive(Clone, Debug)]
pub struct Calendar<T> {
    /// First bucket of the window, counted from time 0; no event lies before it.
    cursor: u64,
    /// The bucket in `front`, counted from time 0.
    front_bucket: u64,
    /// All events of the earliest bucket, the earliest last; empty until the next event is asked
    /// for.
    front: Vec<u32>,
    /// One bit per bucket, and one bit per word of those.
    occupied: [u64; WORDS],
    occupied_words: [u64; WORDS / 64],
    heads: Box<[u32]>,
    nodes: Vec<Node<T>>,
    free: u32,
    overflow: BinaryHeap<Reverse<Far>>,
    /// Sequence number of the next event beyond the horizon.
    next_sequence: u32,
    in_wheel: usize,
}

impl<T: Copy> Calendar<T> {
    /// An empty set with memory for `capacity` pending events, except in the heap; it grows beyond
    /// that.
    pub fn with_capacity(capacity: usize) -> Self {
        Self {
            cursor: 0,
            front_bucket: 0,
            front: Vec::with_capacity(capacity),
            occupied: [0; WORDS],
            occupied_words: [0; WORDS / 64],
            heads: vec![NIL; BUCKETS].into_boxed_slice(),
            nodes: Vec::with_capacity(capacity),
            free: NIL,
            overflow: BinaryHeap::new(),
            next_sequence: 0,
            in_wheel: 0,
        }
    }

    /// Events pending.
    pub fn len(&self) -> usize {
        self.front.len() + self.in_wheel + self.overflow.len()
    }

    /// Whether nothing is pending.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds an event. Its time must not be before that of the last event removed; if it is, the
    /// event comes next.
    #[inline]
    pub fn insert(&mut self, time: Nanos, value: T) {
        let node = self.allocate(time, value);
        if !self.front.is_empty() {
            let bucket = self.bucket_of(time);
            if bucket == self.front_bucket {
                return self.insert_into_front(time, node);
            }
            if bucket < self.front_bucket {
                self.put_front_back();
            }
        }
        self.place(time, node);
    }

    /// Time of the earliest event, or [`NEVER`].
    #[inline]
    pub fn next_time(&mut self) -> Nanos {
        if self.front.is_empty() {
            if self.is_empty() {
                return NEVER;
            }
            self.fill_front();
        }
        self.front.last().map_or(NEVER, |&node| self.nodes[node as usize].time)
    }

    /// The earliest event.
    pub fn first(&mut self) -> Option<&T> {
        self.next_time();
        self.front.last().map(|&node| &self.nodes[node as usize].value)
    }

    /// Removes the earliest event.
    #[inline]
    pub fn pop(&mut self) -> Option<(Nanos, T)> {
        self.pop_due(NEVER)
    }

    /// Removes the earliest event if its time is not after `now`.
    #[inline]
    pub fn pop_due(&mut self, now: Nanos) -> Option<(Nanos, T)> {
        if self.front.is_empty() {
            if self.is_empty() {
                return None;
            }
            self.fill_front();
        }
        let first = *self.front.last()?;
        let node = &mut self.nodes[first as usize];
        let (time, value) = (node.time, node.value);
        if time > now {
            return None;
        }
        node.next = self.free;
        self.free = first;
        self.front.pop();
        self.cursor = self.cursor.max(time >> WIDTH_BITS);
        Some((time, value))
    }

    /// Drops the events for which `keep` is false; none of the others is before `now`.
    pub fn retain(&mut self, now: Nanos, keep: impl Fn(&T) -> bool) {
        let kept: Vec<(Nanos, T)> = std::iter::from_fn(|| self.pop()).filter(|(_, value)| keep(value)).collect();
        // Removing all events has moved the window to the last of them.
        self.cursor = now >> WIDTH_BITS;
        for (time, value) in kept {
            self.insert(time, value);
        }
    }

    #[inline]
    fn allocate(&mut self, time: Nanos, value: T) -> u32 {
        let node = Node { time, value, next: NIL };
        let free = self.free;
        if let Some(place) = self.nodes.get_mut(free as usize) {
            self.free = place.next;
            *place = node;
            return free;
        }
        if self.nodes.len() == self.nodes.capacity() {
            self.make_room();
        }
        self.nodes.push(node);
        u32::try_from(self.nodes.len() - 1).expect("a wheel holds fewer than 2^32 events")
    }

    /// Grows by a quarter, where a vector would double: there may be one event per I/O in flight.
    #[cold]
    fn make_room(&mut self) {
        self.nodes.reserve_exact((self.nodes.len() / 4).max(64));
    }

    /// The bucket of a time, counted from time 0; a time before the window counts as the window's
    /// first.
    #[inline]
    fn bucket_of(&self, time: Nanos) -> u64 {
        (time >> WIDTH_BITS).max(self.cursor)
    }

    /// Puts an event that does not belong into `front` into the wheel or the heap.
    #[inline]
    fn place(&mut self, time: Nanos, node: u32) {
        let bucket = self.bucket_of(time);
        if bucket >= self.cursor + BUCKETS as u64 {
            self.push_beyond(time, node);
            return;
        }
        let index = index_of(bucket);
        self.nodes[node as usize].next = self.heads[index];
        self.heads[index] = node;
        self.occupied[index / 64] |= 1 << (index % 64);
        self.occupied_words[index / 4_096] |= 1 << (index / 64 % 64);
        self.in_wheel += 1;
    }

    /// Adds an event to the heap, which is allocated with the first of them: many runs have no
    /// event that far ahead.
    #[inline]
    fn push_beyond(&mut self, time: Nanos, node: u32) {
        if self.overflow.capacity() == 0 {
            self.overflow.reserve_exact(self.nodes.capacity());
        }
        let sequence = self.next_sequence;
        self.next_sequence = sequence.wrapping_add(1);
        self.overflow.push(Reverse(Far { time, sequence, node }));
    }

    /// Inserts an event into `front` in order; of events at the same time, the newest is removed
    /// last.
    #[inline]
    fn insert_into_front(&mut self, time: Nanos, node: u32) {
        let nodes = &self.nodes;
        let place = self.front.partition_point(|&other| nodes[other as usize].time > time);
        self.front.insert(place, node);
    }

    /// Returns the events of `front` to the wheel, because an earlier bucket is occupied now.
    #[cold]
    fn put_front_back(&mut self) {
        while let Some(node) = self.front.pop() {
            self.place(self.nodes[node as usize].time, node);
        }
    }

    /// Moves the earliest bucket's events, sorted, into the empty `front`.
    fn fill_front(&mut self) {
        // An event beyond the horizon stays in the heap until its bucket is the earliest, and never
        // enters the wheel.
        let beyond = self.overflow.peek().map_or(NEVER, |&Reverse(far)| self.bucket_of(far.time));
        let index = self.first_occupied();
        let inside =
            index.map_or(NEVER, |index| self.cursor + (index as u64).wrapping_sub(self.cursor) % BUCKETS as u64);
        self.front_bucket = inside.min(beyond);
        if let Some(index) = index
            && inside <= beyond
        {
            self.empty_bucket(index);
        }
        if beyond <= inside {
            // Events of this bucket in the wheel were inserted later than those in the heap,
            // because the bucket was beyond the horizon then.
            let newer = self.front.len();
            while let Some(&Reverse(far)) = self.overflow.peek()
                && self.bucket_of(far.time) == beyond
            {
                self.overflow.pop();
                self.front.push(far.node);
            }
            self.front[newer..].reverse();
        }
        if self.front.len() > 1 {
            self.sort_front();
        }
    }

    #[inline]
    fn empty_bucket(&mut self, index: usize) {
        let mut node = self.heads[index];
        while node != NIL {
            self.front.push(node);
            node = self.nodes[node as usize].next;
        }
        self.in_wheel -= self.front.len();
        self.heads[index] = NIL;
        self.occupied[index / 64] &= !(1 << (index % 64));
        if self.occupied[index / 64] == 0 {
            self.occupied_words[index / 4_096] &= !(1 << (index / 64 % 64));
        }
    }

    /// Sorts a list that is newest first by time, the earliest last, and keeps the order within
    /// equal times. A stable sort might allocate.
    fn sort_front(&mut self) {
        for (rank, &node) in (0..).zip(&self.front) {
            self.nodes[node as usize].next = rank;
        }
        let nodes = &self.nodes;
        let key = |&node: &u32| {
            let Node { time, next: rank, .. } = nodes[node as usize];
            (Reverse(time), rank)
        };
        self.front.sort_unstable_by_key(key);
    }

    /// The first occupied bucket at or after the cursor, wrapping once.
    #[inline]
    fn first_occupied(&self) -> Option<usize> {
        let start = index_of(self.cursor);
        let word = self.occupied[start / 64] & (u64::MAX << (start % 64));
        if word != 0 {
            return Some(start / 64 * 64 + word.trailing_zeros() as usize);
        }
        // The next word with a bit: after the start's word, then from the beginning up to and
        // including it.
        let behind = start / 64 + 1;
        let index = self.first_word(behind).or_else(|| self.first_word(0))?;
        Some(index * 64 + self.occupied[index].trailing_zeros() as usize)
    }

    /// The first word at or after `from` with a bit.
    #[inline]
    fn first_word(&self, from: usize) -> Option<usize> {
        let mut mask = u64::MAX << (from % 64);
        for index in from / 64..WORDS / 64 {
            let word = self.occupied_words[index] & mask;
            if word != 0 {
                return Some(index * 64 + word.trailing_zeros() as usize);
            }
            mask = u64::MAX;
        }
        None
    }
}

/// The wheel's index of a bucket.
#[inline]
fn index_of(bucket: u64) -> usize {
    usize::from(u16::try_from(bucket % BUCKETS as u64).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoistway_block::random::Stream;

    /// Case 2, first half (docs/specifications/devices.md, section 13): 5, 3, 5, 3 + 4.2 ms
    /// (overflow), 3 come out by time, then by insertion.
    #[test]
    fn core_2_events_come_out_by_time_then_by_insertion() {
        let mut wheel = Calendar::with_capacity(8);
        for (index, time) in [(0, 5), (1, 3), (2, 5), (3, 3 + 4_200_000), (4, 3)] {
            wheel.insert(time, index);
        }
        assert_eq!(wheel.overflow.len(), 1, "4.2 ms lie beyond the horizon of 65,536 x 64 ns");
        let order: Vec<_> = std::iter::from_fn(|| wheel.pop()).collect();
        assert_eq!(order, [(3, 1), (3, 4), (5, 0), (5, 2), (4_200_003, 3)]);
    }

    /// Case 2, second half: 10^6 random insertions and removals agree with a heap.
    #[test]
    fn core_2_a_million_random_operations_agree_with_a_heap() {
        let mut wheel = Calendar::with_capacity(4_096);
        let mut reference = BinaryHeap::new();
        let mut stream = Stream::new(2);
        let (mut now, mut inserted) = (0, 0_u64);
        for _ in 0..1_000_000 {
            if reference.len() < 2_000 && (reference.is_empty() || stream.chance(1, 2)) {
                // Spans from zero to ten times the horizon; many ties.
                let span = [0, 7, 600, 40_000, 4_000_000, 42_000_000][usize::try_from(stream.below(6)).unwrap()];
                let time = now + stream.below(span + 1);
                wheel.insert(time, u32::try_from(inserted % (1 << 28)).unwrap());
                reference.push(Reverse((time, inserted)));
                inserted += 1;
            } else {
                let Reverse((time, number)) = reference.pop().unwrap();
                if stream.chance(1, 2) {
                    assert_eq!(wheel.next_time(), time);
                }
                let (popped, payload) = wheel.pop().unwrap();
                assert_eq!((popped, u64::from(payload)), (time, number % (1 << 28)));
                now = time;
            }
            assert_eq!(wheel.len(), reference.len());
        }
    }

    /// A far event is peeked at, then earlier ones are inserted, before and in its bucket.
    #[test]
    fn a_look_ahead_does_not_commit() {
        let mut wheel = Calendar::with_capacity(8);
        for far in [9_000_000, 2_000] {
            wheel.insert(far, 1);
            assert_eq!(wheel.next_time(), far);
            wheel.insert(far, 2);
            wheel.insert(far - 1, 0);
            assert_eq!(wheel.next_time(), far - 1);
            wheel.insert(700, 9);
            wheel.insert(far, 3);
            assert_eq!((wheel.next_time(), wheel.len()), (700, 5));
            let order: Vec<_> = std::iter::from_fn(|| wheel.pop()).map(|(_, event)| event).collect();
            assert_eq!(order, [9, 0, 1, 2, 3]);
            wheel = Calendar::with_capacity(8);
        }
    }

    #[test]
    fn an_event_of_the_past_comes_next() {
        let mut wheel = Calendar::with_capacity(4);
        wheel.insert(50_000, 0);
        wheel.insert(50_001, 2);
        wheel.pop();
        wheel.insert(10, 1);
        let order: Vec<_> = std::iter::from_fn(|| wheel.pop()).collect();
        assert_eq!(order, [(10, 1), (50_001, 2)]);
    }

    #[test]
    fn the_sequence_may_wrap() {
        let mut wheel = Calendar::with_capacity(4);
        wheel.next_sequence = u32::MAX;
        let far = 100_000_000;
        wheel.insert(far, 1);
        wheel.insert(far, 2);
        assert_eq!(wheel.pop().unwrap().1, 1);
        assert_eq!(wheel.pop_due(far - 1), None);
        assert_eq!(wheel.pop_due(far).unwrap().1, 2);
    }

    /// Events of one time come out in the order of their insertion, whether they were inserted
    /// beyond the horizon, inside it, or into the bucket already in `front`, and also when that was
    /// returned to the wheel.
    #[test]
    fn ties_keep_their_order_on_every_way() {
        let mut wheel = Calendar::with_capacity(8);
        let time = 5_000_000;
        let insert = |wheel: &mut Calendar<u32>, at, indices: &[u32]| {
            indices.iter().for_each(|&index| wheel.insert(at, index));
        };
        insert(&mut wheel, time, &[0, 1]);
        insert(&mut wheel, 4_000_000, &[90]);
        assert_eq!(wheel.pop().unwrap().1, 90);
        insert(&mut wheel, time, &[2, 3]);
        assert_eq!(wheel.next_time(), time);
        insert(&mut wheel, time, &[4]);
        insert(&mut wheel, time - 1_000, &[91]);
        insert(&mut wheel, time, &[5]);
        assert_eq!(wheel.next_time(), time - 1_000);
        let order: Vec<_> = std::iter::from_fn(|| wheel.pop()).map(|(_, event)| event).collect();
        assert_eq!(order, [91, 0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn what_is_retained_keeps_its_order() {
        let mut calendar = Calendar::with_capacity(1);
        for (at, value) in [(5_000_000, 1), (70, 2), (70, 3), (90_000_000, 4), (60, 5)] {
            calendar.insert(at, value);
        }
        calendar.retain(50, |value| *value != 3);
        calendar.insert(55, 6);
        let order: Vec<_> = std::iter::from_fn(|| calendar.pop()).map(|(_, value)| value).collect();
        assert_eq!(order, [6, 5, 2, 1, 4]);
    }
}
