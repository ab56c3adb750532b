//! How much a thread has left to issue: fio's meaning of `size`, `io_size`, `loops` and
//! `number_ios`, determined from iologs of fio 3.33.
//!
//! - A pass ends when nothing more fits into the thread's part, or when every block of it has been
//!   visited. If blocks repeat, a pass may transfer more than the part holds.
//! - With an asynchronous engine it also ends when it has transferred `size`, unless the job writes
//!   at random.
//! - All passes together transfer `io_size` (or else `size`) times `loops`; the last I/O is issued
//!   in full.
//! - If at least one block of the largest size is missing from `io_size` after the passes of
//!   `loops`, further passes follow.

use super::region::amount_of;
use crate::job::{BlockSize, Direction, Engine, Job, Mix, Pattern};

/// The limits of a thread and its progress.
#[derive(Clone, Debug)]
pub(super) struct Budget {
    issued_bytes: u64,
    /// Value of `issued_bytes` at which this pass ends at the latest.
    ends_at_bytes: u64,
    /// Number of I/Os that are left, over all passes together.
    ios_left: u64,
    began_at_bytes: u64,
    /// Maximum number of bytes of a pass; `u64::MAX` if only the pattern determines its end.
    pass_bytes: u64,
    all_bytes: u64,
    /// Passes follow the last one of `loops` until this many bytes are transferred; 0 means none.
    wanted_bytes: u64,
    largest_block_bytes: u64,
    loops_left: u32,
    time_based: bool,
}

impl Budget {
    /// The budget of a thread of `job`. The lengths of its parts of its files are `parts_bytes`;
    /// from the start of the first part to the end of its file there are `room_bytes`.
    pub(super) fn new(job: &Job, parts_bytes: &[u64], room_bytes: u64) -> Self {
        let part_bytes: u64 = parts_bytes.iter().sum();
        let amount_bytes = amount_of(job, part_bytes);
        let io_bytes = job.area.io_size.map(|amount| amount.of(part_bytes).max(1));
        let loops = job.area.loops.max(1);
        let time_based = job.times.time_based && job.times.runtime_ns.is_some();
        let largest = Direction::ALL.map(|direction| job.shape.block_sizes.of(direction).largest_bytes());
        let mut budget = Self {
            issued_bytes: 0,
            ends_at_bytes: 0,
            ios_left: job.area.number_ios.map_or(u64::MAX, |number| number.saturating_mul(loops.into())),
            began_at_bytes: 0,
            pass_bytes: longest_pass(job, parts_bytes, room_bytes).min(if stops_at_size(job) {
                amount_bytes
            } else {
                u64::MAX
            }),
            all_bytes: io_bytes.unwrap_or(amount_bytes).saturating_mul(loops.into()),
            wanted_bytes: io_bytes.unwrap_or(0),
            largest_block_bytes: largest.into_iter().max().unwrap_or(1).into(),
            loops_left: loops - 1,
            time_based,
        };
        if time_based {
            budget.all_bytes = u64::MAX;
        }
        budget.begin_pass();
        budget
    }

    /// The budget of a thread that reads back what it writes: passes of `pass_bytes`, whose number
    /// is limited by `loops` alone.
    pub(super) fn of_passes(self, pass_bytes: u64) -> Self {
        let mut budget = Self { pass_bytes, all_bytes: u64::MAX, wanted_bytes: 0, ..self };
        budget.begin_pass();
        budget
    }

    /// Bytes to issue before the pass ends.
    #[inline]
    pub(super) fn bytes_left(&self) -> u64 {
        self.ends_at_bytes.saturating_sub(self.issued_bytes)
    }

    /// Adds an I/O to the pass.
    #[inline]
    pub(super) fn issued(&mut self, bytes: u64) {
        self.issued_bytes = self.issued_bytes.saturating_add(bytes);
    }

    /// Counts an I/O that is issued.
    #[inline]
    pub(super) fn counts_io(&mut self) {
        self.ios_left = self.ios_left.saturating_sub(1);
    }

    /// Ends the pass as soon as `bytes` more are issued.
    pub(super) fn end_pass_after(&mut self, bytes: u64) {
        self.ends_at_bytes = self.ends_at_bytes.min(self.issued_bytes.saturating_add(bytes));
    }

    /// Whether the pass has ended.
    #[inline]
    pub(super) fn pass_is_over(&self) -> bool {
        self.ios_left == 0 || self.issued_bytes >= self.ends_at_bytes
    }

    /// Bytes that this pass has issued.
    pub(super) fn bytes_of_this_pass(&self) -> u64 {
        self.issued_bytes - self.began_at_bytes
    }

    /// Starts another pass if one is due; returns whether it did. `has_more` requests one
    /// regardless of `loops`.
    pub(super) fn next_pass(&mut self, has_more: bool) -> bool {
        let moved_none = self.issued_bytes == self.began_at_bytes;
        if self.ios_left == 0 || moved_none || self.issued_bytes >= self.all_bytes {
            return false;
        }
        let lacks_a_block = self.issued_bytes.saturating_add(self.largest_block_bytes) <= self.wanted_bytes;
        if !self.time_based && self.loops_left == 0 && !has_more && !lacks_a_block {
            return false;
        }
        self.loops_left = self.loops_left.saturating_sub(1);
        self.begin_pass();
        true
    }

