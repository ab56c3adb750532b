//! Counts the requests of issuers: the only definition of throughput and latency, the same for all
//! hosts.
//!
//! A request counts for throughput if it *completes* inside the window, and for latency if it was
//! *submitted* inside it, however late it completes, so that the worst latencies are not lost.
//! Hosts let requests in flight complete and report them.
//!
//! A thread of a later phase counts from the end of its own ramp. A thread that ends in its ramp is
//! measured from its start, as in fio.
//!
//! Cost: memory of a group and direction is allocated at its first request (usually in the ramp),
//! nothing afterwards. `submitted` and `completed` together take 8 ns (CPU time, 2026-11-20, 40
//! million requests, release build on a loaded 2-core VM). Source: docs/specifications/harness.md,
//! section 5.5.

use hoistway_block::time::SECOND;
use hoistway_block::{Nanos, Operation};
use hoistway_workload::{Ending, Io};

use crate::histogram::{Histogram, SecondCounts, bucket_of};
use crate::host::LiveGroup;
use crate::job_counts::JobCounters;
use crate::log::Logger;
use crate::measurement::{GroupMeasurement, Sample, Tally, ThreadTally};
use crate::outcome::{Errors, error_name, slot_of};
pub use crate::outcome::{Outcome, errno_of};
use crate::{Experiment, IssuerPlace, Weight};

/// The measured time on the host's clock: `start_ns <= t < end_ns`.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Window {
    /// First nanosecond of the window.
    pub start_ns: Nanos,
    /// First nanosecond after the window.
    pub end_ns: Nanos,
}

impl Window {
    /// The window of an experiment that starts at `now_ns`.
    pub const fn of(experiment: &Experiment, now_ns: Nanos) -> Self {
        let start_ns = now_ns.saturating_add(experiment.ramp_ns);
        Self { start_ns, end_ns: start_ns.saturating_add(experiment.runtime_ns) }
    }

    /// Whether a time is inside.
    #[inline]
    pub const fn contains(self, at_ns: Nanos) -> bool {
        self.start_ns <= at_ns && at_ns < self.end_ns
    }

    /// Ends the window at `now_ns` if it would last longer, because no thread has anything left to
    /// do. If that is before its start, the window becomes the elapsed part of the ramp.
    pub fn end_at(&mut self, now_ns: Nanos, ramp_ns: Nanos) {
        self.end_ns = self.end_ns.min(now_ns);
        if self.end_ns < self.start_ns {
            self.start_ns -= ramp_ns;
        }
    }

    /// Its length in nanoseconds.
    pub const fn length_ns(self) -> Nanos {
        self.end_ns.saturating_sub(self.start_ns)
    }
}

/// Kind of request, as results distinguish it.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum IoDirection {
    /// Data is read from the device.
    Read = 0,
    /// Data or zeroes are written to the device.
    Write = 1,
    /// Discards.
    Trim = 2,
    /// Flushes.
    Sync = 3,
}

impl From<Operation> for IoDirection {
    #[inline]
    fn from(operation: Operation) -> Self {
        match operation {
            Operation::Read => IoDirection::Read,
            Operation::Write | Operation::WriteZeroes | Operation::ZoneAppend | Operation::Passthrough => {
                IoDirection::Write
            }
            Operation::Discard | Operation::SecureErase => IoDirection::Trim,
            Operation::Flush => IoDirection::Sync,
        }
    }
}

/// One completed request of an issuer.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Completion {
    /// The thread, as an index into [`Experiment::issuers`].
    pub issuer: usize,
    /// Its kind.
    pub direction: IoDirection,
    /// Start of the submitting call, on the host's clock.
    pub submitted_ns: Nanos,
    /// Time at which the completion was seen.
    pub completed_ns: Nanos,
    /// Requested bytes.
    pub bytes: u64,
    /// Device time of the request, in nanoseconds; 0 if the host does not know it.
    pub device_ns: Nanos,
    /// Its result.
    pub outcome: Outcome,
}

/// Up to this many groups, histograms are allocated at the start, so that no I/O waits for memory.
/// With more groups, pages are allocated at first use.
const FEW_GROUPS: usize = 256;

