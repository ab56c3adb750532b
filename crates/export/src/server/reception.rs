//! Reception: one thread per listening socket that accepts clients and leads them through the handshake.
//!
//! Promise  a client that is slow, silent or hostile costs a place among [`MAXIMUM_HALF_OPEN`] for at most the
//!          handshake's timeout, and delays nobody: no call in here waits for one client.
//! Cost     one poll over at most 66 descriptors per turn; no work at all while nobody arrives.
//! Source   engine specification 4.4, 5.1, 5.10. It speaks of handshake workers; without TLS a handshake is a few
//!          microseconds of parsing, so this thread does them all, and a worker is needed only once TLS comes.
//!
//! accept -> limits -> who is it -> [`Handshake`] -> [`Acceptor::attach`]: from there the shard owns the socket.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use linux::event::Event;
use linux::socket::shut_down;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, SendFlags, SocketFlags};

use super::peer::{Peer, group_of, identify, may_see};
use super::socket::Listening;
use crate::configuration::{Address, Configuration, Listener, Who};
use crate::nbd::handshake::{ExportFacts, Handshake, Negotiated, Step, View};

/// Handshakes under way on one listener; the oldest goes when one more arrives.
pub const MAXIMUM_HALF_OPEN: usize = 64;
/// Bytes of answers that may wait for a client that does not read; its options wait as long.
const MAXIMUM_UNSENT_BYTES: usize = 64 * 1024;
/// Bytes taken from one client at a time.
const RECEIVE_BYTES: usize = 16 * 1024;
/// How long nobody is accepted after the system ran out of descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What handshakes go by at one moment; replaced as a whole by a reload.
#[derive(Debug)]
pub struct InForce {
    /// The configuration.
    pub configuration: Configuration,
    /// What may be said of each export that is open.
    pub facts: Vec<ExportFacts>,
    /// The server is going down.
    pub draining: bool,
}

/// A client that is through its handshake.
pub struct Arrival {
    /// The socket, blocking, nothing left to send.
    pub socket: OwnedFd,
    /// Bytes that arrived behind the handshake.
    pub received: Vec<u8>,
    /// What was agreed.
    pub negotiated: Negotiated,
    /// Who it is.
    pub peer: Peer,
    /// The group that pays for its I/O.
    pub group: String,
    /// Its place among the listener's connections; given back when dropped.
    pub ticket: Ticket,
}

/// Takes clients over from reception.
pub trait Acceptor: Send + Sync {
    /// What handshakes go by now.
    fn in_force(&self) -> Arc<InForce>;
    /// Takes a client over; whatever goes wrong with it from here on concerns nobody else.
    fn attach(&self, arrival: Arrival);
}

/// What happened at one listener since the start.
#[derive(Debug, Default)]
pub struct Counts {
    /// Connections open now, handshakes included.
    pub open: AtomicUsize,
    /// Connections accepted.
    pub accepted: AtomicU64,
    /// Connections closed at once because there were too many.
    pub refused: AtomicU64,
    /// Handshakes that took too long, or gave way to a newer one.
    pub expired: AtomicU64,
}

/// One connection's place; gives it back when dropped.
#[derive(Debug)]
pub struct Ticket(Arc<Counts>);

impl Ticket {
    /// A place, unless `limit` are taken.
    fn take(counts: &Arc<Counts>, limit: usize) -> Option<Self> {
        let free = |open: usize| (open < limit).then_some(open + 1);
        counts.open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, free).ok()?;
        Some(Self(counts.clone()))
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// How other threads reach a reception.
#[derive(Debug)]
pub struct Bell {
    event: Event,
    stop: AtomicBool,
}

impl Bell {
    /// Nobody has rung yet.
    pub fn new() -> io::Result<Self> {
        Ok(Self { event: Event::new()?, stop: AtomicBool::new(false) })
    }

    /// Something in force has changed: look at once.
    pub fn ring(&self) {
        self.event.signal();
    }

    /// The thread must end; open handshakes are closed.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.event.signal();
    }
}

/// A client inside its handshake.
struct HalfOpen {
    socket: OwnedFd,
    handshake: Handshake,
    peer: Peer,
    ticket: Ticket,
    deadline: Instant,
    received: Vec<u8>,
    unsent: Vec<u8>,
    /// Set by the last step: what happens when everything is sent.
    end: Option<End>,
}

impl HalfOpen {
    /// Whether it is the client's turn to write.
    fn is_idle(&self) -> bool {
        self.unsent.is_empty() && self.received.is_empty()
    }
}

enum End {
    Attach(Negotiated),
    Close,
}

/// What became of a client in one turn.
enum Turn {
    Stays,
    Leaves,
    Attach(Negotiated),
}

