//! Exports that an operator adds and removes while clients are connected.

mod client;
mod server;

use std::time::{Duration, Instant};

use client::{Client, go_data};
use hoistway_export::control::socket::ask;
use hoistway_export::nbd::handshake::ReplyForm;
use hoistway_export::nbd::wire::{option, reply};
use serde_json::{Value, json};
use server::Running;

const TWO_DEVICES: &str = r#"
[[device]]
name = "x"
[[device.export]]
name = "a"
backing = "memory:1MiB"
[[device.export]]
name = "other"
backing = "memory:1MiB"
[[device]]
name = "y"
[[device.export]]
name = "b"
backing = "memory:1MiB"
"#;

fn ctl(server: &Running, request: &Value) -> Value {
    ask(&server.directory().join("control.sock"), request).unwrap()
}

fn add(server: &Running, export: &str, device: &str) -> Value {
    ctl(server, &json!({"command": "export", "add": export, "device": device}))
}

fn remove(server: &Running, name: &str) -> Value {
    ctl(server, &json!({"command": "export", "remove": name}))
}

fn error(answer: &Value) -> &str {
    answer["error"].as_str().unwrap_or_else(|| panic!("not refused: {answer}"))
}

fn is_known(server: &Running, name: &str) -> bool {
    let mut client = Client::connect(server.socket(), 3);
    client.last(option::INFO, &go_data(name)) == reply::ACK
}

#[test]
fn an_added_export_is_served_with_its_options_and_a_removed_one_keeps_its_clients() {
    let server = Running::with(TWO_DEVICES);
    let answer = add(&server, "c=memory:2MiB,group=tenants/c,weight=300,read_only,description=new", "y");
    assert_eq!((&answer["ok"]["export"], &answer["ok"]["device"]), (&json!("c"), &json!("y")), "{answer}");
    assert!(answer["ok"]["lasts"].as_str().unwrap().contains("next reload"), "{answer}");
    let mut client = Client::open(server.socket(), "c", ReplyForm::Simple);
    assert_eq!((client.size_bytes, client.flags & 2), (2 << 20, 2), "size, read-only");
    let status = server.status();
    let group = status["groups"].as_array().unwrap().iter().find(|group| group["path"] == "tenants/c").cloned();
    assert_eq!(group.unwrap()["weight"], 300);

    let answer = remove(&server, "c");
    assert_eq!(answer["ok"]["connected"], 1, "{answer}");
    assert!(!is_known(&server, "c"));
    client.assert_alive();
    assert_eq!(ctl(&server, &json!({"command": "evict", "export": "c"}))["ok"]["closed"], 1);
    client.assert_closed();
    // Its last client has left: its backing is closed, without another change.
    let start = Instant::now();
    while server.status()["exports"].as_array().unwrap().iter().any(|export| export["name"] == "c") {
        assert!(start.elapsed() < Duration::from_mins(1), "it stays open");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_reload_makes_the_file_the_truth_again() {
    let server = Running::with(TWO_DEVICES);
    assert!(add(&server, "c=memory:1MiB", "x").get("ok").is_some());
    assert!(remove(&server, "a").get("ok").is_some());
    assert_eq!((is_known(&server, "a"), is_known(&server, "c")), (false, true));
    let answer = ctl(&server, &json!({"command": "reload"}));
    assert_eq!(answer["ok"]["changes"], 2, "{answer}");
    assert_eq!((is_known(&server, "a"), is_known(&server, "c")), (true, false));
}

#[test]
fn what_cannot_be_added_or_removed_is_refused_and_changes_nothing() {
    let server = Running::with(TWO_DEVICES);
    let before = server.status()["exports"].clone();
    let no_device = ctl(&server, &json!({"command": "export", "add": "c=memory:1MiB"}));
    assert_eq!((error(&no_device), &no_device["field"]), ("name one of the devices: x, y", &json!("device")));
    assert!(error(&add(&server, "c=memory:1MiB", "z")).contains("no device \"z\"; there are: x, y"));
    assert!(error(&add(&server, "a=memory:1MiB", "x")).contains("the export \"a\" is declared twice"));
    assert!(error(&add(&server, "c=memory:1MiB,wieght=3", "x")).contains("did you mean weight?"));
    assert!(error(&add(&server, "c=/does/not/exist", "x")).contains("/does/not/exist does not exist"));
    assert!(error(&add(&server, "c=memory:12x", "x")).contains("not a size"));
    assert!(error(&add(&server, "c=memory:1MiB,group=a,weight=0", "x")).contains("weight = 0 is outside"));
    assert!(error(&remove(&server, "c")).contains("no export \"c\"; there are: a, other, b"));
    assert!(error(&remove(&server, "b")).contains("b is the last export of the device y"));
    assert_eq!(server.status()["exports"], before);
    assert!(is_known(&server, "a") && is_known(&server, "b"));
}

#[test]
fn exports_with_a_socket_for_a_virtual_machine_come_and_go_with_it() {
    let server = Running::with(TWO_DEVICES);
    let socket = server.directory().join("c.vhost");
    let answer = add(&server, &format!("c=memory:1MiB,vhost_user_blk.unix={}", socket.display()), "x");
    assert!(answer["ok"].get("warnings").is_none(), "{answer}");
    let evict = json!({"command": "evict", "export": "c"});
    assert!(error(&ctl(&server, &evict)).contains("no connection belongs to the export \"c\""));
    let mut front_end = std::os::unix::net::UnixStream::connect(&socket).unwrap();
    let start = std::time::Instant::now();
    // The server's thread takes a moment to accept it.
    while ctl(&server, &evict).get("ok").is_none() {
        assert!(start.elapsed().as_secs() < 60, "the front end is not disconnected");
    }
    assert_eq!(std::io::Read::read(&mut front_end, &mut [0; 1]).unwrap(), 0);
    assert!(remove(&server, "c").get("ok").is_some());
    assert!(!socket.exists());
}
