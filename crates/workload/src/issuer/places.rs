//! Offset and size of a thread's next I/O.

use hoistway_block::random::Stream;

use super::directions::Block;
use crate::files::Files;
use crate::job::{Direction, Job};
use crate::pattern::Region;
use crate::sizes::Sizes;

/// The files of a thread and the sizes of its I/Os. Every block that is drawn lies in one file.
#[derive(Clone, Debug)]
pub(super) struct Places {
    sizes: [Sizes; 3],
    sizes_by_pattern: bool,
    files: Files,
}

impl Places {
    /// The places of a thread in these parts of its files; `offsets` draws the offsets.
    pub(super) fn new(job: &Job, regions: &[Region], area_bytes: u64, offsets: Stream) -> Self {
        let sizes =
            Direction::ALL.map(|direction| Sizes::new(job.shape.block_sizes.of(direction), job.shape.sizes_unaligned));
        let files = Files::new(job, regions, area_bytes, offsets);
        Self { sizes, sizes_by_pattern: job.shape.sizes_by_pattern, files }
    }

    /// The size of all I/Os of a direction, if it is the same.
    pub(super) fn fixed_bytes(&self, direction: Direction) -> Option<u32> {
        match &self.sizes[direction as usize] {
            Sizes::Fixed(bytes) if !self.sizes_by_pattern => Some(*bytes),
            _ => None,
        }
    }

    /// The offset of the next I/O of this size, in a thread with one file and one size.
    #[inline(always)]
    pub(super) fn next_offset_bytes(&mut self, direction: Direction, length_bytes: u32) -> u64 {
        let draws = self.files.will_draw(direction);
        self.files.next(direction, u64::from(length_bytes), draws)
    }

    /// The next block; `None` if nothing more fits into the pass.
    pub(super) fn draw(&mut self, direction: Direction, choices: &mut Stream) -> Option<Block> {
        let draws = self.files.will_draw(direction);
        let sizes = &self.sizes[if self.sizes_by_pattern { usize::from(draws) } else { direction as usize }];
        let mut length_bytes = sizes.draw(choices);
        while !draws && !self.files.has_room(direction, length_bytes.into()) {
            if self.files.has_room(direction, sizes.smallest_bytes().into()) {
                length_bytes = sizes.draw(choices);
            } else if !self.files.leave_file() {
                return None;
            }
        }
        let offset_bytes = self.files.next(direction, u64::from(length_bytes), draws);
        let trimmed = self.files.trimmed(direction, offset_bytes, u64::from(length_bytes));
        Some((offset_bytes, u32::try_from(trimmed).unwrap_or(length_bytes)))
    }

    /// Begins another pass.
    pub(super) fn rewind(&mut self) {
        self.files.rewind();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_ends_where_no_block_fits() {
        let region = Region { start_bytes: 8192, end_bytes: 8192 + 10_000 };
        let mut places = Places::new(&Job::default(), &[region], region.end_bytes, Stream::new(1));
        let mut choices = Stream::new(2);
        let mut draw = |places: &mut Places| places.draw(Direction::Read, &mut choices);
        assert_eq!(places.fixed_bytes(Direction::Read), Some(4096));
        for _ in 0..2 {
            assert_eq!(draw(&mut places), Some((8192, 4096)));
            assert_eq!(draw(&mut places), Some((12_288, 4096)));
            assert_eq!(draw(&mut places), None, "1,808 bytes are left");
            places.rewind();
        }
    }
}
