//! The probes: the questions that are put to a device, as experiments.
//!
//! All reads are direct and, except those of zones, stay between 10 % and 90 % of the device.
//! Probes that write are marked and run only where writing is permitted. Source:
//! docs/specifications/harness.md, section 8.4.

use hoistway_experiment::job::{Amount, BlockSize, Engine, Job, Mix, Pattern, PerDirection, Placement};
use hoistway_experiment::{Experiment, Group, SchedulerSpec, Weight, solo};

use crate::device::{Device, HostKind};

const KIB: u32 = 1 << 10;
const MIB: u32 = 1 << 20;
/// Runtime of a job that does not end by itself; small enough not to overflow sums.
const ENDLESS_NS: u64 = 1 << 50;
/// The area that all probes share: the whole device.
const AREA: &str = "device";
/// Weights of the two groups whose shares are measured.
pub const WEIGHTS: [u32; 2] = [100, 800];
/// Group of the reader in the probes of interference.
pub const READER: &str = "reader";
/// Begin of the names of solo runs.
const SOLO: &str = "load-group-";
/// Group of the jobs that disturb the reader.
pub const OTHERS: &str = "others";

/// One question to a device.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Probe {
    /// This many synchronous sequential readers of 128 KiB, each in its own part of the device.
    Streams(u32),
    /// Random 4 KiB reads at this depth.
    Depth(u32),
    /// Sequential reads of 1 MiB, 8 in flight.
    Bandwidth,
    /// Sequential reads at this position, in percent of the device.
    Zone(u8),
    /// One random reader at depth 1 beside 4 sequential readers.
    AmongReaders,
    /// The same reader beside 4 sequential writers; this probe writes.
    AmongWriters,
    /// The jobs that disturb the reader, without it; the writers write.
    Others {
        /// The writers instead of the readers.
        write: bool,
    },
    /// Two groups, weights 100 and 800, random reads at this depth each.
    Shares(u32),
    /// Inputs of io.cost's model.
    Cost(Cost),
    /// The user's own load.
    Load,
    /// One group of that load without the others: what it can claim beside them.
    Solo {
        /// Its index among the groups.
        group: u32,
        /// The device kept full with its kind of request, instead of the group as it is.
        is_full: bool,
    },
}

/// The six coefficients, and the latency under 0.9 times the random rate.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Cost {
    /// Sequential bandwidth.
    Bytes {
        /// Writes instead of reads.
        write: bool,
    },
    /// Sequential 4 KiB requests at this depth.
    Sequential {
        /// Writes instead of reads.
        write: bool,
        /// Requests in flight.
        depth: u32,
    },
    /// Random 4 KiB requests at this depth.
    Random {
        /// Writes instead of reads.
        write: bool,
        /// Requests in flight.
        depth: u32,
    },
    /// Random 4 KiB requests at this rate.
    Paced {
        /// Writes instead of reads.
        write: bool,
        /// Requests per second.
        ios_per_s: u32,
    },
}

/// Durations and repetitions of a batch.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Timing {
    /// Unmeasured time before the window, in nanoseconds.
    pub ramp_ns: u64,
    /// Measured time, in nanoseconds.
    pub step_ns: u64,
    /// Number of repetitions.
    pub repeats: u32,
    /// Set number of the first repetition.
    pub first_set: u32,
}

impl Probe {
    /// Name of the experiment's workload; findings are gathered by it.
    pub fn name(self) -> String {
        let way = |write| if write { "write" } else { "read" };
        match self {
            Probe::Streams(count) => format!("streams-{count}"),
            Probe::Depth(depth) => format!("random-{depth}"),
            Probe::Bandwidth => "bandwidth".to_owned(),
            Probe::Zone(percent) => format!("zone-{percent}"),
            Probe::AmongReaders => "reader-among-readers".to_owned(),
            Probe::AmongWriters => "reader-among-writers".to_owned(),
            Probe::Others { write } => format!("others-{}", way(write)),
            Probe::Shares(_) => "shares".to_owned(),
            Probe::Cost(Cost::Bytes { write }) => format!("cost-bytes-{}", way(write)),
            Probe::Cost(Cost::Sequential { write, .. }) => format!("cost-sequential-{}", way(write)),
            Probe::Cost(Cost::Random { write, .. }) => format!("cost-random-{}", way(write)),
            Probe::Cost(Cost::Paced { write, .. }) => format!("cost-paced-{}", way(write)),
            Probe::Load => "load".to_owned(),
            Probe::Solo { group, is_full: false } => format!("{SOLO}{}-alone", group + 1),
            Probe::Solo { group, is_full: true } => format!("{SOLO}{}-full", group + 1),
        }
    }

