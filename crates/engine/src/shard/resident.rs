//! Clients inside the process: they run on the shard's thread and are called by its loop, so that
//! they cost no hand-over. The load of `hoistway test` is one; [`crate::Client`] uses another.

use block::Nanos;
use linux::buffer::{Arena, Span};

use super::{Route, Shard};
use crate::error::EngineError;
use crate::protocol::{Asked, Command, Failure};
use crate::turn::{Actions, Piece, Turn, Verdict};

/// A request of a resident.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct LocalRequest {
    /// The resident's own number for it, unique among the unanswered requests of a lane.
    pub cookie: u64,
    /// The operation; `BlockStatus` is not offered here.
    pub command: Command,
    /// First byte on the volume.
    pub offset_bytes: u64,
    /// Length in bytes, 0 for a flush; at most 4 GiB - 1.
    pub length_bytes: u64,
    /// Answer only when it is on stable storage.
    pub is_durable: bool,
    /// The process of the lane that makes it; each process has a plug of its own.
    pub actor: u16,
    /// More requests of its process follow at once: until then it waits in the plug.
    pub is_held: bool,
}

/// The answer to a request of a resident.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// The lane on which it was submitted.
    pub lane: usize,
    /// Its number.
    pub cookie: u64,
    /// Its result.
    pub result: Result<(), Failure>,
    /// When it ended, in nanoseconds of the monotonic clock.
    pub now_ns: Nanos,
}

/// A client that runs on the shard's thread.
pub trait Resident: Send {
    /// Called at the start, after answers, when a full lane has room again, at
    /// [`Resident::next_wake_ns`], and after a poke. Submits requests; must not block.
    fn turn(&mut self, door: &mut Door<'_>);

    /// When [`Resident::turn`] is to be called even without any other reason.
    fn next_wake_ns(&self) -> Option<Nanos> {
        None
    }

    /// Supplies the data of a write: `to` takes the bytes from `offset_bytes` inside the request
    /// on.
    fn fill(&mut self, lane: usize, cookie: u64, offset_bytes: u64, to: Payload<'_>);

    /// Takes data of a read: the bytes from `offset_bytes` inside the request on; parts arrive in
    /// any order.
    fn data(&mut self, _lane: usize, _cookie: u64, _offset_bytes: u64, _from: Data<'_>) {}

    /// Takes the answer to a request.
    fn answered(&mut self, answer: Answer);

    /// The shard is shutting down: no more answers will come.
    fn abandoned(&mut self) {}
}

/// Memory that takes a write's data.
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

    /// Writes `bytes` from `offset_bytes` of this memory on; bytes that do not fit are ignored.
    pub fn put(&mut self, offset_bytes: u32, bytes: &[u8]) {
        self.arena.0.copy_in(self.span.behind(offset_bytes), bytes);
    }
}

impl Data<'_> {
    /// Length in bytes.
    pub fn bytes(&self) -> u32 {
        self.span.length_bytes
    }

    /// Copies the start to `bytes`; returns the number of bytes copied.
    pub fn copy_to(&self, bytes: &mut [u8]) -> usize {
        self.arena.0.copy_out(self.span, bytes)
    }
}

/// One connection of a resident.
#[derive(Debug, Default)]
pub(super) struct Lane {
    connection: u32,
    is_waiting: bool,
    is_finished: bool,
    /// The write whose payload is being requested: its number, and the bytes supplied.
    filling: Option<(u64, u64)>,
}

/// A resident and its connections.
pub(super) struct Residency {
    resident: Box<dyn Resident>,
    lanes: Vec<Lane>,
    wants_turn: bool,
    is_leaving: bool,
}

/// The operations that a resident may use during its turn.
pub struct Door<'a> {
    index: u32,
    lanes: &'a mut [Lane],
    turn: &'a mut Turn,
    arena: &'a Arena,
    actions: &'a mut Actions,
    now_ns: Nanos,
    is_leaving: &'a mut bool,
}

impl std::fmt::Debug for Door<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Door").field("index", &self.index).field("now_ns", &self.now_ns).finish_non_exhaustive()
    }
}

