//! Bios that are taken back: everything of a submitter that is gone and that the device has not been
//! given, wherever it waits.
//!
//! ```text
//! held by a limiter | sleeping for a tag | in a plug | carried over a switch | in the policy
//!     | waiting for a flush | chosen                         ─► taken back: counts and tags as if it had ended
//! started                                                    ─► stays, and completes
//! ```
//! A request is taken back if all its bios are; hosts that withdraw do not let bios of several
//! submitters share a request ([`crate::Era::merges_contexts`]). It costs a walk over the tables, and
//! nothing as long as no host withdraws.

use crate::bios::Members;
use crate::era::Flushes;
use crate::flush::Stage;
use crate::slot::Marks;
use crate::{RequestQueue, TraceKind};
use hoistway_block::{Nanos, RequestId};
use hoistway_elevator::{Elevator, Place, Wake};

impl<E: Elevator> RequestQueue<E> {
    /// Takes back every bio for whose cookie `of` is true and that the device has not been given.
    /// `ended` is called with the cookie of each; no [`crate::Done`] follows for it.
    ///
    /// Bios in the device are not touched, nor is a request with a bio for which `of` is false. Requests
    /// in a submitter's [`crate::Plug`] are taken back as well; the plug forgets them when it is flushed.
    ///
    /// ```
    /// use hoistway_block::{Extent, HardwareQueue, Operation};
    /// use hoistway_elevator::Attributes;
    /// use hoistway_queue::{Next, RequestQueue, Settings};
    ///
    /// let mut queue = RequestQueue::build("bfq", None, &Settings::default()).unwrap();
    /// let write = |sector| Attributes::new(Operation::Write, Extent::new(sector, 8));
    /// queue.submit(&write(0), 1, 0).unwrap();
    /// queue.submit(&write(64), 2, 0).unwrap();
    /// let mut ended = Vec::new();
    /// queue.withdraw(|cookie| cookie == 1, 0, |cookie| ended.push(cookie));
    /// assert_eq!((ended, queue.bios_in_flight()), (vec![1], 1));
    /// ```
    pub fn withdraw(&mut self, of: impl Fn(u64) -> bool, now: Nanos, mut ended: impl FnMut(u64)) {
        self.withdraw_held(&of, now, &mut ended);
        self.withdraw_waiting(&of, now, &mut ended);
        for slot in 0..self.requests.capacity() {
            if let Some(id) = self.requests.id_of(slot)
                && self.consists_of(id, &of)
                && self.take_back(id, now)
            {
                self.end_unserved(id, now, &mut ended);
            }
        }
        self.pool.forget_admitted(&of);
        if !self.limiters.is_empty() {
            self.release_held(now);
        }
        self.kick_flush(now);
        self.admit_waiting(now);
        self.finish_switch_if_drained(now);
        self.note(Wake::All);
    }

    fn withdraw_held(&mut self, of: &impl Fn(u64) -> bool, now: Nanos, ended: &mut impl FnMut(u64)) {
        // Empty as long as there was no limiter.
        for index in 0..self.limiters.bios() {
            if self.limiters.holds(index) && of(self.bios.at(index).cookie) && self.limiters.withdraw(index, now) {
                self.forget_bio(index, now, ended);
            }
        }
    }

    fn withdraw_waiting(&mut self, of: &impl Fn(u64) -> bool, now: Nanos, ended: &mut impl FnMut(u64)) {
        for kind in 0..2 {
            let mut all = self.pool.take_waiting(kind);
            while let Some(index) = self.bios.pop(&mut all) {
                if !of(self.bios.at(index).cookie) {
                    self.pool.wait(&mut self.bios, index, kind == 1);
                    continue;
                }
                let group = self.bios.at(index).bio.group;
                self.forget_bio(index, now, ended);
                if self.groups.remove_request(group) {
                    self.forget_group_if_unused(group, now);
                }
            }
        }
    }

    /// Whether a request has bios, and all of them are meant.
    fn consists_of(&self, id: RequestId, of: &impl Fn(u64) -> bool) -> bool {
        let mut bios = self.bios_of(id).peekable();
        self.slots.at(id.slot()).stage != Stage::Command && bios.peek().is_some() && bios.all(|(cookie, _)| of(cookie))
    }

    /// Takes a request from where it waits. False if it is in the device.
    fn take_back(&mut self, id: RequestId, now: Nanos) -> bool {
        let (place, stage) = (self.requests.at(id).place, self.slots.at(id.slot()).stage);
        match (place, stage) {
            (Place::Free | Place::Started | Place::Complete, _) => return false,
            (_, Stage::Before(_) | Stage::After(_)) => {
                let is_out = self.flush.remove(&mut self.links, id.slot());
                self.violations += u32::from(!is_out);
            }
            (Place::Plugged, _) => self.unlink_carried(id),
            (Place::Queued, _) => {
                self.leave_policy(id);
                self.elevator.withdrawn(&self.requests, id, now);
            }
            (Place::Dispatched, _) => self.unlink_chosen(id),
        }
        let marks = &mut self.slots.at_mut(id.slot()).marks;
        if marks.has(Marks::INSERTED) {
            marks.clear(Marks::INSERTED);
            let wake = self.elevator.released(&self.requests, id, now);
            self.note(wake);
        }
        match stage {
            Stage::Data(_) => self.flush.end_running_data(),
            Stage::Barrier(_) => self.gate.forget_barrier(),
            _ => {}
        }
        true
    }

    /// A request that is carried over a switch, or in a submitter's plug, which no list of the queue
    /// knows.
    fn unlink_carried(&mut self, id: RequestId) {
        if self.links.is_linked(id.slot()) {
            let is_out = self.switch.carried().remove(&mut self.links, id.slot());
            self.violations += u32::from(!is_out);
        }
    }

    fn unlink_chosen(&mut self, id: RequestId) {
        let queue = self.requests.attributes(id).hardware_queue;
        let is_out = self.device.remove(&mut self.links, queue, id);
        self.violations += u32::from(!is_out);
    }

    /// What the end of a request means for everything but the policy; its bios end without service.
    fn end_unserved(&mut self, id: RequestId, now: Nanos, ended: &mut impl FnMut(u64)) {
        let attributes = *self.requests.attributes(id);
        self.trace(TraceKind::Withdrawn, id, None, now);
        self.counters.withdrawn(attributes.operation, now);
        if self.gate.is_closed() && self.settings.era.flushes == Flushes::Barriers {
            self.end_barrier(id);
        }
        if self.pool.has_lists() {
            self.pool.left(attributes.extent.sectors);
        }
        self.limiters.request_withdrawn(&self.requests, id, now);
        match self.slots.at(id.slot()).members() {
            Members::Alone(cookie) => {
                ended(cookie);
                self.bios.count_ended();
            }
            Members::Chain(chain) => {
                let mut following = self.bios.first(chain);
                while let Some(index) = following {
                    following = self.bios.behind(chain, index);
                    self.forget_bio(index, now, ended);
                }
            }
        }
        self.free(id, attributes.group, now);
    }

    /// Ends a bio that has a record.
    fn forget_bio(&mut self, index: u32, now: Nanos, ended: &mut impl FnMut(u64)) {
        if self.limiters.have_seen_bios() {
            self.limited_bio_ended(index, now);
        }
        ended(self.bios.at(index).cookie);
        self.bios.give_back(index);
        self.bios.count_ended();
    }
}
