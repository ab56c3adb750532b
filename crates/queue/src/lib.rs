//! The request queue around a policy: the part of the block layer that is the same for every
//! elevator.
//!
//! ```text
//!  submit ─► merge? ─► tag? ─► [plug] ─► policy ─► dispatch list ─► device ─► complete ─► the submitters' cookies
//!              │         └ wait            ▲  └ hold until t             └ requeue ┘
//!              └ into a queued request     └ flush machine puts data back at the head
//! ```
//!
//! ```
//! use hoistway_block::{Extent, HardwareQueue, Operation, Status};
//! use hoistway_elevator::Attributes;
//! use hoistway_queue::{Next, RequestQueue, Settings, Submitted};
//!
//! let mut queue = RequestQueue::build("mq-deadline", None, &Settings::default()).unwrap();
//! let read = |first_sector| Attributes::new(Operation::Read, Extent::new(first_sector, 8));
//! let Ok(Submitted::Queued(id)) = queue.submit(&read(1000), 1, 0) else { panic!("a tag is free") };
//! assert_eq!(queue.submit(&read(1008), 2, 0), Ok(Submitted::Merged(id)));
//!
//! let Next::Start { id, .. } = queue.dispatch(HardwareQueue(0), 0) else { panic!("a request is queued") };
//! assert_eq!(queue.requests().attributes(id).extent, Extent::new(1000, 16));
//! let mut cookies = Vec::new();
//! queue.complete(id, Status::Ok, 90_000, |done| cookies.push(done.cookie));
//! assert_eq!(cookies, [1, 2]);
//! ```
//!
//! Units: extents are in sectors of 512 bytes, times in nanoseconds on the clock of the host.
//!
//! A host calls [`RequestQueue::submit`], then [`RequestQueue::dispatch`] until it answers anything
//! but [`Next::Start`], and [`RequestQueue::complete`] when the device is done;
//! [`RequestQueue::next_timer`] says when to call [`RequestQueue::timer`]. Nothing is allocated
//! after construction, except for limiters, for tracing, for another policy and by a queue made
//! with [`RequestQueue::growing`]. Time comes in as an argument. Differences between kernels are in
//! [`Era`]. In the eras whose queue plugs the device, a host calls [`RequestQueue::unplug_device`]
//! whenever a task is about to wait for I/O. Source of the behaviour: Linux 6.1 to 6.12
//! block/{blk-mq,blk-mq-sched,blk-merge,blk-flush,elevator}.c; `era.rs` for the older kernels.
//!
//! `#[inline(never)]` and `#[inline(always)]` keep rare steps out of the common path: without them a
//! request costs a tenth more instructions (`bench/policies/run`).
#![no_std]
#![forbid(unsafe_code)]
#![deny(clippy::float_arithmetic)]

extern crate alloc;

mod admitted;
mod bios;
mod carried;
mod check;
mod counters;
mod device;
mod dispatch;
mod end_hash;
mod entry;
mod entry_by_lists;
mod era;
mod flush;
mod gate;
mod groups;
mod held;
mod limiters;
mod limiting;
mod limits;
mod merge;
mod merge_index;
mod plug;
mod pool;
mod queue_plug;
mod request_lists;
mod single_queue;
mod slot;
mod switch;
mod tags;
mod trace;
mod withdraw;

pub use counters::{Counters, DirectionCounters};
pub use dispatch::Next;
pub use era::{Allocation, Drains, Era, Flushes, Kinds, QueuePlug, Specials};
pub use limits::{Limits, Merging};
pub use plug::Plug;
pub use switch::{Busy, Handover};
pub use tags::Tags;
pub use trace::{Trace, TraceEvent, TraceItem, TraceKind, TraceMessage};

use bios::{Bios, Chain, Members};
use device::Device;
use flush::{FlushMachine, Stage};
use gate::Gate;
use hoistway_block::{GroupId, HardwareQueue, Nanos, RequestId, Status};
use hoistway_elevator::structures::{Array, Links, NoMemory};
use hoistway_elevator::tunable::{SettingError, Tunable};
use hoistway_elevator::{
    Any, Bio, Configuration, Depth, Elevator, GroupTree, Limiter, Place, Position, Request, Requests, Wake, registry,
};
use limiters::Limiters;
use merge_index::MergeIndex;
use pool::Pool;
use slot::{Marks, Slot};
use switch::Switch;

/// Largest number of reasons that a policy may have; the queue counts each.
pub const REASONS_MAX: usize = 64;

