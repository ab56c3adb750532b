//! The request queue round a policy: everything that the block layer does for every elevator alike.
//!
//! ```text
//!  submit ─► merge? ─► tag? ─► [plug] ─► policy ─► dispatch list ─► device ─► complete ─► the submitters' cookies
//!              │         └ wait            ▲  └ hold until t             └ requeue ┘
//!              └ into a queued request     └ flush machine puts data back at the head
//! ```
//!
//! A host calls [`RequestQueue::submit`], then [`RequestQueue::dispatch`] until it answers anything but
//! [`Next::Start`], and [`RequestQueue::complete`] when the device is done; [`RequestQueue::next_timer`] says when to
//! call [`RequestQueue::timer`]. Nothing is allocated after construction; time comes in as an argument.
//! What differs between kernels is in [`Era`]. In the eras whose queue plugs, a host calls
//! [`RequestQueue::unplug_device`] whenever somebody is about to wait for I/O.
//! Source of the behaviour: Linux 6.1 to 6.12 block/{blk-mq,blk-mq-sched,blk-merge,blk-flush,elevator}.c; `era.rs` for
//! the older kernels.
#![no_std]
#![forbid(unsafe_code)]
#![deny(clippy::float_arithmetic)]

extern crate alloc;

mod admitted;
mod bios;
mod check;
mod counters;
mod dispatch;
mod end_hash;
mod era;
mod flush;
mod groups;
mod limiting;
mod limits;
mod merge;
mod plug;
mod queue_plug;
mod request_lists;
mod single_queue;
mod switch;
mod tags;
mod trace;

pub use counters::{Counters, DirectionCounters};
pub use dispatch::Next;
pub use era::{Allocation, Drains, Era, Flushes, Kinds, QueuePlug, Specials};
pub use limits::{Limits, Merging};
pub use plug::Plug;
pub use switch::{Busy, Handover};
pub use tags::Tags;
pub use trace::{Trace, TraceEvent, TraceKind};

use alloc::vec::Vec;
use bios::{Bios, Chain};
use block::{Flags, HardwareQueue, Nanos, Operation, RequestId, Status};
use elevator::limiters::AnyLimiter;
use elevator::structures::sorted::{SortedLinks, Tree};
use elevator::structures::{Array, Links, List, NoMemory};
use elevator::tunable::{SettingError, Tunable};
use elevator::{
    Admission, Any, Bio, Configuration, Depth, Elevator, GroupState, GroupTree, IoLimits, Limiter, Place, Position,
    Requests, Wake, registry,
};
use end_hash::EndHash;
use flush::{FlushMachine, Stage, Steps};
use queue_plug::DevicePlug;
use request_lists::RequestLists;
use single_queue::DispatchOrder;

/// Most reasons a policy may have; the queue counts each.
pub const REASONS_MAX: usize = 64;

/// What a queue is built for.
#[derive(Copy, Clone, Debug)]
pub struct Settings {
    /// What the policy is told. `slots` holds all requests of the deepest `depth.requests` and a flush command for each
    /// hardware queue: [`Era::slots`].
    pub configuration: Configuration,
    /// Limits of the device.
    pub limits: Limits,
    /// Surroundings.
    pub era: Era,
    /// How eagerly bios are merged.
    pub merging: Merging,
    /// Bios that may be inside at one time, merged and waiting ones included.
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

/// What became of a submitted bio.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Submitted {
    /// It joined this request.
    Merged(RequestId),
    /// It became this request.
    Queued(RequestId),
    /// It waits for a tag; it enters by itself when one is free.
    Waiting,
    /// A limiter keeps it back; it goes on by itself when its time has come. Its submitter does not sleep.
    Held,
    /// There was nothing to do (a flush on a device without a volatile cache): it is done already, no [`Done`] follows.
    Nothing,
}

/// The table of bios is full: submit again after a completion.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Full;

