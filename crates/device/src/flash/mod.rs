//! A flash SSD: channels, dies, a host link, a write buffer, a translation layer with garbage
//! collection.
//!
//! * Models: latency and rate of reads with queueing at dies, channels and link; writes at the
//!   speed of the buffer until the dies cannot keep up, then at the speed of programming and
//!   collection (the write cliff); write amplification of greedy garbage collection; reads that
//!   wait for a program on their die.
//! * Suited for SATA and NVMe drives. Not modelled: single-level-cell caches, misses in the
//!   controller's cache of the mapping, wear levelling, retries.
//! * Method: a resource (die, channel, link) is represented by the time at which it becomes free,
//!   as in FEMU. Events exist only where they can change the order of operations: when the firmware
//!   takes a command, a page has been read from the cells, a write has arrived, or a program
//!   completes. Sources: MQSim, SimpleSSD, FEMU; docs/specifications/devices.md, section 6.
//! * Cost: 150 to 230 ns per 4 KiB read, issuer, queue and policy included
//!   (docs/reference/performance.md); 10 bytes per 4 KiB of simulated capacity; nothing is
//!   allocated after the peak of commands in flight.
//!
//! Modules: [`layout`] placement · [`translation`] mapping and superblocks · [`dies`] reservations
//! · [`commands`] firmware and submission queues · [`operations`] operations in progress ·
//! [`agenda`] next event · [`read`], [`early`] · [`mod@write`] with [`write_buffer`] and
//! [`collect`].

mod agenda;
mod collect;
mod commands;
mod dies;
mod early;
mod idle_timer;
mod layout;
mod link;
mod operations;
mod parameters;
mod precondition;
mod read;
mod slc;
mod stage;
mod translation;
mod write;
mod write_buffer;

use std::collections::VecDeque;

use hoistway_block::random::Stream;
use hoistway_block::{Flags, Nanos, Operation, Status};

pub(crate) use parameters::FLASH;
pub use parameters::{FlashBuffer, FlashController, FlashDies, FlashHistory, FlashLayout, FlashParameters, FlashSlc};
pub use translation::FlashCounters;

use crate::activity::Activity;
use crate::interface::{Command, Completion, Counters, Device, DeviceInfo, Submit};
use agenda::{Agenda, Source};
use collect::Collector;
use commands::{Commands, InFlight, Work};
use dies::Dies;
use early::EarlyReads;
use idle_timer::IdleTimer;
use layout::{Layout, UNIT_SECTORS};
use link::Link;
use operations::{Event, Operations};
use precondition::preconditioned;
use read::SensedPage;
use slc::SlcCache;
use stage::Stage;
use translation::Translation;
use write_buffer::{Waiter, WriteBuffer};

/// The commands at each stage.
#[derive(Clone, Debug)]
struct Stages {
    starting: Stage,
    /// How many of those that wait for their start have had their entries of the mapping loaded
    /// into the CPU's cache.
    prefetched: usize,
    transferring: Stage,
    arriving: Stage,
    read_done: Stage,
    acknowledged: Stage,
}

/// Fixed latencies of commands.
#[derive(Copy, Clone, Debug)]
struct Latencies {
    /// Of a read, flush or discard, pipelined.
    command_ns: Nanos,
    /// Of a write once its data is in the buffer.
    write_ack_ns: Nanos,
}

/// The flash device.
#[derive(Clone, Debug)]
pub struct Flash {
    info: DeviceInfo,
    total_depth: usize,
    layout: Layout,
    commands: Commands,
    stages: Stages,
    operations: Operations,
    early: EarlyReads,
    dies: Dies,
    /// With `die_hold`, the pages that wait for each die; empty without.
    holding: Vec<read::HeldDie>,
    link: Link,
    translation: Translation,
    buffer: WriteBuffer,
    collector: Collector,
    slc: SlcCache,
    /// Writes whose data has arrived but is not all in the buffer.
    admitting: VecDeque<u32>,
    idle: IdleTimer,
    agenda: Agenda,
    latencies: Latencies,
    power_loss_protection: bool,
    counters: Counters,
}

