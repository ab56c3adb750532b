//! A RAID array: disks behind a controller with a battery-backed cache.
//!
//! * Models: one stream gets one disk's rate unless read-ahead spans chunks; several streams share
//!   disks and contend there; a small write costs four disk commands, a complete row (one chunk on
//!   every disk) no reads; a write is acknowledged from the cache until that is full.
//! * Suited for mid-range fibre-channel arrays of about 2010. Not modelled: rebuild, mirrored
//!   caches.
//! * Cost: per command a few divisions and one step per piece; the next event is found by a scan of
//!   the N disks. No allocation in steady state.
//! * Source: docs/specifications/devices.md, section 5.

mod controller;
mod destage;
mod layout;
mod line_cache;
mod members;
mod parameters;
mod prefetch;
mod ranges;
mod reading;
mod row_order;
mod slab;
mod write_cache;
mod writing;

use std::collections::VecDeque;

use hoistway_block::random::Stream;
use hoistway_block::{Extent, Nanos, Operation, Status};

use crate::DiskParameters;
use crate::activity::DiskActivity;
use crate::disk::Disk;
use crate::interface::{Command, Completion, Counters, Device, DeviceInfo, Submit};
use crate::pending::Pending;
use controller::Controller;
use members::{Finished, Members, Owner};
use reading::ReadAhead;
use slab::Slab;
use write_cache::WriteCache;
use writing::Destager;

pub use layout::Layout;
pub(crate) use parameters::ARRAY;
pub use parameters::ArrayParameters;

/// The stage of a host command.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Stage {
    /// Unused.
    Free,
    /// In the controller: arriving, waiting for room in the cache, or being answered.
    Controller,
    /// Waiting for disk commands.
    Disks,
    /// Disk commands are in flight for it, but a reset of the host has dropped it.
    Lost,
}

/// A host command.
#[derive(Copy, Clone, Debug)]
struct HostCommand {
    stage: Stage,
    tag: u32,
    operation: Operation,
    extent: Extent,
    status: Status,
    /// What it waits for: of a read, pieces (each within one chunk) or lines of the read cache; of
    /// a write, rows; of a flush, writes.
    pending: u32,
    sequence: u64,
}

/// The array over members of any kind; [`Array::new`] builds one of calibrated disks.
#[derive(Clone, Debug)]
pub struct Array<M = Disk> {
    info: DeviceInfo,
    counters: Counters,
    layout: Layout,
    controller: Controller,
    commands: Slab<HostCommand>,
    next_sequence: u64,
    /// Host commands in flight.
    outstanding: usize,
    arrivals: Pending<u32>,
    answers: Pending<u32>,
    members: Members<M>,
    read_ahead: Option<ReadAhead>,
    is_write_back: bool,
    write_cache: WriteCache,
    destager: Destager,
    /// Writes waiting because the cache is full.
    without_room: VecDeque<u32>,
    /// Flushes waiting for writes.
    flushes: Vec<u32>,
    /// Writes whose rows are not on the disks; always 0 with write-back.
    open_writes: u32,
    finished: Vec<Finished>,
    /// Commands that waited for a line of the read cache or for a row, and can continue now.
    released: Vec<u32>,
}

impl Array<Disk> {
    /// What each member disk does since its last event.
    pub(crate) fn activity(&self) -> Vec<DiskActivity> {
        self.members.devices().map(Disk::activity).collect()
    }

    /// An array with these settings, named `name`, of disks like `disk` but without write caches.
    /// Member k draws from the stream of `"<path>/disk<k>"`.
    pub fn new(name: &str, parameters: &ArrayParameters, disk: &DiskParameters, seed: u64, path: &str) -> Self {
        let chunk_sectors = parameters.chunk_kib * 2;
        // The controller's own commands are up to a chunk long, whatever the disk would accept from
        // a host.
        let max_sectors = disk.firmware.max_sectors.max(chunk_sectors);
        let disk = disk.clone().with(|disk| {
            disk.writing.write_cache = 0;
            disk.firmware.max_sectors = max_sectors;
        });
        let stream = |number| Stream::of(seed, &format!("{path}/disk{number}"));
        let first = Disk::new(name, &disk, stream(0));
        let others = (1..parameters.disks).map(|number| first.sibling(name, stream(number))).collect::<Vec<_>>();
        Self::of_members(name, parameters, std::iter::once(first).chain(others).collect())
    }
}

impl<M: Device> Array<M> {
    /// An array of these members, which are identical; `parameters.disks` is ignored.
    pub fn of_members(name: &str, parameters: &ArrayParameters, members: Vec<M>) -> Self {
        let number = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
        let disks = u32::try_from(members.len()).unwrap_or(u32::MAX);
        let member_sectors = members.iter().map(|member| member.info().capacity_sectors).min().unwrap_or(0);
        let layout = Layout::new(disks, parameters.has_parity(), number(parameters.chunk_kib * 2), member_sectors);
        let info = DeviceInfo {
            name: name.to_owned(),
            capacity_sectors: layout.capacity_sectors(),
            logical_block_bytes: 512,
            rotational: members.iter().any(|member| member.info().rotational),
            hardware_queues: 1,
            depth: number(parameters.lun_depth),
            max_sectors: number(parameters.max_sectors),
            max_segments: 128,
            volatile_cache: false,
            fua: true,
            optimal_io_bytes: layout.row_sectors().saturating_mul(512),
            ranges: Vec::new(),
        };
        let depth = info.total_depth();
        Self {
            counters: Counters::default(),
            controller: Controller::new(parameters),
            commands: Slab::with_capacity(depth),
            next_sequence: 0,
            outstanding: 0,
            arrivals: Pending::with_capacity(depth),
            answers: Pending::with_capacity(depth),
            members: Members::new(members, number(parameters.disk_depth)),
            read_ahead: ReadAhead::new(parameters),
            is_write_back: parameters.write_back != 0,
            write_cache: WriteCache::new(parameters, &layout),
            destager: Destager::new(parameters.destage_parallel),
            without_room: VecDeque::with_capacity(depth),
            flushes: Vec::with_capacity(depth),
            open_writes: 0,
            finished: Vec::new(),
            released: Vec::new(),
            layout,
            info,
        }
    }

