//! Allocation of requests in the kernels before blk-mq, and wake-up of sleepers when a request is
//! freed.
//!
//! Two kinds of request are counted separately (reads and writes, or sync and async). Sleepers of a
//! kind wait in order of arrival, but a later bio may take a free request before they run, as in
//! these kernels. Source: Linux 2.4.20 and 2.4.23 drivers/block/ll_rw_blk.c, 2.6.18
//! block/ll_rw_blk.c, get_request and its callers.

use crate::RequestQueue;
use crate::entry::Entered;
use crate::era::{Allocation, Kinds};
use crate::tags::Tags;
use hoistway_block::time::{MILLISECOND, is_due};
use hoistway_block::{ContextId, Direction, Nanos};
use hoistway_elevator::structures::{Array, NoMemory};
use hoistway_elevator::{Admission, Bio, Elevator, Violation};

/// Requests that a batcher may take while its kind is full (Linux `BLK_BATCH_REQ`).
const BATCH_REQUESTS: u32 = 32;
/// Duration of a batch (Linux `BLK_BATCH_TIME`).
const BATCH_TIME_NS: Nanos = 20 * MILLISECOND;

/// A task's permission to take requests of a full kind.
#[derive(Copy, Clone, Debug)]
struct Batcher {
    left: u32,
    since_ns: Nanos,
}

impl Batcher {
    const NONE: Batcher = Batcher { left: 0, since_ns: 0 };

    /// The first request of a batch may be taken at any time, the others within the batch's time.
    fn is_active(self, now: Nanos) -> bool {
        self.left == BATCH_REQUESTS || (self.left > 0 && !is_due(now, self.since_ns.saturating_add(BATCH_TIME_NS)))
    }

    fn begin(&mut self, now: Nanos) {
        if !self.is_active(now) {
            *self = Batcher { left: BATCH_REQUESTS, since_ns: now };
        }
    }
}

/// State of one kind.
#[derive(Copy, Clone, Debug, Default)]
struct Kind {
    is_full: bool,
    is_congested: bool,
    /// Sleepers to wake before the present call returns.
    wakes_due: u32,
}

/// The state of the old allocations beside the counts of [`Tags`].
#[derive(Debug)]
pub(crate) struct RequestLists {
    rule: Allocation,
    kinds: [Kind; 2],
    /// By context; empty unless the era has batchers.
    batchers: Array<Batcher>,
    /// Sectors of all bios that belong to a request.
    sectors: u64,
}

/// The number of allocated requests at which a kind becomes congested.
fn congestion_on(requests: u32) -> u32 {
    (requests - requests / 8 + 1).min(requests)
}

fn congestion_off(requests: u32) -> u32 {
    (requests - requests / 8).saturating_sub(requests / 16 + 1).max(1)
}

/// The number of free requests from which on a sleeper is woken.
fn worth_waking(requests: u32) -> u32 {
    (requests / 4).clamp(1, 32)
}

impl RequestLists {
    pub(crate) fn try_new(rule: Allocation, contexts: u32) -> Result<Self, NoMemory> {
        let contexts = if matches!(rule, Allocation::Batching { .. }) { contexts } else { 0 };
        let batchers = Array::try_new(contexts, Batcher::NONE)?;
        Ok(Self { rule, kinds: [Kind::default(); 2], batchers, sectors: 0 })
    }

    /// Which of the two kinds a bio belongs to: reads or sync (false), writes or async (true).
    fn is_second(&self, bio: &Bio) -> bool {
        match self.rule {
            Allocation::Batching { by: Kinds::Sync, .. } => !bio.is_sync(),
            _ => bio.direction() == Direction::Write,
        }
    }

    /// The queue of sleepers for a bio of this kind: a single pool has a single one.
    fn queue_of(&self, is_second: bool) -> bool {
        is_second && !matches!(self.rule, Allocation::SharedList { .. })
    }

    /// Takes a request of a kind if the rule allows it for this bio. A woken task becomes a
    /// batcher.
    fn take(&mut self, tags: &mut Tags, bio: &Bio, is_must: bool, is_woken: bool, now: Nanos) -> bool {
        let is_second = self.is_second(bio);
        let is_taken = match self.rule {
            Allocation::Tags => tags.in_use() < tags.depth(),
            Allocation::SplitLists => tags.of_kind(is_second) < half(tags.depth()),
            Allocation::SharedList { max_queue_sectors } => self.fits_under_cap(tags, is_second, max_queue_sectors),
            Allocation::Batching { is_capped, .. } => {
                let kind_is_woken = is_woken.then_some(bio.context);
                return self.take_batching(tags, bio, is_must, is_capped, kind_is_woken, now);
            }
        };
        if is_taken {
            tags.take_of_kind(is_second);
        }
        is_taken
    }

    fn fits_under_cap(&self, tags: &Tags, is_second: bool, max_queue_sectors: u32) -> bool {
        let cap = u64::from(max_queue_sectors);
        if tags.in_use() >= tags.depth() {
            return false;
        }
        let few_reads = (tags.depth() / 32).max(4);
        self.sectors <= cap || (!is_second && tags.of_kind(false) <= few_reads && self.sectors <= cap + cap / 4)
    }

