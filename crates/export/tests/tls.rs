//! NBD over TLS with a rustls client, good and bad ones. `tls_clients.rs` has real programs.

mod client;
mod server;
mod tls_client;

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use client::{Client, go_data, option_bytes};
use hoistway_export::control::socket::ask;
use hoistway_export::nbd::handshake::ReplyForm;
use hoistway_export::nbd::wire::{command, option, reply};
use hoistway_export::server::handshake_thread::MAXIMUM_HALF_OPEN;
use rustls::{ClientConnection, version};
use rustls_pki_types::ServerName;
use server::Running;
use tls_client::{
    Authority, DEVICE, FUTURE, Fixture, Secure, attempt, begin, client_config, pattern, secure, tls_line,
};

const MIB: usize = 1 << 20;
const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn data_travels_both_ways_in_each_version_and_form() {
    let fixture = Fixture::open();
    let mut seed = 0;
    for version in [&version::TLS13, &version::TLS12] {
        for form in [ReplyForm::Simple, ReplyForm::Structured, ReplyForm::Extended] {
            seed += 1;
            let config = client_config(&fixture.authority.pem(), None, &[version]);
            let mut client = secure(fixture.address(), config, "localhost").opened("a", form);
            let data = pattern(300_001, seed);
            assert_eq!(client.write(0, 12_345, &data).error, 0);
            assert_eq!(client.ask(0, command::FLUSH, 0, 0).error, 0);
            assert!(client.read(12_345, data.len() as u64).data() == data, "{form:?} {version:?}");
            // The data is that of the export, not of the connection.
            let mut other = Client::open(fixture.server.socket(), "a", form);
            assert!(other.read(12_345, data.len() as u64).data() == data, "{form:?} {version:?}");
            let bytes = client.request(0, command::DISCONNECT, 1, 0, 0);
            client.send(&bytes);
            let ended = client.stream.read(&mut [0; 8]);
            assert!(matches!(ended, Ok(0)), "the session ends with a close_notify: {ended:?}");
        }
    }
    fixture.await_no_connections();
}

#[test]
fn nothing_but_the_start_of_tls_is_answered_before_tls() {
    let fixture = Fixture::open();
    let mut client = fixture.plain();
    for option in [option::LIST, option::INFO, option::GO, option::STRUCTURED_REPLY, option::EXTENDED_HEADERS, 99] {
        assert_eq!(client.last(option, &go_data("a")), reply::TLS_REQUIRED, "option {option}");
    }
    assert_eq!(client.last(option::SET_META_CONTEXT, &vec![0; 70_000]), reply::TLS_REQUIRED);
    assert_eq!(client.last(option::STARTTLS, b"x"), reply::INVALID);
    assert_eq!(client.last(option::ABORT, &[]), reply::ACK);
    client.assert_closed();
    let mut client = fixture.plain();
    client.send(&option_bytes(option::EXPORT_NAME, b"a"));
    client.assert_closed();
    // Without TLS there is no export, however the client goes on.
    let mut client = fixture.plain();
    client.send(&client::request(ReplyForm::Simple, 0, command::READ, 1, 0, 512));
    client.assert_closed();
    fixture.await_no_connections();
}

#[test]
fn tls_begins_once_and_a_listener_without_it_says_so() {
    let fixture = Fixture::open();
    let mut client = fixture.client();
    assert_eq!(client.last(option::STARTTLS, &[]), reply::INVALID);
    assert_eq!(client.last(option::LIST, &[]), reply::ACK);
    client.opened("a", ReplyForm::Extended).assert_alive();
    assert_eq!(Client::connect(fixture.server.socket(), 3).last(option::STARTTLS, &[]), reply::POLICY);
}

#[test]
fn options_of_a_client_that_reads_late_are_all_answered() {
    use std::fmt::Write;
    const COUNT: usize = 2_000;
    let mut described = "[[device]]\nname = \"many\"\nmemory = \"64MiB\"\n".to_owned();
    for number in 0..40 {
        let text = "d".repeat(200);
        let export =
            format!("name = \"many{number}\"\nbacking = \"memory:1MiB\"\ngroup = \"many\"\ndescription = \"{text}\"");
        writeln!(described, "[[device.export]]\n{export}").unwrap();
    }
    let fixture = Fixture::new(false, &described);
    let mut client = fixture.client();
    // The questions fit into the buffers of the sockets, their 18 MB of answers do not.
    client.send(&option_bytes(option::LIST, &[]).repeat(COUNT));
    std::thread::sleep(Duration::from_millis(300));
    fixture.assert_serves();
    for number in 0..COUNT {
        assert_eq!(client.option_replies(option::LIST).len(), 43, "answer {number}");
    }
    client.opened("a", ReplyForm::Simple).assert_alive();
}

