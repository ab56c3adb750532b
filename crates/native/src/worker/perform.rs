//! Performs the issuer's I/O by system calls and reports it to the recorder.
//!
//! Jobs that do one call at a time make that call (pread, pwrite, fdatasync), as programs do;
//! others keep requests in flight with AIO (`hoistway_linux::aio` explains why not with io_uring). Nothing
//! is allocated between the first request and the last.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use hoistway_block::{Flags, Nanos, Operation};
use hoistway_experiment::recorder::Outcome;
use hoistway_experiment::{Completion, IoDirection, IssuerPlace, LiveGroup, Recorder, Window};
use hoistway_linux::aio::{Done, Requests};
use hoistway_linux::buffer::{Arena, Span};
use hoistway_linux::thread::monotonic_ns;
use hoistway_workload::verify::{Blocks, REMARK};
use hoistway_workload::{Check, Engine, Io, Issuer, Next};
use rustix::fs::{Advice, FallocateFlags, Mode, OFlags};

use super::{StopFlag, send_to_host};
use crate::message::{FromWorker, Order};

/// The interval of progress reports to the host.
const LIVE_NS: Nanos = 250_000_000;
/// The longest delay until the host's request to stop is noticed.
const STOP_LATENCY_NS: Nanos = 50_000_000;
/// For a job that does no I/O: the I/Os between two checks of messages and clock.
const NULL_IOS: u32 = 1_024;
/// Alignment of buffers.
const ALIGNMENT_BYTES: u32 = 4_096;
/// Length of the pattern that fills writes.
const PATTERN_BYTES: usize = 1 << 20;

/// How the job does its I/O.
pub(super) enum IoMethod {
    /// Not at all.
    Null,
    /// One call at a time.
    Calls { arena: Arena, file: OwnedFd },
    /// By many requests in flight.
    Requests(Requests),
}

impl IoMethod {
    /// Opens the device or file as the job requires, and allocates buffers. `area` is the worker's
    /// part of it, in bytes.
    pub(super) fn open(path: &str, place: &IssuerPlace<'_>, issuer: &Issuer, area: Range<u64>) -> Result<Self, String> {
        let job = place.job;
        if job.submission.engine == Engine::Null {
            return Ok(IoMethod::Null);
        }
        let access = if job.shape.mix.has_writes() { OFlags::RDWR } else { OFlags::RDONLY };
        let direct = if job.submission.direct { OFlags::DIRECT } else { OFlags::empty() };
        let file = rustix::fs::open(path, access | direct | OFlags::CLOEXEC, Mode::empty())
            .map_err(|error| format!("{path}: {}", io::Error::from(error)))?;
        if !job.submission.direct {
            // For a cold start the cached pages of the area are dropped (clean pages only; no other
            // process writes).
            let length = std::num::NonZeroU64::new(area.end - area.start);
            let _ = rustix::fs::fadvise(&file, area.start, length, Advice::DontNeed);
        }
        let stride = stride_bytes(place);
        let arena =
            Arena::new(u64::from(stride) * u64::from(issuer.depth().max(1))).map_err(|error| error.to_string())?;
        let whole = |token: u32| Span { offset_bytes: u64::from(token) * u64::from(stride), length_bytes: stride };
        // Touched now, so that no request waits for memory.
        (0..issuer.depth().max(1)).for_each(|token| arena.fill(whole(token), 0x5a));
        if job.submission.engine == Engine::Sync && issuer.depth() <= 1 {
            return Ok(IoMethod::Calls { arena, file });
        }
        let depth = issuer.depth() as usize;
        Requests::new(arena, file, depth)
            .map(IoMethod::Requests)
            .map_err(|error| format!("io_setup of {depth}: {error}"))
    }
}

impl IoMethod {
    /// Writes back the cached pages of the file and drops them.
    fn empty_cache(&self) {
        let file = match self {
            IoMethod::Null => return,
            IoMethod::Calls { file, .. } => file.as_fd(),
            IoMethod::Requests(requests) => requests.file(),
        };
        // Errors show in the reads that follow.
        let _ = rustix::fs::fdatasync(file);
        let _ = rustix::fs::fadvise(file, 0, None, Advice::DontNeed);
    }

