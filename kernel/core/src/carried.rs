//! One device's policy with its table of requests, groups and issuers: a request's life as blk-mq tells it.
//!
//! Every method is one call of the glue under the device's lock; after each, [`Shared`] says what may be read without it.

use crate::ids::Ids;
use crate::offered::offer;
use crate::values::{Action, Ask, Config, DISPATCH, EMPTY, Effect, NONE, RUN_QUEUE, Shared, Stats};
use crate::values::{HOLD, THROTTLED};
use block::{ContextId, Extent, GroupId, HardwareQueue, Nanos, RequestId};
use core::sync::atomic::Ordering::Relaxed;
use elevator::registry::{self, BuildError};
use elevator::structures::{Array, NoMemory};
use elevator::{
    Admission, Any, Attributes, Configuration, Depth, Dispatch, Elevator, GroupSettings, GroupTree, Hint, Merge,
    MergeSearch, Place, Position, Requests, Side, Version, Wake,
};

/// The request was inserted at least once.
const INSERTED: u8 = 1;
/// The driver gave it back, and it was not inserted since.
const GIVEN_BACK: u8 = 2;
/// Another request took it in.
const ABSORBED: u8 = 4;

/// How a request enters: before everything.
pub const AT_HEAD: u32 = 1;

/// Numbers of reasons that are counted.
const REASONS: u32 = 64;

/// A policy and what the block layer told it.
#[repr(C)]
#[derive(Debug)]
pub struct Carried {
    /// For the glue; first, because it reads it through the handle.
    pub shared: Shared,
    tables: Tables,
    policy: Any,
}

#[derive(Debug)]
struct Tables {
    requests: Requests,
    marks: Array<u8>,
    groups: GroupTree,
    group_ids: Ids,
    context_ids: Ids,
    reasons: Array<u64>,
    stats: Stats,
}

impl Tables {
    fn try_new(configuration: &Configuration) -> Result<Self, NoMemory> {
        Ok(Self {
            requests: Requests::try_new(configuration.slots)?,
            marks: Array::try_new(configuration.slots, 0)?,
            groups: GroupTree::try_new(configuration.groups)?,
            group_ids: Ids::try_new(configuration.groups)?,
            context_ids: Ids::try_new(configuration.contexts)?,
            reasons: Array::try_new(REASONS, 0)?,
            stats: Stats::default(),
        })
    }
}

/// Apart, so that its frame ends before the rest begins.
#[inline(always)]
fn build_policy(config: &Config) -> Result<Any, BuildError> {
    let offer = offer(config.policy).ok_or(BuildError::UnknownName)?;
    registry::build(offer.entry.name, version_of(config.version), &config.configuration())
}

/// The version in `packed`, whose three lower 16-bit numbers are its parts; none if it is 0.
fn version_of(packed: u64) -> Option<Version> {
    let part = |shift: u32| u16::try_from((packed >> shift) & 0xffff).unwrap_or(u16::MAX);
    (packed != 0).then(|| Version(part(32), part(16), part(0)))
}

impl Carried {
    /// Everything a device will ever need.
    ///
    /// # Errors
    /// No such policy, none as old as the version, or too little memory.
    pub fn try_new(config: &Config) -> Result<Self, BuildError> {
        let tables = Tables::try_new(&config.configuration())?;
        Ok(Self { shared: Shared::new(), tables, policy: build_policy(config)? }.ready())
    }

    /// The same where it is to stay: a policy is large, and the stack of a kernel is not.
    ///
    /// # Errors
    /// As [`Carried::try_new`]; nothing is at `place` then.
    ///
    /// # Safety
    /// `place` is memory for one of these.
    #[allow(unsafe_code)]
    #[inline(never)]
    pub unsafe fn build_at(place: *mut Self, config: &Config) -> Result<(), BuildError> {
        // The policy last, so that nothing has to be taken back.
        let tables = Tables::try_new(&config.configuration())?;
        // SAFETY: the caller's word; each field is written once, and the rest only after the last.
        unsafe {
            (&raw mut (*place).shared).write(Shared::new());
            (&raw mut (*place).policy).write(match build_policy(config) {
                Ok(policy) => policy,
                Err(why) => {
                    drop(tables);
                    return Err(why);
                }
            });
            (&raw mut (*place).tables).write(tables);
            (*place).settled();
        }
        Ok(())
    }

