//! A run allocates at its start and at its end, not per request.
#![allow(unsafe_code, reason = "an allocator is unsafe by its trait; this one counts and passes on")]

mod experiments;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use experiment::{Host, Unattended};
use experiments::{MS, buffered_stream, experiment, random_reads};
use hoistway_simulator::Simulator;
use workload::Job;
use workload::job::Mix;

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    // A thread that is ending has no locals any more; it is not one of ours then.
    let _ = ALLOCATIONS.try_with(|allocations| allocations.set(allocations.get() + 1));
}

// SAFETY: every call goes to the system's allocator unchanged; counting touches no memory but a cell.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are passed on.
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
static ALLOCATOR: Counting = Counting;

/// Allocations of a run of so many milliseconds, and the I/Os it did.
fn allocations(target: &str, scheduler: &str, job: &Job, runtime_ms: u64) -> (u64, u64) {
    let mut question = experiment(target, scheduler, vec![("a", 100, job.clone()), ("b", 300, job.clone())]);
    question.runtime_ns = runtime_ms * MS;
    let before = ALLOCATIONS.get();
    let measurement = Simulator::default().run(&question, &mut Unattended).unwrap();
    (ALLOCATIONS.get() - before, measurement.groups.iter().map(|group| group.ios()).sum())
}

fn assert_steady(target: &str, scheduler: &str, job: &Job) {
    let (short, few) = allocations(target, scheduler, job, 100);
    let (long, many) = allocations(target, scheduler, job, 900);
    assert!(many > 5 * few, "{target} {scheduler}: {few} and {many} I/Os");
    // A handful for tables that find their size late; not one per hundred requests.
    assert!(long <= short + 8, "{target} {scheduler}: {short} allocations for {few} I/Os, {long} for {many}");
}

#[test]
fn direct_requests_allocate_nothing() {
    for scheduler in ["none", "noop", "mq-deadline", "wfq"] {
        assert_steady("ssd", scheduler, &random_reads(32));
    }
    assert_steady("null", "noop", &random_reads(64));
    assert_steady("sata", "mq-deadline", &random_reads(16));
}

#[test]
fn buffered_reads_allocate_nothing() {
    assert_steady("ssd", "mq-deadline", &buffered_stream(Mix::Read));
}
