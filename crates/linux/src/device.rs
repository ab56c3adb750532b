//! Describes the file or device behind a path, and checks it before it is opened for writing.
//!
//! [`open`] refuses a device that is in use and says why; [`facts`] describes an open file. Nothing
//! here writes.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, StatxFlags};

use crate::block_queue::BlockQueue;
use crate::ioctl;
use crate::ring::Emptying;

/// statfs magic of tmpfs.
const TMPFS_MAGIC: u64 = 0x0102_1994;
/// statfs magic of the file systems that support zeroing ranges: ext4, xfs, btrfs, f2fs.
const ZEROING_MAGIC: [u64; 4] = [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010];
/// statfs magic of the file systems of this machine, which know a file's size without waiting for
/// another machine or a process: tmpfs, ext4, xfs, btrfs, f2fs, vfat.
const LOCAL_MAGIC: [u64; 6] = [TMPFS_MAGIC, 0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010, 0x4d44];
/// How often a claim is tried before the file counts as held by another process.
const GRACE_TRIES: u32 = 25;
const GRACE_STEP: std::time::Duration = std::time::Duration::from_millis(20);

/// What kind of thing was opened.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A block device.
    BlockDevice,
    /// A file on a file system with a device (or a network) behind it.
    RegularFile,
    /// A file on tmpfs, which has no device behind it.
    MemoryFile,
}

/// What is known about an open file or device.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Facts {
    /// What kind of file it is.
    pub kind: Kind,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Alignment that direct I/O needs, in bytes; `None` where direct I/O is not possible.
    pub direct_alignment_bytes: Option<u32>,
    /// Smallest unit the device writes without reading first, in bytes.
    pub physical_block_bytes: u32,
    /// Whether the device has moving parts, as far as the system knows.
    pub is_rotational: bool,
    /// Whether a file's size can be asked for at any time without waiting; not for block devices.
    pub has_local_size: bool,
    /// The file's identity: device and inode number (for a block device, its own number and 0).
    pub identity: (u64, u64),
}

/// Options for opening.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Opening {
    /// Open for writing as well, which requires that no other opener has claimed an overlapping
    /// range.
    pub writable: bool,
    /// Bypass the page cache, if possible.
    pub direct: bool,
    /// Refuse a block device that is mounted or otherwise in use, even for reading.
    pub exclusive: bool,
    /// Start and length, in bytes, of the range that a writer claims: two volumes may write
    /// disjoint ranges of one file. Length 0 extends to the end of the file, however far it grows.
    pub claimed_bytes: (u64, u64),
}

