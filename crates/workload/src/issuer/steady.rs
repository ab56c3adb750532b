//! Whether a figure of a thread has become steady (fio's steadystate).
//!
//! There is one value per interval. Once there are as many as the duration holds, the slope of
//! their least-squares line, or their largest deviation from the mean, is compared with the limit.
//! All arithmetic uses integers, so that simulations are reproducible.

use std::collections::VecDeque;

use hoistway_block::Nanos;
use hoistway_block::time::SECOND;

use crate::goal::{Figure, Steady};

/// A figure under observation.
#[derive(Clone, Debug)]
pub(super) struct Observed {
    steady: Steady,
    /// Start of the interval that is being counted; `None` before the ramp is over.
    since_ns: Option<Nanos>,
    looks_from_ns: Nanos,
    ios: u64,
    bytes: u64,
    latency_ns: u64,
    values: VecDeque<u64>,
}

/// 100 % in millionths of a percent.
const ALL: i128 = 100_000_000;

impl Observed {
    pub fn new(steady: Steady) -> Self {
        let values = VecDeque::with_capacity(steady.values());
        Self { steady, since_ns: None, looks_from_ns: 0, ios: 0, bytes: 0, latency_ns: 0, values }
    }

    /// Starts the thread's clock.
    pub fn start(&mut self, at_ns: Nanos) {
        self.looks_from_ns = at_ns.saturating_add(self.steady.ramp_ns);
    }

    /// Counts an I/O; returns whether the figure is steady.
    pub fn completed(&mut self, bytes: u64, latency_ns: Nanos, now: Nanos) -> bool {
        let Some(since_ns) = self.since_ns else {
            if now >= self.looks_from_ns {
                self.since_ns = Some(now);
            }
            return false;
        };
        (self.ios, self.bytes) = (self.ios + 1, self.bytes + bytes);
        self.latency_ns = self.latency_ns.saturating_add(latency_ns);
        let passed_ns = now.saturating_sub(since_ns);
        if passed_ns < self.steady.interval_ns {
            return false;
        }
        let per_second = |count: u64| u128::from(count) * u128::from(SECOND) / u128::from(passed_ns.max(1));
        let value = match self.steady.figure {
            Figure::Ios => per_second(self.ios),
            Figure::Bytes => per_second(self.bytes),
            Figure::Latency => u128::from(self.latency_ns / self.ios.max(1)),
        };
        (self.since_ns, self.ios, self.bytes, self.latency_ns) = (Some(now), 0, 0, 0);
        if self.values.len() == self.steady.values() {
            self.values.pop_front();
        }
        self.values.push_back(u64::try_from(value).unwrap_or(u64::MAX));
        self.values.len() == self.steady.values() && self.is_steady()
    }

    fn is_steady(&self) -> bool {
        let sum: i128 = self.values.iter().map(|&value| i128::from(value)).sum();
        if sum == 0 {
            // Without any I/O the figure is steady in absolute units, but a percentage is
            // undefined.
            return !self.steady.in_percent;
        }
        // The criterion as a fraction, without rounding.
        let (upper, lower) = if self.steady.by_slope { self.slope(sum) } else { self.deviation(sum) };
        let count = i128::try_from(self.values.len()).unwrap_or(i128::MAX);
        let limit = i128::from(self.steady.limit_millionths);
        if self.steady.in_percent {
            // upper / lower / (sum / count) * 100 % < limit
            upper.saturating_mul(count).saturating_mul(ALL) < limit.saturating_mul(lower).saturating_mul(sum)
        } else {
            upper.saturating_mul(1_000_000) < limit.saturating_mul(lower)
        }
    }

    /// Absolute slope per interval, as a fraction.
    fn slope(&self, sum: i128) -> (i128, i128) {
        let count = i128::try_from(self.values.len()).unwrap_or(i128::MAX);
        let product: i128 = (0_i128..).zip(&self.values).map(|(at, &value)| at * i128::from(value)).sum();
        let places = count * (count - 1) / 2;
        let squares = (count - 1) * count * (2 * count - 1) / 6;
        ((count * product - places * sum).abs(), count * squares - places * places)
    }

    /// The largest deviation from the mean, as a fraction.
    fn deviation(&self, sum: i128) -> (i128, i128) {
        let count = i128::try_from(self.values.len()).unwrap_or(i128::MAX);
        let farthest = self.values.iter().map(|&value| (i128::from(value) * count - sum).abs()).max();
        (farthest.unwrap_or(0), count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steady(by_slope: bool, in_percent: bool, limit_millionths: u64) -> Steady {
        Steady {
            figure: Figure::Ios,
            by_slope,
            limit_millionths,
            in_percent,
            duration_ns: 4 * SECOND,
            ramp_ns: SECOND,
            interval_ns: SECOND,
        }
    }

    /// The second (after the ramp) in which the figure is steady if `ios` are done in each.
    fn steady_after(steady: Steady, ios: &[u64]) -> Option<usize> {
        let mut observed = Observed::new(steady);
        observed.start(0);
        observed.completed(0, 0, SECOND);
        for (second, &count) in ios.iter().enumerate() {
            let begin_ns = SECOND * (second as u64 + 1);
            for io in 1..=count {
                if observed.completed(4096, 1_000, begin_ns + SECOND * io / count) {
                    return Some(second + 1);
                }
            }
        }
        None
    }

    #[test]
    fn a_figure_is_steady_when_no_value_of_the_duration_is_far_from_their_mean() {
        // Means of four: 97.5, deviation 17.5; then 100, deviation 10; 10 % is not below 10 %, but
        // it is below 10.1 %.
        let ios = [80, 110, 90, 110, 90, 100];
        assert_eq!(steady_after(steady(false, true, 10_100_000), &ios), Some(5));
        assert_eq!(steady_after(steady(false, true, 10_000_000), &[80, 110, 90, 110, 90]), None);
        assert_eq!(steady_after(steady(false, false, 10_500_000), &ios), Some(5));
    }

    #[test]
    fn a_figure_is_steady_when_the_line_through_its_values_is_flat() {
        // The slope of 100 110 120 130 is 10 a second, 8.7 % of the mean; that of 110 120 130 121
        // is 4.3, or 3.6 %.
        let ios = [100, 110, 120, 130, 121, 120];
        assert_eq!(steady_after(steady(true, true, 8_800_000), &ios), Some(4));
        assert_eq!(steady_after(steady(true, true, 3_600_000), &ios), Some(5));
        assert_eq!(steady_after(steady(true, false, 10_000_000), &ios), Some(5));
    }
}
