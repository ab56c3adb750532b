//! Read-ahead: which pages are read when a reader reaches a page that is missing or one that
//! carries the marker. The marker is set in the newest window and triggers the next one.
//!
//! * Guarantee: the windows equal those of each era's kernel page for page, for streams,
//!   interleaved streams and random reads.
//! * Cost: a few comparisons per window; the state of an open file is four numbers.
//! * Source: docs/specifications/devices.md, section 8.2 (Linux mm/readahead.c of 2.6.23 to 6.x,
//!   mm/filemap.c of 2.4.20).

use hoistway_experiment::{KernelEra, Machine};

use super::pages::{PAGE_BYTES, PageCache};

/// Parameters that are constant during a run.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Rules {
    pub era: KernelEra,
    /// Longest window of a small read, in pages; 0 = no read-ahead.
    pub max_pages: u64,
    /// Longest request of the device, in pages: since 4.10 windows of longer reads grow up to it.
    pub device_pages: u64,
    /// Whether windows end at the boundary of a large folio, a block of pages that newer kernels
    /// handle as one.
    pub folio_rounding: bool,
}

/// The reader's position when a decision is needed.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub file: u32,
    pub page: u64,
    /// Pages left of the call, including this one.
    pub left: u64,
    /// Pages of the whole call.
    pub call: u64,
    /// Whether the page is present and has the marker; otherwise it is missing.
    pub is_marked: bool,
}

/// Pages to read; those already present are skipped.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Window {
    pub first_page: u64,
    pub end_page: u64,
    /// The page that triggers the next window.
    pub marker: Option<u64>,
    /// Bios end at multiples of this; 1 = only where the limits require it.
    pub folio_pages: u64,
}

/// The read-ahead state of one open file.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct ReadAhead {
    /// The newest window.
    start: u64,
    size: u64,
    /// The part of it after its marker.
    async_size: u64,
    /// The page read last.
    previous: Option<u64>,
}

impl ReadAhead {
    /// A file just opened.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// The reader has copied up to this page.
    pub(crate) fn has_read(&mut self, page: u64) {
        self.previous = Some(page);
    }

    /// The pages to read at a missing or marked page.
    pub(crate) fn decide(&mut self, rules: &Rules, place: Place, cache: &PageCache) -> Window {
        let Place { file, page, left, .. } = place;
        if rules.max_pages == 0 {
            return exactly(page, 1);
        }
        let limit = rules.limit(place.call);
        let size_before = self.size;
        // The newest kernels check the marker first, because it may be on page 0.
        let begins = page == 0 && !(place.is_marked && rules.era == KernelEra::Mq);
        let is_expected =
            self.size > 0 && (page == self.start + self.size - self.async_size || page == self.start + self.size);
        if begins {
            self.begin(rules, page, left, limit);
        } else if is_expected {
            self.start += self.size;
            self.size = rules.next_size(self.size, limit);
            self.async_size = self.size;
        } else if place.is_marked {
            let Some(gap) = cache.next_missing(file, page + 1, limit.saturating_sub(1)) else {
                return exactly(page, 0);
            };
            self.start = gap;
            self.size = rules.next_size(gap - page + left, limit);
            self.async_size = self.size;
        } else if left > limit || self.previous.is_some_and(|previous| page.abs_diff(previous) <= 1 && page >= previous)
        {
            self.begin(rules, page, left, limit);
        } else if !self.goes_on_from_history(place, limit, cache) {
            return exactly(page, left);
        }
        self.window(rules, page, limit, size_before)
    }

    /// A stream begins at this page.
    fn begin(&mut self, rules: &Rules, page: u64, left: u64, limit: u64) {
        self.start = page;
        self.size = rules.first_size(left, limit);
        self.async_size = if rules.era == KernelEra::Linux24 {
            // 2.4 reads page by page and does not know the call's length: the second page triggers
            // the next window.
            self.size - 1
        } else if self.size > left {
            self.size - left
        } else {
            self.size
        };
    }

    /// Continues a stream at a position that does not continue the last window, if enough pages
    /// directly before it are in the cache; else returns false.
    fn goes_on_from_history(&mut self, place: Place, limit: u64, cache: &PageCache) -> bool {
        let behind = cache.present_before(place.file, place.page, limit);
        if behind <= place.left {
            return false;
        }
        let behind = if behind == place.page { 2 * behind } else { behind };
        self.start = place.page;
        self.size = (behind + place.left).min(limit);
        self.async_size = 1;
        true
    }

