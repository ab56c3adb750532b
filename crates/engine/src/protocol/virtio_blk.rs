//! virtio-blk: a guest's requests as requests of the engine, and failures as status bytes.
//!
//! ```text
//! descriptor chain = header (16 bytes) | data out | data in | status (1 byte)
//! ```
//! The sender of these bytes is a guest, so every field is checked. Source: virtio 1.2 (5.2.6);
//! docs/specifications/engine.md, section 7.4.

use super::{Command, Failure, MAX_PAYLOAD_BYTES};
use crate::shard::LocalRequest;

/// Bytes of a request's header.
pub const HEADER_BYTES: usize = 16;
/// Bytes of the range that a discard or a write of zeroes carries as its data.
pub const RANGE_BYTES: usize = 16;
/// Bytes of the answer to a request for the device's name.
pub const IDENTITY_BYTES: usize = 20;
/// Sectors of the protocol are 512 bytes, whatever the device's block is.
pub const SECTOR_BYTES: u64 = 512;
/// The longest range of a discard or a write of zeroes, in sectors: 1 GiB.
pub const MAX_RANGE_SECTORS: u32 = 2_097_152;

/// VIRTIO_BLK_T_* of include/uapi/linux/virtio_blk.h.
const READ: u32 = 0;
const WRITE: u32 = 1;
const FLUSH: u32 = 4;
const IDENTIFY: u32 = 8;
const DISCARD: u32 = 11;
const WRITE_ZEROES: u32 = 13;
/// VIRTIO_BLK_WRITE_ZEROES_FLAG_UNMAP.
const UNMAP: u32 = 1;

/// The last byte of a chain: what became of the request.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Status {
    /// VIRTIO_BLK_S_OK.
    Done = 0,
    /// VIRTIO_BLK_S_IOERR.
    Failed = 1,
    /// VIRTIO_BLK_S_UNSUPP.
    Unsupported = 2,
}

/// The parts of a chain that tell what it asks for.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct ChainParts {
    /// The header.
    pub header: [u8; HEADER_BYTES],
    /// The data that the guest supplies, behind the header, in bytes.
    pub out_bytes: u64,
    /// The room for data to the guest, in front of the status, in bytes.
    pub in_bytes: u64,
    /// The first bytes of the data that the guest supplies, if it supplies enough.
    pub range: Option<[u8; RANGE_BYTES]>,
}

/// What a chain asks for.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Request {
    /// I/O by the engine.
    Io(LocalRequest),
    /// The device's name, answered at once.
    Identify,
}

/// The request that a chain makes, with `cookie` as its number. `is_write_through`: writes are answered
/// when they are on stable storage.
///
/// # Errors
/// The status to answer with at once.
pub fn translate(cookie: u64, parts: &ChainParts, is_write_through: bool) -> Result<Request, Status> {
    let (kind, sector) = (u32_at(&parts.header, 0), u64_at(&parts.header, 8));
    let (command, sector, length_bytes, keeps_space) = match kind {
        READ => (Command::Read, sector, data_bytes(parts.in_bytes, parts.out_bytes)?, false),
        WRITE => (Command::Write, sector, data_bytes(parts.out_bytes, parts.in_bytes)?, false),
        FLUSH => (Command::Flush, 0, 0, false),
        IDENTIFY if parts.in_bytes >= IDENTITY_BYTES as u64 => return Ok(Request::Identify),
        IDENTIFY => return Err(Status::Failed),
        DISCARD | WRITE_ZEROES => {
            let range = parts.range.filter(|_| parts.out_bytes == RANGE_BYTES as u64).ok_or(Status::Failed)?;
            let (sectors, flags) = (u32_at(&range, 8), u32_at(&range, 12));
            let known_flags = if kind == WRITE_ZEROES { UNMAP } else { 0 };
            if flags & !known_flags != 0 {
                return Err(Status::Unsupported);
            }
            if sectors > MAX_RANGE_SECTORS {
                return Err(Status::Failed);
            }
            let command = if kind == DISCARD { Command::Trim } else { Command::WriteZeroes };
            (command, u64_at(&range, 0), u64::from(sectors) * SECTOR_BYTES, flags & UNMAP == 0)
        }
        _ => return Err(Status::Unsupported),
    };
    let is_change = matches!(command, Command::Write | Command::Trim | Command::WriteZeroes);
    Ok(Request::Io(LocalRequest {
        cookie,
        command,
        offset_bytes: sector.checked_mul(SECTOR_BYTES).ok_or(Status::Failed)?,
        length_bytes,
        is_durable: is_write_through && is_change,
        keeps_space: command == Command::WriteZeroes && keeps_space,
        actor: 0,
        is_held: false,
    }))
}

/// The length of a transfer, whose chain must have no data in the other direction.
fn data_bytes(data_bytes: u64, other_bytes: u64) -> Result<u64, Status> {
    let is_whole = data_bytes.is_multiple_of(SECTOR_BYTES) && other_bytes == 0;
    if is_whole && data_bytes <= u64::from(MAX_PAYLOAD_BYTES) { Ok(data_bytes) } else { Err(Status::Failed) }
}

