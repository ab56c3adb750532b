//! The rates of serial resources (a link, a channel: what serves one use at a time), in integers.

use hoistway_block::{Nanos, SECTOR_BYTES};

/// A transfer rate as picoseconds per sector; 0 = takes no time.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Rate {
    ps_per_sector: u64,
}

impl Rate {
    /// A rate in kB/s (10^3 bytes); 0 means unlimited.
    pub(crate) fn of_kb_per_s(kb_per_s: u64) -> Self {
        let ps_per_sector = match kb_per_s {
            0 => 0,
            _ => (SECTOR_BYTES * 1_000_000_000 + kb_per_s / 2) / kb_per_s,
        };
        Self { ps_per_sector }
    }

    /// Duration of the transfer of `sectors`, rounded to the nearest nanosecond.
    #[inline]
    pub(crate) fn transfer_ns(self, sectors: u32) -> Nanos {
        (u64::from(sectors) * self.ps_per_sector + 500) / 1_000
    }
}

/// A cap on a rate: a token bucket with room for one use and for credit, refilled exactly. A use
/// may begin when the previous ones have been paid for, or as long as what is owed is within the
/// credit; the fraction of a nanosecond is carried over, so that the rate does not drift.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Pace {
    /// The cost that takes one nanosecond; 0 = no cap.
    per_ns: u64,
    /// How long it takes to fill the credit.
    credit_ns: Nanos,
    /// When the bucket is full again.
    full_at_ns: Nanos,
    /// It is full this fraction of a nanosecond later than `full_at_ns`: `owed` / `per_ns`.
    owed: u64,
}

impl Pace {
    /// A use of cost n takes n / `per_ns` nanoseconds. 0 = no cap.
    pub(crate) fn new(per_ns: u64) -> Self {
        Self::with_credit(per_ns, 0)
    }

    /// The same with credit for uses of this cost altogether, which is full at the start.
    pub(crate) fn with_credit(per_ns: u64, cost: u64) -> Self {
        Self { per_ns, credit_ns: cost.checked_div(per_ns).unwrap_or(0), full_at_ns: 0, owed: 0 }
    }

    /// When a use that could begin at `now` may begin.
    #[inline]
    pub(crate) fn ready(&self, now: Nanos) -> Nanos {
        now.max(self.full_at_ns.saturating_sub(self.credit_ns))
    }

    /// A use begins at `start`; the next one has to wait for another `cost` / `per_ns` nanoseconds.
    #[inline]
    pub(crate) fn spend(&mut self, start: Nanos, cost: u64) {
        if self.per_ns == 0 {
            return;
        }
        if start > self.full_at_ns {
            (self.full_at_ns, self.owed) = (start, 0);
        }
        let owed = self.owed + cost;
        self.full_at_ns += owed / self.per_ns;
        self.owed = owed % self.per_ns;
    }
}

/// `value` plus an integer drawn uniformly from [-jitter/2, +jitter/2]; never below 0.
#[inline]
pub(crate) fn jittered(value: Nanos, jitter: Nanos, stream: &mut hoistway_block::random::Stream) -> Nanos {
    if jitter == 0 {
        return value;
    }
    (value + stream.below(jitter + 1)).saturating_sub(jitter / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transfer_rounds_to_the_nearest_nanosecond() {
        // 512e6 / 530 = 966037.7 -> 966038 ps per sector; 8 sectors = 7728.3 ns.
        assert_eq!(Rate::of_kb_per_s(530_000).transfer_ns(8), 7_728);
        assert_eq!(Rate::of_kb_per_s(0).transfer_ns(8), 0);
    }

    #[test]
    fn a_pace_saves_nothing_up_beyond_one_use() {
        let mut pace = Pace::new(1);
        let mut take = |now| {
            let start = pace.ready(now);
            pace.spend(start, 1_000);
            start
        };
        assert_eq!([take(500), take(600), take(9_000)], [500, 1_500, 9_000]);
        assert_eq!(take(9_000), 10_000, "idleness has not filled the bucket with more than one");
        let mut none = Pace::new(0);
        none.spend(7, 1 << 40);
        assert_eq!(none.ready(7), 7);
    }

    #[test]
    fn a_pace_carries_the_fraction() {
        let mut pace = Pace::new(3);
        let starts = [(); 7].map(|()| {
            let start = pace.ready(0);
            pace.spend(start, 1_000);
            start
        });
        assert_eq!(starts, [0, 333, 666, 1_000, 1_333, 1_666, 2_000]);
    }
}
