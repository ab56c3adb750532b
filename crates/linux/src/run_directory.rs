//! The directory in which a program stores files for its later runs in the same boot:
//! `/run/hoistway`, accessible to its user only.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The directory, which need not exist. Only root can write to `/run`, so for other users it lies in
/// `$XDG_RUNTIME_DIR`, if that is set.
pub fn path() -> PathBuf {
    let run = Path::new("/run");
    let is_ours = rustix::process::geteuid().is_root();
    let own = std::env::var_os("XDG_RUNTIME_DIR").filter(|_| !is_ours).map(PathBuf::from);
    own.unwrap_or_else(|| run.to_owned()).join("hoistway")
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
