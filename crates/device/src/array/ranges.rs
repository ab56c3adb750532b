//! Sorted lists of disjoint ranges within a row.

/// A half-open range of sectors.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) struct Range {
    pub(super) start: u32,
    pub(super) end: u32,
}

impl Range {
    pub(super) fn sectors(self) -> u32 {
        self.end - self.start
    }
}

/// Adds a range, merging ranges that touch it; returns the number of sectors that were not covered
/// before.
pub(super) fn add(ranges: &mut Vec<Range>, added: Range) -> u32 {
    let first = ranges.partition_point(|range| range.end < added.start);
    let last = ranges.partition_point(|range| range.start <= added.end);
    if first == last {
        ranges.insert(first, added);
        return added.sectors();
    }
    let covered: u32 = ranges[first..last].iter().map(|range| range.sectors()).sum();
    let merged = Range { start: added.start.min(ranges[first].start), end: added.end.max(ranges[last - 1].end) };
    ranges[first] = merged;
    ranges.drain(first + 1..last);
    merged.sectors() - covered
}

/// Removes a range; returns the number of sectors that were covered.
pub(super) fn subtract(ranges: &mut Vec<Range>, taken: Range) -> u32 {
    let first = ranges.partition_point(|range| range.end <= taken.start);
    let last = ranges.partition_point(|range| range.start < taken.end);
    if first >= last {
        return 0;
    }
    let before: u32 = ranges[first..last].iter().map(|range| range.sectors()).sum();
    let left = Range { start: ranges[first].start, end: taken.start };
    let right = Range { start: taken.end, end: ranges[last - 1].end };
    let kept = [left, right].into_iter().filter(|range| range.start < range.end);
    let after: u32 = kept.clone().map(|range| range.sectors()).sum();
    ranges.splice(first..last, kept);
    before - after
}

/// The first sector at or above `at` that no range covers.
pub(super) fn covered_until(ranges: &[Range], at: u32) -> u32 {
    let place = ranges.partition_point(|range| range.end <= at);
    ranges.get(place).filter(|range| range.start <= at).map_or(at, |range| range.end)
}

/// The end of the last sector below `at` that no range covers.
pub(super) fn covered_back_to(ranges: &[Range], at: u32) -> u32 {
    let place = ranges.partition_point(|range| range.start < at);
    place.checked_sub(1).map(|place| ranges[place]).filter(|range| range.end >= at).map_or(at, |range| range.start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoistway_block::random::Stream;

    fn range(start: u32, end: u32) -> Range {
        Range { start, end }
    }

    #[test]
    fn lists_agree_with_a_bitmap() {
        let (mut ranges, mut bitmap, mut stream) = (Vec::new(), [false; 64], Stream::new(1));
        for _ in 0..20_000 {
            let start = u32::try_from(stream.below(63)).unwrap();
            let end = start + 1 + u32::try_from(stream.below(u64::from(64 - start))).unwrap();
            let is_added = stream.chance(1, 2);
            let changed = bitmap[start as usize..end as usize].iter_mut().filter(|bit| **bit != is_added);
            let expected = changed.map(|bit| *bit = is_added).count();
            let change =
                if is_added { add(&mut ranges, range(start, end)) } else { subtract(&mut ranges, range(start, end)) };
            assert_eq!(change as usize, expected);
            assert!(ranges.windows(2).all(|pair| pair[0].end < pair[1].start), "apart and in order: {ranges:?}");
            let covered: usize = ranges.iter().map(|range| range.sectors() as usize).sum();
            assert_eq!(covered, bitmap.iter().filter(|bit| **bit).count());
            let until = (start as usize..64).find(|place| !bitmap[*place]).unwrap_or(64);
            assert_eq!(covered_until(&ranges, start) as usize, until);
            let back_to = (0..end as usize).rev().find(|place| !bitmap[*place]).map_or(0, |place| place + 1);
            assert_eq!(covered_back_to(&ranges, end) as usize, back_to);
        }
    }
}
