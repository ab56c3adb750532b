//! The ioctls of block devices and files that have no safe wrapper in the libraries used.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

// Request numbers from linux/fs.h: BLKSSZGET = _IO(0x12,104), BLKGETSIZE64 = _IOR(0x12,114,size_t),
// BLKPBSZGET = _IO(0x12,123), BLKROTATIONAL = _IO(0x12,126), FS_IOC_FIEMAP = _IOWR('f',11,struct
// fiemap).
// `libc::Ioctl` is the type of a request number: an int with musl, an unsigned long with glibc.
const BLKSSZGET: libc::c_ulong = 0x1268;
const BLKGETSIZE64: libc::c_ulong = 0x8008_1272;
const BLKPBSZGET: libc::c_ulong = 0x127b;
const BLKROTATIONAL: libc::c_ulong = 0x127e;
/// _IO(0x12,119), with the start and the length in bytes.
const BLKDISCARD: libc::c_ulong = 0x1277;
/// _IOWR(0x12,115,struct blk_user_trace_setup) and _IO(0x12,116) of include/uapi/linux/fs.h.
const BLKTRACESETUP: libc::c_ulong = 0xc048_1273;
const BLKTRACESTART: libc::c_ulong = 0x1274;
const FS_IOC_FIEMAP: libc::c_ulong = 0xc020_660b;

const FIEMAP_EXTENT_LAST: u32 = 1;
/// The extent has no place yet (delayed allocation), or none on the device (inline, encoded).
const FIEMAP_EXTENT_NO_PLACE: u32 = 0x2 | 0x4 | 0x8 | 0x200 | 0x400;
const EXTENTS_PER_CALL: u32 = 128;

