//! The set of events ahead: a calendar wheel with a bitmap, and a heap for what lies beyond its horizon.
//!
//! Promise  events come out by (time, order of insertion); nothing else breaks a tie.
//! Cost     about 25 ns for an insertion with its removal, independent of how many are pending; nothing is allocated
//!          up to the capacity given at construction.
//! Source   Brown 1988 (calendar queue), with a bit per bucket instead of resizing.
//!
//! There is no removal: an owner that loses interest recognises a stale event when it comes (it remembers the time it
//! waits for) and ignores it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use block::{NIL, Nanos};

/// Buckets of the wheel.
const BUCKETS: usize = 8_192;
/// Width of a bucket: 512 ns, so that the wheel reaches 4.19 ms ahead.
const WIDTH_BITS: u32 = 9;
const WORDS: usize = BUCKETS / 64;
/// "Nothing ahead", as [`EventWheel::next_time`] says it.
pub const NEVER: Nanos = Nanos::MAX;

/// What an event is about: 4 bits of kind, 28 bits of index (a process, a timer).
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Payload(u32);

impl Payload {
    const INDEX_BITS: u32 = 28;

    /// The payload of a kind (0 to 15) and an index (below 2^28); surplus bits of either are cut off.
    #[inline]
    pub const fn new(kind: u8, index: u32) -> Self {
        Self(((kind as u32) << Self::INDEX_BITS) | (index & ((1 << Self::INDEX_BITS) - 1)))
    }

    /// The kind, 0 to 15.
    #[inline]
    pub const fn kind(self) -> u8 {
        self.0.to_be_bytes()[0] >> 4
    }

    /// The index, below 2^28.
    #[inline]
    pub const fn index(self) -> u32 {
        self.0 & ((1 << Self::INDEX_BITS) - 1)
    }
}

/// An event. One record instead of parallel arrays: whoever looks at an event looks at all of it, and 24 bytes share a
/// cache line.
#[derive(Copy, Clone, Debug)]
struct Node {
    time: Nanos,
    sequence: u32,
    payload: Payload,
    next: u32,
}

#[derive(Copy, Clone, Debug)]
struct Smallest {
    time: Nanos,
    node: u32,
    /// The node before it in its bucket's list, or [`NIL`].
    before: u32,
}

/// The set of events ahead.
#[derive(Clone, Debug)]
pub struct EventWheel {
    /// First bucket of the window, counted from time 0; no event lies before it.
    cursor: u64,
    occupied: [u64; WORDS],
    heads: Box<[u32; BUCKETS]>,
    nodes: Vec<Node>,
    free: u32,
    overflow: BinaryHeap<Reverse<(Nanos, u32)>>,
    next_sequence: u32,
    in_wheel: usize,
    /// The smallest event, once looked for.
    smallest: Option<Smallest>,
}

impl EventWheel {
    /// An empty set. Up to `capacity` events pending it does not allocate; beyond that it grows.
    pub fn with_capacity(capacity: usize) -> Self {
        Self {
            cursor: 0,
            occupied: [0; WORDS],
            heads: Box::new([NIL; BUCKETS]),
            nodes: Vec::with_capacity(capacity),
            free: NIL,
            overflow: BinaryHeap::with_capacity(capacity),
            next_sequence: 0,
            in_wheel: 0,
            smallest: None,
        }
    }

    /// Events pending.
    pub fn len(&self) -> usize {
        self.in_wheel + self.overflow.len()
    }

    /// Whether nothing is pending.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds an event. Its time must not lie before the last event taken out; if it does, it comes next.
    #[inline]
    pub fn insert(&mut self, time: Nanos, payload: Payload) {
        let sequence = self.next_sequence;
        self.next_sequence = sequence.wrapping_add(1);
        let node = self.allocate(time, sequence, payload);
        if (time >> WIDTH_BITS) < self.cursor + BUCKETS as u64 {
            self.link(node);
        } else {
            self.overflow.push(Reverse((time, node)));
        }
    }

