//! Handshakes: one thread per listening socket that accepts clients and performs their handshakes.
//!
//! Promise  a client that is slow, silent or hostile occupies one of [`MAXIMUM_HALF_OPEN`] entries for
//!          at most the handshake's timeout, and delays no other: no call here waits for one client.
//! Cost     one poll over at most 66 descriptors per turn; no work while no client arrives.
//! Sources  docs/specifications/engine.md, section 4.4; docs/specifications/engine.md, section 5.1;
//!          docs/specifications/engine.md, section 5.10. They describe handshake workers; a handshake is a
//!          few microseconds of parsing, with TLS up to a millisecond of arithmetic, so this thread
//!          performs all of them.
//!
//! accept -> limits -> ([`Session`] ->) identity -> [`Handshake`] -> [`ClientSink::attach`]: from there
//! the shard owns the socket, or the relay that it shares with the shard.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use linux::event::Event;
use linux::socket::shut_down;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, SendFlags, SocketFlags};

use super::admission::{Admission, Admissions, Limits, Tenant};
use super::descriptors;
use super::peer::{Holder, Peer, group_of, identify, may_see};
use super::socket::Listening;
use crate::configuration::{Address, Configuration, Listener, PeerMatch};
use crate::log::events::{HandshakeEnd, admission_refused, handshake_failed, tls_failed};
use crate::nbd::handshake::{Closed, ExportFacts, Handshake, Negotiated, Step, View, refused_instead};
use crate::tls::credentials::Credentials;
use crate::tls::relay::Relays;
use crate::tls::session::Session;

/// Handshakes in progress on one listener; a further one ends the oldest of the peer that has most.
pub const MAXIMUM_HALF_OPEN: usize = 64;
/// Bytes of answers that may wait for a client that does not read; until it reads them, its further
/// options are not handled.
const MAXIMUM_UNSENT_BYTES: usize = 64 * 1024;
/// Bytes received from one client at a time.
const RECEIVE_BYTES: usize = 16 * 1024;
/// How long accepting pauses after the system ran out of descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// The shortest time between two warnings that the limit of open files is reached.
const WARNING_INTERVAL: Duration = Duration::from_secs(60);

/// The state that handshakes use; replaced as a whole by a reload.
#[derive(Debug)]
pub struct ActiveState {
    /// The configuration.
    pub configuration: Configuration,
    /// The facts for clients of each open export.
    pub facts: Vec<ExportFacts>,
    /// The credentials of listeners with TLS.
    pub credentials: Arc<Credentials>,
    /// Whether the server is shutting down.
    pub draining: bool,
}

/// A client that has completed its handshake.
pub struct AcceptedClient {
    /// The client's socket, or the end of a relay, blocking, with nothing left to send.
    pub socket: OwnedFd,
    /// Bytes that arrived behind the handshake.
    pub received: Vec<u8>,
    /// The result of the negotiation.
    pub negotiated: Negotiated,
    /// The peer.
    pub peer: Peer,
    /// The group charged for its I/O.
    pub group: String,
    /// Whether that is the client's own cgroup.
    pub is_charged_by_cgroup: bool,
    /// The listener that accepted it.
    pub listener: String,
    /// The identity that matched it, if one did.
    pub identity: Option<String>,
    /// Its place among the listener's connections; given back when the last reference is dropped.
    pub place: Arc<ClientPlace>,
}

/// Takes over clients whose handshake is complete.
pub trait ClientSink: Send + Sync {
    /// The current state for handshakes.
    fn active(&self) -> Arc<ActiveState>;
    /// Takes a client over; later failures of its connection affect no other client.
    fn attach(&self, client: AcceptedClient);
}

/// Counters of one listener since the start.
#[derive(Debug, Default)]
pub struct Counts {
    /// Connections open now, handshakes included.
    pub open: AtomicUsize,
    /// Connections accepted.
    pub accepted: AtomicU64,
    /// Connections closed because a limit was reached.
    pub refused: AtomicU64,
    /// Handshakes that timed out, or were ended in favour of a newer one.
    pub expired: AtomicU64,
    /// Who holds the completed connections.
    pub admissions: Arc<Admissions>,
    /// The relays of TLS clients.
    pub relays: Arc<Relays>,
}

