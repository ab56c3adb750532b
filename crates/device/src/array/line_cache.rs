//! The controller's read cache: lines that are loading or present.
//!
//! A line is an aligned range of `prefetch_line_kib`; it is read from the disks in pieces, one for
//! each part on another disk. A write updates a line in place, so writes change nothing here. Only
//! lines that have been read to their end are replaced: one that is loading, or that a slow stream
//! will still read, makes no room for those of a fast stream. The index is a chained hash table of
//! fixed size: lines are inserted and removed all the time, and chains then need neither rehashing
//! nor marks for removed entries.

use hoistway_block::Status;

use super::slab::Slab;

const NONE: u32 = u32::MAX;
/// More buckets would help only caches of more than 64 Ki lines.
const MOST_BUCKETS: usize = 1 << 16;

/// A line; `loading` counts the pieces in flight.
#[derive(Clone, Debug, Default)]
struct Line {
    number: u64,
    /// The clock (sectors read by the host) until which it is kept; 0 when it has been read.
    kept_until: u64,
    loading: u32,
    /// The first error of its pieces.
    status: Status,
    newer: u32,
    older: u32,
    next_in_bucket: u32,
    /// Commands that need it.
    waiters: Vec<u32>,
}

/// The lines, by number.
#[derive(Clone, Debug)]
pub(super) struct LineCache {
    lines: Slab<Line>,
    buckets: Vec<u32>,
    newest: u32,
    oldest: u32,
    capacity: usize,
    capacity_sectors: u64,
}

impl LineCache {
    pub(super) fn new(capacity: usize, line_sectors: u64) -> Self {
        let capacity_sectors = (capacity as u64).saturating_mul(line_sectors);
        let buckets = capacity.clamp(1, MOST_BUCKETS).next_power_of_two();
        let lines = Slab::with_capacity(capacity.min(MOST_BUCKETS));
        let buckets = vec![NONE; buckets];
        Self { lines, buckets, newest: NONE, oldest: NONE, capacity: capacity.max(1), capacity_sectors }
    }

    pub(super) fn find(&self, number: u64) -> Option<u32> {
        let mut at = self.buckets[self.bucket(number)];
        while at != NONE && self.lines[at].number != number {
            at = self.lines[at].next_in_bucket;
        }
        (at != NONE).then_some(at)
    }

    /// Keeps a line from now on: it will be read, or was read in part.
    pub(super) fn keep(&mut self, place: u32, clock: u64) {
        self.lines[place].kept_until = clock + self.capacity_sectors;
        self.unlink(place);
        self.link_newest(place);
    }

    /// A line has been read to its end: it is the next to be replaced.
    pub(super) fn spend(&mut self, place: u32) {
        self.lines[place].kept_until = 0;
        self.unlink(place);
        self.link_oldest(place);
    }

    /// Whether a line is still loading; then `waiter` is recorded.
    pub(super) fn wait_for(&mut self, place: u32, waiter: u32) -> bool {
        let line = &mut self.lines[place];
        if line.loading > 0 {
            line.waiters.push(waiter);
        }
        line.loading > 0
    }

    /// A place for a line that is not in the cache, to be kept from now on; `None` if the cache has
    /// no room for it. The line counts as present unless [`LineCache::add_pieces`] follows.
    pub(super) fn insert(&mut self, number: u64, clock: u64) -> Option<u32> {
        if self.lines.len() >= self.capacity {
            let oldest = self.oldest_loaded().filter(|&oldest| self.lines[oldest].kept_until == 0)?;
            self.forget(oldest);
        }
        let place = self.lines.take();
        let bucket = self.bucket(number);
        let line = &mut self.lines[place];
        line.number = number;
        line.kept_until = clock + self.capacity_sectors;
        line.loading = 0;
        line.status = Status::Ok;
        line.next_in_bucket = self.buckets[bucket];
        self.buckets[bucket] = place;
        self.link_newest(place);
        Some(place)
    }

    /// If the cache has no room: the number of the line that no stream has used for longest, if the
    /// host has read as much as the cache holds since.
    pub(super) fn abandoned(&self, clock: u64) -> Option<u64> {
        let line = &self.lines[self.oldest_loaded().filter(|_| self.lines.len() >= self.capacity)?];
        (1..=clock).contains(&line.kept_until).then_some(line.number)
    }

    /// Counts `pieces` more reads in flight for a line.
    pub(super) fn add_pieces(&mut self, place: u32, pieces: u32) {
        self.lines[place].loading += pieces;
    }

    /// Counts a piece as read. After the last piece it appends the line's waiters, and drops the
    /// line if a piece failed. Returns the line's status.
    pub(super) fn piece_loaded(&mut self, place: u32, status: Status, waiters: &mut Vec<u32>) -> Status {
        let line = &mut self.lines[place];
        line.loading -= 1;
        if line.status.is_ok() {
            line.status = status;
        }
        let status = line.status;
        if line.loading == 0 {
            waiters.append(&mut line.waiters);
            if !status.is_ok() {
                self.forget(place);
            }
        }
        status
    }

