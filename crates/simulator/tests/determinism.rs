//! The same seed gives the same bytes: in two runs, with one worker and two, in all builds and on
//! all machines.
//!
//! A run is identified by its completion log (a checksum of time, number and status of every
//! completion) and by its measurement as JSON, which contains no environment. The logs of the
//! pinned experiments are stored beside this file, one line per seed, so that a debug build, a
//! release build and any machine must reproduce them: `cargo test --release -p hoistway-simulator
//! --test determinism` is the second half of that proof.
//!
//! To pin another experiment: set `pinned: true` in its row, then run once with `HOISTWAY_BLESS=1`.
//! Bless only an intended change of simulated behaviour, and name it in the commit.

mod experiments;

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use experiments::{KIB, MS, buffered_stream, experiment, log_of, random_reads, run, run_with};
use hoistway_block::random::{Stream, fnv1a64};
use hoistway_experiment::Experiment;
use hoistway_simulator::HostCosts;
use hoistway_workload::Job;
use hoistway_workload::job::{BlockSize, Direction, Mix, PerDirection};

const SEEDS: usize = 100;

/// A small experiment, built separately for each seed.
struct Row {
    name: &'static str,
    /// Whether its logs are stored.
    pinned: bool,
    question: fn() -> Experiment,
}

const ROWS: &[Row] = &[
    Row { name: "null/noop", pinned: true, question: || on_null("noop") },
    Row { name: "null/mq-deadline", pinned: true, question: || on_null("mq-deadline") },
    Row { name: "null/wfq", pinned: true, question: || on_null("wfq") },
    Row {
        name: "ssd/none",
        pinned: true,
        question: || short("ssd", "none", 3 * MS, vec![("a", 100, mixed(16)), ("b", 100, random_reads(16))]),
    },
    Row {
        name: "nvme/wfq",
        pinned: true,
        question: || short("nvme", "wfq", MS, vec![("a", 100, random_reads(32)), ("b", 400, mixed(32))]),
    },
    Row {
        name: "sata/mq-deadline",
        pinned: true,
        question: || short("sata", "mq-deadline", 150 * MS, vec![("a", 100, mixed(16)), ("b", 100, random_reads(8))]),
    },
    Row {
        name: "raid5x12/deadline",
        pinned: true,
        question: || {
            let groups = vec![("a", 100, mixed(16)), ("b", 100, random_reads(8))];
            short("raid5x12", "deadline", 100 * MS, groups)
        },
    },
    Row {
        name: "buffered/mq-deadline",
        pinned: false,
        question: || {
            let writer = buffered_stream(Mix::Write).with(|job| job.submission.fsync_every = 8);
            let groups = vec![("r", 100, buffered_stream(Mix::Read)), ("w", 100, writer), ("d", 100, random_reads(4))];
            short("ssd", "mq-deadline", 3 * MS, groups)
        },
    },
    Row {
        name: "faulty/wfq",
        pinned: true,
        question: || {
            let faults = "error_ppm=20000,stall_ppm=5000,stall_ms=0.2,reset_ppm=3000,reset_ms=0.5,\
                          slow_sectors=100000000,slow_ms=0.1,hiccup_every_ms=0.7,hiccup_ms=0.2";
            let mut job = mixed(16);
            *job.checks.continue_on_error.of_mut(Direction::Read) = true;
            *job.checks.continue_on_error.of_mut(Direction::Write) = true;
            short(&format!("ssd-lsi,{faults}"), "wfq", 8 * MS, vec![("a", 100, job.clone()), ("b", 300, job)])
        },
    },
];

/// Reads and writes of several sizes at random places.
fn mixed(depth: u32) -> Job {
    random_reads(depth).with(|job| {
        job.shape.mix = Mix::ReadWrite { read_percent: 60 };
        job.shape.block_sizes = PerDirection::all(BlockSize::Range { min: 4 * KIB, max: 64 * KIB });
    })
}

