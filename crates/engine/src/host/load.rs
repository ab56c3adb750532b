//! The load of an experiment: all its issuers run on the shard's own thread, so that issuing adds
//! no cost that could be attributed to the scheduler.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;

use hoistway_block::{Flags, Nanos, Operation};
use hoistway_experiment::recorder::Outcome;
use hoistway_experiment::{Completion, Experiment, IoDirection, LiveGroup, Recorder, Schedule, Window};
use hoistway_workload::verify::{Blocks, REMARK};
use hoistway_workload::{Engine, Io, Issuer, Job, Next};

use crate::protocol::{Command, Failure};
use crate::shard::{Answer, ClientContext, Data, LocalClient, LocalRequest, Payload, Traced};

/// The interval of progress reports.
const REPORT_NS: Nanos = 250_000_000;
/// Time from the window's end until the limits are lifted. Requests that limiters still hold then
/// go on at once; under a limit of one I/O a second they would delay the end of the run.
const LIFT_LIMITS_AFTER_NS: Nanos = 1_000_000_000;
/// Length of the pattern that fills writes.
const PATTERN_BYTES: usize = 1 << 20;
/// I/Os per turn of a job that does no real I/O: its I/Os complete at once, so without this bound
/// the shard's loop would never get control back.
const NULL_IOS_PER_TURN: u32 = 1_024;

/// A message from the load to the thread that waits for it.
pub(super) enum Report {
    /// Progress.
    Live { elapsed_ns: Nanos, groups: Vec<LiveGroup> },
    /// Trace events of the queue and the scheduler.
    Traced(Vec<Traced>),
    /// The load has ended.
    Over(Box<Over>),
    /// The shard ended before the load did.
    Abandoned,
}

/// The result of a load.
pub(super) struct Over {
    pub recorder: Recorder,
    pub begin: Snapshot,
    pub end: Snapshot,
}

/// The queue's counters at one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Snapshot {
    pub counters: hoistway_queue::Counters,
    pub reasons: BTreeMap<&'static str, u64>,
}

/// An I/O in flight.
#[derive(Copy, Clone, Debug)]
struct InFlight {
    direction: IoDirection,
    submitted_ns: Nanos,
    bytes: u64,
}

/// One thread of a job.
pub(super) struct Thread {
    pub issuer: Issuer,
    pub engine: Engine,
    /// First byte of its area on the volume.
    pub first_byte: u64,
    /// I/Os in flight by token.
    in_flight: Vec<Option<InFlight>>,
    /// An I/O that was refused because the connection was full.
    deferred_io: Option<Io>,
    /// The blocks written and read by a job that verifies.
    blocks: Option<Blocks>,
    is_running: bool,
    is_queued: bool,
}

impl Thread {
    pub fn new(issuer: Issuer, job: &Job, first_byte: u64, seed: u64) -> Self {
        let in_flight = vec![None; issuer.depth() as usize + 1];
        let blocks = Blocks::of(job, issuer.depth(), first_byte, seed);
        Self {
            issuer,
            engine: job.submission.engine,
            first_byte,
            in_flight,
            deferred_io: None,
            blocks,
            is_running: false,
            is_queued: false,
        }
    }
}

/// All issuers of an experiment; thread `n` uses connection `n`.
pub(super) struct Load {
    experiment: Arc<Experiment>,
    threads: Vec<Thread>,
    schedule: Schedule,
    recorder: Option<Recorder>,
    begin_ns: Nanos,
    window: Window,
    at_begin: Option<Snapshot>,
    at_end: Option<Snapshot>,
    /// The indices of the threads that may have something to issue.
    runnable: Vec<usize>,
    waiting: BinaryHeap<Reverse<(Nanos, usize)>>,
    next_report_ns: Nanos,
    /// When the limits are lifted: set when the window is over, cleared when done.
    lift_limits_at_ns: Option<Nanos>,
    reports: Sender<Report>,
    is_cancelled: Arc<AtomicBool>,
    pattern: Vec<u8>,
    is_over: bool,
}

