//! Cases 26 to 36, 40, 42, 48 and 49 of docs/specifications/cfq.md, section 19: shares of groups on
//! a device of parallel servers. With `slice_idle` 0 on a device that queues commands CFQ is in
//! IOPS mode: it charges groups for requests instead of time. A turn is the time from a queue's
//! selection until its slice expires.

use std::collections::BTreeSet;

use crate::host::{Built, DISK, FLASH, Host, MS};
use crate::model::{Model, Outcome, Reader, assert_near, assert_shares, reader, run, servers};

/// A host with two groups of weights 100 and 800, which knows that the device queues commands.
fn two_groups(spec: &str) -> Host {
    with_groups(Host::new(spec), &[100, 800])
}

/// Adds groups 1, 2, ... with these weights. First the policy learns that the device queues
/// commands.
fn with_groups(mut host: Host, weights: &[u32]) -> Host {
    host.teach_depth(true);
    for (group, weight) in (1..).zip(weights) {
        host.group(group, *weight);
    }
    host.unchecked()
}

/// `each` readers in each of `groups` groups.
fn readers_in(groups: u32, each: u32, kind: impl Fn(Reader) -> Reader) -> Vec<Reader> {
    (0..groups * each).map(|n| kind(reader(n, 1 + n / each))).collect()
}

fn ratio(shares: &[f64]) -> f64 {
    shares[1] / shares[0]
}

#[test]
fn t26_idling_for_queues_shares_time_by_weight() {
    let mut host = two_groups("cfq@2.6.36");
    host.trace();
    let readers = readers_in(2, 1, |reader| reader);
    let outcome = run(&mut host, &readers, servers(8, MS), 20_000 * MS);
    assert_eq!(outcome.depth, 1);
    assert_near(ratio(&outcome.of_groups(&readers)), 7.8);
    assert_near(outcome.kb_per_s(8), 3640.0);
    let lines = host.lines();
    // After a few completions CFQ does not idle, because the rest of the slice is shorter than the
    // think time.
    let completions = lines.iter().filter(|line| line.contains("complete rqnoidle")).count();
    let waits = lines.iter().filter(|line| line.ends_with("arm_idle: 8 group_idle: 0")).count();
    assert!(waits <= completions && waits * 100 >= completions * 98, "{waits} waits in {completions} completions");
    let slices = |about: &str| lines.iter().find(|line| line.starts_with(about)).cloned();
    assert_eq!(slices("0S set_slice").as_deref(), Some("0S set_slice=33"));
    assert_eq!(slices("1S set_slice").as_deref(), Some("1S set_slice=100"));
    assert!(lines.iter().any(|line| line.starts_with("0S sl_used=33") && line.contains("charge=33 iops=0")));
    assert!(lines.iter().any(|line| line.starts_with("1S sl_used=100") && line.contains("charge=100 iops=0")));
    assert!(!lines.iter().any(|line| line.contains("iops=1")));
}

#[test]
fn t27_idling_for_groups_shares_requests_by_weight() {
    let mut host = two_groups("cfq@2.6.36:slice_idle=0");
    host.trace();
    let readers = readers_in(2, 1, |reader| reader);
    let outcome = run(&mut host, &readers, servers(8, MS), 20_000 * MS);
    assert_near(ratio(&outcome.of_groups(&readers)), 8.0);
    assert_near(outcome.kb_per_s(8), 3640.0);
    let lines = host.lines();
    assert!(lines.iter().any(|line| line.ends_with("arm_idle: 8 group_idle: 1")));
    assert!(!lines.iter().any(|line| line.ends_with("group_idle: 0")));
    // A request of 4 KiB is 8 sectors, and the charge is the number of requests.
    let charges: Vec<_> = lines.iter().filter(|line| line.contains("sl_used=")).collect();
    assert!(charges.len() > 100);
    for line in charges {
        let number = |name: &str| {
            let text = line.split(name).nth(1).and_then(|rest| rest.split(' ').next());
            text.and_then(|text| text.parse::<u64>().ok()).unwrap_or_else(|| panic!("{name} in {line}"))
        };
        assert_eq!((number("iops="), number("charge=")), (1, number("disp=")), "{line}");
        assert_eq!(number("sect="), 8 * number("disp="), "{line}");
    }
}

