//! The page cache: the state of every page of every file (missing, in flight, up to date, dirty, in
//! write-back).
//!
//! * Guarantee: a page is in one state at a time (missing, in flight, up to date) and, if present,
//!   may also be dirty and in write-back; above its capacity the cache evicts clean pages, a
//!   bounded number per call.
//! * Representation: ranges of pages as bits: 64 pages (256 KiB) share a chunk, so that finding the
//!   next missing page is one instruction per chunk instead of a tree walk. A file's chunks are
//!   indexed by a table that is allocated only for the parts of the file in use. Eviction is least
//!   recently used, by chunk.
//! * Cost: a few bit operations per call and chunk; memory 64 bytes per chunk in use and 4 KiB per
//!   256 MiB of file in use.
//! * Source: docs/specifications/devices.md, section 8.1.

use std::ops::Range;

use hoistway_block::NIL;

/// Bytes of a page.
pub(crate) const PAGE_BYTES: u64 = 4_096;
/// Pages per chunk.
const CHUNK_PAGES: u64 = 64;
/// Chunks per table.
const TABLE_CHUNKS: u64 = 1_024;

/// The state of a page as a reader sees it.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum PageState {
    /// Not requested yet.
    Missing,
    /// A bio reads it.
    InFlight,
    /// It can be copied.
    Ready,
}

/// Sixty-four pages of a file; one bit each.
#[derive(Copy, Clone, Debug)]
struct Chunk {
    file: u32,
    number: u64,
    /// In flight or up to date.
    present: u64,
    in_flight: u64,
    dirty: u64,
    write_back: u64,
    /// Pages that trigger the next read-ahead window when a reader reaches them.
    marked: u64,
    /// Neighbours in the order of last use.
    older: u32,
    newer: u32,
}

impl Chunk {
    const fn is_busy(&self) -> bool {
        self.in_flight | self.dirty | self.write_back != 0
    }

    const fn must_be_written(&self) -> bool {
        self.dirty | self.write_back != 0
    }
}

#[derive(Debug, Default)]
struct Table {
    chunks: Option<Box<[u32]>>,
    /// Chunks with dirty pages or pages in write-back.
    to_write: u32,
}

/// The cached pages of all files.
#[derive(Debug)]
pub(crate) struct PageCache {
    files: Vec<Vec<Table>>,
    /// Dirty pages of each file.
    dirty_of: Vec<u64>,
    chunks: Vec<Chunk>,
    free: Vec<u32>,
    oldest: u32,
    newest: u32,
    capacity_pages: u64,
    pages: u64,
    dirty_pages: u64,
    write_back_pages: u64,
}

impl PageCache {
    /// An empty cache of this many pages.
    pub(crate) fn new(capacity_pages: u64) -> Self {
        Self {
            files: Vec::new(),
            dirty_of: Vec::new(),
            chunks: Vec::new(),
            free: Vec::new(),
            oldest: NIL,
            newest: NIL,
            capacity_pages,
            pages: 0,
            dirty_pages: 0,
            write_back_pages: 0,
        }
    }

    /// Pages that wait to be written. Pages in write-back count only if they were dirtied again.
    pub(crate) fn dirty_pages(&self) -> u64 {
        self.dirty_pages
    }

    /// Pages in write-back.
    pub(crate) fn write_back_pages(&self) -> u64 {
        self.write_back_pages
    }

    /// The state of a page.
    pub(crate) fn state(&self, file: u32, page: u64) -> PageState {
        let Some(chunk) = self.chunk(file, page / CHUNK_PAGES) else { return PageState::Missing };
        let bit = bit(page);
        match (chunk.present & bit != 0, chunk.in_flight & bit != 0) {
            (false, _) => PageState::Missing,
            (true, true) => PageState::InFlight,
            (true, false) => PageState::Ready,
        }
    }

    /// The first page of `pages` that a reader cannot simply copy; the end if there is none. The
    /// pages before it count as used now.
    pub(crate) fn ready_up_to(&mut self, file: u32, pages: Range<u64>) -> u64 {
        let mut page = pages.start;
        while page < pages.end {
            let Some(index) = self.index(file, page / CHUNK_PAGES) else { return page };
            let chunk = &self.chunks[index as usize];
            let stops = !chunk.present | chunk.in_flight | chunk.marked;
            let ahead = (stops & from_bit(page)).trailing_zeros();
            self.touch(index);
            let stop = page / CHUNK_PAGES * CHUNK_PAGES + u64::from(ahead);
            if ahead < 64 {
                return stop.min(pages.end);
            }
            page = stop;
        }
        pages.end
    }

