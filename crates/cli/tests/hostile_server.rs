//! Text from a hostile server, trace or job file reaches neither the terminal as a command nor another line.

#[path = "program/mod.rs"]
#[expect(dead_code, reason = "other tests look into directories")]
mod program;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::thread;

use program::{Said, hoistway};
use serde_json::{Value, json};

/// Clears the screen and sets the title (ESC and C1), writes from right to left, and hides.
const EVIL: &str = "x\u{1b}[2J\u{1b}]0;t\u{7}\u{9b}31m\u{202e}\u{2066}\u{200b}\u{7f}\r\u{e0041}";

fn assert_harmless(what: &str, text: &str) {
    let acts = |it: char| {
        (it.is_control() && it != '\n' && it != '\t') || EVIL.chars().any(|evil| evil == it && !it.is_ascii())
    };
    let found = text.chars().find(|it| acts(*it));
    assert_eq!(found, None, "{what}: {text:?}");
}

/// A server that gives this answer to every request.
fn server(path: &Path, answer: &Value) {
    let listener = UnixListener::bind(path).unwrap();
    let line = format!("{answer}\n");
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = String::new();
            BufReader::new(&stream).read_line(&mut request).unwrap();
            // An operator that has seen enough closes the connection.
            let _ = stream.write_all(line.as_bytes());
        }
    });
}

fn status() -> Value {
    let flow = json!({"requests": 5, "bytes": 4096, "service_ns": 5, "errors": 0});
    let group = json!({"path": format!("{EVIL}/{EVIL}"), "device": EVIL, "weight": 100, "read": flow, "write": flow,
        "io.max": EVIL, "share": {"due_pct": 50.0, "why": EVIL}, "latency_buckets": {"read": [[1, 5]]}});
    json!({"ok": {
        "devices": [{"name": EVIL, "scheduler": EVIL, "queue_depth": 1, "tunables": {EVIL: EVIL}, "reasons": {EVIL: 1},
            "saturation": {"text": EVIL}, "ios_in_flight": EVIL}],
        "groups": [group],
        "exports": [{"name": EVIL, "device": EVIL, "node": EVIL, "size_bytes": 1, "served": true}],
        "connections": [{"export": EVIL, "device": EVIL, "client": EVIL, "in_flight": 1}],
    }})
}

#[test]
fn answers_of_a_hostile_server_do_not_act_on_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let socket = |name: &str| folder.path().join(name).display().to_string();
    server(Path::new(&socket("status")), &status());
    server(Path::new(&socket("refuse")), &json!({"error": EVIL, "field": EVIL}));
    server(Path::new(&socket("text")), &json!({"ok": {EVIL: EVIL, "list": [EVIL, {EVIL: {EVIL: EVIL}}]}}));
    let mut shown = 0;
    for name in ["status", "refuse", "text"] {
        for arguments in [
            &["ctl", "status", "-d", "10ms"][..],
            &["ctl", "status", "--all"],
            &["ctl", "status", "--json"],
            &["ctl", "reload"],
            &["ctl", "--color", "always", "drain"],
            &["top", "-b", "-n", "1", "-d", "10ms"],
            &["top", "-n", "1", "-d", "10ms", "--format", "json"],
            &["top", "-n", "1", "-d", "10ms", "--color", "always", "--device", "none"],
            &["stat", "-n", "1", "-d", "10ms"],
        ] {
            let said = hoistway(Path::new("/"), &[arguments, &["--control", &socket(name)]].concat());
            let Said { stdout, stderr, .. } = said;
            // The program's own colours.
            let stderr = stderr.replace("\u{1b}[31;1m", "").replace("\u{1b}[0m", "");
            assert_harmless(&format!("{name} {arguments:?}"), &(stdout.clone() + &stderr));
            shown += usize::from(stdout.contains("\\u202e") || stderr.contains("\\u202e"));
            if arguments.contains(&"--json") || arguments.contains(&"json") && !stdout.is_empty() {
                let answer: Value = serde_json::from_str(&stdout).expect("JSON stays valid");
                assert!(!answer.is_null());
            }
        }
    }
    assert!(shown > 15, "the names are shown in another form, not left out: {shown}");
}

#[test]
fn names_in_traces_and_job_files_do_not_act_on_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let file = EVIL.replace(['\r', '\u{200b}'], "");
    let log = format!("fio version 2 iolog\n/{file} add\n/{file} open\n/{file} read 0 4096\n/{file} write 8192 4096\n");
    fs::write(path("iolog"), log).unwrap();
    fs::write(path("evil.fio"), format!("[{file}]\nrw=read\nsize=1m\nnumber_ios=4\n[next]\nrw={file}\n")).unwrap();
    fs::write(path("good.fio"), format!("[{file}]\nrw=read\nsize=1m\nnumber_ios=4\n")).unwrap();
    for arguments in [
        &["trace", "info", &path("iolog")][..],
        &["trace", "cat", &path("iolog")],
        &["test", "model:sata", "--no-store", &path("evil.fio")],
        &["test", "model:sata", "--no-store", &path("good.fio")],
        &["test", "model:sata", "--no-store", "--format", "html", &path("good.fio")],
        &["list", "schedulers", &file],
        &["test", &format!("model:{file}")],
        &["restore", &file],
    ] {
        let said = hoistway(folder.path(), arguments);
        assert_harmless(&format!("{arguments:?}"), &(said.stdout + &said.stderr));
    }
}
