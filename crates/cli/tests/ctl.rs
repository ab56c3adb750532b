//! `hoistway ctl`, reload and limits of a running server. Source: docs/specifications/engine.md,
//! sections 8 and 10, case 59.

#[path = "../../export/tests/client/mod.rs"]
mod client;
mod served;

use std::fs;
use std::os::unix::fs::symlink;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU64, Ordering};

use client::Client;
use hoistway_export::nbd::handshake::ReplyForm;
use serde_json::{Value, json};
use served::{Served, await_that, directory, hoistway, run_command, sparse_file, succeed, wait_for_exit};

const MIB: u64 = 1 << 20;

fn answer(served: &Served, arguments: &[&str]) -> Value {
    let (text, code) = served.ctl(arguments);
    assert_eq!(code, Some(0), "{text}");
    serde_json::from_str::<Value>(&text).unwrap()["ok"].clone()
}

fn size(served: &Served, export: &str) -> String {
    let output = run_command(Command::new("nbdinfo").args(["--size", &served.uri(export)]));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn exports_are_added_grown_and_removed_by_ctl() {
    if !served::requires("exports_are_added_grown_and_removed_by_ctl", &["nbdinfo"]) {
        return;
    }
    let served = Served::flags(directory(), &["--export", "a=memory:1MiB"]);
    sparse_file(&served.path("b.img"), 1 << 20);
    let export = format!("b={},weight=300", served.path("b.img").display());
    assert_eq!(answer(&served, &["export", "add", &export])["lasts"], "until the end of the server");
    assert_eq!(size(&served, "b"), "1048576");
    sparse_file(&served.path("b.img"), 2 << 20);
    assert_eq!(answer(&served, &["resize", "b"])["size_bytes"], 2 << 20);
    assert_eq!(size(&served, "b"), "2097152");
    assert_eq!(answer(&served, &["export", "remove", "b"])["connected"], 0);
    assert_eq!(size(&served, "b"), "", "it is gone");
    let (text, code) = served.ctl(&["export", "remove", "a"]);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("a is the last export of the device default"), "{text}");
    assert_eq!(served.terminate(), Some(0));
}

#[test]
fn ctl_finds_the_socket_by_each_of_its_names_and_says_errors_in_words() {
    let served = Served::flags(directory(), &["--export", "a=memory:1MiB"]);
    let path = served.path("control.sock").display().to_string();
    let ask = |option: &[&str], variable: &str| {
        let mut command = hoistway();
        command.env_remove("HOISTWAY_CONTROL").arg("ctl").args(option);
        if !variable.is_empty() {
            command.env("HOISTWAY_CONTROL", variable);
        }
        run_command(command.args(["set", "group", "nowhere", "300"]))
    };
    let prefixed = format!("unix:{path}");
    for (option, variable) in
        [(&["--control", &path][..], ""), (&["--control", &prefixed], "/nowhere"), (&[], &path), (&[], &prefixed)]
    {
        let refused = ask(option, variable);
        let text = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(2), "{option:?} {variable}: {text}");
        let first = text.lines().next().unwrap_or("");
        assert!(first.contains("nowhere") && !first.ends_with(')'), "a name of the protocol: {text}");
    }
    let (text, code) = served.ctl(&["set", "group", "nowhere", "300"]);
    assert_eq!((code, serde_json::from_str::<Value>(&text).unwrap()["field"].as_str()), (Some(2), Some("group")));
    let none = ask(&[], "unix:/nowhere/control.sock");
    assert_eq!(none.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&none.stderr).contains("control socket /nowhere/control.sock"), "{none:?}");
    assert_eq!(served.terminate(), Some(0));
}

