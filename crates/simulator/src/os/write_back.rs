//! Write-back: which dirty pages are written next, and when.
//!
//! * Guarantee: files are written in the order in which they became dirty, a chunk (1,024 pages or
//!   more) per turn, within a file ascending from where its last turn stopped. Writing starts above
//!   the background limit and continues until below it (2.4: two thirds of it); data older than the
//!   expiry is written from the next periodic round on.
//! * Cost: O(1) per bio and turn; a periodic round looks at every dirty file once.
//! * Source: docs/specifications/devices.md, section 8.4 (Linux fs/fs-writeback.c,
//!   mm/page-writeback.c, fs/buffer.c of 2.4.20).
//!
//! As inodes do, files store the time at which they became dirty; pages do not.

use std::collections::VecDeque;
use std::ops::Range;

use hoistway_block::{GroupId, Nanos};
use hoistway_experiment::{KernelEra, Machine};

use super::pages::{PAGE_BYTES, PageCache};
use crate::events::NEVER;

/// The smallest number of pages that a file may write per turn.
const CHUNK_PAGES: u64 = 1_024;

/// Parameters that are constant during a run.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Rules {
    pub era: KernelEra,
    /// Dirty pages above which the flusher (the kernel's thread that writes dirty pages) writes.
    pub background_pages: u64,
    /// Dirty pages at which it stops.
    pub stop_pages: u64,
    /// Pages dirty or in write-back above which writers are throttled.
    pub limit_pages: u64,
    /// Longest bio of write-back, in pages.
    pub bio_pages: u64,
    pub interval_ns: Nanos,
    pub expire_ns: Nanos,
}

impl Rules {
    /// The rules of a machine whose requests have at most this many bytes.
    pub(crate) fn of(machine: &Machine, request_bytes: u64) -> Self {
        let memory_pages = dirtyable_pages(machine);
        let (background, limit) = machine.dirty_ratios_in_force();
        // A background limit at or above the limit counts as half of it, as in Linux.
        let background = if background >= limit { limit / 2 } else { background };
        let background_pages = memory_pages * background / 100;
        let longest_bytes = match machine.era {
            // Buffers of 4 KiB, each a bio of its own; they merge in the queue.
            KernelEra::Linux24 => PAGE_BYTES,
            KernelEra::Linux26 => 512 << 10,
            KernelEra::Linux3 | KernelEra::Mq => 1 << 20,
        };
        Self {
            era: machine.era,
            background_pages,
            stop_pages: if machine.era == KernelEra::Linux24 { background_pages * 2 / 3 } else { background_pages },
            limit_pages: (memory_pages * limit / 100).max(1),
            bio_pages: (longest_bytes.min(request_bytes) / PAGE_BYTES).max(1),
            interval_ns: machine.dirty_writeback_ms * 1_000_000,
            expire_ns: machine.dirty_expire_ms * 1_000_000,
        }
    }
}

/// Pages of memory that may hold file data.
pub(crate) fn dirtyable_pages(machine: &Machine) -> u64 {
    (machine.memory_mib << 20) / PAGE_BYTES * 9 / 10
}

/// A file's turn, in the flusher or in a throttled writer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Turn {
    pub file: u32,
    pages_left: u64,
    /// The range that it searches next.
    within: Range<u64>,
    /// The end of the second range, which starts at the beginning of the file.
    then_up_to: u64,
}

#[derive(Clone, Debug)]
struct File {
    dirty_since_ns: Nanos,
    is_listed: bool,
    /// Turns in progress.
    turns: u32,
    /// Where the last turn stopped.
    cursor: u64,
    dirtier: GroupId,
}

/// All dirty files.
#[derive(Debug)]
pub(crate) struct WriteBack {
    rules: Rules,
    files: Vec<File>,
    /// Dirty files, the longest dirty first; files that had a turn are behind the others.
    listed: VecDeque<u32>,
    turn: Option<Turn>,
    is_above_background: bool,
    /// Files that became dirty before this time are written.
    expired_before_ns: Nanos,
    next_round_ns: Nanos,
    /// Pages per second, smoothed.
    pages_per_s: u64,
}

impl WriteBack {
    /// The state of `files` files, none dirty.
    pub(crate) fn new(rules: Rules, files: usize) -> Self {
        let clean = File { dirty_since_ns: NEVER, is_listed: false, turns: 0, cursor: 0, dirtier: GroupId::ROOT };
        Self {
            rules,
            files: vec![clean; files],
            listed: VecDeque::with_capacity(files),
            turn: None,
            is_above_background: false,
            expired_before_ns: 0,
            next_round_ns: NEVER,
            pages_per_s: 0,
        }
    }

    /// The rules in force.
    pub(crate) fn rules(&self) -> &Rules {
        &self.rules
    }