    /// The placement of the array's sectors.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The disks, in order.
    pub fn members(&self) -> impl Iterator<Item = &M> {
        self.members.devices()
    }

    /// Number of disks with a command now.
    pub fn busy_members(&self) -> usize {
        self.members.busy()
    }

    /// Processes everything that happens at `now`, the time of the next event, except answers.
    fn step(&mut self, now: Nanos) {
        let mut finished = std::mem::take(&mut self.finished);
        self.members.advance(now, &mut finished);
        for Finished { owner, status } in finished.drain(..) {
            match owner {
                Owner::Read(command) => self.piece_done(now, command, status),
                Owner::Line(line) => self.line_piece_done(now, line, status),
                Owner::Destage(job) => self.destage_piece_done(now, job, status),
            }
        }
        self.finished = finished;
        while let Some((_, command)) = self.arrivals.pop_due(now) {
            self.arrive(now, command);
        }
        self.start_destaging(now);
    }

    /// The controller takes a command.
    fn arrive(&mut self, now: Nanos, command: u32) {
        match self.commands[command].operation {
            Operation::Read => self.read(now, command),
            Operation::Flush => self.flush(now, command),
            Operation::Discard => self.discard(now, command),
            _ => self.write(now, command),
        }
    }

    /// A part of a command's disk work is done.
    fn piece_done(&mut self, now: Nanos, command: u32, status: Status) {
        let entry = &mut self.commands[command];
        entry.pending -= 1;
        if entry.status.is_ok() {
            entry.status = status;
        }
        if entry.pending == 0 {
            self.answer(now, command);
        }
    }

    /// Sends the answer over the link, then waits half of the controller's latency. The data of a
    /// read or a write takes its time on the link here.
    fn answer(&mut self, now: Nanos, command: u32) {
        let HostCommand { stage, operation, extent, .. } = self.commands[command];
        if stage == Stage::Lost {
            self.free(command);
            return;
        }
        self.commands[command].stage = Stage::Controller;
        let has_data = matches!(operation, Operation::Read | Operation::Write);
        let answered_at = self.controller.answer(now, if has_data { extent.sectors } else { 0 });
        self.answers.insert(answered_at, command);
    }

    fn free(&mut self, command: u32) {
        self.commands[command].stage = Stage::Free;
        self.commands.give_back(command);
    }
}

impl<M: Device> Device for Array<M> {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn submit(&mut self, now: Nanos, command: &Command) -> Submit {
        if self.outstanding >= self.info.total_depth() {
            return Submit::Busy;
        }
        let &Command { tag, operation, extent, .. } = command;
        self.outstanding += 1;
        self.counters.count(operation, extent.sectors);
        let arrives_at = self.controller.take(now);
        let status = self.info.rejects(command);
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        let place = self.commands.put(HostCommand {
            stage: Stage::Controller,
            tag,
            operation,
            extent,
            status: status.unwrap_or(Status::Ok),
            pending: 0,
            sequence,
        });
        match status {
            None => self.arrivals.insert(arrives_at, place),
            Some(_) => self.answers.insert(self.controller.refusal_at(arrives_at), place),
        }
        Submit::Accepted
    }

    fn next_event(&self) -> Nanos {
        let own = self.arrivals.next().min(self.answers.next()).min(self.next_destage());
        own.min(self.members.next_event())
    }

    fn advance(&mut self, now: Nanos, out: &mut Vec<Completion>) {
        loop {
            let next = self.next_event();
            if next > now {
                return;
            }
            self.step(next);
            while let Some((at_ns, place)) = self.answers.pop_due(next) {
                let HostCommand { tag, status, .. } = self.commands[place];
                self.counters.errors += u64::from(!status.is_ok());
                self.outstanding -= 1;
                self.free(place);
                out.push(Completion { at_ns, tag, status });
            }
        }
    }

    fn is_idle(&self) -> bool {
        self.commands.len() == 0 && self.write_cache.is_clean() && self.members.is_idle()
    }

    fn counters(&self) -> Counters {
        self.counters
    }

    /// The reset affects the host, not the array: the cache keeps its data and continues destaging,
    /// and disk commands complete.
    fn reset(&mut self, _now: Nanos) {
        self.arrivals.clear();
        self.answers.clear();
        self.without_room.clear();
        self.flushes.clear();
        self.outstanding = 0;
        let mut freed = std::mem::take(&mut self.released);
        for (place, command) in self.commands.places_mut() {
            match command.stage {
                Stage::Controller => {
                    command.stage = Stage::Free;
                    freed.push(place);
                }
                Stage::Disks => command.stage = Stage::Lost,
                Stage::Free | Stage::Lost => {}
            }
        }
        freed.drain(..).for_each(|place| self.commands.give_back(place));
        self.released = freed;
    }
}
