//! Loop devices: a file as a block device, for as long as it is open.
//!
//! Every device created here gets a number that no device has: it starts with the kernel's
//! defaults, and settings made on it disappear with it. The kernel detaches the file when the last
//! descriptor closes, however the process ends; [`remove`] then removes the empty device.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};

use crate::ioctl;

/// New devices are numbered from here; lower numbers are left to other programs.
const FIRST: u32 = 64;
const LAST: u32 = 1_023;
/// How often removal is tried, because a device is busy for a moment after it was detached.
const REMOVAL_TRIES: u32 = 100;
const REMOVAL_STEP: Duration = Duration::from_millis(20);

/// A loop device with its file.
#[derive(Debug)]
pub struct LoopDevice {
    number: u32,
    /// Keeps the file attached while it is open.
    _file: OwnedFd,
}

impl LoopDevice {
    /// Creates a new device and attaches `file` to it, bypassing the page cache.
    ///
    /// # Errors
    /// Any error from the system; nothing is left behind.
    pub fn attach(file: BorrowedFd<'_>, block_bytes: u32, name: &str) -> io::Result<Self> {
        let control = control()?;
        for number in FIRST..=LAST {
            match ioctl::loop_add(control.as_fd(), number) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
                Ok(()) => {
                    let attached = open(number).and_then(|device| {
                        ioctl::loop_configure(device.as_fd(), file, block_bytes, name).map(|()| device)
                    });
                    return match attached {
                        Ok(device) => Ok(Self { number, _file: device }),
                        Err(error) => {
                            // Another process may have taken the device first; then it stays.
                            let _ = ioctl::loop_remove(control.as_fd(), number);
                            Err(error)
                        }
                    };
                }
            }
        }
        Err(io::Error::new(io::ErrorKind::QuotaExceeded, "all numbers of loop devices are taken"))
    }

    /// Its number.
    pub fn number(&self) -> u32 {
        self.number
    }
}

/// The path of a loop device's node.
pub fn node(number: u32) -> PathBuf {
    PathBuf::from(format!("/dev/loop{number}"))
}

/// Removes an empty device, waiting up to two seconds for its last user; returns whether it is
/// gone.
pub fn remove(number: u32) -> bool {
    let Ok(control) = control() else { return false };
    for _ in 0..REMOVAL_TRIES {
        match ioctl::loop_remove(control.as_fd(), number) {
            Ok(()) => return true,
            // The device no longer exists.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENODEV | libc::EINVAL)) => return true,
            Err(_) => std::thread::sleep(REMOVAL_STEP),
        }
    }
    false
}

fn control() -> io::Result<OwnedFd> {
    Ok(rustix::fs::open("/dev/loop-control", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?)
}

fn open(number: u32) -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(node(number), OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?)
}
