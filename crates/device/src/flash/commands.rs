//! Commands in flight, and the order in which the firmware takes them.
//!
//! A slab of small records, reused last in first out, so that the few in use stay in the CPU's
//! cache. With several submission queues the firmware takes one command of each non-empty queue in
//! turn (round robin); with one queue the order is known at submission.

use hoistway_block::{Nanos, Status};

use crate::interface::NEVER;

const NIL: u32 = u32::MAX;

/// What a command requires.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Work {
    Read,
    Write,
    /// Writes zeroes: buffered as a write, but no data crosses the link.
    Zero,
    /// Drops the mapping of whole units (4 KiB, the granularity of the mapping).
    Unmap,
    Flush,
    Reject(Status),
}

/// A command in flight.
#[derive(Copy, Clone, Debug)]
pub(super) struct InFlight {
    pub(super) tag: u32,
    pub(super) work: Work,
    /// Whether it completes only when its data is on flash.
    pub(super) until_programmed: bool,
    /// Sectors between the start of its first unit and its own start.
    pub(super) offset: u8,
    /// First unit that it touches, and the number of units.
    pub(super) unit: u32,
    pub(super) units: u32,
    pub(super) sectors: u32,
    /// Of a read: transfers to the host that have not finished, one for each flash page that is
    /// sensed and one for all data that needs no flash read; the number of units until the read
    /// starts. Of a write: units not admitted to the buffer.
    pub(super) left: u32,
    /// The next one in its submission queue, or in the list of free records.
    pub(super) next: u32,
}

#[derive(Copy, Clone, Debug)]
struct Queue {
    first: u32,
    last: u32,
}

impl InFlight {
    /// A command for `units` units from `unit` on.
    #[inline]
    pub(super) fn new(tag: u32, work: Work, unit: u32, units: u32) -> Self {
        Self { tag, work, until_programmed: false, offset: 0, unit, units, sectors: 0, left: units, next: NIL }
    }
}

/// The slab, the submission queues and the firmware's time.
#[derive(Clone, Debug)]
pub(super) struct Commands {
    slab: Vec<InFlight>,
    free: u32,
    in_flight: usize,
    /// Commands that are not reads.
    others: usize,
    queues: Vec<Queue>,
    non_empty: u128,
    /// The queue whose turn it is.
    turn: u32,
    serial_ns: Nanos,
    serial_free: Nanos,
}

impl Commands {
    pub(super) fn new(hardware_queues: u16, serial_ns: Nanos) -> Self {
        Self {
            slab: Vec::with_capacity(64),
            free: NIL,
            in_flight: 0,
            others: 0,
            queues: vec![Queue { first: NIL, last: NIL }; usize::from(hardware_queues).clamp(1, 128)],
            non_empty: 0,
            turn: 0,
            serial_ns,
            serial_free: 0,
        }
    }

    #[inline]
    pub(super) fn get(&self, command: u32) -> &InFlight {
        &self.slab[command as usize]
    }

    #[inline]
    pub(super) fn get_mut(&mut self, command: u32) -> &mut InFlight {
        &mut self.slab[command as usize]
    }

    #[inline]
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Whether anything but reads is in flight.
    #[inline]
    pub(super) fn has_others(&self) -> bool {
        self.others > 0
    }

    // Always inlined, so that the command is constructed in place.
    #[inline(always)]
    pub(super) fn insert(&mut self, command: InFlight) -> u32 {
        self.in_flight += 1;
        self.others += usize::from(command.work != Work::Read);
        if self.free == NIL {
            self.grow();
        }
        let record = self.free;
        let place = &mut self.slab[record as usize];
        self.free = place.next;
        *place = command;
        record
    }

    /// Adds a free record.
    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        self.slab.push(InFlight::new(0, Work::Flush, 0, 0));
        self.free = u32::try_from(self.slab.len() - 1).expect("fewer than 2^32 commands are in flight");
    }

    /// Frees the record; returns the command's tag.
    #[inline]
    pub(super) fn remove(&mut self, command: u32) -> u32 {
        let record = &mut self.slab[command as usize];
        record.next = self.free;
        self.free = command;
        self.in_flight -= 1;
        self.others -= usize::from(record.work != Work::Read);
        record.tag
    }

    /// When the firmware will have processed a command that arrives now. `None` if there are
    /// several submission queues and the firmware may take a command of another queue first.
    #[inline]
    pub(super) fn take_up(&mut self, now: Nanos) -> Option<Nanos> {
        if self.queues.len() > 1 && (self.non_empty != 0 || self.serial_free > now) {
            return None;
        }
        self.serial_free = self.serial_free.max(now) + self.serial_ns;
        Some(self.serial_free)
    }

    /// Appends a command to its submission queue.
    #[inline]
    pub(super) fn enqueue(&mut self, queue: u16, command: u32) {
        let index = usize::from(queue) % self.queues.len();
        let queue = &mut self.queues[index];
        self.slab[command as usize].next = NIL;
        if self.non_empty & (1 << index) == 0 {
            *queue = Queue { first: command, last: command };
            self.non_empty |= 1 << index;
        } else {
            self.slab[queue.last as usize].next = command;
            queue.last = command;
        }
    }

    /// When the firmware takes the next queued command.
    #[inline]
    pub(super) fn fetch_at(&self) -> Nanos {
        if self.non_empty == 0 { NEVER } else { self.serial_free }
    }

    /// Takes the next queued command; returns it and the time when the firmware has processed it.
    #[inline]
    pub(super) fn fetch(&mut self) -> Option<(u32, Nanos)> {
        if self.non_empty == 0 {
            return None;
        }
        let behind = self.non_empty & (u128::MAX << self.turn);
        let index = (if behind == 0 { self.non_empty } else { behind }).trailing_zeros();
        self.turn = (index + 1) % 128;
        let queue = &mut self.queues[index as usize];
        let command = queue.first;
        queue.first = self.slab[command as usize].next;
        if queue.first == NIL {
            self.non_empty &= !(1 << index);
        }
        self.serial_free += self.serial_ns;
        Some((command, self.serial_free))
    }

    pub(super) fn clear(&mut self, now: Nanos) {
        self.slab.clear();
        self.free = NIL;
        (self.in_flight, self.others) = (0, 0);
        self.non_empty = 0;
        self.serial_free = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(tag: u32) -> InFlight {
        InFlight::new(tag, Work::Read, 0, 1)
    }

    #[test]
    fn queues_are_served_in_turn_one_command_each() {
        let mut commands = Commands::new(4, 100);
        assert_eq!(commands.take_up(50), Some(150), "the firmware is idle");
        for (queue, tag) in [(2, 20), (2, 21), (0, 1), (3, 30), (2, 22), (0, 2)] {
            assert_eq!(commands.take_up(60), None);
            let record = commands.insert(command(tag));
            commands.enqueue(queue, record);
        }
        assert_eq!(commands.fetch_at(), 150);
        let mut order = Vec::new();
        while let Some((record, at)) = commands.fetch() {
            order.push((commands.remove(record), at));
        }
        assert_eq!(order, [(1, 250), (20, 350), (30, 450), (2, 550), (21, 650), (22, 750)]);
        assert_eq!((commands.fetch_at(), commands.in_flight()), (NEVER, 0));
    }
}
