//! One run in the layout of `fio --output-format=json+`: an entry of `jobs` per job of a job file,
//! otherwise per group.
//!
//! Additional data is under `hoistway`. Differences from fio: `bw_*` and `iops_*` come from samples
//! of one second (fio: 500 ms); CPU figures are zero, because they would be those of the host
//! instead of the job; `iodepth_*` is the configured depth, submitted one by one, not a count;
//! `clat_ns` equals `lat_ns`, and both have percentiles. Source: docs/specifications/harness.md,
//! section 7.1.

use hoistway_experiment::histogram::bucket_ns;
use hoistway_experiment::job::{Job, Mix, Pattern};
use hoistway_experiment::job_results::JobMeasurement;
use hoistway_experiment::measurement::{DirectionCounters, GroupMeasurement, Measurement, Sample, Tally};
use hoistway_experiment::recorder::errno_of;
use hoistway_experiment::statistics::Estimate;
use hoistway_experiment::{Group, Histogram};

use super::{Json, in_force, size_text, weight_text};
use crate::Results;
use crate::quantity;

/// fio's default list.
const PERCENTILES: [f64; 17] =
    [1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99];

/// The runs of `results` as one fio document: an entry of `jobs` per run and job of a job file, or
/// per run and group without a job file. The run of an entry is given under `hoistway`.
pub fn fio<'a>(results: &Results<'_>, runs: impl IntoIterator<Item = &'a Measurement> + Clone) -> Json {
    let mut jobs = Vec::new();
    let mut next_group = 0;
    for run in runs.clone() {
        let first_group = next_group;
        for (group, plan) in run.groups.iter().zip(&run.experiment.groups).filter(|(_, plan)| !plan.jobs.is_empty()) {
            if group.jobs.is_empty() {
                jobs.push(Entry::of_group(run, group, plan, next_group).json());
                next_group += 1;
            }
            for job in &group.jobs {
                let number = first_group + u64::from(job.report_group);
                jobs.push(Entry::of_job(run, group, plan, (number, job)).json());
                next_group = next_group.max(number + 1);
            }
        }
    }
    Json::object([
        ("fio version", Json::text(format!("fio-3.33-hoistway-{}", results.version))),
        ("timestamp", Json::Whole(results.started_unix_ms / 1000)),
        ("timestamp_ms", Json::Whole(results.started_unix_ms)),
        ("time", Json::text(results.started_like_ctime())),
        ("jobs", Json::List(jobs)),
        ("disk_util", Json::List(runs.into_iter().map(disk_util).collect())),
    ])
}

