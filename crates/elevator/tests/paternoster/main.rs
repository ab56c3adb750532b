//! paternoster: the tests of docs/specifications/paternoster.md, section 14, on a device whose
//! times are exact. Tests of shares on calibrated device models are in
//! `crates/simulator/tests/paternoster.rs`.

mod adversaries;
mod bounds;
mod convergence;
mod disk;
mod host;
mod overdue;

use hoistway_block::time::{MICROSECOND, MILLISECOND, SECOND};
use hoistway_block::{Class, GroupId, Priority};
use hoistway_elevator::{Elevator, GroupSettings};
use hoistway_testbed::check_tunables_table;
use host::{Host, Issuer};

fn within(got: u32, expected: f64, tolerance: f64) -> bool {
    (f64::from(got) / expected - 1.0).abs() <= tolerance
}

#[track_caller]
fn assert_ratio(got: [u32; 2], expected: f64, tolerance: f64) {
    let ratio = f64::from(got[0]) / f64::from(got[1]);
    assert!((ratio / expected - 1.0).abs() <= tolerance, "{got:?}: {ratio}, not {expected}");
}

#[test]
fn the_table_of_tunables_is_that_of_the_rows() {
    check_tunables_table("paternoster");
}

#[test]
fn t08_give_0_is_work_conserving() {
    let mut host = Host::new("give=0", 4, 100 * MICROSECOND, 32, &[60, 20]);
    let (a, b) = (host.issuer(Issuer::of(1, 2)), host.issuer(Issuer::of(2, 2)));
    host.pass(SECOND);
    // Neither tenant is held back: each uses 2 of the device's 4 servers.
    assert_ratio([host.count(a, 0, SECOND), host.count(b, 0, SECOND)], 1.0, 0.01);
    assert!(within(host.count(a, 0, SECOND), 2.0 * 1e9 / 105_000.0, 0.01));
}

#[test]
fn t11_exact_shares_of_two_at_depth_1_cost_a_third() {
    let mut host = Host::new("give=100", 2, 100 * MICROSECOND, 32, &[60, 20]);
    let (a, b) = (host.issuer(Issuer::of(1, 1)), host.issuer(Issuer::of(2, 1)));
    host.pass(2 * SECOND);
    let got = [host.count(a, SECOND, 2 * SECOND), host.count(b, SECOND, 2 * SECOND)];
    assert_ratio(got, 3.0, 0.01);
    assert!(within(got[0], 1e9 / 105_000.0, 0.02), "{got:?}: the heavy one has its stand-alone rate");
}

#[test]
fn t13_one_to_three_on_a_device_of_one_slot() {
    let mut host = Host::new("give=100", 1, 100 * MICROSECOND, 1, &[100, 300]);
    let a = host.issuer(Issuer::of(1, 8));
    host.issuer(Issuer::of(2, 8));
    host.pass(100 * MILLISECOND);
    let order: Vec<bool> = host.done.iter().map(|(issuer, ..)| *issuer == a).collect();
    assert!(order.len() > 900);
    for window in order[8..].windows(8) {
        let of_a = window.iter().filter(|is_a| **is_a).count();
        assert!((1..=3).contains(&of_a), "2 of 8, one more or less: {window:?}");
    }
    assert!(within(u32::try_from(order.iter().filter(|is_a| **is_a).count()).unwrap(), order.len() as f64 / 4.0, 0.01));
}

#[test]
fn t15_a_newcomer_goes_at_the_next_free_slot_and_has_its_share_at_once() {
    let mut host = Host::new("give=100", 8, 100 * MICROSECOND, 16, &[100, 100, 100]);
    host.issuer(Issuer::of(1, 32));
    host.issuer(Issuer::of(2, 32));
    let c = host.issuer(Issuer { from_ns: 50 * MILLISECOND, ..Issuer::of(3, 32) });
    host.pass(100 * MILLISECOND);
    let first = host.done.iter().find(|(issuer, ..)| *issuer == c).expect("it was served");
    let waited_ns = first.2 - host::BEGIN_NS - 50 * MILLISECOND;
    assert!(waited_ns <= 100 * MICROSECOND, "{waited_ns}");
    let got = host.count(c, 60 * MILLISECOND, 100 * MILLISECOND);
    assert!(within(got, 8.0 * 40e6 / 100e3 / 3.0, 0.1), "{got}");
}

