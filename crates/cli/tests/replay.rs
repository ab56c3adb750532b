//! `hoistway replay`: on the simulator and the engine it repeats the recorded order, offsets, sizes
//! and times; and contradictory arguments are refused. Source: docs/specifications/harness.md,
//! section 9.8, and section 13, case 39.

mod program;

use std::fmt::Write as _;
use std::path::Path;

use program::{Said, entries, hoistway};
use serde_json::Value;

fn temporary() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

/// A recorded I/O: operation, offset, length, time in ns.
type Io = (&'static str, u64, u64, u64);

/// `count` I/Os with irregular gaps of 400 us on average. None crosses a boundary at which the
/// engine splits I/Os into parts.
fn ios(count: u64) -> Vec<Io> {
    let mut at_ns = 0;
    let io = |number: u64| {
        at_ns += 100_000 + number * 7_919 % 13 * 50_000;
        let length = 512_u64 << (number % 8);
        (["R", "R", "W"][(number % 3) as usize], number * 7_919 % 900 * 65_536, length, at_ns)
    };
    (0..count).map(io).collect()
}

fn write(directory: &Path, ios: &[Io]) {
    let mut text = String::from("time_ns,device,op,offset_bytes,length_bytes,flags,pid,comm,cpu,group,latency_ns\n");
    for (number, (operation, offset, length, at_ns)) in ios.iter().enumerate() {
        let operation = if *operation == "R" { "read" } else { "write" };
        let pid = 1_000 + number % 2;
        let _ = writeln!(text, "{at_ns},8:16,{operation},{offset},{length},,{pid},w{pid},0,,90000");
    }
    std::fs::write(directory.join("t.csv"), text).expect("written");
}

/// The queued events (Q) in the trace that hoistway wrote of a run, in order.
fn queued(directory: &Path) -> Vec<(String, u64, u64, u64)> {
    let names = entries(directory);
    let base = names.iter().find_map(|name| name.strip_suffix(".blktrace.0")).expect("a trace");
    let said = hoistway(directory, &["trace", "cat", base, "--quiet"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let words = said.stdout.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let number = |text: &str| text.parse::<u64>().expect("a number");
    let io = |words: Vec<&str>| {
        let at_ns = number(&words[3].replace('.', ""));
        (words[6][..1].to_owned(), number(words[7]) * 512, number(words[9]) * 512, at_ns)
    };
    words.filter(|words| words.get(5) == Some(&"Q")).map(io).collect()
}

/// Checks order, offsets and sizes. Returns by how many ns each gap between two I/Os differs from
/// the recorded one, in ascending order.
fn compare(recorded: &[Io], replayed: &[(String, u64, u64, u64)]) -> Vec<u64> {
    let expected: Vec<_> =
        recorded.iter().map(|(what, offset, length, _)| ((*what).to_owned(), *offset, *length)).collect();
    let got: Vec<_> = replayed.iter().map(|(what, offset, length, _)| (what.clone(), *offset, *length)).collect();
    assert!(got == expected, "order, offsets or sizes differ");
    let gap = |index: usize| (recorded[index + 1].3 - recorded[index].3, replayed[index + 1].3 - replayed[index].3);
    let mut errors: Vec<u64> = (0..recorded.len() - 1)
        .map(|index| {
            let (a, b) = gap(index);
            a.abs_diff(b)
        })
        .collect();
    errors.sort_unstable();
    errors
}

/// Runs a replay and returns its JSON; none if this machine has no io_uring.
fn replay(directory: &Path, arguments: &[&str]) -> Option<(Value, Said)> {
    let usual = ["replay", "t.csv", "--no-store", "--format", "json", "--cooldown", "0"];
    let said = hoistway(directory, &[&usual, arguments].concat());
    if said.code == 1 && said.stderr.contains("io_uring") {
        eprintln!("skipped: {}", said.stderr);
        return None;
    }
    assert_eq!(said.code, 0, "{arguments:?}: {}", said.stderr);
    Some((serde_json::from_str(&said.stdout).expect("JSON"), said))
}

#[test]
fn the_simulator_repeats_order_places_sizes_and_times_exactly() {
    let directory = temporary();
    let recorded = ios(2_000);
    write(directory.path(), &recorded);
    let (json, _) = replay(directory.path(), &["model:nvme", "-s", "none", "--trace-out", "again"]).expect("simulated");
    let errors = compare(&recorded, &queued(directory.path()));
    assert!(errors[errors.len() * 99 / 100] <= 2_000, "p99 of gap errors: {} ns", errors[errors.len() * 99 / 100]);
    let cell = &json["cells"][0];
    assert_eq!((&cell["slip_ns"]["n"], &cell["errors"]), (&2_000.into(), &0.into()));
    assert!(cell["slip_ns"]["p99"].as_u64().is_some_and(|slip_ns| slip_ns < 10_000), "{}", cell["slip_ns"]);
}

#[test]
fn the_engine_repeats_order_places_and_sizes_and_keeps_the_times() {
    let directory = temporary();
    let recorded = ios(2_000);
    write(directory.path(), &recorded);
    let Some((json, _)) = replay(directory.path(), &["memory:64MiB", "-s", "none", "--trace-out", "again"]) else {
        return;
    };
    let errors = compare(&recorded, &queued(directory.path()));
    let slip = &json["cells"][0]["slip_ns"];
    assert_eq!(slip["n"], 2_000);
    // Other tests run on the same processors: the bound of 1 ms at p99 holds on an idle machine (docs/reference/traces.md); half of the
    // gaps keep it even here.
    let median_ns = errors[errors.len() / 2];
    assert!(median_ns < 1_000_000, "median of gap errors {median_ns} ns, slip {slip}");
}

#[test]
fn a_scheduler_matrix_runs_at_every_pace_and_speed() {
    let directory = temporary();
    write(directory.path(), &ios(400));
    for pace in ["as-recorded", "closed", "dependent"] {
        let arguments =
            ["model:ssd", "-s", "none", "-s", "bfq", "--pace", pace, "--groups-by", "comm", "--weights", "100,300"];
        let (json, _) = replay(directory.path(), &arguments).expect("simulated");
        let cells = json["cells"].as_array().expect("cells");
        assert_eq!(cells.len(), 2, "{pace}");
        for cell in cells {
            let groups = cell["groups"].as_array().expect("groups");
            let names: Vec<_> = groups.iter().map(|group| (group["name"].as_str(), group["weight"].as_u64())).collect();
            assert_eq!(names, [(Some("w1000"), Some(100)), (Some("w1001"), Some(300))]);
            let n = ["read", "write"].map(|direction| cell["total"]["lat_ns"][direction]["n"].as_u64().unwrap_or(0));
            assert_eq!(n.iter().sum::<u64>(), 400, "{pace}: every I/O once");
            assert_eq!(cell["slip_ns"].is_null(), pace != "as-recorded", "{pace}");
        }
    }
    // The trace takes 0.16 s: at a hundredth of its speed 16 s, in virtual time.
    let window = |speed: &str| {
        let (json, _) = replay(directory.path(), &["model:ssd", "-s", "none", "--speed", speed]).expect("simulated");
        json["cells"][0]["total"]["iops"]["mean"].as_f64().expect("a rate")
    };
    let ratio = window("1") / window("0.01");
    assert!((95.0..105.0).contains(&ratio), "{ratio}");
}

#[test]
fn t39_writes_without_permission_are_counted_and_not_replayed() {
    let directory = temporary();
    write(directory.path(), &ios(300));
    let data: Vec<u8> = (0..8_u64 << 20).map(|at| (at * 31 % 251) as u8).collect();
    std::fs::write(directory.path().join("data"), &data).expect("written");
    let Some((json, said)) = replay(directory.path(), &["data", "-s", "none"]) else { return };
    assert!(said.stderr.contains("note: 100 writes not replayed (read-only)"), "{}", said.stderr);
    assert!(said.stderr.contains("were beyond the end of the target and were wrapped around"), "{}", said.stderr);
    let latency = &json["cells"][0]["total"]["lat_ns"];
    assert_eq!((&latency["read"]["n"], latency["write"]["n"].as_u64().unwrap_or(0)), (&200.into(), 0));
    assert!(std::fs::read(directory.path().join("data")).expect("read") == data, "the file was changed");
    // If the target is a directory, hoistway creates a file there. Writes to it are permitted, so
    // everything is replayed, and the file is removed afterwards.
    std::fs::create_dir(directory.path().join("d")).expect("made");
    let Some((json, _)) = replay(directory.path(), &["d", "--size", "8M", "-s", "none"]) else { return };
    assert_eq!(json["cells"][0]["total"]["lat_ns"]["write"]["n"], 100);
    assert_eq!(entries(&directory.path().join("d")).len(), 0);
}

#[test]
fn what_contradicts_the_trace_or_the_target_is_refused() {
    let directory = temporary();
    write(directory.path(), &ios(10));
    std::fs::write(directory.path().join("plain.iolog"), "fio version 2 iolog\nf add\nf open\nf read 0 4096\n")
        .expect("written");
    for (arguments, needed) in [
        (&["replay", "t.csv", "model:ssd", "--pace", "fast"][..], "there is no pace 'fast'"),
        (
            &["replay", "t.csv", "model:ssd", "--pace", "closed", "--speed", "2"],
            "--speed applies only to the recorded times",
        ),
        (&["replay", "t.csv", "model:ssd", "--speed", "0"], "'0' is not a speed"),
        (&["replay", "plain.iolog", "--pace", "dependent"], "the trace has no completions"),
        (&["replay", "t.csv", "memory:1MiB", "--strict", "-s", "none"], "give it a larger area"),
        (&["replay", "t.csv", "--weights", "100,200"], "2 weights for 1 groups: trace"),
        (&["replay", "t.csv", "--devices", "sdb"], "no I/O is left to replay"),
        (&["replay", "t.csv", "--groups-by", "uid"], "'uid' is not a way to form groups"),
        (&["test", "--trace", "t.csv", "-w", "drr"], "the trace determines the I/Os"),
        (&["test", "--pace", "closed"], "--trace"),
    ] {
        let said = hoistway(directory.path(), arguments);
        assert_eq!(said.code, 2, "{arguments:?}: {}", said.stderr);
        assert!(said.stderr.contains(needed), "{arguments:?}: {needed} is not in {}", said.stderr);
    }
}

#[test]
fn start_up_traces_go_in_the_order_of_the_suite() {
    let directory = temporary();
    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/../workload/tests/traces/start_up.trace");
    let target = "model:null,latency_us=1000";
    let arguments =
        ["replay", sample, target, "-s", "none", "--no-store", "--pace", "dependent", "--trace-out", "again"];
    let said = hoistway(directory.path(), &arguments);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let at_ms: Vec<u64> = queued(directory.path()).iter().map(|io| (io.3 + 500_000) / 1_000_000).collect();
    // One synchronous read; three read-aheads are issued together; the reads that follow wait for
    // those of their own process, and the last one for the previous one.
    assert_eq!(at_ms, [0, 1, 1, 1, 2, 3]);
}

/// Transferred and discarded bytes are separate figures: a trim of 1 GiB is no throughput.
#[test]
fn discards_are_no_throughput() {
    let directory = temporary();
    let mut log = String::from("fio version 3 iolog\n0 f add\n0 f open\n");
    for number in 0..200_u64 {
        let (at_us, offset) = (number * 5_000, number * 65_536);
        let _ = writeln!(log, "{at_us} f read {offset} 65536");
    }
    let _ = writeln!(log, "995001 f trim 0 1073741824\n995002 f trim 1073741824 1073741824\n995100 f close");
    std::fs::write(directory.path().join("t.iolog"), log).expect("written");
    let usual = ["replay", "t.iolog", "model:ssd", "-s", "none", "--no-store"];
    let said = hoistway(directory.path(), &[&usual[..], &["--format", "json"]].concat());
    assert_eq!(said.code, 0, "{}", said.stderr);
    let json: Value = serde_json::from_str(&said.stdout).expect("JSON");
    let total = &json["cells"][0]["total"];
    let seconds = 200.0 * 65_536.0 / total["bw_bytes"]["mean"].as_f64().expect("a rate");
    assert!((0.9..1.2).contains(&seconds), "200 reads of 64 KiB in a second: {total}");
    let discarded = total["discard_bw_bytes"]["mean"].as_f64().expect("a rate") * seconds;
    assert!((discarded - f64::from(1 << 30) * 2.0).abs() < 1e6, "{total}");
    let said = hoistway(directory.path(), &usual);
    assert!(said.stdout.contains("discarded MiB/s"), "{}", said.stdout);
}

/// Writes that were in one plug when they were recorded merge in the replay as they did then, at
/// any pace. Without the plugs an idle disk gets each write alone.
#[test]
fn recorded_plugs_merge_as_they_did() {
    let directory = temporary();
    let (mut text, mut sequence) = (String::new(), 0);
    for batch in 0..20_u64 {
        let mut event = |us: u64, what: &str, rest: &str| {
            sequence += 1;
            let (seconds, ns) = ((batch * 50_000 + us) / 1_000_000, (batch * 50_000 + us) % 1_000_000 * 1_000);
            let _ = writeln!(text, "  8,0    0 {sequence:>8} {seconds:>5}.{ns:09}   100 {what:>2} {rest}");
        };
        for number in 0..16 {
            event(number * 2, "Q", &format!("WS {} + 8 [w]", batch * 4_096 + number * 8));
            if number == 0 {
                event(number * 2 + 1, "P", "  N [w]");
            }
        }
        event(40, "U", "  N [w] 1");
        event(41, "D", &format!("WS {} + 128 [w]", batch * 4_096));
        event(10_000, "C", &format!("WS {} + 128 [0]", batch * 4_096));
    }
    std::fs::write(directory.path().join("t.txt"), text).expect("written");
    let dispatches_on = |target: &str, more: &[&str]| {
        let usual = ["replay", "t.txt", target, "-s", "cfq", "--no-store", "--quiet", "--trace-out", "again"];
        let said = hoistway(directory.path(), &[&usual[..], more].concat());
        assert_eq!(said.code, 0, "{more:?}: {}", said.stderr);
        let base =
            entries(directory.path()).into_iter().find_map(|it| it.strip_suffix(".blktrace.0").map(str::to_owned));
        let base = base.expect("a trace");
        let cat = hoistway(directory.path(), &["trace", "cat", "--quiet", &base, "--actions", "Q,D"]);
        std::fs::remove_file(directory.path().join(format!("{base}.blktrace.0"))).expect("removed");
        let count =
            |letter: &str| cat.stdout.lines().filter(|line| line.split_whitespace().nth(5) == Some(letter)).count();
        assert_eq!(count("Q"), 320, "{more:?}");
        count("D")
    };
    let dispatches = |more: &[&str]| dispatches_on("model:sata", more);
    assert_eq!(dispatches(&[]), 20);
    assert_eq!(dispatches(&["--plugs", "recorded", "--pace", "dependent"]), 20);
    assert_eq!(dispatches(&["--pace", "closed", "--iodepth", "64"]), 20);
    assert!(dispatches(&["--plugs", "none"]) > 20);
    // Here the depth of 6 is reached before a plug has all its 16 writes. A process that has to
    // wait submits its plug first, so fewer writes merge.
    assert!((40..=60).contains(&dispatches(&["--pace", "closed", "--iodepth", "6"])));
    // The engine plugs the writes in the same way. Without plugs each write to memory would be
    // dispatched before the next arrives.
    for pace in [&["--pace", "as-recorded"][..], &["--pace", "dependent"], &["--pace", "closed", "--iodepth", "64"]] {
        assert_eq!(dispatches_on("memory:1GiB", pace), 20, "{pace:?}");
    }
    assert!(dispatches_on("memory:1GiB", &["--plugs", "none", "--pace", "closed", "--iodepth", "1"]) > 300);
    assert!((40..=80).contains(&dispatches_on("memory:1GiB", &["--pace", "closed", "--iodepth", "6"])));
}
