//! bfq: every issuer has a queue; one queue at a time has the device, for a budget of sectors;
//! B-WF2Q+ decides which is next.
//!
//! Promise  issuers and groups share the device's service by their weights, as a tree; with
//!          `low_latency`, queues that look interactive or soft real-time take precedence for a
//!          while.
//! Cost     insert and dispatch O(log n) in the requests of a queue; a change of turns O(depth log
//!          queues), expected.
//! Fits     disks; flash where low latency counts more than throughput. To keep the weights of
//!          issuers with few requests, the device is idled
//!          (docs/specifications/bfq.md, section 20).
//! Source   Linux 5.1, 5.2, 6.1 and 6.12 block/bfq-iosched.c, bfq-wf2q.c and bfq-cgroup.c, and the
//!          series v8r3 for 4.7; docs/specifications/bfq.md, section 1.
//!
//! insert -> queue (sorted, fifo) -> service tree [group, class] -> in service -> choose -> host
//! -> completed
//!
//! Read `select.rs` first: which request is next. Then `wf2q.rs`: which queue is next;
//! `plugging.rs`: when the device is idled; `expire.rs`: how a turn ends. The forms differ in data
//! only (`profile.rs`). Q1 to Q19 in comments are the quirks of
//! docs/specifications/bfq.md, section 22.
//!
//! Inlining is forced or forbidden only where the kernel's stack or instructions need it (lib.rs).

mod activation;
mod actuator;
mod arrival;
mod budget;
mod burst;
mod busy;
mod check;
mod clock;
mod completion;
mod construction;
mod contexts;
mod depth;
mod device;
mod divisor;
mod expire;
mod group;
mod idling;
mod inject;
mod io_bound;
mod log;
mod merging;
mod next_request;
mod order;
mod pace;
mod peak_rate;
mod plugging;
mod positions;
mod profile;
mod queues;
mod raising;
mod schedule;
mod select;
mod state;
#[cfg(test)]
mod tests;
mod timestamps;
mod tunables;
mod turn_rate;
mod users;
mod waker;
mod weights;
mod wf2q;

use crate::account::GroupAccount;
use crate::group::GroupSettings;
use crate::interface::{
    Admission, Depth, Dispatch, Elevator, Hint, Merge, MergeSearch, Position, Side, Violation, Wake,
};
use crate::message::Message;
use crate::request::{Bio, Requests};
use crate::structures::{Array, NIL};
use crate::traits::{Limits, Passing, Traits};
use crate::tunable::{SettingError, Tunable};
use actuator::ActuatorTable;
use arrival::Joined;
use budget::Budgets;
use burst::Burst;
use busy::Busy;
use clock::Clock;
use contexts::Contexts;
use device::Device;
use hoistway_block::{ContextId, GroupId, HardwareQueue, Nanos, RequestId};
use idling::Idling;
use inject::Measurement;
use log::Report;
use order::Order;
use positions::Positions;
use profile::Profile;
use queues::Queues;
use schedule::Schedule;
use state::{Group, Held, Slot};
use tunables::Settings;
use weights::Weights;

crate::reasons! {
    /// Why a request was chosen, or what the device waits for.
    pub enum Why {
        TurnGoesOn = "turn goes on",
        NextTurn = "next turn",
        Injected = "injected into another turn",
        HeadInsert = "put in front",
        WaitsForQueue = "waits for the queue",
    }
}

/// The policy's state.
// In this order: with `report`, whose unused values could tell policies apart, at an end, the other policies would fit
// beside it, and every call of a policy would decode them (`registry.rs`).
#[repr(C)]
#[derive(Debug)]
pub struct Bfq {
    /// A copy, because every event reads it.
    profile: Profile,
    settings: Settings,
    clock: Clock,
    device: Device,

    slots: Array<Slot>,
    order: Order,
    queues: Queues,
    contexts: Contexts,
    actuators: ActuatorTable,
    groups: Array<Group>,
    report: Report,

    schedule: Schedule,
    /// The queue in service, or NIL.
    in_service: u32,
    busy: Busy,
    weights: Weights,
    budgets: Budgets,
    positions: Positions,
    burst: Burst,
    injection: Measurement,
    idling: Idling,
}

impl Bfq {
    #[inline(always)]
    fn count_violation(&mut self) {
        self.report.count_violation();
    }

    /// Inlined into its callers.
    #[inline(always)]
    fn insert_at(&mut self, bio: &Bio, id: RequestId, is_sorted: bool, now: Nanos) -> Wake {
        self.clock.set(now);
        let joined = if is_sorted && self.cannot_merge() { self.join_busy(bio, id) } else { Joined::NOT };
        if joined == Joined::NOT {
            let is_free = self.slots.get(id.slot()).is_some_and(|slot| slot.held == Held::Nowhere && slot.queue == NIL);
            if !is_free {
                self.count_violation();
                return Wake::No;
            }
            let context = self.actuators.record_of(bio);
            let queue = self.queue_for(bio, context);
            if is_sorted {
                self.add(bio, id, queue, context);
            } else {
                self.bind(bio, id, queue, context);
                self.add_direct(id.slot());
            }
        } else if joined != Joined::NO_EFFECT {
            self.settle_joined(bio, joined);
        }
        self.idling.resume();
        Wake::All
    }

