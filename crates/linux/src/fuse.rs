//! A FUSE file system with a single file: requests arrive over `/dev/fuse`, replies may be sent in
//! any order.
//!
//! ```text
//! Session::open -> mount() -> a mount without a mount point; open_file() waits for an answer
//! receive(buffer) -> Request       answers size, names and handshake itself
//! reply_data / reply_written / reply_done / reply_error, each once per request
//! ```
//! No library is used. The existing ones read requests on a thread of their own; handing each
//! request over to the thread that times the completions would take as long as a fast device needs
//! to serve it. The part of the protocol (7.31 and later) that is needed is small.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_string, fsmount, fsopen};

/// The longest read or write that arrives, in bytes: 256 pages, the kernel's limit.
pub const MAX_TRANSFER_BYTES: u32 = 1 << 20;
/// The buffer size that [`Session::receive`] needs, in bytes.
pub const BUFFER_BYTES: usize = MAX_TRANSFER_BYTES as usize + 4_096;
/// The most pieces that a reply's data may consist of.
pub const MAX_PIECES: usize = 64;

const ROOT: u64 = 1;
const FILE: u64 = 2;
const FILE_NAME: &[u8] = b"disk";
/// How long the kernel may use names and sizes without asking again, in seconds. They never change;
/// a day is long enough.
const VALID_S: u64 = 86_400;
/// Requests the kernel may have outstanding: more than a loop device ever has.
const MAX_BACKGROUND: u16 = 4_096;

const HEADER_BYTES: usize = 40;
const IO_HEADER_BYTES: usize = HEADER_BYTES + 40;

// Operations and flags from linux/fuse.h.
const LOOKUP: u32 = 1;
const FORGET: u32 = 2;
const GETATTR: u32 = 3;
const OPEN: u32 = 14;
const READ: u32 = 15;
const WRITE: u32 = 16;
const STATFS: u32 = 17;
const RELEASE: u32 = 18;
const FSYNC: u32 = 20;
const INIT: u32 = 26;
const INTERRUPT: u32 = 36;
const BATCH_FORGET: u32 = 42;
const FALLOCATE: u32 = 43;
const ASYNC_READ: u32 = 1;
const BIG_WRITES: u32 = 1 << 5;
const ASYNC_DIO: u32 = 1 << 15;
const MAX_PAGES: u32 = 1 << 22;
const FOPEN_DIRECT_IO: u32 = 1;
/// The kernel sends no FUSE_FLUSH when a descriptor is closed. Without this flag, the process that
/// closes it, even by ending, would wait for the answer.
const FOPEN_NOFLUSH: u32 = 1 << 5;
const FOPEN_PARALLEL_DIRECT_WRITES: u32 = 1 << 6;
const FALLOC_PUNCH_HOLE: u32 = 2;
const FALLOC_ZERO_RANGE: u32 = 16;

/// Identifies a request until it is answered.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct Unique(u64);

/// A request that the kernel sends for the file.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Request<'a> {
    /// Read data; answered by [`Session::reply_data`] or an error.
    Read {
        /// Identifies the request.
        unique: Unique,
        /// First byte.
        offset_bytes: u64,
        /// Length in bytes.
        length_bytes: u32,
    },
    /// Write data; answered by [`Session::reply_written`] or an error.
    Write {
        /// Identifies the request.
        unique: Unique,
        /// First byte.
        offset_bytes: u64,
        /// The data.
        data: &'a [u8],
    },
    /// Make all written data durable; answered by [`Session::reply_done`] or an error.
    Sync {
        /// Identifies the request.
        unique: Unique,
    },
    /// Make the range read as zeroes; answered by [`Session::reply_done`] or an error.
    Zero {
        /// Identifies the request.
        unique: Unique,
        /// First byte.
        offset_bytes: u64,
        /// Length in bytes.
        length_bytes: u64,
        /// A discard: the content of the range is no longer needed.
        is_discard: bool,
    },
}

/// The result of [`Session::receive`].
#[derive(Debug)]
pub enum Received<'a> {
    /// A request to be answered.
    Request(Request<'a>),
    /// A request of the file system itself, which was answered by [`Session::receive`]; there may
    /// be more requests.
    Internal,
    /// No request is pending.
    Nothing,
    /// The file is no longer in use; no more requests will come.
    Unmounted,
}

/// The kernel's end of the file system.
#[derive(Debug)]
pub struct Session {
    device: OwnedFd,
    size_bytes: u64,
}

