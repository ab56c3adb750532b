//! The host: checks the experiment, prepares the system, runs the workers and merges their figures.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use hoistway_block::Nanos;
use hoistway_experiment::diagnostic::did_you_mean;
use hoistway_experiment::measurement::{DeviceCounters, DirectionCounters, Flag, GroupMeasurement};
use hoistway_experiment::{
    Areas, Experiment, GROUP_LIMITER, Host, IssuerPlace, Limits, Measurement, Progress, Refusal, RunError, TargetFacts,
};
use hoistway_linux::block_queue::{BlockQueue, Stat};
use hoistway_linux::cgroup::{BFQ_WEIGHT_MAX, Hierarchy, Version};

use crate::io_cost;
use crate::message::Order;
use crate::recordings::Recordings;
use crate::run::Run;
use crate::run_setup::{RunSetup, no_such_tunable};
use crate::target::Target;
use crate::tunables::{self, CURRENT, SCHEDULERS};
use crate::weights::Scaled;
use crate::workers::Workers;

/// If the device's traffic exceeds ours by more than this, in percent, another program uses the
/// device.
const FOREIGN_PERCENT: u64 = 2;
/// If tasks waited for a processor for more than this fraction of the time, in percent, processors
/// were short.
const PRESSURE_PERCENT: u64 = 20;

/// How the host starts its own processes: this program again, or another one in tests.
#[derive(Copy, Clone, Debug)]
pub struct Programs {
    /// The command that calls [`crate::worker::work`].
    pub worker: fn() -> Command,
    /// The command that calls [`hoistway_linux::setting::watch`] with this journal.
    pub watcher: fn(&Path) -> Command,
}

/// The host of the kernel's own schedulers.
#[derive(Copy, Clone, Debug)]
pub struct NativeHost {
    programs: Programs,
    may_write: bool,
    is_strict: bool,
}

impl NativeHost {
    /// A read-only host.
    pub fn new(programs: Programs) -> Self {
        Self { programs, may_write: false, is_strict: false }
    }

    /// The same host with writes to the target allowed: the caller has made all necessary checks.
    #[must_use]
    pub fn with_writes(self) -> Self {
        Self { may_write: true, ..self }
    }

    /// The same host, which refuses weights that the kernel cannot represent closely.
    #[must_use]
    pub fn strict(self) -> Self {
        Self { is_strict: true, ..self }
    }

    /// Refuses a workload that writes, unless writes are allowed or the target was created for the
    /// test.
    pub(crate) fn check_writes(&self, experiment: &Experiment, is_foreign: bool) -> Result<(), Refusal> {
        if is_foreign && writes(experiment) && !self.may_write {
            let message = format!("the workload writes, and writing to {} is not allowed", experiment.target);
            return Err(Refusal::unsafe_target(
                message,
                "allow it with --destructive DEVICE, or use a workload that only reads",
            ));
        }
        Ok(())
    }

    /// The function that makes the watcher's command.
    pub(crate) fn watcher(&self) -> fn(&Path) -> Command {
        self.programs.watcher
    }
}

impl Host for NativeHost {
    fn name(&self) -> &'static str {
        "native"
    }

    fn check(&self, experiment: &Experiment) -> Result<(), Refusal> {
        experiment.check()?;
        check_capabilities(experiment)?;
        let target = Target::of(&experiment.target)?;
        let queue = target.queue()?;
        check_scheduler(experiment, &queue)?;
        check_groups(experiment)?;
        if self.is_strict {
            check_weights(experiment, &queue)?;
        }
        orders(experiment, &target, &[]).map(drop)
    }

    fn run(&mut self, experiment: &Experiment, progress: &mut dyn Progress) -> Result<Measurement, RunError> {
        let target = Target::of(&experiment.target)?;
        self.check_writes(experiment, !target.is_ours)?;
        let setup = RunSetup::apply(experiment, &self.programs.watcher)?;
        let measured = measure(experiment, &target, &setup, self.programs, progress);
        let restored = setup.teardown();
        // A failure to restore is reported rather than the run's own failure.
        let foreign = restored?;
        let mut measurement = measured?;
        note(&mut measurement, foreign);
        Ok(measurement)
    }
}

fn writes(experiment: &Experiment) -> bool {
    experiment.issuers().any(|place| place.job.shape.mix.has_writes())
}

