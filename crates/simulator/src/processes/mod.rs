//! The processes of a run: issuers, their I/Os in flight, and when each runs again.
//!
//! ```text
//! issuer -> start_io --direct--------------------> bio(s) -> queue ... -> bio_done -> (complete_ns) -> deliver
//!               \--call-> block map, page cache ->   ^                        |            |            |
//!                         ^    dirty pages -> flusher, journal               resume <------+     recorder, issuer
//!                         +----------------------------------------------------+
//! ```
//! Nothing here depends on the device or the policy; the run's loop connects the two sides. The
//! decisions of the operating system are in `crate::os`; they are executed here, with the time that
//! they take.

mod cached;
mod changes;
mod construction;
mod flusher;
mod io_in_flight;
mod journalling;
mod on_processors;
mod recorded_plugs;
mod submission;

use std::collections::VecDeque;
use std::ops::Range;

use hoistway_block::random::fnv1a64_continued;
use hoistway_block::{Nanos, SECTOR_BYTES, Status};
use hoistway_elevator::{Bio, Elevator};
use hoistway_experiment::recorder::Outcome;
use hoistway_experiment::{Completion, IoDirection, Recorder, Schedule};
use hoistway_queue::{Done, Plug, RequestQueue};
use hoistway_workload::{Io, Issuer, Next};

use crate::costs::HostCosts;
use crate::events::{EventWheel, NEVER, Payload};
use crate::os::files::{BlockMap, File};
use crate::os::pages::PageCache;
use crate::os::read_ahead::{ReadAhead, Rules};
use crate::os::throttle::Throttle;
use crate::os::write_back::WriteBack;
use crate::processors::Processors;
use cached::{Call, Sleeper};
use changes::Succession;
pub(crate) use changes::Successor;
pub(crate) use construction::{Parts, queues_of, template};
use flusher::Flusher;
use io_in_flight::{IoInFlight, IoRemainder, is_counted, moves_data};
use journalling::JournalThread;
use recorded_plugs::RecordedPlugs;
use submission::Transfers;

/// An I/O has completed and its process runs again.
const DELIVER: u8 = 0;
/// A process may act again.
const WAKE: u8 = 1;
/// A group with a later start begins.
const START: u8 = 2;
/// A group stops that ends before the run does.
const STOP: u8 = 3;
/// Write-back may have pages to write.
const WRITE_BACK: u8 = 4;
/// A system call of a process (buffered I/O, sync, change of a file) continues.
const RESUME: u8 = 5;
/// The journal's thread may continue.
const JOURNAL: u8 = 6;

/// How a process's I/O reaches the device.
#[derive(Debug)]
pub(crate) enum Path {
    /// O_DIRECT.
    Direct,
    /// Through the page cache, with the read-ahead state of its open file.
    Buffered(ReadAhead),
    /// Not at all.
    Null,
}

/// One thread of a job.
#[derive(Debug)]
pub(crate) struct Process {
    pub issuer: Issuer,
    pub path: Path,
    /// Template of its bios; operation, flags and extent are set per bio.
    pub template: Bio,
    /// The file it works on.
    pub file: u32,
    place: File,
    /// The parts of the file's block map that it has read; None where blocks are found without
    /// reading one.
    block_map: Option<BlockMap>,
    /// Whether its issuer can be skipped while all its I/Os are in flight: it would issue nothing
    /// before a completion, and asking it for the next I/O would change nothing in it.
    refills_at_once: bool,
    /// Whether it does nothing else while a bio of it waits for a request. False for programs of
    /// several processes, and for io_uring, where a worker sleeps for each I/O; before blk-mq
    /// asynchronous I/O was libaio, which sleeps in submission.
    sleeps_as_one: bool,
    /// Whether it only makes direct transfers, without cache, block map or other calls.
    transfers_only: bool,
    sleeping: u32,
    /// Whether it is in a call that submits an I/O; only where processors are simulated.
    is_submitting: bool,
    first_io: u32,
    /// Room for I/Os from `first_io` on, if it is more than the issuer's depth.
    ios_room: u32,
    /// What follows when the issuer has ended; only in a session that is changed.
    successor: Successor,
    cpu: u32,
    /// The wake-up it waits for; others are stale.
    wake_at: Nanos,
    is_running: bool,
    /// Pages dirtied since its last throttling check.
    dirtied_pages: u64,
}