    /// Whether the page has the marker; clears it.
    pub(crate) fn take_marker(&mut self, file: u32, page: u64) -> bool {
        let Some(index) = self.index(file, page / CHUNK_PAGES) else { return false };
        let chunk = &mut self.chunks[index as usize];
        let was_marked = chunk.marked & bit(page) != 0;
        chunk.marked &= !bit(page);
        was_marked
    }

    /// Sets the marker on a page that is present.
    pub(crate) fn mark(&mut self, file: u32, page: u64) {
        if let Some(index) = self.index(file, page / CHUNK_PAGES) {
            let chunk = &mut self.chunks[index as usize];
            chunk.marked |= bit(page) & chunk.present;
        }
    }

    /// The first missing page from `page` on, at most `most` pages away.
    pub(crate) fn next_missing(&self, file: u32, page: u64, most: u64) -> Option<u64> {
        let mut at = page;
        while at <= page + most {
            let Some(chunk) = self.chunk(file, at / CHUNK_PAGES) else { return Some(at) };
            let ahead = (!chunk.present & from_bit(at)).trailing_zeros();
            let first = at / CHUNK_PAGES * CHUNK_PAGES;
            if ahead < 64 {
                return Some(first + u64::from(ahead)).filter(|found| *found <= page + most);
            }
            at = first + CHUNK_PAGES;
        }
        None
    }

    /// Number of pages present directly before `page`, up to `most`.
    pub(crate) fn present_before(&self, file: u32, page: u64, most: u64) -> u64 {
        let mut count = 0;
        while count < most && count < page {
            let last = page - count - 1;
            let Some(chunk) = self.chunk(file, last / CHUNK_PAGES) else { break };
            let upside = chunk.present << (CHUNK_PAGES - 1 - last % CHUNK_PAGES);
            let run = u64::from(upside.leading_ones());
            count += run;
            if run <= last % CHUNK_PAGES {
                break;
            }
        }
        count.min(most)
    }

    /// Starts reading the missing pages of `pages`; calls `fetch` for each run of them.
    pub(crate) fn begin_fetch(&mut self, file: u32, pages: Range<u64>, mut fetch: impl FnMut(Range<u64>)) {
        let mut run: Option<Range<u64>> = None;
        for number in pages.start / CHUNK_PAGES..pages.end.div_ceil(CHUNK_PAGES) {
            let index = self.index_or_new(file, number);
            self.touch(index);
            let chunk = &mut self.chunks[index as usize];
            let mut missing = !chunk.present & mask(number, &pages);
            chunk.present |= missing;
            chunk.in_flight |= missing;
            self.pages += u64::from(missing.count_ones());
            while missing != 0 {
                let start = missing.trailing_zeros();
                let length = (missing >> start).trailing_ones();
                let first = number * CHUNK_PAGES + u64::from(start);
                match &mut run {
                    Some(run) if run.end == first => run.end += u64::from(length),
                    _ => {
                        let next = Some(first..first + u64::from(length));
                        if let Some(whole) = std::mem::replace(&mut run, next) {
                            fetch(whole);
                        }
                    }
                }
                missing &= !(ones(length) << start);
            }
        }
        if let Some(whole) = run {
            fetch(whole);
        }
        self.evict();
    }

    /// The read of the pages ended; after an error they are missing again.
    pub(crate) fn fetched(&mut self, file: u32, pages: Range<u64>, is_ok: bool) {
        for number in pages.start / CHUNK_PAGES..pages.end.div_ceil(CHUNK_PAGES) {
            let Some(index) = self.index(file, number) else { continue };
            let chunk = &mut self.chunks[index as usize];
            let came = chunk.in_flight & mask(number, &pages);
            chunk.in_flight &= !came;
            if !is_ok {
                let lost = came & !chunk.dirty;
                chunk.present &= !lost;
                chunk.marked &= !lost;
                self.pages -= u64::from(lost.count_ones());
            }
        }
    }

    /// Makes pages dirty, whatever their state. Returns how many were not dirty.
    pub(crate) fn dirty(&mut self, file: u32, pages: Range<u64>) -> u64 {
        let before = self.dirty_pages;
        for number in pages.start / CHUNK_PAGES..pages.end.div_ceil(CHUNK_PAGES) {
            let index = self.index_or_new(file, number);
            self.touch(index);
            self.change(index, |chunk| {
                let wanted = mask(number, &pages);
                chunk.present |= wanted;
                chunk.in_flight &= !wanted;
                chunk.dirty |= wanted;
            });
        }
        self.evict();
        self.dirty_pages - before
    }