/// Why something was not opened.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// No such path.
    #[error("{} does not exist", path.display())]
    Missing {
        /// The path as given.
        path: PathBuf,
    },
    /// A regular file below `/dev`, where only devices are expected.
    #[error("{} is a regular file in /dev, that is, memory: not a disk", path.display())]
    FileInDev {
        /// The path as given.
        path: PathBuf,
    },
    /// Neither file nor block device.
    #[error("{} is neither a regular file nor a block device but {what}", path.display())]
    WrongKind {
        /// The path as given.
        path: PathBuf,
        /// What it is instead.
        what: &'static str,
    },
    /// The device, one of its partitions or a holder is in use.
    #[error("{} is in use ({user} is mounted, swapped to, part of another device, or open exclusively)", path.display())]
    InUse {
        /// The path as given.
        path: PathBuf,
        /// The node that is busy.
        user: PathBuf,
    },
    /// Another opener has the file open for writing.
    #[error("{} is already open for writing by another volume or another server", path.display())]
    Locked {
        /// The path as given.
        path: PathBuf,
    },
    /// Another volume of this process writes to some of the same bytes of a device.
    #[error("{} is written to by '{owner}' as well, in some of the same bytes", path.display())]
    Overlap {
        /// The path as given.
        path: PathBuf,
        /// The name of the other volume.
        owner: String,
    },
    /// The device is read-only.
    #[error("{} is read-only", path.display())]
    ReadOnly {
        /// The path as given.
        path: PathBuf,
    },
    /// The size is below one sector.
    #[error("{} has no size (at least 512 bytes are needed)", path.display())]
    Empty {
        /// The path as given.
        path: PathBuf,
    },
    /// The path leads out of the directory it must stay in, or through a symbolic link.
    #[error("{} leads out of {} or through a symbolic link", path.display(), root.display())]
    Escapes {
        /// The path as given.
        path: PathBuf,
        /// The directory it must stay in.
        root: PathBuf,
    },
    /// Any other error from the system.
    #[error("{}: {source}", path.display())]
    System {
        /// The path as given.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

/// An open file or device and what is known of it.
#[derive(Debug)]
pub struct Opened {
    /// The descriptor; a writable one holds the lock that excludes other writers.
    pub file: OwnedFd,
    /// Its properties.
    pub facts: Facts,
    /// Whether it bypasses the page cache.
    pub is_direct: bool,
}

/// Opens a file or block device after every check. With `root`, a path that is not below `/dev` is
/// looked up beneath that directory and may neither leave it nor pass a symbolic link.
///
/// # Errors
/// The first check that failed; nothing has been changed.
pub fn open(path: &Path, root: Option<&Path>, opening: Opening) -> Result<Opened, Refusal> {
    open_with(path, root, opening, false)
}

/// Opens a block device that this process has claimed ([`crate::claims`]).
///
/// # Errors
/// As [`open`].
pub fn open_claimed(path: &Path, opening: Opening) -> Result<Opened, Refusal> {
    open_with(path, None, opening, true)
}

/// Claims a block device for this process after every check, without the right to write to it.
pub(crate) fn claim_device(path: &Path) -> Result<OwnedFd, Refusal> {
    check_device(path, Opening { writable: true, direct: false, exclusive: true, claimed_bytes: (0, 0) })?;
    with_retry(|| match rustix::fs::open(path, OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC, Mode::empty()) {
        Ok(file) => Ok(file),
        Err(rustix::io::Errno::BUSY) => Err(Refusal::InUse { path: path.to_owned(), user: path.to_owned() }),
        Err(source) => Err(Refusal::System { path: path.to_owned(), source: source.into() }),
    })
}

fn open_with(path: &Path, root: Option<&Path>, opening: Opening, is_claimed: bool) -> Result<Opened, Refusal> {
    let system = |source: io::Error| Refusal::System { path: path.to_owned(), source };
    let is_below_root = root.is_some() && !path.starts_with("/dev");
    let plain = |flags: OFlags| -> Result<OwnedFd, Refusal> {
        match root {
            Some(root) if is_below_root => open_beneath(root, path, flags),
            _ => rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty()).map_err(|error| match error {
                rustix::io::Errno::NOENT => Refusal::Missing { path: path.to_owned() },
                rustix::io::Errno::ROFS => Refusal::ReadOnly { path: path.to_owned() },
                other => system(other.into()),
            }),
        }
    };
    // O_PATH looks at the node without opening it, so it has no side effects.
    let look = plain(OFlags::PATH)?;
    let kind = FileType::from_raw_mode(rustix::fs::fstat(&look).map_err(|error| system(error.into()))?.st_mode);
    match kind {
        FileType::BlockDevice if is_claimed => {}
        FileType::BlockDevice => check_device(path, opening)?,
        FileType::RegularFile if path.parent() == Some(Path::new("/dev")) => {
            return Err(Refusal::FileInDev { path: path.to_owned() });
        }
        FileType::RegularFile => {}
        other => return Err(Refusal::WrongKind { path: path.to_owned(), what: name_of(other) }),
    }
    let mut flags = if opening.writable { OFlags::RDWR } else { OFlags::RDONLY };
    if kind == FileType::BlockDevice && (opening.writable || opening.exclusive) && !is_claimed {
        flags |= OFlags::EXCL;
    }
    let busy = |refusal| match refusal {
        Refusal::System { source, .. } if source.raw_os_error() == Some(libc::EBUSY) => {
            Refusal::InUse { path: path.to_owned(), user: path.to_owned() }
        }
        other => other,
    };
    let mut file = with_retry(|| plain(flags).map_err(busy))?;
    let facts = facts(file.as_fd()).map_err(system)?;
    if facts.size_bytes < 512 {
        return Err(Refusal::Empty { path: path.to_owned() });
    }
    let is_direct = opening.direct && facts.direct_alignment_bytes.is_some();
    if is_direct {
        // The flag is set on the same open description, so that no second opening can race with the
        // checks.
        let now = rustix::fs::fcntl_getfl(&file).map_err(|error| system(error.into()))?;
        rustix::fs::fcntl_setfl(&file, now | OFlags::DIRECT).map_err(|error| system(error.into()))?;
    }
    if opening.writable {
        file = locked(file, opening.claimed_bytes, path)?;
    }
    Ok(Opened { file, facts, is_direct })
}