    fn ready(mut self) -> Self {
        self.settled();
        self
    }

    /// What follows from the tunables.
    fn settled(&mut self) {
        let search = match self.policy.merge_search() {
            MergeSearch::Pipeline => 0,
            MergeSearch::PipelineThenFront => 1,
            MergeSearch::Own => 2,
        };
        self.shared.search.store(search, Relaxed);
        self.after(Wake::No);
    }

    // ---- before a request is queued ----

    /// How deep a request like this may go into the scheduler tags; 0: as deep as it likes.
    pub fn admit(&self, ask: &Ask, now: Nanos) -> u32 {
        match self.policy.admit(&ask.attributes(), now) {
            Admission::Shallow(depth) => depth.max(1),
            Admission::Full | Admission::Must => 0,
        }
    }

    /// A tag was taken. [`NONE`] when all slots are in use.
    pub fn allocate(&mut self, ask: &Ask, now: Nanos) -> u32 {
        match self.new_request(ask.attributes(), now) {
            Some(id) => id.raw(),
            None => NONE,
        }
    }

    #[inline(always)]
    fn new_request(&mut self, attributes: Attributes, now: Nanos) -> Option<RequestId> {
        let id = self.tables.requests.allocate(attributes, now)?;
        *self.tables.marks.at_mut(id.slot()) = 0;
        self.hold(&attributes);
        self.policy.allocated(&self.tables.requests, id, now);
        Some(id)
    }

    #[inline]
    fn hold(&mut self, attributes: &Attributes) {
        self.tables.group_ids.hold(attributes.group.0);
        self.tables.context_ids.hold(attributes.context.0);
    }

    #[inline]
    fn let_go(&mut self, attributes: &Attributes) {
        if self.tables.context_ids.let_go(attributes.context.0) {
            self.tables.context_ids.release(attributes.context.0);
        }
        if self.tables.group_ids.let_go(attributes.group.0) {
            self.shared.dying_group.store(attributes.group.0, Relaxed);
        }
    }

    /// The queued request that a bio can join: its id and side (1 back, 2 front, 3 discard), or [`NONE`].
    pub fn find_company(&mut self, ask: &Ask, now: Nanos) -> (u32, u32) {
        if self.shared.search.load(Relaxed) == 0 {
            return (NONE, 0);
        }
        let bio = ask.attributes();
        match self.policy.merge(&self.tables.requests, &bio, now) {
            Merge::Into(id, side) if self.can_join(id, &bio, side) => (id.raw(), side_number(side)),
            _ => (NONE, 0),
        }
    }

    fn can_join(&self, id: RequestId, bio: &Attributes, side: Side) -> bool {
        if !self.tables.requests.is_live(id) {
            return false;
        }
        let request = self.tables.requests.at(id);
        let extent = request.attributes.extent;
        let touches = match side {
            Side::Back => extent.is_followed_by(bio.extent),
            Side::Front => bio.extent.is_followed_by(extent),
            Side::Discard => true,
        };
        touches && request.place == Place::Queued
    }

    /// Whether the policy lets this bio join this request.
    pub fn may_merge(&self, id: u32, ask: &Ask) -> bool {
        self.policy.may_merge(&self.tables.requests, RequestId::from_raw(id), &ask.attributes())
    }

    /// A bio joined a queued request, or a request was taken in by it: this is its extent now.
    pub fn bio_merged(&mut self, id: u32, side: u32, sector: u64, sectors: u32, now: Nanos) {
        let id = RequestId::from_raw(id);
        let Some(request) = self.tables.requests.live_mut(id) else { return };
        request.attributes.extent = Extent::new(sector, sectors);
        let side = match side {
            1 => Side::Back,
            2 => Side::Front,
            _ => Side::Discard,
        };
        self.tables.stats.bios_merged = self.tables.stats.bios_merged.wrapping_add(1);
        self.policy.bio_merged(&self.tables.requests, id, side, now);
    }

