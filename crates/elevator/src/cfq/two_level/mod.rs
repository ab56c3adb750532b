//! uchida and tarasov, the two CFQ controllers for cgroups of 2008: CFQ of 2.6.26 (below: the
//! engine) in each group, and a layer above it that schedules groups.
//!
//! Promise  groups share the device's time by levels 0 to 7; inside a group everything is as in CFQ
//!          of 2.6.26.
//! Cost     as cfq's, and O(log groups) when a group begins or ends; slots and issuers exist once,
//!          whatever the number of groups.
//! Source   the postings to linux-kernel of 2008-03-21 and 2008-04-01, OpenVZ's
//!          kernel/bc/io_prio.c; docs/specifications/cfq.md, section 15.
//!
//! insert -> engine of the group -> settle [group] ... turn [group] -> engine of the group -> host
//! -> completed
//!
//! A layer only keeps the order of groups. It asks the engine what a group has, ends the turns of
//! the engine's queues where it must, and does not see requests. Groups are flat in both policies:
//! the parent has no effect.

mod instance;
mod tarasov;
mod uchida;

pub use instance::{Instance, Separate};

use super::Cfq;
use super::expire::Rest;
use super::profile::{PerGroup, Profile, Splits};
use super::state::Held;
use super::tunables::{ROWS_FIRST, Ticks};
use crate::account::GroupAccount;
use crate::group::{GroupPriority, GroupSettings};
use crate::interface::{
    Admission, Configuration, Dispatch, Elevator, Form, Merge, MergeSearch, Policy, Position, Side, Violation, Wake,
};
use crate::message::Message;
use crate::request::{Bio, Requests};
use crate::structures::{NIL, NoMemory};
use crate::traits::Traits;
use crate::tunable::{SettingError, Tunable};
use hoistway_block::time::is_due;
use hoistway_block::{ContextId, GroupId, HardwareQueue, Nanos, RequestId};

/// Satoshi Uchida's controller: an engine for each group, a service tree of groups.
pub type Uchida = TwoLevel<uchida::Layer>;
/// Vasily Tarasov's controller: trees for each group, groups in turn.
pub type Tarasov = TwoLevel<tarasov::Layer>;

crate::reasons! {
    /// The engine's reasons, and one more.
    pub enum Why {
        SliceGoesOn = "slice goes on",
        NextQueue = "next queue",
        Overdue = "overdue",
        OfRound = "part of the round",
        HeadInsert = "put in front",
        WaitsForQueue = "waits for the queue",
        WaitsForGroup = "waits for the group",
        NextGroup = "next group",
    }
}

// The engine's reasons keep their numbers.
const _: () = assert!(Why::NAMES.len() == super::Why::NAMES.len() + 1);

/// Number of group levels.
pub const GROUP_LEVELS: usize = 8;

/// Which group is served. The layer has loaded that group's engine.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Turn {
    /// The group has requests. `is_new`: its turn has just begun.
    Serve { is_new: bool },
    /// The group has no queued requests but keeps the device: for its requests in flight, or
    /// because its engine idles.
    Wait,
    /// No group has requests.
    NoGroup,
}

/// The scheduling of groups.
pub trait Layer: Sized {
    /// What differs between the forms.
    type Profile: Copy + core::fmt::Debug + 'static;
    /// The forms, as in [`Policy`].
    const FORMS: &'static [Form<Self::Profile>];
    const DEFAULT_FORM: usize;
    /// The form of the engine: CFQ of 2.6.26, and which parts of it each group has separately.
    const ENGINE: &'static Profile;

    fn try_new(groups: u32, ticks: &Ticks, profile: Self::Profile) -> Result<Self, NoMemory>;

    /// All tunables (rows): the engine's, then the layer's.
    fn rows(&self) -> &'static [Tunable];
    /// The value of a row of the layer, counted from its first.
    fn setting(&self, row: usize, ticks: &Ticks) -> Option<i64>;
    /// Sets a row of the layer; `value` is in the row's range.
    fn set(&mut self, row: usize, value: i64, ticks: &Ticks);

    /// Which queues are in groups; queues created before a change stay where they are until they
    /// are empty.
    fn splits(&self) -> Splits {
        Splits { sync: true, asynchronous: true }
    }

    fn set_priority(&mut self, group: u32, priority: Option<GroupPriority>);

