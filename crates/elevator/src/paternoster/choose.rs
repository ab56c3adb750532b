//! The choice: which request is dispatched next, or what the device waits for.

use super::controller::{Phase, UNLIMITED};
use super::*;
use crate::order::{Lead, Standing};
use hoistway_block::time::{MILLISECOND, SECOND};

/// Every request is charged at least 4 KiB.
pub(super) const LEAST_SECTORS: u32 = 8;
/// A request of the idle class is dispatched after this time at the latest.
const IDLE_WAITS_NS: Nanos = 5 * SECOND;
const IDLE_LOOKS_NS: Nanos = 2 * MILLISECOND;
/// After this time a request is dispatched out of order.
pub(super) const OVERDUE_NS: Nanos = 30 * SECOND;
/// On disks and arrays a tenant may lead by this many times what it has in flight. The others may
/// lag only because the one disk that they need is busy, and waiting for them would leave the other
/// disks idle.
const LEAD_ON_DISKS: u64 = 2;
/// The dithered window is kept for this many residence times. A narrower one for a shorter period would
/// hold no leader back.
const DITHER_RESIDENCES: u64 = 2;

/// The result of a choice.
pub(super) enum Decision {
    Send(u32, Why),
    Answer(Dispatch),
}

impl Paternoster {
    pub(super) fn cost(&self, sectors: u32) -> u64 {
        u64::from(if self.settings.fair == 1 { LEAST_SECTORS } else { sectors.max(LEAST_SECTORS) })
    }

    /// The next request of a sole issuer, if nothing else needs to be considered.
    pub(super) fn next_of_sole(&self) -> Option<u32> {
        let is_plain = !self.is_rotational && self.settings.lat_ns == 0 && !self.classes.go_first();
        if is_plain && self.order.is_sole() { self.order.head_of_sole() } else { None }
    }

    #[inline(always)]
    pub(super) fn choose_any(&mut self) -> Decision {
        self.end_epoch_if_due();
        self.step_slices();
        if let Some(slot) = self.classes.next_real_time(!self.order.is_empty()) {
            return Decision::Send(slot, Why::RealTime);
        }
        if let Some(slot) = self.overdue() {
            return Decision::Send(slot, Why::Overdue);
        }
        let answer = if self.slices.are_on() { self.choose_in_slices() } else { self.choose_in_order() };
        match answer {
            Some(answer) => answer,
            None => self.others(),
        }
    }

    /// Start-time fair queueing: a queue that leads an active sibling waits, unless its
    /// request fits into the window.
    #[inline(never)]
    fn choose_in_order(&mut self) -> Option<Decision> {
        let queue = self.order.first()?;
        let slot = self.order.head(queue)?;
        let cost = self.cost(self.slots.at(slot).sectors);
        if self.guard.is_full(self.in_flight.requests) {
            return Some(Decision::Answer(self.hold(None)));
        }
        let by_in_flight = if self.is_rotational { LEAD_ON_DISKS } else { 0 };
        let lead = Lead { sectors: cost, by_in_flight, extra: self.still_owed() };
        let standing = self.order.standing(queue, lead, self.now);
        if standing == Standing::InOrder {
            if self.controller.is_reference() {
                self.leaders.note(queue, true);
            } else if self.controller.is_repaying() && self.leaders.has(queue) {
                // It leads by no more than is still allowed, so it was not found to lead.
                self.order.still_leads(queue, self.now);
            }
            return Some(Decision::Send(slot, Why::InOrder));
        }
        self.order.note_leader(self.now);
        self.meter.contended(self.now, self.order.tenants());
        let window_bytes = if self.slices.are_free() { UNLIMITED } else { self.controller.window_bytes() };
        if self.is_within(window_bytes, slot) {
            if self.controller.is_reference() || self.slices.are_free() {
                self.leaders.note(queue, false);
            }
            if self.controller.is_reference() && self.controller.phase() == Phase::Exact {
                self.repayment.record_lead(self.order.lead());
            } else {
                // Bounds the lag of a tenant that cannot use its share: to what is in flight now.
                self.order.bound_lag(queue, u64::from(self.in_flight.sectors).max(cost));
            }
            return Some(Decision::Send(slot, Why::InWindow));
        }
        if self.repayment.forgive() {
            self.order.bound_lag(queue, cost);
            return Some(Decision::Send(slot, Why::InOrder));
        }
        let returns_ns = self.returning.until_ns();
        Some(match standing {
            Standing::AheadUntil(until) => Decision::Answer(self.hold(Some(until))),
            _ if window_bytes > 0 && self.returning.count(self.now).requests > 0 => {
                Decision::Answer(self.hold(Some(returns_ns)))
            }
            _ => Decision::Answer(self.hold(None)),
        })
    }

    /// The lead that is allowed while leaders repay what they gained in the last reference epoch.
    fn still_owed(&self) -> u64 {
        if !self.controller.is_repaying() {
            return 0;
        }
        let (_, length_ns) = self.controller.setting();
        self.repayment.allowed(self.now.saturating_sub(self.meter.begins_ns()), length_ns)
    }