/// Records one run.
#[derive(Debug)]
pub struct Recorder {
    window: Window,
    /// The end of the window before it was cut.
    planned_end_ns: Nanos,
    ramp_ns: Nanos,
    by_direction: Vec<[Option<Box<GroupCounts>>; 4]>,
    /// Delays of replays by group.
    issue_delays: Vec<Option<Box<Histogram>>>,
    issuers: Vec<IssuerCount>,
    jobs: JobCounters,
    /// Loggers by thread; empty if no job requests a log.
    loggers: Vec<Option<Box<Logger>>>,
}

/// Counts of one thread.
#[derive(Debug)]
struct IssuerCount {
    group: usize,
    name: String,
    bytes: u64,
    ios: u64,
    /// First counted submission and last counted completion.
    begun_ns: Nanos,
    ended_ns: Nanos,
    late: u64,
    ending: String,
    /// When the thread had nothing left to do or was told to end; unknown before.
    over_ns: Nanos,
    /// Completions from here on count; unknown before the first submission.
    counts_from_ns: Nanos,
    own_ramp_ns: Nanos,
    /// Requested time of measurement: 0 means until its work is done, [`Experiment::UNTIL_DONE_NS`]
    /// until it is told to end.
    wanted_ns: Nanos,
    /// Counts before `counts_from_ns` by direction, if the thread may end there.
    early: Option<Box<Early>>,
}

/// Counts of a thread in its ramp.
#[derive(Debug, Default)]
struct Early {
    tallies: [Tally; 4],
    begun_ns: Option<Nanos>,
    ended_ns: Nanos,
}

/// Value of a time that is not known yet.
const UNKNOWN_NS: Nanos = Nanos::MAX;

impl IssuerCount {
    fn new(place: &IssuerPlace<'_>) -> Self {
        let job = place.job;
        let begins_later = job.course.phase > 0 || !job.course.wait_for.is_empty();
        let own_ramp_ns = if begins_later { job.times.ramp_ns } else { 0 };
        Self {
            group: place.group,
            name: format!("{}.{}", job.name, place.thread),
            bytes: 0,
            ios: 0,
            begun_ns: Nanos::MAX,
            ended_ns: 0,
            late: 0,
            ending: String::new(),
            over_ns: UNKNOWN_NS,
            counts_from_ns: UNKNOWN_NS,
            own_ramp_ns,
            wanted_ns: job.times.runtime_ns.unwrap_or(0),
            early: (job.times.ramp_ns > 0 && !job.times.time_based).then(Box::default),
        }
    }

    /// Time for which it was measured in `window`, in nanoseconds.
    fn runtime_ns(&self, window: Window) -> Nanos {
        if self.counts_from_ns == UNKNOWN_NS {
            return 0;
        }
        self.over_ns.min(window.end_ns).saturating_sub(self.counts_from_ns)
    }

    /// Whether the end of `window` prevented it from completing its work, or from more than a
    /// hundredth of its requested time.
    fn is_cut_off(&self, window: Window) -> bool {
        if self.over_ns < window.end_ns {
            return false;
        }
        match self.wanted_ns {
            _ if self.counts_from_ns == UNKNOWN_NS => true,
            0 => true,
            Experiment::UNTIL_DONE_NS.. => false,
            wanted_ns => self.runtime_ns(window) < wanted_ns - wanted_ns / 100,
        }
    }

    #[cold]
    fn completed_early(&mut self, completion: &Completion) {
        let Some(early) = &mut self.early else { return };
        let &Completion { direction, submitted_ns, completed_ns, bytes, device_ns, outcome, .. } = completion;
        let tally = &mut early.tallies[direction as usize];
        tally.latency.add(completed_ns.saturating_sub(submitted_ns));
        tally.device_ns += device_ns;
        match outcome {
            Outcome::Done => (tally.bytes, tally.ios) = (tally.bytes + bytes, tally.ios + 1),
            failed => *tally.errors.entry(error_name(slot_of(failed))).or_default() += 1,
        }
        early.begun_ns = early.begun_ns.or(Some(submitted_ns));
        early.ended_ns = completed_ns;
    }
}

