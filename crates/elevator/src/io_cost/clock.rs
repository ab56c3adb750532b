//! Device time: a counter that advances with the wall clock at a rate set by feedback, and stops
//! while no group is active.
//!
//! 2^37 units are a second at 100 %. Counters wrap (at 10000 % after 15 days), so they are compared
//! by difference.

use hoistway_block::Nanos;

/// A point on the device's clock, or a span of it.
pub type Vtime = u64;

/// One second at 100 %.
pub const VTIME_PER_S: Vtime = 1 << 37;
/// Units per microsecond at 100 %.
pub const FULL_RATE: u64 = 137_438;

/// How far `a` is ahead of `b`; negative if behind.
#[inline]
pub const fn ahead(a: Vtime, b: Vtime) -> i64 {
    a.wrapping_sub(b).cast_signed()
}

/// `a * b / 2^16` without intermediate overflow; saturates if the result does not fit.
#[inline]
pub fn scaled(a: u64, b: u32) -> u64 {
    let product = (u128::from(a) * u128::from(b)) >> 16;
    u64::try_from(product).unwrap_or(u64::MAX)
}

/// A span in ns at 100 %.
#[inline]
pub const fn nanos_of(span: Vtime) -> Nanos {
    // 10^9 / 2^37 = 5^9 / 2^28, in two halves that both fit.
    let high = (span >> 20).saturating_mul(1_953_125);
    (high >> 8) + ((((high & 0xff) << 20) + (span & 0xf_ffff) * 1_953_125) >> 28)
}

/// The device's clock.
#[derive(Clone, Debug)]
pub struct Clock {
    /// Units per us, including compensation.
    rate: u64,
    /// A point in time; `base` is what the clock showed then.
    base_ns: Nanos,
    base: Vtime,
    is_running: bool,
}

impl Clock {
    pub const STOPPED: Clock = Clock { rate: FULL_RATE, base_ns: 0, base: 0, is_running: false };

    #[inline]
    pub const fn is_running(&self) -> bool {
        self.is_running
    }

    /// The clock's value at `now`.
    #[inline]
    pub const fn at(&self, now: Nanos) -> Vtime {
        if !self.is_running {
            return self.base;
        }
        let elapsed_ns = now.saturating_sub(self.base_ns);
        self.base.wrapping_add(elapsed_ns.saturating_mul(self.rate) / 1_000)
    }

    /// Changes the rate from now on.
    pub fn set_rate(&mut self, rate: u64, now: Nanos) {
        (self.base, self.base_ns) = (self.at(now), now);
        self.rate = rate.max(1);
    }

    pub fn start(&mut self, now: Nanos) {
        (self.base_ns, self.is_running) = (now, true);
    }

    pub fn stop(&mut self, now: Nanos) {
        (self.base, self.is_running) = (self.at(now), false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_runs_at_its_rate_and_stands_while_stopped() {
        let mut clock = Clock::STOPPED;
        assert_eq!(clock.at(5_000_000), 0);
        clock.start(1_000_000);
        assert_eq!(clock.at(1_001_000), FULL_RATE);
        clock.set_rate(2 * FULL_RATE, 1_001_000);
        assert_eq!(clock.at(1_002_000), 3 * FULL_RATE);
        clock.stop(1_002_000);
        assert_eq!(clock.at(9_000_000), 3 * FULL_RATE);
    }

    #[test]
    fn spans_are_in_nanoseconds() {
        assert_eq!(
            [VTIME_PER_S, VTIME_PER_S << 20, 16_135_121, 0].map(nanos_of),
            [1_000_000_000, 1_000_000_000 << 20, 117_398, 0]
        );
    }

    #[test]
    fn points_are_compared_across_the_wrap() {
        assert_eq!((ahead(3, u64::MAX), ahead(u64::MAX, 3)), (4, -4));
    }
}
