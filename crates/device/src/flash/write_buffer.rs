//! The write buffer: units in order of arrival, kept until their program has completed, and the
//! commands that wait for that.
//!
//! Every admitted unit has a number; the units not yet in a program are always the newest, so one
//! number separates issued from waiting. A flush or FUA write waits for a range of numbers, and
//! each completed program subtracts its part of it. Overwriting a buffered unit does not replace
//! it: both copies are programmed, the later one last.

use std::collections::VecDeque;

use super::layout::UNIT_SECTORS;
use super::parameters::FlashBuffer;
use super::translation::NONE;

/// Largest capacity in units: copies of one unit are counted in 16 bits.
pub(super) const MOST_UNITS: u64 = 65_535;

/// A command that waits for the units `from..to` to be on flash.
#[derive(Copy, Clone, Debug)]
pub(super) struct Waiter {
    pub(super) command: u32,
    pub(super) from: u64,
    pub(super) to: u64,
    /// How many of them are not on flash.
    pub(super) left: u64,
    /// Whether it completes as soon as nothing is left.
    pub(super) armed: bool,
}

/// A program in progress.
#[derive(Copy, Clone, Debug)]
struct Program {
    /// Number of its first unit, and the number of units; zero units for a program of garbage
    /// collection.
    first: u64,
    units: u32,
}

/// Buffer, programs in progress, and waiting commands.
#[derive(Clone, Debug)]
pub(super) struct WriteBuffer {
    capacity: u64,
    /// Units admitted so far.
    admitted: u64,
    /// Units whose program has completed.
    programmed: u64,
    /// Units below this number are programmed even if they do not fill a program.
    forced_to: u64,
    /// Units not in a program yet; [`NONE`] if discarded meanwhile.
    waiting: VecDeque<u32>,
    /// Copies of each unit in the buffer.
    copies: Vec<u16>,
    program_units: u32,
    programs: Vec<Program>,
    /// The units of the programs, `program_units` places for each.
    units: Vec<u32>,
    free_programs: Vec<u32>,
    waiters: Vec<Waiter>,
}

impl WriteBuffer {
    pub(super) fn new(buffer: &FlashBuffer, logical_units: u32, program_units: u32) -> Self {
        let capacity = (buffer.write_buffer_kib * 2 / u64::from(UNIT_SECTORS)).clamp(1, MOST_UNITS);
        let programs = u32::try_from(buffer.max_programs.max(1)).unwrap_or(u32::MAX);
        Self {
            capacity,
            admitted: 0,
            programmed: 0,
            forced_to: 0,
            waiting: VecDeque::with_capacity(usize::try_from(capacity).unwrap_or(0)),
            copies: vec![0; logical_units as usize],
            program_units,
            programs: vec![Program { first: 0, units: 0 }; programs as usize],
            units: vec![NONE; programs as usize * program_units as usize],
            free_programs: (0..programs).rev().collect(),
            waiters: Vec::with_capacity(32),
        }
    }

    /// Whether a read of the unit is served from the buffer.
    #[inline]
    pub(super) fn holds(&self, unit: u32) -> bool {
        self.programmed != self.admitted && self.copies[unit as usize] > 0
    }

    #[inline]
    pub(super) fn has_room(&self) -> bool {
        self.admitted - self.programmed < self.capacity
    }

    /// Admits a unit; returns its number.
    #[inline]
    pub(super) fn admit(&mut self, unit: u32) -> u64 {
        self.copies[unit as usize] += 1;
        self.waiting.push_back(unit);
        self.admitted += 1;
        self.admitted - 1
    }

    /// Number of units admitted whose program has not completed.
    pub(super) fn unprogrammed(&self) -> u64 {
        self.admitted - self.programmed
    }

    /// Number of the next unit to be admitted.
    pub(super) fn admitted(&self) -> u64 {
        self.admitted
    }

    /// Whether units wait for a program.
    #[inline]
    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// All units before number `to` are programmed as soon as possible.
    pub(super) fn force(&mut self, to: u64) {
        self.forced_to = self.forced_to.max(to);
    }

    /// Whether there is data for a program: enough to fill it, or some that is forced.
    #[inline]
    pub(super) fn fills_program(&self) -> bool {
        let waiting = self.waiting.len();
        waiting >= self.program_units as usize || (waiting > 0 && self.admitted - (waiting as u64) < self.forced_to)
    }

    /// Whether nothing is buffered and no program is in progress, neither for the host nor for
    /// garbage collection.
    #[inline]
    pub(super) fn is_at_rest(&self) -> bool {
        self.programmed == self.admitted && self.free_programs.len() == self.programs.len()
    }

    #[inline]
    pub(super) fn may_program(&self) -> bool {
        !self.free_programs.is_empty()
    }

    /// Moves the oldest waiting units to a program, passing each to `place`; returns the program's
    /// number.
    #[inline]
    pub(super) fn begin_program(&mut self, mut place: impl FnMut(u32)) -> Option<u32> {
        let program = self.free_programs.pop()?;
        let first = self.admitted - self.waiting.len() as u64;
        let base = program as usize * self.program_units as usize;
        let mut units = 0;
        for slot in &mut self.units[base..base + self.program_units as usize] {
            let Some(unit) = self.waiting.pop_front() else { break };
            *slot = unit;
            units += 1;
            if unit != NONE {
                place(unit);
            }
        }
        self.programs[program as usize] = Program { first, units };
        Some(program)
    }

