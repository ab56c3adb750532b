//! `hoistway stat`: a server's counters in the kernel's formats, and how long limits hold groups
//! back. Source: docs/specifications/harness.md, sections 10.1, 10.2 and 13, case 52.

#[path = "../../export/tests/client/mod.rs"]
mod client;
#[path = "program/mod.rs"]
#[expect(dead_code, reason = "other tests look into directories")]
mod program;
mod served;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use client::Client;
use hoistway_export::nbd::handshake::ReplyForm;
use program::{Said, hoistway};
use serde_json::Value;
use served::{Served, directory, sparse_file};

fn stat(served: &Served, arguments: &[&str]) -> Said {
    let socket = served.path("control.sock").display().to_string();
    let said = hoistway(Path::new("/"), &[&["stat", "--control", &socket], arguments].concat());
    assert_eq!(said.code, 0, "{arguments:?}: {}", said.stderr);
    said
}

/// The name of the only device, and its 17 numbers in the format of /proc/diskstats.
fn diskstats(served: &Served) -> (String, Vec<u64>) {
    let said = stat(served, &["--format", "diskstats"]);
    let words: Vec<&str> = said.stdout.split_whitespace().collect();
    assert_eq!(words.len(), 3 + 17, "{}", said.stdout);
    (words[2].to_owned(), words[3..].iter().map(|word| word.parse().expect("a number")).collect())
}

fn open(served: &Served, export: &str) -> Client {
    Client::open(&served.path("nbd.sock"), export, ReplyForm::Structured)
}

/// Of the only group's reads: their number, and the sum of their times from arrival to the end of
/// service, in nanoseconds.
fn own_counters(served: &Served) -> (u64, u64) {
    let status = served.status();
    let read = &status["groups"][0]["read"];
    let number = |name: &str| read[name].as_u64().unwrap_or(0);
    (number("requests"), number("queue_ns") + number("service_ns"))
}

#[test]
fn t52_the_formulas_of_iostat_give_what_the_engine_counts_itself() {
    let directory = directory();
    sparse_file(&directory.path().join("a.img"), 64 << 20);
    // Four milliseconds per read, so that rounding to milliseconds is small in comparison.
    let served = Served::flags(directory, &["--export", "a=model:null,latency_us=4000,@/a.img"]);
    let mut client = open(&served, "a");
    let mut read = |count: u64| {
        for number in 0..count {
            assert_eq!(client.read(number * 7_919 % 1_000 * 65_536, 4_096).error, 0);
        }
    };
    read(10);
    let (begin, (_, before), own_before) = (Instant::now(), diskstats(&served), own_counters(&served));
    read(100);
    // A read is counted a moment after its reply was sent.
    served::await_that("all reads are counted", || own_counters(&served).0 == own_before.0 + 100);
    let (passed, (name, after), own) = (begin.elapsed().as_secs_f64(), diskstats(&served), own_counters(&served));
    assert_eq!(name, served.status()["devices"][0]["name"]);
    let reads = after[0] - before[0];
    assert_eq!(reads, own.0 - own_before.0, "r/s is {} a second", reads as f64 / passed);
    assert_eq!(after[2] - before[2], 100 * 8, "sectors");
    let r_await_ms = (after[3] - before[3]) as f64 / reads as f64;
    let own_await_ms = (own.1 - own_before.1) as f64 / 1e6 / (own.0 - own_before.0) as f64;
    assert!((r_await_ms / own_await_ms - 1.0).abs() < 0.05, "r_await {r_await_ms} ms, our own {own_await_ms} ms");
    let busy_ms = (after[9] - before[9]) as f64;
    assert!((300.0..=passed * 1_000.0 + 2.0).contains(&busy_ms), "busy {busy_ms} ms of {passed} s");
    assert_eq!((after[4], after[8], after[11]), (0, 0, 0), "nothing written, in flight or discarded: {after:?}");
    client.write(0, 0, &[1; 8_192]);
    client.ask(0, hoistway_export::nbd::wire::command::TRIM, 0, 4_096);
    served::await_that("the write and the discard are counted", || {
        let (_, now) = diskstats(&served);
        (now[4], now[6], now[11], now[13]) == (1, 16, 1, 8)
    });
}

