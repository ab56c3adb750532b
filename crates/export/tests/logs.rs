//! The server's log: the events of a connection with their sums, errors of a backing, changes by an
//! operator, reloads, and the bound on lines. All servers of this process share one log; each test
//! finds its own lines by the names of its exports and groups.

mod client;
mod server;

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, Once, PoisonError};
use std::time::{Duration, Instant};

use client::Client;
use hoistway_export::control::socket::ask;
use hoistway_export::log::{self, LogOverrides, LogSettings};
use hoistway_export::nbd::handshake::ReplyForm;
use hoistway_export::nbd::wire::{command, error};
use hoistway_export::server::Event;
use serde_json::{Value, json};
use server::Running;

/// What the log has written.
static WRITTEN: Mutex<Vec<u8>> = Mutex::new(Vec::new());

/// Keeps what is written, and fails as a full disk does, which must disturb nothing.
struct Sink;

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        WRITTEN.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Err(io::Error::from(io::ErrorKind::StorageFull))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn start_log() {
    static START: Once = Once::new();
    START.call_once(|| {
        let given = LogOverrides {
            format: Some(log::Format::Json),
            filter: Some("info,listener=debug".parse().expect("a filter")),
        };
        // It lasts as long as the process.
        std::mem::forget(log::start(given, &LogSettings::default(), Box::new(Sink)));
    });
}

/// All events in which some field has this value.
fn events_with(value: &str) -> Vec<Value> {
    let written = WRITTEN.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let text = String::from_utf8(written).expect("UTF-8");
    let events = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap_or_else(|_| panic!("{line}")));
    events.filter(|event| event.as_object().expect("an object").values().any(|field| field == value)).collect()
}

