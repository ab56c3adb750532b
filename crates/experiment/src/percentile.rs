//! A percentile of latency with its 95 % interval, and whether there are enough samples for it.
//!
//! Within a run the interval is that of order statistics: the number of n samples above the
//! percentile is binomial for any distribution. Between runs it is Student's. The wider of the two
//! is used, because requests of one run are not independent and order statistics alone would be too
//! narrow.

use crate::cell::{Cell, LatencyFigures};
use crate::histogram::{Histogram, bucket_ns};

/// One percentile of one group, or of all.
#[derive(Clone, PartialEq, Debug)]
pub struct Percentile {
    /// Percentage, 0 to 100.
    pub percent: f64,
    /// The latency in nanoseconds over all sets.
    pub ns: f64,
    /// Number of samples.
    pub samples: u64,
    /// The 95 % interval in nanoseconds; `None` if there are too few samples for one of its ends.
    pub interval_ns: Option<(f64, f64)>,
}

impl Percentile {
    /// A percentile of these figures; `None` if nothing was counted.
    pub fn of(figures: &LatencyFigures, percent: f64) -> Option<Self> {
        let samples = figures.histogram.count();
        if samples == 0 {
            return None;
        }
        let of_sets = figures.percentile_ns(percent);
        let interval_ns = interval_ns(&figures.histogram, percent)
            .map(|(low, high)| (low.min(of_sets.low()), high.max(of_sets.high())));
        Some(Self { percent, ns: of_sets.mean, samples, interval_ns })
    }

    /// Whether it equals the largest sample, because there are too few samples for any to be above
    /// it.
    pub fn is_maximum(&self) -> bool {
        rank(self.samples, self.percent) >= self.samples
    }

    /// Number of samples required for this percentile to have an interval.
    pub fn samples_needed(&self) -> u64 {
        let (above, below) = (1.0 - self.percent / 100.0, self.percent / 100.0);
        let needed = (HALF_LEVEL.ln() / above.max(below).ln()).ceil();
        #[expect(clippy::cast_possible_truncation, reason = "`as` saturates; infinite for the 0th and 100th")]
        let needed = if needed.is_finite() { needed as u64 } else { u64::MAX };
        needed
    }
}

impl Cell<'_> {
    /// The group with the largest latency at this percentile (index into [`Cell::groups`]), and the
    /// percentile; `None` without samples.
    pub fn slowest_group(&self, percent: f64) -> Option<(usize, Percentile)> {
        let of_groups = (0..self.groups.len())
            .filter_map(|group| Some((group, Percentile::of(&self.latency(Some(group), None), percent)?)));
        // The first of equals.
        of_groups.reduce(|most, one| if one.1.ns > most.1.ns { one } else { most })
    }
}

/// Error probability on each side of the interval.
const HALF_LEVEL: f64 = 0.025;
/// Distance from the mean, in standard deviations, beyond which [`HALF_LEVEL`] lies on one side.
const DEVIATIONS: f64 = 1.96;
/// If at most this number of samples is expected above the percentile, the binomial distribution is
/// summed; otherwise the normal approximation is used.
const EXACT: f64 = 200.0;

/// The rank of a percentile among n samples, from 1.
#[expect(clippy::cast_possible_truncation, reason = "a rank, at most the number of samples")]
fn rank(samples: u64, percent: f64) -> u64 {
    ((percent / 100.0 * samples as f64).ceil() as u64).max(1)
}

/// The interval of order statistics.
fn interval_ns(histogram: &Histogram, percent: f64) -> Option<(f64, f64)> {
    let (low, high) = ranks(histogram.count(), percent)?;
    Some((nth_ns(histogram, low), nth_ns(histogram, high)))
}

/// The ranks, from 1, between which the percentile lies with 95 % probability; `None` if one of
/// them is outside of the samples.
fn ranks(samples: u64, percent: f64) -> Option<(u64, u64)> {
    let above = 1.0 - percent / 100.0;
    if above <= 0.0 || above >= 1.0 {
        return None;
    }
    if above > 0.5 {
        // A percentile below the median mirrors the one that is as far above it.
        let (low, high) = ranks(samples, 100.0 - percent)?;
        return Some((samples + 1 - high, samples + 1 - low));
    }
    let (fewest, most) = above_by_chance(samples, above)?;
    let (low, high) = (samples.checked_sub(most)?, samples - fewest + 1);
    (low >= 1 && high <= samples).then_some((low, high))
}