impl Flash {
    /// What channels and dies do at `now`.
    pub(crate) fn activity(&self, now: Nanos) -> Activity {
        self.dies.activity(now)
    }

    /// A device with these settings, named `name`; `stream` provides jitter and preconditioning.
    /// The settings have passed [`FlashParameters::check`].
    pub fn new(name: &str, parameters: &FlashParameters, mut stream: Stream) -> Self {
        let info = DeviceInfo {
            name: name.to_owned(),
            capacity_sectors: parameters.layout.capacity_sectors,
            logical_block_bytes: 512,
            rotational: false,
            hardware_queues: u16::try_from(parameters.controller.hardware_queues).unwrap_or(u16::MAX),
            depth: u32::try_from(parameters.controller.depth).unwrap_or(u32::MAX),
            max_sectors: u32::try_from(parameters.controller.max_sectors).unwrap_or(u32::MAX),
            max_segments: 128,
            volatile_cache: parameters.buffer.power_loss_protection == 0,
            fua: true,
            optimal_io_bytes: 0,
            ranges: Vec::new(),
        };
        let layout = Layout::new(&parameters.layout);
        let translation = preconditioned(parameters, &layout, &mut stream);
        let stage = || Stage::with_capacity(63);
        let dies = layout.dies as usize;
        Self {
            total_depth: info.total_depth(),
            commands: Commands::new(info.hardware_queues, parameters.controller.serial_ns),
            stages: Stages {
                starting: stage(),
                prefetched: 0,
                transferring: stage(),
                arriving: stage(),
                read_done: stage(),
                acknowledged: stage(),
            },
            operations: Operations::new(),
            early: EarlyReads::new(),
            dies: Dies::new(&parameters.dies, &layout, stream),
            holding: if parameters.dies.die_hold == 0 { Vec::new() } else { vec![read::HeldDie::default(); dies] },
            link: Link::new(&parameters.controller),
            translation,
            buffer: WriteBuffer::new(&parameters.buffer, layout.logical_units, layout.program_units),
            collector: Collector::new(parameters.layout.gc_low, parameters.layout.gc_reserve, &layout),
            slc: SlcCache::new(parameters, &layout),
            admitting: VecDeque::with_capacity(64),
            idle: IdleTimer::STOPPED,
            agenda: Agenda::new(),
            latencies: Latencies {
                command_ns: parameters.controller.command_ns,
                write_ack_ns: parameters.controller.write_ack_ns,
            },
            power_loss_protection: parameters.buffer.power_loss_protection != 0,
            counters: Counters::default(),
            layout,
            info,
        }
    }

    /// The writes to flash so far.
    pub fn flash_counters(&self) -> FlashCounters {
        self.translation.counters()
    }

    /// Converts a command to units.
    #[inline(always)]
    fn in_flight(&self, command: &Command) -> InFlight {
        let (first_sector, sectors) = (command.extent.first_sector, command.extent.sectors);
        let unit_sectors = u64::from(UNIT_SECTORS);
        let offset = u8::try_from(first_sector % unit_sectors).unwrap_or(0);
        let units = (u64::from(offset) + u64::from(sectors)).div_ceil(unit_sectors);
        let units = u32::try_from(units).unwrap_or(u32::MAX);
        let work = match (self.info.rejects(command), command.operation) {
            (Some(status), _) => Work::Reject(status),
            (None, Operation::Read) => Work::Read,
            (None, Operation::Flush) => Work::Flush,
            (None, Operation::Write) if sectors > 0 => Work::Write,
            (None, Operation::WriteZeroes) if sectors > 0 && command.flags.contains(Flags::NO_UNMAP) => Work::Zero,
            (None, _) => Work::Unmap,
        };
        let until_programmed = command.flags.contains(Flags::FUA) && !self.power_loss_protection;
        let unit = self.layout.unit_of(first_sector);
        InFlight { offset, sectors, until_programmed, ..InFlight::new(command.tag, work, unit, units) }
    }

