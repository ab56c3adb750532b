//! finds: undefined: div_by_zero
#![no_std]

#[unsafe(export_name = "division.event")]
pub extern "C" fn event(a: u64, b: u64) -> u64 {
    a / b
}
