//! noop: first come, first served; adjacent requests are merged. It serves as a tutorial: it does
//! only what every elevator must do.
//!
//! Promise  arrival order.
//! Cost     O(1) everywhere, 8 bytes a slot; the form of 2.4 reads the whole list for every bio.
//! Fits     RAM disks, arrays and other devices that schedule by themselves.
//! Source   Linux 2.4.20 drivers/block/elevator.c; Linux 2.6 to 4.20 block/noop-iosched.c.

use crate::interface::{
    Configuration, Dispatch, Elevator, Form, Hint, Merge, MergeSearch, Policy, Position, Side, Version, Wake,
};
use crate::request::{Bio, Requests};
use crate::structures::{Links, List, NoMemory};
use crate::traits::{Passing, Traits};
use hoistway_block::{HardwareQueue, Nanos, RequestId};

crate::reasons! {
    /// Why a request was chosen.
    pub enum Why { Oldest = "oldest", }
}

/// How a bio finds merge candidates.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum MergeCandidates {
    /// The policy scans its list, newest first. A candidate that the queue refuses still determines
    /// where the bio's request is inserted.
    OwnScan,
    /// The queue searches: last merge, then the hash of end sectors.
    Pipeline,
}

/// The policy's state: one list.
#[derive(Debug)]
pub struct Noop {
    candidates: MergeCandidates,
    links: Links,
    queued: List,
    max_sectors: u32,
    violations: u32,
}

impl Policy for Noop {
    type Profile = MergeCandidates;
    const FORMS: &'static [Form<MergeCandidates>] = &[
        Form { since: Version(2, 4, 20), profile: MergeCandidates::OwnScan },
        Form { since: Version(2, 6, 0), profile: MergeCandidates::Pipeline },
    ];

    fn build(configuration: &Configuration, candidates: MergeCandidates) -> Result<Self, NoMemory> {
        let links = Links::try_new(configuration.slots)?;
        Ok(Self { candidates, links, queued: List::default(), max_sectors: configuration.max_sectors, violations: 0 })
    }
}

impl Elevator for Noop {
    const TRAITS: Traits = Traits { ticks_suffice: true, passing: Passing::Never, ..Traits::PLAIN };

    fn merge_search(&self) -> MergeSearch {
        match self.candidates {
            MergeCandidates::OwnScan => MergeSearch::Own,
            MergeCandidates::Pipeline => MergeSearch::Pipeline,
        }
    }

    fn merge(&mut self, requests: &Requests, bio: &Bio, _now: Nanos) -> Merge {
        let mut newest = self.queued.last();
        while let Some(slot) = newest {
            newest = self.links.prev(slot);
            let Some(id) = requests.id_of(slot) else { continue };
            let queued = requests.attributes(id);
            let sectors = queued.extent.sectors.saturating_add(bio.extent.sectors);
            if sectors > self.max_sectors || !queued.can_share_request(bio) {
                continue;
            }
            if queued.extent.is_followed_by(bio.extent) {
                return Merge::Into(id, Side::Back);
            }
            if bio.extent.is_followed_by(queued.extent) {
                return Merge::Into(id, Side::Front);
            }
        }
        Merge::No(Hint::None)
    }

    fn requests_merged(&mut self, _requests: &Requests, _keep: RequestId, gone: RequestId, _now: Nanos) {
        // A request that is merged on its way in was never queued.
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

    #[inline]
    fn insert(&mut self, _requests: &Requests, id: RequestId, at: Position, _now: Nanos) -> Wake {
        let done = match at {
            Position::Sorted(Hint::None) => self.queued.push_back(&mut self.links, id.slot()),
            elsewhere => self.insert_elsewhere(id.slot(), elsewhere),
        };
        if !done {
            self.violations += 1;
        }
        Wake::All
    }

    #[inline]
    fn choose(&mut self, requests: &Requests, _queue: HardwareQueue, now: Nanos) -> Dispatch {
        match self.drain(requests, now) {
            Some(id) => Dispatch::Request { id, reason: Why::Oldest.into() },
            None => Dispatch::Empty,
        }
    }

    #[inline]
    fn drain(&mut self, requests: &Requests, _now: Nanos) -> Option<RequestId> {
        requests.id_of(self.queued.pop_front(&mut self.links)?)
    }

    fn withdrawn(&mut self, _requests: &Requests, id: RequestId, _now: Nanos) {
        if !self.queued.remove(&mut self.links, id.slot()) {
            self.violations += 1;
        }
    }

    fn drains_by_sector(&self) -> bool {
        self.candidates == MergeCandidates::Pipeline
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

impl Noop {
    /// Inserts at another place than the end. False if that is not possible.
    #[cold]
    fn insert_elsewhere(&mut self, slot: u32, at: Position) -> bool {
        match at {
            Position::Sorted(Hint::None) => self.queued.push_back(&mut self.links, slot),
            Position::Sorted(Hint::After(other)) => self.queued.insert_after(&mut self.links, other.slot(), slot),
            Position::Sorted(Hint::AtFront) | Position::Head | Position::Requeue => {
                self.queued.push_front(&mut self.links, slot)
            }
        }
    }
}
