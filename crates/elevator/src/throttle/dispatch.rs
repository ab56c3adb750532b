//! The path of a bio up the tree: it passes each level within its limits, or waits at the first
//! level whose limit it exceeds.

use super::group::{DIRECTIONS, Group, Node, ServiceQueue};
use super::log::SliceEvent;
use super::slice::{Limit, Ticks};
use super::{Throttle, charged_bytes};
use crate::limiter::{BioId, Verdict};
use crate::request::Bio;
use hoistway_block::{Direction, Flags, GroupId, Nanos};

/// The numbers of reads and of writes that are moved in one visit to a group, reads first.
const READS_PER_VISIT: u32 = 6;
const WRITES_PER_VISIT: u32 = 2;
/// A round (one pass over the pending groups of a service queue, which are those with waiting bios)
/// ends after this many bios.
const QUANTUM: u32 = 32;
/// No timer is set for longer than this many slices.
const LONGEST_TIMER_SLICES: u64 = 8;

impl Throttle {
    /// Submits a bio that limits apply to: its group or an ancestor has a limit, or the device has
    /// best-effort limits.
    pub(super) fn submit_by_rules(&mut self, id: BioId, bio: &Bio, now: Nanos) -> Verdict {
        self.update_baselines(now);
        self.update_idle_time(bio.group, now);
        let now = self.ticks(now);
        let direction = bio.direction();
        let bytes = charged_bytes(bio);
        let charge = (!bio.flags.contains(Flags::BYTES_CHARGED)).then_some(u64::from(bytes));
        let mut group = bio.group;
        let mut node = Node::Own(group);
        for _ in 0..super::DEEPEST {
            if !self.passes(group, direction, charge, now) {
                return self.hold(id, bio, bytes, group, node, now);
            }
            node = Node::ToParent(group);
            match self.above(group) {
                Some(parent) => group = parent,
                None => return Verdict::Pass,
            }
        }
        Verdict::Pass
    }

    /// Whether a new bio may pass a level at once; if so, it is charged there.
    fn passes(&mut self, group: GroupId, direction: Direction, charge: Option<u64>, now: Ticks) -> bool {
        // If it may not, the state of best-effort limits may change, and it is tried again; this
        // happens once at most.
        for _ in 0..2 {
            self.first_bio(group, direction, now);
            self.consider_downgrade(group, now);
            self.consider_upgrade(group, now);
            if *self.groups.at(group.0).service.queued.of(direction) > 0 {
                return false;
            }
            if self.wait_of(group, direction, charge, now) == 0 {
                self.charge(group, direction, charge);
                self.trim(group, direction, now);
                return true;
            }
            *self.groups.at_mut(group.0).low_state.overflow_at.of_mut(direction) = now;
            if !self.can_upgrade(Some(group), now) {
                return false;
            }
            self.upgrade(now);
        }
        false
    }

    fn hold(&mut self, id: BioId, bio: &Bio, bytes: u32, group: GroupId, node: Node, now: Ticks) -> Verdict {
        if !self.nodes.is_free(id.0) {
            self.violations = self.violations.saturating_add(1);
            return Verdict::Pass;
        }
        let direction = bio.direction();
        let is_charged = bio.flags.contains(Flags::BYTES_CHARGED);
        *self.nodes.at_mut(id.0) = super::group::Waiting { bytes, direction, is_charged, is_held: true, node };
        self.held = self.held.wrapping_add(1);
        *self.groups.at_mut(group.0).low_state.overflow_at.of_mut(direction) = now;
        if self.is_traced() {
            self.log_bio(bio, group, now);
        }
        self.queue_at(group, node, id.0, now);
        if self.groups.at(group.0).was_empty {
            self.update_dispatch_time(group, now);
            self.arm_for_first(self.queue_above(group), true, now);
        }
        Verdict::Held
    }

    /// Queues a bio on a node of a group's queue, and makes the group pending in the queue above.
    fn queue_at(&mut self, group: GroupId, node: Node, bio: u32, now: Ticks) {
        let direction = self.nodes.at(bio).direction;
        let entry = self.groups.at_mut(group.0);
        if *entry.service.queued.of(direction) == 0 {
            entry.was_empty = true;
        }
        self.nodes.push(&mut entry.service, node, bio);
        if !entry.is_pending {
            self.requeue_pending(group, now);
        }
    }

