//! The attainable shares of a cell by formula (4) (docs/specifications/paternoster.md, section
//! 3.2), where it applies: direct reads of one kind, on flash, by concurrent tenants.

use hoistway_experiment::attainable::{Attainable, Curve, Tenant};
use hoistway_experiment::{Group, SchedulerSpec};

use super::cell::Cell;
use super::field::present_groups;
use crate::explain::{self, Curves};

/// The device's throughput for the tenants of a cell, and those tenants.
#[derive(Clone, Debug)]
pub struct Oracle {
    tenants: Vec<Tenant>,
    curve: Curve,
    depth: f64,
    request_bytes: f64,
}

impl Oracle {
    /// Measures the device's throughput, unless that was done for another cell already. None where
    /// the formula does not apply: on rotational devices, with group hierarchies or priorities, or
    /// with jobs other than closed loops of one kind.
    pub fn of(cell: &Cell, shares: &[f64], present: &[usize], curves: &mut Curves) -> Option<Self> {
        let is_plain = |group: &Group| !group.path.contains('/') && group.priority.is_none();
        if cell.is_rotational || !cell.groups.iter().all(is_plain) {
            return None;
        }
        let experiment = cell.experiment(&SchedulerSpec::named("none"), 1);
        let groups = present_groups(cell);
        let groups: Vec<_> = present.iter().map(|index| &groups[*index]).collect();
        let host_ns = experiment.machine.complete_ns_in_force();
        let (tenants, job) = explain::demand_of(&groups, shares, host_ns).ok()?;
        let request_bytes = f64::from(job.shape.block_sizes.read.largest_bytes());
        let curve = explain::curve_of(&experiment, &job, cell.queue_depth, curves).ok()?;
        Some(Self { tenants, curve, depth: f64::from(cell.queue_depth), request_bytes })
    }

    /// Bytes per second of each tenant at this loss of throughput (0 to 1).
    pub fn rates(&self, loss: f64) -> Vec<f64> {
        let can = Attainable::new(&self.tenants, &self.curve, self.depth, loss);
        can.rates.iter().map(|rate| rate * self.request_bytes).collect()
    }
}
