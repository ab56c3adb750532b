//! A recorded session, modified at random a thousand times, beside a client that verifies its data.
//! Source: docs/specifications/engine.md, section 10 (case 4).

mod client;
mod server;

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use client::{Client, go_data, option_bytes, query_data};
use hoistway_block::random::Stream;
use hoistway_export::nbd::handshake::ReplyForm;
use hoistway_export::nbd::wire::{command, command_flag, option};
use server::Running;

const ROUNDS: u64 = 1_000;

/// The bytes that a copying client sends, from its flags to its disconnect.
fn session(form: ReplyForm) -> Vec<u8> {
    let mut bytes = 3_u32.to_be_bytes().to_vec();
    match form {
        ReplyForm::Simple => {}
        ReplyForm::Structured => bytes.extend(option_bytes(option::STRUCTURED_REPLY, &[])),
        ReplyForm::Extended => bytes.extend(option_bytes(option::EXTENDED_HEADERS, &[])),
    }
    bytes.extend(option_bytes(option::LIST, &[]));
    bytes.extend(option_bytes(option::SET_META_CONTEXT, &query_data("a", &["base:allocation"])));
    bytes.extend(option_bytes(option::INFO, &go_data("a")));
    bytes.extend(option_bytes(option::GO, &go_data("a")));
    for step in 0..16_u64 {
        let at = step * 65_536;
        let request = |flags, number, length| client::request(form, flags, number, step, at, length);
        bytes.extend(request(command_flag::FUA, command::WRITE, 8_192));
        bytes.extend((0..8_192_u64).map(|byte| u8::try_from((byte ^ step) & 0xff).unwrap()));
        bytes.extend(request(0, command::READ, 65_536));
        bytes.extend(request(0, command::WRITE_ZEROES, 4_096));
        bytes.extend(request(0, command::BLOCK_STATUS, 65_536));
        bytes.extend(request(0, command::TRIM, 65_536));
    }
    bytes.extend(client::request(form, 0, command::FLUSH, 99, 0, 0));
    bytes.extend(client::request(form, 0, command::DISCONNECT, 99, 0, 0));
    bytes
}

/// Makes one to four random changes to the bytes.
fn bend(bytes: &mut Vec<u8>, random: &mut Stream) {
    for _ in 0..=random.below(3) {
        let at = usize::try_from(random.below(bytes.len() as u64)).unwrap();
        match random.below(5) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = u8::try_from(random.below(256)).unwrap(),
            2 => bytes.truncate(at.max(1)),
            3 => {
                // Sets a word at a place where a length is likely to an extreme value.
                let word = [0, 1, 0xffff, 0x7fff_ffff, 0xffff_ffff_u32][usize::try_from(random.below(5)).unwrap()];
                let end = (at + 4).min(bytes.len());
                bytes[at..end].copy_from_slice(&word.to_be_bytes()[..end - at]);
            }
            _ => {
                let gone = usize::try_from(random.below(64)).unwrap();
                bytes.drain(at..(at + gone).min(bytes.len() - 1).max(at));
            }
        }
    }
}

#[test]
fn n4_a_thousand_malformed_sessions_end_and_disturb_no_other_client() {
    let server = Running::listening(
        "handshake_timeout_s = 5\nstall_timeout_s = 5\n",
        "[[device]]\nname = \"m\"\nmemory = \"64MiB\"\n[[device.export]]\nname = \"a\"\nbacking = \"memory:8MiB\"\n\
         [[device.export]]\nname = \"verified\"\nbacking = \"memory:8MiB\"\n",
    );
    let memory_before = server.memory_in_use();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let verifier = scope.spawn(|| {
            let mut client = Client::open(server.socket(), "verified", ReplyForm::Structured);
            let mut round = 0_u64;
            while !done.load(Ordering::Relaxed) {
                let data = vec![u8::try_from(round % 251).unwrap(); 4_096];
                assert_eq!(client.write(0, (round % 1_024) * 4_096, &data).error, 0);
                assert_eq!(client.read((round % 1_024) * 4_096, 4_096).data(), data);
                round += 1;
            }
            round
        });
        for seed in 0..ROUNDS {
            let mut random = Stream::new(seed);
            let form =
                [ReplyForm::Simple, ReplyForm::Structured, ReplyForm::Extended][usize::try_from(seed % 3).unwrap()];
            let mut bytes = session(form);
            bend(&mut bytes, &mut random);
            let stream = UnixStream::connect(server.socket()).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            stream.set_write_timeout(Some(Duration::from_secs(60))).unwrap();
            let mut writing = stream.try_clone().unwrap();
            let mut reading = stream;
            let writer = std::thread::spawn(move || {
                // The server may close the connection in the middle.
                let _ = writing.write_all(&bytes);
                let _ = writing.shutdown(Shutdown::Write);
            });
            let mut answers = Vec::new();
            let ended = reading.read_to_end(&mut answers);
            let hung = ended.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock);
            assert!(!hung, "seed {seed}: the server keeps the connection of a client that has gone");
            writer.join().unwrap();
        }
        done.store(true, Ordering::Relaxed);
        assert!(verifier.join().unwrap() > 0, "the verifier never came to its turn");
    });
    Client::open(server.socket(), "a", ReplyForm::Extended).assert_alive();
    server.await_that("the memory of all clients is back", |status| {
        status["connections"].as_array().unwrap().is_empty()
            && status["devices"][0]["memory_used_bytes"].as_u64() == Some(memory_before)
    });
    assert_eq!(server.status()["devices"][0]["violations"], 0);
}
