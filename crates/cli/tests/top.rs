//! `hoistway top`: a simulated test, a stored result, a server, a block device, and a terminal.
//! Source: docs/specifications/harness.md, sections 10.3 and 13, case 51.

#[path = "program/mod.rs"]
#[expect(dead_code, reason = "other tests look into directories")]
mod program;
#[path = "program/rig.rs"]
#[expect(dead_code, reason = "other tests change settings and look for what is left")]
mod rig;
mod served;

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use program::{Said, hoistway};
use rig::Rig;
use serde_json::Value;
use served::{Served, directory, requires, sparse_file};

fn top(arguments: &[&str]) -> Said {
    hoistway(Path::new("/"), &[&["top"], arguments].concat())
}

/// The JSON documents that `top` printed, one line for each interval.
fn intervals(said: &Said) -> Vec<Value> {
    assert_eq!(said.code, 0, "{}", said.stderr);
    said.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn groups(interval: &Value) -> &Vec<Value> {
    interval["devices"][0]["groups"].as_array().expect("groups")
}

fn sum(groups: &[Value], key: &str) -> f64 {
    groups.iter().map(|group| group[key].as_f64().expect("a number")).sum()
}

fn group<'a>(interval: &'a Value, name: &str) -> &'a Value {
    groups(interval)
        .iter()
        .find(|group| group["group"] == name)
        .unwrap_or_else(|| panic!("no group {name} in {interval}"))
}

const SIMULATED: [&str; 8] = ["--", "model:ssd", "-s", "wfq", "--weights", "100,300", "-w", "drr:bs=4k,iodepth=64"];

#[test]
fn case_51_three_intervals_of_a_simulated_run_are_three_lines() {
    let said = top(&[&["-b", "-n", "3", "--format", "json", "--speed", "100"][..], &SIMULATED].concat());
    let intervals = intervals(&said);
    assert_eq!(intervals.len(), 3);
    for interval in &intervals {
        let backlogged: Vec<Value> =
            groups(interval).iter().filter(|group| group["backlogged"] == true).cloned().collect();
        assert_eq!(backlogged.len(), 2, "{interval}");
        // The device does not do exactly as much in each second as in the solo runs.
        assert!((sum(&backlogged, "due_pct") - 100.0).abs() < 2.0, "{interval}");
        assert!((sum(groups(interval), "got_pct") - 100.0).abs() < 0.01, "{interval}");
        let heavy = group(interval, "cgrp2");
        // What it is entitled to by the solo runs, as a part of what the device did in this second.
        assert!((heavy["due_pct"].as_f64().unwrap() - 75.0).abs() < 1.0, "{interval}");
        assert!(
            heavy["isolation_pct"].as_f64().unwrap() > 98.0 && heavy["in_flight"].as_f64().unwrap() > 20.0,
            "{interval}"
        );
        assert!((heavy["got_pct"].as_f64().unwrap() - 75.0).abs() < 2.0, "{interval}");
        assert!(heavy["latency_ns_p99"].as_u64() >= heavy["latency_ns_p50"].as_u64());
    }
}

#[test]
fn a_simulated_run_shows_whom_a_limit_keeps_waiting() {
    let [limited, free] =
        ["name=limited,rbps=4M,workload=drr:bs=4k,iodepth=8", "name=free,workload=drr:bs=4k,iodepth=8"];
    let arguments = ["-b", "-n", "2", "--speed", "1000", "--format", "json", "--", "model:ssd", "-s", "none"];
    let said = top(&[&arguments[..], &["--group", limited, "--group", free]].concat());
    for interval in intervals(&said) {
        let percent = |name| group(&interval, name)["throttled_pct"].as_f64().expect("counted");
        assert!(percent("limited") > 90.0 && percent("free") < 0.1, "{interval}");
    }
}

