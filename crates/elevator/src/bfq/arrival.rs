//! Arrival of a request: which queue it joins, what is learned from it, and whether it ends an idle
//! period.

use super::Bfq;
use super::budget::TurnEnd;
use super::clock::Clock;
use super::next_request::is_far_from;
use super::profile::IoBound;
use super::state::{Held, Marks, Queue, Slot};
use crate::account::Kind;
use crate::request::Bio;
use crate::structures::NIL;
use hoistway_block::{Class, Direction, Extent, Flags, GroupId, Nanos, RequestId};

/// A shorter request does not end idling for throughput, because others may still be merged into
/// it.
const SMALL_SECTORS: u32 = 32;

/// The effects of adding a request to its queue.
#[derive(Copy, Clone, Debug)]
struct Insertion {
    factor_before: u32,
    is_next_changed: bool,
    was_busy: bool,
    /// Whether the queue, and with it all its requests, is sync.
    is_sync: bool,
}

/// The result of [`Bfq::join_busy`]: whether a request was added, and the consequences that remain
/// to be handled, as a set of flags.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Joined(u8);

impl Joined {
    /// The request was not added; the general path must handle it.
    pub const NOT: Joined = Joined(1 << 7);
    /// The request was added, without further consequences.
    pub const NO_EFFECT: Joined = Joined(0);
    /// The injection limit of the queue must be learned again.
    const RESETS_INJECTION: Joined = Joined(1 << 0);
    /// The request's issuer has no other request for the same actuator.
    const ONLY_REQUEST: Joined = Joined(1 << 1);
    /// The request is the next one of its queue, and the queue is not in service.
    const IS_NEXT: Joined = Joined(1 << 2);

    #[inline]
    const fn has(self, other: Joined) -> bool {
        self.0 & other.0 != 0
    }

    #[inline]
    const fn with(self, other: Joined) -> Joined {
        Joined(self.0 | other.0)
    }
}

/// Discards count as writes.
#[inline]
const fn kind_of(bio: &Bio) -> Kind {
    match bio.direction() {
        Direction::Read => Kind::Read,
        Direction::Write => Kind::Write,
    }
}

impl Queue {
    /// Updates whether the issuer has a short think time, compared with the idle time granted to
    /// it, or with half of it. True if this invalidates what injection has learned. `idle_ns` is 0 if
    /// there is no idling.
    #[inline(always)]
    fn judge_think_time(&mut self, is_alive: bool, idle_ns: Nanos, think_shift: u8, clock: &Clock) -> bool {
        let is_short = is_alive && !self.think.is_above(idle_ns >> think_shift);
        if is_short == self.has(Marks::SHORT_THINK_TIME) || idle_ns == 0 {
            return false;
        }
        if !clock.is_past(self.split_ticks.wrapping_add(clock.spans.least_idle)) {
            return false;
        }
        self.marks.put(Marks::SHORT_THINK_TIME, is_short);
        let barrier = self.inject.decreased_ticks.wrapping_add(clock.spans.inject_barrier);
        self.inject.last_service_ns == 0 && (!is_short || clock.is_past_or_now(barrier))
    }

    /// Records whether the request is far from the one before (seekiness).
    #[inline(always)]
    fn note_place(&mut self, extent: Extent, near_sectors: u32) {
        let is_far = is_far_from(self.seeks.last_end_sector(), extent, near_sectors);
        self.seeks.record(is_far, extent.end());
    }

    /// Updates the queue's share of idle time; called when a request is about to be added.
    #[inline(always)]
    fn judge_io_bound(&mut self, clock: &Clock) {
        // A queue's `last_end_ns` is initially 1 ns in the future (quirk Q8). Therefore a queue that
        // a batch created does not count as I/O bound until it has been idle once (quirk Q18).
        if self.is_empty() && self.dispatched == 0 {
            self.bound.add_idle(clock.since(self.think.last_end_ns));
        }
        if self.has(Marks::JUST_CREATED) {
            return;
        }
        let is_bound = self.bound.judge(clock);
        self.marks.put(Marks::IO_BOUND, is_bound);
    }
}