    fn window(&mut self, rules: &Rules, page: u64, limit: u64, size_before: u64) -> Window {
        let joins_two = matches!(rules.era, KernelEra::Linux26 | KernelEra::Linux3);
        if joins_two && page == self.start && self.size == self.async_size {
            self.async_size = rules.next_size(self.size, limit);
            self.size += self.async_size;
        }
        let mut folio_pages = 1;
        if rules.folio_rounding && size_before > 0 {
            // Folios are as large as the previous window, as observed in the requests of Linux
            // 6.18.
            folio_pages = 1 << size_before.ilog2();
        }
        let end = (self.start + self.size).next_multiple_of(folio_pages);
        let marker = self.start + self.size - self.async_size;
        let added = end - (self.start + self.size);
        (self.size, self.async_size) = (self.size + added, self.async_size + added);
        Window { first_page: self.start, end_page: end, marker: Some(marker), folio_pages }
    }
}

impl Rules {
    /// The rules of a machine whose requests have at most this many bytes.
    pub(crate) fn of(machine: &Machine, request_bytes: u64) -> Self {
        Self {
            era: machine.era,
            max_pages: (machine.read_ahead_kib << 10) / PAGE_BYTES,
            device_pages: request_bytes / PAGE_BYTES,
            folio_rounding: machine.folio_rounding,
        }
    }

    /// Longest window for a read of `call` pages.
    fn limit(&self, call: u64) -> u64 {
        if self.era == KernelEra::Mq && call > self.max_pages && self.device_pages > self.max_pages {
            call.min(self.device_pages)
        } else {
            self.max_pages
        }
    }

    /// The first window of a stream whose reader wants `left` pages.
    fn first_size(&self, left: u64, limit: u64) -> u64 {
        if self.era == KernelEra::Linux24 {
            return limit.min(4);
        }
        let rounded = left.next_power_of_two();
        if rounded <= limit / 32 {
            4 * rounded
        } else if rounded <= limit / 4 {
            2 * rounded
        } else {
            limit
        }
    }

    /// The window after one of `size` pages.
    fn next_size(&self, size: u64, limit: u64) -> u64 {
        let next = match self.era {
            KernelEra::Linux24 => 2 * size,
            _ if size < limit / 16 => 4 * size,
            KernelEra::Mq if size > limit / 2 => limit,
            _ => 2 * size,
        };
        next.min(limit)
    }
}

