//! Turns measurements into figures with their spread, per device and per candidate.
//!
//! Findings are plain data: they can be printed, stored (`--save`) and loaded again (`--from`).

use hoistway_experiment::cell::cells;
use hoistway_experiment::measurement::{Flag, GroupMeasurement};
use hoistway_experiment::metric::Metric;
use hoistway_experiment::statistics::Estimate;
use hoistway_experiment::{Measurement, SchedulerSpec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cost::{Coefficients, Latencies};
use crate::probe::{Cost, OTHERS, Probe, READER, WEIGHTS};
use crate::solo::work_of;

/// Largest spread of a rate, as a fraction of its mean, with which the rate may decide anything.
const QUIET_RATE: f64 = 0.10;
/// The same for a 99th percentile, which on a slow disk is the worst of some dozen reads.
const QUIET_LATENCY: f64 = 0.30;
/// Reads from which on a 99th percentile is not simply the longest of all waits.
pub const READS_OF_A_P99: u64 = 100;
/// Fraction of the maximum rate at which that rate counts as reached.
const KNEE: f64 = 0.90;

/// Total rate of parallel sequential readers.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct StreamStep {
    /// Number of readers.
    pub count: u32,
    /// Bytes per second of all readers.
    pub bytes_per_s: Estimate,
    /// Mean rate of each reader, largest first.
    #[serde(default)]
    pub each_bytes_per_s: Vec<f64>,
}

/// Random reads at one depth.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DepthStep {
    /// Reads in flight.
    pub depth: u32,
    /// Reads per second.
    pub ios_per_s: Estimate,
    /// Median latency.
    pub p50_ns: f64,
    /// 99th percentile of latency.
    pub p99_ns: f64,
}

/// The random reader beside other jobs.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Among {
    /// The reader's 99th percentile of latency.
    pub p99_ns: Estimate,
    /// Bytes per second of the other jobs.
    pub others_bytes_per_s: Estimate,
    /// The reader's reads per second; `None` in findings of older versions.
    #[serde(default)]
    pub reader_ios_per_s: Option<Estimate>,
    /// The reader's reads in all repetitions, whose percentile it is; `None` in findings of older
    /// versions.
    #[serde(default)]
    pub reads: Option<u64>,
}

/// Two groups of weights 100 and 800.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Shares {
    /// Service of the heavy group divided by that of the light group; the weights imply 8.
    pub ratio: Estimate,
    /// The largest deviation of a group from its due share.
    pub error: Estimate,
    /// Whether weights have any effect under this scheduler.
    pub has_mechanism: bool,
    /// Requests per second of both groups together.
    pub ios_per_s: Estimate,
    /// The value to which `nr_requests` had to be raised for the measurement; `None` if the
    /// scheduler's own value sufficed.
    #[serde(default)]
    pub requests: Option<u32>,
}

/// The user's own load.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct LoadFigures {
    /// Bytes per second of all groups.
    pub bytes_per_s: Estimate,
    /// The worst 99th percentile of latency of any group.
    pub p99_ns: Estimate,
    /// What the group that is worst off got of its entitlement, 0 to 1; `None` for a single group, a
    /// recording, and in findings of older versions.
    #[serde(default)]
    pub isolation: Option<Estimate>,
    /// The device's work that was done, 1 for a full device; `None` where isolation is.
    #[serde(default)]
    pub work: Option<Estimate>,
    /// The largest deviation of a group from its share by weight alone, which decides nothing;
    /// `None` for a single group.
    pub share_error: Option<Estimate>,
}

/// Measurements of one candidate.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CandidateFindings {
    /// Scheduler and settings as text; empty only in the default value.
    pub spec: String,
    /// Parallel sequential readers.
    pub streams: Vec<StreamStep>,
    /// Random reads at the knee, and at other depths if they were requested.
    pub depths: Vec<DepthStep>,
    /// The random reader beside sequential ones.
    pub among_readers: Option<Among>,
    /// The random reader beside writers.
    pub among_writers: Option<Among>,
    /// The two groups that compete for shares.
    pub shares: Option<Shares>,
    /// CPU time per random read, in nanoseconds.
    pub cpu_ns_per_io: Option<Estimate>,
    /// The user's load.
    pub load: Option<LoadFigures>,
}

