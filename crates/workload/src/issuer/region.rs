//! The bytes of its area that a thread uses.

use super::Unsuitable;
use crate::job::{Amount, Job, Placement};
use crate::pattern::Region;

/// A thread's part of the area, which may be too small for any block. As in fio it extends over
/// `size`, or to the end of the file if `filesize` is given; `size` is then the amount to transfer
/// (see [`amount_of`]).
pub(crate) fn part_of(job: &Job, thread: u32, area_bytes: u64) -> Region {
    // A file may be larger than this job says, if another job lays it out.
    let area_bytes = job.area.file_bytes.map_or(area_bytes, |file_bytes| file_bytes.min(area_bytes));
    let (base, end) = match job.area.placement {
        Placement::Shared | Placement::Own => (0, area_bytes),
        Placement::Split => {
            let threads = u64::from(job.threads.max(1));
            let part_bytes = area_bytes / threads;
            // Parts are whole MiB if they are at least that large; in tiny areas they are multiples
            // of 4 KiB.
            let unit = if part_bytes >= 1 << 20 { 1 << 20 } else { 4096 };
            let part_bytes = part_bytes / unit * unit;
            let base = part_bytes.saturating_mul(u64::from(thread));
            (base, base.saturating_add(part_bytes).min(area_bytes))
        }
    };
    let mut skipped = job.area.offset.of(end.saturating_sub(base));
    if matches!(job.area.offset, Amount::Percent(_)) {
        let smallest =
            job.shape.mix.directions().iter().map(|direction| job.shape.block_sizes.of(*direction).smallest_bytes());
        let align = if job.area.offset_align_bytes > 0 {
            job.area.offset_align_bytes
        } else {
            smallest.min().unwrap_or(1).into()
        };
        skipped = skipped.checked_next_multiple_of(align.max(1)).unwrap_or(u64::MAX);
    }
    let increments = whole_pages(job.area.offset_increment, end - base).saturating_mul(u64::from(thread));
    let start_bytes = base.saturating_add(skipped).saturating_add(increments).min(end);
    let room = end - start_bytes;
    let size_bytes = match job.area.size {
        Some(Amount::Bytes(bytes)) if bytes > 0 && job.area.file_bytes.is_none() => bytes.min(room),
        None | Some(Amount::Bytes(_)) => room,
        Some(percent) => whole_pages(percent, end - base).min(room),
    };
    Region { start_bytes, end_bytes: start_bytes + size_bytes }
}

/// Bytes that one loop of a job transfers whose parts hold `part_bytes` in all its files together.
pub(super) fn amount_of(job: &Job, part_bytes: u64) -> u64 {
    match job.area.size {
        Some(Amount::Bytes(bytes)) if bytes > 0 => bytes.min(part_bytes),
        _ => part_bytes,
    }
}

/// An amount as given; a percentage in whole pages, because unaligned direct I/O is refused.
fn whole_pages(amount: Amount, area_bytes: u64) -> u64 {
    match amount {
        Amount::Bytes(bytes) => bytes,
        Amount::Percent(_) => amount.of(area_bytes) / 4096 * 4096,
    }
}

/// The parts of a thread that follows a pattern, one per file, checked to hold its largest block.
pub(super) fn regions_of(job: &Job, thread: u32, area_bytes: u64, seed: u64) -> Result<Vec<Region>, Unsuitable> {
    let mut regions = crate::files::regions(job, thread, area_bytes, seed);
    let length_bytes = |region: &Region| region.end_bytes - region.start_bytes;
    let part_bytes = regions.iter().map(length_bytes).max().unwrap_or(0);
    let largest =
        job.shape.mix.directions().iter().map(|direction| job.shape.block_sizes.of(*direction).largest_bytes());
    let block_bytes = u64::from(largest.max().unwrap_or(1).max(1));
    if part_bytes < block_bytes {
        let job = job.name.clone();
        return Err(Unsuitable::AreaTooSmall { job, thread, part_bytes, block_bytes, area_bytes });
    }
    // Of files whose sizes are random, some may be too small for a block.
    regions.retain(|region| length_bytes(region) >= block_bytes);
    Ok(regions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_whole_pages() {
        let job = Job::default().with(|job| {
            job.area.offset = Amount::Percent(10);
            job.area.size = Some(Amount::Percent(80));
        });
        let part = part_of(&job, 0, 256_060_514_304);
        assert_eq!((part.start_bytes % 4096, part.end_bytes % 4096), (0, 0));
        // As in fio, the offset is rounded up to the next block.
        assert_eq!(part.start_bytes / 4096, 25_606_051_430_u64.div_ceil(4096));
        let shifted = Job::default().with(|job| {
            job.area.offset = Amount::Bytes(4096);
            job.area.offset_increment = Amount::Percent(30);
        });
        assert_eq!(
            [0, 1, 2].map(|thread| part_of(&shifted, thread, 10 << 20).start_bytes),
            [4096, 3_149_824, 6_295_552]
        );
        let bytes = Job::default().with(|job| job.area.offset = Amount::Bytes(512));
        assert_eq!(part_of(&bytes, 0, 8192).start_bytes, 512);
    }
}
