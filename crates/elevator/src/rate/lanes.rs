//! The lists of waiting bios, and of the groups that offer one.
//!
//! A group has four lanes: reads and writes, each apart into bios that count as an I/O and those that are
//! the rest of a request that was counted already, which wait for bytes only. A bio waits in a lane of its
//! own group. A lane's ring names, in the order of their turns, what can give a bio to it: the group's own
//! list, and the same lane of each group below that owes nothing.

use crate::structures::{Array, Links, List, NoMemory};
use hoistway_block::{Direction, GroupId};

/// Lanes of a group.
pub const LANES: u8 = 4;

/// A waiting bio.
#[derive(Copy, Clone, Debug)]
pub struct Waiting {
    pub group: GroupId,
    /// Bytes to charge; 0 = they are charged already.
    pub bytes: u32,
    /// Whether it counts as an I/O.
    pub counts: bool,
    pub direction: Direction,
    pub is_held: bool,
    /// It may go on, and was not taken yet.
    pub is_released: bool,
}

impl Waiting {
    const NONE: Waiting = Waiting {
        group: GroupId::ROOT,
        bytes: 0,
        counts: false,
        direction: Direction::Read,
        is_held: false,
        is_released: false,
    };

    /// The lane in which it waits.
    #[inline]
    pub const fn lane(&self) -> Lane {
        let direction = match self.direction {
            Direction::Read => 0,
            Direction::Write => 2,
        };
        Lane(if self.counts { direction } else { direction | 1 })
    }
}

/// One of the four lanes.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Lane(u8);

impl Lane {
    /// All lanes, beginning with one.
    pub fn from(first: Lane) -> impl Iterator<Item = Lane> {
        (0..LANES).map(move |step| first.after(step))
    }

    pub const FIRST: Lane = Lane(0);

    /// The lane this number of steps behind this one.
    #[inline]
    pub const fn after(self, steps: u8) -> Lane {
        Lane(self.0.wrapping_add(steps) % LANES)
    }

    /// Reads and writes.
    #[inline]
    pub const fn direction(self) -> Direction {
        if self.0 & 2 == 0 { Direction::Read } else { Direction::Write }
    }

    /// Whether its bios count as I/Os.
    #[inline]
    pub const fn counts(self) -> bool {
        self.0 & 1 == 0
    }

    /// Its bit in a set of lanes.
    #[inline]
    pub const fn bit(self) -> u8 {
        1u8.wrapping_shl(self.0 as u32)
    }
}

/// The lane of a group.
#[inline]
const fn node_of(group: GroupId, lane: Lane) -> u32 {
    group.0.wrapping_mul(LANES as u32).wrapping_add(lane.0 as u32)
}

/// What can give a bio to a lane.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Giver {
    /// The group's own list.
    Own,
    /// A group below.
    Below(GroupId),
}

/// All waiting bios.
#[derive(Debug)]
pub struct Lanes {
    bios: Array<Waiting>,
    bio_links: Links,
    /// The bios of each node.
    own: Array<List>,
    /// The givers of each node: twice the node itself for its own list, and one more for the same lane of
    /// a group below.
    rings: Array<List>,
    giver_links: Links,
    released: List,
}

impl Lanes {
    pub fn try_new(bios: u32, groups: u32) -> Result<Self, NoMemory> {
        let nodes = groups.checked_mul(LANES as u32).ok_or(NoMemory)?;
        Ok(Self {
            bios: Array::try_new(bios, Waiting::NONE)?,
            bio_links: Links::try_new(bios)?,
            own: Array::try_new(nodes, List::EMPTY)?,
            rings: Array::try_new(nodes, List::EMPTY)?,
            giver_links: Links::try_new(nodes.checked_mul(2).ok_or(NoMemory)?)?,
            released: List::EMPTY,
        })
    }

    /// Whether this bio number is valid and unused.
    #[inline]
    pub fn is_free(&self, bio: u32) -> bool {
        self.bios.get(bio).is_some_and(|waiting| !waiting.is_held)
    }

    #[inline]
    pub fn at(&self, bio: u32) -> &Waiting {
        self.bios.at(bio)
    }

    /// Whether a lane of a group has a giver.
    #[inline]
    pub fn has(&self, group: GroupId, lane: Lane) -> bool {
        !self.rings.at(node_of(group, lane)).is_empty()
    }