    /// The request is no longer inserted, wherever it was. Inlined into its callers.
    #[inline(always)]
    fn release(&mut self, id: RequestId) -> Wake {
        let slot = self.slots.at(id.slot());
        if slot.id != id {
            return Wake::No;
        }
        let mut wake = Wake::No;
        match slot.held {
            Held::Nowhere => {}
            // It ended without a completion: it was drained, or failed before it reached the
            // device.
            Held::Dispatched => {
                let effect = self.leave_device(id.slot());
                wake = self.apply_turn_effect(effect);
            }
            Held::Queued => self.take_out(id.slot()),
            Held::Direct => {
                self.order.remove_direct(id.slot());
                self.groups.at_mut(slot.group).account.unqueue(slot.counts_as, slot.is_sync);
            }
        }
        self.unbind(id.slot());
        wake
    }

    #[inline]
    fn holds(&self, id: RequestId, held: Held) -> bool {
        let slot = self.slots.at(id.slot());
        slot.id == id && slot.held == held
    }
}

impl Elevator for Bfq {
    /// The number of turns that a queue waits for has no useful bound: classes are strict, and
    /// inside a class the service is divided by weights that differ by up to 1,000 times, and by 30
    /// times more when one is raised.
    const TRAITS: Traits =
        Traits { limits: Limits::All, schedules_writeback: true, passing: Passing::Budgets, ..Traits::SHARES };

    fn admit(&self, bio: &Bio, _now: Nanos) -> Admission {
        self.depth_for(bio)
    }

    fn merge_search(&self) -> MergeSearch {
        MergeSearch::PipelineThenFront
    }

    fn merge(&mut self, _requests: &Requests, bio: &Bio, _now: Nanos) -> Merge {
        let queue = self.present_queue(bio);
        match self.order.at_sector(self.queues.at(queue), bio.extent.end()) {
            Some(slot) => Merge::Into(self.slots.at(slot).id, Side::Front),
            None => Merge::No(Hint::None),
        }
    }

    /// A bio may merge only with requests of the queue that it would be added to. If that queue is
    /// scheduled to be merged into another one, the other one counts.
    fn may_merge(&self, requests: &Requests, id: RequestId, bio: &Bio) -> bool {
        let slot = self.slots.at(id.slot());
        if slot.id != id || slot.held == Held::Nowhere {
            let request = requests.attributes(id);
            return request.context == bio.context && request.is_sync() == bio.is_sync();
        }
        let queue = self.present_queue(bio);
        if slot.held != Held::Queued || queue == NIL {
            return false;
        }
        slot.queue == queue || (bio.is_sync() && slot.queue == self.present_target(queue, bio.extent.first_sector))
    }

    fn bio_merged(&mut self, requests: &Requests, id: RequestId, side: Side, now: Nanos) {
        self.clock.set(now);
        if !self.holds(id, Held::Queued) {
            return;
        }
        let extent = requests.attributes(id).extent;
        let slot = self.slots.at_mut(id.slot());
        slot.sectors = extent.sectors;
        let slot = *slot;
        self.groups.at_mut(slot.group).account.merged.count(slot.counts_as, slot.is_sync, 1);
        if side == Side::Front && self.moved_forward(id.slot(), extent.first_sector) {
            self.next_request_changed(slot.queue);
        }
    }

    fn requests_merged(&mut self, requests: &Requests, keep: RequestId, gone: RequestId, now: Nanos) {
        self.clock.set(now);
        let is_kept = self.holds(keep, Held::Queued);
        if is_kept {
            self.slots.at_mut(keep.slot()).sectors = requests.attributes(keep).extent.sectors;
        }
        if !self.holds(gone, Held::Queued) {
            // It was merged before it was inserted, so nothing is known about it.
            return;
        }
        let absorbed = *self.slots.at(gone.slot());
        if is_kept && self.slots.at(keep.slot()).queue == absorbed.queue {
            self.inherit(keep.slot(), gone.slot());
        }
        self.take_out(gone.slot());
        self.groups.at_mut(absorbed.group).account.merged.count(absorbed.counts_as, absorbed.is_sync, 1);
    }

    fn former(&self, _requests: &Requests, id: RequestId) -> Option<RequestId> {
        Some(self.slots.at(self.order.prev(id.slot())?).id)
    }

    fn latter(&self, _requests: &Requests, id: RequestId) -> Option<RequestId> {
        Some(self.slots.at(self.order.next(id.slot())?).id)
    }

    fn insert(&mut self, requests: &Requests, id: RequestId, at: Position, now: Nanos) -> Wake {
        let bio = requests.attributes(id);
        self.insert_at(bio, id, matches!(at, Position::Sorted(_)), now)
    }

    #[inline(always)]
    fn insert_new(&mut self, _requests: &Requests, id: RequestId, bio: &Bio, now: Nanos) -> Wake {
        self.insert_at(bio, id, true, now)
    }

