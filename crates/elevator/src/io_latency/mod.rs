//! io.latency: a group that misses its latency target takes depth from its siblings with a looser
//! target or none.
//!
//! Promise  while a group misses its target, the siblings' number of bios in flight is halved up to
//!          twice a second, down to one; when it keeps the target again, they get a sixteenth of
//!          the depth back at a time. Without a target on the device nothing is measured. No bio
//!          waits while its group has room on every level.
//! Cost     O(depth of the tree) per bio, submitted and ended.
//! Fits     one workload that matters beside others that do not, each in a group; it cannot give
//!          shares among equals.
//! Source   Linux 6.1 block/blk-iolatency.c; docs/specifications/throttle.md, section 5.
//!
//! submit -> each level below the root: depth to change? room? -> pass | wait on that level
//! ended  -> each level: window over? -> target missed: throttle siblings; kept: take it back
//!
//! Read `scale.rs` first: which group is told what. `samples.rs` judges latencies, `delay.rs`
//! applies once a group is at depth 1.

mod delay;
mod group;
mod samples;
mod scale;

use crate::group::GroupSettings;
use crate::interface::{Depth, Violation};
use crate::limiter::{BioId, Limiter, LimiterConfiguration, LimiterPolicy, Verdict};
use crate::message::{Message, Messages};
use crate::request::Bio;
use crate::structures::{Array, Links, List, NoMemory};
use group::{Group, UNLIMITED};
use hoistway_block::time::SECOND;
use hoistway_block::{Flags, GroupId, Nanos};

/// How often throttling is checked for a cause that has gone.
const TIMER_NS: Nanos = SECOND;

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Phase {
    /// Unknown here, or not counted.
    Outside,
    /// In the queue of the group `at`.
    Waiting,
    /// Admitted in the group `at`, and about to try the next level.
    Climbing,
    /// Admitted on all its levels, and counted there until it ends.
    Passed,
}

/// A counted bio.
#[derive(Copy, Clone, Debug)]
struct Counted {
    phase: Phase,
    group: GroupId,
    at: GroupId,
    /// Number of levels that count it, from its group upwards.
    levels: u32,
}

const NOT_COUNTED: Counted = Counted { phase: Phase::Outside, group: GroupId::ROOT, at: GroupId::ROOT, levels: 0 };

/// The statistics of a group for `io.stat`.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Statistics {
    /// Bios that may be in flight; `None` = any number.
    pub depth: Option<u32>,
    /// Bios in flight.
    pub in_flight: u32,
    /// Decaying average of latencies; kept on disks only.
    pub average_ns: Nanos,
    /// Length of a window.
    pub window_ns: Nanos,
    /// Bios of this window that missed the target.
    pub missed: u64,
    /// Bios of this window.
    pub total: u64,
}

/// The limiter's state.
#[derive(Debug)]
pub struct IoLatency {
    is_rotational: bool,
    queue_depth: u32,
    groups: Array<Group>,
    /// Number of groups with a target; while there is none, nothing is counted.
    targets: u32,
    bios: Array<Counted>,
    links: Links,
    /// Bios that were woken and have more levels to pass.
    climbing: List,
    released: List,
    held: u32,
    timer_at: Option<Nanos>,
    messages: Messages,
    violations: u32,
}

impl LimiterPolicy for IoLatency {
    fn build(configuration: &LimiterConfiguration) -> Result<Self, NoMemory> {
        let mut groups = Array::try_new(configuration.groups.max(1), Group::ABSENT)?;
        groups.at_mut(GroupId::ROOT.0).is_present = true;
        Ok(Self {
            is_rotational: configuration.rotational,
            queue_depth: configuration.depth.requests.max(1),
            groups,
            targets: 0,
            bios: Array::try_new(configuration.bios, NOT_COUNTED)?,
            links: Links::try_new(configuration.bios)?,
            climbing: List::EMPTY,
            released: List::EMPTY,
            held: 0,
            timer_at: None,
            messages: Messages::try_new()?,
            violations: 0,
        })
    }
}

