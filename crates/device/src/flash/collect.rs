//! Garbage collection: which superblock is emptied, how far, and at what pace relative to the
//! host's writes.
//!
//! A unit is 4 KiB, the granularity of the mapping; a superblock is one erase block of every plane
//! of every die; a program unit is what one multi-plane program writes, and a stripe is one program
//! unit on every die ([`super::layout`]). The choice is greedy: the victim is the full superblock
//! with the fewest valid units. Its pages are read from the cells (sensed) up to a stripe before
//! they can be moved. Their valid units are then `ready`, and are programmed into the collector's
//! own open superblock as soon as they fill a program unit. The pace keeps the two writers in step:
//! for each unit that the host writes, garbage collection may move as many units as it must move to
//! gain one free unit.

use std::collections::VecDeque;

use super::layout::Layout;
use super::translation::{BATCH_UNITS, NONE, Translation, Writer};

/// Credit is counted in fractions of a unit.
const CREDIT_BITS: u32 = 16;
/// Largest number of moves that one unit of the host allows.
const MOST_MOVES: u64 = 40;

/// A page to be sensed for garbage collection.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) struct VictimPage {
    pub(super) page: u32,
    pub(super) die: u32,
    /// Valid units in it, which are what crosses the channel.
    pub(super) units: u32,
}

/// The progress of garbage collection.
#[derive(Clone, Debug)]
pub(super) struct Collector {
    /// Free superblocks at which a victim is chosen.
    low: usize,
    /// Free superblocks at which the host waits.
    reserve: usize,
    /// The next unit to look at and the end of the superblock being read, if there is one.
    reading: Option<(u32, u32)>,
    /// Superblocks read to their end whose units have not all been moved.
    draining: Vec<u32>,
    /// Pages being sensed or transferred.
    pages: u32,
    /// Places of units that have been read and wait to be moved.
    ready: VecDeque<u32>,
    /// How many units are read ahead of the programs.
    window_units: usize,
    credit: i64,
    credit_per_host_unit: i64,
}

impl Collector {
    pub(super) fn new(low: u64, reserve: u64, layout: &Layout) -> Self {
        let window_units = layout.stripe_units() as usize;
        Self {
            low: usize::try_from(low).unwrap_or(usize::MAX),
            reserve: usize::try_from(reserve).unwrap_or(usize::MAX),
            reading: None,
            draining: Vec::with_capacity(4),
            pages: 0,
            ready: VecDeque::with_capacity(window_units + layout.page_units as usize),
            window_units,
            credit: 0,
            credit_per_host_unit: 0,
        }
    }

    #[inline]
    pub(super) fn is_working(&self) -> bool {
        self.reading.is_some() || self.pages > 0 || !self.ready.is_empty() || !self.draining.is_empty()
    }

    /// Sets the pace, when the host has opened a superblock.
    pub(super) fn set_pace(&mut self, translation: &Translation, layout: &Layout) {
        let size = u64::from(layout.superblock_units);
        let valid = translation.best_victim(layout).map_or(size, |victim| u64::from(translation.valid_units(victim)));
        let most = MOST_MOVES << CREDIT_BITS;
        let earned = (valid << CREDIT_BITS).checked_div(size - valid).unwrap_or(most).min(most);
        self.credit_per_host_unit = i64::try_from(earned).unwrap_or(0);
    }

    /// Adds the credit for units that the host has written.
    #[inline]
    pub(super) fn earn(&mut self, units: u32) {
        if self.is_working() {
            self.credit += i64::from(units) * self.credit_per_host_unit;
        } else {
            self.credit = 0;
        }
    }

    /// Whether the pace allows a program now.
    #[inline]
    pub(super) fn has_credit(&self) -> bool {
        self.credit > 0
    }

    /// Whether the host must wait: too little is free, and collection can change that.
    #[inline]
    pub(super) fn blocks_host(&self, translation: &Translation) -> bool {
        translation.free_superblocks() <= self.reserve && self.is_working()
    }

    /// Whether another victim is needed. A superblock that has been read to its end, and only waits
    /// for its last units to be moved, counts as free, so that a victim is not chosen too early,
    /// while it still has more valid units. It does not count if only the reserve is free.
    fn wants_victim(&self, translation: &Translation) -> bool {
        let free = translation.free_superblocks();
        let counted = if free <= self.reserve { free } else { free + self.draining.len() };
        counted <= self.low
    }

