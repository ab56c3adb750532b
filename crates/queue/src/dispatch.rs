//! Which request the device gets next.

use crate::slot::Marks;
use crate::{Drains, RequestQueue, TraceKind};
use block::{HardwareQueue, Nanos, RequestId};
use elevator::{Dispatch, Elevator, Place, Reason};

/// Answer to "what now?" for one hardware queue.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Next {
    /// Hand this to the device now: it counts as started. Read it with `requests().attributes(id)`; a flush command
    /// is one whose operation is `Flush`.
    Start {
        /// Which.
        id: RequestId,
        /// Why the policy chose it; `None` for flush commands, passthrough, forced drains and requests chosen earlier.
        reason: Option<Reason>,
    },
    /// The policy keeps the device waiting until then; `next_timer` says the same.
    Hold {
        /// When it gives up.
        until: Nanos,
        /// What it waits for.
        reason: Reason,
    },
    /// Something is queued, and nothing may go before a completion.
    Throttled,
    /// The device has no room.
    DeviceFull,
    /// The queue's own plug holds everything back (eras 2.4 and 2.6): somebody unplugs, or `next_timer` does.
    Plugged,
    /// Nothing to do.
    Empty,
}

impl<E: Elevator> RequestQueue<E> {
    /// The next request for a hardware queue. Call until it answers anything but [`Next::Start`].
    #[inline]
    pub fn dispatch(&mut self, queue: HardwareQueue, now: Nanos) -> Next {
        if self.is_gated
            && let Some(answer) = self.gate(queue, now)
        {
            return answer;
        }
        let index = u32::from(queue.0);
        let has_room = *self.in_device.at(index) < self.depth.device;
        if !self.dispatch_lists.at(index).is_empty() {
            return if has_room { self.start_chosen(queue, now) } else { Next::DeviceFull };
        }
        if !has_room {
            return self.look_ahead(queue, now);
        }
        match self.choose(queue, now) {
            Choice::Request(id, reason) => self.start(id, reason, now),
            Choice::Nothing(next) => {
                if next == Next::Empty {
                    self.round_ended(queue, true);
                }
                next
            }
        }
    }

    /// Whether [`RequestQueue::dispatch`] would give nothing for a hardware queue and change nothing, so that a host may
    /// leave it out until something else happens here.
    #[inline]
    pub fn is_settled(&self, queue: HardwareQueue) -> bool {
        let index = u32::from(queue.0);
        let has_room = *self.in_device.at(index) < self.depth.device;
        let has_chosen = !self.dispatch_lists.at(index).is_empty();
        if self.is_gated || self.is_draining() {
            return false;
        }
        match (has_room, has_chosen) {
            (true, true) => false,
            // A round that finds nothing calms a busy device down.
            (true, false) => self.busy_average == 0 && !self.elevator.has_work(queue),
            (false, true) => true,
            (false, false) => !self.era.look_ahead || !self.elevator.has_work(queue),
        }
    }

    /// The oldest of those chosen before.
    #[inline]
    fn start_chosen(&mut self, queue: HardwareQueue, now: Nanos) -> Next {
        let list = self.dispatch_lists.at_mut(u32::from(queue.0));
        let slot = list.pop_front(&mut self.dispatch_links);
        let Some((id, request)) = slot.and_then(|slot| self.requests.move_slot_to(slot, Place::Started)) else {
            self.violations += 1;
            return Next::Empty;
        };
        request.issued_ns = now;
        let queue = request.attributes.hardware_queue;
        self.dispatch_total = self.dispatch_total.wrapping_sub(1);
        self.started(id, queue, None, now)
    }

    /// blk-mq takes a request before it asks for a driver tag: the one it gets none for is chosen all the same.
    #[inline]
    fn look_ahead(&mut self, queue: HardwareQueue, now: Nanos) -> Next {
        if self.era.look_ahead
            && let Choice::Request(id, _) = self.choose(queue, now)
        {
            self.dispatch_lists.at_mut(u32::from(queue.0)).push_back(&mut self.dispatch_links, id.slot());
            self.dispatch_total += 1;
            self.round_ended(queue, false);
        }
        Next::DeviceFull
    }

    #[inline(always)]
    fn choose(&mut self, queue: HardwareQueue, now: Nanos) -> Choice {
        if self.is_draining() {
            return match self.elevator.drain(&self.requests, now) {
                Some(id) => self.chosen(id, queue, None, now),
                None => Choice::Nothing(Next::Empty),
            };
        }
        if !self.elevator.has_work(queue) {
            return Choice::Nothing(Next::Empty);
        }
        match self.elevator.choose(&self.requests, queue, now) {
            Dispatch::Request { id, reason } => {
                if let Some(count) = self.reasons.get_mut(usize::from(reason.0)) {
                    *count += 1;
                }
                self.chosen(id, queue, Some(reason), now)
            }
            Dispatch::Hold { until, reason } => {
                if let Some(count) = self.reasons.get_mut(usize::from(reason.0)) {
                    *count += 1;
                }
                self.trace(TraceKind::Held, RequestId::from_raw(block::NIL), Some(reason), now);
                Choice::Nothing(Next::Hold { until, reason })
            }
            Dispatch::Throttled => Choice::Nothing(Next::Throttled),
            Dispatch::Empty => Choice::Nothing(Next::Empty),
        }
    }

    /// The request has left the policy: closed for merging, bound to this hardware queue.
    #[inline(always)]
    fn chosen(&mut self, id: RequestId, queue: HardwareQueue, reason: Option<Reason>, now: Nanos) -> Choice {
        self.leave_policy(id);
        if let Some(request) = self.requests.move_to(id, Place::Dispatched) {
            request.attributes.hardware_queue = queue;
        }
        self.trace(TraceKind::Chosen, id, reason, now);
        Choice::Request(id, reason)
    }

    #[inline(always)]
    fn start(&mut self, id: RequestId, reason: Option<Reason>, now: Nanos) -> Next {
        let mut queue = HardwareQueue(0);
        if let Some(request) = self.requests.move_to(id, Place::Started) {
            request.issued_ns = now;
            queue = request.attributes.hardware_queue;
        }
        self.started(id, queue, reason, now)
    }

    /// The driver has it.
    #[inline(always)]
    fn started(&mut self, id: RequestId, queue: HardwareQueue, reason: Option<Reason>, now: Nanos) -> Next {
        *self.in_device.at_mut(u32::from(queue.0)) += 1;
        self.in_device_total += 1;
        if self.era.drains == Drains::DispatchSort {
            self.move_boundary(id);
        }
        if !self.limiters.is_empty() {
            self.limiters_issued(id, now);
        }
        if self.slots.at(id.slot()).marks.has(Marks::INSERTED) {
            let wake = self.elevator.started(&self.requests, id, now);
            self.note(wake);
        }
        self.trace(TraceKind::Started, id, reason, now);
        Next::Start { id, reason }
    }

    /// blk-mq's measure of a busy device: an integer average of rounds that did not fit, new ones weighing an eighth.
    pub(crate) fn round_ended(&mut self, queue: HardwareQueue, did_fit: bool) {
        let was_busy = self.busy_average > 0;
        if did_fit && !was_busy {
            return;
        }
        self.busy_average = (7 * self.busy_average + if did_fit { 0 } else { 16 }) / 8;
        let is_busy = self.busy_average > 0;
        if is_busy != was_busy {
            self.elevator.busy_changed(queue, is_busy);
        }
    }
}

enum Choice {
    Request(RequestId, Option<Reason>),
    Nothing(Next),
}
