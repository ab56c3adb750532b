//! A vhost-user-blk device on a thread of the shard: one per connected front end and thread, with a part of the
//! front end's rings.
//!
//! ```text
//! kick ─► poll completes ─► take chains ─► engine ─► answers ─► status, used ring ─► call
//! session's thread ─► commands: start, stop, enable a ring; end
//! ```
//! When the front end has gone, what it has queued is dropped. The client closes when the device has
//! completed what it was given.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use hoistway_block::Nanos;
use hoistway_engine::protocol::virtio_blk::{self, IDENTITY_BYTES, Request, Status};
use hoistway_engine::protocol::{Command as Operation, Failure};
use hoistway_engine::{Answer, ClientContext, Data, LocalClient, Payload};
use hoistway_linux::aio::Signals;
use hoistway_linux::buffer::Span;

use super::attached::AttachedMemory;
use super::chain::Malformed;
use super::guest_memory::{GuestMemory, LOST};
use super::ring::Ring;

/// Chains taken from one ring per turn, so that one guest cannot occupy the shard's thread.
const TAKEN_PER_TURN: u32 = 256;
/// The bits of a cookie that are the head; the others are the ring.
const HEAD_BITS: u32 = 16;

/// What the session asks of the device.
pub enum Command {
    /// Use another memory from now on.
    Memory(Arc<GuestMemory>),
    /// Serve a ring.
    Start(Box<Ring>),
    /// Stop a ring, and send the index that its available ring is read at next.
    Stop(u16, Sender<u16>),
    /// Take chains from a ring, or no more.
    Enable(u16, bool),
    /// Signal another event.
    Call(u16, Option<OwnedFd>),
    /// Answer writes when they are on stable storage, or before.
    WriteThrough(bool),
    /// The front end has gone.
    End,
}

/// The commands that may wait for the device. Each may hold memory and open files, and a front end can
/// send messages faster than the device takes them.
const MAX_COMMANDS: usize = 64;

/// The commands that the device has not seen yet.
#[derive(Default)]
pub struct Commands {
    waiting: Mutex<Waiting>,
    /// Commands were taken, or are taken no more.
    taken: Condvar,
}

#[derive(Default)]
struct Waiting {
    commands: VecDeque<Command>,
    is_closed: bool,
}

impl Commands {
    /// Adds a command, when there is room for one. The sender wakes the client afterwards. Once the device
    /// has gone the command is dropped, and with it the sender of its answer.
    pub fn push(&self, command: Command) {
        let is_full = |waiting: &mut Waiting| waiting.commands.len() >= MAX_COMMANDS && !waiting.is_closed;
        let waiting = self.taken.wait_while(self.waiting(), is_full);
        let mut waiting = waiting.unwrap_or_else(PoisonError::into_inner);
        if !waiting.is_closed {
            waiting.commands.push_back(command);
        }
    }

    fn take(&self) -> VecDeque<Command> {
        let taken = std::mem::take(&mut self.waiting().commands);
        if taken.len() >= MAX_COMMANDS {
            self.taken.notify_all();
        }
        taken
    }

