//! deadline: one sorted tree and one fifo per direction; batches in ascending order, reads
//! preferred, no starvation.
//!
//! Promise  when a batch ends, an overdue request (`*_expire`) begins the next one of its
//!          direction; writes wait for at most `writes_starved` batches of reads. Deadlines are not
//!          checked inside a batch.
//! Cost     insert O(log n), choose O(1), 50 bytes a slot and 5 KB.
//! Fits     one disk or an array under a database's load. No processes, no groups.
//! Source   Linux 2.6.9 drivers/block/deadline-iosched.c (first form), 4.x block/deadline-iosched.c
//!          (form of 2.6.24).
//!
//! insert -> sorted[direction] + fifo[direction] -> choose -> take -> host
//!
//! Read [`Deadline::pick`] first: it is the whole rule, in both forms.

use crate::interface::{
    Configuration, Dispatch, Elevator, Form, Hint, Merge, MergeSearch, Policy, Position, Side, Version, Violation, Wake,
};
use crate::request::{Bio, Requests};
use crate::structures::{Array, Links, List, NIL, NoMemory, OrderedLinks, OrderedSet};
use crate::traits::{Passing, Traits};
use crate::tunable::{OutOfRange, SettingError, Tunable, Unit};
use hoistway_block::time::{is_due, round_up_to_tick};
use hoistway_block::{Direction, Generation, HardwareQueue, Nanos, RequestId};

crate::tunables! {
    /// The tunables, under the kernel's names.
    pub struct Settings {
        /// Age at which a read becomes overdue.
        read_expire_ns: "read_expire", Unit::Milliseconds, 0..=2_147_483_647, 500, OutOfRange::Clamp,
            "A read older than this begins the next batch of reads.";
        /// Age at which a write becomes overdue.
        write_expire_ns: "write_expire", Unit::Milliseconds, 0..=2_147_483_647, 5000, OutOfRange::Clamp,
            "A write older than this begins the next batch of writes.";
        /// How many batches of reads are chosen while writes wait.
        writes_starved: "writes_starved", Unit::Count, -2_147_483_648..=2_147_483_647, 2, OutOfRange::Clamp,
            "Batches of reads that may be chosen while writes wait; 0 and below let writes win.";
        /// Whether bios may be merged at the front of a request.
        front_merges: "front_merges", Unit::Boolean, 0..=1, 1, OutOfRange::Clamp,
            "Whether front merges are searched; 0 saves the search.";
        /// Requests per batch.
        fifo_batch: "fifo_batch", Unit::Count, 0..=2_147_483_647, 16, OutOfRange::Clamp,
            "Requests dispatched in ascending order before deadlines are checked again; 0 counts as 1.";
    }
}

crate::reasons! {
    /// Why a request was chosen.
    pub enum Why {
        BatchGoesOn = "batch goes on",
        Overdue = "overdue",
        NextInOrder = "next in order",
        StartAtOldest = "start at oldest",
        StartAtLowest = "start at lowest sector",
        HeadInsert = "put in front",
    }
}

/// How a batch continues and where one begins.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Batches {
    /// Until 2.6.23: a contiguous run is a batch, and each seek counts as a whole batch; begins at
    /// the lowest sector.
    OfContiguous,
    /// Since 2.6.24: a number of requests, contiguous or not; begins at the oldest.
    OfRequests,
}

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Held {
    Nowhere,
    Sorted,
    Head,
}

/// The policy's state of a request.
#[derive(Copy, Clone, Debug)]
#[repr(C, packed(4))]
struct Slot {
    due_ns: Nanos,
    generation: Generation,
    direction: Direction,
    held: Held,
}

const _: () = assert!(size_of::<Slot>() == 12, "one for each request there may be");

const FREE: Slot = Slot { due_ns: 0, generation: Generation::NONE, direction: Direction::Read, held: Held::Nowhere };

/// The queues of one direction.
#[derive(Debug)]
struct Queue {
    sorted: OrderedSet,
    fifo: List,
    /// The successor of the request sent last, if that was of this direction; otherwise NIL.
    next: u32,
}

const EMPTY: Queue = Queue { sorted: OrderedSet::EMPTY, fifo: List::EMPTY, next: NIL };

/// The policy's state.
#[derive(Debug)]
pub struct Deadline {
    batches: Batches,
    settings: Settings,
    slots: Array<Slot>,
    sorted: OrderedLinks,
    /// A slot is on a fifo or on the head list, so one set of links serves both.
    links: Links,
    read: Queue,
    write: Queue,
    head: List,
    /// Requests sent in this batch; in the older form a seek counts as `fifo_batch` requests.
    batching: i64,
    /// Batches of reads chosen since writes began to wait.
    starved: i64,
    /// End sector of the request sent last.
    last_end: u64,
    held: u32,
    tick_ns: Nanos,
    violations: u32,
}