    /// Whether a leader's request fits into the window beside what is in flight or about to return.
    fn is_within(&mut self, window_bytes: u32, slot: u32) -> bool {
        if window_bytes == UNLIMITED {
            return true;
        }
        let period_ns = self.returning.residence_ns().saturating_mul(DITHER_RESIDENCES);
        let work_bytes = Work::of(self.slots.at(slot).sectors).bytes(self.controller.price_bytes());
        let part_bytes = self.dither.part_of(work_bytes, self.now, period_ns);
        self.returning.count(self.now);
        self.committed_bytes().saturating_add(part_bytes) < u64::from(window_bytes)
    }

    /// Work in flight or about to return. The choice, the meter and the controller count the same:
    /// if the controller set windows by less than the choice compares with them, a reference epoch would
    /// hold leaders as a held one does, and a loss would not be seen.
    pub(super) fn committed_bytes(&self) -> u64 {
        let mut all = self.returning.expected();
        all.add(self.in_flight);
        all.bytes(self.controller.price_bytes())
    }

    pub(super) fn hold(&mut self, until: Option<Nanos>) -> Dispatch {
        self.hold = until.map_or(Hold::Open, Hold::Until);
        match until {
            Some(until) => Dispatch::Hold { until, reason: Why::Laggard.into() },
            None => Dispatch::Throttled,
        }
    }

    /// The oldest request, if it has waited so long that order no longer matters.
    fn overdue(&mut self) -> Option<u32> {
        let (slots, now) = (&self.slots, self.now);
        self.by_age.overdue(|slot| now.saturating_sub(slots.at(slot).since_ns) >= OVERDUE_NS)
    }

    /// Chooses if no best-effort request is queued: a real-time request, which was only passed over
    /// because a run of them had ended, otherwise one of the idle class.
    fn others(&mut self) -> Decision {
        if let Some(slot) = self.classes.real_time() {
            return Decision::Send(slot, Why::RealTime);
        }
        let Some(first) = self.classes.idle() else { return Decision::Answer(Dispatch::Empty) };
        let waited_ns = self.now.saturating_sub(self.slots.at(first).since_ns);
        if self.in_flight.requests == 0 || waited_ns >= IDLE_WAITS_NS {
            return Decision::Send(first, Why::Idle);
        }
        self.hold = Hold::Until(self.now.saturating_add(IDLE_LOOKS_NS));
        Decision::Answer(Dispatch::Throttled)
    }

    /// Dispatches the request to the device.
    #[inline(never)]
    pub(super) fn send(&mut self, slot: u32, why: Why) -> Dispatch {
        let now = self.now;
        let entry = self.slots.at_mut(slot);
        if entry.state != State::Queued {
            self.count_violation();
            return Dispatch::Throttled;
        }
        entry.state = State::InFlight;
        let came_ns = core::mem::replace(&mut entry.since_ns, now);
        let Slot { id, class, sectors, tally, .. } = *entry;
        self.queued = self.queued.wrapping_sub(1);
        if class == Class::BestEffort {
            let cost = self.cost(sectors);
            self.by_age.remove(slot);
            let queue = self.order.serve(slot, cost);
            self.slices.sent(queue, slot, cost);
        } else {
            self.unlink_of_class(class, slot);
        }
        self.enter_device(tally, sectors, came_ns);
        Dispatch::Request { id, reason: why.into() }
    }

    pub(super) fn enter_device(&mut self, tally: u32, sectors: u32, came_ns: Nanos) {
        let now = self.now;
        if !self.order.is_sole() {
            self.meter.in_flight_until(now, self.committed_bytes());
        }
        self.in_flight.add(Work::of(sectors));
        let tally = self.tallies.at_mut(tally);
        tally.queued = tally.queued.wrapping_sub(1);
        tally.wait_ns = tally.wait_ns.wrapping_add(now.saturating_sub(came_ns));
        tally.serviced = tally.serviced.wrapping_add(1);
        tally.bytes = tally.bytes.wrapping_add(u64::from(sectors) << 9);
    }

    pub(super) fn unlink_of_class(&mut self, class: Class, slot: u32) {
        let is_out = self.classes.remove(class, slot);
        self.must(is_out);
    }

    /// Ends the epoch if it is over; called with every choice.
    #[inline(always)]
    fn end_epoch_if_due(&mut self) {
        if !self.controller.learns() {
            return;
        }
        let (is_measured, length_ns) = self.controller.setting();
        if self.meter.is_over(self.now, is_measured, length_ns, self.returning.residence_ns()) {
            self.end_epoch();
        }
    }

    #[inline(never)]
    fn end_epoch(&mut self) {
        let epoch = self.meter.epoch();
        let was_repaying = self.controller.is_repaying();
        let before = (self.controller.phase(), self.controller.restarts());
        self.controller.step(epoch, self.jitter.next());
        self.meter.begin(self.now, self.in_flight.requests);
        if was_repaying {
            self.repayment.end();
        }
        if self.messages.is_on() {
            let phase = match self.controller.phase() {
                Phase::Exact => 0,
                Phase::Search => 1,
                Phase::Track => 2,
                Phase::Free => 3,
            };
            let window = u64::from(self.controller.learned_window_bytes());
            let loss = self.controller.loss().cast_unsigned();
            let n = u64::from(epoch.window_bytes);
            self.tell(
                "epoch phase={0} window={1} loss={2i}/65536 used={3} ns={4} price={5}",
                [phase, window, loss, n, epoch.ns, u64::from(self.controller.price_bytes())],
            );
            if before.1 != self.controller.restarts() {
                self.tell("restart {0}", [u64::from(self.controller.restarts())]);
            }
        }
    }
}