    /// Copies data that was read.
    fn copy_out(&self, span: Span, to: &mut [u8]) {
        let arena = match self {
            IoMethod::Null => return,
            IoMethod::Calls { arena, .. } => arena,
            IoMethod::Requests(requests) => requests.arena(),
        };
        arena.copy_out(span, to);
    }
}

/// Bytes of buffer for one I/O.
fn stride_bytes(place: &IssuerPlace<'_>) -> u32 {
    let largest = u32::try_from(place.largest_io_bytes()).unwrap_or(u32::MAX / 2).max(1);
    largest.next_multiple_of(ALIGNMENT_BYTES)
}

/// An I/O in flight.
#[derive(Copy, Clone, Debug)]
struct InFlight {
    direction: IoDirection,
    submitted_ns: Nanos,
    bytes: u32,
    deadline_ns: Option<Nanos>,
}

/// A thread of a job in execution.
pub(super) struct WorkerRun {
    issuer: Issuer,
    method: IoMethod,
    index: usize,
    group: usize,
    first_byte: u64,
    stride_bytes: u32,
    recorder: Recorder,
    window: Window,
    /// I/Os in flight by token.
    in_flight: Vec<Option<InFlight>>,
    pattern: Vec<u8>,
    /// The blocks written and read by a job that verifies.
    blocks: Option<Blocks>,
    /// Whether something was written since the page cache was emptied.
    is_cached: bool,
    done: Vec<Done>,
    live: Vec<LiveGroup>,
    next_live_ns: Nanos,
}

impl WorkerRun {
    pub(super) fn new(issuer: Issuer, method: IoMethod, window: Window, order: &Order) -> Self {
        let experiment = &order.experiment;
        let place = experiment.issuers().nth(order.issuer);
        let writes = place.is_some_and(|place| place.job.shape.mix.has_writes());
        let mut stream = hoistway_block::random::Stream::of(experiment.run_seed(), "native/pattern");
        let words = if writes { PATTERN_BYTES / 8 } else { 0 };
        Self {
            in_flight: vec![None; issuer.depth() as usize + 1],
            done: Vec::with_capacity(issuer.depth() as usize + 1),
            pattern: (0..words).flat_map(|_| stream.next().to_le_bytes()).collect(),
            live: Vec::with_capacity(experiment.groups.len()),
            next_live_ns: monotonic_ns() + LIVE_NS,
            recorder: Recorder::new(experiment, window),
            group: place.map_or(0, |place| place.group),
            stride_bytes: place.map_or(ALIGNMENT_BYTES, |place| stride_bytes(&place)),
            blocks: place
                .and_then(|place| Blocks::of(place.job, issuer.depth(), order.first_byte, experiment.run_seed())),
            is_cached: false,
            index: order.issuer,
            first_byte: order.first_byte,
            issuer,
            method,
            window,
        }
    }

    /// Runs until the window or the job is over or the host says so, and nothing is in flight.
    pub(super) fn run(mut self, stop_flag: &StopFlag) -> Result<Recorder, String> {
        let mut is_stopped = false;
        loop {
            let now = monotonic_ns();
            if !is_stopped && (now >= self.window.end_ns || stop_flag.is_stopped()) {
                self.issuer.stop();
                is_stopped = true;
            }
            let Some(wake_ns) = self.issue(now) else {
                self.recorder.ended(self.index, self.issuer.ending(), monotonic_ns());
                return Ok(self.recorder);
            };
            if now >= self.next_live_ns {
                self.send_live(now)?;
            }
            let end_ns = if is_stopped { Nanos::MAX } else { self.window.end_ns };
            let until_ns = wake_ns.min(end_ns).min(self.next_live_ns).min(now + STOP_LATENCY_NS);
            self.wait(until_ns)?;
        }
    }

    /// Issues everything that may be issued; returns when to ask again at the latest, or `None`
    /// when all is over.
    fn issue(&mut self, now: Nanos) -> Option<Nanos> {
        let mut null_ios = 0;
        loop {
            match self.issuer.next(now) {
                Next::Issue(io) => {
                    self.start(io);
                    // Calls take time, and null I/Os could go on for ever: check messages and clock
                    // first.
                    null_ios += 1;
                    if matches!(self.method, IoMethod::Calls { .. }) || null_ios == NULL_IOS {
                        return Some(now);
                    }
                }
                Next::NotBefore(at_ns) => return Some(at_ns),
                Next::Busy => return Some(Nanos::MAX),
                Next::Finished if self.issuer.in_flight() == 0 => return None,
                Next::Finished => return Some(Nanos::MAX),
            }
        }
    }

