//! Groups come and go with the exports and clients that use them: no number of names uses a server up.

mod client;
mod server;

use std::collections::BTreeSet;
use std::fs;

use client::{Client, go_data};
use hoistway_block::random::Stream;
use hoistway_export::control::socket::ask;
use hoistway_export::nbd::handshake::ReplyForm;
use hoistway_export::nbd::wire::{option, reply};
use serde_json::{Value, json};
use server::Running;

/// The groups that 64 MiB have room for, without the root.
const ROOM: usize = 31;

const DEVICE: &str = r#"
[[device]]
name = "d"
memory = "64MiB"
scheduler = "paternoster"
[[device.export]]
name = "first"
backing = "memory:1MiB"
"#;

fn ctl(server: &Running, request: &Value) -> Value {
    ask(&server.directory().join("control.sock"), request).unwrap()
}

fn add(server: &Running, export: &str) -> Value {
    ctl(server, &json!({"command": "export", "add": export}))
}

fn remove(server: &Running, name: &str) -> Value {
    ctl(server, &json!({"command": "export", "remove": name}))
}

fn groups(status: &Value) -> BTreeSet<String> {
    let groups = status["groups"].as_array().unwrap();
    groups.iter().map(|group| group["path"].as_str().unwrap().to_owned()).collect()
}

fn set(paths: &[&str]) -> BTreeSet<String> {
    paths.iter().map(|path| (*path).to_owned()).collect()
}

/// The name of an export that does nothing but come and go.
fn exports(count: usize) -> impl Iterator<Item = String> {
    (0..count).map(|at| format!("e{at}"))
}

#[test]
fn two_thousand_names_pass_through_one_server() {
    let server = Running::with(DEVICE);
    for name in exports(2_000) {
        let answer = add(&server, &format!("{name}=memory:1MiB,group=tenants/{name}"));
        assert!(answer["ok"].get("warnings").is_none() && answer.get("ok").is_some(), "{answer}");
        if name.ends_with("99") {
            let mut client = Client::open(server.socket(), &name, ReplyForm::Simple);
            assert_eq!(client.read(0, 512).error, 0);
        }
        assert!(remove(&server, &name).get("ok").is_some());
    }
    server.await_that("no group is left", |status| groups(status) == set(&["first"]));
    assert_eq!(server.status()["devices"][0]["violations"], 0);
}

#[test]
fn an_export_without_room_for_its_group_is_refused_before_anything_changes() {
    let server = Running::with(DEVICE);
    for name in exports(ROOM - 1) {
        assert!(add(&server, &format!("{name}=memory:1MiB")).get("ok").is_some(), "{name}");
    }
    let before = server.status();
    let answer = add(&server, "one_more=memory:1MiB");
    let error = answer["error"].as_str().unwrap_or_else(|| panic!("not refused: {answer}"));
    assert!(error.contains("32 groups") && error.contains("has room for 31") && error.contains("66MiB"), "{error}");
    let after = server.status();
    assert_eq!((groups(&after), &after["exports"]), (groups(&before), &before["exports"]));
    // A group of another export is room enough, and so is a removed export.
    assert!(add(&server, "shares=memory:1MiB,group=first").get("ok").is_some());
    assert!(remove(&server, "e0").get("ok").is_some());
    assert!(add(&server, "one_more=memory:1MiB").get("ok").is_some());
    let mut client = Client::open(server.socket(), "one_more", ReplyForm::Simple);
    assert_eq!(client.read(0, 512).error, 0);
}

