//! `hoistway tune`: on models, from stored findings, and on models as real devices. Case numbers
//! are those of docs/specifications/harness.md, section 13.

#[path = "program/mod.rs"]
mod program;
#[path = "program/rig.rs"]
mod rig;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use hoistway_experiment::SchedulerSpec;
use hoistway_experiment::statistics::Estimate;
use hoistway_tune::{
    Attachment, CandidateFindings, Coefficients, DepthStep, Device, Findings, HostKind, Latencies, Noisy, StreamStep,
};
use program::{Said, command, entries, hoistway};
use rig::{Rig, becomes, left_behind, left_since};
use serde_json::{Value, json};

fn tune(arguments: &[&str]) -> Said {
    hoistway(Path::new("/"), &[&["tune"], arguments, &["--quiet"]].concat())
}

/// Runs `tune` and returns its JSON. Exit code 5 means that the figures are too noisy to decide; it
/// is accepted, because the JSON is complete then too.
fn document(arguments: &[&str]) -> Value {
    let said = tune(&[arguments, &["--json"]].concat());
    assert!([0, 5].contains(&said.code), "{}", said.stderr);
    serde_json::from_str(&said.stdout).expect("JSON")
}

fn kernel(document: &Value) -> &Value {
    &document["recommendation"]["kernel"]
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}")).to_owned()
}

fn evidence(advice: &Value) -> String {
    let items = advice["items"].as_array().expect("items");
    let of_items = items.iter().map(|item| text(&item["evidence"]));
    let left = advice["left"].as_array().expect("what was left").iter().map(text);
    of_items.chain(left).collect::<Vec<_>>().join("\n")
}

// ---- models ----

#[test]
fn t42_a_sata_disk_gets_a_scheduler_that_waits_and_never_none() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("sata.json");
    let path = path.to_str().expect("a path");
    let found = document(&["model:sata", "--quick", "--save", path]);
    assert_eq!(found["recommendation"]["class"]["class"], "seek-bound");
    assert_eq!(found["recommendation"]["idling"][0], "per-queue");
    assert_eq!(kernel(&found)["spec"], "bfq:low_latency=0");
    let why = evidence(kernel(&found));
    assert!(why.contains("one arm, which loses throughput by seeking between streams"), "{why}");
    assert!(why.contains("slice_idle=8 (0 would give "), "{why}");
    for goal in ["throughput", "latency", "fairness"] {
        let found = document(&["--from", path, "--goal", goal]);
        let spec = text(&kernel(&found)["spec"]);
        assert!(["bfq", "mq-deadline"].iter().any(|name| spec.starts_with(name)), "{goal}: {spec}");
        assert_ne!(found["recommendation"]["serve"]["spec"], "none");
    }
}

#[test]
fn t42_an_array_is_not_waited_for_and_its_groups_are_held_by_group_idling() {
    let found = document(&["model:raid5x12", "--quick", "--goal", "fairness"]);
    let recommendation = &found["recommendation"];
    assert_eq!(recommendation["class"]["class"], "array");
    assert_eq!(recommendation["idling"][0], "per-group");
    assert!(text(&recommendation["idling"][1]).contains("groups by group_idle"));
    // The scheduler that is recommended for the kernel may be BFQ only without idling. The one for
    // `hoistway serve` must support weights.
    let spec: SchedulerSpec = text(&kernel(&found)["spec"]).parse().expect("a scheduler");
    assert!(spec.name != "bfq" || spec.setting("slice_idle") == Some("0"), "{spec}");
    let serve: SchedulerSpec = text(&recommendation["serve"]["spec"]).parse().expect("a scheduler");
    assert!(["paternoster", "mqfq", "wfq", "cfq", "bfq"].contains(&serve.name.as_str()), "{serve}");
    let why = evidence(kernel(&found));
    assert!(why.contains("several arms: idling for one reader leaves the others unused"), "{why}");
    assert!(why.contains("R-IDLE: bfq with slice_idle=8 reads"), "{why}");
    let notes = recommendation["notes"].to_string();
    assert!(notes.contains("R-GROUP: enforce shares by idling for groups"), "{notes}");
}

