//! Fuzzes the NBD transmission phase with arbitrary bytes after any negotiation, and encodes the
//! answers to its requests.

use crate::target::{Seen, Target};
use hoistway_engine::protocol::{
    Body, ClientRequest, Command, Failure, MAX_EXTENTS, MAX_HEADER_BYTES, MAX_PAYLOAD_BYTES, Parsed, Protocol,
    StatusExtent,
};
use hoistway_export::nbd::handshake::{Negotiated, ReplyForm};
use hoistway_export::nbd::transmission::Transmission;
use hoistway_export::nbd::wire::{self, command};

pub const TARGET: Target = Target {
    name: "nbd-transmission",
    promise: "no panic, progress with every request, replies that a client can parse",
    run,
    corpus,
    tokens: &[
        &[0x25, 0x60, 0x95, 0x13],
        &[0x21, 0xe4, 0x1c, 0x71],
        &[0, 0, 0, 7],
        &[0, 1, 0, 6],
        &[0, 32, 0, 7],
        &[0, 32, 0, 1],
        &[0, 4, 0, 0],
        &[0, 8, 0, 7],
        &[2, 0, 0, 0],
        &[2, 0, 0, 1],
        &[4, 0, 0, 0],
        &[0, 0, 0, 0, 0, 0, 0, 12],
    ],
    longest_bytes: 8_192,
};

/// Longer payloads are only counted, because the parser does not look at their contents.
const LONGEST_MESSAGE_BYTES: usize = 256;

fn run(bytes: &[u8]) -> Seen {
    let Some((head, mut stream)) = bytes.split_first_chunk::<3>() else { return Seen::NOTHING };
    let negotiated = negotiated(*head);
    let mut transmission = Transmission::new(&negotiated);
    let mut seen = Seen::NOTHING.and(&[head[0] & 7]);
    let mut needed_bytes = transmission.header_bytes();
    while stream.len() >= needed_bytes {
        let parsed = transmission.parse(stream);
        seen = seen.and_message(&format!("{parsed:?}"), "");
        let consumed_bytes = match parsed {
            Parsed::Incomplete { needed_bytes: more } => {
                assert!(more > stream.len() && more <= MAX_HEADER_BYTES, "wants {more} bytes, has {}", stream.len());
                needed_bytes = more;
                continue;
            }
            Parsed::Request { consumed_bytes, asked } => {
                check_request(&asked, &negotiated);
                check_answers(&mut transmission, negotiated.form, &asked);
                consumed_bytes + asked.payload_bytes as usize
            }
            Parsed::Answered { consumed_bytes, skip_bytes, asked, failure, message } => {
                assert!(message.len() <= LONGEST_MESSAGE_BYTES, "a message too long for a chunk: {message}");
                let body = match failure {
                    None => Body::Done,
                    Some(failure) => Body::Failed { failure, offset_bytes: None, message, last: true },
                };
                assert_eq!(encode(&mut transmission, negotiated.form, &asked, body, 0), 1, "one last chunk");
                consumed_bytes + usize::try_from(skip_bytes).unwrap_or(usize::MAX)
            }
            Parsed::Disconnect { consumed_bytes } => {
                assert_eq!(consumed_bytes, transmission.header_bytes(), "a disconnect is a header");
                break;
            }
            Parsed::Close => break,
        };
        assert!(consumed_bytes >= transmission.header_bytes(), "a request of {consumed_bytes} bytes");
        needed_bytes = transmission.header_bytes();
        stream = stream.get(consumed_bytes..).unwrap_or(&[]);
    }
    seen
}

fn negotiated(head: [u8; 3]) -> Negotiated {
    let form = match head[0] & 3 {
        0 => ReplyForm::Simple,
        1 | 2 => ReplyForm::Structured,
        _ => ReplyForm::Extended,
    };
    Negotiated {
        export: "db".into(),
        size_bytes: 1 << 30,
        form,
        flags: u16::from_be_bytes([head[1], head[2]]),
        allocation_context: head[0] & 4 != 0 && form != ReplyForm::Simple,
    }
}

/// Checks what the engine may rely on.
fn check_request(asked: &ClientRequest, negotiated: &Negotiated) {
    let is_write = asked.command == Command::Write;
    let payload_bytes = if is_write { asked.length_bytes } else { 0 };
    assert_eq!(u64::from(asked.payload_bytes), payload_bytes, "payload of {asked:?}");
    let moves_data = is_write || asked.command == Command::Read;
    assert!(!moves_data || asked.length_bytes <= u64::from(MAX_PAYLOAD_BYTES), "too long: {asked:?}");
    let is_refused = is_write && negotiated.flags & wire::transmission_flag::READ_ONLY != 0;
    assert!(!is_refused, "a write to a read-only export");
    assert!(asked.command != Command::BlockStatus || negotiated.allocation_context, "no context is selected");
    assert!(negotiated.form != ReplyForm::Simple || asked.command != Command::Read || asked.one_piece);
}

