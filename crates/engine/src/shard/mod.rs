//! The shard: one thread, one ring, one device. It performs the actions that the turn decides and
//! makes no decisions itself.
//!
//! ```text
//! reap completions ─► mailbox ─► parse ─► model ─► expire ─► dispatch ─► perform (inline I/O again) ─► send ─► wait
//! ```
//! Sockets, disk, timers and control are all handled here, so the data path needs no lock and no
//! hand-over. Operations that may block run elsewhere: the caller of the handle opens files, the
//! helper thread queries allocation.

mod disk;
mod local_client;
mod mailbox;
mod output;
mod status;
mod stream;
mod ublk;
mod wait;

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, mpsc};

use block::{Nanos, RequestId};
use linux::buffer::Arena;
use linux::ring::{Completion, FileId, Ring};

pub use local_client::{Answer, ClientContext, Data, LocalClient, LocalRequest, Payload};
pub(crate) use mailbox::Mailbox;
pub(crate) use status::Drain;
pub use status::{ConnectionStatus, DrainReport, GroupStatus, ShardStatus, TunableStatus, VolumeStatus};
pub(crate) use stream::Attachment;
pub use ublk::UblkDevice;

use crate::backing::{OpenVolume, VolumeFacts};
use crate::counters::LoopCounters;
use crate::error::EngineError;
use crate::gate::Gate;
use crate::protocol::StatusExtent;
pub use crate::turn::Traced;
use crate::turn::{Action, Actions, Turn, TurnSettings, Verdict};
use local_client::LocalClientState;
use stream::Socket;
use wait::Idle;

/// Completions handled per turn of the loop.
const COMPLETIONS_PER_TURN: usize = 1_024;
/// Tags of the gate below this are I/Os; from here on they are fsyncs of volumes.
const FIRST_SYNC_TAG: u32 = 8_193;
/// The most volumes of a shard.
pub(crate) const MAX_VOLUMES: u32 = 1_024;

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
            _ => Token::Mailbox,
        }
    }
}

/// The receiver of a connection's answers; none once it is closed.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
enum Route {
    #[default]
    None,
    Socket(u32),
    Local {
        client: u32,
        connection: u32,
    },
}

/// A volume's file as the loop uses it.
struct VolumeFile {
    facts: VolumeFacts,
    /// `None` where the volume has no storage.
    file: Option<FileId>,
    /// The same file for the helper thread.
    shared: Option<Arc<OwnedFd>>,
    base_bytes: u64,
    is_inline: bool,
}

impl Drop for VolumeFile {
    /// Releases the file's claim for the next server at once. The ring is dropped before the
    /// volumes, so nothing is in flight any more.
    fn drop(&mut self) {
        if let Some(file) = &self.shared {
            // A file that was opened read-only holds no claim; nothing else can go wrong.
            let _ = linux::ioctl::unlock(file.as_fd());
        }
    }
}

/// The shard's state. Lives on its own thread.
pub(crate) struct Shard {
    settings: LoopSettings,
    turn_settings: TurnSettings,
    ring: Ring,
    turn: Turn,
    mailbox: Arc<Mailbox>,
    mailbox_file: FileId,
    volumes: Vec<Option<VolumeFile>>,
    model_used_bytes: u64,
    model_capacity_bytes: Option<u64>,
    gate: Option<Gate>,
    routes: Vec<Route>,
    sockets: Vec<Option<Box<Socket>>>,
    free_sockets: Vec<u32>,
    generation: u16,
    local_clients: Vec<Option<Box<LocalClientState>>>,
    /// Sockets with received bytes that were left unparsed for fairness.
    ready: Vec<u32>,
    /// Sockets with output that is not being sent.
    dirty: Vec<u32>,
    /// I/Os that exceeded the inline budget of a turn.
    deferred: Vec<disk::InlineIo>,
    inline_done: Vec<(RequestId, i32)>,
    delivered: Vec<(u32, i32)>,
    actions: Actions,
    performing: Actions,
    completions: Vec<Completion>,
    /// Answers of the helper that wait to be sent, by request.
    extents: HashMap<u32, Vec<StatusExtent>>,
    helper: Option<mpsc::Sender<disk::StatusJob>>,
    scratch: Vec<u8>,
    counters: LoopCounters,
    idle: Idle,
    stall_check_at_ns: Option<Nanos>,
    drain: Option<Drain>,
    sink: Option<TraceSink>,
    must_stop: bool,
}

