//! Creation of a turn, and changes while it runs: volumes, groups, connections, elevator.

use std::io;
use std::sync::Arc;

use hoistway_block::{GroupId, Nanos, Priority};
#[cfg(test)]
use hoistway_elevator::Violation;
use hoistway_elevator::registry::BuildError;
use hoistway_elevator::tunable::{SettingError, Tunable};
use hoistway_elevator::{
    Actuators, Any, Configuration, Depth, Elevator, GroupPriority, GroupSettings, Version, registry,
};
use hoistway_experiment::blkio::Statistics;
use hoistway_experiment::{Limits, SchedulerSpec, Setting};
use hoistway_linux::TOP_CLASS_BYTES;
use hoistway_linux::buffer::Arena;
use hoistway_linux::ring::MAX_SPANS;
use hoistway_queue::{Era, Handover, Merging, RequestQueue, Settings};

use super::buffers::Buffers;
use super::in_flight::InFlight;
use super::occupancy::{Occupancy, Usage};
use super::state::{Connection, ConnectionBounds, Group, Part, Request, Volume, VolumeAbilities};
use super::{Turn, TurnCounters};
use crate::counters::{GroupCounters, Sums};
use crate::damage::Damage;
use crate::memory::Memory;
use crate::table::Table;

/// The most bios, and so parts, that can exist at a time.
const PARTS: u32 = 8_192;
/// The most client requests that can exist at a time.
const REQUESTS: u32 = 16_384;

/// The parameters of a turn.
#[derive(Clone, Debug)]
pub(crate) struct TurnSettings {
    pub memory_bytes: u64,
    pub connections: u32,
    pub groups: u32,
    /// Commands that the device takes at a time.
    pub device_depth: u32,
    /// Whether a smaller depth may be learned and used, where that keeps shares and costs no
    /// throughput.
    pub may_learn_depth: bool,
    /// Requests the queue may hold; 0 = as many as fit.
    pub queue_requests: u32,
    pub max_part_bytes: u32,
    pub is_rotational: bool,
    pub actuators: Actuators,
    pub capacity_sectors: u64,
    pub scheduler: String,
    pub version: Option<Version>,
    pub seed: u64,
}

impl TurnSettings {
    /// Settings for trial builds of schedulers.
    pub fn probe() -> Self {
        Self {
            memory_bytes: 64 << 20,
            connections: 1,
            groups: 2,
            device_depth: 1,
            may_learn_depth: false,
            queue_requests: 0,
            max_part_bytes: 1 << 20,
            is_rotational: false,
            actuators: Actuators::ONE,
            capacity_sectors: 1 << 30,
            scheduler: String::new(),
            version: None,
            seed: 1,
        }
    }

    /// The memory that a turn with these settings uses.
    pub fn arena(&self) -> io::Result<Arc<Arena>> {
        Arena::new(self.memory_bytes).map(Arc::new)
    }

    fn configuration(&self) -> Configuration {
        let requests = if self.queue_requests == 0 { PARTS } else { self.queue_requests.min(PARTS) };
        Configuration {
            slots: PARTS + 1,
            groups: self.groups,
            contexts: self.connections,
            depth: Depth { requests, device: self.device_depth },
            rotational: self.is_rotational,
            actuators: self.actuators,
            queueing: self.device_depth > 1,
            max_sectors: self.max_part_bytes / 512,
            capacity_sectors: self.capacity_sectors,
            seed: self.seed,
            ..Configuration::default()
        }
    }

    pub(super) fn queue_settings(&self) -> Settings {
        Settings {
            configuration: self.configuration(),
            limits: hoistway_queue::Limits {
                max_sectors: self.max_part_bytes / 512,
                max_discard_sectors: u32::MAX,
                max_write_zeroes_sectors: u32::MAX,
                max_segments: u16::try_from(MAX_SPANS).unwrap_or(u16::MAX),
                ..hoistway_queue::Limits::default()
            },
            era: Era::ENGINE,
            merging: Merging::Full,
            bios: PARTS,
        }
    }
}

