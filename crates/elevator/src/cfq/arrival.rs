//! Arrival of a request: it joins its queue, and its issuer's behaviour is learned.

use super::Cfq;
use super::profile::NoIdle;
use super::state::{Held, Marks, Slot};
use crate::account::Kind;
use crate::request::{Bio, Requests};
use crate::structures::NIL;
use hoistway_block::{Direction, Flags, GroupId, Nanos, RequestId};

/// Where positioning costs time, a longer jump than this is a seek.
const SEEK_ABOVE_SECTORS: u64 = 800;
/// Where it does not, a request shorter than this counts as a "seek".
const SMALL_BELOW_SECTORS: u32 = 64;
/// With this many requests queued at a time, a queue is deep.
const DEEP_REQUESTS: u32 = 4;
/// A page.
const PAGE_SECTORS: u32 = 8;
/// CFQ of 2.6.26 treats a larger mean distance as seeky.
const SEEKY_ABOVE_SECTORS: u64 = 8_192;

impl Cfq {
    /// Adds a request to its queue. Its effect on the active queue is handled last, when the stack
    /// of the earlier steps is free again.
    #[inline]
    pub(super) fn add(&mut self, requests: &Requests, id: RequestId) {
        let request = requests.at(id);
        let bio = &request.attributes;
        let mut queue = self.known_queue(bio);
        if queue == NIL {
            queue = self.queue_for(bio);
            self.free_deferred();
        }
        self.add_to_queue(queue, id, bio, request.start_ns);
        self.announce(queue, id.slot(), bio);
    }

    /// Assigns a queue to a request, adds the request to it, and learns from it.
    #[inline(never)]
    fn add_to_queue(&mut self, queue: u32, id: RequestId, bio: &Bio, start_ns: Nanos) {
        let (slot, is_sync) = (id.slot(), bio.is_sync());
        let context = self.context_index(bio.context);
        let issuer = self.contexts.at_mut(context);
        issuer.inserted = issuer.inserted.wrapping_add(1);
        let priority = issuer.priority;
        let state = self.queues.at_mut(queue);
        state.references.add_request();
        let group = state.group;
        let (due_from, expires_as_sync) = if self.profile.has_one_level {
            (self.clock.ticks().follow(self.clock.now(), start_ns), state.is_sync())
        } else {
            (self.clock.now(), is_sync)
        };
        let favoured = if self.profile.favours_prio { Flags::META.with(Flags::PRIO) } else { Flags::META };
        let is_favoured = bio.flags.intersects(favoured);
        let is_write = bio.direction() == Direction::Write;
        let kind = Kind::of(bio.operation);
        *self.slots.at_mut(slot) = Slot {
            id,
            held: Held::Queued,
            kind,
            is_sync,
            is_favoured,
            is_last: is_write && bio.flags.contains(Flags::SYNC) && !bio.flags.intersects(Flags::IDLE),
            is_in_driver: false,
            queue,
            group,
            context,
            due_ticks: due_from.saturating_add(self.settings.expire(expires_as_sync)),
        };
        self.log_queue(queue, "insert_request", &[]);
        self.refresh_priority(queue, priority);
        let state = self.queues.at_mut(queue);
        let is_linked = self.order.add_to_fifo(state, slot);
        state.favoured = state.favoured.wrapping_add(u32::from(is_favoured));
        if !is_linked {
            self.count_violation();
        }
        self.insert_by_sector(queue, slot, bio.extent.first_sector, is_sync);
        self.load.add_request();
        self.account_arrival(group, kind, is_sync);
        self.learn(queue, context, bio);
    }

    #[inline(always)]
    fn account_arrival(&mut self, group: u32, kind: Kind, is_sync: bool) {
        let (now_ns, is_served) = (self.clock.now_ns(), self.serving.group == group);
        let group = self.groups.at_mut(group);
        group.account.queue(kind, is_sync);
        if let Some(since) = group.empty_since_ns.take() {
            group.account.empty_ns = group.account.empty_ns.wrapping_add(now_ns.saturating_sub(since));
        }
        if !is_served && group.waits_since_ns.is_none() {
            group.waits_since_ns = Some(now_ns);
        }
    }

