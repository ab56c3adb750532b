//! Two stored results side by side: what changed, and whether that is more than noise.
//!
//! Welch's test on total throughput, p99 and the largest share error of each cell that both results have. Cells whose
//! tunables in force differ are shown but marked: they are not the same experiment. Source: harness 5.6.

use std::fmt::Write;

use experiment::cell::Cell;
use experiment::metric::Metric;
use experiment::statistics::{Difference, Estimate};

use crate::quantity::{amount, scheduler};

/// The figures that are compared.
pub const METRICS: [Metric; 3] = [Metric::TotalBw, Metric::LatP99, Metric::ShareErrorMax];

/// How a change stands to the worsening that is allowed.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Against {
    /// Not worse by so much.
    Within,
    /// Worse by more, but the interval of the difference does not lie beyond the limit as a whole: noise.
    Unsure,
    /// Worse by more, with the whole interval.
    Beyond,
}

/// One figure of one cell in two results.
#[derive(Clone, PartialEq, Debug)]
pub struct Change {
    /// The cell: workload, scheduler, thread count.
    pub cell: String,
    /// The figure.
    pub metric: Metric,
    /// In the first result.
    pub old: Estimate,
    /// In the second.
    pub new: Estimate,
    /// How they differ; none if the first is zero and the second is not.
    pub difference: Option<Difference>,
    /// Whether the schedulers' tunables in force are the same.
    pub same_settings: bool,
}

impl Change {
    /// `+` for more, `-` for less, `~` for no difference that can be told from noise, or less than 1 %.
    pub fn sign(&self) -> char {
        match &self.difference {
            Some(difference) if !difference.is_significant() => '~',
            Some(difference) if difference.relative < 0.0 => '-',
            _ => '+',
        }
    }

    /// Whether the second result is worse by more than `limit` (0.05 = 5 %).
    pub fn against(&self, limit: f64) -> Against {
        let Some(difference) = &self.difference else {
            return if self.metric == Metric::TotalBw { Against::Within } else { Against::Beyond };
        };
        let (low, high) = difference.interval();
        // More throughput is better, more of everything else compared here is worse.
        let (least, mean, _) = match self.metric {
            Metric::TotalBw => (-high, -difference.relative, -low),
            _ => (low, difference.relative, high),
        };
        match (least > limit, mean > limit) {
            (true, _) => Against::Beyond,
            (false, true) => Against::Unsure,
            (false, false) => Against::Within,
        }
    }
}

/// What two results have in common, cell by cell.
pub fn changes(old: &[Cell<'_>], new: &[Cell<'_>]) -> Vec<Change> {
    let mut changes = Vec::new();
    for before in old {
        let same = |after: &&Cell<'_>| {
            after.workload == before.workload && after.spec == before.spec && after.threads == before.threads
        };
        let Some(after) = new.iter().find(same) else { continue };
        for metric in METRICS {
            let (Some(old), Some(new)) = (metric.of(before, None, None), metric.of(after, None, None)) else {
                continue;
            };
            let difference = Difference::between(&old, &new);
            let same_settings = before.scheduler.tunables == after.scheduler.tunables;
            let cell = format!("{} {} nr={}", before.workload, scheduler(before), before.threads);
            changes.push(Change { cell, metric, old, new, difference, same_settings });
        }
    }
    changes
}

/// The changes as a table.
pub fn table(changes: &[Change]) -> String {
    let width = changes.iter().map(|change| change.cell.chars().count()).max().unwrap_or(0).max(4);
    let mut text =
        format!("{:<width$}  {:<15}  {:>14}  {:>14}  {:>8}  95 % interval\n", "cell", "metric", "A", "B", "delta");
    for change in changes {
        let (old, new) =
            (amount(change.metric.quantity(), change.old.mean), amount(change.metric.quantity(), change.new.mean));
        let _ = write!(text, "{:<width$}  {:<15}  {old:>14}  {new:>14}  ", change.cell, change.metric.name());
        let sign = change.sign();
        let _ = match &change.difference {
            Some(Difference { relative, ci95: Some(ci95) }) => {
                write!(text, "{:>+7.1}%  +-{:.1}%  {sign}", relative * 100.0, ci95 * 100.0)
            }
            Some(Difference { relative, ci95: None }) => write!(text, "{:>+7.1}%  -  {sign}", relative * 100.0),
            None => write!(text, "{:>8}  -  {sign}", "from 0"),
        };
        text.push_str(if change.same_settings { "\n" } else { "  settings differ\n" });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(metric: Metric, old: &[f64], new: &[f64]) -> Change {
        let (old, new) = (Estimate::of(old), Estimate::of(new));
        let difference = Difference::between(&old, &new);
        Change { cell: "drr cfq nr=1".into(), metric, old, new, difference, same_settings: true }
    }

    #[test]
    fn a_tenth_less_throughput_is_a_regression_and_a_tenth_more_is_not() {
        let less = change(Metric::TotalBw, &[100.0, 101.0, 99.0], &[90.0, 90.9, 89.1]);
        assert_eq!((less.sign(), less.against(0.05)), ('-', Against::Beyond));
        let more = change(Metric::TotalBw, &[90.0, 90.9, 89.1], &[100.0, 101.0, 99.0]);
        assert_eq!((more.sign(), more.against(0.05)), ('+', Against::Within));
    }

    #[test]
    fn more_latency_is_a_regression() {
        assert_eq!(change(Metric::LatP99, &[10.0], &[12.0]).against(0.05), Against::Beyond);
        assert_eq!(change(Metric::LatP99, &[12.0], &[10.0]).against(0.05), Against::Within);
    }

    #[test]
    fn a_difference_inside_the_noise_is_none() {
        let noisy = change(Metric::TotalBw, &[100.0, 130.0, 70.0], &[95.0, 60.0, 125.0]);
        assert_eq!((noisy.sign(), noisy.against(0.03), noisy.against(0.1)), ('~', Against::Unsure, Against::Within));
    }
}
