//! The least of a page cache that buffered workloads need; the full layers come with the calibrated devices.
//!
//! Reads   a stream that goes on where it ended is read ahead in windows of 128 KiB, two of them outstanding, while the
//!         process copies page by page. Anything else reads exactly the pages it asks for. Nothing is kept that the
//!         stream has passed, and no two processes share pages.
//! Writes  go into dirty extents of at most 1 MiB and cost the copy alone, until the dirty limit holds the writer back.
//!         Write-back is asynchronous, oldest first: above the background limit, at 30 s of age, or for an fsync.
//!         A page that is dirtied twice counts twice.

use std::collections::VecDeque;

use block::time::SECOND;
use block::{GroupId, Nanos};

const PAGE_BYTES: u64 = 4_096;
/// Read-ahead window (Linux read_ahead_kb).
const WINDOW_BYTES: u64 = 128 << 10;
/// Longest extent written back at once.
const EXTENT_BYTES: u64 = 1 << 20;
/// Dirty data above this is written back without being asked.
const BACKGROUND_BYTES: u64 = 128 << 20;
/// Dirty data above this holds writers back.
const LIMIT_BYTES: u64 = 256 << 20;
/// Dirty data older than this is written back (dirty_expire_centisecs).
const EXPIRE_NS: Nanos = 30 * SECOND;
/// Extents in write-back at a time.
const WRITE_BACK_DEPTH: usize = 64;

/// A range of bytes to read from or write to the device.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Range {
    pub start_bytes: u64,
    pub end_bytes: u64,
}

/// A range being fetched; reported back by its number.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Window {
    pub number: u32,
    pub range: Range,
    /// Nobody waits for it yet.
    pub is_ahead: bool,
    is_loaded: bool,
}

/// What one process has read ahead.
#[derive(Clone, Debug)]
pub(crate) struct ReadAhead {
    /// Adjacent windows in ascending order.
    windows: VecDeque<Window>,
    previous_end: Option<u64>,
    /// End of the process's area.
    limit: u64,
    next_number: u32,
    waiting: VecDeque<(u32, Range)>,
}

impl ReadAhead {
    /// Nothing read yet, and nothing beyond `limit` ever will be.
    pub(crate) fn new(limit: u64, depth: u32) -> Self {
        let windows = VecDeque::with_capacity(8);
        let waiting = VecDeque::with_capacity(depth as usize);
        Self { windows, previous_end: None, limit, next_number: 0, waiting }
    }

    /// The process reads `range` as its I/O `io`; `fetch` is called with each window to be read from the device. True
    /// when the pages are there already; otherwise [`ReadAhead::loaded`] names the I/O.
    pub(crate) fn read(&mut self, io: u32, range: Range, mut fetch: impl FnMut(Window)) -> bool {
        let start = range.start_bytes / PAGE_BYTES * PAGE_BYTES;
        let end = range.end_bytes.next_multiple_of(PAGE_BYTES).min(self.limit.max(range.end_bytes));
        let is_sequential = self.previous_end.is_none_or(|previous| previous == range.start_bytes);
        self.previous_end = Some(range.end_bytes);
        while self.windows.front().is_some_and(|window| window.range.end_bytes <= start || !is_sequential) {
            self.windows.pop_front();
        }
        let covered_to = self.windows.back().map_or(start, |window| window.range.end_bytes);
        if covered_to < end {
            let ahead_to = if is_sequential { covered_to + WINDOW_BYTES } else { end };
            self.add(
                Range { start_bytes: covered_to, end_bytes: ahead_to.max(end).min(self.limit.max(end)) },
                false,
                &mut fetch,
            );
        }
        let newest = self.windows.back().map(|window| window.range);
        if let Some(newest) =
            newest.filter(|newest| is_sequential && end > newest.start_bytes && newest.end_bytes < self.limit)
        {
            let next =
                Range { start_bytes: newest.end_bytes, end_bytes: (newest.end_bytes + WINDOW_BYTES).min(self.limit) };
            self.add(next, true, &mut fetch);
        }
        let is_there = self.is_there(Range { start_bytes: start, end_bytes: end });
        if !is_there {
            self.waiting.push_back((io, Range { start_bytes: start, end_bytes: end }));
        }
        is_there
    }