    // ---- timers ----

    /// The timer of a service queue has fired.
    pub(super) fn timer_of(&mut self, queue: u32, now: Ticks) {
        let mut queue = queue;
        for _ in 0..super::DEEPEST {
            if self.can_upgrade(None, now) {
                self.upgrade(now);
            }
            let (mut has_moved, mut is_settled) = (false, false);
            // Rounds continue while the first pending group may dispatch now.
            while !is_settled && self.dispatch_round(queue, now) > 0 {
                has_moved = true;
                is_settled = self.arm_for_first(queue, false, now);
            }
            // A round that moved no bio may have changed the time of the first group.
            if !is_settled {
                self.arm_for_first(queue, false, now);
            }
            if !has_moved {
                return;
            }
            // If bios moved into a group that had none, the service queue above it must be
            // processed as well.
            if queue >= self.groups.len() || !self.groups.at(queue).was_empty {
                return;
            }
            let group = GroupId(queue);
            self.update_dispatch_time(group, now);
            let above = self.queue_above(group);
            if self.arm_for_first(above, false, now) {
                return;
            }
            queue = above;
        }
    }

    /// Visits pending groups whose time has come, until [`QUANTUM`] bios have moved. Returns how
    /// many bios moved.
    pub(super) fn dispatch_round(&mut self, queue: u32, now: Ticks) -> u32 {
        if self.is_traced() {
            self.log_round(queue, now);
        }
        let mut moved = 0u32;
        while moved < QUANTUM {
            let Some(first) = self.pending.at(queue).first() else { break };
            if self.groups.at(first).dispatch_at > now {
                break;
            }
            let group = GroupId(first);
            let visit = self.visit(group, now);
            moved = moved.wrapping_add(visit);
            let service = &self.groups.at(first).service;
            if service.queued.read > 0 || service.queued.write > 0 {
                self.update_dispatch_time(group, now);
                if visit == 0 && self.groups.at(first).dispatch_at <= now {
                    // Its time has come, but it may not dispatch yet: try again at the next tick.
                    self.set_dispatch_time(group, now.saturating_add(1));
                }
            } else {
                self.no_longer_pending(group);
            }
        }
        if moved > 0 && self.is_traced() {
            self.log_moved(queue, moved, now);
        }
        moved
    }

    fn visit(&mut self, group: GroupId, now: Ticks) -> u32 {
        let mut moved = 0u32;
        for (direction, most) in [(Direction::Read, READS_PER_VISIT), (Direction::Write, WRITES_PER_VISIT)] {
            for _ in 0..most {
                let Some(bio) = self.nodes.peek(&self.groups.at(group.0).service, direction) else { break };
                if self.wait_of(group, direction, self.charge_of(bio), now) > 0 {
                    break;
                }
                self.move_up(group, direction, now);
                moved = moved.wrapping_add(1);
            }
        }
        moved
    }

    /// Moves the next bio of a group one level up.
    fn move_up(&mut self, group: GroupId, direction: Direction, now: Ticks) {
        let Some(bio) = self.nodes.pop(&mut self.groups.at_mut(group.0).service, direction) else { return };
        let charge = self.charge_of(bio);
        self.charge(group, direction, charge);
        match self.above(group) {
            Some(parent) => {
                self.queue_at(parent, Node::ToParent(group), bio, now);
                let child_start = self.groups.at(group.0).slices.of(direction).start;
                let clock = self.clock;
                let slice = self.groups.at_mut(parent.0).slices.of_mut(direction);
                if slice.is_used(now) {
                    slice.restart_with_credit(child_start, now, clock);
                    if self.is_traced() {
                        self.log_slice(SliceEvent::StartedWithCredit, parent, direction, now);
                    }
                }
            }
            None => {
                self.nodes.at_mut(bio).is_charged = true;
                self.nodes.push(&mut self.top, Node::ToParent(group), bio);
            }
        }
        self.trim(group, direction, now);
    }

