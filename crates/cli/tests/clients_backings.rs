//! Real clients (nbdinfo, nbdcopy, qemu-img, fio's nbd engine, Python's libnbd) against every kind of
//! backing: files, whole and odd sizes, memory, nothing, a device model, and a block device without
//! offloads. What is not installed is skipped with a message.

mod served;

use std::fs;
use std::path::Path;
use std::process::Command;

use served::{Served, await_that, directory, pattern, requires, run, run_command, sparse_file, succeed};
use tempfile::TempDir;

const MIB: u64 = 1 << 20;
/// No multiple of any block.
const ODD: u64 = 1_000_001;

/// A backing, the size that clients must see, and whether it keeps what is written.
struct Case {
    name: &'static str,
    backing: String,
    size_bytes: u64,
    keeps: bool,
}

/// The backings; `@/` is a directory on tmpfs, `disk` one on a disk.
fn cases(disk: &Path) -> Vec<Case> {
    let case = |name, backing: &str, size_bytes| Case { name, backing: backing.to_owned(), size_bytes, keeps: true };
    let on_disk = |file: &str| disk.join(file).display().to_string();
    vec![
        case("file", "@/whole.img", 8 * MIB),
        case("odd", "@/odd.img", ODD),
        case("direct", &on_disk("whole.img"), 8 * MIB),
        case("cached", &on_disk("odd.img"), ODD),
        case("memory", "memory:8MiB", 8 * MIB),
        case("odd-memory", "memory:1000001", ODD),
        Case { keeps: false, ..case("null", "null:8MiB", 8 * MIB) },
        Case { keeps: false, ..case("odd-null", "null:1000001", ODD) },
    ]
}

/// A server of all cases, of two device models, and of `device`, if there is one.
fn serve(disk: &Path, device: Option<&str>) -> (Served, Vec<Case>) {
    let tmpfs = directory();
    for place in [tmpfs.path(), disk] {
        sparse_file(&place.join("whole.img"), 8 * MIB);
        sparse_file(&place.join("odd.img"), ODD);
    }
    let mut cases = cases(disk);
    if let Some(node) = device {
        cases.push(Case { name: "bare", backing: node.to_owned(), size_bytes: 8 * MIB, keeps: true });
    }
    let export = |case: &Case| format!("[[device.export]]\nname = \"{}\"\nbacking = \"{}\"\n", case.name, case.backing);
    let mut text = "[[device]]\nname = \"d\"\nmemory = \"64MiB\"\n".to_owned();
    text.extend(cases.iter().map(export));
    let modelled = [
        ("model", "model:null,latency_us=20,memory:8MiB", 8 * MIB),
        ("odd-model", "model:null,latency_us=20,memory:1000001", ODD),
    ];
    text.push_str("[[device]]\nname = \"m\"\nmemory = \"64MiB\"\n");
    for (name, backing, size_bytes) in modelled {
        let case = Case { name, backing: backing.to_owned(), size_bytes, keeps: true };
        text.push_str(&export(&case));
        cases.push(case);
    }
    text.push_str("[[listen]]\nunix = \"@/nbd.sock\"\n[control]\nunix = \"@/control.sock\"\n");
    (Served::configured(tmpfs, &text), cases)
}

/// A directory on the disk of the build.
fn on_disk() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// A loop device on a file of ramfs, which can neither punch holes nor zero.
struct Bare {
    node: String,
    mounted: TempDir,
}

impl Bare {
    fn new() -> Option<Self> {
        let mounted = tempfile::tempdir().unwrap();
        let mount = Command::new("mount").args(["-t", "ramfs", "ramfs"]).arg(mounted.path()).output();
        if !mount.is_ok_and(|output| output.status.success()) {
            println!("SKIPPED a block device without offloads: ramfs cannot be mounted (root only)");
            return None;
        }
        let path = mounted.path().join("disk.img");
        sparse_file(&path, 8 * MIB);
        let attached = Command::new("losetup").args(["--find", "--show"]).arg(&path).output();
        let node = attached.ok().filter(|output| output.status.success());
        let node = node.map(|output| String::from_utf8(output.stdout).unwrap().trim().to_owned());
        if node.is_none() {
            println!("SKIPPED a block device without offloads: no loop device");
            let _ = Command::new("umount").arg(mounted.path()).status();
        }
        Some(Self { node: node?, mounted })
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        // The server that used it has ended, but the kernel closes its files a moment later.
        await_that("the loop device is free", || {
            Command::new("losetup").args(["--detach", &self.node]).status().is_ok_and(|status| status.success())
        });
        let _ = Command::new("umount").arg("--lazy").arg(self.mounted.path()).status();
    }
}