#[test]
fn t16_an_idle_queue_gains_no_credit() {
    let mut host = Host::new("give=100", 1, 100 * MICROSECOND, 4, &[100, 100]);
    let a = host.issuer(Issuer::of(1, 16));
    let b = host.issuer(Issuer { until_ns: MILLISECOND, ..Issuer::of(2, 16) });
    host.pass(SECOND);
    let again = host.issuer(Issuer::of(2, 16));
    host.pass(20 * MILLISECOND);
    assert_eq!(host.count(b, 20 * MILLISECOND, SECOND), 0);
    // Dispatches are counted, not completions, so that requests of A that were in flight when B
    // returned do not count.
    let dispatched = |number| {
        let since =
            host.done.iter().filter(|(issuer, _, at_ns, _)| *issuer == number && *at_ns >= host::BEGIN_NS + SECOND);
        since.count()
    };
    let (of_a, of_b) = (dispatched(a), dispatched(again));
    assert!(of_b >= 90 && of_b <= of_a + 1, "{of_b} against {of_a}");
    assert!(of_a <= of_b + 6, "{of_a} against {of_b}");
}

#[test]
fn t17_a_heavy_one_comes_and_goes() {
    let mut host = Host::new("give=3", 10, 100 * MICROSECOND, 32, &[20, 60]);
    let a = host.issuer(Issuer::of(1, 32));
    host.issuer(Issuer { from_ns: SECOND, until_ns: 2 * SECOND, ..Issuer::of(2, 32) });
    host.pass(3 * SECOND);
    let all = 10.0 * 1e9 / 100e3;
    for (from_ms, expected) in [(500, 1.0), (1_004, 0.25), (1_500, 0.25), (2_060, 1.0), (2_500, 1.0)] {
        let got = host.count(a, from_ms * MILLISECOND, (from_ms + 400) * MILLISECOND);
        assert!(within(got, all * expected * 0.4, 0.05), "at {from_ms} ms: {got} of {}", all * expected * 0.4);
    }
}

#[test]
fn t18_weights_change_at_once() {
    let mut host = Host::new("give=100", 8, 100 * MICROSECOND, 16, &[60, 20]);
    let (a, b) = (host.issuer(Issuer::of(1, 32)), host.issuer(Issuer::of(2, 32)));
    host.pass(200 * MILLISECOND);
    let _ = host.policy.group_changed(GroupId(1), &GroupSettings::with_weight(20), host.now);
    let _ = host.policy.group_changed(GroupId(2), &GroupSettings::with_weight(60), host.now);
    host.pass(200 * MILLISECOND);
    let shares = |from, to| [host.count(a, from, to), host.count(b, from, to)];
    assert_ratio(shares(50 * MILLISECOND, 200 * MILLISECOND), 3.0, 0.02);
    assert_ratio(shares(220 * MILLISECOND, 400 * MILLISECOND), 1.0 / 3.0, 0.02);
}

#[test]
fn t20_shares_of_three_levels_multiply() {
    let mut host = Host::new("give=3", 8, 100 * MICROSECOND, 16, &[100, 100]);
    for (group, weight) in [(3, 100), (4, 300)] {
        let settings = GroupSettings { parent: GroupId(1), ..GroupSettings::with_weight(weight) };
        host.policy.group_added(GroupId(group), &settings, host.now);
    }
    let b = host.issuer(Issuer::of(2, 32));
    let c = host.issuer(Issuer { until_ns: SECOND, ..Issuer::of(3, 32) });
    let d = host.issuer(Issuer::of(4, 32));
    host.pass(2 * SECOND);
    let all = 8.0 * 1e9 / 100e3;
    let first = [b, c, d].map(|issuer| host.count(issuer, 200 * MILLISECOND, SECOND));
    for (got, share) in first.into_iter().zip([0.5, 0.125, 0.375]) {
        assert!(within(got, all * 0.8 * share, 0.03), "{first:?}");
    }
    // The sibling gets what is left; the other group keeps what it had.
    let then = [b, d].map(|issuer| host.count(issuer, 1_200 * MILLISECOND, 2 * SECOND));
    assert!(within(then[0], all * 0.4, 0.03) && within(then[1], all * 0.4, 0.03), "{then:?}");
}

#[test]
fn t21_levels_of_issuers_are_weights_of_60_and_20() {
    let mut host = Host::new("give=3", 8, 100 * MICROSECOND, 16, &[100]);
    let of_level = |level| Issuer { priority: Priority::new(Class::BestEffort, level), ..Issuer::of(1, 24) };
    let (a, b) = (host.issuer(of_level(2)), host.issuer(of_level(6)));
    host.pass(SECOND);
    assert_ratio([host.count(a, 0, SECOND), host.count(b, 0, SECOND)], 3.0, 0.02);
}

#[test]
fn t26_a_lone_request_goes_in_the_call_that_inserts_it() {
    let mut host = Host::new("give=3", 4, 100 * MICROSECOND, 32, &[100]);
    host.issuer(Issuer { think_ns: 10 * MILLISECOND, ..Issuer::of(1, 1) });
    host.pass(SECOND);
    let mut due = 0;
    for (_, _, dispatched_ns, end_ns) in &host.done {
        assert!(due == 0 || *dispatched_ns == due, "asked at {due}, went at {dispatched_ns}");
        due = end_ns + 10 * MILLISECOND;
    }
    assert!(host.done.len() > 90);
}

