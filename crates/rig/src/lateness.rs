//! The accuracy of the device: how much later than the model's time replies are sent.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Counts of lateness by powers of two of a microsecond.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Lateness {
    /// Replies by lateness: below 1 us, below 2 us, below 4 us and so on.
    pub counts: Vec<u64>,
    /// The largest lateness, in nanoseconds.
    pub max_ns: u64,
    /// The sum, in nanoseconds.
    pub sum_ns: u64,
}

impl Lateness {
    /// Counts one reply.
    #[inline]
    pub fn add(&mut self, late_ns: u64) {
        let slot = (64 - (late_ns / 1_000).leading_zeros()) as usize;
        if self.counts.len() <= slot {
            self.counts.resize(slot + 1, 0);
        }
        self.counts[slot] += 1;
        self.max_ns = self.max_ns.max(late_ns);
        self.sum_ns += late_ns;
    }

    /// The number of replies.
    pub fn replies(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The mean, in nanoseconds; 0 without replies.
    pub fn mean_ns(&self) -> u64 {
        self.sum_ns.checked_div(self.replies()).unwrap_or(0)
    }

    /// The upper bound of `percent` of the replies, in microseconds: a power of two.
    pub fn below_us(&self, percent: u64) -> u64 {
        let wanted = (self.replies() * percent).div_ceil(100).max(1);
        let mut sum = 0;
        let slot = self.counts.iter().position(|count| {
            sum += count;
            sum >= wanted
        });
        slot.map_or(0, |slot| 1 << slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_upper_bounds() {
        let mut lateness = Lateness::default();
        (0..98).for_each(|_| lateness.add(900));
        lateness.add(3_500);
        lateness.add(70_000);
        assert_eq!((lateness.below_us(50), lateness.below_us(99), lateness.below_us(100)), (1, 4, 128));
        assert_eq!((lateness.replies(), lateness.max_ns, lateness.mean_ns()), (100, 70_000, 1_617));
        assert_eq!(Lateness::default().below_us(99), 0);
    }
}
