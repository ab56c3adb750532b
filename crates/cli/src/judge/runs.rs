//! The runs: every cell under every scheduler with every seed, on all CPUs, each reduced to the
//! judged data.

use std::collections::BTreeMap;
use std::time::Duration;

use hoistway_experiment::measurement::SoloRates;
use hoistway_experiment::{Experiment, Host, Measurement, SchedulerSpec};

use super::cells::Cell;
use super::field::{measured_bins, present};
use super::format::Kind;
use super::series::Series;
use crate::exit::Error;
use crate::interrupt::Interrupt;
use crate::progress::Display;
use crate::run_test::host::{self, Terms};
use crate::run_test::run::RunSettings;
use crate::run_test::solo;
use crate::target::HostName;

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
    /// Number of runs at a time.
    pub workers: usize,
}

/// The results.
#[derive(Debug, Default)]
pub struct Runs {
    made: BTreeMap<(usize, usize, usize), Run>,
    solo_rates: BTreeMap<(usize, usize), SoloRates>,
    tenants: Vec<usize>,
}

impl Runs {
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

    fn experiments(&self) -> Vec<Experiment> {
        let mut experiments = Vec::new();
        for cell in &self.cells {
            for seed in &self.seeds {
                experiments.extend(self.schedulers.iter().map(|scheduler| cell.experiment(scheduler, *seed)));
            }
        }
        experiments
    }

    /// Checks with the simulator one run of each cell under `none`, and one of each scheduler in
    /// the first cell.
    ///
    /// # Errors
    /// The first that the simulator refuses.
    pub fn check(&self) -> Result<(), Error> {
        let host = host::open(HostName::Simulator, &Terms::default());
        let check = |cell: &Cell, scheduler: &SchedulerSpec| {
            host.check(&cell.experiment(scheduler, 1)).map_err(|refusal| Error::from(refusal).at(cell.name.clone()))
        };
        for cell in &self.cells {
            check(cell, &SchedulerSpec::named("none"))?;
        }
        let Some(first) = self.cells.first() else { return Ok(()) };
        let place = |scheduler: &SchedulerSpec| format!("scheduler {scheduler}");
        self.schedulers.iter().try_for_each(|scheduler| {
            check(first, scheduler).map_err(|error| {
                Error::new(error.exit, error.messages[0].what.clone(), error.messages[0].help.clone())
                    .at(place(scheduler))
            })
        })
    }

    /// Makes all runs, until a signal.
    ///
    /// # Errors
    /// The first run that fails.
    pub fn make(&self, interrupt: &Interrupt, display: &mut Display) -> Result<Runs, Error> {
        let experiments = self.experiments();
        let places: BTreeMap<(String, String, u64), (usize, usize, usize)> = self
            .cells
            .iter()
            .enumerate()
            .flat_map(|(cell, one)| {
                self.schedulers.iter().enumerate().flat_map(move |(scheduler, spec)| {
                    let seeds = self.seeds.iter().enumerate();
                    seeds.map(move |(index, seed)| {
                        ((one.name.clone(), spec.to_string(), *seed), (cell, scheduler, index))
                    })
                })
            })
            .collect();
        let mut runs = Runs { tenants: self.cells.iter().map(|cell| cell.groups.len()).collect(), ..Runs::default() };
        display.expect(experiments.len(), &[1]);
        self.make_alone(&mut runs, interrupt, display)?;
        self.run_all(&experiments, interrupt, display, &mut |measurement| {
            let Experiment { workload, scheduler, seed, .. } = &measurement.experiment;
            if let Some(place) = places.get(&(workload.clone(), scheduler.to_string(), *seed)) {
                runs.made.insert(*place, Run { series: Series::of(&measurement) });
            }
        })?;
        Ok(runs)
    }

    /// Tenants with different workloads first run alone, and the device full of their kind of request:
    /// what a tenant is entitled to among others follows from both.
    fn make_alone(&self, runs: &mut Runs, interrupt: &Interrupt, display: &mut Display) -> Result<(), Error> {
        let mut experiments = Vec::new();
        let mut places = BTreeMap::new();
        for (index, cell) in self.cells.iter().enumerate().filter(|(_, cell)| cell.kind != Kind::Grid) {
            for tenant in present(cell) {
                let alone = cell.alone(tenant, self.seeds[0]);
                let mut full = cell.alone(tenant, self.seeds[0]);
                full.workload += " full";
                full.groups = solo::full(&cell.groups, tenant).into();
                places.insert((alone.workload.clone(), tenant), (index, false));
                places.insert((full.workload.clone(), tenant), (index, true));
                experiments.extend([alone, full]);
            }
        }
        display.expect(experiments.len(), &[1]);
        self.run_all(&experiments, interrupt, display, &mut |measurement| {
            let Experiment { workload, groups, .. } = &measurement.experiment;
            let Some(tenant) = groups.iter().position(|group| !group.jobs.is_empty()) else { return };
            let Some(&(cell, is_full)) = places.get(&(workload.clone(), tenant)) else { return };
            let (from, to) = measured_bins(&self.cells[cell]);
            let bytes_per_s = Series::of(&measurement).rates(from, to)[tenant];
            let rates = runs.solo_rates.entry((cell, tenant)).or_default();
            *(if is_full { &mut rates.full_bytes_per_s } else { &mut rates.bytes_per_s }) = bytes_per_s;
        })
    }

    fn run_all(
        &self,
        experiments: &[Experiment],
        interrupt: &Interrupt,
        display: &mut Display,
        store: &mut dyn FnMut(Measurement),
    ) -> Result<(), Error> {
        let open = || -> Box<dyn Host> { host::open(HostName::Simulator, &Terms::default()) };
        let run_settings = RunSettings {
            host: &open,
            workers: self.workers,
            cooldown: Duration::ZERO,
            interrupt,
            trace_out: None,
            dispatches: &|_| 0,
        };
        run_settings.run(experiments, display, &mut |measurement| {
            store(measurement);
            Ok(())
        })
    }
}
