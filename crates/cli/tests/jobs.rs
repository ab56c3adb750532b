//! Results of single jobs of a job file, beside those of groups: which there are, their figures,
//! and all formats.

#[path = "program/mod.rs"]
#[expect(dead_code, reason = "other tests look into directories")]
mod program;

use std::fs;
use std::path::Path;
use std::process::Command;

use program::{Said, hoistway};
use serde_json::Value;

/// Like fio's example ssd-test.fio: four phases, each of one job, on one file.
const SSD_TEST: &str = "[global]\nbs=4k\nioengine=libaio\niodepth=4\nsize=16m\ndirect=1\nfilename=ssd.test.file\n\
    [seq-read]\nrw=read\nstonewall\n[rand-read]\nrw=randread\nstonewall\n\
    [seq-write]\nrw=write\nstonewall\n[rand-write]\nrw=randwrite\nstonewall\n";

/// A job file with every way in which fio combines threads into results.
const MIXED: &str = "[global]\nbs=4k\nsize=1m\nfilename=x.dat\n\
    [clones]\nrw=read\nnumjobs=2\n[alone]\nrw=randread\n\
    [second]\nnew_group\nrw=read\nnumjobs=3\ngroup_reporting\n[joined]\nrw=write\ngroup_reporting\n\
    [third]\nstonewall\nrw=randrw\ngroup_reporting\n[last]\nrw=read\nnumber_ios=7\n";

const HOSTS: [&str; 2] = ["model:ssd", "."];

fn run(directory: &Path, target: &str, text: &str, more: &[&str]) -> Said {
    fs::write(directory.join("j.fio"), text).expect("written");
    let usual = ["test", target, "-s", "none", "-w", "j.fio", "--no-store"];
    hoistway(directory, &[&usual[..], more].concat())
}

/// The entries of the JSON in fio's layout.
fn jobs(directory: &Path, target: &str, text: &str, more: &[&str]) -> Vec<Value> {
    let said = run(directory, target, text, &[&["--quiet", "--format", "fio-json"], more].concat());
    assert_eq!(said.code, 0, "{target}: {}", said.stderr);
    let document: Value = serde_json::from_str(&said.stdout).expect("JSON");
    document["jobs"].as_array().expect("jobs").clone()
}

type Counts = (String, u64, Vec<(u64, u64)>);

/// Name, group, and bytes and I/Os in each direction.
fn counts(job: &Value) -> Counts {
    let number = |way: &str, key: &str| job[way][key].as_u64().expect("a count");
    let ways = ["read", "write", "trim"].map(|way| (number(way, "io_bytes"), number(way, "total_ios")));
    (job["jobname"].as_str().expect("a name").to_owned(), job["groupid"].as_u64().expect("a group"), ways.to_vec())
}

#[test]
fn four_phases_give_four_results_each_over_its_own_time() {
    let directory = tempfile::tempdir().unwrap();
    for target in HOSTS {
        let jobs = jobs(directory.path(), target, SSD_TEST, &[]);
        let (all, none) = ((16 << 20, 4096), (0, 0));
        let wanted = [("seq-read", true), ("rand-read", true), ("seq-write", false), ("rand-write", false)];
        let wanted = wanted.into_iter().zip(0..).map(|((name, reads), group)| {
            let ways = if reads { vec![all, none, none] } else { vec![none, all, none] };
            (name.to_owned(), group, ways)
        });
        assert_eq!(jobs.iter().map(counts).collect::<Vec<_>>(), wanted.collect::<Vec<_>>(), "{target}");
        for job in &jobs {
            let way = if job["read"]["total_ios"] == 0 { &job["write"] } else { &job["read"] };
            let number = |key: &str| way[key].as_f64().expect("a number");
            assert!(number("runtime") > 0.0, "{target}: {way}");
            // The runtime is in whole milliseconds, so the rate is accurate to one millisecond of
            // it.
            let (least, most) = ((16 << 20) as f64 / (number("runtime") + 1.0), (16 << 20) as f64 / number("runtime"));
            let rate = number("bw_bytes") / 1000.0;
            assert!(least - 1.0 <= rate && rate <= most + 1.0, "{target}: {least} {rate} {most}");
            assert_eq!((&job["hoistway"]["cut_off"], way["lat_ns"]["N"].as_u64()), (&"".into(), Some(4096)));
        }
    }
}