/// Waits until there is an event of this name with this value.
#[track_caller]
fn await_event(name: &str, value: &str) -> Value {
    let start = Instant::now();
    loop {
        if let Some(event) = events_with(value).into_iter().find(|event| event["event"] == name) {
            return event;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "no {name} with {value}: {:#?}", events_with(value));
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn names(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["event"].as_str().expect("a name")).collect()
}

fn of_memory(export: &str, group: &str) -> String {
    format!(
        "[[device]]\nname = \"dev-{export}\"\n[[device.export]]\nname = \"{export}\"\nbacking = \"memory:1MiB\"\ngroup = \"{group}\"\n"
    )
}

/// A request to the control socket; returns the answer.
fn operate(running: &Running, request: &Value) -> Value {
    ask(&running.directory().join("control.sock"), request).unwrap()
}

#[test]
fn the_life_of_a_connection_is_two_events_with_its_sums() {
    start_log();
    let uid = rustix::process::geteuid().as_raw();
    let identity = format!("{}[[identity]]\nuid = {uid}\ngroup = \"life-identity\"\n", of_memory("life", "life-group"));
    let running = Running::with(&identity);
    let mut client = Client::open(running.socket(), "life", ReplyForm::Structured);
    for at in 0..3 {
        assert_eq!(client.write(0, at * 4096, &[1; 4096]).error, 0);
    }
    assert_eq!(client.read(0, 8192).error, 0);
    assert_eq!(client.ask(0, command::WRITE_ZEROES, 0, 1 << 20).error, 0);
    assert_eq!(client.ask(0, command::TRIM, 0, 1 << 19).error, 0);
    assert_eq!(client.read(1 << 20, 4096).error, error::EINVAL, "behind the end");
    client.send(&client.request(0, command::DISCONNECT, 1, 0, 0));
    client.assert_closed();
    let end = await_event("disconnect", "life");
    let events = events_with("life");
    assert_eq!(names(&events), ["connect", "disconnect"]);
    let name = format!("pid:{}", std::process::id());
    let listener = format!("unix:{}", running.socket().display());
    for event in &events {
        assert_eq!((&event["level"], &event["target"]), (&json!("info"), &json!("client")));
        assert_eq!((&event["client"], &event["group"]), (&json!(name), &json!("life-identity")));
        assert_eq!((&event["device"], &event["listener"]), (&json!("dev-life"), &json!(listener)));
    }
    assert_eq!(events[0]["identity"], json!(format!("uid={uid}")));
    assert_eq!(end["reason"], "disconnected");
    assert_eq!((&end["requests"], &end["errors"]), (&json!(7), &json!(1)), "{end}");
    assert_eq!((&end["read_bytes"], &end["written_bytes"]), (&json!(8192), &json!(12288)), "{end}");
    assert_eq!((&end["zeroed_bytes"], &end["trimmed_bytes"]), (&json!(1 << 20), &json!(1 << 19)), "{end}");
    let duration_s = end["duration_s"].as_f64().unwrap();
    assert!(duration_s > 0.0 && duration_s < 60.0, "{end}");
}

#[test]
fn every_end_has_its_reason() {
    start_log();
    for (export, reason, level) in [
        ("end-closed", "closed", "info"),
        ("end-invalid", "invalid", "warn"),
        ("end-stalled", "stalled", "warn"),
        ("end-evicted", "evicted", "info"),
        ("end-stopped", "stopped", "info"),
    ] {
        let running = Running::listening("stall_timeout_s = 1", &of_memory(export, export));
        let mut client = Client::open(running.socket(), export, ReplyForm::Simple);
        assert_eq!(client.read(0, 512).error, 0);
        match reason {
            "stalled" => {
                let mut half = client.request(0, command::WRITE, 7, 0, 4096);
                half.extend([0; 2048]);
                client.send(&half);
                client.assert_closed();
            }
            "closed" => drop(client),
            "invalid" => {
                client.send(&[0xff; 28]);
                client.assert_closed();
            }
            "evicted" => {
                assert_eq!(operate(&running, &json!({"command": "evict", "export": export}))["ok"]["closed"], 1);
                assert_eq!(await_event("evict", export)["target"], "control");
            }
            _ => {
                running.send(Event::Terminate);
                assert_eq!(running.wait(), 0);
            }
        }
        let end = await_event("disconnect", export);
        assert_eq!((&end["reason"], &end["level"]), (&json!(reason), &json!(level)), "{end}");
        // The write whose data did not arrive is one that failed.
        let incomplete = u64::from(reason == "stalled");
        assert_eq!((&end["requests"], &end["read_bytes"]), (&json!(1 + incomplete), &json!(512)), "{end}");
        assert_eq!((&end["errors"], &end["written_bytes"]), (&json!(incomplete), &json!(0)), "{end}");
        assert_eq!(events_with(export).iter().filter(|event| event["event"] == "disconnect").count(), 1);
    }
}

/// Serves a file of 1 MiB as `export`, and truncates it to half.
fn truncated(export: &str) -> Running {
    let directory = tempfile::tempdir().unwrap().keep();
    let path = directory.join("backing");
    let file = File::create(&path).unwrap();
    file.set_len(1 << 20).unwrap();
    let running = Running::with(&format!(
        "[[device]]\nname = \"dev-{export}\"\n[[device.export]]\nname = \"{export}\"\nbacking = \"{}\"\n",
        path.display()
    ));
    file.set_len(1 << 19).unwrap();
    running
}

/// One test, because all errors of the process count for the same bound.
#[test]
fn errors_of_a_backing_have_a_place_and_of_many_the_log_has_some() {
    start_log();
    let running = truncated("short");
    let mut client = Client::open(running.socket(), "short", ReplyForm::Structured);
    assert_eq!(client.read(0, 4096).error, 0);
    let offset = (1 << 19) + 8192;
    assert_eq!(client.read(offset, 4096).error, error::EIO);
    let failed = await_event("backing_error", "short");
    assert_eq!((&failed["level"], &failed["target"]), (&json!("error"), &json!("backing")));
    assert_eq!((&failed["device"], &failed["operation"]), (&json!("dev-short"), &json!("read")));
    assert_eq!((&failed["offset_bytes"], &failed["length_bytes"]), (&json!(offset), &json!(4096)), "{failed}");
    assert_eq!((&failed["errno"], &failed["error"]), (&Value::Null, &json!("the backing ends before")));
    let damaged = await_event("export_damaged", "short");
    assert_eq!((&damaged["level"], &damaged["damage"]), (&json!("error"), &json!("truncated")), "{damaged}");
    // What lies behind the end is refused from now on, so the many errors come from bad sectors.
    let running = Running::with(
        "[[device]]\nname = \"dev-bad\"\n[[device.export]]\nname = \"bad-sectors\"\n\
         backing = \"model:null,bad_first_sector=8,bad_sectors=8,memory:1MiB\"\n",
    );
    let mut client = Client::open(running.socket(), "bad-sectors", ReplyForm::Structured);
    for _ in 0..300 {
        assert_eq!(client.read(4096, 4096).error, error::EIO);
    }
    client.assert_alive();
    let left_out = await_event("left_out", "backing_error");
    assert_eq!((&left_out["level"], &left_out["target"]), (&json!("error"), &json!("backing")));
    let start = Instant::now();
    loop {
        let written =
            events_with("bad-sectors").iter().filter(|event| event["event"] == "backing_error").count() as u64;
        let left_out = events_with("left_out").into_iter().filter(|event| event["kind"] == "backing_error");
        let left_out: u64 = left_out.map(|event| event["count"].as_u64().unwrap()).sum();
        if written + left_out == 300 {
            // Fifty in ten seconds, and the reads may take longer than ten.
            assert!((49..250).contains(&written), "{written}");
            return;
        }
        assert!(written + left_out < 300 && start.elapsed() < Duration::from_secs(60), "{written} and {left_out}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn changes_by_an_operator_are_events() {
    start_log();
    let running = Running::with(&of_memory("ops", "ops-group"));
    let _client = Client::open(running.socket(), "ops", ReplyForm::Simple);
    let requests = [
        json!({"command": "set", "group": "ops-group", "weight": 700}),
        json!({"command": "limit", "group": "ops-group", "file": "io.max", "line": "rbps=50000000"}),
        json!({"command": "scheduler", "scheduler": "wfq"}),
    ];
    for request in &requests {
        let answer = operate(&running, request);
        assert!(answer.get("ok").is_some(), "{answer}");
    }
    let share = await_event("share", "ops-group");
    assert_eq!((&share["property"], &share["value"]), (&json!("weight"), &json!("700")));
    assert_eq!(await_event("limit", "ops-group")["line"], "rbps=50000000");
    let scheduler = await_event("scheduler", "dev-ops");
    assert_eq!((&scheduler["target"], &scheduler["scheduler"]), (&json!("control"), &json!("wfq")));
    let refused = operate(&running, &json!({"command": "set", "group": "ops-none", "weight": 7}));
    assert!(refused.get("error").is_some());
    assert!(events_with("ops-none").is_empty(), "refusals are of level debug");
}

fn rewrite(directory: &Path, from: &str, to: &str) {
    let path = directory.join("serve.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "{text}");
    std::fs::write(&path, text.replacen(from, to, 1)).unwrap();
}

#[test]
fn a_reload_tells_what_changed_or_why_it_was_refused() {
    start_log();
    let devices = format!("{}[[group]]\npath = \"again\"\nweight = 300\n", of_memory("again", "again"));
    let running = Running::with(&devices);
    rewrite(running.directory(), "weight = 300", "weight = 7");
    assert_eq!(operate(&running, &json!({"command": "reload"}))["ok"]["changes"], 1);
    let reload = await_event("reload", "weight of again 7");
    assert_eq!((&reload["level"], &reload["changes"]), (&json!("info"), &json!(1)));
    rewrite(running.directory(), "memory:1MiB", "memory:2MiB");
    running.send(Event::Reload);
    let start = Instant::now();
    let is_problem = |event: &Value| {
        event["event"] == "problem"
            && event["message"].as_str().is_some_and(|text| text.contains("backing of export again"))
    };
    while !events_with("problem").iter().any(is_problem) {
        assert!(start.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(await_event("reload_refused", "warn")["problems"], 1);
}

#[test]
fn a_client_that_is_not_let_in_is_an_event() {
    start_log();
    let running = Running::listening("max_connections = 1", &of_memory("full", "full"));
    let listener = format!("unix:{}", running.socket().display());
    let held = Client::open(running.socket(), "full", ReplyForm::Simple);
    await_event("connect", "full");
    let mut refused = std::os::unix::net::UnixStream::connect(running.socket()).unwrap();
    let mut nothing = Vec::new();
    let _ = io::Read::read_to_end(&mut refused, &mut nothing);
    let event = await_event("admission_refused", &listener);
    assert_eq!((&event["level"], &event["client"]), (&json!("warn"), &json!(format!("pid:{}", std::process::id()))));
    drop(held);
    await_event("disconnect", "full");
    running.await_that("the place is free", |status| status["listeners"][0]["connections"] == 0);
    let mut hostile = Client::connect(running.socket(), 3);
    hostile.send(&[0; 64]);
    hostile.assert_closed();
    let failed = await_event("handshake_failed", &listener);
    assert_eq!((&failed["reason"], &failed["level"]), (&json!("invalid"), &json!("warn")));
}
