//! A loop device created for the test.
#![allow(unsafe_code)]

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;

/// Dropping it removes the device.
pub struct LoopDevice {
    pub file: File,
    pub number: u32,
    /// Its directory `queue` in sysfs.
    pub queue: PathBuf,
}

/// `struct loop_config` of linux/loop.h.
#[repr(C)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    before_flags: [u64; 6],
    encrypt_key_size: u32,
    flags: u32,
    names_and_keys: [u64; 22],
    reserved: [u64; 8],
}

const _: () = assert!(size_of::<LoopConfig>() == 304, "as in linux/loop.h");

impl LoopDevice {
    /// A free loop device over an unlinked file. It detaches by itself when the last descriptor
    /// closes (autoclear), even if this process is killed.
    pub fn attach(sectors: u64) -> Result<Self, String> {
        const LOOP_CTL_GET_FREE: libc::c_ulong = 0x4C82;
        const LOOP_CONFIGURE: libc::c_ulong = 0x4C0A;
        const LO_FLAGS_AUTOCLEAR: u32 = 4;
        let control = File::open("/dev/loop-control").map_err(|error| format!("/dev/loop-control: {error}"))?;
        let backing = tempfile::tempfile().and_then(|file| file.set_len(sectors * 512).map(|()| file));
        let backing = backing.map_err(|error| format!("no backing file: {error}"))?;
        backing
            .write_all_at(&vec![1; usize::try_from(sectors * 512).expect("64 MiB")], 0)
            .map_err(|e| e.to_string())?;
        // Another process may take the free device first; then the next one is tried.
        for _ in 0..16 {
            // SAFETY: the request takes no argument; the descriptor is open.
            let number = unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE as _) };
            let number =
                u32::try_from(number).map_err(|_| format!("no free loop device: {}", io::Error::last_os_error()))?;
            let path = format!("/dev/loop{number}");
            let opened = OpenOptions::new().read(true).write(true).custom_flags(libc::O_DIRECT).open(&path);
            let file = opened.map_err(|error| format!("{path}: {error}"))?;
            let config = LoopConfig {
                fd: u32::try_from(backing.as_raw_fd()).expect("descriptors are positive"),
                block_size: 0,
                before_flags: [0; 6],
                encrypt_key_size: 0,
                flags: LO_FLAGS_AUTOCLEAR,
                names_and_keys: [0; 22],
                reserved: [0; 8],
            };
            // SAFETY: the request reads a loop_config, whose layout is asserted above and which
            // outlives the call.
            if unsafe { libc::ioctl(file.as_raw_fd(), LOOP_CONFIGURE as _, &raw const config) } == 0 {
                return Ok(Self { file, number, queue: PathBuf::from(format!("/sys/block/loop{number}/queue")) });
            }
            let error = io::Error::last_os_error();
            if error.raw_os_error() != Some(libc::EBUSY) {
                return Err(format!("{path} cannot be attached: {error}"));
            }
        }
        Err("another process took every free loop device".into())
    }

    /// A number below `queue` in sysfs.
    pub fn limit(&self, name: &str) -> Result<u64, String> {
        let path = self.queue.join(name);
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        text.trim().parse().map_err(|_| format!("{}: {text:?} is not a number", path.display()))
    }
}
