//! What a policy may read about a bio or request, and the table that holds the requests.

use crate::structures::{Array, NIL, NoMemory};
use block::{
    Class, ContextId, Direction, Extent, Flags, GroupId, HardwareQueue, Nanos, Operation, Priority, RequestId,
    SoftwareQueue, is_sync,
};
use core::cell::Cell;

/// One contiguous transfer asked for by one submitter; a request carries the same attributes for all its bios.
/// Laid out as C does, so that a host in C can write one.
#[repr(C)]
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Attributes {
    /// Range on the device.
    pub extent: Extent,
    /// What to do.
    pub operation: Operation,
    /// How.
    pub flags: Flags,
    /// Linux I/O priority.
    pub priority: Priority,
    /// Physical segments, for the device's limit.
    pub segments: u16,
    /// Address space: partition for the 2.4 policies, file for the engine, else 0. Different ones never merge.
    pub device: u32,
    /// Issuer.
    pub context: ContextId,
    /// The issuer's group.
    pub group: GroupId,
    /// Software queue it was submitted on.
    pub software_queue: SoftwareQueue,
    /// Hardware queue it will go to.
    pub hardware_queue: HardwareQueue,
}

/// A bio is what its attributes say; its payload stays with the host.
pub type Bio = Attributes;

impl Attributes {
    /// Marks that forbid merging on either side.
    pub const NEVER_MERGED: Flags =
        Flags(Flags::NOMERGE.0 | Flags::PREFLUSH.0 | Flags::FUA.0 | Flags::WAITING.0 | Flags::BARRIER.0);

    /// A best-effort transfer of context 0 in the root group, everything else plain.
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

    /// Whether somebody waits for it.
    #[inline]
    pub const fn is_sync(&self) -> bool {
        is_sync(self.operation, self.flags)
    }

    /// Whether the two could be one request as far as their kind goes, wherever they lie and however large they are.
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

/// Where a request is. Merging is legal in `Plugged` and `Queued` only.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub enum Place {
    /// Nowhere: the slot is free.
    #[default]
    Free,
    /// Allocated and outside the policy: held by its submitter, waiting for a flush, or between two policies.
    Plugged,
    /// In the policy.
    Queued,
    /// Chosen, on the dispatch list.
    Dispatched,
    /// In the device.
    Started,
    /// Finished, about to be freed.
    Complete,
}

impl Place {
    /// Whether a request may go from here to `next`.
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

/// A slot of the table, in one cache line.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub struct Request {
    /// What it asks; the extent grows as bios and requests merge into it.
    pub attributes: Attributes,
    /// When it was allocated; after a request merge the older of the two times.
    pub start_ns: Nanos,
    /// When the driver took it; 0 = not yet.
    pub issued_ns: Nanos,
    /// In use: its id. Free: generation of the next use, and the next free slot in place of its own, so that no id of this
    /// slot is equal to it and one comparison tells whether an id is alive.
    word: RequestId,
    /// Where it is now.
    pub place: Place,
}

const _: () = assert!(size_of::<Request>() == 64, "as long as a cache line");

/// Behind the last of the free slots: no table is so long.
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

    /// Of one that ends at `now`: how long the driver had it, and how long it had waited before.
    #[inline]
    pub const fn times(&self, now: Nanos) -> (Nanos, Nanos) {
        (now.saturating_sub(self.issued_ns), self.issued_ns.saturating_sub(self.start_ns))
    }
}

