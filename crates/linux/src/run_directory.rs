//! The directory in which a program stores files for its later runs in the same boot, writable by its user only.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::own_files;

/// The directory, which need not exist.
///
/// Root has `/run/hoistway-root`, because `/run/hoistway` belongs to the user of the service: root must neither obey
/// journals of that user nor follow its symbolic links. For other users it is the first of [`all`].
pub fn path() -> PathBuf {
    all().swap_remove(0)
}

/// The directories in which earlier runs of this user may have left files: which of them is used depends on whether a
/// run had a login session. The first one is used now; there is at least one.
pub fn all() -> Vec<PathBuf> {
    let own = rustix::process::geteuid().as_raw();
    of(own, std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from), |path, shared| is_private(path, own, shared))
}

/// `is_private` says whether a directory belongs to the user and gives other users none of the rights in the mask.
fn of(own: u32, session: Option<PathBuf>, is_private: impl Fn(&Path, u32) -> bool) -> Vec<PathBuf> {
    if own == 0 {
        return vec!["/run/hoistway-root".into()];
    }
    // A variable that `sudo` or a unit passed on names a directory of another user.
    let sessions = session.into_iter().chain([PathBuf::from(format!("/run/user/{own}"))]);
    let sessions = sessions.filter(|path| path.is_absolute() && is_private(path, 0o077));
    let mut found: Vec<PathBuf> = sessions.map(|path| path.join("hoistway")).collect();
    found.dedup();
    // A service's: its unit or tmpfiles made it, and `/tmp` is its own and ends with it.
    found.extend(Some(PathBuf::from("/run/hoistway")).filter(|path| is_private(path, 0o022)));
    // The user who makes this directory first has it, so it is checked whenever it is used, as all are.
    found.push(format!("/tmp/hoistway-{own}").into());
    found
}

fn is_private(path: &Path, own: u32, shared: u32) -> bool {
    fs::symlink_metadata(path).is_ok_and(|it| it.is_dir() && it.uid() == own && it.mode() & shared == 0)
}

/// Creates a directory below [`path`], accessible to the user only.
///
/// # Errors
/// It, or one above it, can be written to by other users; or any error from the system.
pub fn make(directory: &Path) -> io::Result<()> {
    own_files::make_directory(&path(), directory)
}

/// The files of a directory below [`path`] with this extension, by name; none if there is no such directory.
///
/// # Errors
/// As [`make`].
pub fn list(name: &str, extension: &str) -> io::Result<Vec<PathBuf>> {
    list_in(&path(), name, extension)
}

/// As [`list`], below one of [`all`].
pub(crate) fn list_in(base: &Path, name: &str, extension: &str) -> io::Result<Vec<PathBuf>> {
    match own_files::check_directory(base) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        checked => checked.and_then(|()| own_files::list(&base.join(name), extension)),
    }
}

/// The kernel's identifier of this boot. Files that describe the state of the kernel (settings that
/// were changed, ublk devices) contain it, because that state does not survive a reboot.
pub fn boot_id() -> String {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(own: u32, session: Option<&str>, private: &[&str]) -> Vec<String> {
        let is_private = |path: &Path, _: u32| private.iter().any(|it| path == Path::new(it));
        of(own, session.map(PathBuf::from), is_private).iter().map(|path| path.display().to_string()).collect()
    }

    #[test]
    fn root_shares_its_directory_with_no_other_user() {
        assert_eq!(chosen(0, None, &[]), ["/run/hoistway-root"]);
        assert_eq!(chosen(0, Some("/run/user/0"), &["/run/user/0", "/run/hoistway"]), ["/run/hoistway-root"]);
    }

    #[test]
    fn a_user_has_a_directory_that_no_other_user_can_write_to() {
        let session = "/run/user/1000";
        let (in_session, in_tmp) = ("/run/user/1000/hoistway", "/tmp/hoistway-1000");
        assert_eq!(chosen(1000, Some(session), &[session]), [in_session, in_tmp]);
        assert_eq!(chosen(1000, None, &[session]), [in_session, in_tmp], "from cron, while the user is logged in");
        assert_eq!(chosen(1000, None, &[]), [in_tmp]);
        assert_eq!(chosen(1000, Some("/run/user/0"), &[session]), [in_session, in_tmp], "of another user");
        assert_eq!(chosen(1000, Some("here"), &["here"]), [in_tmp], "relative");
        assert_eq!(chosen(990, None, &["/run/hoistway"]), ["/run/hoistway", "/tmp/hoistway-990"], "the service");
        assert_eq!(chosen(1000, Some("/x"), &["/x", session]), ["/x/hoistway", in_session, in_tmp]);
    }

    #[test]
    fn private_is_what_belongs_to_the_user_and_is_no_link() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let base = tempfile::tempdir().unwrap();
        let own = rustix::process::geteuid().as_raw();
        let (path, link) = (base.path().join("own"), base.path().join("link"));
        fs::create_dir(&path).unwrap();
        symlink(&path, &link).unwrap();
        for (mode, expected) in [(0o700, [true, true]), (0o755, [false, true]), (0o770, [false, false])] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!([0o077, 0o022].map(|shared| is_private(&path, own, shared)), expected, "{mode:o}");
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        assert!(!is_private(&link, own, 0o077) && !is_private(&path, own + 1, 0o077));
    }
}
