//! The cases of docs/specifications/bfq.md, section 25, that need access to internals: the B-WF2Q+
//! engine, budgets, rates and learned values.
//!
//! A rig creates queues of any weight and budget and plays the events that the trees see: arrivals,
//! service, ends of turns. The cases about decisions are in `crates/elevator/tests/bfq`, through
//! the public interface.

mod decisions;
mod engine;
mod learning;
mod plug_time;
mod rates;
mod v8r3;
mod versions;

use super::Bfq;
use super::profile::FORMS;
use super::state::Marks;
use crate::group::GroupSettings;
use crate::interface::{Configuration, Depth, Dispatch, Elevator, Hint, Policy, Position};
use crate::request::{Bio, Requests};
use crate::structures::NIL;
use hoistway_block::time::{MILLISECOND, SECOND};
use hoistway_block::{Class, ContextId, Extent, GroupId, HardwareQueue, Nanos, Operation, Priority, RequestId};

/// The root group, whose best-effort tree most cases use.
const ROOT: u32 = GroupId::ROOT.0;

/// Indices of the forms v8r3, 4.12, 4.19, 4.20, 5.2, 5.17 and 6.9 in [`FORMS`].
pub const V8R3: usize = 0;
pub const FIRST: usize = 1;
pub const AUGUST_2018: usize = 2;
pub const SEPTEMBER_2018: usize = 3;
pub const MARCH_2019: usize = 5;
pub const WITH_WAKERS: usize = 10;
pub const NEWEST: usize = 14;

/// A policy of the newest form with the settings of docs/specifications/bfq.md's cases, and the requests it
/// gets.
pub struct Rig {
    pub bfq: Bfq,
    pub requests: Requests,
    pub now: Nanos,
    contexts: u32,
}

impl Rig {
    pub fn on_flash() -> Self {
        Self::of(NEWEST, false, MILLISECOND)
    }

    pub fn on_disk() -> Self {
        Self::of(NEWEST, true, MILLISECOND)
    }

    /// A rig of a form, by its index in [`FORMS`].
    pub fn of(form: usize, is_rotational: bool, tick_ns: Nanos) -> Self {
        let configuration = Configuration {
            slots: 128,
            groups: 8,
            contexts: 64,
            depth: Depth { requests: 128, device: 128 },
            rotational: is_rotational,
            tick_ns,
            batch_times: true,
            ..Configuration::default()
        };
        let profile = FORMS[form].profile;
        let mut bfq = Bfq::build(&configuration, profile).unwrap();
        bfq.device.decide(Some(true), bfq.device.flash_queues());
        bfq.settings.low_latency = false;
        let mut rig = Self { bfq, requests: Requests::try_new(128).unwrap(), now: 0, contexts: 0 };
        rig.pass(100 * SECOND);
        rig
    }

    pub fn pass(&mut self, span_ns: Nanos) {
        self.now += span_ns;
        self.bfq.clock.set(self.now);
    }

    /// The next event has an earlier time.
    pub fn go_back(&mut self, span_ns: Nanos) {
        self.now -= span_ns;
        self.bfq.clock.set(self.now);
    }

    pub fn check(&self) {
        if let Err(violation) = self.bfq.check(&self.requests) {
            panic!("broken: {} (at {})", violation.what, violation.at);
        }
        assert_eq!(self.bfq.violations(), 0);
    }

    // ---- queues without requests, as the trees see them ----

    pub fn group(&mut self, group: u32, weight: u32) {
        self.bfq.add_group(group, &GroupSettings::with_weight(weight));
    }

    /// A sync queue with its own budget.
    pub fn queue(&mut self, group: u32, weight: u32, budget: u32) -> u32 {
        let context = self.contexts;
        self.contexts += 1;
        let issuer = self.bfq.contexts.at_mut(context);
        (issuer.is_alive, issuer.group) = (true, group);
        let queue = self.bfq.get_queue(context, true);
        self.bfq.queues.at_mut(queue).max_budget = budget;
        let entity = self.bfq.schedule.entity_mut(queue);
        (entity.weight, entity.original_weight, entity.new_weight) = (weight, weight, weight);
        entity.budget = budget;
        queue
    }

    pub fn queue_of_class(&mut self, class: Class, weight: u32, budget: u32) -> u32 {
        let queue = self.queue(ROOT, weight, budget);
        let entity = self.bfq.schedule.entity_mut(queue);
        (entity.class, entity.new_class) = (class, class);
        queue
    }

