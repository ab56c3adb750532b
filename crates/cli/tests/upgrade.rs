//! A server is replaced while clients connect and work, as docs/howto/upgrade.md says: the listening socket belongs to
//! the service manager, which here is this test, and stays open.

#[path = "served/mod.rs"]
mod served;

use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use served::{await_that, directory, sparse_file, wait_for_exit};

const RESTARTS: u64 = 5;
/// Clients that connect for one write, and clients that stay.
const BRIEF: u64 = 3;
const STAYING: u64 = 3;
/// Each client has blocks of this size to itself.
const BLOCK_BYTES: usize = 4_096;

/// What happened to all clients together.
#[derive(Default)]
struct Counts {
    failed_connects: AtomicU64,
    /// Handshakes and requests that the end of a server interrupted.
    interrupted: AtomicU64,
    opened: AtomicU64,
    written: AtomicU64,
    must_stop: AtomicBool,
}

/// The next server on the socket that is never closed.
fn serve(listener: &UnixListener, file: &Path) -> Child {
    // The shell moves its standard input to descriptor 3, where the service manager's sockets begin.
    let script = "LISTEN_PID=$$ LISTEN_FDS=1 exec \"$0\" \"$@\" 3<&0 </dev/null";
    let mut command = Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_hoistway"), "serve"]).arg(file);
    let socket = OwnedFd::from(listener.try_clone().unwrap());
    command.stdin(socket).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Connects; this must never fail.
fn connect(path: &Path, counts: &Counts) -> Option<UnixStream> {
    let connected = UnixStream::connect(path);
    if let Err(error) = &connected {
        eprintln!("cannot connect: {error}");
        counts.failed_connects.fetch_add(1, Ordering::Relaxed);
    }
    let stream = connected.ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    Some(stream)
}

/// Opens the export `a`: NBD_OPT_EXPORT_NAME, without the zeroes behind the answer.
fn open(stream: &mut UnixStream) -> io::Result<()> {
    let mut greeting = [0; 18];
    stream.read_exact(&mut greeting)?;
    assert_eq!(&greeting[..16], b"NBDMAGICIHAVEOPT");
    stream.write_all(
        &[&3_u32.to_be_bytes()[..], b"IHAVEOPT", &1_u32.to_be_bytes(), &1_u32.to_be_bytes(), b"a"].concat(),
    )?;
    stream.read_exact(&mut [0; 10])
}

/// One request of a block, with its reply; the server's refusal is an error.
fn request(stream: &mut UnixStream, command: u16, block: u64, data: &[u8]) -> io::Result<Vec<u8>> {
    let mut bytes =
        [&0x2560_9513_u32.to_be_bytes()[..], &[0, 0], &command.to_be_bytes(), &block.to_be_bytes()].concat();
    bytes.extend((block * BLOCK_BYTES as u64).to_be_bytes());
    bytes.extend(u32::try_from(BLOCK_BYTES).unwrap().to_be_bytes());
    bytes.extend(data);
    stream.write_all(&bytes)?;
    let mut reply = [0; 16];
    stream.read_exact(&mut reply)?;
    if reply[4..8] != [0; 4] {
        return Err(io::Error::other("the server refuses the request"));
    }
    let mut answer = vec![0; if command == 0 { BLOCK_BYTES } else { 0 }];
    stream.read_exact(&mut answer)?;
    Ok(answer)
}

fn write(stream: &mut UnixStream, client: u64, number: u64, counts: &Counts) -> io::Result<()> {
    let data = number.to_be_bytes().repeat(BLOCK_BYTES / 8);
    request(stream, 1, client, &data)?;
    counts.written.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

/// Connects, writes, disconnects, over and over; or stays connected and connects again when it must. What was answered
/// last is read back after every connect.
fn client(path: &Path, client: u64, stays: bool, counts: &Counts) {
    let mut answered = 0;
    while !counts.must_stop.load(Ordering::Relaxed) {
        let Some(mut stream) = connect(path, counts) else { return };
        let mut work = || -> io::Result<()> {
            open(&mut stream)?;
            counts.opened.fetch_add(1, Ordering::Relaxed);
            let found = request(&mut stream, 0, client, &[])?;
            let found = u64::from_be_bytes(found[..8].try_into().unwrap());
            assert!(
                found == answered || found == answered + 1,
                "client {client}: {answered} was answered, {found} is there"
            );
            answered = found;
            loop {
                write(&mut stream, client, answered + 1, counts)?;
                answered += 1;
                if !stays || counts.must_stop.load(Ordering::Relaxed) {
                    return Ok(());
                }
            }
        };
        if work().is_err() {
            counts.interrupted.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[test]
fn a_server_is_replaced_under_load_and_no_connect_fails() {
    let directory = directory();
    let [backing, path, file] = ["a.img", "nbd.sock", "serve.toml"].map(|name| directory.path().join(name));
    sparse_file(&backing, 1 << 20);
    let text = format!(
        "[[device]]\nname = \"d\"\nmemory = \"64MiB\"\n[[device.export]]\nname = \"a\"\nbacking = \"{}\"\n[[listen]]\nunix = \
         \"{}\"\n",
        backing.display(),
        path.display()
    );
    fs::write(&file, text).unwrap();
    let listener = UnixListener::bind(&path).unwrap();
    let counts = Counts::default();
    thread::scope(|scope| {
        for number in 0..BRIEF + STAYING {
            let (path, counts) = (&path, &counts);
            scope.spawn(move || client(path, number, number >= BRIEF, counts));
        }
        let mut server = serve(&listener, &file);
        for restart in 0..=RESTARTS {
            let opened = counts.opened.load(Ordering::Relaxed);
            let written = counts.written.load(Ordering::Relaxed);
            await_that("every client works", || {
                counts.opened.load(Ordering::Relaxed) >= opened + BRIEF + STAYING
                    && counts.written.load(Ordering::Relaxed) >= written + 1_000
            });
            if restart == RESTARTS {
                counts.must_stop.store(true, Ordering::Relaxed);
                break;
            }
            kill_process(Pid::from_child(&server), Signal::TERM).unwrap();
            assert_eq!(wait_for_exit(&mut server).code(), Some(0), "the server drains");
            assert!(path.exists());
            // Clients connect meanwhile, and wait.
            thread::sleep(Duration::from_millis(50));
            server = serve(&listener, &file);
        }
        kill_process(Pid::from_child(&server), Signal::TERM).unwrap();
        assert_eq!(wait_for_exit(&mut server).code(), Some(0));
        // A client that connected at the very end finds no server any more.
        drop(listener);
    });
    assert_eq!(counts.failed_connects.load(Ordering::Relaxed), 0);
    let interrupted = counts.interrupted.load(Ordering::Relaxed);
    let most = (RESTARTS + 1) * (BRIEF + STAYING);
    assert!(interrupted >= RESTARTS * STAYING && interrupted <= most, "{interrupted} interruptions, at most {most}");
}

/// The socket that systemd makes is the one that the packaged configuration names: another path would become a listener
/// of its own.
#[test]
fn the_packaged_socket_is_the_packaged_listener() {
    let packaging = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging");
    let socket = fs::read_to_string(packaging.join("systemd/hoistway.socket")).unwrap();
    let configuration = fs::read_to_string(packaging.join("serve.toml")).unwrap();
    let path = socket.lines().find_map(|line| line.strip_prefix("ListenStream=")).unwrap();
    assert!(configuration.contains(&format!("[[listen]]\nunix = \"{path}\"\n")), "{path}");
    let service = fs::read_to_string(packaging.join("systemd/hoistway.service")).unwrap();
    assert!(service.contains("pidfd_getfd"), "the server may take the sockets over");
}
