//! The state of the flash translation layer: the place of each unit, and the free superblocks.
//!
//! Two tables of 4 bytes per 4 KiB unit, logical to physical and back. An overwritten unit's old
//! place is cleared, so an entry of the second table is either the unit at that place or [`NONE`].
//! Nothing here takes simulated time, so that preconditioning and the timed device share it.
//!
//! In a device written once from end to end every unit is at the place of its own number. A bit per
//! entry of a table says whether that no longer holds, and only then is the entry read: the tables
//! are larger than the CPU's caches, the bits are not, and unread parts of a table need no memory.

use std::collections::VecDeque;

use super::layout::Layout;

/// No unit, or no place.
pub(super) const NONE: u32 = u32::MAX;
/// The number of units whose table entries are loaded before the first is used. A CPU loads ten to twenty cache lines at the same
/// time, so a batch waits for memory a few times instead of once per unit.
pub(super) const BATCH_UNITS: u32 = 64;

/// The writers: each has its own open superblock, so that moved (cold) data does not mix with new
/// data.
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

/// The superblock that a writer fills.
#[derive(Copy, Clone, Debug)]
struct OpenSuperblock {
    /// First physical unit not written yet.
    next: u32,
    /// The end of its units; equal to `next` when none is open.
    end: u32,
}

/// Writes to flash in units of 4 KiB since construction; preconditioning with random overwrites
/// counts, the sequential fill does not.
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
    /// Units written to flash (padding not counted) per unit written by the host, between an
    /// earlier reading of the counters and this one; NaN if the host has written nothing.
    pub fn write_amplification_since(&self, earlier: &FlashCounters) -> f64 {
        let host = (self.host_units - earlier.host_units) as f64;
        (host + (self.moved_units - earlier.moved_units) as f64) / host
    }
}

/// A table of numbers, initially the identity up to some number and [`NONE`] beyond it.
#[derive(Clone, Debug)]
struct Mapping {
    /// A bit for each entry that differs from its own number.
    differs: Vec<u64>,
    /// Whether no entry differs.
    is_in_order: bool,
    /// Stores the value plus one, so that zeroed memory means NONE.
    table: Vec<u32>,
}

impl Mapping {
    /// The first `own` of `len` entries are the identity.
    fn new(len: u32, own: u32) -> Self {
        let word = |number: u32| match own.saturating_sub(number * 64) {
            0 => u64::MAX,
            left @ 1..64 => u64::MAX << left,
            64.. => 0,
        };
        let differs = (0..len.div_ceil(64)).map(word).collect();
        Self { differs, is_in_order: own >= len, table: vec![0; len as usize] }
    }

    #[inline]
    fn is_in_order(&self) -> bool {
        self.is_in_order
    }

    #[inline]
    fn get(&self, index: u32) -> u32 {
        if self.differs[(index / 64) as usize] & (1 << (index % 64)) == 0 {
            return index;
        }
        self.table[index as usize].wrapping_sub(1)
    }

    #[inline]
    fn set(&mut self, index: u32, value: u32) {
        self.differs[(index / 64) as usize] |= 1 << (index % 64);
        self.is_in_order = false;
        self.table[index as usize] = value.wrapping_add(1);
    }
}

/// Mapping, valid counts, states of superblocks.
#[derive(Clone, Debug)]
pub(super) struct Translation {
    physical_of: Mapping,
    logical_of: Mapping,
    valid: Vec<u32>,
    states: Vec<State>,
    free: VecDeque<u32>,
    open: [OpenSuperblock; 2],
    counters: FlashCounters,
}

impl Translation {
    /// All units unmapped, all superblocks free.
    pub(super) fn new(layout: &Layout) -> Self {
        Self::with_mapped(layout, 0)
    }

    /// Every unit mapped once, in order, as after writing a fresh device from end to end.
    pub(super) fn filled(layout: &Layout) -> Self {
        Self::with_mapped(layout, layout.logical_units)
    }

