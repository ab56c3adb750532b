//! The commands of ublk queues.

use std::io;
use std::os::fd::OwnedFd;

use io_uring::{opcode, types};

use super::{FileId, Ring, with_token};
use crate::buffer::Span;

/// UBLK_U_IO_FETCH_REQ and UBLK_U_IO_COMMIT_AND_FETCH_REQ of include/uapi/linux/ublk_cmd.h.
const UBLK_FETCH: u32 = 0xc010_7520;
const UBLK_COMMIT_AND_FETCH: u32 = 0xc010_7521;

/// A tag of a ublk device.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct UblkTag {
    /// The device, by [`Ring::add_ublk_queue`].
    pub file: FileId,
    /// The queue's number.
    pub queue: u16,
    /// The tag's number in the queue.
    pub tag: u16,
}

impl Ring {
    /// Takes over a ublk device's file, for one of its queues. It is not registered, because before Linux 6.13 the kernel
    /// closes a registered file only after all requests on any registered file that were submitted
    /// before its removal, and the device cannot be deleted until then.
    ///
    /// # Errors
    /// `EMFILE` when the table is full; the file is then closed.
    pub fn add_ublk_queue(&mut self, file: OwnedFd) -> io::Result<FileId> {
        let index = self.free_files.pop().ok_or_else(|| io::Error::from_raw_os_error(libc::EMFILE))?;
        self.files[index as usize] = Some(file);
        Ok(FileId(index))
    }

    /// Waits for the next request of a ublk queue's tag, after answering the last one with `result` (bytes,
    /// or a negative errno) if there is one. `buffer` is for its data, unless the device copies by reading and
    /// writing the file. It completes with 0 when a request has come, and with less when the device stops.
    pub fn ublk_fetch(&mut self, token: u64, tag: UblkTag, result: Option<i32>, buffer: Option<Span>) {
        let operation = if result.is_some() { UBLK_COMMIT_AND_FETCH } else { UBLK_FETCH };
        // struct ublksrv_io_cmd { q_id, tag, result, addr } of include/uapi/linux/ublk_cmd.h.
        let address = buffer.map_or(0, |span| self.arena.address(span).expose_provenance() as u64);
        let mut command = [0; 16];
        command[..2].copy_from_slice(&tag.queue.to_ne_bytes());
        command[2..4].copy_from_slice(&tag.tag.to_ne_bytes());
        command[4..8].copy_from_slice(&result.unwrap_or(0).to_ne_bytes());
        command[8..16].copy_from_slice(&address.to_ne_bytes());
        let entry = opcode::UringCmd16::new(types::Fd(self.raw(tag.file)), operation).cmd(command).build();
        self.push(with_token(entry, token));
    }
}
