//! Cases 37 to 39, 41, 43 to 47 and 53 to 55 of docs/specifications/cfq.md, section 19: groups step
//! by step.

use crate::host::{Host, MS};
use hoistway_block::GroupId;
use hoistway_elevator::{Elevator, GroupSettings};

/// A host with two groups of weights 100 and 800 in IOPS mode, in which CFQ charges groups for
/// requests instead of time. It needs `slice_idle` 0 and a device that is known to queue commands.
fn iops() -> Host {
    let mut host = Host::new("cfq@2.6.36:slice_idle=0");
    host.teach_depth(true);
    host.group(1, 100);
    host.group(2, 800);
    host.trace();
    host
}

#[test]
fn t37_the_groups_requests_in_the_device_are_waited_for() {
    let mut host = iops();
    host.given("R1000@1g1 R1008@1g1 R1016@1g1 R1024@1g1");
    host.given("R9000000@2g2 R9000008@2g2");
    assert_eq!(host.dispatched(), 4, "all of the first group; the other is backlogged");
    for _ in 0..3 {
        host.pass_ms(1);
        host.complete_nth(0);
        assert_eq!(host.dispatch(), None);
    }
    host.lines();
    host.complete_nth(0);
    assert_eq!(host.lines_with("arm_idle"), ["1S arm_idle: 8 group_idle: 1"]);
    assert_eq!(host.dispatch(), None);
    host.pass_ms(5);
    host.given("R1032@1g1");
    assert_eq!(host.dispatch().as_deref(), Some("R1032@1g1"), "within the wait, without another choice");
    assert!(host.lines_with("set_active").is_empty());
}

#[test]
fn t37_even_when_the_slice_is_over() {
    let mut host = iops();
    host.given("R1000@1g1 R1008@1g1 R1016@1g1 R1024@1g1");
    host.given("R9000000@2g2");
    assert_eq!(host.dispatched(), 4);
    host.pass_ms(1);
    host.complete_nth(0);
    // A slice of 33 ms passes while three requests are in flight.
    host.pass_ms(40);
    assert_eq!(host.dispatch(), None);
    host.complete_nth(0);
    host.complete_nth(0);
    assert_eq!(host.dispatch(), None, "one is left in the device");
    host.complete_nth(0);
    assert_eq!(host.dispatch(), None, "busy wait for the group");
    host.pass_ms(8);
    assert_eq!(host.dispatch().as_deref(), Some("R9000000@2g2"));
}

#[test]
fn t28_a_group_with_another_busy_queue_is_not_waited_for() {
    let mut host = iops();
    host.given("R1000@1g1 R5000000@2g1");
    // Only one request is dispatched, as if the device had no room for more, so that queue 1 is
    // still active when its request completes.
    assert_eq!(host.dispatch().as_deref(), Some("R1000@1g1"));
    host.pass_ms(1);
    host.complete_nth(0);
    assert!(host.lines_with("arm_idle").is_empty());
    assert_eq!(host.dispatch().as_deref(), Some("R5000000@2g1"));
}

/// A host in which the last request of group 1's only queue has just completed, exactly at the end
/// of the queue's slice of 33 ms.
fn busy_waiting() -> Host {
    let mut host = Host::new("cfq@2.6.36");
    host.group(1, 100);
    host.group(2, 800);
    host.given("R1000@1g1 R1008@1g1 R9000000@2g2");
    assert_eq!(host.dispatched(), 2);
    host.trace();
    host.complete_nth(0);
    assert_eq!(host.lines_with("set_slice"), ["1S set_slice=33"]);
    host.pass_ms(33);
    host.complete_nth(0);
    assert_eq!(host.lines_with("will busy wait").len(), 1);
    assert_eq!(host.dispatch(), None);
    host
}

#[test]
fn t38_the_device_is_idled_for_the_next_request_of_a_group() {
    let mut host = busy_waiting();
    let dequeues = host.account(1).dequeues;
    host.pass_ms(2);
    host.given("R1016@1g1");
    // The group is backlogged again, so it is charged at once, and for no more than its slice; then
    // the groups' virtual times (vdisktime) decide.
    assert_eq!(host.dispatch().as_deref(), Some("R9000000@2g2"));
    let lines = host.lines();
    assert!(lines.iter().any(|line| line.starts_with("1S sl_used=33 disp=2 charge=33 iops=0")), "{lines:?}");
    assert_eq!(host.account(1).dequeues, dequeues);
}

#[test]
fn t38_the_group_loses_the_device_when_the_timer_fires() {
    let mut host = busy_waiting();
    host.pass_ms(7);
    assert_eq!((host.account(1).dequeues, host.dispatch()), (0, None));
    host.pass_ms(1);
    assert!(!host.lines_with("del_from_rr group").is_empty());
    assert_eq!(host.dispatch().as_deref(), Some("R9000000@2g2"));
}

