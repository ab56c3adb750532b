//! Clients inside the process: they run on a worker's thread and are called by its loop, so that they
//! cost no hand-over. The load of `hoistway test` is one; [`crate::Client`] uses another.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use hoistway_block::Nanos;
use hoistway_linux::Slot;
use hoistway_linux::buffer::{Arena, Span};
use hoistway_linux::ring::{FileId, RequestBuffer, Ring, UblkData, UblkTag};
use hoistway_linux::window::{self, Attached, Window};

use super::shared::{Core, Locked, Route, unlocked};
use super::{Token, Worker};
use crate::error::EngineError;
use crate::protocol::{ClientRequest, Command, Failure};
use crate::turn::{Actions, Piece, Turn, Verdict};
use crate::volume::LocalConnection;

/// Windows begin at least at multiples of this.
const PAGE_BYTES: u32 = 4_096;

/// A request of a local client.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct LocalRequest {
    /// The client's own number for it, unique among the unanswered requests of a connection.
    pub cookie: u64,
    /// The operation; `BlockStatus` is not offered here.
    pub command: Command,
    /// First byte on the volume.
    pub offset_bytes: u64,
    /// Length in bytes, 0 for a flush; at most 4 GiB - 1.
    pub length_bytes: u64,
    /// Answer only when it is on stable storage.
    pub is_durable: bool,
    /// WriteZeroes: keep the range allocated.
    pub keeps_space: bool,
    /// The process of the connection that makes it; each process has a plug of its own.
    pub actor: u16,
    /// Whether more requests of its process follow at once. It then waits in the process's plug,
    /// until a request comes that is not held.
    pub is_held: bool,
}

/// The answer to a request of a local client.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// The index of the connection on which it was submitted.
    pub connection: usize,
    /// Its number.
    pub cookie: u64,
    /// Its result.
    pub result: Result<(), Failure>,
    /// When it ended, in nanoseconds of the monotonic clock.
    pub now_ns: Nanos,
}

/// A client that runs on a thread of the device.
pub trait LocalClient: Send {
    /// Called at the start, after answers, when a full connection has room again, at
    /// [`LocalClient::next_wake_ns`], and after a wake. Submits requests; must not block.
    fn turn(&mut self, context: &mut ClientContext<'_>);

    /// When [`LocalClient::turn`] is to be called even without any other reason.
    fn next_wake_ns(&self) -> Option<Nanos> {
        None
    }

    /// Supplies the data of a write that is not direct: `to` takes the bytes from `offset_bytes` inside the request
    /// on.
    ///
    /// # Errors
    /// All of `to` could not be filled. Then nothing of it is written, because it holds bytes of another request, and
    /// the request ends with this failure.
    fn fill(&mut self, connection: usize, cookie: u64, offset_bytes: u64, to: Payload<'_>) -> Result<(), Failure>;

    /// Takes data of a read that is not direct: the bytes from `offset_bytes` inside the request on; parts arrive in
    /// any order.
    ///
    /// # Errors
    /// The data could not be taken, so the request ends with this failure.
    fn data(&mut self, _connection: usize, _cookie: u64, _offset_bytes: u64, _from: Data<'_>) -> Result<(), Failure> {
        Ok(())
    }

    /// Takes the answer to a request.
    fn answered(&mut self, answer: Answer);

    /// A command that the client gave to the ring has completed; a turn follows.
    fn command_completed(&mut self, _key: u16, _result: i32) {}

    /// The client's name in the status; clients without one are not listed.
    fn label(&self) -> Option<&str> {
        None
    }

    /// The shard is shutting down: no more answers will come.
    fn abandoned(&mut self) {}
}

/// What supplies the data of a write: offset inside the request, memory. See [`LocalClient::fill`].
pub type Fill<'a> = dyn FnMut(u64, Payload<'_>) -> Result<(), Failure> + 'a;

/// Memory that takes a write's data. It holds bytes of earlier requests, perhaps of another client, until it
/// is filled.
#[derive(Debug)]
pub struct Payload<'a> {
    arena: &'a ArenaView<'a>,
    span: Span,
}

/// Memory that holds a read's data.
#[derive(Debug)]
pub struct Data<'a> {
    arena: &'a ArenaView<'a>,
    span: Span,
}

