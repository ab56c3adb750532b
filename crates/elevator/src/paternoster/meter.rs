//! Measures an epoch. Counting starts once everything that was in flight at its start has
//! completed.

use super::epoch::{Epoch, Work};
use hoistway_block::Nanos;
use hoistway_block::time::MILLISECOND;

/// Fewer completions than this say little about a rate.
const LEAST_REQUESTS: u32 = 64;
/// An epoch lasts at least this many mean residence times, so that requests of every size complete
/// in it. In a shorter one 64 small reads complete before the first write of 1 MiB, and the rate is
/// that of the reads.
const RESIDENCES: u64 = 16;
/// Writes complete when they are in the device's buffer, so a short reference epoch would measure
/// the room that the epoch before it left there. For example, 64 MiB of buffer take 130 ms at 500
/// MB/s.
const WRITES_NS: Nanos = 250 * MILLISECOND;
/// An epoch counts as write-heavy if more than one part in this many of its work is writes.
const MANY_WRITES: u32 = 16;
/// The integral of the work in flight is kept in units of 1024 bytes times nanoseconds, so that it fits.
const AREA_SHIFT: u32 = 10;
/// Before counting starts, this many times the number in flight at the start must complete: those
/// requests and their successors.
const DRAINED: u32 = 2;

/// Time counts while a tenant leads, and for this many residence times afterwards: otherwise epochs
/// would differ in the tenants that were present, and not in the window.
const RECENT: u64 = 8;

/// A completed request.
#[derive(Copy, Clone, Debug)]
pub struct Done {
    pub work: Work,
    pub is_write: bool,
    /// Of a tenant that does not lead.
    pub is_lagging: bool,
}

/// The present epoch.
#[derive(Clone, Debug)]
pub struct Meter {
    begins_ns: Nanos,
    /// Completions until counting starts.
    draining: u32,
    /// When the last completion came.
    last_ns: Nanos,
    /// Sum of the counted times between completions.
    counted_ns: Nanos,
    work: Work,
    written_sectors: u32,
    lagging: Work,
    /// Integral of work in flight or about to return over time, in 1024ths of a byte and second over 10^9: of the counted time (`area`), since the last
    /// completion (`new_area`), and up to when it is known (`area_ns`).
    area: u64,
    new_area: u64,
    area_ns: Nanos,
    /// When a tenant last led, and how many tenants there were; 0 before the first time.
    contended_ns: Nanos,
    tenants: u32,
}

impl Meter {
    pub const IDLE: Meter = Meter {
        begins_ns: 0,
        draining: 0,
        last_ns: 0,
        counted_ns: 0,
        work: Work::NONE,
        written_sectors: 0,
        lagging: Work::NONE,
        area: 0,
        new_area: 0,
        area_ns: 0,
        contended_ns: 0,
        tenants: 0,
    };

    pub fn begin(&mut self, now: Nanos, in_flight: u32) {
        *self = Meter {
            begins_ns: now,
            draining: in_flight.saturating_mul(DRAINED),
            last_ns: now,
            area_ns: now,
            ..Meter::IDLE
        };
    }

    pub const fn begins_ns(&self) -> Nanos {
        self.begins_ns
    }

    /// A tenant leads, and there are `tenants` of them. Time counts from the first call on.
    #[inline]
    pub const fn contended(&mut self, now: Nanos, tenants: u32) {
        if self.contended_ns == 0 {
            (self.last_ns, self.area_ns, self.new_area) = (now, now, 0);
        }
        (self.contended_ns, self.tenants) = (now, tenants);
    }

    /// Work of `window_bytes` was in flight, or about to return, until now.
    #[inline]
    pub fn in_flight_until(&mut self, now: Nanos, window_bytes: u64) {
        let since_ns = now.saturating_sub(self.area_ns);
        self.new_area = self.new_area.wrapping_add(since_ns.wrapping_mul(window_bytes) >> AREA_SHIFT);
        self.area_ns = now;
    }

    /// A request completed, on a device with this mean residence time.
    #[inline]
    pub fn completed(&mut self, now: Nanos, done: Done, residence_ns: Nanos) {
        let Done { work, is_write, is_lagging } = done;
        let before_ns = core::mem::replace(&mut self.last_ns, now);
        let since_ns = now.saturating_sub(before_ns);
        let area = core::mem::take(&mut self.new_area);
        let recent_ns = residence_ns.saturating_mul(RECENT);
        if self.draining > 0 {
            self.draining = self.draining.wrapping_sub(1);
        } else if self.contended_ns > 0 && before_ns.saturating_sub(self.contended_ns) <= recent_ns {
            self.counted_ns = self.counted_ns.saturating_add(since_ns);
            self.area = self.area.wrapping_add(area);
            self.work.add(work);
            self.written_sectors = self.written_sectors.saturating_add(if is_write { work.sectors } else { 0 });
            self.lagging.add(if is_lagging { work } else { Work::NONE });
        }
    }

    /// The device was idle until now: that time does not count if it is longer than a residence
    /// time.
    pub const fn resumed(&mut self, now: Nanos, residence_ns: Nanos) {
        if now.saturating_sub(self.last_ns) > residence_ns {
            (self.last_ns, self.area_ns) = (now, now);
        }
    }

    /// Whether an epoch of `length_ns` is over, on a device with this mean residence time.
    pub fn is_over(&self, now: Nanos, is_measured: bool, length_ns: Nanos, residence_ns: Nanos) -> bool {
        if !is_measured {
            return now.saturating_sub(self.begins_ns) >= length_ns;
        }
        self.counted_ns >= length_ns.max(residence_ns.saturating_mul(RESIDENCES))
            && self.work.requests >= LEAST_REQUESTS
            && (self.counted_ns >= WRITES_NS || !self.has_writes())
    }

    const fn has_writes(&self) -> bool {
        self.written_sectors.saturating_mul(MANY_WRITES) > self.work.sectors
    }

    pub fn epoch(&self) -> Epoch {
        // The whole part and the rest, so that nothing overflows.
        let counted_ns = self.counted_ns.max(1);
        let [whole, rest] = [self.area.checked_div(counted_ns), self.area.checked_rem(counted_ns)]
            .map(|part| part.unwrap_or(0) << AREA_SHIFT);
        let mean = whole.saturating_add(rest.checked_div(counted_ns).unwrap_or(0));
        Epoch {
            work: self.work,
            lagging: self.lagging,
            ns: self.counted_ns.max(1),
            length_ns: self.last_ns.saturating_sub(self.begins_ns),
            window_bytes: u32::try_from(mean).unwrap_or(u32::MAX),
            tenants: self.tenants,
            is_buffered: self.has_writes(),
        }
    }
}