/// A bio that ended.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Done {
    /// What the submitter gave with it.
    pub cookie: u64,
    /// The bio as submitted.
    pub bio: Bio,
    /// How it ended.
    pub status: Status,
    /// When it was submitted.
    pub submitted_ns: Nanos,
    /// When its request was handed to the device; 0 if never (a failed flush before it).
    pub issued_ns: Nanos,
}

/// What the queue keeps per request, beside the request table.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Slot {
    chain: Chain,
    sequence: u64,
    stage: Stage,
    limited: bool,
    no_merge: bool,
    inserted: bool,
}

impl Slot {
    pub(crate) const EMPTY: Slot = Slot {
        chain: Chain::EMPTY,
        sequence: 0,
        stage: Stage::Plain,
        limited: false,
        no_merge: false,
        inserted: false,
    };
}

/// A request queue with its policy.
#[derive(Debug)]
pub struct RequestQueue<E = Any> {
    elevator: E,
    requests: Requests,
    slots: Array<Slot>,
    bios: Bios,
    /// Bios without a tag: unlimited ones, limited ones (before blk-mq: of the first kind, of the second).
    waiting: [Chain; 2],
    admitted: admitted::Admitted,
    tags: Tags,
    lists: RequestLists,
    hash: EndHash,
    last_merge: Option<RequestId>,
    /// Links of the dispatch lists and of the flush machine's lists: a request is on one of them at most.
    dispatch_links: Links,
    dispatch_lists: Array<List>,
    dispatch_total: u32,
    in_device: Array<u32>,
    in_device_total: u32,
    flush: FlushMachine,
    groups: GroupTree,
    switching: Option<switch::Switching<E>>,
    retired: Option<E>,
    carried: Tree,
    carried_links: SortedLinks,
    sequence: u64,
    counters: Counters,
    reasons: [u64; REASONS_MAX],
    busy_average: u32,
    wake: Wake,
    trace: Trace,
    tracing: bool,
    violations: u32,
    depth: Depth,
    limits: Limits,
    era: Era,
    merging: Merging,
    device_plug: DevicePlug,
    order: DispatchOrder,
    /// Whether a dispatch has to ask the plug or a barrier first: the one thing about both that the data path sees.
    is_gated: bool,
    /// Solid-state devices that queue commands are not plugged (since 2.6.29).
    is_plug_useful: bool,
    tick_ns: Nanos,
    /// In the order in which a bio meets them; mostly none.
    limiters: Vec<AnyLimiter>,
    /// Empty as long as there has never been a limiter.
    watched: Array<limiting::Watched>,
    io_limits: Array<IoLimits>,
    is_rotational: bool,
}

impl RequestQueue<Any> {
    /// A queue round the policy of this name, in the form of a kernel version or in its newest.
    ///
    /// # Errors
    /// Unknown name, version before the policy's first, or memory short.
    pub fn build(
        name: &str,
        version: Option<elevator::Version>,
        settings: &Settings,
    ) -> Result<Self, registry::BuildError> {
        let elevator = registry::build(name, version, &settings.configuration)?;
        Ok(Self::new(elevator, settings)?)
    }
}

