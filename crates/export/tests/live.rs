//! A running server and raw bytes: every row of the table for malformed input (column "ours"),
//! negotiation cases 1, 2, 5, 6, 8, 9 and transmission cases 12 to 19, 21, 23 and 24, each in every
//! relevant reply form. Sources: docs/specifications/engine.md, section 4.4;
//! docs/specifications/engine.md, section 10.

mod client;
mod server;

use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use client::{Client, go_data, option_bytes, query_data, string};
use hoistway_export::nbd::handshake::ReplyForm;
use hoistway_export::nbd::wire::{
    CLIENT_NO_ZEROES, OPTION_MAGIC, chunk, command, command_flag, error, option, reply, transmission_flag,
};
use server::Running;

const FORMS: [ReplyForm; 3] = [ReplyForm::Simple, ReplyForm::Structured, ReplyForm::Extended];
const MIB: u64 = 1 << 20;

/// Two exports of 64 MiB in memory, one of them read-only, and one in a sparse file.
fn running() -> Running {
    Running::with(
        r#"
[[device]]
name = "memory"
[[device.export]]
name = "a"
backing = "memory:64MiB"
[[device.export]]
name = "fixed"
backing = "memory:64MiB"
read_only = true
"#,
    )
}

/// One export of 64 MiB in a sparse file on tmpfs (or wherever temporary files are).
fn running_on_a_file() -> Running {
    Running::with_file(64 * MIB)
}

// ---- malformed input, handshake ----

#[test]
fn unknown_client_flag_closes() {
    let server = running();
    Client::connect(server.socket(), 1 << 7).assert_closed();
    Client::open(server.socket(), "a", ReplyForm::Simple).assert_alive();
}

#[test]
fn wrong_option_magic_closes() {
    let server = running();
    let mut client = Client::connect(server.socket(), 3);
    client.send(&[&0x1234_5678_u64.to_be_bytes()[..], &[0; 8]].concat());
    client.assert_closed();
}

#[test]
fn unknown_options_are_skipped_up_to_32_mib() {
    let server = running();
    let mut client = Client::connect(server.socket(), 3);
    assert_eq!(client.last(99, &[7; 65_536]), reply::UNSUPPORTED);
    assert_eq!(client.last(4, b"peek"), reply::UNSUPPORTED);
    assert_eq!(client.last(99, &vec![7; 32 << 20]), reply::TOO_BIG);
    client.go("a");
    client.assert_alive();
    let mut client = Client::connect(server.socket(), 3);
    client.send(&OPTION_MAGIC.to_be_bytes());
    client.send(&[0, 0, 0, 99, 2, 0, 0, 1]);
    client.assert_closed();
}

#[test]
fn option_length_of_all_ones_closes() {
    let server = running();
    let mut client = Client::connect(server.socket(), 3);
    client.send(&OPTION_MAGIC.to_be_bytes());
    client.send(&[0, 0, 0, 7, 0xff, 0xff, 0xff, 0xff]);
    client.assert_closed();
}

#[test]
fn an_inconsistent_go_is_invalid_and_the_next_option_works() {
    let server = running();
    let mut client = Client::connect(server.socket(), 3);
    let whole = go_data("a");
    let surplus = [&whole[..], &[1]].concat();
    let beyond = [&1_000_u32.to_be_bytes()[..], b"a\0\0"].concat();
    let announced = [&string(b"a")[..], &[0, 5, 0, 3]].concat();
    for data in [&whole[..0], &whole[..4], &whole[..6], &surplus, &beyond, &announced] {
        assert_eq!(client.last(option::GO, data), reply::INVALID, "{data:?}");
    }
    client.go("a");
    client.assert_alive();
}

#[test]
fn bad_names_are_invalid_and_unknown_ones_unknown() {
    let server = running();
    let mut client = Client::connect(server.socket(), 3);
    assert_eq!(client.last(option::GO, &go_data(&"n".repeat(4_097))), reply::INVALID);
    assert_eq!(client.last(option::GO, &go_data("a\0")), reply::INVALID);
    assert_eq!(client.last(option::INFO, b"\0\0\0\x02\xc3\x28\0\0"), reply::INVALID);
    assert_eq!(client.last(option::GO, &go_data("elsewhere")), reply::UNKNOWN);
    client.send(&option_bytes(option::EXPORT_NAME, b"elsewhere"));
    client.assert_closed();
}

