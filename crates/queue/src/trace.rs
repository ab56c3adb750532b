//! The trace of a queue's events, for people, for trace files, and for the report of a failing
//! storm.

use alloc::collections::VecDeque;
use core::fmt;
use hoistway_block::{Nanos, Operation, RequestId, Status};
use hoistway_elevator::{Attributes, Bio, Elevator, Limiter, Message, Reason};

use crate::RequestQueue;

/// How many events are kept until they are taken; older ones are lost.
pub const KEPT: usize = 4_096;

/// The kind of an event.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum TraceKind {
    /// A bio was submitted; there is no request yet.
    Queued,
    /// No request was free, and the submitter sleeps.
    Slept,
    /// The bio got a request of its own.
    Allocated,
    /// A request entered the policy.
    Inserted,
    /// A request entered the policy ahead of all others: requeued by the driver, or data of a
    /// sequenced flush.
    InsertedInFront,
    /// A bio merged into the end of a request; the attributes are the bio's.
    BackMerged,
    /// A bio merged into the beginning of a request; the attributes are the bio's.
    FrontMerged,
    /// A request absorbed its neighbour.
    RequestsMerged,
    /// The neighbour that was absorbed; follows [`TraceKind::RequestsMerged`] directly.
    Absorbed,
    /// The policy chose a request.
    Chosen,
    /// The policy holds its requests back (idles); the event has no request.
    Held,
    /// The device started a request.
    Started,
    /// The device completed a request.
    Completed,
    /// A request was taken back before the device had it, because its submitter is gone.
    Withdrawn,
    /// The driver returned a request, which goes back to the policy or to the dispatch list.
    Requeued,
    /// The driver had no room for a request.
    Refused,
    /// A flush command was issued.
    FlushIssued,
    /// The policy was replaced.
    Switched,
    /// The queue was plugged.
    Plugged,
    /// The queue was unplugged.
    Unplugged,
}

impl TraceKind {
    /// Its letter in blkparse's output; `None` for events that the kernel does not trace.
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
            | TraceKind::Withdrawn
            | TraceKind::FlushIssued
            | TraceKind::Switched => return None,
        })
    }
}

/// One event.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct TraceEvent {
    /// The time, in ns.
    pub at_ns: Nanos,
    /// The kind.
    pub kind: TraceKind,
    /// The request; [`hoistway_block::NIL`] if there is none.
    pub id: RequestId,
    /// Its attributes at that time.
    pub attributes: Attributes,
    /// The policy's reason, for choices and idling.
    pub reason: Option<Reason>,
    /// The status, for completions.
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

/// A message of a limiter or of the policy.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct TraceMessage {
    /// Name of the limiter; `None` for the policy.
    pub limiter: Option<&'static str>,
    /// The message.
    pub message: Message,
}

/// An event or a message.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum TraceItem {
    /// An event of a bio or a request.
    Event(TraceEvent),
    /// A message of the policy or a limiter.
    Message(TraceMessage),
}

/// The last 4,096 events and as many messages, each with its place among the events.
#[derive(Debug, Default)]
pub struct Trace {
    events: VecDeque<TraceEvent>,
    /// Number of the oldest event, counted from the start.
    first: u64,
    /// Each message with the number of the event that it precedes.
    messages: VecDeque<(u64, TraceMessage)>,
    lost: u64,
    is_on: bool,
}

impl Trace {
    /// Whether events are recorded.
    #[inline(always)]
    pub(crate) fn is_on(&self) -> bool {
        self.is_on
    }

    /// Switches recording on or off. When it is switched on, all memory is allocated, so that recording an event never
    /// does.
    pub(crate) fn set_on(&mut self, is_on: bool) {
        if is_on {
            self.events.reserve_exact(KEPT.saturating_sub(self.events.len()));
            self.messages.reserve_exact(KEPT.saturating_sub(self.messages.len()));
        }
        self.is_on = is_on;
    }

    #[inline(never)]
    pub(crate) fn push(&mut self, event: TraceEvent) {
        if self.events.len() == KEPT {
            self.take();
            self.lost += 1;
        }
        self.events.push_back(event);
    }