    /// A task of `group` dirtied pages of the file.
    pub(crate) fn dirtied(&mut self, file: u32, group: GroupId, now: Nanos) {
        let state = &mut self.files[file as usize];
        state.dirtier = group;
        if !state.is_listed {
            state.is_listed = true;
            state.dirty_since_ns = now;
            self.listed.push_back(file);
        }
        if self.next_round_ns == NEVER {
            self.next_round_ns = (now / self.rules.interval_ns + 1) * self.rules.interval_ns;
        }
    }

    /// The group that dirtied the file last.
    pub(crate) fn dirtier(&self, file: u32) -> GroupId {
        self.files[file as usize].dirtier
    }

    /// Sets the measured rate of write-back; from Linux 3.2 on the chunks depend on it.
    pub(crate) fn set_bandwidth(&mut self, pages_per_s: u64) {
        self.pages_per_s = pages_per_s;
    }

    /// The latest time at which [`WriteBack::next`] must be called again; [`NEVER`] if nothing is
    /// dirty.
    pub(crate) fn next_round_ns(&self) -> Nanos {
        self.next_round_ns
    }

    /// The pages that the flusher writes next, if any are due at `now`; they are in write-back
    /// then.
    pub(crate) fn next(&mut self, cache: &mut PageCache, now: Nanos) -> Option<(u32, Range<u64>)> {
        self.begin_round(now);
        // Files whose dirty pages are all in write-back stay listed; each is looked at once.
        for _ in 0..=self.listed.len() {
            if self.turn.is_none() {
                let file = self.next_file(cache)?;
                let chunk = self.chunk_pages();
                self.turn = Some(self.turn_of(file, chunk));
            }
            let mut turn = self.turn.take()?;
            if let Some(pages) = self.next_of(&mut turn, cache, now) {
                let file = turn.file;
                self.turn = Some(turn);
                return Some((file, pages));
            }
        }
        None
    }

    /// A turn of `pages` for a throttled writer: the longest dirty file, or, if no other is dirty,
    /// the file that the flusher is writing.
    pub(crate) fn borrow_turn(&mut self, pages: u64) -> Option<Turn> {
        let file = self.listed.pop_front().or(self.turn.as_ref().map(|turn| turn.file))?;
        Some(self.turn_of(file, pages))
    }

    /// The pages that a turn writes next; they are in write-back then. `None` ends the turn.
    pub(crate) fn next_of(&mut self, turn: &mut Turn, cache: &mut PageCache, now: Nanos) -> Option<Range<u64>> {
        let most = self.rules.bio_pages.min(turn.pages_left);
        let found = if most == 0 { None } else { find(turn, cache, most) };
        let Some(pages) = found else {
            self.end(turn, cache, now);
            return None;
        };
        turn.pages_left -= pages.end - pages.start;
        turn.within.start = pages.end;
        self.files[turn.file as usize].cursor = pages.end;
        cache.begin_write_back(turn.file, pages.clone());
        Some(pages)
    }

    fn turn_of(&mut self, file: u32, pages: u64) -> Turn {
        self.files[file as usize].turns += 1;
        let cursor = self.files[file as usize].cursor;
        Turn { file, pages_left: pages, within: cursor..u64::MAX, then_up_to: cursor }
    }

    fn begin_round(&mut self, now: Nanos) {
        if now >= self.next_round_ns {
            self.expired_before_ns = now.saturating_sub(self.rules.expire_ns);
            self.next_round_ns = if self.listed.is_empty() {
                NEVER
            } else {
                (now / self.rules.interval_ns + 1) * self.rules.interval_ns
            };
        }
    }

    fn next_file(&mut self, cache: &PageCache) -> Option<u32> {
        let threshold = if self.is_above_background { self.rules.stop_pages } else { self.rules.background_pages };
        self.is_above_background = cache.dirty_pages() > threshold;
        if self.is_above_background {
            return self.listed.pop_front();
        }
        if self.expired_before_ns == 0 {
            return None;
        }
        let before_ns = self.expired_before_ns;
        let is_expired = |file: &u32| self.files[*file as usize].dirty_since_ns <= before_ns;
        let Some(place) = self.listed.iter().position(is_expired) else {
            self.expired_before_ns = 0;
            return None;
        };
        self.listed.remove(place)
    }

    fn chunk_pages(&self) -> u64 {
        match self.rules.era {
            KernelEra::Linux24 | KernelEra::Linux26 => CHUNK_PAGES,
            KernelEra::Linux3 | KernelEra::Mq => {
                let pages = (self.pages_per_s / 2).min(self.rules.limit_pages / 8) / CHUNK_PAGES * CHUNK_PAGES;
                pages.max(CHUNK_PAGES)
            }
        }
    }

    fn end(&mut self, turn: &Turn, cache: &PageCache, now: Nanos) {
        let is_still_dirty = cache.has_dirty(turn.file);
        let state = &mut self.files[turn.file as usize];
        state.turns -= 1;
        if state.turns > 0 {
            return;
        }
        state.is_listed = is_still_dirty;
        if is_still_dirty {
            if turn.pages_left > 0 {
                // All pages of the turn were written; those dirty now were dirtied later.
                state.dirty_since_ns = now;
            }
            self.listed.push_back(turn.file);
        } else {
            state.dirty_since_ns = NEVER;
        }
    }
}

