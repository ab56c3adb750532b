//! Cases 13 to 21 and 23 to 25 of docs/specifications/cfq.md, section 19: the queues of one group.

use crate::host::{DISK, Host, MS};
use crate::model::{Model, Reader, Servers, assert_near, assert_shares, reader, run, servers};
use hoistway_block::{Class, Priority};
use hoistway_elevator::Elevator;

fn best_effort(level: u8) -> Priority {
    Priority::new(Class::BestEffort, level)
}

fn requests(letter: char, context: u32, count: u32) -> String {
    (0..count).map(|n| format!("{letter}{}@{context} ", (u64::from(context) << 26) + u64::from(n) * 8)).collect()
}

#[test]
fn t13_alone_a_queue_has_no_limit() {
    for version in ["2.6.35", "2.6.36", "2.6.37", "4.20"] {
        let mut host = Host::new(&format!("cfq@{version}"));
        host.given(&requests('R', 1, 16));
        assert_eq!(host.dispatched(), 16, "{version}");
    }
}

#[test]
fn t13_beside_another_it_has_a_few_and_more_while_its_slice_lasts() {
    let mut host = Host::new("cfq@2.6.36");
    host.given(&requests('R', 1, 100));
    host.given(&requests('R', 2, 100));
    assert_eq!(host.dispatched(), 4, "half of quantum while the slice has not begun");
    host.pass_ms(1);
    host.complete_nth(0);
    // A request counts as 8 ms (`slice_idle`). The slice of 100 ms is longer than 8 requests.
    assert_eq!(host.dispatched(), 5);
    assert_eq!(host.in_device.len(), 8);
    // With 7 requests in flight, another one fits 57 ms before the end of the slice, and does not
    // 55 ms before it.
    host.pass_ms(100 - 57);
    host.complete_nth(0);
    assert_eq!(host.dispatched(), 1, "7 in the device are worth 56 ms, and 57 are left");
    host.pass_ms(2);
    host.complete_nth(0);
    assert_eq!(host.dispatched(), 0, "56 ms are worth more than the 55 that are left");
}

#[test]
fn t14_two_deep_readers() {
    let readers = [reader(0, 0).qd(16), reader(1, 0).qd(16)];
    for (quantum, per_s, depth) in [(8, 6257.0, 8), (32, 8000.0, 31)] {
        let mut host = Host::new(&format!("cfq@2.6.36:quantum={quantum}"));
        host.teach_depth(true);
        let mut host = host.unchecked();
        let mut model = Model::new(&mut host, &readers, servers(8, MS));
        // The first second is not measured: at its beginning the first reader is alone, and then
        // CFQ does not limit its requests in flight.
        model.run(1_000 * MS);
        let outcome = model.run(20_000 * MS);
        assert_shares(&outcome.shares(), &[50.0, 50.0]);
        assert_near(outcome.per_s(), per_s);
        assert!(outcome.depth <= depth && outcome.depth + 1 >= depth, "{}", outcome.depth);
    }
}

#[test]
fn t15_three_levels_share_by_slices() {
    let readers: Vec<Reader> =
        [0, 4, 7].into_iter().zip(0..).map(|(level, n)| reader(n, 0).priority(best_effort(level))).collect();
    for low_latency in [0, 1] {
        let mut host = Host::new(&format!("cfq@2.6.36:low_latency={low_latency}")).unchecked();
        let outcome = run(&mut host, &readers, servers(1, MS), 30_000 * MS);
        assert_shares(&outcome.shares(), &[56.3, 31.2, 12.5]);
    }
}

/// The disk for the case with eight levels. docs/specifications/cfq.md, section 19, calls it a
/// "seek-cost disk" without describing it; these values reproduce all eight figures of the case.
fn disk() -> Servers {
    Servers { seek_ns: 8 * MS, ..servers(1, MS / 5) }
}