    fn take_batching(
        &mut self,
        tags: &mut Tags,
        bio: &Bio,
        is_must: bool,
        is_capped: bool,
        woken: Option<ContextId>,
        now: Nanos,
    ) -> bool {
        let is_second = self.is_second(bio);
        let (limit, used) = (tags.depth(), tags.of_kind(is_second));
        let Some(kind) = self.kinds.get_mut(usize::from(is_second)) else { return false };
        let batcher = self.batchers.at_mut(bio.context.0);
        if woken.is_some() {
            batcher.begin(now);
        }
        let fills = used + 1 >= limit && !kind.is_full;
        let is_batcher = woken.is_some() || batcher.is_active(now);
        if (kind.is_full && !is_batcher && !is_must) || (is_capped && used >= (limit + limit / 2).max(1)) {
            return false;
        }
        if batcher.is_active(now) {
            batcher.left -= 1;
        }
        if fills {
            // The request that fills the kind is not yet part of the batch.
            kind.is_full = true;
            batcher.begin(now);
        }
        tags.take_of_kind(is_second);
        kind.is_congested |= used + 1 >= congestion_on(limit);
        true
    }

    /// A request of a kind was freed. `sleeping` says which kinds have sleepers.
    fn came_back(&mut self, tags: &Tags, is_second: bool, sleeping: [bool; 2]) {
        let (limit, used) = (tags.depth(), tags.of_kind(is_second));
        let wakes = match self.rule {
            Allocation::Tags => false,
            Allocation::SplitLists => half(limit).saturating_sub(used) >= worth_waking(limit).min(half(limit)),
            Allocation::SharedList { max_queue_sectors } => {
                let cap = u64::from(max_queue_sectors);
                limit.saturating_sub(tags.in_use()) >= worth_waking(limit) && self.sectors <= cap - cap / 4
            }
            Allocation::Batching { .. } => used < limit,
        };
        let queue = self.queue_of(is_second);
        if let Some(kind) = self.kinds.get_mut(usize::from(is_second)) {
            kind.is_full &= used >= limit;
            kind.is_congested &= used >= congestion_off(limit);
        }
        for (index, (kind, sleeps)) in self.kinds.iter_mut().zip(sleeping).enumerate() {
            let is_own = index == usize::from(queue);
            // If no request of a kind is allocated, none of that kind can be freed. Its sleepers
            // wait because the request table was full, so the request of the other kind wakes them.
            let is_starved = !is_own && tags.of_kind(index == 1) == 0;
            let is_woken = sleeps && ((is_own && wakes) || is_starved);
            kind.wakes_due = kind.wakes_due.saturating_add(u32::from(is_woken));
        }
    }

    /// The depths changed: flags are updated, and every sleeper retries.
    fn retry_all(&mut self, tags: &Tags, sleeping: [bool; 2]) {
        for (index, (kind, sleeps)) in self.kinds.iter_mut().zip(sleeping).enumerate() {
            let used = tags.of_kind(index == 1);
            if let Allocation::Batching { .. } = self.rule {
                kind.is_full = used >= tags.depth();
                kind.is_congested &= used >= congestion_off(tags.depth());
                kind.is_congested |= used >= congestion_on(tags.depth());
            }
            kind.wakes_due = if sleeps { u32::MAX } else { 0 };
        }
    }

    pub(crate) fn entered(&mut self, bio: &Bio) {
        self.sectors = self.sectors.saturating_add(u64::from(bio.extent.sectors));
    }

    pub(crate) fn left(&mut self, sectors: u32) {
        self.sectors = self.sectors.saturating_sub(u64::from(sectors));
    }
}

fn half(requests: u32) -> u32 {
    (requests / 2).max(1)
}

impl<E: Elevator> RequestQueue<E> {
    /// Whether write-back and read-ahead should hold off because too many requests of a direction
    /// are allocated: from 113 of 128 on, until fewer than 103 are. Where sync and async are
    /// counted separately, reads stand for sync and writes for async. Always false where the era
    /// has no such flag (2.4, blk-mq).
    pub fn is_congested(&self, direction: Direction) -> bool {
        let [first, second] = self.lists.kinds;
        if direction == Direction::Write { second.is_congested } else { first.is_congested }
    }

    /// Runs before a bio looks for merge candidates: a new bio may plug the queue, and a woken one
    /// takes its request first and holds it during the search. An error names the queue on which it
    /// continues to sleep.
    #[cold]
    pub(crate) fn begin_by_lists(&mut self, bio: &Bio, is_new: bool, now: Nanos) -> Result<(), bool> {
        if is_new {
            self.plug_if_empty(now);
            return Ok(());
        }
        self.take_from_list(bio, true, now).map(|_| ())
    }

