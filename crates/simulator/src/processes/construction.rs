//! Construction of a run's processes.

use std::collections::VecDeque;

use hoistway_block::random::fnv1a64;
use hoistway_block::{Class, ContextId, GroupId, HardwareQueue, Operation, Priority, SoftwareQueue};
use hoistway_elevator::Bio;
use hoistway_experiment::{FileSystem, KernelEra, Machine, Recorder, Schedule};
use hoistway_queue::Plug;
use hoistway_workload::{Issuer, Job};

use super::cached::Call;
use super::flusher::Flusher;
use super::journalling::JournalThread;
use super::recorded_plugs::RecordedPlugs;
use super::submission::{self, Transfers};
use super::{ElevatorLock, IoInFlight, Path, Process, Processes, START, STOP, Successor, number};
use crate::costs::HostCosts;
use crate::events::{EventWheel, NEVER, Payload};
use crate::os::files::{BlockMap, File, Files};
use crate::os::pages::PageCache;
use crate::os::read_ahead;
use crate::os::throttle::Throttle;
use crate::os::write_back::{self, WriteBack};
use crate::processors::Processors;

/// The components from which the processes of a run are built.
pub(crate) struct Parts<'a> {
    pub costs: HostCosts,
    pub machine: &'a Machine,
    pub recorder: Recorder,
    pub schedule: Schedule,
    pub processes: Vec<Process>,
    pub files: &'a Files,
    /// Group of the journal's thread.
    pub journal_group: GroupId,
    /// Longest request, in sectors.
    pub request_sectors: u32,
    /// Whether a checksum over the completions is computed.
    pub logs: bool,
    /// The processors, if they are simulated.
    pub processors: Option<Processors>,
}

impl Process {
    pub(crate) fn new(job: &Job, issuer: Issuer, path: Path, template: Bio, file: u32) -> Self {
        Self {
            refills_at_once: Process::refills_at_once(job),
            sleeps_as_one: false,
            transfers_only: false,
            issuer,
            path,
            template,
            file,
            place: File::default(),
            block_map: None,
            sleeping: 0,
            is_submitting: false,
            first_io: 0,
            ios_room: 0,
            successor: Successor::Nothing,
            cpu: 0,
            wake_at: NEVER,
            is_running: false,
            dirtied_pages: 0,
        }
    }

    /// Whether all its I/Os are plain direct transfers.
    pub(super) fn is_plain(&self) -> bool {
        !matches!(self.path, Path::Buffered(_)) && self.block_map.is_none()
    }
}

impl Processes {
    pub(crate) fn new(parts: Parts<'_>) -> Self {
        let Parts { costs, machine, recorder, schedule, mut processes, files, request_sectors, logs, .. } = parts;
        let has_processors = parts.processors.is_some();
        let ios = place(&mut processes, machine, files);
        let journal = machine.journal.then(|| journal_thread(&processes, machine, files, parts.journal_group));
        let calls = if processes.iter().all(Process::is_plain) { 0 } else { ios.len() };
        for process in &mut processes {
            process.transfers_only = calls == 0 && !has_processors && matches!(process.path, Path::Direct);
        }
        // Room for one wake-up per process and some stale ones, for the groups' starts and stops,
        // and for the timers of write-back and journal. Room for the events of I/Os is allocated on
        // demand: few I/Os are delivered or resumed at a time, and none needs an event if
        // completions cost nothing.
        let events = 4 * processes.len() + 2 * schedule.early_ends().count() + 64;
        let request_bytes = u64::from(request_sectors) * hoistway_block::SECTOR_BYTES;
        let write_back_rules = write_back::Rules::of(machine, request_bytes);
        let mut processes = Self {
            costs,
            is_free: costs == HostCosts::NONE && !has_processors,
            is_never_busy: has_processors || (costs == HostCosts::NONE && machine.sched_ns_per_op == 0 && calls == 0),
            shares_cpus: machine.cpu_limit && !has_processors,
            lock: ElevatorLock { free_at: 0, hold_ns: if has_processors { 0 } else { machine.sched_ns_per_op } },
            processors: parts.processors,
            recorder,
            wheel: wheel(&schedule, events),
            schedule,
            // Used only if completions cost nothing.
            ready: Vec::with_capacity(if costs == HostCosts::NONE { ios.len() } else { 0 }),
            delivered: 0,
            cpu_free_at: vec![0; processes.len().max(cpus(machine))],
            backlog: VecDeque::new(),
            plug: submission::has_task_plugs(machine.era).then(Plug::default),
            recorded_plugs: RecordedPlugs::default(),
            transfers: Transfers::default(),
            calls: vec![Call::default(); calls],
            sleepers: Vec::with_capacity(calls),
            cache: PageCache::new(write_back::dirtyable_pages(machine)),
            runs: Vec::new(),
            read_ahead: read_ahead::Rules::of(machine, request_bytes),
            throttle: Throttle::new(machine, &write_back_rules),
            write_back: WriteBack::new(write_back_rules, files.all().len()),
            flusher: Flusher::new(machine),
            files: files.all().to_vec(),
            written_to: files.all().iter().map(|_| if machine.files_exist { u64::MAX } else { 0 }).collect(),
            journal,
            bio_bytes: submission::longest_bio_bytes(machine, request_bytes),
            processes,
            ios,
            remainders: Vec::new(),
            deadlines: Vec::new(),
            running: 0,
            has_stopped: false,
            device_free_at: 0,
            log: logs.then(|| fnv1a64(b"")),
            completions: 0,
        };
        if machine.warm {
            processes.warm();
        }
        processes
    }