    /// Begins a program of garbage collection, which has no buffered units.
    pub(super) fn begin_foreign_program(&mut self) -> Option<u32> {
        let program = self.free_programs.pop()?;
        self.programs[program as usize] = Program { first: 0, units: 0 };
        Some(program)
    }

    /// Releases a program's units. Commands that waited only for it are passed to `done`, in order
    /// of arrival.
    #[inline]
    pub(super) fn end_program(&mut self, program: u32, done: impl FnMut(u32)) {
        let Program { first, units } = self.programs[program as usize];
        self.free_programs.push(program);
        let base = program as usize * self.program_units as usize;
        for &unit in &self.units[base..base + units as usize] {
            if unit != NONE {
                self.copies[unit as usize] -= 1;
            }
        }
        self.programmed += u64::from(units);
        if !self.waiters.is_empty() && units > 0 {
            self.tell_waiters(first, first + u64::from(units), done);
        }
    }

    fn tell_waiters(&mut self, first: u64, end: u64, mut done: impl FnMut(u32)) {
        self.waiters.retain_mut(|waiter| {
            waiter.left -= end.min(waiter.to).saturating_sub(first.max(waiter.from));
            let is_done = waiter.armed && waiter.left == 0;
            if is_done {
                done(waiter.command);
            }
            !is_done
        });
    }

    pub(super) fn wait(&mut self, waiter: Waiter) {
        self.waiters.push(waiter);
    }

    /// Lets the command complete as soon as its waiter has nothing left to wait for. If that is so
    /// already, removes the waiter and returns true.
    pub(super) fn arm(&mut self, command: u32) -> bool {
        let Some(index) = self.waiters.iter().position(|waiter| waiter.command == command) else { return true };
        self.waiters[index].armed = true;
        if self.waiters[index].left > 0 {
            return false;
        }
        self.waiters.remove(index);
        true
    }

    /// The data that the command waits for is programmed as soon as possible.
    pub(super) fn force_for(&mut self, command: u32) {
        if let Some(waiter) = self.waiters.iter().find(|waiter| waiter.command == command) {
            self.forced_to = self.forced_to.max(waiter.to);
        }
    }

    pub(super) fn forget_waiters(&mut self) {
        self.waiters.clear();
    }

    /// Drops waiting units that satisfy `is_discarded`; their places stay used until their program
    /// completes.
    pub(super) fn discard(&mut self, is_discarded: impl Fn(u32) -> bool) {
        for unit in self.waiting.iter_mut().filter(|unit| **unit != NONE) {
            if is_discarded(*unit) {
                self.copies[*unit as usize] -= 1;
                *unit = NONE;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FlashParameters;

    fn buffer() -> WriteBuffer {
        let parameters = FlashParameters::default().with(|flash| {
            flash.buffer.write_buffer_kib = 32;
            flash.buffer.max_programs = 2;
        });
        WriteBuffer::new(&parameters.buffer, 100, 4)
    }

    #[test]
    fn units_stay_until_their_program_ends() {
        let mut buffer = buffer();
        for unit in [7, 7, 8, 9, 10] {
            assert!(buffer.has_room());
            buffer.admit(unit);
        }
        let mut placed = Vec::new();
        let program = buffer.begin_program(|unit| placed.push(unit)).unwrap();
        assert_eq!(placed, [7, 7, 8, 9]);
        assert!(buffer.holds(7) && buffer.holds(10) && !buffer.fills_program());
        buffer.end_program(program, |_| {});
        assert!(!buffer.holds(7) && buffer.holds(10));
        assert_eq!(buffer.unprogrammed(), 1);
    }

    #[test]
    fn a_waiter_is_done_when_its_range_is_programmed_in_any_order() {
        let mut buffer = buffer();
        (0..6).for_each(|unit| _ = buffer.admit(unit));
        buffer.wait(Waiter { command: 3, from: 0, to: 6, left: 6, armed: false });
        buffer.force(6);
        let full = buffer.begin_program(|_| {}).unwrap();
        assert!(buffer.fills_program(), "two units are forced");
        buffer.admit(50);
        let partial = buffer.begin_program(|_| {}).unwrap();
        let mut done = Vec::new();
        buffer.end_program(partial, |command| done.push(command));
        assert!(!buffer.arm(3), "the first program is on its way");
        buffer.end_program(full, |command| done.push(command));
        assert_eq!(done, [3]);
        assert!(buffer.arm(3), "no waiter has this number");
    }

    #[test]
    fn a_discarded_unit_is_not_placed() {
        let mut buffer = buffer();
        (0..4).for_each(|unit| _ = buffer.admit(unit));
        buffer.discard(|unit| unit == 1 || unit == 2);
        assert!(!buffer.holds(1) && buffer.holds(0));
        let mut placed = Vec::new();
        let program = buffer.begin_program(|unit| placed.push(unit)).unwrap();
        assert_eq!(placed, [0, 3]);
        buffer.end_program(program, |_| {});
        assert_eq!(buffer.unprogrammed(), 0);
    }
}