    /// The bio merged; the request that it held is freed.
    #[cold]
    pub(crate) fn merged_by_lists(&mut self, bio: &Bio, is_new: bool, now: Nanos) {
        self.lists.entered(bio);
        if !is_new {
            self.give_back_request(self.lists.is_second(bio));
        }
        self.unplug_by_threshold(bio, now);
    }

    /// The bio did not merge; it takes a request unless it holds one. Returns the request's kind.
    #[cold]
    pub(crate) fn take_by_lists(&mut self, bio: &Bio, is_new: bool, now: Nanos) -> Result<bool, bool> {
        if is_new { self.take_from_list(bio, false, now) } else { Ok(self.lists.is_second(bio)) }
    }

    /// The bio has entered.
    #[cold]
    pub(crate) fn entered_by_lists(&mut self, bio: &Bio, now: Nanos) {
        self.lists.entered(bio);
        self.unplug_by_threshold(bio, now);
    }

    /// Takes a request and returns its kind, or returns the queue to sleep on.
    fn take_from_list(&mut self, bio: &Bio, is_woken: bool, now: Nanos) -> Result<bool, bool> {
        let is_must = self.elevator.admit(bio, now) == Admission::Must;
        let is_second = self.lists.is_second(bio);
        // One slot per hardware queue is reserved for its flush command.
        let slots = self.requests.capacity().saturating_sub(self.in_device.len()).max(1);
        if self.requests.in_use() < slots && self.lists.take(&mut self.tags, bio, is_must, is_woken, now) {
            Ok(is_second)
        } else {
            Err(self.lists.queue_of(is_second))
        }
    }

    /// The queue of sleepers for a bio that could not yet try to take a request.
    #[cold]
    pub(crate) fn sleeps_apart(&self, bio: &Bio) -> bool {
        self.lists.rule != Allocation::Tags && self.lists.queue_of(self.lists.is_second(bio))
    }

    /// A request of a kind was freed.
    #[inline]
    pub(crate) fn give_back_request(&mut self, is_second: bool) {
        self.tags.give_back(is_second);
        if self.era.allocation != Allocation::Tags {
            self.came_back(is_second);
        }
    }

    #[cold]
    fn came_back(&mut self, is_second: bool) {
        let sleeping = self.waiting.map(|chain| !chain.is_empty());
        self.lists.came_back(&self.tags, is_second, sleeping);
    }

    /// The depth or the policy changed: all sleepers retry when they are next woken.
    pub(crate) fn retry_sleepers(&mut self) {
        let sleeping = self.waiting.map(|chain| !chain.is_empty());
        self.lists.retry_all(&self.tags, sleeping);
    }

    /// A bio merged, and two requests may have become one: the old kernels wake a sleeper for the
    /// freed one.
    #[inline]
    pub(crate) fn merging_freed_a_request(&mut self, now: Nanos) {
        if self.lists.kinds.iter().any(|kind| kind.wakes_due > 0) {
            self.admit_waiting(now);
        }
    }

    /// Wakes the sleepers due after this call; each one runs at once and takes its request before
    /// others move.
    #[cold]
    pub(crate) fn wake_sleepers(&mut self, now: Nanos) {
        // Each round removes a sleeper or ends a kind's wakes, so the number of bios bounds the
        // rounds.
        while let Some(kind) = self.lists.kinds.iter().position(|kind| kind.wakes_due > 0) {
            let index = self.waiting.get_mut(kind).and_then(|chain| self.bios.pop(chain));
            let is_let_in = index.is_some_and(|index| self.wake(index, now));
            if let Some(kind) = self.lists.kinds.get_mut(kind) {
                kind.wakes_due = if is_let_in { kind.wakes_due.saturating_sub(1) } else { 0 };
            }
        }
    }

    fn wake(&mut self, index: u32, now: Nanos) -> bool {
        match self.admit_bio(index, now) {
            Entered::NoTag { limited } => {
                self.bios.prepend(&mut self.waiting[usize::from(limited)], index);
                false
            }
            Entered::Merged(_) | Entered::Queued(_) => true,
        }
    }

    /// Invariants of these allocations.
    pub(crate) fn check_lists(&self, sectors: u64) -> Result<(), Violation> {
        let broken = |what, at| Err(Violation { what, at });
        if self.lists.rule == Allocation::Tags {
            return Ok(());
        }
        if self.lists.sectors != sectors {
            return broken(
                "the sectors of all bios in requests are counted",
                u32::try_from(sectors).unwrap_or(u32::MAX),
            );
        }
        for (index, kind) in self.lists.kinds.iter().enumerate() {
            if kind.wakes_due > 0 && self.switching.is_none() {
                return broken("every pending wake-up is delivered within the call", kind.wakes_due);
            }
            let used = self.tags.of_kind(index == 1);
            if kind.is_full && used + 1 < self.tags.depth() {
                return broken("a kind is full only while its limit is reached", used);
            }
            if self.lists.rule == Allocation::SplitLists
                && self.tags.of_kind(index == 1) == 0
                && !self.waiting[index].is_empty()
                && self.switching.is_none()
            {
                return broken("no submitter sleeps for a kind without allocated requests", used);
            }
        }
        Ok(())
    }
}
