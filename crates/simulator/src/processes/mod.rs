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

mod agenda;
mod cached;
mod changes;
mod construction;
mod flusher;
mod host_work;
mod io_in_flight;
mod ios;
mod journalling;
mod memory;
mod on_processors;
mod open_files;
mod recorded_plugs;
mod submission;
mod submitting;
mod tally;
mod transfers;

use hoistway_block::{Nanos, SECTOR_BYTES};
use hoistway_elevator::{Bio, Elevator};
use hoistway_experiment::recorder::Outcome;
use hoistway_experiment::{Completion, IoDirection, Recorder, Schedule};
use hoistway_queue::{Done, RequestQueue};
use hoistway_workload::{Io, Issuer, Next};

use crate::events::{NEVER, Payload};
use crate::os::files::{BlockMap, File};
use crate::os::read_ahead::ReadAhead;
use crate::processors::Processors;
use agenda::{Agenda, Due};
use cached::{Call, Sleeper};
use changes::Succession;
pub(crate) use changes::Successor;
pub(crate) use construction::{Parts, queues_of, template};
use flusher::Flusher;
use host_work::{ElevatorLock, HostWork};
use io_in_flight::{IoInFlight, IoRemainder, is_counted, moves_data};
use ios::Ios;
use journalling::JournalThread;
use memory::Memory;
use open_files::OpenFiles;
use submission::Submission;
use tally::Tally;
use transfers::Transfers;

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

/// All processes, and what they share: each part keeps its own state, and what happens is passed
/// from one to the other here.
#[derive(Debug)]
pub(crate) struct Processes {
    processes: Vec<Process>,
    schedule: Schedule,
    running: usize,
    has_stopped: bool,
    agenda: Agenda,
    host: HostWork,
    pub lock: ElevatorLock,
    /// The processors, where they and the scheduler's locks are simulated; they keep all time that
    /// the host's work takes then.
    pub processors: Option<Processors>,
    ios: Ios,
    submission: Submission,
    transfers: Transfers,
    /// The state of calls, by I/O; empty where all I/Os are plain transfers.
    calls: Vec<Call>,
    /// Calls that wait for a page.
    sleepers: Vec<Sleeper>,
    files: OpenFiles,
    memory: Memory,
    flusher: Flusher,
    journal: Option<JournalThread>,
    pub recorder: Recorder,
    tally: Tally,
}

// ---- start and end ----
impl Processes {
    /// The time of the next event of the processes.
    #[inline]
    pub(crate) fn next_event(&mut self) -> Nanos {
        self.agenda.next_time()
    }

    /// Whether [`Processes::run_due`] would do nothing before [`Processes::next_event`].
    #[inline]
    pub(crate) fn is_at_rest(&self, queue: &RequestQueue<impl Elevator>) -> bool {
        let none_waits = !self.agenda.has_deliveries() && self.submission.is_clear() && !queue.has_admitted();
        none_waits && !self.flusher.watches_congestion()
    }

    /// Whether nothing more will be issued and nothing is in flight.
    pub(crate) fn is_over(&self) -> bool {
        self.running == 0 && (self.has_stopped || self.schedule.is_over())
    }

    /// FNV-1a over time, number and status of every completion so far, if enabled.
    pub(crate) fn checksum(&self) -> Option<u64> {
        self.tally.checksum()
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
        let device_ns = self.tally.device_ns(done.issued_ns, now);
        self.bio_ended(done.cookie, done.status, device_ns, now);
    }

    /// Runs everything due at `now`, in order, until nothing is left.
    #[inline]
    pub(crate) fn run_due(&mut self, now: Nanos, queue: &mut RequestQueue<impl Elevator>) {
        loop {
            match self.agenda.take_due(now) {
                Some(Due::Delivery(io)) => self.deliver(io, now, queue),
                Some(Due::Event(event)) => self.handle(event, now, queue),
                None => match queue.take_admitted() {
                    Some(cookie) => self.admitted(cookie, now, queue),
                    None => break,
                },
            }
        }
        if !self.submission.is_clear() {
            self.retry_backlog(now, queue);
        }
        if self.flusher.watches_congestion() {
            self.look_at_congestion(now, queue);
        }
    }