#[test]
fn a_group_stays_as_long_as_a_client_uses_it() {
    let server = Running::with(DEVICE);
    assert!(add(&server, "a=memory:1MiB,group=x/a").get("ok").is_some());
    let mut client = Client::open(server.socket(), "a", ReplyForm::Simple);
    assert!(remove(&server, "a").get("ok").is_some());
    assert_eq!(groups(&server.status()), set(&["first", "x", "x/a"]));
    client.assert_alive();
    drop(client);
    server.await_that("its group goes", |status| groups(status) == set(&["first"]));
    let mut metrics = std::os::unix::net::UnixStream::connect(server.directory().join("metrics.sock")).unwrap();
    std::io::Write::write_all(&mut metrics, b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    std::io::Read::read_to_string(&mut metrics, &mut text).unwrap();
    assert!(text.contains("group=\"first\"") && !text.contains("group=\"x/a\""), "{text}");
}

#[test]
fn named_groups_keep_their_counters_until_their_room_is_needed() {
    let identity = "[[identity]]\nlistener = \"unix:SOCKET\"\ngroup = \"named\"\n";
    let server = Running::with(DEVICE);
    let path = server.directory().join("serve.toml");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.clone() + &identity.replace("SOCKET", &server.socket().display().to_string())).unwrap();
    assert!(ctl(&server, &json!({"command": "reload"})).get("ok").is_some());
    let mut client = Client::open(server.socket(), "first", ReplyForm::Simple);
    assert_eq!(client.read(0, 512).error, 0);
    drop(client);
    let reads = |status: &Value| {
        let groups = status["groups"].as_array().unwrap();
        let named = groups.iter().find(|group| group["path"] == "named")?;
        named["read"]["requests"].as_u64().filter(|_| named["connections"] == 0)
    };
    server.await_that("the client has gone", |status| reads(status) == Some(1));
    // Every change looks for groups that are not used.
    assert!(add(&server, "e=memory:1MiB").get("ok").is_some());
    assert_eq!(reads(&server.status()), Some(1));
    for name in exports(ROOM - 2) {
        assert!(add(&server, &format!("{name}=memory:1MiB")).get("ok").is_some(), "{name}");
    }
    let status = server.status();
    assert_eq!((groups(&status).len(), reads(&status)), (ROOM, None));
    fs::write(&path, text).unwrap();
    assert!(ctl(&server, &json!({"command": "reload"})).get("ok").is_some());
    assert_eq!(groups(&server.status()), set(&["first"]));
}

fn files(server: &Running, names: &[&str]) {
    for name in names {
        let file = fs::File::create(server.directory().join(name)).unwrap();
        file.set_len(1 << 20).unwrap();
    }
}

/// Writes a configuration with these exports, as names with the rest of their table, and reloads.
fn reload(server: &Running, exports: &[(&str, String)]) -> Value {
    let path = server.directory().join("serve.toml");
    let text = fs::read_to_string(&path).unwrap();
    let rest = &text[text.find("[[listen]]").unwrap()..];
    let tables = exports.iter().map(|(name, rest)| format!("[[device.export]]\nname = \"{name}\"\n{rest}\n"));
    let tables: String = tables.collect();
    fs::write(&path, format!("[[device]]\nname = \"d\"\nmemory = \"64MiB\"\n{tables}\n{rest}")).unwrap();
    ctl(server, &json!({"command": "reload"}))
}

fn on(server: &Running, file: &str) -> String {
    format!("backing = \"{}\"", server.directory().join(file).display())
}

#[test]
fn an_export_is_renamed_in_one_reload_and_its_clients_stay() {
    let server = Running::with(DEVICE);
    files(&server, &["img"]);
    let memory = "backing = \"memory:1MiB\"".to_owned();
    let before = [("first", memory.clone()), ("old", on(&server, "img"))];
    assert!(reload(&server, &before).get("ok").is_some());
    let mut client = Client::open(server.socket(), "old", ReplyForm::Simple);
    let answer = reload(&server, &[("first", memory.clone()), ("new", on(&server, "img"))]);
    assert!(answer.get("ok").is_some(), "{answer}");
    client.assert_alive();
    let mut other = Client::open(server.socket(), "new", ReplyForm::Simple);
    other.assert_alive();
    assert_ne!(Client::connect(server.socket(), 3).last(option::INFO, &go_data("old")), reply::ACK);
    let status = server.status();
    let connections = status["connections"].as_array().unwrap();
    assert!(connections.len() == 2 && connections.iter().all(|it| it["export"] == "new"), "{status:#}");
    assert_eq!(ctl(&server, &json!({"command": "evict", "export": "new"}))["ok"]["closed"], 2);
    client.assert_closed();
    // And back, together with a change of its settings, which needs the file to be opened again.
    let server_is_free = |status: &Value| status["connections"].as_array().unwrap().is_empty();
    server.await_that("the clients are gone", server_is_free);
    let read_only = format!("{}\nread_only = true", on(&server, "img"));
    let answer = reload(&server, &[("first", memory), ("old", read_only)]);
    assert!(answer.get("ok").is_some(), "{answer}");
    assert_eq!(Client::open(server.socket(), "old", ReplyForm::Simple).flags & 2, 2);
}

