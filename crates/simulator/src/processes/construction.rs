//! Construction of a run's processes.

use hoistway_block::{Class, ContextId, GroupId, HardwareQueue, Operation, Priority, SoftwareQueue};
use hoistway_elevator::Bio;
use hoistway_experiment::{FileSystem, KernelEra, Machine, Recorder, Schedule};
use hoistway_workload::{Issuer, Job};

use super::agenda::{Agenda, START, STOP};
use super::cached::Call;
use super::flusher::Flusher;
use super::journalling::JournalThread;
use super::{
    ElevatorLock, HostWork, IoInFlight, Ios, Memory, OpenFiles, Path, Process, Processes, Submission, Successor, Tally,
    Transfers, number,
};
use crate::costs::HostCosts;
use crate::events::NEVER;
use crate::os::files::{BlockMap, File, Files};
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
        let cpus = processes.len().max(cpus(machine));
        let host = if has_processors {
            HostWork::elsewhere(costs, cpus)
        } else {
            HostWork::new(costs, cpus, machine.cpu_limit, machine.sched_ns_per_op > 0 || calls > 0)
        };
        // Used only if completions cost nothing.
        let deliveries = if costs == HostCosts::NONE { ios.len() } else { 0 };
        let mut processes = Self {
            processes,
            agenda: agenda(&schedule, events, deliveries),
            schedule,
            running: 0,
            has_stopped: false,
            host,
            lock: ElevatorLock::new(if has_processors { 0 } else { machine.sched_ns_per_op }),
            processors: parts.processors,
            ios: Ios::new(ios),
            submission: Submission::new(machine, request_bytes),
            transfers: Transfers::default(),
            calls: vec![Call::default(); calls],
            sleepers: Vec::with_capacity(calls),
            files: OpenFiles::new(machine, files.all()),
            memory: Memory::new(machine, request_bytes, files.all().len()),
            flusher: Flusher::new(machine),
            journal,
            recorder,
            tally: Tally::new(logs),
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
fn agenda(schedule: &Schedule, events: usize, deliveries: usize) -> Agenda {
    let mut agenda = Agenda::with_capacity(events, deliveries);
    for start_ns in schedule.later_starts() {
        agenda.add(start_ns, START, 0);
    }
    for (group, stop_ns) in schedule.early_ends() {
        agenda.add(stop_ns, STOP, number(group));
    }
    agenda
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
