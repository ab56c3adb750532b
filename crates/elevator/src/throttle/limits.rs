//! The limits in force for a group, and the effects of a change.

use super::Throttle;
use super::group::{DIRECTIONS, Group, Pair, Rules, limits_of};
use super::log::SliceEvent;
use super::slice::{Limit, Ticks, UNLIMITED};
use crate::group::{GroupSettings, IoLimits};
use hoistway_block::{Direction, GroupId};

/// The limit of a group without a best-effort limit while others are protected (`.low`).
const FLOOR: Limit = Limit { bytes_per_s: 320 * 1024, ios_per_s: 10 };
/// Beyond this scale a best-effort limit no longer grows.
const MOST_SCALE: u64 = 4096;

impl Throttle {
    /// The limit in force for a direction of a group.
    pub(super) fn limit_of(&mut self, group: GroupId, direction: Direction, now: Ticks) -> Limit {
        if !self.state.is_low() && self.groups.at(group.0).has_low(direction) {
            self.state.scale = self.scale_at(now);
        }
        self.limit_at(group, direction, self.state.scale)
    }

    /// The limit at a given scale (see [`Throttle::scale_at`]).
    pub(super) fn limit_at(&self, group: GroupId, direction: Direction, scale: u64) -> Limit {
        let is_flat = self.settings.hierarchy == 0;
        if group == GroupId::ROOT && !is_flat {
            return Limit::NONE;
        }
        let entry = self.groups.at(group.0);
        let (max, low, has_children) = (*entry.max.of(direction), *entry.low.of(direction), entry.children > 0);
        if self.state.is_low() {
            return self.limit_while_low(max, low, has_children);
        }
        if low.bytes_per_s == 0 && low.ios_per_s == 0 {
            return max;
        }
        let grown = |max: u64, low: u64| match low {
            0 => max,
            low if low == max => max,
            low => max.min(low.saturating_add((low >> 1).saturating_mul(scale))),
        };
        Limit { bytes_per_s: grown(max.bytes_per_s, low.bytes_per_s), ios_per_s: grown(max.ios_per_s, low.ios_per_s) }
    }

    fn limit_while_low(&self, max: Limit, low: Limit, has_children: bool) -> Limit {
        let is_high = self.settings.high != 0;
        let of = |low: u64, other: u64, max: u64, floor: u64| match low {
            0 if is_high => max,
            0 if has_children || other != 0 => UNLIMITED,
            0 => floor,
            low => low,
        };
        Limit {
            bytes_per_s: of(low.bytes_per_s, low.ios_per_s, max.bytes_per_s, FLOOR.bytes_per_s),
            ios_per_s: of(low.ios_per_s, low.bytes_per_s, max.ios_per_s, FLOOR.ios_per_s),
        }
    }

    /// How many halves of a best-effort limit have been added to it since best-effort limits were
    /// lifted (`low.rs`).
    pub(super) fn scale_at(&self, now: Ticks) -> u64 {
        let (slice, state) = (self.clock.slice, &self.state);
        if state.scale < MOST_SCALE && now >= state.upgraded_at.saturating_add(state.scale.saturating_mul(slice)) {
            return now.saturating_sub(state.upgraded_at).checked_div(slice).unwrap_or(0);
        }
        state.scale
    }

    pub(super) fn add_group(&mut self, group: GroupId, settings: &GroupSettings, now: Ticks) {
        let Some(entry) = self.groups.get_mut(group.0) else { return };
        let parent = (group != GroupId::ROOT).then_some(settings.parent);
        *entry = Group { is_online: true, parent, ..Group::ABSENT };
        if let Some(parent) = parent {
            let children = &mut self.groups.at_mut(parent.0).children;
            *children = children.saturating_add(1);
        }
        self.set_idle_stats(group);
        // The group has no children yet.
        self.refresh_group(group, now);
    }

