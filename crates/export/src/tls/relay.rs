//! Relays: one thread per TLS client that moves bytes between its session and the shard's socket.
//!
//! Promise  a relay holds at most [`BUFFER_BYTES`] of received bytes, these and a record decrypted, and
//!          as much encrypted; a direction whose receiver is slow stops reading and nothing is
//!          dropped. A relay ends at most [`END_TIMEOUT`] after the shard has closed its socket.
//! Cost     a poll, a receive and a send per direction and turn, and the work of the cipher.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use hoistway_linux::socket::{shut_down, tune};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType, recv, send, shutdown};

use super::session::Session;
use crate::server::descriptors::is_reserved;

/// Bytes that are received at once in either direction.
pub const BUFFER_BYTES: usize = 64 * 1024;
/// Longest content of a record, of which an incomplete one may wait in the session.
const RECORD_BYTES: usize = 16 * 1024;
/// How long a relay lasts after the shard closed its socket: for the last answers, the session's end, and
/// a client that has still something to send.
pub const END_TIMEOUT: Duration = Duration::from_secs(1);
/// Address space of a relay's stack, which holds no buffers.
const STACK_BYTES: usize = 256 * 1024;

/// The running relays of a listener.
#[derive(Debug, Default)]
pub struct Relays {
    running: Mutex<usize>,
    ended: Condvar,
}

/// The connection between a relay and the shard.
pub struct Pair {
    shard: OwnedFd,
    far: OwnedFd,
}

impl Pair {
    /// A new one.
    ///
    /// # Errors
    /// There are no descriptors for another client.
    pub fn open() -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC;
        let (shard, far) = rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        if is_reserved(&shard) || is_reserved(&far) {
            return Err(Errno::MFILE.into());
        }
        Ok(Self { shard, far })
    }
}

impl Relays {
    /// Starts the relay of a session that is established; returns the shard's end of it. `held` is
    /// dropped when the relay has ended.
    ///
    /// # Errors
    /// The system has no memory or no thread for it. The client's connection is closed.
    pub fn start(
        self: &Arc<Self>,
        session: Session,
        client: OwnedFd,
        pair: Pair,
        held: impl Send + 'static,
    ) -> io::Result<OwnedFd> {
        tune(std::os::fd::AsFd::as_fd(&client))?;
        let Pair { shard, far } = pair;
        let running = Running::new(self);
        let relay = Relay::new(session, client, shard);
        thread::Builder::new().name("tls relay".into()).stack_size(STACK_BYTES).spawn(move || {
            relay.run();
            drop(held);
            drop(running);
        })?;
        Ok(far)
    }

