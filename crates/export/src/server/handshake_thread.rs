//! Handshakes: one thread per listening socket that accepts clients and performs their handshakes.
//!
//! Promise  a client that is slow, silent or hostile occupies one of [`MAXIMUM_HALF_OPEN`] entries for
//!          at most the handshake's timeout, and delays no other: no call here waits for one client. Which entry gives
//!          way to a newcomer, and what a good client is promised: [`crowd`]. All entries together hold at most
//!          `MAXIMUM_HELD_BYTES`, and one entry more.
//! Cost     one poll over at most 1,090 descriptors per turn; no work while no client arrives.
//! Sources  docs/specifications/engine.md, section 4.4; docs/specifications/engine.md, section 5.1;
//!          docs/specifications/engine.md, section 5.10. They describe handshake workers; a handshake is a
//!          few microseconds of parsing, with TLS up to a millisecond of arithmetic, so this thread
//!          performs all of them.
//!
//! accept -> limits -> ([`Session`] ->) identity -> [`Handshake`] -> [`ClientSink::attach`]: from there
//! the shard owns the socket, or the relay that it shares with the shard.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use hoistway_linux::socket::shut_down;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, SendFlags};

use super::admission::{Admission, Admissions, Limits, Tenant};
use super::peer::{Holder, Peer, group_of, identify, may_see};
use super::socket::{ACCEPT_PAUSE, Accepted, Listening, accept};
use super::waker::Waker;
use super::{crowd, descriptors};
use crate::configuration::{Address, Configuration, Listener, PeerMatch};
use crate::log::events::{HandshakeEnd, admission_refused, handshake_failed, tls_failed};
use crate::nbd::handshake::{Closed, ExportFacts, Handshake, Negotiated, Step, View, refused_instead};
use crate::tls::credentials::Credentials;
use crate::tls::relay::{Pair, Relays};
use crate::tls::session::Session;

