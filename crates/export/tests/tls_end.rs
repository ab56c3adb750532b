//! The end of TLS connections: nothing is lost and no thread is left. One test alone in its process, because it counts
//! the threads.

mod client;
mod server;
mod tls_client;

use std::io::{self, Read};
use std::path::Path;
use std::time::{Duration, Instant};

use hoistway_export::control::socket::ask;
use hoistway_export::nbd::handshake::ReplyForm;
use hoistway_export::nbd::wire::command;
use hoistway_export::server::Event;
use hoistway_export::tls::relay::END_TIMEOUT;
use rustls::version;
use tls_client::{Fixture, client_config, pattern, secure};

#[test]
fn evict_ends_the_session_and_drain_answers_first() {
    let fixture = Fixture::open();
    let mut client = fixture.client().opened("a", ReplyForm::Simple);
    client.assert_alive();
    let control = fixture.server.directory().join("control.sock");
    let evict = serde_json::json!({"command": "evict", "export": "a"});
    let answer = ask(&control, &evict).unwrap();
    assert_eq!(answer["ok"]["closed"], 1, "{answer}");
    let ended = client.stream.read(&mut [0; 8]);
    assert!(matches!(ended, Ok(0)), "the session ends with a close_notify: {ended:?}");
    // This client keeps its socket open, and reads nothing.
    fixture.await_no_connections();
    // Nor does one that never reads its answers keep anything.
    let mut stuck = fixture.client().opened("b", ReplyForm::Simple);
    let bytes: Vec<u8> = (0..2).flat_map(|_| stuck.request(0, command::READ, 1, 0, 32 << 20)).collect();
    stuck.send(&bytes);
    stuck.receive(16);
    // Until the buffers of all sockets are full.
    std::thread::sleep(Duration::from_millis(500));
    let evict = serde_json::json!({"command": "evict", "export": "b"});
    assert_eq!(ask(&control, &evict).unwrap()["ok"]["closed"], 1);
    fixture.await_no_connections();
    let Fixture { server, authority, .. } = fixture;
    let address = server.status()["listeners"][0]["address"].as_str().unwrap()["tcp:".len()..].parse().unwrap();
    let config = client_config(&authority.pem(), None, &[&version::TLS13]);
    let mut client = secure(address, config, "localhost").opened("a", ReplyForm::Simple);
    let data = pattern(8 * (1 << 20), 9);
    assert_eq!(client.write(0, 0, &data).error, 0);
    let bytes = client.request(0, command::READ, 5, 0, data.len() as u64);
    client.send(&bytes);
    client.receive(16);
    let start = Instant::now();
    server.send(Event::Terminate);
    assert!(client.receive(data.len()) == data, "an answer was lost in the drain");
    assert!(matches!(client.stream.read(&mut [0; 8]), Ok(0)));
    assert_eq!(server.wait(), 0);
    // The client has not closed its socket, so its relay lasts for all of its time, and the server waits for it.
    assert!(start.elapsed() >= END_TIMEOUT, "the server ended {:?} after it was told to", start.elapsed());
    // A thread that has done everything is listed for a moment more.
    let ended = Instant::now();
    while relays() > 0 {
        assert!(ended.elapsed() < Duration::from_secs(60), "{} relays outlive their server", relays());
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Relays of this process.
fn relays() -> usize {
    let name = |task: io::Result<std::fs::DirEntry>| {
        let comm = std::fs::read_to_string(task.ok()?.path().join("comm")).ok()?;
        (comm.trim() == "tls relay").then_some(())
    };
    std::fs::read_dir(Path::new("/proc/self/task")).unwrap().filter_map(name).count()
}
