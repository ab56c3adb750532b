//! Case 20 of docs/specifications/harness.md, section 13: numbers of I/Os compared with fio, null
//! engine only.
//!
//! A message tells that it is skipped if fio is missing. Deterministic patterns must agree exactly,
//! mixes within three sigma.

use std::process::Command;

use hoistway_workload::fio::{self, Surroundings};
use hoistway_workload::{Issuer, Job, Next};

/// I/Os per direction: reads, writes, trims.
type Counts = [u64; 3];

/// (name, job file, whether the counts depend on chance).
const FILES: &[(&str, &str, bool)] = &[
    ("dense", "[j]\nsize=10k\n[k]\nrw=write\nsize=1m\nbs=3k\n[l]\nsize=1m\nio_size=10k\n", false),
    ("random_map", "[j]\nrw=randread\nsize=1m\nloops=3\n[k]\nrw=randread\nsize=1m\nio_size=3m\n", false),
    ("numbers", "[j]\nsize=1m\nnumber_ios=30\nloops=3\n[k]\nrw=randread\nsize=1m\nnumber_ios=300\nloops=2\n", false),
    ("strides", "[j]\nrw=read:8k\nsize=1m\n[k]\nrw=read:-8k\nsize=1m\n[l]\nrw=read:4k\nsize=1m\n", false),
    ("runs", "[j]\nrw=randread:8\nsize=4m\nnumber_ios=100\n[k]\nrw=randwrite\nbs=16k\nsize=1m\nfsync=4\n", false),
    (
        "files",
        "[j]\nsize=1m\nnrfiles=3\n[k]\nsize=1m\nnrfiles=4\nio_size=3m\n[l]\nsize=64k\nnrfiles=3\nloops=2\nfile_service_type=sequential\n[m]\nfilesize=100k\nnrfiles=3\nrw=write\n",
        false,
    ),
    (
        "many",
        "[j]\nsize=1m\nnrfiles=3\nrw=randread\nfile_service_type=random\n[k]\nrw=write\nsize=256k\nfilename=x:y\n",
        false,
    ),
    (
        "zones",
        "[j]\nsize=10m\nzonemode=strided\nzonesize=64k\nzoneskip=192k\n[k]\nsize=1m\nzonemode=strided\nzonesize=256k\nzonerange=64k\nrw=write\n",
        false,
    ),
    ("percent", "[j]\nfilesize=1m\nsize=1m\noffset=10%\n[k]\nfilesize=1m\nsize=50%\nnrfiles=2\n", false),
    (
        "file_sizes",
        "[j]\nfilesize=64m\nsize=4m\nrw=randread\noffset_increment=8m\nnumjobs=3\n[k]\nfilesize=16m\nsize=4m\nloops=3\n[l]\nfilesize=16m\nsize=1m\nbs=12k\nrw=randwrite\nloops=2\n[m]\nfilesize=1m\nsize=4m\nrw=write\n[n]\nfilesize=3m\nsize=1m\nrw=randread\nrandom_distribution=zipf:1.2\nnorandommap\n[o]\nfilesize=1m\nnrfiles=4\nsize=2m\n",
        false,
    ),
    (
        "file_sizes_and_depth",
        "[global]\niodepth=8\n[j]\nfilesize=16m\nsize=4m\nloops=3\n[k]\nfilesize=4m\nsize=1000k\nbs=16k\nio_size=3m\n[l]\nfilesize=8m\nsize=1m\nrw=randwrite\nnorandommap\nloops=2\n[m]\nfilesize=8m\nsize=1m\nrw=randread\nloops=2\n",
        false,
    ),
    ("trims", "[j]\nrw=trimwrite\nsize=1m\n[k]\nrw=randtrim\nsize=512k\n", false),
    ("clones", "[global]\nsize=256k\nbs=8k\n[j]\nnumjobs=3\n[k]\nstonewall\nrw=write\niodepth=8\n", false),
    (
        "verify",
        "[global]\nsize=1m\n[j]\nrw=write\nverify=crc32c\n[k]\nrw=randwrite\nverify=md5\nloops=2\n\
         [l]\nrw=write\nio_size=5m\nverify=sha1\n[m]\nrw=randwrite\nnumber_ios=20\nverify=meta\n\
         [n]\nrw=write\nverify=crc64\nverify_backlog=16\nverify_backlog_batch=4\n[o]\nrw=read\nverify=crc16\n\
         [p]\nrw=write\nverify=crc7\ndo_verify=0\n[q]\nrw=write:4k\nverify=xxhash\n",
        false,
    ),
    (
        "verify_mix",
        "[j]\nrw=randrw\nsize=16m\nverify=crc32c\n[k]\nrw=randwrite\nnorandommap\nsize=16m\nverify=crc32c\n",
        true,
    ),
    ("mix", "[j]\nrw=randrw\nrwmixread=70\nsize=16m\n[k]\nrw=rw\nsize=16m\nrwmixwrite=90\n", true),
    (
        "trimmed",
        "[j]\nrw=randread\nsize=64m\nbssplit=512/10:1k/5:2k/5:4k/60:8k/2:16k/4:32k/4:64k/10\n[k]\nrw=randwrite\nsize=64m\nbsrange=4k-32k\n[l]\nrw=randrw\nsize=32m\nbssplit=4k/50:16k/50\n",
        true,
    ),
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
                    hoistway_block::Operation::Read => counts[0] += 1,
                    hoistway_block::Operation::Write => counts[1] += 1,
                    hoistway_block::Operation::Discard => counts[2] += 1,
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
    let place = tempfile::tempdir().expect("a directory");
    let directory = place.path();
    let mut differences = Vec::new();
    for (name, text, has_chance) in FILES {
        let text = format!("[global]\nioengine=null\n{text}");
        let (fios, ours) = (fios(directory, name, &text), ours(&text));
        assert_eq!(fios.len(), ours.len(), "{name}: number of results");
        for ((job, theirs), (_, counts)) in fios.iter().zip(&ours) {
            let agree = theirs.iter().zip(counts).all(|(a, b)| {
                // Each count is a sum of independent draws, so its variance is at most the number
                // of I/Os, on both sides.
                let tolerance = if *has_chance { 3 * (2 * (*a).max(*b)).isqrt() } else { 0 };
                a.abs_diff(*b) <= tolerance
            });
            if !agree {
                differences.push(format!("{name}, job {job}: fio {theirs:?}, ours {counts:?}"));
            }
        }
    }
    std::fs::remove_dir_all(directory).expect("our own directory");
    assert!(differences.is_empty(), "reads, writes, trims:\n{}", differences.join("\n"));
}

