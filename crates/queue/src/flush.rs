//! Flush and FUA: the steps that a write needs, and the machine that runs them (Linux
//! block/blk-flush.c).
//!
//! The steps are a cache flush before, the data, and a cache flush after. Flushes are shared: while
//! one is in the device, requests that need one collect in the pending list and share the next. Two
//! lists swap roles (double buffer).

use crate::era::Flushes;
use crate::slot::Marks;
use crate::{Done, RequestQueue, TraceKind};
use hoistway_block::{Flags, Nanos, Operation, RequestId, Status};
use hoistway_elevator::structures::{Links, List};
use hoistway_elevator::{Attributes, Bio, Elevator, Place, Position, Requests};

/// The steps of a bio in the flush machine, one bit each.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Steps(u8);

impl Steps {
    const BEFORE: u8 = 1;
    const DATA: u8 = 1 << 1;
    const AFTER: u8 = 1 << 2;

    /// The steps of a bio on a device with or without a volatile cache and FUA.
    pub(crate) fn of(bio: &Bio, limits: &crate::Limits) -> Steps {
        let wants_flush = bio.flags.intersects(Flags::PREFLUSH) || bio.operation == Operation::Flush;
        let (flushes, has_data) = (limits.volatile_cache, bio.extent.sectors > 0);
        let before = wants_flush && flushes;
        let after = bio.flags.intersects(Flags::FUA) && flushes && !limits.fua && has_data;
        let bit = |step: u8, is_needed: bool| if is_needed { step } else { 0 };
        Steps(bit(Self::BEFORE, before) | bit(Self::DATA, has_data) | bit(Self::AFTER, after))
    }

    /// Whether a cache flush comes before the data.
    pub(crate) const fn before(self) -> bool {
        self.0 & Self::BEFORE != 0
    }

    /// Whether there is data.
    pub(crate) const fn data(self) -> bool {
        self.0 & Self::DATA != 0
    }

    /// Whether a cache flush comes after the data.
    pub(crate) const fn after(self) -> bool {
        self.0 & Self::AFTER != 0
    }

    /// Whether no step is needed.
    pub(crate) fn is_nothing(self) -> bool {
        self == Steps::default()
    }
}

/// The step that a request is in.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub(crate) enum Stage {
    /// An ordinary request without a flush sequence.
    #[default]
    Plain,
    /// Waits on the dispatch list until the device is empty (2.6 barriers).
    Barrier(Steps),
    /// Waits for the flush before its data.
    Before(Steps),
    /// Its data is in the policy or the device.
    Data(Steps),
    /// Waits for the flush after its data.
    After(Steps),
    /// The flush command itself.
    Command,
}

/// The machine's state.
#[derive(Debug, Default)]
pub(crate) struct FlushMachine {
    pending: List,
    running: List,
    command: Option<RequestId>,
    data_running: u32,
    pending_since_ns: Nanos,
}

impl FlushMachine {
    pub(crate) fn is_idle(&self) -> bool {
        self.pending.is_empty() && self.running.is_empty() && self.command.is_none() && self.data_running == 0
    }

    /// Whether the flush machine's own command is in the device.
    pub(crate) fn command_is_in(&self, requests: &Requests) -> bool {
        self.command.is_some_and(|id| requests.at(id).place == Place::Started)
    }

    /// The data step of a write with a flush sequence was started.
    pub(crate) fn add_running_data(&mut self) {
        self.data_running += 1;
    }

    /// The data step of such a write has ended, or was taken back.
    pub(crate) fn end_running_data(&mut self) {
        self.data_running = self.data_running.saturating_sub(1);
    }

    /// Removes a request that waits for a flush, which may be in the device. False if none waits
    /// there.
    pub(crate) fn remove(&mut self, links: &mut Links, slot: u32) -> bool {
        let is_pending = self.pending.iter(links).any(|waiting| waiting == slot);
        let list = if is_pending { &mut self.pending } else { &mut self.running };
        list.remove(links, slot)
    }

    /// When a flush is issued although data is still running.
    pub(crate) fn deadline_ns(&self, wait_ns: u64) -> Option<Nanos> {
        let waits = !self.pending.is_empty() && self.command.is_none() && self.data_running > 0;
        waits.then(|| self.pending_since_ns.saturating_add(wait_ns))
    }
}

