//! `verify=` with real data: fio verifies what we write, we verify what fio writes, and a changed
//! byte is found.

#[allow(dead_code, reason = "one part of it is enough here")]
mod program;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use program::{Said, hoistway};

/// Length of the mark at the beginning of files that `--file` creates.
const MARK_BYTES: usize = 4_096;
/// All checksums that fio stores as we do.
const KINDS: [&str; 14] = [
    "meta", "md5", "crc64", "crc32", "crc32c", "crc16", "crc7", "sha1", "sha256", "sha3-224", "sha3-256", "sha3-384",
    "sha3-512", "xxhash",
];

/// Runs fio on `x.dat`; without fio prints a message and returns none.
fn fio(directory: &Path, arguments: &[&str]) -> Option<(bool, String)> {
    let usual = ["--name=j", "--filename=x.dat", "--size=256k", "--bs=8k", "--verify_interval=2k"];
    let output = Command::new("fio").args(usual).args(arguments).current_dir(directory).output();
    let Ok(output) = output else {
        eprintln!("skipped: fio is not installed (apt-get install fio)");
        return None;
    };
    Some((output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned()))
}

/// A short run of a job file of ours, whose text is `[j]` and these lines.
fn run(directory: &Path, target: &[&str], lines: &str) -> Said {
    let text = format!("[j]\nbs=8k\nsize=256k\nverify_interval=2k\ndirect=1\n{lines}\n");
    fs::write(directory.join("j.fio"), text).expect("writable");
    let usual = ["-w", "j.fio", "--runtime", "20s", "--ramp", "0", "--no-store", "--quiet", "--format", "json"];
    hoistway(directory, &[&["test"][..], target, &usual].concat())
}

/// A directory on a disk: /tmp may be in memory, where direct I/O is not supported.
fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory")
}

/// Only one run of the native host at a time may measure a disk.
static DISK: Mutex<()> = Mutex::new(());

const ENGINE: [&str; 5] = ["x.dat", "--host", "engine", "-s", "mq-deadline"];
const NATIVE: [&str; 3] = ["x.dat", "--host", "native"];

#[test]
fn what_the_engine_writes_fio_finds_whole() {
    let directory = directory();
    let path = directory.path();
    let target = ["--file", "own.dat", "--host", "engine", "-s", "mq-deadline"];
    for kind in KINDS {
        let said = run(path, &target, &format!("rw=randwrite\nioengine=libaio\niodepth=8\nverify={kind}"));
        assert_eq!(said.code, 0, "{kind}: {}", said.stderr);
        // The engine's own check: as many blocks are read back as were written.
        let result: serde_json::Value = serde_json::from_str(&said.stdout).expect("JSON");
        let count = |direction: &str| result["cells"][0]["total"]["lat_ns"][direction]["n"].as_u64();
        assert_eq!((count("read"), count("write")), (Some(32), Some(32)), "{kind}");
        let written = fs::read(path.join("own.dat")).expect("our file");
        fs::write(path.join("x.dat"), &written[MARK_BYTES..]).expect("writable");
        let Some((is_whole, text)) = fio(path, &["--rw=read", &format!("--verify={kind}")]) else { return };
        assert!(is_whole, "{kind}: {text}");
    }
}

