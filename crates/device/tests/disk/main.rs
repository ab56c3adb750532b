//! The hard disk against the cases of the specification of the devices, 13 (6 to 9 are unit tests of the arithmetic).
#![expect(clippy::cast_possible_truncation, reason = "small numbers of a test")]

mod commands;
mod dd;
mod driver;
mod random;
mod readers;
mod sequential;
mod writes;

/// Insists that `value` lies within a share of what is expected.
#[track_caller]
fn assert_near(what: &str, value: f64, expected: f64, tolerance: f64) {
    let error = value / expected - 1.0;
    assert!(error.abs() <= tolerance, "{what}: {value:.3}, expected {expected} +- {} %", tolerance * 100.0);
}