/// The state of one reception thread.
pub struct Reception {
    listening: Option<Listening>,
    /// The address as configured.
    address: Address,
    acceptor: Arc<dyn Acceptor>,
    counts: Arc<Counts>,
    bell: Arc<Bell>,
    bell_descriptor: OwnedFd,
    half_open: VecDeque<HalfOpen>,
    accept_again_at: Option<Instant>,
}

impl Reception {
    /// A reception behind a socket that listens. [`Reception::run`] is its thread.
    pub fn new(
        listening: Listening,
        acceptor: Arc<dyn Acceptor>,
        counts: Arc<Counts>,
        bell: Arc<Bell>,
    ) -> io::Result<Self> {
        let bell_descriptor = bell.event.descriptor()?;
        let address = listening.configured.clone();
        let half_open = VecDeque::new();
        let listening = Some(listening);
        Ok(Self { listening, address, acceptor, counts, bell, bell_descriptor, half_open, accept_again_at: None })
    }

    /// Serves until [`Bell::stop`].
    pub fn run(mut self) {
        loop {
            let events = self.wait();
            self.bell.event.clear();
            if self.bell.stop.load(Ordering::Acquire) {
                return;
            }
            let in_force = self.acceptor.in_force();
            if in_force.draining {
                // Closes the socket and removes its file: the next server may take its place.
                self.listening = None;
            }
            self.turn(&events, &in_force);
            self.accept(&in_force);
        }
    }

