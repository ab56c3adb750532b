//! When jobs begin and which end others: phases, `wait_for`, groups with a later start or an early end.

use block::Nanos;
use experiment::Experiment;

#[derive(Debug)]
struct JobState {
    name: String,
    phase: u32,
    wait_for: String,
    ends_phase: bool,
    /// After the run's begin.
    start_ns: Nanos,
    first_thread: usize,
    threads: usize,
    running: usize,
    has_started: bool,
}

impl JobState {
    fn is_over(&self) -> bool {
        self.has_started && self.running == 0
    }

    fn all_threads(&self) -> std::ops::Range<usize> {
        self.first_thread..self.first_thread + self.threads
    }
}

/// The jobs of a run; threads are numbered as [`Experiment::issuers`] lists them.
#[derive(Debug)]
pub(super) struct Schedule {
    jobs: Vec<JobState>,
    job_of_thread: Vec<usize>,
    /// When groups end before the run: time after its begin, threads.
    ends: Vec<(Nanos, std::ops::Range<usize>)>,
}

impl Schedule {
    pub fn of(experiment: &Experiment) -> Self {
        let mut schedule = Self { jobs: Vec::new(), job_of_thread: Vec::new(), ends: Vec::new() };
        for group in &experiment.groups {
            let first = schedule.job_of_thread.len();
            for job in &group.jobs {
                let threads = job.threads as usize;
                let number = schedule.jobs.len();
                schedule.jobs.push(JobState {
                    name: job.name.clone(),
                    phase: job.phase,
                    wait_for: job.wait_for.clone(),
                    ends_phase: job.ends_phase,
                    start_ns: group.start_ns,
                    first_thread: schedule.job_of_thread.len(),
                    threads,
                    running: 0,
                    has_started: threads == 0,
                });
                schedule.job_of_thread.extend(std::iter::repeat_n(number, threads));
            }
            if let Some(stop_ns) = group.stop_ns {
                schedule.ends.push((stop_ns, first..schedule.job_of_thread.len()));
            }
        }
        schedule
    }

    /// Appends the threads that may begin now, `elapsed_ns` after the run's begin.
    pub fn begin(&mut self, elapsed_ns: Nanos, threads: &mut Vec<usize>) {
        for index in 0..self.jobs.len() {
            if self.may_begin(index, elapsed_ns) {
                let job = &mut self.jobs[index];
                job.has_started = true;
                job.running = job.threads;
                threads.extend(job.all_threads());
            }
        }
    }

    fn may_begin(&self, index: usize, elapsed_ns: Nanos) -> bool {
        let job = &self.jobs[index];
        let others_are_over = self.jobs.iter().all(|other| {
            let is_awaited = other.phase < job.phase || (!job.wait_for.is_empty() && other.name == job.wait_for);
            !is_awaited || other.is_over()
        });
        !job.has_started && job.start_ns <= elapsed_ns && others_are_over
    }

    /// A thread ended. Appends the threads that must end because of it; true if others may begin because of it.
    pub fn ended(&mut self, thread: usize, threads: &mut Vec<usize>) -> bool {
        let index = self.job_of_thread[thread];
        self.jobs[index].running -= 1;
        if self.jobs[index].running > 0 {
            return false;
        }
        let JobState { ends_phase, phase, .. } = self.jobs[index];
        if ends_phase {
            let same = self.jobs.iter().filter(|job| job.phase == phase && job.running > 0);
            threads.extend(same.flat_map(JobState::all_threads));
        }
        true
    }

    /// Appends the threads whose group ends now.
    pub fn ends_now(&mut self, elapsed_ns: Nanos, threads: &mut Vec<usize>) {
        self.ends.retain(|(at_ns, range)| {
            let is_due = *at_ns <= elapsed_ns;
            if is_due {
                threads.extend(range.clone());
            }
            !is_due
        });
    }

    /// The next time after the run's begin at which a group begins or ends.
    pub fn next_change_ns(&self) -> Option<Nanos> {
        let begins = self.jobs.iter().filter(|job| !job.has_started && job.start_ns > 0).map(|job| job.start_ns);
        begins.chain(self.ends.iter().map(|(at_ns, _)| *at_ns)).min()
    }

    /// Whether every job has run and ended.
    pub fn is_over(&self) -> bool {
        self.jobs.iter().all(JobState::is_over)
    }
}
