//! A contiguous range of sectors.

/// Position on a device, in sectors of [`SECTOR_BYTES`].
pub type Sector = u64;

/// Size of a sector in bytes, regardless of the device's logical block size.
pub const SECTOR_BYTES: u64 = 512;

/// A contiguous range: first sector and length.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(C)]
pub struct Extent {
    /// First sector of the range.
    pub first_sector: Sector,
    /// Length in sectors; 0 for a flush.
    pub sectors: u32,
}

impl Extent {
    /// The range that begins at `first_sector` and is `sectors` long.
    #[inline]
    pub const fn new(first_sector: Sector, sectors: u32) -> Self {
        Self { first_sector, sectors }
    }

    /// The sector behind the last one. Wraps for a range at the end of the address space.
    #[inline]
    pub const fn end(self) -> Sector {
        self.first_sector.wrapping_add(self.sectors as u64)
    }

    /// Length in bytes.
    #[inline]
    pub const fn bytes(self) -> u64 {
        self.sectors as u64 * SECTOR_BYTES
    }

    /// Whether `next` begins exactly where this range ends.
    #[inline]
    pub const fn is_followed_by(self, next: Extent) -> bool {
        self.end() == next.first_sector
    }

    /// Whether the two ranges share a sector. An empty range also counts as overlapping a range if it
    /// lies between that range's first sector and its end.
    #[inline]
    pub const fn overlaps(self, other: Extent) -> bool {
        self.first_sector < other.end() && other.first_sector < self.end()
    }
}

/// A part of a device, for example the sectors that one of its actuators serves.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct SectorRange {
    /// First sector.
    pub first_sector: Sector,
    /// Length in sectors.
    pub sectors: u64,
}

impl SectorRange {
    /// Whether the range contains a sector.
    #[inline]
    pub const fn holds(self, sector: Sector) -> bool {
        sector.wrapping_sub(self.first_sector) < self.sectors
    }

    /// The part of an extent that lies in this range, relative to the range's first sector; empty
    /// if no part does.
    pub fn part_of(self, extent: Extent) -> Extent {
        let first = extent.first_sector.max(self.first_sector);
        let end = extent.end().min(self.first_sector.saturating_add(self.sectors));
        let sectors = u32::try_from(end.saturating_sub(first)).unwrap_or(0);
        Extent::new(first.wrapping_sub(self.first_sector), sectors)
    }
}