impl Limiter for IoLatency {
    fn submit(&mut self, id: BioId, bio: &Bio, now: Nanos) -> Verdict {
        if self.targets == 0 {
            return Verdict::Pass;
        }
        if self.timer_at.is_none() {
            self.timer_at = Some(now.saturating_add(TIMER_NS));
        }
        if bio.group == GroupId::ROOT {
            return Verdict::Pass;
        }
        if self.bios.get(id.0).is_none_or(|counted| counted.phase != Phase::Outside) {
            self.violations = self.violations.saturating_add(1);
            return Verdict::Pass;
        }
        *self.bios.at_mut(id.0) = Counted { phase: Phase::Climbing, group: bio.group, at: bio.group, levels: 0 };
        let has_passed = self.climb(id.0, bio.group, is_root_issued(bio), now);
        if !has_passed {
            self.held = self.held.wrapping_add(1);
        }
        // A change of depth on the way may have woken other bios.
        self.advance(now);
        if has_passed { Verdict::Pass } else { Verdict::Held }
    }

    fn next_released(&mut self, _now: Nanos) -> Option<BioId> {
        let bio = self.released.pop_front(&mut self.links)?;
        self.held = self.held.wrapping_sub(1);
        Some(BioId(bio))
    }

    fn withdrawn(&mut self, id: BioId, now: Nanos) {
        let Counted { phase, group, at, levels } = *self.bios.at(id.0);
        let is_out = match phase {
            Phase::Waiting => self.groups.at_mut(at.0).waiting.remove(&mut self.links, id.0),
            // Another bio that was taken back before it made room for this one.
            Phase::Passed => self.released.remove(&mut self.links, id.0),
            Phase::Outside | Phase::Climbing => false,
        };
        if !is_out {
            self.violations = self.violations.saturating_add(1);
            return;
        }
        *self.bios.at_mut(id.0) = NOT_COUNTED;
        self.held = self.held.wrapping_sub(1);
        let mut group = group;
        for _ in 0..levels {
            let entry = self.groups.at_mut(group.0);
            entry.in_flight = entry.in_flight.wrapping_sub(1);
            self.wake(group);
            let Some(parent) = self.groups.at(group.0).parent else { break };
            group = parent;
        }
        self.advance(now);
    }

    fn bio_ended(&mut self, id: BioId, bio: &Bio, submitted_ns: Nanos, now: Nanos) {
        let counted = *self.bios.at(id.0);
        match counted.phase {
            Phase::Outside => return,
            Phase::Passed => *self.bios.at_mut(id.0) = NOT_COUNTED,
            Phase::Waiting | Phase::Climbing => {
                // Counted as a violation: the bio has not been released.
                self.violations = self.violations.saturating_add(1);
                return;
            }
        }
        let is_root_issued = is_root_issued(bio);
        let mut group = counted.group;
        for _ in 0..counted.levels {
            let entry = self.groups.at_mut(group.0);
            entry.in_flight = entry.in_flight.wrapping_sub(1);
            if entry.target_ns > 0 {
                self.record(group, submitted_ns, is_root_issued, now);
            }
            self.wake(group);
            let Some(parent) = self.groups.at(group.0).parent else { break };
            group = parent;
        }
        self.advance(now);
    }

    fn next_timer(&self) -> Option<Nanos> {
        self.timer_at
    }

    fn timer(&mut self, now: Nanos) {
        if self.timer_at.is_none_or(|at| at > now) {
            return;
        }
        // The next submission arms the timer again; without one, no group needs throttling.
        self.timer_at = None;
        self.check_timers(now);
    }

    fn group_added(&mut self, group: GroupId, settings: &GroupSettings, now: Nanos) {
        if group == GroupId::ROOT {
            return;
        }
        let cookie = self.groups.at(settings.parent.0).children.cookie;
        let Some(entry) = self.groups.get_mut(group.0) else { return };
        *entry = Group { is_present: true, parent: Some(settings.parent), cookie, window_began: now, ..Group::ABSENT };
        self.set_target(group, settings.latency_target_ns);
    }

    fn group_changed(&mut self, group: GroupId, settings: &GroupSettings, _now: Nanos) {
        if group != GroupId::ROOT && self.groups.get(group.0).is_some_and(|entry| entry.is_present) {
            self.set_target(group, settings.latency_target_ns);
        }
    }

