//! Submission of a bio: it passes the limiters, then merges into a request or gets its own, which
//! enters a plug or the policy.

use crate::bios::{Arrival, Members};
use crate::era::{Flushes, Specials};
use crate::flush::Steps;
use crate::merge::is_open_kind;
use crate::slot::{Marks, Slot};
use crate::{Full, Plug, RequestQueue, Submitted, TraceKind};
use hoistway_block::{Flags, Nanos, Operation, RequestId, Sector};
use hoistway_elevator::{Bio, Elevator, GroupState, Hint, Place, Position, Wake};

impl<E: Elevator> RequestQueue<E> {
    /// Submits a bio. `cookie` comes back in [`crate::Done`] when it has ended.
    ///
    /// # Errors
    /// [`Full`] when `Settings::bios` are in flight already, or no memory can be had for the bio's
    /// record (only in a queue made by [`RequestQueue::growing`]).
    #[inline]
    pub fn submit(&mut self, bio: &Bio, cookie: u64, now: Nanos) -> Result<Submitted, Full> {
        self.submit_through(bio, cookie, None, now)
    }

    /// Submits a bio into a submitter's plug.
    ///
    /// # Errors
    /// As [`RequestQueue::submit`].
    pub fn submit_plugged(&mut self, bio: &Bio, cookie: u64, plug: &mut Plug, now: Nanos) -> Result<Submitted, Full> {
        // In the eras in which submitters have no plugs, the queue itself has one.
        let plug = (self.settings.era.plug_requests > 0).then_some(plug);
        self.submit_through(bio, cookie, plug, now)
    }

    fn submit_through(
        &mut self,
        bio: &Bio,
        cookie: u64,
        plug: Option<&mut Plug>,
        now: Nanos,
    ) -> Result<Submitted, Full> {
        let submitted = self.submit_under_limits(bio, cookie, plug, now);
        if !self.limiters.is_empty() {
            self.release_held(now);
        }
        submitted
    }

    #[inline]
    fn submit_under_limits(
        &mut self,
        bio: &Bio,
        cookie: u64,
        mut plug: Option<&mut Plug>,
        now: Nanos,
    ) -> Result<Submitted, Full> {
        let is_online = self.groups.state(bio.group) == GroupState::Online;
        let is_plain = !needs_flush_machine(bio);
        let mut changed;
        let bio = if is_online && is_plain {
            bio
        } else {
            changed = *bio;
            if !is_online {
                changed.group = self.groups.nearest_online(bio.group);
            }
            if !is_plain && self.flush_is_nothing(&mut changed) {
                return Ok(Submitted::Nothing);
            }
            &changed
        };
        if !self.bios.has_room() {
            return Err(Full);
        }
        // The flush machine changes the flags of its request, which then no longer describes what
        // was submitted.
        let arrival = if is_plain && self.limiters.is_empty() {
            Arrival::Fresh(cookie)
        } else {
            Arrival::Recorded(self.bios.take(bio, cookie, now).ok_or(Full)?)
        };
        self.bios.count_submitted();
        self.trace_bio(TraceKind::Queued, bio, RequestId::from_raw(hoistway_block::NIL), now);
        if let Arrival::Recorded(index) = arrival
            && self.is_held_at_once(index, now)
        {
            // The submitter does not sleep for a limiter.
            return Ok(Submitted::Held);
        }
        let limited = if !self.switch.is_underway() {
            match self.enter(arrival, bio, plug.as_deref_mut(), true, now) {
                Entered::Merged(id) => {
                    self.merging_freed_a_request(now);
                    return Ok(Submitted::Merged(id));
                }
                Entered::Queued(id) => return Ok(Submitted::Queued(id)),
                Entered::NoTag { limited } => limited,
            }
        } else {
            self.pool.sleeps_apart(bio)
        };
        let Some(index) = self.record(arrival, bio, now) else {
            self.bios.count_ended();
            return Err(Full);
        };
        self.wait(index, limited, now);
        self.unplug_device(now);
        // A submitter that has to sleep first flushes its plug, so that its requests do not wait
        // with it.
        if let Some(plug) = plug {
            self.unplug(plug, now);
        }
        Ok(Submitted::Waiting)
    }

    /// Applies the era's meaning of the bio's flags. True if nothing is left to do.
    #[cold]
    fn flush_is_nothing(&self, bio: &mut Bio) -> bool {
        match self.settings.era.flushes {
            Flushes::Unknown => {
                bio.flags = bio.flags.without(Flags(Flags::PREFLUSH.0 | Flags::FUA.0)).with(Flags::SYNC)
            }
            Flushes::Barriers if bio.flags.contains(Flags::BARRIER) => {
                bio.flags = bio.flags.with(Flags::PREFLUSH).with(Flags::FUA);
            }
            Flushes::Barriers | Flushes::Machine => {}
        }
        let is_unknown = self.settings.era.flushes == Flushes::Unknown && bio.operation == Operation::Flush;
        is_unknown || Steps::of(bio, &self.settings.limits).is_nothing()
    }

