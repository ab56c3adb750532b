//! Dispatch from the selected queue: whether it may dispatch, which request, and the accounting.

use super::Cfq;
use super::Why;
use super::expire::Rest;
use super::select::{Selected, Waits};
use super::slices::async_allowance;
use super::state::{Held, Marks, Slot};
use crate::interface::Dispatch;
use crate::request::Requests;
use crate::structures::NIL;
use hoistway_block::RequestId;

/// CFQ of 2.6.26 lets a lone queue have this many rounds in flight.
const ROUNDS_ALONE: u64 = 4;

impl Cfq {
    /// The next request, or what the device waits for.
    #[inline(never)]
    pub(super) fn dispatch(&mut self, requests: &Requests) -> Dispatch {
        if self.load.requests() == 0 {
            return Dispatch::Empty;
        }
        let before = self.engine.active;
        match self.select_queue() {
            Selected::Waiting(what) => self.held(what),
            Selected::Queue(queue) => {
                let why = if before == queue { Why::SliceGoesOn } else { Why::NextQueue };
                // CFQ of 4.20 checks the fifo first, so that an overdue request is dispatched
                // regardless of the limits.
                let mut overdue = None;
                if self.profile.has_late_rules {
                    overdue = self.overdue(queue);
                    if overdue.is_some() {
                        self.queues.at_mut(queue).marks.set(Marks::MUST_DISPATCH);
                    }
                }
                if !self.may_dispatch(queue) {
                    return Dispatch::Throttled;
                }
                if !self.profile.has_late_rules {
                    overdue = self.overdue(queue);
                }
                self.send(requests, queue, overdue, why)
            }
        }
    }

    fn held(&self, what: Waits) -> Dispatch {
        match (what, self.engine.timer_at) {
            (Waits::Timer, Some(at)) => {
                let reason = if self.engine.waits_for_group { Why::WaitsForGroup } else { Why::WaitsForQueue };
                Dispatch::Hold { until: self.clock.ticks().ns(at), reason: reason.into() }
            }
            _ => Dispatch::Throttled,
        }
    }

    fn send(&mut self, requests: &Requests, queue: u32, overdue: Option<u32>, why: Why) -> Dispatch {
        let (slot, why) = match overdue {
            Some(slot) => (slot, Why::Overdue),
            None => (self.queues.at(queue).pending.next(), why),
        };
        if slot == NIL {
            self.count_violation();
            return Dispatch::Throttled;
        }
        self.take_for_device(requests, queue, slot);
        let sent = self.queues.at(queue).slice.requests();
        self.end_short_turn(queue, sent);
        Dispatch::Request { id: self.slots.at(slot).id, reason: why.into() }
    }

    #[inline(never)]
    fn take_for_device(&mut self, requests: &Requests, queue: u32, slot: u32) {
        self.log_queue(queue, "dispatch_insert", &[]);
        self.move_to_device(requests, slot);
        if self.engine.active_context == NIL {
            self.engine.active_context = self.slots.at(slot).context;
        }
        self.log_queue(queue, "dispatched a request", &[]);
        let state = self.queues.at_mut(queue);
        state.slice.count_request();
        state.marks.clear(Marks::MUST_DISPATCH);
    }

    /// Ends the turn of an async queue after its request allowance, or of an idle-class queue after
    /// one request, while others wait.
    fn end_short_turn(&mut self, queue: u32, sent: u64) {
        let state = self.queues.at(queue);
        let allowance = async_allowance(self.settings.slice_async_requests, state.level);
        let is_done = state.is_idle_class() || (!state.is_sync() && sent >= allowance);
        if self.engine.busy_queues > 1 && is_done && self.engine.active == queue {
            self.queues.at_mut(queue).slice.end_at(self.clock.now().saturating_add(1));
            self.expire(queue, Rest::Forgotten);
        }
    }

    /// A queued request is dispatched and counted as in flight.
    #[inline]
    pub(super) fn move_to_device(&mut self, requests: &Requests, slot: u32) {
        let entry = self.slots.at_mut(slot);
        let Slot { id, queue, group: group_then, kind, is_sync: is_request_sync, held, .. } = *entry;
        entry.held = Held::Dispatched;
        self.update_next_from(queue, slot);
        let is_here = held == Held::Queued;
        if is_here {
            self.unlink_request(queue, slot);
        } else {
            self.count_violation();
        }
        let of_request = self.groups.at_mut(group_then);
        of_request.dispatched = of_request.dispatched.wrapping_add(1);
        if is_here {
            of_request.account.unqueue(kind, is_request_sync);
        }
        let sectors = requests.attributes(id).extent.sectors;
        let state = self.queues.at_mut(queue);
        state.dispatched = state.dispatched.wrapping_add(1);
        state.slice.count_sectors(sectors);
        let (is_sync, group, is_spent) = (state.is_sync(), state.group, state.is_empty());
        let [asynchronous, sync] = &mut self.engine.in_flight;
        let in_flight = if is_sync { sync } else { asynchronous };
        *in_flight = in_flight.wrapping_add(1);
        self.groups.at_mut(group).account.serve(kind, is_request_sync, sectors);
        if is_spent && self.profile.has_one_level {
            self.become_idle(queue);
        }
    }

