//! The quirks of docs/specifications/cfq.md, section 18, that have no case of their own: which of
//! them are reproduced and which are fixed. Q1, Q6 and Q16 are tested in the modules of `src/cfq`;
//! Q4 is case 39, Q5 is 43, Q11 is 40, Q15 is 42, Q21 is 41, Q22 is 48.

use crate::host::{Built, DISK, Host, MS};
use crate::model::{reader, run, servers};
use hoistway_block::{Class, Priority};
use hoistway_elevator::Elevator;

#[test]
fn q2_an_unknown_depth_counts_as_deep() {
    let mut host = Host::new("cfq@2.6.36:slice_idle=0");
    host.trace();
    host.given("R0@1");
    host.rest();
    host.exit(1);
    host.pass_ms(20);
    assert!(host.lines_with("sl_used").iter().all(|line| line.contains("iops=1")));
}

/// A host with two writers and a reader that preempts them. CFQ calls the queues of one class and
/// type that it serves together a workload; here the workload of the writers' async queues has most
/// of its slice left.
fn reader_beside_writers(version: &str) -> Host {
    let mut host = Host::new(&format!("cfq@{version}:low_latency=0"));
    for n in 0..20 {
        host.submit(&format!("W{}@1", n * 1_000));
        host.submit(&format!("W{}@2be5", 900_000 + n * 1_000));
    }
    assert!(host.dispatched() > 0);
    host.pass_ms(1);
    host.trace();
    host.given("R90000000@3");
    assert_eq!(host.lines_with(" preempt").len(), 1);
    host
}

#[test]
fn q3_a_preempted_workload_gives_way_at_once() {
    for version in ["2.6.35", "2.6.36", "2.6.37", "3.0", "4.20"] {
        let mut host = reader_beside_writers(version);
        // Kernels before 4.20 would continue with the rest of the writers' workload.
        assert_eq!(host.dispatch(), None, "{version}: async requests in the device");
        while host.in_device.len() > 1 {
            host.complete_nth(0);
        }
        host.complete_nth(0);
        assert_eq!(host.dispatch().as_deref(), Some("R90000000@3"), "{version}");
    }
}

#[test]
fn q7_iops_mode_isolates_groups_by_default() {
    let bare = Built { isolates: false, ..DISK };
    let isolation = |spec: &str| Host::with(spec, &bare).setting("group_isolation");
    assert_eq!((isolation("cfq@2.6.36"), isolation("cfq@2.6.36:slice_idle=0")), (Some(0), Some(1)));
    assert_eq!(isolation("cfq@2.6.36:slice_idle=0,group_isolation=0"), Some(0));
    assert_eq!((isolation("cfq@2.6.38"), isolation("cfq@3.0")), (None, None), "there it always is");
}

#[test]
fn q7_queues_go_home_when_isolation_comes() {
    for turn_on in ["group_isolation", "slice_idle"] {
        let mut host = Host::with("cfq@2.6.36", &Built { isolates: false, ..DISK });
        host.group(1, 500);
        host.trace();
        for n in 1..20_u64 {
            host.submit(&format!("R{}@1g1", n * 1_000_000));
            host.rest();
        }
        assert!(!host.lines_with("moving to root group").is_empty());
        let before = host.account(1).serviced.reads;
        host.set(turn_on, i64::from(turn_on == "group_isolation"));
        for n in 1..20_u64 {
            host.submit(&format!("R{}@1g1", n * 1_000_000));
            host.rest();
            host.pass_ms(20);
        }
        assert_eq!(host.lines_with("moved to origin group").len(), 1, "{turn_on}");
        assert!(host.account(1).serviced.reads >= before + 18, "{turn_on}");
    }
}

#[test]
fn q8_the_timer_ends_with_the_request_that_was_waited_for() {
    for version in ["2.6.36", "4.20"] {
        let mut host = Host::new(&format!("cfq@{version}"));
        host.given("R0@1");
        host.dispatch();
        host.complete_nth(0);
        assert!(host.policy.next_timer().is_some(), "{version}");
        host.given("R8@1");
        assert_eq!(host.policy.next_timer(), None, "{version}: a page, and no other issuer exists");
        assert_eq!(host.dispatch().as_deref(), Some("R8@1"), "{version}");
        // The idle timer must not fire while the request is in flight.
        host.trace();
        host.pass_ms(50);
        assert!(host.lines_with("idle timer fired").is_empty(), "{version}");
    }
}

