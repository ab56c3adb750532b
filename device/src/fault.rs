//! A device that misbehaves on demand: errors, stalls, and resets that lose what is in flight.
//!
//! Everything is drawn from one seeded stream at submission, so a run with faults replays like any other.

use block::random::Stream;
use block::{Extent, Nanos, Status};

use crate::interface::{Command, Completion, Counters, Device, DeviceInfo, NEVER, Submit};
use crate::pending::Pending;

/// Settings of [`Faulty`]; rates in parts per million of commands, 0 = never.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FaultParameters {
    /// Commands that end with an I/O error.
    pub error_ppm: u64,
    /// First sector of a range that cannot be read or written.
    pub bad_first_sector: u64,
    /// Length of that range in sectors; 0 = no such range.
    pub bad_sectors: u64,
    /// Commands that begin a stall: nothing completes before it ends.
    pub stall_ppm: u64,
    /// Length of a stall in nanoseconds.
    pub stall_ns: u64,
    /// Commands that end in a reset: all commands in flight, this one included, time out.
    pub reset_ppm: u64,
    /// Time that a reset takes, in nanoseconds.
    pub reset_ns: u64,
}

impl FaultParameters {
    /// Whether any fault can happen at all.
    pub fn is_active(&self) -> bool {
        self.error_ppm > 0 || self.bad_sectors > 0 || self.stall_ppm > 0 || self.reset_ppm > 0
    }
}

/// `inner`, with faults.
#[derive(Clone, Debug)]
pub struct Faulty<D> {
    inner: D,
    parameters: FaultParameters,
    /// Tags inside `inner`, and how each will end whatever the medium says.
    inside: Vec<(u32, Option<Status>)>,
    /// Answers that wait for a stall or a reset to end.
    held: Pending<(u32, Status)>,
    stalled_until: Nanos,
    scratch: Vec<Completion>,
    stream: Stream,
    errors: u64,
}

impl<D: Device> Faulty<D> {
    /// `inner` with these faults; `stream` decides which commands they meet.
    pub fn new(inner: D, parameters: &FaultParameters, stream: Stream) -> Self {
        let depth = inner.info().total_depth();
        Self {
            inner,
            parameters: parameters.clone(),
            inside: Vec::with_capacity(depth),
            held: Pending::with_capacity(depth),
            stalled_until: 0,
            scratch: Vec::with_capacity(depth),
            stream,
            errors: 0,
        }
    }

    fn happens(&mut self, ppm: u64) -> bool {
        ppm > 0 && self.stream.chance(ppm, 1_000_000)
    }

    fn is_bad(&self, extent: Extent) -> bool {
        let bad_end = self.parameters.bad_first_sector.saturating_add(self.parameters.bad_sectors);
        extent.first_sector < bad_end && self.parameters.bad_first_sector < extent.end()
    }

    /// Loses everything in flight and answers it when the reset is over.
    fn lose_all(&mut self, now: Nanos) {
        self.inner.reset(now);
        let over_at = now + self.parameters.reset_ns;
        self.stalled_until = self.stalled_until.max(over_at);
        while let Some((tag, _)) = self.inside.pop() {
            self.held.insert(over_at, (tag, Status::Timeout));
        }
    }

    /// Moves what `inner` has completed by `now` to the answers held back.
    fn collect(&mut self, now: Nanos) {
        self.inner.advance(now, &mut self.scratch);
        for completion in self.scratch.drain(..) {
            let index = self.inside.iter().position(|&(tag, _)| tag == completion.tag);
            let forced = index.and_then(|index| self.inside.swap_remove(index).1);
            let at_ns = completion.at_ns.max(self.stalled_until);
            self.held.insert(at_ns, (completion.tag, forced.unwrap_or(completion.status)));
        }
    }
}

impl<D: Device> Device for Faulty<D> {
    fn info(&self) -> &DeviceInfo {
        self.inner.info()
    }

    fn submit(&mut self, now: Nanos, command: &Command) -> Submit {
        if self.inside.len() + self.held.len() >= self.info().total_depth() {
            return Submit::Busy;
        }
        // What was done before this moment is done, whatever this command brings about.
        self.collect(now);
        if self.inner.submit(now, command) == Submit::Busy {
            return Submit::Busy;
        }
        let fails = self.is_bad(command.extent) || self.happens(self.parameters.error_ppm);
        self.inside.push((command.tag, fails.then_some(Status::IoError)));
        if self.happens(self.parameters.stall_ppm) {
            self.stalled_until = self.stalled_until.max(now + self.parameters.stall_ns);
        }
        if self.happens(self.parameters.reset_ppm) {
            self.lose_all(now);
        }
        Submit::Accepted
    }

    fn next_event(&self) -> Nanos {
        let inner = self.inner.next_event();
        // While stalled, what happens inside shows only at the end of the stall.
        let shown = if inner == NEVER { NEVER } else { inner.max(self.stalled_until) };
        shown.min(self.held.next())
    }

    fn advance(&mut self, now: Nanos, out: &mut Vec<Completion>) {
        self.collect(now);
        while let Some((at_ns, (tag, status))) = self.held.pop_due(now) {
            self.errors += u64::from(!status.is_ok());
            out.push(Completion { at_ns, tag, status });
        }
    }

    fn is_idle(&self) -> bool {
        self.inner.is_idle() && self.held.is_empty()
    }

    fn counters(&self) -> Counters {
        Counters { errors: self.errors, ..self.inner.counters() }
    }

    fn reset(&mut self, now: Nanos) {
        self.inner.reset(now);
        self.inside.clear();
        self.held.clear();
    }
}
