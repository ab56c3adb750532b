//! Runs the experiments that the tuner asks for, a list (batch) at a time. They run as in `hoistway
//! test`; on the native host their CPU cost is recorded as well.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use hoistway_experiment::{Experiment, Host, Measurement, Progress, Refusal, RunError};
use hoistway_tune::{Batch, Probe, Tuner};

use crate::exit::{Error, Reporter};
use crate::interrupt::Interrupt;
use crate::progress::Display;
use crate::run_test::host::{self, OnTarget, Terms};
use crate::run_test::run::RunSettings;
use crate::target::{HostName, OpenTarget};
use hoistway::plan::machine;

/// A clock tick of `/proc/self/stat`, which is fixed for user space, in nanoseconds.
const TICK_NS: u64 = 10_000_000;

/// The host and target of the runs.
pub struct Bench<'a> {
    /// The host.
    pub host: HostName,
    /// The target.
    pub target: &'a OpenTarget,
    /// The user's name of the target.
    pub text: &'a str,
    /// Whether the device may be written to.
    pub may_write: bool,
    /// Checked between and during runs.
    pub interrupt: &'a Interrupt,
}

impl Bench<'_> {
    /// A host on the target.
    pub fn host(&self) -> Box<dyn Host> {
        let host = host::open(self.host, &Terms { may_write: self.may_write, is_strict: false, generator: None });
        let host = OnTarget::new(host, &self.target.host_text, self.text, self.target.directory.clone());
        match self.host {
            HostName::Native => Box::new(Metered(host)),
            _ => Box::new(host),
        }
    }

    /// Makes the runs of a batch. Fewer than all after a signal, or when the time budget on a real
    /// host is used up.
    pub fn measure(
        &self,
        batch: &Batch,
        left: Option<Duration>,
        display: &mut Display,
        reporter: Reporter,
    ) -> Result<Vec<Measurement>, Error> {
        reporter.line(&format!("{}: {} runs, {}", batch.title, batch.experiments.len(), length(&batch.experiments)));
        batch.what.iter().for_each(|what| reporter.line(&format!("  {what}")));
        let experiments = self.possible(batch, reporter)?;
        let run_settings = RunSettings {
            host: &|| self.host(),
            workers: if self.host == HostName::Simulator { machine::cpus() } else { 1 },
            cooldown: Duration::ZERO,
            interrupt: self.interrupt,
            trace_out: None,
            dispatches: &|_| 0,
        };
        let mut measurements = Vec::new();
        display.expect(experiments.len(), &[1]);
        let began = Instant::now();
        // Real runs take longer than their ramp and window, so the time budget is checked before
        // each of them. Simulated runs are not bounded here, so all can share the workers at once.
        let at_a_time = if self.host == HostName::Simulator { experiments.len().max(1) } else { 1 };
        for experiments in experiments.chunks(at_a_time) {
            let is_over = self.host != HostName::Simulator && left.is_some_and(|left| began.elapsed() >= left);
            if is_over || self.interrupt.is_asked() {
                break;
            }
            run_settings.run(experiments, display, &mut |measurement| {
                check_errors(&measurement)?;
                measurements.push(measurement);
                Ok(())
            })?;
        }
        // Simulated runs finish in any order; figures of repetitions must not depend on it.
        measurements
            .sort_by_cached_key(|run| batch.experiments.iter().position(|experiment| *experiment == run.experiment));
        Ok(measurements)
    }

    /// The runs of a batch without those of single groups that the host cannot make: only isolation is
    /// unknown without them.
    fn possible(&self, batch: &Batch, reporter: Reporter) -> Result<Vec<Experiment>, Error> {
        let checker = self.host();
        let mut possible = Vec::new();
        for experiment in &batch.experiments {
            match checker.check(experiment) {
                Ok(()) => possible.push(experiment.clone()),
                Err(refusal) if Probe::is_solo(experiment) => reporter.note(format!(
                    "isolation is not known: {} is not possible: {}",
                    experiment.workload, refusal.message
                )),
                Err(refusal) => return Err(refusal.into()),
            }
        }
        Ok(possible)
    }

    /// Measures until the tuner needs nothing more; `None` after a signal.
    pub fn ask(
        &self,
        tuner: &mut Tuner,
        began: Instant,
        display: &mut Display,
        reporter: Reporter,
    ) -> Result<Option<hoistway_tune::Recommendation>, Error> {
        let is_real = self.host != HostName::Simulator;
        let update_display = |tuner: &mut Tuner| {
            if is_real {
                tuner.set_elapsed(u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX));
            }
        };
        update_display(tuner);
        loop {
            let left = tuner.left_ns().filter(|_| is_real);
            match tuner.next_step() {
                hoistway_tune::Step::Done(recommendation) => return Ok(Some(*recommendation)),
                hoistway_tune::Step::Measure(batch) => {
                    let left = left.filter(|_| batch.is_bounded).map(Duration::from_nanos);
                    let measured = self.measure(&batch, left, display, reporter);
                    display.end();
                    update_display(tuner);
                    tuner.record_answers(measured?);
                    if self.interrupt.is_asked() {
                        return Ok(None);
                    }
                }
            }
        }
    }
}

/// Refuses a run with failed requests, because its figures are not valid.
fn check_errors(run: &Measurement) -> Result<(), Error> {
    let tallies = run.groups.iter().flat_map(|group| group.directions().map(|(_, tally)| &tally.errors));
    let mut names: Vec<&str> = tallies.flat_map(BTreeMap::keys).map(String::as_str).collect();
    names.sort_unstable();
    names.dedup();
    if names.is_empty() {
        return Ok(());
    }
    let what = format!("{} under {} failed: {}", run.experiment.workload, run.experiment.scheduler, names.join(", "));
    Err(Error::failed(what, "read the kernel's log; tune cannot recommend anything for a failing device"))
}

/// The sum of the ramps and windows of these experiments, as text.
fn length(experiments: &[Experiment]) -> String {
    let ns: u64 = experiments.iter().map(Experiment::length_ns).sum();
    format!("{:.0} s", ns as f64 / 1e9)
}

/// A host whose runs report their CPU cost: `cpu_ns` among the notes of the target.
struct Metered(OnTarget);

impl Host for Metered {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn check(&self, experiment: &Experiment) -> Result<(), Refusal> {
        self.0.check(experiment)
    }

    fn run(&mut self, experiment: &Experiment, progress: &mut dyn Progress) -> Result<Measurement, RunError> {
        let before = children_ns();
        let mut measurement = self.0.run(experiment, progress)?;
        if let (Some(before), Some(after)) = (before, children_ns()) {
            measurement.target.notes.insert("cpu_ns".to_owned(), after.saturating_sub(before).to_string());
        }
        Ok(measurement)
    }
}

/// CPU time of all children that have ended: the workers of runs, including kernel time.
fn children_ns() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/stat").ok()?;
    // The name may contain blanks; field 3 follows it.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let ticks = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    Some((ticks(16)? + ticks(17)?) * TICK_NS)
}
