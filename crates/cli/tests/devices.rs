//! Real block devices: loop devices as backings, refusals without side effects, a file system of
//! the host's kernel on top of the server, and a backing that fills up. Source:
//! docs/specifications/engine.md, sections 5.5 and 10, cases 10, 32 and 57;
//! docs/specifications/harness.md, section 2.2.
//!
//! All of it needs root and loop devices; without them each test is skipped with a message. Guards
//! clean up, also when a test fails: those declared later clean up earlier.

#[path = "../../export/tests/client/mod.rs"]
mod client;
mod served;

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use client::Client;
use hoistway_export::nbd::handshake::ReplyForm;
use hoistway_export::nbd::wire::error;
use served::{Served, await_that, directory, hoistway, pattern, requires, run, run_command, sparse_file, succeed};
use tempfile::TempDir;

const MIB: u64 = 1 << 20;

// ---- setup ----

/// Whether this process may create loop devices and mounts; if not, prints why.
fn may_change_devices(test: &str, programs: &[&str]) -> bool {
    let is_root = fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
    if !is_root || !Path::new("/dev/loop-control").exists() {
        println!("SKIPPED {test}: needs root and /dev/loop-control");
        return false;
    }
    requires(test, programs)
}

/// A loop device; detached when dropped.
struct Loop(String);

impl Loop {
    /// Attaches a file. If the system does not allow it, as in containers, prints the reason and
    /// returns `None`.
    fn attach(test: &str, file: &Path) -> Option<Self> {
        let output = run("losetup", &["--find", "--show", "--partscan", file.to_str().unwrap()]);
        if !output.status.success() {
            println!("SKIPPED {test}: losetup: {}", String::from_utf8_lossy(&output.stderr).trim());
            return None;
        }
        Some(Self(String::from_utf8(output.stdout).unwrap().trim().to_owned()))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        run("losetup", &["--detach", &self.0]);
    }
}

/// A mounted file system; unmounted when dropped, lazily if it is still in use.
struct Mounted(PathBuf);

impl Mounted {
    fn at(place: PathBuf, arguments: &[&str]) -> Self {
        fs::create_dir_all(&place).unwrap();
        succeed("mount", &[arguments, &[place.to_str().unwrap()]].concat());
        Self(place)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let place = self.0.to_str().unwrap();
        if !run("umount", &[place]).status.success() {
            run("umount", &["--lazy", place]);
        }
    }
}

/// nbdfuse, which shows an export as a file; ended when dropped.
struct Fuse {
    child: Child,
    file: PathBuf,
    // Dropped after `drop` has waited for the process, when nothing is mounted there any more.
    directory: PathBuf,
}

impl Fuse {
    fn show(uri: &str, directory: PathBuf) -> Self {
        fs::create_dir(&directory).unwrap();
        let file = directory.join("nbd");
        let child = Command::new("nbdfuse").arg(&file).arg(uri).stdin(Stdio::null()).spawn().unwrap();
        let fuse = Self { child, file, directory };
        await_that("nbdfuse shows the export", || fs::metadata(&fuse.file).is_ok_and(|file| file.len() > 0));
        fuse
    }
}

