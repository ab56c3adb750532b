//! none: no scheduler. Requests wait in the software queue of the CPU that submitted them, and
//! leave in order of arrival.
//!
//! Promise  while the device keeps up, all waiting requests leave at once, software queue by
//!          software queue; once it does not, the software queues take turns, one request each.
//! Cost     O(1); the search for a merge candidate reads at most eight requests. 8 bytes a slot.
//! Fits     fast NVMe, and devices that schedule by themselves.
//! Source   Linux 6.12 block/blk-mq.c and block/blk-mq-sched.c.
//!
//! Read [`Elevator::choose`] first.

use crate::interface::{
    Configuration, Dispatch, Elevator, Form, Hint, Merge, MergeSearch, Policy, Position, Side, Version, Violation, Wake,
};
use crate::request::{Attributes, Bio, Requests};
use crate::structures::{Array, Bitmap, Links, List, NIL, NoMemory};
use crate::traits::{Passing, Traits};
use hoistway_block::{HardwareQueue, Nanos, RequestId, SoftwareQueue};

crate::reasons! {
    /// Why a request was chosen.
    pub enum Why {
        Flushed = "flushed with all waiting requests",
        RoundRobin = "turn of its software queue",
    }
}

/// How many of the newest requests of a software queue are merge candidates for a bio.
const MERGE_CANDIDATES: usize = 8;

/// The state of one hardware queue.
#[derive(Clone, Debug)]
struct HardwareContext {
    /// Flushed out of the software queues, or inserted at the head: no longer mergeable.
    flushed: List,
    /// The software queue whose turn it is while the device is busy.
    turn: u32,
    is_busy: bool,
    held: u32,
}

const IDLE: HardwareContext = HardwareContext { flushed: List::EMPTY, turn: 0, is_busy: false, held: 0 };

/// The policy's state: a list for each pair of software and hardware queue, and one for each
/// hardware queue.
#[derive(Debug)]
pub struct Unscheduled {
    links: Links,
    /// The list that a slot is on: that of a pair, [`FLUSHED`] or NIL.
    list_of: Array<u32>,
    waiting: Array<List>,
    /// The pairs with a non-empty list.
    occupied: Bitmap,
    outlets: Array<HardwareContext>,
    software_queues: u32,
    violations: u32,
}

/// In `list_of`: on the flushed list of its hardware queue.
const FLUSHED: u32 = NIL - 1;

impl Policy for Unscheduled {
    type Profile = ();
    const FORMS: &'static [Form<()>] = &[Form { since: Version(4, 19, 0), profile: () }];

    fn build(configuration: &Configuration, (): ()) -> Result<Self, NoMemory> {
        let software_queues = u32::from(configuration.software_queues.max(1));
        let hardware_queues = u32::from(configuration.hardware_queues.max(1));
        let pairs = software_queues.checked_mul(hardware_queues).ok_or(NoMemory)?;
        Ok(Self {
            links: Links::try_new(configuration.slots)?,
            list_of: Array::try_new(configuration.slots, NIL)?,
            waiting: Array::try_new(pairs, List::EMPTY)?,
            occupied: Bitmap::try_new(pairs)?,
            outlets: Array::try_new(hardware_queues, IDLE)?,
            software_queues,
            violations: 0,
        })
    }
}

impl Elevator for Unscheduled {
    const TRAITS: Traits =
        Traits { is_per_queue: true, is_elevator: false, passing: Passing::ListsInTurn, ..Traits::PLAIN };

    fn merge_search(&self) -> MergeSearch {
        MergeSearch::Own
    }

