//! Wakers: queues whose completions trigger requests of another queue. While the device is idled
//! for the woken queue, requests of its waker are injected first, and vice versa.

use super::Bfq;
use super::contexts::SPARE_QUEUE;
use super::state::Marks;
use crate::structures::NIL;
use hoistway_block::Nanos;
use hoistway_block::time::MILLISECOND;

/// A request that comes later than this after a completion was not triggered by it.
const SOON_NS: Nanos = 4 * MILLISECOND;
/// Consecutive detections that confirm a waker.
const DETECTIONS: u32 = 3;
/// These detections must fall within this many times `slice_idle`.
const WINDOW_IDLES: u64 = 128;

impl Bfq {
    /// Looks for a waker when the only request of an issuer has just arrived.
    pub(super) fn detect_waker(&mut self, queue: u32) {
        let last = self.queues.last_completed();
        let (now, since_ns) = (self.clock.ns, self.clock.since(self.budgets.peak.last_completion_ns()));
        let serial = self.queues.at(last).serial;
        let state = self.queues.at(queue);
        let may_wake = self.profile.injection.has_wakers && last != NIL && last != queue && last != SPARE_QUEUE;
        if !may_wake || state.has(Marks::SHORT_THINK_TIME) || since_ns >= SOON_NS || last == state.waker {
            return;
        }
        let window_ns = self.settings.slice_idle_ns().saturating_mul(WINDOW_IDLES);
        // Records are reused, so the serial number is compared as well.
        let is_recent =
            !self.profile.injection.limits_waker_detection || now <= state.waker_since_ns.saturating_add(window_ns);
        let is_same = state.tentative_waker == (last, serial) && is_recent;
        let state = self.queues.at_mut(queue);
        if is_same {
            state.waker_detections = state.waker_detections.wrapping_add(1);
        } else {
            state.tentative_waker = (last, serial);
            (state.waker_detections, state.waker_since_ns) = (1, now);
            self.log_queue(queue, "set tentative waker {0}", &[u64::from(last)]);
        }
        if self.queues.at(queue).waker_detections == DETECTIONS {
            let is_joined = self.queues.join_waker(queue, last);
            self.expect(is_joined);
            self.log_queue(queue, "set waker {0}", &[u64::from(last)]);
        }
    }
}
