//! The handshake as a state machine over bytes: options, their answers, and the treatment of
//! malformed input, without a socket; `live.rs` tests the same on a running server. Sources:
//! docs/specifications/engine.md, section 4.2; docs/specifications/engine.md, section 4.4;
//! docs/specifications/engine.md, section 10 (cases 1, 2, 5, 6 and 8).

use hoistway_export::nbd::handshake::{Closed, ExportFacts, Handshake, Negotiated, ReplyForm, Step, View};
use hoistway_export::nbd::wire::{self, option, reply, transmission_flag};
use proptest::prelude::*;

fn export(name: &str, size_bytes: u64) -> ExportFacts {
    ExportFacts {
        name: name.into(),
        description: format!("the disk {name}"),
        size_bytes,
        flags: transmission_flag::HAS_FLAGS | transmission_flag::CAN_MULTI_CONN,
        minimum_block_bytes: 1,
        preferred_block_bytes: 4096,
        maximum_payload_bytes: 32 << 20,
    }
}

/// A reply as the client reads it.
#[derive(PartialEq, Eq, Debug)]
struct Reply {
    option: u32,
    kind: u32,
    data: Vec<u8>,
}

/// A client whose bytes go straight into the state machine.
struct Client {
    handshake: Handshake,
    exports: Vec<ExportFacts>,
    draining: bool,
    output: Vec<u8>,
}

impl Client {
    fn new(client_flags: u32) -> Self {
        let mut client = Self {
            handshake: Handshake::new(),
            exports: vec![export("a", 64 << 20), export("b", 1 << 20)],
            draining: false,
            output: Vec::new(),
        };
        assert_eq!(client.send(&client_flags.to_be_bytes()), Step::NeedInput);
        client
    }

    fn send(&mut self, mut bytes: &[u8]) -> Step {
        let view = View { exports: &self.exports, listing: true, draining: self.draining };
        loop {
            let step = self.handshake.advance(&mut bytes, view, &mut self.output);
            if step != Step::Answered || bytes.is_empty() {
                return step;
            }
        }
    }

    fn option(&mut self, option: u32, data: &[u8]) -> Step {
        self.send(&option_bytes(option, data))
    }

    /// The replies received since the last call.
    fn replies(&mut self) -> Vec<Reply> {
        let output = std::mem::take(&mut self.output);
        let mut rest = output.as_slice();
        let mut replies = Vec::new();
        while !rest.is_empty() {
            assert_eq!(rest[..8], wire::OPTION_REPLY_MAGIC.to_be_bytes());
            let word = |at: usize| u32::from_be_bytes(rest[at..at + 4].try_into().unwrap());
            let end = 20 + word(16) as usize;
            replies.push(Reply { option: word(8), kind: word(12), data: rest[20..end].to_vec() });
            rest = &rest[end..];
        }
        replies
    }

    /// The types of the replies to one option.
    fn kinds(&mut self, option: u32, data: &[u8]) -> Vec<u32> {
        self.option(option, data);
        self.replies().into_iter().map(|reply| reply.kind).collect()
    }
}

fn option_bytes(option: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = wire::OPTION_MAGIC.to_be_bytes().to_vec();
    bytes.extend(option.to_be_bytes());
    bytes.extend(u32::try_from(data.len()).unwrap().to_be_bytes());
    bytes.extend(data);
    bytes
}

fn string(text: &str) -> Vec<u8> {
    let mut bytes = u32::try_from(text.len()).unwrap().to_be_bytes().to_vec();
    bytes.extend(text.as_bytes());
    bytes
}

fn go(name: &str, wanted: &[u16]) -> Vec<u8> {
    let mut bytes = string(name);
    bytes.extend(u16::try_from(wanted.len()).unwrap().to_be_bytes());
    wanted.iter().for_each(|kind| bytes.extend(kind.to_be_bytes()));
    bytes
}

fn queries(name: &str, queries: &[&str]) -> Vec<u8> {
    let mut bytes = string(name);
    bytes.extend(u32::try_from(queries.len()).unwrap().to_be_bytes());
    queries.iter().for_each(|query| bytes.extend(string(query)));
    bytes
}

fn negotiated(step: Step) -> Negotiated {
    match step {
        Step::Negotiated(negotiated) => negotiated,
        other => panic!("not negotiated: {other:?}"),
    }
}

#[test]
fn greeting_is_fixed_newstyle_with_no_zeroes() {
    let greeting = Handshake::greeting();
    assert_eq!(&greeting[..16], b"NBDMAGICIHAVEOPT");
    assert_eq!(greeting[16..], [0, 3]);
}

