//! The runs: first those that settings are derived from, then every cell under every mechanism and
//! setting, all repetitions in one random order.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use hoistway_block::random::Stream;
use hoistway_experiment::matrix::shuffle;
use hoistway_experiment::{Experiment, Host, Measurement};

use crate::exit::Error;
use crate::interrupt::Interrupt;
use crate::progress::Display;
use crate::run_test::host::{self, OnTarget, Terms};
use crate::run_test::run::RunSettings;
use crate::target::{HostName, OpenTarget, Target};
use hoistway_study::isolation::calibration::{Known, PROBES};
use hoistway_study::isolation::cell::{Cell, Run};
use hoistway_study::isolation::desideratum::Desideratum;
use hoistway_study::isolation::mechanism::{Mechanism, Setting, Told};
use hoistway_study::isolation::plan::{Plan, Samples, Subject};
use hoistway_study::isolation::rounds::Sample;

/// The host, the target, and what both allow.
pub struct Bench<'a> {
    /// The host.
    pub host: HostName,
    /// Its permissions.
    pub terms: Terms,
    /// The target.
    pub target: &'a Target,
    /// Its texts.
    pub texts: Texts,
    /// Runs at a time.
    pub workers: usize,
    /// Why the target may not be written to, if it may not.
    pub writes: Option<String>,
    /// Ends the runs.
    pub interrupt: &'a Interrupt,
}

/// The text of the target in cells of each kind. Simulated flash begins in the state that the cell
/// needs, and the overhead may have a device of its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Texts {
    /// Where tenants only read.
    pub reads: String,
    /// Where one writes.
    pub writes: String,
    /// In cells of the overhead.
    pub overhead: String,
}

impl Texts {
    /// That of a cell.
    pub fn of(&self, cell: &Cell) -> &str {
        match cell.desideratum {
            Desideratum::LowOverhead => &self.overhead,
            _ if cell.has_writes() => &self.writes,
            _ => &self.reads,
        }
    }
}

/// In the name of a run that determines the cost model of the device of the overhead.
const OF_OVERHEAD: &str = "overhead, ";

