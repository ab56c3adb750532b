//! Operation of the real `hoistway serve`: ready lines (which it prints when clients can connect),
//! signals, sockets, refusals, and the state after `kill -9`. Source:
//! docs/specifications/engine.md, sections 8 and 10, cases 26, 34 and 58 to 62.

#[path = "../../export/tests/client/mod.rs"]
mod client;
mod served;

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use client::Client;
use hoistway_export::nbd::handshake::ReplyForm;
use hoistway_export::nbd::wire::{command, error};
use served::{Served, await_that, directory, hoistway, requires, run_command, sparse_file, wait_for_exit};
use tempfile::TempDir;

const MIB: u64 = 1 << 20;

/// Runs `hoistway serve` with arguments with which it must not start; `@` stands for the directory.
/// Returns its exit code and standard error output.
fn refused(directory: &TempDir, arguments: &[&str]) -> (Option<i32>, String) {
    let place = directory.path().display().to_string();
    let arguments = arguments.iter().map(|argument| argument.replace('@', &place));
    let output = run_command(hoistway().arg("serve").args(arguments));
    assert!(output.stdout.is_empty(), "a ready line from a server that must not start");
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

const NBD: [&str; 2] = ["--nbd", "unix:@/other.sock"];

// ---- addresses ----

#[test]
fn the_ready_line_names_address_and_exports() {
    let served = Served::flags(directory(), &["--export", "a=memory:1MiB", "--export", "b=memory:1MiB", "--print-uri"]);
    let socket = served.path("nbd.sock").display().to_string();
    assert_eq!(served.ready, [format!("listening nbd unix:{socket} exports=a,b")]);
    Client::open(&served.path("nbd.sock"), "a", ReplyForm::Structured).assert_alive();
}

#[test]
fn tcp_listens_on_the_port_that_the_ready_line_names() {
    if !requires("tcp", &["nbdinfo"]) {
        return;
    }
    let text = "[[device]]\nname = \"d\"\nmemory = \"64MiB\"\n[[device.export]]\nname = \"a\"\nbacking = \"memory:3MiB\"\n\
                [[listen]]\ntcp = \"127.0.0.1:0\"\n";
    let served = Served::configured(directory(), text);
    let port = served.ready[0].strip_prefix("listening nbd tcp:127.0.0.1:").unwrap().split(' ').next().unwrap();
    assert_eq!(served::succeed("nbdinfo", &["--size", &format!("nbd://127.0.0.1:{port}/a")]).trim(), "3145728");
}

#[test]
fn the_service_manager_is_notified_of_readiness_and_of_the_stop() {
    let directory = directory();
    let manager = UnixDatagram::bind(directory.path().join("notify.sock")).unwrap();
    manager.set_read_timeout(Some(std::time::Duration::from_secs(60))).unwrap();
    let mut command = hoistway();
    command.env("NOTIFY_SOCKET", directory.path().join("notify.sock"));
    let (file, socket) = (directory.path().join("serve.toml"), directory.path().join("nbd.sock"));
    let text = |memory: &str| {
        format!(
            "[[device]]\nname = \"d\"\nmemory = \"{memory}\"\n[[device.export]]\nname = \"a\"\nbacking = \"memory:1MiB\"\n\
             [[listen]]\nunix = \"{}\"\n",
            socket.display()
        )
    };
    fs::write(&file, text("64MiB")).unwrap();
    // The manager ends a server that is silent for 0.4 s, were this one.
    command.env("WATCHDOG_USEC", "400000").arg("serve").arg(&file);
    let mut served = Served::start(directory, command, 1);
    let mut buffer = [0; 256];
    let mut told = || {
        let length = manager.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    };
    assert_eq!(told(), "READY=1\nSTATUS=serving 1 export on 1 device");
    (0..4).for_each(|_| assert_eq!(told(), "WATCHDOG=1"));
    let mut next = || std::iter::repeat_with(&mut told).find(|said| said != "WATCHDOG=1").unwrap();
    for (memory, note) in [("64MiB", ""), ("65MiB", "; the last reload was refused"), ("64MiB", "")] {
        fs::write(&file, text(memory)).unwrap();
        served.signal("HUP");
        let reloading = next();
        let since = reloading.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").expect("a time");
        assert!(since.parse::<u64>().unwrap() > 0);
        assert_eq!(next(), format!("READY=1\nSTATUS=serving 1 export on 1 device{note}"));
    }
    served.signal("TERM");
    assert_eq!(next(), "STOPPING=1\nSTATUS=shutting down");
    assert_eq!(wait_for_exit(&mut served.child).code(), Some(0));
}

#[test]
fn a_socket_passed_on_by_the_service_manager_is_used() {
    let directory = directory();
    let path = directory.path().join("passed.sock");
    let listener = UnixListener::bind(&path).unwrap();
    // The shell moves its standard input to descriptor 3, where the service manager's sockets
    // begin.
    let script = "LISTEN_PID=$$ LISTEN_FDS=1 exec \"$0\" \"$@\" 3<&0 </dev/null";
    let mut command = Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_hoistway"), "serve", "--memory", "64MiB"]);
    command.args(["--export", "a=memory:1MiB"]).stdin(OwnedFd::from(listener)).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut client = Client::open(&path, "a", ReplyForm::Simple);
    client.assert_alive();
    let _ = child.kill();
    let _ = child.wait();
    assert!(path.exists(), "a socket that belongs to the service manager is left alone");
}

#[test]
fn check_prints_a_file_that_check_prints_again() {
    let directory = directory();
    let text = "[[device]]\nname = \"d\"\n[[device.export]]\nname = \"a\"\nbacking = \"memory:1MiB\"\n\
                [[listen]]\nunix = \"/run/x.sock\"\n";
    fs::write(directory.path().join("one.toml"), text).unwrap();
    let check = |name: &str| run_command(hoistway().args(["serve", "--check"]).arg(directory.path().join(name))).stdout;
    let shown = check("one.toml");
    assert!(!shown.is_empty());
    fs::write(directory.path().join("two.toml"), &shown).unwrap();
    assert_eq!(check("two.toml"), shown);
}

// ---- refusals ----

#[test]
fn configuration_mistakes_are_reported_with_their_place_and_exit_2() {
    let directory = directory();
    let text = "[[device]]\nname = \"d\"\nscheduler = \"wqf\"\n[[device.export]]\nname = \"a\"\nbacking = \"memory:1MiB\"\n\
                [[group]]\npath = \"g\"\nweight = 20000\n[[listen]]\nunix = \"@/x.sock\"\nmax_conections = 5\n";
    let path = directory.path().join("serve.toml");
    fs::write(&path, text).unwrap();
    let (code, said) = refused(&directory, &["@/serve.toml"]);
    assert_eq!(code, Some(2));
    let place = path.display();
    for expected in [
        format!("hoistway: error: {place}:9:10: weight = 20000 is outside 1 to 10000"),
        format!("hoistway: error: {place}:12:1: [[listen]] has no key max_conections; did you mean max_connections?"),
    ] {
        assert!(said.contains(&expected), "{expected:?} is not in\n{said}");
    }
    fs::write(&path, text.replace("20000", "200").replace("max_conections", "max_connections")).unwrap();
    let (code, said) = refused(&directory, &["@/serve.toml"]);
    assert_eq!(code, Some(2));
    assert!(said.contains(&format!("{place}:3:13: ")) && said.contains("wqf") && said.contains("wfq"), "{said}");
    assert!(!directory.path().join("x.sock").exists(), "nothing was touched");
}

#[test]
fn t60_paths_outside_the_root_are_refused() {
    let directory = directory();
    let root = directory.path().join("root");
    fs::create_dir(&root).unwrap();
    sparse_file(&directory.path().join("outside.img"), MIB);
    symlink("../outside.img", root.join("link.img")).unwrap();
    for backing in ["../outside.img", "link.img"] {
        let text = format!(
            "root = \"{}\"\n[[device]]\nname = \"d\"\nmemory = \"64MiB\"\n[[device.export]]\nname = \"a\"\n\
             backing = \"{backing}\"\n[[listen]]\nunix = \"@/x.sock\"\n",
            root.display()
        );
        fs::write(directory.path().join("serve.toml"), text).unwrap();
        let (code, said) = refused(&directory, &["@/serve.toml"]);
        assert!(matches!(code, Some(2 | 3)), "{code:?}\n{said}");
        assert!(said.contains("serve.toml:7:11: ") && said.contains("leads out of"), "{said}");
    }
}

#[test]
fn t60_one_file_cannot_be_written_through_two_exports() {
    let directory = directory();
    sparse_file(&directory.path().join("x.img"), MIB);
    let exports = ["--export", "a=@/x.img", "--export", "b=@/x.img"];
    let (code, said) = refused(&directory, &[&NBD[..], &exports].concat());
    assert!(matches!(code, Some(2 | 3)), "{code:?}");
    assert!(said.contains("--export") && said.contains("x.img"), "{said}");
}

#[test]
fn two_servers_on_one_file_the_second_is_refused_and_the_first_goes_on() {
    let served = Served::file(MIB);
    let (code, said) = refused(&served.directory, &[&NBD[..], &["--export", "y=@/x.img"]].concat());
    assert_eq!(code, Some(3));
    assert!(said.contains("x.img") && said.contains("help:"), "{said}");
    Client::open(&served.path("nbd.sock"), "x", ReplyForm::Simple).assert_alive();
}

#[test]
fn a_key_that_cannot_be_used_is_refused_by_the_check_as_by_the_start() {
    let directory = directory();
    let key = directory.path().join("key.pem");
    std::fs::write(&key, [0; 10]).unwrap();
    let key = key.to_str().unwrap();
    let flags = ["--nbd", "tcp:127.0.0.1:0", "--tls-certificate", key, "--tls-key", key, "--export", "a=memory:1MiB"];
    let by_start = refused(&directory, &flags);
    let by_check = refused(&directory, &[&["--check"], &flags[..]].concat());
    assert!(by_start.0 == Some(2) && by_start.1.contains("key.pem cannot be read"), "{by_start:?}");
    assert_eq!(by_check, by_start);
}

#[test]
fn a_missing_file_is_reported_with_its_flag_and_exit_2() {
    let directory = directory();
    let (code, said) = refused(&directory, &[&NBD[..], &["--export", "a=@/none.img"]].concat());
    assert_eq!(code, Some(2));
    assert!(said.starts_with("hoistway: error: --export: ") && said.contains("none.img"), "{said}");
}

#[test]
fn t61_a_live_socket_is_refused_and_a_stale_one_replaced() {
    let mut served = Served::file(MIB);
    let again = ["--nbd", "unix:@/nbd.sock", "--export", "m=memory:1MiB"];
    let (code, said) = refused(&served.directory, &again);
    assert_eq!(code, Some(2));
    assert!(said.contains("a server listens on") && said.contains("nbd.sock"), "{said}");
    let _ = served.child.kill();
    wait_for_exit(&mut served.child);
    assert!(served.path("nbd.sock").exists(), "kill -9 leaves the socket file behind");
    let directory = std::mem::replace(&mut served.directory, tempfile::tempdir().unwrap());
    let served = Served::flags(directory, &["--export", "x=@/x.img"]);
    Client::open(&served.path("nbd.sock"), "x", ReplyForm::Simple).assert_alive();
}

#[test]
fn t61_a_file_in_the_way_is_left_alone() {
    let directory = directory();
    fs::write(directory.path().join("other.sock"), "precious").unwrap();
    let (code, said) = refused(&directory, &[&NBD[..], &["--export", "a=memory:1MiB"]].concat());
    assert_eq!(code, Some(2));
    assert!(said.contains("is not a socket"), "{said}");
    assert_eq!(fs::read_to_string(directory.path().join("other.sock")).unwrap(), "precious");
}

#[test]
fn t61_the_socket_has_the_mode_that_was_asked_for() {
    let gid = fs::metadata("/proc/self").unwrap().gid();
    let text = format!(
        "[[device]]\nname = \"d\"\nmemory = \"64MiB\"\n[[device.export]]\nname = \"a\"\nbacking = \"memory:1MiB\"\n\
         [[listen]]\nunix = \"@/nbd.sock\"\nmode = \"0640\"\nowner_group = \"{gid}\"\n[[listen]]\nunix = \"@/two.sock\"\n\
         [control]\nunix = \"@/control.sock\"\n"
    );
    let served = Served::configured(directory(), &text);
    let metadata = |name: &str| fs::metadata(served.path(name)).unwrap();
    assert_eq!(metadata("nbd.sock").permissions().mode() & 0o777, 0o640);
    assert_eq!(metadata("nbd.sock").gid(), gid);
    assert_eq!(metadata("two.sock").permissions().mode() & 0o777, 0o660);
    assert_eq!(metadata("control.sock").permissions().mode() & 0o777, 0o600);
}

// ---- signals ----

#[test]
fn t58_sigterm_answers_what_is_in_flight_refuses_the_rest_and_exits_0() {
    let mut served = Served::file(64 * MIB);
    let mut client = Client::open(&served.path("nbd.sock"), "x", ReplyForm::Simple);
    client.assert_alive();
    let mut sent = 0;
    let mut answered = BTreeMap::new();
    served.signal("TERM");
    // Requests continue until one is refused or the connection ends; every earlier one is completed
    // or refused.
    loop {
        let request = client.request(0, command::READ, sent, 0, 512);
        if client.stream.write_all(&request).is_err() {
            break;
        }
        sent += 1;
        let mut magic = [0; 16];
        if client.stream.read_exact(&mut magic).is_err() {
            break;
        }
        let code = u32::from_be_bytes(magic[4..8].try_into().unwrap());
        *answered.entry(code).or_insert(0) += 1;
        if code == 0 {
            client.receive(512);
        }
    }
    assert!(answered.keys().all(|&code| code == 0 || code == error::ESHUTDOWN), "{answered:?}");
    assert_eq!(wait_for_exit(&mut served.child).code(), Some(0));
    for socket in ["nbd.sock", "control.sock"] {
        assert!(!served.path(socket).exists(), "{socket} goes with the server");
    }
}

#[test]
fn t58_a_stuck_device_is_given_up_after_the_drain_timeout_with_the_count() {
    let text = "drain_timeout_s = 1\n[[device]]\nname = \"d\"\nmemory = \"64MiB\"\n[[device.export]]\nname = \"a\"\n\
                backing = \"model:null,read_delay_us=90000000,memory:1MiB\"\n[[listen]]\nunix = \"@/nbd.sock\"\n\
                [control]\nunix = \"@/control.sock\"\n";
    let directory = directory();
    let place = directory.path().display().to_string();
    fs::write(directory.path().join("serve.toml"), text.replace('@', &place)).unwrap();
    let mut command = hoistway();
    command.arg("serve").arg(directory.path().join("serve.toml")).stderr(Stdio::piped());
    let mut served = Served::start(directory, command, 1);
    let mut client = Client::open(&served.path("nbd.sock"), "a", ReplyForm::Simple);
    let requests: Vec<u8> = (0..3).flat_map(|it| client.request(0, command::READ, it, it * 4_096, 512)).collect();
    client.send(&requests);
    await_that("three requests are under way", || served.status()["devices"][0]["requests_in_flight"] == 3);
    served.signal("TERM");
    assert_eq!(wait_for_exit(&mut served.child).code(), Some(1));
    let mut said = String::new();
    served.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(said.contains("3 requests were abandoned after 1 s"), "{said}");
}

#[test]
fn t58_limits_neither_delay_a_switch_nor_the_end() {
    // At 2 bytes per second the writes would take two days, and the server would give up after its drain timeout.
    let mut served = Served::flags(directory(), &["--export", "a=memory:1MiB", "--drain-timeout-s", "3600"]);
    let (said, code) = served.ctl(&["limit", "a", "io.max", "wbps=2"]);
    assert_eq!(code, Some(0), "{said}");
    let mut client = Client::open(&served.path("nbd.sock"), "a", ReplyForm::Simple);
    let mut requests = Vec::new();
    for cookie in 0..100 {
        requests.extend(client.request(0, command::WRITE, cookie, cookie * 8_192, 4_096));
        requests.extend([0x5a; 4_096]);
    }
    client.send(&requests);
    // The first goes at once and leaves a debt of half an hour.
    await_that("the other writes are held", || served.status()["devices"][0]["held_by_limiters"] == 99);
    let (said, code) = served.ctl(&["scheduler", "wfq"]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(served.status()["devices"][0]["scheduler"], "wfq");
    served.signal("TERM");
    let mut answered: Vec<u64> = (0..100)
        .map(|_| {
            let reply = client.receive(16);
            assert_eq!(reply[4..8], [0; 4], "an error");
            u64::from_be_bytes(reply[8..].try_into().unwrap())
        })
        .collect();
    answered.sort_unstable();
    assert_eq!(answered, (0..100).collect::<Vec<_>>());
    assert_eq!(wait_for_exit(&mut served.child).code(), Some(0));
}

#[test]
fn t58_the_second_signal_ends_the_server_at_once() {
    let mut served = Served::flags(directory(), &["--export", "a=model:null,read_delay_us=90000000,memory:1MiB"]);
    let mut client = Client::open(&served.path("nbd.sock"), "a", ReplyForm::Simple);
    let request = client.request(0, command::READ, 1, 0, 512);
    client.send(&request);
    await_that("a request is under way", || served.status()["devices"][0]["requests_in_flight"] == 1);
    served.signal("TERM");
    await_that("the server drains", || served.status()["draining"] == true);
    served.signal("INT");
    assert_eq!(wait_for_exit(&mut served.child).code(), Some(1));
}

#[test]
fn t23_the_backing_of_a_read_only_export_is_opened_for_reading_only() {
    let directory = directory();
    sparse_file(&directory.path().join("x.img"), MIB);
    let served = Served::flags(directory, &["--export", "x=@/x.img,read_only"]);
    let process = format!("/proc/{}", served.child.id());
    let mut found = 0;
    for entry in fs::read_dir(format!("{process}/fd")).unwrap() {
        let entry = entry.unwrap();
        if fs::read_link(entry.path()).is_ok_and(|target| target == served.path("x.img")) {
            let info = fs::read_to_string(format!("{process}/fdinfo/{}", entry.file_name().display())).unwrap();
            let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).unwrap().trim();
            assert_eq!(u32::from_str_radix(flags, 8).unwrap() & 0o3, 0, "not O_RDONLY: {flags}");
            found += 1;
        }
    }
    assert!(found > 0, "the server has its backing open");
}

#[test]
fn t62_groups_connections_and_exports_count_the_same() {
    let served = Served::flags(directory(), &["--export", "a=memory:4MiB", "--export", "b=memory:4MiB"]);
    let open = |export: &str| Client::open(&served.path("nbd.sock"), export, ReplyForm::Structured);
    let mut clients = [open("a"), open("b"), open("b")];
    for (index, client) in clients.iter_mut().enumerate() {
        for round in 0..=index as u64 {
            assert_eq!(client.write(0, round * 4_096, &[1; 4_096]).error, 0);
            assert_eq!(client.read(round * 4_096, 8_192).error, 0);
        }
        assert_eq!(client.ask(0, command::FLUSH, 0, 0).error, 0);
        assert_eq!(client.ask(0, command::TRIM, 0, 4_096).error, 0);
        assert_eq!(client.read(4 * MIB, 512).error, error::EINVAL);
    }
    let sums = |status: &serde_json::Value, list: &str| {
        let mut sums: BTreeMap<(String, &str), u64> = BTreeMap::new();
        for entry in status[list].as_array().unwrap() {
            for kind in ["read", "write", "flush", "discard", "write_zeroes"] {
                for figure in ["requests", "bytes", "errors"] {
                    *sums.entry((kind.to_owned(), figure)).or_default() += entry[kind][figure].as_u64().unwrap_or(0);
                }
            }
        }
        sums
    };
    // A request is counted after its reply was sent, so the client may have the reply a moment
    // before that.
    let expected = |sums: &BTreeMap<(String, &str), u64>| {
        sums[&("write".to_owned(), "requests")] == 6 && sums[&("discard".to_owned(), "requests")] == 3
    };
    await_that("everything is counted", || expected(&sums(&served.status(), "groups")));
    let status = served.status();
    let groups = sums(&status, "groups");
    assert_eq!(groups, sums(&status, "connections"), "{status:#}");
    assert_eq!(groups, sums(&status, "exports"), "{status:#}");
    assert_eq!(groups[&("write".to_owned(), "bytes")], 6 * 4_096);
    assert_eq!(groups[&("read".to_owned(), "bytes")], 6 * 8_192);
    assert_eq!(groups[&("flush".to_owned(), "requests")], 3);
}

#[test]
fn t40_a_hundred_idle_connections_cost_no_wake_up() {
    let served = Served::flags(directory(), &["--export", "a=memory:4MiB"]);
    let clients: Vec<Client> =
        (0..100).map(|_| Client::open(&served.path("nbd.sock"), "a", ReplyForm::Simple)).collect();
    // First the work that the start and the connections caused ends, including busy polling; from
    // then on the count must not change.
    let mut before = wake_ups(&served);
    await_that("the server sleeps", || {
        std::thread::sleep(std::time::Duration::from_millis(500));
        let now = wake_ups(&served);
        std::mem::replace(&mut before, now) == now
    });
    std::thread::sleep(std::time::Duration::from_secs(3));
    assert_eq!(wake_ups(&served), before);
    drop(clients);
}

/// Voluntary context switches of all threads of the server: each is a wake-up.
fn wake_ups(served: &Served) -> u64 {
    let tasks = fs::read_dir(format!("/proc/{}/task", served.child.id())).unwrap();
    let switches = |status: String| {
        let line =
            status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).unwrap().trim().to_owned();
        line.parse::<u64>().unwrap()
    };
    tasks.map(|task| switches(fs::read_to_string(task.unwrap().path().join("status")).unwrap())).sum()
}

