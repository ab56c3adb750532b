//! blk-throttle's state of a group, and the lists on which its bios wait.
//!
//! Every group has a service queue. A bio waits on one of four nodes (lists) of a group: for each
//! direction there is one for bios submitted to the group, and one for bios on their way from the
//! group to its parent, which is part of the parent's service queue. A service queue takes one bio
//! from each of its nodes in turn, so a group's own bios and each of its children have equal turns.

use super::slice::{Limit, Slice, Ticks, UNLIMITED};
use crate::group::{IoLimits, Rates};
use crate::structures::{Array, Links, List, NoMemory};
use hoistway_block::{Direction, GroupId};

/// One value per direction; access to them cannot fail.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Pair<T> {
    pub read: T,
    pub write: T,
}

impl<T> Pair<T> {
    #[inline]
    pub const fn of(&self, direction: Direction) -> &T {
        match direction {
            Direction::Read => &self.read,
            Direction::Write => &self.write,
        }
    }

    #[inline]
    pub const fn of_mut(&mut self, direction: Direction) -> &mut T {
        match direction {
            Direction::Read => &mut self.read,
            Direction::Write => &mut self.write,
        }
    }
}

/// Both directions, reads first.
pub const DIRECTIONS: [Direction; 2] = [Direction::Read, Direction::Write];

/// Limits by direction.
pub type Limits = Pair<Limit>;

/// Converts configured rates; 0 stays 0 (for best-effort limits: none given).
pub const fn limits_of(rates: &Rates) -> Limits {
    const fn ios(per_s: u32) -> u64 {
        if per_s == u32::MAX { UNLIMITED } else { per_s as u64 }
    }
    let [read_bytes, write_bytes] = rates.bytes_per_s;
    let [read_ios, write_ios] = rates.ios_per_s;
    Pair {
        read: Limit { bytes_per_s: read_bytes, ios_per_s: ios(read_ios) },
        write: Limit { bytes_per_s: write_bytes, ios_per_s: ios(write_ios) },
    }
}

/// Whether bios of a direction must be checked: the group or an ancestor has a limit for it now.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Rules {
    pub bytes: bool,
    pub ios: bool,
}

/// Think time and latency of a group, in units of 1,024 ns, which the kernel treats as
/// microseconds.
#[derive(Copy, Clone, Debug)]
pub struct IdleStats {
    pub idle_threshold_us: u64,
    pub latency_target_us: u64,
    pub average_idle: u64,
    /// When the group's last bio ended; 0 = none has.
    pub last_finish: u64,
    pub checked_finish: u64,
    pub bios: u32,
    pub late_bios: u32,
    pub reset_at: Ticks,
}

/// What the state machine of best-effort limits (`low.rs`) knows about a group.
#[derive(Copy, Clone, Debug, Default)]
pub struct LowState {
    /// When the group last reached its best-effort limit or waited; 0 = it never had a bio.
    pub overflow_at: Pair<Ticks>,
    pub checked_at: Ticks,
    pub bytes: Pair<u64>,
    pub ios: Pair<u64>,
}

/// The state of a group on this device.
#[derive(Clone, Debug)]
pub struct Group {
    pub is_online: bool,
    pub parent: Option<GroupId>,
    pub children: u32,
    /// The limits as configured.
    pub configured: IoLimits,
    pub max: Limits,
    /// Best-effort limits in force: all 0 unless idle threshold and latency target were given with
    /// them.
    pub low: Limits,
    pub rules: Pair<Rules>,
    pub slices: Pair<Slice>,
    pub idle_stats: IdleStats,
    pub low_state: LowState,
    pub service: ServiceQueue,
    /// When the group's first waiting bio may pass.
    pub dispatch_at: Ticks,
    pub is_pending: bool,
    /// A bio arrived while none of its direction was waiting, so `dispatch_at` may be too late.
    pub was_empty: bool,
}

impl Group {
    pub const ABSENT: Group = Group {
        is_online: false,
        parent: None,
        children: 0,
        configured: IoLimits::NONE,
        max: Pair { read: Limit::NONE, write: Limit::NONE },
        low: Pair { read: Limit { bytes_per_s: 0, ios_per_s: 0 }, write: Limit { bytes_per_s: 0, ios_per_s: 0 } },
        rules: Pair { read: Rules { bytes: false, ios: false }, write: Rules { bytes: false, ios: false } },
        slices: Pair { read: Slice::EMPTY, write: Slice::EMPTY },
        idle_stats: IdleStats {
            idle_threshold_us: 0,
            latency_target_us: u64::MAX,
            average_idle: 0,
            last_finish: 0,
            checked_finish: 0,
            bios: 0,
            late_bios: 0,
            reset_at: 0,
        },
        low_state: LowState {
            overflow_at: Pair { read: 0, write: 0 },
            checked_at: 0,
            bytes: Pair { read: 0, write: 0 },
            ios: Pair { read: 0, write: 0 },
        },
        service: ServiceQueue::EMPTY,
        dispatch_at: 0,
        is_pending: false,
        was_empty: false,
    };

    /// Whether it has a best-effort limit for a direction.
    #[inline]
    pub const fn has_low(&self, direction: Direction) -> bool {
        let low = self.low.of(direction);
        low.bytes_per_s != 0 || low.ios_per_s != 0
    }

    #[inline]
    pub const fn has_any_low(&self) -> bool {
        self.has_low(Direction::Read) || self.has_low(Direction::Write)
    }
}

