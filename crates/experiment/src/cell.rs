//! A cell: all repetitions of one combination of workload, scheduler and thread count, with their
//! statistics.
//!
//! Every table, page and assertion reads cells; the figures that a view shows are computed here or
//! in the modules used here.

use crate::entitlement::{self, Entitlement};
use crate::group::Group;
use crate::histogram::Histogram;
use crate::measurement::{Flag, GroupMeasurement, Measurement, SchedulerInForce, SoloRates};
use crate::recorder::IoDirection;
use crate::share::{Fairness, due};
use crate::statistics::Estimate;
use crate::{SchedulerSpec, ShareUnit};

/// Host name of results that fio produced on its own. Their scheduler is unknown, so their jobs
/// have due shares only if their weights differ.
pub const FIO: &str = "fio";

/// The repetitions of one combination.
#[derive(Clone, Debug)]
pub struct Cell<'a> {
    /// One measurement per set, in order of sets; at least one.
    pub runs: Vec<&'a Measurement>,
    /// The workload's name.
    pub workload: &'a str,
    /// The scheduler as requested.
    pub spec: &'a SchedulerSpec,
    /// The scheduler in force, in the first run.
    pub scheduler: &'a SchedulerInForce,
    /// Thread count.
    pub threads: u32,
    /// Bytes per second read and written by all groups.
    pub bytes_per_s: Estimate,
    /// Bytes per second discarded by all groups.
    pub discarded_bytes_per_s: Estimate,
    /// Requests per second of all groups.
    pub ios_per_s: Estimate,
    /// The groups that have jobs.
    pub groups: Vec<CellGroup<'a>>,
    /// How well the shares fit the weights, from the mean throughput of the groups. `None` if
    /// nothing was done or no shares were due ([`FIO`]).
    pub fairness: Option<Fairness>,
    /// How much of what it is entitled to each group got, by the mean rates. `None` without the
    /// groups' rates alone, or for a single group.
    pub entitlement: Option<Entitlement>,
    /// Throughput relative to the best scheduler of the same workload and thread count, 0 to 1.
    pub efficiency: Estimate,
    /// Failed requests in all runs.
    pub errors: u64,
    /// Flags of all runs, without duplicates.
    pub flags: Vec<Flag>,
}

/// One group of a cell.
#[derive(Clone, Debug)]
pub struct CellGroup<'a> {
    /// Its index in the measurements' groups.
    pub index: usize,
    /// Its path.
    pub path: &'a str,
    /// The requested weight.
    pub weight: u32,
    /// The weight in force.
    pub effective_weight: u32,
    /// Bytes per second read and written.
    pub bytes_per_s: Estimate,
    /// Bytes per second discarded.
    pub discarded_bytes_per_s: Estimate,
    /// Requests per second.
    pub ios_per_s: Estimate,
}

/// Latency figures of a cell or of one of its groups, in nanoseconds.
#[derive(Clone, Debug)]
pub struct LatencyFigures {
    /// Histogram of all sets together.
    pub histogram: Histogram,
    per_set: Vec<Histogram>,
}

impl LatencyFigures {
    /// The percentile over all sets, with the interval of the percentiles of single sets.
    pub fn percentile_ns(&self, percent: f64) -> Estimate {
        self.estimate(|histogram| histogram.percentile_ns(percent) as f64)
    }

    /// The mean over all sets, with the interval of the means of single sets.
    pub fn mean_ns(&self) -> Estimate {
        self.estimate(Histogram::mean_ns)
    }

    /// The largest latency of all sets, with the interval of the maxima of single sets.
    pub fn max_ns(&self) -> Estimate {
        self.estimate(|histogram| histogram.max_ns() as f64)
    }

    /// The smallest latency of all sets, with the interval of the minima of single sets.
    pub fn min_ns(&self) -> Estimate {
        self.estimate(|histogram| histogram.min_ns() as f64)
    }

    /// The standard deviation over all sets, with the interval of those of single sets.
    pub fn deviation_ns(&self) -> Estimate {
        self.estimate(Histogram::deviation_ns)
    }

    fn estimate(&self, figure: impl Fn(&Histogram) -> f64) -> Estimate {
        let values: Vec<f64> = self.per_set.iter().map(&figure).collect();
        Estimate::of(&values).around(figure(&self.histogram))
    }
}

