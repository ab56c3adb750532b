//! Results of fio as if we had measured them: jobs become groups, so that tables, page and
//! comparison can read them.
//!
//! Figures that fio does not provide stay empty: samples over time, scheduler, device. Percentiles
//! come from the buckets of json+ if there are any, else from the percentiles that fio lists (exact
//! there, linear between). Jobs of different reporting groups (`groupid`) are separate results: fio
//! begins one with each `stonewall`, so they may have run one after the other, and its output does
//! not say whether they did. Source: docs/specifications/harness.md, section 7.2.

use hoistway_linux::input::Ceiling;
use std::collections::BTreeMap;
use std::path::Path;

use hoistway_block::Nanos;
use hoistway_experiment::job_results::{JobMeasurement, JobTally};
use hoistway_experiment::measurement::{DeviceCounters, Flag, GroupMeasurement, Tally};
use hoistway_experiment::{
    Exit, Experiment, Group, Histogram, Machine, Matrix, Measurement, Order, SchedulerInForce, SchedulerSpec,
    ShareUnit, TargetFacts, Weight, WorkloadPlan,
};
use hoistway_native::Generated;
use hoistway_report::fio_json::{FioDirection, FioError, FioJob, FioLatency};
use hoistway_report::{fio_json, fio_terse};
use hoistway_workload::Job;
use hoistway_workload::fio::{self, Surroundings};

use super::store::{Head, Stored};
use crate::exit::Error;

/// The name for host, scheduler and workload, which fio does not report.
const SCHEDULER: &str = hoistway_experiment::cell::FIO;

/// Reads a file of fio's JSON or terse output as a stored result.
pub fn read(path: &Path) -> Result<Stored, Error> {
    let text = hoistway_linux::input::text(path, Ceiling::RESULTS).map_err(|error| Error::input(path, &error))?;
    let jobs = if fio_terse::is_terse(&text) { fio_terse::read(&text) } else { fio_json::read(&text) };
    let jobs = jobs.map_err(|error| error_of(&error).at(path.display().to_string()))?;
    let name = path.file_stem().map_or_else(|| SCHEDULER.to_owned(), |stem| stem.to_string_lossy().into_owned());
    let measurements: Vec<Measurement> =
        phases(&jobs).into_iter().map(|(workload, jobs)| measurement(&name, &workload, &jobs)).collect();
    let environment = BTreeMap::from([("source".to_owned(), path.display().to_string())]);
    Ok(Stored { head: head_of(&name, &measurements), environment, measurements })
}

/// The jobs by reporting group, with a name for each: that of its jobs if there are several groups.
fn phases(jobs: &[FioJob]) -> Vec<(String, Vec<&FioJob>)> {
    let mut phases: Vec<(String, Vec<&FioJob>)> = Vec::new();
    for jobs in jobs.chunk_by(|a, b| a.group == b.group) {
        let mut names: Vec<&str> = jobs.iter().map(|job| job.name.as_str()).collect();
        names.dedup();
        let name = match names[..] {
            [first, _, _, ..] => format!("{first} and {} more", names.len() - 1),
            _ => names.join("+"),
        };
        let same = phases.iter().filter(|(known, _)| *known == name || known.starts_with(&format!("{name} #"))).count();
        let name = if same > 0 { format!("{name} #{}", same + 1) } else { name };
        phases.push((name, jobs.iter().collect()));
    }
    if let [(name, _)] = &mut phases[..] {
        SCHEDULER.clone_into(name);
    }
    phases
}

