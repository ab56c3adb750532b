//! The page cache of a run, and how much of it may be dirty.

use std::ops::Range;

use hoistway_block::{GroupId, Nanos};
use hoistway_experiment::{KernelEra, Machine};

use crate::os::pages::PageCache;
use crate::os::read_ahead::{self, Place, ReadAhead, Window};
use crate::os::throttle::{Throttle, Verdict};
use crate::os::write_back::{self, Turn, WriteBack};

/// Pages, and the limits on dirty ones. Every page that becomes dirty or clean is told to
/// write-back and throttling at once.
#[derive(Debug)]
pub(super) struct Memory {
    pub(super) cache: PageCache,
    read_ahead: read_ahead::Rules,
    write_back: WriteBack,
    throttle: Throttle,
    /// Whether pages in write-back count as dirty for the throttling of writers.
    counts_write_back: bool,
    /// Scratch space of [`Memory::begin_fetch`].
    runs: Vec<Range<u64>>,
}

impl Memory {
    /// The memory of a machine with this many files and requests of at most `request_bytes`.
    pub(super) fn new(machine: &Machine, request_bytes: u64, files: usize) -> Self {
        let rules = write_back::Rules::of(machine, request_bytes);
        Self {
            cache: PageCache::new(write_back::dirtyable_pages(machine)),
            read_ahead: read_ahead::Rules::of(machine, request_bytes),
            throttle: Throttle::new(machine, &rules),
            write_back: WriteBack::new(rules, files),
            counts_write_back: machine.era != KernelEra::Linux24,
            runs: Vec::new(),
        }
    }

    /// The window to read for a reader at this place.
    pub(super) fn window(&self, reader: &mut ReadAhead, place: Place) -> Window {
        reader.decide(&self.read_ahead, place, &self.cache)
    }

    /// Marks the missing ones of these pages as in flight, and returns them as runs;
    /// [`Memory::reuse`] gives the space back.
    pub(super) fn begin_fetch(&mut self, file: u32, pages: Range<u64>) -> Vec<Range<u64>> {
        let mut runs = std::mem::take(&mut self.runs);
        runs.clear();
        self.cache.begin_fetch(file, pages, |run| runs.push(run));
        runs
    }

    pub(super) fn reuse(&mut self, runs: Vec<Range<u64>>) {
        self.runs = runs;
    }

    /// Pages that count against the limits.
    fn dirty_pages(&self) -> u64 {
        let in_write_back = if self.counts_write_back { self.cache.write_back_pages() } else { 0 };
        self.cache.dirty_pages() + in_write_back
    }

    /// Pages that a writer may dirty before it has to ask.
    pub(super) fn quota(&self) -> u64 {
        self.throttle.quota(self.dirty_pages())
    }

    /// What a writer does that has dirtied `dirtied` pages since it last asked.
    pub(super) fn check(&mut self, dirtied: u64, now: Nanos) -> Verdict {
        let dirty = self.dirty_pages();
        self.throttle.check(dirtied, dirty, now)
    }

    /// Whether writers are stopped.
    pub(super) fn is_above_limit(&self) -> bool {
        self.dirty_pages() > self.write_back.rules().limit_pages
    }

    /// Whether the flusher has to run.
    pub(super) fn is_above_background(&self) -> bool {
        self.cache.dirty_pages() > self.write_back.rules().background_pages
    }

    /// A writer of `group` dirties pages; returns how many were clean.
    pub(super) fn dirty(&mut self, file: u32, pages: Range<u64>, group: GroupId, now: Nanos) -> u64 {
        let newly = self.cache.dirty(file, pages);
        self.write_back.dirtied(file, group, now);
        newly
    }

    /// Pages were written, or lost to an error.
    pub(super) fn written(&mut self, file: u32, pages: Range<u64>, now: Nanos) {
        let count = pages.end - pages.start;
        self.cache.written(file, pages);
        let dirty = self.dirty_pages();
        self.throttle.written(count, dirty, now);
        self.write_back.set_bandwidth(self.throttle.written_per_s());
    }

    /// The next pages that the flusher writes; they are in write-back now.
    pub(super) fn next_write(&mut self, now: Nanos) -> Option<(u32, Range<u64>)> {
        self.write_back.next(&mut self.cache, now)
    }

    /// The group that dirtied a file.
    pub(super) fn dirtier(&self, file: u32) -> GroupId {
        self.write_back.dirtier(file)
    }

    /// A throttled writer writes up to `pages` pages, of any file, in the turn that this returns.
    pub(super) fn borrow_turn(&mut self, pages: u64) -> Option<Turn> {
        self.write_back.borrow_turn(pages)
    }

    /// The next pages of such a turn; they are in write-back now.
    pub(super) fn next_of(&mut self, turn: &mut Turn, now: Nanos) -> Option<Range<u64>> {
        self.write_back.next_of(turn, &mut self.cache, now)
    }

    /// When the flusher's next periodic round begins.
    pub(super) fn next_round_ns(&self) -> Nanos {
        self.write_back.next_round_ns()
    }

    /// The longest bio of write-back, in pages.
    pub(super) fn write_pages(&self) -> u64 {
        self.write_back.rules().bio_pages
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_in_write_back_count_as_dirty_since_linux_2_6() {
        for (era, expected) in [(KernelEra::Linux24, 0), (KernelEra::Mq, 8)] {
            let mut memory = Memory::new(&Machine { era, ..Machine::default() }, 512 << 10, 1);
            assert_eq!(memory.dirty(0, 0..8, GroupId::ROOT, 0), 8);
            assert_eq!(memory.dirty(0, 0..8, GroupId::ROOT, 0), 0, "they are dirty already");
            assert_eq!(memory.dirty_pages(), 8);
            memory.cache.begin_write_back(0, 0..8);
            assert_eq!(memory.dirty_pages(), expected, "{era:?}");
            memory.written(0, 0..8, 1);
            assert_eq!(memory.dirty_pages(), 0);
        }
    }
}