/// Retries `open` for a moment while the device is in use, for the same reason as [`locked`].
fn with_retry<T>(open: impl Fn() -> Result<T, Refusal>) -> Result<T, Refusal> {
    for _ in 1..GRACE_TRIES {
        match open() {
            Err(Refusal::InUse { .. }) => std::thread::sleep(GRACE_STEP),
            other => return other,
        }
    }
    open()
}

/// Claims the file, retrying for a moment: a process that has just ended may have had a ring, and
/// the kernel releases a ring's files some milliseconds after the process.
fn locked(file: OwnedFd, claimed_bytes: (u64, u64), path: &Path) -> Result<OwnedFd, Refusal> {
    for _ in 0..GRACE_TRIES {
        match ioctl::lock_for_writing(file.as_fd(), claimed_bytes) {
            Ok(()) => return Ok(file),
            Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => {
                std::thread::sleep(GRACE_STEP);
            }
            Err(source) => return Err(Refusal::System { path: path.to_owned(), source }),
        }
    }
    Err(Refusal::Locked { path: path.to_owned() })
}

fn open_beneath(root: &Path, path: &Path, flags: OFlags) -> Result<OwnedFd, Refusal> {
    let system = |source: rustix::io::Errno| Refusal::System { path: path.to_owned(), source: source.into() };
    let escapes = || Refusal::Escapes { path: path.to_owned(), root: root.to_owned() };
    // An absolute path below the root means the same file as its remainder.
    let relative = match path.strip_prefix(root) {
        Ok(rest) => rest,
        Err(_) if path.is_absolute() => return Err(escapes()),
        Err(_) => path,
    };
    let directory = rustix::fs::open(root, OFlags::DIRECTORY | OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
        .map_err(|source| Refusal::System { path: root.to_owned(), source: source.into() })?;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match rustix::fs::openat2(&directory, relative, flags | OFlags::CLOEXEC, Mode::empty(), resolve) {
        Ok(file) => Ok(file),
        Err(rustix::io::Errno::XDEV | rustix::io::Errno::LOOP) => Err(escapes()),
        Err(rustix::io::Errno::NOENT) => Err(Refusal::Missing { path: path.to_owned() }),
        Err(rustix::io::Errno::ROFS) => Err(Refusal::ReadOnly { path: path.to_owned() }),
        Err(other) => Err(system(other)),
    }
}

/// Items 1 to 4 of the safety checks (docs/specifications/harness.md, section 2.2): a device that
/// exists, is free (with its partitions and holders), can be written and has a size. The device's
/// own exclusive opening is done by `open`, because it must last.
fn check_device(path: &Path, opening: Opening) -> Result<(), Refusal> {
    if !opening.writable && !opening.exclusive {
        return Ok(());
    }
    let system = |source: io::Error| Refusal::System { path: path.to_owned(), source };
    let real = fs::canonicalize(path).map_err(system)?;
    let Some(sysfs) = sysfs_of(&real).map_err(system)? else { return Ok(()) };
    if opening.writable && read_number(&sysfs.join("ro")) == Some(1) {
        return Err(Refusal::ReadOnly { path: path.to_owned() });
    }
    // Partitions are checked before the whole device, because while the whole device is claimed
    // every claim of a partition fails.
    let mut users = Vec::new();
    collect_users(&sysfs, 0, &mut users);
    for user in users {
        // Any other failure is harmless: a node without medium or without a name in /dev cannot be
        // mounted either.
        let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC;
        with_retry(|| match rustix::fs::open(&user, flags, Mode::empty()) {
            Err(rustix::io::Errno::BUSY) => Err(Refusal::InUse { path: path.to_owned(), user: user.clone() }),
            _ => Ok(()),
        })?;
    }
    Ok(())
}

/// Collects the nodes of partitions and holders below a sysfs directory, and theirs, at most four
/// levels deep.
fn collect_users(sysfs: &Path, depth: u32, users: &mut Vec<PathBuf>) {
    if depth == 4 {
        return;
    }
    let below = fs::read_dir(sysfs).into_iter().flatten().flatten().map(|entry| entry.path());
    let partitions = below.filter(|path| path.join("partition").exists());
    let holders = fs::read_dir(sysfs.join("holders")).into_iter().flatten().flatten().map(|entry| entry.path());
    for user in partitions.chain(holders) {
        if let Some(name) = user.file_name() {
            users.push(Path::new("/dev").join(name));
            collect_users(&user, depth + 1, users);
        }
    }
}

fn sysfs_of(device: &Path) -> io::Result<Option<PathBuf>> {
    let status = rustix::fs::stat(device)?;
    let number = status.st_rdev;
    let path = format!("/sys/dev/block/{}:{}", rustix::fs::major(number), rustix::fs::minor(number));
    Ok(fs::canonicalize(path).ok())
}

fn read_number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Describes an open file or block device.
///
/// # Errors
/// Any error of fstat, statx or the size ioctl.
pub fn facts(file: BorrowedFd<'_>) -> io::Result<Facts> {
    let status = rustix::fs::fstat(file)?;
    if FileType::from_raw_mode(status.st_mode) == FileType::BlockDevice {
        let logical_block_bytes = ioctl::logical_block_bytes(file)?.max(512);
        return Ok(Facts {
            kind: Kind::BlockDevice,
            size_bytes: ioctl::size_bytes(file)?,
            direct_alignment_bytes: Some(logical_block_bytes),
            physical_block_bytes: ioctl::physical_block_bytes(file).unwrap_or(logical_block_bytes),
            is_rotational: ioctl::is_rotational(file).unwrap_or(false),
            has_local_size: false,
            identity: (status.st_rdev, 0),
        });
    }
    let magic = rustix::fs::fstatfs(file).ok().and_then(|system| u64::try_from(system.f_type).ok());
    let is_memory = magic == Some(TMPFS_MAGIC);
    let direct_alignment_bytes = if is_memory { None } else { direct_alignment(file) };
    Ok(Facts {
        kind: if is_memory { Kind::MemoryFile } else { Kind::RegularFile },
        size_bytes: u64::try_from(status.st_size).unwrap_or(0),
        direct_alignment_bytes,
        physical_block_bytes: u32::try_from(status.st_blksize).unwrap_or(4_096),
        is_rotational: !is_memory && is_rotational_below(status.st_dev),
        has_local_size: magic.is_some_and(|magic| LOCAL_MAGIC.contains(&magic)),
        identity: (status.st_dev, status.st_ino),
    })
}

/// The alignment that statx reports; on kernels before 6.1, sets the flag to see whether direct I/O
/// works (then 4 KiB, which is right on every disk).
fn direct_alignment(file: BorrowedFd<'_>) -> Option<u32> {
    let asked = rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN);
    if let Ok(answer) = asked
        && answer.stx_mask & StatxFlags::DIOALIGN.bits() != 0
    {
        let needed = answer.stx_dio_offset_align.max(answer.stx_dio_mem_align);
        return (needed > 0 && needed <= 65_536).then_some(needed.next_power_of_two().max(512));
    }
    let before = rustix::fs::fcntl_getfl(file).ok()?;
    let works = rustix::fs::fcntl_setfl(file, before | OFlags::DIRECT).is_ok();
    let _ = rustix::fs::fcntl_setfl(file, before);
    works.then_some(4_096)
}

