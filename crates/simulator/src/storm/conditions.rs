//! The conditions of a storm: its intensity, its device with faults, the queue and the checks.

use std::collections::VecDeque;

use hoistway_block::random::Stream;
use hoistway_block::{Extent, Operation, SectorRange};
use hoistway_device::{AnyDevice, Device, DeviceInfo, Model};
use hoistway_elevator::{Actuators, Bio, Configuration, Depth, Version, registry};
use hoistway_queue::{Era, Limits, Merging, Plug, RequestQueue, Settings};

use super::attention::Attention;
use super::limiting::Limiting;
use super::tally::Tally;
use super::withdrawing::Withdrawing;
use super::{
    CAPACITY_SECTORS, CONTEXTS, GROUPS, SHOWN_CHANGES, SOFTWARE_QUEUES, Storm, StormState, Submissions, below,
};
use crate::invariants::{Broken, Ledger};
use crate::starvation::{Starvation, Terms};

/// The intensity of a storm: drawn once per seed, so that seeds differ in kind.
#[derive(Copy, Clone, Debug)]
pub(super) struct Intensity {
    pub submit_per_mille: u64,
    pub churn_per_mille: u64,
    pub read_percent: u64,
    pub adjacent_percent: u64,
    pub requeue_per_mille: u64,
    pub refuse_per_mille: u64,
    pub plug_percent: u64,
    pub flush_percent: u64,
    pub switches: bool,
    pub hardware_queues: u16,
}

impl Intensity {
    pub(super) fn draw(random: &mut Stream) -> Self {
        let mut among = |choices: &[u64]| choices[below(random, choices.len())];
        Self {
            submit_per_mille: among(&[300, 500, 700, 900]),
            churn_per_mille: among(&[0, 5, 20, 60]),
            read_percent: among(&[5, 30, 60, 95]),
            adjacent_percent: among(&[0, 30, 60, 90]),
            requeue_per_mille: among(&[0, 5, 50, 300]),
            refuse_per_mille: among(&[0, 5, 50]),
            plug_percent: among(&[0, 20, 60]),
            flush_percent: among(&[0, 2, 10]),
            switches: among(&[0, 0, 1]) == 1,
            hardware_queues: u16::try_from(among(&[1, 1, 1, 2, 4])).unwrap_or(1),
        }
    }
}

impl StormState {
    pub(super) fn new(storm: &Storm) -> Result<Self, Broken> {
        let mut random = Stream::of(storm.seed, "storm");
        let (policy, version, limiters) = split(&storm.policy)?;
        let limiting = Limiting::draw(storm.seed, &limiters)?;
        let intensity = Intensity::draw(&mut random);
        let device = device(&mut random, intensity.hardware_queues)?;
        let info = device.info();
        let limits = limits(&mut random, info);
        let queues = u32::from(intensity.hardware_queues);
        let configuration = Configuration {
            slots: 64 + queues,
            groups: GROUPS,
            contexts: CONTEXTS,
            // Few tags, so that slots of the request table are reused soon.
            depth: Depth { requests: [4, 16, 64][below(&mut random, 3)], device: info.depth },
            hardware_queues: intensity.hardware_queues,
            software_queues: SOFTWARE_QUEUES,
            rotational: random.chance(1, 2),
            queueing: info.depth > 1,
            max_sectors: limits.max_sectors,
            capacity_sectors: CAPACITY_SECTORS,
            actuators: actuators(storm.seed),
            tick_ns: [0, 0, 4_000_000][below(&mut random, 3)],
            work_tick_ns: 0,
            batch_times: false,
            seed: storm.seed,
        };
        let era = if random.chance(1, 2) { Era::BLK_MQ } else { Era::ENGINE };
        let merging = [Merging::Full, Merging::Full, Merging::OneHit, Merging::Never][below(&mut random, 4)];
        let settings = Settings { configuration, limits, era, merging, bios: 192 };
        let mut queue = RequestQueue::build(policy, version, &settings)
            .map_err(|error| format!("policy '{policy}' cannot be built: {error:?}"))?;
        set_tunables(&mut queue, &storm.policy)?;
        // Drawn from the seed alone, so that the rest of a storm does not depend on it.
        queue.combine_calls(Stream::of(storm.seed, "storm/calls").chance(1, 2));
        queue.set_tracing(true);
        let starvation = starvation(policy, version, &configuration, &queue);
        let mut state = Self {
            policy: policy.to_owned(),
            intensity,
            random,
            queue,
            configuration,
            device,
            ledger: Ledger::new(limits, CONTEXTS),
            starvation,
            limiting,
            withdrawing: Withdrawing::draw(storm.seed),
            limits,
            plugs: std::array::from_fn(|_| Plug::default()),
            leaving: vec![false; CONTEXTS as usize],
            submissions: Submissions { last: Bio::new(Operation::Read, Extent::new(0, 8)), cookie: 0 },
            now: 0,
            step: 0,
            completions: Vec::new(),
            changes: VecDeque::with_capacity(SHOWN_CHANGES),
            attention: Attention::NEW,
            tally: Tally::new(hoistway_block::random::fnv1a64(b"")),
        };
        state.begin_limiting()?;
        Ok(state)
    }
}

