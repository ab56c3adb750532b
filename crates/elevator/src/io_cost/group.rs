//! State of io.cost for a group and for a bio.

use super::clock::Vtime;
use super::debt::Debt;
use super::hweight::{ONE, Weights, weight_of};
use crate::group::WEIGHT_DEFAULT;
use crate::structures::List;
use hoistway_block::{GroupId, Nanos, Sector};

/// Usage and stalls of a group, for `io.stat`. Updated at the end of each period.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Device time used, in us (`cost.usage`).
    pub usage_us: u64,
    /// Time in which a bio of the group waited for budget (`cost.wait`).
    pub wait_us: u64,
    /// Time in debt (`cost.indebt`).
    pub indebt_us: u64,
    /// Time in which returns to user space were delayed (`cost.indelay`).
    pub indelay_us: u64,
}

/// Total time of a condition that comes and goes.
#[derive(Copy, Clone, Debug, Default)]
pub struct StallTimer {
    since: Option<Nanos>,
}

impl StallTimer {
    pub const STOPPED: Self = Self { since: None };

    /// Says whether the condition holds from now on (`is_so`). Returns for how long it has held
    /// since the last call, in us.
    pub fn is_now(&mut self, is_so: bool, now: Nanos) -> u64 {
        let spent_us = self.since.map_or(0, |since| now.saturating_sub(since) / 1_000);
        // Less than a microsecond is carried over to the next call.
        let counted = self.since.map(|since| since.saturating_add(spent_us.saturating_mul(1_000)));
        self.since = is_so.then(|| counted.unwrap_or(now));
        spent_us
    }
}

/// The state of a group on this device.
#[derive(Clone, Debug)]
pub struct Group {
    pub exists: bool,
    pub parent: Option<GroupId>,
    pub weights: Weights,
    /// The group itself (not only a descendant) is active: it is on the list of active groups.
    pub is_active: bool,

    // ---- budget ----
    /// Charged costs: the group may issue while this is not ahead of the device's clock.
    pub vtime: Vtime,
    /// Charged costs of the I/O that has completed.
    pub done: Vtime,
    /// By how much `vtime` was behind the device's clock when `inuse` was last set.
    pub saved_margin: i64,
    /// Number of the last period in which the group issued a bio.
    pub period_index: u64,
    pub activated_ns: Nanos,
    pub cursor: Sector,
    /// Device time used since the end of the last period.
    pub used: Vtime,
    /// Share of the device that the group needs in the next period; 0 = it does not lend.
    pub target: u32,

    // ---- waiting bios ----
    pub waiting: List,
    pub waited: StallTimer,

    pub debt: Debt,
    pub stats: Stats,
}

impl Group {
    pub const ABSENT: Group = Group {
        exists: false,
        parent: None,
        weights: Weights::of(weight_of(WEIGHT_DEFAULT)),
        is_active: false,
        vtime: 0,
        done: 0,
        saved_margin: 0,
        period_index: 0,
        activated_ns: 0,
        cursor: 0,
        used: 0,
        target: 0,
        waiting: List::EMPTY,
        waited: StallTimer::STOPPED,
        debt: Debt::NONE,
        stats: Stats { usage_us: 0, wait_us: 0, indebt_us: 0, indelay_us: 0 },
    };

    /// Charges `span` although nothing was issued, which takes budget away; a negative span (as a
    /// wrapped number) gives budget back.
    #[inline]
    pub fn skip(&mut self, span: Vtime) {
        self.vtime = self.vtime.wrapping_add(span);
        self.done = self.done.wrapping_add(span);
    }
}

/// The state of a bio.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Stage {
    /// The limiter does not know the bio, or passed it without a charge.
    Free,
    /// Waits for budget.
    Waiting,
    /// Released, and not yet fetched by the host.
    Released,
    /// Issued, and charged to its group.
    Charged,
    /// Issued as a debt.
    Owed,
}

/// A bio from its submission to its end.
#[derive(Copy, Clone, Debug)]
pub struct BioState {
    pub stage: Stage,
    pub group: GroupId,
    /// Cost of the bio in device time; `place` is the part of it for positioning.
    pub absolute: Vtime,
    pub place: Vtime,
    /// What the group was charged: the cost divided by `hweight`, the group's share of the device
    /// at that time.
    pub charged: Vtime,
    pub hweight: u32,
}

impl BioState {
    pub const NONE: BioState =
        BioState { stage: Stage::Free, group: GroupId::ROOT, absolute: 0, place: 0, charged: 0, hweight: ONE };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_timer_counts_time_once_and_loses_no_fraction() {
        let mut timer = StallTimer::default();
        assert_eq!(timer.is_now(true, 1_000), 0);
        assert_eq!(timer.is_now(true, 3_600), 2);
        assert_eq!(timer.is_now(false, 4_500), 1);
        assert_eq!(timer.is_now(false, 9_000), 0);
    }
}
