//! A run allocates at its start and at its end, not per request; and the memory that a request in
//! flight costs: process, device and events, and the request queue separately.
#![allow(unsafe_code, reason = "an allocator is unsafe by its trait; this one counts and passes on")]

mod experiments;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use experiments::{MS, buffered_stream, experiment, random_reads};
use hoistway_experiment::{Experiment, Host, Unattended};
use hoistway_simulator::{HostCosts, Simulator};
use hoistway_workload::Job;
use hoistway_workload::job::Mix;

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    /// Starts far above zero, because a thread may free memory that another one allocated.
    static LIVE_BYTES: Cell<usize> = const { Cell::new(1 << 40) };
    static PEAK_BYTES: Cell<usize> = const { Cell::new(0) };
}

/// Counts an allocation, and bytes allocated or freed. A thread that is ending has no thread-locals
/// any more and is not counted.
fn count(allocations: u64, more: usize, less: usize) {
    let _ = ALLOCATIONS.try_with(|counted| counted.set(counted.get() + allocations));
    let _ = LIVE_BYTES.try_with(|live| {
        live.set(live.get().wrapping_add(more).wrapping_sub(less));
        let _ = PEAK_BYTES.try_with(|peak| peak.set(peak.get().max(live.get())));
    });
}

// SAFETY: every call goes to the system's allocator unchanged; counting touches only cells.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(1, layout.size(), 0);
        // SAFETY: the caller's guarantees are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        count(1, bytes, layout.size());
        // SAFETY: as above.
        unsafe { System.realloc(memory, layout, bytes) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(0, 0, layout.size());
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations of a run of `runtime_ms` milliseconds, and the number of its I/Os.
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
    // A few for tables that reach their size late; not one per hundred requests.
    assert!(long <= short + 8, "{target} {scheduler}: {short} allocations for {few} I/Os, {long} for {many}");
}

#[test]
fn direct_requests_allocate_nothing() {
    for scheduler in ["none", "noop", "mq-deadline", "wfq"] {
        assert_steady("ssd", scheduler, &random_reads(32));
    }
    assert_steady("null", "noop", &random_reads(64));
    assert_steady("sata", "mq-deadline", &random_reads(16));
    let faults = "slow_sectors=90000000,slow_ms=0.3,stall_ppm=500,stall_ms=1,hiccup_every_ms=9,hiccup_ms=1";
    assert_steady(&format!("ssd,{faults},read_delay_us=20"), "noop", &random_reads(32));
}

#[test]
fn buffered_reads_allocate_nothing() {
    assert_steady("ssd", "mq-deadline", &buffered_stream(Mix::Read));
}

/// Four processes with `requests` requests in flight together, each on its own hardware queue.
fn in_flight(scheduler: &str, requests: u32) -> Experiment {
    let each = requests / 4;
    let group = |path| (path, 100, random_reads(each));
    let target = format!("null,latency_us=1000,hw_queues=4,queue_depth={each}");
    let mut question = experiment(&target, scheduler, ["a", "b", "c", "d"].map(group).to_vec());
    question.queue_requests = Some(each);
    (question.ramp_ns, question.runtime_ns) = (0, 10 * MS);
    question
}

/// The largest number of bytes allocated at one time during the run.
fn peak_bytes(question: &Experiment) -> usize {
    let before = LIVE_BYTES.get();
    PEAK_BYTES.set(before);
    let measurement = Simulator::with_costs(HostCosts::NONE).run(question, &mut Unattended).unwrap();
    let depth: u64 = question.groups.iter().map(|group| u64::from(group.jobs[0].submission.iodepth)).sum();
    let ios: u64 = measurement.groups.iter().map(|group| group.ios()).sum();
    // Nearly all were in flight: each completes once per millisecond.
    assert!(ios >= 8 * depth, "{ios} I/Os at {depth} in flight");
    PEAK_BYTES.get() - before
}