    fn begin_pass(&mut self) {
        self.began_at_bytes = self.issued_bytes;
        self.ends_at_bytes = self.issued_bytes.saturating_add(self.pass_bytes).min(self.all_bytes);
    }
}

/// Maximum number of bytes of a pass over parts of these lengths, as far as the pattern determines
/// it.
pub(super) fn longest_pass(job: &Job, parts_bytes: &[u64], room_bytes: u64) -> u64 {
    if visits_all_once(job) {
        parts_bytes.iter().map(|part_bytes| whole_blocks(job, *part_bytes).max(1)).sum()
    } else if let Some(block_bytes) = dense_block(job) {
        let begun_bytes = parts_bytes[0].checked_next_multiple_of(block_bytes);
        begun_bytes.unwrap_or(u64::MAX).min(room_bytes / block_bytes * block_bytes)
    } else {
        u64::MAX
    }
}

/// Whether a pass transfers each block of the part once and then ends.
fn visits_all_once(job: &Job) -> bool {
    job.area.files > 1
        || job.uses_random_map()
        || job.trims_to_map()
        || matches!(job.shape.mix, Mix::TrimWrite | Mix::Rewrite)
}

/// The block size of a job that goes through its part from start to end, if it is constant.
fn dense_block(job: &Job) -> Option<u64> {
    let is_dense = job.shape.pattern == Pattern::Sequential { skip_bytes: 0 } && job.area.zones.is_none();
    match (job.shape.mix, job.shape.block_sizes.of(*job.shape.mix.directions().first()?)) {
        // Each direction goes through the part separately.
        (Mix::ReadWrite { .. }, _) => None,
        (_, BlockSize::Fixed(bytes)) if is_dense => Some(u64::from(*bytes).max(1)),
        _ => None,
    }
}

/// Whether a pass ends when it has transferred the bytes of one loop.
fn stops_at_size(job: &Job) -> bool {
    let writes_anywhere = matches!(job.shape.pattern, Pattern::Random { .. })
        && !job.shape.random_map
        && job.shape.mix.directions().contains(&Direction::Write);
    // fio's null engine has a queue if the depth is above 1.
    let has_queue =
        job.submission.engine == Engine::Async || job.submission.engine == Engine::Null && job.submission.iodepth > 1;
    has_queue && !writes_anywhere
}

/// The length of a part without the rest at its end that is smaller than a block.
pub(crate) fn whole_blocks(job: &Job, part_bytes: u64) -> u64 {
    let smallest =
        job.shape.mix.directions().iter().map(|direction| job.shape.block_sizes.of(*direction).smallest_bytes());
    let unit = u64::from(smallest.min().unwrap_or(1).max(1));
    part_bytes / unit * unit
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Amount, PerDirection};

    /// KiB that passes over 168 KiB, all of the file, transfer in blocks of 16 KiB, of which ten
    /// fit.
    fn moved_kib(job: Job) -> u64 {
        let job = job.with(|job| job.shape.block_sizes = PerDirection::all(BlockSize::Fixed(16 << 10)));
        let mut budget = Budget::new(&job, &[168 << 10], 168 << 10);
        let mut kib = 0;
        while !budget.pass_is_over() || budget.next_pass(false) {
            budget.issued(16 << 10);
            budget.ios_left -= 1;
            kib += 16;
        }
        kib
    }

    #[test]
    fn passes_follow_until_io_size_lacks_less_than_a_block() {
        // The figures are those of fio 3.33.
        let io_size = |kib: u64| Some(Amount::Bytes(kib << 10));
        assert_eq!(moved_kib(Job::default()), 160);
        assert_eq!(moved_kib(Job::default().with(|job| job.area.io_size = io_size(324))), 320);
        assert_eq!(moved_kib(Job::default().with(|job| job.area.io_size = io_size(100))), 112);
        assert_eq!(
            moved_kib(Job::default().with(|job| {
                job.area.io_size = io_size(100);
                job.area.loops = 2;
            })),
            208
        );
        assert_eq!(moved_kib(Job::default().with(|job| job.area.loops = 3)), 480);
        assert_eq!(
            moved_kib(Job::default().with(|job| {
                job.area.loops = 3;
                job.area.number_ios = Some(9);
            })),
            432
        );
    }

    #[test]
    fn where_blocks_repeat_the_last_one_is_done_whole() {
        let pattern = Pattern::Random { run: 1, repeat_offset: false };
        let job = Job::default().with(|job| {
            job.shape.pattern = pattern;
            job.shape.random_map = false;
        });
        assert_eq!(moved_kib(job.clone()), 176);
        assert_eq!(moved_kib(job.clone().with(|job| job.area.loops = 2)), 336);
        let job = job.with(|job| job.area.io_size = Some(Amount::Bytes(186 << 10)));
        assert_eq!(moved_kib(job.clone()), 192);
        assert_eq!(moved_kib(job.clone().with(|job| job.submission.engine = Engine::Async)), 176);
        assert_eq!(
            moved_kib(job.with(|job| {
                job.submission.engine = Engine::Async;
                job.shape.mix = Mix::Write;
            })),
            192
        );
    }
}