/// The arena without its debug output.
struct ArenaView<'a>(&'a Arena);

impl std::fmt::Debug for ArenaView<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Arena")
    }
}

impl Payload<'_> {
    /// Length in bytes.
    pub fn bytes(&self) -> u32 {
        self.span.length_bytes
    }

    /// The address of the memory, for clients that copy from memory of their own. It is valid during
    /// the call that this value was passed to.
    pub fn address(&self) -> *mut u8 {
        self.arena.0.address(self.span)
    }

    /// Writes `bytes` from `offset_bytes` of this memory on; bytes that do not fit are ignored.
    pub fn put(&mut self, offset_bytes: u32, bytes: &[u8]) {
        self.arena.0.copy_in(self.span.behind(offset_bytes), bytes);
    }

    /// Fills it from a file that does not block, beginning at `position_bytes`.
    ///
    /// # Errors
    /// The file's error, or `UnexpectedEof` if it has fewer bytes.
    pub fn read_from(&mut self, file: BorrowedFd<'_>, position_bytes: u64) -> io::Result<()> {
        move_all(self.span, position_bytes, |span, position| self.arena.0.read_at(file, span, position))
    }

    /// Fills it from other memory of the arena; false if that is shorter.
    pub(super) fn copy_from(&mut self, from: Span) -> bool {
        self.arena.0.copy_within(from, self.span);
        from.length_bytes >= self.span.length_bytes
    }
}

fn move_all(
    span: Span,
    position_bytes: u64,
    mut move_some: impl FnMut(Span, u64) -> io::Result<u32>,
) -> io::Result<()> {
    let mut left = span;
    while left.length_bytes > 0 {
        let done = u64::from(span.length_bytes - left.length_bytes);
        match move_some(left, position_bytes + done)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            bytes => left = left.behind(bytes),
        }
    }
    Ok(())
}

impl Data<'_> {
    /// Length in bytes.
    pub fn bytes(&self) -> u32 {
        self.span.length_bytes
    }

    /// The address of the memory, for clients that copy to memory of their own. It is valid during the
    /// call that this value was passed to, and may be read only.
    pub fn address(&self) -> *const u8 {
        self.arena.0.address(self.span)
    }

    /// Copies the start to `bytes`; returns the number of bytes copied.
    pub fn copy_to(&self, bytes: &mut [u8]) -> usize {
        self.arena.0.copy_out(self.span, bytes)
    }

    /// Writes it to a file that does not block, beginning at `position_bytes`.
    ///
    /// # Errors
    /// The file's error.
    pub fn write_to(&self, file: BorrowedFd<'_>, position_bytes: u64) -> io::Result<()> {
        move_all(self.span, position_bytes, |span, position| self.arena.0.write_at(file, span, position, false))
    }

    /// Copies it to other memory of the arena; false if that is shorter.
    pub(super) fn copy_within(&self, to: Span) -> bool {
        self.arena.0.copy_within(self.span, to);
        to.length_bytes >= self.span.length_bytes
    }
}

/// The state of one connection of a local client.
#[derive(Debug, Default)]
pub(super) struct ConnectionState {
    /// Its number in the turn.
    number: u32,
    is_waiting: bool,
    /// It was closed by its client.
    is_closed: bool,
    is_finished: bool,
    /// The write whose payload is being requested: its number, and the bytes supplied.
    filling: Option<(u64, u64)>,
}

/// A local client and its connections.
pub(super) struct LocalClientState {
    client: Box<dyn LocalClient>,
    connections: Vec<ConnectionState>,
    wants_turn: bool,
    is_closing: bool,
}

/// A local client of a device.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct LocalClientId {
    pub(crate) worker: usize,
    index: u32,
}

/// The device's lock, held, without the lifetime of its guard.
trait HeldLock {
    fn turn(&self) -> &Turn;
    fn turn_mut(&mut self) -> &mut Turn;
    fn unlocked(&mut self, action: &mut dyn FnMut());
}

impl HeldLock for Locked<'_> {
    fn turn(&self) -> &Turn {
        &self.turn
    }

    fn turn_mut(&mut self) -> &mut Turn {
        &mut self.turn
    }

    fn unlocked(&mut self, action: &mut dyn FnMut()) {
        unlocked(self, action);
    }
}

