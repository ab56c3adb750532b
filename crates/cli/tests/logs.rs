//! The log of `hoistway serve`: its options and keys, and that no reader of it can stop the server.

mod served;

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use served::{Served, directory, hoistway, run_command, sparse_file, wait_for_exit};

const FILE: &str = "[[device]]\nname = \"d\"\nmemory = \"64MiB\"\n[[device.export]]\nname = \"a\"\nbacking = \"memory:1MiB\"\n\
                    [[listen]]\nunix = \"@/nbd.sock\"\n[control]\nunix = \"@/control.sock\"\n[[group]]\npath = \"unused\"\n";

/// The command that serves a file in the directory; `@` in the file stands for the directory.
fn serve(directory: &tempfile::TempDir, text: &str, options: &[&str]) -> Command {
    let place = directory.path().display().to_string();
    std::fs::write(directory.path().join("serve.toml"), text.replace('@', &place)).unwrap();
    let mut command = hoistway();
    command.arg("serve").args(options).arg(directory.path().join("serve.toml")).env_remove("JOURNAL_STREAM");
    command
}

/// Serves until it is told to end; returns what it wrote to standard error.
fn log_of(text: &str, options: &[&str]) -> String {
    let directory = directory();
    let mut command = serve(&directory, text, options);
    command.stderr(Stdio::piped());
    let mut served = Served::start(directory, command, 1);
    let mut client = UnixStream::connect(served.path("nbd.sock")).unwrap();
    client.read_exact(&mut [0; 18]).unwrap();
    drop(client);
    served::await_that("the client is gone", || served.status()["listeners"][0]["connections"] == 0);
    assert_eq!(served.ctl(&["set", "group", "a", "300"]).1, Some(0));
    served.signal("TERM");
    assert_eq!(wait_for_exit(&mut served.child).code(), Some(0));
    let mut said = String::new();
    served.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    said
}

#[test]
fn people_read_sentences() {
    let said = log_of(FILE, &[]);
    let lines: Vec<&str> = said.lines().collect();
    let version = env!("CARGO_PKG_VERSION");
    assert!(lines[0].starts_with("hoistway: warning: ") && lines[0].contains("uses the group unused"), "{said}");
    assert_eq!(lines[1], format!("hoistway: note: hoistway {version} serves 1 export on 1 device"));
    assert!(lines.contains(&"hoistway: note: group a: ctl set weight to 300"), "{said}");
    assert!(
        lines.last().unwrap().starts_with(&format!("hoistway: note: hoistway {version} ends with status 0")),
        "{said}"
    );
}

#[test]
fn the_level_is_an_option_and_a_key_and_the_option_counts() {
    assert_eq!(log_of(FILE, &["--log-level", "error"]), "");
    let with_key = format!("{FILE}[log]\nlevel = \"error\"\n");
    assert_eq!(log_of(&with_key, &[]), "");
    let said = log_of(&with_key, &["--log-level", "off,control=info"]);
    assert_eq!(said, "hoistway: note: group a: ctl set weight to 300\n");
    let said = log_of(FILE, &["--log-level", "error,listener=debug"]);
    assert!(said.starts_with("hoistway: debug: client pid:") && said.lines().count() == 1, "{said}");
}

#[test]
fn programs_read_json() {
    let said = log_of(&format!("{FILE}[log]\nformat = \"json\"\n"), &[]);
    let events: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let names: Vec<&str> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!(names, ["configuration_warning", "start", "share", "drain_begin", "drain_end", "end"], "{said}");
    assert_eq!(events[1]["exports"], 1);
    assert_eq!(events[5]["exit_status"], 0);
    for event in &events {
        assert!(["time", "level", "target", "message"].iter().all(|key| event[key].is_string()), "{event}");
    }
}

