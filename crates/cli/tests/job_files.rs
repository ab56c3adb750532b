//! Job files as a user runs them: goals that end jobs, logs beside the results, traces inside jobs.
//! Source: docs/specifications/harness.md, sections 6.3 and 7.6.

#[path = "program/mod.rs"]
#[expect(dead_code, reason = "other tests look into directories")]
mod program;

use std::fs;
use std::path::{Path, PathBuf};

use program::{Said, hoistway};
use serde_json::Value;

/// Runs a job file on a simulated disk; the result directory is `r`.
fn run(directory: &Path, text: &str, arguments: &[&str]) -> Said {
    fs::write(directory.join("j.fio"), text).expect("written");
    let usual = ["test", "model:ssd", "-w", "j.fio", "-s", "none", "--ramp", "0", "--outdir", "r", "--format", "json"];
    let said = hoistway(directory, &[&usual, arguments].concat());
    assert_eq!(said.code, 0, "{text}: {}", said.stderr);
    said
}

fn cell(said: &Said) -> Value {
    serde_json::from_str::<Value>(&said.stdout).expect("JSON")["cells"][0].clone()
}

/// The directory of the only run's logs.
fn logs(directory: &Path) -> PathBuf {
    directory.join("r/runs/j/none/nr1/set1")
}

fn lines(directory: &Path, name: &str) -> Vec<Vec<u64>> {
    let path = logs(directory).join(name);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let number = |word: &str| word.trim().trim_start_matches("0x").parse().expect("a number");
    text.lines().map(|line| line.split(',').map(number).collect()).collect()
}

#[test]
fn a_job_that_fails_its_goal_ends_with_a_reported_error() {
    let directory = tempfile::tempdir().expect("a directory");
    let job = "[slow]\nioengine=io_uring\ndirect=1\nrw=randread\niodepth=4\nrate_iops=100\nrate_iops_min=200\nruntime=9\ntime_based\n";
    let said = run(directory.path(), job, &[]);
    assert!(said.stderr.contains("slow.0 of jobs: slower than its rate_min: ended"), "{}", said.stderr);
    assert_eq!(cell(&said)["errors"], 1);
    let steady = job.replace("rate_iops_min=200", "ss=iops:5%\nss_dur=3s");
    let said = hoistway_again(directory.path(), &steady);
    assert!(said.stderr.contains("slow.0 of jobs: steady: ended"), "{}", said.stderr);
    let ios = cell(&said)["total"]["iops"]["mean"].as_f64().expect("a rate");
    assert!((ios - 100.0).abs() < 3.0, "{ios}");
}

fn hoistway_again(directory: &Path, text: &str) -> Said {
    fs::remove_dir_all(directory.join("r")).expect("removed");
    run(directory, text, &[])
}

#[test]
fn logs_lie_beside_the_results_and_add_up_to_them() {
    let directory = tempfile::tempdir().expect("a directory");
    let job = "[j]\nioengine=io_uring\ndirect=1\nrw=randrw\niodepth=4\nruntime=1\ntime_based\nnumjobs=2\nbs=4k,8k\n\
               write_bw_log=p\nwrite_lat_log=p\nwrite_iops_log\nlog_offset=1\nwrite_iolog=all.log\n";
    let said = run(directory.path(), job, &[]);
    let per_s = cell(&said)["total"]["iops"]["mean"].as_f64().expect("a rate");
    let both: Vec<_> =
        [1, 2].into_iter().flat_map(|thread| lines(directory.path(), &format!("p_lat.{thread}.log"))).collect();
    assert!((both.len() as f64 / per_s - 1.0).abs() < 0.001, "{} lines, {per_s} IOPS", both.len());
    assert!(
        both.iter().all(|line| line.len() == 6 && line[0] <= 1_000 && line[3] == 4_096 << line[2]),
        "{:?}",
        both[0]
    );
    assert_eq!(lines(directory.path(), "p_clat.1.log"), lines(directory.path(), "p_lat.1.log"));
    assert!(lines(directory.path(), "j_iops.2.log").iter().all(|line| line[1] == 1));
    let iolog = logs(directory.path()).join("all.log");
    let info = hoistway(directory.path(), &["trace", "info", &iolog.display().to_string(), "--quiet"]);
    assert!(info.code == 0 && info.stdout.contains("iolog"), "{}{}", info.stdout, info.stderr);

    let averaged = job.replace("log_offset=1", "log_avg_msec=100\nwrite_hist_log=h\nlog_hist_msec=500");
    let said = hoistway_again(directory.path(), &averaged);
    let bytes_per_s = cell(&said)["total"]["bw_bytes"]["mean"].as_f64().expect("a rate");
    let spans: Vec<_> =
        [1, 2].into_iter().flat_map(|thread| lines(directory.path(), &format!("p_bw.{thread}.log"))).collect();
    assert_eq!(spans.len(), 2 * 2 * 10, "ten times, two directions, two threads");
    let mean = spans.iter().map(|line| line[1] as f64 * 1_024.0).sum::<f64>() / 10.0;
    assert!((mean / bytes_per_s - 1.0).abs() < 0.02, "{mean} logged, {bytes_per_s} measured");
    let histograms = lines(directory.path(), "h_clat_hist.1.log");
    assert_eq!((histograms.len(), histograms[0].len()), (4, 3 + 1_856));
    let counted: u64 = histograms.iter().map(|line| line[3..].iter().sum::<u64>()).sum();
    assert!(counted > 1_000, "{counted}");

    let unstored = ["test", "model:ssd", "-w", "j.fio", "-s", "none", "--no-store", "--format", "json"];
    let said = hoistway(directory.path(), &unstored);
    assert!(said.stderr.contains("leave --no-store out"), "{}", said.stderr);
}