/// Handshakes in progress on one listener: with steps of a tenth of a second, ten thousand newcomers a second.
pub const MAXIMUM_HALF_OPEN: usize = 1_024;
/// Clients that are accepted in a row, so that those in their handshake have their turns.
const MAXIMUM_ACCEPTED: usize = 64;
/// Bytes that all handshakes of a listener hold. One takes a few hundred, unless it sends long options or does not read.
const MAXIMUM_HELD_BYTES: usize = 16 << 20;
/// The longest option or message of TLS that is kept until it is complete.
const MAXIMUM_INCOMPLETE_BYTES: usize = 64 * 1024;
/// Steps that keep a client its place for longer; a handshake has about ten, with TLS.
const MAXIMUM_STEPS: u32 = 32;
/// Bytes of answers that may wait for a client that does not read; until it reads them, its further
/// options are not handled.
const MAXIMUM_UNSENT_BYTES: usize = 64 * 1024;
/// Bytes received from one client at a time.
const RECEIVE_BYTES: usize = 16 * 1024;
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
    /// When it came, or when something of it was answered last.
    step_at: Instant,
    steps: u32,
    holder: Holder,
    /// Bytes received since then.
    incomplete_bytes: usize,
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

    /// Counts a step: something of the client is about to be answered.
    fn count_step(&mut self) {
        self.incomplete_bytes = 0;
        if self.steps < MAXIMUM_STEPS {
            self.steps += 1;
            self.step_at = Instant::now();
        }
    }

    /// Bytes that are kept for it here, in the handshake and in the session, at most.
    fn held_bytes(&self) -> usize {
        self.received.len() + self.unsent.len() + self.incomplete_bytes.min(MAXIMUM_INCOMPLETE_BYTES)
    }

    /// Takes bytes from the socket.
    fn receive(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.incomplete_bytes += bytes.len();
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

/// What a client was admitted to.
struct Place {
    admission: Admission,
    /// For the relay of a client with TLS.
    pair: Option<Pair>,
}

enum End {
    Attach(Negotiated, Place),
    Close,
}

/// The result of a client's turn.
enum Progress {
    Waits,
    Closes,
    Attach(Negotiated, Place),
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
    /// Clients accepted in this turn whose descriptors are those that clients leave.
    without_room: usize,
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
            without_room: 0,
        })
    }

    /// Serves until `Waker::stop`.
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
            self.end_surplus();
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
                Progress::Attach(negotiated, place) => self.attach(client, negotiated, place, active),
            }
        }
    }

    /// One client's turn: read if no input is left, answer, send the output.
    fn serve(&self, client: &mut PendingHandshake, active: &ActiveState) -> Progress {
        let was_sent = client.is_sent();
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
        if was_sent && !client.is_sent() {
            client.count_step();
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
            Some(End::Attach(negotiated, place)) => Progress::Attach(negotiated, place),
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
                Step::Negotiated(negotiated) => Some(match self.admit(client, &negotiated, active, listener) {
                    Ok(place) => End::Attach(negotiated, place),
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
        client: &PendingHandshake,
        negotiated: &Negotiated,
        active: &ActiveState,
        listener: &Listener,
    ) -> Result<Place, &'static str> {
        let (configuration, peer) = (&active.configuration, &client.peer);
        let identity = identify(configuration, peer, &self.address);
        let export = configuration.exports().find(|(_, export)| export.name.value == negotiated.export);
        let group = export.map_or_else(String::new, |(_, export)| group_of(identity, peer, export));
        let tenant = Tenant::new(identity, &group, &negotiated.export);
        let limits = Limits::of(configuration, listener);
        let admission = self.counts.admissions.admit(&limits, tenant, peer.holder()).map_err(|full| full.text())?;
        let pair = client.session.as_ref().map(|_| Pair::open()).transpose();
        Ok(Place { admission, pair: pair.map_err(|_| "the server's limit of open files is reached")? })
    }

    fn attach(&self, client: PendingHandshake, negotiated: Negotiated, place: Place, active: &ActiveState) {
        let configuration = &active.configuration;
        let export = configuration.exports().find(|(_, export)| export.name.value == negotiated.export);
        let Some((_, export)) = export else {
            // A reload removed the export after the client was told that it is open.
            self.report(&client, HandshakeEnd::Closed(Closed::NoSuchExport));
            return shut_down(client.socket.as_fd());
        };
        let identity = identify(configuration, &client.peer, &self.address);
        let Place { admission, pair } = place;
        let place = Arc::new(ClientPlace { _open: client.open, _admission: admission });
        let socket = match client.session.zip(pair) {
            None => client.socket,
            Some((session, pair)) => match self.counts.relays.start(session, client.socket, pair, place.clone()) {
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

    /// Accepts the clients that wait.
    fn accept(&mut self, active: &ActiveState) {
        let now = Instant::now();
        if self.accept_again_at.is_some_and(|at| at > now) {
            return;
        }
        self.accept_again_at = None;
        let is_full = self.half_open.len() >= MAXIMUM_HALF_OPEN;
        let room = if is_full { crowd::room(&self.waiting(), MAXIMUM_HALF_OPEN, now) } else { Ok(MAXIMUM_ACCEPTED) };
        let room = match room {
            Ok(room) => room.min(MAXIMUM_ACCEPTED),
            Err(at) => {
                self.accept_again_at = Some(at);
                return;
            }
        };
        for _ in 0..room {
            let Some(listening) = &self.listening else { return };
            match accept(listening.descriptor.as_fd()) {
                Accepted::Client(socket) => self.begin_handshake(socket, active, now),
                Accepted::Empty => return,
                Accepted::Failed(error) => {
                    self.warn_of_descriptors(&error, now);
                    if matches!(error, rustix::io::Errno::MFILE | rustix::io::Errno::NFILE) {
                        self.refuse_one();
                    }
                    self.accept_again_at = Some(now + ACCEPT_PAUSE);
                    return;
                }
            }
        }
    }

    fn warn_of_descriptors(&mut self, why: &dyn std::fmt::Display, now: Instant) {
        if self.warned_at.is_none_or(|at| at + WARNING_INTERVAL <= now) {
            self.warned_at = Some(now);
            let (address, help) = (self.address.to_string(), descriptors::HELP);
            tracing::warn!(
                name: "descriptors",
                target: "listener",
                listener = address,
                "a client of {address} was refused, because the limit of open files is reached: {why}\n  help: {help}"
            );
        }
    }

    /// Closes a client for which there is no descriptor, so that it does not wait in vain.
    fn refuse_one(&mut self) {
        drop(self.spare.take());
        if let Some(listening) = &self.listening
            && let Accepted::Client(socket) = accept(listening.descriptor.as_fd())
        {
            self.counts.refused.fetch_add(1, Ordering::Relaxed);
            shut_down(socket.as_fd());
        }
        self.spare = spare().ok();
    }

    /// Ends the handshakes that are too many, for the places, for the descriptors and for the memory.
    fn end_surplus(&mut self) {
        let now = Instant::now();
        let without_room = std::mem::take(&mut self.without_room);
        let most = MAXIMUM_HALF_OPEN.min(self.half_open.len().saturating_sub(without_room));
        if self.half_open.len() > most {
            let mut surplus = crowd::surplus(&self.waiting(), most, now);
            surplus.sort_unstable();
            surplus.into_iter().rev().for_each(|at| self.displace(at));
            if without_room > 0 {
                self.warn_of_descriptors(&"those that are left are kept for operators", now);
            }
        }
        let mut held_bytes: usize = self.half_open.iter().map(PendingHandshake::held_bytes).sum();
        while held_bytes > MAXIMUM_HELD_BYTES {
            let of_each = self.half_open.iter().map(PendingHandshake::held_bytes).enumerate();
            let Some((most, bytes)) = of_each.max_by_key(|(_, bytes)| *bytes) else { return };
            held_bytes -= bytes;
            self.displace(most);
        }
    }

    /// Who holds each handshake, and when it made its last step.
    fn waiting(&self) -> Vec<(Holder, Instant)> {
        self.half_open.iter().map(|it| (it.holder.clone(), it.step_at)).collect()
    }

    /// Ends a handshake in favour of others.
    fn displace(&mut self, at: usize) {
        if let Some(victim) = self.half_open.remove(at) {
            self.counts.expired.fetch_add(1, Ordering::Relaxed);
            self.report(&victim, HandshakeEnd::Displaced);
            shut_down(victim.socket.as_fd());
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
        self.without_room += usize::from(descriptors::is_reserved(&socket));
        let by_cgroup = configuration.identities.iter().any(|identity| identity.property.value == PeerMatch::Cgroup);
        let peer = Peer::of(&socket, &self.address, by_cgroup);
        let mut client = PendingHandshake {
            holder: peer.holder(),
            peer,
            socket,
            handshake: if listener.tls.is_some() { Handshake::requiring_tls() } else { Handshake::new() },
            session: None,
            starts_tls: false,
            open: OpenConnection::new(&self.counts),
            deadline: now + Duration::from_secs(listener.handshake_timeout_s),
            step_at: now,
            steps: 0,
            incomplete_bytes: 0,
            received: Vec::new(),
            unsent: Handshake::greeting().to_vec(),
            end: None,
        };
        if client.send().is_err() {
            self.report(&client, HandshakeEnd::Gone);
            return shut_down(client.socket.as_fd());
        }
        self.half_open.push_back(client);
    }
}

/// A descriptor without a use of its own.
fn spare() -> io::Result<File> {
    File::open("/dev/null")
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
