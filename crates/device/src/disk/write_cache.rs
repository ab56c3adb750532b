//! The volatile write cache: dirty extents, writes that wait for room, flushes. Source:
//! docs/specifications/devices.md, sections 4.5 and 4.6.
//!
//! An extent that is being written has been removed from here, but still counts against the limits.
//! Writes that a command waits for (FUA, or no write cache) are extents of their own that do not
//! count against the limits: the drive's queue depth limits them instead.

use std::collections::VecDeque;

use hoistway_block::{Nanos, Sector};

use super::geometry::Place;
use super::parameters::DiskWriting;

/// A command that waits for its extent to be written.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Waiter {
    pub(crate) tag: u32,
    /// When its data will have crossed the link.
    pub(crate) data_at: Nanos,
}

/// Sectors that are written together.
#[derive(Copy, Clone, Debug)]
pub(crate) struct DirtyExtent {
    pub(crate) first: Sector,
    pub(crate) sectors: u32,
    /// Whether it uses an entry of the cache, and the sectors of memory that it uses; a pattern
    /// uses none.
    is_cached: bool,
    cached_sectors: u32,
    /// Its number in the order in which extents were formed.
    formed: u64,
    /// Submission order and time of its first write.
    pub(crate) sequence: u64,
    pub(crate) since: Nanos,
    pub(crate) place: Place,
    pub(crate) waiter: Option<Waiter>,
}

impl DirtyExtent {
    pub(crate) fn end(&self) -> Sector {
        self.first + u64::from(self.sectors)
    }

    pub(crate) fn holds(&self, first: Sector, end: Sector) -> bool {
        self.first <= first && end <= self.end()
    }
}

/// A write that arrived.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Write {
    pub(crate) tag: u32,
    pub(crate) sequence: u64,
    pub(crate) submitted_at: Nanos,
    pub(crate) first: Sector,
    pub(crate) sectors: u32,
    /// Whether it writes zeroes, which need neither link nor memory.
    pub(crate) is_pattern: bool,
}

impl Write {
    pub(crate) fn end(&self) -> Sector {
        self.first + u64::from(self.sectors)
    }

    /// Sectors that cross the link.
    pub(crate) fn data_sectors(&self) -> u32 {
        if self.is_pattern { 0 } else { self.sectors }
    }
}

#[derive(Copy, Clone, Debug)]
struct Flush {
    tag: u32,
    sequence: u64,
    submitted_at: Nanos,
    /// The flush waits for extents formed before this number.
    barrier: u64,
    /// How many of them are not on the media yet.
    remaining: usize,
}

/// The state of the cache.
#[derive(Clone, Debug)]
pub(crate) struct WriteCache {
    /// Unordered; without the extent being written.
    extents: Vec<DirtyExtent>,
    waiting: VecDeque<Write>,
    flushes: VecDeque<Flush>,
    /// Cached extents, including the one being written.
    entries: u64,
    sectors: u64,
    formed: u64,
    entries_limit: u64,
    sectors_limit: u64,
    extent_limit: u64,
}

impl WriteCache {
    /// The cache of a drive that holds `depth` commands.
    pub(crate) fn new(writing: &DiskWriting, depth: usize) -> Self {
        let entries = usize::try_from(writing.wc_entries).unwrap_or(usize::MAX);
        Self {
            extents: Vec::with_capacity(entries + depth),
            waiting: VecDeque::with_capacity(depth),
            flushes: VecDeque::with_capacity(depth),
            entries: 0,
            sectors: 0,
            formed: 0,
            entries_limit: writing.wc_entries,
            sectors_limit: writing.wc_kib * 2,
            extent_limit: writing.wc_extent_kib * 2,
        }
    }

    #[inline]
    pub(crate) fn iter(&self) -> impl Iterator<Item = &DirtyExtent> {
        self.extents.iter()
    }

    /// Whether nothing waits for the media.
    #[inline]
    pub(crate) fn is_clean(&self) -> bool {
        self.extents.is_empty()
    }

    /// Stores a write in the cache; false if there is no room for it.
    pub(crate) fn store(&mut self, write: &Write, place: impl FnOnce() -> Place) -> bool {
        let data = u64::from(write.data_sectors());
        // A write longer than the cache is accepted when the cache has no data.
        if self.sectors > 0 && self.sectors + data > self.sectors_limit {
            return false;
        }
        if !self.append(write) {
            if self.entries >= self.entries_limit {
                return false;
            }
            self.entries += 1;
            self.form(write, place(), None);
        }
        self.sectors += data;
        true
    }

    /// Forms an extent that `waiter` waits for.
    pub(crate) fn pass(&mut self, write: &Write, place: Place, waiter: Waiter) {
        self.form(write, place, Some(waiter));
    }

    fn form(&mut self, write: &Write, place: Place, waiter: Option<Waiter>) {
        let is_cached = waiter.is_none();
        self.extents.push(DirtyExtent {
            first: write.first,
            sectors: write.sectors,
            is_cached,
            cached_sectors: if is_cached { write.data_sectors() } else { 0 },
            formed: self.formed,
            sequence: write.sequence,
            since: write.submitted_at,
            place,
            waiter,
        });
        self.formed += 1;
    }

    /// Extends the extent that ends where a write begins, up to the largest length of an extent and
    /// unless a flush waits for it; false if there is no such extent.
    fn append(&mut self, write: &Write) -> bool {
        if write.is_pattern {
            return false;
        }
        let barrier = self.barrier();
        let limit = self.extent_limit;
        let extent = self.extents.iter_mut().find(|extent| {
            extent.end() == write.first
                && extent.cached_sectors == extent.sectors
                && extent.formed >= barrier
                && u64::from(extent.sectors) + u64::from(write.sectors) <= limit
        });
        let Some(extent) = extent else { return false };
        extent.sectors += write.sectors;
        extent.cached_sectors += write.sectors;
        true
    }

