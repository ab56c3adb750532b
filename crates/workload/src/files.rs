//! The files of one thread: which of them the next I/O uses, and its offset there.
//!
//! The files of a thread are consecutive equal parts of its area. With a single file, the usual
//! case, this adds one branch to [`Offsets`]. The order is that of fio 3.33's `file_service_type`,
//! determined from its iologs.

use hoistway_block::random::Stream;

use crate::issuer::{part_of, whole_blocks};
use crate::job::{Amount, Direction, FileOrder, Job, Placement};
use crate::pattern::{Offsets, Region};

/// Alignment of files within an area.
pub const FILE_ALIGNMENT_BYTES: u64 = 4096;

/// The offsets of a thread over all its files.
#[derive(Clone, Debug)]
pub struct Files {
    each: Vec<File>,
    order: FileOrder,
    /// Number of consecutive I/Os to one file, unless files are used sequentially.
    run: u32,
    run_left: u32,
    current: usize,
    random: Stream,
}

#[derive(Clone, Debug)]
struct File {
    offsets: Offsets,
    /// Bytes that a pass transfers of this file, and how many of them are left in the current pass.
    pass_bytes: u64,
    left_bytes: u64,
}

/// The parts of its files that a thread uses; each may be too small for any block.
pub fn regions(job: &Job, thread: u32, area_bytes: u64, seed: u64) -> Vec<Region> {
    let count = u64::from(job.area.files.max(1));
    let mut sizes = FileSizes::new(job, thread, seed);
    if count == 1 {
        let part = part_of(job, thread, area_bytes);
        return vec![sizes.cut(0, part)];
    }
    let each_bytes = bytes_of_each(count, area_bytes);
    // Sizes of the job apply to all its files together.
    let of_one = job.clone().with(|it| it.area.size = job.area.size.map(|size| size.part(count)));
    let part = part_of(&of_one, thread, each_bytes);
    let mut moved = |index: u64| {
        let base = index * each_bytes;
        sizes.cut(base, Region { start_bytes: base + part.start_bytes, end_bytes: base + part.end_bytes })
    };
    (0..count).map(&mut moved).collect()
}

/// Random sizes of files (fio `filesize=4k-64k`); threads that share a file find it alike.
struct FileSizes {
    /// The least size, the number of sizes, and what draws one; `None` if sizes are not random.
    range: Option<(u64, u64, Stream)>,
}

impl FileSizes {
    fn new(job: &Job, thread: u32, seed: u64) -> Self {
        let of = |(least_bytes, most_bytes): (u64, u64)| {
            let path = format!("filesize/{}", job.area_name(thread));
            let count = most_bytes.saturating_sub(least_bytes).saturating_add(1);
            (least_bytes, count, Stream::of(job.seed.unwrap_or(seed), &path))
        };
        Self { range: job.area.least_file_bytes.zip(job.area.file_bytes).map(of) }
    }

    /// The region up to the end of the next file, which begins at `base`.
    fn cut(&mut self, base: u64, region: Region) -> Region {
        let Some((least_bytes, count, random)) = &mut self.range else { return region };
        let file_end = base.saturating_add(*least_bytes + random.below(*count));
        Region { end_bytes: region.end_bytes.min(file_end).max(region.start_bytes), ..region }
    }
}

/// The length of each of `count` files in an area.
fn bytes_of_each(count: u64, area_bytes: u64) -> u64 {
    match count {
        1 => area_bytes,
        _ => area_bytes / count / FILE_ALIGNMENT_BYTES * FILE_ALIGNMENT_BYTES,
    }
}

/// The file that contains a region of a thread. If an area is split among threads, each part is its
/// thread's own file. A file that only this thread uses is laid out to the end of the region,
/// unless the region is a share of the file.
pub(crate) fn whole_file(job: &Job, region: Region, area_bytes: u64) -> Region {
    if job.area.placement == Placement::Split {
        return region;
    }
    let each_bytes = bytes_of_each(job.area.files.max(1).into(), area_bytes).max(1);
    let start_bytes = region.start_bytes / each_bytes * each_bytes;
    let is_share = job.area.size.is_none_or(|size| matches!(size, Amount::Percent(_)));
    let ends_with_region = job.area.least_file_bytes.is_some() || job.area.placement == Placement::Own && !is_share;
    let end_bytes = if ends_with_region { region.end_bytes } else { start_bytes + each_bytes };
    Region { start_bytes, end_bytes }
}

