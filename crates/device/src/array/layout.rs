//! The placement of the array's sectors on its members: striping, with rotating parity
//! (left-symmetric) or without.
//!
//! * Cost: a few divisions per piece of a command (its part within one chunk).
//! * Source: the left-symmetric layout of Lee & Katz as Linux md uses it
//!   (docs/specifications/devices.md, section 5.2).

use hoistway_block::{Extent, Sector};

/// The geometry of an array. A *row* is one chunk at the same position on every disk; its data
/// chunks are *columns*.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    disks: u32,
    /// Data chunks per row.
    columns: u32,
    chunk_sectors: u32,
    rows: u64,
}

/// A part of a command within one chunk.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) struct Piece {
    /// The row.
    pub(super) row: u64,
    /// The data chunk within the row.
    pub(super) column: u32,
    /// Its first sector within the chunk.
    pub(super) offset: u32,
    /// Its length in sectors.
    pub(super) sectors: u32,
}

impl Layout {
    /// Rows of `disks` chunks, one of which is parity if `has_parity`; as many rows as fit in
    /// members of `member_sectors`.
    pub fn new(disks: u32, has_parity: bool, chunk_sectors: u32, member_sectors: Sector) -> Self {
        let disks = disks.max(1 + u32::from(has_parity));
        let chunk_sectors = chunk_sectors.max(1);
        let rows = member_sectors / u64::from(chunk_sectors);
        Self { disks, columns: disks - u32::from(has_parity), chunk_sectors, rows }
    }

    /// Capacity in sectors: whole rows of data.
    pub fn capacity_sectors(&self) -> Sector {
        self.rows * u64::from(self.row_sectors())
    }

    /// Data chunks per row.
    pub fn columns(&self) -> u32 {
        self.columns
    }

    /// Contiguous sectors per disk.
    pub fn chunk_sectors(&self) -> u32 {
        self.chunk_sectors
    }

    /// Data sectors of a row.
    pub fn row_sectors(&self) -> u32 {
        self.columns * self.chunk_sectors
    }

    /// The disk with the parity of a row; `None` without parity.
    pub fn parity_disk(&self, row: u64) -> Option<usize> {
        (self.columns < self.disks).then(|| index(u64::from(self.disks - 1) - row % u64::from(self.disks)))
    }

    /// The disk with a column of a row. Column 0 is on the disk after the parity, or on disk 0
    /// without parity; the others follow in the order of the disks and wrap.
    pub fn data_disk(&self, row: u64, column: u32) -> usize {
        let first = self.parity_disk(row).map_or(0, |parity| parity + 1);
        (first + column as usize) % self.disks as usize
    }

    /// The first sector of a row's chunk, plus `offset`; the same on every disk.
    pub fn disk_sector(&self, row: u64, offset: u32) -> Sector {
        row * u64::from(self.chunk_sectors) + u64::from(offset)
    }

    /// The disk of an array sector, and the sector on that disk.
    pub fn locate(&self, sector: Sector) -> (usize, Sector) {
        let piece = self.piece_at(sector, 1);
        (self.data_disk(piece.row, piece.column), self.disk_sector(piece.row, piece.offset))
    }

    /// The array sector at `disk_sector` of `disk`; `None` if that is parity or beyond the rows, or
    /// if there is no such disk.
    pub fn sector_at(&self, disk: usize, disk_sector: Sector) -> Option<Sector> {
        let chunk = u64::from(self.chunk_sectors);
        let (row, offset) = (disk_sector / chunk, disk_sector % chunk);
        let parity = self.parity_disk(row);
        if parity == Some(disk) || disk >= self.disks as usize || row >= self.rows {
            return None;
        }
        let first = parity.map_or(0, |parity| parity + 1);
        let column = (disk + self.disks as usize - first) % self.disks as usize;
        Some((row * u64::from(self.columns) + column as u64) * chunk + offset)
    }