#[test]
fn t28_several_queues_of_a_group_fill_the_device() {
    for (each, kb_per_s, depth) in [(2, 8181.0, 3), (4, 16_363.0, 5), (8, 31_647.0, 9)] {
        let mut host = two_groups("cfq@2.6.36:slice_idle=0");
        host.trace();
        let readers = readers_in(2, each, |reader| reader);
        let outcome = run(&mut host, &readers, servers(8, MS), 20_000 * MS);
        assert_near(ratio(&outcome.of_groups(&readers)), 8.0);
        assert_near(outcome.kb_per_s(8), kb_per_s);
        assert_eq!(outcome.depth, depth);
        assert_waits_only_for_single_queues(&host.lines(), each);
        let idling = run(&mut two_groups("cfq@2.6.36"), &readers, servers(8, MS), 20_000 * MS);
        assert_near(idling.kb_per_s(8), 3640.0);
    }
}

/// Checks that the device is idled for a group only while a single one of its `each` queues is
/// busy.
fn assert_waits_only_for_single_queues(lines: &[String], each: u32) {
    let mut busy: BTreeSet<u32> = BTreeSet::new();
    for line in lines {
        let Some((queue, text)) = line.split_once("S ") else { continue };
        let queue: u32 = queue.parse().expect("a context");
        match text {
            "add_to_rr" => _ = busy.insert(queue),
            "del_from_rr" => _ = busy.remove(&queue),
            "arm_idle: 8 group_idle: 1" => {
                let of_its_group = busy.iter().filter(|other| **other / each == queue / each).count();
                assert_eq!(of_its_group, 1, "{line}");
            }
            _ => {}
        }
    }
}

#[test]
fn t29_without_any_idling_nothing_is_fair() {
    for each in [1, 2, 4, 8] {
        let mut host = two_groups("cfq@2.6.36:slice_idle=0,group_idle=0");
        let readers = readers_in(2, each, |reader| reader);
        let outcome = run(&mut host, &readers, servers(8, MS), 20_000 * MS);
        assert_near(ratio(&outcome.of_groups(&readers)), 1.0);
        if each == 1 {
            let dequeues = [1, 2].map(|group| host.account(group).dequeues);
            let done = [outcome.done[0], outcome.done[1]];
            // The last turn of each may still be running.
            assert!((0..2).all(|n| dequeues[n].abs_diff(done[n]) <= 1), "{dequeues:?} of {done:?}");
        }
    }
}

#[test]
fn t30_a_shallow_device_is_shared_by_time() {
    let mut host = Host::new("cfq@2.6.36:slice_idle=0");
    host.teach_depth(false);
    host.group(1, 100);
    host.group(2, 800);
    host.trace();
    let readers = readers_in(2, 1, |reader| reader);
    let outcome = run(&mut host, &readers, servers(8, MS), 20_000 * MS);
    assert_near(ratio(&outcome.of_groups(&readers)), 7.8);
    let charges = host.lines_with("sl_used=");
    assert!(charges.len() > 100);
    for line in charges {
        let used = line.split("sl_used=").nth(1).and_then(|rest| rest.split(' ').next()).expect("a number");
        assert!(used != "0" && line.contains(&format!("charge={used} iops=0")), "{line}");
    }
}

