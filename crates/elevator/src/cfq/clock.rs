//! The time of the current event.

use super::tunables::Ticks;
use hoistway_block::Nanos;

/// The time in ticks and in ns.
///
/// Invariant: ticks never run backward, even if the time of an event does.
#[derive(Copy, Clone, Debug)]
pub struct Clock {
    ticks: Ticks,
    now: u64,
    /// Before the first event, the maximum.
    now_ns: Nanos,
}

impl Clock {
    #[inline(always)]
    pub fn new(ticks: Ticks) -> Self {
        Self { ticks, now: 0, now_ns: Nanos::MAX }
    }

    /// An event begins. Events come in groups: a request is allocated, inserted and chosen at the same time.
    #[inline]
    pub fn set(&mut self, now: Nanos) {
        if now != self.now_ns {
            self.now_ns = now;
            self.now = self.ticks.follow(self.now, now);
        }
    }

    /// Whether no event has begun.
    #[inline]
    pub fn is_before_first(&self) -> bool {
        self.now_ns == Nanos::MAX
    }

    /// The lengths of ticks.
    #[inline]
    pub fn ticks(&self) -> &Ticks {
        &self.ticks
    }

    /// The time of the event in ticks.
    #[inline]
    pub fn now(&self) -> u64 {
        self.now
    }

    /// The time of the event in ns.
    #[inline]
    pub fn now_ns(&self) -> Nanos {
        self.now_ns
    }
}
