//! Replacing the policy of a live queue, without losing, duplicating or failing a request.

use crate::slot::Marks;
use crate::{RequestQueue, TraceKind};
use hoistway_block::{GroupId, Nanos, RequestId};
use hoistway_elevator::structures::List;
use hoistway_elevator::{Elevator, GroupState, Hint, Place, Position, Violation, Wake};

/// How requests in the old policy are handled.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Handover {
    /// They are dispatched by force and complete before the new policy starts, as the kernel
    /// freezes and drains a queue.
    Drain,
    /// They are removed at once and inserted into the new policy in their old order; only requests
    /// already in the device are waited for.
    Carry,
}

#[derive(Debug)]
pub(crate) struct Switching<E> {
    next: E,
    handover: Handover,
}

/// Sorted runs that exist at a time: one for each bit of a slot's number, which suffices for any
/// number of slots.
const RUNS: usize = RequestId::SLOT_BITS as usize;

/// Another switch is in progress; the refused policy is returned.
#[derive(Debug)]
pub struct Busy<E>(pub E);

impl<E: Elevator> RequestQueue<E> {
    /// Replaces the policy. New bios wait from now on; the change happens when the device holds
    /// nothing that the old policy chose, possibly at once. [`RequestQueue::retired`] then returns
    /// the old policy.
    ///
    /// # Errors
    /// [`Busy`] while another switch is in progress.
    pub fn switch(&mut self, next: E, handover: Handover, now: Nanos) -> Result<(), Busy<E>> {
        if self.switching.is_some() {
            return Err(Busy(next));
        }
        self.unplug_device(now);
        if handover == Handover::Carry {
            self.take_out_all(now);
        } else if self.era.drains == crate::Drains::DispatchSort {
            self.force_out(now);
        }
        self.switching = Some(Switching { next, handover });
        self.note(Wake::All);
        self.finish_switch_if_drained(now);
        Ok(())
    }

    /// Whether a switch is in progress.
    pub fn is_switching(&self) -> bool {
        self.switching.is_some()
    }

    /// The policy that the last switch replaced, for inspection or for dropping.
    pub fn retired(&mut self) -> Option<E> {
        self.retired.take()
    }

    /// Whether dispatching has to empty the old policy.
    #[inline]
    pub(crate) fn is_draining(&self) -> bool {
        matches!(&self.switching, Some(switching) if switching.handover == Handover::Drain)
    }

    /// Whether requests must wait outside the policy instead of being inserted.
    #[inline]
    pub(crate) fn is_carrying(&self) -> bool {
        matches!(&self.switching, Some(switching) if switching.handover == Handover::Carry)
    }

    fn take_out_all(&mut self, now: Nanos) {
        while let Some(id) = self.elevator.drain(&self.requests, now) {
            self.leave_policy(id);
            let wake = self.elevator.released(&self.requests, id, now);
            self.note(wake);
            self.carry(id);
        }
    }

    /// Keeps a request aside until the new policy is in place.
    pub(crate) fn carry(&mut self, id: RequestId) {
        self.slots.at_mut(id.slot()).marks.clear(Marks::INSERTED);
        if self.requests.at(id).place != Place::Plugged {
            self.requests.move_to(id, Place::Plugged);
        }
        if !self.carried.push_back(&mut self.dispatch_links, id.slot()) {
            self.violations += 1;
        }
    }

    /// Sorts the carried requests by their order of insertion: a bottom-up merge sort in place.
    /// Sorted runs have 1, 2, 4 ... requests, and two runs of the same length are merged at once,
    /// like the carries of a binary counter.
    fn sort_carried(&mut self) {
        let mut runs = [const { List::EMPTY }; RUNS];
        while let Some(slot) = self.carried.pop_front(&mut self.dispatch_links) {
            let mut run = List::EMPTY;
            run.push_back(&mut self.dispatch_links, slot);
            for kept in &mut runs {
                if kept.is_empty() {
                    *kept = core::mem::take(&mut run);
                    break;
                }
                run = self.merge_runs(core::mem::take(kept), run);
            }
        }
        for run in runs {
            let sorted = core::mem::take(&mut self.carried);
            self.carried = self.merge_runs(run, sorted);
        }
    }