#[test]
fn q9_the_next_request_is_chosen_by_distance_from_the_start_of_the_last() {
    let order = |first: &str, requests: &str| {
        let mut host = Host::new("cfq@2.6.36");
        host.given(first);
        host.dispatch();
        host.given(requests);
        host.dispatch_all()
    };
    // From 1000, one request is 50 behind (counted twice: 100) and one 300 ahead; from 1400, its
    // end, 1300 would be nearer.
    assert_eq!(order("R992@1", "R1000@1+400 R1300@1 R950@1"), "R1000@1+400 R950@1 R1300@1");
    // From 1000, one request is 150 behind (counted twice: 300) and one 290 ahead; from 900, the
    // head's position, 850 would be nearer.
    assert_eq!(order("R892@1", "R1000@1 R1290@1 R850@1"), "R1000@1 R1290@1 R850@1");
}

#[test]
fn q12_an_idle_queue_is_idle_within_its_group_only() {
    let mut host = Host::new("cfq@2.6.36:slice_idle=0");
    host.teach_depth(true);
    host.group(1, 500);
    host.group(2, 500);
    let mut host = host.unchecked();
    let idle = reader(0, 1).qd(4).priority(Priority::new(Class::Idle, 7));
    let shares = run(&mut host, &[idle, reader(1, 2).qd(4)], servers(1, MS), 10_000 * MS).shares();
    assert!(shares[0] > 40.0, "beside another group it has what its group's weight brings: {shares:?}");
}

#[test]
fn q17_the_timer_asks_for_the_trees_think_time_and_the_choice_for_the_groups() {
    let mut host = Host::new("cfq@4.20:slice_idle=0");
    host.teach_depth(true);
    host.group(1, 500);
    host.group(2, 500);
    host.trace();
    // A group with a think time of 50 ms. With slice_idle 0 the trees' think times are all 0.
    for n in 0..6 {
        host.submit(&format!("R{}@1g1", n * 8));
        host.dispatch();
        host.complete_nth(0);
        assert_eq!(host.lines_with("arm_idle").len(), 1, "the timer is armed although the group thinks for too long");
        host.pass_ms(50);
    }
    host.given("R80@1g1 R90000000@2g2");
    // While the request of group 1 is in flight, CFQ does not wait for the group's next one,
    // because the group's think time is too long; so group 2 is served.
    assert_eq!(host.dispatch_all(), "R80@1g1 R90000000@2g2");
}

#[test]
fn q18_the_account_of_a_removed_group_can_be_read_until_its_id_is_used_again() {
    // The policy keeps the accounts of groups separate. A host that shows sums over subtrees adds
    // the account of a removed group to its parent's.
    let mut host = Host::new("cfq@4.20");
    host.group(1, 500);
    host.given("R0@1g1");
    host.rest();
    host.exit(1);
    host.pass_ms(20);
    host.policy.group_offline(hoistway_block::GroupId(1), host.now);
    host.policy.group_removed(hoistway_block::GroupId(1), host.now);
    assert!(host.account(1).time_ns > 0);
}

#[test]
fn q19_writes_are_the_roots_before_4_20() {
    for (version, own) in [("2.6.36", 0), ("3.0", 0), ("4.20", 2)] {
        let mut host = Host::new(&format!("cfq@{version}"));
        host.group(1, 500);
        host.given("W0@1g1 W8@1g1");
        host.rest();
        let counted = [0, 1].map(|group| host.account(group).serviced.writes);
        assert_eq!(counted, [2 - own, own], "{version}");
    }
}

#[test]
fn q20_a_request_is_a_request_whatever_its_size() {
    let charge = |text: &str| {
        let mut host = Host::new("cfq@2.6.36:slice_idle=0");
        host.teach_depth(true);
        host.trace();
        host.submit(text);
        host.rest();
        host.exit(1);
        host.lines_with("charge=").first().cloned().unwrap_or_default()
    };
    assert!(charge("R0@1").contains("disp=1 charge=1 iops=1 sect=8"));
    assert!(charge("R0@1+1024").contains("disp=1 charge=1 iops=1 sect=1024"));
}