    /// The firmware has processed a command at `at`: it continues to the link or, after a fixed
    /// time, to the flash.
    #[inline]
    fn hand_on(&mut self, now: Nanos, command: u32, at: Nanos) {
        let work = self.commands.get(command).work;
        match work {
            Work::Read if self.begin_early(now, command, at + self.latencies.command_ns) => {}
            Work::Write | Work::Zero => {
                self.stages.transferring.push(at, command);
                self.agenda.set_of_writes(Source::Transfer, self.stages.transferring.next());
            }
            _ => {
                self.stages.starting.push(at + self.latencies.command_ns, command);
                self.agenda.set(Source::Start, self.stages.starting.next());
            }
        }
    }

    /// An operation of a die or of its channel begins at `now` and ends at `at`.
    #[inline]
    fn schedule(&mut self, at: Nanos, event: Event) {
        self.operations.insert(at, event);
        self.agenda.set(Source::Operation, self.operations.next());
    }

    #[inline]
    fn complete(&mut self, at_ns: Nanos, command: u32, status: Status, out: &mut Vec<Completion>) {
        out.push(Completion { at_ns, tag: self.commands.remove(command), status });
    }

    /// Processes everything up to and including `latest`. With `stops_from`, stops at the time of
    /// the first completion, but not before `stops_from`. Returns the time at which it stopped, or
    /// else the time of the next event.
    fn pass(&mut self, mut latest: Nanos, stops_from: Option<Nanos>, out: &mut Vec<Completion>) -> Nanos {
        while let Some((at, source)) = self.agenda.first_until(latest) {
            self.step(at, source, out);
            self.agenda.settle();
            if !out.is_empty()
                && let Some(now) = stops_from
            {
                latest = at.max(now);
            }
        }
        if stops_from.is_some() && !out.is_empty() { latest } else { self.agenda.first_at() }
    }

    /// Processes one event.
    #[inline]
    fn step(&mut self, now: Nanos, source: Source, out: &mut Vec<Completion>) {
        match source {
            Source::ReadDone => {
                if let Some(command) = self.stages.read_done.pop() {
                    self.complete(now, command, Status::Ok, out);
                }
                self.agenda.set(source, self.stages.read_done.next());
            }
            Source::Acknowledged => {
                if let Some(command) = self.stages.acknowledged.pop() {
                    self.complete(now, command, Status::Ok, out);
                }
                self.agenda.set_of_writes(source, self.stages.acknowledged.next());
            }
            Source::Operation => {
                let event = self.operations.pop();
                self.agenda.set(source, self.operations.next());
                match event {
                    Some(Event { what: Event::COLLECTED, number, .. }) => self.collected(now, number),
                    Some(Event { what: Event::PROGRAMMED, number, .. }) => self.programmed(now, number, out),
                    Some(Event { what, number, .. }) => self.sensed(now, SensedPage::from_word(what, number)),
                    None => {}
                }
            }
            Source::Fetch => {
                if let Some((command, at)) = self.commands.fetch() {
                    self.hand_on(now, command, at);
                }
                self.agenda.set(source, self.commands.fetch_at());
            }
            Source::Transfer => {
                if let Some(command) = self.stages.transferring.pop() {
                    self.transfer_in(now, command);
                }
                self.agenda.set_of_writes(source, self.stages.transferring.next());
            }
            Source::Arrived => {
                if let Some(command) = self.stages.arriving.pop() {
                    self.arrived(now, command);
                }
                self.agenda.set_of_writes(source, self.stages.arriving.next());
            }
            Source::Start => {
                if self.stages.prefetched == 0 {
                    self.prefetch_mapping();
                }
                self.stages.prefetched -= 1;
                if let Some(command) = self.stages.starting.pop() {
                    self.start(now, command, out);
                }
                self.agenda.set(source, self.stages.starting.next());
            }
            Source::WritesIdle => self.writes_idle(now),
        }
    }

