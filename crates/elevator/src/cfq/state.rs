//! CFQ's state: of a request, of a queue, of an issuer, of a group.

use super::references::References;
use super::slice::Slice;
use crate::account::{GroupAccount, Kind};
use crate::pending::Pending;
use crate::seeks::Seeks;
use crate::structures::NIL;
use hoistway_block::{Class, GroupId, Nanos, Priority, RequestId};

/// The state of a request within CFQ.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Held {
    /// Not inserted.
    Nowhere,
    /// In its queue's order and fifo.
    Queued,
    /// Put in front of everything by the host: the driver gave it back, or it was never part of a
    /// queue.
    Head,
    /// Moved out of its queue in a round (CFQ of 2.6.26) and counted as in flight, but not returned
    /// to the host yet.
    Round,
    /// Chosen, and counted as in flight.
    Dispatched,
}

/// CFQ's state of a request. It refers to its queue for as long as it is inserted.
#[derive(Copy, Clone, Debug)]
pub struct Slot {
    pub id: RequestId,
    pub held: Held,
    pub kind: Kind,
    pub is_sync: bool,
    /// Favoured within its queue: metadata.
    pub is_favoured: bool,
    /// Its issuer will not send another one soon (`REQ_NOIDLE`).
    pub is_last: bool,
    /// The driver has accepted it.
    pub is_in_driver: bool,
    pub queue: u32,
    /// The queue's group when the request arrived.
    pub group: u32,
    pub context: u32,
    /// Its fifo deadline.
    pub due_ticks: u64,
}

pub const FREE_SLOT: Slot = Slot {
    id: RequestId::from_raw(NIL),
    held: Held::Nowhere,
    kind: Kind::Read,
    is_sync: false,
    is_favoured: false,
    is_last: false,
    is_in_driver: false,
    queue: NIL,
    group: GroupId::ROOT.0,
    context: NIL,
    due_ticks: 0,
};

/// How a queue is treated, by its behaviour so far. The numbers appear in messages.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum WorkloadType {
    Async = 0,
    /// Sync; the device is idled for the tree of such queues, but not for a single one.
    SyncNoIdle = 1,
    /// Sync; the device is idled for the queue.
    Sync = 2,
}

pub const WORKLOAD_TYPES: [WorkloadType; 3] = [WorkloadType::Async, WorkloadType::SyncNoIdle, WorkloadType::Sync];

/// Number of service trees of a group: one per workload type in the classes best effort and real
/// time, and one of the idle class.
pub const TREES_PER_GROUP: u32 = 7;

/// The number of a class in messages and indices: best effort 0, real time 1, idle 2.
#[inline]
pub const fn class_number(class: Class) -> u32 {
    match class {
        Class::BestEffort => 0,
        Class::RealTime => 1,
        Class::Idle => 2,
    }
}

/// A set of flags of a queue.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Marks(u16);

impl Marks {
    pub const NONE: Marks = Marks(0);
    /// The queue is busy: it is in a service tree, or it is active.
    pub const ON_RR: Marks = Marks(1 << 0);
    /// The device is idled for the queue.
    pub const WAIT_REQUEST: Marks = Marks(1 << 1);
    /// Its next request is dispatched even if the slice is over.
    pub const MUST_DISPATCH: Marks = Marks(1 << 2);
    /// One tag beyond the limit was granted in this slice.
    pub const MUST_ALLOC: Marks = Marks(1 << 3);
    /// The fifo was checked in this slice.
    pub const FIFO_EXPIRE: Marks = Marks(1 << 4);
    /// The queue's behaviour makes idling for it worthwhile.
    pub const IDLE_WINDOW: Marks = Marks(1 << 5);
    /// Class and level are to be recomputed.
    pub const PRIO_CHANGED: Marks = Marks(1 << 6);
    /// The slice begins with the first completion.
    pub const SLICE_NEW: Marks = Marks(1 << 7);
    pub const SYNC: Marks = Marks(1 << 8);
    /// It is shared by several issuers.
    pub const COOP: Marks = Marks(1 << 9);
    /// Its issuers should no longer share it.
    pub const SPLIT_COOP: Marks = Marks(1 << 10);
    /// It had four requests queued at a time, so it is worth idling for even if it is seeky.
    pub const DEEP: Marks = Marks(1 << 11);
    /// Kept beyond its slice so that its group stays in the order.
    pub const WAIT_BUSY: Marks = Marks(1 << 12);
    /// The record is in use.
    pub const USED: Marks = Marks(1 << 13);

