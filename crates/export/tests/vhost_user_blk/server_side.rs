//! Sockets of virtual machines in a whole server: configuration, status, reload, end.

use std::os::unix::net::UnixStream;
use std::path::Path;

use hoistway_export::configuration::flags::{self, Flags};
use hoistway_export::server::{Event, Origin, Server};

use super::guest::*;
use super::server::Running;

fn export(name: &str, socket: &Path) -> String {
    let socket = socket.display();
    format!(
        "[[device.export]]\nname = \"{name}\"\nbacking = \"memory:16MiB\"\nvhost_user_blk = {{ unix = \"{socket}\" }}\n"
    )
}

/// A connected guest of a server.
fn attach(socket: &Path) -> (FrontEnd, Memory, Driver) {
    let (memory, ring) = (Memory::new(), Driver::new(0));
    let mut front_end = FrontEnd::connect(socket, BASIC);
    front_end.share(&memory).expect("memory");
    front_end.start(&ring, 0).expect("a ring");
    (front_end, memory, ring)
}

#[test]
fn exports_come_and_go_with_their_sockets() {
    let directory = tempfile::tempdir().expect("a directory");
    let [first, second] = ["first", "second"].map(|name| directory.path().join(name));
    let server = Running::with(&format!("[[device]]\nname = \"d\"\n{}", export("a", &first)));
    let (front_end, memory, mut ring) = attach(&first);
    assert_eq!(ring.request(&memory, WRITE_REQUEST, 0, &[5; 512], 0).0, 0);
    let status = server.status();
    assert_eq!(status["connections"][0]["client"], "vhost-user-blk a");
    assert_eq!(status["groups"][0]["write"]["requests"], 1);

    let file = server.directory().join("serve.toml");
    let text = std::fs::read_to_string(&file).expect("the configuration");
    let both = text.replacen("\n[[listen]]", &format!("{}\n[[listen]]", export("b", &second)), 1);
    std::fs::write(&file, &both).expect("written");
    server.send(Event::Reload);
    // The file is there before the server listens on it.
    within("the second socket", || UnixStream::connect(&second).is_ok());
    let (other, its_memory, mut its_ring) = attach(&second);
    assert_eq!(its_ring.request(&its_memory, READ_REQUEST, 0, &[], 512).0, 0);

    std::fs::write(&file, both.replacen(&export("a", &first), "", 1)).expect("written");
    server.send(Event::Reload);
    within("the first socket is gone", || !first.exists());
    within("its connection is closed", || vhost::VhostBackend::get_features(&front_end.messages).is_err());
    assert_eq!(its_ring.request(&its_memory, READ_REQUEST, 0, &[], 512).0, 0, "the other goes on");

    server.send(Event::Terminate);
    assert_eq!(server.wait(), 0);
    assert!(!second.exists(), "the socket is left behind");
    assert!(vhost::VhostBackend::get_features(&other.messages).is_err());
}

fn refused(socket: &str) -> String {
    let (export, vhost_user) = (vec!["a=memory:16MiB".to_owned()], vec![format!("unix:{socket}")]);
    let configuration = flags::read(&Flags { export, vhost_user, ..Flags::default() }).expect("good flags");
    match Server::start(configuration, Origin::Flags, Vec::new()) {
        Ok(_) => panic!("it started"),
        Err(failure) => {
            assert_eq!((failure.problems.len(), failure.exit_status), (1, 2));
            failure.problems[0].to_string()
        }
    }
}

#[test]
fn a_socket_that_cannot_be_made_is_one_message_with_its_remedy() {
    let directory = tempfile::tempdir().expect("a directory");
    let place = |name: &str| directory.path().join(name).display().to_string();
    let long = refused(&place(&"x".repeat(120)));
    assert!(long.contains("--vhost-user") && long.contains("at most 107 bytes"), "{long}");
    let nowhere = refused(&place("none/disk"));
    assert!(nowhere.contains("the directory must exist"), "{nowhere}");
    let _listener = std::os::unix::net::UnixListener::bind(place("used")).expect("a socket");
    let used = refused(&place("used"));
    assert!(used.contains("a server listens on") && used.contains("stop it first"), "{used}");
    std::fs::write(place("file"), "text").expect("written");
    let file = refused(&place("file"));
    assert!(file.contains("is not a socket") && file.contains("choose another path"), "{file}");
}