// ---- construction, settings, inspection ----
impl<E: Elevator> RequestQueue<E> {
    /// A queue round this policy, which must have been built for the same configuration.
    ///
    /// # Errors
    /// When memory is short.
    pub fn new(elevator: E, settings: &Settings) -> Result<Self, NoMemory> {
        let configuration = &settings.configuration;
        let slots = configuration.slots;
        let queues = u32::from(configuration.hardware_queues.max(1));
        Ok(Self {
            elevator,
            requests: Requests::try_new(slots)?,
            slots: Array::try_new(slots, Slot::EMPTY)?,
            bios: Bios::try_new(settings.bios)?,
            waiting: [Chain::EMPTY; 2],
            admitted: admitted::Admitted::try_new(settings.bios)?,
            tags: Tags::new(configuration.depth.requests.min(slots.saturating_sub(queues)).max(1)),
            lists: RequestLists::try_new(settings.era.allocation, configuration.contexts)?,
            hash: EndHash::try_new(slots)?,
            last_merge: None,
            dispatch_links: Links::try_new(slots)?,
            dispatch_lists: Array::try_new(queues, List::EMPTY)?,
            dispatch_total: 0,
            in_device: Array::try_new(queues, 0)?,
            in_device_total: 0,
            flush: FlushMachine::default(),
            groups: GroupTree::try_new(configuration.groups)?,
            switching: None,
            retired: None,
            carried: Tree::EMPTY,
            carried_links: SortedLinks::try_new(slots)?,
            sequence: 0,
            counters: Counters::default(),
            reasons: [0; REASONS_MAX],
            busy_average: 0,
            wake: Wake::No,
            trace: Trace::default(),
            tracing: false,
            violations: 0,
            depth: configuration.depth,
            limits: settings.limits,
            era: settings.era,
            merging: settings.merging,
            device_plug: DevicePlug::default(),
            order: DispatchOrder::default(),
            is_gated: false,
            is_plug_useful: configuration.rotational || !configuration.queueing,
            tick_ns: configuration.tick_ns,
            limiters: Vec::new(),
            watched: Array::try_new(0, limiting::UNSEEN)?,
            io_limits: Array::try_new(configuration.groups, IoLimits::NONE)?,
            is_rotational: configuration.rotational,
        })
    }

    /// The policy, to be looked at.
    pub fn elevator(&self) -> &E {
        &self.elevator
    }

    /// The table of requests.
    pub fn requests(&self) -> &Requests {
        &self.requests
    }

    /// What iostat counts.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// How often each reason of the policy was given, in the order of its names, since it was put in place.
    pub fn reasons(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.elevator.reasons().iter().copied().zip(self.reasons.iter().copied())
    }

    /// Impossible situations met by queue, table and policy. Anything above 0 is a defect.
    pub fn violations(&self) -> u32 {
        let limiters = self.limiters.iter().map(Limiter::violations).fold(0, u32::saturating_add);
        let own = self.violations.saturating_add(self.requests.violations());
        own.saturating_add(self.elevator.violations()).saturating_add(limiters)
    }

    /// Tags: depth and use.
    pub fn tags(&self) -> &Tags {
        &self.tags
    }

    /// Requests that the device holds.
    pub fn in_device(&self) -> u32 {
        self.in_device_total
    }

    /// Bios inside, wherever they are.
    pub fn bios_inside(&self) -> u32 {
        self.bios.in_use()
    }

    /// Bios that fit besides those inside.
    pub fn room_for_bios(&self) -> u32 {
        self.bios.capacity() - self.bios.in_use()
    }

    /// The cookies and extents of a request's bios, in sector order.
    pub fn bios_of(&self, id: RequestId) -> impl Iterator<Item = (u64, &Bio)> + '_ {
        let first = if self.requests.is_live(id) { self.slots.at(id.slot()).chain.first } else { block::NIL };
        core::iter::successors((first != block::NIL).then_some(first), |index| {
            let next = self.bios.at(*index).next;
            (next != block::NIL).then_some(next)
        })
        .map(|index| {
            let node = self.bios.at(index);
            (node.cookie, &node.bio)
        })
    }

    /// Every tunable of the policy with the value in force, in the row's unit.
    pub fn settings(&self) -> impl Iterator<Item = (&'static Tunable, i64)> + '_ {
        let rows = self.elevator.tunables().iter().enumerate();
        rows.filter_map(|(index, row)| self.elevator.setting(index).map(|value| (row, value)))
    }

    /// Sets a tunable by name, from text as sysfs takes it. Answers the value then in force.
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

    /// Changes the depths. `requests` is cut to what the table holds.
    pub fn set_depth(&mut self, depth: Depth, now: Nanos) {
        let most = self.requests.capacity().saturating_sub(self.in_device.len()).max(1);
        self.depth = Depth { requests: depth.requests.clamp(1, most), device: depth.device.max(1) };
        self.tags.set_depth(self.depth.requests);
        self.elevator.depth_changed(self.depth);
        for limiter in &mut self.limiters {
            limiter.depth_changed(self.depth);
        }
        self.release_held(now);
        self.retry_sleepers();
        self.admit_waiting(now);
        self.note(Wake::All);
    }

    /// The depths in force.
    pub fn depth(&self) -> Depth {
        self.depth
    }

    /// Whether anything since the last call makes a dispatch worthwhile; asking clears it.
    pub fn take_wake(&mut self) -> Wake {
        core::mem::take(&mut self.wake)
    }

    #[inline]
    pub(crate) fn note(&mut self, wake: Wake) {
        self.wake = self.wake.and(wake);
    }
}