/// The table of requests: sized once, ids checked by generation, never a panic.
///
/// The host allocates, moves and frees; a policy only reads. A stale or foreign id reads as an empty request and is
/// counted in [`Requests::violations`].
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

    /// The same for one that joins the policy at once, where nobody holds it meanwhile.
    #[inline]
    pub fn allocate_queued(&mut self, attributes: Attributes, now: Nanos) -> Option<RequestId> {
        self.allocate_in(attributes, now, Place::Queued)
    }

    #[inline(always)]
    fn allocate_in(&mut self, attributes: Attributes, now: Nanos, place: Place) -> Option<RequestId> {
        let slot = self.first_free;
        // None is free: the number behind the last is that of no slot.
        let request = self.slots.get_mut(slot)?;
        self.first_free = request.word.slot();
        request.attributes = attributes;
        request.start_ns = now;
        request.issued_ns = 0;
        request.place = place;
        // Its own slot for the next free one: what is left is the generation.
        let id = RequestId::from_raw(request.word.raw().wrapping_sub(request.word.slot()).wrapping_add(slot));
        request.word = id;
        self.in_use += 1;
        Some(id)
    }

    /// Gives a slot back; every id of it becomes stale.
    #[inline]
    pub fn free(&mut self, id: RequestId) {
        self.give_back(id);
    }

    /// The same, and answers whose the request was; `None` if the id was stale.
    #[inline]
    pub fn give_back(&mut self, id: RequestId) -> Option<(GroupId, ContextId)> {
        self.live_mut(id)?;
        Some(self.give_back_known(id))
    }

    /// The same of a request that its host has found alive since it last gave one back; nothing is asked again.
    #[inline]
    pub fn give_back_known(&mut self, id: RequestId) -> (GroupId, ContextId) {
        let first_free = self.first_free;
        let Some(request) = self.slots.get_mut(id.slot()) else { return (GroupId::ROOT, ContextId(0)) };
        let holders = (request.attributes.group, request.attributes.context);
        request.place = Place::Free;
        // One more than a generation can say is 0 again.
        request.word = RequestId::new(first_free, id.generation().wrapping_add(1));
        self.first_free = id.slot();
        // Only what is in use is found alive.
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
        self.complain();
        // Out of range: as all were when the table was made.
        self.slots.at(NIL)
    }

    /// The request's attributes; those of an empty one if the id is stale.
    #[inline]
    pub fn attributes(&self, id: RequestId) -> &Attributes {
        &self.at(id).attributes
    }

    /// The request, for its host to change; `None` if the id is stale.
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

    /// Whether the id names a request that is in use; a stale id is no violation here.
    #[inline]
    pub fn is_live(&self, id: RequestId) -> bool {
        self.slots.get(id.slot()).is_some_and(|request| request.word == id)
    }

    /// Moves a request to another place, where its host may change it; an illegal move is counted and done all the
    /// same. `None` if the id is stale.
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

    /// Moves the request in a slot to another place, as [`Requests::move_to`] does by id; `None` while the slot is free.
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

    /// What was chosen goes to the driver at `now`, where no list lies between the two. False, and counted, if it was not
    /// queued.
    #[inline]
    pub fn start(&mut self, id: RequestId, now: Nanos) -> bool {
        match self.slots.get_mut(id.slot()) {
            Some(request) if request.word == id && request.place == Place::Queued => {
                (request.place, request.issued_ns) = (Place::Started, now);
                true
            }
            _ => {
                self.complain();
                false
            }
        }
    }

    /// Takes a request that the device has back from it, to another place; the hardware queue it was sent through. `None`,
    /// and nothing happens, if the device does not have it.
    #[inline]
    pub fn take_back(&mut self, id: RequestId, place: Place) -> Option<HardwareQueue> {
        let request = self.slots.get_mut(id.slot())?;
        if request.word != id || request.place != Place::Started {
            return None;
        }
        request.place = place;
        Some(request.attributes.hardware_queue)
    }

    /// The request in a slot is likely to be asked for soon: what is kept of it comes nearer.
    #[inline]
    pub fn prefetch(&self, slot: u32) {
        self.slots.prefetch(slot);
    }

    /// The id of a slot in its present use; `None` while the slot is free. Links are slots, ids are for outside.
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

    /// Stale ids and illegal moves met so far; anything above 0 is a defect.
    pub fn violations(&self) -> u32 {
        self.violations.get()
    }

    /// Counts a call that made no sense. For hosts whose callers are not compiled with them.
    #[cold]
    pub fn complain(&self) {
        self.violations.set(self.violations.get().saturating_add(1));
    }
}