    /// `gone` was absorbed by `keep`, which is this long now. `gone` is finished later, without service.
    pub fn absorbed(&mut self, keep: u32, sectors: u32, gone: u32, now: Nanos) -> Effect {
        let (keep, gone) = (RequestId::from_raw(keep), RequestId::from_raw(gone));
        if !self.tables.requests.is_live(keep) || !self.tables.requests.is_live(gone) {
            return self.fault();
        }
        let start_ns = self.tables.requests.at(gone).start_ns;
        if let Some(request) = self.tables.requests.live_mut(keep) {
            request.attributes.extent.sectors = sectors;
            request.start_ns = request.start_ns.min(start_ns);
        }
        self.policy.requests_merged(&self.tables.requests, keep, gone, now);
        let was_queued = self.tables.requests.at(gone).place == Place::Queued;
        let marks = *self.tables.marks.at(gone.slot());
        let mut wake = Wake::No;
        if marks & INSERTED != 0 {
            wake = self.policy.released(&self.tables.requests, gone, now);
        }
        self.tables.requests.move_to(gone, Place::Complete);
        *self.tables.marks.at_mut(gone.slot()) = ABSORBED;
        self.tables.stats.absorbed = self.tables.stats.absorbed.wrapping_add(1);
        if was_queued {
            self.one_less_queued();
        }
        self.after(wake)
    }

    /// The queued request before (`false`) or behind this one in the policy's order.
    pub fn neighbour(&self, id: u32, is_behind: bool) -> u32 {
        let id = RequestId::from_raw(id);
        let found = if is_behind {
            self.policy.latter(&self.tables.requests, id)
        } else {
            self.policy.former(&self.tables.requests, id)
        };
        match found {
            Some(found) if self.tables.requests.is_live(found) => found.raw(),
            _ => NONE,
        }
    }

    // ---- a request's life ----

    /// A request joins the policy's queues: one that was allocated, or [`NONE`] for one that is met here first. The answer
    /// is its id, [`NONE`] when all slots are in use.
    pub fn insert(&mut self, known: u32, ask: &Ask, at: u32, now: Nanos) -> u32 {
        let attributes = ask.attributes();
        let id = if known == NONE {
            match self.new_request(attributes, now) {
                Some(id) => id,
                None => return NONE,
            }
        } else {
            let id = RequestId::from_raw(known);
            self.take_attributes(id, &attributes, now);
            id
        };
        let marks = *self.tables.marks.at(id.slot());
        *self.tables.marks.at_mut(id.slot()) = INSERTED;
        let position = if marks & GIVEN_BACK != 0 {
            Position::Requeue
        } else if at == AT_HEAD {
            Position::Head
        } else {
            Position::Sorted(if self.shared.search.load(Relaxed) == 2 {
                self.list_hint(&attributes, now)
            } else {
                Hint::None
            })
        };
        self.tables.requests.move_to(id, Place::Queued);
        let queued = self.shared.queued.load(Relaxed).wrapping_add(1);
        self.shared.queued.store(queued, Relaxed);
        self.tables.stats.inserted = self.tables.stats.inserted.wrapping_add(1);
        let wake = self.policy.insert(&self.tables.requests, id, position, now);
        self.after(wake);
        id.raw()
    }

    /// What was not known when the tag was taken: the extent, and whose it really is.
    #[inline(never)]
    fn take_attributes(&mut self, id: RequestId, attributes: &Attributes, now: Nanos) {
        let before = *self.tables.requests.attributes(id);
        let is_moved = before.group != attributes.group || before.context != attributes.context;
        if is_moved {
            self.policy.freed(&self.tables.requests, id, now);
        }
        if let Some(request) = self.tables.requests.live_mut(id) {
            request.attributes = *attributes;
        }
        if is_moved {
            self.hold(attributes);
            self.let_go(&before);
            self.policy.allocated(&self.tables.requests, id, now);
        }
    }