#[test]
fn options_sent_behind_starttls_are_not_taken_for_the_clients_own() {
    let fixture = Fixture::open();
    let mut client = fixture.plain();
    let options = [option_bytes(option::STARTTLS, &[]), option_bytes(option::LIST, &[])].concat();
    client.send(&options);
    assert_eq!(client.option_replies(option::STARTTLS)[0].kind, reply::ACK);
    let mut rest = Vec::new();
    let _ = client.stream.read_to_end(&mut rest);
    assert!(rest.first().is_none_or(|kind| *kind == 21), "an alert or nothing, but not {rest:x?}");
    fixture.assert_serves();
}

#[test]
fn a_client_refuses_a_server_with_another_name_or_authority() {
    let fixture = Fixture::open();
    let wrong_name = attempt(fixture.address(), fixture.config(None), "elsewhere.example").unwrap_err();
    assert!(wrong_name.to_string().contains("not valid for name"), "{wrong_name}");
    let other = client_config(&Authority::new("other").pem(), None, &[&version::TLS13]);
    let wrong_authority = attempt(fixture.address(), other, "localhost").unwrap_err();
    assert!(wrong_authority.to_string().contains("invalid peer certificate"), "{wrong_authority}");
    fixture.assert_serves();
    fixture.await_no_connections();
}

#[test]
fn a_client_needs_a_valid_certificate_of_the_authority() {
    let fixture = Fixture::mutual("");
    let good = fixture.authority.sign(&["tenant-a"], FUTURE);
    let refused = [
        ("CertificateRequired", None),
        ("CertificateExpired", Some(fixture.authority.sign(&["tenant-a"], 2001))),
        // The name of the authority is right, its key is not.
        ("DecryptError", Some(Authority::new("authority").sign(&["tenant-a"], FUTURE))),
        ("UnknownCA", Some(Authority::new("other").sign(&["tenant-a"], FUTURE))),
    ];
    for version in [&version::TLS13, &version::TLS12] {
        for (alert, certified) in &refused {
            let config = client_config(&fixture.authority.pem(), certified.as_ref(), &[version]);
            let error = attempt(fixture.address(), config, "localhost").unwrap_err();
            let is_told = error.to_string().contains(alert);
            assert!(is_told, "{alert} {version:?}: {error}");
        }
        let config = client_config(&fixture.authority.pem(), Some(&good), &[version]);
        secure(fixture.address(), config, "localhost").opened("a", ReplyForm::Simple).assert_alive();
    }
    fixture.await_no_connections();
}

/// A ClientHello of TLS 1.1. The list of signature algorithms, which is newer, lets the server come to the version.
fn hello_of_tls_1_1() -> Vec<u8> {
    let mut body = vec![3, 2];
    body.extend([7; 32]);
    body.extend([0, 0, 4, 0xc0, 0x13, 0x00, 0x2f, 1, 0, 0, 8, 0, 13, 0, 4, 0, 2, 4, 3]);
    let mut message = vec![1, 0, 0, u8::try_from(body.len()).unwrap()];
    message.extend(body);
    let mut record = vec![22, 3, 1, 0, u8::try_from(message.len()).unwrap()];
    record.extend(message);
    record
}

#[test]
fn tls_1_1_is_refused_with_an_alert() {
    let fixture = Fixture::open();
    let mut client = fixture.plain();
    assert_eq!(client.last(option::STARTTLS, &[]), reply::ACK);
    client.send(&hello_of_tls_1_1());
    let mut answer = Vec::new();
    client.stream.read_to_end(&mut answer).unwrap();
    assert_eq!((answer[0], &answer[5..]), (21, &[2, 70][..]), "a fatal alert, protocol_version");
    fixture.await_no_connections();
}

