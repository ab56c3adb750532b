//! The results of an [`Experiment`](crate::Experiment).

use std::collections::BTreeMap;

use hoistway_experiment::cell::Cell;
use hoistway_experiment::{Matrix, Measurement};
use hoistway_report::table::TextOptions;
use hoistway_report::{Results, csv, json, page, table};

use crate::plan::machine;

/// The results of an experiment, and their views.
#[derive(Clone, Debug)]
pub struct Outcome {
    host: &'static str,
    matrix: Matrix,
    measurements: Vec<Measurement>,
    started_unix_ms: u64,
    environment: BTreeMap<String, String>,
}

/// What one group got under one scheduler: means over all sets.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct GroupRow {
    /// The workload.
    pub workload: String,
    /// The scheduler with its settings as given.
    pub scheduler: String,
    /// Threads of each job.
    pub threads: u32,
    /// The group's path.
    pub group: String,
    /// Its weight, 1 to 10,000.
    pub weight: u32,
    /// Bytes per second read and written.
    pub bytes_per_s: f64,
    /// Requests per second.
    pub ios_per_s: f64,
    /// Its part of what all groups got, 0 to 1; `None` if nothing was done.
    pub share: Option<f64>,
    /// The part that was due by its weight and demand, 0 to 1.
    pub due: Option<f64>,
    /// Median latency in nanoseconds.
    pub latency_p50_ns: f64,
    /// 99th percentile of latency in nanoseconds.
    pub latency_p99_ns: f64,
}

impl Outcome {
    pub(crate) fn new(
        host: &'static str,
        matrix: Matrix,
        measurements: Vec<Measurement>,
        started_unix_ms: u64,
    ) -> Self {
        Self { host, matrix, measurements, started_unix_ms, environment: machine::environment() }
    }

    /// The plan that was run.
    pub fn plan(&self) -> &Matrix {
        &self.matrix
    }

    /// One measurement for each run, in the plan's order: counters, histograms of latency, settings
    /// in force.
    pub fn measurements(&self) -> &[Measurement] {
        &self.measurements
    }

    /// The repetitions of each combination with means and 95 % intervals, in the order of tables.
    pub fn cells(&self) -> Vec<Cell<'_>> {
        self.results().cells()
    }

    /// One row for each group of each combination, in the order of tables.
    pub fn rows(&self) -> Vec<GroupRow> {
        let cells = self.cells();
        let rows = cells.iter().flat_map(|cell| {
            cell.groups.iter().enumerate().map(|(index, group)| {
                let latency = cell.latency(Some(index), None);
                GroupRow {
                    workload: cell.workload.to_owned(),
                    scheduler: cell.spec.to_string(),
                    threads: cell.threads,
                    group: group.path.to_owned(),
                    weight: group.weight,
                    bytes_per_s: group.bytes_per_s.mean,
                    ios_per_s: group.ios_per_s.mean,
                    share: cell.fairness.as_ref().map(|fairness| fairness.share[index]),
                    due: cell.fairness.as_ref().map(|fairness| fairness.due[index]),
                    latency_p50_ns: latency.percentile_ns(50.0).mean,
                    latency_p99_ns: latency.percentile_ns(99.0).mean,
                }
            })
        });
        rows.collect()
    }

    /// The text of `hoistway test --no-solo --format json`: of simulated experiments equal but for the key
    /// `environment` and the time of the start. `hoistway schema test` describes it.
    pub fn json(&self) -> String {
        format!("{}\n", json::result(&self.results()).document().trim_end())
    }

    /// The table of `hoistway test`.
    pub fn table(&self) -> String {
        table::text(&self.results(), &TextOptions::default())
    }

    /// The text of `hoistway test --format csv`, with these percentiles of latency, each above 0 and
    /// at most 100.
    pub fn csv(&self, percentiles: &[f64]) -> String {
        csv::table(&self.results(), percentiles)
    }

    /// What to know before the figures are believed, as `hoistway test` says it on stderr: runs that are too
    /// short for their scheduler to settle, with the remedy.
    pub fn notes(&self) -> Vec<String> {
        crate::settling::notes(&self.measurements)
    }

    /// The figures of each second of a run, as a result directory has them in `*.samples.csv`; `run` counts
    /// [`measurements`](Self::measurements) from 0. `None` if there is no such run.
    pub fn samples(&self, run: usize) -> Option<String> {
        self.measurements.get(run).map(csv::samples)
    }

    /// The page of `hoistway test --format html`, without pictures of dispatches.
    pub fn html(&self) -> String {
        page::html(&self.results())
    }

    /// The results as the views of [`report`](crate::report) take them.
    pub fn results(&self) -> Results<'_> {
        Results {
            version: env!("CARGO_PKG_VERSION"),
            started_unix_ms: self.started_unix_ms,
            complete: true,
            host: self.host,
            matrix: &self.matrix,
            measurements: &self.measurements,
            environment: &self.environment,
            verdicts: &[],
        }
    }
}
