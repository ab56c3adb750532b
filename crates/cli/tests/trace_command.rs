//! `hoistway trace`: its output, compared with blktrace's own tools and fio. Source:
//! docs/specifications/harness.md, section 13, cases 31 and 34 to 38 end to end.

mod program;

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use program::{Said, entries, hoistway};
use serde_json::Value;

fn temporary() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

/// A table of I/Os in our own format: `count` of them, one every `gap_ns`, by two processes.
fn table(count: u64, gap_ns: u64) -> String {
    let mut text = String::from("time_ns,device,op,offset_bytes,length_bytes,flags,pid,comm,cpu,group,latency_ns\n");
    for number in 0..count {
        let (at_ns, pid) = (number * gap_ns, 1_000 + number % 2);
        let length = 512_u64 << (number % 8);
        // Offsets are multiples of the length, so no I/O crosses a boundary at which the engine
        // splits I/Os into parts.
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
fn every_sample_is_described_and_survives_conversion() {
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
        // blktrace cannot represent an I/O beyond 2^32 bytes, but there is none here.
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
    // blkparse's binary and text output can be read as well.
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

/// I/Os of two devices at the same offsets.
fn two_devices() -> String {
    let mut text = String::from("time_ns,device,op,offset_bytes,length_bytes,flags,pid,comm,cpu,group,latency_ns\n");
    for number in 0..100_u64 {
        let (at_ns, offset, device) = (number * 10_000, number / 2 * 4_096, ["8:16", "8:32"][(number % 2) as usize]);
        let _ = writeln!(text, "{at_ns},{device},write,{offset},4096,S,7,w,0,,1000");
    }
    text
}

/// Each device becomes a separate file: if they shared one, the second would overwrite the data of
/// the first.
#[test]
fn devices_of_a_converted_trace_do_not_lie_over_one_another() {
    let directory = temporary();
    write(directory.path(), "t.csv", two_devices());
    let convert = ["trace", "convert", "t.csv", "--to", "iolog3", "--out"];
    let said = ok(directory.path(), &[&convert[..], &["t.iolog", "--device", "data"]].concat());
    assert!(said.stderr.contains("2 devices, one file each"), "{}", said.stderr);
    assert!(said.stderr.contains("8:16 is data, 8:32 is data.1"), "{}", said.stderr);
    ok(directory.path(), &[&convert[..], &["named.iolog", "--device", "first,second"]].concat());
    let files = |log: &str| {
        let text = std::fs::read_to_string(directory.path().join(log)).expect("a log");
        let count = |file: &str| text.lines().filter(|line| line.contains(&format!(" {file} write "))).count();
        [count("data"), count("data.1"), count("first"), count("second")]
    };
    assert_eq!((files("t.iolog"), files("named.iolog")), ([50, 50, 0, 0], [0, 0, 50, 50]));
    // Read back, they are two devices again.
    assert_eq!(info(directory.path(), "t.iolog")["devices"].as_array().map(Vec::len), Some(2));
    if !is_there("fio") {
        return;
    }
    let usual = ["--name=j", "--ioengine=psync", "--size=1m", "--output-format=json"];
    said_by(directory.path(), "fio", &[&usual[..], &["--read_iolog=t.iolog"]].concat());
    let written = |file: &str| std::fs::metadata(directory.path().join(file)).map(|it| it.len());
    assert!(written("data").is_ok() && written("data.1").is_ok(), "{:?}", entries(directory.path()));
    // The job file names no file to read and write: both fio and we use the names in its logs.
    ok(
        directory.path(),
        &["trace", "convert", "t.csv", "--to", "fio", "--out", "t.fio", "--device", "data", "--groups-by", "device"],
    );
    let replayed =
        said_by(directory.path(), "fio", &["t.fio", "--output-format=json", "--ioengine=psync", "--size=1m"]);
    let json: Value = serde_json::from_str(&replayed[replayed.find('{').expect("JSON")..]).expect("JSON");
    let written: u64 =
        json["jobs"].as_array().expect("jobs").iter().filter_map(|job| job["write"]["total_ios"].as_u64()).sum();
    assert_eq!(written, 100);
    ok(directory.path(), &["test", "model:ssd", "-w", "t.fio", "-s", "none", "--no-store", "--quiet"]);
}

/// The lines that a filter selects.
fn lines(directory: &Path, arguments: &[&str]) -> Vec<String> {
    ok(directory, &[&["trace", "cat", "--quiet"], arguments].concat()).stdout.lines().map(str::to_owned).collect()
}

#[test]
fn filters_by_time_device_action_and_process() {
    let directory = temporary();
    write(directory.path(), "t.csv", table(100, 1_000_000));
    ok(directory.path(), &["trace", "convert", "t.csv", "--to", "blktrace", "--out", "t"]);
    let count = |arguments: &[&str]| lines(directory.path(), &[&["t"], arguments].concat()).len();
    assert_eq!(count(&[]), 500);
    assert_eq!(count(&["--actions", "Q,D"]), 200);
    assert_eq!(count(&["--time", "10ms-20ms", "--actions", "Q"]), 10);
    assert_eq!((count(&["--devices", "8:16"]), count(&["--devices", "8:16,9:0", "--actions", "C"])), (500, 100));
    // By name or number; completions have no process of their own and belong to the process of the
    // I/O.
    assert_eq!(count(&["--processes", "w1000"]), 250);
    assert_eq!((count(&["--processes", "1001", "--actions", "C"]), count(&["--processes", "1000,w1001"])), (50, 500));
    ok(directory.path(), &["trace", "convert", "t", "--to", "csv", "--out", "w.csv", "--processes", "w1001"]);
    let part = info(directory.path(), "w.csv");
    assert_eq!((&part["ios"], part["latency_ns"]["q2c"]["n"].as_u64()), (&Value::from(50), Some(50)), "{part}");
    for (arguments, needed) in [
        (["--actions", "Y"], "there is no action 'Y'"),
        (["--devices", "8:99"], "the filters leave nothing"),
        (["--time", "9-5"], "not a time range"),
    ] {
        let said = hoistway(directory.path(), &[&["trace", "cat", "t"], &arguments[..]].concat());
        assert!(said.code == 2 && said.stderr.contains(needed), "{arguments:?}: {}", said.stderr);
    }
}

#[test]
fn compressed_traces_are_read_as_they_are() {
    let directory = temporary();
    write(directory.path(), "t.csv", table(20_000, 100_000));
    ok(directory.path(), &["trace", "convert", "t.csv", "--to", "blktrace", "--out", "t"]);
    let plain = lines(directory.path(), &["t.csv"]);
    assert_eq!(plain.len(), 20_000);
    for (tool, ending) in [("gzip", "gz"), ("zstd", "zst")] {
        if !is_there(tool) {
            continue;
        }
        for file in ["t.csv", "t.blktrace.0"] {
            let packed = format!("{file}.{ending}");
            // Two concatenated parts, as parallel compressors write them.
            let content = std::fs::read(directory.path().join(file)).expect("read");
            let (first, second) = content.split_at(content.len() / 2);
            let mut all = Vec::new();
            for part in [first, second] {
                write(directory.path(), "part", part);
                let output =
                    Command::new(tool).args(["-c", "part"]).current_dir(directory.path()).output().expect("packs");
                all.extend(output.stdout);
            }
            write(directory.path(), &packed, &all);
            assert!(lines(directory.path(), &[&packed]) == lines(directory.path(), &[file]), "{packed}");
            write(directory.path(), "cut", &all[..all.len() - 100]);
            let said = hoistway(directory.path(), &["trace", "cat", "cut"]);
            assert!(said.code == 1 && said.stderr.contains("cut"), "{}: {}", said.code, said.stderr);
        }
    }
}

#[test]
fn what_fails_leaves_nothing_and_what_is_there_stays() {
    let directory = temporary();
    write(directory.path(), "good.csv", table(10, 1_000));
    write(directory.path(), "bad.csv", format!("{}{}", table(30, 1_000), "rubbish\n".repeat(11)));
    for (to, out) in
        [("csv", "o.csv"), ("blkparse", "o.txt"), ("iolog3", "o.iolog"), ("fio", "o.fio"), ("blktrace", "o")]
    {
        let convert = |file: &str, more: &[&str]| {
            hoistway(directory.path(), &[&["trace", "convert", file, "--to", to, "--out", out], more].concat())
        };
        let before = entries(directory.path());
        let said = convert("bad.csv", &[]);
        assert_eq!((said.code, entries(directory.path())), (2, before), "{to}: {}", said.stderr);
        let said = convert("bad.csv", &["--skip-damaged"]);
        assert!(said.code == 0 && said.stderr.contains("11 x damaged"), "{to}: {}", said.stderr);
        let made = entries(directory.path());
        let said = convert("good.csv", &[]);
        assert!(
            said.code == 1 && said.stderr.contains("exists") && said.stderr.contains("--force"),
            "{to}: {}",
            said.stderr
        );
        assert_eq!(convert("good.csv", &["--force"]).code, 0, "{to}");
        assert_eq!(entries(directory.path()), made, "{to}");
    }
    assert_eq!(info(directory.path(), "o.csv")["ios"], 10);
    assert_eq!(info(directory.path(), "o")["ios"], 10);
    // No file of a larger earlier set stays beside the new one.
    write(directory.path(), "o.blktrace.1", "");
    ok(directory.path(), &["trace", "convert", "good.csv", "--to", "blktrace", "--out", "o", "--force"]);
    assert!(!entries(directory.path()).contains(&"o.blktrace.1".to_owned()));
}

#[test]
fn a_trace_goes_to_standard_output() {
    let directory = temporary();
    write(directory.path(), "t.csv", table(300, 100_000));
    let out = |to: &str| {
        let arguments = ["trace", "convert", "t.csv", "--to", to, "--out", "-", "--quiet"];
        let output =
            Command::new(env!("CARGO_BIN_EXE_hoistway")).args(arguments).current_dir(directory.path()).output();
        let output = output.expect("it starts");
        assert!(output.status.success(), "{to}: {}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    for to in ["csv", "blkparse", "iolog3", "blktrace"] {
        write(directory.path(), "piped", out(to));
        assert_eq!(info(directory.path(), "piped")["ios"], 300, "{to}");
    }
    if is_there("blkparse") {
        write(directory.path(), "piped", out("blktrace"));
        let piped = said_by(directory.path(), "sh", &["-c", "blkparse -i - <piped"]);
        ok(directory.path(), &["trace", "convert", "t.csv", "--to", "blktrace", "--out", "t"]);
        let events = |text: &str| text.lines().take_while(|line| !line.starts_with("CPU")).count();
        assert_eq!(events(&piped), events(&said_by(directory.path(), "blkparse", &["-i", "t"])), "{piped}");
    }
    let said = hoistway(directory.path(), &["trace", "convert", "t.csv", "--to", "fio", "--out", "-"]);
    assert!(said.code == 2 && said.stderr.contains("a directory for its logs"), "{}", said.stderr);
    // A device is written to, never replaced.
    ok(directory.path(), &["trace", "convert", "t.csv", "--to", "csv", "--out", "/dev/null", "--force"]);
    assert!(!std::fs::metadata("/dev/null").expect("there").is_file());
}

/// Completions alone, as `blktrace -a complete` records them.
#[test]
fn a_trace_of_completions_is_counted_converted_and_replayed_by_them() {
    let directory = temporary();
    let line = |number: u64| format!("7,0 2 {} 0.000{:06} 6695 C R {} + 1 [0]\n", number + 1, number * 20, number * 8);
    write(directory.path(), "t.txt", (0..20).map(line).collect::<String>());
    let info = info(directory.path(), "t.txt");
    assert_eq!((info["stage"].as_str(), info["ios"].as_u64()), (Some("C"), Some(20)), "{info}");
    assert_eq!(info["operations"]["read"]["bytes"], 20 * 512);
    ok(directory.path(), &["trace", "convert", "t.txt", "--to", "csv", "--out", "t.csv"]);
    let table = std::fs::read_to_string(directory.path().join("t.csv")).expect("written");
    assert_eq!(table.lines().filter(|line| line.contains(",read,")).count(), 20, "{table}");
    let said = ok(directory.path(), &["replay", "t.txt", "model:ssd", "-s", "none", "--no-store", "--format", "json"]);
    let result: Value = serde_json::from_str(&said.stdout).expect("JSON");
    assert_eq!(result["cells"][0]["errors"], 0, "{}", said.stdout);
}

#[test]
fn gaps_of_hours_have_their_percentiles() {
    let directory = temporary();
    let mut text = String::from("time_ns,device,op,offset_bytes,length_bytes,flags,pid,comm,cpu,group,latency_ns\n");
    let mut at_s = 0_u64;
    for number in 0..100 {
        let _ = writeln!(text, "{},8:16,read,{},4096,,1,a,0,,30000000000", at_s * 1_000_000_000, number * 4096);
        at_s += if number % 10 == 9 { 7_200 } else { 25 };
    }
    write(directory.path(), "t.csv", text);
    let info = info(directory.path(), "t.csv");
    let near = |value: &Value, seconds: f64| (value.as_f64().unwrap_or(0.0) / 1e9 / seconds - 1.0).abs() < 1.0 / 64.0;
    assert!(near(&info["gap_ns"]["p50"], 25.0) && near(&info["gap_ns"]["p99"], 7_200.0), "{info}");
    assert!(near(&info["latency_ns"]["q2c"]["p50"], 30.0), "{info}");
}

#[test]
fn packings_that_are_not_read_are_named() {
    let directory = temporary();
    for (name, begin) in [("xz", &b"\xfd7zXZ\0rest"[..]), ("bzip2", b"BZh91AY&SY"), ("zip", b"PK\x03\x04rest")] {
        write(directory.path(), "t", begin);
        let said = hoistway(directory.path(), &["trace", "info", "t"]);
        let expected = format!("this is {name}; unpack it first");
        assert!(said.code == 2 && said.stderr.contains(&expected), "{}", said.stderr);
    }
}
