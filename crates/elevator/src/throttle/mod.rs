//! blk-throttle: absolute limits (`.max`) and best-effort ones (`.low` of 4.12, `.high` of 2016),
//! above any elevator.
//!
//! Promise  a group sends no more than its limit, measured over slices of 100 ms (20 ms on flash),
//!          and tokens that it did not use are kept for at most one slice. Limits of ancestors
//!          apply as well (cgroup v2), or do not (v1). With `.low`, groups are held to that limit
//!          only while some group that has one does not reach it.
//! Cost     a bio without a rule: one test; with rules O(depth of the tree), O(log groups) when it
//!          waits.
//! Fits     hard caps. A cap wastes what its group does not use; for shares, use an elevator with
//!          weights.
//! Source   Linux 6.1 block/blk-throttle.c; the variant of 2016: "block-throttle: add .high limit"
//!          V3.
//!
//! submit -> within the limits of each level? -> pass | wait at the level that is exceeded
//! timer  -> first pending group -> 6 reads and 2 writes at most move up -> ... -> top -> released
//!
//! Read `dispatch.rs` first; `slice.rs` is the arithmetic, `low.rs` the state machine of
//! best-effort limits.

mod dispatch;
mod group;
mod idle;
mod limits;
mod log;
mod low;
mod slice;
mod withdraw;

use crate::group::{GroupSettings, IoLimits};
use crate::interface::Violation;
use crate::limiter::{BioId, Limiter, LimiterConfiguration, LimiterPolicy, RequestEnd, Verdict};
use crate::message::{Message, Messages};
use crate::request::Bio;
use crate::structures::{Array, NoMemory, SortedLinks, Tree};
use crate::tunable::{OutOfRange, SettingError, Tunable, Unit};
pub(crate) use group::Pair;
use group::{DIRECTIONS, Group, Nodes, ServiceQueue};
use hoistway_block::{Flags, GroupId, Nanos, Operation};
use idle::Baselines;
use low::State;
use slice::{Clock, Ticks};

crate::tunables! {
    /// The tunables.
    pub struct Settings {
        /// Length of a slice.
        sample_time_ns: "throttle_sample_time", Unit::Milliseconds, 1..=1_000, 100, OutOfRange::Refuse,
            "Length of a slice; 100 ms on rotational devices, 20 ms on others unless set.";
        /// Whether the limits of ancestors apply.
        hierarchy: "hierarchy", Unit::Boolean, 0..=1, 1, OutOfRange::Refuse,
            "1: a group is bound by the limits above it as well (cgroup v2); 0: each only by its own (v1).";
        /// Which rules of best-effort limits hold: `.low` or `.high`.
        high: "high", Unit::Boolean, 0..=1, 0, OutOfRange::Refuse,
            "0: best-effort limits as `.low` of 4.12; 1: as `.high` of the posting of 2016.";
    }
}

/// The limiter's state.
#[derive(Debug)]
pub struct Throttle {
    settings: Settings,
    clock: Clock,
    tick_ns: Nanos,
    is_rotational: bool,
    groups: Array<Group>,
    /// The device's own service queue: a bio that gets here is released.
    top: ServiceQueue,
    nodes: Nodes,
    /// Pending groups by the time of their first bio, one tree per service queue (the last is the
    /// top's).
    pending: Array<Tree>,
    pending_links: SortedLinks,
    /// Service queues with a timer, sorted by its time. The index of the top queue follows those of
    /// the groups.
    timers: Tree,
    timer_links: SortedLinks,
    state: State,
    baselines: Baselines,
    held: u32,
    messages: Messages,
    violations: u32,
}

