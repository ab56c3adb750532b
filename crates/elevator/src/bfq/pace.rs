//! Whether a queue's requests come at the pace of a soft real-time application.

use super::clock::Clock;

/// Below this rate, in sectors a second, a queue may be soft real-time.
const MOST_SOFT_RATE: u64 = 7_000;
/// Ticks beyond `slice_idle` that a soft real-time queue must let pass.
const SOFT_MARGIN_TICKS: u64 = 4;

/// The service of a queue since it last became busy, and from when its next request counts as soft real-time.
///
/// Invariant: `first_io_ticks` is from the present busy period if `service_sectors` is not 0.
#[derive(Copy, Clone, Debug)]
pub struct Pace {
    next_start_ticks: u64,
    busy_since_ticks: u64,
    service_sectors: u32,
    first_io_ticks: u64,
}

impl Pace {
    pub const fn since(now_ticks: u64) -> Self {
        Self { next_start_ticks: now_ticks, busy_since_ticks: 0, service_sectors: 0, first_io_ticks: 0 }
    }

    /// The queue becomes busy.
    #[inline]
    pub const fn begin(&mut self, now_ticks: u64) {
        (self.busy_since_ticks, self.service_sectors) = (now_ticks, 0);
    }

    #[inline(always)]
    pub const fn count_service(&mut self, sectors: u32, now_ticks: u64) {
        if self.service_sectors == 0 {
            self.first_io_ticks = now_ticks;
        }
        self.service_sectors = self.service_sectors.saturating_add(sectors);
    }

    /// Whether it has been served for longer than this in its busy period.
    #[inline(always)]
    pub fn is_served_for(&self, span_ticks: u64, clock: &Clock) -> bool {
        self.service_sectors > 0 && clock.is_past(self.first_io_ticks.wrapping_add(span_ticks))
    }

    /// Whether a request that arrives now counts as soft real-time.
    #[inline]
    pub const fn is_kept(&self, clock: &Clock) -> bool {
        clock.is_past(self.next_start_ticks)
    }

    #[inline]
    pub const fn set_next_start(&mut self, ticks: u64) {
        self.next_start_ticks = ticks;
    }

    /// The earliest time at which the next request counts as soft real-time: not before the sectors of the busy period
    /// would have been transferred at the largest rate of a soft real-time queue, and not immediately. `returns`: a
    /// time that is set already is not made earlier.
    pub fn next_start(&self, idle_ticks: u64, returns: bool, clock: &Clock) -> u64 {
        let at_rate = clock.spans.second.saturating_mul(u64::from(self.service_sectors)) / MOST_SOFT_RATE;
        let not_at_once = clock.ticks.wrapping_add(idle_ticks).wrapping_add(SOFT_MARGIN_TICKS);
        let next = Clock::later(self.busy_since_ticks.wrapping_add(at_rate), not_at_once);
        if returns { Clock::later(self.next_start_ticks, next) } else { next }
    }

    /// For tests.
    #[cfg(test)]
    pub const fn set_service(&mut self, sectors: u32, first_io_ticks: u64) {
        (self.service_sectors, self.first_io_ticks) = (sectors, first_io_ticks);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interface::Configuration;
    use hoistway_block::time::MILLISECOND;

    #[test]
    fn the_next_request_may_come_when_the_last_ones_are_through_at_the_largest_rate() {
        let mut clock = Clock::new(&Configuration { tick_ns: MILLISECOND, ..Configuration::default() }, false);
        clock.set(1_000 * MILLISECOND);
        let mut pace = Pace::since(clock.ticks);
        pace.begin(clock.ticks);
        assert_eq!(pace.next_start(8, true, &clock), 1_012, "slice_idle and the margin");
        pace.count_service(700, clock.ticks);
        assert_eq!(pace.next_start(8, true, &clock), 1_100);
        pace.set_next_start(1_500);
        assert_eq!([true, false].map(|returns| pace.next_start(8, returns, &clock)), [1_500, 1_100]);
        clock.set(1_501 * MILLISECOND);
        assert!(pace.is_kept(&clock) && pace.is_served_for(500, &clock) && !pace.is_served_for(501, &clock));
    }
}
