//! Real clients against the real server: nbdinfo, nbdcopy, qemu-img, qemu-io, fio. Source:
//! docs/specifications/engine.md, sections 6.1 and 10, cases 1, 10, 11, 19 and 21. If a client is
//! not installed, its test is skipped with a message.

mod served;

use std::fs;
use std::process::Command;

use served::{Served, directory, pattern, requires, run, run_command, sparse_file, succeed};

const MIB: u64 = 1 << 20;

#[test]
fn nbdinfo_lists_every_visible_export() {
    if !requires("nbdinfo --list", &["nbdinfo"]) {
        return;
    }
    let served = Served::flags(directory(), &["--export", "a=memory:8MiB", "--export", "b=memory:16MiB,read_only"]);
    let uri = format!("nbd+unix:///?socket={}", served.path("nbd.sock").display());
    let listed = succeed("nbdinfo", &["--list", "--json", &uri]);
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let sizes: Vec<_> = listed["exports"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| (it["export-name"].as_str().unwrap(), it["export-size"].as_u64().unwrap()))
        .collect();
    assert_eq!(sizes, [("a", 8 * MIB), ("b", 16 * MIB)]);
}

#[test]
fn n1_an_export_hidden_from_the_user_is_not_listed() {
    if !requires("nbdinfo --list, hidden", &["nbdinfo"]) {
        return;
    }
    let uid = succeed("id", &["-u"]);
    let text = format!(
        "[[device]]\nname = \"d\"\nmemory = \"64MiB\"\n[[device.export]]\nname = \"a\"\nbacking = \"memory:1MiB\"\n\
         [[device.export]]\nname = \"b\"\nbacking = \"memory:1MiB\"\n[[listen]]\nunix = \"@/nbd.sock\"\n\
         [[identity]]\nuid = {}\ngroup = \"tenants/u\"\nexports = [\"a\"]\n",
        uid.trim()
    );
    let served = Served::configured(directory(), &text);
    let uri = format!("nbd+unix:///?socket={}", served.path("nbd.sock").display());
    let listed = succeed("nbdinfo", &["--list", &uri]);
    assert!(listed.contains("export=\"a\"") && !listed.contains("export=\"b\""), "{listed}");
    assert!(!run("nbdinfo", &["--size", &served.uri("b")]).status.success());
}

#[test]
fn nbdinfo_sees_what_the_export_can_do() {
    if !requires("nbdinfo --can", &["nbdinfo"]) {
        return;
    }
    let directory = directory();
    sparse_file(&directory.path().join("x.img"), 64 * MIB);
    let served = Served::flags(directory, &["--export", "x=@/x.img", "--export", "r=@/x.img,read_only"]);
    assert_eq!(succeed("nbdinfo", &["--size", &served.uri("x")]).trim(), (64 * MIB).to_string());
    for ability in ["write", "flush", "fua", "multi-conn", "zero", "fast-zero", "trim", "df", "structured-reply"] {
        let output = run("nbdinfo", &["--can", ability, &served.uri("x")]);
        assert_eq!(output.status.code(), Some(0), "--can {ability}");
    }
    assert_eq!(run("nbdinfo", &["--can", "write", &served.uri("r")]).status.code(), Some(2));
    assert_eq!(run("nbdinfo", &["--is", "read-only", &served.uri("r")]).status.code(), Some(0));
    assert_eq!(run("nbdinfo", &["--is", "rotational", &served.uri("x")]).status.code(), Some(2));
    let shown = succeed("nbdinfo", &[&served.uri("x")]);
    assert!(shown.contains("structured packets") && shown.contains("base:allocation"), "{shown}");
}

#[test]
fn t21_nbdinfo_maps_holes_and_data() {
    if !requires("nbdinfo --map", &["nbdinfo", "qemu-io"]) {
        return;
    }
    let served = Served::file(64 * MIB);
    succeed("qemu-io", &["-f", "raw", "-c", "write -P 0xab 1M 64k", &served.uri("x")]);
    let map = succeed("nbdinfo", &["--map", "--json", &served.uri("x")]);
    let map: serde_json::Value = serde_json::from_str(&map).unwrap();
    let extents: Vec<_> = map
        .as_array()
        .unwrap()
        .iter()
        .map(|it| (it["offset"].as_u64().unwrap(), it["length"].as_u64().unwrap(), it["type"].as_u64().unwrap()))
        .collect();
    assert_eq!(extents, [(0, MIB, 3), (MIB, 64 << 10, 0), (MIB + (64 << 10), 63 * MIB - (64 << 10), 3)]);
}