/// The part of the queue and its policy.
fn queue_bytes(scheduler: &str, requests: u32) -> usize {
    let each = requests / 4;
    let configuration = hoistway_elevator::Configuration {
        slots: requests + 4,
        groups: 5,
        contexts: 5,
        depth: hoistway_elevator::Depth { requests, device: each },
        hardware_queues: 4,
        software_queues: 4,
        ..hoistway_elevator::Configuration::default()
    };
    let settings =
        hoistway_queue::Settings { configuration, bios: requests + 64, ..hoistway_queue::Settings::default() };
    let before = LIVE_BYTES.get();
    let policy = hoistway_elevator::registry::build(scheduler, None, &configuration).unwrap();
    let queue = hoistway_queue::RequestQueue::growing(policy, &settings, 0).unwrap();
    let bytes = LIVE_BYTES.get() - before;
    drop(queue);
    bytes
}

/// The goal is 200 bytes. With the policy `none` they are 160:
///
/// | queue and policy, 103 | | simulator and device, 57 | |
/// | --- | --- | --- | --- |
/// | request (a cache line) | 64 | I/O in flight | 32 |
/// | queue's slot, cookie of its only bio | 16 | null device: pending completion | 16 |
/// | links of dispatch list or merge hash | 8 | job: token | 5 |
/// | merge hash | 3 | delivery without costs | 4 |
/// | policy `none`: links, list | 12 | | |
///
/// Where completions cost time, a delivery is a pending event of 20 bytes. A bio that shares its
/// request or waits for one has a record of 60 bytes, and an I/O that may be more than one bio has
/// one of 16; both are allocated on demand, so that I/Os that neither merge nor wait do not need
/// them. Events more than 4 ms ahead, which disks have, take 16 more each. Policies that sort by
/// sector keep 50 bytes per request, 26 of them in nodes of a B+ tree, where noop keeps 8. The
/// limits below detect growth.
#[test]
fn a_request_in_flight_costs_at_most_200_bytes() {
    let sorted = ["deadline", "anticipatory", "mq-deadline"].map(|name| (name, 141, 199));
    let others = [("none", 103, 161), ("noop", 99, 157), ("wfq", 103, 161)];
    for (scheduler, queue_limit, limit) in sorted.into_iter().chain(others) {
        let each = |bytes: fn(&str, u32) -> usize| (bytes(scheduler, 9_000) - bytes(scheduler, 1_000)) / 8_000;
        let all = each(|scheduler, requests| peak_bytes(&in_flight(scheduler, requests)));
        let queue = each(queue_bytes);
        println!("{scheduler}: {all} bytes per request in flight, {queue} of them the queue's with its policy");
        assert!(queue <= queue_limit && all <= limit, "{scheduler}: {all} bytes, {queue} of them the queue's");
    }
}

/// Peak memory of `count` groups, with the experiment and its result: each group reads a few times.
fn bytes_of_groups(count: u32, depth: u32) -> usize {
    let paths: Vec<String> = (0..count).map(|number| format!("g{number}")).collect();
    let before = LIVE_BYTES.get();
    PEAK_BYTES.set(before);
    let groups = paths.iter().map(|path| (path.as_str(), 100, random_reads(depth))).collect();
    let mut question = experiment("null,latency_us=1000,queue_depth=1024", "none", groups);
    (question.ramp_ns, question.runtime_ns) = (0, 40 * MS);
    let measurement = Simulator::with_costs(HostCosts::NONE).run(&question, &mut Unattended).unwrap();
    assert!(measurement.groups.iter().all(|group| group.ios() > 0), "{count} groups: one got nothing");
    PEAK_BYTES.get() - before
}

/// A job is 1.3 KiB and exists twice, in the experiment and in the measurement; its issuer and
/// process are 1.4 KiB, its counts in two histograms 2 to 3, and its tallies 0.9. The limit keeps
/// 100,000 groups within a gigabyte.
#[test]
fn a_group_costs_at_most_10_kib() {
    let (few, many) = (bytes_of_groups(500, 1), bytes_of_groups(2_500, 1));
    let each = (many - few) / 2_000;
    assert!(each <= 10_240, "{each} bytes per group");
}
