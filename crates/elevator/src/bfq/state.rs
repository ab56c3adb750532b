//! BFQ's state: of a request, of a schedulable entity (queue or group), of a queue, of an issuer,
//! of a group.

use super::contexts::SPARE_QUEUE;
use super::io_bound::Boundness;
use super::pace::Pace;
use super::queues::Record;
use super::users::Users;
use super::waker::Waking;
use crate::account::{GroupAccount, Kind};
use crate::pending::Pending;
use crate::seeks::Seeks;
use crate::structures::{NIL, Tree};
use hoistway_block::{Class, GroupId, Nanos, RequestId};

/// The state of a request within BFQ.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Held {
    /// Not inserted.
    Nowhere,
    /// In its queue's order and fifo.
    Queued,
    /// In front of everything: put there by the host.
    Direct,
    /// Chosen, and counted as in flight.
    Dispatched,
}

/// BFQ's state of a request. It refers to its queue for as long as it is inserted.
#[derive(Copy, Clone, Debug)]
pub struct Slot {
    pub id: RequestId,
    pub held: Held,
    /// The kind under which the group's account counts the request: discards count as writes.
    pub counts_as: Kind,
    pub is_sync: bool,
    /// Lower kinds go first in its queue: sync before async, metadata before data.
    pub kind: u8,
    pub queue: u32,
    /// The queue's group when the request arrived.
    pub group: u32,
    pub context: u32,
    pub sectors: u32,
    /// Its fifo deadline.
    pub due_ns: Nanos,
}

pub const FREE_SLOT: Slot = Slot {
    id: RequestId::from_raw(NIL),
    held: Held::Nowhere,
    counts_as: Kind::Read,
    is_sync: false,
    kind: 0,
    queue: NIL,
    group: GroupId::ROOT.0,
    context: NIL,
    sectors: 0,
    due_ns: 0,
};

impl Slot {
    /// Marks the request as no longer inserted. Returns the queue and issuer that it had, or NIL.
    #[inline(always)]
    pub const fn clear_insertion(&mut self) -> (u32, u32) {
        self.held = Held::Nowhere;
        (core::mem::replace(&mut self.queue, NIL), core::mem::replace(&mut self.context, NIL))
    }

    #[inline]
    pub const fn kind(is_sync: bool, is_meta: bool) -> u8 {
        (!is_sync as u8) << 1 | !is_meta as u8
    }
}

/// Service trees of a scheduler, one per class.
pub const CLASSES: u32 = 3;

#[inline]
pub const fn class_index(class: Class) -> u32 {
    match class {
        Class::RealTime => 0,
        Class::BestEffort => 1,
        Class::Idle => 2,
    }
}

/// The set of its service tree that an entity is in.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Set {
    None,
    /// The entity has requests to be served.
    Active,
    /// The entity has no requests, but its finish time is later than the virtual time.
    Idle,
}

/// A schedulable entity: a queue, or a group among its siblings. Entities of groups follow those of
/// queues.
#[derive(Copy, Clone, Debug)]
pub struct Entity {
    /// Sectors served in this turn.
    pub service: u32,
    pub budget: u32,
    /// The weight in force: a queue's includes its raising factor.
    pub weight: u32,
    pub original_weight: u32,
    pub new_weight: u32,
    /// The group in whose scheduler it competes.
    pub parent: u32,
    /// Requests inserted and not yet released, including those of all descendants.
    pub allocated: u32,
    pub class: Class,
    pub new_class: Class,
    pub set: Set,
    /// The entity is active, idle or in service, so its weight is part of its tree's sum of
    /// weights.
    pub is_on_tree: bool,
    pub is_prio_changed: bool,
}

pub const NEW_ENTITY: Entity = Entity {
    service: 0,
    budget: 0,
    weight: 0,
    original_weight: 0,
    new_weight: 0,
    parent: GroupId::ROOT.0,
    allocated: 0,
    class: Class::BestEffort,
    new_class: Class::BestEffort,
    set: Set::None,
    is_on_tree: false,
    is_prio_changed: false,
};

/// A set of flags of a queue.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Marks(u16);

impl Marks {
    pub const NONE: Marks = Marks(0);
    pub const JUST_CREATED: Marks = Marks(1 << 0);
    pub const BUSY: Marks = Marks(1 << 1);
    /// The device is idled for the queue, and the timer runs.
    pub const WAIT_REQUEST: Marks = Marks(1 << 2);
    /// It left service with budget to spare, and keeps the rest if it returns in time.
    pub const WAITS_UNBLOCKED: Marks = Marks(1 << 3);
    /// The fifo was checked in this turn.
    pub const FIFO_EXPIRE: Marks = Marks(1 << 4);
    pub const SHORT_THINK_TIME: Marks = Marks(1 << 5);
    pub const SYNC: Marks = Marks(1 << 6);
    pub const IO_BOUND: Marks = Marks(1 << 7);
    pub const IN_LARGE_BURST: Marks = Marks(1 << 8);
    /// The time from which it may count as soft real-time again is to be computed when its last
    /// request in flight completes.
    pub const SOFTRT_UPDATE: Marks = Marks(1 << 9);
    /// It is shared by several issuers.
    pub const COOP: Marks = Marks(1 << 10);
    /// Its issuers should no longer share it.
    pub const SPLIT_COOP: Marks = Marks(1 << 11);
    /// The record is in use.
    pub const USED: Marks = Marks(1 << 12);
    /// Its group counts it as having requests.
    pub const PENDING: Marks = Marks(1 << 13);
    /// Its group refers to it, as to all its async queues, and thereby keeps it alive.
    pub const PINNED: Marks = Marks(1 << 14);