    #[inline]
    pub const fn has(self, mark: Marks) -> bool {
        self.0 & mark.0 != 0
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
    pub const fn with(self, mark: Marks) -> Marks {
        Marks(self.0 | mark.0)
    }
}

/// A queue: the sync requests of an issuer, or the async ones of a class and level.
#[derive(Clone, Debug)]
pub struct Queue {
    pub marks: Marks,
    pub class: Class,
    pub level: u8,
    /// Level before any boost; also selects its order by sector.
    pub original_level: u8,
    /// The level of the order by sector that it is in, if any.
    pub sector_level: u8,
    /// The service tree it is in, or NIL.
    pub tree: u32,
    pub group: u32,
    /// The group that it belongs to while it competes in the root instead, or NIL.
    pub origin: u32,
    /// Requests in flight.
    pub dispatched: u32,
    pub pending: Pending,
    /// Number of queued favoured requests.
    pub favoured: u32,
    pub references: References,
    /// The issuer whose name appears in messages.
    pub issuer: u32,
    pub seeks: Seeks,
    pub slice: Slice,
    pub next_free: u32,
}

pub const FREE_QUEUE: Queue = Queue {
    marks: Marks::NONE,
    class: Class::BestEffort,
    level: DEFAULT_LEVEL,
    original_level: DEFAULT_LEVEL,
    sector_level: DEFAULT_LEVEL,
    tree: NIL,
    group: GroupId::ROOT.0,
    origin: NIL,
    dispatched: 0,
    pending: Pending::NONE,
    favoured: 0,
    references: References::NONE,
    issuer: 0,
    seeks: Seeks::NONE,
    slice: Slice::NONE,
    next_free: NIL,
};

/// Level of issuers without one.
pub const DEFAULT_LEVEL: u8 = 4;
/// A queue is seeky if more than an eighth of the bits in its history are set.
const SEEKY_ABOVE: u32 = 32 / 8;

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

    #[inline]
    pub const fn is_idle_class(&self) -> bool {
        matches!(self.class, Class::Idle)
    }

    #[inline]
    pub const fn is_real_time(&self) -> bool {
        matches!(self.class, Class::RealTime)
    }

    #[inline]
    pub const fn is_seeky(&self) -> bool {
        self.seeks.far() > SEEKY_ABOVE
    }

    #[inline]
    pub const fn workload_type(&self) -> WorkloadType {
        if !self.is_sync() {
            WorkloadType::Async
        } else if self.has(Marks::IDLE_WINDOW) {
            WorkloadType::Sync
        } else {
            WorkloadType::SyncNoIdle
        }
    }

    /// References of issuers, including those of scheduled merges.
    #[inline]
    pub const fn process_references(&self) -> u32 {
        self.references.of_processes()
    }
}

/// Think time: the time from a completion to the next request, as a moving average in which 256
/// stands for 1.
#[derive(Copy, Clone, Debug, Default)]
pub struct ThinkTime {
    pub last_end_ticks: u64,
    samples: u32,
    total: u64,
}

impl ThinkTime {
    pub const fn since(now: u64) -> Self {
        Self { last_end_ticks: now, samples: 0, total: 0 }
    }

