//! The cross-policy properties of docs/specifications/classic-elevators.md, section 12, for every
//! policy in every form.
//!
//! The testbed's `drive`, which makes a list of random calls, checks after each call that no
//! request is lost or duplicated (P1), that requests cover exactly their bios (P2), that only
//! compatible bios share a request (P3) within the limits (P4), and at the end that everything
//! completes (P6). `HOISTWAY_SEED` replays one seed.

use hoistway_block::random::Stream;
use hoistway_block::{HardwareQueue, Status};
use hoistway_elevator::{Configuration, Depth, Elevator, Hint, Position, Requests, registry};
use hoistway_testbed::notation::bio;
use hoistway_testbed::queue::{Era, Handover, Next, Settings};
use hoistway_testbed::{Calls, Testbed};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Runs a case with every seed, or with that of `HOISTWAY_SEED`; names a failing seed.
fn with_seeds(seeds: u64, case: impl Fn(u64)) {
    let given = std::env::var("HOISTWAY_SEED").ok().and_then(|text| text.parse().ok());
    let seeds = given.map_or_else(|| (0..seeds).collect(), |seed: u64| vec![seed]);
    for seed in seeds {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| case(seed))) {
            eprintln!("failed with HOISTWAY_SEED={seed}");
            resume_unwind(panic);
        }
    }
}

/// Few slots, so that they are reused soon. `queues` is the number of hardware queues; with
/// several, policies that keep requests of different hardware queues apart have to do so.
fn surroundings(queues: u16, requests: u32, device: u32, era: Era) -> Settings {
    let configuration = Configuration {
        slots: requests + u32::from(queues),
        groups: 8,
        contexts: 8,
        depth: Depth { requests, device },
        hardware_queues: queues,
        software_queues: queues * 2,
        // A device of small depth is a disk, so that policies that idle do so.
        rotational: device < 32,
        ..Configuration::default()
    };
    Settings { configuration, era, bios: 512, ..Settings::default() }
}

#[test]
fn p1_to_p4_and_p6_hold_for_any_calls() {
    with_seeds(12, |seed| {
        for policy in Testbed::policies() {
            for (queues, device, era) in [(1, 1, Era::BLK_MQ), (1, 32, Era::ENGINE), (2, 4, Era::BLK_MQ)] {
                let mut testbed = Testbed::with(&policy, &surroundings(queues, 64, device, era));
                testbed.drive(&Calls::random(seed, 300).without_switches());
                assert_eq!(testbed.queue().bios_in_flight(), 0, "{policy}");
            }
        }
    });
}

/// Limiters in front of the policy do not change these properties.
#[test]
fn p1_to_p6_hold_for_any_calls_below_limiters() {
    with_seeds(4, |seed| {
        for policy in Testbed::policies() {
            let era = if seed % 2 == 0 { Era::BLK_MQ } else { Era::ENGINE };
            let run = || {
                let mut testbed = Testbed::with(&policy, &surroundings(1, 64, 8, era)).with_limiters();
                testbed.drive(&Calls::random(seed, 400));
                assert_eq!(testbed.queue().bios_in_flight(), 0, "{policy}");
                format!("{:?}", testbed.started())
            };
            assert_eq!(run(), run(), "{policy}");
        }
    });
}

#[test]
fn p5_the_same_calls_bring_the_same_order() {
    with_seeds(4, |seed| {
        for policy in Testbed::policies() {
            let run = || {
                let mut testbed = Testbed::with(&policy, &surroundings(2, 64, 4, Era::BLK_MQ));
                testbed.drive(&Calls::random(seed, 300));
                format!("{:?}", testbed.started())
            };
            assert_eq!(run(), run(), "{policy}");
        }
    });
}