    fn group_offline(&mut self, group: GroupId, _now: Nanos) {
        if group != GroupId::ROOT && self.groups.get(group.0).is_some_and(|entry| entry.is_present) {
            self.set_target(group, 0);
            self.clear_scale_above(group);
        }
    }

    fn group_removed(&mut self, group: GroupId, _now: Nanos) {
        let Some(entry) = self.groups.get(group.0).filter(|entry| entry.is_present) else { return };
        if group == GroupId::ROOT || entry.in_flight > 0 || !entry.waiting.is_empty() {
            self.violations = self.violations.saturating_add(1);
            return;
        }
        let (parent, samples) = (entry.parent.unwrap_or(GroupId::ROOT), entry.samples);
        let children = &mut self.groups.at_mut(parent.0).children;
        children.samples = children.samples.saturating_sub(samples);
        self.set_target(group, 0);
        *self.groups.at_mut(group.0) = Group::ABSENT;
    }

    fn depth_changed(&mut self, depth: Depth) {
        self.queue_depth = depth.requests.max(1);
    }

    fn drain(&mut self, _now: Nanos) {
        // Releases all waiting bios whatever the limits; later bios are limited again.
        for index in 0..self.groups.len() {
            while let Some(bio) = self.groups.at_mut(index).waiting.pop_front(&mut self.links) {
                self.count_on_all_levels(bio);
            }
        }
    }

    fn held(&self) -> u32 {
        self.held
    }

    fn take_message(&mut self) -> Option<Message> {
        self.messages.take()
    }

    fn trace(&mut self, on: bool) {
        self.messages.switch(on);
    }

    fn violations(&self) -> u32 {
        self.violations
    }

    fn check(&self) -> Result<(), Violation> {
        let mut waiting = 0u32;
        for (index, group) in (0..).zip(self.groups.iter()) {
            if group.in_flight != self.counted_in(GroupId(index)) {
                return Err(Violation { what: "a group counts its bios in flight", at: index });
            }
            if !group.waiting.is_empty() && group.has_room() {
                return Err(Violation { what: "no bio waits in a group that has room", at: index });
            }
            if group.most_in_flight == 0 {
                return Err(Violation { what: "a group may have one bio in flight at least", at: index });
            }
            if group.cookie > group::DEFAULT_COOKIE || group.children.cookie > group::DEFAULT_COOKIE {
                return Err(Violation { what: "no scale cookie is above the default", at: index });
            }
            waiting = waiting.wrapping_add(group.waiting.len());
        }
        if waiting.wrapping_add(self.released.len()) != self.held {
            return Err(Violation { what: "the held bios are those waiting or released", at: self.held });
        }
        if !self.climbing.is_empty() {
            return Err(Violation { what: "no bio is left between two levels", at: self.climbing.len() });
        }
        if waiting > 0 && self.targets == 0 {
            return Err(Violation { what: "no bio waits without a latency target", at: waiting });
        }
        Ok(())
    }
}

// ---- interface for hosts and tests ----

impl IoLatency {
    /// How long a submitter of the group is to be delayed before its next bio: the most that the
    /// group or an ancestor owes, at most 250 ms.
    pub fn delay_ns(&mut self, group: GroupId, now: Nanos) -> Nanos {
        if self.targets == 0 {
            return 0;
        }
        let mut most = 0;
        let mut at = group;
        for _ in 0..self.groups.len() {
            most = self.groups.at_mut(at.0).delay.due_ns(now).max(most);
            let Some(parent) = self.groups.at(at.0).parent else { break };
            at = parent;
        }
        most
    }

    /// The statistics of a group for `io.stat`.
    pub fn statistics(&self, group: GroupId) -> Statistics {
        let entry = self.groups.at(group.0);
        Statistics {
            depth: (entry.most_in_flight != UNLIMITED).then_some(entry.most_in_flight),
            in_flight: entry.in_flight,
            average_ns: entry.average_ns,
            window_ns: entry.window_ns,
            missed: entry.current.missed,
            total: entry.current.total,
        }
    }

