//! Rows (published or measured figures) to reproduce, and their runs, which use all CPUs; of equal
//! runs only one is executed.

use std::time::Duration;

use hoistway_experiment::{Experiment, Host, Measurement};

use crate::exit::Error;
use crate::interrupt::Interrupt;
use crate::progress::Display;
use crate::run_test::host::{self, Terms};
use crate::run_test::run::RunSettings;
use crate::target::HostName;
use hoistway::plan::machine;
use hoistway_study::calibration::recipe;
use hoistway_study::calibration::row::Row;

/// Runs the experiments of rows on models.
pub struct Runner<'a> {
    /// Checked between and during runs.
    pub interrupt: &'a Interrupt,
}

impl Runner<'_> {
    /// Whether every row can be run on the model of this text.
    pub fn check(&self, rows: &[Row], model: &str) -> Result<(), Error> {
        let host = host::open(HostName::Simulator, &Terms::default());
        for row in rows {
            for experiment in row.on(model) {
                let place = || format!("{model}: {}", row.anchor.name);
                host.check(&experiment).map_err(|refusal| Error::from(refusal).at(place()))?;
            }
        }
        Ok(())
    }

    /// The figures of every pair of row and model text, in order; `None` if a signal came first.
    ///
    /// # Errors
    /// A run failed, or the host refuses one.
    pub fn figures(
        &self,
        pairs: &[(&str, &[Row])],
        display: &mut Display,
    ) -> Result<Option<Vec<Vec<Vec<f64>>>>, Error> {
        let mut unique: Vec<Experiment> = Vec::new();
        let mut needed: Vec<Vec<Vec<usize>>> = Vec::new();
        for (model, rows) in pairs {
            let begin = unique.len();
            let indexes = rows.iter().map(|row| {
                let of_row = row.on(model).map(|experiment| {
                    let same = |known: &Experiment| is_same(known, &experiment);
                    unique[begin..].iter().position(same).map_or_else(
                        || {
                            unique.push(experiment.clone());
                            unique.len() - 1
                        },
                        |at| begin + at,
                    )
                });
                of_row.collect()
            });
            needed.push(indexes.collect());
        }
        let Some(measured) = self.run(&unique, display)? else { return Ok(None) };
        let figures = |(model, rows): &(&str, &[Row]), needed: &Vec<Vec<usize>>| {
            let of_row = |(row, indexes): (&Row, &Vec<usize>)| {
                let runs: Vec<&Measurement> = indexes.iter().map(|index| &measured[*index]).collect();
                recipe::figure(&row.anchor, &runs).map_err(|error| error.at(*model))
            };
            rows.iter().zip(needed).map(of_row).collect::<Result<Vec<_>, Error>>()
        };
        pairs.iter().zip(&needed).map(|(pair, needed)| figures(pair, needed)).collect::<Result<_, _>>().map(Some)
    }

    fn run(&self, experiments: &[Experiment], display: &mut Display) -> Result<Option<Vec<Measurement>>, Error> {
        let open = || -> Box<dyn Host> { host::open(HostName::Simulator, &Terms::default()) };
        let run_settings = RunSettings {
            host: &open,
            workers: machine::cpus(),
            cooldown: Duration::ZERO,
            interrupt: self.interrupt,
            trace_out: None,
            dispatches: &|_| 0,
        };
        let mut measured: Vec<Option<Measurement>> = vec![None; experiments.len()];
        display.expect(experiments.len(), &[]);
        run_settings.run(experiments, display, &mut |measurement| {
            // Equal experiments give equal measurements, so the measurement may be stored in the
            // first empty slot of an equal experiment.
            let free = |(experiment, slot): (&Experiment, &Option<Measurement>)| {
                slot.is_none() && *experiment == measurement.experiment
            };
            if let Some(at) = experiments.iter().zip(&measured).position(free) {
                measured[at] = Some(measurement);
            }
            Ok(())
        })?;
        Ok(measured.into_iter().collect())
    }
}

/// Whether two experiments are the same run; their names do not matter.
fn is_same(left: &Experiment, right: &Experiment) -> bool {
    left.seed == right.seed && Experiment { workload: right.workload.clone(), ..left.clone() } == *right
}
