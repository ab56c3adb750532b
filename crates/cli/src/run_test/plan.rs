//! Converts arguments to a plan: all decisions and checks are made here, nothing is changed.

use std::path::PathBuf;

use hoistway_block::Nanos;
use hoistway_experiment::assertion::Assertion;
use hoistway_experiment::matrix::doubling;
use hoistway_experiment::{Experiment, KernelEra, Matrix, Order, SchedulerSpec, ShareUnit, WorkloadPlan};

use super::groups::{Groups, is_first_run};
use super::host::Terms;
use super::solo::Solo;
use super::{schedulers, solo};
use crate::exit::{Error, Reporter};
use crate::replay;
use crate::run_test::arguments::TestArguments;
use crate::run_test::arguments::{OrderName, OutputArguments, ShareUnitName};
use crate::target::{HostName, Target};
use crate::workloads::{self, Workload};
pub(crate) use hoistway::plan::DEFAULT_WORKLOAD;
use hoistway::plan::limiters;
use hoistway::plan::machine;
use hoistway::plan::times::{self, GivenTimes, Times};

const SECOND_NS: Nanos = 1_000_000_000;
/// The default workload of a test without any options: sequential readers of a disk, for which the
/// schedulers differ in shares and in throughput.
const FIRST_WORKLOAD: &str = "read";

/// A complete plan of a test.
#[derive(Debug)]
pub struct Plan {
    /// The host.
    pub host: HostName,
    /// The target.
    pub target: Target,
    /// The combinations to run.
    pub matrix: Matrix,
    /// Largest number of repetitions, at least those of the matrix.
    pub max_sets: u32,
    /// Required relative half width of the total throughput's confidence interval.
    pub precision: f64,
    /// Idle time between two runs, in nanoseconds.
    pub cooldown_ns: Nanos,
    /// Concurrent runs: simulated ones on all CPUs, real ones one after the other.
    pub workers: usize,
    /// The assertions to check.
    pub assertions: Vec<Assertion>,
    /// The permissions and settings of the host.
    pub terms: Terms,
    /// The base name of traces, if they are wanted.
    pub trace_out: Option<PathBuf>,
    /// The base name of the groups' accounts, if they are wanted.
    pub blkio_out: Option<PathBuf>,
    /// Whether each group first runs alone.
    pub has_solo: bool,
    /// The duration of a run that ends by itself.
    pub expected_ns: Option<Nanos>,
}

