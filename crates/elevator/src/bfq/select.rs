//! Which request is dispatched next: the turn goes on or ends; or the device is idled, and requests
//! of other queues are injected meanwhile.

use super::budget::TurnEnd;
use super::clock::NEVER;
use super::next_request::Left;
use super::profile::Polls;
use super::state::{Held, Marks};
use super::{Bfq, Why};
use crate::interface::Dispatch;
use crate::structures::NIL;
use hoistway_block::{Class, Extent, RequestId};

/// What to do next.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Selection {
    /// No queue is in service.
    NoQueue,
    /// The turn in service is over.
    Ends(TurnEnd),
    /// This queue may send a request, at this charge.
    Sends(u32, u32),
    /// The device is idled for the queue in service.
    Idle,
}

impl Bfq {
    /// The sectors that a queue is charged for a request.
    pub(super) fn charge(&self, slot: u32, queue: u32) -> u32 {
        let sectors = self.slots.at(slot).sectors;
        let state = self.queues.at(queue);
        let is_plain = state.is_sync()
            || state.is_raised()
            || (self.profile.budgets.charges_plainly_if_asymmetric && self.is_asymmetric(queue));
        let [usual, beside_raised] = self.profile.budgets.async_charges;
        let times = match () {
            () if is_plain => 1,
            () if self.busy.raised() > 0 => beside_raised,
            () => usual,
        };
        sectors.saturating_mul(u32::from(times))
    }

    /// The next request, or what the device waits for.
    #[inline(never)]
    pub(super) fn choose_general(&mut self) -> Dispatch {
        if let Some(direct) = self.next_direct() {
            return direct;
        }
        match self.decide() {
            Ok((slot, queue, charge, why)) => self.send(slot, queue, charge, why),
            Err(nothing) => nothing,
        }
    }

    /// [`Bfq::send`] for the frequent case that the turn simply goes on and messages are off: the
    /// next request of the queue in service, with one access to each table. [`Bfq::select_next`] would
    /// give the same result.
    #[inline(never)]
    pub(super) fn send_in_turn(&mut self) -> Option<RequestId> {
        let queue = self.in_service;
        let looks_closely = self.settings.strict_guarantees | self.settings.bounded_hold | self.report.is_on();
        if looks_closely | !self.actuators.is_one() | self.order.has_direct() {
            return None;
        }
        let state = self.queues.get_mut(queue)?;
        let slot = state.pending.next();
        let entry = self.slots.get_mut(slot)?;
        let entity = self.schedule.get_mut(queue)?;
        let (id, sectors, is_sync) = (entry.id, entry.sectors, entry.is_sync);
        let is_plain = state.is_sync() & !state.has(Marks::WAIT_REQUEST) & !matches!(entity.class, Class::Idle);
        let fits = sectors <= entity.budget.saturating_sub(entity.service);
        if !(is_plain & fits) || self.clock.is_past_or_now(state.budget_timeout_ticks) {
            return None;
        }
        entry.held = Held::Dispatched;
        self.groups.at_mut(entry.group).account.dispatch(entry.counts_as, is_sync, sectors);
        state.count_service(sectors, self.clock.ticks);
        state.dispatched = state.dispatched.wrapping_add(1);
        let extent = Extent::new(self.order.first_sector(slot), sectors);
        self.run_vtime(queue, sectors);
        self.injection.dispatched(id);
        self.sample_dispatch(extent, true);
        self.next_leaves(queue, slot, is_sync);
        self.device.enter();
        self.update_raising(queue);
        Some(id)
    }