impl<'a> Cell<'a> {
    /// Whether both have the same workload. Results of before fio's names say `drr` where later ones say `randread`.
    pub fn is_of_workload(&self, other: &Cell<'_>) -> bool {
        hoistway_workload::name::code(self.workload) == hoistway_workload::name::code(other.workload)
    }

    /// The cell of these runs of one combination; at least one.
    fn new(mut runs: Vec<&'a Measurement>) -> Self {
        runs.sort_by_key(|run| run.experiment.set);
        let first = runs[0];
        let experiment = &first.experiment;
        let groups = experiment.groups.iter().enumerate().filter(|(_, group)| !group.jobs.is_empty());
        let groups = groups.map(|(index, group)| CellGroup {
            index,
            path: &group.path,
            weight: group.weight.get(),
            effective_weight: first.groups.get(index).map_or(group.weight.get(), |group| group.effective_weight),
            bytes_per_s: over(&runs, |run| run.groups.get(index).map_or(0.0, |group| run.per_s(group.bytes()))),
            discarded_bytes_per_s: over(&runs, |run| {
                run.groups.get(index).map_or(0.0, |group| run.per_s(group.discarded_bytes()))
            }),
            ios_per_s: over(&runs, |run| run.groups.get(index).map_or(0.0, |group| run.per_s(group.ios()))),
        });
        let mut flags: Vec<Flag> = runs.iter().flat_map(|run| run.flags.iter().copied()).collect();
        flags.sort_unstable();
        flags.dedup();
        let mut cell = Self {
            workload: &experiment.workload,
            spec: &experiment.scheduler,
            scheduler: &first.scheduler,
            threads: experiment.threads,
            bytes_per_s: over(&runs, Measurement::bytes_per_s),
            discarded_bytes_per_s: over(&runs, Measurement::discarded_bytes_per_s),
            ios_per_s: over(&runs, Measurement::ios_per_s),
            groups: groups.collect(),
            fairness: None,
            entitlement: None,
            efficiency: Estimate::of(&[1.0]),
            errors: runs.iter().flat_map(|run| &run.groups).map(GroupMeasurement::errors).sum(),
            flags,
            runs,
        };
        cell.fairness = cell.fairness_of(&cell.runs);
        cell.entitlement = cell.entitlement_of(&cell.runs);
        cell
    }

    /// How much of what it is entitled to each group got, by the mean of each over `runs`.
    pub fn entitlement_of(&self, runs: &[&Measurement]) -> Option<Entitlement> {
        let first = runs.first().filter(|_| self.groups.len() > 1)?;
        let (experiment, rates) = (&first.experiment, &first.solo_rates);
        let window = (experiment.ramp_ns, experiment.ramp_ns + first.window_ns);
        let entitled = entitlement::of_groups(&experiment.groups, rates, window)?;
        let got = |group: &CellGroup<'_>| {
            let counts_ios = rates.get(group.index).is_some_and(SoloRates::counts_ios);
            let amount = |it: &GroupMeasurement| if counts_ios { it.ios() } else { it.bytes() };
            over(runs, |run| run.groups.get(group.index).map_or(0.0, |it| run.per_s(amount(it)))).mean
        };
        let entitled = self.groups.iter().map(|group| entitled[group.index]).collect();
        Entitlement::of(self.groups.iter().map(got).collect(), entitled)
    }

    /// How well the shares of `runs` fit the weights, by the mean of each group over them.
    pub fn fairness_of(&self, runs: &[&Measurement]) -> Option<Fairness> {
        let Measurement { experiment, host, .. } = runs.first()?;
        let is_weighted = self.groups.iter().any(|group| group.weight != self.groups[0].weight);
        if host == FIO && !is_weighted {
            return None;
        }
        let got = |group: &CellGroup<'_>| {
            over(runs, |run| run.groups.get(group.index).map_or(0.0, |g| run.per_s(amount(g, experiment.share_unit))))
                .mean
        };
        let got: Vec<f64> = self.groups.iter().map(got).collect();
        let weights: Vec<u32> = runs[0].groups.iter().map(|group| group.effective_weight).collect();
        let unit = experiment.share_unit;
        let due = due(got.iter().sum(), &experiment.groups, &weights, unit);
        let due: Vec<f64> = self.groups.iter().map(|group| due[group.index]).collect();
        Fairness::of(&got, &due)
    }

    /// The experiment's definitions of [`Cell::groups`].
    pub fn plan_groups(&self) -> impl Iterator<Item = &'a Group> + '_ {
        self.groups.iter().map(|group| &self.runs[0].experiment.groups[group.index])
    }

    /// Latencies of one group (index into [`Cell::groups`]) or of all, in one direction or in all
    /// of read, write and trim.
    pub fn latency(&self, group: Option<usize>, direction: Option<IoDirection>) -> LatencyFigures {
        let only = group.and_then(|group| self.groups.get(group)).map(|group| group.index);
        let of_run = |run: &&Measurement| {
            let groups = match only {
                Some(only) => run.groups.get(only..=only).unwrap_or_default(),
                None => &run.groups[..],
            };
            let tallies = groups.iter().flat_map(|group| match direction {
                None => vec![&group.read, &group.write, &group.trim],
                Some(IoDirection::Read) => vec![&group.read],
                Some(IoDirection::Write) => vec![&group.write],
                Some(IoDirection::Trim) => vec![&group.trim],
                Some(IoDirection::Sync) => vec![&group.sync],
            });
            Histogram::merged(tallies.map(|tally| &tally.latency))
        };
        let per_set: Vec<Histogram> = self.runs.iter().map(of_run).collect();
        LatencyFigures { histogram: Histogram::merged(&per_set), per_set }
    }

    /// A short name of the cell: `drr bfq:low_latency=0 nr=4`.
    pub fn name(&self) -> String {
        format!("{} {} nr={}", self.workload, self.spec, self.threads)
    }
}

