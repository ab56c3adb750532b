//! Queue merging: one queue for issuers that take turns in reading one stream (early queue merge),
//! and for issuers that were created together (stable merge).
//!
//! A merge is scheduled first: `merges_into` is set, and the issuers that will use the target are
//! counted in it at once. Each issuer then moves to the target with its next request.

use super::Bfq;
use super::contexts::SPARE_QUEUE;
use super::positions::CLOSE_SECTORS;
use super::state::{Marks, Raising, Saved};
use crate::structures::NIL;
use hoistway_block::Class;

impl Bfq {
    /// Whether early merging, and the position index that it needs, are not used: flash that queues
    /// commands reorders well enough.
    #[inline]
    pub(super) fn skips_early_merge(&self) -> bool {
        self.profile.merging.skips_queueing_flash && self.device.flash_queues()
    }

    fn merges_too_late(&self, queue: u32) -> bool {
        let state = self.queues.at(queue);
        if !self.profile.merging.young_only {
            let raised_for_long = self.clock.is_past(state.raising.since_ticks.wrapping_add(self.clock.spans.merge));
            return state.is_raised() && raised_for_long;
        }
        state.pace.is_served_for(self.clock.spans.merge, &self.clock)
    }

    /// Whether no early merge is possible: it is switched off, or fewer than two queues have a
    /// position.
    #[inline(always)]
    pub(super) fn cannot_merge(&self) -> bool {
        self.skips_early_merge() || self.busy.total() <= 1
    }

    /// Whether a search for a merge target is known to find nothing: see [`Bfq::merge_target`].
    #[inline]
    pub(super) fn has_no_merge_target(&self, queue: u32, context: u32) -> bool {
        let is_unplanned = !self.queues.at(queue).users.is_to_merge();
        let is_far_from_it = self.skips_early_merge()
            || (self.contexts.at(context).stable_candidate == NIL
                && (self.busy.total() <= 1 || self.merges_too_late(queue)));
        is_unplanned && is_far_from_it
    }

    /// The queue that an issuer's next request goes to instead of its own, or NIL.
    #[inline(never)]
    pub(super) fn merge_target(&mut self, queue: u32, context: u32, first_sector: u64) -> u32 {
        let end = self.end_of_chain(queue);
        if end != queue {
            return end;
        }
        if !self.skips_early_merge() {
            let candidate = self.ripe_candidate(queue, context);
            if candidate != NIL {
                return self.merge_late(queue, context, candidate);
            }
        }
        let found = self.close_queue(queue, first_sector);
        if found == NIL { NIL } else { self.schedule_merge(queue, found) }
    }

    /// The queue that a bio would go to instead of `queue`, or NIL. Used when a bio may be merged
    /// into a request; changes nothing.
    pub(super) fn present_target(&self, queue: u32, first_sector: u64) -> u32 {
        let end = self.end_of_chain(queue);
        if end != queue {
            return end;
        }
        let found = self.close_queue(queue, first_sector);
        if found == NIL || self.schedulable(queue, found).is_none() { queue } else { self.end_of_chain(found) }
    }

    /// The end of a chain of scheduled merges; the queue itself if none is scheduled.
    fn end_of_chain(&self, queue: u32) -> u32 {
        let mut at = queue;
        for _ in 0..self.queues.len() {
            let next = self.queues.at(at).users.merges_into();
            if next == NIL {
                break;
            }
            at = next;
        }
        at
    }