/// The result of one fio process of `--generator fio`: all its jobs together, as it counted them.
///
/// # Errors
/// The reader's error, in one line.
pub fn generated(text: &str) -> Result<Generated, String> {
    let jobs = fio_json::read(text).map_err(|error| error.diagnostic().message.clone())?;
    let mut all = Generated::default();
    for job in &jobs {
        for (sum, direction) in all.tallies.iter_mut().zip([&job.read, &job.write, &job.trim]) {
            let (bytes, ios) = (direction.total_bytes, direction.total_ios);
            add(sum, &Tally { bytes, ios, ..tally(direction, 1.0) });
            all.longest_ns = all.longest_ns.max(whole(direction.runtime_ms * 1e6));
        }
        all.jobs.push(job_result(job, all.jobs.len()));
    }
    Ok(all)
}

/// An entry of fio's output as a result of a job; each counts as one thread.
fn job_result(job: &FioJob, first_thread: usize) -> JobMeasurement {
    let of = |direction: &FioDirection| {
        let (bytes, ios) = (direction.total_bytes, direction.total_ios);
        JobTally { runtime_ns: whole(direction.runtime_ms * 1e6), tally: Tally { bytes, ios, ..tally(direction, 1.0) } }
    };
    let (read, write, trim) = (of(&job.read), of(&job.write), of(&job.trim));
    let (name, report_group) = (job.name.clone(), u32::try_from(job.group).unwrap_or(u32::MAX));
    JobMeasurement { name, report_group, first_thread, threads: 1, read, write, trim, ..JobMeasurement::default() }
}

/// An error of the reader with its exit code.
pub fn error_of(error: &FioError) -> Error {
    let renamed = error.diagnostic().clone();
    let exit = match error {
        FioError::Unreadable(_) => Exit::Usage,
        FioError::JobFailed(_) => Exit::Failed,
    };
    Error::new(exit, renamed.message, renamed.help)
}

fn head_of(target: &str, measurements: &[Measurement]) -> Head {
    let plan = |run: &Measurement| {
        let Experiment { workload, groups, .. } = run.experiment.clone();
        WorkloadPlan { name: workload, groups }
    };
    let matrix = Matrix {
        target: target.to_owned(),
        workloads: measurements.iter().map(plan).collect(),
        schedulers: vec![SchedulerSpec::named(SCHEDULER)],
        limiters: Vec::new(),
        threads: vec![1],
        sets: 1,
        order: Order::Classic,
        seed: 0,
        // Each result lasted as long as its jobs.
        runtime_ns: Experiment::UNTIL_DONE_NS,
        ramp_ns: 0,
        device_depth: None,
        queue_requests: None,
        share_unit: ShareUnit::Bytes,
        machine: Machine::default(),
    };
    Head { started_unix_ms: 0, host: SCHEDULER.to_owned(), max_sets: 1, matrix }
}