    /// Whether a run is that of a group alone; without it the answer only lacks isolation.
    pub fn is_solo(run: &Experiment) -> bool {
        run.workload.starts_with(SOLO)
    }

    /// Describes the load for users, with the number that distinguishes probes of one kind.
    pub fn what(self) -> (&'static str, Option<u32>) {
        match self {
            Probe::Streams(count) => ("parallel sequential readers of 128 KiB", Some(count)),
            Probe::Depth(depth) => ("random 4 KiB reads, number in flight", Some(depth)),
            Probe::Bandwidth => ("sequential 1 MiB reads, 8 at a time", None),
            Probe::Zone(percent) => ("sequential reads at this percentage of the device", Some(percent.into())),
            Probe::AmongReaders => ("one random reader beside 4 sequential ones", None),
            Probe::AmongWriters => ("one random reader beside 4 sequential WRITERS", None),
            Probe::Others { write: false } => ("4 sequential readers of 1 MiB, 8 at a time each", None),
            Probe::Others { write: true } => ("4 sequential WRITERS of 256 KiB, 16 at a time each", None),
            Probe::Shares(depth) => {
                ("two groups 100:800 of random 4 KiB reads, each with this number in flight", Some(depth))
            }
            Probe::Cost(Cost::Paced { .. }) => ("random 4 KiB requests at 0.9 times the best rate", None),
            Probe::Cost(_) => ("large, sequential and random requests, for io.cost", None),
            Probe::Load => ("your load", None),
            Probe::Solo { is_full: false, .. } => ("each group of your load alone", None),
            Probe::Solo { is_full: true, .. } => ("the device full of the requests of each group", None),
        }
    }

    /// Whether it writes.
    pub fn writes(self) -> bool {
        match self {
            Probe::AmongWriters => true,
            Probe::Others { write } => write,
            Probe::Cost(
                Cost::Bytes { write }
                | Cost::Sequential { write, .. }
                | Cost::Random { write, .. }
                | Cost::Paced { write, .. },
            ) => write,
            _ => false,
        }
    }

    /// Whether merging would falsify the figure.
    fn is_unmerged(self) -> bool {
        matches!(self, Probe::Depth(_) | Probe::Cost(_))
    }

    /// Groups and jobs of this probe; `load` for the user's own load.
    pub fn groups(self, load: &[Group]) -> Vec<Group> {
        let alone = |job: Job| vec![rooted("probe", vec![job])];
        match self {
            Probe::Streams(count) => alone(streams(count, 128 * KIB, 1, false)),
            Probe::Depth(depth) => alone(random(depth, false)),
            Probe::Bandwidth => alone(streams(1, MIB, 8, false)),
            Probe::Zone(percent) => {
                let zone = sequential(64 * KIB, 16, false).with(|job| {
                    job.area.offset = Amount::Percent(percent);
                    job.area.size = Some(Amount::Percent(1));
                });
                alone(zone)
            }
            Probe::AmongReaders => vec![rooted(READER, vec![random(1, false)]), others(false)],
            Probe::AmongWriters => vec![rooted(READER, vec![random(1, false)]), others(true)],
            Probe::Others { write } => vec![others(write)],
            Probe::Shares(depth) => WEIGHTS
                .iter()
                .map(|weight| {
                    let weight = Weight::new(*weight).unwrap_or_default();
                    Group::new(format!("w{}", weight.get()), weight, vec![random(depth, false)])
                })
                .collect(),
            Probe::Cost(cost) => alone(cost.job()),
            Probe::Load => load.to_vec(),
            Probe::Solo { group, is_full: false } => solo::alone(load, group as usize),
            Probe::Solo { group, is_full: true } => solo::full(load, group as usize),
        }
    }

    /// The experiment of one repetition.
    pub fn experiment(
        self,
        device: &Device,
        spec: &SchedulerSpec,
        load: &[Group],
        timing: Timing,
        set: u32,
    ) -> Experiment {
        let mut scheduler = spec.clone();
        // Only queues of the kernel can switch merging off. Those of the engine merge only what was
        // plugged together, which does not happen here.
        if self.is_unmerged() && device.host == HostKind::Native && spec.setting("nomerges").is_none() {
            scheduler = scheduler.with("nomerges", "2");
        }
        Experiment {
            set: timing.first_set + set,
            runtime_ns: timing.step_ns,
            ramp_ns: timing.ramp_ns,
            ..Experiment::new(device.name.clone(), self.name(), scheduler, self.groups(load))
        }
    }
}

