//! Wakers: queues whose completions trigger requests of another queue. While the device is idled
//! for the woken queue, requests of its waker are injected first, and vice versa.

use super::Bfq;
use super::contexts::SPARE_QUEUE;
use super::state::Marks;
use crate::structures::{List, NIL};
use hoistway_block::Nanos;
use hoistway_block::time::MILLISECOND;

/// A request that comes later than this after a completion was not triggered by it.
const SOON_NS: Nanos = 4 * MILLISECOND;
/// Consecutive detections that confirm a waker.
const DETECTIONS: u32 = 3;
/// These detections must fall within this many times `slice_idle`.
const WINDOW_IDLES: u64 = 128;

/// The waker of a queue, the queue that may be it, and the queues that it wakes itself.
///
/// Invariant: a queue with a waker is on the list `woken` of that one ([`Queues`](super::queues::Queues) holds it).
#[derive(Clone, Debug)]
pub struct Waking {
    waker: u32,
    /// Record and serial number of the queue that may be the waker.
    tentative: (u32, u64),
    detections: u32,
    since_ns: Nanos,
    woken: List,
}

/// What a completion just before a request says about the waker of its queue.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Detected {
    /// Another queue may be it now.
    First,
    Again,
    Confirmed,
}

impl Waking {
    pub const NONE: Self = Self { waker: NIL, tentative: (NIL, 0), detections: 0, since_ns: 0, woken: List::EMPTY };

    /// The waker, or NIL.
    #[inline(always)]
    pub const fn waker(&self) -> u32 {
        self.waker
    }

    #[inline(always)]
    pub const fn has_waker(&self) -> bool {
        self.waker != NIL
    }

    /// The queue has this waker from now on, or none (NIL). Returns the one before.
    #[inline(always)]
    pub(super) const fn replace_waker(&mut self, waker: u32) -> u32 {
        core::mem::replace(&mut self.waker, waker)
    }

    /// No queue is being watched any more.
    pub(super) const fn forget_tentative(&mut self) {
        self.tentative = (NIL, 0);
    }

    /// The queues that it wakes.
    #[inline(always)]
    pub const fn woken(&self) -> &List {
        &self.woken
    }

    #[inline(always)]
    pub(super) const fn woken_mut(&mut self) -> &mut List {
        &mut self.woken
    }

    /// A request of the queue `(record, serial number)` completed shortly before. Detections that began longer than
    /// `window_ns` ago do not count; `None` = all do.
    fn detect(&mut self, queue: (u32, u64), now: Nanos, window_ns: Option<Nanos>) -> Detected {
        let is_recent = window_ns.is_none_or(|window_ns| now <= self.since_ns.saturating_add(window_ns));
        // Records are reused, so the serial number is compared as well.
        if self.tentative == queue && is_recent {
            self.detections = self.detections.wrapping_add(1);
        } else {
            self.tentative = queue;
            (self.detections, self.since_ns) = (1, now);
            return Detected::First;
        }
        if self.detections == DETECTIONS { Detected::Confirmed } else { Detected::Again }
    }

    /// For tests.
    #[cfg(test)]
    pub const fn detections(&self) -> u32 {
        self.detections
    }
}

impl Bfq {
    /// Looks for a waker when the only request of an issuer has just arrived.
    pub(super) fn detect_waker(&mut self, queue: u32) {
        let last = self.queues.last_completed();
        let (now, since_ns) = (self.clock.ns, self.clock.since(self.budgets.peak.last_completion_ns()));
        let serial = self.queues.serial(last);
        let state = self.queues.at_mut(queue);
        let may_wake = self.profile.injection.has_wakers && last != NIL && last != queue && last != SPARE_QUEUE;
        let is_known = last == state.waking.waker();
        if !may_wake || state.has(Marks::SHORT_THINK_TIME) || since_ns >= SOON_NS || is_known {
            return;
        }
        let window_ns = self.settings.slice_idle_ns().saturating_mul(WINDOW_IDLES);
        let limited_ns = self.profile.injection.limits_waker_detection.then_some(window_ns);
        match state.waking.detect((last, serial), now, limited_ns) {
            Detected::First => self.log_queue(queue, "set tentative waker {0}", &[u64::from(last)]),
            Detected::Again => {}
            Detected::Confirmed => {
                let is_joined = self.queues.join_waker(queue, last);
                self.expect(is_joined);
                self.log_queue(queue, "set waker {0}", &[u64::from(last)]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_detections_of_one_queue_confirm_it() {
        let mut waking = Waking::NONE;
        let mut detect = |serial, now, window_ns| waking.detect((2, serial), now, window_ns);
        assert_eq!([detect(1, 0, None), detect(1, 9, None)], [Detected::First, Detected::Again]);
        assert_eq!(detect(2, 9, None), Detected::First, "another queue with the same record");
        assert_eq!([detect(2, 19, Some(10)), detect(2, 20, Some(10))], [Detected::Again, Detected::First]);
        assert_eq!([detect(2, 21, Some(10)), detect(2, 22, Some(10))], [Detected::Again, Detected::Confirmed]);
    }
}
