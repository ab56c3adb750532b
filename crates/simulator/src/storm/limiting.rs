//! The limiters of a storm: added and removed, with limits and tunables that change while bios are
//! held.

use hoistway_block::random::Stream;
use hoistway_block::time::{MICROSECOND, MILLISECOND, SECOND};
use hoistway_block::{GroupId, Nanos};
use hoistway_elevator::limiters::{AnyLimiter, LIMITERS};
use hoistway_elevator::{Ceiling, Ceilings, GroupSettings, IoLimits, Limiter, Rates};

use super::{GROUPS, StormState, below, u32_below};
use crate::invariants::Broken;

/// The longest pause of a storm's machine.
const LONGEST_PAUSE_NS: Nanos = SECOND;

/// The limiter part of a storm. It has its own random stream, so that storms without limiters stay
/// the same.
pub(super) struct Limiting {
    random: Stream,
    names: Vec<&'static str>,
    changes_per_mille: u64,
    toggles: bool,
    /// How often the machine pauses, so that requests in the device appear to take long.
    pauses_per_mille: u64,
    /// Whether some limits are so tight that the storm ends only after they are lifted.
    is_tight: bool,
    /// Bios that were held.
    pub held: u64,
    /// Changes of limits, tunables and limiters.
    pub changes: u64,
}

impl Limiting {
    /// Draws the limiters of a storm: those `given` or, if none are given, in every third storm
    /// some of all limiters.
    pub(super) fn draw(seed: u64, given: &[&str]) -> Result<Self, Broken> {
        let mut random = Stream::of(seed, "storm/limiters");
        let mut names = Vec::new();
        for name in given {
            let entry = LIMITERS.iter().find(|entry| entry.name == *name);
            names.push(entry.ok_or_else(|| format!("limiter '{name}' cannot be built"))?.name);
        }
        if given.is_empty() && random.chance(1, 3) {
            names = LIMITERS.iter().map(|entry| entry.name).filter(|_| random.chance(2, 3)).collect();
        }
        let changes_per_mille = [2, 10, 50][below(&mut random, 3)];
        let (toggles, is_tight) = (random.chance(1, 2), random.chance(1, 4));
        let pauses_per_mille = [0, 10, 40][below(&mut random, 3)];
        Ok(Self { random, names, changes_per_mille, pauses_per_mille, toggles, is_tight, held: 0, changes: 0 })
    }

    /// A latency target that is missed at once, sometimes, or almost never; or none.
    pub(super) fn draw_target_ns(&mut self) -> Nanos {
        if self.names.is_empty() {
            return 0;
        }
        [0, 50 * MICROSECOND, 500 * MICROSECOND, 5 * MILLISECOND][below(&mut self.random, 4)]
    }

    fn draw_limits(&mut self) -> IoLimits {
        let random = &mut self.random;
        let most = if self.is_tight && random.chance(1, 8) { 2 } else { u64::MAX };
        let bytes = ((1 << 20) << random.below(10)).min(most);
        let ios = (64 << u32_below(random, 12)).min(u32::try_from(most).unwrap_or(u32::MAX));
        let mut limits = IoLimits::NONE;
        match random.below(7) {
            0 => {}
            1 => limits.max = Rates { bytes_per_s: [bytes, u64::MAX], ..Rates::UNLIMITED },
            2 => limits.max = Rates { bytes_per_s: [u64::MAX, bytes], ios_per_s: [ios, u32::MAX] },
            3 => limits.max = Rates { bytes_per_s: [bytes; 2], ios_per_s: [ios; 2] },
            4 => limits.max = Rates { ios_per_s: [ios; 2], ..Rates::UNLIMITED },
            roll => {
                limits.low = Rates { bytes_per_s: [bytes, bytes / 2], ios_per_s: [0, ios] };
                limits.idle_us = [50, 2_000, u64::MAX][below(random, 3)];
                limits.latency_us = [1, 100, u64::MAX][below(random, 3)];
                if roll == 5 {
                    limits.max.bytes_per_s = [bytes.saturating_mul(2), bytes / 4 + 2];
                }
            }
        }
        // `throttle` keeps the rates, `rate` the ceilings.
        let ceiling = |direction: usize| Ceiling {
            bytes_per_s: limits.max.bytes_per_s[direction],
            ios_per_s: match limits.max.ios_per_s[direction] {
                u32::MAX => u64::MAX,
                ios => u64::from(ios),
            },
        };
        let (read, write) = (ceiling(0), ceiling(1));
        limits.ceilings = Ceilings { read, write, ..Ceilings::NONE };
        limits
    }
}