#[test]
fn options_without_data_refuse_data() {
    let server = running();
    let mut client = Client::connect(server.socket(), 3);
    for option in [option::LIST, option::STRUCTURED_REPLY, option::EXTENDED_HEADERS, option::STARTTLS] {
        assert_eq!(client.last(option, b"x"), reply::INVALID);
    }
    assert_eq!(client.last(option::STARTTLS, &[]), reply::POLICY);
}

#[test]
fn reply_forms_are_negotiated_once() {
    let server = running();
    let mut client = Client::connect(server.socket(), 3);
    assert_eq!(client.last(option::STRUCTURED_REPLY, &[]), reply::ACK);
    assert_eq!(client.last(option::STRUCTURED_REPLY, &[]), reply::INVALID);
    assert_eq!(client.last(option::EXTENDED_HEADERS, &[]), reply::ACK);
    assert_eq!(client.last(option::STRUCTURED_REPLY, &[]), reply::EXTENDED_HEADER_REQUIRED);
}

#[test]
fn abort_is_acknowledged_and_closes() {
    let server = running();
    let mut client = Client::connect(server.socket(), 3);
    assert_eq!(client.last(option::ABORT, &[]), reply::ACK);
    client.assert_closed();
}

// ---- negotiation ----

#[test]
fn n1_a_hidden_export_is_neither_listed_nor_known() {
    let uid = rustix::process::getuid().as_raw();
    let server = Running::with(&format!(
        r#"
[[device]]
name = "memory"
[[device.export]]
name = "a"
backing = "memory:1MiB"
[[device.export]]
name = "b"
backing = "memory:1MiB"
[[identity]]
uid = {uid}
group = "tenants/u"
exports = ["a"]
"#
    ));
    let mut client = Client::connect(server.socket(), 3);
    let listed = client.option(option::LIST, &[]);
    assert_eq!(listed.len(), 2);
    assert_eq!(listed[0].data, string(b"a"));
    assert_eq!(client.last(option::GO, &go_data("b")), reply::UNKNOWN);
    client.go("a");
}

#[test]
fn n2_info_and_go_give_the_same_facts_and_never_size_0() {
    let server = running();
    let mut client = Client::connect(server.socket(), 3);
    let info = client.option(option::INFO, &go_data("a"));
    let gone = client.option(option::GO, &go_data("a"));
    assert_eq!(info, gone);
    assert_eq!(info[0].data[2..10], (64 * MIB).to_be_bytes());
    assert_eq!(info[1].data[2..], [0, 0, 0, 1, 0, 0, 0x10, 0, 2, 0, 0, 0]);
    client.assert_alive();
}

#[test]
fn n5_a_read_is_answered_in_the_negotiated_form() {
    // `Client::reply` asserts the magic number of its form, and the echoed offset of the extended
    // one.
    let server = running();
    for form in FORMS {
        let mut client = Client::open(server.socket(), "a", form);
        let reply = client.read(4_096, 512);
        assert_eq!((reply.error, reply.data()), (0, vec![0; 512]));
    }
}

#[test]
fn n6_a_context_of_another_export_does_not_count() {
    let server = running();
    let mut client = Client::connect(server.socket(), 3);
    client.last(option::STRUCTURED_REPLY, &[]);
    assert_eq!(client.last(option::SET_META_CONTEXT, &query_data("a", &["base:allocation"])), reply::ACK);
    client.form = ReplyForm::Structured;
    client.go("fixed");
    assert_eq!(client.ask(0, command::BLOCK_STATUS, 0, 4_096).error, error::EINVAL);
    client.assert_alive();
}

