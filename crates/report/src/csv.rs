//! One row per run, group (or `total`) and direction, for spreadsheets and data frames.
//!
//! Results of job files also have one row per job and direction; its column `job` is not empty.

use std::fmt::Write;

use hoistway_experiment::cell::Cell;
use hoistway_experiment::job_summary::summaries_of;
use hoistway_experiment::measurement::Tally;
use hoistway_experiment::{Histogram, IoDirection, Measurement};

use crate::Results;
use crate::quantity;

/// All runs, with a header line; `percentiles` are 0 to 100.
pub fn table(results: &Results<'_>, percentiles: &[f64]) -> String {
    let mut text =
        String::from("run_id,set,workload,sched,tunables,nr,group,weight,dir,bw_bytes,iops,ios,errors,lat_mean_ns");
    for &percent in percentiles {
        let _ = write!(text, ",lat_{}_ns", quantity::percentile_name(percent).replace('.', ""));
    }
    text.push_str(",share,due,share_error,isolation,flags");
    let has_jobs = results.measurements.iter().flat_map(|run| &run.groups).any(|group| !group.jobs.is_empty());
    text.push_str(if has_jobs { ",job,runtime_ms,cut_off\n" } else { "\n" });
    for cell in results.cells() {
        for run in &cell.runs {
            rows_of_run(&mut text, &cell, run, percentiles, has_jobs);
            rows_of_jobs(&mut text, &cell, run, percentiles);
        }
    }
    text
}

/// The samples of one run, one row per second, group and direction.
pub fn samples(run: &Measurement) -> String {
    let mut text = String::from("t_ms,group,dir,bytes,ios,p50_ns,p99_ns,inflight\n");
    for group in &run.groups {
        for (direction, tally) in group.directions() {
            for sample in &tally.samples {
                let (at_ms, path) = (sample.at_ns / 1_000_000, quoted(&group.path));
                let (bytes, ios, p50, p99) = (sample.bytes, sample.ios, sample.latency_ns_p50, sample.latency_ns_p99);
                let _ = writeln!(text, "{at_ms},{path},{direction},{bytes},{ios},{p50},{p99},{:.3}", sample.inflight);
            }
        }
    }
    text
}

const DIRECTIONS: [(&str, IoDirection); 3] =
    [("read", IoDirection::Read), ("write", IoDirection::Write), ("trim", IoDirection::Trim)];

/// The columns that are common to all rows of a run.
fn prefix_of(cell: &Cell<'_>, run: &Measurement) -> String {
    let experiment = &run.experiment;
    format!(
        "{},{},{},{},{},{}",
        quoted(&experiment.key()),
        experiment.set,
        quoted(&experiment.workload),
        quoted(&run.scheduler.name),
        quoted(&quantity::tunables(cell).join(" ")),
        experiment.threads,
    )
}

fn flags_of(run: &Measurement) -> String {
    let flags: Vec<&str> = run.flags.iter().map(|flag| flag.label()).collect();
    quoted(&flags.join(";"))
}

fn rows_of_run(text: &mut String, cell: &Cell<'_>, run: &Measurement, percentiles: &[f64], has_jobs: bool) {
    let prefix = prefix_of(cell, run);
    // Rows of groups leave the columns of jobs empty, except for the time.
    let behind = if has_jobs { format!(",,{},", run.window_ns / 1_000_000) } else { String::new() };
    let flags = flags_of(run) + &behind;
    let (fairness, entitlement) = (cell.fairness_of(&[run]), cell.entitlement_of(&[run]));
    for (name, direction) in DIRECTIONS {
        let tally = |index: usize| run.groups.get(index).map(|group| tally_of(group, direction));
        let used: Vec<&Tally> =
            cell.groups.iter().filter_map(|group| tally(group.index)).filter(|t| is_used(t)).collect();
        if used.is_empty() {
            continue;
        }
        for (place, group) in cell.groups.iter().enumerate() {
            let Some(tally) = tally(group.index).filter(|tally| is_used(tally)) else { continue };
            // Signed: negative for a group that got less than its due share.
            let signed = |relative: Option<f64>| relative.map(|relative| relative - 1.0);
            let share = fairness.as_ref().map(|it| (it.share[place], it.due[place], signed(it.relative[place])));
            let part = entitlement.as_ref().and_then(|it| it.fulfilled[place]).map(|part| part.min(1.0));
            let row = Row { group: group.path, weight: Some(group.weight), name, judged: judged(share, part) };
            row.write(text, &prefix, run, &[tally], percentiles, &flags);
        }
        let share = fairness.as_ref().map(|fairness| (1.0, 1.0, Some(fairness.error_max)));
        let judged = judged(share, entitlement.as_ref().map(|it| it.isolation));
        Row { group: "total", weight: None, name, judged }.write(text, &prefix, run, &used, percentiles, &flags);
    }
}

