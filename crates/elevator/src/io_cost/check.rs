//! Checks every invariant of io.cost, over all groups and bios. For tests; the limiter itself never
//! calls it.

use super::IoCost;
use super::clock::ahead;
use crate::interface::Violation;
use hoistway_block::GroupId;

const fn violation(what: &'static str, at: u32) -> Violation {
    Violation { what, at }
}

impl IoCost {
    pub(super) fn check_all(&self) -> Result<(), Violation> {
        let mut waiting = 0u32;
        for (group, entry) in self.groups.iter() {
            let (at, weights) = (group.0, &entry.weights);
            waiting = waiting.wrapping_add(entry.waiting.len());
            if entry.is_active != self.active.holds(group) {
                return Err(violation("exactly the competing groups are on the active list", at));
            }
            if entry.is_active && (weights.inuse() == 0 || weights.inuse() > weights.active() || weights.is_inner()) {
                return Err(violation("a competing group is a leaf and uses some of its weight", at));
            }
            if entry.is_active && weights.active() != weights.configured() {
                return Err(violation("the active weight of a competing group is its configured weight", at));
            }
            let must_compete = !entry.waiting.is_empty() || entry.debt.is_owed();
            if must_compete && !(entry.is_active && self.period.is_running()) {
                return Err(violation("a group with waiting bios or with debt competes", at));
            }
            if !entry.waiting.is_empty() && self.timers.at(group).is_none() {
                return Err(violation("a timer runs for every group with waiting bios", at));
            }
            if !entry.waiting.is_empty() && !entry.debt.is_owed() && weights.lends() {
                return Err(violation("a group with waiting bios lends nothing", at));
            }
            if ahead(entry.vtime, entry.done) < 0 {
                return Err(violation("no more has completed than was charged", at));
            }
            self.check_children(group)?;
        }
        let is_running = self.clock.is_running();
        if is_running != self.period.is_running() || is_running == self.active.is_empty() {
            return Err(violation("periods run exactly while a group competes", self.active.len()));
        }
        self.check_bios(waiting)
    }

    fn check_children(&self, group: GroupId) -> Result<(), Violation> {
        let entry = self.groups.at(group);
        let children = self.groups.iter().filter(|(_, child)| child.exists && child.parent == Some(group));
        let sums = children.fold((0u64, 0u64), |(active, inuse), (_, child)| {
            (active.saturating_add(child.weights.active().into()), inuse.saturating_add(child.weights.inuse().into()))
        });
        match entry.weights.agree_with_children(sums) {
            true => Ok(()),
            false => Err(violation("an inner group uses what its children use", group.0)),
        }
    }

    fn check_bios(&self, waiting: u32) -> Result<(), Violation> {
        match self.bios.adds_up(waiting) {
            true => Ok(()),
            false => Err(violation("each held bio waits in its group or is released", waiting)),
        }
    }
}