impl Policy for Deadline {
    type Profile = Batches;
    const FORMS: &'static [Form<Batches>] = &[
        Form { since: Version(2, 6, 0), profile: Batches::OfContiguous },
        Form { since: Version(2, 6, 24), profile: Batches::OfRequests },
    ];

    fn build(configuration: &Configuration, batches: Batches) -> Result<Self, NoMemory> {
        let slots = configuration.slots;
        let mut policy = Self {
            batches,
            settings: Settings::DEFAULT,
            slots: Array::try_new(slots, FREE)?,
            sorted: OrderedLinks::try_new(slots, 2)?,
            links: Links::try_new(slots)?,
            read: EMPTY,
            write: EMPTY,
            head: List::EMPTY,
            batching: 0,
            starved: 0,
            last_end: 0,
            held: 0,
            tick_ns: configuration.tick_ns,
            violations: 0,
        };
        policy.round_settings();
        Ok(policy)
    }
}

impl Elevator for Deadline {
    const TRAITS: Traits =
        Traits { ticks_suffice: true, passing: Passing::Batches { has_classes: false }, ..Traits::PLAIN };

    fn merge_search(&self) -> MergeSearch {
        if self.settings.front_merges == 0 { MergeSearch::Pipeline } else { MergeSearch::PipelineThenFront }
    }

    fn merge(&mut self, _requests: &Requests, bio: &Bio, _now: Nanos) -> Merge {
        let queue = self.queue(bio.direction());
        match queue.sorted.find_exact(&self.sorted, bio.extent.end()) {
            Some(slot) if self.settings.front_merges != 0 => Merge::Into(self.id_in(slot), Side::Front),
            _ => Merge::No(Hint::None),
        }
    }

    fn bio_merged(&mut self, requests: &Requests, id: RequestId, side: Side, _now: Nanos) {
        let Slot { held, direction, .. } = *self.slots.at(id.slot());
        match (held, side) {
            (Held::Sorted, Side::Front) => {
                // If the request was remembered as the next one, it still is, wherever it begins
                // now.
                let (queue, sorted, _) = self.queue_and_links(direction);
                queue.sorted.remove(sorted, id.slot());
                queue.sorted.insert(sorted, id.slot(), requests.at(id).first_sector());
            }
            (Held::Sorted, _) => {}
            _ => self.count_violation(),
        }
    }

    fn requests_merged(&mut self, _requests: &Requests, keep: RequestId, gone: RequestId, _now: Nanos) {
        let (kept, absorbed) = (*self.slots.at(keep.slot()), *self.slots.at(gone.slot()));
        if absorbed.held == Held::Nowhere || absorbed.generation != Generation::of(gone) {
            // `gone` was merged before it was inserted, so the policy does not hold it.
            return;
        }
        let are_alike = kept.direction == absorbed.direction;
        if are_alike
            && kept.held == Held::Sorted
            && absorbed.held == Held::Sorted
            && !is_due(absorbed.due_ns, kept.due_ns)
        {
            // The request that stays takes over the place and deadline of the more urgent of the
            // two.
            let (queue, _, links) = self.queue_and_links(kept.direction);
            queue.fifo.remove(links, keep.slot());
            queue.fifo.insert_before(links, gone.slot(), keep.slot());
            self.slots.at_mut(keep.slot()).due_ns = absorbed.due_ns;
        }
        self.unlink(gone.slot());
    }

    fn former(&self, _requests: &Requests, id: RequestId) -> Option<RequestId> {
        Some(self.id_in(self.sorted.prev(id.slot())?))
    }

    fn latter(&self, _requests: &Requests, id: RequestId) -> Option<RequestId> {
        Some(self.id_in(self.sorted.next(id.slot())?))
    }

    fn insert(&mut self, requests: &Requests, id: RequestId, at: Position, now: Nanos) -> Wake {
        let slot = id.slot();
        if self.slots.get(slot).is_none_or(|entry| entry.held != Held::Nowhere) {
            self.count_violation();
            return Wake::No;
        }
        let attributes = requests.attributes(id);
        let (direction, generation) = (attributes.direction(), Generation::of(id));
        self.held = self.held.wrapping_add(1);
        match at {
            Position::Sorted(_) => {
                let due_ns = self.whole_ticks(now).wrapping_add(self.expire_ns(direction));
                *self.slots.at_mut(slot) = Slot { due_ns, generation, direction, held: Held::Sorted };
                let (queue, sorted, links) = self.queue_and_links(direction);
                queue.sorted.insert(sorted, slot, attributes.extent.first_sector);
                queue.fifo.push_back(links, slot);
            }
            Position::Head | Position::Requeue => {
                *self.slots.at_mut(slot) = Slot { due_ns: now, generation, direction, held: Held::Head };
                self.head.push_front(&mut self.links, slot);
            }
        }
        Wake::All
    }

