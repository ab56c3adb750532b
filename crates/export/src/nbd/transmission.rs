//! The transmission phase: parses requests from bytes, encodes replies into bytes.
//!
//! Promise  every input gets the answer of the specification's table; a reply has the negotiated
//!          form. Nothing is stored between two requests, so a client cannot exhaust memory.
//! Cost     28 or 32 bytes are read per request; no allocation except for `out`.
//! Sources  docs/specifications/engine.md, section 4.3; docs/specifications/engine.md, section 4.4.
//!          The trait `hoistway_engine::protocol::Protocol` documents which side checks what.
//!
//! Read [`Transmission::parse`] first; `refusal` lists the possible errors of a header.

use hoistway_engine::protocol::{
    Body, ClientRequest, Command, Failure, MAX_PAYLOAD_BYTES, Parsed, Protocol, StatusExtent,
};

use super::handshake::{Negotiated, ReplyForm};
use super::wire::{self, chunk, command, command_flag, error, transmission_flag};

/// Longest payload that is read and discarded to find the next header; a longer one ends the
/// connection.
const MAXIMUM_SKIPPED_BYTES: u64 = 64 << 20;
/// Length of a request in the compact form.
const COMPACT_REQUEST_BYTES: usize = 28;
/// Length of a request with extended headers.
const EXTENDED_REQUEST_BYTES: usize = 32;
/// Payload of a BLOCK_STATUS that names one context: the true length and the context's id.
const STATUS_FILTER_BYTES: usize = 12;
/// Longest sentence in an error chunk.
const MAXIMUM_MESSAGE_BYTES: usize = 256;

/// The state of one connection's transmission phase: only what was negotiated.
#[derive(Clone, Debug)]
pub struct Transmission {
    form: ReplyForm,
    flags: u16,
    allocation_context: bool,
}

/// The fields of a request header in either form.
#[derive(Copy, Clone, Debug)]
struct Header {
    flags: u16,
    command: u16,
    cookie: u64,
    offset_bytes: u64,
    /// The length field: the payload's length if there is one, else the length of the affected
    /// range.
    length_bytes: u64,
}