#[test]
fn t31_one_deep_reader_for_each_group() {
    let readers = readers_in(2, 1, |reader| reader.qd(16));
    let mut host = two_groups("cfq@2.6.36:slice_idle=0");
    let outcome = run(&mut host, &readers, servers(8, MS), 20_000 * MS);
    assert_shares(&outcome.of_groups(&readers), &[11.1, 88.9]);
    assert_near(outcome.per_s(), 7970.0);
    let mut host = two_groups("cfq@2.6.36:slice_idle=0,group_idle=0");
    let outcome = run(&mut host, &readers, servers(8, MS), 20_000 * MS);
    assert_shares(&outcome.of_groups(&readers), &[50.0, 50.0]);
}

#[test]
fn t32_without_isolation_iops_mode_knows_no_groups() {
    for version in ["2.6.36", "2.6.37"] {
        let mut host = two_groups(&format!("cfq@{version}:slice_idle=0,group_isolation=0"));
        host.trace();
        let readers = readers_in(2, 1, |reader| reader);
        let mut model = Model::new(&mut host, &readers, servers(8, MS));
        // A queue moves to the root only after its first slice, so the first second is not
        // measured.
        model.run(1_000 * MS);
        let moved = model.host.lines_with("moving to root group").len();
        let counted = |host: &Host| [0, 1, 2].map(|group| host.account(group).serviced.reads);
        let before = counted(model.host);
        let outcome = model.run(5_000 * MS);
        let after = counted(model.host);
        assert_near(ratio(&outcome.of_groups(&readers)), 1.0);
        assert!(moved >= 2, "{version}");
        assert_eq!(after[1..], before[1..], "{version}: the groups' files have stopped");
        assert!((after[0] - before[0]).abs_diff(outcome.total()) <= 2, "{version}: the root counts");
    }
}

#[test]
fn t33_without_isolation_only_sequential_queues_stay_in_their_groups() {
    let both = |isolation: u32, readers: &[Reader]| {
        let mut host = two_groups(&format!("cfq@2.6.36:group_isolation={isolation}"));
        ratio(&run(&mut host, readers, servers(8, MS), 20_000 * MS).of_groups(readers))
    };
    assert_near(both(0, &readers_in(2, 1, |reader| reader)), 7.8);
    for (each, isolated) in [(1, 7.8), (2, 8.0), (4, 8.0)] {
        let readers = readers_in(2, each, Reader::random);
        assert_near(both(0, &readers), 1.0);
        assert_near(both(1, &readers), isolated);
    }
}

fn slow_beside_quick(spec: &str, think_ns: u64) -> (Outcome, [u64; 2], u64) {
    let mut host = with_groups(Host::new(spec), &[500, 500]);
    let readers = [reader(0, 1).think(think_ns), reader(1, 2)];
    let outcome = run(&mut host, &readers, servers(1, MS), 30_000 * MS);
    let times = [1, 2].map(|group| host.account(group).time_ns / MS);
    (outcome, times, host.account(1).dequeues)
}

#[test]
fn t34_equal_requests_or_equal_time() {
    let (outcome, times, _) = slow_beside_quick("cfq@2.6.36:slice_idle=0", 5 * MS);
    assert_shares(&outcome.shares(), &[49.6, 50.4]);
    assert_near(times[0] as f64, 24_700.0);
    assert_near(times[1] as f64, 4_700.0);
    let (outcome, times, _) = slow_beside_quick("cfq@2.6.36", 5 * MS);
    assert_shares(&outcome.shares(), &[15.6, 84.4]);
    assert_near(times[0] as f64, 14_700.0);
    assert_near(times[1] as f64, 14_800.0);
}

#[test]
fn t35_a_queue_with_long_think_times_is_not_waited_for() {
    for spec in ["cfq@2.6.36", "cfq@2.6.36:slice_idle=0"] {
        let (outcome, _, dequeues) = slow_beside_quick(spec, 9 * MS);
        assert_shares(&outcome.shares(), &[1.1, 98.9]);
        assert!(dequeues + 1 >= outcome.done[0], "{spec}: {dequeues} of {}", outcome.done[0]);
    }
}

