//! Offsets of a thread's I/Os: contiguous, strided, backwards, random once per block, random by a
//! distribution.
//!
//! [`Offsets`] knows the thread's part of the area and answers one question, [`Offsets::next`].
//! Nothing allocates after construction. Random blocks are a permutation computed on the fly, so a
//! map of a 20 TB device costs no memory.

use hoistway_block::random::Stream;

use crate::distribution::Ranks;
use crate::job::{Direction, Distribution, Job, Pattern, Zones};
use crate::visited::Visited;

const MIB: u64 = 1 << 20;

/// The next multiple of 1 MiB, saturating.
pub fn round_up_to_mib(bytes: u64) -> u64 {
    bytes.checked_next_multiple_of(MIB).unwrap_or(u64::MAX)
}

/// The part of an area that one thread uses.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// First byte.
    pub start_bytes: u64,
    /// The byte after the last one.
    pub end_bytes: u64,
}

/// Generates the offsets of one thread.
#[derive(Clone, Debug)]
pub struct Offsets {
    region: Region,
    /// The file that contains the region.
    file: Region,
    /// Whether a direction that has reached the end starts again by itself.
    wraps: bool,
    pattern: Pattern,
    random_percent: [u8; 3],
    align_bytes: [u64; 3],
    blocks: [u64; 3],
    /// End of the previous I/O of each direction; `None` before the first and after a rewind.
    last_end: [Option<u64>; 3],
    last_start: [u64; 3],
    /// I/Os left of the run that started with a drawn offset, over all directions.
    run_left: u32,
    once: Option<Once>,
    visited: Option<Box<Visited>>,
    ranks: Option<Box<[Ranks; 3]>>,
    zone: Option<Box<Zone>>,
    random: Stream,
}

/// The current zone.
#[derive(Clone, Debug)]
struct Zone {
    zones: Zones,
    start_bytes: u64,
    done_bytes: u64,
}

impl Offsets {
    /// The generator of `job` on a region of a file, which must hold the largest block of every
    /// direction in use.
    pub fn new(job: &Job, region: Region, file: Region, mut random: Stream) -> Self {
        let bytes = region.end_bytes - region.start_bytes;
        let aligns = Direction::ALL.map(|direction| {
            let given = *job.shape.block_align_bytes.of(direction);
            u64::from(if given > 0 { given } else { job.shape.block_sizes.of(direction).smallest_bytes() }).max(1)
        });
        let blocks = aligns.map(|align| (bytes / align).max(1));
        let first = job.shape.mix.directions().first().map_or(0, |direction| *direction as usize);
        let once = job.uses_random_map().then(|| Once::new(blocks[first], &mut random));
        let visited = (job.trims_to_map() && blocks[first] <= Visited::MOST_BLOCKS)
            .then(|| Box::new(Visited::new(blocks[first])));
        let ranks = (job.shape.distribution != Distribution::Uniform).then(|| {
            let of = |direction: Direction| {
                let size = (blocks[direction as usize], aligns[direction as usize]);
                Ranks::new(&job.shape.distribution, job.shape.centre_millionths, direction, size)
            };
            Box::new(Direction::ALL.map(of))
        });
        let zone = job.area.zones.map(|zones| Box::new(Zone { zones, start_bytes: region.start_bytes, done_bytes: 0 }));
        let percent = job.shape.random_percent;
        Self {
            region,
            file,
            wraps: job.times.time_based,
            pattern: job.shape.pattern,
            random_percent: [percent.read, percent.write, percent.trim],
            align_bytes: aligns,
            blocks,
            last_end: [None; 3],
            last_start: [region.start_bytes; 3],
            run_left: 0,
            once,
            visited,
            ranks,
            zone,
            random,
        }
    }

    /// Starts a new pass: sequential patterns return to the start, the random map is cleared.
    pub fn rewind(&mut self) {
        self.last_end = [None; 3];
        if let Some(zone) = &mut self.zone {
            (zone.start_bytes, zone.done_bytes) = (self.region.start_bytes, 0);
        }
        if let Some(once) = &mut self.once {
            once.restart(&mut self.random);
        }
        if let Some(visited) = &mut self.visited {
            visited.clear();
        }
    }

