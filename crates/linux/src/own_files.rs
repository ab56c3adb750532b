//! Files that this program writes for its own later runs, and obeys when it reads them again.
//!
//! A user who may write such a file decides what a later run does, with the rights of that run. So a file is read only
//! if no user but the caller or root can have written it: neither the file nor its directory belongs to or is writable
//! by another one, and neither is a link.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use crate::input;

/// Why a file or directory may have been written by another user; `None` if it cannot have been.
fn objection(metadata: &Metadata) -> Option<String> {
    let own = rustix::process::geteuid().as_raw();
    let (owner, mode) = (metadata.uid(), metadata.mode() & 0o7777);
    if owner != own && owner != 0 {
        return Some(format!("it belongs to user {owner}, neither to root nor to this user ({own})"));
    }
    if mode & 0o022 != 0 {
        return Some(format!("its mode {mode:04o} lets other users write to it"));
    }
    // A second name may be below a directory of another user, who chose this file for us.
    let links = metadata.nlink();
    (metadata.is_file() && links != 1).then(|| format!("it has {links} names (hard links)"))
}

fn refuse(why: &str) -> io::Error {
    let help = "remove it, or have its owner remove it";
    io::Error::new(io::ErrorKind::PermissionDenied, format!("{why}; {help}"))
}

/// Checks that a directory is no link and that only the caller or root can write to it.
///
/// # Errors
/// `PermissionDenied` with path and reason; or any error from the system, such as `NotFound`.
pub fn check_directory(path: &Path) -> io::Result<()> {
    let metadata = fs::symlink_metadata(path)?;
    let why = if metadata.is_dir() { objection(&metadata) } else { Some("it is not a directory".to_owned()) };
    why.map_or(Ok(()), |why| Err(refuse(&format!("{} is not obeyed: {why}", path.display()))))
}

/// Creates a directory below `base`, and those between, accessible to the user only, and checks all of them.
///
/// # Errors
/// As [`check_directory`].
pub fn make_directory(base: &Path, directory: &Path) -> io::Result<()> {
    let chain: Vec<&Path> = directory.ancestors().take_while(|above| above.starts_with(base)).collect();
    for step in chain.into_iter().rev() {
        match DirBuilder::new().mode(0o700).create(step) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => check_directory(step)?,
        }
    }
    Ok(())
}

/// The files of a directory with this extension, by name; none if it does not exist.
///
/// # Errors
/// As [`check_directory`].
pub fn list(directory: &Path, extension: &str) -> io::Result<Vec<PathBuf>> {
    match check_directory(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        checked => checked?,
    }
    let entries = fs::read_dir(directory)?.flatten().map(|entry| entry.path());
    let mut paths: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|it| it == extension)).collect();
    paths.sort();
    Ok(paths)
}

/// Reads a file as a whole, without following a link and without waiting for another process. Its directory is checked
/// as well; those above it are the caller's to check, as [`make_directory`] does.
///
/// # Errors
/// `PermissionDenied` with the reason; the file is too long or not text; or any error from the system.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    path.parent().map_or(Ok(()), check_directory)?;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Err(rustix::io::Errno::LOOP) => return Err(refuse("it is a symbolic link")),
        opened => File::from(opened?),
    };
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(refuse("it is not a regular file"));
    }
    if let Some(why) = objection(&metadata) {
        return Err(refuse(&why));
    }
    input::bytes_of(file, input::Ceiling::OWN)
}

/// Replaces a file as a whole and durably; a reader sees the old content or the new one. Only the user may read it.
///
/// # Errors
/// Any error from the system.
pub fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    replace_as(path, content, 0o600)
}

/// As [`replace`], for a file that every user may read, whatever the umask is.
///
/// # Errors
/// Any error from the system.
pub fn replace_public(path: &Path, content: &[u8]) -> io::Result<()> {
    replace_as(path, content, 0o644)
}

fn replace_as(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let unfinished = unfinished(path);
    // What a killed process left is not continued: it may be a link, or have another mode.
    match fs::remove_file(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&unfinished)?;
    file.set_permissions(fs::Permissions::from_mode(mode))?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&unfinished, path)
}

/// The name of a file while it is written: what a killed process may leave.
pub fn unfinished(path: &Path) -> PathBuf {
    path.with_extension("new")
}

/// Removes a file, and what a killed process left of its replacement.
///
/// # Errors
/// Any error from the system, but not that there is no such file.
pub fn remove(path: &Path) -> io::Result<()> {
    let _ = fs::remove_file(unfinished(path));
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn reason(result: io::Result<impl std::fmt::Debug>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn a_file_is_read_again_and_replaced_even_over_a_link() {
        let base = tempfile::tempdir().unwrap();
        let directory = base.path().join("a/b");
        make_directory(base.path(), &directory).unwrap();
        let path = directory.join("note.json");
        let victim = base.path().join("victim");
        fs::write(&victim, "kept").unwrap();
        symlink(&victim, unfinished(&path)).unwrap();
        replace(&path, b"one").unwrap();
        replace(&path, b"two").unwrap();
        assert_eq!((read(&path).unwrap(), fs::read_to_string(&victim).unwrap()), (b"two".to_vec(), "kept".to_owned()));
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600, "whatever the umask is");
        assert_eq!(list(&directory, "json").unwrap(), [path]);
        assert_eq!(list(&base.path().join("missing"), "json").unwrap(), Vec::<PathBuf>::new());
    }

    #[test]
    fn links_and_what_others_may_write_to_are_not_read() {
        let base = tempfile::tempdir().unwrap();
        let path = |name: &str| base.path().join(name);
        for name in ["open", "target", "twin"] {
            replace(&path(name), b"{}").unwrap();
        }
        mode(&path("open"), 0o620);
        symlink(path("target"), path("link")).unwrap();
        fs::hard_link(path("twin"), path("other-name")).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(path("pipe")).status().unwrap().success());
        assert!(reason(read(&path("open"))).contains("mode 0620 lets other users write"));
        assert!(reason(read(&path("link"))).contains("a symbolic link"));
        assert!(reason(read(&path("twin"))).contains("2 names"));
        assert!(reason(read(&path("pipe"))).contains("not a regular file"), "and it does not wait for a writer");
    }

    #[test]
    fn a_directory_of_others_is_not_used() {
        let base = tempfile::tempdir().unwrap();
        let path = |name: &str| base.path().join(name);
        fs::create_dir(path("open")).unwrap();
        mode(&path("open"), 0o777);
        fs::create_dir(path("own")).unwrap();
        symlink(path("own"), path("link")).unwrap();
        for (name, said) in [("open", "mode 0777"), ("link", "not a directory")] {
            assert!(reason(check_directory(&path(name))).contains(said), "{name}");
            assert!(reason(list(&path(name), "json")).contains(said), "{name}");
            assert!(reason(make_directory(base.path(), &path(name).join("below"))).contains(said), "{name}");
            assert!(!path(name).join("below").exists());
        }
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(path("own"), Some(4_711), None).unwrap();
            assert!(reason(check_directory(&path("own"))).contains("belongs to user 4711"));
            replace(&path("file"), b"{}").unwrap();
            std::os::unix::fs::chown(path("file"), Some(4_711), None).unwrap();
            assert!(reason(read(&path("file"))).contains("belongs to user 4711"));
        }
    }
}
