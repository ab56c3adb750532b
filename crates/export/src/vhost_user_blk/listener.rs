//! The thread of an exported disk: accepts a front end, holds the conversation, and accepts the next.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use hoistway_block::Priority;
use hoistway_engine::counters::Sums;
use hoistway_engine::{ConnectionBounds, ConnectionEnd, EndReason, LocalConnection, ShardHandle, VolumeId};
use vhost::vhost_user::{BackendReqHandler, Error};

use super::configuration_space::DeviceFacts;
use super::device::Report;
use super::notices::{channel_in_next_message, tell_change};
use super::session::Session;
use super::spread::Spread;
use crate::group_use::GroupUse;
use crate::log::events::ClientLife;
use crate::server::descriptors::is_reserved;

/// How long the end of a listener waits for its thread, and how often it looks.
const END_TIMEOUT: Duration = Duration::from_secs(5);
const END_POLL: Duration = Duration::from_millis(1);

/// The volume that is served, and the group whose share its requests use.
pub struct Served {
    /// The export's name.
    pub name: String,
    /// The device's shard.
    pub shard: ShardHandle,
    /// The volume.
    pub volume: VolumeId,
    /// The group of its requests.
    pub group: Arc<GroupUse>,
    /// What the front end is told about it.
    pub facts: DeviceFacts,
}

/// An exported disk. Dropping it ends the conversation and the thread.
pub struct Listener {
    shared: Arc<Shared>,
    facts: DeviceFacts,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    listener: UnixListener,
    connection: Mutex<Connection>,
    /// A session has ended.
    ended: Condvar,
    /// To the front end that is connected, for changes of the disk; if it has given one.
    channel: Mutex<Option<UnixStream>>,
    must_stop: AtomicBool,
}

#[derive(Default)]
struct Connection {
    stream: Option<UnixStream>,
    /// How many sessions have ended, with everything that they had in flight.
    ended: u64,
}

impl Listener {
    /// Serves front ends that connect to `socket`.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(socket: OwnedFd, served: Served, report: Report) -> io::Result<Self> {
        let listener = UnixListener::from(socket);
        listener.set_nonblocking(false)?;
        let (connection, channel, ended) = (Mutex::default(), Mutex::new(None), Condvar::new());
        let shared = Shared { listener, connection, ended, channel, must_stop: AtomicBool::new(false) };
        let facts = served.facts.clone();
        let shared = Arc::new(shared);
        let of_thread = Arc::clone(&shared);
        let body = move || {
            while let Some(stream) = of_thread.accept() {
                serve(stream, &served, &of_thread, &report);
                *of_thread.channel() = None;
                let mut connection = of_thread.connection();
                (connection.stream, connection.ended) = (None, connection.ended + 1);
                of_thread.ended.notify_all();
            }
        };
        let thread = thread::Builder::new().name("vhost-user".to_owned()).spawn(body)?;
        Ok(Self { shared, facts, thread: Some(thread) })
    }

    /// Disconnects the front end, and waits until nothing of it can reach the device any more. `None` if there
    /// was none; false if that lasts longer than `timeout`. It may connect again.
    pub fn disconnect(&self, timeout: Duration) -> Option<bool> {
        let connection = self.shared.connection();
        // It fails only if the front end has gone by itself; then its end is near.
        let _ = connection.stream.as_ref()?.shutdown(std::net::Shutdown::Both);
        let before = connection.ended;
        let ended = &self.shared.ended;
        let waited = ended.wait_timeout_while(connection, timeout, |connection| connection.ended == before);
        let (connection, _) = waited.unwrap_or_else(PoisonError::into_inner);
        Some(connection.ended != before)
    }

    /// Changes the size of the disk; whether a front end that is connected was told.
    pub fn grow(&self, size_bytes: u64) -> bool {
        self.facts.set_size(size_bytes);
        self.shared.connection().stream.is_none() || self.shared.channel().as_ref().is_some_and(tell_change)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.shared.must_stop.store(true, Ordering::Release);
        // Both calls wake the thread. They fail only where there is nothing to wake.
        let _ = rustix::net::shutdown(self.shared.listener.as_fd(), rustix::net::Shutdown::Both);
        if let Some(stream) = &self.shared.connection().stream {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
        if let Some(thread) = self.thread.take() {
            // It waits until nothing of the disk is in flight, which a backing that hangs delays for ever.
            let deadline = Instant::now() + END_TIMEOUT;
            while !thread.is_finished() && Instant::now() < deadline {
                std::thread::sleep(END_POLL);
            }
            if thread.is_finished() {
                // A panic was reported by its thread.
                let _ = thread.join();
            }
        }
    }
}