    /// The first `mapped` units are where the host's first writes put them.
    fn with_mapped(layout: &Layout, mapped: u32) -> Self {
        let size = layout.superblock_units;
        let (full, rest) = (mapped / size, mapped % size);
        let begun = full + u32::from(rest > 0);
        let valid_in = |superblock: u32| match superblock {
            _ if superblock < full => size,
            _ if superblock < begun => rest,
            _ => 0,
        };
        let state_of = |superblock: u32| match superblock {
            _ if superblock < full => State::Full,
            _ if superblock < begun => State::Open,
            _ => State::Free,
        };
        let mut host = OpenSuperblock { next: mapped, end: begun * size };
        if rest > 0 {
            // A whole number of programs, so possibly all of the superblock.
            host.next = mapped.next_multiple_of(layout.program_units);
        }
        let mut states: Vec<State> = (0..layout.superblocks).map(state_of).collect();
        if rest > 0 && host.next == host.end {
            states[full as usize] = State::Full;
        }
        Self {
            physical_of: Mapping::new(layout.logical_units, mapped),
            logical_of: Mapping::new(layout.physical_units, mapped),
            valid: (0..layout.superblocks).map(valid_in).collect(),
            states,
            free: (begun..layout.superblocks).collect(),
            open: [host, OpenSuperblock { next: 0, end: 0 }],
            counters: FlashCounters::default(),
        }
    }

    /// The place of a unit, or [`NONE`].
    #[inline]
    pub(super) fn physical_of(&self, unit: u32) -> u32 {
        self.physical_of.get(unit)
    }

    /// Whether every unit is at the place of its own number.
    #[inline]
    pub(super) fn is_in_order(&self) -> bool {
        self.physical_of.is_in_order()
    }

    /// Loads the mapping of these units into the CPU's cache. The table is larger than the cache:
    /// one at a time, between other work, the accesses cost more than the rest of a read; issued
    /// together they overlap.
    #[inline]
    pub(super) fn prefetch(&self, units: impl Iterator<Item = u32>) {
        if self.physical_of.is_in_order() {
            return;
        }
        std::hint::black_box(units.fold(0, |all, unit| all ^ self.physical_of.get(unit)));
    }

    /// Loads the table entries that writing these units will change into the CPU's cache, as [`Translation::prefetch`] does.
    pub(super) fn prefetch_written(&self, units: &[u32]) {
        self.prefetch(units.iter().copied());
        let places = units.iter().map(|&unit| self.physical_of.get(unit)).filter(|&place| place != NONE);
        std::hint::black_box(places.fold(0, |all, place| all ^ self.logical_of.get(place)));
    }

    /// The unit at a place, or [`NONE`].
    #[inline]
    pub(super) fn logical_of(&self, physical: u32) -> u32 {
        self.logical_of.get(physical)
    }

    /// Number of superblocks erased and not yet open.
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

    /// Whether a superblock must be opened for the writer's next unit.
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

    /// The place of the writer's next unit, if a superblock is open.
    #[inline]
    pub(super) fn next_place(&self, writer: Writer) -> u32 {
        self.open[writer as usize].next
    }

    /// Writes a unit of the host to its open superblock; the old place becomes garbage.
    #[inline]
    pub(super) fn write(&mut self, unit: u32, layout: &Layout) {
        let place = self.take_place(Writer::Host, layout);
        let old = self.physical_of.get(unit);
        if old != NONE {
            self.vacate(old, layout);
        }
        self.map(unit, place, layout);
        self.counters.host_units += 1;
    }

    /// Writes the unit at `old` to the collector's open superblock.
    #[inline]
    pub(super) fn relocate(&mut self, unit: u32, old: u32, layout: &Layout) {
        debug_assert_eq!(self.physical_of.get(unit), old);
        let place = self.take_place(Writer::Collector, layout);
        self.vacate(old, layout);
        self.map(unit, place, layout);
        self.counters.moved_units += 1;
    }

    #[inline]
    fn map(&mut self, unit: u32, place: u32, layout: &Layout) {
        self.physical_of.set(unit, place);
        self.logical_of.set(place, unit);
        self.valid[layout.superblock_of(place) as usize] += 1;
    }

