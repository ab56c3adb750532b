//! Studies over experiments: why a share is not kept, which scheduler is right where, what mechanisms guarantee.
//!
//! Plans and pure functions over measurements, and their tables. Nothing here parses options, draws on a terminal, or
//! makes a run but those of a curve of throughput on a simulated device ([`explain::curve_of`]).
#![forbid(unsafe_code)]

pub mod calibration;
pub mod columns;
pub mod explain;
pub mod isolation;
pub mod judge;
