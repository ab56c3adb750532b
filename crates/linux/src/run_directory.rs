//! The directory in which a program stores files for its later runs in the same boot, accessible to its user only.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The directory, which need not exist.
///
/// Root has `/run/hoistway-root`, because `/run/hoistway` belongs to the user of the service: root must neither obey
/// journals of that user nor follow its symbolic links. Other users cannot write to `/run`, so theirs lies in
/// `$XDG_RUNTIME_DIR`, if that is set.
pub fn path() -> PathBuf {
    of(rustix::process::geteuid().is_root(), std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from))
}

fn of(is_root: bool, own: Option<PathBuf>) -> PathBuf {
    if is_root { PathBuf::from("/run/hoistway-root") } else { own.unwrap_or_else(|| "/run".into()).join("hoistway") }
}

/// Creates a directory, and those above it, accessible to the user only.
///
/// # Errors
/// Any error from the system.
pub fn make(directory: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)
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

    #[test]
    fn root_shares_its_directory_with_no_other_user() {
        let own = || Some(PathBuf::from("/run/user/1000"));
        assert_eq!(of(true, None), Path::new("/run/hoistway-root"));
        assert_eq!(of(true, own()), Path::new("/run/hoistway-root"));
        assert_eq!(of(false, own()), Path::new("/run/user/1000/hoistway"));
        assert_eq!(of(false, None), Path::new("/run/hoistway"));
    }
}