/// Refuses what this host cannot do.
fn check_capabilities(experiment: &Experiment) -> Result<(), Refusal> {
    experiment.check_weights_stay()?;
    if !experiment.machine.is_default() {
        let message = format!("the machine '{}' exists only in the simulator", experiment.machine.text());
        return Err(Refusal::usage(message, "leave --machine out, or use --host simulator"));
    }
    if experiment.device_depth.is_some() {
        let message = "the depth of a real device cannot be chosen";
        return Err(Refusal::usage(message, "leave --device-depth out; --queue-requests sets nr_requests"));
    }
    if let Some(limiter) =
        experiment.limiters_needed().iter().find(|it| it.name != GROUP_LIMITER || !it.settings.is_empty())
    {
        let message = format!("the native host cannot set the limiter '{limiter}'");
        return Err(Refusal::usage(
            message,
            "limits of groups (rbps=, wbps=, riops=, wiops=) are the kernel's own throttling",
        ));
    }
    if let Some(place) = experiment.issuers().find(|place| place.job.goals.flow.is_some()) {
        let message =
            format!("job '{}' shares a flow with others; here each thread is a process of its own", place.job.name);
        return Err(Refusal::usage(message, "use --host engine or --host simulator"));
    }
    if let Some(place) =
        experiment.issuers().find(|place| place.job.source.program.is_some_and(|it| it.needs_file_system()))
    {
        let message = format!("job '{}' creates, renames and removes files; a block device has none", place.job.name);
        return Err(Refusal::usage(message, "use --host simulator, or a workload that only transfers data"));
    }
    let has_more = |limits: &Limits| !limits.low.is_none() || limits.latency_target_us > 0;
    if let Some(group) =
        experiment.groups.iter().find(|group| has_more(&group.limits) || group.group_priority.is_some())
    {
        let message =
            format!("group '{}': this kernel has neither best-effort limits nor levels of groups", group.path);
        return Err(Refusal::usage(message, "use weights and hard limits, or --host simulator"));
    }
    Ok(())
}

fn check_scheduler(experiment: &Experiment, queue: &BlockQueue) -> Result<(), Refusal> {
    let spec = &experiment.scheduler;
    if let Some(version) = &spec.version {
        let message = format!("{}: the kernel has its own {}, not that of {version}", spec, spec.name);
        return Err(Refusal::usage(message, format!("write {}, or use --host simulator", spec.name)));
    }
    if spec.name == io_cost::NAME {
        io_cost::check(spec, Hierarchy::find().as_ref())?;
    }
    let Some(schedulers) = queue.schedulers() else {
        let message = format!("{} has no request queue: no scheduler can be chosen", queue.name());
        return Err(Refusal::usage(message, format!("use --sched {CURRENT}, or the device below it")));
    };
    let name = tunables::scheduler_of(&spec.name);
    let is_offered = schedulers.names.iter().any(|known| known == name) || SCHEDULERS.contains(&name);
    if name == CURRENT {
        return match spec.settings.first() {
            Some(setting) => {
                let message = format!("{CURRENT} changes no settings, so it cannot set {}", setting.key);
                Err(Refusal::usage(message, format!("name the scheduler: {}:{}=..", schedulers.active, setting.key)))
            }
            None => Ok(()),
        };
    }
    if !is_offered {
        let names = || schedulers.names.iter().map(String::as_str);
        let meant = did_you_mean(name, names());
        let message = format!("the kernel offers no scheduler '{name}' for {}", queue.name());
        // The kernel loads its own schedulers automatically, and ours if the module is installed.
        let ours = if tunables::is_of_our_module(name) { tunables::HOW_TO_LOAD } else { "" };
        let help = format!("{meant}{ours}(available: {}; {CURRENT} keeps the active one)", schedulers.names.join(", "));
        return Err(Refusal::usage(message, help));
    }
    let live = queue.tunables();
    for setting in &spec.settings {
        if spec.name == io_cost::NAME && io_cost::is_key(&setting.key) {
            continue;
        }
        let known = tunables::known(name).find(|tunable| tunable.name == setting.key);
        let is_live = schedulers.active == name && live.iter().any(|(tunable, _)| *tunable == setting.key);
        let Some(known) = known else {
            // The tunables of our module's elevators are known from sysfs only after switching to
            // them.
            if is_live || tunables::is_of_our_module(name) {
                continue;
            }
            if spec.name == io_cost::NAME {
                return Err(io_cost::no_such_key(&setting.key, tunables::known(name).map(|tunable| tunable.name)));
            }
            return Err(no_such_tunable(name, &setting.key, tunables::known(name).map(|tunable| tunable.name)));
        };
        let number = setting.value.parse::<u64>();
        if !number.as_ref().is_ok_and(|number| *number <= known.maximum) {
            let message = format!("{}={} is not a whole number from 0 to {}", known.name, setting.value, known.maximum);
            let unit = if known.unit.is_empty() { String::new() } else { format!("its unit is {}; ", known.unit) };
            return Err(Refusal::usage(message, format!("{unit}plain digits, without a suffix")));
        }
    }
    Ok(())
}

