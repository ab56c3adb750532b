//! Debt: the cost of I/O that could not wait until its group had the budget. Debt is paid from
//! later budget before any bio is issued, delays the group's tasks, and is halved repeatedly while
//! the device has time to spare.

use super::IoCost;
use super::clock::{Vtime, ahead, scaled};
use super::group::{Stage, StallTimer};
use super::hweight::charged;
use hoistway_block::{GroupId, Nanos};

/// Delay of a task's return to user space: 250 us for a group whose debt makes it 500 % of a period
/// late, rising to 250 ms at 25000 %.
const DELAY_NS: (Nanos, Nanos) = (250_000, 250_000_000);
const BEHIND_PERCENT: (u64, u64) = (500, 25_000);
/// The half-life of a delay.
const DELAY_HALVES_NS: Nanos = 1_000_000_000;
/// How often debts are halved, and the highest utilisation of the device, in per cent, at which
/// they are.
const FORGIVEN_EVERY_NS: Nanos = 100_000_000;
const FORGIVEN_UP_TO_PERCENT: u64 = 50;

/// Utilisation of the device since it was last decided whether to halve debts.
#[derive(Copy, Clone, Debug, Default)]
pub struct Forgiveness {
    since_ns: Nanos,
    /// Time left over that was shorter than one halving interval.
    rest_ns: Nanos,
    used_us: u64,
}

impl Forgiveness {
    pub fn restart(&mut self, now: Nanos) {
        *self = Self { since_ns: now, ..Self::default() };
    }

    /// Accounts for one more period. Returns how many times debts are to be halved.
    fn period(&mut self, used_us: u64, now: Nanos) -> u32 {
        self.used_us = self.used_us.saturating_add(used_us);
        let elapsed_ns = now.saturating_sub(self.since_ns);
        if elapsed_ns < FORGIVEN_EVERY_NS {
            return 0;
        }
        let elapsed_us = (elapsed_ns / 1_000).max(1);
        let percent = self.used_us.saturating_mul(100).checked_div(elapsed_us).unwrap_or(0);
        let rest_ns = self.rest_ns;
        self.restart(now);
        if percent > FORGIVEN_UP_TO_PERCENT {
            return 0;
        }
        let due_ns = elapsed_ns.saturating_add(rest_ns);
        self.rest_ns = due_ns % FORGIVEN_EVERY_NS;
        u32::try_from(due_ns / FORGIVEN_EVERY_NS).unwrap_or(u32::MAX)
    }
}

/// What a group owes, and how long returns of its tasks to user space are delayed for that.
///
/// Invariant: a delay is 0 or at least the shortest one when it was last set.
#[derive(Copy, Clone, Debug)]
pub struct Debt {
    owed: Vtime,
    delay_ns: Nanos,
    /// Since when the delay decays.
    delay_at_ns: Nanos,
    indebted: StallTimer,
    delayed: StallTimer,
}

impl Debt {
    pub const NONE: Self =
        Self { owed: 0, delay_ns: 0, delay_at_ns: 0, indebted: StallTimer::STOPPED, delayed: StallTimer::STOPPED };

    #[inline]
    pub const fn owed(&self) -> Vtime {
        self.owed
    }

    #[inline]
    pub const fn is_owed(&self) -> bool {
        self.owed > 0
    }

    #[inline]
    pub const fn is_delayed(&self) -> bool {
        self.delay_ns > 0
    }

    /// The group owes `cost` more. True if it owed nothing before.
    fn add(&mut self, cost: Vtime, now: Nanos) -> bool {
        let is_first = self.owed == 0;
        self.owed = self.owed.saturating_add(cost);
        self.indebted.is_now(true, now);
        is_first
    }

    /// Part of it is paid or forgiven.
    const fn reduce(&mut self, by: Vtime) {
        self.owed = self.owed.saturating_sub(by);
    }

    /// Time in debt since the last call, in us.
    pub fn indebted_us(&mut self, now: Nanos) -> u64 {
        self.indebted.is_now(self.is_owed(), now)
    }

