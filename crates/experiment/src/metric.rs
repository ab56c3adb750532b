//! The figures that assertions and comparisons refer to, by name.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cell::Cell;
use crate::delta::delta_ns;
use crate::entitlement::Entitlement;
use crate::measurement::{GroupMeasurement, Measurement, Tally};
use crate::recorder::IoDirection;
use crate::share::Fairness;
use crate::statistics::Estimate;

/// A figure of a cell, or of one of its groups.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Bytes per second read and written by all groups.
    TotalBw,
    /// Bytes per second discarded by all groups.
    TotalDiscardBw,
    /// Requests per second of all groups.
    TotalIops,
    /// Bytes per second read and written by a group.
    Bw,
    /// Bytes per second discarded by a group.
    DiscardBw,
    /// Requests per second of a group.
    Iops,
    /// Number of requests of a group.
    Ios,
    /// Its part of the requests of all groups.
    IosShare,
    /// Median latency.
    LatP50,
    /// 99th percentile of latency.
    LatP99,
    /// 99.9th percentile of latency.
    LatP999,
    /// Largest latency.
    LatMax,
    /// Mean latency.
    LatMean,
    /// Smallest latency.
    LatMin,
    /// Standard deviation of latency.
    LatDev,
    /// Time from a group's first submission to its last completion.
    Time,
    /// Bytes per second of a group over that time, as dd prints it.
    OwnBw,
    /// Requests that completed after their deadline, such as dropped frames.
    Late,
    /// Their fraction of all requests.
    LateShare,
    /// Got / entitled of a group, or of the group that is worst off; at most 1.
    Isolation,
    /// Bytes per second that a group is entitled to.
    Entitled,
    /// The longest time for which a group got less than 90 % of what it is entitled to, or the longest
    /// of all groups.
    Delta,
    /// Largest share error of all groups.
    ShareErrorMax,
    /// Mean share error of all groups.
    ShareErrorMean,
    /// Share error of a group.
    ShareError,
    /// Share of a group divided by its due share.
    Rel,
    /// Jain's fairness index.
    Jain,
    /// Throughput relative to the best scheduler's.
    Efficiency,
    /// Failed requests.
    Errors,
}

/// The unit of a metric, which determines the units that may follow a number.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// Bytes per second.
    BytesPerSecond,
    /// Nanoseconds.
    Time,
    /// A ratio; `%` = hundredths.
    Ratio,
    /// A plain number.
    Count,
}

/// Whether a metric applies to the whole cell, to one group, or to either.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Scope {
    /// Of the cell only.
    Cell,
    /// A group must be named.
    Group,
    /// A group may be named.
    Either,
}

impl Metric {
    /// All metrics with their names, quantities and scopes.
    pub const ALL: [(&'static str, Metric, Quantity, Scope); 29] = [
        ("total_bw", Metric::TotalBw, Quantity::BytesPerSecond, Scope::Cell),
        ("total_iops", Metric::TotalIops, Quantity::Count, Scope::Cell),
        ("bw", Metric::Bw, Quantity::BytesPerSecond, Scope::Group),
        ("total_discard_bw", Metric::TotalDiscardBw, Quantity::BytesPerSecond, Scope::Cell),
        ("discard_bw", Metric::DiscardBw, Quantity::BytesPerSecond, Scope::Group),
        ("iops", Metric::Iops, Quantity::Count, Scope::Group),
        ("ios", Metric::Ios, Quantity::Count, Scope::Group),
        ("ios_share", Metric::IosShare, Quantity::Ratio, Scope::Group),
        ("lat_p50", Metric::LatP50, Quantity::Time, Scope::Either),
        ("lat_p99", Metric::LatP99, Quantity::Time, Scope::Either),
        ("lat_p999", Metric::LatP999, Quantity::Time, Scope::Either),
        ("lat_max", Metric::LatMax, Quantity::Time, Scope::Either),
        ("lat_mean", Metric::LatMean, Quantity::Time, Scope::Either),
        ("lat_min", Metric::LatMin, Quantity::Time, Scope::Either),
        ("lat_dev", Metric::LatDev, Quantity::Time, Scope::Either),
        ("time", Metric::Time, Quantity::Time, Scope::Group),
        ("own_bw", Metric::OwnBw, Quantity::BytesPerSecond, Scope::Group),
        ("late", Metric::Late, Quantity::Count, Scope::Either),
        ("late_share", Metric::LateShare, Quantity::Ratio, Scope::Either),
        ("isolation", Metric::Isolation, Quantity::Ratio, Scope::Either),
        ("entitled", Metric::Entitled, Quantity::BytesPerSecond, Scope::Group),
        ("delta", Metric::Delta, Quantity::Time, Scope::Either),
        ("share_error_max", Metric::ShareErrorMax, Quantity::Ratio, Scope::Cell),
        ("share_error_mean", Metric::ShareErrorMean, Quantity::Ratio, Scope::Cell),
        ("share_error", Metric::ShareError, Quantity::Ratio, Scope::Group),
        ("rel", Metric::Rel, Quantity::Ratio, Scope::Group),
        ("jain", Metric::Jain, Quantity::Ratio, Scope::Cell),
        ("efficiency", Metric::Efficiency, Quantity::Ratio, Scope::Cell),
        ("errors", Metric::Errors, Quantity::Count, Scope::Either),
    ];

    /// The metric of a name.
    pub fn named(name: &str) -> Option<Metric> {
        Self::ALL.iter().find(|row| row.0 == name).map(|row| row.1)
    }

    fn row(self) -> &'static (&'static str, Metric, Quantity, Scope) {
        // Every metric has a row; the first one is an unused fallback.
        Self::ALL.iter().find(|row| row.1 == self).unwrap_or(&Self::ALL[0])
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.row().0
    }