    /// A request arrived; think times are capped at twice the idle time.
    pub fn add(&mut self, now: u64, idle_ticks: u64) {
        // Idle times are at most u32::MAX ms; 8 x 256 x 2 of them are below 2^64 ns, so nothing
        // here overflows.
        let thought = now.wrapping_sub(self.last_end_ticks).min(idle_ticks.wrapping_mul(2));
        self.samples = (7 * self.samples + 256) / 8;
        self.total = self.total.wrapping_mul(7).wrapping_add(thought.wrapping_mul(256)) / 8;
    }

    /// For messages; rules use [`ThinkTime::is_above`], which needs no division.
    pub const fn mean_ticks(&self) -> u64 {
        match self.total.saturating_add(128).checked_div(self.samples as u64) {
            Some(mean) => mean,
            None => 0,
        }
    }

    /// Valid from the third sample on.
    #[inline]
    pub const fn is_valid(&self) -> bool {
        self.samples > 80
    }

    /// Whether it is valid and longer on average than this.
    #[inline]
    pub const fn is_above(&self, span_ticks: u64) -> bool {
        let least = span_ticks.saturating_add(1).saturating_mul(self.samples as u64);
        self.is_valid() && self.total.saturating_add(128) >= least
    }
}

/// The number of samples converges to this: (7 x 249 + 256) / 8 is 249 again.
const SAMPLES_AT_LAST: u32 = 249;

/// The seek distance of an issuer, as CFQ of 2.6.26 computes it.
#[derive(Copy, Clone, Debug, Default)]
pub struct SeekDistance {
    pub samples: u32,
    total: u64,
    pub mean_sectors: u64,
    pub last_end_sector: u64,
}

impl SeekDistance {
    pub fn add(&mut self, first_sector: u64) {
        let distance = if self.last_end_sector == 0 { 0 } else { first_sector.abs_diff(self.last_end_sector) };
        // Caps a single outlier, so that it cannot spoil the average; more strictly once there are
        // many samples.
        let most: u64 = if self.samples <= 60 { 2 * 1024 * 1024 } else { 2 * 1024 * 64 };
        let counted = distance.min(self.mean_sectors.saturating_mul(4).saturating_add(most));
        self.samples = (7 * self.samples + 256) / 8;
        self.total = self.total.saturating_mul(7).saturating_add(counted.saturating_mul(256)) / 8;
        let rounded = self.total.saturating_add(u64::from(self.samples / 2));
        // The number of samples converges to this: a division by a constant compiles to a
        // multiplication.
        self.mean_sectors = if self.samples == SAMPLES_AT_LAST {
            rounded / SAMPLES_AT_LAST as u64
        } else {
            rounded.checked_div(u64::from(self.samples)).unwrap_or(0)
        };
    }

    #[inline]
    pub const fn is_valid(&self) -> bool {
        self.samples > 80
    }
}

/// The state of an issuer.
#[derive(Copy, Clone, Debug)]
pub struct Context {
    pub is_alive: bool,
    /// Its sync queue, or NIL.
    pub queue: u32,
    /// Its group when it was last seen, or NIL.
    pub group: u32,
    pub priority: Priority,
    /// Number of inserted requests.
    pub inserted: u32,
    pub think: ThinkTime,
    pub seek: SeekDistance,
}

pub const UNKNOWN_CONTEXT: Context = Context {
    is_alive: false,
    queue: NIL,
    group: NIL,
    priority: Priority::NONE,
    inserted: 0,
    think: ThinkTime::since(0),
    seek: SeekDistance { samples: 0, total: 0, mean_sectors: 0, last_end_sector: 0 },
};