#[test]
fn the_journal_reads_priorities() {
    let said = log_of(FILE, &["--log-format", "journald"]);
    assert!(said.starts_with("<4>") && said.contains("\n<6>group a: ctl set weight to 300\n"), "{said}");
    assert!(!said.contains("hoistway: note:"), "{said}");
    // `auto` is this form if standard error is the journal's stream.
    let directory = directory();
    let path = directory.path().join("stderr");
    let file = File::create(&path).unwrap();
    let own = file.metadata().unwrap();
    for (inode, is_journal) in [(own.ino(), true), (own.ino() + 1, false)] {
        let mut command = serve(&directory, FILE, &["--check"]);
        command.env("JOURNAL_STREAM", format!("{}:{inode}", own.dev())).stdout(Stdio::null());
        file.set_len(0).unwrap();
        assert!(command.stderr(File::options().append(true).open(&path).unwrap()).status().unwrap().success());
        let said = std::fs::read_to_string(&path).unwrap();
        assert_eq!(said.starts_with("<4>"), is_journal, "{said}");
        assert_eq!(said.starts_with("hoistway: warning: "), !is_journal, "{said}");
    }
}

#[test]
fn a_reload_changes_the_level() {
    let directory = directory();
    let mut command = serve(&directory, FILE, &[]);
    command.stderr(Stdio::piped());
    let mut served = Served::start(directory, command, 1);
    let path = served.path("serve.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, format!("{text}[log]\nlevel = \"off\"\n")).unwrap();
    assert_eq!(served.ctl(&["reload"]).1, Some(0));
    assert_eq!(served.ctl(&["set", "group", "a", "300"]).1, Some(0));
    served.signal("TERM");
    assert_eq!(wait_for_exit(&mut served.child).code(), Some(0));
    let mut said = String::new();
    served.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(
        said.contains(" serves 1 export on 1 device\n") && !said.contains("ctl set") && !said.contains("ends"),
        "{said}"
    );
}

#[test]
fn wrong_settings_are_refused_with_the_nearest_word() {
    let refused = |text: &str, options: &[&str], parts: &[&str]| {
        let directory = directory();
        let output = run_command(serve(&directory, text, options).arg("--check"));
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.starts_with("hoistway: error: ") && parts.iter().all(|part| said.contains(part)), "{said}");
    };
    refused(FILE, &["--log-level", "inof"], &["did you mean info?", "--log-level"]);
    refused(FILE, &["--log-level", "cleint=info"], &["did you mean client?"]);
    refused(FILE, &["--log-format", "xml"], &["auto, human, json, journald"]);
    refused(&format!("{FILE}[log]\nlevel = \"loud\"\n"), &[], &["serve.toml:", "level: \"loud\" is no level"]);
    refused(&format!("{FILE}[log]\nformat = \"jsn\"\n"), &[], &["did you mean \"json\"?"]);
    refused(&format!("{FILE}[log]\nfile = \"x\"\n"), &[], &["[log] has no key file"]);
}

#[test]
fn check_prints_the_log_s_settings() {
    let directory = directory();
    let output = run_command(serve(&directory, FILE, &[]).arg("--check"));
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(shown.contains("[log]\nformat = \"auto\"\nlevel = \"info\"\n"), "{shown}");
}

/// Opens and closes `count` connections without a word.
fn knock(served: &Served, count: usize) {
    for _ in 0..count {
        drop(UnixStream::connect(served.path("nbd.sock")).unwrap());
    }
}

#[test]
fn a_log_without_a_reader_stops_nothing() {
    let closed = || {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        Stdio::from(OwnedFd::from(writer))
    };
    // Nothing is read from this pipe, and it is kept full.
    let (kept, mut filled) = std::io::pipe().unwrap();
    let full = filled.try_clone().unwrap();
    let filler = thread::spawn(move || filled.write_all(&vec![b'x'; 2 << 20]).is_err());
    let dev_full = File::options().write(true).open("/dev/full").unwrap();
    for stderr in [closed(), Stdio::from(OwnedFd::from(full)), Stdio::from(dev_full)] {
        let directory = directory();
        sparse_file(&directory.path().join("x.img"), 1 << 20);
        let mut command = serve(&directory, FILE, &["--log-level", "debug", "--log-format", "json"]);
        command.stderr(stderr);
        let mut served = Served::start(directory, command, 1);
        knock(&served, 100);
        for _ in 0..100 {
            assert_eq!(served.ctl(&["set", "group", "none", "300"]).1, Some(2));
        }
        assert_eq!(served.status()["draining"], false);
        let start = Instant::now();
        served.signal("TERM");
        assert_eq!(wait_for_exit(&mut served.child).code(), Some(0));
        assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
    }
    drop(kept);
    assert!(filler.join().unwrap(), "the pipe was never read");
}
