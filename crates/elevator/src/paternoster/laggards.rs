//! What tenants that lag get, compared with exact shares.

use super::controller::ONE;
use super::epoch::Sum;

/// What tenants that lag keep of what they would get with exact shares, whatever `give` says: one that
/// asks for less than its share is limited by latency, and room for it costs the others little.
const LEAST_KEPT: i64 = ONE * 3 / 5;

#[derive(Clone, Debug)]
pub struct Laggards {
    exact_rate: i64,
    kept: i64,
}

impl Laggards {
    pub const NONE: Laggards = Laggards { exact_rate: 0, kept: ONE };

    /// Shares were exact in this time.
    pub fn were_exact(&mut self, held: Sum) {
        self.exact_rate = held.lagging_rate();
    }

    /// Shares were not exact in this time.
    pub fn got(&mut self, whole: Sum) {
        self.kept = whole.lagging_rate().saturating_mul(ONE).checked_div(self.exact_rate).unwrap_or(ONE);
    }

    /// By how much they keep more than they must; negative if they keep less.
    pub const fn margin(&self) -> i64 {
        self.kept.saturating_sub(LEAST_KEPT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn laggards_keep_three_fifths() {
        let sum = |lagging| Sum { work: 1_000_000, lagging, ns: 1 << 24 };
        let mut laggards = Laggards::NONE;
        laggards.got(sum(0));
        assert!(laggards.margin() > 0, "nothing is known yet");
        laggards.were_exact(sum(100_000));
        for (got, is_enough) in [(61_000, true), (59_000, false), (200_000, true), (0, false)] {
            laggards.got(sum(got));
            assert_eq!(laggards.margin() >= 0, is_enough, "{got}");
        }
    }
}