    fn merge(&mut self, requests: &Requests, bio: &Bio, _now: Nanos) -> Merge {
        let pair = self.pair(bio.software_queue, bio.hardware_queue);
        let mut newest = self.waiting.at(pair).last();
        for _ in 0..MERGE_CANDIDATES {
            let Some(slot) = newest else { break };
            newest = self.links.prev(slot);
            let Some(id) = requests.id_of(slot) else { continue };
            let queued = requests.attributes(id);
            if !queued.can_share_request(bio) {
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

    fn requests_merged(&mut self, requests: &Requests, _keep: RequestId, gone: RequestId, _now: Nanos) {
        // A request that is merged on its way in was never queued.
        self.unlink(gone.slot(), requests.attributes(gone));
    }

    fn insert(&mut self, requests: &Requests, id: RequestId, at: Position, _now: Nanos) -> Wake {
        let slot = id.slot();
        let attributes = requests.attributes(id);
        let pair = self.pair(attributes.software_queue, attributes.hardware_queue);
        let Some(outlet) = self.outlets.get_mut(u32::from(attributes.hardware_queue.0)) else {
            self.violations = self.violations.saturating_add(1);
            return Wake::No;
        };
        let (done, list) = match at {
            Position::Sorted(_) => (self.waiting.at_mut(pair).push_back(&mut self.links, slot), pair),
            Position::Head | Position::Requeue => (outlet.flushed.push_front(&mut self.links, slot), FLUSHED),
        };
        if !done {
            self.violations = self.violations.saturating_add(1);
            return Wake::No;
        }
        outlet.held = outlet.held.wrapping_add(1);
        *self.list_of.at_mut(slot) = list;
        if list == pair {
            self.occupied.set(pair);
        }
        Wake::Queue(attributes.hardware_queue)
    }

    fn choose(&mut self, requests: &Requests, queue: HardwareQueue, _now: Nanos) -> Dispatch {
        let Some(outlet) = self.outlets.get(u32::from(queue.0)) else { return Dispatch::Empty };
        let (slot, why) = match (outlet.flushed.first(), outlet.is_busy) {
            (None, true) => (self.take_turn(queue), Why::RoundRobin),
            (None, false) => {
                self.flush(queue);
                (self.take_flushed(queue), Why::Flushed)
            }
            (Some(_), _) => (self.take_flushed(queue), Why::Flushed),
        };
        match slot.and_then(|slot| requests.id_of(slot)) {
            Some(id) => Dispatch::Request { id, reason: why.into() },
            None => Dispatch::Empty,
        }
    }

    fn drain(&mut self, requests: &Requests, _now: Nanos) -> Option<RequestId> {
        for queue in 0..self.outlets.len() {
            let queue = HardwareQueue(u16::try_from(queue).unwrap_or(u16::MAX));
            self.flush(queue);
            if let Some(slot) = self.take_flushed(queue) {
                return requests.id_of(slot);
            }
        }
        None
    }

    fn has_work(&self, queue: HardwareQueue) -> bool {
        self.outlets.at(u32::from(queue.0)).held != 0
    }

    fn busy_changed(&mut self, queue: HardwareQueue, is_busy: bool) {
        self.outlets.at_mut(u32::from(queue.0)).is_busy = is_busy;
    }

    fn released(&mut self, requests: &Requests, id: RequestId, _now: Nanos) -> Wake {
        // Only a request that was taken back before it was chosen is still on a list here.
        self.unlink(id.slot(), requests.attributes(id));
        Wake::No
    }

    fn reasons(&self) -> &'static [&'static str] {
        Why::NAMES
    }

    fn violations(&self) -> u32 {
        self.violations
    }

    fn check(&self, requests: &Requests) -> Result<(), Violation> {
        let mut held = 0u32;
        for (pair, list) in (0..).zip(self.waiting.iter()) {
            held = held.wrapping_add(list.len());
            if self.occupied.test(pair) == list.is_empty() {
                return Err(Violation {
                    what: "a software queue is marked exactly while a request waits in it",
                    at: pair,
                });
            }
            for slot in list.iter(&self.links).take(self.links_len()) {
                if *self.list_of.at(slot) != pair {
                    return Err(Violation { what: "a waiting request knows its list", at: slot });
                }
                let Some(id) = requests.id_of(slot) else {
                    return Err(Violation { what: "a waiting request is in use", at: slot });
                };
                let attributes = requests.attributes(id);
                if self.pair(attributes.software_queue, attributes.hardware_queue) != pair {
                    return Err(Violation { what: "a request waits in its own software queue", at: slot });
                }
            }
        }
        let flushed = self.outlets.iter().fold(0u32, |sum, outlet| sum.wrapping_add(outlet.flushed.len()));
        let counted = self.outlets.iter().fold(0u32, |sum, outlet| sum.wrapping_add(outlet.held));
        if counted != held.wrapping_add(flushed) {
            return Err(Violation { what: "the lists hold as many requests as are counted", at: counted });
        }
        Ok(())
    }
}

impl Unscheduled {
    /// Flushes all requests for a hardware queue from its software queues, in the order of their
    /// indices.
    fn flush(&mut self, queue: HardwareQueue) {
        for _ in 0..self.software_queues {
            let Some(pair) = self.occupied_of(queue, 0) else { return };
            let list = core::mem::take(self.waiting.at_mut(pair));
            self.occupied.clear(pair);
            let flushed = &mut self.outlets.at_mut(u32::from(queue.0)).flushed;
            let mut rest = list;
            for _ in 0..rest.len() {
                let Some(slot) = rest.pop_front(&mut self.links) else { break };
                flushed.push_back(&mut self.links, slot);
                *self.list_of.at_mut(slot) = FLUSHED;
            }
        }
    }

    /// The oldest request of the software queue whose turn it is.
    fn take_turn(&mut self, queue: HardwareQueue) -> Option<u32> {
        let turn = self.outlets.at(u32::from(queue.0)).turn;
        let pair = self.occupied_of(queue, turn).or_else(|| self.occupied_of(queue, 0))?;
        let slot = self.waiting.at_mut(pair).pop_front(&mut self.links)?;
        *self.list_of.at_mut(slot) = NIL;
        if self.waiting.at(pair).is_empty() {
            self.occupied.clear(pair);
        }
        let first = u32::from(queue.0).wrapping_mul(self.software_queues);
        let outlet = self.outlets.at_mut(u32::from(queue.0));
        outlet.turn = pair.wrapping_sub(first).wrapping_add(1);
        outlet.held = outlet.held.wrapping_sub(1);
        Some(slot)
    }

    fn take_flushed(&mut self, queue: HardwareQueue) -> Option<u32> {
        let outlet = self.outlets.at_mut(u32::from(queue.0));
        let slot = outlet.flushed.pop_front(&mut self.links)?;
        outlet.held = outlet.held.wrapping_sub(1);
        *self.list_of.at_mut(slot) = NIL;
        Some(slot)
    }

    /// The first pair of this hardware queue with waiting requests, from a software queue on.
    #[inline]
    fn occupied_of(&self, queue: HardwareQueue, from: u32) -> Option<u32> {
        let first = u32::from(queue.0).wrapping_mul(self.software_queues);
        let pair = self.occupied.next_set_from(first.wrapping_add(from))?;
        (pair < first.wrapping_add(self.software_queues)).then_some(pair)
    }

    /// Removes a slot from the list that it is on. False if it is on none.
    fn unlink(&mut self, slot: u32, attributes: &Attributes) -> bool {
        let list = *self.list_of.at(slot);
        let outlet = self.outlets.at_mut(u32::from(attributes.hardware_queue.0));
        let done = match list {
            NIL => return false,
            FLUSHED => outlet.flushed.remove(&mut self.links, slot),
            pair => self.waiting.at_mut(pair).remove(&mut self.links, slot),
        };
        if !done {
            return false;
        }
        outlet.held = outlet.held.wrapping_sub(1);
        *self.list_of.at_mut(slot) = NIL;
        if list != FLUSHED && self.waiting.at(list).is_empty() {
            self.occupied.clear(list);
        }
        true
    }

    /// The list of a software queue's requests for a hardware queue.
    #[inline]
    fn pair(&self, software: SoftwareQueue, hardware: HardwareQueue) -> u32 {
        u32::from(hardware.0).wrapping_mul(self.software_queues).wrapping_add(u32::from(software.0))
    }

    /// Bounds loops over a list: no list is longer than there are slots.
    fn links_len(&self) -> usize {
        self.list_of.len() as usize
    }
}
