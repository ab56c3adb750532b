//! The native host on models as real devices: its measurements, its refusals, and that it restores
//! all settings.

#[path = "program/mod.rs"]
mod program;
#[path = "program/rig.rs"]
mod rig;

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::MutexGuard;
use std::time::Duration;

use program::{Said, command, hoistway};
use rig::{Rig, becomes, left_behind, left_since};
use serde_json::Value;

/// Eight slots of 800 us: at most 10,000 reads per second.
const FLASH: [&str; 3] = ["null,latency_us=800,servers=8,queue_depth=8", "--size", "1G"];
const QUICK: [&str; 8] = ["--runtime", "400ms", "--ramp", "0", "--cooldown", "0", "--no-store", "-w"];

/// As [`rig::possible`]; also requires a cgroup hierarchy with the I/O controller.
fn possible(test: &str) -> Option<MutexGuard<'static, ()>> {
    let has_groups = |path: &str, word: &str| fs::read_to_string(path).is_ok_and(|text| text.contains(word));
    let alone = rig::possible(test)?;
    if !has_groups("/proc/self/mounts", "blkio") && !has_groups("/sys/fs/cgroup/cgroup.controllers", "io") {
        eprintln!("skipped: {test}: no cgroup hierarchy has the I/O controller");
        return None;
    }
    Some(alone)
}

fn test(rig: &Rig, arguments: &[&str]) -> Said {
    hoistway(Path::new("/"), &[&["test", &rig.node, "--host", "native"], arguments].concat())
}

/// The cells of a run's JSON.
fn cells(said: &Said) -> Vec<Value> {
    assert_eq!(said.code, 0, "{}", said.stderr);
    let result: Value = serde_json::from_str(&said.stdout).expect("JSON");
    assert_eq!(result["host"], "native");
    result["cells"].as_array().expect("cells").clone()
}

/// Sets scheduler, tunables and number of requests as a user would; returns the values in force.
fn by_hand(rig: &Rig) -> [String; 4] {
    rig.set("scheduler", "bfq");
    rig.set("iosched/low_latency", "0");
    rig.set("iosched/slice_idle", "4");
    rig.set("nr_requests", "60");
    now(rig)
}

fn now(rig: &Rig) -> [String; 4] {
    ["scheduler", "iosched/low_latency", "iosched/slice_idle", "nr_requests"].map(|name| rig.get(name))
}

/// Starts a test of three schedulers that takes some seconds; returns while it measures.
fn under_way(rig: &Rig) -> Child {
    let arguments = ["test", &rig.node, "--host", "native", "-s", "none", "-s", "mq-deadline", "-s", "kyber"];
    let more = ["--weights", "100,800", "-w", "drr:bs=4k,iodepth=8", "--runtime", "5s", "--ramp", "0", "--no-store"];
    let mut command = command(Path::new("/"), &[&arguments[..], &more].concat());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the program");
    let group = format!("hoistway.{}", child.id());
    if becomes(|| left_behind().iter().any(|thing| thing.ends_with(&group)) && rig.get("scheduler") != "bfq") {
        std::thread::sleep(Duration::from_millis(300));
        return child;
    }
    signal("-TERM", child.id());
    let status = child.wait();
    panic!("the run did not begin: {status:?}");
}

fn signal(signal: &str, pid: u32) {
    Command::new("kill").args([signal, &pid.to_string()]).status().expect("kill");
}

#[test]
fn t24_a_device_that_does_not_exist_is_not_made() {
    let directory = Path::new("/");
    let said = hoistway(directory, &["test", "/dev/doesnotexist0", "--host", "native", "-s", "none"]);
    assert_eq!(said.code, 2, "{}", said.stderr);
    assert!(!Path::new("/dev/doesnotexist0").exists());
}