#[test]
fn unknown_client_flag_closes() {
    let mut handshake = Handshake::new();
    let exports = [];
    let view = View { exports: &exports, listing: true, draining: false };
    let step = handshake.advance(&mut &4_u32.to_be_bytes()[..], view, &mut Vec::new());
    assert_eq!(step, Step::Close(Closed::UnknownClientFlags));
}

#[test]
fn wrong_option_magic_closes() {
    let mut client = Client::new(3);
    assert_eq!(client.send(&[0x55; 16]), Step::Close(Closed::WrongMagic));
    assert!(client.output.is_empty());
}

#[test]
fn n1_list_names_every_export_given_and_no_other() {
    let mut client = Client::new(3);
    client.option(option::LIST, &[]);
    let replies = client.replies();
    assert_eq!(replies.len(), 3);
    assert_eq!(replies[0].data, [&string("a")[..], b"the disk a"].concat());
    assert_eq!(replies[1].data, [&string("b")[..], b"the disk b"].concat());
    assert_eq!(replies[2], Reply { option: option::LIST, kind: reply::ACK, data: Vec::new() });
}

#[test]
fn list_with_data_is_invalid_and_switched_off_is_policy() {
    let mut client = Client::new(3);
    assert_eq!(client.kinds(option::LIST, &[0]), [reply::INVALID]);
    let mut output = Vec::new();
    let view = View { exports: &client.exports, listing: false, draining: false };
    client.handshake.advance(&mut &option_bytes(option::LIST, &[])[..], view, &mut output);
    assert_eq!(output[12..16], reply::POLICY.to_be_bytes());
}

#[test]
fn n2_info_and_go_of_one_export_give_the_same_facts() {
    let mut client = Client::new(3);
    client.option(option::INFO, &go("a", &[]));
    let info = client.replies();
    let step = client.option(option::GO, &go("a", &[]));
    let gone = client.replies();
    assert_eq!(info.iter().map(|r| &r.data).collect::<Vec<_>>(), gone.iter().map(|r| &r.data).collect::<Vec<_>>());
    assert_eq!(info[0].data[2..10], (64_u64 << 20).to_be_bytes());
    // Information type 3 (block sizes), then the minimum 1, the preferred 4096 and the largest
    // payload 33554432.
    assert_eq!(info[1].data, [0, 3, 0, 0, 0, 1, 0, 0, 0x10, 0, 2, 0, 0, 0]);
    assert_eq!(info[2].kind, reply::ACK);
    assert_eq!(negotiated(step).export, "a");
}

#[test]
fn name_and_description_come_when_asked_for() {
    let mut client = Client::new(3);
    client.option(option::INFO, &go("b", &[2, 1, 3]));
    let data: Vec<_> = client.replies().into_iter().map(|reply| reply.data).collect();
    assert_eq!(data[2], b"\0\x01b");
    assert_eq!(data[3], b"\0\x02the disk b");
    assert_eq!(data.len(), 5);
}

#[test]
fn an_inconsistent_go_is_invalid_and_the_next_option_works() {
    let mut client = Client::new(3);
    let whole = go("a", &[3]);
    let name_beyond_the_data = [&0xffff_u32.to_be_bytes()[..], b"a\0\0"].concat();
    let too_many_announced = [&string("a")[..], &[0, 9, 0, 3]].concat();
    let surplus = [&whole[..], &[0]].concat();
    for data in [&[][..], &whole[..3], &whole[..6], &whole[..8], &name_beyond_the_data, &too_many_announced, &surplus] {
        assert_eq!(client.kinds(option::GO, data), [reply::INVALID], "{data:?}");
    }
    assert_eq!(negotiated(client.option(option::GO, &whole)).export, "a");
}

#[test]
fn names_too_long_with_nul_or_not_utf8_are_invalid() {
    let mut client = Client::new(3);
    assert_eq!(client.kinds(option::GO, &go(&"x".repeat(4097), &[])), [reply::INVALID]);
    assert_eq!(client.kinds(option::GO, &go("a\0", &[])), [reply::INVALID]);
    assert_eq!(client.kinds(option::GO, b"\0\0\0\x01\xff\0\0"), [reply::INVALID]);
    assert_eq!(client.kinds(option::GO, &go(&"x".repeat(4096), &[])), [reply::UNKNOWN]);
}

#[test]
fn unknown_export_is_unknown_to_go_and_closes_export_name() {
    let mut client = Client::new(3);
    assert_eq!(client.kinds(option::GO, &go("hidden", &[])), [reply::UNKNOWN]);
    assert_eq!(client.option(option::EXPORT_NAME, b"hidden"), Step::Close(Closed::NoSuchExport));
}

