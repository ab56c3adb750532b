//! The controller's read-ahead: detects sequential streams and determines how far ahead to read.
//!
//! * Cost: a scan of the table per read.
//! * Source: docs/specifications/devices.md, section 5.3.

use block::{Extent, Sector};

#[derive(Copy, Clone, Debug, Default)]
struct Entry {
    /// Where the stream's next read is expected.
    next_sector: Sector,
    /// Number of reads that began at the expected sector.
    hits: u64,
    prefetched_to: Sector,
    /// Number of the last use, counted over all streams, for LRU replacement; 0 = unused.
    last_use: u64,
}

/// The streams that the controller tracks.
#[derive(Clone, Debug)]
pub(super) struct Streams {
    entries: Vec<Entry>,
    uses: u64,
    trigger: u64,
    ahead_sectors: u64,
}

/// A range to read ahead for a stream.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) struct Ahead {
    /// The stream, for [`Streams::prefetched`].
    pub(super) stream: usize,
    pub(super) from: Sector,
    pub(super) to: Sector,
}

impl Streams {
    pub(super) fn new(streams: usize, trigger: u64, ahead_sectors: u64) -> Self {
        Self { entries: vec![Entry::default(); streams.max(1)], uses: 0, trigger, ahead_sectors }
    }

    /// Records a read; returns the range to read ahead, if `trigger` reads have continued the
    /// stream and something of that range has not been requested.
    pub(super) fn note(&mut self, read: Extent) -> Option<Ahead> {
        self.uses += 1;
        let known = |entry: &Entry| entry.last_use > 0 && entry.next_sector == read.first_sector;
        let stream = match self.entries.iter().position(known) {
            Some(stream) => {
                self.entries[stream].hits += 1;
                stream
            }
            None => {
                let oldest = (0..self.entries.len()).min_by_key(|&stream| self.entries[stream].last_use).unwrap_or(0);
                self.entries[oldest] = Entry::default();
                oldest
            }
        };
        let entry = &mut self.entries[stream];
        entry.next_sector = read.end();
        entry.last_use = self.uses;
        let (from, to) = (entry.prefetched_to.max(read.end()), read.end() + self.ahead_sectors);
        (entry.hits >= self.trigger && from < to).then_some(Ahead { stream, from, to })
    }

    /// The stream's data up to `sector` has been requested.
    pub(super) fn prefetched(&mut self, stream: usize, sector: Sector) {
        self.entries[stream].prefetched_to = sector;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_followed_from_the_trigger_on() {
        let mut streams = Streams::new(2, 2, 100);
        assert_eq!(streams.note(Extent::new(0, 10)), None);
        assert_eq!(streams.note(Extent::new(10, 10)), None);
        assert_eq!(streams.note(Extent::new(20, 10)), Some(Ahead { stream: 0, from: 30, to: 130 }));
        streams.prefetched(0, 128);
        assert_eq!(streams.note(Extent::new(30, 10)), Some(Ahead { stream: 0, from: 128, to: 140 }));
    }

    #[test]
    fn the_least_recently_used_stream_is_forgotten() {
        let mut streams = Streams::new(2, 1, 100);
        streams.note(Extent::new(0, 10));
        streams.note(Extent::new(1_000, 10));
        assert!(streams.note(Extent::new(10, 10)).is_some());
        streams.note(Extent::new(5_000, 10));
        assert!(streams.note(Extent::new(1_010, 10)).is_none(), "its place was taken");
    }
}
