//! A cache line asked for ahead of time, so that nobody waits when it is written to.
//!
//! The processor is only told that an address is going to be used: nothing is read, nothing changes, no fault comes of it. A write that changes nothing would do as well, were it
//! not that later writes queue behind it until its line has come (x86 writes in order), so that whoever writes much next waits after all.
//!
//! A crate of its own because it cannot be written without `unsafe` ([`core::arch`] alone has the instruction in stable Rust), which the
//! policies forbid themselves.
#![no_std]

/// The line of this value, or of its beginning if it is longer, is going to be written to soon. On processors other than x86-64 and
/// AArch64 nothing happens.
///
/// ```
/// let table = [0_u64; 1024];
/// hoistway_prefetch::for_write(&table[700]);
/// ```
#[inline(always)]
#[allow(unsafe_code)]
pub fn for_write<T>(value: &T) {
    let address = core::ptr::from_ref(value).addr();
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, which neither reads nor writes nor faults.
    unsafe {
        core::arch::asm!("prefetchw [{}]", in(reg) address, options(nomem, nostack, preserves_flags));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a hint, which neither reads nor writes nor faults.
    unsafe {
        core::arch::asm!("prfm pstl1keep, [{}]", in(reg) address, options(nomem, nostack, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = address;
}
