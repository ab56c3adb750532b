//! Per-group state, in the policies that have an engine (CFQ of 2.6.26) per group. There is one
//! [`Cfq`]; its instance is swapped when another group is loaded. Slots,
//! queues, issuers, settings and what is known about the device are shared by all groups.

use super::super::Cfq;
use super::super::profile::Splits;
use crate::interface::Violation;
use crate::structures::{Array, NIL, NoMemory};
use hoistway_block::{GroupId, Nanos};

/// The part of an engine that is not shared: its turn, and what it has in flight.
///
/// Invariant: the timer runs only while a queue is active and waited for.
#[derive(Copy, Clone, Debug)]
pub struct Instance {
    /// The active queue, or NIL.
    pub active: u32,
    pub busy_queues: u32,
    /// From the choice to the completion: requests of async queues, of sync queues.
    pub in_flight: [u32; 2],
    /// The issuer of the first request of the active queue's turn.
    pub active_context: u32,
    pub timer_at: Option<u64>,
    pub idle_since_ns: Option<Nanos>,
    /// Whether the device is idled for the whole group of the active queue.
    pub waits_for_group: bool,
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
        waits_for_group: false,
    };
}

/// What groups have separately, in the policies with a layer above the engine.
///
/// Invariant: the instance of `loaded` is the engine's; the entry here is what it was when it was loaded.
#[derive(Debug)]
pub struct Separate {
    /// With an engine per group: the state of each group's engine while another one is loaded; otherwise empty.
    instances: Array<Instance>,
    /// The group whose instance is loaded.
    loaded: u32,
    /// Which queues are in the groups of their issuers.
    splits: Splits,
}

impl Separate {
    #[inline(always)]
    pub fn try_new(instances: u32, splits: Splits) -> Result<Self, NoMemory> {
        Ok(Self { instances: Array::try_new(instances, Instance::NEW)?, loaded: GroupId::ROOT.0, splits })
    }

    /// Which queues are in the groups of their issuers.
    #[inline]
    pub fn splits(&self) -> Splits {
        self.splits
    }

    pub fn split(&mut self, splits: Splits) {
        self.splits = splits;
    }

    /// Parks the engine's instance and loads that of a group; without effect if groups have none.
    #[inline(always)]
    fn exchange(&mut self, engine: &mut Instance, group: u32) {
        let Some(next) = self.instances.get(group).copied() else { return };
        let before = core::mem::replace(engine, next);
        if let Some(parked) = self.instances.get_mut(self.loaded) {
            *parked = before;
        }
        self.loaded = group;
    }

    /// The instance of a group that is not loaded.
    fn parked_at(&self, group: u32) -> Option<&Instance> {
        self.instances.get(group).filter(|_| group != self.loaded)
    }
}

impl Cfq {
    /// Loads a group's instance; without effect if groups have none. Returns the group that was
    /// loaded before. Constant time.
    #[inline]
    pub(in super::super) fn load_instance(&mut self, group: u32) -> u32 {
        let before = self.separate.loaded;
        if group != before && !self.separate.instances.is_empty() {
            self.exchange_instance(group);
        }
        before
    }

    #[inline(never)]
    fn exchange_instance(&mut self, group: u32) {
        self.separate.exchange(&mut self.engine, group);
    }

    /// Resets a group's instance, because the group's id is about to be reused. Its queues were
    /// removed before.
    pub(super) fn renew_instance(&mut self, group: u32) {
        self.load_instance(group);
        if !self.separate.instances.is_empty() {
            self.engine = Instance::NEW;
        }
    }

    /// When the idle timer of a group's instance fires, in ns.
    pub(super) fn timer_of(&self, group: u32) -> Option<Nanos> {
        let at = self.separate.parked_at(group).unwrap_or(&self.engine).timer_at;
        at.map(|at| self.clock.ticks().ns(at))
    }

    // ---- for checks ----

    /// The active queue of a group's instance.
    pub(in super::super) fn active_of(&self, group: u32) -> u32 {
        self.separate.parked_at(group).unwrap_or(&self.engine).active
    }

    /// The counts of all instances except the loaded one.
    pub(in super::super) fn parked(&self) -> impl Iterator<Item = &Instance> + Clone {
        let loaded = self.separate.loaded;
        self.separate
            .instances
            .iter()
            .enumerate()
            .filter(move |(group, _)| u32::try_from(*group) != Ok(loaded))
            .map(|(_, one)| one)
    }

    /// Checks that the active queue of an instance belongs to its group.
    pub(in super::super) fn check_instances(&self) -> Result<(), Violation> {
        for group in 0..self.separate.instances.len() {
            let active = self.active_of(group);
            let is_own = active == NIL || self.queues.at(active).group == group;
            if !is_own {
                return Err(Violation { what: "the active queue of a group belongs to the group", at: group });
            }
        }
        Ok(())
    }
}