#[test]
fn t15_eight_levels_differ_by_more_than_their_slices() {
    let readers: Vec<Reader> = (0..8_u8).map(|n| reader(u32::from(n), 0).priority(best_effort(n))).collect();
    let mut host = Host::new("cfq@2.6.36:low_latency=0").unchecked();
    let shares = run(&mut host, &readers, disk(), 60_000 * MS).shares();
    assert_shares(&shares, &[24.3, 21.6, 18.7, 12.1, 9.9, 6.7, 4.0, 2.6]);
    assert!(shares.windows(2).all(|pair| pair[0] > pair[1]), "{shares:?}");
    assert!(shares[0] / shares[7] > 180.0 / 40.0, "{shares:?}");
}

#[test]
fn t16_real_time_goes_first() {
    let beside_two = |think_ns: u64| {
        let mut host = Host::new("cfq@2.6.36");
        host.trace();
        let mut host = host.unchecked();
        let real_time = reader(0, 0).priority(Priority::new(Class::RealTime, 4)).think(think_ns);
        let readers = [real_time, reader(1, 0), reader(2, 0)];
        let mut model = Model::new(&mut host, &readers, servers(1, MS));
        model.run(1_000 * MS);
        model.host.lines();
        let shares = model.run(20_000 * MS).shares();
        (shares, host.lines())
    };
    assert!(beside_two(MS / 10).0[0] >= 99.0);
    // While the real-time reader's think time is shorter than `slice_idle`, the other readers are
    // served only between its slices.
    for think_ms in [3, 6] {
        let (_, lines) = beside_two(think_ms * MS);
        let ends = lines.iter().filter(|line| line.starts_with("0S slice expired")).count();
        let turns = lines.iter().filter(|line| line.contains("set_active") && !line.starts_with("0S")).count();
        assert!((100..=220).contains(&ends) && turns <= 2 * ends, "{turns} turns of others, {ends} slices");
        assert!(!lines.iter().any(|line| line == "idle timer fired"), "it is never given up");
    }
    // With a longer think time the real-time reader loses its slice each time. CFQ does idle for
    // it, because it has the only queue of its class, but the timer fires before its next request.
    let (shares, lines) = beside_two(12 * MS);
    let fired = lines.iter().filter(|line| *line == "idle timer fired").count();
    assert!(shares[0] < 25.0 && fired > 1_000, "{shares:?}, {fired}");
}

#[test]
fn t17_the_idle_class() {
    let idle = |context| reader(context, 0).priority(Priority::new(Class::Idle, 7));
    for (device, most_percent) in [(disk(), 0.5), (servers(1, MS), 1.2)] {
        let mut host = Host::new("cfq@2.6.36");
        host.trace();
        let mut host = host.unchecked();
        let outcome = run(&mut host, &[idle(0), reader(1, 0)], device, 10_000 * MS);
        assert!(outcome.shares()[0] <= most_percent, "{:?}", outcome.shares());
        // The idle class gets at most one request whenever a slice of the other reader ends.
        let ends = host.lines_with("1S slice expired").len() as u64;
        assert!(outcome.done[0] <= ends + 1, "{} in {ends} gaps", outcome.done[0]);
    }
    let mut host = Host::new("cfq@2.6.36").unchecked();
    let outcome = run(&mut host, &[idle(0).qd(4)], servers(4, MS), 5_000 * MS);
    assert_eq!(outcome.depth, 1, "one at a time");
    assert_near(outcome.per_s(), 1_000.0);
}

#[test]
fn t18_async_and_sync_do_not_meet_in_the_device() {
    let mut host = Host::new("cfq@2.6.36");
    // Async requests are not dispatched while the reader's request is in flight, nor while the
    // device is idled for its next one.
    host.given(&requests('R', 1, 1));
    assert_eq!(host.dispatched(), 1);
    host.given(&requests('W', 2, 4));
    assert_eq!(host.dispatched(), 0, "sync in flight");
    host.complete_nth(0);
    assert_eq!(host.dispatched(), 0, "waited for");
    host.pass_ms(8);
    assert_eq!(host.dispatched(), 4);
    host.given(&requests('R', 1, 1));
    assert_eq!(host.dispatched(), 0, "async in flight, and the reader is worth waiting for");
    for _ in 0..3 {
        host.complete_nth(0);
        assert_eq!(host.dispatched(), 0);
    }
    host.complete_nth(0);
    assert_eq!(host.dispatched(), 1);
}

