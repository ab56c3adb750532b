//! JSON: the whole test (`result.json`), and one run in fio's layout.
//!
//! Readers must ignore unknown keys; a key never changes its meaning within a major version.
//! Source: docs/specifications/harness.md, sections 5.8 and 7.1.

mod fio;
mod tree;

use experiment::cell::{Cell, CellGroup};
use experiment::job_summary::{JobSummary, summaries};
use experiment::statistics::Estimate;
use experiment::{Histogram, IoDirection, Measurement};

pub use fio::fio;
pub use tree::Json;

use crate::Results;
use crate::quantity;

/// Version of the layout of `result.json`.
pub const SCHEMA: u64 = 1;

/// The whole test: target, environment, groups, cells, assertions.
///
/// Two simulator runs of one plan differ only in `environment` and `started`.
pub fn result(results: &Results<'_>) -> Json {
    let cells = results.cells();
    let first = results.measurements.first();
    let verdicts = results.verdicts.iter().map(|verdict| {
        Json::object([
            ("expr", Json::text(&verdict.expr)),
            ("ok", Json::Bool(verdict.ok)),
            ("inconclusive", Json::Bool(verdict.is_inconclusive)),
            ("value", Json::Decimal(verdict.value)),
            ("limit", Json::Decimal(verdict.limit)),
            ("cell", Json::text(&verdict.cell)),
        ])
    });
    let environment = results.environment.iter().map(|(key, value)| (key.clone(), Json::text(value)));
    let groups = cells.first().map_or_else(Vec::new, |cell| cell.groups.iter().map(group_facts).collect());
    Json::object([
        ("hoistway", Json::text(results.version)),
        ("schema", Json::Whole(SCHEMA)),
        ("complete", Json::Bool(results.complete)),
        ("started", Json::text(results.started())),
        ("host", Json::text(results.host)),
        ("target", first.map_or(Json::Null, target)),
        ("environment", Json::Object(environment.collect())),
        ("groups", Json::List(groups)),
        ("cells", Json::List(cells.iter().map(cell).collect())),
        ("assertions", Json::List(verdicts.collect())),
    ])
}

fn group_facts(group: &CellGroup<'_>) -> Json {
    Json::object([
        ("name", Json::text(group.path)),
        ("weight", Json::Whole(group.weight.into())),
        ("effective_weight", Json::Whole(group.effective_weight.into())),
    ])
}

fn target(run: &Measurement) -> Json {
    let target = &run.target;
    let mut json = Json::object([
        ("path", Json::text(&target.path)),
        ("model", Json::text(&target.model)),
        ("size_bytes", Json::Whole(target.size_bytes)),
        ("rotational", Json::Bool(target.rotational)),
        ("hw_queues", Json::Whole(target.hw_queues.into())),
        ("queue_depth", Json::Whole(target.queue_depth.into())),
    ]);
    for (key, value) in &target.notes {
        json.push(key, Json::text(value));
    }
    json
}

fn cell(cell: &Cell<'_>) -> Json {
    let settings = cell.scheduler.tunables.iter().map(|tunable| {
        let value = Json::object([
            ("value", Json::text(&tunable.value)),
            ("unit", Json::text(&tunable.unit)),
            ("default", Json::Bool(tunable.is_default)),
        ]);
        (tunable.name.clone(), value)
    });
    let asked = cell.spec.settings.iter().map(|setting| (setting.key.clone(), Json::text(&setting.value)));
    let fairness = cell.fairness.as_ref();
    let mut flags: Vec<Json> = cell.flags.iter().map(|flag| Json::text(flag.label())).collect();
    if !cell.scheduler.has_shares && !cell.flags.contains(&experiment::measurement::Flag::NoShares) {
        flags.push(Json::text("no shares"));
    }
    let jobs = summaries(cell);
    let mut json = Json::object([
        ("workload", Json::text(cell.workload)),
        ("sched", Json::text(&cell.scheduler.name)),
        ("spec", Json::text(cell.spec.to_string())),
        ("version", cell.scheduler.version.as_ref().map_or(Json::Null, Json::text)),
        ("tunables", Json::Object(asked.collect())),
        ("tunables_in_force", Json::Object(settings.collect())),
        ("nr", Json::Whole(cell.threads.into())),
        ("sets", Json::Whole(cell.runs.len() as u64)),
        ("total", total(cell)),
        ("groups", Json::List((0..cell.groups.len()).map(|index| group(cell, index, &jobs)).collect())),
        ("jain", Json::or_null(fairness.map(|fairness| fairness.jain))),
        ("share_error_max", Json::or_null(fairness.map(|fairness| fairness.error_max))),
        ("share_error_mean", Json::or_null(fairness.map(|fairness| fairness.error_mean))),
        ("efficiency", Json::Decimal(cell.efficiency.mean)),
        ("errors", Json::Whole(cell.errors)),
        ("dispatch_reasons", dispatch_reasons(cell)),
        ("flags", Json::List(flags)),
    ]);
    if let Some(issue_delay) = issue_delay(cell) {
        json.push("slip_ns", issue_delay);
    }
    json
}

fn total(cell: &Cell<'_>) -> Json {
    Json::object([
        ("bw_bytes", estimate(&cell.bytes_per_s)),
        ("discard_bw_bytes", estimate(&cell.discarded_bytes_per_s)),
        ("iops", estimate(&cell.ios_per_s)),
        ("lat_ns", latencies(cell, None)),
    ])
}

