//! The engine's counters: requests, bytes, errors, and three times per group.
//!
//! They are written under the device's lock or by the thread that owns them, with plain stores; readers
//! get a copy.

use hoistway_block::Nanos;

use crate::protocol::Command;

/// The kinds of request with separate counters.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Counted {
    /// Reads.
    Read,
    /// Writes of data.
    Write,
    /// Flushes.
    Flush,
    /// Trims.
    Discard,
    /// Zeroing: what was asked for, of which little may have been written.
    WriteZeroes,
}

impl Counted {
    /// All kinds, in the order of the arrays.
    pub const ALL: [Counted; 5] =
        [Counted::Read, Counted::Write, Counted::Flush, Counted::Discard, Counted::WriteZeroes];

    /// The kind under which a command is counted; hints and status queries are not counted.
    pub const fn of(command: Command) -> Option<Self> {
        match command {
            Command::Read => Some(Counted::Read),
            Command::Write => Some(Counted::Write),
            Command::WriteZeroes => Some(Counted::WriteZeroes),
            Command::Flush => Some(Counted::Flush),
            Command::Trim => Some(Counted::Discard),
            Command::Cache | Command::BlockStatus => None,
        }
    }

    /// The name in status output: `read`, `write`, `flush`, `discard`, `write_zeroes`.
    pub const fn name(self) -> &'static str {
        match self {
            Counted::Read => "read",
            Counted::Write => "write",
            Counted::Flush => "flush",
            Counted::Discard => "discard",
            Counted::WriteZeroes => "write_zeroes",
        }
    }
}

const STEPS_PER_OCTAVE_BITS: u32 = 6;
const FIRST_OCTAVE: u32 = 6;
const OCTAVES: u32 = 31;
const BUCKETS: usize = ((OCTAVES + 1) << STEPS_PER_OCTAVE_BITS) as usize;

/// A log-linear histogram of times: 64 steps per octave (1.6 % wide), 64 ns to 137 s; longer times
/// count as the longest.
#[derive(Clone, Debug)]
pub struct TimeHistogram {
    counts: Box<[u32]>,
    total: u64,
}

impl Default for TimeHistogram {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS].into_boxed_slice(), total: 0 }
    }
}

impl TimeHistogram {
    /// Counts one time.
    #[inline]
    pub fn record(&mut self, time_ns: Nanos) {
        let count = &mut self.counts[Self::bucket(time_ns)];
        *count = count.saturating_add(1);
        self.total += 1;
    }

    #[inline]
    fn bucket(time_ns: Nanos) -> usize {
        let octave = (63 - (time_ns | 1).leading_zeros()).clamp(FIRST_OCTAVE, FIRST_OCTAVE + OCTAVES);
        let step = (time_ns >> (octave - STEPS_PER_OCTAVE_BITS)) & ((1 << STEPS_PER_OCTAVE_BITS) - 1);
        let base = u64::from(octave - FIRST_OCTAVE) << STEPS_PER_OCTAVE_BITS;
        // Times below the first octave are counted in the buckets of the first octave; the mask
        // above keeps them in ascending order.
        usize::try_from(base + step).unwrap_or(BUCKETS - 1).min(BUCKETS - 1)
    }

    fn lower_ns(bucket: usize) -> Nanos {
        let (octave, step) = ((bucket >> STEPS_PER_OCTAVE_BITS) as u64, (bucket & 63) as u64);
        if octave == 0 { step + 64 } else { (64 + step) << octave }
    }

    /// The number of times counted.
    pub fn count(&self) -> u64 {
        self.total
    }

    /// The time below which the fraction `part` (0.0 to 1.0) of all times lies, to the width of a
    /// step; 0 if nothing was counted.
    pub fn quantile_ns(&self, part: f64) -> Nanos {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 <= part <= 1, counts are small")]
        let wanted = ((self.total as f64 * part.clamp(0.0, 1.0)).ceil() as u64).max(1);
        let mut seen = 0;
        for (bucket, &count) in self.counts.iter().enumerate() {
            seen += u64::from(count);
            if seen >= wanted {
                return Self::lower_ns(bucket);
            }
        }
        0
    }

    /// Lower bound in ns and count of every bucket that is not empty, ascending.
    pub fn buckets(&self) -> impl Iterator<Item = (Nanos, u64)> + '_ {
        let used = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        used.map(|(bucket, &count)| (Self::lower_ns(bucket), u64::from(count)))
    }
}

/// The figures of one kind of request.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Requests answered, errors included.
    pub requests: u64,
    /// Bytes of successful requests.
    pub bytes: u64,
    /// Requests answered with an error.
    pub errors: u64,
    /// Sum of the times from arrival to the first start on the device, in ns.
    pub queue_ns: u64,
    /// Sum of the times from the first start to the end of the last part, in ns.
    pub service_ns: u64,
    /// Sum of the times from arrival to acceptance of the reply by the socket, in ns.
    pub total_ns: u64,
}

impl Tally {
    #[inline]
    fn count(&mut self, outcome: &Outcome) {
        self.requests += 1;
        if outcome.is_ok {
            self.bytes += outcome.bytes;
        } else {
            self.errors += 1;
        }
        self.queue_ns += outcome.queue_ns;
        self.service_ns += outcome.service_ns;
        self.total_ns += outcome.total_ns;
    }