/// Returns how many requests of an async queue are dispatched `after_ms` after a late request of a
/// sync queue completed.
fn after_a_late_read(spec: &str, after_ms: u64) -> usize {
    let mut host = Host::new(spec);
    host.given(&requests('R', 1, 1));
    assert_eq!(host.dispatched(), 1);
    host.pass_ms(126);
    host.complete_nth(0);
    host.exit(1);
    host.pass_ms(after_ms);
    host.given(&requests('W', 2, 40));
    host.dispatched()
}

#[test]
fn t19_async_depth_grows_again_after_a_late_read() {
    for (after_ms, depth) in [(50, 1), (100, 1), (250, 2), (500, 5), (1_000, 10)] {
        assert_eq!(after_a_late_read("cfq@2.6.36", after_ms), depth, "{after_ms} ms");
    }
    // With `low_latency` 0 the late read has no effect, and a lone queue has no other limit.
    assert_eq!(after_a_late_read("cfq@2.6.36:low_latency=0", 50), 40);
}

#[test]
fn t20_an_async_turn_dispatches_a_given_number_of_requests() {
    let mut host = Host::new("cfq@2.6.36:low_latency=0,quantum=64");
    host.trace();
    host.given(&requests('W', 2, 40));
    // Another async queue is busy as well.
    host.given("W900000000@3be5");
    let mut went = Vec::new();
    while let Some(text) = host.dispatch() {
        went.push(text);
        if !host.lines_with("slice expired").is_empty() {
            break;
        }
        host.pass_ms(1);
        host.complete_nth(0);
    }
    assert_eq!(went.len(), 16, "2 x 2 x (8 - 4)");
    let next = host.dispatch().expect("the other queue's turn");
    assert!(next.contains("be5"), "{next}");
}

#[test]
fn t20_that_end_forgets_the_rest_of_the_slice() {
    let mut host = Host::new("cfq@2.6.36:low_latency=0,quantum=64");
    host.trace();
    host.given(&requests('W', 2, 40));
    host.given("W900000000@3be5 W900000100@3be5");
    let went = host.dispatch_all();
    assert_eq!(went.split(' ').position(|text| text.contains("be5")), Some(16));
    let lines = host.lines();
    assert!(lines.iter().any(|line| line == "2A slice expired t=0"), "{lines:?}");
    assert!(!lines.iter().any(|line| line.contains("resid")), "{lines:?}");
}

#[test]
fn t21_one_overdue_request_begins_a_slice() {
    let mut host = Host::new("cfq@2.6.36");
    // The last dispatched request is at 1000000: the two oldest queued requests are far behind that
    // position, the other two are just ahead of it.
    host.given("R1000000@1");
    assert_eq!(host.dispatched(), 1);
    host.given("R100@1 R200@1 R1000100@1 R1000200@1");
    host.pass_ms(125);
    host.complete_nth(0);
    // CFQ checks once in a slice whether the oldest request is overdue, and in this slice it did so
    // before R100 arrived; so the queue continues in sector order.
    assert_eq!(host.dispatch().as_deref(), Some("R1000100@1"));
    // The slice ends; in the next one CFQ checks again.
    host.pass_ms(150);
    host.complete_nth(0);
    let next: Vec<_> = (0..3).map(|_| host.dispatch().expect("something")).collect();
    assert_eq!(next, ["R100@1", "R200@1", "R1000200@1"], "the oldest, then from there on");
    let mut host = Host::new("cfq@2.6.36");
    host.given("R1000000@1 R1000100@1");
    assert_eq!(host.dispatch_all(), "R1000000@1 R1000100@1");
    host.given("R100@1 R5000000@1 R1000200@1 R1000300@1");
    host.pass_ms(124);
    host.complete_nth(0);
    host.complete_nth(0);
    host.pass_ms(101);
    // All four are 225 ms old and overdue. The slice begins with the oldest, R100, for that reason;
    // the others follow in sector order.
    assert_eq!(host.dispatch_all(), "R100@1 R1000200@1 R1000300@1 R5000000@1");
}