impl StormState {
    /// Before the first bio: adds the limiters, and groups for them.
    pub(super) fn begin_limiting(&mut self) -> Result<(), Broken> {
        for index in 0..self.limiting.names.len() {
            self.toggle_limiter(index)?;
        }
        if !self.limiting.names.is_empty() {
            for group in 1..=GROUPS / 2 {
                let parent = if self.limiting.random.chance(1, 3) { GroupId(group - 1) } else { GroupId::ROOT };
                let latency_target_ns = self.limiting.draw_target_ns();
                let settings = GroupSettings { parent, latency_target_ns, ..GroupSettings::with_weight(100) };
                self.queue.add_group(GroupId(group), &settings, self.now);
                self.limit_group(GroupId(group));
            }
        }
        Ok(())
    }

    /// Changes something about the limiters, with some probability.
    pub(super) fn change_limits(&mut self) -> Result<(), Broken> {
        let limiting = &mut self.limiting;
        if limiting.names.is_empty() {
            return Ok(());
        }
        if limiting.random.chance(limiting.pauses_per_mille, 1_000) {
            // io.latency changes a depth at most twice a second: without pauses few storms would
            // last that long.
            self.now += limiting.random.below(LONGEST_PAUSE_NS);
        }
        if !limiting.random.chance(limiting.changes_per_mille, 1_000) {
            return Ok(());
        }
        limiting.changes += 1;
        self.attention.touch(true);
        match limiting.random.below(14) {
            0 if limiting.toggles => {
                let index = below(&mut limiting.random, limiting.names.len());
                self.toggle_limiter(index)?;
            }
            1 => self.turn_limiters_tunable(),
            10.. => {
                let group = GroupId(u32_below(&mut limiting.random, GROUPS));
                let latency_target_ns = limiting.draw_target_ns();
                let settings = GroupSettings { latency_target_ns, ..*self.queue.groups().settings(group) };
                if self.queue.change_group(group, &settings, self.now) {
                    self.note(format!("latency target of group {}: {latency_target_ns} ns", group.0));
                }
            }
            _ => {
                let group = GroupId(u32_below(&mut limiting.random, GROUPS));
                self.limit_group(group);
            }
        }
        Ok(())
    }

    /// At the end: lifts limits that would take too long to wait for.
    pub(super) fn lift_tight_limits(&mut self) {
        for group in (0..GROUPS).map(GroupId) {
            self.lift_tight_limits_of(group);
        }
    }

    /// Lifts the limits of a group, also before it is removed: the limits of its last bios can no
    /// longer be changed then.
    pub(super) fn lift_tight_limits_of(&mut self, group: GroupId) {
        if self.limiting.is_tight {
            self.queue.set_limits(group, &IoLimits::NONE, self.now);
        }
    }

    /// A bio that is held although no timer is pending and nothing is in the device would be held
    /// forever.
    pub(super) fn held_comes_out(&self) -> Result<(), Broken> {
        let held = self.queue.held_by_limiters();
        let is_stuck = held > 0
            && held == self.queue.bios_in_flight()
            && self.queue.in_device() == 0
            && self.queue.next_timer().is_none();
        if is_stuck { Err(format!("P6: limiters hold {held} bios and wait for nothing")) } else { Ok(()) }
    }

    fn limit_group(&mut self, group: GroupId) {
        let limits = self.limiting.draw_limits();
        self.queue.set_limits(group, &limits, self.now);
        self.note(format!("limits of group {}: {limits:?}", group.0));
    }

    fn toggle_limiter(&mut self, index: usize) -> Result<(), Broken> {
        let name = self.limiting.names[index];
        if self.queue.remove_limiter(name, self.now) {
            self.note(format!("{name} removed"));
            return Ok(());
        }
        self.note(format!("{name} added"));
        self.queue.add_limiter(name, self.now).map_err(|error| format!("{name} cannot be added: {error:?}"))
    }

    fn turn_limiters_tunable(&mut self) {
        let rows: Vec<_> = self
            .queue
            .limiters()
            .flat_map(|limiter: &AnyLimiter| limiter.tunables().iter().map(|row| (limiter.name(), row)))
            .collect();
        if rows.is_empty() {
            return;
        }
        let random = &mut self.limiting.random;
        let (limiter, row) = rows[below(random, rows.len())];
        let near = row.default.unwrap_or(row.min).saturating_add(i64::from(u32_below(random, 20)) - 10);
        let value = [row.min, row.max, row.default.unwrap_or(row.max), near][below(random, 4)];
        // A value out of range is refused or clamped by the tunable's row; both are acceptable
        // here.
        let outcome = self.queue.set_limiter(limiter, row.name, &value.to_string(), self.now);
        self.note(format!("{limiter}: {} = {value}: {outcome:?}", row.name));
    }
}
