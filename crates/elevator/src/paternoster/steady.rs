//! Confirms a loss that was measured under writes. They complete when they are in the device's buffer,
//! and while leaders were held the buffer became empty: a short reference epoch measures how fast it
//! fills. So the reference goes on until its rate is that of the medium.

use super::controller::ONE;
use hoistway_block::Nanos;
use hoistway_block::time::SECOND;

/// A buffer is full after this time: the memory of a drive is about a thousandth of its capacity, and
/// SATA fills the 1 GB of a drive of 1 TB in 2 s.
const FULL_NS: Nanos = 2 * SECOND;
/// The rate is steady if two epochs differ by at most one part in this many.
const ALIKE: i64 = ONE / 50;
/// After this time the rate counts as steady.
const LONGEST_NS: Nanos = 4 * SECOND;

/// A reference that goes on until it is steady.
#[derive(Clone, Debug)]
pub struct Steady {
    /// When it becomes steady at the latest, in ns from now; 0 if nothing is to be confirmed.
    left_ns: Nanos,
    rate: i64,
}

impl Steady {
    pub const NONE: Steady = Steady { left_ns: 0, rate: 0 };

    pub const fn begin(&mut self) {
        *self = Steady { left_ns: LONGEST_NS, rate: 0 };
    }

    pub const fn is_awaited(&self) -> bool {
        self.left_ns > 0
    }

    /// An epoch of the reference ended. Whether its rate is steady; then nothing is awaited any more.
    pub fn is_steady(&mut self, rate: i64, length_ns: Nanos) -> bool {
        self.left_ns = self.left_ns.saturating_sub(length_ns);
        let before = core::mem::replace(&mut self.rate, rate);
        let differs = rate.abs_diff(before) > (before.saturating_mul(ALIKE) / ONE).unsigned_abs();
        if LONGEST_NS.saturating_sub(self.left_ns) >= FULL_NS && !differs {
            self.left_ns = 0;
        }
        !self.is_awaited()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoistway_block::time::MILLISECOND;

    fn epochs_until_steady(rates: impl Fn(u32) -> i64) -> u32 {
        let mut steady = Steady::NONE;
        steady.begin();
        let mut epochs = 0;
        while steady.is_awaited() {
            steady.is_steady(rates(epochs), 250 * MILLISECOND);
            epochs += 1;
        }
        epochs
    }

    #[test]
    fn a_plateau_while_the_buffer_fills_is_not_the_steady_rate() {
        assert_eq!(epochs_until_steady(|_| 1000), 8, "2 s at least");
        assert_eq!(epochs_until_steady(|epoch| if epoch < 7 { 1000 } else { 400 }), 9);
        assert_eq!(epochs_until_steady(|epoch| 1000 + 30 * i64::from(epoch % 2)), 16, "4 s at most");
        assert_eq!(epochs_until_steady(|epoch| 1000 + 15 * i64::from(epoch % 2)), 8, "2 % are alike");
    }
}