impl CandidateFindings {
    /// Whether these findings belong to `spec`.
    pub fn is(&self, spec: &SchedulerSpec) -> bool {
        self.spec == spec.to_string()
    }

    /// Total rate of `count` readers, in bytes per second.
    pub fn streams_of(&self, count: u32) -> Option<&Estimate> {
        self.streams.iter().find(|step| step.count == count).map(|step| &step.bytes_per_s)
    }

    /// Random reads at one depth.
    pub fn random_at(&self, depth: u32) -> Option<&DepthStep> {
        self.depths.iter().find(|step| step.depth == depth)
    }
}

/// A figure that varies too much to decide anything.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Noisy {
    /// The probe that yields it.
    pub probe: String,
    /// The scheduler under which it was measured.
    pub spec: String,
    /// Whether it describes a candidate rather than the device alone.
    pub is_candidates: bool,
    /// Coefficient of variation: standard deviation divided by mean.
    pub variation: f64,
}

/// All findings of a device.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Findings {
    /// Streams on the device without a scheduler.
    pub streams: Vec<StreamStep>,
    /// Random reads by depth.
    pub depths: Vec<DepthStep>,
    /// Sequential bandwidth in bytes per second.
    pub bandwidth: Option<Estimate>,
    /// Bytes per second of the sequential readers that a reader is put beside, without it.
    pub readers_alone: Option<Estimate>,
    /// Bytes per second of the sequential writers that a reader is put beside, without it.
    pub writers_alone: Option<Estimate>,
    /// Bytes per second by position, in percent of the device.
    pub zones: Vec<(u8, Estimate)>,
    /// The candidates, in the order in which they were tried.
    pub candidates: Vec<CandidateFindings>,
    /// Coefficients of io.cost.
    pub cost: Option<Coefficients>,
    /// Latencies at 0.9 times the random rate.
    pub latencies: Option<Latencies>,
    /// Figures that remained too noisy after all repetitions.
    pub noisy: Vec<Noisy>,
    /// Runs that were short of CPU time, and all runs; figures of the former may reflect the
    /// machine rather than the device.
    pub short_of_cpu: (usize, usize),
}

impl Findings {
    /// Total of `count` streams without a scheduler, in bytes per second.
    pub fn streams_of(&self, count: u32) -> Option<&Estimate> {
        self.streams.iter().find(|step| step.count == count).map(|step| &step.bytes_per_s)
    }

    /// Lowest total rate of several streams divided by the rate of a single one.
    pub fn delta(&self) -> Option<f64> {
        self.against_one(f64::min)
    }

    /// Highest total rate of several streams divided by the rate of a single one.
    pub fn gamma(&self) -> Option<f64> {
        self.against_one(f64::max)
    }

    fn against_one(&self, pick: fn(f64, f64) -> f64) -> Option<f64> {
        delta_gamma(&self.streams, pick)
    }

    /// Median of a random read at depth 1, in nanoseconds.
    pub fn random_read_p50_ns(&self) -> Option<f64> {
        self.depths.iter().find(|step| step.depth == 1).map(|step| step.p50_ns)
    }

    /// Gain by depth: the best rate divided by the rate at depth 1.
    pub fn parallelism(&self) -> f64 {
        let one = self.depths.iter().find(|step| step.depth == 1).map_or(0.0, |step| step.ios_per_s.mean);
        if one > 0.0 { self.peak_ios_per_s() / one } else { 1.0 }
    }

