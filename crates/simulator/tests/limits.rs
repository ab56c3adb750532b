//! Limits of groups above every policy, with a device. Source: docs/specifications/throttle.md,
//! section 10.

mod experiments;

use experiments::{KIB, MS, experiment, log_of, random_reads, run};
use hoistway_elevator::registry::ENTRIES;
use hoistway_experiment::group::LowLimits;
use hoistway_experiment::{Experiment, Limits, Measurement, SchedulerSpec};
use hoistway_workload::Job;
use hoistway_workload::job::{BlockSize, Pattern, PerDirection};

const MB: u64 = 1_000_000;

/// Random reads of 64 KiB at a depth.
fn large_reads(depth: u32) -> Job {
    random_reads(depth).with(|job| job.shape.block_sizes = PerDirection::all(BlockSize::Fixed(64 * KIB)))
}

fn at_most(bytes_per_s: u64) -> Limits {
    Limits { read_bytes_per_s: Some(bytes_per_s), ..Limits::NONE }
}

/// A best-effort limit with the thresholds that make it effective.
fn at_least(bytes_per_s: u64) -> Limits {
    let low =
        LowLimits { read_bytes_per_s: bytes_per_s, idle_us: 2_000, latency_us: Some(100), ..LowLimits::default() };
    Limits { low, ..Limits::NONE }
}

/// Groups `a`, `b`, ... with a job and limits each; `seconds` are ramp and run time.
fn question(target: &str, scheduler: &str, groups: &[(Job, Limits)], seconds: (u64, u64)) -> Experiment {
    let names = ["a", "b", "c"];
    let members = names.iter().zip(groups).map(|(name, (job, _))| (*name, 100, job.clone())).collect();
    let mut question = experiment(target, scheduler, members);
    for (group, (_, limits)) in question.groups.iter_mut().zip(groups) {
        group.limits = *limits;
    }
    (question.ramp_ns, question.runtime_ns) = (seconds.0 * 1_000 * MS, seconds.1 * 1_000 * MS);
    question
}

/// Rate of a group in MB/s.
fn rate(measurement: &Measurement, group: usize) -> f64 {
    measurement.groups[group].bytes() as f64 / measurement.window_ns as f64 * 1e3
}

/// Serves 100 MB/s in order of arrival, 64 requests at a time.
const PIPE: &str = "null,mbps=100,latency_us=50,qd=64";

/// These policies give the device to one issuer at a time, for a slice: a bio that a limit releases
/// waits for the issuer's turn.
const BY_TURNS: [&str; 4] = ["cfq", "uchida", "tarasov", "bfq"];

#[test]
fn t44_a_limit_is_kept_above_every_policy_and_costs_the_others_nothing() {
    for entry in ENTRIES {
        // With turns of 100 ms 16 reads are at most 10 MB/s: the limited group must demand more
        // than its limit allows.
        let depth = if BY_TURNS.contains(&entry.name) { 256 } else { 16 };
        let (limited, unlimited) = ((large_reads(depth), at_most(50 * MB)), (large_reads(16), Limits::NONE));
        let both = run(&question("ssd", entry.name, &[limited, unlimited.clone()], (0, 10)));
        let a = rate(&both, 0);
        assert!((49.0..=51.0).contains(&a), "{}: {a:.2} MB/s instead of 50", entry.name);
        assert!(both.target.notes["limiters"].starts_with("throttle:"), "{:?}", both.target.notes);
        let alone = run(&question("ssd", entry.name, &[unlimited], (0, 10)));
        let (with, without) = (rate(&both, 1), rate(&alone, 0));
        // A policy that idles the device for one reader is exempt.
        let is_idling = entry.name == "anticipatory" || BY_TURNS.contains(&entry.name);
        assert!(is_idling || with > without - 55.0, "{}: {with:.1} beside, {without:.1} alone", entry.name);
    }
}

