//! Builds a policy of a form, with all its tables, the root group and the spare queue.

use super::Bfq;
use super::actuator::ActuatorTable;
use super::budget::{Budgets, DEFAULT_MAX_BUDGET};
use super::burst::Burst;
use super::busy::Busy;
use super::clock::{Clock, Spans};
use super::contexts::Contexts;
use super::device::Device;
use super::idling::Idling;
use super::inject::Measurement;
use super::log::Report;
use super::order::Order;
use super::peak_rate::PeakRate;
use super::positions::Positions;
use super::profile::{FORMS, Profile};
use super::queues::Queues;
use super::schedule::Schedule;
use super::state::{FREE_SLOT, Group, UNKNOWN_GROUP};
use super::tunables::Settings;
use super::weights::Weights;
use crate::interface::{Configuration, Form, Policy};
use crate::structures::{Array, NIL, NoMemory};
use hoistway_block::GroupId;

impl Policy for Bfq {
    type Profile = &'static Profile;
    const FORMS: &'static [Form<&'static Profile>] = FORMS;

    fn build(configuration: &Configuration, profile: &'static Profile) -> Result<Self, NoMemory> {
        let groups = configuration.groups.max(1);
        // One more record, for contexts out of range.
        let issuers = configuration.contexts.saturating_add(1);
        let actuators = ActuatorTable::count_of(&configuration.actuators, profile.has_actuators);
        let contexts = issuers.saturating_mul(actuators);
        let async_queues = Contexts::async_queues(groups, actuators);
        // Each request can keep alive a queue that no issuer uses any more, so there is a record
        // for every request as well.
        let queues = contexts.saturating_add(async_queues).saturating_add(configuration.slots).saturating_add(1);
        // What may fail comes first and the rest is built in its place, because a kernel's stack is small.
        let slots = Array::try_new(configuration.slots, FREE_SLOT)?;
        let order = Order::try_new(configuration.slots)?;
        let queue_records = Queues::try_new(queues, DEFAULT_MAX_BUDGET * 2 / 3)?;
        let contexts = Contexts::try_new(contexts, groups, actuators)?;
        let actuators = ActuatorTable::try_new(&configuration.actuators, profile.has_actuators, issuers, queues)?;
        let schedule = Schedule::try_new(queues.saturating_add(groups), groups)?;
        let groups = groups_with_root(groups)?;
        let weights = Weights::try_new()?;
        let positions = Positions::try_new(queues)?;
        let burst = Burst::try_new(queues)?;
        let report = Report::try_new()?;
        let keeps_plug_time = profile.keeps_plug_time && configuration.batch_times;
        // Every seek costs time on a rotational device, whatever the length of the request.
        let near_sectors = if configuration.rotational { u32::MAX } else { profile.behaviour.near_sectors };
        Ok(Self {
            profile: profile.with_near_sectors(near_sectors),
            settings: Settings::new(Spans::default_timeout_for(configuration.tick_ns)),
            clock: Clock::new(configuration, keeps_plug_time),
            device: Device::new(configuration),
            slots,
            order,
            queues: queue_records,
            contexts,
            actuators,
            groups,
            report,
            schedule,
            in_service: NIL,
            busy: Busy::default(),
            weights,
            budgets: Budgets::new(PeakRate::new(configuration.rotational, profile)),
            positions,
            burst,
            injection: Measurement::default(),
            idling: Idling::new(configuration.work_tick_ns),
        })
    }
}

#[inline(never)]
fn groups_with_root(count: u32) -> Result<Array<Group>, NoMemory> {
    let mut groups = Array::try_new(count, UNKNOWN_GROUP)?;
    groups.at_mut(GroupId::ROOT.0).is_online = true;
    Ok(groups)
}
