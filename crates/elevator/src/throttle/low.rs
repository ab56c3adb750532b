//! Best-effort limits. In state LOW all groups are held to their best-effort limits, because some
//! group that has one does not reach it. The state is MAX while all groups reach theirs or do not
//! need them. Then the limits of these groups grow slowly, from the best-effort ones up to the
//! absolute ones.
//!
//! Source: Linux 6.1 block/blk-throttle.c, throtl_upgrade_state and throtl_downgrade_state;
//! docs/specifications/throttle.md, section 3.

use super::Throttle;
use super::group::DIRECTIONS;
use super::slice::Ticks;
use hoistway_block::GroupId;

/// The state of the device.
#[derive(Copy, Clone, Debug)]
pub struct State {
    is_low: bool,
    /// Whether some group has a best-effort limit.
    has_low: bool,
    pub upgraded_at: Ticks,
    pub downgraded_at: Ticks,
    /// How many halves of their best-effort limit groups may use in addition to it.
    pub scale: u64,
}

impl State {
    pub const NEW: State = State { is_low: false, has_low: false, upgraded_at: 0, downgraded_at: 0, scale: 0 };

    /// Whether groups are held to their best-effort limits.
    #[inline]
    pub const fn is_low(&self) -> bool {
        self.is_low
    }

    /// Whether any group has a best-effort limit.
    #[inline]
    pub const fn has_low(&self) -> bool {
        self.has_low
    }

    pub const fn set_low_valid(&mut self, has_low: bool) {
        self.has_low = has_low;
    }

    pub const fn become_max(&mut self) {
        self.is_low = false;
    }

    pub const fn become_low(&mut self, _now: Ticks) {
        self.is_low = true;
    }
}

impl Throttle {
    /// Called with each bio of a group: with its first one, the group counts as having just reached
    /// its limit.
    pub(super) fn first_bio(&mut self, group: GroupId, direction: hoistway_block::Direction, now: Ticks) {
        let overflow_at = self.groups.at_mut(group.0).low_state.overflow_at.of_mut(direction);
        if *overflow_at == 0 {
            *overflow_at = now;
        }
    }

    /// When a group last reached its limit: the older time of the directions that have one.
    fn own_overflow(&self, group: GroupId, now: Ticks) -> Ticks {
        let entry = self.groups.at(group.0);
        let mut oldest = now;
        for direction in DIRECTIONS {
            if entry.has_low(direction) {
                oldest = oldest.min(*entry.low_state.overflow_at.of(direction));
            }
        }
        oldest
    }

    /// When a group or one of its ancestors last reached its limit.
    fn overflow(&self, group: GroupId, now: Ticks) -> Ticks {
        let mut latest = self.own_overflow(group, now);
        let mut at = group;
        for _ in 0..super::DEEPEST {
            let Some(parent) = self.above(at) else { break };
            at = parent;
            if self.groups.at(at.0).has_any_low() {
                latest = latest.max(self.own_overflow(at, now));
            }
        }
        latest
    }

    // ---- to MAX ----

    /// Whether all leaves (except this one) reach their best-effort limit, or do not need it.
    pub(super) fn can_upgrade(&mut self, but: Option<GroupId>, now: Ticks) -> bool {
        if !self.state.is_low() || now < self.state.downgraded_at.saturating_add(self.clock.slice) {
            return false;
        }
        (0..self.groups.len()).all(|index| {
            let entry = self.groups.at(index);
            let counts = entry.is_online && entry.children == 0 && but != Some(GroupId(index));
            !counts || self.branch_can_upgrade(GroupId(index), now)
        })
    }

    fn branch_can_upgrade(&mut self, leaf: GroupId, now: Ticks) -> bool {
        let mut at = leaf;
        for _ in 0..super::DEEPEST {
            if self.group_can_upgrade(at, now) {
                return true;
            }
            match self.above(at) {
                Some(parent) if parent != GroupId::ROOT => at = parent,
                _ => return false,
            }
        }
        false
    }

    fn group_can_upgrade(&mut self, group: GroupId, now: Ticks) -> bool {
        let entry = self.groups.at(group.0);
        let (reads, writes) =
            (entry.has_low(hoistway_block::Direction::Read), entry.has_low(hoistway_block::Direction::Write));
        if !reads && !writes {
            return true;
        }
        // A group with waiting bios has reached its limit.
        let queued = entry.service.queued;
        let is_reached = (!reads || queued.read > 0) && (!writes || queued.write > 0);
        is_reached || (now >= self.overflow(group, now).saturating_add(self.clock.slice) && self.is_idle(group, now))
    }

