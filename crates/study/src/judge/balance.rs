//! Isolation and weighted speedup of a cell whose tenants differ: two figures that take no side
//! between sizes of requests.
//!
//! ```text
//! isolation  got / entitled of the tenant worst off (docs/concepts/entitlement.md)
//! speedup    sum over tenants of got / alone (Eyerman and Eeckhout, IEEE Micro 28(3), 2008)
//! ```
//! In bytes, a scheduler looks better that lets large requests keep small ones away; in requests, one
//! that does the contrary. A tenant is entitled to a part of the device's time.

use hoistway_experiment::Group;
use hoistway_experiment::entitlement::{Entitlement, of_groups};
use hoistway_experiment::job::Mix;
use hoistway_experiment::measurement::SoloRates;

use super::cell::Cell;
use super::field::{present, present_groups};

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
        .map(|job| if job.shape.mix == Mix::Write { &job.shape.block_sizes.write } else { &job.shape.block_sizes.read })
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
    let entitled = of_groups(&groups, solo_rates, (cell.ramp_ns, cell.ramp_ns + cell.runtime_ns))?;
    let entitled = present.iter().map(|index| entitled[*index]).collect();
    Some(Balance {
        isolation: Entitlement::of(rates.to_vec(), entitled)?.isolation,
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