    /// Another queue whose position is near, or NIL: the one in service, or the nearest in the
    /// group.
    fn close_queue(&self, queue: u32, first_sector: u64) -> u32 {
        if self.skips_early_merge() || queue == SPARE_QUEUE || self.merges_too_late(queue) || self.busy.total() <= 1 {
            return NIL;
        }
        let served = self.in_service;
        let place =
            if self.profile.merging.young_only { self.positions.last_in_turn() } else { self.positions.last_sector() };
        let is_other = served != NIL && served != queue && served != SPARE_QUEUE;
        if is_other
            && first_sector.abs_diff(place) <= CLOSE_SECTORS
            && self.schedule.entity(served).parent == self.schedule.entity(queue).parent
            && self.may_merge_queues(queue, served)
        {
            return served;
        }
        let of_group = &self.groups.at(self.schedule.entity(queue).parent).positions;
        let near = self.positions.nearest(of_group, first_sector);
        if near != NIL && near != queue && self.may_merge_queues(queue, near) { near } else { NIL }
    }

    fn may_merge_queues(&self, queue: u32, other: u32) -> bool {
        let (state, target) = (self.queues.at(queue), self.queues.at(other));
        let (class, target_class) = (self.schedule.entity(queue).class, self.schedule.entity(other).class);
        !self.merges_too_late(other)
            && class == target_class
            && state.actuator == target.actuator
            && !matches!(class, Class::Idle)
            && !state.is_seeky(self.profile.behaviour.seeky_above)
            && !target.is_seeky(self.profile.behaviour.seeky_above)
            && state.is_sync()
            && target.is_sync()
    }

    /// The final target of a merge into `other`; `None` if the merge is not possible.
    fn schedulable(&self, queue: u32, other: u32) -> Option<u32> {
        if self.queues.at(other).process_references() == 0 {
            return None;
        }
        let end = self.end_of_chain(other);
        let is_possible = end != queue
            && self.queues.at(queue).process_references() > 0
            && self.queues.at(end).process_references() > 0
            && self.schedule.entity(queue).parent == self.schedule.entity(end).parent;
        is_possible.then_some(end)
    }

    /// Schedules a merge of a queue into another; NIL if it is not possible.
    fn schedule_merge(&mut self, queue: u32, other: u32) -> u32 {
        let Some(end) = self.schedulable(queue, other) else { return NIL };
        let users = self.queues.at(queue).users.count();
        self.queues.at_mut(queue).users.schedule_merge(end);
        self.queues.at_mut(end).users.join(users);
        self.log_queue(queue, "scheduling merge with queue {0}", &[u64::from(end)]);
        end
    }

    /// Moves an issuer to the queue that its own is merged into.
    #[inline]
    pub(super) fn complete_merge(&mut self, context: u32, queue: u32) -> u32 {
        let mut at = queue;
        for _ in 0..self.queues.len() {
            let next = self.queues.at(at).users.merges_into();
            if next == NIL {
                break;
            }
            self.merge_one_step(context, at, next);
            // This issuer was counted in the target when the merge was scheduled.
            self.drop_one_process(at);
            at = next;
        }
        at
    }

    #[inline(never)]
    fn merge_one_step(&mut self, context: u32, queue: u32, target: u32) {
        self.log_queue(queue, "merging with queue {0}", &[u64::from(target)]);
        self.save_state(queue);
        self.save_state(target);
        if self.queues.at(queue).has(Marks::IO_BOUND) {
            self.queues.at_mut(target).marks.set(Marks::IO_BOUND);
        }
        self.queues.at_mut(queue).marks.clear(Marks::IO_BOUND);
        let is_inherited = self.queues.inherit_waker(queue, target);
        self.expect(is_inherited);
        self.transfer_raising(queue, target);
        self.set_sync_queue(context, target);
        let merged = self.queues.at_mut(target);
        merged.marks.set(Marks::COOP);
        merged.users.share();
        self.queues.at_mut(queue).users.share();
        let group = self.groups.at_mut(self.schedule.entity(queue).parent);
        if group.last_created == queue {
            group.last_created = target;
        }
        self.log_queue(target, "merge_bfqqs: wr_busy {0}", &[u64::from(self.busy.raised())]);
    }

