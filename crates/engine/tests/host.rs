//! The engine as a host: experiments with real I/O.

#[path = "../../cli/tests/program/quiet.rs"]
mod quiet;

use hoistway_engine::EngineHost;
use hoistway_experiment::{Experiment, Group, Host, Unattended, Weight};
use hoistway_workload::job::{BlockSize, Engine, Mix, Pattern, PerDirection};
use hoistway_workload::program::{Dbench, StartUp, Video};
use hoistway_workload::{Job, Program};
use quiet::undisturbed;

fn job(mix: Mix, iodepth: u32) -> Job {
    Job::default().with(|job| {
        job.name = "j".to_owned();
        job.shape.mix = mix;
        job.shape.pattern = Pattern::Random { run: 1, repeat_offset: false };
        job.shape.block_sizes = PerDirection::all(BlockSize::Fixed(4_096));
        job.submission.engine = Engine::Async;
        job.submission.iodepth = iodepth;
        job.submission.direct = true;
        job.times.time_based = true;
        job.shape.random_map = false;
        job.times.runtime_ns = Some(3_600_000_000_000);
    })
}

fn experiment(target: &str, scheduler: &str, weights: &[u32], job: &Job) -> Experiment {
    let group =
        |&weight: &u32| Group::new(format!("g{weight}"), Weight::new(weight).expect("a weight"), vec![job.clone()]);
    let groups: Vec<Group> = weights.iter().map(group).collect();
    Experiment {
        runtime_ns: 1_000_000_000,
        ramp_ns: 100_000_000,
        device_depth: Some(8),
        ..Experiment::new(target, "test", scheduler.parse().expect("a scheduler"), groups)
    }
}

#[test]
fn shares_follow_the_weights_behind_a_device_model() {
    let experiment = experiment("model:null,latency_us=400,memory:64MiB", "wfq", &[100, 400], &job(Mix::Read, 32));
    EngineHost.check(&experiment).expect("possible");
    let run = || EngineHost.run(&experiment, &mut Unattended).expect("measured");
    let Some(measured) = undisturbed("shares behind a model", run) else { return };
    let bytes: Vec<u64> =
        measured.groups.iter().map(hoistway_experiment::measurement::GroupMeasurement::bytes).collect();
    let ratio = bytes[1] as f64 / bytes[0] as f64;
    assert!((3.6..4.4).contains(&ratio), "{bytes:?}, ratio {ratio}, {:?}", measured.dispatch_reasons);
    assert_eq!(measured.groups[0].errors(), 0);
    assert!(measured.device.read.ios > 0 && !measured.dispatch_reasons.is_empty());
}

/// A group limited to 10 MB/s beside an unlimited one, on a device that is not saturated.
#[test]
fn a_limit_is_kept_and_leaves_the_other_group_alone() {
    for scheduler in ["mq-deadline", "kyber"] {
        let mut experiment =
            experiment("model:null,latency_us=400,memory:64MiB", scheduler, &[100, 400], &job(Mix::Read, 16));
        experiment.runtime_ns = 2_000_000_000;
        experiment.groups[0].limits.read_bytes_per_s = Some(10_000_000);
        EngineHost.check(&experiment).expect("possible");
        let run = || EngineHost.run(&experiment, &mut Unattended).expect("measured");
        let Some(measured) = undisturbed("a limit", run) else { return };
        let per_s =
            |group: usize| measured.groups[group].bytes() as f64 / (measured.window_ns as f64 / 1e9) / 1_000_000.0;
        let (a, b) = (per_s(0), per_s(1));
        // Without limits both would have the same: tens of MB/s.
        assert!((9.5..10.5).contains(&a) && b > 1.5 * a, "{scheduler}: {a:.2} and {b:.2} MB/s");
        assert!(measured.target.notes["limiters"].starts_with("rate"), "{:?}", measured.target.notes);
    }
}

/// 256 reads at 2 a second would delay the end of the run by two minutes.
#[test]
fn a_run_does_not_wait_for_requests_held_by_tight_limits() {
    let mut experiment = experiment("memory:64MiB", "none", &[100], &job(Mix::Read, 256));
    experiment.groups[0].limits.read_ios_per_s = Some(2);
    let began = std::time::Instant::now();
    let measured = EngineHost.run(&experiment, &mut Unattended).expect("measured");
    assert!(began.elapsed().as_secs() < 60, "{:?}", began.elapsed());
    assert!(measured.groups[0].ios() <= 3, "{}", measured.groups[0].ios());
    assert!(measured.target.notes["limiters"].starts_with("rate"), "{:?}", measured.target.notes);
}