impl Plan {
    /// Makes the plan. An error names the first problem.
    pub fn of(arguments: &TestArguments, reporter: Reporter) -> Result<Self, Error> {
        let assertions = arguments.repetition.assert.iter();
        let assertions: Vec<Assertion> = assertions
            .map(|text| Assertion::parse(text).map_err(|wrong| Error::from(wrong).at("--assert")))
            .collect::<Result<_, _>>()?;
        if let Some(needy) = assertions.iter().find(|assertion| assertion.needs_baseline())
            && arguments.repetition.baseline.is_none()
        {
            let what = format!("assertion '{}' needs a stored result to compare with", needy.text());
            return Err(Error::usage(what, "add --baseline DIR"));
        }
        let (host, target) = Target::resolve(arguments.target.as_deref(), &arguments.place)?;
        let generator = generator(arguments.workload.generator.as_deref(), host)?;
        let schedulers = schedulers::read(&arguments.schedulers, (host, generator.is_some()), reporter)?;
        let may_write_here = target.check_writes(host, &arguments.place).is_ok();
        let traced = replay::workload::read(arguments, host, (may_write_here, target.is_made()), reporter)?;
        let (times, workloads) = match &traced {
            Some(traced) => (Times { runtime_ns: traced.runtime_ns, ramp_ns: 0 }, vec![traced.plan.clone()]),
            None => {
                let mut workloads = read_workloads(arguments, &target, reporter)?;
                (
                    times::settle(&mut workloads, &given_times(arguments, host), &mut |note| reporter.note(note)),
                    workloads,
                )
            }
        };
        if host == HostName::Engine {
            note_missing_cache(&workloads, reporter);
        }
        let sets = arguments.repetition.sets.unwrap_or(if assertions.is_empty() { 1 } else { 3 });
        let max_sets = arguments.repetition.max_sets.unwrap_or(sets);
        if max_sets < sets {
            let what = format!("--max-sets {max_sets} is below --sets {sets}");
            return Err(Error::usage(what, "leave --sets out, or make --max-sets larger"));
        }
        let limiters = limiters::read(&arguments.schedulers.limiter, &workloads)?;
        let mut matrix = Matrix { limiters, ..matrix(arguments, &target, times, (schedulers, workloads), sets) };
        if host == HostName::Simulator
            && schedulers::are_of_2010(&arguments.schedulers)
            && arguments.place.machine.is_none()
        {
            matrix.machine.era = KernelEra::Linux26;
        }
        let writes = matrix.workloads.iter().any(has_writes);
        if writes {
            target.check_writes(host, &arguments.place)?;
        }
        target.check_destructive(host, &arguments.place, writes)?;
        let may_write = writes && arguments.place.destructive.is_some();
        let terms = Terms { may_write, is_strict: arguments.groups.strict, generator };
        let default_cooldown_ns = if host == HostName::Simulator { 0 } else { SECOND_NS };
        let cooldown_ns = arguments.repetition.cooldown.unwrap_or(default_cooldown_ns);
        let OutputArguments { trace_out, blkio_out, .. } = arguments.output.clone();
        let (precision, workers) =
            (arguments.repetition.precision.unwrap_or(0.05), workers(arguments.repetition.workers, host)?);
        Ok(Self {
            host,
            target,
            matrix,
            max_sets,
            precision,
            cooldown_ns,
            workers,
            assertions,
            terms,
            trace_out,
            blkio_out,
            has_solo: solo::is_wanted(arguments),
            expected_ns: traced.and_then(|traced| traced.expected_ns),
        })
    }

    /// The largest file size in bytes that any of the experiments needs.
    pub fn file_bytes(&self) -> u64 {
        let experiments = self.matrix.interleaved_set(1).into_iter().chain(self.solo_runs());
        experiments.map(|experiment| workloads::area_bytes(&experiment)).max().unwrap_or(0)
    }

    /// The runs of single groups.
    pub fn solo_runs(&self) -> Vec<Experiment> {
        let all = if self.has_solo { self.matrix.interleaved_set(1) } else { Vec::new() };
        Solo::new(self.host, &self.matrix.schedulers).runs(&all)
    }
}

/// The fio binary, if it generates the load.
fn generator(asked: Option<&str>, host: HostName) -> Result<Option<PathBuf>, Error> {
    let Some(asked) = asked else { return Ok(None) };
    let wrong = |what: &str, help: &str| Err(Error::usage(what, help).at(format!("--generator {asked}")));
    let (name, path) = asked.split_once('=').map_or((asked, None), |(name, path)| (name, Some(path)));
    if name != "fio" {
        return wrong("there is no such generator", "the only one is fio; fio=PATH names its binary");
    }
    if host == HostName::Simulator {
        return wrong("fio needs real I/O, and the simulator has none", "name a device, a directory or a file");
    }
    Ok(Some(PathBuf::from(path.filter(|path| !path.is_empty()).unwrap_or("fio"))))
}

/// Number of concurrent runs.
fn workers(asked: Option<u16>, host: HostName) -> Result<usize, Error> {
    match (host, asked) {
        (HostName::Simulator, asked) => Ok(asked.map_or_else(machine::cpus, usize::from)),
        (_, None | Some(1)) => Ok(1),
        (_, Some(asked)) => {
            let what = format!("{asked} real runs at a time would disturb each other");
            Err(Error::usage(what, "leave --workers out; only simulated runs can run at the same time").at("--workers"))
        }
    }
}

