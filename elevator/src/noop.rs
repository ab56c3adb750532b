//! noop: first come, first served; adjacent requests merge. The tutorial: the least that an elevator must do.
//!
//! Promise  arrival order.
//! Cost     O(1) everywhere, 8 bytes a slot.
//! Fits     RAM disks, arrays and anything else that schedules by itself.
//! Source   Linux 2.6 to 4.20 block/noop-iosched.c.

use crate::interface::{Configuration, Dispatch, Elevator, Form, Policy, Position, Version, Wake};
use crate::request::Requests;
use crate::structures::{Links, List, NoMemory};
use block::{HardwareQueue, Nanos, RequestId};

crate::reasons! {
    /// Why a request was chosen.
    pub enum Why { Oldest = "oldest", }
}

/// The policy's state: one list.
#[derive(Debug)]
pub struct Noop {
    links: Links,
    queued: List,
    violations: u32,
}

impl Policy for Noop {
    type Profile = ();
    const FORMS: &'static [Form<()>] = &[Form { since: Version(2, 6, 0), profile: () }];

    fn build(configuration: &Configuration, (): ()) -> Result<Self, NoMemory> {
        Ok(Self { links: Links::try_new(configuration.slots)?, queued: List::default(), violations: 0 })
    }
}

impl Elevator for Noop {
    fn requests_merged(&mut self, _requests: &Requests, _keep: RequestId, gone: RequestId, _now: Nanos) {
        // One that is absorbed on its way in was never queued.
        if self.links.is_linked(gone.slot()) {
            self.queued.remove(&mut self.links, gone.slot());
        }
    }

    fn former(&self, requests: &Requests, id: RequestId) -> Option<RequestId> {
        requests.id_of(self.links.prev(id.slot())?)
    }

    fn latter(&self, requests: &Requests, id: RequestId) -> Option<RequestId> {
        requests.id_of(self.links.next(id.slot())?)
    }

    fn insert(&mut self, _requests: &Requests, id: RequestId, at: Position, _now: Nanos) -> Wake {
        let done = match at {
            Position::Sorted(_) => self.queued.push_back(&mut self.links, id.slot()),
            Position::Head | Position::Requeue => self.queued.push_front(&mut self.links, id.slot()),
        };
        if !done {
            self.violations += 1;
        }
        Wake::All
    }

    fn choose(&mut self, requests: &Requests, _queue: HardwareQueue, now: Nanos) -> Dispatch {
        match self.drain(requests, now) {
            Some(id) => Dispatch::Request { id, reason: Why::Oldest.into() },
            None => Dispatch::Empty,
        }
    }

    fn drain(&mut self, requests: &Requests, _now: Nanos) -> Option<RequestId> {
        requests.id_of(self.queued.pop_front(&mut self.links)?)
    }

    fn has_work(&self, _queue: HardwareQueue) -> bool {
        !self.queued.is_empty()
    }

    fn reasons(&self) -> &'static [&'static str] {
        Why::NAMES
    }

    fn violations(&self) -> u32 {
        self.violations
    }
}
