//! Storms that must violate P7: a policy is checked against a promise that it does not give. They
//! prove that the check observes the queue under every policy, and that it can fail.

use super::*;
use crate::starvation::{Terms, passing_of};
use hoistway_elevator::{Passing, Version, registry};
use hoistway_queue::Handover;

/// The violation that a storm over `policy` reports when it is checked against other terms than its
/// own; from the first seed that has one.
fn broken(policy: &str, version: Option<Version>, claim: impl Fn(&mut Terms)) -> Option<String> {
    broken_in(0..40, policy, version, claim)
}

fn broken_in(
    mut seeds: std::ops::Range<u64>,
    policy: &str,
    version: Option<Version>,
    claim: impl Fn(&mut Terms),
) -> Option<String> {
    seeds.find_map(|seed| {
        let storm = Storm { policy: policy.to_owned(), seed, bios: 1_500 };
        let mut state = StormState::new(&storm).unwrap();
        // Changes of tunables and policies would restore the true terms.
        state.intensity.churn_per_mille = 0;
        if let Some(version) = version {
            let next = registry::build(policy, Some(version), &state.configuration).unwrap();
            state.starvation.will_switch(Some(version));
            assert!(state.queue.switch(next, Handover::Drain, 0).is_ok());
            state.starvation.observe(&mut state.queue).unwrap();
        }
        state.starvation.claim(&claim);
        state.run(storm.bios).err()
    })
}

fn assert_broken(policy: &str, version: Option<Version>, word: &str, claim: impl Fn(&mut Terms)) {
    let what = broken(policy, version, claim).unwrap_or_else(|| panic!("{policy}: P7 cannot be violated"));
    assert!(what.starts_with("P7") && what.contains(word), "{policy}: {what}");
}

/// Sets a tunable in the terms, not in the policy.
fn tighter(tunable: &'static str, value: i64) -> impl Fn(&mut Terms) {
    move |terms| assert!(terms.tunables.insert(tunable, value).is_some(), "{tunable}")
}

fn called(name: &'static str) -> impl Fn(&mut Terms) {
    move |terms| terms.passing = passing_of(name)
}

#[test]
fn the_bounds_of_the_lists_can_break() {
    assert_broken("mq-deadline", None, "passed over", called("noop"));
    assert_broken("linus", None, "passed over", called("none"));
    assert_broken("noop", Some(Version(2, 4, 20)), "passed over", |terms| terms.version = Some(Version(2, 6, 0)));
    assert_broken("linus", Some(Version(2, 4, 0)), "0 is allowed", tighter("read_latency", 0));
    assert_broken("linus", Some(Version(2, 4, 0)), "0 is allowed", tighter("write_latency", 0));
    assert_broken("linus", None, "0 is allowed", tighter("read_latency", 0));
    assert_broken("linus", None, "0 is allowed", tighter("write_latency", 0));
    assert_broken("read-latency2", None, "0 is allowed", tighter("write_latency", 0));
    assert_broken("nas", None, "passed over", tighter("expire_ms", 0));
}

#[test]
fn the_bounds_of_batches_can_break() {
    for (policy, version) in [
        ("deadline", None),
        ("mq-deadline", None),
        ("mq-deadline", Some(Version(6, 1, 0))),
        ("mq-deadline", Some(Version(6, 5, 0))),
    ] {
        assert_broken(policy, version, "passed over", tighter("fifo_batch", 1));
        assert_broken(policy, version, "Writes were passed over", tighter("writes_starved", 0));
    }
}

#[test]
fn the_bounds_of_batches_without_gaps_can_break() {
    // A seek ends a batch, so that batches in storms rarely reach their full length.
    let shortest = |terms: &mut Terms| terms.tunables.extend([("fifo_batch", 1), ("writes_starved", 0)]);
    assert_broken("deadline", Some(Version(2, 6, 0)), "passed over", shortest);
}

#[test]
fn the_bound_of_aging_can_break() {
    for version in [Version(6, 1, 0), Version(6, 5, 0)] {
        assert_broken("mq-deadline", Some(version), "older than", tighter("prio_aging_expire", 0));
    }
}

#[test]
fn the_bounds_of_anticipatory_can_break() {
    assert_broken("anticipatory", None, "the batch of sync ones", tighter("read_batch_expire", 0));
    assert_broken("anticipatory", None, "the batch of async ones", tighter("write_batch_expire", 0));
    assert_broken("anticipatory", None, "is held until", tighter("antic_expire", 0));
}

#[test]
fn the_bounds_of_kyber_can_break() {
    assert_broken("deadline", None, "flushed earlier", called("kyber"));
}

#[test]
fn the_bounds_of_shares_can_break() {
    assert_broken("noop", None, "waits and has had", called("wfq"));
    assert_broken("mq-deadline", None, "is the oldest of", called("wfq"));
    // Checked against shares of requests, although it keeps shares of bytes.
    assert_broken("wfq", None, "waits and has had", tighter("request_cost", 1_000_000));
}

#[test]
fn the_bounds_of_shares_in_flight_can_break() {
    // sfq does not wait for a tenant whose requests are all in flight.
    assert_broken("sfq", None, "waits and has had", called("mqfq"));
    assert_broken("mqfq", None, "waits and has had", tighter("request_cost", 1_000_000));
}

#[test]
fn the_ends_of_turns_can_break() {
    let shortest = |terms: &mut Terms| terms.tunables.extend([("slice_sync_us", 0), ("slice_async_us", 0)]);
    assert_broken("cfq", None, "and is not the first", shortest);
    assert_broken("cfq", Some(Version(2, 6, 36)), "and is not the first", |terms| {
        terms.tunables.extend([("slice_sync", 0), ("slice_async", 0)]);
    });
    assert_broken("bfq", None, "after its time", tighter("timeout_sync", 0));
}

#[test]
fn the_bound_of_age_can_break() {
    let Passing::Aged { completions, run, .. } = passing_of("paternoster") else { panic!("another promise") };
    let soon = |terms: &mut Terms| terms.passing = Passing::Aged { after_ns: 1_000_000, completions, run };
    assert_broken("paternoster", None, "is overdue", soon);
}

/// The same storms, checked against the true terms.
#[test]
fn nothing_breaks_by_itself() {
    for entry in registry::ENTRIES {
        assert_eq!(broken_in(0..2, entry.name, None, |_| ()), None, "{}", entry.name);
    }
    let old_forms = [
        ("mq-deadline", Version(6, 1, 0)),
        ("deadline", Version(2, 6, 0)),
        ("linus", Version(2, 4, 0)),
        ("noop", Version(2, 4, 20)),
    ];
    for (policy, version) in old_forms {
        assert_eq!(broken_in(0..2, policy, Some(version), |_| ()), None, "{policy}@{version:?}");
    }
}
