//! The engine as a host: runs an experiment's jobs against a real file or device, under one of our
//! schedulers.
//!
//! The target is a backing's text (see [`crate::Backing`]): a file, a block device,
//! `model:ssd,FILE`, `memory:1GiB`. The host creates no files: a caller that needs a temporary one
//! creates it first.

mod dispatch_recording;
mod load;
mod tracing;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use hoistway_block::{Nanos, Operation};
use hoistway_elevator::registry;
use hoistway_experiment::measurement::{
    self, DeviceCounters, DirectionCounters, Flag, SchedulerInForce, TunableInForce,
};
use hoistway_experiment::{
    Areas, Experiment, Host, LiveFigures, LiveGroup, Measurement, Progress, Refusal, RunError, TargetFacts,
};
use hoistway_workload::trace::Names;
use hoistway_workload::{Flows, Issuer};

use crate::backing::{Backing, OpenVolume, VolumeSettings};
use crate::error::{EngineError, ErrorKind};
use crate::settings::ShardSettings;
use crate::shard::{LocalClientId, ShardStatus, Traced};
use crate::turn::{ConnectionBounds, TurnSettings, check_limiter, check_scheduler};
use crate::volume::{GroupHandle, LocalConnection, ShardHandle, VolumeId, start};
use dispatch_recording::DispatchRecording;
use load::{Load, Over, Report, Thread};

/// How often the waiting thread checks whether the user wants to stop.
const CANCEL_CHECK_INTERVAL: Duration = Duration::from_millis(200);
const MIB: u64 = 1 << 20;

/// Groups by path.
type GroupsByPath = BTreeMap<String, GroupHandle>;

/// The host that does real I/O.
#[derive(Copy, Clone, Debug, Default)]
pub struct EngineHost;

impl Host for EngineHost {
    fn name(&self) -> &'static str {
        "engine"
    }

    fn check(&self, experiment: &Experiment) -> Result<(), Refusal> {
        experiment.check()?;
        experiment.check_weights_stay()?;
        if !experiment.machine.is_default() {
            let message = format!("the machine '{}' exists only in the simulator", experiment.machine.text());
            return Err(Refusal::usage(message, "leave --machine out, or use --host simulator"));
        }
        if let Some(place) =
            experiment.issuers().find(|place| place.job.source.program.is_some_and(|it| it.needs_file_system()))
        {
            let message =
                format!("job '{}' creates, renames and removes files; the engine has no file system", place.job.name);
            return Err(Refusal::usage(message, "use --host simulator, or a workload that only transfers data"));
        }
        let settings = shard_settings(experiment);
        settings.check()?;
        let version = crate::shard::parse_version(&settings.scheduler)?;
        check_scheduler(&settings.scheduler, version, &TurnSettings::probe())
            .map_err(|message| Refusal::usage(message, "see `hoistway list schedulers`"))?;
        for limiter in &experiment.limiters {
            check_limiter(limiter, &TurnSettings::probe())
                .map_err(|message| Refusal::usage(message, "see `hoistway list limiters`"))?;
        }
        // Describing the target is always allowed: it is opened read-only and without a lock, and
        // closed at once.
        let volume = OpenVolume::open(&volume_settings(experiment, true)?)?;
        check_depth(experiment, &volume)?;
        threads(experiment, volume.facts.size_bytes).map(drop)
    }

    fn run(&mut self, experiment: &Experiment, progress: &mut dyn Progress) -> Result<Measurement, RunError> {
        let volume = volume_settings(experiment, !writes(experiment))?;
        let shard = start(shard_settings(experiment), &[volume]).map_err(run_error)?;
        let measured = measure(&shard, experiment, progress);
        let stopped = shard.stop();
        let measurement = measured?;
        stopped.map_err(run_error)?;
        Ok(measurement)
    }
}