#[test]
fn t42_an_ssd_is_not_waited_for() {
    let found = document(&["model:ssd", "--quick", "--budget", "30s"]);
    assert_eq!(found["recommendation"]["class"]["class"], "flash-sq");
    assert_eq!(found["recommendation"]["idling"][0], "pointless");
    let spec = text(&kernel(&found)["spec"]);
    assert!(!spec.starts_with("bfq") || spec.contains("slice_idle=0"), "{spec}");
    assert!(text(&found["recommendation"]["idling"][1]).contains("idling is useless"));
}

/// The rates that the recommended io.cost settings predict, compared with rates of the same model
/// that `hoistway test` measures.
#[test]
fn the_lines_of_io_cost_predict_random_reads_and_bandwidth() {
    for model in ["model:sata", "model:raid5x12", "model:ssd"] {
        let found = document(&[model, "--quick", "--budget", "20s", "--iocost", "--candidates", "none"]);
        let cost: Coefficients = serde_json::from_value(found["findings"]["cost"].clone()).expect("coefficients");
        let peak = |workload: &str, figure: &str| {
            let arguments =
                ["test", model, "-s", "none", "-w", workload, "--runtime", "4s", "--format", "json", "--quiet"];
            let said = hoistway(Path::new("/"), &[&arguments[..], &["--no-store", "--ramp", "1s"]].concat());
            assert_eq!(said.code, 0, "{}", said.stderr);
            let result: Value = serde_json::from_str(&said.stdout).expect("JSON");
            result["cells"][0]["total"][figure]["mean"].as_f64().expect("a figure")
        };
        let random = cost.predicted_random_ios_per_s() / peak("drr:bs=4k,iodepth=64", "iops");
        assert!((0.9..1.1).contains(&random), "{model}: random reads {random}");
        // The outer tenth of a disk is faster than its mean, so tune does not read there, and
        // neither does this measurement.
        let bytes = cost.predicted_bytes_per_s() / peak("dsr:bs=1m,iodepth=64,offset=10%,size=80%", "bw_bytes");
        assert!((0.9..1.1).contains(&bytes), "{model}: bandwidth {bytes}");
    }
}

#[test]
fn a_load_decides_instead_of_our_own() {
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(
        directory.path().join("load.fio"),
        "[global]\ndirect=1\nioengine=libaio\n[streams]\nrw=read\nbs=128k\nnumjobs=8\nsize=1g\niodepth=1\n",
    )
    .expect("the job file");
    let arguments =
        ["tune", "model:sata", "--quick", "--load", "load.fio", "--goal", "throughput", "--json", "--quiet"];
    let said = hoistway(directory.path(), &arguments);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let found: Value = serde_json::from_str(&said.stdout).expect("JSON");
    assert!(text(&kernel(&found)["spec"]).starts_with("bfq"), "{}", kernel(&found)["spec"]);
    assert!(evidence(kernel(&found)).contains("your load "));
    let said = hoistway(directory.path(), &["tune", "model:sata", "--load", "load.trace"]);
    assert_eq!(said.code, 2);
}

/// `tune` and `test` print the same isolation for one load, both under a scheduler that ignores weights and under one
/// that keeps them.
#[test]
fn a_load_of_groups_is_judged_as_in_a_test() {
    let directory = tempfile::tempdir().expect("a directory");
    let job = "[global]\ndirect=1\nioengine=libaio\ntime_based=1\nruntime=4\nsize=1g\n\
        [db]\ncgroup=db\ncgroup_weight=800\nrw=randread\nbs=8k\niodepth=128\n\
        [backup]\ncgroup=backup\ncgroup_weight=100\nrw=randread\nbs=8k\niodepth=512\n";
    fs::write(directory.path().join("load.fio"), job).expect("the job file");
    let json = |arguments: &[&str]| -> Value {
        let said = hoistway(directory.path(), arguments);
        assert!([0, 5].contains(&said.code), "{}", said.stderr);
        serde_json::from_str(&said.stdout).expect("JSON")
    };
    let list = ["--candidates", "none", "--candidates", "mqfq", "--json", "--quiet"];
    let goal = ["tune", "model:ssd", "--load", "load.fio", "--goal", "fairness"];
    let found = json(&[&goal[..], &list].concat());
    let tested =
        json(&["test", "model:ssd", "-w", "load.fio", "-s", "none", "-s", "mqfq", "--format", "json", "--quiet"]);
    for (index, bounds) in [0.1..0.4, 0.95..1.01].into_iter().enumerate() {
        let load = &found["findings"]["candidates"][index]["load"];
        let isolation = load["isolation"]["mean"].as_f64().expect("isolation");
        let of_test = tested["cells"][index]["isolation"].as_f64().expect("isolation");
        assert!(bounds.contains(&isolation) && (isolation - of_test).abs() < 0.03, "{isolation} {of_test} {load}");
        assert!((0.5..1.1).contains(&load["work"]["mean"].as_f64().expect("work")), "{load}");
    }
}