#[test]
fn flags_give_limits_and_settings_that_check_shows_as_a_file() {
    let flags = [
        "--export",
        "a=memory:1MiB,weight=300",
        "--group",
        "a,read_bps_max=50MiB,io.latency=target=5000",
        "--device",
        "threads=2,cache=page",
        "--drain-timeout-s",
        "5",
        "--nbd",
        "unix:/run/x.sock,mode=0666,max_connections=8",
    ];
    let shown = run_command(hoistway().args(["serve", "--check"]).args(flags));
    let shown = String::from_utf8(shown.stdout).unwrap();
    for line in [
        "drain_timeout_s = 5",
        "threads = 2",
        "cache = \"page\"",
        "weight = 300",
        "\"rbps=52428800 wbps=max riops=max wiops=max\"",
        "\"target=5000\"",
        "mode = \"0666\"",
        "max_connections = 8",
    ] {
        assert!(shown.contains(line), "{line} is not in\n{shown}");
    }
    let served =
        Served::flags(directory(), &["--export", "a=memory:1MiB,weight=300", "--group", "a,read_bps_max=50MiB"]);
    let groups = served.status()["groups"].clone();
    assert_eq!(groups[0]["weight"], 300, "{groups}");
    let help = succeed(env!("CARGO_BIN_EXE_hoistway"), &["serve", "--help"]);
    assert!(help.contains("--group <PATH[,OPTION...]>"), "{help}");
}

#[test]
fn t59_reload_applies_weights_and_refuses_backings() {
    let directory = directory();
    sparse_file(&directory.path().join("a.img"), MIB);
    let text = "[[device]]\nname = \"d\"\nmemory = \"64MiB\"\n[[device.export]]\nname = \"a\"\nbacking = \"@/a.img\"\ngroup = \"g\"\n\
                [[group]]\npath = \"g\"\nweight = 300\n[[listen]]\nunix = \"@/nbd.sock\"\n[control]\nunix = \"@/control.sock\"\n";
    let served = Served::configured(directory, text);
    let write = |text: &str| {
        let text = text.replace('@', &served.directory.path().display().to_string());
        fs::write(served.path("serve.toml"), text).unwrap();
    };
    let weight =
        || served.status()["groups"].as_array().unwrap().iter().find(|it| it["path"] == "g").unwrap()["weight"].clone();
    assert_eq!(weight(), 300);

    write(&text.replace("300", "50"));
    assert_eq!(served.ctl(&["reload"]), ("{\"ok\":{\"changes\":1}}\n".to_owned(), Some(0)));
    assert_eq!(weight(), 50);

    write(&text.replace("300", "70").replace("a.img", "b.img"));
    let (said, code) = served.ctl(&["reload"]);
    assert_eq!(code, Some(2));
    assert!(said.contains("backing of export a is different"), "{said}");
    assert_eq!(weight(), 50, "nothing else was applied");

    write("[[device");
    let (said, code) = served.ctl(&["reload"]);
    assert_eq!(code, Some(2));
    assert!(said.contains("serve.toml:1:"), "{said}");

    // Any kind of file may replace the configuration file: the server must neither block when it
    // reads the file nor read without end.
    let replace = |make: &dyn Fn(&std::path::Path)| {
        fs::remove_file(served.path("serve.toml")).unwrap();
        make(&served.path("serve.toml"));
        let (said, code) = served.ctl(&["reload"]);
        assert_eq!(code, Some(2), "{said}");
        said
    };
    let said = replace(&|path| symlink("/dev/zero", path).unwrap());
    assert!(said.contains("it is not a regular file"), "{said}");
    let said = replace(&|path| assert!(Command::new("mkfifo").arg(path).status().unwrap().success()));
    assert!(said.contains("it is not a regular file"), "{said}");
    let said = replace(&|path| fs::File::create(path).unwrap().set_len(1 << 20).unwrap());
    assert!(said.contains("byte 0 is zero"), "{said}");
    // The server refuses a file that is too long before it reads any of it.
    let said = replace(&|path| fs::File::create(path).unwrap().set_len(1 << 30).unwrap());
    assert!(said.contains("1073741824 bytes long, and a configuration has at most 4 MiB"), "{said}");
    Client::open(&served.path("nbd.sock"), "a", ReplyForm::Simple).assert_alive();

    let another = "[[device.export]]\nname = \"m\"\nbacking = \"memory:1MiB\"\n[[group]]";
    write(&text.replace("[[group]]", another));
    served.signal("HUP");
    await_that("an export that a reload added can be opened", || {
        let mut client = Client::connect(&served.path("nbd.sock"), 3);
        client.last(hoistway_export::nbd::wire::option::GO, &client::go_data("m"))
            == hoistway_export::nbd::wire::reply::ACK
    });
    assert_eq!(weight(), 300);
}

