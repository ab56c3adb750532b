//! The files of a run, and how far each has been written.

use hoistway_experiment::Machine;

use super::number;
use crate::os::files::File;
use crate::os::pages::PAGE_BYTES;

/// The files by number. A file's length never becomes smaller.
#[derive(Debug)]
pub(super) struct OpenFiles {
    places: Vec<File>,
    /// The length of each file; the largest number for files that are there from the start.
    written_to: Vec<u64>,
}

impl OpenFiles {
    pub(super) fn new(machine: &Machine, places: &[File]) -> Self {
        let length = if machine.files_exist { u64::MAX } else { 0 };
        Self { places: places.to_vec(), written_to: vec![length; places.len()] }
    }

    /// Where a file is.
    pub(super) fn place(&self, file: u32) -> File {
        self.places[file as usize]
    }

    /// The files with their whole pages.
    pub(super) fn whole_pages(&self) -> impl Iterator<Item = (u32, u64)> {
        self.places.iter().enumerate().map(|(file, place)| (number(file), place.bytes / PAGE_BYTES))
    }

    /// Whether a write up to this byte makes the file longer.
    pub(super) fn grows(&self, file: u32, end_byte: u64) -> bool {
        end_byte > self.written_to[file as usize]
    }

    /// The file was written up to this byte.
    pub(super) fn wrote(&mut self, file: u32, end_byte: u64) {
        let written_to = &mut self.written_to[file as usize];
        *written_to = end_byte.max(*written_to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_file_grows_until_it_has_been_written_and_an_old_one_never() {
        for files_exist in [false, true] {
            let machine = Machine { files_exist, ..Machine::default() };
            let mut files = OpenFiles::new(&machine, &[File::default()]);
            assert_eq!(files.grows(0, 1), !files_exist);
            files.wrote(0, 8192);
            files.wrote(0, 4096);
            assert!(!files.grows(0, 8192));
            assert_eq!(files.grows(0, 8193), !files_exist);
        }
    }
}
