//! Which queue is served: the active queue as long as it has requests or is worth idling for, then
//! the next group, workload and queue.

use super::Cfq;
use super::expire::Rest;
use super::state::{Marks, Queue, WorkloadType};
use crate::structures::NIL;
use hoistway_block::{Class, GroupId};

/// The result of the selection.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Selected {
    Queue(u32),
    /// No queue is served now: the device is idled.
    Waiting(Waits),
}

/// Until when no queue is served.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Waits {
    /// Until the next request of the active queue or its group arrives, or the timer fires.
    Timer,
    /// Until the active queue's requests in flight complete.
    Completion,
    /// Until the requests in flight of the active queue's group complete.
    Group,
}

/// What to do with the active queue.
enum Verdict {
    Keep,
    Wait(Waits),
    /// Its turn is over; the cooperator is next, if there is one.
    Over(u32),
}

impl Cfq {
    /// Selects the queue to dispatch from. Requests must be queued. Inline, so that ending a turn
    /// does not add a stack frame.
    #[inline(always)]
    pub(super) fn select_queue(&mut self) -> Selected {
        let verdict =
            if self.engine.active == NIL { Verdict::Over(NIL) } else { self.judge_active(self.engine.active) };
        self.carry_out(verdict)
    }

    /// Selects the queue to dispatch from by the rules of CFQ of 2.6.26.
    #[inline(always)]
    pub(super) fn select_at_first(&mut self) -> Selected {
        let verdict =
            if self.engine.active == NIL { Verdict::Over(NIL) } else { self.judge_at_first(self.engine.active) };
        self.carry_out(verdict)
    }

    #[inline(always)]
    fn carry_out(&mut self, verdict: Verdict) -> Selected {
        let active = self.engine.active;
        let mut next = match verdict {
            Verdict::Keep => return Selected::Queue(active),
            Verdict::Wait(what) => return Selected::Waiting(what),
            Verdict::Over(cooperator) => cooperator,
        };
        if active != NIL {
            self.expire(active, Rest::Forgotten);
        }
        if next == NIL {
            next = self.next_queue();
        }
        if next == NIL {
            self.count_violation();
            return Selected::Waiting(Waits::Completion);
        }
        self.set_active(next);
        Selected::Queue(next)
    }

    #[inline(never)]
    fn judge_active(&mut self, active: u32) -> Verdict {
        let queue = self.queues.at(active);
        let (is_empty, in_device, marks) = (queue.is_empty(), queue.dispatched > 0, queue.marks);
        if marks.has(Marks::WAIT_BUSY) && !is_empty {
            // The queue was kept beyond its slice only until it had a request again, because its
            // group would have left the order.
            return Verdict::Over(NIL);
        }
        if self.is_slice_used(active) && !marks.has(Marks::MUST_DISPATCH) {
            let is_only = self.groups.at(queue.group).busy_queues == 1;
            if is_only && is_empty && in_device && self.should_idle(active) {
                return Verdict::Wait(Waits::Completion);
            }
            return self.judge_group(active);
        }
        if !is_empty {
            return Verdict::Keep;
        }
        if let Some(cooperator) = self.close_cooperator(active) {
            if !self.queues.at(active).references.is_to_merge() {
                self.arrange_merger(active, cooperator);
            }
            return Verdict::Over(cooperator);
        }
        if self.engine.timer_at.is_some() {
            return Verdict::Wait(Waits::Timer);
        }
        if self.profile.has_wide_think_times {
            self.forgive_deep_seeks(active);
        }
        if in_device && self.should_idle(active) {
            return Verdict::Wait(Waits::Completion);
        }
        self.judge_group(active)
    }

    /// What to do with an empty active queue that is the only one of its group: it keeps the device
    /// while the group has requests in flight.
    fn judge_group(&self, active: u32) -> Verdict {
        let idle = self.settings.group_idle_ticks;
        let group = self.groups.at(self.queues.at(active).group);
        let is_kept = self.profile.has_iops_mode
            && idle > 0
            && group.busy_queues == 1
            && group.dispatched > 0
            && !(self.profile.has_wide_think_times && group.think.is_above(idle));
        if is_kept { Verdict::Wait(Waits::Group) } else { Verdict::Over(NIL) }
    }

    fn judge_at_first(&self, active: u32) -> Verdict {
        let queue = self.queues.at(active);
        if self.is_slice_used(active) {
            Verdict::Over(NIL)
        } else if !queue.is_empty() {
            Verdict::Keep
        } else if self.engine.timer_at.is_some() {
            Verdict::Wait(Waits::Timer)
        } else if queue.dispatched > 0 && queue.has(Marks::IDLE_WINDOW) {
            Verdict::Wait(Waits::Completion)
        } else {
            Verdict::Over(NIL)
        }
    }

