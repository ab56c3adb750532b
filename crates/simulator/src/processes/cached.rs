//! System calls of processes that are more than a transfer: buffered I/O, reads of a block map, and
//! changes of the file system.
//!
//! A call is a state machine: [`Processes::resume`] continues it where it stopped, which is at a
//! page in flight, a pause, a request that it waits for, or the time that copying takes.

use std::ops::Range;

use hoistway_block::{Direction, Flags, Nanos, Operation, Priority, Status};
use hoistway_elevator::{Bio, Elevator};
use hoistway_queue::RequestQueue;
use hoistway_workload::Io;

use super::transfers::{PageIoShape, PageSubmitter};
use super::{IoRemainder, Path, Processes, agenda};
use crate::events::NEVER;
use crate::os::pages::{PAGE_BYTES, PageState};
use crate::os::read_ahead::{Place, Window};
use crate::os::throttle::{NAP_NS, Verdict};
use crate::os::write_back::Turn;

/// The state of a call.
#[derive(Clone, Debug, Default)]
enum Stage {
    /// Reads the block map first.
    #[default]
    Mapping,
    /// Copies pages out of the page cache.
    Reading,
    /// Copies pages into the page cache.
    Writing,
    /// Writes dirty pages of any file, because too many are dirty; `naps` says whether it sleeps
    /// afterwards.
    WritingOthers { turn: Option<Turn>, naps: bool, wrote: bool },
    /// Writes the dirty pages of its own range.
    Syncing { next_page: u64 },
    /// Waits until no page of its range is in write-back.
    Settling,
    /// Waits for the commit of its changes.
    Committing,
}

/// A call in progress; indexed like the I/Os.
#[derive(Clone, Debug, Default)]
pub(super) struct Call {
    stage: Stage,
    call: hoistway_workload::Call,
    /// Next page of its range, and the end of the range.
    at: u64,
    end: u64,
    /// Whether a sync has already waited once for pages in write-back.
    has_settled: bool,
    /// The wake-up that it waits for; others are stale.
    resumes_at: Nanos,
}

impl Call {
    /// The rest of its range.
    pub(super) fn pages(&self) -> Range<u64> {
        self.at..self.end
    }
}

/// The pages of an I/O's range.
pub(super) fn pages_of(range: &IoRemainder) -> Range<u64> {
    range.next_byte / PAGE_BYTES..range.end_byte().div_ceil(PAGE_BYTES)
}

/// A call that waits for a page, or for its file's pages to be written.
#[derive(Copy, Clone, Debug)]
pub(super) struct Sleeper {
    io: u32,
    file: u32,
    first_page: u64,
    end_page: u64,
    /// Whether it waits for pages to be read; otherwise for pages to be written.
    reads: bool,
}

impl Sleeper {
    /// Whether it waits for one of these pages.
    fn waits_for(&self, file: u32, pages: &Range<u64>, reads: bool) -> bool {
        self.file == file && self.reads == reads && self.first_page < pages.end && pages.start < self.end_page
    }
}

impl Processes {
    pub(super) fn begin_call(&mut self, number: u32, io: &Io, now: Nanos, queue: &mut RequestQueue<impl Elevator>) {
        let (at, end) = match (io.operation, io.length_bytes) {
            // A sync without a range applies to the whole file.
            (Operation::Flush, 0) => (0, u64::MAX),
            _ => (io.offset_bytes / PAGE_BYTES, (io.offset_bytes + u64::from(io.length_bytes)).div_ceil(PAGE_BYTES)),
        };
        self.calls[number as usize] =
            Call { stage: Stage::Mapping, call: io.call, at, end, has_settled: false, resumes_at: NEVER };
        let index = self.ios.process_of(number);
        if matches!(self.processes[index].path, Path::Buffered(_)) {
            self.host.calls(self.processes[index].cpu, now);
        }
        self.resume(number, now, queue);
    }