    /// Whether the queue may have one more request in flight.
    #[inline(never)]
    fn may_dispatch(&mut self, queue: u32) -> bool {
        let is_late = self.profile.has_late_rules;
        if is_late && self.queues.at(queue).has(Marks::MUST_DISPATCH) {
            return true;
        }
        let [async_in_flight, sync_in_flight] = self.engine.in_flight;
        if self.should_idle(queue) && async_in_flight > 0 {
            // If the device is to be idled for the queue, async requests in flight must complete
            // first.
            return false;
        }
        let state = self.queues.at(queue);
        let (is_sync, is_idle) = (state.is_sync(), state.is_idle_class());
        if sync_in_flight > 0 && !is_sync {
            return false;
        }
        let quantum = self.settings.quantum_requests;
        let dispatched = u64::from(state.dispatched);
        let mut most = if is_idle { 1 } else { (quantum / 2).max(1) };
        if dispatched >= most {
            if is_idle {
                return false;
            }
            let is_only_sync = is_late && is_sync && self.load.sync_queues() == 1;
            let spent = self.settings.slice_idle_ticks.saturating_mul(dispatched);
            let ends_soon = state.has(Marks::SLICE_NEW) || state.slice.ends_within(self.clock.now(), spent);
            if self.engine.busy_queues > 1 && ends_soon && !is_only_sync {
                return false;
            }
            most = if self.engine.busy_queues == 1 || is_only_sync { u64::MAX } else { quantum };
        }
        if !is_sync && self.settings.low_latency {
            most = most.min(self.async_depth(dispatched));
        }
        dispatched < most
    }

    /// The longer no sync request has been late, the more async ones may be in flight.
    fn async_depth(&self, dispatched: u64) -> u64 {
        let since = self.load.since_late_sync(self.clock.now());
        let depth = since.checked_div(self.settings.slice(true)).unwrap_or(0);
        if depth == 0 && dispatched == 0 { 1 } else { depth }
    }

    // ---- dispatch rounds of CFQ of 2.6.26 ----

    /// Moves requests out of their queues in rounds until the device is to be idled, and returns
    /// the first of them. The others are dispatched next whatever happens, as from the kernel's
    /// dispatch list.
    #[inline(never)]
    pub(super) fn dispatch_rounds(&mut self, requests: &Requests) -> Dispatch {
        if self.load.requests() == 0 {
            return Dispatch::Empty;
        }
        let mut first = None;
        while self.has_queued_to_serve() {
            let before = self.engine.active;
            let queue = match self.select_at_first() {
                Selected::Queue(queue) if self.may_begin_round(queue) => queue,
                Selected::Waiting(what) if first.is_none() => return self.held(what),
                _ => break,
            };
            let why = if before == queue { Why::SliceGoesOn } else { Why::NextQueue };
            self.move_round(requests, queue, why, &mut first);
        }
        match first {
            Some((slot, reason)) => Dispatch::Request { id: self.slots.at(slot).id, reason: reason.into() },
            None => Dispatch::Throttled,
        }
    }

    fn may_begin_round(&self, queue: u32) -> bool {
        let state = self.queues.at(queue);
        let (most, dispatched) = (self.round_size(queue), u64::from(state.dispatched));
        let is_full =
            dispatched >= most && (self.engine.busy_queues > 1 || dispatched >= most.saturating_mul(ROUNDS_ALONE));
        let [_, sync_in_flight] = self.engine.in_flight;
        !is_full && (sync_in_flight == 0 || state.is_sync())
    }

    fn round_size(&self, queue: u32) -> u64 {
        if self.queues.at(queue).is_idle_class() { 1 } else { self.settings.quantum_requests }
    }

    /// Moves up to `quantum` requests out of a queue. If `first` is empty, the first of them is
    /// stored there, with its reason, to be returned at once; the others are dispatched by later
    /// calls.
    fn move_round(&mut self, requests: &Requests, queue: u32, why: Why, first: &mut Option<(u32, Why)>) {
        self.cancel_timer();
        self.queues.at_mut(queue).marks.clear(Marks::WAIT_REQUEST);
        let (most, mut moved) = (self.round_size(queue), 0_u64);
        while moved < most && !self.queues.at(queue).is_empty() {
            let overdue = self.overdue(queue);
            let slot = overdue.unwrap_or(self.queues.at(queue).pending.next());
            if self.slots.get(slot).is_none() {
                self.count_violation();
                break;
            }
            self.take_for_device(requests, queue, slot);
            if first.is_none() {
                *first = Some((slot, if overdue.is_some() { Why::Overdue } else { why }));
            } else {
                self.slots.at_mut(slot).held = Held::Round;
                if !self.order.add_to_round(slot) {
                    self.count_violation();
                }
            }
            moved = moved.saturating_add(1);
        }
        self.end_short_turn(queue, moved);
    }

    /// The oldest request that was moved out of its queue in a round.
    pub(super) fn next_of_round(&mut self) -> Option<RequestId> {
        let slot = self.order.take_from_round()?;
        let entry = self.slots.at_mut(slot);
        entry.held = Held::Dispatched;
        Some(entry.id)
    }
}
