//! `hoistway top --metrics` on this machine's block devices: what its door answers, what it refuses, and how it ends.
//! Figures are compared with fio's in a guest (kernel/boot/tests/exporter.sh).

#[path = "program/mod.rs"]
#[expect(dead_code, reason = "other tests look into directories and results")]
mod program;

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use program::{command, hoistway};

struct Exporter {
    child: Child,
    socket: PathBuf,
}

impl Exporter {
    fn start(directory: &Path) -> Self {
        let socket = directory.join("metrics.sock");
        let address = format!("unix:{}", socket.display());
        let child = command(directory, &["top", "--metrics", &address]).stderr(Stdio::null()).spawn().unwrap();
        let begin = Instant::now();
        while UnixStream::connect(&socket).is_err() {
            assert!(begin.elapsed() < Duration::from_secs(120), "there is no socket");
            std::thread::sleep(Duration::from_millis(20));
        }
        Self { child, socket }
    }

    fn answer(&self, request: &str) -> String {
        let mut stream = UnixStream::connect(&self.socket).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8(answer).unwrap()
    }

    fn metrics(&self) -> String {
        self.answer("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
    }

    /// Its exit code after SIGTERM.
    fn end(mut self) -> Option<i32> {
        let pid = rustix::process::Pid::from_raw(self.child.id().cast_signed()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        self.child.wait().unwrap().code()
    }
}

/// The disks that have a request queue and a size.
fn disks() -> BTreeSet<String> {
    let entries = std::fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let disks = entries.filter(|entry| {
        let size = std::fs::read_to_string(entry.path().join("size")).unwrap_or_default();
        let node = Path::new("/dev").join(entry.file_name().to_string_lossy().replace('!', "/"));
        entry.path().join("queue/scheduler").exists() && size.trim() != "0" && node.exists()
    });
    disks.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn all_block_devices_are_exposed_and_the_end_is_clean() {
    let directory = tempfile::tempdir().unwrap();
    let before = disks();
    let exporter = Exporter::start(directory.path());
    let text = exporter.metrics();
    assert!(text.starts_with("HTTP/1.1 200 OK\r\nContent-Type: application/openmetrics-text"), "{text}");
    assert!(text.ends_with("# EOF\n") && text.contains("hoistway_block_build_info{version="), "{text}");
    assert!(text.contains("process_cpu_seconds_total"), "{text}");
    // Other tests make and remove loop devices.
    for disk in before.intersection(&disks()) {
        let line = format!("hoistway_block_device_requests_total{{device=\"{disk}\",operation=\"read\"}} ");
        assert!(text.contains(&line), "no {line} in {text}");
    }
    assert!(exporter.answer("GET / HTTP/1.1\r\nHost: x\r\n\r\n").starts_with("HTTP/1.1 404"));
    assert!(exporter.answer("POST /metrics HTTP/1.1\r\nHost: x\r\n\r\n").starts_with("HTTP/1.1 405"));
    let long = format!("GET /metrics HTTP/1.1\r\nHost: x\r\nA: {}\r\n\r\n", "b".repeat(9 << 10));
    assert!(exporter.answer(&long).starts_with("HTTP/1.1 431"));
    let socket = exporter.socket.clone();
    assert_eq!(exporter.end(), Some(0));
    assert!(!socket.exists(), "the socket is left");
}

/// Peers that say nothing do not keep others out, however many they are.
#[test]
fn silent_peers_do_not_keep_a_scraper_out() {
    let directory = tempfile::tempdir().unwrap();
    let exporter = Exporter::start(directory.path());
    let silent: Vec<UnixStream> = (0..200).filter_map(|_| UnixStream::connect(&exporter.socket).ok()).collect();
    assert!(silent.len() == 200);
    for _ in 0..3 {
        assert!(exporter.metrics().contains("hoistway_block_build_info"), "a scrape among silent peers");
    }
    let open = std::fs::read_dir(format!("/proc/{}/fd", exporter.child.id())).unwrap().count();
    assert!(open < 200, "{open} descriptors: the silent ones were not ended");
    assert_eq!(exporter.end(), Some(0));
}

#[test]
fn addresses_that_others_could_reach_or_that_do_not_exist_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    for (address, word) in [
        ("tcp:0.0.0.0:0", "can be reached from other machines"),
        ("127.0.0.1:9891", "neither unix:PATH nor tcp:ADDRESS:PORT"),
        ("unix:/nowhere/metrics.sock", "cannot make the socket"),
        ("tcp:127.0.0.1:0,mode=0600", "mode is for unix sockets"),
    ] {
        let said = hoistway(directory.path(), &["top", "--metrics", address]);
        assert_eq!(said.code, 2, "{address}: {}", said.stderr);
        assert!(said.stderr.contains(word), "{address}: {}", said.stderr);
    }
    let said = hoistway(directory.path(), &["top", "/dev/null", "--metrics", "tcp:127.0.0.1:0"]);
    assert!(said.code == 2 && said.stderr.contains("/dev/null"), "{}", said.stderr);
}