impl Load {
    pub fn new(
        experiment: Arc<Experiment>,
        threads: Vec<Thread>,
        reports: Sender<Report>,
        is_cancelled: Arc<AtomicBool>,
    ) -> Self {
        let mut stream = hoistway_block::random::Stream::of(experiment.run_seed(), "engine/pattern");
        let pattern = (0..PATTERN_BYTES / 8).flat_map(|_| stream.next().to_le_bytes()).collect();
        Self {
            schedule: Schedule::of(&experiment),
            experiment,
            threads,
            recorder: None,
            begin_ns: 0,
            window: Window { start_ns: 0, end_ns: 0 },
            at_begin: None,
            at_end: None,
            runnable: Vec::new(),
            waiting: BinaryHeap::new(),
            next_report_ns: 0,
            lift_limits_at_ns: None,
            reports,
            is_cancelled,
            pattern,
            is_over: false,
        }
    }

    fn begin(&mut self, now: Nanos) {
        self.begin_ns = now;
        self.window = Window::of(&self.experiment, now);
        self.recorder = Some(Recorder::new(&self.experiment, self.window));
        self.next_report_ns = now + REPORT_NS;
        self.begin_threads(now);
    }

    fn begin_threads(&mut self, now: Nanos) {
        let mut ready = Vec::new();
        self.schedule.begin(now.saturating_sub(self.begin_ns), &mut ready);
        for thread in ready {
            self.threads[thread].is_running = true;
            self.enqueue(thread);
        }
    }

    fn enqueue(&mut self, thread: usize) {
        if !std::mem::replace(&mut self.threads[thread].is_queued, true) {
            self.runnable.push(thread);
        }
    }

    /// Stops threads: nothing more is issued, and requests in flight complete.
    fn stop(&mut self, threads: impl IntoIterator<Item = usize>) {
        for thread in threads {
            let state = &mut self.threads[thread];
            if let Some(io) = state.deferred_io.take() {
                state.issuer.completed(io.token, true);
            }
            state.issuer.stop();
            self.enqueue(thread);
        }
    }

    /// Handles what depends on the clock alone: the window's borders, groups that begin or end,
    /// reports, a stop by the user.
    fn handle_clock(&mut self, context: &mut ClientContext<'_>) {
        let now = context.now_ns();
        let elapsed_ns = now.saturating_sub(self.begin_ns);
        if self.at_begin.is_none() && now >= self.window.start_ns {
            self.at_begin = Some(snapshot(context));
        }
        let is_stopped = self.is_cancelled.load(Ordering::Relaxed) || now >= self.window.end_ns;
        if self.at_end.is_none() && is_stopped {
            self.at_end = Some(snapshot(context));
            self.lift_limits_at_ns = Some(now + LIFT_LIMITS_AFTER_NS);
            self.stop(0..self.threads.len());
        }
        if self.lift_limits_at_ns.take_if(|at_ns| *at_ns <= now).is_some() {
            context.lift_limits();
        }
        if self.schedule.next_change_ns().is_some_and(|at| at <= elapsed_ns) {
            let mut ending = Vec::new();
            self.schedule.ends_now(elapsed_ns, &mut ending);
            self.stop(ending);
            self.begin_threads(now);
        }
        while let Some(Reverse((at_ns, thread))) = self.waiting.peek().copied() {
            if at_ns > now {
                break;
            }
            self.waiting.pop();
            self.enqueue(thread);
        }
        if now >= self.next_report_ns {
            self.next_report_ns = now + REPORT_NS;
            let mut groups = Vec::new();
            if let Some(recorder) = &self.recorder {
                recorder.live(&mut groups);
            }
            let _ = self.reports.send(Report::Live { elapsed_ns, groups });
        }
    }

    /// Lets one thread issue everything that it may.
    fn run(&mut self, index: usize, context: &mut ClientContext<'_>) {
        let now = context.now_ns();
        let mut null_ios = 0;
        loop {
            if !self.threads[index].is_running {
                return;
            }
            let deferred_io = self.threads[index].deferred_io.take();
            let next = deferred_io.map_or_else(|| self.threads[index].issuer.next(now), Next::Issue);
            match next {
                Next::Issue(io) if self.threads[index].engine == Engine::Null => {
                    self.record_null(index, io, now);
                    self.threads[index].issuer.ended(io.token, None, now);
                    null_ios += 1;
                    if null_ios == NULL_IOS_PER_TURN {
                        self.waiting.push(Reverse((now, index)));
                        return;
                    }
                }
                Next::Issue(io) if !context.has_room(index) => {
                    self.threads[index].deferred_io = Some(io);
                    self.enqueue(index);
                    return context.unplug_all(index);
                }
                Next::Issue(io) => self.issue(index, io, context),
                // The plugs are kept: in the recording, time passed between the requests of a plug
                // as well.
                Next::NotBefore(at_ns) => {
                    self.waiting.push(Reverse((at_ns, index)));
                    return;
                }
                Next::Busy => return context.unplug_all(index),
                Next::Finished => {
                    context.unplug_all(index);
                    if self.threads[index].issuer.in_flight() == 0 {
                        self.end_thread(index, now);
                    }
                    return;
                }
            }
        }
    }

