//! Submission of bios: splitting transfers, waiting for a request, and mapping a completed bio to its
//! I/O.
//!
//! A submitter whose bio finds no request sleeps until it has one, and then submits the rest: that
//! is how the queue slows processes, flusher and journal down.

use std::ops::Range;

use hoistway_block::{Extent, Nanos, Operation, Priority, SECTOR_BYTES, Status};
use hoistway_elevator::{Bio, Elevator};
use hoistway_experiment::IoDirection;
use hoistway_queue::{RequestQueue, Submitted};
use hoistway_workload::Io;

use super::transfers::{PageIoShape, PageSubmitter, Transfer};
use super::{IoInFlight, IoRemainder, Processes};
use crate::os::pages::PAGE_BYTES;

/// The layout of a bio's cookie, the queue's name of a bio towards its submitter: kind in the
/// upper byte, the number of an I/O or a transfer below.
const COOKIE_SHIFT: u32 = 56;
const IO_COOKIE: u64 = 0;
const TRANSFER_COOKIE: u64 = 1;
const MAP_COOKIE: u64 = 2;
/// A bio of a commit; the whole cookie.
pub(super) const JOURNAL_COOKIE: u64 = 3 << COOKIE_SHIFT;
/// A bio of a checkpoint; the whole cookie.
pub(super) const CHECKPOINT_COOKIE: u64 = 4 << COOKIE_SHIFT;

// ---- direct transfers ----
impl Processes {
    /// Starts a direct transfer of whole sectors that fits in one bio: the short path of
    /// [`Processes::submit_io`].
    #[inline]
    pub(super) fn start_transfer(
        &mut self,
        index: usize,
        io: &Io,
        now: Nanos,
        queue: &mut RequestQueue<impl Elevator>,
    ) {
        let process = &self.processes[index];
        let number = process.first_io + io.token;
        let end_byte = io.offset_bytes + u64::from(io.length_bytes);
        let (device_byte, piece_end) = process.place.piece(io.offset_bytes, end_byte);
        if piece_end < end_byte {
            return self.start_any_io(index, io, now, queue);
        }
        let sectors = sectors_of(u64::from(io.length_bytes));
        let mut bio = Bio {
            operation: io.operation,
            flags: io.flags,
            extent: Extent::new(device_byte / SECTOR_BYTES, sectors),
            segments: u16::try_from(sectors.div_ceil(128).max(1)).unwrap_or(u16::MAX),
            ..process.template
        };
        bio.context.0 += u32::from(io.actor);
        if io.priority != Priority::NONE {
            bio.priority = io.priority;
        }
        self.ios.begin_bio(number, IoInFlight::new(index, io, io.length_bytes, now));
        if io.length_bytes > 0 {
            self.recorder.submitted(index, IoDirection::from(io.operation), now);
        }
        let submitted = self.submit_bio(&bio, IO_COOKIE << COOKIE_SHIFT | u64::from(number), false, now, queue);
        self.begins_to_wait(now, queue);
        self.processes[index].sleeping += u32::from(submitted == Submitted::Waiting);
        let done_at = self.has_submitted(index, 1, now);
        if submitted == Submitted::Nothing {
            self.complete_at(number, if self.host.is_free() { now } else { done_at });
        }
    }

