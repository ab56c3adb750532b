//! JSON: the whole test (`result.json`), and one run in fio's layout.
//!
//! Readers must ignore unknown keys; a key never changes its meaning within a major version.
//! Source: docs/specifications/harness.md, sections 5.8 and 7.1.

mod document;
mod fio;
mod format;
mod tree;

use std::collections::BTreeMap;

use hoistway_experiment::cell::{Cell, CellGroup};
use hoistway_experiment::job_summary::{JobSummary, summaries};
use hoistway_experiment::{Histogram, IoDirection, Measurement};

pub use document::ResultDocument;
use document::{
    AssertionDocument, CellDocument, Directions, EntitlementDocument, Entries, GroupDocument, GroupFacts,
    JobDirectionDocument, JobDocument, LatencyDocument, Number, SlipDocument, TargetDocument, TotalDocument,
    TunableDocument,
};
pub use fio::fio;
pub use tree::Json;

use crate::Results;
use crate::quantity;

/// Version of the layout of `result.json`.
pub const SCHEMA: u64 = 1;

/// The whole test: target, environment, groups, cells, assertions.
///
/// Two simulator runs of one plan differ only in `environment` and `started`.
pub fn result(results: &Results<'_>) -> ResultDocument {
    let cells = results.cells();
    let verdicts = results.verdicts.iter().map(|verdict| AssertionDocument {
        expr: verdict.expr.clone(),
        ok: verdict.ok,
        inconclusive: verdict.is_inconclusive,
        value: Number(verdict.value),
        limit: Number(verdict.limit),
        cell: verdict.cell.clone(),
    });
    ResultDocument {
        hoistway: results.version.to_owned(),
        schema: SCHEMA,
        complete: results.complete,
        started: results.started().to_owned(),
        host: results.host.to_owned(),
        target: results.measurements.first().map(target),
        environment: results.environment.clone(),
        groups: cells.first().map_or_else(Vec::new, |cell| cell.groups.iter().map(group_facts).collect()),
        cells: cells.iter().map(cell).collect(),
        assertions: verdicts.collect(),
    }
}

fn group_facts(group: &CellGroup<'_>) -> GroupFacts {
    GroupFacts { name: group.path.to_owned(), weight: group.weight, effective_weight: group.effective_weight }
}

fn target(run: &Measurement) -> TargetDocument {
    let target = &run.target;
    TargetDocument {
        path: target.path.clone(),
        model: target.model.clone(),
        size_bytes: target.size_bytes,
        rotational: target.rotational,
        hw_queues: target.hw_queues,
        queue_depth: target.queue_depth,
        notes: target.notes.clone(),
    }
}

fn cell(cell: &Cell<'_>) -> CellDocument {
    let in_force = cell.scheduler.tunables.iter().map(|tunable| {
        let (value, unit, default) = (tunable.value.clone(), tunable.unit.clone(), tunable.is_default);
        (tunable.name.clone(), TunableDocument { value, unit, default })
    });
    let given = cell.spec.settings.iter().map(|setting| (setting.key.clone(), setting.value.clone()));
    let fairness = cell.fairness.as_ref();
    let mut flags: Vec<String> = cell.flags.iter().map(|flag| flag.label().to_owned()).collect();
    if !cell.scheduler.has_shares && !cell.flags.contains(&hoistway_experiment::measurement::Flag::NoShares) {
        flags.push("no shares".to_owned());
    }
    let jobs = summaries(cell);
    CellDocument {
        workload: cell.workload.to_owned(),
        sched: cell.scheduler.name.clone(),
        spec: cell.spec.to_string(),
        version: cell.scheduler.version.clone(),
        tunables: Entries(given.collect()),
        tunables_in_force: Entries(in_force.collect()),
        nr: cell.threads,
        sets: cell.runs.len() as u64,
        total: TotalDocument {
            bw_bytes: (&cell.bytes_per_s).into(),
            discard_bw_bytes: (&cell.discarded_bytes_per_s).into(),
            iops: (&cell.ios_per_s).into(),
            lat_ns: latencies(cell, None),
        },
        groups: (0..cell.groups.len()).map(|index| group(cell, index, &jobs)).collect(),
        jain: fairness.map(|fairness| Number(fairness.jain)),
        isolation: cell.entitlement.as_ref().map(|entitlement| Number(entitlement.isolation)),
        share_error_max: fairness.map(|fairness| Number(fairness.error_max)),
        share_error_mean: fairness.map(|fairness| Number(fairness.error_mean)),
        efficiency: Number(cell.efficiency.mean),
        errors: cell.errors,
        dispatch_reasons: dispatch_reasons(cell),
        flags,
        slip_ns: issue_delay(cell),
    }
}