#[test]
fn p8_a_forced_drain_empties_the_policy_in_one_call_per_request() {
    for entry in registry::ENTRIES {
        for version in entry.versions {
            let configuration = Configuration { software_queues: 4, ..Configuration::default() };
            let mut policy = registry::build(entry.name, Some(*version), &configuration).expect("registered");
            let mut requests = Requests::try_new(configuration.slots).expect("memory");
            let mut random = Stream::new(8);
            for n in 0..64_u16 {
                let direction = if random.chance(1, 2) { 'R' } else { 'W' };
                let class = ["", "rt", "idle"][usize::from(n) % 3];
                let text = format!("{direction}{}{class}@{}q{}", random.below(1 << 20) * 16, n % 5, n % 4);
                let id = requests.allocate(bio(&text), 0).expect("a free slot");
                policy.allocated(&requests, id, 0);
                let _ = policy.insert(&requests, id, Position::Sorted(Hint::None), 0);
            }
            let mut drained: Vec<_> = (0..64).filter_map(|_| policy.drain(&requests, 0)).collect();
            assert_eq!(policy.drain(&requests, 0), None, "{}", entry.name);
            assert!(!policy.has_work(HardwareQueue(0)), "{}", entry.name);
            drained.sort_unstable();
            drained.dedup();
            assert_eq!(drained.len(), 64, "{}: each request once", entry.name);
        }
    }
}

#[test]
fn p9_requeues_change_no_balance() {
    with_seeds(3, |seed| {
        for policy in Testbed::policies() {
            let mut random = Stream::of(seed, "requeues");
            let mut testbed = Testbed::with(&policy, &surroundings(1, 64, 8, Era::BLK_MQ));
            let mut requeues = 0;
            for turn in 0_u64.. {
                if requeues == 1000 {
                    break;
                }
                assert!(turn < 100_000, "{policy}: {requeues} requeues only");
                let class = ["", "rt", "idle"][usize::try_from(random.below(3)).expect("small")];
                let letter = if random.chance(1, 2) { 'R' } else { 'W' };
                let transfer = bio(&format!("{letter}{}{class}", random.below(1 << 16) * 8));
                if testbed.queue().room_for_bios() > 0 {
                    testbed.submit(&transfer);
                }
                if !matches!(testbed.dispatch(), Next::Start { .. }) {
                    testbed.pass(1_000_000);
                }
                let held = testbed.queue().in_device();
                if held > 0 {
                    let which = usize::try_from(random.below(u64::from(held))).expect("small");
                    if random.chance(2, 3) {
                        testbed.requeue(which);
                        requeues += 1;
                    } else {
                        testbed.complete(which, Status::Ok);
                    }
                }
            }
            testbed.rest();
            assert_eq!((testbed.queue().bios_in_flight(), testbed.queue().check()), (0, Ok(())), "{policy}");
        }
    });
}

#[test]
fn p10_switching_under_load_loses_nothing() {
    let policies = Testbed::policies();
    for from in &policies {
        for to in &policies {
            for handover in [Handover::Drain, Handover::Carry] {
                let mut testbed = Testbed::with(from, &surroundings(1, 128, 8, Era::BLK_MQ));
                let mut random = Stream::new(10);
                for n in 0..64 {
                    let letter = if random.chance(1, 2) { 'R' } else { 'W' };
                    testbed.when(&format!("{letter}{}@{}", random.below(1 << 20) * 16, n % 4));
                }
                testbed.when("d d d d");
                testbed.switch(to, handover);
                testbed.when("R1 W17 rest");
                assert_eq!(testbed.started().len(), 66, "{from} to {to}, {handover:?}");
                let (name, _) = to.split_once('@').expect("with a version");
                assert_eq!(testbed.queue().elevator().name(), name);
            }
        }
    }
}

#[test]
fn p11_everything_is_consistent_after_each_of_5_000_calls() {
    with_seeds(1, |seed| {
        for policy in Testbed::policies() {
            let mut testbed = Testbed::with(&policy, &surroundings(1, 63, 8, Era::BLK_MQ));
            testbed.drive(&Calls::random(seed, 5_000).without_switches());
            assert_eq!(testbed.queue().bios_in_flight(), 0, "{policy}");
        }
    });
}