    /// Where a policy that keeps lists of its own wants the request.
    #[inline(never)]
    fn list_hint(&mut self, attributes: &Attributes, now: Nanos) -> Hint {
        match self.policy.merge(&self.tables.requests, attributes, now) {
            Merge::No(hint) => hint,
            Merge::Into(id, Side::Back | Side::Discard) => Hint::After(id),
            Merge::Into(id, Side::Front) => {
                self.policy.former(&self.tables.requests, id).map_or(Hint::AtFront, Hint::After)
            }
        }
    }

    /// The next request for a hardware queue.
    pub fn dispatch(&mut self, queue: u16, now: Nanos) -> Action {
        let queue = HardwareQueue(queue);
        self.tables.stats.dispatch_calls = self.tables.stats.dispatch_calls.wrapping_add(1);
        if !self.policy.has_work(queue) {
            return Action { kind: EMPTY, id: NONE, until_ns: 0 };
        }
        let chosen = self.policy.choose(&self.tables.requests, queue, now);
        let (action, wake) = match chosen {
            Dispatch::Request { id, reason } => {
                if let Some(count) = self.tables.reasons.get_mut(u32::from(reason.0)) {
                    *count = count.wrapping_add(1);
                }
                let wake = self.start(id, now);
                (Action { kind: DISPATCH, id: id.raw(), until_ns: 0 }, wake)
            }
            Dispatch::Hold { until, reason } => {
                if let Some(count) = self.tables.reasons.get_mut(u32::from(reason.0)) {
                    *count = count.wrapping_add(1);
                }
                self.tables.stats.holds = self.tables.stats.holds.wrapping_add(1);
                (Action { kind: HOLD, id: NONE, until_ns: until }, Wake::No)
            }
            Dispatch::Throttled => {
                self.tables.stats.throttled = self.tables.stats.throttled.wrapping_add(1);
                (Action { kind: THROTTLED, id: NONE, until_ns: 0 }, Wake::No)
            }
            Dispatch::Empty => (Action { kind: EMPTY, id: NONE, until_ns: 0 }, Wake::No),
        };
        self.after(wake);
        action
    }

    /// blk-mq gives what was chosen to the driver as soon as it has a tag of the device for it.
    #[inline(always)]
    fn start(&mut self, id: RequestId, now: Nanos) -> Wake {
        self.one_less_queued();
        let in_driver = self.shared.in_driver.load(Relaxed).wrapping_add(1);
        self.shared.in_driver.store(in_driver, Relaxed);
        self.tables.stats.dispatched = self.tables.stats.dispatched.wrapping_add(1);
        self.tables.requests.move_to(id, Place::Dispatched);
        if let Some(request) = self.tables.requests.move_to(id, Place::Started) {
            request.issued_ns = now;
        }
        self.policy.started(&self.tables.requests, id, now)
    }

    /// The driver gave the request back. It comes again by `insert`, or goes to the device without.
    pub fn requeue(&mut self, id: u32, now: Nanos) -> Effect {
        let id = RequestId::from_raw(id);
        if !self.tables.requests.is_live(id) || self.tables.requests.at(id).place != Place::Started {
            return self.fault();
        }
        self.one_less_in_driver();
        self.tables.stats.requeued = self.tables.stats.requeued.wrapping_add(1);
        self.tables.requests.move_to(id, Place::Plugged);
        *self.tables.marks.at_mut(id.slot()) |= GIVEN_BACK;
        let wake = self.policy.requeued(&self.tables.requests, id, now);
        self.after(wake)
    }

