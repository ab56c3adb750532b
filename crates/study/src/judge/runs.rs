//! The runs of a plan: every cell under every scheduler with every seed, each reduced to the judged data.

use std::collections::BTreeMap;

use hoistway_experiment::measurement::SoloRates;
use hoistway_experiment::{Experiment, SchedulerSpec};

use super::cell::Cell;
use super::series::Series;

/// One run, reduced.
#[derive(Clone, Debug)]
pub struct Run {
    /// The bytes of each tenant over time.
    pub series: Series,
}

/// The runs to make.
#[derive(Debug)]
pub struct Plan {
    /// The cells.
    pub cells: Vec<Cell>,
    /// The schedulers to judge, then those for comparison; `none` is always among them.
    pub schedulers: Vec<SchedulerSpec>,
    /// How many of them are judged.
    pub judged_schedulers: usize,
    /// One run per seed.
    pub seeds: Vec<u64>,
}

/// The results.
#[derive(Debug, Default)]
pub struct Runs {
    made: BTreeMap<(usize, usize, usize), Run>,
    solo_rates: BTreeMap<(usize, usize), SoloRates>,
    tenants: Vec<usize>,
}

impl Runs {
    /// None yet.
    pub fn of_plan(plan: &Plan) -> Self {
        Self { tenants: plan.cells.iter().map(|cell| cell.groups.len()).collect(), ..Self::default() }
    }

    /// Adds the run of a cell, a scheduler and a seed, by index.
    pub fn add(&mut self, place: (usize, usize, usize), run: Run) {
        self.made.insert(place, run);
    }

    /// What a tenant of a cell gets alone, to be filled in.
    pub fn solo_rates_of(&mut self, cell: usize, tenant: usize) -> &mut SoloRates {
        self.solo_rates.entry((cell, tenant)).or_default()
    }

    /// The runs of a cell and a scheduler, one per seed; fewer after a signal.
    pub fn of(&self, cell: usize, scheduler: usize) -> Vec<&Run> {
        let key = |seed| (cell, scheduler, seed);
        self.made.range(key(0)..=key(usize::MAX)).map(|(_, run)| run).collect()
    }

    /// The results of each tenant of a cell alone; empty if not measured.
    pub fn solo_rates(&self, cell: usize) -> Vec<SoloRates> {
        let tenants = 0..self.tenants.get(cell).copied().unwrap_or(0);
        let known = |tenant| self.solo_rates.get(&(cell, tenant)).copied();
        if tenants.clone().any(|tenant| known(tenant).is_some()) {
            return tenants.map(|tenant| known(tenant).unwrap_or_default()).collect();
        }
        Vec::new()
    }
}

impl Plan {
    /// Number of runs, without those of a tenant alone.
    pub const fn count(&self) -> usize {
        self.cells.len() * self.schedulers.len() * self.seeds.len()
    }

    /// All runs, without those of a tenant alone.
    pub fn experiments(&self) -> Vec<Experiment> {
        let mut experiments = Vec::new();
        for cell in &self.cells {
            for seed in &self.seeds {
                experiments.extend(self.schedulers.iter().map(|scheduler| cell.experiment(scheduler, *seed)));
            }
        }
        experiments
    }
}
