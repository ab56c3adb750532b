//! The battery-backed write cache: the dirty data by row, and which row is destaged next. A row is
//! one chunk at the same position on every disk; to destage is to write dirty data to the disks.
//!
//! * Guarantee: data is dirty from the time at which it is stored until a disk has it. Data stored
//!   into a row that is being destaged is destaged later. Disks and completions of commands are
//!   handled in [`super::writing`].
//! * Source: docs/specifications/devices.md, section 5.4.

use std::collections::VecDeque;

use hoistway_block::{Extent, Nanos};

use super::layout::Layout;
use super::ranges::{Range, add, covered_back_to, covered_until, subtract};
use super::row_order::RowOrder;
use crate::array::ArrayParameters;
use crate::interface::NEVER;

/// A row with data that the disks do not have yet. Its lists keep their capacity for the slot's
/// next row.
#[derive(Clone, Debug, Default)]
struct Row {
    dirty: Vec<Range>,
    dirty_sectors: u32,
    /// When the first of `dirty` was stored.
    dirty_since: Nanos,
    /// Ranges being destaged; the row is busy while there are any.
    busy: Vec<Range>,
    busy_sectors: u32,
    /// Commands that wait until `dirty`, or `busy`, is on the disks.
    dirty_waiters: Vec<u32>,
    busy_waiters: Vec<u32>,
}

/// Which rows may be destaged, and in which order.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Turn {
    /// Rows of sufficient age, ascending and wrapping.
    Aged,
    /// All rows, ascending and wrapping, because room is needed.
    Any,
    /// All rows, oldest first, because commands wait for them.
    Oldest,
}

/// Dirty data by row.
#[derive(Clone, Debug)]
pub(super) struct WriteCache {
    order: RowOrder,
    /// Indexed by the slots of `order`.
    rows: Vec<Row>,
    /// Rows that became complete, oldest first; some may have been destaged or discarded since.
    complete: VecDeque<u32>,
    row_sectors: u32,
    dirty_sectors: u64,
    busy_sectors: u64,
    capacity_sectors: u64,
    low_sectors: u64,
    high_sectors: u64,
    age_ns: Nanos,
    /// Where the one-way elevator (C-LOOK) continues.
    next_row: u64,
}

impl WriteCache {
    pub(super) fn new(parameters: &ArrayParameters, layout: &Layout) -> Self {
        let capacity_sectors = parameters.write_cache_mib * 2_048;
        let share = |millionths: u64| {
            let sectors = u128::from(capacity_sectors) * u128::from(millionths) / 1_000_000;
            u64::try_from(sectors).unwrap_or(u64::MAX)
        };
        Self {
            order: RowOrder::new(),
            rows: Vec::new(),
            complete: VecDeque::new(),
            row_sectors: layout.row_sectors(),
            dirty_sectors: 0,
            busy_sectors: 0,
            capacity_sectors,
            low_sectors: share(parameters.destage_low_millionths),
            high_sectors: share(parameters.destage_high_millionths),
            age_ns: parameters.destage_age_ns,
            next_row: 0,
        }
    }

    pub(super) fn is_clean(&self) -> bool {
        self.order.len() == 0
    }

    /// Whether there is room for a command of this length. It needs all of it even if it overwrites
    /// cached data, because the controller allocates before it compares. An empty cache accepts any
    /// length.
    pub(super) fn has_room_for(&self, sectors: u32) -> bool {
        let used = self.dirty_sectors + self.busy_sectors;
        used == 0 || used + u64::from(sectors) <= self.capacity_sectors
    }

    /// Whether the dirty data that is not being destaged exceeds the low mark. Rows being destaged
    /// do not count: otherwise the row that a sequential writer has not completed would be destaged
    /// early, and its parity would need reads.
    pub(super) fn is_above_low(&self) -> bool {
        self.dirty_sectors > self.low_sectors
    }

    pub(super) fn is_above_high(&self) -> bool {
        self.dirty_sectors + self.busy_sectors > self.high_sectors
    }

    /// Stores a part of a row; `waiter` is told when it is on the disks.
    pub(super) fn store(&mut self, now: Nanos, (row, start, end): (u64, u32, u32), waiter: Option<u32>) {
        let slot = self.order.find(row).unwrap_or_else(|| self.add_row(row));
        let entry = &mut self.rows[slot as usize];
        if entry.dirty.is_empty() {
            entry.dirty_since = now;
            if entry.busy.is_empty() {
                self.order.set_since(slot, now);
            }
        }
        let added = add(&mut entry.dirty, Range { start, end });
        entry.dirty_sectors += added;
        self.dirty_sectors += u64::from(added);
        entry.dirty_waiters.extend(waiter);
        if added > 0 && entry.dirty_sectors == self.row_sectors && entry.busy.is_empty() {
            self.complete.push_back(slot);
        }
    }