    /// Requests that each of the two groups keeps outstanding while shares are measured. With half
    /// of them in flight, the device reaches nearly its best rate, so that shares of 1 to 8 need
    /// not cost throughput.
    pub fn backlog(&self) -> u32 {
        self.knee().saturating_mul(2).clamp(16, 256)
    }

    /// The best rate over all depths, in reads per second.
    pub fn peak_ios_per_s(&self) -> f64 {
        self.depths.iter().map(|step| step.ios_per_s.mean).fold(0.0, f64::max)
    }

    /// The smallest depth that reaches nearly the best rate.
    pub fn knee(&self) -> u32 {
        let enough = KNEE * self.peak_ios_per_s();
        self.depths.iter().find(|step| step.ios_per_s.mean >= enough).map_or(1, |step| step.depth)
    }

    /// Findings of a candidate.
    pub fn of(&self, spec: &SchedulerSpec) -> Option<&CandidateFindings> {
        self.candidates.iter().find(|candidate| candidate.is(spec))
    }

    /// Whether most runs were short of CPU time.
    pub fn is_short_of_cpu(&self) -> bool {
        let (short, all) = self.short_of_cpu;
        2 * short > all
    }

    /// Rate of the outer zone divided by that of the inner zone.
    pub fn zone_ratio(&self) -> Option<f64> {
        let (first, last) = (self.zones.first()?, self.zones.last()?);
        (self.zones.len() > 1 && last.1.mean > 0.0).then(|| first.1.mean / last.1.mean)
    }
}

/// Total rate of several streams divided by that of a single one, reduced over all counts by
/// `pick`.
pub(crate) fn delta_gamma(streams: &[StreamStep], pick: fn(f64, f64) -> f64) -> Option<f64> {
    let one = streams.iter().find(|step| step.count == 1)?.bytes_per_s.mean;
    let several = streams.iter().filter(|step| step.count > 1).map(|step| step.bytes_per_s.mean / one);
    several.reduce(pick).filter(|_| one > 0.0)
}

/// Sets from this one on belong to the candidates; lower ones describe the device. The same probe
/// may run under the same scheduler for both, and figures of different minutes must not be
/// combined.
pub(crate) const FIRST_SET_OF_CANDIDATES: u32 = 100;

/// Gathers measurements into findings. `device_spec` is the scheduler under which the device itself
/// was measured; `candidates` sets the order of the result.
pub fn gather(measurements: &[Measurement], device_spec: &SchedulerSpec, candidates: &[SchedulerSpec]) -> Findings {
    let of = |spec: &SchedulerSpec, is_candidate: bool| {
        let belongs = |run: &&Measurement| is_under(run, spec) && is_of_candidate(run) == is_candidate;
        Gathered { runs: measurements.iter().filter(belongs).collect() }
    };
    let device = of(device_spec, false);
    let mut findings = Findings {
        streams: device.streams(),
        depths: device.depths(),
        bandwidth: device.figure(&Probe::Bandwidth.name(), Measurement::bytes_per_s),
        readers_alone: device.figure(&Probe::Others { write: false }.name(), Measurement::bytes_per_s),
        writers_alone: device.figure(&Probe::Others { write: true }.name(), Measurement::bytes_per_s),
        zones: device.zones(),
        cost: device.coefficients(),
        latencies: device.latencies(),
        ..Findings::default()
    };
    for spec in candidates {
        let gathered = of(spec, true);
        let candidate = gathered.candidate(spec);
        if candidate != (CandidateFindings { spec: spec.to_string(), ..CandidateFindings::default() }) {
            findings.candidates.push(candidate);
        }
    }
    findings.noisy = noisy(measurements);
    let short = measurements.iter().filter(|run| run.flags.contains(&Flag::CpuShort)).count();
    findings.short_of_cpu = (short, measurements.len());
    findings
}

fn is_of_candidate(run: &Measurement) -> bool {
    run.experiment.set >= FIRST_SET_OF_CANDIDATES
}