/// One open connection; not counted any more when dropped.
#[derive(Debug)]
struct OpenConnection(Arc<Counts>);

impl OpenConnection {
    fn new(counts: &Arc<Counts>) -> Self {
        counts.open.fetch_add(1, Ordering::Relaxed);
        Self(counts.clone())
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The place of a client with a completed handshake; given back when dropped.
#[derive(Debug)]
pub struct ClientPlace {
    _open: OpenConnection,
    _admission: Admission,
}

/// Wakes a handshake thread from other threads.
#[derive(Debug)]
pub struct Waker {
    event: Event,
    stop: AtomicBool,
    /// Whether the thread accepts no more clients.
    is_closed: AtomicBool,
}

impl Waker {
    /// A waker whose thread has nothing to do yet.
    pub fn new() -> io::Result<Self> {
        Ok(Self { event: Event::new()?, stop: AtomicBool::new(false), is_closed: AtomicBool::new(false) })
    }

    /// Wakes the thread, because the state has changed.
    pub fn wake(&self) {
        self.event.signal();
    }

    /// Waits, for a second at most, until the thread accepts no more clients: one that is told to go must not
    /// reach this server again.
    pub fn await_closed(&self) {
        let start = Instant::now();
        while !self.is_closed.load(Ordering::Acquire) && start.elapsed() < Duration::from_secs(1) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Ends the thread; open handshakes are closed.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.event.signal();
    }
}

/// A client during its handshake.
struct PendingHandshake {
    socket: OwnedFd,
    handshake: Handshake,
    /// The TLS session once STARTTLS was answered.
    session: Option<Session>,
    /// Whether TLS begins as soon as everything is sent.
    starts_tls: bool,
    peer: Peer,
    open: OpenConnection,
    deadline: Instant,
    received: Vec<u8>,
    unsent: Vec<u8>,
    /// Set by the last step: what to do when everything is sent.
    end: Option<End>,
}

impl PendingHandshake {
    /// Whether the client has to send next.
    fn is_idle(&self) -> bool {
        self.is_sent() && self.received.is_empty()
    }

    /// Whether the socket took everything.
    fn is_sent(&self) -> bool {
        self.unsent.is_empty() && !self.session.as_ref().is_some_and(Session::wants_write)
    }

    /// Takes bytes from the socket.
    fn receive(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(session) = &mut self.session else {
            self.received.extend_from_slice(bytes);
            return Ok(());
        };
        let was_established = session.is_established();
        session.receive(bytes, &mut self.received)?;
        if !was_established && session.is_established() {
            self.peer.names = session.client_names();
        }
        Ok(())
    }

    /// Sends as much as the socket takes.
    fn send(&mut self) -> io::Result<()> {
        let Some(session) = &mut self.session else { return send(&self.socket, &mut self.unsent) };
        session.encrypt(&self.unsent)?;
        self.unsent.clear();
        session.send(&self.socket)
    }
}

enum End {
    Attach(Negotiated, Admission),
    Close,
}

/// The result of a client's turn.
enum Progress {
    Waits,
    Closes,
    Attach(Negotiated, Admission),
}

/// The state of one handshake thread.
pub struct HandshakeThread {
    listening: Option<Listening>,
    /// The address as configured.
    address: Address,
    sink: Arc<dyn ClientSink>,
    counts: Arc<Counts>,
    waker: Arc<Waker>,
    waker_descriptor: OwnedFd,
    half_open: VecDeque<PendingHandshake>,
    accept_again_at: Option<Instant>,
    /// A descriptor that is given up to accept, and close, a client for which there is none.
    spare: Option<File>,
    warned_at: Option<Instant>,
}

impl HandshakeThread {
    /// The handshakes of a listening socket. [`HandshakeThread::run`] is their thread.
    pub fn new(
        listening: Listening,
        sink: Arc<dyn ClientSink>,
        counts: Arc<Counts>,
        waker: Arc<Waker>,
    ) -> io::Result<Self> {
        let waker_descriptor = waker.event.descriptor()?;
        let address = listening.configured.clone();
        let half_open = VecDeque::new();
        let listening = Some(listening);
        Ok(Self {
            listening,
            address,
            sink,
            counts,
            waker,
            waker_descriptor,
            half_open,
            accept_again_at: None,
            spare: Some(spare()?),
            warned_at: None,
        })
    }

    /// Serves until [`Waker::stop`].
    pub fn run(mut self) {
        loop {
            let events = self.wait();
            self.waker.event.clear();
            if self.waker.stop.load(Ordering::Acquire) {
                return;
            }
            let active = self.sink.active();
            if active.draining {
                // Closes the socket and removes its file, so that the next server can take its
                // place.
                self.listening = None;
                self.waker.is_closed.store(true, Ordering::Release);
            }
            self.turn(&events, &active);
            self.accept(&active);
        }
    }

    /// Waits for any event; returns for each half-open client, in their order, whether it had one.
    fn wait(&self) -> Vec<bool> {
        let now = Instant::now();
        let paused = self.accept_again_at.filter(|at| *at > now);
        let mut descriptors = vec![PollFd::new(&self.waker_descriptor, PollFlags::IN)];
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
        // An interrupted wait counts as a turn without events.
        let _ = poll(&mut descriptors, timeout.as_ref());
        descriptors[1..=self.half_open.len()].iter().map(|descriptor| !descriptor.revents().is_empty()).collect()
    }

    fn turn(&mut self, events: &[bool], active: &ActiveState) {
        let now = Instant::now();
        let count = self.half_open.len();
        for index in 0..count {
            let Some(mut client) = self.half_open.pop_front() else { return };
            let had_event = events.get(index).copied().unwrap_or(false);
            let turn = if client.deadline <= now {
                self.counts.expired.fetch_add(1, Ordering::Relaxed);
                self.report(&client, HandshakeEnd::Expired);
                Progress::Closes
            } else if had_event {
                self.serve(&mut client, active)
            } else {
                Progress::Waits
            };
            match turn {
                Progress::Waits => self.half_open.push_back(client),
                Progress::Closes => shut_down(client.socket.as_fd()),
                Progress::Attach(negotiated, admission) => self.attach(client, negotiated, admission, active),
            }
        }
    }

    /// One client's turn: read if no input is left, answer, send the output.
    fn serve(&self, client: &mut PendingHandshake, active: &ActiveState) -> Progress {
        if client.is_idle() {
            let mut buffer = [0; RECEIVE_BYTES];
            match rustix::net::recv(&client.socket, &mut buffer[..], RecvFlags::DONTWAIT) {
                Ok((0, _)) => {
                    self.report(client, HandshakeEnd::Gone);
                    return Progress::Closes;
                }
                Ok((length, _)) => {
                    if let Err(error) = client.receive(&buffer[..length]) {
                        return self.refuse_tls(client, &error);
                    }
                }
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return Progress::Waits,
                Err(_) => {
                    self.report(client, HandshakeEnd::Gone);
                    return Progress::Closes;
                }
            }
        }
        if client.is_sent() && client.end.is_none() && !client.starts_tls {
            self.answer(client, active);
        }
        if client.send().is_err() {
            if !matches!(client.end, Some(End::Close)) {
                self.report(client, HandshakeEnd::Gone);
            }
            return Progress::Closes;
        }
        if client.starts_tls && client.is_sent() {
            if let Err(error) = self.start_tls(client, active) {
                return self.refuse_tls(client, &error);
            }
            if client.send().is_err() {
                self.report(client, HandshakeEnd::Gone);
                return Progress::Closes;
            }
        }
        if client.received.is_empty() && client.session.as_ref().is_some_and(Session::has_ended) {
            self.report(client, HandshakeEnd::Gone);
            return Progress::Closes;
        }
        match client.end.take() {
            end if !client.is_sent() => {
                client.end = end;
                Progress::Waits
            }
            Some(End::Close) => Progress::Closes,
            Some(End::Attach(negotiated, admission)) => Progress::Attach(negotiated, admission),
            None => Progress::Waits,
        }
    }

    /// Begins TLS with what the client sent behind STARTTLS, which is never taken for options.
    fn start_tls(&self, client: &mut PendingHandshake, active: &ActiveState) -> io::Result<()> {
        let credentials = active.credentials.of(&self.address).ok_or(io::ErrorKind::NotFound)?;
        client.session = Some(Session::new(credentials.clone())?);
        client.starts_tls = false;
        let received = std::mem::take(&mut client.received);
        client.receive(&received)
    }

    /// Ends a client whose TLS failed: tells it and the operator why.
    fn refuse_tls(&self, client: &mut PendingHandshake, error: &io::Error) -> Progress {
        // The client may be gone already.
        let _ = client.send();
        tls_failed(&self.address.to_string(), &client.peer.name(), error);
        Progress::Closes
    }

    /// Runs the handshake on the received bytes, until it ends or the answers grow long.
    fn answer(&self, client: &mut PendingHandshake, active: &ActiveState) {
        let configuration = &active.configuration;
        let Some(listener) = listener_at(configuration, &self.address) else {
            client.end = Some(End::Close);
            return;
        };
        if listener.tls.is_some() && !client.handshake.requires_tls() {
            // A reload switched TLS on meanwhile.
            client.end = Some(End::Close);
            return;
        }
        let identity = identify(configuration, &client.peer, &self.address);
        let exports: Vec<ExportFacts> =
            active.facts.iter().filter(|facts| may_see(identity, listener, &facts.name)).cloned().collect();
        let view = View { exports: &exports, listing: listener.list, draining: active.draining };
        let mut input = client.received.as_slice();
        while !input.is_empty()
            && client.end.is_none()
            && !client.starts_tls
            && client.unsent.len() < MAXIMUM_UNSENT_BYTES
        {
            let answered = client.unsent.len();
            client.end = match client.handshake.advance(&mut input, view, &mut client.unsent) {
                Step::NeedInput | Step::Answered => None,
                Step::StartTls => {
                    client.starts_tls = true;
                    None
                }
                Step::Negotiated(negotiated) => Some(match self.admit(&client.peer, &negotiated, active, listener) {
                    Ok(admission) => End::Attach(negotiated, admission),
                    Err(text) => {
                        self.counts.refused.fetch_add(1, Ordering::Relaxed);
                        let (listener, peer) = (self.address.to_string(), client.peer.name());
                        admission_refused(&listener, &peer, &negotiated.export, text);
                        refused_instead(&mut client.unsent, answered, text);
                        End::Close
                    }
                }),
                Step::Close(reason) => {
                    self.report(client, HandshakeEnd::Closed(reason));
                    Some(End::Close)
                }
            };
        }
        let used = client.received.len() - input.len();
        client.received.drain(..used);
    }

    /// Takes a place among the listener's connections; else returns why there is none.
    fn admit(
        &self,
        peer: &Peer,
        negotiated: &Negotiated,
        active: &ActiveState,
        listener: &Listener,
    ) -> Result<Admission, &'static str> {
        let configuration = &active.configuration;
        let identity = identify(configuration, peer, &self.address);
        let export = configuration.exports().find(|(_, export)| export.name.value == negotiated.export);
        let group = export.map_or_else(String::new, |(_, export)| group_of(identity, peer, export));
        let tenant = Tenant::new(identity, &group, &negotiated.export);
        let limits = Limits::of(configuration, listener);
        self.counts.admissions.admit(&limits, tenant, peer.holder()).map_err(|full| full.text())
    }

    fn attach(&self, client: PendingHandshake, negotiated: Negotiated, admission: Admission, active: &ActiveState) {
        let configuration = &active.configuration;
        let export = configuration.exports().find(|(_, export)| export.name.value == negotiated.export);
        let Some((_, export)) = export else {
            // A reload removed the export after the client was told that it is open.
            self.report(&client, HandshakeEnd::Closed(Closed::NoSuchExport));
            return shut_down(client.socket.as_fd());
        };
        let identity = identify(configuration, &client.peer, &self.address);
        let place = Arc::new(ClientPlace { _open: client.open, _admission: admission });
        let socket = match client.session {
            None => client.socket,
            Some(session) => match self.counts.relays.start(session, client.socket, place.clone()) {
                Ok(socket) => socket,
                Err(error) => return tls_failed(&self.address.to_string(), &client.peer.name(), &error),
            },
        };
        self.sink.attach(AcceptedClient {
            group: group_of(identity, &client.peer, export),
            is_charged_by_cgroup: identity.is_some_and(|identity| identity.property.value == PeerMatch::Cgroup),
            listener: self.address.to_string(),
            identity: identity.map(|identity| identity.property.to_string()),
            socket,
            received: client.received,
            negotiated,
            peer: client.peer,
            place,
        });
    }

    /// Accepts all waiting clients.
    fn accept(&mut self, active: &ActiveState) {
        let now = Instant::now();
        if self.accept_again_at.is_some_and(|at| at > now) {
            return;
        }
        self.accept_again_at = None;
        for _ in 0..MAXIMUM_HALF_OPEN {
            let Some(listening) = &self.listening else { return };
            // The socket is blocking on purpose: on a non-blocking one the shard's io_uring
            // requests would end with EAGAIN instead of waiting for data.
            match rustix::net::accept_with(&listening.descriptor, SocketFlags::CLOEXEC) {
                Ok(socket) => self.begin_handshake(socket, active, now),
                Err(rustix::io::Errno::AGAIN) => return,
                Err(error @ (rustix::io::Errno::MFILE | rustix::io::Errno::NFILE)) => {
                    self.refuse_for_descriptors(error, now);
                    return;
                }
                Err(rustix::io::Errno::NOMEM) => {
                    self.accept_again_at = Some(now + ACCEPT_PAUSE);
                    return;
                }
                // The client disconnected before it was accepted, or a signal came.
                Err(_) => {}
            }
        }
    }

    /// Closes a client for which there is no descriptor, so that it does not wait in vain, and warns.
    fn refuse_for_descriptors(&mut self, error: rustix::io::Errno, now: Instant) {
        if self.warned_at.is_none_or(|at| at + WARNING_INTERVAL <= now) {
            self.warned_at = Some(now);
            let (address, help) = (self.address.to_string(), descriptors::HELP);
            tracing::warn!(
                name: "descriptors",
                target: "listener",
                listener = address,
                "a client of {address} was refused, because the limit of open files is reached: {error}\n  help: {help}"
            );
        }
        drop(self.spare.take());
        if let Some(listening) = &self.listening
            && let Ok(socket) = rustix::net::accept_with(&listening.descriptor, SocketFlags::CLOEXEC)
        {
            self.counts.refused.fetch_add(1, Ordering::Relaxed);
            shut_down(socket.as_fd());
        }
        self.spare = spare().ok();
        if self.spare.is_none() {
            // Another thread took it; without a pause this one would spin.
            self.accept_again_at = Some(now + ACCEPT_PAUSE);
        }
    }

    fn report(&self, client: &PendingHandshake, reason: HandshakeEnd) {
        handshake_failed(&self.address.to_string(), &client.peer.name(), &reason);
    }

    fn begin_handshake(&mut self, socket: OwnedFd, active: &ActiveState, now: Instant) {
        let configuration = &active.configuration;
        let Some(listener) = listener_at(configuration, &self.address) else { return shut_down(socket.as_fd()) };
        if self.counts.admissions.is_full(listener.max_connections) {
            self.counts.refused.fetch_add(1, Ordering::Relaxed);
            let client = Peer::of(&socket, &self.address, false).name();
            admission_refused(&self.address.to_string(), &client, "", "all connections of the listener are in use");
            return shut_down(socket.as_fd());
        }
        self.counts.accepted.fetch_add(1, Ordering::Relaxed);
        let by_cgroup = configuration.identities.iter().any(|identity| identity.property.value == PeerMatch::Cgroup);
        let mut client = PendingHandshake {
            peer: Peer::of(&socket, &self.address, by_cgroup),
            socket,
            handshake: if listener.tls.is_some() { Handshake::requiring_tls() } else { Handshake::new() },
            session: None,
            starts_tls: false,
            open: OpenConnection::new(&self.counts),
            deadline: now + Duration::from_secs(listener.handshake_timeout_s),
            received: Vec::new(),
            unsent: Handshake::greeting().to_vec(),
            end: None,
        };
        if client.send().is_err() {
            self.report(&client, HandshakeEnd::Gone);
            return shut_down(client.socket.as_fd());
        }
        self.half_open.push_back(client);
        if self.half_open.len() > MAXIMUM_HALF_OPEN
            && let Some(victim) = victim(self.half_open.iter().map(|it| (it.peer.holder(), it.deadline)))
            && let Some(victim) = self.half_open.remove(victim)
        {
            self.counts.expired.fetch_add(1, Ordering::Relaxed);
            self.report(&victim, HandshakeEnd::Displaced);
            shut_down(victim.socket.as_fd());
        }
    }
}

/// A descriptor without a use of its own.
fn spare() -> io::Result<File> {
    File::open("/dev/null")
}

/// The handshake to end in favour of others: the oldest of the peer that has most, among the users first.
fn victim(half_open: impl Iterator<Item = (Holder, Instant)> + Clone) -> Option<usize> {
    let mut of_users: BTreeMap<Holder, usize> = BTreeMap::new();
    let mut of_peers: BTreeMap<Holder, usize> = BTreeMap::new();
    for (holder, _) in half_open.clone() {
        *of_users.entry(holder.user()).or_default() += 1;
        *of_peers.entry(holder).or_default() += 1;
    }
    let held = |holder: &Holder| {
        let of_user = of_users.get(&holder.user()).copied().unwrap_or(0);
        (of_user, of_peers.get(holder).copied().unwrap_or(0))
    };
    let candidates = half_open.enumerate().map(|(at, (holder, deadline))| (held(&holder), deadline, at));
    candidates.max_by_key(|(held, deadline, _)| (*held, std::cmp::Reverse(*deadline))).map(|(_, _, at)| at)
}

fn listener_at<'a>(configuration: &'a Configuration, address: &Address) -> Option<&'a Listener> {
    configuration.listeners.iter().find(|listener| listener.address.value.is_same_place(address))
}

/// Sends as much as the socket takes.
fn send(socket: &OwnedFd, unsent: &mut Vec<u8>) -> io::Result<()> {
    while !unsent.is_empty() {
        match rustix::net::send(socket, unsent, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(sent) => {
                unsent.drain(..sent);
            }
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::AGAIN) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_of_the_peer_with_most_handshakes_gives_way() {
        let now = Instant::now();
        let one = |uid: u32, pid: u32, age_s: u64| {
            (Holder { uid: Some(uid), pid: Some(pid), host: None }, now + Duration::from_secs(100 - age_s))
        };
        let of = |half_open: &[(Holder, Instant)]| victim(half_open.iter().cloned());
        assert_eq!(of(&[one(1, 1, 9), one(2, 2, 5), one(2, 2, 8), one(2, 2, 1)]), Some(2));
        // A user who starts a process per connection is one user.
        assert_eq!(of(&[one(1, 1, 9), one(1, 1, 8), one(2, 2, 5), one(2, 3, 7), one(2, 4, 1)]), Some(3));
        assert_eq!(of(&[one(1, 1, 3), one(2, 2, 5)]), Some(1));
        assert_eq!(of(&[]), None);
    }
}
