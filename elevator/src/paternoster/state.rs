//! What paternoster keeps: of a request, of a member of the tree (leaf or group), of a leaf, of a group, of an issuer.

use super::wheel::{Seat, Wheel};
use crate::structures::{List, NIL};
use block::{Class, Direction, GroupId, Nanos, RequestId};

/// Where a request is, as far as paternoster is concerned.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Held {
    /// Not with us.
    Nowhere,
    /// In its leaf, or in the list of its class.
    Queued,
    /// Goes before everything: put there by the host.
    Direct,
    /// Chosen, and counted in the device.
    Dispatched,
}

/// What is kept of a request beside the table's. It names its leaf for as long as it is inserted.
#[derive(Copy, Clone, Debug)]
pub struct Slot {
    pub id: RequestId,
    pub held: Held,
    pub class: Class,
    pub direction: Direction,
    pub is_sync: bool,
    pub leaf: u32,
    pub bytes: u32,
    pub came_ns: Nanos,
    pub went_ns: Nanos,
}

pub const FREE_SLOT: Slot = Slot {
    id: RequestId::from_raw(NIL),
    held: Held::Nowhere,
    class: Class::BestEffort,
    direction: Direction::Read,
    is_sync: false,
    leaf: NIL,
    bytes: 0,
    came_ns: 0,
    went_ns: 0,
};

/// Which wheel of its parent a member is in.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Place {
    /// In none: it has nothing, and nothing is expected of it.
    Inactive,
    /// Has queued requests somewhere below.
    Ready,
    /// Has none, but some in the device, or is expected back.
    Wait,
}

/// Requests expected back soon, by the generation in which they completed: each lives in its own and the next one.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Ghosts {
    present: u32,
    before: u32,
    generation: u64,
}

impl Ghosts {
    pub const NONE: Ghosts = Ghosts { present: 0, before: 0, generation: 0 };

    fn roll(&mut self, generation: u64) {
        match generation.wrapping_sub(self.generation) {
            0 => return,
            1 => (self.before, self.present) = (self.present, 0),
            _ => (self.before, self.present) = (0, 0),
        }
        self.generation = generation;
    }

    #[inline]
    pub const fn live(&self, generation: u64) -> u32 {
        match generation.wrapping_sub(self.generation) {
            0 => self.present.wrapping_add(self.before),
            1 => self.present,
            _ => 0,
        }
    }

    pub fn add(&mut self, generation: u64) {
        self.roll(generation);
        self.present = self.present.wrapping_add(1);
    }

    /// The older first; false if there was none.
    pub fn take(&mut self, generation: u64) -> bool {
        self.roll(generation);
        let from = if self.before > 0 { &mut self.before } else { &mut self.present };
        let had = *from > 0;
        *from = from.saturating_sub(1);
        had
    }
}

/// A leaf or a group, as its parent sees it. The index of a group lies behind those of leaves.
#[derive(Copy, Clone, Debug)]
pub struct Member {
    pub seat: Seat,
    /// Its virtual time when a disk is used the other way.
    pub other_vt: u64,
    pub place: Place,
    /// The group it competes in.
    pub parent: u32,
    pub weight: u32,
    /// 2^32 through the weight.
    pub inverse: u64,
    pub queued: u32,
    /// Where its newest request was or is, for the size that requests have.
    pub newest_slot: u32,
    pub in_flight: u32,
    pub ghosts: Ghosts,
    pub last_done_ns: Nanos,
}

impl Member {
    pub const fn new(parent: u32, weight: u32) -> Self {
        let weight = if weight == 0 { 1 } else { weight };
        Self {
            seat: Seat::at(0),
            other_vt: 0,
            place: Place::Inactive,
            parent,
            weight,
            inverse: (1 << 32) / weight as u64,
            queued: 0,
            newest_slot: 0,
            in_flight: 0,
            ghosts: Ghosts::NONE,
            last_done_ns: 0,
        }
    }

    pub const fn set_weight(&mut self, weight: u32) {
        let weight = if weight == 0 { 1 } else { weight };
        (self.weight, self.inverse) = (weight, (1 << 32) / weight as u64);
    }

    /// How far its virtual time goes for so many bytes.
    #[inline]
    pub const fn span(&self, bytes: u64) -> u64 {
        bytes.wrapping_mul(self.inverse) >> 16
    }
}

/// The requests of one issuer in one group: sync ones, or the async ones of all.
#[derive(Clone, Debug)]
pub struct Leaf {
    pub fifo: List,
    pub is_async: bool,
    /// From a completion to the next request, a moving average.
    pub think_ns: Nanos,
    pub waits: bool,
    /// The issuer that owns it; NIL once it has gone, or for the async one of a group.
    pub context: u32,
    /// Requests inserted and not yet released.
    pub held: u32,
    pub is_used: bool,
    pub next_free: u32,
}

pub const FREE_LEAF: Leaf = Leaf {
    fifo: List::EMPTY,
    is_async: false,
    think_ns: 0,
    waits: false,
    context: NIL,
    held: 0,
    is_used: false,
    next_free: NIL,
};

/// What a group keeps of its children.
#[derive(Clone, Debug)]
pub struct Group {
    pub is_online: bool,
    pub ready: Wheel,
    pub wait: Wheel,
    /// Of the active children.
    pub weight_sum: u64,
    /// No child's virtual time counts as less: how far laggards' claims reach back.
    pub floor_vt: u64,
    /// The same when a disk is used the other way.
    pub other_floor_vt: u64,
    pub async_leaf: u32,
    /// Tags that it and the groups below hold, and the weights of the children that hold any.
    pub tags: u32,
    pub tags_weight: u64,
}

impl Group {
    /// One that does not exist yet.
    pub const fn unknown(number: u32) -> Self {
        let first = number.saturating_mul(2);
        Self {
            is_online: false,
            ready: Wheel::numbered(first),
            wait: Wheel::numbered(first.saturating_add(1)),
            weight_sum: 0,
            floor_vt: 0,
            other_floor_vt: 0,
            async_leaf: NIL,
            tags: 0,
            tags_weight: 0,
        }
    }
}

/// The root group.
pub const ROOT: u32 = GroupId::ROOT.0;
