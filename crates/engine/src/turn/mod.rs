//! One turn of the engine: it gets an event and returns the actions that follow. It uses no ring,
//! no socket and no clock.
//!
//! ```text
//! submit ─► refused? ─► credit? ─► parts, memory ─► (payload filled) ─► block free? ─► queue ─► Start
//!              │           └ Wait       └ Wait                            └ Blocked
//! completed ─► short? again ─► parts end ─► Reply pieces ─► sent ─► memory, credit back ─► Receive / Resume
//! close ─► what waits is dropped, what is in the device is waited for ─► Finished
//! ```
//! Events are methods; each takes the time and appends [`Action`]s, which the shard performs in
//! order without making decisions. Nothing is allocated in the steady state. Tests drive the whole engine with literal events and a fake device.

mod admit;
mod answer;
mod buffers;
#[cfg(test)]
mod cases;
mod control;
mod copying;
#[cfg(test)]
mod copying_cases;
#[cfg(test)]
mod cut_cases;
#[cfg(test)]
mod damage_cases;
mod direct;
#[cfg(test)]
mod end_cases;
mod ends;
mod in_flight;
mod incidents;
mod limiting;
mod occupancy;
mod overdue;
mod part;
mod plugs;
mod state;
mod tracing;

use hoistway_block::{HardwareQueue, Nanos, RequestId};
use hoistway_elevator::Any;
use hoistway_linux::Slot;
use hoistway_linux::buffer::Span;
use hoistway_linux::ring::Emptying;
use hoistway_queue::{Done, Next, RequestQueue};

pub use self::occupancy::Window;
#[cfg(test)]
pub(crate) use self::overdue::OVERDUE_NS;
pub(crate) use self::overdue::Waits;
pub use self::tracing::Traced;
pub(crate) use control::{TurnSettings, check_scheduler};
pub(crate) use incidents::{EFAULT, FailedIo, Incident};
pub(crate) use limiting::check_limiter;
pub use state::ConnectionBounds;
pub(crate) use state::{MAX_EXTENTS_KEPT, Positions, VolumeAbilities};

use crate::protocol::{ClientRequest, Failure};
use crate::table::Table;
use buffers::Buffers;
use ends::Ends;
use in_flight::InFlight;
use occupancy::Occupancy;
use plugs::Plugs;
use state::{Connection, Group, Part, Request, Volume};
use tracing::Collected;

/// What the shard does next with a connection's stream.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// Continue parsing.
    Go,
    /// Store the next bytes of the stream in this span, then call [`Turn::filled`].
    Fill(Span),
    /// Discard this many bytes, then call [`Turn::skipped`].
    Skip(u32),
    /// Stop reading; [`Action::Continue`] will follow.
    Wait,
}

/// A piece of a reply, as it is added to a connection's output.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Piece {
    /// The data of one part.
    Data {
        /// The part.
        part: u32,
        /// Whether it is the last piece.
        last: bool,
    },
    /// The data of all parts, in order, behind one header.
    Whole,
    /// Success without data.
    Done,
    /// The result of an allocation query; the shard has it.
    Extents,
    /// A failure.
    Failed {
        /// The reason.
        failure: Failure,
        /// Where, if known.
        offset_bytes: Option<u64>,
        /// Whether it is the last piece.
        last: bool,
    },
}

impl Piece {
    /// Whether it is the last piece of the reply.
    pub const fn is_last(self) -> bool {
        match self {
            Piece::Data { last, .. } | Piece::Failed { last, .. } => last,
            Piece::Whole | Piece::Done | Piece::Extents => true,
        }
    }
}