/// Construction parameters of a queue.
#[derive(Copy, Clone, Debug)]
pub struct Settings {
    /// The policy's configuration. `slots` has room for all requests of the deepest
    /// `depth.requests` and a flush command for each hardware queue: [`Era::slots`].
    pub configuration: Configuration,
    /// Limits of the device.
    pub limits: Limits,
    /// The block layer's rules around the policy.
    pub era: Era,
    /// How eagerly bios are merged.
    pub merging: Merging,
    /// Largest number of bios in flight, merged and waiting ones included.
    pub bios: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            configuration: Configuration::default(),
            limits: Limits::default(),
            era: Era::BLK_MQ,
            merging: Merging::Full,
            bios: 4096,
        }
    }
}

/// The result of a submission.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Submitted {
    /// The bio joined this request.
    Merged(RequestId),
    /// The bio became this request.
    Queued(RequestId),
    /// The bio waits for a tag. The queue takes it in when one is free.
    Waiting,
    /// A limiter holds the bio and releases it later without a call of the host. The submitter does
    /// not sleep.
    Held,
    /// There was nothing to do (a flush on a device without a volatile cache): it has completed,
    /// and no [`Done`] follows.
    Nothing,
}

/// The table of bios is full: submit again after a completion.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Full;

impl core::fmt::Display for Full {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("the table of bios is full")
    }
}

impl core::error::Error for Full {}

/// A completed bio.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Done {
    /// The cookie that was submitted with it.
    pub cookie: u64,
    /// The bio as submitted; if it was a request of its own, its hardware queue is the one through
    /// which it was dispatched.
    pub bio: Bio,
    /// How it ended.
    pub status: Status,
    /// When it was submitted.
    pub submitted_ns: Nanos,
    /// When its request was passed to the device; 0 if never (a flush before it failed).
    pub issued_ns: Nanos,
}

/// A request queue with its policy.
#[derive(Debug)]
pub struct RequestQueue<E = Any> {
    elevator: E,
    /// How often the policy gave each reason.
    reasons: [u64; REASONS_MAX],
    combines_calls: bool,
    wake: Wake,
    requests: Requests,
    slots: Array<Slot>,
    /// Links of the merge index, the device's lists, the flush machine's lists and the list of
    /// requests carried over a switch: a request is on at most one of them.
    links: Links,
    bios: Bios,
    groups: GroupTree,
    limiters: Limiters,
    pool: Pool,
    merges: MergeIndex,
    gate: Gate,
    device: Device,
    flush: FlushMachine,
    switch: Switch<E>,
    counters: Counters,
    trace: Trace,
    violations: u32,
    /// As at construction, but for the depth, which changes.
    settings: Settings,
}

impl RequestQueue<Any> {
    /// A queue with the policy of this name, in the form of the given kernel version or in its
    /// default form.
    ///
    /// # Errors
    /// Unknown name, a version before the policy's first, or out of memory.
    pub fn build(
        name: &str,
        version: Option<hoistway_elevator::Version>,
        settings: &Settings,
    ) -> Result<Self, registry::BuildError> {
        let elevator = registry::build(name, version, &settings.configuration)?;
        Ok(Self::new(elevator, settings)?)
    }
}

// ---- construction, settings, inspection ----
impl<E: Elevator> RequestQueue<E> {
    /// A queue with this policy, which must have been built for the same configuration.
    ///
    /// # Errors
    /// Out of memory.
    pub fn new(elevator: E, settings: &Settings) -> Result<Self, NoMemory> {
        Self::growing(elevator, settings, settings.bios)
    }

    /// Like [`RequestQueue::new`], for hosts that may allocate at any time. Of the bios that need a
    /// record (those that wait, share a request or pass a limiter), `reserved` have theirs from the
    /// start; memory for the others is allocated on demand.
    ///
    /// # Errors
    /// Out of memory.
    pub fn growing(elevator: E, settings: &Settings, reserved: u32) -> Result<Self, NoMemory> {
        let configuration = &settings.configuration;
        let slots = configuration.slots;
        Ok(Self {
            elevator,
            reasons: [0; REASONS_MAX],
            combines_calls: false,
            wake: Wake::No,
            requests: Requests::try_new(slots)?,
            slots: Array::try_new(slots, Slot::EMPTY)?,
            links: Links::try_new(slots)?,
            bios: Bios::try_new(settings.bios, reserved)?,
            groups: GroupTree::try_new(configuration.groups)?,
            limiters: Limiters::try_new(configuration.groups)?,
            pool: Pool::try_new(settings, reserved)?,
            merges: MergeIndex::try_new(slots)?,
            gate: Gate::default(),
            device: Device::try_new(u32::from(configuration.hardware_queues.max(1)))?,
            flush: FlushMachine::default(),
            switch: Switch::new(),
            counters: Counters::default(),
            trace: Trace::default(),
            violations: 0,
            settings: *settings,
        })
    }

