//! The output of a trace: a file that appears when it is complete, a pipe or device, or standard
//! output.

use std::fs::{self, File, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::{NamedTempFile, TempDir};

use crate::exit::Error;

/// A file being written.
pub(super) struct Out {
    path: PathBuf,
    target: Target,
    /// Whether the reader of standard output has closed the pipe.
    is_gone: bool,
}

enum Target {
    /// A file that has a temporary name in the same directory until it is complete.
    Whole { file: BufWriter<NamedTempFile>, is_forced: bool },
    /// Standard output, a pipe, a device.
    Stream(BufWriter<File>),
}

/// Whether a path stands for standard output.
pub(super) fn is_stdout(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Standard output as a separate file.
pub(super) fn stdout() -> Result<File, Error> {
    let file = io::stdout().as_fd().try_clone_to_owned();
    file.map(File::from).map_err(|error| Error::failed(format!("cannot write to stdout: {error}"), ""))
}

/// Refuses an existing file, unless it may be replaced.
pub(super) fn check(path: &Path, is_forced: bool) -> Result<(), Error> {
    if path.exists() && !is_forced {
        let what = format!("{} exists", path.display());
        return Err(Error::failed(what, "choose another --out, or replace it: --force"));
    }
    Ok(())
}

/// The directory of a path.
fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A temporary directory beside a path, for incomplete files; it is removed when the value is
/// dropped.
pub(super) fn directory_beside(path: &Path) -> Result<TempDir, Error> {
    let made = tempfile::Builder::new().prefix(".hoistway-").tempdir_in(directory_of(path));
    made.map_err(|error| Error::file(directory_of(path), "write into", &error))
}

impl Out {
    /// Begins a file, which gets its name in [`Out::finish`]. An unfinished file leaves nothing
    /// behind.
    pub(super) fn create(path: &Path, is_forced: bool) -> Result<Self, Error> {
        let new = |target| Ok(Self { path: path.to_owned(), target, is_gone: false });
        if is_stdout(path) {
            return new(Target::Stream(BufWriter::new(stdout()?)));
        }
        // A pipe or a device is written to, never replaced.
        if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir()) {
            let file = File::options().write(true).open(path).map_err(|error| Error::file(path, "open", &error))?;
            return new(Target::Stream(BufWriter::new(file)));
        }
        check(path, is_forced)?;
        // A link's destination is replaced, not the link.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        // The umask removes the permissions that others must not have.
        let permissions = Permissions::from_mode(0o666);
        let file =
            tempfile::Builder::new().prefix(".hoistway-").permissions(permissions).tempfile_in(directory_of(&path));
        let file = BufWriter::new(file.map_err(|error| Error::file(&path, "create", &error))?);
        Ok(Self { path, target: Target::Whole { file, is_forced }, is_gone: false })
    }

    /// The path for messages and for other files.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes some bytes.
    pub(super) fn bytes(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let written = match &mut self.target {
            Target::Whole { file, .. } => file.write_all(bytes),
            Target::Stream(file) => file.write_all(bytes),
        };
        self.unless_gone(written)
    }

    /// Whether the output still has a reader.
    pub(super) fn is_wanted(&self) -> bool {
        !self.is_gone
    }

    fn unless_gone(&mut self, written: io::Result<()>) -> Result<(), Error> {
        match written {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.is_gone = true;
                Ok(())
            }
            other => other.map_err(|error| Error::file(&self.path, "write", &error)),
        }
    }

    /// Flushes the output and gives the file its name.
    pub(super) fn finish(mut self) -> Result<(), Error> {
        let flushed = match &mut self.target {
            Target::Whole { file, .. } => file.flush(),
            Target::Stream(file) => file.flush(),
        };
        self.unless_gone(flushed)?;
        let Target::Whole { file, is_forced } = self.target else { return Ok(()) };
        let file = file.into_inner().map_err(|error| Error::file(&self.path, "write", error.error()))?;
        let placed = if is_forced { file.persist(&self.path) } else { file.persist_noclobber(&self.path) };
        placed.map(|_| ()).map_err(|error| Error::file(&self.path, "create", &error.error))
    }
}
