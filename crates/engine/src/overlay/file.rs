//! The file of an overlay and that of its base: opened, locked, and found to belong together.

use std::fs;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use hoistway_linux::device::{Kind, Opened, Opening, Refusal};

use super::format::{BaseIdentity, Boot, Header, NoHeader, PAGE_BYTES, Page};
use super::map::{DamagedSlot, Map, NoMap};
use crate::error::EngineError;

/// The first bytes of a qcow2 file.
const QCOW2_MAGIC: [u8; 4] = *b"QFI\xfb";

/// Where the second copy of the header is.
const SECOND_HEADER_BYTES: u64 = PAGE_BYTES as u64;

/// The boot of this machine.
///
/// # Errors
/// `/proc` is not mounted.
pub(super) fn this_boot() -> Result<Boot, EngineError> {
    const PATH: &str = "/proc/sys/kernel/random/boot_id";
    let text = fs::read_to_string(PATH)
        .map_err(|error| EngineError::system(format!("{PATH}: {error}"), "mount /proc: an overlay needs it"))?;
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    let number = u128::from_str_radix(&digits, 16).unwrap_or(1).max(1);
    Ok(number.to_be_bytes())
}

/// Opens the file of a descriptor once more, through the page cache.
pub(super) fn reopened(file: BorrowedFd<'_>, is_writable: bool, path: &Path) -> Result<OwnedFd, EngineError> {
    let again = format!("/proc/self/fd/{}", file.as_raw_fd());
    let opened = fs::OpenOptions::new().read(true).write(is_writable).open(again);
    opened.map(OwnedFd::from).map_err(|error| unreadable(path, &error))
}

fn unreadable(path: &Path, error: &std::io::Error) -> EngineError {
    EngineError::system(format!("{}: {error}", path.display()), "see the system's message")
}