impl Turn {
    /// A turn without volumes and connections, and with no group but the root.
    ///
    /// # Errors
    /// Unknown scheduler or version.
    pub fn new(settings: &TurnSettings, arena: Arc<Arena>) -> Result<Self, BuildError> {
        let queue = RequestQueue::build(&settings.scheduler, settings.version, &settings.queue_settings())?;
        let mut memory = Memory::new(settings.memory_bytes, settings.groups);
        memory.add_group(GroupId::ROOT.0);
        let zeroes = memory.take_unowned(TOP_CLASS_BYTES).ok_or(BuildError::NoMemory)?;
        let mut groups: Vec<Option<Group>> = (0..settings.groups).map(|_| None).collect();
        if let Some(root) = groups.first_mut() {
            let (name, weight) = (String::new(), hoistway_elevator::group::WEIGHT_DEFAULT);
            let (counters, usage) = (GroupCounters::default(), Usage::default());
            *root =
                Some(Group { name, weight, id: GroupId::ROOT, counters, connections: 0, limits: Limits::NONE, usage });
        }
        Ok(Self {
            queue,
            volumes: Vec::new(),
            groups,
            connections: Table::<Connection>::new(settings.connections),
            requests: Table::<Request>::new(REQUESTS),
            client_memory: Vec::new(),
            parts: Table::<Part>::new(PARTS),
            in_flight: InFlight::new(PARTS as usize + 1),
            buffers: Buffers::new(memory, arena, zeroes, settings.max_part_bytes),
            is_draining: false,
            is_throttle_named: false,
            occupancy: Occupancy::new(settings.device_depth, settings.may_learn_depth),
            plugs: super::plugs::Plugs::default(),
            ends: super::ends::Ends::default(),
            counters: TurnCounters::default(),
            collected: super::tracing::Collected::default(),
            incidents: Vec::new(),
            done: Vec::with_capacity(MAX_SPANS),
            served: Vec::with_capacity(256),
            gathered: Vec::with_capacity(MAX_SPANS),
        })
    }

    // ---- volumes ----

    /// Adds a volume; its number is the file number in actions.
    pub fn add_volume(&mut self, abilities: VolumeAbilities) -> u32 {
        debug_assert!(
            abilities.alignment_bytes.is_power_of_two() && abilities.emptying_alignment_bytes.is_power_of_two()
        );
        let free = self.volumes.iter().position(Option::is_none).unwrap_or(self.volumes.len());
        if free == self.volumes.len() {
            self.volumes.push(None);
        }
        self.volumes[free] = Some(Volume::new(abilities));
        u32::try_from(free).unwrap_or(u32::MAX)
    }

    /// Removes a volume. False while connections use it or an fsync runs.
    pub fn remove_volume(&mut self, volume: u32) -> bool {
        let is_used = self.connections.indices().any(|index| self.connections[index].volume == volume);
        match self.volumes.get_mut(volume as usize) {
            Some(place) if !is_used && place.as_ref().is_some_and(Volume::is_idle) => {
                if let Some(overlay) = place.take().and_then(|volume| volume.overlay) {
                    self.buffers.give_unowned(overlay.memory);
                }
                true
            }
            _ => false,
        }
    }

    /// Makes a volume larger. Connections that do not `follow` keep the size that their client knows.
    pub fn grow_volume(&mut self, volume: u32, size_bytes: u64, follows: impl Fn(u32) -> bool) {
        let Some(Some(grown)) = self.volumes.get_mut(volume as usize) else { return };
        grown.abilities.size_bytes = size_bytes;
        let open: Vec<u32> = self.connections.indices().filter(|index| follows(*index)).collect();
        for index in open {
            if self.connections[index].volume == volume {
                self.connections[index].visible_bytes = size_bytes;
            }
        }
    }

    /// A volume's abilities, what it has lost, and its sums.
    pub fn volume(&self, volume: u32) -> Option<(&VolumeAbilities, Option<Damage>, &Sums)> {
        let state = self.volumes.get(volume as usize)?.as_ref()?;
        Some((&state.abilities, state.damage, &state.sums))
    }

    #[inline]
    pub(super) fn volume_of(&self, connection: u32) -> Option<&Volume> {
        self.volumes.get(self.connections[connection].volume as usize)?.as_ref()
    }

    #[inline]
    pub(super) fn volume_of_mut(&mut self, connection: u32) -> Option<&mut Volume> {
        self.volumes.get_mut(self.connections[connection].volume as usize)?.as_mut()
    }

    // ---- groups ----

    /// Adds a group below the root, or below `parent`. `None` when all ids or all memory for
    /// reserves are in use.
    pub fn add_group(&mut self, name: &str, parent: u32, weight: u32, now: Nanos) -> Option<u32> {
        let id = self.queue.groups().first_absent()?;
        if !self.buffers.add_group(id.0) {
            return None;
        }
        let settings = GroupSettings { parent: GroupId(parent), ..GroupSettings::with_weight(weight) };
        if !self.queue.add_group(id, &settings, now) {
            self.buffers.remove_group(id.0);
            return None;
        }
        let (name, counters, usage) = (name.to_owned(), GroupCounters::default(), Usage::default());
        let limits = Limits::NONE;
        self.groups[id.0 as usize] = Some(Group { name, weight, id, counters, connections: 0, limits, usage });
        Some(id.0)
    }

