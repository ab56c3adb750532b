//! A run that is advanced piece by piece, can be changed meanwhile, and shows what it does.
//!
//! ```text
//! Session::start -> advance(t), set_weight, set_load, stop, resume, set_tunable, figures ... -> finish -> Measurement
//! ```
//! It is the run of [`Simulator`] with the same queue, device and processes: a session without
//! changes gives the measurement that the simulator gives. It reads no clock and starts no thread.
//! A change takes effect at the time up to which the session has advanced, so the same changes at
//! the same times give the same results, whatever the length of the pieces.

mod dispatches;

use hoistway_block::random::fnv1a64_continued;
use hoistway_block::{GroupId, Nanos, Operation};
use hoistway_device::{Activity, DeviceInfo};
use hoistway_elevator::tunable::{SettingError, Tunable};
use hoistway_elevator::{Any, Elevator, GroupSettings};
use hoistway_experiment::{Experiment, Histogram, Measurement, Refusal, RunError, Weight};
use hoistway_workload::{Issuer, Job};

use crate::Simulator;
use crate::host::{Prepared, check_violations, explained, measure, model, prepare};
use crate::processes::Successor;
use crate::run::{Snapshot, Stuck};
use dispatches::Record;
pub use dispatches::{Dispatch, Served};

/// Bios that a session's queue has room for: a changed load may have many more than the first one.
const BIOS: u32 = 1 << 16;

/// A run in pieces.
#[derive(Debug)]
pub struct Session {
    prepared: Prepared<Any>,
    experiment: Experiment,
    now_ns: Nanos,
    /// The counters at the start of the window, once it has begun.
    begin: Option<Snapshot>,
    record: Record,
    /// By group: whether it rests.
    resting: Vec<bool>,
}

/// What a session has done and does now.
#[derive(Clone, Debug)]
pub struct Figures {
    /// The time up to which it has advanced.
    pub now_ns: Nanos,
    /// The groups, in the experiment's order.
    pub groups: Vec<GroupFigures>,
    /// How often each reason was given since the start, in the order of
    /// [`Session::reasons`].
    pub reasons: Vec<u64>,
    /// Why the policy holds its requests back at the moment, as an index of the reasons.
    pub held: Option<u8>,
}

/// What one group has got and waits for.
#[derive(Clone, Debug, Default)]
pub struct GroupFigures {
    /// Its weight.
    pub weight: u32,
    /// Whether it rests.
    pub is_resting: bool,
    /// Bytes read and written since the start of the window.
    pub bytes: u64,
    /// Requests completed since the start of the window.
    pub ios: u64,
    /// I/Os that its threads have issued and that have not completed.
    pub outstanding: u32,
    /// Of these, I/Os in the device.
    pub in_device: u32,
}

impl Session {
    /// Starts a run; the groups at `resting` begin with a rest.
    ///
    /// # Errors
    /// Those of the simulator, and a refusal of limiters and of planned changes of weights.
    pub fn start(experiment: &Experiment, resting: &[usize]) -> Result<Self, Refusal> {
        let is_planned = experiment.groups.iter().any(|group| group.reweigh.is_some());
        if is_planned || !experiment.limiters_needed().is_empty() {
            let what = "a session has neither limiters nor planned changes of weights";
            return Err(Refusal::usage(what, "run it as a test, or leave them out"));
        }
        let device = model(experiment)?.build(experiment.run_seed(), "dev0");
        let (policy, mut prepared) = prepare(experiment, &Simulator::default(), device)?;
        prepared.settings.bios = BIOS;
        for &group in resting {
            prepared.processes.threads_of(group).for_each(|thread| prepared.processes.rest_at_start(thread));
        }
        let mut prepared = prepared.with_policy(policy, experiment)?;
        let groups = experiment.groups.len();
        let record = Record::new(experiment, &prepared);
        prepared.run.queue.set_tracing(true);
        prepared.run.start();
        let mut session = Self {
            prepared,
            experiment: experiment.clone(),
            now_ns: 0,
            begin: None,
            record,
            resting: (0..groups).map(|group| resting.contains(&group)).collect(),
        };
        session.see();
        Ok(session)
    }

    /// The time up to which the run has advanced: everything before it has happened.
    pub fn now_ns(&self) -> Nanos {
        self.now_ns
    }

    /// The end of the run.
    pub fn end_ns(&self) -> Nanos {
        self.experiment.length_ns()
    }

    /// Whether everything is done that will be: the end is reached, or all jobs have ended.
    pub fn is_over(&self) -> bool {
        self.now_ns >= self.end_ns() || self.prepared.run.processes.is_over()
    }

    /// Lets everything happen that happens before `to_ns`, but nothing after the end of the run.
    ///
    /// # Errors
    /// The run cannot continue, which is a defect of a policy or a model without time.
    pub fn advance(&mut self, to_ns: Nanos) -> Result<(), RunError> {
        let to_ns = to_ns.min(self.end_ns());
        let begin_ns = self.experiment.ramp_ns;
        if self.begin.is_none() && to_ns >= begin_ns {
            self.run_until(begin_ns)?;
            let run = &self.prepared.run;
            // As in a whole run: one that ends before its ramp does was measured from its start.
            self.begin = Some(if run.processes.is_over() { Snapshot::default() } else { run.snapshot() });
        }
        self.run_until(to_ns)?;
        self.now_ns = self.now_ns.max(to_ns);
        Ok(())
    }