// ---- kill -9 ----

#[test]
fn t26_every_acknowledged_record_survives_the_servers_sudden_death() {
    const RECORD: usize = 4_096;
    for round in 0..50_u64 {
        let mut served = Served::file(64 * MIB);
        let socket = served.path("nbd.sock");
        let acknowledged: Vec<AtomicU64> = (0..4).map(|_| AtomicU64::new(0)).collect();
        std::thread::scope(|scope| {
            for (lane, acknowledged) in acknowledged.iter().enumerate() {
                let socket = &socket;
                scope.spawn(move || {
                    let mut client = Client::open(socket, "x", ReplyForm::Simple);
                    for sequence in 1.. {
                        let offset = (lane as u64 * 4_096 + sequence % 4_096) * RECORD as u64;
                        let mut bytes = client.request(0, command::WRITE, sequence, offset, RECORD as u64);
                        bytes.extend(record(lane as u64, sequence, RECORD));
                        let mut reply = [0; 16];
                        if client.stream.write_all(&bytes).is_err() || client.stream.read_exact(&mut reply).is_err() {
                            return;
                        }
                        assert_eq!(reply[4..8], [0; 4], "a write failed");
                        acknowledged.store(sequence, Ordering::Release);
                    }
                });
            }
            // The server is killed in the middle of the writes, at a different place in each round.
            let enough = 20 + round * 7;
            await_that("records are acknowledged", || {
                acknowledged.iter().all(|it| it.load(Ordering::Acquire) > enough)
            });
            served.child.kill().unwrap();
        });
        wait_for_exit(&mut served.child);
        let file = fs::read(served.path("x.img")).unwrap();
        for (lane, acknowledged) in acknowledged.iter().enumerate() {
            let last = acknowledged.load(Ordering::Acquire);
            for sequence in last.saturating_sub(4_000).max(1)..=last {
                let at = (lane * 4_096 + usize::try_from(sequence % 4_096).unwrap()) * RECORD;
                // A later record of the same place may have been written without being
                // acknowledged.
                let found = u64::from_le_bytes(file[at + 8..at + 16].try_into().unwrap());
                assert!(
                    found == sequence || found == sequence + 4_096,
                    "round {round}, lane {lane}: {sequence} became {found}"
                );
                assert!(file[at..at + RECORD] == record(lane as u64, found, RECORD), "a torn record");
            }
        }
    }
}