    /// The unit of its values.
    pub fn quantity(self) -> Quantity {
        self.row().2
    }

    /// What it applies to.
    pub fn scope(self) -> Scope {
        self.row().3
    }

    /// The figure of `cell`, optionally of one group (index into [`Cell::groups`]) and of one
    /// direction. In bytes per second, nanoseconds, ratios or counts. `None` if there is no such
    /// figure.
    pub fn of(self, cell: &Cell<'_>, group: Option<usize>, direction: Option<IoDirection>) -> Option<Estimate> {
        let index = group.and_then(|group| cell.groups.get(group)).map(|group| group.index);
        let latency = |percent| {
            let figures = cell.latency(group, direction);
            (figures.histogram.count() > 0).then(|| figures.percentile_ns(percent))
        };
        Some(match self {
            Metric::TotalBw => rate(cell, None, direction, bytes),
            Metric::TotalDiscardBw => cell.discarded_bytes_per_s,
            Metric::TotalIops => rate(cell, None, direction, ios),
            Metric::Bw => rate(cell, Some(index?), direction, bytes),
            Metric::DiscardBw => cell.groups.get(group?)?.discarded_bytes_per_s,
            Metric::Iops => rate(cell, Some(index?), direction, ios),
            Metric::Ios => {
                let index = index?;
                crate::cell::over(&cell.runs, |run| count(run, Some(index), direction))
            }
            Metric::IosShare => {
                let index = index?;
                crate::cell::over(&cell.runs, |run| {
                    let all = count(run, None, direction);
                    if all > 0.0 { count(run, Some(index), direction) / all } else { 0.0 }
                })
            }
            Metric::LatP50 => latency(50.0)?,
            Metric::LatP99 => latency(99.0)?,
            Metric::LatP999 => latency(99.9)?,
            Metric::LatMax => cell.latency(group, direction).max_ns(),
            Metric::LatMean => cell.latency(group, direction).mean_ns(),
            Metric::LatMin => cell.latency(group, direction).min_ns(),
            Metric::LatDev => cell.latency(group, direction).deviation_ns(),
            Metric::Time => own_time(cell, index?, |_, time_ns| time_ns)?,
            Metric::OwnBw => own_time(cell, index?, |bytes, time_ns| bytes * 1e9 / time_ns)?,
            Metric::Late => crate::cell::over(&cell.runs, |run| late(run, index).0),
            Metric::LateShare => crate::cell::over(&cell.runs, |run| {
                let (late, all) = late(run, index);
                if all > 0.0 { late / all } else { 0.0 }
            }),
            Metric::Isolation => entitlement(cell, |it| match group {
                Some(group) => it.fulfilled.get(group).copied().flatten().map(|part| part.min(1.0)),
                None => Some(it.isolation),
            })?,
            Metric::Entitled => entitled(cell, group?)?,
            Metric::Delta => delta(cell, index)?,
            Metric::ShareErrorMax => fairness(cell, |fairness| Some(fairness.error_max))?,
            Metric::ShareErrorMean => fairness(cell, |fairness| Some(fairness.error_mean))?,
            Metric::ShareError => fairness(cell, |fairness| fairness.error(group?))?,
            Metric::Rel => fairness(cell, |fairness| fairness.relative.get(group?).copied().flatten())?,
            Metric::Jain => fairness(cell, |fairness| Some(fairness.jain))?,
            Metric::Efficiency => cell.efficiency,
            Metric::Errors => {
                let errors = |run: &Measurement| selected(run, index).map(GroupMeasurement::errors).sum::<u64>() as f64;
                crate::cell::over(&cell.runs, errors)
            }
        })
    }
}

fn selected(run: &Measurement, index: Option<usize>) -> impl Iterator<Item = &GroupMeasurement> {
    run.groups.iter().enumerate().filter(move |(i, _)| index.is_none_or(|index| index == *i)).map(|(_, group)| group)
}

