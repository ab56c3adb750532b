//! Opens and reads files named by the user, with bounds on size and time whatever kind of file they
//! are.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};

/// The length up to which a kind of file is read as a whole. Traces have none: they are read piece by piece.
#[derive(Copy, Clone, Debug)]
pub struct Ceiling {
    kind: &'static str,
    mib: u64,
}

impl Ceiling {
    /// A server's configuration.
    pub const CONFIGURATION: Self = Self { kind: "a configuration", mib: 4 };
    /// A scenario.
    pub const SCENARIO: Self = Self { kind: "a scenario", mib: 1 };
    /// A file of jobs, and each file that it includes.
    pub const JOB_FILE: Self = Self { kind: "a job file", mib: 4 };
    /// A table of groups.
    pub const TABLE: Self = Self { kind: "a table of groups", mib: 16 };
    /// Results: a hundred runs of fio with all bins.
    pub const RESULTS: Self = Self { kind: "a file of results", mib: 256 };

    /// Certificates or a key, in PEM; an authority's file may have hundreds.
    pub const CERTIFICATES: Self = Self { kind: "a file of certificates", mib: 4 };
    /// What this program has written for itself.
    pub const OWN: Self = Self { kind: "a file of this program", mib: 16 };

    const fn bytes(self) -> u64 {
        self.mib << 20
    }
}

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

/// Reads a text as a whole; a file that is not text is read no further than to the chunk with its
/// first zero byte.
///
/// # Errors
/// As [`open`]; the file is not text, or longer than allowed, which is found before anything is read where the file
/// has a length.
pub fn text(path: &Path, ceiling: Ceiling) -> io::Result<String> {
    String::from_utf8(bytes(path, ceiling)?).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        io::Error::other(format!("it is not text: byte {at} is not UTF-8"))
    })
}

/// Reads a regular file as text, for callers that must not block on another process.
///
/// # Errors
/// As [`text`]; the file is not a regular file.
pub fn regular_text(path: &Path, ceiling: Ceiling) -> io::Result<String> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    text(path, ceiling)
}

/// Reads a file as [`text`] does, without checking that it is UTF-8.
///
/// # Errors
/// As [`text`].
pub fn bytes(path: &Path, ceiling: Ceiling) -> io::Result<Vec<u8>> {
    bytes_of(open(path)?, ceiling)
}

/// Reads an open file as [`bytes`] does.
pub(crate) fn bytes_of(file: File, ceiling: Ceiling) -> io::Result<Vec<u8>> {
    let Ceiling { kind, mib } = ceiling;
    let length = file.metadata()?.len();
    if length > ceiling.bytes() {
        return Err(io::Error::other(format!("it is {length} bytes long, and {kind} has at most {mib} MiB")));
    }
    let mut file = file.take(ceiling.bytes() + 1);
    let mut all = Vec::new();
    loop {
        let before = all.len();
        if file.by_ref().take(CHUNK_BYTES as u64).read_to_end(&mut all)? == 0 {
            return Ok(all);
        }
        if let Some(at) = all[before..].iter().position(|byte| *byte == 0) {
            return Err(io::Error::other(format!("it is not text: byte {} is zero", before + at)));
        }
        // A pipe has no length in advance.
        if all.len() as u64 > ceiling.bytes() {
            return Err(io::Error::other(format!("it is longer than {mib} MiB, the most that {kind} has")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_is_read_up_to_the_ceiling() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let script = "yes | head -c 3000000 >\"$0\"";
        let mut writer = std::process::Command::new("sh").args(["-c", script]).arg(&pipe).spawn().unwrap();
        let said = text(&pipe, Ceiling::SCENARIO).unwrap_err().to_string();
        assert_eq!(said, "it is longer than 1 MiB, the most that a scenario has");
        writer.wait().unwrap();
    }

    #[test]
    fn endless_files_and_pipes_without_a_writer_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        File::create(path("sparse")).unwrap().set_len(1 << 30).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(path("fifo")).status().unwrap().success());
        let said = |path: &Path| text(path, Ceiling::SCENARIO).unwrap_err().to_string();
        assert!(said(Path::new("/dev/zero")).contains("byte 0 is zero"));
        assert_eq!(said(&path("sparse")), "it is 1073741824 bytes long, and a scenario has at most 1 MiB");
        assert_eq!(said(&path("fifo")), "no process writes to this pipe");
        assert_eq!(said(folder.path()), "it is a directory");
        for name in ["/dev/zero", "fifo"] {
            assert_eq!(
                regular_text(&path(name), Ceiling::SCENARIO).unwrap_err().to_string(),
                "it is not a regular file"
            );
        }
        fs::write(path("text"), "words").unwrap();
        assert_eq!(regular_text(&path("text"), Ceiling::SCENARIO).unwrap(), "words");
    }
}
