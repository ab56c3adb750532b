//! The events of a queue, for a person, a trace file, or a failing storm to read.

use alloc::collections::VecDeque;
use block::{Nanos, RequestId, Status};
use core::fmt;
use elevator::{Attributes, Message, Reason};

/// How many events are kept until they are taken.
pub const KEPT: usize = 4_096;

/// What happened.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum TraceKind {
    /// A bio came; there is no request yet.
    Queued,
    /// It found no request to have, and its submitter sleeps.
    Slept,
    /// It got a request of its own.
    Allocated,
    /// A request entered the policy.
    Inserted,
    /// It entered the policy before all others: given back by the driver, or data of a sequenced flush.
    InsertedInFront,
    /// A bio joined it at its end; the attributes are the bio's.
    BackMerged,
    /// A bio joined it before its begin; the attributes are the bio's.
    FrontMerged,
    /// It absorbed its neighbour.
    RequestsMerged,
    /// It is the neighbour that was absorbed; comes right behind.
    Absorbed,
    /// The policy chose it.
    Chosen,
    /// The policy has work and keeps it back; there is no request.
    Held,
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
    /// The queue's own plug was put in.
    Plugged,
    /// The queue's own plug came out.
    Unplugged,
}

impl TraceKind {
    /// Its letter in blkparse's output; `None` for what the kernel does not trace.
    pub const fn letter(self) -> Option<char> {
        Some(match self {
            TraceKind::Queued => 'Q',
            TraceKind::Slept => 'S',
            TraceKind::Allocated => 'G',
            TraceKind::Inserted | TraceKind::InsertedInFront => 'I',
            TraceKind::BackMerged | TraceKind::RequestsMerged => 'M',
            TraceKind::FrontMerged => 'F',
            TraceKind::Started => 'D',
            TraceKind::Completed => 'C',
            TraceKind::Requeued | TraceKind::Refused => 'R',
            TraceKind::Plugged => 'P',
            TraceKind::Unplugged => 'U',
            TraceKind::Absorbed
            | TraceKind::Chosen
            | TraceKind::Held
            | TraceKind::FlushIssued
            | TraceKind::Switched => return None,
        })
    }
}

/// One event.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct TraceEvent {
    /// When.
    pub at_ns: Nanos,
    /// What.
    pub kind: TraceKind,
    /// To which request; [`block::NIL`] for none.
    pub id: RequestId,
    /// What it was then.
    pub attributes: Attributes,
    /// Why, for choices and holds.
    pub reason: Option<Reason>,
    /// How it ended, for completions.
    pub status: Status,
}

impl fmt::Display for TraceEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at_ns, kind, id, attributes, reason, .. } = self;
        let extent = attributes.extent;
        write!(f, "{at_ns:>14} {kind:?} #{}.{} ", id.slot(), id.generation())?;
        write!(f, "{}+{}", extent.first_sector, extent.sectors)?;
        match reason {
            Some(Reason(index)) => write!(f, " reason {index}"),
            None => Ok(()),
        }
    }
}

/// A message, and the limiter that wrote it; the policy's own where there is none.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Said {
    /// Name of the limiter.
    pub limiter: Option<&'static str>,
    /// What it said.
    pub message: Message,
}

/// One thing told.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Told {
    /// Something happened to a bio or a request.
    Event(TraceEvent),
    /// A policy or limiter says something.
    Message(Said),
}

/// The last events, 4,096 of them, and as many messages, each with its place among the events.
#[derive(Debug, Default)]
pub struct Trace {
    events: VecDeque<TraceEvent>,
    /// Number of the oldest event, counted since the begin.
    first: u64,
    /// Number of the event that each message came before.
    said: VecDeque<(u64, Said)>,
    lost: u64,
}

impl Trace {
    /// Gets the memory for all that is kept, so that events themselves never do.
    pub(crate) fn make_room(&mut self) {
        self.events.reserve_exact(KEPT.saturating_sub(self.events.len()));
        self.said.reserve_exact(KEPT.saturating_sub(self.said.len()));
    }

    #[inline(never)]
    pub(crate) fn push(&mut self, event: TraceEvent) {
        if self.events.len() == KEPT {
            self.take();
            self.lost += 1;
        }
        self.events.push_back(event);
    }

    /// A message comes behind the events so far.
    pub(crate) fn say(&mut self, said: Said) {
        if self.said.len() == KEPT {
            self.said.pop_front();
        }
        self.said.push_back((self.first + self.events.len() as u64, said));
    }

    /// Takes the oldest event.
    pub fn take(&mut self) -> Option<TraceEvent> {
        let event = self.events.pop_front()?;
        self.first += 1;
        Some(event)
    }

    /// Takes the oldest message.
    pub(crate) fn take_said(&mut self) -> Option<Said> {
        self.said.pop_front().map(|(_, said)| said)
    }

    /// Takes the oldest of all, message or event.
    pub(crate) fn take_told(&mut self) -> Option<Told> {
        match self.said.front() {
            Some((before, _)) if *before <= self.first => self.take_said().map(Told::Message),
            _ => self.take().map(Told::Event),
        }
    }

    /// The events not taken, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &TraceEvent> {
        self.events.iter()
    }

    /// Events that were lost because nobody took them in time.
    pub fn lost(&self) -> u64 {
        self.lost
    }
}