/// Why a request is refused, with a sentence for users.
type Refusal = (Failure, &'static str);

impl Transmission {
    /// The transmission phase after a finished handshake.
    pub fn new(negotiated: &Negotiated) -> Self {
        Self { form: negotiated.form, flags: negotiated.flags, allocation_context: negotiated.allocation_context }
    }

    fn offers(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    fn is_extended(&self) -> bool {
        self.form == ReplyForm::Extended
    }

    /// Parses the fields; `None` if the magic number is wrong.
    fn header(&self, bytes: &[u8]) -> Option<Header> {
        let number = |at: usize, width: usize| {
            bytes.get(at..at + width)?.iter().try_fold(0, |sum: u64, byte| Some(sum << 8 | u64::from(*byte)))
        };
        let (magic, length_width) =
            if self.is_extended() { (wire::EXTENDED_REQUEST_MAGIC, 8) } else { (wire::REQUEST_MAGIC, 4) };
        (number(0, 4)? == u64::from(magic)).then_some(())?;
        Some(Header {
            flags: u16::try_from(number(4, 2)?).ok()?,
            command: u16::try_from(number(6, 2)?).ok()?,
            cookie: number(8, 8)?,
            offset_bytes: number(16, 8)?,
            length_bytes: number(24, length_width)?,
        })
    }

    /// Bytes that follow the header, whatever else is wrong with it.
    fn payload_bytes(&self, header: &Header) -> u64 {
        let follows = if self.is_extended() {
            header.flags & command_flag::PAYLOAD_LEN != 0
        } else {
            header.command == command::WRITE
        };
        if follows { header.length_bytes } else { 0 }
    }

    /// The command flags that are valid with a command on this connection.
    fn allowed_flags(&self, command: u16) -> u16 {
        let offered = |flag, needed| if self.offers(needed) { flag } else { 0 };
        let extended = |flag| if self.is_extended() { flag } else { 0 };
        let own = match command {
            command::READ => offered(command_flag::DF, transmission_flag::SEND_DF),
            command::WRITE => extended(command_flag::PAYLOAD_LEN),
            command::WRITE_ZEROES => {
                command_flag::NO_HOLE | offered(command_flag::FAST_ZERO, transmission_flag::SEND_FAST_ZERO)
            }
            command::BLOCK_STATUS => {
                command_flag::REQ_ONE | offered(command_flag::PAYLOAD_LEN, transmission_flag::BLOCK_STATUS_PAYLOAD)
            }
            _ => 0,
        };
        own | offered(command_flag::FUA, transmission_flag::SEND_FUA)
    }

    /// The engine's command, if this export offers it.
    fn command(&self, number: u16) -> Result<Command, Refusal> {
        let (command, needed) = match number {
            command::READ => (Command::Read, 0),
            command::WRITE => (Command::Write, 0),
            command::FLUSH => (Command::Flush, transmission_flag::SEND_FLUSH),
            command::TRIM => (Command::Trim, transmission_flag::SEND_TRIM),
            command::CACHE => (Command::Cache, transmission_flag::SEND_CACHE),
            command::WRITE_ZEROES => (Command::WriteZeroes, transmission_flag::SEND_WRITE_ZEROES),
            command::BLOCK_STATUS => (Command::BlockStatus, 0),
            _ => return Err((Failure::Invalid, "unknown command")),
        };
        let writes = matches!(command, Command::Write | Command::Trim | Command::WriteZeroes);
        if writes && self.offers(transmission_flag::READ_ONLY) {
            return Err((Failure::NotPermitted, "the export is read-only"));
        }
        if needed != 0 && !self.offers(needed) {
            return Err((Failure::Invalid, "the export does not offer this command"));
        }
        Ok(command)
    }

    /// Checks the header itself; ranges and read-only volumes are checked by the engine.
    fn refusal(&self, header: &Header) -> Result<Command, Refusal> {
        let command = self.command(header.command)?;
        if header.flags & !self.allowed_flags(header.command) != 0 {
            return Err((Failure::Invalid, "a command flag is unknown, not negotiated or not for this command"));
        }
        let too_long = header.length_bytes > u64::from(MAX_PAYLOAD_BYTES);
        match command {
            Command::Read if too_long && self.form == ReplyForm::Simple => {
                Err((Failure::Invalid, "longer than the maximum payload"))
            }
            Command::Read if too_long => Err((Failure::Overflow, "longer than the maximum payload")),
            Command::Write if self.is_extended() && header.flags & command_flag::PAYLOAD_LEN == 0 => {
                Err((Failure::Invalid, "a write needs a payload"))
            }
            Command::Write if too_long => Err((Failure::Invalid, "longer than the maximum payload")),
            Command::Flush if header.length_bytes != 0 || header.offset_bytes != 0 => {
                Err((Failure::Invalid, "a flush has neither offset nor length"))
            }
            Command::BlockStatus if !self.allocation_context => {
                Err((Failure::Invalid, "no metadata context is selected"))
            }
            Command::BlockStatus if header.length_bytes == 0 => Err((Failure::Invalid, "a block status of no bytes")),
            _ => Ok(command),
        }
    }

    /// A BLOCK_STATUS whose length and contexts are in a payload (extended headers only).
    fn filtered_status(&self, header: &Header, bytes: &[u8], asked: ClientRequest) -> Parsed {
        let refused = |skip_bytes, message| Parsed::Answered {
            consumed_bytes: EXTENDED_REQUEST_BYTES,
            skip_bytes,
            asked,
            failure: Some(Failure::Invalid),
            message,
        };
        // The ids in the list must differ and only one context exists, so only a list of one id can
        // be valid.
        if header.length_bytes != STATUS_FILTER_BYTES as u64 {
            return refused(header.length_bytes, "the payload must hold a length and the id of one context");
        }
        let needed_bytes = EXTENDED_REQUEST_BYTES + STATUS_FILTER_BYTES;
        let Some(payload) = bytes.get(EXTENDED_REQUEST_BYTES..needed_bytes) else {
            return Parsed::Incomplete { needed_bytes };
        };
        let number = |bytes: &[u8]| bytes.iter().fold(0, |sum: u64, byte| sum << 8 | u64::from(*byte));
        let (length_bytes, context) = (number(&payload[..8]), number(&payload[8..]));
        if context != u64::from(wire::ALLOCATION_CONTEXT_ID) {
            return refused(header.length_bytes, "a context of the payload is not selected");
        }
        if length_bytes == 0 {
            return refused(header.length_bytes, "a block status of no bytes");
        }
        Parsed::Request { consumed_bytes: needed_bytes, asked: ClientRequest { length_bytes, ..asked } }
    }
}

impl Protocol for Transmission {
    fn header_bytes(&self) -> usize {
        if self.is_extended() { EXTENDED_REQUEST_BYTES } else { COMPACT_REQUEST_BYTES }
    }

    fn parse(&mut self, bytes: &[u8]) -> Parsed {
        let consumed_bytes = self.header_bytes();
        if bytes.len() < consumed_bytes {
            return Parsed::Incomplete { needed_bytes: consumed_bytes };
        }
        let Some(header) = self.header(bytes) else {
            // Without the magic number the cookie is unreliable, so the request cannot be answered.
            return Parsed::Close;
        };
        if header.command == command::DISCONNECT {
            return Parsed::Disconnect { consumed_bytes };
        }
        let payload_bytes = self.payload_bytes(&header);
        if payload_bytes > MAXIMUM_SKIPPED_BYTES {
            return Parsed::Close;
        }
        let has = |flag| header.flags & flag != 0;
        let mut asked = ClientRequest {
            cookie: header.cookie,
            offset_bytes: header.offset_bytes,
            length_bytes: header.length_bytes,
            payload_bytes: 0,
            command: Command::Cache,
            fua: has(command_flag::FUA),
            no_hole: has(command_flag::NO_HOLE),
            fast_zero: has(command_flag::FAST_ZERO),
            one_piece: self.form == ReplyForm::Simple || has(command_flag::DF),
            is_direct: false,
            one_extent: has(command_flag::REQ_ONE),
            tag: 0,
        };
        match self.refusal(&header) {
            Err((failure, message)) => {
                // The reply form of an error depends on whether it answers a READ.
                asked.command = if header.command == command::READ { Command::Read } else { Command::Cache };
                Parsed::Answered { consumed_bytes, skip_bytes: payload_bytes, asked, failure: Some(failure), message }
            }
            Ok(Command::BlockStatus) if payload_bytes != 0 => {
                asked.command = Command::BlockStatus;
                self.filtered_status(&header, bytes, asked)
            }
            Ok(command) => {
                asked.command = command;
                asked.payload_bytes = u32::try_from(payload_bytes).unwrap_or(MAX_PAYLOAD_BYTES);
                Parsed::Request { consumed_bytes, asked }
            }
        }
    }

    fn encode(&mut self, asked: &ClientRequest, body: Body<'_>, out: &mut Vec<u8>) {
        match body {
            Body::Done if self.form == ReplyForm::Simple => simple_reply(asked, 0, out),
            Body::Done if self.form == ReplyForm::Structured && asked.command != Command::Read => {
                simple_reply(asked, 0, out);
            }
            Body::Done => self.chunk(asked, chunk::NONE, true, 0, out),
            Body::Data { .. } if self.form == ReplyForm::Simple => simple_reply(asked, 0, out),
            Body::Data { offset_bytes, length_bytes, last } => {
                self.chunk(asked, chunk::OFFSET_DATA, last, 8 + u64::from(length_bytes), out);
                out.extend_from_slice(&offset_bytes.to_be_bytes());
            }
            Body::Failed { failure, .. } if self.form == ReplyForm::Simple => {
                simple_reply(asked, error_number(asked, failure), out);
            }
            Body::Failed { failure, offset_bytes, message, last } => {
                self.failure(asked, failure, offset_bytes, message, last, out);
            }
            Body::Extents(extents) => self.extents(asked, extents, out),
        }
    }
}

/// Encoding of single pieces.
impl Transmission {
    fn chunk(&self, asked: &ClientRequest, kind: u16, last: bool, length_bytes: u64, out: &mut Vec<u8>) {
        let magic = if self.is_extended() { wire::EXTENDED_REPLY_MAGIC } else { wire::STRUCTURED_REPLY_MAGIC };
        out.extend_from_slice(&magic.to_be_bytes());
        out.extend_from_slice(&(if last { chunk::DONE } else { 0 }).to_be_bytes());
        out.extend_from_slice(&kind.to_be_bytes());
        out.extend_from_slice(&asked.cookie.to_be_bytes());
        if self.is_extended() {
            out.extend_from_slice(&asked.offset_bytes.to_be_bytes());
            out.extend_from_slice(&length_bytes.to_be_bytes());
        } else {
            // Data are at most the maximum payload, extents at most 64 KiB: the length always fits.
            out.extend_from_slice(&u32::try_from(length_bytes).unwrap_or(u32::MAX).to_be_bytes());
        }
    }

    fn failure(
        &self,
        asked: &ClientRequest,
        failure: Failure,
        offset_bytes: Option<u64>,
        message: &str,
        last: bool,
        out: &mut Vec<u8>,
    ) {
        // Clients drop the connection if the error offset lies outside their request.
        let offset_bytes = offset_bytes.filter(|offset| {
            let inside = offset.checked_sub(asked.offset_bytes).is_some_and(|ahead| ahead < asked.length_bytes);
            asked.command == Command::Read && inside
        });
        let end = (0..=message.len().min(MAXIMUM_MESSAGE_BYTES)).rev().find(|&end| message.is_char_boundary(end));
        let message = &message[..end.unwrap_or(0)];
        let kind = if offset_bytes.is_some() { chunk::ERROR_OFFSET } else { chunk::ERROR };
        let length_bytes = 6 + message.len() as u64 + if offset_bytes.is_some() { 8 } else { 0 };
        self.chunk(asked, kind, last, length_bytes, out);
        out.extend_from_slice(&error_number(asked, failure).to_be_bytes());
        out.extend_from_slice(&u16::try_from(message.len()).unwrap_or(0).to_be_bytes());
        out.extend_from_slice(message.as_bytes());
        if let Some(offset_bytes) = offset_bytes {
            out.extend_from_slice(&offset_bytes.to_be_bytes());
        }
    }

    fn extents(&self, asked: &ClientRequest, extents: &[StatusExtent], out: &mut Vec<u8>) {
        let flags = |extent: &StatusExtent| {
            (if extent.hole { wire::ALLOCATION_HOLE } else { 0 })
                | (if extent.zero { wire::ALLOCATION_ZERO } else { 0 })
        };
        if self.is_extended() {
            self.chunk(asked, chunk::BLOCK_STATUS_EXTENDED, true, 8 + 16 * extents.len() as u64, out);
            out.extend_from_slice(&wire::ALLOCATION_CONTEXT_ID.to_be_bytes());
            out.extend_from_slice(&u32::try_from(extents.len()).unwrap_or(0).to_be_bytes());
            for extent in extents {
                out.extend_from_slice(&extent.length_bytes.to_be_bytes());
                out.extend_from_slice(&u64::from(flags(extent)).to_be_bytes());
            }
        } else {
            self.chunk(asked, chunk::BLOCK_STATUS, true, 4 + 8 * extents.len() as u64, out);
            out.extend_from_slice(&wire::ALLOCATION_CONTEXT_ID.to_be_bytes());
            for extent in extents {
                // In a request of less than 4 GiB every length fits.
                out.extend_from_slice(&u32::try_from(extent.length_bytes).unwrap_or(u32::MAX).to_be_bytes());
                out.extend_from_slice(&flags(extent).to_be_bytes());
            }
        }
    }
}

fn simple_reply(asked: &ClientRequest, error: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(&wire::SIMPLE_REPLY_MAGIC.to_be_bytes());
    out.extend_from_slice(&error.to_be_bytes());
    out.extend_from_slice(&asked.cookie.to_be_bytes());
}

/// The protocol's number for a failure; ENOTSUP is reserved for FAST_ZERO, so elsewhere it becomes
/// EIO.
fn error_number(asked: &ClientRequest, failure: Failure) -> u32 {
    match failure {
        Failure::NotPermitted => error::EPERM,
        Failure::Io => error::EIO,
        Failure::Invalid => error::EINVAL,
        Failure::NoSpace => error::ENOSPC,
        Failure::Overflow => error::EOVERFLOW,
        Failure::NotSupported if asked.fast_zero => error::ENOTSUP,
        Failure::NotSupported => error::EIO,
        Failure::Shutdown => error::ESHUTDOWN,
    }
}
