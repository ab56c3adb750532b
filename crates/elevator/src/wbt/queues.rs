//! What wbt tracks: which bios, in which class they are counted and wait, and which limit applies
//! to them.

use crate::request::Bio;
use crate::structures::List;
use hoistway_block::{Flags, Operation};

/// Classes of writes, each with its own count and queue.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Class {
    Writeback,
    Swap,
    Discards,
}

pub const CLASSES: [Class; 3] = [Class::Writeback, Class::Swap, Class::Discards];

/// Which of the limits applies to a bio.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Need {
    Urgent,
    Normal,
    Background,
    Discard,
}

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Not in this stage, or not tracked.
    Untracked,
    Waiting,
    /// Counted in its class, until its request ends or is merged into another.
    InFlight,
}

#[derive(Copy, Clone, Debug)]
pub struct Tracked {
    pub phase: Phase,
    pub class: Class,
    pub need: Need,
}

#[derive(Clone, Debug)]
pub struct ClassQueue {
    pub in_flight: u32,
    pub waiting: List,
}

#[derive(Clone, Debug)]
pub struct Queues {
    writeback: ClassQueue,
    swap: ClassQueue,
    discards: ClassQueue,
}

impl Queues {
    pub const EMPTY: Queues = {
        const EMPTY: ClassQueue = ClassQueue { in_flight: 0, waiting: List::EMPTY };
        Queues { writeback: EMPTY, swap: EMPTY, discards: EMPTY }
    };

    #[inline]
    pub const fn of(&self, class: Class) -> &ClassQueue {
        match class {
            Class::Writeback => &self.writeback,
            Class::Swap => &self.swap,
            Class::Discards => &self.discards,
        }
    }

    #[inline]
    pub const fn of_mut(&mut self, class: Class) -> &mut ClassQueue {
        match class {
            Class::Writeback => &mut self.writeback,
            Class::Swap => &mut self.swap,
            Class::Discards => &mut self.discards,
        }
    }

    pub fn in_flight(&self) -> u32 {
        CLASSES.iter().fold(0, |sum: u32, class| sum.wrapping_add(self.of(*class).in_flight))
    }
}

/// The limit of a bio; `None` = not tracked. Only writes and discards are tracked, except direct
/// sync writes.
pub fn need_of(bio: &Bio) -> Option<Need> {
    const DIRECT: Flags = Flags(Flags::SYNC.0 | Flags::IDLE.0);
    const URGENT: Flags = Flags(Flags::SYNC.0 | Flags::META.0 | Flags::PRIO.0 | Flags::SWAP.0);
    match bio.operation {
        Operation::Discard => Some(Need::Discard),
        Operation::Write if bio.flags.contains(DIRECT) => None,
        Operation::Write if bio.flags.intersects(URGENT) => Some(Need::Urgent),
        Operation::Write if bio.flags.contains(Flags::BACKGROUND) => Some(Need::Background),
        Operation::Write => Some(Need::Normal),
        _ => None,
    }
}

/// The class that counts a tracked bio.
pub fn class_of(bio: &Bio) -> Class {
    if bio.flags.contains(Flags::SWAP) {
        Class::Swap
    } else if bio.operation == Operation::Discard {
        Class::Discards
    } else {
        Class::Writeback
    }
}
