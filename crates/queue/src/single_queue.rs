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
use hoistway_block::{HardwareQueue, Nanos, Operation, RequestId, Sector};
use hoistway_elevator::{Elevator, Hint, MergeSearch, Place, Position, Wake};

/// The state of the dispatch list beside the list itself.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct DispatchOrder {
    /// Sorted drains begin here and wrap: the end of the last request that went to the driver or to
    /// the tail.
    boundary_sector: Sector,
    /// The request at the tail that set the boundary and is not in the driver yet.
    boundary: Option<RequestId>,
    /// Barriers in flight.
    pub barriers: u32,
    /// The barrier being run: only its flushes and itself go to the device.
    current: Option<RequestId>,
}

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
        let is_sorted = self.era.drains == Drains::DispatchSort && self.elevator.drains_by_sector();
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
        self.dispatch_lists.at_mut(u32::from(queue.0)).push_back(&mut self.dispatch_links, id.slot());
        self.dispatch_total += 1;
        self.order.boundary_sector = end;
        self.order.boundary = Some(id);
    }

    /// Inserts a request among those of its direction at the list's end, by sector from the
    /// boundary on.
    fn dispatch_sort(&mut self, id: RequestId) {
        let attributes = *self.requests.attributes(id);
        let boundary = self.order.boundary_sector;
        let list = self.dispatch_lists.at_mut(u32::from(attributes.hardware_queue.0));
        let mut before = list.last();
        while let Some(other) = before.and_then(|slot| self.requests.id_of(slot)) {
            let queued = self.requests.attributes(other);
            let is_wall = queued.direction() != attributes.direction()
                || matches!(queued.operation, Operation::Passthrough | Operation::Flush)
                || self.slots.at(other.slot()).stage != Stage::Plain;
            let (own, its) = (attributes.extent.first_sector, queued.extent.first_sector);
            if is_wall || (own < boundary, own) >= (its < boundary, its) {
                break;
            }
            before = self.dispatch_links.prev(other.slot());
        }
        match before {
            Some(slot) => list.insert_after(&mut self.dispatch_links, slot, id.slot()),
            None => list.push_front(&mut self.dispatch_links, id.slot()),
        };
        self.dispatch_total += 1;
    }

    /// A request goes to the driver: the boundary becomes its end, unless a request at the tail has
    /// set it.
    #[cold]
    pub(crate) fn move_boundary(&mut self, id: RequestId) {
        if self.order.boundary.is_none_or(|request| request == id) {
            self.order.boundary_sector = self.requests.attributes(id).extent.end();
            self.order.boundary = None;
        }
    }
}

// ---- barriers ----
impl<E: Elevator> RequestQueue<E> {
    /// Appends a barrier to the requests that arrived before it.
    pub(crate) fn insert_barrier(&mut self, id: RequestId, steps: Steps, now: Nanos) {
        self.slots.at_mut(id.slot()).stage = Stage::Barrier(steps);
        self.order.barriers += 1;
        self.insert_tail(id, now);
        self.update_gate();
    }

    /// The result that a plug or a barrier forces on a dispatch; `None` if neither is active.
    #[cold]
    pub(crate) fn gate(&mut self, queue: HardwareQueue, now: Nanos) -> Option<Next> {
        if self.device_plug.is_in {
            return Some(Next::Plugged);
        }
        if self.order.current.is_none() {
            let Stage::Barrier(steps) = self.first_stage(queue) else { return None };
            if self.in_device_total > 0 {
                return Some(Next::Throttled);
            }
            self.begin_barrier(queue, steps, now);
        }
        let first = self.dispatch_lists.at(u32::from(queue.0)).first().and_then(|slot| self.requests.id_of(slot));
        let is_its_turn =
            first.is_some_and(|id| self.order.current == Some(id) || self.slots.at(id.slot()).stage == Stage::Command);
        if is_its_turn { None } else { Some(Next::Throttled) }
    }

    fn first_stage(&self, queue: HardwareQueue) -> Stage {
        let first = self.dispatch_lists.at(u32::from(queue.0)).first();
        first.map_or(Stage::Plain, |slot| self.slots.at(slot).stage)
    }

    /// The device is empty: the barrier at the head of the list begins, with a flush if it needs
    /// one.
    fn begin_barrier(&mut self, queue: HardwareQueue, steps: Steps, now: Nanos) {
        let list = self.dispatch_lists.at_mut(u32::from(queue.0));
        let Some(id) = list.first().and_then(|slot| self.requests.id_of(slot)) else { return };
        self.order.current = Some(id);
        if !steps.before() {
            self.slots.at_mut(id.slot()).stage = Stage::Data(steps);
            self.flush.add_running_data();
            return;
        }
        list.pop_front(&mut self.dispatch_links);
        self.dispatch_total = self.dispatch_total.saturating_sub(1);
        self.slots.at_mut(id.slot()).stage = Stage::Before(steps);
        self.wait_for_flush(id, now);
    }

    /// A barrier that has not begun was taken back.
    #[cold]
    pub(crate) fn forget_barrier(&mut self) {
        self.order.barriers = self.order.barriers.saturating_sub(1);
        self.update_gate();
    }

    /// A request at the tail was taken back: those that go to the driver move the boundary again.
    #[cold]
    pub(crate) fn forget_boundary(&mut self, id: RequestId) {
        if self.order.boundary == Some(id) {
            self.order.boundary = None;
        }
    }

    /// A request completed while a barrier was in flight.
    #[cold]
    pub(crate) fn end_barrier(&mut self, id: RequestId) {
        if self.order.current == Some(id) {
            self.order.current = None;
            self.order.barriers = self.order.barriers.saturating_sub(1);
            self.update_gate();
            self.note(Wake::All);
        }
    }

    pub(crate) fn update_gate(&mut self) {
        self.is_gated = self.device_plug.is_in || self.order.barriers > 0;
    }
}
