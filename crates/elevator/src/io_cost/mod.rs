//! io.cost: groups get device time in proportion to their weights, by a model of what each I/O
//! costs.
//!
//! Promise  of backlogged groups, each gets its share of device time, level by level; what a group
//!          does not use goes to the others. The device is given as much as it can complete within
//!          its latency targets.
//! Cost     O(depth) per bio; O(competing groups) once per period (1 ms to 1 s). About 300 bytes a
//!          group, 56 a bio.
//! Fits     shares between containers on flash, above an elevator without shares of its own. Needs
//!          a model that fits the device. Above CFQ, BFQ or a similar policy, two schedulers divide
//!          the same time.
//! Source   Linux 6.1 and 6.12 block/blk-iocost.c; `rules_of_2026` as in Linux's for-next of 2026.
//!
//! submit -> cost in device time -> / the group's share -> within its budget? -> pass | wait
//! period -> idle groups leave -> groups with surplus lend -> the device's clock is adjusted
//!
//! Read `issue.rs` first, then `period.rs`. `clock.rs` is the budget's unit, `model.rs` the cost of
//! an I/O.
//!
//! Inlining is forced or forbidden only where the kernel's stack or instructions need it (lib.rs).

mod active;
mod bios;
mod check;
mod clock;
mod debt;
mod donation;
mod group;
mod hweight;
mod issue;
mod model;
mod period;
mod rows;
mod timers;
mod vrate;

pub use clock::{FULL_RATE, VTIME_PER_S};
pub use group::Stats;
pub use model::{Class, Coefficients, Control, Model, Qos, Speeds};

use crate::group::GroupSettings;
use crate::interface::{Depth, Violation};
use crate::limiter::{BioId, Limiter, LimiterConfiguration, LimiterPolicy, RequestEnd, Verdict};
use crate::message::{Message, Messages};
use crate::request::Bio;
use crate::structures::NoMemory;
use crate::tunable::{SettingError, Tunable};
use active::ActiveGroups;
use bios::Bios;
use clock::Clock;
use debt::Forgiveness;
use group::Group;
use hoistway_block::{Flags, GroupId, Nanos};
use hweight::{Groups, Weights, weight_of};
use model::{Prices, RATE_PPM};
use period::Period;
use timers::Timers;
use vrate::Feedback;

/// Bios that tasks of other groups may wait for: holding them back could stall every group.
const MUST_NOT_WAIT: Flags = Flags::META.with(Flags::SWAP);

/// The limiter's state.
#[derive(Debug)]
pub struct IoCost {
    qos: Qos,
    model: Model,
    class: Class,
    prices: Prices,
    is_rotational: bool,
    /// Whether the corrections of 2026 apply: see [`IoCost::usage`] and [`IoCost::adjust_rate`].
    has_rules_of_2026: bool,

    clock: Clock,
    /// The clock's rate without compensation.
    base_rate: u64,
    /// Budget granted in excess (positive) or lost (negative), to be compensated by the clock.
    error: i64,
    feedback: Feedback,

    period: Period,
    forgiveness: Forgiveness,

    groups: Groups,
    active: ActiveGroups,
    timers: Timers,
    bios: Bios,

    messages: Messages,
    violations: u32,
}

impl LimiterPolicy for IoCost {
    fn build(configuration: &LimiterConfiguration) -> Result<Self, NoMemory> {
        let groups = configuration.groups.max(1);
        let class = class_of(configuration.rotational, configuration.depth);
        let mut built = Ok(Self {
            qos: class.qos(),
            model: class.model(),
            class,
            prices: Prices::of(&class.model()),
            is_rotational: configuration.rotational,
            has_rules_of_2026: false,
            clock: Clock::STOPPED,
            base_rate: FULL_RATE,
            error: 0,
            feedback: Feedback::default(),
            period: Period::NONE,
            forgiveness: Forgiveness::default(),
            groups: Groups::try_new(groups)?,
            active: ActiveGroups::try_new(groups)?,
            timers: Timers::try_new(groups)?,
            bios: Bios::try_new(configuration.bios)?,
            messages: Messages::try_new()?,
            violations: 0,
        });
        if let Ok(io_cost) = &mut built {
            let io_cost: &mut Self = io_cost;
            io_cost.refresh_period();
            io_cost.groups.at_mut(GroupId::ROOT).exists = true;
        }
        built
    }
}

/// The initial class of a device; its speed may show later that it belongs to another one.
fn class_of(is_rotational: bool, depth: Depth) -> Class {
    match depth.device {
        _ if is_rotational => Class::Disk,
        1 => Class::FlashDepth1,
        _ => Class::Flash,
    }
}