    /// The group that is being served, or NIL.
    fn active(&self) -> u32;
    /// Called when a group may have got its first request, or lost its last.
    fn settle(&mut self, engine: &Cfq, group: u32);
    /// Decides which group is served now.
    fn turn(&mut self, engine: &mut Cfq) -> Turn;
    /// Ends the active group's turn regardless of its requests, because everything is about to be
    /// drained.
    fn interrupt(&mut self, engine: &mut Cfq);
    /// A request of the group completed; `group` is NIL for a request that the engine does not
    /// know.
    fn completed(&mut self, engine: &mut Cfq, group: u32);
    /// Resets a group: it has no requests, and its id may be reused.
    fn renew(&mut self, engine: &mut Cfq, group: u32);

    fn check(&self, engine: &Cfq) -> Result<(), Violation>;
}

/// A layer of groups above CFQ of 2.6.26.
#[derive(Debug)]
pub struct TwoLevel<L> {
    engine: Cfq,
    layer: L,
    /// A turn has begun, and its first request has not been dispatched yet.
    has_new_turn: bool,
}

impl<L: Layer> Policy for TwoLevel<L> {
    type Profile = L::Profile;
    const FORMS: &'static [Form<L::Profile>] = L::FORMS;
    const DEFAULT_FORM: usize = L::DEFAULT_FORM;

    fn build(configuration: &Configuration, profile: L::Profile) -> Result<Self, NoMemory> {
        let layer = L::try_new(configuration.groups.max(1), &Ticks::new(L::ENGINE.clock, configuration), profile)?;
        Ok(Self { layer, has_new_turn: false, engine: Cfq::assemble(configuration, L::ENGINE)? })
    }
}

impl<L: Layer> TwoLevel<L> {
    /// Loads a group's engine. If its idle timer expired while another group was loaded, it fires
    /// now; before, it could have had no effect.
    #[inline]
    fn load_instance(&mut self, group: u32, now: Nanos) {
        self.engine.tick(now);
        self.engine.load_instance(group);
        if group != self.layer.active() {
            self.engine.fire_overdue();
        }
    }

    /// The group of an inserted request; the root for requests that bypassed the engine.
    fn group_of(&self, id: RequestId) -> u32 {
        self.engine.slots.at(id.slot()).group
    }

    /// What the device waits for while the active group keeps it without a queued request.
    fn waits(&self) -> Dispatch {
        match self.engine.engine.timer_at {
            Some(at) => Dispatch::Hold { until: self.engine.clock.ticks().ns(at), reason: Why::WaitsForQueue.into() },
            None => Dispatch::Throttled,
        }
    }

    fn serve(&mut self, requests: &Requests) -> Dispatch {
        match self.layer.turn(&mut self.engine) {
            Turn::NoGroup => Dispatch::Empty,
            Turn::Wait => self.waits(),
            Turn::Serve { is_new } => {
                self.has_new_turn |= is_new;
                let answer = self.engine.dispatch_rounds(requests);
                let active = self.layer.active();
                self.layer.settle(&self.engine, active);
                match answer {
                    Dispatch::Request { id, .. } if self.has_new_turn => {
                        self.has_new_turn = false;
                        Dispatch::Request { id, reason: Why::NextGroup.into() }
                    }
                    other => other,
                }
            }
        }
    }
}

impl<L: Layer> Elevator for TwoLevel<L> {
    /// `passing` is unchecked because the rounds of CFQ of 2.6.26 leave their queue in advance, so
    /// that the order of requests does not show where a turn ends (see [`Cfq`](super::Cfq)).
    const TRAITS: Traits = Traits { has_shares: false, schedules_writeback: true, ..Traits::SHARES };

    fn admit(&self, bio: &Bio, now: Nanos) -> Admission {
        self.engine.admit(bio, now)
    }

    fn allocated(&mut self, requests: &Requests, id: RequestId, now: Nanos) {
        self.engine.allocated(requests, id, now);
    }

    fn merge_search(&self) -> MergeSearch {
        self.engine.merge_search()
    }

    fn merge(&mut self, requests: &Requests, bio: &Bio, now: Nanos) -> Merge {
        self.engine.merge(requests, bio, now)
    }

    fn may_merge(&self, requests: &Requests, id: RequestId, bio: &Bio) -> bool {
        self.engine.may_merge(requests, id, bio)
    }

    fn bio_merged(&mut self, requests: &Requests, id: RequestId, side: Side, now: Nanos) {
        self.engine.bio_merged(requests, id, side, now);
    }

    fn requests_merged(&mut self, requests: &Requests, keep: RequestId, gone: RequestId, now: Nanos) {
        let group = self.group_of(gone);
        self.load_instance(group, now);
        self.engine.requests_merged(requests, keep, gone, now);
        self.layer.settle(&self.engine, group);
    }