fn measure(shard: &ShardHandle, experiment: &Experiment, progress: &mut dyn Progress) -> Result<Measurement, RunError> {
    let volume = shard.volumes()[0];
    let facts = shard.facts(volume).map_err(run_error)?;
    let threads = threads(experiment, facts.size_bytes)?;
    let (groups, groups_by_path) = add_groups(shard, experiment).map_err(run_error)?;
    for limiter in &experiment.limiters {
        shard.add_limiter(limiter).map_err(run_error)?;
    }
    let limited =
        experiment.groups.iter().zip(&groups).filter(|(group, _)| group.limits != hoistway_experiment::Limits::NONE);
    for (group, handle) in limited {
        shard.set_limits(*handle, &group.limits).map_err(run_error)?;
    }
    // Read before the run, because at its end the limiters may have been removed.
    let limiters = shard.status().map_err(run_error)?.scheduling.limiters;
    let connections = connections(experiment, volume, &groups, &threads);
    let (reports, inbox) = mpsc::channel();
    let is_cancelled = Arc::new(AtomicBool::new(false));
    let begin_ns = hoistway_linux::thread::monotonic_ns();
    let window_begin_ns = begin_ns.saturating_add(experiment.ramp_ns);
    let dispatch_recording =
        DispatchRecording::new(progress.wanted_dispatches(), window_begin_ns, progress.tracer().is_some());
    if progress.tracer().is_some() {
        let sender = reports.clone();
        // If the receiver is gone, the run is over.
        let sink = move |traced| drop(sender.send(Report::Traced(traced)));
        shard.set_trace_sink(Some(Box::new(sink))).map_err(run_error)?;
    }
    let load = Load::new(Arc::new(experiment.clone()), threads, reports, Arc::clone(&is_cancelled));
    progress.started(experiment);
    let began = Instant::now();
    let client = shard.add_local_client(Box::new(load), connections).map_err(run_error)?;
    let names = tracing::names(shard, experiment, client, &groups_by_path).map_err(run_error)?;
    if let Some(tracer) = progress.tracer() {
        names.introduce(begin_ns, tracer);
    }
    let mut watch = RunWatch { shard, experiment, inbox, names, began, client, is_cancelled, dispatch_recording };
    let over = watch.until_over(progress)?;
    let mut status = shard.status().map_err(run_error)?;
    if status.violations > 0 {
        let message =
            format!("{} impossible situations in engine, queue or scheduler; please report this", status.violations);
        return Err(RunError::Failed { message, source: None });
    }
    let reasons: Vec<&str> = status.scheduling.reasons.iter().map(|(name, _)| *name).collect();
    let dispatches =
        watch.dispatch_recording.take().and_then(|dispatch_recording| dispatch_recording.dispatches(&reasons, &groups));
    status.scheduling.limiters = limiters;
    Ok(Measurement { dispatches, ..answer(experiment, *over, &status) })
}

/// The thread that waits for a load on the shard's thread.
struct RunWatch<'a> {
    shard: &'a ShardHandle,
    experiment: &'a Experiment,
    inbox: Receiver<Report>,
    names: Names,
    began: Instant,
    client: LocalClientId,
    is_cancelled: Arc<AtomicBool>,
    dispatch_recording: Option<DispatchRecording>,
}

impl RunWatch<'_> {
    fn until_over(&mut self, progress: &mut dyn Progress) -> Result<Box<Over>, RunError> {
        let over = loop {
            match self.inbox.recv_timeout(CANCEL_CHECK_INTERVAL) {
                Ok(Report::Live { elapsed_ns, groups }) => self.show(elapsed_ns, &groups, progress),
                Ok(Report::Traced(traced)) => self.pass_on(&traced, progress),
                Ok(Report::Over(over)) => break over,
                Err(RecvTimeoutError::Timeout) => {}
                Ok(Report::Abandoned) | Err(RecvTimeoutError::Disconnected) => {
                    let message = format!("the engine stopped in the middle of the run on {}", self.experiment.target);
                    return Err(RunError::Failed { message, source: None });
                }
            }
            if let Some(dispatch_recording) = &mut self.dispatch_recording {
                dispatch_recording.poll(self.shard).map_err(run_error)?;
            }
            if progress.cancelled() && !self.is_cancelled.swap(true, Ordering::Relaxed) {
                self.shard.wake(self.client);
            }
        };
        if self.is_cancelled.load(Ordering::Relaxed) {
            return Err(RunError::Cancelled);
        }
        if let Some(dispatch_recording) = &mut self.dispatch_recording {
            dispatch_recording.end(self.shard).map_err(run_error)?;
        }
        if progress.tracer().is_some() {
            // When the shard has answered, it has sent all events, and they are in the channel's
            // receiver.
            self.shard.set_trace_sink(None).map_err(run_error)?;
            let rest: Vec<Report> = self.inbox.try_iter().collect();
            for report in rest {
                if let Report::Traced(traced) = report {
                    self.pass_on(&traced, progress);
                }
            }
        }
        Ok(over)
    }

    fn show(&self, elapsed_ns: Nanos, groups: &[LiveGroup], progress: &mut dyn Progress) {
        let wall_ns = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let total_ns = self.experiment.length_ns();
        let elapsed_ns = elapsed_ns.min(total_ns);
        progress.advanced(&LiveFigures { elapsed_ns, total_ns, wall_ns, groups });
    }

    fn pass_on(&mut self, traced: &[Traced], progress: &mut dyn Progress) {
        if let Some(dispatch_recording) = &mut self.dispatch_recording {
            dispatch_recording.record(traced);
        }
        if let Some(tracer) = progress.tracer() {
            tracing::pass_on(traced, &self.names, tracer);
        }
    }
}

