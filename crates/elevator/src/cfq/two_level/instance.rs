//! Per-group state, in the policies that have an engine (CFQ of 2.6.26) per group. There is one
//! [`Cfq`]; the fields that differ between groups are swapped when another group is loaded. Slots,
//! queues, issuers, settings and what is known about the device are shared by all groups.

use super::super::Cfq;
use crate::interface::Violation;
use crate::structures::NIL;
use hoistway_block::Nanos;

/// The part of an engine that is not shared.
#[derive(Copy, Clone, Debug)]
pub struct Instance {
    pub active: u32,
    pub busy_queues: u32,
    pub in_flight: [u32; 2],
    active_context: u32,
    timer_at: Option<u64>,
    idle_since_ns: Option<Nanos>,
}

impl Instance {
    /// The state of a group that has done nothing.
    pub const NEW: Instance = Instance {
        active: NIL,
        busy_queues: 0,
        in_flight: [0; 2],
        active_context: NIL,
        timer_at: None,
        idle_since_ns: None,
    };
}

impl Cfq {
    /// Loads a group's instance; without effect if groups have none. Returns the group that was
    /// loaded before. Constant time.
    #[inline]
    pub(in super::super) fn load_instance(&mut self, group: u32) -> u32 {
        let before = self.loaded;
        if group != before && !self.instances.is_empty() {
            self.exchange_instance(group);
        }
        before
    }

    #[inline(never)]
    fn exchange_instance(&mut self, group: u32) {
        let Some(next) = self.instances.get(group).copied() else { return };
        let before = self.replace_instance(next);
        if let Some(parked) = self.instances.get_mut(self.loaded) {
            *parked = before;
        }
        self.loaded = group;
    }

    /// Resets a group's instance, because the group's id is about to be reused. Its queues were
    /// removed before.
    pub(super) fn renew_instance(&mut self, group: u32) {
        self.load_instance(group);
        if !self.instances.is_empty() {
            let _ = self.replace_instance(Instance::NEW);
        }
    }

    fn replace_instance(&mut self, next: Instance) -> Instance {
        let before = Instance {
            active: self.active,
            busy_queues: self.busy_queues,
            in_flight: self.in_flight,
            active_context: self.active_context,
            timer_at: self.timer_at,
            idle_since_ns: self.idle_since_ns,
        };
        (self.active, self.busy_queues, self.in_flight) = (next.active, next.busy_queues, next.in_flight);
        (self.active_context, self.timer_at) = (next.active_context, next.timer_at);
        self.idle_since_ns = next.idle_since_ns;
        before
    }

    /// When the idle timer of a group's instance fires, in ns.
    pub(super) fn timer_of(&self, group: u32) -> Option<Nanos> {
        let at = match self.instances.get(group) {
            Some(instance) if group != self.loaded => instance.timer_at,
            _ => self.timer_at,
        };
        at.map(|at| self.ticks.ns(at))
    }

    // ---- for checks ----

    /// The active queue of a group's instance.
    pub(in super::super) fn active_of(&self, group: u32) -> u32 {
        match self.instances.get(group) {
            Some(instance) if group != self.loaded => instance.active,
            _ => self.active,
        }
    }

    /// The counts of all instances except the loaded one.
    pub(in super::super) fn parked(&self) -> impl Iterator<Item = &Instance> + Clone {
        let loaded = self.loaded;
        self.instances
            .iter()
            .enumerate()
            .filter(move |(group, _)| u32::try_from(*group) != Ok(loaded))
            .map(|(_, one)| one)
    }

    /// Checks that the active queue of an instance belongs to its group.
    pub(in super::super) fn check_instances(&self) -> Result<(), Violation> {
        for group in 0..self.instances.len() {
            let active = self.active_of(group);
            let is_own = active == NIL || self.queues.at(active).group == group;
            if !is_own {
                return Err(Violation { what: "the active queue of a group belongs to the group", at: group });
            }
        }
        Ok(())
    }
}
