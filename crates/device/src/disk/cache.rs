//! The read cache: a few segments, each the last part of one stream. Source:
//! docs/specifications/devices.md, sections 4.5 and 4.6.

use hoistway_block::Sector;

#[derive(Copy, Clone, Debug)]
struct Segment {
    start: Sector,
    /// The sector after the last one.
    end: Sector,
    /// The sector after the last one that the host has read.
    read_to: Sector,
    last_use: u64,
}

impl Segment {
    /// Whether the host has not read all of it.
    fn has_unread(&self) -> bool {
        self.read_to < self.end
    }
}

/// No address is in it or adjacent to it.
const EMPTY: Segment = Segment { start: Sector::MAX, end: Sector::MAX, read_to: Sector::MAX, last_use: 0 };

/// The segments of a drive.
#[derive(Clone, Debug)]
pub(crate) struct ReadCache {
    segments: Vec<Segment>,
    segment_sectors: u64,
    uses: u64,
}

/// A segment by its number.
pub(crate) type SegmentId = usize;

impl ReadCache {
    pub(crate) fn new(segments: usize, segment_sectors: u64) -> Self {
        Self { segments: vec![EMPTY; segments.max(1)], segment_sectors, uses: 0 }
    }

    /// The segment that holds the whole range.
    #[inline]
    pub(crate) fn holding(&self, first: Sector, end: Sector) -> Option<SegmentId> {
        self.segments.iter().position(|segment| segment.start <= first && end <= segment.end)
    }

    /// Whether `first` is in a segment or at its end.
    #[inline]
    pub(crate) fn touches(&self, id: SegmentId, first: Sector) -> bool {
        let segment = self.segments[id];
        segment.start <= first && first <= segment.end
    }

    pub(crate) fn start(&self, id: SegmentId) -> Sector {
        self.segments[id].start
    }

    pub(crate) fn end(&self, id: SegmentId) -> Sector {
        self.segments[id].end
    }

    /// The host reads up to `end`.
    pub(crate) fn read(&mut self, id: SegmentId, end: Sector) {
        self.uses += 1;
        let segment = &mut self.segments[id];
        segment.last_use = self.uses;
        segment.read_to = segment.read_to.max(end);
    }

    /// Extends a segment to `end`, dropping its oldest sectors.
    pub(crate) fn extend(&mut self, id: SegmentId, end: Sector) {
        let segment = &mut self.segments[id];
        segment.end = segment.end.max(end);
        segment.start = segment.start.max(segment.end.saturating_sub(self.segment_sectors));
    }

    /// Adds a range read for the host to the segment that it touches, or replaces a segment: the
    /// least recently used one of those without unread data, or of all if every one has some.
    pub(crate) fn store(&mut self, first: Sector, end: Sector) -> SegmentId {
        let touched = (0..self.segments.len()).find(|id| self.touches(*id, first));
        let id = touched.unwrap_or_else(|| {
            let value = |id: &usize| (self.segments[*id].has_unread(), self.segments[*id].last_use);
            let least = (0..self.segments.len()).min_by_key(value).unwrap_or(0);
            self.segments[least] = Segment { start: first, end: first, read_to: first, last_use: 0 };
            least
        });
        self.extend(id, end);
        self.read(id, end);
        id
    }

    /// The range has been written: cached data of it is stale. A segment keeps the part before the
    /// range, or the part after it if there is nothing before.
    pub(crate) fn invalidate(&mut self, first: Sector, end: Sector) {
        for segment in &mut self.segments {
            if segment.start >= end || first >= segment.end {
                continue;
            }
            if segment.start < first {
                segment.end = first;
            } else if end < segment.end {
                segment.start = end;
            } else {
                *segment = EMPTY;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_keeps_its_last_part() {
        let mut cache = ReadCache::new(2, 100);
        let id = cache.store(1_000, 1_080);
        assert_eq!(cache.store(1_080, 1_150), id);
        assert_eq!(cache.holding(1_050, 1_150), Some(id));
        assert_eq!(cache.holding(1_049, 1_051), None);
        assert_eq!(cache.store(500, 900), 1 - id, "longer than a segment");
        assert_eq!((cache.holding(800, 900), cache.holding(799, 900)), (Some(1 - id), None));
    }

    #[test]
    fn the_segment_longest_not_used_is_overwritten() {
        let mut cache = ReadCache::new(2, 100);
        let (a, b) = (cache.store(0, 8), cache.store(1_000, 1_008));
        cache.read(a, 4);
        assert_eq!(cache.store(2_000, 2_008), b);
        assert_eq!(cache.holding(1_000, 1_008), None);
    }

    #[test]
    fn what_has_been_read_is_overwritten_before_what_has_been_read_ahead() {
        let mut cache = ReadCache::new(2, 100);
        let (light, heavy) = (cache.store(0, 8), cache.store(1_000, 1_008));
        cache.extend(light, 50);
        for first in (2_000..65_000).step_by(1_000) {
            assert_eq!(cache.store(first, first + 8), heavy);
        }
        assert_eq!(cache.holding(8, 50), Some(light));
        cache.extend(heavy, 64_020);
        assert_eq!(cache.store(70_000, 70_008), light, "both have some");
    }

    #[test]
    fn written_sectors_leave() {
        let mut cache = ReadCache::new(3, 100);
        for first in [100, 300, 500] {
            cache.store(first, first + 50);
        }
        cache.invalidate(130, 310);
        cache.invalidate(490, 600);
        assert!(cache.holding(100, 130).is_some() && cache.holding(100, 131).is_none());
        assert!(cache.holding(310, 350).is_some() && cache.holding(309, 350).is_none());
        assert!(cache.holding(500, 501).is_none());
    }
}