#[test]
fn t44_limits_of_ios_and_of_groups_above_are_kept_as_well() {
    let limits = Limits { read_ios_per_s: Some(200), ..Limits::NONE };
    let measured = run(&question("ssd", "mq-deadline", &[(large_reads(8), limits)], (0, 10)));
    let per_s = measured.groups[0].ios() as f64 / 10.0;
    assert!((196.0..=204.0).contains(&per_s), "{per_s}");
    // Two children below a limit: half of it each, as long as both have bios for a whole slice.
    let mut below =
        question("ssd", "none", &[(large_reads(16), Limits::NONE), (large_reads(32), Limits::NONE)], (1, 9));
    below.groups[0].path = "top/a".to_owned();
    below.groups[1].path = "top/b".to_owned();
    let mut top = hoistway_experiment::Group::new("top", hoistway_experiment::Weight::DEFAULT, Vec::new());
    top.limits = at_most(40 * MB);
    below.groups.insert(0, top);
    let measured = run(&below);
    let (a, b) = (rate(&measured, 1), rate(&measured, 2));
    assert!((39.2..=40.8).contains(&(a + b)) && (a / (a + b) - 0.5).abs() < 0.05, "{a:.1} and {b:.1}");
}

#[test]
fn t45_a_run_with_limits_replays_to_the_last_completion() {
    let limited = [(large_reads(16), at_least(50 * MB)), (large_reads(32), at_most(80 * MB))];
    for scheduler in ["none", "deadline"] {
        let question = question(PIPE, scheduler, &limited, (0, 2));
        assert_eq!(log_of(&run(&question)), log_of(&run(&question)), "{scheduler}");
    }
}

#[test]
fn t20_groups_at_their_low_limits_share_the_whole_device() {
    let groups = [(large_reads(64), at_least(50 * MB)), (large_reads(32), at_least(10 * MB))];
    let measured = run(&question(PIPE, "noop", &groups, (1, 4)));
    let (a, b) = (rate(&measured, 0), rate(&measured, 1));
    assert!(a + b > 95.0 && a > 50.0, "{a:.1} and {b:.1}");
}

#[test]
fn t21_the_guarantee_of_an_idle_group_is_available_to_others() {
    let mut question =
        question(PIPE, "noop", &[(large_reads(8), at_least(50 * MB)), (large_reads(32), at_least(10 * MB))], (1, 3));
    // A arrives after the end of the run.
    question.groups[0].start_ns = 100_000 * MS;
    let b = rate(&run(&question), 1);
    assert!(b > 95.0, "{b:.1}");
}

/// MB/s of B beside A, and in the second that begins `delay_ms` after A's last read completed. A's
/// guarantee is more than the device can give, so that B is held to its own while A is present.
fn beside_and_after(scheduler: &str, of_b: Limits, delay_ms: u64, slice_ms: u64) -> (f64, f64) {
    let groups = [(large_reads(32), at_least(50 * MB)), (large_reads(8), of_b)];
    let mut question = question("null,mbps=20,latency_us=50,qd=64", scheduler, &groups, (1, 1));
    // Requests wait in front of the device: in the device the wait would count as the device's
    // usual latency.
    (question.device_depth, question.queue_requests) = (Some(1), Some(128));
    question.limiters = vec![SchedulerSpec::named("throttle").with("throttle_sample_time", &slice_ms.to_string())];
    let beside = rate(&run(&question), 1);
    // A's requests in flight when it stops: 32 reads of 64 KiB at the 15 MB/s that B leaves.
    let in_flight_ms = 140;
    question.groups[0].stop_ns = Some(1_000 * MS);
    question.ramp_ns = (1_000 + in_flight_ms + delay_ms) * MS;
    (beside, rate(&run(&question), 1))
}