/// Receives trace events of the queue and its policies, in batches.
pub(crate) type TraceSink = Box<dyn FnMut(Vec<Traced>) + Send>;

impl Shard {
    /// Builds a shard on the thread that will run it.
    pub fn new(
        settings: LoopSettings,
        turn_settings: TurnSettings,
        gate: Option<(Gate, u64)>,
        mailbox: Arc<Mailbox>,
        files: u32,
    ) -> Result<Self, EngineError> {
        let system = |what: &str, error: std::io::Error| {
            EngineError::system(format!("{what}: {error}"), "see the engine's chapter on limits and kernel settings")
        };
        // This only improves timing; where it is forbidden the engine works without.
        let _ = linux::thread::precise_timers();
        let _ = linux::thread::short_slices();
        if settings.is_urgent {
            let _ = linux::thread::most_urgent();
        }
        linux::thread::pin(&settings.cpus).map_err(|error| {
            EngineError::usage(
                format!("cpu = {:?}: {error}", settings.cpus),
                "name processors that this process may use",
            )
        })?;
        let arena = Arena::new(turn_settings.memory_bytes).map_err(|error| system("memory for the arena", error))?;
        let mut ring = Ring::new(arena, files).map_err(|error| system("io_uring", error))?;
        let turn = Turn::new(&turn_settings).map_err(|error| {
            EngineError::usage(
                crate::error::describe_build(&turn_settings.scheduler, error),
                "see `hoistway list schedulers`",
            )
        })?;
        let event = mailbox.event.descriptor().map_err(|error| system("the shard's mailbox", error))?;
        let mailbox_file = ring.add_file(event).map_err(|error| system("the shard's mailbox", error))?;
        ring.poll(Token::Mailbox.pack(), mailbox_file);
        let connections = turn_settings.connections as usize;
        let (gate, model_capacity_bytes) = gate.map_or((None, None), |(gate, capacity)| (Some(gate), Some(capacity)));
        Ok(Self {
            idle: Idle::new(settings.busy_poll_us),
            settings,
            ring,
            turn,
            mailbox,
            mailbox_file,
            volumes: Vec::new(),
            model_used_bytes: 0,
            model_capacity_bytes,
            gate,
            routes: vec![Route::default(); connections],
            sockets: Vec::new(),
            free_sockets: Vec::new(),
            generation: 0,
            local_clients: Vec::new(),
            ready: Vec::with_capacity(connections),
            dirty: Vec::with_capacity(connections),
            deferred: Vec::with_capacity(256),
            inline_done: Vec::with_capacity(256),
            delivered: Vec::with_capacity(256),
            actions: Actions::default(),
            performing: Actions::default(),
            completions: Vec::with_capacity(COMPLETIONS_PER_TURN),
            extents: HashMap::new(),
            helper: None,
            scratch: Vec::with_capacity(stream::HEADER_BYTES as usize * 2),
            counters: LoopCounters::default(),
            stall_check_at_ns: None,
            drain: None,
            sink: None,
            must_stop: false,
            turn_settings,
        })
    }

    /// Runs until the shard is stopped.
    pub fn run(&mut self) -> Result<(), EngineError> {
        while !self.must_stop {
            let now = linux::thread::monotonic_ns();
            self.turn_once(now);
            self.advance_drain();
            if self.must_stop {
                break;
            }
            self.wait_for_events(now)
                .map_err(|error| EngineError::system(format!("io_uring: {error}"), "restart the server"))?;
        }
        Ok(())
    }

    fn turn_once(&mut self, now: Nanos) {
        self.counters.turns += 1;
        self.turn.begin_turn(now);
        let mut completions = std::mem::take(&mut self.completions);
        completions.clear();
        self.ring.reap(COMPLETIONS_PER_TURN, &mut completions);
        self.counters.events += completions.len() as u64;
        for completion in &completions {
            self.handle(*completion, now);
        }
        self.completions = completions;
        for _ in 0..self.ready.len() {
            // Sockets are served in rotation: an unfinished one goes to the end of the list.
            let socket = self.ready.remove(0);
            self.pump(socket, now);
        }
        self.advance_gate(now);
        self.check_stalls(now);
        self.turn.expire(now);
        self.perform_deferred(now);
        self.run_local_clients(now);
        self.settle(now);
        self.send_traced();
        self.send_dirty(now);
    }

