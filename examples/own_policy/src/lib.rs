//! fifo-by-class: first come, first served within each I/O priority class; higher classes first,
//! but no request waits for more than half a second while later ones go.
//!
//! Promise  a request that has waited for [`AGE_NS`] is passed by no later one.
//! Cost     O(1) everywhere, 32 bytes a slot.
#![forbid(unsafe_code)]

use hoistway::policy::block::{Class, HardwareQueue, Nanos, RequestId, time::MILLISECOND};
use hoistway::policy::structures::{Array, Links, List, NoMemory};
use hoistway::policy::{Configuration, Dispatch, Elevator, Form, Passing, Policy};
use hoistway::policy::{Position, Requests, Traits, Version, Wake};

/// From this age on, class no longer matters.
const AGE_NS: Nanos = 500 * MILLISECOND;

hoistway::policy::reasons! {
    /// Why a request was chosen.
    pub enum Why { Oldest = "oldest", Overdue = "overdue", InFront = "put in front", }
}

/// What is kept about a queued request; `number` orders requests that arrive at the same time.
#[derive(Copy, Clone, Debug)]
struct Slot {
    list: usize,
    number: u64,
    since_ns: Nanos,
}

/// The policy's state: what the host puts in front, and a list for each class.
#[derive(Debug)]
pub struct FifoByClass {
    links: Links,
    slots: Array<Slot>,
    lists: [List; 4],
    arrived: u64,
    violations: u32,
}
impl Policy for FifoByClass {
    type Profile = ();
    const FORMS: &'static [Form<()>] = &[Form { since: Version(0, 0, 0), profile: () }];

    fn build(configuration: &Configuration, (): ()) -> Result<Self, NoMemory> {
        let links = Links::try_new(configuration.slots)?;
        let slots = Array::try_new(configuration.slots, Slot { list: 0, number: 0, since_ns: 0 })?;
        Ok(Self { links, slots, lists: [List::EMPTY; 4], arrived: 0, violations: 0 })
    }
}

impl Elevator for FifoByClass {
    const TRAITS: Traits =
        Traits { passing: Passing::Aged { after_ns: AGE_NS, completions: 0, run: 0 }, ..Traits::PLAIN };

    fn requests_merged(&mut self, _requests: &Requests, _keep: RequestId, gone: RequestId, _now: Nanos) {
        // A request that is merged on its way in was never queued.
        if self.links.is_linked(gone.slot()) {
            self.take(gone.slot());
        }
    }

    fn withdrawn(&mut self, _requests: &Requests, id: RequestId, _now: Nanos) {
        self.take(id.slot());
    }

    fn insert(&mut self, requests: &Requests, id: RequestId, at: Position, now: Nanos) -> Wake {
        let is_in_front = !matches!(at, Position::Sorted(_));
        let list = match requests.attributes(id).class() {
            _ if is_in_front => 0,
            Class::RealTime => 1,
            Class::BestEffort => 2,
            Class::Idle => 3,
        };
        let is_in = self.lists.get_mut(list).is_some_and(|queued| match is_in_front {
            true => queued.push_front(&mut self.links, id.slot()),
            false => queued.push_back(&mut self.links, id.slot()),
        });
        if is_in {
            self.arrived = self.arrived.wrapping_add(1);
            *self.slots.at_mut(id.slot()) = Slot { list, number: self.arrived, since_ns: now };
        } else {
            self.violations = self.violations.saturating_add(1);
        }
        Wake::All
    }

    fn choose(&mut self, requests: &Requests, _queue: HardwareQueue, now: Nanos) -> Dispatch {
        let chosen = self.next(now).and_then(|(slot, why)| Some((requests.id_of(slot)?, why)));
        let Some((id, why)) = chosen else { return Dispatch::Empty };
        self.take(id.slot());
        Dispatch::Request { id, reason: why.into() }
    }

    fn drain(&mut self, requests: &Requests, now: Nanos) -> Option<RequestId> {
        let (slot, _) = self.next(now)?;
        self.take(slot);
        requests.id_of(slot)
    }

    fn has_work(&self, _queue: HardwareQueue) -> bool {
        self.lists.iter().any(|list| !list.is_empty())
    }

    fn reasons(&self) -> &'static [&'static str] {
        Why::NAMES
    }

    fn violations(&self) -> u32 {
        self.violations
    }
}

impl FifoByClass {
    /// What was put in front, else the oldest overdue request, else the first of the highest class.
    fn next(&self, now: Nanos) -> Option<(u32, Why)> {
        let [front, classes @ ..] = &self.lists;
        if let Some(slot) = front.first() {
            return Some((slot, Why::InFront));
        }
        let firsts = || classes.iter().filter_map(List::first);
        let oldest = firsts().min_by_key(|slot| self.slots.at(*slot).number)?;
        if now.saturating_sub(self.slots.at(oldest).since_ns) >= AGE_NS {
            return Some((oldest, Why::Overdue));
        }
        firsts().next().map(|slot| (slot, Why::Oldest))
    }

    fn take(&mut self, slot: u32) {
        let list = self.slots.at(slot).list;
        let is_out = self.lists.get_mut(list).is_some_and(|queued| queued.remove(&mut self.links, slot));
        self.violations = self.violations.saturating_add(u32::from(!is_out));
    }
}
