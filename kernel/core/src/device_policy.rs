//! One device's policy, of any type, and the state beside it; blk-mq's calls arrive here.
//!
//! Every method is one call of the glue (the C files of kernel/module), made under the device's
//! lock; after each, [`crate::values::Shared`] holds the values that may be read without the lock.
//! Calls made for every request select the policy once and continue in [`crate::life`].

use crate::device_state::DeviceState;
use crate::elevator_types::elevator_type;
use crate::life;
#[cfg(not(feature = "module"))]
use crate::values::Action;
use crate::values::{ATTEND, Ask, Config, Effect, NONE, Stats};
use core::sync::atomic::Ordering::Relaxed;
use hoistway_block::{ContextId, Extent, GroupId, HardwareQueue, Nanos, RequestId};
use hoistway_elevator::registry::{self, BuildError, Visitor};
use hoistway_elevator::{
    Admission, Any, Attributes, Depth, Elevator, GroupSettings, Merge, MergeSearch, Place, Side, Version, Wake,
};

/// A policy, and the state that the block layer passed to it.
#[repr(C)]
#[derive(Debug)]
pub struct DevicePolicy {
    /// Must be first, because the glue reads its beginning through the handle.
    pub state: DeviceState,
    policy: Any,
}

/// Defines the calls that are made for every request; each is compiled separately for every policy.
macro_rules! calls {
    ($($name:ident: $function:ident($($argument:ident: $kind:ty),*) -> $answer:ty;)+) => {$(
        struct $name<'a> {
            state: &'a mut DeviceState,
            $($argument: $kind,)*
        }

        impl Visitor for $name<'_> {
            type Answer = $answer;

            #[inline(always)]
            fn visit<E: Elevator>(self, policy: &mut E) -> $answer {
                life::$function(self.state, policy, $(self.$argument),*)
            }
        }
    )+};
}

