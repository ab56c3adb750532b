//! The interface of a client protocol to the engine: a pure translation between bytes and requests.
//!
//! The shard owns the sockets, the buffers and the order of everything; a protocol owns only the
//! result of its negotiation. NBD (crate `export`) implements this trait once, tests implement it
//! with a few lines.
//!
//! Division of checks:
//!
//! | the protocol ([`Protocol::parse`]) | the engine |
//! | --- | --- |
//! | magic, command, flags and their negotiation | offset + length inside the volume (reads, trims: `Invalid`; writes: `NoSpace`) |
//! | payload and length limits ([`MAX_PAYLOAD_BYTES`]) | read-only volumes (`NotPermitted`) |
//! | what a flush or a block status may contain | whether zeroing is fast (`NotSupported`), draining (`Shutdown`) |
//!
//! One request, as the shard drives it:
//! ```text
//! bytes -> parse -> Request { consumed_bytes, asked }  the payload follows; the shard stores it
//!                -> Answered { .., skip_bytes, .. }    no I/O: the shard skips the payload, replies
//!                -> Disconnect / Close                 answer requests in flight, then close
//! reply parts -> encode(asked, Body::Data { .. }) + payload slice, ... encode(asked, Body::Done | Failed | Extents)
//! ```

pub(crate) mod ublk;
pub mod virtio_blk;

/// The largest payload of one request, in bytes, as advertised to clients (32 MiB).
pub const MAX_PAYLOAD_BYTES: u32 = 32 << 20;

/// The most extents that one block status reply carries.
pub const MAX_EXTENTS: usize = 512;

/// The most bytes that a protocol may need to tell what a request is.
pub const MAX_HEADER_BYTES: usize = 4_096;

/// The operation that the client requests.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Command {
    /// Read data from the volume.
    Read,
    /// Write data to the volume; the payload follows the header.
    Write,
    /// Make all writes durable that were answered before this request.
    Flush,
    /// The range is no longer needed; doing less than asked is allowed.
    Trim,
    /// Make the range read back as zeroes.
    WriteZeroes,
    /// A hint that the range will be read; answered at once.
    Cache,
    /// Report which parts of the range are allocated.
    BlockStatus,
}

/// A client's request. The engine keeps it until the last byte of the reply is encoded and passes
/// it to [`Protocol::encode`] unchanged.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct ClientRequest {
    /// The client's number for the request; opaque, need not be unique.
    pub cookie: u64,
    /// First byte on the volume.
    pub offset_bytes: u64,
    /// Length in bytes; 0 is answered with success without touching the disk.
    pub length_bytes: u64,
    /// Bytes that follow the header in the stream: `length_bytes` for a write, else 0.
    pub payload_bytes: u32,
    /// The operation.
    pub command: Command,
    /// Answer only when the result is on stable storage.
    pub fua: bool,
    /// WriteZeroes: keep the range allocated.
    pub no_hole: bool,
    /// WriteZeroes: fail with [`Failure::NotSupported`] rather than write zeroes out.
    pub fast_zero: bool,
    /// Read: the data must be sent as one piece behind one header (simple replies always;
    /// structured with DF). The engine then sends nothing before all of it is in memory.
    pub one_piece: bool,
    /// The data is moved from or to memory of the client, which it names when it submits; only from
    /// local clients.
    pub is_direct: bool,
    /// BlockStatus: answer exactly one extent, not longer than asked.
    pub one_extent: bool,
    /// For the protocol's own use (reply form, metadata context); the engine ignores it.
    pub tag: u16,
}

/// Why a request failed.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Failure {
    /// Not permitted: the volume is read-only.
    NotPermitted,
    /// The backing could not read, write or flush.
    Io,
    /// Malformed, or outside the volume.
    Invalid,
    /// No space left on the backing, or a write past the volume's end.
    NoSpace,
    /// Longer than this protocol may answer.
    Overflow,
    /// The backing cannot do this, or cannot do it fast.
    NotSupported,
    /// The server is shutting down.
    Shutdown,
}

/// The result of parsing the head of the stream.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Parsed {
    /// More bytes are needed: `needed_bytes` in all (more than were given, at most
    /// [`MAX_HEADER_BYTES`]).
    Incomplete {
        /// Total bytes to pass next time, counted from the same place.
        needed_bytes: usize,
    },
    /// A request; its payload (`asked.payload_bytes`) follows the consumed bytes.
    Request {
        /// Length of the header.
        consumed_bytes: usize,
        /// The request.
        asked: ClientRequest,
    },
    /// A request that needs no I/O: refused, or already known to succeed. `asked` is passed to
    /// `encode` with [`Body::Done`] or [`Body::Failed`] after `skip_bytes` of payload were read and
    /// discarded.
    Answered {
        /// Length of the header.
        consumed_bytes: usize,
        /// Payload bytes to discard before the next header.
        skip_bytes: u64,
        /// The request, as far as it was parsed (the cookie is needed).
        asked: ClientRequest,
        /// The answer: `None` for success.
        failure: Option<Failure>,
        /// A short reason for protocols that can transmit one; must not contain paths.
        message: &'static str,
    },
    /// The client disconnects: everything in flight is answered and sent, then the socket is
    /// closed.
    Disconnect {
        /// Length of the header.
        consumed_bytes: usize,
    },
    /// The stream is no longer valid: reading stops, requests in flight are answered, the socket is
    /// closed.
    Close,
}

/// A range of a volume and whether it is allocated.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct StatusExtent {
    /// Length in bytes, never 0.
    pub length_bytes: u64,
    /// Whether it is not allocated.
    pub hole: bool,
    /// Whether it reads as zeroes.
    pub zero: bool,
}

/// One piece of a reply.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Body<'a> {
    /// Success without data: the last piece of this reply. For a read, only if its length is 0.
    Done,
    /// `length_bytes` of data follow directly behind the encoded bytes. If [`ClientRequest::one_piece`] was
    /// set there is exactly one such piece, which covers the whole request and is the last.
    Data {
        /// Position on the volume of the first byte.
        offset_bytes: u64,
        /// Length of the data, never 0.
        length_bytes: u32,
        /// Whether it is the last piece of this reply.
        last: bool,
    },
    /// The request failed. `Data` of other parts may have been sent before (never if `one_piece`).
    Failed {
        /// The reason.
        failure: Failure,
        /// Where on the volume, if known.
        offset_bytes: Option<u64>,
        /// A short reason; may be empty.
        message: &'a str,
        /// Whether it is the last piece of this reply.
        last: bool,
    },
    /// The answer to [`Command::BlockStatus`], last piece: starts at the request's offset, 1 to
    /// [`MAX_EXTENTS`] extents that never exceed the request's end.
    Extents(&'a [StatusExtent]),
}

/// A client protocol after its handshake: parses requests, encodes replies. Runs on the shard's
/// thread; must not block, and must not allocate for requests that succeed.
pub trait Protocol: Send {
    /// The number of bytes that [`Protocol::parse`] needs first: the length of a request header.
    fn header_bytes(&self) -> usize;

    /// Parses the head of the stream. `bytes` holds at least [`Protocol::header_bytes`] (or the
    /// number that the last `Incomplete` asked for) and may hold more; only `consumed_bytes` of it
    /// are consumed.
    fn parse(&mut self, bytes: &[u8]) -> Parsed;

    /// Appends to `out` the bytes that precede this piece's payload (or the whole piece if it has
    /// none).
    fn encode(&mut self, asked: &ClientRequest, body: Body<'_>, out: &mut Vec<u8>);
}
