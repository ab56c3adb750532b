//! How groups are throttled by their siblings: cookies.
//!
//! A parent keeps one number for its children, the cookie. A child that misses its target lowers
//! it, and the same child raises it again. Every child compares it with its own copy at each bio,
//! and halves or widens its depth accordingly. So nothing iterates over siblings, and a group
//! without I/O costs nothing.

use super::IoLatency;
use super::group::{Children, DEFAULT_COOKIE, step_of};
use super::samples::{Samples, decayed};
use hoistway_block::time::{MICROSECOND, MILLISECOND, SECOND};
use hoistway_block::{GroupId, Nanos};

/// Minimum time between two changes of a cookie.
const BETWEEN_CHANGES_NS: Nanos = 500 * MILLISECOND;
/// Good samples needed before any throttling is taken back.
const ENOUGH_GOOD: u64 = 5;
/// A group that has a target, and at most this share of all siblings' samples, is not considered
/// the cause of a missed target.
const NUISANCE_PERCENT: u64 = 5;
/// A protected group is forgotten after this time without news from it.
const FORGOTTEN_NS: Nanos = 5 * SECOND;

impl IoLatency {
    /// Adjusts the group's depth if the parent's cookie has changed since the group last compared
    /// it.
    pub(super) fn follow_cookie(&mut self, group: GroupId, now: Nanos) {
        let Some(parent) = self.groups.at(group.0).parent else { return };
        let Children { cookie, missed_target_ns, samples: of_all, .. } = self.groups.at(parent.0).children;
        let queue_depth = self.queue_depth;
        let entry = self.groups.at_mut(group.0);
        if cookie == entry.cookie {
            return;
        }
        let is_down = cookie < entry.cookie;
        entry.cookie = cookie;
        if is_down && entry.target_ns > 0 {
            let is_looser = missed_target_ns > 0 && entry.target_ns > missed_target_ns;
            let nuisance = (of_all.saturating_mul(NUISANCE_PERCENT) / 100).max(1);
            if !is_looser || entry.samples <= nuisance {
                return;
            }
        }
        if is_down && entry.most_in_flight == 1 {
            entry.delay.step_down();
            let steps = entry.delay.steps();
            self.note(group, now, "delay steps {0}", [u64::from(steps), 0]);
            return;
        }
        if cookie == DEFAULT_COOKIE {
            entry.unlimit();
            self.wake(group);
            self.note(group, now, "depth max", [0; 2]);
            return;
        }
        let depth = entry.most_in_flight.min(queue_depth);
        if is_down {
            entry.most_in_flight = (depth >> 1).max(1);
        } else if depth == 1 && entry.delay.step_up() {
            let steps = entry.delay.steps();
            self.note(group, now, "delay steps {0}", [u64::from(steps), 0]);
            return;
        } else if depth >= queue_depth {
            return;
        } else {
            entry.most_in_flight = depth.saturating_add(step_of(queue_depth, true)).min(queue_depth);
        }
        let depth = entry.most_in_flight;
        self.wake(group);
        self.note(group, now, "depth {0}", [u64::from(depth), 0]);
    }

    /// A bio ended that is counted by a group with a target.
    pub(super) fn record(&mut self, group: GroupId, submitted_ns: Nanos, is_root_issued: bool, now: Nanos) {
        let entry = self.groups.at_mut(group.0);
        let target = entry.target_ns;
        if let Some(latency) = now.checked_sub(submitted_ns).filter(|latency| *latency > 0) {
            if !is_root_issued || entry.most_in_flight == super::UNLIMITED {
                entry.current.count(latency, target);
            } else if latency < target {
                // The bio did not wait like the group's other bios, so it is no sample. The wait
                // that it was spared is owed instead.
                entry.delay.owe(target.saturating_sub(latency), now);
            }
        }
        if now > entry.window_began && now.saturating_sub(entry.window_began) >= entry.window_ns {
            entry.window_began = now;
            self.evaluate(group, now);
        }
    }