    /// The delay with its decay up to `now`.
    pub fn delay_at(&self, now: Nanos) -> Nanos {
        let halvings = now.saturating_sub(self.delay_at_ns) / DELAY_HALVES_NS;
        self.delay_ns.checked_shr(u32::try_from(halvings).unwrap_or(u32::MAX)).unwrap_or(0)
    }

    /// Sets the delay to what is wanted, if that is more than is left of it, and ends one that has decayed. Returns the
    /// time with a delay since the last call, in us.
    fn update_delay(&mut self, wanted_ns: Nanos, now: Nanos) -> u64 {
        let mut delay_ns = self.delay_at(now);
        if wanted_ns > delay_ns {
            (self.delay_ns, self.delay_at_ns) = (wanted_ns, now);
            delay_ns = wanted_ns;
        }
        if delay_ns < DELAY_NS.0 {
            self.delay_ns = 0;
        }
        self.delayed.is_now(self.is_delayed(), now)
    }

    /// Halves the delay `halvings` times. Returns by how much the debt is to be reduced for that, or `None` if there is
    /// neither a debt nor a delay.
    fn halve(&mut self, halvings: u32, now: Nanos) -> Option<Vtime> {
        let delay_ns = self.delay_at(now);
        if self.owed == 0 && delay_ns == 0 {
            return None;
        }
        (self.delay_ns, self.delay_at_ns) = (delay_ns.checked_shr(halvings).unwrap_or(0), now);
        Some(self.owed.saturating_sub(self.owed.checked_shr(halvings).unwrap_or(0)))
    }
}

impl IoCost {
    /// Issues a bio without budget; `share` is the share of the device that the group's whole
    /// weight stands for. While in debt, the group lends all of its weight except the smallest
    /// unit.
    #[inline(never)]
    pub(super) fn owe(&mut self, bio: u32, share: u32, now: Nanos) {
        let Some(state) = self.bios.get_mut(bio) else { return };
        state.stage = Stage::Owed;
        let (group, absolute) = (state.group, state.absolute);
        let entry = self.groups.at_mut(group);
        entry.used = entry.used.saturating_add(absolute);
        let is_first = entry.debt.add(absolute, now);
        let active = entry.weights.active();
        if is_first {
            self.groups.set_weights(group, active, 0);
        }
        self.update_delay(group, share, now);
    }

    /// Pays debt from the present budget. The group is given the budget of its whole weight for
    /// this, although it lends its weight to others.
    #[inline(never)]
    pub(super) fn pay_debt(&mut self, group: GroupId, vnow: Vtime, now: Nanos) {
        let (share, _) = self.groups.shares(group);
        let entry = self.groups.at_mut(group);
        let budget = ahead(vnow, entry.vtime);
        if budget <= 0 {
            return;
        }
        let paid = scaled(budget.unsigned_abs(), share).min(entry.debt.owed());
        entry.skip(charged(paid, share));
        self.reduce_debt(group, paid, now);
    }

    pub(super) fn reduce_debt(&mut self, group: GroupId, by: Vtime, now: Nanos) {
        let entry = self.groups.at_mut(group);
        entry.debt.reduce(by);
        let spent_us = entry.debt.indebted_us(now);
        entry.stats.indebt_us = entry.stats.indebt_us.saturating_add(spent_us);
        if !entry.debt.is_owed() {
            // The debt is paid: the group lends as much as before the debt, or nothing if a bio is
            // waiting.
            let inuse = if entry.waiting.is_empty() { entry.weights.last_inuse() } else { entry.weights.active() };
            let active = entry.weights.active();
            self.groups.set_weights(group, active, inuse);
        }
    }

    /// Updates the delay: it rises at once when the debt rises, and otherwise is halved every
    /// second.
    #[inline(never)]
    pub(super) fn update_delay(&mut self, group: GroupId, share: u32, now: Nanos) {
        let vnow = self.clock.at(now);
        let hundredth = (self.period.vtime_at(self.base_rate) / 100).max(1);
        let entry = self.groups.at_mut(group);
        let behind = ahead(entry.vtime.wrapping_add(charged(entry.debt.owed(), share)), vnow).max(0).unsigned_abs();
        let wanted_ns = delay_for(behind.checked_div(hundredth).unwrap_or(0));
        let spent_us = entry.debt.update_delay(wanted_ns, now);
        entry.stats.indelay_us = entry.stats.indelay_us.saturating_add(spent_us);
    }

