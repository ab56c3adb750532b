//! What a policy may read about a bio or request, and the table of requests.

use crate::structures::{Array, NIL, NoMemory};
use core::cell::Cell;
use hoistway_block::{
    Class, ContextId, Direction, Extent, Flags, GroupId, HardwareQueue, Nanos, Operation, Priority, RequestId,
    SoftwareQueue, is_sync,
};

/// One contiguous transfer of one submitter. A request carries the same attributes for all its
/// bios. Laid out as in C, so that a host in C can write one.
#[repr(C)]
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Attributes {
    /// Sector range on the device.
    pub extent: Extent,
    /// The operation.
    pub operation: Operation,
    /// Flags that modify the operation.
    pub flags: Flags,
    /// Linux I/O priority.
    pub priority: Priority,
    /// Number of physical segments, for the device's limit.
    pub segments: u16,
    /// Address space: the partition for the 2.4 policies, the file for the engine, otherwise 0.
    /// Requests of different address spaces never merge.
    pub device: u32,
    /// Issuer.
    pub context: ContextId,
    /// The issuer's group.
    pub group: GroupId,
    /// Software queue on which it was submitted.
    pub software_queue: SoftwareQueue,
    /// Hardware queue to which it will go.
    pub hardware_queue: HardwareQueue,
}

/// A bio consists of its attributes; the host keeps the payload.
pub type Bio = Attributes;

impl Attributes {
    /// Flags that forbid merging on either side.
    pub const NEVER_MERGED: Flags =
        Flags(Flags::NOMERGE.0 | Flags::PREFLUSH.0 | Flags::FUA.0 | Flags::WAITING.0 | Flags::BARRIER.0);

    /// A best-effort transfer of context 0 in the root group, with default attributes.
    #[inline]
    pub const fn new(operation: Operation, extent: Extent) -> Self {
        Self {
            extent,
            operation,
            flags: Flags::NONE,
            priority: Priority::NONE,
            segments: 1,
            device: 0,
            context: ContextId(0),
            group: GroupId::ROOT,
            software_queue: SoftwareQueue(0),
            hardware_queue: HardwareQueue(0),
        }
    }

    /// Read or write.
    #[inline]
    pub const fn direction(&self) -> Direction {
        self.operation.direction()
    }

    /// Whether it is synchronous: a task waits for it.
    #[inline]
    pub const fn is_sync(&self) -> bool {
        is_sync(self.operation, self.flags)
    }

    /// Whether the two could be one request by their kind, regardless of position and size.
    #[inline]
    pub fn can_share_request(&self, other: &Attributes) -> bool {
        self.operation == other.operation
            && self.operation.is_mergeable()
            && self.device == other.device
            && self.priority == other.priority
            && self.group == other.group
            && !self.flags.with(other.flags).intersects(Self::NEVER_MERGED)
    }

    /// Priority class.
    #[inline]
    pub const fn class(&self) -> Class {
        self.priority.class()
    }
}

/// The state of a request. Merging is legal in `Plugged` and `Queued` only.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub enum Place {
    /// The slot is free.
    #[default]
    Free,
    /// Allocated and outside the policy: held by its submitter, waiting for a flush, or between two
    /// policies.
    Plugged,
    /// In the policy's queues.
    Queued,
    /// Chosen, and on the dispatch list.
    Dispatched,
    /// In flight in the device.
    Started,
    /// Finished, about to be freed.
    Complete,
}

impl Place {
    /// Whether a request may move from this state to `next`.
    pub const fn may_become(self, next: Place) -> bool {
        use Place::{Complete, Dispatched, Free, Plugged, Queued, Started};
        matches!(
            (self, next),
            (Free, Plugged)
                | (Plugged, Queued | Dispatched | Complete | Free)
                | (Queued, Dispatched | Complete | Free | Plugged)
                | (Dispatched, Started | Queued | Complete)
                | (Started, Complete | Queued | Dispatched | Plugged)
                | (Complete, Free | Plugged | Queued)
        )
    }
}

/// A slot of the table; it fills one cache line.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub struct Request {
    /// The request's attributes; the extent grows as bios and requests merge into it.
    pub attributes: Attributes,
    /// When it was allocated; after a request-to-request merge, the older of the two times.
    pub start_ns: Nanos,
    /// When the driver took it; 0 = not yet.
    pub issued_ns: Nanos,
    /// In use: the request's id. Free: the generation of the next use together with the next free
    /// slot instead of its own slot. No id of this slot equals it, so one comparison tells whether
    /// an id is live.
    word: RequestId,
    /// Its current state.
    pub place: Place,
}

