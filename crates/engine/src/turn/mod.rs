//! One turn of the engine: an event comes in, actions go out. No ring, no socket, no clock in here.
//!
//! ```text
//! submit ─► refused? ─► credit? ─► parts, memory ─► (payload filled) ─► block free? ─► queue ─► Start
//!              │           └ Wait       └ Wait                            └ Blocked
//! completed ─► short? again ─► parts end ─► Reply pieces ─► sent ─► memory, credit back ─► Receive / Resume
//! ```
//! Events are methods; each gets the time and appends [`Action`]s, which the shard performs in order without deciding
//! anything. Nothing is allocated in the steady state, so a test (or a storm) drives the whole engine with literal
//! events and a fake device.

mod admit;
mod answer;
#[cfg(test)]
mod cases;
mod control;
mod limiting;
mod occupancy;
mod part;
mod plugs;
mod state;
#[cfg(test)]
mod storm;
mod tracing;

use block::{HardwareQueue, Nanos, RequestId};
use elevator::Any;
use linux::Slot;
use linux::buffer::Span;
use linux::ring::Emptying;
use queue::{Done, Next, RequestQueue};

pub(crate) use control::{TurnSettings, check_scheduler};
pub(crate) use limiting::check_limiter;
pub use state::ConnectionBounds;
pub(crate) use state::{MAX_EXTENTS_KEPT, Positions, VolumeAbilities};
pub use tracing::Traced;

use crate::memory::Memory;
use crate::protocol::{Asked, Failure};
use crate::table::Table;
use occupancy::Occupancy;
use plugs::Plugs;
use state::{Connection, Group, Io, Part, Request, Volume};

/// What the shard does next with a connection's stream.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// Parse on.
    Go,
    /// Store the next bytes of the stream here, then say [`Turn::filled`].
    Fill(Span),
    /// Throw the next bytes away, then parse on.
    Skip(u32),
    /// Stop reading; [`Action::Continue`] will come.
    Wait,
}

/// A piece of a reply, as it goes into a connection's output.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Piece {
    /// The data of one part.
    Data {
        /// Which.
        part: u32,
        /// Nothing comes behind it.
        last: bool,
    },
    /// The data of all parts, in order, behind one header.
    Whole,
    /// Success without data.
    Done,
    /// What the helper found out about allocation; the shard has it.
    Extents,
    /// A failure.
    Failed {
        /// Why.
        failure: Failure,
        /// Where, if known.
        offset_bytes: Option<u64>,
        /// Nothing comes behind it.
        last: bool,
    },
}

impl Piece {
    /// Whether the reply ends with it.
    pub const fn is_last(self) -> bool {
        match self {
            Piece::Data { last, .. } | Piece::Failed { last, .. } => last,
            Piece::Whole | Piece::Done | Piece::Extents => true,
        }
    }
}

/// What the shard is to do.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Action {
    /// Read or write; [`Turn::completed`] tells how it went.
    Start {
        /// The I/O's name.
        io: RequestId,
        /// The file.
        volume: u32,
        /// To the file; else from it.
        is_write: bool,
        /// Position in the file.
        position_bytes: u64,
        /// The memory: this many of [`Actions::spans`] from `first_span` on.
        first_span: u32,
        /// How many spans.
        spans: u32,
        /// Their bytes together.
        bytes: u32,
        /// Must be on stable storage when it completes.
        is_durable: bool,
    },
    /// Empty a range of the file; [`Turn::completed`] tells how it went.
    Empty {
        /// The I/O's name.
        io: RequestId,
        /// The file.
        volume: u32,
        /// Hole or zeroes.
        how: Emptying,
        /// Position in the file.
        position_bytes: u64,
        /// Length in bytes.
        length_bytes: u64,
    },
    /// Start an fsync; [`Turn::synced`] tells how it went.
    Sync {
        /// The file.
        volume: u32,
    },
    /// Set memory to zero.
    Zero {
        /// Which.
        span: Span,
    },
    /// Copy memory.
    Copy {
        /// Source.
        from: Span,
        /// Destination.
        to: Span,
    },
    /// Put a piece of a reply into a connection's output, then say [`Turn::sent`].
    Reply {
        /// Whose.
        connection: u32,
        /// Which request.
        request: u32,
        /// Which piece.
        piece: Piece,
    },
    /// A connection that was told to wait goes on like this (never [`Verdict::Wait`]).
    Continue {
        /// Which.
        connection: u32,
        /// How.
        verdict: Verdict,
    },
    /// Find out what of a range is allocated; [`Turn::status_found`] tells.
    Status {
        /// For which request.
        request: u32,
        /// The file.
        volume: u32,
    },
    /// Nothing of this closed connection is left anywhere: say [`Turn::retire`], and its number may be used again.
    Finished {
        /// Which.
        connection: u32,
    },
}

/// The answers of a turn, in order, and the memory they speak of.
#[derive(Debug)]
pub(crate) struct Actions {
    /// What to do.
    pub list: Vec<Action>,
    /// Memory of the `Start`s.
    pub spans: Vec<Span>,
}

impl Default for Actions {
    /// With room for the longest turn that is to be expected.
    fn default() -> Self {
        Self { list: Vec::with_capacity(4_096), spans: Vec::with_capacity(4_096) }
    }
}

