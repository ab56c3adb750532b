//! Cells whose sides change during the run: the distance of the shares from the wanted shares, for
//! each second after the change.
//!
//! The wanted shares are those attainable at 3 % loss of throughput, or the exact shares where
//! those cost almost nothing; a second figure compares with the shares late in the same run. Where
//! sides read blocks of different sizes the attainable shares are unknown, and only the second
//! figure is printed.

use hoistway_experiment::attainable::{Attainable, Curve};
use hoistway_simulator::Simulator;
use hoistway_workload::Job;

use super::{Cell, Length, SECOND, Side, curve, device_depth, question, reads, run, tenants};

/// Seconds after the change from which on a share counts as late.
const LATE_S: usize = 5;

/// The jobs of a group that runs `before` until the change and `after` from then on.
pub(super) fn jobs(before: &Side, after: &Side, at_ns: u64) -> Vec<Job> {
    if before == after {
        return vec![reads(before)];
    }
    let first = reads(before).with(|job| job.times.runtime_ns = Some(at_ns));
    let second = reads(after).with(|job| job.times.start_delay_ns = (at_ns, at_ns));
    let is_there = |side: &Side| side.jobs > 0;
    [(before, first), (after, second)].into_iter().filter(|(side, _)| is_there(side)).map(|(_, job)| job).collect()
}

/// Shares of bytes in each second after the change, by group.
fn seconds(cell: &Cell, scheduler: &str, seed: u64, length: &Length) -> Vec<Vec<f64>> {
    let measurement = run(Simulator::default(), &question(cell, scheduler, seed, length));
    let of = |second: usize| {
        let bytes = measurement.groups.iter().map(|group| group.read.samples[second].bytes as f64);
        parts(bytes.collect())
    };
    (0..usize::try_from(length.runtime_ns / SECOND).expect("few")).map(of).collect()
}

fn parts(values: Vec<f64>) -> Vec<f64> {
    let sum: f64 = values.iter().sum();
    values.iter().map(|value| value / sum).collect()
}

/// Means over seconds.
fn mean(seconds: &[Vec<f64>]) -> Vec<f64> {
    parts((0..seconds[0].len()).map(|group| seconds.iter().map(|second| second[group]).sum()).collect())
}

/// The largest distance from the wanted share among groups of at least 2 % share, in per cent.
fn distance(shares: &[f64], wanted: &[f64], due: &[f64]) -> f64 {
    let each = shares.iter().zip(wanted).zip(due).filter(|(_, due)| **due >= 0.02);
    each.map(|((got, wanted), _)| (got / wanted - 1.0).abs() * 100.0).fold(0.0, f64::max)
}

/// The attainable shares, and whether they equal those of the weights.
fn wanted(cell: &Cell) -> Option<(Vec<f64>, bool)> {
    let there: Vec<&Side> = cell.after.iter().filter(|side| side.jobs > 0).collect();
    let block_bytes = there[0].block_bytes;
    if there.iter().any(|side| side.block_bytes != block_bytes) {
        return None;
    }
    let depth = device_depth(&cell.model);
    let curve: Curve = curve(&cell.model, depth, block_bytes);
    let can = Attainable::new(&tenants(&cell.after), &curve, depth, 0.03);
    Some((parts(can.rates), can.n_star >= can.n_eps))
}

/// One line per cell and scheduler: for each second the largest distance over all seeds.
pub(super) fn print(cells: &[Cell], schedulers: &[String], seeds: &[u64], length: &Length) {
    println!(
        "largest distance of a share in per cent, seconds 1, 2, 3, 4, then from second {LATE_S} on; the largest of {} seeds",
        seeds.len()
    );
    println!("| device, change | scheduler | exact is free | from what can be had | from what it has late |");
    println!("| --- | --- | --- | --- | --- |");
    for cell in cells.iter().filter(|cell| !cell.after.is_empty()) {
        let weight = |side: &Side| if side.jobs > 0 { f64::from(side.weight) } else { 0.0 };
        let due = parts(cell.after.iter().map(weight).collect());
        let can = wanted(cell);
        for scheduler in schedulers {
            let (mut from_can, mut from_late) = (vec![0.0_f64; LATE_S], vec![0.0_f64; LATE_S - 1]);
            for seed in seeds {
                let seconds = seconds(cell, scheduler, *seed, length);
                let late = mean(&seconds[LATE_S - 1..]);
                for (second, shares) in seconds[..LATE_S - 1].iter().enumerate() {
                    from_late[second] = from_late[second].max(distance(shares, &late, &due));
                }
                let Some((can, _)) = &can else { continue };
                for (second, shares) in seconds[..LATE_S - 1].iter().chain([&late]).enumerate() {
                    from_can[second] = from_can[second].max(distance(shares, can, &due));
                }
            }
            let list = |values: &[f64]| values.iter().map(|value| format!("{value:.1}")).collect::<Vec<_>>().join(", ");
            let (free, from_can) = match &can {
                Some((_, is_free)) => (if *is_free { "yes" } else { "no" }, list(&from_can)),
                None => ("unknown", String::new()),
            };
            println!("| {} {} | `{scheduler}` | {free} | {from_can} | {} |", cell.model, cell.text, list(&from_late));
        }
    }
}
