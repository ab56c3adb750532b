//! A test in Rust: the questions of `hoistway test` with its defaults, and the same answers.

use std::path::Path;
use std::time::Duration;

use hoistway_block::Nanos;
use hoistway_block::time::SECOND;
use hoistway_device::Model;
use hoistway_experiment::{Exit, Group, Host, Machine, Matrix, Order, SchedulerSpec, ShareUnit, Weight, WorkloadPlan};
use hoistway_workload::Job;
use hoistway_workload::name;

use crate::error::Error;
use crate::outcome::Outcome;
use crate::plan::groups::{Described, describe, place_of};
use crate::plan::times::{self, GivenTimes};
use crate::plan::{DEFAULT_WORKLOAD, USUAL_SCHEDULERS, check, limiters, machine, workloads};
use crate::runs::{self, Unwatched, Watch};

/// A time in the notation of `--runtime`: `30` (seconds), `500ms`, `1h30m`. The Python package uses
/// it, so that there is one notation.
///
/// ```
/// assert_eq!(hoistway::duration("1min 30s")?.as_secs(), 90);
/// assert!(hoistway::duration("5x").is_err());
/// # Ok::<(), hoistway::Error>(())
/// ```
///
/// # Errors
/// [`Error`] with exit code 2: what is wrong with the text.
pub fn duration(text: &str) -> Result<Duration, Error> {
    Ok(Duration::from_nanos(hoistway_experiment::units::time(text)?))
}

/// What to measure: schedulers × groups × workloads on one target.
///
/// Everything but the target has the default that `hoistway test TARGET` has: one group, the workload
/// `randread` (direct random reads of 32 KiB), the schedulers `none`, `mq-deadline`, `bfq` and `paternoster`, 30 s
/// measured after 1 s (real I/O: 2 s), one repetition, seed 1. Equal experiments on a simulated
/// device give equal results, and the JSON of the command with `--no-solo`: no solo runs are made, so
/// that there is no isolation. Nothing is checked before [`Experiment::plan`] or [`Experiment::run`].
///
/// ```
/// use hoistway::Experiment;
///
/// let outcome = Experiment::on("model:ssd")
///     .group("db", 800)
///     .group("ci", 100)
///     .workload("randread:iodepth=32")
///     .scheduler("paternoster")
///     .runtime(std::time::Duration::from_millis(300))
///     .run()?;
/// let db = &outcome.rows()[0];
/// assert_eq!((db.group.as_str(), db.weight), ("db", 800));
/// assert!((db.share.unwrap() - 8.0 / 9.0).abs() < 0.02);
/// # Ok::<(), hoistway::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Experiment {
    target: String,
    groups: Vec<GivenGroup>,
    workloads: Vec<String>,
    schedulers: Vec<String>,
    limiters: Vec<String>,
    threads: Vec<u32>,
    sets: u32,
    seed: u64,
    runtime: Option<Duration>,
    ramp: Option<Duration>,
    device_depth: Option<u32>,
    queue_requests: Option<u32>,
    machine: Option<String>,
    share_unit: ShareUnit,
    workers: Option<usize>,
    may_overwrite: bool,
}

/// A group as it was given.
#[derive(Clone, Debug)]
enum GivenGroup {
    /// Path and weight.
    Weighted(String, u32),
    /// In the notation of `--group`.
    Spec(String),
}

/// The host that runs a target.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum On {
    Simulator,
    Engine,
}

impl Experiment {
    /// A test on this target.
    ///
    /// `model:NAME[,KEY=VALUE...]` is a simulated device: no file is touched and no time passes.
    /// A path, `memory:SIZE` or `null:SIZE`, each also behind a model (`model:ssd,memory:1GiB`), is
    /// real I/O by the engine (feature `engine`); then a run takes its time.
    pub fn on(target: impl Into<String>) -> Self {
        Self {
            target: target.into(),
            groups: Vec::new(),
            workloads: Vec::new(),
            schedulers: Vec::new(),
            limiters: Vec::new(),
            threads: vec![1],
            sets: 1,
            seed: 1,
            runtime: None,
            ramp: None,
            device_depth: None,
            queue_requests: None,
            machine: None,
            share_unit: ShareUnit::Bytes,
            workers: None,
            may_overwrite: false,
        }
    }