#[test]
fn n8_export_name_answers_10_bytes_and_124_zeroes_unless_disabled() {
    let server = running();
    for client_flags in [1, 1 | CLIENT_NO_ZEROES] {
        let mut client = Client::connect(server.socket(), client_flags);
        client.send(&option_bytes(option::EXPORT_NAME, b"a"));
        assert_eq!(client.receive(8), (64 * MIB).to_be_bytes());
        client.receive(2);
        if client_flags & CLIENT_NO_ZEROES == 0 {
            assert_eq!(client.receive(124), [0; 124]);
        }
        client.assert_alive();
    }
}

#[test]
fn n9_stalled_handshakes_are_closed_and_64_of_them_delay_no_client() {
    let with_timeout = |seconds: u32| {
        Running::listening(
            &format!("handshake_timeout_s = {seconds}\n"),
            "[[device]]\nname = \"m\"\n[[device.export]]\nname = \"a\"\nbacking = \"memory:1MiB\"\n",
        )
    };
    let silent_at = |server: &Running| -> Vec<UnixStream> {
        (0..64)
            .map(|_| {
                let mut stream = UnixStream::connect(server.socket()).unwrap();
                stream.write_all(&[0, 0, 0]).unwrap();
                stream
            })
            .collect()
    };
    // One that waited for a silent one would do so for an hour, and no client of these tests does.
    let patient = with_timeout(3_600);
    let silent = silent_at(&patient);
    Client::open(patient.socket(), "a", ReplyForm::Simple).assert_alive();
    drop(silent);
    let server = with_timeout(2);
    let start = Instant::now();
    let mut silent = silent_at(&server);
    Client::open(server.socket(), "a", ReplyForm::Simple).assert_alive();
    for stream in &mut silent {
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut rest = Vec::new();
        let ended = stream.read_to_end(&mut rest);
        assert!(ended.is_ok() || ended.is_err_and(|e| e.kind() == std::io::ErrorKind::ConnectionReset));
    }
    // The first client was ended in favour of the ordinary one; the others lasted until the
    // timeout.
    assert!(start.elapsed() >= Duration::from_millis(1_900), "closed too early: {:?}", start.elapsed());
}

// ---- malformed input, transmission ----

#[test]
fn wrong_request_magic_closes_without_a_reply() {
    let server = running();
    for form in FORMS {
        let mut client = Client::open(server.socket(), "a", form);
        client.send(&[0x42; 32]);
        client.assert_closed();
    }
}

#[test]
fn unknown_commands_and_flags_are_einval_and_the_connection_lives() {
    let server = running();
    for form in FORMS {
        let mut client = Client::open(server.socket(), "a", form);
        assert_eq!(client.ask(0, 42, 0, 512).error, error::EINVAL);
        assert_eq!(client.ask(0, 8, 0, 512).error, error::EINVAL, "RESIZE");
        assert_eq!(client.ask(1 << 12, command::READ, 0, 512).error, error::EINVAL);
        assert_eq!(client.ask(command_flag::NO_HOLE, command::READ, 0, 512).error, error::EINVAL);
        assert_eq!(client.ask(command_flag::REQ_ONE, command::FLUSH, 0, 0).error, error::EINVAL);
        assert_eq!(client.write(1 << 12, 0, &[9; 4_096]).error, error::EINVAL);
        client.assert_alive();
        assert_eq!(client.read(0, 512).data(), [0; 512], "the refused write's payload went nowhere");
    }
}

#[test]
fn df_without_structured_replies_is_einval() {
    let server = running();
    let mut client = Client::open(server.socket(), "a", ReplyForm::Simple);
    assert_eq!(client.ask(command_flag::DF, command::READ, 0, 512).error, error::EINVAL);
    client.assert_alive();
}

#[test]
fn t12_beyond_the_end_is_einval_or_enospc() {
    let server = running();
    for form in FORMS {
        let mut client = Client::open(server.socket(), "a", form);
        let end = client.size_bytes;
        assert_eq!(client.read(end - 512, 4_096).error, error::EINVAL);
        assert_eq!(client.write(0, end - 512, &[1; 4_096]).error, error::ENOSPC);
        assert_eq!(client.ask(0, command::WRITE_ZEROES, end - 512, 4_096).error, error::ENOSPC);
        assert_eq!(client.ask(0, command::TRIM, end - 512, 4_096).error, error::EINVAL);
        assert_eq!(client.read(end - 512, 512).data(), [0; 512], "nothing was written in part");
        client.assert_alive();
    }
}

