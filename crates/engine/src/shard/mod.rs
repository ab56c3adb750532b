//! The shard: the workers of one device. A worker is a thread with a ring of its own; it performs the
//! actions that the turn decides and makes no decisions itself.
//!
//! ```text
//! reap completions ─► mailbox ─► parse ─► model ─► expire ─► dispatch ─► perform (inline I/O again) ─► send ─► wait
//! ```
//! Each client belongs to one worker. The first is served by worker 0; further workers are started when
//! more clients come. Control runs on worker 0. Operations that may block run elsewhere: the
//! caller of the handle opens files, and the threads of each volume ([`calls`]) do what may hang.

mod asking;
mod calls;
mod disk;
mod drain;
mod end;
#[cfg(test)]
mod ends_storm;
mod failure;
mod inline;
mod local_client;
mod mailbox;
mod output;
#[cfg(test)]
mod register;
mod shared;
mod sockets;
mod stall;
mod status;
#[cfg(test)]
mod storm;
mod stream;
mod threads;
mod ublk;
mod volumes;
mod wait;

use std::sync::Arc;

use hoistway_block::{Nanos, RequestId};
use hoistway_linux::buffer::Arena;
use hoistway_linux::ring::{Completion, FileId, Ring};

pub use asking::ANSWER_TIMEOUT;
pub(crate) use asking::Silence;
pub use drain::DrainReport;
pub use end::{ConnectionEnd, EndReason, OnEnd};
pub use local_client::{Answer, ClientContext, Data, Fill, LocalClient, LocalClientId, LocalRequest, Payload};
pub(crate) use mailbox::Mailbox;
pub(crate) use shared::{Core, Locked, Shared};
pub use status::{
    ConnectionStatus, GroupStatus, SchedulingStatus, ShardStatus, TunableStatus, Unanswered, VolumeStatus,
};
pub(crate) use stream::Attachment;
pub(crate) use threads::Threads;
pub use threads::{DESCRIPTORS_OF_A_THREAD, most_threads};
pub use ublk::UblkDevice;
pub(crate) use ublk::{Stage, UblkShared};
pub(crate) use volumes::MAX_VOLUMES;

use crate::counters::LoopCounters;
use crate::error::EngineError;
pub use crate::turn::Traced;
use crate::turn::{Action, Actions, Incident, Verdict};
use inline::Inline;
use local_client::LocalClientState;
use output::Out;
use shared::{Route, unlocked};
use sockets::Sockets;
use volumes::OwnFiles;
use wait::Idle;

/// Completions handled per turn of the loop.
const COMPLETIONS_PER_TURN: usize = 1_024;
/// Tags of the gate below this are I/Os; from here on they are fsyncs of volumes.
const FIRST_SYNC_TAG: u32 = 8_193;
/// Parameters of the loop.
#[derive(Clone, Debug)]
pub(crate) struct LoopSettings {
    pub name: String,
    pub inline_max_bytes: u32,
    pub batch_wait_us: u32,
    pub busy_poll_us: u32,
    pub stall_timeout_ns: Nanos,
    pub cpus: Vec<usize>,
    pub is_urgent: bool,
}

/// The meaning of a completion's token.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Token {
    Receive { socket: u32, generation: u16 },
    Send { socket: u32, generation: u16 },
    Io(RequestId),
    Sync(u32),
    Mailbox,
    Local { client: u32, key: u16 },
    HangUp { socket: u32, generation: u16 },
    Store(u32),
}

impl Token {
    const fn pack(self) -> u64 {
        let (kind, generation, index): (u64, u16, u32) = match self {
            Token::Receive { socket, generation } => (0, generation, socket),
            Token::Send { socket, generation } => (1, generation, socket),
            Token::Io(io) => (2, 0, io.raw()),
            Token::Sync(volume) => (3, 0, volume),
            Token::Mailbox => (4, 0, 0),
            Token::Local { client, key } => (5, key, client),
            Token::HangUp { socket, generation } => (6, generation, socket),
            Token::Store(volume) => (7, 0, volume),
        };
        kind << 44 | ((generation & 0xfff) as u64) << 32 | index as u64
    }