#[test]
fn t25_writing_needs_permission_an_idle_device_and_an_empty_one() {
    let Some(_alone) = possible("t25") else { return };
    let rig = Rig::create(&["null", "--size", "256M"]);
    let quick: Vec<&str> = [&QUICK[..], &["drw:bs=4k", "-s", "none"]].concat();
    let destructive = |more: &[&str]| test(&rig, &[&quick[..], &["--destructive", &rig.node], more].concat());
    assert_eq!(test(&rig, &quick).code, 3, "writes were not allowed");
    let formatted = Command::new("mkfs.ext4").args(["-q", &rig.node]).status();
    if !formatted.is_ok_and(|status| status.success()) {
        eprintln!("skipped: t25: mkfs.ext4 is missing");
        return;
    }
    let place = tempfile::tempdir().expect("a directory");
    let mount = |arguments: &[&str]| {
        Command::new(arguments[0]).args(&arguments[1..]).arg(place.path()).status().is_ok_and(|status| status.success())
    };
    assert!(mount(&["mount", &rig.node]));
    let reading = test(&rig, &[&QUICK[..], &["drr:bs=4k", "-s", "none"]].concat());
    let mounted = destructive(&[]);
    assert!(mount(&["umount"]));
    assert!(reading.code == 0 && reading.stderr.contains("is in use"), "{}", reading.stderr);
    assert!(mounted.code == 3 && mounted.stderr.contains("is in use"), "{}", mounted.stderr);
    let holding = destructive(&[]);
    assert!(holding.code == 3 && holding.stderr.contains("an ext file system"), "{}", holding.stderr);
    let other = test(&rig, &[&quick[..], &["--destructive", "/dev/loop0"]].concat());
    assert_eq!(other.code, 2, "{}", other.stderr);
    let written = destructive(&["--overwrite-signature", "--format", "json"]);
    assert!(cells(&written)[0]["total"]["iops"]["mean"].as_f64().unwrap() > 0.0);
}

#[test]
fn t26_a_disk_with_a_mounted_partition_is_not_written() {
    let Some(_alone) = possible("t26") else { return };
    let rig = Rig::create(&["null", "--size", "256M"]);
    let script = format!(
        "echo 'start=2048, type=83' | sfdisk -q {0} && (partx -a {0} || true) && test -e {0}p1 && mkfs.ext4 -q {0}p1",
        rig.node
    );
    let made = Command::new("sh").args(["-c", &script]).stderr(Stdio::null()).status();
    if !made.is_ok_and(|status| status.success()) {
        eprintln!("skipped: t26: this machine cannot make a partition (sfdisk, partx, mkfs.ext4)");
        return;
    }
    let place = tempfile::tempdir().expect("a directory");
    let partition = format!("{}p1", rig.node);
    assert!(Command::new("mount").arg(&partition).arg(place.path()).status().is_ok_and(|status| status.success()));
    let whole =
        [&QUICK[..], &["drw:bs=4k", "-s", "none", "--overwrite-signature", "--destructive", &rig.node]].concat();
    let said = test(&rig, &whole);
    assert!(Command::new("umount").arg(place.path()).status().is_ok_and(|status| status.success()));
    let _ = Command::new("partx").args(["-d", &rig.node]).status();
    assert!(said.code == 3 && said.stderr.contains(&partition), "{}", said.stderr);
}

#[test]
fn t27_everything_is_as_before_after_the_end_an_interrupt_and_a_kill() {
    let Some(_alone) = possible("t27") else { return };
    let rig = Rig::create(&FLASH);
    let (before, left) = (by_hand(&rig), left_behind());
    let all = ["drr:bs=4k,iodepth=8", "-s", "none", "-s", "mq-deadline", "-s", "kyber", "--weights", "100,800"];
    let said = test(&rig, &[&QUICK[..], &all, &["--format", "json"]].concat());
    assert_eq!(cells(&said).len(), 3);
    assert_eq!((now(&rig), left_since(&left)), (before.clone(), vec![]));
    let mut child = under_way(&rig);
    signal("-INT", child.id());
    assert_eq!(child.wait().expect("its end").code(), Some(130));
    assert_eq!((now(&rig), left_since(&left)), (before.clone(), vec![]));
    let mut child = under_way(&rig);
    signal("-KILL", child.id());
    child.wait().expect("its end");
    // The watcher (a process that restores the settings if the run is killed) has two seconds to
    // restore everything.
    assert_eq!(left_since(&left), [""; 0]);
    assert_eq!(now(&rig), before);
}