    /// The length of an I/O that was just placed, trimmed as in fio so that no block is visited
    /// twice in a pass.
    #[inline]
    pub fn trimmed(&mut self, direction: Direction, offset_bytes: u64, length_bytes: u64) -> u64 {
        let Some(visited) = &mut self.visited else { return length_bytes };
        let index = direction as usize;
        let align = self.align_bytes[index];
        let taken = visited.take((offset_bytes - self.region.start_bytes) / align, length_bytes / align);
        let length_bytes = length_bytes.min(taken * align);
        self.last_end[index] = Some(offset_bytes + length_bytes);
        length_bytes
    }

    /// Whether the next I/O draws its offset (as far as that is known before its length).
    #[inline]
    pub fn will_draw(&mut self, direction: Direction) -> bool {
        let percent = self.random_percent[direction as usize];
        match self.pattern {
            Pattern::Sequential { .. } => false,
            Pattern::Random { .. } => {
                self.run_left == 0 && (percent >= 100 || self.random.chance(u64::from(percent), 100))
            }
        }
    }

    /// Whether the next I/O, which does not draw its offset, fits into the pass.
    #[inline]
    pub fn has_room(&self, direction: Direction, length_bytes: u64) -> bool {
        match self.pattern {
            Pattern::Sequential { skip_bytes } if self.zone.is_none() => {
                self.following(direction as usize, length_bytes, skip_bytes).is_some()
            }
            _ => true,
        }
    }

    /// The offset in bytes, from the start of the area, of the next I/O of `length_bytes`, which
    /// must fit the region; `draw` is the result of `will_draw`.
    #[inline]
    pub fn next(&mut self, direction: Direction, length_bytes: u64, draw: bool) -> u64 {
        let index = direction as usize;
        if self.zone.is_some() {
            self.walk_zones(length_bytes);
        }
        let offset_bytes = match self.pattern {
            Pattern::Sequential { skip_bytes } => self.follow(index, length_bytes, skip_bytes),
            Pattern::Random { run, .. } if draw => {
                self.run_left = run.saturating_sub(1);
                self.draw(index, length_bytes)
            }
            Pattern::Random { repeat_offset, .. } => {
                let in_run = self.run_left > 0;
                self.run_left = self.run_left.saturating_sub(1);
                if in_run && repeat_offset {
                    self.last_start[index].min(self.region.end_bytes - length_bytes)
                } else if self.zone.is_some() {
                    self.follow(index, length_bytes, 0)
                } else {
                    // There is nothing to continue with at the end, so another offset is drawn, as
                    // in fio.
                    self.following(index, length_bytes, 0).unwrap_or_else(|| self.draw(index, length_bytes))
                }
            }
        };
        self.last_start[index] = offset_bytes;
        self.last_end[index] = Some(offset_bytes + length_bytes);
        offset_bytes
    }

    /// Moves to the next zone if enough was transferred in this one; the first zone follows the
    /// last.
    #[cold]
    fn walk_zones(&mut self, length_bytes: u64) {
        let Some(zone) = &mut self.zone else { return };
        if zone.done_bytes >= zone.zones.size_bytes {
            let stride = zone.zones.range_bytes.saturating_add(zone.zones.skip_bytes);
            zone.start_bytes = zone.start_bytes.saturating_add(stride);
            zone.done_bytes = 0;
            self.last_end = [None; 3];
        }
        if zone.start_bytes.saturating_add(length_bytes) > self.region.end_bytes {
            zone.start_bytes = self.region.start_bytes;
        }
        zone.done_bytes = zone.done_bytes.saturating_add(length_bytes);
    }

    /// Where I/Os may start now: the zone, or the whole region.
    fn window(&self) -> Region {
        match &self.zone {
            None => self.region,
            Some(zone) => {
                let end_bytes = zone.start_bytes.saturating_add(zone.zones.range_bytes).min(self.region.end_bytes);
                Region { start_bytes: zone.start_bytes, end_bytes }
            }
        }
    }