    /// Submits the rest of an I/O's transfer, until its process has to sleep for a request.
    #[inline]
    pub(crate) fn submit_io(&mut self, number: u32, now: Nanos, queue: &mut RequestQueue<impl Elevator>) {
        // Field by field: the I/O was written just before, so that a load of the whole would stall
        // on store forwarding.
        let IoInFlight { process, operation, flags, priority, actor, .. } = *self.ios.get(number);
        let IoRemainder { next_byte, left_bytes, .. } = self.ios.rest(number);
        let end_byte = next_byte + u64::from(left_bytes);
        let index = process as usize;
        let process = &self.processes[index];
        let place = process.place;
        let mut bio = Bio { operation, flags, ..process.template };
        bio.context.0 += u32::from(actor);
        if priority != Priority::NONE {
            bio.priority = priority;
        }
        let mut at = next_byte / SECTOR_BYTES * SECTOR_BYTES;
        let end = end_byte.next_multiple_of(SECTOR_BYTES);
        let bio_bytes = self.submission.bio_bytes_for(&bio, u64::from(left_bytes), now, queue);
        let is_plugged = end - at > bio_bytes && self.submission.has_plug();
        let (mut bios, mut ended, mut sleeps) = (0, 0, false);
        while !sleeps {
            let (device_byte, piece_end) = place.piece(at, end.min(at + bio_bytes));
            let sectors = sectors_of(piece_end - at);
            let segments = u16::try_from(sectors.div_ceil(128).max(1)).unwrap_or(u16::MAX);
            (bio.extent, bio.segments) = (Extent::new(device_byte / SECTOR_BYTES, sectors), segments);
            bios += 1;
            match self.submit_bio(&bio, IO_COOKIE << COOKIE_SHIFT | u64::from(number), is_plugged, now, queue) {
                Submitted::Nothing => ended += 1,
                Submitted::Waiting => sleeps = true,
                Submitted::Queued(_) | Submitted::Merged(_) | Submitted::Held => {}
            }
            at = piece_end;
            if at >= end {
                break;
            }
        }
        self.submission.unplug(is_plugged, now, queue);
        // Direct I/O unplugs the queue, whether the call waits or not.
        self.begins_to_wait(now, queue);
        let is_over = !self.ios.submitted_to(number, at, bios - ended) && at >= end;
        self.processes[index].sleeping += u32::from(sleeps);
        let done_at = self.has_submitted(index, bios, now);
        if is_over {
            self.complete_at(number, if self.host.is_free() { now } else { done_at });
        }
    }

    /// Reads a block of the file's block map; the process's call continues when it has been read.
    pub(super) fn submit_map_read(
        &mut self,
        number: u32,
        at: u64,
        now: Nanos,
        queue: &mut RequestQueue<impl Elevator>,
    ) {
        let io = *self.ios.get(number);
        let index = io.process as usize;
        let (device_byte, _) = self.processes[index].place.piece(at, at + PAGE_BYTES);
        let mut bio = Bio {
            operation: Operation::Read,
            flags: hoistway_block::Flags::META,
            extent: Extent::new(device_byte / SECTOR_BYTES, 8),
            ..self.processes[index].template
        };
        bio.context.0 += u32::from(io.actor);
        let submitted = self.submit_bio(&bio, MAP_COOKIE << COOKIE_SHIFT | u64::from(number), false, now, queue);
        self.processes[index].sleeping += u32::from(submitted == Submitted::Waiting);
        self.has_submitted(index, 1, now);
        self.begins_to_wait(now, queue);
    }
}

// ---- pages ----
impl Processes {
    /// Submits pages of a file; `bio` has every attribute but the extent. Returns the number of
    /// bios and whether the submitter has to sleep.
    pub(super) fn submit_pages(
        &mut self,
        bio: &Bio,
        (file, pages): (u32, Range<u64>),
        shape: PageIoShape,
        now: Nanos,
        queue: &mut RequestQueue<impl Elevator>,
    ) -> (u32, bool) {
        let place = self.files.place(file);
        let end = (pages.end * PAGE_BYTES).min(place.bytes.next_multiple_of(SECTOR_BYTES));
        let mut at = pages.start * PAGE_BYTES;
        let (mut bios, mut sleeps) = (0, false);
        let is_plugged = self.submission.has_plug();
        while at < end {
            let page = at / PAGE_BYTES;
            let longest = match shape.folio_pages {
                0 | 1 => page + shape.most_pages,
                folio => (page + shape.most_pages).min((page / folio + 1) * folio),
            };
            let (device_byte, piece_end) = place.piece(at, end.min(longest * PAGE_BYTES));
            let sectors = sectors_of(piece_end - at);
            let segments = u16::try_from(sectors.div_ceil(128)).unwrap_or(u16::MAX);
            let piece = Bio { extent: Extent::new(device_byte / SECTOR_BYTES, sectors), segments, ..*bio };
            let transfer = Transfer {
                file,
                first_page: at / PAGE_BYTES,
                end_page: piece_end.div_ceil(PAGE_BYTES),
                submitter: shape.submitter,
            };
            let slot = self.transfers.begin(transfer);
            let cookie = TRANSFER_COOKIE << COOKIE_SHIFT | u64::from(slot);
            match self.submit_bio(&piece, cookie, is_plugged, now, queue) {
                Submitted::Nothing => self.transfer_ended(slot, Status::Ok, now),
                Submitted::Waiting => sleeps = true,
                Submitted::Queued(_) | Submitted::Merged(_) | Submitted::Held => {}
            }
            bios += 1;
            at = piece_end;
        }
        (bios, sleeps)
    }
}