    /// Leaves places empty up to the end of the current program unit.
    pub(super) fn pad(&mut self, writer: Writer, layout: &Layout) {
        while !layout.begins_program(self.open[writer as usize].next) {
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

    /// Drops the mapping of a unit.
    #[inline]
    pub(super) fn unmap(&mut self, unit: u32, layout: &Layout) {
        let old = self.physical_of.get(unit);
        if old != NONE {
            self.physical_of.set(unit, NONE);
            self.vacate(old, layout);
        }
    }

    /// Marks the data at a place as garbage.
    #[inline]
    fn vacate(&mut self, place: u32, layout: &Layout) {
        self.logical_of.set(place, NONE);
        self.valid[layout.superblock_of(place) as usize] -= 1;
    }

    /// The full superblock with the fewest valid units, lowest number first, if collecting it gains
    /// anything.
    pub(super) fn best_victim(&self, layout: &Layout) -> Option<u32> {
        let mut best = (layout.superblock_units, NONE);
        for ((&valid, &state), superblock) in self.valid.iter().zip(&self.states).zip(0..) {
            if state == State::Full && valid < best.0 {
                best = (valid, superblock);
            }
        }
        (best.1 != NONE).then_some(best.1)
    }

    /// Marks a full superblock as being collected.
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flash::FlashParameters;
    use hoistway_block::random::Stream;

    /// 8 dies, programs of 4 units, 20 MiB: 5,120 units in superblocks of 256.
    fn layout() -> Layout {
        Layout::new(
            &FlashParameters::default()
                .with(|flash| {
                    flash.layout.dies_per_channel = 1;
                    flash.layout.planes = 2;
                    flash.layout.page_kib = 8;
                    flash.layout.pages_per_block = 8;
                    flash.layout.simulated_mib = 20;
                })
                .layout,
        )
    }

    fn all(mapping: &Mapping) -> Vec<u32> {
        (0..u32::try_from(mapping.table.len()).unwrap()).map(|index| mapping.get(index)).collect()
    }

    #[test]
    fn a_mapping_begins_with_own_numbers_up_to_any_place() {
        for own in [0, 1, 63, 64, 65, 128, 200] {
            let expected: Vec<u32> = (0..200).map(|index| if index < own { index } else { NONE }).collect();
            assert_eq!(all(&Mapping::new(200, own)), expected, "{own}");
        }
        let mut mapping = Mapping::new(70, 70);
        mapping.set(69, 3);
        mapping.set(5, NONE);
        assert_eq!([69, 68, 5, 4].map(|index| mapping.get(index)), [3, 68, NONE, 4]);
    }

    /// The two tables are inverse, and every count equals the number of used places.
    fn assert_consistent(translation: &Translation, layout: &Layout) {
        let mut valid = vec![0; layout.superblocks as usize];
        for (physical, unit) in (0..).zip(all(&translation.logical_of)) {
            if unit != NONE {
                assert_eq!(translation.physical_of(unit), physical);
                valid[layout.superblock_of(physical) as usize] += 1;
            }
        }
        assert_eq!(translation.valid, valid);
        let mapped = all(&translation.physical_of).iter().filter(|&&place| place != NONE).count();
        assert_eq!(mapped, valid.iter().map(|&valid| valid as usize).sum::<usize>());
        let free = translation.states.iter().filter(|&&state| state == State::Free).count();
        assert_eq!(free, translation.free_superblocks());
    }

    #[test]
    fn a_filled_device_is_one_written_in_order() {
        let layout = layout();
        let mut written = Translation::new(&layout);
        for unit in 0..layout.logical_units {
            if written.must_open(Writer::Host) {
                assert!(written.open(Writer::Host, &layout));
            }
            written.write(unit, &layout);
        }
        written.pad(Writer::Host, &layout);
        let filled = Translation::filled(&layout);
        assert_consistent(&filled, &layout);
        assert_eq!(all(&filled.physical_of), all(&written.physical_of));
        assert_eq!(all(&filled.logical_of), all(&written.logical_of));
        assert_eq!((&filled.valid, &filled.states, &filled.free), (&written.valid, &written.states, &written.free));
        assert_eq!(filled.must_open(Writer::Host), written.must_open(Writer::Host));
    }

    #[test]
    fn overwriting_unmapping_and_collecting_keep_the_tables_inverse() {
        let layout = layout();
        let mut translation = Translation::filled(&layout);
        let mut stream = Stream::new(3);
        for step in 0..30_000 {
            if translation.must_open(Writer::Host) {
                assert!(translation.open(Writer::Host, &layout));
                super::super::collect::collect_at_once(&mut translation, 3, &layout);
                assert!(translation.free_superblocks() > 3);
            }
            let unit = u32::try_from(stream.below(u64::from(layout.logical_units))).unwrap();
            if step % 50 == 0 {
                translation.unmap(unit, &layout);
            } else {
                translation.write(unit, &layout);
            }
        }
        assert_consistent(&translation, &layout);
    }

    #[test]
    fn the_victim_is_the_emptiest_and_never_one_without_garbage() {
        let layout = layout();
        let mut translation = Translation::filled(&layout);
        assert_eq!(translation.best_victim(&layout), None, "nothing has been overwritten");
        for unit in [700, 701, 300, 301] {
            translation.unmap(unit, &layout);
        }
        assert_eq!(translation.best_victim(&layout), Some(1), "the lower of two equal ones");
        translation.unmap(702, &layout);
        assert_eq!(translation.best_victim(&layout), Some(2));
    }
}