/// Calls `check` for every case, with the server.
fn each(check: impl Fn(&Served, &Case)) {
    let (disk, bare) = (on_disk(), Bare::new());
    let (served, cases) = serve(disk.path(), bare.as_ref().map(|bare| bare.node.as_str()));
    for case in &cases {
        check(&served, case);
    }
    let status = served.status();
    let exports = status["exports"].as_array().unwrap();
    assert!(exports.iter().all(|export| export["damaged"] == false), "{status:#}");
    assert_eq!(served.terminate(), Some(0));
}

#[test]
fn nbdinfo_shows_the_whole_size_and_maps_all_of_it() {
    if !requires("nbdinfo, backings", &["nbdinfo"]) {
        return;
    }
    each(|served, case| {
        let uri = served.uri(case.name);
        assert_eq!(succeed("nbdinfo", &["--size", &uri]).trim(), case.size_bytes.to_string(), "{}", case.name);
        let map: serde_json::Value = serde_json::from_str(&succeed("nbdinfo", &["--map", "--json", &uri])).unwrap();
        let lengths = map.as_array().unwrap().iter().map(|extent| extent["length"].as_u64().unwrap());
        assert_eq!(lengths.sum::<u64>(), case.size_bytes, "{}: {map}", case.name);
        succeed("nbdinfo", &[&uri]);
    });
}

#[test]
fn nbdcopy_and_qemu_img_lose_no_byte() {
    if !requires("nbdcopy, qemu-img, backings", &["nbdcopy", "qemu-img"]) {
        return;
    }
    each(|served, case| {
        let (source, copy) = (served.path("source.img"), served.path("copy.img"));
        let mut data = pattern(usize::try_from(case.size_bytes).unwrap());
        data[300_000..700_000].fill(0);
        fs::write(&source, &data).unwrap();
        let _ = fs::remove_file(&copy);
        let (source, copy_text, uri) = (source.to_str().unwrap(), copy.to_str().unwrap(), served.uri(case.name));
        if !case.keeps {
            data.fill(0);
        }
        succeed("nbdcopy", &["--flush", source, &uri]);
        succeed("nbdcopy", &[&uri, copy_text]);
        assert!(fs::read(&copy).unwrap() == data, "{}: nbdcopy's copy differs", case.name);
        fs::remove_file(&copy).unwrap();
        // QEMU writes whole sectors of 512 bytes, so it is told that the last does not fit.
        let converted = run("qemu-img", &["convert", "-n", "-f", "raw", "-O", "raw", source, &uri]);
        let said = String::from_utf8_lossy(&converted.stderr).into_owned();
        assert!(converted.status.success() || (case.size_bytes == ODD && said.contains("No space left")), "{said}");
        succeed("qemu-img", &["convert", "-f", "raw", "-O", "raw", &uri, copy_text]);
        let copied = fs::read(&copy).unwrap();
        // qemu-img has sectors of 512 bytes, and fills the last with zeroes.
        assert!(copied[..data.len()] == data, "{}: qemu-img's copy differs", case.name);
        assert!(copied[data.len()..].iter().all(|&byte| byte == 0) && copied.len() < data.len() + 512);
        succeed("qemu-img", &["map", "-f", "raw", "--output=json", &uri]);
    });
}