    fn handle(&mut self, completion: Completion, now: Nanos) {
        match Token::unpack(completion.token) {
            Token::Receive { socket, generation } => self.received(socket, generation, completion.result, now),
            Token::Send { socket, generation } => self.send_completed(socket, generation, completion.result, now),
            Token::Io(io) => self.io_done(io, completion.result, now),
            Token::Sync(volume) => self.sync_done(volume, completion.result, now),
            Token::Local { client, key } => self.local_command_completed(client, key, completion.result),
            Token::Mailbox => {
                self.ring.poll(Token::Mailbox.pack(), self.mailbox_file);
                self.run_jobs();
            }
        }
    }

    /// Runs the jobs that are waiting now, and only these, so that a client that posts continually
    /// cannot occupy the loop.
    fn run_jobs(&mut self) {
        self.mailbox.event.clear();
        for job in self.mailbox.take_all() {
            job(self);
        }
    }

    /// Dispatches and performs until nothing more follows at once.
    fn settle(&mut self, first_now: Nanos) {
        let mut now = first_now;
        let mut budget = disk::INLINE_PER_TURN;
        loop {
            self.turn.dispatch(now, &mut self.actions);
            std::mem::swap(&mut self.performing, &mut self.actions);
            if self.performing.list.is_empty() {
                break;
            }
            self.perform_all(&mut budget, now);
            if !self.inline_done.is_empty() {
                // Moving data takes longer than deciding, so the clock is read again.
                now = linux::thread::monotonic_ns();
                let mut done = std::mem::take(&mut self.inline_done);
                for (io, result) in done.drain(..) {
                    self.io_done(io, result, now);
                }
                self.inline_done = done;
            }
            self.run_local_clients(now);
        }
    }

    fn perform_all(&mut self, budget: &mut u32, now: Nanos) {
        let mut performing = std::mem::replace(&mut self.performing, Actions::empty());
        for action in &performing.list {
            self.perform(*action, &performing.spans, budget, now);
        }
        performing.clear();
        self.performing = performing;
    }

    fn perform(&mut self, action: Action, spans: &[linux::buffer::Span], budget: &mut u32, now: Nanos) {
        match action {
            Action::Start { io, volume, is_write, position_bytes, first_span, spans: count, bytes, is_durable } => {
                let spans = &spans[first_span as usize..(first_span + count) as usize];
                let transfer = disk::Transfer { io, volume, is_write, position_bytes, bytes, is_durable };
                self.start_transfer(transfer, spans, budget, now);
            }
            Action::Empty { io, volume, how, position_bytes, length_bytes } => {
                self.start_emptying(io, volume, how, position_bytes, length_bytes, now);
            }
            Action::Sync { volume } => self.start_sync(volume, now),
            Action::Zero { span } => self.ring.arena().fill(span, 0),
            Action::Copy { from, to } => self.ring.arena().copy_within(from, to),
            Action::Reply { connection, request, piece } => match self.route(connection) {
                Route::Socket(socket) => self.queue_piece(socket, request, piece, now),
                Route::Local { client, connection } => {
                    self.answer_local_client(client, connection, request, piece, now)
                }
                Route::None => self.turn.sent(request, piece, now, &mut self.actions),
            },
            Action::Continue { connection, verdict } => match self.route(connection) {
                Route::Socket(socket) => self.continue_stream(socket, verdict, now),
                Route::Local { client, connection } => self.continue_local_client(client, connection, verdict, now),
                Route::None => {}
            },
            Action::Status { request, volume } => self.ask_helper(request, volume, now),
            Action::Finished { connection } => {
                let route = std::mem::take(&mut self.routes[connection as usize]);
                self.turn.retire(connection);
                match route {
                    Route::Socket(socket) => self.turn_finished(socket),
                    Route::Local { client, connection } => self.local_connection_finished(client, connection),
                    Route::None => {}
                }
            }
        }
    }