/// Delay of a replay's I/Os relative to their recorded times; `None` for other jobs.
fn issue_delay(cell: &Cell<'_>) -> Option<Json> {
    let groups = cell.runs.iter().flat_map(|run| &run.groups);
    let issue_delay = Histogram::merged(groups.map(|group| &group.issue_delay));
    (!issue_delay.is_empty()).then(|| {
        Json::object([
            ("p50", Json::Whole(issue_delay.percentile_ns(50.0))),
            ("p99", Json::Whole(issue_delay.percentile_ns(99.0))),
            ("max", Json::Whole(issue_delay.max_ns())),
            ("n", Json::Whole(issue_delay.count())),
        ])
    })
}

fn group(cell: &Cell<'_>, index: usize, jobs: &[JobSummary<'_>]) -> Json {
    let group = &cell.groups[index];
    let fairness = cell.fairness.as_ref();
    let mut json = Json::object([
        ("name", Json::text(group.path)),
        ("weight", Json::Whole(group.weight.into())),
        ("bw_bytes", estimate(&group.bytes_per_s)),
        ("discard_bw_bytes", estimate(&group.discarded_bytes_per_s)),
        ("iops", estimate(&group.ios_per_s)),
        ("share", Json::or_null(fairness.map(|fairness| fairness.share[index]))),
        ("due", Json::or_null(fairness.map(|fairness| fairness.due[index]))),
        ("share_error", Json::or_null(fairness.and_then(|fairness| fairness.error(index)))),
        ("lat_ns", latencies(cell, Some(index))),
    ]);
    let jobs = jobs.iter().filter(|job| job.group == group.path).map(job);
    let jobs: Vec<Json> = jobs.collect();
    if !jobs.is_empty() {
        json.push("jobs", Json::List(jobs));
    }
    json
}

/// A job of a group, or the sum of its reporting group; rates are over its own time.
fn job(job: &JobSummary<'_>) -> Json {
    let mut json = Json::object([
        ("name", Json::text(&job.label)),
        ("report_group", Json::Whole(job.report_group.into())),
        ("threads", Json::Whole(job.threads as u64)),
        ("is_sum", Json::Bool(job.is_sum)),
        ("runtime_ns", estimate(&job.runtime_ns)),
        ("cut_off", Json::text(&job.cut_off)),
    ]);
    for it in &job.directions {
        let direction = Json::object([
            ("runtime_ns", estimate(&it.runtime_ns)),
            ("bw_bytes", estimate(&it.bytes_per_s)),
            ("iops", estimate(&it.ios_per_s)),
            ("bytes", Json::Whole(it.bytes)),
            ("ios", Json::Whole(it.ios)),
            ("errors", Json::Whole(it.errors)),
            ("lat_ns", latency(&it.latency, |percent| it.latency.percentile_ns(percent) as f64)),
        ]);
        json.push(it.name, direction);
    }
    json
}

/// Latencies of the directions that occurred.
fn latencies(cell: &Cell<'_>, group: Option<usize>) -> Json {
    let directions = [
        ("read", IoDirection::Read),
        ("write", IoDirection::Write),
        ("trim", IoDirection::Trim),
        ("sync", IoDirection::Sync),
    ];
    let mut json = Json::Object(Vec::new());
    for (name, direction) in directions {
        let figures = cell.latency(group, Some(direction));
        if figures.histogram.count() > 0 {
            json.push(name, latency(&figures.histogram, |percent| figures.percentile_ns(percent).mean));
        }
    }
    json
}

fn latency(histogram: &Histogram, percentile_ns: impl Fn(f64) -> f64) -> Json {
    let percentile = |percent| Json::Decimal(percentile_ns(percent));
    Json::object([
        ("mean", Json::Decimal(histogram.mean_ns())),
        ("p50", percentile(50.0)),
        ("p90", percentile(90.0)),
        ("p95", percentile(95.0)),
        ("p99", percentile(99.0)),
        ("p999", percentile(99.9)),
        ("max", Json::Whole(histogram.max_ns())),
        ("n", Json::Whole(histogram.count())),
    ])
}

/// Reasons for choosing requests, over all sets.
fn dispatch_reasons(cell: &Cell<'_>) -> Json {
    let mut sum: std::collections::BTreeMap<&str, u64> = std::collections::BTreeMap::new();
    for (reason, count) in cell.runs.iter().flat_map(|run| &run.dispatch_reasons) {
        *sum.entry(reason).or_default() += count;
    }
    Json::Object(sum.into_iter().map(|(reason, count)| (reason.to_owned(), Json::Whole(count))).collect())
}

fn estimate(estimate: &Estimate) -> Json {
    Json::object([
        ("mean", Json::Decimal(estimate.mean)),
        ("sd", Json::Decimal(estimate.sd)),
        ("ci95", Json::or_null(estimate.ci95)),
        ("n", Json::Whole(estimate.n as u64)),
    ])
}

/// The directory of a run below a result directory, without the number of the set.
pub fn run_directory(run: &Measurement) -> String {
    let key = run.experiment.key();
    format!("runs/{}", key.rsplit_once('/').map_or(key.as_str(), |(directory, _)| directory))
}

/// All tunables in force as text, for the object under `hoistway` in a run's file.
fn in_force(run: &Measurement) -> Json {
    let tunables = run.scheduler.tunables.iter();
    Json::Object(tunables.map(|t| (t.name.clone(), Json::text(format!("{}{}", t.value, t.unit)))).collect())
}

/// A group's weight as in job options.
fn weight_text(weight: u32) -> Json {
    Json::text(weight.to_string())
}

/// A size as in job options.
fn size_text(bytes: u64) -> Json {
    Json::text(quantity::size(bytes))
}