    /// From now on the policy gets the combined calls that the kernel module makes, [`Elevator::insert_new`]
    /// and [`Elevator::completed_and_released`], or, as at first, the separate ones. Both have the same effect;
    /// harnesses choose by their seed, so that a policy's own form of either is tested.
    pub fn combine_calls(&mut self, on: bool) {
        self.combines_calls = on;
    }

    /// The policy, for inspection.
    pub fn elevator(&self) -> &E {
        &self.elevator
    }

    /// The table of requests.
    pub fn requests(&self) -> &Requests {
        &self.requests
    }

    /// The counters of iostat.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// How often each reason of the policy was given since the policy was put in place, in the
    /// order of their names.
    pub fn reasons(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.elevator.reasons().iter().copied().zip(self.reasons.iter().copied())
    }

    /// Resets the policy's accounting of a group. False if the policy keeps none.
    pub fn reset_group_account(&mut self, group: GroupId, now: Nanos) -> bool {
        self.elevator.reset_group_account(group, now)
    }

    /// Impossible states found by queue, table and policy. Any value above 0 is a defect.
    pub fn violations(&self) -> u32 {
        let limiters = self.limiters.iter().map(Limiter::violations).fold(0, u32::saturating_add);
        let parts = self.merges.violations().saturating_add(self.switch.violations());
        let own = self.violations.saturating_add(parts).saturating_add(self.requests.violations());
        own.saturating_add(self.elevator.violations()).saturating_add(limiters)
    }

    /// Tags: depth and use.
    pub fn tags(&self) -> &Tags {
        self.pool.tags()
    }

    /// Requests in the device.
    pub fn in_device(&self) -> u32 {
        self.device.started()
    }

    /// Requests that were chosen and not yet started.
    pub fn awaiting_device(&self) -> u32 {
        self.device.chosen()
    }

    /// Bios in flight, in any stage.
    pub fn bios_in_flight(&self) -> u32 {
        self.bios.in_flight()
    }

    /// How many more bios can be submitted.
    pub fn room_for_bios(&self) -> u32 {
        self.bios.capacity() - self.bios.in_flight()
    }

    /// The cookies of a request's bios and the bios themselves, in sector order; none if the id is
    /// stale.
    pub fn bios_of(&self, id: RequestId) -> impl Iterator<Item = (u64, &Bio)> + '_ {
        let members =
            if self.requests.is_live(id) { self.slots.at(id.slot()).members() } else { Slot::EMPTY.members() };
        let (alone, chain) = match members {
            Members::Alone(cookie) => (Some((cookie, self.requests.attributes(id))), Chain::EMPTY),
            Members::Chain(chain) => (None, chain),
        };
        alone.into_iter().chain(self.bios.iter(chain).map(|index| {
            let node = self.bios.at(index);
            (node.cookie, &node.bio)
        }))
    }

    /// Every tunable of the policy with its current value, in the unit of its table row.
    pub fn settings(&self) -> impl Iterator<Item = (&'static Tunable, i64)> + '_ {
        let rows = self.elevator.tunables().iter().enumerate();
        rows.filter_map(|(index, row)| self.elevator.setting(index).map(|value| (row, value)))
    }

    /// Sets a tunable by name, from text in the form that sysfs takes. Returns the value then in
    /// force.
    ///
    /// # Errors
    /// Unknown name, not a number, out of range.
    pub fn set(&mut self, name: &str, text: &str) -> Result<i64, SettingError> {
        let index = self.elevator.tunables().iter().position(|row| row.name == name).ok_or(SettingError::Unknown)?;
        let row = self.elevator.tunables().get(index).ok_or(SettingError::Unknown)?;
        self.elevator.set(index, row.parse(text)?)?;
        self.note(Wake::All);
        self.elevator.setting(index).ok_or(SettingError::Unknown)
    }

    /// Changes the depths. `requests` is capped at the size of the table.
    pub fn set_depth(&mut self, depth: Depth, now: Nanos) {
        let most = self.requests.capacity().saturating_sub(self.device.queues()).max(1);
        let depth = Depth { requests: depth.requests.clamp(1, most), device: depth.device.max(1) };
        self.settings.configuration.depth = depth;
        self.pool.set_depth(depth.requests);
        self.elevator.depth_changed(depth);
        let depth = self.limiters_depth();
        for limiter in self.limiters.iter_mut() {
            limiter.depth_changed(depth);
        }
        self.release_held(now);
        self.pool.retry_all();
        self.admit_waiting(now);
        self.note(Wake::All);
    }

    /// The depths in force.
    pub fn depth(&self) -> Depth {
        self.settings.configuration.depth
    }

    /// Whether anything since the last call makes a dispatch worthwhile. The call clears it.
    pub fn take_wake(&mut self) -> Wake {
        core::mem::take(&mut self.wake)
    }

    #[inline]
    pub(crate) fn note(&mut self, wake: Wake) {
        if self.wake != Wake::All {
            self.wake = self.wake.and(wake);
        }
    }
}

