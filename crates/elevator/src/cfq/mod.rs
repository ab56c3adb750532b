//! cfq: every issuer has a queue; queues have the device in turn for slices of time; groups in
//! proportion to weights.
//!
//! Promise  issuers of a group share its time by their levels, groups share the device's by their
//!          weights; classes are strict inside a group; a reader that thinks for less than
//!          `slice_idle` keeps the head.
//! Cost     insert O(log n), choose O(1) except O(log queues) at the end of a slice, 88 bytes a
//!          slot, 200 a queue.
//! Fits     one disk under many, mostly sequential readers; with `slice_idle` 0 an array. Not
//!          flash: one issuer at a time.
//! Source   Linux 2.6.26, 2.6.35, 2.6.36, 2.6.37 and 4.20 block/cfq-iosched.c;
//!          docs/specifications/cfq.md, section 1.
//!
//! insert -> queue (sorted, fifo) -> service tree [group, class, type] -> choose -> host
//! -> completed
//!
//! Read `select.rs` first: which queue is served. Then `preempt.rs` and `idle.rs`: what ends a
//! turn, and what the device is idled for. The forms differ in data only (`profile.rs`). Section 14
//! describes CFQ of 2.6.26; Q1 to Q22 are quirks of section 18, and D1 to D34 the differences of
//! section 13.
//!
//! Inlining is forced or forbidden only where the kernel's stack or instructions need it (lib.rs).

mod account;
mod arrival;
mod by_sector;
mod check;
mod choose_request;
mod clock;
mod completion;
mod construction;
mod contexts;
mod cooperate;
mod device;
mod dispatch;
mod drain;
mod expire;
mod group_order;
mod group_schedule;
mod groups;
mod hierarchy;
mod idle;
mod load;
mod log;
mod order;
mod preempt;
mod profile;
mod queues;
mod references;
mod sectors;
mod select;
mod service_tree;
mod slice;
mod slices;
mod state;
mod trees;
mod tunables;
mod two_level;

use crate::account::GroupAccount;
use crate::group::GroupSettings;
use crate::interface::{Admission, Dispatch, Elevator, Hint, Merge, MergeSearch, Position, Side, Violation, Wake};
use crate::message::{Message, Messages};
use crate::request::{Bio, Requests};
use crate::structures::{Array, NIL};
use crate::traits::{Passing, Traits};
use crate::tunable::{SettingError, Tunable};
use clock::Clock;
use contexts::Contexts;
use device::Device;
use drain::Drain;
use group_order::GroupOrder;
use groups::Groups;
use hoistway_block::time::is_due;
use hoistway_block::{ContextId, GroupId, HardwareQueue, Nanos, RequestId};
use load::Load;
use order::Order;
use profile::Profile;
use queues::Queues;
use sectors::Sectors;
use state::{Held, Marks, Slot, ThinkTime, Workload};
use trees::Trees;
use tunables::Settings;
use two_level::{Instance, Separate};
pub use two_level::{Tarasov, Uchida};

crate::reasons! {
    /// Why a request was chosen, or what the device waits for.
    pub enum Why {
        SliceGoesOn = "slice goes on",
        NextQueue = "next queue",
        Overdue = "overdue",
        OfRound = "part of the round",
        HeadInsert = "put in front",
        WaitsForQueue = "waits for the queue",
        WaitsForGroup = "waits for the group",
    }
}

/// Number of levels in a class; there is one order by sector for each.
const LEVELS: u32 = 8;
/// The policy's state.
#[derive(Debug)]
pub struct Cfq {
    /// A copy, because every event reads it.
    profile: Profile,
    settings: Settings,
    clock: Clock,
    device: Device,
    load: Load,

    slots: Array<Slot>,
    order: Order,
    queues: Queues,
    /// By the sector of their next request.
    sectors: Sectors,
    contexts: Contexts,

    groups: Groups,
    trees: Trees,
    group_order: GroupOrder,
    serving: Workload,

    /// The turn of the engine, or, with an engine per group, of the loaded group's.
    engine: Instance,
    /// The last choice was to idle the device, and no event has occurred since.
    is_holding: bool,

    /// What groups have separately.
    separate: Separate,
    drain: Drain,
    messages: Messages,
    violations: u32,
}

