//! Test files: created, filled with incompressible data, marked as ours, removed.
//!
//! A file begins with a block of 4 KiB that marks it as ours, followed by the area that is
//! measured. Only marked files are ever written to again. Source: docs/specifications/harness.md,
//! section 2.1.

use std::collections::hash_map::RandomState;
use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, Hasher};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use hoistway_block::random::Stream;

use crate::exit::Error;
use crate::interrupt::Interrupt;

/// The beginning of the first block of a test file.
const MAGIC: &[u8] = b"HOISTWAY-LAYOUT-1\n";
/// Length of that block in bytes.
const MARK_BYTES: u64 = 4096;
/// Bytes per write.
const CHUNK_BYTES: usize = 1 << 20;

/// A test file, open.
#[derive(Debug)]
pub struct TestFile {
    file: File,
    /// Bytes after the mark.
    bytes: u64,
    kept: Option<PathBuf>,
}

/// Removes a file that was not completed.
struct Unfinished<'a>(&'a Path, bool);

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if self.1 {
            // It may have been removed already, and there is no caller to report an error to.
            let _ = fs::remove_file(self.0);
        }
    }
}

impl TestFile {
    /// Creates a private file in a directory. Without `keep` the file's name is removed before this
    /// returns, so that the file disappears when it is closed.
    pub fn temporary(directory: &Path, bytes: u64, keep: bool, interrupt: &Interrupt) -> Result<Self, Error> {
        // Random only so that two runs use different names; the data has a fixed seed.
        let number = RandomState::new().build_hasher().finish() & 0xffff_ffff;
        let path = directory.join(format!("hoistway.{number:08x}.dat"));
        let made = Self::create(&path, bytes, interrupt)?;
        if keep {
            return Ok(made);
        }
        fs::remove_file(&path).map_err(|error| Error::file(&path, "remove", &error))?;
        Ok(Self { kept: None, ..made })
    }

    /// Creates a file that stays; none of that name may exist.
    pub fn create(path: &Path, bytes: u64, interrupt: &Interrupt) -> Result<Self, Error> {
        let failed = |error: io::Error| Error::file(path, "create", &error);
        let mut file = OpenOptions::new().read(true).write(true).create_new(true).open(path).map_err(failed)?;
        let mut unfinished = Unfinished(path, true);
        fill(&mut file, bytes, interrupt).map_err(|error| match error.kind() {
            io::ErrorKind::Interrupted => {
                Error { messages: Vec::new(), exit: interrupt.exit().unwrap_or(hoistway_experiment::Exit::Interrupted) }
            }
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Error::failed(
                format!("not enough space for a test file of {} MiB: {}: {error}", bytes >> 20, path.display()),
                "give a smaller --size, or another directory",
            ),
            _ => Error::file(path, "write", &error),
        })?;
        unfinished.1 = false;
        Ok(Self { file, bytes, kept: Some(path.to_owned()) })
    }

    /// Opens an existing file; it must be ours and large enough.
    pub fn again(path: &Path, bytes: u64) -> Result<Self, Error> {
        let found = check_mark(path)?;
        if found < bytes {
            return Err(Error::usage(
                format!("{} has {} MiB, the jobs need {} MiB", path.display(), found >> 20, bytes >> 20),
                "give a smaller --size, or remove the file: it is created again",
            ));
        }
        let opened = OpenOptions::new().read(true).write(true).open(path);
        let file = opened.map_err(|error| Error::file(path, "open", &error))?;
        Ok(Self { file, bytes: found, kept: Some(path.to_owned()) })
    }

    /// The host's text for the target: this descriptor, without the mark.
    pub fn host_text(&self) -> String {
        format!("/dev/fd/{}@{MARK_BYTES}+{}", self.file.as_raw_fd(), self.bytes)
    }

    /// Its path, if it stays.
    pub fn kept(&self) -> Option<&Path> {
        self.kept.as_deref()
    }
}

/// Checks for our mark; returns the number of bytes after it.
pub fn check_mark(path: &Path) -> Result<u64, Error> {
    let metadata = fs::metadata(path).map_err(|error| Error::file(path, "look at", &error))?;
    let mut head = [0; MAGIC.len()];
    let read =
        if metadata.is_file() { File::open(path).and_then(|mut file| file.read_exact(&mut head)) } else { Ok(()) };
    match read {
        Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => Err(Error::file(path, "read", &error)),
        Ok(()) if head == MAGIC => Ok(metadata.len().saturating_sub(MARK_BYTES)),
        _ => Err(Error::refused(
            format!("{} exists and was not created by hoistway as a test file", path.display()),
            "name a file that does not exist yet, or read this one: hoistway test PATH",
        )),
    }
}

/// Writes mark and data, which are on stable storage when this returns.
fn fill(file: &mut File, bytes: u64, interrupt: &Interrupt) -> io::Result<()> {
    let mut mark = MAGIC.to_vec();
    mark.extend_from_slice(format!("size={bytes}\nseed=1\n").as_bytes());
    mark.resize(usize::try_from(MARK_BYTES).unwrap_or(mark.len()), 0);
    file.write_all(&mark)?;
    let mut stream = Stream::of(1, "layout");
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut left = bytes;
    while left > 0 {
        if interrupt.is_asked() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        for word in chunk.chunks_exact_mut(8) {
            word.copy_from_slice(&stream.next().to_le_bytes());
        }
        let now = usize::try_from(left).unwrap_or(CHUNK_BYTES).min(CHUNK_BYTES);
        file.write_all(&chunk[..now])?;
        left -= now as u64;
    }
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_temporary_file_has_no_name_and_real_data_behind_its_mark() {
        let directory = tempfile::tempdir().unwrap();
        let file = TestFile::temporary(directory.path(), 3 << 20, false, &Interrupt::default()).unwrap();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
        let (path, slice) = file.host_text().split_once('@').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
        assert_eq!(slice, format!("4096+{}", 3 << 20));
        let content = fs::read(path).unwrap();
        assert_eq!(content.len(), (3 << 20) + 4096);
        let zeroes = content[4096..].iter().filter(|byte| **byte == 0).count();
        // One byte in 256 of random data is zero.
        assert!(zeroes < (3 << 20) / 200, "{zeroes}");
    }

    #[test]
    fn a_file_of_ours_is_used_again_and_a_strange_one_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let ours = directory.path().join("ours.dat");
        drop(TestFile::create(&ours, 1 << 20, &Interrupt::default()).unwrap());
        assert_eq!(TestFile::again(&ours, 1 << 20).unwrap().bytes, 1 << 20);
        assert!(TestFile::again(&ours, 2 << 20).unwrap_err().to_string().contains("the jobs need 2 MiB"));
        let strange = directory.path().join("strange.dat");
        fs::write(&strange, "precious").unwrap();
        assert_eq!(check_mark(&strange).unwrap_err().exit, hoistway_experiment::Exit::Refused);
        assert!(TestFile::create(&strange, 1 << 20, &Interrupt::default()).is_err());
        assert_eq!(fs::read(&strange).unwrap(), b"precious");
    }
}
