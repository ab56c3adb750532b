//! The simulator as a host: runs an experiment and returns its measurement.

use std::collections::BTreeMap;

use hoistway_block::{GroupId, Nanos, Operation};
use hoistway_device::{AnyDevice, Device, DeviceInfo, Model};
use hoistway_elevator::limiters::LIMITERS;
use hoistway_elevator::registry::OwnedVisitor;
use hoistway_elevator::{Actuators, Any, Configuration, Depth, Elevator, GroupSettings};
use hoistway_experiment::blkio::Statistics;
use hoistway_experiment::measurement::{self, DeviceCounters, DirectionCounters, Flag};
use hoistway_experiment::{
    Experiment, FileSystem, Host, IssuerPlace, KernelEra, LiveFigures, LiveGroup, Machine, Measurement, Progress,
    Recorder, Refusal, Reweigh, RunError, Schedule, TargetFacts, Window,
};
use hoistway_queue::{Allocation, Era, Limits, Merging, RequestQueue, Settings};
use hoistway_workload::trace::Names;
use hoistway_workload::{Engine, Flows, Issuer};

use crate::costs::HostCosts;
use crate::groups::GroupPlan;
use crate::limiting;
use crate::os::files::Files;
use crate::os::read_ahead::ReadAhead;
use crate::processes::{Parts, Path, Process, Processes, queues_of, template};
use crate::processors::{LimiterCost, Processors, Times};
use crate::run::{Run, Snapshot, Stuck};
use crate::scheduler::Scheduler;
use crate::tracing::TraceSinks;

/// The table of bios is sized as if a call were split into bios of the longest request, but of at
/// most this many sectors.
const BIO_SECTORS: u32 = 2_048;
/// Room for the bios of read-ahead and write-back (one page each in 2.4).
const CACHED_BIOS: u64 = 8_192;
/// Events between two progress reports: well under half a second of wall time for every model.
const STEPS_PER_REPORT: u32 = 1 << 16;

/// The deterministic host: equal experiments give equal measurements.
#[derive(Clone, Debug, Default)]
pub struct Simulator {
    /// Replaces the machine's costs.
    costs: Option<HostCosts>,
    logs: bool,
    clock: Option<fn() -> Nanos>,
    /// The last device that began with random overwrites, as it was built. Building takes seconds, so the next run with the same
    /// model and seed gets a copy.
    overwritten: Option<Overwritten>,
}

#[derive(Clone, Debug)]
struct Overwritten {
    model: Model,
    run_seed: u64,
    device: AnyDevice,
}

impl Simulator {
    /// A simulator with these host costs, whatever the experiment's machine specifies: for
    /// measuring the simulator.
    pub fn with_costs(costs: HostCosts) -> Self {
        Self { costs: Some(costs), ..Self::default() }
    }

    /// Also computes a checksum over time, number and status of every completion, which the
    /// measurement contains as `completion_log` among the notes of its target.
    #[must_use]
    pub fn logging(self) -> Self {
        Self { logs: true, ..self }
    }

    /// Builds the device of a run. The schedulers of a repetition have the same model and seed.
    fn device(&mut self, model: &Model, run_seed: u64) -> AnyDevice {
        if !model.is_overwritten() {
            return model.build(run_seed, "dev0");
        }
        let kept = self.overwritten.take().filter(|kept| kept.model == *model && kept.run_seed == run_seed);
        let build = || Overwritten { model: model.clone(), run_seed, device: model.build(run_seed, "dev0") };
        self.overwritten.insert(kept.unwrap_or_else(build)).device.clone()
    }

    fn costs_of(&self, machine: &Machine) -> HostCosts {
        self.costs.unwrap_or_else(|| HostCosts::of(machine))
    }

    /// Sets the wall clock, in nanoseconds, for progress reports; nothing else reads it.
    #[must_use]
    pub fn with_wall_clock(self, clock: fn() -> Nanos) -> Self {
        Self { clock: Some(clock), ..self }
    }
}

