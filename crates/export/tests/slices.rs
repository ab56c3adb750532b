//! Exports on slices of one block device: a loop device on a sparse file, which needs root and the loop driver.

mod client;
mod server;

use std::fs::File;
use std::os::fd::AsFd;
use std::path::PathBuf;

use client::Client;
use hoistway_export::configuration::file;
use hoistway_export::control::socket::ask;
use hoistway_export::nbd::handshake::ReplyForm;
use hoistway_export::server::{Origin, Server};
use hoistway_linux::loop_device::{self, LoopDevice};
use rustix::fs::{Mode, OFlags};
use serde_json::{Value, json};
use server::Running;

const MIB: u64 = 1 << 20;
const TWO_MIB: usize = 2 << 20;

/// A loop device of 64 MiB, or the reason why there is none.
struct Disk {
    number: u32,
    device: Option<LoopDevice>,
}

impl Disk {
    fn new() -> Option<Self> {
        let backing = tempfile::tempfile().unwrap();
        backing.set_len(64 * MIB).unwrap();
        match LoopDevice::attach(backing.as_fd(), 512, "hoistway-slices") {
            Ok(device) => Some(Self { number: device.number(), device: Some(device) }),
            Err(error) => {
                eprintln!("skipped: no loop device can be made here: {error}");
                None
            }
        }
    }

    fn node(&self) -> PathBuf {
        loop_device::node(self.number)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        drop(self.device.take());
        loop_device::remove(self.number);
    }
}

fn export(name: &str, backing: &str) -> String {
    format!("[[device.export]]\nname = \"{name}\"\nbacking = \"{backing}\"\n")
}

fn ctl(server: &Running, request: &Value) -> Value {
    ask(&server.directory().join("control.sock"), request).unwrap()
}

/// Replaces the exports of a running server's file, and reloads it.
fn reload_with(server: &Running, old: &str, new: &str) -> Value {
    let path = server.directory().join("serve.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains(old), "{text}");
    std::fs::write(&path, text.replacen(old, new, 1)).unwrap();
    ctl(server, &json!({"command": "reload"}))
}

/// What the server says when it does not start.
fn refusal(devices: &str) -> String {
    let configuration = file::read("serve.toml", devices).unwrap();
    let Err(failure) = Server::start(configuration, Origin::Flags, Vec::new()) else { panic!("it started") };
    assert_eq!(failure.exit_status, 2);
    failure.problems.iter().map(ToString::to_string).collect()
}

#[test]
fn two_slices_of_a_device_are_written_to_by_two_devices_of_the_server() {
    let Some(disk) = Disk::new() else { return };
    let node = disk.node().display().to_string();
    let one = export("a", &format!("{node}@0+1MiB"));
    let other = export("b", &format!("{node}@1MiB+1MiB"));
    let server = Running::with(&format!("[[device]]\nname = \"x\"\n{one}[[device]]\nname = \"y\"\n{other}"));
    for (name, byte) in [("a", 1), ("b", 2)] {
        let mut client = Client::open(server.socket(), name, ReplyForm::Simple);
        assert_eq!(client.write(0, 0, &[byte; 4_096]).error, 0);
        assert_eq!(client.write(0, MIB - 512, &[byte; 512]).error, 0);
    }
    let mut first = Client::open(server.socket(), "a", ReplyForm::Simple);
    assert_eq!(first.read(MIB - 512, 512).data(), vec![1; 512], "the other slice does not reach into this one");
    drop(server);
    let mut whole = vec![0; TWO_MIB];
    std::os::unix::fs::FileExt::read_exact_at(&File::open(disk.node()).unwrap(), &mut whole, 0).unwrap();
    let at = |bytes: u64| whole[usize::try_from(bytes).unwrap()];
    assert_eq!([at(0), at(MIB - 1), at(MIB), at(2 * MIB - 1)], [1, 1, 2, 2]);
}

#[test]
fn slices_come_and_go_by_reload_and_overlaps_are_refused_with_both_names() {
    let Some(disk) = Disk::new() else { return };
    let node = disk.node().display().to_string();
    let one = export("a", &format!("{node}@0+1MiB"));
    let server = Running::with(&format!("[[device]]\nname = \"x\"\n{one}"));
    let overlapping = format!("{one}{}", export("b", &format!("{node}@512+1MiB")));
    let answer = reload_with(&server, &one, &overlapping);
    let error = answer["error"].as_str().unwrap();
    assert!(error.contains("exports a and b would both write to some of the same bytes"), "{error}");
    let beside = format!("{one}{}", export("b", &format!("{node}@1MiB+1MiB")));
    let answer = reload_with(&server, &overlapping, &beside);
    assert_eq!(answer["ok"]["changes"], 1, "{answer}");
    // The whole device overlaps with every slice.
    let whole = format!("{beside}{}", export("c", &node));
    let answer = reload_with(&server, &beside, &whole);
    assert!(answer["error"].as_str().unwrap().contains("same bytes"), "{answer}");
    // The other slice still holds the device after the first one's end.
    let only = export("b", &format!("{node}@1MiB+1MiB"));
    assert_eq!(reload_with(&server, &whole, &only)["ok"]["changes"], 1);
    let claim = || rustix::fs::open(disk.node(), OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC, Mode::empty());
    assert_eq!(claim().unwrap_err(), rustix::io::Errno::BUSY);
    // A reload that removes the slice frees the device for another export.
    let whole = export("d", &node);
    let answer = reload_with(&server, &only, &whole);
    assert_eq!(answer["ok"]["changes"], 2, "{answer}");
    drop(server);
    // The kernel takes a moment to release a ring's files.
    let start = std::time::Instant::now();
    while claim().is_err() {
        assert!(start.elapsed().as_secs() < 60, "the device is still held");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

#[test]
fn a_configuration_with_overlapping_slices_is_refused_before_anything_is_opened() {
    let Some(disk) = Disk::new() else { return };
    let node = disk.node().display().to_string();
    let two = |one: &str, other: &str| {
        let (one, other) = (export("a", one), export("b", other));
        refusal(&format!("[[device]]\nname = \"x\"\n{one}[[device]]\nname = \"y\"\n{other}"))
    };
    let text = two(&format!("{node}@0+2MiB"), &format!("{node}@1MiB+2MiB"));
    assert!(text.contains("exports a and b would both write to some of the same bytes"), "{text}");
    let text = two(&format!("{node}@0+2MiB"), &node);
    assert!(text.contains("exports a and b would both write to some of the same bytes"), "{text}");
}
