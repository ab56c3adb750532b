//! What io.cost keeps of a group and of a bio.

use super::clock::Vtime;
use super::hweight::{ONE, weight_of};
use crate::group::WEIGHT_DEFAULT;
use crate::structures::List;
use block::{GroupId, Nanos, Sector};

/// What a group used and suffered, for `io.stat`. Brought up to date at the end of each period.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Device time used, in us (`cost.usage`).
    pub usage_us: u64,
    /// Time in which a bio was held back (`cost.wait`).
    pub wait_us: u64,
    /// Time in debt (`cost.indebt`).
    pub indebt_us: u64,
    /// Time in which returns to user space were delayed (`cost.indelay`).
    pub indelay_us: u64,
}

/// Time of a condition that comes and goes.
#[derive(Copy, Clone, Debug, Default)]
pub struct Spell {
    since: Option<Nanos>,
}

impl Spell {
    /// Begins, goes on or ends; answers the us since it was last asked that belong to it.
    pub fn is_now(&mut self, is_so: bool, now: Nanos) -> u64 {
        let spent_us = self.since.map_or(0, |since| now.saturating_sub(since) / 1_000);
        // What is less than a microsecond counts the next time.
        let counted = self.since.map(|since| since.saturating_add(spent_us.saturating_mul(1_000)));
        self.since = is_so.then(|| counted.unwrap_or(now));
        spent_us
    }
}

/// A group on this device.
#[derive(Clone, Debug)]
pub struct Group {
    pub exists: bool,
    pub parent: Option<GroupId>,
    /// As configured, [`ONE`] to the unit.
    pub weight: u32,

    // ---- the tree of those who compete ----
    /// Competes itself: is on the list of active groups.
    pub is_active: bool,
    /// Weight while it competes or something below it does, else 0.
    pub active: u32,
    /// What it uses of it; the rest is lent to the others.
    pub inuse: u32,
    /// `inuse` before the last change: what it comes back with.
    pub last_inuse: u32,
    pub children_active: u64,
    pub children_inuse: u64,
    pub hweight_active: u32,
    pub hweight_inuse: u32,
    /// Of which generation of the tree the two above are.
    pub generation: u32,

    // ---- its budget ----
    /// Charged costs: the group may issue while this is not ahead of the device.
    pub vtime: Vtime,
    /// The same, of what has ended.
    pub done: Vtime,
    /// By how much it was behind the device when its `inuse` was last set.
    pub saved_margin: i64,
    /// The last period it issued in.
    pub period_index: u64,
    pub activated_ns: Nanos,
    pub cursor: Sector,
    /// Device time used since the last period's end.
    pub used: Vtime,
    /// Share of the device it needs next period; 0 = all it can get.
    pub target: u32,

    // ---- who waits ----
    pub waiting: List,
    pub waited: Spell,

    // ---- debt ----
    pub debt: Vtime,
    pub indebted: Spell,
    pub delay_ns: Nanos,
    pub delay_at_ns: Nanos,
    pub delayed: Spell,

    pub stats: Stats,
}

impl Group {
    pub const ABSENT: Group = Group {
        exists: false,
        parent: None,
        weight: weight_of(WEIGHT_DEFAULT),
        is_active: false,
        active: 0,
        inuse: 0,
        last_inuse: 0,
        children_active: 0,
        children_inuse: 0,
        hweight_active: ONE,
        hweight_inuse: ONE,
        generation: 0,
        vtime: 0,
        done: 0,
        saved_margin: 0,
        period_index: 0,
        activated_ns: 0,
        cursor: 0,
        used: 0,
        target: 0,
        waiting: List::EMPTY,
        waited: Spell { since: None },
        debt: 0,
        indebted: Spell { since: None },
        delay_ns: 0,
        delay_at_ns: 0,
        delayed: Spell { since: None },
        stats: Stats { usage_us: 0, wait_us: 0, indebt_us: 0, indelay_us: 0 },
    };

    /// Charges (or, negative costs wrapped, pays back) budget without anything having been issued for it.
    #[inline]
    pub fn skip(&mut self, span: Vtime) {
        self.vtime = self.vtime.wrapping_add(span);
        self.done = self.done.wrapping_add(span);
    }
}

/// Where a bio is.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Stage {
    /// Not here, or here without having been charged.
    Free,
    /// Held back.
    Waiting,
    /// Let go, not fetched yet.
    Released,
    /// Gone on, charged to its group.
    Charged,
    /// Gone on as a debt.
    Owed,
}

/// A bio between coming and ending.
#[derive(Copy, Clone, Debug)]
pub struct Ticket {
    pub stage: Stage,
    pub group: GroupId,
    /// Device time, and the part of it for its place.
    pub absolute: Vtime,
    pub place: Vtime,
    /// What the group was charged, and at which share of the device.
    pub charged: Vtime,
    pub hweight: u32,
}

impl Ticket {
    pub const NONE: Ticket =
        Ticket { stage: Stage::Free, group: GroupId::ROOT, absolute: 0, place: 0, charged: 0, hweight: ONE };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spell_counts_its_time_once_and_loses_no_fraction() {
        let mut spell = Spell::default();
        assert_eq!(spell.is_now(true, 1_000), 0);
        assert_eq!(spell.is_now(true, 3_600), 2);
        assert_eq!(spell.is_now(false, 4_500), 1);
        assert_eq!(spell.is_now(false, 9_000), 0);
    }
}
