//! A disk that grows while a virtual machine uses it.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::path::Path;

use hoistway_export::control::socket::ask;
use serde_json::{Value, json};
use vhost::vhost_user::VhostUserFrontend;

use super::guest::*;
use super::server::Running;

const MIB: u64 = 1 << 20;

/// A server with an export `a` on a file of 1 MiB at `directory`.
fn serving(directory: &Path) -> Running {
    let [backing, socket] = ["backing", "vhost"].map(|name| directory.join(name));
    File::create(&backing).expect("a file").set_len(MIB).expect("a size");
    let (backing, socket) = (backing.display(), socket.display());
    Running::with(&format!(
        "[[device]]\nname = \"d\"\n[[device.export]]\nname = \"a\"\nbacking = \"{backing}\"\nvhost_user_blk = {{ unix = \
         \"{socket}\" }}\n"
    ))
}

fn attach(directory: &Path) -> (FrontEnd, Memory, Driver) {
    let (memory, ring) = (Memory::new(), Driver::new(0));
    let mut front_end = FrontEnd::connect(&directory.join("vhost"), BASIC);
    front_end.share(&memory).expect("memory");
    front_end.start(&ring, 0).expect("a ring");
    (front_end, memory, ring)
}

fn grow(server: &Running, directory: &Path) -> Value {
    let file = OpenOptions::new().write(true).open(directory.join("backing")).expect("the file");
    file.set_len(2 * MIB).expect("a size");
    let request = json!({"command": "resize", "export": "a"});
    ask(&server.directory().join("control.sock"), &request).expect("an answer")
}

#[test]
fn a_front_end_with_a_channel_is_told_and_its_guest_uses_the_new_space_at_once() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = serving(directory.path());
    let (mut front_end, memory, mut ring) = attach(directory.path());
    let (mut channel, its_end) = UnixStream::pair().expect("a pair");
    front_end.messages.set_backend_request_fd(&its_end).expect("the channel");
    drop(its_end);
    assert_eq!(front_end.space(60)[..8], (MIB / 512).to_le_bytes());
    assert_eq!(ring.request(&memory, WRITE_REQUEST, MIB / 512, &[5; 512], 0).0, 1, "behind the end");

    let answer = grow(&server, directory.path());
    assert_eq!((&answer["ok"]["size_bytes"], answer["ok"].get("notes")), (&json!(2 * MIB), None), "{answer}");
    channel.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let mut message = [0; 12];
    channel.read_exact(&mut message).expect("a message");
    let expected = [2_u32, 1, 0].map(u32::to_ne_bytes).concat();
    assert_eq!(message[..], expected, "VHOST_USER_BACKEND_CONFIG_CHANGE_MSG");
    assert_eq!(front_end.space(60)[..8], (2 * MIB / 512).to_le_bytes());
    assert_eq!(ring.request(&memory, WRITE_REQUEST, MIB / 512, &[5; 512], 0).0, 0);
    assert_eq!(std::fs::read(directory.path().join("backing")).expect("the file")[1 << 20], 5);
}

#[test]
fn a_front_end_without_a_channel_sees_the_size_when_it_connects_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = serving(directory.path());
    let (front_end, ..) = attach(directory.path());
    let answer = grow(&server, directory.path());
    assert!(answer["ok"]["notes"][0].as_str().expect("a note").contains("takes no notice of changes"), "{answer}");
    drop(front_end);
    let (mut front_end, ..) = attach(directory.path());
    assert_eq!(front_end.space(60)[..8], (2 * MIB / 512).to_le_bytes());
}