    /// The record of a bio that is being submitted; takes one if there is none yet.
    pub(crate) fn record(&mut self, arrival: Arrival, bio: &Bio, now: Nanos) -> Option<u32> {
        match arrival {
            Arrival::Fresh(cookie) => self.bios.take(bio, cookie, now),
            Arrival::Recorded(index) => Some(index),
        }
    }

    /// Makes a bio wait for a tag. It keeps a reference to its group, so that the group's id is not
    /// reused meanwhile.
    pub(crate) fn wait(&mut self, index: u32, limited: bool, now: Nanos) {
        self.limiters.waits(index, now);
        if self.trace.is_on() {
            let bio = self.bios.at(index).bio;
            self.trace_bio(TraceKind::Slept, &bio, RequestId::from_raw(hoistway_block::NIL), now);
        }
        self.groups.add_request(self.bios.at(index).bio.group);
        self.pool.wait(&mut self.bios, index, limited);
    }

    /// The cookie of the oldest bio that was answered with [`Submitted::Waiting`] and has been
    /// admitted since: its submitter runs again. Hosts whose submitters do not sleep need not call
    /// it.
    #[inline]
    pub fn take_admitted(&mut self) -> Option<u64> {
        self.pool.take_admitted()
    }

    /// Whether [`RequestQueue::take_admitted`] has a cookie.
    #[inline]
    pub fn has_admitted(&self) -> bool {
        self.pool.has_admitted()
    }

    /// Gives the requests of a plug to the policy, in order of submission.
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

    /// Merges a bio or takes a request for it. The kernels before blk-mq do the same with other
    /// rules of allocation (`request_lists.rs`).
    // Always inlined: it is one half of a submission, and the other caller is rare.
    #[inline(always)]
    pub(crate) fn enter(
        &mut self,
        arrival: Arrival,
        bio: &Bio,
        plug: Option<&mut Plug>,
        is_new: bool,
        now: Nanos,
    ) -> Entered {
        let has_lists = self.pool.has_lists();
        if has_lists && let Err(limited) = self.begin_by_lists(bio, is_new, now) {
            return Entered::NoTag { limited };
        }
        let is_open = is_open_kind(bio);
        let hint = if is_open && (is_new || self.settings.era.searches_again) {
            match self.try_merge(arrival, bio, plug.as_deref(), now) {
                Ok(id) => {
                    if let Arrival::Recorded(index) = arrival
                        && !self.limiters.is_empty()
                    {
                        self.limiters.merged(&self.bios, index, now);
                    }
                    if has_lists {
                        self.merged_by_lists(bio, is_new, now);
                    }
                    return Entered::Merged(id);
                }
                Err(hint) => hint,
            }
        } else {
            self.hint_for(bio, now)
        };
        let taken = if has_lists { self.take_by_lists(bio, is_new, now) } else { self.take_tag(bio, is_new, now) };
        let limited = match taken {
            Ok(limited) => limited,
            Err(limited) => return Entered::NoTag { limited },
        };
        let Some(id) = self.requests.allocate(*bio, now) else {
            self.pool.take_back(limited);
            return Entered::NoTag { limited };
        };
        let marks = if limited { Marks::LIMITED } else { Marks::NONE };
        let members = match arrival {
            Arrival::Fresh(cookie) => Members::Alone(cookie),
            Arrival::Recorded(index) => Members::Chain(self.bios.chain_of(index)),
        };
        *self.slots.at_mut(id.slot()) = Slot::new(members, marks);
        self.counters.allocated(bio.operation, now);
        self.groups.add_request(bio.group);
        self.elevator.allocated(&self.requests, id, now);
        self.trace(TraceKind::Allocated, id, None, now);
        match plug {
            Some(plug) => self.plug(plug, id, now),
            None if is_open => self.insert_inline(id, Position::Sorted(hint), Some(bio.extent.end()), now),
            None if needs_flush_machine(bio) => self.begin_flush_sequence(id, now),
            None if bio.operation == Operation::Passthrough => self.send_special(id, now),
            None => self.insert(id, Position::Sorted(hint), now),
        }
        if has_lists {
            self.entered_by_lists(bio, now);
        }
        Entered::Queued(id)
    }

    /// Takes a tag as blk-mq does ([`crate::pool::Pool::take`]).
    #[inline]
    fn take_tag(&mut self, bio: &Bio, is_new: bool, now: Nanos) -> Result<bool, bool> {
        // One slot per hardware queue is reserved for its flush command.
        let slots = self.requests.capacity().saturating_sub(self.device.queues());
        self.pool.take(self.elevator.admit(bio, now), is_new, slots)
    }

    /// Adds a request to a plug, which is flushed first if it is full enough.
    fn plug(&mut self, plug: &mut Plug, id: RequestId, now: Nanos) {
        // The newest may have been taken back.
        let newest = plug.newest().and_then(|id| self.requests.in_slot(id.slot()).filter(|(live, _)| *live == id));
        let newest_sectors = newest.map_or(0, |(_, request)| request.attributes.extent.sectors);
        if plug.len() >= self.settings.era.plug_requests || newest_sectors >= self.settings.era.plug_sectors {
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
        } else if !self.is_open(id, &bio) || !self.merge_on_insert(id, now) {
            let hint = self.hint_for(&bio, now);
            self.insert(id, Position::Sorted(hint), now);
        }
    }