impl LimiterPolicy for Throttle {
    fn build(configuration: &LimiterConfiguration) -> Result<Self, NoMemory> {
        let groups = configuration.groups.max(1);
        let queues = groups.checked_add(1).ok_or(NoMemory)?;
        let tick_ns = if configuration.tick_ns == 0 { 1_000_000 } else { configuration.tick_ns };
        let mut settings = Settings::DEFAULT;
        if !configuration.rotational {
            settings.sample_time_ns = 20_000_000;
        }
        Ok(Self {
            settings,
            clock: Clock {
                hz: 1_000_000_000u64.checked_div(tick_ns).unwrap_or(1).max(1),
                slice: slice_of(settings.sample_time_ns, tick_ns),
            },
            tick_ns,
            is_rotational: configuration.rotational,
            groups: groups_with_root(groups)?,
            top: ServiceQueue::EMPTY,
            nodes: Nodes::try_new(configuration.bios, groups)?,
            pending: Array::try_new(queues, Tree::EMPTY)?,
            pending_links: SortedLinks::try_new(groups)?,
            timers: Tree::EMPTY,
            timer_links: SortedLinks::try_new(queues)?,
            state: State::NEW,
            baselines: Baselines::try_new(configuration.rotational)?,
            held: 0,
            messages: Messages::try_new()?,
            violations: 0,
        })
    }
}

impl Limiter for Throttle {
    fn submit(&mut self, id: BioId, bio: &Bio, now: Nanos) -> Verdict {
        let rules = *self.groups.at(bio.group.0).rules.of(bio.direction());
        let is_charged = bio.flags.contains(Flags::BYTES_CHARGED);
        let is_watched = self.state.has_low();
        if !rules.ios && (!rules.bytes || is_charged) && !is_watched {
            return Verdict::Pass;
        }
        self.submit_by_rules(id, bio, now)
    }

    fn next_released(&mut self, _now: Nanos) -> Option<BioId> {
        for direction in DIRECTIONS {
            if let Some(bio) = self.nodes.pop(&mut self.top, direction) {
                self.nodes.at_mut(bio).is_held = false;
                self.held = self.held.wrapping_sub(1);
                return Some(BioId(bio));
            }
        }
        None
    }

    fn withdrawn(&mut self, id: BioId, now: Nanos) {
        if !self.take_out(id.0, self.ticks(now)) {
            self.violations = self.violations.saturating_add(1);
        }
    }

    fn request_ended(&mut self, end: &RequestEnd, now: Nanos) {
        if self.state.has_low() && self.state.is_low() && end.issued_ns != 0 {
            self.baselines.sample(&end.attributes, now.saturating_sub(end.issued_ns));
        }
    }

    fn bio_ended(&mut self, _id: BioId, bio: &Bio, submitted_ns: Nanos, now: Nanos) {
        if self.state.has_low() {
            self.bio_ended_in(bio, submitted_ns, now);
        }
    }

    fn next_timer(&self) -> Option<Nanos> {
        let first = self.timers.first()?;
        Some(self.timer_links.key(first)?.saturating_mul(self.tick_ns))
    }

    fn timer(&mut self, now: Nanos) {
        let now = self.ticks(now);
        // Each service queue at most once per call: one whose timer is due again fires in the next
        // call.
        for _ in 0..self.pending.len() {
            let Some(queue) = self.timers.first() else { return };
            if self.timer_links.key(queue).is_none_or(|at| at > now) {
                return;
            }
            self.disarm(queue);
            self.timer_of(queue, now);
        }
    }

    fn group_added(&mut self, group: GroupId, settings: &GroupSettings, now: Nanos) {
        self.add_group(group, settings, self.ticks(now));
    }

    fn limits_changed(&mut self, group: GroupId, limits: &IoLimits, now: Nanos) {
        self.configure(group, limits, self.ticks(now));
    }

    fn group_offline(&mut self, group: GroupId, now: Nanos) {
        self.take_offline(group, self.ticks(now));
    }

    fn group_removed(&mut self, group: GroupId, _now: Nanos) {
        if self.groups.at(group.0).service.queued != group::Pair::default() {
            self.violations = self.violations.saturating_add(1);
            return;
        }
        if let Some(parent) = self.groups.at(group.0).parent {
            let children = &mut self.groups.at_mut(parent.0).children;
            *children = children.saturating_sub(1);
        }
        *self.groups.at_mut(group.0) = Group::ABSENT;
    }