/// An entry of `jobs`: a group, or a job of it.
struct Entry<'a> {
    run: &'a Measurement,
    group: &'a GroupMeasurement,
    name: &'a str,
    /// `groupid`.
    number: u64,
    plan: &'a [Job],
    /// Reads, writes, discards and flushes, each with its runtime.
    tallies: [(&'a Tally, u64); 4],
    latency: Histogram,
    job: Option<&'a JobMeasurement>,
}

impl<'a> Entry<'a> {
    fn of_group(run: &'a Measurement, group: &'a GroupMeasurement, plan: &'a Group, number: u64) -> Self {
        let tallies = [&group.read, &group.write, &group.trim, &group.sync].map(|tally| (tally, run.window_ns));
        let (latency, name, plan) = (group.latency(), &group.path, &plan.jobs);
        Self { run, group, name, number, plan, tallies, latency, job: None }
    }

    fn of_job(
        run: &'a Measurement,
        group: &'a GroupMeasurement,
        plan: &'a Group,
        (number, job): (u64, &'a JobMeasurement),
    ) -> Self {
        let tallies = job.directions().map(|(_, it)| (&it.tally, it.runtime_ns));
        let (latency, name, plan) = (job.latency(), &job.name, job.plan(plan));
        Self { run, group, name, number, plan, tallies, latency, job: Some(job) }
    }

    fn runtime_ns(&self) -> u64 {
        self.job.map_or(self.run.window_ns, JobMeasurement::runtime_ns)
    }

    /// Bytes per second of its reporting group in a direction; for groups, of all groups in all
    /// directions.
    fn aggregate(&self, direction: usize) -> f64 {
        let Some(job) = self.job else { return self.run.bytes_per_s() };
        let jobs = self.run.groups.iter().flat_map(|group| &group.jobs);
        let mut all = JobTotal::default();
        for other in jobs.filter(|other| other.report_group == job.report_group) {
            let it = other.directions()[direction].1;
            all = JobTotal { bytes: all.bytes + it.tally.bytes, longest_ns: all.longest_ns.max(it.runtime_ns) };
        }
        per_s(all.bytes, all.longest_ns)
    }

    fn json(&self) -> Json {
        let runtime_ns = self.runtime_ns();
        let [read, write, trim] = [0, 1, 2].map(|index| {
            let (tally, runtime_ns) = self.tallies[index];
            direction(tally, runtime_ns, self.aggregate(index))
        });
        let sync = self.tallies[3].0;
        let mut json = Json::object([
            ("jobname", Json::text(self.name)),
            ("groupid", Json::Whole(self.number)),
            ("error", Json::Whole(self.errno())),
            ("eta", Json::Whole(0)),
            ("elapsed", Json::Whole(runtime_ns.div_ceil(1_000_000_000))),
            ("job options", self.options()),
            ("read", read),
            ("write", write),
            ("trim", trim),
            ("sync", Json::object([("total_ios", Json::Whole(sync.ios)), ("lat_ns", latencies(&sync.latency, true))])),
            ("job_runtime", Json::Whole(runtime_ns / 1_000_000)),
            ("usr_cpu", Json::Decimal(0.0)),
            ("sys_cpu", Json::Decimal(0.0)),
            ("ctx", Json::Whole(0)),
            ("majf", Json::Whole(0)),
            ("minf", Json::Whole(0)),
        ]);
        depths(&mut json, self.plan);
        latency_classes(&mut json, &self.latency);
        if let Some(job) = self.plan.first().filter(|job| !job.description.is_empty()) {
            json.push("desc", Json::text(&job.description));
        }
        json.push("hoistway", self.own());
        json
    }

    /// The errno with which fio would have ended the job: that of the most frequent error, 0
    /// without errors.
    fn errno(&self) -> u64 {
        let errors = self.tallies.iter().flat_map(|(tally, _)| &tally.errors);
        let most = errors.max_by_key(|(_, count)| **count);
        most.and_then(|(name, _)| errno_of(name)).map_or(0, u64::from)
    }

    fn options(&self) -> Json {
        let mut options =
            Json::object([("cgroup", Json::text(&self.group.path)), ("cgroup_weight", weight_text(self.group.weight))]);
        if let [job, ..] = self.plan {
            options.push("rw", Json::text(direction_option(job)));
            if let Mix::ReadWrite { read_percent } = job.shape.mix {
                options.push("rwmixread", Json::text(read_percent.to_string()));
            }
            options.push("bs", Json::text(quantity::block_size(job)));
            options.push("iodepth", Json::text(job.effective_depth().to_string()));
            options.push("numjobs", Json::text(self.plan.iter().map(|job| job.threads).sum::<u32>().to_string()));
            options.push("direct", Json::text(if job.submission.direct { "1" } else { "0" }));
            if let Some(hoistway_experiment::job::Amount::Bytes(bytes)) = job.area.size {
                options.push("size", size_text(bytes));
            }
            if self.job.is_some() && job.reporting.group_reporting {
                options.push("group_reporting", Json::text("1"));
            }
        }
        options
    }
}

/// `rw` as in job files, without its runs and skips.
fn direction_option(job: &Job) -> String {
    let word = match job.shape.mix {
        Mix::Read => "read",
        Mix::Write => "write",
        Mix::Trim => "trim",
        Mix::ReadWrite { .. } => "rw",
        Mix::TrimWrite => "trimwrite",
        Mix::Rewrite => "rewrite",
    };
    let is_random = matches!(job.shape.pattern, Pattern::Random { .. });
    format!("{}{word}", if is_random { "rand" } else { "" })
}

/// Bytes of all jobs of a reporting group in a direction, and their runtime.
#[derive(Copy, Clone, Default)]
struct JobTotal {
    bytes: u64,
    longest_ns: u64,
}

fn per_s(amount: u64, over_ns: u64) -> f64 {
    if over_ns == 0 { 0.0 } else { amount as f64 * 1e9 / over_ns as f64 }
}

fn direction(tally: &Tally, runtime_ns: u64, aggregate: f64) -> Json {
    let bw = per_s(tally.bytes, runtime_ns);
    let used = tally.latency.count() > 0;
    let samples: &[Sample] = if used { &tally.samples } else { &[] };
    // An incomplete last second would lower the minimum.
    let whole = samples.iter().filter(|sample| sample.length_ns >= 1_000_000_000);
    let kib: Vec<f64> = whole.clone().map(|sample| sample.bytes as f64 / 1024.0).collect();
    let iops: Vec<f64> = whole.map(|sample| sample.ios as f64).collect();
    let (kib_spread, iops_spread) = (Spread::of(&kib), Spread::of(&iops));
    let share = if aggregate > 0.0 { 100.0 * bw / aggregate } else { 0.0 };
    let none = || latencies(&Histogram::new(), false);
    Json::object([
        ("io_bytes", Json::Whole(tally.bytes)),
        ("io_kbytes", Json::Whole(tally.bytes >> 10)),
        ("bw_bytes", Json::Whole(whole_number(bw))),
        ("bw", Json::Whole(whole_number(bw / 1024.0))),
        ("iops", Json::Decimal(per_s(tally.ios, runtime_ns))),
        ("runtime", Json::Whole(if used { runtime_ns / 1_000_000 } else { 0 })),
        ("total_ios", Json::Whole(tally.ios)),
        ("short_ios", Json::Whole(tally.errors.get("short").copied().unwrap_or(0))),
        ("drop_ios", Json::Whole(0)),
        ("slat_ns", none()),
        ("clat_ns", latencies(&tally.latency, true)),
        ("lat_ns", latencies(&tally.latency, true)),
        ("bw_min", Json::Whole(whole_number(kib_spread.min))),
        ("bw_max", Json::Whole(whole_number(kib_spread.max))),
        ("bw_agg", Json::Decimal(if used { share } else { 0.0 })),
        ("bw_mean", Json::Decimal(kib_spread.estimate.mean)),
        ("bw_dev", Json::Decimal(kib_spread.estimate.sd)),
        ("bw_samples", Json::Whole(kib.len() as u64)),
        ("iops_min", Json::Whole(whole_number(iops_spread.min))),
        ("iops_max", Json::Whole(whole_number(iops_spread.max))),
        ("iops_mean", Json::Decimal(iops_spread.estimate.mean)),
        ("iops_stddev", Json::Decimal(iops_spread.estimate.sd)),
        ("iops_samples", Json::Whole(iops.len() as u64)),
    ])
}

struct Spread {
    min: f64,
    max: f64,
    estimate: Estimate,
}

impl Spread {
    fn of(values: &[f64]) -> Self {
        let min = values.iter().copied().reduce(f64::min).unwrap_or(0.0);
        Self { min, max: values.iter().copied().fold(0.0, f64::max), estimate: Estimate::of(values) }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "rates are positive and far below 2^53; `as` saturates")]
fn whole_number(value: f64) -> u64 {
    value.max(0.0) as u64
}

/// A LAT object; as in fio, percentiles and bins are present only if there are requests.
fn latencies(histogram: &Histogram, with_bins: bool) -> Json {
    let mut json = Json::object([
        ("min", Json::Whole(histogram.min_ns())),
        ("max", Json::Whole(histogram.max_ns())),
        ("mean", Json::Decimal(histogram.mean_ns())),
        ("stddev", Json::Decimal(histogram.deviation_ns())),
        ("N", Json::Whole(histogram.count())),
    ]);
    if with_bins && histogram.count() > 0 {
        let percentile =
            |percent: &f64| (format!("{percent:.6}"), Json::Whole(histogram.percentile_unclamped_ns(*percent)));
        json.push("percentile", Json::Object(PERCENTILES.iter().map(percentile).collect()));
        let bins = histogram.bins().map(|(bucket, count)| (bucket_ns(bucket).to_string(), Json::Whole(count)));
        json.push("bins", Json::Object(bins.collect()));
    }
    json
}

/// Depth figures: everything at the jobs' configured depth, submitted and completed one by one.
fn depths(json: &mut Json, jobs: &[Job]) {
    const LEVELS: [(&str, u32); 7] = [("1", 1), ("2", 2), ("4", 4), ("8", 8), ("16", 16), ("32", 32), (">=64", 64)];
    const BATCHES: [&str; 7] = ["0", "4", "8", "16", "32", "64", ">=64"];
    let depth = jobs.iter().map(Job::effective_depth).max().unwrap_or(1);
    let level = LEVELS.iter().rposition(|(_, level)| *level <= depth).unwrap_or(0);
    let all_at = |at: usize, index: usize| Json::Decimal(if index == at { 100.0 } else { 0.0 });
    let levels = LEVELS.iter().enumerate().map(|(index, (name, _))| ((*name).to_owned(), all_at(level, index)));
    json.push("iodepth_level", Json::Object(levels.collect()));
    for key in ["iodepth_submit", "iodepth_complete"] {
        let batches = BATCHES.iter().enumerate().map(|(index, name)| ((*name).to_owned(), all_at(1, index)));
        json.push(key, Json::Object(batches.collect()));
    }
}

/// Percentages of I/Os per class of latency, by the middles of the buckets.
fn latency_classes(json: &mut Json, histogram: &Histogram) {
    const UPPER: [u64; 10] = [2, 4, 10, 20, 50, 100, 250, 500, 750, 1000];
    let total = histogram.count().max(1) as f64;
    let between = |from: u64, to: u64| {
        let bins = histogram.bins().filter(|(bucket, _)| (from..to).contains(&bucket_ns(*bucket)));
        Json::Decimal(100.0 * bins.map(|(_, count)| count).sum::<u64>() as f64 / total)
    };
    for (key, unit, floor) in [("latency_ns", 1, 0), ("latency_us", 1000, 1000), ("latency_ms", 1_000_000, 1_000_000)] {
        let mut from = floor;
        let mut classes = Json::Object(Vec::new());
        for upper in UPPER {
            classes.push(&upper.to_string(), between(from, upper * unit));
            from = upper * unit;
        }
        if key == "latency_ms" {
            classes.push("2000", between(from, 2000 * unit));
            classes.push(">=2000", between(2000 * unit, u64::MAX));
        }
        json.push(key, classes);
    }
    json.push("latency_depth", Json::Whole(0));
    json.push("latency_target", Json::Whole(0));
    json.push("latency_percentile", Json::Decimal(100.0));
    json.push("latency_window", Json::Whole(0));
}

impl Entry<'_> {
    /// Data for which fio's layout has no place.
    fn own(&self) -> Json {
        let Self { run, group, .. } = self;
        let directions = ["read", "write", "trim"].into_iter().zip(&self.tallies);
        let errors = directions.flat_map(|(direction, (tally, _))| {
            tally.errors.iter().map(move |(name, count)| (format!("{direction} {name}"), Json::Whole(*count)))
        });
        let reasons = run.dispatch_reasons.iter().map(|(reason, count)| (reason.clone(), Json::Whole(*count)));
        let mut json = Json::object([
            ("host", Json::text(&run.host)),
            ("target", Json::text(&run.target.path)),
            ("workload", Json::text(&run.experiment.workload)),
            ("sched", Json::text(run.experiment.scheduler.to_string())),
            ("tunables", in_force(run)),
            ("nr", Json::Whole(run.experiment.threads.into())),
            ("set", Json::Whole(run.experiment.set.into())),
            ("seed", Json::Whole(run.experiment.seed)),
            ("group", Json::text(&group.path)),
            ("weight", Json::Whole(group.weight.into())),
            ("effective_weight", Json::Whole(group.effective_weight.into())),
        ]);
        match self.job {
            Some(job) => {
                json.push("threads", Json::Whole(job.threads as u64));
                json.push("cut_off", Json::text(job.cut_off_text(group)));
            }
            None => json.push("device_ns", Json::Whole(group.device_ns())),
        }
        json.push("errors", Json::Object(errors.collect()));
        json.push("dispatch_reasons", Json::Object(reasons.collect()));
        json.push("flags", Json::List(run.flags.iter().map(|flag| Json::text(flag.label())).collect()));
        json
    }
}

fn disk_util(run: &Measurement) -> Json {
    let device = &run.device;
    let milliseconds = |counters: &DirectionCounters| Json::Whole(counters.time_ns / 1_000_000);
    let util = if run.window_ns == 0 { 0.0 } else { 100.0 * device.busy_ns as f64 / run.window_ns as f64 };
    Json::object([
        ("name", Json::text(&run.target.path)),
        ("read_ios", Json::Whole(device.read.ios)),
        ("write_ios", Json::Whole(device.write.ios)),
        ("read_merges", Json::Whole(device.read.merges)),
        ("write_merges", Json::Whole(device.write.merges)),
        ("read_ticks", milliseconds(&device.read)),
        ("write_ticks", milliseconds(&device.write)),
        ("in_queue", Json::Whole(device.weighted_ns / 1_000_000)),
        ("util", Json::Decimal(util.min(100.0))),
    ])
}