/// Eight readers, each reading its own part sequentially: like the trace of a video server. The
/// reads come every 0.3 ms, faster than a disk can serve them with a seek for each.
fn trace_of_streams(reads: u64) -> String {
    let mut text = String::from("time_ns,device,op,offset_bytes,length_bytes,flags,pid,comm,cpu,group,latency_ns\n");
    for number in 0..reads {
        let (reader, step) = (number % 8, number / 8);
        let offset = reader * (8 << 30) + step * (128 << 10);
        text +=
            &format!("{},8:16,read,{offset},131072,,{},reader{reader},0,,2000000\n", number * 300_000, 100 + reader);
    }
    text
}

#[test]
fn a_trace_is_a_load_at_its_own_times_and_as_fast_as_it_goes() {
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join("sdb.csv"), trace_of_streams(30_000)).expect("the trace");
    let tune = |more: &[&str]| {
        let first = ["tune", "model:sata", "--quick", "--load", "sdb.csv", "--json"];
        hoistway(directory.path(), &[&first[..], more].concat())
    };
    // Idling is worthwhile for eight processes that each wait for their reads, but not for one
    // process that reads at eight places.
    for (more, expected) in [(&["--own-processes"][..], "bfq:low_latency=0"), (&[], "mq-deadline")] {
        let said = tune(&[more, &["--pace", "dependent", "--goal", "throughput"]].concat());
        assert_eq!(said.code, 0, "{}", said.stderr);
        let found: Value = serde_json::from_str(&said.stdout).expect("JSON");
        assert_eq!(text(&kernel(&found)["spec"]), expected, "{}", evidence(kernel(&found)));
    }

    let said = tune(&["--goal", "latency", "--time", "0s-2s"]);
    assert!([0, 5].contains(&said.code), "{}", said.stderr);
    assert!(said.stderr.contains("your load"), "{}", said.stderr);
    let found: Value = serde_json::from_str(&said.stdout).expect("JSON");
    let loads: Vec<&Value> = found["findings"]["candidates"].as_array().expect("candidates").iter().collect();
    assert!(loads.iter().filter(|it| !it["load"].is_null()).count() >= 2, "{loads:?}");
    // A missing trace, or an option without one, is reported before any measurement.
    let said = hoistway(directory.path(), &["tune", "model:sata", "--load", "sdc.csv"]);
    assert!(said.code == 2 && said.stderr.contains("sdc.csv"), "{}", said.stderr);
    let said = hoistway(directory.path(), &["tune", "model:sata", "--pace", "closed"]);
    assert!(said.code == 2 && said.stderr.contains("--load"), "{}", said.stderr);
}

