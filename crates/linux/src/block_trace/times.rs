//! From issue to completion: pairs the events, and counts the times by group and direction.

use std::collections::BTreeMap;

use super::record::{Event, Kind};

/// Upper bounds of the buckets in nanoseconds, inclusive: 1, 2 and 5 in each decade from 10 us to 10 s.
pub const BOUNDS_NS: [u64; 19] = [
    10_000,
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    20_000_000,
    50_000_000,
    100_000_000,
    200_000_000,
    500_000_000,
    1_000_000_000,
    2_000_000_000,
    5_000_000_000,
    10_000_000_000,
];
/// Requests in the device at a time: more than the tags of any.
const OPEN_MAX: usize = 65_536;
/// The number of groups that have times of their own; the times of all others count for group 0.
const GROUPS_MAX: usize = 4_096;

/// Reads or writes.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Direction {
    /// Reads.
    Read,
    /// Writes.
    Write,
}

/// The times of a group's requests in one direction.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Times {
    /// Requests by [`BOUNDS_NS`]; the last are those beyond.
    pub buckets: [u64; BOUNDS_NS.len() + 1],
    /// Sum of their times, in nanoseconds.
    pub sum_ns: u64,
}

impl Times {
    /// Counts a time.
    pub fn add(&mut self, ns: u64) {
        self.buckets[BOUNDS_NS.partition_point(|bound| *bound < ns)] += 1;
        self.sum_ns = self.sum_ns.saturating_add(ns);
    }

    /// Adds the times of another group.
    pub fn merge(&mut self, more: &Times) {
        self.buckets.iter_mut().zip(more.buckets).for_each(|(sum, more)| *sum += more);
        self.sum_ns = self.sum_ns.saturating_add(more.sum_ns);
    }
}

/// A request in the device: when it was issued, and how much of it is left.
#[derive(Copy, Clone, Debug)]
struct Open {
    issued_ns: u64,
    left_bytes: u32,
    group: u64,
}

/// The times of all requests of a device.
#[derive(Debug, Default)]
pub struct ServiceTimes {
    /// By the first sector that is left, and whether it is a write. Local users choose the sectors, so it is no table by
    /// a cheap hash; there are as many as the device has tags.
    open: BTreeMap<(u64, bool), Open>,
    times: BTreeMap<(u64, Direction), Times>,
    lost: u64,
}

impl ServiceTimes {
    /// Takes the next event in the order of time.
    pub fn add(&mut self, event: &Event) {
        let key = (event.sector, event.is_write);
        match event.kind {
            Kind::Issued => {
                if self.open.len() >= OPEN_MAX && !self.open.contains_key(&key) {
                    self.lost += 1;
                    return;
                }
                let open = Open { issued_ns: event.at_ns, left_bytes: event.bytes, group: event.group };
                self.open.insert(key, open);
            }
            Kind::Completed => {
                // It was issued before the trace began, or its issue was lost.
                let Some(open) = self.open.remove(&key) else { return };
                if event.bytes < open.left_bytes {
                    let rest = Open { left_bytes: open.left_bytes - event.bytes, ..open };
                    self.open.insert((event.sector.saturating_add(u64::from(event.bytes / 512)), event.is_write), rest);
                    return;
                }
                let direction = if event.is_write { Direction::Write } else { Direction::Read };
                let mut group = if open.group == 0 { event.group } else { open.group };
                if self.times.len() >= 2 * GROUPS_MAX && !self.times.contains_key(&(group, direction)) {
                    group = 0;
                }
                self.times.entry((group, direction)).or_default().add(event.at_ns.saturating_sub(open.issued_ns));
            }
        }
    }

    /// The times by group (the inode of its cgroup, 0 = not known) and direction.
    pub fn all(&self) -> impl Iterator<Item = (u64, Direction, &Times)> {
        self.times.iter().map(|((group, direction), times)| (*group, *direction, times))
    }

    /// Requests that were not followed because too many were in the device.
    pub(super) fn lost(&self) -> u64 {
        self.lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: Kind, at_ns: u64, sector: u64, bytes: u32, group: u64) -> Event {
        Event { at_ns, kind, is_write: false, sector, bytes, group }
    }

    #[test]
    fn a_time_counts_in_the_bucket_that_it_does_not_exceed() {
        let mut times = Times::default();
        for ns in [0, 10_000, 10_001, 2_000_000, 2_000_001, 10_000_000_000, u64::MAX] {
            times.add(ns);
        }
        assert_eq!((times.buckets[0], times.buckets[1], times.buckets[7], times.buckets[8]), (2, 1, 1, 1));
        assert_eq!((times.buckets[18], times.buckets[19], times.sum_ns), (1, 1, u64::MAX));
    }

    #[test]
    fn a_request_that_ends_in_parts_counts_once_at_its_last_part() {
        let mut times = ServiceTimes::default();
        times.add(&event(Kind::Completed, 1, 8, 4096, 5));
        times.add(&event(Kind::Issued, 100, 8, 4096, 5));
        times.add(&event(Kind::Completed, 200, 8, 1024, 5));
        times.add(&event(Kind::Completed, 300, 16, 512, 5));
        assert_eq!(times.all().count(), 0, "nothing has ended");
        times.add(&event(Kind::Completed, 400, 10, 3072, 5));
        let found: Vec<_> = times.all().map(|(group, direction, it)| (group, direction, it.sum_ns)).collect();
        assert_eq!(found, [(5, Direction::Read, 300)]);
    }

    #[test]
    fn neither_requests_nor_groups_take_memory_without_end() {
        let mut times = ServiceTimes::default();
        for sector in 0..2 * OPEN_MAX as u64 {
            times.add(&event(Kind::Issued, 0, sector * 8, 4096, sector + 1));
        }
        assert_eq!((times.open.len(), times.lost()), (OPEN_MAX, OPEN_MAX as u64));
        for sector in 0..2 * OPEN_MAX as u64 {
            times.add(&event(Kind::Completed, 9, sector * 8, 4096, sector + 1));
        }
        assert!(times.open.is_empty());
        assert_eq!(times.all().count(), 2 * GROUPS_MAX + 1, "the last is group 0");
        let counted: u64 = times.all().map(|(.., it)| it.buckets.iter().sum::<u64>()).sum();
        assert_eq!(counted, OPEN_MAX as u64);
    }
}
