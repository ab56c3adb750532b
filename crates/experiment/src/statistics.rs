//! Statistics of repetitions: mean, spread and confidence interval.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A figure from n repetitions.
#[derive(Copy, Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Estimate {
    /// The point estimate: the mean, except for percentiles, where it is the percentile of the
    /// merged histograms.
    pub mean: f64,
    /// Standard deviation over the repetitions (n - 1); 0 for one.
    pub sd: f64,
    /// Half width of the 95 % interval; `None` for one repetition, which has no spread.
    pub ci95: Option<f64>,
    /// Number of repetitions.
    pub n: usize,
}

impl Estimate {
    /// The estimate from one value per repetition; all zero if there is none.
    ///
    /// ```
    /// use hoistway_experiment::statistics::{Difference, Estimate};
    ///
    /// let (old, new) = (Estimate::of(&[100.0, 101.0, 99.0]), Estimate::of(&[110.0, 111.0, 109.0]));
    /// let difference = Difference::between(&old, &new).unwrap();
    /// assert!(difference.is_significant() && difference.interval().0 > 0.05, "{difference:?}");
    /// // One repetition has no spread and therefore no interval.
    /// assert_eq!(Estimate::of(&[100.0]).ci95, None);
    /// ```
    pub fn of(values: &[f64]) -> Self {
        let n = values.len();
        if n == 0 {
            return Self { mean: 0.0, sd: 0.0, ci95: None, n };
        }
        let mean = values.iter().sum::<f64>() / n as f64;
        if n == 1 {
            return Self { mean, sd: 0.0, ci95: None, n };
        }
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let sd = (squares / (n - 1) as f64).sqrt();
        Self { mean, sd, ci95: Some(t_975(n - 1) * sd / (n as f64).sqrt()), n }
    }

    /// The same spread around another point estimate (for percentiles, which are merged instead of
    /// averaged).
    #[must_use]
    pub fn around(self, mean: f64) -> Self {
        Self { mean, ..self }
    }

    /// Lower end of the 95 % interval; the point estimate if there is none.
    pub fn low(&self) -> f64 {
        self.mean - self.ci95.unwrap_or(0.0)
    }

    /// Upper end of the 95 % interval; the point estimate if there is none.
    pub fn high(&self) -> f64 {
        self.mean + self.ci95.unwrap_or(0.0)
    }

    /// Half width divided by the mean, which the stop rule compares with the requested precision.
    /// `None` for one repetition.
    pub fn relative_half_width(&self) -> Option<f64> {
        let ci95 = self.ci95?;
        Some(if self.mean == 0.0 { 0.0 } else { (ci95 / self.mean).abs() })
    }
}

/// Student's t for a two-sided 95 % interval. Between rows of the table it uses the next smaller
/// one, which gives a wider interval.
pub fn t_975(degrees_of_freedom: usize) -> f64 {
    const FIRST_TEN: [f64; 10] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228];
    match degrees_of_freedom {
        0 => f64::INFINITY,
        df @ 1..=10 => FIRST_TEN[df - 1],
        11..=14 => 2.228,
        15..=19 => 2.131,
        20..=29 => 2.086,
        30..=39 => 2.042,
        40..=59 => 2.021,
        60..=119 => 2.000,
        _ => 1.980,
    }
}

/// The mean truncated to an integer, as in the tables of the test script iostest of 2010.
pub fn truncated_mean(values: &[f64]) -> u64 {
    // Means of throughput are positive and far below 2^53.
    #[expect(clippy::cast_possible_truncation, reason = "truncation is what is wanted; `as` saturates")]
    let whole = Estimate::of(values).mean.max(0.0) as u64;
    whole
}

/// The difference of two means by Welch's test.
#[derive(Copy, Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Difference {
    /// Second mean minus first: relative to the first (0.05 = 5 % more), or absolute.
    pub change: f64,
    /// Half width of its 95 % interval, in the same unit; `None` if either side has one repetition.
    pub ci95: Option<f64>,
}

