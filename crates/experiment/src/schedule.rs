//! When jobs start and which jobs end others: phases, `wait_for`, groups with a later start or an
//! early end.
//!
//! The host reports the time and the threads that have ended, and learns which threads start and
//! which must end. It may ask at every change ([`Schedule::next_change_ns`]) or insert all changes
//! into its own event list in advance ([`Schedule::later_starts`], [`Schedule::early_ends`]).

use std::ops::Range;

use hoistway_block::Nanos;

use hoistway_workload::job::Ends;

use crate::Experiment;

#[derive(Clone, Debug)]
struct JobState {
    name: String,
    phase: u32,
    wait_for: String,
    ends: Option<Ends>,
    report_group: u32,
    /// Time after the start of the run.
    start_ns: Nanos,
    threads: Range<usize>,
    running: usize,
    has_started: bool,
}

impl JobState {
    fn is_over(&self) -> bool {
        self.has_started && self.running == 0
    }
}

#[derive(Clone, Debug)]
struct GroupState {
    /// Time after the start of the run; `None` once it has passed.
    stop_ns: Option<Nanos>,
    threads: Range<usize>,
}

/// The jobs of a run and their progress; threads are numbered as in [`Experiment::issuers`].
#[derive(Clone, Debug)]
pub struct Schedule {
    jobs: Vec<JobState>,
    groups: Vec<GroupState>,
    /// Jobs that have not started, in order.
    waiting: Vec<usize>,
    job_of_thread: Vec<usize>,
    /// Time of the last call of [`Schedule::begin`]. Jobs that were to start up to then have
    /// started or wait for other jobs, not for a time.
    asked_ns: Nanos,
}

impl Schedule {
    /// The schedule of an experiment that has not started.
    pub fn of(experiment: &Experiment) -> Self {
        let (jobs, groups, waiting, job_of_thread) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut schedule = Self { jobs, groups, waiting, job_of_thread, asked_ns: 0 };
        for group in &experiment.groups {
            let first = schedule.job_of_thread.len();
            for job in &group.jobs {
                let count = job.threads as usize;
                let begin = schedule.job_of_thread.len();
                schedule.job_of_thread.extend(std::iter::repeat_n(schedule.jobs.len(), count));
                schedule.jobs.push(JobState {
                    name: job.name.clone(),
                    phase: job.course.phase,
                    wait_for: job.course.wait_for.clone(),
                    ends: job.course.ends_phase.then_some(job.course.ends),
                    report_group: job.reporting.report_group,
                    start_ns: group.start_ns,
                    threads: begin..begin + count,
                    running: 0,
                    has_started: count == 0,
                });
            }
            let threads = first..schedule.job_of_thread.len();
            schedule.groups.push(GroupState { stop_ns: group.stop_ns, threads });
        }
        schedule.waiting = (0..schedule.jobs.len()).filter(|index| !schedule.jobs[*index].has_started).collect();
        schedule
    }

    /// Appends the threads that start now, `elapsed_ns` after the start of the run, in order. Times
    /// must not decrease.
    pub fn begin(&mut self, elapsed_ns: Nanos, threads: &mut Vec<usize>) {
        self.asked_ns = elapsed_ns;
        if self.waiting.is_empty() {
            return;
        }
        // Jobs that start here were not over before and are not now, so the phase does not change.
        let running = self.jobs.iter().filter(|job| !job.is_over());
        let phase = running.map(|job| job.phase).min().unwrap_or(u32::MAX);
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.retain(|index| {
            if self.may_begin(*index, phase, elapsed_ns) {
                let job = &mut self.jobs[*index];
                job.has_started = true;
                job.running = job.threads.len();
                threads.extend(job.threads.clone());
            }
            !self.jobs[*index].has_started
        });
        self.waiting = waiting;
    }

    /// Whether a job starts; `phase` is the first phase that is not over.
    fn may_begin(&self, index: usize, phase: u32, elapsed_ns: Nanos) -> bool {
        let job = &self.jobs[index];
        let is_awaited = |other: &&JobState| !job.wait_for.is_empty() && other.name == job.wait_for;
        let is_due = !job.has_started && job.start_ns <= elapsed_ns && job.phase <= phase;
        is_due && (job.wait_for.is_empty() || self.jobs.iter().filter(is_awaited).all(JobState::is_over))
    }

