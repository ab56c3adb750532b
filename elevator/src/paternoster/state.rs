//! What paternoster keeps: of a request, of a member of the tree (leaf or group), and of a group.

use super::lines::Line;
use super::wheel::Wheel;
use crate::structures::NIL;
use block::{Class, GroupId, Nanos, RequestId};

/// Where a request is, as far as paternoster is concerned.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Held {
    /// Not with us.
    Nowhere,
    /// In its leaf, or in the line of its class.
    Queued,
    /// Goes before everything: put there by the host.
    Direct,
    /// Chosen, and counted in the device.
    Dispatched,
}

/// What is kept of a request beside the table's, in half a cache line. It names its leaf for as long as it is inserted.
#[derive(Copy, Clone, Debug)]
#[repr(align(32))]
pub struct Slot {
    pub id: RequestId,
    pub leaf: u32,
    pub bytes: u32,
    /// Where requests of its group and kind are counted.
    pub tally: u32,
    /// When it came; once it is in the device, when it went there.
    pub since_ns: Nanos,
    pub held: Held,
    pub class: Class,
    pub is_sync: bool,
    pub is_read: bool,
}

const _: () = assert!(size_of::<Slot>() == 32, "half a cache line");

impl Slot {
    /// Whether it is in this leaf's line, or was.
    #[inline(always)]
    pub fn is_of_leaf(&self, leaf: u32) -> bool {
        self.leaf == leaf && self.class == Class::BestEffort
    }
}