#[test]
fn t38_without_any_idling_there_is_nothing_to_wait_for() {
    let mut host = Host::new("cfq@2.6.36:slice_idle=0,group_idle=0");
    host.group(1, 100);
    host.group(2, 800);
    host.given("R1000@1g1 R1008@1g1 R9000000@2g2");
    assert_eq!(host.dispatch().as_deref(), Some("R1000@1g1"));
    assert_eq!(host.dispatch().as_deref(), Some("R1008@1g1"));
    host.complete_nth(0);
    host.pass_ms(33);
    host.complete_nth(0);
    assert_eq!((host.account(1).dequeues, host.dispatch().as_deref()), (1, Some("R9000000@2g2")));
}

/// Every virtual time (`vt`, CFQ's vdisktime) in the messages of a group since the last call.
fn vdisktimes(host: &mut Host, group: u32) -> Vec<u64> {
    let about = format!("g{group} served: vt=");
    let lines = host.lines();
    let of_group = lines.iter().filter_map(|line| line.strip_prefix(about.as_str()));
    of_group.filter_map(|rest| rest.split(' ').next()?.parse().ok()).collect()
}

#[test]
fn t39_a_group_comes_back_behind_all_others() {
    for early in [0, 40] {
        let mut host = iops();
        // The service that group 1 got before it left must have no effect, whether it is less (0
        // requests) or more (40) than that of group 2.
        for n in 0..early {
            host.submit(&format!("R{}@1g1", 1000 + n * 8));
            host.rest();
            host.exit(1);
            host.pass_ms(20);
        }
        for n in 0..20 {
            host.submit(&format!("R{}@2g2", 9_000_000 + n * 1_000));
        }
        // The following loop continues until group 2 is charged for the first time; it stays
        // backlogged.
        host.given("R5000000@3g2");
        for _ in 0..200 {
            host.dispatched();
            host.pass_ms(10);
            if host.in_device.is_empty() {
                break;
            }
            host.complete_nth(0);
            if !host.lines_with("g2 served").is_empty() {
                break;
            }
        }
        host.submit("R8000000@3g2");
        host.rest();
        host.exit(1);
        host.pass_ms(100);
        host.lines();
        // Group 1 arrives while group 2 is in service.
        host.given("R7000000@4g2 R7000008@4g2");
        assert_eq!(host.dispatched(), 2);
        host.complete_nth(0);
        host.given("R2000@5g1");
        host.complete_nth(0);
        host.exit(4);
        let second = *vdisktimes(&mut host, 2).last().expect("group 2 was charged");
        assert_eq!(host.dispatch().as_deref(), Some("R2000@5g1"));
        host.pass_ms(1);
        host.complete_nth(0);
        host.exit(5);
        let first = *vdisktimes(&mut host, 1).last().expect("group 1 was charged");
        // In units of virtual time: on its arrival group 1 was placed 200 behind group 2. Since
        // then it was charged 20480 for one request at weight 100, and group 2 was charged 2560
        // each for two requests at weight 800.
        assert_eq!(first, second - 2 * 2_560 + 200 + 20_480, "after {early}");
    }
}

#[test]
fn t41_a_group_of_async_queues_alone_pays_whole_slices() {
    let mut host = Host::new("cfq@2.6.36:low_latency=0");
    host.group(1, 500);
    host.trace();
    host.given("W0@1 W8@1");
    assert_eq!(host.dispatched(), 2);
    host.pass_ms(1);
    host.complete_nth(0);
    // A reader of another group preempts after 5 of 40 ms.
    host.pass_ms(5);
    host.given("R9000000@2g1");
    assert_eq!(host.lines_with("charge="), ["1A sl_used=5 disp=2 charge=40 iops=0 sect=16"]);
}

#[test]
fn t41_with_a_sync_queue_in_the_group_it_pays_for_what_it_used() {
    let mut host = Host::new("cfq@2.6.36:low_latency=0");
    host.trace();
    host.given("W0@1 W8@1");
    assert_eq!(host.dispatched(), 2);
    host.pass_ms(1);
    host.complete_nth(0);
    host.pass_ms(5);
    // The reader's queue is in the same group and is added to the group's tree before it preempts,
    // so the group does not have async queues alone.
    host.given("R9000000@2");
    assert_eq!(host.lines_with("charge="), ["1A sl_used=5 disp=2 charge=5 iops=0 sect=16"]);
}