    /// Notes that a started thread has ended. Appends the threads that must end because of it;
    /// returns whether others may start because of it.
    pub fn ended(&mut self, thread: usize, threads: &mut Vec<usize>) -> bool {
        let index = self.job_of_thread[thread];
        self.jobs[index].running -= 1;
        if self.jobs[index].running > 0 {
            return false;
        }
        let JobState { ends, phase, report_group, .. } = self.jobs[index];
        let Some(ends) = ends else { return true };
        let same = self.jobs.iter_mut().filter(|job| match ends {
            Ends::Group => job.report_group == report_group,
            Ends::Phase => job.phase == phase,
            Ends::All => true,
        });
        for job in same {
            if job.running > 0 {
                threads.extend(job.threads.clone());
            } else if ends == Ends::All {
                // A job that has not started never starts, and so it counts as over.
                job.has_started = true;
            }
        }
        true
    }

    /// Appends the threads whose group ends now, `elapsed_ns` after the start of the run, each only
    /// once.
    pub fn ends_now(&mut self, elapsed_ns: Nanos, threads: &mut Vec<usize>) {
        for group in &mut self.groups {
            if group.stop_ns.take_if(|stop_ns| *stop_ns <= elapsed_ns).is_some() {
                threads.extend(group.threads.clone());
            }
        }
    }

    /// The next time after the start of the run at which a group starts or ends, in nanoseconds;
    /// `None` if there is none.
    ///
    /// A start has passed once [`Schedule::begin`] was called at that time, even if its jobs still
    /// wait for others.
    pub fn next_change_ns(&self) -> Option<Nanos> {
        let ends = self.groups.iter().filter_map(|group| group.stop_ns);
        self.later_starts().filter(|start_ns| *start_ns > self.asked_ns).chain(ends).min()
    }

