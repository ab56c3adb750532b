//! Checks every invariant of io.cost, over all groups and bios. For tests; the limiter itself never
//! calls it.

use super::IoCost;
use super::clock::ahead;
use super::group::Stage;
use crate::interface::Violation;
use hoistway_block::GroupId;

const fn violation(what: &'static str, at: u32) -> Violation {
    Violation { what, at }
}

impl IoCost {
    pub(super) fn check_all(&self) -> Result<(), Violation> {
        let mut waiting = 0u32;
        for (group, entry) in self.groups.iter() {
            let at = group.0;
            waiting = waiting.wrapping_add(entry.waiting.len());
            if entry.is_active != self.active_links.is_linked(at) {
                return Err(violation("exactly the competing groups are on the active list", at));
            }
            if entry.is_active && (entry.inuse == 0 || entry.inuse > entry.active || entry.children_active != 0) {
                return Err(violation("a competing group is a leaf and uses some of its weight", at));
            }
            if entry.is_active && entry.active != entry.weight {
                return Err(violation("the active weight of a competing group is its configured weight", at));
            }
            let must_compete = !entry.waiting.is_empty() || entry.debt > 0;
            if must_compete && !(entry.is_active && self.period_end.is_some()) {
                return Err(violation("a group with waiting bios or with debt competes", at));
            }
            if !entry.waiting.is_empty() && !self.wake_links.is_linked(at) {
                return Err(violation("a timer runs for every group with waiting bios", at));
            }
            if !entry.waiting.is_empty() && entry.debt == 0 && entry.inuse != entry.active {
                return Err(violation("a group with waiting bios lends nothing", at));
            }
            if ahead(entry.vtime, entry.done) < 0 {
                return Err(violation("no more has completed than was charged", at));
            }
            if !entry.agrees_with_children() {
                return Err(violation("an inner group uses what its children use", at));
            }
            self.check_sums(group)?;
        }
        let is_running = self.clock.is_running();
        if is_running != self.period_end.is_some() || is_running == self.active.is_empty() {
            return Err(violation("periods run exactly while a group competes", self.active.len()));
        }
        self.check_bios(waiting)
    }

    fn check_sums(&self, group: GroupId) -> Result<(), Violation> {
        let entry = self.groups.at(group);
        let children = self.groups.iter().filter(|(_, child)| child.exists && child.parent == Some(group));
        let sums = children.fold((0u64, 0u64), |(active, inuse), (_, child)| {
            (active.saturating_add(child.active.into()), inuse.saturating_add(child.inuse.into()))
        });
        match sums == (entry.children_active, entry.children_inuse) {
            true => Ok(()),
            false => Err(violation("the sums of the children's weights are right", group.0)),
        }
    }

    fn check_bios(&self, waiting: u32) -> Result<(), Violation> {
        let count = |stage: Stage| {
            let found = self.bios.iter().filter(|state| state.stage == stage).count();
            u32::try_from(found).unwrap_or(u32::MAX)
        };
        if count(Stage::Waiting) != waiting || count(Stage::Released) != self.released.len() {
            return Err(violation("each held bio waits in its group or is released", waiting));
        }
        match self.held == waiting.wrapping_add(self.released.len()) {
            true => Ok(()),
            false => Err(violation("waiting and held bios are equally many", self.held)),
        }
    }
}
