//! Attacks that once succeeded on a server, or on the command that reads what others have written.

#[path = "../../export/tests/client/mod.rs"]
mod client;
mod served;

use std::fs::{self, File};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use client::{Client, go_data};
use hoistway_export::nbd::handshake::ReplyForm;
use hoistway_export::nbd::wire::{command, option, reply};
use served::{Served, await_that, directory, hoistway, run_command, wait_for_exit};

const TWO_EXPORTS: &str = "[[device]]\nname = \"d\"\nmemory = \"64MiB\"\n\
    [[device.export]]\nname = \"a\"\nbacking = \"@/a.img\"\n[[device.export]]\nname = \"b\"\nbacking = \"memory:1MiB\"\n\
    [control]\nunix = \"@/control.sock\"\n[[listen]]\nunix = \"@/nbd.sock\"\n";

fn two_exports(more: &str) -> Served {
    let directory = directory();
    served::sparse_file(&directory.path().join("a.img"), 1 << 20);
    Served::configured(directory, &format!("{TWO_EXPORTS}{more}"))
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Opens an export, or returns the type of the refusal.
fn try_open(served: &Served, name: &str) -> Result<Client, u32> {
    let mut client = Client::connect(&served.path("nbd.sock"), 3);
    let replies = client.option(option::GO, &go_data(name));
    match replies.last().unwrap().kind {
        reply::ACK => Ok(client),
        kind => Err(kind),
    }
}

// ---- connections ----

#[test]
fn one_tenant_does_not_shut_out_another() {
    let served = two_exports("max_connections_per_peer = 256\n");
    let mut of_a = Vec::new();
    let refusal = loop {
        assert!(of_a.len() < 256, "a has all connections");
        match try_open(&served, "a") {
            Ok(client) => of_a.push(client),
            Err(kind) => break kind,
        }
    };
    assert_eq!((of_a.len(), refusal), (240, reply::POLICY));
    let mut of_b: Vec<Client> =
        (0..10).map(|_| Client::open(&served.path("nbd.sock"), "b", ReplyForm::Simple)).collect();
    of_b.iter_mut().chain(&mut of_a).for_each(Client::assert_alive);
    // A place that was given back can be taken again.
    drop(of_a.pop());
    await_that("the place of a client that left is given back", || try_open(&served, "a").is_ok());
}

#[test]
fn one_peer_does_not_take_all_connections() {
    let served = two_exports("max_connections = 16\n");
    let clients: Vec<Client> = (0..14).filter_map(|_| try_open(&served, "b").ok()).collect();
    assert!(clients.len() < 14 && try_open(&served, "a").is_ok(), "{}", clients.len());
    drop(clients);
    let limited = two_exports("max_connections_per_peer = 2\n");
    let _first = [try_open(&limited, "a").ok().unwrap(), try_open(&limited, "b").ok().unwrap()];
    assert_eq!(try_open(&limited, "b").err(), Some(reply::POLICY));
}

#[test]
fn half_open_connections_of_one_peer_leave_room_for_others() {
    let served = two_exports("");
    let socket = served.path("nbd.sock");
    // Another process, because connections are counted by peer.
    let script = "import socket, sys, time\n\
        held = []\n\
        print('ready', flush=True)\n\
        while True:\n    \
            s = socket.socket(socket.AF_UNIX)\n    \
            try:\n        s.connect(sys.argv[1])\n        held.append(s)\n    \
            except OSError:\n        pass\n    \
            held = held[-200:]\n    \
            time.sleep(0.0005)\n";
    let mut flood = Command::new("python3").args(["-c", script]).arg(&socket).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(flood.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    for _ in 0..20 {
        let mut client = Client::connect(&socket, 3);
        // Long enough for a flood to displace it.
        std::thread::sleep(Duration::from_millis(100));
        client.go("b");
        client.assert_alive();
    }
    flood.kill().unwrap();
    flood.wait().unwrap();
}

#[test]
fn an_export_that_comes_back_keeps_its_volume_while_a_client_stays() {
    let served = two_exports("");
    let mut client = Client::open(&served.path("nbd.sock"), "a", ReplyForm::Simple);
    let path = served.path("serve.toml");
    let whole = fs::read_to_string(&path).unwrap();
    let backing = served.path("a.img").display().to_string();
    let export = format!("[[device.export]]\nname = \"a\"\nbacking = \"{backing}\"\n");
    assert!(whole.contains(&export));
    fs::write(&path, whole.replace(&export, "")).unwrap();
    assert_eq!(served.ctl(&["reload"]).1, Some(0));
    assert_eq!(try_open(&served, "a").err(), Some(reply::UNKNOWN));
    // Under another name the backing cannot be opened, and the message says what to do.
    fs::write(&path, whole.replace("name = \"a\"", "name = \"c\"")).unwrap();
    let (said, code) = served.ctl(&["reload"]);
    assert!(code == Some(2) && said.contains("hoistway ctl evict --export a"), "{said}");
    fs::write(&path, &whole).unwrap();
    let (said, code) = served.ctl(&["reload"]);
    assert_eq!(code, Some(0), "{said}");
    client.assert_alive();
    Client::open(&served.path("nbd.sock"), "a", ReplyForm::Simple).assert_alive();
    // Gone again, and without clients: then the other name can have it.
    fs::write(&path, whole.replace("name = \"a\"", "name = \"c\"")).unwrap();
    assert_eq!(served.ctl(&["evict", "--export", "a"]).1, Some(0));
    drop(client);
    fs::write(&path, whole.replace(&export, "")).unwrap();
    assert_eq!(served.ctl(&["reload"]).1, Some(0));
    fs::write(&path, whole.replace("name = \"a\"", "name = \"c\"")).unwrap();
    await_that("the backing is free", || served.ctl(&["reload"]).1 == Some(0));
    Client::open(&served.path("nbd.sock"), "c", ReplyForm::Simple).assert_alive();
}

// ---- the limit of open files ----

fn with_file_limit(limit: u32, arguments: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -n {limit}; exec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_hoistway")]);
    command.args(arguments);
    command
}

#[test]
fn a_limit_of_open_files_that_is_too_low_is_reported_at_the_start() {
    let directory = directory();
    let socket = format!("unix:{}/nbd.sock", directory.path().display());
    let arguments = ["serve", "--memory", "64MiB", "--export", "a=memory:1MiB", "--nbd", &socket];
    for limit in [8, 12, 16, 20] {
        let output = run_command(&mut with_file_limit(limit, &arguments));
        assert!(output.status.code() == Some(1) && output.stdout.is_empty(), "{limit}: {output:?}");
        assert!(stderr(&output).contains(&format!("the limit of open files, {limit}, ")), "{limit}: {output:?}");
    }
    let said = stderr(&run_command(&mut with_file_limit(20, &arguments)));
    assert!(said.contains("the limit of open files, 20, leaves room for 0 of 256 clients"), "{said}");
    assert!(said.contains("LimitNOFILE="), "{said}");
}

#[test]
fn a_client_beyond_the_limit_of_open_files_is_closed_at_once_and_a_warning_says_why() {
    let directory = directory();
    let socket = format!("unix:{}/nbd.sock", directory.path().display());
    // A client that was not closed at once would wait for an hour.
    let listener = format!("{socket},handshake_timeout_s=3600");
    let mut command =
        with_file_limit(64, &["serve", "--memory", "64MiB", "--export", "a=memory:1MiB", "--nbd", &listener]);
    command.stderr(File::create(directory.path().join("said")).unwrap());
    let served = Served::start(directory, command, 1);
    let said = || fs::read_to_string(served.path("said")).unwrap();
    assert!(said().contains("warning: the limit of open files, 64, leaves room for"), "{}", said());
    let mut clients = Vec::new();
    // Clients that have opened their export: one in its handshake would give way to a newcomer.
    let error = loop {
        assert!(clients.len() < 64, "more clients than descriptors");
        let mut stream = UnixStream::connect(served.path("nbd.sock")).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let bytes = [&3_u32.to_be_bytes()[..], &client::option_bytes(option::GO, &go_data("a"))].concat();
        // Greeting, the facts of the export, and the acknowledgement behind them.
        if let Err(error) = stream.write_all(&bytes).and_then(|()| stream.read_exact(&mut [0; 18 + 20])) {
            break error;
        }
        clients.push(stream);
    };
    assert_ne!(error.kind(), ErrorKind::WouldBlock, "the client was neither served nor closed");
    assert!(clients.len() > 20, "only {} clients", clients.len());
    await_that("a warning", || said().contains("was refused, because the limit of open files is reached"));
    drop(clients);
    await_that("room for a client again", || {
        let mut stream = UnixStream::connect(served.path("nbd.sock")).unwrap();
        stream.read_exact(&mut [0; 18]).is_ok()
    });
}

// ---- inputs ----

#[test]
fn inputs_that_are_too_long_are_refused_before_they_are_read() {
    let directory = directory();
    let place = directory.path().display().to_string();
    for name in ["long.toml", "long.fio", "long.csv", "long.json"] {
        let line = "# nothing but a comment, again and again\n";
        fs::write(directory.path().join(name), line.repeat((20 << 20) / line.len())).unwrap();
    }
    for (arguments, code, words) in [
        (vec!["serve", "--check", "@/long.toml"], 2, "a configuration has at most 4 MiB"),
        (vec!["test", "--scenario", "@/long.toml"], 2, "a scenario has at most 1 MiB"),
        (vec!["test", "model:null", "-w", "@/long.fio", "--no-store"], 2, "a job file has at most 4 MiB"),
    ] {
        let arguments: Vec<String> = arguments.iter().map(|it| it.replace('@', &place)).collect();
        let output = run_command(hoistway().args(&arguments).current_dir(directory.path()));
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
        assert!(
            said.contains(words) && said.contains("bytes long") && said.contains("/long."),
            "{arguments:?}: {said}"
        );
    }
}

/// The largest configuration that is allowed: quadratic checks took minutes.
#[test]
fn a_large_configuration_is_checked_without_quadratic_work() {
    let directory = directory();
    let mut text = String::new();
    for device in 0..256 {
        text += &format!("[[device]]\nname = \"d{device}\"\nmemory = \"66MiB\"\n");
        for export in 0..32 {
            text += &format!("[[device.export]]\nname = \"e{device}-{export}\"\nbacking = \"memory:1MiB\"\n");
        }
    }
    (0..16_384).for_each(|group| text += &format!("[[group]]\npath = \"t/g{group}\"\nweight = 200\n"));
    for identity in 0..4_096 {
        text += &format!(
            "[[identity]]\nuid = {identity}\ngroup = \"t/g{identity}\"\nexports = [\"e{}-1\"]\n",
            identity % 256
        );
    }
    text += "[[listen]]\nunix = \"/run/x.sock\"\n";
    let path = directory.path().join("serve.toml");
    fs::write(&path, &text).unwrap();
    let start = Instant::now();
    let output = run_command(hoistway().args(["serve", "--check"]).arg(&path));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(start.elapsed() < Duration::from_secs(60), "it took {:?}", start.elapsed());
    assert!(stderr(&output).lines().count() <= 101, "a warning for each of thousands of groups");
    for (table, most) in
        [("[[group]]\npath = \"g", 16_384), ("[[identity]]\nuid = 1 # ", 4_096), ("[[device]]\nname = \"", 256)]
    {
        let quote = if table.ends_with("# ") { "" } else { "\"" };
        let many: String = (0..=most).map(|at| format!("{table}{at}{quote}\n")).collect();
        fs::write(&path, many).unwrap();
        let said = stderr(&run_command(hoistway().args(["serve", "--check"]).arg(&path)));
        assert!(
            said.contains(&format!("there are {}", most + 1)) && said.contains(&format!("and {most} are allowed")),
            "{said}"
        );
    }
    // One problem on each of many lines, then many problems on a single line.
    let many: String = (0..200_000).map(|at| format!("k{at} = 1\n")).collect();
    fs::write(&path, many).unwrap();
    let said = stderr(&run_command(hoistway().args(["serve", "--check"]).arg(&path)));
    assert!(said.contains("199900 more problems are not shown") && said.len() < 100_000, "{}", said.len());
    let long = format!("{}\nexports = [{}]\n", "[[listen]]\nunix = \"/x\"", "1, ".repeat(4_000));
    fs::write(&path, long).unwrap();
    let said = stderr(&run_command(hoistway().args(["serve", "--check"]).arg(&path)));
    assert!(said.contains("exports holds an integer") && said.len() < 200_000, "{}", said.len());
}

// ---- messages ----

#[test]
fn a_long_name_is_not_echoed_whole() {
    let directory = directory();
    let long = "n".repeat(100_000);
    let path = directory.path().join("serve.toml");
    fs::write(&path, format!("[[device]]\nname = \"{long}\"\n[[device.export]]\nname = \"{long}\"\nbacking = \"x\"\n"))
        .unwrap();
    for arguments in [vec!["serve", "--check", path.to_str().unwrap()], vec!["test", "-s", &long], vec!["test", &long]]
    {
        let output = run_command(hoistway().args(&arguments));
        let said = stderr(&output);
        assert!([Some(1), Some(2)].contains(&output.status.code()), "{said}");
        assert!(said.len() < 20_000 && said.contains("bytes are not shown ...]"), "{}", said.len());
    }
}

#[test]
fn memory_that_the_machine_does_not_have_is_refused() {
    let output = run_command(hoistway().args(["serve", "--check", "--nbd", "unix:/x", "--export", "a=memory:900TiB"]));
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(2));
    assert!(said.contains("memory:900TiB") && said.contains("MiB of memory") && said.contains("truncate"), "{said}");
}

#[test]
fn a_server_that_is_ended_at_once_says_how_many_requests_it_abandoned() {
    let text = "[[device]]\nname = \"d\"\nmemory = \"64MiB\"\n[[device.export]]\nname = \"a\"\n\
                backing = \"model:null,read_delay_us=90000000,memory:1MiB\"\n[[listen]]\nunix = \"@/nbd.sock\"\n\
                [control]\nunix = \"@/control.sock\"\n";
    let directory = directory();
    let path = directory.path().join("serve.toml");
    fs::write(&path, text.replace("@/", &format!("{}/", directory.path().display()))).unwrap();
    let mut command = hoistway();
    command.arg("serve").arg(&path).stderr(Stdio::piped());
    let mut served = Served::start(directory, command, 1);
    let mut client = Client::open(&served.path("nbd.sock"), "a", ReplyForm::Simple);
    let requests: Vec<u8> = (0..3).flat_map(|it| client.request(0, command::READ, it, it * 4_096, 512)).collect();
    client.send(&requests);
    await_that("three requests are under way", || served.status()["devices"][0]["requests_in_flight"] == 3);
    served.signal("TERM");
    // Two signals that arrive together count as one.
    await_that("the drain has begun", || served.status()["draining"] == true);
    served.signal("TERM");
    assert_eq!(wait_for_exit(&mut served.child).code(), Some(1));
    let mut said = String::new();
    served.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(said.contains("ended at once, 3 requests in flight were abandoned"), "{said}");
}
