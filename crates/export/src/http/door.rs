//! A door: a listening socket, its connections, and the thread that calls [`Door::turn`].
//!
//! Promise  no call waits for a peer. What all peers hold together is bounded, whatever they send or do not read; a
//!          request that arrived with its connection is answered before anyone is ended for lack of room; a failed
//!          accept is waited out.
//! Cost     one poll over at most 65 descriptors per turn.

use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown, sockopt};

use super::request::{HEAD_MAX_BYTES, Method, Parsed, Request, parse};
use super::response::Response;
use crate::configuration::Address;
use crate::log::events::accept_paused;
use crate::server::crowd;
use crate::server::peer::{Holder, Peer};
use crate::server::socket::{ACCEPT_PAUSE, Accepted, Listening, accept};

/// Connections at a time: a few readers, and room for those that have gone.
pub const CONNECTIONS_MAX: usize = 64;
/// Connections that other threads have at a time.
const TAKEN_MAX: usize = 32;
/// From the connection to the end of its request. One that has gone this far unanswered is a slow one.
const REQUEST_TIME: Duration = Duration::from_secs(5);
/// How long a response may take to be read: a large one over a slow line.
const RESPONSE_TIME: Duration = Duration::from_secs(30);
/// How long a peer that was answered has to end the connection.
const END_TIME: Duration = Duration::from_secs(1);
/// How long a write of another thread waits for a peer that does not read.
const TAKEN_WRITE_TIME: Duration = Duration::from_secs(300);
/// Bytes of responses that peers have not read yet.
const UNREAD_MAX_BYTES: usize = 64 << 20;
/// Bytes received at a time.
const RECEIVE_BYTES: usize = 16 << 10;

/// What becomes of a request.
pub enum Answer {
    /// It is answered.
    Response(Response),
    /// Its connection goes to another thread, which this starts.
    Take(Box<dyn FnOnce(Taken)>),
}

/// A connection in the hands of another thread. Closed when dropped.
pub struct Taken {
    socket: OwnedFd,
    _place: Arc<()>,
}

impl Taken {
    /// Sends a response.
    ///
    /// # Errors
    /// The peer is gone, or has read nothing for five minutes.
    pub fn respond(mut self, response: &Response) -> io::Result<()> {
        self.write_all(&response.bytes(Method::Get))
    }
}

