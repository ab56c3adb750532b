//! Harness specification 13, case 20: counts of I/Os against the fio program, null engine only.
//!
//! Skipped aloud where fio is missing. Patterns without chance must agree exactly, mixes within three sigma.

use std::process::Command;

use hoistway_workload::fio::{self, Surroundings};
use hoistway_workload::{Issuer, Job, Next};

/// I/Os per direction: reads, writes, trims.
type Counts = [u64; 3];

/// (name, job file, whether the counts depend on chance).
const FILES: &[(&str, &str, bool)] = &[
    ("dense", "[j]\nsize=10k\n[k]\nrw=write\nsize=1m\nbs=3k\n[l]\nsize=1m\nio_size=10k\n", false),
    ("random_map", "[j]\nrw=randread\nsize=1m\nloops=3\n[k]\nrw=randread\nsize=1m\nio_size=3m\n", false),
    ("strides", "[j]\nrw=read:8k\nsize=1m\n[k]\nrw=read:-8k\nsize=1m\n[l]\nrw=read:4k\nsize=1m\n", false),
    ("runs", "[j]\nrw=randread:8\nsize=4m\nnumber_ios=100\n[k]\nrw=randwrite\nbs=16k\nsize=1m\nfsync=4\n", false),
    ("trims", "[j]\nrw=trimwrite\nsize=1m\n[k]\nrw=randtrim\nsize=512k\n", false),
    ("clones", "[global]\nsize=256k\nbs=8k\n[j]\nnumjobs=3\n[k]\nstonewall\nrw=write\niodepth=8\n", false),
    ("mix", "[j]\nrw=randrw\nrwmixread=70\nsize=16m\n[k]\nrw=rw\nsize=16m\nrwmixwrite=90\n", true),
    (
        "splits",
        "[j]\nrw=randread\nnorandommap\nsize=64m\nbssplit=4k/60:16k/40\n[k]\nrw=randwrite\nnorandommap\nbsrange=4k-16k\nsize=64m\n",
        true,
    ),
];

fn ours(text: &str) -> Vec<(String, Counts)> {
    let jobs = fio::parse("t.fio", text.as_bytes(), &Surroundings::none()).expect("a right file").jobs;
    let of = |job: &Job| (0..job.threads).map(|thread| (job.name.clone(), counts(job, thread))).collect::<Vec<_>>();
    jobs.iter().flat_map(of).collect()
}

fn counts(job: &Job, thread: u32) -> Counts {
    let area_bytes = job.wanted_area_bytes().expect("every file here gives a size");
    let mut issuer = Issuer::new(job, thread, area_bytes, 1).expect("it fits");
    let mut counts = [0; 3];
    loop {
        match issuer.next(0) {
            Next::Issue(io) => {
                match io.operation {
                    block::Operation::Read => counts[0] += 1,
                    block::Operation::Write => counts[1] += 1,
                    block::Operation::Discard => counts[2] += 1,
                    _ => {}
                }
                issuer.completed(io.token, true);
            }
            Next::Finished => return counts,
            other => panic!("{other:?} although nothing is in flight and no rate is set"),
        }
    }
}

fn fios(directory: &std::path::Path, name: &str, text: &str) -> Vec<(String, Counts)> {
    let path = directory.join(format!("{name}.fio"));
    std::fs::write(&path, text).expect("the temporary directory is writable");
    let output =
        Command::new("fio").arg("--output-format=json").arg(&path).current_dir(directory).output().expect("fio runs");
    let text = String::from_utf8_lossy(&output.stdout);
    // fio prints notes before its document.
    let start = text.find('{').unwrap_or_else(|| panic!("{name}: no JSON from fio: {text}"));
    let document: serde_json::Value = serde_json::from_str(&text[start..]).expect("fio prints JSON");
    let count = |job: &serde_json::Value, direction: &str| job[direction]["total_ios"].as_u64().expect("a count");
    let jobs = document["jobs"].as_array().expect("fio lists jobs");
    let figures = |job: &serde_json::Value| {
        let name = job["jobname"].as_str().expect("a name").to_owned();
        (name, ["read", "write", "trim"].map(|direction| count(job, direction)))
    };
    jobs.iter().map(figures).collect()
}

#[test]
fn t20_counts_equal_those_of_fio() {
    if Command::new("fio").arg("--version").output().is_err() {
        eprintln!("skipped: fio is not installed (Debian package fio)");
        return;
    }
    let directory = std::env::temp_dir().join(format!("hoistway-fio-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("the temporary directory is writable");
    let mut differences = Vec::new();
    for (name, text, has_chance) in FILES {
        let text = format!("[global]\nioengine=null\n{text}");
        let (fios, ours) = (fios(&directory, name, &text), ours(&text));
        assert_eq!(fios.len(), ours.len(), "{name}: number of results");
        for ((job, theirs), (_, counts)) in fios.iter().zip(&ours) {
            let agree = theirs.iter().zip(counts).all(|(a, b)| {
                // Each count is a sum of independent draws: its variance is at most the number of I/Os, on both sides.
                let tolerance = if *has_chance { 3 * (2 * (*a).max(*b)).isqrt() } else { 0 };
                a.abs_diff(*b) <= tolerance
            });
            if !agree {
                differences.push(format!("{name}, job {job}: fio {theirs:?}, ours {counts:?}"));
            }
        }
    }
    std::fs::remove_dir_all(&directory).expect("our own directory");
    assert!(differences.is_empty(), "reads, writes, trims:\n{}", differences.join("\n"));
}
