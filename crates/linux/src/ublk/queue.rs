//! One queue of a device: the kernel's descriptors of its requests, and where their data lies.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};
use rustix::mm::{MapFlags, ProtFlags};

use super::{DeviceInfo, MAX_TAGS, server_node, when_node_is_ready};

const DESCRIPTOR_BYTES: usize = 24;
/// In user copy mode the data of tags begins here in the character device (UBLKSRV_IO_BUF_OFFSET).
const DATA_OFFSET_BYTES: u64 = 0x8000_0000;
/// A tag's data has this many bits of addresses (UBLK_IO_BUF_BITS).
const DATA_BITS: u32 = 25;
/// The tags of a queue have this many bits of addresses (UBLK_QID_OFF).
const QUEUE_BITS: u32 = DATA_BITS + 16;

/// What the block layer asks for.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub enum Operation {
    /// Read.
    #[default]
    Read,
    /// Write.
    Write,
    /// Make everything answered before durable.
    Flush,
    /// The range is no longer needed.
    Discard,
    /// Make the range read as zeroes; `true`: it stays allocated.
    WriteZeroes(bool),
    /// An operation that was not offered.
    Unknown(u32),
}

/// A request of the block layer.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Request {
    /// The operation.
    pub operation: Operation,
    /// First byte.
    pub offset_bytes: u64,
    /// Length in bytes; 0 for a flush.
    pub length_bytes: u64,
    /// Answer only when it is durable.
    pub is_durable: bool,
    /// Its memory is not in the ring's table, although the device is one whose requests' is.
    is_unregistered: bool,
}

impl Request {
    /// Whether the memory of its data is in the ring's table, on a device made with
    /// [`super::feature::AUTO_BUFFERS`].
    pub fn has_registered_memory(&self) -> bool {
        matches!(self.operation, Operation::Read | Operation::Write) && !self.is_unregistered
    }
}

/// The server's end of one of a device's queues.
#[derive(Debug)]
pub struct Queue {
    file: Arc<OwnedFd>,
    number: u16,
    descriptors: NonNull<u8>,
    tags: u16,
}

// SAFETY: the mapping belongs to this value alone, and it is only read.
unsafe impl Send for Queue {}

impl Queue {
    /// Opens all queues of a device. Only one process can have it open.
    ///
    /// # Errors
    /// `EBUSY` while another process has it open, or any error of opening and mapping.
    pub fn open_all(device: &DeviceInfo) -> io::Result<Vec<Self>> {
        let file = when_node_is_ready(|| {
            rustix::fs::open(server_node(device.number), OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        })?;
        let file = Arc::new(file);
        (0..device.queues).map(|number| Self::map(&file, number, device.tags)).collect()
    }

    fn map(file: &Arc<OwnedFd>, number: u16, tags: u16) -> io::Result<Self> {
        let tags = tags.clamp(1, MAX_TAGS);
        // Each queue's descriptors have room for the most tags.
        let at = u64::from(number) * mapped_bytes(MAX_TAGS) as u64;
        // SAFETY: a new shared mapping, for reading, at an address of the kernel's choice.
        let address = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), mapped_bytes(tags), ProtFlags::READ, MapFlags::SHARED, file, at)
        }?;
        let descriptors = NonNull::new(address.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { file: Arc::clone(file), number, descriptors, tags })
    }

    /// Its number in the device.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// The number of tags.
    pub fn tags(&self) -> u16 {
        self.tags
    }

    /// The character device, for the commands of a ring and in user copy mode for data.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// A second descriptor of the character device.
    ///
    /// # Errors
    /// `EMFILE`.
    pub fn duplicate(&self) -> io::Result<OwnedFd> {
        self.file.try_clone()
    }

    /// The request of a tag; valid from the completion of its fetch until its answer.
    pub fn request(&self, tag: u16) -> Request {
        let tag = usize::from(tag.min(self.tags - 1));
        let mut bytes = [0_u8; DESCRIPTOR_BYTES];
        for (index, byte) in bytes.iter_mut().enumerate() {
            // SAFETY: the index is below tags * DESCRIPTOR_BYTES, which were mapped; the kernel
            // does not change a descriptor while its request is with the server, and a volatile
            // read of bytes is valid even if it did.
            *byte = unsafe { self.descriptors.as_ptr().add(tag * DESCRIPTOR_BYTES + index).read_volatile() };
        }
        decode(&bytes)
    }

    /// In user copy mode, where the data of a tag begins in the character device.
    pub fn data_position_bytes(&self, tag: u16) -> u64 {
        data_position_bytes(self.number, tag)
    }
}