    /// Splits a range at chunk boundaries, in order.
    pub(super) fn pieces(&self, extent: Extent) -> impl Iterator<Item = Piece> + use<> {
        let layout = self.clone();
        let mut rest = extent;
        std::iter::from_fn(move || {
            let piece = (rest.sectors > 0).then(|| layout.piece_at(rest.first_sector, rest.sectors))?;
            rest = Extent::new(rest.first_sector + u64::from(piece.sectors), rest.sectors - piece.sectors);
            Some(piece)
        })
    }

    /// Splits a range at row boundaries, in order: (row, first sector within the row, end sector).
    pub(super) fn row_slices(&self, extent: Extent) -> impl Iterator<Item = (u64, u32, u32)> + use<> {
        let row_sectors = u64::from(self.row_sectors());
        let (mut from, end) = (extent.first_sector, extent.end());
        std::iter::from_fn(move || {
            let (row, start) = (from / row_sectors, from % row_sectors);
            let slice_end = (from < end).then(|| row_sectors.min(start + (end - from)))?;
            from += slice_end - start;
            Some((row, narrow(start), narrow(slice_end)))
        })
    }

    fn piece_at(&self, sector: Sector, sectors: u32) -> Piece {
        let chunk = sector / u64::from(self.chunk_sectors);
        let offset = narrow(sector % u64::from(self.chunk_sectors));
        let columns = u64::from(self.columns);
        let (row, column) = (chunk / columns, narrow(chunk % columns));
        Piece { row, column, offset, sectors: sectors.min(self.chunk_sectors - offset) }
    }
}

/// Converts a remainder of a division by a `u32`, or an offset within a row, which always fits.
fn narrow(value: u64) -> u32 {
    debug_assert!(u32::try_from(value).is_ok());
    u32::try_from(value).unwrap_or(u32::MAX)
}

fn index(disk: u64) -> usize {
    narrow(disk) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn twelve() -> Layout {
        Layout::new(12, true, 2_048, 488_282_256)
    }

    #[test]
    fn capacity_is_whole_rows_of_data() {
        assert_eq!(twelve().capacity_sectors(), (488_282_256 / 2_048) * 2_048 * 11);
        assert_eq!(Layout::new(4, false, 8, 100).capacity_sectors(), 12 * 8 * 4);
    }

    #[test]
    fn without_parity_chunks_go_round_all_disks() {
        let layout = Layout::new(4, false, 8, 800);
        let disks: Vec<_> = (0..6).map(|chunk| layout.locate(chunk * 8 + 3)).collect();
        assert_eq!(disks, [(0, 3), (1, 3), (2, 3), (3, 3), (0, 11), (1, 11)]);
        assert_eq!(layout.parity_disk(0), None);
    }

    #[test]
    fn pieces_and_slices_cover_a_range_once() {
        let layout = Layout::new(3, true, 8, 800);
        let pieces: Vec<_> =
            layout.pieces(Extent::new(5, 30)).map(|p| (p.row, p.column, p.offset, p.sectors)).collect();
        assert_eq!(pieces, [(0, 0, 5, 3), (0, 1, 0, 8), (1, 0, 0, 8), (1, 1, 0, 8), (2, 0, 0, 3)]);
        let slices: Vec<_> = layout.row_slices(Extent::new(5, 30)).collect();
        assert_eq!(slices, [(0, 5, 16), (1, 0, 16), (2, 0, 3)]);
        assert_eq!(layout.pieces(Extent::new(5, 0)).count(), 0);
    }

    #[test]
    fn the_inverse_knows_parity_and_the_end() {
        let layout = Layout::new(3, true, 8, 20);
        assert_eq!(layout.sector_at(2, 0), None, "row 0 keeps its parity on the last disk");
        assert_eq!(layout.sector_at(0, 16), None, "a third row does not fit");
        for sector in 0..layout.capacity_sectors() {
            let (disk, place) = layout.locate(sector);
            assert_eq!(layout.sector_at(disk, place), Some(sector));
        }
    }
}