fn short(target: &str, scheduler: &str, runtime_ns: u64, groups: Vec<(&str, u32, Job)>) -> Experiment {
    Experiment { runtime_ns, ramp_ns: runtime_ns / 10, ..experiment(target, scheduler, groups) }
}

/// A null device on which order and seed matter: four servers, a bandwidth cap, a jittered delay
/// behind them.
fn on_null(scheduler: &str) -> Experiment {
    let target = "null,latency_us=8,servers=4,mbps=900,read_delay_us=5,write_delay_us=2,delay_jitter_us=12";
    short(target, scheduler, 2 * MS, vec![("a", 100, mixed(16)), ("b", 300, mixed(16)), ("c", 200, random_reads(8))])
}

/// The completion log and the measurement of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Outcome {
    log: String,
    json: u64,
    ios: u64,
}

fn outcome(row: &Row, seed: u64) -> Outcome {
    let question = Experiment { seed, ..(row.question)() };
    // Pinned rows run without host costs, so that changes of the costs do not affect them.
    let measurement = if row.pinned { run_with(&question, HostCosts::NONE) } else { run(&question) };
    let json = serde_json::to_string(&measurement).unwrap();
    let ios = measurement.groups.iter().map(|group| group.ios()).sum();
    Outcome { log: log_of(&measurement).to_owned(), json: fnv1a64(json.as_bytes()), ios }
}

/// The outcomes of every row and seed, row after row, from `workers` workers.
fn outcomes(workers: usize) -> Vec<Outcome> {
    let tasks: Vec<_> = ROWS.iter().flat_map(|row| (1..=SEEDS as u64).map(move |seed| (row, seed))).collect();
    let (next, results) = (AtomicUsize::new(0), Mutex::new(vec![None; tasks.len()]));
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let place = next.fetch_add(1, Ordering::Relaxed);
                    let Some(&(row, seed)) = tasks.get(place) else { break };
                    let outcome = outcome(row, seed);
                    results.lock().unwrap()[place] = Some(outcome);
                }
            });
        }
    });
    results.into_inner().unwrap().into_iter().map(Option::unwrap).collect()
}

#[test]
fn core_1_a_hundred_seeds_give_the_same_bytes_with_one_worker_and_with_two() {
    let (one, two) = (outcomes(1), outcomes(2));
    for (row, (one, two)) in ROWS.iter().zip(one.chunks(SEEDS).zip(two.chunks(SEEDS))) {
        for (seed, (one, two)) in (1..).zip(one.iter().zip(two)) {
            assert_eq!(one, two, "{} with seed {seed}", row.name);
            assert!(one.ios > 10, "{} with seed {seed} did nothing", row.name);
        }
        let mut logs: Vec<_> = one.iter().map(|outcome| &outcome.log).collect();
        logs.sort_unstable();
        logs.dedup();
        assert_eq!(logs.len(), SEEDS, "{}: seeds that give the same log", row.name);
    }
    compare_with_stored(&one);
}

/// One line per seed: the seed, then the log of each pinned row.
fn compare_with_stored(outcomes: &[Outcome]) {
    let pinned: Vec<_> = ROWS.iter().zip(outcomes.chunks(SEEDS)).filter(|(row, _)| row.pinned).collect();
    let mut found = "seed".to_owned();
    pinned.iter().for_each(|(row, _)| write!(found, " {}", row.name).unwrap());
    for seed in 1..=SEEDS {
        write!(found, "\n{seed}").unwrap();
        pinned.iter().for_each(|(_, outcomes)| write!(found, " {}", outcomes[seed - 1].log).unwrap());
    }
    found.push('\n');
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/determinism.golden");
    #[allow(clippy::disallowed_methods, reason = "the environment decides about storing, not about a run")]
    if std::env::var("HOISTWAY_BLESS").is_ok_and(|value| value == "1") {
        std::fs::write(&path, found).unwrap();
        return;
    }
    let stored = std::fs::read_to_string(&path).unwrap_or_default();
    let changed: Vec<_> = stored.lines().zip(found.lines()).filter(|(stored, found)| stored != found).take(3).collect();
    assert!(
        stored == found,
        "these logs differ from {}: {changed:?}; if the change of behaviour is meant: HOISTWAY_BLESS=1",
        path.display()
    );
}