/// The next dirty run of a turn: up to the file's end, then from its beginning.
fn find(turn: &mut Turn, cache: &PageCache, most: u64) -> Option<Range<u64>> {
    if let Some(pages) = cache.next_dirty(turn.file, turn.within.clone(), most) {
        return Some(pages);
    }
    turn.within = 0..std::mem::take(&mut turn.then_up_to);
    cache.next_dirty(turn.file, turn.within.clone(), most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set_up(era: &str, files: usize) -> (WriteBack, PageCache) {
        let machine = Machine::parse(&format!("memory_mib=64,{era}")).unwrap();
        let rules = Rules::of(&machine, 512 << 10);
        (WriteBack::new(rules, files), PageCache::new(1 << 20))
    }

    fn dirty(write_back: &mut WriteBack, cache: &mut PageCache, file: u32, pages: Range<u64>, now: Nanos) {
        cache.dirty(file, pages);
        write_back.dirtied(file, GroupId::ROOT, now);
    }

    #[test]
    fn limits_are_shares_of_memory() {
        // 64 MiB = 16,384 pages, of which nine tenths are 14,745.
        let (write_back, _) = set_up("era=mq", 1);
        let rules = write_back.rules();
        assert_eq!((rules.background_pages, rules.limit_pages, rules.bio_pages), (1_474, 2_949, 128));
        let (write_back, _) = set_up("era=2.4", 1);
        let rules = write_back.rules();
        assert_eq!((rules.background_pages, rules.stop_pages, rules.bio_pages), (4_423, 2_948, 1));
    }

    #[test]
    fn above_the_background_limit_files_take_turns_until_below() {
        let (mut write_back, mut cache) = set_up("era=2.6", 2);
        dirty(&mut write_back, &mut cache, 1, 0..1_200, 0);
        assert_eq!(write_back.next(&mut cache, 0), None);
        dirty(&mut write_back, &mut cache, 0, 0..1_400, 0);
        let mut order = Vec::new();
        while let Some((file, pages)) = write_back.next(&mut cache, 0) {
            assert!(pages.end - pages.start <= 128);
            order.push((file, pages.start));
        }
        // 2,600 dirty: one chunk of file 1, then file 0, where 1,576 are still above 1,474.
        assert_eq!((order[0], order[7], order[8]), ((1, 0), (1, 896), (0, 0)));
        assert_eq!((order.len(), cache.dirty_pages()), (16, 552));
    }

    #[test]
    fn a_turn_begins_where_the_last_one_stopped_and_wraps() {
        let (mut write_back, mut cache) = set_up("era=2.6", 1);
        dirty(&mut write_back, &mut cache, 0, 0..1_500, 0);
        while write_back.next(&mut cache, 0).is_some() {}
        cache.written(0, 0..1_500);
        dirty(&mut write_back, &mut cache, 0, 0..1_100, 0);
        let (_, first) = write_back.next(&mut cache, 0).expect("1,576 pages are dirty");
        assert_eq!(first, 1_024..1_152);
    }

    #[test]
    fn old_data_is_written_at_the_next_round() {
        let (mut write_back, mut cache) = set_up("era=mq", 2);
        const SECOND: Nanos = 1_000_000_000;
        dirty(&mut write_back, &mut cache, 0, 7..9, SECOND);
        dirty(&mut write_back, &mut cache, 1, 0..1, 20 * SECOND);
        assert_eq!(write_back.next_round_ns(), 5 * SECOND);
        for second in [5, 10, 30] {
            assert_eq!(write_back.next(&mut cache, second * SECOND), None);
        }
        assert_eq!(write_back.next(&mut cache, 35 * SECOND), Some((0, 7..9)));
        assert_eq!(write_back.next(&mut cache, 35 * SECOND), None);
        assert_eq!(write_back.next(&mut cache, 50 * SECOND), Some((1, 0..1)));
        assert_eq!(write_back.next(&mut cache, 50 * SECOND), None);
        assert_eq!(write_back.next(&mut cache, 55 * SECOND), None);
        assert_eq!(write_back.next_round_ns(), NEVER);
    }

    #[test]
    fn chunks_follow_the_bandwidth_from_3_2_on() {
        let (mut write_back, mut cache) = set_up("era=3,memory_mib=4096", 2);
        write_back.set_bandwidth(50_000);
        dirty(&mut write_back, &mut cache, 0, 0..60_000, 0);
        dirty(&mut write_back, &mut cache, 1, 0..60_000, 0);
        let mut pages_of_first = 0;
        while let Some((0, pages)) = write_back.next(&mut cache, 0) {
            pages_of_first += pages.end - pages.start;
        }
        // Half a second's worth is 25,000 pages, but an eighth of the limit of 188,743 is 23,592:
        // whole chunks of 1,024.
        assert_eq!(pages_of_first, 23_552);
    }
}
