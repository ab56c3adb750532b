//! The extension module `hoistway._hoistway`: the library as the Python files of the package need it. What users see, with
//! its documentation, is in `python/package`.
#![forbid(unsafe_code)]

mod compare;
mod error;
mod experiment;
mod policy;
mod run;

use pyo3::prelude::*;

/// Runs the command line with these words, of which the first is the program's name, and returns its exit code. The output
/// goes to stdout and stderr of the process, and the command handles its signals.
#[pyfunction]
fn main(py: Python<'_>, words: Vec<std::ffi::OsString>) -> u8 {
    py.detach(|| hoistway_cli::main_with(words))
}

/// See the module's own text.
#[pymodule]
mod _hoistway {
    #[pymodule_export]
    use super::compare::compare;
    #[pymodule_export]
    use super::main;
    #[pymodule_export]
    use super::policy::{Request, register};
    #[pymodule_export]
    use super::run::{Outcome, plan, run};
}
