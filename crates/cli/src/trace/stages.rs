//! Adds stages to a trace that has none, and removes them from one that has.
//!
//! I/Os without stages get the usual ones if the new format wants them: queued, allocated, inserted
//! and issued at once, and completed after their latency, if it is known. I/Os with stages are
//! reduced to the queued events if the new format has only I/Os.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use hoistway_block::{DeviceNumber, Nanos};
use hoistway_workload::trace::{Action, Item, Record};

use super::sinks::Sink;
use crate::exit::Error;

/// Completions still to be written.
#[derive(Default)]
pub(super) struct Stages {
    ahead: BinaryHeap<Reverse<(Nanos, u64)>>,
    records: BTreeMap<u64, Record>,
    number: u64,
    sequence: u32,
}

/// Largest number of completions kept for sorting. While this many are kept, the completion of
/// a further I/O is dropped.
const MAX_AHEAD: usize = 1 << 20;

impl Stages {
    pub(super) fn put(&mut self, item: &Item, sink: &mut dyn Sink) -> Result<(), Error> {
        let Item::Record(record) = item else { return sink.put(item) };
        self.complete_until(record.at_ns, sink)?;
        for action in [Action::Queued, Action::Allocated, Action::Inserted, Action::Issued] {
            self.report(&Record { action, ..*record }, sink)?;
        }
        if let Some(latency_ns) = record.latency_ns
            && self.records.len() < MAX_AHEAD
        {
            self.number += 1;
            let at_ns = record.at_ns.saturating_add(latency_ns);
            self.ahead.push(Reverse((at_ns, self.number)));
            // Completions happen in interrupts, which belong to no process.
            self.records.insert(self.number, Record { at_ns, pid: 0, action: Action::Completed, ..*record });
        }
        Ok(())
    }

    fn report(&mut self, record: &Record, sink: &mut dyn Sink) -> Result<(), Error> {
        self.sequence = self.sequence.wrapping_add(1);
        sink.put(&Item::Record(Record { sequence: self.sequence, ..*record }))
    }

    fn complete_until(&mut self, now_ns: Nanos, sink: &mut dyn Sink) -> Result<(), Error> {
        while let Some(Reverse((_, number))) = self.ahead.peek().copied().filter(|next| next.0.0 <= now_ns) {
            self.ahead.pop();
            if let Some(record) = self.records.remove(&number) {
                self.report(&record, sink)?;
            }
        }
        Ok(())
    }

    pub(super) fn end(&mut self, sink: &mut dyn Sink) -> Result<(), Error> {
        self.complete_until(Nanos::MAX, sink)
    }
}

/// I/Os of a trace with stages, each with its latency: they wait for their completions, in order.
#[derive(Default)]
pub(super) struct Reduced {
    /// Queued or issued I/Os that have not been passed on, in order.
    kept: VecDeque<Item>,
    /// How many were passed on or dropped before the first of `kept`.
    passed: u64,
    /// The I/Os of `kept` without a completion. The key is device, whether it reads, first byte and
    /// position in the trace; the value is the end.
    waiting: BTreeMap<(DeviceNumber, bool, u64, u64), u64>,
    /// The stage that counts as an I/O so far: none, completed, issued or queued.
    stage: Option<Action>,
}

/// Largest number of I/Os that are kept while they wait for the completion of an earlier one;
/// beyond that the latency of the earlier one counts as unknown.
const MAX_KEPT: usize = 1 << 18;

impl Reduced {
    pub(super) fn put(&mut self, item: Item, sink: &mut dyn Sink) -> Result<(), Error> {
        let Item::Record(record) = &item else {
            self.kept.push_back(item);
            return self.pass_on(sink);
        };
        match record.action {
            Action::Queued => self.begin(Action::Queued, record),
            Action::Issued if self.stage != Some(Action::Queued) => self.begin(Action::Issued, record),
            Action::Completed if self.stage.is_none_or(|stage| stage == Action::Completed) => {
                self.begin(Action::Completed, record);
            }
            Action::Completed => self.complete(record),
            _ => return Ok(()),
        }
        self.pass_on(sink)
    }

    /// Keeps an event as an I/O. Events of a later stage that were taken for I/Os before are dropped:
    /// those I/Os had begun before the trace.
    fn begin(&mut self, stage: Action, record: &Record) {
        if self.stage.replace(stage) != Some(stage) {
            self.passed += self.kept.len() as u64;
            self.kept.clear();
            self.waiting.clear();
        }
        self.keep(Record { action: Action::Queued, ..*record });
    }

    fn keep(&mut self, record: Record) {
        let number = self.passed + self.kept.len() as u64;
        let key = (record.device, record.operation == hoistway_block::Operation::Read, record.offset_bytes, number);
        self.waiting.insert(key, record.end_bytes());
        self.kept.push_back(Item::Record(record));
    }

    fn complete(&mut self, done: &Record) {
        let is_read = done.operation == hoistway_block::Operation::Read;
        let first = (done.device, is_read, done.offset_bytes, 0);
        let last = (done.device, is_read, done.end_bytes().max(done.offset_bytes.saturating_add(1)), 0);
        let inside = self.waiting.range(first..last).filter(|(_, end)| **end <= done.end_bytes());
        for key in inside.map(|(key, _)| *key).collect::<Vec<_>>() {
            self.waiting.remove(&key);
            let at = usize::try_from(key.3.saturating_sub(self.passed)).unwrap_or(usize::MAX);
            if let Some(Item::Record(record)) = self.kept.get_mut(at) {
                record.latency_ns = Some(done.at_ns.saturating_sub(record.at_ns));
            }
        }
    }

    /// Passes on the items at the front that need not wait any more.
    fn pass_on(&mut self, sink: &mut dyn Sink) -> Result<(), Error> {
        while let Some(item) = self.kept.front() {
            let waits = matches!(item, Item::Record(record) if record.latency_ns.is_none());
            if waits && self.kept.len() <= MAX_KEPT {
                break;
            }
            self.pass_one(sink)?;
        }
        Ok(())
    }

    fn pass_one(&mut self, sink: &mut dyn Sink) -> Result<(), Error> {
        let Some(item) = self.kept.pop_front() else { return Ok(()) };
        if let Item::Record(record) = &item {
            let key =
                (record.device, record.operation == hoistway_block::Operation::Read, record.offset_bytes, self.passed);
            self.waiting.remove(&key);
        }
        self.passed += 1;
        sink.put(&item)
    }

    pub(super) fn end(&mut self, sink: &mut dyn Sink) -> Result<(), Error> {
        while !self.kept.is_empty() {
            self.pass_one(sink)?;
        }
        Ok(())
    }
}
