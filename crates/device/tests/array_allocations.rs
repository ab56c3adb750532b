//! An array in steady state hardly allocates, whatever its commands: only when a list becomes
//! longer than ever before.
#![allow(unsafe_code, reason = "an allocator is unsafe by its trait; this one counts and passes on")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use hoistway_block::random::Stream;
use hoistway_block::{Extent, Flags, HardwareQueue, Operation};
use hoistway_device::{Array, ArrayParameters, Command, Device, DiskParameters, Submit};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    // A thread that is ending has no thread-locals any more and is not counted.
    let _ = ALLOCATIONS.try_with(|allocations| allocations.set(allocations.get() + 1));
}

// SAFETY: every call goes to the system's allocator unchanged; counting touches only a cell.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's guarantees are passed on.
        unsafe { System.alloc(layout) }
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

#[global_allocator]
static COUNTING: Counting = Counting;

/// Allocations during the last quarter of `commands` commands of all kinds.
fn allocations(parameters: &ArrayParameters, commands: u32) -> u64 {
    let disk = DiskParameters::default().with(|disk| disk.layout.capacity_sectors = 2_000_000);
    let mut array = Array::new("array", parameters, &disk, 1, "dev0");
    let mut stream = Stream::new(7);
    let (mut now, mut free, mut completions) = (0, (0..32).collect::<Vec<u32>>(), Vec::with_capacity(64));
    let mut sequential = 0;
    let mut before = 0;
    for number in 0..commands {
        if number == commands / 4 * 3 {
            before = ALLOCATIONS.get();
        }
        while free.is_empty() {
            now = array.next_event();
            array.advance(now, &mut completions);
            free.extend(completions.drain(..).map(|completion| completion.tag));
        }
        let tag = free.pop().unwrap_or(0);
        let place = stream.below(200_000) * 8;
        sequential = (sequential + 64) % 1_000_000;
        let (operation, extent) = match stream.below(16) {
            0 => (Operation::Flush, Extent::default()),
            1 => (Operation::Discard, Extent::new(place, 800)),
            2..=5 => (Operation::Write, Extent::new(place, 8)),
            6..=9 => (Operation::Write, Extent::new(2_000_000 + sequential, 64)),
            10..=12 => (Operation::Read, Extent::new(4_000_000 + sequential, 64)),
            _ => (Operation::Read, Extent::new(place, 64)),
        };
        let command = Command { tag, operation, flags: Flags::NONE, extent, hardware_queue: HardwareQueue(0) };
        assert_eq!(array.submit(now, &command), Submit::Accepted);
    }
    ALLOCATIONS.get() - before
}

#[test]
fn a_warm_array_hardly_allocates() {
    for (write_back, prefetch_kib) in [(1, 0), (0, 0), (1, 1_024)] {
        let parameters = ArrayParameters {
            chunk_kib: 64,
            write_back,
            prefetch_kib,
            write_cache_mib: 8,
            read_cache_mib: 16,
            ..Default::default()
        };
        let allocations = allocations(&parameters, 40_000);
        assert!(allocations < 100, "{allocations} by 10,000 commands");
    }
}