    fn transfer_raising(&mut self, queue: u32, target: u32) {
        let raising = self.queues.at(queue).raising;
        if raising.factor == 1 {
            return;
        }
        if !self.queues.at(target).is_raised() {
            let state = self.queues.at_mut(target);
            state.raising = Raising { service_sectors: state.raising.service_sectors, ..raising };
            let is_busy = state.has(Marks::BUSY);
            if is_busy {
                self.busy.change_raised(true);
            }
            self.schedule.entity_mut(target).is_prio_changed = true;
        }
        let state = self.queues.at_mut(queue);
        state.raising.factor = 1;
        let was_busy = state.has(Marks::BUSY);
        if was_busy {
            self.busy.change_raised(false);
        }
        self.schedule.entity_mut(queue).is_prio_changed = true;
    }

    // ---- stable merge ----

    /// A sync queue was just created: one of the same group and level that was created shortly
    /// before is likely to belong to the same job. True if the new queue is to be merged into that
    /// one at once.
    #[inline(never)]
    pub(super) fn plan_stable_merge(&mut self, context: u32, queue: u32) -> bool {
        let entity = *self.schedule.entity(queue);
        let last = self.groups.at(entity.parent).last_created;
        let state = self.queues.at(queue);
        let (level, actuator, created) = (state.level, state.actuator, state.created_ticks);
        let other = self.queues.at(last);
        let is_akin = last != NIL
            && other.level == level
            && other.actuator == actuator
            && self.schedule.entity(last).class == entity.class
            && self.schedule.entity(last).parent == entity.parent
            && !is_before(other.created_ticks.wrapping_add(self.clock.spans.stable_merge), created);
        if !is_akin {
            self.groups.at_mut(entity.parent).last_created = queue;
            return false;
        }
        if is_before(other.created_ticks.wrapping_add(self.clock.spans.burst), created) {
            return false;
        }
        if !self.device.flash_queues() {
            self.queues.at_mut(last).users.add_candidate();
            self.drop_stable_candidate(context);
            self.contexts.at_mut(context).stable_candidate = last;
            return false;
        }
        let owner = self.queues.at(last).users.owner();
        if self.schedule_merge(queue, last) == NIL {
            return false;
        }
        self.mark_stably_merged(context);
        self.mark_stably_merged(owner);
        self.queues.at_mut(queue).users.own(context);
        true
    }

    fn mark_stably_merged(&mut self, context: u32) {
        if let Some(context) = self.contexts.get_mut(context) {
            context.is_stably_merged = true;
        }
    }

    /// The candidate for a stable merge once it is time to decide; NIL before.
    fn ripe_candidate(&self, queue: u32, context: u32) -> u32 {
        let candidate = self.contexts.at(context).stable_candidate;
        let state = self.queues.at(queue);
        let is_ripe = |since: u64| self.clock.is_past(since.wrapping_add(self.clock.spans.stable_merge));
        let is_due = candidate != NIL
            && state.is_sync()
            && !state.has(Marks::JUST_CREATED)
            && is_ripe(state.split_ticks)
            && is_ripe(state.created_ticks);
        if is_due { candidate } else { NIL }
    }

    fn merge_late(&mut self, queue: u32, context: u32, candidate: u32) -> u32 {
        let (users, others) =
            (self.queues.at(queue).process_references(), self.queues.at(candidate).process_references());
        let boosts = self.idling_boosts_throughput(queue);
        let mut target = NIL;
        if !boosts && users > 0 && others > 0 && candidate != queue {
            let owner = self.queues.at(candidate).users.owner();
            target = self.schedule_merge(queue, candidate);
            self.mark_stably_merged(context);
            if target != NIL {
                self.mark_stably_merged(owner);
            }
        }
        self.drop_stable_candidate(context);
        target
    }

    pub(super) fn drop_stable_candidate(&mut self, context: u32) {
        let context = self.contexts.at_mut(context);
        let candidate = core::mem::replace(&mut context.stable_candidate, NIL);
        if candidate != NIL {
            self.queues.at_mut(candidate).users.drop_candidate();
            self.release_if_unused(candidate);
        }
    }

