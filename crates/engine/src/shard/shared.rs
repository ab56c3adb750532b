//! What the workers of a device share: the turn and everything that goes with it, under one lock.
//!
//! A worker holds the lock while it decides, and releases it while it moves data or is in the kernel.
//! That is how the processors of Linux share a scheduler (`dd_dispatch_request` takes `dd->lock` in
//! block/mq-deadline.c). The actions of a turn belong to the worker that has the client: it finds
//! them in its inbox, and is woken if it sleeps.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, mpsc};

use hoistway_linux::buffer::{Arena, Span};
use hoistway_linux::ring::is_request_memory;
use parking_lot::{Mutex, MutexGuard};

use super::volumes::VolumeFile;
use super::{LoopSettings, Mailbox, TraceSink};
use crate::counters::LoopCounters;
use crate::gate::Gate;
use crate::protocol::StatusExtent;
use crate::turn::{Action, Actions, Turn, TurnSettings};

/// The lock, held.
pub(crate) type Locked<'a> = MutexGuard<'a, Core>;

/// Releases the lock while something runs that needs no decisions. A single worker keeps it, because
/// no other waits for it.
pub(super) fn unlocked<T>(core: &mut Locked<'_>, action: impl FnOnce() -> T) -> T {
    if core.workers.len() == 1 { action() } else { MutexGuard::unlocked(core, action) }
}

/// A device as its workers and its handle see it.
pub(crate) struct Shared {
    pub settings: LoopSettings,
    pub arena: Arc<Arena>,
    /// Files that one worker may have open.
    pub files: u32,
    /// Workers that poll for events now.
    pub pollers: AtomicUsize,
    pub core: Mutex<Core>,
}

/// The receiver of a connection's answers; none once it is closed.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub(super) enum Route {
    #[default]
    None,
    Socket {
        worker: usize,
        socket: u32,
    },
    Local {
        worker: usize,
        client: u32,
        connection: u32,
    },
}

/// A worker as the others see it.
pub(super) struct Peer {
    pub mailbox: Arc<Mailbox>,
    /// Actions that others decided, in order.
    pub inbox: Actions,
    /// Whether it must be woken to see its inbox.
    pub is_asleep: bool,
    /// Sockets and local clients that it has or will have in a moment.
    pub clients: usize,
    pub counters: LoopCounters,
}

/// The state under the lock.
pub(crate) struct Core {
    pub turn: Turn,
    pub turn_settings: TurnSettings,
    pub(super) gate: Option<Gate>,
    pub(super) model_used_bytes: u64,
    pub(super) model_capacity_bytes: Option<u64>,
    pub(super) volumes: Vec<Option<VolumeFile>>,
    /// Counts changes of `volumes`, so that a worker knows when its own files are out of date.
    pub(super) volumes_version: u64,
    pub(super) routes: Vec<Route>,
    /// The descriptions of the clients that the status shows, by connection.
    pub(super) labels: Vec<Option<String>>,
    /// Connections whose end an operator waits for; the sender is dropped then.
    pub(super) awaited_ends: Vec<(u32, mpsc::Sender<Infallible>)>,
    pub(super) workers: Vec<Peer>,
    /// Workers whose threads have not ended.
    pub(super) running: usize,
    /// Results of allocation queries that wait to be sent, by request.
    pub(super) extents: HashMap<u32, Vec<StatusExtent>>,
    pub(super) sink: Option<TraceSink>,
    pub(super) must_stop: bool,
}

impl Core {
    pub fn new(turn: Turn, turn_settings: TurnSettings, gate: Option<(Gate, u64)>) -> Self {
        let connections = turn_settings.connections as usize;
        let (gate, model_capacity_bytes) = gate.map_or((None, None), |(gate, capacity)| (Some(gate), Some(capacity)));
        Self {
            turn,
            turn_settings,
            gate,
            model_used_bytes: 0,
            model_capacity_bytes,
            volumes: Vec::new(),
            volumes_version: 0,
            routes: vec![Route::default(); connections],
            labels: vec![None; connections],
            awaited_ends: Vec::new(),
            workers: Vec::new(),
            running: 0,
            extents: HashMap::new(),
            sink: None,
            must_stop: false,
        }
    }

