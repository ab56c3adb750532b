//! Whether an issuer is I/O bound: by its share of idle time, or, in older forms, by arrivals in time.

use super::clock::Clock;
use hoistway_block::Nanos;
use hoistway_block::time::MILLISECOND;

/// The window for an issuer's share of idle time is about twice this.
const IO_WINDOW_NS: Nanos = 200 * MILLISECOND;
/// After this many arrivals in time a queue counts as I/O bound (older forms).
const ENOUGH_ARRIVALS: u32 = 120;

/// What tells whether a queue is I/O bound.
#[derive(Copy, Clone, Debug)]
pub struct Boundness {
    /// Of the window, and the idle time in it.
    start_ns: Nanos,
    idle_ns: Nanos,
    /// Consecutive arrivals in time.
    timely: u32,
}

impl Boundness {
    pub const fn since(now_ns: Nanos) -> Self {
        Self { start_ns: now_ns, idle_ns: 0, timely: 0 }
    }

    /// The queue was idle for so long until now.
    #[inline(always)]
    pub const fn add_idle(&mut self, idle_ns: Nanos) {
        self.idle_ns = self.idle_ns.wrapping_add(idle_ns);
    }

    /// Whether it was idle for at most a fifth of the window; of a long one only the half counts from now on.
    #[inline(always)]
    pub const fn judge(&mut self, clock: &Clock) -> bool {
        let total = clock.since(self.start_ns);
        let is_bound = self.idle_ns.saturating_mul(5) <= total;
        if total > IO_WINDOW_NS {
            self.start_ns = clock.ns.wrapping_sub(total / 2);
            self.idle_ns /= 2;
        }
        is_bound
    }

    /// Counts an arrival; whether enough came in time, one after another.
    pub const fn count_arrival(&mut self, is_in_time: bool) -> bool {
        self.timely = if is_in_time { self.timely.saturating_add(1) } else { 0 };
        self.timely >= ENOUGH_ARRIVALS
    }

    /// The window, which is saved while the queue is merged into another.
    pub const fn window(&self) -> [Nanos; 2] {
        [self.start_ns, self.idle_ns]
    }

    pub const fn set_window(&mut self, [start_ns, idle_ns]: [Nanos; 2]) {
        (self.start_ns, self.idle_ns) = (start_ns, idle_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interface::Configuration;

    #[test]
    fn a_fifth_of_the_window_may_be_idle() {
        let mut clock = Clock::new(&Configuration::default(), false);
        let mut boundness = Boundness::since(0);
        clock.set(100 * MILLISECOND);
        boundness.add_idle(20 * MILLISECOND);
        assert!(boundness.judge(&clock));
        boundness.add_idle(1);
        assert!(!boundness.judge(&clock));
        clock.set(400 * MILLISECOND);
        assert!(boundness.judge(&clock));
        assert_eq!(boundness.window(), [200 * MILLISECOND, 10 * MILLISECOND], "half is forgotten");
    }

    #[test]
    fn one_late_arrival_starts_the_count_anew() {
        let mut boundness = Boundness::since(0);
        assert!((1..120).all(|_| !boundness.count_arrival(true)) && boundness.count_arrival(true));
        assert!(!boundness.count_arrival(false) && !boundness.count_arrival(true));
    }
}