fn number<T: Default>(device: BorrowedFd<'_>, request: libc::c_ulong) -> io::Result<T> {
    let mut value = T::default();
    // SAFETY: each caller's T is exactly what the kernel writes for its request number, and
    // outlives the call.
    match unsafe { libc::ioctl(device.as_raw_fd(), request as libc::Ioctl, &raw mut value) } {
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

/// Whether the block device reports moving parts.
pub fn is_rotational(device: BorrowedFd<'_>) -> io::Result<bool> {
    number::<u16>(device, BLKROTATIONAL).map(|value| value != 0)
}

/// Discards a range of a block device, and waits for the end.
///
/// # Errors
/// `EOPNOTSUPP` where the device cannot discard.
pub fn discard(device: BorrowedFd<'_>, position_bytes: u64, length_bytes: u64) -> io::Result<()> {
    let range = [position_bytes, length_bytes];
    // SAFETY: the kernel reads two numbers of 64 bits, which outlive the call.
    match unsafe { libc::ioctl(device.as_raw_fd(), BLKDISCARD as libc::Ioctl, &raw const range) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// `struct blk_user_trace_setup` of include/uapi/linux/blktrace_api.h; what is 0 is not restricted.
#[repr(C)]
#[derive(Default)]
struct RawTraceSetup {
    name: [u8; 32],
    action_mask: u16,
    buffer_bytes: u32,
    buffers: u32,
    start_sector: u64,
    end_sector: u64,
    pid: u32,
}

const _: () = assert!(size_of::<RawTraceSetup>() == 0x48);

/// Starts blktrace on a block device: the actions of `action_mask`, with `buffers` of `buffer_bytes` for each
/// processor. It runs until it is switched off, also when this process has ended.
///
/// # Errors
/// `EBUSY` if the device is traced already, `EPERM` without CAP_SYS_ADMIN, `ENOTTY` without blktrace in the kernel.
pub fn start_block_trace(device: BorrowedFd<'_>, action_mask: u16, buffer_bytes: u32, buffers: u32) -> io::Result<()> {
    let mut setup = RawTraceSetup { action_mask, buffer_bytes, buffers, ..RawTraceSetup::default() };
    // SAFETY: `setup` has the layout of struct blk_user_trace_setup, and outlives the call.
    if unsafe { libc::ioctl(device.as_raw_fd(), BLKTRACESETUP as libc::Ioctl, &raw mut setup) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the request has no argument.
    match unsafe { libc::ioctl(device.as_raw_fd(), BLKTRACESTART as libc::Ioctl) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Maps a range of a file to its place on the device.
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

/// The extents of a file in file order, contiguous ones joined, at most `limit`. Ranges without a
/// known place (holes, delayed allocation) are left out. An error means that the file system cannot
/// tell.
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
        // SAFETY: `map` has the layout of struct fiemap with room for `extent_count` extents, and
        // outlives the call.
        if unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_FIEMAP as libc::Ioctl, &raw mut map) } != 0 {
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

/// Claims a range of a file for writing, given by start and length in bytes (length 0: to the end,
/// wherever that is), with an open-file-description lock, which excludes openers in this and in
/// other processes.
///
/// # Errors
/// `WouldBlock` while another description holds an overlapping lock.
pub fn lock_for_writing(file: BorrowedFd<'_>, range: (u64, u64)) -> io::Result<()> {
    set_lock(file, libc::F_WRLCK, range)
}

/// Keeps writers away from a file: an open-file-description lock of the whole, of which many may be held at a time,
/// but none together with one of [`lock_for_writing`].
///
/// # Errors
/// `WouldBlock` while another description is locked for writing.
pub fn lock_for_reading(file: BorrowedFd<'_>) -> io::Result<()> {
    set_lock(file, libc::F_RDLCK, (0, 0))
}

/// Releases the claim at once. Closing alone may be later, because a ring that knew the file
/// releases it asynchronously.
///
/// # Errors
/// Any error from the system.
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

// Request numbers and flags from linux/loop.h.
const LOOP_CONFIGURE: libc::c_ulong = 0x4c0a;
const LOOP_CTL_ADD: libc::c_ulong = 0x4c80;
const LOOP_CTL_REMOVE: libc::c_ulong = 0x4c81;
const LO_FLAGS_AUTOCLEAR: u32 = 4;
const LO_FLAGS_DIRECT_IO: u32 = 16;

/// `struct loop_config`: a descriptor, a block size, a `struct loop_info64`.
#[repr(C)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    before_flags: [u64; 6],
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    names_and_keys: [u64; 14],
    reserved: [u64; 8],
}

const _: () = assert!(size_of::<LoopConfig>() == 304, "as in linux/loop.h");

/// Creates the loop device with this number.
///
/// # Errors
/// `AlreadyExists` if there is one already.
pub fn loop_add(control: BorrowedFd<'_>, number: u32) -> io::Result<()> {
    loop_control(control, LOOP_CTL_ADD, number)
}

/// Removes the loop device with this number.
///
/// # Errors
/// `ResourceBusy` while it has a file or is open.
pub fn loop_remove(control: BorrowedFd<'_>, number: u32) -> io::Result<()> {
    loop_control(control, LOOP_CTL_REMOVE, number)
}

fn loop_control(control: BorrowedFd<'_>, request: libc::c_ulong, number: u32) -> io::Result<()> {
    // SAFETY: both requests take a number as their argument, no pointer.
    match unsafe { libc::ioctl(control.as_raw_fd(), request as libc::Ioctl, libc::c_ulong::from(number)) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Attaches `file` to a loop device, bypassing the page cache; the kernel detaches it when the
/// device is no longer open (autoclear). `name` is shown in listings, cut at 63 bytes.
pub fn loop_configure(device: BorrowedFd<'_>, file: BorrowedFd<'_>, block_bytes: u32, name: &str) -> io::Result<()> {
    let fd = u32::try_from(file.as_raw_fd()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut file_name = [0; 64];
    let length = name.len().min(63);
    file_name[..length].copy_from_slice(&name.as_bytes()[..length]);
    let config = LoopConfig {
        fd,
        block_size: block_bytes,
        before_flags: [0; 6],
        encrypt_key_size: 0,
        flags: LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO,
        file_name,
        names_and_keys: [0; 14],
        reserved: [0; 8],
    };
    // SAFETY: the kernel reads one loop_config, whose layout is asserted above and which outlives
    // the call.
    match unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CONFIGURE as libc::Ioctl, &raw const config) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Sets this thread's I/O priority in Linux's encoding (class in bits 13 to 15, level below).
///
/// # Errors
/// `PermissionDenied` for the real-time class without the necessary privilege.
pub fn set_io_priority(bits: u16) -> io::Result<()> {
    const IOPRIO_WHO_PROCESS: libc::c_int = 1;
    let this_thread: libc::c_int = 0;
    // SAFETY: the arguments are three numbers, no pointer.
    let result =
        unsafe { libc::syscall(libc::SYS_ioprio_set, IOPRIO_WHO_PROCESS, this_thread, libc::c_int::from(bits)) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Gives this thread the lowest real-time priority, so that it runs as soon as it is woken.
///
/// # Errors
/// `PermissionDenied` without the necessary privilege.
pub fn real_time() -> io::Result<()> {
    // SAFETY: sched_param is a plain C structure for which all zeroes is valid.
    let mut parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    parameters.sched_priority = 1;
    // SAFETY: the kernel reads one sched_param, which outlives the call; 0 is the calling thread.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &raw const parameters) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The structure of sched_getattr and sched_setattr (linux/sched/types.h, first version).
#[repr(C)]
#[derive(Copy, Clone, Default)]
struct SchedulingAttributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}

/// Requests time slices of this length for the calling thread, if it has the normal policy: with a
/// shorter slice it runs sooner after a wake-up while other threads compute. Its share of the
/// processor does not change. Needs no privilege.
pub fn slice_length(length_ns: u64) -> io::Result<()> {
    let size = u32::try_from(std::mem::size_of::<SchedulingAttributes>()).unwrap_or(0);
    let mut attributes = SchedulingAttributes::default();
    let none: libc::c_uint = 0;
    // SAFETY: the kernel writes at most `size` bytes, which is what the structure has; 0 is the
    // calling thread.
    if unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, none) } != 0 {
        return Err(io::Error::last_os_error());
    }
    if attributes.policy != libc::SCHED_OTHER.unsigned_abs() {
        return Ok(());
    }
    (attributes.size, attributes.runtime_ns) = (size, length_ns);
    // SAFETY: the kernel reads `size` bytes, which is what the structure has and outlives the call.
    match unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, none) } {
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
