//! The processes of a run: issuers, what they have in hand, and when each runs again.
//!
//! ```text
//! issuer -> start_io -> bio(s) -> queue ... -> bio_done -> (complete_ns) -> deliver -> recorder, issuer
//!             \-> page cache -> windows, extents ---^
//! ```
//! Nothing here knows the device or the policy; the run's loop connects the two sides.

use std::collections::VecDeque;

use block::random::{fnv1a64, fnv1a64_continued};
use block::{Extent, Flags, GroupId, HardwareQueue, Nanos, Operation, Priority, SECTOR_BYTES, SoftwareQueue, Status};
use elevator::{Any, Bio};
use experiment::{Completion, IoDirection, Recorder, Schedule};
use queue::{Done, RequestQueue, Submitted};
use workload::{Io, Issuer, Job, Next};

use crate::costs::HostCosts;
use crate::events::{EventWheel, NEVER, Payload};
use crate::page_cache::{DirtyExtent, Range, ReadAhead, Window, WriteBack};

/// An I/O has completed and its process runs again.
const DELIVER: u8 = 0;
/// A process may act again.
const WAKE: u8 = 1;
/// A group that starts later begins.
const START: u8 = 2;
/// A group ends before the run does.
const STOP: u8 = 3;
/// Write-back may have something to do.
const WRITE_BACK: u8 = 4;
/// A buffered process's data is on the device, its cache flush follows.
const FLUSH: u8 = 5;

/// What a bio's cookie stands for: kind in the upper byte.
const COOKIE_SHIFT: u32 = 56;
const IO_COOKIE: u64 = 0;
const WINDOW_COOKIE: u64 = 1;
const EXTENT_COOKIE: u64 = 2;

/// How a process reaches the device.
#[derive(Debug)]
pub(crate) enum Path {
    /// O_DIRECT.
    Direct,
    /// Through the page cache.
    Buffered(ReadAhead),
    /// Not at all.
    Null,
}

/// One thread of a job.
#[derive(Debug)]
pub(crate) struct Process {
    pub issuer: Issuer,
    pub path: Path,
    /// Its attributes; operation, flags and extent are filled in per bio.
    pub template: Bio,
    /// Where its area begins on the device, in bytes.
    pub area_first_byte: u64,
    /// With everything in flight its issuer need not be asked: it would do nothing before a completion, and remembers
    /// nothing of having been asked.
    refills_at_once: bool,
    first_io: u32,
    cpu_free_at: Nanos,
    /// The wake-up it waits for; others are stale.
    wake_at: Nanos,
    is_running: bool,
    /// Bios missing of each window being fetched.
    loading: Vec<(u32, u32)>,
}

impl Process {
    pub(crate) fn new(job: &Job, issuer: Issuer, path: Path, template: Bio, area_first_byte: u64) -> Self {
        Self {
            refills_at_once: job.iodepth_low.is_none() && job.completion_batch <= 1,
            issuer,
            path,
            template,
            area_first_byte,
            first_io: 0,
            cpu_free_at: 0,
            wake_at: NEVER,
            is_running: false,
            loading: Vec::with_capacity(16),
        }
    }
}

/// An I/O that an issuer has in hand; indexed by the process's first plus the token.
#[derive(Copy, Clone, Debug)]
struct InHand {
    process: u32,
    token: u32,
    submitted_ns: Nanos,
    bytes: u32,
    operation: Operation,
    bios_left: u32,
    status: Status,
    device_ns: Nanos,
    /// Copying that follows when its pages are there.
    copy_ns: Nanos,
}

/// What a run is made of on this side.
pub(crate) struct Parts {
    pub costs: HostCosts,
    pub recorder: Recorder,
    pub schedule: Schedule,
    pub processes: Vec<Process>,
    /// Longest bio, in sectors.
    pub bio_sectors: u32,
    /// Whether completions are summed into a checksum.
    pub logs: bool,
}

