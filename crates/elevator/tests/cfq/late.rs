//! The changes after 2.6.36 (docs/specifications/cfq.md, section 13), rule by rule, each compared
//! with the older form. A tree (CFQ's service tree) holds the queues of a group that have the same
//! class and type; the types are sync queues that CFQ idles for, sync queues that it does not idle
//! for one by one, and async queues.

use crate::host::{Host, MS};
use hoistway_block::GroupId;
use hoistway_elevator::{Elevator, GroupSettings};

const OLD: &str = "cfq@2.6.36";
const LATE: &str = "cfq@4.20";

fn many(host: &mut Host, letter: char, context: u64, count: u64) {
    for n in 0..count {
        host.submit(&format!("{letter}{}@{context}", (context << 26) + n * 8));
    }
}

/// An issuer that thinks for 50 ms. That is longer than `slice_idle`, so CFQ does not idle for its
/// queue.
fn thinker(spec: &str) -> Host {
    let mut host = Host::new(spec);
    // CFQ then moves the queue to the tree of queues that it does not idle for one by one, and
    // measures that tree's think time as well. The twelve requests are enough for both
    // measurements.
    for n in 0..12 {
        host.submit(&format!("R{}@1", n * 8));
        host.dispatch();
        host.complete_nth(0);
        host.pass_ms(50);
    }
    host
}

#[test]
fn d1_requests_that_announce_no_other_keep_no_tree_waiting_in_2_6_36() {
    let waits = |spec: &str, request: &str| {
        let mut host = thinker(spec);
        host.submit(request);
        host.dispatch();
        // Issuer 2's queue is busy, in another tree.
        many(&mut host, 'R', 2, 4);
        host.trace();
        host.complete_nth(0);
        host.lines_with("arm_idle").len()
    };
    assert_eq!((waits(OLD, "W800sync@1"), waits(OLD, "R800@1")), (0, 1));
    assert_eq!((waits("cfq@2.6.37", "W800sync@1"), waits("cfq@2.6.37", "R800@1")), (1, 1), "always tried");
}

#[test]
fn d2_a_queue_whose_next_request_announces_no_other_is_not_waited_for() {
    for (spec, expected) in [("cfq@2.6.35", 0), (OLD, 0), ("cfq@2.6.37", 1), ("cfq@3.0", 1), (LATE, 1)] {
        let mut host = Host::new(spec);
        host.trace();
        host.submit("W0sync@1");
        assert_eq!(host.lines_with("idle=0").len(), expected, "{spec}");
    }
}

#[test]
fn d10_time_before_the_slice_is_unaccounted() {
    for (spec, unaccounted_ms) in [(OLD, 0), (LATE, 5)] {
        let mut host = Host::new(spec);
        host.group(1, 500);
        host.given("R0@1g1");
        host.dispatch();
        host.pass_ms(5);
        host.complete_nth(0);
        host.pass_ms(3);
        host.exit(1);
        let account = host.account(1);
        assert_eq!((account.time_ns, account.unaccounted_ns), (3 * MS, unaccounted_ms * MS), "{spec}");
    }
}

#[test]
fn d13_a_tree_that_thinks_too_long_is_not_waited_for() {
    for (spec, expected) in [(OLD, 1), (LATE, 0)] {
        let mut host = thinker(spec);
        host.submit("R800@1");
        host.dispatch();
        host.trace();
        host.complete_nth(0);
        assert_eq!(host.lines_with("arm_idle").len(), expected, "{spec}");
    }
}

#[test]
fn d17_a_slice_that_never_began_is_left_over_as_a_whole() {
    for (spec, expected) in [(OLD, None), (LATE, Some("1S resid=100000000"))] {
        let mut host = Host::new(spec);
        host.given("R0@1 R8@1");
        host.dispatch();
        host.trace();
        host.given("R9000000@2rt");
        assert_eq!(host.lines_with("resid=").first().map(String::as_str), expected, "{spec}");
    }
}