    #[expect(clippy::cast_possible_truncation, reason = "the fields are cut out of their own bits")]
    const fn unpack(token: u64) -> Self {
        let (index, generation) = (token as u32, ((token >> 32) & 0xfff) as u16);
        match token >> 44 {
            0 => Token::Receive { socket: index, generation },
            1 => Token::Send { socket: index, generation },
            2 => Token::Io(RequestId::from_raw(index)),
            3 => Token::Sync(index),
            5 => Token::Local { client: index, key: generation },
            6 => Token::HangUp { socket: index, generation },
            7 => Token::Store(index),
            _ => Token::Mailbox,
        }
    }
}

/// A worker's state. Lives on its own thread.
pub(crate) struct Worker {
    shared: Arc<Shared>,
    number: usize,
    ring: Ring,
    mailbox: Arc<Mailbox>,
    mailbox_file: FileId,
    files: OwnFiles,
    sockets: Sockets,
    local_clients: Vec<Option<Box<LocalClientState>>>,
    inline: Inline,
    /// What was not reported yet; kept to avoid allocation.
    incidents: Vec<Incident>,
    delivered: Vec<(u32, i32)>,
    actions: Actions,
    performing: Actions,
    /// Workers to be woken as soon as the lock is released.
    wakes: Vec<Arc<Mailbox>>,
    completions: Vec<Completion>,
    sent_without_bytes: Vec<Out>,
    scratch: Vec<u8>,
    counters: LoopCounters,
    idle: Idle,
}

/// Receives trace events of the queue and its policies, in batches.
pub(crate) type TraceSink = Box<dyn FnMut(Vec<Traced>) + Send>;

impl Worker {
    /// Builds a worker on the thread that will run it, and adds it to the device.
    pub fn new(shared: Arc<Shared>, mailbox: Arc<Mailbox>) -> Result<Self, EngineError> {
        let system = |what: &str, error: std::io::Error| {
            EngineError::system(format!("{what}: {error}"), "see Limits and kernel settings in docs/reference/serve.md")
        };
        let settings = &shared.settings;
        // This only improves timing; where it is forbidden the engine works without.
        let _ = hoistway_linux::thread::precise_timers();
        let _ = hoistway_linux::thread::short_slices();
        if settings.is_urgent {
            let _ = hoistway_linux::thread::most_urgent();
        }
        hoistway_linux::thread::pin(&settings.cpus).map_err(|error| {
            EngineError::usage(
                format!("cpu = {:?}: {error}", settings.cpus),
                "name processors that this process may use",
            )
        })?;
        let mut ring = Ring::new(Arc::clone(&shared.arena), shared.files).map_err(|error| system("io_uring", error))?;
        let event = mailbox.event.descriptor().map_err(|error| system("the worker's mailbox", error))?;
        let mailbox_file = ring.add_file(event).map_err(|error| system("the worker's mailbox", error))?;
        ring.poll(Token::Mailbox.pack(), mailbox_file);
        let number = shared.core.lock().add_worker(Arc::clone(&mailbox));
        Ok(Self {
            number,
            idle: Idle::new(settings.busy_poll_us),
            shared,
            ring,
            mailbox,
            mailbox_file,
            files: OwnFiles::default(),
            sockets: Sockets::default(),
            local_clients: Vec::new(),
            inline: Inline::default(),
            incidents: Vec::new(),
            delivered: Vec::with_capacity(256),
            actions: Actions::default(),
            performing: Actions::default(),
            wakes: Vec::new(),
            completions: Vec::with_capacity(COMPLETIONS_PER_TURN),
            sent_without_bytes: Vec::new(),
            scratch: Vec::with_capacity(stream::HEADER_BYTES as usize * 2),
            counters: LoopCounters::default(),
        })
    }

    /// Runs until the device is stopped.
    pub fn run(&mut self) -> Result<(), EngineError> {
        let shared = Arc::clone(&self.shared);
        loop {
            let now = hoistway_linux::thread::monotonic_ns();
            let mut core = shared.core.lock();
            core.workers[self.number].is_asleep = false;
            self.turn_once(&mut core, now);
            if core.must_stop {
                self.report_ends(&core);
                self.leave();
                return Ok(());
            }
            self.wait_for_events(core, now)
                .map_err(|error| EngineError::system(format!("io_uring: {error}"), "restart the server"))?;
        }
    }