    fn choose(&mut self, requests: &Requests, _queue: HardwareQueue, now: Nanos) -> Dispatch {
        if let Some(slot) = self.head.pop_front(&mut self.links) {
            self.unlinked(slot);
            return Dispatch::Request { id: self.id_in(slot), reason: Why::HeadInsert.into() };
        }
        let Some((direction, slot, why)) = self.pick(requests, self.whole_ticks(now)) else { return Dispatch::Empty };
        let id = self.id_in(slot);
        self.last_end = requests.attributes(id).extent.end();
        self.batching = self.batching.saturating_add(1);
        self.take(direction, slot);
        Dispatch::Request { id, reason: why.into() }
    }

    fn drain(&mut self, requests: &Requests, now: Nanos) -> Option<RequestId> {
        match self.choose(requests, HardwareQueue(0), now) {
            Dispatch::Request { id, .. } => Some(id),
            _ => None,
        }
    }

    fn has_work(&self, _queue: HardwareQueue) -> bool {
        self.held != 0
    }

    fn released(&mut self, _requests: &Requests, id: RequestId, _now: Nanos) -> Wake {
        let Slot { generation, held, .. } = *self.slots.at(id.slot());
        if held != Held::Nowhere && generation == Generation::of(id) {
            // Taken back before it was chosen.
            self.unlink(id.slot());
        }
        Wake::No
    }

    fn reasons(&self) -> &'static [&'static str] {
        Why::NAMES
    }

    fn tunables(&self) -> &'static [Tunable] {
        Settings::ROWS
    }

    fn setting(&self, index: usize) -> Option<i64> {
        self.settings.get(index)
    }

    fn set(&mut self, index: usize, value: i64) -> Result<(), SettingError> {
        self.settings.set(index, value)?;
        self.round_settings();
        Ok(())
    }

    fn violations(&self) -> u32 {
        self.violations
    }

    fn check(&self, requests: &Requests) -> Result<(), Violation> {
        let mut held = self.head.len();
        for direction in [Direction::Read, Direction::Write] {
            held = held.wrapping_add(self.queue(direction).fifo.len());
            self.check_queue(requests, direction)?;
        }
        if held != self.held {
            return Err(Violation { what: "the lists hold as many requests as are counted", at: held });
        }
        Ok(())
    }
}

impl Deadline {
    /// The next request, its direction, and the reason. Of the policy's state only the counts of
    /// batches change.
    #[inline]
    fn pick(&mut self, requests: &Requests, now: Nanos) -> Option<(Direction, u32, Why)> {
        let going_on = if self.write.next == NIL { Direction::Read } else { Direction::Write };
        let next = self.queue(going_on).next;
        if next != NIL {
            let begins = requests.at(self.id_in(next)).first_sector();
            if self.batches == Batches::OfContiguous && begins != self.last_end {
                self.batching = self.batching.saturating_add(self.settings.fifo_batch);
            }
            if self.batching < self.settings.fifo_batch {
                return Some((going_on, next, Why::BatchGoesOn));
            }
        }
        let direction = self.turn()?;
        let queue = self.queue(direction);
        let (oldest, next, lowest) = (queue.fifo.first()?, queue.next, queue.sorted.first(&self.sorted));
        let due_ns = self.slots.at(oldest).due_ns;
        // In the older form the deadline must have passed, not only have been reached.
        let is_overdue = match self.batches {
            Batches::OfContiguous => !is_due(due_ns, now),
            Batches::OfRequests => is_due(now, due_ns),
        };
        if is_overdue {
            self.batching = 0;
            return Some((direction, oldest, Why::Overdue));
        }
        match self.batches {
            // `batching` is not reset and stays above the limit, so that the direction is decided
            // again for every further request.
            Batches::OfContiguous if next != NIL => Some((direction, next, Why::NextInOrder)),
            Batches::OfContiguous => {
                self.batching = 0;
                Some((direction, lowest?, Why::StartAtLowest))
            }
            Batches::OfRequests => {
                self.batching = 0;
                let (slot, why) = if next == NIL { (oldest, Why::StartAtOldest) } else { (next, Why::NextInOrder) };
                Some((direction, slot, why))
            }
        }
    }

