//! The controller's read-ahead: detects sequential streams and determines how far ahead to read.
//!
//! The read cache is shared equally by the streams: each may have its share of it ahead of its
//! reader, so that a fast stream cannot take the memory in which the data of a slow one waits. A
//! stream that ended keeps its share until another has nothing ahead and finds no room.
//!
//! * Cost: a scan of the table per read.
//! * Source: docs/specifications/devices.md, section 5.3.

use hoistway_block::{Extent, Sector, SectorRange};

/// More would make the scan per read longer than what it saves.
const MOST_STREAMS: usize = 1_024;

#[derive(Copy, Clone, Debug, Default)]
struct Entry {
    /// Where the stream's next read is expected.
    next_sector: Sector,
    /// Number of reads that began at the expected sector.
    hits: u64,
    /// The clock at the last read; 0 = unused.
    read_at: u64,
}

/// The streams that the controller tracks.
#[derive(Clone, Debug)]
pub(super) struct Streams {
    entries: Vec<Entry>,
    /// Sectors read so far, and one for the start: the clock of the read cache.
    clock: u64,
    trigger: u64,
    ahead_sectors: u64,
    cache_sectors: u64,
    line_sectors: u64,
}

impl Streams {
    /// Streams whose read-ahead is kept in a cache of `lines` lines. The table has room for as many
    /// as could have one line that is read and one ahead of it.
    pub(super) fn new(lines: usize, line_sectors: u64, trigger: u64, ahead_sectors: u64) -> Self {
        let entries = vec![Entry::default(); (lines / 2).clamp(1, MOST_STREAMS)];
        let cache_sectors = (lines as u64).saturating_mul(line_sectors);
        Self { entries, clock: 1, trigger, ahead_sectors, cache_sectors, line_sectors }
    }

    /// Sectors read so far.
    pub(super) fn clock(&self) -> u64 {
        self.clock
    }

    /// Records a read; returns the range that should be in the cache now, if `trigger` reads have
    /// continued the stream.
    pub(super) fn note(&mut self, read: Extent) -> Option<SectorRange> {
        self.clock += u64::from(read.sectors);
        let (mut known, mut oldest, mut others) = (None, 0, 0);
        for (at, entry) in self.entries.iter().enumerate() {
            if entry.read_at > 0 && entry.next_sector == read.first_sector && known.is_none() {
                known = Some(at);
                continue;
            }
            if entry.read_at < self.entries[oldest].read_at {
                oldest = at;
            }
            others += u64::from(entry.hits >= self.trigger);
        }
        let entry = match known {
            Some(at) => {
                let entry = &mut self.entries[at];
                entry.hits += 1;
                entry
            }
            None => {
                let entry = &mut self.entries[oldest];
                others -= u64::from(entry.hits >= self.trigger);
                *entry = Entry::default();
                entry
            }
        };
        entry.next_sector = read.end();
        entry.read_at = self.clock;
        // The line that is being read is part of the share.
        let share = (self.cache_sectors / (others + 1)).saturating_sub(self.line_sectors);
        let sectors = self.ahead_sectors.min(share);
        (entry.hits >= self.trigger && sectors > 0).then_some(SectorRange { first_sector: read.end(), sectors })
    }

    /// A line that begins at `sector` was taken from its stream unread: that stream has ended.
    /// Returns what was read ahead for it.
    pub(super) fn end(&mut self, sector: Sector) -> Option<SectorRange> {
        let line = SectorRange { first_sector: sector, sectors: self.line_sectors };
        let ahead = |entry: &Entry| SectorRange { first_sector: entry.next_sector, sectors: self.ahead_sectors };
        let has_line =
            |entry: &Entry| entry.hits >= self.trigger && (ahead(entry).holds(sector) || line.holds(entry.next_sector));
        let at = self.entries.iter().position(has_line)?;
        let range = ahead(&self.entries[at]);
        self.entries[at] = Entry::default();
        Some(range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(first_sector: Sector, sectors: u64) -> Option<SectorRange> {
        Some(SectorRange { first_sector, sectors })
    }

    #[test]
    fn a_stream_is_followed_from_the_trigger_on() {
        let mut streams = Streams::new(100, 10, 2, 100);
        assert_eq!(streams.note(Extent::new(0, 10)), None);
        assert_eq!(streams.note(Extent::new(10, 10)), None);
        assert_eq!(streams.note(Extent::new(20, 10)), range(30, 100));
        assert_eq!(streams.note(Extent::new(30, 10)), range(40, 100));
    }

    #[test]
    fn the_least_recently_used_stream_is_forgotten() {
        let mut streams = Streams::new(4, 100, 1, 100);
        streams.note(Extent::new(0, 10));
        streams.note(Extent::new(1_000, 10));
        assert!(streams.note(Extent::new(10, 10)).is_some());
        streams.note(Extent::new(5_000, 10));
        assert!(streams.note(Extent::new(1_010, 10)).is_none(), "its place was taken");
    }

    #[test]
    fn streams_share_the_cache_until_they_end() {
        let mut streams = Streams::new(100, 10, 1, 500);
        let read = |streams: &mut Streams, at| {
            streams.note(Extent::new(at, 10));
            streams.note(Extent::new(at + 10, 10)).map(|ahead| ahead.sectors)
        };
        let ahead = [0, 10_000, 20_000, 30_000].map(|at| read(&mut streams, at));
        assert_eq!(ahead, [500, 490, 323, 240].map(Some), "of 1,000 sectors, less the line that is read");
        assert_eq!(streams.end(10_040), range(10_020, 500));
        assert_eq!(streams.end(10_040), None);
        assert_eq!(streams.note(Extent::new(20, 10)), range(30, 323));
        assert_eq!(streams.note(Extent::new(10_020, 10)), None, "a new stream");
    }
}
