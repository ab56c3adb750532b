//! The writes of an array: into the cache, and from there to the disks, row by row.
//!
//! Write-through takes the same path, but the command waits for its rows.

use hoistway_block::{Extent, Nanos, Operation, Status};

use super::destage::{Method, method, reads, writes};
use super::members::{DiskCommand, Owner};
use super::slab::Slab;
use super::write_cache::Turn;
use super::{Array, Stage};
use crate::interface::{Device, NEVER};

/// A row being destaged.
#[derive(Copy, Clone, Debug)]
struct Job {
    /// The row's slot in the cache.
    slot: u32,
    method: Method,
    is_writing: bool,
    /// Disk commands in flight, of the phase that `is_writing` names: reads, then writes.
    pending: u32,
    status: Status,
}

/// The rows being destaged.
#[derive(Clone, Debug)]
pub(super) struct Destager {
    jobs: Slab<Job>,
    /// Largest number of rows at a time.
    parallel: usize,
}

impl Destager {
    pub(super) fn new(parallel: u64) -> Self {
        let parallel = usize::try_from(parallel).unwrap_or(usize::MAX).max(1);
        Self { jobs: Slab::with_capacity(parallel.min(1_024)), parallel }
    }

    fn has_room(&self) -> bool {
        self.jobs.len() < self.parallel
    }
}

impl<M: Device> Array<M> {
    /// Starts a write that has arrived. FUA needs nothing more, because the cache is
    /// battery-backed.
    pub(super) fn write(&mut self, now: Nanos, command: u32) {
        if !self.is_write_back {
            self.write_through(now, command);
        } else if self.without_room.is_empty() && self.has_room_for(command) {
            self.write_back(now, command);
        } else {
            self.without_room.push_back(command);
        }
    }

    /// With write-back the battery makes a flush unnecessary; without, the flush waits for the
    /// writes before it.
    pub(super) fn flush(&mut self, now: Nanos, command: u32) {
        self.commands[command].pending = self.open_writes;
        if self.open_writes == 0 {
            self.answer(now, command);
        } else {
            self.flushes.push(command);
        }
    }

    /// Drops dirty data that was discarded. The disks are not told, because the parity must stay
    /// correct.
    pub(super) fn discard(&mut self, now: Nanos, command: u32) {
        if self.is_write_back {
            self.write_cache.discard(&self.layout, self.commands[command].extent);
            self.admit(now);
        }
        self.answer(now, command);
    }

    /// When a row that waits for its age may be destaged; [`NEVER`] while all jobs are in use.
    pub(super) fn next_destage(&self) -> Nanos {
        if self.destager.has_room() { self.write_cache.next_age() } else { NEVER }
    }

    /// Starts destaging rows while there is a reason to and a job is free.
    pub(super) fn start_destaging(&mut self, now: Nanos) {
        while !self.write_cache.is_clean() && self.destager.has_room() {
            let Some(slot) = self.write_cache.begin(now, self.turn()) else { return };
            let (_, ranges) = self.write_cache.busy(slot);
            let method = method(&self.layout, ranges);
            let job = Job { slot, method, is_writing: false, pending: 0, status: Status::Ok };
            let job = self.destager.jobs.put(job);
            self.run_phase(now, job);
        }
    }

    fn turn(&self) -> Turn {
        if !self.is_write_back {
            Turn::Oldest
        } else if !self.without_room.is_empty() || self.write_cache.is_above_low() {
            Turn::Any
        } else {
            Turn::Aged
        }
    }

    /// A disk command of a row completed.
    pub(super) fn destage_piece_done(&mut self, now: Nanos, job: u32, status: Status) {
        let entry = &mut self.destager.jobs[job];
        entry.pending -= 1;
        if entry.status.is_ok() {
            entry.status = status;
        }
        if entry.pending > 0 {
            return;
        }
        if entry.is_writing {
            self.finish(now, job);
        } else {
            entry.is_writing = true;
            self.run_phase(now, job);
        }
    }

    fn has_room_for(&self, command: u32) -> bool {
        self.write_cache.has_room_for(self.commands[command].extent.sectors)
    }

    fn write_back(&mut self, now: Nanos, command: u32) {
        for slice in self.layout.row_slices(self.commands[command].extent) {
            self.write_cache.store(now, slice, None);
        }
        self.answer(now, command);
    }

    fn write_through(&mut self, now: Nanos, command: u32) {
        let mut rows = 0;
        for slice in self.layout.row_slices(self.commands[command].extent) {
            self.write_cache.store(now, slice, Some(command));
            rows += 1;
        }
        if rows == 0 {
            self.answer(now, command);
            return;
        }
        self.open_writes += 1;
        let entry = &mut self.commands[command];
        entry.stage = Stage::Disks;
        entry.pending = rows;
    }

    /// Stores the writes that waited for room, in order, as far as there is room now.
    fn admit(&mut self, now: Nanos) {
        while let Some(command) = self.without_room.front().copied().filter(|command| self.has_room_for(*command)) {
            self.without_room.pop_front();
            self.write_back(now, command);
        }
    }

    /// Sends the reads or the writes of a job; a phase without any ends at once.
    fn run_phase(&mut self, now: Nanos, job: u32) {
        let Job { slot, method, is_writing, .. } = self.destager.jobs[job];
        if !is_writing && method == Method::Whole {
            self.destager.jobs[job].is_writing = true;
            self.run_phase(now, job);
            return;
        }
        let is_urgent = self.write_cache.is_above_high();
        let (row, ranges) = self.write_cache.busy(slot);
        let operation = if is_writing { Operation::Write } else { Operation::Read };
        let members = &mut self.members;
        let mut pending = 0;
        let send = |disk: usize, extent: Extent| {
            pending += 1;
            members.send(now, DiskCommand { disk, operation, extent, owner: Owner::Destage(job), is_urgent });
        };
        if is_writing {
            writes(&self.layout, row, method, ranges, send);
        } else {
            reads(&self.layout, row, method, ranges, send);
        }
        self.destager.jobs[job].pending = pending;
    }

    /// The row is on the disks: its room is freed, and the commands that waited for it continue.
    fn finish(&mut self, now: Nanos, job: u32) {
        let Job { slot, status, .. } = self.destager.jobs[job];
        self.destager.jobs.give_back(job);
        // No command waits for a row of the write-back cache, so the error is counted here.
        self.counters.errors += u64::from(self.is_write_back && !status.is_ok());
        let mut released = std::mem::take(&mut self.released);
        self.write_cache.finish(slot, &mut released);
        for command in released.drain(..) {
            let (is_last, sequence) = (self.commands[command].pending == 1, self.commands[command].sequence);
            self.piece_done(now, command, status);
            if is_last {
                self.write_done(now, sequence);
            }
        }
        self.released = released;
        self.admit(now);
    }

    /// A write is on the disks: the flushes after it wait for one write less.
    fn write_done(&mut self, now: Nanos, sequence: u64) {
        self.open_writes -= 1;
        let mut place = 0;
        while let Some(&flush) = self.flushes.get(place) {
            let entry = &mut self.commands[flush];
            if entry.sequence < sequence {
                place += 1;
                continue;
            }
            entry.pending -= 1;
            if entry.pending > 0 {
                place += 1;
                continue;
            }
            self.flushes.remove(place);
            self.answer(now, flush);
        }
    }
}