#[test]
fn t41_before_its_first_completion_it_pays_nothing() {
    // Quirk Q21 of docs/specifications/cfq.md. A slice of async level 7 ends after 4 requests.
    let mut host = Host::new("cfq@2.6.36:low_latency=0,quantum=64");
    host.trace();
    for n in 0..8 {
        host.submit(&format!("W{}@1be7", n * 8));
    }
    host.given("W900000000@2be6 W900000100@2be6");
    host.dispatched();
    let first = host.lines_with("1A sl_used").first().cloned();
    assert_eq!(first.as_deref(), Some("1A sl_used=1 disp=4 charge=0 iops=0 sect=32"));
}

#[test]
fn t43_a_weight_counts_from_the_next_charge_on() {
    for version in ["2.6.35", "2.6.36", "3.0", "4.20"] {
        let mut host = Host::new(&format!("cfq@{version}"));
        host.group(1, 100);
        host.group(2, 800);
        for n in 0..60 {
            // Group 2 comes first, because 4.20 computes a group's share of the weights when the
            // group becomes backlogged.
            host.submit(&format!("R{}@2g2", 90_000_000 + n * 8));
            host.submit(&format!("R{}@1g1", n * 8));
        }
        host.trace();
        let _ = host.policy.group_changed(GroupId(1), &GroupSettings::with_weight(800), host.now);
        let mut slices = Vec::new();
        for _ in 0..100 {
            host.dispatched();
            host.pass_ms(20);
            if !host.in_device.is_empty() {
                host.complete_nth(0);
            }
            // The invariants that are checked after every step include the sum of the weights of
            // backlogged groups.
            slices.extend(host.lines_with("1S set_slice"));
        }
        assert!(slices.len() > 2, "{version}: {slices:?}");
        let (before, after) = if version == "4.20" { ("33325195", "100000000") } else { ("33", "100") };
        assert_eq!(slices[0], format!("1S set_slice={before}"), "{version}: as it entered the order");
        assert_eq!(slices[1], format!("1S set_slice={after}"), "{version}");
        host.rest();
    }
}

#[test]
fn t44_v3_forgets_what_a_preempted_queue_had_left() {
    let resid = |version: &str| {
        let mut host = Host::new(&format!("cfq@{version}:slice_idle=0"));
        host.teach_depth(true);
        host.trace();
        host.given("R1000@1 R1008@1 R1016@1");
        host.dispatched();
        host.complete_nth(0);
        host.pass_ms(40);
        host.given("R9000000@2rt");
        host.lines_with("resid=")
    };
    assert_eq!(resid("2.6.36"), ["1S resid=60"]);
    assert_eq!(resid("2.7.0"), Vec::<String>::new());
}

#[test]
fn t44_what_was_left_brings_the_next_turn_forward() {
    let order = |version: &str| {
        let mut host = Host::new(&format!("cfq@{version}:slice_idle=0,low_latency=0"));
        host.teach_depth(true);
        let many = |host: &mut Host, context: u64, count: u64| {
            for n in 0..count {
                host.submit(&format!("R{}@{context}", (context << 26) + n * 8));
            }
        };
        // With `slice_idle` 0 no queue is idled for. Each is served once in advance, so that CFQ
        // already has all of them in the service tree for such queues.
        for context in [1, 2, 4] {
            many(&mut host, context, 1);
            host.rest();
        }
        host.pass_ms(100);
        many(&mut host, 1, 40);
        host.dispatch();
        host.complete_nth(0);
        host.pass_ms(20);
        many(&mut host, 2, 40);
        host.pass_ms(20);
        // The real-time request preempts queue 1, whose new key is the current time + 2 x 80 ms; in
        // 2.6.36 the 60 ms that it has left are subtracted. The key of queue 2 is 20 ms before the
        // current time.
        host.submit("R90000000@3rt");
        assert_eq!(host.dispatch().as_deref(), Some("R90000000rt@3"), "{version}");
        host.complete_nth(0);
        host.exit(3);
        host.trace();
        host.dispatched();
        host.pass_ms(40);
        // 40 ms later, queue 4 gets the key 40 + 80 = 120. It is between the keys that queue 1 has
        // in 2.6.36 and in 2.7.0, 100 and 160.
        many(&mut host, 4, 40);
        let mut turns = String::new();
        for _ in 0..60 {
            turns.extend(host.lines_with("set_active").iter().map(|line| &line[..1]));
            host.dispatched();
            host.pass_ms(10);
            host.complete_nth(0);
        }
        turns
    };
    let turns = ["2.6.36", "2.7.0"].map(order);
    assert!(turns[0].starts_with("214") && turns[1].starts_with("241"), "{turns:?}");
}