impl Bfq {
    /// [`Bfq::bind`] and [`Bfq::add`] for the frequent case of a sync request that only needs to be
    /// inserted and learned from: its queue is its issuer's own, is busy and not idled for, and
    /// messages are off. Each table is accessed once. Rare consequences are left to
    /// [`Bfq::settle_joined`]. Only valid if [`Bfq::cannot_merge`] is true.
    #[inline(never)]
    pub(super) fn join_busy(&mut self, bio: &Bio, id: RequestId) -> Joined {
        let context = self.actuators.record_of(bio);
        let skips_early_merge = self.skips_early_merge();
        let Some(issuer) = self.contexts.get_mut(context) else { return Joined::NOT };
        let is_known = issuer.is_alive & (issuer.group == bio.group.0) & (issuer.priority == bio.priority);
        let queue = issuer.queue(true);
        let Some(state) = self.queues.get_mut(queue) else { return Joined::NOT };
        let is_plain = state.marks.of(Marks::DECISIVE) == Marks::BUSY.with(Marks::SYNC);
        if !(is_known & is_plain & bio.is_sync()) || self.report.is_on() {
            return Joined::NOT;
        }
        let may_merge = state.users.is_to_merge() || (!skips_early_merge && issuer.stable_candidate != NIL);
        // With this request, a queue whose weight is raised as soft real-time may have to lose
        // that.
        let may_fall_back = state.is_raised() && state.raising.longest_ticks == self.clock.spans.soft_real_time_ticks;
        let slot = id.slot();
        let Some(entry) = self.slots.get_mut(slot) else { return Joined::NOT };
        if may_merge || may_fall_back || entry.held != Held::Nowhere || entry.queue != NIL {
            return Joined::NOT;
        }
        let entity = self.schedule.entity_mut(queue);
        entity.allocated = entity.allocated.wrapping_add(1);
        let (group, is_idle_class) = (entity.parent, matches!(entity.class, Class::Idle));
        let (now, counts_as) = (self.clock.ns, kind_of(bio));
        let kind = Slot::kind(true, bio.flags.contains(Flags::META));
        *entry = Slot {
            id,
            held: Held::Queued,
            counts_as,
            is_sync: true,
            kind,
            queue,
            group,
            context,
            sectors: bio.extent.sectors,
            due_ns: now.saturating_add(self.settings.fifo_expire_ns(true)),
        };
        issuer.requests = issuer.requests.wrapping_add(1);
        state.own_if_sole_user(queue, context);
        let idle_ns = if is_idle_class { 0 } else { self.settings.slice_idle_ns() };
        let mut joined = Joined::NO_EFFECT;
        if state.judge_think_time(true, idle_ns, self.profile.behaviour.think_shift, &self.clock) {
            joined = joined.with(Joined::RESETS_INJECTION);
        }
        if issuer.requests <= 1 {
            joined = joined.with(Joined::ONLY_REQUEST);
        }
        state.note_place(bio.extent, self.profile.behaviour.near_sectors);
        state.pending.count_in(true);
        if self.profile.behaviour.io_bound == IoBound::ShareOfTime {
            state.judge_io_bound(&self.clock);
        }
        if self.settings.low_latency && !state.is_raised() {
            state.raising.since_ticks = self.clock.ticks;
        }
        self.groups.at_mut(group).account.queue(counts_as, true);
        self.busy.add_request();
        if group != GroupId::ROOT.0 {
            self.count_allocated_above(group, 1);
        }
        if self.insert_by_sector(queue, slot, bio.extent.first_sector, kind) {
            self.note_position(queue);
            if queue != self.in_service {
                joined = joined.with(Joined::IS_NEXT);
            }
        }
        joined
    }

    /// Handles the rare consequences of a request that joined a busy queue.
    #[inline(never)]
    pub(super) fn settle_joined(&mut self, bio: &Bio, joined: Joined) {
        let context = self.actuators.record_of(bio);
        let queue = self.contexts.at(context).queue(true);
        if joined.has(Joined::RESETS_INJECTION) {
            self.reset_injection(queue);
        }
        if joined.has(Joined::ONLY_REQUEST) && self.is_its_only_request(context) {
            self.detect_waker(queue);
            self.sample_for_injection(queue);
        }
        if joined.has(Joined::IS_NEXT) {
            self.next_request_changed(queue);
        }
    }