// ---- a bio on its way in ----
impl<E: Elevator> RequestQueue<E> {
    /// Takes a bio. `cookie` comes back in [`Done`] when it has ended.
    ///
    /// # Errors
    /// [`Full`] when `Settings::bios` are inside already.
    #[inline]
    pub fn submit(&mut self, bio: &Bio, cookie: u64, now: Nanos) -> Result<Submitted, Full> {
        self.submit_through(bio, cookie, None, now)
    }

    /// Takes a bio into a submitter's plug.
    ///
    /// # Errors
    /// As [`RequestQueue::submit`].
    pub fn submit_plugged(&mut self, bio: &Bio, cookie: u64, plug: &mut Plug, now: Nanos) -> Result<Submitted, Full> {
        // Before submitters had plugs, the queue had one.
        let plug = (self.era.plug_requests > 0).then_some(plug);
        self.submit_through(bio, cookie, plug, now)
    }

    fn submit_through(
        &mut self,
        bio: &Bio,
        cookie: u64,
        mut plug: Option<&mut Plug>,
        now: Nanos,
    ) -> Result<Submitted, Full> {
        let mut bio = *bio;
        if self.groups.state(bio.group) != GroupState::Online {
            bio.group = self.groups.nearest_online(bio.group);
        }
        if needs_flush_machine(&bio) && self.flush_is_nothing(&mut bio) {
            return Ok(Submitted::Nothing);
        }
        let index = self.bios.take(&bio, cookie, now).ok_or(Full)?;
        let is_held = !self.limiters.is_empty() && {
            self.begin_limiting(index);
            self.is_held(index, 0, now)
        };
        if is_held {
            return Ok(Submitted::Held);
        }
        if self.switching.is_none() {
            match self.enter(index, plug.as_deref_mut(), true, now) {
                Entered::Merged(id) => {
                    self.merging_freed_a_request(now);
                    return Ok(Submitted::Merged(id));
                }
                Entered::Queued(id) => return Ok(Submitted::Queued(id)),
                Entered::NoTag { limited } => self.wait(index, limited),
            }
        } else {
            self.wait(index, self.sleeps_apart(&bio));
        }
        self.unplug_device(now);
        // A submitter that has to sleep takes nothing with it: what it holds back goes to the policy first.
        if let Some(plug) = plug {
            self.unplug(plug, now);
        }
        Ok(Submitted::Waiting)
    }

    /// Reads the marks of a bio as the era understands them. True if nothing is left to do.
    #[cold]
    fn flush_is_nothing(&self, bio: &mut Bio) -> bool {
        match self.era.flushes {
            Flushes::Unknown => {
                bio.flags = bio.flags.without(Flags(Flags::PREFLUSH.0 | Flags::FUA.0)).with(Flags::SYNC)
            }
            Flushes::Barriers if bio.flags.contains(Flags::BARRIER) => {
                bio.flags = bio.flags.with(Flags::PREFLUSH).with(Flags::FUA);
            }
            Flushes::Barriers | Flushes::Machine => {}
        }
        let is_unknown = self.era.flushes == Flushes::Unknown && bio.operation == Operation::Flush;
        is_unknown || Steps::of(bio, &self.limits).is_nothing()
    }