/// Bytes of a direction, or all transferred bytes.
fn bytes(group: &GroupMeasurement, direction: Option<IoDirection>) -> u64 {
    direction.map_or_else(|| group.bytes(), |direction| of_direction(group, direction).bytes)
}

/// I/Os of a direction, or of all.
fn ios(group: &GroupMeasurement, direction: Option<IoDirection>) -> u64 {
    direction.map_or_else(|| group.ios(), |direction| of_direction(group, direction).ios)
}

/// I/Os of a group, or of all.
fn count(run: &Measurement, index: Option<usize>, direction: Option<IoDirection>) -> f64 {
    selected(run, index).map(|group| ios(group, direction)).sum::<u64>() as f64
}

fn of_direction(group: &GroupMeasurement, direction: IoDirection) -> &Tally {
    match direction {
        IoDirection::Read => &group.read,
        IoDirection::Write => &group.write,
        IoDirection::Trim => &group.trim,
        IoDirection::Sync => &group.sync,
    }
}

/// Number of requests that missed their deadline, and of all requests.
fn late(run: &Measurement, index: Option<usize>) -> (f64, f64) {
    let sum = |of: fn(&GroupMeasurement) -> u64| selected(run, index).map(of).sum::<u64>() as f64;
    (sum(|group| group.late), sum(GroupMeasurement::ios))
}

/// A figure from a group's bytes and the time of its slowest thread in ns; `None` if no thread
/// completed anything.
fn own_time(cell: &Cell<'_>, index: usize, figure: fn(f64, f64) -> f64) -> Option<Estimate> {
    let of_run = |run: &Measurement| {
        let group = run.groups.get(index)?;
        let time_ns = group.threads.iter().map(|thread| thread.elapsed_ns).max().filter(|time_ns| *time_ns > 0)?;
        Some(figure(group.bytes() as f64, time_ns as f64))
    };
    let values: Vec<f64> = cell.runs.iter().filter_map(|run| of_run(run)).collect();
    (!values.is_empty()).then(|| Estimate::of(&values))
}

fn rate(
    cell: &Cell<'_>,
    index: Option<usize>,
    direction: Option<IoDirection>,
    count: fn(&GroupMeasurement, Option<IoDirection>) -> u64,
) -> Estimate {
    crate::cell::over(&cell.runs, |run| run.per_s(selected(run, index).map(|group| count(group, direction)).sum()))
}

/// A figure of fairness from the groups' means, with the interval of single sets.
fn fairness(cell: &Cell<'_>, figure: impl Fn(&Fairness) -> Option<f64>) -> Option<Estimate> {
    let mean = figure(cell.fairness.as_ref()?)?;
    let per_set = cell.runs.iter().filter_map(|run| cell.fairness_of(&[*run]));
    let values: Vec<f64> = per_set.filter_map(|fairness| figure(&fairness)).collect();
    Some(Estimate::of(&values).around(mean))
}

/// A figure of entitlements from the groups' means, with the interval of single sets.
fn entitlement(cell: &Cell<'_>, figure: impl Fn(&Entitlement) -> Option<f64>) -> Option<Estimate> {
    let mean = figure(cell.entitlement.as_ref()?)?;
    let per_set = cell.runs.iter().filter_map(|run| cell.entitlement_of(&[*run]));
    let values: Vec<f64> = per_set.filter_map(|entitlement| figure(&entitlement)).collect();
    Some(Estimate::of(&values).around(mean))
}

/// Delta of a group, or of the group that waited longest for what is its.
fn delta(cell: &Cell<'_>, index: Option<usize>) -> Option<Estimate> {
    let groups = || cell.groups.iter().map(|group| group.index).filter(|own| index.is_none_or(|index| index == *own));
    let of_run = |run: &&Measurement| {
        groups().map(|group| delta_ns(run, group)).collect::<Option<Vec<u64>>>()?.into_iter().max()
    };
    let values: Vec<f64> = cell.runs.iter().map(of_run).map(|ns| Some(ns? as f64)).collect::<Option<_>>()?;
    (cell.groups.len() > 1).then(|| Estimate::of(&values))
}

/// What a group is entitled to; `None` if that is counted in I/Os.
fn entitled(cell: &Cell<'_>, group: usize) -> Option<Estimate> {
    let index = cell.groups.get(group)?.index;
    let counts_ios = cell.runs.first()?.solo_rates.get(index)?.counts_ios();
    if counts_ios { None } else { entitlement(cell, |it| it.entitled_per_s.get(group).copied()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_has_its_own_row() {
        for (name, metric, ..) in Metric::ALL {
            assert_eq!(Metric::named(name), Some(metric));
            assert_eq!(metric.name(), name);
        }
    }
}