    /// Difference D20 of docs/specifications/cfq.md: a device that serves a deep seeky queue in less than
    /// half of its slice is faster than the queue can feed it, so the device is no longer idled for
    /// the queue.
    fn forgive_deep_seeks(&mut self, active: u32) {
        let now = self.clock.now();
        let queue = self.queues.at_mut(active);
        let is_early = queue.has(Marks::SLICE_NEW) || queue.slice.is_early(now);
        if queue.is_seeky() && queue.has(Marks::IDLE_WINDOW) && is_early {
            queue.marks.clear(Marks::DEEP);
            queue.marks.clear(Marks::IDLE_WINDOW);
        }
    }

    /// The first queue of the workload that is served next, or NIL.
    #[inline(never)]
    fn next_queue(&mut self) -> u32 {
        if !self.profile.has_one_level {
            self.choose_group();
            let index = self.tree_index(self.serving.group, self.serving.class, self.serving.kind);
            return self.trees.first(index).unwrap_or(NIL);
        }
        let group = if self.profile.is_below_a_layer() { self.serving.group } else { GroupId::ROOT.0 };
        for class in [Class::RealTime, Class::BestEffort, Class::Idle] {
            if let Some(first) = self.trees.first(self.tree_index(group, class, WorkloadType::Sync)) {
                return first;
            }
        }
        NIL
    }

    #[inline(never)]
    pub(super) fn set_active(&mut self, queue: u32) {
        if !self.profile.has_one_level {
            let numbers = [u64::from(super::state::class_number(self.serving.class)), self.serving.kind as u64];
            let text = if self.profile.has_late_rules {
                "set_active wl_class:{0} wl_type:{1}"
            } else {
                "set_active wl_prio:{0} wl_type:{1}"
            };
            self.log_queue(queue, text, &numbers);
            self.cancel_timer();
        }
        let now_ns = self.clock.now_ns();
        let group = self.groups.at_mut(self.queues.at(queue).group);
        let account = &mut group.account;
        account.queue_samples = account.queue_samples.wrapping_add(1);
        account.queue_sampled_requests = account.queue_sampled_requests.wrapping_add(account.queued.total());
        if let Some(since) = group.waits_since_ns.take() {
            account.group_wait_ns = account.group_wait_ns.wrapping_add(now_ns.saturating_sub(since));
        }
        let state = self.queues.at_mut(queue);
        for mark in [Marks::WAIT_REQUEST, Marks::MUST_DISPATCH, Marks::MUST_ALLOC, Marks::FIFO_EXPIRE] {
            state.marks.clear(mark);
        }
        state.marks.set(Marks::SLICE_NEW);
        state.slice.activate(self.clock.now());
        self.engine.active = queue;
    }

    /// Whether the queue is worth idling for; writes a message if not.
    pub(super) fn should_idle(&mut self, queue: u32) -> bool {
        let is_worth = self.is_worth_waiting(queue);
        if !is_worth && self.messages.is_on() {
            let state = self.queues.at(queue);
            let asks_tree = !(state.is_idle_class() || self.never_idles());
            let count = u64::from(self.trees.len(state.tree));
            if asks_tree {
                self.log_queue(queue, "Not idling. st->count:{0}", &[count]);
            }
        }
        is_worth
    }

    /// True with `slice_idle` 0, except in 2.6.35, which idled for the last queue of a tree even
    /// then.
    fn never_idles(&self) -> bool {
        self.profile.has_iops_mode && self.settings.slice_idle_ticks == 0
    }

    pub(super) fn is_worth_waiting(&self, queue: u32) -> bool {
        let state = self.queues.at(queue);
        if self.never_idles() || state.is_idle_class() {
            return false;
        }
        if state.has(Marks::IDLE_WINDOW) && !self.positioning_is_free() {
            return true;
        }
        self.is_last_of_its_tree(state)
    }

    fn is_last_of_its_tree(&self, queue: &Queue) -> bool {
        let is_slow = self.profile.has_wide_think_times
            && self.trees.think(queue.tree).is_some_and(|think| think.is_above(self.settings.slice_idle_ticks));
        self.trees.len(queue.tree) == 1 && queue.is_sync() && !is_slow
    }

    /// Whether positioning costs nothing and the device queues commands, or is not yet known not
    /// to.
    #[inline]
    pub(super) fn positioning_is_free(&self) -> bool {
        !self.device.is_rotational() && self.device.may_queue()
    }
}