    /// Sets new limits. The dispatch times of waiting bios are computed again, and what was sent
    /// under the old limits counts against the new ones.
    pub(super) fn configure(&mut self, group: GroupId, limits: &IoLimits, now: Ticks) {
        if self.groups.get(group.0).is_none_or(|entry| !entry.is_online) {
            self.violations = self.violations.saturating_add(1);
            return;
        }
        for direction in DIRECTIONS {
            if *self.groups.at(group.0).service.queued.of(direction) > 0 {
                let (old, clock) = (self.limit_of(group, direction, now), self.clock);
                self.groups.at_mut(group.0).slices.of_mut(direction).carry_over(old, now, clock);
            }
        }
        let before = self.groups.at(group.0).configured;
        let changes_low =
            (before.low, before.idle_us, before.latency_us) != (limits.low, limits.idle_us, limits.latency_us);
        let entry = self.groups.at_mut(group.0);
        entry.configured = *limits;
        entry.max = limits_of(&limits.max);
        self.set_low(group);
        self.set_idle_stats(group);
        self.state.set_low_valid(self.groups.iter().any(|entry| entry.is_online && entry.has_any_low()));
        if !self.state.has_low() {
            self.state.become_max();
        } else if changes_low && self.settings.high == 0 {
            self.state.become_low(now);
        }
        if self.is_traced() {
            self.log_limits(group, now);
        }
        self.refresh_rules(now);
        let clock = self.clock;
        for direction in DIRECTIONS {
            self.groups.at_mut(group.0).slices.of_mut(direction).restart(now, clock, false);
            if self.is_traced() {
                self.log_slice(SliceEvent::Started, group, direction, now);
            }
        }
        if self.groups.at(group.0).is_pending {
            self.update_dispatch_time(group, now);
            self.arm_for_first(self.queue_above(group), true, now);
        }
    }

    pub(super) fn take_offline(&mut self, group: GroupId, now: Ticks) {
        let entry = self.groups.at_mut(group.0);
        entry.is_online = false;
        entry.low = Group::ABSENT.low;
        self.state.set_low_valid(self.groups.iter().any(|entry| entry.is_online && entry.has_any_low()));
        if !self.state.has_low() && self.state.is_low() {
            self.upgrade(now);
        }
    }

    /// Recomputes the best-effort limits of all groups by the present rules.
    pub(super) fn set_all_low(&mut self) {
        for index in 0..self.groups.len() {
            if self.groups.at(index).is_online {
                self.set_low(GroupId(index));
                self.set_idle_stats(GroupId(index));
            }
        }
        self.state.set_low_valid(self.groups.iter().any(|entry| entry.is_online && entry.has_any_low()));
        if !self.state.has_low() {
            self.state.become_max();
        }
    }

    /// Best-effort limits are capped by the absolute ones. Those of `.low` hold only if idle
    /// threshold and latency target are given as well.
    fn set_low(&mut self, group: GroupId) {
        let is_high = self.settings.high != 0;
        let entry = self.groups.at_mut(group.0);
        let limits = &entry.configured;
        let is_complete = is_high || (limits.idle_us != 0 && limits.latency_us != u64::MAX);
        let wanted = limits_of(&limits.low);
        let capped = |low: Limit, max: Limit| Limit {
            bytes_per_s: low.bytes_per_s.min(max.bytes_per_s),
            ios_per_s: low.ios_per_s.min(max.ios_per_s),
        };
        entry.low = if is_complete {
            Pair { read: capped(wanted.read, entry.max.read), write: capped(wanted.write, entry.max.write) }
        } else {
            Group::ABSENT.low
        };
    }

    /// Recomputes in which groups and directions bios must be checked, and applies the thresholds
    /// of groups to their descendants.
    pub(super) fn refresh_rules(&mut self, now: Ticks) {
        // Parents need not have smaller ids than their children: repeat at most as often as the
        // tree is deep.
        for _ in 0..super::DEEPEST {
            let mut has_changed = false;
            for index in 0..self.groups.len() {
                has_changed |= self.refresh_group(GroupId(index), now);
            }
            if !has_changed {
                return;
            }
        }
    }

    #[inline]
    fn refresh_group(&mut self, group: GroupId, now: Ticks) -> bool {
        if !self.groups.at(group.0).is_online {
            return false;
        }
        let above = self.above(group);
        let mut has_changed = false;
        for direction in DIRECTIONS {
            let inherited = above.map_or(Rules::default(), |above| *self.groups.at(above.0).rules.of(direction));
            let limit = self.limit_of(group, direction, now);
            let rules = Rules {
                bytes: inherited.bytes || limit.bytes_per_s != UNLIMITED,
                ios: inherited.ios || limit.ios_per_s != UNLIMITED,
            };
            let place = self.groups.at_mut(group.0).rules.of_mut(direction);
            has_changed |= *place != rules;
            *place = rules;
        }
        let Some(parent) = above.filter(|above| *above != GroupId::ROOT) else { return has_changed };
        let (threshold, target) = {
            let idle_stats = &self.groups.at(parent.0).idle_stats;
            (idle_stats.idle_threshold_us, idle_stats.latency_target_us)
        };
        let idle_stats = &mut self.groups.at_mut(group.0).idle_stats;
        let before = (idle_stats.idle_threshold_us, idle_stats.latency_target_us);
        idle_stats.idle_threshold_us = idle_stats.idle_threshold_us.min(threshold);
        idle_stats.latency_target_us = idle_stats.latency_target_us.max(target);
        has_changed || before != (idle_stats.idle_threshold_us, idle_stats.latency_target_us)
    }
}
