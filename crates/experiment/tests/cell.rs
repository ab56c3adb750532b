//! Cells: repetitions become estimates, schedulers keep their order, and efficiency is relative to
//! the best one.

mod example;

use example::measured;
use hoistway_experiment::cell::{cells, is_precise};
use hoistway_experiment::measurement::Tally;
use hoistway_experiment::metric::Metric;
use hoistway_experiment::{IoDirection, Measurement, SchedulerSpec};

fn results() -> Vec<Measurement> {
    vec![
        measured("none", 1, 2, &[110, 110], 3_000_000),
        measured("cfq", 1, 1, &[30, 60], 9_000_000),
        measured("none", 1, 1, &[90, 90], 1_000_000),
        measured("cfq", 1, 2, &[30, 60], 9_000_000),
    ]
}

#[test]
fn cells_follow_the_order_of_the_plan() {
    let (results, plan) = (results(), ["cfq", "none"].map(SchedulerSpec::named));
    let names: Vec<String> = cells(&results, &plan).iter().map(|cell| cell.name()).collect();
    assert_eq!(names, ["drr cfq nr=1", "drr none nr=1"]);
}

#[test]
fn repetitions_become_an_estimate() {
    let results = results();
    let cells = cells(&results, &[]);
    let none = &cells[0];
    // 220 and 180 KiB/s: mean 200, s = 28.28, t = 12.706, half width 12.706 x 28.28 / sqrt(2) =
    // 254.1
    assert_eq!((none.bytes_per_s.mean, none.bytes_per_s.n), (200.0 * 1024.0, 2));
    assert_eq!((none.bytes_per_s.ci95.unwrap() / 1024.0).round(), 254.0);
    assert!(!is_precise(&cells, 0.05), "127 % is not precise");
    assert!(is_precise(&cells[1..], 0.05), "cfq did the same twice");
}

#[test]
fn efficiency_is_relative_to_the_best_of_the_row() {
    let results = results();
    let efficiency: Vec<f64> = cells(&results, &[]).iter().map(|cell| cell.efficiency.mean).collect();
    assert_eq!(efficiency, [1.0, 0.45]);
}

#[test]
fn percentiles_are_of_the_merged_histograms_and_their_interval_of_the_sets() {
    let results = results();
    let cells = cells(&results, &[]);
    // 2 x 90/4 = 44 requests of 1 ms, 2 x 110/4 = 54 of 3 ms: the median is 3 ms (its bucket stands
    // for 2,998,272 ns), not the mean of medians, 2 ms.
    let median = Metric::LatP50.of(&cells[0], None, None).unwrap();
    assert_eq!((median.mean.round(), median.sd.round()), (2_998_272.0, 1_414_214.0));
    assert_eq!(Metric::Errors.of(&cells[0], None, None).unwrap().mean, 0.0);
}

/// A discard has a length but transfers nothing: it has a column of its own and counts for neither
/// shares nor winners.
#[test]
fn discards_are_no_throughput() {
    let mut results = results();
    for run in &mut results {
        run.groups[0].trim = Tally { bytes: 2 << 30, ios: 3, ..Tally::default() };
    }
    let cells = cells(&results, &[]);
    let none = &cells[0];
    assert_eq!((none.bytes_per_s.mean, none.groups[0].bytes_per_s.mean), (200.0 * 1024.0, 100.0 * 1024.0));
    assert_eq!(none.discarded_bytes_per_s.mean, f64::from(1 << 30) * 2.0);
    assert_eq!(none.groups[1].discarded_bytes_per_s.mean, 0.0);
    assert_eq!(none.fairness.as_ref().unwrap().share, [0.5, 0.5]);
    let figure = |metric: Metric, group, direction| metric.of(none, group, direction).unwrap().mean;
    assert_eq!(figure(Metric::TotalBw, None, None), 200.0 * 1024.0);
    assert_eq!(figure(Metric::TotalBw, None, Some(IoDirection::Trim)), 2_147_483_648.0);
    assert_eq!(figure(Metric::DiscardBw, Some(0), None), 2_147_483_648.0);
    assert_eq!(figure(Metric::TotalDiscardBw, None, None), 2_147_483_648.0);
    // A discard is an I/O: 27 + 3 requests in one set, 22 + 3 in the other.
    assert_eq!(figure(Metric::Iops, Some(0), None), 27.5);
}
