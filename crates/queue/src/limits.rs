//! The limits of a request and the capabilities of the device.

use hoistway_block::{Operation, Sector};

/// Limits of the device and its driver. All sizes in sectors of 512 bytes.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Largest read or write (255 in 2.4, 1024 later, 2560 now).
    pub max_sectors: u32,
    /// Largest discard.
    pub max_discard_sectors: u32,
    /// Largest write-zeroes request.
    pub max_write_zeroes_sectors: u32,
    /// Largest number of physical segments of one request.
    pub max_segments: u16,
    /// Ranges that one discard command may have; above 1, discards merge without being adjacent.
    pub max_discard_segments: u16,
    /// No request crosses a multiple of this (stripes, zones); 0 = no such boundary.
    pub chunk_sectors: u32,
    /// Whether completed writes may be in a volatile cache.
    pub volatile_cache: bool,
    /// Whether the device supports FUA.
    pub fua: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_sectors: 2560,
            max_discard_sectors: 4 << 20,
            max_write_zeroes_sectors: 64 << 10,
            max_segments: 128,
            max_discard_segments: 1,
            chunk_sectors: 0,
            volatile_cache: true,
            fua: false,
        }
    }
}

impl Limits {
    /// The largest request of an operation.
    #[inline]
    pub const fn max_sectors_of(&self, operation: Operation) -> u32 {
        match operation {
            Operation::Discard | Operation::SecureErase => self.max_discard_sectors,
            Operation::WriteZeroes => self.max_write_zeroes_sectors,
            _ => self.max_sectors,
        }
    }

    /// Whether a request from `first` of `sectors` and `segments` is within the limits.
    #[inline]
    pub const fn allow(&self, operation: Operation, first: Sector, sectors: u64, segments: u32) -> bool {
        if sectors > self.max_sectors_of(operation) as u64 || segments > self.max_segments as u32 {
            return false;
        }
        match (first.checked_rem(self.chunk_sectors as u64), sectors) {
            (None, _) | (_, 0) => true,
            (Some(into_chunk), _) => into_chunk + sectors <= self.chunk_sectors as u64,
        }
    }
}

/// How eagerly bios are merged (sysfs `nomerges`).
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub enum Merging {
    /// All searches for merge candidates (`nomerges` 0).
    #[default]
    Full,
    /// Only the submitter's plug and the last merged request (`nomerges` 1).
    OneHit,
    /// None at all (`nomerges` 2).
    Never,
}