    /// The smallest range that contains all sectors of [start, end) that must come from the disk;
    /// `None` if all are cached.
    pub(super) fn missing(&self, row: u64, mut start: u32, mut end: u32) -> Option<(u32, u32)> {
        if let Some(slot) = self.order.find(row) {
            let entry = &self.rows[slot as usize];
            let here = [&entry.dirty, &entry.busy];
            while start < end && here.iter().any(|ranges| covered_until(ranges, start) > start) {
                start = here.iter().map(|ranges| covered_until(ranges, start)).fold(start, u32::max);
            }
            while start < end && here.iter().any(|ranges| covered_back_to(ranges, end) < end) {
                end = here.iter().map(|ranges| covered_back_to(ranges, end)).fold(end, u32::min);
            }
        }
        (start < end).then_some((start, end))
    }

    /// Drops discarded data, except what is being destaged.
    pub(super) fn discard(&mut self, layout: &Layout, extent: Extent) {
        let row_sectors = u64::from(self.row_sectors);
        let mut from_row = extent.first_sector / row_sectors;
        while let Some(slot) = self.order.next_since(from_row, NEVER) {
            let row = self.order.row(slot);
            let first = extent.first_sector.max(row * row_sectors);
            let end = extent.end().min((row + 1) * row_sectors);
            let Some(sectors) = end.checked_sub(first).and_then(|sectors| u32::try_from(sectors).ok()) else { return };
            for (_, start, end) in layout.row_slices(Extent::new(first, sectors)) {
                let entry = &mut self.rows[slot as usize];
                let removed = subtract(&mut entry.dirty, Range { start, end });
                entry.dirty_sectors -= removed;
                self.dirty_sectors -= u64::from(removed);
                if entry.dirty.is_empty() && entry.busy.is_empty() {
                    self.order.remove(slot);
                }
            }
            from_row = row + 1;
        }
    }

    /// When the next row reaches the age for destaging.
    pub(super) fn next_age(&self) -> Nanos {
        self.order.earliest().saturating_add(self.age_ns)
    }

    /// Chooses the next row to destage: a complete one if there is any, except for
    /// [`Turn::Oldest`]. The row is busy until [`WriteCache::finish`].
    pub(super) fn begin(&mut self, now: Nanos, turn: Turn) -> Option<u32> {
        let slot = match turn {
            Turn::Oldest => {
                self.complete.clear();
                self.order.next_since(0, self.order.earliest().min(now))
            }
            Turn::Any => self.next_complete().or_else(|| self.upward(now)),
            Turn::Aged => self.next_complete().or_else(|| self.upward(now.checked_sub(self.age_ns)?)),
        }?;
        self.next_row = self.order.row(slot) + 1;
        self.order.set_since(slot, NEVER);
        let entry = &mut self.rows[slot as usize];
        std::mem::swap(&mut entry.dirty, &mut entry.busy);
        std::mem::swap(&mut entry.dirty_waiters, &mut entry.busy_waiters);
        entry.busy_sectors = std::mem::take(&mut entry.dirty_sectors);
        self.dirty_sectors -= u64::from(entry.busy_sectors);
        self.busy_sectors += u64::from(entry.busy_sectors);
        Some(slot)
    }

    /// The number of a busy row and its ranges being destaged.
    pub(super) fn busy(&self, slot: u32) -> (u64, &[Range]) {
        (self.order.row(slot), &self.rows[slot as usize].busy)
    }

    /// The busy ranges are on the disks; appends the commands that waited for them.
    pub(super) fn finish(&mut self, slot: u32, waiters: &mut Vec<u32>) {
        let entry = &mut self.rows[slot as usize];
        entry.busy.clear();
        self.busy_sectors -= u64::from(std::mem::take(&mut entry.busy_sectors));
        waiters.append(&mut entry.busy_waiters);
        if entry.dirty.is_empty() {
            self.order.remove(slot);
            return;
        }
        if entry.dirty_sectors == self.row_sectors {
            self.complete.push_back(slot);
        }
        let since = entry.dirty_since;
        self.order.set_since(slot, since);
    }