    fn forget(&mut self, place: u32) {
        debug_assert_eq!(self.lines[place].loading, 0);
        self.unlink(place);
        let bucket = self.bucket(self.lines[place].number);
        let next = self.lines[place].next_in_bucket;
        let mut at = self.buckets[bucket];
        if at == place {
            self.buckets[bucket] = next;
        } else {
            while self.lines[at].next_in_bucket != place {
                at = self.lines[at].next_in_bucket;
            }
            self.lines[at].next_in_bucket = next;
        }
        self.lines.give_back(place);
    }

    fn oldest_loaded(&self) -> Option<u32> {
        let mut at = self.oldest;
        while at != NONE && self.lines[at].loading > 0 {
            at = self.lines[at].newer;
        }
        (at != NONE).then_some(at)
    }

    fn bucket(&self, number: u64) -> usize {
        let hash = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48;
        usize::try_from(hash).unwrap_or(0) & (self.buckets.len() - 1)
    }

    fn link_newest(&mut self, place: u32) {
        self.lines[place].newer = NONE;
        self.lines[place].older = self.newest;
        match self.newest {
            NONE => self.oldest = place,
            newest => self.lines[newest].newer = place,
        }
        self.newest = place;
    }

    fn link_oldest(&mut self, place: u32) {
        self.lines[place].older = NONE;
        self.lines[place].newer = self.oldest;
        match self.oldest {
            NONE => self.newest = place,
            oldest => self.lines[oldest].older = place,
        }
        self.oldest = place;
    }

    fn unlink(&mut self, place: u32) {
        let (newer, older) = (self.lines[place].newer, self.lines[place].older);
        match newer {
            NONE => self.newest = older,
            newer => self.lines[newer].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.lines[older].newer = newer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cache of `capacity` lines of 10 sectors.
    fn cache(capacity: usize) -> LineCache {
        LineCache::new(capacity, 10)
    }

    fn inside<const N: usize>(cache: &LineCache, numbers: [u64; N]) -> [bool; N] {
        numbers.map(|number| cache.find(number).is_some())
    }

    #[test]
    fn a_line_that_was_read_is_replaced_and_neither_a_loading_nor_an_unread_one() {
        let mut cache = cache(3);
        for number in [10, 20, 30] {
            let place = cache.insert(number, 1).unwrap();
            cache.add_pieces(place, 1);
        }
        let twenty = cache.find(20).unwrap();
        assert!(cache.wait_for(twenty, 1));
        cache.spend(twenty);
        assert!(cache.insert(40, 1).is_none(), "all are loading");
        for number in [20, 30] {
            let place = cache.find(number).unwrap();
            cache.piece_loaded(place, Status::Ok, &mut Vec::new());
        }
        assert!(cache.insert(40, 1).is_some());
        assert_eq!(inside(&cache, [10, 20, 30, 40]), [true, false, true, true]);
        assert!(cache.insert(50, 1).is_none(), "the others are unread");
    }

    #[test]
    fn a_line_is_abandoned_when_a_cache_of_other_data_has_been_read() {
        let mut cache = cache(3);
        for number in [10, 20, 30] {
            assert_eq!(cache.abandoned(1_000), None, "there is room");
            cache.insert(number, 1).unwrap();
        }
        cache.keep(cache.find(10).unwrap(), 15);
        assert_eq!(cache.abandoned(30), None);
        assert_eq!(cache.abandoned(31), Some(20));
        cache.spend(cache.find(20).unwrap());
        assert_eq!(cache.abandoned(31), None, "there is room");
        assert!(cache.insert(40, 31).is_some());
    }

    #[test]
    fn waiters_are_notified_in_order_when_the_last_piece_arrives() {
        let mut cache = cache(3);
        let place = cache.insert(1, 1).unwrap();
        cache.add_pieces(place, 2);
        assert!(cache.wait_for(place, 7) && cache.wait_for(place, 8));
        let mut waiters = Vec::new();
        cache.piece_loaded(place, Status::Ok, &mut waiters);
        assert!(waiters.is_empty());
        cache.piece_loaded(place, Status::Ok, &mut waiters);
        assert_eq!(waiters, [7, 8]);
    }

    #[test]
    fn a_line_that_cannot_be_read_is_dropped() {
        let mut cache = cache(3);
        let place = cache.insert(1, 1).unwrap();
        cache.add_pieces(place, 2);
        cache.wait_for(place, 7);
        let mut waiters = Vec::new();
        cache.piece_loaded(place, Status::IoError, &mut waiters);
        assert_eq!(cache.piece_loaded(place, Status::Ok, &mut waiters), Status::IoError);
        assert_eq!((waiters.as_slice(), cache.find(1)), (&[7][..], None));
    }

    #[test]
    fn lines_that_share_a_bucket_are_distinguished() {
        let mut cache = cache(64);
        for number in 0..64 {
            cache.insert(number * 1_048_576, 1).unwrap();
        }
        for number in 0..64 {
            let place = cache.find(number * 1_048_576).unwrap();
            if number % 3 == 0 {
                cache.forget(place);
            }
        }
        let left = (0..64).filter(|number| cache.find(number * 1_048_576).is_some()).count();
        assert_eq!(left, 42);
    }
}
