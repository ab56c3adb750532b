//! Memory for construction, from the glue (the C files of kernel/module). Nothing else allocates;
//! `kernel/gate/run` checks this by following every call in the object file.
//!
//! The symbols that compiled `alloc` calls have no stable names; `kernel/build_core` renames them
//! to these.

use core::ffi::c_void;

unsafe extern "C" {
    fn hoist_host_alloc(bytes: usize, align: usize) -> *mut c_void;
    fn hoist_host_free(memory: *mut c_void);
    fn hoist_host_impossible();
}

/// Allocates for `alloc`.
#[unsafe(no_mangle)]
extern "C" fn hoist_rust_alloc(bytes: usize, align: usize) -> *mut u8 {
    // SAFETY: the glue's functions accept any size and alignment.
    unsafe { hoist_host_alloc(bytes, align).cast() }
}

/// Allocates zeroed memory; all memory from the glue is zeroed.
#[unsafe(no_mangle)]
extern "C" fn hoist_rust_alloc_zeroed(bytes: usize, align: usize) -> *mut u8 {
    hoist_rust_alloc(bytes, align)
}

/// Frees.
#[unsafe(no_mangle)]
extern "C" fn hoist_rust_dealloc(memory: *mut u8, _bytes: usize, _align: usize) {
    // SAFETY: it came from `hoist_host_alloc`.
    unsafe { hoist_host_free(memory.cast()) }
}

/// Moves an allocation to memory of another size.
///
/// # Safety
/// `memory` has `old_bytes` bytes and was allocated here.
#[unsafe(no_mangle)]
unsafe extern "C" fn hoist_rust_realloc(memory: *mut u8, old_bytes: usize, align: usize, bytes: usize) -> *mut u8 {
    let place = hoist_rust_alloc(bytes, align);
    if !place.is_null() {
        // SAFETY: both allocations are at least this long, and new memory does not overlap with the
        // old.
        unsafe { core::ptr::copy_nonoverlapping(memory, place, old_bytes.min(bytes)) };
        hoist_rust_dealloc(memory, old_bytes, align);
    }
    place
}

/// A symbol that the compiler requires; it is never called.
#[unsafe(no_mangle)]
extern "C" fn hoist_rust_no_shim() {}

/// Called where a vector would grow although its room was reserved, which cannot happen. The
/// compiler has several names for it.
macro_rules! impossible {
    ($($name:ident)+) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $name() -> ! {
            // SAFETY: it takes no arguments. It does not return; the loop makes this visible in the
            // object.
            unsafe { hoist_host_impossible() }
            loop {}
        }
    )+};
}

impossible! { hoist_rust_no_memory hoist_rust_no_room hoist_rust_no_handler hoist_rust_panicked }