/// The state of a group on this device.
#[derive(Copy, Clone, Debug)]
pub struct Group {
    pub vdisktime: u64,
    pub weight: u32,
    /// Weight of its own queues among its children.
    pub leaf_weight: u32,
    /// The values that `weight` and `leaf_weight` get when the group next enters the order.
    pub new_weight: u32,
    pub new_leaf_weight: u32,
    pub parent: u32,
    /// Number of children with busy queues, plus itself if it has busy queues of its own.
    pub active: u32,
    /// Sum of the weights of all that `active` counts.
    pub children_weight: u64,
    /// Its queues' fraction of the device, in 4096ths.
    pub fraction: u64,
    /// Number of queues in its trees.
    pub busy_queues: u32,
    /// Average number of busy queues of best effort and real time.
    pub busy_average: [u32; 2],
    /// Remaining time of the workload that was interrupted; 0 = none.
    pub saved_slice_ticks: u64,
    pub saved_type: WorkloadType,
    pub saved_class: Class,
    /// Its requests in flight.
    pub dispatched: u32,
    pub think: ThinkTime,
    pub waits_since_ns: Option<Nanos>,
    pub empty_since_ns: Option<Nanos>,
    pub account: GroupAccount,
}

pub const UNKNOWN_GROUP: Group = Group {
    vdisktime: 0,
    weight: 100,
    leaf_weight: 100,
    new_weight: 100,
    new_leaf_weight: 100,
    parent: GroupId::ROOT.0,
    active: 0,
    children_weight: 0,
    fraction: 1,
    busy_queues: 0,
    busy_average: [0; 2],
    saved_slice_ticks: 0,
    saved_type: WorkloadType::SyncNoIdle,
    saved_class: Class::BestEffort,
    dispatched: 0,
    think: ThinkTime::since(0),
    waits_since_ns: None,
    empty_since_ns: None,
    account: GroupAccount::ZERO,
};

/// What is being served: a group, a class in it, a type in that, and until when.
#[derive(Copy, Clone, Debug)]
pub struct Workload {
    /// NIL before the first choice.
    pub group: u32,
    pub class: Class,
    pub kind: WorkloadType,
    pub expires_ticks: u64,
    /// A request without `REQ_NOIDLE` has arrived since the workload began
    /// (`noidle_tree_requires_idle`).
    pub requires_idle: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number of samples, mean and validity after requests that came this long after the
    /// completions before them.
    fn after(thoughts: &[u64]) -> (u32, u64, bool) {
        let (mut think, mut now) = (ThinkTime::since(100), 100);
        for thought in thoughts {
            now += thought;
            think.add(now, 8);
            think.last_end_ticks = now;
        }
        assert_eq!(think.is_above(6), think.is_valid() && think.mean_ticks() > 6);
        assert_eq!(think.is_above(8), think.is_valid() && think.mean_ticks() > 8);
        (think.samples, think.mean_ticks(), think.is_valid())
    }

    #[test]
    fn t08_think_times_are_valid_from_the_third_and_biased_up() {
        let samples = [1, 2, 3].map(|count| after(&[8; 3][..count]).0);
        assert_eq!(samples, [32, 60, 84]);
        assert_eq!(
            (after(&[8, 8, 8]), after(&[7, 7, 7]), after(&[0, 0, 0])),
            ((84, 9, true), (84, 8, true), (84, 1, true))
        );
        assert!(!after(&[8, 8]).2);
        assert_eq!(after(&[50, 50, 50]), after(&[16, 16, 16]), "a pause counts for twice the idle time at most");
        assert_eq!(after(&[4; 100]).0, 249);
    }

    #[test]
    fn t11_more_than_four_seeks_in_thirty_two() {
        let seeky = |history| Queue { seeks: Seeks::of_history(history), ..FREE_QUEUE }.is_seeky();
        assert!(seeky(0b11111) && !seeky(0b1111) && !seeky(0));
    }

    #[test]
    fn the_first_engine_measures_seeks_and_clips_stray_ones() {
        let mut seek = SeekDistance::default();
        seek.add(1 << 40);
        assert_eq!(seek.mean_sectors, 0, "nothing to measure from");
        seek.last_end_sector = 8;
        seek.add(1 << 40);
        // The second of 60 samples: capped at 2 Mi sectors; 256 of them over 60.
        assert_eq!((seek.samples, seek.mean_sectors), (60, (2 * 1024 * 1024 * 32 + 30) / 60));
        assert!(!seek.is_valid());
        seek.add(16);
        assert!(seek.is_valid());
    }
}
