//! finds: undefined: __udivti3
#![no_std]

#[unsafe(export_name = "wide_division.event")]
pub extern "C" fn event(a: &u128, b: &u128, out: &mut u128) {
    *out = a / (b | 1);
}
