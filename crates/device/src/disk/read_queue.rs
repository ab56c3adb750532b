//! Reads that wait for the media.

use hoistway_block::{Nanos, Sector};

use super::geometry::Place;

/// A read that has to come from the media.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Read {
    pub(crate) tag: u32,
    /// Its number in the order of submission.
    pub(crate) sequence: u64,
    pub(crate) first: Sector,
    pub(crate) sectors: u32,
    pub(crate) submitted_at: Nanos,
    pub(crate) place: Place,
    /// Waiting reads that end where this one begins.
    predecessors: u32,
}

impl Read {
    pub(crate) fn new(tag: u32, sequence: u64, submitted_at: Nanos, first: Sector, sectors: u32, place: Place) -> Self {
        Self { tag, sequence, first, sectors, submitted_at, place, predecessors: 0 }
    }

    #[inline]
    pub(crate) fn end(&self) -> Sector {
        self.first + u64::from(self.sectors)
    }

    /// Whether a read that this one continues is still waiting.
    #[inline]
    pub(crate) fn continues_a_waiting_one(&self) -> bool {
        self.predecessors > 0
    }
}

/// The waiting reads, unordered; predecessors are counted as reads are added and removed.
#[derive(Clone, Debug)]
pub(crate) struct ReadQueue(Vec<Read>);

impl ReadQueue {
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        Self(Vec::with_capacity(capacity))
    }

    #[inline]
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Read> {
        self.0.iter()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    pub(crate) fn push(&mut self, mut read: Read) {
        let (first, end) = (read.first, read.end());
        for other in &mut self.0 {
            read.predecessors += u32::from(other.end() == first);
            other.predecessors += u32::from(other.first == end);
        }
        self.0.push(read);
    }

    /// Removes the read at an index of [`ReadQueue::iter`].
    pub(crate) fn take(&mut self, index: usize) -> Read {
        let read = self.0.swap_remove(index);
        let end = read.end();
        for other in &mut self.0 {
            other.predecessors -= u32::from(other.first == end);
        }
        read
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn predecessors_are_those_waiting() {
        let mut queue = ReadQueue::with_capacity(4);
        for (tag, first) in [(0, 16), (1, 0), (2, 8), (3, 8)] {
            queue.push(Read::new(tag, u64::from(tag), 0, first, 8, Place::default()));
        }
        let blocked = |queue: &ReadQueue| -> Vec<u32> {
            let mut tags: Vec<_> = queue.iter().filter(|r| r.continues_a_waiting_one()).map(|r| r.tag).collect();
            tags.sort_unstable();
            tags
        };
        assert_eq!(blocked(&queue), [0, 2, 3]);
        queue.take(1);
        assert_eq!(blocked(&queue), [0]);
        for tag in [2, 3] {
            let index = queue.iter().position(|read| read.tag == tag).unwrap();
            queue.take(index);
        }
        assert!(blocked(&queue).is_empty());
    }
}