    /// Waits until no relay runs, at most for a while; returns how many still run.
    pub fn wait(&self, timeout: Duration) -> usize {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.ended.wait_timeout_while(running, timeout, |running| *running > 0);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// Counts as running until dropped.
struct Running(Arc<Relays>);

impl Running {
    fn new(relays: &Arc<Relays>) -> Self {
        *relays.running.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        Self(relays.clone())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        *self.0.running.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.0.ended.notify_all();
    }
}

/// Whether one of the two sides has ended.
#[derive(Copy, Clone, PartialEq, Eq)]
enum Side {
    /// It may send.
    Open,
    /// It sends nothing more, and what it sent was not passed on as a whole yet.
    Ending,
    /// The other side was told.
    Ended,
}

/// The relay is over; nothing is left to pass on.
struct Over;

struct Relay {
    session: Session,
    client: OwnedFd,
    shard: OwnedFd,
    client_side: Side,
    shard_side: Side,
    /// Set when the shard has closed its socket.
    deadline: Option<Instant>,
    buffer: Box<[u8]>,
    /// Decrypted bytes for the shard, of which the first `passed` were sent.
    decrypted: Vec<u8>,
    passed: usize,
}

impl Relay {
    fn new(session: Session, client: OwnedFd, shard: OwnedFd) -> Self {
        let client_side = if session.has_ended() { Side::Ending } else { Side::Open };
        Self {
            session,
            client,
            shard,
            client_side,
            shard_side: Side::Open,
            deadline: None,
            buffer: vec![0; BUFFER_BYTES].into_boxed_slice(),
            decrypted: Vec::with_capacity(BUFFER_BYTES + RECORD_BYTES),
            passed: 0,
        }
    }

    /// Moves bytes until both sides have ended, one is broken, or the time is over.
    fn run(mut self) {
        while self.turn().is_ok() {}
        // A shard that has not closed its socket closes it because of this.
        shut_down(std::os::fd::AsFd::as_fd(&self.client));
    }

    fn turn(&mut self) -> Result<(), Over> {
        let (client, shard) = self.wait()?;
        if shard.intersects(PollFlags::HUP | PollFlags::ERR) && self.deadline.is_none() {
            self.deadline = Some(Instant::now() + END_TIMEOUT);
        }
        if !client.is_empty() && self.reads_client() {
            self.receive_from_client()?;
        }
        if self.passed < self.decrypted.len() {
            self.pass_to_shard();
        }
        if self.client_side == Side::Ending && self.decrypted.is_empty() {
            self.client_side = Side::Ended;
            // The shard may have closed its socket first.
            let _ = shutdown(&self.shard, Shutdown::Write);
        }
        if !shard.is_empty() && self.reads_shard() {
            self.receive_from_shard()?;
        }
        self.session.send(&self.client).map_err(|_| Over)?;
        if self.shard_side == Side::Ending && !self.session.wants_write() {
            self.shard_side = Side::Ended;
            shutdown(&self.client, Shutdown::Write).map_err(|_| Over)?;
        }
        match (self.client_side, self.shard_side) {
            (Side::Ended, Side::Ended) => Err(Over),
            _ => Ok(()),
        }
    }

    /// Waits until one of the sides can go on; returns their events.
    fn wait(&self) -> Result<(PollFlags, PollFlags), Over> {
        let now = Instant::now();
        if self.deadline.is_some_and(|deadline| deadline <= now) {
            return Err(Over);
        }
        let wanted = |read: bool, write: bool| {
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::IN, read);
            flags.set(PollFlags::OUT, write);
            flags
        };
        let of_client = wanted(self.reads_client(), self.session.wants_write());
        let of_shard = wanted(self.reads_shard(), !self.decrypted.is_empty());
        // A closed socket is always reported, so one from which nothing is wanted is left out. The
        // shard's is watched until it is closed: its end ends the relay.
        let watches_shard = !of_shard.is_empty() || self.deadline.is_none();
        let mut descriptors = Vec::with_capacity(2);
        if !of_client.is_empty() {
            descriptors.push(PollFd::new(&self.client, of_client));
        }
        if watches_shard {
            descriptors.push(PollFd::new(&self.shard, of_shard));
        }
        let timeout = self.deadline.map(|deadline| deadline.saturating_duration_since(now)).map(|left| Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(left.subsec_nanos()),
        });
        // An interrupted wait counts as a turn without events.
        let _ = poll(&mut descriptors, timeout.as_ref());
        let mut events = descriptors.iter().map(PollFd::revents);
        let mut next = |is_watched: bool| if is_watched { events.next() } else { None }.unwrap_or(PollFlags::empty());
        Ok((next(!of_client.is_empty()), next(watches_shard)))
    }

    /// Nothing more is received before the shard has taken what was received. After the shard's end what
    /// the client sends is received and dropped: unread, it would destroy the last answers on their way.
    fn reads_client(&self) -> bool {
        self.client_side == Side::Open && self.decrypted.is_empty()
    }

    fn reads_shard(&self) -> bool {
        self.shard_side == Side::Open && !self.session.wants_write()
    }

    fn receive_from_client(&mut self) -> Result<(), Over> {
        let length = match recv(&self.client, &mut self.buffer[..], RecvFlags::DONTWAIT) {
            Ok((0, _)) => {
                self.client_side = Side::Ending;
                return Ok(());
            }
            Ok((length, _)) => length,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(()),
            Err(_) => return Err(Over),
        };
        if self.shard_side == Side::Ended {
            return Ok(());
        }
        if self.session.receive(&self.buffer[..length], &mut self.decrypted).is_err() {
            // Tells the client why, if it still listens.
            let _ = self.session.send(&self.client);
            return Err(Over);
        }
        if self.session.has_ended() {
            self.client_side = Side::Ending;
        }
        Ok(())
    }

    /// Sends decrypted bytes as far as the shard takes them.
    fn pass_to_shard(&mut self) {
        while let rest @ [_, ..] = &self.decrypted[self.passed..] {
            match send(&self.shard, rest, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(sent) => self.passed += sent,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                // The shard has closed its socket, and takes nothing more.
                Err(_) => break,
            }
        }
        self.decrypted.clear();
        self.passed = 0;
    }

    fn receive_from_shard(&mut self) -> Result<(), Over> {
        match recv(&self.shard, &mut self.buffer[..], RecvFlags::DONTWAIT) {
            Ok((length @ 1.., _)) => self.session.encrypt(&self.buffer[..length]).map_err(|_| Over)?,
            Err(Errno::AGAIN | Errno::INTR) => {}
            Ok(_) | Err(_) => {
                self.shard_side = Side::Ending;
                self.deadline = self.deadline.or(Some(Instant::now() + END_TIMEOUT));
                self.session.close();
            }
        }
        Ok(())
    }
}