#[test]
fn t21_unused_guarantees_are_available_to_others_within_the_sample_times_above_every_policy() {
    let slice_ms = 20;
    let four_thresholds_ms = 8;
    // With turns a group is away for longer than a sample, and its idle time is meaningless.
    for entry in ENTRIES.iter().filter(|entry| !BY_TURNS.contains(&entry.name)) {
        let delay_ms = slice_ms + four_thresholds_ms;
        let (beside, after) = beside_and_after(entry.name, at_least(5 * MB), delay_ms, slice_ms);
        assert!(beside < 5.2, "{}: {beside:.2} MB/s beside A", entry.name);
        assert!(after > 19.0, "{}: {after:.2} MB/s of 20", entry.name);
        // A group without a guarantee keeps ten I/Os per second; everything is re-evaluated when
        // its next I/O is due, or after eight slices: the longest timer of the kernel's throttle.
        let (beside, after) = beside_and_after(entry.name, Limits::NONE, 8 * slice_ms, slice_ms);
        assert!(beside < 1.0, "{}: {beside:.2} MB/s beside A", entry.name);
        assert!(after > 19.0, "{}: {after:.2} MB/s of 20", entry.name);
    }
}

#[test]
fn t22_a_group_that_returns_has_its_promise_back_within_a_second() {
    let returns = |limits: Limits, of_b: Limits| {
        let mut question = question(PIPE, "noop", &[(large_reads(16), limits), (large_reads(128), of_b)], (3, 3));
        question.groups[0].start_ns = 2_000 * MS;
        let measured = run(&question);
        (rate(&measured, 0), rate(&measured, 1))
    };
    let (unprotected, _) = returns(Limits::NONE, Limits::NONE);
    assert!(unprotected < 20.0, "{unprotected:.1}");
    let (a, b) = returns(at_least(50 * MB), at_least(10 * MB));
    assert!(a > 47.5 && a + b > 85.0, "{a:.1} and {b:.1}");
}

#[test]
fn t24_without_a_promise_a_group_is_left_the_floor_or_by_the_rules_of_2016_everything() {
    // The device cannot give A its guaranteed rate.
    let slow = "null,mbps=20,latency_us=50,qd=64";
    let groups = [(large_reads(32), at_least(50 * MB)), (random_reads(8), Limits::NONE)];
    // Requests wait in front of the device: in the device the wait would count as the device's
    // usual latency.
    let question = |groups: &[(Job, Limits)]| {
        let mut question = question(slow, "noop", groups, (1, 10));
        (question.device_depth, question.queue_requests) = (Some(1), Some(128));
        // With slices of 20 ms, as on flash, an I/O every 100 ms does not fit evenly: the
        // truncation at each trim reduces ten per second to 5.6, as in the kernel.
        question.limiters = vec![SchedulerSpec::named("throttle").with("throttle_sample_time", "100")];
        question
    };
    let measured = run(&question(&groups));
    let per_s = measured.groups[1].ios() as f64 / 10.0;
    assert!((9.0..=11.0).contains(&per_s), "{per_s}");
    let mut high = question(&groups);
    high.groups[0].limits.low = LowLimits { idle_us: 0, latency_us: None, ..high.groups[0].limits.low };
    high.limiters[0] = high.limiters[0].clone().with("high", "1");
    let per_s = run(&high).groups[1].ios() as f64 / 10.0;
    let mut free = question(&groups);
    free.groups[0].limits = Limits::NONE;
    let free_per_s = run(&free).groups[1].ios() as f64 / 10.0;
    assert!(per_s > 0.95 * free_per_s && free_per_s > 40.0, "{per_s} of {free_per_s}");
}

#[test]
fn t25_a_thinking_group_does_not_delay_others() {
    let mut thinks = random_reads(1);
    thinks.pacing.think.time_ns = 10 * MS;
    let groups = [(thinks, at_least(50 * MB)), (large_reads(32), at_least(10 * MB))];
    let b = rate(&run(&question(PIPE, "noop", &groups, (1, 4))), 1);
    assert!(b > 90.0, "{b:.1}");
}