impl Session {
    /// Connects to the kernel; the file has `size_bytes`.
    ///
    /// # Errors
    /// `NotFound` where the kernel has no FUSE, `PermissionDenied`.
    pub fn open(size_bytes: u64) -> io::Result<Self> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK;
        Ok(Self { device: rustix::fs::open("/dev/fuse", flags, Mode::empty())?, size_bytes })
    }

    /// Mounts the file system without a mount point; it ends when this descriptor and all files of
    /// it are closed.
    ///
    /// # Errors
    /// `PermissionDenied` without root's rights, `Unsupported` on kernels before 5.2.
    pub fn mount(&self) -> io::Result<OwnedFd> {
        use std::os::fd::AsRawFd;
        let context = fsopen("fuse", FsOpenFlags::FSOPEN_CLOEXEC)?;
        let set = |key: &str, value: &str| fsconfig_set_string(context.as_fd(), key, value);
        set("source", "hoistway")?;
        set("fd", &self.device.as_raw_fd().to_string())?;
        set("rootmode", "40000")?;
        set("user_id", "0")?;
        set("group_id", "0")?;
        set("max_read", &MAX_TRANSFER_BYTES.to_string())?;
        fsconfig_create(context.as_fd())?;
        let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
        Ok(fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)?)
    }

    /// The descriptor to wait on: readable when [`Session::receive`] has a request.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }

    /// Takes the next request. `buffer` must have [`BUFFER_BYTES`].
    ///
    /// # Errors
    /// Any error from the system; a malformed request is answered with an error and forgotten.
    pub fn receive<'a>(&self, buffer: &'a mut [u8]) -> io::Result<Received<'a>> {
        let length = match rustix::io::read(&self.device, &mut *buffer) {
            Ok(length) => length,
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return Ok(Received::Nothing),
            // The kernel withdrew the request while it was being read.
            Err(rustix::io::Errno::NOENT) => return Ok(Received::Internal),
            Err(rustix::io::Errno::NODEV) => return Ok(Received::Unmounted),
            Err(error) => return Err(error.into()),
        };
        let message = &buffer[..length];
        let (Some(operation), Some(unique)) = (u32_at(message, 4), u64_at(message, 8).map(Unique)) else {
            return Ok(Received::Internal);
        };
        match parse(operation, unique, message) {
            Some(request) => Ok(Received::Request(request)),
            None => self.answer_internal(operation, unique, message).map(|()| Received::Internal),
        }
    }

    /// Answers a read; at most [`MAX_PIECES`] pieces.
    ///
    /// # Errors
    /// Any error from the system, except that the requester is gone.
    pub fn reply_data(&self, unique: Unique, pieces: &[&[u8]]) -> io::Result<()> {
        let length: usize = pieces.iter().map(|piece| piece.len()).sum();
        let header = out_header(unique, 0, length);
        let mut slices = Vec::with_capacity(1 + pieces.len());
        slices.push(IoSlice::new(&header));
        slices.extend(pieces.iter().map(|piece| IoSlice::new(piece)));
        self.send(&slices)
    }

    /// Answers a write: all `length_bytes` were accepted.
    ///
    /// # Errors
    /// As [`Session::reply_data`].
    pub fn reply_written(&self, unique: Unique, length_bytes: u32) -> io::Result<()> {
        let mut body = [0; 8];
        body[..4].copy_from_slice(&length_bytes.to_ne_bytes());
        self.reply(unique, &body)
    }

    /// Answers a request that has no result.
    ///
    /// # Errors
    /// As [`Session::reply_data`].
    pub fn reply_done(&self, unique: Unique) -> io::Result<()> {
        self.reply(unique, &[])
    }

    /// Answers with a (positive) errno.
    ///
    /// # Errors
    /// As [`Session::reply_data`].
    pub fn reply_error(&self, unique: Unique, errno: i32) -> io::Result<()> {
        self.send(&[IoSlice::new(&out_header(unique, -errno, 0))])
    }

    fn reply(&self, unique: Unique, body: &[u8]) -> io::Result<()> {
        self.send(&[IoSlice::new(&out_header(unique, 0, body.len())), IoSlice::new(body)])
    }

    fn send(&self, slices: &[IoSlice<'_>]) -> io::Result<()> {
        match rustix::io::writev(&self.device, slices) {
            // ENOENT: the request was interrupted meanwhile; ENODEV: the file system was unmounted.
            Ok(_) | Err(rustix::io::Errno::NOENT | rustix::io::Errno::NODEV) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Answers a request of the file system itself.
    fn answer_internal(&self, operation: u32, unique: Unique, message: &[u8]) -> io::Result<()> {
        match operation {
            INIT => self.reply(unique, &init(message)),
            LOOKUP if name_of(message) == FILE_NAME => self.reply(unique, &self.entry()),
            LOOKUP => self.reply_error(unique, libc::ENOENT),
            GETATTR => self.reply(unique, &self.attributes(u64_at(message, 16).unwrap_or(ROOT))),
            OPEN => {
                let mut body = Body::default();
                body.u64(0).u32(FOPEN_DIRECT_IO | FOPEN_NOFLUSH | FOPEN_PARALLEL_DIRECT_WRITES).u32(0);
                self.reply(unique, &body.0)
            }
            STATFS => {
                let mut body = Body::default();
                let blocks = self.size_bytes / 4_096;
                body.u64(blocks).u64(0).u64(0).u64(1).u64(0).u32(4_096).u32(255).u32(4_096).u32(0);
                (0..6).for_each(|_| _ = body.u32(0));
                self.reply(unique, &body.0)
            }
            RELEASE => self.reply_done(unique),
            // These requests get no answer.
            FORGET | BATCH_FORGET | INTERRUPT => Ok(()),
            _ => self.reply_error(unique, libc::ENOSYS),
        }
    }

    fn entry(&self) -> Vec<u8> {
        let mut body = Body::default();
        body.u64(FILE).u64(0).u64(VALID_S).u64(VALID_S).u32(0).u32(0);
        self.write_attributes(&mut body, FILE);
        body.0
    }

    fn attributes(&self, node: u64) -> Vec<u8> {
        let mut body = Body::default();
        body.u64(VALID_S).u32(0).u32(0);
        self.write_attributes(&mut body, node);
        body.0
    }

    fn write_attributes(&self, body: &mut Body, node: u64) {
        let (mode, size_bytes, links) = if node == FILE { (0o100_600, self.size_bytes, 1) } else { (0o040_700, 0, 2) };
        body.u64(node).u64(size_bytes).u64(size_bytes / 512);
        // Three timestamps, in seconds and nanoseconds.
        body.u64(0).u64(0).u64(0).u32(0).u32(0).u32(0);
        body.u32(mode).u32(links).u32(0).u32(0).u32(0).u32(4_096).u32(0);
    }
}

/// Opens the only file of a mount. Blocks until another thread has answered the open request.
///
/// # Errors
/// Any error from the system.
pub fn open_file(mount: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    Ok(rustix::fs::openat(mount, "disk", OFlags::RDWR | OFlags::CLOEXEC | OFlags::DIRECT, Mode::empty())?)
}

/// Parses a data request; `None` for requests of the file system itself.
fn parse(operation: u32, unique: Unique, message: &[u8]) -> Option<Request<'_>> {
    let offset_bytes = || u64_at(message, HEADER_BYTES + 8);
    match operation {
        READ => {
            let length_bytes = u32_at(message, HEADER_BYTES + 16)?;
            Some(Request::Read { unique, offset_bytes: offset_bytes()?, length_bytes })
        }
        WRITE => {
            let length = usize::try_from(u32_at(message, HEADER_BYTES + 16)?).ok()?;
            let data = message.get(IO_HEADER_BYTES..IO_HEADER_BYTES + length)?;
            Some(Request::Write { unique, offset_bytes: offset_bytes()?, data })
        }
        FSYNC => Some(Request::Sync { unique }),
        FALLOCATE => {
            let mode = u32_at(message, HEADER_BYTES + 24)?;
            let is_discard = mode & FALLOC_PUNCH_HOLE != 0;
            if !is_discard && mode & FALLOC_ZERO_RANGE == 0 {
                return None;
            }
            let length_bytes = u64_at(message, HEADER_BYTES + 16)?;
            Some(Request::Zero { unique, offset_bytes: offset_bytes()?, length_bytes, is_discard })
        }
        _ => None,
    }
}

/// Our side of the handshake.
fn init(message: &[u8]) -> Vec<u8> {
    let theirs = u32_at(message, HEADER_BYTES + 12).unwrap_or(0);
    let flags = theirs & (ASYNC_READ | BIG_WRITES | ASYNC_DIO | MAX_PAGES);
    let mut body = Body::default();
    body.u32(7).u32(36).u32(0).u32(flags).u16(MAX_BACKGROUND).u16(MAX_BACKGROUND).u32(MAX_TRANSFER_BYTES).u32(1);
    body.u16(256).u16(0);
    (0..8).for_each(|_| _ = body.u32(0));
    body.0
}

fn name_of(message: &[u8]) -> &[u8] {
    let name = message.get(HEADER_BYTES..).unwrap_or(&[]);
    name.split(|byte| *byte == 0).next().unwrap_or(&[])
}

fn out_header(unique: Unique, error: i32, body_bytes: usize) -> [u8; 16] {
    let mut header = [0; 16];
    let length = u32::try_from(16 + body_bytes).unwrap_or(u32::MAX);
    header[..4].copy_from_slice(&length.to_ne_bytes());
    header[4..8].copy_from_slice(&error.to_ne_bytes());
    header[8..].copy_from_slice(&unique.0.to_ne_bytes());
    header
}

fn u32_at(message: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(message.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(message: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(message.get(at..at + 8)?.try_into().ok()?))
}

/// Builds a reply.
#[derive(Default)]
struct Body(Vec<u8>);

impl Body {
    fn u16(&mut self, value: u16) -> &mut Self {
        self.0.extend(value.to_ne_bytes());
        self
    }

    fn u32(&mut self, value: u32) -> &mut Self {
        self.0.extend(value.to_ne_bytes());
        self
    }

    fn u64(&mut self, value: u64) -> &mut Self {
        self.0.extend(value.to_ne_bytes());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message as the kernel writes it.
    fn message(operation: u32, unique: u64, node: u64, body: &[u8]) -> Vec<u8> {
        let mut out = Body::default();
        out.u32(u32::try_from(HEADER_BYTES + body.len()).unwrap()).u32(operation).u64(unique).u64(node);
        out.u32(0).u32(0).u32(0).u32(0);
        out.0.extend(body);
        out.0
    }

    #[test]
    fn reads_and_writes_are_understood() {
        let mut body = Body::default();
        body.u64(0).u64(8_192).u32(4_096).u32(0).u64(0).u32(0).u32(0);
        let read = message(READ, 7, FILE, &body.0);
        let expected = Request::Read { unique: Unique(7), offset_bytes: 8_192, length_bytes: 4_096 };
        assert_eq!(parse(READ, Unique(7), &read), Some(expected));
        let mut body = Body::default();
        body.u64(0).u64(512).u32(3).u32(0).u64(0).u32(0).u32(0);
        body.0.extend(b"abc");
        let write = message(WRITE, 8, FILE, &body.0);
        let expected = Request::Write { unique: Unique(8), offset_bytes: 512, data: b"abc" };
        assert_eq!(parse(WRITE, Unique(8), &write), Some(expected));
    }

    #[test]
    fn a_write_with_less_data_than_its_length_is_invalid() {
        let mut body = Body::default();
        body.u64(0).u64(0).u32(100).u32(0).u64(0).u32(0).u32(0);
        assert_eq!(parse(WRITE, Unique(1), &message(WRITE, 1, FILE, &body.0)), None);
        assert_eq!(parse(READ, Unique(1), &message(READ, 1, FILE, &[0; 4])), None);
    }

    #[test]
    fn discards_differ_from_zeroing_and_allocation_is_refused() {
        let message_of = |mode: u32| {
            let mut body = Body::default();
            body.u64(0).u64(4_096).u64(65_536).u32(mode).u32(0);
            message(FALLOCATE, 3, FILE, &body.0)
        };
        let zero =
            |is_discard| Request::Zero { unique: Unique(3), offset_bytes: 4_096, length_bytes: 65_536, is_discard };
        assert_eq!(parse(FALLOCATE, Unique(3), &message_of(3)), Some(zero(true)));
        assert_eq!(parse(FALLOCATE, Unique(3), &message_of(17)), Some(zero(false)));
        assert_eq!(parse(FALLOCATE, Unique(3), &message_of(0)), None, "allocating is not what the file can do");
    }

    #[test]
    fn replies_have_the_lengths_of_the_protocol() {
        assert_eq!(init(&message(INIT, 1, 0, &[0xff; 64])).len(), 64);
        let session = Session { device: std::fs::File::open("/dev/null").unwrap().into(), size_bytes: 1 << 20 };
        assert_eq!((session.entry().len(), session.attributes(FILE).len()), (128, 104));
        assert_eq!(name_of(&message(LOOKUP, 1, ROOT, b"disk\0")), FILE_NAME);
        assert_eq!(out_header(Unique(5), -5, 0), [16, 0, 0, 0, 251, 255, 255, 255, 5, 0, 0, 0, 0, 0, 0, 0]);
    }
}
