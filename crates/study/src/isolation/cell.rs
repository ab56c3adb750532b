//! A cell: tenants on the target, and what their runs are to show.

use hoistway_block::Nanos;
use hoistway_block::time::MILLISECOND;
use hoistway_experiment::{Experiment, Group, Machine, SchedulerSpec};

use super::desideratum::Desideratum;
use super::mechanism::Told;

/// Length of the bins in which a tenant's return is observed.
pub const BIN_NS: Nanos = MILLISECOND;

/// Tenants and their measurement.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Its name; unique.
    pub name: String,
    /// What it measures.
    pub desideratum: Desideratum,
    /// The tenants; the first is the important one.
    pub groups: Vec<Group>,
    /// Time before the window.
    pub ramp_ns: Nanos,
    /// Time in the window after which rounds begin: that of the first tenant's return.
    pub returns_ns: Nanos,
    /// Length of a round.
    pub round_ns: Nanos,
    /// Number of rounds.
    pub rounds: usize,
    /// The simulated computer.
    pub machine: Machine,
}

impl Cell {
    /// The tenants that also run alone: all whose progress is compared, or the one whose latency
    /// counts.
    pub fn tenants_alone(&self) -> Vec<usize> {
        let count = match self.desideratum {
            Desideratum::UnequalRequests | Desideratum::ReadsBesideWrites => self.groups.len(),
            Desideratum::Priority | Desideratum::Bursts | Desideratum::Delta => 1,
            Desideratum::LowOverhead | Desideratum::EqualRequests | Desideratum::WorkConservation => 0,
        };
        (0..count).collect()
    }

    /// Whether a tenant writes.
    pub fn has_writes(&self) -> bool {
        self.groups.iter().flat_map(|group| &group.jobs).any(|job| job.shape.mix.has_writes())
    }

    /// One tenant alone, without a scheduler.
    pub fn alone(&self, tenant: usize, run: &Run<'_>) -> Experiment {
        let (scheduler, groups) = (SchedulerSpec::named("none"), self.groups.clone());
        let told = Told { scheduler, limiters: Vec::new(), groups, ramp_ns: self.ramp_ns };
        self.experiment(told, run).alone(tenant)
    }

    /// One run.
    pub fn experiment(&self, told: Told, run: &Run<'_>) -> Experiment {
        Experiment {
            limiters: told.limiters,
            set: run.repetition,
            seed: run.seed,
            runtime_ns: self.returns_ns + self.round_ns * self.rounds as u64,
            ramp_ns: told.ramp_ns,
            machine: self.machine.clone(),
            ..Experiment::new(run.target, run.name.clone(), told.scheduler, told.groups)
        }
    }
}

/// What tells the runs of a cell apart.
#[derive(Clone, Debug)]
pub struct Run<'a> {
    /// The target.
    pub target: &'a str,
    /// The run's name in messages and for finding its result.
    pub name: String,
    /// The seed of all runs.
    pub seed: u64,
    /// The repetition, from 1.
    pub repetition: u32,
}

/// A cell for the tests of other modules.
#[cfg(test)]
pub mod tests {
    use super::*;
    use hoistway_experiment::Weight;
    use hoistway_workload::Job;

    /// A cell of equal requests with tenants of these weights.
    pub fn cell_of(weights: &[u32]) -> Cell {
        let group = |(index, weight): (usize, &u32)| {
            Group::new(format!("g{index}"), Weight::new(*weight).unwrap(), vec![Job::default()])
        };
        Cell {
            name: "c".to_owned(),
            desideratum: Desideratum::EqualRequests,
            groups: weights.iter().enumerate().map(group).collect(),
            ramp_ns: 0,
            returns_ns: 0,
            round_ns: 10 * BIN_NS,
            rounds: 5,
            machine: Machine::default(),
        }
    }
}
