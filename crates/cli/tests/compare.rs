//! `hoistway compare` of fio's output files: the figures are fio's own, jobs that did not run
//! together are not added up, and noise is not reported as a difference.

#[allow(dead_code, reason = "one part of it is enough here")]
mod program;

use std::fs;
use std::path::Path;
use std::process::Command;

use program::{Said, hoistway};

/// The 95th, 99th and 99.5th percentile in us, after which there is no request up to the largest
/// latency.
struct Tail {
    p95_us: u64,
    p99_us: u64,
    p995_us: u64,
}

const USUAL: Tail = Tail { p95_us: 200, p99_us: 1_000, p995_us: 1_300 };

/// One job of a document: name, reporting group, MiB/s, requests.
fn job(name: &str, group: u32, mib_per_s: u64, ios: u64, tail: &Tail) -> String {
    let us = |us: u64| us * 1_000;
    let bytes = mib_per_s << 20;
    format!(
        r#"{{"jobname": "{name}", "groupid": {group}, "error": 0,
 "read": {{"bw_bytes": {bytes}, "iops": {ios}, "total_ios": {ios}, "runtime": 1000,
  "clat_ns": {{"min": 50000, "max": {max}, "mean": 100000.0, "percentile": {{"1.000000": 60000, "50.000000": 90000,
   "95.000000": {p95}, "99.000000": {p99}, "99.500000": {p995}, "99.900000": {p995}}}}},
  "lat_ns": {{"min": 50000, "max": {max}, "mean": 100000.0}}}},
 "write": {{"bw_bytes": 0, "iops": 0.0, "total_ios": 0}}}}"#,
        p95 = us(tail.p95_us),
        p99 = us(tail.p99_us),
        p995 = us(tail.p995_us),
        max = us(tail.p995_us) + 100,
    )
}

fn document(directory: &Path, name: &str, jobs: &[String]) {
    let text = format!("{{\n  \"fio version\" : \"fio-3.33\",\n  \"jobs\" : [\n{}\n  ]\n}}\n", jobs.join(",\n"));
    fs::write(directory.join(name), text).unwrap();
}

fn compare(directory: &Path, more: &[&str]) -> Said {
    hoistway(directory, &[&["compare", "a.json", "b.json"], more].concat())
}

/// The words of the row of a figure.
fn row<'a>(said: &'a Said, figure: &str) -> Vec<&'a str> {
    let row = said.stdout.lines().find(|line| line.contains(figure)).unwrap_or_else(|| panic!("{}", said.stdout));
    row.split_whitespace().collect()
}

#[test]
fn results_come_out_of_pipes_as_well() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    // More than fits into a pipe.
    let jobs: Vec<String> = (0..200).map(|_| job("x", 0, 100, 100_003, &USUAL)).collect();
    document(directory, "a.json", &jobs);
    document(directory, "b.json", &jobs);
    let from_files = compare(directory, &[]);
    let script = r#"exec "$0" compare <(cat a.json) <(cat b.json)"#;
    let bash =
        Command::new("bash").args(["-c", script, env!("CARGO_BIN_EXE_hoistway")]).current_dir(directory).output();
    let Ok(bash) = bash else {
        eprintln!("skipped: there is no bash");
        return;
    };
    let from_pipes = Said::from(bash);
    assert_eq!((from_pipes.code, from_pipes.stderr.as_str()), (0, ""));
    assert_eq!(from_pipes.stdout, from_files.stdout);
}

#[test]
fn the_99th_percentile_of_a_list_is_the_99th_and_its_regression_is_seen() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    // The 99th percentile is more than a fifth longer. The 99.5th, which must not be shown in its
    // place, is the same.
    document(directory, "a.json", &[job("x", 0, 100, 100_003, &USUAL)]);
    document(directory, "b.json", &[job("x", 0, 100, 100_003, &Tail { p99_us: 1_210, ..USUAL })]);
    let said = compare(directory, &["--max-regression", "10%@lat_p99"]);
    let row = row(&said, "lat_p99");
    assert!(row.contains(&"1.0ms") && row.contains(&"1.2ms") && row.iter().any(|it| it.starts_with("+2")), "{row:?}");
    assert_eq!(said.code, 4, "{}{}", said.stdout, said.stderr);
    assert!(said.stdout.contains("REGRESSION"), "{}", said.stdout);
    // These jobs have no weights, hence no due share.
    assert!(!said.stdout.contains("share_error"), "{}", said.stdout);
    let shown = hoistway(directory, &["test", "report", "a.json"]);
    assert!(shown.stdout.contains("1.0ms") && !shown.stdout.contains("best share"), "{}", shown.stdout);
}

