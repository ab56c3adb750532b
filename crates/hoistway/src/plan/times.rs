//! How long the runs of a test take, and which part of them is measured.
//!
//! A job that ends by its size or its number of I/Os is measured completely, as fio does: it begins
//! when the ramp is over, and a run of only such jobs has no ramp and lasts until they are done. A
//! job that ends by its time has the ramp in its file. Jobs that never end, such as the workload
//! codes, have the default ramp and the default time.

use hoistway_block::Nanos;
use hoistway_block::time::SECOND;
use hoistway_experiment::{Experiment, Group, WorkloadPlan};
use hoistway_workload::Job;

/// The runtime of a workload code, which does not end by itself; longer than any run, and far from
/// overflow.
pub const ENDLESS_NS: Nanos = 1 << 50;
/// Default duration of runs whose jobs never end by themselves.
const DEFAULT_RUNTIME_NS: Nanos = 30 * SECOND;

/// The times of all runs of a test.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Times {
    /// Longest measured time per run.
    pub runtime_ns: Nanos,
    /// The time before it that is not measured.
    pub ramp_ns: Nanos,
}

/// The times on the command line, and the default ramp of jobs that never end.
#[derive(Copy, Clone, Debug)]
pub struct GivenTimes {
    /// `--runtime`.
    pub runtime_ns: Option<Nanos>,
    /// `--ramp`.
    pub ramp_ns: Option<Nanos>,
    /// The host's default ramp.
    pub default_ramp_ns: Nanos,
}

/// Determines the times of a test, and starts its jobs accordingly. `note` gets what the user
/// should know.
pub fn settle(workloads: &mut [WorkloadPlan], given_times: &GivenTimes, note: &mut dyn FnMut(String)) -> Times {
    let in_files = workloads.iter().map(|workload| of_groups(&workload.groups)).collect::<Vec<_>>();
    let known = in_files.iter().flatten().copied();
    let known =
        known.reduce(|a, b| Times { runtime_ns: a.runtime_ns.max(b.runtime_ns), ramp_ns: a.ramp_ns.max(b.ramp_ns) });
    let usual = Times { runtime_ns: DEFAULT_RUNTIME_NS, ramp_ns: given_times.default_ramp_ns };
    let Times { runtime_ns, ramp_ns } =
        known.unwrap_or_else(|| if jobs(workloads).any(is_endless) { usual } else { Times { ramp_ns: 0, ..usual } });
    let runtime_ns = given_times.runtime_ns.unwrap_or(runtime_ns);
    if runtime_ns == Experiment::UNTIL_DONE_NS {
        // One workload has no fixed time and lasts until its jobs are done; endless jobs of other
        // workloads get the default time.
        let endless = workloads.iter_mut().zip(&in_files).filter(|(_, times)| times.is_none());
        for job in endless.flat_map(|(workload, _)| &mut workload.groups).flat_map(|group| &mut group.jobs) {
            job.times.runtime_ns =
                Some(job.times.runtime_ns.filter(|own_ns| *own_ns != ENDLESS_NS).unwrap_or(DEFAULT_RUNTIME_NS));
        }
    }
    for job in jobs_mut(workloads).filter(|job| is_measured_whole(job) && job.times.ramp_ns > 0) {
        note(format!(
            "job '{}' ends by its size or number of I/Os: all of it is measured, without a ramp_time",
            job.name
        ));
        job.times.ramp_ns = 0;
    }
    let ramp_ns = match given_times.ramp_ns {
        _ if jobs(workloads).all(is_measured_whole) => 0,
        Some(given_ns) => {
            for job in jobs_mut(workloads).filter(|job| has_time(job) && !is_measured_whole(job)) {
                job.times.ramp_ns = given_ns;
            }
            given_ns
        }
        None => ramp_ns,
    };
    for group in workloads.iter_mut().flat_map(|workload| &mut workload.groups) {
        let start_ns = group.start_ns;
        for job in group.jobs.iter_mut().filter(|job| begins_at_once(job) && !is_endless(job)) {
            // All ramps end at the same time.
            let wait_ns = ramp_ns.saturating_sub(job.times.ramp_ns).saturating_sub(start_ns);
            job.times.start_delay_ns.0 = job.times.start_delay_ns.0.saturating_add(wait_ns);
            job.times.start_delay_ns.1 = job.times.start_delay_ns.1.saturating_add(wait_ns);
        }
    }
    Times { runtime_ns, ramp_ns }
}