    pub fn arrive(&mut self, queue: u32) {
        self.bfq.enter_busy(queue);
        self.check();
    }

    /// The queue gets a request in time, so that it keeps `left` sectors of its budget.
    pub fn return_in_time(&mut self, queue: u32, left: u32) {
        let entity = self.bfq.schedule.entity_mut(queue);
        (entity.budget, entity.service) = (left, 0);
        self.bfq.queues.at_mut(queue).marks.set(Marks::WAITS_UNBLOCKED);
        self.arrive(queue);
    }

    /// The queue gets a request too late to keep its budget.
    pub fn return_late(&mut self, queue: u32, budget: u32) {
        let entity = self.bfq.schedule.entity_mut(queue);
        (entity.budget, entity.service) = (budget, 0);
        self.arrive(queue);
    }

    /// Begins a turn.
    pub fn select(&mut self) -> u32 {
        let queue = self.bfq.take_next_queue();
        assert_ne!(queue, NIL, "no queue is next");
        self.bfq.in_service = queue;
        self.bfq.begin_turn(queue);
        self.check();
        queue
    }

    pub fn serve(&mut self, sectors: u32) {
        self.bfq.served(self.bfq.in_service, sectors);
        self.check();
    }

    /// Ends the turn of a queue that has more requests.
    pub fn requeue(&mut self) {
        let queue = self.bfq.in_service;
        self.bfq.activate_or_requeue(queue, false, true);
        self.bfq.reset_in_service();
        let mut entity = queue;
        while entity != NIL {
            self.bfq.schedule.entity_mut(entity).service = 0;
            entity = self.bfq.parent_entity(entity);
        }
        self.check();
    }

    /// Ends the turn of a queue that has become empty.
    pub fn leave(&mut self) {
        let queue = self.bfq.in_service;
        self.bfq.leave_busy(queue, true);
        self.bfq.reset_in_service();
        let mut above = self.bfq.parent_entity(queue);
        while above != NIL {
            self.bfq.schedule.entity_mut(above).service = 0;
            above = self.bfq.parent_entity(above);
        }
        self.check();
    }

    /// A turn that uses up its budget, of a queue that has more requests.
    pub fn turn(&mut self) -> u32 {
        let queue = self.select();
        self.serve(self.bfq.schedule.entity(queue).budget);
        self.requeue();
        queue
    }

    pub fn stamps(&self, entity: u32) -> (u64, u64) {
        let stamps = self.bfq.schedule.stamps(entity);
        (stamps.starts, stamps.finish)
    }

    /// Virtual time and sum of weights of the top-level tree.
    pub fn tree(&self) -> (u64, u64) {
        let tree = self.bfq.schedule.tree(super::schedule::tree_of(ROOT, Class::BestEffort));
        (tree.vtime, tree.weight_sum.value())
    }

    // ---- requests ----

    pub fn submit(&mut self, context: u32, first_sector: u64, sectors: u32) -> RequestId {
        let mut bio = Bio::new(Operation::Read, Extent::new(first_sector, sectors));
        bio.context = ContextId(context);
        self.submit_bio(bio)
    }

    /// A read of 8 sectors by an issuer of this level (0 to 7) in a group, at a new position.
    pub fn submit_in(&mut self, group: u32, context: u32, level: u8) -> RequestId {
        let mut bio = Bio::new(Operation::Read, Extent::new(1_000 + 10_000_000 * u64::from(context), 8));
        (bio.context, bio.group) = (ContextId(context), GroupId(group));
        bio.priority = Priority::new(Class::BestEffort, level);
        self.submit_bio(bio)
    }

    pub fn submit_bio(&mut self, bio: Bio) -> RequestId {
        let id = self.requests.allocate(bio, self.now).unwrap();
        let _ = self.bfq.insert(&self.requests, id, Position::Sorted(Hint::None), self.now);
        self.check();
        id
    }

    pub fn dispatch(&mut self) -> Option<RequestId> {
        let answer = self.bfq.choose(&self.requests, HardwareQueue(0), self.now);
        self.check();
        match answer {
            Dispatch::Request { id, .. } => Some(id),
            _ => None,
        }
    }

    pub fn complete(&mut self, id: RequestId) {
        let _ = self.bfq.completed(&self.requests, id, self.now);
        let _ = self.bfq.released(&self.requests, id, self.now);
        self.requests.free(id);
        self.check();
    }

    /// The sync queue of a context.
    pub fn queue_of(&self, context: u32) -> u32 {
        self.bfq.contexts.at(context).queue(true)
    }
}