/// An estimate with one value per run.
pub fn over(runs: &[&Measurement], figure: impl Fn(&Measurement) -> f64) -> Estimate {
    let values: Vec<f64> = runs.iter().map(|run| figure(run)).collect();
    Estimate::of(&values)
}

/// A group's service in the unit of shares.
pub fn amount(group: &GroupMeasurement, unit: ShareUnit) -> u64 {
    match unit {
        ShareUnit::Bytes => group.bytes(),
        ShareUnit::Ios => group.ios(),
        ShareUnit::Time => group.device_ns(),
    }
}

/// Groups measurements into cells: by workload in order of appearance, by scheduler in the order of
/// `schedulers` (others last), by number of threads.
pub fn cells<'a>(measurements: &'a [Measurement], schedulers: &[SchedulerSpec]) -> Vec<Cell<'a>> {
    let mut workloads: Vec<&str> = Vec::new();
    let mut specs: Vec<&SchedulerSpec> = schedulers.iter().collect();
    for Measurement { experiment, .. } in measurements {
        if !workloads.contains(&experiment.workload.as_str()) {
            workloads.push(&experiment.workload);
        }
        if !specs.contains(&&experiment.scheduler) {
            specs.push(&experiment.scheduler);
        }
    }
    let place = |m: &Measurement| {
        let workload = workloads.iter().position(|name| *name == m.experiment.workload);
        let scheduler = specs.iter().position(|spec| **spec == m.experiment.scheduler);
        (workload, scheduler, m.experiment.threads)
    };
    let mut sorted: Vec<&Measurement> = measurements.iter().collect();
    sorted.sort_by_key(|m| place(m));
    let mut cells: Vec<Cell<'a>> =
        sorted.chunk_by(|a, b| place(a) == place(b)).map(|runs| Cell::new(runs.to_vec())).collect();
    set_efficiency(&mut cells);
    cells
}

/// Relates each cell to the best one of its workload and thread count.
fn set_efficiency(cells: &mut [Cell<'_>]) {
    for index in 0..cells.len() {
        let (workload, threads) = (cells[index].workload, cells[index].threads);
        let rivals = cells.iter().filter(|cell| cell.workload == workload && cell.threads == threads);
        let best = rivals.map(|cell| cell.bytes_per_s.mean).fold(0.0, f64::max);
        if best > 0.0 {
            let own = cells[index].bytes_per_s;
            cells[index].efficiency =
                Estimate { mean: own.mean / best, sd: own.sd / best, ci95: own.ci95.map(|ci95| ci95 / best), n: own.n };
        }
    }
}

/// Whether the total throughput and the discards of every cell are known to within `precision`
/// (0.05 = 5 %); requires at least two sets.
pub fn is_precise(cells: &[Cell<'_>], precision: f64) -> bool {
    let is_known = |rate: &Estimate| rate.relative_half_width().is_some_and(|half| half <= precision);
    cells.iter().all(|cell| is_known(&cell.bytes_per_s) && is_known(&cell.discarded_bytes_per_s))
}