    /// Moves all waiting bios to the top queue, whatever the limits. This is done level by level,
    /// from the root down, so that of a group's bios those that were nearest to the top are
    /// released first.
    pub(super) fn release_all(&mut self) {
        let waits = |throttle: &Self| (0..throttle.groups.len()).any(|index| throttle.groups.at(index).is_pending);
        for level in 0..super::DEEPEST {
            if !waits(self) {
                break;
            }
            for group in (0..self.groups.len()).map(GroupId) {
                if self.groups.at(group.0).is_pending && self.level_of(group) == level {
                    self.release_all_of(group);
                }
            }
        }
        for queue in 0..=self.groups.len() {
            self.disarm(queue);
        }
    }

    fn release_all_of(&mut self, group: GroupId) {
        for direction in DIRECTIONS {
            while let Some(bio) = self.nodes.pop(&mut self.groups.at_mut(group.0).service, direction) {
                self.nodes.at_mut(bio).is_charged = true;
                self.nodes.push(&mut self.top, Node::ToParent(GroupId::ROOT), bio);
            }
        }
        self.groups.at_mut(group.0).was_empty = false;
        self.no_longer_pending(group);
    }

    /// Treats all bios that wait in a group as submitted to this group. Used before `hierarchy`
    /// changes, because bios that came from children then no longer belong on the nodes on which
    /// they wait.
    pub(super) fn keep_by_group(&mut self, group: GroupId) {
        for direction in DIRECTIONS {
            // Moves them through the top queue, which is empty between two calls, to keep their
            // order.
            while let Some(bio) = self.nodes.pop(&mut self.groups.at_mut(group.0).service, direction) {
                self.nodes.push(&mut self.top, Node::ToParent(GroupId::ROOT), bio);
            }
            while let Some(bio) = self.nodes.pop(&mut self.top, direction) {
                self.nodes.push(&mut self.groups.at_mut(group.0).service, Node::Own(group), bio);
            }
        }
    }

    /// Number of groups between this one and the root; at most [`super::DEEPEST`] - 1.
    fn level_of(&self, group: GroupId) -> u32 {
        let above = |group: &GroupId| self.groups.at(group.0).parent;
        let climbed = core::iter::successors(Some(group), above).skip(1).take(super::DEEPEST as usize - 1);
        u32::try_from(climbed.count()).unwrap_or(0)
    }

    // ---- one level ----

    /// How long a bio has to wait at this group's level.
    pub(super) fn wait_of(&mut self, group: GroupId, direction: Direction, charge: Option<u64>, now: Ticks) -> Ticks {
        let limit = self.limit_of(group, direction, now);
        if limit.is_none() {
            return 0;
        }
        let clock = self.clock;
        let entry = self.groups.at_mut(group.0);
        let is_empty = *entry.service.queued.of(direction) == 0;
        let slice = entry.slices.of_mut(direction);
        let is_new = slice.is_used(now) && is_empty;
        if is_new {
            slice.restart(now, clock, true);
        }
        let is_extended = !is_new && slice.extend(now.saturating_add(clock.slice), clock);
        if (is_new || is_extended) && self.is_traced() {
            let event = if is_new { SliceEvent::Started } else { SliceEvent::Extended };
            self.log_slice(event, group, direction, now);
        }
        let slice = self.groups.at_mut(group.0).slices.of_mut(direction);
        let wait = slice.wait(limit, charge, now, clock);
        if wait > 0 && slice.extend(now.saturating_add(wait), clock) && self.is_traced() {
            self.log_slice(SliceEvent::Extended, group, direction, now);
        }
        wait
    }

    fn charge(&mut self, group: GroupId, direction: Direction, charge: Option<u64>) {
        let entry = self.groups.at_mut(group.0);
        entry.slices.of_mut(direction).charge(charge);
        let (bytes, ios) = (entry.low_state.bytes.of_mut(direction), entry.low_state.ios.of_mut(direction));
        *bytes = bytes.saturating_add(charge.unwrap_or(0));
        *ios = ios.saturating_add(1);
    }