impl Recorder {
    /// A recorder for the threads of `experiment`.
    pub fn new(experiment: &Experiment, window: Window) -> Self {
        let logger = |place: IssuerPlace<'_>| {
            let output = &place.job.output;
            output.is_wanted().then(|| Box::new(Logger::new(output)))
        };
        let mut loggers: Vec<_> = experiment.issuers().map(logger).collect();
        if loggers.iter().all(Option::is_none) {
            loggers.clear();
        }
        Self {
            window,
            planned_end_ns: window.end_ns,
            ramp_ns: experiment.ramp_ns,
            by_direction: experiment.groups.iter().map(|_| [const { None }; 4]).collect(),
            issue_delays: vec![None; experiment.groups.len()],
            issuers: experiment.issuers().map(|place| IssuerCount::new(&place)).collect(),
            jobs: JobCounters::new(experiment),
            loggers,
        }
    }

    /// The present window.
    pub const fn window(&self) -> Window {
        self.window
    }

    /// Notes that an issuer starts submitting a request at `now_ns`. Times of one group must not
    /// decrease.
    ///
    /// Each call must be followed by one of [`Recorder::completed`] for the same issuer and
    /// direction.
    #[inline(always)]
    pub fn submitted(&mut self, issuer: usize, direction: IoDirection, now_ns: Nanos) {
        let issuer = &mut self.issuers[issuer];
        if issuer.counts_from_ns == UNKNOWN_NS {
            issuer.counts_from_ns = self.window.start_ns.max(now_ns.saturating_add(issuer.own_ramp_ns));
        }
        let counts = Self::counts(&mut self.by_direction, self.window, issuer.group, direction);
        counts.advance(self.window, now_ns);
        counts.inflight += 1;
    }

    /// Notes that an issuer saw a request complete.
    // Always inlined, because a call would first store the whole completion in memory.
    #[inline(always)]
    pub fn completed(&mut self, completion: &Completion) {
        let Completion { issuer, direction, submitted_ns, completed_ns, bytes, device_ns, outcome } = *completion;
        let thread = issuer;
        let issuer = &mut self.issuers[thread];
        let counts = Self::counts(&mut self.by_direction, self.window, issuer.group, direction);
        counts.advance(self.window, completed_ns);
        counts.inflight = counts.inflight.saturating_sub(1);
        let latency_ns = completed_ns.saturating_sub(submitted_ns);
        let bucket = bucket_of(latency_ns);
        let mut job = self.jobs.of(thread, direction, submitted_ns.max(issuer.counts_from_ns));
        if submitted_ns >= issuer.counts_from_ns && submitted_ns < self.window.end_ns {
            counts.latency.add_to(bucket, latency_ns);
            if let Some(job) = &mut job {
                job.latency.add_to(bucket, latency_ns);
            }
        }
        if completed_ns < issuer.counts_from_ns {
            issuer.completed_early(completion);
            return;
        }
        if completed_ns >= self.window.end_ns {
            return;
        }
        counts.device_ns += device_ns;
        match outcome {
            Outcome::Done => {
                (counts.bytes, counts.ios) = (counts.bytes + bytes, counts.ios + 1);
                (counts.second.bytes, counts.second.ios) = (counts.second.bytes + bytes, counts.second.ios + 1);
                counts.second_latency.add(bucket, latency_ns);
                if let Some(job) = job {
                    job.done(bytes, completed_ns);
                }
                if direction != IoDirection::Sync {
                    // A discard transfers nothing.
                    let moved_bytes = if direction == IoDirection::Trim { 0 } else { bytes };
                    (issuer.bytes, issuer.ios) = (issuer.bytes + moved_bytes, issuer.ios + 1);
                    issuer.begun_ns = issuer.begun_ns.min(submitted_ns.max(issuer.counts_from_ns));
                }
                // A sync belongs to the time of the writes that it follows, as with dd's
                // conv=fsync.
                if issuer.ios > 0 {
                    issuer.ended_ns = issuer.ended_ns.max(completed_ns);
                }
            }
            failed => {
                counts.errors.count(failed);
                if let Some(job) = job {
                    job.errors.count(failed);
                }
            }
        }
    }

    /// Notes for logs that an issuer submits an I/O.
    #[inline]
    pub fn log_begin(&mut self, issuer: usize, io: &Io, now_ns: Nanos) {
        if let Some(Some(logger)) = self.loggers.get_mut(issuer) {
            logger.begun(io, now_ns);
        }
    }

    /// Notes for logs that an I/O has completed.
    #[inline]
    pub fn log_end(&mut self, issuer: usize, token: u32, now_ns: Nanos) {
        if let Some(Some(logger)) = self.loggers.get_mut(issuer) {
            logger.ended(token, self.window, now_ns);
        }
    }

    /// Notes that an issuer ended at `now_ns`; `ending` is the reason for an early end. An ending
    /// that fio reports as an error counts as one.
    pub fn ended(&mut self, issuer: usize, ending: Option<Ending>, now_ns: Nanos) {
        let count = &mut self.issuers[issuer];
        count.over_ns = now_ns;
        let Some(ending) = ending else { return };
        if !count.ending.is_empty() {
            return;
        }
        count.ending = ending.text();
        if let Some(errno) = ending.errno() {
            // Counted in the first direction that the thread used.
            let by_direction = &mut self.by_direction[count.group];
            if let Some(counts) = by_direction.iter_mut().flatten().next() {
                counts.errors.count(Outcome::Errno(errno));
            }
            self.jobs.failed(issuer, Outcome::Errno(errno));
        }
    }

    /// Adds a remark about a thread for the user; only the first one is kept.
    pub fn remarked(&mut self, issuer: usize, text: impl FnOnce() -> String) {
        let ending = &mut self.issuers[issuer].ending;
        if ending.is_empty() {
            *ending = text();
        }
    }

    /// Notes that a request passed to [`Recorder::completed`] missed its deadline.
    #[inline]
    pub fn late(&mut self, issuer: usize, completed_ns: Nanos) {
        if self.window.contains(completed_ns) {
            self.issuers[issuer].late += 1;
        }
    }

    /// Notes the delay with which a request was submitted, ramp included.
    #[inline]
    pub fn record_issue_delay(&mut self, issuer: usize, issue_delay_ns: Nanos) {
        let issue_delay = &mut self.issue_delays[self.issuers[issuer].group];
        issue_delay.get_or_insert_with(|| Box::new(Histogram::new())).add(issue_delay_ns);
    }

    /// Ends the window at `now_ns` if it would last longer, because an issuer has nothing left to
    /// do.
    ///
    /// No recorded completion may be later than `now_ns`. If that is in the ramp, the ramp becomes
    /// the window.
    pub fn end_window(&mut self, now_ns: Nanos) {
        self.window.end_at(now_ns, self.ramp_ns);
    }

    /// The figures of each group since the start of the window, for progress; `groups` is cleared
    /// first.
    pub fn live(&self, groups: &mut Vec<LiveGroup>) {
        groups.clear();
        groups.extend(self.by_direction.iter().map(|by_direction| {
            let mut live = LiveGroup {
                bytes: by_direction[..2].iter().flatten().map(|counts| counts.bytes).sum(),
                ..LiveGroup::default()
            };
            for counts in by_direction[..3].iter().flatten() {
                live.ios += counts.ios;
                // The worse of the directions, because a merged histogram would cost 15 KiB of
                // copying per redraw.
                live.latency_ns_p99 = live.latency_ns_p99.max(counts.latency.percentile_ns(99.0));
            }
            live
        }));
    }

    /// The latencies of a group's reads, writes and discards so far.
    pub fn latencies(&self, group: usize) -> impl Iterator<Item = &Histogram> {
        self.by_direction[group][..3].iter().flatten().map(|counts| &counts.latency)
    }

    /// The results: one entry per group of `experiment`, which must be the one given at
    /// construction.
    ///
    /// `effective_weights` are the weights in force in the mechanism's own range, if they differ
    /// from the requested ones.
    pub fn finish(mut self, experiment: &Experiment, effective_weights: Option<&[u32]>) -> Vec<GroupMeasurement> {
        let window = self.window;
        for (thread, issuer) in self.issuers.iter_mut().enumerate().filter(|(_, issuer)| issuer.ios == 0) {
            let Some(early) = issuer.early.take() else { continue };
            self.jobs.add_early(thread, &early.tallies);
            for (counts, tally) in self.by_direction[issuer.group].iter_mut().zip(&early.tallies) {
                if let Some(counts) = counts {
                    counts.add(tally, window);
                }
            }
            let data = &early.tallies[..IoDirection::Sync as usize];
            // A discard transfers nothing.
            issuer.bytes = data.iter().map(|tally| tally.bytes).sum::<u64>() - data[IoDirection::Trim as usize].bytes;
            issuer.ios = data.iter().map(|tally| tally.ios).sum();
            issuer.begun_ns = early.begun_ns.unwrap_or(0);
            issuer.ended_ns = early.ended_ns;
            (issuer.counts_from_ns, issuer.over_ns) = (issuer.begun_ns, issuer.ended_ns);
        }
        for counts in self.by_direction.iter_mut().flatten().flatten() {
            counts.advance(window, window.end_ns);
            counts.close_second(window);
        }
        let issuers = &self.issuers;
        let runtime_ns = |thread: usize| issuers[thread].runtime_ns(window);
        let mut jobs = self.jobs.finish(experiment, window, runtime_ns).into_iter();
        let is_planned_end = window.end_ns == self.planned_end_ns;
        let mut groups = Vec::with_capacity(experiment.groups.len());
        // Issuers are in the order of their groups.
        let mut behind = 0;
        for (index, (group, by_direction)) in experiment.groups.iter().zip(self.by_direction).enumerate() {
            let [read, write, trim, sync] =
                by_direction.map(|counts| counts.map(|counts| counts.tally()).unwrap_or_default());
            let weight = group.weight.get();
            let effective_weight = effective_weights.and_then(|all| all.get(index).copied()).unwrap_or(weight);
            let first = behind;
            behind += self.issuers[first..].iter().take_while(|issuer| issuer.group == index).count();
            let threads = self.issuers.iter().enumerate().take(behind).skip(first);
            let late = threads.clone().map(|(_, issuer)| issuer.late).sum();
            let loggers = &mut self.loggers;
            let mut log = |thread: usize| {
                let logger = loggers.get_mut(thread)?.take()?;
                Some(Box::new(logger.finish(window.length_ns())))
            };
            let threads = threads
                .map(|(thread, issuer)| ThreadTally {
                    name: issuer.name.clone(),
                    bytes: issuer.bytes,
                    ios: issuer.ios,
                    elapsed_ns: issuer.ended_ns.saturating_sub(issuer.begun_ns),
                    ending: issuer.ending.clone(),
                    is_cut_off: is_planned_end && issuer.is_cut_off(window),
                    log: log(thread),
                })
                .collect();
            let path = group.path.clone();
            let issue_delay = self.issue_delays[index].take().map(|issue_delay| *issue_delay).unwrap_or_default();
            groups.push(GroupMeasurement {
                path,
                weight,
                effective_weight,
                read,
                write,
                trim,
                sync,
                late,
                issue_delay,
                throttled_ns: Vec::new(),
                threads,
                jobs: jobs.next().unwrap_or_default(),
            });
        }
        debug_assert!(groups.iter().all(|group| group.weight <= Weight::MAX));
        groups
    }

    #[inline]
    fn counts(
        by_direction: &mut [[Option<Box<GroupCounts>>; 4]],
        window: Window,
        group: usize,
        direction: IoDirection,
    ) -> &mut GroupCounts {
        let reserves = by_direction.len() <= FEW_GROUPS;
        by_direction[group][direction as usize].get_or_insert_with(|| Box::new(GroupCounts::new(window, reserves)))
    }
}

