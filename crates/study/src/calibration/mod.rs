//! A device model's parameters from published or measured figures.
//!
//! ```text
//! row (a figure to reproduce) -> recipe (its experiments) -> runs -> recipe (their figure) -> search, table
//! ```
//! The caller makes the runs.

pub mod recipe;
pub mod row;
pub mod search;
pub mod table;