calls! {
    Insert: insert(known: u32, ask: &'a Ask, at: u32, now: Nanos) -> u32;
    Allocate: allocate(attributes: Attributes, now: Nanos) -> Option<RequestId>;
    Requeue: requeue(id: u32, now: Nanos) -> Effect;
    Absorb: absorbed(keep: u32, sectors: u32, gone: u32, now: Nanos) -> Effect;
}

// In the module these calls go through a table (`abi/life.rs`); a second caller would keep them
// from being inlined.
#[cfg(not(feature = "module"))]
calls! {
    Choose: dispatch(queue: u16, now: Nanos) -> Action;
    Finish: finish(id: u32, now: Nanos) -> Effect;
}

/// Builds the policy with the number that `config` gives.
#[inline(always)]
fn build_policy(config: &Config) -> Result<Any, BuildError> {
    let elevator_type = elevator_type(config.policy).ok_or(BuildError::UnknownName)?;
    registry::build(elevator_type.entry.name, version_of(config.version), &config.configuration())
}

/// The version in `packed`, whose three lower 16-bit numbers are its parts; `None` if it is 0.
fn version_of(packed: u64) -> Option<Version> {
    let part = |shift: u32| u16::try_from((packed >> shift) & 0xffff).unwrap_or(u16::MAX);
    (packed != 0).then(|| Version(part(32), part(16), part(0)))
}

impl DevicePolicy {
    /// Allocates everything that a device will ever need.
    ///
    /// # Errors
    /// No such policy, none as old as the version, or too little memory.
    pub fn try_new(config: &Config) -> Result<Self, BuildError> {
        let state = DeviceState::try_new(config)?;
        let mut device_policy = Self { state, policy: build_policy(config)? };
        device_policy.publish();
        Ok(device_policy)
    }

    /// As [`DevicePolicy::try_new`], but built at `place`, because a policy is too large for a
    /// kernel stack.
    ///
    /// # Errors
    /// As [`DevicePolicy::try_new`]; `place` then contains nothing.
    ///
    /// # Safety
    /// `place` is memory for a [`DevicePolicy`].
    #[allow(unsafe_code)]
    #[inline(never)]
    pub unsafe fn build_at(place: *mut Self, config: &Config) -> Result<(), BuildError> {
        // The state is written only after the policy, so that on failure `place` contains nothing.
        let state = DeviceState::try_new(config)?;
        // SAFETY: guaranteed by the caller; each field is written once, and `publish` is called
        // only after the last.
        unsafe {
            (&raw mut (*place).policy).write(match build_policy(config) {
                Ok(policy) => policy,
                Err(why) => {
                    drop(state);
                    return Err(why);
                }
            });
            (&raw mut (*place).state).write(state);
            (*place).publish();
        }
        Ok(())
    }

    /// Calls the visitor with the policy in its own type.
    pub(crate) fn visit<V: Visitor>(&mut self, visitor: V) -> V::Answer {
        self.policy.visit(visitor)
    }

    /// Updates the values that depend on the tunables.
    fn publish(&mut self) {
        let search = match self.policy.merge_search() {
            MergeSearch::Pipeline => 0,
            MergeSearch::PipelineThenFront => 1,
            MergeSearch::Own => 2,
        };
        self.state.shared.search.store(search, Relaxed);
        self.after(Wake::No);
    }

    // ---- requests ----

    /// The number of scheduler tags that a request like this may use; 0: all.
    pub fn admit(&self, ask: &Ask, now: Nanos) -> u32 {
        match self.policy.admit(&ask.attributes(), now) {
            Admission::Shallow(depth) => depth.max(1),
            Admission::Full | Admission::Must => 0,
        }
    }

    /// Registers a request that has just got its tag, for policies that count tags. Returns its id,
    /// or [`NONE`] when all slots are in use.
    pub fn allocate(&mut self, ask: &Ask, now: Nanos) -> u32 {
        let call = Allocate { state: &mut self.state, attributes: ask.attributes(), now };
        self.policy.visit(call).map_or(NONE, RequestId::raw)
    }

    /// Inserts a request into the policy's queues. `known` is its id if it has one already,
    /// otherwise [`NONE`]. Returns its id, or [`NONE`] when all slots are in use.
    #[inline(always)]
    pub fn insert(&mut self, known: u32, ask: &Ask, at: u32, now: Nanos) -> u32 {
        self.policy.visit(Insert { state: &mut self.state, known, ask, at, now })
    }

    /// Chooses the next request for a hardware queue.
    #[cfg(not(feature = "module"))]
    pub fn dispatch(&mut self, queue: u16, now: Nanos) -> Action {
        let action = self.policy.visit(Choose { state: &mut self.state, queue, now });
        Action { kind: action.kind & !ATTEND, ..action }
    }

    /// The driver gave the request back. Later it is inserted again, or sent to the device without
    /// insertion.
    #[inline(always)]
    pub fn requeue(&mut self, id: u32, now: Nanos) -> Effect {
        self.policy.visit(Requeue { state: &mut self.state, id, now }) & !ATTEND
    }

    /// The request ends because it was completed, was absorbed by another, or will never be
    /// inserted. Its id is invalid afterwards.
    #[cfg(not(feature = "module"))]
    pub fn finish(&mut self, id: u32, now: Nanos) -> Effect {
        self.policy.visit(Finish { state: &mut self.state, id, now }) & !ATTEND
    }

    // ---- merging ----

    /// The queued request that a bio can merge with: its id and side (1 back, 2 front, 3 discard),
    /// or [`NONE`].
    pub fn find_merge(&mut self, ask: &Ask, now: Nanos) -> (u32, u32) {
        if self.state.shared.search.load(Relaxed) == 0 {
            return (NONE, 0);
        }
        let bio = ask.attributes();
        match self.policy.merge(&self.state.requests, &bio, now) {
            Merge::Into(id, side) if self.can_join(id, &bio, side) => (id.raw(), side_number(side)),
            _ => (NONE, 0),
        }
    }

    fn can_join(&self, id: RequestId, bio: &Attributes, side: Side) -> bool {
        if !self.state.requests.is_live(id) {
            return false;
        }
        let request = self.state.requests.at(id);
        let extent = request.attributes.extent;
        let touches = match side {
            Side::Back => extent.is_followed_by(bio.extent),
            Side::Front => bio.extent.is_followed_by(extent),
            Side::Discard => true,
        };
        touches && request.place == Place::Queued
    }

    /// Whether the policy allows this bio to merge with this request.
    pub fn may_merge(&self, id: u32, ask: &Ask) -> bool {
        self.policy.may_merge(&self.state.requests, RequestId::from_raw(id), &ask.attributes())
    }

    /// A bio, or a request that the core does not know, was merged into a queued request, whose
    /// extent is now `sector` and `sectors`.
    pub fn bio_merged(&mut self, id: u32, side: u32, sector: u64, sectors: u32, now: Nanos) {
        let id = RequestId::from_raw(id);
        let Some(request) = self.state.requests.live_mut(id) else { return };
        request.attributes.extent = Extent::new(sector, sectors);
        let side = match side {
            1 => Side::Back,
            2 => Side::Front,
            3 => Side::Discard,
            _ => {
                // This core never proposes such a side. As the bio is merged already, the merge is
                // counted as a fault and treated as a back merge.
                self.state.requests.count_violation();
                Side::Back
            }
        };
        self.state.stats.bios_merged = self.state.stats.bios_merged.wrapping_add(1);
        self.policy.bio_merged(&self.state.requests, id, side, now);
    }

    /// The request `gone` was merged into `keep`, whose length is now `sectors`. The glue calls
    /// `finish` for `gone` later, although it never reaches the device.
    #[inline(always)]
    pub fn absorbed(&mut self, keep: u32, sectors: u32, gone: u32, now: Nanos) -> Effect {
        self.policy.visit(Absorb { state: &mut self.state, keep, sectors, gone, now }) & !ATTEND
    }

    /// The queued request before (`false`) or behind this one in the policy's order; [`NONE`] if
    /// there is none.
    pub fn neighbour(&self, id: u32, is_behind: bool) -> u32 {
        let id = RequestId::from_raw(id);
        let found = if is_behind {
            self.policy.latter(&self.state.requests, id)
        } else {
            self.policy.former(&self.state.requests, id)
        };
        match found {
            Some(found) if self.state.requests.is_live(found) => found.raw(),
            _ => NONE,
        }
    }

    // ---- time and configuration ----

    /// The glue's timer fired. The policy may no longer need it.
    pub fn timer(&mut self, now: Nanos) -> Effect {
        let mut wake = Wake::No;
        if self.policy.next_timer().is_some_and(|at_ns| at_ns <= now) {
            self.state.stats.timers = self.state.stats.timers.wrapping_add(1);
            wake = self.policy.timer(&self.state.requests, now);
        }
        self.after(wake)
    }

    /// The depths changed; the table of requests keeps its size.
    pub fn depth_changed(&mut self, requests: u32, device: u32) {
        self.policy.depth_changed(Depth { requests: requests.max(1), device: device.max(1) });
        self.after(Wake::No);
    }

    /// Whether a dispatch for this hardware queue can return a request.
    #[inline]
    pub fn has_work(&self, queue: u16) -> bool {
        self.policy.has_work(HardwareQueue(queue))
    }

    /// Adds a group below another one; returns its id, or 0 if there is none left.
    pub fn group_added(&mut self, parent: u32, weight: u32, now: Nanos) -> u32 {
        let parent = self.state.groups.nearest_online(GroupId(parent));
        let id = self.state.group_ids.take();
        if id == 0 {
            return 0;
        }
        let settings = GroupSettings { parent, ..GroupSettings::with_weight(weight) };
        if !self.state.groups.add(GroupId(id), &settings) {
            self.state.fault();
            return 0;
        }
        // A group refers to its parent's id, because it may still have requests when all those of
        // its parent have completed.
        self.state.group_ids.get_ref(parent.0);
        self.policy.group_added(GroupId(id), &settings, now);
        self.after(Wake::No);
        id
    }

    /// Changes a group's weight.
    pub fn group_weighed(&mut self, group: u32, weight: u32, now: Nanos) -> Effect {
        let group = GroupId(group);
        if !self.state.group_ids.exists(group.0) {
            return self.state.fault();
        }
        let settings = GroupSettings { weight, ..*self.state.groups.settings(group) };
        self.state.groups.change(group, &settings);
        let wake = self.policy.group_changed(group, &settings, now);
        self.after(wake)
    }

    /// The group gets no more bios. Its id may be reused when it has no requests and no children
    /// any more.
    pub fn group_offline(&mut self, group: u32, now: Nanos) {
        if group == 0 || !self.state.group_ids.exists(group) {
            return;
        }
        self.policy.group_offline(GroupId(group), now);
        if self.state.group_ids.retire(group) {
            self.state.shared.dying_group.store(group, Relaxed);
            self.state.shared.request_attention();
        }
        self.after(Wake::No);
    }

    /// Must be called at once when `shared.dying_group` is not 0: nothing refers to that group any
    /// more, and it may have held the last reference to its ancestors. It is a separate call,
    /// because `finish` would need too much stack if it did this.
    pub fn release_group(&mut self, now: Nanos) {
        let mut at = self.state.shared.dying_group.load(Relaxed);
        self.state.shared.dying_group.store(0, Relaxed);
        for _ in 0..self.state.groups.capacity() {
            if at == 0 {
                break;
            }
            let group = GroupId(at);
            let parent = self.state.groups.settings(group).parent;
            self.state.groups.set_offline(group);
            if !self.state.groups.remove_if_unused(group) {
                self.state.fault();
            }
            self.policy.group_removed(group, now);
            self.state.group_ids.release(at);
            at = if self.state.group_ids.put_ref(parent.0) { parent.0 } else { 0 };
        }
        self.after(Wake::No);
    }

    /// Adds an issuer; returns its id, or 0, the id shared by several issuers, if there is none
    /// left.
    pub fn context_added(&mut self) -> u32 {
        self.state.context_ids.take()
    }

    /// Removes an issuer.
    pub fn context_exited(&mut self, context: u32, now: Nanos) -> Effect {
        if context == 0 || !self.state.context_ids.exists(context) {
            return 0;
        }
        let wake = self.policy.context_exited(ContextId(context), now);
        if self.state.context_ids.retire(context) {
            self.state.context_ids.release(context);
        }
        self.after(wake)
    }

    // ---- inspection ----

    /// The policy, for inspection.
    pub fn policy(&self) -> &Any {
        &self.policy
    }

    /// Sets the tunable number `row`, in its unit. Returns false if there is none, or if it refuses
    /// the value.
    pub fn set(&mut self, row: u32, value: i64) -> bool {
        let done = self.policy.set(row as usize, value).is_ok();
        self.publish();
        done
    }

    /// Switches the policy's messages on or off.
    pub fn trace(&mut self, is_on: bool) {
        self.policy.trace(is_on);
    }

    /// Takes the oldest message.
    pub fn take_message(&mut self) -> Option<hoistway_elevator::Message> {
        self.policy.take_message()
    }

    /// The number of times that a reason was given.
    pub fn reason_count(&self, reason: u32) -> u64 {
        self.state.reasons.get(reason as usize).copied().unwrap_or(0)
    }

    /// All counters.
    pub fn stats(&self) -> Stats {
        let violations = u64::from(self.policy.violations()) + u64::from(self.state.requests.violations());
        Stats { faults: self.state.stats.faults + violations, ..self.state.stats() }
    }

    /// Checks all invariants; for replays and tests.
    ///
    /// # Errors
    /// The first violated invariant.
    pub fn check(&self) -> Result<(), hoistway_elevator::Violation> {
        self.policy.check(&self.state.requests)
    }

    /// Called after calls that are not made for every request: updates all values that the glue
    /// reads, among them the timer's time.
    #[inline(always)]
    fn after(&mut self, wake: Wake) -> Effect {
        self.state.shared.timer_at_ns.store(self.policy.next_timer().unwrap_or(u64::MAX), Relaxed);
        self.state.after(&self.policy, wake) & !ATTEND
    }
}

fn side_number(side: Side) -> u32 {
    match side {
        Side::Back => 1,
        Side::Front => 2,
        Side::Discard => 3,
    }
}