    /// Adds a group with a weight of 1 to 10,000; of weights only the ratio counts. Its load is each
    /// [`workload`](Experiment::workload) in turn.
    #[must_use]
    pub fn group(mut self, path: impl Into<String>, weight: u32) -> Self {
        self.groups.push(GivenGroup::Weighted(path.into(), weight));
        self
    }

    /// Adds a group in the notation of `hoistway test --group`, with limits, priority, times or a load of
    /// its own: `name=db,weight=800,rbps=50M,workload=randread:bs=4k,threads=2`.
    #[must_use]
    pub fn group_spec(mut self, spec: impl Into<String>) -> Self {
        self.groups.push(GivenGroup::Spec(spec.into()));
        self
    }

    /// Adds a workload: a name with options (`randread:bs=4k,iodepth=32`; `hoistway list workloads` explains the
    /// names), `all`, or the path of a fio job file (`*.fio`), which defines its own groups.
    #[must_use]
    pub fn workload(mut self, workload: impl Into<String>) -> Self {
        self.workloads.push(workload.into());
        self
    }

    /// Adds a scheduler: `NAME[@VERSION][:KEY=VALUE,...]`, as in `bfq@5.4:slice_idle=0`.
    #[must_use]
    pub fn scheduler(mut self, scheduler: impl Into<String>) -> Self {
        self.schedulers.push(scheduler.into());
        self
    }

    /// Adds a limiter above the schedulers: `NAME[:KEY=VALUE,...]`. Those that limits of groups
    /// need are added by themselves.
    #[must_use]
    pub fn limiter(mut self, limiter: impl Into<String>) -> Self {
        self.limiters.push(limiter.into());
        self
    }

    /// Threads of each job, one column of the results for each count; each 1 to 4,096.
    #[must_use]
    pub fn threads(mut self, counts: impl IntoIterator<Item = u32>) -> Self {
        self.threads = counts.into_iter().collect();
        self
    }

    /// Number of repetitions, 1 to 1,000; each has another load, drawn from the seed.
    #[must_use]
    pub fn sets(mut self, sets: u32) -> Self {
        self.sets = sets;
        self
    }

    /// Seed of everything random.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// The measured time of each run, above 0. Jobs that end by their size need none.
    #[must_use]
    pub fn runtime(mut self, runtime: Duration) -> Self {
        self.runtime = Some(runtime);
        self
    }

    /// The time before it that is not measured.
    #[must_use]
    pub fn ramp(mut self, ramp: Duration) -> Self {
        self.ramp = Some(ramp);
        self
    }

    /// Commands that the device accepts at a time, at least 1 and at most its own depth, which is
    /// the default.
    #[must_use]
    pub fn device_depth(mut self, commands: u32) -> Self {
        self.device_depth = Some(commands);
        self
    }

    /// Requests that the queue holds (`nr_requests`), 1 to 10,240; the default is Linux's.
    #[must_use]
    pub fn queue_requests(mut self, requests: u32) -> Self {
        self.queue_requests = Some(requests);
        self
    }

    /// The simulated computer: `era=2.6,read_ahead_kib=128` (`hoistway list machine`).
    #[must_use]
    pub fn machine(mut self, parameters: impl Into<String>) -> Self {
        self.machine = Some(parameters.into());
        self
    }

    /// What shares are counted in; bytes by default.
    #[must_use]
    pub fn share_unit(mut self, unit: ShareUnit) -> Self {
        self.share_unit = unit;
        self
    }

