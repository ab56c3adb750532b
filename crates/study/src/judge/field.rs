//! Computes figures from runs: each scheduler's results in a cell, means over seeds, and the shares
//! that were due.

use hoistway_block::{Class, Nanos, Priority};
use hoistway_experiment::job::Job;
use hoistway_experiment::measurement::SoloRates;
use hoistway_experiment::share::{Fairness, due_up_to};
use hoistway_experiment::{Group, ShareUnit};

use super::cell::Cell;
use super::runs::Run;
use super::series::{BIN_NS, Series};
use super::verdict::{SMALLEST_SHARE, Score};

/// The largest share error of a run, and the shares of the total that were due.
struct Shares {
    error: f64,
    due: Vec<f64>,
}

/// The groups during the judged part: with their last weights, and without jobs that have ended,
/// arrive late, or pulse.
pub fn present_groups(cell: &Cell) -> Vec<Group> {
    let (from_ns, end_ns) = (cell.ramp_ns, cell.ramp_ns + cell.runtime_ns);
    let of_group = |group: &Group| {
        let is_there = group.start_ns <= from_ns && group.stop_ns.is_none_or(|stop_ns| stop_ns >= end_ns);
        let is_long = |job: &&Job| {
            let end_of = |length_ns: Nanos| job.times.start_delay_ns.0.saturating_add(length_ns);
            job.times.start_delay_ns.1 <= from_ns
                && job.times.runtime_ns.is_none_or(|length_ns| end_of(length_ns) >= end_ns)
        };
        let jobs = group.jobs.iter().filter(|_| is_there).filter(is_long).cloned().collect();
        let changed = group.reweigh.filter(|change| change.at_ns <= from_ns);
        Group { jobs, weight: changed.map_or(group.weight, |change| change.weight), ..group.clone() }
    };
    cell.groups.iter().map(of_group).collect()
}

/// The tenants of a cell that are present during the judged part, by index.
pub fn present(cell: &Cell) -> Vec<usize> {
    let groups = present_groups(cell);
    (0..groups.len()).filter(|index| !groups[*index].jobs.is_empty()).collect()
}

/// The judged bins.
pub fn measured_bins(cell: &Cell) -> (usize, usize) {
    let bin = |ns: u64| usize::try_from(ns / BIN_NS).unwrap_or(usize::MAX);
    (bin(cell.ramp_ns), bin(cell.ramp_ns + cell.runtime_ns))
}

/// The share error and due shares of one run; the error is 100 % if nothing was transferred.
fn shares(cell: &Cell, solo_rates: &[SoloRates], present: &[usize], rates: &[f64]) -> Shares {
    // A tenant that has ended, or only pulses, is due nothing.
    let groups = present_groups(cell);
    let weights: Vec<u32> = groups.iter().map(|group| group.weight.get()).collect();
    let got: Vec<f64> = present.iter().map(|index| rates[*index]).collect();
    let solo_rates: Vec<f64> = solo_rates.iter().map(|solo_rates| solo_rates.per_s(ShareUnit::Bytes)).collect();
    let due = due_by_class(got.iter().sum(), &groups, &weights, &solo_rates);
    let due: Vec<f64> = present.iter().map(|index| due[*index]).collect();
    match Fairness::of(&got, &due) {
        Some(fairness) => Shares { error: fairness.error_max, due: fairness.due },
        None => Shares { error: 1.0, due: vec![1.0 / present.len().max(1) as f64; present.len()] },
    }
}

/// Divides the throughput class by class, in the order real time, best effort, idle: what the
/// higher classes leave is divided by weight within the next one.
fn due_by_class(total: f64, groups: &[Group], weights: &[u32], solo_rates: &[f64]) -> Vec<f64> {
    let mut due = vec![0.0; groups.len()];
    let mut left = total;
    for class in [Class::RealTime, Class::BestEffort, Class::Idle] {
        let members: Vec<Group> = groups.iter().map(|group| only_of(group, class)).collect();
        let parts = due_up_to(left, &members, weights, ShareUnit::Bytes, solo_rates);
        due.iter_mut().zip(&parts).for_each(|(due, part)| *due += part);
        left -= parts.iter().sum::<f64>();
        // A rest this small comes from rounding and chance, and is due to no tenant.
        if left < total * SMALLEST_SHARE {
            break;
        }
    }
    due
}

/// The group, or the group without jobs if it is of another class.
fn only_of(group: &Group, class: Class) -> Group {
    if Priority(group.priority.unwrap_or(0)).class() == class {
        group.clone()
    } else {
        Group { jobs: Vec::new(), ..group.clone() }
    }
}

/// The figures of a scheduler's runs of a cell, one per seed, and the shares of the total that the
/// tenants are due.
pub fn score(cell: &Cell, solo_rates: &[SoloRates], runs: &[&Run]) -> (Score, Vec<f64>) {
    let present = present(cell);
    let (from, to) = measured_bins(cell);
    let count = runs.len().max(1) as f64;
    let mut score = Score { error: 0.0, throughput: 0.0, rates: vec![0.0; present.len()], can: None };
    let mut due = vec![0.0; present.len()];
    for run in runs {
        let rates = run.series.rates(from, to);
        let Shares { error, due: shares } = shares(cell, solo_rates, &present, &rates);
        score.error += error / count;
        // Tenants that come and go are included, because they used a part of the device as well.
        score.throughput += rates.iter().sum::<f64>() / count;
        for (place, index) in present.iter().enumerate() {
            score.rates[place] += rates[*index] / count;
            due[place] += shares[place] / count;
        }
    }
    (score, due)
}

/// Standard deviation over mean of the throughput of whole seconds, over all seeds: the variances
/// of the runs are averaged, so that differences between the means of the seeds do not count.
pub fn variation(cell: &Cell, runs: &[&Series]) -> Option<f64> {
    let (from, to) = measured_bins(cell);
    let mut sum = 0.0;
    for series in runs {
        let seconds = series.seconds(from, to);
        if seconds.len() < 2 {
            return None;
        }
        let mean = seconds.iter().sum::<f64>() / seconds.len() as f64;
        if mean <= 0.0 {
            return None;
        }
        let squares = seconds.iter().map(|value| (value / mean - 1.0).powi(2)).sum::<f64>();
        sum += squares / (seconds.len() - 1) as f64;
    }
    Some((sum / runs.len().max(1) as f64).sqrt())
}
