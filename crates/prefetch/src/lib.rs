//! Prefetches a cache line for writing, so that the later write does not stall.
//!
//! ```
//! let mut table = vec![0_u64; 1 << 20];
//! let (now, later) = (17, 700_000);
//! hoistway_prefetch::for_write(&table[later]);
//! table[now] += 1;
//! // By the time of this write the line may have arrived.
//! table[later] += 1;
//! assert_eq!((table[now], table[later]), (1, 1));
//! ```
//!
//! The unit is a cache line of the processor: 64 bytes on the supported ones.
//!
//! Only a hint to the processor that an address will be used: it reads nothing, changes nothing and
//! cannot fault. A write that changes nothing would not do instead: x86 performs writes in order,
//! so later writes would queue behind it until its line arrives.
//!
//! A separate crate because stable Rust offers the instruction only in [`core::arch`], which needs
//! `unsafe`, and the policies forbid `unsafe`.
#![no_std]

/// Announces that the line of this value, or of its beginning if it is longer, will be written
/// soon. Does nothing on processors other than x86-64 and AArch64.
#[inline(always)]
#[allow(unsafe_code)]
pub fn for_write<T>(value: &T) {
    let address = core::ptr::from_ref(value).addr();
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, which does not read, write or fault.
    unsafe {
        core::arch::asm!("prefetchw [{}]", in(reg) address, options(nomem, nostack, preserves_flags));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a hint, which does not read, write or fault.
    unsafe {
        core::arch::asm!("prfm pstl1keep, [{}]", in(reg) address, options(nomem, nostack, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = address;
}