    /// Simulated runs at a time, at least 1; one per processor by default. Results do not depend on
    /// it. Real runs are made one after the other.
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = Some(workers);
        self
    }

    /// Lets workloads that write do so on a file or device that exists; its content is lost.
    #[must_use]
    pub fn may_overwrite(mut self) -> Self {
        self.may_overwrite = true;
        self
    }

    /// The plan: every list expanded and checked, nothing run.
    ///
    /// # Errors
    /// The first thing that is wrong: an unknown name or option, a value outside its range.
    pub fn plan(&self) -> Result<Matrix, Error> {
        let on = self.host_name();
        if let Some(model) = self.target.strip_prefix("model:").filter(|_| on == On::Simulator) {
            Model::parse(model)
                .map_err(|wrong| Error::usage(wrong.to_string(), "all models: hoistway list devices"))?;
        }
        let schedulers = self.read_schedulers()?;
        let mut plans = self.read_workloads()?;
        let default_ramp_ns = if on == On::Simulator { SECOND } else { 2 * SECOND };
        let given = GivenTimes { runtime_ns: self.runtime.map(ns), ramp_ns: self.ramp.map(ns), default_ramp_ns };
        let times = times::settle(&mut plans, &given, &mut |_| {});
        let limiters = limiters::read(&self.limiters, &plans)?;
        let machine = self
            .machine
            .as_deref()
            .map(|text| Machine::parse(text).map_err(|wrong| Error::from(wrong).at(format!("--machine {text}"))));
        in_range("--sets", self.sets, 1..=1_000)?;
        for count in &self.threads {
            in_range("--threads", *count, 1..=4_096)?;
        }
        if self.threads.is_empty() {
            return Err(Error::usage("no number of threads", "give at least one, or leave it out"));
        }
        let matrix = Matrix {
            target: self.target.clone(),
            workloads: plans,
            schedulers,
            limiters,
            threads: self.threads.clone(),
            sets: self.sets,
            order: Order::Interleaved,
            seed: self.seed,
            runtime_ns: times.runtime_ns,
            ramp_ns: times.ramp_ns,
            device_depth: self.device_depth,
            queue_requests: self.queue_requests,
            share_unit: self.share_unit,
            machine: machine.transpose()?.unwrap_or_default(),
        };
        self.check_writes(on, &matrix)?;
        check::with_host(self.open(on)?.as_ref(), &matrix)?;
        Ok(matrix)
    }

    /// Makes all runs.
    ///
    /// # Errors
    /// Those of [`Experiment::plan`], or the first run that failed.
    pub fn run(&self) -> Result<Outcome, Error> {
        self.run_watched(&Unwatched)
    }

    /// Makes all runs, while `watch` is told how far they are and may cancel them.
    ///
    /// # Errors
    /// Those of [`Experiment::run`]; without a message and with [`Exit::Interrupted`] after a
    /// cancellation.
    pub fn run_watched(&self, watch: &dyn Watch) -> Result<Outcome, Error> {
        let on = self.host_name();
        let matrix = self.plan()?;
        let started_unix_ms = machine::now_unix_ms();
        let workers = if on == On::Simulator { self.workers.unwrap_or_else(machine::cpus) } else { 1 };
        let measurements = runs::make(&matrix.experiments(), &|| self.open(on), workers, watch)?;
        let host = if on == On::Simulator { "simulator" } else { "engine" };
        Ok(Outcome::new(host, matrix, measurements, started_unix_ms))
    }

    fn host_name(&self) -> On {
        let is_setting = |part: &str| part.split_once('=').is_some_and(|(key, _)| !key.contains('/'));
        match self.target.strip_prefix("model:") {
            Some(model) if model.split(',').skip(1).all(is_setting) => On::Simulator,
            _ => On::Engine,
        }
    }

    #[cfg(feature = "engine")]
    fn open(&self, on: On) -> Result<Box<dyn Host>, Error> {
        Ok(match on {
            On::Simulator => Box::new(hoistway_simulator::Simulator::default()),
            On::Engine => Box::new(hoistway_engine::EngineHost),
        })
    }

    #[cfg(not(feature = "engine"))]
    fn open(&self, on: On) -> Result<Box<dyn Host>, Error> {
        match on {
            On::Simulator => Ok(Box::new(hoistway_simulator::Simulator::default())),
            On::Engine => {
                let what = format!("'{}' needs real I/O, and this program was built without it", self.target);
                Err(Error::usage(what, "name a model (model:ssd), or enable the feature `engine` of hoistway"))
            }
        }
    }

    fn check_writes(&self, on: On, matrix: &Matrix) -> Result<(), Error> {
        let is_scratch = |part: &str| part.starts_with("memory:") || part.starts_with("null:");
        let may = on == On::Simulator || self.may_overwrite || self.target.split(',').any(is_scratch);
        let mut jobs = matrix.workloads.iter().flat_map(|workload| &workload.groups).flat_map(|group| &group.jobs);
        if may || !jobs.any(|job| job.shape.mix.has_writes()) {
            return Ok(());
        }
        let what = format!("the workload writes, and {} may not be written to", self.target);
        Err(Error::refused(what, "use a workload that only reads, or allow it: may_overwrite()"))
    }

    fn read_schedulers(&self) -> Result<Vec<SchedulerSpec>, Error> {
        if self.schedulers.is_empty() {
            return Ok(USUAL_SCHEDULERS.into_iter().map(SchedulerSpec::named).collect());
        }
        let mut specs: Vec<SchedulerSpec> = Vec::new();
        for text in &self.schedulers {
            let spec = text.parse().map_err(|wrong| Error::from(wrong).at(format!("--sched {text}")))?;
            if specs.contains(&spec) {
                let what = format!("scheduler '{spec}' is given twice");
                return Err(Error::usage(what, "give each variant once; repeat with --sets"));
            }
            specs.push(spec);
        }
        Ok(specs)
    }

    fn read_workloads(&self) -> Result<Vec<WorkloadPlan>, Error> {
        let usual = [DEFAULT_WORKLOAD.to_owned()];
        let given = if self.workloads.is_empty() { &usual[..] } else { &self.workloads[..] };
        let mut plans: Vec<WorkloadPlan> = Vec::new();
        for text in given {
            if workloads::is_job_file(text) {
                plans.push(self.job_file(Path::new(text))?);
                continue;
            }
            let codes = if text.eq_ignore_ascii_case("all") { name::ALL.to_vec() } else { vec![text.as_str()] };
            for code in codes {
                let (name, jobs) =
                    workloads::of_name(code, &[]).map_err(|error| error.at(format!("--workload {code}")))?;
                let groups = self.groups_with(&jobs)?;
                hoistway_experiment::group::check(&groups)?;
                plans.push(WorkloadPlan { name, groups: groups.into() });
            }
        }
        let twice = plans.iter().enumerate().find(|(at, plan)| plans[..*at].iter().any(|it| it.name == plan.name));
        match twice {
            Some((_, plan)) => {
                let what = format!("workload '{}' is given twice", plan.name);
                Err(Error::usage(what, "give it once; repeat with --sets"))
            }
            None => Ok(plans),
        }
    }

    fn groups_with(&self, jobs: &[Job]) -> Result<Vec<Group>, Error> {
        if self.groups.is_empty() {
            return Ok(vec![Group::new("cgrp1", Weight::DEFAULT, jobs.to_vec())]);
        }
        let groups = self.groups.iter().map(|given| match given {
            GivenGroup::Weighted(path, weight) => Described::plain(path, *weight)?.with_jobs(jobs, &[]),
            GivenGroup::Spec(spec) => describe(spec).map_err(|error| error.at(place_of(spec)))?.with_jobs(jobs, &[]),
        });
        groups.collect()
    }

    fn job_file(&self, path: &Path) -> Result<WorkloadPlan, Error> {
        if !self.groups.is_empty() {
            let what = format!("{} defines its own groups", workloads::name_of_file(path));
            let help = "set cgroup= and cgroup_weight= in the file, and leave the group options out";
            return Err(Error::usage(what, help));
        }
        let bytes = std::fs::read(path)
            .map_err(|error| Error::usage(format!("cannot read the job file {}: {error}", path.display()), ""))?;
        let read_include = |included: &str| std::fs::read(included).map_err(|error| error.to_string());
        let (jobs, _) = workloads::jobs_of_file(&path.display().to_string(), &bytes, &read_include, false)?;
        if let Some(job) = jobs.iter().find(|job| job.source.replay.is_some()) {
            let what = format!("job '{}' replays a trace, which only the command reads", job.name);
            return Err(Error::usage(what, "use hoistway replay"));
        }
        let groups = workloads::groups_of(path, jobs)?;
        hoistway_experiment::group::check(&groups)?;
        Ok(WorkloadPlan { name: workloads::name_of_file(path), groups: groups.into() })
    }
}

fn ns(time: Duration) -> Nanos {
    u64::try_from(time.as_nanos()).unwrap_or(Nanos::MAX)
}

fn in_range(what: &str, value: u32, allowed: std::ops::RangeInclusive<u32>) -> Result<(), Error> {
    if allowed.contains(&value) {
        return Ok(());
    }
    let (low, high) = allowed.into_inner();
    Err(Error::new(Exit::Usage, format!("{what} {value} is outside {low} to {high}"), ""))
}