impl Actions {
    /// Nothing, and no room either.
    pub const fn empty() -> Self {
        Self { list: Vec::new(), spans: Vec::new() }
    }

    /// Forgets everything, keeps the room.
    pub fn clear(&mut self) {
        self.list.clear();
        self.spans.clear();
    }

    fn push(&mut self, action: Action) {
        self.list.push(action);
    }
}

/// Counts that only the turn can know.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct TurnCounters {
    pub started_ios: u64,
    pub merged_ios: u64,
    pub syncs: u64,
    pub pauses_for_credit: u64,
    pub pauses_for_memory: u64,
    /// Impossible situations that were met and survived: a defect if above 0.
    pub violations: u64,
}

/// Everything that decides.
pub(crate) struct Turn {
    queue: RequestQueue<Any>,
    volumes: Vec<Option<Volume>>,
    groups: Vec<Option<Group>>,
    connections: Table<Connection>,
    requests: Table<Request>,
    parts: Table<Part>,
    /// Users of each context.
    contexts: Table<u32>,
    /// By slot of the queue's request table.
    ios: Vec<Io>,
    memory: Memory,
    zeroes: Slot,
    max_part_bytes: u32,
    is_draining: bool,
    memory_was_freed: bool,
    occupancy: Occupancy,
    plugs: Plugs,
    counters: TurnCounters,
    is_traced: bool,
    traced: Vec<Traced>,
    // Scratch, kept for its room.
    done: Vec<Done>,
    served: Vec<u32>,
    gathered: Vec<u32>,
}

impl Turn {
    /// What a request asked for.
    #[inline]
    pub fn asked(&self, request: u32) -> &Asked {
        &self.requests[request].asked
    }

    /// The memory that holds a part's data (for a read: what the client asked for, without what was read round it).
    #[inline]
    pub fn data_of(&self, part: u32) -> Span {
        let part = &self.parts[part];
        match part.slot {
            None => Span::of(self.zeroes, 0, part.length_bytes),
            Some(slot) => Span::of(slot, self.skip_of(part), part.length_bytes),
        }
    }

    /// Why a request failed, if it did.
    pub fn failure_of(&self, request: u32) -> Option<Failure> {
        self.requests[request].failure
    }

    /// The range on the device of an I/O that was started.
    pub fn extent_of(&self, io: RequestId) -> block::Extent {
        self.queue.requests().attributes(io).extent
    }

    /// The I/O that occupies a slot of the queue's table.
    pub fn io_of_slot(&self, slot: u32) -> Option<RequestId> {
        self.queue.requests().id_of(slot)
    }

    /// Where on the volume a part begins.
    pub fn offset_of(&self, part: u32) -> u64 {
        self.parts[part].offset_bytes
    }

    /// The parts of a read in one piece, in order.
    pub fn parts_of(&self, request: u32) -> impl Iterator<Item = u32> + '_ {
        let first = self.requests[request].first_part;
        std::iter::successors((first != crate::table::NIL).then_some(first), |&part| {
            let next = self.parts[part].next;
            (next != crate::table::NIL).then_some(next)
        })
    }

    /// Asks the queue until the device has as many as it is to have, or the elevator says hold or empty.
    pub fn dispatch(&mut self, now: Nanos, actions: &mut Actions) {
        if self.memory_was_freed && self.memory.has_waiting() {
            self.retry_waiting(now, actions);
        }
        while self.has_room()
            && let Next::Start { id, .. } = self.queue.dispatch(HardwareQueue(0), now)
        {
            self.listen();
            self.start(id, now, actions);
        }
        self.listen();
    }

    /// When [`Turn::expire`] wants to be called.
    #[inline]
    pub fn next_deadline(&self) -> Option<Nanos> {
        self.queue.next_timer()
    }

    /// Deadlines of elevator and limiter that are due.
    #[inline]
    pub fn expire(&mut self, now: Nanos) {
        if self.queue.next_timer().is_some_and(|at| block::time::is_due(now, at)) {
            self.queue.timer(now);
            self.listen();
        }
    }

    /// Requests that have not been answered and sent.
    pub fn requests_in_flight(&self) -> usize {
        self.requests.used()
    }

    /// I/Os that the device holds.
    pub fn ios_in_flight(&self) -> u32 {
        self.queue.in_device()
    }

    /// Requests of one connection that have not been answered and sent.
    pub fn connection_requests(&self, connection: u32) -> u32 {
        self.connections.get(connection).map_or(0, |connection| connection.requests)
    }

    /// Memory for the shard's own use (receive buffers); `None` when it is short.
    pub fn take_memory(&mut self, bytes: u32) -> Option<Slot> {
        self.memory.take_unowned(bytes)
    }

    /// Gives memory of [`Turn::take_memory`] back.
    pub fn give_memory(&mut self, slot: Slot) {
        self.memory.give_unowned(slot);
        self.memory_was_freed = true;
    }

    /// Bytes of memory not in use, and of all memory.
    pub fn memory_bytes(&self) -> (u64, u64) {
        (self.memory.free_bytes(), self.memory.total_bytes())
    }
}
