//! The numbers of the NBD protocol, under the protocol's own names. Sources:
//! docs/specifications/engine.md, section 4.1; the NBD project's `proto.md`.
//!
//! Every integer on the wire is big-endian.

/// First word of the server's greeting: `NBDMAGIC`.
pub const GREETING_MAGIC: u64 = 0x4e42_444d_4147_4943;
/// Second word of the greeting, and first word of every option: `IHAVEOPT`.
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// First word of every reply to an option.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// First word of a request in the compact form.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// First word of a request once extended headers are negotiated.
pub const EXTENDED_REQUEST_MAGIC: u32 = 0x21e4_1c71;
/// First word of a simple reply.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// First word of a structured reply's chunk.
pub const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;
/// First word of a chunk once extended headers are negotiated.
pub const EXTENDED_REPLY_MAGIC: u32 = 0x6e8a_278c;

/// TCP port registered for NBD.
pub const DEFAULT_PORT: u16 = 10_809;
/// Longest name or query, in bytes.
pub const MAXIMUM_STRING_BYTES: usize = 4_096;

/// Handshake flags sent by the server: fixed newstyle, and no padding behind `EXPORT_NAME` if the
/// client agrees.
pub const HANDSHAKE_FLAGS: u16 = 0x0003;
/// Client flag: supports fixed newstyle.
pub const CLIENT_FIXED_NEWSTYLE: u32 = 1 << 0;
/// Client flag: no padding behind the answer to `EXPORT_NAME`.
pub const CLIENT_NO_ZEROES: u32 = 1 << 1;

/// Option types, as sent by the client.
pub mod option {
    /// Choose an export, answered without a reply header.
    pub const EXPORT_NAME: u32 = 1;
    /// End the session.
    pub const ABORT: u32 = 2;
    /// List all exports.
    pub const LIST: u32 = 3;
    /// Start TLS.
    pub const STARTTLS: u32 = 5;
    /// Facts about an export.
    pub const INFO: u32 = 6;
    /// Facts about an export, then transmission.
    pub const GO: u32 = 7;
    /// Use structured replies.
    pub const STRUCTURED_REPLY: u32 = 8;
    /// List the metadata contexts of an export.
    pub const LIST_META_CONTEXT: u32 = 9;
    /// Select metadata contexts of an export.
    pub const SET_META_CONTEXT: u32 = 10;
    /// Use extended headers.
    pub const EXTENDED_HEADERS: u32 = 11;
}

/// Types of the replies to options.
pub mod reply {
    /// Done; the last reply of an option.
    pub const ACK: u32 = 1;
    /// One export of a LIST.
    pub const SERVER: u32 = 2;
    /// One fact of an INFO or GO.
    pub const INFO: u32 = 3;
    /// One metadata context.
    pub const META_CONTEXT: u32 = 4;
    /// The option is unknown.
    pub const UNSUPPORTED: u32 = (1 << 31) + 1;
    /// The option is forbidden here.
    pub const POLICY: u32 = (1 << 31) + 2;
    /// The option's data is malformed, or it came out of order.
    pub const INVALID: u32 = (1 << 31) + 3;
    /// TLS must begin first.
    pub const TLS_REQUIRED: u32 = (1 << 31) + 5;
    /// No such export for this client.
    pub const UNKNOWN: u32 = (1 << 31) + 6;
    /// The server is shutting down.
    pub const SHUTDOWN: u32 = (1 << 31) + 7;
    /// The option's data is too long.
    pub const TOO_BIG: u32 = (1 << 31) + 9;
    /// Extended headers are in use, so the option is not allowed.
    pub const EXTENDED_HEADER_REQUIRED: u32 = (1 << 31) + 10;
}

/// Types of facts in an INFO reply.
pub mod information {
    /// Size and transmission flags.
    pub const EXPORT: u16 = 0;
    /// The export's canonical name.
    pub const NAME: u16 = 1;
    /// A description for users.
    pub const DESCRIPTION: u16 = 2;
    /// Minimum and preferred block, maximum payload.
    pub const BLOCK_SIZE: u16 = 3;
}