// ---- completion ----
impl<E: Elevator> RequestQueue<E> {
    /// The device completed a request. `done` is called for every bio that completes with it; a
    /// write with a flush sequence may continue with a flush first. Dispatch again afterwards.
    #[inline]
    pub fn complete(&mut self, id: RequestId, status: Status, now: Nanos, mut done: impl FnMut(Done)) {
        let Some(queue) = self.requests.take_back(id, Place::Complete) else {
            self.violations += 1;
            return;
        };
        if !self.slots.at(id.slot()).marks.has(Marks::DETACHED) {
            self.device.leave(queue);
        }
        if self.trace.is_on() {
            let attributes = *self.requests.attributes(id);
            let kind = TraceKind::Completed;
            self.push_event(TraceEvent { at_ns: now, kind, id, attributes, reason: None, status });
        }
        let slot = self.slots.at_mut(id.slot());
        let (stage, was_inserted) = (slot.stage, slot.marks.has(Marks::INSERTED));
        if stage == Stage::Command {
            self.flush_completed(id, status, now, &mut done);
        } else {
            slot.marks.clear(Marks::INSERTED);
            if was_inserted {
                self.tell_completed(id, now);
            }
            if stage == Stage::Plain || !self.data_step_completed(id, status, now) {
                self.finish(id, status, now, &mut done);
            }
        }
        if !self.limiters.is_empty() {
            self.release_held(now);
        }
        self.admit_waiting(now);
        self.finish_switch_if_drained(now);
    }

    /// The device finished a request that the policy had.
    #[inline(always)]
    fn tell_completed(&mut self, id: RequestId, now: Nanos) {
        let wake = if self.combines_calls {
            self.elevator.completed_and_released(&self.requests, id, now)
        } else {
            let completed = self.elevator.completed(&self.requests, id, now);
            completed.and(self.elevator.released(&self.requests, id, now))
        };
        self.note(wake);
    }

    /// The device does not answer a started request: it counts no more as in the device, and the policy is told that
    /// it is done, so that nothing waits for it. It keeps its tag and its bios; [`RequestQueue::complete`] follows when
    /// the device answers after all. False for a request that is not in the device, or part of a flush sequence.
    /// Dispatch again afterwards.
    pub fn detach(&mut self, id: RequestId, now: Nanos) -> bool {
        let slot = self.slots.at_mut(id.slot());
        if slot.stage != Stage::Plain || slot.marks.has(Marks::DETACHED) || !self.leave_device(id) {
            return false;
        }
        let slot = self.slots.at_mut(id.slot());
        let was_inserted = slot.marks.has(Marks::INSERTED);
        slot.marks.clear(Marks::INSERTED);
        slot.marks.set(Marks::DETACHED);
        if was_inserted {
            self.tell_completed(id, now);
        }
        self.admit_waiting(now);
        self.finish_switch_if_drained(now);
        true
    }

    /// The driver returned a started request: it enters the policy again, ahead of all others. A
    /// request that the policy never had, such as a flush command, goes to the head of the dispatch
    /// list.
    pub fn requeue(&mut self, id: RequestId, now: Nanos) {
        if !self.leave_device(id) {
            self.violations += 1;
            return;
        }
        self.counters.requeues += 1;
        if !self.limiters.is_empty() {
            self.limiters.requeued(&self.requests, id, now);
        }
        self.trace(TraceKind::Requeued, id, None, now);
        let Slot { marks, stage, .. } = *self.slots.at(id.slot());
        if !marks.has(Marks::INSERTED) || stage == Stage::Command {
            self.requests.move_to(id, Place::Dispatched);
            self.push_dispatch_front(id);
            return;
        }
        let wake = self.elevator.requeued(&self.requests, id, now);
        self.note(wake);
        if self.switch.is_carrying() {
            let wake = self.elevator.released(&self.requests, id, now);
            self.note(wake);
        }
        self.insert(id, Position::Requeue, now);
        self.finish_switch_if_drained(now);
    }