#[test]
fn a_job_repeats_a_trace_beside_others() {
    let directory = tempfile::tempdir().expect("a directory");
    let log: String =
        (0..500).map(|io| format!("{} f {} {} 4096\n", io * 2_000, ["read", "write"][io % 2], io * 8_192)).collect();
    fs::write(
        directory.path().join("t.log"),
        format!("fio version 3 iolog\n0 f add\n0 f open\n{log}1000000 f close\n"),
    )
    .expect("written");
    let job = "[again]\nread_iolog=t.log\niodepth=8\nwrite_iolog=again.log\n\
               [beside]\nrw=randread\nrate_iops=50\nruntime=1\ntime_based\ndirect=1\ncgroup=other\n";
    let said = run(directory.path(), job, &[]);
    let cell = cell(&said);
    let ios = |group: usize| cell["groups"][group]["iops"]["mean"].as_f64().expect("a rate");
    assert!(ios(0) > 200.0 && (ios(1) / 50.0 - 1.0).abs() < 0.6, "{} {}", ios(0), ios(1));
    let again = fs::read_to_string(logs(directory.path()).join("again.log")).expect("an iolog");
    let places: Vec<&str> = again.lines().filter(|line| line.contains("read") || line.contains("write")).collect();
    assert_eq!(places.len(), 500);
    assert!(places[3].ends_with("again.0.0 write 24576 4096"), "{}", places[3]);
    let reads = job.replace("iodepth=8", "replay_skip=write\nreplay_scale=2\nreplay_no_stall=1");
    hoistway_again(directory.path(), &reads);
    let again = fs::read_to_string(logs(directory.path()).join("again.log")).expect("an iolog");
    assert_eq!(again.lines().filter(|line| line.contains(" read ")).count(), 250);
    assert!(!again.contains(" write ") && again.contains(" read 8192 4096"), "{again}");
    let shown = hoistway(directory.path(), &["test", "--show-jobs", "j.fio"]);
    assert!(shown.stdout.contains("read_iolog=t.log\nreplay_no_stall=1\n"), "{}", shown.stdout);
}

#[test]
fn flows_of_processes_of_their_own_are_refused_and_the_engine_keeps_them() {
    let directory = tempfile::tempdir().expect("a directory");
    let job = "[global]\nioengine=io_uring\ndirect=1\nrw=randread\niodepth=4\nruntime=1\ntime_based\n[a]\nflow=1\n[b]\nflow=3\ncgroup=other\n";
    let said = run(directory.path(), job, &[]);
    let cell = cell(&said);
    let ios = |group: usize| cell["groups"][group]["iops"]["mean"].as_f64().expect("a rate");
    assert!((ios(1) / ios(0) - 3.0).abs() < 0.05, "{} {}", ios(0), ios(1));
}

