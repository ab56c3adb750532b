//! `hoistway trace`: what is printed and written, against blktrace's own tools and fio (harness specification, cases 31 and 34
//! to 38 end to end).

mod program;

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use program::{Said, entries, hoistway};
use serde_json::Value;

fn temporary() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

/// A table of I/Os as our own format has it: `count` of them, one every `gap_ns`, by two processes.
fn table(count: u64, gap_ns: u64) -> String {
    let mut text = String::from("time_ns,device,op,offset_bytes,length_bytes,flags,pid,comm,cpu,group,latency_ns\n");
    for number in 0..count {
        let (at_ns, pid) = (number * gap_ns, 1_000 + number % 2);
        let length = 512_u64 << (number % 8);
        // Multiples of their length: none crosses a border of the engine's parts.
        let offset = (number * 7_919 % 200) * 65_536 + number % 3 * length;
        let operation = ["read", "read", "write"][(number % 3) as usize];
        let flags = if operation == "write" { "S" } else { "" };
        let latency = 40_000 + number * 13 % 90_000;
        let _ = writeln!(text, "{at_ns},8:16,{operation},{offset},{length},{flags},{pid},w{pid},0,,{latency}");
    }
    text
}

fn write(directory: &Path, name: &str, content: impl AsRef<[u8]>) {
    std::fs::write(directory.join(name), content).expect("written");
}

fn ok(directory: &Path, arguments: &[&str]) -> Said {
    let said = hoistway(directory, arguments);
    assert_eq!(said.code, 0, "{arguments:?}: {}", said.stderr);
    said
}

fn info(directory: &Path, file: &str) -> Value {
    let all: Value = serde_json::from_str(&ok(directory, &["trace", "info", "--json", file]).stdout).expect("JSON");
    all[0].clone()
}

fn is_there(tool: &str) -> bool {
    let found = Command::new(tool).arg("--version").output().is_ok();
    if !found {
        println!("SKIPPED: {tool} is not installed");
    }
    found
}

