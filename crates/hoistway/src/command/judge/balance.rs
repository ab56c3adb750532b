//! Isolation and weighted speedup of a cell whose tenants differ: two figures that take no side
//! between sizes of requests.
//!
//! ```text
//! isolation  of the tenant worst off: got / min(alone, its share of the work by weight)
//! speedup    sum over tenants of got / alone (Eyerman and Eeckhout, IEEE Micro 28(3), 2008)
//! ```
//! The share is one of the work that the judged run did, so what a scheduler loses in total shows in the
//! speedup only. A table's isolation (`hoistway_experiment::entitlement`) is one of what the full device
//! does; that takes a run more for each kind of group, which a grid of cells does not make.
//! In bytes, a scheduler looks better that lets large requests keep small ones away; in requests, one
//! that does the contrary. A request's work is its length and 4 KiB.

use hoistway_experiment::job::Mix;
use hoistway_experiment::measurement::SoloRates;
use hoistway_experiment::share::due_up_to;
use hoistway_experiment::{Group, ShareUnit};

use super::cells::Cell;
use super::field::{present, present_groups};

/// Work of a request apart from its length, in bytes.
const REQUEST_BYTES: f64 = 4096.0;
/// A tenant whose requests are this many times as large as another's fills a device with work that the
/// other must wait for, so that less isolation is asked for.
const MUCH_LARGER: f64 = 16.0;
/// The isolation that is asked for beside much larger requests, and elsewhere.
const ISOLATED_BESIDE_LARGE: f64 = 0.60;
const ISOLATED: f64 = 0.85;
/// Tolerance for noise in the comparison of speedups.
const SPEEDUP_NOISE: f64 = 0.005;

/// A scheduler's two figures in a cell.
#[derive(Copy, Clone, PartialEq, Debug)]
pub struct Balance {
    /// 1 = the tenant worst off gets what it is due.
    pub isolation: f64,
    /// The number of tenants, if each gets as much as alone.
    pub speedup: f64,
}

/// What is asked of a scheduler in a cell.
#[derive(Copy, Clone, PartialEq, Debug)]
pub struct Goal {
    /// The least isolation.
    pub isolation: f64,
    /// The speedup under `none`.
    pub speedup: f64,
}

impl Goal {
    /// Whether both are reached.
    pub fn is_reached(self, balance: Balance) -> bool {
        self.is_isolated(balance) && self.is_fast(balance)
    }

    /// Whether the tenant worst off gets enough.
    pub fn is_isolated(self, balance: Balance) -> bool {
        balance.isolation >= self.isolation
    }

    /// Whether no less is done in all than under `none`.
    pub fn is_fast(self, balance: Balance) -> bool {
        balance.speedup >= self.speedup * (1.0 - SPEEDUP_NOISE)
    }
}

/// Mean length of a group's requests.
fn request_bytes(group: &Group) -> f64 {
    let sizes: Vec<f64> = group
        .jobs
        .iter()
        .map(|job| if job.mix == Mix::Write { &job.block_sizes.write } else { &job.block_sizes.read })
        .map(|size| f64::from(size.largest_bytes()))
        .collect();
    sizes.iter().sum::<f64>() / sizes.len().max(1) as f64
}

/// The figures from the rates of the tenants that are present, in bytes per second; none unless it is
/// known what each achieves alone.
pub fn balance(cell: &Cell, solo_rates: &[SoloRates], rates: &[f64]) -> Option<Balance> {
    let (present, groups) = (present(cell), present_groups(cell));
    let alone = |index: &usize| solo_rates.get(*index).map(|alone| alone.bytes_per_s).filter(|rate| *rate > 0.0);
    let alones: Vec<f64> = present.iter().map(alone).collect::<Option<_>>()?;
    let work_of = |index: usize| 1.0 + REQUEST_BYTES / request_bytes(&groups[index]).max(1.0);
    let mut solo_work = vec![0.0; groups.len()];
    present.iter().zip(&alones).for_each(|(index, alone)| solo_work[*index] = alone * work_of(*index));
    let total = present.iter().zip(rates).map(|(index, rate)| rate * work_of(*index)).sum();
    let weights: Vec<u32> = groups.iter().map(|group| group.weight.get()).collect();
    let due = due_up_to(total, &groups, &weights, ShareUnit::Bytes, &solo_work);
    let parts = present.iter().zip(rates).map(|(index, rate)| rate * work_of(*index) / due[*index].max(1.0));
    Some(Balance {
        isolation: parts.fold(f64::INFINITY, f64::min),
        speedup: rates.iter().zip(&alones).map(|(rate, alone)| rate / alone).sum(),
    })
}

/// What is asked for in a cell, if this is the result of `none`.
pub fn goal(cell: &Cell, none: Balance) -> Goal {
    let groups = present_groups(cell);
    let sizes: Vec<f64> = present(cell).iter().map(|index| request_bytes(&groups[*index])).collect();
    let smallest = sizes.iter().copied().fold(f64::INFINITY, f64::min);
    let is_much_larger = sizes.iter().any(|size| *size >= MUCH_LARGER * smallest);
    Goal { isolation: if is_much_larger { ISOLATED_BESIDE_LARGE } else { ISOLATED }, speedup: none.speedup }
}
