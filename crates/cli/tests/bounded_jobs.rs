//! Jobs that end by their size or their number of I/Os: the results contain all their work, on
//! every host and for any ramp.

#[path = "program/mod.rs"]
#[expect(dead_code, reason = "other tests look into directories")]
mod program;

use std::fs;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use program::hoistway;
use serde_json::Value;

/// One at a time: a disk can be measured by a single run only.
static DISK: Mutex<()> = Mutex::new(());

/// Bytes and I/Os of all directions of a test's only run, from its JSON in fio's layout; or the
/// reason why it did not run.
fn try_counted(directory: &Path, arguments: &[&str]) -> Result<(u64, u64), String> {
    let usual = ["--no-store", "--quiet", "--format", "fio-json"];
    let said = hoistway(directory, &[&["test"], arguments, &usual].concat());
    if (said.code, said.stderr.as_str()) != (0, "") {
        return Err(format!("{arguments:?}: exit {}, {}", said.code, said.stderr));
    }
    let result: Value = serde_json::from_str(&said.stdout).expect("JSON");
    let jobs = result["jobs"].as_array().expect("jobs");
    let sum = |key: &str| -> u64 {
        let directions = jobs.iter().flat_map(|job| ["read", "write", "trim"].map(|direction| &job[direction][key]));
        directions.map(|value| value.as_u64().expect("a count")).sum()
    };
    assert!(jobs.iter().any(|job| ["read", "write"].iter().any(|way| job[*way]["bw_bytes"].as_u64() > Some(0))));
    Ok((sum("io_bytes"), sum("total_ios")))
}

fn counted(directory: &Path, arguments: &[&str]) -> (u64, u64) {
    try_counted(directory, arguments).unwrap_or_else(|why| panic!("{why}"))
}

/// Counts a job file on the simulator, the engine and the native host, and expects the same of all.
fn everywhere(directory: &Path, text: &str, wanted: (u64, u64)) {
    fs::write(directory.join("j.fio"), text).expect("written");
    let hosts = [["model:ssd", "-s", "none", "-w", "j.fio"], [".", "-s", "none", "-w", "j.fio"]];
    for host in hosts {
        assert_eq!(counted(directory, &host), wanted, "{host:?} {text}");
    }
    let _alone = DISK.lock().unwrap_or_else(PoisonError::into_inner);
    match try_counted(directory, &[".", "--host", "native", "-s", "current", "-w", "j.fio"]) {
        Ok(native) => assert_eq!(native, wanted, "native {text}"),
        // Files of this directory may not be on a disk, or another process measures it.
        Err(why) if why.contains("exit 2,") || why.contains("is being measured") => {
            eprintln!("skipped: the native host cannot measure here: {}", why.replace('\n', " "));
        }
        Err(why) => panic!("{why}"),
    }
}

#[test]
fn a_job_of_a_file_is_measured_whole() {
    let directory = tempfile::tempdir().expect("a directory");
    let written = "[a]\nrw=write\nsize=16m\nbs=64k\ndirect=1\nramp_time=0\n";
    everywhere(directory.path(), written, (16 << 20, 256));
    let read = "[a]\nrw=randread\nsize=64m\nbs=4k\ndirect=1\nnumber_ios=8000\n";
    everywhere(directory.path(), read, (8_000 * 4_096, 8_000));
}

#[test]
fn a_job_that_ends_in_its_ramp_is_measured_whole() {
    let directory = tempfile::tempdir().expect("a directory");
    let job = "[a]\nrw=write\nsize=4m\nbs=64k\ndirect=1\nramp_time=2\nruntime=5\n";
    everywhere(directory.path(), job, (4 << 20, 64));
}

#[test]
fn no_ramp_of_the_command_line_or_of_other_groups_eats_a_job() {
    let directory = tempfile::tempdir().expect("a directory");
    let numbered = "drr:bs=4k,number_ios=300";
    assert_eq!(counted(directory.path(), &["model:ssd", "-w", numbered, "-s", "none"]).1, 300);
    assert_eq!(counted(directory.path(), &["model:ssd", "-w", numbered, "-s", "none", "--ramp", "5s"]).1, 300);
    let groups = ["--group", "name=a,workload=drr", "--group", "name=b,workload=drr:bs=4k,number_ios=300"];
    let usual = ["test", "model:ssd", "-s", "none", "--runtime", "1s", "--no-store", "--quiet", "--format", "fio-json"];
    let said = hoistway(directory.path(), &[&usual[..], &groups].concat());
    let result: Value = serde_json::from_str(&said.stdout).expect("JSON");
    assert_eq!(result["jobs"][1]["read"]["total_ios"], 300, "{}", said.stderr);
}