/// Transmission flags: the abilities of the export.
pub mod transmission_flag {
    /// The other bits are valid.
    pub const HAS_FLAGS: u16 = 1 << 0;
    /// Writes are refused.
    pub const READ_ONLY: u16 = 1 << 1;
    /// FLUSH is supported.
    pub const SEND_FLUSH: u16 = 1 << 2;
    /// The FUA command flag is supported.
    pub const SEND_FUA: u16 = 1 << 3;
    /// Positioning costs time, as on a spinning disk.
    pub const ROTATIONAL: u16 = 1 << 4;
    /// TRIM is supported.
    pub const SEND_TRIM: u16 = 1 << 5;
    /// WRITE_ZEROES is supported.
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    /// The DF command flag is supported.
    pub const SEND_DF: u16 = 1 << 7;
    /// A flush on one connection covers writes answered on the others.
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
    /// CACHE is supported.
    pub const SEND_CACHE: u16 = 1 << 10;
    /// The FAST_ZERO command flag is supported.
    pub const SEND_FAST_ZERO: u16 = 1 << 11;
    /// BLOCK_STATUS may have a payload that filters contexts.
    pub const BLOCK_STATUS_PAYLOAD: u16 = 1 << 12;
}

/// Command types.
pub mod command {
    /// Read data from the export.
    pub const READ: u16 = 0;
    /// Write data to the export.
    pub const WRITE: u16 = 1;
    /// Disconnect after everything is answered.
    pub const DISCONNECT: u16 = 2;
    /// Make answered writes durable.
    pub const FLUSH: u16 = 3;
    /// The range is no longer needed.
    pub const TRIM: u16 = 4;
    /// Read the range into the cache.
    pub const CACHE: u16 = 5;
    /// Make the range read as zeroes.
    pub const WRITE_ZEROES: u16 = 6;
    /// Describe the range's allocation.
    pub const BLOCK_STATUS: u16 = 7;
}

/// Command flags.
pub mod command_flag {
    /// Answer only when on stable storage.
    pub const FUA: u16 = 1 << 0;
    /// Keep the zeroed range allocated.
    pub const NO_HOLE: u16 = 1 << 1;
    /// At most one content chunk.
    pub const DF: u16 = 1 << 2;
    /// Exactly one extent.
    pub const REQ_ONE: u16 = 1 << 3;
    /// Fail at once if zeroing is no faster than writing.
    pub const FAST_ZERO: u16 = 1 << 4;
    /// A payload follows (extended headers only).
    pub const PAYLOAD_LEN: u16 = 1 << 5;
}

/// Chunk types of structured and extended replies.
pub mod chunk {
    /// No content; used with [`DONE`].
    pub const NONE: u16 = 0;
    /// Offset and data.
    pub const OFFSET_DATA: u16 = 1;
    /// Offset and length of a range of zeroes.
    pub const OFFSET_HOLE: u16 = 2;
    /// Extents with 32-bit lengths.
    pub const BLOCK_STATUS: u16 = 5;
    /// Extents with 64-bit lengths.
    pub const BLOCK_STATUS_EXTENDED: u16 = 6;
    /// An error of the whole request.
    pub const ERROR: u16 = 0x8001;
    /// An error at an offset.
    pub const ERROR_OFFSET: u16 = 0x8002;
    /// Chunk flag: the last one of its request.
    pub const DONE: u16 = 1 << 0;
}

/// The error numbers that may appear on the wire; no others may.
pub mod error {
    /// Not permitted.
    pub const EPERM: u32 = 1;
    /// Input or output failed.
    pub const EIO: u32 = 5;
    /// The request is malformed.
    pub const EINVAL: u32 = 22;
    /// No space left.
    pub const ENOSPC: u32 = 28;
    /// Longer than can be answered in the requested form.
    pub const EOVERFLOW: u32 = 75;
    /// Not supported (FAST_ZERO only).
    pub const ENOTSUP: u32 = 95;
    /// The server is shutting down.
    pub const ESHUTDOWN: u32 = 108;
}

/// Id of `base:allocation` in replies to SET_META_CONTEXT and in block status.
pub const ALLOCATION_CONTEXT_ID: u32 = 1;
/// Name of the only metadata context offered.
pub const ALLOCATION_CONTEXT: &str = "base:allocation";
/// Extent flag of `base:allocation`: not allocated.
pub const ALLOCATION_HOLE: u32 = 1 << 0;
/// Extent flag of `base:allocation`: reads as zero.
pub const ALLOCATION_ZERO: u32 = 1 << 1;