    fn record_null(&mut self, index: usize, io: Io, now: Nanos) {
        let Some(recorder) = &mut self.recorder else { return };
        let direction = IoDirection::from(io.operation);
        recorder.submitted(index, direction, now);
        recorder.log_begin(index, &io, now);
        recorder.completed(&Completion {
            issuer: index,
            direction,
            submitted_ns: now,
            completed_ns: now,
            bytes: u64::from(io.length_bytes),
            device_ns: 0,
            outcome: Outcome::Done,
        });
        recorder.log_end(index, io.token, now);
    }

    fn issue(&mut self, index: usize, io: Io, context: &mut ClientContext<'_>) {
        let now = context.now_ns();
        let direction = IoDirection::from(io.operation);
        let bytes = u64::from(io.length_bytes);
        if let Some(recorder) = &mut self.recorder {
            recorder.submitted(index, direction, now);
            recorder.log_begin(index, &io, now);
            if let Some(due_ns) = io.due_ns {
                recorder.record_issue_delay(index, now.saturating_sub(due_ns));
            }
        }
        let thread = &mut self.threads[index];
        thread.in_flight[io.token as usize] = Some(InFlight { direction, submitted_ns: now, bytes });
        let request = LocalRequest {
            cookie: u64::from(io.token),
            command: command_of(io.operation),
            offset_bytes: thread.first_byte + io.offset_bytes,
            length_bytes: bytes,
            is_durable: io.flags.contains(Flags::FUA),
            keeps_space: false,
            actor: io.actor,
            is_held: io.is_plugged,
        };
        if let Some(blocks) = &mut thread.blocks {
            blocks.begin(&io, thread.issuer.check_of(io.token));
        }
        let (pattern, blocks) = (&self.pattern, &thread.blocks);
        let mut supply =
            |offset_bytes, mut to: Payload<'_>| fill(pattern, blocks.as_ref(), io.token, offset_bytes, &mut to);
        context.submit(index, request, &mut supply);
    }

    fn end_thread(&mut self, index: usize, now: Nanos) {
        self.threads[index].is_running = false;
        if let Some(recorder) = &mut self.recorder {
            recorder.ended(index, self.threads[index].issuer.ending(), now);
        }
        let mut ending = Vec::new();
        if self.schedule.ended(index, &mut ending) {
            self.stop(ending);
            if self.at_end.is_none() {
                self.begin_threads(now);
            }
        }
    }

    fn is_done(&self) -> bool {
        let all_stopped = self.threads.iter().all(|thread| !thread.is_running);
        all_stopped && (self.at_end.is_some() || self.schedule.is_over())
    }

    fn finish(&mut self, context: &mut ClientContext<'_>) {
        self.is_over = true;
        let end = self.at_end.take().unwrap_or_else(|| snapshot(context));
        let begin = self.at_begin.take().unwrap_or_default();
        if let Some(mut recorder) = self.recorder.take() {
            if context.now_ns() < self.window.end_ns {
                recorder.end_window(context.now_ns());
            }
            let _ = self.reports.send(Report::Over(Box::new(Over { recorder, begin, end })));
        }
        context.close();
    }
}

impl LocalClient for Load {
    fn turn(&mut self, context: &mut ClientContext<'_>) {
        if self.is_over {
            return;
        }
        if self.recorder.is_none() {
            self.begin(context.now_ns());
        }
        self.handle_clock(context);
        let mut runnable = std::mem::take(&mut self.runnable);
        for &thread in &runnable {
            self.threads[thread].is_queued = false;
        }
        for thread in runnable.drain(..) {
            self.run(thread, context);
        }
        if self.runnable.is_empty() {
            self.runnable = runnable;
        }
        if self.is_done() {
            self.finish(context);
        }
    }