#[test]
fn what_fio_writes_is_found_whole_and_a_changed_byte_is_found() {
    let _disk = DISK.lock().unwrap_or_else(PoisonError::into_inner);
    let directory = directory();
    let path = directory.path();
    // For sha512 fio stores part of the data instead of the digest: we accept that in fio's files,
    // and write the digest.
    for kind in KINDS.into_iter().chain(["sha512"]) {
        let Some((is_whole, text)) = fio(path, &["--rw=write", &format!("--verify={kind}"), "--do_verify=0"]) else {
            return;
        };
        assert!(is_whole, "{kind}: {text}");
        let lines = format!("rw=randread\nioengine=libaio\niodepth=8\nverify={kind}");
        for host in [&ENGINE[..], &NATIVE[..]] {
            let said = run(path, host, &lines);
            assert_eq!(said.code, 0, "{kind} on {host:?}: {}", said.stderr);
        }
        // Changes a byte of a header, because the kind `meta` checks nothing but headers.
        let mut bytes = fs::read(path.join("x.dat")).expect("fio's file");
        bytes[100 * 1024 + 17] ^= 1;
        fs::write(path.join("x.dat"), bytes).expect("writable");
        for host in [&ENGINE[..], &NATIVE[..]] {
            let said = run(path, host, &lines);
            let what = "read damaged data: verify: 2048 bytes at offset 102400: ";
            assert!(said.code == 1 && said.stderr.contains(what), "{kind} on {host:?}: {}{}", said.code, said.stderr);
        }
        // The thread continues after an error, as the option requests: all 32 blocks are read, and
        // one of them fails.
        let said = run(path, &ENGINE, &format!("{lines}\ncontinue_on_error=verify"));
        let result: serde_json::Value = serde_json::from_str(&said.stdout).expect("JSON");
        assert_eq!((said.code, result["cells"][0]["errors"].as_u64()), (1, Some(1)), "{kind}: {}", said.stderr);
        assert_eq!(result["cells"][0]["total"]["lat_ns"]["read"]["n"].as_u64(), Some(32), "{kind}");
    }
}

#[test]
fn native_workers_read_back_what_they_wrote_in_all_kinds() {
    let _disk = DISK.lock().unwrap_or_else(PoisonError::into_inner);
    let directory = directory();
    let path = directory.path().display().to_string();
    for kind in KINDS.into_iter().chain(["sha256", "sha512", "null", "pattern"]) {
        for how in ["rw=randwrite\nioengine=libaio\niodepth=8", "rw=write\nverify_backlog=4"] {
            let said = run(
                directory.path(),
                &[&path, "--host", "native"],
                &format!("{how}\nverify={kind}\nverify_pattern=0xaa555aa5%o"),
            );
            assert_eq!(said.code, 0, "{kind}: {}", said.stderr);
            let result: serde_json::Value = serde_json::from_str(&said.stdout).expect("JSON");
            let count = |direction: &str| result["cells"][0]["total"]["lat_ns"][direction]["n"].as_u64();
            assert_eq!((count("read"), count("write")), (Some(32), Some(32)), "{kind}");
        }
    }
}

#[test]
fn a_file_that_is_refused_runs_as_it_stands_with_fio() {
    let directory = directory();
    let path = directory.path();
    if fio(path, &["--version"]).is_none() {
        return;
    }
    let refused = "[j]\nrw=read\nbs=8k\nsize=256k\nopendir=/nowhere\n[k]\nrw=read\nsize=64k\nlockfile=exclusive\n";
    fs::write(path.join("k.fio"), refused).expect("writable");
    fs::write(path.join("x.dat"), vec![1; 1 << 20]).expect("writable");
    let usual = ["test", "x.dat", "-w", "k.fio", "--runtime", "1s", "--ramp", "0", "--no-store"];
    let said = hoistway(path, &usual);
    assert!(said.code == 2 && said.stderr.contains("k.fio:5:1: option 'opendir'"), "{}", said.stderr);
    let said = hoistway(path, &[&usual[..], &["--generator", "fio", "--format", "json"]].concat());
    assert!(said.code == 0 && said.stderr.contains("run by fio unchanged"), "{}", said.stderr);
    let result: serde_json::Value = serde_json::from_str(&said.stdout).expect("JSON");
    assert_eq!(result["cells"][0]["total"]["lat_ns"]["read"]["n"].as_u64(), Some(32 + 16));
    // Writes are refused on a file that is not ours, for either generator.
    fs::write(path.join("k.fio"), refused.replace("rw=read", "rw=write")).expect("writable");
    let said = hoistway(path, &[&usual[..], &["--generator", "fio"]].concat());
    assert!(said.code != 0 && said.stderr.contains("may not be written to"), "{}", said.stderr);
}
