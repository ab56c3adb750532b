//! Bounds that the specification names: of leads, of service while both wait, of time; and memory.

use super::host::{BEGIN_NS, Host, Issuer};
use block::time::{MICROSECOND, MILLISECOND, SECOND};
use block::{ContextId, GroupId};
use hoistway_elevator::{Elevator, GroupSettings};

/// A number behind `name=` in a line of the trace.
fn number(line: &str, name: &str) -> Option<i64> {
    let text = line.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='))?;
    text.parse().ok()
}

/// Requests of 4 KiB of weight `w` move virtual time on by so much.
fn stride(weight: u64) -> u64 {
    (4096 * ((1 << 32) / weight)) >> 16
}

/// With exact shares nobody is sent who is ahead by more than eight of his requests, unless nobody else is inside or expected.
#[test]
fn t14_leads_are_bounded() {
    let mut host = Host::new("give=100", 8, 100 * MICROSECOND, 32, &[100, 300, 200]);
    host.keeps_picks = true;
    for (group, depth) in [(1, 4), (2, 6), (3, 16)] {
        host.issuer(Issuer::of(group, depth));
    }
    host.pass(200 * MILLISECOND);
    let picks: Vec<&String> = host.lines.iter().filter(|line| line.contains(" pick ")).collect();
    assert!(picks.len() > 200, "{} picks are told", picks.len());
    for line in picks {
        let lead = number(line, "lead").expect("a lead").unsigned_abs();
        assert!(lead <= 8 * stride(100), "{line}");
    }
    for line in host.lines.iter().filter(|line| line.contains(" inject ")) {
        assert_eq!(number(line, "n"), Some(0), "{line}");
    }
}

/// One that could not use its share for long has not saved it up: when it can, the others have theirs all the same.
#[test]
fn t14_claims_end() {
    let mut host = Host::new("give=3", 8, 100 * MICROSECOND, 32, &[100, 800]);
    let light = host.issuer(Issuer::of(1, 32));
    host.issuer(Issuer { until_ns: 2 * SECOND, ..Issuer::of(2, 1) });
    host.issuer(Issuer { from_ns: 2 * SECOND, ..Issuer::of(2, 32) });
    host.pass(2_200 * MILLISECOND);
    let begin = 2 * SECOND + 20 * MILLISECOND;
    let got = host.count(light, begin, begin + 100 * MILLISECOND);
    assert!(f64::from(got) >= 0.8 * 8_000.0 / 9.0, "{got}");
}

#[test]
fn t19_sizes_make_no_difference() {
    for settings in ["give=3", "give=100"] {
        let mut host = Host::new(settings, 1, 0, 32, &[100, 100]);
        // A link of 300 MB/s.
        (host.latency_ns, host.sector_ns) = (2 * MICROSECOND, 1_700);
        let small = host.issuer(Issuer::of(1, 32));
        let large = host.issuer(Issuer { sectors: 128, ..Issuer::of(2, 32) });
        host.pass(SECOND);
        let [small, large] = [small, large].map(|number| host.bytes[number as usize] as f64);
        assert!((small / large - 1.0).abs() <= 0.01, "{settings}: {small} against {large}");
    }
}

/// The wrap of virtual time is tested where it can be set: `tree.rs`.
#[test]
fn t31_the_same_calls_give_the_same_trace() {
    let run = || {
        let mut host = Host::new("give=3", 8, 100 * MICROSECOND, 32, &[100, 300]);
        host.issuer(Issuer::of(1, 4));
        host.issuer(Issuer::of(2, 2).pulsing(3 * MILLISECOND, 7 * MILLISECOND));
        host.pass(SECOND);
        (host.done, host.lines)
    };
    assert_eq!(run(), run());
}

/// 44, at the size of a test: issuers come and go a hundred thousand times, groups ten thousand times, in a room for 64 and 16.
#[test]
fn t44_queues_are_recycled() {
    let mut host = Host::new("give=3", 8, 100 * MICROSECOND, 32, &[100, 100]);
    host.issuer(Issuer { forks: true, ..Issuer::of(1, 30) });
    host.issuer(Issuer { forks: true, ..Issuer::of(2, 30) });
    let mut next = 3;
    for _ in 0..1_000 {
        for _ in 0..10 {
            host.policy.group_added(GroupId(next), &GroupSettings::with_weight(50), host.now);
            host.policy.group_offline(GroupId(next), host.now);
            host.policy.group_removed(GroupId(next), host.now);
            next = if next == 14 { 3 } else { next + 1 };
        }
        host.pass(MILLISECOND);
    }
    assert!(host.done.len() > 70_000, "{}", host.done.len());
    let _ = host.policy.context_exited(ContextId(0), host.now);
    // Both still have theirs: no leaf was lost on the way.
    let all: u64 = host.bytes.iter().sum();
    assert!((host.bytes[0] as f64 / (all as f64 / 2.0) - 1.0).abs() < 0.01, "{:?}", host.bytes);
    assert!(host.now > BEGIN_NS);
}