    /// Whether no bio of a group or of those below waits for it.
    pub fn is_empty(&self, group: GroupId) -> bool {
        !Lane::from(Lane::FIRST).any(|lane| self.has(group, lane) || !self.own.at(node_of(group, lane)).is_empty())
    }

    /// Appends a bio to its group's list.
    pub fn hold(&mut self, bio: u32, waiting: Waiting) {
        *self.bios.at_mut(bio) = waiting;
        let node = node_of(waiting.group, waiting.lane());
        self.own.at_mut(node).push_back(&mut self.bio_links, bio);
        self.rings.at_mut(node).push_back(&mut self.giver_links, node.wrapping_mul(2));
    }

    /// Makes a lane of a group a giver to the group above, or no longer. True if it was not before.
    pub fn offer(&mut self, group: GroupId, parent: GroupId, lane: Lane, is_offered: bool) -> bool {
        let giver = node_of(group, lane).wrapping_mul(2).wrapping_add(1);
        let ring = self.rings.at_mut(node_of(parent, lane));
        match is_offered {
            // False, without effect, if it is in the ring already.
            true => ring.push_back(&mut self.giver_links, giver),
            false if self.giver_links.is_linked(giver) => ring.remove(&mut self.giver_links, giver),
            false => false,
        }
    }

    /// The giver whose turn it is in a lane. It then goes behind the others, in every lane, so that givers
    /// have equal turns however many lanes they fill.
    pub fn next_giver(&mut self, group: GroupId, lane: Lane) -> Option<Giver> {
        let first = self.rings.at(node_of(group, lane)).first()?;
        let (node, is_below) = (first / 2, first % 2);
        let giver = GroupId(node / LANES as u32);
        for lane in Lane::from(Lane::FIRST) {
            let entry = node_of(giver, lane).wrapping_mul(2).wrapping_add(is_below);
            if self.giver_links.is_linked(entry) {
                let ring = self.rings.at_mut(node_of(group, lane));
                ring.remove(&mut self.giver_links, entry);
                ring.push_back(&mut self.giver_links, entry);
            }
        }
        Some(if is_below == 0 { Giver::Own } else { Giver::Below(giver) })
    }

    /// Takes the first bio of a group's own list, and appends it to those that may go on.
    pub fn release_own(&mut self, group: GroupId, lane: Lane) -> Option<u32> {
        let node = node_of(group, lane);
        let list = self.own.at_mut(node);
        let bio = list.pop_front(&mut self.bio_links)?;
        if list.is_empty() {
            self.rings.at_mut(node).remove(&mut self.giver_links, node.wrapping_mul(2));
        }
        self.released.push_back(&mut self.bio_links, bio);
        self.bios.at_mut(bio).is_released = true;
        Some(bio)
    }

    /// Takes a held bio out; returns its group. `None` if it is not held.
    pub fn take_out(&mut self, bio: u32) -> Option<GroupId> {
        let waiting = *self.bios.get(bio)?;
        let node = node_of(waiting.group, waiting.lane());
        let list = if waiting.is_released { &mut self.released } else { self.own.at_mut(node) };
        if !waiting.is_held || !list.remove(&mut self.bio_links, bio) {
            return None;
        }
        self.bios.at_mut(bio).is_held = false;
        if !waiting.is_released && self.own.at(node).is_empty() {
            self.rings.at_mut(node).remove(&mut self.giver_links, node.wrapping_mul(2));
        }
        Some(waiting.group)
    }

    /// Takes all givers out of a group's rings.
    pub fn clear_rings(&mut self, group: GroupId) {
        for lane in Lane::from(Lane::FIRST) {
            let ring = self.rings.at_mut(node_of(group, lane));
            while ring.pop_front(&mut self.giver_links).is_some() {}
        }
    }

    /// Takes the next bio that may go on.
    pub fn take_released(&mut self) -> Option<u32> {
        let bio = self.released.pop_front(&mut self.bio_links)?;
        self.bios.at_mut(bio).is_held = false;
        Some(bio)
    }

    /// Whether bios were released and not taken yet.
    pub const fn has_released(&self) -> bool {
        !self.released.is_empty()
    }

    /// All bios that wait or were released and not taken yet.
    pub fn count(&self) -> u32 {
        self.own.iter().fold(self.released.len(), |sum, list| sum.wrapping_add(list.len()))
    }
}