/// The lock around the elevator, where holding it is modelled as costing time: insertions, choices
/// and completions are serialised.
#[derive(Debug)]
pub(crate) struct ElevatorLock {
    pub free_at: Nanos,
    hold_ns: Nanos,
}

impl ElevatorLock {
    /// Takes the lock at `now`, or when it is free. Returns when it is released again.
    #[inline]
    pub(crate) fn take(&mut self, now: Nanos) -> Nanos {
        if self.hold_ns == 0 {
            return now;
        }
        self.free_at = self.free_at.max(now) + self.hold_ns;
        self.free_at
    }
}

/// All processes.
#[derive(Debug)]
pub(crate) struct Processes {
    costs: HostCosts,
    /// Whether the host's work costs no time at all.
    is_free: bool,
    /// Whether no CPU is ever busy: the host's work and the elevator's lock cost no time, and all
    /// I/Os are plain transfers.
    is_never_busy: bool,
    /// Whether a CPU does one thing at a time, completions included.
    shares_cpus: bool,
    pub lock: ElevatorLock,
    /// The processors, where they and the scheduler's locks are simulated; they keep all time that
    /// the host's work takes then.
    pub processors: Option<Processors>,
    pub recorder: Recorder,
    schedule: Schedule,
    processes: Vec<Process>,
    ios: Vec<IoInFlight>,
    /// By I/O; empty as long as each I/O was a single bio.
    remainders: Vec<IoRemainder>,
    /// The deadline of each I/O; empty until one has a deadline.
    deadlines: Vec<Nanos>,
    /// When each CPU is idle again; without a limit every process has a CPU of its own.
    cpu_free_at: Vec<Nanos>,
    wheel: EventWheel,
    /// I/Os delivered at the present time, in order, and how many of them are done: they bypass the
    /// wheel where completions cost nothing. Empty when all are done.
    ready: Vec<u32>,
    delivered: usize,
    /// Bios for which the queue had no room.
    backlog: VecDeque<(Bio, u64)>,
    /// The current submitter's plug; empty between calls. None where submitters have no plugs.
    plug: Option<Plug>,
    recorded_plugs: RecordedPlugs,
    transfers: Transfers,
    /// The state of calls, by I/O; empty where all I/Os are plain transfers.
    calls: Vec<Call>,
    /// Calls that wait for a page.
    sleepers: Vec<Sleeper>,
    cache: PageCache,
    /// Scratch space for runs of pages; empty between calls.
    runs: Vec<Range<u64>>,
    read_ahead: Rules,
    write_back: WriteBack,
    throttle: Throttle,
    flusher: Flusher,
    journal: Option<JournalThread>,
    files: Vec<File>,
    /// The length of each file, for files that grow.
    written_to: Vec<u64>,
    bio_bytes: u64,
    running: usize,
    has_stopped: bool,
    /// When the device last completed anything: a request's time in the device counts from there if
    /// it waited in the device behind others.
    device_free_at: Nanos,
    log: Option<u64>,
    pub completions: u64,
}

// ---- start and end ----
impl Processes {
    /// The time of the next event of the processes.
    #[inline]
    pub(crate) fn next_event(&mut self) -> Nanos {
        self.wheel.next_time()
    }

    /// Whether [`Processes::run_due`] would do nothing before [`Processes::next_event`].
    #[inline]
    pub(crate) fn is_at_rest(&self, queue: &RequestQueue<impl Elevator>) -> bool {
        let none_waits = self.ready.is_empty() && self.backlog.is_empty() && !queue.has_admitted();
        none_waits && !self.flusher.watches_congestion()
    }

    /// Whether nothing more will be issued and nothing is in flight.
    pub(crate) fn is_over(&self) -> bool {
        self.running == 0 && (self.has_stopped || self.schedule.is_over())
    }

    /// FNV-1a over time, number and status of every completion so far, if enabled.
    pub(crate) fn checksum(&self) -> Option<u64> {
        self.log
    }