/// Some storms run on a drive with two, four or too many actuators, as announced to the policy.
/// Drawn from the seed alone, so that the rest of a storm does not depend on it.
fn actuators(seed: u64) -> Actuators {
    let count = [1, 1, 1, 2, 1, 1, 4, 9][below(&mut Stream::of(seed, "storm/actuators"), 8)];
    let sectors = CAPACITY_SECTORS / count;
    let ranges: Vec<_> = (0..count).map(|arm| SectorRange { first_sector: arm * sectors, sectors }).collect();
    Actuators::of(&ranges)
}

fn limits(random: &mut Stream, info: &DeviceInfo) -> Limits {
    Limits {
        max_sectors: info.max_sectors,
        max_discard_sectors: 512,
        max_write_zeroes_sectors: 256,
        max_segments: [4, 16, 128][below(random, 3)],
        max_discard_segments: 1,
        chunk_sectors: [0, 0, 1_024][below(random, 3)],
        volatile_cache: info.volatile_cache,
        fua: info.fua,
    }
}

fn starvation(
    policy: &str,
    version: Option<Version>,
    configuration: &Configuration,
    queue: &RequestQueue,
) -> Starvation {
    let mut starvation = Starvation::new(Terms {
        version,
        tick_ns: configuration.tick_ns,
        software_queues: u64::from(configuration.software_queues),
        ..Terms::of(policy)
    });
    starvation.tuned(queue);
    starvation
}

/// Faults of a device, chosen independently.
const FAULTS: [&str; 6] = [
    ",error_ppm=5000",
    ",bad_first_sector=5000,bad_sectors=800",
    ",slow_first_sector=20000,slow_sectors=30000,slow_ms=2.5",
    ",stall_ppm=2000,stall_ms=20",
    ",hiccup_every_ms=9,hiccup_ms=4",
    ",reset_ppm=2000,reset_ms=40",
];

/// A small device, so that extents are often adjacent, with faults that depend on the seed.
fn device(random: &mut Stream, hardware_queues: u16) -> Result<AnyDevice, Broken> {
    let mut among = |choices: &[&'static str]| choices[below(random, choices.len())];
    let model = among(&["ssd,sim_mib=64", "ssd,channels=2,sim_mib=64", "null", "null,servers=1"]);
    let depth = among(&["1", "2", "8", "32"]);
    let max_sectors = among(&["128", "256", "2560"]);
    // An SSD's cache is volatile unless it has power-loss protection.
    let caches = ["volatile_cache=0", "volatile_cache=1,fua=0", "volatile_cache=1,fua=1"];
    let cache = if model.starts_with("null") { among(&caches) } else { among(&["plp=0", "plp=1"]) };
    let mut text = format!(
        "{model},capacity_sectors={CAPACITY_SECTORS},qd={depth},hw_queues={hardware_queues},max_sectors={max_sectors},{cache}"
    );
    // A third of the devices has no faults; the others have each fault with probability one half.
    if random.chance(2, 3) {
        for fault in FAULTS {
            if random.chance(1, 2) {
                text.push_str(fault);
            }
        }
    }
    let model = Model::parse(&text).map_err(|error| error.to_string())?;
    Ok(model.build(random.next(), "dev0"))
}

/// Sets the initial tunables of a policy: `tarasov:mapping=openvz`.
fn set_tunables(queue: &mut RequestQueue, text: &str) -> Result<(), Broken> {
    let policy = text.split('+').next().unwrap_or_default();
    for row in policy.split_once(':').into_iter().flat_map(|(_, rows)| rows.split(',')) {
        let (row, value) = row.split_once('=').ok_or_else(|| format!("'{row}' sets nothing"))?;
        queue.set(row, value).map_err(|error| format!("{row}={value}: {error:?}"))?;
    }
    Ok(())
}

/// Splits a specification into name, version and limiters: `mq-deadline@6.1+throttle`;
/// `tarasov:mapping=openvz` also has tunables.
fn split(text: &str) -> Result<(&str, Option<Version>, Vec<&str>), Broken> {
    let mut names = text.split('+');
    let policy = names.next().unwrap_or_default();
    let policy = policy.split_once(':').map_or(policy, |(policy, _)| policy);
    let (policy, version) = policy.split_once('@').map_or((policy, None), |(name, version)| (name, Some(version)));
    let version = match version.map(registry::parse_version) {
        Some(None) => return Err(format!("policy '{text}' has no version")),
        known => known.flatten(),
    };
    Ok((policy, version, names.collect()))
}
