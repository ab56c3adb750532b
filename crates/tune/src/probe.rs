//! The probes: what is asked of the device, as experiments (specification: harness 8.4).
//!
//! All reads are direct and stay between 10 % and 90 % of the device. Probes that write are marked, and asked for only
//! where writing is allowed.

use experiment::job::{Amount, BlockSize, Engine, Job, Mix, Pattern, PerDirection, Placement};
use experiment::{Experiment, Group, Machine, SchedulerSpec, ShareUnit, Weight};

use crate::device::{Device, HostKind};

const KIB: u32 = 1 << 10;
const MIB: u32 = 1 << 20;
/// A job that never ends by itself, and far from overflow.
const ENDLESS_NS: u64 = 1 << 50;
/// All probes work on one area, the whole device.
const AREA: &str = "device";
/// Weights of the two groups whose shares are measured.
pub const WEIGHTS: [u32; 2] = [100, 800];
/// The reader's group in the probes of interference.
pub const READER: &str = "reader";
/// Those who disturb it.
pub const OTHERS: &str = "others";

/// One question.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Probe {
    /// So many synchronous sequential readers of 128 KiB, each in its part of the device.
    Streams(u32),
    /// Random 4 KiB reads at this depth.
    Depth(u32),
    /// Sequential reads of 1 MiB, 8 at a time.
    Bandwidth,
    /// Sequential reads at so many percent of the device.
    Zone(u8),
    /// One random reader at depth 1 beside 4 sequential readers.
    AmongReaders,
    /// The same beside 4 sequential writers. Writes.
    AmongWriters,
    /// Two groups, weights 100 and 800, random reads at this depth each.
    Shares(u32),
    /// What io.cost wants to know.
    Cost(Cost),
    /// The user's own load.
    Load,
}

/// The six coefficients, and the latency under 0.9 times the random rate.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Cost {
    /// Sequential bandwidth.
    Bytes {
        /// Writes instead of reads.
        write: bool,
    },
    /// 4 KiB requests one behind the other, at this depth.
    Sequential {
        /// Writes instead of reads.
        write: bool,
        /// Requests at a time.
        depth: u32,
    },
    /// 4 KiB requests anywhere, at this depth.
    Random {
        /// Writes instead of reads.
        write: bool,
        /// Requests at a time.
        depth: u32,
    },
    /// 4 KiB requests anywhere at this rate.
    Paced {
        /// Writes instead of reads.
        write: bool,
        /// Requests a second.
        ios_per_s: u32,
    },
}

/// How long and how often.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Timing {
    /// Not measured, in nanoseconds.
    pub ramp_ns: u64,
    /// Measured, in nanoseconds.
    pub step_ns: u64,
    /// Repetitions.
    pub repeats: u32,
    /// Number of the first repetition.
    pub first_set: u32,
}

impl Probe {
    /// The name of the experiment's workload; findings are gathered by it.
    pub fn name(self) -> String {
        let way = |write| if write { "write" } else { "read" };
        match self {
            Probe::Streams(count) => format!("streams-{count}"),
            Probe::Depth(depth) => format!("random-{depth}"),
            Probe::Bandwidth => "bandwidth".to_owned(),
            Probe::Zone(percent) => format!("zone-{percent}"),
            Probe::AmongReaders => "reader-among-readers".to_owned(),
            Probe::AmongWriters => "reader-among-writers".to_owned(),
            Probe::Shares(_) => "shares".to_owned(),
            Probe::Cost(Cost::Bytes { write }) => format!("cost-bytes-{}", way(write)),
            Probe::Cost(Cost::Sequential { write, .. }) => format!("cost-sequential-{}", way(write)),
            Probe::Cost(Cost::Random { write, .. }) => format!("cost-random-{}", way(write)),
            Probe::Cost(Cost::Paced { write, .. }) => format!("cost-paced-{}", way(write)),
            Probe::Load => "load".to_owned(),
        }
    }

    /// What it does to the device, for people, and the number by which probes of one kind differ.
    pub fn what(self) -> (&'static str, Option<u32>) {
        match self {
            Probe::Streams(count) => ("parallel sequential readers of 128 KiB", Some(count)),
            Probe::Depth(depth) => ("random 4 KiB reads, at a time", Some(depth)),
            Probe::Bandwidth => ("sequential 1 MiB reads, 8 at a time", None),
            Probe::Zone(percent) => ("sequential reads at so many percent of the device", Some(percent.into())),
            Probe::AmongReaders => ("one random reader beside 4 sequential ones", None),
            Probe::AmongWriters => ("one random reader beside 4 sequential WRITERS", None),
            Probe::Shares(depth) => ("two groups 100:800 of random 4 KiB reads, each so many at a time", Some(depth)),
            Probe::Cost(Cost::Paced { .. }) => ("random 4 KiB requests at 0.9 times the best rate", None),
            Probe::Cost(_) => ("large, sequential and random requests, for io.cost", None),
            Probe::Load => ("your load", None),
        }
    }

    /// Whether it writes.
    pub fn writes(self) -> bool {
        match self {
            Probe::AmongWriters => true,
            Probe::Cost(
                Cost::Bytes { write }
                | Cost::Sequential { write, .. }
                | Cost::Random { write, .. }
                | Cost::Paced { write, .. },
            ) => write,
            _ => false,
        }
    }

    /// Whether requests must not be merged for the figure to be what it says.
    fn is_unmerged(self) -> bool {
        matches!(self, Probe::Depth(_) | Probe::Cost(_))
    }

