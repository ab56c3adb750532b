//! Exports whose file has grown: new clients see the new size, connected ones keep theirs.

mod client;
mod server;

use std::fs::OpenOptions;

use client::Client;
use hoistway_export::control::socket::ask;
use hoistway_export::nbd::handshake::ReplyForm;
use hoistway_export::nbd::wire::error;
use serde_json::{Value, json};
use server::Running;

const MIB: u64 = 1 << 20;

fn ctl(server: &Running, request: &Value) -> Value {
    ask(&server.directory().join("control.sock"), request).unwrap()
}

fn set_size(server: &Running, size_bytes: u64) {
    OpenOptions::new().write(true).open(server.directory().join("backing")).unwrap().set_len(size_bytes).unwrap();
}

fn resize(server: &Running) -> Value {
    ctl(server, &json!({"command": "resize", "export": "file"}))
}

#[test]
fn a_grown_file_is_seen_by_new_clients_and_old_ones_stay_inside_what_they_know() {
    let server = Running::with_file(MIB);
    let mut old = Client::open(server.socket(), "file", ReplyForm::Simple);
    // The server counts a client once its first request is answered.
    old.assert_alive();
    assert_eq!(resize(&server)["ok"], json!({"export": "file", "before_bytes": MIB, "size_bytes": MIB}));
    set_size(&server, 4 * MIB);
    let answer = resize(&server);
    assert_eq!(
        (&answer["ok"]["before_bytes"], &answer["ok"]["size_bytes"]),
        (&json!(MIB), &json!(4 * MIB)),
        "{answer}"
    );
    assert!(
        answer["ok"]["notes"][0].as_str().unwrap().starts_with("1 connected NBD clients keep the size"),
        "{answer}"
    );

    let mut new = Client::open(server.socket(), "file", ReplyForm::Simple);
    assert_eq!((old.size_bytes, new.size_bytes), (MIB, 4 * MIB));
    assert_eq!(new.write(0, 3 * MIB, &[7; 4_096]).error, 0);
    assert_eq!(new.read(3 * MIB, 4_096).data(), [7; 4_096]);
    assert_eq!(new.read(4 * MIB - 512, 1_024).error, error::EINVAL);
    // The old client can use what it knows, and nothing behind it.
    assert_eq!(old.write(0, MIB - 512, &[1; 512]).error, 0);
    assert_eq!(old.read(MIB - 512, 1_024).error, error::EINVAL);
    assert_eq!(old.write(0, MIB, &[9; 512]).error, error::ENOSPC);
    assert_eq!(new.read(MIB - 512, 1_024).data(), [[1; 512], [0; 512]].concat());
}

#[test]
fn a_reload_takes_over_grown_files_and_warns_of_shrunk_ones() {
    let server = Running::with_file(2 * MIB);
    set_size(&server, 3 * MIB);
    let answer = ctl(&server, &json!({"command": "reload"}));
    assert_eq!(answer["ok"], json!({"changes": 0, "grown": ["file"]}));
    assert_eq!(Client::open(server.socket(), "file", ReplyForm::Simple).size_bytes, 3 * MIB);
    set_size(&server, MIB);
    let answer = ctl(&server, &json!({"command": "reload"}));
    assert!(answer["ok"]["warnings"][0].as_str().unwrap().contains("has shrunk from 3145728 to 1048576"), "{answer}");
    assert!(resize(&server)["error"].as_str().unwrap().contains("has shrunk"));
    assert_eq!(Client::open(server.socket(), "file", ReplyForm::Simple).size_bytes, 3 * MIB, "nothing has changed");
    set_size(&server, 3 * MIB);
    assert_eq!(resize(&server)["ok"]["size_bytes"], 3 * MIB);
}

#[test]
fn sizes_that_are_part_of_the_text_do_not_change() {
    let server = Running::with(
        "[[device]]\nname = \"d\"\n[[device.export]]\nname = \"a\"\nbacking = \"memory:1MiB\"\n[[device]]\nname = \"m\"\n\
         [[device.export]]\nname = \"m\"\nbacking = \"model:ssd,null:1GiB\"\n",
    );
    let refusal = |name: &str| {
        let answer = ctl(&server, &json!({"command": "resize", "export": name}));
        answer["error"].as_str().unwrap_or_else(|| panic!("not refused: {answer}")).to_owned()
    };
    assert!(refusal("a").contains("part of the backing's text"));
    assert!(refusal("m").contains("a device model has a fixed size"));
    assert!(refusal("z").contains("no export \"z\"; there are: a, m"));
}