    fn turn_once(&mut self, core: &mut Locked<'_>, now: Nanos) {
        self.counters.turns += 1;
        core.turn.begin_turn(now);
        self.settle_sent_without_bytes(core, now);
        let mut completions = std::mem::take(&mut self.completions);
        completions.clear();
        self.ring.reap(COMPLETIONS_PER_TURN, &mut completions);
        self.counters.events += completions.len() as u64;
        for completion in &completions {
            self.handle(core, *completion, now);
        }
        self.completions = completions;
        for _ in 0..self.sockets.to_serve() {
            let Some(socket) = self.sockets.next_to_serve() else { break };
            self.pump(core, socket, now);
        }
        self.take_payloads(core, now);
        self.advance_gate(core, now);
        self.check_stalls(core, now);
        core.turn.expire(now);
        self.perform_deferred(core, now);
        self.run_local_clients(core, now);
        self.settle(core, now);
        self.report_incidents(core);
        send_traced(core);
    }

    fn handle(&mut self, core: &mut Locked<'_>, completion: Completion, now: Nanos) {
        match Token::unpack(completion.token) {
            Token::Receive { socket, generation } => self.received(core, socket, generation, completion.result, now),
            Token::Send { socket, generation } => self.send_completed(core, socket, generation, completion.result, now),
            Token::HangUp { socket, generation } => self.peer_hung_up(core, socket, generation, now),
            Token::Io(io) => self.io_done(core, io, completion.result, now),
            Token::Sync(volume) => self.sync_done(core, volume, completion.result, now),
            Token::Store(volume) => self.store_done(core, volume, completion.result, now),
            Token::Local { client, key } => self.local_command_completed(client, key, completion.result),
            Token::Mailbox => {
                self.ring.poll(Token::Mailbox.pack(), self.mailbox_file);
                self.run_jobs(core);
            }
        }
    }

    /// Runs the jobs that are waiting now, and only these, so that a client that posts continually
    /// cannot occupy the loop.
    fn run_jobs(&mut self, core: &mut Locked<'_>) {
        self.mailbox.event.clear();
        for job in self.mailbox.take_all() {
            job(self, core);
        }
    }

    /// Dispatches and performs until nothing more follows at once.
    fn settle(&mut self, core: &mut Locked<'_>, first_now: Nanos) {
        let mut now = first_now;
        let mut budget = disk::INLINE_PER_TURN;
        loop {
            core.turn.dispatch(now, &mut self.actions);
            core.exchange(self.number, &mut self.actions, &mut self.wakes);
            if self.actions.list.is_empty() {
                break;
            }
            self.refresh_files(core);
            std::mem::swap(&mut self.performing, &mut self.actions);
            let mut performing = std::mem::replace(&mut self.performing, Actions::empty());
            self.start_in_model(core, &performing, now);
            unlocked(core, || {
                self.signal_wakes();
                self.move_data(&performing, &mut budget);
            });
            for action in &performing.list {
                self.pass_on(core, *action, now);
            }
            self.take_payloads(core, now);
            performing.clear();
            self.performing = performing;
            if self.inline.has_results() {
                // Moving data takes longer than deciding, so the clock is read again.
                now = hoistway_linux::thread::monotonic_ns();
                self.take_inline_results(core, now);
            }
            self.run_local_clients(core, now);
        }
    }

    /// Wakes the workers that have got actions. The lock is not held.
    fn signal_wakes(&mut self) {
        self.wakes.drain(..).for_each(|mailbox| mailbox.event.signal());
    }