    /// A window has come in; `ready` is called with each I/O whose pages are all there now.
    pub(crate) fn loaded(&mut self, number: u32, mut ready: impl FnMut(u32)) {
        if let Some(window) = self.windows.iter_mut().find(|window| window.number == number) {
            window.is_loaded = true;
        }
        while let Some(&(io, range)) = self.waiting.front() {
            if !self.is_there(range) {
                return;
            }
            self.waiting.pop_front();
            ready(io);
        }
    }

    fn add(&mut self, range: Range, is_ahead: bool, fetch: &mut impl FnMut(Window)) {
        let window = Window { number: self.next_number, range, is_ahead, is_loaded: false };
        self.next_number = self.next_number.wrapping_add(1);
        self.windows.push_back(window);
        fetch(window);
    }

    /// Windows a later read has dropped were passed by it, so what is not there to be waited for counts as read.
    fn is_there(&self, range: Range) -> bool {
        self.windows.iter().all(|window| {
            window.is_loaded
                || window.range.end_bytes <= range.start_bytes
                || range.end_bytes <= window.range.start_bytes
        })
    }
}

/// Dirty data of one process.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct DirtyExtent {
    pub range: Range,
    pub process: u32,
    pub group: GroupId,
    since_ns: Nanos,
}

/// The dirty data of all processes.
#[derive(Debug)]
pub(crate) struct WriteBack {
    dirty: VecDeque<DirtyExtent>,
    /// Bytes dirty or in write-back.
    bytes: u64,
    in_flight: usize,
    /// Extents of each process that are not on the device yet.
    extents_of: Vec<u32>,
    /// Processes that wait for all of theirs, with the I/O that waits.
    syncing: Vec<(u32, u32)>,
    /// I/Os that the limit holds back.
    held: VecDeque<(u32, DirtyExtent)>,
}

impl WriteBack {
    /// No dirty data; processes are below `processes`.
    pub(crate) fn new(processes: usize) -> Self {
        Self {
            dirty: VecDeque::new(),
            bytes: 0,
            in_flight: 0,
            extents_of: vec![0; processes],
            syncing: Vec::new(),
            held: VecDeque::new(),
        }
    }

    /// A process writes; true if it went in, otherwise [`WriteBack::written`] names the I/O later.
    pub(crate) fn write(&mut self, io: u32, process: u32, group: GroupId, range: Range, now: Nanos) -> bool {
        let extent = DirtyExtent { range, process, group, since_ns: now };
        if self.bytes + (range.end_bytes - range.start_bytes) > LIMIT_BYTES || !self.held.is_empty() {
            self.held.push_back((io, extent));
            return false;
        }
        self.admit(extent);
        true
    }

    /// A process wants its data on the device; true if it is, otherwise [`WriteBack::written`] names the I/O later.
    pub(crate) fn sync(&mut self, io: u32, process: u32) -> bool {
        if self.extents_of[process as usize] == 0 {
            return true;
        }
        self.syncing.push((process, io));
        false
    }

    /// The next extent to write to the device, if it is time; [`WriteBack::written`] ends it.
    pub(crate) fn next(&mut self, now: Nanos) -> Option<DirtyExtent> {
        let oldest_ns = self.dirty.front()?.since_ns;
        let is_due = self.bytes > BACKGROUND_BYTES || !self.syncing.is_empty() || now >= oldest_ns + EXPIRE_NS;
        if !is_due || self.in_flight >= WRITE_BACK_DEPTH {
            return None;
        }
        self.in_flight += 1;
        self.dirty.pop_front()
    }

    /// When the oldest dirty data is due for its age.
    pub(crate) fn expires_at(&self) -> Option<Nanos> {
        self.dirty.front().map(|extent| extent.since_ns + EXPIRE_NS)
    }