#[test]
fn unknown_options_are_skipped_by_length() {
    let mut client = Client::new(3);
    assert_eq!(client.kinds(77, &[1; 65_536]), [reply::UNSUPPORTED]);
    assert_eq!(client.kinds(4, &[]), [reply::UNSUPPORTED]);
    assert_eq!(client.kinds(77, &vec![1; 65_537]), [reply::TOO_BIG]);
    assert_eq!(client.kinds(77, &vec![1; 32 << 20]), [reply::TOO_BIG]);
    assert_eq!(client.kinds(option::LIST, &[]).last(), Some(&reply::ACK));
    let mut beyond = option_bytes(77, &[]);
    beyond[12..].copy_from_slice(&((32_u32 << 20) + 1).to_be_bytes());
    assert_eq!(client.send(&beyond), Step::Close(Closed::TooLong));
}

#[test]
fn option_length_of_all_ones_closes() {
    let mut client = Client::new(3);
    let mut bytes = option_bytes(option::GO, &[]);
    bytes[12..].copy_from_slice(&[0xff; 4]);
    assert_eq!(client.send(&bytes), Step::Close(Closed::TooLong));
}

#[test]
fn structured_reply_twice_is_ack_then_invalid() {
    let mut client = Client::new(3);
    assert_eq!(client.kinds(option::STRUCTURED_REPLY, &[0]), [reply::INVALID]);
    assert_eq!(client.kinds(option::STRUCTURED_REPLY, &[]), [reply::ACK]);
    assert_eq!(client.kinds(option::STRUCTURED_REPLY, &[]), [reply::INVALID]);
}

#[test]
fn structured_after_extended_is_ext_header_reqd() {
    let mut client = Client::new(3);
    assert_eq!(client.kinds(option::EXTENDED_HEADERS, &[7]), [reply::INVALID]);
    assert_eq!(client.kinds(option::EXTENDED_HEADERS, &[]), [reply::ACK]);
    assert_eq!(client.kinds(option::STRUCTURED_REPLY, &[]), [reply::EXTENDED_HEADER_REQUIRED]);
    assert_eq!(client.kinds(option::EXTENDED_HEADERS, &[]), [reply::INVALID]);
    assert_eq!(client.option(option::EXPORT_NAME, b"a"), Step::Close(Closed::NoSuchExport));
}

#[test]
fn n5_replies_have_the_negotiated_form() {
    for (options, form) in [
        (&[][..], ReplyForm::Simple),
        (&[option::STRUCTURED_REPLY], ReplyForm::Structured),
        (&[option::EXTENDED_HEADERS], ReplyForm::Extended),
        (&[option::STRUCTURED_REPLY, option::EXTENDED_HEADERS], ReplyForm::Extended),
    ] {
        let mut client = Client::new(3);
        options.iter().for_each(|&option| assert_eq!(client.kinds(option, &[]), [reply::ACK]));
        let result = negotiated(client.option(option::GO, &go("a", &[])));
        assert_eq!(result.form, form);
        assert_eq!(result.flags & transmission_flag::SEND_DF != 0, form != ReplyForm::Simple);
    }
}

#[test]
fn n6_a_context_selected_for_one_export_does_not_count_for_another() {
    let mut client = Client::new(3);
    client.option(option::STRUCTURED_REPLY, &[]);
    client.option(option::SET_META_CONTEXT, &queries("a", &["base:allocation"]));
    assert!(!negotiated(client.option(option::GO, &go("b", &[]))).allocation_context);
}

#[test]
fn metadata_needs_structured_replies_and_a_colon() {
    let mut client = Client::new(3);
    let data = queries("a", &["base:allocation"]);
    assert_eq!(client.kinds(option::LIST_META_CONTEXT, &data), [reply::INVALID]);
    assert_eq!(client.kinds(option::SET_META_CONTEXT, &data), [reply::INVALID]);
    client.kinds(option::STRUCTURED_REPLY, &[]);
    assert_eq!(client.kinds(option::SET_META_CONTEXT, &queries("a", &["base"])), [reply::INVALID]);
    assert_eq!(client.kinds(option::SET_META_CONTEXT, &queries("c", &["base:allocation"])), [reply::UNKNOWN]);
    assert_eq!(client.kinds(option::SET_META_CONTEXT, &queries("a", &["qemu:dirty-bitmap:x"])), [reply::ACK]);
    assert_eq!(client.kinds(option::SET_META_CONTEXT, &queries("a", &["base:"])), [reply::ACK]);
    assert_eq!(client.kinds(option::SET_META_CONTEXT, &queries("a", &[])), [reply::ACK]);
    assert_eq!(client.kinds(option::SET_META_CONTEXT, &queries("a", &["x:y"; 65])), [reply::TOO_BIG]);
    let surplus = [&data[..], &[0]].concat();
    assert_eq!(client.kinds(option::SET_META_CONTEXT, &surplus), [reply::INVALID]);
}

