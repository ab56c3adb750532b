//! A backing that hangs costs its own clients, and no others: not the other exports of its
//! device, not other devices, not the operator, not the metrics, not the end of the server.

mod client;
mod hanging_file;
mod server;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use client::Client;
use hanging_file::{FSYNC, GETATTR, HangingFile, READ, WRITE};
use hoistway_export::control::socket::ask;
use hoistway_export::nbd::handshake::ReplyForm;
use hoistway_export::nbd::wire::command;
use hoistway_export::server::Event;
use serde_json::{Value, json};
use server::Running;

/// For an answer that is given although something hangs; one that waits for what hangs would never come. No bound of
/// performance: the machine may be busy.
const ANSWERED: Duration = Duration::from_secs(60);
const HUNG_BYTES: usize = 32 << 20;
/// A neighbour flushes once in this many rounds.
const FLUSHED: u64 = 16;

/// A server with the hanging file and others on one device, and another device.
struct Bench {
    server: Running,
    file: HangingFile,
    /// A file on the disk that holds the build.
    _directory: tempfile::TempDir,
}

impl Bench {
    fn new() -> Option<Self> {
        let Some(file) = HangingFile::new(HUNG_BYTES) else {
            eprintln!("left out: FUSE cannot be mounted here");
            return None;
        };
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let disk = directory.path().join("disk.img");
        std::fs::File::create(&disk).unwrap().set_len(16 << 20).unwrap();
        let export = |name: &str, backing: &str| {
            format!("[[device.export]]\nname = \"{name}\"\nbacking = \"{backing}\"\ngroup = \"{name}\"\n")
        };
        let mixed = [
            export("hung", &file.path().display().to_string()),
            export("memory", "memory:16MiB"),
            export("disk", &disk.display().to_string()),
        ];
        let devices = format!(
            "drain_timeout_s = 2\n[[device]]\nname = \"mixed\"\nqueue_depth = 32\n{}[[device]]\nname = \"other\"\n{}",
            mixed.concat(),
            export("far", "memory:16MiB")
        );
        Some(Self { server: Running::with(&devices), file, _directory: directory })
    }

    fn client(&self, export: &str) -> Client {
        Client::open(self.server.socket(), export, ReplyForm::Simple)
    }

    /// A client with 100 requests without answers.
    fn stuck(&self, operation: u32) -> Client {
        let mut client = self.client("hung");
        for at in 0..100 {
            let (kind, length) = match operation {
                READ => (command::READ, 4_096),
                WRITE => (command::WRITE, 4_096),
                _ => (command::FLUSH, 0),
            };
            let offset = if length == 0 { 0 } else { at * 8_192 };
            let mut bytes = client.request(0, kind, at, offset, length);
            if kind == command::WRITE {
                bytes.resize(bytes.len() + 4_096, 7);
            }
            client.send(&bytes);
        }
        self.wait_until("requests hang", || self.file.held() > 0);
        client
    }

