//! What pairs of epochs say together: the mean of a ratio, and whether it differs significantly from a
//! bound. Ratios have 16 fractional bits.

use super::controller::ONE;

/// Pairs of epochs before the first test.
const LEAST_PAIRS: i32 = 4;
/// From this number of pairs on, old evidence decays, because loads and devices drift.
const MOST_PAIRS: i32 = 64;

/// A ratio that each pair of epochs gave.
#[derive(Copy, Clone, Debug)]
pub struct Evidence {
    pairs: i32,
    /// Ratios are at most 2, so the sum of twice [`MOST_PAIRS`] fits.
    sum: i32,
    squares: i64,
}

impl Evidence {
    pub const NONE: Evidence = Evidence { pairs: 0, sum: 0, squares: 0 };

    pub fn add(&mut self, ratio: i64) {
        if self.pairs >= MOST_PAIRS {
            (self.pairs, self.sum, self.squares) = (self.pairs / 2, self.sum / 2, self.squares / 2);
        }
        self.pairs = self.pairs.wrapping_add(1);
        let ratio = ratio.clamp(-2 * ONE, 2 * ONE);
        self.sum = self.sum.saturating_add(i32::try_from(ratio).unwrap_or(0));
        self.squares = self.squares.wrapping_add(ratio.wrapping_mul(ratio));
    }

    pub fn pairs(&self) -> i64 {
        i64::from(self.pairs)
    }

    pub fn mean(&self) -> i64 {
        i64::from(self.sum).checked_div(self.pairs()).unwrap_or(0)
    }

    /// Whether there are enough pairs for a first test.
    pub const fn is_enough(&self) -> bool {
        self.pairs >= LEAST_PAIRS
    }

    /// Tests at doubling sample sizes, so that the same data is tested few times.
    pub const fn is_test_due(&self) -> bool {
        self.is_enough() && self.pairs & self.pairs.wrapping_sub(1) == 0
    }

    /// Whether the mean is significantly above `bound`, by Student's t-test: by three standard errors.
    pub fn is_above(&self, bound: i64) -> bool {
        self.mean() > bound && self.differs_from(bound, 3)
    }

    /// Whether the mean is likely below `bound`: by one standard error.
    pub fn is_likely_below(&self, bound: i64) -> bool {
        self.mean() < bound && self.differs_from(bound, 1)
    }

    fn differs_from(&self, bound: i64, errors: i64) -> bool {
        let pairs = self.pairs();
        let mean = self.mean();
        let spread = self.squares.checked_div(pairs).unwrap_or(0).saturating_sub(mean.saturating_mul(mean)).max(0);
        let variance = spread.saturating_mul(pairs).checked_div(pairs.saturating_sub(1)).unwrap_or(0);
        let difference = mean.saturating_sub(bound);
        // The fraction widens the errors of small samples.
        let wide = variance.saturating_mul(errors * errors).saturating_mul(pairs.saturating_add(1));
        let most = wide.checked_div(pairs.saturating_sub(2)).unwrap_or(i64::MAX);
        difference.saturating_mul(difference).saturating_mul(pairs) > most
    }
}
