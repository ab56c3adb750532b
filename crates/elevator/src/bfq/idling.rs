//! The state of idling: since when the device is idled for the queue in service, until when, and when the host asks
//! again.

use super::clock::NEVER;
use hoistway_block::Nanos;
use hoistway_block::time::{MILLISECOND, is_due};

/// Linux polls a device that is idled for a queue again after this time (BLK_MQ_BUDGET_DELAY).
const REPOLL_NS: Nanos = 3 * MILLISECOND;

/// Idling.
///
/// Invariant: `timer_at` is set exactly while a queue is waited for.
#[derive(Debug)]
pub struct Idling {
    began_ns: Nanos,
    /// When the idle timer expires, or [`NEVER`].
    timer_at: Nanos,
    /// The last choice was to idle the device for a queue, and no event has occurred since.
    is_holding: bool,
    /// When an idled device is polled again, or [`NEVER`].
    repoll_at: Nanos,
    work_tick_ns: Nanos,
}

impl Idling {
    /// `work_tick_ns` is the length of a tick to which polls are rounded, 0 for none.
    #[inline(always)]
    pub const fn new(work_tick_ns: Nanos) -> Self {
        Self { began_ns: 0, timer_at: NEVER, is_holding: false, repoll_at: NEVER, work_tick_ns }
    }

    // ---- the wait for a queue ----

    pub fn begin(&mut self, now: Nanos, wait_ns: Nanos) {
        (self.began_ns, self.timer_at) = (now, now.saturating_add(wait_ns));
    }

    /// Ends the wait. Returns how long it lasted.
    #[inline]
    pub fn end(&mut self, now: Nanos) -> Nanos {
        self.timer_at = NEVER;
        now.saturating_sub(self.began_ns)
    }

    /// The idle timer has expired. Returns when the wait began.
    #[inline]
    pub fn expire(&mut self) -> Nanos {
        self.timer_at = NEVER;
        self.began_ns
    }

    /// What was waited before `now` no longer counts.
    pub fn forget_before(&mut self, now: Nanos) {
        self.began_ns = self.began_ns.max(now);
    }

    /// When the wait ends, or [`NEVER`].
    #[inline]
    pub fn until(&self) -> Nanos {
        self.timer_at
    }

    // ---- choices of the host ----

    /// Whether the last choice was to idle, and nothing has happened since.
    #[inline]
    pub fn is_holding(&self) -> bool {
        self.is_holding
    }

    /// Nothing was chosen although requests are queued.
    pub fn hold(&mut self) {
        self.is_holding = true;
    }

    /// Something has happened that makes a choice worthwhile.
    #[inline]
    pub fn resume(&mut self) {
        self.is_holding = false;
    }

    /// As [`Idling::resume`]; a poll is not needed any more.
    #[inline]
    pub fn resume_unpolled(&mut self) {
        (self.is_holding, self.repoll_at) = (false, NEVER);
    }

    /// Whether a poll is due some time.
    #[inline]
    pub fn has_poll(&self) -> bool {
        self.repoll_at != NEVER
    }

    /// Polls later. If the host has ticks, the time is rounded as for Linux's delayed work, which runs whole ticks
    /// after the start of the present one.
    pub fn poll_later(&mut self, now: Nanos) {
        let due = now.saturating_add(REPOLL_NS);
        let into_tick = now.checked_rem(self.work_tick_ns).unwrap_or(0);
        let at = due.saturating_sub(into_tick);
        self.repoll_at = at.checked_next_multiple_of(self.work_tick_ns).unwrap_or(at);
    }

    // ---- timers ----

    pub fn next_timer(&self) -> Option<Nanos> {
        let first = self.timer_at.min(self.repoll_at);
        (first != NEVER).then_some(first)
    }

    /// Whether the time of a poll has come.
    #[inline]
    pub fn is_poll_due(&self, now: Nanos) -> bool {
        self.has_poll() && is_due(now, self.repoll_at)
    }

    /// Whether the wait is over.
    #[inline]
    pub fn is_over(&self, now: Nanos) -> bool {
        self.timer_at != NEVER && is_due(now, self.timer_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polls_are_rounded_to_whole_ticks_from_the_present_one() {
        let mut idling = Idling::new(4 * MILLISECOND);
        idling.poll_later(9 * MILLISECOND);
        assert_eq!(idling.next_timer(), Some(12 * MILLISECOND));
        idling.begin(10 * MILLISECOND, MILLISECOND);
        assert_eq!((idling.next_timer(), idling.is_over(11 * MILLISECOND)), (Some(11 * MILLISECOND), true));
        idling.resume_unpolled();
        assert_eq!((idling.end(13 * MILLISECOND), idling.next_timer()), (3 * MILLISECOND, None));
        let mut without_ticks = Idling::new(0);
        without_ticks.poll_later(9 * MILLISECOND);
        assert_eq!(without_ticks.next_timer(), Some(12 * MILLISECOND));
    }
}