    /// A bio waits for a tag. It holds its group, whose id must not be given away meanwhile.
    fn wait(&mut self, index: u32, limited: bool) {
        self.groups.hold(self.bios.at(index).bio.group);
        self.bios.append(&mut self.waiting[usize::from(limited)], index);
    }

    /// The cookie of a bio that was answered with [`Submitted::Waiting`] and has been let in since, oldest first: its
    /// submitter runs again. Hosts whose submitters do not sleep need not ask.
    #[inline]
    pub fn take_admitted(&mut self) -> Option<u64> {
        self.admitted.pop()
    }

    /// Gives what a plug holds to the policy, in order of submission.
    pub fn unplug(&mut self, plug: &mut Plug, now: Nanos) {
        for index in 0..plug.len() {
            let Some(id) = plug.get(index) else { continue };
            if self.requests.is_live(id) {
                self.enter_policy(id, now);
            }
        }
        plug.clear();
        self.admit_waiting(now);
    }

    /// A bio looks for company, then for a request of its own. The kernels before blk-mq do the same with other rules
    /// about who gets a request (`request_lists.rs`).
    fn enter(&mut self, index: u32, plug: Option<&mut Plug>, is_new: bool, now: Nanos) -> Entered {
        let bio = self.bios.at(index).bio;
        let has_lists = self.era.allocation != Allocation::Tags;
        if has_lists && let Err(limited) = self.begin_by_lists(&bio, is_new, now) {
            return Entered::NoTag { limited };
        }
        let hint = if is_new || self.era.searches_again {
            match self.try_merge(index, &bio, plug.as_deref(), now) {
                Ok(id) => {
                    if !self.limiters.is_empty() {
                        self.limiters_merged(index, now);
                    }
                    if has_lists {
                        self.merged_by_lists(&bio, is_new, now);
                    }
                    return Entered::Merged(id);
                }
                Err(hint) => hint,
            }
        } else {
            self.hint_for(&bio, now)
        };
        let taken = if has_lists { self.take_by_lists(&bio, is_new, now) } else { self.take_tag(&bio, is_new, now) };
        let limited = match taken {
            Ok(limited) => limited,
            Err(limited) => return Entered::NoTag { limited },
        };
        let Some(id) = self.requests.allocate(bio, now) else {
            self.tags.give_back(limited);
            return Entered::NoTag { limited };
        };
        *self.slots.at_mut(id.slot()) = Slot { chain: Chain { first: index, last: index }, limited, ..Slot::EMPTY };
        self.counters.allocated(bio.direction(), now);
        self.groups.hold(bio.group);
        self.elevator.allocated(&self.requests, id, now);
        match plug {
            Some(plug) => self.plug(plug, id, now),
            None if needs_flush_machine(&bio) => self.begin_flush_sequence(id, now),
            None if bio.operation == Operation::Passthrough => self.send_special(id, now),
            None => self.insert(id, Position::Sorted(hint), now),
        }
        if has_lists {
            self.entered_by_lists(&bio, now);
        }
        Entered::Queued(id)
    }

    /// Takes a tag as blk-mq does, but that arrivals do not overtake those who wait. Answers, either way, whether the
    /// request is a limited one.
    #[inline]
    fn take_tag(&mut self, bio: &Bio, is_new: bool, now: Nanos) -> Result<bool, bool> {
        let admission = self.elevator.admit(bio, now);
        let shallow = if let Admission::Shallow(depth) = admission { Some(depth) } else { None };
        let limited = shallow.is_some();
        let is_behind_others = is_new && !self.waiting[usize::from(limited)].is_empty();
        let must = admission == Admission::Must;
        if !must && (is_behind_others || !self.tags.take(shallow)) {
            return Err(limited);
        }
        if must && !self.tags.take(None) {
            self.tags.take_beyond();
        }
        Ok(limited)
    }