/// The alignment in bytes that memory needs for direct I/O on a file or block device; `None` where statx does not
/// report it (block devices before Linux 6.11).
pub fn memory_alignment_bytes(file: BorrowedFd<'_>) -> Option<u32> {
    let answer = rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok()?;
    let is_known = answer.stx_mask & StatxFlags::DIOALIGN.bits() != 0 && answer.stx_dio_mem_align > 0;
    is_known.then_some(answer.stx_dio_mem_align)
}

fn is_rotational_below(device: u64) -> bool {
    let node = format!("/sys/dev/block/{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    let Ok(node) = fs::canonicalize(node) else { return false };
    // A partition has no queue of its own; its disk has.
    [node.as_path(), node.parent().unwrap_or(&node)]
        .iter()
        .find_map(|place| read_number(&place.join("queue/rotational")))
        .is_some_and(|value| value != 0)
}

fn name_of(kind: FileType) -> &'static str {
    match kind {
        FileType::Directory => "a directory",
        FileType::CharacterDevice => "a character device",
        FileType::Fifo => "a pipe",
        FileType::Socket => "a socket",
        FileType::Symlink => "a symbolic link",
        _ => "something else",
    }
}

/// How ranges of a file or device can be emptied.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct EmptyingAbilities {
    /// [`Emptying::PunchHole`].
    pub can_punch: bool,
    /// [`Emptying::ZeroRange`] without writing zeroes.
    pub can_zero: bool,
    /// [`Emptying::Discard`].
    pub can_discard: bool,
}