/// Reads a page at a position of a file; what lies behind its end is zeroes.
pub(super) fn read_page(file: BorrowedFd<'_>, position_bytes: u64) -> std::io::Result<Page> {
    let mut page = [0; PAGE_BYTES];
    let mut done = 0;
    while done < PAGE_BYTES {
        match rustix::io::pread(file, &mut page[done..], position_bytes + done as u64) {
            Ok(0) => break,
            Ok(bytes) => done += bytes,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(page)
}

/// Writes all bytes at a position of a file.
pub(crate) fn write_all(file: BorrowedFd<'_>, bytes: &[u8], position_bytes: u64) -> std::io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        match rustix::io::pwrite(file, &bytes[done..], position_bytes + done as u64) {
            Ok(0) => return Err(std::io::ErrorKind::WriteZero.into()),
            Ok(written) => done += written,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Writes both copies of the header, one after the other, so that one is whole at any time.
pub(super) fn write_header(file: BorrowedFd<'_>, header: &Header) -> std::io::Result<()> {
    let page = header.encode();
    for position_bytes in [SECOND_HEADER_BYTES, 0] {
        write_all(file, &page, position_bytes)?;
        hoistway_linux::device::make_durable(file)?;
    }
    Ok(())
}

/// Reads the header of an overlay.
pub(super) fn read_header(file: BorrowedFd<'_>, path: &Path) -> Result<Header, EngineError> {
    let read = |position_bytes| read_page(file, position_bytes).map_err(|error| unreadable(path, &error));
    let first = Header::decode(&read(0)?);
    let found =
        first.or_else(|why| Header::decode(&read(SECOND_HEADER_BYTES).unwrap_or([0; PAGE_BYTES])).map_err(|_| why));
    found.map_err(|why| {
        let help = match why {
            NoHeader::Other => "make one with `hoistway image create --base BASE OVERLAY`",
            NoHeader::Version(_) => "use the version of hoistway that made it, or a later one",
            NoHeader::Damaged => "restore it from a backup; both copies of its header are damaged",
        };
        EngineError::usage(format!("{}: {why}", path.display()), help)
    })
}

/// Reads the bitmap of an overlay, and finds the slots of it that are damaged.
pub(super) fn read_map(
    file: BorrowedFd<'_>,
    header: &Header,
    size_bytes: u64,
    path: &Path,
) -> Result<(Map, Vec<DamagedSlot>), EngineError> {
    let layout = header.layout();
    let least = layout.data_bytes + header.base.size_bytes;
    if size_bytes < least {
        let message = format!("{} has {size_bytes} bytes; with its base it must have {least}", path.display());
        return Err(EngineError::usage(message, "it was cut, and what lay behind is lost: restore it from a backup"));
    }
    Map::read(layout, this_boot()?, |position| read_page(file, position)).map_err(|error| {
        let help = match error {
            NoMap::Damaged(_) => "restore the overlay from a backup: without the bitmap, its blocks are not known",
            NoMap::System(_) => "see what its disk reports",
        };
        EngineError::system(format!("{}: {error}", path.display()), help)
    })
}

/// Opens the base of an overlay for reading, and keeps others from writing to it. `is_writable`: for writing.
pub(super) fn open_base(
    path: &Path,
    open: impl Fn(&Path, Opening) -> Result<Opened, Refusal>,
    opening: Opening,
) -> Result<Opened, EngineError> {
    let opened = open(path, opening)?;
    if opened.facts.kind == Kind::BlockDevice {
        let message = format!("{} is a block device, which does not tell when it was last written", path.display());
        return Err(EngineError::usage(message, "a base is a file: copy it with `cp --sparse=always`"));
    }
    if !opening.writable {
        lock_shared(&opened, path)?;
    }
    let start = reopened(opened.file.as_fd(), false, path)?;
    let first = read_page(start.as_fd(), 0).map_err(|error| unreadable(path, &error))?;
    if first[..4] == QCOW2_MAGIC {
        let message = format!("{} is a qcow2 image; a base is a raw one", path.display());
        let help = format!("convert it once: qemu-img convert -O raw {} {}", path.display(), raw_name(path).display());
        return Err(EngineError::usage(message, help));
    }
    if Header::decode(&first).is_ok() {
        let message = format!("{} is an overlay itself; a base is a raw image", path.display());
        return Err(EngineError::usage(message, "write it into its base first: hoistway image commit OVERLAY"));
    }
    Ok(opened)
}

fn raw_name(path: &Path) -> PathBuf {
    path.with_extension("img")
}

/// Keeps writers away from a file that is open for reading.
pub(super) fn lock_shared(opened: &Opened, path: &Path) -> Result<(), EngineError> {
    hoistway_linux::ioctl::lock_for_reading(opened.file.as_fd()).map_err(|error| match error.kind() {
        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::PermissionDenied => {
            EngineError::from(Refusal::Locked { path: path.to_owned() })
        }
        _ => unreadable(path, &error),
    })
}

/// What a base is now.
pub(super) fn identity(base: &Opened, path: &Path) -> Result<BaseIdentity, EngineError> {
    let status = rustix::fs::fstat(&base.file).map_err(|error| unreadable(path, &error.into()))?;
    let modified_ns = u32::try_from(status.st_mtime_nsec).unwrap_or(0);
    Ok(BaseIdentity { size_bytes: base.facts.size_bytes, modified_s: status.st_mtime, modified_ns })
}

/// Refuses a base that is not as it was when the overlay was made.
pub(super) fn check_base(now: BaseIdentity, header: &Header, base: &Path, overlay: &Path) -> Result<(), EngineError> {
    let then = header.base;
    if now == then {
        return Ok(());
    }
    let again = format!("make a new overlay: hoistway image create --base {} OVERLAY", base.display());
    if now.size_bytes != then.size_bytes {
        let message = format!(
            "{} has {} bytes; the base of {} had {}",
            base.display(),
            now.size_bytes,
            overlay.display(),
            then.size_bytes
        );
        return Err(EngineError::usage(message, format!("put the base back as it was, or {again}")));
    }
    let message = format!(
        "{} has changed since {} was made on it: it was written at {}.{:09}, and was then of {}.{:09} (seconds since 1970)",
        base.display(),
        overlay.display(),
        now.modified_s,
        now.modified_ns,
        then.modified_s,
        then.modified_ns
    );
    let help = format!(
        "put the base back as it was; if only its time is another (a copy of the same bytes): \
         touch -d @{}.{:09} {}; else {again}",
        then.modified_s,
        then.modified_ns,
        base.display()
    );
    Err(EngineError::usage(message, help))
}

/// The path of the base that a header names.
pub(super) fn named_base(header: &Header) -> PathBuf {
    PathBuf::from(std::ffi::OsStr::from_bytes(&header.base_path))
}

/// Refuses an overlay that `image commit` was writing into its base.
pub(super) fn check_whole(header: &Header, overlay: &Path) -> Result<(), EngineError> {
    if !header.is_committing {
        return Ok(());
    }
    let message = format!("{} was being written into its base, which was interrupted", overlay.display());
    Err(EngineError::usage(message, format!("finish that: hoistway image commit {}", overlay.display())))
}
