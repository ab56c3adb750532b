//! Replacing the policy of a live queue, without losing, duplicating or failing a request.

use crate::carried::Carried;
use crate::slot::Marks;
use crate::{RequestQueue, TraceKind};
use hoistway_block::{GroupId, Nanos, RequestId};
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

/// The change from one policy to the next.
///
/// Invariant: a request is carried only while a switch with [`Handover::Carry`] is underway.
#[derive(Debug)]
pub(crate) struct Switch<E> {
    next: Option<(E, Handover)>,
    retired: Option<E>,
    carried: Carried,
}

impl<E> Switch<E> {
    pub(crate) fn new() -> Self {
        Self { next: None, retired: None, carried: Carried::default() }
    }

    #[inline]
    pub(crate) fn is_underway(&self) -> bool {
        self.next.is_some()
    }

    /// Whether dispatching has to empty the old policy.
    #[inline]
    pub(crate) fn is_draining(&self) -> bool {
        matches!(&self.next, Some((_, Handover::Drain)))
    }

    /// Whether requests must wait outside the policy instead of being inserted.
    #[inline]
    pub(crate) fn is_carrying(&self) -> bool {
        matches!(&self.next, Some((_, Handover::Carry)))
    }

    /// The requests that go from the old policy to the new one.
    #[inline(always)]
    pub(crate) fn carried(&mut self) -> &mut Carried {
        &mut self.carried
    }

    pub(crate) fn violations(&self) -> u32 {
        self.carried.violations()
    }
}

/// Another switch is in progress; the refused policy is returned.
#[derive(Debug)]
pub struct Busy<E>(pub E);

impl<E> core::fmt::Display for Busy<E> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("another switch of the policy is in progress")
    }
}

impl<E: core::fmt::Debug> core::error::Error for Busy<E> {}

impl<E: Elevator> RequestQueue<E> {
    /// Replaces the policy. New bios wait from now on; the change happens when the device holds
    /// nothing that the old policy chose, possibly at once. [`RequestQueue::retired`] then returns
    /// the old policy.
    ///
    /// # Errors
    /// [`Busy`] while another switch is in progress.
    pub fn switch(&mut self, next: E, handover: Handover, now: Nanos) -> Result<(), Busy<E>> {
        if self.switch.is_underway() {
            return Err(Busy(next));
        }
        self.unplug_device(now);
        if handover == Handover::Carry {
            self.take_out_all(now);
        } else if self.settings.era.drains == crate::Drains::DispatchSort {
            self.force_out(now);
        }
        self.switch.next = Some((next, handover));
        self.note(Wake::All);
        self.finish_switch_if_drained(now);
        Ok(())
    }

    /// Whether a switch is in progress.
    pub fn is_switching(&self) -> bool {
        self.switch.is_underway()
    }

    /// The policy that the last switch replaced, for inspection or for dropping.
    pub fn retired(&mut self) -> Option<E> {
        self.switch.retired.take()
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
        self.switch.carried.push(&mut self.links, id.slot());
    }

    #[inline(always)]
    pub(crate) fn finish_switch_if_drained(&mut self, now: Nanos) {
        if self.switch.is_underway() {
            self.finish_if_drained(now);
        }
    }

    #[inline(never)]
    fn finish_if_drained(&mut self, now: Nanos) {
        let is_drained = match &self.switch.next {
            None => return,
            Some((_, Handover::Drain)) => self.pool.tags().in_use() == 0 && self.flush.is_idle(),
            Some((_, Handover::Carry)) => self.device.started() + self.device.chosen() == 0,
        };
        if !is_drained {
            return;
        }
        let Some((next, _)) = self.switch.next.take() else { return };
        let old = core::mem::replace(&mut self.elevator, next);
        self.violations += old.violations();
        self.switch.retired = Some(old);
        self.merges.forget_last();
        self.reasons = [0; crate::REASONS_MAX];
        self.device.forget_busy();
        self.introduce(now);
        self.trace_switch(now);
        self.switch.carried.sort(&mut self.links, &self.slots);
        while let Some(slot) = self.switch.carried.pop(&mut self.links) {
            if let Some(id) = self.requests.id_of(slot) {
                self.insert(id, Position::Sorted(Hint::None), now);
            }
        }
        self.pool.retry_all();
        self.admit_waiting(now);
        self.note(Wake::All);
    }

    /// Announces the depth, the groups (parents first) and the existing requests to the new policy.
    fn introduce(&mut self, now: Nanos) {
        self.elevator.depth_changed(self.depth());
        self.elevator.trace(self.trace.is_on());
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