/// A record of one writer (`lane`). Each word follows from the writer and the record's number: a mixture
/// of two records is found.
fn record(lane: u64, sequence: u64, length: usize) -> Vec<u8> {
    let mut bytes = [lane.to_le_bytes(), sequence.to_le_bytes()].concat();
    while bytes.len() < length {
        let word = (bytes.len() as u64).wrapping_mul(sequence.wrapping_mul(0x9e37_79b9) ^ lane);
        bytes.extend(word.to_le_bytes());
    }
    bytes
}

#[test]
fn t34_clients_that_die_with_128_requests_in_flight_leave_nothing_behind() {
    let served = Served::flags(directory(), &["--export", "a=memory:64MiB", "--scheduler", "wfq"]);
    let socket = served.path("nbd.sock");
    let before = memory_in_use(&served);
    for round in 0..1_000_u64 {
        let mut client = Client::open(&socket, "a", ReplyForm::Simple);
        let mut bytes = Vec::new();
        for cookie in 0..128 {
            let (number, length) = if cookie % 2 == 0 { (command::READ, 65_536) } else { (command::WRITE, 16_384) };
            bytes.extend(client.request(0, number, cookie, (cookie * 65_536) % (32 * MIB), length));
            if number == command::WRITE {
                bytes.extend(vec![7; 16_384]);
            }
        }
        // The client reads no answers, so the server stops reading requests at some point. Requests
        // that cannot be sent at once are not sent.
        client.stream.set_nonblocking(true).unwrap();
        let _ = client.stream.write(&bytes[..bytes.len().min(64 * 1024 + usize::try_from(round).unwrap() * 97)]);
    }
    await_that("every connection is gone", || served.status()["connections"].as_array().unwrap().is_empty());
    await_that("all memory is back", || memory_in_use(&served) == before);
    Client::open(&socket, "a", ReplyForm::Simple).assert_alive();
    assert_eq!(served.terminate(), Some(0));
}