    /// Halves debts and delays if the device had time to spare. `used_us`: device time used by
    /// groups in this period.
    #[inline(never)]
    pub(super) fn forgive(&mut self, used_us: u64, debtors: u32, now: Nanos) {
        if debtors == 0 {
            self.forgiveness.restart(now);
            return;
        }
        // If the device is late, the I/O issued as debt may be what overloads it. Therefore it then
        // counts as fully used, so that debts are not halved.
        let is_late = self.feedback.busy > 0;
        let used_us = if is_late { used_us.max(self.period.length_ns() / 1_000) } else { used_us };
        let halvings = self.forgiveness.period(used_us, now);
        if halvings == 0 {
            return;
        }
        let mut next = self.active.first();
        for _ in 0..self.active.len() {
            let Some(group) = next else { return };
            next = self.active.after(group);
            let entry = self.groups.at_mut(group);
            let debt = entry.debt.owed();
            let Some(forgiven) = entry.debt.halve(halvings, now) else { continue };
            if debt > 0 {
                self.reduce_debt(group, forgiven, now);
            }
            let (share, _) = self.groups.shares(group);
            self.update_delay(group, share, now);
            self.note(
                Some(group),
                now,
                "forgive debt={0}->{1} halvings={2}",
                &[debt, debt.saturating_sub(forgiven), halvings.into()],
            );
            self.timers.set(group, now);
        }
    }
}

/// The delay of a group that is `percent` of a period behind.
const fn delay_for(percent: u64) -> Nanos {
    let (low, high) = BEHIND_PERCENT;
    if percent <= low {
        return 0;
    }
    if percent >= high {
        return DELAY_NS.1;
    }
    DELAY_NS.0 + (DELAY_NS.1 - DELAY_NS.0) * (percent - low) / (high - low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_with_the_debt_between_two_ends() {
        assert_eq!([0, 500, 25_000, 90_000].map(delay_for), [0, 0, 250_000_000, 250_000_000]);
        assert_eq!(delay_for(12_750), 125_125_000);
        let debt = Debt { delay_ns: 8_000_000, delay_at_ns: 7, ..Debt::NONE };
        assert_eq!(
            [7, 1_000_000_006, 1_000_000_007, 3_000_000_007].map(|now| debt.delay_at(now)),
            [8_000_000, 8_000_000, 4_000_000, 1_000_000]
        );
    }

    #[test]
    fn the_time_between_halvings_is_carried_over() {
        let mut forgiveness = Forgiveness::default();
        forgiveness.restart(0);
        let halvings: [u32; 9] =
            core::array::from_fn(|index| forgiveness.period(0, 50_000_000 * (index as u64 + 1) + index as u64));
        assert_eq!(halvings.iter().sum::<u32>(), 4, "450 ms: {halvings:?}");
    }

    #[test]
    fn a_delay_rises_at_once_and_is_halved_with_the_debt() {
        let mut debt = Debt::NONE;
        assert!(debt.halve(1, 0).is_none() && debt.add(800, 0) && !debt.add(1, 0));
        assert_eq!((debt.update_delay(1_000_000, 0), debt.update_delay(500_000, 1_000)), (0, 1));
        assert_eq!((debt.halve(1, 1_000), debt.delay_at(1_000)), (Some(401), 500_000));
        debt.reduce(401);
        assert_eq!((debt.owed(), debt.indebted_us(5_000)), (400, 5));
        debt.halve(2, 1_000);
        assert_eq!((debt.update_delay(0, 4_000), debt.is_delayed()), (3, false), "shorter than the shortest");
    }

    #[test]
    fn a_busy_device_forgives_nothing() {
        let mut forgiveness = Forgiveness::default();
        forgiveness.restart(0);
        assert_eq!(forgiveness.period(51_000, 100_000_000), 0);
        assert_eq!(forgiveness.period(50_000, 200_000_000), 1);
    }
}