    /// A wake-up of the call: continues it, unless another event already did.
    pub(super) fn resume_due(&mut self, number: u32, now: Nanos, queue: &mut RequestQueue<impl Elevator>) {
        if self.calls[number as usize].resumes_at == now {
            self.calls[number as usize].resumes_at = NEVER;
            self.resume(number, now, queue);
        }
    }

    /// Continues a call.
    pub(super) fn resume(&mut self, number: u32, now: Nanos, queue: &mut RequestQueue<impl Elevator>) {
        match &self.calls[number as usize].stage {
            Stage::Mapping => self.map(number, now, queue),
            Stage::Reading => self.read(number, now, queue),
            Stage::Writing => self.write(number, now, queue),
            Stage::WritingOthers { .. } => self.write_others(number, now, queue),
            Stage::Syncing { .. } => self.sync(number, now, queue),
            Stage::Settling => self.settle(number, now, queue),
            Stage::Committing => self.complete_at(number, now),
        }
    }

    pub(super) fn resume_at(&mut self, number: u32, at: Nanos) {
        self.calls[number as usize].resumes_at = at;
        self.agenda.add(at, agenda::RESUME, number);
    }

    /// Reads the next unread part of the block map, or begins with the data.
    fn map(&mut self, number: u32, now: Nanos, queue: &mut RequestQueue<impl Elevator>) {
        let (io, range) = (*self.ios.get(number), self.ios.rest(number));
        let process = &mut self.processes[io.process as usize];
        let has_data =
            matches!(self.calls[number as usize].call, hoistway_workload::Call::Data | hoistway_workload::Call::Append);
        let is_data = has_data && io.operation != Operation::Flush && io.status.is_ok();
        if let Some(map) = process.block_map.as_mut().filter(|_| is_data)
            && let Some(at) = map.learn(range.next_byte, range.end_byte())
        {
            return self.submit_map_read(number, at, now, queue);
        }
        let is_buffered = matches!(process.path, Path::Buffered(_));
        if !io.status.is_ok() {
            return self.complete_at(number, now);
        }
        let change = self.change_of(number);
        if change != hoistway_workload::Call::Data {
            if !self.joins_transaction(number, change, now) {
                return;
            }
            if change != hoistway_workload::Call::Append {
                return self.change_names(number, change, now);
            }
        }
        match io.operation {
            Operation::Read if is_buffered => self.enter(number, Stage::Reading, now, queue),
            Operation::Write if is_buffered => self.enter(number, Stage::Writing, now, queue),
            Operation::Flush if is_buffered => {
                let next_page = self.calls[number as usize].at;
                self.enter(number, Stage::Syncing { next_page }, now, queue);
            }
            _ => self.submit_io(number, now, queue),
        }
    }

    /// The metadata that a call changes besides data: a write beyond the file's previous length is
    /// an append.
    fn change_of(&mut self, number: u32) -> hoistway_workload::Call {
        let io = *self.ios.get(number);
        let file = self.processes[io.process as usize].file;
        let said = self.calls[number as usize].call;
        let is_write = said == hoistway_workload::Call::Data && io.operation == Operation::Write;
        if !is_write || !self.files.grows(file, self.ios.rest(number).end_byte()) {
            return said;
        }
        hoistway_workload::Call::Append
    }

    /// Creating, renaming and removing a file completes when its metadata is in a transaction.
    fn change_names(&mut self, number: u32, change: hoistway_workload::Call, now: Nanos) {
        let index = self.ios.process_of(number);
        if change == hoistway_workload::Call::Unlink {
            self.memory.cache.drop_pages(self.processes[index].file, pages_of(&self.ios.rest(number)));
        }
        let done_at = self.host.follows(self.processes[index].cpu, now);
        self.complete_at(number, done_at);
    }

    fn enter(&mut self, number: u32, stage: Stage, now: Nanos, queue: &mut RequestQueue<impl Elevator>) {
        self.calls[number as usize].stage = stage;
        self.resume(number, now, queue);
    }

    /// The bytes of a call that lie in some of its pages.
    fn bytes_in(range: &IoRemainder, pages: &Range<u64>) -> u64 {
        let start = (pages.start * PAGE_BYTES).max(range.next_byte);
        let end = (pages.end * PAGE_BYTES).min(range.end_byte());
        end.saturating_sub(start)
    }

