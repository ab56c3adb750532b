//! Builds a policy of a form, with all its tables, the root group and the spare queue.

use super::contexts::{ASYNC_QUEUES, SPARE_QUEUE};
use super::profile::{FORMS, PerGroup, Profile};
use super::state::{
    FREE_QUEUE, FREE_SLOT, Group, Marks, Queue, TREES_PER_GROUP, ThinkTime, UNKNOWN_CONTEXT, UNKNOWN_GROUP, Workload,
    WorkloadType,
};
use super::tunables::{Settings, Ticks};
use super::two_level::Instance;
use super::{Cfq, LEVELS};
use crate::account::GroupAccount;
use crate::group::{GroupSettings, WEIGHT_DEFAULT};
use crate::interface::{Configuration, Form, Policy};
use crate::message::Messages;
use crate::structures::{Array, Links, List, NIL, NoMemory, SortedLinks, Tree};
use hoistway_block::{Class, GroupId, Nanos};

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
        let trees = groups.saturating_mul(TREES_PER_GROUP);
        let thinks = if profile.has_wide_think_times { trees } else { 0 };
        let instances = if profile.per_group == PerGroup::Engine { groups } else { 0 };
        let ticks = Ticks::new(profile.clock, configuration);
        let settings = Settings::new(profile, &ticks, configuration.rotational);
        Ok(Self {
            profile: *profile,
            settings,
            ticks,
            is_rotational: configuration.rotational,
            now: 0,
            now_ns: Nanos::MAX,
            has_begun: false,
            slots: Array::try_new(slots, FREE_SLOT)?,
            sort_links: SortedLinks::try_new(slots)?,
            fifo_links: Links::try_new(slots)?,
            head: List::EMPTY,
            queues: free_queues(queues)?,
            first_free_queue: if queues > 1 { SPARE_QUEUE + 1 } else { NIL },
            service_links: SortedLinks::try_new(queues)?,
            sector_links: SortedLinks::try_new(queues)?,
            sector_trees: Array::try_new(LEVELS, Tree::EMPTY)?,
            stale: List::EMPTY,
            stale_links: Links::try_new(queues)?,
            contexts: Array::try_new(contexts, UNKNOWN_CONTEXT)?,
            async_queues: Array::try_new(async_queues, NIL)?,
            groups: groups_with_root(groups, profile)?,
            removed: no_accounts(if profile.has_hierarchy { groups } else { 0 })?,
            trees: Array::try_new(trees, Tree::EMPTY)?,
            tree_thinks: Array::try_new(thinks, ThinkTime::since(0))?,
            group_links: SortedLinks::try_new(groups)?,
            group_tree: Tree::EMPTY,
            min_vdisktime: 0,
            total_weight: 0,
            was_iops_mode: profile.has_iops_mode && settings.slice_idle_ticks == 0 && !profile.has_one_level,
            serving: NO_WORKLOAD,
            active: NIL,
            active_context: NIL,
            deferred_free: NIL,
            busy_queues: 0,
            busy_sync_queues: 0,
            requests_queued: 0,
            in_driver: 0,
            in_flight: [0; 2],
            last_position_sectors: 0,
            last_delayed_sync_ticks: 0,
            hw_tag: if profile.has_one_level { Some(false) } else { None },
            deepest: 0,
            depth_samples: 0,
            timer_at: None,
            idle_since_ns: None,
            waits_for_group: false,
            is_holding: false,
            round: List::EMPTY,
            instances: Array::try_new(instances, Instance::NEW)?,
            loaded: GroupId::ROOT.0,
            splits: profile.splits(),
            draining: NIL,
            drained: 0,
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

/// Links the free records; the spare queue is permanently in use.
fn free_queues(count: u32) -> Result<Array<Queue>, NoMemory> {
    let mut queues = Array::try_new(count, FREE_QUEUE)?;
    for queue in SPARE_QUEUE + 1..count {
        queues.at_mut(queue).next_free = if queue + 1 < count { queue + 1 } else { NIL };
    }
    let spare = queues.at_mut(SPARE_QUEUE);
    spare.marks.set(Marks::USED);
    spare.references = 1;
    Ok(queues)
}

/// Accounts are large: they must not be on the caller's stack.
#[inline(never)]
fn no_accounts(count: u32) -> Result<Array<GroupAccount>, NoMemory> {
    Array::try_new(count, GroupAccount::ZERO)
}

#[inline(never)]
fn groups_with_root(count: u32, profile: &Profile) -> Result<Array<Group>, NoMemory> {
    let mut groups = Array::try_new(count, UNKNOWN_GROUP)?;
    groups.at_mut(GroupId::ROOT.0).begin(profile, GroupId::ROOT, &GroupSettings::with_weight(WEIGHT_DEFAULT));
    Ok(groups)
}

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