    /// Adds a request to a plug, which is flushed first when it has collected enough.
    fn plug(&mut self, plug: &mut Plug, id: RequestId, now: Nanos) {
        let newest_sectors = plug.newest().map_or(0, |newest| self.requests.attributes(newest).extent.sectors);
        if plug.len() >= self.era.plug_requests || newest_sectors >= self.era.plug_sectors {
            self.unplug(plug, now);
        }
        if !plug.push(id) {
            self.enter_policy(id, now);
        }
    }

    fn enter_policy(&mut self, id: RequestId, now: Nanos) {
        let bio = *self.requests.attributes(id);
        if needs_flush_machine(&bio) {
            self.begin_flush_sequence(id, now);
        } else if bio.operation == Operation::Passthrough {
            self.send_special(id, now);
        } else if !self.is_open(id) || !self.merge_on_insert(id, now) {
            let hint = self.hint_for(&bio, now);
            self.insert(id, Position::Sorted(hint), now);
        }
    }

    pub(crate) fn insert(&mut self, id: RequestId, at: Position, now: Nanos) {
        self.sequence += 1;
        let slot = self.slots.at_mut(id.slot());
        slot.sequence = self.sequence;
        if self.is_carrying() {
            self.carry(id);
            return;
        }
        let slot = self.slots.at_mut(id.slot());
        slot.inserted = true;
        self.requests.move_to(id, Place::Queued);
        let wake = self.elevator.insert(&self.requests, id, at, now);
        self.note(wake);
        if matches!(at, Position::Sorted(_)) && self.is_open(id) {
            self.hash.add(id.slot(), self.requests.attributes(id).extent.end());
            if self.last_merge.is_none() {
                self.last_merge = Some(id);
            }
        }
        self.trace(TraceKind::Inserted, id, None, now);
    }

    /// A driver's own command.
    #[cold]
    fn send_special(&mut self, id: RequestId, now: Nanos) {
        match self.era.specials {
            Specials::Queued => self.queue_special(id, now),
            Specials::Tail => self.insert_tail(id, now),
            Specials::Bypass => self.bypass(id),
        }
    }

    /// It goes behind everything already chosen, past the policy.
    fn bypass(&mut self, id: RequestId) {
        self.requests.move_to(id, Place::Dispatched);
        let queue = self.requests.attributes(id).hardware_queue;
        self.dispatch_lists.at_mut(u32::from(queue.0)).push_back(&mut self.dispatch_links, id.slot());
        self.dispatch_total += 1;
        self.note(Wake::Queue(queue));
    }

    /// Lets in those who wait for a tag, each kind in order of arrival.
    #[inline]
    pub(crate) fn admit_waiting(&mut self, now: Nanos) {
        let somebody_waits = !self.waiting[0].is_empty() || !self.waiting[1].is_empty();
        if somebody_waits && self.switching.is_none() {
            match self.era.allocation {
                Allocation::Tags => self.admit_in_order(now),
                _ => self.wake_sleepers(now),
            }
        }
    }

    fn admit_in_order(&mut self, now: Nanos) {
        for kind in 0..2 {
            while !self.waiting[kind].is_empty() && self.tags.in_use() < self.tags.depth() {
                let Some(index) = self.bios.pop(&mut self.waiting[kind]) else { break };
                if let Entered::NoTag { limited } = self.let_in(index, now) {
                    self.bios.prepend(&mut self.waiting[usize::from(limited)], index);
                    break;
                }
            }
        }
    }

    /// One who waited tries again; he has left the queue of those who wait, and his bio holds its group until he is in.
    fn let_in(&mut self, index: u32, now: Nanos) -> Entered {
        let group = self.bios.at(index).bio.group;
        self.bios.at_mut(index).bio.group = self.groups.nearest_online(group);
        let entered = self.enter(index, None, false, now);
        if matches!(entered, Entered::NoTag { .. }) {
            self.bios.at_mut(index).bio.group = group;
            return entered;
        }
        if !self.was_held(index) {
            self.admitted.push(self.bios.at(index).cookie);
        }
        if self.groups.let_go(group) {
            self.forget_group_if_unused(group, now);
        }
        entered
    }

