//! Chooses the command that the head serves next: shortest positioning time first.
//!
//! Reads, and writes that a command waits for, are always candidates (with `coalesce`, a read that
//! continues a waiting one only if it is too old); dirty extents only under the conditions of
//! [`WriteCache::competes`]. docs/specifications/devices.md, section 4.7, applies max_age and order
//! of arrival only to reads; here they also apply to uncached writes, to writes that wait for room
//! in the cache, and to flushes, because a steady reader would starve those otherwise.
//!
//! Cost: one pass; per candidate one look-up of the seek time and five multiplications.

use hoistway_block::Nanos;

use super::geometry::{Place, Track};
use super::mechanics::Mechanics;
use super::parameters::DiskOrder;
use super::read_queue::ReadQueue;
use super::write_cache::WriteCache;

/// The choice: an index into the waiting reads or the dirty extents. It is valid until one of them
/// is removed.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Choice {
    Read(usize),
    Extent(usize),
}

/// The parameters of the choice.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Chooser {
    reorder: bool,
    coalesce: bool,
    age_weight_millionths: u64,
    max_age_ns: Nanos,
}

/// The conditions of a choice: the time, and where and when the head will be free.
#[derive(Copy, Clone, Debug)]
pub(crate) struct ChoiceContext {
    pub(crate) now: Nanos,
    pub(crate) free_at: Nanos,
    pub(crate) from: Track,
}

/// The minimum of a key so far; equal keys by order of submission.
#[derive(Copy, Clone, Debug, Default)]
struct Least<Key>(Option<(Key, u64, Choice)>);

impl<Key: Ord + Copy> Least<Key> {
    #[inline]
    fn offer(&mut self, key: Key, sequence: u64, choice: Choice) {
        if self.0.is_none_or(|least| (key, sequence) < (least.0, least.1)) {
            self.0 = Some((key, sequence, choice));
        }
    }

    fn choice(self) -> Option<Choice> {
        self.0.map(|least| least.2)
    }
}

impl Chooser {
    pub(crate) fn new(order: &DiskOrder) -> Self {
        Self {
            reorder: order.reorder != 0,
            coalesce: order.coalesce != 0,
            age_weight_millionths: order.age_weight_millionths,
            max_age_ns: order.max_age_ns,
        }
    }

    /// The next piece of work, `None` if none may start.
    pub(crate) fn choose(
        &self,
        context: ChoiceContext,
        mechanics: &Mechanics,
        reads: &ReadQueue,
        writes: &WriteCache,
    ) -> Option<Choice> {
        // `oldest` is the command that was submitted first, `command` and (below) `cached` the
        // command and the cached extent of the smallest cost.
        let mut oldest: Least<Nanos> = Least(None);
        let mut command: Least<i64> = Least(None);
        for (index, read) in reads.iter().enumerate() {
            oldest.offer(read.submitted_at, read.sequence, Choice::Read(index));
            if self.coalesce && read.continues_a_waiting_one() {
                continue;
            }
            let cost = self.cost(context, mechanics, read.place, false, read.submitted_at);
            command.offer(cost, read.sequence, Choice::Read(index));
        }
        if writes.is_clean() {
            return self.decide(context.now, None, oldest, command, Least(None));
        }
        for (index, extent) in writes.iter().enumerate().filter(|(_, extent)| extent.waiter.is_some()) {
            oldest.offer(extent.since, extent.sequence, Choice::Extent(index));
            let cost = self.cost(context, mechanics, extent.place, true, extent.since);
            command.offer(cost, extent.sequence, Choice::Extent(index));
        }
        let mut cached: Least<i64> = Least(None);
        let competes = writes.competes(oldest.0.is_some());
        for (index, extent) in writes.iter().enumerate() {
            if extent.waiter.is_none() && competes(extent) {
                let cost = self.cost(context, mechanics, extent.place, true, extent.since);
                cached.offer(cost, extent.sequence, Choice::Extent(index));
            }
        }
        self.decide(context.now, writes.oldest_blocked(), oldest, command, cached)
    }

    fn decide(
        &self,
        now: Nanos,
        blocked: Option<(u64, Nanos)>,
        oldest: Least<Nanos>,
        command: Least<i64>,
        cached: Least<i64>,
    ) -> Option<Choice> {
        let first = |since: Nanos| !self.reorder || now.saturating_sub(since) > self.max_age_ns;
        if let Some((sequence, since)) = blocked.filter(|blocked| first(blocked.1)) {
            let is_oldest = oldest.0.is_none_or(|oldest| (since, sequence) < (oldest.0, oldest.1));
            if is_oldest && cached.0.is_some() {
                return cached.choice();
            }
        }
        if oldest.0.is_some_and(|oldest| first(oldest.0)) {
            return oldest.choice();
        }
        let mut least = command;
        if let Some((cost, sequence, choice)) = cached.0 {
            least.offer(cost, sequence, choice);
        }
        least.choice()
    }

    /// Positioning time, less the credit for the time waited.
    #[inline]
    fn cost(&self, context: ChoiceContext, mechanics: &Mechanics, target: Place, is_write: bool, since: Nanos) -> i64 {
        let planned_ns = mechanics.planned_ns(context.free_at, context.from, target, is_write);
        let cost = i64::try_from(planned_ns).unwrap_or(i64::MAX);
        if self.age_weight_millionths == 0 {
            return cost;
        }
        let waited_ns = u128::from(context.now.saturating_sub(since));
        let credit = waited_ns * u128::from(self.age_weight_millionths) / 1_000_000;
        cost.saturating_sub(i64::try_from(credit).unwrap_or(i64::MAX))
    }
}