    /// Removes the extent at an index of [`WriteCache::iter`], to write it.
    pub(crate) fn take(&mut self, index: usize) -> DirtyExtent {
        self.extents.swap_remove(index)
    }

    /// A removed extent is on the media. Calls `done` with the tags of flushes that waited only for
    /// it.
    pub(crate) fn written(&mut self, extent: &DirtyExtent, mut done: impl FnMut(u32)) {
        if extent.is_cached {
            self.entries -= 1;
            self.sectors -= u64::from(extent.cached_sectors);
        }
        for flush in &mut self.flushes {
            flush.remaining -= usize::from(extent.formed < flush.barrier);
        }
        while let Some(flush) = self.flushes.front().filter(|flush| flush.remaining == 0) {
            done(flush.tag);
            self.flushes.pop_front();
        }
    }

    /// Records a flush; false if nothing is dirty and the flush is complete. `busy` says whether an
    /// extent is being written.
    pub(crate) fn flush(&mut self, tag: u32, sequence: u64, submitted_at: Nanos, busy: bool) -> bool {
        let remaining = self.extents.len() + usize::from(busy);
        if remaining > 0 {
            self.flushes.push_back(Flush { tag, sequence, submitted_at, barrier: self.formed, remaining });
        }
        remaining > 0
    }

    /// Appends a write to those that wait for room.
    pub(crate) fn wait(&mut self, write: Write) {
        self.waiting.push_back(write);
    }

    /// The first write that waits for room.
    pub(crate) fn first_waiting(&self) -> Option<Write> {
        self.waiting.front().copied()
    }

    /// The first waiting write has got its room.
    pub(crate) fn admitted(&mut self) {
        self.waiting.pop_front();
    }

    /// Extents formed before this number belong to a flush; 0 without a flush.
    fn barrier(&self) -> u64 {
        self.flushes.back().map_or(0, |flush| flush.barrier)
    }

    /// Whether a command waits for an extent to be written: an uncached write, a write that found no
    /// room, or a flush.
    pub(crate) fn is_wanted(&self) -> bool {
        !self.waiting.is_empty()
            || !self.flushes.is_empty()
            || self.extents.iter().any(|extent| extent.waiter.is_some())
    }

    /// Returns the predicate of the extents that compete for the media. During a flush these are
    /// the extents that it waits for. Otherwise they are all extents if no command wants the media,
    /// or if a write waits for room; else none.
    #[inline]
    pub(crate) fn competes(&self, commands_wait: bool) -> impl Fn(&DirtyExtent) -> bool + use<> {
        let barrier = self.barrier();
        let all = !commands_wait || !self.waiting.is_empty();
        let flushing = barrier > 0 && self.extents.iter().any(|extent| extent.formed < barrier);
        move |extent| if flushing { extent.formed < barrier } else { all }
    }

    /// Submission order and time of the oldest command that needs extents written before it can
    /// continue.
    pub(crate) fn oldest_blocked(&self) -> Option<(u64, Nanos)> {
        let write = self.waiting.front().map(|write| (write.sequence, write.submitted_at));
        let flush = self.flushes.front().map(|flush| (flush.sequence, flush.submitted_at));
        [write, flush].into_iter().flatten().min()
    }

    /// Drops the commands that wait, as a reset does; dirty data stays dirty.
    pub(crate) fn forget_commands(&mut self) {
        self.waiting.clear();
        self.flushes.clear();
        self.extents.retain(|extent| extent.is_cached);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DiskParameters;

    fn cache() -> WriteCache {
        WriteCache::new(
            &DiskParameters::default()
                .with(|disk| {
                    disk.writing.wc_entries = 2;
                    disk.writing.wc_kib = 12;
                    disk.writing.wc_extent_kib = 8;
                })
                .writing,
            32,
        )
    }

    fn write(first: Sector) -> Write {
        Write { tag: 0, sequence: 0, submitted_at: 0, first, sectors: 8, is_pattern: false }
    }

    fn store(cache: &mut WriteCache, first: Sector) -> bool {
        cache.store(&write(first), Place::default)
    }

    #[test]
    fn contiguous_writes_share_an_extent_up_to_its_limit() {
        let mut cache = cache();
        assert!(store(&mut cache, 0) && store(&mut cache, 8) && store(&mut cache, 16));
        let lengths: Vec<_> = cache.iter().map(|extent| extent.sectors).collect();
        assert_eq!(lengths, [16, 8]);
        assert!(!store(&mut cache, 24), "12 KiB are taken");
    }

    #[test]
    fn room_comes_back_when_the_extent_is_written() {
        let mut cache = cache();
        assert!(store(&mut cache, 0) && store(&mut cache, 100));
        assert!(!store(&mut cache, 200), "2 entries are taken");
        let extent = cache.take(0);
        assert!(!store(&mut cache, 200), "the one being written still counts");
        cache.written(&extent, |_| unreachable!());
        assert!(store(&mut cache, 200));
    }

    #[test]
    fn a_flush_waits_for_what_it_found_and_for_nothing_later() {
        let mut cache = cache();
        assert!(!cache.flush(9, 0, 0, false), "clean");
        assert!(store(&mut cache, 0));
        assert!(cache.flush(9, 0, 0, false));
        assert!(store(&mut cache, 8));
        assert_eq!(cache.iter().count(), 2, "a flush closes its extents");
        let competes = cache.competes(true);
        let competing: Vec<_> = cache.iter().map(&competes).collect();
        assert_eq!(competing, [true, false]);
        let extent = cache.take(0);
        let mut done = Vec::new();
        cache.written(&extent, |tag| done.push(tag));
        assert_eq!(done, [9]);
    }
}
