//! Idling: keeping the device idle for a queue, a service tree or a group, and for how long.

use super::Cfq;
use super::expire::Rest;
use super::profile::NoIdle;
use super::state::{Marks, WorkloadType};
use crate::interface::Wake;
use crate::structures::NIL;

/// CFQ of 2.6.26 treats a larger mean distance as seeky.
const SEEKY_ABOVE_SECTORS: u64 = 8_192;

impl Cfq {
    /// Idles the device for the empty active queue, if that pays.
    #[inline(never)]
    pub(super) fn arm_timer(&mut self) {
        let queue = self.engine.active;
        if self.profile.has_one_level {
            self.arm_at_first(queue);
            return;
        }
        let (idle, group_idle) = (self.settings.slice_idle_ticks, self.settings.group_idle_ticks);
        if self.positioning_is_free() && !(self.profile.has_wide_think_times && group_idle > 0) {
            return;
        }
        let mut is_for_group = false;
        if (!self.profile.has_iops_mode && idle == 0) || !self.should_idle(queue) {
            if !self.profile.has_iops_mode || group_idle == 0 {
                return;
            }
            is_for_group = true;
        }
        if self.queues.at(queue).dispatched > 0 || !self.awaited_issuer_alive() {
            return;
        }
        let think = self.contexts.at(self.engine.active_context).think;
        let left = self.queues.at(queue).slice.left(self.clock.now());
        if think.is_above(left) {
            if self.messages.is_on() {
                self.log_queue(queue, "Not idling. think_time:{0}", &[think.mean_ticks()]);
            }
            return;
        }
        if is_for_group && !self.may_wait_for_group(queue) {
            return;
        }
        let span = if is_for_group { group_idle } else { idle };
        self.start_timer(queue, span, is_for_group);
        if self.profile.has_iops_mode {
            self.log_queue(queue, "arm_idle: {0} group_idle: {1}", &[span, u64::from(is_for_group)]);
        } else {
            self.log_queue(queue, "arm_idle: {0}", &[span]);
        }
    }

    /// Whether the issuer that is waited for is known and has not exited.
    fn awaited_issuer_alive(&self) -> bool {
        self.engine.active_context != NIL && self.contexts.at(self.engine.active_context).is_alive
    }

    fn may_wait_for_group(&self, queue: u32) -> bool {
        let state = self.queues.at(queue);
        if self.groups.at(state.group).busy_queues > 1 {
            return false;
        }
        // Quirk Q17 of docs/specifications/cfq.md: the tree's think time is used, although the device is
        // idled for the group.
        let tree = self.trees.think(state.tree);
        !self.profile.has_wide_think_times || !tree.is_some_and(|think| think.is_above(self.settings.group_idle_ticks))
    }

    fn arm_at_first(&mut self, queue: u32) {
        let idle = self.settings.slice_idle_ticks;
        if idle == 0 || !self.queues.at(queue).has(Marks::IDLE_WINDOW) || !self.awaited_issuer_alive() {
            return;
        }
        let seek = self.contexts.at(self.engine.active_context).seek;
        let is_seeky = seek.is_valid() && seek.mean_sectors > SEEKY_ABOVE_SECTORS;
        let span = if is_seeky { idle.min(self.clock.ticks().seeky_patience_ticks) } else { idle };
        self.start_timer(queue, span, false);
        self.log_queue(queue, "arm_idle: {0}", &[span]);
    }

    fn start_timer(&mut self, queue: u32, span: u64, is_for_group: bool) {
        self.queues.at_mut(queue).marks.set(Marks::WAIT_REQUEST);
        self.engine.timer_at = Some(self.clock.now().saturating_add(span));
        self.engine.waits_for_group = is_for_group;
        self.engine.idle_since_ns = Some(self.clock.now_ns());
    }

    /// Ends the idling; the time is charged to the active queue's group.
    pub(super) fn cancel_timer(&mut self) {
        self.engine.timer_at = None;
        self.account_idling();
    }

    /// Accounts the end of an idle period; the timer may stay armed.
    pub(super) fn account_idling(&mut self) {
        let Some(since) = self.engine.idle_since_ns.take() else { return };
        if self.engine.active == NIL {
            return;
        }
        let group = self.queues.at(self.engine.active).group;
        let waited = self.clock.now_ns().saturating_sub(since);
        let account = &mut self.groups.at_mut(group).account;
        account.idle_ns = account.idle_ns.wrapping_add(waited);
    }

    /// The idle timer fired: no request came.
    pub(super) fn timer_fired(&mut self) -> Wake {
        self.log("idle timer fired", &[]);
        self.engine.timer_at = None;
        let queue = self.engine.active;
        if queue == NIL {
            self.engine.idle_since_ns = None;
            return Wake::All;
        }
        let state = self.queues.at(queue);
        let (is_empty, must_dispatch) = (state.is_empty(), state.has(Marks::MUST_DISPATCH));
        if must_dispatch {
            return Wake::All;
        }
        if !self.is_slice_used(queue) {
            if self.engine.busy_queues == 0 {
                return Wake::No;
            }
            if !is_empty {
                return Wake::All;
            }
            self.queues.at_mut(queue).marks.clear(Marks::DEEP);
        }
        self.expire(queue, Rest::Forgotten);
        Wake::All
    }

    /// Whether to wait for the group's only queue although its slice is over (or nearly so),
    /// because the group would otherwise leave the order and lose its unused share
    /// (docs/specifications/cfq.md, section 7.7).
    #[inline(never)]
    pub(super) fn should_wait_busy(&self, queue: u32) -> bool {
        let state = self.queues.at(queue);
        let is_wide = self.profile.has_wide_think_times;
        let group = self.groups.at(state.group);
        if (is_wide && !state.is_empty()) || group.busy_queues > 1 {
            return false;
        }
        if is_wide && group.think.is_above(self.settings.group_idle_ticks) {
            return false;
        }
        if self.is_slice_used(queue) {
            return true;
        }
        let left = state.slice.left(self.clock.now());
        if self.engine.active_context != NIL {
            let think = self.contexts.at(self.engine.active_context).think;
            if think.is_above(left) {
                return true;
            }
        }
        let jiffy = self.clock.ticks().jiffy_ticks;
        if is_wide { left <= jiffy } else { left == jiffy }
    }

    /// Whether to idle after a completion that leaves the active queue empty.
    pub(super) fn wants_idling(&mut self, is_last: bool) -> bool {
        if self.profile.no_idle != NoIdle::PerWorkload {
            return true;
        }
        self.serving.requires_idle |= !is_last;
        let group = self.queues.at(self.engine.active).group;
        self.serving.kind == WorkloadType::Sync || self.serving.requires_idle || self.groups.at(group).busy_queues == 1
    }
}