/// The operations that a local client may use during its turn.
pub struct ClientContext<'a> {
    index: u32,
    connections: &'a mut [ConnectionState],
    lock: &'a mut (dyn HeldLock + 'a),
    ring: &'a mut Ring,
    actions: &'a mut Actions,
    now_ns: Nanos,
    is_closing: &'a mut bool,
}

impl std::fmt::Debug for ClientContext<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientContext")
            .field("index", &self.index)
            .field("now_ns", &self.now_ns)
            .finish_non_exhaustive()
    }
}

impl ClientContext<'_> {
    /// The time of this turn, in nanoseconds of the monotonic clock.
    pub fn now_ns(&self) -> Nanos {
        self.now_ns
    }

    /// The number of connections.
    pub fn connections(&self) -> usize {
        self.connections.len()
    }

    /// Whether a connection takes a request now. If it is full, the local client gets another turn when it
    /// has room again.
    pub fn has_room(&self, connection: usize) -> bool {
        self.connections.get(connection).is_some_and(|connection| !connection.is_waiting && !connection.is_closed)
    }

    /// Submits a request. The data of a write is requested from `fill` (offset inside the request,
    /// memory) as far as there is memory now, and from [`LocalClient::fill`] for the rest later. False
    /// if the connection is full: then nothing was taken.
    pub fn submit(&mut self, connection: usize, request: LocalRequest, fill: &mut Fill<'_>) -> bool {
        self.submit_with(connection, request, None, fill)
    }

    /// [`ClientContext::submit`] for a read or write whose data is in the client's own memory: spans of
    /// [windows](ClientContext::attach), as long as the request together. The device uses that memory
    /// directly, if range and memory are aligned as its volume needs it, and then neither `fill` nor
    /// [`LocalClient::fill`] nor [`LocalClient::data`] is called; else the data is copied as by
    /// [`ClientContext::submit`]. The memory stays attached until the answer.
    pub fn submit_direct(
        &mut self,
        connection: usize,
        request: LocalRequest,
        memory: &[Span],
        fill: &mut Fill<'_>,
    ) -> bool {
        let number = self.connections.get(connection).map(|connection| connection.number);
        let alignment_bytes = number.and_then(|number| self.lock.turn().direct_alignment(number));
        let copies = |number: u32| {
            let (offset_bytes, length_bytes) = (request.offset_bytes, request.length_bytes);
            request.command == Command::Write && self.lock.turn().copies(number, offset_bytes, length_bytes)
        };
        let is_direct =
            alignment_bytes.is_some_and(|bytes| can_be_direct(&request, memory, bytes)) && !number.is_some_and(copies);
        self.submit_with(connection, request, is_direct.then_some(memory), fill)
    }

    fn submit_with(
        &mut self,
        connection: usize,
        request: LocalRequest,
        memory: Option<&[Span]>,
        fill: &mut Fill<'_>,
    ) -> bool {
        if !self.has_room(connection) {
            return false;
        }
        let number = self.connections[connection].number;
        let is_write = request.command == Command::Write;
        let asked = ClientRequest {
            cookie: request.cookie,
            offset_bytes: request.offset_bytes,
            length_bytes: request.length_bytes,
            payload_bytes: if is_write { u32::try_from(request.length_bytes).unwrap_or(u32::MAX) } else { 0 },
            command: request.command,
            fua: request.is_durable,
            no_hole: request.keeps_space,
            fast_zero: false,
            one_piece: false,
            is_direct: memory.is_some(),
            one_extent: false,
            tag: 0,
        };
        self.connections[connection].filling = (is_write && memory.is_none()).then_some((request.cookie, 0));
        self.lock.turn_mut().plug(number, request.actor, request.is_held);
        let mut verdict = match memory {
            None => self.lock.turn_mut().submit(number, asked, self.now_ns, self.actions),
            Some(memory) => self.lock.turn_mut().submit_direct(number, asked, memory, self.now_ns, self.actions),
        };
        while let Verdict::Fill(span) = verdict {
            let Some((_, done)) = &mut self.connections[connection].filling else { break };
            let (arena, from) = (ArenaView(self.ring.arena()), *done);
            let mut filled = Ok(());
            self.lock.unlocked(&mut || filled = fill(from, Payload { arena: &arena, span }));
            *done += u64::from(span.length_bytes);
            verdict = match filled {
                Ok(()) => self.lock.turn_mut().filled(number, self.now_ns, self.actions),
                Err(failure) => self.lock.turn_mut().unfilled(number, failure, self.now_ns, self.actions),
            };
        }
        if let Verdict::Skip(_) = verdict {
            // A refused request: its payload was never taken, so there is nothing to discard.
            verdict = self.lock.turn_mut().skipped(number, self.now_ns, self.actions);
        }
        self.connections[connection].is_waiting = verdict == Verdict::Wait;
        self.lock.turn_mut().end_plug(request.is_held, self.now_ns);
        if verdict == Verdict::Wait {
            self.unplug_all(connection);
        }
        true
    }

    /// Submits everything that the plugs of a connection hold, because its processes have to wait.
    pub fn unplug_all(&mut self, connection: usize) {
        if let Some(connection) = self.connections.get(connection) {
            self.lock.turn_mut().unplug_all(connection.number, self.now_ns);
        }
    }

    /// The queue's counters so far.
    pub fn queue_counters(&self) -> hoistway_queue::Counters {
        self.lock.turn().queue_counters()
    }

    /// The number of times that the scheduler gave each reason.
    pub fn reasons(&self) -> Vec<(&'static str, u64)> {
        self.lock.turn().reasons()
    }

    /// Removes the limiters; the requests that they hold go on at once.
    pub fn lift_limits(&mut self) {
        self.lock.turn_mut().lift_limits(self.now_ns);
    }

    /// Lets requests use memory of the client, until the value is dropped. `None` if that is not possible
    /// (longer than 1 TiB).
    pub fn attach(&self, window: Window) -> Option<Attached> {
        window::attach(self.ring.shared_arena(), window)
    }

    /// The ring's handle on a file, for [`ClientContext::poll`].
    ///
    /// # Errors
    /// `EMFILE`.
    pub fn add_file(&mut self, file: OwnedFd) -> io::Result<FileId> {
        self.ring.add_file(file)
    }

    /// Gives back a file whose commands have completed.
    pub fn remove_file(&mut self, file: FileId) {
        self.ring.remove_file(file);
    }

    /// Waits once for a file to become readable; [`LocalClient::command_completed`] is called with `key`
    /// (at most 4,095) then.
    pub fn poll(&mut self, file: FileId, key: u16) {
        self.ring.poll(Token::Local { client: self.index, key }.pack(), file);
    }

    /// Cancels the commands on a file. Each of them still completes.
    pub fn cancel(&mut self, file: FileId) {
        self.ring.cancel(file);
    }

    /// Gives back memory that the client was given when it was added.
    pub(super) fn give_memory(&mut self, slot: Slot) {
        self.lock.turn_mut().give_memory(slot);
    }

    /// Fetches the next request of a ublk queue's tag, after answering the last one with `result`.
    pub(super) fn fetch(&mut self, tag: UblkTag, result: Option<i32>, data: UblkData) {
        let token = Token::Local { client: self.index, key: tag.tag }.pack();
        self.ring.ublk_fetch(token, tag, result, data);
    }

    /// Gives back places for the memory of requests.
    pub(super) fn give_request_buffers(&mut self, buffers: impl Iterator<Item = RequestBuffer>) {
        self.ring.give_request_buffers(buffers);
    }

    /// Closes the connections: what they have submitted and the device has not been given is dropped, and
    /// nothing is answered any more. The client still gets turns, until [`ClientContext::close`].
    pub fn disconnect(&mut self) {
        for connection in &mut *self.connections {
            connection.is_closed = true;
            self.lock.turn_mut().close(connection.number, self.now_ns, self.actions);
        }
    }

    /// Closes the client as [`ClientContext::disconnect`] does: it gets no further turn, and is dropped when
    /// its last request has left the device.
    pub fn close(&mut self) {
        *self.is_closing = true;
    }
}

