//! What iostat counts: per direction, and the time something was in flight.

use block::{Direction, Nanos};

/// One direction's sums.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct DirectionCounters {
    /// Requests completed.
    pub ios: u64,
    /// Bios and requests that merged into others.
    pub merges: u64,
    /// Sectors completed.
    pub sectors: u64,
    /// Sum over requests of allocation to completion, in ns.
    pub ticks_ns: u64,
    /// Requests allocated and not yet completed.
    pub in_flight: u32,
}

/// The counters of a queue (`/proc/diskstats`).
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Reads, then everything else.
    pub directions: [DirectionCounters; 2],
    /// Flush commands completed.
    pub flushes: u64,
    /// Time with any request in flight, in ns.
    pub io_ticks_ns: u64,
    /// Time weighted by the number in flight, in ns.
    pub weighted_ns: u64,
    /// Requests the device or driver gave back.
    pub requeues: u64,
    changed_at_ns: Nanos,
}

impl Counters {
    /// One direction's sums.
    #[inline]
    pub const fn of(&self, direction: Direction) -> &DirectionCounters {
        match direction {
            Direction::Read => &self.directions[0],
            Direction::Write => &self.directions[1],
        }
    }

    #[inline]
    fn of_mut(&mut self, direction: Direction) -> &mut DirectionCounters {
        match direction {
            Direction::Read => &mut self.directions[0],
            Direction::Write => &mut self.directions[1],
        }
    }

    /// Accounts the time since the last change to the number then in flight.
    #[inline]
    fn advance(&mut self, now: Nanos) {
        let passed = now.saturating_sub(self.changed_at_ns);
        if passed == 0 {
            // Mostly a completion is followed by the next allocation at once. Time does not go back.
            return;
        }
        self.changed_at_ns = now;
        let in_flight = u64::from(self.directions[0].in_flight) + u64::from(self.directions[1].in_flight);
        if in_flight > 0 {
            self.io_ticks_ns += passed;
            self.weighted_ns += passed.saturating_mul(in_flight);
        }
    }

    #[inline]
    pub(crate) fn allocated(&mut self, direction: Direction, now: Nanos) {
        self.advance(now);
        self.of_mut(direction).in_flight += 1;
    }

    #[inline]
    pub(crate) fn bio_merged(&mut self, direction: Direction) {
        self.of_mut(direction).merges += 1;
    }

    #[inline]
    pub(crate) fn request_merged(&mut self, direction: Direction, now: Nanos) {
        self.advance(now);
        let sums = self.of_mut(direction);
        sums.merges += 1;
        sums.in_flight = sums.in_flight.saturating_sub(1);
    }

    #[inline]
    pub(crate) fn completed(&mut self, direction: Direction, sectors: u32, start_ns: Nanos, now: Nanos) {
        self.advance(now);
        let sums = self.of_mut(direction);
        sums.ios += 1;
        sums.sectors += u64::from(sectors);
        sums.ticks_ns += now.saturating_sub(start_ns);
        // It was counted in when it was allocated.
        sums.in_flight = sums.in_flight.wrapping_sub(1);
    }
}