    /// How far the children of a group are throttled: the distance of the group's cookie below its
    /// initial value (docs/specifications/throttle.md, section 5); 0 = not at all.
    pub fn throttling_below(&self, parent: GroupId) -> u32 {
        group::DEFAULT_COOKIE.saturating_sub(self.groups.at(parent.0).children.cookie)
    }

    /// The child on whose behalf the others are throttled.
    pub fn protected_below(&self, parent: GroupId) -> Option<GroupId> {
        self.groups.at(parent.0).children.protected
    }
}

// ---- the path of a bio up the tree ----

impl IoLatency {
    /// Takes a bio upwards from a level as far as there is room. True if it has passed all levels.
    fn climb(&mut self, bio: u32, from: GroupId, is_root_issued: bool, now: Nanos) -> bool {
        let mut group = from;
        // Each level once: there are no more levels than groups.
        for _ in 0..self.groups.len() {
            if group == GroupId::ROOT || !self.groups.at(group.0).is_present {
                break;
            }
            self.follow_cookie(group, now);
            let entry = self.groups.at_mut(group.0);
            self.bios.at_mut(bio).at = group;
            let is_full = !entry.waiting.is_empty() || !entry.has_room();
            if is_full && !is_root_issued {
                entry.waiting.push_back(&mut self.links, bio);
                self.bios.at_mut(bio).phase = Phase::Waiting;
                return false;
            }
            entry.in_flight = entry.in_flight.wrapping_add(1);
            let levels = &mut self.bios.at_mut(bio).levels;
            *levels = levels.wrapping_add(1);
            let Some(parent) = self.groups.at(group.0).parent else { break };
            group = parent;
        }
        self.bios.at_mut(bio).phase = Phase::Passed;
        true
    }

    /// Admits bios that wait in a group, in order, while there is room.
    fn wake(&mut self, group: GroupId) {
        let entry = self.groups.at_mut(group.0);
        while entry.has_room() {
            let Some(bio) = entry.waiting.pop_front(&mut self.links) else { return };
            entry.in_flight = entry.in_flight.wrapping_add(1);
            let counted = self.bios.at_mut(bio);
            counted.levels = counted.levels.wrapping_add(1);
            counted.phase = Phase::Climbing;
            self.climbing.push_back(&mut self.links, bio);
        }
    }

    /// Lets woken bios try the levels above. Each iteration moves a bio up, so the loop ends.
    fn advance(&mut self, now: Nanos) {
        while let Some(bio) = self.climbing.pop_front(&mut self.links) {
            let at = self.bios.at(bio).at;
            let parent = self.groups.at(at.0).parent.unwrap_or(GroupId::ROOT);
            // Root-issued bios are never queued, so this one is not.
            if self.climb(bio, parent, false, now) {
                self.released.push_back(&mut self.links, bio);
            }
        }
    }

    /// Lets a waiting bio pass on all remaining levels, whatever their limits.
    fn count_on_all_levels(&mut self, bio: u32) {
        let mut group = self.bios.at(bio).at;
        for _ in 0..self.groups.len() {
            if group == GroupId::ROOT {
                break;
            }
            let entry = self.groups.at_mut(group.0);
            entry.in_flight = entry.in_flight.wrapping_add(1);
            let levels = &mut self.bios.at_mut(bio).levels;
            *levels = levels.wrapping_add(1);
            let Some(parent) = self.groups.at(group.0).parent else { break };
            group = parent;
        }
        self.bios.at_mut(bio).phase = Phase::Passed;
        self.released.push_back(&mut self.links, bio);
    }

    /// Bios admitted in a group, counted one by one.
    fn counted_in(&self, group: GroupId) -> u32 {
        self.bios.iter().fold(0, |sum: u32, counted| {
            let mut at = counted.group;
            for _ in 0..counted.levels {
                if at == group {
                    return sum.wrapping_add(1);
                }
                at = self.groups.at(at.0).parent.unwrap_or(GroupId::ROOT);
            }
            sum
        })
    }
}

/// Metadata and swap are issued on behalf of all groups: if they waited, tasks of other groups
/// would wait with them.
fn is_root_issued(bio: &Bio) -> bool {
    bio.flags.intersects(Flags(Flags::META.0 | Flags::SWAP.0))
}