fn data_position_bytes(queue: u16, tag: u16) -> u64 {
    DATA_OFFSET_BYTES + (u64::from(queue) << QUEUE_BITS) + (u64::from(tag) << DATA_BITS)
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: the mapping was made in `open` with this length; no reference into it exists.
        let _ = unsafe { rustix::mm::munmap(self.descriptors.as_ptr().cast(), mapped_bytes(self.tags)) };
    }
}

/// The result that a request is answered with: its bytes, or the negative errno.
pub fn commit_result(request: &Request, errno: Option<i32>) -> i32 {
    let bytes = match request.operation {
        Operation::Read | Operation::Write => i32::try_from(request.length_bytes).unwrap_or(i32::MAX),
        _ => 0,
    };
    errno.map_or(bytes, |errno| -errno)
}

fn mapped_bytes(tags: u16) -> usize {
    (usize::from(tags) * DESCRIPTOR_BYTES).next_multiple_of(rustix::param::page_size())
}

/// Reads `struct ublksrv_io_desc`.
fn decode(bytes: &[u8; DESCRIPTOR_BYTES]) -> Request {
    const FUA: u32 = 1 << 13;
    const NOUNMAP: u32 = 1 << 15;
    const NEED_REG_BUF: u32 = 1 << 17;
    let word = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let (flags, sectors) = (word(0), word(4));
    let start = u64::from(word(8)) | u64::from(word(12)) << 32;
    let operation = match flags & 0xff {
        0 => Operation::Read,
        1 => Operation::Write,
        2 => Operation::Flush,
        3 => Operation::Discard,
        5 => Operation::WriteZeroes(flags & NOUNMAP != 0),
        other => Operation::Unknown(other),
    };
    let is_flush = operation == Operation::Flush;
    Request {
        operation,
        offset_bytes: start.saturating_mul(512),
        length_bytes: if is_flush { 0 } else { u64::from(sectors) * 512 },
        is_durable: flags & FUA != 0,
        is_unregistered: flags & NEED_REG_BUF != 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descriptor(op_flags: u32, sectors: u32, start: u64) -> [u8; DESCRIPTOR_BYTES] {
        let mut bytes = [0; DESCRIPTOR_BYTES];
        bytes[..4].copy_from_slice(&op_flags.to_ne_bytes());
        bytes[4..8].copy_from_slice(&sectors.to_ne_bytes());
        bytes[8..16].copy_from_slice(&start.to_ne_bytes());
        bytes
    }

    #[test]
    fn descriptors_are_decoded() {
        let write = decode(&descriptor(1 | 1 << 13, 8, 1 << 33));
        assert_eq!(
            write,
            Request {
                operation: Operation::Write,
                offset_bytes: 1 << 42,
                length_bytes: 4_096,
                is_durable: true,
                is_unregistered: false,
            }
        );
        assert_eq!(commit_result(&write, None), 4_096);
        assert_eq!(commit_result(&write, Some(5)), -5);
        let zeroes = decode(&descriptor(5 | 1 << 15, 16, 0));
        assert_eq!(zeroes.operation, Operation::WriteZeroes(true));
        assert_eq!(commit_result(&zeroes, None), 0);
        assert_eq!(decode(&descriptor(2, 77, 9)).length_bytes, 0);
        // UBLK_IO_F_NEED_REG_BUF: the kernel could not register the memory.
        assert!(write.has_registered_memory() && !decode(&descriptor(1 | 1 << 17, 8, 0)).has_registered_memory());
        assert!(!zeroes.has_registered_memory());
        assert_eq!(decode(&descriptor(4, 1, 0)).operation, Operation::Unknown(4));
    }

    #[test]
    fn data_of_tags_and_queues_lie_apart() {
        assert_eq!(data_position_bytes(0, 1) - data_position_bytes(0, 0), 32 << 20);
        // UBLK_QID_OFF = UBLK_IO_BUF_BITS + UBLK_TAG_BITS = 41.
        assert_eq!(data_position_bytes(3, 0) - data_position_bytes(0, 0), 3 << 41);
    }

    #[test]
    fn descriptors_of_queues_lie_apart_by_the_most_tags() {
        // round_up(UBLK_MAX_QUEUE_DEPTH * sizeof(struct ublksrv_io_desc), PAGE_SIZE) of ublk_ch_mmap.
        assert_eq!(mapped_bytes(MAX_TAGS), 4_096 * 24);
    }
}
