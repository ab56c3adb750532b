//! The host's calls: paternoster's implementation of `Elevator`.

use super::age::OVERDUE_EVERY;
use super::choose::{Decision, OVERDUE_NS};
use super::classes::REAL_TIME_RUN_COUNT;
use super::meter::Done;
use super::*;
use crate::order::Place;
use crate::traits::Passing;
use hoistway_block::time::MILLISECOND;
use hoistway_block::{Direction, Priority};

/// Weight of a request without a priority: that of level 4.
const WITHOUT_LEVEL: u32 = 40;

/// Requests of a group that leads are cut to 32 KiB, or to the size of the requests of those that it
/// leads: theirs then wait for at most that much per request in flight. 32 KiB is the smallest size at
/// which the calibrated flash models deliver 98 % of their bandwidth with 31 in flight (link
/// fragmentation and interleaving, RFC 1990, section 1).
const QUANTUM_SECTORS: u32 = 64;
/// How long after it last led a group counts as one that leads. It bridges the pauses of a laggard
/// that thinks between requests for as long as people take no notice.
const LED_NS: Nanos = 100 * MILLISECOND;

/// While tenants compete, neighbouring requests on flash are merged up to 128 KiB only, which take
/// 0.44 ms at 300 MB/s (SATA with 3 Gbit/s). For so long a tenant that lags may wait for one.
const MERGED_SECTORS: u32 = 256;

/// The weight of an issuer by its best-effort level: 80, 70, ... 10.
fn weight_of(priority: Priority) -> u32 {
    if priority == Priority::NONE {
        return WITHOUT_LEVEL;
    }
    match priority.class() {
        Class::BestEffort if priority.0 >> 13 == 0 => WITHOUT_LEVEL,
        _ => 80_u32.saturating_sub(u32::from(priority.level()).saturating_mul(10)).max(10),
    }
}

impl Elevator for Paternoster {
    /// Shares are exact only where they cost little, so no bound on service can be promised. The
    /// idle class has no promise: it waits for as long as others are queued.
    const TRAITS: Traits = Traits {
        schedules_writeback: true,
        quantum_sectors: QUANTUM_SECTORS,
        passing: Passing::Aged { after_ns: OVERDUE_NS, completions: OVERDUE_EVERY, run: REAL_TIME_RUN_COUNT },
        ..Traits::TAG_SHARES
    };

    /// Tags are shared by group once half of them are taken; an eighth is kept for newcomers.
    fn admit(&self, bio: &Bio, _now: Nanos) -> Admission {
        self.shares.admission(bio.group, self.depth.requests, self.depth.requests / 2, self.depth.requests / 8)
    }

    fn allocated(&mut self, requests: &Requests, id: RequestId, _now: Nanos) {
        self.shares.count(requests.attributes(id).group, true);
    }

    fn freed(&mut self, requests: &Requests, id: RequestId, _now: Nanos) {
        self.shares.count(requests.attributes(id).group, false);
    }

    /// A request holds transfers of one issuer only: otherwise one would pay for another.
    fn may_merge(&self, requests: &Requests, id: RequestId, bio: &Bio) -> bool {
        let request = requests.attributes(id);
        let is_of_one = request.is_sync() == bio.is_sync() && (!bio.is_sync() || request.context == bio.context);
        let sectors = request.extent.sectors.saturating_add(bio.extent.sectors);
        let is_alone = self.is_rotational || self.order.tenants() < 2;
        let most = if is_alone { u32::MAX } else { MERGED_SECTORS };
        is_of_one && sectors <= most.min(self.longest_sectors(bio, self.now))
    }

    fn longest_sectors(&self, bio: &Bio, now: Nanos) -> u32 {
        let led = if self.is_rotational { None } else { self.order.led_cost(bio, now.saturating_sub(LED_NS)) };
        led.map_or(u32::MAX, |sectors| sectors.max(QUANTUM_SECTORS))
    }

    fn bio_merged(&mut self, requests: &Requests, id: RequestId, _side: Side, now: Nanos) {
        self.now = now;
        self.note_merged(requests, id);
    }

    fn requests_merged(&mut self, requests: &Requests, keep: RequestId, gone: RequestId, now: Nanos) {
        self.now = now;
        self.note_merged(requests, keep);
        if self.is_in(gone, State::Queued) {
            self.take_out(gone.slot());
        }
    }

    fn insert(&mut self, requests: &Requests, id: RequestId, at: Position, now: Nanos) -> Wake {
        self.insert_at(id, requests.attributes(id), !matches!(at, Position::Sorted(_)), now)
    }

    fn insert_new(&mut self, _requests: &Requests, id: RequestId, attributes: &Bio, now: Nanos) -> Wake {
        self.insert_at(id, attributes, false, now)
    }