#[test]
fn t13_an_offset_that_overflows_is_einval() {
    let server = running();
    for form in FORMS {
        let mut client = Client::open(server.socket(), "a", form);
        assert_eq!(client.read(u64::MAX - 511, 4_096).error, error::EINVAL);
        client.assert_alive();
    }
}

#[test]
fn t14_length_0_succeeds_except_for_block_status() {
    let server = running();
    for form in FORMS {
        let mut client = Client::open(server.socket(), "a", form);
        let read = client.read(512, 0);
        assert_eq!((read.error, read.data().len()), (0, 0));
        if form != ReplyForm::Simple {
            assert_eq!(read.chunks, [chunk::NONE]);
        }
        assert_eq!(client.write(0, 512, &[]).error, 0);
        assert_eq!(client.ask(0, command::TRIM, 512, 0).error, 0);
        assert_eq!(client.ask(0, command::WRITE_ZEROES, 512, 0).error, 0);
        assert_eq!(client.ask(0, command::BLOCK_STATUS, 512, 0).error, error::EINVAL);
        client.assert_alive();
    }
}

#[test]
fn t15_lengths_beyond_the_maximum_payload() {
    let server = running();
    for form in FORMS {
        let mut client = Client::open(server.socket(), "a", form);
        let expected = if form == ReplyForm::Simple { error::EINVAL } else { error::EOVERFLOW };
        assert_eq!(client.read(0, 33 * MIB).error, expected);
        assert_eq!(client.write(0, 0, &vec![5; 33 << 20]).error, error::EINVAL);
        client.assert_alive();
        assert_eq!(client.read(0, 512).data(), [0; 512]);
        let announced = client.request(0, command::WRITE, 1, 0, 0xffff_ffff);
        client.send(&announced);
        client.assert_closed();
    }
}

#[test]
fn t16_two_reads_with_one_cookie_get_two_answers() {
    let server = running();
    for form in FORMS {
        let mut client = Client::open(server.socket(), "a", form);
        let one = client.request(0, command::READ, 5, 0, 512);
        client.send(&[&one[..], &one].concat());
        for _ in 0..2 {
            let reply = client.reply(command::READ, 0, 512);
            assert_eq!((reply.cookie, reply.error, reply.data().len()), (5, 0, 512));
        }
    }
}

#[test]
fn t17_eight_reads_and_disc_in_one_send_are_eight_answers_and_the_end() {
    let server = running();
    for round in 0..200 {
        let mut client = Client::open(server.socket(), "a", FORMS[round % 3]);
        let mut bytes: Vec<u8> = (0..8).flat_map(|cookie| client.request(0, command::READ, cookie, 0, 4_096)).collect();
        bytes.extend(client.request(0, command::DISCONNECT, 0, 0, 0));
        client.send(&bytes);
        let mut cookies: Vec<u64> = (0..8).map(|_| client.reply(command::READ, 0, 4_096).cookie).collect();
        cookies.sort_unstable();
        assert_eq!(cookies, [0, 1, 2, 3, 4, 5, 6, 7], "round {round}");
        client.assert_closed();
    }
}

#[test]
fn t18_a_flush_with_a_length_is_einval() {
    let server = running();
    for form in FORMS {
        let mut client = Client::open(server.socket(), "a", form);
        assert_eq!(client.ask(0, command::FLUSH, 0, 1).error, error::EINVAL);
        assert_eq!(client.ask(0, command::FLUSH, 512, 0).error, error::EINVAL);
        assert_eq!(client.ask(0, command::FLUSH, 0, 0).error, 0);
        client.assert_alive();
    }
}