/// Checks every answer that the engine may give to a request.
fn check_answers(transmission: &mut Transmission, form: ReplyForm, asked: &ClientRequest) {
    let failed = |failure, offset_bytes, message, last| Body::Failed { failure, offset_bytes, message, last };
    let mut chunks = 0;
    match asked.command {
        Command::Read if asked.length_bytes > 0 => {
            let length_bytes = u32::try_from(asked.length_bytes).expect("checked above");
            let piece = if asked.one_piece { length_bytes } else { length_bytes.div_ceil(2) };
            let data =
                Body::Data { offset_bytes: asked.offset_bytes, length_bytes: piece, last: piece == length_bytes };
            chunks += encode(transmission, form, asked, data, piece);
            if piece < length_bytes {
                let offset_bytes = asked.offset_bytes.wrapping_add(u64::from(piece));
                chunks += encode(transmission, form, asked, failed(Failure::Io, Some(offset_bytes), "bad", true), 0);
            }
        }
        Command::BlockStatus => {
            let length_bytes = asked.length_bytes.clamp(1, 1 << 20);
            let count = if asked.one_extent { 1 } else { MAX_EXTENTS };
            let extents = vec![StatusExtent { length_bytes, hole: true, zero: false }; count];
            chunks += encode(transmission, form, asked, Body::Extents(&extents), 0);
        }
        _ => chunks += encode(transmission, form, asked, Body::Done, 0),
    }
    assert_eq!(chunks, 1, "every reply has exactly one last piece");
    let long = "ä".repeat(300);
    for failure in [Failure::Io, Failure::NoSpace, Failure::NotSupported, Failure::Overflow, Failure::Shutdown] {
        assert_eq!(encode(transmission, form, asked, failed(failure, None, &long, true), 0), 1);
    }
}

/// Encodes one chunk and parses it as a client does; returns the number of final chunks in it.
fn encode(
    transmission: &mut Transmission,
    form: ReplyForm,
    asked: &ClientRequest,
    body: Body<'_>,
    data_bytes: u32,
) -> u32 {
    let mut out = Vec::new();
    transmission.encode(asked, body, &mut out);
    let number =
        |at: usize, width: usize| out[at..at + width].iter().fold(0, |sum: u64, byte| sum << 8 | u64::from(*byte));
    let magic = u32::try_from(number(0, 4)).expect("four bytes");
    assert_eq!(number(8, 8), asked.cookie, "the cookie comes back");
    if magic == wire::SIMPLE_REPLY_MAGIC {
        assert!(form == ReplyForm::Simple || (form == ReplyForm::Structured && asked.command != Command::Read));
        assert_eq!(out.len(), 16, "a simple reply");
        check_error(number(4, 4));
        return 1;
    }
    let (wanted, length, header_bytes) = match form {
        ReplyForm::Simple => panic!("a chunk where simple replies were agreed on"),
        ReplyForm::Structured => (wire::STRUCTURED_REPLY_MAGIC, number(16, 4), 20),
        ReplyForm::Extended => (wire::EXTENDED_REPLY_MAGIC, number(24, 8), 32),
    };
    assert_eq!(magic, wanted, "magic of a chunk");
    let follows = (out.len() - header_bytes) as u64 + u64::from(data_bytes);
    assert_eq!(length, follows, "length of a chunk, and what follows its header");
    let kind = number(6, 2);
    if kind & 0x8000 != 0 {
        check_error(number(header_bytes, 4));
        let message_bytes = usize::try_from(number(header_bytes + 4, 2)).expect("two bytes");
        assert!(std::str::from_utf8(&out[header_bytes + 6..header_bytes + 6 + message_bytes]).is_ok());
    }
    u32::from(number(4, 2) & u64::from(wire::chunk::DONE) != 0)
}

/// Only these error numbers may be sent.
fn check_error(number: u64) {
    assert!([0, 1, 5, 12, 22, 28, 75, 95, 108].contains(&number), "error number {number}");
}

fn corpus() -> Vec<Vec<u8>> {
    let request = |extended: bool, command: u16, flags: u16, offset: u64, length: u32, payload: &[u8]| {
        let magic = if extended { wire::EXTENDED_REQUEST_MAGIC } else { wire::REQUEST_MAGIC };
        let mut bytes = magic.to_be_bytes().to_vec();
        bytes.extend(flags.to_be_bytes());
        bytes.extend(command.to_be_bytes());
        bytes.extend(0x0123_4567_89ab_cdef_u64.to_be_bytes());
        bytes.extend(offset.to_be_bytes());
        if extended {
            bytes.extend([0; 4]);
        }
        bytes.extend(length.to_be_bytes());
        bytes.extend(payload);
        bytes
    };
    let mut inputs = Vec::new();
    for shape in 0..8 {
        let extended = shape & 3 == 3;
        let all = |flags: u16| {
            let payload = if extended { wire::command_flag::PAYLOAD_LEN } else { 0 };
            [
                request(extended, command::READ, flags, 4_096, 65_536, &[]),
                request(extended, command::WRITE, flags | payload, 0, 5, b"hello"),
                request(extended, command::FLUSH, flags, 0, 0, &[]),
                request(extended, command::TRIM, flags, 0, 1 << 30, &[]),
                request(extended, command::CACHE, flags, 512, 512, &[]),
                request(extended, command::WRITE_ZEROES, flags | wire::command_flag::FAST_ZERO, 0, 1 << 20, &[]),
                request(extended, command::BLOCK_STATUS, flags, 0, 1 << 20, &[]),
                request(extended, command::BLOCK_STATUS, flags | payload, 0, 12, &[0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1]),
                request(extended, 77, flags, 0, 0, &[]),
                request(extended, command::DISCONNECT, flags, 0, 0, &[]),
            ]
            .concat()
        };
        inputs.push([&[shape, 0xff, 0xfd][..], &all(0)].concat());
        inputs.push([&[shape, 0xff, 0xff][..], &all(wire::command_flag::FUA)].concat());
        inputs.push([&[shape, 0, 1][..], &all(wire::command_flag::REQ_ONE)].concat());
    }
    inputs
}