fn shard_settings(experiment: &Experiment) -> ShardSettings {
    // A group may hold a quarter of the memory, so the memory must be sufficient for everything
    // that its jobs can have in flight.
    let in_flight = experiment
        .issuers()
        .map(|place| u64::from(place.job.effective_depth()) * (place.largest_io_bytes() + 4_096).next_power_of_two());
    let memory_bytes = (4 * in_flight.sum::<u64>() + 32 * MIB).next_multiple_of(MIB).clamp(128 * MIB, 2_048 * MIB);
    let issuers = u32::try_from(experiment.issuers().count()).unwrap_or(u32::MAX);
    // All jobs share one thread, which may run wherever one of them may; if one may run anywhere,
    // so may the thread.
    let mut cpus: Vec<usize> = experiment.issuers().flat_map(|place| place.job.cpus_of(place.thread)).collect();
    if experiment.issuers().any(|place| place.job.affinity.cpus.is_empty()) {
        cpus.clear();
    }
    ShardSettings {
        name: "engine".to_owned(),
        scheduler: experiment.scheduler.clone(),
        memory_bytes,
        queue_depth: experiment.device_depth.unwrap_or(0),
        queue_requests: experiment.queue_requests.unwrap_or(0),
        max_connections: issuers.saturating_add(1),
        max_groups: u32::try_from(experiment.groups.len() * 4 + 2).unwrap_or(u32::MAX),
        seed: experiment.run_seed(),
        cpus,
        is_urgent: experiment.issuers().any(|place| place.job.keeps_recorded_times()),
        ..ShardSettings::default()
    }
}

fn volume_settings(experiment: &Experiment, is_read_only: bool) -> Result<VolumeSettings, Refusal> {
    let backing = Backing::parse(&experiment.target)?;
    Ok(VolumeSettings { is_read_only, ..VolumeSettings::new(experiment.target.clone(), backing) })
}

fn check_depth(experiment: &Experiment, volume: &OpenVolume) -> Result<(), Refusal> {
    let (Some(depth), Some(model)) = (experiment.device_depth, &volume.model) else { return Ok(()) };
    let most = model.info().total_depth();
    if depth as usize <= most {
        return Ok(());
    }
    let message = format!("a device depth of {depth}: model {} holds 1 to {most} commands", model.name());
    Err(Refusal::usage(message, "ask for less, or give the model a larger queue_depth"))
}

fn writes(experiment: &Experiment) -> bool {
    experiment.issuers().any(|place| place.job.shape.mix.has_writes())
}

fn threads(experiment: &Experiment, size_bytes: u64) -> Result<Vec<Thread>, Refusal> {
    let areas = Areas::lay_out(experiment, size_bytes)?;
    let mut flows = Flows::default();
    let thread = |place: hoistway_experiment::IssuerPlace<'_>| {
        let area = areas.of(place.job, place.thread);
        let mut issuer = Issuer::new(place.job, place.thread, area.bytes, experiment.run_seed())
            .map_err(|error| Refusal::usage(error.to_string(), "use a larger target, or give a larger --size"))?;
        issuer.join(&mut flows);
        Ok(Thread::new(issuer, place.job, area.first_byte, experiment.run_seed()))
    };
    experiment.issuers().map(thread).collect()
}

/// One connection per thread, in order.
fn connections(
    experiment: &Experiment,
    volume: VolumeId,
    groups: &[GroupHandle],
    threads: &[Thread],
) -> Vec<LocalConnection> {
    let places = experiment.issuers().zip(threads);
    places
        .map(|(place, thread)| {
            let priority = experiment.priority_of(&place);
            let bounds = ConnectionBounds {
                requests: thread.issuer.depth() + 1,
                bytes: u64::MAX / 2,
                ..ConnectionBounds::default()
            };
            LocalConnection { volume, group: groups[place.group], bounds, priority }
        })
        .collect()
}