impl Host for Simulator {
    fn name(&self) -> &'static str {
        "simulator"
    }

    fn check(&self, experiment: &Experiment) -> Result<(), Refusal> {
        let device = model(experiment)?.as_new().build(experiment.run_seed(), "dev0");
        let (policy, prepared) = prepare(experiment, self, device)?;
        prepared.with_policy(policy, experiment).map(|_| ())
    }

    fn run(&mut self, experiment: &Experiment, progress: &mut dyn Progress) -> Result<Measurement, RunError> {
        let device = self.device(&model(experiment)?, experiment.run_seed());
        let (policy, prepared) = prepare(experiment, self, device)?;
        policy.into_visitor(Start { prepared, experiment, clock: self.clock, progress })
    }
}

/// Everything that a run needs except its policy. The run is carried out when the registry calls it
/// with the policy as its own type.
struct Start<'a> {
    prepared: PreparedRun,
    experiment: &'a Experiment,
    clock: Option<fn() -> Nanos>,
    progress: &'a mut dyn Progress,
}

impl OwnedVisitor for Start<'_> {
    type Answer = Result<Measurement, RunError>;

    fn visit_owned<E: Elevator>(self, policy: E) -> Self::Answer {
        self.prepared.with_policy(policy, self.experiment)?.carry_out(self.experiment, self.clock, self.progress)
    }
}

/// A prepared run without its policy.
pub(crate) struct PreparedRun {
    pub settings: Settings,
    groups: GroupPlan,
    device: AnyDevice,
    pub processes: Processes,
    names: Names,
    scheduler: Scheduler,
    info: DeviceInfo,
}

/// Checks the experiment, and reads the model of its device.
pub(crate) fn model(experiment: &Experiment) -> Result<Model, Refusal> {
    experiment.check()?;
    Model::parse(&experiment.target)
        .map_err(|error| Refusal::usage(error.to_string(), "all models and parameters: hoistway list devices"))
}

/// The settings of an experiment's policy, and everything else that its run needs, on this device.
pub(crate) fn prepare(
    experiment: &Experiment,
    simulator: &Simulator,
    device: AnyDevice,
) -> Result<(Any, PreparedRun), Refusal> {
    let scheduler = Scheduler::resolve(&experiment.scheduler)?;
    let info = device.info().clone();
    let groups = GroupPlan::of(experiment);
    let processors = processors(experiment, simulator, &info, &scheduler)?;
    let (processes, mut names) = processes(experiment, (simulator, processors), &info, &groups)?;
    let settings = settings(experiment, &scheduler, &info, (count(groups.capacity()), processes.contexts()))?;
    let policy = scheduler.build(&settings.configuration)?;
    names.resize(processes.contexts() as usize, "jbd".to_owned());
    let names = Names::new(policy.name(), names, groups.names());
    Ok((policy, PreparedRun { settings, groups, device, processes, names, scheduler, info }))
}

impl PreparedRun {
    pub(crate) fn with_policy<E: Elevator>(self, policy: E, experiment: &Experiment) -> Result<Prepared<E>, Refusal> {
        let Self { settings, groups, device, processes, names, scheduler, info } = self;
        // The queue's records of bios are allocated on demand: only bios that wait, share a request
        // or pass a limiter need one.
        let mut queue = RequestQueue::growing(policy, &settings, 0).map_err(|_| {
            Refusal::usage("the request queue does not fit into memory", "ask for a smaller --queue-requests")
        })?;
        for (index, group) in groups.settings.iter().enumerate() {
            let id = GroupId(u32::try_from(index + 1).unwrap_or(u32::MAX));
            debug_assert!(!groups.ids.is_empty());
            queue.add_group(id, group, 0);
        }
        limiting::put_in_place(&mut queue, experiment, &groups.ids)?;
        let run = Run::new(queue, device, processes, experiment.machine.irq_coalesce_ns);
        Ok(Prepared { run, names, groups: groups.ids, throttled: Vec::new(), scheduler, info })
    }
}

/// A run ready to start, and what its measurement will report about it.
#[derive(Debug)]
pub(crate) struct Prepared<E> {
    pub run: Run<E>,
    names: Names,
    /// Id of each group of the experiment.
    pub groups: Vec<GroupId>,
    /// How long limits held each group; empty without limits.
    throttled: Vec<limiting::Throttled>,
    scheduler: Scheduler,
    pub info: DeviceInfo,
}