    /// A bio of this call without its extent.
    fn bio_of(&self, number: u32, operation: Operation, flags: Flags) -> Bio {
        let io = self.ios.get(number);
        let mut bio = Bio { operation, flags, ..self.processes[io.process as usize].template };
        bio.context.0 += u32::from(io.actor);
        if io.priority != Priority::NONE {
            bio.priority = io.priority;
        }
        bio
    }
}

// ---- reading ----
impl Processes {
    fn read(&mut self, number: u32, now: Nanos, queue: &mut RequestQueue<impl Elevator>) {
        let (io, range) = (*self.ios.get(number), self.ios.rest(number));
        let index = io.process as usize;
        let file = self.processes[index].file;
        loop {
            let Call { at, end, .. } = self.calls[number as usize];
            if !io.status.is_ok() {
                return self.complete_at(number, now);
            }
            let stop = self.memory.cache.ready_up_to(file, at..end);
            if stop > at {
                let bytes = Self::bytes_in(&range, &(at..stop));
                let done_at = self.host.copies(self.processes[index].cpu, now, bytes);
                self.calls[number as usize].at = stop;
                if let Path::Buffered(read_ahead) = &mut self.processes[index].path {
                    read_ahead.has_read(stop - 1);
                }
                if stop == end {
                    return self.complete_at(number, done_at);
                }
                return self.resume_at(number, done_at);
            }
            let is_missing = self.memory.cache.state(file, at) == PageState::Missing;
            if is_missing || self.memory.cache.take_marker(file, at) {
                if !is_missing && self.flusher.avoids_congestion() && queue.is_congested(Direction::Read) {
                    // 2.6 skips read-ahead while the queue is congested, and the marker is lost
                    // (mm/readahead.c, page_cache_async_readahead): the reader that reaches the
                    // window's end waits for the next window.
                    continue;
                }
                let is_there = !is_missing && self.memory.cache.state(file, at) != PageState::InFlight;
                self.fetch(number, !is_missing, now, queue);
                if is_there {
                    // The reader will not wait soon, so it unplugs the queue for the window itself
                    // (2.6.31 and later, for RAID arrays: mm/readahead.c,
                    // page_cache_async_readahead).
                    self.begins_to_wait(now, queue);
                }
            } else if self.memory.cache.state(file, at) == PageState::InFlight {
                self.sleepers.push(Sleeper { io: number, file, first_page: at, end_page: at + 1, reads: true });
                return self.begins_to_wait(now, queue);
            }
        }
    }

    /// Reads the window that the reader's position requires.
    fn fetch(&mut self, number: u32, is_marked: bool, now: Nanos, queue: &mut RequestQueue<impl Elevator>) {
        let Call { at, end, .. } = self.calls[number as usize];
        let index = self.ios.process_of(number);
        let file = self.processes[index].file;
        let first_page = self.ios.rest(number).next_byte / PAGE_BYTES;
        let place = Place { file, page: at, left: end - at, call: end - first_page, is_marked };
        let Path::Buffered(read_ahead) = &mut self.processes[index].path else { return };
        let window = self.memory.window(read_ahead, place);
        let bios = self.submit_window(number, &window, is_marked, now, queue);
        self.has_submitted(index, bios, now);
    }