    /// Considers a change to MAX; called with a bio of the group, at most once per slice.
    pub(super) fn consider_upgrade(&mut self, group: GroupId, now: Ticks) {
        let slice = self.clock.slice;
        if !self.state.is_low() || self.groups.at(group.0).low_state.checked_at.saturating_add(slice) > now {
            return;
        }
        self.groups.at_mut(group.0).low_state.checked_at = now;
        if now >= self.own_overflow(group, now).saturating_add(slice) && self.can_upgrade(None, now) {
            self.upgrade(now);
        }
    }

    /// Changes to MAX: groups may use their absolute limits, and timers that are due now re-examine
    /// waiting bios.
    pub(super) fn upgrade(&mut self, now: Ticks) {
        if self.is_traced() {
            self.log_upgrade(now);
        }
        self.state.is_low = false;
        self.state.upgraded_at = now;
        self.state.scale = 0;
        self.refresh_rules(now);
        self.make_pending_due(now);
        self.arm_pending(now);
    }

    // The next two are separate functions: inlined, they would need more stack than is allowed.

    fn make_pending_due(&mut self, now: Ticks) {
        for index in 0..self.groups.len() {
            if self.groups.at(index).is_pending {
                self.requeue_pending(GroupId(index), now.saturating_sub(1));
            }
        }
    }

    pub(super) fn arm_pending(&mut self, now: Ticks) {
        for queue in 0..=self.groups.len() {
            if self.pending.at(queue).first().is_some() {
                self.arm(queue, now, now);
            }
        }
    }

    // ---- to LOW ----

    /// Considers a change to LOW if the leaf misses its best-effort limit; called with its bio, at
    /// most once per slice.
    pub(super) fn consider_downgrade(&mut self, group: GroupId, now: Ticks) {
        let slice = self.clock.slice;
        let entry = self.groups.at(group.0);
        if self.state.is_low() || !self.state.has_low() || entry.children > 0 {
            return;
        }
        let elapsed = now.saturating_sub(entry.low_state.checked_at);
        if elapsed < slice {
            return;
        }
        self.groups.at_mut(group.0).low_state.checked_at = now;
        if now < self.overflow(group, now).saturating_add(slice) {
            return;
        }
        self.measure(group, elapsed, now);
        let low_state = &mut self.groups.at_mut(group.0).low_state;
        low_state.bytes = super::group::Pair::default();
        low_state.ios = super::group::Pair::default();
        if self.branch_can_downgrade(group, now) {
            self.downgrade(now);
        }
    }

    /// Measures a group's rates since the last measurement; where one meets a best-effort limit,
    /// the limit counts as reached now.
    fn measure(&mut self, group: GroupId, elapsed: Ticks, now: Ticks) {
        let hz = self.clock.hz;
        let entry = self.groups.at_mut(group.0);
        for direction in DIRECTIONS {
            let low = *entry.low.of(direction);
            let rate = |amount: u64| amount.saturating_mul(hz).checked_div(elapsed).unwrap_or(0);
            let meets_bytes = low.bytes_per_s != 0 && rate(*entry.low_state.bytes.of(direction)) >= low.bytes_per_s;
            let meets_ios = low.ios_per_s != 0 && rate(*entry.low_state.ios.of(direction)) >= low.ios_per_s;
            if meets_bytes || meets_ios {
                *entry.low_state.overflow_at.of_mut(direction) = now;
            }
        }
    }

    fn branch_can_downgrade(&mut self, leaf: GroupId, now: Ticks) -> bool {
        let mut at = leaf;
        for _ in 0..super::DEEPEST {
            if !self.group_can_downgrade(at, now) {
                return false;
            }
            match self.above(at) {
                Some(parent) if parent != GroupId::ROOT => at = parent,
                _ => return true,
            }
        }
        true
    }

    fn group_can_downgrade(&mut self, group: GroupId, now: Ticks) -> bool {
        let slice = self.clock.slice;
        now >= self.state.upgraded_at.saturating_add(slice)
            && now >= self.overflow(group, now).saturating_add(slice)
            && (!self.is_idle(group, now) || self.groups.at(group.0).children > 0)
    }

    /// Halves the scale; at zero, all groups are held to their best-effort limits.
    fn downgrade(&mut self, now: Ticks) {
        let slice = self.clock.slice;
        self.state.scale /= 2;
        if self.is_traced() {
            self.log_downgrade(now);
        }
        if self.state.scale > 0 {
            self.state.upgraded_at = now.saturating_sub(self.state.scale.saturating_mul(slice));
            return;
        }
        self.state.is_low = true;
        self.state.downgraded_at = now;
        self.refresh_rules(now);
    }
}