    /// The position after the last I/O, shifted by `skip_bytes`; `None` if the pass has ended. The
    /// rules are those of fio 3.33 for a file, determined from its iologs.
    fn following(&self, index: usize, length_bytes: u64, skip_bytes: i64) -> Option<u64> {
        let Region { start_bytes, end_bytes } = self.region;
        let region_bytes = end_bytes - start_bytes;
        let file_bytes = self.file.end_bytes - self.file.start_bytes;
        let skipped_bytes = start_bytes - self.file.start_bytes;
        let next = match self.last_end[index] {
            // Going backwards, fio starts at the end only if the job does not start at the
            // beginning of the file, and it subtracts the job's offset in the file from that end.
            None if skip_bytes < 0 && skipped_bytes > 0 => {
                region_bytes.checked_sub(skipped_bytes).and_then(|end| end.checked_add_signed(skip_bytes))
            }
            None => Some(0),
            Some(end) if self.wraps && end >= end_bytes => Some(0),
            // A pass ends at the end of the file, whatever `skip_bytes` is.
            Some(end) if end >= self.file.end_bytes => return None,
            Some(end) => (end - start_bytes).checked_add_signed(skip_bytes),
        };
        let next = match next {
            // Beyond the end of the file the pattern continues at the start, and before the start
            // it continues at the end.
            Some(next) if skip_bytes > 0 && next >= file_bytes => 0,
            Some(next) => next,
            None => region_bytes.checked_sub(skip_bytes.unsigned_abs())?,
        };
        // An I/O that starts in the region may end after it, but not after the file.
        let fits = next < region_bytes && start_bytes + next + length_bytes <= self.file.end_bytes;
        fits.then_some(start_bytes + next)
    }

    /// As [`Offsets::following`], but starts the next pass where one has ended. In zones a pass
    /// never ends.
    #[inline]
    fn follow(&self, index: usize, length_bytes: u64, skip_bytes: i64) -> u64 {
        if self.zone.is_some() {
            return self.follow_in_zone(index, length_bytes, skip_bytes);
        }
        self.following(index, length_bytes, skip_bytes).unwrap_or(self.region.start_bytes)
    }

    /// The position after the last I/O, shifted by `skip_bytes`; wraps at both ends of the zone.
    #[cold]
    fn follow_in_zone(&self, index: usize, length_bytes: u64, skip_bytes: i64) -> u64 {
        let Region { start_bytes, end_bytes } = self.window();
        // An I/O that starts in the zone may extend beyond it, as in fio.
        let last_fit = (end_bytes - 1).min(self.region.end_bytes - length_bytes).max(start_bytes);
        let wrapped = if skip_bytes < 0 {
            end_bytes.saturating_sub(skip_bytes.unsigned_abs()).clamp(start_bytes, last_fit)
        } else {
            start_bytes
        };
        match self.last_end[index].map_or(Some(start_bytes), |end| end.checked_add_signed(skip_bytes)) {
            Some(offset) if (start_bytes..=last_fit).contains(&offset) => offset,
            _ => wrapped,
        }
    }

    #[inline]
    fn draw(&mut self, index: usize, length_bytes: u64) -> u64 {
        if self.zone.is_some() {
            return self.draw_in_zone(index, length_bytes);
        }
        let blocks = self.blocks[index];
        if let Some(visited) = &mut self.visited {
            let drawn = self.random.below(blocks);
            let block = visited.next_free(drawn).unwrap_or_else(|| {
                visited.clear();
                drawn
            });
            return self.region.start_bytes + block * self.align_bytes[index];
        }
        let block = match (&mut self.once, &self.ranks) {
            (Some(once), _) => once.next(&mut self.random),
            (None, Some(ranks)) => ranks[index].draw(&mut self.random),
            (None, None) => self.random.below(blocks),
        };
        let align = self.align_bytes[index];
        let offset = self.region.start_bytes + block * align;
        if offset <= self.region.end_bytes - length_bytes {
            return offset;
        }
        // A long block near the end moves down to the last aligned position where it fits.
        let room = self.region.end_bytes - self.region.start_bytes - length_bytes;
        self.region.start_bytes + room / align * align
    }

    /// A block of the zone, uniformly distributed.
    #[cold]
    fn draw_in_zone(&mut self, index: usize, length_bytes: u64) -> u64 {
        let Region { start_bytes, end_bytes } = self.window();
        let align = self.align_bytes[index];
        let block = self.random.below(((end_bytes - start_bytes) / align).max(1));
        (start_bytes + block * align).min(self.region.end_bytes - length_bytes)
    }
}