/// Jobs that ran together, as one run. Those of one name are one group, like clones without
/// `group_reporting`.
fn measurement(target: &str, workload: &str, jobs: &[&FioJob]) -> Measurement {
    let directions = |job: &FioJob| [job.read.runtime_ms, job.write.runtime_ms, job.trim.runtime_ms];
    let longest_ms = jobs.iter().copied().flat_map(directions).fold(0.0, f64::max);
    // Rates are fio's own; a document without times gets a window of one second.
    let window_s = if longest_ms > 0.0 { longest_ms / 1000.0 } else { 1.0 };
    let mut groups: Vec<(Group, GroupMeasurement)> = Vec::new();
    for &job in jobs {
        let tally = |direction: &FioDirection| tally(direction, window_s);
        let (read, write, trim) = (tally(&job.read), tally(&job.write), tally(&job.trim));
        if let Some((group, measured)) = groups.iter_mut().find(|(group, _)| group.path == job.name) {
            for (sum, more) in [(&mut measured.read, read), (&mut measured.write, write), (&mut measured.trim, trim)] {
                add(sum, &more);
            }
            group.jobs.push(described(job));
            continue;
        }
        let option = |key: &str| job.options.iter().rev().find(|(known, _)| known == key).map(|(_, value)| value);
        let weight = option("cgroup_weight").and_then(|value| value.parse().ok()).unwrap_or(Weight::DEFAULT);
        let group = Group::new(job.name.clone(), weight, vec![described(job)]);
        let measured = GroupMeasurement {
            path: job.name.clone(),
            weight: weight.get(),
            effective_weight: weight.get(),
            read,
            write,
            trim,
            sync: Tally::default(),
            late: 0,
            issue_delay: Histogram::default(),
            throttled_ns: Vec::new(),
            threads: Vec::new(),
            jobs: Vec::new(),
        };
        groups.push((group, measured));
    }
    let (groups, measured): (Vec<Group>, Vec<GroupMeasurement>) = groups.into_iter().unzip();
    let has_shares = groups.iter().any(|group| group.weight != Weight::DEFAULT);
    let nanoseconds = whole(window_s * 1e9);
    let experiment =
        Experiment { seed: 0, ..Experiment::new(target, workload, SchedulerSpec::named(SCHEDULER), groups) };
    let scheduler = SchedulerInForce { name: SCHEDULER.to_owned(), has_shares, ..SchedulerInForce::default() };
    let flags = Flag::of_run(&experiment, nanoseconds, &measured, &scheduler);
    Measurement {
        experiment,
        host: SCHEDULER.to_owned(),
        scheduler,
        target: TargetFacts { path: target.to_owned(), ..TargetFacts::default() },
        window_ns: nanoseconds,
        groups: measured,
        device: DeviceCounters::default(),
        dispatch_reasons: BTreeMap::new(),
        dispatches: None,
        blkio: BTreeMap::new(),
        solo_rates: Vec::new(),
        processors: None,
        flags,
    }
}

/// The job with its options, if our reader accepts all of them.
pub fn described(job: &FioJob) -> Job {
    let plain = Job::default().with(|it| it.name = job.name.clone());
    let own = job.options.iter().filter(|(key, _)| !matches!(key.as_str(), "name" | "time_based"));
    let lines: Vec<String> = own.map(|(key, value)| format!("{key}={value}\n")).collect();
    let text = format!("[job]\n{}", lines.concat());
    let parsed = fio::parse("fio", text.as_bytes(), &Surroundings::none()).ok();
    let first = parsed.and_then(|parsed| parsed.jobs.into_iter().next());
    first.map_or(plain, |first| first.with(|it| it.name = job.name.clone()))
}

/// The work that one direction of a job does in `window_s` seconds at its mean rate.
pub fn tally(direction: &FioDirection, window_s: f64) -> Tally {
    let latency = [&direction.lat, &direction.clat].into_iter().find_map(|latency| {
        let listed = || listed(latency, direction.total_ios);
        latency.histogram.clone().or_else(listed)
    });
    Tally {
        bytes: whole(direction.bytes_per_s * window_s),
        ios: whole(direction.ios_per_s * window_s),
        latency: latency.unwrap_or_default(),
        ..Tally::default()
    }
}

/// A histogram with the listed percentiles, minimum and maximum; none if there are none.
fn listed(latency: &FioLatency, count: u64) -> Option<Histogram> {
    let last_ns = latency.percentiles_ns.last()?.1;
    let ends = [(0.0, latency.min_ns), (100.0, latency.max_ns.max(last_ns))];
    let all = [&ends[..1], &latency.percentiles_ns, &ends[1..]].concat();
    let all: Vec<(f64, Nanos)> = all.into_iter().map(|(percent, ns)| (percent, whole(ns))).collect();
    (count > 0).then(|| Histogram::from_percentiles(&all, count))
}

fn add(sum: &mut Tally, more: &Tally) {
    sum.bytes += more.bytes;
    sum.ios += more.ios;
    sum.latency = Histogram::merged([&sum.latency, &more.latency]);
}

/// A figure of fio's as a count.
fn whole(value: f64) -> u64 {
    #[expect(clippy::cast_possible_truncation, reason = "positive figures far below 2^53; `as` saturates")]
    let whole = value.max(0.0) as u64;
    whole
}