    fn drain(&mut self, _now: Nanos) {
        self.release_all();
    }

    fn held(&self) -> u32 {
        self.held
    }

    fn tunables(&self) -> &'static [Tunable] {
        Settings::ROWS
    }

    fn setting(&self, index: usize) -> Option<i64> {
        self.settings.get(index)
    }

    fn set(&mut self, index: usize, value: i64, now: Nanos) -> Result<(), SettingError> {
        let mut settings = self.settings;
        settings.set(index, value)?;
        let now = self.ticks(now);
        if settings.hierarchy == self.settings.hierarchy {
            self.settings = settings;
        } else {
            self.refile_pending(settings, now);
        }
        self.set_slice();
        self.set_all_low();
        self.refresh_rules(now);
        Ok(())
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
        let mut held = 0u32;
        for direction in DIRECTIONS {
            held = held.wrapping_add(self.nodes.count(&self.top, direction));
        }
        for (index, group) in (0..).zip(self.groups.iter()) {
            let mut queued = 0u32;
            for direction in DIRECTIONS {
                let counted = self.nodes.count(&group.service, direction);
                if counted != *group.service.queued.of(direction) {
                    return Err(Violation { what: "a group counts its queued bios", at: index });
                }
                queued = queued.wrapping_add(counted);
            }
            if (queued > 0) != group.is_pending || group.is_pending != self.pending_links.is_linked(index) {
                return Err(Violation { what: "a group is pending exactly while it has queued bios", at: index });
            }
            held = held.wrapping_add(queued);
        }
        if held != self.held {
            return Err(Violation { what: "waiting and held bios are equally many", at: held });
        }
        if self.held > 0 && self.timers.is_empty() && self.nodes.count(&self.top, hoistway_block::Direction::Read) == 0
        {
            let is_released = self.nodes.count(&self.top, hoistway_block::Direction::Write) > 0;
            if !is_released {
                return Err(Violation { what: "a timer runs while bios wait", at: held });
            }
        }
        Ok(())
    }
}

impl Throttle {
    /// Whole ticks.
    #[inline]
    fn ticks(&self, now: Nanos) -> Ticks {
        now.checked_div(self.tick_ns).unwrap_or(now)
    }

    /// Called when `hierarchy` changes, which changes the parents of service queues: groups with
    /// waiting bios become pending in other queues, and all are examined again.
    fn refile_pending(&mut self, settings: Settings, now: Ticks) {
        for group in (0..self.groups.len()).map(GroupId) {
            self.no_longer_pending(group);
            self.keep_by_group(group);
        }
        self.settings = settings;
        for index in 0..self.groups.len() {
            if self.groups.at(index).service.queued != group::Pair::default() {
                self.requeue_pending(GroupId(index), now);
            }
        }
        self.arm_pending(now);
    }

    fn set_slice(&mut self) {
        self.clock.slice = slice_of(self.settings.sample_time_ns, self.tick_ns);
    }
}

#[inline]
fn groups_with_root(groups: u32) -> Result<Array<Group>, NoMemory> {
    let mut groups = Array::try_new(groups, Group::ABSENT)?;
    groups.at_mut(GroupId::ROOT.0).is_online = true;
    Ok(groups)
}

/// Length of a slice in ticks.
fn slice_of(sample_time_ns: i64, tick_ns: Nanos) -> Ticks {
    sample_time_ns.unsigned_abs().checked_div(tick_ns).unwrap_or(1).max(1)
}

/// Deepest level of the tree that is visited: a bound for every walk upwards.
const DEEPEST: u32 = 64;

/// Bytes charged for a bio: a discard moves no data and counts as one sector.
#[inline]
fn charged_bytes(bio: &Bio) -> u32 {
    match bio.operation {
        Operation::Discard => 512,
        _ => bio.extent.sectors.saturating_mul(512),
    }
}