    /// The request leaves the policy, whichever way: nobody may merge into it any more.
    pub(crate) fn leave_policy(&mut self, id: RequestId) {
        self.hash.remove(id.slot());
        if self.last_merge == Some(id) {
            self.last_merge = None;
        }
    }
}

enum Entered {
    Merged(RequestId),
    Queued(RequestId),
    NoTag { limited: bool },
}

/// Marks of a write that is more than a write.
const FLUSH_MARKS: Flags = Flags(Flags::PREFLUSH.0 | Flags::FUA.0 | Flags::BARRIER.0);

/// Whether a bio is for the flush machine: flushes, and writes with a flush, FUA or barrier mark.
#[inline]
fn needs_flush_machine(bio: &Bio) -> bool {
    bio.operation == Operation::Flush || bio.flags.intersects(FLUSH_MARKS)
}

// ---- a request on its way out ----
impl<E: Elevator> RequestQueue<E> {
    /// The device finished a request. `done` hears of every bio that ended with it; a sequenced write may go on to a
    /// flush first. Dispatch again afterwards.
    #[inline]
    pub fn complete(&mut self, id: RequestId, status: Status, now: Nanos, mut done: impl FnMut(Done)) {
        if !self.leave_device(id) {
            self.violations += 1;
            return;
        }
        self.requests.move_to(id, Place::Complete);
        self.trace(TraceKind::Completed, id, None, now);
        if self.slots.at(id.slot()).stage == Stage::Command {
            self.flush_completed(id, status, now, &mut done);
        } else {
            if self.slots.at(id.slot()).inserted {
                self.slots.at_mut(id.slot()).inserted = false;
                let completed = self.elevator.completed(&self.requests, id, now);
                let released = self.elevator.released(&self.requests, id, now);
                self.note(completed.and(released));
            }
            let is_sequenced = self.slots.at(id.slot()).stage != Stage::Plain;
            if !is_sequenced || !self.data_step_completed(id, status, now) {
                self.finish(id, status, now, &mut done);
            }
        }
        if !self.limiters.is_empty() {
            self.release_held(now);
        }
        self.admit_waiting(now);
        self.finish_switch_if_drained(now);
    }

    /// The driver gave a started request back: it enters the policy again, before all others.
    pub fn requeue(&mut self, id: RequestId, now: Nanos) {
        if !self.leave_device(id) {
            self.violations += 1;
            return;
        }
        self.counters.requeues += 1;
        self.trace(TraceKind::Requeued, id, None, now);
        let Slot { inserted, stage, .. } = *self.slots.at(id.slot());
        if !inserted || stage == Stage::Command {
            self.requests.move_to(id, Place::Dispatched);
            self.push_dispatch_front(id);
            return;
        }
        let wake = self.elevator.requeued(&self.requests, id, now);
        self.note(wake);
        if self.is_carrying() {
            let wake = self.elevator.released(&self.requests, id, now);
            self.note(wake);
        }
        self.insert(id, Position::Requeue, now);
        self.finish_switch_if_drained(now);
    }