    /// All contexts are below this: the flusher's, then every process's, then the journal's.
    pub(crate) fn contexts(&self) -> u32 {
        contexts_of(&self.processes) + 1
    }
}

/// Assigns every process its file, its CPU and its I/Os.
fn place(processes: &mut [Process], machine: &Machine, files: &Files) -> Vec<IoInFlight> {
    let mut ios = Vec::with_capacity(processes.iter().map(|process| process.issuer.depth() as usize).sum());
    for (index, process) in processes.iter_mut().enumerate() {
        process.first_io = number(ios.len());
        process.cpu = number(if machine.cpu_limit || machine.contention { index % cpus(machine) } else { index });
        process.place = files.all()[process.file as usize];
        process.sleeps_as_one = machine.era != KernelEra::Mq && process.issuer.actors() == 1;
        if machine.fs == FileSystem::Ext3 {
            process.block_map = Some(BlockMap::new(process.place.bytes));
        }
        ios.extend((0..process.issuer.depth()).map(|_| IoInFlight::idle(number(index))));
    }
    ios
}

/// The events that are known at the start.
fn wheel(schedule: &Schedule, events: usize) -> EventWheel {
    let mut wheel = EventWheel::with_capacity(events);
    for start_ns in schedule.later_starts() {
        wheel.insert(start_ns, Payload::new(START, 0));
    }
    for (group, stop_ns) in schedule.early_ends() {
        wheel.insert(stop_ns, Payload::new(STOP, number(group)));
    }
    wheel
}

fn journal_thread(processes: &[Process], machine: &Machine, files: &Files, group: GroupId) -> JournalThread {
    let base = processes.first().map(|process| process.template);
    let base = base.unwrap_or(Bio::new(Operation::Write, hoistway_block::Extent::default()));
    let context = ContextId(contexts_of(processes));
    let level = machine.journal_ioprio.and_then(|level| u8::try_from(level).ok());
    let priority = level.map_or(Priority::NONE, |level| Priority::new(Class::BestEffort, level));
    let template = Bio { context, group, priority, ..base };
    JournalThread::new(files.journal(machine), template, machine.era)
}

fn cpus(machine: &Machine) -> usize {
    usize::try_from(machine.cpus).unwrap_or(usize::MAX)
}

/// The first context after those of the processes.
fn contexts_of(processes: &[Process]) -> u32 {
    let last = processes.last();
    last.map_or(1, |process| process.template.context.0 + u32::from(process.issuer.actors()))
}

/// The software queue of a process, and its hardware queue.
pub(crate) fn queues_of(process: usize, cpus: u16, hardware_queues: u16) -> (SoftwareQueue, HardwareQueue) {
    let cpu = u16::try_from(process % usize::from(cpus)).unwrap_or(0);
    let hardware = u32::from(cpu) * u32::from(hardware_queues) / u32::from(cpus);
    (SoftwareQueue(cpu), HardwareQueue(u16::try_from(hardware).unwrap_or(0)))
}

/// The template of a process's bios.
pub(crate) fn template(
    context: u32,
    group: GroupId,
    priority: Priority,
    queues: (SoftwareQueue, HardwareQueue),
) -> Bio {
    Bio {
        context: ContextId(context),
        group,
        priority,
        software_queue: queues.0,
        hardware_queue: queues.1,
        ..Bio::new(Operation::Read, hoistway_block::Extent::default())
    }
}