    fn add_row(&mut self, row: u64) -> u32 {
        let slot = self.order.insert(row, NEVER);
        if slot as usize == self.rows.len() {
            self.rows.push(Row::default());
        }
        slot
    }

    /// The one-way elevator (C-LOOK) over the rows that have been dirty since `threshold` or
    /// longer.
    fn upward(&self, threshold: Nanos) -> Option<u32> {
        let above = self.order.next_since(self.next_row, threshold);
        above.or_else(|| self.order.next_since(0, threshold))
    }

    fn next_complete(&mut self) -> Option<u32> {
        while let Some(slot) = self.complete.pop_front() {
            let entry = &self.rows[slot as usize];
            if entry.dirty_sectors == self.row_sectors && entry.busy.is_empty() {
                return Some(slot);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of 2 x 8 sectors, cache of 1 MiB.
    fn cache() -> (WriteCache, Layout) {
        let layout = Layout::new(3, true, 8, 8_000);
        let parameters = ArrayParameters { write_cache_mib: 1, destage_age_ns: 500, ..ArrayParameters::default() };
        (WriteCache::new(&parameters, &layout), layout)
    }

    fn begin_row(cache: &mut WriteCache, now: Nanos, turn: Turn) -> Option<u64> {
        cache.begin(now, turn).map(|slot| cache.busy(slot).0)
    }

    #[test]
    fn complete_rows_are_destaged_first_and_then_others_in_ascending_order() {
        let (mut cache, _) = cache();
        for row in [7, 3, 9] {
            cache.store(0, (row, 0, 8), None);
        }
        cache.store(0, (7, 8, 16), None);
        let order: Vec<_> = std::iter::from_fn(|| begin_row(&mut cache, 0, Turn::Any)).collect();
        assert_eq!(order, [7, 9, 3]);
    }

    #[test]
    fn rows_that_commands_wait_for_are_destaged_oldest_first() {
        let (mut cache, _) = cache();
        for (at, row) in [(0, 7), (1, 3), (2, 9), (3, 3), (3, 9)] {
            cache.store(at, (row, 0, 8), None);
        }
        let order: Vec<_> = std::iter::from_fn(|| begin_row(&mut cache, 3, Turn::Oldest)).collect();
        assert_eq!(order, [7, 3, 9]);
    }

    #[test]
    fn without_pressure_a_row_waits_for_its_age() {
        let (mut cache, _) = cache();
        cache.store(100, (1, 0, 8), None);
        assert_eq!(begin_row(&mut cache, 599, Turn::Aged), None);
        assert_eq!(cache.next_age(), 600);
        assert_eq!(begin_row(&mut cache, 600, Turn::Aged), Some(1));
        assert_eq!(cache.next_age(), NEVER);
    }

    #[test]
    fn data_stored_while_its_row_is_destaged_stays_dirty() {
        let (mut cache, _) = cache();
        cache.store(0, (1, 0, 8), Some(4));
        let slot = cache.begin(0, Turn::Any).unwrap();
        cache.store(10, (1, 4, 12), Some(5));
        assert_eq!(cache.missing(1, 0, 16), Some((12, 16)));
        let mut waiters = Vec::new();
        cache.finish(slot, &mut waiters);
        assert_eq!(waiters, [4]);
        assert_eq!(cache.missing(1, 0, 16), Some((0, 16)), "one range from the first missing sector to the last");
        assert_eq!(cache.missing(1, 4, 12), None);
        assert_eq!(cache.next_age(), 510);
    }

    #[test]
    fn discarded_data_frees_its_room_and_its_row() {
        let (mut cache, layout) = cache();
        cache.store(0, (0, 0, 16), None);
        cache.store(0, (1, 0, 4), None);
        cache.discard(&layout, Extent::new(8, 16));
        assert_eq!(cache.missing(0, 0, 16), Some((8, 16)));
        assert_eq!(cache.missing(1, 0, 4), Some((0, 4)));
        assert_eq!(begin_row(&mut cache, 0, Turn::Aged), None, "the row is no longer complete, and too young");
        cache.discard(&layout, Extent::new(0, 8));
        assert!(cache.is_clean() && cache.has_room_for(1 << 20));
    }

    #[test]
    fn a_full_cache_has_no_room() {
        let (mut cache, _) = cache();
        for row in 0..128 {
            cache.store(0, (row, 0, 16), None);
        }
        assert!(!cache.has_room_for(1) && cache.is_above_high() && cache.is_above_low());
    }
}