    #[inline]
    fn route(&self, connection: u32) -> Route {
        self.routes.get(connection as usize).copied().unwrap_or_default()
    }

    /// Adds an open volume; returns its number.
    pub fn add_volume(&mut self, mut volume: OpenVolume) -> Result<u32, EngineError> {
        let number = self.volumes.iter().position(Option::is_none).unwrap_or(self.volumes.len());
        let number = u32::try_from(number).unwrap_or(MAX_VOLUMES);
        if number >= MAX_VOLUMES {
            let message = format!("volume '{}': a device has at most {MAX_VOLUMES} volumes", volume.facts.name);
            return Err(EngineError::usage(message, "put it on another device"));
        }
        if volume.model.is_some() != self.gate.is_some() {
            let message =
                format!("volume '{}': either all volumes of a device have the same model, or none", volume.facts.name);
            return Err(EngineError::usage(message, "put it on a device of its own"));
        }
        volume.place(number, self.model_used_bytes);
        if volume.model.is_some() {
            self.model_used_bytes += volume.facts.size_bytes;
            if self.model_capacity_bytes.is_some_and(|capacity| self.model_used_bytes > capacity) {
                self.model_used_bytes -= volume.facts.size_bytes;
                let message = format!("volume '{}' does not fit on the device model any more", volume.facts.name);
                return Err(EngineError::usage(message, "name all volumes at the start, or use another device"));
            }
        }
        let OpenVolume { facts, abilities, opened, base_bytes, is_inline, .. } = volume;
        let (mut file, mut shared) = (None, None);
        if let Some(opened) = opened {
            let failed = |error: std::io::Error| {
                EngineError::system(format!("volume '{}': {error}", facts.name), "raise the limit of open files")
            };
            shared = Some(Arc::new(opened.file.try_clone().map_err(failed)?));
            file = Some(self.ring.add_file(opened.file).map_err(failed)?);
            if opened.is_direct {
                // Direct I/O costs a tenth less on registered memory; without the right to pin it
                // everything works as well.
                let _ = self.ring.register_arena();
            }
        }
        let added = self.turn.add_volume(abilities);
        debug_assert_eq!(added, number);
        if number as usize == self.volumes.len() {
            self.volumes.push(None);
        }
        self.volumes[number as usize] = Some(VolumeFile { facts, file, shared, base_bytes, is_inline });
        Ok(number)
    }

    /// Closes a volume that has no users.
    pub fn remove_volume(&mut self, volume: u32) -> bool {
        if !self.turn.remove_volume(volume) {
            return false;
        }
        if let Some(file) = self.volumes[volume as usize].take().and_then(|volume| volume.file) {
            self.ring.remove_file(file);
        }
        true
    }

    /// The facts of a volume.
    pub fn facts(&self, volume: u32) -> Option<VolumeFacts> {
        Some(self.volumes.get(volume as usize)?.as_ref()?.facts.clone())
    }

    /// The turn, for control: groups, elevator, tunables.
    pub fn turn(&mut self) -> &mut Turn {
        &mut self.turn
    }

    /// Replaces the elevator.
    pub fn switch(&mut self, spec: &experiment::SchedulerSpec) -> Result<(), EngineError> {
        let help = "see `hoistway list schedulers`";
        let version = parse_version(spec)?;
        let now = linux::thread::monotonic_ns();
        self.turn.switch(spec, version, &self.turn_settings, now).map_err(|message| EngineError::usage(message, help))
    }

    /// Starts or stops sending trace events to a sink.
    pub fn set_trace_sink(&mut self, sink: Option<TraceSink>) {
        self.turn.set_tracing(sink.is_some());
        self.send_traced();
        self.sink = sink;
    }

    fn send_traced(&mut self) {
        if let Some(sink) = &mut self.sink {
            let traced = self.turn.take_traced();
            if !traced.is_empty() {
                sink(traced);
            }
        }
    }

    fn arena(&self) -> &Arena {
        self.ring.arena()
    }
}

/// The kernel version named in a specification.
pub(crate) fn parse_version(spec: &experiment::SchedulerSpec) -> Result<Option<elevator::Version>, EngineError> {
    let Some(text) = &spec.version else { return Ok(None) };
    match elevator::registry::parse_version(text) {
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