    /// Updates think time, seek history, and whether the queue is worth idling for.
    #[inline(always)]
    fn learn(&mut self, queue: u32, context: u32, bio: &Bio) {
        let (now, idle) = (self.clock.now(), self.settings.slice_idle_ticks);
        let state = self.queues.at_mut(queue);
        let (is_sync, tree, group) = (state.is_sync(), state.tree, state.group);
        let (first_sector, last_end) = (bio.extent.first_sector, state.seeks.last_end_sector());
        let distance = if last_end == 0 { 0 } else { first_sector.abs_diff(last_end) };
        let is_seek = if self.device.is_rotational() {
            distance > SEEK_ABOVE_SECTORS
        } else {
            bio.extent.sectors < SMALL_BELOW_SECTORS
        };
        state.seeks.record(is_seek, bio.extent.end());
        let is_judged = is_sync && !state.is_idle_class();
        let issuer = self.contexts.at_mut(context);
        if is_sync || !self.profile.has_wide_think_times {
            issuer.think.add(now, idle);
        }
        if self.profile.has_one_level {
            issuer.seek.add(first_sector);
            issuer.seek.last_end_sector = bio.extent.end();
        }
        if self.profile.has_wide_think_times {
            if is_sync && let Some(think) = self.trees.think_mut(tree) {
                think.add(now, idle);
            }
            self.groups.at_mut(group).think.add(now, self.settings.group_idle_ticks);
        }
        if is_judged {
            self.judge_idling(queue, context);
        }
    }

    #[inline(always)]
    fn judge_idling(&mut self, queue: u32, context: u32) {
        let state = self.queues.at_mut(queue);
        if state.pending.total() >= DEEP_REQUESTS {
            state.marks.set(Marks::DEEP);
        }
        let was_worth = state.has(Marks::IDLE_WINDOW);
        let (is_deep, is_seeky, next) = (state.has(Marks::DEEP), state.is_seeky(), state.pending.next());
        let issuer = self.contexts.at(context);
        let is_out = if self.profile.has_one_level {
            self.device.surely_queues() && issuer.seek.mean_sectors > SEEKY_ABOVE_SECTORS
        } else {
            !is_deep && is_seeky
        };
        let is_last = self.profile.no_idle == NoIdle::PerQueue && next != NIL && self.slots.at(next).is_last;
        let idle = self.settings.slice_idle_ticks;
        let is_worth = if is_last || !issuer.is_alive || idle == 0 || is_out {
            false
        } else if issuer.think.is_valid() {
            !issuer.think.is_above(idle)
        } else {
            was_worth
        };
        if is_worth != was_worth {
            self.log_queue(queue, "idle={0}", &[u64::from(is_worth)]);
            let marks = &mut self.queues.at_mut(queue).marks;
            if is_worth {
                marks.set(Marks::IDLE_WINDOW);
            } else {
                marks.clear(Marks::IDLE_WINDOW);
            }
        }
    }

    /// Handles the effect of the new request on the active queue.
    #[inline]
    fn announce(&mut self, queue: u32, slot: u32, bio: &Bio) {
        if self.engine.active != queue {
            if self.should_preempt(queue, slot) {
                self.preempt(queue);
            }
            return;
        }
        if !self.queues.at(queue).has(Marks::WAIT_REQUEST) {
            return;
        }
        // The device was idled for this request. The kernel does not dispatch a small request at
        // once, so that others can be merged into it, and leaves the timer armed meanwhile (quirk
        // Q8 of docs/specifications/cfq.md); here the host has tried to merge before it inserts a request.
        self.cancel_timer();
        let is_small = bio.extent.sectors <= PAGE_SECTORS && self.engine.busy_queues <= 1;
        let marks = &mut self.queues.at_mut(queue).marks;
        marks.clear(Marks::WAIT_REQUEST);
        if is_small {
            marks.set(Marks::MUST_DISPATCH);
        }
    }

    /// Adds a request in front of everything: data of a flush sequence, or one that the driver gave
    /// back.
    pub(super) fn add_at_head(&mut self, requests: &Requests, id: RequestId) {
        let slot = id.slot();
        let entry = self.slots.at_mut(slot);
        if entry.held == Held::Dispatched && entry.id == id {
            entry.held = Held::Head;
        } else {
            let bio = requests.attributes(id);
            *entry = Slot {
                id,
                held: Held::Head,
                kind: Kind::of(bio.operation),
                is_sync: bio.is_sync(),
                queue: NIL,
                group: GroupId::ROOT.0,
                ..super::state::FREE_SLOT
            };
        }
        if !self.order.add_head(slot) {
            self.count_violation();
        }
    }
}