/// Whether a request's range and memory are multiples of `alignment_bytes` and equally long.
fn can_be_direct(request: &LocalRequest, memory: &[Span], alignment_bytes: u32) -> bool {
    let mask = u64::from(alignment_bytes - 1);
    let is_transfer = matches!(request.command, Command::Read | Command::Write);
    let is_aligned = |span: &Span| (span.offset_bytes | u64::from(span.length_bytes)) & mask == 0;
    is_transfer
        && alignment_bytes <= PAGE_BYTES
        && (request.offset_bytes | request.length_bytes) & mask == 0
        && memory.iter().all(is_aligned)
        && memory.iter().map(|span| u64::from(span.length_bytes)).sum::<u64>() == request.length_bytes
}

impl Worker {
    /// Adds a local client, with its connections.
    pub fn add_local_client(
        &mut self,
        core: &mut Core,
        client: Box<dyn LocalClient>,
        connections: &[LocalConnection],
    ) -> Result<LocalClientId, EngineError> {
        let index = self.local_clients.iter().position(Option::is_none).unwrap_or(self.local_clients.len());
        let client_number = u32::try_from(index).unwrap_or(u32::MAX);
        let mut opened: Vec<ConnectionState> = Vec::with_capacity(connections.len());
        for connection in connections {
            let Some(number) =
                core.turn.open(connection.volume.0, connection.group.0, connection.bounds, connection.priority)
            else {
                let now = hoistway_linux::thread::monotonic_ns();
                for connection in opened {
                    core.routes[connection.number as usize] = Route::None;
                    core.turn.close(connection.number, now, &mut self.actions);
                }
                let message =
                    format!("no connection is free for {} issuers, or volume or group is gone", connections.len());
                return Err(EngineError::usage(message, "use fewer issuers"));
            };
            core.routes[number as usize] = Route::Local {
                worker: self.number,
                client: client_number,
                connection: u32::try_from(opened.len()).unwrap_or(u32::MAX),
            };
            core.labels[number as usize] = client.label().map(str::to_owned);
            opened.push(ConnectionState { number, ..ConnectionState::default() });
        }
        if index == self.local_clients.len() {
            self.local_clients.push(None);
        }
        self.local_clients[index] =
            Some(Box::new(LocalClientState { client, connections: opened, wants_turn: true, is_closing: false }));
        Ok(LocalClientId { worker: self.number, index: client_number })
    }

