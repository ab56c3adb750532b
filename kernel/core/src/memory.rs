//! Memory for construction, from the glue. Nothing else reaches it: the gate follows every call.
//!
//! The symbols that compiled `alloc` calls have no stable name; `kernel/build/core` gives them these.

use core::ffi::c_void;

unsafe extern "C" {
    fn hoist_host_alloc(bytes: usize, align: usize) -> *mut c_void;
    fn hoist_host_free(memory: *mut c_void);
    fn hoist_host_impossible();
}

/// `alloc`'s way to memory.
#[unsafe(no_mangle)]
extern "C" fn hoist_rust_alloc(bytes: usize, align: usize) -> *mut u8 {
    // SAFETY: the glue's functions accept any size and alignment.
    unsafe { hoist_host_alloc(bytes, align).cast() }
}

/// The same, zeroed; the glue's memory always is.
#[unsafe(no_mangle)]
extern "C" fn hoist_rust_alloc_zeroed(bytes: usize, align: usize) -> *mut u8 {
    hoist_rust_alloc(bytes, align)
}

/// And back.
#[unsafe(no_mangle)]
extern "C" fn hoist_rust_dealloc(memory: *mut u8, _bytes: usize, _align: usize) {
    // SAFETY: it came from `hoist_host_alloc`.
    unsafe { hoist_host_free(memory.cast()) }
}

/// A larger or smaller place for what is there.
///
/// # Safety
/// `memory` has `old_bytes` bytes and came from here.
#[unsafe(no_mangle)]
unsafe extern "C" fn hoist_rust_realloc(memory: *mut u8, old_bytes: usize, align: usize, bytes: usize) -> *mut u8 {
    let place = hoist_rust_alloc(bytes, align);
    if !place.is_null() {
        // SAFETY: both places are at least this long, and new memory overlaps nothing.
        unsafe { core::ptr::copy_nonoverlapping(memory, place, old_bytes.min(bytes)) };
        hoist_rust_dealloc(memory, old_bytes, align);
    }
    place
}

/// The compiler asks for it to be there.
#[unsafe(no_mangle)]
extern "C" fn hoist_rust_no_shim() {}

/// Where a vector would grow although its room was reserved: cannot be. The compiler has several names for it.
macro_rules! impossible {
    ($($name:ident)+) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $name() -> ! {
            // SAFETY: it takes nothing. It does not come back; the loop says so to whoever reads the object.
            unsafe { hoist_host_impossible() }
            loop {}
        }
    )+};
}

impossible! { hoist_rust_no_memory hoist_rust_no_room hoist_rust_no_handler hoist_rust_panicked }