#[test]
fn metadata_ids_are_zero_when_listed_and_one_when_set() {
    let mut client = Client::new(3);
    client.kinds(option::STRUCTURED_REPLY, &[]);
    for listed in [&["base:"][..], &["base:allocation", "base:"], &[]] {
        client.option(option::LIST_META_CONTEXT, &queries("a", listed));
        let replies = client.replies();
        assert_eq!(replies[0].data, b"\0\0\0\0base:allocation");
        assert_eq!(replies[1].kind, reply::ACK);
    }
    client.option(option::SET_META_CONTEXT, &queries("a", &["base:allocation", "base:allocation"]));
    let replies = client.replies();
    assert_eq!(replies[0].data, b"\0\0\0\x01base:allocation");
    assert_eq!(replies.len(), 2);
    assert!(negotiated(client.option(option::GO, &go("a", &[]))).allocation_context);
}

#[test]
fn a_failed_set_cancels_the_previous_selection() {
    let mut client = Client::new(3);
    client.kinds(option::STRUCTURED_REPLY, &[]);
    client.kinds(option::SET_META_CONTEXT, &queries("a", &["base:allocation"]));
    assert_eq!(client.kinds(option::SET_META_CONTEXT, &queries("a", &["base"])), [reply::INVALID]);
    assert!(!negotiated(client.option(option::GO, &go("a", &[]))).allocation_context);
}

#[test]
fn n8_export_name_answers_10_bytes_and_124_zeroes_unless_disabled() {
    for (client_flags, length) in [(1, 134), (3, 10)] {
        let mut client = Client::new(client_flags);
        let result = negotiated(client.option(option::EXPORT_NAME, b"b"));
        assert_eq!(client.output.len(), length);
        assert_eq!(client.output[..8], (1_u64 << 20).to_be_bytes());
        assert_eq!(client.output[8..10], result.flags.to_be_bytes());
        assert!(client.output[10..].iter().all(|&byte| byte == 0));
    }
}

#[test]
fn starttls_without_tls_is_policy_and_abort_is_acknowledged() {
    let mut client = Client::new(3);
    assert_eq!(client.kinds(option::STARTTLS, &[1]), [reply::INVALID]);
    assert_eq!(client.kinds(option::STARTTLS, &[]), [reply::POLICY]);
    assert_eq!(client.option(option::ABORT, b"tired"), Step::Close(Closed::Aborted));
    assert_eq!(client.replies()[0].kind, reply::ACK);
}

#[test]
fn while_draining_options_are_answered_shutdown() {
    let mut client = Client::new(3);
    client.draining = true;
    assert_eq!(client.kinds(option::GO, &go("a", &[])), [reply::SHUTDOWN]);
    assert_eq!(client.kinds(option::LIST, &[]), [reply::SHUTDOWN]);
    assert_eq!(client.option(option::ABORT, &[]), Step::Close(Closed::Aborted));
}

#[test]
fn bytes_after_go_are_left_for_the_transmission() {
    let mut client = Client::new(3);
    let bytes = [option_bytes(option::GO, &go("a", &[])), b"next".to_vec()].concat();
    let mut input = bytes.as_slice();
    let view = View { exports: &client.exports, listing: true, draining: false };
    negotiated(client.handshake.advance(&mut input, view, &mut client.output));
    assert_eq!(input, b"next");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// However the bytes are divided, and whatever they are, answers and end are the same and
    /// nothing panics.
    #[test]
    fn cutting_the_input_changes_nothing(
        noise in proptest::collection::vec(any::<u8>(), 0..64),
        options in proptest::collection::vec((0_u32..13, proptest::collection::vec(any::<u8>(), 0..40), any::<bool>()), 0..6),
        piece in 1_usize..40,
    ) {
        let mut bytes = 3_u32.to_be_bytes().to_vec();
        for (option, data, well_formed) in options {
            bytes.extend(option_bytes(option, &if well_formed { go("a", &[3]) } else { data }));
        }
        bytes.extend(noise);
        let exports = [export("a", 1 << 20)];
        let view = View { exports: &exports, listing: true, draining: false };
        let run = |piece: usize| {
            let mut handshake = Handshake::new();
            let mut output = Vec::new();
            let mut last = Step::NeedInput;
            'pieces: for mut part in bytes.chunks(piece) {
                while !part.is_empty() {
                    last = handshake.advance(&mut part, view, &mut output);
                    if matches!(last, Step::Negotiated(_) | Step::Close(_)) {
                        break 'pieces;
                    }
                }
            }
            let ended = matches!(last, Step::Negotiated(_) | Step::Close(_)).then_some(last);
            (output, ended)
        };
        prop_assert_eq!(run(piece), run(bytes.len()));
    }
}
