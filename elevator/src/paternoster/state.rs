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
    /// The leaf's.
    pub group: u32,
    pub bytes: u32,
    /// When it came; once it is in the device, when it went there.
    pub since_ns: Nanos,
}

const _: () = assert!(size_of::<Slot>() == 32, "two in a cache line");

pub const FREE_SLOT: Slot = Slot {
    id: RequestId::from_raw(NIL),
    held: Held::Nowhere,
    class: Class::BestEffort,
    direction: Direction::Read,
    is_sync: false,
    leaf: NIL,
    group: ROOT,
    bytes: 0,
    since_ns: 0,
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

/// Requests expected back soon, by the generation in which they completed: each lives in its own and the next one. There are
/// no more than completions in a generation, which is half as long as a request stays in the device.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Ghosts {
    present: u16,
    before: u16,
    generation: u32,
}

impl Ghosts {
    pub const NONE: Ghosts = Ghosts { present: 0, before: 0, generation: 0 };

    fn roll(&mut self, generation: u32) {
        match generation.wrapping_sub(self.generation) {
            0 => return,
            1 => (self.before, self.present) = (self.present, 0),
            _ => (self.before, self.present) = (0, 0),
        }
        self.generation = generation;
    }

    #[inline]
    pub fn live(self, generation: u32) -> u32 {
        match generation.wrapping_sub(self.generation) {
            0 => u32::from(self.present).wrapping_add(u32::from(self.before)),
            1 => u32::from(self.present),
            _ => 0,
        }
    }

    #[inline]
    pub fn add(&mut self, generation: u32) {
        self.roll(generation);
        self.present = self.present.saturating_add(1);
    }

    /// The older first.
    #[inline]
    pub fn take(&mut self, generation: u32) -> Taken {
        if self.present == 0 && self.before == 0 {
            return Taken::None;
        }
        self.roll(generation);
        let taken = match (self.before, self.present) {
            (0, 0) => Taken::None,
            (0, _) => Taken::Present,
            _ => Taken::Before,
        };
        self.take_rolled(taken);
        taken
    }

    const fn take_rolled(&mut self, taken: Taken) {
        match taken {
            Taken::None => {}
            Taken::Before => self.before = self.before.saturating_sub(1),
            Taken::Present => self.present = self.present.saturating_sub(1),
        }
    }

    /// What was taken from a leaf is missing in all that counts it, and not one of another age: that would be somebody else's.
    #[inline]
    pub fn take_same(&mut self, taken: Taken, generation: u32) {
        if taken != Taken::None {
            self.roll(generation);
            self.take_rolled(taken);
        }
    }
}

/// Which of its ghosts came true.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Taken {
    None,
    /// One of the generation before.
    Before,
    Present,
}

/// A leaf or a group, as its parent sees it: all that a request's way up and down touches, in one cache line. The index of a
/// group lies behind those of leaves.
#[derive(Copy, Clone, Debug)]
#[repr(align(64))]
pub struct Member {
    pub seat: Seat,
    /// 2^32 through the weight.
    pub inverse: u64,
    pub last_done_ns: Nanos,
    /// The group it competes in.
    pub parent: u32,
    pub weight: u32,
    pub queued: u32,
    pub in_flight: u32,
    /// Of its newest request, for the size that requests have.
    pub newest_bytes: u32,
    pub ghosts: Ghosts,
    pub newest_is_sync: bool,
    pub place: Place,
}

const _: () = assert!(size_of::<Member>() == 64, "one cache line");

impl Member {
    pub const fn new(parent: u32, weight: u32) -> Self {
        let weight = if weight == 0 { 1 } else { weight };
        Self {
            seat: Seat::at(0),
            inverse: (1 << 32) / weight as u64,
            last_done_ns: 0,
            parent,
            weight,
            queued: 0,
            in_flight: 0,
            newest_bytes: 0,
            ghosts: Ghosts::NONE,
            newest_is_sync: false,
            place: Place::Inactive,
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

/// What a group keeps of its children. What a request touches on its way comes first.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct Group {
    pub ready: Wheel,
    pub wait: Wheel,
    /// Of the active children.
    pub weight_sum: u64,
    /// No child's virtual time counts as less: how far laggards' claims reach back.
    pub floor_vt: u64,
    /// Tags that it and the groups below hold, and the weights of the children that hold any.
    pub tags_weight: u64,
    pub tags: u32,
    pub async_leaf: u32,
    pub is_online: bool,
    /// `floor_vt` when a disk is used the other way.
    pub other_floor_vt: u64,
}

const _: () = assert!(size_of::<Group>() == 128, "two cache lines");

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

#[cfg(test)]
mod tests {
    use super::*;

    /// Two leaves in a group: what the group counts is always what the leaves do, whoever comes back when.
    #[test]
    fn a_group_counts_the_ghosts_of_its_leaves() {
        let (mut leaves, mut group, mut random) = ([Ghosts::NONE; 2], Ghosts::NONE, 1_u32);
        for step in 0..10_000_u32 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let generation = step / 7;
            let leaf = &mut leaves[(random >> 20 & 1) as usize];
            if random >> 24 & 1 == 0 {
                leaf.add(generation);
                group.add(generation);
            } else {
                let taken = leaf.take(generation);
                if taken != Taken::None {
                    group.take_same(taken, generation);
                }
            }
            let sum: u32 = leaves.iter().map(|leaf| leaf.live(generation)).sum();
            assert_eq!(group.live(generation), sum, "step {step}");
        }
    }
}
