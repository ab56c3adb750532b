//! Hostile readers of the metrics' endpoint. A good scrape is answered beside each of them, and the server lives.

mod server;

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use server::Running;

const DEVICE: &str = "[[device]]\nname = \"m\"\n[[device.export]]\nname = \"a\"\nbacking = \"memory:1MiB\"\n";
const GOOD: &[u8] = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
/// What a good scrape may take on a busy machine.
const TIME_LIMIT: Duration = Duration::from_secs(60);

fn path(server: &Running) -> PathBuf {
    server.directory().join("metrics.sock")
}

fn connect(server: &Running) -> UnixStream {
    let stream = UnixStream::connect(path(server)).unwrap();
    stream.set_read_timeout(Some(TIME_LIMIT)).unwrap();
    stream.set_write_timeout(Some(TIME_LIMIT)).unwrap();
    stream
}

/// All that comes until the server ends the connection.
fn rest(stream: &mut UnixStream) -> String {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Ok(_) => {}
        // The server ended a connection with bytes that it did not read.
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}"),
    }
    String::from_utf8(bytes).unwrap()
}

fn assert_scrapes(server: &Running) {
    let mut stream = connect(server);
    stream.write_all(GOOD).unwrap();
    let answer = rest(&mut stream);
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("# EOF\n"), "{answer}");
}

/// The status of the answer to bytes that a client sends before it waits; 0 if the connection ends without one.
fn status(server: &Running, bytes: &[u8]) -> u16 {
    let mut stream = connect(server);
    // The server may answer and end before it was given everything.
    let _ = stream.write_all(bytes);
    let answer = rest(&mut stream);
    answer.get(9..12).map_or(0, |code| code.parse().unwrap())
}

fn resident_bytes() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4_096
}

#[test]
fn what_is_no_good_request_is_refused_and_ends_nothing() {
    let server = Running::with(DEVICE);
    let hello = [&[22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3][..], &[7; 512]].concat();
    let long = [GOOD, &b"x".repeat(1 << 20)].concat();
    let cases: [(&[u8], u16); 12] = [
        (b"GET /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 9000000000000000000\r\n\r\n", 413),
        (b"GET /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", 400),
        (b"GET /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nContent-Length: 5\r\n\r\n", 400),
        (b"GET /metrics HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n", 411),
        (b"GET http://x/metrics HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET /metrics HTTP/1.1\nHost: x\n\n", 400),
        (b"GET /metrics HTTP/1.1\r\nHost: \0\r\n\r\n", 400),
        (b"GET /metrics\r\n\r\n", 400),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
        (b"DELETE /metrics HTTP/1.1\r\nHost: x\r\n\r\n", 405),
        (&hello, 400),
        // Of requests in a row the first is answered.
        (&long, 200),
    ];
    for (bytes, wanted) in cases {
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(80)]).into_owned();
        assert_eq!(status(&server, bytes), wanted, "{shown:?}");
        assert_scrapes(&server);
    }
    // One that has no more to say still wants its answer.
    let mut stream = connect(&server);
    stream.write_all(GOOD).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert!(rest(&mut stream).ends_with("# EOF\n"));
    let mut stream = connect(&server);
    stream.write_all(b"HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let head = rest(&mut stream);
    assert!(
        head.starts_with("HTTP/1.1 200") && head.ends_with("\r\n\r\n") && head.contains("Content-Length"),
        "{head}"
    );
}

#[test]
fn an_endless_head_is_refused_at_its_ceiling() {
    let server = Running::with(DEVICE);
    assert_scrapes(&server);
    let before = resident_bytes();
    let mut stream = connect(&server);
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nA: ").unwrap();
    // What comes behind the ceiling is dropped for a second, so that the refusal can be read; then the connection ends.
    let start = Instant::now();
    let mut most = before;
    while stream.write_all(&[b'a'; 1 << 20]).is_ok() {
        most = most.max(resident_bytes());
        assert!(start.elapsed() < TIME_LIMIT, "the header goes on");
    }
    assert!(most < before + (64 << 20), "{before} and {most} bytes");
    assert_scrapes(&server);
}

#[test]
fn slow_peers_end_and_no_other_waits_for_them() {
    let server = Running::with(DEVICE);
    let start = Instant::now();
    // Each is ended after 5 s: one that waited for one after the other would take 100 s.
    let mut silent: Vec<UnixStream> = (0..20).map(|_| connect(&server)).collect();
    let mut in_head = connect(&server);
    in_head.write_all(b"GET /metrics HTTP/1.1\r\n").unwrap();
    let mut in_body = connect(&server);
    in_body.write_all(b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n").unwrap();
    let mut slow = connect(&server);
    // A byte now and then does not keep a connection.
    let trickle = std::thread::spawn(move || {
        while slow.write_all(b"G").is_ok() {
            std::thread::sleep(Duration::from_millis(100));
        }
        start.elapsed()
    });
    for _ in 0..20 {
        assert_scrapes(&server);
    }
    assert!(start.elapsed() < TIME_LIMIT);
    silent.iter_mut().for_each(|stream| assert_eq!(rest(stream), ""));
    assert!(rest(&mut in_head).starts_with("HTTP/1.1 408"));
    assert!(rest(&mut in_body).starts_with("HTTP/1.1 405"));
    assert!(trickle.join().unwrap() < TIME_LIMIT);
}

#[test]
fn a_thousand_idle_peers_hold_neither_threads_nor_descriptors() {
    let server = Running::with(DEVICE);
    assert_scrapes(&server);
    let count = |of: &str| std::fs::read_dir(format!("/proc/self/{of}")).unwrap().count();
    let (threads, descriptors) = (count("task"), count("fd"));
    let mut idle = Vec::new();
    for number in 0..1_000 {
        idle.push(connect(&server));
        // Some ask and do not read.
        if number % 3 == 0 {
            let _ = idle.last_mut().unwrap().write_all(GOOD);
        }
        if number % 100 == 99 {
            assert_scrapes(&server);
        }
    }
    // Other tests of this file have servers in this process as well.
    assert!(count("task") < threads + 200, "{} threads", count("task"));
    let of_server = count("fd") - idle.len();
    assert!(of_server < descriptors + 400, "{of_server} and {descriptors} descriptors");
    drop(idle);
    assert_scrapes(&server);
}

#[test]
fn one_that_does_not_read_delays_no_other() {
    let server = Running::with(DEVICE);
    let unread: Vec<UnixStream> = (0..20)
        .map(|_| {
            let mut stream = connect(&server);
            stream.write_all(GOOD).unwrap();
            stream
        })
        .collect();
    let start = Instant::now();
    for _ in 0..10 {
        assert_scrapes(&server);
    }
    assert!(start.elapsed() < TIME_LIMIT, "{:?}", start.elapsed());
    drop(unread);
}