#[test]
fn t19_write_zeroes_reads_back_zero_and_leaves_a_hole() {
    let server = running_on_a_file();
    for form in FORMS {
        let mut client = Client::open(server.socket(), "file", form);
        assert_eq!(client.write(0, 0, &vec![0xee; 4 << 20]).error, 0);
        assert_eq!(client.ask(0, command::WRITE_ZEROES, MIB, MIB).error, 0);
        assert_eq!(client.read(MIB, MIB).data(), vec![0; 1 << 20]);
        assert_eq!(client.read(2 * MIB, 512).data(), [0xee; 512]);
        // Checked by allocated blocks, because SEEK_HOLE reports a zeroed, allocated range as a
        // hole as well.
        let blocks = || std::fs::metadata(server.directory().join("backing")).unwrap().blocks();
        let allocated = blocks();
        assert_eq!(client.ask(command_flag::NO_HOLE, command::WRITE_ZEROES, 2 * MIB, MIB).error, 0);
        assert_eq!(client.read(2 * MIB, MIB).data(), vec![0; 1 << 20]);
        assert!(blocks() >= allocated, "NO_HOLE keeps it allocated: {allocated} blocks became {}", blocks());
        if form != ReplyForm::Simple {
            let hole = client.ask(command_flag::REQ_ONE, command::BLOCK_STATUS, MIB, MIB);
            assert_eq!(hole.extents, [(MIB, 3)], "hole and zero");
        }
    }
}

#[test]
fn t21_block_status_begins_at_the_offset_and_ends_within_the_range() {
    let server = running_on_a_file();
    for form in [ReplyForm::Structured, ReplyForm::Extended] {
        let mut client = Client::open(server.socket(), "file", form);
        assert_eq!(client.write(0, 8 * MIB, &vec![1; 1 << 20]).error, 0);
        let one = client.ask(command_flag::REQ_ONE, command::BLOCK_STATUS, 7 * MIB, 3 * MIB);
        assert_eq!(one.extents.len(), 1);
        assert!(one.extents[0].0 <= 3 * MIB && one.extents[0].0 > 0);
        let all = client.ask(0, command::BLOCK_STATUS, 7 * MIB, 3 * MIB);
        let (last, before) = all.extents.split_last().unwrap();
        assert!(last.0 > 0 && before.iter().map(|(length, _)| length).sum::<u64>() < 3 * MIB);
        let mut covered = 0;
        while covered < client.size_bytes {
            let left = client.size_bytes - covered;
            let part = client.ask(0, command::BLOCK_STATUS, covered, left);
            assert_eq!(part.error, 0);
            covered += part.extents.iter().map(|(length, _)| length).sum::<u64>();
        }
        assert_eq!(covered, client.size_bytes, "a client's loop covers the export exactly");
    }
}

#[test]
fn t21_a_file_of_many_extents_is_reported_in_pieces_of_at_most_8192() {
    const STRETCHES: u64 = 10_000;
    let directory =
        if std::path::Path::new("/dev/shm").is_dir() { tempfile::tempdir_in("/dev/shm") } else { tempfile::tempdir() };
    let directory = directory.unwrap();
    let path = directory.path().join("many.img");
    let file = std::fs::File::create(&path).unwrap();
    file.set_len(STRETCHES * 8_192).unwrap();
    for stretch in 0..STRETCHES {
        file.write_all_at(&[1; 4_096], stretch * 8_192).unwrap();
    }
    drop(file);
    let server = Running::with(&format!(
        "[[device]]\nname = \"d\"\n[[device.export]]\nname = \"many\"\nbacking = \"{}\"\n",
        path.display()
    ));
    for form in [ReplyForm::Structured, ReplyForm::Extended] {
        let mut client = Client::open(server.socket(), "many", form);
        let (mut covered, mut extents) = (0, 0);
        while covered < client.size_bytes {
            let part = client.ask(0, command::BLOCK_STATUS, covered, client.size_bytes - covered);
            assert_eq!(part.error, 0);
            assert!((1..=8_192).contains(&part.extents.len()), "{} extents in one reply", part.extents.len());
            covered += part.extents.iter().map(|(length, _)| length).sum::<u64>();
            extents += part.extents.len() as u64;
        }
        assert_eq!(covered, client.size_bytes);
        assert!(extents >= 2 * STRETCHES, "data and hole by turns: {extents} extents");
    }
}