impl Door<'_> {
    /// The time of this turn, in nanoseconds of the monotonic clock.
    pub fn now_ns(&self) -> Nanos {
        self.now_ns
    }

    /// The number of lanes.
    pub fn lanes(&self) -> usize {
        self.lanes.len()
    }

    /// Whether a lane takes a request now. If it is full, the resident gets another turn when it
    /// has room again.
    pub fn has_room(&self, lane: usize) -> bool {
        self.lanes.get(lane).is_some_and(|lane| !lane.is_waiting && !lane.is_finished)
    }

    /// Submits a request. The data of a write is requested from `fill` (offset inside the request,
    /// memory) as far as there is memory now, and from [`Resident::fill`] for the rest later. False
    /// if the lane is full: then nothing was taken.
    pub fn submit(&mut self, lane: usize, request: LocalRequest, fill: &mut dyn FnMut(u64, Payload<'_>)) -> bool {
        if !self.has_room(lane) {
            return false;
        }
        let connection = self.lanes[lane].connection;
        let is_write = request.command == Command::Write;
        let asked = Asked {
            cookie: request.cookie,
            offset_bytes: request.offset_bytes,
            length_bytes: request.length_bytes,
            payload_bytes: if is_write { u32::try_from(request.length_bytes).unwrap_or(u32::MAX) } else { 0 },
            command: request.command,
            fua: request.is_durable,
            no_hole: false,
            fast_zero: false,
            one_piece: false,
            one_extent: false,
            tag: 0,
        };
        self.lanes[lane].filling = is_write.then_some((request.cookie, 0));
        self.turn.plug(connection, request.actor, request.is_held);
        let mut verdict = self.turn.submit(connection, asked, self.now_ns, self.actions);
        while let Verdict::Fill(span) = verdict {
            let Some((_, done)) = &mut self.lanes[lane].filling else { break };
            fill(*done, Payload { arena: &ArenaView(self.arena), span });
            *done += u64::from(span.length_bytes);
            verdict = self.turn.filled(connection, self.now_ns, self.actions);
        }
        self.lanes[lane].is_waiting = verdict == Verdict::Wait;
        self.turn.end_plug(request.is_held, self.now_ns);
        if verdict == Verdict::Wait {
            self.let_go(lane);
        }
        true
    }

    /// Submits everything that the plugs of a lane hold, because its processes have to wait.
    pub fn let_go(&mut self, lane: usize) {
        if let Some(lane) = self.lanes.get(lane) {
            self.turn.let_go(lane.connection, self.now_ns);
        }
    }

    /// The queue's counters so far.
    pub fn queue_counters(&self) -> queue::Counters {
        self.turn.queue_counters()
    }

    /// The number of times that the scheduler gave each reason.
    pub fn reasons(&self) -> Vec<(&'static str, u64)> {
        self.turn.reasons()
    }

    /// Removes the limiters; the requests that they hold go on at once.
    pub fn lift_limits(&mut self) {
        self.turn.lift_limits(self.now_ns);
    }

    /// Ends the resident: it gets no further turn, and is dropped when its last request has ended.
    pub fn leave(&mut self) {
        *self.is_leaving = true;
    }
}

impl Shard {
    /// Adds a resident, with one connection per lane.
    pub fn house(&mut self, resident: Box<dyn Resident>, lanes: &[crate::volume::Lane]) -> Result<u32, EngineError> {
        let index = self.residents.iter().position(Option::is_none).unwrap_or(self.residents.len());
        let number = u32::try_from(index).unwrap_or(u32::MAX);
        let mut made: Vec<Lane> = Vec::with_capacity(lanes.len());
        for lane in lanes {
            let Some(connection) = self.turn.open(lane.volume.0, lane.group.0, lane.bounds, lane.priority, None) else {
                let now = linux::thread::monotonic_ns();
                for lane in made {
                    self.routes[lane.connection as usize] = Route::Nobody;
                    self.turn.close(lane.connection, now, &mut self.actions);
                }
                let message = format!("no connection is free for {} issuers, or volume or group is gone", lanes.len());
                return Err(EngineError::usage(message, "use fewer issuers"));
            };
            self.routes[connection as usize] =
                Route::Lane { resident: number, lane: u32::try_from(made.len()).unwrap_or(u32::MAX) };
            made.push(Lane { connection, ..Lane::default() });
        }
        if index == self.residents.len() {
            self.residents.push(None);
        }
        self.residents[index] =
            Some(Box::new(Residency { resident, lanes: made, wants_turn: true, is_leaving: false }));
        Ok(number)
    }

    /// The contexts of a resident's requests, by lane.
    pub fn contexts_of(&self, resident: u32) -> Vec<block::ContextId> {
        let Some(Some(residency)) = self.residents.get(resident as usize) else { return Vec::new() };
        residency.lanes.iter().filter_map(|lane| self.turn.context_of(lane.connection)).collect()
    }