    fn close(&self) {
        let mut waiting = self.waiting();
        waiting.is_closed = true;
        waiting.commands.clear();
        self.taken.notify_all();
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Prints a message of a device, from a thread that may block.
pub type Report = Arc<dyn Fn(String) + Send + Sync>;

/// The device as a client of the engine.
pub struct Device {
    /// Its name in status and messages.
    label: String,
    /// The answer to a request for its name.
    identity: [u8; IDENTITY_BYTES],
    commands: Arc<Commands>,
    report: Report,
    /// Signals the guest's events.
    signals: Signals,
    /// Dropped with the device; when all have gone, the session knows that nothing is in flight any more.
    _on_closed: Sender<()>,
    state: State,
}

#[derive(Default)]
struct State {
    rings: Vec<Option<Box<Ring>>>,
    /// The guest's memory, and the same attached to the arena, if that was possible.
    memory: Option<(Arc<GuestMemory>, Option<Arc<AttachedMemory>>)>,
    /// Scratch space for one request's memory.
    spans: Vec<Span>,
    is_write_through: bool,
    is_ending: bool,
    /// A ring has more chains than a turn takes.
    wants_turn: bool,
}

impl Device {
    /// A device without rings.
    ///
    /// # Errors
    /// See [`Signals::new`].
    pub fn new(
        label: String,
        identity: [u8; IDENTITY_BYTES],
        commands: Arc<Commands>,
        report: Report,
        on_closed: Sender<()>,
    ) -> io::Result<Self> {
        let (signals, state) = (Signals::new()?, State::default());
        Ok(Self { label, identity, commands, report, signals, _on_closed: on_closed, state })
    }

    fn obey(&mut self, command: Command, context: &mut ClientContext<'_>) {
        let state = &mut self.state;
        match command {
            Command::Memory(memory) => {
                let attached = AttachedMemory::new(&memory, context).map(Arc::new);
                state.each_ring(|ring| ring.set_memory(&memory, attached.as_ref()));
                state.memory = Some((memory, attached));
            }
            Command::Start(mut ring) => {
                // A ring is made by the session's thread, which cannot attach memory.
                if let Some((memory, attached)) = &state.memory {
                    ring.set_memory(memory, attached.as_ref());
                }
                match ring.duplicate_kick().and_then(|kick| context.add_file(kick)) {
                    Ok(file) => ring.kick = Some(file),
                    Err(error) => {
                        ring.break_off(&mut self.signals);
                        (self.report)(format!("{}: ring {} is not served: {error}", self.label, ring.index()));
                    }
                }
                let index = usize::from(ring.index());
                if state.rings.len() <= index {
                    state.rings.resize_with(index + 1, || None);
                }
                state.rings[index] = Some(ring);
            }
            Command::Stop(index, reply) => {
                if let Some(ring) = state.ring(index) {
                    ring.stop(Some(reply), context);
                }
            }
            Command::Enable(index, is_enabled) => {
                if let Some(ring) = state.ring(index) {
                    ring.enable(is_enabled);
                }
            }
            Command::Call(index, call) => {
                if let Some(ring) = state.ring(index) {
                    ring.set_call(call, &mut self.signals);
                }
            }
            Command::WriteThrough(is_write_through) => state.is_write_through = is_write_through,
            Command::End => {
                state.is_ending = true;
                state.each_ring(|ring| ring.stop(None, context));
                context.disconnect();
            }
        }
    }

    /// Takes chains from a ring and submits their requests.
    fn serve(&mut self, ring: &mut Ring, context: &mut ClientContext<'_>) -> Result<(), Malformed> {
        let mut left = TAKEN_PER_TURN;
        while ring.is_open() && context.has_room(0) {
            if left == 0 {
                self.state.wants_turn = true;
                break;
            }
            left -= 1;
            let Some(head) = ring.take()? else { break };
            let cookie = u64::from(ring.index()) << HEAD_BITS | u64::from(head);
            let Some(slot) = ring.slot(head) else { continue };
            let parts = slot.chain.parts();
            match virtio_blk::translate(cookie, &parts, self.state.is_write_through) {
                Err(status) => ring.end(head, Some(status))?,
                Ok(Request::Identify) => {
                    let memory = slot.memory.clone().unwrap_or_default();
                    let is_put = memory.put(slot.chain.in_segments(), &self.identity);
                    slot.in_bytes = u32::try_from(IDENTITY_BYTES).unwrap_or(u32::MAX);
                    ring.end(head, Some(if is_put { Status::Done } else { Status::Failed }))?;
                }
                Ok(Request::Io(request)) => {
                    if request.command == Operation::Read {
                        slot.in_bytes = u32::try_from(request.length_bytes).unwrap_or(u32::MAX);
                    }
                    let segments = match request.command {
                        Operation::Write => slot.chain.out_segments(),
                        _ => slot.chain.in_segments(),
                    };
                    let spans = &mut self.state.spans;
                    let is_found = slot.attached.as_ref().is_some_and(|attached| attached.find(segments, spans));
                    let mut fill = |offset_bytes, to: Payload<'_>| slot.fill(offset_bytes, &to);
                    match is_found {
                        true => context.submit_direct(0, request, spans, &mut fill),
                        false => context.submit(0, request, &mut fill),
                    };
                }
            }
        }
        Ok(())
    }

    fn break_off(&mut self, ring: &mut Ring, reason: Malformed) {
        if ring.break_off(&mut self.signals) {
            // Memory that is gone reads as zeroes, which look like a broken ring.
            let reason = if ring.is_memory_lost() { LOST } else { reason };
            let (label, index) = (&self.label, ring.index());
            (self.report)(format!("{label}: ring {index} is not served until the guest resets it: {reason}"));
        }
    }
}

impl State {
    fn ring(&mut self, index: u16) -> Option<&mut Ring> {
        self.rings.get_mut(usize::from(index))?.as_deref_mut()
    }

    fn each_ring(&mut self, mut each: impl FnMut(&mut Ring)) {
        self.rings.iter_mut().flatten().for_each(|ring| each(ring));
    }

    fn of_cookie(&mut self, cookie: u64) -> Option<(&mut Ring, u16)> {
        let head = u16::try_from(cookie & ((1 << HEAD_BITS) - 1)).ok()?;
        Some((self.ring(u16::try_from(cookie >> HEAD_BITS).ok()?)?, head))
    }
}

impl LocalClient for Device {
    fn turn(&mut self, context: &mut ClientContext<'_>) {
        for command in self.commands.take() {
            self.obey(command, context);
        }
        self.state.wants_turn = false;
        let mut rings = std::mem::take(&mut self.state.rings);
        for place in &mut rings {
            let Some(ring) = place else { continue };
            let mut answers = std::mem::take(&mut ring.answers);
            let mut result = answers.drain(..).try_for_each(|(head, status)| ring.end(head, status));
            ring.answers = answers;
            if result.is_ok() {
                result = self.serve(ring, context);
            }
            if let Err(reason) = result {
                self.break_off(ring, reason);
            }
            ring.signal(&mut self.signals);
            if let Some(file) = ring.kick.filter(|_| ring.wants_kicks() && !ring.is_polled) {
                context.poll(file, ring.index());
                ring.is_polled = true;
            }
            if ring.is_stopped() {
                if let Some(file) = ring.kick.take() {
                    context.remove_file(file);
                }
                if ring.is_lost() {
                    // What is in the device uses the guest's memory, which the ring's chains hold.
                    continue;
                }
                if let Some(Some(reply)) = ring.stopping.take() {
                    // The session may have ended meanwhile.
                    let _ = reply.send(ring.next_available());
                }
                *place = None;
            }
        }
        self.state.rings = rings;
        if self.state.is_ending && self.state.rings.iter().flatten().all(|ring| ring.is_stopped()) {
            context.close();
        }
    }

    fn next_wake_ns(&self) -> Option<Nanos> {
        self.state.wants_turn.then_some(0)
    }

    fn fill(&mut self, _connection: usize, cookie: u64, offset_bytes: u64, to: Payload<'_>) -> Result<(), Failure> {
        let (ring, head) = self.state.of_cookie(cookie).ok_or(Failure::Io)?;
        ring.slot(head).ok_or(Failure::Io)?.fill(offset_bytes, &to)
    }

    fn data(&mut self, _connection: usize, cookie: u64, offset_bytes: u64, from: Data<'_>) -> Result<(), Failure> {
        let (ring, head) = self.state.of_cookie(cookie).ok_or(Failure::Io)?;
        ring.slot(head).ok_or(Failure::Io)?.empty(offset_bytes, &from)
    }

    fn answered(&mut self, answer: Answer) {
        let Some((ring, head)) = self.state.of_cookie(answer.cookie) else { return };
        let status = match answer.result {
            Ok(()) => Some(Status::Done),
            Err(failure) => virtio_blk::status(failure),
        };
        ring.answers.push((head, status));
    }

    fn command_completed(&mut self, key: u16, result: i32) {
        let Some(ring) = self.state.ring(key) else { return };
        ring.kicked();
        if result < 0 && ring.stopping.is_none() {
            ring.break_off(&mut self.signals);
        }
    }

    fn label(&self) -> Option<&str> {
        Some(&self.label)
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        self.commands.close();
    }
}
