//! A run in progress: the start and end of its threads, the workers' messages, and their figures at
//! the end.

use std::io;
use std::time::Duration;

use hoistway_block::Nanos;
use hoistway_experiment::measurement::GroupMeasurement;
use hoistway_experiment::{Experiment, LiveFigures, LiveGroup, Progress, Recorder, RunError, Schedule, Window};
use hoistway_linux::block_queue::{BlockQueue, Stat};
use hoistway_linux::thread::monotonic_ns;

use crate::merge;
use crate::message::{Figures, FromHost, FromWorker};
use crate::workers::Workers;

/// The time from the last worker's readiness to the start of the run, so that all workers get the
/// message in time.
const HEAD_START_NS: Nanos = 50_000_000;
/// The longest interval between checks for a stop by the user; progress is reported after at least
/// two of them.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// How long requests in flight may take after the window.
const DRAIN_TIMEOUT_NS: Nanos = 60_000_000_000;

/// Values read from the system at the borders of the window.
#[derive(Copy, Clone, Debug, Default)]
pub struct Snapshot {
    /// The device's counters.
    pub stat: Stat,
    /// Time during which some task waited for a processor, in microseconds.
    pub pressure_us: u64,
}

/// A run in progress.
pub struct Run<'a> {
    experiment: &'a Experiment,
    queue: &'a BlockQueue,
    workers: Workers,
    schedule: Schedule,
    begin_ns: Nanos,
    pub window: Window,
    /// Threads that were started and have not ended.
    running: usize,
    last_end_ns: Nanos,
    live: Vec<LiveGroup>,
    by_worker: Vec<LiveGroupOf>,
    pub at_begin: Option<Snapshot>,
    pub at_end: Option<Snapshot>,
}

/// A worker's last figures, and its group.
#[derive(Copy, Clone, Debug)]
struct LiveGroupOf {
    group: usize,
    figures: Figures,
}

impl<'a> Run<'a> {
    /// A run that starts after a short delay, with workers that are ready.
    pub fn new(experiment: &'a Experiment, queue: &'a BlockQueue, workers: Workers) -> Self {
        let begin_ns = monotonic_ns() + HEAD_START_NS;
        let by_worker =
            experiment.issuers().map(|place| LiveGroupOf { group: place.group, figures: Figures::default() });
        Self {
            experiment,
            queue,
            workers,
            schedule: Schedule::of(experiment),
            begin_ns,
            window: Window::of(experiment, begin_ns),
            running: 0,
            last_end_ns: begin_ns,
            live: vec![LiveGroup::default(); experiment.groups.len()],
            by_worker: by_worker.collect(),
            at_begin: None,
            at_end: None,
        }
    }

    /// Waits for the end of the run, or for a stop by the user.
    ///
    /// # Errors
    /// A worker fails, the device hangs, or the run is cancelled.
    pub fn until_over(&mut self, progress: &mut dyn Progress) -> Result<(), RunError> {
        let at_first = self.snapshot()?;
        self.begin_threads(0);
        let mut next_show_ns = self.begin_ns;
        while self.running > 0 || !self.schedule.is_over() {
            let now = monotonic_ns();
            self.handle_clock(now)?;
            if now >= next_show_ns {
                next_show_ns = now + 2 * u64::try_from(POLL_INTERVAL.as_nanos()).unwrap_or(0);
                self.show(now, progress);
            }
            if progress.cancelled() {
                return Err(RunError::Cancelled);
            }
            if now >= self.window.end_ns && self.running == 0 {
                break;
            }
            if now > self.window.end_ns + DRAIN_TIMEOUT_NS {
                let message = format!("{} workers still wait for the device 60 s after the run", self.running);
                return Err(RunError::Failed { message, source: None });
            }
            match self.workers.receive(self.wait_time(now))? {
                Some((worker, FromWorker::Ended)) => self.ended(worker),
                Some((worker, FromWorker::Live(figures))) => self.by_worker[worker].figures = figures,
                Some(_) | None => {}
            }
        }
        // A run that ends before its ramp does is measured from its start.
        self.at_begin = self.at_begin.or(Some(at_first));
        self.at_end = self.at_end.or(Some(self.snapshot()?));
        Ok(())
    }

    /// The time until the next event that depends on the clock alone.
    fn wait_time(&self, now: Nanos) -> Duration {
        let change_ns = self.schedule.next_change_ns().map_or(Nanos::MAX, |at_ns| at_ns + self.begin_ns);
        let border_ns = match (self.at_begin, self.at_end) {
            (None, _) => self.window.start_ns,
            (_, None) => self.window.end_ns,
            _ => Nanos::MAX,
        };
        Duration::from_nanos(change_ns.min(border_ns).saturating_sub(now)).min(POLL_INTERVAL)
    }

