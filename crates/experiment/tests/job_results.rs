//! Results of jobs in addition to those of their groups: which exist, the time that they cover, and
//! what the end of the run cut off.

#[allow(dead_code, reason = "one part of it is enough here")]
mod example;

use hoistway_experiment::job::{Job, Mix};
use hoistway_experiment::job_results::{JobMeasurement, MOST_THREADS};
use hoistway_experiment::job_summary::summaries_of;
use hoistway_experiment::measurement::GroupMeasurement;
use hoistway_experiment::recorder::Outcome;
use hoistway_experiment::{Completion, Experiment, IoDirection, Measurement, Recorder, Window};

const MS: u64 = 1_000_000;

fn job(name: &str, threads: u32, report_group: u32) -> Job {
    Job::default().with(|job| {
        job.name = name.into();
        job.threads = threads;
        job.reporting.report_group = report_group;
        job.course.phase = report_group;
        job.reporting.has_own_results = true;
    })
}

fn measured(jobs: Vec<Job>, runtime_ms: u64) -> Measurement {
    let mut measured = example::measured("noop", 1, 1, &[1], 1);
    measured.experiment.groups[0].jobs = jobs;
    (measured.experiment.runtime_ns, measured.experiment.ramp_ns) = (runtime_ms * MS, 0);
    measured
}

/// The I/Os of a thread: direction, requests of 4 KiB in ms, and its end if it has one.
type Doing<'a> = (IoDirection, &'a [(u64, u64)], Option<u64>);