#[test]
fn garbage_and_truncated_handshakes_end_and_leave_nothing() {
    let fixture = Fixture::open();
    for garbage in [&[0; 64][..], &[22, 3, 1, 0xff, 0xff, 1, 2, 3], &[0xff; 4096], b"GET / HTTP/1.1\r\n\r\n", &[22]] {
        for is_cut in [true, false] {
            let mut client = fixture.plain();
            assert_eq!(client.last(option::STARTTLS, &[]), reply::ACK);
            client.send(garbage);
            if is_cut || garbage.len() < 5 {
                client.stream.shutdown(Shutdown::Write).unwrap();
            }
            let mut answer = Vec::new();
            let _ = client.stream.read_to_end(&mut answer);
            assert!(answer.first().is_none_or(|kind| *kind == 21), "{answer:x?}");
        }
    }
    // A real hello that stops in the middle.
    let config = Arc::new(fixture.config(None));
    let mut connection = ClientConnection::new(config, ServerName::try_from("localhost").unwrap()).unwrap();
    let mut hello = Vec::new();
    connection.write_tls(&mut hello).unwrap();
    for length in [1, 5, 6, hello.len() / 2, hello.len() - 1] {
        let mut client = fixture.plain();
        assert_eq!(client.last(option::STARTTLS, &[]), reply::ACK);
        client.send(&hello[..length]);
        drop(client);
    }
    fixture.await_no_connections();
    fixture.assert_serves();
}

/// A connection from another address of the loopback network, that begins TLS and falls silent.
fn half_open(address: SocketAddr) -> io::Result<TcpStream> {
    use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None)?;
    bind(&socket, &"127.0.0.2:0".parse::<SocketAddr>().unwrap())?;
    connect(&socket, &address)?;
    let mut stream = TcpStream::from(socket);
    stream.write_all(&[&3_u32.to_be_bytes()[..], &option_bytes(option::STARTTLS, &[])].concat())?;
    stream.write_all(&[22, 3, 1])?;
    Ok(stream)
}

#[test]
fn two_thousand_half_open_handshakes_keep_no_other_client_out() {
    // A good client that waited for a silent one would do so for an hour, and no client of these tests does.
    let fixture = Fixture::new(false, "handshake_timeout_s = 3600\n");
    let address = fixture.address();
    let mut silent = Vec::new();
    for number in 0..2_000 {
        // The server closes the oldest ones meanwhile.
        silent.extend(half_open(address));
        if number % 100 == 99 {
            fixture.assert_serves();
        }
    }
    let status = fixture.server.status();
    let listener = status["listeners"].as_array().unwrap().iter().find(|it| it["accepted"].as_u64() > Some(1_000));
    assert!(listener.unwrap()["connections"].as_u64().unwrap() <= MAXIMUM_HALF_OPEN as u64 + 1, "{status:#}");
}

#[test]
fn a_silent_tls_handshake_times_out() {
    let fixture = Fixture::mutual("handshake_timeout_s = 1\n");
    let start = Instant::now();
    let mut client = fixture.plain();
    assert_eq!(client.last(option::STARTTLS, &[]), reply::ACK);
    client.assert_closed();
    assert!(start.elapsed() >= Duration::from_secs(1), "{:?}", start.elapsed());
    fixture.await_no_connections();
}

#[test]
fn a_client_that_vanishes_in_a_transfer_leaves_nothing() {
    let fixture = Fixture::open();
    let before = fixture.server.memory_in_use();
    for is_reading in [false, true] {
        let mut client = fixture.client().opened("a", ReplyForm::Simple);
        if is_reading {
            let bytes: Vec<u8> = (0..4).flat_map(|_| client.request(0, command::READ, 1, 0, 8 << 20)).collect();
            client.send(&bytes);
            client.receive(100_000);
        } else {
            let mut bytes = client.request(0, command::WRITE, 1, 0, 32 << 20);
            bytes.extend(vec![7; 5 << 20]);
            client.send(&bytes);
        }
        // Without a close_notify, as if the machine had lost its power.
        rustix::net::sockopt::set_socket_linger(&client.stream.sock, Some(Duration::ZERO)).unwrap();
        drop(client);
        fixture.await_no_connections();
    }
    fixture.server.await_that("memory", |status| status["devices"][0]["memory_used_bytes"].as_u64() == Some(before));
    fixture.assert_serves();
}