    /// Decides which request is dispatched, of which queue, at which charge and why; the error is
    /// the answer to the host if there is none.
    #[inline(always)]
    fn decide(&mut self) -> Result<(u32, u32, u32, Why), Dispatch> {
        if self.busy.total() == 0 {
            return Err(Dispatch::Empty);
        }
        if self.settings.strict_guarantees && self.profile.turns.strict_is_serial && self.device.in_driver() > 0 {
            return Err(self.repoll_later());
        }
        let before = self.in_service;
        let mut looks_at_time = before != NIL;
        let mut begins = false;
        // Each iteration gives the answer, or ends or begins a turn; usually the first gives it.
        // More are needed if a busy queue is empty or its next request now costs more than its
        // budget.
        for _ in 0..self.busy.total().wrapping_add(2).wrapping_mul(2) {
            match self.select_next(looks_at_time) {
                Selection::NoQueue => {
                    if !self.begin_next_turn() {
                        break;
                    }
                    begins = true;
                }
                Selection::Ends(end) => {
                    self.end_turn(self.in_service, end, self.clock.ns);
                    if begins && self.profile.budgets.gives_up_on_misfit && self.device.in_driver() > 0 {
                        break;
                    }
                    begins = false;
                }
                Selection::Sends(queue, charge) => {
                    let why = match () {
                        () if queue == self.in_service && queue == before => Why::TurnGoesOn,
                        () if queue == self.in_service => Why::NextTurn,
                        () => Why::Injected,
                    };
                    return Ok((self.queues.at(queue).pending.next(), queue, charge, why));
                }
                Selection::Idle => break,
            }
            looks_at_time = false;
        }
        Err(self.repoll_later())
    }

    /// Nothing can be dispatched although requests are queued: asks the host to poll again later.
    fn repoll_later(&mut self) -> Dispatch {
        if self.busy.requests() == 0 {
            return Dispatch::Empty;
        }
        self.idling.hold();
        match self.profile.turns.polls {
            Polls::OnCompletion | Polls::Never => {}
            Polls::AfterFirst if self.idling.has_poll() => {}
            Polls::AfterLast | Polls::AfterFirst => self.idling.poll_later(self.clock.ns),
        }
        match self.idling.until() {
            NEVER => Dispatch::Throttled,
            until => Dispatch::Hold { until, reason: Why::WaitsForQueue.into() },
        }
    }

    /// Decides about the turn in service.
    #[inline(never)]
    fn select_next(&mut self, at_time: bool) -> Selection {
        let queue = self.in_service;
        if queue == NIL {
            return Selection::NoQueue;
        }
        if at_time {
            if self.may_end_for_time(queue) && !self.must_idle(queue) {
                return Selection::Ends(TurnEnd::BudgetTimeout);
            }
            if self.settings.bounded_hold && self.is_owed_before(queue) {
                return Selection::Ends(TurnEnd::Preempted);
            }
        }
        if !self.actuators.is_one() {
            let other = self.queue_for_idle_actuator();
            if other != NIL && other != queue {
                return Selection::Sends(other, self.charge(self.queues.at(other).pending.next(), other));
            }
        }
        let state = self.queues.at(queue);
        let next = state.pending.next();
        if next != NIL {
            let charge = self.charge(next, queue);
            if charge > self.budget_left(queue) {
                return Selection::Ends(TurnEnd::BudgetExhausted);
            }
            if self.queues.at(queue).has(Marks::WAIT_REQUEST) {
                self.stop_wait(queue);
            }
            return Selection::Sends(queue, charge);
        }
        if state.has(Marks::WAIT_REQUEST) || (state.dispatched > 0 && self.better_to_idle(queue)) {
            let other = self.choose_for_injection();
            if other == NIL {
                return Selection::Idle;
            }
            return Selection::Sends(other, self.charge(self.queues.at(other).pending.next(), other));
        }
        Selection::Ends(TurnEnd::NoMoreRequests)
    }

    /// False if no queue is next.
    #[inline]
    fn begin_next_turn(&mut self) -> bool {
        let queue = self.take_next_queue();
        if queue == NIL {
            return false;
        }
        self.in_service = queue;
        self.positions.begin_turn();
        self.begin_turn(queue);
        true
    }

    /// With `bounded_hold`, whether the turn in service must end because the queue has had more
    /// than its share while an eligible entity would finish earlier (fixes quirk Q17 of the
    /// specification).
    #[inline(never)]
    pub(super) fn is_owed_before(&self, served: u32) -> bool {
        let mut entity = served;
        while entity != NIL {
            let (other, vtime) = self.schedule.first_eligible_beside(entity);
            if other != NIL && other != entity && self.schedule.is_ahead(entity, vtime) {
                return true;
            }
            entity = self.parent_entity(entity);
        }
        false
    }

