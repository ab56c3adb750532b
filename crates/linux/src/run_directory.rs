//! Where a program of this boot leaves notes for its own later runs: `/run/hoistway`, for its user only.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The directory; it need not exist. Without the right to write to `/run` it is in the user's own.
pub fn path() -> PathBuf {
    let run = Path::new("/run");
    let is_ours = rustix::process::geteuid().is_root();
    let own = std::env::var_os("XDG_RUNTIME_DIR").filter(|_| !is_ours).map(PathBuf::from);
    own.unwrap_or_else(|| run.to_owned()).join("hoistway")
}

/// Makes a directory below it, for the user alone.
///
/// # Errors
/// What the system says.
pub fn make(directory: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

/// Names this boot: what was left by an earlier one means nothing.
pub fn boot_id() -> String {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim().to_owned()
}