#[test]
fn fio_verifies_what_keeps_data() {
    if !requires("fio verify, backings", &["fio"]) {
        return;
    }
    each(|served, case| {
        if !case.keeps {
            return;
        }
        let (uri, size) =
            (format!("--uri={}", served.uri(case.name)), format!("--size={}", case.size_bytes / 512 * 512));
        let arguments = [
            "--name=v",
            "--ioengine=nbd",
            &uri,
            &size,
            "--rw=randwrite",
            "--bsrange=512-64k",
            "--iodepth=16",
            "--fsync=64",
            "--verify=crc32c",
            "--verify_fatal=1",
            "--randseed=7",
        ];
        succeed("fio", &arguments);
    });
}

/// What libnbd is asked through Python: requests that are refused, durable, at the end, zeroing, trims.
const SCRIPT: &str = r#"
import errno, nbd, sys
uri, keeps = sys.argv[1], sys.argv[2] == "true"
h = nbd.NBD()
h.add_meta_context("base:allocation")
h.set_strict_mode(0)
h.connect_uri(uri)
size = h.get_size()
def fails(number, call):
    try:
        call()
    except nbd.Error as error:
        assert error.errnum == number, error
        return
    raise AssertionError("it succeeded")
def reads(offset, data):
    got = h.pread(len(data), offset)
    assert got == (data if keeps else bytes(len(data))), (offset, got[:16])
# A refused write is answered when all of it has been sent, and the connection lives.
fails(errno.EINVAL, lambda: h.pwrite(bytearray(33 << 20), 0))
fails(errno.ENOSPC, lambda: h.pwrite(bytearray(b"x" * (1 << 20)), size - 512))
fails(errno.EINVAL, lambda: h.pread(4096, size - 1))
h.pwrite(b"Z" * 70000, 4097, nbd.CMD_FLAG_FUA)
reads(4097, b"Z" * 70000)
h.zero(10000, 5000, nbd.CMD_FLAG_FUA)
reads(5000, bytes(10000))
h.zero(3, 20001, nbd.CMD_FLAG_NO_HOLE)
reads(20000, b"Z\0\0\0Z")
try:
    h.zero(8192, 32768, nbd.CMD_FLAG_FAST_ZERO)
    reads(32768, bytes(8192))
except nbd.Error as error:
    assert error.errnum == errno.ENOTSUP, error
if h.can_trim():
    h.trim(16384, 40960, nbd.CMD_FLAG_FUA)
h.pwrite(b"end", size - 3)
reads(size - 3, b"end")
h.flush()
at, extents = 0, []
while at < size:
    h.block_status(size - at, at, lambda context, offset, entries, error: extents.append(entries[::2]))
    at += sum(extents[-1])
assert at == size, (at, size)
h.shutdown()
"#;

#[test]
fn libnbd_from_python_gets_the_answer_of_each_request() {
    // The module belongs to the system's Python, which need not be the first in PATH.
    let python = "/usr/bin/python3";
    let has_module = Command::new(python).args(["-c", "import nbd"]).output();
    if !has_module.is_ok_and(|output| output.status.success()) {
        println!("SKIPPED libnbd from Python: no module nbd (Debian: python3-libnbd)");
        return;
    }
    each(|served, case| {
        let output =
            run_command(Command::new(python).args(["-c", SCRIPT, &served.uri(case.name)]).arg(case.keeps.to_string()));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{}: {said}", case.name);
    });
}

#[test]
fn what_needs_sectors_refuses_a_size_without_them() {
    let directory = directory();
    sparse_file(&directory.path().join("odd.img"), ODD);
    let place = directory.path().display();
    for options in ["vhost_user_blk = { unix = \"@/v.sock\" }", "min_block = 512"] {
        let text = format!(
            "[[device]]\nname = \"d\"\n[[device.export]]\nname = \"x\"\nbacking = \"{place}/odd.img\"\n{}\n\
             [[listen]]\nunix = \"{place}/nbd.sock\"\n",
            options.replace("@/", &format!("{place}/"))
        );
        let path = directory.path().join("serve.toml");
        fs::write(&path, text).unwrap();
        let output = run_command(served::hoistway().arg("serve").arg(&path));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{options}: {said}");
        let told = ["1000001 bytes", "truncate -s %512"];
        assert!(told.iter().all(|told| said.contains(told)), "{options}: {said}");
    }
}