    /// The request ends: served, absorbed, or never inserted. Its id is stale afterwards.
    pub fn finish(&mut self, id: u32, now: Nanos) -> Effect {
        let id = RequestId::from_raw(id);
        if !self.tables.requests.is_live(id) {
            return self.fault();
        }
        let marks = *self.tables.marks.at(id.slot());
        let mut wake = Wake::No;
        match self.tables.requests.at(id).place {
            Place::Started => {
                self.one_less_in_driver();
                wake = self.ended(id, now);
            }
            Place::Plugged if marks & INSERTED != 0 => {
                // It went to the device behind the policy's back: tell of it now.
                self.tables.requests.move_to(id, Place::Dispatched);
                self.tables.requests.move_to(id, Place::Started);
                let started = self.policy.started(&self.tables.requests, id, now);
                wake = started.and(self.ended(id, now));
            }
            Place::Plugged | Place::Complete => {}
            Place::Queued | Place::Dispatched | Place::Free => return self.fault(),
        }
        self.policy.freed(&self.tables.requests, id, now);
        let attributes = *self.tables.requests.attributes(id);
        self.tables.requests.free(id);
        self.let_go(&attributes);
        self.after(wake)
    }

    #[inline(always)]
    fn ended(&mut self, id: RequestId, now: Nanos) -> Wake {
        self.tables.stats.finished = self.tables.stats.finished.wrapping_add(1);
        self.tables.requests.move_to(id, Place::Complete);
        let completed = self.policy.completed(&self.tables.requests, id, now);
        completed.and(self.policy.released(&self.tables.requests, id, now))
    }

    // ---- time and change ----

    /// The time that `shared.timer_at_ns` named has come.
    pub fn timer(&mut self, now: Nanos) -> Effect {
        self.tables.stats.timers = self.tables.stats.timers.wrapping_add(1);
        let wake = self.policy.timer(&self.tables.requests, now);
        self.after(wake)
    }

    /// The depths changed; the table of requests keeps its size.
    pub fn depth_changed(&mut self, requests: u32, device: u32) {
        self.policy.depth_changed(Depth { requests: requests.max(1), device: device.max(1) });
        self.after(Wake::No);
    }

    /// Whether dispatch can bring something for this hardware queue.
    #[inline]
    pub fn has_work(&self, queue: u16) -> bool {
        self.policy.has_work(HardwareQueue(queue))
    }

    /// A group appeared below another one; its id, 0 if there is none left.
    pub fn group_added(&mut self, parent: u32, weight: u32, now: Nanos) -> u32 {
        let parent = self.tables.groups.nearest_online(GroupId(parent));
        let id = self.tables.group_ids.take();
        if id == 0 {
            return 0;
        }
        let settings = GroupSettings { parent, ..GroupSettings::with_weight(weight) };
        if !self.tables.groups.add(GroupId(id), &settings) {
            self.fault();
            return 0;
        }
        // A child keeps its parent's id: it may have requests when the parent's own are long done.
        self.tables.group_ids.hold(parent.0);
        self.policy.group_added(GroupId(id), &settings, now);
        self.after(Wake::No);
        id
    }

    /// A group has another weight.
    pub fn group_weighed(&mut self, group: u32, weight: u32, now: Nanos) -> Effect {
        let group = GroupId(group);
        if !self.tables.group_ids.is_there(group.0) {
            return self.fault();
        }
        let settings = GroupSettings { weight, ..*self.tables.groups.settings(group) };
        self.tables.groups.change(group, &settings);
        let wake = self.policy.group_changed(group, &settings, now);
        self.after(wake)
    }

    /// The group takes no more bios. Its id is used again after its last request and its last child.
    pub fn group_offline(&mut self, group: u32, now: Nanos) {
        if group == 0 || !self.tables.group_ids.is_there(group) {
            return;
        }
        self.policy.group_offline(GroupId(group), now);
        if self.tables.group_ids.leave(group) {
            self.shared.dying_group.store(group, Relaxed);
        }
        self.after(Wake::No);
    }