    /// Adds a worker; returns its number.
    pub(super) fn add_worker(&mut self, mailbox: Arc<Mailbox>) -> usize {
        self.running += 1;
        let (inbox, counters) = (Actions::empty(), LoopCounters::default());
        self.workers.push(Peer { mailbox, inbox, is_asleep: false, clients: 0, counters });
        self.workers.len() - 1
    }

    /// Ends the loops of all workers.
    pub fn stop(&mut self) {
        self.must_stop = true;
        self.wake_all();
    }

    /// Wakes all workers, because another thread has changed something.
    pub(super) fn wake_all(&mut self) {
        (0..self.workers.len()).for_each(|worker| self.wake(worker));
    }

    pub(super) fn wake(&mut self, worker: usize) {
        self.workers[worker].is_asleep = false;
        self.workers[worker].mailbox.event.signal();
    }

    pub(super) fn wake_if_asleep(&mut self, worker: usize) {
        if self.workers[worker].is_asleep {
            self.wake(worker);
        }
    }

    #[inline]
    pub(super) fn route(&self, connection: u32) -> Route {
        self.routes.get(connection as usize).copied().unwrap_or_default()
    }

    fn worker_of(&self, connection: u32) -> Option<usize> {
        match self.route(connection) {
            Route::None => None,
            Route::Socket { worker, .. } | Route::Local { worker, .. } => Some(worker),
        }
    }

    /// The worker that performs an action if it is not `own`. An I/O goes to the worker that has the
    /// client, because that one will send the data, but not if it sleeps: starting the I/O here is
    /// sooner than waking it.
    fn other_worker(&self, action: &Action, spans: &[Span], own: usize) -> Option<usize> {
        let (connection, may_stay) = match *action {
            // The memory of a ublk request is known to the ring of its worker alone.
            Action::Start { io, first_span, .. } => {
                let is_bound = spans.get(first_span as usize).copied().is_some_and(is_request_memory);
                (self.turn.connection_of(io), !is_bound)
            }
            Action::Empty { io, .. } => (self.turn.connection_of(io), true),
            Action::Reply { connection, .. }
            | Action::Continue { connection, .. }
            | Action::Finished { connection } => (connection, false),
            Action::Sync { .. } | Action::Store { .. } | Action::Status { .. } => return None,
        };
        let worker = self.worker_of(connection)?;
        let stays = worker == own || may_stay && self.workers[worker].is_asleep;
        (!stays).then_some(worker)
    }

    /// Exchanges actions with the other workers: `own` gives those that belong to others and gets
    /// those that others have decided for it. The mailboxes of workers that sleep are added to `wakes`, to be
    /// signalled when the lock is released: a signal takes as long as the decisions on several requests.
    pub(super) fn exchange(&mut self, own: usize, actions: &mut Actions, wakes: &mut Vec<Arc<Mailbox>>) {
        if self.workers.len() == 1 {
            return;
        }
        let Actions { list, spans } = actions;
        list.retain(|action| {
            let Some(worker) = self.other_worker(action, spans, own) else { return true };
            let peer = &mut self.workers[worker];
            peer.inbox.append(*action, spans);
            if std::mem::replace(&mut peer.is_asleep, false) {
                wakes.push(Arc::clone(&peer.mailbox));
            }
            false
        });
        let inbox = &mut self.workers[own].inbox;
        if inbox.list.is_empty() {
            return;
        }
        // Actions of others are older than a connection's end, which this worker may have decided.
        for action in actions.list.drain(..) {
            inbox.append(action, &actions.spans);
        }
        std::mem::swap(inbox, actions);
        inbox.clear();
    }
}