    fn former(&self, requests: &Requests, id: RequestId) -> Option<RequestId> {
        self.engine.former(requests, id)
    }

    fn latter(&self, requests: &Requests, id: RequestId) -> Option<RequestId> {
        self.engine.latter(requests, id)
    }

    fn insert(&mut self, requests: &Requests, id: RequestId, at: Position, now: Nanos) -> Wake {
        let group = self.engine.group_of(requests.attributes(id)).0;
        self.load_instance(group, now);
        let wake = self.engine.insert(requests, id, at, now);
        self.layer.settle(&self.engine, group);
        wake
    }

    fn choose(&mut self, requests: &Requests, _queue: HardwareQueue, now: Nanos) -> Dispatch {
        self.engine.tick(now);
        if let Some(at_hand) = self.engine.next_outside_queues() {
            return at_hand;
        }
        let answer = self.serve(requests);
        self.engine.is_holding = matches!(answer, Dispatch::Hold { .. });
        answer
    }

    fn drain(&mut self, requests: &Requests, now: Nanos) -> Option<RequestId> {
        self.engine.tick(now);
        self.layer.interrupt(&mut self.engine);
        // Drains one group until it has no requests, then the next.
        if self.engine.queued_in(self.engine.serving.group) == 0
            && let Some(group) = self.engine.group_order.first()
        {
            self.engine.serving.group = group;
        }
        self.load_instance(self.engine.serving.group, now);
        let id = self.engine.drain(requests, now)?;
        let group = self.group_of(id);
        self.layer.settle(&self.engine, group);
        Some(id)
    }

    fn drains_by_sector(&self) -> bool {
        self.engine.drains_by_sector()
    }

    fn has_work(&self, queue: HardwareQueue) -> bool {
        self.engine.has_work(queue)
    }

    fn started(&mut self, requests: &Requests, id: RequestId, now: Nanos) -> Wake {
        self.engine.started(requests, id, now)
    }

    fn requeued(&mut self, requests: &Requests, id: RequestId, now: Nanos) -> Wake {
        self.engine.requeued(requests, id, now)
    }

    fn completed(&mut self, requests: &Requests, id: RequestId, now: Nanos) -> Wake {
        let slot = self.engine.slots.at(id.slot());
        let is_ours = slot.id == id && slot.held == Held::Dispatched;
        let group = if is_ours { slot.group } else { NIL };
        self.load_instance(group, now);
        let wake = self.engine.completed(requests, id, now);
        self.layer.completed(&mut self.engine, group);
        wake
    }

    fn released(&mut self, requests: &Requests, id: RequestId, now: Nanos) -> Wake {
        let slot = self.engine.slots.at(id.slot());
        if slot.held == Held::Nowhere {
            // It has completed before, so it is no longer counted in its group.
            return self.engine.released(requests, id, now);
        }
        let group = slot.group;
        self.load_instance(group, now);
        let wake = self.engine.released(requests, id, now);
        self.layer.settle(&self.engine, group);
        wake
    }

    fn next_timer(&self) -> Option<Nanos> {
        match self.layer.active() {
            NIL => None,
            active => self.engine.timer_of(active),
        }
    }

    fn timer(&mut self, requests: &Requests, now: Nanos) -> Wake {
        let active = self.layer.active();
        if active == NIL {
            return Wake::No;
        }
        self.engine.tick(now);
        self.engine.load_instance(active);
        self.engine.timer(requests, now)
    }

    fn context_exited(&mut self, context: ContextId, now: Nanos) -> Wake {
        let queue = self.engine.contexts.at(self.engine.context_index(context)).queue;
        if queue != NIL {
            let group = self.engine.queues.at(queue).group;
            self.load_instance(group, now);
        }
        self.engine.context_exited(context, now)
    }

    fn group_added(&mut self, group: GroupId, settings: &GroupSettings, now: Nanos) {
        self.engine.group_added(group, settings, now);
        self.layer.set_priority(group.0, settings.priority);
    }

    fn group_changed(&mut self, group: GroupId, settings: &GroupSettings, now: Nanos) -> Wake {
        self.layer.set_priority(group.0, settings.priority);
        self.engine.group_changed(group, settings, now)
    }

    fn group_removed(&mut self, group: GroupId, now: Nanos) {
        if group == GroupId::ROOT {
            return;
        }
        self.load_instance(group.0, now);
        self.engine.group_removed(group, now);
        self.layer.renew(&mut self.engine, group.0);
        self.engine.renew_instance(group.0);
    }