impl Drop for Fuse {
    fn drop(&mut self) {
        let place = self.directory.to_str().unwrap();
        if !run("umount", &[place]).status.success() {
            run("umount", &["--lazy", place]);
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

/// A file that is removed when dropped.
struct Removed(PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Runs `hoistway serve` with a backing that it must refuse; returns its exit code and messages.
fn refused(directory: &TempDir, backing: &str) -> (Option<i32>, String) {
    let mut command = hoistway();
    command.args(["serve", "--memory", "64MiB", "--nbd", &format!("unix:{}/other.sock", directory.path().display())]);
    command.args(["--export", &format!("y={backing}")]);
    let output = run_command(&mut command);
    assert!(output.stdout.is_empty(), "a ready line from a server that must not start");
    assert!(!directory.path().join("other.sock").exists(), "a server that must not start left its socket behind");
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

/// The device is refused as in use by `user` (itself, or a partition): exit 3, one message with
/// flag, node and remedy.
#[track_caller]
fn assert_in_use(directory: &TempDir, device: &str, user: &str) {
    let (code, said) = refused(directory, device);
    assert_eq!(code, Some(3), "{said}");
    assert!(said.starts_with("hoistway: error: --export: "), "{said}");
    assert!(said.contains(&format!("{device} is in use ({user} is mounted")), "{said}");
    assert_eq!(said.matches("error:").count(), 1, "one message: {said}");
    assert_eq!(said.matches("help:").count(), 1, "one remedy: {said}");
}

/// An ext4 without background writes after mkfs, so that its image can be compared.
fn make_ext4(node: &str) {
    succeed("mkfs.ext4", &["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard", node]);
}

/// The file's content after the kernel has written everything back.
fn settled(file: &Path) -> Vec<u8> {
    succeed("sync", &[]);
    fs::read(file).unwrap()
}

fn client_of(served: &Served) -> Client {
    Client::open(&served.path("nbd.sock"), "x", ReplyForm::Structured)
}

// ---- serving a device ----

#[test]
fn t10_fio_verifies_on_a_block_device() {
    const TEST: &str = "fio verify on a loop device";
    if !may_change_devices(TEST, &["losetup", "fio"]) {
        return;
    }
    let files = directory();
    let image = files.path().join("x.img");
    sparse_file(&image, 64 * MIB);
    let Some(device) = Loop::attach(TEST, &image) else { return };
    let served = Served::flags(directory(), &["--export", &format!("x={}", device.0)]);
    let uri = format!("--uri={}", served.uri("x"));
    let job = ["--name=v", "--ioengine=nbd", &uri, "--rw=randwrite", "--bsrange=512-256k", "--size=64m"];
    let verify = ["--iodepth=16", "--verify=crc32c", "--verify_fatal=1", "--randseed=42", "--output-format=json"];
    let output = succeed("fio", &[&job[..], &verify].concat());
    let result: serde_json::Value = serde_json::from_str(&output[output.find('{').unwrap()..]).unwrap();
    let job = &result["jobs"][0];
    assert_eq!(job["error"], 0, "{job}");
    assert!(job["read"]["total_ios"].as_u64().unwrap() > 0, "fio read nothing back, so it verified nothing");
    assert_eq!(served.terminate(), Some(0));
}

#[test]
fn what_a_client_writes_and_flushes_is_on_the_device() {
    const TEST: &str = "a loop device's content";
    if !may_change_devices(TEST, &["losetup"]) {
        return;
    }
    let files = directory();
    let image = files.path().join("x.img");
    sparse_file(&image, 8 * MIB);
    let Some(device) = Loop::attach(TEST, &image) else { return };
    let served = Served::flags(directory(), &["--export", &format!("x={}", device.0)]);
    let mut client = client_of(&served);
    let data = pattern(300_000);
    // Neither end is aligned to a block of the device: the server must read, modify and write the
    // blocks at both ends.
    assert_eq!(client.write(0, MIB + 100, &data).error, 0);
    assert_eq!(client.ask(0, hoistway_export::nbd::wire::command::FLUSH, 0, 0).error, 0);
    let mut found = vec![0; data.len()];
    File::open(&image).unwrap().read_exact_at(&mut found, MIB + 100).unwrap();
    assert!(found == data, "the loop device's file differs from what the client wrote");
    assert_eq!(served.terminate(), Some(0));
}

// ---- refusals ----

#[test]
fn t60_a_mounted_device_is_refused_and_left_untouched() {
    const TEST: &str = "a mounted device";
    if !may_change_devices(TEST, &["losetup", "mkfs.ext4", "mount"]) {
        return;
    }
    let files = directory();
    let image = files.path().join("x.img");
    sparse_file(&image, 16 * MIB);
    let Some(device) = Loop::attach(TEST, &image) else { return };
    make_ext4(&device.0);
    let _mounted = Mounted::at(files.path().join("mount"), &[&device.0]);
    let before = settled(&image);
    assert_in_use(&files, &device.0, &device.0);
    assert!(settled(&image) == before, "a refused device was written to");
}

#[test]
fn t60_a_device_with_a_mounted_partition_is_refused_and_left_untouched() {
    const TEST: &str = "a mounted partition";
    if !may_change_devices(TEST, &["losetup", "addpart", "mkfs.ext4", "mount"]) {
        return;
    }
    let files = directory();
    let image = files.path().join("x.img");
    sparse_file(&image, 32 * MIB);
    let Some(device) = Loop::attach(TEST, &image) else { return };
    // In sectors of 512 bytes. The kernel is told of the partition directly, because not every
    // kernel reads partition tables.
    succeed("addpart", &[&device.0, "1", "2048", "40960"]);
    let partition = format!("{}p1", device.0);
    await_that("the partition has a node", || Path::new(&partition).exists());
    make_ext4(&partition);
    let mounted = Mounted::at(files.path().join("mount"), &[&partition]);
    let before = settled(&image);
    assert_in_use(&files, &device.0, &partition);
    assert!(settled(&image) == before, "a refused device was written to");
    // Without the mounted partition the device is accepted.
    drop(mounted);
    let served = Served::flags(files, &["--export", &format!("x={}", device.0)]);
    client_of(&served).assert_alive();
}

#[test]
fn a_device_opened_exclusively_by_another_process_is_refused() {
    const TEST: &str = "a device held exclusively";
    if !may_change_devices(TEST, &["losetup"]) {
        return;
    }
    let files = directory();
    let image = files.path().join("x.img");
    sparse_file(&image, MIB);
    let Some(device) = Loop::attach(TEST, &image) else { return };
    let held = OpenOptions::new().read(true).custom_flags(libc::O_EXCL).open(&device.0).unwrap();
    assert_in_use(&files, &device.0, &device.0);
    drop(held);
}

#[test]
fn two_servers_on_one_device_the_second_is_refused_and_the_first_goes_on() {
    const TEST: &str = "two servers on one device";
    if !may_change_devices(TEST, &["losetup"]) {
        return;
    }
    let files = directory();
    let image = files.path().join("x.img");
    sparse_file(&image, MIB);
    let Some(device) = Loop::attach(TEST, &image) else { return };
    let served = Served::flags(directory(), &["--export", &format!("x={}", device.0)]);
    let mut client = client_of(&served);
    assert_eq!(client.write(0, 0, &pattern(4_096)).error, 0);
    assert_in_use(&files, &device.0, &device.0);
    assert_eq!(client.read(0, 4_096).data(), pattern(4_096));
    assert_eq!(served.terminate(), Some(0));
}

#[test]
fn a_file_in_dev_is_refused_and_left_untouched() {
    const TEST: &str = "a file in /dev";
    if !may_change_devices(TEST, &[]) {
        return;
    }
    let files = directory();
    let stray = Removed(PathBuf::from(format!("/dev/hoistway-test-{}", std::process::id())));
    fs::write(&stray.0, pattern(65_536)).unwrap();
    let (code, said) = refused(&files, stray.0.to_str().unwrap());
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("is a regular file in /dev") && said.contains("help:"), "{said}");
    assert!(fs::read(&stray.0).unwrap() == pattern(65_536), "a refused file was changed");
}

#[test]
fn a_device_that_does_not_exist_is_refused_and_not_created() {
    const TEST: &str = "a missing device";
    if !may_change_devices(TEST, &[]) {
        return;
    }
    let missing = Removed(PathBuf::from(format!("/dev/hoistway-none-{}", std::process::id())));
    let (code, said) = refused(&directory(), missing.0.to_str().unwrap());
    // An unchecked open would create it: refused for safety (docs/specifications/harness.md,
    // section 2.2).
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("does not exist") && said.contains("help:"), "{said}");
    assert!(!missing.0.exists(), "a file appeared in /dev");
}

// ---- a file system of this kernel on top ----

#[test]
fn t57_a_kernel_file_system_on_the_export_is_clean_on_device_and_backing() {
    const TEST: &str = "ext4 over nbdfuse and loop";
    if !may_change_devices(TEST, &["losetup", "nbdfuse", "mkfs.ext4", "e2fsck", "debugfs", "mount"]) {
        return;
    }
    if !Path::new("/dev/fuse").exists() {
        println!("SKIPPED {TEST}: needs /dev/fuse");
        return;
    }
    let mut served = Served::file(64 * MIB);
    let data = pattern(16 << 20);
    {
        let fuse = Fuse::show(&served.uri("x"), served.path("fuse"));
        let Some(device) = Loop::attach(TEST, &fuse.file) else { return };
        succeed("mkfs.ext4", &["-q", &device.0]);
        let mounted = Mounted::at(served.path("mount"), &[&device.0]);
        let flushes = flushes(&served);
        let mut file = File::create(mounted.0.join("data")).unwrap();
        file.write_all(&data).unwrap();
        file.sync_all().unwrap();
        await_that("the file's fsync reached the server", || self::flushes(&served) > flushes);
        drop(file);
        assert!(fs::read(mounted.0.join("data")).unwrap() == data);
        succeed("umount", &[mounted.0.to_str().unwrap()]);
        succeed("e2fsck", &["-f", "-n", &device.0]);
        let mounted = Mounted::at(served.path("mount"), &["-o", "ro", &device.0]);
        assert!(fs::read(mounted.0.join("data")).unwrap() == data, "the file differs after another mount");
    }
    served.signal("TERM");
    assert_eq!(served::wait_for_exit(&mut served.child).code(), Some(0));
    let image = served.path("x.img");
    succeed("e2fsck", &["-f", "-n", image.to_str().unwrap()]);
    let copy = served.path("copy");
    succeed("debugfs", &["-R", &format!("dump /data {}", copy.display()), image.to_str().unwrap()]);
    assert!(fs::read(copy).unwrap() == data, "the file differs in the backing");
}

fn flushes(served: &Served) -> u64 {
    served.status()["exports"][0]["flush"]["requests"].as_u64().unwrap()
}

// ---- a backing that fills up ----

#[test]
fn t32_a_full_backing_answers_enospc_and_works_again_after_space_is_freed() {
    const TEST: &str = "a full backing";
    if !may_change_devices(TEST, &["mount"]) {
        return;
    }
    let files = directory();
    let disk = Mounted::at(files.path().join("disk"), &["-t", "tmpfs", "-o", "size=8m", "tmpfs"]);
    fs::write(disk.0.join("ballast"), pattern(4 << 20)).unwrap();
    let image = disk.0.join("x.img");
    sparse_file(&image, 16 * MIB);
    let served = Served::flags(directory(), &["--export", &format!("x={}", image.display())]);
    let mut client = client_of(&served);
    // Large writes go through the ring, small ones are done on the shard's own thread: both must
    // report the error.
    let (large, small) = (pattern(256 << 10), pattern(4_096));
    let full_at = (0..64).find(|at| client.write(0, at * (256 << 10), &large).error == error::ENOSPC);
    let full_at = full_at.expect("16 MiB do not fit into 8 MiB") * (256 << 10);
    assert!(full_at >= 3 * MIB, "full after {full_at} bytes");
    assert_eq!(client.write(0, 15 * MIB, &small).error, error::ENOSPC);
    client.assert_alive();
    assert!(client.read(0, 256 << 10).data() == large, "what was written before is lost");

    fs::remove_file(disk.0.join("ballast")).unwrap();
    assert_eq!(client.write(0, full_at, &large).error, 0);
    assert_eq!(client.write(0, 15 * MIB, &small).error, 0);
    assert!(client.read(full_at, 256 << 10).data() == large);
    assert_eq!(client.read(15 * MIB, 4_096).data(), small);
    drop(client);
    assert_eq!(served.terminate(), Some(0));
}
