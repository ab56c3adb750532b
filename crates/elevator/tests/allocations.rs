//! Nothing is allocated after construction: every policy in every form, alone and inside a request
//! queue.
//!
//! The same code runs under a spinlock in the kernel, where an allocation must not sleep.
//! `kernel/gate/run` proves from the object file that no event method of a policy reaches the
//! allocator. This test counts allocations, and also covers the request queue, which
//! `kernel/gate/run` does not examine.
#![allow(unsafe_code, reason = "an allocator is unsafe by its trait; this one counts and passes on")]

use hoistway_elevator::{Configuration, Version, registry};
use hoistway_testbed::SteadyHost;
use hoistway_testbed::queue::Handover;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Random operations per policy and kind of queue.
const OPERATIONS: u32 = 100_000;

struct Counting;

thread_local! {
    /// Allocations on this thread while it is watched; per thread, so that parallel tests do not
    /// interfere.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    /// Bytes requested by those allocations.
    static BYTES: Cell<usize> = const { Cell::new(0) };
    static IS_WATCHED: Cell<bool> = const { Cell::new(false) };
}

fn count(bytes: usize) {
    // On an exiting thread the thread-locals are gone and the access fails. Such a thread is not
    // watched, so its allocations need not be counted.
    let _ = IS_WATCHED.try_with(|watched| {
        if watched.get() {
            let _ = ALLOCATIONS.try_with(|allocations| allocations.set(allocations.get() + 1));
            let _ = BYTES.try_with(|sum| sum.set(sum.get() + bytes));
        }
    });
}

// SAFETY: every call goes to the system allocator unchanged; counting accesses only two cells.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's guarantees are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        count(bytes);
        // SAFETY: as above.
        unsafe { System.realloc(memory, layout, bytes) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Number of allocations while `act` runs.
fn allocations_of(act: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    IS_WATCHED.set(true);
    act();
    IS_WATCHED.set(false);
    ALLOCATIONS.get() - before
}

fn forms() -> impl Iterator<Item = (&'static str, Version)> + Clone {
    registry::ENTRIES.iter().flat_map(|entry| entry.versions.iter().map(|version| (entry.name, *version)))
}

#[test]
fn no_operation_of_a_queue_allocates_whatever_its_policy() {
    for (name, version) in forms() {
        for settings in SteadyHost::kinds_of_queue() {
            let mut host = SteadyHost::new(name, Some(version), &settings, 1);
            for tracing in [false, true] {
                host.queue_mut().set_tracing(tracing);
                let allocations = allocations_of(|| {
                    for _ in 0..OPERATIONS / 2 {
                        host.step();
                    }
                });
                assert_eq!(allocations, 0, "{name} {version:?}, tracing {tracing}");
            }
            // Policies that idle the device need more operations to start and end 10,000 requests.
            let allocations = allocations_of(|| {
                for _ in 0..4 * OPERATIONS {
                    if host.started().min(host.ended()) > 10_000 {
                        break;
                    }
                    host.step();
                }
            });
            assert_eq!(allocations, 0, "{name} {version:?}");
            assert!(host.started() > 10_000 && host.ended() > 10_000, "{name} {version:?}: {} started", host.started());
            assert_eq!(host.queue_mut().violations(), 0, "{name} {version:?}");
        }
    }
}

#[test]
fn a_switch_allocates_nothing_but_the_new_policy_itself() {
    for settings in SteadyHost::kinds_of_queue() {
        let mut host = SteadyHost::new("noop", Some(Version(6, 12, 0)), &settings, 1);
        for (turn, (name, version)) in forms().cycle().take(24).enumerate() {
            let next = registry::build(name, Some(version), &settings.configuration).expect("registered");
            let handover = if turn % 2 == 0 { Handover::Drain } else { Handover::Carry };
            let mut retired = Vec::with_capacity(2);
            let allocations = allocations_of(|| {
                let now = host.now();
                assert!(host.queue_mut().switch(next, handover, now).is_ok(), "no switch is under way");
                for _ in 0..2_000 {
                    host.step();
                    if !host.queue_mut().is_switching() {
                        break;
                    }
                }
                // The host frees the old policy when it may sleep.
                retired.extend(host.queue_mut().retired());
            });
            assert_eq!(allocations, 0, "to {name} {version:?}, {handover:?}");
            while host.queue_mut().is_switching() {
                host.step();
            }
            assert_eq!(host.queue_mut().elevator().name(), name);
        }
    }
}

#[test]
fn an_allocation_is_counted() {
    let mut kept = Vec::new();
    assert_eq!(allocations_of(|| kept.push(1_u8)), 1);
    assert_eq!(allocations_of(|| kept.reserve(1_000)), 1);
    assert_eq!(allocations_of(|| drop(std::hint::black_box(std::mem::take(&mut kept)))), 0);
}

/// Memory allocated by a policy at construction, in bytes.
fn memory_of(name: &str, slots: u32, groups: u32) -> usize {
    let configuration = Configuration { slots, groups, ..Configuration::default() };
    let before = BYTES.get();
    let mut built = None;
    allocations_of(|| built = Some(registry::build(name, None, &configuration).expect("registered")));
    BYTES.get() - before
}

/// In uchida and tarasov each group has a CFQ of its own, but all of these share their tables. So
/// the memory for a slot of the request table does not depend on the number of groups, nor the
/// memory for a group on the number of slots.
#[test]
fn engines_of_groups_share_their_tables() {
    for name in ["uchida", "tarasov"] {
        let per_slot = |groups| (memory_of(name, 4_096, groups) - memory_of(name, 512, groups)) / (4_096 - 512);
        assert_eq!(per_slot(256), per_slot(1), "{name}");
        let per_group = (memory_of(name, 512, 257) - memory_of(name, 512, 1)) / 256;
        // Most of the memory is for the 17 async queues that a group may have.
        assert!(per_group < 6_000, "{name}: {per_group} bytes a group");
    }
}
