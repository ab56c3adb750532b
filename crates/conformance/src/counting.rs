//! An allocator that counts, because what a policy allocates is invisible otherwise.
#![allow(unsafe_code, reason = "an allocator is unsafe by its trait; this one counts and passes on")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, which counts the allocations of a watched thread.
///
/// [`check`](crate::check) needs it in the program that runs the checks:
///
/// ```
/// #[global_allocator]
/// static ALLOCATOR: hoistway_conformance::Counting = hoistway_conformance::Counting;
/// ```
#[derive(Copy, Clone, Debug)]
pub struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    static IS_WATCHED: Cell<bool> = const { Cell::new(false) };
}

fn count() {
    // On an exiting thread the thread-locals are gone and the access fails; such a thread is not
    // watched.
    if IS_WATCHED.try_with(Cell::get) == Ok(true) {
        let _ = ALLOCATIONS.try_with(|allocations| allocations.set(allocations.get() + 1));
    }
}

// SAFETY: every call goes to the system allocator unchanged; counting accesses only two cells.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's guarantees are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.realloc(memory, layout, bytes) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }
}

/// Allocations of this thread while `act` runs; 0 unless [`Counting`] is the program's allocator.
pub(crate) fn allocations_of(act: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    IS_WATCHED.set(true);
    act();
    IS_WATCHED.set(false);
    ALLOCATIONS.get() - before
}

/// Whether [`Counting`] is the program's allocator.
pub(crate) fn is_in_force() -> bool {
    allocations_of(|| drop(std::hint::black_box(Box::new(1_u8)))) > 0
}
