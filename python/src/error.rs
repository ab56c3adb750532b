//! Errors of the library as exceptions of Python.

use pyo3::prelude::*;

/// The exception `hoistway.Error` with the text that the command would print and its exit code.
pub fn exception(py: Python<'_>, error: &hoistway::Error) -> PyErr {
    let made = py
        .import("hoistway.errors")
        .and_then(|module| module.getattr("Error"))
        .and_then(|class| class.call1((error.to_string(), error.exit.code())));
    made.map_or_else(|wrong| wrong, PyErr::from_value)
}
