//! Counts the results of single jobs in addition to those of their groups; `Recorder` uses it for
//! `job_results`.
//!
//! Memory for a direction of a result is allocated at its first request. It grows by 512 bytes per
//! power of two of latency and by 16 bytes per second.

use hoistway_block::Nanos;
use hoistway_block::time::SECOND;

use crate::Experiment;
use crate::job_results::{JobMeasurement, JobResult, JobTally, results};
use crate::measurement::{Sample, Tally};
use crate::outcome::{Errors, Outcome};
use crate::recorder::Window;
use crate::{Histogram, IoDirection};

/// Counts of all results of jobs of a run.
#[derive(Debug)]
pub(crate) struct JobCounters {
    results: Vec<JobResult>,
    result_of_thread: Vec<Option<usize>>,
    by_direction: Vec<[Option<Box<JobCounts>>; 4]>,
}

/// Counts of one result in one direction.
#[derive(Debug, Default)]
pub(crate) struct JobCounts {
    bytes: u64,
    ios: u64,
    pub errors: Errors,
    pub latency: Histogram,
    /// Submission of the first request that counts, and completion of the last.
    begun_ns: Nanos,
    ended_ns: Nanos,
    /// Bytes and requests of each second after that start.
    seconds: Vec<(u64, u64)>,
}

impl JobCounts {
    /// Counts a request that completed without an error.
    #[inline]
    pub fn done(&mut self, bytes: u64, completed_ns: Nanos) {
        (self.bytes, self.ios) = (self.bytes + bytes, self.ios + 1);
        self.ended_ns = self.ended_ns.max(completed_ns);
        let second = usize::try_from(completed_ns.saturating_sub(self.begun_ns) / SECOND).unwrap_or(usize::MAX);
        if second >= self.seconds.len() {
            self.seconds.resize(second + 1, (0, 0));
        }
        let second = &mut self.seconds[second];
        (second.0, second.1) = (second.0 + bytes, second.1 + 1);
    }

    /// Adds the counts of a thread that ended in its ramp.
    fn add(&mut self, tally: &Tally) {
        (self.bytes, self.ios) = (self.bytes + tally.bytes, self.ios + tally.ios);
        self.latency.merge(&tally.latency);
        self.errors.add(tally);
    }

    fn finish(self, window: Window) -> JobTally {
        let begun_ns = self.begun_ns.saturating_sub(window.start_ns);
        let length_ns = self.ended_ns.saturating_sub(self.begun_ns);
        let sample = |(second, (bytes, ios)): (u64, (u64, u64))| Sample {
            at_ns: begun_ns + second * SECOND,
            length_ns: length_ns.saturating_sub(second * SECOND).min(SECOND),
            bytes,
            ios,
            ..Sample::default()
        };
        let tally = Tally {
            bytes: self.bytes,
            ios: self.ios,
            errors: self.errors.named(),
            device_ns: 0,
            latency: self.latency,
            samples: (0..).zip(self.seconds).map(sample).collect(),
        };
        JobTally { runtime_ns: length_ns, tally }
    }
}

impl JobCounters {
    pub fn new(experiment: &Experiment) -> Self {
        let (results, result_of_thread) = results(experiment);
        let by_direction = results.iter().map(|_| [const { None }; 4]).collect();
        Self { results, result_of_thread, by_direction }
    }

    /// The counts of a thread; `None` if its job has no results of its own. New counts start at
    /// `begun_ns`.
    #[inline]
    pub fn of(&mut self, thread: usize, direction: IoDirection, begun_ns: Nanos) -> Option<&mut JobCounts> {
        let result = (*self.result_of_thread.get(thread)?)?;
        let new = || Box::new(JobCounts { begun_ns, ..JobCounts::default() });
        Some(self.by_direction[result][direction as usize].get_or_insert_with(new))
    }

    /// Counts the error that ended a thread, in the first direction that the thread used.
    pub fn failed(&mut self, thread: usize, failed: Outcome) {
        let Some(Some(result)) = self.result_of_thread.get(thread) else { return };
        if let Some(counts) = self.by_direction[*result].iter_mut().flatten().next() {
            counts.errors.count(failed);
        }
    }

    /// Adds the counts of a thread that ended in its ramp.
    pub fn add_early(&mut self, thread: usize, tallies: &[Tally; 4]) {
        let Some(Some(result)) = self.result_of_thread.get(thread) else { return };
        for (counts, tally) in self.by_direction[*result].iter_mut().zip(tallies) {
            if tally.ios > 0 || !tally.errors.is_empty() {
                counts.get_or_insert_default().add(tally);
            }
        }
    }

    /// The results by group. `runtime_ns` is the time for which a thread was measured.
    pub fn finish(
        self,
        experiment: &Experiment,
        window: Window,
        runtime_ns: impl Fn(usize) -> Nanos,
    ) -> Vec<Vec<JobMeasurement>> {
        let mut groups: Vec<Vec<JobMeasurement>> = experiment.groups.iter().map(|_| Vec::new()).collect();
        let mut longest_ns = vec![0; self.results.len()];
        for (thread, result) in self.result_of_thread.iter().enumerate() {
            let Some(result) = *result else { continue };
            longest_ns[result] = runtime_ns(thread).max(longest_ns[result]);
        }
        for ((result, by_direction), longest_ns) in self.results.into_iter().zip(self.by_direction).zip(longest_ns) {
            let job = &experiment.groups[result.group].jobs[result.job_index];
            // Written data is read back afterwards, so each direction has its own time.
            let reads_back =
                job.shape.mix.has_writes() && job.checks.verify.as_ref().is_some_and(|verify| verify.reads_back);
            let [read, write, trim, sync] = by_direction.map(|counts| {
                let Some(counts) = counts else { return JobTally::default() };
                let tally = counts.finish(window);
                if reads_back { tally } else { JobTally { runtime_ns: longest_ns, ..tally } }
            });
            let JobResult { name, report_group, first_thread, threads, .. } = result;
            groups[result.group].push(JobMeasurement {
                name,
                report_group,
                first_thread,
                threads,
                read,
                write,
                trim,
                sync,
            });
        }
        groups
    }
}