    // ---- splitting ----

    /// The issuers of a shared queue no longer read one stream: this issuer gets a queue of its own
    /// again.
    #[inline]
    pub(super) fn split(&mut self, context: u32, queue: u32) -> u32 {
        if self.splits_alone(context, queue) {
            return queue;
        }
        let waker = self.queues.at(queue).waking.waker();
        self.leave_sync_queue_here(context);
        let fresh = self.get_queue(context, true);
        if fresh != SPARE_QUEUE {
            self.init_split_queue(context, fresh, waker);
        }
        fresh
    }

    /// True if all other issuers have left: the queue then belongs to this issuer again.
    #[inline(never)]
    fn splits_alone(&mut self, context: u32, queue: u32) -> bool {
        self.log_queue(queue, "splitting queue", &[]);
        let is_in_large_burst = self.queues.at(queue).has(Marks::IN_LARGE_BURST);
        if let Some(saved) = &mut self.contexts.at_mut(context).saved {
            saved.in_large_burst |= is_in_large_burst;
        }
        let state = self.queues.at_mut(queue);
        if state.process_references() != 1 || state.users.is_to_merge() {
            return false;
        }
        state.marks.clear(Marks::COOP);
        state.marks.clear(Marks::SPLIT_COOP);
        self.queues.at_mut(queue).own_if_sole_user(queue, context);
        self.resume_state(queue, context);
        true
    }

    #[inline(never)]
    fn init_split_queue(&mut self, context: u32, fresh: u32, waker: u32) {
        self.return_to_burst(fresh, context);
        let is_still_there = waker != NIL && self.queues.at(waker).has(Marks::USED);
        if is_still_there && waker != fresh {
            let is_joined = self.queues.join_waker(fresh, waker);
            self.expect(is_joined);
        }
        self.queues.at_mut(fresh).own_if_sole_user(fresh, context);
        self.resume_state(fresh, context);
    }

    fn return_to_burst(&mut self, queue: u32, context: u32) {
        let saved = self.contexts.at(context).saved;
        let (was_in_list, was_in_large) =
            saved.map_or((false, false), |saved| (saved.was_in_burst_list, saved.in_large_burst));
        let now = self.clock.ticks;
        let is_large = self.burst.is_large();
        let state = self.queues.at_mut(queue);
        state.split_ticks = now;
        if was_in_large || (was_in_list && is_large) {
            state.marks.set(Marks::IN_LARGE_BURST);
        } else if was_in_list {
            self.burst.list(queue);
        }
    }

    /// Saves the state of a queue for its owner.
    fn save_state(&mut self, queue: u32) {
        let state = self.queues.at(queue);
        let owner = state.users.owner();
        if owner == NIL {
            return;
        }
        let in_large_burst = state.has(Marks::IN_LARGE_BURST);
        let mut raising = state.raising;
        if state.has(Marks::JUST_CREATED) && !in_large_burst && self.settings.low_latency {
            // The queue was merged before it could be raised.
            raising = self.interactive_from_now();
        }
        let state = self.queues.at(queue);
        let saved = Saved {
            weight: self.schedule.entity(queue).original_weight,
            raising,
            think: state.think,
            has_short_think_time: state.has(Marks::SHORT_THINK_TIME),
            is_io_bound: state.has(Marks::IO_BOUND),
            io_window: state.bound.window(),
            in_large_burst,
            was_in_burst_list: self.burst.lists(queue),
            inject: state.inject,
        };
        self.contexts.at_mut(owner).saved = Some(saved);
    }