impl Limiter for IoCost {
    #[inline]
    fn submit(&mut self, id: BioId, bio: &Bio, now: Nanos) -> Verdict {
        if !self.qos.is_enabled || bio.group == GroupId::ROOT || !self.groups.at(bio.group).exists {
            return Verdict::Pass;
        }
        self.submit_to_group(id, bio, now)
    }

    fn next_released(&mut self, _now: Nanos) -> Option<BioId> {
        self.bios.take_released().map(BioId)
    }

    fn withdrawn(&mut self, id: BioId, now: Nanos) {
        self.stop_waiting(id.0, now);
    }

    fn merged(&mut self, id: BioId, _bio: &Bio, now: Nanos) {
        self.give_back_place(id.0, now);
    }

    fn request_ended(&mut self, end: &RequestEnd, now: Nanos) {
        if self.qos.is_enabled {
            self.tally(end, now);
        }
    }

    fn bio_ended(&mut self, id: BioId, _bio: &Bio, _submitted_ns: Nanos, _now: Nanos) {
        self.end_of(id.0);
    }

    fn waited_for_request(&mut self, ns: Nanos) {
        self.feedback.waited(ns);
    }

    fn next_timer(&self) -> Option<Nanos> {
        match (self.timers.next(), self.period.end()) {
            (Some(wake), Some(end)) => Some(wake.min(end)),
            (wake, end) => wake.or(end),
        }
    }

    fn timer(&mut self, now: Nanos) {
        if self.period.end().is_some_and(|end| end <= now) {
            self.wake_all(now);
            self.end_period(now);
        }
        // Each group at most once: one whose timer is due again is woken by the next call.
        for _ in 0..self.groups.len() {
            let Some(group) = self.timers.due(now) else { return };
            self.timers.clear(group);
            self.wake(group, now);
        }
    }

    fn group_added(&mut self, group: GroupId, settings: &GroupSettings, _now: Nanos) {
        if group.0 >= self.groups.len() || self.groups.at(group).is_active {
            self.violations = self.violations.saturating_add(1);
            return;
        }
        let parent = (group != GroupId::ROOT).then_some(settings.parent);
        let weight = weight_of(settings.clamped_weight());
        let weights = Weights::of(weight);
        *self.groups.at_mut(group) = Group { exists: true, parent, weights, ..Group::ABSENT };
    }

    fn group_changed(&mut self, group: GroupId, settings: &GroupSettings, now: Nanos) {
        self.change_weight(group, weight_of(settings.clamped_weight()), now);
    }

    fn group_removed(&mut self, group: GroupId, now: Nanos) {
        if !self.groups.at(group).waiting.is_empty() {
            self.violations = self.violations.saturating_add(1);
            self.release_all_of(group, now);
        }
        self.deactivate(group, now);
        self.stop_if_idle(now);
        if !self.groups.at(group).weights.is_inner() {
            *self.groups.at_mut(group) = Group::ABSENT;
        } else {
            self.violations = self.violations.saturating_add(1);
        }
    }

    fn depth_changed(&mut self, depth: Depth) {
        // If the class is `FlashFast`, which was learned from the device's speed, it is kept as
        // long as the new depth means flash with more than one command.
        let class = class_of(self.is_rotational, depth);
        let is_refined = self.class == Class::FlashFast && class == Class::Flash;
        if !is_refined && class != self.class {
            self.become_class(class);
        }
    }

    fn drain(&mut self, now: Nanos) {
        for index in 0..self.groups.len() {
            self.release_all_of(GroupId(index), now);
        }
    }

    fn held(&self) -> u32 {
        self.bios.held()
    }

    fn tunables(&self) -> &'static [Tunable] {
        rows::ROWS
    }

    fn setting(&self, index: usize) -> Option<i64> {
        self.row(index)
    }

    fn set(&mut self, index: usize, value: i64, now: Nanos) -> Result<(), SettingError> {
        self.set_row(index, value, now)
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
        self.check_all()
    }
}

/// Parameters and statistics beyond the `Limiter` interface.
impl IoCost {
    /// Targets and bounds in force.
    pub const fn qos(&self) -> Qos {
        self.qos
    }

    /// The model in force.
    pub const fn model(&self) -> Model {
        self.model
    }

    /// The class that gives the parameters which the user has not set.
    pub const fn class(&self) -> Class {
        self.class
    }