/// The record of threads that run one after another, in a window that ends at `ends_at_ms` if
/// given.
fn record(experiment: &Experiment, doing: &[Doing<'_>], ends_at_ms: Option<u64>) -> GroupMeasurement {
    let mut recorder = Recorder::new(experiment, Window::of(experiment, 0));
    for (issuer, (direction, requests, over_ms)) in doing.iter().enumerate() {
        for (from_ms, to_ms) in *requests {
            recorder.submitted(issuer, *direction, from_ms * MS);
            recorder.completed(&Completion {
                issuer,
                direction: *direction,
                submitted_ns: from_ms * MS,
                completed_ns: to_ms * MS,
                bytes: 4096,
                device_ns: 0,
                outcome: Outcome::Done,
            });
        }
        if let Some(over_ms) = over_ms {
            recorder.ended(issuer, None, over_ms * MS);
        }
    }
    ends_at_ms.into_iter().for_each(|end_ms| recorder.end_window(end_ms * MS));
    recorder.finish(experiment, None).swap_remove(0)
}

fn shape(jobs: &[JobMeasurement]) -> Vec<(&str, u32, usize, usize)> {
    jobs.iter().map(|job| (job.name.as_str(), job.report_group, job.first_thread, job.threads)).collect()
}

fn results_of(jobs: Vec<Job>) -> Vec<JobMeasurement> {
    record(&measured(jobs, 1000).experiment, &[], None).jobs
}

#[test]
fn each_thread_has_a_result_and_a_reporting_group_has_one_for_all() {
    let together = |job: Job| job.with(|job| job.reporting.group_reporting = true);
    assert_eq!(
        shape(&results_of(vec![job("a", 2, 0), job("b", 1, 0)])),
        [("a", 0, 0, 1), ("a", 0, 1, 1), ("b", 0, 2, 1)]
    );
    let all = vec![together(job("a", 2, 0)), together(job("b", 1, 0)), together(job("c", 3, 1))];
    let results = results_of(all.clone());
    assert_eq!(shape(&results), [("a", 0, 0, 3), ("c", 1, 3, 3)]);
    let group = &measured(all, 1).experiment.groups[0];
    let names = |job: &JobMeasurement| job.plan(group).iter().map(|job| job.name.clone()).collect::<Vec<_>>();
    assert_eq!(results.iter().map(names).collect::<Vec<_>>(), [vec!["a", "b"], vec!["c"]]);
    // Only the option of the later one counts, as in fio.
    assert_eq!(shape(&results_of(vec![job("a", 1, 0), together(job("b", 1, 0))])), [("a", 0, 0, 2)]);
    assert_eq!(shape(&results_of(vec![together(job("a", 1, 0)), job("b", 1, 0)])), [("a", 0, 0, 1), ("b", 0, 1, 1)]);
    // A workload with a name instead of a file has the results of its group.
    assert!(results_of(vec![job("a", 2, 0).with(|job| job.reporting.has_own_results = false)]).is_empty());
}

#[test]
fn threads_beyond_all_measure_are_one_result_per_job() {
    let many = u32::try_from(MOST_THREADS).unwrap();
    assert_eq!(results_of(vec![job("a", many, 0)]).len(), MOST_THREADS);
    let results = results_of(vec![job("a", many, 0), job("b", 1, 0)]);
    assert_eq!(shape(&results), [("a", 0, 0, MOST_THREADS), ("b", 0, MOST_THREADS, 1)]);
}

#[test]
fn a_phase_has_the_rate_of_its_own_time() {
    let measured = measured(vec![job("r", 1, 0), job("w", 1, 1)], 4_000);
    let reads: Vec<(u64, u64)> = (0..1_500).map(|at| (at, at + 1)).collect();
    let writes = [(1_500, 1_700), (1_700, 2_000)];
    let doing = [(IoDirection::Read, &reads[..], Some(1_500)), (IoDirection::Write, &writes[..], Some(2_000))];
    let group = record(&measured.experiment, &doing, Some(2_000));
    let [read, write] = &group.jobs[..] else { panic!("{:?}", shape(&group.jobs)) };
    assert_eq!((read.read.tally.ios, read.read.runtime_ns, read.runtime_ns()), (1_500, 1_500 * MS, 1_500 * MS));
    assert_eq!(read.read.per_s(read.read.tally.ios), 1_000.0);
    assert_eq!((write.write.tally.bytes, write.write.runtime_ns), (8_192, 500 * MS));
    assert_eq!((write.write.tally.latency.count(), write.write.tally.latency.max_ns()), (2, 300 * MS));
    assert!(read.write.is_empty() && write.read.is_empty());
    // Seconds of its own time; the second one is half.
    let seconds: Vec<_> = read.read.tally.samples.iter().map(|it| (it.at_ns / MS, it.length_ns / MS, it.ios)).collect();
    assert_eq!(seconds, [(0, 1_000, 999), (1_000, 500, 501)]);
    assert_eq!(write.write.tally.samples[0].at_ns, 1_500 * MS);
    // The group has both, over the window.
    assert_eq!((group.read.ios, group.write.ios), (1_500, 2));
}

#[test]
fn a_sum_has_what_its_jobs_did_over_the_longest_of_their_times() {
    let mut measured = measured(vec![job("a", 2, 0), job("b", 1, 1)], 1_000);
    let doing: [Doing<'_>; 3] = [
        (IoDirection::Read, &[(0, 100), (100, 250)], Some(250)),
        (IoDirection::Read, &[(0, 500)], Some(500)),
        (IoDirection::Read, &[(500, 600)], Some(600)),
    ];
    measured.groups = vec![record(&measured.experiment, &doing, Some(600))];
    let rows = summaries_of(&[&measured]);
    let read = |index: usize| &rows[index].directions[0];
    let labels: Vec<_> = rows.iter().map(|row| (row.label.as_str(), row.is_sum, row.threads)).collect();
    assert_eq!(labels, [("a.0", false, 1), ("a.1", false, 1), ("all of group 0", true, 2), ("b", false, 1)]);
    assert_eq!((read(0).ios_per_s.mean, read(1).ios_per_s.mean, read(3).ios_per_s.mean), (8.0, 2.0, 10.0));
    assert_eq!((read(2).ios, read(2).ios_per_s.mean, read(2).latency.count()), (3, 6.0, 3));
    // With group_reporting the same is one result.
    measured.experiment.groups[0].jobs.iter_mut().for_each(|job| job.reporting.group_reporting = true);
    let together = record(&measured.experiment, &doing, Some(600));
    assert_eq!(shape(&together.jobs), [("a", 0, 0, 2), ("b", 1, 2, 1)]);
    assert_eq!((together.jobs[0].read.tally.ios, together.jobs[0].read.runtime_ns), (3, 500 * MS));
}

#[test]
fn what_the_end_of_the_run_cuts_off_is_said() {
    let cut = |jobs: Vec<Job>, doing: &[Doing<'_>], ends_at_ms: Option<u64>| {
        let group = record(&measured(jobs, 1_000).experiment, doing, ends_at_ms);
        group.jobs.iter().map(|job| job.cut_off_text(&group)).collect::<Vec<_>>()
    };
    let done: Doing<'_> = (IoDirection::Read, &[(0, 100)], Some(100));
    let goes_on: Doing<'_> = (IoDirection::Read, &[(100, 900), (900, 1_100)], Some(1_100));
    let phases = || vec![job("a", 1, 0), job("b", 1, 1), job("c", 1, 2)];
    let cut_off = "cut off by the end of the run";
    assert_eq!(cut(phases(), &[done, goes_on], None), ["", cut_off, "did not begin before the run was over"]);
    // If the run ended because everything was done, nothing was cut off; jobs that have not started
    // were not meant to.
    assert_eq!(cut(phases(), &[done, (IoDirection::Read, &[(100, 200)], Some(200))], Some(200)), ["", "", ""]);
    let clones = vec![job("a", 2, 0)]
        .into_iter()
        .map(|job| job.with(|job| job.reporting.group_reporting = true))
        .collect::<Vec<_>>();
    assert_eq!(cut(clones, &[done, goes_on], None), ["1 of 2 threads cut off by the end of the run"]);
    // A job whose time ends with the run, or nearly so, is not cut off. An endless job never is.
    let timed = |runtime_ms: u64| {
        vec![job("a", 1, 0).with(|job| {
            job.times.runtime_ns = Some(runtime_ms * MS);
            job.times.time_based = true;
        })]
    };
    let late: Doing<'_> = (IoDirection::Read, &[(5, 1_000)], Some(1_001));
    assert_eq!(cut(timed(1_000), &[late], None), [""]);
    assert_eq!(cut(timed(1_100), &[late], None), [cut_off]);
    assert_eq!(cut(timed(Experiment::UNTIL_DONE_NS / MS + 1), &[late], None), [""]);
}

#[test]
fn what_is_read_back_has_a_time_of_its_own() {
    let verify = Some(Box::new(hoistway_workload::verify::Verify {
        reads_back: true,
        ..hoistway_workload::verify::Verify::default()
    }));
    let writer = job("w", 1, 0).with(|job| {
        job.shape.mix = Mix::Write;
        job.checks.verify = verify;
    });
    let experiment = measured(vec![writer], 1_000).experiment;
    let mut recorder = Recorder::new(&experiment, Window::of(&experiment, 0));
    for (direction, from_ms, to_ms) in [(IoDirection::Write, 0, 200), (IoDirection::Read, 200, 300)] {
        recorder.submitted(0, direction, from_ms * MS);
        recorder.completed(&Completion {
            issuer: 0,
            direction,
            submitted_ns: from_ms * MS,
            completed_ns: to_ms * MS,
            bytes: 4096,
            device_ns: 0,
            outcome: Outcome::Done,
        });
    }
    recorder.ended(0, None, 300 * MS);
    recorder.end_window(300 * MS);
    let group = recorder.finish(&experiment, None).swap_remove(0);
    assert_eq!((group.jobs[0].write.runtime_ns, group.jobs[0].read.runtime_ns), (200 * MS, 100 * MS));
    let measured = Measurement { groups: vec![group], experiment, ..measured(Vec::new(), 1_000) };
    let shown: Vec<_> =
        summaries_of(&[&measured])[0].directions.iter().map(|it| (it.name, it.runtime_ns.mean)).collect();
    assert_eq!(shown, [("read", 1e8), ("write", 2e8)]);
}

#[test]
fn what_ends_in_its_ramp_has_a_whole_result() {
    let short = job("a", 1, 0).with(|job| {
        job.times.ramp_ns = 1_000 * MS;
        job.times.runtime_ns = Some(1_000 * MS);
    });
    let mut experiment = measured(vec![short], 1_000).experiment;
    experiment.ramp_ns = 1_000 * MS;
    let group = record(&experiment, &[(IoDirection::Read, &[(0, 10), (10, 40)], Some(40))], Some(40));
    let read = &group.jobs[0].read;
    assert_eq!((read.tally.ios, read.tally.latency.count(), read.runtime_ns), (2, 2, 40 * MS));
}

#[test]
fn measurements_without_results_of_jobs_are_still_read() {
    let stored = serde_json::to_value(example::measured("noop", 1, 1, &[1], 1)).unwrap();
    let group = &stored["groups"][0];
    assert!(group.get("jobs").is_none() && group.get("path").is_some(), "{group}");
    let read: Measurement = serde_json::from_value(stored).unwrap();
    assert!(read.groups[0].jobs.is_empty());
}