/// Delay of a replay's I/Os relative to their recorded times; `None` for other jobs.
fn issue_delay(cell: &Cell<'_>) -> Option<SlipDocument> {
    let groups = cell.runs.iter().flat_map(|run| &run.groups);
    let issue_delay = Histogram::merged(groups.map(|group| &group.issue_delay));
    (!issue_delay.is_empty()).then(|| SlipDocument {
        p50: issue_delay.percentile_ns(50.0),
        p99: issue_delay.percentile_ns(99.0),
        max: issue_delay.max_ns(),
        n: issue_delay.count(),
    })
}

fn group(cell: &Cell<'_>, index: usize, jobs: &[JobSummary<'_>]) -> GroupDocument {
    let group = &cell.groups[index];
    let fairness = cell.fairness.as_ref();
    GroupDocument {
        name: group.path.to_owned(),
        weight: group.weight,
        bw_bytes: (&group.bytes_per_s).into(),
        discard_bw_bytes: (&group.discarded_bytes_per_s).into(),
        iops: (&group.ios_per_s).into(),
        share: fairness.map(|fairness| Number(fairness.share[index])),
        due: fairness.map(|fairness| Number(fairness.due[index])),
        entitlement: entitlement(cell, index),
        share_error: fairness.and_then(|fairness| fairness.error(index)).map(Number),
        lat_ns: latencies(cell, Some(index)),
        jobs: jobs.iter().filter(|job| job.group == group.path).map(job).collect(),
    }
}

fn entitlement(cell: &Cell<'_>, index: usize) -> Option<EntitlementDocument> {
    let entitlement = cell.entitlement.as_ref()?;
    let rates = cell.runs.first()?.solo_rates.get(cell.groups[index].index)?;
    let (alone_per_s, full_per_s) = rates.claimed();
    Some(EntitlementDocument {
        unit: if rates.counts_ios() { "ios" } else { "bytes" }.to_owned(),
        alone_per_s: Number(alone_per_s),
        full_per_s: Number(full_per_s),
        entitled_per_s: Number(entitlement.entitled_per_s[index]),
        got_per_s: Number(entitlement.got_per_s[index]),
        fulfilled: entitlement.fulfilled[index].map(Number),
    })
}

/// A job of a group, or the sum of its reporting group; rates are over its own time.
fn job(job: &JobSummary<'_>) -> JobDocument {
    let direction = |name: &str| {
        job.directions.iter().find(|it| it.name == name).map(|it| JobDirectionDocument {
            runtime_ns: (&it.runtime_ns).into(),
            bw_bytes: (&it.bytes_per_s).into(),
            iops: (&it.ios_per_s).into(),
            bytes: it.bytes,
            ios: it.ios,
            errors: it.errors,
            lat_ns: latency(&it.latency, |percent| it.latency.percentile_ns(percent) as f64),
        })
    };
    JobDocument {
        name: job.label.clone(),
        report_group: job.report_group,
        threads: job.threads as u64,
        is_sum: job.is_sum,
        runtime_ns: (&job.runtime_ns).into(),
        cut_off: job.cut_off.clone(),
        directions: Directions {
            read: direction("read"),
            write: direction("write"),
            trim: direction("trim"),
            sync: direction("sync"),
        },
    }
}

/// Latencies of the directions that occurred.
fn latencies(cell: &Cell<'_>, group: Option<usize>) -> Directions<LatencyDocument> {
    let of = |direction| {
        let figures = cell.latency(group, Some(direction));
        let has_any = figures.histogram.count() > 0;
        has_any.then(|| latency(&figures.histogram, |percent| figures.percentile_ns(percent).mean))
    };
    Directions {
        read: of(IoDirection::Read),
        write: of(IoDirection::Write),
        trim: of(IoDirection::Trim),
        sync: of(IoDirection::Sync),
    }
}

fn latency(histogram: &Histogram, percentile_ns: impl Fn(f64) -> f64) -> LatencyDocument {
    let percentile = |percent| Number(percentile_ns(percent));
    LatencyDocument {
        mean: Number(histogram.mean_ns()),
        p50: percentile(50.0),
        p90: percentile(90.0),
        p95: percentile(95.0),
        p99: percentile(99.0),
        p999: percentile(99.9),
        max: histogram.max_ns(),
        n: histogram.count(),
    }
}

/// Reasons for choosing requests, over all sets.
fn dispatch_reasons(cell: &Cell<'_>) -> BTreeMap<String, u64> {
    let mut sum = BTreeMap::new();
    for (reason, count) in cell.runs.iter().flat_map(|run| &run.dispatch_reasons) {
        *sum.entry(reason.clone()).or_default() += count;
    }
    sum
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
