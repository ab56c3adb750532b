//! finds: undefined: slice.rs:6
#![no_std]

#[unsafe(export_name = "slice.event")]
pub extern "C" fn event(a: &[u64; 16], i: usize) -> u64 {
    a[i..].iter().fold(0, |sum, x| sum ^ x)
}
