//! Which submissions and completions the recorder counts in a measured window.
//!
//! Source: docs/specifications/harness.md, section 5.5.

mod example;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use hoistway_experiment::job::Job;
use hoistway_experiment::measurement::GroupMeasurement;
use hoistway_experiment::recorder::{Outcome, errno_of};
use hoistway_experiment::{Completion, Experiment, IoDirection, Recorder, Window};

const MS: u64 = 1_000_000;

fn experiment(runtime_ms: u64, ramp_ms: u64) -> Experiment {
    let mut experiment = example::measured("noop", 1, 1, &[1, 1], 1).experiment;
    (experiment.runtime_ns, experiment.ramp_ns) = (runtime_ms * MS, ramp_ms * MS);
    experiment
}

/// Records requests of 4 KiB of group 0, given as (submitted, completed) in ms, in order of time.
fn record(experiment: &Experiment, requests: &[(u64, u64)], ends_at_ms: Option<u64>) -> GroupMeasurement {
    let mut recorder = Recorder::new(experiment, Window::of(experiment, 0));
    let submitted = requests.iter().map(|&(from, _)| (from, None));
    let completed = requests.iter().map(|&(from, to)| (to, Some(from)));
    let mut events: Vec<_> = submitted.chain(completed).collect();
    events.sort_unstable();
    for (at_ms, from_ms) in events {
        match from_ms {
            None => recorder.submitted(0, IoDirection::Read, at_ms * MS),
            Some(from_ms) => recorder.completed(&completion(from_ms * MS, at_ms * MS, Outcome::Done)),
        }
    }
    ends_at_ms.into_iter().for_each(|end_ms| recorder.end_window(end_ms * MS));
    recorder.finish(experiment, None).swap_remove(0)
}

fn completion(submitted_ns: u64, completed_ns: u64, outcome: Outcome) -> Completion {
    let direction = IoDirection::Read;
    Completion { issuer: 0, direction, submitted_ns, completed_ns, bytes: 4096, device_ns: 3, outcome }
}

#[test]
fn throughput_counts_completions_inside_the_window() {
    // Window 1000..2000 ms: completions at 999 and 2000 are outside, at 1000 and 1999 inside.
    let group = record(&experiment(1000, 1000), &[(0, 999), (1, 1000), (2, 1999), (3, 2000)], None);
    assert_eq!((group.read.ios, group.read.bytes, group.read.device_ns), (2, 8192, 6));
    assert_eq!((group.threads[0].name.as_str(), group.threads[0].ios), ("drr.0", 2));
}

#[test]
fn late_requests_count_when_they_complete_inside_the_window() {
    let experiment = experiment(1000, 1000);
    let mut recorder = Recorder::new(&experiment, Window::of(&experiment, 0));
    for at_ms in [999, 1000, 1999, 2000] {
        recorder.late(0, at_ms * MS);
    }
    let groups = recorder.finish(&experiment, None);
    assert_eq!(groups.iter().map(|group| group.late).collect::<Vec<_>>(), [2, 0]);
}

#[test]
fn latency_counts_submissions_inside_the_window_however_late_they_complete() {
    let group = record(&experiment(1000, 1000), &[(999, 1500), (1500, 1501), (1999, 9000), (2000, 2001)], None);
    let latency = &group.read.latency;
    assert_eq!((latency.count(), latency.min_ns(), latency.max_ns()), (2, MS, 7001 * MS));
}

#[test]
fn each_second_has_a_sample_with_its_average_in_flight() {
    // In flight: 1 from 0 to 500 ms, 2 until 999 ms, 0 from 1000 to 2250 ms, and 1 until the window
    // ends at 2500 ms. The last sample is half a second long.
    let group = record(&experiment(2500, 0), &[(0, 1000), (500, 999), (2250, 2600)], None);
    let samples = &group.read.samples;
    let shape: Vec<_> = samples.iter().map(|s| (s.at_ns / MS, s.length_ns / MS, s.ios)).collect();
    assert_eq!(shape, [(0, 1000, 1), (1000, 1000, 1), (2000, 500, 0)]);
    // 1 x 1000 ms + 1 x 499 ms over 1000 ms; 250 ms of 500
    assert_eq!((samples[0].inflight, samples[1].inflight, samples[2].inflight), (1.499, 0.0, 0.5));
    assert_eq!((samples[0].latency_ns_max, samples[1].latency_ns_max), (499 * MS, 1000 * MS));
}

#[test]
fn a_window_that_ends_early_counts_nothing_after_its_end() {
    let group = record(&experiment(3000, 0), &[(0, 100), (100, 1200)], Some(1200));
    let samples: Vec<_> = group.read.samples.iter().map(|s| (s.at_ns / MS, s.length_ns / MS)).collect();
    assert_eq!(samples, [(0, 1000), (1000, 200)]);
    assert_eq!(group.read.ios, 2);
}

#[test]
fn discards_of_a_job_that_ends_in_its_ramp_do_not_count_as_transferred_bytes() {
    let mut experiment = experiment(1000, 1000);
    experiment.groups[0].jobs[0].times.ramp_ns = 1000 * MS;
    let mut recorder = Recorder::new(&experiment, Window::of(&experiment, 0));
    for direction in [IoDirection::Read, IoDirection::Trim] {
        recorder.submitted(0, direction, MS);
        recorder.completed(&Completion { direction, ..completion(MS, 2 * MS, Outcome::Done) });
    }
    let group = recorder.finish(&experiment, None).swap_remove(0);
    assert_eq!((group.threads[0].bytes, group.threads[0].ios), (4096, 2));
    assert_eq!(group.trim.bytes, 4096);
}