    /// An extent is on the device (or lost to an error); `ready` is called with each I/O that need wait no longer.
    pub(crate) fn written(&mut self, extent: &DirtyExtent, mut ready: impl FnMut(u32)) {
        self.in_flight -= 1;
        self.bytes -= extent.range.end_bytes - extent.range.start_bytes;
        self.extents_of[extent.process as usize] -= 1;
        let extents_of = &self.extents_of;
        self.syncing.retain(|&(process, io)| {
            let waits = extents_of[process as usize] > 0;
            if !waits {
                ready(io);
            }
            waits
        });
        while let Some(&(io, held)) = self.held.front() {
            if self.bytes + (held.range.end_bytes - held.range.start_bytes) > LIMIT_BYTES {
                return;
            }
            self.held.pop_front();
            self.admit(held);
            ready(io);
        }
    }

    fn admit(&mut self, extent: DirtyExtent) {
        self.bytes += extent.range.end_bytes - extent.range.start_bytes;
        if let Some(newest) = self.dirty.back_mut()
            && newest.process == extent.process
            && newest.range.end_bytes == extent.range.start_bytes
            && extent.range.end_bytes - newest.range.start_bytes <= EXTENT_BYTES
        {
            newest.range.end_bytes = extent.range.end_bytes;
            return;
        }
        self.extents_of[extent.process as usize] += 1;
        self.dirty.push_back(extent);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fetched(read_ahead: &mut ReadAhead, io: u32, start: u64, end: u64) -> (bool, Vec<(u64, u64)>) {
        let mut windows = Vec::new();
        let is_there = read_ahead.read(io, Range { start_bytes: start, end_bytes: end }, |window| {
            windows.push((window.range.start_bytes, window.range.end_bytes))
        });
        (is_there, windows)
    }

    #[test]
    fn a_stream_keeps_two_windows_outstanding() {
        let mut cache = ReadAhead::new(1 << 30, 1);
        let window = WINDOW_BYTES;
        assert_eq!(fetched(&mut cache, 0, 0, 4_096), (false, vec![(0, window), (window, 2 * window)]));
        let mut ready = Vec::new();
        cache.loaded(0, |io| ready.push(io));
        assert_eq!(ready, [0]);
        for page in 1..32 {
            assert_eq!(fetched(&mut cache, 0, page * 4_096, (page + 1) * 4_096), (true, vec![]));
        }
        // The first page of the second window asks for the third.
        assert_eq!(fetched(&mut cache, 0, window, window + 4_096), (false, vec![(2 * window, 3 * window)]));
    }

    #[test]
    fn random_reads_fetch_exactly_their_pages() {
        let mut cache = ReadAhead::new(1 << 30, 1);
        fetched(&mut cache, 0, 0, 4_096);
        cache.loaded(0, |_| ());
        assert_eq!(fetched(&mut cache, 0, 1 << 20, (1 << 20) + 512), (false, vec![(1 << 20, (1 << 20) + 4_096)]));
    }

    #[test]
    fn read_ahead_ends_with_the_area() {
        let mut cache = ReadAhead::new(100 << 10, 1);
        assert_eq!(fetched(&mut cache, 0, 0, 4_096), (false, vec![(0, 100 << 10)]));
    }

    #[test]
    fn the_limit_holds_a_writer_back_until_data_is_written() {
        let mut cache = WriteBack::new(1);
        let mut start = 0;
        while cache.write(7, 0, GroupId::ROOT, Range { start_bytes: start, end_bytes: start + (1 << 20) }, 0) {
            start += 1 << 20;
        }
        assert_eq!(start, LIMIT_BYTES);
        let extent = cache.next(0).expect("above the background limit");
        let mut ready = Vec::new();
        cache.written(&extent, |io| ready.push(io));
        assert_eq!(ready, [7]);
    }

    #[test]
    fn a_sync_writes_back_what_would_have_waited() {
        let mut cache = WriteBack::new(1);
        assert!(cache.write(0, 0, GroupId::ROOT, Range { start_bytes: 0, end_bytes: 4_096 }, 5));
        assert_eq!(cache.next(5), None);
        assert_eq!(cache.expires_at(), Some(5 + EXPIRE_NS));
        assert!(!cache.sync(1, 0));
        let extent = cache.next(5).expect("asked for");
        let mut ready = Vec::new();
        cache.written(&extent, |io| ready.push(io));
        assert_eq!(ready, [1]);
        assert!(cache.sync(2, 0));
    }
}
