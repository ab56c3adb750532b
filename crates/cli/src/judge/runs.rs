//! Makes the runs: every cell under every scheduler with every seed, on all CPUs, each reduced to the
//! judged data.

use std::collections::BTreeMap;
use std::time::Duration;

use hoistway_experiment::{Experiment, Host, Measurement, SchedulerSpec};

use crate::exit::Error;
use crate::interrupt::Interrupt;
use crate::progress::Display;
use crate::run_test::host::{self, Terms};
use crate::run_test::run::RunSettings;
use crate::run_test::solo;
use crate::target::HostName;
use hoistway_study::judge::cell::Cell;
use hoistway_study::judge::field::{measured_bins, present};
use hoistway_study::judge::format::Kind;
use hoistway_study::judge::runs::{Plan, Run, Runs};
use hoistway_study::judge::series::Series;

/// Makes the runs of a plan.
#[derive(Debug)]
pub struct Runner<'a> {
    /// The runs.
    pub plan: &'a Plan,
    /// Number of runs at a time.
    pub workers: usize,
}

impl Runner<'_> {
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
        for cell in &self.plan.cells {
            check(cell, &SchedulerSpec::named("none"))?;
        }
        let Some(first) = self.plan.cells.first() else { return Ok(()) };
        let place = |scheduler: &SchedulerSpec| format!("scheduler {scheduler}");
        self.plan.schedulers.iter().try_for_each(|scheduler| {
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
        let experiments = self.plan.experiments();
        let places: BTreeMap<(String, String, u64), (usize, usize, usize)> = self
            .plan
            .cells
            .iter()
            .enumerate()
            .flat_map(|(cell, one)| {
                self.plan.schedulers.iter().enumerate().flat_map(move |(scheduler, spec)| {
                    let seeds = self.plan.seeds.iter().enumerate();
                    seeds.map(move |(index, seed)| {
                        ((one.name.clone(), spec.to_string(), *seed), (cell, scheduler, index))
                    })
                })
            })
            .collect();
        let mut runs = Runs::of_plan(self.plan);
        display.expect(experiments.len(), &[1]);
        self.make_alone(&mut runs, interrupt, display)?;
        self.run_all(&experiments, interrupt, display, &mut |measurement| {
            let Experiment { workload, scheduler, seed, .. } = &measurement.experiment;
            if let Some(place) = places.get(&(workload.clone(), scheduler.to_string(), *seed)) {
                runs.add(*place, Run { series: Series::of(&measurement) });
            }
        })?;
        Ok(runs)
    }

    /// Tenants with different workloads first run alone, and the device full of their kind of request:
    /// what a tenant is entitled to among others follows from both.
    fn make_alone(&self, runs: &mut Runs, interrupt: &Interrupt, display: &mut Display) -> Result<(), Error> {
        let mut experiments = Vec::new();
        let mut places = BTreeMap::new();
        for (index, cell) in self.plan.cells.iter().enumerate().filter(|(_, cell)| cell.kind != Kind::Grid) {
            for tenant in present(cell) {
                let alone = cell.alone(tenant, self.plan.seeds[0]);
                let mut full = cell.alone(tenant, self.plan.seeds[0]);
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
            let (from, to) = measured_bins(&self.plan.cells[cell]);
            let bytes_per_s = Series::of(&measurement).rates(from, to)[tenant];
            let rates = runs.solo_rates_of(cell, tenant);
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