    /// Starts everything that starts at `now`.
    pub(crate) fn start_ready(&mut self, now: Nanos, queue: &mut RequestQueue<impl Elevator>) {
        if self.has_stopped {
            return;
        }
        let mut started = Vec::new();
        self.schedule.begin(now, &mut started);
        self.running += started.len();
        for &process in &started {
            self.processes[process].is_running = true;
        }
        for process in started {
            self.pump(process, now, queue);
        }
    }

    /// Stops all issuing; I/Os in flight complete.
    pub(crate) fn stop_all(&mut self, now: Nanos, queue: &mut RequestQueue<impl Elevator>) {
        self.has_stopped = true;
        for process in 0..self.processes.len() {
            self.stop(process, now, queue);
        }
    }

    fn stop(&mut self, process: usize, now: Nanos, queue: &mut RequestQueue<impl Elevator>) {
        self.processes[process].issuer.stop();
        self.processes[process].successor = Successor::Nothing;
        if self.processes[process].is_running {
            self.pump(process, now, queue);
        }
    }

    fn process_ended(&mut self, index: usize, now: Nanos, queue: &mut RequestQueue<impl Elevator>) {
        let process = &mut self.processes[index];
        process.is_running = false;
        self.running -= 1;
        self.recorder.ended(index, process.issuer.ending(), now);
        for actor in 0..u32::from(process.issuer.actors()) {
            queue.context_exited(hoistway_block::ContextId(process.template.context.0 + actor), now);
        }
        let mut stopped = Vec::new();
        if self.schedule.ended(index, &mut stopped) {
            for process in stopped {
                self.stop(process, now, queue);
            }
            self.start_ready(now, queue);
        }
    }
}

// ---- events ----
impl Processes {
    /// A bio completed. Its process sees it in [`Processes::run_due`].
    #[inline]
    pub(crate) fn bio_done(&mut self, done: &Done, now: Nanos) {
        let device_ns = now.saturating_sub(done.issued_ns.max(self.device_free_at));
        self.device_free_at = now;
        self.bio_ended(done.cookie, done.status, if done.issued_ns == 0 { 0 } else { device_ns }, now);
    }

    /// Runs everything due at `now`, in order, until nothing is left.
    #[inline]
    pub(crate) fn run_due(&mut self, now: Nanos, queue: &mut RequestQueue<impl Elevator>) {
        loop {
            if let Some(&io) = self.ready.get(self.delivered) {
                self.delivered += 1;
                if self.delivered == self.ready.len() {
                    self.ready.clear();
                    self.delivered = 0;
                }
                self.deliver(io, now, queue);
            } else if let Some((_, event)) = self.wheel.pop_due(now) {
                self.handle(event, now, queue);
            } else if let Some(cookie) = queue.take_admitted() {
                self.admitted(cookie, now, queue);
            } else {
                break;
            }
        }
        if !self.backlog.is_empty() {
            self.retry_backlog(now, queue);
        }
        if self.flusher.watches_congestion() {
            self.look_at_congestion(now, queue);
        }
    }

    fn handle(&mut self, event: Payload, now: Nanos, queue: &mut RequestQueue<impl Elevator>) {
        match event.kind() {
            DELIVER => self.deliver(event.index(), now, queue),
            WAKE => {
                let index = event.index() as usize;
                if self.processes[index].wake_at == now {
                    self.processes[index].wake_at = NEVER;
                    self.pump(index, now, queue);
                }
            }
            RESUME => self.resume_due(event.index(), now, queue),
            WRITE_BACK => self.flush_at(now, queue),
            JOURNAL => self.journal_due(now, queue),
            START => self.start_ready(now, queue),
            STOP => {
                for process in self.schedule.threads_of_group(event.index() as usize) {
                    self.stop(process, now, queue);
                }
            }
            kind => debug_assert!(false, "no event is of kind {kind}"),
        }
    }