impl Bench<'_> {
    /// Why the host cannot make a run; nothing is touched.
    pub fn refusal(&self, experiment: &Experiment, file_bytes: u64) -> Option<String> {
        let has_writes = experiment.issuers().any(|place| place.job.shape.mix.has_writes());
        if let Some(refusal) = self.writes.as_ref().filter(|_| has_writes) {
            return Some(refusal.clone());
        }
        let stand_in = self.target.stand_in(self.host, file_bytes);
        let refusal = self.open(&stand_in, None).check(experiment).err()?;
        Some(refusal.message)
    }

    fn open(&self, host_text: &str, directory: Option<PathBuf>) -> Box<dyn Host> {
        let host = host::open(self.host, &self.terms);
        match self.host {
            HostName::Simulator => host,
            _ => Box::new(OnTarget::new(host, host_text, &self.target.text, directory)),
        }
    }

    /// Makes runs until a signal.
    ///
    /// # Errors
    /// The first that fails.
    pub fn run(
        &self,
        target: &OpenTarget,
        experiments: &[Experiment],
        display: &mut Display,
        store: &mut dyn FnMut(Measurement),
    ) -> Result<(), Error> {
        let open = || self.open(&target.host_text, target.directory.clone());
        let settings = RunSettings {
            host: &open,
            workers: self.workers,
            cooldown: Duration::ZERO,
            interrupt: self.interrupt,
            trace_out: None,
            dispatches: &|_| 0,
        };
        display.expect(experiments.len(), &[1]);
        settings.run(experiments, display, &mut |measurement| {
            store(measurement);
            Ok(())
        })
    }

    /// Asks the host about every cell under every mechanism.
    pub fn check(&self, plan: &mut Plan, file_bytes: u64) {
        let known = Known::default();
        for (at, cell) in plan.cells.iter().enumerate() {
            for (number, mechanism) in plan.mechanisms.iter().enumerate() {
                let settings = plan.settings.get(&(at, number)).map_or(&[][..], Vec::as_slice);
                let refusal = settings.iter().find_map(|setting| {
                    let told = mechanism.told(cell, at, setting, &known);
                    let experiment = cell.experiment(told, &self.run_of(plan, cell, String::new(), 1));
                    self.refusal(&experiment, file_bytes)
                });
                if let Some(refusal) = refusal {
                    plan.refusals.insert((at, number), refusal);
                }
            }
        }
    }

    /// The largest area that a run needs.
    pub fn file_bytes(&self, plan: &Plan) -> u64 {
        let alone = |cell: &Cell| cell.alone(0, &self.run_of(plan, cell, String::new(), 1));
        let whole = |cell: &Cell| {
            let told = plan.mechanisms[0].told(cell, 0, &Setting::default(), &Known::default());
            cell.experiment(told, &self.run_of(plan, cell, String::new(), 1))
        };
        let experiments = plan.cells.iter().flat_map(|cell| [alone(cell), whole(cell)]);
        experiments.map(|experiment| crate::workloads::area_bytes(&experiment)).max().unwrap_or(0)
    }

    fn run_of(&self, plan: &Plan, cell: &Cell, name: String, repetition: u32) -> Run<'_> {
        Run { target: self.texts.of(cell), name, seed: plan.seed, repetition }
    }

    /// The runs that limits, targets and models are derived from, with a seed of their own.
    ///
    /// # Errors
    /// The first run that fails.
    pub fn calibrate(&self, plan: &Plan, target: &OpenTarget, display: &mut Display) -> Result<Known, Error> {
        let mut experiments = Vec::new();
        let repetition = plan.repetitions + 1;
        let before = |cell: &Cell, text: String| self.run_of(plan, cell, format!("before: {text}"), repetition);
        let mut places = BTreeMap::new();
        for (at, cell) in plan.cells.iter().enumerate().filter(|(at, _)| !plan.refusals.contains_key(&(*at, 0))) {
            let run = before(cell, format!("{}, none", cell.name));
            places.insert(run.name.clone(), (at, None));
            let told = plan.mechanisms[0].told(cell, at, &Setting::default(), &Known::default());
            experiments.push(cell.experiment(told, &run));
            for tenant in cell.tenants_alone() {
                let run = before(cell, format!("{}, {} alone", cell.name, cell.groups[tenant].path));
                places.insert(run.name.clone(), (at, Some(tenant)));
                experiments.push(cell.alone(tenant, &run));
            }
        }
        let is_modelled = plan.mechanisms.iter().any(Mechanism::has_cost_model);
        for is_overhead in [false, true].into_iter().filter(|_| is_modelled) {
            // The probes have the times of a cell on the same device. The cells of the overhead only read.
            let is_there = |cell: &&Cell| is_overhead == (cell.desideratum == Desideratum::LowOverhead);
            let mut there = plan.cells.iter().filter(is_there);
            let Some(like) = there.clone().find(|cell| cell.returns_ns == 0).or(there.next()) else { continue };
            for probe in PROBES.iter().filter(|probe| !(is_overhead && probe.has_writes())) {
                let target = match is_overhead {
                    true => &self.texts.overhead,
                    false if probe.has_writes() => &self.texts.writes,
                    false => &self.texts.reads,
                };
                let run = before(like, format!("{}{}", if is_overhead { OF_OVERHEAD } else { "" }, probe.name()));
                let experiment = probe.experiment(like, &Run { target, ..run })?;
                let file_bytes = crate::workloads::area_bytes(&experiment);
                if self.refusal(&experiment, file_bytes).is_none() {
                    experiments.push(experiment);
                }
            }
        }
        let mut known = Known::default();
        self.run(target, &experiments, display, &mut |measurement| {
            let name = &measurement.experiment.workload;
            match places.get(name) {
                Some((at, None)) => known.add_none(*at, &Sample::of(&plan.cells[*at], &measurement)),
                Some((at, Some(tenant))) => {
                    known.add_alone(*at, *tenant, &Sample::of(&plan.cells[*at], &measurement));
                }
                None => {
                    let probe = PROBES.iter().find(|probe| name.ends_with(probe.name()));
                    let cost = if name.contains(OF_OVERHEAD) { &mut known.overhead_cost } else { &mut known.cost };
                    probe.into_iter().for_each(|probe| cost.add(probe, &measurement));
                }
            }
        })?;
        Ok(known)
    }

    /// Makes all runs in random order.
    ///
    /// # Errors
    /// The first run that fails.
    pub fn make(
        &self,
        plan: &Plan,
        target: &OpenTarget,
        known: &Known,
        display: &mut Display,
    ) -> Result<Samples, Error> {
        let mut places = BTreeMap::new();
        let mut experiments = Vec::new();
        for (at, subject) in plan.subjects() {
            for repetition in 1..=plan.repetitions {
                let cell = &plan.cells[at];
                let experiment = match subject {
                    Subject::Alone(tenant) => {
                        let name = format!("{}, {} alone", cell.name, cell.groups[tenant].path);
                        cell.alone(tenant, &self.run_of(plan, cell, name, repetition))
                    }
                    Subject::Mechanism(number, setting) => {
                        let (mechanism, setting) = (&plan.mechanisms[number], &plan.settings[&(at, number)][setting]);
                        let name = format!("{}, {} {}", cell.name, mechanism.name, setting.text);
                        let told: Told = mechanism.told(cell, at, setting, known);
                        cell.experiment(told, &self.run_of(plan, cell, name, repetition))
                    }
                };
                places.insert((experiment.workload.clone(), repetition), (at, subject));
                experiments.push(experiment);
            }
        }
        // A drift of the device becomes noise if all repetitions of all subjects are in one order.
        shuffle(&mut experiments, &mut Stream::of(plan.seed, "isolation/order"));
        let mut samples = Samples::new();
        self.run(target, &experiments, display, &mut |measurement| {
            let Experiment { workload, set, .. } = &measurement.experiment;
            if let Some((at, subject)) = places.get(&(workload.clone(), *set)) {
                let sample = Sample::of(&plan.cells[*at], &measurement);
                samples.entry((*at, *subject)).or_default().insert(*set, sample);
            }
        })?;
        Ok(samples)
    }
}