    /// The driver had no room for a request that it was just given. The request waits at the head
    /// of the dispatch list, and the policy is not asked for another until it has been started.
    pub fn refuse(&mut self, id: RequestId, now: Nanos) {
        if !self.leave_device(id) {
            self.violations += 1;
            return;
        }
        self.trace(TraceKind::Refused, id, None, now);
        self.requests.move_to(id, Place::Dispatched);
        self.push_dispatch_front(id);
        let queue = self.requests.attributes(id).hardware_queue;
        self.round_ended(queue, false);
    }

    fn leave_device(&mut self, id: RequestId) -> bool {
        let queue = match self.requests.in_slot(id.slot()) {
            Some((live, request)) if live == id && request.place == Place::Started => request.attributes.hardware_queue,
            _ => return false,
        };
        self.device.leave(queue);
        true
    }

    /// Completes a request for its submitters.
    pub(crate) fn finish(&mut self, id: RequestId, status: Status, now: Nanos, done: &mut impl FnMut(Done)) {
        let &Request { attributes, start_ns, issued_ns, .. } = self.requests.at(id);
        let (sectors, group) = (attributes.extent.sectors, attributes.group);
        self.counters.completed(attributes.operation, sectors, start_ns, now);
        if self.gate.is_closed() {
            self.end_barrier(id);
        }
        if self.pool.has_lists() {
            self.pool.left(sectors);
        }
        if !self.limiters.is_empty() {
            self.limiters.request_ended(&self.requests, id, status, now);
        }
        match self.slots.at(id.slot()).members() {
            Members::Alone(cookie) => {
                // The bio became the request at its submission, so the time of submission is the
                // request's start.
                done(Done { cookie, bio: attributes, status, submitted_ns: start_ns, issued_ns });
                self.bios.count_ended();
            }
            Members::Chain(chain) => self.finish_chain(chain, status, (issued_ns, now), done),
        }
        self.free(id, group, now);
    }

    fn finish_chain(
        &mut self,
        chain: Chain,
        status: Status,
        (issued_ns, now): (Nanos, Nanos),
        done: &mut impl FnMut(Done),
    ) {
        let mut following = self.bios.first(chain);
        while let Some(index) = following {
            following = self.bios.behind(chain, index);
            if self.limiters.have_seen_bios() {
                self.limited_bio_ended(index, now);
            }
            let node = self.bios.at(index);
            done(Done { cookie: node.cookie, bio: node.bio, status, submitted_ns: node.submitted_ns, issued_ns });
            self.bios.give_back(index);
            self.bios.count_ended();
        }
    }

    /// Returns the slot, the tag and the reference to the group.
    // Always inlined: the call and the saved registers would be a third of the function's cost.
    #[inline(always)]
    pub(crate) fn free(&mut self, id: RequestId, group: GroupId, now: Nanos) {
        self.elevator.freed(&self.requests, id, now);
        let limited = self.slots.at(id.slot()).marks.has(Marks::LIMITED);
        self.requests.free(id);
        self.pool.give_back(limited);
        if self.groups.remove_request(group) {
            self.forget_group_if_unused(group, now);
        }
    }

    /// When [`RequestQueue::timer`] must be called.
    #[inline]
    pub fn next_timer(&self) -> Option<Nanos> {
        let flush = self.flush.deadline_ns(self.settings.era.flush_wait_ns);
        let mut timer = earlier(self.elevator.next_timer(), flush);
        if !self.limiters.is_empty() {
            timer = earlier(timer, self.limiters.next_timer());
        }
        if self.gate.is_closed() { earlier(timer, self.gate.plugged_until()) } else { timer }
    }

    /// Call this at the time that [`RequestQueue::next_timer`] returned.
    pub fn timer(&mut self, now: Nanos) {
        if self.elevator.next_timer().is_some_and(|at| hoistway_block::time::is_due(now, at)) {
            let wake = self.elevator.timer(&self.requests, now);
            self.note(wake);
        }
        if !self.limiters.is_empty() {
            self.run_limiters(now);
        }
        if self.gate.plugged_until().is_some_and(|at| hoistway_block::time::is_due(now, at)) {
            self.unplug_device(now);
        }
        self.kick_flush(now);
    }
}

#[inline]
fn earlier(a: Option<Nanos>, b: Option<Nanos>) -> Option<Nanos> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

impl<E: Elevator> RequestQueue<E> {
    pub(crate) fn push_dispatch_front(&mut self, id: RequestId) {
        let queue: HardwareQueue = self.requests.attributes(id).hardware_queue;
        self.device.push_front(&mut self.links, queue, id.slot());
        self.note(Wake::Queue(queue));
    }
}