    /// To be called at once when `shared.dying_group` is not 0: nothing holds that group any more, and that may have been
    /// the last that held those above. A call of its own, because the stack would be too deep below `finish`.
    pub fn bury_group(&mut self, now: Nanos) {
        let mut at = self.shared.dying_group.load(Relaxed);
        self.shared.dying_group.store(0, Relaxed);
        for _ in 0..self.tables.groups.capacity() {
            if at == 0 {
                break;
            }
            let group = GroupId(at);
            let parent = self.tables.groups.settings(group).parent;
            self.tables.groups.set_offline(group);
            if !self.tables.groups.remove_if_unused(group) {
                self.fault();
            }
            self.policy.group_removed(group, now);
            self.tables.group_ids.release(at);
            at = if self.tables.group_ids.let_go(parent.0) { parent.0 } else { 0 };
        }
        self.after(Wake::No);
    }

    /// A process appeared; its id, 0 (shared) if there is none left.
    pub fn context_added(&mut self) -> u32 {
        self.tables.context_ids.take()
    }

    /// It is gone.
    pub fn context_exited(&mut self, context: u32, now: Nanos) -> Effect {
        if context == 0 || !self.tables.context_ids.is_there(context) {
            return 0;
        }
        let wake = self.policy.context_exited(ContextId(context), now);
        if self.tables.context_ids.leave(context) {
            self.tables.context_ids.release(context);
        }
        self.after(wake)
    }

    // ---- inspection ----

    /// The policy, to look at.
    pub fn policy(&self) -> &Any {
        &self.policy
    }

    /// Sets a tunable, in its row's unit. False where the row refuses it.
    pub fn set(&mut self, row: u32, value: i64) -> bool {
        let done = self.policy.set(row as usize, value).is_ok();
        self.settled();
        done
    }

    /// Switches the policy's messages on or off.
    pub fn trace(&mut self, is_on: bool) {
        self.policy.trace(is_on);
    }

    /// The oldest message.
    pub fn take_message(&mut self) -> Option<elevator::Message> {
        self.policy.take_message()
    }

    /// How often a reason was given.
    pub fn reason_count(&self, reason: u32) -> u64 {
        self.tables.reasons.get(reason).copied().unwrap_or(0)
    }

    /// What happened so far.
    pub fn stats(&self) -> Stats {
        let violations = u64::from(self.policy.violations()) + u64::from(self.tables.requests.violations());
        Stats {
            faults: self.tables.stats.faults + violations,
            groups: u64::from(self.tables.group_ids.in_use()),
            contexts: u64::from(self.tables.context_ids.in_use()),
            groups_refused: self.tables.group_ids.refused,
            contexts_refused: self.tables.context_ids.refused,
            ..self.tables.stats
        }
    }

    /// Everything that should hold; for replays and tests.
    ///
    /// # Errors
    /// The first rule that does not.
    pub fn check(&self) -> Result<(), elevator::Violation> {
        self.policy.check(&self.tables.requests)
    }

    #[inline]
    fn one_less_queued(&mut self) {
        let queued = self.shared.queued.load(Relaxed);
        self.shared.queued.store(queued.saturating_sub(1), Relaxed);
    }

    #[inline]
    fn one_less_in_driver(&mut self) {
        let in_driver = self.shared.in_driver.load(Relaxed);
        self.shared.in_driver.store(in_driver.saturating_sub(1), Relaxed);
    }

    /// What the glue may read without asking.
    #[inline(always)]
    fn after(&mut self, wake: Wake) -> Effect {
        let has_work = self.shared.queued.load(Relaxed) != 0 && self.policy.has_work(HardwareQueue(0));
        self.shared.has_work.store(u32::from(has_work), Relaxed);
        self.shared.timer_at_ns.store(self.policy.next_timer().unwrap_or(u64::MAX), Relaxed);
        if wake.is_wanted() { RUN_QUEUE } else { 0 }
    }

    #[cold]
    fn fault(&mut self) -> Effect {
        self.tables.stats.faults = self.tables.stats.faults.saturating_add(1);
        0
    }
}

fn side_number(side: Side) -> u32 {
    match side {
        Side::Back => 1,
        Side::Front => 2,
        Side::Discard => 3,
    }
}