/// How ranges of an open file or device of `size_bytes` can be emptied. Nothing is changed. What a
/// backing promises here it may still refuse later, with `EOPNOTSUPP`.
pub fn emptying_abilities(file: BorrowedFd<'_>, size_bytes: u64) -> EmptyingAbilities {
    let status = rustix::fs::fstat(file);
    match status {
        Ok(status) if FileType::from_raw_mode(status.st_mode) == FileType::BlockDevice => {
            emptying_of_device(status.st_rdev)
        }
        _ => EmptyingAbilities {
            can_punch: can_punch_file(file, size_bytes),
            // Zeroing past the end as a trial would leave blocks allocated there.
            can_zero: rustix::fs::fstatfs(file)
                .is_ok_and(|system| u64::try_from(system.f_type).is_ok_and(|magic| ZEROING_MAGIC.contains(&magic))),
            can_discard: false,
        },
    }
}

/// Asks the device's queue. A hole in a device is a "write zeroes" that may give space back, for which
/// the kernel writes no zeroes itself; a zeroed range is one for which it would, which is no faster
/// than writing them (blkdev_fallocate of block/fops.c).
fn emptying_of_device(number: u64) -> EmptyingAbilities {
    let Ok(queue) = BlockQueue::of_number(number) else { return EmptyingAbilities::default() };
    let is_above_0 =
        |name: &str| queue.attribute(name).and_then(|text| text.parse().ok()).is_some_and(|most: u64| most > 0);
    let can_zero = is_above_0("write_zeroes_max_bytes");
    EmptyingAbilities { can_punch: can_zero, can_zero, can_discard: is_above_0("discard_max_bytes") }
}

/// Past the end of a file a hole changes nothing, but a file system without holes refuses it.
fn can_punch_file(file: BorrowedFd<'_>, size_bytes: u64) -> bool {
    let Some(mode) = Emptying::PunchHole.mode() else { return false };
    let flags = rustix::fs::FallocateFlags::from_bits_retain(mode.unsigned_abs());
    rustix::fs::fallocate(file, flags, size_bytes.next_multiple_of(1 << 20), 1 << 20).is_ok()
}