    #[inline(never)]
    pub(crate) fn insert(&mut self, id: RequestId, at: Position, now: Nanos) {
        let attributes = self.requests.attributes(id);
        let is_open = matches!(at, Position::Sorted(_)) && self.is_open(id, attributes);
        let open_end = is_open.then(|| attributes.extent.end());
        self.insert_inline(id, at, open_end, now);
    }

    /// The inlined form of [`RequestQueue::insert`], for the common path; `open_end` is the
    /// request's end if others may merge into it.
    #[inline(always)]
    fn insert_inline(&mut self, id: RequestId, at: Position, open_end: Option<Sector>, now: Nanos) {
        let slot = self.slots.at_mut(id.slot());
        self.switch.carried().number(slot);
        if self.switch.is_carrying() {
            self.carry(id);
            return;
        }
        slot.marks.set(Marks::INSERTED);
        self.requests.move_to(id, Place::Queued);
        // The event is recorded first: as in Linux, the policy's messages about an insertion follow
        // the event of the insertion.
        let kind = if matches!(at, Position::Sorted(_)) { TraceKind::Inserted } else { TraceKind::InsertedInFront };
        self.trace(kind, id, None, now);
        let wake = if self.combines_calls && matches!(at, Position::Sorted(Hint::None)) {
            self.elevator.insert_new(&self.requests, id, self.requests.attributes(id), now)
        } else {
            self.elevator.insert(&self.requests, id, at, now)
        };
        self.note(wake);
        if let Some(end) = open_end {
            self.merges.inserted(&mut self.links, self.slots.at_mut(id.slot()), id, end);
        }
    }

    /// Dispatches a driver's own command (passthrough).
    #[cold]
    fn send_special(&mut self, id: RequestId, now: Nanos) {
        match self.settings.era.specials {
            Specials::Queued => self.queue_special(id, now),
            Specials::Tail => self.insert_tail(id, now),
            Specials::Bypass => self.bypass(id),
        }
    }

    /// Appends the request to those already chosen, bypassing the policy.
    fn bypass(&mut self, id: RequestId) {
        self.requests.move_to(id, Place::Dispatched);
        let queue = self.requests.attributes(id).hardware_queue;
        self.device.push_back(&mut self.links, queue, id.slot());
        self.note(Wake::Queue(queue));
    }

    /// Admits bios that wait for a tag, each kind in order of arrival.
    #[inline(always)]
    pub(crate) fn admit_waiting(&mut self, now: Nanos) {
        if self.pool.has_waiting() {
            self.admit(now);
        }
    }

    #[inline(never)]
    fn admit(&mut self, now: Nanos) {
        if !self.switch.is_underway() {
            if self.pool.has_lists() { self.wake_sleepers(now) } else { self.admit_in_order(now) }
        }
    }

    fn admit_in_order(&mut self, now: Nanos) {
        for kind in 0..2 {
            while let Some(index) = self.pool.next_for_tag(&mut self.bios, kind) {
                if let Entered::NoTag { limited } = self.admit_bio(index, now) {
                    self.pool.put_back(&mut self.bios, index, limited);
                    break;
                }
            }
        }
    }

    /// Retries a waiting bio, which is no longer in the queue of waiting bios. It keeps its
    /// reference to its group until it has entered.
    pub(crate) fn admit_bio(&mut self, index: u32, now: Nanos) -> Entered {
        let group = self.bios.at(index).bio.group;
        self.bios.at_mut(index).bio.group = self.groups.nearest_online(group);
        let bio = self.bios.at(index).bio;
        let entered = self.enter(Arrival::Recorded(index), &bio, None, false, now);
        if matches!(entered, Entered::NoTag { .. }) {
            self.bios.at_mut(index).bio.group = group;
            return entered;
        }
        if !self.limiters.was_held(index) {
            self.pool.admitted(self.bios.at(index).cookie);
        }
        if !self.limiters.is_empty() {
            self.limiters.waited(index, now);
        }
        if self.groups.remove_request(group) {
            self.forget_group_if_unused(group, now);
        }
        entered
    }

    /// The request leaves the policy, by whatever path: nothing may merge into it any more.
    #[inline]
    pub(crate) fn leave_policy(&mut self, id: RequestId) {
        self.merges.forget(&mut self.links, self.slots.at_mut(id.slot()), &self.requests, id);
    }
}

pub(crate) enum Entered {
    Merged(RequestId),
    Queued(RequestId),
    NoTag { limited: bool },
}

/// The flags that make a write need the flush machine.
const FLUSH_MARKS: Flags = Flags(Flags::PREFLUSH.0 | Flags::FUA.0 | Flags::BARRIER.0);

/// Whether a bio needs the flush machine: flushes, and writes with a flush, FUA or barrier flag.
#[inline]
pub(crate) fn needs_flush_machine(bio: &Bio) -> bool {
    bio.operation == Operation::Flush || bio.flags.intersects(FLUSH_MARKS)
}