impl<E: Elevator> Prepared<E> {
    fn carry_out(
        mut self,
        experiment: &Experiment,
        clock: Option<fn() -> Nanos>,
        progress: &mut dyn Progress,
    ) -> Result<Measurement, RunError> {
        progress.started(experiment);
        let mut sinks = TraceSinks::of(&mut self.run.queue, &self.names, progress);
        let (begin, end) = drive(&mut self, experiment, clock, &mut sinks, progress)?;
        let reasons = self.run.queue.elevator().reasons();
        let dispatches = sinks.dispatches(experiment.length_ns().min(self.run.now), reasons, &self.groups);
        Ok(Measurement { dispatches, ..measure(experiment, self, &begin, &end) })
    }
}

/// The construction parameters of the queue.
fn settings(
    experiment: &Experiment,
    scheduler: &Scheduler,
    info: &DeviceInfo,
    (groups, contexts): (u32, u32),
) -> Result<Settings, Refusal> {
    let device = experiment.device_depth.unwrap_or(info.depth);
    if device == 0 || device > info.depth {
        return Err(Refusal::usage(
            format!("a device depth of {device}: {} holds 1 to {} commands", info.name, info.depth),
            format!("a deeper device: model:{},queue_depth={device}", info.name),
        ));
    }
    let queues = u32::from(info.hardware_queues);
    let era = era_of(experiment.machine.era);
    // blk-mq without a scheduler: the device's own tags are the only limit; all per hardware queue.
    let has_own_tags = era.allocation == Allocation::Tags && scheduler.is_none();
    let usual = if has_own_tags { device } else { era.usual_requests(device) };
    let requests = experiment.queue_requests.unwrap_or(usual);
    if !(1..=10_240).contains(&requests) {
        let message = format!("{requests} requests in the queue: allowed are 1 to 10240");
        return Err(Refusal::usage(message, "leave --queue-requests out for the kernel's default"));
    }
    let issuers: Vec<_> = experiment.issuers().collect();
    let max_sectors = request_sectors(experiment, info);
    let bio_bytes = u64::from(max_sectors.min(BIO_SECTORS).min(scheduler.traits().quantum_sectors)) * 512;
    // A call may begin and end within a sector.
    let bios_per_call = |place: &IssuerPlace<'_>| (place.largest_io_bytes() + 1_022).div_ceil(bio_bytes);
    let bios: u64 =
        issuers.iter().map(|place| u64::from(place.job.effective_depth()) * bios_per_call(place) + 16).sum();
    // Read-ahead, write-back and the journal submit bios besides those of the calls.
    let cached_bios = if issuers.iter().all(|place| place.job.submission.direct) { 0 } else { CACHED_BIOS };
    let bios = u32::try_from((bios + cached_bios).clamp(256, 1 << 20)).unwrap_or(256);
    let tick_ns = hoistway_block::time::SECOND.checked_div(experiment.machine.hz).unwrap_or(0);
    let configuration = Configuration {
        slots: era.slots(requests * queues, info.hardware_queues),
        groups,
        contexts,
        depth: Depth { requests: requests * queues, device },
        hardware_queues: info.hardware_queues,
        software_queues: cpus(experiment),
        rotational: info.rotational,
        queueing: info.depth > 1,
        max_sectors,
        capacity_sectors: info.capacity_sectors,
        actuators: Actuators::of(&info.ranges),
        tick_ns,
        work_tick_ns: tick_ns,
        batch_times: false,
        seed: experiment.run_seed(),
    };
    let limits = Limits {
        max_sectors,
        max_segments: info.max_segments,
        volatile_cache: info.volatile_cache,
        fua: info.fua,
        ..Limits::default()
    };
    Ok(Settings { configuration, limits, era, merging: Merging::Full, bios })
}

/// Longest request in sectors: the machine's, but at most the device's.
fn request_sectors(experiment: &Experiment, info: &DeviceInfo) -> u32 {
    let machine_sectors = experiment.machine.max_request_kib_in_force() * 1_024 / hoistway_block::SECTOR_BYTES;
    u32::try_from(machine_sectors).unwrap_or(u32::MAX).min(info.max_sectors)
}