/// The present size of a file; `None` for a device, and where it cannot be read.
pub fn file_size(file: BorrowedFd<'_>) -> Option<u64> {
    let status = rustix::fs::fstat(file).ok()?;
    let is_file = FileType::from_raw_mode(status.st_mode) == FileType::RegularFile;
    is_file.then(|| u64::try_from(status.st_size).unwrap_or(0))
}

/// Whether reads and writes of the file by io_uring return at once, and complete later. Elsewhere they may block the
/// thread that submits them, in the worst case for ever (FUSE). Blocks nowhere: a file system that cannot do without
/// blocking refuses the attempt to read behind the end.
pub fn is_asynchronous(file: BorrowedFd<'_>, size_bytes: u64) -> bool {
    let mut byte = [0; 1];
    let mut pieces = [io::IoSliceMut::new(&mut byte)];
    let behind = size_bytes.next_multiple_of(1 << 20);
    let tried = rustix::io::preadv2(file, &mut pieces, behind, rustix::io::ReadWriteFlags::NOWAIT);
    !matches!(tried, Err(rustix::io::Errno::OPNOTSUPP))
}

/// Empties a range of the file or device, waiting for the end.
///
/// # Errors
/// Any error of fallocate, or of the ioctl for discards.
pub fn empty(file: BorrowedFd<'_>, how: Emptying, position_bytes: u64, length_bytes: u64) -> io::Result<()> {
    let Some(mode) = how.mode() else { return ioctl::discard(file, position_bytes, length_bytes) };
    let flags = rustix::fs::FallocateFlags::from_bits_retain(mode.unsigned_abs());
    Ok(rustix::fs::fallocate(file, flags, position_bytes, length_bytes)?)
}

/// Waits until the file's data is on stable storage (fdatasync).
///
/// # Errors
/// Any error from the system; the data may then be lost.
pub fn make_durable(file: BorrowedFd<'_>) -> io::Result<()> {
    Ok(rustix::fs::fdatasync(file)?)
}

/// Creates a file of fixed size in memory that reads as zeroes.
///
/// # Errors
/// Any error of memfd_create or ftruncate.
pub fn memory_file(name: &str, size_bytes: u64) -> io::Result<Opened> {
    let file = rustix::fs::memfd_create(name, rustix::fs::MemfdFlags::CLOEXEC)?;
    rustix::fs::ftruncate(&file, size_bytes)?;
    let facts = facts(file.as_fd())?;
    Ok(Opened { file, facts, is_direct: false })
}

/// A run of data or of a hole.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct DataRun {
    /// First byte behind the run.
    pub end_bytes: u64,
    /// Whether it is a hole, with nothing allocated.
    pub is_hole: bool,
}

