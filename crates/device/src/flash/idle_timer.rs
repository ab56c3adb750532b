//! When the host has written nothing for so long that the rest of the buffer is programmed.

use crate::interface::NEVER;
use hoistway_block::Nanos;

/// How long after the last write the rest of the buffer is programmed although it does not fill a
/// program.
pub(super) const IDLE_NS: Nanos = 5_000_000;

/// The time of the last write, and the timer that looks whether it was the last for long enough.
#[derive(Clone, Debug)]
pub(super) struct IdleTimer {
    last_write_at: Nanos,
    fires_at: Nanos,
}

impl IdleTimer {
    pub(super) const STOPPED: Self = Self { last_write_at: 0, fires_at: NEVER };

    /// A write's data has arrived.
    #[inline]
    pub(super) fn wrote(&mut self, now: Nanos) {
        self.last_write_at = now;
    }

    #[inline]
    pub(super) fn is_running(&self) -> bool {
        self.fires_at != NEVER
    }

    /// When it fires; [`NEVER`] if it does not run.
    #[inline]
    pub(super) fn fires_at(&self) -> Nanos {
        self.fires_at
    }

    /// Starts it: for the end of the idle time, or, if that is over, for one more.
    pub(super) fn start(&mut self, now: Nanos) {
        let at = self.last_write_at + IDLE_NS;
        self.fires_at = if at > now { at } else { now + IDLE_NS };
    }

    /// It has fired. True if the last write is long enough ago; otherwise another one came since it was started.
    pub(super) fn fired(&mut self, now: Nanos) -> bool {
        self.fires_at = NEVER;
        self.last_write_at + IDLE_NS <= now
    }

    /// The device was reset. `has_waiting`: the buffer still holds data.
    pub(super) fn reset(&mut self, now: Nanos, has_waiting: bool) {
        self.fires_at = if has_waiting { self.last_write_at.max(now) + IDLE_NS } else { NEVER };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_write_prolongs_the_wait() {
        let mut timer = IdleTimer::STOPPED;
        timer.wrote(100);
        timer.start(100);
        timer.wrote(200);
        assert_eq!((timer.is_running(), timer.fires_at()), (true, IDLE_NS + 100));
        assert!(!timer.fired(IDLE_NS + 100) && !timer.is_running());
        timer.start(IDLE_NS + 100);
        assert_eq!(timer.fires_at(), IDLE_NS + 200);
        assert!(timer.fired(IDLE_NS + 200));
        timer.start(IDLE_NS + 200);
        assert_eq!(timer.fires_at(), 2 * IDLE_NS + 200, "it is over: one more");
        timer.reset(7, false);
        assert!(!timer.is_running());
    }
}