    /// The direction of the next batch; `None` when nothing is queued.
    #[inline]
    fn turn(&mut self) -> Option<Direction> {
        let (reads_wait, writes_wait) = (!self.read.fifo.is_empty(), !self.write.fifo.is_empty());
        if reads_wait {
            let starved = self.starved;
            if !writes_wait {
                return Some(Direction::Read);
            }
            self.starved = starved.saturating_add(1);
            if starved < self.settings.writes_starved {
                return Some(Direction::Read);
            }
        } else if !writes_wait {
            return None;
        }
        self.starved = 0;
        Some(Direction::Write)
    }

    /// Removes a chosen request; only its own direction keeps a position to continue from.
    #[inline]
    fn take(&mut self, direction: Direction, slot: u32) {
        self.read.next = NIL;
        self.write.next = NIL;
        let (queue, sorted, links) = self.queue_and_links(direction);
        let Some(removed) = queue.sorted.remove(sorted, slot) else { return self.count_violation() };
        queue.next = removed.next.unwrap_or(NIL);
        queue.fifo.remove(links, slot);
        self.unlinked(slot);
    }

    fn unlink(&mut self, slot: u32) {
        let Slot { held, direction, .. } = *self.slots.at(slot);
        let done = match held {
            Held::Sorted => {
                let (queue, sorted, links) = self.queue_and_links(direction);
                let removed = queue.sorted.remove(sorted, slot);
                if queue.next == slot {
                    queue.next = removed.and_then(|removed| removed.next).unwrap_or(NIL);
                }
                queue.fifo.remove(links, slot) && removed.is_some()
            }
            Held::Head => self.head.remove(&mut self.links, slot),
            Held::Nowhere => false,
        };
        if done {
            self.unlinked(slot);
        } else {
            self.count_violation();
        }
    }

    #[inline]
    fn unlinked(&mut self, slot: u32) {
        self.slots.at_mut(slot).held = Held::Nowhere;
        self.held = self.held.wrapping_sub(1);
    }

    fn check_queue(&self, requests: &Requests, direction: Direction) -> Result<(), Violation> {
        let queue = self.queue(direction);
        if queue.sorted.len() != queue.fifo.len() {
            return Err(Violation {
                what: "the sorted tree and the fifo hold the same requests",
                at: queue.fifo.len(),
            });
        }
        let mut before = 0;
        let mut knows_next = queue.next == NIL;
        for slot in queue.sorted.iter(&self.sorted).take(self.slots.len() as usize) {
            let entry = self.slots.at(slot);
            if (entry.held, entry.direction) != (Held::Sorted, direction) {
                return Err(Violation { what: "a sorted request is in the tree of its direction", at: slot });
            }
            let key = self.sorted.key(slot).unwrap_or(0);
            let id = self.id_in(slot);
            if !requests.is_live(id) || key != requests.at(id).first_sector() || key < before {
                return Err(Violation { what: "requests are sorted by their first sectors", at: slot });
            }
            before = key;
            knows_next |= queue.next == slot;
        }
        if knows_next {
            Ok(())
        } else {
            Err(Violation { what: "a direction continues at a request of its own tree", at: queue.next })
        }
    }

    #[inline]
    fn id_in(&self, slot: u32) -> RequestId {
        self.slots.at(slot).generation.id(slot)
    }

    #[cold]
    fn count_violation(&mut self) {
        self.violations = self.violations.saturating_add(1);
    }

    #[inline]
    const fn queue(&self, direction: Direction) -> &Queue {
        match direction {
            Direction::Read => &self.read,
            Direction::Write => &self.write,
        }
    }

    #[inline]
    const fn queue_and_links(&mut self, direction: Direction) -> (&mut Queue, &mut OrderedLinks, &mut Links) {
        let queue = match direction {
            Direction::Read => &mut self.read,
            Direction::Write => &mut self.write,
        };
        (queue, &mut self.sorted, &mut self.links)
    }

    #[inline]
    const fn expire_ns(&self, direction: Direction) -> Nanos {
        match direction {
            Direction::Read => self.settings.read_expire_ns.unsigned_abs(),
            Direction::Write => self.settings.write_expire_ns.unsigned_abs(),
        }
    }

    /// The time as seen by a kernel that counts ticks.
    #[inline]
    const fn whole_ticks(&self, now: Nanos) -> Nanos {
        match now.checked_rem(self.tick_ns) {
            Some(over) => now.wrapping_sub(over),
            None => now,
        }
    }

    /// Rounds spans to whole ticks, as they are stored and read back.
    fn round_settings(&mut self) {
        let Settings { read_expire_ns, write_expire_ns, .. } = &mut self.settings;
        for span_ns in [read_expire_ns, write_expire_ns] {
            let rounded = round_up_to_tick(span_ns.unsigned_abs(), self.tick_ns);
            *span_ns = i64::try_from(rounded).unwrap_or(i64::MAX);
        }
    }
}