impl<E: Elevator> RequestQueue<E> {
    /// Starts the sequence of a request with a flush or FUA mark.
    pub(crate) fn begin_flush_sequence(&mut self, id: RequestId, now: Nanos) {
        let bio = *self.requests.attributes(id);
        let steps = Steps::of(&bio, &self.settings.limits);
        self.clear_flush_flags(id);
        // With its flags cleared it looks like an ordinary request, but a bio merged into it would
        // have to wait for a flush that it did not ask for.
        self.slots.at_mut(id.slot()).marks.set(Marks::NO_MERGE);
        if self.settings.era.flushes == Flushes::Barriers {
            self.insert_barrier(id, steps, now);
        } else if !steps.before() && !steps.after() {
            self.insert(id, Position::Sorted(hoistway_elevator::Hint::None), now);
        } else if steps.before() {
            self.slots.at_mut(id.slot()).stage = Stage::Before(steps);
            self.wait_for_flush(id, now);
        } else {
            self.slots.at_mut(id.slot()).stage = Stage::Data(steps);
            self.flush.data_running += 1;
            self.insert(id, Position::Sorted(hoistway_elevator::Hint::None), now);
        }
    }

    /// Clears the flags that the sequence carries out; FUA stays only if the device supports it.
    /// SYNC is set because the cleared flags meant that a task waits, and the request still counts
    /// as sync.
    fn clear_flush_flags(&mut self, id: RequestId) {
        let keeps_fua = self.settings.limits.fua && self.settings.limits.volatile_cache;
        let Some(request) = self.requests.live_mut(id) else { return };
        let flags = request.attributes.flags.without(Flags::PREFLUSH).with(Flags::SYNC);
        request.attributes.flags = if keeps_fua { flags } else { flags.without(Flags::FUA) };
    }

    pub(crate) fn wait_for_flush(&mut self, id: RequestId, now: Nanos) {
        if self.flush.pending.is_empty() {
            self.flush.pending_since_ns = now;
        }
        self.flush.pending.push_back(&mut self.links, id.slot());
        self.kick_flush(now);
    }

    /// Issues a flush if a request waits for one, none is in the device, and no data is running or
    /// the wait has expired.
    pub(crate) fn kick_flush(&mut self, now: Nanos) {
        let waited_ns = now.saturating_sub(self.flush.pending_since_ns);
        let data_blocks = self.flush.data_running > 0 && waited_ns < self.settings.era.flush_wait_ns;
        if self.flush.pending.is_empty() || self.flush.command.is_some() || data_blocks {
            return;
        }
        let mut attributes = Attributes::new(Operation::Flush, hoistway_block::Extent::new(0, 0));
        attributes.flags = Flags::SYNC;
        // The table of requests has one slot per hardware queue beyond the tags, for this command.
        let Some(id) = self.requests.allocate(attributes, now) else { return };
        core::mem::swap(&mut self.flush.pending, &mut self.flush.running);
        *self.slots.at_mut(id.slot()) = crate::Slot::COMMAND;
        self.flush.command = Some(id);
        self.requests.move_to(id, Place::Dispatched);
        self.push_dispatch_front(id);
        self.trace(TraceKind::FlushIssued, id, None, now);
    }

    /// The flush command completed: every request that it served moves to its next step.
    pub(crate) fn flush_completed(&mut self, id: RequestId, status: Status, now: Nanos, done: &mut impl FnMut(Done)) {
        self.counters.flushes += 1;
        self.requests.free(id);
        self.flush.command = None;
        let mut running = core::mem::take(&mut self.flush.running);
        while let Some(slot) = running.pop_front(&mut self.links) {
            let Some(waiter) = self.requests.id_of(slot) else { continue };
            match (self.slots.at(slot).stage, status.is_ok()) {
                (Stage::Before(steps), true) if steps.data() => {
                    self.slots.at_mut(slot).stage = Stage::Data(steps);
                    self.flush.data_running += 1;
                    if self.settings.era.flushes == Flushes::Barriers {
                        self.push_dispatch_front(waiter);
                    } else {
                        self.insert(waiter, Position::Head, now);
                    }
                }
                _ => self.finish(waiter, status, now, done),
            }
        }
        self.kick_flush(now);
    }

    /// The data step of a write with a flush sequence completed. Returns whether the request
    /// continues with a flush.
    pub(crate) fn data_step_completed(&mut self, id: RequestId, status: Status, now: Nanos) -> bool {
        let Stage::Data(steps) = self.slots.at(id.slot()).stage else { return false };
        self.flush.end_running_data();
        let goes_on = steps.after() && status.is_ok();
        if goes_on {
            self.slots.at_mut(id.slot()).stage = Stage::After(steps);
            self.requests.move_to(id, Place::Plugged);
            self.wait_for_flush(id, now);
        }
        self.kick_flush(now);
        goes_on
    }
}
