//! Allocation of requests in the kernels before blk-mq, and wake-up of sleepers when a request is
//! freed.
//!
//! Two kinds of request are counted separately (reads and writes, or sync and async). Sleepers of a
//! kind wait in order of arrival, but a later bio may take a free request before they run, as in
//! these kernels. Source: Linux 2.4.20 and 2.4.23 drivers/block/ll_rw_blk.c, 2.6.18
//! block/ll_rw_blk.c, get_request and its callers.

use crate::era::{Allocation, Kinds};
use crate::tags::Tags;
use hoistway_block::time::{MILLISECOND, is_due};
use hoistway_block::{ContextId, Direction, Nanos};
use hoistway_elevator::structures::{Array, NoMemory};
use hoistway_elevator::{Bio, Violation};

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
    pub(crate) fn is_second(&self, bio: &Bio) -> bool {
        match self.rule {
            Allocation::Batching { by: Kinds::Sync, .. } => !bio.is_sync(),
            _ => bio.direction() == Direction::Write,
        }
    }

    /// The queue of sleepers for a bio of this kind: a single pool has a single one.
    pub(crate) fn queue_of(&self, is_second: bool) -> bool {
        is_second && !matches!(self.rule, Allocation::SharedList { .. })
    }

    /// Takes a request of a kind if the rule allows it for this bio. A woken task becomes a
    /// batcher.
    pub(crate) fn take(&mut self, tags: &mut Tags, bio: &Bio, is_must: bool, is_woken: bool, now: Nanos) -> bool {
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
    pub(crate) fn came_back(&mut self, tags: &Tags, is_second: bool, sleeping: [bool; 2]) {
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
    pub(crate) fn retry_all(&mut self, tags: &Tags, sleeping: [bool; 2]) {
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

    /// The rule of allocation.
    #[inline]
    pub(crate) fn rule(&self) -> Allocation {
        self.rule
    }

    /// Whether write-back and read-ahead should hold off because too many requests of a kind are allocated.
    pub(crate) fn is_congested(&self, is_second: bool) -> bool {
        self.kinds.get(usize::from(is_second)).is_some_and(|kind| kind.is_congested)
    }

    /// The kind of which a sleeper is to be woken before the present call returns.
    #[inline]
    pub(crate) fn next_due(&self) -> Option<usize> {
        self.kinds.iter().position(|kind| kind.wakes_due > 0)
    }

    /// A sleeper of a kind was woken: it got its request, or it sleeps again and no other is woken.
    pub(crate) fn woke(&mut self, kind: usize, is_let_in: bool) {
        if let Some(kind) = self.kinds.get_mut(kind) {
            kind.wakes_due = if is_let_in { kind.wakes_due.saturating_sub(1) } else { 0 };
        }
    }

    /// Invariants of these allocations.
    pub(crate) fn check(&self, tags: &Tags, sectors: u64, is_switching: bool) -> Result<(), Violation> {
        let broken = |what, at| Err(Violation { what, at });
        if self.rule == Allocation::Tags {
            return Ok(());
        }
        if self.sectors != sectors {
            return broken(
                "the sectors of all bios in requests are counted",
                u32::try_from(sectors).unwrap_or(u32::MAX),
            );
        }
        for (index, kind) in self.kinds.iter().enumerate() {
            if kind.wakes_due > 0 && !is_switching {
                return broken("every pending wake-up is delivered within the call", kind.wakes_due);
            }
            let used = tags.of_kind(index == 1);
            if kind.is_full && used + 1 < tags.depth() {
                return broken("a kind is full only while its limit is reached", used);
            }
        }
        Ok(())
    }
}

fn half(requests: u32) -> u32 {
    (requests / 2).max(1)
}