    /// Who does what; the user's own load says so itself.
    pub fn groups(self, load: &[Group]) -> Vec<Group> {
        let alone = |job: Job| vec![rooted("probe", vec![job])];
        match self {
            Probe::Streams(count) => alone(streams(count, 128 * KIB, 1, false)),
            Probe::Depth(depth) => alone(random(depth, false)),
            Probe::Bandwidth => alone(streams(1, MIB, 8, false)),
            Probe::Zone(percent) => {
                let zone = Job {
                    offset: Amount::Percent(percent),
                    size: Some(Amount::Percent(1)),
                    ..sequential(64 * KIB, 16, false)
                };
                alone(zone)
            }
            Probe::AmongReaders => {
                vec![rooted(READER, vec![random(1, false)]), rooted(OTHERS, vec![streams(4, MIB, 8, false)])]
            }
            Probe::AmongWriters => {
                vec![rooted(READER, vec![random(1, false)]), rooted(OTHERS, vec![streams(4, 256 * KIB, 16, true)])]
            }
            Probe::Shares(depth) => WEIGHTS
                .iter()
                .map(|weight| {
                    let weight = Weight::new(*weight).unwrap_or_default();
                    Group::new(format!("w{}", weight.get()), weight, vec![random(depth, false)])
                })
                .collect(),
            Probe::Cost(cost) => alone(cost.job()),
            Probe::Load => load.to_vec(),
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
        // Only the kernel's queues can be told not to merge; ours merge what was plugged together, and nothing here is.
        if self.is_unmerged() && device.host == HostKind::Native && spec.setting("nomerges").is_none() {
            scheduler = scheduler.with("nomerges", "2");
        }
        Experiment {
            target: device.name.clone(),
            workload: self.name(),
            scheduler,
            limiters: Vec::new(),
            groups: self.groups(load).into(),
            threads: 1,
            set: timing.first_set + set,
            seed: 1,
            runtime_ns: timing.step_ns,
            ramp_ns: timing.ramp_ns,
            device_depth: None,
            queue_requests: None,
            share_unit: ShareUnit::Bytes,
            machine: Machine::default(),
        }
    }
}

impl Cost {
    /// Requests of 1 MiB, enough of them that the device is never idle; the kernel's own script sends blocks of 128 MiB.
    const BYTES_DEPTH: u32 = 32;
    /// Enough for any rate below what the device can do.
    const PACED_DEPTH: u32 = 256;

    fn job(self) -> Job {
        match self {
            Cost::Bytes { write } => sequential(MIB, Self::BYTES_DEPTH, write),
            Cost::Sequential { write, depth } => sequential(4 * KIB, depth, write),
            Cost::Random { write, depth } => random(depth, write),
            Cost::Paced { write, ios_per_s } => {
                Job { rate_ios_per_s: PerDirection::all(ios_per_s), ..random(Self::PACED_DEPTH, write) }
            }
        }
    }
}

/// A group in reports only: a scheduler tells its members apart as it does other processes.
fn rooted(path: &str, jobs: Vec<Job>) -> Group {
    Group { is_in_root: true, ..Group::new(path, Weight::DEFAULT, jobs) }
}

fn base(block_bytes: u32, depth: u32, write: bool) -> Job {
    Job {
        name: "io".to_owned(),
        mix: if write { Mix::Write } else { Mix::Read },
        block_sizes: PerDirection::all(BlockSize::Fixed(block_bytes)),
        file: AREA.to_owned(),
        offset: Amount::Percent(10),
        size: Some(Amount::Percent(80)),
        engine: if depth > 1 { Engine::Async } else { Engine::Sync },
        iodepth: depth,
        direct: true,
        time_based: true,
        runtime_ns: Some(ENDLESS_NS),
        ..Job::default()
    }
}

fn random(depth: u32, write: bool) -> Job {
    Job { pattern: Pattern::Random { run: 1, repeat_offset: false }, ..base(4 * KIB, depth, write) }
}

fn sequential(block_bytes: u32, depth: u32, write: bool) -> Job {
    base(block_bytes, depth, write)
}

/// `count` threads, each in its own part.
fn streams(count: u32, block_bytes: u32, depth: u32, write: bool) -> Job {
    Job { threads: count, placement: Placement::Split, ..sequential(block_bytes, depth, write) }
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
            Probe::Shares(16),
            Probe::Cost(Cost::Paced { write: true, ios_per_s: 9 }),
        ];
        for probe in probes {
            let experiment = probe.experiment(&device(1), &SchedulerSpec::named("none"), &[], TIMING, 0);
            assert_eq!(experiment.check(), Ok(()), "{probe:?}");
            let writes = experiment.issuers().any(|place| place.job.mix.has_writes());
            assert_eq!(writes, probe.writes(), "{probe:?}");
        }
    }

    #[test]
    fn only_the_kernel_is_told_not_to_merge() {
        let none = SchedulerSpec::named("none");
        let text =
            |device: &Device, probe: Probe| probe.experiment(device, &none, &[], TIMING, 0).scheduler.to_string();
        assert_eq!(text(&device(1), Probe::Depth(4)), "none:nomerges=2");
        assert_eq!(text(&device(1), Probe::Streams(4)), "none");
        let simulated = Device { host: HostKind::Simulator, ..device(1) };
        assert_eq!(text(&simulated, Probe::Depth(4)), "none");
    }
}
