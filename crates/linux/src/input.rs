//! Opens and reads files named by the user, with bounds on size and time whatever kind of file they
//! are.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};

/// Longest text that is read as a whole: a hundred runs of fio results with all bins.
const LONGEST_BYTES: u64 = 256 << 20;
/// How long to wait for a writer of a named pipe.
const WRITER_TIMEOUT: Duration = Duration::from_secs(1);
const CHUNK_BYTES: usize = 64 << 10;

/// Opens a file. A named pipe must have a writer within a second; without one, opening it would
/// wait forever.
///
/// # Errors
/// It cannot be opened, is a directory, or is a named pipe without a writer.
pub fn open(path: &Path) -> io::Result<File> {
    let metadata = fs::metadata(path)?;
    if metadata.is_dir() {
        return Err(io::Error::other("it is a directory"));
    }
    if !metadata.file_type().is_fifo() {
        return File::open(path);
    }
    let file = File::from(rustix::fs::open(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?);
    let end = Instant::now() + WRITER_TIMEOUT;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let left = Timespec { tv_sec: 0, tv_nsec: left.subsec_nanos().into() };
        let mut fds = [PollFd::new(&file, PollFlags::IN)];
        if poll(&mut fds, Some(&left))? > 0 {
            break;
        }
        // A lack of data does not tell whether there is a writer; without one, a read ends at once.
        match (&file).read(&mut [0]) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            _ if Instant::now() >= end => return Err(io::Error::other("no process writes to this pipe")),
            _ => {}
        }
    }
    let flags = rustix::fs::fcntl_getfl(&file)?;
    rustix::fs::fcntl_setfl(&file, flags - OFlags::NONBLOCK)?;
    Ok(file)
}

/// Reads a text as a whole; a file that is not text is cut off at its first zero byte.
///
/// # Errors
/// As [`open`]; the file is not text, or longer than 256 MiB.
pub fn text(path: &Path) -> io::Result<String> {
    String::from_utf8(bytes(path)?).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        io::Error::other(format!("it is not text: byte {at} is not UTF-8"))
    })
}

/// Reads a regular file as text, for callers that must not block on another process.
///
/// # Errors
/// As [`text`]; the file is not a regular file.
pub fn regular_text(path: &Path) -> io::Result<String> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    text(path)
}

/// Reads a file as [`text`] does, without checking that it is UTF-8.
///
/// # Errors
/// As [`text`].
pub fn bytes(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = open(path)?.take(LONGEST_BYTES + 1);
    let mut all = Vec::new();
    loop {
        let before = all.len();
        if file.by_ref().take(CHUNK_BYTES as u64).read_to_end(&mut all)? == 0 {
            return Ok(all);
        }
        if let Some(at) = all[before..].iter().position(|byte| *byte == 0) {
            return Err(io::Error::other(format!("it is not text: byte {} is zero", before + at)));
        }
        if all.len() as u64 > LONGEST_BYTES {
            return Err(io::Error::other(format!("it is longer than {} MiB", LONGEST_BYTES >> 20)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endless_files_and_pipes_without_a_writer_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        File::create(path("sparse")).unwrap().set_len(1 << 30).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(path("fifo")).status().unwrap().success());
        let said = |path: &Path| text(path).unwrap_err().to_string();
        assert!(said(Path::new("/dev/zero")).contains("byte 0 is zero"));
        assert!(said(&path("sparse")).contains("byte 0 is zero"));
        assert_eq!(said(&path("fifo")), "no process writes to this pipe");
        assert_eq!(said(folder.path()), "it is a directory");
        for name in ["/dev/zero", "fifo"] {
            assert_eq!(regular_text(&path(name)).unwrap_err().to_string(), "it is not a regular file");
        }
        fs::write(path("text"), "words").unwrap();
        assert_eq!(regular_text(&path("text")).unwrap(), "words");
    }
}