#[test]
fn t28_settings_of_a_killed_run_are_restored_on_request() {
    let Some(_alone) = possible("t28") else { return };
    let rig = Rig::create(&FLASH);
    let (before, left) = (by_hand(&rig), left_behind());
    killed_with_its_watcher(&rig);
    assert_ne!(now(&rig), before);
    let later = test(&rig, &[&QUICK[..], &["drr:bs=4k", "--dry-run"]].concat());
    assert_eq!(later.code, 0, "{}", later.stderr);
    let later = hoistway(Path::new("/"), &["restore", "--list"]);
    assert!(later.stdout.contains("nr_requests was 60"), "{}", later.stdout);
    let warned = test(&rig, &[&QUICK[..], &["drr:bs=4k", "-s", "current"]].concat());
    assert!(warned.stderr.contains("hoistway restore"), "{}", warned.stderr);
    assert_eq!(hoistway(Path::new("/"), &["restore"]).code, 0);
    assert_eq!((now(&rig), left_since(&left)), (before.clone(), vec![]));
    let again = hoistway(Path::new("/"), &["restore"]);
    assert_eq!((again.code, again.stdout.as_str()), (0, "nothing to restore\n"));
    // The settings are restored by the next command with `--auto-restore` as well.
    killed_with_its_watcher(&rig);
    assert_ne!(now(&rig), before);
    let later = hoistway(Path::new("/"), &["list", "workloads", "--auto-restore"]);
    assert!(later.code == 0 && later.stderr.contains("settings that process"), "{}", later.stderr);
    assert_eq!((now(&rig), left_since(&left)), (before, vec![]));
}

/// Starts a run and kills its processes, including the watcher, the process that would restore the
/// settings.
fn killed_with_its_watcher(rig: &Rig) {
    let mut child = under_way(rig);
    let watchers = Command::new("pgrep").args(["-P", &child.id().to_string(), "-f", "watch"]).output().expect("pgrep");
    let watcher: u32 = String::from_utf8_lossy(&watchers.stdout).trim().parse().expect("one watcher");
    signal("-KILL", watcher);
    signal("-KILL", child.id());
    child.wait().expect("its end");
    std::thread::sleep(Duration::from_millis(300));
}