fn is_under(run: &Measurement, spec: &SchedulerSpec) -> bool {
    run.experiment.scheduler == *spec || spec_of(run) == *spec
}

/// The scheduler of a run without the settings that a probe adds.
pub(crate) fn spec_of(run: &Measurement) -> SchedulerSpec {
    let mut own = run.experiment.scheduler.clone();
    own.settings.retain(|setting| setting.key != "nomerges");
    own
}

/// The runs under one scheduler.
struct Gathered<'a> {
    runs: Vec<&'a Measurement>,
}

impl<'a> Gathered<'a> {
    fn named(&self, name: &str) -> Vec<&'a Measurement> {
        self.runs.iter().copied().filter(|run| run.experiment.workload == name).collect()
    }

    fn figure(&self, name: &str, figure: impl Fn(&Measurement) -> f64) -> Option<Estimate> {
        let values: Vec<f64> = self.named(name).into_iter().map(figure).collect();
        (!values.is_empty()).then(|| Estimate::of(&values))
    }

    /// The numbers that follow `prefix` in names of workloads, ascending.
    fn numbers(&self, prefix: &str) -> Vec<u32> {
        let number = |run: &&Measurement| run.experiment.workload.strip_prefix(prefix)?.parse().ok();
        let mut numbers: Vec<u32> = self.runs.iter().filter_map(number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    fn streams(&self) -> Vec<StreamStep> {
        let step = |count: u32| {
            let name = Probe::Streams(count).name();
            let bytes_per_s = self.figure(&name, Measurement::bytes_per_s)?;
            let runs = self.named(&name);
            let mut each = vec![0.0; count as usize];
            for run in &runs {
                let mut rates: Vec<f64> =
                    run.groups.iter().flat_map(|group| &group.threads).map(|thread| run.per_s(thread.bytes)).collect();
                rates.sort_by(|a, b| b.total_cmp(a));
                each.iter_mut().zip(rates).for_each(|(sum, rate)| *sum += rate / runs.len() as f64);
            }
            Some(StreamStep { count, bytes_per_s, each_bytes_per_s: each })
        };
        self.numbers("streams-").into_iter().filter_map(step).collect()
    }

    fn depths(&self) -> Vec<DepthStep> {
        let step = |depth: u32| {
            let name = Probe::Depth(depth).name();
            let percentile = |percent: f64| {
                let runs = self.named(&name);
                let all: Vec<_> = runs.iter().map(|run| run.latency()).collect();
                hoistway_experiment::Histogram::merged(&all).percentile_ns(percent) as f64
            };
            let ios_per_s = self.figure(&name, Measurement::ios_per_s)?;
            Some(DepthStep { depth, ios_per_s, p50_ns: percentile(50.0), p99_ns: percentile(99.0) })
        };
        self.numbers("random-").into_iter().filter_map(step).collect()
    }

    fn zones(&self) -> Vec<(u8, Estimate)> {
        let zone = |percent: u32| {
            let percent = u8::try_from(percent).ok()?;
            Some((percent, self.figure(&Probe::Zone(percent).name(), Measurement::bytes_per_s)?))
        };
        self.numbers("zone-").into_iter().filter_map(zone).collect()
    }

    fn among(&self, probe: Probe) -> Option<Among> {
        let name = probe.name();
        Some(Among {
            p99_ns: self.figure(&name, |run| latency_of(run, READER, 99.0))?,
            others_bytes_per_s: self.figure(&name, |run| bytes_of(run, OTHERS))?,
            reader_ios_per_s: self.figure(&name, |run| reads_of(run) as f64 * 1e9 / run.window_ns.max(1) as f64),
            reads: Some(self.named(&name).into_iter().map(reads_of).sum()),
        })
    }

    fn shares(&self) -> Option<Shares> {
        let name = Probe::Shares(0).name();
        let runs = self.named(&name);
        Some(Shares {
            ratio: self.figure(&name, share_ratio)?,
            error: self.figure(&name, share_error)?,
            has_mechanism: runs.iter().all(|run| run.scheduler.has_shares),
            ios_per_s: self.figure(&name, Measurement::ios_per_s)?,
            requests: runs.first().and_then(|run| raised_requests(run)),
        })
    }

    fn load(&self) -> Option<LoadFigures> {
        let name = Probe::Load.name();
        let runs: Vec<Measurement> = self.named(&name).into_iter().cloned().collect();
        let has_groups = runs.first().is_some_and(|run| run.groups.len() > 1);
        let isolation = cells(&runs, &[]).first().and_then(|cell| Metric::Isolation.of(cell, None, None));
        Some(LoadFigures {
            isolation,
            work: isolation.and_then(|_| self.figure(&name, work_of)),
            bytes_per_s: self.figure(&name, Measurement::bytes_per_s)?,
            p99_ns: self.figure(&name, worst_p99_ns)?,
            share_error: has_groups.then(|| self.figure(&name, share_error)).flatten(),
        })
    }

    fn candidate(&self, spec: &SchedulerSpec) -> CandidateFindings {
        let depths = self.depths();
        let cpu = depths.first().and_then(|step| {
            let runs = self.named(&Probe::Depth(step.depth).name());
            let costs: Option<Vec<f64>> = runs.into_iter().map(cpu_ns_per_io).collect();
            costs.filter(|costs| !costs.is_empty()).map(|costs| Estimate::of(&costs))
        });
        CandidateFindings {
            spec: spec.to_string(),
            streams: self.streams(),
            depths,
            among_readers: self.among(Probe::AmongReaders),
            among_writers: self.among(Probe::AmongWriters),
            shares: self.shares(),
            cpu_ns_per_io: cpu,
            load: self.load(),
        }
    }

    fn coefficients(&self) -> Option<Coefficients> {
        let bytes = |write| self.figure(&Probe::Cost(Cost::Bytes { write }).name(), Measurement::bytes_per_s);
        let ios = |cost| self.figure(&Probe::Cost(cost).name(), Measurement::ios_per_s);
        let of = |write: bool| {
            Some([
                bytes(write)?.mean,
                ios(Cost::Sequential { write, depth: 0 })?.mean,
                ios(Cost::Random { write, depth: 0 })?.mean,
            ])
        };
        Some(Coefficients { read: of(false)?, write: of(true) })
    }

    fn latencies(&self) -> Option<Latencies> {
        let of = |write: bool, percent: f64| {
            let name = Probe::Cost(Cost::Paced { write, ios_per_s: 0 }).name();
            self.figure(&name, |run| run.latency().percentile_ns(percent) as f64).map(|figure| figure.mean)
        };
        Some(Latencies {
            read_p50_ns: of(false, 50.0)?,
            read_p95_ns: of(false, 95.0)?,
            write_p50_ns: of(true, 50.0),
            write_p95_ns: of(true, 95.0),
        })
    }
}

fn latency_of(run: &Measurement, path: &str, percent: f64) -> f64 {
    run.groups.iter().find(|group| group.path == path).map_or(0.0, |group| percentile_ns(run, group, percent))
}

/// A percentile of latency, or the length of the run if the group waited through all of it.
/// Latencies are those of requests that were *submitted* inside the window, and a reader that still
/// waits for an earlier request has submitted none.
fn percentile_ns(run: &Measurement, group: &GroupMeasurement, percent: f64) -> f64 {
    let latency = group.latency();
    let ns = if latency.count() == 0 { run.experiment.length_ns() } else { latency.percentile_ns(percent) };
    ns as f64
}

fn worst_p99_ns(run: &Measurement) -> f64 {
    run.groups.iter().map(|group| percentile_ns(run, group, 99.0)).fold(0.0, f64::max)
}

fn bytes_of(run: &Measurement, path: &str) -> f64 {
    run.groups.iter().find(|group| group.path == path).map_or(0.0, |group| run.per_s(group.bytes()))
}

/// Reads that the reader completed.
fn reads_of(run: &Measurement) -> u64 {
    run.groups.iter().filter(|group| group.path == READER).map(GroupMeasurement::ios).sum()
}

/// The value to which a run raised `nr_requests`, if the scheduler's default differs and the value
/// was not requested.
fn raised_requests(run: &Measurement) -> Option<u32> {
    let spec = &run.experiment.scheduler;
    let own = run.scheduler.tunables.iter().find(|tunable| tunable.name == "nr_requests" && !tunable.is_default)?;
    let is_asked = spec.setting("nr_requests").is_some() || run.experiment.queue_requests.is_some();
    if is_asked { None } else { own.value.parse().ok() }
}

/// A light group without service counts as one that got one read of 4 KiB, so that this is a number.
fn share_ratio(run: &Measurement) -> f64 {
    let [light, heavy] = run.groups.as_slice() else { return 0.0 };
    heavy.bytes() as f64 / light.bytes().max(4096) as f64
}

/// The largest deviation of a group's share from its weight's.
fn share_error(run: &Measurement) -> f64 {
    let total: u64 = run.groups.iter().map(GroupMeasurement::bytes).sum();
    let weights: u32 = run.groups.iter().map(|group| group.weight).sum();
    let error = |group: &GroupMeasurement| {
        let due = f64::from(group.weight) / f64::from(weights.max(1));
        let got = group.bytes() as f64 / total.max(1) as f64;
        if due > 0.0 { (got / due - 1.0).abs() } else { 0.0 }
    };
    run.groups.iter().map(error).fold(0.0, f64::max)
}

/// CPU time per I/O, from the note `cpu_ns` that `hoistway tune` adds to the measurement.
fn cpu_ns_per_io(run: &Measurement) -> Option<f64> {
    let cpu_ns: f64 = run.target.notes.get("cpu_ns")?.parse().ok()?;
    let ios: u64 = run.groups.iter().map(GroupMeasurement::ios).sum();
    // The noted CPU time includes the ramp.
    let whole_ns = run.experiment.length_ns() as f64;
    let part = run.window_ns as f64 / whole_ns.max(1.0);
    (ios > 0).then(|| cpu_ns * part / ios as f64)
}

/// The decisive figures that vary too much, one entry per probe and scheduler.
pub(crate) fn noisy(measurements: &[Measurement]) -> Vec<Noisy> {
    let mut found: Vec<Noisy> = Vec::new();
    let mut seen: Vec<(&str, SchedulerSpec, bool)> = Vec::new();
    for run in measurements {
        let key = (run.experiment.workload.as_str(), spec_of(run), is_of_candidate(run));
        if seen.contains(&key) {
            continue;
        }
        let is_same =
            |other: &&Measurement| (other.experiment.workload.as_str(), spec_of(other), is_of_candidate(other)) == key;
        let same: Vec<&Measurement> = measurements.iter().filter(is_same).collect();
        if let Some(variation) = excess(key.0, key.2, &same) {
            let (probe, spec) = (key.0.to_owned(), key.1.to_string());
            found.push(Noisy { probe, spec, is_candidates: key.2, variation });
        }
        seen.push(key);
    }
    found
}

/// The probes whose window was too short for the reader's 99th percentile: it completed fewer reads
/// than that needs, or waited for about as long as the window lasted.
pub(crate) fn cut_short(measurements: &[Measurement]) -> Vec<Noisy> {
    let is_cut = |run: &&Measurement| {
        let is_among =
            [Probe::AmongReaders, Probe::AmongWriters].iter().any(|probe| probe.name() == run.experiment.workload);
        let is_waiting = || latency_of(run, READER, 99.0) >= 0.8 * run.experiment.runtime_ns as f64;
        is_among && (reads_of(run) < READS_OF_A_P99 || is_waiting())
    };
    let entry = |run: &Measurement| Noisy {
        probe: run.experiment.workload.clone(),
        spec: spec_of(run).to_string(),
        is_candidates: is_of_candidate(run),
        variation: 0.0,
    };
    let mut found: Vec<Noisy> = Vec::new();
    for run in measurements.iter().filter(is_cut).map(entry) {
        if !found.contains(&run) {
            found.push(run);
        }
    }
    found
}

/// The variation of a probe's main figure, if it exceeds the permitted one.
fn excess(probe: &str, is_candidates: bool, runs: &[&Measurement]) -> Option<f64> {
    let variation = |figure: &dyn Fn(&Measurement) -> f64| {
        let values: Vec<f64> = runs.iter().map(|run| figure(run)).collect();
        let estimate = Estimate::of(&values);
        if estimate.mean > 0.0 { estimate.sd / estimate.mean } else { 0.0 }
    };
    let is_among = probe == Probe::AmongReaders.name() || probe == Probe::AmongWriters.name();
    let decides = is_among
        || probe == Probe::Load.name()
        || probe.starts_with("streams-")
        || (probe.starts_with("random-") && (is_candidates || probe == Probe::Depth(1).name()));
    let (found, bound) = if is_among {
        (variation(&|run| latency_of(run, READER, 99.0)), QUIET_LATENCY)
    } else {
        (variation(&Measurement::bytes_per_s), QUIET_RATE)
    };
    (decides && found > bound).then_some(found)
}

/// The weight of the heavy group divided by that of the light group.
pub(crate) fn due_ratio() -> f64 {
    f64::from(WEIGHTS[1]) / f64::from(WEIGHTS[0])
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A figure without spread.
    pub(crate) fn exact(mean: f64) -> Estimate {
        Estimate { mean, sd: 0.0, ci95: Some(0.0), n: 3 }
    }

    /// Streams of 1, 2, 4 and 8 readers, in MB/s.
    pub(crate) fn streams(mb_per_s: [f64; 4]) -> Vec<StreamStep> {
        let step = |(count, rate): (u32, f64)| StreamStep {
            count,
            bytes_per_s: exact(rate * 1e6),
            each_bytes_per_s: vec![rate * 1e6 / f64::from(count); count as usize],
        };
        [1, 2, 4, 8].into_iter().zip(mb_per_s).map(step).collect()
    }

    /// Random reads: at depth 1 with this median, and `parallelism` times as many per second at
    /// depth 32.
    pub(crate) fn depths(p50_ns: f64, parallelism: f64) -> Vec<DepthStep> {
        let one = 1e9 / p50_ns;
        let step = |depth, rate: f64| DepthStep {
            depth,
            ios_per_s: exact(rate),
            p50_ns: f64::from(depth) * 1e9 / rate,
            p99_ns: f64::from(depth) * 2e9 / rate,
        };
        vec![step(1, one), step(32, one * parallelism)]
    }

    #[test]
    fn the_knee_is_the_first_depth_with_nearly_everything() {
        let step = |depth, rate: f64| DepthStep { depth, ios_per_s: exact(rate), p50_ns: 1.0, p99_ns: 1.0 };
        let findings = Findings {
            depths: vec![step(1, 100.0), step(2, 190.0), step(4, 360.0), step(8, 399.0), step(16, 400.0)],
            ..Findings::default()
        };
        assert_eq!((findings.knee(), findings.parallelism()), (4, 4.0));
    }

    #[test]
    fn findings_are_written_and_read_back() {
        let findings = Findings {
            streams: streams([63.3, 18.7, 21.6, 29.6]),
            candidates: vec![CandidateFindings { spec: "bfq:low_latency=0".into(), ..CandidateFindings::default() }],
            ..Findings::default()
        };
        let text = serde_json::to_string(&findings).unwrap();
        assert_eq!(serde_json::from_str::<Findings>(&text).unwrap(), findings);
    }
}