#[test]
fn t27_a_promise_is_capped_by_the_limit_and_needs_its_thresholds() {
    let mut both = at_least(50 * MB);
    both.read_bytes_per_s = Some(20 * MB);
    let measured =
        run(&question(PIPE, "noop", &[(large_reads(16), both), (large_reads(16), at_least(10 * MB))], (1, 4)));
    let (a, b) = (rate(&measured, 0), rate(&measured, 1));
    assert!((19.0..=20.5).contains(&a) && a + b > 95.0, "{a:.1} and {b:.1}");
    // Without thresholds it is no guarantee: no group is held back for one that does not reach it.
    let mut alone = at_least(90 * MB);
    (alone.low.idle_us, alone.low.latency_us) = (0, None);
    let measured = run(&question(PIPE, "noop", &[(large_reads(4), alone), (large_reads(32), Limits::NONE)], (1, 4)));
    assert!(rate(&measured, 0) + rate(&measured, 1) > 95.0 && rate(&measured, 1) > 50.0);
}

#[test]
fn t28_without_limits_a_throttle_changes_nothing() {
    let groups = [(large_reads(8), Limits::NONE), (random_reads(8), Limits::NONE)];
    let without = question("ssd", "kyber", &groups, (0, 1));
    let mut with = without.clone();
    with.limiters = vec![SchedulerSpec::named("throttle")];
    assert_eq!(log_of(&run(&with)), log_of(&run(&without)));
}

/// A small reader with a latency target beside a large one without, in steady state.
fn beside_a_backup(target: &str, scheduler: &str, latency_target_us: u64) -> Experiment {
    let db = (random_reads(1), Limits { latency_target_us, ..Limits::NONE });
    // At first the disk completes a read after about 2 s. The reader's latency is sampled, and the
    // other group throttled, no more often than that, so a disk needs a longer ramp.
    let seconds = if target == "sata" { (20, 5) } else { (5, 3) };
    question(target, scheduler, &[db, (large_reads(32), Limits::NONE)], seconds)
}

#[test]
fn a_latency_target_that_is_missed_is_paid_for_by_the_others() {
    for (target, latency_target_us) in [("ssd", 700), ("sata", 30_000)] {
        for scheduler in ["none", "mq-deadline"] {
            let figures = |latency_target_us: u64| {
                let measured = run(&beside_a_backup(target, scheduler, latency_target_us));
                let limiters = measured.target.notes.get("limiters").cloned();
                (measured.groups[0].latency().mean_ns() / 1e6, rate(&measured, 1), limiters)
            };
            let alone = run(&question(target, scheduler, &[(random_reads(1), Limits::NONE)], (0, 1)));
            let (alone_ms, target_ms) = (alone.groups[0].latency().mean_ns() / 1e6, latency_target_us as f64 / 1e3);
            let (without_ms, other_without, none) = figures(0);
            let (with_ms, other_with, limiters) = figures(latency_target_us);
            let place = format!("{scheduler} on {target}: {without_ms:.2} and {with_ms:.2} ms");
            assert_eq!((none.as_deref(), limiters.as_deref()), (None, Some("io.latency")), "{place}");
            assert!(alone_ms < target_ms && without_ms > 10.0 * target_ms, "{alone_ms:.2} ms alone, {place}");
            // Sometimes above the target: the other group regains depth while the target is met,
            // until it is missed again.
            assert!(with_ms < 3.0 * target_ms, "{place}");
            assert!(other_with < 0.95 * other_without, "{place}, {other_without:.1} and {other_with:.1} MB/s");
        }
    }
}

#[test]
fn without_a_target_or_with_one_that_is_kept_io_latency_changes_nothing() {
    for scheduler in ["none", "mq-deadline"] {
        let without = beside_a_backup("ssd", scheduler, 0);
        let mut named = without.clone();
        named.limiters = vec![SchedulerSpec::named("io.latency")];
        let kept = beside_a_backup("ssd", scheduler, 1_000_000);
        for other in [named, kept] {
            let (measured, expected) = (run(&other), run(&without));
            assert_eq!(log_of(&measured), log_of(&expected), "{scheduler}");
            assert_eq!(measured.target.notes["limiters"], "io.latency");
        }
    }
}