/// The jobs of a run over their own time; shares exist for groups only.
fn rows_of_jobs(text: &mut String, cell: &Cell<'_>, run: &Measurement, percentiles: &[f64]) {
    let (prefix, flags) = (prefix_of(cell, run), flags_of(run));
    for job in summaries_of(&[run]) {
        let (group, label, cut_off) = (quoted(job.group), quoted(&job.label), quoted(&job.cut_off));
        let behind = |runtime_ns: f64| format!(",,,,,{flags},{label},{:.0},{cut_off}", runtime_ns / 1e6);
        if job.directions.is_empty() {
            // A job that has not started has no direction.
            let none = ",".repeat(percentiles.len());
            let _ = writeln!(text, "{prefix},{group},{},,0,0.000,0,0,{none}{}", job.weight, behind(0.0));
        }
        for it in &job.directions {
            let (bw, iops, latency) = (it.bytes_per_s.mean, it.ios_per_s.mean, &it.latency);
            let _ = write!(text, "{prefix},{group},{},{},{bw:.0},{iops:.3},", job.weight, it.name);
            let _ = write!(text, "{},{},{:.0}", it.ios, it.errors, latency.mean_ns());
            for &percent in percentiles {
                let _ = write!(text, ",{}", latency.percentile_ns(percent));
            }
            text.push_str(&behind(it.runtime_ns.mean));
            text.push('\n');
        }
    }
}

fn tally_of(group: &hoistway_experiment::measurement::GroupMeasurement, direction: IoDirection) -> &Tally {
    match direction {
        IoDirection::Read => &group.read,
        IoDirection::Write => &group.write,
        IoDirection::Trim => &group.trim,
        IoDirection::Sync => &group.sync,
    }
}

fn is_used(tally: &Tally) -> bool {
    tally.ios > 0 || tally.latency.count() > 0 || tally.error_count() > 0
}

/// The columns that distinguish the rows of one run.
struct Row<'a> {
    group: &'a str,
    weight: Option<u32>,
    name: &'a str,
    /// Share, due share, share error and isolation.
    judged: String,
}

impl Row<'_> {
    fn write(
        &self,
        text: &mut String,
        prefix: &str,
        run: &Measurement,
        tallies: &[&Tally],
        percents: &[f64],
        flags: &str,
    ) {
        let sum = |count: fn(&Tally) -> u64| -> u64 { tallies.iter().map(|tally| count(tally)).sum() };
        let (bytes, ios, errors) = (sum(|t| t.bytes), sum(|t| t.ios), sum(Tally::error_count));
        let latency = Histogram::merged(tallies.iter().map(|tally| &tally.latency));
        let weight = self.weight.map_or_else(String::new, |weight| weight.to_string());
        let (bw, iops) = (run.per_s(bytes), run.per_s(ios));
        let _ = write!(text, "{prefix},{},{weight},{},{bw:.0},{iops:.3},", quoted(self.group), self.name);
        let _ = write!(text, "{ios},{errors},{:.0}", latency.mean_ns());
        for &percent in percents {
            let _ = write!(text, ",{}", latency.percentile_ns(percent));
        }
        let _ = writeln!(text, ",{},{flags}", self.judged);
    }
}

/// Share, due share, signed share error and isolation; the total has the largest absolute error.
fn judged(share: Option<(f64, f64, Option<f64>)>, isolation: Option<f64>) -> String {
    let digits = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.6}"));
    let (share, due, error) = share.map_or((None, None, None), |(share, due, error)| (Some(share), Some(due), error));
    [share, due, error, isolation].map(digits).join(",")
}

/// RFC 4180: a field with a comma, quote or line break is quoted; quotes are doubled.
fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}