/// Job files whose order of I/Os is deterministic.
const ORDERS: &[(&str, &str)] = &[
    ("round_robin", "size=64k\nnrfiles=3\n"),
    ("round_robin_2", "size=64k\nnrfiles=3\nfile_service_type=roundrobin:2\n"),
    ("sequential", "size=64k\nnrfiles=3\nfile_service_type=sequential\n"),
    ("loops", "size=48k\nnrfiles=2\nloops=2\n"),
    ("offset", "nrfiles=2\nfilesize=16k\noffset=4k\n"),
    ("aligned", "filesize=1m\nsize=1m\noffset=10%\noffset_align=64k\n"),
    ("percent", "filesize=1m\nsize=1m\noffset=10%\n"),
    ("skip", "size=128k\nzonemode=strided\nzonesize=8k\nzoneskip=12k\n"),
    ("stay", "size=128k\nzonemode=strided\nzonesize=16k\nzonerange=8k\n"),
    ("range", "size=128k\nzonemode=strided\nzonesize=8k\nzonerange=16k\n"),
    ("backwards", "rw=read:-8k\nsize=128k\n"),
    ("backwards_again", "rw=read:-8k\nsize=32k\nloops=3\n"),
    ("backwards_round", "rw=read:-6k\nsize=128k\nio_size=300k\n"),
    ("backwards_in_place", "rw=read:-4k\nsize=32k\n"),
    ("backwards_behind", "rw=read:-8k\nsize=32k\noffset=64k\n"),
    ("backwards_within", "rw=read:-8k\nsize=32k\noffset=16k\nio_size=64k\n"),
    ("backwards_to_the_end", "rw=read:-8k\nsize=212k\noffset=344k\nbs=8k\nloops=2\n"),
    ("backwards_nothing_fits", "rw=read:-4k\nsize=672k\noffset=1m\nbs=16k\n"),
    ("backwards_overlapping", "rw=read:-8k\nsize=1344k\noffset=372k\nbs=64k\n"),
    ("stride_over_the_end", "rw=read:8k\nsize=36k\nloops=3\n"),
    ("stride_to_a_rest", "rw=read:8k\nsize=756k\nbs=8k\nloops=2\n"),
    ("stride_in_the_middle", "rw=read:4k\nsize=128k\noffset=256k\nio_size=200k\n"),
    ("file_size_loops", "filesize=512k\nsize=64k\nloops=3\n"),
    ("file_size_loops_with_depth", "iodepth=4\nfilesize=512k\nsize=64k\nloops=3\n"),
    ("file_size_end", "filesize=100k\nsize=64k\nloops=3\nbs=12k\n"),
    ("file_size_io_size", "filesize=100k\nsize=64k\nio_size=200k\nbs=8k\n"),
    ("file_size_offset", "filesize=256k\noffset=40k\nsize=60k\nbs=8k\nloops=2\n"),
    ("file_size_stride", "rw=read:4k\nfilesize=256k\nsize=60k\nloops=3\n"),
    ("file_size_backwards", "rw=read:-8k\nfilesize=256k\nsize=60k\nloops=3\n"),
    ("file_size_below", "filesize=32k\nsize=64k\nloops=2\n"),
    ("rest", "rw=read\nsize=168k\nbs=16k\nio_size=324k\n"),
    ("wrap", "size=128k\nio_size=300k\nzonemode=strided\nzonesize=12k\nzoneskip=20k\n"),
];