    fn resume_state(&mut self, queue: u32, context: u32) {
        // Borrowed in place: a copy is too large for a kernel stack.
        let Some(saved) = &self.contexts.at(context).saved else { return };
        let factor_before = self.queues.at(queue).raising.factor;
        let state = self.queues.at_mut(queue);
        state.marks.put(Marks::SHORT_THINK_TIME, saved.has_short_think_time);
        state.marks.put(Marks::IO_BOUND, saved.is_io_bound);
        state.think = saved.think;
        state.bound.set_window(saved.io_window);
        state.inject = saved.inject;
        if self.settings.low_latency {
            state.raising = saved.raising;
        }
        let (is_busy, in_large_burst) = (state.has(Marks::BUSY), state.has(Marks::IN_LARGE_BURST));
        if self.profile.merging.saves_weight {
            self.schedule.entity_mut(queue).new_weight = saved.weight;
        }
        self.end_stale_raising(queue, in_large_burst);
        self.schedule.entity_mut(queue).is_prio_changed = true;
        let is_raised = self.queues.at(queue).is_raised();
        if is_busy && is_raised != (factor_before > 1) {
            self.busy.change_raised(is_raised);
        }
    }

    fn end_stale_raising(&mut self, queue: u32, in_large_burst: bool) {
        let raising = self.queues.at(queue).raising;
        let is_over = self.clock.is_past(raising.since_ticks.wrapping_add(raising.longest_ticks));
        if raising.factor == 1 || !(in_large_burst || is_over) {
            return;
        }
        let interactive_until = raising.before_soft_real_time_ticks.wrapping_add(self.raising_ticks());
        let is_soft = raising.longest_ticks == self.clock.spans.soft_real_time_ticks;
        if is_soft && !in_large_burst && !self.clock.is_past(interactive_until) {
            self.be_interactive_again(queue);
        } else {
            self.queues.at_mut(queue).raising.factor = 1;
            self.log_queue(queue, "resume state: switching off wr", &[]);
        }
    }

    // ---- position index ----

    /// The queue's next request has changed: updates its place in the position index, if it may be
    /// merged at all.
    #[inline(always)]
    pub(super) fn note_position(&mut self, queue: u32) {
        if !self.skips_early_merge() {
            self.change_position(queue);
        }
    }

    #[inline(never)]
    fn change_position(&mut self, queue: u32) {
        let (is_listed, is_late) = (self.positions.holds(queue), self.merges_too_late(queue));
        if (is_listed || !is_late) && !(is_listed && !is_late && self.update_lone_position(queue)) {
            self.renew_position(queue);
        }
    }

    /// Updates the position of a queue that is the only one in its group's index. Faster than
    /// [`Bfq::renew_position`], with the same result.
    #[inline]
    fn update_lone_position(&mut self, queue: u32) -> bool {
        let next = self.queues.at(queue).pending.next();
        let entity = self.schedule.entity(queue);
        let (group, is_idle) = (entity.parent, matches!(entity.class, Class::Idle));
        let Some(first_sector) = self.order.sector_of(next) else { return false };
        let positions = &mut self.groups.at_mut(group).positions;
        !is_idle && self.positions.move_lone(positions, queue, first_sector)
    }

    #[inline(never)]
    fn renew_position(&mut self, queue: u32) {
        self.forget_position(queue);
        let next = self.queues.at(queue).pending.next();
        let is_idle = self.is_idle_class(queue);
        if queue == SPARE_QUEUE || next == NIL || is_idle || self.merges_too_late(queue) {
            return;
        }
        let first_sector = self.first_sector(next);
        let group = self.schedule.entity(queue).parent;
        let positions = &mut self.groups.at_mut(group).positions;
        if !self.positions.add(positions, queue, first_sector) {
            self.count_violation();
        }
    }

    #[inline(never)]
    pub(super) fn forget_position(&mut self, queue: u32) {
        if self.positions.holds(queue) {
            let group = self.schedule.entity(queue).parent;
            let positions = &mut self.groups.at_mut(group).positions;
            self.positions.remove(positions, queue);
        }
    }
}

#[inline]
const fn is_before(one: u64, other: u64) -> bool {
    other.wrapping_sub(one).cast_signed() > 0
}
