//! CFQ of 2.6.26 (docs/specifications/cfq.md, section 14): one tree of queues and no groups. A
//! round is the requests that CFQ moves from a queue to the dispatch list at a time, at most
//! `quantum`.

use crate::host::{Host, MS};
use crate::model::{Reader, assert_shares, reader, run, servers};
use hoistway_block::{Class, Priority};

const FIRST: &str = "cfq@2.6.26";

fn many(host: &mut Host, letter: char, context: u64, count: u64) {
    for n in 0..count {
        host.submit(&format!("{letter}{}@{context}", (context << 26) + n * 8));
    }
}

#[test]
fn a_round_is_quantum_requests_of_a_queue() {
    let mut host = Host::new(FIRST);
    assert_eq!(
        (host.setting("quantum"), host.setting("group_idle"), host.setting("low_latency")),
        (Some(4), None, None)
    );
    many(&mut host, 'R', 1, 20);
    many(&mut host, 'R', 2, 20);
    assert_eq!(host.dispatched(), 4);
    host.pass_ms(1);
    // The next round comes when fewer than `quantum` requests of the queue are in flight.
    host.complete_nth(0);
    assert_eq!(host.dispatched(), 4);
    assert_eq!(host.in_device.len(), 7);
}

#[test]
fn a_lone_queue_may_have_four_rounds_in_flight() {
    let mut host = Host::new(FIRST);
    many(&mut host, 'R', 1, 40);
    assert_eq!(host.dispatched(), 16);
    host.complete_nth(0);
    assert_eq!(host.dispatched(), 4);
}

#[test]
fn a_round_is_dispatched_completely_despite_a_preemption() {
    let mut host = Host::new(FIRST);
    many(&mut host, 'W', 1, 8);
    assert_eq!(host.dispatch().as_deref(), Some("W67108864@1"));
    // The read preempts the queue of writes, but the requests of the running round are dispatched
    // before it.
    host.given("R900000000@3");
    let rest: Vec<_> = std::iter::from_fn(|| host.dispatch()).collect();
    assert!(rest[..3].iter().all(|text| text.starts_with('W')), "{rest:?}");
}

#[test]
fn async_requests_wait_while_sync_requests_are_in_flight() {
    let mut host = Host::new(FIRST);
    host.given("R0@1");
    assert_eq!(host.dispatched(), 1);
    many(&mut host, 'W', 2, 4);
    assert_eq!(host.dispatched(), 0);
    host.complete_nth(0);
    assert_eq!(host.dispatched(), 0, "CFQ idles for the reader");
    host.pass_ms(8);
    assert_eq!(host.dispatched(), 4);
}

#[test]
fn an_async_slice_ends_after_the_round_that_reaches_its_request_limit() {
    let mut host = Host::new("cfq@2.6.26:quantum=16");
    host.trace();
    many(&mut host, 'W', 1, 40);
    host.given("W900000000@2be5 W900000100@2be5");
    assert!(host.dispatched() >= 16);
    assert_eq!(host.lines_with("1A slice expired t=0").len(), 1, "a slice of async level 4 ends after 16 requests");
}

#[test]
fn classes_are_strict() {
    let mut host = Host::new(FIRST);
    host.given("R0@1idle R1000@2 R2000@3rt");
    let mut order = Vec::new();
    for _ in 0..40 {
        if let Some(text) = host.dispatch() {
            order.push(text);
            host.complete_nth(0);
            host.exit([3, 2, 1][order.len() - 1]);
        }
    }
    assert_eq!(order, ["R2000rt@3", "R1000@2", "R0idle@1"]);
}

#[test]
fn q13_unused_time_delays_a_queue_only_in_2_6_26() {
    let next_after_preemption = |version: &str| {
        let mut host = Host::new(version);
        host.trace();
        many(&mut host, 'R', 1, 40);
        host.dispatch();
        host.complete_nth(0);
        host.pass_ms(5);
        // A metadata request preempts queue 1, which has used 5 of its 100 ms. The queue's new key
        // in the tree is the current time + 80 ms; CFQ of 2.6.26 adds the unused 95 ms, and later
        // versions subtract them.
        host.given("R900000000@3meta");
        assert_eq!(host.lines_with("resid="), ["1S resid=95"]);
        while host.dispatch().is_some_and(|text| !text.contains("@3")) {}
        host.pass_ms(20);
        while !host.in_device.is_empty() {
            host.complete_nth(0);
        }
        many(&mut host, 'R', 2, 40);
        host.exit(3);
        let next = host.dispatch().expect("two queues are busy");
        next.split('@').nth(1).map(str::to_owned)
    };
    assert_eq!(next_after_preemption(FIRST).as_deref(), Some("2"), "key 80 + 95 is behind queue 2's key 20 + 80");
    assert_eq!(next_after_preemption("cfq@2.6.36").as_deref(), Some("1"), "key 80 - 95 is before it");
}

#[test]
fn t15_priority_levels_share_in_proportion_to_their_slices() {
    let level = |n: u32, level: u8| reader(n, 0).priority(Priority::new(Class::BestEffort, level));
    let readers: Vec<Reader> = vec![level(0, 0), level(1, 4), level(2, 7)];
    let mut host = Host::new(FIRST).unchecked();
    let outcome = run(&mut host, &readers, servers(1, MS), 30_000 * MS);
    assert_shares(&outcome.shares(), &[56.3, 31.2, 12.5]);
}

#[test]
fn groups_have_no_effect() {
    let mut host = Host::new(FIRST);
    host.group(1, 100);
    host.group(2, 1000);
    let mut host = host.unchecked();
    let readers = [reader(0, 1), reader(1, 2)];
    let outcome = run(&mut host, &readers, servers(1, MS), 20_000 * MS);
    assert_shares(&outcome.shares(), &[50.0, 50.0]);
}

#[test]
fn cfq_idles_briefly_for_a_seeky_process_unless_the_device_queues_commands() {
    let wait = |is_deep: bool| {
        let mut host = Host::new(FIRST);
        host.teach_depth(is_deep);
        host.trace();
        for n in 1..6_u64 {
            host.submit(&format!("R{}@1", n * 10_000_000));
            host.dispatch();
            host.complete_nth(0);
            if n < 5 {
                host.pass_ms(1);
                host.lines();
            }
        }
        host.lines_with("arm_idle")
    };
    assert_eq!(wait(false), ["1S arm_idle: 2"]);
    assert_eq!(wait(true), Vec::<String>::new());
}