impl Files {
    /// The files of `job` in `regions`, each of which holds the largest block.
    pub(crate) fn new(job: &Job, regions: &[Region], area_bytes: u64, mut random: Stream) -> Self {
        let file = |region: &Region, random: Stream| {
            let whole = whole_file(job, *region, area_bytes);
            let pass_bytes = whole_blocks(job, region.end_bytes - region.start_bytes);
            File { offsets: Offsets::new(job, *region, whole, random), pass_bytes, left_bytes: pass_bytes }
        };
        let each = match regions {
            // A single file uses the thread's own stream and not one drawn from it, because a seed
            // must always yield the same offsets.
            [one] => vec![file(one, random.clone())],
            many => many.iter().map(|region| file(region, Stream::new(random.next()))).collect(),
        };
        let run = job.area.file_run.max(1);
        Self { each, order: job.area.file_order, run, run_left: 0, current: 0, random }
    }

    /// Starts a new pass over all files.
    pub(crate) fn rewind(&mut self) {
        for file in &mut self.each {
            file.offsets.rewind();
            file.left_bytes = file.pass_bytes;
        }
        (self.current, self.run_left) = (0, 0);
    }

    /// Whether the next I/O draws its offset; this also selects its file.
    #[inline]
    pub(crate) fn will_draw(&mut self, direction: Direction) -> bool {
        if self.each.len() > 1 {
            self.choose();
        }
        self.each[self.current].offsets.will_draw(direction)
    }

    /// As [`Offsets::has_room`], for the file that [`Files::will_draw`] selected.
    #[inline]
    pub(crate) fn has_room(&self, direction: Direction, length_bytes: u64) -> bool {
        self.each[self.current].offsets.has_room(direction, length_bytes)
    }

    /// Ends the current file for this pass; returns whether another one has room.
    pub(crate) fn leave_file(&mut self) -> bool {
        self.each[self.current].left_bytes = 0;
        let continues = self.each.iter().any(|file| file.left_bytes > 0);
        if continues {
            self.choose();
        }
        continues
    }

    /// As [`Offsets::next`], for the file that [`Files::will_draw`] selected.
    #[inline]
    pub(crate) fn next(&mut self, direction: Direction, length_bytes: u64, draw: bool) -> u64 {
        let file = &mut self.each[self.current];
        file.left_bytes = file.left_bytes.saturating_sub(length_bytes);
        file.offsets.next(direction, length_bytes, draw)
    }

    /// As [`Offsets::trimmed`], for the I/O that [`Files::next`] has just placed.
    #[inline]
    pub(crate) fn trimmed(&mut self, direction: Direction, offset_bytes: u64, length_bytes: u64) -> u64 {
        let file = &mut self.each[self.current];
        let trimmed_bytes = file.offsets.trimmed(direction, offset_bytes, length_bytes);
        file.left_bytes += length_bytes - trimmed_bytes;
        trimmed_bytes
    }

    fn choose(&mut self) {
        if self.each.iter().all(|file| file.left_bytes == 0) {
            // More than one pass is wanted, so it starts again from the first file.
            self.rewind();
            self.run_left = self.run;
            self.current = self.first();
        } else if self.order == FileOrder::Sequential {
            while self.each[self.current].left_bytes == 0 {
                self.current += 1;
            }
        } else if self.run_left == 0 || self.each[self.current].left_bytes == 0 {
            let is_first = self.each.iter().all(|file| file.left_bytes == file.pass_bytes);
            self.current = if is_first { self.first() } else { self.following() };
            self.run_left = self.run;
        }
        self.run_left = self.run_left.saturating_sub(1);
    }

    fn first(&mut self) -> usize {
        if self.order == FileOrder::Random { self.drawn() } else { 0 }
    }

    /// The next file with something left; there must be one.
    fn following(&mut self) -> usize {
        let count = self.each.len();
        let mut next = if self.order == FileOrder::Random { self.drawn() } else { (self.current + 1) % count };
        while self.each[next].left_bytes == 0 {
            next = (next + 1) % count;
        }
        next
    }

    fn drawn(&mut self) -> usize {
        usize::try_from(self.random.below(self.each.len() as u64)).unwrap_or(0)
    }
}
