//! When each job begins: phases, jobs that wait for others, groups that start later.

use block::Nanos;
use experiment::Experiment;

/// A job among those of the run.
#[derive(Clone, Debug)]
struct JobState {
    name: String,
    phase: u32,
    wait_for: String,
    ends_phase: bool,
    start_ns: Nanos,
    first_process: usize,
    processes: usize,
    running: usize,
    started: bool,
}

impl JobState {
    fn has_ended(&self) -> bool {
        self.started && self.running == 0
    }
}

/// The jobs of a run and how far they have come.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    jobs: Vec<JobState>,
    /// Job of each process.
    job_of: Vec<usize>,
}

impl Schedule {
    /// The schedule of an experiment; processes are numbered as [`Experiment::issuers`] lists them.
    pub(crate) fn of(experiment: &Experiment) -> Self {
        let (mut jobs, mut job_of) = (Vec::new(), Vec::new());
        for group in &experiment.groups {
            for job in &group.jobs {
                let processes = job.threads as usize;
                jobs.push(JobState {
                    name: job.name.clone(),
                    phase: job.phase,
                    wait_for: job.wait_for.clone(),
                    ends_phase: job.ends_phase,
                    start_ns: group.start_ns,
                    first_process: job_of.len(),
                    processes,
                    running: 0,
                    started: processes == 0,
                });
                job_of.extend(std::iter::repeat_n(jobs.len() - 1, processes));
            }
        }
        Self { jobs, job_of }
    }

    /// Starts what may begin at `now`; `start` is called with each process, in order.
    pub(crate) fn start_ready(&mut self, now: Nanos, mut start: impl FnMut(usize)) {
        for index in 0..self.jobs.len() {
            if self.is_ready(index, now) {
                let job = &mut self.jobs[index];
                job.started = true;
                job.running = job.processes;
                (job.first_process..job.first_process + job.processes).for_each(&mut start);
            }
        }
    }

    /// A process ended. `stop` is called with every process that has to end because of it; true when jobs may be
    /// waiting for this end.
    pub(crate) fn process_ended(&mut self, process: usize, mut stop: impl FnMut(usize)) -> bool {
        let index = self.job_of[process];
        self.jobs[index].running -= 1;
        if self.jobs[index].running > 0 {
            return false;
        }
        if self.jobs[index].ends_phase {
            let phase = self.jobs[index].phase;
            for job in self.jobs.iter().filter(|job| job.phase == phase && job.running > 0) {
                (job.first_process..job.first_process + job.processes).for_each(&mut stop);
            }
        }
        true
    }

    /// Whether every job has run and ended.
    pub(crate) fn is_over(&self) -> bool {
        self.jobs.iter().all(JobState::has_ended)
    }

    /// Times at which a group that starts later begins.
    pub(crate) fn later_starts(&self) -> impl Iterator<Item = Nanos> + use<'_> {
        self.jobs.iter().map(|job| job.start_ns).filter(|start_ns| *start_ns > 0)
    }

    fn is_ready(&self, index: usize, now: Nanos) -> bool {
        let job = &self.jobs[index];
        let earlier_phases_are_over = self.jobs.iter().all(|other| other.phase >= job.phase || other.has_ended());
        let awaited_has_ended =
            job.wait_for.is_empty() || self.jobs.iter().all(|other| other.name != job.wait_for || other.has_ended());
        !job.started && job.start_ns <= now && earlier_phases_are_over && awaited_has_ended
    }
}