    /// Puts pages into the cache as if they had been read.
    pub(crate) fn warm(&mut self, file: u32, pages: Range<u64>) {
        let end = pages.end.min(pages.start + self.capacity_pages.saturating_sub(self.pages));
        let pages = pages.start..end.max(pages.start);
        self.begin_fetch(file, pages.clone(), |_| ());
        self.fetched(file, pages, true);
    }

    /// Drops pages, dirty or not, except those in flight or in write-back.
    pub(crate) fn drop_pages(&mut self, file: u32, pages: Range<u64>) {
        for number in pages.start / CHUNK_PAGES..pages.end.div_ceil(CHUNK_PAGES) {
            let Some(index) = self.index(file, number) else { continue };
            self.change(index, |chunk| {
                let gone = mask(number, &pages) & !chunk.in_flight & !chunk.write_back;
                chunk.present &= !gone;
                chunk.dirty &= !gone;
                chunk.marked &= !gone;
            });
        }
    }

    /// The first run of dirty pages within `within` that are not in write-back, of at most `most`
    /// pages.
    pub(crate) fn next_dirty(&self, file: u32, within: Range<u64>, most: u64) -> Option<Range<u64>> {
        let mut run: Option<Range<u64>> = None;
        let mut number = within.start / CHUNK_PAGES;
        while number * CHUNK_PAGES < within.end {
            let table = self.files.get(file as usize)?.get(usize_of(number / TABLE_CHUNKS));
            let Some(table) = table else { break };
            if table.to_write == 0 {
                if run.is_some() {
                    break;
                }
                number = (number / TABLE_CHUNKS + 1) * TABLE_CHUNKS;
                continue;
            }
            let writable = self
                .chunk(file, number)
                .map_or(0, |chunk| chunk.dirty & !chunk.write_back & !chunk.in_flight & mask(number, &within));
            let first = number * CHUNK_PAGES;
            match &mut run {
                None if writable != 0 => {
                    let start = writable.trailing_zeros();
                    let length = (writable >> start).trailing_ones();
                    run = Some(first + u64::from(start)..first + u64::from(start + length));
                    if start + length < 64 {
                        break;
                    }
                }
                None => {}
                Some(run) => {
                    let length = writable.trailing_ones();
                    run.end += u64::from(length);
                    if length < 64 {
                        break;
                    }
                }
            }
            if run.as_ref().is_some_and(|run| run.end - run.start >= most) {
                break;
            }
            number += 1;
        }
        run.map(|run| run.start..run.end.min(run.start + most))
    }

    /// Whether any page of the file is dirty. Pages in write-back count only if they were dirtied
    /// again.
    pub(crate) fn has_dirty(&self, file: u32) -> bool {
        self.dirty_of.get(file as usize).is_some_and(|pages| *pages > 0)
    }

    /// The dirty pages are being written: clean, but in write-back.
    pub(crate) fn begin_write_back(&mut self, file: u32, pages: Range<u64>) {
        for number in pages.start / CHUNK_PAGES..pages.end.div_ceil(CHUNK_PAGES) {
            let Some(index) = self.index(file, number) else { continue };
            self.change(index, |chunk| {
                let going = chunk.dirty & mask(number, &pages);
                chunk.dirty &= !going;
                chunk.write_back |= going;
            });
        }
    }

    /// The write of the pages ended.
    pub(crate) fn written(&mut self, file: u32, pages: Range<u64>) {
        for number in pages.start / CHUNK_PAGES..pages.end.div_ceil(CHUNK_PAGES) {
            let Some(index) = self.index(file, number) else { continue };
            self.change(index, |chunk| chunk.write_back &= !mask(number, &pages));
        }
        self.evict();
    }

    /// Whether any of the pages is in write-back.
    pub(crate) fn has_write_back(&self, file: u32, pages: Range<u64>) -> bool {
        let Some(tables) = self.files.get(file as usize) else { return false };
        let mut number = pages.start / CHUNK_PAGES;
        while number * CHUNK_PAGES < pages.end {
            let Some(table) = tables.get(usize_of(number / TABLE_CHUNKS)) else { return false };
            if table.to_write == 0 {
                number = (number / TABLE_CHUNKS + 1) * TABLE_CHUNKS;
                continue;
            }
            if self.chunk(file, number).is_some_and(|chunk| chunk.write_back & mask(number, &pages) != 0) {
                return true;
            }
            number += 1;
        }
        false
    }
}

// ---- chunks ----
impl PageCache {
    fn index(&self, file: u32, number: u64) -> Option<u32> {
        let table = self.files.get(file as usize)?.get(usize_of(number / TABLE_CHUNKS))?;
        let index = table.chunks.as_ref()?[usize_of(number % TABLE_CHUNKS)];
        (index != NIL).then_some(index)
    }