impl Elevator for Cfq {
    /// The number of turns that a queue waits for has no bound: real-time queues are served before
    /// all others, a sync request preempts an async queue, and a request near the head preempts a
    /// queue that the device is idled for. In CFQ of 2.6.26 the order of requests does not even
    /// show where a turn ends, because rounds leave their queue in advance.
    const TRAITS: Traits = Traits { schedules_writeback: true, passing: Passing::Slices, ..Traits::SHARES };

    /// The request that the device is idled for must not wait for a tag: once per turn it may have
    /// one beyond the limit.
    fn admit(&self, bio: &Bio, _now: Nanos) -> Admission {
        if !bio.is_sync() {
            // The device is never idled for async queues, and the priority, which would select the
            // queue, is not known yet.
            return Admission::Full;
        }
        let marks = self.queues.at(self.present_queue(bio)).marks;
        if marks.has(Marks::WAIT_REQUEST) && !marks.has(Marks::MUST_ALLOC) { Admission::Must } else { Admission::Full }
    }

    fn allocated(&mut self, requests: &Requests, id: RequestId, _now: Nanos) {
        let queue = self.present_queue(requests.attributes(id));
        if self.queues.at(queue).has(Marks::WAIT_REQUEST) {
            self.queues.at_mut(queue).marks.set(Marks::MUST_ALLOC);
        }
    }

    fn merge_search(&self) -> MergeSearch {
        MergeSearch::PipelineThenFront
    }

    fn merge(&mut self, _requests: &Requests, bio: &Bio, _now: Nanos) -> Merge {
        let queue = self.queues.at(self.present_queue(bio));
        match self.order.at_sector(queue, bio.extent.end()) {
            Some(slot) => Merge::Into(self.slots.at(slot).id, Side::Front),
            None => Merge::No(Hint::None),
        }
    }

    /// A bio may merge only with requests of the queue that it would be added to.
    fn may_merge(&self, requests: &Requests, id: RequestId, bio: &Bio) -> bool {
        let slot = self.slots.at(id.slot());
        if slot.id == id && slot.held != Held::Nowhere {
            // A request that has left its queue is no longer merged.
            return slot.held == Held::Queued && slot.queue == self.present_queue(bio);
        }
        let request = requests.attributes(id);
        request.context == bio.context && request.is_sync() == bio.is_sync()
    }

    fn bio_merged(&mut self, requests: &Requests, id: RequestId, side: Side, now: Nanos) {
        self.tick(now);
        let slot = *self.slots.at(id.slot());
        if slot.id != id || slot.held != Held::Queued {
            return;
        }
        self.groups.at_mut(slot.group).account.merged.count(slot.kind, slot.is_sync, 1);
        if side == Side::Front {
            self.moved_forward(id.slot(), requests.at(id).first_sector());
        }
    }

    fn requests_merged(&mut self, _requests: &Requests, keep: RequestId, gone: RequestId, now: Nanos) {
        self.tick(now);
        let (kept, absorbed) = (*self.slots.at(keep.slot()), *self.slots.at(gone.slot()));
        if absorbed.id != gone || absorbed.held != Held::Queued {
            // It was merged before it was inserted, so nothing is known about it.
            return;
        }
        if kept.id == keep && kept.held == Held::Queued && kept.queue == absorbed.queue {
            self.inherit(keep.slot(), gone.slot());
        }
        self.take_out(gone.slot());
        self.groups.at_mut(absorbed.group).account.merged.count(absorbed.kind, absorbed.is_sync, 1);
        self.leave_if_empty(absorbed.queue);
    }

    fn former(&self, _requests: &Requests, id: RequestId) -> Option<RequestId> {
        Some(self.slots.at(self.order.prev(id.slot())?).id)
    }

    fn latter(&self, _requests: &Requests, id: RequestId) -> Option<RequestId> {
        Some(self.slots.at(self.order.next(id.slot())?).id)
    }

    fn insert(&mut self, requests: &Requests, id: RequestId, at: Position, now: Nanos) -> Wake {
        self.tick(now);
        let Some(slot) = self.slots.get(id.slot()) else {
            self.count_violation();
            return Wake::No;
        };
        let is_back = slot.held == Held::Dispatched && slot.id == id;
        match at {
            Position::Sorted(_) if slot.held == Held::Nowhere => self.add(requests, id),
            Position::Head | Position::Requeue if slot.held == Held::Nowhere || is_back => {
                self.add_at_head(requests, id);
            }
            _ => {
                self.count_violation();
                return Wake::No;
            }
        }
        Wake::All
    }

