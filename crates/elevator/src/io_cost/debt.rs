//! Debt: the cost of I/O that could not wait until its group had the budget. Debt is paid from
//! later budget before any bio is issued, delays the group's tasks, and is halved repeatedly while
//! the device has time to spare.

use super::IoCost;
use super::clock::{Vtime, ahead, scaled};
use super::group::{Group, Stage};
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
        let is_first = entry.debt == 0;
        entry.debt = entry.debt.saturating_add(absolute);
        entry.indebted.is_now(true, now);
        let active = entry.active;
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
        let paid = scaled(budget.unsigned_abs(), share).min(entry.debt);
        entry.skip(charged(paid, share));
        self.reduce_debt(group, paid, now);
    }

    pub(super) fn reduce_debt(&mut self, group: GroupId, by: Vtime, now: Nanos) {
        let entry = self.groups.at_mut(group);
        entry.debt = entry.debt.saturating_sub(by);
        let is_clear = entry.debt == 0;
        let spent_us = entry.indebted.is_now(!is_clear, now);
        entry.stats.indebt_us = entry.stats.indebt_us.saturating_add(spent_us);
        if is_clear {
            // The debt is paid: the group lends as much as before the debt, or nothing if a bio is
            // waiting.
            let inuse = if entry.waiting.is_empty() { entry.last_inuse } else { entry.active };
            let active = entry.active;
            self.groups.set_weights(group, active, inuse);
        }
    }

    /// Updates the delay: it rises at once when the debt rises, and otherwise is halved every
    /// second.
    #[inline(never)]
    pub(super) fn update_delay(&mut self, group: GroupId, share: u32, now: Nanos) {
        let vnow = self.clock.at(now);
        let hundredth = (self.period_vtime_at_base() / 100).max(1);
        let entry = self.groups.at_mut(group);
        let behind = ahead(entry.vtime.wrapping_add(charged(entry.debt, share)), vnow).max(0).unsigned_abs();
        let wanted_ns = delay_for(behind.checked_div(hundredth).unwrap_or(0));
        let mut delay_ns = entry.delay_at(now);
        if wanted_ns > delay_ns {
            (entry.delay_ns, entry.delay_at_ns) = (wanted_ns, now);
            delay_ns = wanted_ns;
        }
        if delay_ns < DELAY_NS.0 {
            entry.delay_ns = 0;
        }
        let is_delayed = entry.delay_ns > 0;
        let spent_us = entry.delayed.is_now(is_delayed, now);
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
        let used_us = if is_late { used_us.max(self.period_ns / 1_000) } else { used_us };
        let halvings = self.forgiveness.period(used_us, now);
        if halvings == 0 {
            return;
        }
        let mut next = self.active.first();
        for _ in 0..self.active.len() {
            let Some(index) = next else { return };
            next = self.active_links.next(index);
            let group = GroupId(index);
            let entry = self.groups.at_mut(group);
            let (debt, delay_ns) = (entry.debt, entry.delay_at(now));
            if debt == 0 && delay_ns == 0 {
                continue;
            }
            let left = debt.checked_shr(halvings).unwrap_or(0);
            entry.delay_ns = delay_ns.checked_shr(halvings).unwrap_or(0);
            entry.delay_at_ns = now;
            if debt > 0 {
                self.reduce_debt(group, debt.saturating_sub(left), now);
            }
            let (share, _) = self.groups.shares(group);
            self.update_delay(group, share, now);
            self.note(Some(group), now, "forgive debt={0}->{1} halvings={2}", &[debt, left, halvings.into()]);
            self.wake_at(group, now);
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

impl Group {
    /// The delay with its decay up to `now`.
    pub fn delay_at(&self, now: Nanos) -> Nanos {
        let halvings = now.saturating_sub(self.delay_at_ns) / DELAY_HALVES_NS;
        self.delay_ns.checked_shr(u32::try_from(halvings).unwrap_or(u32::MAX)).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_with_the_debt_between_two_ends() {
        assert_eq!([0, 500, 25_000, 90_000].map(delay_for), [0, 0, 250_000_000, 250_000_000]);
        assert_eq!(delay_for(12_750), 125_125_000);
        let group = Group { delay_ns: 8_000_000, delay_at_ns: 7, ..Group::ABSENT };
        assert_eq!(
            [7, 1_000_000_006, 1_000_000_007, 3_000_000_007].map(|now| group.delay_at(now)),
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
    fn a_busy_device_forgives_nothing() {
        let mut forgiveness = Forgiveness::default();
        forgiveness.restart(0);
        assert_eq!(forgiveness.period(51_000, 100_000_000), 0);
        assert_eq!(forgiveness.period(50_000, 200_000_000), 1);
    }
}