const _: () = assert!(size_of::<Request>() == 64, "as long as a cache line");

/// End marker of the list of free slots: no table is this long.
const LAST: u32 = RequestId::MAX_SLOTS;

impl Request {
    const fn empty() -> Self {
        Self {
            attributes: Attributes::new(Operation::Read, Extent::new(0, 0)),
            start_ns: 0,
            issued_ns: 0,
            word: RequestId::new(LAST, 0),
            place: Place::Free,
        }
    }

    /// First sector.
    #[inline]
    pub const fn first_sector(&self) -> u64 {
        self.attributes.extent.first_sector
    }

    /// For a request that ends at `now`: its service time in the device, and how long it waited
    /// before.
    #[inline]
    pub const fn times(&self, now: Nanos) -> (Nanos, Nanos) {
        (now.saturating_sub(self.issued_ns), self.issued_ns.saturating_sub(self.start_ns))
    }
}

/// The table of requests: sized once, ids checked by generation, no panic.
///
/// The host allocates, moves and frees; a policy only reads. A stale or foreign id reads as an
/// empty request and is counted in [`Requests::violations`].
#[derive(Debug)]
pub struct Requests {
    slots: Array<Request>,
    first_free: u32,
    in_use: u32,
    violations: Cell<u32>,
}

impl Requests {
    /// A table of `slots` slots (at most [`RequestId::MAX_SLOTS`]).
    ///
    /// # Errors
    /// When memory is short.
    pub fn try_new(slots: u32) -> Result<Self, NoMemory> {
        let count = slots.min(RequestId::MAX_SLOTS);
        let mut table = Array::try_new(count, Request::empty())?;
        for slot in 0..count {
            table.at_mut(slot).word = RequestId::new(if slot + 1 < count { slot + 1 } else { LAST }, 0);
        }
        let first_free = if count == 0 { LAST } else { 0 };
        Ok(Self { slots: table, first_free, in_use: 0, violations: Cell::new(0) })
    }

    /// Takes a free slot for a request that begins at `now`; `None` when all are taken.
    #[inline]
    pub fn allocate(&mut self, attributes: Attributes, now: Nanos) -> Option<RequestId> {
        self.allocate_in(attributes, now, Place::Plugged)
    }

    /// Same as [`Requests::allocate`], for a request that enters the policy at once, without a
    /// plug.
    #[inline]
    pub fn allocate_queued(&mut self, attributes: Attributes, now: Nanos) -> Option<RequestId> {
        self.allocate_in(attributes, now, Place::Queued)
    }

    #[inline(always)]
    fn allocate_in(&mut self, attributes: Attributes, now: Nanos, place: Place) -> Option<RequestId> {
        let slot = self.first_free;
        // No slot is free: the end marker is not the number of any slot.
        let request = self.slots.get_mut(slot)?;
        self.first_free = request.word.slot();
        request.attributes = attributes;
        request.start_ns = now;
        request.issued_ns = 0;
        request.place = place;
        // The word holds the next free slot. Subtracting it and adding the own slot keeps the
        // generation.
        let id = RequestId::from_raw(request.word.raw().wrapping_sub(request.word.slot()).wrapping_add(slot));
        request.word = id;
        self.in_use += 1;
        Some(id)
    }

    /// Frees a slot; every id of it becomes stale.
    #[inline]
    pub fn free(&mut self, id: RequestId) {
        self.give_back(id);
    }

    /// Frees a slot and returns the request's group and context; `None` if the id was stale.
    #[inline]
    pub fn give_back(&mut self, id: RequestId) -> Option<(GroupId, ContextId)> {
        self.live_mut(id)?;
        Some(self.give_back_known(id))
    }

    /// Same as [`Requests::give_back`], without the check, for an id that the host has found live
    /// since it last freed a request.
    #[inline]
    pub fn give_back_known(&mut self, id: RequestId) -> (GroupId, ContextId) {
        let first_free = self.first_free;
        let Some(request) = self.slots.get_mut(id.slot()) else { return (GroupId::ROOT, ContextId(0)) };
        let holders = (request.attributes.group, request.attributes.context);
        request.place = Place::Free;
        // The generation wraps to 0.
        request.word = RequestId::new(first_free, id.generation().wrapping_add(1));
        self.first_free = id.slot();
        // At least one slot is in use, since this id was live.
        self.in_use = self.in_use.wrapping_sub(1);
        holders
    }

