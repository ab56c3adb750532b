//! Rows: published or measured figures to reproduce.

use hoistway::Error;
use hoistway_device::Anchor;
use hoistway_experiment::Experiment;

use super::recipe;

/// One figure to reproduce.
#[derive(Clone, Debug)]
pub struct Row {
    /// The measurement.
    pub anchor: Anchor,
    /// The runs that repeat it; targets are filled in later.
    pub experiments: Vec<Experiment>,
}

impl Row {
    /// The row of an anchor.
    pub fn of(anchor: Anchor) -> Result<Self, Error> {
        let experiments = recipe::experiments(&anchor, "")?;
        Ok(Self { anchor, experiments })
    }

    /// Its experiments on the model of this text.
    pub fn on<'a>(&'a self, model: &'a str) -> impl Iterator<Item = Experiment> + 'a {
        self.experiments
            .iter()
            .map(move |experiment| Experiment { target: format!("model:{model}"), ..experiment.clone() })
    }

    /// The relative error of `values`: of their relative deviations from the published values, the
    /// one that is largest in absolute value.
    pub fn error(&self, values: &[f64]) -> f64 {
        let errors = values.iter().zip(&self.anchor.published).map(|(value, published)| value / published - 1.0);
        errors.fold(0.0, |worst, error| if f64::abs(error) > f64::abs(worst) { error } else { worst })
    }
}