    /// Passes a completion to the client that gave the command.
    pub(super) fn local_command_completed(&mut self, client: u32, key: u16, result: i32) {
        if let Some(Some(state)) = self.local_clients.get_mut(client as usize) {
            state.client.command_completed(key, result);
            state.wants_turn = true;
        }
    }

    /// The contexts of a local client's requests, by connection.
    pub fn contexts_of(&self, core: &Core, client: LocalClientId) -> Vec<hoistway_block::ContextId> {
        let Some(Some(state)) = self.local_clients.get(client.index as usize) else { return Vec::new() };
        state.connections.iter().filter_map(|connection| core.turn.context_of(connection.number)).collect()
    }

    /// Requests an early turn for a local client.
    pub fn wake(&mut self, client: LocalClientId) {
        if let Some(Some(state)) = self.local_clients.get_mut(client.index as usize) {
            state.wants_turn = true;
        }
    }

    /// Calls every local client that has a reason for a turn.
    pub(super) fn run_local_clients(&mut self, core: &mut Locked<'_>, now: Nanos) {
        for index in 0..self.local_clients.len() {
            let Some(state) = &self.local_clients[index] else { continue };
            let is_due = state.client.next_wake_ns().is_some_and(|at| hoistway_block::time::is_due(now, at));
            if (state.wants_turn || is_due) && !state.is_closing {
                self.run_local_client(core, index, now);
            }
        }
    }

    fn run_local_client(&mut self, core: &mut Locked<'_>, index: usize, now: Nanos) {
        let Some(mut state) = self.local_clients[index].take() else { return };
        state.wants_turn = false;
        let LocalClientState { client, connections, is_closing, .. } = &mut *state;
        let mut context = ClientContext {
            index: u32::try_from(index).unwrap_or(u32::MAX),
            connections,
            lock: &mut *core,
            ring: &mut self.ring,
            actions: &mut self.actions,
            now_ns: now,
            is_closing,
        };
        client.turn(&mut context);
        if state.is_closing {
            for connection in state.connections.iter_mut().filter(|connection| !connection.is_closed) {
                connection.is_closed = true;
                core.turn.close(connection.number, now, &mut self.actions);
            }
        }
        self.local_clients[index] = Some(state);
        self.drop_if_finished(core, index);
    }