/// The first half compares with the same two algorithms written in Python from their authors' text.
#[test]
fn core_3_the_random_stream_is_xoshiro256_starstar_of_splitmix64_and_uniform() {
    let mut stream = Stream::new(1);
    let first = [(); 4].map(|()| stream.next());
    let golden = [0xb3f2_af6d_0fc7_10c5, 0x853b_5596_4736_4cea, 0x92f8_9756_082a_4514, 0x642e_1c7b_c266_a3a7];
    assert_eq!(first, golden);
    let mut bins = [0_u64; 10];
    for _ in 0..1_000_000 {
        bins[usize::try_from(stream.below(10)).unwrap()] += 1;
    }
    assert!(bins.iter().all(|&count| count.abs_diff(100_000) <= 1_200), "{bins:?}");
}

/// Case 5 over devices and depths, Little's law: I/Os per second x mean latency = I/Os in flight.
#[test]
fn core_5_littles_law_holds_for_every_device_and_depth() {
    let cases = [
        ("null", 1, 40),
        ("null", 64, 40),
        ("null,servers=3", 32, 100),
        ("null,read_delay_us=50,delay_jitter_us=40", 16, 100),
        ("ssd", 1, 400),
        ("ssd", 32, 400),
        ("nvme", 128, 100),
        ("sata", 1, 20_000),
        ("sata", 32, 60_000),
        ("ssd,slow_sectors=200000000,slow_ms=1,hiccup_every_ms=20,hiccup_ms=5", 32, 2_000),
    ];
    for (target, depth, runtime_ms) in cases {
        for scheduler in ["noop", "mq-deadline", "wfq"] {
            let mut question = experiment(target, scheduler, vec![("a", 100, random_reads(depth))]);
            question.runtime_ns = runtime_ms * MS;
            // No host costs: one CPU of 1.5 us per I/O would not keep 64 in flight on null.
            let measurement = run_with(&question, HostCosts::NONE);
            let latency_ns = measurement.groups[0].read.latency.mean_ns();
            let in_flight = measurement.ios_per_s() * latency_ns / 1e9;
            let error = (in_flight / f64::from(depth) - 1.0).abs();
            assert!(error < 0.005, "{target} {scheduler} depth {depth}: {in_flight}");
        }
    }
}

/// Case 1, last sentence: process B may change the timing of A, but not A's offsets.
#[test]
fn core_1_removing_a_process_leaves_the_offsets_of_the_other_alone() {
    let both = short("ssd", "noop", 20 * MS, vec![("a", 100, random_reads(1)), ("b", 100, mixed(8))]);
    let alone = both.clone().alone(0);
    let mut other = both.clone();
    other.seed = 2;
    let offsets = |question: &Experiment| {
        let issuer = question.issuers().find(|place| place.group == 0).unwrap();
        let mut issuer =
            hoistway_workload::Issuer::new(issuer.job, issuer.thread, 1 << 30, question.run_seed()).unwrap();
        let mut next = || match issuer.next(0) {
            hoistway_workload::Next::Issue(io) => {
                issuer.completed(io.token, true);
                io.offset_bytes
            }
            other => panic!("{other:?}"),
        };
        (0..1_000).map(|_| next()).collect::<Vec<_>>()
    };
    assert_eq!(offsets(&both), offsets(&alone));
    assert_ne!(offsets(&both), offsets(&other));
    // In the runs themselves: on a device without queueing A's completions are the same. (Not their
    // device times, which count from the previous completion of any process.)
    let free = |question: &Experiment| {
        let measurement = run(&Experiment { target: "model:null".to_owned(), ..question.clone() });
        let read = &measurement.groups[0].read;
        (read.ios, read.bytes, read.latency.mean_ns(), read.latency.max_ns())
    };
    assert_eq!(free(&both), free(&alone));
}