#[test]
fn t25_a_bad_part_fails_a_simple_read_whole_and_a_structured_one_in_its_place() {
    // The 6th MiB holds 8 sectors that cannot be read: from 5 MiB + 400 KiB on.
    let server = Running::with(
        "[[device]]\nname = \"d\"\n[[device.export]]\nname = \"bad\"\n\
         backing = \"model:null,bad_first_sector=11040,bad_sectors=8,memory:64MiB\"\n",
    );
    let mut client = Client::open(server.socket(), "bad", ReplyForm::Simple);
    let reply = client.read(0, 8 * MIB);
    assert_eq!((reply.error, reply.content.len()), (error::EIO, 0));
    client.assert_alive();
    for form in [ReplyForm::Structured, ReplyForm::Extended] {
        let mut client = Client::open(server.socket(), "bad", form);
        let reply = client.read(0, 8 * MIB);
        assert_eq!(reply.error, error::EIO);
        let offset = reply.error_offset.expect("an offset");
        assert!((5 * MIB..6 * MIB).contains(&offset), "the error is at {offset}");
        let delivered: usize = reply.content.iter().map(|(_, data)| data.len()).sum();
        assert_eq!(delivered, 7 << 20, "the other parts are delivered");
        let df = client.ask(command_flag::DF, command::READ, 0, 8 * MIB);
        assert_eq!((df.error, df.content.len()), (error::EIO, 0), "DF is all or nothing");
        client.assert_alive();
    }
}

#[test]
fn t30_a_backing_truncated_underneath_fails_reads_and_is_shown_as_damaged() {
    let server = running_on_a_file();
    let mut client = Client::open(server.socket(), "file", ReplyForm::Structured);
    assert_eq!(client.write(0, 32 * MIB, &[5; 4_096]).error, 0);
    let backing = std::fs::OpenOptions::new().write(true).open(server.directory().join("backing")).unwrap();
    backing.set_len(16 * MIB).unwrap();
    assert_eq!(client.read(32 * MIB, 4_096).error, error::EIO);
    client.assert_alive();
    assert_eq!(server.status()["exports"][0]["damaged"], true);
}

#[test]
fn block_status_of_nothing_is_one_hole() {
    let server =
        Running::with("[[device]]\nname = \"d\"\n[[device.export]]\nname = \"null\"\nbacking = \"null:1000001\"\n");
    for form in [ReplyForm::Structured, ReplyForm::Extended] {
        let mut client = Client::open(server.socket(), "null", form);
        let status = client.ask(0, command::BLOCK_STATUS, 1, 1_000_000);
        assert_eq!((status.error, status.extents), (0, vec![(1_000_000, 3)]));
        client.assert_alive();
    }
}

/// libnbd takes an answer to a request that it is still sending for a fault of the server.
#[test]
fn a_refused_write_is_answered_behind_its_payload() {
    let server = running();
    // Too long, behind the end, and to a read-only export.
    for (export, offset, length) in [("a", 0, 33 * MIB), ("a", 64 * MIB - 512, MIB), ("fixed", 0, MIB)] {
        for form in FORMS {
            let mut client = Client::open(server.socket(), export, form);
            let request = client.request(0, command::WRITE, 1, offset, length);
            let payload = vec![1; usize::try_from(length).unwrap()];
            let (most, last) = payload.split_at(payload.len() - 1);
            client.send(&[&request[..], most].concat());
            client.stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
            let early = client.stream.read(&mut [0; 1]);
            assert!(early.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock), "{export}, {form:?}");
            client.stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            client.send(last);
            assert_ne!(client.reply(command::WRITE, offset, length).error, 0);
            client.assert_alive();
        }
    }
}