/// Pages that are read without setting up a next window.
const fn exactly(page: u64, count: u64) -> Window {
    Window { first_page: page, end_page: page + count, marker: None, folio_pages: 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::pages::PageState;

    fn rules(era: KernelEra) -> Rules {
        Rules { era, max_pages: 32, device_pages: 320, folio_rounding: false }
    }

    /// A reader of `calls` calls of `pages` pages from page `first`, on a device that completes at
    /// once. Returns (pages read, page at which).
    fn stream(
        rules: &Rules,
        cache: &mut PageCache,
        state: &mut ReadAhead,
        first: u64,
        pages: u64,
        calls: u64,
    ) -> Vec<(u64, u64)> {
        let mut windows = Vec::new();
        for call in 0..calls {
            let (start, end) = (first + call * pages, first + (call + 1) * pages);
            for page in start..end {
                let mut place = Place { file: 0, page, left: end - page, call: pages, is_marked: false };
                if cache.state(0, page) == PageState::Missing {
                    windows.extend(fetch(state.decide(rules, place, cache), cache, page));
                }
                place.is_marked = cache.take_marker(0, page);
                if place.is_marked {
                    windows.extend(fetch(state.decide(rules, place, cache), cache, page));
                }
                state.has_read(page);
            }
        }
        windows
    }

    fn fetch(window: Window, cache: &mut PageCache, page: u64) -> Option<(u64, u64)> {
        let mut count = 0;
        let mut has_marker = false;
        cache.begin_fetch(0, window.first_page..window.end_page, |run| {
            count += run.end - run.start;
            has_marker |= window.marker.is_some_and(|marker| run.contains(&marker));
        });
        if let Some(marker) = window.marker.filter(|_| has_marker) {
            cache.mark(0, marker);
        }
        cache.fetched(0, window.first_page..window.end_page, true);
        (count > 0).then_some((count, page))
    }

    fn from_start(era: KernelEra, pages: u64, calls: u64) -> Vec<(u64, u64)> {
        stream(&rules(era), &mut PageCache::new(1 << 20), &mut ReadAhead::new(), 0, pages, calls)
    }

    #[test]
    fn t45_small_reads_double_their_windows() {
        let expected = [(4, 0), (8, 1), (16, 4), (32, 12), (32, 28), (32, 60), (32, 92)];
        for era in [KernelEra::Linux26, KernelEra::Linux3, KernelEra::Mq] {
            assert_eq!(from_start(era, 1, 93), expected, "{era:?}");
        }
        assert_eq!(from_start(KernelEra::Linux24, 1, 93), expected);
        let expected = [(32, 0), (32, 16), (32, 32), (32, 64), (32, 96)];
        for era in [KernelEra::Linux26, KernelEra::Linux3, KernelEra::Mq] {
            assert_eq!(from_start(era, 16, 7), expected, "{era:?}");
        }
    }

    #[test]
    fn t45_long_reads_keep_two_windows_in_2_6_and_one_long_one_now() {
        assert_eq!(from_start(KernelEra::Linux26, 256, 1)[..4], [(64, 0), (32, 32), (32, 64), (32, 96)]);
        assert_eq!(from_start(KernelEra::Mq, 64, 4), [(64, 0), (64, 0), (64, 64), (64, 128), (64, 192)]);
        assert_eq!(from_start(KernelEra::Mq, 256, 3), [(256, 0), (256, 0), (256, 256), (256, 512)]);
        assert_eq!(from_start(KernelEra::Mq, 1_024, 1)[..4], [(320, 0), (320, 0), (320, 320), (320, 640)]);
    }

    #[test]
    fn large_folios_round_the_ends() {
        let folios = Rules { folio_rounding: true, ..rules(KernelEra::Mq) };
        let windows = stream(&folios, &mut PageCache::new(1 << 20), &mut ReadAhead::new(), 0, 1, 70);
        // Windows in KiB: 16; 32; 16 + 32 + 32; 64 + 64; 128, as observed in the requests of Linux
        // 6.18.
        assert_eq!(windows[..5], [(4, 0), (8, 1), (20, 4), (32, 12), (32, 32)]);
    }

    #[test]
    fn t47_random_reads_fetch_their_pages_and_history_makes_a_stream_of_them() {
        let (mut cache, mut state) = (PageCache::new(1 << 20), ReadAhead::new());
        let rules = rules(KernelEra::Mq);
        for page in [5_000, 70_000, 300, 90_000] {
            assert_eq!(stream(&rules, &mut cache, &mut state, page, 1, 1), [(1, page)]);
        }
        // Eight pages that another reader has read, then one after them.
        cache.warm(0, 1_000..1_008);
        assert_eq!(stream(&rules, &mut cache, &mut state, 1_008, 1, 1), [(9, 1_008)]);
        // Its marker is on its last page.
        assert_eq!(stream(&rules, &mut cache, &mut state, 1_009, 1, 8), [(18, 1_016)]);
    }

    #[test]
    fn without_read_ahead_pages_come_one_by_one() {
        let rules = Rules { max_pages: 0, ..rules(KernelEra::Mq) };
        let windows = stream(&rules, &mut PageCache::new(1 << 20), &mut ReadAhead::new(), 0, 4, 1);
        assert_eq!(windows, [(1, 0), (1, 1), (1, 2), (1, 3)]);
    }

    #[test]
    fn t48_two_streams_in_one_open_file_keep_their_windows() {
        for era in [KernelEra::Linux26, KernelEra::Linux3, KernelEra::Mq] {
            let (mut cache, mut state) = (PageCache::new(1 << 20), ReadAhead::new());
            let mut windows = Vec::new();
            for page in 0..400 {
                windows.extend(stream(&rules(era), &mut cache, &mut state, page, 1, 1));
                windows.extend(stream(&rules(era), &mut cache, &mut state, 1_000_000 + page, 1, 1));
            }
            let pages: u64 = windows.iter().map(|(count, _)| count).sum();
            assert!(pages > 8 * windows.len() as u64, "{era:?}: {pages} pages in {} windows", windows.len());
        }
    }
}
