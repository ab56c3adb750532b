//! `--calibrate`: each group alone, before they run together: a group is not due more than it
//! achieves alone. Source: docs/specifications/harness.md, section 5.5.

use std::collections::BTreeMap;

use experiment::measurement::SoloRates;
use experiment::{Experiment, Measurement};

use super::run::RunSettings;
use crate::command::exit::Error;
use crate::command::progress::Display;

/// The results of each group alone, by a key of the runs in which the groups are together.
#[derive(Debug, Default)]
pub struct Calibrated(BTreeMap<String, Vec<SoloRates>>);

impl Calibrated {
    /// Runs each group of these experiments alone, once per workload, scheduler and number of
    /// threads.
    pub fn measure(
        &mut self,
        run_settings: &RunSettings<'_>,
        all: &[Experiment],
        display: &mut Display,
    ) -> Result<(), Error> {
        let threads: Vec<u32> = all.iter().map(|experiment| experiment.threads).collect();
        let mut runs: Vec<Experiment> = Vec::new();
        let mut meant: Vec<(String, usize)> = Vec::new();
        for experiment in all.iter().filter(|it| busy(it) > 1) {
            let key = key_of(experiment);
            if self.0.contains_key(&key) {
                continue;
            }
            self.0.insert(key.clone(), vec![SoloRates::default(); experiment.groups.len()]);
            for index in (0..experiment.groups.len()).filter(|&index| !experiment.groups[index].jobs.is_empty()) {
                runs.push(alone(experiment, index));
                meant.push((key.clone(), index));
            }
        }
        if runs.is_empty() {
            return Ok(());
        }
        let mut made: Vec<Measurement> = Vec::new();
        display.expect(runs.len(), &threads);
        run_settings.run(&runs, display, &mut |measurement| {
            made.push(measurement);
            Ok(())
        })?;
        // The runs finish in any order; each result is identified by its experiment.
        for measurement in &made {
            let at = runs.iter().position(|run| *run == measurement.experiment);
            let Some((key, index)) = at.and_then(|at| meant.get(at)) else { continue };
            let group = &measurement.groups[*index];
            if let Some(all) = self.0.get_mut(key) {
                all[*index] = SoloRates {
                    bytes_per_s: measurement.per_s(group.bytes()),
                    ios_per_s: measurement.per_s(group.ios()),
                    device_ns_per_s: measurement.per_s(group.device_ns()),
                };
            }
        }
        Ok(())
    }

    /// The results of a run's groups alone; empty without calibration.
    pub fn of(&self, experiment: &Experiment) -> Vec<SoloRates> {
        self.0.get(&key_of(experiment)).cloned().unwrap_or_default()
    }
}

fn busy(experiment: &Experiment) -> usize {
    experiment.groups.iter().filter(|group| !group.jobs.is_empty()).count()
}

/// The experiment with the jobs of one group only; the other groups exist but are idle.
fn alone(experiment: &Experiment, index: usize) -> Experiment {
    let mut alone = experiment.clone();
    let groups = alone.groups.iter_mut().enumerate().filter(|(other, _)| *other != index);
    groups.for_each(|(_, group)| group.jobs.clear());
    alone
}

fn key_of(experiment: &Experiment) -> String {
    format!("{} {} {}", experiment.workload, experiment.scheduler, experiment.threads)
}