/// Checks that groups can be created, if the experiment needs them.
fn check_groups(experiment: &Experiment) -> Result<(), Refusal> {
    let first = experiment.groups[0].weight;
    let matter = |group: &hoistway_experiment::Group| group.weight != first || group.limits != Limits::NONE;
    let need_groups = experiment.groups.len() > 1 || experiment.groups.iter().any(matter);
    if !rustix::process::geteuid().is_root() {
        let message = "changing a device's scheduler and making cgroups needs root";
        return Err(Refusal::usage(message, format!("sudo hoistway ..., or one group and --sched {CURRENT}"))).or_else(
            |refusal| if need_groups || experiment.scheduler.name != CURRENT { Err(refusal) } else { Ok(()) },
        );
    }
    if need_groups && Hierarchy::find().is_none() {
        let message = "no cgroup hierarchy has the I/O controller";
        let help = "mount -t cgroup2 none /sys/fs/cgroup, or mount -t cgroup -o blkio none /sys/fs/cgroup/blkio";
        return Err(Refusal::usage(message, help));
    }
    Ok(())
}

/// Checks that the weights fit into the range of the mechanism that divides by them.
fn check_weights(experiment: &Experiment, queue: &BlockQueue) -> Result<(), Refusal> {
    let name = tunables::canonical(&experiment.scheduler.name);
    let active = queue.schedulers().map_or_else(String::new, |schedulers| schedulers.active);
    let name = if name == CURRENT { active.as_str() } else { name };
    if !tunables::has_shares(name) {
        return Ok(());
    }
    let asked: Vec<u32> = experiment.groups.iter().map(|group| group.weight.get()).collect();
    let scaled = Scaled::into_range(&asked, BFQ_WEIGHT_MAX);
    match scaled.warning(&asked, BFQ_WEIGHT_MAX) {
        Some(what) => Err(Refusal::usage(what, "choose weights of smaller ratios, or leave --strict out")),
        None => Ok(()),
    }
}

/// The order for each worker. `cgroups` are the groups' directories; empty without cgroups.
fn orders(
    experiment: &Experiment,
    target: &Target,
    cgroups: &[Option<std::path::PathBuf>],
) -> Result<Vec<Order>, Refusal> {
    let areas = Areas::lay_out(experiment, target.size_bytes)?;
    let order = |(issuer, place): (usize, IssuerPlace<'_>)| {
        let area = areas.of(place.job, place.thread);
        hoistway_workload::Issuer::new(place.job, place.thread, area.bytes, experiment.run_seed())
            .map_err(|error| Refusal::usage(error.to_string(), "use a larger target, or give a larger --size"))?;
        Ok(Order {
            experiment: experiment.clone(),
            issuer,
            path: target.path.clone(),
            first_byte: target.first_byte + area.first_byte,
            area_bytes: area.bytes,
            cgroup: cgroups.get(place.group).cloned().flatten(),
            recording: None,
        })
    };
    experiment.issuers().enumerate().map(order).collect()
}

fn measure(
    experiment: &Experiment,
    target: &Target,
    setup: &RunSetup,
    programs: Programs,
    progress: &mut dyn Progress,
) -> Result<Measurement, RunError> {
    let mut orders = orders(experiment, target, &setup.cgroups)?;
    // Kept until the workers have read them.
    let _recordings = Recordings::store(&mut orders)?;
    let workers = Workers::start(&orders, &programs.worker, &|| progress.cancelled())?;
    progress.started(experiment);
    let mut run = Run::new(experiment, &setup.queue, workers);
    run.until_over(progress)?;
    let groups = run.figures(setup.effective_weights.as_deref())?;
    let mut measurement = answer(experiment, setup, &run, groups, target.facts());
    if !target.is_block_device() {
        note(
            &mut measurement,
            vec![format!("the file is on {}, and the scheduler is that device's", setup.queue.name())],
        );
        measurement.target.size_bytes = target.size_bytes;
    }
    Ok(measurement)
}

fn answer(
    experiment: &Experiment,
    setup: &RunSetup,
    run: &Run<'_>,
    groups: Vec<GroupMeasurement>,
    facts: Option<hoistway_linux::device::Facts>,
) -> Measurement {
    let window_ns = run.window.length_ns();
    let (begin, end) = (run.at_begin.unwrap_or_default(), run.at_end.unwrap_or_default());
    let device = counters(&end.stat).since(&counters(&begin.stat));
    let mut flags = Flag::of_run(experiment, window_ns, &groups, &setup.scheduler);
    if experiment.issuers().all(|place| place.job.submission.direct) && has_foreign_traffic(&groups, &device) {
        flags.push(Flag::Disturbed);
    }
    let waited_us = end.pressure_us.saturating_sub(begin.pressure_us);
    if waited_us * 1_000 * 100 > window_ns * PRESSURE_PERCENT {
        flags.push(Flag::CpuShort);
    }
    let mut measurement = Measurement {
        experiment: experiment.clone(),
        host: "native".to_owned(),
        scheduler: setup.scheduler.clone(),
        target: target_facts(experiment, setup, facts.as_ref()),
        window_ns,
        groups,
        device,
        dispatch_reasons: BTreeMap::new(),
        dispatches: None,
        blkio: BTreeMap::new(),
        solo_rates: Vec::new(),
        processors: None,
        flags,
    };
    note(&mut measurement, setup.notes.clone());
    note(&mut measurement, mechanism_notes(experiment, setup));
    measurement
}