    fn trim(&mut self, group: GroupId, direction: Direction, now: Ticks) {
        let limit: Limit = self.limit_of(group, direction, now);
        let clock = self.clock;
        let trimmed = self.groups.at_mut(group.0).slices.of_mut(direction).trim(limit, now, clock);
        if let Some(trimmed) = trimmed.filter(|_| self.is_traced()) {
            self.log_trim(trimmed, group, direction, now);
        }
    }

    /// The bytes to charge for a waiting bio.
    fn charge_of(&self, bio: u32) -> Option<u64> {
        let waiting = self.nodes.at(bio);
        (!waiting.is_charged).then_some(u64::from(waiting.bytes))
    }

    /// The group whose limits apply after those of this one; `None` = the top.
    #[inline]
    pub(super) fn above(&self, group: GroupId) -> Option<GroupId> {
        if self.settings.hierarchy == 0 { None } else { self.groups.at(group.0).parent }
    }

    // ---- pending groups and timers ----

    /// The service queue above a group.
    pub(super) fn queue_above(&self, group: GroupId) -> u32 {
        self.above(group).map_or(self.groups.len(), |parent| parent.0)
    }

    /// Updates the earliest time at which the next bio of a group may go.
    pub(super) fn update_dispatch_time(&mut self, group: GroupId, now: Ticks) {
        let mut first = Ticks::MAX;
        for direction in DIRECTIONS {
            if let Some(bio) = self.nodes.peek(&self.groups.at(group.0).service, direction) {
                first = first.min(self.wait_of(group, direction, self.charge_of(bio), now));
            }
        }
        self.groups.at_mut(group.0).was_empty = false;
        self.set_dispatch_time(group, now.saturating_add(first));
    }

    fn set_dispatch_time(&mut self, group: GroupId, at: Ticks) {
        self.groups.at_mut(group.0).dispatch_at = at;
        self.requeue_pending(group, at);
    }

    /// Places a group among the pending ones by its dispatch time `at`.
    #[inline]
    pub(super) fn requeue_pending(&mut self, group: GroupId, at: Ticks) {
        self.no_longer_pending(group);
        let queue = self.queue_above(group);
        self.pending.at_mut(queue).insert(&mut self.pending_links, group.0, at);
        let entry: &mut Group = self.groups.at_mut(group.0);
        entry.is_pending = true;
        entry.dispatch_at = at;
        let above: &mut ServiceQueue = self.service_mut(queue);
        above.pending = above.pending.wrapping_add(1);
    }

    pub(super) fn no_longer_pending(&mut self, group: GroupId) {
        if !self.groups.at(group.0).is_pending {
            return;
        }
        let queue = self.queue_above(group);
        self.pending.at_mut(queue).remove(&mut self.pending_links, group.0);
        self.groups.at_mut(group.0).is_pending = false;
        let above = self.service_mut(queue);
        above.pending = above.pending.wrapping_sub(1);
    }

    /// Arms a queue's timer for its first pending group, if its time lies in the future or if
    /// forced. True if nothing can be dispatched now: the timer is armed, or no group is pending.
    pub(super) fn arm_for_first(&mut self, queue: u32, is_forced: bool, now: Ticks) -> bool {
        let Some(first) = self.pending.at(queue).first() else { return true };
        let at = self.groups.at(first).dispatch_at;
        if !is_forced && at <= now {
            return false;
        }
        let longest = self.clock.slice.saturating_mul(LONGEST_TIMER_SLICES);
        self.arm(queue, at.clamp(now, now.saturating_add(longest)), now);
        true
    }

    pub(super) fn arm(&mut self, queue: u32, at: Ticks, now: Ticks) {
        self.disarm(queue);
        self.timers.insert(&mut self.timer_links, queue, at);
        self.service_mut(queue).timer_at = Some(at);
        if self.is_traced() {
            self.log_timer(queue, at, now);
        }
    }

    pub(super) fn disarm(&mut self, queue: u32) {
        if self.timer_links.is_linked(queue) {
            self.timers.remove(&mut self.timer_links, queue);
        }
        self.service_mut(queue).timer_at = None;
    }

    fn service_mut(&mut self, queue: u32) -> &mut ServiceQueue {
        if queue >= self.groups.len() { &mut self.top } else { &mut self.groups.at_mut(queue).service }
    }
}
