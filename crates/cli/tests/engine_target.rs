//! Real I/O: which files are created, which remain, and which are never changed, however a run
//! ends.

mod program;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};

use program::{Said, command, entries, hoistway};
use serde_json::Value;

/// A short real test of two schedulers on `target`, with further arguments.
fn real(directory: &Path, target: &[&str], more: &[&str]) -> Option<Said> {
    let usual =
        ["-w", "drr:iodepth=8", "-s", "noop", "--size", "4M", "--runtime", "300ms", "--ramp", "0", "--cooldown", "0"];
    let said = hoistway(directory, &[&["test", "--no-store"], target, &usual[..], more].concat());
    if said.code == 1 && said.stderr.contains("io_uring") {
        eprintln!("skipped: {}", said.stderr);
        return None;
    }
    Some(said)
}

fn temporary() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

#[test]
fn a_directory_gets_a_temporary_file_that_is_gone_afterwards() {
    let directory = temporary();
    let Some(said) = real(directory.path(), &["."], &["-w", "drw", "--format", "json", "-s", "wfq"]) else { return };
    assert_eq!(said.code, 0, "{}", said.stderr);
    let result: Value = serde_json::from_str(&said.stdout).expect("JSON");
    assert_eq!((&result["host"], &result["target"]["path"]), (&"engine".into(), &".".into()));
    let cells = result["cells"].as_array().expect("cells");
    assert_eq!(cells.len(), 4, "two workloads under two schedulers");
    for cell in cells {
        assert!(cell["total"]["bw_bytes"]["mean"].as_f64().unwrap() > 0.0 && cell["errors"] == 0, "{cell}");
    }
    assert_eq!(entries(directory.path()).len(), 0);
}

#[test]
fn a_file_behind_a_model_goes_at_the_models_pace() {
    let directory = temporary();
    // One channel of 2 ms: 500 reads per second at most, on any disk.
    let target = ["model:ssd,channels=1,dies_per_channel=1,t_read_us=2000,."];
    let Some(said) = real(directory.path(), &target, &["--format", "json", "--bs", "4k"]) else {
        return;
    };
    assert_eq!(said.code, 0, "{}", said.stderr);
    let result: Value = serde_json::from_str(&said.stdout).expect("JSON");
    let rate = result["cells"][0]["total"]["iops"]["mean"].as_f64().unwrap();
    assert!(rate > 100.0 && rate < 550.0, "{rate}");
    assert_eq!(entries(directory.path()).len(), 0);
}

#[test]
fn a_kept_file_is_used_again_and_only_ours() {
    let directory = temporary();
    let Some(said) = real(directory.path(), &["."], &["--keep"]) else { return };
    assert_eq!(said.code, 0, "{}", said.stderr);
    let kept = entries(directory.path());
    assert!(kept.len() == 1 && kept[0].starts_with("hoistway.") && kept[0].ends_with(".dat"), "{kept:?}");
    let path = directory.path().join(&kept[0]);
    let inode = std::os::unix::fs::MetadataExt::ino(&fs::metadata(&path).unwrap());
    let again = real(directory.path(), &["--file", &kept[0]], &["-w", "drw"]).expect("it worked before");
    assert_eq!(again.code, 0, "{}", again.stderr);
    assert_eq!(std::os::unix::fs::MetadataExt::ino(&fs::metadata(&path).unwrap()), inode);
    assert!(fs::read(&path).unwrap().starts_with(b"HOISTWAY-LAYOUT-1\n"), "the mark lies outside of what is written");
    let larger = real(directory.path(), &["--file", &kept[0]], &["--nrgrp", "4"]).expect("it worked before");
    assert!(larger.code == 2 && larger.stderr.contains("the jobs need 16 MiB"), "{}", larger.stderr);
}

#[test]
fn an_existing_file_is_only_read() {
    let directory = temporary();
    let content: Vec<u8> = (0..8_u32 << 20).map(|byte| (byte % 251).to_le_bytes()[0]).collect();
    fs::write(directory.path().join("theirs"), &content).unwrap();
    let Some(said) = real(directory.path(), &["theirs"], &[]) else { return };
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(fs::read(directory.path().join("theirs")).unwrap() == content, "the content changed");
}