/// A reader at depth 1 with a target of 1 ms beside one at depth 32, on a device that serves one
/// read at a time.
#[test]
fn a_latency_target_is_paid_for_by_the_other_group() {
    let target = "model:null,latency_us=200,servers=1,memory:64MiB";
    let run = |latency_target_us: u64| {
        let mut experiment = experiment(target, "mq-deadline", &[100, 400], &job(Mix::Read, 32));
        experiment.groups[0].jobs[0].submission.iodepth = 1;
        // The limiter lowers the depth of the other group from 16 (twice the device's depth of 8)
        // to 1 in four steps of half a second each.
        experiment.ramp_ns = 3_500_000_000;
        experiment.groups[0].limits.latency_target_us = latency_target_us;
        EngineHost.check(&experiment).expect("possible");
        let measured = EngineHost.run(&experiment, &mut Unattended).expect("measured");
        (measured.groups[0].latency().mean_ns() / 1e6, measured.groups[1].ios(), measured.target.notes)
    };
    let both = undisturbed("a latency target", || (run(0), run(1_000)));
    let Some(((without_ms, other_without, _), (with_ms, other_with, notes))) = both else { return };
    let figures = format!("{without_ms:.2} and {with_ms:.2} ms, {other_without} and {other_with} reads");
    assert!(without_ms > 4.0 && with_ms < without_ms / 2.0 && other_with < other_without, "{figures}");
    assert_eq!(notes["limiters"], "io.latency");
}

#[test]
fn limiters_that_do_not_exist_are_refused_before_anything_is_touched() {
    let check = |limiter: &str| {
        let mut experiment = experiment("memory:1MiB", "noop", &[100], &job(Mix::Read, 1));
        experiment.limiters = vec![limiter.parse().expect("a limiter")];
        EngineHost.check(&experiment).map_err(|refusal| refusal.message)
    };
    assert_eq!(check("throttle:throttle_sample_time=50"), Ok(()));
    assert!(check("trottle").is_err_and(|message| message.contains("no limiter 'trottle'; did you mean 'throttle'?")));
    assert!(check("throttle:hihg=1").is_err_and(|message| message.contains("did you mean 'high'?")));
    assert!(check("throttle:throttle_sample_time=0").is_err_and(|message| message.contains("allowed")));
}

#[test]
fn a_job_that_ends_early_ends_the_window() {
    let counted = job(Mix::Write, 4).with(|job| {
        job.area.number_ios = Some(100);
        job.times.time_based = false;
    });
    let experiment = experiment("memory:16MiB", "noop", &[100], &counted);
    let measured = EngineHost.run(&Experiment { ramp_ns: 0, ..experiment }, &mut Unattended).expect("measured");
    assert_eq!(measured.groups[0].ios(), 100);
    assert!(measured.window_ns < 1_000_000_000);
}

#[test]
fn impossible_experiments_are_refused_before_anything_is_touched() {
    let check = |target: &str, scheduler: &str| {
        EngineHost.check(&experiment(target, scheduler, &[100], &job(Mix::Read, 1))).map_err(|refusal| refusal.message)
    };
    assert_eq!(check("memory:1MiB", "noop"), Ok(()));
    assert!(check("memory:1MiB", "bfqq").is_err_and(|message| message.contains("no scheduler 'bfqq'")));
    assert!(check("memory:1MiB", "mq-deadline:fifo_bach=1").is_err_and(|message| message.contains("fifo_batch")));
    assert!(check("memory:1MiB", "mq-deadline:fifo_batch=-1").is_err_and(|message| message.contains("allowed")));
    assert!(check("/nowhere/at/all", "noop").is_err_and(|message| message.contains("does not exist")));
    assert!(check("/dev/null", "noop").is_err_and(|message| message.contains("character device")));
    assert!(check("memory:2KiB", "noop").is_err_and(|message| message.contains("area")));
    let program = |program| {
        let endless = job(Mix::Read, 1);
        let job = Job::of(program).with(|job| {
            job.times.time_based = endless.times.time_based;
            job.times.runtime_ns = endless.times.runtime_ns;
        });
        EngineHost.check(&experiment("memory:64MiB", "noop", &[100], &job)).map_err(|refusal| refusal.message)
    };
    assert!(program(Program::Dbench(Dbench::USUAL)).is_err_and(|message| message.contains("no file system")));
    assert_eq!(program(Program::Video(Video::USUAL)), Ok(()));
    assert_eq!(program(Program::StartUp(StartUp::USUAL)), Ok(()));
}

