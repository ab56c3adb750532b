//! Storms over each policy, and over each pair of policy and limiter, with a check of every
//! invariant after every step that can have changed something. Every third storm has limiters, with
//! limits that change all the time. A million requests for each policy and each pair, which take
//! about an hour of CPU time together: `HOISTWAY_STORM_REQUESTS=1000000 cargo test --release -p
//! hoistway-simulator --test storm`.

use hoistway_simulator::{Storm, StormReport};

const BIOS: u64 = 10_000;
const REQUESTS: u64 = 15_000;
/// Bios of a storm, and requests in all, for a pair of policy and limiter.
const BIOS_OF_A_PAIR: u64 = 1_500;
const REQUESTS_OF_A_PAIR: u64 = 4_000;

/// Storms of `bios` bios each: as many as are needed for `requests` requests and until `is_enough`,
/// but for no more than three times as many requests.
#[allow(clippy::disallowed_methods, reason = "the length of a storm is a setting of the test run, not of a simulation")]
fn storms_of(policy: &str, bios: u64, requests: u64, is_enough: impl Fn(&StormReport) -> bool) {
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
        total.withdrawn += report.withdrawn;
        total.held += report.held;
        total.limit_changes += report.limit_changes;
        total.passed_over += report.passed_over;
        let done = total.requests - total.requeued;
        if done >= wanted && (is_enough(&total) || done >= 3 * wanted) {
            break;
        }
    }
    assert!(is_enough(&total), "{policy}: the storms exercised too little: {total:?}");
}

/// The storms must have exercised what they are meant to. `passed_over`: how often the check of P7
/// counted that a request was passed by another. `lost` counts the commands that time out; its
/// limit is low, because a policy that keeps few requests in flight loses few.
fn storms(policy: &str) {
    storms_of(policy, BIOS, REQUESTS, |total| {
        let StormReport { merged, requeued, switches, groups, failed, lost, held, limit_changes, .. } = *total;
        total.withdrawn > 300
            && held > 150
            && limit_changes > 150
            && merged > 300
            && requeued > 300
            && switches > 10
            && groups > 100
            && failed > 150
            && lost > 30
            && total.passed_over > 300
    });
}

fn storms_in(form: &str) {
    storms_of(form, BIOS, REQUESTS_OF_A_PAIR, |total| {
        total.merged > 100 && total.requeued > 50 && total.groups > 10 && total.passed_over > 0
    });
}

/// Two tests for each policy: storms with its default version, and storms that begin with each of
/// its versions (besides those that switch to them).
macro_rules! tests {
    ($($name:literal $variant:ident,)+) => {
        #[allow(non_snake_case, reason = "named as in the registry")]
        mod p1_to_p11_hold_for {
            $(#[test] fn $variant() { super::storms($name); })+
        }

        #[allow(non_snake_case, reason = "named as in the registry")]
        mod p1_to_p11_hold_for_every_version_of {
            $(#[test] fn $variant() { super::in_every_version($name); })+
        }
    };
}

hoistway_elevator::for_each_policy!(tests);

fn in_every_version(policy: &str) {
    let entry =
        hoistway_elevator::registry::ENTRIES.iter().find(|entry| entry.name == policy).expect("it is registered");
    for hoistway_elevator::Version(major, minor, patch) in entry.versions {
        storms_in(&format!("{policy}@{major}.{minor}.{patch}"));
    }
}

/// OpenVZ's mapping, and groups switched off for writers or for all.
#[test]
fn p1_to_p11_hold_for_tarasov_with_other_tunables() {
    for form in ["tarasov:mapping=openvz", "tarasov@2.6.18:write_virt_mode=0", "tarasov:virt_mode=0"] {
        storms_in(form);
    }
}

fn storms_below(limiter: &str) {
    for entry in hoistway_elevator::registry::ENTRIES {
        let pair = format!("{}+{limiter}", entry.name);
        // The limiter must have held many bios.
        storms_of(&pair, BIOS_OF_A_PAIR, REQUESTS_OF_A_PAIR, |total| {
            total.held > total.bios / 50 && total.limit_changes > 100
        });
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
fn every_policy_holds_below_rate() {
    storms_below("rate");
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
    let names: Vec<_> = hoistway_elevator::limiters::LIMITERS.iter().map(|entry| entry.name).collect();
    assert_eq!(names, ["rate", "throttle", "io.cost", "io.latency", "wbt"]);
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