fn jobs(workloads: &[WorkloadPlan]) -> impl Iterator<Item = &Job> {
    workloads.iter().flat_map(|workload| &workload.groups).flat_map(|group| &group.jobs)
}

fn jobs_mut(workloads: &mut [WorkloadPlan]) -> impl Iterator<Item = &mut Job> {
    workloads.iter_mut().flat_map(|workload| &mut workload.groups).flat_map(|group| &mut group.jobs)
}

/// Whether the job never ends by itself.
fn is_endless(job: &Job) -> bool {
    job.times.runtime_ns == Some(ENDLESS_NS)
}

/// Whether it ends by a time of its own.
fn has_time(job: &Job) -> bool {
    job.times.runtime_ns.is_some() && !is_endless(job)
}

/// Whether its amount of work is specified: bytes, I/Os, passes, or a program's work.
fn has_amount(job: &Job) -> bool {
    let has_bytes = job.area.size.is_some() || job.area.file_bytes.is_some() || job.area.io_size.is_some();
    has_bytes || job.area.number_ios.is_some() || job.area.loops > 1 || job.source.program.is_some()
}

/// Whether it ends when its work is done, and not by a time.
fn is_measured_whole(job: &Job) -> bool {
    job.source.replay.is_none()
        && !job.times.time_based
        && (job.times.runtime_ns.is_none() || job.area.number_ios.is_some())
}

/// Whether it begins with the run, and issues by a pattern or a program.
fn begins_at_once(job: &Job) -> bool {
    job.source.replay.is_none() && job.course.phase == 0 && job.course.wait_for.is_empty()
}

/// Runtime and ramp that the jobs of a workload ask for; none if some of them never end and no
/// other has a time.
///
/// The runtime is the sum over the phases of the longest runtime in each. A ramp in a later phase
/// is part of that phase's time.
pub fn of_groups(groups: &[Group]) -> Option<Times> {
    let all = || groups.iter().flat_map(|group| &group.jobs);
    let timed = || all().filter(|job| !is_endless(job));
    let ramp_ns = timed().map(|job| job.times.ramp_ns).max()?;
    let is_open = all().any(|job| is_endless(job) || (job.times.runtime_ns.is_none() && !has_amount(job)));
    // The start of a job that waits for another one is not known.
    if !is_open && all().any(|job| job.times.runtime_ns.is_none() || !job.course.wait_for.is_empty()) {
        return Some(Times { runtime_ns: Experiment::UNTIL_DONE_NS, ramp_ns });
    }
    let last = timed().map(|job| job.course.phase).max()?;
    let length_of = |phase| {
        let members = timed().filter(|job| job.course.phase == phase);
        let own_ramp = |job: &Job| if phase == 0 { 0 } else { job.times.ramp_ns };
        let length = |job: &Job| {
            Some(job.times.start_delay_ns.1.saturating_add(own_ramp(job)).saturating_add(job.times.runtime_ns?))
        };
        members.filter_map(length).max().unwrap_or(0)
    };
    let runtime_ns = (0..=last).map(length_of).fold(0, Nanos::saturating_add);
    (runtime_ns > 0).then_some(Times { runtime_ns, ramp_ns })
}

#[cfg(test)]
mod tests {
    use hoistway_experiment::Weight;
    use hoistway_workload::job::Amount;

    use super::*;

    fn plan(jobs: &[Job]) -> Vec<WorkloadPlan> {
        let groups = vec![Group::new("g", Weight::DEFAULT, jobs.to_vec())];
        vec![WorkloadPlan { name: "w".into(), groups: groups.into() }]
    }

    fn settled(jobs: &[Job], runtime_ns: Option<Nanos>, ramp_ns: Option<Nanos>) -> (Times, Vec<Job>) {
        let mut workloads = plan(jobs);
        let times =
            settle(&mut workloads, &GivenTimes { runtime_ns, ramp_ns, default_ramp_ns: 2 * SECOND }, &mut |_| {});
        (times, workloads.remove(0).groups.remove(0).jobs)
    }

    fn endless() -> Job {
        Job::default().with(|job| {
            job.times.runtime_ns = Some(ENDLESS_NS);
            job.times.time_based = true;
        })
    }

    fn sized() -> Job {
        Job::default().with(|job| job.area.size = Some(Amount::Bytes(1 << 20)))
    }

