//! finds: undefined: panic_bounds_check
//! finds: undefined: index.rs:7
#![no_std]

#[unsafe(export_name = "index.event")]
pub extern "C" fn event(a: &[u64; 16], i: usize) -> u64 {
    a[i]
}
