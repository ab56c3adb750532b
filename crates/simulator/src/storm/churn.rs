//! Changes from outside during I/O: groups, issuers, tunables, depths, the policy itself.

use hoistway_block::{ContextId, GroupId};
use hoistway_device::Device;
use hoistway_elevator::registry::{self, ENTRIES};
use hoistway_elevator::{Depth, Elevator, GroupPriority, GroupSettings, GroupState};
use hoistway_queue::Handover;

use super::{CONTEXTS, GROUPS, StormState, below, u32_below};
use crate::invariants::Broken;

impl StormState {
    pub(super) fn churn(&mut self) -> Result<(), Broken> {
        match self.random.below(7) {
            0 => self.add_group(),
            1 => {
                let group = GroupId(u32_below(&mut self.random, GROUPS));
                self.lift_tight_limits_of(group);
                if self.queue.remove_group(group, self.now) {
                    self.note(format!("group {} removed", group.0));
                }
            }
            2 => {
                let group = GroupId(u32_below(&mut self.random, GROUPS));
                let weight = self.draw_weight();
                let (leaf_weight, priority) = beside(weight);
                let settings = GroupSettings { weight, leaf_weight, priority, ..*self.queue.groups().settings(group) };
                if self.queue.change_group(group, &settings, self.now) {
                    self.note(format!("group {} has weight {weight}", group.0));
                }
            }
            3 => self.exit_context(),
            4 => self.turn_tunable(),
            5 => {
                let requests = 1 + u32_below(&mut self.random, 64);
                let device = 1 + u32_below(&mut self.random, self.device.info().depth);
                self.queue.set_depth(Depth { requests, device }, self.now);
                self.note(format!("depths {requests} and {device}"));
            }
            _ => self.switch_policy()?,
        }
        for context in 0..CONTEXTS {
            if self.leaving[context as usize] && self.ledger.open_of(ContextId(context)) == 0 {
                self.leaving[context as usize] = false;
            }
        }
        Ok(())
    }

    fn draw_weight(&mut self) -> u32 {
        [1, 100, 10_000, 1 + u32_below(&mut self.random, 10_000)][below(&mut self.random, 4)]
    }

    fn add_group(&mut self) {
        let group = GroupId(1 + u32_below(&mut self.random, GROUPS - 1));
        let above = GroupId(u32_below(&mut self.random, GROUPS));
        let is_online = self.queue.groups().state(above) == GroupState::Online;
        let parent = if is_online && self.random.chance(1, 3) { above } else { GroupId::ROOT };
        let weight = self.draw_weight();
        let latency_target_ns = self.limiting.draw_target_ns();
        let (leaf_weight, priority) = beside(weight);
        let settings = GroupSettings { parent, weight, latency_target_ns, leaf_weight, priority };
        if self.queue.add_group(group, &settings, self.now) {
            self.tally.groups += 1;
            self.starvation.group_added(group, parent);
            self.note(format!("group {} below {} of weight {weight} added", group.0, parent.0));
        }
    }

    fn exit_context(&mut self) {
        let context = ContextId(u32_below(&mut self.random, CONTEXTS - 1));
        if !self.leaving[context.0 as usize] {
            self.leaving[context.0 as usize] = true;
            self.queue.context_exited(context, self.now);
            self.starvation.exited(context);
            self.note(format!("context {} exited", context.0));
        }
    }

    fn turn_tunable(&mut self) {
        let rows = self.queue.elevator().tunables();
        if rows.is_empty() {
            return;
        }
        if rows.iter().any(|row| row.name == "slice_idle") && self.random.chance(1, 3) {
            return self.flip_idling();
        }
        let row = &rows[below(&mut self.random, rows.len())];
        let near = row.default.unwrap_or(row.min).saturating_add(i64::from(u32_below(&mut self.random, 20)) - 10);
        let value = [row.min, row.max, row.default.unwrap_or(row.max), near][below(&mut self.random, 4)];
        // A value out of range is refused or clamped by the tunable's row; both are acceptable
        // here.
        let outcome = self.queue.set(row.name, &value.to_string());
        self.starvation.tuned(&self.queue);
        self.note(format!("{} = {value}: {outcome:?}", row.name));
    }

    /// Switches CFQ's idling on or off. With idling CFQ charges time, without it requests; a storm
    /// must do both under one load.
    fn flip_idling(&mut self) {
        let is_waiting = self.queue.settings().any(|(row, value)| row.name == "slice_idle" && value > 0);
        let value = if is_waiting { "0" } else { "8" };
        let outcome = self.queue.set("slice_idle", value);
        self.starvation.tuned(&self.queue);
        self.note(format!("slice_idle = {value}: {outcome:?}"));
    }

    fn switch_policy(&mut self) -> Result<(), Broken> {
        if !self.intensity.switches || self.queue.is_switching() {
            return Ok(());
        }
        let own = registry::find(&self.policy).unwrap_or(&ENTRIES[0]);
        let entry = if self.random.chance(1, 2) { own } else { &ENTRIES[below(&mut self.random, ENTRIES.len())] };
        let versions = entry.versions;
        let version = versions[below(&mut self.random, versions.len())];
        let next = registry::build(entry.name, Some(version), &self.configuration)
            .map_err(|error| format!("{} cannot be built: {error:?}", entry.name))?;
        let handover = if self.random.chance(1, 2) { Handover::Drain } else { Handover::Carry };
        self.note(format!("switch to {}@{version:?}, {handover:?}", entry.name));
        self.starvation.will_switch(Some(version));
        let outcome = self.queue.switch(next, handover, self.now);
        outcome.map_err(|_| "a switch was refused although none is under way".to_owned())?;
        self.starvation.observe(&mut self.queue)
    }
}

/// Derives from a group's weight the weight of its own tasks and its priority level; some groups
/// get none.
fn beside(weight: u32) -> (Option<u32>, Option<GroupPriority>) {
    let leaf_weight = weight.is_multiple_of(3).then_some(1 + weight / 7);
    (leaf_weight, GroupPriority::new(weight % 9).ok())
}