// ---- bios ----
impl Processes {
    /// Submits one bio. The result is "waiting" also when the queue has no room even for waiting
    /// bios.
    #[inline]
    pub(super) fn submit_bio(
        &mut self,
        bio: &Bio,
        cookie: u64,
        is_plugged: bool,
        now: Nanos,
        queue: &mut RequestQueue<impl Elevator>,
    ) -> Submitted {
        if self.submission.is_clear() {
            self.lock.take(now);
        }
        self.submission.submit(bio, cookie, is_plugged, now, queue)
    }

    /// A process is about to wait for I/O.
    #[inline]
    pub(super) fn begins_to_wait(&self, now: Nanos, queue: &mut RequestQueue<impl Elevator>) {
        self.submission.begins_to_wait(now, queue);
    }

    /// Starts an I/O in its process's plug. The process keeps holding the plug if more I/Os follow;
    /// otherwise it is flushed.
    #[cold]
    pub(super) fn start_plugged(&mut self, index: usize, io: &Io, now: Nanos, queue: &mut RequestQueue<impl Elevator>) {
        let holder = (index, io.actor);
        let Some(aside) = self.submission.enter_plug(holder, io.is_plugged) else {
            return self.start_io(index, io, now, queue);
        };
        self.start_io(index, io, now, queue);
        self.submission.leave_plug(holder, aside, io.is_plugged, now, queue);
    }

    /// A process has to wait: the plugs of its actors are flushed.
    #[inline]
    pub(super) fn release_plug(&mut self, index: usize, now: Nanos, queue: &mut RequestQueue<impl Elevator>) {
        self.submission.release_plugs(index, now, queue);
    }

    pub(super) fn retry_backlog(&mut self, now: Nanos, queue: &mut RequestQueue<impl Elevator>) {
        while let Some((cookie, submitted)) = self.submission.retry(now, queue) {
            if submitted == Submitted::Nothing {
                self.bio_ended(cookie, Status::Ok, 0, now);
            }
            if submitted != Submitted::Waiting {
                self.admitted(cookie, now, queue);
            }
        }
    }

    /// A bio that waited for a request got one: its submitter runs again.
    pub(super) fn admitted(&mut self, cookie: u64, now: Nanos, queue: &mut RequestQueue<impl Elevator>) {
        let number = u32::try_from(cookie & u64::from(u32::MAX)).unwrap_or(u32::MAX);
        match cookie >> COOKIE_SHIFT {
            TRANSFER_COOKIE => match self.transfers.submitter(number) {
                PageSubmitter::Reader => {}
                PageSubmitter::Flusher => self.flusher_runs_again(now, queue),
                PageSubmitter::Call(io) => self.resume(io, now, queue),
                PageSubmitter::Journal => self.journal_runs_again(now, queue),
            },
            // The thread waits for its bios to complete, not to be admitted.
            3 | 4 => {}
            kind => {
                let index = self.ios.process_of(number);
                self.processes[index].sleeping -= 1;
                if kind == IO_COOKIE && self.ios.is_unfinished(number) {
                    self.submit_io(number, now, queue);
                }
                self.pump(index, now, queue);
            }
        }
    }

    #[inline(always)]
    pub(super) fn bio_ended(&mut self, cookie: u64, status: Status, device_ns: Nanos, now: Nanos) {
        let number = u32::try_from(cookie & u64::from(u32::MAX)).unwrap_or(u32::MAX);
        match cookie >> COOKIE_SHIFT {
            IO_COOKIE => {
                if self.ios.bio_ended(number, status, device_ns) {
                    let at = self.runs_again(self.ios.process_of(number), now);
                    self.complete_at(number, at);
                }
            }
            MAP_COOKIE => {
                self.ios.set_status(number, status);
                let at = self.runs_again(self.ios.process_of(number), now);
                self.resume_at(number, at);
            }
            TRANSFER_COOKIE => self.transfer_ended(number, status, now),
            4 => self.checkpoint_bio_ended(),
            _ => self.journal_bio_ended(status, now),
        }
    }

    fn transfer_ended(&mut self, slot: u32, status: Status, now: Nanos) {
        let Transfer { file, first_page, end_page, submitter } = self.transfers.end(slot);
        match submitter {
            PageSubmitter::Reader => self.pages_came(file, first_page..end_page, status, now),
            PageSubmitter::Flusher | PageSubmitter::Call(_) | PageSubmitter::Journal => {
                self.pages_written(file, first_page..end_page, status, now)
            }
        }
    }
}

fn sectors_of(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(SECTOR_BYTES)).expect("bios are short")
}