#[test]
fn large_payloads_pass_slow_readers_whole() {
    let fixture = Fixture::open();
    let answered = AtomicU32::new(0);
    std::thread::scope(|scope| {
        let slow: Vec<_> = ["a", "b"]
            .map(|export| {
                let (fixture, answered) = (&fixture, &answered);
                scope.spawn(move || {
                    let mut client = fixture.client().opened(export, ReplyForm::Simple);
                    let data = pattern(32 * MIB, export.as_bytes()[0]);
                    assert_eq!(client.write(0, 4_096, &data).error, 0);
                    let bytes = client.request(0, command::READ, 5, 4_096, data.len() as u64);
                    client.send(&bytes);
                    client.receive(16);
                    for (number, piece) in data.chunks(MIB).enumerate() {
                        std::thread::sleep(Duration::from_millis(20));
                        if number == 8 {
                            // With most of its answer unread it waits for another client, which must not wait for it
                            // and would give up after a minute.
                            let (wanted, end) = (answered.load(Ordering::Relaxed) + 20, Instant::now() + 2 * MINUTE);
                            while answered.load(Ordering::Relaxed) < wanted && Instant::now() < end {
                                std::thread::sleep(Duration::from_millis(1));
                            }
                        }
                        assert!(client.receive(piece.len()) == piece, "{export}: MiB {number} differs");
                    }
                    client.assert_alive();
                })
            })
            .into();
        // A slow client delays no other.
        let mut quick = fixture.client().opened("a", ReplyForm::Structured);
        while slow.iter().any(|thread| !thread.is_finished()) {
            quick.assert_alive();
            answered.fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(10));
        }
    });
    fixture.await_no_connections();
}

const IDENTITIES: &str = "[[identity]]\ncertificate = \"tenant-a\"\ngroup = \"tenants/a\"\nexports = [\"a\"]\n\
                          [[identity]]\ncertificate = \"*.b.example\"\ngroup = \"tenants/b\"\nexports = [\"b\"]\n";

#[test]
fn a_certificate_decides_exports_and_group() {
    let fixture = Fixture::mutual(IDENTITIES);
    let names = |client: &mut Client<Secure>| -> Vec<String> {
        let replies = client.option(option::LIST, &[]);
        let entries = replies.iter().filter(|entry| entry.kind == reply::SERVER);
        entries.map(|entry| String::from_utf8_lossy(&entry.data[4..5]).into_owned()).collect()
    };
    let mut a = fixture.client_with(&fixture.authority.sign(&["tenant-a"], FUTURE));
    assert_eq!(names(&mut a), ["a"]);
    assert_eq!(a.last(option::GO, &go_data("b")), reply::UNKNOWN);
    let mut a = a.opened("a", ReplyForm::Simple);
    a.assert_alive();
    let mut b = fixture.client_with(&fixture.authority.sign(&["x.example", "db.b.example"], FUTURE));
    assert_eq!(names(&mut b), ["b"]);
    let mut b = b.opened("b", ReplyForm::Simple);
    b.assert_alive();
    let mut other = fixture.client_with(&fixture.authority.sign(&["tenant-a.example"], FUTURE));
    assert_eq!(names(&mut other), ["a", "b"], "a certificate that no identity names is a client like any other");
    let status = fixture.server.status();
    let mut groups: Vec<_> =
        status["connections"].as_array().unwrap().iter().map(|it| it["group"].as_str().unwrap().to_owned()).collect();
    groups.sort();
    assert_eq!(groups, ["tenants/a", "tenants/b"]);
}

#[test]
fn a_unix_socket_may_have_tls_and_the_certificate_counts_before_the_user() {
    let (authority, directory) = (Authority::new("authority"), tempfile::tempdir().unwrap());
    authority.sign(&["localhost"], FUTURE).write(directory.path(), "server");
    std::fs::write(directory.path().join("ca-cert.pem"), authority.pem()).unwrap();
    let uid = rustix::process::getuid().as_raw();
    let identities = format!("[[identity]]\nuid = {uid}\ngroup = \"user\"\n{IDENTITIES}");
    let server = Running::listening(&tls_line(directory.path(), true), &format!("{DEVICE}{identities}"));
    let own = authority.sign(&["tenant-a"], FUTURE);
    let config = client_config(&authority.pem(), Some(&own), &[&version::TLS13]);
    let mut client = begin(Client::connect(server.socket(), 3), config, "localhost").opened("a", ReplyForm::Extended);
    let data = pattern(100_000, 1);
    assert_eq!(client.write(0, 0, &data).error, 0);
    assert!(client.read(0, 100_000).data() == data);
    assert_eq!(server.status()["connections"][0]["group"], "tenants/a");
    assert_eq!(Client::connect(server.socket(), 3).last(option::LIST, &[]), reply::TLS_REQUIRED);
}

fn reload(fixture: &Fixture) -> serde_json::Value {
    let control = fixture.server.directory().join("control.sock");
    ask(&control, &serde_json::json!({"command": "reload"})).unwrap()
}