    fn choose(&mut self, _requests: &Requests, _queue: HardwareQueue, now: Nanos) -> Dispatch {
        self.now = now;
        self.hold = Hold::No;
        match self.next_of_sole() {
            Some(slot) => self.send(slot, Why::InOrder),
            None => self.choose_among(),
        }
    }

    fn drain(&mut self, _requests: &Requests, now: Nanos) -> Option<RequestId> {
        self.now = now;
        if let Some(id) = self.next_direct() {
            return Some(id);
        }
        let slot = self.classes.real_time().or(self.by_age.oldest()).or(self.classes.idle())?;
        match self.send(slot, Why::InOrder) {
            Dispatch::Request { id, .. } => Some(id),
            _ => None,
        }
    }

    fn has_work(&self, _queue: HardwareQueue) -> bool {
        self.classes.has_direct() || (self.queued > 0 && self.hold == Hold::No)
    }

    fn requeued(&mut self, _requests: &Requests, id: RequestId, now: Nanos) -> Wake {
        self.now = now;
        if self.is_in(id, State::InFlight) {
            self.leave_device(id, false);
        }
        self.wake_up()
    }

    fn completed(&mut self, _requests: &Requests, id: RequestId, now: Nanos) -> Wake {
        self.now = now;
        if self.is_in(id, State::InFlight) {
            self.leave_device(id, true);
            self.by_age.completed();
        }
        self.wake_up()
    }

    fn released(&mut self, _requests: &Requests, id: RequestId, now: Nanos) -> Wake {
        self.now = now;
        let slot = id.slot();
        if self.slots.at(slot).id != id {
            return Wake::No;
        }
        if self.slots.at(slot).state == State::InFlight {
            self.leave_device(id, false);
        } else {
            self.unqueue(slot);
        }
        self.wake_up()
    }

    fn completed_and_released(&mut self, _requests: &Requests, id: RequestId, now: Nanos) -> Wake {
        self.now = now;
        match self.slots.get_mut(id.slot()) {
            Some(slot) if slot.id == id && slot.state == State::InFlight => {
                slot.state = State::Nowhere;
                let slot = *slot;
                self.left_device(slot, true);
                self.by_age.completed();
                self.wake_up()
            }
            Some(slot) if slot.id == id => {
                self.unqueue(id.slot());
                self.wake_up()
            }
            _ => self.wake_up(),
        }
    }

    fn next_timer(&self) -> Option<Nanos> {
        if let Hold::Until(at) = self.hold { Some(at) } else { None }
    }

    fn timer(&mut self, _requests: &Requests, now: Nanos) -> Wake {
        self.now = now;
        if matches!(self.hold, Hold::Until(at) if is_due(now, at)) { self.wake_up() } else { Wake::No }
    }

    fn context_exited(&mut self, context: ContextId, now: Nanos) -> Wake {
        self.now = now;
        self.order.context_exited(context.0);
        self.wake_up()
    }

    fn group_added(&mut self, group: GroupId, settings: &GroupSettings, now: Nanos) {
        self.now = now;
        if group != GroupId::ROOT {
            self.order.group_added(group, settings.parent, settings.clamped_weight());
            self.shares.group_added(group, settings.parent, settings.clamped_weight());
            self.tallies.clear(group.0);
        }
    }

    fn group_changed(&mut self, group: GroupId, settings: &GroupSettings, now: Nanos) -> Wake {
        self.now = now;
        if group != GroupId::ROOT {
            self.order.group_changed(group, settings.clamped_weight());
            self.shares.group_changed(group, settings.clamped_weight());
            // Where no tenant was held back, one may be due more now.
            self.controller.restart();
            self.slices.compare_again();
        }
        Wake::No
    }

    fn depth_changed(&mut self, depth: Depth) {
        self.depth = depth;
        self.controller.restart();
        let _ = self.wake_up();
    }