#[test]
fn t45_a_process_that_moves_leaves_its_requests_behind() {
    for version in ["2.6.36", "2.6.37", "4.20"] {
        let mut host = Host::new(&format!("cfq@{version}"));
        host.group(1, 500);
        host.group(2, 500);
        host.trace();
        host.given("R0@1g1 R8@1g1 R16@1g1");
        host.given("R24@1g2");
        let lines = host.lines();
        assert!(lines.iter().any(|line| line == "1S changed cgroup"), "{version}: {lines:?}");
        host.rest();
        host.pass_ms(100);
        let counted = [1, 2].map(|group| host.account(group).serviced.reads);
        assert_eq!(counted, [3, 1], "{version}");
        assert!([1, 2].iter().all(|group| host.account(*group).time_ns > 0), "{version}: both are charged");
        // The old queue was freed with the last of its requests.
        let lines = host.lines();
        assert_eq!(lines.iter().filter(|line| line.ends_with("put_queue")).count(), 1, "{version}: {lines:?}");
    }
}

#[test]
fn t46_a_group_that_goes_with_requests_in_the_device() {
    for version in ["2.6.35", "2.6.36", "4.20"] {
        let mut host = Host::new(&format!("cfq@{version}"));
        host.group(1, 500);
        host.given("R0@1g1 R8@1g1 R16@1g1");
        host.dispatch();
        host.policy.group_offline(GroupId(1), host.now);
        host.check();
        host.rest();
        assert_eq!(host.account(1).serviced.reads, 3, "{version}: they finish in the old group");
        host.policy.group_removed(GroupId(1), host.now);
        host.check();
        // Its id belongs to another group now, and the process is in the root.
        host.group(1, 100);
        assert_eq!(host.account(1).serviced.reads, 0, "{version}");
        host.given("R24@1 R9000000@2g1");
        host.rest();
        assert_eq!([0, 1].map(|group| host.account(group).serviced.reads), [1, 1], "{version}");
    }
}

#[test]
fn t47_a_drain_dispatches_every_request() {
    for version in ["2.6.26", "2.6.35", "2.6.36", "2.6.37", "2.6.38", "2.7.0", "3.0", "4.20"] {
        let mut host = Host::new(&format!("cfq@{version}"));
        for group in 1..=3 {
            host.group(group, 100 * group);
        }
        host.trace();
        // Five queues, seventeen requests.
        for (context, group, count) in [(1, 1, 5), (2, 1, 3), (3, 2, 4), (4, 3, 3), (5, 3, 2)] {
            for n in 0..count {
                host.submit(&format!("R{}@{context}g{group}", (context << 26) + n * 8));
            }
        }
        let mut drained = 0;
        while let Some(id) = host.policy.drain(&host.requests, host.now) {
            host.check();
            drained += 1;
            let _ = host.policy.released(&host.requests, id, host.now);
            host.check();
        }
        assert_eq!(drained, 17, "{version}");
        let lines = host.lines();
        assert!(lines.iter().any(|line| line == "forced_dispatch=17"), "{version}: {lines:?}");
        let left = lines.iter().filter(|line| line.ends_with("del_from_rr")).count();
        assert_eq!(left, 5, "{version}: all queues are out");
        let groups = if version == "2.6.26" { 1 } else { 3 };
        assert_eq!(lines.iter().filter(|line| line.ends_with("del_from_rr group")).count(), groups, "{version}");
    }
}

#[test]
fn t54_and_t55_accounts_of_one_request() {
    let mut host = Host::new("cfq@2.6.36");
    host.group(1, 500);
    host.submit("R0@1g1");
    let begin = host.now;
    host.pass(3_456_789);
    host.dispatch();
    host.pass(7_654_321);
    host.complete_nth(0);
    let account = host.account(1);
    let together = account.wait_time_ns.sync + account.service_time_ns.sync;
    assert_eq!(together, host.now - begin);
    assert_eq!((account.wait_time_ns.reads, account.service_time_ns.reads), (3_456_789, 7_654_321));
    host.given("R8@1g1 R16@1g1 R24@1g1");
    let now = host.now;
    assert!(host.policy.reset_group_account(hoistway_block::GroupId(1), now));
    let reset = host.account(1);
    assert_eq!(reset.queued.reads, 3);
    assert_eq!(
        hoistway_elevator::GroupAccount { queued: hoistway_elevator::ByKind::ZERO, ..reset },
        hoistway_elevator::GroupAccount::ZERO
    );
}

#[test]
fn t53_accounts_of_thirty_two_reads() {
    for version in ["2.6.35", "2.6.36", "4.20"] {
        let mut host = Host::new(&format!("cfq@{version}"));
        host.group(1, 500);
        for n in 0..32 {
            host.submit(&format!("R{}@1g1", n * 8));
            host.rest();
            host.pass(MS / 10);
        }
        let account = host.account(1);
        let bytes = account.service_bytes;
        assert_eq!((bytes.reads, bytes.writes, bytes.sync, bytes.asynchronous), (131_072, 0, 131_072, 0), "{version}");
        assert_eq!((bytes.total(), account.sectors, account.serviced.reads), (131_072, 256, 32), "{version}");
    }
}