#[test]
fn phases_one_after_the_other_are_not_added_up() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let jobs = |fast| {
        vec![
            job("read", 0, fast, 50_000, &USUAL),
            job("mixed", 1, 30, 50_000, &USUAL),
            job("mixed", 1, 24, 50_000, &USUAL),
            job("read", 2, 9, 50_000, &USUAL),
        ]
    };
    document(directory, "a.json", &jobs(727));
    document(directory, "b.json", &jobs(700));
    let said = compare(directory, &[]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let totals: Vec<&str> = said.stdout.lines().filter(|line| line.contains("total_bw")).collect();
    assert_eq!(totals.len(), 3, "{}", said.stdout);
    assert!(totals[0].starts_with("read fio") && totals[0].contains("727.0 MiB/s"), "{}", totals[0]);
    // The two jobs of one reporting group ran together.
    assert!(totals[1].starts_with("mixed fio") && totals[1].contains("54.00 MiB/s"), "{}", totals[1]);
    assert!(totals[2].starts_with("read #2 fio") && totals[2].contains("9.00 MiB/s"), "{}", totals[2]);
}

#[test]
fn one_run_of_each_is_inconclusive_and_few_samples_are_reported() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    document(directory, "a.json", &[job("x", 0, 100, 71, &USUAL)]);
    document(directory, "b.json", &[job("x", 0, 99, 71, &Tail { p95_us: 201, ..USUAL })]);
    let said = compare(directory, &["--max-regression", "50%"]);
    assert_eq!(said.code, 5, "{}{}", said.stdout, said.stderr);
    assert!(said.stdout.contains("p99 of 71 samples is their maximum; 368 are needed"), "{}", said.stdout);
    assert!(said.stdout.contains("one set has no interval"), "{}", said.stdout);
    // Compared with itself nothing differs, however few repetitions there are.
    fs::copy(directory.join("a.json"), directory.join("b.json")).unwrap();
    let said = compare(directory, &["--max-regression", "0%"]);
    assert_eq!(said.code, 0, "{}{}", said.stdout, said.stderr);
}

#[test]
fn a_document_without_jobs_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    fs::write(directory.join("a.json"), "{\"jobs\":[]}").unwrap();
    fs::write(directory.join("b.json"), "{\"jobs\":[]}").unwrap();
    let said = compare(directory, &[]);
    assert_eq!(said.code, 2);
    assert!(said.stderr.contains("its jobs[] is empty") && !said.stderr.contains("no JSON"), "{}", said.stderr);
}

