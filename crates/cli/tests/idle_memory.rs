//! What an idle server keeps in memory: what was used, and not the whole memory of its devices.

mod served;

use std::fs;
use std::process::Command;

use served::{Served, directory, requires, run_command, sparse_file};

/// Anonymous and shared memory of a process in MiB: without the program's own file.
fn resident_mib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("the server runs");
    let kib = |field: &str| -> u64 {
        let line = status.lines().find_map(|line| line.strip_prefix(field)).expect("a field");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    };
    (kib("RssAnon:") + kib("RssShmem:")) >> 10
}

#[test]
fn an_idle_server_keeps_only_what_was_used() {
    let test = "an_idle_server_keeps_only_what_was_used";
    if !requires(test, &["qemu-io"]) {
        return;
    }
    // On a real file system, where I/O is direct and its memory is registered.
    let files = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    sparse_file(&files.path().join("a.img"), 64 << 20);
    let file = files.path().join("a.img").display().to_string();
    for backing in ["memory:64MiB", "model:ssd,memory:64MiB", "null:64MiB", &file] {
        // The default memory of a device is 256 MiB.
        let place = directory();
        let mut command = served::hoistway();
        command.args(["serve", "--nbd", &format!("unix:{}/nbd.sock", place.path().display())]);
        command.args(["--export", &format!("a={backing}")]);
        let served = Served::start(place, command, 1);
        let mut seen = vec![resident_mib(served.pid())];
        let io = ["-f", "raw", "-c", "read 0 64k", "-c", "write 1M 1M", "-c", "read 0 1M", &served.uri("a")];
        let output = run_command(Command::new("qemu-io").args(io));
        assert!(output.status.success(), "{backing}: {}", String::from_utf8_lossy(&output.stderr));
        seen.push(resident_mib(served.pid()));
        assert!(seen.iter().all(|mib| *mib < 48), "{backing}: {seen:?} MiB at the start and after three requests");
        assert_eq!(served.terminate(), Some(0));
    }
}
