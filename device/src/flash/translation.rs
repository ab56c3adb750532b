//! The flash translation layer's state: where each unit lies, and which superblocks have room.
//!
//! Two tables of 4 bytes per 4 KiB unit, logical to physical and back; an overwritten unit's old place is cleared, so
//! a place of the second table is either the unit that lies there or [`NONE`]. Functional: nothing here takes time,
//! which is what lets the preconditioning and the timed device share it.

use std::collections::VecDeque;

use super::layout::Layout;

/// No unit, no place.
pub(super) const NONE: u32 = u32::MAX;

/// Who writes: each has a superblock of its own open, so that moved (cold) data does not mix with new.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Writer {
    Host = 0,
    Collector = 1,
}

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum State {
    Free,
    Open,
    Full,
    Victim,
}

/// The superblock a writer fills.
#[derive(Copy, Clone, Debug)]
struct OpenSuperblock {
    /// First physical unit not written yet.
    next: u32,
    /// Behind its last unit; equal to `next` when there is none open.
    end: u32,
}

/// What has been written to flash, in units of 4 KiB, since the device was made; preconditioning with random
/// overwrites counts, the sequential fill does not.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct FlashCounters {
    /// Written for the host.
    pub host_units: u64,
    /// Moved by garbage collection.
    pub moved_units: u64,
    /// Left empty because a program was not full.
    pub padded_units: u64,
    /// Superblocks erased.
    pub erased_superblocks: u64,
}

impl FlashCounters {
    /// Units written to flash per unit written by the host, between an earlier reading and this one.
    pub fn write_amplification_since(&self, earlier: &FlashCounters) -> f64 {
        let host = (self.host_units - earlier.host_units) as f64;
        (host + (self.moved_units - earlier.moved_units) as f64) / host
    }
}

/// Mapping, valid counts, states of superblocks.
#[derive(Clone, Debug)]
pub(super) struct Translation {
    physical_of: Vec<u32>,
    logical_of: Vec<u32>,
    valid: Vec<u32>,
    states: Vec<State>,
    free: VecDeque<u32>,
    open: [OpenSuperblock; 2],
    counters: FlashCounters,
}

impl Translation {
    /// All units unmapped, all superblocks free.
    pub(super) fn new(layout: &Layout) -> Self {
        let superblocks = layout.superblocks as usize;
        Self {
            physical_of: vec![NONE; layout.logical_units as usize],
            logical_of: vec![NONE; layout.physical_units as usize],
            valid: vec![0; superblocks],
            states: vec![State::Free; superblocks],
            free: (0..layout.superblocks).collect(),
            open: [OpenSuperblock { next: 0, end: 0 }; 2],
            counters: FlashCounters::default(),
        }
    }

    /// Where a unit lies, or [`NONE`].
    #[inline]
    pub(super) fn physical_of(&self, unit: u32) -> u32 {
        self.physical_of[unit as usize]
    }

    /// Which unit lies there, or [`NONE`].
    #[inline]
    pub(super) fn logical_of(&self, physical: u32) -> u32 {
        self.logical_of[physical as usize]
    }

    /// Superblocks erased and not yet open.
    #[inline]
    pub(super) fn free_superblocks(&self) -> usize {
        self.free.len()
    }

    #[inline]
    pub(super) fn valid_units(&self, superblock: u32) -> u32 {
        self.valid[superblock as usize]
    }

    #[inline]
    pub(super) fn is_victim(&self, superblock: u32) -> bool {
        self.states[superblock as usize] == State::Victim
    }

    pub(super) fn counters(&self) -> FlashCounters {
        self.counters
    }

    /// Whether the writer's next unit needs a superblock to be opened first.
    #[inline]
    pub(super) fn must_open(&self, writer: Writer) -> bool {
        let open = self.open[writer as usize];
        open.next == open.end
    }

    /// Opens the superblock that has been free longest; false if none is free.
    pub(super) fn open(&mut self, writer: Writer, layout: &Layout) -> bool {
        let Some(superblock) = self.free.pop_front() else { return false };
        self.states[superblock as usize] = State::Open;
        let next = superblock * layout.superblock_units;
        self.open[writer as usize] = OpenSuperblock { next, end: next + layout.superblock_units };
        true
    }

    /// Where the writer's next unit will lie, if a superblock is open.
    #[inline]
    pub(super) fn next_place(&self, writer: Writer) -> u32 {
        self.open[writer as usize].next
    }

    /// Writes a unit to the open superblock; its old place becomes garbage.
    #[inline]
    pub(super) fn append(&mut self, writer: Writer, unit: u32, layout: &Layout) {
        let place = self.take_place(writer, layout);
        self.unmap(unit, layout);
        self.physical_of[unit as usize] = place;
        self.logical_of[place as usize] = unit;
        self.valid[layout.superblock_of(place) as usize] += 1;
        match writer {
            Writer::Host => self.counters.host_units += 1,
            Writer::Collector => self.counters.moved_units += 1,
        }
    }

    /// Leaves places empty up to the end of the program unit that is being filled.
    pub(super) fn pad(&mut self, writer: Writer, layout: &Layout) {
        while !self.open[writer as usize].next.is_multiple_of(layout.program_units) {
            self.take_place(writer, layout);
            self.counters.padded_units += 1;
        }
    }

    #[inline]
    fn take_place(&mut self, writer: Writer, layout: &Layout) -> u32 {
        let open = &mut self.open[writer as usize];
        debug_assert!(open.next < open.end, "a superblock is open");
        let place = open.next;
        open.next += 1;
        if open.next == open.end {
            self.states[layout.superblock_of(place) as usize] = State::Full;
        }
        place
    }

    /// Forgets where a unit lies.
    #[inline]
    pub(super) fn unmap(&mut self, unit: u32, layout: &Layout) {
        let old = std::mem::replace(&mut self.physical_of[unit as usize], NONE);
        if old != NONE {
            self.logical_of[old as usize] = NONE;
            self.valid[layout.superblock_of(old) as usize] -= 1;
        }
    }

    /// The full superblock with the fewest valid units, lowest number first, if collecting it gains anything.
    pub(super) fn best_victim(&self, layout: &Layout) -> Option<u32> {
        let mut best = (layout.superblock_units, NONE);
        for ((&valid, &state), superblock) in self.valid.iter().zip(&self.states).zip(0..) {
            if state == State::Full && valid < best.0 {
                best = (valid, superblock);
            }
        }
        (best.1 != NONE).then_some(best.1)
    }

    /// Marks a full superblock as the one being collected.
    pub(super) fn begin_collecting(&mut self, superblock: u32) {
        debug_assert_eq!(self.states[superblock as usize], State::Full);
        self.states[superblock as usize] = State::Victim;
    }

    /// Erases a superblock without valid units.
    pub(super) fn erase(&mut self, superblock: u32) {
        debug_assert_eq!(self.valid[superblock as usize], 0);
        self.states[superblock as usize] = State::Free;
        self.free.push_back(superblock);
        self.counters.erased_superblocks += 1;
    }

    /// Maps every unit once, in order, as a fresh device written from end to end.
    pub(super) fn fill(&mut self, layout: &Layout) {
        for unit in 0..layout.logical_units {
            if self.must_open(Writer::Host) && !self.open(Writer::Host, layout) {
                return;
            }
            let place = self.take_place(Writer::Host, layout);
            self.physical_of[unit as usize] = place;
            self.logical_of[place as usize] = unit;
            self.valid[layout.superblock_of(place) as usize] += 1;
        }
        self.pad(Writer::Host, layout);
        self.counters = FlashCounters::default();
    }
}