    /// Removes a group with its limits, counters and reserve. False, and nothing changes, for the root,
    /// while the group has connections, requests or groups below it, or if there is none.
    pub fn remove_group(&mut self, group: u32, now: Nanos) -> bool {
        let Some(Some(Group { id, connections: 0, .. })) = self.groups.get(group as usize) else { return false };
        let id = *id;
        // Its id is free at once, because nothing refers to it any more.
        if self.queue.groups().requests(id) > 0 || !self.buffers.is_idle(group) || !self.queue.remove_group(id, now) {
            return false;
        }
        self.buffers.remove_group(group);
        self.groups[group as usize] = None;
        true
    }

    /// Changes a group's weight. False if there is no such group.
    pub fn set_weight(&mut self, group: u32, weight: u32, now: Nanos) -> bool {
        let Some(Some(state)) = self.groups.get_mut(group as usize) else { return false };
        let settings = GroupSettings { weight, ..*self.queue.groups().settings(state.id) };
        if !self.queue.change_group(state.id, &settings, now) {
            return false;
        }
        state.weight = weight;
        true
    }

    /// Changes a group's priority level, for policies that support levels; none = the policy's
    /// default. False if there is no such group.
    pub fn set_group_priority(&mut self, group: u32, priority: Option<GroupPriority>, now: Nanos) -> bool {
        let Some(Some(state)) = self.groups.get(group as usize) else { return false };
        let settings = GroupSettings { priority, ..*self.queue.groups().settings(state.id) };
        self.queue.change_group(state.id, &settings, now)
    }

    /// Changes the weight of a group's own queues among the groups below it; none = the group's
    /// weight. False if there is no such group.
    pub fn set_leaf_weight(&mut self, group: u32, leaf_weight: Option<u32>, now: Nanos) -> bool {
        let Some(Some(state)) = self.groups.get(group as usize) else { return false };
        let settings = GroupSettings { leaf_weight, ..*self.queue.groups().settings(state.id) };
        self.queue.change_group(state.id, &settings, now)
    }

    /// The settings of a group as passed to the policy.
    pub fn settings_of(&self, group: GroupId) -> &GroupSettings {
        self.queue.groups().settings(group)
    }

