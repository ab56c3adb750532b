//! Overlays by the real program: the commands of `hoistway image`, the keys of `serve`, other people's clients, and
//! `kill -9` in the middle of verified writes. Source: docs/specifications/engine.md, section 11.

#[path = "../../export/tests/client/mod.rs"]
mod client;
mod served;

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use client::Client;
use hoistway_export::nbd::handshake::ReplyForm;
use hoistway_export::nbd::wire::command;
use served::{Served, await_that, directory, hoistway, pattern, requires, run_command, succeed, wait_for_exit};
use tempfile::TempDir;

const MIB: u64 = 1 << 20;

/// A base of this size and an overlay of it.
struct Image {
    directory: TempDir,
    bytes: Vec<u8>,
}

impl Image {
    fn new(directory: TempDir, size: u64) -> Self {
        let bytes = pattern(usize::try_from(size).unwrap());
        fs::write(directory.path().join("base.img"), &bytes).unwrap();
        let image = Self { directory, bytes };
        image.create("a.ov");
        image
    }

    /// On the disk that holds the build, where direct I/O is possible.
    fn on_disk(size: u64) -> Self {
        Self::new(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap(), size)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn create(&self, name: &str) {
        let (code, _, err) = image(&["create", "--base", text(&self.path("base.img")), text(&self.path(name))]);
        assert_eq!((code, err.as_str()), (Some(0), ""));
    }

    /// The flag that serves an overlay as `x`.
    fn export(&self, name: &str) -> String {
        format!("x=base={},overlay={}", text(&self.path("base.img")), text(&self.path(name)))
    }

    fn serve(&self) -> Served {
        Served::flags(directory(), &["--export", &self.export("a.ov")])
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Runs `hoistway image`; returns its exit code, its output and its errors.
fn image(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = run_command(hoistway().arg("image").args(arguments));
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn the_commands_make_describe_check_and_commit_an_overlay() {
    let made = Image::new(directory(), 3 * MIB);
    let (base, overlay) = (made.path("base.img"), made.path("a.ov"));
    let served = made.serve();
    let mut client = Client::open(&served.path("nbd.sock"), "x", ReplyForm::Simple);
    client.write(0, 70_000, &[7; 100_000]);
    let (code, _, err) = image(&["check", text(&overlay)]);
    assert_eq!(code, Some(3), "{err}");
    assert!(err.contains("a.ov is already open for writing"), "{err}");
    assert_eq!(served.terminate(), Some(0));

    let (code, out, err) = image(&["check", "--json", text(&overlay)]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    let said: serde_json::Value = serde_json::from_str(&out).unwrap();
    let canonical = fs::canonicalize(&base).unwrap();
    assert_eq!(
        (&said["size_bytes"], &said["own_blocks"], &said["base_blocks"], &said["base"]),
        (&(3 * MIB).into(), &2.into(), &48.into(), &canonical.to_str().unwrap().into())
    );
    let (_, out, _) = image(&["info", text(&overlay)]);
    assert!(out.contains("own        131072 bytes in 2 of the base's 48 blocks of 64KiB"), "{out}");

    let (code, out, err) = image(&["commit", text(&overlay)]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert!(out.contains("128KiB written") && out.contains("is an empty overlay now"), "{out}");
    let mut expected = made.bytes.clone();
    expected[70_000..170_000].fill(7);
    assert!(fs::read(&base).unwrap() == expected);
    let (code, out, _) = image(&["info", "--json", text(&overlay)]);
    let said: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &said["own_blocks"]), (Some(0), &0.into()));

    let (code, _, err) = image(&["create", "--base", text(&base), text(&overlay)]);
    assert_eq!(code, Some(2));
    assert!(err.contains("a.ov") && err.contains("help: choose another name"), "{err}");
    let (code, _, err) = image(&["info", text(&base)]);
    assert_eq!(code, Some(2));
    assert!(err.contains("base.img: it is no overlay") && err.contains("hoistway image create"), "{err}");
}

#[test]
fn flags_and_file_name_base_and_overlay_by_the_same_keys() {
    let made = Image::new(directory(), MIB);
    let (base, overlay) = (made.path("base.img"), made.path("a.ov"));
    let file = |lines: &str| {
        format!(
            "[[device]]\nname = \"d\"\nmemory = \"64MiB\"\n[[device.export]]\nname = \"x\"\n{lines}\n[[listen]]\nunix = \"@/nbd.sock\"\n"
        )
    };
    let keys = format!("base = \"{}\"\noverlay = \"{}\"", base.display(), overlay.display());
    let served = Served::configured(directory(), &file(&keys));
    let mut client = Client::open(&served.path("nbd.sock"), "x", ReplyForm::Simple);
    assert!(client.read(100, 5_000).data() == made.bytes[100..5_100]);
    assert_eq!(served.terminate(), Some(0));

    let check = |export: &str| {
        let output = run_command(hoistway().args(["serve", "--check", "--nbd", "unix:/x", "--export", export]));
        (output.status.code(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
    };
    let (code, said) = check(&format!("{},weight=300", made.export("a.ov")));
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains(&format!("backing = \"base={},overlay={}\"", base.display(), overlay.display())), "{said}");
    for (export, words) in [
        ("x=base=/a", "overlay=PATH is missing"),
        ("x=overlay=/a,read_only", "base=PATH is missing"),
        ("x=base=/a,overlay=/a", "one file"),
        ("x=base=/a,overlay=/b,backing=/c", "together with base or overlay"),
        ("x=/a,overlay=/b", "together with base or overlay"),
    ] {
        let (code, said) = check(export);
        assert!(code == Some(2) && said.contains(words), "{export}: {said}");
    }
    let served = made.serve();
    let refused = run_command(hoistway().args(["serve", "--nbd", "unix:/tmp/none", "--export", &made.export("a.ov")]));
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(said.contains("a.ov is already open for writing") && said.contains("stop the other server"), "{said}");
    drop(served);
}

#[test]
fn other_peoples_clients_read_the_base_through_an_overlay_and_write_to_it() {
    if !requires("clients on an overlay", &["nbdcopy", "nbdinfo", "qemu-io", "qemu-img"]) {
        return;
    }
    let made = Image::on_disk(32 * MIB);
    let served = made.serve();
    let (uri, copy) = (served.uri("x"), made.path("copy.img"));
    succeed("nbdcopy", &[&uri, text(&copy)]);
    assert!(fs::read(&copy).unwrap() == made.bytes, "untouched");
    let qemu_io = |commands: &[&str]| {
        let mut arguments = vec!["-f", "raw"];
        commands.iter().for_each(|command| arguments.extend(["-c", command]));
        arguments.push(&uri);
        let out = succeed("qemu-io", &arguments);
        assert!(!out.contains("failed"), "{out}");
    };
    qemu_io(&["write -P 0x21 70000 300000", "write -z 1M 500k", "discard 4M 1M", "flush"]);
    qemu_io(&["read -P 0x21 70000 300000", "read -P 0 1M 500k", "read -P 0 4M 1M"]);
    let mut expected = made.bytes.clone();
    expected[70_000..370_000].fill(0x21);
    expected[1 << 20..(1 << 20) + 500 * 1_024].fill(0);
    expected[4 << 20..5 << 20].fill(0);
    let plain = made.path("expected.img");
    fs::write(&plain, &expected).unwrap();
    succeed("qemu-img", &["compare", "-f", "raw", "-F", "raw", text(&plain), &uri]);
    let map = succeed("nbdinfo", &["--map", "--json", &uri]);
    let map: serde_json::Value = serde_json::from_str(&map).unwrap();
    let holes: Vec<(u64, u64)> = map
        .as_array()
        .unwrap()
        .iter()
        .filter(|extent| extent["type"] == 3)
        .map(|extent| (extent["offset"].as_u64().unwrap(), extent["length"].as_u64().unwrap()))
        .collect();
    assert!(holes.contains(&(4 * MIB, MIB)), "{map}");
    // And back: all of a disk is written by another program's pattern of requests.
    succeed("nbdcopy", &["--flush", text(&plain), &uri]);
    fs::remove_file(&copy).unwrap();
    succeed("nbdcopy", &[&uri, text(&copy)]);
    assert!(fs::read(&copy).unwrap() == expected);
    assert_eq!(served.terminate(), Some(0));
    assert!(fs::read(made.path("base.img")).unwrap() == made.bytes, "the base was written");
}

#[test]
fn every_acknowledged_record_on_an_overlay_survives_the_servers_sudden_death() {
    const RECORD: usize = 4_096;
    const LANES: usize = 4;
    /// Records of a lane: 2 MiB, at 16 MiB each, so that blocks are copied and then shared.
    const RECORDS: u64 = 512;
    let lane_bytes = 16 << 20;
    let made = Image::on_disk(LANES as u64 * 16 * MIB);
    for round in 0..50_u64 {
        let name = format!("{round}.ov");
        made.create(&name);
        let mut served = Served::flags(directory(), &["--export", &made.export(&name)]);
        let socket = served.path("nbd.sock");
        let acknowledged: Vec<AtomicU64> = (0..LANES).map(|_| AtomicU64::new(0)).collect();
        // Every seventh record of a lane, between two sectors of a page, so that each block is copied before most of it is written.
        let place = |lane: usize, sequence: u64| {
            lane * lane_bytes + usize::try_from(sequence * 7 % RECORDS).unwrap() * RECORD + 512
        };
        std::thread::scope(|scope| {
            for (lane, acknowledged) in acknowledged.iter().enumerate() {
                let socket = &socket;
                scope.spawn(move || {
                    let mut client = Client::open(socket, "x", ReplyForm::Simple);
                    for sequence in 1.. {
                        let at = place(lane, sequence) as u64;
                        let mut bytes = client.request(0, command::WRITE, sequence, at, RECORD as u64);
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
            let enough = 5 + round * 4;
            await_that("records are acknowledged", || {
                acknowledged.iter().all(|it| it.load(Ordering::Acquire) > enough)
            });
            served.child.kill().unwrap();
        });
        wait_for_exit(&mut served.child);

        // Another server finds them, and the base's bytes in between.
        let served = Served::flags(directory(), &["--export", &made.export(&name)]);
        let mut client = Client::open(&served.path("nbd.sock"), "x", ReplyForm::Simple);
        for (lane, acknowledged) in acknowledged.iter().enumerate() {
            let last = acknowledged.load(Ordering::Acquire);
            let start = lane * lane_bytes;
            let found = client.read(start as u64, 3 << 20).data();
            let mut expected = made.bytes[start..start + (3 << 20)].to_vec();
            for sequence in 1..=last + 1 {
                let bytes = record(lane as u64, sequence, RECORD);
                for (number, sector) in bytes.chunks(512).enumerate() {
                    let at = place(lane, sequence) - start + number * 512;
                    // Any sector of the one behind the last may have been written without being acknowledged.
                    if sequence <= last || found[at..at + 512] == *sector {
                        expected[at..at + 512].copy_from_slice(sector);
                    }
                }
            }
            let odd = found.iter().zip(&expected).position(|(got, want)| got != want);
            assert_eq!(odd, None, "round {round}, lane {lane}, {last} acknowledged");
        }
        drop(served);
        fs::remove_file(made.path(&name)).unwrap();
    }
    assert!(fs::read(made.path("base.img")).unwrap() == made.bytes, "the base was written");
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
