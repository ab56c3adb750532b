//! Writes: over the link into the buffer, from there by programs to flash, interleaved with garbage
//! collection.

use hoistway_block::{Nanos, Status};

use super::commands::{InFlight, Work};
use super::layout::UNIT_SECTORS;
use super::operations::Event;
use super::slc::HostProgram;
use super::translation::Writer;
use super::write_buffer::Waiter;
use super::{Flash, Source};
use crate::interface::Completion;

impl Flash {
    /// The transfer of a write's data over the link begins.
    #[inline]
    pub(super) fn transfer_in(&mut self, now: Nanos, command: u32) {
        let write = self.commands.get(command);
        let sectors = if write.work == Work::Write { write.sectors } else { 0 };
        let arrival = self.link.send_to_device(now, sectors);
        self.stages.arriving.push(arrival, command);
        self.agenda.set_of_writes(Source::Arrived, self.stages.arriving.next());
    }

    /// A write's data has arrived.
    #[inline]
    pub(super) fn arrived(&mut self, now: Nanos, command: u32) {
        self.admitting.push_back(command);
        self.idle.wrote(now);
        self.admit(now);
        self.write_back(now);
    }

    /// Admits waiting data to the buffer, in order. A write enters unit by unit, since it may be
    /// larger than the buffer, and is acknowledged when its last unit has entered.
    #[inline]
    fn admit(&mut self, now: Nanos) {
        while let Some(&command) = self.admitting.front() {
            let write = self.commands.get_mut(command);
            while write.left > 0 && self.buffer.has_room() {
                let number = self.buffer.admit(write.unit);
                if write.until_programmed && write.left == write.units {
                    let (from, left) = (number, u64::from(write.units));
                    self.buffer.wait(Waiter { command, from, to: from + left, left, armed: true });
                }
                write.unit = self.layout.following(write.unit);
                write.left -= 1;
            }
            if write.until_programmed {
                self.buffer.force(self.buffer.admitted());
            }
            if write.left > 0 {
                return;
            }
            self.admitting.pop_front();
            if !write.until_programmed {
                self.stages.acknowledged.push(now + self.latencies.write_ack_ns, command);
                self.agenda.set_of_writes(Source::Acknowledged, self.stages.acknowledged.next());
            }
        }
    }

    /// Issues programs while the back end accepts them: garbage collection's if its pace, an idle
    /// host or lack of room requires it, else the host's.
    #[inline]
    pub(super) fn write_back(&mut self, now: Nanos) {
        loop {
            self.collect(now);
            if !self.buffer.may_program() {
                break;
            }
            let host_is_blocked = self.collector.blocks_host(&self.translation);
            let host_has_data = self.buffer.fills_program();
            let may_move = self.collector.has_credit() || !host_has_data || host_is_blocked;
            let is_issued =
                (may_move && self.program_moved(now)) || (host_has_data && !host_is_blocked && self.program_host(now));
            if !is_issued {
                break;
            }
        }
        if !self.idle.is_running() && self.buffer.has_waiting() {
            self.idle.start(now);
            self.agenda.set_of_writes(Source::WritesIdle, self.idle.fires_at());
        }
    }

    /// The idle time has passed since a write, though possibly not since the last.
    pub(super) fn writes_idle(&mut self, now: Nanos) {
        let is_idle = self.idle.fired(now);
        self.agenda.set_of_writes(Source::WritesIdle, self.idle.fires_at());
        if is_idle && self.buffer.has_waiting() {
            self.buffer.force(self.buffer.admitted());
        }
        self.write_back(now);
    }

    /// Reads ahead in victims and erases those that have become empty.
    #[inline]
    fn collect(&mut self, now: Nanos) {
        loop {
            while let Some(page) = self.collector.next_page(&mut self.translation, &self.layout) {
                self.sense_victim(now, page);
            }
            let Some(superblock) = self.collector.next_emptied(&self.translation) else { return };
            self.dies.erase_all(now);
            self.translation.erase(superblock);
        }
    }

