//! The control socket: a thread that accepts operators, and one thread per operator that handles
//! its requests in turn. Where the system has no thread for an operator, the first thread handles its requests
//! itself, while others wait for a few seconds at most.

use std::convert::Infallible;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use serde_json::{Value, json};

use super::request::{MAXIMUM_LINE_BYTES, Refusal, Request, parse};
use crate::log::events::accept_paused;
use crate::server::socket::{ACCEPT_PAUSE, Accepted, Listening, accept};

/// Longest answer of a server: the status with the largest number of groups.
const MAXIMUM_ANSWER_BYTES: usize = 256 << 20;
/// How long an operator waits for an answer: longer than any request takes while the server's devices answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// How often connecting is tried again while too many other clients wait.
const CONNECT_INTERVAL: Duration = Duration::from_millis(50);
/// Operators at once; a further one is refused with a message.
const MAXIMUM_OPERATORS: usize = 16;
/// How long an operator may be idle.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// The same while others wait for it, because there is no thread for it.
const IDLE_TIMEOUT_WITHOUT_THREAD: Duration = Duration::from_secs(1);

/// A request with the channel for its answer.
pub struct PendingRequest {
    /// The request.
    pub request: Request,
    /// Takes exactly one answer.
    pub answer: mpsc::Sender<Value>,
    /// Disconnected once the answer has been sent to the operator.
    pub sent: mpsc::Receiver<Infallible>,
}

/// Serves a control socket until the process ends, or until requests are no longer taken.
///
/// `ask` passes a request on and returns whether it will be answered.
pub fn serve(listening: Listening, ask: impl Fn(PendingRequest) -> bool + Clone + Send + 'static) -> io::Result<()> {
    let operators = Arc::new(AtomicUsize::new(0));
    thread::Builder::new().name("control".into()).spawn(move || {
        let mut is_paused = false;
        loop {
            let mut descriptors = [PollFd::new(&listening.descriptor, PollFlags::IN)];
            let _ = poll(&mut descriptors, None);
            let socket = match accept(listening.descriptor.as_fd()) {
                Accepted::Client(socket) => socket,
                Accepted::Empty => continue,
                Accepted::Failed(error) => {
                    if !is_paused {
                        accept_paused(&listening.address.to_string(), &error.into());
                    }
                    is_paused = true;
                    thread::sleep(ACCEPT_PAUSE);
                    continue;
                }
            };
            is_paused = false;
            let mut stream = UnixStream::from(socket);
            if operators.fetch_add(1, Ordering::Relaxed) >= MAXIMUM_OPERATORS {
                operators.fetch_sub(1, Ordering::Relaxed);
                let _ = answer(&mut stream, &Refusal::new("", "too many operators at once; try again").to_json());
                continue;
            }
            let stream = Arc::new(stream);
            let (of_worker, ask_of_worker, count) = (stream.clone(), ask.clone(), operators.clone());
            let worker = thread::Builder::new().name("operator".into()).spawn(move || {
                // An operator that disconnects early is no error.
                let _ = serve_operator(&of_worker, &ask_of_worker, IDLE_TIMEOUT);
                count.fetch_sub(1, Ordering::Relaxed);
            });
            if worker.is_err() {
                let _ = serve_operator(&stream, &ask, IDLE_TIMEOUT_WITHOUT_THREAD);
                operators.fetch_sub(1, Ordering::Relaxed);
            }
        }
    })?;
    Ok(())
}

fn serve_operator(
    mut stream: &UnixStream,
    ask: &impl Fn(PendingRequest) -> bool,
    idle_timeout: Duration,
) -> io::Result<()> {
    stream.set_read_timeout(Some(idle_timeout))?;
    stream.set_write_timeout(Some(idle_timeout))?;
    let mut reader = BufReader::new(stream);
    loop {
        let mut line = Vec::new();
        let limit = u64::try_from(MAXIMUM_LINE_BYTES).unwrap_or(u64::MAX);
        (&mut reader).take(limit).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            return Ok(());
        }
        if line.last() != Some(&b'\n') && line.len() >= MAXIMUM_LINE_BYTES {
            return answer(&mut stream, &Refusal::new("", "the line is longer than 65536 bytes").to_json());
        }
        // Dropped after the answer has been sent.
        let (_sending, sent) = mpsc::channel();
        let reply = match parse(&line) {
            Err(refusal) => refusal.to_json(),
            Ok(request) => {
                let (sender, receiver) = mpsc::channel();
                let shutting_down = || json!({"error": "the server is shutting down", "field": ""});
                if ask(PendingRequest { request, answer: sender, sent }) {
                    receiver.recv().unwrap_or_else(|_| shutting_down())
                } else {
                    shutting_down()
                }
            }
        };
        answer(&mut stream, &reply)?;
    }
}

fn answer(stream: &mut impl Write, value: &Value) -> io::Result<()> {
    let mut line = value.to_string();
    line.push('\n');
    stream.write_all(line.as_bytes())
}

/// The operator's side: sends one request and waits for its answer.
///
/// # Errors
/// `TimedOut` if there is no whole answer within 30 s; any error of the socket; an answer that is no JSON or too long.
pub fn ask(path: &Path, request: &Value) -> io::Result<Value> {
    ask_within(path, request, ANSWER_TIMEOUT, MAXIMUM_ANSWER_BYTES)
}

