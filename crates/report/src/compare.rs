//! Compares two stored results: what changed, and whether that is more than noise.
//!
//! Total throughput, isolation and the largest share error are compared by Welch's test over the sets, the p99
//! of each group by the intervals of [`Percentile`], which need no second set. Isolation and share error are
//! fractions, so their differences are percentage points. Isolation is compared where both results have solo
//! runs, else the share error. Cells whose tunables in force differ are shown but marked, because they are
//! different experiments. Source: docs/specifications/harness.md, section 5.6.

use std::fmt::Write;

use hoistway_experiment::cell::Cell;
use hoistway_experiment::metric::Metric;
use hoistway_experiment::statistics::Difference;
use hoistway_experiment::{IoDirection, Percentile};
use schemars::JsonSchema;
use serde::Serialize;

use crate::quantity::{amount, percentile_name, scheduler};

/// The figures that are compared.
pub const METRICS: [Metric; 4] = [Metric::TotalBw, Metric::LatP99, Metric::Isolation, Metric::ShareErrorMax];

/// The percentile of [`Metric::LatP99`].
const PERCENT: f64 = 99.0;

/// How a change compares with the permitted worsening.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Against {
    /// The whole interval is within the permitted worsening.
    Within,
    /// The interval extends beyond the limit, or there is none; noise may hide a worsening.
    Unsure,
    /// The whole interval is beyond the limit.
    Beyond,
}

/// One figure of one cell in two results.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct Change {
    /// The cell: workload, scheduler, thread count.
    pub cell: String,
    /// The figure.
    pub metric: Metric,
    /// The group; `None` for a figure of the whole cell.
    pub group: Option<String>,
    /// Whether the figure is that of trims (discards), which throughput does not contain otherwise.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_of_trims: bool,
    /// Value in the first result.
    pub old: f64,
    /// Value in the second result.
    pub new: f64,
    /// The difference: of isolation and share errors in points (0.05 = 5 points more), of others relative to the
    /// first value (0.05 = 5 % more); `None` if only the first value is zero.
    pub delta: Option<f64>,
    /// The 95 % interval of the difference.
    pub interval: Option<(f64, f64)>,
    /// Why there is no interval, or another remark.
    pub remark: String,
    /// Whether both results contain identical measurements, so that nothing can have changed.
    pub is_identical: bool,
    /// Whether the tunables in force are equal.
    pub same_settings: bool,
}

impl Change {
    /// A change without figures.
    fn blank(cell: String, metric: Metric) -> Self {
        Self {
            cell,
            metric,
            group: None,
            is_of_trims: false,
            old: 0.0,
            new: 0.0,
            delta: None,
            interval: None,
            remark: String::new(),
            is_identical: false,
            same_settings: true,
        }
    }

    /// A change between two cells, without figures.
    fn between(before: &Cell<'_>, after: &Cell<'_>, metric: Metric) -> Self {
        let is_identical = before.runs.len() == after.runs.len()
            && before.runs.iter().zip(&after.runs).all(|(a, b)| a.window_ns == b.window_ns && a.groups == b.groups);
        let cell = format!("{} {} nr={}", before.workload, scheduler(before), before.threads);
        let same_settings = before.scheduler.tunables == after.scheduler.tunables;
        Self { is_identical, same_settings, ..Self::blank(cell, metric) }
    }

    /// `+` for more, `-` for less, `~` for a difference that is not significant or below 1 % (one
    /// point).
    pub fn sign(&self) -> char {
        let is_told = self.interval.is_some_and(|(low, high)| low > 0.0 || high < 0.0);
        match self.delta {
            Some(delta) if delta.abs() < 0.01 || !is_told => '~',
            Some(delta) if delta < 0.0 => '-',
            _ => '+',
        }
    }

    /// The name of the figure with its group: `lat_p99(web)`.
    pub fn name(&self) -> String {
        match &self.group {
            None if self.is_of_trims => format!("{}(trim)", self.metric.name()),
            Some(group) => format!("{}({group})", self.metric.name()),
            None => self.metric.name().to_owned(),
        }
    }

    /// Of everything else that is compared here, less is better.
    fn is_better_higher(&self) -> bool {
        matches!(self.metric, Metric::TotalBw | Metric::Isolation)
    }

    /// Whether the second result is worse by more than `limit` (0.05 = 5 %, or points).
    pub fn against(&self, limit: f64) -> Against {
        if self.is_identical {
            return Against::Within;
        }
        if self.delta.is_none() {
            return if self.is_better_higher() { Against::Within } else { Against::Beyond };
        }
        let Some((low, high)) = self.interval else { return Against::Unsure };
        let (least, most) = if self.is_better_higher() { (-high, -low) } else { (low, high) };
        match (least > limit, most > limit) {
            (true, _) => Against::Beyond,
            (false, true) => Against::Unsure,
            (false, false) => Against::Within,
        }
    }
}