#[test]
fn memory_and_nothing_are_targets_too() {
    let directory = temporary();
    for target in ["memory:16MiB", "null:1GiB", "model:ssd,null:1GiB"] {
        let Some(said) = real(directory.path(), &[target], &["-w", "drw"]) else { return };
        assert_eq!(said.code, 0, "{target}: {}", said.stderr);
    }
    assert_eq!(real(directory.path(), &["memory:x"], &[]).expect("no I/O").code, 2);
}

/// A long test that has announced its test file.
fn begun(directory: &Path) -> Child {
    let arguments =
        ["test", ".", "-w", "drr", "-s", "noop", "--size", "4M", "--runtime", "1h", "--ramp", "0", "-o", "result"];
    let mut child =
        command(directory, &arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("a start");
    // The note about the file comes before the file, which has a name only while its content is
    // written.
    let lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
    let seen = lines.map_while(Result::ok).find(|line| line.contains("writing a test file"));
    assert!(seen.is_some(), "the file was never announced");
    child
}

fn end_by(signal: &str) -> (Option<i32>, Vec<String>) {
    let directory = temporary();
    let mut child = begun(directory.path());
    let sent = std::process::Command::new("kill").args([signal, &child.id().to_string()]).status().expect("kill");
    assert!(sent.success());
    let status = child.wait().expect("an end");
    (status.code(), entries(directory.path()))
}

#[test]
fn a_signal_ends_a_real_run_and_leaves_no_test_file() {
    assert_eq!(end_by("-INT"), (Some(130), vec!["result".to_owned()]));
    assert_eq!(end_by("-TERM"), (Some(143), vec!["result".to_owned()]));
}

#[test]
fn a_device_in_use_is_read_with_a_note_and_refused_when_exclusive() {
    let directory = temporary();
    fs::write(directory.path().join("disk"), vec![7; 8 << 20]).unwrap();
    let losetup = |arguments: &[&str]| {
        std::process::Command::new("losetup").args(arguments).current_dir(directory.path()).output().ok()
    };
    let device = losetup(&["-f", "--show", "disk"]).filter(|output| output.status.success());
    let Some(device) = device.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()) else {
        eprintln!("skipped: a loop device needs root and losetup");
        return;
    };
    // An exclusive open, as by another device on top of it or a mount.
    let holder = fs::OpenOptions::new();
    let holder = std::os::unix::fs::OpenOptionsExt::custom_flags(&mut holder.clone(), 0o200).read(true).open(&device);
    let exclusive = real(directory.path(), &[&device], &["--exclusive"]);
    let plain = real(directory.path(), &[&device], &[]);
    let write = hoistway(directory.path(), &["test", &device, "-w", "drw", "--no-store"]);
    drop(holder);
    let free = real(directory.path(), &[&device], &[]);
    losetup(&["-d", &device]);
    let (Some(exclusive), Some(plain), Some(free)) = (exclusive, plain, free) else { return };
    assert!(free.code == 0 && !free.stderr.contains("is in use"), "{}", free.stderr);
    assert!(exclusive.code == 3 && exclusive.stderr.contains("is in use"), "{}", exclusive.stderr);
    assert!(
        plain.code == 0 && plain.stderr.contains("note: ") && plain.stderr.contains("is in use"),
        "{}",
        plain.stderr
    );
    assert!(write.code == 3 && write.stderr.contains("may not be written to"), "{}", write.stderr);
}

#[test]
fn the_demo_shows_both_halves_and_leaves_its_page_alone() {
    let directory = temporary();
    let said = hoistway(directory.path(), &["demo", "--quiet"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let halves = said.stdout.matches("randread  nr=1 ").count();
    if said.stderr.contains("io_uring") || halves == 1 {
        eprintln!("skipped: {}", said.stderr);
        return;
    }
    assert_eq!(halves, 2, "{}", said.stdout);
    let page = fs::read_to_string(directory.path().join("hoistway-demo.html")).unwrap();
    assert!(page.contains("simulated") && page.contains("real"));
    assert_eq!(entries(directory.path()), ["hoistway-demo.html"]);
}
