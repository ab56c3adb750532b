//! Tests of the hard disk. Source: docs/specifications/devices.md, section 13 (cases 6 to 9 are
//! unit tests of the arithmetic).
#![expect(clippy::cast_possible_truncation, reason = "small numbers of a test")]

mod commands;
mod dd;
mod driver;
mod random;
mod readers;
mod sequential;
mod writes;

/// Asserts that `value` is within a relative tolerance of the expected value.
#[track_caller]
fn assert_near(what: &str, value: f64, expected: f64, tolerance: f64) {
    let error = value / expected - 1.0;
    assert!(error.abs() <= tolerance, "{what}: {value:.3}, expected {expected} +- {} %", tolerance * 100.0);
}
