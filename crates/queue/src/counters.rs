//! The counters of iostat: sums per direction, and the time with any request in flight. As in
//! iostat, a request is in flight here from its allocation to its completion.

use hoistway_block::{Nanos, Operation};

/// The sums of one direction.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct DirectionCounters {
    /// Requests completed.
    pub ios: u64,
    /// Bios and requests that merged into others.
    pub merges: u64,
    /// Sectors completed.
    pub sectors: u64,
    /// Time from allocation to completion, summed over requests, in ns.
    pub ticks_ns: u64,
    /// Requests allocated and not yet completed.
    pub in_flight: u32,
}

/// The counters of a queue (`/proc/diskstats`).
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Reads; writes and everything else; discards.
    pub directions: [DirectionCounters; 3],
    /// Flush commands completed.
    pub flushes: u64,
    /// Time with any request in flight, in ns.
    pub io_ticks_ns: u64,
    /// Time weighted by the number of requests in flight, in ns.
    pub weighted_ns: u64,
    /// Requests the device or driver gave back.
    pub requeues: u64,
    changed_at_ns: Nanos,
}

impl Counters {
    /// The sums that an operation is counted in.
    #[inline]
    pub const fn of(&self, operation: Operation) -> &DirectionCounters {
        let [read, write, discard] = &self.directions;
        match operation {
            Operation::Read => read,
            Operation::Discard | Operation::SecureErase => discard,
            _ => write,
        }
    }

    #[inline]
    fn of_mut(&mut self, operation: Operation) -> &mut DirectionCounters {
        let [read, write, discard] = &mut self.directions;
        match operation {
            Operation::Read => read,
            Operation::Discard | Operation::SecureErase => discard,
            _ => write,
        }
    }

    /// Requests allocated and not yet completed.
    #[inline]
    pub fn in_flight(&self) -> u32 {
        self.directions.iter().map(|direction| direction.in_flight).sum()
    }

    /// The 17 numbers of `/proc/diskstats`, times in milliseconds. The duration of flushes is not
    /// measured: 0.
    pub fn diskstats(&self) -> [u64; 17] {
        let milliseconds = |time_ns: u64| time_ns / hoistway_block::time::MILLISECOND;
        let of = |sums: &DirectionCounters| [sums.ios, sums.merges, sums.sectors, milliseconds(sums.ticks_ns)];
        let [read, write, discard] = [0, 1, 2].map(|at: usize| of(&self.directions[at]));
        let busy = [u64::from(self.in_flight()), milliseconds(self.io_ticks_ns), milliseconds(self.weighted_ns)];
        let mut fields = [0; 17];
        let all = read.into_iter().chain(write).chain(busy).chain(discard).chain([self.flushes, 0]);
        fields.iter_mut().zip(all).for_each(|(field, value)| *field = value);
        fields
    }

    /// Accounts the time since the last change of the number in flight.
    #[inline]
    fn advance(&mut self, now: Nanos) {
        let passed = now.saturating_sub(self.changed_at_ns);
        if passed == 0 {
            // A frequent case: an allocation usually follows a completion at the same time.
            return;
        }
        self.changed_at_ns = now;
        let in_flight = u64::from(self.in_flight());
        if in_flight > 0 {
            self.io_ticks_ns += passed;
            self.weighted_ns += passed.saturating_mul(in_flight);
        }
    }

    #[inline]
    pub(crate) fn allocated(&mut self, operation: Operation, now: Nanos) {
        self.advance(now);
        self.of_mut(operation).in_flight += 1;
    }

    #[inline]
    pub(crate) fn bio_merged(&mut self, operation: Operation) {
        self.of_mut(operation).merges += 1;
    }

    #[inline]
    pub(crate) fn request_merged(&mut self, operation: Operation, now: Nanos) {
        self.advance(now);
        let sums = self.of_mut(operation);
        sums.merges += 1;
        sums.in_flight = sums.in_flight.saturating_sub(1);
    }

    /// A request was taken back: it no longer is in flight, and was no I/O.
    pub(crate) fn withdrawn(&mut self, operation: Operation, now: Nanos) {
        self.advance(now);
        let sums = self.of_mut(operation);
        sums.in_flight = sums.in_flight.saturating_sub(1);
    }

    #[inline]
    pub(crate) fn completed(&mut self, operation: Operation, sectors: u32, start_ns: Nanos, now: Nanos) {
        self.advance(now);
        let sums = self.of_mut(operation);
        sums.ios += 1;
        sums.sectors += u64::from(sectors);
        sums.ticks_ns += now.saturating_sub(start_ns);
        // The request was counted when it was allocated, so this does not wrap.
        sums.in_flight = sums.in_flight.wrapping_sub(1);
    }
}
