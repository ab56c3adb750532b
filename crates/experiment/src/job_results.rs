//! Results of single jobs in addition to those of their groups, divided as in fio.
//!
//! Each thread of a job file has a result of its own; with `group_reporting`, all threads of a
//! reporting group share one (`new_group` and `stonewall` start a new reporting group). Rates are
//! over a result's own time rather than the window: the phases of a file run one after another, and
//! each has the rate that it had while it ran. Threads of different cgroups are never combined,
//! because their shares differ.

use std::ops::Range;

use hoistway_block::Nanos;
use hoistway_workload::Job;
use serde::{Deserialize, Serialize};

use crate::measurement::{GroupMeasurement, Tally, ThreadTally};
use crate::{Experiment, Group, Histogram};

/// If more threads than this have results of their own, those of one job are combined, because a
/// result takes memory for each power of two of latency that occurs.
pub const MOST_THREADS: usize = 4_096;

/// The result of a thread of a job, or of all threads of a reporting group.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct JobMeasurement {
    /// Name of the job; that of the first one if there are several.
    pub name: String,
    /// Its reporting group, numbered throughout the job file.
    pub report_group: u32,
    /// Its first thread, as an index into [`GroupMeasurement::threads`].
    pub first_thread: usize,
    /// Number of its threads.
    pub threads: usize,
    /// Reads.
    #[serde(default, skip_serializing_if = "JobTally::is_empty")]
    pub read: JobTally,
    /// Writes.
    #[serde(default, skip_serializing_if = "JobTally::is_empty")]
    pub write: JobTally,
    /// Discards.
    #[serde(default, skip_serializing_if = "JobTally::is_empty")]
    pub trim: JobTally,
    /// Flushes.
    #[serde(default, skip_serializing_if = "JobTally::is_empty")]
    pub sync: JobTally,
}

/// Results of a job in one direction.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct JobTally {
    /// Time that it covers, in nanoseconds: the longest of its threads.
    pub runtime_ns: Nanos,
    /// The counts. Samples are seconds of the job's own time, without percentiles; device time is
    /// not divided among jobs.
    pub tally: Tally,
}

impl JobTally {
    /// Whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.tally.ios == 0 && self.tally.latency.is_empty() && self.tally.errors.is_empty()
    }

    /// An amount per second of its time.
    pub fn per_s(&self, amount: u64) -> f64 {
        if self.runtime_ns == 0 { 0.0 } else { amount as f64 * 1e9 / self.runtime_ns as f64 }
    }

    /// Adds a result that ran at the same time: amounts add up, the longest time counts, as in fio.
    pub fn add(&mut self, other: &JobTally) {
        self.runtime_ns = self.runtime_ns.max(other.runtime_ns);
        let (sum, part) = (&mut self.tally, &other.tally);
        (sum.bytes, sum.ios) = (sum.bytes + part.bytes, sum.ios + part.ios);
        for (name, count) in &part.errors {
            *sum.errors.entry(name.clone()).or_default() += count;
        }
        sum.latency.merge(&part.latency);
        for sample in &part.samples {
            match sum.samples.iter_mut().find(|known| known.at_ns / 1_000_000_000 == sample.at_ns / 1_000_000_000) {
                Some(known) => (known.bytes, known.ios) = (known.bytes + sample.bytes, known.ios + sample.ios),
                None => sum.samples.push(*sample),
            }
        }
    }
}