    /// Requests an early turn for a resident.
    pub fn poke(&mut self, resident: u32) {
        if let Some(Some(residency)) = self.residents.get_mut(resident as usize) {
            residency.wants_turn = true;
        }
    }

    /// Calls every resident that has a reason for a turn.
    pub(super) fn run_residents(&mut self, now: Nanos) {
        for index in 0..self.residents.len() {
            let Some(residency) = &self.residents[index] else { continue };
            let is_due = residency.resident.next_wake_ns().is_some_and(|at| block::time::is_due(now, at));
            if (residency.wants_turn || is_due) && !residency.is_leaving {
                self.run_resident(index, now);
            }
        }
    }

    fn run_resident(&mut self, index: usize, now: Nanos) {
        let Some(mut residency) = self.residents[index].take() else { return };
        residency.wants_turn = false;
        let Residency { resident, lanes, is_leaving, .. } = &mut *residency;
        let mut door = Door {
            index: u32::try_from(index).unwrap_or(u32::MAX),
            lanes,
            turn: &mut self.turn,
            arena: self.ring.arena(),
            actions: &mut self.actions,
            now_ns: now,
            is_leaving,
        };
        resident.turn(&mut door);
        let leaves = residency.is_leaving;
        let connections: Vec<u32> =
            if leaves { residency.lanes.iter().map(|lane| lane.connection).collect() } else { Vec::new() };
        self.residents[index] = Some(residency);
        for connection in connections {
            self.turn.close(connection, now, &mut self.actions);
        }
    }

    /// The earliest time at which a resident wants a turn.
    pub(super) fn next_resident_wake(&self) -> Option<Nanos> {
        let staying = self.residents.iter().flatten().filter(|residency| !residency.is_leaving);
        staying.filter_map(|residency| residency.resident.next_wake_ns()).min()
    }

    /// Continues a waiting lane.
    pub(super) fn continue_lane(&mut self, resident: u32, lane: u32, verdict: Verdict, now: Nanos) {
        let Some(Some(residency)) = self.residents.get_mut(resident as usize) else { return };
        let Residency { resident, lanes, wants_turn, .. } = &mut **residency;
        let Some(state) = lanes.get_mut(lane as usize) else { return };
        let mut verdict = verdict;
        while let Verdict::Fill(span) = verdict {
            let Some((cookie, done)) = &mut state.filling else { break };
            let view = ArenaView(self.ring.arena());
            resident.fill(lane as usize, *cookie, *done, Payload { arena: &view, span });
            *done += u64::from(span.length_bytes);
            verdict = self.turn.filled(state.connection, now, &mut self.actions);
        }
        state.is_waiting = verdict == Verdict::Wait;
        *wants_turn |= !state.is_waiting;
    }

    /// Passes a piece of an answer to a lane.
    pub(super) fn answer_resident(&mut self, index: u32, lane: u32, request: u32, piece: Piece, now: Nanos) {
        if let Some(Some(residency)) = self.residents.get_mut(index as usize) {
            let asked = *self.turn.asked(request);
            if let Piece::Data { part, .. } = piece {
                let view = ArenaView(self.ring.arena());
                let from = Data { arena: &view, span: self.turn.data_of(part) };
                let offset_bytes = self.turn.offset_of(part) - asked.offset_bytes;
                residency.resident.data(lane as usize, asked.cookie, offset_bytes, from);
            }
            if piece.is_last() {
                let result = self.turn.failure_of(request).map_or(Ok(()), Err);
                let (lane, cookie) = (lane as usize, asked.cookie);
                residency.resident.answered(Answer { lane, cookie, result, now_ns: now });
                residency.wants_turn = true;
            }
        }
        self.turn.sent(request, piece, now, &mut self.actions);
    }

    /// Ends a lane of which nothing is left in the turn.
    pub(super) fn lane_finished(&mut self, index: u32, lane: u32) {
        let Some(place) = self.residents.get_mut(index as usize) else { return };
        let Some(residency) = place else { return };
        if let Some(lane) = residency.lanes.get_mut(lane as usize) {
            lane.is_finished = true;
        }
        if residency.lanes.iter().all(|lane| lane.is_finished) {
            *place = None;
        }
    }

    /// Tells every resident that the shard is shutting down.
    pub(super) fn abandon_residents(&mut self) {
        for residency in self.residents.iter_mut().flatten() {
            residency.resident.abandoned();
        }
    }
}