/// An action for the shard.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Action {
    /// Read or write; [`Turn::completed`] takes the result.
    Start {
        /// The I/O's id.
        io: RequestId,
        /// The file.
        volume: u32,
        /// Whether it reads the base below the file.
        is_of_base: bool,
        /// Whether it writes; else it reads.
        is_write: bool,
        /// Position in the file.
        position_bytes: u64,
        /// The memory: `spans` entries of [`Actions::spans`] from this one on.
        first_span: u32,
        /// The number of spans.
        spans: u32,
        /// Their total length in bytes.
        bytes: u32,
        /// Must be on stable storage when it completes.
        is_durable: bool,
    },
    /// Empty a range of the file; [`Turn::completed`] takes the result.
    Empty {
        /// The I/O's id.
        io: RequestId,
        /// The file.
        volume: u32,
        /// Punch a hole or zero the range.
        how: Emptying,
        /// Position in the file.
        position_bytes: u64,
        /// Length in bytes.
        length_bytes: u64,
    },
    /// Start an fsync; [`Turn::synced`] takes the result.
    Sync {
        /// The file.
        volume: u32,
    },
    /// Write a page of the bitmap of an overlay; [`Turn::stored`] takes the result.
    Store {
        /// The file.
        volume: u32,
        /// Position in the file itself.
        position_bytes: u64,
        /// The memory.
        span: Span,
    },
    /// Add a piece of a reply to a connection's output, then call [`Turn::sent`].
    Reply {
        /// The connection.
        connection: u32,
        /// The request.
        request: u32,
        /// The piece.
        piece: Piece,
    },
    /// Continue a waiting connection with this verdict (never [`Verdict::Wait`]).
    Continue {
        /// The connection.
        connection: u32,
        /// The verdict.
        verdict: Verdict,
    },
    /// Find out which parts of a range are allocated; [`Turn::status_found`] takes the result.
    Status {
        /// The request.
        request: u32,
        /// The file.
        volume: u32,
    },
    /// Nothing of this closed connection is left anywhere: call [`Turn::retire`], after which its
    /// number may be reused.
    Finished {
        /// The connection.
        connection: u32,
    },
}

/// The actions of a turn, in order, and the memory that they use.
#[derive(Debug)]
pub(crate) struct Actions {
    /// The actions.
    pub list: Vec<Action>,
    /// Memory of the `Start` actions.
    pub spans: Vec<Span>,
}

impl Default for Actions {
    /// No actions, with capacity for those of the longest turn that is expected.
    fn default() -> Self {
        Self { list: Vec::with_capacity(4_096), spans: Vec::with_capacity(4_096) }
    }
}

impl Actions {
    /// No actions, and no capacity.
    pub const fn empty() -> Self {
        Self { list: Vec::new(), spans: Vec::new() }
    }

    /// Removes all actions and keeps the capacity.
    pub fn clear(&mut self) {
        self.list.clear();
        self.spans.clear();
    }

    fn push(&mut self, action: Action) {
        self.list.push(action);
    }

    /// Adds an action of another list, with its memory, which is in `spans`.
    pub fn append(&mut self, mut action: Action, spans: &[Span]) {
        if let Action::Start { first_span, spans: count, .. } = &mut action {
            let from = *first_span as usize;
            *first_span = u32::try_from(self.spans.len()).unwrap_or(u32::MAX);
            self.spans.extend_from_slice(&spans[from..from + *count as usize]);
        }
        self.list.push(action);
    }
}

/// The turn's own counters.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct TurnCounters {
    pub started_ios: u64,
    pub merged_ios: u64,
    pub syncs: u64,
    pub pauses_for_credit: u64,
    pub pauses_for_memory: u64,
    /// Parts that were dropped because their connection was closed before the device had them.
    pub withdrawn_parts: u64,
    /// I/Os that waited for a write of a closed connection.
    pub kept_back_ios: u64,
    /// Internal inconsistencies that were detected and survived: a defect if above 0.
    pub violations: u64,
}

/// The state that all decisions are based on.
pub(crate) struct Turn {
    queue: RequestQueue<Any>,
    volumes: Vec<Option<Volume>>,
    groups: Vec<Option<Group>>,
    connections: Table<Connection>,
    requests: Table<Request>,
    /// The clients' memory for direct requests, by request.
    client_memory: Vec<Vec<Span>>,
    parts: Table<Part>,
    in_flight: InFlight,
    buffers: Buffers,
    is_draining: bool,
    /// The kernel's limiter was named, and enforces the maximum rates of groups.
    is_throttle_named: bool,
    occupancy: Occupancy,
    plugs: Plugs,
    ends: Ends,
    counters: TurnCounters,
    collected: Collected,
    incidents: Vec<Incident>,
    // Scratch space, kept to avoid allocation.
    done: Vec<Done>,
    served: Vec<u32>,
    gathered: Vec<u32>,
}

