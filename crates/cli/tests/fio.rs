//! Comparison with fio: hoistway reads and compares fio's JSON, writes its own in the same layout,
//! and uses fio as a generator of load. Case numbers are those of docs/specifications/harness.md,
//! section 13. Without fio, tests that need it are skipped with a message.

#[allow(dead_code, reason = "one part of it is enough here")]
mod program;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use program::{entries, hoistway};
use serde_json::Value;

/// Runs fio in `directory`; without fio prints a message and returns none.
fn fio(directory: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("fio").args(arguments).current_dir(directory).output();
    let Ok(output) = output else {
        eprintln!("skipped: fio is not installed (apt-get install fio)");
        return None;
    };
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(output.status.success(), "{text}");
    Some(text)
}

/// The document in fio's output, after its notes.
fn document(text: &str) -> Value {
    serde_json::from_str(&text[text.find("{\n").expect("a document")..]).expect("JSON")
}

/// The keys of a document as paths; the contents of buckets, percentiles and options are data.
fn paths(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    let is_data = ["bins", "percentile", "options", "hoistway"].iter().any(|end| path.ends_with(end));
    match value {
        Value::Object(_) if is_data => {}
        Value::Object(entries) => {
            for (key, value) in entries {
                let path = format!("{path}.{key}");
                paths(value, &path, found);
                found.insert(path);
            }
        }
        Value::Array(values) => values.iter().for_each(|value| paths(value, &format!("{path}[]"), found)),
        _ => {}
    }
}

const FOUR: &str = "[global]\nsize=2m\nfilename=x.dat\nrw=randrw\nbs=4k\nlat_percentiles=1\n[a]\nnumjobs=4\n";

#[test]
fn case_22_fios_own_output_is_a_result_like_ours() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("four.fio"), FOUR).unwrap();
    let Some(text) = fio(directory.path(), &["--output-format=json+", "four.fio"]) else { return };
    // fio may print notes before the JSON, and its human-readable report after it.
    fs::write(directory.path().join("out.json"), format!("note: both iodepth >= 1\n{text}\na: (groupid=0)\n")).unwrap();
    let said = hoistway(directory.path(), &["test", "report", "out.json"]);
    assert_eq!((said.code, said.stderr.as_str()), (0, ""));
    let row = said.stdout.lines().find(|line| line.starts_with("fio ") && line.contains("+-")).expect("a row");
    assert!(said.stdout.starts_with("fio  buffered random mix of 50 % reads, bs 4k"), "{}", said.stdout);
    let bandwidth = |job: &Value| {
        ["read", "write"].iter().map(|key| job[key]["bw_bytes"].as_f64().unwrap()).sum::<f64>() / 1_048_576.0
    };
    let document = document(&text);
    let total: f64 = document["jobs"].as_array().unwrap().iter().map(bandwidth).sum();
    let shown: f64 = row.split_whitespace().nth(2).unwrap().parse().unwrap();
    assert!((shown - total).abs() < 0.01 * total + 0.01, "{shown} of {total}");
    let same = hoistway(directory.path(), &["compare", "out.json", "out.json", "--max-regression", "1%"]);
    assert_eq!(same.code, 0, "{}{}", same.stdout, same.stderr);
    assert!(same.stdout.lines().skip(1).all(|line| line.ends_with('~')), "{}", same.stdout);
    // Truncated in the middle: exit 2, and the position.
    let cut = &text[..text.find("\"clat_ns\"").unwrap() + 40];
    fs::write(directory.path().join("cut.json"), cut).unwrap();
    let said = hoistway(directory.path(), &["test", "report", "cut.json"]);
    assert_eq!(said.code, 2);
    assert!(said.stderr.contains("fio output ends at byte") && said.stderr.contains("jobs[0].read"), "{}", said.stderr);
    // A failed job is a failed run, whatever fio's own exit code was.
    fs::write(directory.path().join("failed.json"), text.replacen("\"error\" : 0", "\"error\" : 28", 1)).unwrap();
    let said = hoistway(directory.path(), &["test", "report", "failed.json"]);
    assert_eq!(said.code, 1);
    assert!(said.stderr.contains("No space left on device"), "{}", said.stderr);
}