    fn start(&mut self, io: Io) {
        let direction = IoDirection::from(io.operation);
        let submitted_ns = monotonic_ns();
        self.recorder.submitted(self.index, direction, submitted_ns);
        self.recorder.log_begin(self.index, &io, submitted_ns);
        if let Some(due_ns) = io.due_ns {
            self.recorder.record_issue_delay(self.index, submitted_ns.saturating_sub(due_ns));
        }
        let in_flight = InFlight { direction, submitted_ns, bytes: io.length_bytes, deadline_ns: io.deadline_ns };
        self.in_flight[io.token as usize] = Some(in_flight);
        let offset_bytes = u64::from(io.token) * u64::from(self.stride_bytes);
        let span = Span { offset_bytes, length_bytes: io.length_bytes };
        let position = self.first_byte + io.offset_bytes;
        let durable = io.flags.contains(Flags::FUA);
        self.begin_block(&io);
        let (pattern, blocks) = (&self.pattern, self.blocks.as_ref());
        match &mut self.method {
            IoMethod::Null => self.ended(io.token, i64::from(io.length_bytes), submitted_ns),
            IoMethod::Calls { arena, file } => {
                if io.operation == Operation::Write {
                    fill(arena, span, pattern, blocks, io.token, position);
                }
                let result = call(arena, file.as_fd(), &io, span, position);
                self.ended(io.token, result_of(result), monotonic_ns());
            }
            IoMethod::Requests(requests) => match io.operation {
                Operation::Read => requests.read(io.token, span, position),
                Operation::Write => {
                    fill(requests.arena(), span, pattern, blocks, io.token, position);
                    requests.write(io.token, span, position, durable);
                }
                Operation::Flush => requests.sync(io.token),
                _ => {
                    // AIO has no such request, so a call is made, as programs do.
                    let result = call(requests.arena(), requests.file(), &io, span, position);
                    self.ended(io.token, result_of(result), monotonic_ns());
                }
            },
        }
    }

    /// Prepares the block of a verifying job. Verified data must come from the device, so the page
    /// cache is emptied before the first read after writes.
    fn begin_block(&mut self, io: &Io) {
        let Some(blocks) = &mut self.blocks else { return };
        let check = self.issuer.check_of(io.token);
        blocks.begin(io, check);
        match check {
            Some(Check::Fill { .. }) => self.is_cached = true,
            Some(Check::Read { .. }) if std::mem::take(&mut self.is_cached) => self.method.empty_cache(),
            _ => {}
        }
    }

    /// Checks the block that a verifying job has read; returns the final outcome.
    fn check_block(&mut self, token: u32, outcome: Outcome) -> Outcome {
        let Some(blocks) = &mut self.blocks else { return outcome };
        if let Some(room) = blocks.room(token, 0) {
            let offset_bytes = u64::from(token) * u64::from(self.stride_bytes);
            let span = Span { offset_bytes, length_bytes: u32::try_from(room.len()).unwrap_or(0) };
            self.method.copy_out(span, room);
        }
        let Err((errno, damage)) = blocks.ended(token, outcome == Outcome::Done) else { return outcome };
        self.recorder.remarked(self.index, || format!("{REMARK}{damage}"));
        Outcome::Errno(errno)
    }

