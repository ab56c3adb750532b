//! `--trace-out`: the trace files that hoistway writes, checked with the tools of blktrace. Source:
//! docs/specifications/harness.md, section 13, cases 31 to 33.

mod program;

use std::path::Path;
use std::process::Command;

use program::{Said, entries, hoistway};
use serde_json::Value;

/// Runs a test with traces in `directory` and returns its JSON.
fn traced(directory: &Path, arguments: &[&str]) -> Result<Value, Said> {
    let usual = ["test", "--ramp", "0", "--no-store", "--format", "json", "--trace-out", "t"];
    let said = hoistway(directory, &[&usual, arguments].concat());
    if said.code == 0 { Ok(serde_json::from_str(&said.stdout).expect("JSON")) } else { Err(said) }
}

/// Whether the tools are installed; if not, prints a message.
fn has_tools(test: &str) -> bool {
    let is_there = |tool: &str| Command::new(tool).arg("-V").output().is_ok();
    let missing: Vec<_> = ["blkparse", "blkrawverify", "btt"].into_iter().filter(|tool| !is_there(tool)).collect();
    if !missing.is_empty() {
        println!("SKIPPED {test}: {} not installed (Debian package blktrace)", missing.join(", "));
    }
    missing.is_empty()
}

fn said_by(directory: &Path, tool: &str, arguments: &[&str]) -> String {
    let output = Command::new(tool).args(arguments).current_dir(directory).output().expect("the tool starts");
    assert!(output.status.success(), "{tool} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// The base name of the only set of files.
fn base(directory: &Path) -> String {
    let names = entries(directory);
    let bases: Vec<_> = names.iter().filter_map(|name| name.strip_suffix(".blktrace.0")).collect();
    assert_eq!(bases.len(), 1, "{names:?}");
    bases[0].to_owned()
}

/// The number after `label` in blkparse's totals.
fn total(parsed: &str, label: &str) -> u64 {
    let totals = parsed.rfind("Total (").or(parsed.find("CPU0 (")).expect("totals");
    let rest = &parsed[totals..];
    let at = rest.find(label).unwrap_or_else(|| panic!("no {label} in {rest}")) + label.len();
    rest[at..].trim_start().split(',').next().and_then(|number| number.parse().ok()).expect("a number")
}

/// Checks the properties of every trace. Returns blkparse's output.
fn verified(directory: &Path) -> String {
    let base = base(directory);
    let verified = said_by(directory, "blkrawverify", &[&base]);
    assert!(!verified.contains("bad"), "{verified}");
    let parsed = said_by(directory, "blkparse", &["-i", &base, "-d", "all.bin"]);
    // `trace cat` prints the same lines in the same order (case 31).
    let ours = hoistway(directory, &["trace", "cat", "--quiet", &base]);
    assert_eq!(ours.code, 0, "{}", ours.stderr);
    let theirs = parsed.lines().take_while(|line| !line.starts_with("CPU"));
    for (number, (ours, theirs)) in ours.stdout.lines().zip(theirs.clone()).enumerate() {
        assert_eq!(ours, theirs, "line {}", number + 1);
    }
    assert_eq!(ours.stdout.lines().count(), theirs.count());
    assert!(parsed.contains("Skips: 0 forward"), "skipped records");
    for direction in ["Read", "Write"] {
        let sent = total(&parsed, &format!("{direction} Dispatches:"));
        assert_eq!(total(&parsed, &format!("{direction}s Completed:")), sent, "{direction}s");
    }
    parsed
}

#[test]
fn trace_31_blktraces_tools_read_a_simulated_run_and_count_what_we_count() {
    if !has_tools("trace_31") {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let arguments = [
        "model:nvme,hw_queues=2",
        "--machine",
        "cpus=2,submit_ns=0,complete_ns=0",
        "-w",
        "drm:bs=4k,iodepth=8",
        "--weights",
    ];
    let more = ["100,300", "-s", "kyber", "--runtime", "120ms"];
    let result =
        traced(directory.path(), &[&arguments[..], &more].concat()).unwrap_or_else(|said| panic!("{}", said.stderr));
    let parsed = verified(directory.path());
    assert!(entries(directory.path()).iter().any(|name| name.ends_with(".blktrace.1")), "a file for each queue");

    // I/Os in flight at the end of the window complete after it: two groups of depth 8.
    let latency = &result["cells"][0]["total"]["lat_ns"];
    let mut mean_ns = 0.0;
    let mut in_window = 0.0;
    for (direction, ours) in [("Reads", "read"), ("Writes", "write")] {
        let counted = total(&parsed, &format!("{direction} Completed:"));
        let n = latency[ours]["n"].as_u64().expect("a count");
        assert!((n..=n + 16).contains(&counted), "{direction}: {counted} by blkparse, {n} by us");
        assert_eq!(total(&parsed, &format!("{direction} Queued:")), counted);
        #[allow(clippy::cast_precision_loss)]
        let weight = n as f64;
        mean_ns += latency[ours]["mean"].as_f64().expect("a mean") * weight;
        in_window += weight;
    }
    let of_btt = said_by(directory.path(), "btt", &["-i", "all.bin"]);
    let mean_s: f64 = average(&of_btt, "Q2C");
    let difference_ns = (mean_s * 1e9 - mean_ns / in_window).abs();
    assert!(difference_ns < 1_000.0, "Q2C {mean_s} s by btt, {} ns by us", mean_ns / in_window);

    let messages: Vec<_> = parsed.lines().filter(|line| line.contains("  m   N ")).collect();
    assert!(messages.iter().any(|line| line.contains("kyber READ I/O p90")), "{messages:?}");
    let names = parsed.lines().filter(|line| line.contains("  1001  Q ") && line.ends_with("[drm:bs=4k,iodep]"));
    assert!(names.count() > 100, "process 1001 has its job's name");
}

/// The average column of a row of btt's table of all devices.
fn average(of_btt: &str, row: &str) -> f64 {
    let line = of_btt.lines().find(|line| line.starts_with(row)).unwrap_or_else(|| panic!("no {row} in {of_btt}"));
    line.split_whitespace().nth(2).and_then(|number| number.parse().ok()).expect("a number")
}

#[test]
fn a_trace_of_merges_and_flushes_verifies() {
    if !has_tools("a trace of merges and flushes") {
        return;
    }
    // Requests that wait while the disk is busy merge; its cache is volatile, so that each fsync is
    // a flush.
    let directory = tempfile::tempdir().expect("a directory");
    let arguments = ["model:sata", "-w", "dsw:bs=4k,iodepth=64,fsync=64", "-s", "deadline", "--runtime", "1s"];
    traced(directory.path(), &arguments).unwrap_or_else(|said| panic!("{}", said.stderr));
    let parsed = verified(directory.path());
    assert!(total(&parsed, "Write Merges:") > 0, "no merge in the trace");
    let is_flush = |line: &&str| line.split_whitespace().skip(5).take(2).eq(["D", "FWS"]);
    assert!(parsed.lines().any(|line| is_flush(&line)), "no flush in the trace");
}

#[test]
fn a_real_run_is_traced_as_well() {
    if !has_tools("a traced real run") {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let arguments = ["--host", "engine", "memory:64MiB", "-w", "drm:bs=4k,iodepth=16", "--weights", "100,300"];
    let more = ["-s", "wfq", "--device-depth", "4", "--runtime", "300ms", "--cooldown", "0"];
    let result = match traced(directory.path(), &[&arguments[..], &more].concat()) {
        Err(said) if said.code == 1 && said.stderr.contains("io_uring") => {
            return eprintln!("skipped: {}", said.stderr);
        }
        result => result.unwrap_or_else(|said| panic!("{}", said.stderr)),
    };
    let parsed = verified(directory.path());
    let latency = &result["cells"][0]["total"]["lat_ns"];
    for (direction, ours) in [("Reads", "read"), ("Writes", "write")] {
        let queued = total(&parsed, &format!("{direction} Queued:"));
        let n = latency[ours]["n"].as_u64().expect("a count");
        assert!((n..=n + 32).contains(&queued), "{direction}: {queued} by blkparse, {n} by us");
    }
    for group in ["/cgrp1", "/cgrp2"] {
        assert!(parsed.contains(&format!("  m   N {group} waits from tag ")), "wfq's messages name {group}");
    }
}

/// As in the kernel's traces, the policy's messages about the insertion of a request follow its
/// events Q (queued), G (request allocated) and I (inserted), and messages about its completion
/// follow the event C.
#[test]
fn messages_follow_the_events_that_they_are_about() {
    for policy in ["cfq", "bfq"] {
        let directory = tempfile::tempdir().expect("a directory");
        let load = ["model:sata", "-w", "drr", "-s", policy, "--runtime", "1s"];
        traced(directory.path(), &load).unwrap_or_else(|said| panic!("{}", said.stderr));
        let said = hoistway(directory.path(), &["trace", "cat", "--quiet", &base(directory.path())]);
        let mut last = String::new();
        let (mut inserted, mut completed) = (0, 0);
        for line in said.stdout.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            if words[5] != "m" {
                words[5].clone_into(&mut last);
            } else if line.contains("insert_request") || line.contains("add_request") {
                assert_eq!(last, "I", "{policy}: {line}");
                inserted += 1;
            } else if line.contains("complete rqnoidle") {
                assert_eq!(last, "C", "{policy}: {line}");
                completed += 1;
            }
        }
        assert!(inserted + completed > 10, "{policy}: {inserted} insertions, {completed} completions");
    }
}
