//! The commands of ublk queues, and the memory of their requests.
//!
//! While a server has a request of a device with UBLK_F_AUTO_BUF_REG, the request's memory is in the ring's
//! table of registered buffers, at an index that the server has named. The process cannot address it; only
//! the ring's reads and writes can use it. A [`Span`] names it all the same, so that such a request goes the
//! same way as others.

use std::io;
use std::os::fd::OwnedFd;

use io_uring::{opcode, types};

use super::{FileId, Ring, with_token};
use crate::buffer::Span;
use crate::window::LAST_NUMBER;

/// UBLK_U_IO_FETCH_REQ and UBLK_U_IO_COMMIT_AND_FETCH_REQ of include/uapi/linux/ublk_cmd.h.
const UBLK_FETCH: u32 = 0xc010_7520;
const UBLK_COMMIT_AND_FETCH: u32 = 0xc010_7521;
/// Deliver a request whose memory could not be registered all the same, and say so in its descriptor
/// (UBLK_AUTO_BUF_REG_FALLBACK in `struct ublk_auto_buf_reg`).
const DELIVER_UNREGISTERED: u64 = 1 << 16;
/// Spans of request memory have the number of a window that is never given to one. Below it they have the
/// buffer's index, and below that the offset in the buffer; a ublk request has at most 32 MiB (UBLK_IO_BUF_BITS),
/// and those here at most 1 MiB.
const NUMBER_AT: u32 = 40;
const INDEX_AT: u32 = 24;

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

/// Where the data of a tag's requests is.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum UblkData {
    /// The server reads and writes the device's file.
    InFile,
    /// The kernel copies it to and from this span.
    In(Span),
    /// The kernel registers the request's memory as this buffer.
    Registered(RequestBuffer),
}

/// A place in a ring's table of registered buffers for the memory of one request at a time.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct RequestBuffer(u16);

impl RequestBuffer {
    /// No place: the kernel cannot register the memory, so that every request is delivered without.
    pub const NONE: RequestBuffer = RequestBuffer(u16::MAX);

    /// The memory of a request of `length_bytes`, at most 16 MiB.
    pub fn span(self, length_bytes: u32) -> Span {
        let offset_bytes = LAST_NUMBER << NUMBER_AT | u64::from(self.0) << INDEX_AT;
        Span { offset_bytes, length_bytes }
    }
}

/// Whether a span is memory of a ublk request, which only the ring that fetched the request can use, and only
/// as the only span of a transfer.
#[inline]
pub const fn is_request_memory(span: Span) -> bool {
    span.offset_bytes >> NUMBER_AT == LAST_NUMBER
}

/// The buffer's index, and the offset in it where the kernel expects an address.
#[expect(clippy::cast_possible_truncation, reason = "the fields are cut out of their own bits")]
pub(super) const fn place_of(span: Span) -> (u16, usize) {
    ((span.offset_bytes >> INDEX_AT) as u16, (span.offset_bytes & ((1 << INDEX_AT) - 1)) as usize)
}

impl Ring {
    /// Takes over a ublk device's file, for one of its queues. It is not registered, because before Linux 6.13 the
    /// kernel closes a registered file only after all requests on any registered file that were submitted before its
    /// removal, and the device cannot be deleted until then.
    ///
    /// # Errors
    /// `EMFILE` when the table is full; the file is then closed.
    pub fn add_ublk_queue(&mut self, file: OwnedFd) -> io::Result<FileId> {
        let index = self.free_files.pop().ok_or_else(|| io::Error::from_raw_os_error(libc::EMFILE))?;
        self.files[index as usize] = Some(file);
        Ok(FileId(index))
    }

    /// Takes places for the memory of requests; none if fewer than `count` are left or the kernel has no table.
    pub fn take_request_buffers(&mut self, count: u16) -> Vec<RequestBuffer> {
        let Ok(table) = self.table() else { return Vec::new() };
        let free = &mut table.free_requests;
        let Some(from) = free.len().checked_sub(usize::from(count)) else { return Vec::new() };
        free.drain(from..).map(RequestBuffer).collect()
    }

    /// Gives places back, when no request is fetched with them any more.
    pub fn give_request_buffers(&mut self, buffers: impl Iterator<Item = RequestBuffer>) {
        if let Some(table) = &mut self.table {
            table.free_requests.extend(buffers.filter(|it| *it != RequestBuffer::NONE).map(|it| it.0));
        }
    }

    /// Waits for the next request of a ublk queue's tag, after answering the last one with `result` (bytes, or a
    /// negative errno) if there is one. It completes with 0 when a request has come, and with less when the device
    /// stops.
    pub fn ublk_fetch(&mut self, token: u64, tag: UblkTag, result: Option<i32>, data: UblkData) {
        let operation = if result.is_some() { UBLK_COMMIT_AND_FETCH } else { UBLK_FETCH };
        // struct ublksrv_io_cmd { q_id, tag, result, addr } of include/uapi/linux/ublk_cmd.h.
        let address = match data {
            UblkData::In(span) => self.arena.address(span).expose_provenance() as u64,
            UblkData::InFile | UblkData::Registered(_) => 0,
        };
        let mut command = [0; 16];
        command[..2].copy_from_slice(&tag.queue.to_ne_bytes());
        command[2..4].copy_from_slice(&tag.tag.to_ne_bytes());
        command[4..8].copy_from_slice(&result.unwrap_or(0).to_ne_bytes());
        command[8..16].copy_from_slice(&address.to_ne_bytes());
        let entry = opcode::UringCmd16::new(types::Fd(self.raw(tag.file)), operation).cmd(command);
        let entry = match data {
            UblkData::Registered(buffer) => entry.addr(Some(u64::from(buffer.0) | DELIVER_UNREGISTERED)),
            UblkData::InFile | UblkData::In(_) => entry,
        };
        self.push(with_token(entry.build(), token));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_memory_keeps_its_place_whatever_part_of_it_is_meant() {
        let span = RequestBuffer(12_345).span(1 << 20);
        assert!(is_request_memory(span) && crate::window::is_outside(span));
        assert_eq!(place_of(span), (12_345, 0));
        let part = span.behind(65_536);
        assert!(is_request_memory(part));
        assert_eq!((place_of(part), part.length_bytes), ((12_345, 65_536), (1 << 20) - 65_536));
        assert!(!is_request_memory(Span { offset_bytes: 1 << 30, length_bytes: 1 }));
    }
}
