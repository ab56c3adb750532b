//! Converts an anchor to the experiments that repeat it, and their measurements to the figure that
//! is compared with the anchor's.

use hoistway_block::random::Stream;
use hoistway_block::{Direction, Nanos};
use hoistway_device::{Anchor, Figure, Repetition};
use hoistway_experiment::measurement::{GroupMeasurement, Tally};
use hoistway_experiment::{Experiment, Histogram, Machine, Measurement, SchedulerSpec, ShareUnit};
use hoistway_workload::Job;
use hoistway_workload::fio::{self, Surroundings};

use hoistway::Error;
use hoistway::plan::{times, workloads};

/// Upper bound of the duration of a run whose jobs end by themselves.
const LONGEST_NS: Nanos = 3_600 * 1_000_000_000;
/// The areas of jobs begin at whole MiB, as those of dd with a block size of 1 MiB do.
const GRID_BYTES: u64 = 1 << 20;

/// The runs whose mean is the anchor's figure, on the target of this text.
pub fn experiments(anchor: &Anchor, target: &str) -> Result<Vec<Experiment>, Error> {
    let place = || format!("anchor '{}'", anchor.name);
    let scheduler: SchedulerSpec = anchor.scheduler.parse().map_err(|wrong| Error::from(wrong).at(place()))?;
    let machine = Machine::parse(&anchor.machine).map_err(|wrong| Error::from(wrong).at(place()))?;
    let one = |repetition: &Repetition| {
        let groups = workloads::groups_of(anchor.name.as_ref(), jobs(anchor, *repetition)?)?;
        let (runtime_ns, ramp_ns) =
            times::of_groups(&groups).map_or((LONGEST_NS, 0), |times| (times.runtime_ns, times.ramp_ns));
        let threads = groups.iter().flat_map(|group| &group.jobs).map(|job| job.threads).sum();
        Ok(Experiment {
            target: target.to_owned(),
            workload: anchor.name.clone(),
            scheduler: scheduler.clone(),
            groups: groups.into(),
            threads,
            set: 1,
            seed: repetition.seed,
            runtime_ns,
            ramp_ns,
            device_depth: None,
            queue_requests: None,
            limiters: Vec::new(),
            share_unit: ShareUnit::Bytes,
            machine: machine.clone(),
        })
    };
    anchor.repetitions.iter().map(|repetition| one(repetition).map_err(|error: Error| error.at(place()))).collect()
}

/// The job file of every copy, with its variables substituted.
fn jobs(anchor: &Anchor, repetition: Repetition) -> Result<Vec<Job>, Error> {
    let mut jobs: Vec<Job> = Vec::new();
    let mut earlier = 0;
    for copy in 0..anchor.copies {
        let mut random = Stream::of(repetition.seed, &format!("anchor/start/{copy}"));
        let random_bytes = if anchor.random_bytes == 0 { 0 } else { random.below(anchor.random_bytes) };
        let distance_bytes = anchor.stride_bytes.saturating_mul(u64::from(copy));
        let start_bytes = distance_bytes.saturating_add(repetition.offset_bytes).saturating_add(random_bytes);
        let start_bytes = start_bytes / GRID_BYTES * GRID_BYTES;
        let delay_us = anchor.stagger_ns * u64::from(copy) / 1_000;
        let variable = |name: &str| match name {
            "COPY" => Some(copy.to_string()),
            "START" => Some(start_bytes.to_string()),
            "DELAY" => Some(format!("{delay_us}us")),
            _ => None,
        };
        let surroundings = Surroundings { variable: &variable, ..Surroundings::none() };
        let parsed = fio::parse(&anchor.name, anchor.job.as_bytes(), &surroundings)?;
        for mut job in parsed.jobs {
            if anchor.copies > 1 {
                job.name = format!("{}{copy}", job.name);
            }
            job.first_thread = earlier;
            earlier += job.threads;
            jobs.push(job);
        }
    }
    if jobs.is_empty() {
        return Err(Error::usage(format!("'{}' has no job", anchor.name), "begin a job with [name]"));
    }
    Ok(jobs)
}

/// The anchor's figure in its unit, as the mean over the runs: one value per published one.
///
/// # Errors
/// The number of published values is neither one nor the number of groups.
pub fn figure(anchor: &Anchor, runs: &[&Measurement]) -> Result<Vec<f64>, Error> {
    let worth = anchor.figure.worth(&anchor.unit).unwrap_or(1.0);
    let mut sums = vec![0.0; anchor.published.len()];
    for run in runs {
        let groups = run.groups.len();
        if sums.len() != 1 && sums.len() != groups {
            let (name, given) = (&anchor.name, sums.len());
            let what = format!("'{name}' has {given} published values and {groups} groups");
            return Err(Error::usage(
                what,
                "give one published value for all, or one per group (cgroup=NAME in the job)",
            ));
        }
        for (index, sum) in sums.iter_mut().enumerate() {
            let chosen = if anchor.published.len() == 1 { &run.groups[..] } else { &run.groups[index..=index] };
            *sum += value(anchor, run, chosen) / worth;
        }
    }
    Ok(sums.into_iter().map(|sum| sum / runs.len().max(1) as f64).collect())
}

/// One run's figure of some of its groups, in bytes per second, requests or nanoseconds.
fn value(anchor: &Anchor, run: &Measurement, groups: &[GroupMeasurement]) -> f64 {
    let tallies = || groups.iter().flat_map(|group| selected(group, anchor.direction));
    let latency = || Histogram::merged(tallies().map(|tally| &tally.latency));
    let threads = groups.iter().flat_map(|group| &group.threads).filter(|thread| thread.elapsed_ns > 0);
    match anchor.figure {
        Figure::SumOfRates => threads.map(|thread| thread.bytes as f64 * 1e9 / thread.elapsed_ns as f64).sum(),
        Figure::Aggregate | Figure::Bandwidth => run.per_s(tallies().map(|tally| tally.bytes).sum()),
        Figure::Iops => run.per_s(tallies().map(|tally| tally.ios).sum()),
        Figure::Ios => tallies().map(|tally| tally.ios).sum::<u64>() as f64,
        Figure::LatencyMean => latency().mean_ns(),
        Figure::LatencyMedian => latency().percentile_ns(50.0) as f64,
        Figure::LatencyP99 => latency().percentile_ns(99.0) as f64,
    }
}

fn selected(group: &GroupMeasurement, direction: Option<Direction>) -> Vec<&Tally> {
    match direction {
        None => vec![&group.read, &group.write, &group.trim],
        Some(Direction::Read) => vec![&group.read],
        Some(Direction::Write) => vec![&group.write],
    }
}