    /// A window of a group is over: evaluates whether its target is kept.
    fn evaluate(&mut self, group: GroupId, now: Nanos) {
        let is_rotational = self.is_rotational;
        let entry = self.groups.at_mut(group.0);
        let Some(parent) = entry.parent else { return };
        let target = entry.target_ns;
        let window = core::mem::take(&mut entry.current);
        if is_rotational {
            entry.average_ns = decayed(entry.average_ns, window.mean_ns(), entry.window_ns);
        }
        let is_window_ok = window.is_ok(target, is_rotational);
        if is_window_ok && self.groups.at(parent.0).children.cookie == DEFAULT_COOKIE {
            return;
        }
        let entry = self.groups.at_mut(group.0);
        let before = entry.samples;
        entry.gathered.add(&window);
        entry.samples = entry.gathered.total;
        let gathered = entry.gathered;
        let children = &mut self.groups.at_mut(parent.0).children;
        children.samples = children.samples.saturating_sub(before).saturating_add(gathered.total);
        if children.changed_at.is_some_and(|at| now.saturating_sub(at) < BETWEEN_CHANGES_NS) {
            return;
        }
        if is_window_ok && gathered.is_ok(target, is_rotational) {
            if gathered.total < ENOUGH_GOOD {
                return;
            }
            if children.protected == Some(group) {
                children.changed_at = Some(now);
                self.change_cookie(parent, true, now);
            }
        } else if children.missed_target_ns == 0 || children.missed_target_ns >= target {
            children.changed_at = Some(now);
            if children.protected.is_none() || children.missed_target_ns > target {
                children.missed_target_ns = target;
                children.protected = Some(group);
            }
            self.change_cookie(parent, false, now);
        }
        self.groups.at_mut(group.0).gathered = Samples::NONE;
    }

    fn change_cookie(&mut self, parent: GroupId, is_up: bool, now: Nanos) {
        let queue_depth = self.queue_depth;
        let children = &mut self.groups.at_mut(parent.0).children;
        children.change(queue_depth, is_up);
        let below = DEFAULT_COOKIE.saturating_sub(children.cookie);
        let target_us = children.missed_target_ns / MICROSECOND;
        let text = if is_up {
            "scale up, cookie {0} below default, target {1}us"
        } else {
            "scale down, cookie {0} below default, target {1}us"
        };
        self.note(parent, now, text, [u64::from(below), target_us]);
    }

    /// Once a second: takes back throttling whose cause has gone.
    pub(super) fn check_timers(&mut self, now: Nanos) {
        for index in 0..self.groups.len() {
            let children = &mut self.groups.at_mut(index).children;
            if children.cookie >= DEFAULT_COOKIE || children.changed_at.is_some_and(|at| at >= now) {
                continue;
            }
            if children.protected.is_none() {
                self.change_cookie(GroupId(index), true, now);
            } else if children.changed_at.is_none_or(|at| now.saturating_sub(at) >= FORGOTTEN_NS) {
                children.protected = None;
            }
        }
    }

    /// Sets a target, or clears it with 0. If it changes, throttling of the siblings starts afresh.
    pub(super) fn set_target(&mut self, group: GroupId, target_ns: Nanos) {
        let target_ns = if target_ns == Nanos::MAX { 0 } else { target_ns };
        let entry = self.groups.at_mut(group.0);
        let before = entry.target_ns;
        if before == target_ns {
            return;
        }
        entry.set_target(target_ns);
        if target_ns == 0 {
            entry.delay.clear_steps();
        }
        match (before, target_ns) {
            (0, _) => self.targets = self.targets.saturating_add(1),
            (_, 0) => self.targets = self.targets.saturating_sub(1),
            _ => {}
        }
        self.clear_scale_above(group);
        if self.targets == 0 {
            self.forget_everything();
        }
    }

    /// Resets what the parent of a group tells its children. They notice it at their next bio.
    pub(super) fn clear_scale_above(&mut self, group: GroupId) {
        let Some(parent) = self.groups.at(group.0).parent else { return };
        let children = &mut self.groups.at_mut(parent.0).children;
        let samples = children.samples;
        *children = Children { samples, ..Children::FRESH };
    }

    /// The last target has gone. No bio would notice, so all waiting bios are released now.
    fn forget_everything(&mut self) {
        self.timer_at = None;
        for index in 0..self.groups.len() {
            let entry = self.groups.at_mut(index);
            entry.unlimit();
            entry.cookie = DEFAULT_COOKIE;
            entry.children = Children::FRESH;
            entry.samples = 0;
            entry.gathered = Samples::NONE;
            self.wake(GroupId(index));
        }
        // Nothing is throttled any more, so there is room on every level.
        self.advance(0);
    }

    #[inline]
    fn note(&mut self, group: GroupId, now: Nanos, text: &'static str, numbers: [u64; 2]) {
        if self.messages.is_on() {
            self.write_note(group, now, text, numbers);
        }
    }

    #[cold]
    fn write_note(&mut self, group: GroupId, now: Nanos, text: &'static str, [first, second]: [u64; 2]) {
        if let Some(message) = self.messages.begin(now, text) {
            message.group = Some(group);
            message.numbers = [first, second, 0, 0, 0, 0, 0, 0];
        }
    }
}