impl Cost {
    /// Requests of 1 MiB in flight, enough to keep the device busy; the kernel's own script sends
    /// blocks of 128 MiB.
    const BYTES_DEPTH: u32 = 32;
    /// Depth that suffices for any rate below the device's maximum.
    const PACED_DEPTH: u32 = 256;

    fn job(self) -> Job {
        match self {
            Cost::Bytes { write } => sequential(MIB, Self::BYTES_DEPTH, write),
            Cost::Sequential { write, depth } => sequential(4 * KIB, depth, write),
            Cost::Random { write, depth } => random(depth, write),
            Cost::Paced { write, ios_per_s } => {
                random(Self::PACED_DEPTH, write).with(|job| job.pacing.rate_ios_per_s = PerDirection::all(ios_per_s))
            }
        }
    }
}

/// A group that exists in reports only: its processes stay in the root group, so a scheduler tells
/// them apart as it does other processes.
fn rooted(path: &str, jobs: Vec<Job>) -> Group {
    Group { is_in_root: true, ..Group::new(path, Weight::DEFAULT, jobs) }
}

/// The jobs that disturb a reader.
fn others(write: bool) -> Group {
    let job = if write { streams(4, 256 * KIB, 16, true) } else { streams(4, MIB, 8, false) };
    rooted(OTHERS, vec![job])
}

fn base(block_bytes: u32, depth: u32, write: bool) -> Job {
    Job::default().with(|job| {
        job.name = "io".to_owned();
        job.shape.mix = if write { Mix::Write } else { Mix::Read };
        job.shape.block_sizes = PerDirection::all(BlockSize::Fixed(block_bytes));
        job.area.file = AREA.to_owned();
        job.area.offset = Amount::Percent(10);
        job.area.size = Some(Amount::Percent(80));
        job.submission.engine = if depth > 1 { Engine::Async } else { Engine::Sync };
        job.submission.iodepth = depth;
        job.submission.direct = true;
        job.times.time_based = true;
        job.times.runtime_ns = Some(ENDLESS_NS);
    })
}

fn random(depth: u32, write: bool) -> Job {
    base(4 * KIB, depth, write).with(|job| job.shape.pattern = Pattern::Random { run: 1, repeat_offset: false })
}

fn sequential(block_bytes: u32, depth: u32, write: bool) -> Job {
    base(block_bytes, depth, write)
}

/// `count` threads, each in its own part of the device.
fn streams(count: u32, block_bytes: u32, depth: u32, write: bool) -> Job {
    sequential(block_bytes, depth, write).with(|job| {
        job.threads = count;
        job.area.placement = Placement::Split;
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::class::tests::device;

    const TIMING: Timing = Timing { ramp_ns: 0, step_ns: 1, repeats: 1, first_set: 1 };

    #[test]
    fn every_probe_is_an_experiment_that_hosts_accept() {
        let probes = [
            Probe::Streams(16),
            Probe::Depth(256),
            Probe::Bandwidth,
            Probe::Zone(99),
            Probe::AmongReaders,
            Probe::AmongWriters,
            Probe::Others { write: true },
            Probe::Shares(16),
            Probe::Cost(Cost::Paced { write: true, ios_per_s: 9 }),
        ];
        for probe in probes {
            let experiment = probe.experiment(&device(1), &SchedulerSpec::named("none"), &[], TIMING, 0);
            assert_eq!(experiment.check(), Ok(()), "{probe:?}");
            let writes = experiment.issuers().any(|place| place.job.shape.mix.has_writes());
            assert_eq!(writes, probe.writes(), "{probe:?}");
        }
    }

    #[test]
    fn only_the_kernel_gets_nomerges() {
        let none = SchedulerSpec::named("none");
        let text =
            |device: &Device, probe: Probe| probe.experiment(device, &none, &[], TIMING, 0).scheduler.to_string();
        assert_eq!(text(&device(1), Probe::Depth(4)), "none:nomerges=2");
        assert_eq!(text(&device(1), Probe::Streams(4)), "none");
        let simulated = Device { host: HostKind::Simulator, ..device(1) };
        assert_eq!(text(&simulated, Probe::Depth(4)), "none");
    }
}
