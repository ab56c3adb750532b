//! What changed between two outcomes.

use hoistway::report::compare::changes;
use pyo3::prelude::*;

use crate::run::Outcome;

/// The fields of the Python dataclass `Change`; a dict in Python.
#[derive(IntoPyObject)]
pub struct Change {
    cell: String,
    metric: &'static str,
    group: Option<String>,
    old: f64,
    new: f64,
    delta: Option<f64>,
    interval: Option<(f64, f64)>,
    sign: char,
    remark: String,
    is_identical: bool,
    same_settings: bool,
}

/// One entry for each figure of each cell that both outcomes have.
#[pyfunction]
pub fn compare(old: &Outcome, new: &Outcome) -> Vec<Change> {
    let changes = changes(&old.0.cells(), &new.0.cells());
    let entries = changes.into_iter().map(|change| Change {
        sign: change.sign(),
        metric: change.metric.name(),
        cell: change.cell,
        group: change.group,
        old: change.old,
        new: change.new,
        delta: change.delta,
        interval: change.interval,
        remark: change.remark,
        is_identical: change.is_identical,
        same_settings: change.same_settings,
    });
    entries.collect()
}
