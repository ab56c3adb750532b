//! The placement of files on the device, and the metadata that must be read to find their blocks.
//!
//! A file is an area of the experiment: the bytes on which one or more jobs work. Programs with
//! many small files keep them as ranges of their area: a small file is identified by its range, and
//! its metadata by the beginning of the range.
//!
//! Plain files are contiguous and adjacent. Aged files share regions in groups of eight: extent e
//! of file k of a region is at the region's beginning + (8 e + k) x 8 MiB, so that a file is spread
//! as after years of use. Source: docs/specifications/devices.md, sections 8.3 and 9.2.

use std::collections::BTreeMap;

use hoistway_experiment::areas::ALIGNMENT_BYTES;
use hoistway_experiment::{Areas, Diagnostic, Experiment, FileLayout, Machine};

use super::journal::Journal;

/// Size of an extent of an aged file.
const EXTENT_BYTES: u64 = 8 << 20;
/// Files that share a region.
const FILES_PER_REGION: u64 = 8;
/// Bytes of a file that one block of an ext3 block map describes.
const MAPPED_BYTES: u64 = 4 << 20;

/// The placement of one file.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct File {
    /// Its first byte on the device.
    pub first_byte: u64,
    /// Its length in bytes.
    pub bytes: u64,
    is_aged: bool,
}

impl File {
    /// The device address of the byte at `offset`, and the offset, at most `end`, up to which the
    /// file is contiguous from there.
    #[inline]
    pub(crate) fn piece(&self, offset: u64, end: u64) -> (u64, u64) {
        if !self.is_aged {
            return (self.first_byte + offset, end);
        }
        let extent = offset / EXTENT_BYTES;
        let first = self.first_byte + extent * FILES_PER_REGION * EXTENT_BYTES;
        (first + offset % EXTENT_BYTES, end.min((extent + 1) * EXTENT_BYTES))
    }
}

/// All files of an experiment.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    files: Vec<File>,
    of_issuer: Vec<u32>,
    /// The first byte available to files.
    first_byte: u64,
    end_byte: u64,
}

impl Files {
    /// Lays the areas out on a device of `size_bytes`.
    ///
    /// # Errors
    /// The areas do not fit.
    pub(crate) fn lay_out(experiment: &Experiment, size_bytes: u64) -> Result<Self, Diagnostic> {
        let machine = &experiment.machine;
        let before = (machine.files_at_mib << 20).min(size_bytes);
        // Whole alignment units only, so that an odd end of the device changes nothing.
        let room = (size_bytes - before) / ALIGNMENT_BYTES * ALIGNMENT_BYTES;
        let areas = Areas::lay_out(experiment, room)?;
        let mut placed = Self { files: Vec::new(), of_issuer: Vec::new(), first_byte: before, end_byte: before + room };
        let mut known = BTreeMap::new();
        for place in experiment.issuers() {
            let area = areas.of(place.job, place.thread);
            let file = File { first_byte: before + area.first_byte, bytes: area.bytes, is_aged: false };
            let index = *known.entry((file.first_byte, file.bytes)).or_insert(placed.files.len());
            if index == placed.files.len() {
                placed.files.push(file);
            }
            placed.of_issuer.push(u32::try_from(index).unwrap_or(u32::MAX));
        }
        if machine.layout == FileLayout::Aged {
            placed.age(before, before + room)?;
        }
        Ok(placed)
    }

    fn age(&mut self, first_byte: u64, end: u64) -> Result<(), Diagnostic> {
        let mut region = first_byte;
        for files in self.files.chunks_mut(8) {
            for (slot, file) in files.iter_mut().enumerate() {
                file.first_byte = region + slot as u64 * EXTENT_BYTES;
                file.is_aged = true;
            }
            let extents = files.iter().map(|file| file.bytes.div_ceil(EXTENT_BYTES)).max().unwrap_or(0);
            region += extents * FILES_PER_REGION * EXTENT_BYTES;
        }
        if region > end {
            let message = format!("aged files reach up to byte {region}, the device ends at {end}");
            return Err(Diagnostic::new(message, "give the jobs a smaller size, or leave layout=aged out"));
        }
        Ok(())
    }

    /// The journal of their file system, in the middle of the space available to files.
    pub(crate) fn journal(&self, machine: &Machine) -> Journal {
        let middle = u64::midpoint(self.first_byte, self.end_byte) / ALIGNMENT_BYTES * ALIGNMENT_BYTES;
        let bytes = (machine.journal_mib << 20).min(self.end_byte - middle);
        Journal::new(middle, bytes, self.first_byte)
    }

    /// All of them, by number.
    pub(crate) fn all(&self) -> &[File] {
        &self.files
    }

    /// The file of an issuer.
    pub(crate) fn of_issuer(&self, issuer: usize) -> u32 {
        self.of_issuer[issuer]
    }
}

/// The parts of an ext3 block map that a process has read: one bit per 4 MiB of the file.
#[derive(Clone, Debug)]
pub(crate) struct BlockMap {
    known: Vec<u64>,
}

impl BlockMap {
    /// The block map of a file of `bytes` bytes, none of it read.
    pub(crate) fn new(bytes: u64) -> Self {
        let words = usize::try_from(bytes.div_ceil(64 * MAPPED_BYTES)).expect("a file's block map fits into memory");
        Self { known: vec![0; words] }
    }

    /// The first byte of the first part within `start..end` that must be read first; the part
    /// counts as read from now on.
    pub(crate) fn learn(&mut self, start: u64, end: u64) -> Option<u64> {
        for part in start / MAPPED_BYTES..end.div_ceil(MAPPED_BYTES) {
            let word = self.known.get_mut(usize::try_from(part / 64).ok()?)?;
            let bit = 1 << (part % 64);
            if *word & bit == 0 {
                *word |= bit;
                return Some(part * MAPPED_BYTES);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extents_of_eight_aged_files_take_turns() {
        let files: Vec<_> = (0..9).map(|at| File { first_byte: at << 30, bytes: 20 << 20, is_aged: false }).collect();
        let mut files = Files { files, of_issuer: Vec::new(), first_byte: 0, end_byte: 0 };
        files.age(1 << 40, 1 << 50).unwrap();
        let at = |file: usize, offset: u64| files.files[file].piece(offset, 20 << 20);
        assert_eq!(at(0, 5), ((1 << 40) + 5, 8 << 20));
        assert_eq!(at(1, 0), ((1 << 40) + (8 << 20), 8 << 20));
        assert_eq!(at(1, 17 << 20), ((1 << 40) + (137 << 20), 20 << 20));
        // Three extents each: the next region begins after 24 extents.
        assert_eq!(at(8, 0).0, (1 << 40) + (192 << 20));
        assert!(files.age(0, 1 << 20).is_err());
    }

    #[test]
    fn a_block_map_is_read_once_per_part() {
        let mut map = BlockMap::new(250 << 20);
        assert_eq!(map.learn(5 << 20, (8 << 20) + 1), Some(4 << 20));
        assert_eq!(map.learn(5 << 20, (8 << 20) + 1), Some(8 << 20));
        assert_eq!(map.learn(5 << 20, (8 << 20) + 1), None);
        let parts = (0..250).filter(|mib| map.learn(mib << 20, (mib << 20) + 4_096).is_some()).count();
        assert_eq!(parts, 61);
    }
}
