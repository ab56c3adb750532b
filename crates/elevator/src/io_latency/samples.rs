//! Latencies of a window: on flash the number that missed the target, on disks their mean.
//!
//! A disk's latencies vary so widely that the share of misses would say more about seeks than about
//! the influence of other groups. Source: Linux 6.1 block/blk-iolatency.c, latency_sum_ok;
//! docs/specifications/throttle.md, section 5.

use hoistway_block::Nanos;
use hoistway_block::time::MILLISECOND;

/// Fixed-point unit of the decaying average.
const ONE: u64 = 2_048;
/// Weight of the old average (in 2048ths) when a window is added to it, by the window's length in
/// quarters of a second.
const KEPT: [u64; 5] = [2_045, 2_039, 2_031, 2_023, 2_014];
const QUARTER_NS: Nanos = 250 * MILLISECOND;

/// Latencies counted since the last reset.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Samples {
    pub total: u64,
    pub missed: u64,
    sum_ns: u64,
}

impl Samples {
    pub const NONE: Samples = Samples { total: 0, missed: 0, sum_ns: 0 };

    #[inline]
    pub const fn count(&mut self, latency_ns: Nanos, target_ns: Nanos) {
        self.total = self.total.saturating_add(1);
        self.sum_ns = self.sum_ns.saturating_add(latency_ns);
        if latency_ns >= target_ns {
            self.missed = self.missed.saturating_add(1);
        }
    }

    pub const fn add(&mut self, other: &Samples) {
        self.total = self.total.saturating_add(other.total);
        self.missed = self.missed.saturating_add(other.missed);
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
    }

    /// The mean; 0 without samples.
    pub const fn mean_ns(&self) -> Nanos {
        match self.sum_ns.checked_div(self.total) {
            Some(mean) => mean,
            None => 0,
        }
    }

    /// Whether the target was kept: on flash fewer than a tenth of the samples missed it, on disks
    /// their mean is not above it.
    pub const fn is_ok(&self, target_ns: Nanos, is_rotational: bool) -> bool {
        if is_rotational {
            return self.mean_ns() <= target_ns;
        }
        let tenth = self.total / 10;
        self.missed < if tenth == 0 { 1 } else { tenth }
    }
}

/// The decaying average of means after one more window, computed like the kernel's load average:
/// rounded up while rising.
pub fn decayed(average_ns: Nanos, mean_ns: Nanos, window_ns: Nanos) -> Nanos {
    let quarters = usize::try_from(window_ns / QUARTER_NS).unwrap_or(usize::MAX);
    let kept = KEPT.get(quarters).copied().unwrap_or(2_014);
    let old = average_ns.saturating_mul(kept);
    let new = mean_ns.saturating_mul(ONE.saturating_sub(kept));
    let rounding = if mean_ns >= average_ns { ONE - 1 } else { 0 };
    old.saturating_add(new).saturating_add(rounding) / ONE
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(latencies: impl Iterator<Item = Nanos>, target: Nanos) -> Samples {
        let mut samples = Samples::NONE;
        latencies.for_each(|latency| samples.count(latency, target));
        samples
    }

    /// docs/specifications/throttle.md, section 10, case 31.
    #[test]
    fn t31_a_tenth_missed_is_too_much() {
        let with = |missed: u64| samples((0..100).map(|n| if n < missed { 10 } else { 9 }), 10);
        assert!(with(9).is_ok(10, false));
        assert!(!with(10).is_ok(10, false));
        assert!(!samples([10].into_iter(), 10).is_ok(10, false), "of fewer than 20 none may miss");
        assert!(Samples::NONE.is_ok(10, false));
    }

    #[test]
    fn on_disks_the_mean_counts() {
        assert!(samples([1, 19].into_iter(), 10).is_ok(10, true));
        assert!(!samples([1, 21].into_iter(), 10).is_ok(10, true));
        assert!(Samples::NONE.is_ok(10, true));
    }

    #[test]
    fn the_average_follows_slowly_and_faster_with_longer_windows() {
        let after = |windows: u32, length| (0..windows).fold(0, |average, _| decayed(average, 10_000_000, length));
        assert_eq!(after(1, 100 * MILLISECOND), 10_000_000 * 3 / 2_048 + 1);
        assert_eq!(after(1, 1_000 * MILLISECOND), 10_000_000 * 34 / 2_048 + 1);
        assert_eq!(after(20_000, 100 * MILLISECOND), 10_000_000);
        assert_eq!(decayed(10_000_000, 0, 600 * MILLISECOND), 10_000_000 * 2_031 / 2_048);
    }
}