    /// Starts the I/O of a list of actions, or does it.
    fn move_data(&mut self, actions: &Actions, budget: &mut u32) {
        for action in &actions.list {
            match *action {
                Action::Start { first_span, spans: count, .. } => {
                    let spans = &actions.spans[first_span as usize..(first_span + count) as usize];
                    if let Some(transfer) = disk::Transfer::of(action) {
                        self.start_transfer(transfer, spans, budget);
                    }
                }
                Action::Empty { io, volume, how, position_bytes, length_bytes } => {
                    self.start_emptying(io, volume, how, position_bytes, length_bytes);
                }
                Action::Sync { volume } => self.start_sync(volume),
                Action::Store { volume, position_bytes, span } => self.start_store(volume, position_bytes, span),
                _ => {}
            }
        }
    }

    /// Performs an action that moves no data.
    fn pass_on(&mut self, core: &mut Locked<'_>, action: Action, now: Nanos) {
        match action {
            Action::Reply { connection, request, piece } => match core.route(connection) {
                Route::Socket { worker, socket } if worker == self.number => {
                    self.queue_piece(core, socket, request, piece, now);
                }
                Route::Local { worker, client, connection } if worker == self.number => {
                    self.answer_local_client(core, client, connection, request, piece, now);
                }
                _ => core.turn.sent(request, piece, now, &mut self.actions),
            },
            Action::Continue { connection, verdict } => match core.route(connection) {
                Route::Socket { worker, socket } if worker == self.number => {
                    self.continue_stream(core, socket, verdict, now);
                }
                Route::Local { worker, client, connection } if worker == self.number => {
                    self.continue_local_client(core, client, connection, verdict, now);
                }
                // The client has gone since.
                _ => {}
            },
            Action::Status { request, volume } => self.query_allocation(core, request, volume, now),
            Action::Finished { connection } => {
                let route = std::mem::take(&mut core.routes[connection as usize]);
                core.labels[connection as usize] = None;
                let sums = core.turn.connection(connection).map(|(sums, ..)| sums.clone()).unwrap_or_default();
                core.turn.retire(connection);
                core.connection_ended(connection);
                match route {
                    Route::Socket { socket, .. } => self.turn_finished(core, socket, sums),
                    Route::Local { client, connection, .. } => {
                        self.local_connection_finished(core, client, connection);
                    }
                    Route::None => {}
                }
            }
            Action::Start { .. } | Action::Empty { .. } | Action::Sync { .. } | Action::Store { .. } => {}
        }
    }

    /// Closes everything that belongs to this worker, because the device stops.
    fn leave(&mut self) {
        self.abandon_local_clients();
        for socket in self.sockets.iter_mut() {
            if let Some(fd) = self.ring.file(socket.file) {
                hoistway_linux::socket::shut_down(fd);
            }
        }
    }

    fn arena(&self) -> &Arena {
        self.ring.arena()
    }
}

impl Core {
    /// Replaces the elevator.
    pub fn switch(&mut self, spec: &hoistway_experiment::SchedulerSpec) -> Result<(), EngineError> {
        let help = "see `hoistway list schedulers`";
        let version = parse_version(spec)?;
        let now = hoistway_linux::thread::monotonic_ns();
        self.turn.switch(spec, version, &self.turn_settings, now).map_err(|message| EngineError::usage(message, help))
    }

    /// Starts or stops sending trace events to a sink.
    pub fn set_trace_sink(&mut self, sink: Option<TraceSink>) {
        self.turn.set_tracing(sink.is_some());
        send_traced(self);
        self.sink = sink;
    }
}

fn send_traced(core: &mut Core) {
    if let Some(sink) = &mut core.sink {
        let traced = core.turn.take_traced();
        if !traced.is_empty() {
            sink(traced);
        }
    }
}

/// The kernel version named in a specification.
pub(crate) fn parse_version(
    spec: &hoistway_experiment::SchedulerSpec,
) -> Result<Option<hoistway_elevator::Version>, EngineError> {
    let Some(text) = &spec.version else { return Ok(None) };
    match hoistway_elevator::registry::parse_version(text) {
        Some(version) => Ok(Some(version)),
        None => Err(EngineError::usage(
            format!("scheduler '{spec}': '{text}' is no kernel version"),
            "write it like mq-deadline@6.1",
        )),
    }
}

impl Verdict {
    /// Whether parsing of the stream may continue.
    const fn is_go(self) -> bool {
        matches!(self, Verdict::Go)
    }
}