    /// Dispatches the request to the device.
    #[inline]
    fn send(&mut self, slot: u32, queue: u32, charge: u32, why: Why) -> Dispatch {
        if slot == NIL {
            self.count_violation();
            return Dispatch::Throttled;
        }
        let is_served = queue == self.in_service;
        let left = self.charge_and_move(slot, queue, charge, is_served);
        self.after_leaving(queue, left);
        if is_served {
            self.update_raising(queue);
            if self.busy.total() > 1 && self.is_idle_class(queue) && self.in_service == queue {
                self.end_turn(queue, TurnEnd::BudgetExhausted, self.clock.ns);
            }
        }
        if self.report.is_on() {
            let busy = u64::from(self.busy.total());
            self.log("dispatch requests: {0} busy queues", &[busy]);
        }
        Dispatch::Request { id: self.slots.at(slot).id, reason: why.into() }
    }

    /// Charges the queue, updates the measurements of its requests and of the peak rate, then moves
    /// the request.
    #[inline(never)]
    fn charge_and_move(&mut self, slot: u32, queue: u32, charge: u32, is_served: bool) -> Left {
        let entry = self.slots.at(slot);
        let (id, extent) = (entry.id, Extent::new(self.first_sector(slot), entry.sectors));
        self.serve(queue, charge);
        if !is_served {
            let served = self.queues.at_mut(self.in_service);
            served.injected_sectors = served.injected_sectors.saturating_add(charge);
        } else {
            self.injection.dispatched(id);
        }
        self.sample_dispatch(extent, is_served);
        self.move_out(slot, queue)
    }

    #[inline(always)]
    fn move_to_device(&mut self, slot: u32, queue: u32) {
        let left = self.move_by_force(slot, queue);
        self.after_leaving(queue, left);
    }

    #[inline(never)]
    fn move_by_force(&mut self, slot: u32, queue: u32) -> Left {
        self.move_out(slot, queue)
    }

    #[inline(always)]
    fn move_out(&mut self, slot: u32, queue: u32) -> Left {
        // The request is counted as in flight before it leaves the queue, so that the queue never
        // appears to have no requests.
        let state = self.queues.at_mut(queue);
        state.dispatched = state.dispatched.wrapping_add(1);
        let left = self.unlink(slot);
        self.enter_device(slot);
        left
    }

    /// Counts a request as in flight, for the device and its group.
    #[inline(always)]
    fn enter_device(&mut self, slot: u32) {
        let entry = self.slots.at_mut(slot);
        entry.held = Held::Dispatched;
        self.groups.at_mut(entry.group).account.serve(entry.counts_as, entry.is_sync, entry.sectors);
        self.actuators.count_in_driver(entry.context, 1);
        self.device.enter();
    }

    /// The first of the requests that the host put in front of everything.
    pub(super) fn next_direct(&mut self) -> Option<Dispatch> {
        let slot = self.order.take_direct()?;
        let entry = self.slots.at(slot);
        let (id, queue) = (entry.id, entry.queue);
        self.groups.at_mut(entry.group).account.unqueue(entry.counts_as, entry.is_sync);
        let state = self.queues.at_mut(queue);
        state.dispatched = state.dispatched.wrapping_add(1);
        self.enter_device(slot);
        Some(Dispatch::Request { id, reason: Why::HeadInsert.into() })
    }

    /// Forced dispatch of all requests: queue by queue in the order of virtual time, without
    /// idling.
    #[inline]
    pub(super) fn drain_next(&mut self) -> Option<u32> {
        if self.in_service != NIL && self.queues.at(self.in_service).is_empty() {
            self.end_turn(self.in_service, TurnEnd::NoMoreRequests, self.clock.ns);
        }
        if self.in_service == NIL {
            let queue = self.first_with_requests()?;
            let slot = self.queues.at(queue).pending.next();
            self.move_to_device(slot, queue);
            return Some(slot);
        }
        let queue = self.in_service;
        let slot = self.queues.at(queue).pending.next();
        if slot == NIL {
            return None;
        }
        self.move_to_device(slot, queue);
        Some(slot)
    }

    fn first_with_requests(&self) -> Option<u32> {
        self.actuators.active_queues().find(|queue| !self.queues.at(*queue).is_empty())
    }
}