    /// The flags that rule out the fast path of an arriving request.
    pub const DECISIVE: Marks =
        Marks(Self::BUSY.0 | Self::SYNC.0 | Self::JUST_CREATED.0 | Self::SPLIT_COOP.0 | Self::WAIT_REQUEST.0);

    #[inline]
    pub const fn has(self, mark: Marks) -> bool {
        self.0 & mark.0 != 0
    }

    /// The intersection.
    #[inline]
    pub const fn of(self, other: Marks) -> Marks {
        Marks(self.0 & other.0)
    }

    #[inline]
    pub const fn set(&mut self, mark: Marks) {
        self.0 |= mark.0;
    }

    #[inline]
    pub const fn clear(&mut self, mark: Marks) {
        self.0 &= !mark.0;
    }

    #[inline]
    pub const fn put(&mut self, mark: Marks, on: bool) {
        if on { self.set(mark) } else { self.clear(mark) }
    }

    #[inline]
    pub const fn with(self, mark: Marks) -> Marks {
        Marks(self.0 | mark.0)
    }
}

/// Think time: the time from a completion to the next request, as a moving average in which 256
/// stands for 1.
#[derive(Copy, Clone, Debug, Default)]
pub struct ThinkTime {
    pub last_end_ns: Nanos,
    samples: u32,
    total_ns: u64,
    mean_ns: u64,
}

impl ThinkTime {
    pub const fn since(now_ns: Nanos) -> Self {
        Self { last_end_ns: now_ns, samples: 0, total_ns: 0, mean_ns: 0 }
    }

    /// A request arrived. The initial `last_end_ns` of a new queue lies in the future, which wraps
    /// to the longest think time (quirk Q8 of docs/specifications/bfq.md).
    pub fn add(&mut self, now_ns: Nanos, most_ns: Nanos) {
        let thought = now_ns.wrapping_sub(self.last_end_ns).min(most_ns);
        self.samples = (7 * self.samples + 256) / 8;
        self.total_ns = self.total_ns.wrapping_mul(7).wrapping_add(thought.wrapping_mul(256)) / 8;
        self.mean_ns = self.total_ns.wrapping_add(128).checked_div(u64::from(self.samples)).unwrap_or(0);
    }

    /// Whether the mean exceeds a span; false until there are three samples.
    #[inline]
    pub const fn is_above(&self, span_ns: Nanos) -> bool {
        self.samples > 80 && self.mean_ns > span_ns
    }

    /// For tests.
    #[cfg(test)]
    pub const fn mean_ns(&self) -> Nanos {
        self.mean_ns
    }
}

/// The limit of injected requests while the device is idled for a queue, and the data it is learned
/// from.
#[derive(Copy, Clone, Debug)]
pub struct InjectState {
    pub limit: u32,
    /// Total service time of its requests without injection; 0 = not known.
    pub last_service_ns: Nanos,
    /// When the limit was last lowered or reset.
    pub decreased_ticks: u64,
}

/// Raising of a queue's weight.
#[derive(Copy, Clone, Debug)]
pub struct Raising {
    /// The factor; 1 = not raised.
    pub factor: u32,
    pub service_sectors: u32,
    pub longest_ticks: u64,
    /// When raising began or last ended.
    pub since_ticks: u64,
    pub before_soft_real_time_ticks: u64,
}

/// A queue: the sync requests of an issuer (or of several whose queues are merged), or the async
/// ones of a group and level.
#[derive(Clone, Debug)]
pub struct Queue {
    pub marks: Marks,
    /// Level inside its class; determines its weight.
    pub level: u8,
    /// The actuator that serves its requests.
    pub actuator: u8,
    pub pending: Pending,
    /// Requests in flight.
    pub dispatched: u32,
    pub max_budget: u32,
    /// When its turn times out. For a queue that is not in service: when it last had neither queued
    /// requests nor any in flight.
    pub budget_timeout_ticks: u64,
    pub seeks: Seeks,
    pub think: ThinkTime,
    pub bound: Boundness,
    pub raising: Raising,
    pub pace: Pace,
    pub created_ticks: u64,
    pub split_ticks: u64,
    pub inject: InjectState,
    /// Injected in its turn (4.20).
    pub injected_sectors: u32,
    pub users: Users,
    pub waking: Waking,
    /// The weight under which it is counted; 0 = not counted.
    pub counted_weight: u32,
    pub record: Record,
}