#[test]
fn limits_hold_by_file_by_reload_and_by_ctl() {
    let text = "[[device]]\nname = \"d\"\nmemory = \"64MiB\"\n[[device.export]]\nname = \"a\"\nbacking = \"memory:16MiB\"\ngroup = \"g\"\n\
                [[group]]\npath = \"g\"\nread_bps_max = 8000000\n[[listen]]\nunix = \"@/nbd.sock\"\n[control]\nunix = \"@/control.sock\"\n";
    let served = Served::configured(directory(), text);
    let write = |text: &str| {
        let text = text.replace('@', &served.directory.path().display().to_string());
        fs::write(served.path("serve.toml"), text).unwrap();
    };
    let mut client = Client::open(&served.path("nbd.sock"), "a", ReplyForm::Simple);
    // What 100 ms allow, the burst, and one read more may be transferred at once; the rest of the 4 MiB
    // takes (4.19 - 0.8 - 0.07) / 8 s = 0.416 s at 8 MB/s.
    let mut read_all = || {
        let began = std::time::Instant::now();
        (0..64).for_each(|at| assert_eq!(client.read(at * 65_536, 65_536).data().len(), 65_536));
        began.elapsed().as_secs_f64()
    };
    let io_max = || {
        let status = served.status();
        let group = status["groups"].as_array().unwrap().iter().find(|it| it["path"] == "g").unwrap().clone();
        group["io.max"].as_str().map(str::to_owned)
    };
    let seconds = read_all();
    assert!(seconds > 0.41, "{seconds} s");
    assert_eq!(io_max().as_deref(), Some("rbps=8000000 wbps=max riops=max wiops=max"));

    write(&text.replace("read_bps_max = 8000000", "io.max = \"rbps=16000000 wiops=1000\""));
    assert_eq!(served.ctl(&["reload"]), ("{\"ok\":{\"changes\":1}}\n".to_owned(), Some(0)));
    assert_eq!(io_max().as_deref(), Some("rbps=16000000 wbps=max riops=max wiops=1000"));
    let seconds = read_all();
    // (4.19 - 1.6 - 0.07) / 16 s.
    assert!(seconds > 0.15, "{seconds} s");

    let (said, code) = served.ctl(&["limit", "g", "io.max", "rbps=4000000"]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(io_max().as_deref(), Some("rbps=4000000 wbps=max riops=max wiops=1000"));
    let seconds = read_all();
    // (4.19 - 0.4 - 0.07) / 4 s.
    assert!(seconds > 0.92, "{seconds} s");

    // Changes are all or nothing, and each mistake is named.
    for (arguments, part) in [
        (["g", "io.max", "wbps=5000 rbps=1x"], "rbps"),
        (["g", "io.max", "rbps=-1"], "EINVAL"),
        (["g", "io.max", "rbps=0"], "ERANGE"),
        (["g", "io.max", "bps=5000"], "io.max has no 'bps'"),
        (["g", "io.high", "rbps=5000"], "no file of limits 'io.high'"),
        (["h", "io.max", "rbps=5000"], "there is no group"),
    ] {
        let (said, code) = served.ctl(&[&["limit"], &arguments[..]].concat());
        assert!(code == Some(2) && said.contains(part), "{arguments:?}: {said}");
    }
    assert_eq!(io_max().as_deref(), Some("rbps=4000000 wbps=max riops=max wiops=1000"));
    let (said, code) = served.ctl(&["limit", "g", "io.max", "rbps=max wiops=max"]);
    assert_eq!((code, io_max()), (Some(0), None), "{said}");

    // A latency target is one of the limits; it does not change the others.
    let group = || served.status()["groups"].as_array().unwrap().iter().find(|it| it["path"] == "g").unwrap().clone();
    let (said, code) = served.ctl(&["limit", "g", "io.latency", "target=500"]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!((&group()["io.latency"], &group()["io.max"]), (&"target=500".into(), &serde_json::Value::Null));
    assert_eq!(served.status()["devices"][0]["limiters"].as_array().unwrap().last(), Some(&"io.latency".into()));
    let (said, code) = served.ctl(&["limit", "g", "io.latency", "target=5ms"]);
    assert!(code == Some(2) && said.contains("EINVAL"), "{said}");
    write(&text.replace("read_bps_max = 8000000", "latency_target_us = 700"));
    assert_eq!(served.ctl(&["reload"]).1, Some(0));
    assert_eq!(group()["io.latency"], "target=700");
    let (said, code) = served.ctl(&["limit", "g", "io.latency", "target=max"]);
    assert_eq!((code, &group()["io.latency"]), (Some(0), &serde_json::Value::Null), "{said}");
}

#[test]
fn cfqs_files_of_a_group_are_written_by_ctl_and_shown_in_the_status() {
    let exports = ["--export", "a=memory:1MiB,group=g", "--export", "b=memory:1MiB,group=h", "--sched", "cfq"];
    let served = Served::flags(directory(), &exports);
    let mut client = Client::open(&served.path("nbd.sock"), "a", ReplyForm::Simple);
    for block in 0..32 {
        assert_eq!(client.read(block * 4_096, 4_096).data().len(), 4_096);
    }
    let group = || served.status()["groups"].as_array().unwrap().iter().find(|it| it["path"] == "g").unwrap().clone();
    let blkio = group()["blkio"].clone();
    assert_eq!((&blkio["sectors"], &blkio["io_service_bytes"]["read"]), (&256.into(), &131_072.into()), "{blkio}");

    let device = served.status()["devices"][0]["name"].as_str().unwrap().to_owned();
    for (file, line, weight) in [
        ("blkio.weight", "300".to_owned(), 300),
        ("blkio.weight_device", format!("{device} 700"), 700),
        ("blkio.weight_device", format!("{device} 0"), 300),
    ] {
        let (said, code) = served.ctl(&["limit", "g", file, &line]);
        assert_eq!((code, &group()["weight"]), (Some(0), &weight.into()), "{file} {line}: {said}");
    }
    for (file, line, expected) in [
        ("blkio.weight", "9", "ERANGE"),
        ("blkio.weight_device", "nowhere 300", "ENODEV"),
        ("blkio.weight_device", "300", "EINVAL"),
        ("blkio.reset_stats", "now", "EINVAL"),
        (
            "blkio.time",
            "1",
            "there are blkio.weight, blkio.leaf_weight, blkio.weight_device, blkio.leaf_weight_device, blkio.reset_stats",
        ),
    ] {
        let (said, code) = served.ctl(&["limit", "g", file, line]);
        assert!(code == Some(2) && said.contains(expected), "{file} {line}: {said}");
        assert_eq!(group()["weight"], 300, "{file} {line}");
    }
    let (said, code) = served.ctl(&["limit", "g", "blkio.reset_stats", "1"]);
    assert_eq!((code, &group()["blkio"]["sectors"]), (Some(0), &0.into()), "{said}");
}

#[test]
fn ctl_changes_weights_schedulers_and_tunables_under_load() {
    let served = Served::flags(directory(), &["--export", "a=memory:16MiB,weight=200", "--scheduler", "mq-deadline"]);
    let stop = AtomicU64::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut client = Client::open(&served.path("nbd.sock"), "a", ReplyForm::Structured);
            let mut round = 0_u64;
            while stop.load(Ordering::Relaxed) == 0 {
                let data = served::pattern(4_096 + usize::try_from(round % 8).unwrap() * 512);
                assert_eq!(client.write(0, (round % 64) * 65_536, &data).error, 0);
                assert_eq!(client.read((round % 64) * 65_536, data.len() as u64).data(), data);
                round += 1;
            }
        });
        for scheduler in ["wfq", "noop", "mq-deadline:read_expire=250", "none", "wfq"] {
            let (said, code) = served.ctl(&["scheduler", scheduler]);
            assert_eq!(code, Some(0), "{scheduler}: {said}");
        }
        for share in [["group", "a", "900"], ["priority", "a", "7"], ["leaf-weight", "a", "300"]] {
            let (said, code) = served.ctl(&[&["set"][..], &share[..]].concat());
            assert_eq!(code, Some(0), "{share:?}: {said}");
        }
        stop.store(1, Ordering::Relaxed);
    });
    let status = served.status();
    let group = status["groups"].as_array().unwrap().iter().find(|it| it["path"] == "a").unwrap().clone();
    assert_eq!((&group["weight"], &group["priority"], &group["leaf_weight"]), (&json!(900), &json!(7), &json!(300)));
    assert_eq!(status["devices"][0]["scheduler"], "wfq", "{status}");
    let (said, code) = served.ctl(&["set", "group", "missing", "900"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("missing"), "{said}");
    let group_now = || {
        let status = served.status();
        status["groups"].as_array().unwrap().iter().find(|it| it["path"] == "a").unwrap().clone()
    };
    for (words, code, expected) in [
        (&["set", "priority", "a", "8"][..], 2, "not a whole number from 0 to 7"),
        (&["set", "priority", "a", "default"], 0, "priority"),
        (&["limit", "a", "blkio.leaf_weight", "9"], 2, "ERANGE"),
        (&["limit", "a", "blkio.leaf_weight_device", "default 750"], 0, "\"leaf_weight\":750"),
        (&["limit", "a", "blkio.weights", "750"], 2, "blkio.leaf_weight_device"),
    ] {
        let (said, got) = served.ctl(words);
        assert!(got == Some(code) && said.contains(expected), "{words:?}: {said}");
    }
    assert_eq!((&group_now()["priority"], &group_now()["leaf_weight"]), (&json!(null), &json!(750)));
    let (said, _) = served.ctl(&["limit", "a", "blkio.leaf_weight_device", "default 0"]);
    assert_eq!(group_now()["leaf_weight"], 300, "the group's own setting: {said}");
    let (said, code) = served.ctl(&["scheduler", "wqf"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("wfq"), "{said}");
}

#[test]
fn ctl_evicts_by_export_and_drains() {
    let mut served = Served::flags(directory(), &["--export", "a=memory:1MiB", "--export", "b=memory:1MiB"]);
    let mut evicted = Client::open(&served.path("nbd.sock"), "a", ReplyForm::Simple);
    let mut stays = Client::open(&served.path("nbd.sock"), "b", ReplyForm::Simple);
    evicted.assert_alive();
    assert_eq!(served.ctl(&["evict", "--export", "a"]), ("{\"ok\":{\"closed\":1}}\n".to_owned(), Some(0)));
    evicted.assert_closed();
    stays.assert_alive();
    assert_eq!(served.ctl(&["evict", "pid:1"]).1, Some(2), "no client has this name");
    assert_eq!(served.ctl(&["drain"]).1, Some(0));
    assert_eq!(wait_for_exit(&mut served.child).code(), Some(0));
}

#[test]
fn ctl_without_a_server_names_the_socket() {
    let output: Output = run_command(hoistway().args(["ctl", "--control", "/nonexistent/control.sock", "status"]));
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(said.contains("/nonexistent/control.sock") && said.contains("help:"), "{said}");
}