/// The run that contains `position_bytes`, up to its end (at most `limit_bytes`). Where the file
/// system cannot tell, everything is data.
///
/// # Errors
/// Any error of lseek except "there is nothing behind".
pub fn data_run_at(file: BorrowedFd<'_>, position_bytes: u64, limit_bytes: u64) -> io::Result<DataRun> {
    use rustix::fs::SeekFrom;
    use rustix::io::Errno;
    let all_data = DataRun { end_bytes: limit_bytes, is_hole: false };
    match rustix::fs::seek(file, SeekFrom::Data(position_bytes)) {
        Ok(data) if data > position_bytes => Ok(DataRun { end_bytes: data.min(limit_bytes), is_hole: true }),
        Err(Errno::NXIO) => Ok(DataRun { end_bytes: limit_bytes, is_hole: true }),
        Ok(_) => match rustix::fs::seek(file, SeekFrom::Hole(position_bytes)) {
            Ok(hole) => Ok(DataRun { end_bytes: hole.clamp(position_bytes + 1, limit_bytes), is_hole: false }),
            Err(Errno::NXIO | Errno::INVAL) => Ok(all_data),
            Err(error) => Err(error.into()),
        },
        Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok(all_data),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    const WRITING: Opening = Opening { writable: true, direct: true, exclusive: false, claimed_bytes: (0, 0) };

    fn file(directory: &Path, name: &str, bytes: usize) -> PathBuf {
        let path = directory.join(name);
        fs::write(&path, vec![7; bytes]).expect("content");
        path
    }

    #[test]
    fn a_file_may_be_opened_for_writing_once() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = file(directory.path(), "disk.img", 8_192);
        let first = open(&path, None, WRITING).expect("free");
        assert_eq!(first.facts.size_bytes, 8_192);
        assert!(matches!(open(&path, None, WRITING), Err(Refusal::Locked { .. })));
        assert!(open(&path, None, Opening { writable: false, ..WRITING }).is_ok());
        drop(first);
        assert!(open(&path, None, WRITING).is_ok());
    }

    #[test]
    fn paths_stay_below_the_root() {
        let outside = tempfile::tempdir().expect("a directory");
        let root = outside.path().join("root");
        fs::create_dir(&root).expect("a directory");
        file(outside.path(), "secret.img", 4_096);
        let inside = file(&root, "disk.img", 4_096);
        std::os::unix::fs::symlink("../secret.img", root.join("link.img")).expect("a link");
        for escape in ["../secret.img", "link.img", "/etc/passwd"] {
            let refused = open(Path::new(escape), Some(&root), WRITING);
            assert!(matches!(refused, Err(Refusal::Escapes { .. })), "{escape}: {refused:?}");
        }
        assert!(open(&inside, Some(&root), WRITING).is_ok());
        assert!(open(Path::new("disk.img"), Some(&root), Opening { writable: false, ..WRITING }).is_ok());
    }

    #[test]
    fn what_is_no_disk_is_refused_with_its_reason() {
        let directory = tempfile::tempdir().expect("a directory");
        let missing = open(&directory.path().join("nothing"), None, WRITING).expect_err("missing");
        assert!(missing.to_string().ends_with("does not exist"), "{missing}");
        let wrong = open(Path::new("/dev/null"), None, WRITING).expect_err("no disk");
        assert!(wrong.to_string().contains("a character device"), "{wrong}");
        let empty = file(directory.path(), "empty", 0);
        assert!(matches!(open(&empty, None, WRITING), Err(Refusal::Empty { .. })));
    }

    #[test]
    fn holes_and_data_are_told_apart() {
        let mut file = tempfile::tempfile().expect("a temporary file");
        file.set_len(1 << 20).expect("size");
        file.write_all(&[1; 65_536]).expect("data");
        let data = data_run_at(file.as_fd(), 0, 1 << 20).expect("seek");
        assert!(!data.is_hole && data.end_bytes >= 65_536);
        if data.end_bytes < 1 << 20 {
            let hole = data_run_at(file.as_fd(), data.end_bytes, 1 << 20).expect("seek");
            assert_eq!(hole, DataRun { end_bytes: 1 << 20, is_hole: true });
        }
    }

    #[test]
    fn asking_for_holes_changes_neither_size_nor_allocation() {
        use std::os::unix::fs::MetadataExt;
        let file = tempfile::tempfile().expect("a temporary file");
        file.set_len(5_000).expect("size");
        assert!(!emptying_abilities(file.as_fd(), 5_000).can_discard);
        let metadata = file.metadata().expect("metadata");
        assert_eq!((metadata.len(), metadata.blocks()), (5_000, 0));
    }

    #[test]
    fn disjoint_slices_may_be_written_by_two_and_overlapping_ones_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("disk.img");
        std::fs::write(&path, vec![0; 1 << 20]).unwrap();
        let slice = |start, length| open(&path, None, Opening { claimed_bytes: (start, length), ..WRITING });
        let first = slice(0, 4096).unwrap();
        let second = slice(4096, 4096).unwrap();
        assert!(matches!(slice(4095, 1), Err(Refusal::Locked { .. })));
        assert!(matches!(open(&path, None, WRITING), Err(Refusal::Locked { .. })));
        drop((first, second));
        assert!(open(&path, None, WRITING).is_ok());
    }
}