#[test]
fn a_group_that_does_little_alone_is_entitled_to_no_more() {
    let directory = tempfile::tempdir().expect("a directory");
    let groups = [
        "--group",
        "name=thinks,weight=900,workload=drr:bs=4k,thinktime=20000",
        "--group",
        "name=works,weight=100,workload=drr:bs=4k,iodepth=32",
    ];
    let usual = ["test", "model:ssd", "-s", "wfq", "--runtime", "2s", "--no-store", "--format", "json"];
    let said = hoistway(directory.path(), &[&usual[..], &groups].concat());
    let cell = cell(&said);
    let figure = |value: &serde_json::Value| value.as_f64().expect("a number");
    let (by_weight, wrong) = (figure(&cell["groups"][0]["due"]), figure(&cell["share_error_max"]));
    assert!((by_weight - 0.9).abs() < 0.001 && wrong > 5.0, "{by_weight} {wrong}");
    // The plan counts the runs that tell it: two kinds of groups, each alone and in a crowd.
    assert!(said.stderr.contains("before them: 4 solo runs of 2s + 1s ramp"), "{}", said.stderr);
    let of = |group: usize, name: &str| figure(&cell["groups"][group]["entitlement"][name]);
    assert!(of(0, "entitled_per_s") == of(0, "alone_per_s") && of(0, "alone_per_s") * 20.0 < of(0, "full_per_s"));
    assert!(of(1, "entitled_per_s") > 0.9 * of(1, "full_per_s"), "{cell:#}");
    assert!(figure(&cell["isolation"]) > 0.9, "{cell:#}");
    let without = hoistway(directory.path(), &[&usual[..], &groups, &["--no-solo"]].concat());
    assert!(!without.stderr.contains("solo run"), "{}", without.stderr);
    assert!(self::cell(&without)["isolation"].is_null(), "{}", without.stdout);
}

#[test]
fn any_existing_file_is_a_job_file_and_names_stay_names() {
    let directory = tempfile::tempdir().expect("a directory");
    let jobs = "# a comment\n[global]\nioengine=null\n[a]\nsize=1m\nrw=randread\n";
    let test = |arguments: &[&str]| {
        let usual = ["test", "model:ssd", "-s", "none", "--no-store", "--quiet", "--format", "fio-json"];
        let said = hoistway(directory.path(), &[&usual, arguments].concat());
        assert_eq!(said.code, 0, "{arguments:?}: {}", said.stderr);
        said.stdout[said.stdout.find("{\n").expect("JSON")..].to_owned()
    };
    for name in ["j", "j.job", "j.ini", "j.cfg", "j.fio.txt", "sub/j"] {
        fs::create_dir_all(directory.path().join("sub")).expect("created");
        fs::write(directory.path().join(name), jobs).expect("written");
        for flag in ["-w", "--job"] {
            let result: Value = serde_json::from_str(&test(&[flag, name])).expect("JSON");
            assert_eq!(result["jobs"][0]["read"]["total_ios"], 256, "{flag} {name}");
        }
    }
    // The name of a workload wins over a file; a path of the suffix is none.
    fs::write(directory.path().join("drr"), jobs).expect("written");
    let result: Value = serde_json::from_str(&test(&["-w", "drr:filename=sub/x,number_ios=7"])).expect("JSON");
    assert_eq!(result["jobs"][0]["read"]["total_ios"], 7);
    let said = hoistway(directory.path(), &["test", "model:ssd", "-w", "no/such/file"]);
    assert!(said.code == 2 && said.stderr.contains("cannot read the job file no/such/file"), "{}", said.stderr);
}

#[test]
fn a_job_without_a_size_has_that_of_the_file_that_another_job_lays_out() {
    let directory = tempfile::tempdir().expect("a directory");
    let text = "[global]\nfilename=x\nioengine=null\n[a]\nsize=512k\nrw=write\n[b]\nstonewall\nrw=randread\n[c]\nstonewall\nrw=read\nsize=50%\n";
    fs::write(directory.path().join("j.fio"), text).expect("written");
    for target in ["model:ssd", "."] {
        let arguments = ["test", target, "-w", "j.fio", "-s", "none", "--no-store", "--quiet", "--format", "fio-json"];
        let said = hoistway(directory.path(), &arguments);
        assert_eq!(said.code, 0, "{}", said.stderr);
        let result: Value = serde_json::from_str(&said.stdout[said.stdout.find("{\n").expect("JSON")..]).expect("JSON");
        let ios = |job: usize| result["jobs"][job]["read"]["total_ios"].as_u64();
        assert_eq!((ios(1), ios(2)), (Some(128), Some(64)), "{target}");
    }
}

#[test]
fn an_fsync_follows_each_pass_with_fsync_on_close() {
    let directory = tempfile::tempdir().expect("a directory");
    let text = "[a]\nsize=64k\nrw=write\nloops=3\nfsync_on_close=1\n";
    fs::write(directory.path().join("j.fio"), text).expect("written");
    let arguments = ["test", "model:ssd", "-w", "j.fio", "-s", "none", "--no-store", "--quiet", "--format", "fio-json"];
    let said = hoistway(directory.path(), &arguments);
    let result: Value = serde_json::from_str(&said.stdout[said.stdout.find("{\n").expect("JSON")..]).expect("JSON");
    assert_eq!((result["jobs"][0]["write"]["total_ios"].as_u64(), said.code), (Some(48), 0), "{}", said.stderr);
    assert_eq!(result["jobs"][0]["sync"]["total_ios"].as_u64(), Some(3), "{}", result["jobs"][0]["sync"]);
}
