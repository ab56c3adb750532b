//! What tables show of single jobs: each with its figures over all sets of a cell, and the sums of reporting groups.

use std::borrow::Cow;

use crate::Histogram;
use crate::cell::Cell;
use crate::job_results::{JobMeasurement, JobTally};
use crate::measurement::{GroupMeasurement, Measurement};
use crate::statistics::Estimate;

/// A job, or all jobs of a reporting group together, over all sets.
#[derive(Clone, Debug)]
pub struct JobSummary<'a> {
    /// Path of the group it belongs to.
    pub group: &'a str,
    /// That group's weight.
    pub weight: u32,
    /// What to call it: its name, with the number of the thread where there are clones.
    pub label: String,
    /// The reporting group.
    pub report_group: u32,
    /// Threads.
    pub threads: usize,
    /// Whether it is the sum of a reporting group whose jobs have results of their own.
    pub is_sum: bool,
    /// How long it was measured, in nanoseconds.
    pub runtime_ns: Estimate,
    /// What the end of the run did to it, in words; empty if it ended by itself, in all sets.
    pub cut_off: String,
    /// The directions in which it did anything.
    pub directions: Vec<JobDirection>,
}

/// A job in one direction, over all sets.
#[derive(Clone, Debug)]
pub struct JobDirection {
    /// `read`, `write`, `trim` or `sync`.
    pub name: &'static str,
    /// Over how long, in nanoseconds: its own time, but what is written and what of it is read back each have their part.
    pub runtime_ns: Estimate,
    /// Bytes per second of that.
    pub bytes_per_s: Estimate,
    /// Requests per second of that.
    pub ios_per_s: Estimate,
    /// Bytes, all sets together.
    pub bytes: u64,
    /// Requests, all sets together.
    pub ios: u64,
    /// Requests that failed, all sets together.
    pub errors: u64,
    /// Latencies, all sets together.
    pub latency: Histogram,
}

/// A row of one run.
struct Row<'a> {
    group: &'a GroupMeasurement,
    job: Cow<'a, JobMeasurement>,
    is_sum: bool,
}

/// The jobs of a cell, and behind those of a reporting group that are several their sum.
pub fn summaries<'a>(cell: &Cell<'a>) -> Vec<JobSummary<'a>> {
    summaries_of(&cell.runs)
}

/// The same of some runs of one cell.
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