/// The changes in all cells that both results have.
pub fn changes(old: &[Cell<'_>], new: &[Cell<'_>]) -> Vec<Change> {
    let mut changes = Vec::new();
    for before in old {
        let same = |after: &&Cell<'_>| {
            after.is_of_workload(before) && after.spec == before.spec && after.threads == before.threads
        };
        let Some(after) = new.iter().find(same) else { continue };
        let data = of_sets(before, after, Metric::TotalBw, None);
        let trims = of_sets(before, after, Metric::TotalBw, Some(IoDirection::Trim));
        let trims = trims.filter(|change| change.old > 0.0 || change.new > 0.0);
        let moves_data = |change: &Change| change.old > 0.0 || change.new > 0.0;
        changes.extend(data.filter(|change| trims.is_none() || moves_data(change)));
        changes.extend(trims);
        changes.extend(of_groups(before, after));
        // Weights alone judge only schedulers that know them, and only if there are several groups.
        if before.entitlement.is_some() && after.entitlement.is_some() {
            changes.extend(of_sets(before, after, Metric::Isolation, None));
        } else if before.groups.len() > 1 && before.scheduler.has_shares && after.scheduler.has_shares {
            changes.extend(of_sets(before, after, Metric::ShareErrorMax, None));
        }
    }
    changes
}

/// A figure with one value per set.
fn of_sets(before: &Cell<'_>, after: &Cell<'_>, metric: Metric, direction: Option<IoDirection>) -> Option<Change> {
    let (old, new) = (metric.of(before, None, direction)?, metric.of(after, None, direction)?);
    let difference = match metric {
        Metric::ShareErrorMax | Metric::Isolation => Some(Difference::absolute(&old, &new)),
        _ => Difference::between(&old, &new),
    };
    let interval = difference.filter(|difference| difference.ci95.is_some()).map(|difference| difference.interval());
    let remark = if old.n < 2 || new.n < 2 { "one set has no interval" } else { "" };
    Some(Change {
        old: old.mean,
        new: new.mean,
        delta: difference.map(|difference| difference.change),
        interval,
        remark: remark.to_owned(),
        is_of_trims: direction == Some(IoDirection::Trim),
        ..Change::between(before, after, metric)
    })
}

/// The percentile of each group that both results have.
fn of_groups<'a>(before: &'a Cell<'_>, after: &'a Cell<'_>) -> impl Iterator<Item = Change> + 'a {
    before.groups.iter().enumerate().filter_map(move |(index, group)| {
        let other = after.groups.iter().position(|other| other.path == group.path)?;
        let old = Percentile::of(&before.latency(Some(index), None), PERCENT)?;
        let new = Percentile::of(&after.latency(Some(other), None), PERCENT)?;
        let group = (before.groups.len() > 1).then(|| group.path.to_owned());
        Some(Change {
            group,
            old: old.ns,
            new: new.ns,
            delta: (old.ns > 0.0).then(|| new.ns / old.ns - 1.0),
            interval: relative_interval(&old, &new),
            remark: too_few(&old, &new),
            ..Change::between(before, after, Metric::LatP99)
        })
    })
}

/// The 95 % interval of the relative difference, from the intervals of both. It uses the method of
/// variance estimates recovery (MOVER), which preserves their asymmetry.
fn relative_interval(old: &Percentile, new: &Percentile) -> Option<(f64, f64)> {
    let ((old_low, old_high), (new_low, new_high)) = (old.interval_ns?, new.interval_ns?);
    if old.ns <= 0.0 {
        return None;
    }
    let difference = new.ns - old.ns;
    let below = (new.ns - new_low).hypot(old_high - old.ns);
    let above = (new_high - new.ns).hypot(old.ns - old_low);
    Some(((difference - below) / old.ns, (difference + above) / old.ns))
}

/// Remark about a percentile from too few samples.
fn too_few(old: &Percentile, new: &Percentile) -> String {
    let fewer = if new.samples < old.samples { new } else { old };
    if fewer.interval_ns.is_some() {
        return String::new();
    }
    let (name, samples) = (percentile_name(fewer.percent), fewer.samples);
    let is_maximum = if fewer.is_maximum() { " is their maximum" } else { "" };
    format!("{name} of {samples} samples{is_maximum}; {} are needed for an interval", fewer.samples_needed())
}

