//! The simulator as a host: determinism, arithmetic, refusals.

mod experiments;

use experiments::{MS, buffered_stream, experiment, log_of, random_reads, run, run_with};
use hoistway_experiment::{Experiment, Host, RunError, Unattended};
use hoistway_simulator::{HostCosts, Simulator};
use hoistway_workload::job::{Amount, Mix};

fn refusal(experiment: &Experiment) -> String {
    Simulator::default().check(experiment).unwrap_err().to_string()
}

/// `determinism.rs` pins logs of runs without host costs; this one is with the default costs.
/// Change it only with the simulated behaviour, and say why in the commit.
#[test]
fn the_log_with_the_hosts_costs_is_that_of_every_build() {
    let question = experiment("ssd,t_read_jitter_us=20", "noop", vec![("a", 100, random_reads(16))]);
    assert_eq!(log_of(&run(&question)), "cbe392cc9fca80e6");
}

/// Also after a run that has changed the device, and after one with another seed.
#[test]
fn runs_after_each_other_are_those_of_new_simulators() {
    let mut host = Simulator::default().logging();
    let writes = random_reads(16).with(|job| job.shape.mix = Mix::Write);
    for (scheduler, set) in [("noop", 1), ("wfq", 1), ("noop", 2), ("noop", 1)] {
        let mut question =
            experiment("ssd,precondition=random,sim_mib=64", scheduler, vec![("a", 100, writes.clone())]);
        question.set = set;
        assert_eq!(
            log_of(&host.run(&question, &mut Unattended).unwrap()),
            log_of(&run(&question)),
            "{scheduler} {set}"
        );
    }
}

#[test]
fn core_5_littles_law_holds_through_the_whole_host() {
    for (target, scheduler) in [("null", "noop"), ("ssd", "mq-deadline"), ("ssd", "none"), ("nvme", "none")] {
        let mut question = experiment(target, scheduler, vec![("a", 100, random_reads(32))]);
        question.runtime_ns = 1_000 * MS;
        // No host costs: one CPU of 1.5 us per I/O would not keep 32 in flight on null and nvme.
        let measurement = run_with(&question, HostCosts::NONE);
        let latency_ns = measurement.groups[0].read.latency.mean_ns();
        let in_flight = measurement.ios_per_s() * latency_ns / 1e9;
        assert!((in_flight / 32.0 - 1.0).abs() < 0.005, "{target} {scheduler}: {in_flight}");
    }
}

#[test]
fn the_ssd_serves_what_its_link_gives() {
    let measurement = run(&experiment("ssd-lsi", "mq-deadline", vec![("a", 100, random_reads(32))]));
    // 520 MB/s / 4096 B.
    let rate = measurement.ios_per_s();
    assert!((rate / 126_950.0 - 1.0).abs() < 0.02, "{rate}");
    assert_eq!(measurement.device.read.merges, 0);
    assert!(measurement.device.read.ios.abs_diff(measurement.groups[0].ios()) < 100);
}

#[test]
fn host_costs_add_to_latency_and_nothing_else() {
    let question = experiment("null,latency_us=10", "noop", vec![("a", 100, random_reads(1))]);
    let free = run_with(&question, HostCosts::NONE);
    assert_eq!(free.groups[0].read.latency.max_ns(), 10_000);
    assert_eq!(free.groups[0].ios(), 10_000, "100 ms at 10 us each");
    let usual = run(&question);
    // 10 us in the device, 3 us until the process runs, then it submits at once.
    assert_eq!(usual.groups[0].read.latency.max_ns(), 13_000);
}

#[test]
fn reasons_are_those_of_the_window() {
    let measurement = run(&experiment("ssd", "noop", vec![("a", 100, random_reads(8))]));
    let chosen: u64 = measurement.dispatch_reasons.values().sum();
    assert!(chosen.abs_diff(measurement.groups[0].ios()) < 100, "{:?}", measurement.dispatch_reasons);
}

