//! Builds a policy of a form, with all its tables, the root group and the spare queue.

use super::Bfq;
use super::actuator::ActuatorTable;
use super::budget::DEFAULT_MAX_BUDGET;
use super::burst::Burst;
use super::clock::{Clock, NEVER, Spans};
use super::contexts::{ASYNC_QUEUES, SPARE_QUEUE};
use super::peak_rate::PeakRate;
use super::profile::{FORMS, Profile};
use super::state::{
    CLASSES, DEFAULT_WEIGHT, Entity, FREE_QUEUE, FREE_SLOT, Group, Marks, NEW_ENTITY, Queue, UNKNOWN_CONTEXT,
    UNKNOWN_GROUP,
};
use super::timestamps::Stamps;
use super::tunables::Settings;
use super::weights::GroupWeights;
use super::wf2q::{ServiceTree, WEIGHT_MAX};
use crate::interface::{Configuration, Form, Policy};
use crate::message::Messages;
use crate::structures::{Array, Bitmap, Links, List, NIL, NoMemory, SortedLinks};
use hoistway_block::GroupId;

impl Policy for Bfq {
    type Profile = &'static Profile;
    const FORMS: &'static [Form<&'static Profile>] = FORMS;

    fn build(configuration: &Configuration, profile: &'static Profile) -> Result<Self, NoMemory> {
        let groups = configuration.groups.max(1);
        // One more record, for contexts out of range.
        let issuers = configuration.contexts.saturating_add(1);
        let actuators = ActuatorTable::try_new(&configuration.actuators, profile.has_actuators, issuers)?;
        let contexts = issuers.saturating_mul(actuators.count);
        let async_queues = groups.saturating_mul(ASYNC_QUEUES).saturating_mul(actuators.count);
        // Each request can keep alive a queue that no issuer uses any more, so there is a record
        // for every request as well.
        let queues = contexts.saturating_add(async_queues).saturating_add(configuration.slots).saturating_add(1);
        let entities = queues.saturating_add(groups);
        let clock = Clock::new(configuration, profile.keeps_plug_time && configuration.batch_times);
        let spans = Spans::new(&clock, profile.think_shift);
        Ok(Self {
            profile: *profile,
            settings: Settings::new(&spans),
            clock,
            spans,
            is_rotational: configuration.rotational,
            near_sectors: if configuration.rotational { u32::MAX } else { profile.near_sectors },
            tags: configuration.depth.requests,
            slots: Array::try_new(configuration.slots, FREE_SLOT)?,
            sort_links: SortedLinks::try_new(configuration.slots)?,
            fifo_links: Links::try_new(configuration.slots)?,
            direct: List::EMPTY,
            queues: free_queues(queues)?,
            first_free_queue: if queues > 1 { SPARE_QUEUE + 1 } else { NIL },
            entities: entities_with_spare(entities)?,
            stamps: Stamps::try_new(entities)?,
            trees: Array::try_new(groups.saturating_mul(CLASSES), ServiceTree::EMPTY)?,
            groups: groups_with_root(groups)?,
            contexts: Array::try_new(contexts, UNKNOWN_CONTEXT)?,
            async_queues: Array::try_new(async_queues, NIL)?,
            active_lists: Array::try_new(actuators.count, List::EMPTY)?,
            actuators,
            active_links: Links::try_new(queues)?,
            burst: Burst { list: List::EMPTY, queues: 0, group: NIL, last_ticks: 0, is_large: false },
            burst_links: Links::try_new(queues)?,
            woken_links: Links::try_new(queues)?,
            position_links: SortedLinks::try_new(queues)?,
            weight_counts: Array::try_new(WEIGHT_MAX + 1, 0)?,
            weights_in_use: Bitmap::try_new(WEIGHT_MAX + 1)?,
            pending_groups: 0,
            group_weights: GroupWeights::try_new()?,
            jumped: NIL,
            in_service: NIL,
            busy_queues: [0; CLASSES as usize],
            raised_busy: 0,
            requests_queued: 0,
            in_driver: 0,
            hw_tag: None,
            flash_queues: !configuration.rotational,
            deepest: 0,
            depth_samples: 0,
            budgets_assigned: 0,
            max_budget: DEFAULT_MAX_BUDGET,
            peak: PeakRate::new(configuration.rotational, profile),
            last_position_sectors: 0,
            last_position_in_service: 0,
            last_completed: NIL,
            turn_began_ns: 0,
            was_slow: false,
            wait_began_ns: 0,
            timer_at: NEVER,
            is_holding: false,
            repoll_at: NEVER,
            work_tick_ns: configuration.work_tick_ns,
            is_injected: false,
            waits_for_dispatch: false,
            sampled: None,
            sample_began_ns: 0,
            messages: Messages::try_new()?,
            violations: 0,
        })
    }
}

/// Links the free records; the spare queue is permanently in use.
#[inline(never)]
fn free_queues(count: u32) -> Result<Array<Queue>, NoMemory> {
    let mut queues = Array::try_new(count, FREE_QUEUE)?;
    for queue in SPARE_QUEUE + 1..count {
        queues.at_mut(queue).next_free = if queue + 1 < count { queue + 1 } else { NIL };
    }
    let spare = queues.at_mut(SPARE_QUEUE);
    spare.marks = Marks::USED.with(Marks::PINNED);
    spare.max_budget = DEFAULT_MAX_BUDGET * 2 / 3;
    Ok(queues)
}

#[inline(never)]
fn entities_with_spare(count: u32) -> Result<Array<Entity>, NoMemory> {
    let mut entities = Array::try_new(count, NEW_ENTITY)?;
    let spare = entities.at_mut(SPARE_QUEUE);
    (spare.weight, spare.original_weight, spare.new_weight) = (DEFAULT_WEIGHT, DEFAULT_WEIGHT, DEFAULT_WEIGHT);
    Ok(entities)
}

#[inline(never)]
fn groups_with_root(count: u32) -> Result<Array<Group>, NoMemory> {
    let mut groups = Array::try_new(count, UNKNOWN_GROUP)?;
    groups.at_mut(GroupId::ROOT.0).is_online = true;
    Ok(groups)
}