    /// Sets all of `io.cost.qos`. With [`Control::Auto`] only `is_enabled` is used, and the rest is
    /// the default of the device's class. Bounds are clamped to 1 % to 10000 %.
    ///
    /// # Errors
    /// [`SettingError::Range`] if a share is above 100 %, or `min` above `max` (in the kernel:
    /// EINVAL). Nothing has changed then.
    pub fn set_qos(&mut self, qos: &Qos, now: Nanos) -> Result<(), SettingError> {
        let (least, most) = (*RATE_PPM.start(), *RATE_PPM.end());
        let bounded = Qos { min_ppm: qos.min_ppm.clamp(least, most), max_ppm: qos.max_ppm.clamp(least, most), ..*qos };
        if bounded.min_ppm > bounded.max_ppm || qos.read_ppm > 1_000_000 || qos.write_ppm > 1_000_000 {
            return Err(SettingError::Range);
        }
        self.qos = match qos.control {
            Control::User => bounded,
            Control::Auto => Qos { is_enabled: qos.is_enabled, ..self.class.qos() },
        };
        self.feedback.restart_class();
        self.refresh_period();
        if !self.qos.is_enabled {
            self.drain(now);
        }
        Ok(())
    }

    /// Sets all of `io.cost.model`. With [`Control::Auto`] all of it is the default of the device's
    /// class.
    pub fn set_model(&mut self, model: &Model) {
        self.model = match model.control {
            Control::User => *model,
            Control::Auto => self.class.model(),
        };
        self.prices = Prices::of(&self.model);
        self.feedback.restart_class();
    }

    /// Usage and stalls of a group so far.
    pub fn stats(&self, group: GroupId) -> Stats {
        self.groups.at(group).stats
    }

    /// The rate of the device's clock in hundredths of a per cent (`cost.vrate=100.00` is 10000).
    pub const fn vrate_hundredths(&self) -> u64 {
        (self.base_rate.saturating_mul(10_000).saturating_add(FULL_RATE / 2)) / FULL_RATE
    }

    /// Device time that a group owes, in ns at 100 %.
    pub fn debt_ns(&self, group: GroupId) -> Nanos {
        clock::nanos_of(self.groups.at(group).debt.owed())
    }

    /// How long a return to user space of the group's tasks should be delayed, so that tasks that
    /// do not wait for their I/O cannot run up unlimited debt.
    pub fn delay_ns(&self, group: GroupId, now: Nanos) -> Nanos {
        self.groups.at(group).debt.delay_at(now)
    }

    /// A group's share of the device by weight, and by the weight it uses itself; 65536 is the
    /// whole device.
    pub fn shares(&mut self, group: GroupId) -> (u32, u32) {
        self.groups.shares(group)
    }

    /// Adopts a class. The base rate of the clock is 100 % again; this takes effect when the next
    /// period begins.
    fn become_class(&mut self, class: Class) {
        self.class = class;
        if self.qos.control == Control::Auto {
            self.qos = Qos { is_enabled: self.qos.is_enabled, ..class.qos() };
        }
        if self.model.control == Control::Auto {
            self.model = class.model();
            self.prices = Prices::of(&self.model);
        }
        self.base_rate = FULL_RATE;
        self.feedback.restart_class();
        self.refresh_period();
    }

    fn change_weight(&mut self, group: GroupId, weight: u32, now: Nanos) {
        let vnow = self.clock.at(now);
        let entry = self.groups.at_mut(group);
        if !entry.weights.configure(weight) {
            return;
        }
        if entry.is_active {
            // A lender goes on using the same weight, at most the new one. A group in debt keeps
            // the weight that it will use when the debt is paid.
            let inuse = if entry.weights.lends() { entry.weights.inuse() } else { weight };
            let (in_debt, comes_back) = (entry.debt.is_owed(), entry.weights.last_inuse());
            self.groups.set_weights_at(group, weight, inuse, vnow);
            if in_debt {
                self.groups.at_mut(group).weights.return_to(comes_back);
            }
        } else {
            entry.weights.return_to(0);
            self.groups.refresh_inner(group);
        }
    }

    /// Writes a trace message, if messages are recorded.
    #[inline]
    fn note(&mut self, group: Option<GroupId>, now: Nanos, text: &'static str, numbers: &[u64]) {
        if self.messages.is_on() {
            self.write_note(group, now, text, numbers);
        }
    }

    // A separate function that writes the message in place, because a message is 128 bytes, and the
    // kernel's stack is small.
    #[cold]
    fn write_note(&mut self, group: Option<GroupId>, now: Nanos, text: &'static str, numbers: &[u64]) {
        let Some(message) = self.messages.begin(now, text) else { return };
        message.group = group;
        for (place, number) in message.numbers.iter_mut().zip(numbers) {
            *place = *number;
        }
    }
}