/// All processes.
#[derive(Debug)]
pub(crate) struct Processes {
    costs: HostCosts,
    /// Whether the host's work costs nothing at all.
    is_free: bool,
    pub recorder: Recorder,
    schedule: Schedule,
    processes: Vec<Process>,
    ios: Vec<InHand>,
    wheel: EventWheel,
    /// I/Os delivered at the present time, in order: the way without the wheel where completing costs nothing.
    ready: VecDeque<u32>,
    /// Bios that the queue had no room for.
    backlog: VecDeque<(Bio, u64)>,
    write_back: WriteBack,
    /// I/Os that a page or an extent has just woken; empty between calls.
    woken: Vec<u32>,
    /// Extents in write-back and the bios missing of each.
    extents: Vec<Option<(DirtyExtent, u32)>>,
    /// When write-back is looked at next.
    write_back_at: Nanos,
    bio_sectors: u32,
    running: usize,
    has_stopped: bool,
    /// When the device last finished something: what a request waited inside behind others is not its own.
    device_free_at: Nanos,
    log: Option<u64>,
    pub completions: u64,
}

impl Processes {
    pub(crate) fn new(parts: Parts) -> Self {
        let Parts { costs, recorder, schedule, mut processes, bio_sectors, logs } = parts;
        let mut ios = Vec::new();
        for (index, process) in processes.iter_mut().enumerate() {
            process.first_io = number(ios.len());
            let empty = |token| InHand {
                process: number(index),
                token,
                submitted_ns: 0,
                bytes: 0,
                operation: Operation::Read,
                bios_left: 0,
                status: Status::Ok,
                device_ns: 0,
                copy_ns: 0,
            };
            ios.extend((0..process.issuer.depth()).map(empty));
        }
        // A delivery per I/O, a wake-up per process (and stale ones), the groups' starts and stops, one expiry.
        let events = ios.len() + 4 * processes.len() + 2 * schedule.early_ends().count() + 64;
        let mut wheel = EventWheel::with_capacity(events);
        for start_ns in schedule.later_starts() {
            wheel.insert(start_ns, Payload::new(START, 0));
        }
        for (group, stop_ns) in schedule.early_ends() {
            wheel.insert(stop_ns, Payload::new(STOP, number(group)));
        }
        Self {
            costs,
            is_free: costs == HostCosts::NONE,
            recorder,
            schedule,
            ready: VecDeque::with_capacity(ios.len()),
            write_back: WriteBack::new(processes.len()),
            processes,
            ios,
            wheel,
            backlog: VecDeque::new(),
            woken: Vec::new(),
            extents: Vec::new(),
            write_back_at: NEVER,
            bio_sectors,
            running: 0,
            has_stopped: false,
            device_free_at: 0,
            log: logs.then(|| fnv1a64(b"")),
            completions: 0,
        }
    }

    /// When something here happens next.
    #[inline]
    pub(crate) fn next_event(&mut self) -> Nanos {
        self.wheel.next_time()
    }

    /// Whether nothing more will ever be issued and nothing is in hand.
    pub(crate) fn is_over(&self) -> bool {
        self.running == 0 && (self.has_stopped || self.schedule.is_over())
    }

    /// FNV-1a over time, number and status of every completion so far, if asked for.
    pub(crate) fn checksum(&self) -> Option<u64> {
        self.log
    }