    fn choose(&mut self, requests: &Requests, _queue: HardwareQueue, now: Nanos) -> Dispatch {
        self.tick(now);
        if let Some(at_hand) = self.next_outside_queues() {
            return at_hand;
        }
        let has_rounds = self.profile.has_one_level;
        let answer = if has_rounds { self.dispatch_rounds(requests) } else { self.dispatch(requests) };
        self.is_holding = matches!(answer, Dispatch::Hold { .. });
        answer
    }

    fn drain(&mut self, requests: &Requests, now: Nanos) -> Option<RequestId> {
        self.tick(now);
        if let Some(slot) = self.order.take_head() {
            let entry = self.slots.at_mut(slot);
            entry.held = if entry.queue == NIL { Held::Nowhere } else { Held::Dispatched };
            return Some(entry.id);
        }
        if let Some(id) = self.next_of_round() {
            return Some(id);
        }
        let slot = self.drain_next(requests)?;
        Some(self.slots.at(slot).id)
    }

    fn drains_by_sector(&self) -> bool {
        true
    }

    fn has_work(&self, _queue: HardwareQueue) -> bool {
        self.order.has_outside() || (self.load.requests() > 0 && !self.is_holding)
    }

    fn started(&mut self, requests: &Requests, id: RequestId, now: Nanos) -> Wake {
        self.tick(now);
        let slot = self.slots.at(id.slot());
        if slot.id == id && slot.held == Held::Dispatched {
            self.activate(requests, id.slot());
        }
        Wake::No
    }

    fn requeued(&mut self, _requests: &Requests, id: RequestId, now: Nanos) -> Wake {
        self.tick(now);
        let slot = *self.slots.at(id.slot());
        if slot.id == id && slot.held == Held::Dispatched {
            self.deactivate(id.slot());
            self.log_queue(slot.queue, "deactivate rq, drv={0}", &[u64::from(self.device.in_driver())]);
        }
        Wake::No
    }

    fn completed(&mut self, requests: &Requests, id: RequestId, now: Nanos) -> Wake {
        self.tick(now);
        let slot = self.slots.at(id.slot());
        if slot.id == id && slot.held == Held::Dispatched {
            self.complete(requests, id.slot());
        }
        Wake::All
    }

    fn released(&mut self, _requests: &Requests, id: RequestId, now: Nanos) -> Wake {
        self.tick(now);
        let Slot { id: known, held, queue, .. } = *self.slots.at(id.slot());
        if known != id {
            return Wake::No;
        }
        match held {
            Held::Nowhere => {}
            // It ended without a completion: it was drained, or failed before it reached the
            // device.
            Held::Dispatched => self.leave_device(id.slot()),
            Held::Round => {
                self.order.remove_from_round(id.slot());
                self.leave_device(id.slot());
            }
            Held::Queued => {
                self.take_out(id.slot());
                self.leave_if_empty(queue);
            }
            Held::Head => {
                self.order.remove_head(id.slot());
                if queue != NIL {
                    self.leave_device(id.slot());
                }
            }
        }
        self.unbind(id.slot());
        self.free_deferred();
        Wake::All
    }

    fn next_timer(&self) -> Option<Nanos> {
        self.engine.timer_at.map(|at| self.clock.ticks().ns(at))
    }

    fn timer(&mut self, _requests: &Requests, now: Nanos) -> Wake {
        self.tick(now);
        match self.engine.timer_at {
            Some(at) if is_due(self.clock.now(), at) => self.timer_fired(),
            _ => Wake::No,
        }
    }

    fn context_exited(&mut self, context: ContextId, now: Nanos) -> Wake {
        self.tick(now);
        self.context_gone(context)
    }

    fn group_added(&mut self, group: GroupId, settings: &GroupSettings, now: Nanos) {
        self.tick(now);
        let think = ThinkTime::since(self.clock.now());
        self.groups.forget_inheritance(group.0);
        if let Some(state) = self.groups.get_mut(group.0) {
            state.begin(&self.profile, group, settings);
            state.think = think;
        }
    }