#[test]
fn t11_nbdcopy_there_and_back_is_identical() {
    if !requires("nbdcopy", &["nbdcopy", "qemu-img"]) {
        return;
    }
    let served = Served::file(64 * MIB);
    let (source, copy) = (served.path("source.img"), served.path("copy.img"));
    let mut data = pattern(64 << 20);
    data[8 << 20..24 << 20].fill(0);
    fs::write(&source, &data).unwrap();
    let (source, copy) = (source.to_str().unwrap(), copy.to_str().unwrap());
    succeed("nbdcopy", &["--connections=4", "--requests=64", "--flush", source, &served.uri("x")]);
    assert!(fs::read(served.path("x.img")).unwrap() == data, "the backing differs from what was copied up");
    succeed("nbdcopy", &["--connections=4", &served.uri("x"), copy]);
    assert!(fs::read(copy).unwrap() == data, "what came down differs");
    let down = run_command(Command::new("nbdcopy").args(["--synchronous", &served.uri("x"), "-"]));
    assert!(down.stdout == data, "what came down one request at a time differs");
    succeed("qemu-img", &["compare", "-f", "raw", "-F", "raw", &served.uri("x"), source]);
}

#[test]
fn qemu_io_reads_back_what_it_wrote_zeroed_and_discarded() {
    if !requires("qemu-io", &["qemu-io", "qemu-img"]) {
        return;
    }
    let served = Served::file(64 * MIB);
    let commands = [
        "write -P 0xab 1M 64k",
        "read -P 0xab 1M 64k",
        "write -P 0xee 2M 1M",
        "write -z -u 2M 1M",
        "read -P 0 2M 1M",
        "discard 4M 1M",
        "write -f -P 0xcd 12345 777",
        "read -P 0xcd 12345 777",
        "read -P 0 12288 57",
        "aio_write -P 1 8M 4k",
        "aio_flush",
        "flush",
    ];
    let mut arguments = vec!["-f", "raw"];
    commands.iter().for_each(|command| arguments.extend(["-c", command]));
    let uri = served.uri("x");
    arguments.push(&uri);
    let output = succeed("qemu-io", &arguments);
    assert!(!output.contains("failed") && !output.contains("error"), "{output}");
    let info = succeed("qemu-img", &["info", &uri]);
    assert!(info.contains("64 MiB"), "{info}");
    let map = succeed("qemu-img", &["map", "--output=json", "-f", "raw", &uri]);
    assert!(map.contains("\"start\": 0"), "{map}");
}

#[test]
fn qemu_img_bench_completes_both_ways() {
    if !requires("qemu-img bench", &["qemu-img"]) {
        return;
    }
    let served = Served::file(64 * MIB);
    let uri = served.uri("x");
    succeed("qemu-img", &["bench", "-f", "raw", "-t", "none", "-c", "2000", "-d", "16", "-s", "4096", &uri]);
    let write = ["bench", "-f", "raw", "-w", "-t", "none", "-c", "2000", "-d", "16", "-s", "4096"];
    succeed("qemu-img", &[&write[..], &["--flush-interval=64", &uri]].concat());
}

/// fio writes blocks of random sizes with checksums, 16 in flight, and reads them back.
fn fio_verify(served: &Served, export: &str, size: &str) {
    let uri = format!("--uri={}", served.uri(export));
    let size = format!("--size={size}");
    let output = succeed(
        "fio",
        &[
            "--name=v",
            "--ioengine=nbd",
            &uri,
            "--rw=randwrite",
            "--bsrange=512-256k",
            &size,
            "--iodepth=16",
            "--verify=crc32c",
            "--verify_fatal=1",
            "--randseed=42",
            "--output-format=json",
        ],
    );
    let result: serde_json::Value = serde_json::from_str(&output[output.find('{').unwrap()..]).unwrap();
    let job = &result["jobs"][0];
    assert_eq!(job["error"], 0, "{job}");
    assert!(job["read"]["total_ios"].as_u64().unwrap() > 0, "nothing was read back to be verified");
}

#[test]
fn t10_fio_verifies_on_memory() {
    if !requires("fio verify on tmpfs", &["fio"]) {
        return;
    }
    let served = Served::file(64 * MIB);
    fio_verify(&served, "x", "64m");
    assert_eq!(served.terminate(), Some(0));
}

#[test]
fn t10_fio_verifies_on_a_disk() {
    if !requires("fio verify on a disk", &["fio"]) {
        return;
    }
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    sparse_file(&directory.path().join("x.img"), 64 * MIB);
    let served = Served::flags(directory, &["--export", "x=@/x.img"]);
    fio_verify(&served, "x", "64m");
    assert_eq!(served.terminate(), Some(0));
}

#[test]
fn t10_fio_verifies_under_every_scheduler_while_two_tenants_work() {
    if !requires("fio verify, schedulers", &["fio"]) {
        return;
    }
    for scheduler in ["none", "noop", "mq-deadline", "wfq"] {
        let directory = directory();
        sparse_file(&directory.path().join("a.img"), 32 * MIB);
        sparse_file(&directory.path().join("b.img"), 32 * MIB);
        let exports =
            ["--scheduler", scheduler, "--export", "a=@/a.img,weight=100", "--export", "b=@/b.img,weight=800"];
        let served = Served::flags(directory, &exports);
        std::thread::scope(|scope| {
            scope.spawn(|| fio_verify(&served, "a", "32m"));
            scope.spawn(|| fio_verify(&served, "b", "32m"));
        });
    }
}
