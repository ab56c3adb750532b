//! finds: stack: deep_path.event
#![no_std]
use core::hint::black_box;

#[inline(never)]
fn third(n: u64) -> u64 {
    black_box([n; 25]).iter().sum()
}

#[inline(never)]
fn second(n: u64) -> u64 {
    third(n) + black_box([n; 25]).iter().sum::<u64>()
}

/// No frame alone is over the limit, the path is.
#[unsafe(export_name = "deep_path.event")]
pub extern "C" fn event(n: u64) -> u64 {
    second(n) + black_box([n; 25]).iter().sum::<u64>()
}