    fn reasons(&self) -> &'static [&'static str] {
        Why::NAMES
    }

    fn tunables(&self) -> &'static [Tunable] {
        Settings::ROWS
    }

    fn setting(&self, index: usize) -> Option<i64> {
        if index == GIVE { Some(i64::from(self.give())) } else { self.settings.get(index) }
    }

    fn set(&mut self, index: usize, value: i64) -> Result<(), SettingError> {
        self.settings.set(index, value)?;
        self.is_give_set |= index == GIVE;
        self.controller.set_give(self.give());
        self.guard = LatencyGuard::NONE;
        self.slices.set_length(self.settings.slice_ns.unsigned_abs());
        self.set_patience();
        let _ = self.wake_up();
        Ok(())
    }

    fn group_account(&self, group: GroupId) -> Option<GroupAccount> {
        self.tallies.account(group.0)
    }

    fn reset_group_account(&mut self, group: GroupId, _now: Nanos) -> bool {
        self.tallies.reset(group.0)
    }

    fn take_message(&mut self) -> Option<Message> {
        self.messages.take()
    }

    fn trace(&mut self, on: bool) {
        self.messages.switch(on);
    }

    fn violations(&self) -> u32 {
        self.violations.saturating_add(self.order.violations())
    }

    fn check(&self, requests: &Requests) -> Result<(), Violation> {
        let must = |holds: bool, what, at| if holds { Ok(()) } else { Err(Violation { what, at }) };
        let count = |state| u32::try_from(self.slots.iter().filter(|slot| slot.state == state).count()).unwrap_or(0);
        must(count(State::Queued) == self.queued, "queued requests are counted", self.queued)?;
        must(
            self.by_age.len().wrapping_add(self.classes.len()) == self.queued,
            "every queued request is in a list",
            self.by_age.len(),
        )?;
        must(
            count(State::InFlight) == self.in_flight.requests,
            "requests in flight are counted",
            self.in_flight.requests,
        )?;
        let in_flight = self.slots.iter().filter(|slot| slot.state == State::InFlight);
        let sectors: u64 = in_flight.map(|slot| u64::from(slot.sectors)).sum();
        must(sectors == u64::from(self.in_flight.sectors), "sectors in flight are counted", self.in_flight.requests)?;
        for slot in self.slots.iter().filter(|slot| slot.state == State::Queued) {
            let extent = requests.attributes(slot.id).extent;
            must(slot.sectors == extent.sectors, "a request's length is known", slot.id.slot())?;
            let place = self.slices.sector(slot.id.slot()).unwrap_or(extent.first_sector);
            must(place == extent.first_sector, "a request is sorted by its first sector in its sweep", slot.id.slot())?;
        }
        self.shares.check()?;
        self.order.check(requests, |slot| {
            let slot = self.slots.at(slot);
            (slot.state == State::InFlight && slot.queue != NIL).then_some(slot.queue)
        })
    }
}

impl Paternoster {
    /// Inserts a request; `is_direct` if it goes in front of everything.
    #[inline(always)]
    fn insert_at(&mut self, id: RequestId, bio: &Bio, is_direct: bool, now: Nanos) -> Wake {
        self.now = now;
        let slot = id.slot();
        if self.slots.get(slot).is_none_or(|slot| slot.state != State::Nowhere) {
            self.count_violation();
            return Wake::No;
        }
        if self.in_flight.requests == 0 && self.queued == 0 {
            self.meter.resumed(now, self.returning.residence_ns());
            self.slices.resumed(now);
        }
        let (is_read, is_sync) = (bio.direction() == Direction::Read, bio.is_sync());
        let class = if is_direct { Class::RealTime } else { bio.class() };
        let (state, queue) = match class {
            Class::BestEffort => {
                let place = Place { is_shared: !is_sync, weight: weight_of(bio.priority) };
                (State::Queued, self.queue_up(bio, slot, place))
            }
            _ => (self.queue_of_class(class, slot, is_direct), NIL),
        };
        let group = if is_direct { GroupId::ROOT } else { bio.group };
        let tally = Tallies::number(group.0, is_read, is_sync);
        *self.slots.at_mut(slot) =
            Slot { id, state, class, is_read, is_sync, tally, sectors: bio.extent.sectors, queue, since_ns: now };
        let tally = self.tallies.at_mut(tally);
        tally.queued = tally.queued.wrapping_add(1);
        self.wake_up()
    }

    /// Puts a best-effort request into the order and the list by age. Returns its queue.
    #[inline(always)]
    fn queue_up(&mut self, bio: &Bio, slot: u32, place: Place) -> u32 {
        let was_sole = self.order.is_sole();
        let queue = self.order.insert(bio, slot, place, false, self.now);
        let is_aged = self.by_age.push(slot);
        self.must(queue.is_some() && is_aged);
        let queue = queue.unwrap_or(NIL);
        if !self.order.is_sole() {
            if was_sole {
                // The meter was not updated while only one issuer was active.
                self.meter.resumed(self.now, 0);
            }
            if self.order.queued(queue) == 1 {
                self.meter.in_flight_until(self.now, self.committed_bytes());
                self.returning.came();
            }
        }
        self.slices.insert(queue, slot, bio.extent.first_sector);
        self.queued = self.queued.wrapping_add(1);
        queue
    }

    #[inline(never)]
    fn queue_of_class(&mut self, class: Class, slot: u32, is_direct: bool) -> State {
        let is_in = if is_direct {
            self.classes.push_direct(slot)
        } else {
            self.queued = self.queued.wrapping_add(1);
            self.classes.push(class, slot)
        };
        self.must(is_in);
        if is_direct { State::Direct } else { State::Queued }
    }