fn ask_within(path: &Path, request: &Value, timeout: Duration, maximum_bytes: usize) -> io::Result<Value> {
    let invalid = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
    let end = Instant::now() + timeout;
    let late = |error: io::Error| match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            io::Error::new(io::ErrorKind::TimedOut, format!("the server did not answer within {timeout:?}"))
        }
        _ => error,
    };
    let mut stream = connect(path, end).map_err(late)?;
    stream.set_write_timeout(Some(left(end).map_err(late)?))?;
    answer(&mut stream, request).map_err(late)?;
    let mut line = Vec::new();
    let mut chunk = vec![0; 64 << 10];
    while line.last() != Some(&b'\n') {
        // One deadline for the whole answer: a server that sends a byte a second is as good as silent.
        stream.set_read_timeout(Some(left(end).map_err(late)?))?;
        let read = match stream.read(&mut chunk) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read.map_err(late)?,
        };
        if read == 0 && line.is_empty() {
            let what = "the server closed the connection without an answer";
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, what));
        }
        if read == 0 || line.len() + read > maximum_bytes {
            return Err(invalid(format!("the answer ends early or is longer than {maximum_bytes} bytes")));
        }
        line.extend_from_slice(&chunk[..read]);
    }
    serde_json::from_slice(&line).map_err(|error| invalid(format!("the answer is not of a hoistway server: {error}")))
}

/// The time until `end`; `TimedOut` if there is none.
fn left(end: Instant) -> io::Result<Duration> {
    let left = end.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// Connects until `end`. Where as many clients wait as the socket lets wait, connecting would block without a limit.
fn connect(path: &Path, end: Instant) -> io::Result<UnixStream> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    let address = SocketAddrUnix::new(path)?;
    loop {
        match rustix::net::connect(&socket, &address) {
            Err(Errno::AGAIN | Errno::INTR) => thread::sleep(left(end)?.min(CONNECT_INTERVAL)),
            connected => break connected?,
        }
    }
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What an operator who waits this long gets of a server that does this with its first connection.
    fn asked(
        patience: Duration,
        server: impl FnOnce(&std::os::unix::net::UnixListener) + Send + 'static,
    ) -> io::Result<Value> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("control");
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let (ends, ended) = mpsc::channel::<Infallible>();
        let server = thread::spawn(move || {
            server(&listener);
            // What is open stays open until the operator has given up.
            let _ = ended.recv();
        });
        let answer = ask_within(&path, &json!({"command": "status"}), patience, 1 << 20);
        drop(ends);
        server.join().unwrap();
        answer
    }

    #[test]
    fn a_silent_a_slow_and_an_endless_server_end_with_an_error() {
        let (short, long, wait) = (Duration::from_secs(1), Duration::from_secs(60), Duration::from_millis(100));
        let never = asked(short, |_| {});
        let silent = asked(short, |listener| std::mem::forget(listener.accept().unwrap()));
        let slow = asked(short, move |listener| {
            let mut stream = listener.accept().unwrap().0;
            while stream.write_all(b" ").is_ok() {
                thread::sleep(wait);
            }
        });
        let deaf = asked(short, |listener| {
            // One client may wait, and then as many as there are.
            rustix::net::listen(listener, 1).unwrap();
            let path = listener.local_addr().unwrap().as_pathname().unwrap().to_owned();
            while connect(&path, Instant::now() + Duration::from_millis(200)).map(std::mem::forget).is_ok() {}
        });
        for answer in [never, silent, slow, deaf] {
            let error = answer.unwrap_err();
            assert_eq!(
                (error.kind(), error.to_string()),
                (io::ErrorKind::TimedOut, "the server did not answer within 1s".into())
            );
        }
        let endless = asked(long, |listener| {
            let mut stream = listener.accept().unwrap().0;
            while stream.write_all(&[b'['; 4096]).is_ok() {}
        });
        assert!(endless.unwrap_err().to_string().contains("longer than 1048576 bytes"));
        let other =
            asked(long, |listener| listener.accept().unwrap().0.write_all(b"HTTP/1.1 400 Bad Request\r\n").unwrap());
        assert!(other.unwrap_err().to_string().contains("not of a hoistway server"));
    }

    #[test]
    fn an_answer_counts_as_sent_once_the_operator_has_it() {
        let (mut operator, server) = UnixStream::pair().unwrap();
        let (asks, asked) = mpsc::channel();
        let worker =
            thread::spawn(move || serve_operator(&server, &move |pending| asks.send(pending).is_ok(), IDLE_TIMEOUT));
        answer(&mut operator, &json!({"command": "drain"})).unwrap();
        let PendingRequest { request, answer: sender, sent } = asked.recv().unwrap();
        assert!(matches!(request, Request::Drain));
        assert_eq!(sent.try_recv(), Err(mpsc::TryRecvError::Empty));
        sender.send(json!({"ok": "draining"})).unwrap();
        assert_eq!(sent.recv(), Err(mpsc::RecvError));
        operator.set_nonblocking(true).unwrap();
        let mut line = String::new();
        BufReader::new(&operator).read_line(&mut line).unwrap();
        assert_eq!(line, "{\"ok\":\"draining\"}\n");
        drop(operator);
        assert!(worker.join().unwrap().is_ok());
    }
}