    /// Times after the start of the run at which jobs of groups with a later start may start, in
    /// nanoseconds; one per job.
    pub fn later_starts(&self) -> impl Iterator<Item = Nanos> + use<'_> {
        self.jobs.iter().map(|job| job.start_ns).filter(|start_ns| *start_ns > 0)
    }

    /// The groups that end before the run: index in [`Experiment::groups`], time after the start of
    /// the run in nanoseconds.
    pub fn early_ends(&self) -> impl Iterator<Item = (usize, Nanos)> + use<'_> {
        self.groups.iter().enumerate().filter_map(|(index, group)| Some((index, group.stop_ns?)))
    }

    /// The threads of a group by its index in [`Experiment::groups`].
    pub fn threads_of_group(&self, group: usize) -> Range<usize> {
        self.groups[group].threads.clone()
    }

    /// Whether every job has run and ended.
    pub fn is_over(&self) -> bool {
        self.jobs.iter().all(JobState::is_over)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use hoistway_workload::Job;

    use super::*;
    use crate::{Group, Weight};

    pub(crate) fn experiment_of(groups: Vec<Group>) -> Experiment {
        Experiment { runtime_ns: 100, ..Experiment::new("t", "w", "none".parse().unwrap(), groups) }
    }

    fn job(name: &str, threads: u32, phase: u32) -> Job {
        Job::default().with(|job| {
            job.name = name.into();
            job.threads = threads;
            job.course.phase = phase;
        })
    }

    fn schedule(groups: Vec<Group>) -> Schedule {
        Schedule::of(&experiment_of(groups))
    }

    fn begun(schedule: &mut Schedule, elapsed_ns: Nanos) -> Vec<usize> {
        let mut threads = Vec::new();
        schedule.begin(elapsed_ns, &mut threads);
        threads
    }

    #[test]
    fn a_phase_waits_for_all_threads_of_the_earlier_one() {
        let jobs = vec![job("a", 2, 0), job("b", 1, 1)];
        let mut schedule = schedule(vec![Group::new("g", Weight::DEFAULT, jobs)]);
        assert_eq!(begun(&mut schedule, 0), [0, 1]);
        let mut ending = Vec::new();
        assert!(!schedule.ended(1, &mut ending));
        assert!(begun(&mut schedule, 5).is_empty());
        assert!(schedule.ended(0, &mut ending));
        assert_eq!(begun(&mut schedule, 6), [2]);
        assert!(ending.is_empty() && !schedule.is_over());
        assert!(schedule.ended(2, &mut ending) && schedule.is_over());
    }

    #[test]
    fn a_job_waits_for_the_one_it_names_and_may_end_its_phase() {
        let (first, mut second) = (job("a", 1, 0).with(|job| job.course.ends_phase = true), job("b", 1, 0));
        second.course.wait_for = "a".into();
        let jobs = vec![first, second, job("c", 2, 0)];
        let mut schedule = schedule(vec![Group::new("g", Weight::DEFAULT, jobs)]);
        assert_eq!(begun(&mut schedule, 0), [0, 2, 3]);
        let mut ending = Vec::new();
        assert!(schedule.ended(0, &mut ending));
        assert_eq!(ending, [2, 3]);
        assert_eq!(begun(&mut schedule, 1), [1]);
    }

    #[test]
    fn what_the_end_of_a_job_ends_is_its_choice() {
        let ended = |ends: Ends| {
            let first = job("a", 1, 0).with(|job| {
                job.course.ends_phase = true;
                job.course.ends = ends;
            });
            let jobs =
                vec![first, job("b", 1, 0).with(|job| job.reporting.report_group = 1), job("c", 1, 0), job("d", 1, 1)];
            let mut schedule = schedule(vec![Group::new("g", Weight::DEFAULT, jobs)]);
            assert_eq!(begun(&mut schedule, 0), [0, 1, 2]);
            let mut ending = Vec::new();
            assert!(schedule.ended(0, &mut ending));
            for thread in [1, 2] {
                schedule.ended(thread, &mut Vec::new());
            }
            (ending, begun(&mut schedule, 1), schedule.is_over())
        };
        assert_eq!(ended(Ends::Group), (vec![2], vec![3], false));
        assert_eq!(ended(Ends::Phase), (vec![1, 2], vec![3], false));
        assert_eq!(ended(Ends::All), (vec![1, 2], vec![], true));
    }

    #[test]
    fn groups_begin_later_and_end_earlier_than_the_run() {
        let mut late = Group::new("late", Weight::DEFAULT, vec![job("b", 2, 0)]);
        (late.start_ns, late.stop_ns) = (10, Some(30));
        let mut schedule = schedule(vec![Group::new("g", Weight::DEFAULT, vec![job("a", 1, 0)]), late]);
        assert_eq!(begun(&mut schedule, 0), [0]);
        assert_eq!((schedule.next_change_ns(), begun(&mut schedule, 9)), (Some(10), vec![]));
        assert_eq!((begun(&mut schedule, 10), schedule.next_change_ns()), (vec![1, 2], Some(30)));
        let mut ending = Vec::new();
        schedule.ends_now(29, &mut ending);
        assert!(ending.is_empty());
        schedule.ends_now(30, &mut ending);
        schedule.ends_now(31, &mut ending);
        assert_eq!((ending, schedule.next_change_ns()), (vec![1, 2], None));
    }

    #[test]
    fn a_start_that_still_waits_for_others_is_no_change_ahead() {
        let mut late = Group::new("late", Weight::DEFAULT, vec![job("b", 1, 1)]);
        late.start_ns = 10;
        let mut schedule = schedule(vec![Group::new("g", Weight::DEFAULT, vec![job("a", 1, 0)]), late]);
        assert_eq!(begun(&mut schedule, 0), [0]);
        assert_eq!(schedule.next_change_ns(), Some(10));
        assert!(begun(&mut schedule, 12).is_empty());
        assert_eq!(schedule.next_change_ns(), None);
        assert!(schedule.ended(0, &mut Vec::new()));
        assert_eq!(begun(&mut schedule, 20), [1]);
    }
}
