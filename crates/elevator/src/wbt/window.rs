//! A window is the interval over which wbt judges the latency of reads. This file counts the reads
//! and writes that end in it, finds the fastest read, and gives the verdict.
//!
//! The fastest read is used instead of the mean: if not even one read completed in time, the device
//! has too many writes. This is the idea of CoDel. Source: Linux 6.1 block/blk-wbt.c,
//! latency_exceeded; docs/specifications/throttle.md, section 6.

use crate::request::Bio;
use hoistway_block::Nanos;
use hoistway_block::time::since;

/// Writes that a window must contain before a slow read is blamed on writes.
const ENOUGH_WRITES: u32 = 3;

/// Requests that ended in a window.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Window {
    reads: u32,
    writes: u32,
    /// Time in the device of the fastest read.
    fastest_read_ns: Nanos,
}

impl Window {
    /// No request has ended yet.
    pub const EMPTY: Window = Window { reads: 0, writes: 0, fastest_read_ns: Nanos::MAX };

    /// A read took `ns` in the device.
    #[inline]
    pub const fn count_read(&mut self, ns: Nanos) {
        self.reads = self.reads.saturating_add(1);
        if ns < self.fastest_read_ns {
            self.fastest_read_ns = ns;
        }
    }

    /// A write ended.
    #[inline]
    pub const fn count_write(&mut self) {
        self.writes = self.writes.saturating_add(1);
    }

    /// The verdict of a window. `oldest_read_ns` is the age of the watched read in the device, if
    /// there is one; `has_writes` says whether writes are in flight, or a task slept lately because
    /// too much memory was dirty.
    pub fn verdict(&self, length: Nanos, target: Nanos, oldest_read_ns: Option<Nanos>, has_writes: bool) -> Health {
        let age = oldest_read_ns.unwrap_or(0);
        if age > length || (age > target && self.reads == 0) {
            return Health::Exceeded(age);
        }
        if self.reads == 0 || self.writes < ENOUGH_WRITES {
            return if self.writes > 0 || has_writes { Health::WritesOnly } else { Health::Unknown };
        }
        if self.fastest_read_ns > target {
            return Health::Exceeded(self.fastest_read_ns);
        }
        Health::Good
    }
}

/// The window in progress, if there is one, and what is known of those before.
///
/// Invariant: requests are counted only while a window runs.
#[derive(Debug)]
pub struct Windows {
    counts: Window,
    length_ns: Nanos,
    ends: Option<Nanos>,
    /// Windows since the last step of which nothing could be told.
    unknown: u32,
    watched: WatchedRead,
}

impl Windows {
    /// None runs; `length_ns` is that of the first.
    pub const fn new(length_ns: Nanos) -> Self {
        Self { counts: Window::EMPTY, length_ns, ends: None, unknown: 0, watched: WatchedRead::NONE }
    }

    /// Starts a window.
    pub fn start(&mut self, now: Nanos, length_ns: Nanos) {
        (self.counts, self.length_ns) = (Window::EMPTY, length_ns);
        self.ends = Some(now.saturating_add(length_ns));
    }

    /// Ends the window in progress.
    pub fn stop(&mut self) {
        self.ends = None;
    }

    /// Whether one runs.
    #[inline]
    pub fn is_running(&self) -> bool {
        self.ends.is_some()
    }

    /// When the one in progress ends.
    #[inline]
    pub fn ends(&self) -> Option<Nanos> {
        self.ends
    }

    /// Length of the one in progress, or of the last one.
    pub fn length_ns(&self) -> Nanos {
        self.length_ns
    }

    /// Requests that end in the window in progress.
    #[inline]
    pub fn counts(&mut self) -> &mut Window {
        &mut self.counts
    }

    /// The read that is watched over all windows.
    #[inline]
    pub fn watched(&mut self) -> &mut WatchedRead {
        &mut self.watched
    }

    /// The verdict of the window in progress: see [`Window::verdict`].
    pub fn verdict(&self, now: Nanos, target: Nanos, has_writes: bool) -> Health {
        self.counts.verdict(self.length_ns, target, self.watched.age(now), has_writes)
    }

