//! Fuzzes the NBD handshake with arbitrary bytes, split in any way, with a server that lists its
//! exports or not, that may be draining before its end, and that may require TLS.

use crate::target::{Seen, Target};
use hoistway_export::nbd::handshake::{ExportFacts, Handshake, Step, View};
use hoistway_export::nbd::wire::{self, option};

pub const TARGET: Target = Target {
    name: "nbd-handshake",
    promise: "no panic, bounded answers, the same answers for any division of the bytes",
    run,
    corpus,
    tokens: &[
        b"IHAVEOPT",
        b"base:allocation",
        b"base:",
        b"db",
        b"backup",
        &[0, 0, 0, 1],
        &[0, 0, 0, 3],
        &[0, 0, 0, 7],
        &[0, 1, 0, 0],
        &[0, 1, 0, 1],
        &[2, 0, 0, 0],
    ],
    longest_bytes: 160 * 1_024,
};

/// Upper bound of the answer to one option. A client may ask for the same name many times in its 64
/// KiB of data, but the whole answer stays below this.
const LONGEST_ANSWER_BYTES: usize = 1 << 20;

/// The result of a whole input.
#[derive(PartialEq, Eq, Debug)]
struct Talk {
    output: Vec<u8>,
    steps: Vec<Step>,
    left_bytes: usize,
}

fn run(bytes: &[u8]) -> Seen {
    let Some((shape, stream)) = bytes.split_first() else { return Seen::NOTHING };
    let whole = talk(*shape, stream, stream.len().max(1));
    // A slow or malicious client sends byte by byte, or splits a header.
    for piece in [1, 15, 1 + usize::from(*shape)] {
        if stream.len() / piece < 4_096 {
            assert_eq!(talk(*shape, stream, piece), whole, "in pieces of {piece} bytes (left) and at once (right)");
        }
    }
    let seen = Seen::NOTHING.and_count(whole.output.len());
    whole.steps.iter().fold(seen, |seen, step| match step {
        Step::NeedInput => seen.and(b"more"),
        Step::Answered => seen.and(b"answered"),
        Step::StartTls => seen.and(b"tls"),
        Step::Negotiated(with) => seen.and(format!("{:?}{}", with.form, with.allocation_context).as_bytes()),
        Step::Close(reason) => seen.and(format!("{reason:?}").as_bytes()),
    })
}

/// Runs one client whose bytes arrive `piece` at a time.
fn talk(shape: u8, stream: &[u8], piece: usize) -> Talk {
    let exports = [facts("db", "the database"), facts("backup", "")];
    let view = View { exports: &exports, listing: shape & 1 == 0, draining: shape & 2 != 0 };
    let requires_tls = shape & 4 != 0;
    let mut handshake = if requires_tls { Handshake::requiring_tls() } else { Handshake::new() };
    let mut talk = Talk { output: Vec::new(), steps: Vec::new(), left_bytes: 0 };
    let mut consumed_bytes = 0;
    for mut input in stream.chunks(piece) {
        loop {
            let before = (input.len(), talk.output.len());
            let step = handshake.advance(&mut input, view, &mut talk.output);
            consumed_bytes += before.0 - input.len();
            assert!(talk.output.len() - before.1 <= LONGEST_ANSWER_BYTES, "an answer of unbounded length");
            match step {
                Step::NeedInput => {
                    assert!(input.is_empty(), "asks for input and leaves {} bytes", input.len());
                    break;
                }
                Step::Answered => talk.steps.push(step),
                // What follows stands for what the session decrypts.
                Step::StartTls => {
                    assert!(
                        requires_tls && !talk.steps.contains(&Step::StartTls),
                        "TLS begins once, where it is required"
                    );
                    talk.steps.push(step);
                }
                Step::Negotiated(_) | Step::Close(_) => {
                    let is_open = matches!(step, Step::Negotiated(_)) && requires_tls;
                    assert!(!is_open || talk.steps.contains(&Step::StartTls), "an export was opened without TLS");
                    talk.steps.push(step);
                    talk.left_bytes = stream.len() - consumed_bytes;
                    return talk;
                }
            }
        }
    }
    talk.steps.push(Step::NeedInput);
    talk
}

fn facts(name: &str, description: &str) -> ExportFacts {
    ExportFacts {
        name: name.into(),
        description: description.into(),
        size_bytes: 1 << 30,
        flags: wire::transmission_flag::HAS_FLAGS,
        minimum_block_bytes: 1,
        preferred_block_bytes: 4_096,
        maximum_payload_bytes: 32 << 20,
    }
}

fn length(length: usize) -> [u8; 4] {
    u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes()
}

fn string(text: &str) -> Vec<u8> {
    [&length(text.len())[..], text.as_bytes()].concat()
}

/// An input: the byte that selects the server's settings, then the client's flags and options.
fn client(shape: u8, options: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = vec![shape, 0, 0, 0, 3];
    for (option, data) in options {
        bytes.extend(wire::OPTION_MAGIC.to_be_bytes());
        bytes.extend(option.to_be_bytes());
        bytes.extend(length(data.len()));
        bytes.extend(data);
    }
    bytes
}

fn corpus() -> Vec<Vec<u8>> {
    let nothing = Vec::new;
    let go = |name: &str, asked: &[u8]| [string(name), length(asked.len() / 2)[2..].to_vec(), asked.to_vec()].concat();
    let contexts = |name: &str, queries: &[&str]| {
        let mut bytes = [string(name), length(queries.len()).to_vec()].concat();
        queries.iter().for_each(|query| bytes.extend(string(query)));
        bytes
    };
    vec![
        client(0, &[(option::EXPORT_NAME, b"db".to_vec())]),
        client(0, &[(option::LIST, nothing()), (option::ABORT, nothing())]),
        client(1, &[(option::LIST, nothing()), (option::STARTTLS, nothing()), (99, b"?".to_vec())]),
        client(2, &[(option::GO, go("db", &[])), (option::ABORT, nothing())]),
        client(0, &[(option::INFO, go("backup", &[0, 1, 0, 2, 0, 3])), (option::GO, go("backup", &[0, 3]))]),
        client(
            0,
            &[
                (option::STRUCTURED_REPLY, nothing()),
                (option::LIST_META_CONTEXT, contexts("db", &[])),
                (option::SET_META_CONTEXT, contexts("db", &["base:allocation", "x:y"])),
                (option::GO, go("db", &[])),
            ],
        ),
        client(
            8,
            &[
                (option::EXTENDED_HEADERS, nothing()),
                (option::SET_META_CONTEXT, contexts("backup", &["base:"])),
                (option::STRUCTURED_REPLY, nothing()),
                (option::EXPORT_NAME, b"db".to_vec()),
            ],
        ),
        client(
            4,
            &[
                (option::LIST, nothing()),
                (option::STARTTLS, nothing()),
                (option::STRUCTURED_REPLY, nothing()),
                (option::STARTTLS, nothing()),
                (option::GO, go("db", &[])),
            ],
        ),
        client(0, &[(option::INFO, vec![0; 70_000]), (option::GO, go("db", &[0, 0]))]),
    ]
}