#[test]
fn t29_a_change_by_another_program_during_a_run_is_kept() {
    let Some(_alone) = possible("t29") else { return };
    let rig = Rig::create(&FLASH);
    by_hand(&rig);
    let arguments =
        ["test", &rig.node, "--host", "native", "-s", "kyber", "-w", "drr:bs=4k", "--runtime", "2s", "--no-store"];
    let child =
        command(Path::new("/"), &arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("program");
    while rig.get("scheduler") != "kyber" {
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_millis(500));
    rig.set("nr_requests", "40");
    let said = Said::from(child.wait_with_output().expect("its end"));
    assert!(said.code == 0 && said.stderr.contains("changed by another program: now 40"), "{}", said.stderr);
    assert_eq!(now(&rig), ["bfq", "0", "4", "40"]);
}

#[test]
fn t30_a_device_is_measured_by_one_at_a_time() {
    let Some(_alone) = possible("t30") else { return };
    let rig = Rig::create(&FLASH);
    by_hand(&rig);
    let mut first = under_way(&rig);
    let second = test(&rig, &[&QUICK[..], &["drr:bs=4k", "-s", "none"]].concat());
    signal("-TERM", first.id());
    assert_eq!(first.wait().expect("its end").code(), Some(143));
    assert_eq!(second.code, 1, "{}", second.stderr);
    assert!(second.stderr.contains(&format!("by process {}", first.id())), "{}", second.stderr);
}

#[test]
fn t47_bfq_shares_by_weight_and_none_does_not() {
    let Some(_alone) = possible("t47") else { return };
    // BFQ's turns take up to an eighth of a second: 8 s contain some dozens for each group.
    let times = ["--runtime", "8s", "--ramp", "500ms", "--cooldown", "0", "--no-store", "--format", "json"];
    let load = ["-w", "drr:bs=4k,iodepth=32", "--weights", "100,800", "-s"];
    let measured = |rig: &Rig, scheduler: &str, note: &str| {
        let said = test(rig, &[&times[..], &load, &[scheduler]].concat());
        assert!(said.stderr.contains(note), "{}", said.stderr);
        let cell = cells(&said)[0].clone();
        let rate = |index: usize| cell["groups"][index]["bw_bytes"]["mean"].as_f64().expect("a rate");
        (rate(1) / rate(0), is_cpu_short(&cell))
    };
    // A device that accepts everything: with 8 tags the two processes would compete for them, and
    // the one that wakes first would have more.
    let deep = Rig::create(&["null,latency_us=800,servers=8,queue_depth=128", "--size", "1G"]);
    let (none, none_is_short) = measured(&deep, "none", "no proportional-share mechanism is active for none");
    drop(deep);
    // A device that accepts fewer requests than there are, so that the scheduler can choose.
    let (bfq, bfq_is_short) = measured(&Rig::create(&FLASH), "bfq:low_latency=0", "weights act by");
    // BFQ idles for the next request of a process; if that process waits for a CPU instead, the
    // shares are less accurate.
    let (of_none, of_bfq) = if none_is_short || bfq_is_short {
        eprintln!("skipped: t47: exact ratios: the processors are busy otherwise (none {none:.2}, bfq {bfq:.1})");
        (0.5..2.0, 2.0..30.0)
    } else {
        (0.9..1.1, 6.0..10.0)
    };
    assert!(of_none.contains(&none), "none: {none}");
    assert!(of_bfq.contains(&bfq), "bfq: {bfq}");
}

/// The host's own mark for figures affected by a lack of CPU time.
fn is_cpu_short(cell: &Value) -> bool {
    cell["flags"].as_array().is_some_and(|flags| flags.iter().any(|flag| flag == "C"))
}

#[test]
fn t50_a_limit_is_the_kernels_own() {
    let Some(_alone) = possible("t50") else { return };
    let rig = Rig::create(&FLASH);
    let group = ["--group", "name=a,rbps=10M,workload=drr:bs=4k,iodepth=16", "-s", "none"];
    let times = ["--runtime", "4s", "--ramp", "1s", "--no-store", "--format", "json"];
    let said = test(&rig, &[&times[..], &group].concat());
    let cell = &cells(&said)[0];
    let part = cell["total"]["bw_bytes"]["mean"].as_f64().expect("a rate") / f64::from(10 << 20);
    let least = if is_cpu_short(cell) { 0.8 } else { 0.97 };
    assert!((least..1.03).contains(&part), "{part} of the limit");
    if least < 0.97 {
        eprintln!("skipped: t50: that the limit is reached: the processors are busy otherwise ({part:.3} of it)");
    }
}

#[test]
fn names_and_values_that_the_kernel_does_not_know_are_refused_before_anything_changes() {
    let Some(_alone) = possible("names") else { return };
    let rig = Rig::create(&FLASH);
    let refused = |scheduler: &str, words: &[&str]| {
        let said = test(&rig, &["-w", "drr", "--no-store", "-s", scheduler]);
        assert_eq!(said.code, 2, "{scheduler}: {}", said.stderr);
        words.iter().for_each(|word| assert!(said.stderr.contains(word), "{scheduler}: {}", said.stderr));
    };
    refused("cfq", &["no scheduler 'cfq'", "available: none, mq-deadline"]);
    refused("bfq:slice_idel=0", &["bfq has no tunable 'slice_idel'", "did you mean 'slice_idle'"]);
    refused("bfq:slice_idle=99999999", &["slice_idle=99999999", "0 to 1000", "ms"]);
    refused("bfq@6.1", &["the kernel has its own bfq"]);
    refused("current:slice_idle=0", &["changes no settings"]);
    let said = test(&rig, &["-w", "drr", "--limiter", "io.cost", "--no-store", "-s", "none"]);
    assert!(said.code == 2 && said.stderr.contains("cannot set the limiter 'io.cost'"), "{}", said.stderr);
}

/// The device's counters equal the workers' counts.
#[test]
fn figures_agree_with_the_kernels_own_counters() {
    let Some(_alone) = possible("figures") else { return };
    let rig = Rig::create(&FLASH);
    let reads = || -> f64 {
        let text = fs::read_to_string(rig.queue("../stat")).expect("counters");
        text.split_whitespace().next().and_then(|word| word.parse().ok()).expect("a number")
    };
    let before = reads();
    let workload = ["drr:bs=4k,iodepth=4", "-s", "mq-deadline:fifo_batch=3", "--threads", "2", "--nrgrp", "2"];
    let times = ["--runtime", "2s", "--ramp", "0", "--no-solo", "--no-store", "--format", "json", "-w"];
    let said = test(&rig, &[&times[..], &workload].concat());
    let ours = cells(&said)[0]["total"]["iops"]["mean"].as_f64().expect("a rate") * 2.0;
    let seen = reads() - before;
    assert!(ours > 1_000.0 && (ours / seen - 1.0).abs() < 0.03, "{ours} counted by us, {seen} by the kernel");
    assert!(said.stdout.contains("\"fifo_batch\""), "tunables in force are part of the answer");
}

#[test]
fn t48_a_backlog_below_the_devices_slots_is_said_to_make_weights_idle() {
    let Some(_alone) = possible("t48") else { return };
    let rig = Rig::create(&FLASH);
    let load = ["drr:bs=4k", "--weights", "100,800", "-s", "bfq:low_latency=0,slice_idle=0"];
    let said = test(&rig, &[&QUICK[..], &load].concat());
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(said.stderr.contains("all 2 requests fit into the device's queue of 8"), "{}", said.stderr);
}

/// Runs a program of the system that must succeed.
fn succeed(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A file system on a device, mounted; unmounted with the value.
struct Mounted(tempfile::TempDir);

impl Mounted {
    fn new(rig: &Rig) -> Self {
        succeed("mkfs.ext4", &["-q", "-F", &rig.node]);
        let directory = tempfile::tempdir().expect("a directory");
        succeed("mount", &[&rig.node, &directory.path().display().to_string()]);
        Self(directory)
    }

    fn names(&self) -> Vec<String> {
        program::entries(self.0.path())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        succeed("umount", &[&self.0.path().display().to_string()]);
    }
}

#[test]
fn files_and_directories_lie_on_a_disk_whose_scheduler_is_chosen() {
    let Some(_alone) = possible("files") else { return };
    if Command::new("mkfs.ext4").arg("-V").output().is_err() {
        eprintln!("skipped: files: mkfs.ext4 is not installed");
        return;
    }
    let rig = Rig::create(&["null,latency_us=200,servers=8,queue_depth=8", "--size", "256M"]);
    let mounted = Mounted::new(&rig);
    let (before, names, left) = (by_hand(&rig), mounted.names(), left_behind());
    let directory = mounted.0.path().display().to_string();
    let times = ["--runtime", "500ms", "--ramp", "0", "--cooldown", "0", "--no-store", "--format", "json"];
    let load = ["--host", "native", "--size", "8M", "-w", "drw:bs=4k,iodepth=8", "--weights", "100,800"];
    let matrix = ["test", &directory, "-s", "none", "-s", "bfq:low_latency=0"];
    let said = hoistway(Path::new("/"), &[&matrix[..], &load, &times].concat());
    let cells = cells(&said);
    let names_of = |cell: &Value| cell["sched"].as_str().unwrap_or_default().to_owned();
    assert_eq!(cells.iter().map(names_of).collect::<Vec<_>>(), ["none", "bfq"]);
    assert!(
        cells.iter().all(|cell| cell["total"]["iops"]["mean"].as_f64().is_some_and(|ios| ios > 100.0)),
        "{cells:?}"
    );
    let disk = rig.node.trim_start_matches("/dev/");
    assert!(
        said.stderr.contains(&format!("the file is on {disk}, and the scheduler is that device's")),
        "{}",
        said.stderr
    );
    assert_eq!((now(&rig), mounted.names(), left_since(&left)), (before.clone(), names.clone(), vec![]));

    // A file that `--file` created stays, and later runs may use it; a file that hoistway did not
    // create is never written to.
    let kept = mounted.0.path().join("kept.dat").display().to_string();
    let own = ["test", "--file", &kept, "-s", "mq-deadline", "--host", "native", "--size", "8M", "-w", "drr:bs=4k"];
    assert_eq!(hoistway(Path::new("/"), &[&own[..], &times].concat()).code, 0);
    let foreign = ["test", &kept, "-s", "none", "--host", "native", "--no-store", "-w", "drw"];
    assert_eq!(hoistway(Path::new("/"), &foreign).code, 3);
    let named = [&foreign[..], &["--destructive", &kept]].concat();
    let said = hoistway(Path::new("/"), &named);
    assert!(said.code == 2 && said.stderr.contains("is a file, not a device"), "{}", said.stderr);
    let memory = hoistway(Path::new("/"), &["test", "/dev/shm", "--host", "native", "-s", "none", "--no-store"]);
    assert!(memory.code == 2 && memory.stderr.contains("no single block device"), "{}", memory.stderr);
    // If a run on a file is killed, the files, the scheduler and the groups are as before.
    let long = ["test", &directory, "--host", "native", "-s", "none", "--size", "8M", "--runtime", "20s", "--no-store"];
    let mut child =
        command(Path::new("/"), &long).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("started");
    assert!(becomes(|| rig.get("scheduler") == "none"), "it never began");
    signal("-KILL", child.id());
    child.wait().expect("its end");
    assert_eq!(left_since(&left), [""; 0]);
    assert_eq!(now(&rig), before);
    assert_eq!(
        mounted.names(),
        [names, vec!["kept.dat".to_owned()]]
            .concat()
            .into_iter()
            .collect::<std::collections::BTreeSet<_>>()
            .into_iter()
            .collect::<Vec<_>>()
    );
}

/// Runs that never begin, each with its exit code.
const BAD_INPUT: [(&str, i32); 8] = [
    ("-s cfq -w drr", 2),
    ("-s bfq:slice_idle=x -w drr", 2),
    ("-s none -w nosuch", 2),
    ("-s none -w drw", 3),
    ("-s none --weights 1,2 --queue-requests 9999 -w drr --runtime 200ms --ramp 0", 1),
    ("-s none -w drr:size=1t", 2),
    ("-s none --trace /no/such/trace", 2),
    ("-s none -w drr --outdir /proc/nowhere", 1),
];

/// Every way a run may end, and runs that never begin, leave schedulers, groups, devices, mounts
/// and files as they were.
#[test]
fn no_way_out_leaves_anything_behind() {
    let Some(_alone) = possible("leaks") else { return };
    let rig = Rig::create(&FLASH);
    let directory = tempfile::tempdir().expect("a directory");
    let (before, left) = (by_hand(&rig), left_behind());
    let check = |what: &str| {
        assert_eq!(left_since(&left), [""; 0], "{what}");
        assert_eq!(now(&rig), before, "{what}");
    };
    for (arguments, code) in BAD_INPUT {
        let store = if arguments.contains("--outdir") { "" } else { " --no-store" };
        let words = format!("test {} --host native {arguments}{store}", rig.node);
        let said = hoistway(directory.path(), &words.split_ascii_whitespace().collect::<Vec<_>>());
        assert_eq!(said.code, code, "{arguments}: {}", said.stderr);
        check(arguments);
        assert_eq!(program::entries(directory.path()), [""; 0], "{arguments}");
    }
    for (name, code) in [("-INT", Some(130)), ("-TERM", Some(143)), ("-HUP", None), ("-KILL", None)] {
        let mut child = under_way(&rig);
        signal(name, child.id());
        let ended = child.wait().expect("its end").code();
        assert!(code.is_none() || ended == code, "{name}: {ended:?}");
        check(name);
    }
    // A killed worker ends the run, and everything is restored.
    let mut child = under_way(&rig);
    let workers = Command::new("pgrep").args(["-P", &child.id().to_string(), "-f", "worker"]).output().expect("pgrep");
    let first: u32 =
        String::from_utf8_lossy(&workers.stdout).lines().next().expect("a worker").trim().parse().expect("a number");
    signal("-KILL", first);
    assert_eq!(child.wait().expect("its end").code(), Some(1));
    check("a worker's end");
    // A replay that ends, and one that is killed.
    let steps: String = (0..2_000).map(|io| format!("{} f read {} 4096\n", io * 2_000, io * 8_192)).collect();
    let trace = directory.path().join("t.log");
    fs::write(&trace, format!("fio version 3 iolog\n0 f add\n0 f open\n{steps}4000000 f close\n")).expect("written");
    let replay = ["replay", "t.log", &rig.node, "--host", "native", "-s", "none", "-s", "kyber", "--no-store"];
    let said = hoistway(directory.path(), &[&replay[..], &["--pace", "closed", "--iodepth", "32"]].concat());
    assert_eq!(said.code, 0, "{}", said.stderr);
    check("a replay");
    let mut child =
        command(directory.path(), &replay).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("started");
    std::thread::sleep(Duration::from_secs(2));
    signal("-KILL", child.id());
    child.wait().expect("its end");
    check("a replay that is killed");
    assert_eq!(program::entries(directory.path()), ["t.log"]);
}

/// The tests above run on the cgroup version that owns the controller; this one reports if that is
/// not version 2.
#[test]
fn version_2_of_cgroups_is_tested_where_it_owns_the_controller() {
    let Some(_alone) = possible("cgroup v2") else { return };
    let mounts = fs::read_to_string("/proc/self/mounts").expect("mounts");
    let mut mounted = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>()).filter(|it| it[2] == "cgroup2");
    let controllers = |mount: &str| fs::read_to_string(Path::new(mount).join("cgroup.controllers")).unwrap_or_default();
    let Some(mount) = mounted.find(|mount| controllers(mount[1]).split_whitespace().any(|name| name == "io")) else {
        eprintln!(
            "skipped: cgroup v2: no cgroup2 mount here has the io controller: a version 1 mount owns it, or it is not mounted"
        );
        return;
    };
    let rig = Rig::create(&FLASH);
    let before = controllers(mount[1]);
    let load = ["drr:bs=4k,iodepth=16", "--weights", "100,800", "-s", "bfq:low_latency=0", "--format", "json"];
    let said = test(&rig, &[&QUICK[..], &load].concat());
    assert!(said.stderr.contains("weights act by io.bfq.weight (cgroup v2)"), "{}", said.stderr);
    let limit = ["--group", "name=a,rbps=1M,workload=drr:bs=4k,iodepth=16", "-s", "none", "--format", "json"];
    let times = ["--runtime", "3s", "--ramp", "1s", "--no-store"];
    let cell = cells(&test(&rig, &[&times[..], &limit].concat()))[0].clone();
    let rate = cell["total"]["bw_bytes"]["mean"].as_f64().expect("a rate");
    assert!((0.8..1.1).contains(&(rate / f64::from(1 << 20))), "{rate}");
    assert_eq!(controllers(mount[1]), before);
}