#[test]
fn certificates_are_read_again_on_reload_or_nothing_changes() {
    let fixture = Fixture::mutual("");
    let old = fixture.authority.sign(&["tenant-a"], FUTURE);
    let mut connected = fixture.client_with(&old).opened("a", ReplyForm::Simple);
    let reload = || reload(&fixture);
    let path = |name: &str| fixture.directory.path().join(name);
    // A key of another certificate, then no file at all: refused, and the old ones serve on.
    let key = std::fs::read(path("server-key.pem")).unwrap();
    std::fs::write(path("server-key.pem"), &fixture.authority.sign(&["x"], FUTURE).key).unwrap();
    assert!(reload()["error"].as_str().unwrap().contains("cannot be used with its key"));
    fixture.client_with(&old).opened("a", ReplyForm::Simple).assert_alive();
    std::fs::remove_file(path("server-key.pem")).unwrap();
    assert!(reload()["error"].as_str().unwrap().contains("server-key.pem cannot be read"));
    fixture.client_with(&old).opened("a", ReplyForm::Simple).assert_alive();
    std::fs::write(path("server-key.pem"), key).unwrap();
    std::fs::write(path("ca-cert.pem"), "no certificate").unwrap();
    assert!(reload()["error"].as_str().unwrap().contains("ca-cert.pem holds no certificate"));
    // Another authority for the server and its clients.
    let next = Authority::new("next");
    next.sign(&["localhost"], FUTURE).write(fixture.directory.path(), "server");
    std::fs::write(path("ca-cert.pem"), next.pem()).unwrap();
    assert_eq!(reload()["ok"]["changes"], 0);
    let new = next.sign(&["tenant-a"], FUTURE);
    let with = |certified| client_config(&next.pem(), Some(certified), &[&version::TLS13]);
    let error = attempt(fixture.address(), with(&old), "localhost").unwrap_err();
    assert!(error.to_string().contains("UnknownCA"), "{error}");
    secure(fixture.address(), with(&new), "localhost").opened("a", ReplyForm::Simple).assert_alive();
    connected.assert_alive();
}

#[test]
fn tls_switched_on_by_a_reload_ends_a_plain_handshake() {
    let fixture = Fixture::open();
    let path = fixture.server.directory().join("serve.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    let mut plain = Client::connect(fixture.server.socket(), 3);
    assert_eq!(plain.last(option::LIST, &[]), reply::ACK);
    let tls = tls_line(fixture.directory.path(), false);
    std::fs::write(&path, text.replacen("[control]", &format!("{tls}[control]"), 1)).unwrap();
    assert_eq!(reload(&fixture)["ok"]["changes"], 0);
    assert_eq!(Client::connect(fixture.server.socket(), 3).last(option::LIST, &[]), reply::TLS_REQUIRED);
    plain.send(&option_bytes(option::GO, &go_data("a")));
    plain.assert_closed();
}

#[test]
fn expired_certificates_and_open_keys_are_warned_about() {
    use hoistway_export::configuration::file;
    use hoistway_export::tls::credentials::Credentials;
    use std::os::unix::fs::PermissionsExt;
    let (authority, directory) = (Authority::new("authority"), tempfile::tempdir().unwrap());
    std::fs::write(directory.path().join("ca-cert.pem"), authority.pem()).unwrap();
    let read = |last_year| {
        authority.sign(&["localhost"], last_year).write(directory.path(), "server");
        let tls = tls_line(directory.path(), true);
        let configuration = file::read("x", &format!("{DEVICE}[[listen]]\ntcp = \"127.0.0.1:0\"\n{tls}")).unwrap();
        move || Credentials::read(&configuration).map(|(_, warnings)| warnings)
    };
    assert_eq!(read(FUTURE)(), Ok(Vec::new()));
    let warnings = read(2001)().unwrap();
    assert!(warnings[0].contains("server-cert.pem expired on Dec 31 00:00:00 2001"), "{warnings:?}");
    let again = read(FUTURE);
    let key = directory.path().join("server-key.pem");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    let warnings = again().unwrap();
    assert!(warnings.len() == 1 && warnings[0].contains("every user can read the key"), "{warnings:?}");
    std::fs::write(&key, "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n").unwrap();
    assert!(again().unwrap_err()[0].what.contains("cannot be used with its key"));
    std::fs::write(&key, "no key").unwrap();
    assert!(again().unwrap_err()[0].what.contains("holds no private key"));
}