    fn submit_window(
        &mut self,
        number: u32,
        window: &Window,
        is_ahead: bool,
        now: Nanos,
        queue: &mut RequestQueue<impl Elevator>,
    ) -> u32 {
        let file = self.processes[self.ios.process_of(number)].file;
        let file_pages = self.files.place(file).bytes.div_ceil(PAGE_BYTES);
        let pages = window.first_page..window.end_page.min(file_pages);
        if pages.is_empty() {
            return 0;
        }
        let bio = self.bio_of(number, Operation::Read, if is_ahead { Flags::READAHEAD } else { Flags::NONE });
        let bytes = (pages.end - pages.start) * PAGE_BYTES;
        let bio_bytes = self.submission.bio_bytes_for(&bio, bytes, now, queue);
        let most_pages = if self.flusher.reads_4k_bios() { 1 } else { bio_bytes / PAGE_BYTES };
        let shape = PageIoShape { submitter: PageSubmitter::Reader, most_pages, folio_pages: window.folio_pages };
        let runs = self.memory.begin_fetch(file, pages);
        let mut bios = 0;
        for run in &runs {
            if let Some(marker) = window.marker.filter(|marker| run.contains(marker)) {
                self.memory.cache.mark(file, marker);
            }
            bios += self.submit_pages(&bio, (file, run.clone()), shape, now, queue).0;
        }
        self.memory.reuse(runs);
        self.submission.unplug(true, now, queue);
        bios
    }

    /// The read of the pages ended; calls that wait for one of them continue.
    pub(super) fn pages_came(&mut self, file: u32, pages: Range<u64>, status: Status, now: Nanos) {
        self.memory.cache.fetched(file, pages.clone(), status.is_ok());
        self.wake_sleepers(file, &pages, true, status, now);
    }

    fn wake_sleepers(&mut self, file: u32, pages: &Range<u64>, reads: bool, status: Status, now: Nanos) {
        let mut sleepers = std::mem::take(&mut self.sleepers);
        sleepers.retain(|sleeper| {
            if !sleeper.waits_for(file, pages, reads) {
                return true;
            }
            self.ios.set_status(sleeper.io, status);
            if !reads && self.memory.cache.has_write_back(file, sleeper.first_page..sleeper.end_page) {
                return true;
            }
            let at = self.runs_again(self.ios.process_of(sleeper.io), now);
            self.resume_at(sleeper.io, at);
            false
        });
        self.sleepers = sleepers;
    }
}

// ---- writing ----
impl Processes {
    fn write(&mut self, number: u32, now: Nanos, queue: &mut RequestQueue<impl Elevator>) {
        let (index, range) = (self.ios.process_of(number), self.ios.rest(number));
        let Call { at, end, .. } = self.calls[number as usize];
        let quota = self.memory.quota();
        let dirtied = self.processes[index].dirtied_pages;
        if dirtied >= quota {
            self.processes[index].dirtied_pages = 0;
            match self.memory.check(dirtied, now) {
                Verdict::GoOn => {}
                Verdict::Pause(pause_ns) => return self.resume_at(number, now + pause_ns),
                Verdict::Write { pages, naps } => {
                    let turn = self.memory.borrow_turn(pages);
                    return self.enter(number, Stage::WritingOthers { turn, naps, wrote: false }, now, queue);
                }
            }
            return self.write(number, now, queue);
        }
        if at == end {
            return self.complete_at(number, now);
        }
        let stop = end.min(at + quota - dirtied);
        let (file, group) = (self.processes[index].file, self.processes[index].template.group);
        self.processes[index].dirtied_pages += self.memory.dirty(file, at..stop, group, now);
        self.calls[number as usize].at = stop;
        self.files.wrote(file, range.end_byte());
        let bytes = Self::bytes_in(&range, &(at..stop));
        let done_at = self.host.copies(self.processes[index].cpu, now, bytes);
        self.flush(now, queue);
        let must_ask = self.processes[index].dirtied_pages >= quota;
        if stop == end && !must_ask { self.complete_at(number, done_at) } else { self.resume_at(number, done_at) }
    }

    /// The form in which dirty pages are written.
    pub(super) fn write_shape(&self, submitter: PageSubmitter) -> PageIoShape {
        PageIoShape { submitter, most_pages: self.memory.write_pages(), folio_pages: 1 }
    }