#[test]
fn a_buffered_stream_is_read_ahead_in_large_requests() {
    let mut question = experiment("ssd", "noop", vec![("a", 100, buffered_stream(Mix::Read))]);
    question.runtime_ns = 500 * MS;
    let measurement = run(&question);
    // Two windows of 128 KiB in flight keep the 270 MB/s link nearly busy; copying overlaps with
    // it.
    let mbps = measurement.bytes_per_s() / 1e6;
    assert!(mbps > 200.0, "{mbps}");
    let device = measurement.device.read;
    let sectors_each = device.sectors / device.ios;
    assert!(sectors_each >= 256, "{sectors_each}");
}

#[test]
fn buffered_writes_come_at_copy_speed_until_the_dirty_limit_holds_them_to_the_device() {
    let mut question = experiment("ssd", "mq-deadline", vec![("a", 100, buffered_stream(Mix::Write))]);
    question.ramp_ns = 0;
    question.runtime_ns = 20 * MS;
    let cached = run(&question).bytes_per_s() / 1e6;
    // 4 KiB per 0.3 us + 0.82 us.
    assert!((cached / 3_660.0 - 1.0).abs() < 0.02, "{cached}");
    question.ramp_ns = 2_000 * MS;
    question.runtime_ns = 2_000 * MS;
    let held = run(&question).bytes_per_s() / 1e6;
    // 32 dies x 4,096 B / (900 us + an erase of 2 ms per 128 pages) = 143 MB/s, less the time to
    // refill the pipeline after erases.
    assert!((held / 141.0 - 1.0).abs() < 0.03, "{held}");
}

#[test]
fn an_fsync_waits_for_its_data_and_a_cache_flush() {
    let job = buffered_stream(Mix::Write).with(|job| job.submission.fsync_every = 1);
    let measurement = run(&experiment("ssd", "noop", vec![("a", 100, job)]));
    let sync = &measurement.groups[0].sync;
    // Write of 4 KiB: 15 us link, 128 us channel, 900 us program, for which the flush waits; 3 us
    // to run again.
    assert!(sync.ios > 50, "{}", sync.ios);
    assert!(sync.latency.mean_ns() > 1_040_000.0 && sync.latency.mean_ns() < 1_075_000.0, "{}", sync.latency.mean_ns());
}

#[test]
fn a_run_to_completion_ends_early_and_says_so() {
    let job = random_reads(4).with(|job| {
        job.area.size = Some(Amount::Bytes(1 << 20));
        job.times.time_based = false;
        job.times.runtime_ns = None;
    });
    let mut question = experiment("ssd-lsi", "noop", vec![("a", 100, job)]);
    question.ramp_ns = 0;
    let measurement = run(&question);
    assert_eq!(measurement.groups[0].bytes(), 1 << 20);
    assert!(measurement.window_ns < 10 * MS, "{}", measurement.window_ns);
}

#[test]
fn jobs_of_a_later_phase_wait_for_the_earlier() {
    let first = random_reads(4).with(|job| {
        job.area.size = Some(Amount::Bytes(1 << 20));
        job.times.time_based = false;
        job.times.runtime_ns = None;
    });
    let second = random_reads(1).with(|job| {
        job.course.phase = 1;
        job.name = "second".to_owned();
    });
    let mut question = experiment("ssd-lsi", "noop", vec![("a", 100, first), ("b", 100, second)]);
    question.ramp_ns = 0;
    let measurement = run(&question);
    // 256 reads at depth 4 take 64 x 134 us = 8.6 ms; the rest of 100 ms at depth 1 and 131.5 us
    // each is about 695 reads.
    let (first, second) = (measurement.groups[0].ios(), measurement.groups[1].ios());
    assert_eq!(first, 256);
    assert!((680..715).contains(&second), "{second}");
}