#[test]
fn every_format_has_the_results_of_jobs() {
    let directory = tempfile::tempdir().unwrap();
    let said = |format: &str| {
        let said = run(directory.path(), "model:ssd", SSD_TEST, &["--quiet", "--format", format]);
        assert_eq!((said.code, said.stderr.as_str()), (0, ""), "{format}");
        said.stdout
    };
    for format in ["text", "markdown", "html", "csv", "json"] {
        let text = said(format);
        for (name, way) in
            [("seq-read", "read"), ("rand-read", "read"), ("seq-write", "write"), ("rand-write", "write")]
        {
            let is_row = |line: &&str| line.contains(name) && line.contains(way);
            assert!(format == "json" || text.lines().any(|line| is_row(&line)), "{format}: {text}");
        }
    }
    let document: Value = serde_json::from_str(&said("json")).unwrap();
    let jobs = document["cells"][0]["groups"][0]["jobs"].as_array().unwrap();
    let shape = |job: &Value| (job["name"].as_str().unwrap().to_owned(), job["report_group"].as_u64().unwrap());
    let names = ["seq-read", "rand-read", "seq-write", "rand-write"].map(str::to_owned);
    assert_eq!(jobs.iter().map(shape).collect::<Vec<_>>(), names.into_iter().zip(0..).collect::<Vec<_>>());
    // A job's rate over its own time is larger than over the whole run.
    let of_group = document["cells"][0]["groups"][0]["iops"]["mean"].as_f64().unwrap();
    assert!(jobs.iter().all(|job| job["read"]["iops"]["mean"].as_f64().is_none_or(|iops| iops > of_group / 2.0)));
    assert!(jobs[2]["write"]["iops"]["mean"].as_f64().unwrap() > of_group, "{document}");
    let csv = said("csv");
    let columns = |line: &str| line.split(',').map(str::to_owned).collect::<Vec<_>>();
    let header = columns(csv.lines().next().unwrap());
    assert!(csv.lines().all(|line| columns(line).len() == header.len()), "{csv}");
    let at = |name: &str| header.iter().position(|column| column == name).unwrap();
    let rows: Vec<Vec<String>> = csv.lines().skip(1).map(columns).collect();
    let of_jobs = rows.iter().filter(|row| !row[at("job")].is_empty());
    let ios: Vec<&str> = of_jobs.map(|row| row[at("ios")].as_str()).collect();
    assert_eq!(ios, ["4096"; 4]);
}

#[test]
fn results_of_phases_are_read_back_as_results_of_their_own() {
    let directory = tempfile::tempdir().unwrap();
    let said = run(directory.path(), "model:ssd", SSD_TEST, &["--quiet", "--format", "fio-json"]);
    fs::write(directory.path().join("ours.json"), said.stdout).unwrap();
    let read = hoistway(directory.path(), &["test", "report", "ours.json"]);
    assert_eq!((read.code, read.stderr.as_str()), (0, ""));
    for (name, what) in [
        ("seq-read", "sequential read"),
        ("rand-read", "random read"),
        ("seq-write", "sequential write"),
        ("rand-write", "random write"),
    ] {
        let is_head = |line: &str| line.starts_with(&format!("{name}  ")) && line.contains(what);
        assert!(read.stdout.lines().any(is_head), "{name}: {}", read.stdout);
    }
    // The phases differ in duration: that is no short window; and each has its result: the set is
    // not incomplete.
    assert!(!read.stdout.contains("incomplete") && !read.stdout.contains("short window"), "{}", read.stdout);
    let same = hoistway(directory.path(), &["compare", "ours.json", "ours.json", "--max-regression", "1%"]);
    assert_eq!((same.code, same.stdout.lines().count()), (0, 1 + 4 * 2), "{}{}", same.stdout, same.stderr);
}

