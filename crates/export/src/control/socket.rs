//! The control socket: a thread that accepts operators, and one thread per operator that handles
//! its requests in turn.

use std::convert::Infallible;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::SocketFlags;
use serde_json::{Value, json};

use super::request::{MAXIMUM_LINE_BYTES, Refusal, Request, parse};
use crate::server::socket::Listening;

/// Longest answer of a server: the status with the largest number of groups.
const MAXIMUM_ANSWER_BYTES: u64 = 256 << 20;
/// Operators at once; a further one is refused with a message.
const MAXIMUM_OPERATORS: usize = 16;
/// How long an operator may be idle.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

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
        loop {
            let mut descriptors = [PollFd::new(&listening.descriptor, PollFlags::IN)];
            let _ = poll(&mut descriptors, None);
            let Ok(socket) = rustix::net::accept_with(&listening.descriptor, SocketFlags::CLOEXEC) else { continue };
            let mut stream = UnixStream::from(socket);
            if operators.fetch_add(1, Ordering::Relaxed) >= MAXIMUM_OPERATORS {
                operators.fetch_sub(1, Ordering::Relaxed);
                let _ = answer(&mut stream, &Refusal::new("", "too many operators at once; try again").to_json());
                continue;
            }
            let (ask, count) = (ask.clone(), operators.clone());
            let worker = thread::Builder::new().name("operator".into()).spawn(move || {
                // An operator that disconnects early is no error.
                let _ = serve_operator(stream, &ask);
                count.fetch_sub(1, Ordering::Relaxed);
            });
            if worker.is_err() {
                operators.fetch_sub(1, Ordering::Relaxed);
            }
        }
    })?;
    Ok(())
}

fn serve_operator(mut stream: UnixStream, ask: &impl Fn(PendingRequest) -> bool) -> io::Result<()> {
    stream.set_read_timeout(Some(IDLE_TIMEOUT))?;
    stream.set_write_timeout(Some(IDLE_TIMEOUT))?;
    let mut reader = BufReader::new(stream.try_clone()?);
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

fn answer(stream: &mut UnixStream, value: &Value) -> io::Result<()> {
    let mut line = value.to_string();
    line.push('\n');
    stream.write_all(line.as_bytes())
}

/// The operator's side: sends one request and waits for its answer.
pub fn ask(path: &Path, request: &Value) -> io::Result<Value> {
    let mut stream = UnixStream::connect(path)?;
    answer(&mut stream, request)?;
    let mut line = Vec::new();
    BufReader::new(stream).take(MAXIMUM_ANSWER_BYTES).read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection without an answer"));
    }
    if line.last() != Some(&b'\n') {
        let what = format!("the answer ends early or is longer than {} MiB", MAXIMUM_ANSWER_BYTES >> 20);
        return Err(io::Error::new(io::ErrorKind::InvalidData, what));
    }
    serde_json::from_slice(&line).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_counts_as_sent_once_the_operator_has_it() {
        let (mut operator, server) = UnixStream::pair().unwrap();
        let (asks, asked) = mpsc::channel();
        let worker = thread::spawn(move || serve_operator(server, &move |pending| asks.send(pending).is_ok()));
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