#[test]
fn a_stored_result_is_played_to_its_end() {
    let directory = directory();
    let test = ["test", "model:ssd", "-s", "none", "-w", "drr", "--runtime", "2s", "--outdir", "result", "--quiet"];
    assert_eq!(hoistway(directory.path(), &test).code, 0);
    let said = hoistway(directory.path(), &["top", "result", "-b", "--speed", "100"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert_eq!(said.stdout.matches("GROUP").count(), 2, "two seconds:\n{}", said.stdout);
    let in_flight = said.stdout.strip_prefix("model:ssd  none  in flight ").and_then(|rest| rest.split('/').next());
    assert!(in_flight.is_some_and(|count| count.parse::<u32>().is_ok_and(|count| count > 0)), "{}", said.stdout);
}

/// fio reading from the server, until it is killed.
struct Load(Child);

impl Load {
    fn on(served: &Served, export: &str) -> Self {
        let uri = format!("--uri={}", served.uri(export));
        let options =
            ["--name=a", "--ioengine=nbd", "--rw=randread", "--bs=4k", "--iodepth=32", "--runtime=60", "--time_based"];
        let mut command = Command::new("fio");
        command.args(options).arg(uri).stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().expect("fio"))
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_server_shows_who_gets_what() {
    if !requires("top of a server", &["fio"]) {
        return;
    }
    let directory = directory();
    sparse_file(&directory.path().join("a.img"), 64 << 20);
    sparse_file(&directory.path().join("b.img"), 64 << 20);
    let served = Served::flags(
        directory,
        &["--queue-depth", "4", "--export", "db=@/a.img,weight=300", "--export", "ci=@/b.img,weight=100"],
    );
    let (_one, _other) = (Load::on(&served, "db"), Load::on(&served, "ci"));
    let socket = served.path("control.sock").display().to_string();
    served::await_that("both clients have done something", || {
        let status = served.status();
        let groups = status["groups"].as_array().unwrap();
        groups.iter().all(|group| group["read"]["requests"].as_u64().unwrap_or(0) > 1_000)
    });
    let said = top(&["--control", &socket, "-n", "2", "-d", "300ms", "--format", "json"]);
    let intervals = intervals(&said);
    assert_eq!(intervals.len(), 2);
    for interval in &intervals {
        assert_eq!(interval["devices"][0]["scheduler"], "paternoster");
        for name in ["db", "ci"] {
            let group = group(interval, name);
            assert!(group["read_ios_per_s"].as_f64().unwrap() > 100.0, "{interval}");
            assert_eq!(group["write_ios_per_s"], 0.0);
            let outstanding = group["in_flight"].as_f64().unwrap() + group["queued"].as_f64().unwrap();
            assert!(outstanding > 0.0 && outstanding < 64.0, "32 are kept outstanding: {interval}");
            assert!(
                group["latency_ns_p99"].as_u64() >= group["latency_ns_p50"].as_u64()
                    && group["latency_ns_p50"].is_u64()
            );
        }
        assert!((sum(groups(interval), "got_pct") - 100.0).abs() < 0.01);
    }
    let status = served.status();
    assert_eq!(status["groups"][0]["latency_buckets"], Value::Null, "only who asks for them gets them");
}

#[test]
fn a_block_device_shows_its_own_counters() {
    let Some(_alone) = rig::possible("top of a block device") else { return };
    let rig = Rig::create(&["null,latency_us=800,servers=8,queue_depth=8", "--size", "1G"]);
    // Under bfq, which accounts groups separately.
    let test =
        ["test", &rig.node, "--host", "native", "-s", "bfq", "--weights", "100,800", "-w", "drr:bs=4k,iodepth=8"];
    let more = ["--runtime", "20s", "--ramp", "0", "--no-store"];
    let mut command = program::command(Path::new("/"), &[&test[..], &more].concat());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the program");
    served::await_that("groups do I/O", || {
        let said = top(&[&rig.node, "-n", "1", "-d", "200ms", "--format", "json"]);
        said.code == 0
            && groups(&intervals(&said)[0]).iter().filter(|group| group["got_pct"].as_f64() > Some(2.0)).count() == 2
    });
    // The interval is 3 s, because BFQ may make the light group wait for a second.
    let said = top(&[&rig.node, "-n", "1", "-d", "3s", "--format", "json"]);
    served::succeed("kill", &["-INT", &child.id().to_string()]);
    served::wait_for_exit(&mut child);
    let intervals = intervals(&said);
    for interval in &intervals {
        let device = &interval["devices"][0];
        assert_eq!(format!("/dev/{}", device["device"].as_str().unwrap()), rig.node);
        assert_eq!(device["scheduler"], "bfq");
        assert!(device["busy_pct"].as_f64().unwrap() > 20.0, "{interval}");
        let busy: Vec<&Value> = groups(interval).iter().filter(|group| group["got_pct"].as_f64() > Some(2.0)).collect();
        assert_eq!(busy.len(), 2, "{interval}");
        assert!(busy.iter().all(|group| group["group"].as_str().unwrap().contains("hoistway.")), "{interval}");
        assert!(busy.iter().all(|group| group["latency_ns_p99"].is_null()), "they are not counted: {interval}");
    }
}

#[test]
fn on_a_terminal_it_draws_and_leaves_it_as_it_was() {
    if !requires("top on a terminal", &["script"]) {
        return;
    }
    let directory = directory();
    // One ends by its number of intervals; the other plays to the end, stays there, and ends by a key.
    let top = |options: &str| {
        format!("{} top {options} --speed 20 --quiet {}", env!("CARGO_BIN_EXE_hoistway"), SIMULATED.join(" "))
    };
    let ends = [(80, top("-n 2")), (100, top("-n 2")), (132, top("-n 2")), (200, top("-n 2")), (81, top(""))];
    let script = directory.path().join("typescript");
    for (columns, top) in ends {
        let mut command = Command::new("script");
        command.args(["-qefc", &format!("stty rows 24 cols {columns}; {top}")]).arg(&script).env("TERM", "xterm");
        // Standard input that has no data and does not end.
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("script");
        if columns == 81 {
            let shown = || String::from_utf8_lossy(&fs::read(&script).unwrap_or_default()).into_owned();
            served::await_that("the end of the simulated time", || shown().contains(" end, sorted"));
            let keys = child.stdin.as_mut().expect("a pipe");
            keys.write_all(b"h").unwrap();
            served::await_that("the help", || shown().contains("apart"));
            assert!(child.try_wait().unwrap().is_none(), "{}", shown());
            child.stdin.as_mut().expect("a pipe").write_all(b"q").unwrap();
        }
        let status = served::wait_for_exit(&mut child);
        let text = String::from_utf8_lossy(&fs::read(&script).unwrap()).into_owned();
        assert!(status.success(), "{text}");
        for heading in ["WEIGHT", "DUE%", "GOT%", "DIFF", "MiB/s", "IOPS", "INFL", "p50ms", "p99ms"] {
            assert!(text.contains(heading), "{heading} at {columns} columns:\n{text}");
        }
        assert!(text.contains("cgrp2") && text.contains("q quit, h help"), "{text}");
        let (enter, leave) = ("\x1b[?1049h", "\x1b[?1049l");
        assert!(text.find(enter) < text.rfind(leave) && text.contains(enter), "the screen is given back:\n{text:?}");
    }
}

#[test]
fn what_cannot_be_shown_is_said_with_a_way_on() {
    let directory = directory();
    let place = directory.path().display().to_string();
    fs::write(directory.path().join("file"), "x").unwrap();
    let cases: [(&[&str], i32, &str); 7] = [
        (&["--control", "/nowhere/x.sock"], 1, "no server answers at /nowhere/x.sock"),
        (&[&place], 2, "is not a result directory"),
        (&[&format!("{place}/file")], 2, "not a block device"),
        (&["--speed", "0", "--", "model:ssd"], 2, "--speed 0: not above 0"),
        (&["-d", "1ms"], 2, "at least 10 ms"),
        (&["--", "list", "--nonsense"], 2, "--nonsense"),
        (
            &["--device", "sdz", "--quiet", "--speed", "100", "--", "model:ssd", "--runtime", "1s"],
            2,
            "there is no device 'sdz'",
        ),
    ];
    for (arguments, code, text) in cases {
        let said = top(&[arguments, &["-b", "-n", "1"]].concat());
        // Arguments after -- belong to the simulated test, so the usual ones must stand before it.
        let said = if arguments.contains(&"--") { top(&[&["-b", "-n", "1"], arguments].concat()) } else { said };
        assert_eq!(said.code, code, "{arguments:?}: {}", said.stderr);
        assert!(said.stderr.contains(text) && said.stderr.contains("help:"), "{arguments:?}: {}", said.stderr);
    }
}