/// Where bios of a group (or, at the top, of the device) wait.
#[derive(Clone, Debug)]
pub struct ServiceQueue {
    /// Nodes with bios, in the order of their turns.
    pub nodes: Pair<List>,
    pub queued: Pair<u32>,
    /// Number of child groups with queued bios.
    pub pending: u32,
    /// When its timer fires.
    pub timer_at: Option<Ticks>,
}

impl ServiceQueue {
    pub const EMPTY: ServiceQueue = ServiceQueue {
        nodes: Pair { read: List::EMPTY, write: List::EMPTY },
        queued: Pair { read: 0, write: 0 },
        pending: 0,
        timer_at: None,
    };
}

/// A waiting bio.
#[derive(Copy, Clone, Debug)]
pub struct Waiting {
    pub bytes: u32,
    pub direction: Direction,
    /// The bio's bytes are charged already.
    pub is_charged: bool,
    pub is_held: bool,
    /// The list on which it waits.
    pub node: Node,
}

/// The list of a group on which a bio waits.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Node {
    /// Submitted to this very group.
    Own(GroupId),
    /// On its way from this group to its parent.
    ToParent(GroupId),
}

impl Node {
    const fn index(self, direction: Direction) -> u32 {
        let (group, kind) = match self {
            Node::Own(group) => (group.0, 0),
            Node::ToParent(group) => (group.0, 2),
        };
        group.wrapping_mul(4).wrapping_add(kind).wrapping_add(direction as u32)
    }
}

/// All waiting bios: lists of bios on nodes, and of nodes on service queues.
#[derive(Debug)]
pub struct Nodes {
    bios: Array<Waiting>,
    bio_links: Links,
    lists: Array<List>,
    node_links: Links,
}

const NO_BIO: Waiting =
    Waiting { bytes: 0, direction: Direction::Read, is_charged: false, is_held: false, node: Node::Own(GroupId::ROOT) };

impl Nodes {
    pub fn try_new(bios: u32, groups: u32) -> Result<Self, NoMemory> {
        let nodes = groups.checked_mul(4).ok_or(NoMemory)?;
        Ok(Self {
            bios: Array::try_new(bios, NO_BIO)?,
            bio_links: Links::try_new(bios)?,
            lists: Array::try_new(nodes, List::EMPTY)?,
            node_links: Links::try_new(nodes)?,
        })
    }

    #[inline]
    pub fn at(&self, bio: u32) -> &Waiting {
        self.bios.at(bio)
    }

    #[inline]
    pub fn at_mut(&mut self, bio: u32) -> &mut Waiting {
        self.bios.at_mut(bio)
    }

    /// Whether this bio number is valid and unused.
    pub fn is_free(&self, bio: u32) -> bool {
        self.bios.get(bio).is_some_and(|waiting| !waiting.is_held)
    }

    /// Appends a bio to its node, and the node to the service queue if it was empty.
    #[inline]
    pub fn push(&mut self, queue: &mut ServiceQueue, node: Node, bio: u32) {
        let waiting = self.bios.at_mut(bio);
        waiting.node = node;
        let direction = waiting.direction;
        let index = node.index(direction);
        let list = self.lists.at_mut(index);
        list.push_back(&mut self.bio_links, bio);
        if !self.node_links.is_linked(index) {
            queue.nodes.of_mut(direction).push_back(&mut self.node_links, index);
        }
        let queued = queue.queued.of_mut(direction);
        *queued = queued.wrapping_add(1);
    }

    /// The bio whose turn it is.
    #[inline]
    pub fn peek(&self, queue: &ServiceQueue, direction: Direction) -> Option<u32> {
        self.lists.at(queue.nodes.of(direction).first()?).first()
    }

    /// Takes the bio whose turn it is; its node then goes behind all others.
    #[inline]
    pub fn pop(&mut self, queue: &mut ServiceQueue, direction: Direction) -> Option<u32> {
        let nodes = queue.nodes.of_mut(direction);
        let node = nodes.pop_front(&mut self.node_links)?;
        let list = self.lists.at_mut(node);
        let bio = list.pop_front(&mut self.bio_links)?;
        if !list.is_empty() {
            nodes.push_back(&mut self.node_links, node);
        }
        let queued = queue.queued.of_mut(direction);
        *queued = queued.wrapping_sub(1);
        Some(bio)
    }

    /// Removes a bio from this service queue, wherever it is there. False if it is on no list.
    pub fn remove(&mut self, queue: &mut ServiceQueue, bio: u32) -> bool {
        let Waiting { direction, node, .. } = *self.bios.at(bio);
        let index = node.index(direction);
        let list = self.lists.at_mut(index);
        if !list.remove(&mut self.bio_links, bio) {
            return false;
        }
        if list.is_empty() {
            queue.nodes.of_mut(direction).remove(&mut self.node_links, index);
        }
        let queued = queue.queued.of_mut(direction);
        *queued = queued.wrapping_sub(1);
        true
    }

    /// Bios on the nodes of a service queue, counted one by one.
    pub fn count(&self, queue: &ServiceQueue, direction: Direction) -> u32 {
        let most = self.lists.len() as usize;
        queue
            .nodes
            .of(direction)
            .iter(&self.node_links)
            .take(most)
            .fold(0u32, |sum, node| sum.wrapping_add(self.lists.at(node).len()))
    }
}