fn said_by(directory: &Path, tool: &str, arguments: &[&str]) -> String {
    let output = Command::new(tool).args(arguments).current_dir(directory).output().expect("the tool starts");
    assert!(output.status.success(), "{tool} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn every_sample_is_told_about_and_survives_conversion() {
    let samples = concat!(env!("CARGO_MANIFEST_DIR"), "/../workload/tests/traces");
    for entry in std::fs::read_dir(samples).expect("samples").flatten() {
        let directory = temporary();
        let path = entry.path().display().to_string();
        let before = info(directory.path(), &path);
        assert!(before["ios"].as_u64().is_some_and(|ios| ios > 0), "{path}: {before}");
        ok(directory.path(), &["trace", "convert", &path, "--to", "csv", "--out", "t.csv"]);
        let after = info(directory.path(), "t.csv");
        for key in ["ios", "operations", "span_bytes"] {
            assert_eq!(before[key], after[key], "{path}: {key}");
        }
        ok(directory.path(), &["trace", "convert", "t.csv", "--to", "blktrace", "--out", "b"]);
        let binary = info(directory.path(), "b.blktrace.0");
        // An I/O beyond 2^32 bytes is none of blktrace's, but there is none here.
        assert_eq!((&binary["ios"], &binary["events"]["D"]), (&before["ios"], &before["ios"]), "{path}");
    }
}

#[test]
fn t31_a_converted_trace_is_the_same_to_blkparse_btt_and_us() {
    if !is_there("blkparse") || !is_there("btt") {
        return;
    }
    let directory = temporary();
    write(directory.path(), "t.csv", table(3_000, 100_000));
    ok(directory.path(), &["trace", "convert", "t.csv", "--to", "blktrace", "--out", "t"]);
    let parsed = said_by(directory.path(), "blkparse", &["-i", "t", "-d", "t.bin"]);
    let ours = ok(directory.path(), &["trace", "cat", "t"]).stdout;
    let theirs: String =
        parsed.lines().take_while(|line| !line.starts_with("CPU")).map(|line| format!("{line}\n")).collect();
    assert_eq!(ours.lines().count(), 15_000);
    assert!(ours == theirs, "blkparse and trace cat differ");
    assert!(parsed.contains("Skips: 0 forward"), "skipped records");
    let ours = info(directory.path(), "t");
    let averages = said_by(directory.path(), "btt", &["-i", "t.bin"]);
    for (name, key) in [("Q2C", "q2c"), ("D2C", "d2c")] {
        let line = averages.lines().find(|line| line.starts_with(name)).expect("a row");
        let average: f64 = line.split_whitespace().nth(2).expect("AVG").parse().expect("seconds");
        let mean_ns = ours["latency_ns"][key]["mean"].as_f64().expect("a mean");
        assert!((average * 1e9 - mean_ns).abs() < 1_000.0, "{name}: {average} s by btt, {mean_ns} ns by us");
    }
    // What blkparse wrote is read as well, and so are its lines.
    assert_eq!(info(directory.path(), "t.bin")["ios"], 3_000);
    write(directory.path(), "t.txt", &parsed);
    let text = info(directory.path(), "t.txt");
    assert_eq!((&text["ios"], &text["latency_ns"]), (&ours["ios"], &ours["latency_ns"]));
}

#[test]
fn fio_replays_what_we_write_and_we_read_what_fio_writes() {
    if !is_there("fio") {
        return;
    }
    let directory = temporary();
    let file = directory.path().join("data");
    std::fs::File::create(&file).and_then(|file| file.set_len(32 << 20)).expect("a file");
    let device = file.display().to_string();
    write(directory.path(), "t.csv", table(600, 10_000));
    ok(directory.path(), &["trace", "convert", "t.csv", "--to", "iolog3", "--out", "t.iolog", "--device", &device]);
    let usual = ["--name=j", "--ioengine=psync", "--size=32m", "--output-format=json"];
    let replayed = said_by(directory.path(), "fio", &[&usual[..], &["--read_iolog=t.iolog"]].concat());
    let json: Value = serde_json::from_str(&replayed[replayed.find('{').expect("JSON")..]).expect("JSON");
    let ours = info(directory.path(), "t.csv");
    for direction in ["read", "write"] {
        let counted = &json["jobs"][0][direction];
        let expected = &ours["operations"][direction];
        assert_eq!(
            (&counted["total_ios"], &counted["io_bytes"]),
            (&expected["count"], &expected["bytes"]),
            "{direction}"
        );
    }
    let more =
        ["--filename=data", "--rw=randrw", "--bs=4k,8k", "--number_ios=200", "--fsync=20", "--write_iolog=w.iolog"];
    let written = said_by(directory.path(), "fio", &[&usual[..], &more].concat());
    let json: Value = serde_json::from_str(&written[written.find('{').expect("JSON")..]).expect("JSON");
    let log = info(directory.path(), "w.iolog");
    assert_eq!(log["format"], "iolog");
    for direction in ["read", "write"] {
        assert_eq!(log["operations"][direction]["count"], json["jobs"][0][direction]["total_ios"], "{direction}");
    }
    // A job file with a log per group.
    ok(
        directory.path(),
        &["trace", "convert", "t.csv", "--to", "fio", "--out", "t.fio", "--groups-by", "comm", "--device", &device],
    );
    let replayed = said_by(directory.path(), "fio", &["t.fio", "--output-format=json", "--size=32m"]);
    let json: Value = serde_json::from_str(&replayed[replayed.find('{').expect("JSON")..]).expect("JSON");
    assert_eq!(json["jobs"].as_array().map(Vec::len), Some(2), "a job per process");
}

#[test]
fn wrong_traces_are_refused_in_one_line() {
    let directory = temporary();
    let refused = |arguments: &[&str], needed: &[&str]| {
        let said = hoistway(directory.path(), arguments);
        assert_eq!(said.code, 2, "{arguments:?}: {}", said.stderr);
        for text in needed {
            assert!(said.stderr.contains(text), "{text} is not in {}", said.stderr);
        }
    };
    write(directory.path(), "empty", "");
    write(directory.path(), "letter", "Dear Sir or Madam,\nthis is no trace.\n");
    write(directory.path(), "blob", [0x13, 0x37, 0, 1, 2, 3]);
    let mut lie = 0x6561_7407_u32.to_ne_bytes().to_vec();
    lie.resize(48, 0);
    let mut second = lie.clone();
    second[..4].reverse();
    write(directory.path(), "lie.blktrace.0", [lie, second].concat());
    refused(&["trace", "info", "none"], &["there is no trace none, nor none.blktrace.0"]);
    refused(&["trace", "info", "empty"], &["empty is empty"]);
    refused(&["trace", "info", "letter"], &["letter:1: the format is not recognised", "msr, alibaba"]);
    refused(&["trace", "info", "blob"], &["blob:byte 0: the format is not recognised"]);
    refused(&["trace", "info", "lie"], &["lie.blktrace.0:byte 48: bad magic", "byte-swapped"]);
    refused(&["trace", "cat", "letter", "--format", "msrr"], &["no format 'msrr'", "did you mean 'msr'"]);
    write(directory.path(), "eleven.csv", format!("128166372003061629,usr,0,Read,0,512,1\n{}", "garbage\n".repeat(11)));
    refused(
        &["trace", "cat", "eleven.csv", "--format", "msr"],
        &["eleven.csv:2: not 7 fields: 'garbage'", "eleven.csv:12: "],
    );
    refused(&["trace", "convert", "letter", "--to", "msr", "--out", "x"], &["invalid value 'msr'"]);
    assert_eq!(entries(directory.path()), ["blob", "eleven.csv", "empty", "letter", "lie.blktrace.0"]);
}