#[test]
fn a_workload_with_a_name_has_the_results_of_its_groups_alone() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = ["test", "model:ssd", "-s", "none", "-w", "drr", "--weights", "100,200", "--runtime", "100ms"];
    let usual = ["--ramp", "0", "--no-store", "--quiet", "--format"];
    let said = |format: &str| hoistway(directory.path(), &[&arguments[..], &usual, &[format]].concat()).stdout;
    assert!(said("csv").lines().next().unwrap().ends_with(",flags"));
    assert!(!said("text").contains("Results of jobs"));
    let document: Value = serde_json::from_str(&said("fio-json")).unwrap();
    let names: Vec<_> = document["jobs"].as_array().unwrap().iter().map(|job| counts(job).0).collect();
    assert_eq!(names.len(), 2);
    assert!(names.iter().all(|name| name.starts_with("cgrp")), "{names:?}");
}

#[test]
fn clones_are_results_of_their_own_unless_they_report_together() {
    let directory = tempfile::tempdir().unwrap();
    let two = "[a]\nrw=read\nbs=4k\nsize=1m\nfilename=x.dat\nnumjobs=2\n";
    for target in HOSTS {
        let entry = |group: u64, ios: u64| ("a".to_owned(), group, vec![(ios << 12, ios), (0, 0), (0, 0)]);
        let counted = |text: &str| jobs(directory.path(), target, text, &[]).iter().map(counts).collect::<Vec<_>>();
        assert_eq!(counted(two), [entry(0, 256), entry(0, 256)], "{target}");
        assert_eq!(counted(&format!("{two}group_reporting\n")), [entry(0, 512)], "{target}");
    }
    let text = run(directory.path(), "model:ssd", two, &["--quiet"]).stdout;
    let labels: Vec<&str> = text.lines().filter_map(|line| line.split("  ").next()).collect();
    assert!(["a.0", "a.1", "all of group 0"].iter().all(|label| labels.contains(label)), "{text}");
}

