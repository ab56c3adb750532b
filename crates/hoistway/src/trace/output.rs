//! Where a trace is written to: a file that appears when it is whole, something that is no file, or standard output.

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
    /// The reader of standard output went away: it has seen enough.
    is_gone: bool,
}

enum Target {
    /// Beside its place, under another name, until it is whole.
    Whole { file: BufWriter<NamedTempFile>, is_forced: bool },
    /// Standard output, a pipe, a device.
    Stream(BufWriter<File>),
}

/// Whether a path stands for standard output.
pub(super) fn is_stdout(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Standard output as a file of its own.
pub(super) fn stdout() -> Result<File, Error> {
    let file = io::stdout().as_fd().try_clone_to_owned();
    file.map(File::from).map_err(|error| Error::failed(format!("cannot write to stdout: {error}"), ""))
}

/// Refuses what is there already, unless it is to be replaced.
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

/// A directory beside a path, for files that are not whole yet; it goes with the value.
pub(super) fn directory_beside(path: &Path) -> Result<TempDir, Error> {
    let made = tempfile::Builder::new().prefix(".hoistway-").tempdir_in(directory_of(path));
    made.map_err(|error| Error::file(directory_of(path), "write into", &error))
}

impl Out {
    /// Begins a file, which takes its place at [`Out::finish`]. Nothing stays of one that is not finished.
    pub(super) fn create(path: &Path, is_forced: bool) -> Result<Self, Error> {
        let new = |target| Ok(Self { path: path.to_owned(), target, is_gone: false });
        if is_stdout(path) {
            return new(Target::Stream(BufWriter::new(stdout()?)));
        }
        // A pipe or a device is written into, never replaced.
        if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir()) {
            let file = File::options().write(true).open(path).map_err(|error| Error::file(path, "open", &error))?;
            return new(Target::Stream(BufWriter::new(file)));
        }
        check(path, is_forced)?;
        // What a link points to is replaced, not the link.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        // The umask takes away what others must not have.
        let permissions = Permissions::from_mode(0o666);
        let file =
            tempfile::Builder::new().prefix(".hoistway-").permissions(permissions).tempfile_in(directory_of(&path));
        let file = BufWriter::new(file.map_err(|error| Error::file(&path, "create", &error))?);
        Ok(Self { path, target: Target::Whole { file, is_forced }, is_gone: false })
    }

    /// The path that messages and other files name.
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

    /// Whether somebody still wants more.
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

    /// Writes everything out and gives the file its name.
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