/// Weight of level 4.
pub const DEFAULT_WEIGHT: u32 = 40;
/// Level of issuers without one.
pub const DEFAULT_LEVEL: u8 = 4;

impl Queue {
    #[inline]
    pub const fn has(&self, mark: Marks) -> bool {
        self.marks.has(mark)
    }

    #[inline]
    pub const fn is_sync(&self) -> bool {
        self.marks.has(Marks::SYNC)
    }

    /// Nothing is queued; requests may be in flight.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Whether more than this many of the last 32 requests were far.
    #[inline]
    pub fn is_seeky(&self, above: u8) -> bool {
        self.seeks.far() > u32::from(above)
    }

    #[inline]
    pub const fn is_raised(&self) -> bool {
        self.raising.factor > 1
    }

    /// Updates the queue's own counters for charged sectors.
    #[inline(always)]
    pub const fn count_service(&mut self, sectors: u32, now_ticks: u64) {
        self.pace.count_service(sectors, now_ticks);
        if self.is_raised() {
            self.raising.service_sectors = self.raising.service_sectors.saturating_add(sectors);
        }
    }

    /// If an issuer is its only user, the queue becomes its own.
    #[inline]
    pub const fn own_if_sole_user(&mut self, index: u32, context: u32) {
        if index != SPARE_QUEUE && !self.users.is_to_merge() && self.process_references() == 1 {
            self.users.own_by_name(context);
        }
    }

    /// Number of issuers that may still send requests to the queue; for an async queue its group
    /// counts as one more.
    #[inline]
    pub const fn process_references(&self) -> u32 {
        self.users.count().wrapping_add(self.has(Marks::PINNED) as u32)
    }
}

pub const FREE_QUEUE: Queue = Queue {
    marks: Marks::NONE,
    level: DEFAULT_LEVEL,
    actuator: 0,
    pending: Pending::NONE,
    dispatched: 0,
    max_budget: 0,
    budget_timeout_ticks: 0,
    seeks: Seeks::ONE,
    think: ThinkTime::since(0),
    bound: Boundness::since(0),
    raising: Raising {
        factor: 1,
        service_sectors: 0,
        longest_ticks: 0,
        since_ticks: 0,
        before_soft_real_time_ticks: 0,
    },
    pace: Pace::since(0),
    created_ticks: 0,
    split_ticks: 0,
    inject: InjectState { limit: 0, last_service_ns: 0, decreased_ticks: 0 },
    injected_sectors: 0,
    users: Users::none(0),
    waking: Waking::NONE,
    counted_weight: 0,
    record: Record::NEW,
};

/// State of an issuer's own queue when it was merged into another, restored if it is split off
/// again.
#[derive(Copy, Clone, Debug)]
pub struct Saved {
    pub weight: u32,
    pub raising: Raising,
    pub think: ThinkTime,
    pub has_short_think_time: bool,
    pub is_io_bound: bool,
    /// Of [`Boundness`].
    pub io_window: [Nanos; 2],
    pub in_large_burst: bool,
    pub was_in_burst_list: bool,
    pub inject: InjectState,
}

/// The state of an issuer.
#[derive(Copy, Clone, Debug)]
pub struct Context {
    pub is_alive: bool,
    /// Its queue was part of a stable merge.
    pub is_stably_merged: bool,
    /// Requests inserted and not yet released.
    pub requests: u32,
    /// Its queues, or NIL: async, sync.
    pub queues: [u32; 2],
    pub priority: hoistway_block::Priority,
    /// The group of its queues, or NIL if that group was removed.
    pub group: u32,
    /// Candidate queue for a stable merge of its own, or NIL.
    pub stable_candidate: u32,
    pub saved: Option<Saved>,
}

pub const UNKNOWN_CONTEXT: Context = Context {
    is_alive: false,
    is_stably_merged: false,
    requests: 0,
    queues: [NIL; 2],
    priority: hoistway_block::Priority::NONE,
    group: NIL,
    stable_candidate: NIL,
    saved: None,
};

/// The scheduler of a group's children, and the rest of a group's state.
#[derive(Clone, Debug)]
pub struct Group {
    pub is_online: bool,
    pub parent: u32,
    /// The child in service and the next one (entities), or NIL.
    pub in_service: u32,
    pub next_in_service: u32,
    pub idle_class_served_ticks: u64,
    pub active_entities: u32,
    /// Queues with requests, queued or in flight; in the older forms including those of all
    /// descendants.
    pub pending_queues: u32,
    /// The sync queue created last, or NIL.
    pub last_created: u32,
    /// Its queues that have a request, by that request's sector.
    pub positions: Tree,
    pub account: GroupAccount,
}

pub const UNKNOWN_GROUP: Group = Group {
    is_online: false,
    parent: GroupId::ROOT.0,
    in_service: NIL,
    next_in_service: NIL,
    idle_class_served_ticks: 0,
    active_entities: 0,
    pending_queues: 0,
    last_created: NIL,
    positions: Tree::EMPTY,
    account: GroupAccount::ZERO,
};