    /// A throttled writer writes dirty pages of any file until it has written its quota.
    fn write_others(&mut self, number: u32, now: Nanos, queue: &mut RequestQueue<impl Elevator>) {
        let stage = std::mem::replace(&mut self.calls[number as usize].stage, Stage::Writing);
        let Stage::WritingOthers { turn, naps, mut wrote } = stage else { return };
        let index = self.ios.process_of(number);
        if let Some(mut turn) = turn {
            let bio = self.bio_of(number, Operation::Write, Flags::NONE);
            let shape = self.write_shape(PageSubmitter::Call(number));
            while let Some(pages) = self.memory.next_of(&mut turn, now) {
                wrote = true;
                let file = turn.file;
                let (bios, sleeps) = self.submit_pages(&bio, (file, pages), shape, now, queue);
                self.has_submitted(index, bios, now);
                if sleeps {
                    self.calls[number as usize].stage = Stage::WritingOthers { turn: Some(turn), naps, wrote };
                    return;
                }
            }
        }
        // Still above the limit, it counts as having used up its quota, which is smaller, so that
        // it checks again when it resumes; otherwise a new quota begins.
        self.processes[index].dirtied_pages = u64::from(self.memory.is_above_limit()) * 1_024;
        // Without a page that it could write, it would check again at once, for ever.
        let resume_ns =
            if naps || !wrote { now + NAP_NS } else { self.host.idle_at(self.processes[index].cpu).max(now) };
        self.resume_at(number, resume_ns);
    }

    /// Pages were written, or lost to an error.
    pub(super) fn pages_written(&mut self, file: u32, pages: Range<u64>, status: Status, now: Nanos) {
        self.memory.written(file, pages.clone(), now);
        self.wake_sleepers(file, &pages, false, status, now);
        self.journal_sees_pages_written(now);
        self.flush_again(now);
    }
}

// ---- syncing ----
impl Processes {
    /// Writes the dirty pages of the range, then waits for all pages in write-back.
    fn sync(&mut self, number: u32, now: Nanos, queue: &mut RequestQueue<impl Elevator>) {
        let Stage::Syncing { mut next_page } = self.calls[number as usize].stage else { return };
        let index = self.ios.process_of(number);
        let file = self.processes[index].file;
        let end = self.calls[number as usize].end;
        let bio =
            self.bio_of(number, Operation::Write, if self.submission.has_plug() { Flags::SYNC } else { Flags::NONE });
        let shape = self.write_shape(PageSubmitter::Call(number));
        while let Some(pages) = self.memory.cache.next_dirty(file, next_page..end, shape.most_pages) {
            next_page = pages.end;
            self.memory.cache.begin_write_back(file, pages.clone());
            let (bios, sleeps) = self.submit_pages(&bio, (file, pages), shape, now, queue);
            self.has_submitted(index, bios, now);
            if sleeps {
                self.calls[number as usize].stage = Stage::Syncing { next_page };
                return;
            }
        }
        self.submission.unplug(true, now, queue);
        self.begins_to_wait(now, queue);
        self.enter(number, Stage::Settling, now, queue);
    }

    fn settle(&mut self, number: u32, now: Nanos, queue: &mut RequestQueue<impl Elevator>) {
        let Call { at, end, .. } = self.calls[number as usize];
        let io = *self.ios.get(number);
        let file = self.processes[io.process as usize].file;
        if self.memory.cache.has_write_back(file, at..end) {
            self.sleepers.push(Sleeper { io: number, file, first_page: at, end_page: end, reads: false });
            return;
        }
        if !io.status.is_ok() {
            return self.complete_at(number, now);
        }
        // Pages dirtied again while they were in write-back could not be written at first.
        let has_settled = std::mem::replace(&mut self.calls[number as usize].has_settled, true);
        if !has_settled && self.memory.cache.next_dirty(file, at..end, 1).is_some() {
            return self.enter(number, Stage::Syncing { next_page: at }, now, queue);
        }
        self.calls[number as usize].stage = Stage::Committing;
        if self.awaits_commit(number, now, queue) {
            return;
        }
        // The range said what to sync; the flush itself has no extent.
        self.ios.without_extent(number);
        self.submit_io(number, now, queue);
    }

    /// Fills the cache with the files, as far as they fit.
    pub(super) fn warm(&mut self) {
        for (file, pages) in self.files.whole_pages() {
            self.memory.cache.warm(file, 0..pages);
        }
    }
}
