//! Builds a policy of a form, with all its tables, the root group and the spare queue.

use super::Cfq;
use super::clock::Clock;
use super::contexts::{ASYNC_QUEUES, Contexts};
use super::device::Device;
use super::drain::Drain;
use super::group_order::GroupOrder;
use super::groups::Groups;
use super::load::Load;
use super::order::Order;
use super::profile::{FORMS, PerGroup, Profile};
use super::queues::Queues;
use super::sectors::Sectors;
use super::state::{FREE_SLOT, Group, UNKNOWN_GROUP, Workload, WorkloadType};
use super::trees::Trees;
use super::tunables::{Settings, Ticks};
use super::two_level::{Instance, Separate};
use crate::group::{GroupSettings, WEIGHT_DEFAULT};
use crate::interface::{Configuration, Form, Policy};
use crate::message::Messages;
use crate::structures::{Array, NIL, NoMemory};
use hoistway_block::{Class, GroupId};

/// The weight range of 2.6, and the default weight of the root.
const WEIGHT_MIN: u32 = 100;
const WEIGHT_MAX: u32 = 1_000;

impl Policy for Cfq {
    type Profile = &'static Profile;
    const FORMS: &'static [Form<&'static Profile>] = FORMS;

    fn build(configuration: &Configuration, profile: &'static Profile) -> Result<Self, NoMemory> {
        Self::assemble(configuration, profile)
    }
}

impl Cfq {
    /// As [`Policy::build`]; inline, so that a policy that contains a [`Cfq`] builds it in place
    /// and not on the stack.
    #[inline(always)]
    pub(super) fn assemble(configuration: &Configuration, profile: &'static Profile) -> Result<Self, NoMemory> {
        let slots = configuration.slots;
        let groups = configuration.groups.max(1);
        // One more record, for contexts out of range.
        let contexts = configuration.contexts.saturating_add(1);
        let async_groups = if profile.has_async_per_group() { groups } else { 1 };
        let async_queues = async_groups.saturating_mul(ASYNC_QUEUES);
        // Each request can keep alive a queue that no issuer uses any more, so there is a record
        // for every request as well.
        let queues = contexts.saturating_add(async_queues).saturating_add(slots).saturating_add(1);
        let instances = if profile.per_group == PerGroup::Engine { groups } else { 0 };
        let ticks = Ticks::new(profile.clock, configuration);
        let settings = Settings::new(profile, &ticks, configuration.rotational);
        Ok(Self {
            profile: *profile,
            settings,
            clock: Clock::new(ticks),
            device: Device::new(configuration.rotational, if profile.has_one_level { Some(false) } else { None }),
            load: Load::default(),
            slots: Array::try_new(slots, FREE_SLOT)?,
            order: Order::try_new(slots)?,
            queues: Queues::try_new(queues)?,
            sectors: Sectors::try_new(queues)?,
            contexts: Contexts::try_new(contexts, async_queues)?,
            groups: Groups::try_new(groups, profile)?,
            trees: Trees::try_new(groups, queues, profile.has_wide_think_times)?,
            group_order: GroupOrder::try_new(
                groups,
                profile.has_iops_mode && settings.slice_idle_ticks == 0 && !profile.has_one_level,
            )?,
            serving: NO_WORKLOAD,
            engine: Instance::NEW,
            is_holding: false,
            separate: Separate::try_new(instances, profile.splits())?,
            drain: Drain::NONE,
            messages: Messages::try_new()?,
            violations: 0,
        })
    }
}

const NO_WORKLOAD: Workload = Workload {
    group: NIL,
    class: Class::BestEffort,
    kind: WorkloadType::SyncNoIdle,
    expires_ticks: 0,
    requires_idle: false,
};

impl Group {
    /// Resets the group to its initial state. This is done in place, because a group is too large
    /// for a kernel stack.
    pub fn begin(&mut self, profile: &Profile, group: GroupId, settings: &GroupSettings) {
        *self = UNKNOWN_GROUP;
        let (weight, leaf_weight) = weights(profile, group, settings);
        (self.weight, self.leaf_weight) = (weight, leaf_weight);
        (self.new_weight, self.new_leaf_weight, self.parent) = (weight, leaf_weight, settings.parent.0);
    }
}

/// The weights of a group and of its own queues, in the form's range.
pub fn weights(profile: &Profile, group: GroupId, settings: &GroupSettings) -> (u32, u32) {
    let own = settings.leaf_weight.unwrap_or(settings.weight);
    let of_queues = GroupSettings { weight: own, ..*settings };
    (own_weight(profile, group, settings), own_weight(profile, group, &of_queues))
}

/// The weight in the form's range; doubled for the root.
fn own_weight(profile: &Profile, group: GroupId, settings: &GroupSettings) -> u32 {
    let weight = settings.clamped_weight();
    match (profile.has_hierarchy, group == GroupId::ROOT) {
        (true, false) => weight,
        (true, true) => weight.saturating_mul(2),
        (false, true) if weight == WEIGHT_DEFAULT => WEIGHT_MAX,
        (false, _) => weight.clamp(WEIGHT_MIN, WEIGHT_MAX),
    }
}