/// One group in one direction.
#[derive(Debug)]
struct GroupCounts {
    bytes: u64,
    ios: u64,
    device_ns: Nanos,
    errors: Errors,
    latency: Histogram,
    /// Requests in flight at `advanced_to_ns`.
    inflight: u64,
    /// Time up to which `inflight_area` is summed.
    advanced_to_ns: Nanos,
    /// End of the current second, or of the window.
    second_end_ns: Nanos,
    /// Requests in flight x nanoseconds of the current second.
    inflight_area: u64,
    second: Sample,
    second_latency: SecondCounts,
    samples: Vec<Sample>,
}

impl GroupCounts {
    /// `reserves` decides whether all memory is allocated now.
    fn new(window: Window, reserves: bool) -> Self {
        let seconds = usize::try_from(window.length_ns().div_ceil(SECOND)).unwrap_or(usize::MAX);
        let (mut latency, mut second_latency) = (Histogram::new(), SecondCounts::new());
        if reserves {
            latency.reserve();
            second_latency.reserve();
        }
        Self {
            bytes: 0,
            ios: 0,
            device_ns: 0,
            errors: Errors::default(),
            latency,
            inflight: 0,
            advanced_to_ns: window.start_ns,
            second_end_ns: window.start_ns.saturating_add(SECOND).min(window.end_ns),
            inflight_area: 0,
            second: Sample::default(),
            second_latency,
            // At most a day of samples is reserved, because more would take gigabytes with many
            // groups.
            samples: Vec::with_capacity(seconds.min(86_400)),
        }
    }