fn era_of(era: KernelEra) -> Era {
    match era {
        KernelEra::Linux24 => Era::LINUX_2_4,
        KernelEra::Linux26 => Era::LINUX_2_6,
        KernelEra::Linux3 => Era::LINUX_3,
        KernelEra::Mq => Era::BLK_MQ,
    }
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn cpus(experiment: &Experiment) -> u16 {
    u16::try_from(experiment.machine.cpus).unwrap_or(u16::MAX)
}

/// The machine's processors, where they are simulated.
fn processors(
    experiment: &Experiment,
    simulator: &Simulator,
    info: &DeviceInfo,
    scheduler: &Scheduler,
) -> Result<Option<Processors>, Refusal> {
    let machine = &experiment.machine;
    if !machine.contention {
        return Ok(None);
    }
    let refused = |what: &str| Err(Refusal::usage(format!("contention=1 {what}"), "leave it out of --machine"));
    if machine.era != KernelEra::Mq {
        return refused("simulates blk-mq: it needs era=mq");
    }
    if let Some(place) =
        experiment.issuers().find(|place| !place.job.submission.direct && place.job.submission.engine != Engine::Null)
    {
        return refused(&format!("simulates direct I/O only, and job '{}' is buffered", place.job.name));
    }
    if machine.fs == FileSystem::Ext3 || machine.journal {
        return refused("simulates raw devices: it has no block maps and no journal");
    }
    if machine.irq_coalesce_ns > 0 {
        return refused("has an interrupt for each completion: it excludes irq_coalesce_ns");
    }
    let needed = experiment.limiters_needed();
    let limiters = LIMITERS.iter().filter(|entry| needed.iter().any(|spec| spec.name == entry.name));
    let limiters = limiters.map(|entry| LimiterCost::of(entry.name));
    let times = Times::of(machine, &simulator.costs_of(machine), (scheduler.traits(), scheduler.locking()), limiters);
    Ok(Some(Processors::new(cpus(experiment), info.hardware_queues, times)))
}

fn processes(
    experiment: &Experiment,
    (simulator, processors): (&Simulator, Option<Processors>),
    info: &DeviceInfo,
    plan: &GroupPlan,
) -> Result<(Processes, Vec<String>), Refusal> {
    let files = Files::lay_out(experiment, info.capacity_sectors * hoistway_block::SECTOR_BYTES).map_err(|error| {
        Refusal::usage(error.message, "give the jobs a smaller size, or the model a larger capacity_sectors")
    })?;
    let mut processes = Vec::with_capacity(experiment.issuers().count());
    let mut flows = Flows::default();
    let mut names = vec!["flush".to_owned()];
    let mut context = 1;
    for (index, place) in experiment.issuers().enumerate() {
        let file = files.of_issuer(index);
        let bytes = files.all()[file as usize].bytes;
        let mut issuer = Issuer::new(place.job, place.thread, bytes, experiment.run_seed())
            .map_err(|error| Refusal::usage(error.to_string(), "a larger area: model:NAME,capacity_sectors=N"))?;
        issuer.join(&mut flows);
        let path = match place.job.submission.engine {
            Engine::Null => Path::Null,
            _ if place.job.submission.direct => Path::Direct,
            _ => Path::Buffered(ReadAhead::new()),
        };
        let priority = experiment.priority_of(&place);
        let queues = queues_of(index, cpus(experiment), info.hardware_queues);
        let template = template(context, plan.ids[place.group], priority, queues);
        context += u32::from(issuer.actors());
        names.extend(std::iter::repeat_n(place.job.name.clone(), usize::from(issuer.actors())));
        processes.push(Process::new(place.job, issuer, path, template, file));
    }
    let parts = Parts {
        costs: simulator.costs_of(&experiment.machine),
        machine: &experiment.machine,
        recorder: Recorder::new(experiment, Window::of(experiment, 0)),
        schedule: Schedule::of(experiment),
        processes,
        files: &files,
        journal_group: plan.journal,
        request_sectors: request_sectors(experiment, info),
        logs: simulator.logs,
        processors,
    };
    Ok((Processes::new(parts), names))
}

/// Runs through ramp, window and the completion of what is then in flight. Returns the queue's
/// counters at both ends of the window.
fn drive(
    prepared: &mut Prepared<impl Elevator>,
    experiment: &Experiment,
    clock: Option<fn() -> Nanos>,
    sinks: &mut TraceSinks,
    progress: &mut dyn Progress,
) -> Result<(Snapshot, Snapshot), RunError> {
    let (window_begin, run_end) = (experiment.ramp_ns, experiment.length_ns());
    let wall_start_ns = clock.map_or(0, |clock| clock());
    let mut reporter = Reporter { steps: 0, groups: Vec::new(), clock, wall_start_ns, total_ns: run_end };
    let Prepared { run, names, groups, throttled, .. } = prepared;
    run.start();
    let mut changes = changes_of_weights(experiment, groups);
    let later = changes.split_off(changes.partition_point(|(change, _)| change.at_ns < window_begin));
    reweigh(run, names, changes, (&mut reporter, sinks), progress)?;
    advance(run, names, window_begin, (&mut reporter, sinks), progress)?;
    // A run that ends before its ramp does was measured from its start.
    let begin = if run.processes.is_over() { Snapshot::default() } else { run.snapshot() };
    sinks.record(&mut run.queue, progress.wanted_dispatches(), window_begin);
    reweigh(run, names, later, (&mut reporter, sinks), progress)?;
    if run.queue.limiters().next().is_some() {
        // Stops at every second to sample how long limits held each group.
        *throttled = groups.iter().map(|&group| limiting::Throttled::new(group, &run.queue, window_begin)).collect();
        let mut second_end = window_begin;
        while second_end < run_end && !run.processes.is_over() {
            second_end = second_end.saturating_add(hoistway_block::time::SECOND).min(run_end);
            advance(run, names, second_end, (&mut reporter, sinks), progress)?;
            throttled.iter_mut().for_each(|group| group.see(&run.queue, second_end));
        }
    }
    advance(run, names, run_end, (&mut reporter, sinks), progress)?;
    let end = run.snapshot();
    if run.processes.is_over() {
        run.processes.recorder.end_window(run.now);
    } else {
        run.stop(run_end);
        advance(run, names, Nanos::MAX, (&mut reporter, sinks), progress)?;
    }
    check_violations(run)?;
    reporter.report(run, progress);
    Ok((begin, end))
}

/// Fails if queue or scheduler met an impossible state.
pub(crate) fn check_violations(run: &Run<impl Elevator>) -> Result<(), RunError> {
    match run.queue.violations() {
        0 => Ok(()),
        count => Err(failed(format!("{count} violations in queue or scheduler; please report this"))),
    }
}

/// Groups whose weights change during the run, in the order of the changes.
fn changes_of_weights(experiment: &Experiment, ids: &[GroupId]) -> Vec<(Reweigh, GroupId)> {
    let changes = experiment.groups.iter().zip(ids).filter_map(|(group, id)| Some((group.reweigh?, *id)));
    let mut changes: Vec<_> = changes.collect();
    changes.sort_by_key(|(change, _)| change.at_ns);
    changes
}

/// Runs to the last of these changes and applies each at its time. Limiters are not sampled
/// meanwhile: [`Experiment::check`] refuses them in such an experiment.
fn reweigh(
    run: &mut Run<impl Elevator>,
    names: &Names,
    changes: Vec<(Reweigh, GroupId)>,
    (reporter, sinks): (&mut Reporter, &mut TraceSinks),
    progress: &mut dyn Progress,
) -> Result<(), RunError> {
    for (Reweigh { at_ns, weight }, group) in changes {
        advance(run, names, at_ns, (&mut *reporter, &mut *sinks), progress)?;
        let settings = GroupSettings { weight: weight.get(), ..*run.queue.groups().settings(group) };
        run.queue.change_group(group, &settings, at_ns);
    }
    Ok(())
}

fn advance(
    run: &mut Run<impl Elevator>,
    names: &Names,
    end: Nanos,
    (reporter, sinks): (&mut Reporter, &mut TraceSinks),
    progress: &mut dyn Progress,
) -> Result<(), RunError> {
    while !run.processes.is_over() {
        let stepped = run.step(end);
        if sinks.is_active() {
            sinks.drain(&mut run.queue, names, progress);
        }
        match stepped {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(stuck) => return Err(explained(stuck, run)),
        }
        reporter.steps = reporter.steps.wrapping_add(1);
        if reporter.steps.is_multiple_of(STEPS_PER_REPORT) {
            reporter.report(run, progress);
            if progress.cancelled() {
                return Err(RunError::Cancelled);
            }
        }
    }
    Ok(())
}

/// Why a run cannot continue, as its error.
pub(crate) fn explained(stuck: Stuck, run: &Run<impl Elevator>) -> RunError {
    let now = run.now;
    failed(match stuck {
        Stuck::NothingAhead => {
            let bios = run.queue.bios_in_flight();
            let message = format!("stuck at {now} ns with {bios} bios in the queue and no event pending");
            format!("{message}: the scheduler does not dispatch what it holds")
        }
        Stuck::TimeStandsStill => {
            let message = format!("time does not advance at {now} ns: nothing in this run takes any time");
            format!("{message}; give the model a latency or the jobs a rate")
        }
    })
}

pub(crate) fn failed(message: String) -> RunError {
    RunError::Failed { message, source: None }
}

/// Reports how far the run is.
struct Reporter {
    steps: u32,
    groups: Vec<LiveGroup>,
    clock: Option<fn() -> Nanos>,
    wall_start_ns: Nanos,
    total_ns: Nanos,
}

impl Reporter {
    fn report(&mut self, run: &Run<impl Elevator>, progress: &mut dyn Progress) {
        run.processes.recorder.live(&mut self.groups);
        progress.advanced(&LiveFigures {
            elapsed_ns: run.now.min(self.total_ns),
            total_ns: self.total_ns,
            wall_ns: self.clock.map_or(0, |clock| clock().saturating_sub(self.wall_start_ns)),
            groups: &self.groups,
        });
    }
}

pub(crate) fn measure(
    experiment: &Experiment,
    prepared: Prepared<impl Elevator>,
    begin: &Snapshot,
    end: &Snapshot,
) -> Measurement {
    let Prepared { run, scheduler, info, names, throttled, .. } = prepared;
    let scheduler = scheduler.in_force(run.queue.elevator());
    let blkio = blkio(run.queue.elevator(), &names);
    let checksum = run.processes.checksum();
    let limiters = limiting::in_force(&run.queue);
    // The rest of the run is dropped first: with very many groups it takes as much memory as the
    // measurement.
    let recorder = {
        let run = run;
        run.processes.recorder
    };
    let window = recorder.window();
    let mut groups = recorder.finish(experiment, None);
    for (group, throttled) in groups.iter_mut().zip(throttled) {
        group.throttled_ns = throttled.seconds_ns;
    }
    let flags = Flag::of_run(experiment, window.length_ns(), &groups, &scheduler);
    let processors = experiment.machine.contention.then(|| end.processors.since(&begin.processors));
    let mut notes = BTreeMap::new();
    if let Some(checksum) = checksum {
        notes.insert("completion_log".to_owned(), format!("{checksum:016x}"));
    }
    if let Some(limiters) = limiters {
        notes.insert("limiters".to_owned(), limiters);
    }
    let target = TargetFacts {
        path: experiment.target.clone(),
        model: info.name.clone(),
        size_bytes: info.capacity_sectors * hoistway_block::SECTOR_BYTES,
        rotational: info.rotational,
        hw_queues: u32::from(info.hardware_queues),
        queue_depth: info.depth * u32::from(info.hardware_queues),
        notes,
    };
    Measurement {
        experiment: experiment.clone(),
        host: "simulator".to_owned(),
        scheduler,
        target,
        window_ns: window.length_ns(),
        groups,
        device: device_counters(&end.counters).since(&device_counters(&begin.counters)),
        dispatch_reasons: measurement::reasons_since(&begin.reasons, &end.reasons),
        dispatches: None,
        blkio,
        solo_rates: Vec::new(),
        processors,
        flags,
    }
}

/// The policy's account of each group's service, by path.
fn blkio(elevator: &impl Elevator, names: &Names) -> BTreeMap<String, Statistics> {
    let account = |id| Statistics::of(elevator, GroupId(id));
    (0..).zip(names.groups()).filter_map(|(id, path)| Some((path.clone(), account(id)?))).collect()
}

fn device_counters(counted: &hoistway_queue::Counters) -> DeviceCounters {
    let [read, write, discard] = [Operation::Read, Operation::Write, Operation::Discard].map(|operation| {
        let counted = counted.of(operation);
        let (ios, merges, sectors, time_ns) = (counted.ios, counted.merges, counted.sectors, counted.ticks_ns);
        DirectionCounters { ios, merges, sectors, time_ns }
    });
    let (flushes, busy_ns, weighted_ns) = (counted.flushes, counted.io_ticks_ns, counted.weighted_ns);
    DeviceCounters { read, write, discard, flushes, busy_ns, weighted_ns, ..DeviceCounters::default() }
}