    fn note_merged(&mut self, requests: &Requests, id: RequestId) {
        if self.is_in(id, State::Queued) {
            let extent = requests.attributes(id).extent;
            let entry = self.slots.at_mut(id.slot());
            entry.sectors = extent.sectors;
            let tally = self.tallies.at_mut(entry.tally);
            tally.merged = tally.merged.wrapping_add(1);
            self.slices.move_to(self.order.queue_of(id.slot()), id.slot(), extent.first_sector);
        }
    }

    /// A request that is not in flight is released.
    #[inline(never)]
    fn unqueue(&mut self, slot: u32) {
        let Slot { state, tally, .. } = *self.slots.at(slot);
        match state {
            State::Nowhere | State::InFlight => {}
            State::Queued => self.take_out(slot),
            State::Direct => {
                self.slots.at_mut(slot).state = State::Nowhere;
                let queued = &mut self.tallies.at_mut(tally).queued;
                *queued = queued.wrapping_sub(1);
                let is_out = self.classes.remove_direct(slot);
                self.must(is_out);
            }
        }
    }

    /// Removes a queued request that was not chosen: merged into another, or released.
    #[inline(never)]
    fn take_out(&mut self, slot: u32) {
        let entry = self.slots.at_mut(slot);
        entry.state = State::Nowhere;
        let (tally, class) = (entry.tally, entry.class);
        let queued = &mut self.tallies.at_mut(tally).queued;
        *queued = queued.wrapping_sub(1);
        self.queued = self.queued.wrapping_sub(1);
        if class == Class::BestEffort {
            self.slices.remove(self.order.queue_of(slot), slot);
            self.order.take(slot);
            let is_out = self.by_age.remove(slot);
            self.must(is_out);
        } else {
            self.unlink_of_class(class, slot);
        }
    }

    /// Apart from `choose`, so that a sole issuer's request needs no stack frame on its way.
    #[inline(never)]
    fn choose_among(&mut self) -> Dispatch {
        if let Some(id) = self.next_direct() {
            return Dispatch::Request { id, reason: Why::HeadInsert.into() };
        }
        if self.queued == 0 {
            return Dispatch::Empty;
        }
        match self.choose_any() {
            Decision::Send(slot, why) => self.send(slot, why),
            Decision::Answer(answer) => answer,
        }
    }

    #[inline]
    fn next_direct(&mut self) -> Option<RequestId> {
        if self.classes.has_direct() { self.pop_direct() } else { None }
    }

    #[inline(never)]
    fn pop_direct(&mut self) -> Option<RequestId> {
        let slot = self.classes.pop_direct()?;
        let now = self.now;
        let entry = self.slots.at_mut(slot);
        entry.state = State::InFlight;
        let came_ns = core::mem::replace(&mut entry.since_ns, now);
        let (id, tally, sectors) = (entry.id, entry.tally, entry.sectors);
        self.enter_device(tally, sectors, came_ns);
        Some(id)
    }

    fn leave_device(&mut self, id: RequestId, is_done: bool) {
        let entry = self.slots.at_mut(id.slot());
        entry.state = State::Nowhere;
        let slot = *entry;
        self.left_device(slot, is_done);
    }

    /// The device finished a request, or gave it back.
    #[inline(always)]
    fn left_device(&mut self, slot: Slot, is_done: bool) {
        let now = self.now;
        let Slot { queue, sectors, tally, since_ns, .. } = slot;
        let is_sole = self.order.is_sole();
        if !is_sole {
            self.meter.in_flight_until(now, self.committed_bytes());
        }
        self.in_flight.remove(Work::of(sectors));
        if queue != NIL {
            self.order.left_device(queue, now);
        }
        if !is_done {
            return;
        }
        let stayed_ns = now.saturating_sub(since_ns);
        let service_ns = &mut self.tallies.at_mut(tally).service_ns;
        *service_ns = service_ns.wrapping_add(stayed_ns);
        if !is_sole || self.is_rotational || self.settings.lat_ns != 0 {
            self.learn(&slot, stayed_ns);
        }
    }

    /// Learns from a completed request how the device behaves.
    fn learn(&mut self, slot: &Slot, stayed_ns: Nanos) {
        let (now, queue) = (self.now, slot.queue);
        let work = Work::of(slot.sectors);
        let comes_back = queue != NIL && self.order.queued(queue) == 0;
        self.returning.completed(now, stayed_ns, comes_back.then_some(work));
        let is_lagging = queue != NIL && !self.leaders.has(queue);
        let done = Done { work, is_write: !slot.is_read, is_lagging };
        self.meter.completed(now, done, self.returning.residence_ns());
        self.slices.completed(queue, done, now);
        if self.settings.lat_ns != 0 && slot.is_read && slot.is_sync {
            self.guard.learn(stayed_ns, self.settings.lat_ns.unsigned_abs(), self.depth.device);
        }
    }
}
