//! Nothing to be found: checked access, a guarded division, a copy of half a kilobyte, a loop,
//! allocation in `build`.
#![no_std]
extern crate alloc;
use alloc::vec::Vec;

#[unsafe(export_name = "clean.event")]
pub extern "C" fn event(a: &mut [u64; 64], b: &[u64; 64], i: usize, n: u64) -> u64 {
    *a = *b;
    a.iter().fold(a.get(i).copied().unwrap_or(0).checked_div(n).unwrap_or(0), |sum, x| sum.wrapping_add(*x))
}

#[unsafe(export_name = "clean.build")]
pub extern "C" fn build(n: usize, out: &mut Vec<u64>) {
    if out.try_reserve_exact(n).is_ok() {
        out.resize(n, 1);
    }
}