    /// Runs a process until it waits for something.
    #[inline]
    fn pump(&mut self, index: usize, now: Nanos, queue: &mut RequestQueue<impl Elevator>) {
        loop {
            let process = &mut self.processes[index];
            if !process.is_running || process.is_submitting || (process.sleeping > 0 && process.sleeps_as_one) {
                return self.release_plug(index, now, queue);
            }
            let is_full = process.issuer.is_full();
            if is_full && process.refills_at_once {
                return self.release_plug(index, now, queue);
            }
            if !self.is_never_busy && !is_full {
                let free_at = self.cpu_free_at[process.cpu as usize];
                if free_at > now {
                    return self.wake_at(index, free_at);
                }
            }
            match process.issuer.next(now) {
                Next::Issue(io) if self.processors.is_none() && self.meets_a_plug(&io) => {
                    self.start_plugged(index, &io, now, queue)
                }
                Next::Issue(io) => self.start_io(index, &io, now, queue),
                // Does not flush the plugs: in a replay, time may pass between two I/Os that were
                // recorded in one plug.
                Next::NotBefore(at) => return self.wake_at(index, at),
                Next::Busy => return self.release_plug(index, now, queue),
                Next::Finished => {
                    self.release_plug(index, now, queue);
                    if self.processes[index].issuer.in_flight() > 0 {
                        return;
                    }
                    match self.succeed(index) {
                        Succession::Ends => return self.process_ended(index, now, queue),
                        Succession::Rests => return,
                        Succession::Continues => {}
                    }
                }
            }
        }
    }

    fn wake_at(&mut self, index: usize, at: Nanos) {
        if self.processes[index].wake_at != at {
            self.processes[index].wake_at = at;
            self.wheel.insert(at, Payload::new(WAKE, number(index)));
        }
    }

    #[inline(always)]
    fn start_io(&mut self, index: usize, io: &Io, now: Nanos, queue: &mut RequestQueue<impl Elevator>) {
        let process = &self.processes[index];
        let bytes = u64::from(io.length_bytes);
        let is_one_bio = bytes <= self.bio_bytes_for(&process.template, bytes, now, queue)
            && (io.offset_bytes | u64::from(io.length_bytes)).is_multiple_of(SECTOR_BYTES)
            && io.deadline_ns.is_none()
            && io.due_ns.is_none();
        self.recorder.log_begin(index, io, now);
        if is_one_bio && process.transfers_only && self.deadlines.is_empty() && moves_data(io) {
            self.start_transfer(index, io, now, queue);
        } else {
            self.start_any_io(index, io, now, queue);
        }
    }

    /// The longest bio that may be submitted now for a transfer with this bio's attributes. A transfer
    /// that no scheduler would cut is not worth the question.
    #[inline]
    pub(super) fn bio_bytes_for<E: Elevator>(&self, bio: &Bio, bytes: u64, now: Nanos, queue: &RequestQueue<E>) -> u64 {
        if bytes <= u64::from(E::TRAITS.quantum_sectors) * SECTOR_BYTES {
            return self.bio_bytes;
        }
        let sectors = queue.elevator().longest_sectors(bio, now);
        self.bio_bytes.min(u64::from(sectors) * SECTOR_BYTES)
    }

    /// Starts an I/O that may need more than one bio, or more than a transfer.
    #[inline(never)]
    fn start_any_io(&mut self, index: usize, io: &Io, now: Nanos, queue: &mut RequestQueue<impl Elevator>) {
        let process = &mut self.processes[index];
        let number = process.first_io + io.token;
        self.ios[number as usize] = IoInFlight {
            process: super::processes::number(index),
            submitted_ns: now,
            // The length of an I/O that moves no data is only the range that it syncs or changes,
            // and is no throughput.
            bytes: if moves_data(io) { io.length_bytes } else { 0 },
            device_ns: 0,
            operation: io.operation,
            flags: io.flags,
            priority: io.priority,
            actor: io.actor,
            status: Status::Ok,
        };
        if self.remainders.is_empty() {
            // The I/Os already in flight are one bio each.
            self.remainders.resize(self.ios.len(), IoRemainder::ONE_BIO);
        }
        let (next_byte, left_bytes) = (io.offset_bytes, io.length_bytes);
        self.remainders[number as usize] = IoRemainder { next_byte, left_bytes, bios_left: 0 };
        if io.deadline_ns.is_some() || !self.deadlines.is_empty() {
            self.deadlines.resize(self.ios.len(), NEVER);
            self.deadlines[number as usize] = io.deadline_ns.unwrap_or(NEVER);
        }
        if let Some(due_ns) = io.due_ns {
            self.recorder.record_issue_delay(index, now.saturating_sub(due_ns));
        }
        if is_counted(self.ios[number as usize].bytes, io.operation) {
            self.recorder.submitted(index, IoDirection::from(io.operation), now);
        }
        match &process.path {
            Path::Direct if self.processors.is_some() => self.begin_submission(index, number, now),
            Path::Direct if self.calls.is_empty() => self.submit_io(number, now, queue),
            Path::Direct if process.block_map.is_none() && io.call == hoistway_workload::Call::Data => {
                self.submit_io(number, now, queue);
            }
            // At least a nanosecond, or time would not advance.
            Path::Null => {
                let at = now + self.costs.complete_ns.max(1);
                self.wheel.insert(at, Payload::new(DELIVER, number));
            }
            _ => self.begin_call(number, io, now, queue),
        }
    }