    /// All groups: number, group, bytes held.
    pub fn groups(&self) -> impl Iterator<Item = (u32, &Group, u64)> + '_ {
        let groups = self.groups.iter().flatten();
        groups.map(|group| (group.id.0, group, self.buffers.used_bytes(group.id.0)))
    }

    // ---- connections ----

    /// Opens a connection. `None` when all are in use, or if the volume or the group does not exist.
    pub fn open(&mut self, volume: u32, group: u32, bounds: ConnectionBounds, priority: Priority) -> Option<u32> {
        let size_bytes = self.volumes.get(volume as usize)?.as_ref()?.abilities.size_bytes;
        let visible_bytes = size_bytes.min(bounds.visible_bytes);
        self.groups.get(group as usize)?.as_ref()?;
        let connection = Connection { volume, group, bounds, visible_bytes, priority, ..Connection::default() };
        let index = self.connections.take(connection)?;
        self.connections[index].context = index;
        if let Some(Some(group)) = self.groups.get_mut(group as usize) {
            group.connections += 1;
        }
        Some(index)
    }

    /// Sums of a connection, and its volume and group.
    pub fn connection(&self, connection: u32) -> Option<(&Sums, u32, u32)> {
        self.connections.get(connection).map(|state| (&state.sums, state.volume, state.group))
    }

    /// Refuses every new request from now on, and lifts the limits of those in flight.
    pub fn drain(&mut self, now: Nanos) {
        self.is_draining = true;
        self.lift_limits(now);
    }

    // ---- elevator ----

    /// The name of the active policy; during a switch, of the old one.
    pub fn scheduler(&self) -> &'static str {
        self.queue.elevator().name()
    }

    /// Replaces the policy without losing, repeating or failing any request. On an error the old
    /// one stays.
    ///
    /// # Errors
    /// Unknown name, version, tunable or value; or another switch is under way.
    pub fn switch(
        &mut self,
        spec: &SchedulerSpec,
        version: Option<Version>,
        settings: &TurnSettings,
        now: Nanos,
    ) -> Result<(), String> {
        let policy = build_policy(spec, version, settings)?;
        let busy = "another switch of the scheduler is under way; try again when it is done";
        self.queue.switch(policy, Handover::Carry, now).map_err(|_| busy.to_owned())
    }

    /// Whether a switch is waiting for the device to become empty.
    pub fn is_switching(&self) -> bool {
        self.queue.is_switching()
    }

    /// Sets a tunable of the active policy; returns the stored value.
    ///
    /// # Errors
    /// Unknown tunable, not a number, out of range: as a sentence for the user.
    pub fn set_tunable(&mut self, key: &str, value: &str) -> Result<i64, String> {
        let name = self.scheduler();
        self.queue
            .set(key, value)
            .map_err(|error| crate::error::describe_setting(name, key, value, self.queue.elevator().tunables(), error))
    }

    /// Every tunable with its current value.
    pub fn tunables(&self) -> Vec<(&'static Tunable, i64)> {
        self.queue.settings().collect()
    }

    /// How often each reason was given.
    pub fn reasons(&self) -> Vec<(&'static str, u64)> {
        self.queue.reasons().collect()
    }

    /// The scheduler's statistics of a group's service.
    pub fn account(&self, group: GroupId) -> Option<Statistics> {
        Statistics::of(self.queue.elevator(), group)
    }

    /// Resets the scheduler's statistics of a group's service. False if it keeps none.
    pub fn reset_account(&mut self, group: u32, now: Nanos) -> bool {
        let Some(Some(state)) = self.groups.get(group as usize) else { return false };
        self.queue.reset_group_account(state.id, now)
    }

    /// The queue's counters.
    pub fn queue_counters(&self) -> hoistway_queue::Counters {
        *self.queue.counters()
    }

    /// The turn's own counters, with the violations of queue and policy.
    pub fn counters(&self) -> TurnCounters {
        let violations = self.counters.violations + u64::from(self.queue.violations());
        TurnCounters { violations, ..self.counters }
    }

    /// The number of requests for memory that were refused.
    pub fn memory_refusals(&self) -> u64 {
        self.buffers.refusals()
    }

    /// Checks every invariant of queue and policy.
    ///
    /// # Errors
    /// The first violated invariant.
    #[cfg(test)]
    pub fn check(&self) -> Result<(), Violation> {
        self.queue.check()
    }
}

/// Checks that a scheduler with these tunables and values exists.
///
/// # Errors
/// The problem, as a sentence for the user.
pub(crate) fn check_scheduler(
    spec: &SchedulerSpec,
    version: Option<Version>,
    settings: &TurnSettings,
) -> Result<(), String> {
    build_policy(spec, version, settings).map(drop)
}

fn build_policy(spec: &SchedulerSpec, version: Option<Version>, settings: &TurnSettings) -> Result<Any, String> {
    let name = &spec.name;
    let mut policy = registry::build(name, version, &settings.configuration())
        .map_err(|error| crate::error::describe_build(name, error))?;
    for Setting { key, value } in &spec.settings {
        let row = policy.tunables().iter().position(|row| row.name == key);
        let set = match row.and_then(|index| Some((index, policy.tunables().get(index)?))) {
            None => Err(SettingError::Unknown),
            // The kernel clamps silently; on a command line that would hide a mistyped unit.
            Some((index, row)) => match row.parse(value) {
                Ok(value) if (row.min..=row.max).contains(&value) => policy.set(index, value),
                Ok(_) => Err(SettingError::Range),
                Err(error) => Err(error),
            },
        };
        set.map_err(|error| crate::error::describe_setting(name, key, value, policy.tunables(), error))?;
    }
    Ok(policy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_reaches_the_queue_and_outlives_other_changes() {
        let settings = TurnSettings { groups: 4, scheduler: "uchida".to_owned(), ..TurnSettings::probe() };
        let mut turn = Turn::new(&settings, settings.arena().expect("memory")).expect("a turn");
        let group = turn.add_group("g", 0, 300, 0).expect("a group");
        let of_queue = |turn: &Turn| *turn.queue.groups().settings(GroupId(group));
        assert_eq!(of_queue(&turn).priority, None);
        let level = GroupPriority::new(2).ok();
        assert!(turn.set_group_priority(group, level, 1) && turn.set_weight(group, 200, 2));
        assert_eq!((of_queue(&turn).priority, of_queue(&turn).weight), (level, 200));
        assert!(turn.set_group_priority(group, None, 3) && !turn.set_group_priority(3, level, 4));
        assert_eq!(of_queue(&turn).priority, None);
    }
}