    /// Drops a client that was closed and of which nothing is left.
    fn drop_if_finished(&mut self, core: &mut Core, index: usize) {
        let Some(place) = self.local_clients.get_mut(index) else { return };
        let is_over = |state: &LocalClientState| {
            state.is_closing && state.connections.iter().all(|connection| connection.is_finished)
        };
        if place.as_deref().is_some_and(is_over) {
            *place = None;
            core.workers[self.number].clients -= 1;
        }
    }

    /// The earliest time at which a local client wants a turn.
    pub(super) fn next_local_wake(&self) -> Option<Nanos> {
        let open = self.local_clients.iter().flatten().filter(|state| !state.is_closing);
        open.filter_map(|state| state.client.next_wake_ns()).min()
    }

    /// Continues a waiting connection.
    pub(super) fn continue_local_client(
        &mut self,
        core: &mut Locked<'_>,
        client: u32,
        connection: u32,
        verdict: Verdict,
        now: Nanos,
    ) {
        let Some(Some(state)) = self.local_clients.get_mut(client as usize) else { return };
        let LocalClientState { client, connections, wants_turn, .. } = &mut **state;
        let index = connection as usize;
        let Some(connection) = connections.get_mut(index) else { return };
        let mut verdict = verdict;
        while let Verdict::Fill(span) = verdict {
            let Some((cookie, done)) = &mut connection.filling else { break };
            let view = ArenaView(self.ring.arena());
            let filled = unlocked(core, || client.fill(index, *cookie, *done, Payload { arena: &view, span }));
            *done += u64::from(span.length_bytes);
            verdict = match filled {
                Ok(()) => core.turn.filled(connection.number, now, &mut self.actions),
                Err(failure) => core.turn.unfilled(connection.number, failure, now, &mut self.actions),
            };
        }
        if let Verdict::Skip(_) = verdict {
            verdict = core.turn.skipped(connection.number, now, &mut self.actions);
        }
        connection.is_waiting = verdict == Verdict::Wait;
        *wants_turn |= !connection.is_waiting;
    }

    /// Passes a piece of an answer to a connection.
    pub(super) fn answer_local_client(
        &mut self,
        core: &mut Locked<'_>,
        index: u32,
        connection: u32,
        request: u32,
        piece: Piece,
        now: Nanos,
    ) {
        if let Some(Some(state)) = self.local_clients.get_mut(index as usize) {
            let asked = *core.turn.asked(request);
            let connection = connection as usize;
            if let Piece::Data { part, .. } = piece
                && !asked.is_direct
            {
                let view = ArenaView(self.ring.arena());
                let from = Data { arena: &view, span: core.turn.data_of(part) };
                let offset_bytes = core.turn.offset_of(part) - asked.offset_bytes;
                let taken = unlocked(core, || state.client.data(connection, asked.cookie, offset_bytes, from));
                if let Err(failure) = taken {
                    core.turn.fail(request, failure);
                }
            }
            if piece.is_last() {
                let result = core.turn.failure_of(request).map_or(Ok(()), Err);
                state.client.answered(Answer { connection, cookie: asked.cookie, result, now_ns: now });
                state.wants_turn = true;
            }
        }
        core.turn.sent(request, piece, now, &mut self.actions);
    }

    /// Ends a connection of which nothing is left in the turn.
    pub(super) fn local_connection_finished(&mut self, core: &mut Core, index: u32, connection: u32) {
        let Some(Some(state)) = self.local_clients.get_mut(index as usize) else { return };
        if let Some(connection) = state.connections.get_mut(connection as usize) {
            connection.is_finished = true;
        }
        self.drop_if_finished(core, index as usize);
    }

    /// Tells every local client that the shard is shutting down.
    pub(super) fn abandon_local_clients(&mut self) {
        for state in self.local_clients.iter_mut().flatten() {
            state.client.abandoned();
        }
    }
}