impl Turn {
    /// A request as the client asked for it.
    #[inline]
    pub fn asked(&self, request: u32) -> &ClientRequest {
        &self.requests[request].asked
    }

    /// The memory that holds a part's data (for a read: the bytes asked for, without those read for
    /// alignment).
    #[inline]
    pub fn data_of(&self, part: u32) -> Span {
        let part = &self.parts[part];
        match part.slot {
            None => Span::of(self.buffers.zeroes(), 0, part.length_bytes),
            Some(slot) => Span::of(slot, self.skip_of(part), part.length_bytes),
        }
    }

    /// Why a request failed, if it did.
    pub fn failure_of(&self, request: u32) -> Option<Failure> {
        self.requests[request].failure
    }

    /// Makes a request fail whose data could not be given to its client. The first failure counts.
    pub fn fail(&mut self, request: u32, failure: Failure) {
        self.requests[request].failure.get_or_insert(failure);
    }

    /// The range on the device of an I/O that was started.
    pub fn extent_of(&self, io: RequestId) -> hoistway_block::Extent {
        self.queue.requests().attributes(io).extent
    }

    /// The connection for which an I/O was started; of several, the first.
    #[inline]
    pub fn connection_of(&self, io: RequestId) -> u32 {
        self.in_flight.at(io).connection
    }

    /// The I/O in a slot of the queue's table.
    pub fn io_of_slot(&self, slot: u32) -> Option<RequestId> {
        self.queue.requests().id_of(slot)
    }

    /// The part's first byte on the volume.
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

    /// Dispatches until the device has reached its depth, or the elevator has no request to
    /// dispatch now.
    pub fn dispatch(&mut self, now: Nanos, actions: &mut Actions) {
        if self.buffers.take_release() {
            self.retry_waiting(now, actions);
        }
        self.start_held_back(now, actions);
        while self.has_room()
            && let Next::Start { id, .. } = self.queue.dispatch(HardwareQueue(0), now)
        {
            self.take_trace();
            if !self.holds_back(id, now) {
                self.start(id, now, actions);
            }
        }
        self.expect_overdue(now);
        self.take_trace();
    }

    /// When [`Turn::expire`] must be called next.
    #[inline]
    pub fn next_deadline(&self) -> Option<Nanos> {
        [self.queue.next_timer(), self.in_flight.next_look()].into_iter().flatten().min()
    }

    /// Handles deadlines of elevator and limiter that are due, and looks for I/Os that the backing does not answer.
    #[inline]
    pub fn expire(&mut self, now: Nanos) {
        self.look_for_overdue(now);
        if self.queue.next_timer().is_some_and(|at| hoistway_block::time::is_due(now, at)) {
            self.queue.timer(now);
            self.take_trace();
        }
    }

    /// The number of requests not yet answered and sent.
    pub fn requests_in_flight(&self) -> usize {
        self.requests.used()
    }

    /// The number of I/Os in flight on the device.
    pub fn ios_in_flight(&self) -> u32 {
        self.queue.in_device()
    }

    /// The number of requests of one connection not yet answered and sent.
    pub fn connection_requests(&self, connection: u32) -> u32 {
        self.connections.get(connection).map_or(0, |connection| connection.requests)
    }

    /// Takes memory for the shard's own use (receive buffers); `None` when it is short.
    pub fn take_memory(&mut self, bytes: u32) -> Option<Slot> {
        self.buffers.take_unowned(bytes)
    }

    /// Frees memory of [`Turn::take_memory`].
    pub fn give_memory(&mut self, slot: Slot) {
        self.buffers.give_unowned(slot);
    }

    /// Bytes of free memory, and of all memory.
    pub fn memory_bytes(&self) -> (u64, u64) {
        self.buffers.bytes()
    }
}