#[test]
fn case_23_percentiles_of_buckets_are_those_of_fio_and_every_field_of_it_is_in_ours() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("four.fio"), format!("{FOUR}group_reporting\n")).unwrap();
    let Some(text) = fio(directory.path(), &["--output-format=json+", "four.fio"]) else { return };
    let theirs = document(&text);
    // fio's own percentiles of the four clones together, from their merged buckets: ours must be in
    // the same buckets.
    let mut compared = 0;
    for (direction, latency) in [("read", "clat_ns"), ("read", "lat_ns"), ("write", "clat_ns"), ("write", "lat_ns")] {
        let told = &theirs["jobs"][0][direction][latency];
        let bins = told["bins"].as_object().unwrap().iter();
        let bins = bins.map(|(ns, count)| (ns.parse().unwrap(), count.as_u64().unwrap()));
        let histogram = hoistway_experiment::Histogram::from_bins(bins);
        for (percent, ns) in told["percentile"].as_object().unwrap() {
            let ours = histogram.percentile_unclamped_ns(percent.parse().unwrap());
            assert_eq!(ours, ns.as_u64().unwrap(), "{direction} {latency} {percent}");
            compared += 1;
        }
    }
    assert_eq!(compared, 4 * 17);
    let said = hoistway(
        directory.path(),
        &[
            "test",
            "model:ssd",
            "-w",
            "drm:bs=4k,fsync=8",
            "-s",
            "none",
            "--runtime",
            "200ms",
            "--ramp",
            "0",
            "--no-store",
            "--quiet",
            "--format",
            "fio-json",
        ],
    );
    assert_eq!((said.code, said.stderr.as_str()), (0, ""));
    let ours: Value = serde_json::from_str(&said.stdout).expect("one document");
    let [mut in_theirs, mut in_ours] = [BTreeSet::new(), BTreeSet::new()];
    paths(&theirs, "", &mut in_theirs);
    paths(&ours, "", &mut in_ours);
    // fio reports the options of a job file's [global] section; our workloads have no such section.
    in_theirs.remove(".global options");
    let missing: Vec<&String> = in_theirs.difference(&in_ours).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn fio_can_make_the_load_and_leaves_nothing_behind() {
    let directory = tempfile::tempdir().unwrap();
    if fio(directory.path(), &["--version"]).is_none() {
        return;
    }
    let target = directory.path().display().to_string();
    let test = |more: &[&str]| {
        let usual = [
            "test",
            &target,
            "--generator",
            "fio",
            "--size",
            "8M",
            "--runtime",
            "1s",
            "--ramp",
            "100ms",
            "--no-store",
            "--quiet",
        ];
        hoistway(directory.path(), &[&usual[..], more].concat())
    };
    let said = test(&["-w", "drr:bs=8k,iodepth=4", "-m", "2", "--format", "json"]);
    assert_eq!((said.code, said.stderr.as_str()), (0, ""));
    let result: Value = serde_json::from_str(&said.stdout).unwrap();
    let cells = result["cells"].as_array().unwrap();
    assert_eq!(cells.iter().map(|cell| cell["nr"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 2]);
    for cell in cells {
        let latency = &cell["groups"][0]["lat_ns"]["read"];
        let bytes = cell["total"]["bw_bytes"]["mean"].as_f64().unwrap();
        let ios = cell["total"]["iops"]["mean"].as_f64().unwrap();
        assert!(ios > 50.0 && (bytes / ios / 8192.0 - 1.0).abs() < 0.02, "{cell}");
        assert!(latency["p50"].as_f64().unwrap() > 1000.0 && latency["n"].as_f64().unwrap() > ios / 2.0, "{latency}");
    }
    assert_eq!(entries(directory.path()), [""; 0], "a file is left behind");
    for (more, what) in [
        (&["-w", "drr", "-s", "bfq"][..], "cannot choose the scheduler 'bfq'"),
        (&["-w", "startup"], "fio is not used for such jobs"),
        (&["-w", "drr", "--weights", "100,200"], "has no groups"),
    ] {
        let said = test(more);
        assert!(said.code == 2 && said.stderr.contains(what), "{more:?}: {} {}", said.code, said.stderr);
    }
    let missing = hoistway(directory.path(), &["test", &target, "--generator", "fio=/no/fio", "--no-store"]);
    assert!(missing.code == 2 && missing.stderr.contains("install fio"), "{}", missing.stderr);
    let simulated = hoistway(directory.path(), &["test", "--generator", "fio"]);
    assert!(simulated.code == 2 && simulated.stderr.contains("the simulator has none"), "{}", simulated.stderr);
}
