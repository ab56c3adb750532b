//! The last events of a queue, for a person or a failing storm to read.

use block::{Extent, Nanos, RequestId};
use core::fmt;
use elevator::Reason;

/// How many events are kept.
pub const KEPT: usize = 256;

/// What happened.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum TraceKind {
    /// A request entered the policy.
    Inserted,
    /// It entered the policy before all others: given back by the driver, or data of a sequenced flush.
    InsertedInFront,
    /// A bio joined it.
    BioMerged,
    /// It absorbed its neighbour.
    RequestsMerged,
    /// It is the neighbour that was absorbed; comes right behind.
    Absorbed,
    /// The policy chose it.
    Chosen,
    /// The device took it.
    Started,
    /// The device finished it.
    Completed,
    /// The driver gave it back to the policy.
    Requeued,
    /// The driver had no room for it.
    Refused,
    /// A flush command was made.
    FlushIssued,
    /// The policy was replaced.
    Switched,
    /// The queue's own plug came out.
    Unplugged,
}

/// One event.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct TraceEvent {
    /// When.
    pub at_ns: Nanos,
    /// What.
    pub kind: TraceKind,
    /// To which request.
    pub id: RequestId,
    /// Its extent then.
    pub extent: Extent,
    /// Why, for choices.
    pub reason: Option<Reason>,
}

impl fmt::Display for TraceEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at_ns, kind, id, extent, reason } = self;
        write!(
            f,
            "{at_ns:>14} {kind:?} #{}.{} {}+{}",
            id.slot(),
            id.generation(),
            extent.first_sector,
            extent.sectors
        )?;
        match reason {
            Some(Reason(index)) => write!(f, " reason {index}"),
            None => Ok(()),
        }
    }
}

/// A ring of the last 256 events.
#[derive(Debug)]
pub struct Trace {
    ring: [Option<TraceEvent>; KEPT],
    next: usize,
    /// Events ever pushed.
    pushed: u64,
}

impl Default for Trace {
    fn default() -> Self {
        Self { ring: [None; KEPT], next: 0, pushed: 0 }
    }
}

impl Trace {
    #[inline]
    pub(crate) fn push(&mut self, event: TraceEvent) {
        if let Some(place) = self.ring.get_mut(self.next) {
            *place = Some(event);
        }
        self.next = (self.next + 1) % KEPT;
        self.pushed = self.pushed.wrapping_add(1);
    }

    /// How many events there have been, those included that are not kept any more.
    pub fn pushed(&self) -> u64 {
        self.pushed
    }

    /// The events, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &TraceEvent> {
        self.newest(KEPT)
    }

    /// The newest `count` events, oldest first.
    pub fn newest(&self, count: usize) -> impl Iterator<Item = &TraceEvent> {
        let (newer, older) = self.ring.split_at(self.next);
        older.iter().chain(newer).skip(KEPT.saturating_sub(count)).flatten()
    }
}