pub const FREE_SLOT: Slot = Slot {
    id: RequestId::from_raw(NIL),
    leaf: NIL,
    bytes: 0,
    tally: 0,
    since_ns: 0,
    held: Held::Nowhere,
    class: Class::BestEffort,
    is_sync: false,
    is_read: true,
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

    pub fn roll(&mut self, generation: u32) {
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

    #[inline(always)]
    pub fn add(&mut self, generation: u32) {
        self.roll(generation);
        self.present = self.present.saturating_add(1);
    }

    /// The older first.
    #[inline(always)]
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
    #[inline(always)]
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
#[repr(C, align(64))]
pub struct Member {
    /// Virtual time: bytes times 2^16 through the weight.
    pub vt: u64,
    pub last_done_ns: Nanos,
    /// 2^32 through the weight, less 1, which makes it fit.
    inverse_less_one: u32,
    /// The group it competes in.
    pub parent: u32,
    pub queued: u32,
    pub in_flight: u32,
    pub ghosts: Ghosts,
    /// The requests of a leaf, as many as are queued. In one that is free `first` is the next free leaf.
    pub line: Line,
    /// Of its newest request, for the size that requests have below a group.
    pub newest_bytes: u32,
    /// Of a leaf: requests inserted and not yet released.
    pub held: u32,
    /// Of a leaf: from a completion to the next request, a moving average.
    pub think_ns: u32,
    weight: u16,
    /// Its slot in the wheel that it is in, and in the two highest bits which wheel that is.
    berth: u8,
    pub marks: u8,
}

const _: () = assert!(size_of::<Member>() == 64, "one cache line");

/// What is true of a member, as bits.
pub mod mark {
    /// A leaf of requests that nobody waits for.
    pub const ASYNC: u8 = 1 << 0;
    /// A leaf whose issuer has something done and has not come back yet.
    pub const WAITS: u8 = 1 << 1;
    /// A leaf whose issuer is there.
    pub const OWNED: u8 = 1 << 2;
    /// A leaf in use.
    pub const USED: u8 = 1 << 3;
    /// A group that takes requests.
    pub const ONLINE: u8 = 1 << 4;
    /// Somebody waits for its newest request.
    pub const NEWEST_IS_SYNC: u8 = 1 << 5;
}

const SLOT_BITS: u32 = 6;
const SLOT_MASK: u8 = (1 << SLOT_BITS) - 1;

impl Member {
    pub const fn new(parent: u32, weight: u32) -> Self {
        let mut member = Self {
            vt: 0,
            last_done_ns: 0,
            inverse_less_one: 0,
            parent,
            queued: 0,
            in_flight: 0,
            ghosts: Ghosts::NONE,
            line: Line::EMPTY,
            newest_bytes: 0,
            held: 0,
            think_ns: 0,
            weight: 0,
            berth: 0,
            marks: 0,
        };
        member.set_weight(weight);
        member
    }

    /// At most 2^16 - 1; groups have 10,000 at most.
    #[allow(clippy::cast_possible_truncation, reason = "bounded before")]
    pub const fn set_weight(&mut self, weight: u32) {
        let weight = if weight == 0 { 1 } else { weight };
        self.weight = if weight > u16::MAX as u32 { u16::MAX } else { weight as u16 };
        self.inverse_less_one = ((1 << 32) / self.weight as u64 - 1) as u32;
    }

    #[inline]
    pub const fn weight(&self) -> u32 {
        self.weight as u32
    }

    /// How far its virtual time goes for so many bytes.
    #[inline]
    pub const fn span(&self, bytes: u64) -> u64 {
        bytes.wrapping_mul(self.inverse_less_one as u64 + 1) >> 16
    }

    /// Virtual time goes on by so many bytes; answers how far.
    #[inline]
    pub const fn go_on(&mut self, bytes: u64) -> u64 {
        let increment = self.span(bytes);
        self.vt = self.vt.wrapping_add(increment);
        increment
    }

    /// Whether all that is counted of it is what another one counts.
    pub fn counts_as(&self, other: &Member) -> bool {
        (self.queued, self.in_flight, self.ghosts) == (other.queued, other.in_flight, other.ghosts)
            && self.newest_bytes == other.newest_bytes
            && self.is(mark::NEWEST_IS_SYNC) == other.is(mark::NEWEST_IS_SYNC)
    }

    /// Counts what a member below it does, which was the only one.
    pub fn follow(&mut self, only: &Member) {
        (self.queued, self.in_flight, self.ghosts) = (only.queued, only.in_flight, only.ghosts);
        self.last_done_ns = self.last_done_ns.max(only.last_done_ns);
        self.note_newest(only.newest_bytes, only.is(mark::NEWEST_IS_SYNC));
    }

    #[inline]
    pub const fn place(&self) -> Place {
        match self.berth >> SLOT_BITS {
            0 => Place::Inactive,
            1 => Place::Ready,
            _ => Place::Wait,
        }
    }

    /// Its slot in the wheel it is in.
    #[inline]
    pub const fn slot(&self) -> u8 {
        self.berth & SLOT_MASK
    }

    #[inline]
    pub const fn set_slot(&mut self, slot: u8) {
        self.berth = (self.berth & !SLOT_MASK) | (slot & SLOT_MASK);
    }

    #[inline]
    pub const fn settle(&mut self, place: Place, slot: u8) {
        self.berth = ((place as u8) << SLOT_BITS) | (slot & SLOT_MASK);
    }

    /// One that is counted inside is inside no more, and its issuer is expected back or not.
    #[inline(always)]
    pub fn one_less(&mut self, now: Nanos, comes_back: bool, generation: u32) {
        self.in_flight = self.in_flight.wrapping_sub(1);
        self.last_done_ns = now;
        if comes_back {
            self.ghosts.add(generation);
        }
    }

    /// What came last, below or in it.
    #[inline]
    pub const fn note_newest(&mut self, bytes: u32, is_sync: bool) {
        self.newest_bytes = bytes;
        self.marks = (self.marks & !mark::NEWEST_IS_SYNC) | if is_sync { mark::NEWEST_IS_SYNC } else { 0 };
    }

    /// Whether any of these is true of it.
    #[inline]
    pub const fn is(&self, mark: u8) -> bool {
        self.marks & mark != 0
    }
}

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
    pub parent: u32,
    pub async_leaf: u32,
    /// `floor_vt` when a disk is used the other way.
    pub other_floor_vt: u64,
}

const _: () = assert!(size_of::<Group>() == 128, "two cache lines");

impl Group {
    /// The empty one of this number, where there are so many members.
    pub const fn numbered(number: u32, parent: u32, members: u32) -> Self {
        let first = number.saturating_mul(2);
        Self {
            ready: Wheel::numbered(first, members),
            wait: Wheel::numbered(first.saturating_add(1), members),
            weight_sum: 0,
            floor_vt: 0,
            other_floor_vt: 0,
            async_leaf: NIL,
            parent,
            tags: 0,
            tags_weight: 0,
        }
    }
}

impl Group {
    /// One of its children has requests, and none is inside or expected.
    #[inline(always)]
    pub const fn has_one(&self) -> bool {
        self.ready.len() == 1 && self.wait.is_empty()
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