    /// Advances the current second and the in-flight area to `now_ns`.
    #[inline]
    fn advance(&mut self, window: Window, now_ns: Nanos) {
        // Inside the current second, which is inside the window.
        if now_ns < self.second_end_ns && now_ns >= self.advanced_to_ns {
            self.inflight_area += self.inflight * (now_ns - self.advanced_to_ns);
            self.advanced_to_ns = now_ns;
            return;
        }
        self.advance_far(window, now_ns);
    }

    #[inline(never)]
    fn advance_far(&mut self, window: Window, now_ns: Nanos) {
        let now_ns = now_ns.clamp(window.start_ns, window.end_ns);
        while now_ns >= self.second_end_ns && self.second_end_ns < window.end_ns {
            self.sum_until(self.second_end_ns);
            self.close_second(window);
        }
        self.sum_until(now_ns);
    }

    #[inline]
    fn sum_until(&mut self, now_ns: Nanos) {
        // At most 2^20 requests x 10^9 ns, which cannot overflow.
        self.inflight_area += self.inflight * now_ns.saturating_sub(self.advanced_to_ns);
        self.advanced_to_ns = self.advanced_to_ns.max(now_ns);
    }

    /// Stores the current second and starts the next. `end_window` may have cut it.
    fn close_second(&mut self, window: Window) {
        let begin_ns = window.start_ns + self.second.at_ns;
        let length_ns = self.second_end_ns.min(window.end_ns).saturating_sub(begin_ns);
        if length_ns == 0 {
            return;
        }
        self.samples.push(Sample {
            length_ns,
            latency_ns_p50: self.second_latency.percentile_ns(self.second.ios, 50.0),
            latency_ns_p99: self.second_latency.percentile_ns(self.second.ios, 99.0),
            latency_ns_max: self.second_latency.max_ns(),
            inflight: self.inflight_area as f64 / length_ns as f64,
            ..self.second
        });
        self.second_latency.clear();
        self.inflight_area = 0;
        self.second = Sample { at_ns: self.second.at_ns + length_ns, ..Sample::default() };
        self.second_end_ns = self.second_end_ns.saturating_add(SECOND).min(window.end_ns);
    }

    /// Adds the counts of a thread that ended in its ramp. They appear in a second only if the
    /// window contains nothing else.
    fn add(&mut self, tally: &Tally, window: Window) {
        (self.bytes, self.ios) = (self.bytes + tally.bytes, self.ios + tally.ios);
        if window.end_ns <= self.advanced_to_ns {
            (self.second.bytes, self.second.ios) = (self.second.bytes + tally.bytes, self.second.ios + tally.ios);
        }
        self.device_ns += tally.device_ns;
        self.latency.merge(&tally.latency);
        self.errors.add(tally);
    }

    fn tally(self) -> Tally {
        let GroupCounts { bytes, ios, errors, device_ns, latency, samples, .. } = self;
        Tally { bytes, ios, errors: errors.named(), device_ns, latency, samples }
    }
}
