//! What a request in flight costs in memory: process, device, events; and the request queue, counted for itself.
#![allow(unsafe_code, reason = "an allocator is unsafe by its trait; this one counts and passes on")]

mod experiments;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use experiment::{Experiment, Host, Unattended};
use experiments::{MS, experiment, random_reads};
use hoistway_simulator::{HostCosts, Simulator};

struct Counting;

thread_local! {
    static LIVE_BYTES: Cell<usize> = const { Cell::new(0) };
    static PEAK_BYTES: Cell<usize> = const { Cell::new(0) };
}

/// A thread that is ending has no locals any more; it is not one of ours then.
fn count(more: usize, less: usize) {
    let _ = LIVE_BYTES.try_with(|live| {
        live.set(live.get().wrapping_add(more).wrapping_sub(less));
        let _ = PEAK_BYTES.try_with(|peak| peak.set(peak.get().max(live.get())));
    });
}

// SAFETY: every call goes to the system's allocator unchanged; counting touches no memory but cells.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        count(bytes, layout.size());
        // SAFETY: as above.
        unsafe { System.realloc(memory, layout, bytes) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(0, layout.size());
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Four processes with so many requests in flight together, each on a hardware queue of its own.
fn in_flight(scheduler: &str, requests: u32) -> Experiment {
    let each = requests / 4;
    let group = |path| (path, 100, random_reads(each));
    let target = format!("null,latency_us=1000,hw_queues=4,queue_depth={each}");
    let mut question = experiment(&target, scheduler, ["a", "b", "c", "d"].map(group).to_vec());
    question.queue_requests = Some(each);
    (question.ramp_ns, question.runtime_ns) = (0, 10 * MS);
    question
}

/// The most bytes allocated at a time while it runs.
fn peak_bytes(question: &Experiment) -> usize {
    let before = LIVE_BYTES.get();
    PEAK_BYTES.set(before);
    let measurement = Simulator::with_costs(HostCosts::NONE).run(question, &mut Unattended).unwrap();
    let depth: u64 = question.groups.iter().map(|group| u64::from(group.jobs[0].iodepth)).sum();
    let ios: u64 = measurement.groups.iter().map(|group| group.ios()).sum();
    // They really were in flight, nearly all: each completes once per millisecond.
    assert!(ios >= 8 * depth, "{ios} I/Os at {depth} in flight");
    PEAK_BYTES.get() - before
}

/// What the queue and its policy take of that: the same code runs in the engine, and the budget is the simulator's.
fn queue_bytes(scheduler: &str, requests: u32) -> usize {
    let each = requests / 4;
    let configuration = elevator::Configuration {
        slots: requests + 4,
        groups: 5,
        contexts: 5,
        depth: elevator::Depth { requests, device: each },
        hardware_queues: 4,
        software_queues: 4,
        ..elevator::Configuration::default()
    };
    let settings = queue::Settings { configuration, bios: requests + 64, ..queue::Settings::default() };
    let before = LIVE_BYTES.get();
    let queue = queue::RequestQueue::build(scheduler, None, &settings).unwrap();
    let bytes = LIVE_BYTES.get() - before;
    drop(queue);
    bytes
}

#[test]
fn a_request_in_flight_costs_at_most_200_bytes_beside_the_request_queue() {
    for scheduler in ["none", "noop", "mq-deadline", "wfq"] {
        let each = |bytes: fn(&str, u32) -> usize| (bytes(scheduler, 9_000) - bytes(scheduler, 1_000)) / 8_000;
        let all = each(|scheduler, requests| peak_bytes(&in_flight(scheduler, requests)));
        let queue = each(queue_bytes);
        println!("{scheduler}: {all} bytes per request in flight, {queue} of them the queue's with its policy");
        assert!(all - queue <= 200, "{scheduler}: {all} bytes, {queue} of them the queue's");
    }
}