/// (file, offset in bytes) of each I/O, from fio's iolog.
fn order_of_fio(directory: &std::path::Path, name: &str, text: &str) -> Vec<(u64, u64)> {
    let (path, log) = (directory.join(format!("{name}.fio")), directory.join(format!("{name}.log")));
    std::fs::write(&path, format!("{text}write_iolog={}\n", log.display())).expect("writable");
    let output = Command::new("fio").arg(&path).current_dir(directory).output().expect("fio runs");
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stdout));
    let log = std::fs::read_to_string(log).expect("fio wrote its log");
    let number = |text: Option<&str>| text.and_then(|text| text.parse().ok()).expect("a number");
    let place = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let file = || number(words.get(1).and_then(|name| name.rsplit('.').next()));
        (words.get(2) == Some(&"read")).then(|| (file(), number(words.get(3).copied())))
    };
    let mut places: Vec<_> = log.lines().filter_map(place).collect();
    if text.contains("iodepth") {
        // fio logs an I/O that waited for a place in the queue twice.
        places.dedup();
    }
    places
}

#[test]
fn t20_files_and_zones_go_in_the_order_of_fio() {
    if Command::new("fio").arg("--version").output().is_err() {
        eprintln!("skipped: fio is not installed (Debian package fio)");
        return;
    }
    let place = tempfile::tempdir().expect("a directory");
    let directory = place.path();
    for (name, text) in ORDERS {
        let text = format!("[j]\nioengine=null\n{text}");
        let theirs = order_of_fio(directory, name, &text);
        let job = fio::parse("t.fio", text.as_bytes(), &Surroundings::none()).expect("a right file").jobs.remove(0);
        let area_bytes = job.wanted_area_bytes().expect("a size");
        let each_bytes = area_bytes / u64::from(job.area.files);
        let mut issuer = Issuer::new(&job, 0, area_bytes, 1).expect("it fits");
        let mut ours = Vec::new();
        while let Next::Issue(io) = issuer.next(0) {
            ours.push((io.offset_bytes / each_bytes, io.offset_bytes % each_bytes));
            issuer.completed(io.token, true);
        }
        assert_eq!(ours, theirs, "{name}");
    }
    std::fs::remove_dir_all(directory).expect("our own directory");
}