    /// Prefetches the mapping for all commands that wait for their start.
    #[inline]
    fn prefetch_mapping(&mut self) {
        self.stages.prefetched = self.stages.starting.len();
        let units = self.stages.starting.commands().map(|command| self.commands.get(command).unit);
        self.translation.prefetch(units);
    }

    #[inline]
    fn start(&mut self, now: Nanos, command: u32, out: &mut Vec<Completion>) {
        match self.commands.get(command).work {
            Work::Flush => self.start_flush(now, command, out),
            Work::Unmap => {
                self.unmap(command);
                self.complete(now, command, Status::Ok, out);
            }
            Work::Reject(status) => {
                self.counters.errors += 1;
                self.complete(now, command, status, out);
            }
            Work::Read | Work::Write | Work::Zero => self.start_read(now, command),
        }
    }
}

impl Device for Flash {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    #[inline]
    fn submit(&mut self, now: Nanos, command: &Command) -> Submit {
        if self.commands.in_flight() >= self.total_depth {
            return Submit::Busy;
        }
        self.counters.count(command.operation, command.extent.sectors);
        let in_flight = self.in_flight(command);
        if in_flight.work != Work::Read {
            self.take_early_back(now);
        }
        let record = self.commands.insert(in_flight);
        if in_flight.work == Work::Flush && !self.power_loss_protection {
            // The flush waits for the data that is in the buffer now, and not for later writes.
            let (to, left) = (self.buffer.admitted(), self.buffer.unprogrammed());
            if left > 0 {
                self.buffer.wait(Waiter { command: record, from: 0, to, left, armed: false });
            }
        }
        if let Some(at) = self.commands.take_up(now) {
            if in_flight.work == Work::Read && !self.stages.starting.is_empty() {
                // Other commands start before this read, so the next event stays the same.
                self.stages.starting.push(at + self.latencies.command_ns, record);
                return Submit::Accepted;
            }
            self.hand_on(now, record, at);
        } else {
            self.commands.enqueue(command.hardware_queue.0, record);
            let fetch_at = self.commands.fetch_at();
            self.agenda.set(Source::Fetch, fetch_at);
        }
        self.agenda.settle();
        Submit::Accepted
    }

    #[inline]
    fn next_event(&self) -> Nanos {
        self.agenda.first_at()
    }

    #[inline]
    fn advance(&mut self, now: Nanos, out: &mut Vec<Completion>) {
        if self.agenda.first_at() <= now {
            self.pass(now, None, out);
        }
    }

    #[inline]
    fn advance_to_completion(&mut self, now: Nanos, before: Nanos, out: &mut Vec<Completion>) -> Nanos {
        self.pass(before.saturating_sub(1), Some(now), out).max(now)
    }

    fn is_idle(&self) -> bool {
        self.commands.in_flight() == 0 && self.operations.is_empty() && !self.buffer.has_waiting()
    }

    fn counters(&self) -> Counters {
        self.counters
    }

    /// The commands are dropped; buffered data is still programmed, and collection continues.
    fn reset(&mut self, now: Nanos) {
        self.take_early_back(now);
        self.commands.clear(now);
        for stage in [
            &mut self.stages.starting,
            &mut self.stages.transferring,
            &mut self.stages.arriving,
            &mut self.stages.read_done,
            &mut self.stages.acknowledged,
        ] {
            stage.clear();
        }
        self.stages.prefetched = 0;
        self.admitting.clear();
        self.buffer.forget_waiters();
        self.link.reset(now);
        self.operations.retain(now, |event| !event.is_host_page());
        self.forget_held_pages(now);
        self.agenda = Agenda::new();
        self.agenda.set(Source::Operation, self.operations.next());
        self.idle.reset(now, self.buffer.has_waiting());
        self.agenda.set_of_writes(Source::WritesIdle, self.idle.fires_at());
        self.agenda.settle();
    }
}