    /// The driver had no room for a request it was just given: it waits on the dispatch list, before everything else,
    /// and the policy is not asked for another until it is gone.
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
        if !self.requests.is_live(id) || self.requests.at(id).place != Place::Started {
            return false;
        }
        let queue = self.requests.attributes(id).hardware_queue;
        let in_device = self.in_device.at_mut(u32::from(queue.0));
        *in_device = in_device.saturating_sub(1);
        self.in_device_total = self.in_device_total.saturating_sub(1);
        true
    }

    /// A request ended for its submitters.
    pub(crate) fn finish(&mut self, id: RequestId, status: Status, now: Nanos, done: &mut impl FnMut(Done)) {
        let request = *self.requests.at(id);
        let attributes = &request.attributes;
        self.counters.completed(attributes.direction(), attributes.extent.sectors, request.start_ns, now);
        if self.is_gated {
            self.end_barrier(id);
        }
        if self.era.allocation != Allocation::Tags {
            self.lists.left(attributes.extent.sectors);
        }
        if !self.limiters.is_empty() {
            self.limiters_request_ended(id, status, now);
        }
        let mut chain = self.slots.at(id.slot()).chain;
        while let Some(index) = self.bios.pop(&mut chain) {
            if !self.watched.is_empty() {
                self.limiters_bio_ended(index, now);
            }
            let node = self.bios.at(index);
            done(Done {
                cookie: node.cookie,
                bio: node.bio,
                status,
                submitted_ns: node.submitted_ns,
                issued_ns: request.issued_ns,
            });
            self.bios.give_back(index);
        }
        self.free(id, now);
    }

    /// Gives slot, tag and the group's hold back.
    // A call and its saved registers would be a third of what it does.
    #[inline(always)]
    pub(crate) fn free(&mut self, id: RequestId, now: Nanos) {
        let group = self.requests.attributes(id).group;
        self.elevator.freed(&self.requests, id, now);
        let limited = self.slots.at(id.slot()).limited;
        self.requests.free(id);
        self.give_back_request(limited);
        if self.groups.let_go(group) {
            self.forget_group_if_unused(group, now);
        }
    }

    /// When [`RequestQueue::timer`] wants to be called.
    #[inline]
    pub fn next_timer(&self) -> Option<Nanos> {
        let flush = self.flush.deadline_ns(self.era.flush_wait_ns);
        let mut timer = earlier(self.elevator.next_timer(), flush);
        if !self.limiters.is_empty() {
            timer = earlier(timer, self.limiters_timer());
        }
        if self.is_gated { earlier(timer, self.device_plug.until) } else { timer }
    }

    /// The time that [`RequestQueue::next_timer`] named has come.
    pub fn timer(&mut self, now: Nanos) {
        if self.elevator.next_timer().is_some_and(|at| block::time::is_due(now, at)) {
            let wake = self.elevator.timer(&self.requests, now);
            self.note(wake);
        }
        if !self.limiters.is_empty() {
            self.run_limiters(now);
        }
        if self.device_plug.until.is_some_and(|at| block::time::is_due(now, at)) {
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
    /// Switches the trace of the queue's and the policy's events on or off. Off at the start.
    pub fn set_tracing(&mut self, on: bool) {
        self.tracing = on;
        self.elevator.trace(on);
        for limiter in &mut self.limiters {
            limiter.trace(on);
        }
    }

    /// The trace: the last events, oldest first.
    pub fn events(&self) -> &Trace {
        &self.trace
    }

    /// The oldest untaken message of the policy, then of the limiters.
    pub fn take_message(&mut self) -> Option<elevator::Message> {
        let own = self.elevator.take_message();
        own.or_else(|| self.limiters.iter_mut().find_map(Limiter::take_message))
    }

    #[inline]
    pub(crate) fn trace(&mut self, kind: TraceKind, id: RequestId, reason: Option<elevator::Reason>, now: Nanos) {
        if self.tracing {
            let extent =
                if self.requests.is_live(id) { self.requests.attributes(id).extent } else { block::Extent::default() };
            self.trace.push(TraceEvent { at_ns: now, kind, id, extent, reason });
        }
    }

    pub(crate) fn push_dispatch_front(&mut self, id: RequestId) {
        let queue: HardwareQueue = self.requests.attributes(id).hardware_queue;
        self.dispatch_lists.at_mut(u32::from(queue.0)).push_front(&mut self.dispatch_links, id.slot());
        self.dispatch_total += 1;
        self.note(Wake::Queue(queue));
    }
}