    fn add(&mut self, other: &Tally) {
        self.requests += other.requests;
        self.bytes += other.bytes;
        self.errors += other.errors;
        self.queue_ns += other.queue_ns;
        self.service_ns += other.service_ns;
        self.total_ns += other.total_ns;
    }
}

/// The result and times of one request.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Outcome {
    pub kind: Counted,
    pub is_ok: bool,
    pub bytes: u64,
    pub queue_ns: Nanos,
    pub service_ns: Nanos,
    pub total_ns: Nanos,
}

/// The sums of a connection, a volume or a shard.
#[derive(Clone, Debug, Default)]
pub struct Sums {
    /// By kind, in the order of [`Counted::ALL`].
    pub by_kind: [Tally; 5],
}

impl Sums {
    #[inline]
    pub(crate) fn count(&mut self, outcome: &Outcome) {
        self.by_kind[outcome.kind as usize].count(outcome);
    }

    /// Adds the figures of another connection of the same client.
    pub fn add(&mut self, other: &Sums) {
        self.by_kind.iter_mut().zip(&other.by_kind).for_each(|(own, other)| own.add(other));
    }

    /// The figures of one kind.
    pub fn of(&self, kind: Counted) -> &Tally {
        &self.by_kind[kind as usize]
    }
}

/// The times of one kind of request as histograms.
#[derive(Clone, Debug, Default)]
pub struct Times {
    /// Arrival to first start.
    pub queue: TimeHistogram,
    /// First start to the end of the last part.
    pub service: TimeHistogram,
    /// Arrival to acceptance of the reply by the socket.
    pub total: TimeHistogram,
}

/// The figures of a group: sums and histograms.
#[derive(Clone, Debug, Default)]
pub struct GroupCounters {
    /// Sums by kind.
    pub sums: Sums,
    /// Histograms by kind, in the order of [`Counted::ALL`].
    pub times: [Times; 5],
}

impl GroupCounters {
    #[inline]
    pub(crate) fn count(&mut self, outcome: &Outcome) {
        self.sums.count(outcome);
        let times = &mut self.times[outcome.kind as usize];
        times.queue.record(outcome.queue_ns);
        times.service.record(outcome.service_ns);
        times.total.record(outcome.total_ns);
    }
}

/// Counters of the loops of a device's workers, added up.
#[derive(Clone, Debug, Default)]
pub struct LoopCounters {
    /// Turns of the loop.
    pub turns: u64,
    /// Completions of the ring that were handled.
    pub events: u64,
    /// I/Os done without the ring.
    pub inline_ios: u64,
    /// I/Os started, inline ones included.
    pub started_ios: u64,
    /// Started I/Os that hold more than one part.
    pub merged_ios: u64,
    /// fsyncs started.
    pub syncs: u64,
    /// Times the thread went to sleep.
    pub sleeps: u64,
    /// Time asleep in ns.
    pub asleep_ns: u64,
    /// Times a busy poll ended with an event.
    pub polls_fruitful: u64,
    /// Times a busy poll ended without an event.
    pub polls_fruitless: u64,
    /// Times the submission queue was full.
    pub full_submits: u64,
    /// Completions that did not fit the completion queue.
    pub completion_overflows: u64,
    /// Times a connection was paused because its own bounds were reached.
    pub pauses_for_credit: u64,
    /// Times a connection was paused because memory was short.
    pub pauses_for_memory: u64,
    /// The longest turn of the loop, without sleep, in ns.
    pub longest_turn_ns: u64,
}

impl LoopCounters {
    /// Adds the counters of another loop.
    pub(crate) fn add(&mut self, other: &Self) {
        self.turns += other.turns;
        self.events += other.events;
        self.inline_ios += other.inline_ios;
        self.started_ios += other.started_ios;
        self.merged_ios += other.merged_ios;
        self.syncs += other.syncs;
        self.sleeps += other.sleeps;
        self.asleep_ns += other.asleep_ns;
        self.polls_fruitful += other.polls_fruitful;
        self.polls_fruitless += other.polls_fruitless;
        self.full_submits += other.full_submits;
        self.completion_overflows += other.completion_overflows;
        self.pauses_for_credit += other.pauses_for_credit;
        self.pauses_for_memory += other.pauses_for_memory;
        self.longest_turn_ns = self.longest_turn_ns.max(other.longest_turn_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_in_order_and_contain_their_times() {
        let mut last = 0;
        for time in (64..2_000_000).step_by(37).chain([1 << 30, 1 << 36]) {
            let bucket = TimeHistogram::bucket(time);
            assert!(bucket >= last, "{time}");
            last = bucket;
            let lower = TimeHistogram::lower_ns(bucket);
            assert!(lower <= time && time - lower <= lower / 64 + 1, "{time} in the bucket from {lower}");
        }
    }

    #[test]
    fn quantiles_are_those_of_the_times_counted() {
        let mut histogram = TimeHistogram::default();
        for time_us in 1..=1_000 {
            histogram.record(time_us * 1_000);
        }
        let median = histogram.quantile_ns(0.5);
        assert!((492_000..=500_000).contains(&median), "{median}");
        assert_eq!(histogram.buckets().map(|(_, count)| count).sum::<u64>(), 1_000);
        assert_eq!(TimeHistogram::default().quantile_ns(0.99), 0);
    }
}