#[test]
fn d20_a_device_faster_than_a_deep_seeker_is_not_idled_for_it() {
    for (spec, expected) in [(OLD, None), (LATE, Some("R134217728@2"))] {
        let mut host = Host::new(&format!("{spec}:quantum=32"));
        for n in 0..7 {
            host.submit(&format!("R{}@1", n * 1_000_000));
        }
        many(&mut host, 'R', 2, 4);
        let went: Vec<_> = (0..7).filter_map(|_| host.dispatch()).collect();
        assert!(went.len() == 7 && went.iter().all(|text| text.ends_with("@1")), "{spec}: {went:?}");
        assert_eq!(host.dispatch().as_deref(), expected, "{spec}");
    }
}

#[test]
fn d21_the_only_sync_queue_has_no_limit_beside_async_ones() {
    for (spec, expected) in [(OLD, 4), (LATE, 20)] {
        let mut host = Host::new(spec);
        many(&mut host, 'R', 1, 20);
        many(&mut host, 'W', 2, 4);
        assert_eq!(host.dispatched(), expected, "{spec}");
    }
}

#[test]
fn d22_an_overdue_request_goes_whatever_the_limits_say() {
    let beside_a_read = |spec: &str, asked_early: bool| {
        let mut host = Host::new(spec);
        host.given("R0@1");
        host.dispatch();
        host.exit(1);
        host.given("W9000000@2");
        if asked_early {
            host.pass_ms(10);
            assert_eq!(host.dispatch(), None, "sync in the device");
        }
        host.pass_ms(251);
        host.dispatch().is_some()
    };
    assert_eq!((beside_a_read(OLD, false), beside_a_read(LATE, false)), (false, true));
    assert!(!beside_a_read(LATE, true), "a refusal uses the look at the fifo up");
}

#[test]
fn d33_an_ancestors_queue_may_take_the_device_from_a_descendants() {
    let preempts = |active: &str, newcomer: &str| {
        let mut host = Host::new(LATE);
        host.group(1, 500);
        let below = GroupSettings { parent: GroupId(1), ..GroupSettings::with_weight(500) };
        host.policy.group_added(GroupId(2), &below, host.now);
        host.group(3, 500);
        host.given(active);
        assert!(host.dispatch().is_some());
        host.trace();
        host.submit(newcomer);
        let preempted = !host.lines_with(" preempt").is_empty();
        host.rest();
        preempted
    };
    assert!(preempts("R0@1g2 R8@1g2", "R9000000@2rtg1"), "the parent's");
    assert!(preempts("R0@1g2 R8@1g2", "R9000000@2rt"), "the root's");
    assert!(!preempts("R0@1g1 R8@1g1", "R9000000@2rtg2"), "a child's does not");
    assert!(!preempts("R0@1g2 R8@1g2", "R9000000@2rtg3"), "an uncle's neither");
}

#[test]
fn hierarchy_shares_follow_the_tree() {
    use crate::model::{Model, assert_shares, reader, servers};
    // Groups 1 and 2 are children of the root, 3 and 4 of group 2. The readers are in 1, 3 and 4;
    // group 2 has none.
    let mut host = Host::new(LATE);
    host.group(1, 100);
    host.group(2, 300);
    for (group, weight) in [(3, 100), (4, 200)] {
        let below = GroupSettings { parent: GroupId(2), ..GroupSettings::with_weight(weight) };
        host.policy.group_added(GroupId(group), &below, host.now);
    }
    let mut host = host.unchecked();
    let readers = [reader(0, 1), reader(1, 3), reader(2, 4)];
    let mut model = Model::new(&mut host, &readers, servers(1, MS));
    model.run(5_000 * MS);
    let outcome = model.run(60_000 * MS);
    assert_shares(&outcome.shares(), &[25.0, 25.0, 50.0]);
}