    /// Occupies the CPU of a process from now on, or from when it is idle. Returns when the work is
    /// done.
    #[inline]
    fn work(&mut self, index: usize, now: Nanos, length_ns: Nanos) -> Nanos {
        let free_at = &mut self.cpu_free_at[self.processes[index].cpu as usize];
        *free_at = now.max(*free_at) + length_ns;
        *free_at
    }

    /// Accounts the submission of `bios` bios. Returns when the process may continue.
    #[inline]
    fn has_submitted(&mut self, index: usize, bios: u32, now: Nanos) -> Nanos {
        if self.is_never_busy {
            return now;
        }
        let waits_ns = self.lock.free_at.saturating_sub(now);
        self.work(index, now, waits_ns + self.costs.submit_ns * u64::from(bios))
    }

    /// When a process runs again after an event that it waits for at `now`.
    #[inline]
    fn runs_again(&mut self, index: usize, now: Nanos) -> Nanos {
        // A completion takes the elevator's lock, which was just taken for it.
        let now = now.max(self.lock.free_at);
        if self.shares_cpus { self.work(index, now, self.costs.complete_ns) } else { now + self.costs.complete_ns }
    }

    /// The I/O's process sees its completion at `at`.
    #[inline]
    fn complete_at(&mut self, number: u32, at: Nanos) {
        if self.is_free {
            self.ready.push(number);
        } else if self.processors.is_some() {
            self.tell_process(number, at);
        } else {
            self.wheel.insert(at, Payload::new(DELIVER, number));
        }
    }

    /// The process of an I/O sees its end.
    #[inline]
    pub(crate) fn deliver(&mut self, number: u32, now: Nanos, queue: &mut RequestQueue<impl Elevator>) {
        // Field by field: some fields were written just before, so that a load of the whole would
        // stall on store forwarding.
        let IoInFlight { process, submitted_ns, bytes, device_ns, operation, status, .. } = self.ios[number as usize];
        let index = process as usize;
        self.completions += 1;
        if let Some(log) = &mut self.log {
            for bytes in [now, u64::from(number), status as u64] {
                *log = fnv1a64_continued(*log, &bytes.to_le_bytes());
            }
        }
        if is_counted(bytes, operation) {
            self.recorder.completed(&Completion {
                issuer: index,
                direction: IoDirection::from(operation),
                submitted_ns,
                completed_ns: now,
                bytes: u64::from(bytes),
                device_ns,
                outcome: status.into(),
            });
            if self.deadlines.get(number as usize).is_some_and(|&deadline_ns| now > deadline_ns) {
                self.recorder.late(index, now);
            }
        }
        let process = &mut self.processes[index];
        let token = number - process.first_io;
        self.recorder.log_end(index, token, now);
        let may_act = process.is_running
            && process.transfers_only
            && process.refills_at_once
            && process.sleeping == 0
            && (self.is_never_busy || self.cpu_free_at[process.cpu as usize] <= now);
        if may_act
            && status.is_ok()
            && let Some(io) = process.issuer.complete_and_issue_next(token, now)
        {
            let is_full = process.issuer.is_full();
            self.start_io(index, &io, now, queue);
            if is_full {
                return;
            }
        } else {
            process.issuer.ended(token, Outcome::from(status).errno(), now);
        }
        self.pump(index, now, queue);
    }
}

/// A count or index as 32 bits. A run has far fewer than 2^28, the limit of an index in an event's
/// [`Payload`].
fn number(count: usize) -> u32 {
    u32::try_from(count).expect("a run has fewer than 2^32 processes and I/Os")
}