    fn chunk(&self, file: u32, number: u64) -> Option<&Chunk> {
        self.index(file, number).map(|index| &self.chunks[index as usize])
    }

    fn index_or_new(&mut self, file: u32, number: u64) -> u32 {
        if let Some(index) = self.index(file, number) {
            return index;
        }
        let empty = Chunk {
            file,
            number,
            present: 0,
            in_flight: 0,
            dirty: 0,
            write_back: 0,
            marked: 0,
            older: NIL,
            newer: NIL,
        };
        let index = match self.free.pop() {
            Some(index) => {
                self.chunks[index as usize] = empty;
                index
            }
            None => {
                self.chunks.push(empty);
                u32::try_from(self.chunks.len() - 1).expect("memory is too small for 2^32 chunks")
            }
        };
        if self.files.len() <= file as usize {
            self.files.resize_with(file as usize + 1, Vec::new);
            self.dirty_of.resize(file as usize + 1, 0);
        }
        let tables = &mut self.files[file as usize];
        let table = usize_of(number / TABLE_CHUNKS);
        if tables.len() <= table {
            tables.resize_with(table + 1, Table::default);
        }
        let chunks = tables[table].chunks.get_or_insert_with(|| vec![NIL; usize_of(TABLE_CHUNKS)].into());
        chunks[usize_of(number % TABLE_CHUNKS)] = index;
        self.link(index);
        index
    }

    /// Changes a chunk and updates every counter derived from it.
    fn change(&mut self, index: u32, change: impl FnOnce(&mut Chunk)) {
        let before = self.chunks[index as usize];
        change(&mut self.chunks[index as usize]);
        let after = self.chunks[index as usize];
        let update = |total: &mut u64, before: u64, after: u64| {
            *total = *total + u64::from(after.count_ones()) - u64::from(before.count_ones());
        };
        update(&mut self.pages, before.present, after.present);
        update(&mut self.dirty_pages, before.dirty, after.dirty);
        update(&mut self.dirty_of[after.file as usize], before.dirty, after.dirty);
        update(&mut self.write_back_pages, before.write_back, after.write_back);
        let to_write = &mut self.files[after.file as usize][usize_of(after.number / TABLE_CHUNKS)].to_write;
        match (before.must_be_written(), after.must_be_written()) {
            (false, true) => *to_write += 1,
            (true, false) => *to_write -= 1,
            _ => {}
        }
    }

    /// Moves a chunk to the end of the order of use.
    fn touch(&mut self, index: u32) {
        if self.newest != index {
            self.unlink(index);
            self.link(index);
        }
    }

    fn link(&mut self, index: u32) {
        let newest = std::mem::replace(&mut self.newest, index);
        let chunk = &mut self.chunks[index as usize];
        (chunk.older, chunk.newer) = (newest, NIL);
        match newest {
            NIL => self.oldest = index,
            newest => self.chunks[newest as usize].newer = index,
        }
    }

    fn unlink(&mut self, index: u32) {
        let Chunk { older, newer, .. } = self.chunks[index as usize];
        match older {
            NIL => self.oldest = newer,
            older => self.chunks[older as usize].newer = newer,
        }
        match newer {
            NIL => self.newest = older,
            newer => self.chunks[newer as usize].older = older,
        }
    }

    /// Evicts the least recently used chunks, except those in flight, dirty or in write-back.
    fn evict(&mut self) {
        // Busy chunks found at the old end are moved to the new end. The bound keeps one call
        // cheap; the next call continues.
        let mut tries = 64;
        while self.pages > self.capacity_pages && tries > 0 && self.oldest != self.newest {
            tries -= 1;
            let index = self.oldest;
            let chunk = self.chunks[index as usize];
            if chunk.is_busy() {
                self.touch(index);
                continue;
            }
            self.unlink(index);
            self.pages -= u64::from(chunk.present.count_ones());
            let table = &mut self.files[chunk.file as usize][usize_of(chunk.number / TABLE_CHUNKS)];
            if let Some(chunks) = &mut table.chunks {
                chunks[usize_of(chunk.number % TABLE_CHUNKS)] = NIL;
            }
            self.free.push(index);
        }
    }
}

fn usize_of(number: u64) -> usize {
    usize::try_from(number).expect("tables are found by numbers that memory can hold")
}

const fn bit(page: u64) -> u64 {
    1 << (page % CHUNK_PAGES)
}

/// The bits of a page and of all after it.
const fn from_bit(page: u64) -> u64 {
    u64::MAX << (page % CHUNK_PAGES)
}