    /// For nearly every request the turn goes on, which is handled inline; all other cases are
    /// handled by a function call.
    #[inline(always)]
    fn choose(&mut self, _requests: &Requests, _queue: HardwareQueue, now: Nanos) -> Dispatch {
        self.clock.set(now);
        self.idling.resume();
        if self.in_service != NIL
            && let Some(id) = self.send_in_turn()
        {
            return Dispatch::Request { id, reason: Why::TurnGoesOn.into() };
        }
        self.choose_general()
    }

    fn drain(&mut self, _requests: &Requests, now: Nanos) -> Option<RequestId> {
        self.clock.set(now);
        if let Some(Dispatch::Request { id, .. }) = self.next_direct() {
            return Some(id);
        }
        let slot = self.drain_next()?;
        Some(self.slots.at(slot).id)
    }

    fn has_work(&self, _queue: HardwareQueue) -> bool {
        self.order.has_direct() || (self.busy.requests() > 0 && !self.idling.is_holding())
    }

    fn requeued(&mut self, _requests: &Requests, id: RequestId, now: Nanos) -> Wake {
        self.clock.set(now);
        if !self.holds(id, Held::Dispatched) {
            return Wake::No;
        }
        let effect = self.leave_device(id.slot());
        let wake = self.apply_turn_effect(effect);
        self.unbind(id.slot());
        wake
    }

    fn completed(&mut self, requests: &Requests, id: RequestId, now: Nanos) -> Wake {
        self.clock.set(now);
        if !self.holds(id, Held::Dispatched) {
            return Wake::No;
        }
        let effect = self.leave_device_served(requests, id);
        let wake = self.apply_turn_effect(effect);
        if self.polls_on_completion() { self.schedule_dispatch() } else { wake }
    }

    #[inline(always)]
    fn completed_and_released(&mut self, requests: &Requests, id: RequestId, now: Nanos) -> Wake {
        self.clock.set(now);
        match self.end_served(requests, id) {
            Some(wake) => wake,
            None => self.release(id),
        }
    }

    fn released(&mut self, _requests: &Requests, id: RequestId, now: Nanos) -> Wake {
        self.clock.set(now);
        self.release(id)
    }

    fn next_timer(&self) -> Option<Nanos> {
        self.idling.next_timer()
    }

    fn timer(&mut self, _requests: &Requests, now: Nanos) -> Wake {
        self.clock.set(now);
        let mut wake = Wake::No;
        if self.idling.is_poll_due(now) {
            self.idling.resume_unpolled();
            wake = Wake::All;
        }
        if self.idling.is_over(now) { self.wait_is_over().and(wake) } else { wake }
    }

    fn context_exited(&mut self, context: ContextId, now: Nanos) -> Wake {
        self.clock.set(now);
        self.context_gone(context)
    }

    fn group_added(&mut self, group: GroupId, settings: &GroupSettings, now: Nanos) {
        self.clock.set(now);
        self.add_group(group.0, settings);
    }

    fn group_changed(&mut self, group: GroupId, settings: &GroupSettings, now: Nanos) -> Wake {
        self.clock.set(now);
        self.change_group_weight(group.0, settings);
        Wake::No
    }

    fn group_offline(&mut self, group: GroupId, now: Nanos) {
        self.clock.set(now);
        self.take_offline(group.0);
    }

    fn group_removed(&mut self, group: GroupId, now: Nanos) {
        self.clock.set(now);
        self.take_offline(group.0);
    }

    fn depth_changed(&mut self, depth: Depth) {
        self.device.set_tags(depth.requests);
    }

    fn reasons(&self) -> &'static [&'static str] {
        Why::NAMES
    }

    fn tunables(&self) -> &'static [Tunable] {
        &tunables::ROWS
    }

    fn setting(&self, index: usize) -> Option<i64> {
        self.settings.get(index, &self.clock)
    }

    fn set(&mut self, index: usize, value: i64) -> Result<(), SettingError> {
        self.idling.resume_unpolled();
        self.change_setting(index, value)
    }

    fn group_account(&self, group: GroupId) -> Option<GroupAccount> {
        self.groups.get(group.0).map(|group| group.account)
    }

    fn reset_group_account(&mut self, group: GroupId, now: Nanos) -> bool {
        let Some(state) = self.groups.get_mut(group.0) else { return false };
        state.account.reset();
        if self.schedule.entity(self.in_service).parent == group.0 {
            self.idling.forget_before(now);
        }
        true
    }

    fn take_message(&mut self) -> Option<Message> {
        self.report.take()
    }

    fn trace(&mut self, on: bool) {
        self.report.switch(on);
        if let Some(actuators) = self.actuators.surplus() {
            self.log("{0} actuators are more than can be distinguished: treated as one", &[u64::from(actuators)]);
        }
    }

    fn violations(&self) -> u32 {
        let parts = self.schedule.violations().saturating_add(self.burst.violations());
        self.report.violations().saturating_add(parts)
    }

    fn check(&self, requests: &Requests) -> Result<(), Violation> {
        self.check_all(requests)
    }
}
