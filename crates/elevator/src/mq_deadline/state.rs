//! State of mq-deadline: of a request, of a direction, of a class.

use super::profile::Remembers;
use crate::structures::{List, NIL, OrderedLinks, OrderedSet};
use hoistway_block::{Class, Direction, Nanos, RequestId};

/// The state of a request within the policy.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Held {
    /// Unknown.
    Free = 0,
    /// Sent and not yet completed; or about to enter one of the two states below.
    Sent = 1,
    Sorted = 2,
    DispatchList = 3,
}

impl Held {
    #[inline]
    pub const fn is_on_list(self) -> bool {
        matches!(self, Held::Sorted | Held::DispatchList)
    }
}

/// The policy's state of a request, so that a choice does not access the table of requests. Unless
/// it is free, the request counts as inserted and not completed.
#[derive(Copy, Clone, Debug)]
#[repr(C, packed(4))]
pub struct Slot {
    pub due_ns: Nanos,
    /// The request's id, with class, direction and state in place of the slot number. It is a
    /// single word and not several fields, because the processor stalls if a whole word is read
    /// right after a part of it was written (failed store forwarding).
    word: u32,
}

const _: () = assert!(size_of::<Slot>() == 12, "one for each request there may be");

impl Slot {
    pub const FREE: Slot = Slot { due_ns: 0, word: 0 };

    const HELD: u32 = 3;
    const DIRECTION_SHIFT: u32 = 2;
    const CLASS_SHIFT: u32 = 3;

    #[inline]
    pub const fn new(due_ns: Nanos, id: RequestId, (class, direction): (Class, Direction), held: Held) -> Self {
        let queue = (class as u32) << Self::CLASS_SHIFT | (direction as u32) << Self::DIRECTION_SHIFT;
        Self { due_ns, word: (id.raw() & !RequestId::MAX_SLOTS) | queue | held as u32 }
    }

    /// The id of the request that has this slot.
    #[inline]
    pub const fn id(&self, slot: u32) -> RequestId {
        RequestId::from_raw((self.word & !RequestId::MAX_SLOTS) | slot)
    }

    /// Whether this entry belongs to the request with this id, and not to another use of its slot.
    #[inline]
    pub const fn is_of(&self, id: RequestId) -> bool {
        (self.word ^ id.raw()) & !RequestId::MAX_SLOTS == 0
    }

    /// Whether this entry belongs to the request with this id, and the request is sent.
    #[inline]
    pub const fn is_sent(&self, id: RequestId) -> bool {
        (self.word ^ (id.raw() & !RequestId::MAX_SLOTS)) & (!RequestId::MAX_SLOTS | Self::HELD) == Held::Sent as u32
    }

    #[inline]
    pub const fn class(&self) -> Class {
        match self.word >> Self::CLASS_SHIFT & 3 {
            0 => Class::RealTime,
            1 => Class::BestEffort,
            _ => Class::Idle,
        }
    }

    #[inline]
    pub const fn direction(&self) -> Direction {
        if self.word >> Self::DIRECTION_SHIFT & 1 == 0 { Direction::Read } else { Direction::Write }
    }

    /// The queue that it belongs to.
    #[inline]
    pub const fn queue(&self) -> (Class, Direction) {
        (self.class(), self.direction())
    }

    #[inline]
    pub const fn held(&self) -> Held {
        match self.word & Self::HELD {
            0 => Held::Free,
            1 => Held::Sent,
            2 => Held::Sorted,
            _ => Held::DispatchList,
        }
    }

    /// The same request, now on a list, with its deadline.
    #[inline]
    pub const fn put(mut self, held: Held, due_ns: Nanos) -> Self {
        self.due_ns = due_ns;
        self.set_held(held);
        self
    }

    #[inline]
    pub const fn set_held(&mut self, held: Held) {
        self.word = (self.word & !Self::HELD) | held as u32;
    }
}

/// The queue of one direction of a class.
#[derive(Clone, Debug)]
pub struct Queue {
    pub sorted: OrderedSet,
    pub fifo: List,
    /// Where the direction continues, or NIL. In the position form ([`Remembers::SectorPosition`]):
    /// the first request at or behind `position_sectors`.
    pub next: u32,
    /// First sector of `next`, which the position form compares with every newcomer.
    pub next_sector: u64,
    /// First sector of the request sent last.
    pub position_sectors: u64,
}

impl Queue {
    pub const EMPTY: Queue =
        Queue { sorted: OrderedSet::EMPTY, fifo: List::EMPTY, next: NIL, next_sector: 0, position_sectors: 0 };

    /// Updates `next` after a request was added or moved.
    #[inline]
    pub fn joined(&mut self, slot: u32, first_sector: u64, remembers: Remembers) {
        // All conditions are evaluated without branches, because the first is unpredictable for
        // random sectors.
        let is_ahead = first_sector >= self.position_sectors;
        let is_nearest = is_ahead & ((first_sector < self.next_sector) | (self.next == NIL));
        if is_nearest && remembers == Remembers::SectorPosition {
            (self.next, self.next_sector) = (slot, first_sector);
        }
    }

    /// Removes a slot from the sorted order; `next` advances if it was this slot.
    #[inline]
    pub fn unsort(&mut self, sorted: &mut OrderedLinks, slot: u32) -> bool {
        let Some(removed) = self.sorted.remove(sorted, slot) else { return false };
        if self.next == slot {
            (self.next, self.next_sector) = (removed.next.unwrap_or(NIL), removed.next_key);
        }
        true
    }

    /// A request that begins here was sent.
    #[inline]
    pub fn moved_to(&mut self, sorted: &OrderedLinks, position_sectors: u64) {
        self.position_sectors = position_sectors;
        self.next = self.sorted.lower_bound(sorted, position_sectors).unwrap_or(NIL);
        self.next_sector = sorted.key(self.next).unwrap_or(u64::MAX);
    }
}

/// The state of a priority class. The counters wrap; only their differences have a meaning.
#[derive(Clone, Debug)]
pub struct Level {
    pub read: Queue,
    pub write: Queue,
    pub dispatch_list: List,
    pub inserted: u32,
    pub merged: u32,
    pub dispatched: u32,
    pub completed: u32,
}

impl Level {
    pub const EMPTY: Level = Level {
        read: Queue::EMPTY,
        write: Queue::EMPTY,
        dispatch_list: List::EMPTY,
        inserted: 0,
        merged: 0,
        dispatched: 0,
        completed: 0,
    };

    #[inline]
    pub const fn queue_mut(&mut self, direction: Direction) -> &mut Queue {
        match direction {
            Direction::Read => &mut self.read,
            Direction::Write => &mut self.write,
        }
    }

    #[inline]
    pub const fn queue(&self, direction: Direction) -> &Queue {
        match direction {
            Direction::Read => &self.read,
            Direction::Write => &self.write,
        }
    }

    /// Requests inserted and not completed. Those in flight count, which makes lower classes wait.
    #[inline]
    pub const fn unfinished(&self) -> u32 {
        self.inserted.wrapping_sub(self.completed)
    }
}