/// Adds notes for the user to the measurement: `note 1`, `note 2` and so on.
fn note(measurement: &mut Measurement, notes: Vec<String>) {
    for text in notes {
        let number = measurement.target.notes.keys().filter(|key| key.starts_with("note ")).count() + 1;
        measurement.target.notes.insert(format!("note {number}"), text);
    }
}

/// The mechanism that applies the weights, and warnings. Source:
/// docs/specifications/harness.md, section 3.5.
fn mechanism_notes(experiment: &Experiment, setup: &RunSetup) -> Vec<String> {
    let mut notes = Vec::new();
    let has_weights = experiment.groups.iter().any(|group| group.weight != experiment.groups[0].weight);
    if has_weights && setup.scheduler.has_shares {
        notes.push(format!("weights act by {}", setup.mechanism));
    } else if has_weights {
        notes.push(setup.mechanism.clone());
    }
    let writes_buffered =
        experiment.issuers().any(|place| !place.job.submission.direct && place.job.shape.mix.has_writes());
    let is_old = Hierarchy::find().is_some_and(|hierarchy| hierarchy.version == Version::V1);
    if writes_buffered && is_old && experiment.groups.len() > 1 {
        notes.push(
            "buffered writes are done by the root group (cgroup v1): weights and limits have no effect on them".into(),
        );
    }
    notes
}

fn target_facts(
    experiment: &Experiment,
    setup: &RunSetup,
    facts: Option<&hoistway_linux::device::Facts>,
) -> TargetFacts {
    let (hw_queues, queue_depth) = setup.queue.depth();
    let mut notes = BTreeMap::from([
        ("shares".to_owned(), setup.mechanism.clone()),
        ("alignment_bytes".to_owned(), facts.and_then(|it| it.direct_alignment_bytes).unwrap_or(0).to_string()),
    ]);
    if let Ok(release) = std::fs::read_to_string("/proc/sys/kernel/osrelease") {
        notes.insert("kernel".to_owned(), release.trim().to_owned());
    }
    TargetFacts {
        path: experiment.target.clone(),
        model: setup.queue.model(),
        size_bytes: facts.map_or(0, |facts| facts.size_bytes),
        rotational: facts.is_some_and(|facts| facts.is_rotational),
        hw_queues,
        queue_depth,
        notes,
    }
}

/// Converts the kernel's counters; its times are in milliseconds.
fn counters(stat: &Stat) -> DeviceCounters {
    const MS: Nanos = 1_000_000;
    let of = |at: usize| DirectionCounters {
        ios: stat.fields[at],
        merges: stat.fields[at + 1],
        sectors: stat.fields[at + 2],
        time_ns: stat.fields[at + 3] * MS,
    };
    DeviceCounters {
        read: of(0),
        write: of(4),
        discard: of(11),
        busy_ns: stat.fields[9] * MS,
        weighted_ns: stat.fields[10] * MS,
        flushes: stat.fields[15],
        flush_ns: stat.fields[16] * MS,
    }
}

/// Whether the device moved clearly more data than we requested.
fn has_foreign_traffic(groups: &[GroupMeasurement], device: &DeviceCounters) -> bool {
    let ours: u64 = groups.iter().map(|group| group.read.bytes + group.write.bytes).sum();
    let moved = (device.read.sectors + device.write.sectors) * hoistway_block::SECTOR_BYTES;
    // Requests that straddle the window's borders are in only one of the sums.
    let slack: u64 = 8 << 20;
    moved > ours + ours / 100 * FOREIGN_PERCENT + slack
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_keep_the_kernels_order() {
        let stat = Stat { fields: std::array::from_fn(|at| at as u64 + 1) };
        let counted = counters(&stat);
        assert_eq!((counted.read.ios, counted.read.sectors, counted.write.ios, counted.write.sectors), (1, 3, 5, 7));
        assert_eq!((counted.discard.ios, counted.flushes, counted.busy_ns), (12, 16, 10_000_000));
    }

    #[test]
    fn foreign_traffic_is_detected_beyond_the_slack() {
        let device = |sectors| DeviceCounters {
            read: DirectionCounters { sectors, ..DirectionCounters::default() },
            ..DeviceCounters::default()
        };
        assert!(!has_foreign_traffic(&[], &device(2_048)));
        assert!(has_foreign_traffic(&[], &device(200_000)));
    }
}