    fn merge_runs(&mut self, mut first: List, mut second: List) -> List {
        let mut merged = List::EMPTY;
        while let (Some(one), Some(other)) = (first.first(), second.first()) {
            let [age, other_age] = [one, other].map(|slot| self.slots.at(slot).age(self.sequence));
            let older = if other_age > age { &mut second } else { &mut first };
            if let Some(slot) = older.pop_front(&mut self.dispatch_links) {
                merged.push_back(&mut self.dispatch_links, slot);
            }
        }
        for rest in [&mut first, &mut second] {
            while let Some(slot) = rest.pop_front(&mut self.dispatch_links) {
                merged.push_back(&mut self.dispatch_links, slot);
            }
        }
        merged
    }

    #[inline(always)]
    pub(crate) fn finish_switch_if_drained(&mut self, now: Nanos) {
        if self.switching.is_some() {
            self.finish_if_drained(now);
        }
    }

    #[inline(never)]
    fn finish_if_drained(&mut self, now: Nanos) {
        let chosen = self.in_device_total + self.dispatch_total;
        let is_drained = match &self.switching {
            None => return,
            Some(Switching { handover: Handover::Drain, .. }) => self.tags.in_use() == 0 && self.flush.is_idle(),
            Some(Switching { handover: Handover::Carry, .. }) => chosen == 0,
        };
        if !is_drained {
            return;
        }
        let Some(switching) = self.switching.take() else { return };
        let old = core::mem::replace(&mut self.elevator, switching.next);
        self.violations += old.violations();
        self.retired = Some(old);
        self.last_merge = None;
        self.reasons = [0; crate::REASONS_MAX];
        self.busy_average = 0;
        self.introduce(now);
        self.trace_switch(now);
        self.sort_carried();
        while let Some(slot) = self.carried.pop_front(&mut self.dispatch_links) {
            if let Some(id) = self.requests.id_of(slot) {
                self.insert(id, Position::Sorted(Hint::None), now);
            }
        }
        self.retry_sleepers();
        self.admit_waiting(now);
        self.note(Wake::All);
    }

    /// Announces the depth, the groups (parents first) and the existing requests to the new policy.
    fn introduce(&mut self, now: Nanos) {
        self.elevator.depth_changed(self.depth);
        self.elevator.trace(self.tracing);
        self.introduce_children(now);
        for slot in 0..self.requests.capacity() {
            let Some(id) = self.requests.id_of(slot) else { continue };
            // Only the flush machine's own command has no tag; a flush that a client submitted has
            // one.
            if self.slots.at(slot).stage != crate::flush::Stage::Command {
                self.elevator.allocated(&self.requests, id, now);
            }
        }
    }

    fn introduce_children(&mut self, now: Nanos) {
        let root = *self.groups.settings(GroupId::ROOT);
        let wake = self.elevator.group_changed(GroupId::ROOT, &root, now);
        self.note(wake);
        // Each pass announces one level of the tree, so the tree's depth bounds the passes.
        for level in 1..=self.groups.capacity() {
            let mut announced = 0;
            for group in (1..self.groups.capacity()).map(GroupId) {
                if self.groups.state(group) != GroupState::Absent && self.level_of(group) == level {
                    let settings = *self.groups.settings(group);
                    self.elevator.group_added(group, &settings, now);
                    if self.groups.state(group) == GroupState::Offline {
                        self.elevator.group_offline(group, now);
                    }
                    announced += 1;
                }
            }
            if announced == 0 {
                return;
            }
        }
    }

    fn level_of(&self, group: GroupId) -> u32 {
        let mut level = 0;
        let mut at = group;
        while at != GroupId::ROOT && level < self.groups.capacity() {
            at = self.groups.settings(at).parent;
            level += 1;
        }
        level
    }

    fn trace_switch(&mut self, now: Nanos) {
        self.trace(TraceKind::Switched, RequestId::from_raw(hoistway_block::NIL), None, now);
    }

    /// Checks every invariant of the queue and its policy. Walks all state: for tests, storms and
    /// fuzzers.
    ///
    /// # Errors
    /// The first invariant that does not hold.
    pub fn check(&self) -> Result<(), Violation> {
        crate::check::check(self)
    }
}