impl Write for Taken {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(send(&self.socket, bytes, SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

enum State {
    Reading(Vec<u8>),
    /// A response, and how many bytes of it were sent.
    Writing(Vec<u8>, usize),
    /// The peer was told that nothing more comes. What it still sends is read and dropped: unread, it would
    /// destroy the response on its way.
    Ending,
}

struct Connection {
    socket: OwnedFd,
    holder: Holder,
    state: State,
    /// When it came, or when its response began.
    step_at: Instant,
    deadline: Instant,
}

/// Whether there is more to do with a connection now.
enum Next {
    Goes,
    Waits,
    Closes,
    Take(Box<dyn FnOnce(Taken)>),
}

impl Connection {
    fn new(socket: OwnedFd, holder: Holder) -> Self {
        let now = Instant::now();
        Self { socket, holder, state: State::Reading(Vec::new()), step_at: now, deadline: now + REQUEST_TIME }
    }

    fn respond(&mut self, response: &Response, method: Method) -> Next {
        // The answer may have taken its time.
        self.step_at = Instant::now();
        self.deadline = self.step_at + RESPONSE_TIME;
        self.state = State::Writing(response.bytes(method), 0);
        Next::Goes
    }

    /// One receive or send, and what follows from it.
    fn step(&mut self, body_max_bytes: usize, answer: &mut dyn FnMut(&Request) -> Answer) -> Next {
        match &mut self.state {
            State::Reading(bytes) => {
                let mut buffer = [0; RECEIVE_BYTES];
                match recv(&self.socket, &mut buffer[..], RecvFlags::DONTWAIT) {
                    Ok((length @ 1.., _)) => bytes.extend_from_slice(&buffer[..length]),
                    Err(Errno::AGAIN | Errno::INTR) => return Next::Waits,
                    Ok(_) | Err(_) => return Next::Closes,
                }
                match parse(bytes, body_max_bytes) {
                    Parsed::Incomplete if bytes.len() < HEAD_MAX_BYTES + body_max_bytes => Next::Goes,
                    Parsed::Incomplete => Next::Closes,
                    Parsed::Refused(response) => self.respond(&response, Method::Get),
                    Parsed::Request(request) => match answer(&request) {
                        Answer::Response(response) => self.respond(&response, request.method),
                        Answer::Take(take) => Next::Take(take),
                    },
                }
            }
            State::Writing(bytes, sent) => {
                match send(&self.socket, &bytes[*sent..], SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                    Ok(length) => *sent += length,
                    Err(Errno::AGAIN | Errno::INTR) => return Next::Waits,
                    Err(_) => return Next::Closes,
                }
                if *sent < bytes.len() {
                    return Next::Goes;
                }
                if shutdown(&self.socket, Shutdown::Write).is_err() {
                    return Next::Closes;
                }
                self.state = State::Ending;
                self.deadline = Instant::now() + END_TIME;
                Next::Goes
            }
            State::Ending => match recv(&self.socket, &mut [0; RECEIVE_BYTES][..], RecvFlags::DONTWAIT) {
                // One that sends without end has its turn like the others.
                Ok((1.., _)) | Err(Errno::AGAIN | Errno::INTR) => Next::Waits,
                Ok(_) | Err(_) => Next::Closes,
            },
        }
    }

    /// What follows once the deadline has passed.
    fn expire(&mut self) -> Next {
        match &self.state {
            State::Reading(bytes) if !bytes.is_empty() => {
                self.respond(&Response::error(408, "the request took longer than 5 s"), Method::Get)
            }
            _ => Next::Closes,
        }
    }

    fn unread_bytes(&self) -> usize {
        match &self.state {
            State::Writing(bytes, sent) => bytes.len() - sent,
            State::Reading(_) | State::Ending => 0,
        }
    }
}

/// A listening socket with its connections.
pub struct Door {
    listener: OwnedFd,
    address: Address,
    body_max_bytes: usize,
    connections: Vec<Connection>,
    /// One more reference for each connection that another thread has.
    taken: Arc<()>,
    accept_again_at: Option<Instant>,
}

impl Door {
    /// A door at a socket that does not block. With `body_max_bytes` above 0, POST is answered as well as GET and HEAD.
    pub fn new(listening: Listening, body_max_bytes: usize) -> Self {
        let Listening { descriptor, address, .. } = listening;
        let (connections, taken) = (Vec::new(), Arc::new(()));
        Self { listener: descriptor, address, body_max_bytes, connections, taken, accept_again_at: None }
    }

    /// Waits for peers, for `timeout` at most, and answers those that have sent a request. `answer` runs on this
    /// thread.
    pub fn turn(&mut self, timeout: Option<Duration>, answer: &mut dyn FnMut(&Request) -> Answer) {
        let ready = self.wait(timeout);
        for (mut connection, is_ready) in std::mem::take(&mut self.connections).into_iter().zip(ready) {
            // What has arrived counts before what is late: an answer may have delayed this turn.
            let next = if is_ready { self.serve(&mut connection, answer) } else { Next::Waits };
            let next = match next {
                Next::Waits if connection.deadline <= Instant::now() => match connection.expire() {
                    Next::Goes => self.serve(&mut connection, answer),
                    next => next,
                },
                next => next,
            };
            self.put(connection, next);
        }
        self.accept(answer);
        self.end_surplus();
    }

    /// Waits for any event; returns for each connection whether it had one.
    fn wait(&self, timeout: Option<Duration>) -> Vec<bool> {
        let now = Instant::now();
        let paused = self.accept_again_at.filter(|at| *at > now);
        let mut descriptors = Vec::with_capacity(self.connections.len() + 1);
        for connection in &self.connections {
            let wanted = if matches!(connection.state, State::Writing(..)) { PollFlags::OUT } else { PollFlags::IN };
            descriptors.push(PollFd::new(&connection.socket, wanted));
        }
        if paused.is_none() {
            descriptors.push(PollFd::new(&self.listener, PollFlags::IN));
        }
        let deadlines = self.connections.iter().map(|connection| connection.deadline);
        let next = deadlines.chain(paused).chain(timeout.map(|timeout| now + timeout)).min();
        let timeout = next.map(|at| at.saturating_duration_since(now)).map(|left| Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(left.subsec_nanos()),
        });
        // An interrupted wait counts as a turn without events.
        let _ = poll(&mut descriptors, timeout.as_ref());
        descriptors[..self.connections.len()].iter().map(|it| !it.revents().is_empty()).collect()
    }

    /// Goes on with a connection until it has to wait.
    fn serve(&self, connection: &mut Connection, answer: &mut dyn FnMut(&Request) -> Answer) -> Next {
        loop {
            match connection.step(self.body_max_bytes, answer) {
                Next::Goes => {}
                Next::Take(_) if Arc::strong_count(&self.taken) > TAKEN_MAX => {
                    connection.respond(&Response::error(503, "too many requests are being answered"), Method::Get);
                }
                next => return next,
            }
        }
    }

    /// Keeps, closes or hands over a connection.
    fn put(&mut self, connection: Connection, next: Next) {
        match next {
            Next::Goes | Next::Waits => self.connections.push(connection),
            Next::Closes => {}
            Next::Take(take) => {
                let socket = connection.socket;
                if sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(TAKEN_WRITE_TIME)).is_ok() {
                    take(Taken { socket, _place: self.taken.clone() });
                }
            }
        }
    }

    fn accept(&mut self, answer: &mut dyn FnMut(&Request) -> Answer) {
        if self.accept_again_at.is_some_and(|at| at > Instant::now()) {
            return;
        }
        for _ in 0..CONNECTIONS_MAX {
            match accept(self.listener.as_fd()) {
                Accepted::Empty => break,
                Accepted::Client(socket) => {
                    let holder = Peer::of(&socket, &self.address, false).holder();
                    let mut connection = Connection::new(socket, holder);
                    let next = self.serve(&mut connection, answer);
                    self.put(connection, next);
                }
                Accepted::Failed(error) => {
                    if self.accept_again_at.is_none() {
                        accept_paused(&self.address.to_string(), &error.into());
                    }
                    self.accept_again_at = Some(Instant::now() + ACCEPT_PAUSE);
                    return;
                }
            }
        }
        self.accept_again_at = None;
    }

    /// Ends the connections that are too many, and those whose responses are too much.
    fn end_surplus(&mut self) {
        if self.connections.len() > CONNECTIONS_MAX {
            self.connections.retain(|it| !matches!(it.state, State::Ending));
            let waiting: Vec<_> = self.connections.iter().map(|it| (it.holder.clone(), it.step_at)).collect();
            let mut surplus = crowd::surplus(&waiting, CONNECTIONS_MAX, Instant::now());
            surplus.sort_unstable();
            surplus.into_iter().rev().for_each(|at| drop(self.connections.swap_remove(at)));
        }
        let mut unread_bytes: usize = self.connections.iter().map(Connection::unread_bytes).sum();
        while unread_bytes > UNREAD_MAX_BYTES {
            let writing = self.connections.iter().enumerate().filter(|(_, it)| it.unread_bytes() > 0);
            // The last response is kept, however long it is.
            if writing.clone().count() < 2 {
                return;
            }
            let Some((oldest, _)) = writing.min_by_key(|(_, it)| it.step_at) else { return };
            unread_bytes -= self.connections.swap_remove(oldest).unread_bytes();
        }
    }
}