    /// Adds a message after the events so far.
    pub(crate) fn push_message(&mut self, messages: TraceMessage) {
        if self.messages.len() == KEPT {
            self.messages.pop_front();
        }
        self.messages.push_back((self.first + self.events.len() as u64, messages));
    }

    /// Takes the oldest event.
    pub fn take(&mut self) -> Option<TraceEvent> {
        let event = self.events.pop_front()?;
        self.first += 1;
        Some(event)
    }

    /// Takes the oldest message.
    pub(crate) fn take_message(&mut self) -> Option<TraceMessage> {
        self.messages.pop_front().map(|(_, messages)| messages)
    }

    /// Takes the oldest message or event.
    pub(crate) fn take_item(&mut self) -> Option<TraceItem> {
        match self.messages.front() {
            Some((before, _)) if *before <= self.first => self.take_message().map(TraceItem::Message),
            _ => self.take().map(TraceItem::Event),
        }
    }

    /// The events not taken, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &TraceEvent> {
        self.events.iter()
    }

    /// Events that were lost because they were not taken in time.
    pub fn lost(&self) -> u64 {
        self.lost
    }
}

impl<E: Elevator> RequestQueue<E> {
    /// Switches tracing of the queue's and the policy's events on or off. Off at first; its memory
    /// is allocated when it is first switched on.
    pub fn set_tracing(&mut self, on: bool) {
        self.trace.set_on(on);
        self.elevator.trace(on);
        for limiter in self.limiters.iter_mut() {
            limiter.trace(on);
        }
    }

    /// The trace: the last events, oldest first.
    pub fn events(&self) -> &Trace {
        &self.trace
    }

    /// Takes the oldest message of the policy or a limiter.
    pub fn take_message(&mut self) -> Option<TraceMessage> {
        self.flush_messages();
        self.trace.take_message()
    }

    /// Takes the oldest event or message. Messages stand among the events in the order in which
    /// they were written: those about an insertion or a completion follow the event, and those
    /// about a choice precede the dispatch.
    pub fn take_item(&mut self) -> Option<TraceItem> {
        self.flush_messages();
        self.trace.take_item()
    }

    /// Puts the messages written so far before the next event.
    fn flush_messages(&mut self) {
        while let Some(message) = self.elevator.take_message() {
            self.trace.push_message(TraceMessage { limiter: None, message });
        }
        for limiter in self.limiters.iter_mut() {
            while let Some(message) = limiter.take_message() {
                self.trace.push_message(TraceMessage { limiter: Some(limiter.name()), message });
            }
        }
    }

    #[inline(never)]
    pub(crate) fn push_event(&mut self, event: TraceEvent) {
        self.flush_messages();
        self.trace.push(event);
    }

    // Always inlined: the call would cost several times as much as the check whether tracing is on.
    #[inline(always)]
    pub(crate) fn trace(
        &mut self,
        kind: TraceKind,
        id: RequestId,
        reason: Option<hoistway_elevator::Reason>,
        now: Nanos,
    ) {
        if self.trace.is_on {
            self.trace_request(kind, id, reason, now);
        }
    }

    #[cold]
    #[inline(never)]
    fn trace_request(&mut self, kind: TraceKind, id: RequestId, reason: Option<hoistway_elevator::Reason>, now: Nanos) {
        let nothing = Attributes::new(Operation::Flush, hoistway_block::Extent::default());
        let attributes = if self.requests.is_live(id) { *self.requests.attributes(id) } else { nothing };
        self.push_event(TraceEvent { at_ns: now, kind, id, attributes, reason, status: Status::Ok });
    }

    /// Records an event of a bio if tracing is on.
    #[inline]
    pub(crate) fn trace_bio(&mut self, kind: TraceKind, bio: &Bio, id: RequestId, now: Nanos) {
        if self.trace.is_on {
            let attributes = *bio;
            self.push_event(TraceEvent { at_ns: now, kind, id, attributes, reason: None, status: Status::Ok });
        }
    }
}