    fn timed(seconds: u64, ramp: u64) -> Job {
        sized().with(|job| {
            job.times.runtime_ns = Some(seconds * SECOND);
            job.times.ramp_ns = ramp * SECOND;
        })
    }

    fn times(runtime: u64, ramp: u64) -> Times {
        Times { runtime_ns: runtime * SECOND, ramp_ns: ramp * SECOND }
    }

    #[test]
    fn what_ends_by_its_amount_lasts_until_it_is_done_without_a_ramp() {
        let until_done = Times { runtime_ns: Experiment::UNTIL_DONE_NS, ramp_ns: 0 };
        assert_eq!(settled(&[sized()], None, None).0, until_done);
        assert_eq!(settled(&[sized()], None, Some(5 * SECOND)).0, until_done);
        assert_eq!(settled(&[sized()], Some(9 * SECOND), None).0, times(9, 0));
        // A job that ends by its size gets no ramp, which could take all of its time.
        let (all, jobs) = settled(&[sized().with(|job| job.times.ramp_ns = SECOND)], None, None);
        assert_eq!((all, jobs[0].times.ramp_ns), (until_done, 0));
        let numbered = timed(10, 3).with(|job| job.area.number_ios = Some(9));
        assert_eq!(settled(&[numbered], None, None).0, times(10, 0));
        // A pass over the whole area, whatever its size, takes at most the default time.
        assert_eq!(settled(&[Job::default()], None, None).0, times(30, 0));
    }

    #[test]
    fn what_ends_by_its_amount_begins_when_the_ramp_of_others_is_over() {
        let (all, jobs) = settled(&[endless(), sized()], None, None);
        assert_eq!(all, times(30, 2));
        assert_eq!(
            jobs.iter().map(|job| job.times.start_delay_ns).collect::<Vec<_>>(),
            [(0, 0), (2 * SECOND, 2 * SECOND)]
        );
        let later = sized().with(|job| job.course.phase = 1);
        assert_eq!(settled(&[endless(), later], None, None).1[1].times.start_delay_ns, (0, 0));
    }

    #[test]
    fn ramps_of_jobs_end_together_and_the_user_decides_on_them() {
        let (all, jobs) = settled(&[timed(10, 3), timed(10, 1)], None, None);
        assert_eq!(
            (all, jobs[0].times.start_delay_ns.0, jobs[1].times.start_delay_ns.0),
            (times(10, 3), 0, 2 * SECOND)
        );
        let (all, jobs) = settled(&[timed(10, 3), timed(10, 1)], Some(4 * SECOND), Some(2 * SECOND));
        assert_eq!((all, jobs[0].times.ramp_ns, jobs[1].times.ramp_ns), (times(4, 2), 2 * SECOND, 2 * SECOND));
    }

    #[test]
    fn phases_last_as_long_as_their_ramps_and_runtimes() {
        let second = timed(5, 1).with(|job| job.course.phase = 1);
        assert_eq!(settled(&[timed(10, 1), second.clone()], None, None).0, times(16, 1));
        // The first phase ends by its amount of work, so the start of the second is not known.
        assert_eq!(settled(&[sized(), second], None, None).0.runtime_ns, Experiment::UNTIL_DONE_NS);
    }

    #[test]
    fn a_job_that_waits_for_another_one_gets_its_time() {
        let second = timed(5, 0).with(|job| job.course.wait_for = "a".into());
        let jobs = [timed(10, 0).with(|job| job.name = "a".into()), second];
        assert_eq!(settled(&jobs, None, None).0.runtime_ns, Experiment::UNTIL_DONE_NS);
        assert_eq!(settled(&jobs, Some(12 * SECOND), None).0, times(12, 0));
    }

    #[test]
    fn a_workload_that_goes_on_for_ever_gets_the_usual_time_beside_one_that_does_not() {
        let mut workloads = [plan(&[sized()]), plan(&[endless()])].concat();
        let given_times = GivenTimes { runtime_ns: None, ramp_ns: None, default_ramp_ns: 2 * SECOND };
        let all = settle(&mut workloads, &given_times, &mut |_| {});
        assert_eq!(all.runtime_ns, Experiment::UNTIL_DONE_NS);
        assert_eq!(workloads[1].groups[0].jobs[0].times.runtime_ns, Some(30 * SECOND));
    }
}