/// Creates the groups, parents first; a path component without a group of its own gets the default
/// weight. Returns the handles of the experiment's groups, and all created groups.
fn add_groups(shard: &ShardHandle, experiment: &Experiment) -> Result<(Vec<GroupHandle>, GroupsByPath), EngineError> {
    let mut groups_by_path = GroupsByPath::new();
    let mut handles = Vec::new();
    for group in &experiment.groups {
        if group.is_in_root {
            handles.push(GroupHandle::ROOT);
            continue;
        }
        let mut above = GroupHandle::ROOT;
        for end in group.path.match_indices('/').map(|(at, _)| at).chain([group.path.len()]) {
            let path = &group.path[..end];
            above = match groups_by_path.get(path) {
                Some(&known) => known,
                None => {
                    let own = experiment.groups.iter().find(|other| other.path == path);
                    let weight = own.map_or(hoistway_experiment::Weight::DEFAULT, |group| group.weight).get();
                    let new = shard.add_group_below(above, path, weight)?;
                    if let Some(priority) = own.and_then(|group| group.group_priority) {
                        shard.set_group_priority(new, Some(priority))?;
                    }
                    if let Some(weight) = own.and_then(|group| group.leaf_weight) {
                        shard.set_leaf_weight(new, Some(weight.get()))?;
                    }
                    groups_by_path.insert(path.to_owned(), new);
                    new
                }
            };
        }
        handles.push(above);
    }
    Ok((handles, groups_by_path))
}

fn answer(experiment: &Experiment, over: Over, status: &ShardStatus) -> Measurement {
    let Over { recorder, begin, end } = over;
    let window = recorder.window();
    let groups = recorder.finish(experiment, None);
    let entry = registry::find(status.scheduling.scheduler);
    let tunables = status.scheduling.tunables.iter().map(|tunable| {
        let was_set = experiment.scheduler.setting(tunable.name).is_some();
        TunableInForce::read_back(tunable.name, tunable.unit, tunable.value, tunable.default, was_set)
    });
    let scheduler = SchedulerInForce {
        name: status.scheduling.scheduler.to_owned(),
        version: experiment.scheduler.version.clone(),
        has_shares: entry.is_some_and(|entry| entry.traits.has_shares),
        tunables: tunables.collect(),
    };
    let flags = Flag::of_run(experiment, window.length_ns(), &groups, &scheduler);
    Measurement {
        experiment: experiment.clone(),
        host: "engine".to_owned(),
        scheduler,
        target: target_facts(experiment, status),
        window_ns: window.length_ns(),
        groups,
        device: device_counters(&end.counters).since(&device_counters(&begin.counters)),
        dispatch_reasons: measurement::reasons_since(&begin.reasons, &end.reasons),
        dispatches: None,
        blkio: status.groups.iter().filter_map(|group| Some((format!("/{}", group.path), group.blkio?))).collect(),
        solo_rates: Vec::new(),
        processors: None,
        flags,
    }
}

fn target_facts(experiment: &Experiment, status: &ShardStatus) -> TargetFacts {
    let mut notes = BTreeMap::new();
    let mut facts = TargetFacts {
        path: experiment.target.clone(),
        model: String::new(),
        size_bytes: 0,
        rotational: false,
        hw_queues: 1,
        queue_depth: status.device_depth,
        notes: BTreeMap::new(),
    };
    if let Some(volume) = status.volumes.first() {
        facts.model.clone_from(&volume.facts.description);
        facts.size_bytes = volume.facts.size_bytes;
        facts.rotational = volume.facts.is_rotational;
        let cache = if volume.facts.uses_page_cache { "page cache" } else { "bypassed" };
        notes.insert("cache".to_owned(), cache.to_owned());
        notes.insert("alignment_bytes".to_owned(), volume.facts.block_bytes.to_string());
    }
    if !status.scheduling.limiters.is_empty() {
        notes.insert("limiters".to_owned(), status.scheduling.limiters.join("; "));
    }
    facts.notes = notes;
    facts
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

impl From<EngineError> for Refusal {
    fn from(error: EngineError) -> Self {
        match error.kind {
            ErrorKind::Unsafe => Refusal::unsafe_target(error.message, error.help),
            ErrorKind::Usage | ErrorKind::System => Refusal::usage(error.message, error.help),
        }
    }
}

fn run_error(error: EngineError) -> RunError {
    match error.kind {
        ErrorKind::System => RunError::Failed { message: error.message, source: None },
        ErrorKind::Usage | ErrorKind::Unsafe => RunError::Refused(error.into()),
    }
}