/// The status of a failed request; `None` where it is not answered, because the server ends and the
/// next one gets it again.
pub const fn status(failure: Failure) -> Option<Status> {
    match failure {
        Failure::Shutdown => None,
        Failure::NotSupported => Some(Status::Unsupported),
        Failure::NotPermitted | Failure::Io | Failure::Invalid | Failure::NoSpace | Failure::Overflow => {
            Some(Status::Failed)
        }
    }
}

fn u32_at(bytes: &[u8; 16], at: usize) -> u32 {
    bytes[at..].first_chunk().map_or(0, |field| u32::from_le_bytes(*field))
}

fn u64_at(bytes: &[u8; 16], at: usize) -> u64 {
    bytes[at..].first_chunk().map_or(0, |field| u64::from_le_bytes(*field))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(kind: u32, sector: u64) -> [u8; HEADER_BYTES] {
        let mut header = [0; HEADER_BYTES];
        header[..4].copy_from_slice(&kind.to_le_bytes());
        header[8..].copy_from_slice(&sector.to_le_bytes());
        header
    }

    fn range(sector: u64, sectors: u32, flags: u32) -> [u8; RANGE_BYTES] {
        let mut range = [0; RANGE_BYTES];
        range[..8].copy_from_slice(&sector.to_le_bytes());
        range[8..12].copy_from_slice(&sectors.to_le_bytes());
        range[12..].copy_from_slice(&flags.to_le_bytes());
        range
    }

    fn transfer(kind: u32, sector: u64, out_bytes: u64, in_bytes: u64) -> Result<Request, Status> {
        translate(7, &ChainParts { header: header(kind, sector), out_bytes, in_bytes, range: None }, false)
    }

    fn with_range(kind: u32, range: [u8; RANGE_BYTES]) -> Result<Request, Status> {
        let parts = ChainParts { header: header(kind, 99), out_bytes: 16, in_bytes: 0, range: Some(range) };
        translate(7, &parts, true)
    }

    fn io(request: Result<Request, Status>) -> (Command, u64, u64, bool, bool) {
        match request {
            Ok(Request::Io(it)) => (it.command, it.offset_bytes, it.length_bytes, it.is_durable, it.keeps_space),
            other => panic!("no I/O: {other:?}"),
        }
    }

    #[test]
    fn reads_and_writes_are_counted_in_sectors_of_512_bytes() {
        assert_eq!(io(transfer(READ, 8, 0, 4_096)), (Command::Read, 4_096, 4_096, false, false));
        assert_eq!(io(transfer(WRITE, 1, 512, 0)), (Command::Write, 512, 512, false, false));
        assert_eq!(io(transfer(FLUSH, 5, 0, 0)), (Command::Flush, 0, 0, false, false));
        assert_eq!(transfer(IDENTIFY, 0, 0, 20), Ok(Request::Identify));
    }

    #[test]
    fn a_discard_and_a_write_of_zeroes_name_their_range_in_their_data() {
        assert_eq!(io(with_range(DISCARD, range(16, 8, 0))), (Command::Trim, 8_192, 4_096, true, false));
        assert_eq!(io(with_range(WRITE_ZEROES, range(16, 8, 0))), (Command::WriteZeroes, 8_192, 4_096, true, true));
        assert!(!io(with_range(WRITE_ZEROES, range(16, 8, UNMAP))).4);
        assert_eq!(with_range(DISCARD, range(16, 8, UNMAP)), Err(Status::Unsupported));
        assert_eq!(with_range(WRITE_ZEROES, range(0, MAX_RANGE_SECTORS + 1, 0)), Err(Status::Failed));
    }

    #[test]
    fn malformed_requests_get_their_status() {
        assert_eq!(transfer(READ, 0, 0, 100), Err(Status::Failed));
        assert_eq!(transfer(READ, 0, 512, 512), Err(Status::Failed));
        assert_eq!(transfer(WRITE, 0, 512, 512), Err(Status::Failed));
        assert_eq!(transfer(WRITE, u64::MAX / 2, 512, 0), Err(Status::Failed));
        assert_eq!(transfer(WRITE, 0, u64::from(MAX_PAYLOAD_BYTES) + 512, 0), Err(Status::Failed));
        assert_eq!(transfer(DISCARD, 0, 32, 0), Err(Status::Failed));
        assert_eq!(transfer(IDENTIFY, 0, 0, 19), Err(Status::Failed));
        assert_eq!(transfer(99, 0, 0, 512), Err(Status::Unsupported));
    }

    #[test]
    fn a_write_is_durable_where_the_cache_writes_through() {
        let parts = ChainParts { header: header(WRITE, 0), out_bytes: 512, in_bytes: 0, range: None };
        assert!(io(translate(1, &parts, true)).3);
        let parts = ChainParts { header: header(READ, 0), out_bytes: 0, in_bytes: 512, range: None };
        assert!(!io(translate(1, &parts, true)).3);
    }

    #[test]
    fn a_request_is_not_failed_because_the_server_ends() {
        assert_eq!(status(Failure::Shutdown), None);
        assert_eq!(status(Failure::NotSupported), Some(Status::Unsupported));
        assert_eq!(status(Failure::NotPermitted), Some(Status::Failed));
    }
}