    fn handle_clock(&mut self, now: Nanos) -> Result<(), RunError> {
        if self.at_begin.is_none() && now >= self.window.start_ns {
            self.at_begin = Some(self.snapshot()?);
        }
        if self.at_end.is_none() && now >= self.window.end_ns {
            self.at_end = Some(self.snapshot()?);
        }
        let elapsed_ns = now.saturating_sub(self.begin_ns);
        if now < self.window.end_ns && self.schedule.next_change_ns().is_some_and(|at_ns| at_ns <= elapsed_ns) {
            let mut ending = Vec::new();
            self.schedule.ends_now(elapsed_ns, &mut ending);
            ending.into_iter().for_each(|worker| self.workers.send(worker, FromHost::Stop));
            self.begin_threads(elapsed_ns);
        }
        Ok(())
    }

    fn begin_threads(&mut self, elapsed_ns: Nanos) {
        let mut ready = Vec::new();
        self.schedule.begin(elapsed_ns, &mut ready);
        let (at_ns, run_begin_ns) = (self.begin_ns + elapsed_ns, self.begin_ns);
        self.running += ready.len();
        ready.into_iter().for_each(|worker| self.workers.send(worker, FromHost::Begin { at_ns, run_begin_ns }));
    }

    fn ended(&mut self, worker: usize) {
        let now = monotonic_ns();
        self.running -= 1;
        self.last_end_ns = self.last_end_ns.max(now);
        let mut ending = Vec::new();
        if self.schedule.ended(worker, &mut ending) {
            ending.into_iter().for_each(|worker| self.workers.send(worker, FromHost::Stop));
            if now < self.window.end_ns {
                self.begin_threads(now.saturating_sub(self.begin_ns));
            }
        }
    }

    fn show(&mut self, now: Nanos, progress: &mut dyn Progress) {
        self.live.fill(LiveGroup::default());
        for worker in &self.by_worker {
            worker.figures.add_to(&mut self.live[worker.group]);
        }
        let total_ns = self.experiment.length_ns();
        let wall_ns = now.saturating_sub(self.begin_ns);
        progress.advanced(&LiveFigures { elapsed_ns: wall_ns.min(total_ns), total_ns, wall_ns, groups: &self.live });
    }

    fn snapshot(&self) -> Result<Snapshot, RunError> {
        let failed =
            |error: io::Error| RunError::Failed { message: self.experiment.target.clone(), source: Some(error) };
        Ok(Snapshot { stat: self.queue.stat().map_err(failed)?, pressure_us: pressure_us() })
    }

    /// Collects the figures of all workers and combines them by group.
    ///
    /// # Errors
    /// A worker fails to send its figures.
    pub fn figures(&mut self, effective_weights: Option<&[u32]>) -> Result<Vec<GroupMeasurement>, RunError> {
        self.window.end_at(self.last_end_ns, self.experiment.ramp_ns);
        let mut groups = Recorder::new(self.experiment, self.window).finish(self.experiment, effective_weights);
        self.workers.send_all(FromHost::Report { end_ns: self.window.end_ns });
        let mut left = self.by_worker.len();
        let deadline_ns = monotonic_ns() + DRAIN_TIMEOUT_NS;
        while left > 0 && monotonic_ns() < deadline_ns {
            if let Some((worker, FromWorker::Figures(part))) = self.workers.receive(POLL_INTERVAL)? {
                let group = self.by_worker[worker].group;
                let before = self.by_worker[..worker].iter().filter(|other| other.group == group).count();
                merge::add(&mut groups[group], *part, before);
                left -= 1;
            }
        }
        if left > 0 {
            let message = format!("{left} workers have not sent their figures");
            return Err(RunError::Failed { message, source: None });
        }
        if self.window.end_ns < Window::of(self.experiment, self.begin_ns).end_ns {
            // All jobs have completed: a thread that did not start was not meant to, which its
            // worker cannot know.
            groups.iter_mut().flat_map(|group| &mut group.threads).for_each(|thread| thread.is_cut_off = false);
        }
        Ok(groups)
    }
}

/// Total time of `some` in `/proc/pressure/cpu`; 0 where the kernel does not report it.
fn pressure_us() -> u64 {
    let text = std::fs::read_to_string("/proc/pressure/cpu").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("some"));
    line.and_then(|line| line.rsplit_once("total=")?.1.trim().parse().ok()).unwrap_or(0)
}
