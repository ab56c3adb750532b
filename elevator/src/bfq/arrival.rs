//! A request comes in: which queue it joins, what is learned from it, and whether a wait is over.

use super::Bfq;
use super::budget::TurnEnd;
use super::profile::IoBound;
use super::state::{Held, Marks, Slot};
use crate::request::Requests;
use crate::structures::NIL;
use block::time::MILLISECOND;
use block::{Flags, Nanos, RequestId};

/// Shorter requests do not end a wait for throughput: others may yet join them.
const SMALL_SECTORS: u32 = 32;
/// What an issuer does is looked at over about twice this.
const IO_WINDOW_NS: Nanos = 200 * MILLISECOND;
/// So many arrivals in time make a queue count as doing nothing but I/O (older forms).
const ENOUGH_ARRIVALS: u32 = 120;

/// What a request found and did in its queue.
#[derive(Copy, Clone, Debug)]
struct Put {
    factor_before: u32,
    is_next_changed: bool,
}

impl Bfq {
    /// An ordinary request, bound to its queue: into it. Phase after phase, so that none of them lies below another on the
    /// stack.
    #[inline]
    pub(super) fn add(&mut self, requests: &Requests, slot: u32) {
        self.redirect(requests, slot);
        self.learn_from_arrival(requests, slot);
        let put = self.put_into_queue(requests, slot);
        let queue = self.slots.at(slot).queue;
        let mut is_interactive = false;
        if self.queues.at(queue).has(Marks::BUSY) {
            self.raise_async(queue, slot, put.factor_before);
            if put.is_next_changed {
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
        if self.settle_arrival(requests, slot, is_interactive || put.factor_before == 1) {
            self.end_turn(queue, TurnEnd::BudgetTimeout, self.clock.ns);
        }
    }

    /// What is left to be noted of a request that is in its queue; whether it comes after a wait that took all the time of
    /// the turn.
    #[inline(never)]
    fn settle_arrival(&mut self, requests: &Requests, slot: u32, is_raising_new: bool) -> bool {
        let entry = *self.slots.at(slot);
        let queue = entry.queue;
        let state = self.queues.at_mut(queue);
        if self.settings.low_latency && (is_raising_new || state.raising.factor == 1) {
            state.raising.since_ticks = self.clock.ticks;
        }
        let due_ns = self.clock.ns.saturating_add(self.settings.fifo_expire_ns(entry.is_sync));
        self.slots.at_mut(slot).due_ns = due_ns;
        if !self.queues.at_mut(queue).fifo.push_back(&mut self.fifo_links, slot) {
            self.complain();
        }
        self.queues.at_mut(queue).last_end_sector = requests.attributes(entry.id).extent.end();
        self.end_wait(queue, slot)
    }

    /// A request that goes before everything; it belongs to a queue all the same.
    pub(super) fn add_direct(&mut self, slot: u32) {
        self.slots.at_mut(slot).held = Held::Direct;
        if !self.direct.push_front(&mut self.fifo_links, slot) {
            self.complain();
        }
        let entry = *self.slots.at(slot);
        self.groups.at_mut(entry.group).account.queued.add(entry.direction, entry.is_sync, 1);
    }

    /// Gives a request its queue, and counts it there and in all groups above.
    #[inline(never)]
    pub(super) fn bind(&mut self, requests: &Requests, id: RequestId, queue: u32) {
        let request = requests.attributes(id);
        let context = self.context_index(request.context);
        *self.slots.at_mut(id.slot()) = Slot {
            id,
            held: Held::Queued,
            direction: request.direction(),
            is_sync: request.is_sync(),
            is_meta: request.flags.contains(Flags::META),
            queue,
            group: self.entities.at(queue).parent,
            context,
            sectors: request.extent.sectors,
            due_ns: 0,
        };
        self.count_allocated(queue, true);
        let issuer = self.contexts.at_mut(context);
        issuer.requests = issuer.requests.wrapping_add(1);
        self.own_if_alone(queue, context);
        self.note_burst(queue);
    }

    /// The queue and all groups above have a request more, or one less.
    pub(super) fn count_allocated(&mut self, queue: u32, is_more: bool) {
        let mut entity = queue;
        while entity != NIL {
            let state = self.entities.at_mut(entity);
            state.allocated = if is_more { state.allocated.wrapping_add(1) } else { state.allocated.saturating_sub(1) };
            entity = self.parent_entity(entity);
        }
    }

    /// The queue is about to be merged into another: the request goes there at once.
    #[inline]
    fn redirect(&mut self, requests: &Requests, slot: u32) {
        let (queue, context) = (self.slots.at(slot).queue, self.slots.at(slot).context);
        if !self.move_to_target(requests, slot) {
            return;
        }
        let is_held_by_it = self.contexts.at(context).queue(self.slots.at(slot).is_sync) == queue;
        if is_held_by_it {
            self.complete_merge(context, queue);
        }
        self.queues.at_mut(queue).marks.clear(Marks::JUST_CREATED);
        self.release_if_unused(queue);
    }

    /// False if there is no other queue to go to.
    #[inline(never)]
    fn move_to_target(&mut self, requests: &Requests, slot: u32) -> bool {
        let entry = *self.slots.at(slot);
        let first_sector = requests.attributes(entry.id).extent.first_sector;
        let target = self.merge_target(entry.queue, entry.context, first_sector);
        if target == NIL {
            return false;
        }
        self.count_allocated(target, true);
        self.slots.at_mut(slot).queue = target;
        self.slots.at_mut(slot).group = self.entities.at(target).parent;
        self.count_allocated(entry.queue, false);
        true
    }

    // ---- what is learned ----

    #[inline(never)]
    fn learn_from_arrival(&mut self, requests: &Requests, slot: u32) {
        let entry = *self.slots.at(slot);
        let (now, most_ns) = (self.clock.ns, self.settings.slice_idle_ns().saturating_mul(2));
        let state = self.queues.at_mut(entry.queue);
        if state.dispatched == 0 && !state.has(Marks::BUSY) {
            state.think.add(now, most_ns);
        }
        self.judge_think_time(entry.queue, entry.context);
        let extent = requests.attributes(entry.id).extent;
        let last_end = self.queues.at(entry.queue).last_end_sector;
        let is_far = self.is_seeky_after(last_end, extent.first_sector, extent.sectors);
        let state = self.queues.at_mut(entry.queue);
        state.seek_history = (state.seek_history << 1) | u32::from(is_far);
        if self.profile.knows_totally_seeky && state.is_raised() && state.is_totally_seeky() {
            self.doubt_soft_real_time(entry.queue);
        }
    }

    fn judge_think_time(&mut self, queue: u32, context: u32) {
        let idle_ns = self.settings.slice_idle_ns();
        let is_alive = self.contexts.at(context).is_alive;
        let state = self.queues.at(queue);
        let (is_idle_class, split_over) =
            (self.is_idle_class(queue), state.split_ticks.wrapping_add(self.spans.least_idle));
        if !state.is_sync() || is_idle_class || idle_ns == 0 || !self.clock.is_past(split_over) {
            return;
        }
        let is_short = is_alive && !state.think.is_above(idle_ns / 2);
        let was_short = state.has(Marks::SHORT_THINK_TIME);
        let barrier = state.inject.decreased_ticks.wrapping_add(self.spans.inject_barrier);
        let begins_anew = state.inject.last_service_ns == 0 && (!is_short || self.clock.is_past_or_now(barrier));
        self.queues.at_mut(queue).marks.put(Marks::SHORT_THINK_TIME, is_short);
        if is_short != was_short && begins_anew {
            self.reset_injection(queue);
        }
    }

    /// How much of its time the queue has nothing to do.
    fn judge_io_bound(&mut self, queue: u32) {
        let now = self.clock.ns;
        let state = self.queues.at_mut(queue);
        let total = now.saturating_sub(state.io_start_ns);
        if state.is_empty() && state.dispatched == 0 {
            state.total_idle_ns = state.total_idle_ns.saturating_add(now.saturating_sub(state.think.last_end_ns));
        }
        if state.has(Marks::JUST_CREATED) {
            return;
        }
        let is_bound = state.total_idle_ns.saturating_mul(5) <= total;
        state.marks.put(Marks::IO_BOUND, is_bound);
        if total > IO_WINDOW_NS {
            state.io_start_ns = now.wrapping_sub(total / 2);
            state.total_idle_ns /= 2;
        }
    }

    // ---- into the queue ----

    #[inline(never)]
    fn put_into_queue(&mut self, requests: &Requests, slot: u32) -> Put {
        let entry = *self.slots.at(slot);
        let queue = entry.queue;
        let factor_before = self.queues.at(queue).raising.factor;
        if self.messages.is_on() {
            let numbers = [u64::from(entry.is_sync)];
            self.say_queue(queue, "add_request {0}", &numbers);
        }
        self.requests_queued = self.requests_queued.wrapping_add(1);
        self.groups.at_mut(entry.group).account.queued.add(entry.direction, entry.is_sync, 1);
        let state = self.queues.at_mut(queue);
        let [asynchronous, sync] = &mut state.queued;
        let queued = if entry.is_sync { sync } else { asynchronous };
        *queued = queued.wrapping_add(1);
        let is_sync_queue = state.is_sync();
        if is_sync_queue && self.contexts.at(entry.context).requests <= 1 {
            self.look_for_waker(queue);
            self.sample_for_injection(queue);
        }
        if is_sync_queue && self.profile.io_bound == IoBound::ShareOfTime {
            self.judge_io_bound(queue);
        }
        let first_sector = requests.attributes(entry.id).extent.first_sector;
        let is_next_changed = self.sort_in(queue, slot, first_sector);
        if is_next_changed {
            self.note_position(queue);
        }
        Put { factor_before, is_next_changed }
    }

    /// Older forms: enough arrivals in time in a row make a queue one that does nothing but I/O.
    pub(super) fn count_arrival_in_time(&mut self, queue: u32, is_in_time: bool) {
        if self.profile.io_bound != IoBound::ArrivalsInTime {
            return;
        }
        let state = self.queues.at_mut(queue);
        state.timely_arrivals = if is_in_time { state.timely_arrivals.saturating_add(1) } else { 0 };
        if state.timely_arrivals >= ENOUGH_ARRIVALS {
            state.marks.set(Marks::IO_BOUND);
        }
    }

    /// A wait for this queue is over, unless others may yet join a small request; whether its turn is so as well.
    fn end_wait(&mut self, queue: u32, slot: u32) -> bool {
        let state = self.queues.at(queue);
        if queue != self.in_service || !state.has(Marks::WAIT_REQUEST) {
            return false;
        }
        let entry = self.slots.at(slot);
        let [asynchronous, sync] = state.queued;
        let of_kind = if entry.is_sync { sync } else { asynchronous };
        let is_small = of_kind == 1 && entry.sectors < SMALL_SECTORS;
        let is_timed_out = self.is_timed_out(queue);
        if is_small && self.idling_boosts_throughput(queue) && !is_timed_out {
            return false;
        }
        self.stop_wait(queue);
        is_timed_out
    }
}