#[test]
fn a_refused_reload_leaves_the_exports_open_that_it_would_have_closed() {
    let server = Running::with(DEVICE);
    files(&server, &["img"]);
    let memory = "backing = \"memory:1MiB\"".to_owned();
    assert!(reload(&server, &[("first", memory.clone()), ("old", on(&server, "img"))]).get("ok").is_some());
    let changed = format!("{}\nunsafe_flush = true", on(&server, "img"));
    let answer = reload(&server, &[("first", memory), ("new", changed), ("bad", on(&server, "missing"))]);
    assert!(answer["error"].as_str().is_some_and(|error| error.contains("missing")), "{answer}");
    let mut client = Client::open(server.socket(), "old", ReplyForm::Simple);
    assert_eq!(client.read(0, 512).error, 0);
    assert!(remove(&server, "old").get("ok").is_some());
}

#[test]
fn any_order_of_changes_leaves_exactly_the_groups_that_are_used() {
    let server = Running::with(DEVICE);
    files(&server, &["f0", "f1", "f2", "f3"]);
    let mut stream = Stream::new(7);
    let mut below = |most: usize| usize::try_from(stream.below(most as u64)).unwrap();
    // The model: exports with their groups, and clients with theirs.
    let mut open: Vec<(String, String)> = Vec::new();
    let mut clients: Vec<(Client, String)> = Vec::new();
    for step in 0..600 {
        match below(5) {
            0 | 1 if open.len() < 4 => {
                let (name, group) = (format!("n{step}"), format!("g{}/h{}", below(3), below(9)));
                let free = (0..4).find(|at| !open.iter().any(|(_, file)| file.starts_with(&format!("f{at} "))));
                let Some(file) = free else { continue };
                let path = server.directory().join(format!("f{file}"));
                let answer = add(&server, &format!("{name}={},group={group}", path.display()));
                // Clients of a removed export may still have the file.
                if answer.get("ok").is_some() {
                    open.push((name, format!("f{file} {group}")));
                } else {
                    assert!(answer["error"].as_str().unwrap().contains("hoistway ctl evict"), "{answer}");
                }
            }
            0..=2 if !open.is_empty() => {
                let (name, _) = open.swap_remove(below(open.len()));
                assert!(remove(&server, &name).get("ok").is_some());
            }
            3 if !open.is_empty() => {
                let (name, of) = &open[below(open.len())];
                let group = of.split(' ').nth(1).unwrap().to_owned();
                clients.push((Client::open(server.socket(), name, ReplyForm::Simple), group));
            }
            _ if !clients.is_empty() => drop(clients.swap_remove(below(clients.len()))),
            _ => {}
        }
        if step % 100 == 99 {
            let used = open.iter().map(|(_, of)| of.split(' ').nth(1).unwrap()).chain(clients.iter().map(|it| &*it.1));
            let mut model = set(&["first"]);
            model.extend(used.flat_map(|path| [path.split('/').next().unwrap().to_owned(), path.to_owned()]));
            server.await_that("the groups are those of the model", |status| groups(status) == model);
        }
    }
    clients.clear();
    assert!(ctl(&server, &json!({"command": "reload"})).get("ok").is_some());
    server.await_that("no group is left", |status| groups(status) == set(&["first"]));
    assert_eq!(server.status()["devices"][0]["violations"], 0);
}
