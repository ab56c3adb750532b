//! Summaries of single jobs for tables: figures over all sets of a cell, and sums of reporting
//! groups.

use std::borrow::Cow;

use crate::Histogram;
use crate::cell::Cell;
use crate::job_results::{JobMeasurement, JobTally};
use crate::measurement::{GroupMeasurement, Measurement};
use crate::statistics::Estimate;

/// A job, or all jobs of a reporting group, over all sets.
#[derive(Clone, Debug)]
pub struct JobSummary<'a> {
    /// Path of its group.
    pub group: &'a str,
    /// Weight of its group.
    pub weight: u32,
    /// Name in tables, with the number of the thread if there are clones.
    pub label: String,
    /// The reporting group.
    pub report_group: u32,
    /// Number of threads.
    pub threads: usize,
    /// Whether it is the sum of a reporting group whose jobs have results of their own.
    pub is_sum: bool,
    /// Time for which it was measured, in nanoseconds.
    pub runtime_ns: Estimate,
    /// How the end of the run affected it, in words; empty if it ended by itself in all sets.
    pub cut_off: String,
    /// The directions that it used.
    pub directions: Vec<JobDirection>,
}

/// A job in one direction, over all sets.
#[derive(Clone, Debug)]
pub struct JobDirection {
    /// `read`, `write`, `trim` or `sync`.
    pub name: &'static str,
    /// Time that it covers, in nanoseconds: the job's own time, except that writing and reading
    /// back each have their own.
    pub runtime_ns: Estimate,
    /// Bytes per second of that time.
    pub bytes_per_s: Estimate,
    /// Requests per second of that time.
    pub ios_per_s: Estimate,
    /// Bytes over all sets.
    pub bytes: u64,
    /// Requests over all sets.
    pub ios: u64,
    /// Failed requests over all sets.
    pub errors: u64,
    /// Latencies over all sets.
    pub latency: Histogram,
}

/// A row of one run.
struct Row<'a> {
    group: &'a GroupMeasurement,
    job: Cow<'a, JobMeasurement>,
    is_sum: bool,
}

/// The jobs of a cell; a reporting group of several jobs is followed by their sum.
pub fn summaries<'a>(cell: &Cell<'a>) -> Vec<JobSummary<'a>> {
    summaries_of(&cell.runs)
}

/// The same for some runs of one cell.
pub fn summaries_of<'a>(runs: &[&'a Measurement]) -> Vec<JobSummary<'a>> {
    let of_runs: Vec<Vec<Row<'a>>> = runs.iter().map(|run| rows(run)).collect();
    let count = of_runs.iter().map(Vec::len).min().unwrap_or(0);
    (0..count).map(|index| summary(&of_runs.iter().map(|rows| &rows[index]).collect::<Vec<_>>())).collect()
}

fn rows(run: &Measurement) -> Vec<Row<'_>> {
    let mut rows = Vec::new();
    for group in &run.groups {
        for members in group.jobs.chunk_by(|a, b| a.report_group == b.report_group) {
            rows.extend(members.iter().map(|job| Row { group, job: Cow::Borrowed(job), is_sum: false }));
            let [first, rest @ ..] = members else { continue };
            if !rest.is_empty() {
                let mut sum = first.clone();
                for job in rest {
                    sum.add(job);
                    sum.threads += job.threads;
                }
                rows.push(Row { group, job: Cow::Owned(sum), is_sum: true });
            }
        }
    }
    rows
}

/// The summary of a job from its results in each set; at least one.
fn summary<'a>(sets: &[&Row<'a>]) -> JobSummary<'a> {
    let Row { group, job, is_sum } = sets[0];
    let over = |figure: &dyn Fn(&JobMeasurement) -> f64| {
        Estimate::of(&sets.iter().map(|row| figure(&row.job)).collect::<Vec<f64>>())
    };
    let directions = job.directions().map(|(name, _)| name).into_iter().enumerate().filter_map(|(index, name)| {
        let tallies: Vec<&JobTally> = sets.iter().map(|row| row.job.directions()[index].1).collect();
        if tallies.iter().all(|tally| tally.is_empty()) {
            return None;
        }
        let rate = |amount: fn(&JobTally) -> u64| {
            over(&|job| {
                let tally = job.directions()[index].1;
                tally.per_s(amount(tally))
            })
        };
        let sum = |count: fn(&JobTally) -> u64| tallies.iter().map(|tally| count(tally)).sum();
        Some(JobDirection {
            name,
            runtime_ns: over(&|job| job.directions()[index].1.runtime_ns as f64),
            bytes_per_s: rate(|it| it.tally.bytes),
            ios_per_s: rate(|it| it.tally.ios),
            bytes: sum(|it| it.tally.bytes),
            ios: sum(|it| it.tally.ios),
            errors: sum(|it| it.tally.error_count()),
            latency: Histogram::merged(tallies.iter().map(|it| &it.tally.latency)),
        })
    });
    let label = if *is_sum { format!("all of group {}", job.report_group) } else { job.label(group).to_owned() };
    let cut_off = sets.iter().map(|row| row.job.cut_off_text(row.group)).find(|text| !text.is_empty());
    JobSummary {
        group: &group.path,
        weight: group.weight,
        label,
        report_group: job.report_group,
        threads: job.threads,
        is_sum: *is_sum,
        runtime_ns: over(&|job| job.runtime_ns() as f64),
        cut_off: cut_off.unwrap_or_default(),
        directions: directions.collect(),
    }
}