    /// Nothing could be told. Returns for how many windows in a row.
    pub fn count_unknown(&mut self) -> u32 {
        self.unknown = self.unknown.saturating_add(1);
        self.unknown
    }

    /// The depth has changed: windows of which nothing can be told count from here.
    pub fn forget_unknown(&mut self) {
        self.unknown = 0;
    }
}

/// The verdict of a window about the latency of reads.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Health {
    /// At least one read completed in time.
    Good,
    /// Too few requests ended to tell.
    Unknown,
    /// Too few reads ended to tell, but there are writes.
    WritesOnly,
    /// No read completed in time; the value is the best latency seen.
    Exceeded(Nanos),
}

impl Health {
    /// The kernel's number of the verdict in its trace.
    pub const fn number(self) -> u64 {
        match self {
            Health::Good => 1,
            Health::Unknown => 2,
            Health::WritesOnly => 3,
            Health::Exceeded(_) => 4,
        }
    }
}

/// The one read in the device whose age is known: the first that was issued while none was watched.
#[derive(Copy, Clone, Debug)]
pub struct WatchedRead {
    read: Option<(Bio, Nanos)>,
}

impl WatchedRead {
    pub const NONE: WatchedRead = WatchedRead { read: None };

    /// A read was issued. If it is the watched read, issued again, its age counts from now.
    #[inline]
    pub fn issued(&mut self, attributes: &Bio, now: Nanos) {
        if self.read.as_ref().is_none_or(|(watched, _)| watched == attributes) {
            self.read = Some((*attributes, now));
        }
    }

    /// A read completed, or the driver gave it back.
    #[inline]
    pub fn returned(&mut self, attributes: &Bio) {
        if self.read.as_ref().is_some_and(|(watched, _)| watched == attributes) {
            self.read = None;
        }
    }

    pub fn age(&self, now: Nanos) -> Option<Nanos> {
        self.read.as_ref().map(|(_, issued)| since(now, *issued))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoistway_block::{Extent, Operation};

    const TARGET: Nanos = 2_000;
    const LENGTH: Nanos = 100_000;

    fn window(reads: &[Nanos], writes: u32) -> Window {
        let mut window = Window::EMPTY;
        reads.iter().for_each(|ns| window.count_read(*ns));
        (0..writes).for_each(|_| window.count_write());
        window
    }

    #[test]
    fn the_fastest_read_decides() {
        let verdict = |reads: &[Nanos], writes| window(reads, writes).verdict(LENGTH, TARGET, None, false);
        assert_eq!(verdict(&[100_000, 2_000], 3), Health::Good);
        assert_eq!(verdict(&[100_000, 2_001], 3), Health::Exceeded(2_001));
        assert_eq!(verdict(&[2_001], 2), Health::WritesOnly);
        assert_eq!(verdict(&[2_001], 0), Health::Unknown);
    }

    #[test]
    fn a_read_that_does_not_come_back_counts_as_slow() {
        let verdict = |reads: &[Nanos], age| window(reads, 0).verdict(LENGTH, TARGET, Some(age), true);
        assert_eq!(verdict(&[], 2_001), Health::Exceeded(2_001));
        assert_eq!(verdict(&[1_000], 2_001), Health::WritesOnly);
        assert_eq!(verdict(&[1_000], 100_001), Health::Exceeded(100_001));
    }

    #[test]
    fn one_read_is_watched_at_a_time() {
        let read = |sector| Bio::new(Operation::Read, Extent::new(sector, 8));
        let mut watched = WatchedRead::NONE;
        watched.issued(&read(0), 10);
        watched.issued(&read(8), 20);
        assert_eq!(watched.age(50), Some(40));
        watched.returned(&read(8));
        assert_eq!(watched.age(50), Some(40));
        watched.issued(&read(0), 30);
        assert_eq!(watched.age(50), Some(20), "given back and issued again");
        watched.returned(&read(0));
        assert_eq!(watched.age(50), None);
    }
}