    /// The request; an empty one if the id is stale.
    #[inline]
    pub fn at(&self, id: RequestId) -> &Request {
        match self.slots.get(id.slot()) {
            Some(request) if request.word == id => request,
            _ => self.stale(),
        }
    }

    #[cold]
    #[inline(never)]
    fn stale(&self) -> &Request {
        self.count_violation();
        // Out of range: reads as an empty slot.
        self.slots.at(NIL)
    }

    /// The request's attributes; those of an empty one if the id is stale.
    #[inline]
    pub fn attributes(&self, id: RequestId) -> &Attributes {
        &self.at(id).attributes
    }

    /// The request, for changes by the host; `None` if the id is stale.
    #[inline]
    pub fn live_mut(&mut self, id: RequestId) -> Option<&mut Request> {
        match self.slots.get_mut(id.slot()) {
            Some(request) if request.word == id => Some(request),
            _ => {
                self.violations.set(self.violations.get().saturating_add(1));
                None
            }
        }
    }

    /// Whether the id names a request in use; a stale id is not counted as a violation here.
    #[inline]
    pub fn is_live(&self, id: RequestId) -> bool {
        self.slots.get(id.slot()).is_some_and(|request| request.word == id)
    }

    /// Moves a request to another state and returns it for changes by the host. An illegal move is
    /// counted and performed all the same. `None` if the id is stale.
    #[inline]
    pub fn move_to(&mut self, id: RequestId, place: Place) -> Option<&mut Request> {
        let request = match self.slots.get_mut(id.slot()) {
            Some(request) if request.word == id => request,
            _ => {
                self.violations.set(self.violations.get().saturating_add(1));
                return None;
            }
        };
        if !request.place.may_become(place) {
            self.violations.set(self.violations.get().saturating_add(1));
        }
        request.place = place;
        Some(request)
    }

    /// As [`Requests::move_to`], by slot; `None` while the slot is free.
    #[inline]
    pub fn move_slot_to(&mut self, slot: u32, place: Place) -> Option<(RequestId, &mut Request)> {
        let request = self.slots.get_mut(slot)?;
        if request.place == Place::Free {
            return None;
        }
        if !request.place.may_become(place) {
            self.violations.set(self.violations.get().saturating_add(1));
        }
        request.place = place;
        Some((request.word, request))
    }

    /// A chosen request goes to the driver at `now`, without a dispatch list in between. False, and
    /// counted, if it was not queued.
    #[inline]
    pub fn start(&mut self, id: RequestId, now: Nanos) -> bool {
        match self.slots.get_mut(id.slot()) {
            Some(request) if request.word == id && request.place == Place::Queued => {
                (request.place, request.issued_ns) = (Place::Started, now);
                true
            }
            _ => {
                self.count_violation();
                false
            }
        }
    }

    /// Takes a started request back from the device and moves it to another state; returns the
    /// hardware queue through which it was sent. `None`, without any change, if the request is not
    /// started.
    #[inline]
    pub fn take_back(&mut self, id: RequestId, place: Place) -> Option<HardwareQueue> {
        let request = self.slots.get_mut(id.slot())?;
        if request.word != id || request.place != Place::Started {
            return None;
        }
        request.place = place;
        Some(request.attributes.hardware_queue)
    }

    /// Prefetches the entry of a slot that is likely to be read soon.
    #[inline]
    pub fn prefetch(&self, slot: u32) {
        self.slots.prefetch(slot);
    }

    /// The id of a slot in its present use; `None` while the slot is free. Policies link slots; ids
    /// are for hosts.
    #[inline]
    pub fn id_of(&self, slot: u32) -> Option<RequestId> {
        let request = self.slots.get(slot)?;
        (request.place != Place::Free).then_some(request.word)
    }

    /// The request in a slot, with its id; `None` while the slot is free.
    #[inline]
    pub fn in_slot(&self, slot: u32) -> Option<(RequestId, &Request)> {
        let request = self.slots.get(slot)?;
        (request.place != Place::Free).then_some((request.word, request))
    }

    /// Number of slots.
    #[inline]
    pub fn capacity(&self) -> u32 {
        self.slots.len()
    }

    /// Number of slots in use.
    #[inline]
    pub fn in_use(&self) -> u32 {
        self.in_use
    }

    /// Stale ids and illegal moves so far; anything above 0 is a defect.
    pub fn violations(&self) -> u32 {
        self.violations.get()
    }

    /// Counts an invalid call, for hosts whose callers are compiled separately.
    #[cold]
    pub fn count_violation(&self) {
        self.violations.set(self.violations.get().saturating_add(1));
    }
}