const EIGHT: [u32; 8] = [100, 200, 300, 400, 500, 600, 700, 800];

fn eight_groups(spec: &str, each: u32) -> (f64, Vec<f64>) {
    let mut host = with_groups(Host::new(spec), &EIGHT);
    let readers = readers_in(8, each, |reader| reader.sectors(64));
    let mut device = servers(12, 4 * MS);
    device.limit = 32;
    let outcome = run(&mut host, &readers, device, 60_000 * MS);
    // The MB of docs/specifications/cfq.md, section 20 are 1,000 KiB.
    (outcome.kb_per_s(64) / 1000.0, outcome.of_groups(&readers))
}

#[test]
fn t36_eight_groups_with_idling() {
    for (each, last_to_first) in [(1, 6.5), (2, 7.0), (4, 7.75), (8, 7.75)] {
        let (mb_per_s, shares) = eight_groups("cfq@2.6.36", each);
        assert_near(mb_per_s, 7.8);
        assert_near(shares[7] / shares[0], last_to_first);
    }
}

#[test]
fn t36_eight_groups_in_iops_mode() {
    for (each, expected) in [(1, 7.8), (2, 49.9), (4, 95.6), (8, 96.0)] {
        let (mb_per_s, shares) = eight_groups("cfq@2.6.36:slice_idle=0", each);
        assert_near(mb_per_s, expected);
        for (share, weight) in shares.iter().zip(EIGHT) {
            assert_near(*share, f64::from(weight) / 36.0);
        }
    }
}

#[test]
fn t36_eight_groups_without_any_idling() {
    for (each, expected) in [(1, 62.4), (2, 96.0), (4, 96.0)] {
        let (mb_per_s, shares) = eight_groups("cfq@2.6.36:slice_idle=0,group_idle=0", each);
        assert_near(mb_per_s, expected);
        assert_shares(&shares, &[12.5; 8]);
    }
    let (mb_per_s, shares) = eight_groups("cfq@2.6.36:slice_idle=0,group_idle=0", 8);
    for (share, expected) in shares.iter().zip([3.7, 7.4, 11.1, 14.8, 14.8, 14.8, 14.8, 14.8]) {
        assert_near(share * mb_per_s / 100.0, expected);
    }
}

fn on_flash(spec: &str, each: u32, weights: &[u32]) -> (Outcome, Vec<f64>) {
    let mut host = with_groups(Host::with(spec, &FLASH), weights);
    let readers = readers_in(2, each, |reader| reader.sectors(8));
    let outcome = run(&mut host, &readers, servers(8, MS), 10_000 * MS);
    let shares = outcome.of_groups(&readers);
    (outcome, shares)
}

#[test]
fn t40_no_timer_on_deep_flash_before_4_20() {
    for spec in ["cfq@2.6.36", "cfq@2.6.36:slice_idle=0"] {
        for (each, kb_per_s, depth) in [(1, 4_000.0, 1), (4, 16_000.0, 4)] {
            let (outcome, shares) = on_flash(spec, each, &[100, 800]);
            assert_near(ratio(&shares), 1.0);
            assert_near(outcome.kb_per_s(8), kb_per_s);
            assert_eq!(outcome.depth, depth, "{spec} {each}");
        }
    }
}

#[test]
fn t40_4_20_waits_for_a_group_on_flash() {
    let mut host = Host::with("cfq@4.20", &FLASH);
    assert_eq!(host.setting("slice_idle"), Some(0), "D26");
    host.teach_depth(true);
    host.group(1, 100);
    host.group(2, 800);
    host.trace();
    let readers = readers_in(2, 1, |reader| reader);
    let mut model = Model::new(&mut host, &readers, servers(8, MS));
    // The first second is not measured, because the first group to arrive is charged for its first
    // slice while it is alone.
    model.run(1_000 * MS);
    let outcome = model.run(20_000 * MS);
    assert_near(ratio(&outcome.of_groups(&readers)), 8.0);
    assert!(!host.lines_with("group_idle: 1").is_empty());
}

