//! finds: recursion: recursion::depth -> recursion::depth
#![no_std]
use core::hint::black_box;

#[inline(never)]
fn depth(n: u64) -> u64 {
    if n == 0 { 0 } else { black_box(depth(n - 1)) ^ n }
}

#[unsafe(export_name = "recursion.event")]
pub extern "C" fn event(n: u64) -> u64 {
    depth(n)
}