    fn handle(&mut self, event: Payload, now: Nanos, queue: &mut RequestQueue<impl Elevator>) {
        match event.kind() {
            agenda::DELIVER => self.deliver(event.index(), now, queue),
            agenda::WAKE => {
                let index = event.index() as usize;
                if self.processes[index].wake_at == now {
                    self.processes[index].wake_at = NEVER;
                    self.pump(index, now, queue);
                }
            }
            agenda::RESUME => self.resume_due(event.index(), now, queue),
            agenda::WRITE_BACK => self.flush_at(now, queue),
            agenda::JOURNAL => self.journal_due(now, queue),
            agenda::START => self.start_ready(now, queue),
            agenda::STOP => {
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
            if !is_full && !self.host.is_idle(process.cpu, now) {
                let idle_at = self.host.idle_at(process.cpu);
                return self.wake_at(index, idle_at);
            }
            match process.issuer.next(now) {
                Next::Issue(io) if self.processors.is_none() && self.submission.meets_a_plug(&io) => {
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
            self.agenda.add(at, agenda::WAKE, number(index));
        }
    }

    #[inline(always)]
    fn start_io(&mut self, index: usize, io: &Io, now: Nanos, queue: &mut RequestQueue<impl Elevator>) {
        let process = &self.processes[index];
        let bytes = u64::from(io.length_bytes);
        let is_one_bio = bytes <= self.submission.bio_bytes_for(&process.template, bytes, now, queue)
            && (io.offset_bytes | u64::from(io.length_bytes)).is_multiple_of(SECTOR_BYTES)
            && io.deadline_ns.is_none()
            && io.due_ns.is_none();
        self.recorder.log_begin(index, io, now);
        if is_one_bio && process.transfers_only && !self.ios.have_deadlines() && moves_data(io) {
            self.start_transfer(index, io, now, queue);
        } else {
            self.start_any_io(index, io, now, queue);
        }
    }

    /// Starts an I/O that may need more than one bio, or more than a transfer.
    #[inline(never)]
    fn start_any_io(&mut self, index: usize, io: &Io, now: Nanos, queue: &mut RequestQueue<impl Elevator>) {
        let process = &mut self.processes[index];
        let number = process.first_io + io.token;
        // The length of an I/O that moves no data is only the range that it syncs or changes.
        let bytes = if moves_data(io) { io.length_bytes } else { 0 };
        let state = IoInFlight::new(index, io, bytes, now);
        let rest = IoRemainder { next_byte: io.offset_bytes, left_bytes: io.length_bytes, bios_left: 0 };
        self.ios.begin(number, state, rest, io.deadline_ns);
        if let Some(due_ns) = io.due_ns {
            self.recorder.record_issue_delay(index, now.saturating_sub(due_ns));
        }
        if is_counted(state.bytes, io.operation) {
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
                let at = now + self.host.completion_ns().max(1);
                self.agenda.add(at, agenda::DELIVER, number);
            }
            _ => self.begin_call(number, io, now, queue),
        }
    }

    /// Accounts the submission of `bios` bios. Returns when the process may continue.
    #[inline]
    fn has_submitted(&mut self, index: usize, bios: u32, now: Nanos) -> Nanos {
        self.host.submits(self.processes[index].cpu, bios, self.lock.free_at, now)
    }

    /// When a process runs again after an event that it waits for at `now`.
    #[inline]
    fn runs_again(&mut self, index: usize, now: Nanos) -> Nanos {
        // A completion takes the elevator's lock, which was just taken for it.
        self.host.runs_again(self.processes[index].cpu, now.max(self.lock.free_at))
    }

    /// The I/O's process sees its completion at `at`.
    #[inline]
    fn complete_at(&mut self, number: u32, at: Nanos) {
        if self.host.is_free() {
            self.agenda.deliver(number);
        } else if self.processors.is_some() {
            self.tell_process(number, at);
        } else {
            self.agenda.add(at, agenda::DELIVER, number);
        }
    }

    /// The process of an I/O sees its end.
    #[inline]
    pub(crate) fn deliver(&mut self, number: u32, now: Nanos, queue: &mut RequestQueue<impl Elevator>) {
        // Field by field: some fields were written just before, so that a load of the whole would
        // stall on store forwarding.
        let IoInFlight { process, submitted_ns, bytes, device_ns, operation, status, .. } = *self.ios.get(number);
        let index = process as usize;
        self.tally.completed(number, status, now);
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
            if self.ios.is_late(number, now) {
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
            && self.host.is_idle(process.cpu, now);
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
