//! A cell: tenants on a simulated device, and the runs that it consists of.

use hoistway_block::Nanos;
use hoistway_experiment::{Experiment, Group, Machine, SchedulerSpec};

use super::format::Kind;

/// Tenants on a device.
#[derive(Clone, Debug)]
pub struct Cell {
    /// The kind of cell.
    pub kind: Kind,
    /// Description in one line; empty for cells of the grid, whose names suffice.
    pub doc: String,
    /// Its name in tables; unique: `ssd drr 100,800`.
    pub name: String,
    /// The target for the simulator: `model:ssd`.
    pub target: String,
    /// Whether the device is rotational.
    pub is_rotational: bool,
    /// The device's queue depth.
    pub queue_depth: u32,
    /// The tenants.
    pub groups: Vec<Group>,
    /// Ramp, not judged, in nanoseconds.
    pub ramp_ns: Nanos,
    /// The judged part, in nanoseconds.
    pub runtime_ns: Nanos,
    /// Times of changes in nanoseconds after the start; ascending, none later than the ramp.
    pub changes: Vec<Nanos>,
    /// Whether the change is that the device becomes slower by itself; its time is then detected in
    /// each run.
    pub is_fall: bool,
    /// The simulated computer.
    pub machine: Machine,
}

impl Cell {
    /// The experiment with one tenant alone. Its throughput is an upper bound of what the tenant is
    /// due beside the others.
    pub fn alone(&self, index: usize, seed: u64) -> Experiment {
        self.experiment(&SchedulerSpec::named("none"), seed).alone(index)
    }

    /// Whether the device's throughput is constant from the start, so that the time until shares
    /// settle is meaningful. Writes to a fresh SSD become slower when garbage collection begins.
    pub fn is_alike_from_the_start(&self) -> bool {
        let mut jobs = self.groups.iter().flat_map(|group| &group.jobs);
        self.is_rotational || self.target.contains("precondition=random") || !jobs.any(|job| job.shape.mix.has_writes())
    }

    /// One run of the cell.
    pub fn experiment(&self, scheduler: &SchedulerSpec, seed: u64) -> Experiment {
        Experiment {
            seed,
            // Convergence begins at the start: everything is measured, and the ramp is dropped
            // afterwards.
            runtime_ns: self.ramp_ns + self.runtime_ns,
            machine: self.machine.clone(),
            ..Experiment::new(self.target.clone(), self.name.clone(), scheduler.clone(), self.groups.clone())
        }
    }
}
