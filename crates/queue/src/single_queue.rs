//! The dispatch list of the single-queue kernels (2.6 to 4.20): forced drains, the tail insert,
//! barriers.
//!
//! Requests on the dispatch list are no longer merged or reordered by the policy. A barrier (up to
//! 2.6.36) waits at its place there until the device is empty, runs its flushes and its data, and
//! only then lets the next request start. Source: Linux 2.6.18 block/elevator.c and
//! block/ll_rw_blk.c (elv_dispatch_sort, elv_insert, blk_do_ordered).

use crate::era::Drains;
use crate::flush::{Stage, Steps};
use crate::{Next, RequestQueue, TraceKind};
use hoistway_block::{HardwareQueue, Nanos, Operation, RequestId};
use hoistway_elevator::{Elevator, Hint, MergeSearch, Place, Position, Wake};

impl<E: Elevator> RequestQueue<E> {
    /// Handles a driver's own command (passthrough) in 2.4: puts it on the list of a policy that
    /// has its own list. Any other policy would sort the command, so that policy is drained first
    /// and the command is appended.
    pub(crate) fn queue_special(&mut self, id: RequestId, now: Nanos) {
        if self.elevator.merge_search() == MergeSearch::Own {
            self.insert(id, Position::Sorted(Hint::None), now);
        } else {
            self.insert_tail(id, now);
        }
    }

    /// Drains the policy to the dispatch list and appends this request.
    pub(crate) fn insert_tail(&mut self, id: RequestId, now: Nanos) {
        self.force_out(now);
        self.requests.move_to(id, Place::Dispatched);
        self.add_to_dispatch_tail(id);
        self.unplug_device(now);
        self.note(Wake::All);
    }

    /// Empties the policy into the dispatch list.
    pub(crate) fn force_out(&mut self, now: Nanos) {
        let is_sorted = self.settings.era.drains == Drains::DispatchSort && self.elevator.drains_by_sector();
        while let Some(id) = self.elevator.drain(&self.requests, now) {
            self.leave_policy(id);
            self.requests.move_to(id, Place::Dispatched);
            self.trace(TraceKind::Chosen, id, None, now);
            if is_sorted {
                self.dispatch_sort(id);
            } else {
                self.add_to_dispatch_tail(id);
            }
        }
    }

    fn add_to_dispatch_tail(&mut self, id: RequestId) {
        let attributes = self.requests.attributes(id);
        let (queue, end) = (attributes.hardware_queue, attributes.extent.end());
        self.device.push_tail(&mut self.links, queue, id, end);
    }

    /// Inserts a request among those of its direction at the list's end, by sector from the
    /// boundary on.
    fn dispatch_sort(&mut self, id: RequestId) {
        let attributes = *self.requests.attributes(id);
        let (requests, slots) = (&self.requests, &self.slots);
        let stays_before = |other: u32, boundary| {
            let Some(other) = requests.id_of(other) else { return true };
            let queued = requests.attributes(other);
            let is_wall = queued.direction() != attributes.direction()
                || matches!(queued.operation, Operation::Passthrough | Operation::Flush)
                || slots.at(other.slot()).stage != Stage::Plain;
            let (own, its) = (attributes.extent.first_sector, queued.extent.first_sector);
            is_wall || (own < boundary, own) >= (its < boundary, its)
        };
        self.device.push_sorted(&mut self.links, attributes.hardware_queue, id.slot(), stays_before);
    }
}

// ---- barriers ----
impl<E: Elevator> RequestQueue<E> {
    /// Appends a barrier to the requests that arrived before it.
    pub(crate) fn insert_barrier(&mut self, id: RequestId, steps: Steps, now: Nanos) {
        self.slots.at_mut(id.slot()).stage = Stage::Barrier(steps);
        self.insert_tail(id, now);
        self.gate.add_barrier();
    }

    /// The result that a plug or a barrier forces on a dispatch; `None` if neither is active.
    #[cold]
    pub(crate) fn gate(&mut self, queue: HardwareQueue, now: Nanos) -> Option<Next> {
        if self.gate.is_plugged() {
            return Some(Next::Plugged);
        }
        if self.gate.current().is_none() {
            let Stage::Barrier(steps) = self.first_stage(queue) else { return None };
            if self.device.started() > 0 {
                return Some(Next::Throttled);
            }
            self.begin_barrier(queue, steps, now);
        }
        let first = self.device.first_chosen(queue).and_then(|slot| self.requests.id_of(slot));
        let is_its_turn =
            first.is_some_and(|id| self.gate.current() == Some(id) || self.slots.at(id.slot()).stage == Stage::Command);
        if is_its_turn { None } else { Some(Next::Throttled) }
    }

    fn first_stage(&self, queue: HardwareQueue) -> Stage {
        let first = self.device.first_chosen(queue);
        first.map_or(Stage::Plain, |slot| self.slots.at(slot).stage)
    }

    /// The device is empty: the barrier at the head of the list begins, with a flush if it needs
    /// one.
    fn begin_barrier(&mut self, queue: HardwareQueue, steps: Steps, now: Nanos) {
        let Some(id) = self.device.first_chosen(queue).and_then(|slot| self.requests.id_of(slot)) else { return };
        self.gate.begin(id);
        if !steps.before() {
            self.slots.at_mut(id.slot()).stage = Stage::Data(steps);
            self.flush.add_running_data();
            return;
        }
        self.device.pop_front(&mut self.links, queue);
        self.slots.at_mut(id.slot()).stage = Stage::Before(steps);
        self.wait_for_flush(id, now);
    }

    /// A request completed while a barrier was in flight.
    #[cold]
    pub(crate) fn end_barrier(&mut self, id: RequestId) {
        if self.gate.end(id) {
            self.note(Wake::All);
        }
    }
}
