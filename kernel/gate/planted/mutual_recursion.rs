//! finds: recursion: mutual_recursion::
#![no_std]
use core::hint::black_box;

#[inline(never)]
fn even(n: u64) -> u64 {
    if n == 0 { 0 } else { black_box(odd(n - 1)) ^ n }
}

#[inline(never)]
fn odd(n: u64) -> u64 {
    if n == 0 { 1 } else { black_box(even(n - 1)) | n }
}

#[unsafe(export_name = "mutual_recursion.event")]
pub extern "C" fn event(n: u64) -> u64 {
    even(n)
}