#[test]
fn t40_the_classic_table_has_a_block_per_scheduler_and_the_rule() {
    let said = tune(&["model:raid5x12", "--classic", "--quick", "--candidates", "noop", "--candidates", "cfq"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let lines: Vec<&str> = said.stdout.lines().collect();
    assert_eq!((lines[0], lines[5], lines.len()), ("iosched=noop", "iosched=cfq", 11), "{}", said.stdout);
    let rates = |line: &str| line.split_whitespace().map(|word| word.parse().expect("a rate")).collect::<Vec<f64>>();
    let eight = rates(lines[4]);
    assert_eq!((eight[0], eight.len()), (8.0, 10));
    assert!(eight[2..].is_sorted_by(|a, b| a >= b) && (eight[2..].iter().sum::<f64>() - eight[1]).abs() < 0.5);
    assert!(lines[10].contains("slice_idle=0"), "{}", lines[10]);
}

#[test]
fn the_same_question_has_the_same_answer_and_leaves_nothing_behind() {
    let directory = tempfile::tempdir().expect("a directory");
    let run = || hoistway(directory.path(), &["tune", "model:sata", "--quick", "--quiet"]);
    let (first, second) = (run(), run());
    assert_eq!((first.code, &first.stdout), (0, &second.stdout));
    assert!(entries(directory.path()).is_empty());
}

// ---- stored findings ----

fn exact(mean: f64) -> Estimate {
    Estimate { mean, sd: 0.0, ci95: Some(0.0), n: 3 }
}

fn steps(counts: &[u32], mb_per_s: &[f64]) -> Vec<StreamStep> {
    let step = |(count, rate): (&u32, &f64)| StreamStep {
        count: *count,
        bytes_per_s: exact(rate * 1e6),
        each_bytes_per_s: vec![],
    };
    counts.iter().zip(mb_per_s).map(step).collect()
}

fn depth(depth: u32, ios_per_s: f64, p50_ms: f64) -> DepthStep {
    DepthStep { depth, ios_per_s: exact(ios_per_s), p50_ns: p50_ms * 1e6, p99_ns: p50_ms * 2e6 }
}

fn device(name: &str) -> Device {
    Device {
        name: name.into(),
        model: "TEST DISK".into(),
        host: HostKind::Native,
        attachment: Attachment::Direct,
        size_bytes: 1 << 40,
        is_rotational: true,
        is_zoned: false,
        hw_queues: 1,
        queue_depth: 32,
        nr_requests: Some(64),
        schedulers: ["none", "mq-deadline", "kyber", "bfq"].map(str::to_owned).to_vec(),
        current: SchedulerSpec::named("mq-deadline"),
        current_is_real: true,
        wbt_lat_us: Some(75_000),
        has_groups: false,
        may_write: false,
        below: vec![],
    }
}

fn streams_of(spec: &str, mb_per_s: f64) -> CandidateFindings {
    let (streams, depths) = (steps(&[8], &[mb_per_s]), vec![depth(32, 200.0, 100.0)]);
    CandidateFindings { spec: spec.into(), streams, depths, ..CandidateFindings::default() }
}

/// Findings as measured on a SATA disk of 2010; those of the schedulers are from a similar disk
/// with a later kernel.
fn disk() -> Findings {
    Findings {
        streams: steps(&[1, 2, 4, 8], &[63.3, 18.7, 21.6, 29.6]),
        depths: vec![depth(1, 120.0, 8.0), depth(32, 200.0, 100.0)],
        candidates: vec![
            streams_of("bfq:low_latency=0", 61.0),
            streams_of("bfq", 11.8),
            streams_of("mq-deadline", 30.0),
            streams_of("none", 29.6),
        ],
        ..Findings::default()
    }
}

/// Writes findings to a file as `--save` does. Returns its path.
fn stored(directory: &Path, device: &Device, findings: &Findings) -> PathBuf {
    let path = directory.join("saved.json");
    let saved = json!({ "version": 1, "hoistway": "0", "device": device, "findings": findings });
    fs::write(&path, saved.to_string()).expect("the file");
    path
}

fn from(directory: &Path, device: &Device, findings: &Findings, more: &[&str]) -> Said {
    let path = stored(directory, device, findings);
    tune(&[&["--from", path.to_str().expect("a path")], more].concat())
}

#[test]
fn t40_and_t41_stored_findings_are_classified_and_decided() {
    let directory = tempfile::tempdir().expect("a directory");
    let said = from(directory.path(), &device("/dev/none-such"), &disk(), &[]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(said.stdout.contains("class: seek-bound   delta 0.295, gamma 0.468"), "{}", said.stdout);
    assert!(said.stdout.contains("scheduler            mq-deadline -> bfq  R-SEEK"), "{}", said.stdout);
    assert!(said.stdout.contains("nothing was changed. Apply now: hoistway tune /dev/none-such --from"));
    // Another goal needs no new measurements.
    let said = from(directory.path(), &device("/dev/none-such"), &disk(), &["--goal", "throughput", "--emit", "sysfs"]);
    let lines: Vec<&str> = said.stdout.lines().collect();
    assert_eq!(
        lines,
        ["echo bfq > /sys/block/none-such/queue/scheduler", "echo 0 > /sys/block/none-such/queue/iosched/low_latency"]
    );
}

#[test]
fn t44_what_cannot_be_recognised_gets_no_rule() {
    let directory = tempfile::tempdir().expect("a directory");
    for emit in ["udev", "systemd", "tuned"] {
        let said = from(directory.path(), &device("/dev/none-such"), &disk(), &["--emit", emit]);
        assert_eq!((said.code, said.stdout.as_str()), (3, ""), "{emit}");
        assert!(said.stderr.contains("neither a WWN nor a serial number"), "{}", said.stderr);
        assert!(said.stderr.contains("would match another disk after renumbering"), "{}", said.stderr);
    }
}

#[test]
fn t44_the_lines_of_io_cost_and_seastar() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut findings = disk();
    let said = from(directory.path(), &device("/dev/none-such"), &findings, &["--emit", "iocost"]);
    assert_eq!(said.code, 2, "{}", said.stdout);
    findings.cost = Some(Coefficients { read: [60e6, 5000.0, 160.0], write: Some([55e6, 4500.0, 150.0]) });
    findings.latencies =
        Some(Latencies { read_p50_ns: 20e6, read_p95_ns: 90e6, write_p50_ns: Some(1e6), write_p95_ns: Some(9e6) });
    let said = from(directory.path(), &device("/dev/none-such"), &findings, &["--emit", "iocost"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let lines: Vec<&str> = said.stdout.lines().filter(|line| !line.starts_with('#')).collect();
    let auto = hoistway_experiment::io_cost_lines::ModelValues { is_user: false, read: [1; 3], write: [1; 3] };
    let (_, model) =
        hoistway_experiment::io_cost_lines::parse_model(lines[0], &auto).expect("a line that the kernel takes");
    assert!(model.is_user && lines[0].contains("ctrl=user model=linear"), "{}", lines[0]);
    assert_eq!((model.read, model.write), ([60_000_000, 5_000, 160], [55_000_000, 4_500, 150]));
    let (_, safe) =
        hoistway_experiment::io_cost_lines::parse_model(lines[2], &auto).expect("a line that the kernel takes");
    assert_eq!(safe.read, [45_000_000, 3_750, 120]);
    assert!(lines[1].contains("rpct=50.00 rlat=30000 wpct=50.00 wlat=1500 min=60.00 max=100.00"), "{}", lines[1]);
    let said = from(directory.path(), &device("/dev/none-such"), &findings, &["--emit", "seastar-yaml"]);
    let expected = "disks:\n  - mountpoint: /dev/none-such\n    read_iops: 160\n    read_bandwidth: 60000000\n    write_iops: 150\n    write_bandwidth: 55000000\n";
    assert_eq!(said.stdout, expected);
}

#[test]
fn t45_noise_is_named_and_changes_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut findings = disk();
    let noisy =
        Noisy { probe: "streams-8".into(), spec: "bfq:low_latency=0".into(), is_candidates: true, variation: 0.25 };
    findings.noisy.push(noisy);
    let said = from(directory.path(), &device("/dev/none-such"), &findings, &[]);
    assert_eq!(said.code, 5, "{}", said.stderr);
    assert!(said.stdout.contains("inconclusive, keep mq-deadline"), "{}", said.stdout);
    assert!(said.stdout.contains("streams-8 under bfq:low_latency=0 varies by 25 %"), "{}", said.stdout);
}

// ---- mistakes and refusals ----

#[test]
fn each_mistake_is_named() {
    let directory = tempfile::tempdir().expect("a directory");
    let said = |arguments: &[&str]| {
        let said = hoistway(directory.path(), &[&["tune"], arguments].concat());
        (said.code, said.stderr)
    };
    let (code, text) = said(&["/dev/doesnotexist0"]);
    assert!(code == 2 && text.contains("/dev/doesnotexist0: no such device"), "{text}");
    assert!(!Path::new("/dev/doesnotexist0").exists());
    let (code, text) = said(&["model:floppy"]);
    assert!(code == 2 && text.contains("floppy"), "{text}");
    let (code, text) = said(&["model:sata", "--goal", "speed"]);
    assert!(code == 2 && text.contains("goals: balanced, throughput"), "{text}");
    let (code, text) = said(&["model:sata", "--candidates", "cqf", "--quick"]);
    assert!(code == 2 && text.contains("cqf"), "{text}");
    let (code, _) = said(&["model:sata", "--destructive", "/dev/sda"]);
    assert_eq!(code, 2);
    let (code, text) = said(&["model:sata", "--no-probe", "--apply"]);
    assert!(code == 2 && text.contains("no kernel settings"), "{text}");
    let (code, _) = said(&["--from", "nothing.json"]);
    assert_eq!(code, 2);
    match ["/dev/vda", "/dev/sda", "/dev/nvme0n1", "/dev/loop0"].into_iter().find(|path| Path::new(path).exists()) {
        Some(disk) => {
            let (code, text) = said(&[disk, "--probe-writes"]);
            assert!(code == 2 && text.contains(&format!("--destructive {disk}")), "{text}");
        }
        None => eprintln!("skipped: there is no block device to ask for writes on"),
    }
    assert!(entries(directory.path()).is_empty());
}

#[test]
fn without_a_target_the_disks_are_listed_without_any_io() {
    let said = tune(&[]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(said.stdout.contains("probably ") || said.stdout == "no disks\n", "{}", said.stdout);
}

// ---- models as real devices ----

const SMALL: [&str; 3] = ["null,latency_us=800,servers=8,queue_depth=8", "--size", "1G"];

/// Every setting that tune may change.
fn state(rig: &Rig) -> Vec<String> {
    let names = ["scheduler", "nr_requests", "wbt_lat_usec", "rotational"];
    let mut state: Vec<String> = names.iter().map(|name| format!("{name}={}", rig.get(name))).collect();
    let tunables = fs::read_dir(rig.queue("iosched")).into_iter().flatten().flatten();
    let names = tunables.map(|entry| entry.file_name().to_string_lossy().into_owned());
    state.extend(names.map(|name| format!("{name}={}", rig.get(&format!("iosched/{name}")))));
    state.sort();
    state
}

/// Findings like those of [`disk`], but for this device.
fn of_rig(rig: &Rig) -> Device {
    let sectors: u64 = fs::read_to_string(rig.queue("../size")).expect("its size").trim().parse().expect("a number");
    Device { model: format!("model:{}", SMALL[0]), size_bytes: sectors * 512, ..device(&rig.node) }
}

#[test]
fn t43_what_is_applied_is_undone() {
    let Some(_alone) = rig::possible("t43_what_is_applied_is_undone") else { return };
    let before = left_behind();
    let rig = Rig::create(&SMALL);
    let (directory, root) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a root"));
    let root = root.path().to_str().expect("a path");
    for by_hand in [
        &[("scheduler", "mq-deadline"), ("iosched/fifo_batch", "4")][..],
        &[("scheduler", "bfq"), ("iosched/slice_idle", "4"), ("nr_requests", "60")],
    ] {
        by_hand.iter().for_each(|(name, value)| rig.set(name, value));
        let was = state(&rig);
        let apply = ["--apply", "--root", root];
        let said = from(directory.path(), &of_rig(&rig), &disk(), &apply);
        assert_eq!(said.code, 0, "{}", said.stderr);
        let settings = ["scheduler", "iosched/low_latency", "iosched/slice_idle"].map(|name| rig.get(name));
        assert_eq!(settings, ["bfq", "0", "8"]);
        // One undo after two applications restores the original settings.
        assert_eq!(from(directory.path(), &of_rig(&rig), &disk(), &apply).code, 0);
        let said = tune(&["--undo", &rig.node, "--root", root]);
        assert_eq!(said.code, 0, "{}", said.stderr);
        assert_eq!(state(&rig), was);
        assert_eq!(tune(&["--undo", &rig.node, "--root", root]).stdout, "nothing to undo\n");
    }
    // `--apply` refuses measurements of another disk, and `--persist` refuses a disk without a WWN,
    // because its udev rule could not identify it.
    let other = Device { size_bytes: 1, ..of_rig(&rig) };
    assert_eq!(from(directory.path(), &other, &disk(), &["--apply", "--root", root]).code, 3);
    let was = state(&rig);
    assert_eq!(from(directory.path(), &of_rig(&rig), &disk(), &["--persist", "--root", root]).code, 3);
    // An administrator's udev rule that sets the scheduler takes precedence, so nothing is applied.
    fs::create_dir_all(Path::new(root).join("etc/udev/rules.d")).expect("a directory");
    fs::write(Path::new(root).join("etc/udev/rules.d/60-mine.rules"), "ATTR{queue/scheduler}=\"none\"\n")
        .expect("a rule");
    let said = from(directory.path(), &of_rig(&rig), &disk(), &["--apply", "--root", root]);
    assert!(said.code == 3 && said.stderr.contains("60-mine.rules"), "{}", said.stderr);
    assert_eq!(state(&rig), was);
    drop(rig);
    assert_eq!(left_since(&before), Vec::<String>::new());
}

#[test]
fn an_interrupt_puts_everything_back() {
    let Some(_alone) = rig::possible("an_interrupt_puts_everything_back") else { return };
    let before = left_behind();
    let rig = Rig::create(&SMALL);
    rig.set("scheduler", "bfq");
    rig.set("iosched/slice_idle", "4");
    let was = state(&rig);
    let arguments = ["tune", &rig.node, "--quick", "--quiet"];
    let mut child = command(Path::new("/"), &arguments).stdout(Stdio::null()).spawn().expect("the program");
    let begun = becomes(|| rig.get("scheduler") != "bfq");
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill");
    let status = child.wait().expect("its end");
    assert!(begun, "it never began: {status:?}");
    assert_eq!(status.code(), Some(130));
    assert_eq!(state(&rig), was);
    drop(rig);
    assert_eq!(left_since(&before), Vec::<String>::new());
}

// ---- from fio ----

/// A result of fio 3.33: per job name, group, options, direction, bytes and requests per second,
/// and the 50th and 99th percentile in ns.
struct FioRun<'a>(&'a str, u32, &'a [(&'a str, &'a str)], &'a str, [u64; 4]);

fn fio_document(runs: &[FioRun<'_>]) -> String {
    let jobs: Vec<Value> = runs
        .iter()
        .map(|FioRun(name, group, options, direction, [bytes, ios, p50, p99])| {
            let none = json!({ "total_ios": 0, "bw_bytes": 0, "iops": 0.0, "runtime": 0 });
            let all: serde_json::Map<String, Value> =
                options.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
            let mut job = json!({
                "jobname": name, "groupid": group, "error": 0, "job options": all, "read": none, "write": none
            });
            job[*direction] = json!({
                "total_ios": ios * 10, "bw_bytes": bytes, "iops": *ios as f64, "runtime": 10_000,
                "clat_ns": { "min": 1, "max": p99, "mean": p50, "N": ios * 10,
                    "percentile": { "50.000000": p50, "99.000000": p99 } }
            });
            job
        })
        .collect();
    format!("{:#}", json!({ "fio version": "fio-3.33", "jobs": jobs }))
}

const STREAM: &[(&str, &str)] = &[("rw", "read"), ("bs", "128k")];
const EIGHT: &[(&str, &str)] = &[("rw", "read"), ("bs", "128k"), ("numjobs", "8"), ("group_reporting", "1")];
const READER: &[(&str, &str)] = &[("rw", "randread"), ("bs", "4k")];
const DEEP: &[(&str, &str)] =
    &[("rw", "randread"), ("bs", "4k"), ("iodepth", "32"), ("ioengine", "libaio"), ("direct", "1")];

/// fio's results on a disk with one arm under a scheduler: eight streams read `eight_bytes` per
/// second together, and a random reader beside streams waits `wait_ns`.
fn of_disk(eight_bytes: u64, wait_ns: u64) -> String {
    fio_document(&[
        FioRun("one", 0, STREAM, "read", [63_000_000, 480, 2_000_000, 3_000_000]),
        FioRun("eight", 1, EIGHT, "read", [eight_bytes, eight_bytes / 131_072, 50_000_000, 90_000_000]),
        FioRun("random", 2, READER, "read", [450_000, 110, 9_000_000, 15_000_000]),
        FioRun("deep", 3, DEEP, "read", [900_000, 220, 140_000_000, 300_000_000]),
        FioRun("reader", 4, READER, "read", [40_000, 10, wait_ns / 4, wait_ns]),
        FioRun("streams", 4, EIGHT, "read", [eight_bytes, eight_bytes / 131_072, 50_000_000, 90_000_000]),
    ])
}

#[test]
fn results_of_fio_decide_as_our_own_would() {
    let directory = tempfile::tempdir().expect("a directory");
    let files = [("none.json", of_disk(18_000_000, 700_000_000)), ("bfq.json", of_disk(57_000_000, 500_000_000))];
    for (name, text) in &files {
        fs::write(directory.path().join(name), text).expect("a file");
    }
    let arguments = ["tune", "model:sata", "--goal", "throughput", "--quiet", "--json"];
    let sources = ["--from-fio", "none=none.json", "--from-fio", "bfq:low_latency=0=bfq.json"];
    let said = hoistway(directory.path(), &[&arguments[..], &sources].concat());
    assert_eq!(said.code, 0, "{}", said.stderr);
    let found: Value = serde_json::from_str(&said.stdout).expect("JSON");
    let findings: Findings = serde_json::from_value(found["findings"].clone()).expect("findings");
    assert_eq!(findings.streams_of(8).map(|rate| rate.mean), Some(18_000_000.0));
    assert_eq!(findings.random_read_p50_ns().map(|ns| (ns / 1e6).round()), Some(9.0));
    let waits =
        |index: usize| findings.candidates[index].among_readers.as_ref().map(|it| (it.p99_ns.mean / 1e7).round());
    assert_eq!((waits(0), waits(1)), (Some(70.0), Some(50.0)));
    assert_eq!(found["recommendation"]["class"]["class"], "seek-bound");
    assert_eq!(kernel(&found)["spec"], "bfq:low_latency=0");
    assert!(evidence(kernel(&found)).contains("8 streams 57.0 MB/s"), "{}", evidence(kernel(&found)));
}

#[test]
fn results_of_the_device_alone_give_its_class_and_the_usual_choice() {
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join("a.json"), of_disk(18_000_000, 700_000_000)).expect("a file");
    let said = hoistway(directory.path(), &["tune", "model:sata", "--from-fio", "a.json", "--json", "--quiet"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let found: Value = serde_json::from_str(&said.stdout).expect("JSON");
    assert_eq!(kernel(&found)["items"][0]["rule"], "R-STATIC");
    assert_eq!(kernel(&found)["items"][0]["confidence"], "low");
    assert!(evidence(kernel(&found)).contains("no scheduler was tried"), "{}", evidence(kernel(&found)));
}

#[test]
fn results_of_fio_that_say_nothing_are_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let write = &[("rw", "write"), ("bs", "4k")];
    let text = fio_document(&[FioRun("log", 0, write, "write", [1_000_000, 250, 1, 2])]);
    fs::write(directory.path().join("a.json"), text).expect("a file");
    for (file, what) in [("a.json", "no figure in it describes the device"), ("missing.json", "missing.json")] {
        let said = hoistway(directory.path(), &["tune", "model:sata", "--from-fio", file]);
        assert_ne!(said.code, 0);
        assert!(said.stderr.contains(what), "{}", said.stderr);
    }
    // Without a device's name there is no device to recommend for.
    fs::write(directory.path().join("b.json"), of_disk(18_000_000, 700_000_000)).expect("a file");
    let said = hoistway(directory.path(), &["tune", "--from-fio", "b.json"]);
    assert_eq!(said.code, 2);
    assert!(said.stderr.contains("name the device: hoistway tune /dev/sdb"), "{}", said.stderr);
}
