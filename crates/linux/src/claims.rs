//! One exclusive claim per block device, shared by all volumes of this process that write to parts of it.
//!
//! The kernel knows exclusive openers of whole devices only: the second one is refused, whichever bytes it means. So the
//! device is claimed once, each volume opens it without a claim of its own, and who writes where is kept here.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::FileType;

use crate::device::{Opening, Refusal, claim_device};

/// The block devices that are claimed, and by whom.
#[derive(Debug, Default)]
pub struct Claims(Mutex<Held>);

#[derive(Debug, Default)]
struct Held {
    devices: Vec<Device>,
    next_number: u64,
}

#[derive(Debug)]
struct Device {
    /// The device number: all nodes of a device have the same.
    number: u64,
    file: Arc<OwnedFd>,
    parts: Vec<Part>,
}

#[derive(Debug)]
struct Part {
    number: u64,
    range_bytes: (u64, u64),
    owner: String,
}

/// A part of a block device that its owner alone writes to, for as long as this exists.
#[derive(Debug)]
pub struct Claim {
    claims: Arc<Claims>,
    device: u64,
    part: u64,
    file: Arc<OwnedFd>,
}

impl Claims {
    fn lock(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Claims the bytes of `opening` for `owner`; `None` if the path is no block device or is only read.
    ///
    /// # Errors
    /// The device is in use outside this process, or another owner writes to some of these bytes.
    pub fn claim(self: &Arc<Self>, path: &Path, opening: Opening, owner: &str) -> Result<Option<Claim>, Refusal> {
        let Ok(status) = rustix::fs::stat(path) else { return Ok(None) };
        if !opening.writable || FileType::from_raw_mode(status.st_mode) != FileType::BlockDevice {
            return Ok(None);
        }
        let number = status.st_rdev;
        let is_held = self.lock().devices.iter().any(|device| device.number == number);
        // Claiming may take a moment, in which a volume that is closed must not wait for the lock.
        let claimed = if is_held { None } else { Some(Arc::new(claim_device(path)?)) };
        let mut held = self.lock();
        let part = held.next_number;
        held.next_number += 1;
        if let Some(file) = claimed {
            held.devices.push(Device { number, file, parts: Vec::new() });
        }
        let Some(device) = held.devices.iter_mut().find(|device| device.number == number) else {
            // Its last part was given back just now.
            drop(held);
            return self.claim(path, opening, owner);
        };
        let other = device.parts.iter().find(|other| is_overlap(other.range_bytes, opening.claimed_bytes));
        if let Some(other) = other {
            return Err(Refusal::Overlap { path: path.to_owned(), owner: other.owner.clone() });
        }
        device.parts.push(Part { number: part, range_bytes: opening.claimed_bytes, owner: owner.to_owned() });
        let file = Arc::clone(&device.file);
        Ok(Some(Claim { claims: Arc::clone(self), device: number, part, file }))
    }
}

impl AsFd for Claim {
    /// The descriptor that holds the device. A copy of it keeps the device claimed.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut held = self.claims.lock();
        if let Some(device) = held.devices.iter_mut().find(|device| device.number == self.device) {
            device.parts.retain(|part| part.number != self.part);
        }
        held.devices.retain(|device| !device.parts.is_empty());
    }
}

/// Whether two ranges, as start and length in bytes, have a byte in common. Length 0 extends to the end.
pub fn is_overlap(one: (u64, u64), other: (u64, u64)) -> bool {
    let end = |(start, length): (u64, u64)| if length == 0 { u64::MAX } else { start.saturating_add(length) };
    one.0 < end(other) && other.0 < end(one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_overlap_if_they_share_a_byte() {
        let gib = 1 << 30;
        assert!(!is_overlap((0, gib), (gib, gib)) && !is_overlap((gib, gib), (0, gib)));
        assert!(is_overlap((0, gib + 1), (gib, gib)) && is_overlap((gib, gib), (gib + 5, 1)));
        assert!(is_overlap((0, 0), (gib, gib)) && is_overlap((gib, gib), (0, 0)), "the whole device");
        assert!(!is_overlap((0, gib), (gib, 0)) && is_overlap((gib, 0), (u64::MAX - 1, 5)));
    }

    /// Parts of `device` as if it were claimed already, which needs no device.
    fn claims_with(parts: &[((u64, u64), &str)]) -> Arc<Claims> {
        let file = Arc::new(OwnedFd::from(std::fs::File::open("/dev/null").unwrap()));
        let part = |(number, (range_bytes, owner)): (usize, &((u64, u64), &str))| Part {
            number: number as u64,
            range_bytes: *range_bytes,
            owner: (*owner).to_owned(),
        };
        let device = Device { number: 7, file, parts: parts.iter().enumerate().map(part).collect() };
        Arc::new(Claims(Mutex::new(Held { devices: vec![device], next_number: 100 })))
    }

    #[test]
    fn a_device_is_held_until_its_last_part_is_given_back() {
        let claims = claims_with(&[((0, 512), "a"), ((512, 512), "b")]);
        let file = Arc::clone(&claims.lock().devices[0].file);
        let claim = |part| Claim { claims: Arc::clone(&claims), device: 7, part, file: Arc::clone(&file) };
        drop(claim(0));
        assert_eq!(claims.lock().devices[0].parts[0].owner, "b");
        drop(claim(1));
        assert!(claims.lock().devices.is_empty());
    }

    #[test]
    fn files_and_readers_claim_nothing() {
        let claims = Arc::new(Claims::default());
        let opening = Opening { writable: true, direct: false, exclusive: true, claimed_bytes: (0, 0) };
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(claims.claim(file.path(), opening, "a").unwrap().is_none());
        assert!(claims.claim(Path::new("/does/not/exist"), opening, "a").unwrap().is_none());
        assert!(claims.lock().devices.is_empty());
    }
}