    /// The next page to sense, while there is one and the window is not full.
    pub(super) fn next_page(&mut self, translation: &mut Translation, layout: &Layout) -> Option<VictimPage> {
        loop {
            if self.ready.len() + (self.pages * layout.page_units) as usize >= self.window_units {
                return None;
            }
            let (next, end) = match self.reading {
                Some(reading) => reading,
                None => {
                    if !self.wants_victim(translation) {
                        return None;
                    }
                    let victim = translation.best_victim(layout)?;
                    translation.begin_collecting(victim);
                    let first = victim * layout.superblock_units;
                    (first, first + layout.superblock_units)
                }
            };
            if next == end {
                let superblock = layout.superblock_of(end - 1);
                self.reading = None;
                self.draining.push(superblock);
                if translation.valid_units(superblock) == 0 {
                    // This superblock is empty; it is erased before another victim is chosen.
                    return None;
                }
                continue;
            }
            self.reading = Some((next + layout.page_units, end));
            let places = next..next + layout.page_units;
            let valid = places.filter(|&place| translation.logical_of(place) != NONE).count();
            if valid > 0 {
                self.pages += 1;
                let units = u32::try_from(valid).unwrap_or(layout.page_units);
                return Some(VictimPage { page: layout.page_of(next), die: layout.die_of(next), units });
            }
        }
    }

    /// A page was read: its units that are still valid are ready to be moved.
    pub(super) fn page_read(&mut self, page: u32, translation: &Translation, layout: &Layout) {
        self.pages -= 1;
        let first = page * layout.page_units;
        self.ready.extend((first..first + layout.page_units).filter(|&place| translation.logical_of(place) != NONE));
    }

    /// Whether there is data for a program: enough to fill it, or the last units to move.
    #[inline]
    pub(super) fn fills_program(&self, layout: &Layout) -> bool {
        let ready = self.ready.len();
        ready >= layout.program_units as usize || (ready > 0 && self.pages == 0 && self.reading.is_none())
    }

    /// Moves up to one program unit of ready units to the open superblock; returns their number.
    /// Units overwritten since they were read are skipped.
    pub(super) fn move_units(&mut self, translation: &mut Translation, layout: &Layout) -> u32 {
        let mut moved = 0;
        while moved < layout.program_units {
            let Some(place) = self.ready.pop_front() else { break };
            let unit = translation.logical_of(place);
            if unit != NONE && translation.is_victim(layout.superblock_of(place)) {
                translation.relocate(unit, place, layout);
                moved += 1;
            }
        }
        self.credit -= i64::from(moved) << CREDIT_BITS;
        moved
    }

    /// The next superblock that has become empty, if there is one.
    #[inline]
    pub(super) fn next_emptied(&mut self, translation: &Translation) -> Option<u32> {
        if self.draining.is_empty() {
            return None;
        }
        let index = self.draining.iter().position(|&superblock| translation.valid_units(superblock) == 0)?;
        Some(self.draining.remove(index))
    }
}

/// Collects without taking time until more than `low` superblocks are free, or collection gains
/// nothing.
pub(super) fn collect_at_once(translation: &mut Translation, low: usize, layout: &Layout) {
    while translation.free_superblocks() <= low {
        let Some(victim) = translation.best_victim(layout) else { return };
        translation.begin_collecting(victim);
        let first = victim * layout.superblock_units;
        let end = first + layout.superblock_units;
        let valid = |translation: &Translation, place| Some(translation.logical_of(place)).filter(|&unit| unit != NONE);
        for batch in (first..end).step_by(BATCH_UNITS as usize).map(|at| at..end.min(at + BATCH_UNITS)) {
            translation.prefetch(batch.clone().filter_map(|place| valid(translation, place)));
            for place in batch {
                let Some(unit) = valid(translation, place) else { continue };
                if translation.must_open(Writer::Collector) && !translation.open(Writer::Collector, layout) {
                    return;
                }
                translation.relocate(unit, place, layout);
            }
        }
        translation.erase(victim);
    }
}
