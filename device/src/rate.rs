//! Serial resources and their rates, in integers.

use block::{Nanos, SECTOR_BYTES};

/// A transfer rate as picoseconds per sector; 0 = takes no time.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Rate {
    ps_per_sector: u64,
}

impl Rate {
    /// A rate in kB/s (10^3 bytes); 0 stands for "unlimited".
    pub(crate) fn of_kb_per_s(kb_per_s: u64) -> Self {
        let ps_per_sector = match kb_per_s {
            0 => 0,
            _ => (SECTOR_BYTES * 1_000_000_000 + kb_per_s / 2) / kb_per_s,
        };
        Self { ps_per_sector }
    }

    /// Time that `sectors` take, to the nearest nanosecond.
    #[inline]
    pub(crate) fn transfer_ns(self, sectors: u32) -> Nanos {
        (u64::from(sectors) * self.ps_per_sector + 500) / 1_000
    }

    /// Time that `sectors` take, in picoseconds.
    #[inline]
    pub(crate) fn transfer_ps(self, sectors: u32) -> u64 {
        u64::from(sectors) * self.ps_per_sector
    }
}

/// A cap on a rate: one use at a time, each occupying the resource for its cost; picoseconds are carried over, so the
/// long-run rate is exact.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct Pace {
    free_at_ns: Nanos,
    carry_ps: u64,
}

impl Pace {
    /// When a use that could begin at `now` begins; it keeps the resource for `cost_ps`.
    #[inline]
    pub(crate) fn take(&mut self, now: Nanos, cost_ps: u64) -> Nanos {
        if now > self.free_at_ns {
            *self = Self { free_at_ns: now, carry_ps: 0 };
        }
        let start = self.free_at_ns;
        let ps = self.carry_ps + cost_ps;
        self.free_at_ns = start + ps / 1_000;
        self.carry_ps = ps % 1_000;
        start
    }
}

/// `value` plus an integer drawn uniformly from [-jitter/2, +jitter/2]; never below 0.
#[inline]
pub(crate) fn jittered(value: Nanos, jitter: Nanos, stream: &mut block::random::Stream) -> Nanos {
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
    fn a_pace_carries_the_fraction() {
        let mut pace = Pace::default();
        let starts: Vec<_> = (0..7).map(|_| pace.take(0, 333_333)).collect();
        assert_eq!(starts, [0, 333, 666, 999, 1_333, 1_666, 1_999]);
    }
}
