//! What a client protocol is to the engine: a pure translation between bytes and requests.
//!
//! The shard owns the sockets, the buffers and the order of everything; a protocol owns nothing but what was
//! negotiated. NBD (crate `export`) implements this trait once, tests implement it with a few lines.
//!
//! Who checks what:
//!
//! | the protocol ([`Protocol::parse`]) | the engine |
//! | --- | --- |
//! | magic, command, flags and their negotiation | offset + length inside the volume (reads, trims: `Invalid`; writes: `NoSpace`) |
//! | payload and length limits ([`MAX_PAYLOAD_BYTES`]) | read-only volumes (`NotPermitted`) |
//! | what a flush or a block status may carry | whether zeroing is fast (`NotSupported`), draining (`Shutdown`) |
//!
//! One request, as the shard drives it:
//! ```text
//! bytes -> parse -> Request { consumed_bytes, asked }     asked.payload_bytes follow in the stream, the shard stores them
//!                -> Answered { .., skip_bytes, .. }       nothing to do on the disk: the shard skips the payload, replies
//!                -> Disconnect / Close                    answer what is in flight, then / at once close
//! reply parts -> encode(asked, Body::Data { .. }) + payload slice, ... encode(asked, Body::Done | Failed | Extents)
//! ```

/// The largest payload of one request, in bytes: what is advertised to clients (32 MiB).
pub const MAX_PAYLOAD_BYTES: u32 = 32 << 20;

/// The most extents that one block status reply carries.
pub const MAX_EXTENTS: usize = 512;

/// The most bytes a protocol may ask for before it can tell what a request is.
pub const MAX_HEADER_BYTES: usize = 4_096;

/// What the client wants done.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Command {
    /// Data from the volume.
    Read,
    /// Data to the volume; the payload follows the header.
    Write,
    /// Everything answered before must be durable.
    Flush,
    /// The range is no longer needed; doing less than asked is allowed.
    Trim,
    /// The range must read back as zero.
    WriteZeroes,
    /// A hint that the range will be read. Answered at once.
    Cache,
    /// Which parts of the range are allocated.
    BlockStatus,
}

/// A request as the client asked for it. The engine keeps it until the last byte of the reply is encoded and hands it
/// back to [`Protocol::encode`] unchanged.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Asked {
    /// The client's own number for the request; opaque, need not be unique.
    pub cookie: u64,
    /// First byte on the volume.
    pub offset_bytes: u64,
    /// Length in bytes; 0 is answered with success without touching the disk.
    pub length_bytes: u64,
    /// Bytes that follow the header in the stream: `length_bytes` for a write, else 0.
    pub payload_bytes: u32,
    /// What to do.
    pub command: Command,
    /// Answer only when the result is on stable storage.
    pub fua: bool,
    /// WriteZeroes: keep the range allocated.
    pub no_hole: bool,
    /// WriteZeroes: fail with [`Failure::NotSupported`] rather than write zeroes out.
    pub fast_zero: bool,
    /// Read: the data must leave as one piece behind one header (simple replies always; structured with DF). The
    /// engine then sends nothing before all of it is in memory.
    pub one_piece: bool,
    /// BlockStatus: answer exactly one extent, not longer than asked.
    pub one_extent: bool,
    /// Free for the protocol (reply form, metadata context); the engine never looks.
    pub tag: u16,
}

/// Why a request was not done.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Failure {
    /// Not permitted: the volume is read-only.
    NotPermitted,
    /// The backing could not read, write or flush.
    Io,
    /// Malformed, or outside the volume.
    Invalid,
    /// No room behind the volume, or a write past its end.
    NoSpace,
    /// Longer than this protocol may answer.
    Overflow,
    /// The backing cannot do this (quickly).
    NotSupported,
    /// The server is going down.
    Shutdown,
}

/// What the bytes at the head of the stream are.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Parsed {
    /// More bytes are needed to tell: `needed_bytes` in all (more than were given, at most [`MAX_HEADER_BYTES`]).
    Incomplete {
        /// Total bytes to offer next time, counted from the same place.
        needed_bytes: usize,
    },
    /// A request; its payload (`asked.payload_bytes`) follows the consumed bytes.
    Request {
        /// Length of the header.
        consumed_bytes: usize,
        /// The request.
        asked: Asked,
    },
    /// A request that needs no I/O: refused, or already known to succeed. `asked` is handed to `encode` with
    /// [`Body::Done`] or [`Body::Failed`] after `skip_bytes` of payload were read and thrown away.
    Answered {
        /// Length of the header.
        consumed_bytes: usize,
        /// Payload bytes to throw away before the next header.
        skip_bytes: u64,
        /// The request, as far as it was understood (the cookie is what matters).
        asked: Asked,
        /// The answer: `None` for success.
        failure: Option<Failure>,
        /// A short reason for protocols that can carry one; no paths.
        message: &'static str,
    },
    /// The client says goodbye: everything in flight is answered and sent, then the socket is closed.
    Disconnect {
        /// Length of the header.
        consumed_bytes: usize,
    },
    /// The stream cannot be trusted any more: reading stops, what is in flight is answered, the socket is closed.
    Close,
}

/// A stretch of a volume and whether it is allocated.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct StatusExtent {
    /// Length in bytes, never 0.
    pub length_bytes: u64,
    /// Not allocated.
    pub hole: bool,
    /// Reads as zero.
    pub zero: bool,
}

/// One piece of a reply.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Body<'a> {
    /// Success without data: the last piece of this reply. Of a read: of length 0.
    Done,
    /// `length_bytes` of data follow directly behind the encoded bytes. If [`Asked::one_piece`] was set there is
    /// exactly one such piece, it covers the whole request and is the last.
    Data {
        /// Position on the volume of the first byte.
        offset_bytes: u64,
        /// Length of the data, never 0.
        length_bytes: u32,
        /// Nothing comes behind it in this reply.
        last: bool,
    },
    /// It failed. Before it, `Data` of other parts may have been sent (never if `one_piece`).
    Failed {
        /// Why.
        failure: Failure,
        /// Where on the volume, if known.
        offset_bytes: Option<u64>,
        /// A short reason; may be empty.
        message: &'a str,
        /// Nothing comes behind it in this reply.
        last: bool,
    },
    /// The answer to [`Command::BlockStatus`], last piece: starts at the request's offset, 1 to [`MAX_EXTENTS`]
    /// extents that never exceed the request's end.
    Extents(&'a [StatusExtent]),
}

/// A client protocol after its handshake: parses requests, encodes replies. Lives on the shard's thread; must not
/// block, and must not allocate for requests that succeed.
pub trait Protocol: Send {
    /// How many bytes [`Protocol::parse`] wants to see first: the length of a request header.
    fn header_bytes(&self) -> usize;

    /// Says what the stream begins with. `bytes` holds at least [`Protocol::header_bytes`] (or what the last
    /// `Incomplete` asked for) and may hold more; only `consumed_bytes` of it are taken.
    fn parse(&mut self, bytes: &[u8]) -> Parsed;

    /// Appends to `out` the bytes that precede the payload of this piece (or are all of it, where there is none).
    fn encode(&mut self, asked: &Asked, body: Body<'_>, out: &mut Vec<u8>);
}