    /// Time of the earliest event, [`NEVER`] if there is none.
    #[inline]
    pub fn next_time(&mut self) -> Nanos {
        self.find_smallest().map_or(NEVER, |smallest| smallest.time)
    }

    /// Takes the earliest event out.
    #[inline]
    pub fn pop(&mut self) -> Option<(Nanos, Payload)> {
        self.pop_due(NEVER)
    }

    /// Takes the earliest event out if its time is not after `now`.
    #[inline]
    pub fn pop_due(&mut self, now: Nanos) -> Option<(Nanos, Payload)> {
        let smallest = self.find_smallest().filter(|smallest| smallest.time <= now)?;
        let node = &mut self.nodes[smallest.node as usize];
        let (payload, next) = (node.payload, node.next);
        node.next = self.free;
        self.free = smallest.node;
        if smallest.before == NIL {
            let bucket = self.bucket_of(smallest.time);
            self.heads[bucket] = next;
            if next == NIL {
                self.occupied[bucket / 64] &= !(1 << (bucket % 64));
            }
        } else {
            self.nodes[smallest.before as usize].next = next;
        }
        self.in_wheel -= 1;
        self.cursor = self.cursor.max(smallest.time >> WIDTH_BITS);
        self.smallest = None;
        Some((smallest.time, payload))
    }

    #[inline]
    fn allocate(&mut self, time: Nanos, sequence: u32, payload: Payload) -> u32 {
        let node = Node { time, sequence, payload, next: NIL };
        let free = self.free;
        if let Some(place) = self.nodes.get_mut(free as usize) {
            self.free = place.next;
            *place = node;
            return free;
        }
        self.nodes.push(node);
        u32::try_from(self.nodes.len() - 1).expect("a wheel holds fewer than 2^32 events")
    }

    /// The bucket of a time inside the window; a time before it counts as the window's first.
    #[inline]
    fn bucket_of(&self, time: Nanos) -> usize {
        ((time >> WIDTH_BITS).max(self.cursor) % BUCKETS as u64) as usize
    }

    #[inline]
    fn link(&mut self, node: u32) {
        let time = self.nodes[node as usize].time;
        let bucket = self.bucket_of(time);
        let next = self.heads[bucket];
        self.nodes[node as usize].next = next;
        self.heads[bucket] = node;
        self.occupied[bucket / 64] |= 1 << (bucket % 64);
        self.in_wheel += 1;
        // A later event leaves the known smallest alone, unless it now stands before it in the same list.
        if let Some(smallest) = &mut self.smallest {
            if time < smallest.time {
                self.smallest = None;
            } else if smallest.before == NIL && next == smallest.node {
                smallest.before = node;
            }
        }
    }

    /// Brings what has come inside the window from the heap into the wheel.
    fn admit_overflow(&mut self) {
        if self.in_wheel == 0
            && let Some(Reverse((time, _))) = self.overflow.peek()
        {
            self.cursor = self.cursor.max(time >> WIDTH_BITS);
        }
        while let Some(&Reverse((time, node))) = self.overflow.peek() {
            if (time >> WIDTH_BITS) >= self.cursor + BUCKETS as u64 {
                return;
            }
            self.overflow.pop();
            self.link(node);
        }
    }

    #[inline]
    fn find_smallest(&mut self) -> Option<Smallest> {
        if self.smallest.is_some() {
            return self.smallest;
        }
        if !self.overflow.is_empty() {
            self.admit_overflow();
        }
        if self.in_wheel == 0 {
            return None;
        }
        let bucket = self.first_occupied()?;
        let mut at = self.heads[bucket];
        let mut node = &self.nodes[at as usize];
        let mut best = Smallest { time: node.time, node: at, before: NIL };
        let mut best_sequence = node.sequence;
        while node.next != NIL {
            let before = at;
            at = node.next;
            node = &self.nodes[at as usize];
            // Of equal times the earlier inserted: a wrapping difference, since the sequence wraps after 4 G events.
            let is_earlier = node.sequence.wrapping_sub(best_sequence) > 1 << 31;
            if node.time < best.time || (node.time == best.time && is_earlier) {
                best = Smallest { time: node.time, node: at, before };
                best_sequence = node.sequence;
            }
        }
        self.smallest = Some(best);
        self.smallest
    }

