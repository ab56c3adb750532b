//! The reads and writes that bring a row (one chunk at the same position on every disk) up to date
//! on the disks.
//!
//! Source: the small-write problem of RAID 5 (Patterson, Gibson & Katz 1988;
//! docs/specifications/devices.md, section 5.4): a small piece costs two reads and two writes, a
//! complete row no reads.

use hoistway_block::Extent;

use super::layout::Layout;
use super::ranges::{Range, covered_back_to, covered_until};

/// How the new parity is computed.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Method {
    /// From the new data alone, when the whole row is written. Also used for every write without
    /// parity.
    Whole,
    /// From the new data and the clean part of the row, when more than half of its data chunks are
    /// new in full.
    Reconstruct,
    /// From the old data, the new data and the old parity.
    ReadModifyWrite,
}

/// The method for a row of which `ranges` are written.
pub(super) fn method(layout: &Layout, ranges: &[Range]) -> Method {
    let sectors: u32 = ranges.iter().map(|range| range.sectors()).sum();
    if layout.parity_disk(0).is_none() || sectors == layout.row_sectors() {
        return Method::Whole;
    }
    let is_full = |&(_, offsets): &(u32, Range)| offsets.sectors() == layout.chunk_sectors();
    let full = pieces(layout, ranges).filter(is_full).count();
    if 2 * full > layout.columns() as usize { Method::Reconstruct } else { Method::ReadModifyWrite }
}

/// Calls `read` with disk and range of everything that the method must read first.
pub(super) fn reads(layout: &Layout, row: u64, method: Method, ranges: &[Range], mut read: impl FnMut(usize, Extent)) {
    match method {
        Method::Whole => {}
        Method::Reconstruct => {
            for column in 0..layout.columns() {
                if let Some(clean) = clean_part(layout, column, ranges) {
                    read(layout.data_disk(row, column), place(layout, row, clean));
                }
            }
        }
        Method::ReadModifyWrite => old_and_new(layout, row, ranges, hull(layout, ranges), read),
    }
}

/// Calls `write` with disk and range of everything that is written.
pub(super) fn writes(layout: &Layout, row: u64, method: Method, ranges: &[Range], write: impl FnMut(usize, Extent)) {
    let parity = match method {
        Method::ReadModifyWrite => hull(layout, ranges),
        Method::Whole | Method::Reconstruct => Range { start: 0, end: layout.chunk_sectors() },
    };
    old_and_new(layout, row, ranges, parity, write);
}

/// Calls `emit` with the place of every piece of `ranges`, and of the range `parity` of the parity
/// chunk if the row has one.
fn old_and_new(layout: &Layout, row: u64, ranges: &[Range], parity: Range, mut emit: impl FnMut(usize, Extent)) {
    for (column, offsets) in pieces(layout, ranges) {
        emit(layout.data_disk(row, column), place(layout, row, offsets));
    }
    if let Some(disk) = layout.parity_disk(row) {
        emit(disk, place(layout, row, parity));
    }
}

fn place(layout: &Layout, row: u64, offsets: Range) -> Extent {
    Extent::new(layout.disk_sector(row, offsets.start), offsets.sectors())
}

/// Splits ranges at chunk boundaries, each into its column and the offsets within that chunk.
fn pieces(layout: &Layout, ranges: &[Range]) -> impl Iterator<Item = (u32, Range)> {
    let chunk = layout.chunk_sectors();
    ranges.iter().flat_map(move |&range| {
        (range.start / chunk..=(range.end - 1) / chunk).map(move |column| {
            let first = column * chunk;
            (column, Range { start: range.start.max(first) - first, end: (range.end - first).min(chunk) })
        })
    })
}

/// The smallest range of offsets that contains all pieces. It is the part of the parity chunk that
/// changes with them, and is read and written in one command.
fn hull(layout: &Layout, ranges: &[Range]) -> Range {
    let all = pieces(layout, ranges).map(|(_, offsets)| offsets);
    all.reduce(|a, b| Range { start: a.start.min(b.start), end: a.end.max(b.end) })
        .unwrap_or(Range { start: 0, end: layout.chunk_sectors() })
}

/// The offsets of a column from its first sector outside `ranges` (clean) to its last; `None` if
/// all of it is written.
fn clean_part(layout: &Layout, column: u32, ranges: &[Range]) -> Option<Range> {
    let chunk = layout.chunk_sectors();
    let (first, last) = (column * chunk, (column + 1) * chunk);
    let (start, end) = (covered_until(ranges, first), covered_back_to(ranges, last));
    (start < last).then(|| Range { start: start - first, end: end - first })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Five disks, chunks of 8 sectors; row 1 has its parity on disk 3 and its columns on 4, 0,
    /// 1, 2.
    fn five() -> Layout {
        Layout::new(5, true, 8, 800)
    }

    /// Disk, first sector and length of each command.
    type Commands = Vec<(usize, u64, u32)>;

    fn plan(layout: &Layout, ranges: &[(u32, u32)]) -> (Method, Commands, Commands) {
        let ranges: Vec<_> = ranges.iter().map(|&(start, end)| Range { start, end }).collect();
        let method = method(layout, &ranges);
        let (mut read, mut written) = (Vec::new(), Vec::new());
        reads(layout, 1, method, &ranges, |disk, extent| read.push((disk, extent.first_sector, extent.sectors)));
        writes(layout, 1, method, &ranges, |disk, extent| written.push((disk, extent.first_sector, extent.sectors)));
        (method, read, written)
    }

    #[test]
    fn a_small_piece_costs_two_reads_and_two_writes_of_the_same_sectors() {
        let (method, read, written) = plan(&five(), &[(10, 12)]);
        assert_eq!(method, Method::ReadModifyWrite);
        assert_eq!(read, [(0, 10, 2), (3, 10, 2)]);
        assert_eq!(written, read);
    }

    #[test]
    fn parity_covers_the_offsets_of_all_pieces() {
        // Column 0 from offset 6, column 1 up to offset 1, column 3 at offset 4.
        let (_, read, written) = plan(&five(), &[(6, 9), (28, 29)]);
        assert_eq!(read, [(4, 14, 2), (0, 8, 1), (2, 12, 1), (3, 8, 8)]);
        assert_eq!(written, read);
    }

    #[test]
    fn a_complete_row_is_written_without_reading() {
        let (method, read, written) = plan(&five(), &[(0, 32)]);
        assert_eq!((method, read), (Method::Whole, vec![]));
        assert_eq!(written, [(4, 8, 8), (0, 8, 8), (1, 8, 8), (2, 8, 8), (3, 8, 8)]);
    }

    #[test]
    fn more_than_half_of_a_row_is_reconstructed_from_its_clean_rest() {
        // Columns 0 to 2 full, 2 sectors in the middle of column 3.
        let (method, read, written) = plan(&five(), &[(0, 24), (27, 29)]);
        assert_eq!(method, Method::Reconstruct);
        assert_eq!(read, [(2, 8, 8)]);
        assert_eq!(written, [(4, 8, 8), (0, 8, 8), (1, 8, 8), (2, 11, 2), (3, 8, 8)]);
        assert_eq!(plan(&five(), &[(0, 16)]).0, Method::ReadModifyWrite, "half is not more than half");
    }

    #[test]
    fn without_parity_pieces_are_just_written() {
        let (method, read, written) = plan(&Layout::new(4, false, 8, 800), &[(6, 9)]);
        assert_eq!((method, read), (Method::Whole, vec![]));
        assert_eq!(written, [(0, 14, 2), (1, 8, 1)]);
    }
}
