//! A server under small limits of the system: open files, threads, locked memory, the size of files.

#[path = "../../export/tests/client/mod.rs"]
mod client;
mod served;

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::Duration;

use client::{Client, go_data};
use hoistway_export::nbd::handshake::ReplyForm;
use hoistway_export::nbd::wire::{error, option, reply};
use served::{Served, await_that, directory, requires, succeed, wait_for_exit};
use tempfile::TempDir;

const TEXT: &str = "[[device]]\nname = \"d\"\nmemory = \"64MiB\"\n[[device.export]]\nname = \"a\"\n\
    backing = \"@/a.img\"\n[control]\nunix = \"@/control.sock\"\n[metrics]\nunix = \"@/metrics.sock\"\n\
    [[listen]]\nunix = \"@/nbd.sock\"\nmax_connections_per_peer = 256\n";

/// Serves a file of 4 MiB by a command that bash begins with `prefix`; its log is the file `said`.
fn served(directory: TempDir, prefix: &str) -> Served {
    served::sparse_file(&directory.path().join("a.img"), 4 << 20);
    let path = directory.path().join("serve.toml");
    fs::write(&path, TEXT.replace("@/", &format!("{}/", directory.path().display()))).unwrap();
    for (name, mode) in [("", 0o777), ("a.img", 0o666)] {
        fs::set_permissions(directory.path().join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    let mut command = Command::new("bash");
    command.args(["-c", &format!("{prefix} \"$0\" \"$@\""), env!("CARGO_BIN_EXE_hoistway"), "serve"]).arg(&path);
    command.stderr(File::create(directory.path().join("said")).unwrap());
    Served::start(directory, command, 1)
}

fn said(served: &Served) -> String {
    fs::read_to_string(served.path("said")).unwrap()
}

/// Opens the export, if the server has room.
fn try_open(served: &Served) -> Option<Client> {
    let mut stream = UnixStream::connect(served.path("nbd.sock")).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.read_exact(&mut [0; 18]).ok()?;
    stream.write_all(&3_u32.to_be_bytes()).ok()?;
    stream.write_all(&client::option_bytes(option::GO, &go_data("a"))).ok()?;
    let mut client = Client::over(stream);
    let mut first = [0; 1];
    // Whether an answer comes; the first byte of it is looked at only.
    match rustix::net::recv(&client.stream, &mut first[..], rustix::net::RecvFlags::PEEK) {
        Ok((1, _)) => {}
        _ => return None,
    }
    let kind = client.option_replies(option::GO).last().unwrap().kind;
    (kind == reply::ACK).then_some(client)
}

fn metric(served: &Served, name: &str) -> f64 {
    let mut stream = UnixStream::connect(served.path("metrics.sock")).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let line = answer.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap_or_else(|| panic!("no {name} in {answer}")).trim().parse().unwrap()
}

#[test]
fn clients_leave_descriptors_to_operators_and_scrapes() {
    // Descriptors that the starting process has left open, with numbers that no client could have.
    let served = served(directory(), "exec 100>/dev/null 120>/dev/null; ulimit -n 128; exec");
    let warning = said(&served);
    let room: usize = warning.split_once("leaves room for ").unwrap().1.split_once(' ').unwrap().0.parse().unwrap();
    let mut clients = Vec::new();
    // A descriptor that the server needs for a moment may take a client's place for that moment.
    await_that("all clients that the server said it has room for", || {
        clients.extend(try_open(&served));
        clients.len() == room
    });
    assert!(try_open(&served).is_none(), "one more than the {room} clients that the server said it has room for");
    await_that("a warning", || said(&served).contains("was refused, because the limit of open files is reached"));
    // Strangers in their handshake, idle readers and idle operators beside them.
    let mut idle: Vec<UnixStream> = (0..100).map(|_| UnixStream::connect(served.path("nbd.sock")).unwrap()).collect();
    idle.extend((0..8).map(|_| UnixStream::connect(served.path("metrics.sock")).unwrap()));
    idle.extend((0..4).map(|_| UnixStream::connect(served.path("control.sock")).unwrap()));
    for _ in 0..5 {
        assert_eq!(served.status()["connections"].as_array().unwrap().len(), room);
        assert!(metric(&served, "process_open_fds") < 128.0);
    }
    let before = metric(&served, "process_cpu_seconds_total");
    std::thread::sleep(Duration::from_secs(3));
    let spent = metric(&served, "process_cpu_seconds_total") - before;
    assert!(spent < 1.0, "{spent} s of processor time in 3 s without work");
    clients.iter_mut().for_each(Client::assert_alive);
    // A place that becomes free is a new client's, although strangers would have it.
    clients.pop();
    await_that("room for a client again", || try_open(&served).is_some());
    drop((idle, clients));
    assert_eq!(served.terminate(), Some(0));
}

#[test]
fn a_write_beyond_the_limit_of_file_sizes_is_an_error_of_that_write() {
    // Bash counts in blocks of 1,024 bytes.
    let served = served(directory(), "ulimit -f 2048; exec");
    let mut client = Client::open(&served.path("nbd.sock"), "a", ReplyForm::Structured);
    assert_eq!(client.write(0, 1 << 20, &[7; 4_096]).error, 0);
    assert_eq!(client.write(0, 3 << 20, &[7; 4_096]).error, error::ENOSPC);
    assert_eq!(client.write(0, 0, &[8; 4_096]).error, 0);
    assert_eq!(client.read(1 << 20, 4_096).data(), [7; 4_096]);
    drop(client);
    assert_eq!(served.terminate(), Some(0));
}

#[test]
fn without_threads_clients_and_operators_are_served_and_the_drain_ends() {
    let name = "without_threads";
    if !requires(name, &["setpriv", "prlimit"]) {
        return;
    }
    if !rustix::process::geteuid().is_root() {
        println!("SKIPPED {name}: the limit of threads is that of another user, which needs root");
        return;
    }
    // A ring counts as locked memory in newer kernels: this is enough for the rings, and too little to pin the first
    // piece of the arena.
    let user = "exec setpriv --reuid 61234 --regid 61234 --clear-groups prlimit --memlock=1048576:1048576";
    let mut served = served(directory(), user);
    // From here on no thread can be started. The user itself lowers its limit, which needs no capability.
    let pid = served.child.id().to_string();
    let as_user = ["--reuid", "61234", "--regid", "61234", "--clear-groups"];
    succeed("setpriv", &[&as_user[..], &["prlimit", "--pid", &pid, "--nproc=1:1"]].concat());
    let mut client = Client::open(&served.path("nbd.sock"), "a", ReplyForm::Structured);
    assert_eq!(client.write(0, 0, &[7; 4_096]).error, 0);
    for _ in 0..3 {
        assert_eq!(served.status()["connections"].as_array().unwrap().len(), 1);
    }
    assert!(metric(&served, "process_threads") > 3.0);
    served.signal("TERM");
    assert_eq!(wait_for_exit(&mut served.child).code(), Some(0), "{}", said(&served));
}