impl Difference {
    /// The difference of `new` and `old` relative to `old`. `None` if only `old` is zero, because
    /// no percentage expresses that.
    pub fn between(old: &Estimate, new: &Estimate) -> Option<Self> {
        if old.mean == 0.0 {
            return (new.mean == 0.0).then_some(Self { change: 0.0, ci95: None });
        }
        let Self { change, ci95 } = Self::absolute(old, new);
        let whole = old.mean.abs();
        Some(Self { change: change / whole, ci95: ci95.map(|half| half / whole) })
    }

    /// The absolute difference, for figures that are fractions already: from 0.001 to 0.002 is 0.1
    /// points, not +100 %.
    pub fn absolute(old: &Estimate, new: &Estimate) -> Self {
        let change = new.mean - old.mean;
        if old.n < 2 || new.n < 2 {
            return Self { change, ci95: None };
        }
        let (a, b) = (old.sd.powi(2) / old.n as f64, new.sd.powi(2) / new.n as f64);
        if a + b == 0.0 {
            return Self { change, ci95: Some(0.0) };
        }
        // Welch-Satterthwaite: degrees of freedom of the sum of two unequal variances, rounded
        // down.
        let freedom = (a + b).powi(2) / (a.powi(2) / (old.n - 1) as f64 + b.powi(2) / (new.n - 1) as f64);
        #[expect(clippy::cast_possible_truncation, reason = "between 1 and n1 + n2 - 2; rounding down is wanted")]
        let whole = freedom.max(1.0) as usize;
        Self { change, ci95: Some(t_975(whole) * (a + b).sqrt()) }
    }

    /// Whether the difference is significant: it is at least 1 %, and its interval, if there is
    /// one, excludes zero.
    pub fn is_significant(&self) -> bool {
        self.change.abs() >= 0.01 && self.ci95.is_none_or(|ci95| self.change.abs() > ci95)
    }

    /// Lower and upper end of its interval, in the unit of the change.
    pub fn interval(&self) -> (f64, f64) {
        let ci95 = self.ci95.unwrap_or(0.0);
        (self.change - ci95, self.change + ci95)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn welch_agrees_with_a_worked_example() {
        // sd 2 and 3, n 4 and 4: se^2 = 1 + 2.25 = 3.25; df = 3.25^2 / (1/3 + 5.0625/3) = 5.226 ->
        // 5, t = 2.571
        let old = Estimate { mean: 100.0, sd: 2.0, ci95: None, n: 4 };
        let new = Estimate { mean: 110.0, sd: 3.0, ci95: None, n: 4 };
        let difference = Difference::between(&old, &new).unwrap();
        assert!((difference.change - 0.1).abs() < 1e-12);
        assert!((difference.ci95.unwrap() - 2.571 * 3.25_f64.sqrt() / 100.0).abs() < 1e-12);
        assert!(difference.is_significant());
    }

    #[test]
    fn a_difference_of_parts_is_one_of_points() {
        let (old, new) = (Estimate::of(&[0.001, 0.001]), Estimate::of(&[0.002, 0.002]));
        let points = Difference::absolute(&old, &new);
        assert!((points.change - 0.001).abs() < 1e-12 && points.ci95 == Some(0.0));
        assert!((Difference::between(&old, &new).unwrap().change - 1.0).abs() < 1e-9);
        let from_zero = Difference::absolute(&Estimate::of(&[0.0]), &Estimate::of(&[0.5]));
        assert_eq!(from_zero, Difference { change: 0.5, ci95: None });
    }

    #[test]
    fn equal_estimates_do_not_differ() {
        let same = Estimate::of(&[5.0, 6.0, 7.0]);
        assert!(!Difference::between(&same, &same).unwrap().is_significant());
        let once = Estimate::of(&[5.0]);
        assert_eq!(Difference::between(&once, &once).unwrap(), Difference { change: 0.0, ci95: None });
    }

    #[test]
    fn one_repetition_has_no_precision() {
        assert_eq!(Estimate::of(&[7.0]).relative_half_width(), None);
        assert_eq!(Estimate::of(&[7.0, 7.0]).relative_half_width(), Some(0.0));
    }
}