#[test]
fn only_siblings_pay_for_a_target() {
    // The reader and its target are below `top`; the other group, beside `top`, is not its sibling.
    let mut question = beside_a_backup("ssd", "none", 700);
    question.groups[0].path = "top/db".to_owned();
    let apart = run(&question);
    question.groups[1].path = "top/backup".to_owned();
    let together = run(&question);
    let mean_ms = |measured: &Measurement| measured.groups[0].latency().mean_ns() / 1e6;
    assert!(mean_ms(&apart) > 5.0 && mean_ms(&together) < 1.4, "{} and {}", mean_ms(&apart), mean_ms(&together));
}

#[test]
fn limiters_that_do_not_exist_are_refused_with_the_nearest() {
    use hoistway_experiment::Host;
    let refused = |spec: &str| {
        let mut question = question("ssd", "noop", &[(large_reads(1), Limits::NONE)], (0, 1));
        question.limiters = vec![spec.parse().unwrap()];
        hoistway_simulator::Simulator::default().check(&question).unwrap_err().to_string()
    };
    assert!(refused("trottle").contains("there is no limiter 'trottle'"), "{}", refused("trottle"));
    assert!(refused("throttle:hihg=1").contains("no tunable 'hihg'"));
    assert!(refused("throttle:high=2").contains("high=2"));
    assert!(refused("throttle@6.1").contains("no versions"));
}

/// io.cost with these settings.
fn io_cost(settings: &[(&str, u64)]) -> SchedulerSpec {
    settings.iter().fold(SchedulerSpec::named("io.cost"), |spec, (key, value)| spec.with(key, &value.to_string()))
}

#[test]
fn t38_weights_of_100_and_800_are_shares_of_1_to_8_above_every_policy() {
    // The model of the device, measured with the device itself as iocost_coef_gen does: without a
    // scheduler, deep and alone.
    let alone = |block_bytes: u32, depth: u32, pattern: Option<Pattern>| {
        let block_sizes = PerDirection::all(BlockSize::Fixed(block_bytes));
        let reads = random_reads(depth);
        let job = reads.with(|job| {
            job.shape.block_sizes = block_sizes;
            job.shape.pattern = pattern.unwrap_or(job.shape.pattern);
        });
        run(&question("ssd", "none", &[(job, Limits::NONE)], (1, 1)))
    };
    let random = alone(4 * KIB, 256, None);
    let sequential = alone(4 * KIB, 256, Some(Pattern::default()));
    let stream = alone(KIB * KIB, 4, Some(Pattern::default()));
    let (rrandiops, rseqiops, rbps) = (random.groups[0].ios(), sequential.groups[0].ios(), stream.groups[0].bytes());
    // The virtual clock runs a little below the device's maximum. At the maximum a queue in the
    // device never drains once it exists, and the group with the deeper queue in it gets more,
    // whatever its weight (docs/limiters/io-cost.md).
    let rate = 95;
    let limiter =
        io_cost(&[("rbps", rbps), ("rseqiops", rseqiops), ("rrandiops", rrandiops), ("min", rate), ("max", rate)]);
    // With turns, a device of many channels never does enough that the virtual clock limits it; the
    // turns decide instead. Nor does it limit where latency sets the depth: sfq-d2 keeps 0.87 of
    // the device's maximum by itself.
    let binds = |name: &str| name != "sfq-d2" && !BY_TURNS.contains(&name);
    for entry in ENTRIES.iter().filter(|entry| binds(entry.name)) {
        let groups = vec![("a", 100, random_reads(32)), ("b", 800, random_reads(32))];
        let mut question = experiment("ssd", entry.name, groups);
        (question.ramp_ns, question.runtime_ns) = (500 * MS, 2_000 * MS);
        question.limiters = vec![limiter.clone()];
        let measured = run(&question);
        let [a, b] = [0, 1].map(|group| measured.groups[group].ios() as f64);
        let (ratio, used) = (b / a, (a + b) / 2.0 / rrandiops as f64);
        assert!((7.6..=8.4).contains(&ratio), "{}: 1:{ratio:.2}", entry.name);
        assert!((0.93..=0.97).contains(&used), "{}: {used:.3} of the device", entry.name);
    }
}