    fn wait_until(&self, what: &str, so: impl Fn() -> bool) {
        let start = Instant::now();
        while !so() {
            assert!(start.elapsed() < 2 * ANSWERED, "never: {what}");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Asks as an operator, who waits for half a minute.
    fn ctl(&self, request: &Value) -> Value {
        ask(&self.server.directory().join("control.sock"), request).unwrap()
    }

    fn export(&self, name: &str) -> Value {
        let status = self.ctl(&json!({"command": "status"}));
        status["ok"]["exports"].as_array().unwrap().iter().find(|it| it["name"] == name).unwrap().clone()
    }

    fn metrics(&self) -> String {
        let mut stream = UnixStream::connect(self.server.directory().join("metrics.sock")).unwrap();
        stream.set_read_timeout(Some(ANSWERED)).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

/// A client that writes and reads back until it is stopped.
struct Neighbour {
    export: &'static str,
    must_end: Arc<AtomicBool>,
    rounds: Arc<AtomicU64>,
    thread: JoinHandle<()>,
}

impl Neighbour {
    fn new(bench: &Bench, export: &'static str) -> Self {
        let mut client = bench.client(export);
        let (must_end, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (end, count) = (Arc::clone(&must_end), Arc::clone(&done));
        let thread = thread::spawn(move || {
            while !end.load(Ordering::Relaxed) {
                let rounds = count.load(Ordering::Relaxed);
                // Small ones and such as the kernel's workers do for a file in memory; a flush now
                // and then.
                let length = if rounds % 2 == 0 { 4_096 } else { 65_536 };
                let offset = rounds % 64 * 65_536;
                let data: Vec<u8> = (0..length).map(|at| (at as u64 * 31 + rounds).to_le_bytes()[0]).collect();
                assert_eq!(client.write(0, offset, &data).error, 0);
                assert!(client.read(offset, length as u64).data() == data, "{export}: other data");
                if rounds % FLUSHED == 0 {
                    assert_eq!(client.ask(0, command::FLUSH, 0, 0).error, 0);
                }
                count.store(rounds + 1, Ordering::Relaxed);
            }
        });
        Self { export, must_end, rounds: done, thread }
    }

    /// Waits until each of its operations has begun and ended from now on. One that waited for the hanging file would
    /// not end before that is released.
    fn goes_on(&self, bench: &Bench) {
        let rounds = || self.rounds.load(Ordering::Relaxed);
        let before = rounds();
        bench.wait_until(self.export, || rounds() > before + FLUSHED);
    }

    fn end(self) {
        self.must_end.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
    }
}

#[test]
fn a_backing_that_hangs_delays_its_own_clients_only() {
    for operation in [READ, WRITE, FSYNC] {
        let Some(bench) = Bench::new() else { return };
        let neighbours = ["memory", "disk", "far"].map(|export| Neighbour::new(&bench, export));
        bench.file.hang(&[operation]);
        let mut stuck = bench.stuck(operation);
        bench.wait_until("the status names the export", || bench.export("hung")["unanswered"]["oldest_s"].is_number());
        // Those that were queued before are held back now.
        thread::sleep(Duration::from_secs(1));
        let other = bench.export("far");
        assert!(other["unanswered"].is_null(), "{other}");
        assert!(bench.metrics().contains("hoistway_export_unanswered_seconds{device=\"mixed\",export=\"memory\"} 0"));
        let more = bench.client("memory");
        drop(more);
        neighbours.iter().for_each(|neighbour| neighbour.goes_on(&bench));
        bench.file.release();
        neighbours.into_iter().for_each(Neighbour::end);
        for at in 0..100 {
            let (kind, length) = if operation == READ { (command::READ, 4_096) } else { (command::WRITE, 0) };
            let reply = stuck.reply(kind, at * 8_192, length);
            assert_eq!(reply.error, 0, "{operation}: {at}");
        }
        bench.wait_until("it answers again", || bench.export("hung")["unanswered"].is_null());
        let devices = bench.ctl(&json!({"command": "status"}))["ok"]["devices"].clone();
        assert_eq!(devices[0]["violations"], 0, "{devices}");
        drop(stuck);
        bench.server.send(Event::Terminate);
        assert_eq!(bench.server.wait(), 0);
    }
}

#[test]
fn each_command_is_answered_while_a_backing_hangs() {
    let Some(bench) = Bench::new() else { return };
    bench.file.hang(&[READ, GETATTR]);
    let _stuck = bench.stuck(READ);
    bench.wait_until("the status names the export", || bench.export("hung")["unanswered"]["ios"].is_number());
    let ok = |request: &Value| {
        let answer = bench.ctl(request);
        assert!(answer["error"].is_null(), "{request}: {answer}");
    };
    ok(&json!({"command": "set", "group": "memory", "weight": 300}));
    ok(&json!({"command": "set", "group": "hung", "weight": 200}));
    ok(&json!({"command": "limit", "group": "memory", "file": "io.max", "line": "riops=100000"}));
    ok(&json!({"command": "export", "add": "new=memory:1MiB", "device": "mixed"}));
    ok(&json!({"command": "export", "remove": "new"}));
    // A switch waits for the I/O in flight, but not for what its backing does not answer.
    ok(&json!({"command": "scheduler", "scheduler": "wfq", "device": "mixed"}));
    bench.wait_until("the scheduler is another", || {
        let status = bench.ctl(&json!({"command": "status"}));
        status["ok"]["devices"][0]["scheduler"] == "wfq" && status["ok"]["devices"][0]["switching"] == false
    });
    // What waits for the hanging file is refused, and says so.
    let refused = |request: &Value, why: &str| {
        let answer = bench.ctl(request);
        assert!(answer["error"].as_str().is_some_and(|error| error.contains(why)), "{request}: {answer}");
    };
    refused(&json!({"command": "resize", "export": "hung"}), "has not told its size");
    let path = bench.file.path();
    let again = format!("twice={},read_only", path.display());
    refused(&json!({"command": "export", "add": again, "device": "other"}), "was not opened within 5 s");
    let reload = bench.ctl(&json!({"command": "reload"}));
    assert!(reload["ok"]["warnings"].to_string().contains("has not told its size"), "{reload}");
    assert!(bench.metrics().contains("hoistway_device_silent_seconds{device=\"mixed\"} 0"));
    // The connection is closed at once; what the kernel has of it is not waited for.
    let evicted = bench.ctl(&json!({"command": "evict", "export": "hung"}));
    assert!(evicted["ok"]["closed"] == 1 || evicted["error"].is_string(), "{evicted}");
    bench.file.release();
}

#[test]
fn a_drain_ends_in_time_although_a_backing_hangs() {
    for operation in [READ, FSYNC] {
        let Some(bench) = Bench::new() else { return };
        let mut far = bench.client("far");
        assert_eq!(far.write(0, 0, &[1; 4_096]).error, 0);
        bench.file.hang(&[operation]);
        let stuck = bench.stuck(operation);
        let start = Instant::now();
        bench.server.send(Event::Terminate);
        let Bench { server, file, _directory } = bench;
        assert_eq!(server.wait(), 1, "requests were abandoned");
        assert!(start.elapsed() < ANSWERED, "{:?}", start.elapsed());
        drop(stuck);
        file.release();
    }
}