    /// Waits for anything at all; which half-open clients had an event, in their order.
    fn wait(&self) -> Vec<bool> {
        let now = Instant::now();
        let paused = self.accept_again_at.filter(|at| *at > now);
        let mut descriptors = vec![PollFd::new(&self.bell_descriptor, PollFlags::IN)];
        for client in &self.half_open {
            let wanted = if client.is_idle() { PollFlags::IN } else { PollFlags::OUT };
            descriptors.push(PollFd::new(&client.socket, wanted));
        }
        if let Some(listening) = self.listening.as_ref().filter(|_| paused.is_none()) {
            descriptors.push(PollFd::new(&listening.descriptor, PollFlags::IN));
        }
        let next = self.half_open.iter().map(|client| client.deadline).chain(paused).min();
        let timeout = next.map(|at| at.saturating_duration_since(now)).map(|left| Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(left.subsec_nanos()),
        });
        // An interrupted wait is a turn in which nothing happened.
        let _ = poll(&mut descriptors, timeout.as_ref());
        descriptors[1..=self.half_open.len()].iter().map(|descriptor| !descriptor.revents().is_empty()).collect()
    }

    fn turn(&mut self, events: &[bool], in_force: &InForce) {
        let now = Instant::now();
        let count = self.half_open.len();
        for index in 0..count {
            let Some(mut client) = self.half_open.pop_front() else { return };
            let had_event = events.get(index).copied().unwrap_or(false);
            let turn = if client.deadline <= now {
                self.counts.expired.fetch_add(1, Ordering::Relaxed);
                Turn::Leaves
            } else if had_event {
                self.serve(&mut client, in_force)
            } else {
                Turn::Stays
            };
            match turn {
                Turn::Stays => self.half_open.push_back(client),
                Turn::Leaves => shut_down(client.socket.as_fd()),
                Turn::Attach(negotiated) => self.attach(client, negotiated, in_force),
            }
        }
    }

    /// One client's turn: read if nothing is left to do, answer, send what there is.
    fn serve(&self, client: &mut HalfOpen, in_force: &InForce) -> Turn {
        if client.is_idle() {
            let mut buffer = [0; RECEIVE_BYTES];
            match rustix::net::recv(&client.socket, &mut buffer[..], RecvFlags::DONTWAIT) {
                Ok((0, _)) => return Turn::Leaves,
                Ok((length, _)) => client.received.extend_from_slice(&buffer[..length]),
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return Turn::Stays,
                Err(_) => return Turn::Leaves,
            }
        }
        if client.unsent.is_empty() && client.end.is_none() {
            self.answer(client, in_force);
        }
        if !send(client) {
            return Turn::Leaves;
        }
        match client.end.take() {
            end if !client.unsent.is_empty() => {
                client.end = end;
                Turn::Stays
            }
            Some(End::Close) => Turn::Leaves,
            Some(End::Attach(negotiated)) => Turn::Attach(negotiated),
            None => Turn::Stays,
        }
    }

    /// Lets the handshake work through what was received, until it ends or the answers grow long.
    fn answer(&self, client: &mut HalfOpen, in_force: &InForce) {
        let configuration = &in_force.configuration;
        let Some(listener) = listener_at(configuration, &self.address) else {
            client.end = Some(End::Close);
            return;
        };
        let identity = identify(configuration, &client.peer, &self.address);
        let exports: Vec<ExportFacts> =
            in_force.facts.iter().filter(|facts| may_see(identity, listener, &facts.name)).cloned().collect();
        let view = View { exports: &exports, listing: listener.list, draining: in_force.draining };
        let mut input = client.received.as_slice();
        while !input.is_empty() && client.end.is_none() && client.unsent.len() < MAXIMUM_UNSENT_BYTES {
            client.end = match client.handshake.advance(&mut input, view, &mut client.unsent) {
                Step::NeedInput | Step::Answered => None,
                Step::Negotiated(negotiated) => Some(End::Attach(negotiated)),
                Step::Close(_) => Some(End::Close),
            };
        }
        let used = client.received.len() - input.len();
        client.received.drain(..used);
    }

    fn attach(&self, client: HalfOpen, negotiated: Negotiated, in_force: &InForce) {
        let configuration = &in_force.configuration;
        let export = configuration.exports().find(|(_, export)| export.name.value == negotiated.export);
        let Some((_, export)) = export else {
            // A reload took the export away between the answer and now.
            return shut_down(client.socket.as_fd());
        };
        let identity = identify(configuration, &client.peer, &self.address);
        self.acceptor.attach(Arrival {
            group: group_of(identity, &client.peer, export),
            socket: client.socket,
            received: client.received,
            negotiated,
            peer: client.peer,
            ticket: client.ticket,
        });
    }

    /// Takes in everybody who waits at the door.
    fn accept(&mut self, in_force: &InForce) {
        let now = Instant::now();
        if self.accept_again_at.is_some_and(|at| at > now) {
            return;
        }
        self.accept_again_at = None;
        for _ in 0..MAXIMUM_HALF_OPEN {
            let Some(listening) = &self.listening else { return };
            // Blocking on purpose: a ring answers EAGAIN on sockets that are not, where the shard wants to wait.
            match rustix::net::accept_with(&listening.descriptor, SocketFlags::CLOEXEC) {
                Ok(socket) => self.welcome(socket, in_force, now),
                Err(rustix::io::Errno::AGAIN) => return,
                Err(rustix::io::Errno::MFILE | rustix::io::Errno::NFILE | rustix::io::Errno::NOMEM) => {
                    self.accept_again_at = Some(now + ACCEPT_PAUSE);
                    return;
                }
                // The client went away between knocking and now, or a signal came.
                Err(_) => {}
            }
        }
    }

    fn welcome(&mut self, socket: OwnedFd, in_force: &InForce, now: Instant) {
        let configuration = &in_force.configuration;
        let Some(listener) = listener_at(configuration, &self.address) else { return shut_down(socket.as_fd()) };
        let limit = usize::try_from(listener.max_connections).unwrap_or(usize::MAX);
        let Some(ticket) = Ticket::take(&self.counts, limit) else {
            self.counts.refused.fetch_add(1, Ordering::Relaxed);
            return shut_down(socket.as_fd());
        };
        self.counts.accepted.fetch_add(1, Ordering::Relaxed);
        let by_cgroup = configuration.identities.iter().any(|identity| identity.who.value == Who::Cgroup);
        let mut client = HalfOpen {
            peer: Peer::of(&socket, &self.address, by_cgroup),
            socket,
            handshake: Handshake::new(),
            ticket,
            deadline: now + Duration::from_secs(listener.handshake_timeout_s),
            received: Vec::new(),
            unsent: Handshake::greeting().to_vec(),
            end: None,
        };
        if !send(&mut client) {
            return shut_down(client.socket.as_fd());
        }
        if self.half_open.len() >= MAXIMUM_HALF_OPEN
            && let Some(oldest) = self.half_open.iter().enumerate().min_by_key(|(_, it)| it.deadline).map(|(at, _)| at)
            && let Some(oldest) = self.half_open.remove(oldest)
        {
            self.counts.expired.fetch_add(1, Ordering::Relaxed);
            shut_down(oldest.socket.as_fd());
        }
        self.half_open.push_back(client);
    }
}

fn listener_at<'a>(configuration: &'a Configuration, address: &Address) -> Option<&'a Listener> {
    configuration.listeners.iter().find(|listener| listener.address.value.is_same_place(address))
}

/// Sends what the socket takes; false if it is broken.
fn send(client: &mut HalfOpen) -> bool {
    while !client.unsent.is_empty() {
        match rustix::net::send(&client.socket, &client.unsent, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(sent) => {
                client.unsent.drain(..sent);
            }
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::AGAIN) => return true,
            Err(_) => return false,
        }
    }
    true
}