#[test]
fn t27_a_flood_of_real_time_leaves_the_others_a_part() {
    let mut host = Host::new("give=3", 1, 100 * MICROSECOND, 1, &[100, 100]);
    let flood = host.issuer(Issuer { priority: Host::real_time(), ..Issuer::of(1, 32) });
    let other = host.issuer(Issuer::of(2, 4));
    host.pass(10 * SECOND);
    let got = [host.count(flood, 0, 10 * SECOND), host.count(other, 0, 10 * SECOND)];
    assert!(f64::from(got[1]) >= 0.05 * f64::from(got[0] + got[1]), "{got:?}");
    let of_other: Vec<_> = host.done.iter().filter(|(issuer, ..)| *issuer == other).collect();
    let longest_ns = of_other.windows(2).map(|pair| pair[1].3 - pair[0].3).max().unwrap();
    assert!(longest_ns < SECOND, "{longest_ns}");
}

#[test]
fn t28_exact_shares_that_cost_nothing_are_never_given_up() {
    // The device reaches its full throughput with 4 requests in flight, and exact shares of 3 : 1
    // are possible with up to 10.7.
    let mut host = Host::new("give=3", 4, 100 * MICROSECOND, 32, &[60, 20]);
    let (a, b) = (host.issuer(Issuer::of(1, 8)), host.issuer(Issuer::of(2, 8)));
    host.pass(SECOND);
    let epochs: Vec<_> = host.lines.iter().filter(|line| line.contains(" epoch ")).collect();
    assert!(epochs.len() > 10 && epochs.iter().all(|line| line.contains("phase=0")), "{epochs:?}");
    // In a reference epoch (an interval in which paternoster holds no tenant back and measures the
    // throughput) a tenant may get more than its share; it repays that afterwards.
    let got = [host.count(a, 200 * MILLISECOND, SECOND), host.count(b, 200 * MILLISECOND, SECOND)];
    assert_ratio(got, 3.0, 0.02);
    assert!(within(got[0] + got[1], 0.8 * 4.0 * 1e9 / 100e3, 0.01), "{got:?}");
}

#[test]
fn t30_without_held_bios_there_are_no_timers_and_no_epochs() {
    let mut host = Host::new("give=3", 8, 100 * MICROSECOND, 32, &[100]);
    host.issuer(Issuer::of(1, 32));
    host.pass(10 * SECOND);
    assert_eq!(host.timers, 0);
    assert_eq!(host.lines, Vec::<String>::new());
}

#[test]
fn t32_a_reader_of_depth_1_is_waited_for() {
    let mut host = Host::new("give=100", 1, 100 * MICROSECOND, 1, &[60, 20]);
    let a = host.issuer(Issuer { think_ns: 6 * MICROSECOND, ..Issuer::of(1, 1) });
    let b = host.issuer(Issuer { think_ns: 6 * MICROSECOND, ..Issuer::of(2, 8) });
    host.pass(SECOND);
    let got = [host.count(a, 100 * MILLISECOND, SECOND), host.count(b, 100 * MILLISECOND, SECOND)];
    assert_ratio(got, 3.0, 0.02);
    // The device is idle for at most 6 us for each request of A.
    let busy_ns = u64::from(got[0] + got[1]) * 100 * MICROSECOND;
    assert!(900 * MILLISECOND - busy_ns <= u64::from(got[0] + 2) * 6 * MICROSECOND, "{got:?}");
}

#[test]
fn t33_an_exited_tenant_is_not_waited_for() {
    for (settings, allowed_ns) in [("give=3", 55 * MILLISECOND), ("give=100", 300 * MICROSECOND)] {
        let mut host = Host::new(settings, 1, 100 * MICROSECOND, 1, &[60, 20]);
        host.issuer(Issuer { until_ns: 100 * MILLISECOND, think_ns: 6 * MICROSECOND, ..Issuer::of(1, 1) });
        let b = host.issuer(Issuer::of(2, 8));
        host.pass(500 * MILLISECOND);
        let from = 100 * MILLISECOND + allowed_ns;
        let got = host.count(b, from, from + 100 * MILLISECOND);
        assert!(got >= 998, "{settings}: {got} of 1000");
    }
}

#[test]
fn t34_a_leader_goes_on_when_the_heavy_one_ends() {
    for from_ms in [20, 333, 1_000] {
        let mut host = Host::new("give=3", 10, 100 * MICROSECOND, 32, &[20, 60]);
        let a = host.issuer(Issuer::of(1, 32));
        host.issuer(Issuer { until_ns: from_ms * MILLISECOND, ..Issuer::of(2, 32) });
        host.pass((from_ms + 500) * MILLISECOND);
        let begin = (from_ms + 60) * MILLISECOND;
        let got = host.count(a, begin, begin + 100 * MILLISECOND);
        assert!(within(got, 10_000.0, 0.01), "end at {from_ms} ms: {got}");
    }
}