/// The changes as a table.
pub fn table(changes: &[Change]) -> String {
    let width = |of: fn(&Change) -> usize, least: usize| changes.iter().map(of).max().unwrap_or(0).max(least);
    let cell_width = width(|change| change.cell.chars().count(), 4);
    let name_width = width(|change| change.name().chars().count(), 15);
    let mut text = format!(
        "{:<cell_width$}  {:<name_width$}  {:>14}  {:>14}  {:>9}  95 % interval\n",
        "cell", "metric", "A", "B", "delta"
    );
    for change in changes {
        let [old, new] = [change.old, change.new].map(|value| amount(change.metric.quantity(), value));
        let _ = write!(text, "{:<cell_width$}  {:<name_width$}  {old:>14}  {new:>14}  ", change.cell, change.name());
        let sign = change.sign();
        let unit = if matches!(change.metric, Metric::ShareErrorMax | Metric::Isolation) { " pts" } else { "%" };
        let shown = |part: f64| format!("{:+.1}{unit}", part * 100.0);
        let delta = change.delta.map_or_else(|| "from 0".to_owned(), shown);
        let interval = match change.interval {
            Some((low, high)) => format!("{} to {}", shown(low), shown(high)),
            None => "-".to_owned(),
        };
        // Identical measurements need no remark, with or without an interval.
        let mut remarks = if change.is_identical { String::new() } else { change.remark.clone() };
        if !change.same_settings {
            remarks.push_str(if remarks.is_empty() { "settings differ" } else { "; settings differ" });
        }
        let line = format!("{delta:>9}  {interval:<22}  {sign}  {remarks}");
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoistway_experiment::statistics::Estimate;

    fn blank(metric: Metric) -> Change {
        Change::blank("drr cfq nr=1".into(), metric)
    }

    fn change(old: &[f64], new: &[f64]) -> Change {
        let difference = Difference::between(&Estimate::of(old), &Estimate::of(new)).unwrap();
        let interval = difference.ci95.map(|_| difference.interval());
        Change { delta: Some(difference.change), interval, ..blank(Metric::TotalBw) }
    }

    fn latency(old: (f64, f64, f64), new: (f64, f64, f64)) -> Change {
        let of = |(low, ns, high)| Percentile { percent: 99.0, ns, samples: 1_000, interval_ns: Some((low, high)) };
        let (old, new) = (of(old), of(new));
        let delta = Some(new.ns / old.ns - 1.0);
        Change { delta, interval: relative_interval(&old, &new), ..blank(Metric::LatP99) }
    }

    #[test]
    fn a_tenth_less_throughput_is_a_regression_and_a_tenth_more_is_not() {
        let less = change(&[100.0, 101.0, 99.0], &[90.0, 90.9, 89.1]);
        assert_eq!((less.sign(), less.against(0.05)), ('-', Against::Beyond));
        let more = change(&[90.0, 90.9, 89.1], &[100.0, 101.0, 99.0]);
        assert_eq!((more.sign(), more.against(0.05)), ('+', Against::Within));
    }

    #[test]
    fn more_latency_is_a_regression() {
        assert_eq!(latency((9.9, 10.0, 10.1), (11.9, 12.0, 12.1)).against(0.05), Against::Beyond);
        assert_eq!(latency((11.9, 12.0, 12.1), (9.9, 10.0, 10.1)).against(0.05), Against::Within);
        // Lower end of the difference: from the lower end of the second and the upper end of the
        // first, 2 -+ hypot(1.5, 0.5).
        let wide = latency((9.0, 10.0, 11.5), (11.5, 12.0, 12.5));
        assert!((wide.interval.unwrap().0 - (2.0 - 1.5_f64.hypot(0.5)) / 10.0).abs() < 1e-12);
        assert_eq!((wide.sign(), wide.against(0.05)), ('+', Against::Unsure));
    }

    #[test]
    fn an_interval_that_contains_the_limit_does_not_pass() {
        let noisy = change(&[100.0, 130.0, 70.0], &[95.0, 60.0, 125.0]);
        assert_eq!(noisy.sign(), '~');
        assert_eq!((noisy.against(0.03), noisy.against(0.1)), (Against::Unsure, Against::Unsure), "+-60 % hides 10 %");
        // The mean is better by 5 %, but the interval reaches far beyond 5 % worse.
        let better = change(&[100.0, 140.0, 60.0], &[105.0, 60.0, 150.0]);
        assert_eq!(better.against(0.05), Against::Unsure);
        assert_eq!(noisy.against(3.0), Against::Within);
    }

    #[test]
    fn one_set_each_proves_nothing_and_the_same_measurements_prove_that_nothing_changed() {
        let once = change(&[100.0], &[50.0]);
        assert_eq!((once.sign(), once.against(0.05)), ('~', Against::Unsure));
        let same = Change { is_identical: true, ..change(&[100.0], &[100.0]) };
        assert_eq!(same.against(0.0), Against::Within);
    }

    #[test]
    fn a_percentile_of_too_few_samples_is_reported() {
        let of = |samples| Percentile { percent: 99.0, ns: 5.0, samples, interval_ns: None };
        assert_eq!(too_few(&of(71), &of(500)), "p99 of 71 samples is their maximum; 368 are needed for an interval");
        assert_eq!(too_few(&of(400), &of(300)), "p99 of 300 samples; 368 are needed for an interval");
    }
}