#[test]
fn a_truncated_backing_is_no_hole_and_its_damage_is_told() {
    let server = running_on_a_file();
    let mut client = Client::open(server.socket(), "file", ReplyForm::Structured);
    assert_eq!(client.write(0, 32 * MIB, &[5; 4_096]).error, 0);
    let backing = std::fs::OpenOptions::new().write(true).open(server.directory().join("backing")).unwrap();
    backing.set_len(16 * MIB).unwrap();
    assert_eq!(client.ask(0, command::BLOCK_STATUS, 0, 64 * MIB).error, error::EIO, "a client would take zeroes");
    assert_eq!(client.ask(0, command::BLOCK_STATUS, 0, 16 * MIB).error, 0);
    assert_eq!(client.ask(0, command::FLUSH, 0, 0).error, error::EIO);
    assert_eq!(client.write(command_flag::FUA, 0, &[1; 512]).error, error::EIO);
    assert_eq!(client.write(0, 0, &[1; 512]).error, 0);
    let export = &server.status()["exports"][0];
    assert!(export["damage"].as_str().unwrap().contains("ends behind 16777216 bytes"), "{export}");
    drop(client);
    server.send(hoistway_export::server::Event::Terminate);
    assert_eq!(server.wait(), 1, "not synced");
}

#[test]
fn t23_a_read_only_export_refuses_every_kind_of_writing() {
    let server = running();
    for form in FORMS {
        let mut client = Client::open(server.socket(), "fixed", form);
        assert_ne!(client.flags & transmission_flag::READ_ONLY, 0);
        assert_eq!(client.flags & transmission_flag::SEND_FLUSH, 0);
        assert_eq!(client.write(0, 0, &[1; 4_096]).error, error::EPERM);
        assert_eq!(client.ask(0, command::TRIM, 0, 4_096).error, error::EPERM);
        assert_eq!(client.ask(0, command::WRITE_ZEROES, 0, 4_096).error, error::EPERM);
        client.assert_alive();
        assert_eq!(client.read(0, 512).data(), [0; 512]);
    }
}

#[test]
fn t24_a_df_read_is_one_content_chunk() {
    let server = running_on_a_file();
    for form in [ReplyForm::Structured, ReplyForm::Extended] {
        let mut client = Client::open(server.socket(), "file", form);
        assert_eq!(client.write(0, 512 * 1024, &vec![3; 64 << 10]).error, 0);
        let reply = client.ask(command_flag::DF, command::READ, 0, 4 * MIB);
        assert_eq!((reply.error, reply.content.len()), (0, 1));
        assert_eq!(reply.data().len(), 4 << 20);
        assert_eq!(reply.data()[512 << 10..576 << 10], vec![3; 64 << 10]);
    }
}

#[test]
fn a_request_below_any_block_size_is_served() {
    let server = running_on_a_file();
    for form in FORMS {
        let mut client = Client::open(server.socket(), "file", form);
        assert_eq!(client.write(0, 12_345, b"seven77").error, 0);
        assert_eq!(client.read(12_344, 9).data(), b"\0seven77\0");
        assert_eq!(client.write(0, 12_345, &[0; 7]).error, 0);
    }
}

#[test]
fn large_reads_come_back_whole_in_every_form() {
    let server = running_on_a_file();
    let pattern: Vec<u8> = (0..8_u64 << 20).map(|at| u8::try_from((at * 7 + at / 4_096) % 251).unwrap()).collect();
    for form in FORMS {
        let mut client = Client::open(server.socket(), "file", form);
        assert_eq!(client.write(command_flag::FUA, 3 * MIB, &pattern).error, 0);
        let reply = client.read(3 * MIB, 8 * MIB);
        assert_eq!(reply.error, 0);
        assert!(reply.data() == pattern, "data differ in form {form:?}");
    }
}

#[test]
fn a_client_that_stops_within_a_header_does_not_affect_others() {
    let server = running();
    let mut stuck = Client::open(server.socket(), "a", ReplyForm::Simple);
    let half = stuck.request(0, command::READ, 1, 0, 512);
    stuck.send(&half[..14]);
    Client::open(server.socket(), "a", ReplyForm::Simple).assert_alive();
    stuck.send(&half[14..]);
    assert_eq!(stuck.reply(command::READ, 0, 512).error, 0);
}