#[test]
fn a_group_starts_and_stops_when_it_says() {
    let mut question = experiment("ssd", "noop", vec![("a", 100, random_reads(1)), ("b", 100, random_reads(1))]);
    question.ramp_ns = 0;
    question.groups[1].start_ns = 25 * MS;
    question.groups[1].stop_ns = Some(75 * MS);
    let measurement = run(&question);
    let share = measurement.groups[1].ios() as f64 / measurement.groups[0].ios() as f64;
    assert!((share - 0.5).abs() < 0.02, "{share}");
}

#[test]
fn errors_are_counted_and_flagged() {
    let mut job = random_reads(8);
    *job.checks.continue_on_error.of_mut(hoistway_workload::job::Direction::Read) = true;
    let measurement = run(&experiment("ssd,error_ppm=10000", "mq-deadline", vec![("a", 100, job)]));
    assert!(measurement.groups[0].read.errors["EIO"] > 10);
    assert!(measurement.flags.contains(&hoistway_experiment::measurement::Flag::Errors));
}

#[test]
fn nested_groups_are_created_with_the_parts_between() {
    let measurement =
        run(&experiment("ssd-lsi", "noop", vec![("x/y/a", 100, random_reads(1)), ("x/b", 50, random_reads(1))]));
    assert!(measurement.groups.iter().all(|group| group.ios() > 500));
}

#[test]
fn impossible_experiments_are_refused_with_a_remedy() {
    let group = || vec![("a", 100, random_reads(1))];
    let message = refusal(&experiment("ssd", "mq-deadlin", group()));
    assert!(message.contains("no scheduler 'mq-deadlin'") && message.contains("nearest: mq-deadline"), "{message}");
    let message = refusal(&experiment("ssd", "mq-deadline:fifo_bach=1", group()));
    assert!(message.contains("no tunable 'fifo_bach'") && message.contains("nearest: fifo_batch ("), "{message}");
    let message = refusal(&experiment("ssd", "mq-deadline:fifo_batch=x", group()));
    assert!(message.contains("fifo_batch=x") && message.contains("allowed: "), "{message}");
    let message = refusal(&experiment("ssd", "mq-deadline@x", group()));
    assert!(message.contains("'x' is no kernel version"), "{message}");
    let message = refusal(&experiment("sdd", "noop", group()));
    assert!(message.contains("nearest: ssd"), "{message}");
    let mut deep = experiment("ssd", "noop", group());
    deep.device_depth = Some(64);
    let message = refusal(&deep);
    assert!(message.contains("holds 1 to 31") && message.contains("queue_depth=64"), "{message}");
}

#[test]
fn too_small_an_area_is_refused() {
    let job = random_reads(1).with(|job| job.area.size = Some(Amount::Bytes(1 << 40)));
    let message = refusal(&experiment("ssd", "noop", vec![("a", 100, job)]));
    assert!(message.contains("do not fit"), "{message}");
}

#[test]
fn a_run_in_which_nothing_takes_time_is_ended_with_a_reason() {
    let question = experiment("null,inline=1", "noop", vec![("a", 100, random_reads(1))]);
    let error =
        Simulator::with_costs(HostCosts::NONE).run(&question, &mut hoistway_experiment::Unattended).unwrap_err();
    assert!(matches!(&error, RunError::Failed { message, .. } if message.contains("time does not advance")), "{error}");
}

#[test]
fn cancelling_ends_the_run_without_a_measurement() {
    struct AtOnce;
    impl hoistway_experiment::Progress for AtOnce {
        fn started(&mut self, _experiment: &Experiment) {}
        fn advanced(&mut self, _figures: &hoistway_experiment::LiveFigures<'_>) {}
        fn cancelled(&self) -> bool {
            true
        }
    }
    let mut question = experiment("null", "noop", vec![("a", 100, random_reads(32))]);
    question.runtime_ns = 100_000 * MS;
    let error = Simulator::default().run(&question, &mut AtOnce).unwrap_err();
    assert!(matches!(error, RunError::Cancelled));
}