    /// Adds an ordinary request to its queue, or to the queue that its queue is merged into. The
    /// phases run one after another, so that their stack frames do not add up.
    #[inline(always)]
    pub(super) fn add(&mut self, bio: &Bio, id: RequestId, bound_to: u32, context: u32) {
        let slot = id.slot();
        let (queue, insertion) = if self.has_no_merge_target(bound_to, context) {
            (bound_to, self.bind_and_add(bio, id, bound_to, context))
        } else {
            self.bind(bio, id, bound_to, context);
            let queue = self.redirect(bio, slot);
            (queue, self.add_to_queue_outlined(bio, slot, queue, context))
        };
        if insertion.is_sync && self.is_its_only_request(context) {
            self.detect_waker(queue);
            self.sample_for_injection(queue);
        }
        let mut is_interactive = false;
        if insertion.was_busy {
            if insertion.factor_before == 1 && !bio.is_sync() {
                self.raise_async(queue);
            }
            if insertion.is_next_changed {
                self.next_request_changed(queue);
            }
        } else {
            let comes = self.prepare_busy(queue, slot);
            is_interactive = comes.is_interactive;
            self.enter_busy(queue);
            if self.ends_turn_in_service(queue, comes.wants_preempt) {
                self.end_turn(self.in_service, TurnEnd::Preempted, self.clock.ns);
            }
        }
        let state = self.queues.at_mut(queue);
        if self.settings.low_latency && (is_interactive || insertion.factor_before == 1 || state.raising.factor == 1) {
            state.raising.since_ticks = self.clock.ticks;
        }
        let is_waited_for = queue == self.in_service && state.has(Marks::WAIT_REQUEST);
        if is_waited_for && self.end_wait(queue, slot) {
            self.end_turn(queue, TurnEnd::BudgetTimeout, self.clock.ns);
        }
    }

    /// Adds a request that is dispatched before all queues; it is counted in its issuer's queue
    /// nevertheless.
    pub(super) fn add_direct(&mut self, slot: u32) {
        self.slots.at_mut(slot).held = Held::Direct;
        if !self.order.add_direct(slot) {
            self.count_violation();
        }
    }

    /// Assigns a queue to a request, and counts the request in the queue and all its groups.
    #[inline(never)]
    pub(super) fn bind(&mut self, bio: &Bio, id: RequestId, queue: u32, context: u32) {
        self.bind_here(bio, id, queue, context);
    }

    #[inline(never)]
    fn bind_and_add(&mut self, bio: &Bio, id: RequestId, queue: u32, context: u32) -> Insertion {
        self.bind_here(bio, id, queue, context);
        self.add_to_queue(bio, id.slot(), queue, context)
    }

    /// [`Bfq::bind`], inlined into its callers.
    #[inline(always)]
    fn bind_here(&mut self, bio: &Bio, id: RequestId, queue: u32, context: u32) {
        let is_sync = bio.is_sync();
        let counts_as = kind_of(bio);
        let group = self.count_allocated(queue, 1);
        self.groups.at_mut(group).account.queue(counts_as, is_sync);
        *self.slots.at_mut(id.slot()) = Slot {
            id,
            held: Held::Queued,
            counts_as,
            is_sync,
            kind: Slot::kind(is_sync, bio.flags.contains(Flags::META)),
            queue,
            group,
            context,
            sectors: bio.extent.sectors,
            due_ns: self.clock.ns.saturating_add(self.settings.fifo_expire_ns(is_sync)),
        };
        let issuer = self.contexts.at_mut(context);
        issuer.requests = issuer.requests.wrapping_add(1);
        let state = self.queues.at_mut(queue);
        state.own_if_sole_user(queue, context);
        if state.has(Marks::JUST_CREATED) {
            self.note_burst(queue);
        }
    }

    /// Adds `more` requests to the counts of the queue and all its groups (modulo 2^32, so that it
    /// may be -1). Returns the queue's group.
    #[inline]
    pub(super) fn count_allocated(&mut self, queue: u32, more: u32) -> u32 {
        let state = self.schedule.entity_mut(queue);
        state.allocated = state.allocated.wrapping_add(more);
        let group = state.parent;
        if group != GroupId::ROOT.0 {
            self.count_allocated_above(group, more);
        }
        group
    }

    #[inline(always)]
    fn count_allocated_above(&mut self, group: u32, more: u32) {
        let mut above = group;
        while above != GroupId::ROOT.0 {
            let state = self.schedule.entity_mut(self.queues.len().wrapping_add(above));
            state.allocated = state.allocated.wrapping_add(more);
            above = state.parent;
        }
    }

    /// If the queue is about to be merged into another, the request goes to that one at once.
    /// Returns the queue it goes to.
    #[inline]
    fn redirect(&mut self, bio: &Bio, slot: u32) -> u32 {
        let (queue, context) = (self.slots.at(slot).queue, self.slots.at(slot).context);
        if !self.move_to_target(bio, slot) {
            return queue;
        }
        let is_held_by_it = self.contexts.at(context).queue(bio.is_sync()) == queue;
        if is_held_by_it {
            self.complete_merge(context, queue);
        }
        self.queues.at_mut(queue).marks.clear(Marks::JUST_CREATED);
        self.release_if_unused(queue);
        self.slots.at(slot).queue
    }