// ---- bounds ----

/// A server that closes a client after a second without progress.
fn impatient() -> Running {
    Running::listening(
        "stall_timeout_s = 1\n",
        "[[device]]\nname = \"m\"\n[[device.export]]\nname = \"a\"\nbacking = \"memory:64MiB\"\n",
    )
}

#[test]
fn b36_a_client_that_never_reads_is_closed_and_others_are_unaffected() {
    let server = impatient();
    let deaf = Client::open(server.socket(), "a", ReplyForm::Simple);
    let one = deaf.request(0, command::READ, 1, 0, 4 * MIB);
    let mut stream = deaf.stream.try_clone().unwrap();
    stream.set_write_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut other = Client::open(server.socket(), "a", ReplyForm::Simple);
    // The server stops reading, then closes, which ends writing with an error that is not the end of the patience here.
    let ended = (0..10_000_000).find_map(|_| stream.write_all(&one).err());
    let kind = ended.expect("the server took requests without end").kind();
    assert!(kind != std::io::ErrorKind::WouldBlock, "it was not closed");
    other.assert_alive();
}

/// What it asks for after the server has begun to send does not excuse it.
#[test]
fn a_client_that_goes_on_asking_and_never_reads_is_closed() {
    let server = impatient();
    let deaf = Client::open(server.socket(), "a", ReplyForm::Simple);
    let one = deaf.request(0, command::READ, 1, 0, 4 * MIB);
    let mut stream = deaf.stream.try_clone().unwrap();
    stream.write_all(&one).unwrap();
    // The head of the first answer: its data, which no socket has room for, is on its way.
    stream.read_exact(&mut [0; 16]).unwrap();
    stream.write_all(&one).unwrap();
    server.await_that("it is closed", |status| status["connections"].as_array().unwrap().is_empty());
}

/// Three tenants that stop reading hold what they may. A fourth has all of its requests under way at once,
/// without waiting for memory.
#[test]
fn tenants_that_stop_reading_leave_memory_to_others() {
    let export = |name: &str| format!("[[device.export]]\nname = \"{name}\"\nbacking = \"memory:64MiB\"\n");
    let exports: String = ["a", "b", "c", "d"].into_iter().map(export).collect();
    let server = Running::with(&format!("[[device]]\nname = \"d\"\nmemory = \"64MiB\"\n{exports}"));
    let ask_for = |export: &str, count: u64, length: u64| {
        let mut client = Client::open(server.socket(), export, ReplyForm::Structured);
        let requests = (0..count).map(|cookie| client.request(0, command::READ, cookie, 0, length));
        let requests: Vec<u8> = requests.flatten().collect();
        client.send(&requests);
        client
    };
    let pauses = |status: &serde_json::Value| status["devices"][0]["loop"]["pauses_for_memory"].as_u64().unwrap();
    let mut silent = Vec::new();
    for export in ["a", "b", "c"] {
        let before = pauses(&server.status());
        silent.push(ask_for(export, 128, MIB / 2));
        server.await_that("the tenant waits for memory", |status| pauses(status) > before);
    }
    // The first three pause again until their sockets are full; then only the fourth could.
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let before = pauses(&server.status());
        let mut fourth = ask_for("d", 64, 4_096);
        for _ in 0..64 {
            assert_eq!(fourth.reply(command::READ, 0, 4_096).error, 0);
        }
        if pauses(&server.status()) == before {
            break;
        }
        assert!(Instant::now() < deadline, "the fourth waits for memory every time");
    }
    drop(silent);
}

#[test]
fn b37_a_client_that_stops_inside_a_payload_is_closed() {
    let server = impatient();
    let mut client = Client::open(server.socket(), "a", ReplyForm::Simple);
    let header = client.request(0, command::WRITE, 1, 0, MIB);
    client.send(&[&header[..], &[1; 1_000]].concat());
    client.assert_closed();
}
