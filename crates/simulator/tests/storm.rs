//! Storms over each policy, and over each pair of policy and limiter, with a check of every
//! invariant after every step that can have changed something. Every third storm has limiters, with
//! limits that change all the time. A million requests for each policy and each pair, which take
//! about an hour of CPU time together: `HOISTWAY_STORM_REQUESTS=1000000 cargo test --release -p
//! hoistway-simulator --test storm`.

use hoistway_simulator::{Storm, StormReport};

const BIOS: u64 = 10_000;
const REQUESTS: u64 = 100_000;
/// The same for a pair of policy and limiter.
const BIOS_OF_A_PAIR: u64 = 1_500;
const REQUESTS_OF_A_PAIR: u64 = 10_000;

/// Storms of `bios` bios each, as many as are needed for `requests` requests.
#[allow(clippy::disallowed_methods, reason = "how much is stormed is asked of whoever runs the tests, not of a run")]
fn storms_of(policy: &str, bios: u64, requests: u64) -> StormReport {
    let wanted = std::env::var("HOISTWAY_STORM_REQUESTS").ok().and_then(|text| text.parse().ok()).unwrap_or(requests);
    let mut total = StormReport::default();
    for seed in 0.. {
        let storm = Storm { policy: policy.to_owned(), seed, bios };
        let report = storm.run().unwrap_or_else(|failure| panic!("{failure}"));
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
        total.passed_over += report.passed_over;
        if total.requests - total.requeued >= wanted {
            break;
        }
    }
    total
}

fn storms(policy: &str) {
    storms_over(policy, REQUESTS);
}

fn storms_over(policy: &str, requests: u64) {
    let total = storms_of(policy, BIOS, requests);
    // The storms must have exercised what they are meant to.
    let StormReport { merged, requeued, switches, groups, failed, lost, held, limit_changes, .. } = total;
    assert!(held > 500 && limit_changes > 500, "{total:?}");
    assert!(merged > 1_000 && requeued > 1_000 && switches > 10 && groups > 100, "{total:?}");
    assert!(failed > 500 && lost > 100, "{total:?}");
    // How often P7 counted a pass against a bound.
    assert!(total.passed_over > 1_000, "{total:?}");
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
fn p1_to_p11_hold_for_cfq() {
    storms("cfq");
}

#[test]
fn p1_to_p11_hold_for_bfq() {
    storms("bfq");
}

/// Versions whose rule or bound differs from that of the default version.
const OLD_FORMS: [&str; 7] = [
    "noop@2.4.20",
    "linus@2.4.0",
    "linus@2.4.21",
    "linus@2.5.38",
    "deadline@2.6.0",
    "mq-deadline@6.1",
    "mq-deadline@6.5",
];

#[test]
fn p1_to_p11_hold_for_the_old_forms_of_the_classic_policies() {
    for form in OLD_FORMS {
        let total = storms_of(form, BIOS, REQUESTS_OF_A_PAIR);
        assert!(total.merged > 100 && total.requeued > 50 && total.groups > 10, "{form}: {total:?}");
        assert!(total.passed_over > 0, "{form}: {total:?}");
    }
}

/// Some storms begin with each version, besides those that switch to it.
#[test]
fn p1_to_p11_hold_for_cfq_in_every_form() {
    in_every_form("cfq");
}

#[test]
fn p1_to_p11_hold_for_bfq_in_every_form() {
    in_every_form("bfq");
}

fn in_every_form(policy: &str) {
    let entry = elevator::registry::ENTRIES.iter().find(|entry| entry.name == policy).expect("it is registered");
    for elevator::Version(major, minor, patch) in entry.versions {
        let form = format!("{policy}@{major}.{minor}.{patch}");
        let total = storms_of(&form, BIOS, REQUESTS_OF_A_PAIR);
        assert!(total.merged > 100 && total.requeued > 50 && total.groups > 10, "{form}: {total:?}");
    }
}

#[test]
fn p1_to_p11_hold_for_uchida() {
    storms("uchida");
}

#[test]
fn p1_to_p11_hold_for_tarasov() {
    storms("tarasov");
}

/// Some storms begin with the versions that use virtual time, with OpenVZ's mapping, and with
/// groups switched off for writers.
#[test]
fn p1_to_p11_hold_for_tarasov_in_every_form() {
    for form in ["tarasov@2.6.18", "tarasov:mapping=openvz", "tarasov@2.6.18:write_virt_mode=0", "tarasov:virt_mode=0"]
    {
        let total = storms_of(form, BIOS, REQUESTS_OF_A_PAIR);
        assert!(total.merged > 100 && total.requeued > 50 && total.groups > 10, "{form}: {total:?}");
    }
}

#[test]
fn p1_to_p11_hold_for_paternoster() {
    storms("paternoster");
}

#[test]
fn p1_to_p11_hold_for_sfq() {
    storms("sfq");
}

#[test]
fn p1_to_p11_hold_for_sfq_d2() {
    // It keeps few requests in flight, so that few are lost.
    storms_over("sfq-d2", 2 * REQUESTS);
}

#[test]
fn p1_to_p11_hold_for_mqfq() {
    storms("mqfq");
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
    let classic = [
        "linus",
        "read-latency2",
        "nas",
        "anticipatory",
        "deadline",
        "cfq",
        "uchida",
        "tarasov",
        "bfq",
        "paternoster",
        "sfq",
        "sfq-d2",
        "mqfq",
        "kyber",
    ];
    assert_eq!(names, [&first[..], &classic[..]].concat());
}

fn storms_below(limiter: &str) {
    for entry in elevator::registry::ENTRIES {
        let pair = format!("{}+{limiter}", entry.name);
        let total = storms_of(&pair, BIOS_OF_A_PAIR, REQUESTS_OF_A_PAIR);
        // The limiter must have held many bios.
        assert!(total.held > total.bios / 50 && total.limit_changes > 100, "{pair}: {total:?}");
    }
}

#[test]
fn every_policy_holds_below_throttle() {
    storms_below("throttle");
}

#[test]
fn every_policy_holds_below_io_cost() {
    storms_below("io.cost");
}

#[test]
fn every_policy_holds_below_io_latency() {
    storms_below("io.latency");
}

#[test]
fn every_policy_holds_below_wbt() {
    storms_below("wbt");
}

/// Each limiter needs its storms above.
#[test]
fn every_limiter_has_its_storms() {
    let names: Vec<_> = elevator::limiters::LIMITERS.iter().map(|entry| entry.name).collect();
    assert_eq!(names, ["throttle", "io.cost", "io.latency", "wbt"]);
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