#[test]
fn t23_interleaved_readers_become_one_queue_and_part_when_they_seek() {
    let mut host = Host::new("cfq@2.6.36");
    host.trace();
    let interleaved = |context: u32, first: u64| Reader { from: (1 << 26) + first, step: 16, ..reader(context, 0) };
    let readers = [interleaved(1, 0), interleaved(2, 8), reader(3, 0)];
    host.teach_depth(true);
    let mut host = host.unchecked();
    let outcome = run(&mut host, &readers, servers(8, MS), 20_000 * MS);
    assert_shares(&outcome.shares(), &[33.5, 33.5, 33.0]);
    let merging = host.lines_with("merging with queue");
    assert_eq!(merging.len(), 1, "{merging:?}");
}

#[test]
fn t23_a_shared_queue_that_seeks_is_broken_apart() {
    let mut host = Host::new("cfq@2.6.36");
    host.trace();
    // Queue 1 stops where queue 2 continues. Queue 3 keeps more than one queue of the group busy;
    // without that CFQ does not look for a cooperator (a queue whose next request is close).
    host.given("R1000@1 R1008@2 R90000000@3");
    assert_eq!(host.dispatch().as_deref(), Some("R1000@1"));
    host.complete("R1000");
    assert_eq!(host.policy.next_timer(), None, "with a cooperator there is nothing to wait for");
    assert_eq!(host.dispatch().as_deref(), Some("R1008@2"), "the cooperator, without another choice");
    host.lines();
    host.given("R1016@1");
    assert_eq!(
        host.lines_with("merging with queue").len(),
        1,
        "the next request of the first goes to the second's queue"
    );
    host.complete("R1008");
    // Issuers 1 and 2 share a queue now. These scattered requests of both make it seeky.
    for n in 1..=6_u64 {
        host.given(&format!("R{}@{}", n * 1_000_000, 1 + n % 2));
    }
    host.lines();
    for _ in 0..60 {
        host.dispatched();
        if !host.in_device.is_empty() {
            host.pass_ms(5);
            host.complete_nth(0);
        } else {
            host.pass_ms(1);
        }
    }
    host.given("R2000@1");
    assert_eq!(host.lines_with("breaking apart cfqq").len(), 1);
    // Issuer 2 keeps the shared queue; from now on each issuer has its own.
    host.given("R3000@2");
    assert_eq!(host.lines_with("breaking apart cfqq").len(), 1);
    host.given("R2008@1 R3008@2");
    let lines = host.lines();
    assert!(!lines.iter().any(|line| line.contains("breaking")), "{lines:?}");
    host.rest();
}

#[test]
fn t24_an_exited_issuer_is_not_waited_for() {
    let mut host = Host::new("cfq@2.6.36");
    host.given("R1000@1 R90000000@2");
    assert_eq!(host.dispatched(), 1);
    host.complete("R1000");
    assert_eq!(host.dispatched(), 0, "waited for");
    host.trace();
    host.exit(1);
    assert!(host.lines_with("slice expired t=0").len() == 1);
    assert_eq!(host.dispatch().as_deref(), Some("R90000000@2"));
}

#[test]
fn t25_a_new_level_counts_from_the_next_slice_on() {
    let mut host = Host::with("cfq@2.6.36:low_latency=0", &DISK);
    host.trace();
    let busy = |host: &mut Host, level: u8, from: u64| {
        for n in 0..40 {
            host.given(&format!("R{}@1be{level}", from + n * 8));
        }
    };
    busy(&mut host, 4, 0);
    host.given(&requests('R', 2, 200));
    let slices = |host: &mut Host, span_ms: u64| {
        for _ in 0..span_ms / 10 {
            host.dispatched();
            host.pass_ms(10);
            while !host.in_device.is_empty() && host.in_device.len() > 2 {
                host.complete_nth(0);
            }
            if !host.in_device.is_empty() {
                host.complete_nth(0);
            }
        }
        host.lines_with("1S set_slice")
    };
    assert_eq!(slices(&mut host, 20), ["1S set_slice=100"]);
    // The level changes in the middle of the slice.
    busy(&mut host, 0, 1000);
    assert_eq!(slices(&mut host, 60), Vec::<String>::new());
    assert_eq!(slices(&mut host, 260).first().map(String::as_str), Some("1S set_slice=180"));
}
