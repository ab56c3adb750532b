//! Storms of many kinds over each policy; every invariant after every step. Every third storm has limiters in place, with
//! limits that change all the time. A million requests per policy, which take minutes each, are
//! `HOISTWAY_STORM_REQUESTS=1000000 cargo test --release -p hoistway-simulator --test storm`.
//!
//! Each pair of policy and limiter has storms of its own. Here they are short; a million for a pair is
//! `cargo run --release -p hoistway-simulator --example storm -- POLICY+LIMITER SEED BIOS`.

use hoistway_simulator::{Storm, StormReport};

/// Bios per seed; there are as many seeds as it takes to make so many requests of them.
const BIOS: u64 = 10_000;
const REQUESTS: u64 = 100_000;
/// The same for a pair of policy and limiter.
const BIOS_OF_A_PAIR: u64 = 1_500;
const SEEDS_OF_A_PAIR: u64 = 12;

fn run(policy: &str, seed: u64, bios: u64) -> StormReport {
    Storm { policy: policy.to_owned(), seed, bios }.run().unwrap_or_else(|failure| panic!("{failure}"))
}

fn storms(policy: &str) {
    let wanted = std::env::var("HOISTWAY_STORM_REQUESTS").ok().and_then(|text| text.parse().ok()).unwrap_or(REQUESTS);
    let mut total = StormReport::default();
    for seed in 0.. {
        let report = run(policy, seed, BIOS);
        total.bios += report.bios;
        total.requests += report.requests;
        total.merged += report.merged;
        total.requeued += report.requeued;
        total.switches += report.switches;
        total.groups += report.groups;
        total.failed += report.failed;
        total.lost += report.lost;
        total.held += report.held;
        total.limit_changes += report.limit_changes;
        if total.requests - total.requeued >= wanted {
            break;
        }
    }
    // The storms must have done what they are for.
    let StormReport { merged, requeued, switches, groups, failed, lost, held, limit_changes, .. } = total;
    assert!(held > 500 && limit_changes > 500, "{total:?}");
    assert!(merged > 1_000 && requeued > 1_000 && switches > 10 && groups > 100, "{total:?}");
    assert!(failed > 500 && lost > 100, "{total:?}");
}

#[test]
fn p1_to_p11_hold_for_noop() {
    storms("noop");
}

#[test]
fn p1_to_p11_hold_for_none() {
    storms("none");
}

#[test]
fn p1_to_p11_hold_for_mq_deadline() {
    storms("mq-deadline");
}

#[test]
fn p1_to_p11_hold_for_wfq() {
    storms("wfq");
}

#[test]
fn p1_to_p11_hold_for_linus() {
    storms("linus");
}

#[test]
fn p1_to_p11_hold_for_read_latency2() {
    storms("read-latency2");
}

#[test]
fn p1_to_p11_hold_for_nas() {
    storms("nas");
}

#[test]
fn p1_to_p11_hold_for_anticipatory() {
    storms("anticipatory");
}

#[test]
fn p1_to_p11_hold_for_deadline() {
    storms("deadline");
}

#[test]
fn p1_to_p11_hold_for_kyber() {
    storms("kyber");
}

/// Each policy of the registry needs its storm above.
#[test]
fn every_policy_has_its_storm() {
    let names: Vec<_> = elevator::registry::ENTRIES.iter().map(|entry| entry.name).collect();
    let first = ["noop", "wfq", "none", "mq-deadline"];
    let classic = ["linus", "read-latency2", "nas", "anticipatory", "deadline", "kyber"];
    assert_eq!(names, [&first[..], &classic[..]].concat());
}

#[test]
fn every_policy_holds_below_every_limiter() {
    for limiter in elevator::limiters::LIMITERS {
        for entry in elevator::registry::ENTRIES {
            let pair = format!("{}+{}", entry.name, limiter.name);
            let reports: Vec<_> = (0..SEEDS_OF_A_PAIR).map(|seed| run(&pair, seed, BIOS_OF_A_PAIR)).collect();
            let held: u64 = reports.iter().map(|report| report.held).sum();
            let changes: u64 = reports.iter().map(|report| report.limit_changes).sum();
            assert!(held > 1_000 && changes > 100, "{pair}: {held} held, {changes} changes");
        }
    }
}

#[test]
fn p5_a_storm_replays_bit_for_bit() {
    for seed in 0..20 {
        let storm = Storm { policy: "mq-deadline".to_owned(), seed, bios: 2_000 };
        assert_eq!(storm.run().unwrap(), storm.run().unwrap());
        let storm = Storm { policy: "kyber+throttle".to_owned(), ..storm };
        assert_eq!(storm.run().unwrap(), storm.run().unwrap());
    }
}

#[test]
fn an_unknown_policy_is_a_failure_with_its_name() {
    let failure = Storm { policy: "cqf".to_owned(), seed: 1, bios: 1 }.run().unwrap_err().to_string();
    assert!(
        failure.contains("policy 'cqf' cannot be built") && failure.contains("--example storm -- cqf 1 1"),
        "{failure}"
    );
}