/// Every number below `count` once, in an order that a key determines, without memory in proportion
/// to `count`.
///
/// It is a bijection on the next power of two (odd multiplications and xor-shifts, each
/// invertible), iterated until the value is below `count` (cycle walking). That takes less than two
/// steps on average, and it ends because the cycle of a permutation returns to its start.
#[derive(Clone, Debug)]
struct Once {
    count: u64,
    mask: u64,
    shift: u32,
    key: [u64; 3],
    position: u64,
}

impl Once {
    fn new(count: u64, random: &mut Stream) -> Self {
        let bits = 64 - (count - 1).leading_zeros().min(63);
        let mask = if bits >= 64 { u64::MAX } else { (1 << bits) - 1 };
        let mut once = Self { count, mask, shift: bits.div_ceil(2), key: [0; 3], position: 0 };
        once.restart(random);
        once
    }

    fn restart(&mut self, random: &mut Stream) {
        self.key = [random.next(), random.next(), random.next()];
        self.position = 0;
    }

    fn next(&mut self, random: &mut Stream) -> u64 {
        if self.position >= self.count {
            self.restart(random);
        }
        let mut value = self.position;
        self.position += 1;
        loop {
            value = self.permute(value);
            if value < self.count {
                return value;
            }
        }
    }

    fn permute(&self, mut value: u64) -> u64 {
        for key in self.key {
            value = value.wrapping_mul(key | 1).wrapping_add(key >> 32) & self.mask;
            value ^= value >> self.shift;
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offsets(job: &Job, bytes: u64) -> Offsets {
        let region = Region { start_bytes: 0, end_bytes: bytes };
        Offsets::new(job, region, region, Stream::new(7))
    }

    fn take(offsets: &mut Offsets, count: usize) -> Vec<u64> {
        (0..count)
            .map(|_| {
                let draw = offsets.will_draw(Direction::Read);
                offsets.next(Direction::Read, 4096, draw)
            })
            .collect()
    }

    #[test]
    fn a_dense_pattern_wraps_at_the_end_of_its_region() {
        assert_eq!(take(&mut offsets(&Job::default(), 12_288), 4), [0, 4096, 8192, 0]);
    }

    #[test]
    fn a_map_visits_every_block_once_per_pass_and_in_another_order_in_the_next() {
        for blocks in [1_u64, 2, 3, 1000, 4096, 4097] {
            let job = Job::default().with(|job| job.shape.pattern = Pattern::Random { run: 1, repeat_offset: false });
            let mut offsets = offsets(&job, blocks * 4096);
            let count = usize::try_from(blocks).expect("small");
            let (first, second) = (take(&mut offsets, count), take(&mut offsets, count));
            for pass in [&first, &second] {
                let mut sorted = pass.clone();
                sorted.sort_unstable();
                assert_eq!(sorted, (0..blocks).map(|block| block * 4096).collect::<Vec<_>>(), "{blocks} blocks");
            }
            assert!(blocks < 1000 || first != second, "{blocks} blocks");
        }
    }

    #[test]
    fn the_map_looks_random_neighbours_in_time_are_far_apart() {
        let job = Job::default().with(|job| job.shape.pattern = Pattern::Random { run: 1, repeat_offset: false });
        let places = take(&mut offsets(&job, 4096 * 100_000), 100_000);
        let mean: u64 = places.windows(2).map(|pair| pair[0].abs_diff(pair[1]) / 4096).sum::<u64>() / 99_999;
        // Two uniform points are a third of the range apart on average: 33,333; 5 % tolerance.
        assert!((31_666..35_000).contains(&mean), "mean distance {mean} blocks");
    }

    #[test]
    fn a_block_that_would_stick_out_moves_down() {
        let job = Job::default().with(|job| {
            job.shape.pattern = Pattern::Random { run: 1, repeat_offset: false };
            job.shape.random_map = false;
        });
        let mut offsets = offsets(&job, 65_536);
        for _ in 0..1000 {
            let offset = offsets.next(Direction::Read, 16_384, true);
            assert!(offset + 16_384 <= 65_536 && offset.is_multiple_of(4096));
        }
    }
}