    fn next_wake_ns(&self) -> Option<Nanos> {
        if self.is_over {
            return None;
        }
        let window_ns = if self.at_begin.is_none() { self.window.start_ns } else { self.window.end_ns };
        let window_ns = if self.at_end.is_none() { window_ns } else { Nanos::MAX };
        let thread_ns = self.waiting.peek().map_or(Nanos::MAX, |Reverse((at_ns, _))| *at_ns);
        let change_ns = self.schedule.next_change_ns().map_or(Nanos::MAX, |at_ns| at_ns + self.begin_ns);
        let lift_ns = self.lift_limits_at_ns.unwrap_or(Nanos::MAX);
        Some(window_ns.min(thread_ns).min(change_ns).min(lift_ns).min(self.next_report_ns))
    }

    fn fill(&mut self, connection: usize, cookie: u64, offset_bytes: u64, mut to: Payload<'_>) -> Result<(), Failure> {
        let token = u32::try_from(cookie).unwrap_or(u32::MAX);
        fill(&self.pattern, self.threads[connection].blocks.as_ref(), token, offset_bytes, &mut to)
    }

    fn data(&mut self, connection: usize, cookie: u64, offset_bytes: u64, from: Data<'_>) -> Result<(), Failure> {
        // Only where data is verified is it looked at.
        let (Some(blocks), Ok(token)) = (&mut self.threads[connection].blocks, u32::try_from(cookie)) else {
            return Ok(());
        };
        if let Some(room) = blocks.room(token, offset_bytes) {
            from.copy_to(room);
        }
        Ok(())
    }

    fn answered(&mut self, answer: Answer) {
        let Ok(token) = u32::try_from(answer.cookie) else { return };
        let thread = &mut self.threads[answer.connection];
        let Some(in_flight) = thread.in_flight[token as usize].take() else { return };
        let mut outcome = answer.result.map_or_else(outcome_of, |()| Outcome::Done);
        if let Some(blocks) = &mut thread.blocks
            && let Err((errno, damage)) = blocks.ended(token, outcome == Outcome::Done)
        {
            outcome = Outcome::Errno(errno);
            if let Some(recorder) = &mut self.recorder {
                recorder.remarked(answer.connection, || format!("{REMARK}{damage}"));
            }
        }
        let completed_ns = answer.now_ns.max(in_flight.submitted_ns);
        thread.issuer.ended(token, outcome.errno(), completed_ns);
        if let Some(recorder) = &mut self.recorder {
            recorder.completed(&Completion {
                issuer: answer.connection,
                direction: in_flight.direction,
                submitted_ns: in_flight.submitted_ns,
                completed_ns,
                bytes: in_flight.bytes,
                device_ns: 0,
                outcome,
            });
            recorder.log_end(answer.connection, token, completed_ns);
        }
        self.enqueue(answer.connection);
    }

    fn abandoned(&mut self) {
        if !self.is_over {
            let _ = self.reports.send(Report::Abandoned);
        }
    }
}

fn snapshot(context: &ClientContext<'_>) -> Snapshot {
    Snapshot { counters: context.queue_counters(), reasons: context.reasons().into_iter().collect() }
}

fn fill(
    pattern: &[u8],
    blocks: Option<&Blocks>,
    token: u32,
    offset_bytes: u64,
    to: &mut Payload<'_>,
) -> Result<(), Failure> {
    if let Some(block) = blocks.and_then(|blocks| blocks.written(token, offset_bytes)) {
        to.put(0, block);
        return if block.len() >= to.bytes() as usize { Ok(()) } else { Err(Failure::Io) };
    }
    let mut done = 0;
    while done < to.bytes() {
        let start = usize::try_from(offset_bytes + u64::from(done)).unwrap_or(0) % pattern.len();
        to.put(done, &pattern[start..]);
        done = done.saturating_add(u32::try_from(pattern.len() - start).unwrap_or(u32::MAX));
    }
    Ok(())
}

fn command_of(operation: Operation) -> Command {
    match operation {
        Operation::Read => Command::Read,
        Operation::Flush => Command::Flush,
        Operation::Discard | Operation::SecureErase => Command::Trim,
        Operation::WriteZeroes => Command::WriteZeroes,
        Operation::Write | Operation::ZoneAppend | Operation::Passthrough => Command::Write,
    }
}

fn outcome_of(failure: Failure) -> Outcome {
    Outcome::Errno(match failure {
        Failure::NotPermitted => 1,
        Failure::Io | Failure::Shutdown => 5,
        Failure::Invalid | Failure::Overflow => 22,
        Failure::NoSpace => 28,
        Failure::NotSupported => 95,
    })
}
