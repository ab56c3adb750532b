//! Chooses the request that the device gets next.

use crate::slot::Marks;
use crate::{Drains, RequestQueue, TraceKind};
use hoistway_block::{HardwareQueue, Nanos, RequestId};
use hoistway_elevator::{Dispatch, Elevator, Place, Reason};

/// The result of a dispatch for one hardware queue.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Next {
    /// Pass this request to the device now; it counts as started. Its attributes are
    /// `requests().attributes(id)`; a flush command has the operation `Flush`.
    Start {
        /// The request.
        id: RequestId,
        /// Why the policy chose it; `None` for flush commands, passthrough, forced drains and
        /// requests chosen earlier.
        reason: Option<Reason>,
    },
    /// The policy idles: it holds its requests back until `until`, the time that `next_timer`
    /// returns as well.
    Hold {
        /// When the policy stops idling.
        until: Nanos,
        /// Why the policy idles.
        reason: Reason,
    },
    /// Requests are queued, but none may be dispatched before a completion.
    Throttled,
    /// The device has no room.
    DeviceFull,
    /// The queue's plug holds all requests back (eras 2.4 and 2.6), until
    /// [`RequestQueue::unplug_device`] or `next_timer` removes it.
    Plugged,
    /// Nothing is queued.
    Empty,
}

impl<E: Elevator> RequestQueue<E> {
    /// The next request for a hardware queue. Call it until it returns anything but
    /// [`Next::Start`].
    #[inline]
    pub fn dispatch(&mut self, queue: HardwareQueue, now: Nanos) -> Next {
        if self.gate.is_closed()
            && let Some(answer) = self.gate(queue, now)
        {
            return answer;
        }
        let has_room = self.device.has_room(queue, self.settings.configuration.depth.device);
        if self.device.has_chosen(queue) {
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

    /// Whether [`RequestQueue::dispatch`] would return nothing for a hardware queue and change
    /// nothing, so that a host may skip the call until another event.
    #[inline]
    pub fn is_dispatch_idle(&self, queue: HardwareQueue) -> bool {
        let has_room = self.device.has_room(queue, self.settings.configuration.depth.device);
        let has_chosen = self.device.has_chosen(queue);
        if self.gate.is_closed() || self.switch.is_draining() {
            return false;
        }
        match (has_room, has_chosen) {
            (true, true) => false,
            // While the average of busy rounds (see [`RequestQueue::round_ended`]) is above 0, a
            // dispatch changes it even if nothing is queued: a round in which the device had room
            // lowers it.
            (true, false) => !self.device.is_busy() && !self.elevator.has_work(queue),
            (false, true) => true,
            (false, false) => !self.settings.era.look_ahead || !self.elevator.has_work(queue),
        }
    }

    /// Starts the oldest of the requests chosen before.
    #[inline]
    fn start_chosen(&mut self, queue: HardwareQueue, now: Nanos) -> Next {
        let slot = self.device.pop_front(&mut self.links, queue);
        let Some((id, request)) = slot.and_then(|slot| self.requests.move_slot_to(slot, Place::Started)) else {
            self.violations += 1;
            return Next::Empty;
        };
        request.issued_ns = now;
        let queue = request.attributes.hardware_queue;
        self.started(id, queue, None, now)
    }

    /// blk-mq takes a request from the policy before it asks for a driver tag, so one request is
    /// chosen even if no tag is free for it.
    #[inline]
    fn look_ahead(&mut self, queue: HardwareQueue, now: Nanos) -> Next {
        if self.settings.era.look_ahead
            && let Choice::Request(id, _) = self.choose(queue, now)
        {
            self.device.push_back(&mut self.links, queue, id.slot());
            self.round_ended(queue, false);
        }
        Next::DeviceFull
    }

    #[inline(always)]
    fn choose(&mut self, queue: HardwareQueue, now: Nanos) -> Choice {
        if self.switch.is_draining() {
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
                self.count_reason(reason);
                self.chosen(id, queue, Some(reason), now)
            }
            Dispatch::Hold { until, reason } => {
                self.count_reason(reason);
                self.trace(TraceKind::Held, RequestId::from_raw(hoistway_block::NIL), Some(reason), now);
                Choice::Nothing(Next::Hold { until, reason })
            }
            Dispatch::Throttled => Choice::Nothing(Next::Throttled),
            Dispatch::Empty => Choice::Nothing(Next::Empty),
        }
    }

    /// The request leaves the policy: it is closed for merging and bound to this hardware queue.
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

    /// The request was passed to the driver.
    #[inline(always)]
    fn started(&mut self, id: RequestId, queue: HardwareQueue, reason: Option<Reason>, now: Nanos) -> Next {
        self.device.enter(queue);
        if self.settings.era.drains == Drains::DispatchSort {
            self.device.move_boundary(id, self.requests.attributes(id).extent.end());
        }
        if !self.limiters.is_empty() {
            self.limiters.issued(&self.requests, id, now);
        }
        if self.slots.at(id.slot()).marks.has(Marks::INSERTED) {
            let wake = self.elevator.started(&self.requests, id, now);
            self.note(wake);
        }
        self.trace(TraceKind::Started, id, reason, now);
        Next::Start { id, reason }
    }

    #[inline(always)]
    fn count_reason(&mut self, reason: Reason) {
        if let Some(count) = self.reasons.get_mut(usize::from(reason.0)) {
            *count += 1;
        }
    }

    /// A dispatch round ended with room in the device, or without.
    pub(crate) fn round_ended(&mut self, queue: HardwareQueue, did_fit: bool) {
        if let Some(is_busy) = self.device.round_ended(did_fit) {
            self.elevator.busy_changed(queue, is_busy);
        }
    }
}

enum Choice {
    Request(RequestId, Option<Reason>),
    Nothing(Next),
}