    /// Advances until the device has got another request and everything of that time has happened,
    /// at most to `to_ns`.
    ///
    /// # Errors
    /// Those of [`Session::advance`].
    pub fn advance_to_dispatch(&mut self, to_ns: Nanos) -> Result<(), RunError> {
        self.advance(self.now_ns)?;
        let (before, to_ns) = (self.record.dispatched(), to_ns.min(self.end_ns()));
        while self.record.dispatched() == before && self.now_ns < to_ns && !self.is_over() {
            // One event, without passing the end of the time asked for.
            let run = &mut self.prepared.run;
            let is_earlier = match run.step(to_ns) {
                Ok(is_earlier) => is_earlier,
                Err(Stuck::NothingAhead) if run.queue.bios_in_flight() == 0 => false,
                Err(stuck) => return Err(explained(stuck, run)),
            };
            let next_ns = if is_earlier { self.prepared.run.now + 1 } else { to_ns };
            self.see();
            self.advance(next_ns)?;
        }
        Ok(())
    }

    fn run_until(&mut self, end_ns: Nanos) -> Result<(), RunError> {
        while !self.prepared.run.processes.is_over() {
            let run = &mut self.prepared.run;
            let stepped = run.step(end_ns);
            match stepped {
                Ok(true) => self.see(),
                Ok(false) => break,
                // Every group rests.
                Err(Stuck::NothingAhead) if run.queue.bios_in_flight() == 0 => break,
                Err(stuck) => return Err(explained(stuck, run)),
            }
        }
        Ok(())
    }

    /// Takes over the events of the queue.
    #[inline]
    fn see(&mut self) {
        self.record.drain(&mut self.prepared.run.queue);
    }

    /// Ends the run at its end, and measures it as a whole run is measured.
    ///
    /// # Errors
    /// Those of [`Session::advance`], and violations of the policy's rules.
    pub fn finish(mut self) -> Result<Measurement, RunError> {
        let end_ns = self.end_ns();
        self.advance(end_ns)?;
        let end = self.prepared.run.snapshot();
        if self.prepared.run.processes.is_over() {
            let now = self.prepared.run.now;
            self.prepared.run.processes.recorder.end_window(now);
        } else {
            self.prepared.run.stop(end_ns);
            self.run_until(Nanos::MAX)?;
        }
        check_violations(&self.prepared.run)?;
        let begin = self.begin.unwrap_or_default();
        Ok(measure(&self.experiment, self.prepared, &begin, &end))
    }
}

// ---- changes ----
impl Session {
    /// Changes a group's weight. A group in reports only is a part of the root, whose weight nothing
    /// depends on.
    pub fn set_weight(&mut self, group: usize, weight: Weight) {
        let id = self.prepared.groups[group];
        let queue = &mut self.prepared.run.queue;
        let settings = GroupSettings { weight: weight.get(), ..*queue.groups().settings(id) };
        queue.change_group(id, &settings, self.now_ns);
    }

    /// Gives a group other jobs, with as many threads as those before. I/Os in flight end as they
    /// would have; then each thread goes on with its new job.
    ///
    /// # Errors
    /// Jobs that do not fit their area, another number of threads, and jobs through the page cache
    /// or of programs, before or now.
    pub fn set_load(&mut self, group: usize, jobs: &[Job]) -> Result<(), Refusal> {
        let threads = self.prepared.run.processes.threads_of(group);
        let is_plain = |job: &Job| job.submission.direct && job.source.program.is_none() && job.source.replay.is_none();
        let mut are_replaceable = threads.clone().map(|index| self.prepared.run.processes.is_replaceable(index));
        if !jobs.iter().all(is_plain) || !are_replaceable.all(|is| is) {
            let what = "only direct I/O by a pattern can be changed during a run";
            return Err(Refusal::usage(what, "start again with the other load"));
        }
        if jobs.iter().map(|job| job.threads as usize).sum::<usize>() != threads.len() {
            let what = format!("the group has {} threads, and the new jobs another number", threads.len());
            return Err(Refusal::usage(what, "start again with the other load"));
        }
        let issuers = self.issuers(group, jobs)?;
        // The new jobs of a group that rests begin when its rest ends.
        if !self.resting[group] {
            self.replace(group, issuers, jobs);
        }
        self.experiment.groups = with_jobs(&self.experiment, group, jobs);
        Ok(())
    }

    /// Stops a group: its I/Os in flight end, and its threads rest.
    pub fn stop(&mut self, group: usize) {
        self.resting[group] = true;
        for index in self.prepared.run.processes.threads_of(group) {
            let run = &mut self.prepared.run;
            run.processes.replace(index, (Successor::Rest, None), self.now_ns, &mut run.queue);
        }
    }