impl JobMeasurement {
    /// All directions with their names.
    pub fn directions(&self) -> [(&'static str, &JobTally); 4] {
        [("read", &self.read), ("write", &self.write), ("trim", &self.trim), ("sync", &self.sync)]
    }

    /// All directions, mutable.
    pub fn directions_mut(&mut self) -> [&mut JobTally; 4] {
        [&mut self.read, &mut self.write, &mut self.trim, &mut self.sync]
    }

    /// Adds `other`, which ran at the same time.
    pub fn add(&mut self, other: &JobMeasurement) {
        for (sum, (_, part)) in self.directions_mut().into_iter().zip(other.directions()) {
            sum.add(part);
        }
    }

    /// Time for which it was measured, in nanoseconds.
    pub fn runtime_ns(&self) -> Nanos {
        self.directions().iter().map(|(_, tally)| tally.runtime_ns).max().unwrap_or(0)
    }

    /// The latencies of reads, writes and discards as one histogram.
    pub fn latency(&self) -> Histogram {
        Histogram::merged(self.directions()[..3].iter().map(|(_, tally)| &tally.tally.latency))
    }

    /// The jobs of `group` that its threads run.
    pub fn plan<'a>(&self, group: &'a Group) -> &'a [Job] {
        let end_of = |index: usize| group.jobs[..=index].iter().map(|job| job.threads as usize).sum::<usize>();
        let first = (0..group.jobs.len()).find(|index| end_of(*index) > self.first_thread).unwrap_or(0);
        let last = (first..group.jobs.len()).find(|index| end_of(*index) >= self.first_thread + self.threads);
        group.jobs.get(first..=last.unwrap_or(first)).unwrap_or_default()
    }

    fn range(&self) -> Range<usize> {
        self.first_thread..self.first_thread + self.threads
    }

    /// Number of its threads that the end of the run cut off; `group` is its group.
    pub fn cut_off(&self, group: &GroupMeasurement) -> usize {
        let threads = group.threads.get(self.range()).unwrap_or_default();
        threads.iter().filter(|thread| thread.is_cut_off).count()
    }

    /// How the end of the run affected it, in words; empty if it ended by itself.
    pub fn cut_off_text(&self, group: &GroupMeasurement) -> String {
        match self.cut_off(group) {
            0 => String::new(),
            _ if self.runtime_ns() == 0 => "did not begin before the run was over".to_owned(),
            count if count < self.threads => {
                format!("{count} of {} threads cut off by the end of the run", self.threads)
            }
            _ => "cut off by the end of the run".to_owned(),
        }
    }

    /// Its name in tables: that of the thread if its job has several.
    pub fn label<'a>(&'a self, group: &'a GroupMeasurement) -> &'a str {
        let name_of = |index: usize| group.threads.get(index).map(|thread: &ThreadTally| thread.name.as_str());
        let is_clone = |index: Option<usize>| {
            let other = index.and_then(name_of).and_then(|name| name.rsplit_once('.'));
            other.is_some_and(|(name, _)| name == self.name)
        };
        let first = self.first_thread;
        if self.threads == 1 && (is_clone(first.checked_sub(1)) || is_clone(Some(first + 1))) {
            return name_of(first).unwrap_or(&self.name);
        }
        &self.name
    }
}

/// The results by group, from one entry per thread in the order of threads. Entries from fio, which
/// has run a job file of its own (`fio_only`), are returned unchanged.
pub fn of_entries(experiment: &Experiment, entries: Vec<Vec<JobMeasurement>>) -> Vec<Vec<JobMeasurement>> {
    let (results, _) = results(experiment);
    let of_group = |(index, (group, entries)): (usize, (&Group, Vec<JobMeasurement>))| {
        if group.jobs.iter().any(|job| job.source.fio_only.is_some()) {
            return entries;
        }
        let threads: usize = group.jobs.iter().map(|job| job.threads as usize).sum();
        if entries.len() != threads {
            return Vec::new();
        }
        let results = results.iter().filter(|place| place.group == index);
        let summed = results.map(|place| {
            let JobResult { name, report_group, first_thread, threads, .. } = place.clone();
            let members = &entries[first_thread..first_thread + threads];
            let mut sum = JobMeasurement { name, report_group, first_thread, threads, ..JobMeasurement::default() };
            members.iter().for_each(|member| sum.add(member));
            sum
        });
        summed.collect()
    };
    experiment.groups.iter().zip(entries).enumerate().map(of_group).collect()
}

/// A result and its threads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct JobResult {
    pub group: usize,
    pub job_index: usize,
    pub name: String,
    pub report_group: u32,
    /// Index into the threads of its group.
    pub first_thread: usize,
    pub threads: usize,
}

/// The results of an experiment, in the order of its threads, and the result that each thread
/// belongs to; empty if no job has one.
pub(crate) fn results(experiment: &Experiment) -> (Vec<JobResult>, Vec<Option<usize>>) {
    let jobs = || experiment.groups.iter().flat_map(|group| &group.jobs).filter(|job| job.reporting.has_own_results);
    if jobs().next().is_none() {
        return (Vec::new(), Vec::new());
    }
    let single_jobs = jobs().filter(|job| !job.reporting.group_reporting);
    let folds = single_jobs.map(|job| job.threads as usize).sum::<usize>() > MOST_THREADS;
    let (mut results, mut result_of_thread): (Vec<JobResult>, Vec<Option<usize>>) = (Vec::new(), Vec::new());
    let mut first_of_group = 0;
    let mut group = 0;
    for (index, place) in experiment.issuers().enumerate() {
        if place.group != group {
            (group, first_of_group) = (place.group, index);
        }
        let job = place.job;
        if !job.reporting.has_own_results {
            result_of_thread.push(None);
            continue;
        }
        // As in fio, a thread that reports with its group joins the previous result, whatever that
        // one's option is.
        let joins = |before: &&mut JobResult| {
            let is_next = before.group == group && before.report_group == job.reporting.report_group;
            is_next && (job.reporting.group_reporting || folds && before.job_index == place.job_index)
        };
        match results.last_mut().filter(joins) {
            Some(before) => before.threads += 1,
            None => results.push(JobResult {
                group,
                job_index: place.job_index,
                name: job.name.clone(),
                report_group: job.reporting.report_group,
                first_thread: index - first_of_group,
                threads: 1,
            }),
        }
        result_of_thread.push(Some(results.len() - 1));
    }
    (results, result_of_thread)
}