/// `key=value` of a line of io.stat.
fn value(line: &str, key: &str) -> f64 {
    let word = line.split_whitespace().find_map(|word| word.strip_prefix(&format!("{key}=")));
    word.unwrap_or_else(|| panic!("no {key} in {line}")).parse().expect("a number")
}

#[test]
fn a_limit_shows_in_io_stat_and_in_top() {
    let directory = directory();
    let exports = ["--export", "slow=memory:4MiB", "--export", "free=memory:4MiB"];
    let served = Served::flags(directory, &exports);
    let (said, code) = served.ctl(&["limit", "slow", "io.max", "rbps=1048576"]);
    assert_eq!(code, Some(0), "{said}");
    let is_over = Arc::new(AtomicBool::new(false));
    let readers = ["slow", "free"].map(|export| {
        let (mut client, is_over) = (open(&served, export), Arc::clone(&is_over));
        std::thread::spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                assert_eq!(client.read(0, 65_536).error, 0);
                std::thread::sleep(Duration::from_millis(1));
            }
        })
    });
    std::thread::sleep(Duration::from_millis(500));
    let said = stat(&served, &["--format", "io.stat", "-d", "1s"]);
    let line = |group: &str| {
        let line = said.stdout.lines().find_map(|line| line.strip_prefix(&format!("{group}/io.stat:0:0 ")));
        line.unwrap_or_else(|| panic!("no {group}: {}", said.stdout)).to_owned()
    };
    let (slow, free) = (line("slow"), line("free"));
    assert!(value(&slow, "throttled_us") > 500_000.0, "{slow}");
    assert_eq!(value(&free, "throttled_us"), 0.0, "{free}");
    assert!((value(&slow, "share_got") + value(&free, "share_got") - 1.0).abs() < 0.001);
    assert!(value(&slow, "rbytes") < 4e6 && value(&slow, "p99_us") >= value(&slow, "p50_us"), "{slow}");
    let alone = stat(&served, &["--format", "io.stat", "-d", "200ms", "--group", "slow"]);
    assert!(alone.stdout.starts_with("0:0 rbytes="), "{}", alone.stdout);
    let socket = served.path("control.sock").display().to_string();
    let top = ["top", "--control", &socket, "-b", "-n", "1", "-d", "1s", "--format"];
    let said = hoistway(Path::new("/"), &[&top[..], &["json"]].concat());
    let interval: Value = serde_json::from_str(&said.stdout).expect("JSON");
    let throttled = |name: &str| {
        let groups = interval["devices"][0]["groups"].as_array().expect("groups");
        groups.iter().find(|group| group["group"] == name).expect(name)["throttled_pct"].as_f64().expect("a share")
    };
    assert!(throttled("slow") > 80.0 && throttled("free") == 0.0, "{interval}");
    let lines = hoistway(Path::new("/"), &[&top[..], &["diskstats"]].concat());
    assert_eq!(lines.stdout.split_whitespace().count(), 20, "{}", lines.stdout);
    is_over.store(true, Ordering::Relaxed);
    readers.into_iter().for_each(|reader| reader.join().expect("a reader"));
}

#[test]
fn what_is_not_there_is_named_with_what_is() {
    let served = Served::flags(directory(), &["--export", "a=memory:4MiB"]);
    let socket = served.path("control.sock").display().to_string();
    let refused = |arguments: &[&str]| {
        let said = hoistway(Path::new("/"), &[&["stat", "--control", &socket], arguments].concat());
        assert_eq!(said.code, 2, "{}", said.stderr);
        said.stderr
    };
    assert!(refused(&["--device", "sdz"]).contains("there is no device 'sdz'"));
    let wrong = refused(&["--format", "io.stat", "-d", "10ms", "--group", "b"]);
    assert!(wrong.contains("there is no group 'b'") && wrong.contains("there are: a"), "{wrong}");
    assert!(refused(&["/etc/passwd"]).contains("/etc/passwd"));
    let unreachable = hoistway(Path::new("/"), &["stat", "--control", "/no/such.sock"]);
    assert!(unreachable.code == 1 && unreachable.stderr.contains("help:"), "{}", unreachable.stderr);
}