    /// Waits for completions, or until a time of the monotonic clock.
    fn wait(&mut self, until_ns: Nanos) -> Result<(), String> {
        let left_ns = until_ns.saturating_sub(monotonic_ns());
        let IoMethod::Requests(requests) = &mut self.method else {
            if left_ns > 0 {
                std::thread::sleep(std::time::Duration::from_nanos(left_ns));
            }
            return Ok(());
        };
        let mut all = std::mem::take(&mut self.done);
        let submitted = requests.submit(&mut all);
        let left_ns = if all.is_empty() { until_ns.saturating_sub(monotonic_ns()) } else { 0 };
        submitted.and_then(|()| requests.reap(left_ns, &mut all)).map_err(|error| format!("io_submit: {error}"))?;
        let now = monotonic_ns();
        for done in all.drain(..) {
            let in_flight = self.in_flight.get(done.token as usize).copied().flatten();
            // A sync returns 0 on success.
            let is_whole =
                done.result == 0 && in_flight.is_some_and(|in_flight| in_flight.direction == IoDirection::Sync);
            let result =
                if is_whole { in_flight.map_or(0, |in_flight| i64::from(in_flight.bytes)) } else { done.result };
            self.ended(done.token, result, now);
        }
        self.done = all;
        Ok(())
    }

    /// Ends an I/O; `result` is the number of bytes or a negative errno.
    fn ended(&mut self, token: u32, result: i64, now: Nanos) {
        let Some(in_flight) = self.in_flight.get_mut(token as usize).and_then(Option::take) else { return };
        let outcome = match result {
            result if result == i64::from(in_flight.bytes) => Outcome::Done,
            result if result < 0 => Outcome::Errno(u16::try_from(-result).unwrap_or(u16::MAX)),
            _ => Outcome::Short,
        };
        let outcome = self.check_block(token, outcome);
        let completed_ns = now.max(in_flight.submitted_ns);
        self.issuer.ended(token, outcome.errno(), completed_ns);
        self.recorder.completed(&Completion {
            issuer: self.index,
            direction: in_flight.direction,
            submitted_ns: in_flight.submitted_ns,
            completed_ns,
            bytes: u64::from(in_flight.bytes),
            device_ns: 0,
            outcome,
        });
        self.recorder.log_end(self.index, token, completed_ns);
        if in_flight.deadline_ns.is_some_and(|deadline_ns| completed_ns > deadline_ns) {
            self.recorder.late(self.index, completed_ns);
        }
    }

    fn send_live(&mut self, now: Nanos) -> Result<(), String> {
        self.next_live_ns = now + LIVE_NS;
        self.recorder.live(&mut self.live);
        let own = self.live.get(self.group).copied().unwrap_or_default();
        send_to_host(&FromWorker::Live(own.into()))
    }
}

/// Makes one call; returns the bytes transferred.
fn call(arena: &Arena, file: BorrowedFd<'_>, io: &Io, span: Span, position: u64) -> io::Result<i64> {
    let whole = i64::from(io.length_bytes);
    let empty =
        |flags| rustix::fs::fallocate(file, flags | FallocateFlags::KEEP_SIZE, position, u64::from(io.length_bytes));
    match io.operation {
        Operation::Read => arena.read_at(file, span, position).map(i64::from),
        Operation::Write => arena.write_at(file, span, position, io.flags.contains(Flags::FUA)).map(i64::from),
        Operation::Flush => Ok(rustix::fs::fdatasync(file).map(|()| whole)?),
        Operation::Discard => Ok(empty(FallocateFlags::PUNCH_HOLE).map(|()| whole)?),
        Operation::WriteZeroes => Ok(empty(FallocateFlags::ZERO_RANGE).map(|()| whole)?),
        _ => Err(io::ErrorKind::Unsupported.into()),
    }
}

/// Bytes, or a negative errno.
fn result_of(result: io::Result<i64>) -> i64 {
    result.unwrap_or_else(|error| -i64::from(error.raw_os_error().unwrap_or(5)))
}

/// Fills a span with the block of a verifying job, or with the pattern, rotated so that equal
/// places hold equal data.
fn fill(arena: &Arena, span: Span, pattern: &[u8], blocks: Option<&Blocks>, token: u32, position: u64) {
    if let Some(block) = blocks.and_then(|blocks| blocks.written(token, 0)) {
        arena.copy_in(span, block);
        return;
    }
    let begin = usize::try_from(position % pattern.len().max(1) as u64).unwrap_or(0);
    let mut rest = span;
    let mut from = begin;
    while rest.length_bytes > 0 && !pattern.is_empty() {
        let piece = &pattern[from..];
        arena.copy_in(rest, piece);
        let done = u32::try_from(piece.len()).unwrap_or(u32::MAX).min(rest.length_bytes);
        rest = rest.behind(done);
        from = 0;
    }
}