/// The times on the command line.
fn given_times(arguments: &TestArguments, host: HostName) -> GivenTimes {
    let given = &arguments.workload;
    let default_ramp_ns = if host == HostName::Simulator { SECOND_NS } else { 2 * SECOND_NS };
    GivenTimes { runtime_ns: given.runtime, ramp_ns: given.ramp, default_ramp_ns }
}

/// Combines the lists of the arguments.
fn matrix(
    arguments: &TestArguments,
    target: &Target,
    times: Times,
    (schedulers, workloads): (Vec<SchedulerSpec>, Vec<WorkloadPlan>),
    sets: u32,
) -> Matrix {
    let given = &arguments.workload;
    Matrix {
        target: target.text.clone(),
        workloads,
        schedulers,
        threads: given.threads.clone().unwrap_or_else(|| doubling(given.max_threads.unwrap_or(1))),
        sets,
        order: match arguments.repetition.order {
            OrderName::Interleaved => Order::Interleaved,
            OrderName::Classic => Order::Classic,
        },
        seed: given.seed.unwrap_or(1),
        runtime_ns: times.runtime_ns,
        ramp_ns: times.ramp_ns,
        device_depth: arguments.place.device_depth,
        queue_requests: arguments.place.queue_requests,
        limiters: Vec::new(),
        share_unit: match arguments.groups.share_unit {
            ShareUnitName::Bytes => ShareUnit::Bytes,
            ShareUnitName::Ios => ShareUnit::Ios,
            ShareUnitName::Time => ShareUnit::Time,
        },
        machine: arguments.place.machine.clone().unwrap_or_default(),
    }
}

/// The workloads with their groups.
fn read_workloads(arguments: &TestArguments, target: &Target, reporter: Reporter) -> Result<Vec<WorkloadPlan>, Error> {
    let groups = Groups::read(arguments)?;
    let usual = if is_first_run(arguments) { FIRST_WORKLOAD } else { DEFAULT_WORKLOAD };
    let mut plans: Vec<WorkloadPlan> = Vec::new();
    for workload in workloads::read(&arguments.workload, usual, reporter)? {
        let (name, mut members) = match workload {
            Workload::Named { name, jobs } => (name, groups.with_jobs(&jobs, arguments)?),
            Workload::File { name, .. } if !groups.is_single() => {
                let what = format!("{name} defines its own groups");
                let help = "set cgroup= and cgroup_weight= in the file, and leave the group options out";
                return Err(Error::usage(what, help));
            }
            Workload::File { name, groups } => (name, groups),
        };
        if plans.iter().any(|plan| plan.name == name) {
            return Err(Error::usage(format!("workload '{name}' is given twice"), "give it once; repeat with --sets"));
        }
        if target.is_made() {
            workloads::give_sizes(&mut members);
        }
        hoistway_experiment::group::check(&members)?;
        if let Some(group) = members.iter().find(|group| group.reweigh.is_some()) {
            // A table has a single due share per group.
            let what = format!("the weight of group '{}' changes during the run", group.path);
            return Err(Error::usage(what, "reweigh= is for scenarios with verdicts; leave it out").at("--group"));
        }
        plans.push(WorkloadPlan { name, groups: members.into() });
    }
    Ok(plans)
}

/// Notes that buffered jobs do not differ from direct ones if there is no page cache above the
/// scheduler.
fn note_missing_cache(workloads: &[WorkloadPlan], reporter: Reporter) {
    let is_buffered = |workload: &&WorkloadPlan| {
        workload.groups.iter().flat_map(|group| &group.jobs).any(|job| !job.submission.direct)
    };
    for workload in workloads.iter().filter(is_buffered) {
        let help = "only the simulator has a page cache; elsewhere use the direct workloads (d..)";
        reporter
            .warn(format!("{}: the engine has no page cache: buffered jobs run like direct ones", workload.name), help);
    }
}

fn has_writes(workload: &WorkloadPlan) -> bool {
    workload.groups.iter().flat_map(|group| &group.jobs).any(|job| job.shape.mix.has_writes())
}