    fn group_changed(&mut self, group: GroupId, settings: &GroupSettings, now: Nanos) -> Wake {
        self.tick(now);
        let weights = construction::weights(&self.profile, group, settings);
        if let Some(state) = self.groups.get_mut(group.0) {
            (state.new_weight, state.new_leaf_weight) = weights;
        }
        Wake::No
    }

    fn group_removed(&mut self, group: GroupId, now: Nanos) {
        self.tick(now);
        if group != GroupId::ROOT {
            self.forget_group(group.0);
            self.fold_account_into_parent(group.0);
        }
    }

    fn reasons(&self) -> &'static [&'static str] {
        Why::NAMES
    }

    fn tunables(&self) -> &'static [Tunable] {
        self.profile.rows
    }

    fn setting(&self, index: usize) -> Option<i64> {
        let id = *self.profile.tunable_ids.get(index)?;
        Some(self.settings.get(id, self.clock.ticks()))
    }

    fn set(&mut self, index: usize, value: i64) -> Result<(), SettingError> {
        self.is_holding = false;
        let (Some(id), Some(row)) = (self.profile.tunable_ids.get(index), self.profile.rows.get(index)) else {
            return Err(SettingError::Unknown);
        };
        self.settings.set(*id, row, self.clock.ticks(), value)
    }

    fn group_account(&self, group: GroupId) -> Option<GroupAccount> {
        self.groups.get(group.0).map(|group| group.account)
    }

    fn removed_account(&self, group: GroupId) -> Option<GroupAccount> {
        self.groups.inheritance(group.0).copied()
    }

    fn reset_group_account(&mut self, group: GroupId, now: Nanos) -> bool {
        self.tick(now);
        self.reset_account(group.0)
    }

    fn take_message(&mut self) -> Option<Message> {
        self.messages.take()
    }

    fn trace(&mut self, on: bool) {
        self.messages.switch(on);
    }

    fn violations(&self) -> u32 {
        self.violations
    }

    fn check(&self, requests: &Requests) -> Result<(), Violation> {
        self.check_all(requests)
    }
}

impl Cfq {
    /// The request that is dispatched next regardless of turns: the host put it in front of
    /// everything, or it has already left its queue in a round.
    #[inline]
    fn next_outside_queues(&mut self) -> Option<Dispatch> {
        if let Some(slot) = self.order.take_head() {
            let entry = self.slots.at_mut(slot);
            // A request that came back from the driver stays counted as dispatched.
            entry.held = if entry.queue == NIL { Held::Nowhere } else { Held::Dispatched };
            return Some(Dispatch::Request { id: entry.id, reason: Why::HeadInsert.into() });
        }
        let id = self.next_of_round()?;
        Some(Dispatch::Request { id, reason: Why::OfRound.into() })
    }

    /// Starts an event.
    #[inline]
    fn tick(&mut self, now: Nanos) {
        self.is_holding = false;
        let is_first = self.clock.is_before_first();
        self.clock.set(now);
        if is_first {
            self.begin();
        }
    }

    /// The first event: assumes that a sync request was last late a second ago.
    #[cold]
    fn begin(&mut self) {
        self.load.sync_was_late(self.clock.now().wrapping_sub(self.clock.ticks().second_ticks));
    }

    /// Gives a request the deadline and the fifo position of a request that was merged into it, if
    /// that one's deadline is earlier, and makes it the queue's next request if that one was.
    fn inherit(&mut self, keep: u32, gone: u32) {
        let (kept, absorbed) = (*self.slots.at(keep), *self.slots.at(gone));
        let queue = self.queues.at_mut(kept.queue);
        if absorbed.due_ticks < kept.due_ticks {
            self.order.move_before(queue, gone, keep);
            self.slots.at_mut(keep).due_ticks = absorbed.due_ticks;
        }
        if queue.pending.next() == gone {
            queue.pending.set_next(keep);
            self.note_next(kept.queue);
        }
    }

    /// Removes a queue from the order if its last request was merged into another queue's, or taken
    /// back. The active queue stays until its turn ends, except where it leaves with its last
    /// dispatch as well.
    fn leave_if_empty(&mut self, queue: u32) {
        let state = self.queues.at(queue);
        let may_leave = queue != self.engine.active || self.profile.has_one_level;
        if state.is_empty() && state.has(Marks::ON_RR) && may_leave {
            self.become_idle(queue);
        }
    }

    #[cold]
    fn count_violation(&mut self) {
        self.violations = self.violations.saturating_add(1);
    }
}