    fn reasons(&self) -> &'static [&'static str] {
        Why::NAMES
    }

    fn tunables(&self) -> &'static [Tunable] {
        self.layer.rows()
    }

    fn setting(&self, index: usize) -> Option<i64> {
        match index.checked_sub(ROWS_FIRST.len()) {
            None => self.engine.setting(index),
            Some(row) => self.layer.setting(row, self.engine.clock.ticks()),
        }
    }

    fn set(&mut self, index: usize, value: i64) -> Result<(), SettingError> {
        self.engine.is_holding = false;
        let Some(own) = index.checked_sub(ROWS_FIRST.len()) else { return self.engine.set(index, value) };
        let Some(row) = self.layer.rows().get(index) else { return Err(SettingError::Unknown) };
        self.layer.set(own, row.admit(value)?, self.engine.clock.ticks());
        self.engine.separate.split(self.layer.splits());
        Ok(())
    }

    fn group_account(&self, group: GroupId) -> Option<GroupAccount> {
        self.engine.group_account(group)
    }

    fn reset_group_account(&mut self, group: GroupId, now: Nanos) -> bool {
        self.engine.tick(now);
        self.engine.load_instance(group.0);
        self.engine.reset_account(group.0)
    }

    fn take_message(&mut self) -> Option<Message> {
        self.engine.take_message()
    }

    fn trace(&mut self, on: bool) {
        self.engine.trace(on);
    }

    fn violations(&self) -> u32 {
        self.engine.violations()
    }

    fn check(&self, requests: &Requests) -> Result<(), Violation> {
        self.engine.check(requests)?;
        self.layer.check(&self.engine)
    }
}

// The engine's functions for a layer.
impl Cfq {
    /// Number of requests queued in a group.
    #[inline]
    fn queued_in(&self, group: u32) -> u64 {
        self.groups.at(group).account.queued.total()
    }

    /// Whether requests are queued; below a layer, in the group that is being served.
    #[inline]
    pub(super) fn has_queued_to_serve(&self) -> bool {
        if self.profile.is_below_a_layer() {
            return self.queued_in(self.serving.group) > 0;
        }
        self.load.requests() > 0
    }

    /// Fires an idle timer that expired while the group was not loaded.
    #[inline]
    fn fire_overdue(&mut self) {
        if let Some(at) = self.engine.timer_at
            && is_due(self.clock.now(), at)
        {
            let _ = self.timer_fired();
        }
    }

    /// A group gets the device.
    fn group_begins(&mut self, group: u32) {
        self.load_instance(group);
        self.serving.group = group;
        let now_ns = self.clock.now_ns();
        let state = self.groups.at_mut(group);
        if let Some(since) = state.waits_since_ns.take() {
            state.account.group_wait_ns = state.account.group_wait_ns.wrapping_add(now_ns.saturating_sub(since));
        }
    }

    /// The group that had the device since then loses it.
    fn group_ends(&mut self, group: u32, since_ns: Nanos) {
        self.account_idling();
        let (now_ns, has_queued) = (self.clock.now_ns(), self.queued_in(group) > 0);
        let state = self.groups.at_mut(group);
        state.account.time_ns = state.account.time_ns.wrapping_add(now_ns.saturating_sub(since_ns));
        if has_queued && state.waits_since_ns.is_none() {
            state.waits_since_ns = Some(now_ns);
        }
    }

    /// Ends the turn of the engine's active queue, if there is one.
    fn expire_active(&mut self) {
        if self.engine.active != NIL {
            self.expire(self.engine.active, Rest::Forgotten);
        }
    }
}

/// Reports a rule that does not hold.
fn must(holds: bool, what: &'static str, at: u32) -> Result<(), Violation> {
    if holds { Ok(()) } else { Err(Violation { what, at }) }
}

/// The engine's rows followed by a layer's.
const fn rows_with<const OWN: usize, const ALL: usize>(own: [Tunable; OWN]) -> [Tunable; ALL] {
    let mut rows = [own[0]; ALL];
    let mut at = 0;
    while at < ALL {
        rows[at] = if at < ROWS_FIRST.len() { ROWS_FIRST[at] } else { own[at - ROWS_FIRST.len()] };
        at += 1;
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_engines_reasons_keep_their_numbers() {
        assert_eq!(Why::NAMES[..super::super::Why::NAMES.len()], *super::super::Why::NAMES);
    }
}