#[test]
fn errors_are_counted_by_name_and_carry_no_bytes() {
    let experiment = experiment(1000, 0);
    let mut recorder = Recorder::new(&experiment, Window::of(&experiment, 0));
    for outcome in [Outcome::Errno(5), Outcome::Errno(5), Outcome::Short, Outcome::Errno(77), Outcome::Done] {
        recorder.submitted(0, IoDirection::Read, 1);
        recorder.completed(&completion(1, 2, outcome));
    }
    let group = recorder.finish(&experiment, Some(&[1000, 10])).swap_remove(0);
    let errors: Vec<_> = group.read.errors.iter().map(|(name, count)| (name.as_str(), *count)).collect();
    assert_eq!(errors, [("EIO", 2), ("errno 77", 1), ("short", 1)]);
    assert_eq!((group.read.ios, group.errors(), group.effective_weight), (1, 4, 1000));
    let errnos: Vec<_> = group.read.errors.keys().map(|name| errno_of(name)).collect();
    assert_eq!(errnos, [Some(5), Some(77), Some(5)]);
}

#[test]
fn flushes_do_not_count_as_throughput() {
    let experiment = experiment(1000, 0);
    let mut recorder = Recorder::new(&experiment, Window::of(&experiment, 0));
    recorder.submitted(0, IoDirection::Sync, 0);
    recorder.completed(&Completion { direction: IoDirection::Sync, bytes: 0, ..completion(0, 9, Outcome::Done) });
    let group = recorder.finish(&experiment, None).swap_remove(0);
    assert_eq!((group.ios(), group.sync.ios, group.sync.latency.max_ns()), (0, 1, 9));
}

struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static WATCHED: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

#[expect(unsafe_code, reason = "an allocator is unsafe by its trait; this one counts and passes on")]
// SAFETY: every call is passed to the system allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if WATCHED.try_with(std::cell::Cell::get).unwrap_or(false) {
            ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        }
        // SAFETY: the caller keeps the contract of `GlobalAlloc`; the call is passed on unchanged.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `GlobalAlloc`; the call is passed on unchanged.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

#[test]
fn nothing_is_allocated_after_a_threads_first_request() {
    let experiment = experiment(10_000, 0);
    let mut recorder = Recorder::new(&experiment, Window::of(&experiment, 0));
    recorder.submitted(0, IoDirection::Read, 0);
    recorder.completed(&completion(0, 1, Outcome::Done));
    WATCHED.set(true);
    for at_ms in 0..12_000 {
        recorder.submitted(0, IoDirection::Read, at_ms * MS);
        recorder.completed(&completion(at_ms * MS, at_ms * MS + 17, Outcome::Done));
    }
    WATCHED.set(false);
    assert_eq!(ALLOCATIONS.load(Ordering::Relaxed), 0);
    assert_eq!(recorder.finish(&experiment, None)[0].read.samples.len(), 10);
}

/// Records requests of 4 KiB, given as (start, end) in ms, for an experiment of one thread that
/// runs `job`.
fn record_of(job: Job, requests: &[(u64, u64)], ends_at_ms: Option<u64>) -> GroupMeasurement {
    let mut experiment = experiment(1000, 1000);
    experiment.groups[0].jobs = vec![job];
    record(&experiment, requests, ends_at_ms)
}

#[test]
fn a_job_that_ends_in_its_ramp_is_measured_from_its_start() {
    let job = Job::default().with(|job| {
        job.times.ramp_ns = 1000 * MS;
        job.times.runtime_ns = Some(1000 * MS);
    });
    let group = record_of(job.clone(), &[(0, 10), (10, 30)], Some(30));
    assert_eq!((group.read.ios, group.read.bytes, group.read.latency.count()), (2, 8192, 2));
    assert_eq!((group.threads[0].ios, group.threads[0].elapsed_ns), (2, 30 * MS));
    // The window is the elapsed part of the ramp.
    assert_eq!(
        group.read.samples.iter().map(|sample| (sample.length_ns, sample.ios)).collect::<Vec<_>>(),
        [(30 * MS, 2)]
    );
    // A thread that outlives its ramp starts to count at the ramp's end, as in fio.
    let group = record_of(job.clone(), &[(0, 10), (10, 30), (1100, 1200)], Some(1200));
    assert_eq!((group.read.ios, group.threads[0].elapsed_ns), (1, 100 * MS));
    // A job that runs until its time is over does not end in its ramp.
    let group = record_of(job.with(|job| job.times.time_based = true), &[(0, 10), (10, 30)], None);
    assert_eq!(group.read.ios, 0);
}

#[test]
fn a_job_of_a_later_phase_has_its_ramp_when_it_begins() {
    let job = Job::default().with(|job| {
        job.times.ramp_ns = 200 * MS;
        job.times.runtime_ns = Some(300 * MS);
        job.times.time_based = true;
        job.course.phase = 1;
    });
    let group = record_of(job, &[(1300, 1400), (1400, 1500), (1500, 1700)], None);
    assert_eq!((group.read.ios, group.read.latency.count(), group.threads[0].elapsed_ns), (2, 1, 200 * MS));
}
