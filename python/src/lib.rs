//! The extension module `hoistway._hoistway`: the library as the Python files of the package need it. What users see, with
//! its documentation, is in `python/package`.
#![forbid(unsafe_code)]

mod compare;
mod error;
mod experiment;
mod policy;
mod run;

use pyo3::prelude::*;

/// The schedulers with their tunables, as JSON.
#[pyfunction]
fn schedulers() -> String {
    hoistway::lists::schedulers().document()
}

/// The device models with their parameters, as JSON.
#[pyfunction]
fn devices() -> String {
    hoistway::lists::devices().document()
}

/// The workloads that have names, as JSON.
#[pyfunction]
fn workloads() -> String {
    hoistway::lists::workloads().document()
}

/// See the module's own text.
#[pymodule]
mod _hoistway {
    #[pymodule_export]
    use super::compare::compare;
    #[pymodule_export]
    use super::policy::{Request, register};
    #[pymodule_export]
    use super::run::{Outcome, plan, run};
    #[pymodule_export]
    use super::{devices, schedulers, workloads};
}