#[test]
fn t42_a_change_of_mode_starves_no_group() {
    for version in ["2.6.36", "4.20"] {
        let mut host = with_groups(Host::new(&format!("cfq@{version}")), &[500, 500]);
        // Enough readers that both groups are always backlogged; a turn in IOPS mode is one
        // request.
        let readers = readers_in(2, 8, |reader| reader);
        let mut model = Model::new(&mut host, &readers, servers(8, MS));
        let fair = |outcome: &Outcome, when: &str| {
            let shares = outcome.of_groups(&readers);
            assert!(shares.iter().all(|share| *share <= 60.0), "{version}, {when}: {shares:?}");
        };
        for turn in 0..10 {
            fair(&model.run((4_000 + 23 * turn) * MS), "time");
            model.host.set("slice_idle", 0);
            // About a hundred requests: 13 ms on 8 servers.
            let outcome = model.run(13 * MS);
            assert!((80..=110).contains(&outcome.total()), "{}", outcome.total());
            fair(&outcome, "after the switch");
            fair(&model.run(1_000 * MS), "requests");
            model.host.set("slice_idle", 8);
        }
    }
}

fn four_groups(spec: &str, each: u32, qd: u32, limit: usize, span_ms: u64) -> (f64, Vec<f64>) {
    let built = Built { slots: 1024, ..DISK };
    let mut host = with_groups(Host::with(spec, &built), &[100, 200, 400, 800]);
    let readers = readers_in(4, each, |reader| reader.qd(qd));
    let mut device = servers(32, MS / 10);
    device.limit = limit;
    let outcome = run(&mut host, &readers, device, span_ms * MS);
    let shares = outcome.of_groups(&readers);
    (outcome.per_s() / 320_000.0 * 100.0, shares.iter().map(|share| share / shares[0]).collect())
}

#[test]
fn t48_quantum_caps_the_depth_of_one_reader_for_each_group() {
    for (quantum, percent) in [(8, 25.0), (32, 50.0)] {
        let (used, ratios) = four_groups(&format!("cfq@2.6.36:slice_idle=0,quantum={quantum}"), 1, 32, 256, 6_000);
        assert_near(used, percent);
        for (measured, expected) in ratios.iter().zip([1.0, 2.05, 4.16, 7.8]) {
            assert_near(*measured, expected);
        }
    }
    let (used, ratios) = four_groups("cfq@2.6.36:slice_idle=0,group_idle=0", 1, 32, 256, 6_000);
    assert_near(used, 100.0);
    assert!(ratios.iter().all(|ratio| (ratio - 1.0).abs() < 0.03), "all fits in the device: {ratios:?}");
}

#[test]
fn t48_quantum_caps_the_depth_of_four_readers_for_each_group() {
    for (quantum, percent, last) in [(8, 25.0, 7.8), (32, 100.0, 8.0)] {
        let (used, ratios) = four_groups(&format!("cfq@2.6.36:slice_idle=0,quantum={quantum}"), 4, 32, 256, 1_500);
        assert_near(used, percent);
        for (measured, expected) in ratios.iter().zip([1.0, 2.0, 4.0, last]) {
            assert_near(*measured, expected);
        }
    }
}

#[test]
fn t49_a_deep_reader_for_each_group_below_the_hosts_limit() {
    let (used, _) = four_groups("cfq@2.6.36:slice_idle=0", 1, 64, 32, 1_500);
    assert_near(used, 25.0);
    let (used, ratios) = four_groups("cfq@2.6.36:slice_idle=0,quantum=32", 1, 64, 32, 1_500);
    assert_near(used, 100.0);
    for (measured, expected) in ratios.iter().zip([1.0, 1.75, 3.5, 7.0]) {
        assert_near(*measured, expected);
    }
}