#[test]
fn jobs_of_cgroups_have_results_beside_the_shares_of_these() {
    let directory = tempfile::tempdir().unwrap();
    let text = "[global]\nrw=randread\nbs=4k\nsize=4m\niodepth=8\nioengine=libaio\ndirect=1\n\
        [web]\ncgroup=front\ncgroup_weight=400\n[api]\ncgroup=front\ncgroup_weight=400\n[dump]\ncgroup=back\ncgroup_weight=100\n";
    let said = run(directory.path(), "model:ssd", text, &["--quiet", "--format", "json"]);
    assert_eq!((said.code, said.stderr.as_str()), (0, ""));
    let document: Value = serde_json::from_str(&said.stdout).unwrap();
    let groups = document["cells"][0]["groups"].as_array().unwrap();
    let names = |group: &Value| -> Vec<String> {
        group["jobs"].as_array().unwrap().iter().map(|job| job["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(groups.iter().map(names).collect::<Vec<_>>(), [vec!["web", "api", "all of group 0"], vec!["dump"]]);
    assert!(groups.iter().all(|group| group["share"].as_f64().is_some() && group["weight"].as_u64() >= Some(100)));
}

#[test]
fn phases_that_the_runtime_cuts_off_are_said_to_be() {
    let directory = tempfile::tempdir().unwrap();
    let slow = "[global]\nbs=4k\nsize=16m\nrate_iops=1000\nrw=read\nfilename=x.dat\nstonewall\n[one]\nnumber_ios=1000\n[two]\n[three]\n";
    for target in HOSTS {
        let cut = run(directory.path(), target, slow, &["--runtime", "2s", "--format", "fio-json"]);
        assert_eq!(cut.code, 0, "{}", cut.stderr);
        let document: Value = serde_json::from_str(&cut.stdout).unwrap();
        let said = |index: usize| document["jobs"][index]["hoistway"]["cut_off"].as_str().unwrap().to_owned();
        let wanted = ["", "cut off by the end of the run", "did not begin before the run was over"];
        assert_eq!([said(0), said(1), said(2)], wanted, "{target}");
        let note = "the end of the run cut off two.0, three.0";
        assert!(cut.stderr.contains(note), "{}", cut.stderr);
        // The rate of a job that was cut off is its work until then, divided by the time until
        // then.
        let second = &document["jobs"][1]["read"];
        let (iops, runtime) = (second["iops"].as_f64().unwrap(), second["runtime"].as_f64().unwrap());
        assert!(iops > 900.0 && runtime > 500.0 && runtime < 1_100.0, "{target}: {second}");
    }
    let text = run(directory.path(), "model:ssd", slow, &["--runtime", "2s"]).stdout;
    for (job, why) in [("two", "cut off by the end"), ("three", "did not begin")] {
        assert!(text.lines().any(|line| line.starts_with(job) && line.contains(why)), "{text}");
    }
    // A job that waits for another one has its own time if the run's length is not given.
    let waits = "[global]\nbs=4k\nsize=1m\nrate_iops=1000\nrw=read\nruntime=1\ntime_based\n[a]\ndescription=the first\n[b]\nwait_for=a\n";
    let both = jobs(directory.path(), "model:ssd", waits, &[]);
    let second = both.iter().map(|job| (counts(job).0, job["read"]["runtime"].as_u64().unwrap_or(0)));
    assert_eq!(second.collect::<Vec<_>>(), [("a".to_owned(), 1000), ("b".to_owned(), 1000)]);
    assert_eq!((&both[0]["desc"], &both[1]["desc"]), (&"the first".into(), &Value::Null));
    let whole = run(directory.path(), "model:ssd", slow, &[]);
    assert!(!whole.stderr.contains("cut off") && !whole.stdout.contains("cut off"), "{}{}", whole.stderr, whole.stdout);
}

/// fio's own result for the same file.
fn of_fio(directory: &Path, text: &str) -> Option<Vec<Counts>> {
    fs::write(directory.join("f.fio"), text).expect("written");
    let output = Command::new("fio").args(["--output-format=json", "f.fio"]).current_dir(directory).output();
    let Ok(output) = output else {
        eprintln!("skipped: fio is not installed (apt-get install fio)");
        return None;
    };
    let said = String::from_utf8(output.stdout).expect("UTF-8");
    let document: Value = serde_json::from_str(&said[said.find("{\n").expect("a document")..]).expect("JSON");
    Some(document["jobs"].as_array().expect("jobs").iter().map(counts).collect())
}

#[test]
fn entries_and_their_counts_are_those_of_fio() {
    let directory = tempfile::tempdir().unwrap();
    let Some(theirs) = of_fio(directory.path(), MIXED) else { return };
    assert_eq!(theirs.len(), 6, "{theirs:?}");
    for target in HOSTS {
        let mut ours: Vec<Counts> = jobs(directory.path(), target, MIXED, &[]).iter().map(counts).collect();
        // The number of reads in a mix is random.
        let mut theirs = theirs.clone();
        for entry in ours.iter_mut().chain(&mut theirs).filter(|entry| entry.0 == "third") {
            let (bytes, ios) = entry.2.iter().fold((0, 0), |sum, way| (sum.0 + way.0, sum.1 + way.1));
            entry.2 = vec![(bytes, ios)];
        }
        assert_eq!(ours, theirs, "{target}");
    }
}

#[test]
fn the_load_that_fio_makes_has_results_of_jobs_as_well() {
    let directory = tempfile::tempdir().unwrap();
    // `--generator fio` refuses jobs that wait for others (`stonewall`), and the number of reads in
    // a mix is random.
    let text = MIXED.replace("stonewall\n", "new_group\n").replace("randrw", "randread");
    let Some(theirs) = of_fio(directory.path(), &text) else { return };
    fs::write(directory.path().join("j.fio"), text).unwrap();
    let arguments = ["test", ".", "--generator", "fio", "-w", "j.fio", "--no-store", "--quiet", "--format", "fio-json"];
    let said = hoistway(directory.path(), &arguments);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let document: Value = serde_json::from_str(&said.stdout).unwrap();
    let ours: Vec<Counts> = document["jobs"].as_array().unwrap().iter().map(counts).collect();
    assert_eq!(ours, theirs);
}
