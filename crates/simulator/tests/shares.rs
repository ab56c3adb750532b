//! Shares: the effect of weights on bandwidth when the device is the bottleneck.

mod experiments;

use experiments::{MS, experiment, random_reads, run};
use hoistway_experiment::{GroupPriority, Measurement};

/// Bytes of each group per unit of weight, relative to the mean of all groups.
fn relative_shares(measurement: &Measurement) -> Vec<f64> {
    let per_weight: Vec<_> =
        measurement.groups.iter().map(|group| group.bytes() as f64 / f64::from(group.weight)).collect();
    let mean = per_weight.iter().sum::<f64>() / per_weight.len() as f64;
    per_weight.iter().map(|share| share / mean).collect()
}

fn tenants(scheduler: &str, weights: &[u32]) -> Measurement {
    let paths = ["a", "b", "c", "d"];
    let groups = paths.iter().zip(weights).map(|(path, weight)| (*path, *weight, random_reads(32))).collect();
    let mut question = experiment("ssd", scheduler, groups);
    question.device_depth = Some(8);
    question.runtime_ns = 1_000 * MS;
    run(&question)
}

fn assert_shares(measurement: &Measurement, tolerance: f64) {
    let shares = relative_shares(measurement);
    assert!(shares.iter().all(|share| (share - 1.0).abs() < tolerance), "{shares:?}");
}

#[test]
fn wfq_gives_two_tenants_one_to_eight() {
    assert_shares(&tenants("wfq", &[100, 800]), 0.02);
}

#[test]
fn wfq_gives_three_tenants_shares_by_weight() {
    assert_shares(&tenants("wfq", &[100, 200, 400]), 0.02);
}

#[test]
fn wfq_costs_no_throughput() {
    let (fair, none) = (tenants("wfq", &[100, 800]), tenants("none", &[100, 800]));
    let ratio = fair.bytes_per_s() / none.bytes_per_s();
    assert!(ratio > 0.97, "{ratio}");
}

#[test]
fn noop_has_no_weights_and_reports_it() {
    let measurement = tenants("noop", &[100, 800]);
    let ratio = measurement.groups[1].bytes() as f64 / measurement.groups[0].bytes() as f64;
    assert!((ratio - 1.0).abs() < 0.02, "{ratio}");
    assert!(measurement.flags.contains(&hoistway_experiment::measurement::Flag::NoShares));
}

#[test]
fn wfq_divides_a_parents_share_among_its_children() {
    let job = || random_reads(16);
    let groups = vec![("left/a", 300, job()), ("left/b", 100, job()), ("right", 100, job())];
    let mut question = experiment("ssd", "wfq", groups);
    question.device_depth = Some(8);
    // Enough tags for every group: wfq limits tags by the groups' own weights, without regard to
    // their parents'.
    question.queue_requests = Some(128);
    question.runtime_ns = 1_000 * MS;
    let measurement = run(&question);
    // "left" has the default weight of 100, as "right": half each, and three quarters of the left
    // half for a.
    let all = measurement.bytes_per_s();
    let shares: Vec<_> = measurement.groups.iter().map(|group| measurement.per_s(group.bytes()) / all).collect();
    for (share, expected) in shares.iter().zip([0.375, 0.125, 0.5]) {
        assert!((share / expected - 1.0).abs() < 0.03, "{shares:?}");
    }
}

/// The priority levels of groups reach the two policies of 2008 that know them; `expected` are the
/// weights to which the levels correspond.
#[test]
fn levels_of_groups_share_a_disks_time() {
    // Slices that are long compared with a read, which may begin before a slice and end after it.
    for (scheduler, levels, expected) in [
        ("uchida:key_offset=0,group_slice=500", [0, 4, 7], [800, 400, 100]),
        ("tarasov:group_slice=500", [7, 4, 0], [800, 500, 100]),
    ] {
        let groups = ["a", "b", "c"].into_iter().zip(expected);
        // Many readers with one request each: of a deep queue up to 16 requests would be dispatched
        // at once, whatever the slice.
        let groups =
            groups.map(|(path, weight)| (path, weight, random_reads(1).with(|job| job.threads = 25))).collect();
        let mut question = experiment("sata", scheduler, groups);
        for (group, level) in question.groups.iter_mut().zip(levels) {
            group.group_priority = Some(GroupPriority::new(level).expect("a level"));
        }
        question.device_depth = Some(1);
        question.queue_requests = Some(128);
        question.runtime_ns = 60_000 * MS;
        assert_shares(&run(&question), 0.1);
    }
}