    /// Lets a group that rests go on, from the beginning of its jobs.
    ///
    /// # Errors
    /// As for [`Session::set_load`] if its load was changed meanwhile.
    pub fn resume(&mut self, group: usize) -> Result<(), Refusal> {
        if self.resting[group] {
            let jobs = self.experiment.groups[group].jobs.clone();
            let issuers = self.issuers(group, &jobs)?;
            self.resting[group] = false;
            self.replace(group, issuers, &jobs);
        }
        Ok(())
    }

    /// Sets a tunable of the policy, as text in its unit. Returns the value in force.
    ///
    /// # Errors
    /// Those of [`hoistway_queue::RequestQueue::set`].
    pub fn set_tunable(&mut self, name: &str, text: &str) -> Result<i64, SettingError> {
        self.prepared.run.queue.set(name, text)
    }

    /// An issuer for each thread of a group, with the index of its job.
    fn issuers(&self, group: usize, jobs: &[Job]) -> Result<Vec<(Issuer, usize)>, Refusal> {
        // Each change has streams of its own, which follow from its time alone: of two at the same
        // time only the second counts.
        let seed = fnv1a64_continued(self.experiment.run_seed(), &self.now_ns.to_le_bytes());
        let threads = jobs.iter().enumerate().flat_map(|(at, job)| (0..job.threads).map(move |thread| (at, thread)));
        let processes = &self.prepared.run.processes;
        let places = processes.threads_of(group).zip(threads);
        let issuer = |(index, (at, thread)): (usize, (usize, u32))| {
            let issuer = Issuer::new(&jobs[at], thread, processes.area_bytes_of(index), seed);
            let refused =
                |error: hoistway_workload::Unsuitable| Refusal::usage(error.to_string(), "choose a smaller block");
            Ok((issuer.map_err(refused)?, at))
        };
        places.map(issuer).collect()
    }

    fn replace(&mut self, group: usize, issuers: Vec<(Issuer, usize)>, jobs: &[Job]) {
        let run = &mut self.prepared.run;
        for (index, (issuer, at)) in run.processes.threads_of(group).zip(issuers) {
            let successor = (Successor::Issuer(Box::new(issuer)), Some(&jobs[at]));
            run.processes.replace(index, successor, self.now_ns, &mut run.queue);
        }
    }
}

/// The groups of an experiment, one of them with other jobs.
fn with_jobs(experiment: &Experiment, group: usize, jobs: &[Job]) -> hoistway_experiment::GroupList {
    let mut groups: Vec<_> = experiment.groups.iter().cloned().collect();
    groups[group].jobs = jobs.to_vec();
    groups.into()
}

// ---- inspection ----
impl Session {
    /// The device.
    pub fn device(&self) -> &DeviceInfo {
        &self.prepared.info
    }

    /// What the parts of the device do now.
    pub fn activity(&self) -> Activity {
        self.prepared.run.device.activity(self.now_ns)
    }

    /// The reasons that the policy may give for its choices.
    pub fn reasons(&self) -> &'static [&'static str] {
        self.prepared.run.queue.elevator().reasons()
    }

    /// The policy's tunables and their values, in their units.
    pub fn tunables(&self) -> impl Iterator<Item = (&'static Tunable, i64)> + '_ {
        self.prepared.run.queue.settings()
    }

    /// The figures now.
    pub fn figures(&self) -> Figures {
        let run = &self.prepared.run;
        let mut live = Vec::new();
        run.processes.recorder.live(&mut live);
        let in_device = self.record.in_device(&run.queue);
        let group = |(index, live): (usize, &hoistway_experiment::LiveGroup)| GroupFigures {
            weight: match self.prepared.groups[index] {
                GroupId::ROOT => self.experiment.groups[index].weight.get(),
                id => run.queue.groups().settings(id).weight,
            },
            is_resting: self.resting[index],
            bytes: live.bytes,
            ios: live.ios,
            outstanding: run.processes.threads_of(index).map(|thread| run.processes.in_flight_of(thread)).sum(),
            in_device: in_device[index],
        };
        Figures {
            now_ns: self.now_ns,
            groups: live.iter().enumerate().map(group).collect(),
            reasons: run.queue.reasons().map(|(_, count)| count).collect(),
            held: self.record.held(),
        }
    }

    /// The latencies of a group's reads, writes and discards since the start of the window.
    pub fn latencies(&self, group: usize) -> impl Iterator<Item = &Histogram> {
        self.prepared.run.processes.recorder.latencies(group)
    }

    /// The requests that were dispatched since the last call, oldest first; of very many, the latest.
    pub fn take_dispatches(&mut self) -> Vec<Dispatch> {
        self.record.take_dispatches()
    }

    /// The requests that were completed since the last call; of very many, the latest.
    pub fn take_served(&mut self) -> Vec<Served> {
        self.record.take_served()
    }
}

/// The kind of an operation as blkparse's letter.
const fn letter_of(operation: Operation) -> char {
    match operation {
        Operation::Read => 'R',
        Operation::Discard | Operation::SecureErase => 'D',
        Operation::Flush => 'N',
        Operation::Write | Operation::WriteZeroes | Operation::ZoneAppend | Operation::Passthrough => 'W',
    }
}