    /// Begins what begins at `now`.
    pub(crate) fn start_ready(&mut self, now: Nanos, queue: &mut RequestQueue<Any>) {
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

    /// Ends all issuing; what is in hand completes.
    pub(crate) fn stop_all(&mut self, now: Nanos, queue: &mut RequestQueue<Any>) {
        self.has_stopped = true;
        for process in 0..self.processes.len() {
            self.stop(process, now, queue);
        }
    }

    /// A bio has ended. Its process hears of it by [`Processes::run_due`].
    #[inline]
    pub(crate) fn bio_done(&mut self, done: &Done, now: Nanos) {
        let device_ns = now.saturating_sub(done.issued_ns.max(self.device_free_at));
        self.device_free_at = now;
        self.bio_ended(done.cookie, done.status, if done.issued_ns == 0 { 0 } else { device_ns }, now);
    }

    /// Everything due at `now`, in order, until nothing is left.
    #[inline]
    pub(crate) fn run_due(&mut self, now: Nanos, queue: &mut RequestQueue<Any>) {
        loop {
            if let Some(io) = self.ready.pop_front() {
                self.deliver(io, now, queue);
            } else if let Some((_, event)) = self.wheel.pop_due(now) {
                self.handle(event, now, queue);
            } else {
                break;
            }
        }
        if !self.backlog.is_empty() {
            self.retry_backlog(now, queue);
        }
    }

    fn handle(&mut self, event: Payload, now: Nanos, queue: &mut RequestQueue<Any>) {
        match event.kind() {
            DELIVER => self.deliver(event.index(), now, queue),
            WAKE => {
                let index = event.index() as usize;
                if self.processes[index].wake_at == now {
                    self.processes[index].wake_at = NEVER;
                    self.pump(index, now, queue);
                }
            }
            START => self.start_ready(now, queue),
            STOP => {
                for process in self.schedule.threads_of_group(event.index() as usize) {
                    self.stop(process, now, queue);
                }
            }
            FLUSH => self.flush_after_sync(event.index(), now, queue),
            WRITE_BACK => {
                self.write_back_at = NEVER;
                self.write_back(now, queue);
            }
            kind => debug_assert!(false, "no event is of kind {kind}"),
        }
    }

    fn stop(&mut self, process: usize, now: Nanos, queue: &mut RequestQueue<Any>) {
        self.processes[process].issuer.stop();
        if self.processes[process].is_running {
            self.pump(process, now, queue);
        }
    }

    /// Lets a process act until it waits for something.
    #[inline]
    fn pump(&mut self, index: usize, now: Nanos, queue: &mut RequestQueue<Any>) {
        loop {
            let process = &mut self.processes[index];
            if !process.is_running {
                return;
            }
            let is_full = process.issuer.in_flight() == process.issuer.depth();
            if is_full && process.refills_at_once {
                return;
            }
            if process.cpu_free_at > now && !is_full {
                let at = process.cpu_free_at;
                return self.wake_at(index, at);
            }
            match process.issuer.next(now) {
                Next::Issue(io) => self.start_io(index, io, now, queue),
                Next::NotBefore(at) => return self.wake_at(index, at),
                Next::Busy => return,
                Next::Finished => {
                    if self.processes[index].issuer.in_flight() == 0 {
                        self.process_ended(index, now, queue);
                    }
                    return;
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

    fn process_ended(&mut self, index: usize, now: Nanos, queue: &mut RequestQueue<Any>) {
        let process = &mut self.processes[index];
        process.is_running = false;
        self.running -= 1;
        queue.context_exited(process.template.context, now);
        let mut stopped = Vec::new();
        if self.schedule.ended(index, &mut stopped) {
            for process in stopped {
                self.stop(process, now, queue);
            }
            self.start_ready(now, queue);
        }
    }

    #[inline]
    fn start_io(&mut self, index: usize, io: Io, now: Nanos, queue: &mut RequestQueue<Any>) {
        let process = &mut self.processes[index];
        let number = process.first_io + io.token;
        self.ios[number as usize] = InHand {
            submitted_ns: now,
            bytes: io.length_bytes,
            operation: io.operation,
            bios_left: 0,
            status: Status::Ok,
            device_ns: 0,
            copy_ns: 0,
            ..self.ios[number as usize]
        };
        self.recorder.submitted(index, IoDirection::from(io.operation), now);
        let start = process.area_first_byte + io.offset_bytes;
        let range = Range { start_bytes: start, end_bytes: start + u64::from(io.length_bytes) };
        match &process.path {
            Path::Direct => self.start_direct(index, number, &io, range, now, queue),
            Path::Buffered(_) => self.start_buffered(index, number, &io, range, now, queue),
            // At least a nanosecond, or time would stand still.
            Path::Null => {
                let at = now + self.costs.complete_ns.max(1);
                self.wheel.insert(at, Payload::new(DELIVER, number));
            }
        }
    }

    fn start_direct(
        &mut self,
        index: usize,
        number: u32,
        io: &Io,
        range: Range,
        now: Nanos,
        queue: &mut RequestQueue<Any>,
    ) {
        let mut bio = Bio { operation: io.operation, flags: io.flags, ..self.processes[index].template };
        if io.priority != Priority::NONE {
            bio.priority = io.priority;
        }
        let (bios, ended) = self.submit_range(&bio, range, IO_COOKIE << COOKIE_SHIFT | u64::from(number), now, queue);
        self.ios[number as usize].bios_left = bios - ended;
        let process = &mut self.processes[index];
        process.cpu_free_at = now + self.costs.submit_ns * u64::from(bios);
        if bios == ended {
            self.complete_at(number, now);
        }
    }

    /// Submits a range as bios of the longest size. Answers how many there are, and how many have ended already.
    fn submit_range(
        &mut self,
        bio: &Bio,
        range: Range,
        cookie: u64,
        now: Nanos,
        queue: &mut RequestQueue<Any>,
    ) -> (u32, u32) {
        let mut first_sector = range.start_bytes / SECTOR_BYTES;
        let end_sector = range.end_bytes.div_ceil(SECTOR_BYTES);
        let (mut bios, mut ended) = (0, 0);
        loop {
            let sectors = u32::try_from(end_sector - first_sector).unwrap_or(u32::MAX).min(self.bio_sectors);
            let segments = u16::try_from(sectors.div_ceil(128).max(1)).unwrap_or(u16::MAX);
            let piece = Bio { extent: Extent::new(first_sector, sectors), segments, ..*bio };
            first_sector += u64::from(sectors);
            bios += 1;
            if !self.backlog.is_empty() {
                self.backlog.push_back((piece, cookie));
            } else {
                match queue.submit(&piece, cookie, now) {
                    Ok(Submitted::Nothing) => ended += 1,
                    Ok(_) => {}
                    Err(queue::Full) => self.backlog.push_back((piece, cookie)),
                }
            }
            if first_sector >= end_sector {
                return (bios, ended);
            }
        }
    }

    fn retry_backlog(&mut self, now: Nanos, queue: &mut RequestQueue<Any>) {
        while let Some((bio, cookie)) = self.backlog.front() {
            match queue.submit(bio, *cookie, now) {
                Err(queue::Full) => return,
                Ok(submitted) => {
                    let cookie = *cookie;
                    self.backlog.pop_front();
                    if submitted == Submitted::Nothing {
                        self.bio_ended(cookie, Status::Ok, 0, now);
                    }
                }
            }
        }
    }

    #[inline]
    fn bio_ended(&mut self, cookie: u64, status: Status, device_ns: Nanos, now: Nanos) {
        let number = u32::try_from(cookie & u64::from(u32::MAX)).unwrap_or(u32::MAX);
        match cookie >> COOKIE_SHIFT {
            IO_COOKIE => {
                let io = &mut self.ios[number as usize];
                io.bios_left -= 1;
                io.device_ns += device_ns;
                if !status.is_ok() {
                    io.status = status;
                }
                if io.bios_left == 0 {
                    let at = now + self.costs.complete_ns;
                    self.complete_at(number, at);
                }
            }
            WINDOW_COOKIE => {
                let process = usize::try_from((cookie >> 32) & 0xff_ffff).unwrap_or(usize::MAX);
                self.window_bio_ended(process, number, now);
            }
            _ => self.extent_bio_ended(number, now),
        }
    }

    /// The I/O's process sees its completion at `at`.
    #[inline]
    fn complete_at(&mut self, number: u32, at: Nanos) {
        if self.is_free {
            self.ready.push_back(number);
        } else {
            self.wheel.insert(at, Payload::new(DELIVER, number));
        }
    }

    #[inline]
    fn deliver(&mut self, number: u32, now: Nanos, queue: &mut RequestQueue<Any>) {
        let io = self.ios[number as usize];
        let index = io.process as usize;
        self.completions += 1;
        if let Some(log) = &mut self.log {
            for bytes in [now, u64::from(number), io.status as u64] {
                *log = fnv1a64_continued(*log, &bytes.to_le_bytes());
            }
        }
        self.recorder.completed(&Completion {
            issuer: index,
            direction: IoDirection::from(io.operation),
            submitted_ns: io.submitted_ns,
            completed_ns: now,
            bytes: u64::from(io.bytes),
            device_ns: io.device_ns,
            outcome: io.status.into(),
        });
        self.processes[index].issuer.completed(io.token, io.status.is_ok());
        self.pump(index, now, queue);
    }
}

// ---- through the page cache ----
impl Processes {
    fn start_buffered(
        &mut self,
        index: usize,
        number: u32,
        io: &Io,
        range: Range,
        now: Nanos,
        queue: &mut RequestQueue<Any>,
    ) {
        let copy_ns = self.costs.call_ns + self.costs.copy_ns(u64::from(io.length_bytes));
        self.ios[number as usize].copy_ns = copy_ns;
        let template = self.processes[index].template;
        let is_there = match io.operation {
            Operation::Read => return self.read_buffered(index, number, range, now, queue),
            Operation::Write => {
                let is_in = self.write_back.write(number, crate::processes::number(index), template.group, range, now);
                self.write_back(now, queue);
                is_in
            }
            Operation::Flush => {
                let is_clean = self.write_back.sync(number, crate::processes::number(index));
                if is_clean {
                    return self.start_direct(index, number, io, range, now, queue);
                }
                self.write_back(now, queue);
                return;
            }
            _ => return self.start_direct(index, number, io, range, now, queue),
        };
        if is_there {
            self.processes[index].cpu_free_at = now + copy_ns;
            self.complete_at(number, now + copy_ns);
        }
    }

    fn read_buffered(&mut self, index: usize, number: u32, range: Range, now: Nanos, queue: &mut RequestQueue<Any>) {
        let mut windows: [Option<Window>; 2] = [None; 2];
        let Path::Buffered(read_ahead) = &mut self.processes[index].path else { return };
        let is_there = read_ahead.read(number, range, |window| {
            if let Some(free) = windows.iter_mut().find(|place| place.is_none()) {
                *free = Some(window);
            }
        });
        for window in windows.into_iter().flatten() {
            let flags = if window.is_ahead { Flags::READAHEAD } else { Flags::NONE };
            let bio = Bio { operation: Operation::Read, flags, ..self.processes[index].template };
            let cookie = (WINDOW_COOKIE << COOKIE_SHIFT) | (index as u64) << 32 | u64::from(window.number);
            let (bios, _) = self.submit_range(&bio, window.range, cookie, now, queue);
            self.processes[index].loading.push((window.number, bios));
        }
        let copy_ns = self.ios[number as usize].copy_ns;
        if is_there {
            self.processes[index].cpu_free_at = now + copy_ns;
            self.complete_at(number, now + copy_ns);
        }
    }

    /// A read that fails still ends its window: the process gets its pages late in the real world, and here as well.
    fn window_bio_ended(&mut self, index: usize, window: u32, now: Nanos) {
        let process = &mut self.processes[index];
        let Some(place) = process.loading.iter().position(|(number, _)| *number == window) else { return };
        process.loading[place].1 -= 1;
        if process.loading[place].1 > 0 {
            return;
        }
        process.loading.swap_remove(place);
        let Path::Buffered(read_ahead) = &mut process.path else { return };
        let mut woken = std::mem::take(&mut self.woken);
        read_ahead.loaded(window, |io| woken.push(io));
        for io in woken.drain(..) {
            let at = now + self.costs.complete_ns + self.ios[io as usize].copy_ns;
            self.complete_at(io, at);
        }
        self.woken = woken;
    }

    /// Starts what the cache wants written now, and comes back when the oldest dirty data is due.
    fn write_back(&mut self, now: Nanos, queue: &mut RequestQueue<Any>) {
        while let Some(extent) = self.write_back.next(now) {
            let place = match self.extents.iter().position(Option::is_none) {
                Some(place) => place,
                None => {
                    self.extents.push(None);
                    self.extents.len() - 1
                }
            };
            let template = self.processes[extent.process as usize].template;
            // The flusher is a thread of its own, but the bios are its group's, as with cgroup write-back.
            let bio = Bio {
                operation: Operation::Write,
                flags: Flags::BACKGROUND,
                context: block::ContextId(0),
                priority: Priority::NONE,
                group: extent.group,
                ..template
            };
            let cookie = (EXTENT_COOKIE << COOKIE_SHIFT) | place as u64;
            let (bios, _) = self.submit_range(&bio, extent.range, cookie, now, queue);
            self.extents[place] = Some((extent, bios));
        }
        if let Some(at) = self.write_back.expires_at()
            && at > now
        {
            self.write_back_by(at);
        }
    }

    /// Looks at write-back again at `at` at the latest.
    fn write_back_by(&mut self, at: Nanos) {
        if at < self.write_back_at {
            self.write_back_at = at;
            self.wheel.insert(at, Payload::new(WRITE_BACK, 0));
        }
    }

    fn flush_after_sync(&mut self, number: u32, now: Nanos, queue: &mut RequestQueue<Any>) {
        let InHand { process, token, .. } = self.ios[number as usize];
        let priority = self.processes[process as usize].template.priority;
        let (operation, flags) = (Operation::Flush, Flags::SYNC);
        let (call, actor, deadline_ns) = (workload::Call::Data, 0, None);
        let io = Io { token, operation, flags, offset_bytes: 0, length_bytes: 0, priority, call, actor, deadline_ns };
        self.start_direct(process as usize, number, &io, Range { start_bytes: 0, end_bytes: 0 }, now, queue);
    }

    fn extent_bio_ended(&mut self, place: u32, now: Nanos) {
        let Some((extent, bios_left)) = &mut self.extents[place as usize] else { return };
        *bios_left -= 1;
        if *bios_left > 0 {
            return;
        }
        let extent = *extent;
        self.extents[place as usize] = None;
        let mut woken = std::mem::take(&mut self.woken);
        self.write_back.written(&extent, |io| woken.push(io));
        for io in woken.drain(..) {
            match self.ios[io as usize] {
                InHand { operation: Operation::Flush, .. } => self.wheel.insert(now, Payload::new(FLUSH, io)),
                InHand { copy_ns, .. } => self.complete_at(io, now + copy_ns),
            }
        }
        self.woken = woken;
        self.write_back_by(now);
    }
}

/// A count or index of things that a run has far fewer of than 2^28.
fn number(count: usize) -> u32 {
    u32::try_from(count).expect("a run has fewer than 2^32 processes and I/Os")
}

/// The software queue of a process, and the hardware queue that it feeds.
pub(crate) fn queues_of(process: usize, cpus: u16, hardware_queues: u16) -> (SoftwareQueue, HardwareQueue) {
    let cpu = u16::try_from(process % usize::from(cpus)).unwrap_or(0);
    let hardware = u32::from(cpu) * u32::from(hardware_queues) / u32::from(cpus);
    (SoftwareQueue(cpu), HardwareQueue(u16::try_from(hardware).unwrap_or(0)))
}

/// The bio of which a process's bios are copies.
pub(crate) fn template(
    context: u32,
    group: GroupId,
    priority: Priority,
    queues: (SoftwareQueue, HardwareQueue),
) -> Bio {
    Bio {
        context: block::ContextId(context),
        group,
        priority,
        software_queue: queues.0,
        hardware_queue: queues.1,
        ..Bio::new(Operation::Read, Extent::default())
    }
}