    /// The valid units of a victim's page have been read.
    pub(super) fn collected(&mut self, now: Nanos, page: u32) {
        self.collector.page_read(page, &self.translation, &self.layout);
        self.write_back(now);
    }

    /// Programs the oldest buffered units; false if no superblock is available.
    fn program_host(&mut self, now: Nanos) -> bool {
        if self.translation.must_open(Writer::Host) {
            if !self.translation.open(Writer::Host, &self.layout) {
                return false;
            }
            self.collector.set_pace(&self.translation, &self.layout);
        }
        let place = self.translation.next_place(Writer::Host);
        let (translation, layout) = (&mut self.translation, &self.layout);
        let mut units = 0;
        let program = self.buffer.begin_program(|unit| {
            translation.write(unit, layout);
            units += 1;
        });
        let Some(program) = program else { return false };
        self.collector.earn(units);
        let HostProgram { start, service_ns } = self.slc.program(now, self.layout.program_units);
        self.issue(start, service_ns, Writer::Host, place, program);
        true
    }

    /// Programs units that garbage collection has read; false if there are none or no superblock is
    /// available.
    fn program_moved(&mut self, now: Nanos) -> bool {
        if !self.collector.fills_program(&self.layout) {
            return false;
        }
        if self.translation.must_open(Writer::Collector) && !self.translation.open(Writer::Collector, &self.layout) {
            return false;
        }
        let place = self.translation.next_place(Writer::Collector);
        if self.collector.move_units(&mut self.translation, &self.layout) == 0 {
            // All units were overwritten since they were read: nothing to program, but the queue is
            // shorter.
            return true;
        }
        let Some(program) = self.buffer.begin_foreign_program() else { return false };
        self.issue(now, self.dies.program_ns(), Writer::Collector, place, program);
        true
    }

    /// Reserves channel and die for the program unit at `place`, however much of it is filled.
    #[inline]
    fn issue(&mut self, start: Nanos, service_ns: Nanos, writer: Writer, place: u32, program: u32) {
        self.translation.pad(writer, &self.layout);
        let end = self.dies.program(start, self.layout.die_of(place), service_ns, &self.layout);
        self.schedule(end, Event::programmed(program));
    }

    /// A program completed: its data leaves the buffer, waiting commands are told, and there is
    /// room for more.
    #[inline]
    pub(super) fn programmed(&mut self, now: Nanos, program: u32, out: &mut Vec<Completion>) {
        let commands = &mut self.commands;
        self.buffer.end_program(program, |command| {
            out.push(Completion { at_ns: now, tag: commands.remove(command), status: Status::Ok });
        });
        self.admit(now);
        self.write_back(now);
    }

    /// A flush begins: the data that it waits for is programmed at once, full programs or not.
    pub(super) fn start_flush(&mut self, now: Nanos, command: u32, out: &mut Vec<Completion>) {
        if self.buffer.arm(command) {
            self.complete(now, command, Status::Ok, out);
            return;
        }
        self.buffer.force_for(command);
        self.write_back(now);
    }

    /// Drops the mapping of the units that are wholly within the command's range.
    pub(super) fn unmap(&mut self, command: u32) {
        let &InFlight { unit, offset, sectors, .. } = self.commands.get(command);
        let ends_in = (u32::from(offset) + sectors % UNIT_SECTORS) / UNIT_SECTORS;
        let whole = (sectors / UNIT_SECTORS + ends_in).saturating_sub(u32::from(offset > 0));
        let first = if offset > 0 { self.layout.following(unit) } else { unit };
        let units = whole.min(self.layout.logical_units);
        let logical_units = self.layout.logical_units;
        let mut unit = first;
        let mut is_buffered = false;
        for _ in 0..units {
            is_buffered |= self.buffer.holds(unit);
            self.translation.unmap(unit, &self.layout);
            unit = self.layout.following(unit);
        }
        if is_buffered {
            self.buffer.discard(|unit| {
                let distance = if unit >= first { unit - first } else { unit + (logical_units - first) };
                distance < units
            });
        }
    }
}