#[test]
fn a_cancelled_run_ends_at_once_and_leaves_no_thread() {
    struct Impatient;
    impl hoistway_experiment::Progress for Impatient {
        fn started(&mut self, _: &Experiment) {}
        fn advanced(&mut self, _: &hoistway_experiment::LiveFigures<'_>) {}
        fn cancelled(&self) -> bool {
            true
        }
    }
    let long =
        Experiment { runtime_ns: 3_600_000_000_000, ..experiment("memory:1MiB", "noop", &[100], &job(Mix::Read, 1)) };
    let began = std::time::Instant::now();
    let ended = EngineHost.run(&long, &mut Impatient);
    assert!(matches!(ended, Err(hoistway_experiment::RunError::Cancelled)), "{ended:?}");
    // It would have run for an hour.
    assert!(began.elapsed().as_secs() < 60, "{:?}", began.elapsed());
}

/// An observer that requests a record of this number of dispatches.
struct Wanting(usize);

impl hoistway_experiment::Progress for Wanting {
    fn started(&mut self, _experiment: &Experiment) {}
    fn advanced(&mut self, _figures: &hoistway_experiment::LiveFigures<'_>) {}
    fn wanted_dispatches(&self) -> usize {
        self.0
    }
}

/// The first dispatches after the window's start, with the groups and reasons that the page shows.
#[test]
fn the_first_dispatches_are_recorded() {
    let experiment = experiment("model:null,latency_us=400,memory:64MiB", "wfq", &[100, 400], &job(Mix::Read, 32));
    let run = || EngineHost.run(&experiment, &mut Wanting(300)).expect("measured");
    let Some(measured) = undisturbed("shares of the first dispatches", run) else { return };
    let dispatches = measured.dispatches.expect("recorded");
    assert_eq!(dispatches.requests.len(), 300);
    assert!(dispatches.requests.windows(2).all(|pair| pair[0].at_ns <= pair[1].at_ns));
    // Adjacent requests that wait together are merged into one.
    assert!(dispatches.requests.iter().all(|it| it.extent.sectors.is_multiple_of(8) && it.service_ns >= 300_000));
    let of_group = |group: u16| dispatches.requests.iter().filter(|request| request.group == Some(group)).count();
    assert!(of_group(1) > 2 * of_group(0) && of_group(0) + of_group(1) == 300, "{} {}", of_group(0), of_group(1));
    let with_reason =
        dispatches.requests.iter().filter_map(|request| dispatches.reasons.get(usize::from(request.reason?)));
    assert!(with_reason.count() > 200);
}

/// Two groups with 32 requests each on a device whose eight servers are busy with 8 requests and
/// that takes 64 at once: without a learned depth nothing would wait.
#[test]
fn by_default_the_depth_is_learned_and_shares_are_kept() {
    let target = "model:null,latency_us=800,servers=8,memory:64MiB";
    let mut experiment = experiment(target, "mqfq", &[100, 400], &job(Mix::Read, 32));
    (experiment.device_depth, experiment.ramp_ns, experiment.runtime_ns) = (None, 3_000_000_000, 3_000_000_000);
    let run = || EngineHost.run(&experiment, &mut Unattended).expect("measured");
    let Some(measured) = undisturbed("shares at a learned depth", run) else { return };
    let bytes: Vec<u64> =
        measured.groups.iter().map(hoistway_experiment::measurement::GroupMeasurement::bytes).collect();
    let ratio = bytes[1] as f64 / bytes[0] as f64;
    assert!((3.2..4.8).contains(&ratio), "{bytes:?}, ratio {ratio}");
}

/// A single group gets the full depth.
#[test]
fn a_group_alone_is_not_held_back() {
    let target = "model:null,latency_us=800,servers=32,memory:64MiB";
    let rate = |scheduler: &str| {
        let mut experiment = experiment(target, scheduler, &[100], &job(Mix::Read, 64));
        (experiment.device_depth, experiment.runtime_ns) = (None, 2_000_000_000);
        EngineHost.run(&experiment, &mut Unattended).expect("measured").ios_per_s()
    };
    let rates = undisturbed("the rate at a learned depth", || (rate("none"), rate("wfq")));
    let Some((free, learned)) = rates else { return };
    assert!(learned > 0.9 * free, "{learned:.0} of {free:.0}");
}
