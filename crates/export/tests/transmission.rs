//! The transmission codec: bytes in, parsed requests out, and the exact bytes of every kind of
//! reply. Sources: docs/specifications/engine.md, section 4.3;
//! docs/specifications/engine.md, section 4.4; docs/specifications/engine.md, section 10 (cases 12
//! to 18, 23, 24).

use hoistway_engine::protocol::{Body, ClientRequest, Command, Failure, Parsed, Protocol, StatusExtent};
use hoistway_export::nbd::handshake::{Negotiated, ReplyForm};
use hoistway_export::nbd::transmission::Transmission;
use hoistway_export::nbd::wire::{self, command, command_flag, error, transmission_flag as flag};
use proptest::prelude::*;

const WRITABLE: u16 = flag::HAS_FLAGS
    | flag::SEND_FLUSH
    | flag::SEND_FUA
    | flag::SEND_TRIM
    | flag::SEND_WRITE_ZEROES
    | flag::SEND_FAST_ZERO
    | flag::CAN_MULTI_CONN;

fn transmission_with(form: ReplyForm, flags: u16, allocation_context: bool) -> Transmission {
    Transmission::new(&Negotiated { export: "a".into(), size_bytes: 1 << 20, form, flags, allocation_context })
}

fn transmission(form: ReplyForm) -> Transmission {
    let flags = match form {
        ReplyForm::Simple => WRITABLE,
        ReplyForm::Structured => WRITABLE | flag::SEND_DF,
        ReplyForm::Extended => WRITABLE | flag::SEND_DF | flag::BLOCK_STATUS_PAYLOAD,
    };
    transmission_with(form, flags, form != ReplyForm::Simple)
}

fn compact(flags: u16, command: u16, offset: u64, length: u32) -> Vec<u8> {
    let mut bytes = wire::REQUEST_MAGIC.to_be_bytes().to_vec();
    bytes.extend(flags.to_be_bytes());
    bytes.extend(command.to_be_bytes());
    bytes.extend(0xc00c_1e00_c00c_1e01_u64.to_be_bytes());
    bytes.extend(offset.to_be_bytes());
    bytes.extend(length.to_be_bytes());
    bytes
}

fn extended(flags: u16, command: u16, offset: u64, length: u64) -> Vec<u8> {
    let mut bytes = compact(flags, command, offset, 0);
    bytes.truncate(24);
    bytes[..4].copy_from_slice(&wire::EXTENDED_REQUEST_MAGIC.to_be_bytes());
    bytes.extend(length.to_be_bytes());
    bytes
}

fn request(parsed: Parsed) -> ClientRequest {
    match parsed {
        Parsed::Request { asked, .. } => asked,
        other => panic!("not a request: {other:?}"),
    }
}

