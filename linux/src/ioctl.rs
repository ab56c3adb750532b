//! The ioctls of block devices and files that have no safe wrapper elsewhere.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

// Request numbers from linux/fs.h: BLKSSZGET = _IO(0x12,104), BLKGETSIZE64 = _IOR(0x12,114,size_t),
// BLKPBSZGET = _IO(0x12,123), BLKROTATIONAL = _IO(0x12,126), FS_IOC_FIEMAP = _IOWR('f',11,struct fiemap).
const BLKSSZGET: libc::c_ulong = 0x1268;
const BLKGETSIZE64: libc::c_ulong = 0x8008_1272;
const BLKPBSZGET: libc::c_ulong = 0x127b;
const BLKROTATIONAL: libc::c_ulong = 0x127e;
const FS_IOC_FIEMAP: libc::c_ulong = 0xc020_660b;

const FIEMAP_EXTENT_LAST: u32 = 1;
/// The extent's place is not known yet (delayed allocation) or not a place on the device (inline, encoded).
const FIEMAP_EXTENT_NO_PLACE: u32 = 0x2 | 0x4 | 0x8 | 0x200 | 0x400;
const EXTENTS_PER_CALL: u32 = 128;

fn number<T: Default>(device: BorrowedFd<'_>, request: libc::c_ulong) -> io::Result<T> {
    let mut value = T::default();
    // SAFETY: each caller's T is exactly what the kernel writes for its request number, and outlives the call.
    match unsafe { libc::ioctl(device.as_raw_fd(), request, &raw mut value) } {
        0 => Ok(value),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Size of a block device in bytes.
pub fn size_bytes(device: BorrowedFd<'_>) -> io::Result<u64> {
    number::<u64>(device, BLKGETSIZE64)
}

/// Logical block of a block device in bytes.
pub fn logical_block_bytes(device: BorrowedFd<'_>) -> io::Result<u32> {
    number::<libc::c_int>(device, BLKSSZGET).map(i32::unsigned_abs)
}

/// Physical block of a block device in bytes.
pub fn physical_block_bytes(device: BorrowedFd<'_>) -> io::Result<u32> {
    number::<u32>(device, BLKPBSZGET)
}

/// Whether the block device says that it has moving parts.
pub fn is_rotational(device: BorrowedFd<'_>) -> io::Result<bool> {
    number::<u16>(device, BLKROTATIONAL).map(|value| value != 0)
}

/// Where a stretch of a file lies on its device.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct FileExtent {
    /// First byte in the file.
    pub file_bytes: u64,
    /// First byte on the device.
    pub device_bytes: u64,
    /// Length in bytes.
    pub length_bytes: u64,
}

#[repr(C)]
#[derive(Copy, Clone, Default)]
struct RawExtent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved64: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
}

#[repr(C)]
struct RawMap {
    start: u64,
    length: u64,
    flags: u32,
    mapped_extents: u32,
    extent_count: u32,
    reserved: u32,
    extents: [RawExtent; EXTENTS_PER_CALL as usize],
}

const _: () = assert!(size_of::<RawExtent>() == 56 && size_of::<RawMap>() == 32 + 56 * EXTENTS_PER_CALL as usize);

/// Where a file lies on its device, in file order, neighbours joined, at most `limit` extents. Stretches without a
/// known place (holes, delayed allocation) are left out. An error means that the file system cannot tell.
pub fn file_extents(file: BorrowedFd<'_>, limit: usize) -> io::Result<Vec<FileExtent>> {
    let mut found: Vec<FileExtent> = Vec::new();
    let mut start = 0;
    loop {
        let mut map = RawMap {
            start,
            length: u64::MAX - start,
            flags: 0,
            mapped_extents: 0,
            extent_count: EXTENTS_PER_CALL,
            reserved: 0,
            extents: [RawExtent::default(); EXTENTS_PER_CALL as usize],
        };
        // SAFETY: `map` has the layout of struct fiemap with room for `extent_count` extents, and outlives the call.
        if unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_FIEMAP, &raw mut map) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let mapped = map.mapped_extents.min(EXTENTS_PER_CALL) as usize;
        for raw in &map.extents[..mapped] {
            start = raw.logical.saturating_add(raw.length);
            if raw.flags & FIEMAP_EXTENT_NO_PLACE == 0 {
                join(&mut found, raw);
            }
            if raw.flags & FIEMAP_EXTENT_LAST != 0 || found.len() >= limit {
                return Ok(found);
            }
        }
        if mapped == 0 {
            return Ok(found);
        }
    }
}

fn join(found: &mut Vec<FileExtent>, raw: &RawExtent) {
    if let Some(last) = found.last_mut()
        && last.file_bytes + last.length_bytes == raw.logical
        && last.device_bytes + last.length_bytes == raw.physical
    {
        last.length_bytes += raw.length;
        return;
    }
    found.push(FileExtent { file_bytes: raw.logical, device_bytes: raw.physical, length_bytes: raw.length });
}

/// Claims a stretch of a file for writing, given by start and length in bytes (length 0: to the end, wherever that is):
/// an open-file-description lock, which counts across processes and inside one.
///
/// # Errors
/// `WouldBlock` while another description holds one that overlaps.
pub fn lock_for_writing(file: BorrowedFd<'_>, stretch: (u64, u64)) -> io::Result<()> {
    set_lock(file, libc::F_WRLCK, stretch)
}

/// Gives the claim back at once. Closing alone does so later: a ring that knew the file lets go of it in its own time.
///
/// # Errors
/// What the system says.
pub fn unlock(file: BorrowedFd<'_>) -> io::Result<()> {
    set_lock(file, libc::F_UNLCK, (0, 0))
}

fn set_lock(file: BorrowedFd<'_>, kind: libc::c_int, (start, length): (u64, u64)) -> io::Result<()> {
    let too_far = |_| io::Error::from_raw_os_error(libc::EOVERFLOW);
    let l_start = libc::off_t::try_from(start).map_err(too_far)?;
    let l_len = libc::off_t::try_from(length).map_err(too_far)?;
    #[expect(clippy::cast_possible_truncation, reason = "all three constants are below 4")]
    let (l_type, l_whence) = (kind as libc::c_short, libc::SEEK_SET as libc::c_short);
    let lock = libc::flock { l_type, l_whence, l_start, l_len, l_pid: 0 };
    // SAFETY: the kernel reads one flock structure, which outlives the call.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_extents_are_joined_and_others_are_not() {
        let raw = |logical, physical, length| RawExtent { logical, physical, length, ..RawExtent::default() };
        let mut found = Vec::new();
        for extent in [raw(0, 1_000, 10), raw(10, 1_010, 5), raw(15, 5_000, 1), raw(20, 5_001, 1)] {
            join(&mut found, &extent);
        }
        let lengths: Vec<u64> = found.iter().map(|extent| extent.length_bytes).collect();
        assert_eq!(lengths, [15, 1, 1]);
    }
}