#[test]
fn t34_a_client_process_that_is_killed_leaves_nothing_behind() {
    if !requires("kill -9 of fio", &["fio"]) {
        return;
    }
    let served = Served::flags(directory(), &["--export", "a=memory:64MiB"]);
    for _ in 0..5 {
        let mut fio = Command::new("fio");
        fio.args(["--name=k", "--ioengine=nbd", "--rw=randrw", "--bs=64k", "--iodepth=128", "--size=64m"]);
        fio.args(["--time_based", "--runtime=600", "--thread", &format!("--uri={}", served.uri("a"))]);
        let mut child = fio.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let is_busy = |it: &serde_json::Value| it["write"]["requests"].as_u64().is_some_and(|count| count > 200);
        await_that("fio writes", || served.status()["connections"].as_array().unwrap().iter().any(is_busy));
        child.kill().unwrap();
        child.wait().unwrap();
        await_that("its connection is gone", || served.status()["connections"].as_array().unwrap().is_empty());
    }
    assert_eq!(served.status()["devices"][0]["violations"], 0);
    assert_eq!(served.status()["devices"][0]["requests_in_flight"], 0);
    Client::open(&served.path("nbd.sock"), "a", ReplyForm::Simple).assert_alive();
    assert_eq!(served.terminate(), Some(0));
}

fn memory_in_use(served: &Served) -> u64 {
    served.status()["devices"][0]["memory_used_bytes"].as_u64().unwrap()
}