#[test]
fn trims_are_compared_and_a_client_and_terse_lines_are_read() {
    let directory = tempfile::tempdir().expect("a directory");
    let idle = r#"{"bw_bytes": 0, "iops": 0.0, "total_ios": 0}"#;
    let jobs = format!(
        r#"{{"jobname": "t", "groupid": 0, "error": 0, "read": {idle}, "write": {idle},
 "trim": {{"bw_bytes": 8388608000, "iops": 2048000, "total_ios": 2048000, "runtime": 1000, "io_bytes": 8388608000}}}}"#
    );
    let sum = jobs.replace(r#""t""#, r#""All clients""#);
    let write = |name: &str, text: String| fs::write(directory.path().join(name), text).expect("written");
    write("a.json", format!("\u{feff}{{\"fio version\": \"fio-3.33\", \"jobs\": [{jobs}]}}"));
    write("b.json", format!("{{\"fio version\": \"fio-3.33\", \"client_stats\": [{jobs}, {sum}]}}"));
    let said = hoistway(directory.path(), &["compare", "a.json", "b.json"]);
    assert!(
        said.stdout.contains("total_bw(trim)") && said.stdout.contains("8000 MiB/s"),
        "{}{}",
        said.stdout,
        said.stderr
    );
    assert!(!said.stdout.contains("0.00 MiB/s"), "{}", said.stdout);
    if Command::new("fio").arg("--version").output().is_err() {
        return;
    }
    write("j.fio", "[x]\nsize=4m\nioengine=null\nrw=randrw\nnumber_ios=500\n".to_owned());
    for version in ["2", "3", "4", "5"] {
        let mut fio = Command::new("fio");
        let fio = fio.args(["--output-format=terse", "--terse-version", version, "j.fio"]);
        let output = fio.current_dir(directory.path()).output().expect("fio starts");
        fs::write(directory.path().join("t.txt"), output.stdout).expect("written");
        let said = hoistway(directory.path(), &["compare", "t.txt", "t.txt"]);
        assert_eq!(said.code, 0, "version {version}: {}", said.stderr);
    }
}

/// Removes what results of the first versions did not have: solo runs, pictures, counters that came later.
fn as_of_the_first_versions(value: &mut serde_json::Value) {
    const LATER: [&str; 12] = [
        "alone",
        "dispatches",
        "dispatch_reasons",
        "blkio",
        "processors",
        "sync",
        "late",
        "slip",
        "throttled_ns",
        "jobs",
        "isolation",
        "entitled",
    ];
    match value {
        serde_json::Value::Object(fields) => {
            // A group's jobs in the plan are what it runs; those in a measurement are results of job files.
            let is_measured = fields.contains_key("effective_weight") || fields.contains_key("window_ns");
            fields.retain(|name, _| !LATER.contains(&name.as_str()) || (name == "jobs" && !is_measured));
            fields.values_mut().for_each(as_of_the_first_versions);
        }
        serde_json::Value::Array(values) => values.iter_mut().for_each(as_of_the_first_versions),
        _ => {}
    }
}

#[test]
fn a_result_of_the_first_versions_is_compared_with_one_of_today() {
    let directory = tempfile::tempdir().unwrap();
    let test = "test model:ssd -s none -s wfq --weights 100,300 -w randread:bs=4k,iodepth=32 --runtime 200ms --sets 3 --quiet --outdir";
    for name in ["old", "new"] {
        let words: Vec<&str> = test.split(' ').chain([name]).collect();
        assert_eq!(hoistway(directory.path(), &words).code, 0);
    }
    let journal = directory.path().join("old/journal.jsonl");
    let text = std::fs::read_to_string(&journal).unwrap();
    let old = text.lines().map(|line| {
        let mut value: serde_json::Value = serde_json::from_str(line).unwrap();
        as_of_the_first_versions(&mut value);
        format!("{value}\n")
    });
    let old: String = old.collect();
    assert!(text.contains("\"alone\"") && !old.contains("\"alone\"") && old.len() < text.len());
    std::fs::write(&journal, old).unwrap();
    for (from, to) in [("old", "new"), ("new", "old"), ("old", "old")] {
        let said = hoistway(directory.path(), &["compare", from, to, "--max-regression", "5%"]);
        assert_eq!(said.code, 0, "{from} {to}: {}{}", said.stdout, said.stderr);
        // Isolation needs the solo runs of both; total and latency do not.
        assert!(!said.stdout.contains("isolation"), "{}", said.stdout);
        assert!(said.stdout.contains("total_bw") && said.stdout.contains("lat_p99(cgrp2)"), "{}", said.stdout);
    }
    let today = hoistway(directory.path(), &["compare", "new", "new"]);
    assert!(today.code == 0 && today.stdout.contains("isolation"), "{}", today.stdout);
    let played = hoistway(directory.path(), &["top", "old", "-b", "-n", "1", "--speed", "100"]);
    assert!(played.code == 0 && played.stdout.contains("cgrp2"), "{} {}", played.stdout, played.stderr);
}