/// Failure and bytes to skip of a request that is refused at once.
fn refused(parsed: Parsed) -> (Failure, u64) {
    match parsed {
        Parsed::Answered { failure: Some(failure), skip_bytes, asked, .. } => {
            assert_eq!(asked.cookie, 0xc00c_1e00_c00c_1e01);
            (failure, skip_bytes)
        }
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn a_compact_read_is_28_bytes() {
    let mut codec = transmission(ReplyForm::Simple);
    let bytes = compact(0, command::READ, 4096, 512);
    assert_eq!(codec.header_bytes(), 28);
    assert_eq!(codec.parse(&bytes[..27]), Parsed::Incomplete { needed_bytes: 28 });
    let Parsed::Request { consumed_bytes: 28, asked } = codec.parse(&bytes) else { panic!() };
    assert_eq!((asked.command, asked.offset_bytes, asked.length_bytes), (Command::Read, 4096, 512));
    assert!(asked.one_piece, "a simple reply cannot be taken back");
}

#[test]
fn a_write_is_followed_by_its_payload() {
    let asked = request(transmission(ReplyForm::Simple).parse(&compact(command_flag::FUA, command::WRITE, 1, 777)));
    assert_eq!((asked.command, asked.payload_bytes, asked.fua), (Command::Write, 777, true));
    let with = extended(command_flag::PAYLOAD_LEN, command::WRITE, 1, 777);
    assert_eq!(request(transmission(ReplyForm::Extended).parse(&with)).payload_bytes, 777);
    let without = extended(0, command::WRITE, 1, 777);
    assert_eq!(refused(transmission(ReplyForm::Extended).parse(&without)), (Failure::Invalid, 0));
}

#[test]
fn wrong_magic_closes_in_every_form() {
    for form in [ReplyForm::Simple, ReplyForm::Structured] {
        assert_eq!(transmission(form).parse(&extended(0, command::READ, 0, 512)), Parsed::Close);
    }
    let mut bytes = compact(0, command::READ, 0, 512);
    bytes.extend([0; 4]);
    assert_eq!(transmission(ReplyForm::Extended).parse(&bytes), Parsed::Close);
}

#[test]
fn unknown_commands_and_flags_are_invalid_and_a_write_is_skipped() {
    let mut codec = transmission(ReplyForm::Structured);
    assert_eq!(refused(codec.parse(&compact(0, 8, 0, 512))), (Failure::Invalid, 0));
    assert_eq!(refused(codec.parse(&compact(0, 99, 0, 512))), (Failure::Invalid, 0));
    assert_eq!(refused(codec.parse(&compact(1 << 9, command::READ, 0, 512))), (Failure::Invalid, 0));
    assert_eq!(refused(codec.parse(&compact(1 << 9, command::WRITE, 0, 512))), (Failure::Invalid, 512));
    assert_eq!(refused(codec.parse(&compact(command_flag::DF, command::WRITE, 0, 512))), (Failure::Invalid, 512));
    assert_eq!(refused(codec.parse(&compact(command_flag::PAYLOAD_LEN, command::READ, 0, 512))), (Failure::Invalid, 0));
    assert_eq!(refused(codec.parse(&compact(command_flag::NO_HOLE, command::TRIM, 0, 512))), (Failure::Invalid, 0));
    assert_eq!(refused(codec.parse(&compact(0, command::CACHE, 0, 512))), (Failure::Invalid, 0));
    let mut codec = transmission(ReplyForm::Extended);
    let with_payload = extended(command_flag::PAYLOAD_LEN, command::READ, 0, 512);
    assert_eq!(refused(codec.parse(&with_payload)), (Failure::Invalid, 512));
}

#[test]
fn fast_zero_and_df_must_have_been_negotiated() {
    let mut codec = transmission_with(ReplyForm::Structured, WRITABLE & !flag::SEND_FAST_ZERO, false);
    let fast = compact(command_flag::FAST_ZERO, command::WRITE_ZEROES, 0, 512);
    assert_eq!(refused(codec.parse(&fast)), (Failure::Invalid, 0));
    assert_eq!(refused(codec.parse(&compact(command_flag::DF, command::READ, 0, 512))), (Failure::Invalid, 0));
    assert!(request(transmission(ReplyForm::Structured).parse(&fast)).fast_zero);
}

#[test]
fn t15_lengths_beyond_the_maximum_payload() {
    let length = 33 << 20;
    let read = compact(0, command::READ, 0, length);
    assert_eq!(refused(transmission(ReplyForm::Simple).parse(&read)), (Failure::Invalid, 0));
    assert_eq!(refused(transmission(ReplyForm::Structured).parse(&read)), (Failure::Overflow, 0));
    let mut codec = transmission(ReplyForm::Simple);
    let write = |length| compact(0, command::WRITE, 0, length);
    assert_eq!(refused(codec.parse(&write(length))), (Failure::Invalid, u64::from(length)));
    assert_eq!(refused(codec.parse(&write(64 << 20))), (Failure::Invalid, 64 << 20));
    assert_eq!(codec.parse(&write((64 << 20) + 1)), Parsed::Close);
    assert_eq!(codec.parse(&write(u32::MAX)), Parsed::Close);
    let announced = extended(command_flag::PAYLOAD_LEN, command::WRITE, 0, u64::MAX);
    assert_eq!(transmission(ReplyForm::Extended).parse(&announced), Parsed::Close);
}

#[test]
fn payloadless_commands_may_be_longer_than_a_payload() {
    let asked = request(transmission(ReplyForm::Extended).parse(&extended(0, command::WRITE_ZEROES, 0, 1 << 40)));
    assert_eq!((asked.length_bytes, asked.payload_bytes), (1 << 40, 0));
}

#[test]
fn t18_a_flush_with_offset_or_length_is_invalid() {
    let mut codec = transmission(ReplyForm::Simple);
    assert_eq!(refused(codec.parse(&compact(0, command::FLUSH, 0, 1))), (Failure::Invalid, 0));
    assert_eq!(refused(codec.parse(&compact(0, command::FLUSH, 512, 0))), (Failure::Invalid, 0));
    assert_eq!(request(codec.parse(&compact(0, command::FLUSH, 0, 0))).command, Command::Flush);
}

#[test]
fn t14_length_0_is_passed_to_the_engine_except_for_block_status() {
    let mut codec = transmission(ReplyForm::Structured);
    for number in [command::READ, command::WRITE, command::TRIM, command::WRITE_ZEROES] {
        assert_eq!(request(codec.parse(&compact(0, number, 0, 0))).length_bytes, 0);
    }
    assert_eq!(refused(codec.parse(&compact(0, command::BLOCK_STATUS, 0, 0))), (Failure::Invalid, 0));
}

#[test]
fn t23_writing_to_a_read_only_export_is_eperm_and_skips_the_payload() {
    let mut codec = transmission_with(ReplyForm::Simple, flag::HAS_FLAGS | flag::READ_ONLY, false);
    assert_eq!(refused(codec.parse(&compact(0, command::WRITE, 0, 512))), (Failure::NotPermitted, 512));
    assert_eq!(refused(codec.parse(&compact(0, command::TRIM, 0, 512))), (Failure::NotPermitted, 0));
    assert_eq!(refused(codec.parse(&compact(0, command::WRITE_ZEROES, 0, 512))), (Failure::NotPermitted, 0));
}

#[test]
fn block_status_needs_a_selected_context() {
    let bytes = compact(command_flag::REQ_ONE, command::BLOCK_STATUS, 0, 4096);
    let mut without = transmission_with(ReplyForm::Structured, WRITABLE, false);
    assert_eq!(refused(without.parse(&bytes)), (Failure::Invalid, 0));
    let asked = request(transmission(ReplyForm::Structured).parse(&bytes));
    assert!(asked.one_extent);
    assert_eq!(asked.command, Command::BlockStatus);
}

#[test]
fn block_status_with_a_payload_names_its_context_and_length() {
    let mut codec = transmission(ReplyForm::Extended);
    let payload = |length: u64, id: u32| {
        let mut bytes = extended(command_flag::PAYLOAD_LEN, command::BLOCK_STATUS, 4096, 12);
        bytes.extend(length.to_be_bytes());
        bytes.extend(id.to_be_bytes());
        bytes
    };
    let whole = payload(1 << 33, wire::ALLOCATION_CONTEXT_ID);
    assert_eq!(codec.parse(&whole[..32]), Parsed::Incomplete { needed_bytes: 44 });
    let Parsed::Request { consumed_bytes: 44, asked } = codec.parse(&whole) else { panic!() };
    assert_eq!((asked.length_bytes, asked.payload_bytes), (1 << 33, 0));
    assert_eq!(refused(codec.parse(&payload(4096, 9))), (Failure::Invalid, 12));
    assert_eq!(refused(codec.parse(&payload(0, 1))), (Failure::Invalid, 12));
    let long = extended(command_flag::PAYLOAD_LEN, command::BLOCK_STATUS, 0, 16);
    assert_eq!(refused(codec.parse(&long)), (Failure::Invalid, 16));
}

#[test]
fn disconnect_is_recognised_by_the_header_alone() {
    let bytes = compact(0, command::DISCONNECT, 7, 7);
    assert_eq!(transmission(ReplyForm::Simple).parse(&bytes), Parsed::Disconnect { consumed_bytes: 28 });
}

fn read_of(form: ReplyForm, length: u32) -> (Transmission, ClientRequest) {
    let mut codec = transmission(form);
    let bytes = match form {
        ReplyForm::Extended => extended(0, command::READ, 0x1000, u64::from(length)),
        _ => compact(0, command::READ, 0x1000, length),
    };
    let asked = request(codec.parse(&bytes));
    (codec, asked)
}

fn encoded(codec: &mut Transmission, asked: &ClientRequest, body: Body<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    codec.encode(asked, body, &mut out);
    out
}

const COOKIE: [u8; 8] = [0xc0, 0x0c, 0x1e, 0x00, 0xc0, 0x0c, 0x1e, 0x01];

#[test]
fn simple_replies_are_16_bytes() {
    let (mut codec, asked) = read_of(ReplyForm::Simple, 512);
    let data = Body::Data { offset_bytes: 0x1000, length_bytes: 512, last: true };
    assert_eq!(encoded(&mut codec, &asked, data), [&[0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0][..], &COOKIE].concat());
    let failed = Body::Failed { failure: Failure::Io, offset_bytes: Some(0x1000), message: "no", last: true };
    assert_eq!(encoded(&mut codec, &asked, failed), [&[0x67, 0x44, 0x66, 0x98, 0, 0, 0, 5][..], &COOKIE].concat());
}

#[test]
fn structured_data_carry_their_offset_and_done_only_at_the_end() {
    let (mut codec, asked) = read_of(ReplyForm::Structured, 1024);
    for (last, flags) in [(false, 0), (true, 1)] {
        let data = Body::Data { offset_bytes: 0x1200, length_bytes: 512, last };
        let head = [0x66, 0x8e, 0x33, 0xef, 0, flags, 0, 1];
        let tail = [0, 0, 2, 8, 0, 0, 0, 0, 0, 0, 0x12, 0];
        assert_eq!(encoded(&mut codec, &asked, data), [&head[..], &COOKIE, &tail].concat());
    }
}

#[test]
fn extended_chunks_echo_the_requests_offset() {
    let (mut codec, asked) = read_of(ReplyForm::Extended, 1024);
    let data = Body::Data { offset_bytes: 0x1200, length_bytes: 512, last: true };
    let head = [0x6e, 0x8a, 0x27, 0x8c, 0, 1, 0, 1];
    let tail = [0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0, 0, 2, 8, 0, 0, 0, 0, 0, 0, 0x12, 0];
    assert_eq!(encoded(&mut codec, &asked, data), [&head[..], &COOKIE, &tail].concat());
}

#[test]
fn a_structured_error_names_offset_and_reason() {
    let (mut codec, asked) = read_of(ReplyForm::Structured, 1024);
    let failed = Body::Failed { failure: Failure::Io, offset_bytes: Some(0x1200), message: "bad", last: true };
    let head = [0x66, 0x8e, 0x33, 0xef, 0, 1, 0x80, 2];
    let tail = [0, 0, 0, 17, 0, 0, 0, 5, 0, 3, b'b', b'a', b'd', 0, 0, 0, 0, 0, 0, 0x12, 0];
    assert_eq!(encoded(&mut codec, &asked, failed), [&head[..], &COOKIE, &tail].concat());
    let outside = Body::Failed { failure: Failure::Io, offset_bytes: Some(0x1400), message: "bad", last: true };
    let bytes = encoded(&mut codec, &asked, outside);
    assert_eq!(bytes[6..8], [0x80, 1], "an offset outside the request is left out");
    assert_eq!(bytes.len(), 20 + 6 + 3);
}

#[test]
fn success_without_data_is_simple_except_for_structured_reads() {
    let (mut codec, asked) = read_of(ReplyForm::Structured, 0);
    assert_eq!(encoded(&mut codec, &asked, Body::Done)[..8], [0x66, 0x8e, 0x33, 0xef, 0, 1, 0, 0]);
    let flush = request(codec.parse(&compact(0, command::FLUSH, 0, 0)));
    assert_eq!(encoded(&mut codec, &flush, Body::Done)[..4], wire::SIMPLE_REPLY_MAGIC.to_be_bytes());
    let mut codec = transmission(ReplyForm::Extended);
    let flush = request(codec.parse(&extended(0, command::FLUSH, 0, 0)));
    let none = encoded(&mut codec, &flush, Body::Done);
    assert_eq!(none[..8], [0x6e, 0x8a, 0x27, 0x8c, 0, 1, 0, 0]);
    assert_eq!(none.len(), 32);
}

#[test]
fn extents_are_32_bit_pairs_or_64_bit_pairs() {
    let extents = [
        StatusExtent { length_bytes: 4096, hole: false, zero: false },
        StatusExtent { length_bytes: 512, hole: true, zero: true },
    ];
    let mut codec = transmission(ReplyForm::Structured);
    let asked = request(codec.parse(&compact(0, command::BLOCK_STATUS, 0, 4608)));
    let bytes = encoded(&mut codec, &asked, Body::Extents(&extents));
    assert_eq!(bytes[4..8], [0, 1, 0, 5]);
    assert_eq!(bytes[16..], [0, 0, 0, 20, 0, 0, 0, 1, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 3]);
    let mut codec = transmission(ReplyForm::Extended);
    let asked = request(codec.parse(&extended(0, command::BLOCK_STATUS, 0, 4608)));
    let bytes = encoded(&mut codec, &asked, Body::Extents(&extents));
    assert_eq!(bytes[4..8], [0, 1, 0, 6]);
    assert_eq!(bytes[24..40], [0, 0, 0, 0, 0, 0, 0, 40, 0, 0, 0, 1, 0, 0, 0, 2]);
    assert_eq!(bytes.len(), 32 + 8 + 2 * 16);
}

#[test]
fn errors_have_the_numbers_of_the_protocol_and_no_other() {
    let (mut codec, asked) = read_of(ReplyForm::Simple, 512);
    let mut number = |asked: &ClientRequest, failure| {
        let failed = Body::Failed { failure, offset_bytes: None, message: "", last: true };
        u32::from_be_bytes(encoded(&mut codec, asked, failed)[4..8].try_into().unwrap())
    };
    assert_eq!(number(&asked, Failure::NotPermitted), error::EPERM);
    assert_eq!(number(&asked, Failure::Io), error::EIO);
    assert_eq!(number(&asked, Failure::Invalid), error::EINVAL);
    assert_eq!(number(&asked, Failure::NoSpace), error::ENOSPC);
    assert_eq!(number(&asked, Failure::Overflow), error::EOVERFLOW);
    assert_eq!(number(&asked, Failure::Shutdown), error::ESHUTDOWN);
    assert_eq!(number(&asked, Failure::NotSupported), error::EIO, "ENOTSUP belongs to FAST_ZERO");
    assert_eq!(number(&ClientRequest { fast_zero: true, ..asked }, Failure::NotSupported), error::ENOTSUP);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// For any bytes: no panic, at most the given bytes are consumed, `Incomplete` asks for more
    /// than there is.
    #[test]
    fn any_bytes_parse_to_something_sound(
        mut bytes in proptest::collection::vec(any::<u8>(), 0..64),
        form in 0..3,
        right_magic in any::<bool>(),
        flags in any::<u16>(),
    ) {
        let (form, magic) = [
            (ReplyForm::Simple, wire::REQUEST_MAGIC),
            (ReplyForm::Structured, wire::REQUEST_MAGIC),
            (ReplyForm::Extended, wire::EXTENDED_REQUEST_MAGIC),
        ][form as usize];
        if right_magic && bytes.len() >= 8 {
            bytes[..4].copy_from_slice(&magic.to_be_bytes());
            bytes[4] = 0;
            bytes[6] = 0;
            bytes[7] %= 10;
        }
        let mut codec = transmission_with(form, flags, flags & 1 != 0);
        match codec.parse(&bytes) {
            Parsed::Incomplete { needed_bytes } => prop_assert!(needed_bytes > bytes.len() && needed_bytes <= 4096),
            Parsed::Request { consumed_bytes, asked } => {
                prop_assert!(consumed_bytes <= bytes.len() && consumed_bytes > 0);
                prop_assert!(asked.payload_bytes <= 32 << 20);
                prop_assert_eq!(asked.payload_bytes != 0, asked.command == Command::Write && asked.length_bytes != 0);
            }
            Parsed::Answered { consumed_bytes, skip_bytes, .. } => {
                prop_assert!(consumed_bytes <= bytes.len() && consumed_bytes > 0);
                prop_assert!(skip_bytes <= 64 << 20);
            }
            Parsed::Disconnect { consumed_bytes } => prop_assert!(consumed_bytes <= bytes.len()),
            Parsed::Close => prop_assert!(bytes.len() >= 28),
        }
    }
}