/// Bounds of the number of samples above the percentile: each is exceeded with a probability of at
/// most 2.5 %.
fn above_by_chance(samples: u64, above: f64) -> Option<(u64, u64)> {
    let expected = samples as f64 * above;
    if expected > EXACT {
        let spread = DEVIATIONS * (expected * (1.0 - above)).sqrt();
        #[expect(clippy::cast_possible_truncation, reason = "positive, and at most the number of samples")]
        let ends = ((expected - spread).floor() as u64, (expected + spread).ceil() as u64);
        return Some(ends);
    }
    // The probability that no sample is above; each further one follows from the one before it.
    let mut of_count = (samples as f64 * (1.0 - above).ln()).exp();
    let (mut up_to, mut fewest) = (0.0, None);
    for count in 0..=samples {
        if up_to + of_count > HALF_LEVEL && fewest.is_none() {
            fewest = Some(count);
        }
        up_to += of_count;
        if up_to >= 1.0 - HALF_LEVEL {
            return Some((fewest?, count));
        }
        of_count *= (samples - count) as f64 / (count + 1) as f64 * above / (1.0 - above);
    }
    None
}

/// The sample of a rank, from 1, to the precision of its bucket.
fn nth_ns(histogram: &Histogram, rank: u64) -> f64 {
    let mut running = 0;
    let bucket = histogram.bins().find(|(_, count)| {
        running += count;
        running >= rank
    });
    let ns = bucket.map_or(histogram.max_ns(), |(bucket, _)| bucket_ns(bucket));
    ns.clamp(histogram.min_ns(), histogram.max_ns()) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_of_the_median_are_those_of_the_tables() {
        // Distribution-free 95 % intervals of the median: n = 10 ranks 2 and 9; n = 20 ranks 6 and
        // 15; n = 5 has none.
        assert_eq!(ranks(10, 50.0), Some((2, 9)));
        assert_eq!(ranks(20, 50.0), Some((6, 15)));
        assert_eq!(ranks(5, 50.0), None);
        assert_eq!(ranks(20, 50.0), ranks(20, 50.000_001));
    }

    #[test]
    fn a_percentile_needs_samples_beyond_it() {
        // 0.99^n <= 0.025 from n = 368 on.
        assert_eq!(ranks(367, 99.0), None);
        assert_eq!(ranks(368, 99.0).unwrap().1, 368);
        let of = |samples: u64, percent| Percentile { percent, ns: 0.0, samples, interval_ns: None };
        assert_eq!(of(71, 99.0).samples_needed(), 368);
        assert!(of(71, 99.0).is_maximum() && of(99, 99.0).is_maximum() && !of(101, 99.0).is_maximum());
        assert_eq!((of(1, 99.9).samples_needed(), of(1, 100.0).samples_needed()), (3688, u64::MAX));
    }

    #[test]
    fn added_up_and_normal_agree_where_they_meet() {
        let added = above_by_chance(20_000, 0.01).unwrap();
        let normal = above_by_chance(20_001, 0.01).unwrap();
        assert!(added.0.abs_diff(normal.0) <= 2 && added.1.abs_diff(normal.1) <= 2, "{added:?} {normal:?}");
    }

    #[test]
    fn intervals_hold_what_they_promise() {
        // 1,000 times 500 uniform draws below 1,000,000: the p90 of the distribution is 900,000.
        let mut stream = hoistway_block::random::Stream::of(5, "percentile");
        let mut held = 0;
        for _ in 0..1_000 {
            let mut drawn: Vec<u64> = (0..500).map(|_| stream.below(1_000_000)).collect();
            drawn.sort_unstable();
            let (low, high) = ranks(500, 90.0).unwrap();
            let at = |rank: u64| drawn[usize::try_from(rank - 1).unwrap()];
            held += u32::from(at(low) <= 900_000 && 900_000 <= at(high));
        }
        assert!((935..=985).contains(&held), "{held} of 1000");
    }
}