impl Shared {
    fn connection(&self) -> std::sync::MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn channel(&self) -> std::sync::MutexGuard<'_, Option<UnixStream>> {
        self.channel.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next front end; `None` when the disk is served no more.
    fn accept(&self) -> Option<UnixStream> {
        loop {
            let accepted = self.listener.accept();
            if accepted.as_ref().is_ok_and(|(stream, _)| is_reserved(stream)) {
                // Closed at once; a virtual machine monitor tries again.
                continue;
            }
            // The connection is stored before the stop is checked for, so that a concurrent stop
            // either finds the connection and shuts it down, or is noticed here.
            let stream = accepted.and_then(|(stream, _)| Ok((stream.try_clone()?, stream)));
            let stream = stream.map(|(copy, stream)| {
                self.connection().stream = Some(copy);
                stream
            });
            if self.must_stop.load(Ordering::Acquire) {
                return None;
            }
            match stream {
                Ok(stream) => return Some(stream),
                // The front end has gone, or there are too many open files: try again in a while.
                Err(_) => thread::sleep(std::time::Duration::from_millis(100)),
            }
        }
    }
}

/// Serves one front end until it has gone and nothing of it is in flight.
fn serve(stream: UnixStream, served: &Served, shared: &Shared, report: &Report) {
    let label = format!("vhost-user-blk {}", served.name);
    let peeked = match stream.try_clone() {
        Ok(copy) => copy,
        Err(error) => return report(format!("{label}: {error}")),
    };
    let (on_closed, is_closed) = mpsc::channel();
    let connection = LocalConnection {
        volume: served.volume,
        group: served.group.handle(),
        bounds: ConnectionBounds::default(),
        priority: Priority::NONE,
    };
    let (facts, shard) = (served.facts.clone(), served.shard.clone());
    let devices = match Spread::new(label.clone(), facts, shard, connection, Arc::clone(report), on_closed) {
        Ok(devices) => devices,
        Err(error) => return report(format!("{label}: {}; {}", error.message, error.help)),
    };
    let life = life(&stream, served, &label);
    life.connected();
    let facts = match served.shard.facts(served.volume) {
        Ok(volume) => served.facts.clone().with_abilities_of(&volume),
        Err(_) => served.facts.clone(),
    };
    let session = Arc::new(Mutex::new(Session::new(label.clone(), facts, devices, Arc::clone(report))));
    let mut messages = BackendReqHandler::from_stream(stream, Arc::clone(&session));
    loop {
        if let Some(channel) = channel_in_next_message(&peeked) {
            *shared.channel() = Some(channel);
        }
        match messages.handle_request() {
            Ok(()) => {}
            // Either side has closed the connection, or the reason was reported.
            Err(Error::Disconnected | Error::PartialMessage | Error::SocketBroken(_) | Error::InvalidParam) => break,
            Err(error) => {
                report(format!("{label}: the front end was disconnected: {error}"));
                break;
            }
        }
    }
    drop(messages);
    let reason = if shared.must_stop.load(Ordering::Acquire) { EndReason::Stopped } else { EndReason::Disconnected };
    let sums = group_and_sums(served, &label).map(|(_, sums)| sums).unwrap_or_default();
    session.lock().unwrap_or_else(PoisonError::into_inner).end();
    drop(session);
    // The senders are dropped with the devices.
    let _ = is_closed.recv();
    life.ended(&ConnectionEnd { reason, sums });
}

/// A front end as the log names it.
fn life(stream: &UnixStream, served: &Served, label: &str) -> ClientLife {
    let address = stream.local_addr().ok();
    let path = address.as_ref().and_then(|address| address.as_pathname());
    ClientLife {
        client: label.to_owned(),
        export: served.name.clone(),
        group: group_and_sums(served, label).map(|(group, _)| group).unwrap_or_default(),
        device: served.shard.name().to_owned(),
        listener: path.map_or(String::new(), |path| format!("unix:{}", path.display())),
        identity: None,
        begun: Instant::now(),
    }
}

/// The path of a front end's group, and what it did so far; none if the device has stopped.
fn group_and_sums(served: &Served, label: &str) -> Option<(String, Sums)> {
    let status = served.shard.status().ok()?;
    let mut own = status.connections.iter().filter(|connection| connection.label == label);
    let first = own.next()?;
    let group = status.groups.iter().find(|group| group.group == first.group)?;
    let mut sums = first.sums.clone();
    own.for_each(|other| sums.add(&other.sums));
    Some((group.path.clone(), sums))
}