    /// The first occupied bucket at or after the cursor, once round.
    #[inline]
    fn first_occupied(&self) -> Option<usize> {
        let start = self.bucket_of(0);
        let mut index = start / 64;
        let mut word = self.occupied[index] & (u64::MAX << (start % 64));
        for _ in 0..=WORDS {
            if word != 0 {
                return Some(index * 64 + word.trailing_zeros() as usize);
            }
            index = (index + 1) % WORDS;
            word = self.occupied[index];
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use block::random::Stream;

    #[test]
    fn a_payload_keeps_kind_and_index() {
        let payload = Payload::new(15, 0x0fff_fffe);
        assert_eq!((payload.kind(), payload.index()), (15, 0x0fff_fffe));
    }

    /// Core test 2, first half: 5, 3, 5, 3 + 4.2 ms (overflow), 3 come out by time, then by insertion.
    #[test]
    fn core_2_events_come_out_by_time_then_by_insertion() {
        let mut wheel = EventWheel::with_capacity(8);
        for (index, time) in [(0, 5), (1, 3), (2, 5), (3, 3 + 4_200_000), (4, 3)] {
            wheel.insert(time, Payload::new(0, index));
        }
        assert_eq!(wheel.overflow.len(), 1, "4.2 ms lie beyond the horizon of 8192 x 512 ns");
        let order: Vec<_> = std::iter::from_fn(|| wheel.pop()).map(|(time, event)| (time, event.index())).collect();
        assert_eq!(order, [(3, 1), (3, 4), (5, 0), (5, 2), (4_200_003, 3)]);
    }

    /// Core test 2, second half: 10^6 random insertions and removals agree with a heap.
    #[test]
    fn core_2_a_million_random_operations_agree_with_a_heap() {
        let mut wheel = EventWheel::with_capacity(4_096);
        let mut reference = BinaryHeap::new();
        let mut stream = Stream::new(2);
        let (mut now, mut inserted) = (0, 0_u64);
        for _ in 0..1_000_000 {
            if reference.len() < 2_000 && (reference.is_empty() || stream.chance(1, 2)) {
                // Spans from nothing to ten times the horizon; many ties.
                let span = [0, 7, 600, 40_000, 4_000_000, 42_000_000][usize::try_from(stream.below(6)).unwrap()];
                let time = now + stream.below(span + 1);
                wheel.insert(time, Payload::new(1, u32::try_from(inserted % (1 << 28)).unwrap()));
                reference.push(Reverse((time, inserted)));
                inserted += 1;
            } else {
                let Reverse((time, number)) = reference.pop().unwrap();
                if stream.chance(1, 2) {
                    assert_eq!(wheel.next_time(), time);
                }
                let (popped, payload) = wheel.pop().unwrap();
                assert_eq!((popped, u64::from(payload.index())), (time, number % (1 << 28)));
                now = time;
            }
            assert_eq!(wheel.len(), reference.len());
        }
    }

    #[test]
    fn the_sequence_may_wrap() {
        let mut wheel = EventWheel::with_capacity(4);
        wheel.next_sequence = u32::MAX;
        wheel.insert(100, Payload::new(0, 1));
        wheel.insert(100, Payload::new(0, 2));
        assert_eq!(wheel.pop().unwrap().1.index(), 1);
        assert_eq!(wheel.pop_due(99), None);
        assert_eq!(wheel.pop_due(100).unwrap().1.index(), 2);
    }
}
