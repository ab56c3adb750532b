//! A million requests per policy, in storms of many kinds; every invariant after every step.

use hoistway_simulator::{Storm, StormReport};

/// Bios per seed, and seeds per policy: their product is over a million, as merging makes fewer requests of them.
const BIOS: u64 = 10_000;
const REQUESTS: u64 = 1_000_000;

fn storms(policy: &str) {
    let mut total = StormReport::default();
    for seed in 0.. {
        let report =
            Storm { policy: policy.to_owned(), seed, bios: BIOS }.run().unwrap_or_else(|failure| panic!("{failure}"));
        total.bios += report.bios;
        total.requests += report.requests;
        total.merged += report.merged;
        total.requeued += report.requeued;
        total.switches += report.switches;
        total.groups += report.groups;
        total.failed += report.failed;
        total.lost += report.lost;
        if total.requests - total.requeued >= REQUESTS {
            break;
        }
    }
    // The storms must have done what they are for.
    let StormReport { merged, requeued, switches, groups, failed, lost, .. } = total;
    assert!(merged > 10_000 && requeued > 10_000 && switches > 100 && groups > 1_000, "{total:?}");
    assert!(failed > 5_000 && lost > 1_000, "{total:?}");
}

#[test]
fn p1_to_p11_hold_for_noop_over_a_million_requests() {
    storms("noop");
}

#[test]
fn p1_to_p11_hold_for_none_over_a_million_requests() {
    storms("none");
}

#[test]
fn p1_to_p11_hold_for_mq_deadline_over_a_million_requests() {
    storms("mq-deadline");
}

#[test]
fn p1_to_p11_hold_for_wfq_over_a_million_requests() {
    storms("wfq");
}

/// Each policy of the registry needs its storm above.
#[test]
fn every_policy_has_its_storm() {
    let names: Vec<_> = elevator::registry::ENTRIES.iter().map(|entry| entry.name).collect();
    assert_eq!(names, ["noop", "wfq", "none", "mq-deadline"]);
}

#[test]
fn p5_a_storm_replays_bit_for_bit() {
    for seed in 0..20 {
        let storm = Storm { policy: "mq-deadline".to_owned(), seed, bios: 2_000 };
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