    /// Moves a request to the queue that its own is to be merged into; false if there is none.
    #[inline(never)]
    fn move_to_target(&mut self, bio: &Bio, slot: u32) -> bool {
        let entry = *self.slots.at(slot);
        let target = self.merge_target(entry.queue, entry.context, bio.extent.first_sector);
        if target == NIL {
            return false;
        }
        let group = self.count_allocated(target, 1);
        self.groups.at_mut(entry.group).account.unqueue(entry.counts_as, entry.is_sync);
        self.groups.at_mut(group).account.queue(entry.counts_as, entry.is_sync);
        let moved = self.slots.at_mut(slot);
        (moved.queue, moved.group) = (target, group);
        self.count_allocated(entry.queue, 1_u32.wrapping_neg());
        true
    }

    #[inline(never)]
    fn add_to_queue_outlined(&mut self, bio: &Bio, slot: u32, queue: u32, context: u32) -> Insertion {
        self.add_to_queue(bio, slot, queue, context)
    }

    /// Learns from a request, and adds it to the orders of its queue. Inlined into its callers.
    #[inline(always)]
    fn add_to_queue(&mut self, bio: &Bio, slot: u32, queue: u32, context: u32) -> Insertion {
        self.learn_from_arrival(bio, queue, context);
        if self.report.is_on() {
            self.log_queue(queue, "add_request {0}", &[u64::from(bio.is_sync())]);
        }
        self.busy.add_request();
        let state = self.queues.at_mut(queue);
        state.pending.count_in(bio.is_sync());
        let (factor_before, was_busy) = (state.raising.factor, state.has(Marks::BUSY));
        let is_sync = state.is_sync();
        if is_sync && self.profile.behaviour.io_bound == IoBound::ShareOfTime {
            state.judge_io_bound(&self.clock);
        }
        let kind = Slot::kind(bio.is_sync(), bio.flags.contains(Flags::META));
        let is_next_changed = self.insert_by_sector(queue, slot, bio.extent.first_sector, kind);
        if is_next_changed {
            self.note_position(queue);
        }
        Insertion { factor_before, is_next_changed, was_busy, is_sync }
    }

    // ---- learning ----

    #[inline(always)]
    fn learn_from_arrival(&mut self, bio: &Bio, queue: u32, context: u32) {
        let (now, idle_ns) = (self.clock.ns, self.settings.slice_idle_ns());
        let is_alive = self.contexts.at(context).is_alive;
        let is_idle_class = self.is_idle_class(queue);
        let state = self.queues.at_mut(queue);
        if state.dispatched == 0 && !state.has(Marks::BUSY) {
            state.think.add(now, idle_ns.saturating_mul(2));
        }
        let idle_ns = if is_idle_class || !state.is_sync() { 0 } else { idle_ns };
        let begins_anew = state.judge_think_time(is_alive, idle_ns, self.profile.behaviour.think_shift, &self.clock);
        state.note_place(bio.extent, self.profile.behaviour.near_sectors);
        let is_soft = state.is_raised() && state.raising.longest_ticks == self.clock.spans.soft_real_time_ticks;
        let is_doubtful = self.profile.behaviour.has_totally_seeky && is_soft && state.seeks.were_all_far();
        if begins_anew {
            self.reset_injection(queue);
        }
        if is_doubtful {
            // A queue whose recent requests were all far apart is not soft real-time.
            self.end_soft_real_time(queue);
        }
    }

    /// Older forms: enough consecutive arrivals in time make a queue count as I/O bound.
    pub(super) fn count_arrival_in_time(&mut self, queue: u32, is_in_time: bool) {
        if self.profile.behaviour.io_bound != IoBound::ArrivalsInTime {
            return;
        }
        let state = self.queues.at_mut(queue);
        if state.bound.count_arrival(is_in_time) {
            state.marks.set(Marks::IO_BOUND);
        }
    }

    /// Ends the idling for this queue, unless other requests may still be merged into a small one.
    /// True if the queue's turn is over as well.
    #[inline(never)]
    fn end_wait(&mut self, queue: u32, slot: u32) -> bool {
        let state = self.queues.at(queue);
        let entry = self.slots.at(slot);
        let is_small = state.pending.count(entry.is_sync) == 1 && entry.sectors < SMALL_SECTORS;
        let is_timed_out = self.is_timed_out(queue);
        if is_small && self.idling_boosts_throughput(queue) && !is_timed_out {
            return false;
        }
        self.stop_wait(queue);
        is_timed_out
    }
}