/// The `count` lowest bits.
const fn ones(count: u32) -> u64 {
    if count >= 64 { u64::MAX } else { (1 << count) - 1 }
}

/// The bits of chunk `number` that lie in `pages`.
fn mask(number: u64, pages: &Range<u64>) -> u64 {
    let first = number * CHUNK_PAGES;
    let low = pages.start.saturating_sub(first).min(64);
    let high = pages.end.saturating_sub(first).min(64);
    let below = |count: u64| ones(u32::try_from(count).unwrap_or(64));
    below(high) & !below(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fetch(cache: &mut PageCache, pages: Range<u64>) -> Vec<Range<u64>> {
        let mut runs = Vec::new();
        cache.begin_fetch(0, pages, |run| runs.push(run));
        runs
    }

    #[test]
    fn only_what_is_missing_is_fetched_and_runs_cross_chunks() {
        let mut cache = PageCache::new(1 << 20);
        assert_eq!(fetch(&mut cache, 60..70), vec![60..70]);
        assert_eq!(fetch(&mut cache, 50..130), vec![50..60, 70..130]);
        assert_eq!(cache.state(0, 129), PageState::InFlight);
        assert_eq!(cache.state(0, 130), PageState::Missing);
        cache.fetched(0, 50..130, true);
        assert_eq!(cache.state(0, 129), PageState::Ready);
        assert_eq!(cache.ready_up_to(0, 55..200), 130);
        assert_eq!(cache.next_missing(0, 55, 100), Some(130));
        assert_eq!(cache.next_missing(0, 55, 74), None);
        assert_eq!((cache.present_before(0, 130, 500), cache.present_before(0, 130, 33)), (80, 33));
        assert_eq!(cache.present_before(0, 50, 500), 0);
    }

    #[test]
    fn a_reader_stops_at_the_marker_once() {
        let mut cache = PageCache::new(1 << 20);
        fetch(&mut cache, 0..200);
        cache.mark(0, 100);
        cache.mark(0, 300);
        cache.fetched(0, 0..200, true);
        assert_eq!(cache.ready_up_to(0, 0..200), 100);
        assert!(cache.take_marker(0, 100) && !cache.take_marker(0, 100) && !cache.take_marker(0, 300));
        assert_eq!(cache.ready_up_to(0, 0..200), 200);
    }

    #[test]
    fn pages_that_did_not_come_are_missing_again() {
        let mut cache = PageCache::new(1 << 20);
        fetch(&mut cache, 0..8);
        cache.dirty(0, 3..4);
        cache.fetched(0, 0..8, false);
        assert_eq!((cache.state(0, 2), cache.state(0, 3)), (PageState::Missing, PageState::Ready));
    }

    #[test]
    fn dirty_runs_come_in_order_and_wait_for_their_write_back() {
        let mut cache = PageCache::new(1 << 20);
        assert_eq!(cache.dirty(0, 60..70), 10);
        assert_eq!(cache.dirty(0, 65..72), 2);
        cache.dirty(0, 1_000_000..1_000_001);
        assert_eq!(cache.next_dirty(0, 0..u64::MAX, 256), Some(60..72));
        assert_eq!(cache.next_dirty(0, 0..u64::MAX, 8), Some(60..68));
        assert_eq!(cache.next_dirty(0, 66..u64::MAX, 256), Some(66..72));
        cache.begin_write_back(0, 60..72);
        assert_eq!((cache.dirty_pages(), cache.write_back_pages()), (1, 12));
        cache.dirty(0, 60..61);
        assert_eq!(cache.next_dirty(0, 0..u64::MAX, 256), Some(1_000_000..1_000_001));
        assert!(cache.has_write_back(0, 71..100) && !cache.has_write_back(0, 72..u64::MAX));
        cache.written(0, 60..72);
        assert_eq!(cache.next_dirty(0, 0..u64::MAX, 256), Some(60..61));
        cache.drop_pages(0, 0..100);
        assert_eq!((cache.dirty_pages(), cache.write_back_pages()), (1, 0));
    }

    #[test]
    fn the_longest_unused_chunks_go_and_dirty_ones_stay() {
        let mut cache = PageCache::new(256);
        cache.dirty(0, 0..10);
        for chunk in 1..8 {
            fetch(&mut cache, chunk * 64..(chunk + 1) * 64);
            cache.fetched(0, chunk * 64..(chunk + 1) * 64, true);
        }
        fetch(&mut cache, 640..641);
        assert_eq!(cache.state(0, 0), PageState::Ready);
        assert_eq!((cache.state(0, 64), cache.state(0, 511)), (PageState::Missing, PageState::Ready));
        assert!(cache.pages <= 256);
    }
}
